"""Tables for notebooks."""

from __future__ import annotations

import html
from typing import Mapping


def html_table(title: str, rows: Mapping[str, str]) -> str:
    """A table of two columns; names and values are text."""
    body = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption>{html.escape(title)}</caption>{body}</table>"
