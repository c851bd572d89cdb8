"""
The text of the demo: the licences that each Debian has, a paragraph a line, and the words in it.
"""

from __future__ import annotations

import collections
import pathlib
import re

# Each may be copied verbatim, as it says itself.
SOURCE = pathlib.Path("/usr/share/common-licenses")  # package base-files
WORDS = 4000  # of the vocabulary; the others are one


def paragraphs() -> list[str]:
    found = []
    for path in sorted(SOURCE.iterdir()):
        if not path.is_symlink():  # "GPL" is "GPL-3" once more
            for paragraph in re.split(r"\n\s*\n", path.read_text(errors="replace")):
                words = re.findall(r"[a-z']+", paragraph.lower())
                if words:
                    found.append(" ".join(words))
    return found


def write(directory: pathlib.Path) -> tuple[int, int]:
    """Write text.txt and words.txt to @directory; how many paragraphs and words there are."""
    lines = paragraphs()
    counts = collections.Counter(word for line in lines for word in line.split())
    (directory / "text.txt").write_text("\n".join(lines) + "\n")
    words = [word for word, _ in counts.most_common(WORDS)]
    (directory / "words.txt").write_text("\n".join(words) + "\n")
    return len(lines), sum(counts.values())
