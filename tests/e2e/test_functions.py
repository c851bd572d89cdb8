"""Functions of order, groups, places and matrices: against NumPy, and what they refuse."""

import numpy as np
import pytest

import millrace as mr
from test_tensors import RNG, check, over, sample

NUMBERS = [np.int8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64]
FLOATS = [np.float32, np.float64]


def ragged_rows(function, *rows):
    """@function of tensors whose first size differs from row to row."""
    source = [np.asarray(r) for r in rows]
    spec = mr.TensorSpec([None, *source[0].shape[1:]], source[0].dtype)
    lengths = [len(r) for r in source]
    flat = np.concatenate(source)
    ends = np.cumsum(lengths)
    ds = mr.Dataset.from_tensor_slices((ends - lengths, ends))
    return list(ds.map(lambda a, b: function(mr.ensure_shape(mr.constant(flat)[a:b], spec.shape))))


# ---- order ----


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("length", [1, 5, 16, 17, 100])
def test_sorted_values(dtype, length):
    x = sample(dtype, (4, length, 2))
    check(lambda v: mr.sort(v, axis=0), lambda v: np.sort(v, 0), x)
    check(lambda v: mr.sort(v, 0, "DESCENDING"), lambda v: np.sort(v, 0)[::-1], x)
    order = lambda v: np.argsort(v, 0, kind="stable").astype(np.int32)
    check(lambda v: mr.argsort(v, axis=0), order, x)


def test_nan_is_the_largest_value():
    x = [2.0, np.nan, -1.0, np.inf, np.nan]
    np.testing.assert_array_equal(mr.sort(x), np.float32([-1, 2, np.inf, np.nan, np.nan]))
    np.testing.assert_array_equal(mr.argsort(x, direction="DESCENDING"), [1, 4, 3, 0, 2])


@pytest.mark.parametrize("k", [0, 1, 3, 64, 65, 200])
def test_the_best_are_those_of_a_stable_sort(k):
    x = RNG.integers(0, 20, (3, 200)).astype(np.int32)
    expected = np.argsort(-x, axis=1, kind="stable")[:, :k]
    values, indices = mr.math.top_k(x, k)
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(x, expected, 1))
    assert indices.dtype == np.int32
    assert mr.math.top_k(x, k, index_type=mr.int64).indices.dtype == np.int64


def test_how_many_are_best_may_be_a_tensor():
    ds = mr.Dataset.range(4).map(lambda k: mr.math.top_k([5, 9, 7], k).values)
    assert [list(v) for v in ds] == [[], [9], [9, 7], [9, 7, 5]]
    with pytest.raises(mr.errors.InvalidArgumentError, match="best 4 of axis 0.*size 3"):
        list(mr.Dataset.range(4, 5).map(lambda k: mr.math.top_k([5, 9, 7], k).values))
    with pytest.raises(mr.errors.InvalidArgumentError, match="best 4 of axis 0"):
        mr.math.top_k([5, 9, 7], 4)


def test_order_refuses():
    with pytest.raises(ValueError, match="ASCENDING"):
        mr.sort([1], direction="UP")
    with pytest.raises(mr.errors.InvalidArgumentError, match="bool"):
        mr.sort([True])
    with pytest.raises(ValueError, match="one axis or more"):
        mr.math.top_k(5)


@pytest.mark.parametrize("values", [[3, 1, 3, 2, 1], ["b", "a", "b"], [True, True], [0.0, -0.0]])
def test_values_once(values):
    y, idx, count = mr.unique_with_counts(values)
    array = np.asarray(values, object if isinstance(values[0], str) else None)
    np.testing.assert_array_equal(
        np.asarray(y)[idx], [v.encode() for v in values] if array.dtype == object else array
    )
    assert count.sum() == len(values) and len(set(y.tolist())) == len(y)
    assert idx.dtype == count.dtype == np.int32


