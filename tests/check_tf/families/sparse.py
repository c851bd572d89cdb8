"""Functions of sparse tensors, which are made inside of the function from places and values."""

from __future__ import annotations

import random

from calls import Call, cover
from values import integers, tensor

_NUMBERS = ("int32", "int64", "float32", "float64")
_SHAPE = (3, 4)
_MADE = "m.sparse.SparseTensor({}, {}, [3, 4])"


def parts(r: random.Random, dtype: str, pool: str = "small") -> tuple[str, str]:
    """The texts of places in order in a matrix of 3 rows and 4 columns, and of their values."""
    places = sorted({(r.randrange(3), r.randrange(4)) for _ in range(r.randrange(6))})
    flat = [n for place in places for n in place]
    indices = integers(flat, "int64") + ".reshape(-1, 2)"
    return indices, tensor(r, dtype, (len(places),), pool)


def one(
    r: random.Random, body: str, dtypes: tuple[str, ...] = _NUMBERS, pool: str = "small"
) -> Call:
    """@body of the sparse tensor x."""
    function = f"lambda a, b: (lambda x: {body})({_MADE.format('a', 'b')})"
    return Call(function, parts(r, r.choice(dtypes), pool), ways=("outside", "map"))


def two(r: random.Random, body: str, dtypes: tuple[str, ...] = _NUMBERS) -> Call:
    """@body of the sparse tensors x and y."""
    dtype = r.choice(dtypes)
    made = f"{_MADE.format('a', 'b')}, {_MADE.format('c', 'd')}"
    function = f"lambda a, b, c, d: (lambda x, y: {body})({made})"
    return Call(function, (*parts(r, dtype), *parts(r, dtype)), ways=("outside", "map"))


def added(r: random.Random, name: str) -> Call:
    if r.random() < 0.3:
        dense = f"m.zeros([3, 4], b.dtype) + {r.choice(('2', '0'))}"
        return one(r, f"m.{name}(x, {dense})")
    return two(r, f"m.{name}(x, y{r.choice(('', ', 2', ', threshold=0'))})")


def joined(r: random.Random, name: str) -> Call:
    rest = r.choice(("", ", expand_nonconcat_dims=True"))
    lists = r.choice(("[x, y]", "[y, x, y]", "[x]"))
    return two(r, f"m.{name}({r.choice((0, 1, -1, -2))}, {lists}{rest})", (*_NUMBERS, "string"))


def larger(r: random.Random, name: str) -> Call:
    return two(r, f"m.{name}(x, y)")


def reduced(r: random.Random, name: str) -> Call:
    rest = r.choice(("", ", axis=0", ", axis=1", ", axis=-1", ", axis=[0, 1]", ", axis=2"))
    rest += r.choice(("", "", ", keepdims=True"))
    rest += r.choice(("", "", ", output_is_sparse=True"))
    return one(r, f"m.{name}(x{rest})")


def expanded(r: random.Random, name: str) -> Call:
    axis = r.choice(("", ", 0", ", 1", ", 2", ", axis=-1", ", axis=-3", ", 3"))
    return one(r, f"m.{name}(x{axis})", (*_NUMBERS, "string"))


def filled(r: random.Random, name: str) -> Call:
    dtype = r.choice((*_NUMBERS, "string"))
    default = {"string": "'none'"}.get(dtype, "9")
    return one(
        r,
        f"m.{name}(x, m.cast({default}, m.{dtype}))"
        if dtype != "string"
        else f"m.{name}(x, {default})",
        (dtype,),
    )


def mapped(r: random.Random, name: str) -> Call:
    body = r.choice(
        ("m.abs, x", "m.multiply, x, x", "lambda v: v + v, x", "m.add, x, b", "m.reduce_sum, x")
    )
    return one(r, f"m.{name}({body})")


def ordered(r: random.Random, name: str) -> Call:
    places = r.sample([(row, column) for row in range(3) for column in range(4)], r.randrange(6))
    indices = integers([n for place in places for n in place], "int64") + ".reshape(-1, 2)"
    values = tensor(r, r.choice((*_NUMBERS, "string", "bool")), (len(places),), "small")
    function = f"lambda a, b: m.{name}({_MADE.format('a', 'b')})"
    return Call(function, (indices, values), ways=("outside", "map"))


