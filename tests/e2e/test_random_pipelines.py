"""
Random pipelines of scalars, each beside a list that goes through the same steps in Python: the
values, the cardinality, the definition through a pickle, a position saved anywhere, and (a few of
them) what one worker or several make of it.

MR_SEED=n tries that pipeline alone; a failure says its number and its steps.
"""

import itertools
import os
import pickle
import random
import tempfile

import numpy as np
import pytest

import millrace as mr

Dataset = mr.Dataset

ELEMENTS_MAX = 400
FILES = tempfile.TemporaryDirectory()  # of what is saved
STEPS = []


def step(function):
    """A step: (random, depth, dataset, list) -> (dataset, list, its text)."""
    STEPS.append(function)
    return function


def values(ds):
    return [int(x) for x in ds]


def slices(numbers, n):
    return [numbers[i : i + n] for i in range(0, len(numbers), n)]


# ---- sources ----


def source(r):
    kind = r.randrange(3)
    if kind == 0:
        arguments = r.choice(
            [
                (r.randrange(30),),
                (r.randrange(-5, 20), r.randrange(-5, 40), r.choice([1, 2, 3, -1, -4])),
            ]
        )
        return Dataset.range(*arguments), list(range(*arguments)), f"range{arguments}"
    if kind == 1:
        numbers = [r.randrange(-9, 50) for _ in range(r.randrange(12))]
        return (
            Dataset.from_tensor_slices(np.array(numbers, np.int64)),
            numbers,
            f"slices({numbers})",
        )
    number = r.randrange(100)
    return Dataset.from_tensors(np.int64(number)), [number], f"tensors({number})"


def pipeline(r, depth=0, steps_max=8):
    ds, numbers, text = source(r)
    for _ in range(r.randrange(steps_max + 1) if depth <= 2 else 0):
        ds, numbers, name = r.choice(STEPS)(r, depth, ds, numbers)
        ds, numbers = ds.take(ELEMENTS_MAX), numbers[:ELEMENTS_MAX]
        text += "." + name
    return ds, numbers, text


def divisible_pipeline(r):
    """One that makes the same elements whoever makes them."""
    ds, numbers, text = source(r)
    for _ in range(r.randrange(7)):
        ds, numbers, name = r.choice(
            [
                map_,
                map_of_structures,
                filter_,
                ignore_errors,
                prefetch,
                cache,
                saved,
                shuffle,
                flat_map,
                interleave,
                bucket_by_sequence_length,
                whole_windows,
            ]
        )(r, 0, ds, numbers)
        text += "." + name
    return ds, numbers, text


# ---- one element after the other ----


@step
def map_(r, depth, ds, numbers):
    n, calls = r.randrange(1, 6), r.choice([None, 1, 3, mr.AUTOTUNE])
    return (
        ds.map(lambda x: x * n + 1, num_parallel_calls=calls),
        [x * n + 1 for x in numbers],
        f"map({n}, {calls})",
    )


@step
def map_of_structures(r, depth, ds, numbers):
    ds = ds.map(lambda x: (x, {"a": x + 1})).map(lambda x, d: d["a"] * 2 - x)
    return ds, [x + 2 for x in numbers], "structures"


@step
def filter_(r, depth, ds, numbers):
    n = r.randrange(2, 7)
    return ds.filter(lambda x: x % n != 0), [x for x in numbers if x % n != 0], f"filter({n})"


