"""Elements that fail: what stands behind them has the place that it would have, whatever puts elements together or counts them."""

import contextlib

import numpy as np
import pytest

import millrace as mr
from millrace import Dataset

NUMBERS = [1, 2, 0, 4, 5, 6, 0, 0, 9, 10, 11, 12, 13, 0]
SHAPES_OF_PIPELINES = {
    "nothing": lambda ds: ds,
    "take": lambda ds: ds.take(12),
    "skip": lambda ds: ds.skip(2),
    "batch": lambda ds: ds.batch(2),
    "batch of three": lambda ds: ds.batch(3, drop_remainder=True),
    "padded_batch": lambda ds: ds.map(lambda x: mr.fill([x % 3], x)).padded_batch(3),
    "windows": lambda ds: ds.window(3).flat_map(lambda w: w.batch(3)),
    "windows that overlap": lambda ds: ds.window(3, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(3)),
    "prefetch": lambda ds: ds.prefetch(2),
    "parallel map": lambda ds: ds.map(lambda x: x, num_parallel_calls=3),
    "concatenate": lambda ds: ds.concatenate(Dataset.range(3)),
    "zip": lambda ds: Dataset.zip(Dataset.range(100), ds).map(lambda i, x: x),
    "cache, three times": lambda ds: ds.cache().repeat(3),
    "interleave": lambda ds: Dataset.range(2).interleave(lambda _: ds, cycle_length=2),
    "blocks of two": lambda ds: Dataset.range(3).interleave(lambda _: ds, cycle_length=2, block_length=2),
    "parallel interleave": lambda ds: Dataset.range(3).interleave(lambda _: ds, cycle_length=2, num_parallel_calls=2),
    "choose": lambda ds: Dataset.choose_from_datasets([ds, ds], Dataset.range(2).repeat()),
    "sample": lambda ds: Dataset.sample_from_datasets([ds, ds], seed=3),
}


def check(x):
    """@x; an error where it is 0."""
    return 360 // x * 0 + x


@pytest.mark.parametrize("name", SHAPES_OF_PIPELINES)
def test_behind_an_element_that_fails_everything_has_its_place(name):
    shape = SHAPES_OF_PIPELINES[name]
    a = Dataset.from_tensor_slices(np.array(NUMBERS, np.int64))
    for first, second in ((a.map(check), a), (a, a.map(check))):
        pairs = list(Dataset.zip(shape(first), shape(second)).ignore_errors())
        assert len(pairs) >= 1
        for x, y in pairs:
            np.testing.assert_array_equal(x, y)
        if name == "nothing":
            assert [int(x) for x, _ in pairs] == [x for x in NUMBERS if x]


def test_enumerate_counts_elements_that_fail():
    a = Dataset.from_tensor_slices([1, 2, 0, 4, 5]).map(lambda x: 100 // x)
    assert list(a.enumerate().ignore_errors()) == [(0, 100), (1, 50), (3, 25), (4, 20)]
    assert list(Dataset.zip(a.enumerate(), a.enumerate(5)).ignore_errors())[2] == ((3, 25), (8, 25))


def test_the_reader_goes_on_behind_an_element_that_failed():
    a = Dataset.from_tensor_slices([0, 2, 0, 4])
    ds = Dataset.zip(a, a.map(lambda x: 100 // x), Dataset.range(2, 100))
    it = iter(ds)
    seen = []
    for _ in range(4):
        state = it.get_state()
        try:
            seen.append(tuple(map(int, next(it))))
        except mr.errors.InvalidArgumentError:
            seen.append(None)
        other = iter(ds)
        other.set_state(state)
        with contextlib.suppress(mr.errors.InvalidArgumentError):
            assert tuple(map(int, next(other))) == seen[-1]
    assert seen == [None, (2, 50, 3), None, (4, 25, 5)]
    assert next(it, None) is None


def test_a_batch_fails_as_a_whole():
    a = Dataset.from_tensor_slices([1, 0, 3, 4, 5, 6, 0]).map(check)
    assert [b.tolist() for b in a.batch(2).ignore_errors()] == [[3, 4], [5, 6]]
    assert [b.tolist() for b in a.ignore_errors().batch(2)] == [[1, 3], [4, 5], [6]]


def test_a_pass_with_an_element_that_failed_is_not_kept():
    numbers = Dataset.from_tensor_slices([1, 0, 3])
    cached = numbers.map(check).cache()
    for _ in range(2):
        assert list(Dataset.zip(numbers, cached).ignore_errors()) == [(1, 1), (3, 3)]


def test_a_cache_that_gave_all_elements_is_complete():
    calls = Dataset.range(4).shuffle(4)  # another order at each pass that reads it
    cached = calls.cache()
    it = iter(cached)
    first = [next(it) for _ in range(4)]
    it.close()  # the end was never seen
    assert [list(cached) for _ in range(6)] == [first] * 6
    other = calls.cache()
    orders = set()
    for _ in range(20):
        it = iter(other)
        orders.add(tuple(next(it) for _ in range(3)))
        it.close()
    assert len(orders) > 1  # three of four are not all


def outcomes(ds):
    """The elements of @ds, and None for each error."""
    it, seen = iter(ds), []
    while True:
        try:
            seen.append(next(it).tolist())
        except StopIteration:
            return seen
        except mr.errors.InvalidArgumentError:
            seen.append(None)


def test_errors_of_a_parallel_interleave_overtake_nothing():
    random = np.random.default_rng(7)
    for _ in range(60):
        outer = Dataset.from_tensor_slices(random.integers(0, 6, random.integers(1, 9))).map(check)
        cycle, block = int(random.integers(1, 5)), int(random.integers(1, 4))

        def several(x):
            return Dataset.range(x).map(lambda i: check(i - 2) + 10 * x)

        one = outer.interleave(several, cycle_length=cycle, block_length=block)
        many = outer.interleave(several, cycle_length=cycle, block_length=block, num_parallel_calls=cycle)
        assert outcomes(many) == outcomes(one)


@pytest.mark.parametrize("pipeline", [
    lambda ds: Dataset.range(1).interleave(lambda _: ds, cycle_length=1),
    lambda ds: Dataset.range(1).interleave(lambda _: ds, cycle_length=1, num_parallel_calls=1),
    lambda ds: Dataset.choose_from_datasets([ds], Dataset.from_tensors(np.int64(0)).repeat(7)),
    lambda ds: ds.shuffle(1),
    lambda ds: ds.batch(1).unbatch(),
    lambda ds: ds.filter(lambda x: mr.size(x) > 0),
    lambda ds: ds.scan(np.int64(0), lambda s, x: (s, x)),
])
def test_errors_overtake_no_element_of_another_rank(pipeline):
    ranks = (Dataset.range(3).map(lambda x: mr.fill([2], x)).concatenate(Dataset.range(3, 4).map(lambda x: mr.fill([1, 2], x)))
             .concatenate(Dataset.range(4, 7).map(lambda x: mr.fill([2], check(x - 5)))))
    want = [[0, 0], [1, 1], [2, 2], [[3, 3]], [-1, -1], None, [1, 1]]
    assert outcomes(ranks) == want
    assert outcomes(pipeline(ranks)) == want
