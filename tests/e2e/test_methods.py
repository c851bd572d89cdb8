"""Methods and slices that symbolic tensors share with NumPy's arrays."""

import numpy as np
import pytest

import millrace as mr
from test_tensors import over, sample

X = sample(np.float32, (4, 3, 5))
I = sample(np.int32, (4, 3, 5))


def same(function, x, rtol=1e-5):
    """What @function makes of a symbolic tensor is what it makes of an array."""
    expected = np.stack([np.asarray(function(row)) for row in x])
    got = over(function, x)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", ["mean", "sum", "min", "max", "prod", "std", "var"])
@pytest.mark.parametrize(
    "arguments", [{}, {"axis": 0}, {"axis": (0, 1)}, {"axis": -1, "keepdims": True}]
)
def test_reductions_of_floats(name, arguments):
    same(lambda x: getattr(x, name)(**arguments), X, 1e-4)


@pytest.mark.parametrize("name", ["min", "max", "any", "all", "argmax", "argmin"])
@pytest.mark.parametrize("arguments", [{}, {"axis": 0}, {"axis": -1, "keepdims": True}])
def test_reductions_of_integers(name, arguments):
    same(lambda x: getattr(x, name)(**arguments), I)


def test_the_dtype_rules_are_tensorflows():
    same(lambda x: x.sum(dtype=np.int64), I)
    same(lambda x: x.mean(dtype=np.float64), I)
    same(lambda x: x.var(ddof=1), X)
    same(lambda x: x.cumsum(1), X)
    same(lambda x: x.cumsum(dtype=np.int64), I)
    same(lambda x: x.cumprod(0), X)
    got = list(mr.Dataset.from_tensors(np.int32([1, 2])).map(lambda x: (x.mean(), x.sum())))[0]
    assert [v.dtype for v in got] == [np.int32] * 2 and got[0] == 1
    with pytest.raises(TypeError, match="dtype=mr.float32"):
        mr.Dataset.range(3).batch(3).map(lambda x: x.std())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.astype(np.float64),
        lambda x: x.reshape(5, 3),
        lambda x: x.reshape((5, -1)),
        lambda x: x.reshape([-1]),
        lambda x: x.reshape(np.int64(-1)),
        lambda x: x.transpose(),
        lambda x: x.transpose(1, 0),
        lambda x: x.transpose((1, 0)),
        lambda x: x.T,
        lambda x: x.flatten(),
        lambda x: x.ravel(),
        lambda x: x[None].squeeze(0),
        lambda x: x[None, ..., None].squeeze(),
        lambda x: x.clip(-1, 2),
        lambda x: x.clip(max=2),
        lambda x: x.round(),
        lambda x: x.swapaxes(0, -1),
        lambda x: x.copy(),
        lambda x: x.repeat(2, axis=1),
        lambda x: x.repeat(2),
        lambda x: x.take([2, 0], axis=0),
        lambda x: x.take([2, 0]),
        lambda x: np.int64(x.ndim) if isinstance(x, np.ndarray) else mr.constant(x.ndim, mr.int64),
        lambda x: np.int64(x.size) if isinstance(x, np.ndarray) else mr.constant(x.size, mr.int64),
    ],
)
def test_methods(function):
    same(function, X)
    same(function, I)


def test_rounded_to_digits():
    same(lambda x: x.round(2), X)
    same(lambda x: x.round(-1), sample(np.float64, (3, 4), -100, 100))
    same(lambda x: x.round(1), I)
    with pytest.raises(TypeError, match="cast it first"):
        mr.Dataset.range(3).map(lambda x: x.round(-1))


@pytest.mark.parametrize(
    "first,second",
    [
        ((3,), (3,)),
        ((2, 3), (3,)),
        ((3,), (3, 2)),
        ((2, 3), (3, 2)),
        ((4, 2, 3), (3,)),
        ((3,), (4, 3, 2)),
        ((4, 2, 3), (3, 2)),
    ],
)
def test_products(first, second):
    a, b = sample(np.float64, (3, *first)), sample(np.float64, (3, *second))
    for function in (lambda x, y: x @ y, lambda x, y: x.dot(y)):
        expected = np.stack([np.asarray(function(*row)) for row in zip(a, b)])
        np.testing.assert_allclose(over(function, a, b), expected)
    constant = b[0]
    np.testing.assert_allclose(over(lambda x: x @ constant, a), np.stack([x @ constant for x in a]))
    np.testing.assert_allclose(over(lambda y: a[0] @ y, b), np.stack([a[0] @ y for y in b]))


def test_values_are_refused():
    for name in ("item", "tolist", "numpy"):
        with pytest.raises(
            TypeError, match=rf"x\.{name}\(\).*no value while the function is traced"
        ):
            mr.Dataset.range(3).map(lambda x: getattr(x, name)())