def reshaped(r: random.Random, name: str) -> Call:
    rest = r.choice(("", ", [3, 4]", ", [5, 6]", ", [2, 4]", ", [3, 4, 1]"))
    return one(r, f"m.{name}(x{rest})", (*_NUMBERS, "string"))


def sliced(r: random.Random, name: str) -> Call:
    start = [r.randrange(3), r.randrange(4)]
    size = [r.randrange(4), r.randrange(5)]
    return one(r, f"m.{name}(x, {start}, {size})", (*_NUMBERS, "string"))


def split(r: random.Random, name: str) -> Call:
    return one(
        r, f"m.{name}(sp_input=x, num_split={r.choice((1, 2, 3))}, axis={r.choice((0, 1, -1))})"
    )


def softmax(r: random.Random, name: str) -> Call:
    return one(r, f"m.{name}(x)", ("float32", "float64"), "ordinary")


def product(r: random.Random, name: str) -> Call:
    dtype = r.choice(_NUMBERS)
    rest = r.choice(
        ("", "", ", adjoint_a=True", ", adjoint_b=True", ", adjoint_a=True, adjoint_b=True")
    )
    dense = tensor(r, dtype, r.choice(((4, 2), (3, 2), (2, 4), (2, 3), (4,))), "small")
    function = f"lambda a, b, c: m.{name}({_MADE.format('a', 'b')}, c{rest})"
    return Call(function, (*parts(r, dtype), dense), ways=("outside", "map"))


def indicator(r: random.Random, name: str) -> Call:
    return one(r, f"m.{name}(x, {r.choice((1, 5, 101))})", ("int32", "int64"), "positive")


def counted(r: random.Random, name: str) -> Call:
    rest = r.choice(("", ", axis=-1", ", axis=None"))
    rest += r.choice(("", ", minlength=3", ", maxlength=4", ", binary_output=True"))
    if r.random() < 0.5:
        return one(r, f"m.{name}(x{rest})", ("int32", "int64"), "positive")
    values = (
        integers([r.randrange(6) for _ in range(6)], r.choice(("int32", "int64")))
        + ".reshape(2, 3)"
    )
    if r.random() < 0.3:
        weights = tensor(r, r.choice(("int32", "float32", "float64")), (2, 3), "small")
        return Call(
            f"lambda a, b: m.{name}(a, weights=b{rest})", (values, weights), ways=("outside", "map")
        )
    return Call(f"lambda a: m.{name}(a{rest})", (values,), ways=("outside", "map"))


def eye(r: random.Random, name: str) -> Call:
    return Call(
        f"m.{name}({r.randrange(4)}{r.choice(('', ', 2', ', num_columns=5', ', dtype=m.int32'))})"
    )


def segments(r: random.Random, name: str) -> Call:
    data = tensor(r, r.choice(("float32", "float64")), r.choice(((4,), (4, 2))), "small")
    count = r.randrange(1, 5)
    places = integers([r.randrange(4 + (r.random() < 0.05)) for _ in range(count)])
    ids = sorted(r.randrange(4) for _ in range(count))
    if r.random() < 0.1:
        ids.reverse()
    rest = r.choice(("", ", num_segments=5", ", num_segments=2"))
    function = f"lambda a, b, c: m.{name}(a, b, c{rest})"
    return Call(function, (data, places, integers(ids)), ways=("outside", "map"))


cover("sparse.add", added)
cover("sparse.concat", joined)
cover("sparse.maximum sparse.minimum", larger)
cover("sparse.reduce_max sparse.reduce_sum", reduced)
cover("sparse.expand_dims", expanded)
cover("sparse.fill_empty_rows", filled)
cover("sparse.map_values", mapped)
cover("sparse.reorder", ordered)
cover("sparse.reset_shape", reshaped)
cover("sparse.slice", sliced)
cover("sparse.split", split)
cover("sparse.softmax", softmax)
cover("sparse.sparse_dense_matmul", product)
cover("sparse.to_indicator", indicator)
cover("sparse.bincount", counted)
cover("sparse.eye", eye)
cover("sparse.segment_mean sparse.segment_sqrt_n sparse.segment_sum", segments)
