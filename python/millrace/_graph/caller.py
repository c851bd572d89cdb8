"""Which line of the user's program is at work: errors of elements name it."""

from __future__ import annotations

import os
import sys

_NAME_BYTES = 64  # of a file; with the line's number below MR_LOCATION_BYTES_MAX


def caller() -> bytes | None:
    """
    The innermost line outside of this package, as "project/train.py:41"; None: there is none.
    """
    frame = sys._getframe(2)
    while True:
        filename = frame.f_code.co_filename
        name = _names.get(filename)
        if name is None:
            name = _shown(filename)
        if name:
            return b"%b:%d" % (name, frame.f_lineno)
        if frame.f_back is None:
            return None
        frame = frame.f_back


# As code objects have it: the files of this package, and nothing of the user's.
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(caller.__code__.co_filename)), "")

_names: dict[str, bytes] = {}  # by the names that code objects have, of which there are few


def _shown(filename: str) -> bytes:
    """
    The last two parts of @filename, which say enough and nothing of somebody's home; of names that
    are too long, their end. Empty: a file of this package.
    """
    if filename.startswith(_PACKAGE):
        _names[filename] = b""
        return b""
    cell = _cell(filename)
    if cell is not None:
        return cell.encode()  # another one when it has run again
    name = filename if filename.startswith("<") else "/".join(filename.strip("/").split("/")[-2:])
    plain = "".join(c if c.isprintable() else "?" for c in name)
    while len(plain.encode()) > _NAME_BYTES:
        plain = plain[1:]
    _names[filename] = plain.encode() or b"?"
    return _names[filename]


def _cell(filename: str) -> str | None:
    """What IPython calls the cell that it has compiled as @filename: "In[3]"; None: it has not."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    label = getattr(getattr(shell, "compile", None), "format_code_name", lambda name: None)
    named: tuple[str, str] | None = label(filename)
    return named[1] if named else None
