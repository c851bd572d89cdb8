"""Ragged and sparse tensors, which are made inside of the function from their parts."""

from __future__ import annotations

import random

from calls import Call, cover
from values import integers, tensor

_DTYPES = ("int32", "int64", "float32", "string", "bool")


def splits(r: random.Random, rows: int = 3) -> tuple[str, int]:
    """The text of row splits, and how many values they want."""
    ends = [0]
    for _ in range(rows):
        ends.append(ends[-1] + r.randrange(4))
    return integers(ends, "int64"), ends[-1]


def ragged(r: random.Random, body: str, dtypes: tuple[str, ...] = _DTYPES) -> Call:
    """@body of the ragged tensor x."""
    places, size = splits(r)
    values = tensor(r, r.choice(dtypes), (size,), "small")
    function = f"lambda a, b: (lambda x: {body})(m.RaggedTensor.from_row_splits(a, b))"
    return Call(function, (values, places), ways=("outside", "map"))


def literal(r: random.Random, name: str) -> Call:
    rows = r.choice(
        (
            "[[1, 2], [], [3]]",
            "[[[1], []], [[2, 3]]]",
            "[]",
            "[['a'], ['b', '']]",
            "[[1.5], [2]]",
            "[[1, 2], [3, 4]]",
            "[[1], 2]",
        )
    )
    rest = r.choice(("", ", dtype=m.int64", ", ragged_rank=1", ", row_splits_dtype=m.int32"))
    return Call(f"m.{name}({rows}{rest})")


def flat_values(r: random.Random, name: str) -> Call:
    body = r.choice(
        ("m.multiply, x, x", "lambda v: v + v, x", "m.reduce_sum, x", "m.math.add, x, 1")
    )
    return ragged(r, f"m.{name}({body})", ("int32", "float32"))


def masked(r: random.Random, name: str) -> Call:
    places, size = splits(r)
    values, mask = tensor(r, r.choice(_DTYPES), (size,)), tensor(r, "bool", (size,))
    if r.random() < 0.5:
        function = f"lambda a, b: m.{name}(a, b)"
        return Call(function, (tensor(r, "int32", (2, 3)), tensor(r, "bool", (2, 3))))
    rows = "m.RaggedTensor.from_row_splits({}, c)"
    function = f"lambda a, b, c: m.{name}({rows.format('a')}, {rows.format('b')})"
    return Call(function, (values, mask, places), ways=("outside", "map"))


def rows(r: random.Random, name: str) -> Call:
    """Functions that also take ragged tensors."""
    body = r.choice(
        (
            "x.to_tensor()",
            "x.row_lengths()",
            "x.value_rowids()",
            "x.nrows()",
            "x.bounding_shape()",
            "m.reduce_sum(x, axis=1)",
            "m.reduce_max(x, axis=1)",
            "m.concat([x, x], axis=1)",
            "x[1]",
            "x[1:]",
            "x + x",
            "x.to_sparse()",
        )
    )
    return ragged(r, body, ("int32", "float32", "int64"))


def sparse(r: random.Random, name: str) -> Call:
    """A sparse tensor, some of whose places may be out of order or out of bounds."""
    count = r.randrange(4)
    places = sorted({(r.randrange(3), r.randrange(4)) for _ in range(count)})
    if places and r.random() < 0.1:
        places = places[::-1] if r.random() < 0.5 else [(5, 0), *places[1:]]
    flat = [n for place in places for n in place]
    indices = integers(flat, "int64") + ".reshape(-1, 2)"
    values = tensor(r, r.choice(_DTYPES), (len(places),), "small")
    made = "m.sparse.SparseTensor(a, b, [3, 4])"
    body = {
        "sparse.SparseTensor": made,
        "sparse.to_dense": f"m.sparse.to_dense({made}{r.choice(('', ', validate_indices=True'))})",
        "sparse.retain": f"m.sparse.retain({made}, m.not_equal(b, b))",
    }[name]
    return Call(f"lambda a, b: {body}", (indices, values), ways=("outside", "map"))


def from_dense(r: random.Random, name: str) -> Call:
    return Call(f"lambda a: m.{name}(a)", (tensor(r, r.choice(_DTYPES), pool="small"),))


def ranges(r: random.Random, name: str) -> Call:
    dtype = r.choice(("int32", "int64", "float32"))
    starts, limits = (tensor(r, dtype, (3,), "small") for _ in "ab")
    rest = r.choice(
        ("", ", b", ", b", ", b, 2", ", b, -1", ", b, row_splits_dtype=m.int32", ", b, 0")
    )
    return Call(f"lambda a, b: m.{name}(a{rest})", (starts, limits), ways=("outside", "map"))


def stacked(r: random.Random, name: str) -> Call:
    axis = r.choice(("", ", axis=0", ", axis=1", ", axis=2", ", axis=-1"))
    lists = r.choice(("[x, x]", "[x]", "[x, x[:2], x]" if "axis" not in axis else "[x, x]"))
    return ragged(r, f"m.{name}({lists}{axis})")


def as_splits(r: random.Random, name: str) -> Call:
    ids = sorted(r.randrange(5) for _ in range(r.randrange(6)))
    if r.random() < 0.1:
        ids.reverse()
    rest = r.choice(("", ", 7", ", num_segments=2", ", out_type=m.int32"))
    dtype = r.choice(("int32", "int64"))
    return Call(f"lambda a: m.{name}(a{rest})", (integers(ids, dtype),), ways=("outside", "map"))


def as_ids(r: random.Random, name: str) -> Call:
    rest = r.choice(("", ", out_type=m.int32", ", out_type=m.int64"))
    return Call(f"lambda a: m.{name}(a{rest})", (splits(r)[0],), ways=("outside", "map"))


def partitions(r: random.Random, name: str) -> Call:
    data = tensor(r, r.choice(_DTYPES), r.choice(((4,), (4, 2))), "small")
    places = integers([r.randrange(3) for _ in range(4)])
    function = f"lambda a, b: m.{name}(a, b, {r.choice((3, 4))})"
    return Call(function, (data, places), ways=("outside", "map"))


cover("ragged.constant", literal)
cover("ragged.map_flat_values", flat_values)
cover("ragged.boolean_mask", masked)
cover("RaggedTensor", rows)
cover("sparse.SparseTensor sparse.to_dense sparse.retain", sparse)
cover("sparse.from_dense", from_dense)
cover("ragged.range", ranges)
cover("ragged.stack", stacked)
cover("ragged.segment_ids_to_row_splits", as_splits)
cover("ragged.row_splits_to_segment_ids", as_ids)
cover("ragged.stack_dynamic_partitions", partitions)
