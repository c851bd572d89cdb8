"""tests/compat/names.txt, as it concerns this tool."""

from __future__ import annotations

import pathlib

_FILE = pathlib.Path(__file__).parents[1] / "compat/names.txt"


def entries() -> dict[str, str]:
    """{name without "mr.": same, differs or absent}."""
    lines = (line.split("#")[0].split() for line in _FILE.read_text().splitlines())
    return {line[0].removeprefix("mr."): line[1] for line in lines if line}