def test_many_values_once():
    x = RNG.integers(-(10**12), 10**12, 5000)
    x = np.concatenate([x, x[::-1]])
    y, idx = mr.unique(x, out_idx=mr.int64)
    np.testing.assert_array_equal(y, x[:5000])
    np.testing.assert_array_equal(y[idx], x)
    assert idx.dtype == np.int64


def test_nan_is_equal_to_nothing():
    assert mr.unique([np.nan, 1.0, np.nan]).idx.tolist() == [0, 1, 2]
    assert mr.unique(np.zeros(0, np.float32)).y.tolist() == []


# ---- groups ----


@pytest.mark.parametrize("dtype", NUMBERS)
def test_segments(dtype):
    data, ids = sample(dtype, (12, 2), 0, 3), np.sort(RNG.integers(0, 4, 12))
    groups = [data[ids == i] for i in range(ids[-1] + 1)]
    sums = np.stack([g.sum(0, dtype=dtype) for g in groups])
    np.testing.assert_allclose(mr.math.segment_sum(data, ids), sums, rtol=5e-3)
    highest = np.stack([g.max(0) if len(g) else np.zeros(2, dtype) for g in groups])
    np.testing.assert_array_equal(mr.math.segment_max(data, ids), highest)
    order = RNG.permutation(12)
    mixed = mr.math.unsorted_segment_sum(data[order], ids[order], len(groups))
    np.testing.assert_allclose(mixed, sums, rtol=5e-3)
    assert mixed.dtype == dtype


def test_segments_of_no_values():
    assert mr.math.segment_min([7], [2]).tolist() == [0, 0, 7]
    assert mr.math.segment_prod([7], [2]).tolist() == [1, 1, 7]
    assert mr.math.segment_mean([7.0], [2]).tolist() == [0, 0, 7]
    info = np.iinfo(np.int32)
    assert mr.math.unsorted_segment_max([7], [-1], 1).tolist() == [info.min]
    assert mr.math.unsorted_segment_min([7], [-1], 1).tolist() == [info.max]
    low = mr.math.unsorted_segment_max([7.0], [-1], 1)
    assert low.tolist() == [float(np.finfo(np.float32).min)]


def test_segments_refuse():
    with pytest.raises(mr.errors.InvalidArgumentError, match="segment id 1 before 0"):
        mr.math.segment_sum([1, 2], [1, 0])
    with pytest.raises(mr.errors.InvalidArgumentError, match="segment id 2 of 2"):
        mr.math.unsorted_segment_sum([1, 2], [0, 2], 2)
    with pytest.raises(mr.errors.InvalidArgumentError, match="size 3, not 2"):
        mr.math.unsorted_segment_sum([1, 2], [0, 1, 1], 2)


def test_counts():
    x = RNG.integers(0, 9, 50).astype(np.int32)
    np.testing.assert_array_equal(mr.math.bincount(x), np.bincount(x))
    np.testing.assert_array_equal(mr.math.bincount(x, minlength=20), np.bincount(x, minlength=20))
    np.testing.assert_array_equal(mr.math.bincount(x, maxlength=4), np.bincount(x)[:4])
    rows = mr.math.bincount(x.reshape(5, 10), axis=-1)
    np.testing.assert_array_equal(rows.sum(0), np.bincount(x))
    assert set(mr.math.bincount(x, binary_output=True).tolist()) <= {0, 1}
    with pytest.raises(mr.errors.InvalidArgumentError, match="negative"):
        mr.math.bincount([-1])
    values = RNG.uniform(-3, 4, 100)
    np.testing.assert_array_equal(
        mr.histogram_fixed_width(np.clip(values, -2, 3 - 1e-9), [-2.0, 3.0], 5),
        np.histogram(np.clip(values, -2, 3), 5, (-2, 3))[0],
    )


def test_partitions_come_together_again():
    data, parts = np.arange(10), RNG.integers(0, 3, 10).astype(np.int32)
    cut = mr.dynamic_partition(data, parts, 3)
    places = mr.dynamic_partition(np.arange(10, dtype=np.int32), parts, 3)
    np.testing.assert_array_equal(mr.dynamic_stitch(places, cut), data)
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"not in \[0, 2\)"):
        mr.dynamic_partition([1, 2], [0, 2], 2)


