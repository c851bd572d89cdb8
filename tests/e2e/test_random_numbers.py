"""mr.random: distributions, and what the numbers depend on. All seeds are fixed, so nothing is luck."""

import math

import numpy as np
import pytest

import millrace as mr

N = 40_000


def ks(values, cdf):
    """Kolmogorov's statistic, times the root of the number of values: above 1.95 once in 1000."""
    ordered = np.sort(np.asarray(values, np.float64))
    expected = np.vectorize(cdf)(ordered)
    places = np.arange(len(ordered) + 1) / len(ordered)
    gap = max(np.abs(places[1:] - expected).max(), np.abs(places[:-1] - expected).max())
    return gap * math.sqrt(len(ordered))


def phi(x):
    return 0.5 * (1 + math.erf(x / math.sqrt(2)))


def chi2(counts, expected):
    """Chi squared in standard deviations of it, for many degrees of freedom."""
    statistic = (((counts - expected) ** 2) / expected).sum()
    freedom = len(counts) - 1
    return (statistic - freedom) / math.sqrt(2 * freedom)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_uniform(dtype):
    values = mr.random.uniform([N], -2, 6, dtype=dtype, seed=11)
    assert values.dtype == dtype
    assert values.min() >= -2 and values.max() < 6
    assert ks(values, lambda x: (x + 2) / 8) < (1.95 if dtype != "float16" else 3)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_uniform_integers(dtype):
    values = mr.random.uniform([N], -3, 47, dtype=dtype, seed=5)
    assert values.dtype == dtype
    counts = np.bincount(values + 3, minlength=50)
    assert len(counts) == 50 and abs(chi2(counts, N / 50)) < 4


