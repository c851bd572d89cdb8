"""
Calls of one function with generated arguments, through both packages in several ways: outside of
functions, in a function of `map`, and there with a size that is not known beforehand.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

import outcome
from packages import as_argument, ours, quick, theirs


@dataclass(frozen=True)
class Call:
    """A function's text, the texts of its arguments, and how results are compared."""

    function: str
    arguments: tuple[str, ...] = ()
    slack: float = 0
    ways: tuple[str, ...] = ("outside", "map", "unknown")


Generator = Callable[[random.Random], Call]
GENERATORS: dict[str, Generator] = {}


def cover(names: str, family: Callable[..., Call], *arguments: Any, **options: Any) -> None:
    """Let @family(random, name, ...) make the calls of these @names (without "mr.")."""
    for name in names.split():
        assert name not in GENERATORS, f"{name} has a generator already"

        def generate(r: random.Random, name: str = name) -> Call:
            return family(r, name, *arguments, **options)

        GENERATORS[name] = generate


def of(name: str, *tensors: str, rest: str = "", **options: Any) -> Call:
    """The call m.@name(a, b, ..., @rest) with @tensors as arguments."""
    letters = "abcdefgh"[: len(tensors)]
    inside = ", ".join([*letters, *([rest] if rest else [])])
    return Call(f"lambda {', '.join(letters)}: m.{name}({inside})", tensors, **options)


def text(call: Call, way: str) -> str:
    """The expression that is evaluated."""
    arguments = ", ".join(call.arguments)
    if way == "outside":
        return f"({call.function})({arguments})" if call.arguments else call.function
    if way == "map":
        source = f"D.from_tensors(({arguments},))"
    else:
        parts = ", ".join(f"D.from_tensor_slices({a}).batch(99)" for a in call.arguments)
        source = f"D.zip(({parts},))"
    return f"{source}.map({call.function})"


def ways(call: Call) -> list[str]:
    """Those of the call's ways that its arguments allow."""
    possible = list(call.ways)
    if not call.arguments:
        return [way for way in possible if way == "outside"]
    if "unknown" in possible:
        arrays = [np.asarray(eval(a, ours(lambda names: names))) for a in call.arguments]
        if any(a.ndim == 0 or len(a) == 0 for a in arrays):
            possible.remove("unknown")  # there is no size that could be unknown
    return possible


def run(call: Call, way: str, between: Callable[[], None]) -> tuple[Any, Any]:
    """The outcomes of both packages; @between them something is done."""

    def function(names: dict[str, Any]) -> Any:
        if way != "outside":
            return outcome.common(quick(eval(text(call, way), names)))
        if not call.arguments:
            return outcome.common(eval(call.function, names))
        values = [as_argument(names, eval(a, names)) for a in call.arguments]
        return outcome.common(eval(call.function, names)(*values))

    mine = ours(function)
    between()
    return mine, theirs(function)
