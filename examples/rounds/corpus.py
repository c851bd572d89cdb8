"""The text of the demo: the licences that each Debian has, a paragraph a line, and the words in it."""

import collections
import pathlib
import re

SOURCE = pathlib.Path("/usr/share/common-licenses")  # package base-files; each may be copied verbatim, as it says itself
WORDS = 4000  # of the vocabulary; the others are one


def paragraphs():
    found = []
    for path in sorted(SOURCE.iterdir()):
        if not path.is_symlink():  # "GPL" is "GPL-3" once more
            for paragraph in re.split(r"\n\s*\n", path.read_text(errors="replace")):
                words = re.findall(r"[a-z']+", paragraph.lower())
                if words:
                    found.append(" ".join(words))
    return found


def write(directory):
    """Write text.txt and words.txt to @directory; how many paragraphs and words there are."""
    lines = paragraphs()
    counts = collections.Counter(word for line in lines for word in line.split())
    (directory / "text.txt").write_text("\n".join(lines) + "\n")
    (directory / "words.txt").write_text("\n".join(word for word, _ in counts.most_common(WORDS)) + "\n")
    return len(lines), sum(counts.values())