def test_confusion():
    matrix = mr.math.confusion_matrix([0, 1, 2, 2], [0, 2, 2, 1], weights=[1, 10, 100, 1000])
    assert matrix.tolist() == [[1, 0, 0], [0, 0, 10], [0, 1000, 100]]
    with pytest.raises(mr.errors.InvalidArgumentError, match="out of range"):
        mr.math.confusion_matrix([0], [3], num_classes=2)


# ---- places ----


def test_places_of_several_indices():
    x = np.arange(24).reshape(2, 3, 4)
    where = np.array([[1, 2], [0, 0]], np.int32)
    np.testing.assert_array_equal(mr.gather_nd(x, where), x[where[:, 0], where[:, 1]])
    batch = np.array([[[2]], [[0]]], np.int32)
    np.testing.assert_array_equal(mr.gather_nd(x, batch, batch_dims=1), x[[0, 1], [2, 0]][:, None])
    put = mr.tensor_scatter_nd_update(x, where, -np.ones((2, 4), np.int64))
    expected = x.copy()
    expected[where[:, 0], where[:, 1]] = -1
    np.testing.assert_array_equal(put, expected)
    total = mr.scatter_nd([[1], [1]], [[1, 2], [10, 20]], [3, 2])
    assert total.tolist() == [[0, 0], [11, 22], [0, 0]]
    for call in (
        lambda: mr.gather_nd(x, [[2, 0]]),
        lambda: mr.scatter_nd([[-1]], [1], [3]),
        lambda: mr.tensor_scatter_nd_add([1], [[1]], [1]),
    ):
        with pytest.raises(mr.errors.InvalidArgumentError, match="out of range"):
            call()
    with pytest.raises(mr.errors.InvalidArgumentError, match="4 indices for each place"):
        mr.gather_nd(x, [[0, 0, 0, 0]])


def test_gather_with_batches():
    x, where = np.arange(24).reshape(2, 3, 4), np.array([[3, 0], [1, 1]], np.int32)
    expected = np.stack([x[i][:, where[i]] for i in range(2)])
    np.testing.assert_array_equal(mr.gather(x, where, axis=2, batch_dims=1), expected)
    np.testing.assert_array_equal(
        mr.gather(x, where % 3, batch_dims=1), np.stack([x[i][where[i] % 3] for i in range(2)])
    )
    with pytest.raises(mr.errors.InvalidArgumentError, match="batch_dims 2"):
        mr.gather(x, where, axis=1, batch_dims=2)


@pytest.mark.parametrize("mode", ["REFLECT", "SYMMETRIC"])
def test_mirrors(mode):
    x = RNG.integers(0, 100, (3, 4, 5))
    paddings = [[1, 2], [3, 0]]
    expected = lambda v: np.pad(v, paddings, mode.lower())
    check(lambda v: mr.pad(v, paddings, mode), expected, x)
    values = np.broadcast_to(np.int32(paddings), (3, 2, 2))
    check(lambda v, p: mr.pad(v, p, mode), lambda v, p: expected(v), x, values)
    with pytest.raises(mr.errors.InvalidArgumentError, match="axis of size 2"):
        mr.pad([1, 2], [[3, 0]], mode)
    with pytest.raises(ValueError, match="SYMMETRIC"):
        mr.pad([1, 2], [[1, 0]], "EDGE")


