"""
Traced functions: operators against NumPy, TensorFlow's dtype rules, and refusals that name the way
out.
"""

import math
import random
import warnings

import numpy as np
import pytest

import millrace as mr

FLOATS = [np.float32, np.float64]
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
SIGNED = INTS[:4]
RNG = np.random.default_rng(7)


def over(function, *arrays):
    """@function mapped over the rows of @arrays; the results as one array."""
    ds = mr.Dataset.from_tensor_slices(tuple(arrays)).map(function)
    rows = list(ds)
    assert len(rows) == len(arrays[0])
    return np.stack(rows)


def sample(dtype, shape=(7, 3), low=-5, high=6):
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        return RNG.uniform(low, high, shape).astype(dtype)
    if dtype.kind == "b":
        return RNG.integers(0, 2, shape).astype(bool)
    return RNG.integers(max(low, 0) if dtype.kind == "u" else low, high, shape).astype(dtype)


def check(ours, numpys, *arrays, rtol=1e-6):
    """
    The same from n rows at once, from one row at a time (eagerly), and from NumPy, dtype included.
    """
    expected = np.stack([np.asarray(numpys(*row)) for row in zip(*arrays)])
    got = over(ours, *arrays)
    assert got.dtype == expected.dtype
    one = np.asarray(ours(*[a[0] for a in arrays]))
    assert one.dtype == expected.dtype
    if expected.dtype.kind == "f":
        rtol = max(rtol, 4 * np.finfo(expected.dtype).eps)
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(one, expected[0], rtol=rtol, atol=rtol)
    else:
        np.testing.assert_array_equal(got, expected)
        np.testing.assert_array_equal(one, expected[0])


@pytest.mark.parametrize("dtype", INTS + FLOATS)
@pytest.mark.parametrize(
    "ours,numpys",
    [
        (lambda x, y: x + y, np.add),
        (lambda x, y: x - y, np.subtract),
        (lambda x, y: x * y, np.multiply),
        (mr.maximum, np.maximum),
        (mr.minimum, np.minimum),
        (lambda x, y: x < y, np.less),
        (lambda x, y: x <= y, np.less_equal),
        (lambda x, y: x > y, np.greater),
        (lambda x, y: x >= y, np.greater_equal),
        (lambda x, y: mr.equal(x, y), np.equal),
        (mr.not_equal, np.not_equal),
        (mr.math.squared_difference, lambda x, y: (x - y) * (x - y)),
    ],
)
def test_binary(dtype, ours, numpys):
    with np.errstate(over="ignore"):
        check(ours, numpys, sample(dtype), sample(dtype))


@pytest.mark.parametrize("dtype", INTS + FLOATS)
def test_floor_division_and_remainder(dtype):
    x, y = sample(dtype), sample(dtype)
    y[y == 0] = 3
    check(mr.math.floordiv, np.floor_divide, x, y, rtol=1e-5)
    check(mr.math.floormod, np.mod, x, y, rtol=1e-4)


@pytest.mark.parametrize(
    "dtype,result",
    [
        (np.int8, np.float32),
        (np.uint16, np.float32),
        (np.int32, np.float64),
        (np.int64, np.float64),
        (np.float32, np.float32),
        (np.float64, np.float64),
    ],
)
def test_true_division_follows_tensorflows_dtypes(dtype, result):
    x, y = sample(dtype), sample(dtype, low=1)
    check(mr.divide, lambda a, b: (a.astype(result) / b.astype(result)), x, y)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    "ours,numpys,low",
    [
        (mr.exp, np.exp, -5),
        (mr.math.expm1, np.expm1, -5),
        (mr.math.log, np.log, 0.1),
        (mr.math.log1p, np.log1p, 0),
        (mr.sqrt, np.sqrt, 0),
        (mr.math.rsqrt, lambda x: 1 / np.sqrt(x), 0.1),
        (mr.sin, np.sin, -5),
        (mr.cos, np.cos, -5),
        (mr.tan, np.tan, -1),
        (mr.tanh, np.tanh, -5),
        (mr.sigmoid, lambda x: 1 / (1 + np.exp(-x)), -5),
        (mr.floor, np.floor, -5),
        (mr.math.ceil, np.ceil, -5),
        (mr.round, np.round, -5),
        (mr.square, np.square, -5),
        (mr.math.reciprocal, np.reciprocal, 0.1),
        (mr.abs, np.abs, -5),
        (mr.negative, np.negative, -5),
        (mr.sign, np.sign, -5),
        (mr.nn.relu, lambda x: np.maximum(x, 0), -5),
    ],
)
def test_unary(dtype, ours, numpys, low):
    high = 1.2 if ours is mr.tan else 6
    check(ours, numpys, sample(dtype, low=low, high=high), rtol=1e-5)