def test_what_scripts_of_tensorflow_say_of_tensors():
    ds = mr.Dataset.range(3)
    assert [x.shape for x in ds.map(lambda x: mr.stack([x, x])[mr.newaxis, :])] == [(1, 2)] * 3
    assert list(ds.map(lambda x: (x.set_shape([]), x)[1])) == list(ds)
    for make in (mr.random.Generator.from_seed, mr.random.experimental.Generator.from_state):
        with pytest.raises(
            mr.errors.UnimplementedError, match="Generator.from_.*mr.random.uniform"
        ):
            make(1)


def test_a_size_that_is_not_known():
    ds = mr.Dataset.range(5).batch(2).map(lambda x: x.size)
    assert list(ds) == [2, 2, 1]
    ds = mr.Dataset.range(5).batch(2).map(lambda x: x.reshape(x.size, 1).shape.rank)
    assert list(ds) == [2, 2, 2]


# ---- x[...] ----

BOUNDS = [-7, -5, -2, 0, 1, 3, 5, 9]


@pytest.mark.parametrize("step", [1, 2, -1, -3])
def test_bounds_that_are_tensors(step):
    pairs = [(a, b) for a in BOUNDS for b in BOUNDS]
    ds = mr.Dataset.from_tensor_slices(np.int64(pairs))
    x = np.arange(10).reshape(5, 2)
    got = list(ds.map(lambda p: mr.constant(x)[p[0] : p[1] : step]))
    for (a, b), piece in zip(pairs, got):
        np.testing.assert_array_equal(piece, x[a:b:step])
    got = list(ds.map(lambda p: mr.constant(x)[p[0] :: step, ::-1]))
    for (a, _), piece in zip(pairs, got):
        np.testing.assert_array_equal(piece, x[a::step, ::-1])
    got = list(ds.map(lambda p: mr.constant(x.T)[..., : p[1] : step]))
    for (_, b), piece in zip(pairs, got):
        np.testing.assert_array_equal(piece, x.T[..., :b:step])


def test_steps_that_are_tensors():
    x = np.arange(10)
    steps = [-3, -1, 1, 2]
    got = list(mr.Dataset.from_tensor_slices(steps).map(lambda s: mr.constant(x)[::s]))
    for s, piece in zip(steps, got):
        np.testing.assert_array_equal(piece, x[::s])
    with pytest.raises(mr.errors.InvalidArgumentError, match="stride 0"):
        list(mr.Dataset.range(1).map(lambda s: mr.constant(x)[::s]))


def test_mixed_entries():
    x = np.arange(120).reshape(2, 3, 4, 5)
    numbers = np.int32([[0, 1], [1, 2]])
    keys = [
        lambda i, j: np.s_[i, :, j],
        lambda i, j: np.s_[i, j, 1:j, None],
        lambda i, j: np.s_[..., j, i:],
        lambda i, j: np.s_[1, None, j:, i],
        lambda i, j: np.s_[:, j:, ..., -1],
    ]
    for key in keys:
        got = list(
            mr.Dataset.from_tensor_slices(numbers).map(lambda p: mr.constant(x)[key(p[0], p[1])])
        )
        for (i, j), piece in zip(numbers, got):
            np.testing.assert_array_equal(piece, x[key(i, j)])


def test_sizes_that_stay_known():
    spec = mr.Dataset.range(3).map(lambda n: mr.zeros([4, 5])[n:, 1:]).element_spec
    assert spec.shape.as_list() == [None, 4]


def test_masks():
    x = sample(np.int32, (6, 4))
    ds = mr.Dataset.from_tensor_slices(x)
    for row, kept in zip(x, ds.map(lambda v: v[v > 0])):
        np.testing.assert_array_equal(kept, row[row > 0])
    mask = np.array([True, False, True, True])
    np.testing.assert_array_equal(over(lambda v: v[mask], x), x[:, mask])


def test_indices_that_are_refused():
    for key, says in (
        (lambda v: v[mr.constant([0, 1])], "mr.gather"),
        (lambda v: v[[0, 1]], "mr.gather"),
        (lambda v: v[True], "bool"),
        (lambda v: v[np.True_], "bool"),
        (lambda v: v[mr.constant(1.0) :], "integer scalar"),
        (lambda v: v[mr.constant([1]) :], "integer scalar"),
    ):
        with pytest.raises(TypeError, match=says):
            mr.Dataset.range(3).batch(3).map(key)


@pytest.mark.parametrize(
    "key",
    [
        lambda v, i: v[:, :],
        lambda v, i: v[..., :, :],
        lambda v, i: v[i, :],
        lambda v, i: v[:, i],
        lambda v, i: v[:i, :],
        lambda v, i: v[0, :],
        lambda v, i: i[:],
    ],
)
def test_more_indices_than_axes_are_refused(key):
    ds = mr.Dataset.range(6).batch(3).map(lambda v: (v, v[0]))
    with pytest.raises(mr.errors.InvalidArgumentError, match="more indices than the"):
        ds.map(key)