def test_shapes_that_are_values():
    x = sample(np.int32, (3, 1, 2))
    shapes = np.broadcast_to(np.int64([4, 3, 2]), (3, 3))
    check(mr.broadcast_to, lambda v, s: np.broadcast_to(v, s), x, shapes)
    check(mr.tile, lambda v, m: np.tile(v, m), x, np.broadcast_to(np.int32([2, 3]), (3, 2)))
    ds = mr.Dataset.range(3).map(lambda n: mr.tile([1, 2], [n]))
    assert [list(v) for v in ds] == [[], [1, 2], [1, 2, 1, 2]]
    ds = mr.Dataset.range(1, 3).map(lambda n: mr.broadcast_to(n, [n, 2]))
    assert [v.tolist() for v in ds] == [[[1, 1]], [[2, 2]] * 2]
    with pytest.raises(mr.errors.InvalidArgumentError, match="does not broadcast"):
        list(mr.Dataset.range(2, 3).map(lambda n: mr.broadcast_to([1, 2, 3], [n])))
    with pytest.raises(mr.errors.InvalidArgumentError, match="multiple -1"):
        list(mr.Dataset.range(-1, 0).map(lambda n: mr.tile([1], [n])))


def test_parts_whose_sizes_are_values():
    ds = mr.Dataset.range(4).map(lambda n: tuple(mr.split([1, 2, 3], [n, -1])))
    assert [[p.tolist() for p in row] for row in ds][1] == [[1], [2, 3]]
    with pytest.raises(mr.errors.InvalidArgumentError, match="do not add up"):
        list(mr.Dataset.range(4, 5).map(lambda n: tuple(mr.split([1, 2, 3], [n, -1]))))
    halves = ragged_rows(lambda v: mr.stack(mr.split(v, 2)), [1, 2], [1, 2, 3, 4])
    assert [h.tolist() for h in halves] == [[[1], [2]], [[1, 2], [3, 4]]]


def test_rolled_and_turned():
    x = sample(np.int16, (4, 3, 5))
    check(lambda v: mr.roll(v, [1, -7], [0, 1]), lambda v: np.roll(v, [1, -7], [0, 1]), x)
    rolled = ragged_rows(lambda v: mr.roll(v, 1, 0), [1, 2], [1, 2, 3])
    assert [r.tolist() for r in rolled] == [[2, 1], [3, 1, 2]]
    assert mr.roll(np.zeros((0, 2)), 3, 0).shape == (0, 2)
    turned = mr.reverse_sequence(np.arange(6).reshape(3, 2), [0, 3], seq_axis=0, batch_axis=1)
    assert turned.tolist() == [[0, 5], [2, 3], [4, 1]]
    with pytest.raises(mr.errors.InvalidArgumentError, match="out of range"):
        mr.reverse_sequence([[1, 2]], [3], seq_axis=1)


def test_grids():
    a, b = [1, 2], np.int32([3, 4, 5])
    for indexing in ("xy", "ij"):
        ours, numpys = mr.meshgrid(a, b, indexing=indexing), np.meshgrid(a, b, indexing=indexing)
        for x, y in zip(ours, numpys):
            np.testing.assert_array_equal(x, y)
    np.testing.assert_allclose(mr.linspace(0.0, 1.0, 7), np.linspace(0, 1, 7), rtol=1e-6)
    assert mr.linspace(0, 10, 3).dtype == np.float64
    for dtype in (np.float32, np.float64):
        ends = np.array([[1, -2], [3, 7]], dtype)
        ds = mr.Dataset.range(5).map(lambda n: mr.linspace(ends[0], ends[1], n, axis=-1))
        assert ds.element_spec == mr.TensorSpec([2, None], dtype)
        for n, x in enumerate(ds):
            np.testing.assert_array_equal(x, mr.linspace(ends[0], ends[1], n, axis=-1))
    assert mr.linspace(0.0, 1.0, np.array(2)).tolist() == [0, 1]
    with pytest.raises(TypeError, match="num is one integer, not int64 of shape"):
        list(mr.Dataset.range(2).batch(2).map(lambda n: mr.linspace(0.0, 1.0, n)))
    with pytest.raises(mr.errors.InvalidArgumentError):
        list(mr.Dataset.range(1).map(lambda n: mr.linspace(0.0, 1.0, n - 1)))
    assert mr.unravel_index([5, 2], [2, 3]).tolist() == [[1, 0], [2, 2]]


