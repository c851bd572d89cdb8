"""Shapes, places, joins and ranges; assertions of shapes."""

from __future__ import annotations

import random

from calls import Call, cover, of
from values import ALL, FLOATS, NUMBERS, integers, number, shape, tensor

from .reductions import axis


def _dtype_text(dtype: str) -> str:
    return f"m.{dtype}"


def joined(r: random.Random, name: str) -> Call:
    dims = shape(r, 0 if name == "stack" else 1)
    parts = []
    for _ in range(r.randrange(1, 4)):
        parts.append(dims if r.random() < 0.9 else shape(r))
    dtype = r.choice(ALL)
    letters = ", ".join("abc"[: len(parts)])
    rank = len(dims) + (name == "stack")
    place = f", axis={axis(r, rank)}" if name == "concat" or r.random() < 0.7 else ""
    texts = tuple(tensor(r, dtype, part) for part in parts)
    return Call(f"lambda {letters}: m.{name}([{letters}]{place})", texts)


def unstack(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    rest = f"axis={axis(r, len(dims))}" if r.random() < 0.6 else ""
    return of(name, tensor(r, r.choice(ALL), dims), rest=rest, ways=("outside", "map"))


def expand_dims(r: random.Random, name: str) -> Call:
    dims = shape(r)
    return of(name, tensor(r, r.choice(ALL), dims), rest=f"axis={axis(r, len(dims) + 1)}")


def squeeze(r: random.Random, name: str) -> Call:
    dims = shape(r)
    rest = r.choice(("", f"axis={axis(r, len(dims))}", f"axis=[{axis(r, len(dims))}]"))
    return of(name, tensor(r, r.choice(ALL), dims), rest=rest)


def reverse(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    return of(name, tensor(r, r.choice(ALL), dims), rest=f"[{axis(r, len(dims))}]")


def transpose(r: random.Random, name: str) -> Call:
    dims = shape(r)
    perm = list(range(len(dims)))
    r.shuffle(perm)
    if perm and r.random() < 0.1:
        perm[0] = r.randrange(-1, 4)
    return of(name, tensor(r, r.choice(ALL), dims), rest=f"perm={perm}" if r.random() < 0.6 else "")


def sliced(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    begin = [r.randrange(n + 1) for n in dims]
    sizes = [r.choice((-1, r.randrange(n - b + 1))) for n, b in zip(dims, begin)]
    if r.random() < 0.1:
        sizes[0] = dims[0] + 1
    return of(name, tensor(r, r.choice(ALL), dims), rest=f"{begin}, {sizes}")


def filled(r: random.Random, name: str) -> Call:
    dims = shape(r)
    if name == "fill":
        dtype = r.choice(ALL)
        if r.random() < 0.5:
            return Call(f"lambda a: m.fill({list(dims)}, a)", (tensor(r, dtype, ()),))
        return Call(f"lambda a: m.fill(a, {number(r, 'int8')})", (integers(list(dims)),))
    dtype_text = f", m.{r.choice(ALL)}" if r.random() < 0.7 else ""
    if r.random() < 0.5:
        return Call(f"m.{name}({list(dims)}{dtype_text})")
    return Call(f"lambda a: m.{name}(a{dtype_text})", (integers(dims),), ways=("outside", "map"))


def ranged(r: random.Random, name: str) -> Call:
    dtype = r.choice(("int32", "int64", "float32", "float64"))
    parts = [number(r, dtype, "small") for _ in range(r.randrange(1, 4))]
    if r.random() < 0.3:
        extra = f", dtype=m.{r.choice(NUMBERS)}" if r.random() < 0.3 else ""
        return Call(f"m.range({', '.join(parts)}{extra})")
    kind = {"int32": "np.int32", "int64": "np.int64"}.get(dtype, "np." + dtype)
    return of(name, *(f"{kind}({part})" for part in parts))


def linspace(r: random.Random, name: str) -> Call:
    dtype = r.choice(("float32", "float64"))
    return of(
        name, tensor(r, dtype, (), "small"), tensor(r, dtype, (), "small"), rest=str(r.randrange(6))
    )


def boolean_mask(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    mask = dims[: r.randrange(1, len(dims) + 1)]
    if r.random() < 0.1:
        mask = shape(r)
    return of(name, tensor(r, r.choice(ALL), dims), tensor(r, "bool", mask))


def repeat(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    place = r.randrange(len(dims))
    array = tensor(r, r.choice(ALL), dims)
    if r.random() < 0.5:
        rest = f"{r.randrange(4)}" + (f", axis={place}" if r.random() < 0.7 else "")
        return of(name, array, rest=rest)
    counts = [r.randrange(3) for _ in range(dims[place])]
    return Call(f"lambda a, b: m.repeat(a, b, axis={place})", (array, integers(counts)))


def searchsorted(r: random.Random, name: str) -> Call:
    dtype = r.choice(("int32", "int64", "float32", "float64"))
    ordered = sorted(r.randrange(-9, 9) for _ in range(r.randrange(6)))
    place = f"side={r.choice(('left', 'right'))!r}" if r.random() < 0.6 else ""
    kind = f", out_type=m.{r.choice(('int32', 'int64'))}" if place and r.random() < 0.3 else ""
    texts = (f"np.array({ordered}, np.{dtype})", tensor(r, dtype, shape(r, 1, 1), "small"))
    return of(name, *texts, rest=place + kind)


def sequence_mask(r: random.Random, name: str) -> Call:
    rest = r.choice(("", "maxlen=4", "maxlen=4, dtype=m.float32", "dtype=m.int32"))
    lengths = tensor(r, r.choice(("int32", "int64")), pool="small")
    return of(name, lengths, rest=rest)


def ensure_shape(r: random.Random, name: str) -> Call:
    dims = shape(r)
    wanted: list[int | None] = [r.choice((n, n, None)) for n in dims]
    if r.random() < 0.2:
        wanted = list(shape(r))
    return of(name, tensor(r, r.choice(ALL), dims), rest=str(wanted))


def cast(r: random.Random, name: str) -> Call:
    one, two = r.choice(ALL[:-1]), r.choice(ALL[:-1])
    return of(name, tensor(r, one, pool="positive"), rest=f"m.{two}")


def gather(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    place = axis(r, len(dims))
    size = dims[place] if -len(dims) <= place < len(dims) else 1
    indices = [r.randrange(-1 if r.random() < 0.1 else 0, max(size, 1)) for _ in range(3)]
    rest = f"axis={place}" if place or r.random() < 0.5 else ""
    return of(name, tensor(r, r.choice(ALL), dims), integers(indices), rest=rest)


def matmul(r: random.Random, name: str) -> Call:
    dtype = r.choice(("int32", "int64", "float32", "float64"))
    n, k, p = (r.randrange(4) for _ in range(3))
    rest = [f"{flag}=True" for flag in ("transpose_a", "transpose_b") if r.random() < 0.2]
    one = (k, n) if "transpose_a=True" in rest else (n, k)
    two = (p, k) if "transpose_b=True" in rest else (k, p)
    texts = (tensor(r, dtype, one, "small"), tensor(r, dtype, two, "small"))
    return of(name, *texts, rest=", ".join(rest))


def pad(r: random.Random, name: str) -> Call:
    dims = shape(r)
    paddings = [[r.randrange(3), r.randrange(3)] for _ in dims]
    rest = str(paddings) if paddings else "np.zeros((0, 2), np.int32)"
    return of(name, tensor(r, r.choice(NUMBERS), dims), rest=rest)


def one_hot(r: random.Random, name: str) -> Call:
    dims = shape(r)
    rest = r.choice(("4", "3, on_value=5, off_value=-1", "4, axis=0", "4, dtype=m.int32"))
    return of(name, tensor(r, r.choice(("int32", "int64", "uint8")), dims, "small"), rest=rest)


def tile(r: random.Random, name: str) -> Call:
    dims = shape(r)
    return of(
        name, tensor(r, r.choice(ALL), dims), rest=str([r.randrange(3) for _ in dims] or "[]")
    )


def reshape(r: random.Random, name: str) -> Call:
    dims = r.choice(((6,), (2, 3), (1, 6), (2, 1, 3), ()))
    return of(
        name, tensor(r, r.choice(ALL), dims), rest=r.choice(("[-1]", "[3, 2]", "[1, -1]", "[]"))
    )


def vectorized_map(r: random.Random, name: str) -> Call:
    function = r.choice(("lambda x: x + x", "lambda x: (x, x * x)", "lambda x: m.reduce_sum(x)"))
    dims = shape(r, 1)
    dtype = r.choice(("int32", "float32"))
    return Call(f"lambda a: m.vectorized_map({function}, a)", (tensor(r, dtype, dims, "small"),))


def roll(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    return of(
        name, tensor(r, r.choice(NUMBERS), dims), rest=f"{r.randrange(-4, 5)}, {axis(r, len(dims))}"
    )


def eye(r: random.Random, name: str) -> Call:
    return Call(f"m.{name}({r.randrange(4)}{r.choice(('', ', 3', ', dtype=m.int32'))})")


cover("stack concat", joined)
cover("unstack", unstack)
cover("expand_dims", expand_dims)
cover("squeeze", squeeze)
cover("reverse", reverse)
cover("transpose", transpose)
cover("slice", sliced)
cover("ones zeros fill", filled)
cover("range", ranged)
cover("linspace", linspace)
cover("boolean_mask", boolean_mask)
cover("repeat", repeat)
cover("searchsorted", searchsorted)
cover("sequence_mask", sequence_mask)
cover("ensure_shape", ensure_shape)
cover("cast", cast)
cover("gather", gather)
cover("matmul linalg.matmul", matmul)
cover("pad", pad)
cover("one_hot", one_hot)
cover("tile", tile)
cover("reshape", reshape)
cover("vectorized_map", vectorized_map)
cover("roll", roll)
cover("eye linalg.eye", eye)