@pytest.mark.parametrize("dtype", SIGNED)
def test_unary_on_integers(dtype):
    x = sample(dtype)
    check(lambda v: -v, np.negative, x)
    check(lambda v: abs(v), np.abs, x)
    check(mr.sign, np.sign, x)
    check(mr.square, np.square, x)


def test_bits_and_logic():
    x, y = sample(np.int32), sample(np.int32)
    check(mr.bitwise.bitwise_and, np.bitwise_and, x, y)
    check(mr.bitwise.bitwise_or, np.bitwise_or, x, y)
    check(mr.bitwise.bitwise_xor, np.bitwise_xor, x, y)
    check(mr.bitwise.invert, np.invert, x)
    p, q = sample(bool), sample(bool)
    np.testing.assert_array_equal(over(lambda a, b: a & b | ~a, p, q), p & q | ~p)
    np.testing.assert_array_equal(over(lambda a, b: a ^ b, p, q), p ^ q)
    np.testing.assert_array_equal(over(lambda a, b: a & b, x, y), x & y)
    np.testing.assert_array_equal(over(lambda a: a << 2, x), x << 2)


def test_integers_wrap_and_never_kill_the_process():
    low = np.array([np.iinfo(np.int64).min], np.int64)
    assert over(lambda x: x // -1, low)[0] == low[0]
    assert over(lambda x: -x, low)[0] == low[0]
    assert over(lambda x: x - 1, low)[0] == np.iinfo(np.int64).max
    ds = mr.Dataset.range(3).map(lambda x: x // (x - 2))
    it = iter(ds)
    assert [next(it), next(it)] == [0, -1]
    with pytest.raises(mr.errors.InvalidArgumentError, match="zero"):
        next(it)


def test_floats_saturate_when_cast_to_integers():
    x = np.array([1e30, -1e30, np.nan, 2.9, -2.9], np.float32)
    np.testing.assert_array_equal(
        over(lambda v: mr.cast(v, mr.int32), x), [2**31 - 1, -(2**31), 0, 2, -2]
    )
    np.testing.assert_array_equal(over(lambda v: mr.cast(v, mr.bool), x), [1, 1, 1, 1, 1])


@pytest.mark.parametrize("source", INTS + FLOATS + [np.bool_, np.float16])
@pytest.mark.parametrize(
    "target", [np.int32, np.uint8, np.float16, np.float32, np.float64, np.bool_]
)
def test_cast(source, target):
    x = sample(source, low=0)
    check(lambda v: mr.cast(v, target), lambda v: v.astype(target), x)


def test_shapes():
    x = sample(np.float32, (5, 2, 3))
    check(lambda v: mr.reshape(v, [3, -1]), lambda v: v.reshape(3, -1), x)
    check(lambda v: mr.expand_dims(v, -1), lambda v: v[..., None], x)
    check(lambda v: mr.squeeze(mr.expand_dims(v, 0)), lambda v: v, x)
    check(lambda v: mr.transpose(v), np.transpose, x)
    check(lambda v: mr.transpose(v, [1, 0]), np.transpose, x)
    check(lambda v: mr.concat([v, v], 0), lambda v: np.concatenate([v, v]), x)
    check(lambda v: mr.stack([v, v], 1), lambda v: np.stack([v, v], 1), x)
    check(lambda v: mr.unstack(v)[1], lambda v: v[1], x)
    check(lambda v: mr.split(v, [1, 2], axis=1)[1], lambda v: v[:, 1:], x)
    check(lambda v: mr.tile(v, [2, 1]), lambda v: np.tile(v, (2, 1)), x)
    check(lambda v: mr.reverse(v, [1]), lambda v: v[:, ::-1], x)
    check(lambda v: mr.pad(v, [[1, 0], [0, 2]]), lambda v: np.pad(v, [[1, 0], [0, 2]]), x)
    check(
        lambda v: mr.pad(v, [[1, 0], [0, 2]], constant_values=9),
        lambda v: np.pad(v, [[1, 0], [0, 2]], constant_values=9),
        x,
    )
    check(lambda v: mr.broadcast_to(v, [4, 2, 3]), lambda v: np.broadcast_to(v, (4, 2, 3)), x)
    check(lambda v: mr.shape(v), lambda v: np.array(v.shape, np.int32), x)
    check(lambda v: mr.size(v, mr.int64), lambda v: np.int64(v.size), x)
    check(lambda v: mr.rank(v), lambda v: np.int32(v.ndim), x)
    check(lambda v: mr.gather(v, [2, 0], axis=1), lambda v: v[:, [2, 0]], x)
    check(lambda v: mr.zeros_like(v) + mr.ones_like(v), lambda v: np.ones_like(v), x)
    assert mr.zeros_like("a") == b"" and mr.zeros_like(["a", "b"]).tolist() == [b"", b""]
    assert mr.zeros_like(["a"], mr.int64).tolist() == [0]
    with pytest.raises(TypeError, match="1 is no string"):
        mr.ones([2], mr.string)
    check(lambda v: mr.slice(v, [0, 1], [-1, 2]), lambda v: v[:, 1:3], x)
    flat = np.arange(8, dtype=np.int32).reshape(2, 4)
    places = mr.Dataset.range(3).map(lambda i: mr.slice(flat, mr.stack([0, i]), [-1, 1]))
    assert [p.tolist() for p in places] == [flat[:, i : i + 1].tolist() for i in range(3)]
    with pytest.raises(mr.errors.InvalidArgumentError, match="is not within axis 1"):
        list(mr.Dataset.range(9).map(lambda i: mr.slice(flat, mr.stack([0, i]), [-1, 1])))


@pytest.mark.parametrize(
    "begin, size",
    [
        ([2], [3]),
        ([5], [0]),
        ([5], [-1]),
        ([-1], [1]),
        ([1], [-2]),
        ([0], [5]),
        ([2**62], [2**62]),
    ],
)
def test_a_slice_is_within_its_tensor(begin, size):
    """Whether numbers and dimensions are known or not."""
    x = mr.Dataset.from_tensors((np.arange(4), np.int64(4)))
    number = rf"(begin {begin[0]}|size {size[0]}) is not within axis 0, which has size"
    for call in (
        lambda: mr.slice(np.arange(4), begin, size),
        lambda: list(x.map(lambda a, n: mr.slice(a, begin, size))),
        lambda: list(x.map(lambda a, n: mr.slice(mr.range(n), begin, size))),
        lambda: list(x.map(lambda a, n: mr.slice(a, mr.stack([n - 4 + begin[0]]), size))),
    ):
        with pytest.raises(mr.errors.InvalidArgumentError, match=number):
            call()
    with pytest.raises(mr.errors.InvalidArgumentError, match="a begin of 1 values"):
        mr.slice([[1]], begin, size)
    assert mr.slice(np.arange(4), [4], [0]).shape == mr.slice(np.arange(4), [4], [-1]).shape == (0,)


WIDE = {
    "one_hot": lambda n: mr.one_hot([1], n),
    "quality": lambda n: mr.io.encode_jpeg(np.zeros((1, 1, 1), np.uint8), quality=n),
    "num_buckets": lambda n: mr.strings.to_hash_bucket("a", n),
    "seed": lambda n: mr.random.uniform([1], seed=n),
    "seed of a dataset": lambda n: mr.Dataset.random(seed=n),
    "maxsplit": lambda n: mr.strings.split("a b", maxsplit=n),
    "axis": lambda n: mr.reduce_sum([1], axis=n),
    "axes": lambda n: mr.reverse([1], [n]),
    "take": lambda n: mr.Dataset.range(3).take(n),
    "shape": lambda n: mr.random.uniform([n]),
    "ram_budget": lambda n: setattr(mr.Options().autotune, "ram_budget", n),
    "private_threadpool_size": lambda n: setattr(
        mr.Options().threading, "private_threadpool_size", n
    ),
}


@pytest.mark.parametrize(
    "what, number",
    [
        (what, number)
        for what in WIDE
        for number in (2**63, 2**64 + 2, 2 - 2**64)
        if not what.startswith("seed") or number != 2**63  # seeds may be unsigned
    ],
)
def test_numbers_of_more_than_64_bits(what, number):
    """They are no others of which the last bits are the same."""
    with pytest.raises((ValueError, OverflowError, TypeError)) as raised:
        WIDE[what](number)
    assert "\n" not in str(raised.value)


ONE = mr.SparseTensor(np.zeros((1, 2), np.int64), np.ones(1), [1, 1])
# Of a number, 2**40.
HUGE = {
    "fill": lambda n: mr.fill([n, n], 1),
    "zeros": lambda n: mr.zeros([n]),
    "range": lambda n: mr.range(n),
    "range that is more than a number": lambda n: mr.range(
        -(2**62), n * 2**22 - 1, mr.abs(n) // n
    ),
    "tile": lambda n: mr.tile([[1, 2, 3]], [n * 2**20, n * 2**20]),
    "repeat": lambda n: mr.repeat([1, 2, 3], [n, n, n]),
    "repeat that overflows": lambda n: mr.repeat([1, 2, 3], n * 2**22),
    "one_hot": lambda n: mr.one_hot(mr.cast(mr.stack([n]) * 0, mr.int32), 2**62),
    "scatter_nd": lambda n: mr.scatter_nd([[1]], [1], mr.stack([n])),
    "broadcast_to": lambda n: mr.broadcast_to(1, [n, n]),
    "reshape": lambda n: mr.reshape(mr.zeros([4]), [n, n * 2**20]),
    "pad": lambda n: mr.pad([1, 2], [[n * 2**22, n * 2**22]]),
    "meshgrid": lambda n: mr.meshgrid(*[mr.zeros([n // 2**24])] * 3),
    "einsum": lambda n: mr.einsum("i,j->ij", *[mr.zeros([n // 2**20])] * 2),
    "matmul": lambda n: mr.matmul(mr.zeros([n // 2**20, 1]), mr.zeros([1, n // 2**20])),
    "add": lambda n: mr.zeros([n // 2**20, 1]) + mr.zeros([1, n // 2**20]),
    "eye": lambda n: mr.eye(n),
    "sequence_mask": lambda n: mr.sequence_mask(mr.stack([n])),
    "uniform": lambda n: mr.random.uniform([n]),
    "top_k": lambda n: mr.math.top_k([1, 2, 3], n),
    "sort": lambda n: mr.sort(mr.zeros([n])),
    "segment_sum": lambda n: mr.math.segment_sum([1.0], mr.stack([n])),
    "unsorted_segment_sum": lambda n: mr.math.unsorted_segment_sum([1.0], [0], n),
    "to_dense": lambda n: mr.sparse.to_dense(
        mr.SparseTensor(ONE.indices, ONE.values, mr.stack([n * 2**22, n * 2**22]))
    ),
    "sparse.reset_shape": lambda n: mr.sparse.to_dense(
        mr.sparse.reset_shape(ONE, mr.stack([n, n * 2**22]))
    ),
    "sparse.reshape": lambda n: mr.sparse.reshape(ONE, mr.stack([n * 2**22, n * 2**22])),
    "from_row_lengths": lambda n: mr.RaggedTensor.from_row_lengths(
        mr.zeros([4]), mr.stack([n * 2**22, n * 2**22])
    ).values,
    "from_value_rowids": lambda n: mr.RaggedTensor.from_value_rowids([1], mr.stack([n])).values,
    "resize": lambda n: mr.image.resize(
        mr.zeros([2, 2, 1]), mr.stack([mr.cast(n // 512 - 1, mr.int32)] * 2)
    ),
    "pad_to_bounding_box": lambda n: mr.image.pad_to_bounding_box(mr.zeros([2, 2, 1]), 0, 0, n, n),
    "map_fn": lambda n: mr.map_fn(lambda x: mr.zeros([n // 2**12]), mr.zeros([4000])),
    "rfft": lambda n: mr.signal.rfft(mr.zeros([10]), [2**36]),
    "rfft of a length above all": lambda n: mr.signal.rfft(mr.zeros([10]), [2**62]),
}


@pytest.mark.parametrize("what", HUGE)
def test_sizes_that_nothing_holds(what):
    """They are refused in a line, before anybody asks for that memory or counts so far."""
    refused = (mr.errors.ResourceExhaustedError, mr.errors.InvalidArgumentError)
    with pytest.raises(refused) as raised:
        next(iter(mr.Dataset.from_tensors(np.int64(2**40)).map(HUGE[what])))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "key",
    [
        0,
        -1,
        slice(1, None),
        slice(None, None, -1),
        (slice(None), 2),
        (Ellipsis, 0),
        (None, Ellipsis),
        (1, slice(0, 2)),
        (slice(None), None, 1),
        (slice(-2, None), slice(None, -1)),
        (Ellipsis, slice(None, None, 2), None),
    ],
)
def test_indexing_is_numpys(key):
    check(lambda v: v[key], lambda v: v[key], sample(np.int32, (4, 3, 4)))


def test_indexing_with_a_scalar_tensor():
    x, i = sample(np.float32, (4, 3, 4)), np.array([0, 2, 1, 0])
    check(lambda v, k: v[k], lambda v, k: v[k], x, i)
    check(lambda v, k: v[:, k], lambda v, k: v[:, k], x, i)
    check(lambda v, k: v[k, 1:3], lambda v, k: v[k, 1:3], x, i)


@pytest.mark.parametrize("axis,keepdims", [(None, False), (0, False), (-1, True), ([0, 1], False)])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
def test_reductions(dtype, axis, keepdims):
    x = sample(dtype, (5, 2, 3))
    where = tuple(axis) if isinstance(axis, list) else axis
    for ours, numpys in [
        (mr.reduce_sum, np.sum),
        (mr.reduce_max, np.max),
        (mr.reduce_min, np.min),
        (mr.reduce_prod, np.prod),
    ]:
        check(
            lambda v: ours(v, axis, keepdims),
            lambda v: numpys(v, axis=where, keepdims=keepdims).astype(dtype),
            x,
            rtol=1e-5,
        )
    if np.dtype(dtype).kind == "f":
        check(
            lambda v: mr.reduce_mean(v, axis, keepdims),
            lambda v: np.mean(v, axis=where, keepdims=keepdims),
            x,
            rtol=1e-4,
        )
    else:
        check(
            lambda v: mr.reduce_mean(v, axis, keepdims),
            lambda v: np.trunc(np.mean(v, axis=where, keepdims=keepdims)).astype(dtype),
            x,
        )


def test_all_any_argmax_matmul_one_hot():
    p = sample(bool, (5, 2, 3))
    check(lambda v: mr.reduce_all(v, 0), lambda v: np.all(v, 0), p)
    check(lambda v: mr.reduce_any(v, [1]), lambda v: np.any(v, 1), p)
    x = sample(np.float32, (5, 2, 3))
    check(lambda v: mr.argmax(v, 1), lambda v: np.argmax(v, 1), x)
    check(lambda v: mr.argmin(v, 0, mr.int32), lambda v: np.argmin(v, 0).astype(np.int32), x)
    check(lambda v: mr.matmul(v, v, transpose_b=True), lambda v: v @ v.T, x, rtol=1e-4)
    check(lambda v: v @ mr.transpose(v), lambda v: v @ v.T, x, rtol=1e-4)
    labels = np.array([0, 2, 1, 5])
    check(lambda v: mr.one_hot(v, 3), lambda v: (np.arange(3) == v).astype(np.float32), labels)
    check(
        lambda v: mr.one_hot(v, 3, on_value=7, off_value=-1, dtype=mr.int64),
        lambda v: np.where(np.arange(3) == v, np.int64(7), np.int64(-1)),
        labels,
    )


def test_one_hot_of_a_depth_that_is_a_tensor():
    labels = np.array([[0, 3], [-1, 2]])
    for how in (
        {},
        {"axis": 0},
        {"axis": 1, "dtype": mr.uint8},
        {"axis": -2, "on_value": "y", "off_value": "n"},
        {"on_value": True},
    ):
        ds = mr.Dataset.range(4).map(lambda n: mr.one_hot(labels, n, **how))
        assert ds.element_spec.shape.rank == 3
        for n, x in enumerate(ds):
            want = mr.one_hot(labels, n, **how)
            assert x.dtype == want.dtype
            np.testing.assert_array_equal(x, want)
    rows = mr.ragged.constant([[1], [0, 2]])
    (hot,) = mr.Dataset.range(3, 4).map(lambda n: mr.one_hot(rows, n))
    assert hot.to_list() == mr.one_hot(rows, 3).to_list()
    assert mr.one_hot([1], np.array(2)).tolist() == [[0, 1]]
    with pytest.raises(TypeError, match="depth is one integer, not float32"):
        list(mr.Dataset.range(1).map(lambda n: mr.one_hot([1], mr.cast(n, mr.float32))))
    with pytest.raises(mr.errors.InvalidArgumentError):
        list(mr.Dataset.range(1).map(lambda n: mr.one_hot([1], n - 1)))


def test_where_clip_fill_range():
    x, y = sample(np.float32), sample(np.float32)
    check(lambda a, b: mr.where(a > b, a, b), np.maximum, x, y)
    check(lambda a, b: mr.where(a > b, a, 0), lambda a, b: np.where(a > b, a, np.float32(0)), x, y)
    check(lambda a: mr.clip_by_value(a, -1, 1), lambda a: np.clip(a, -1, 1), x)
    check(lambda a: a * 0 + mr.fill([3], 2.0), lambda a: np.full(3, 2, np.float32), x)
    n = np.array([3, 3])
    assert [
        list(r) for r in mr.Dataset.from_tensor_slices(np.array([2, 4])).map(lambda k: mr.range(k))
    ] == [[0, 1], [0, 1, 2, 3]]
    check(lambda k: mr.range(1, 10, k), lambda k: np.arange(1, 10, k), n)


def test_strings():
    words = np.array(["Hello", "", "wörld "], object)
    values = lambda f: list(mr.Dataset.from_tensor_slices(words).map(f))  # noqa: E731
    assert values(lambda s: s) == [b"Hello", b"", "wörld ".encode()]
    assert values(mr.strings.length) == [5, 0, 7]
    assert values(lambda s: mr.strings.length(s, unit="UTF8_CHAR")) == [5, 0, 6]
    assert values(mr.strings.lower)[0] == b"hello"
    assert values(mr.strings.upper)[0] == b"HELLO"
    assert values(mr.strings.strip)[2] == "wörld".encode()
    assert values(lambda s: mr.strings.join([s, "x"], separator="-"))[:2] == [b"Hello-x", b"-x"]
    assert values(lambda s: "<" + s + ">")[0] == b"<Hello>"
    assert values(lambda s: s == "Hello") == [True, False, False]
    assert list(mr.Dataset.range(2).map(mr.strings.as_string)) == [b"0", b"1"]
    assert list(
        mr.Dataset.from_tensor_slices(["12", "-3"]).map(lambda s: mr.strings.to_number(s, mr.int64))
    ) == [12, -3]
    assert list(
        mr.Dataset.from_tensor_slices(["abcdef"]).map(lambda s: mr.strings.substr(s, 1, 3))
    ) == [b"bcd"]
    raw = mr.Dataset.from_tensor_slices([b"\x01\x00\x02\x00"]).map(
        lambda s: mr.io.decode_raw(s, mr.int16)
    )
    np.testing.assert_array_equal(next(iter(raw)), np.array([1, 2], np.int16))


def test_text_of_numbers_does_not_obey_the_hosts_locale():
    import locale

    old = locale.setlocale(locale.LC_NUMERIC)
    try:
        for name in ("de_DE.UTF-8", "C"):
            try:
                locale.setlocale(locale.LC_NUMERIC, name)
            except locale.Error:
                continue
            assert mr.strings.to_number(np.array("1.5", object)) == 1.5
    finally:
        locale.setlocale(locale.LC_NUMERIC, old)


# ---- dtype rules ----


def spec(function, ds=None):
    return (ds or mr.Dataset.range(3)).map(function).element_spec


def test_literals_take_the_tensors_dtype_if_they_fit():
    assert spec(lambda x: x + 1).dtype == mr.int64
    assert spec(lambda x: mr.cast(x, mr.uint8) + 255).dtype == mr.uint8
    assert spec(lambda x: mr.cast(x, mr.float64) * 2).dtype == mr.float64
    assert spec(lambda x: ([x, 1], x))[0].shape == (2,)
    for wrong in (
        lambda x: x + 1.5,
        lambda x: mr.cast(x, mr.uint8) + 256,
        lambda x: x + True,
        lambda x: x + "a",
        lambda x: mr.cast(x, mr.uint8) - (-1),
    ):
        with pytest.raises(TypeError, match="does not fit"):
            spec(wrong)


def test_nothing_is_promoted():
    with pytest.raises(mr.errors.InvalidArgumentError, match="int64.*float32|float32.*int64"):
        spec(lambda x: x + mr.cast(x, mr.float32))
    with pytest.raises(mr.errors.InvalidArgumentError, match="int32"):
        spec(lambda x: x * np.int32(2))


def test_literals_by_themselves_have_tensorflows_dtypes():
    assert spec(lambda x: 1).dtype == mr.int32
    assert spec(lambda x: 2**40).dtype == mr.int64
    assert spec(lambda x: 1.5).dtype == mr.float32
    assert spec(lambda x: "ä").dtype == mr.string
    assert spec(lambda x: True).dtype == mr.bool
    assert spec(lambda x: ([1, 2], x))[0].dtype == mr.int32
    assert spec(lambda x: np.arange(3)).dtype == mr.int64
    assert mr.Dataset.from_tensor_slices([1, 2, 3]).element_spec.dtype == mr.int32
    assert mr.Dataset.from_tensor_slices([1.0]).element_spec.dtype == mr.float32
    assert mr.Dataset.from_tensors(np.float64(1)).element_spec.dtype == mr.float64
    assert list(mr.Dataset.from_tensors(b"a\0"))[0] == b"a\0"


def test_numpy_values_on_the_left_do_not_take_over():
    assert over(lambda x: np.float32(2) * x, sample(np.float32)).dtype == np.float32
    assert spec(lambda x: np.arange(3) + x).shape == (3,)
    with pytest.raises(TypeError):
        spec(lambda x: np.sin(x))


def test_python_division_of_integers_gives_float64():
    assert list(mr.Dataset.range(3).map(lambda x: x / 2)) == [0.0, 0.5, 1.0]
    assert spec(lambda x: x / 2).dtype == mr.float64


@pytest.mark.parametrize(
    "function,way_out",
    [
        (lambda x: 1 if x > 1 else 0, "mr.where"),
        (lambda x: x > 1 and x < 3, "mr.where"),
        (lambda x: [v for v in x], "unstack"),
        (lambda x: len(x), "shape"),
        (lambda x: int(x), "mr.cast"),
        (lambda x: float(x), "mr.cast"),
        (lambda x: [1, 2][x], "gather"),
        (lambda x: np.asarray(x), "mr."),
        (lambda x: f"{x}", "as_string"),
        (lambda x: range(x), "mr.range"),
        (lambda x: x in [1, 2], "where|reduce_any"),
        (lambda x: {x: 1}, "StaticHashTable"),
    ],
)
def test_refusals_name_the_way_out(function, way_out):
    with pytest.raises(TypeError, match=way_out):
        mr.Dataset.range(3).map(function)


def test_a_tensor_that_outlives_its_function_is_refused():
    kept = []
    mr.Dataset.range(3).map(lambda x: kept.append(x) or x)
    with pytest.raises(ValueError, match="traced"):
        kept[0] + 1
    with pytest.raises(ValueError, match="traced already"):
        mr.Dataset.range(3).map(lambda x: x + kept[0])


def test_errors_arise_at_the_users_line():
    def bad(x):
        y = x + 1
        return mr.reshape(y, [2])  # this line

    with pytest.raises(mr.errors.InvalidArgumentError, match="reshape") as caught:
        mr.Dataset.range(3).map(bad)
    assert any("this line" in (str(entry.statement)) for entry in caught.traceback)


def test_none_and_odd_results_are_refused():
    with pytest.raises(TypeError, match="return"):
        mr.Dataset.range(3).map(lambda x: None)
    with pytest.raises(TypeError, match="None"):
        mr.Dataset.range(3).map(lambda x: (x, None))
    with pytest.raises(TypeError):
        mr.Dataset.range(3).map(lambda x: object())


def test_captured_arrays_are_frozen_when_traced():
    table = np.array([10, 20, 30])
    ds = mr.Dataset.range(3).map(lambda x: mr.gather(table, x))
    table[:] = 0
    assert list(ds) == [10, 20, 30]


def test_inner_functions_capture_outer_values():
    ds = mr.Dataset.range(1, 4).flat_map(lambda n: mr.Dataset.range(n).map(lambda x: x * 10 + n))
    assert list(ds) == [1, 2, 12, 3, 13, 23]
    ds = mr.Dataset.range(1, 3).flat_map(
        lambda a: mr.Dataset.range(2).flat_map(
            lambda b: mr.Dataset.range(1).map(lambda c: a * 100 + b * 10 + c)
        )
    )
    assert list(ds) == [100, 110, 200, 210]


def test_operators_compute_at_once_outside_of_functions():
    x = np.array([1.0, 4.0], np.float32)
    np.testing.assert_allclose(mr.sqrt(x), [1, 2])
    assert mr.reduce_sum([1, 2, 3]) == 6
    assert math.isclose(mr.exp(1.0), math.e, rel_tol=1e-6)
    assert mr.constant([1, 2]).dtype == np.int32
    mine = np.arange(3)
    for constant in (
        mr.constant(mine),
        mr.constant(mr.constant(mine)),
        mr.constant(np.float32(1), shape=[2]),
    ):
        constant[...] = 9  # it is no other one's memory
    assert mine.tolist() == [0, 1, 2]
    assert mr.constant(3, mr.float64, shape=[2, 2]).shape == (2, 2)


@pytest.mark.parametrize(
    "function,instead",
    [
        (np.sqrt, "Use mr.sqrt"),
        (np.log1p, "Use mr.math.log1p"),
        (np.mean, "Use mr.reduce_mean"),
        (np.isnan, "Use mr.math.is_nan"),
        (lambda x: np.clip(x, 0, 1), "Use mr.clip_by_value"),
        (lambda x: np.concatenate([x, x]), "Use mr.concat"),
        (np.sort, "Use mr.sort"),
        (np.ptp, "There is no mr.ptp"),
        (np.fft.fft, "numpy.fft.fft of a tensor"),
        (np.add.reduce, "numpy.add"),
        (lambda x: np.multiply(np.ones(3), x, out=np.ones(3)), "Use mr.multiply"),
        (np.asarray, "NumPy"),
    ],
)
def test_a_function_of_numpy_names_the_one_to_use(function, instead):
    with pytest.raises(TypeError, match=instead):
        mr.Dataset.from_tensors(np.ones(3)).map(function)


def test_an_array_on_the_left_leaves_the_operator_to_the_tensor():
    ds = mr.Dataset.from_tensors(np.array([1.0, 2.0, 4.0]))
    a = np.array([4.0, 2.0, 1.0])
    for f in (
        lambda x: a + x,
        lambda x: a - x,
        lambda x: a * x,
        lambda x: a / x,
        lambda x: a // x,
        lambda x: a % x,
        lambda x: a**x,
        lambda x: np.float64(3) - x,
        lambda x: a < x,
        lambda x: a >= x,
        lambda x: a == x,
        lambda x: a != x,
        lambda x: np.float64(2) > x,
    ):
        assert next(iter(ds.map(f))).tolist() == f(np.array([1.0, 2.0, 4.0])).tolist()


@pytest.mark.parametrize(
    "draw",
    [
        lambda: np.random.rand(),
        lambda: np.random.randint(5),
        lambda: random.random(),
        lambda: np.random.normal(),
    ],
)
def test_random_numbers_that_a_function_draws_are_warned_of(draw):
    with pytest.warns(UserWarning, match="given to map drew random numbers") as caught:
        mr.Dataset.range(3).map(lambda x: mr.cast(x, "float64") + draw())
    assert [w.filename for w in caught] == [__file__]
    with pytest.warns(UserWarning, match="given to flat_map drew") as caught:
        mr.Dataset.range(3).flat_map(
            lambda x: mr.Dataset.range(2).map(lambda y: mr.cast(y, "float64") + draw())
        )
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mr.Dataset.range(3).map(lambda x: x + 1)