# ---- sums of products ----


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize(
    "equation,first,second",
    [
        ("ij,jk->ik", (3, 4), (4, 5)),
        ("ij,jk->ki", (3, 70), (70, 5)),
        ("ij,jk", (30, 4), (4, 600)),
        ("bij,bkj->bik", (2, 3, 4), (2, 5, 4)),
        ("...ij,jk->...ik", (2, 3, 4), (4, 5)),
        ("...a,...a->...", (3, 1, 4), (2, 4)),
        ("i,j->ij", (3,), (4,)),
        ("i,i->", (5,), (5,)),
        ("ijk,k->j", (3, 4, 5), (5,)),
        ("abc,ad->dcb", (2, 3, 4), (2, 5)),
        ("iij,j->i", (3, 3, 4), (4,)),
        ("ab,cd->", (2, 3), (4, 5)),
        ("ab,b->ab", (0, 3), (3,)),
        ("ab,bc->ac", (2, 0), (0, 3)),
    ],
)
def test_products_over_named_axes(dtype, equation, first, second):
    a, b = sample(dtype, first), sample(dtype, second)
    got = mr.einsum(equation, a, b)
    expected = np.einsum(equation, a, b)
    assert got.dtype == dtype and got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("equation", ["ij->ji", "ij->i", "ij->", "ii->i", "ii", "...j->j..."])
def test_named_axes_of_one_tensor(equation):
    x = sample(np.int32, (3, 3))
    np.testing.assert_array_equal(mr.einsum(equation, x), np.einsum(equation, x))


def test_named_axes_of_several_tensors():
    a, b, c = (sample(np.float64, (2, 3)), sample(np.float64, (3, 4)), sample(np.float64, (4, 2)))
    for equation in ("ij,jk,kl->il", "ij,jk,kl->lk", "ij,jk,kl"):
        np.testing.assert_allclose(mr.einsum(equation, a, b, c), np.einsum(equation, a, b, c))


@pytest.mark.parametrize(
    "equation,says",
    [
        ("ij,jk->ik", "size 3 and 2"),
        ("ijk,jk->i", "rank 2"),
        ("ij,kl->m", "no input has"),
        ("ij,kl->ii", "twice"),
        ("i1,kl->i", "not a list of letters"),
        ("...i,kl->i", "'...' stands for 1 axes"),
        ("ij,kl->i->j", "not an equation of 2 inputs"),
    ],
)
def test_equations_that_are_refused(equation, says):
    with pytest.raises(mr.errors.InvalidArgumentError, match=says):
        mr.einsum(equation, np.ones((2, 3)), np.ones((2, 3)))


def test_a_number_of_inputs_that_the_equation_has_not():
    with pytest.raises(ValueError, match="equation of 2 inputs, not 1"):
        mr.einsum("i,i->", [1])


@pytest.mark.parametrize("axes", [0, 1, 2, [[0, 1], [1, 0]], ([1], [0])])
def test_pairs_of_axes(axes):
    a, b = sample(np.float64, (4, 3)), sample(np.float64, (3, 4))
    if axes in (2,):
        b = sample(np.float64, (4, 3))
    np.testing.assert_allclose(mr.tensordot(a, b, axes), np.tensordot(a, b, axes))


