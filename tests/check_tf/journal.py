"""Which pipelines have run, in a file with a line for each family, so that a long run can be stopped."""

from __future__ import annotations

import collections
import json
import pathlib
from typing import Any


class Journal:
    """Ranges of pipelines that have run, and what was counted in them; without a file for this run only."""

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else pathlib.Path(path)
        self._entries: list[dict[str, Any]] = []
        if self._path is not None and self._path.exists():
            text = self._path.read_text()
            whole = text[: text.rfind("\n") + 1]  # the last line may have been cut off
            self._path.write_text(whole)
            self._entries = [json.loads(line) for line in whole.splitlines()]

    def add(self, seed: str, first: int, count: int, counts: dict[str, int]) -> None:
        entry = {"seed": seed, "first": first, "count": count, "counts": counts}
        self._entries.append(entry)
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(json.dumps(entry) + "\n")

    def counts(self, seed: str, first: int, count: int) -> collections.Counter[str]:
        """What was counted of @count pipelines from @first on."""
        found: collections.Counter[str] = collections.Counter()
        for entry in self._of(seed):
            if first <= entry["first"] and entry["first"] + entry["count"] <= first + count:
                found.update(entry["counts"])
        return found

    def missing(self, seed: str, begin: int, end: int) -> list[tuple[int, int]]:
        """The ranges (first, count) between @begin and @end that have not run."""
        done: set[int] = set()
        for entry in self._of(seed):
            done.update(range(entry["first"], entry["first"] + entry["count"]))
        ranges: list[tuple[int, int]] = []
        for number in range(begin, end):
            if number in done:
                continue
            if ranges and sum(ranges[-1]) == number:
                ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
            else:
                ranges.append((number, 1))
        return ranges

    def _of(self, seed: str) -> list[dict[str, Any]]:
        return [entry for entry in self._entries if entry["seed"] == seed]
