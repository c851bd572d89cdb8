"""
Random pipelines with elements that fail at random places, each beside a list of what comes of it:
an element, ERROR (which stands for one), LOST (which stands for nobody knows how many), or STOP at
the end (nothing is paired behind a LOST).

MR_SEED=n tries that pipeline alone; a failure says its number and its steps.
"""

import itertools
import os
import random

import numpy as np

import millrace as mr

Dataset = mr.Dataset

ERROR, LOST, STOP = "error", "lost", "stop"
STEPS = []
ITEMS_MAX = 300
SEEDS = [int(os.environ["MR_SEED"])] if "MR_SEED" in os.environ else range(300)


def step(function):
    """A step: (random, depth, dataset, list) -> (dataset, list, its text)."""
    STEPS.append(function)
    return function


def is_value(item):
    return not isinstance(item, str)


def each(items, function):
    """@function(item) is the items that come of each; behind a STOP nothing comes."""
    out = []
    for item in items:
        out += [STOP] if item == STOP else function(item)
        if out and out[-1] == STOP:
            return out
    return out


def lost_or(function):
    """What a step makes of which nobody knows what an error would have been."""
    return lambda x: function(x) if is_value(x) else [LOST]


def outcomes(it, most=10**9):
    """What reading @it gives, LOST as ERROR."""
    seen = []
    while len(seen) < most and (not seen or seen[-1] != STOP):
        try:
            seen.append(int(next(it)))
        except StopIteration:
            break
        except mr.errors.InvalidArgumentError:
            seen.append(ERROR)
        except mr.errors.FailedPreconditionError as e:
            assert "it pairs nothing behind an error" in e.message
            seen.append(STOP)
    return seen