def test_diagonals_and_bands():
    x = sample(np.int32, (3, 4, 5))
    check(lambda v: mr.linalg.band_part(v, 1, -1), lambda v: np.triu(v, -1), x)
    check(mr.linalg.diag_part, lambda v: np.diagonal(v).copy(), x)
    check(mr.linalg.trace, lambda v: np.trace(v, dtype=np.int32), x)
    check(mr.linalg.diag, np.diag, sample(np.int32, (3, 4)))
    for k in (-1, 1):
        check(lambda v: mr.linalg.diag_part(v, k=k), lambda v: np.diagonal(v, k).copy(), x)
        check(lambda v: mr.linalg.diag(v, k=k), lambda v: np.diag(v, k), sample(np.int64, (3, 4)))
    np.testing.assert_array_equal(mr.eye(3, 2, batch_shape=[2]), np.stack([np.eye(3, 2)] * 2))
    sizes = list(mr.Dataset.range(3).map(lambda n: mr.eye(n)))
    np.testing.assert_array_equal(sizes[2], np.eye(2))
    with pytest.raises(mr.errors.UnimplementedError, match="band_part"):
        mr.linalg.diag([1], k=(0, 1))
    with pytest.raises(mr.errors.UnimplementedError, match="norm 2 of a matrix"):
        mr.norm([[1.0]], 2, axis=[0, 1])
    with pytest.raises(ValueError, match="an axis is a number"):
        mr.norm([[1.0]], axis=[0])


# ---- numbers ----


@pytest.mark.parametrize("dtype", FLOATS)
def test_statistics(dtype):
    x = sample(dtype, (4, 3, 5))
    for ours, numpys in ((mr.math.reduce_std, np.std), (mr.math.reduce_variance, np.var)):
        check(ours, numpys, x, rtol=1e-5)
        check(lambda v: ours(v, 1, True), lambda v: numpys(v, 1, keepdims=True), x, rtol=1e-5)
    logs = lambda v: np.log(np.exp(v).sum(0))
    check(lambda v: mr.reduce_logsumexp(v, 0), logs, x, rtol=1e-5)
    soft = lambda v: np.exp(v) / np.exp(v).sum(-1, keepdims=True)
    check(mr.nn.softmax, soft, x, rtol=1e-5)
    check(mr.nn.log_softmax, lambda v: np.log(soft(v)), x, rtol=1e-4)
    check(lambda v: mr.norm(v, axis=1), lambda v: np.linalg.norm(v, axis=1), x, rtol=1e-5)
    with pytest.raises(TypeError, match="mr.cast"):
        mr.math.reduce_std([1, 2])


def test_nothing_overflows():
    assert mr.reduce_logsumexp([-np.inf, -np.inf]) == -np.inf
    assert mr.reduce_logsumexp([1e30, 1e30]) == np.float32(1e30)
    np.testing.assert_array_equal(mr.math.softplus([1e30, -1e30]), np.float32([1e30, 0]))
    np.testing.assert_array_equal(mr.nn.softmax([1e30, -np.inf]), np.float32([1, 0]))
    got = mr.math.cumulative_logsumexp([-np.inf, -np.inf, 5.0, np.nan])
    np.testing.assert_array_equal(got, np.float32([-np.inf, -np.inf, 5, np.nan]))


def test_quotients_without_nan():
    assert mr.math.divide_no_nan([1, 2], [0, 4]).tolist() == [0, 0.5]
    assert mr.math.multiply_no_nan([np.nan, 2.0], [0.0, 4.0]).tolist() == [0, 8]
    assert mr.math.xlogy([0.0], [0.0]).tolist() == [0]
    assert mr.truncatediv([-7, 7], 2).tolist() == [-3, 3]
    assert mr.truncatemod(np.int8([-128]), np.int8(-1)).tolist() == [0]
    assert mr.truncatediv(np.int8([-128]), np.int8(-1)).tolist() == [-128]
    with pytest.raises(mr.errors.InvalidArgumentError, match="division by zero"):
        mr.truncatediv(1, 0)


def test_saturated():
    assert mr.saturate_cast([-1, 70000], mr.uint16).tolist() == [0, 65535]
    assert mr.saturate_cast(np.uint64([2**63]), mr.int64).tolist() == [2**63 - 1]
    assert mr.saturate_cast([1e30, -1e30], mr.float16).tolist() == [65504, -65504]
    assert mr.saturate_cast([2**31 - 1, -(2**31)], mr.float16).tolist() == [65504, -65504]


