"""
The differences that are meant: a pattern of what the tool would print, and the row of
docs/use/differences-from-tf-data.md that it belongs to.

A pattern is a regular expression that is searched in `name (kind) [way] text => ours | theirs`, so it can
name a function, an argument, and what each side says. The row is a text that stands in the page: the
names with which a row begins, or a sentence of "In general".
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass

_PAGE = pathlib.Path(__file__).parents[2] / "docs/use/differences-from-tf-data.md"


@dataclass(frozen=True)
class Difference:
    """What a call or a pipeline came to in both packages."""

    name: str
    kind: str
    way: str
    text: str
    ours: str
    theirs: str

    def __str__(self) -> str:
        return f"{self.name} ({self.kind}) [{self.way}] {self.text} => {self.ours} | {self.theirs}"


_LITERAL = "A Python literal takes the tensor's dtype if it fits."
_KNOWN = "Sizes and cardinalities may be known where TensorFlow leaves them open."

TABLE: list[tuple[str, str]] = [
    (r"^\S+ \(more is known\)", _KNOWN),
    # The literal comes first: TensorFlow makes an int32 or a float32 of it.
    (r"^\S+ \(differs\) \[\w+\] .*lambda a: m\.[\w.]+\(-?[\d.e]+, a\)", _LITERAL),
    (r" => refuses \(TypeError: the literal \S+ does not fit (u?int|float)\d+ ", _LITERAL),
    (r"\[outside\].* => refuses .* dtypes \w+ and \w+: cast one", "A NumPy value keeps its dtype"),
]
_PATTERNS = [(re.compile(pattern, re.DOTALL), row) for pattern, row in TABLE]


def row_of(difference: Difference) -> str | None:
    """The row that explains it; None if nothing does."""
    report = str(difference)
    return next((row for pattern, row in _PATTERNS if pattern.search(report)), None)


def rows_that_are_missing() -> list[str]:
    """Rows of the table that the page does not have."""
    page = " ".join(_PAGE.read_text().split())
    return [row for _, row in TABLE if row not in page]
