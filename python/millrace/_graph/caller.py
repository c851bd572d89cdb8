"""Which line of the user's program is at work, and what it calls: errors of elements name them."""

from __future__ import annotations

import os
import sys
import types

_NAME_BYTES = 64  # of a file; with the line's number below MR_LOCATION_BYTES_MAX

Caller = tuple[bytes | None, bytes | None]
"""A line, and the name of what it calls; None: not known."""

# What stands in the program where no function of a name is called.
_SYMBOLS = {
    "add": b"+",
    "complex_add": b"+",
    "complex_div": b"/",
    "complex_mul": b"*",
    "complex_sub": b"-",
    "div": b"/",
    "equal": b"==",
    "floor_div": b"//",
    "floor_mod": b"%",
    "gather": b"[]",
    "greater": b">",
    "greater_equal": b">=",
    "less": b"<",
    "less_equal": b"<=",
    "matmul": b"@",
    "mul": b"*",
    "neg": b"-",
    "not_equal": b"!=",
    "pow": b"**",
    "slice_axis": b"[]",
    "string_join": b"+",
    "sub": b"-",
}
_HAND_ON = frozenset(["apply"])  # what they call is what the user wrote
# So is what these call, if it is not the user's.
_TRACING = frozenset(["call", "trace", "trace_body"])


def symbol_of(op: str) -> bytes | None:
    """What a program writes for tensor operator @op if it calls no function; None: its name."""
    return _SYMBOLS.get(op)


def caller(of_dataset: bool = False) -> Caller:
    """
    The innermost line outside of this package, as "project/train.py:41", and the public function
    that it calls, as "decode_jpeg"; None: there is none. A dataset within a function of the
    package's own is part of what the line calls.
    """
    frame = sys._getframe(2)
    inside = frame.f_code
    traced = None
    while True:
        filename = frame.f_code.co_filename
        name = _names.get(filename)
        if name is None:
            name = _shown(filename)
        if name:
            return b"%b:%d" % (name, frame.f_lineno), _called(traced, inside, of_dataset)
        if frame.f_back is None:
            return None, None
        if traced is None and frame.f_code.co_name in _TRACING:
            traced = inside
        inside = frame.f_code
        frame = frame.f_back


def _called(
    traced: types.CodeType | None, outermost: types.CodeType, of_dataset: bool
) -> bytes | None:
    """The name of what was handed over to be traced, or else of what the line calls."""
    name = _public(traced or outermost)
    return _public(outermost) if name is None and of_dataset else name


def _public(code: types.CodeType) -> bytes | None:
    """The name of a function of this package that is public; None: it is none."""
    name = code.co_name
    hidden = name.startswith(("_", "<")) or name in _HAND_ON or "<locals>" in code.co_qualname
    return None if hidden else name.encode()


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
