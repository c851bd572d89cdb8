"""Texts of arguments: arrays of any dtype and shape, with the values at which mistakes are made."""

from __future__ import annotations

import math
import random

import numpy as np

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
SIGNED = INTEGERS[:4]
FLOATS = ("float16", "float32", "float64")
NUMBERS = INTEGERS + FLOATS
ALL = NUMBERS + ("bool", "string")
SHAPES = [(), (), (1,), (3,), (4,), (2, 3), (1, 3), (2, 1), (2, 1, 3), (2, 3, 2), (0,), (2, 0)]

STRINGS = [
    b"",
    b"a",
    b"Hello, World",
    b" two  words ",
    b"\t\n",
    "zażółć".encode(),
    "日本語 x".encode(),
    b"\xff\x00\xfe",
    b"3.5",
    b"-7",
    b"1e3",
    b"nan",
    b" 12 ",
    b"0x1F",
    b"aXbXc",
]
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 123.25, 6e4, 1e-30, -1e30]
_SPECIAL = [math.nan, math.inf, -math.inf]


def shape(r: random.Random, rank_min: int = 0, rank_max: int = 3) -> tuple[int, ...]:
    return r.choice([s for s in SHAPES if rank_min <= len(s) <= rank_max])


def shapes_that_broadcast(r: random.Random) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Two shapes, that mostly go together."""
    one = shape(r)
    if r.random() < 0.4:
        return one, one
    if r.random() < 0.15:
        return one, shape(r)
    other = tuple(1 if r.random() < 0.3 else n for n in one)[r.randrange(len(one) + 1) :]
    return (one, other) if r.random() < 0.5 else (other, one)


def number(r: random.Random, dtype: str, pool: str = "any") -> str:
    """
    The text of one value. Pools: any; finite; small (numbers that sums and products keep exact);
    positive; unit (0 to 1); ordinary (no edges: what rounds well).
    """
    if dtype == "bool":
        return r.choice(["True", "False"])
    if dtype == "string":
        return repr(r.choice(STRINGS))
    if dtype in FLOATS:
        return _float(r, dtype, pool)
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    if pool in ("small", "ordinary", "unit"):
        return str(max(least, r.randrange(-9, 10)))
    if pool == "positive":
        return str(r.choice([1, 2, 3, 7, 100]))
    edges = [0, 0, 1, 2, 3, 5, 7, 11, 100, most, most - 1, least, least + 1, max(least, -1)]
    return str(r.choice(edges) if r.random() < 0.6 else max(least, r.randrange(-50, 100)))


def _float(r: random.Random, dtype: str, pool: str) -> str:
    if pool == "small":
        value = r.randrange(-36, 37) / 4
    elif pool == "unit":
        value = r.choice([0.0, 1.0, 0.5, r.random(), r.random()])
    elif pool == "positive":
        value = r.choice([0.25, 1.0, 2.0, 10.0, r.random() + 0.01, r.random() * 50 + 0.01])
    elif pool == "ordinary":
        value = r.uniform(-4, 4)
    else:
        special = _SPECIAL if pool == "any" and r.random() < 0.5 else []
        value = r.choice([*_FLOATS, *special, r.gauss(0, 3), r.gauss(0, 3)])
    with np.errstate(over="ignore"):
        return repr(float(np.dtype(dtype).type(value)))


def tensor(
    r: random.Random, dtype: str, dims: tuple[int, ...] | None = None, pool: str = "any"
) -> str:
    """The text of an array."""
    dims = shape(r) if dims is None else dims
    values = [number(r, dtype, pool) for _ in range(math.prod(dims))]
    if dtype == "string":
        inner = "".join(value + ", " for value in values)
        return f"strings({inner}shape={dims})"
    kind = {"bool": "np.bool_"}.get(dtype, "np." + dtype)
    if dims == ():
        return f"{kind}({values[0]})"
    return f"np.array([{', '.join(values)}], {kind})" + (
        f".reshape({dims})" if len(dims) > 1 or 0 in dims else ""
    )


def integers(values: list[int] | tuple[int, ...], dtype: str = "int32") -> str:
    """The text of a vector of these integers."""
    return f"np.array({list(values)}, np.{dtype})"
