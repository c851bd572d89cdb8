"""Elements in groups: by key and window, by length, reduced by key."""

import itertools
import re

import numpy as np
import pytest

import millrace as mr

Dataset = mr.Dataset


def values(ds):
    return [x.tolist() if isinstance(x, np.ndarray) else x for x in ds]


def vectors(*lengths, dtype=np.int32):
    """Elements [1, 2, ..] of these lengths."""
    return Dataset.from_tensor_slices(np.array(lengths)).map(
        lambda n: mr.cast(mr.range(n) + 1, dtype)
    )


# ---- group_by_window, bucket_by_sequence_length ----


def test_group_by_window_gives_full_groups_then_what_is_left():
    ds = Dataset.range(11).group_by_window(
        lambda x: x % 3, lambda key, group: group.batch(10), window_size=2
    )
    assert values(ds) == [[0, 3], [1, 4], [2, 5], [6, 9], [7, 10], [8]]
    assert (
        ds.element_spec == mr.TensorSpec([None], mr.int64)
        and ds.cardinality() == mr.UNKNOWN_CARDINALITY
    )
    keyed = Dataset.range(10).group_by_window(
        lambda x: x % 2,
        lambda key, group: group.map(lambda x: (key, x)).batch(2),
        window_size_func=lambda key: mr.cast(key + 3, mr.int64),
    )
    assert [(k.tolist(), x.tolist()) for k, x in keyed] == [
        ([0, 0], [0, 2]),
        ([0], [4]),
        ([1, 1], [1, 3]),
        ([1, 1], [5, 7]),
        ([0, 0], [6, 8]),
        ([1], [9]),
    ]
    structured = Dataset.zip(
        {"n": Dataset.range(6), "s": Dataset.range(6).map(mr.strings.as_string)}
    ).group_by_window(lambda d: d["n"] // 4, lambda key, group: group.batch(3), 3)
    assert [(d["n"].tolist(), list(d["s"])) for d in structured] == [
        ([0, 1, 2], [b"0", b"1", b"2"]),
        ([3], [b"3"]),
        ([4, 5], [b"4", b"5"]),
    ]


def test_group_by_window_of_many_keys():
    """
    Full groups as they come, then the others in the order of their keys; from any position on, too.
    """
    random = np.random.default_rng(3)
    keys = random.integers(-(2**62), 2**62, 300)[random.integers(0, 300, 1000)]
    ds = Dataset.from_tensor_slices(keys).group_by_window(lambda x: x, lambda k, g: g.batch(4), 4)
    groups, want = {}, []
    for key in keys.tolist():
        groups.setdefault(key, []).append(key)
        if len(groups[key]) == 4:
            want.append(groups.pop(key))
    want += [groups[key] for key in sorted(groups)]
    assert [x.tolist() for x in ds] == want
    for taken in range(0, len(want) + 1, 97):
        it, again = iter(ds), iter(ds)
        assert [x.tolist() for x in itertools.islice(it, taken)] == want[:taken]
        again.set_state(it.get_state())
        assert [x.tolist() for x in again] == want[taken:]


def test_group_by_window_refuses_wrong_arguments():
    ds = Dataset.range(4)
    for sizes in ({}, {"window_size": 2, "window_size_func": lambda k: k}):
        with pytest.raises(ValueError, match="window_size"):
            ds.group_by_window(lambda x: x, lambda k, g: g, **sizes)
    assert [
        list(x)
        for x in ds.group_by_window(
            lambda x: 0, lambda k, g: g.batch(9), window_size_func=lambda k: 3
        )
    ] == [
        [0, 1, 2],
        [3],
    ]  # literals are int64 here
    with pytest.raises(TypeError, match="0.5"):
        ds.group_by_window(lambda x: 0.5, lambda k, g: g, 2)
    with pytest.raises(mr.errors.InvalidArgumentError, match="scalar int64.*float32"):
        ds.group_by_window(lambda x: mr.cast(x, mr.float32), lambda k, g: g, 2)
    with pytest.raises(TypeError, match="returns a Dataset"):
        ds.group_by_window(lambda x: x, lambda k, g: k, 2)
    with pytest.raises(mr.errors.InvalidArgumentError, match="window_size"):
        ds.group_by_window(lambda x: x, lambda k, g: g, 0)
    with pytest.raises(mr.errors.InvalidArgumentError, match="window size of key 0 is 0"):
        list(ds.group_by_window(lambda x: x, lambda k, g: g, window_size_func=lambda k: k))
    options = mr.Options()
    options.autotune.ram_budget = 1 << 16
    with pytest.raises(
        mr.errors.ResourceExhaustedError,
        match=r"group_by_window.*elements in 7 groups hold.*bytes.*budget",
    ):
        list(
            Dataset.range(1 << 20)
            .group_by_window(lambda x: x % 7, lambda k, g: g, 1 << 20)
            .with_options(options)
        )


def reference_buckets(lengths, boundaries, sizes, drop):
    groups, out = {}, []
    for n in lengths:
        k = sum(b <= n for b in boundaries)
        groups.setdefault(k, []).append(n)
        if len(groups[k]) == sizes[k]:
            out.append((k, groups.pop(k)))
    return out + [(k, g) for k, g in sorted(groups.items()) if not drop]


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("mode", ["longest", "boundary", "none"])
def test_bucket_by_sequence_length(mode, drop):
    random = np.random.default_rng(7)
    boundaries, sizes = [3, 6, 9], [4, 3, 2, 2]
    lengths = random.integers(1, 9 if mode == "boundary" else 14, 60).tolist()
    ds = vectors(*lengths)
    if mode == "none":
        ds = ds.map(lambda x: mr.size(x))  # no padding wants one shape
    got = ds.bucket_by_sequence_length(
        mr.size if mode != "none" else lambda n: n,
        boundaries,
        sizes,
        padding_values=None,
        pad_to_bucket_boundary=mode == "boundary",
        no_padding=mode == "none",
        drop_remainder=drop,
    )
    want = reference_buckets(lengths, boundaries, sizes, drop)
    rows = list(got)
    assert len(rows) == len(want)
    for x, (k, group) in zip(rows, want):
        if mode == "none":
            assert x.tolist() == group
            continue
        width = boundaries[k] - 1 if mode == "boundary" else max(group)
        assert x.tolist() == [list(range(1, n + 1)) + [0] * (width - n) for n in group]


def test_bucket_by_sequence_length_takes_shapes_and_refuses():
    pairs = Dataset.zip((vectors(1, 2, 5), vectors(2, 1, 1, dtype=np.float32)))
    got = list(
        pairs.bucket_by_sequence_length(
            lambda a, b: mr.shape(a)[0],
            [4],
            [2, 1],
            padded_shapes=([None], [3]),
            padding_values=(-1, 9.0),
        )
    )
    assert [(a.tolist(), b.tolist()) for a, b in got] == [
        ([[1, -1], [1, 2]], [[1, 2, 9], [1, 9, 9]]),
        ([[1, 2, 3, 4, 5]], [[1, 9, 9]]),
    ]
    with pytest.raises(ValueError, match="bucket_batch_sizes"):
        vectors(1).bucket_by_sequence_length(mr.size, [3], [2])
    long = vectors(1, 2, 7, 1).bucket_by_sequence_length(
        mr.size, [4], [1, 1], pad_to_bucket_boundary=True
    )
    it = iter(long)
    assert next(it).tolist() == [[1, 0, 0]] and next(it).tolist() == [[1, 2, 0]]
    with pytest.raises(
        mr.errors.InvalidArgumentError, match="not shorter than the last of bucket_boundaries, 4"
    ):
        next(it)
    assert next(it).tolist() == [[1, 0, 0]]


# ---- group_by_reducer ----


def reduced(ds, key, init, reduce, finalize=lambda *state: state):
    reducer = mr.experimental.Reducer(init, reduce, finalize)
    return ds.apply(mr.experimental.group_by_reducer(key, reducer))


def zero(key):
    return np.int64(0)


def add(s, x):
    return s + x


def same(s):
    return s


def outcomes(ds):
    """Elements, and the messages of errors in their places."""
    it, found = iter(ds), []
    while True:
        try:
            found.append(next(it).item())
        except StopIteration:
            return found
        except mr.errors.InvalidArgumentError as e:
            found.append(e.message)


def test_group_by_reducer_gives_the_results_in_the_order_of_the_keys():
    numbers = Dataset.from_tensor_slices(np.array([7, -5, 3, 2, -5, 0, -9, 8, 7]))
    sums = reduced(numbers, lambda x: x, zero, add, same)
    assert values(sums) == [-9, -10, 0, 2, 3, 14, 8]
    assert sums.cardinality() == mr.UNKNOWN_CARDINALITY
    assert values(reduced(Dataset.range(0), lambda x: x, zero, add, same)) == []
    pairs = reduced(
        Dataset.zip((Dataset.range(10), Dataset.range(10, 20))),
        lambda a, b: b % 3,
        lambda key: {"n": key, "s": "x"},
        lambda s, ab: {"s": s["s"] + mr.strings.as_string(ab[0]), "n": s["n"] + ab[1]},
        lambda s: (s["s"], s["n"]),
    )
    assert values(pairs) == [(b"x258", 45), (b"x0369", 59), (b"x147", 44)]
    far = Dataset.from_tensor_slices(np.array([(1 << 63) - 1, -1 << 63, 0, -1]))
    far_apart = reduced(far, lambda x: x, lambda key: key, lambda s, x: s, same)
    assert values(far_apart) == [-1 << 63, -1, 0, (1 << 63) - 1]
    a_list_is_a_tuple = reduced(
        Dataset.range(4),
        lambda x: x % 2,
        lambda key: [key, "x"],
        lambda s, x: [s[0] + x, s[1]],
        lambda n, s: (s, n),
    )
    assert values(a_list_is_a_tuple) == [(b"x", 2), (b"x", 5)]
    within = Dataset.range(2).flat_map(
        lambda n: reduced(
            Dataset.range(3), lambda x: x % 2, lambda _: n, lambda s, x: s + x * n, lambda s: s + n
        )
    )
    assert values(within) == [0, 0, 4, 3]
    many = reduced(Dataset.range(3001).shuffle(3001), lambda x: 7919 * x % 3001, zero, add, same)
    assert values(many) == [pow(7919, -1, 3001) * key % 3001 for key in range(3001)]


def test_a_state_of_group_by_reducer_may_grow():
    def grown(first, next_state):
        return reduced(Dataset.range(7), lambda x: x % 3, first, next_state, same)

    vectors = grown(lambda key: mr.zeros([0], mr.int64), lambda s, x: mr.concat([s, [x]], 0))
    assert vectors.element_spec == mr.TensorSpec([None], mr.int64)
    assert values(vectors) == [[0, 3, 6], [1, 4], [2, 5]]
    deeper = grown(lambda key: key, lambda s, x: mr.expand_dims(s, 0))
    assert deeper.element_spec == mr.TensorSpec(None, mr.int64)
    assert [x.shape for x in deeper] == [(1, 1, 1), (1, 1), (1, 1)]


def test_what_fails_in_group_by_reducer_is_left_out():
    ten = Dataset.range(10)

    def check(value, bad):
        return 0 * (1 // (value - bad))

    by_three = lambda x: x % 3
    found = outcomes(reduced(ten, lambda x: x % 3 + check(x, 4), zero, add, same))
    assert re.search(r"group_by_reducer .*, element 4: .*division by zero", found[0])
    assert found[1:] == [18, 8, 15]
    found = outcomes(reduced(ten, by_three, lambda key: check(key, 1), add, same))
    assert [re.search("element .: init_func", x).group()[8] for x in found[:3]] == ["1", "4", "7"]
    assert found[3:] == [18, 15]
    found = outcomes(reduced(ten, by_three, zero, lambda s, x: s + x + check(x, 4), same))
    assert "element 4: reduce_func" in found[0] and found[1:] == [18, 8, 15]
    keys = [mr.io.serialize_tensor(np.array(x, np.int64)) for x in (3, 2, [3], 3)]
    of_any_shape = reduced(
        Dataset.from_tensor_slices(keys),
        lambda x: mr.io.parse_tensor(x, mr.int64),
        zero,
        lambda s, x: s + 1,
        same,
    )
    found = outcomes(of_any_shape)
    assert "element 2: the function gave a tensor of 1 dim" in found[0]
    assert found[1:] == [1, 2]
    alone = reduced(
        ten.take(3), lambda x: x, lambda key: key + 5, lambda s, x: s + check(x, 1), same
    )
    assert outcomes(alone)[1:] == [5, 6, 7]  # its key has been seen
    last = reduced(ten, by_three, zero, add, lambda s: s + check(s, 12))
    found = outcomes(last)
    assert "element 1: key 1: finalize_func" in found.pop(1) and found == [18, 15]
    assert values(Dataset.zip(last.ignore_errors(), ten)) == [(18, 0), (15, 1)]
    # That one stands for one result: a pair of others goes on.
    assert values(Dataset.zip(last, ten).ignore_errors()) == [(18, 0), (15, 2)]


def test_an_error_of_a_finalize_func_keeps_its_place_among_results_of_several_ranks():
    """A block has results of one rank: others wait, and so does the error behind them."""
    keys = [key for key in range(60) for _ in range(1 + key % 2)]
    ds = reduced(
        Dataset.from_tensor_slices(np.array(keys)),
        lambda x: x,
        lambda key: (key, key),
        lambda s, x: (s[0], mr.expand_dims(s[1], 0)),
        lambda key, s: s + 0 * (1 // (key % 4 - 3)),
    )
    want = ["" if key % 4 == 3 else [[key]] if key % 4 == 1 else [key] for key in range(60)]
    it, found = iter(ds), []
    while len(found) < 60:
        try:
            found.append(next(it).tolist())
        except mr.errors.InvalidArgumentError as e:
            assert f"element {len(found)}: key {len(found)}: finalize_func" in e.message
            found.append("")
    assert found == want
    assert list(it) == []


def test_group_by_reducer_refuses_what_is_no_state():
    ten = Dataset.range(10)
    by_three = lambda x: x % 3
    with pytest.raises(TypeError, match="int64 at first and float32 afterwards"):
        reduced(ten, by_three, zero, lambda s, x: mr.cast(s, mr.float32))
    with pytest.raises(TypeError, match="structure"):
        reduced(ten, by_three, zero, lambda s, x: (s, x))
    with pytest.raises(TypeError, match="reduce_func returned None"):
        reduced(ten, by_three, zero, lambda s, x: None)
    with pytest.raises(TypeError, match="init_func returned None"):
        reduced(ten, by_three, lambda key: None, add)
    with pytest.raises(mr.errors.InvalidArgumentError, match="1 to 4096 tensors, not 0"):
        reduced(ten, by_three, lambda key: (), lambda s, x: s, lambda: 0)
    with pytest.raises(TypeError, match="the finalize_func given .* returned a dataset"):
        reduced(ten, by_three, zero, add, lambda s: Dataset.range(s))
    with pytest.raises(mr.errors.InvalidArgumentError, match="dtypes int32 and int64") as e:
        reduced(ten, by_three, lambda key: 0, add)
    assert "np.int64(0)" in e.value.__notes__[0]
    with pytest.raises(TypeError, match="finalize_func calls its function with 2 arguments"):
        reduced(ten, by_three, lambda key: (key, key), lambda s, x: s, lambda s: s)
    for key, is_what in (
        (lambda x: mr.cast(x, mr.int32), "int32"),
        (lambda x: mr.stack([x]), r"int64.1"),
    ):
        with pytest.raises(mr.errors.InvalidArgumentError, match="scalar int64.*" + is_what):
            reduced(ten, key, zero, add)
    with pytest.raises(TypeError, match="is a mr.experimental.Reducer, not int"):
        ten.apply(mr.experimental.group_by_reducer(by_three, 3))
    with pytest.raises(TypeError, match="init_func is a function, not int"):
        reduced(ten, by_three, 3, add)


def test_group_by_reducer_holds_states_only_and_says_when_they_do_not_fit():
    options = mr.Options()
    options.autotune.ram_budget = 1 << 18
    few = reduced(Dataset.range(1 << 16), lambda x: x % 20, zero, add, same)
    assert len(values(few.with_options(options))) == 20
    many = reduced(Dataset.range(1 << 16), lambda x: x, zero, add, same)
    it = iter(many.with_options(options))
    for _ in range(2):  # it stays where it is
        with pytest.raises(
            mr.errors.ResourceExhaustedError,
            match=r"group_by_reducer .*, element [0-9]+: the states of [0-9]+ keys hold .*budget",
        ):
            next(it)


def test_the_functions_of_group_by_reducer_draw_apart():
    def draw(_):
        return mr.random.uniform([], maxval=1 << 30, dtype=mr.int64)

    pairs = values(
        reduced(Dataset.range(50), lambda x: x, draw, lambda s, x: mr.stack([s, draw(x)]))
    )
    assert len({x for pair in pairs for x in pair[0]}) == 100
