"""
The public names of TensorFlow: each is in names.txt, or the package says what to use instead of it.

    walk.py [--write]

tests/compat/tensorflow_names.txt has the names of the pinned release, so that `make check` needs no
TensorFlow; --write makes it anew.
"""

from __future__ import annotations

import inspect
import pathlib
import sys
import textwrap
from typing import Any

import names

_FILE = pathlib.Path(__file__).parents[1] / "compat/tensorflow_names.txt"
# Ours: TensorFlow's. Where several are one module here, a name may be from any of them.
MODULES = {
    "": ("", "data"),
    "audio": ("audio",),
    "bitwise": ("bitwise",),
    "debugging": ("debugging",),
    "errors": ("errors",),
    "experimental": ("data.experimental",),
    "image": ("image",),
    "io": ("io",),
    "linalg": ("linalg",),
    "lookup": ("lookup",),
    "math": ("math",),
    "nn": ("nn",),
    "ragged": ("ragged",),
    "random": ("random",),
    "service": ("data.experimental.service",),
    "signal": ("signal",),
    "sparse": ("sparse",),
    "strings": ("strings",),
    "train": ("train",),
}


def _public(tf: Any, modules: tuple[str, ...]) -> list[str]:
    found: set[str] = set()
    for module in modules:
        owner = tf
        for part in module.split(".") if module else ():
            owner = getattr(owner, part)
        found |= {name for name in dir(owner) if not name.startswith("_")}
    return sorted(found - {"experimental"} if modules[0] else found)


def listing(tf: Any) -> str:
    """The content of the file."""
    lines = [
        "# Public names of TensorFlow 2.16.2, by the module of this package in which somebody looks for",
        "# them; made by tests/check_tf/walk.py. tests/compat/test_names.py: each is built, or the error",
        "# says what to use.",
    ]
    for ours, theirs in MODULES.items():
        lines.append(f"[{('mr.' + ours).rstrip('.')}]")
        text = " ".join(_public(tf, theirs))
        lines += textwrap.wrap(text, 100, break_long_words=False, break_on_hyphens=False)
    methods = [name for name in dir(tf.data.Dataset) if not name.startswith("_")]
    lines += ["[mr.Dataset]", *textwrap.wrap(" ".join(methods), 100)]
    return "\n".join(lines) + "\n"


def bare(mr: Any, tf: Any) -> list[str]:
    """Names of TensorFlow that this package does not have, and of which it says nothing."""
    entries, found = names.entries(), []
    for ours, theirs in MODULES.items():
        owner = getattr(mr, ours) if ours and hasattr(mr, ours) else None if ours else mr
        for name in _public(tf, theirs):
            whole = f"{ours}.{name}".lstrip(".")
            if whole in entries or owner is None or inspect.ismodule(getattr(owner, name, None)):
                continue
            try:
                getattr(owner, name)
            except AttributeError as error:
                if not str(error).endswith(f"{name!r}"):
                    continue
            found.append("mr." + whole)
    methods = {f"Dataset.{name}" for name in dir(tf.data.Dataset) if not name.startswith("_")}
    return found + sorted("mr." + name for name in methods - set(entries))


def main() -> int:
    import millrace as mr
    import tensorflow as tf

    if "--write" in sys.argv:
        _FILE.write_text(listing(tf))
    stale = not _FILE.exists() or _FILE.read_text() != listing(tf)
    if stale:
        print("walk: tests/compat/tensorflow_names.txt is not what TensorFlow has: walk.py --write")
    missing = bare(mr, tf)
    for name in missing:
        print(f"walk: TensorFlow has {name}, and nothing here says what to use")
    print(f"walk: names that nothing speaks of {len(missing)}")
    return 1 if missing or stale else 0


if __name__ == "__main__":
    sys.exit(main())