@step
def ignore_errors(r, depth, ds, numbers):
    return (
        ds.map(lambda x: 100 // (x % 7)).ignore_errors(),
        [100 // (x % 7) for x in numbers if x % 7],
        "ignore_errors",
    )


@step
def scan(r, depth, ds, numbers):
    ds = ds.scan(np.int64(0), lambda s, x: (s + x, (s + x) % 1000))
    return ds, [s % 1000 for s in itertools.accumulate(numbers)], "scan"


@step
def take_skip(r, depth, ds, numbers):
    n, m = r.randrange(20), r.randrange(40)
    return ds.skip(n).take(m), numbers[n : n + m], f"skip({n}).take({m})"


@step
def take_while(r, depth, ds, numbers):
    n = r.randrange(40)
    return (
        ds.take_while(lambda x: x < n),
        list(itertools.takewhile(lambda x: x < n, numbers)),
        f"take_while({n})",
    )


@step
def shard(r, depth, ds, numbers):
    n = r.randrange(1, 6)
    i = r.randrange(n)
    return ds.shard(n, i), numbers[i::n], f"shard({n}, {i})"


@step
def unique(r, depth, ds, numbers):
    return ds.unique(), list(dict.fromkeys(numbers)), "unique"


@step
def enumerate_(r, depth, ds, numbers):
    n = r.randrange(5)
    return (
        ds.enumerate(n).map(lambda i, x: i * x),
        [i * x for i, x in enumerate(numbers, n)],
        f"enumerate({n})",
    )


@step
def repeat(r, depth, ds, numbers):
    n = r.randrange(4)
    return ds.repeat(n), numbers * n, f"repeat({n})"


@step
def prefetch(r, depth, ds, numbers):
    n = r.choice([1, 3, mr.AUTOTUNE])
    return ds.prefetch(n), numbers, f"prefetch({n})"


@step
def cache(r, depth, ds, numbers):
    return ds.cache(), numbers, "cache"


@step
def saved(r, depth, ds, numbers):
    compression, n = r.choice([None, "LZ4", "ZSTD", "GZIP", "SNAPPY"]), r.choice([1, 40, 1 << 20])
    path = tempfile.mkdtemp(dir=FILES.name)
    ds.save(path, compression, chunk_bytes=n)
    return Dataset.load(path), numbers, f"saved({compression}, {n})"


@step
def shuffle(r, depth, ds, numbers):
    n, seed = r.choice([1, 5, 1000]), r.randrange(100)
    ds = ds.shuffle(n, seed=seed, reshuffle_each_iteration=False)
    order = values(ds)  # the list has no order to compare with: from here on it is this one
    assert sorted(order) == sorted(numbers)
    return ds, order, f"shuffle({n}, {seed})"


# ---- several datasets ----


@step
def zip_(r, depth, ds, numbers):
    other, more, text = pipeline(r, depth + 1, 2)
    return (
        Dataset.zip(ds, other).map(lambda a, b: a * 3 + b),
        [a * 3 + b for a, b in zip(numbers, more)],
        f"zip<{text}>",
    )


@step
def concatenate(r, depth, ds, numbers):
    other, more, text = pipeline(r, depth + 1, 2)
    return ds.concatenate(other), numbers + more, f"concatenate<{text}>"


@step
def choose(r, depth, ds, numbers):
    other, more, text = pipeline(r, depth + 1, 2)
    choice = [r.randrange(2) for _ in range(r.randrange(20))]
    sources, want = [iter(numbers), iter(more)], []
    for i in choice:
        number = next(sources[i], None)
        if number is None:
            break
        want.append(number)
    ds = Dataset.choose_from_datasets(
        [ds, other], Dataset.from_tensor_slices(np.array(choice, np.int64))
    )
    return ds, want, f"choose({choice})<{text}>"


# ---- datasets made of elements ----


@step
def flat_map(r, depth, ds, numbers):
    ds = ds.flat_map(lambda x: Dataset.range(x % 4).map(lambda y: y + x))
    return ds, [y + x for x in numbers for y in range(x % 4)], "flat_map"


def interleaved(lists, cycle, block):
    lists, places, out = iter(lists), [None] * cycle, []
    more = True
    while more or any(place is not None for place in places):
        for i in range(cycle):
            if places[i] is None:
                places[i] = next(map(iter, lists), None)
                more = more and places[i] is not None
            if places[i] is not None:
                got = list(itertools.islice(places[i], block))
                out += got
                places[i] = (
                    places[i] if len(got) == block else None
                )  # one that has ended is exchanged in the next turn
    return out


@step
def interleave(r, depth, ds, numbers):
    cycle, block, calls = r.randrange(1, 6), r.randrange(1, 4), r.choice([None, 1, 2, mr.AUTOTUNE])
    ds = ds.interleave(
        lambda x: Dataset.range(x % 5).map(lambda y: y * 10 + x), cycle, block, calls
    )
    want = interleaved([[y * 10 + x for y in range(x % 5)] for x in numbers], cycle, block)
    return ds, want, f"interleave({cycle}, {block}, {calls})"


# ---- several elements ----


@step
def batch(r, depth, ds, numbers):
    n, drop = r.randrange(1, 6), r.random() < 0.3
    want = [x for b in slices(numbers, n) if len(b) == n or not drop for x in b]
    return ds.batch(n, drop_remainder=drop).unbatch(), want, f"batch({n}, {drop}).unbatch"


@step
def rebatch_in_turn(r, depth, ds, numbers):
    n, sizes = r.randrange(1, 6), [r.randrange(4) for _ in range(r.randrange(2, 5))] + [2]
    sums, at = [], 0
    for size in itertools.cycle(sizes):
        if (size > 0 and at == len(numbers)) or at > len(numbers):
            break
        sums.append(sum(numbers[at : at + size]))
        at += size
    return ds.batch(n).rebatch(sizes).map(mr.reduce_sum), sums, f"batch({n}).rebatch({sizes})"


@step
def assert_cardinality(r, depth, ds, numbers):
    return ds.apply(mr.experimental.assert_cardinality(len(numbers))), numbers, "assert_cardinality"


@step
def rebatch(r, depth, ds, numbers):
    n, m = r.randrange(1, 6), r.randrange(1, 5)
    return (
        ds.batch(n).rebatch(m).map(mr.reduce_sum),
        [sum(b) for b in slices(numbers, m)],
        f"batch({n}).rebatch({m})",
    )


@step
def padded_batch(r, depth, ds, numbers):
    n = r.randrange(1, 6)
    ds = (
        ds.map(lambda x: mr.range(x % 4 + 1))
        .padded_batch(n, padding_values=np.int64(7))
        .map(mr.reduce_sum)
    )
    want = [
        sum(sum(range(x % 4 + 1)) + 7 * (max(y % 4 for y in b) - x % 4) for x in b)
        for b in slices(numbers, n)
    ]
    return ds, want, f"padded_batch({n})"


@step
def window(r, depth, ds, numbers):
    n, shift, stride, drop = (
        r.randrange(1, 6),
        r.randrange(1, 5),
        r.randrange(1, 3),
        r.random() < 0.5,
    )
    want = [numbers[i : i + n * stride : stride] for i in range(0, len(numbers), shift)]
    want = [x for w in want if len(w) == n or not drop for x in w]
    return (
        ds.window(n, shift, stride, drop).flat_map(lambda w: w),
        want,
        f"window({n}, {shift}, {stride}, {drop})",
    )


def whole_windows(r, depth, ds, numbers):
    n = r.randrange(1, 6)
    return ds.window(n).flat_map(lambda w: w.batch(2)).unbatch(), numbers, f"window({n})"


def groups(numbers, key, size):
    """(key, group) as they become full, then what is left in the order of the keys."""
    waiting, full = {}, []
    for x in numbers:
        waiting.setdefault(key(x), []).append(x)
        if len(waiting[key(x)]) == size(key(x)):
            full.append((key(x), waiting.pop(key(x))))
    return full + sorted(waiting.items())


@step
def group_by_window(r, depth, ds, numbers):
    keys, n = r.randrange(1, 4), r.choice([None, 1, 3, 5])
    sizes = {"window_size": n} if n else {"window_size_func": lambda key: key + 1}
    ds = ds.group_by_window(
        lambda x: x % keys, lambda key, group: group.map(lambda x: x + 100 * key), **sizes
    )
    want = groups(numbers, lambda x: x % keys, lambda key: n or key + 1)
    return (
        ds,
        [x + 100 * key for key, group in want for x in group],
        f"group_by_window({keys}, {n})",
    )


@step
def group_by_reducer(r, depth, ds, numbers):
    keys, growing = r.randrange(1, 9), r.random() < 0.5
    reducer = mr.experimental.Reducer(
        (lambda key: key) if not growing else (lambda key: mr.reshape(key, [1])),
        (lambda s, x: s + x) if not growing else (lambda s, x: mr.concat([s, [x]], 0)),
        lambda s: mr.reduce_sum(s) % 1000,
    )
    sums = {}
    for x in numbers:
        sums[x % keys] = sums.get(x % keys, x % keys) + x
    ds = ds.apply(mr.experimental.group_by_reducer(lambda x: x % keys, reducer))
    return (ds, [sums[key] % 1000 for key in sorted(sums)], f"group_by_reducer({keys}, {growing})")


@step
def bucket_by_sequence_length(r, depth, ds, numbers):
    sizes = [r.randrange(1, 4) for _ in range(3)]
    ds = ds.bucket_by_sequence_length(lambda x: x % 9, [3, 6], sizes).unbatch()
    want = groups(numbers, lambda x: x % 9 // 3, lambda bucket: sizes[bucket])
    return ds, [x for _, group in want for x in group], f"bucket_by_sequence_length({sizes})"


# ---- the tests ----

SEEDS = [int(os.environ["MR_SEED"])] if "MR_SEED" in os.environ else range(400)


def test_they_are_what_lists_are():
    for seed in SEEDS:
        r = random.Random(seed)
        ds, want, text = pipeline(r)
        assert values(ds) == want, f"{seed}: {text}"
        assert ds.cardinality() in (mr.UNKNOWN_CARDINALITY, len(want)), f"{seed}: {text}"
        again = pickle.loads(pickle.dumps(ds))
        assert again.fingerprint() == ds.fingerprint(), f"{seed}: {text}"
        options = mr.Options()
        options.threading.private_threadpool_size = r.choice([1, 2, 4])
        assert values(again.with_options(options)) == want, f"{seed}, pickled: {text}"
        cut = r.randrange(len(want) + 2)
        with iter(ds) as it, iter(again) as other:
            head = values(itertools.islice(it, cut))
            other.set_state(it.get_state())
            assert head + values(it) == want, f"{seed}, saved after {cut}: {text}"
            assert values(other) == want[cut:], f"{seed}, restored after {cut}: {text}"


@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once"])
def test_several_workers_make_each_element_once(make_cluster, guarantee):
    cluster = make_cluster(workers=3)
    for seed in SEEDS[:30]:
        ds, want, text = divisible_pipeline(random.Random(seed))
        got = values(ds.apply(cluster.distribute("distributed_epoch", guarantee=guarantee)))
        assert sorted(got) == sorted(want), f"{seed}: {text}"


@pytest.mark.parametrize("mode", ["parallel_epochs", "distributed_epoch"])
def test_a_worker_makes_the_same(cluster, mode):
    for seed in SEEDS[:60]:
        ds, want, text = pipeline(random.Random(seed))
        if (
            mode == "parallel_epochs" or "shuffle" not in text
        ):  # which may hold back less where splits are shared
            assert values(ds.apply(cluster.distribute(mode))) == want, f"{seed}: {text}"