def test_clipped_together():
    parts, length = mr.clip_by_global_norm([[3.0], None, [4.0]], 1.0)
    np.testing.assert_allclose(parts[0], [0.6], rtol=1e-6)
    assert parts[1] is None and length == 5
    parts, _ = mr.clip_by_global_norm([[np.inf]], 1.0)
    assert np.isnan(parts[0]).all()
    np.testing.assert_array_equal(mr.clip_by_norm([0.0, 0.0], 1.0), [0, 0])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: mr.signal.rfft(mr.cast(x[:1], mr.float32), [(1 << 18) - 1])[:1],
        lambda x: mr.sort(x)[:1],
        lambda x: mr.einsum("i,i->", x, x),
    ],
)
def test_room_to_work_in_is_of_the_budget(function):
    options = mr.Options()
    options.autotune.ram_budget = 3 << 20
    ds = mr.Dataset.range(1).map(lambda n: mr.range(1 << 18))
    assert len(list(ds.map(mr.reduce_sum).with_options(options))) == 1
    with pytest.raises(mr.errors.ResourceExhaustedError, match="memory budget of 3145728 bytes"):
        list(ds.map(function).with_options(options))


@pytest.mark.parametrize(
    "name, of",
    [
        ("sort", lambda: mr.sort(mr.zeros([1_000_000], mr.uint8))),
        ("fft", lambda: mr.signal.fft(mr.cast(mr.zeros([100_003]), mr.complex64))),
        ("resize", lambda: mr.image.resize(mr.zeros([1, 1, 1], mr.uint8), [1, 500_000], "bicubic")),
    ],
)
def test_what_a_kernel_works_with_counts(name, of):
    """Arguments and results have room, and what is needed between them has not."""
    options = mr.Options()
    options.autotune.ram_budget = 7 << 20
    with pytest.raises(mr.errors.ResourceExhaustedError, match=rf"{name}.* bytes more do not fit"):
        list(mr.Dataset.range(1).map(lambda _: of()).with_options(options))


@pytest.mark.parametrize("maxlen", [2**32 + 2, -(2**63)])
def test_a_mask_is_as_long_as_it_is_to_be(maxlen):
    """The length does not take the narrower dtype of the lengths."""
    ds = mr.Dataset.from_tensors(np.int64(maxlen))
    with pytest.raises((mr.errors.ResourceExhaustedError, mr.errors.InvalidArgumentError)):
        list(ds.map(lambda n: mr.sequence_mask(np.array([1, 3], np.int32), n)))


@pytest.mark.parametrize(
    "make, dims",
    [
        (lambda n: mr.zeros([n, 2]), [None, 2]),
        (lambda n: mr.fill((n, 2), "a"), [None, 2]),
        (lambda n: mr.reshape(mr.range(n * 2), [n, 2]), [None, 2]),
        (lambda n: mr.reshape(mr.range(n * 2), [1, n, -1]), [1, None, None]),
        (lambda n: mr.broadcast_to(mr.zeros([2]), [n, 2]), [None, 2]),
        (lambda n: mr.random.uniform([n, 2]), [None, 2]),
        (lambda n: mr.random.stateless_normal([n, 2], (1, 2)), [None, 2]),
        (lambda n: mr.slice(mr.zeros([9, 9, 3]), [n, n, 0], [2, n, -1]), [2, None, None]),
        (lambda n: mr.image.random_crop(mr.zeros([9, 9, 3]), [n, 2, 3]), [None, 2, 3]),
        (lambda n: mr.image.resize(mr.zeros([9, 9, 3]), [mr.cast(n, mr.int32), 5]), [None, 5, 3]),
        (lambda n: mr.zeros([n, n]), [None, None]),
    ],
)
def test_what_is_known_of_a_list_of_sizes_stays_known(make, dims):
    """Among sizes that are tensors, as in TensorFlow."""
    ds = mr.Dataset.range(3, 5).map(make)
    assert ds.element_spec.shape.as_list() == dims
    for n, x in zip((3, 4), ds):
        assert all(known in (None, size) for known, size in zip(dims, x.shape)) and n in x.shape