def checked(x, n, k):
    """@x; an error where x % n is k."""
    return x + 0 * (1 // (x % n - k))


# ---- one after the other ----


def numbers_from(r):
    numbers = [r.randrange(60) for _ in range(r.randrange(25))]
    return Dataset.from_tensor_slices(np.array(numbers, np.int64)), numbers, f"{numbers}"


@step
def fail(r, depth, ds, items):
    n, calls = r.randrange(2, 9), r.choice([None, None, 2])
    k = r.randrange(n)
    want = each(items, lambda x: [ERROR if is_value(x) and x % n == k else x])
    return (
        ds.map(lambda x: checked(x, n, k), num_parallel_calls=calls),
        want,
        f"fail({n}, {k}, {calls})",
    )


@step
def map_(r, depth, ds, items):
    return ds.map(lambda x: x + 1), each(items, lambda x: [x + 1] if is_value(x) else [x]), "map"


@step
def filter_(r, depth, ds, items):
    n = r.randrange(2, 5)
    return (
        ds.filter(lambda x: x % n != 0),
        each(items, lost_or(lambda x: [x] * (x % n != 0))),
        f"filter({n})",
    )


@step
def take(r, depth, ds, items):
    n, left, want = r.randrange(30), 0, []
    for item in items:
        if left == n:
            break
        left += item not in (LOST, STOP)
        want.append(item)
    return ds.take(n), want, f"take({n})"


@step
def skip(r, depth, ds, items):
    n, passed, want = r.randrange(12), 0, []
    for item in items:
        if passed < n and item not in (LOST, STOP):
            passed += 1
        else:
            want.append(item)
    return ds.skip(n), want, f"skip({n})"


@step
def shard(r, depth, ds, items):
    n, at, want = r.randrange(1, 4), 0, []
    i = r.randrange(n)
    for item in items:
        if item in (LOST, STOP) or at % n == i:
            want.append(item)
        at += item not in (LOST, STOP)
    return ds.shard(n, i), want, f"shard({n}, {i})"


@step
def take_while(r, depth, ds, items):
    n, want = r.randrange(30, 70), []
    for item in items:
        if is_value(item) and item >= n:
            break
        want.append(LOST if item == ERROR else item)
    return ds.take_while(lambda x: x < n), want, f"take_while({n})"


@step
def unique(r, depth, ds, items):
    seen = set()
    return (
        ds.unique(),
        each(items, lost_or(lambda x: [] if x in seen else seen.add(x) or [x])),
        "unique",
    )


@step
def ignore_errors(r, depth, ds, items):
    return ds.ignore_errors(), [x for x in items if is_value(x) or x == STOP], "ignore_errors"


@step
def repeat(r, depth, ds, items):
    n = r.randrange(1, 4)
    return ds.repeat(n), each(items * n, lambda x: [x]), f"repeat({n})"


@step
def prefetch(r, depth, ds, items):
    n = r.choice([1, 3, mr.AUTOTUNE])
    return ds.prefetch(n), items, f"prefetch({n})"


@step
def cache(r, depth, ds, items):
    n = r.randrange(1, 3)
    return ds.cache().repeat(n), each(items * n, lambda x: [x]), f"cache.repeat({n})"


# ---- several elements ----


def batches(items, n, drop):
    out, rows = [], []
    for item in items:
        if item in (LOST, STOP):
            out, rows = out + [item], []
            continue
        rows.append(item)
        if len(rows) == n:
            out, rows = out + [ERROR if ERROR in rows else rows], []
    if rows and not drop and STOP not in out:
        out.append(ERROR if ERROR in rows else rows)
    return out


@step
def batch(r, depth, ds, items):
    n, drop = r.randrange(1, 5), r.random() < 0.5
    want = each(batches(items, n, drop), lost_or(lambda rows: rows))
    return ds.batch(n, drop).unbatch(), want, f"batch({n}, {drop}).unbatch"


@step
def sums_of_batches(r, depth, ds, items):
    n, drop = r.randrange(1, 5), r.random() < 0.5
    want = each(batches(items, n, drop), lambda x: [sum(x)] if is_value(x) else [x])
    return ds.batch(n, drop).map(mr.reduce_sum), want, f"batch({n}, {drop}).sum"


@step
def padded_batch(r, depth, ds, items):
    n, drop = r.randrange(1, 5), r.random() < 0.5
    want = each(batches(items, n, drop), lambda x: [sum(x)] if is_value(x) else [x])
    ds = ds.map(lambda x: mr.fill([1], x)).padded_batch(n, drop_remainder=drop)
    return ds.map(mr.reduce_sum), want, f"padded_batch({n}, {drop}).sum"


@step
def rebatch(r, depth, ds, items):
    n, m = r.randrange(1, 5), r.randrange(1, 5)
    want = each(
        batches(each(batches(items, n, False), lost_or(lambda rows: rows)), m, False),
        lambda x: [sum(x)] if is_value(x) else [x],
    )
    return ds.batch(n).rebatch(m).map(mr.reduce_sum), want, f"batch({n}).rebatch({m}).sum"


def windows_between(items, n, shift, stride, drop, ended):
    """Of items without LOST. Not @ended: what is given before it is known what follows."""
    span, out = (n - 1) * stride + 1, []
    for i in range(0, len(items), shift):
        reach = items[i : i + span]
        if len(reach) < span and (drop or not (ended or ERROR in reach)):
            break
        out.append(ERROR if ERROR in reach else reach[::stride])
    while drop and not ended and out and out[-1] == ERROR:  # told with the next whole window
        out.pop()
    return out


def windows(items, n, shift, stride, drop):
    out, begin = [], 0
    for at, item in enumerate(items):
        if item in (LOST, STOP):
            out += [*windows_between(items[begin:at], n, shift, stride, drop, False), item]
            begin = at + 1
    return (
        out if STOP in items else out + windows_between(items[begin:], n, shift, stride, drop, True)
    )


@step
def window(r, depth, ds, items):
    n, shift, stride, drop = (
        r.randrange(1, 5),
        r.randrange(1, 5),
        r.randrange(1, 3),
        r.random() < 0.5,
    )
    want = each(windows(items, n, shift, stride, drop), lost_or(lambda rows: rows))
    return (
        ds.window(n, shift, stride, drop).flat_map(lambda w: w),
        want,
        f"window({n}, {shift}, {stride}, {drop})",
    )


@step
def pairs_of_windows(r, depth, ds, items):
    """Which have their places: the second one has what the first would have without errors."""
    n, shift, stride, drop = (
        r.randrange(1, 5),
        r.randrange(1, 5),
        r.randrange(1, 3),
        r.random() < 0.5,
    )
    if any(not is_value(x) for x in items):
        return prefetch(r, depth, ds, items)
    failing = ds.map(lambda x: checked(x, 5, 2)).window(n, shift, stride, drop)
    pairs = Dataset.zip(failing, ds.window(n, shift, stride, drop)).ignore_errors()
    ds = pairs.flat_map(lambda a, b: Dataset.zip(a, b)).map(lambda a, b: a * 1000 + b)
    want = windows([ERROR if x % 5 == 2 else x for x in items], n, shift, stride, drop)
    return (
        ds,
        [x * 1001 for w in want if w != ERROR for x in w],
        f"pairs_of_windows({n}, {shift}, {stride}, {drop})",
    )


@step
def group_by_window(r, depth, ds, items):
    keys, n = r.randrange(1, 4), r.randrange(1, 5)
    groups, want = {}, []

    def put(x):
        groups.setdefault(x % keys, []).append(x)
        return groups.pop(x % keys) if len(groups[x % keys]) == n else []

    want = each(items, lost_or(put))
    if STOP not in want:
        want += [x for _, group in sorted(groups.items()) for x in group]
    return (
        ds.group_by_window(lambda x: x % keys, lambda key, group: group, n),
        want,
        f"group_by_window({keys}, {n})",
    )


@step
def group_by_reducer(r, depth, ds, items):
    keys, n, sums = r.randrange(1, 4), r.randrange(2, 9), {}
    k = r.randrange(n)

    def put(x):
        sums[x % keys] = sums.get(x % keys, 0) + x
        return []

    want = each(items, lost_or(put))
    if STOP not in want:
        want += [ERROR if sums[key] % n == k else sums[key] for key in sorted(sums)]
    reducer = mr.experimental.Reducer(
        lambda key: np.int64(0), lambda s, x: s + x, lambda s: checked(s, n, k)
    )
    return (
        ds.apply(mr.experimental.group_by_reducer(lambda x: x % keys, reducer)),
        want,
        f"group_by_reducer({keys}, {n}, {k})",
    )


# ---- several datasets ----


def zipped(one, other):
    out, other = [], iter(other)
    for x in one:
        if x in (LOST, STOP):
            return out + ([LOST, STOP] if x == LOST else [STOP])
        y = next(other, None)
        if y in (LOST, STOP):
            return out + ([LOST, STOP] if y == LOST else [STOP])
        if y is None:
            return out
        out.append(ERROR if ERROR in (x, y) else x * 3 + y)
    return out


@step
def zip_(r, depth, ds, items):
    other, more, text = pipeline(r, depth + 1)
    return Dataset.zip(ds, other).map(lambda a, b: a * 3 + b), zipped(items, more), f"zip<{text}>"


@step
def enumerate_(r, depth, ds, items):
    return ds.enumerate().map(lambda i, x: i * 3 + x), zipped(range(10**6), items), "enumerate"


@step
def concatenate(r, depth, ds, items):
    other, more, text = pipeline(r, depth + 1)
    return ds.concatenate(other), items if STOP in items else items + more, f"concatenate<{text}>"


@step
def choose(r, depth, ds, items):
    other, more, text = pipeline(r, depth + 1)
    choices = [r.choice([0, 0, 1, 1, r.choice([0, 1, 5])]) for _ in range(r.randrange(25))]
    sources, want = [iter(items), iter(more)], []
    for i in choices:
        item = LOST if i == 5 else next(sources[i], None)
        want += [item] if item is not None else []
        if item in (None, STOP):
            break
    numbers = Dataset.from_tensor_slices(np.array(choices, np.int64)).map(
        lambda i: checked(i, 10, 5)
    )
    return Dataset.choose_from_datasets([ds, other], numbers), want, f"choose({choices})<{text}>"


# ---- datasets made of elements ----


def expanded(x):
    """What flat_map and interleave make of @x here, and the same as a list."""
    return (lambda x: Dataset.range(x % 5).map(lambda y: checked(y, 4, 2) + x)), [
        ERROR if y == 2 else y + x for y in range(x % 5)
    ]


@step
def flat_map(r, depth, ds, items):
    return ds.flat_map(expanded(0)[0]), each(items, lost_or(lambda x: expanded(x)[1])), "flat_map"


@step
def flat_map_of_one(r, depth, ds, items):
    ds = ds.flat_map(lambda x: Dataset.from_tensors(x))  # an error is one
    return ds, items, "flat_map_of_one"


@step
def interleave(r, depth, ds, items):
    cycle, block, calls = r.randrange(1, 5), r.randrange(1, 4), r.choice([None, 1, 2])
    ds = ds.interleave(expanded(0)[0], cycle, block, calls)
    return ds, interleaved(items, cycle, block), f"interleave({cycle}, {block}, {calls})"


def interleaved(items, cycle, block):
    outer, places, out, at, more = iter(items), [None] * cycle, [], 0, True
    while more or any(p is not None for p in places):
        if places[at] is None:
            x = next(outer, None) if more else None
            more = more and x is not None
            if x is not None and not is_value(x):
                out.append(STOP if x == STOP else LOST)
                if x == STOP:
                    return out
                continue  # the next element comes to this place
            places[at] = iter(expanded(x)[1]) if x is not None else None
        if places[at] is not None:
            got = list(itertools.islice(places[at], block))
            out += got
            places[at] = (
                places[at] if len(got) == block else None
            )  # one that has ended is exchanged in the next turn
        at = (at + 1) % cycle
    return out


def pipeline(r, depth=0):
    ds, items, text = numbers_from(r)
    for _ in range(r.randrange(8) if depth <= 2 else 1):
        ds, items, name = r.choice([fail, fail, *STEPS])(r, depth, ds, items)
        text += "." + name
        if len(items) > ITEMS_MAX:
            ds, items, name = take(r, depth, ds, items)
            text += "." + name
    return ds, items, text


# ---- the tests ----


def test_what_comes_of_failures():
    for seed in SEEDS:
        r = random.Random(seed)
        ds, want, text = pipeline(r)
        want = [ERROR if x == LOST else x for x in want]
        assert outcomes(iter(ds)) == want, f"{seed}: {text}"
        cut = r.randrange(len(want) + 1) if STOP not in want else r.randrange(len(want))
        with iter(ds) as it, iter(ds) as other:
            head = outcomes(it, cut)
            other.set_state(it.get_state())
            assert head + outcomes(it) == want, f"{seed}, saved after {cut}: {text}"
            assert outcomes(other) == want[cut:], f"{seed}, restored after {cut}: {text}"


def shuffle(r, depth, ds, items):
    n, seed = r.choice([1, 3, 1000]), r.randrange(100)
    return ds.shuffle(n, seed=seed, reshuffle_each_iteration=False), items, f"shuffle({n}, {seed})"


def test_pairs_are_pairs():
    """
    The same steps of numbers of which some fail, and of the same numbers: what is paired belongs
    together.
    """
    steps = [shuffle, *(s for s in STEPS if s not in (choose, ignore_errors, pairs_of_windows))]
    pairs = 0
    for seed in SEEDS:
        numbers = Dataset.range(random.Random(seed).randrange(60))
        sides = []
        for ds in (numbers.map(lambda x: checked(x, 13, seed % 13)), numbers):
            r, text = random.Random(seed + 1), ""
            for _ in range(r.randrange(7)):
                ds, _, name = r.choice(steps)(r, 3, ds, [])
                text += "." + name
            sides.append(ds)
        for ds in (Dataset.zip(*sides), Dataset.zip(*reversed(sides))):
            it = iter(ds.ignore_errors().map(lambda a, b: mr.where(a == b, a * 0, a * 0 + 1)))
            seen = outcomes(it)
            assert 1 not in seen, f"{seed}: {text}"
            pairs += len(seen)
    assert pairs > 10 * len(SEEDS) or len(SEEDS) == 1
