"""Reductions over axes, and what runs along an axis."""

from __future__ import annotations

import random

from calls import Call, cover, of
from values import ALL, FLOATS, INTEGERS, NUMBERS, shape, tensor


def axis(r: random.Random, rank: int) -> int:
    """An axis of a tensor, now and then one that it has not."""
    return (
        r.randrange(-rank - 1, rank + 1) if r.random() < 0.1 else r.randrange(-rank, max(rank, 1))
    )


def reduction(
    r: random.Random, name: str, dtypes: tuple[str, ...], pool: str = "small", keep: bool = True
) -> Call:
    dtype = r.choice(ALL) if r.random() < 0.1 else r.choice(dtypes)
    dims = shape(r)
    rest = []
    if r.random() < 0.7:
        axes = r.choice((str(axis(r, len(dims))), str([axis(r, len(dims))]), "None"))
        if len(dims) > 1 and r.random() < 0.2:
            axes = str(sorted(r.sample(range(len(dims)), 2)))
        rest.append(f"axis={axes}")
    if keep and r.random() < 0.3:
        rest.append("keepdims=True")
    return of(name, tensor(r, dtype, dims, pool), rest=", ".join(rest))


def argument(r: random.Random, name: str) -> Call:
    dtype = r.choice(ALL) if r.random() < 0.1 else r.choice(NUMBERS)
    dims = shape(r, 1)
    rest = [f"axis={axis(r, len(dims))}"] if r.random() < 0.7 else []
    if r.random() < 0.3:
        rest.append(f"output_type=m.{r.choice(('int32', 'int64'))}")
    return of(name, tensor(r, dtype, dims, "finite"), rest=", ".join(rest))


def cumulative(r: random.Random, name: str, dtypes: tuple[str, ...] = NUMBERS) -> Call:
    dims = shape(r, 1)
    rest = [f"axis={axis(r, len(dims))}"] if r.random() < 0.7 else []
    rest += [f"{flag}=True" for flag in ("exclusive", "reverse") if r.random() < 0.3]
    return of(name, tensor(r, r.choice(dtypes), dims, "small"), rest=", ".join(rest))


def along(r: random.Random, name: str, pool: str = "ordinary") -> Call:
    """What is computed of the values along an axis: softmax and its like."""
    dims = shape(r, 1)
    rest = f"axis={axis(r, len(dims))}" if r.random() < 0.5 else ""
    return of(name, tensor(r, r.choice(FLOATS), dims, pool), rest=rest)


def top_k(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    rest = f"k={r.randrange(0, 5)}" + (", sorted=True" if r.random() < 0.3 else "")
    return of(name, tensor(r, r.choice(NUMBERS), dims, "finite"), rest=rest)


def sorting(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    rest = [f"axis={axis(r, len(dims))}"] if r.random() < 0.6 else []
    if r.random() < 0.4:
        rest.append(f"direction={r.choice(('ASCENDING', 'DESCENDING', 'up'))!r}")
    if name.endswith("argsort"):
        rest.append("stable=True")
    dtype = r.choice(("int32", "int64", "float32", "float64", "uint8"))
    return of(name, tensor(r, dtype, dims, "small"), rest=", ".join(rest))


def segments(r: random.Random, name: str) -> Call:
    dims = shape(r, 1)
    ids = sorted(r.randrange(4) for _ in range(dims[0]))
    dtype = r.choice(("int32", "int64", "float32", "float64"))
    rest = ""
    if "unsorted" in name:
        r.shuffle(ids)
        rest = f"num_segments={r.randrange(3, 6)}"
    ids_text = f"np.array({ids}, np.{r.choice(('int32', 'int64'))})"
    return of(name, tensor(r, dtype, dims, "small"), ids_text, rest=rest)


def bincount(r: random.Random, name: str) -> Call:
    values = f"np.array({[r.randrange(6) for _ in range(r.randrange(6))]}, np.int32)"
    options = ("", "minlength=4", "maxlength=3", "minlength=2, maxlength=5", "binary_output=True")
    return of(name, values, rest=r.choice(options))


def ordered(r: random.Random, name: str) -> Call:
    return of(name, tensor(r, r.choice(("int32", "float32")), pool="small"))


def permutation(r: random.Random, name: str) -> Call:
    values = list(range(r.randrange(6)))
    r.shuffle(values)
    if values and r.random() < 0.2:
        values[0] = r.randrange(-1, 7)
    return of(name, f"np.array({values}, np.{r.choice(('int32', 'int64'))})")


cover("reduce_sum math.reduce_sum reduce_prod math.reduce_prod", reduction, NUMBERS)
cover("reduce_max math.reduce_max reduce_min math.reduce_min", reduction, NUMBERS, "finite")
cover("reduce_mean math.reduce_mean", reduction, NUMBERS)
cover("reduce_all math.reduce_all reduce_any math.reduce_any", reduction, ("bool",))
cover("math.reduce_std math.reduce_variance", reduction, FLOATS, "ordinary")
cover("reduce_logsumexp math.reduce_logsumexp", reduction, FLOATS, "ordinary")
cover("math.reduce_euclidean_norm norm", reduction, FLOATS, "ordinary")
cover("math.count_nonzero", reduction, ALL, "small")
cover("argmax math.argmax argmin math.argmin", argument)
cover("cumsum math.cumsum math.cumprod", cumulative)
cover("math.cumulative_logsumexp", cumulative, FLOATS)
cover("math.softmax nn.softmax math.log_softmax nn.log_softmax", along)
cover("math.l2_normalize nn.l2_normalize linalg.l2_normalize", along)
cover("math.zero_fraction nn.zero_fraction", ordered)
cover("math.top_k nn.top_k", top_k)
cover("sort argsort", sorting)
cover(
    "math.segment_max math.segment_mean math.segment_min math.segment_prod math.segment_sum"
    " math.unsorted_segment_max math.unsorted_segment_mean math.unsorted_segment_min"
    " math.unsorted_segment_prod math.unsorted_segment_sqrt_n math.unsorted_segment_sum",
    segments,
)
cover("math.bincount", bincount)
cover("math.is_non_decreasing math.is_strictly_increasing", ordered)
cover("math.invert_permutation", permutation)
