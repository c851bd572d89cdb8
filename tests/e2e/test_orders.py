"""
Orders without a seed: another one in each iteration, unless one order was asked for. Then it is the
dataset's.
"""

import pickle

import pytest

from millrace import Dataset


def fixed(n=100):
    return Dataset.range(n).shuffle(n, reshuffle_each_iteration=False)


def sampled(n=100):
    return Dataset.sample_from_datasets(
        [Dataset.range(n), Dataset.range(n, 2 * n)], rerandomize_each_iteration=False
    )


def test_what_is_skipped_is_what_another_takes():
    for ds in (fixed(), sampled(50)):
        test, train = set(ds.take(30)), set(ds.skip(30))
        assert not test & train and test | train == set(range(100))
        assert list(ds) != sorted(ds)


def test_all_iterations_have_one_order():
    for ds in (fixed(), sampled()):
        order = list(ds)
        assert [list(ds) for _ in range(3)] == [order] * 3
        assert list(ds.repeat(2)) == 2 * order
        assert all(a == b for a, b in Dataset.zip(ds, ds))
        assert [int(x) for x, _ in Dataset.zip(ds.map(lambda x: x + 1), ds)] == [
            x + 1 for x in order
        ]
        assert list(pickle.loads(pickle.dumps(ds))) == order


def test_another_dataset_has_another_order():
    assert list(fixed()) != list(
        Dataset.range(100).map(lambda x: x).shuffle(100, reshuffle_each_iteration=False)
    )
    assert list(fixed()) != list(
        Dataset.range(100).shuffle(100, seed=1, reshuffle_each_iteration=False)
    )


def test_orders_inside_of_functions_differ_and_stay():
    ds = Dataset.range(8).flat_map(
        lambda x: Dataset.range(20).shuffle(20, reshuffle_each_iteration=False).batch(20)
    )
    orders = [tuple(b.tolist()) for b in ds]
    assert len(set(orders)) > 1
    assert [tuple(b.tolist()) for b in ds] == orders


def five(ds):
    return ds.shuffle(5, reshuffle_each_iteration=False)


INSIDE = {
    "flat_map": Dataset.range(8).flat_map(
        lambda x: five(Dataset.range(5)).map(lambda y: y + 5 * x)
    ),
    "interleave": Dataset.range(8).interleave(
        lambda x: five(Dataset.range(5)).map(lambda y: y + 5 * x), cycle_length=3
    ),
    "parallel interleave": Dataset.range(8).interleave(
        lambda x: five(Dataset.range(5)).map(lambda y: y + 5 * x),
        cycle_length=3,
        num_parallel_calls=2,
    ),
    "two levels": Dataset.range(2).flat_map(
        lambda x: Dataset.range(4).flat_map(
            lambda y: five(Dataset.range(5)).map(lambda z: z + 5 * y + 20 * x)
        )
    ),
    "window": Dataset.range(40).window(5).flat_map(five),
    "group_by_window": Dataset.range(40).group_by_window(
        lambda x: x % 2, lambda key, group: five(group), window_size=5
    ),
    "sample": Dataset.range(8).flat_map(
        lambda x: Dataset.sample_from_datasets(
            [
                Dataset.range(3).map(lambda y: y + 5 * x),
                Dataset.range(3, 5).map(lambda y: y + 5 * x),
            ],
            rerandomize_each_iteration=False,
        )
    ),
}


@pytest.mark.parametrize("name", INSIDE)
def test_orders_inside_of_functions_do_not_depend_on_what_stands_above(name):
    ds = INSIDE[name]
    order = list(ds)
    assert sorted(order) == list(range(40)) != order
    assert list(ds.take(12)) + list(ds.skip(12)) == order
    assert list(ds.map(lambda x: x).prefetch(2).cache()) == order
    assert list(ds.repeat(2)) == 2 * order


def test_without_that_each_iteration_has_its_own():
    ds = Dataset.range(100).shuffle(100)
    assert len({tuple(ds) for _ in range(3)}) == 3
    assert (
        len(
            {
                tuple(Dataset.sample_from_datasets([Dataset.range(100), Dataset.range(100)]))
                for _ in range(3)
            }
        )
        == 3
    )