def test_the_full_range_of_integers():
    for dtype in ("int32", "int64", "uint32", "uint64"):
        values = mr.random.stateless_uniform([N], (3, 4), None, None, dtype)
        info = np.iinfo(dtype)
        places = (values.astype(np.float64) - info.min) / (float(info.max) - info.min)
        assert ks(places, lambda x: x) < 1.95


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal(dtype):
    values = mr.random.normal([N], 3, 2, dtype=dtype, seed=2)
    assert ks(values, lambda x: phi((x - 3) / 2)) < 1.95
    half = values[: N // 2], values[N // 2 :]
    assert abs(np.corrcoef(*half)[0, 1]) < 0.03
    assert abs(np.corrcoef(values[:-1], values[1:])[0, 1]) < 0.02


def test_truncated_normal():
    values = mr.random.truncated_normal([N], 1, 0.5, seed=2)
    assert values.min() > 0 and values.max() < 2
    inside = phi(2) - phi(-2)
    assert ks(values, lambda x: (phi((x - 1) / 0.5) - phi(-2)) / inside) < 1.95


def test_bounds_that_are_no_scalars():
    values = mr.random.uniform([N, 2], [0.0, 10.0], [1.0, 12.0], seed=1)
    assert ks(values[:, 0], lambda x: x) < 1.95 and ks(values[:, 1], lambda x: (x - 10) / 2) < 1.95
    values = mr.random.normal([N, 2], [0.0, 10.0], [1.0, 2.0], seed=1)
    assert ks(values[:, 1], lambda x: phi((x - 10) / 2)) < 1.95


def test_categorical():
    p = np.array([[0.1, 0.2, 0.7], [0.6, 0.4, 0.0]])
    with np.errstate(divide="ignore"):
        drawn = mr.random.categorical(np.log(p), N, seed=9)
    assert drawn.shape == (2, N) and drawn.dtype == np.int64
    for row, wanted in zip(drawn, p):
        counts = np.bincount(row, minlength=3)
        assert (counts[wanted == 0] == 0).all()
        assert abs(chi2(counts[wanted > 0], N * wanted[wanted > 0])) < 4


def test_shuffle_gives_every_order():
    orders = mr.Dataset.range(24_000).map(lambda _: mr.random.shuffle([0, 1, 2, 3]))
    found = np.stack(list(orders)) @ np.array([1000, 100, 10, 1])
    kinds, counts = np.unique(found, return_counts=True)
    assert len(kinds) == 24 and chi2(counts, 1000) < 4
    rows = mr.random.shuffle([[1, 2], [3, 4], [5, 6]], seed=1)
    assert sorted(rows.tolist()) == [[1, 2], [3, 4], [5, 6]]
    assert sorted(mr.random.shuffle(["a", "b"]).tolist()) == [b"a", b"b"]


def drawn(ds, **options):
    return [float(x) for x in ds.map(lambda _: mr.random.uniform([], seed=7), **options)]


def test_numbers_depend_on_the_place_of_the_element_alone():
    ds = mr.Dataset.range(500)
    alone = drawn(ds)
    assert len(set(alone)) == 500
    assert drawn(ds, num_parallel_calls=4) == alone
    assert drawn(ds.prefetch(3)) == alone
    assert drawn(ds.skip(0).take(100)) == alone[:100]
    batched = ds.batch(10).unbatch()
    assert drawn(batched) == alone


def test_numbers_inside_of_functions_do_not_depend_on_calls_at_once():
    def read(calls):
        def some(i):
            order = mr.Dataset.range(9).shuffle(9, reshuffle_each_iteration=False).take(3)
            numbers = lambda k: (i, k, mr.random.uniform([], seed=7))
            return order.map(numbers, num_parallel_calls=calls)

        ds = mr.Dataset.range(20).interleave(some, cycle_length=4, num_parallel_calls=calls)
        return [(int(i), int(k), float(u)) for i, k, u in ds]

    alone = read(None)
    assert len({u for _, _, u in alone}) == 60
    assert len({tuple(k for j, k, _ in alone if j == i) for i in range(20)}) > 10
    assert read(2) == alone and read(mr.AUTOTUNE) == alone


def test_every_epoch_has_numbers_of_its_own():
    ds = mr.Dataset.range(50).map(lambda _: mr.random.uniform([], seed=7))
    twice = list(ds.repeat(2))
    assert len(set(twice)) == 100
    assert list(ds) == twice[:50]


def test_without_a_seed_each_operator_draws_for_itself():
    """Four numbers at a time: two of 600 single ones of 24 bits are equal once in 90 runs."""
    ds = mr.Dataset.range(100).map(
        lambda _: (mr.random.uniform([4]), mr.random.uniform([4]), mr.random.normal([4]))
    )
    first, second = list(ds), list(ds)
    flat = [tuple(v.tolist()) for element in first + second for v in element]
    assert len(set(flat)) == len(flat)


def test_operators_of_one_seed_draw_the_same():
    a, b = next(
        iter(
            mr.Dataset.range(1).map(
                lambda _: (mr.random.uniform([3], seed=1), mr.random.uniform([3], seed=1))
            )
        )
    )
    assert (a == b).all()


def test_a_restored_iterator_goes_on_with_its_numbers():
    ds = mr.Dataset.range(30).map(lambda _: mr.random.uniform([2]), num_parallel_calls=2)
    it = ds.as_numpy_iterator()
    for _ in range(11):
        next(it)
    state = it.get_state()
    rest = [x.tolist() for x in it]
    again = ds.as_numpy_iterator()
    again.set_state(state)
    assert [x.tolist() for x in again] == rest


def test_stateless_numbers_depend_on_the_seed_alone():
    ds = mr.Dataset.range(6).map(
        lambda i: mr.random.stateless_normal([2], mr.random.fold_in((1, 2), i % 3))
    )
    values = [x.tolist() for x in ds.repeat(2)]
    assert values[:3] == values[3:6] == values[6:9]
    assert len({tuple(v) for v in values}) == 3
    for dtype in (np.int32, np.int64):
        seeds = mr.random.split(np.array([1, 2], dtype), 50)
        assert seeds.dtype == dtype and len(np.unique(seeds, axis=0)) == 50


def test_seeds_of_64_bits():
    numbers = mr.Dataset.range(50)
    box = [[[0.2, 0.2, 0.9, 0.9]]]

    def drawn(seed):
        sampled = mr.Dataset.sample_from_datasets([numbers, numbers], seed=seed)
        begin, size, _ = mr.image.sample_distorted_bounding_box(
            [400, 600, 3], box, seed, min_object_covered=0.1
        )
        return (
            mr.random.uniform([3], seed=seed).tolist(),
            list(mr.Dataset.random(seed=seed).take(3)),
            list(numbers.shuffle(50, seed=seed)),
            list(sampled.take(20)),
            [*begin, *size],
        )

    for seed in (2**63, 2**64 - 2):
        assert drawn(np.uint64(seed)) == drawn(seed) == drawn(seed - 2**64)
    assert drawn(np.uint64(2**64 - 2)) != drawn(np.int64(2**63 - 1)) == drawn(2**63 - 1)
    for seed in (2**64, -(2**63) - 1):
        with pytest.raises(mr.errors.InvalidArgumentError, match="no signed integer of 64 bits"):
            mr.random.uniform([3], seed=seed)


def test_the_global_seed():
    def make():
        ds = mr.Dataset.range(20).shuffle(20).map(lambda x: (x, mr.random.uniform([])))
        return [(int(x), float(u)) for x, u in ds]

    try:
        mr.random.set_seed(3)
        first, other = make(), make()
        mr.random.set_seed(3)
        assert make() == first and make() == other and first != other
        mr.random.set_seed(4)
        assert make() != first
    finally:
        mr.random.set_seed(None)


def test_a_dataset_of_numbers():
    ds = mr.Dataset.random(seed=4).take(1000)
    values = list(ds)
    assert values == list(ds) and ks(values, lambda x: x / 2**32) < 1.95
    assert ds.element_spec == mr.TensorSpec([], mr.int64)
    assert mr.Dataset.random().cardinality() == mr.Dataset.counter().cardinality()
    again = mr.Dataset.random(seed=4, rerandomize_each_iteration=True).take(100).repeat(2)
    assert len(set(again)) == 200
    same = list(mr.Dataset.random(seed=4).take(100).repeat(2))
    assert same[:100] == same[100:]


@pytest.mark.parametrize("initial", [None, [0.8, 0.15, 0.05]])
def test_rejection_resample(initial):
    kinds = np.random.RandomState(1).choice(3, 12_000, p=[0.8, 0.15, 0.05])
    ds = mr.Dataset.from_tensor_slices({"kind": kinds, "place": np.arange(12_000)})
    target = [0.2, 0.3, 0.5]
    out = list(ds.rejection_resample(lambda x: x["kind"], target, initial, seed=1))
    assert all(kind == x["kind"] for kind, x in out)
    places = [int(x["place"]) for _, x in out]
    assert places == sorted(set(places))
    counts = np.bincount([int(kind) for kind, _ in out], minlength=3)
    assert abs(counts / counts.sum() - target).max() < 0.05
    # Nearly all of the class that limits stay.
    assert counts[2] > 0.9 * (kinds == 2).sum()


def test_rejection_resample_of_what_is_right_already_keeps_everything():
    ds = mr.Dataset.range(100).rejection_resample(lambda x: x % 2, [0.5, 0.5], [0.5, 0.5])
    assert [int(x) for _, x in ds] == list(range(100))


def test_shapes_known_when_running():
    ds = mr.Dataset.range(1, 4).map(lambda n: mr.random.uniform(mr.stack([n, 2 * n])))
    assert [x.shape for x in ds] == [(1, 2), (2, 4), (3, 6)]


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: mr.random.uniform([2], dtype="int32"), "maxval must be given"),
        (lambda: mr.random.uniform([2], 5, 5, "int64"), "minval is not below maxval"),
        (lambda: mr.random.uniform([-1]), "dim 0 of the shape is -1"),
        (lambda: mr.random.normal([2], dtype="int32"), "int32"),
        (lambda: mr.random.stateless_uniform([2], seed=(1, 2, 3)), "takes two integers"),
        (lambda: mr.random.stateless_uniform([2], seed=(1, 2), dtype="int32"), "maxval"),
        (lambda: mr.random.stateless_uniform([2], (1, 2), 3, None, "int32"), "both, or neither"),
        (lambda: mr.random.categorical([0.0, 1.0], 2), "rank"),
        (lambda: mr.random.categorical([[float("nan")]], 2), "no finite maximum"),
        (lambda: mr.random.uniform([1 << 40]), "bytes"),
        (lambda: mr.random.poisson([2], 1.0), "is not supported"),
        (lambda: mr.Dataset.range(3).rejection_resample(lambda x: x, 0.5), "a number for each"),
    ],
)
def test_refusals(call, text):
    with pytest.raises((TypeError, ValueError, mr.errors.OpError), match=text):
        call()
