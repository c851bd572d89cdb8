"""
Pipelines that run here, in the C engine: sources, transformations, structures, specs, pickles.
"""

import pathlib
import collections
import dataclasses
import datetime
import decimal
import multiprocessing
import pickle
import typing

import numpy as np
import pytest

import millrace as mr
from interrupts import cut_off
from millrace._graph.symbol import current_graph

Dataset = mr.Dataset


def values(ds):
    return [x.tolist() if isinstance(x, np.ndarray) else x for x in ds]


# ---- sources ----


def test_the_first_example():
    ds = Dataset.range(10).map(lambda x: x * x).batch(2)
    assert ds.element_spec == mr.TensorSpec([None], mr.int64)
    assert ds.cardinality() == 5
    assert values(ds) == [[0, 1], [4, 9], [16, 25], [36, 49], [64, 81]]


@pytest.mark.parametrize("args", [(0,), (5,), (2, 5), (5, 2), (10, 0, -3), (1, 10, 4)])
def test_range(args):
    ds = Dataset.range(*args)
    assert values(ds) == list(range(*args)) and len(ds) == len(range(*args))
    assert all(type(x) is np.int64 for x in ds)
    assert Dataset.range(3, output_type=mr.float32).element_spec.dtype == mr.float32


def test_from_tensors_and_slices():
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert values(Dataset.from_tensors(x)) == [x.tolist()]
    assert values(Dataset.from_tensor_slices(x)) == x.tolist()
    rows = list(Dataset.from_tensor_slices({"x": x, "y": (["a", "b", "c"], [True, False, True])}))
    assert rows[1]["y"] == (b"b", False) and rows[1]["x"].tolist() == [2, 3]
    assert values(Dataset.from_tensor_slices([])) == []
    nested = Dataset.from_tensor_slices(np.array([["a", "bc"], ["", "d"]]))
    assert [list(r) for r in nested] == [[b"a", b"bc"], [b"", b"d"]]
    with pytest.raises(ValueError, match="differ"):
        Dataset.from_tensor_slices(([1, 2], [3]))
    with pytest.raises(mr.errors.ResourceExhaustedError, match="rows in a block"):
        Dataset.from_tensor_slices(np.zeros((2**33, 0)))  # not none of them
    with pytest.raises(ValueError, match="scalar"):
        Dataset.from_tensor_slices(3)


@pytest.mark.parametrize(
    "dtype",
    [
        "bool",
        "int8",
        "int16",
        "int32",
        "int64",
        "uint8",
        "uint16",
        "uint32",
        "uint64",
        "float16",
        "float32",
        "float64",
    ],
)
def test_every_dtype_comes_back_as_it_went_in(dtype):
    x = np.arange(6).reshape(3, 2).astype(dtype)
    for got, row in zip(Dataset.from_tensor_slices(x), x, strict=True):
        assert got.dtype == row.dtype
        np.testing.assert_array_equal(got, row)
    assert type(next(iter(Dataset.from_tensor_slices(x[:, 1])))) is x.dtype.type


# ---- transformations ----


def test_map_filter_take_skip_repeat_concatenate():
    ds = Dataset.range(10)
    assert values(ds.filter(lambda x: x % 3 == 0)) == [0, 3, 6, 9]
    assert (
        values(ds.take(3)) == [0, 1, 2]
        and values(ds.take(-1)) == list(range(10))
        and values(ds.take(99)) == list(range(10))
    )
    assert values(ds.skip(8)) == [8, 9] and values(ds.skip(-1)) == []
    assert values(ds.take(-7)) == list(range(10)) and values(ds.repeat(-7).take(11)) == list(
        range(10)
    ) + [0]
    assert (
        values(ds.repeat().skip(-7)) == [] and ds.repeat().skip(-1).cardinality() == 0
    )  # without reading what has no end
    assert values(ds.take(2).repeat(3)) == [0, 1] * 3
    assert values(ds.take(2).repeat().take(5)) == [0, 1, 0, 1, 0]
    assert values(ds.take(2).concatenate(ds.skip(8))) == [0, 1, 8, 9]
    assert ds.repeat().cardinality() == mr.INFINITE_CARDINALITY
    assert ds.filter(lambda x: x > 3).cardinality() == mr.UNKNOWN_CARDINALITY


def test_batch_keeps_or_drops_the_rest():
    ds = Dataset.range(7)
    assert values(ds.batch(3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert values(ds.batch(3, drop_remainder=True)) == [[0, 1, 2], [3, 4, 5]]
    assert ds.batch(3).element_spec.shape == (None,) and ds.batch(
        3, drop_remainder=True
    ).element_spec.shape == (3,)
    assert len(ds.batch(3)) == 3 and len(ds.batch(3, drop_remainder=True)) == 2
    assert [b.tolist() for b in ds.take(6).batch(2).batch(2)] == [[[0, 1], [2, 3]], [[4, 5]]]


def test_batches_of_strings_and_of_unequal_shapes():
    assert [list(b) for b in Dataset.from_tensor_slices(["a", "bb", ""]).batch(2)] == [
        [b"a", b"bb"],
        [b""],
    ]
    ragged = Dataset.range(1, 4).map(lambda n: mr.range(n))
    assert values(ragged) == [[0], [0, 1], [0, 1, 2]]
    assert ragged.element_spec.shape == (None,)
    with pytest.raises(mr.errors.InvalidArgumentError, match="batch"):
        list(ragged.batch(3))


def test_zip_takes_a_structure():
    a, b = Dataset.range(3), Dataset.range(10, 20)
    assert values(Dataset.zip(a, b)) == [(0, 10), (1, 11), (2, 12)]
    assert (
        values(Dataset.zip((a, b)))
        == values(Dataset.zip(datasets=(a, b)))
        == values(Dataset.zip(a, b))
    )
    assert values(Dataset.zip({"x": a, "y": (b, a)})) == [
        {"x": i, "y": (10 + i, i)} for i in range(3)
    ]
    assert len(Dataset.zip(a, b)) == 3
    assert values(Dataset.zip(a)) == values(a) and values(Dataset.zip((a,))) == [(0,), (1,), (2,)]
    with pytest.raises(TypeError):
        Dataset.zip([a, b])


def test_flat_map_and_interleave():
    assert values(Dataset.range(4).flat_map(lambda x: Dataset.range(x))) == [0, 0, 1, 0, 1, 2]
    ds = Dataset.range(1, 5).interleave(
        lambda x: Dataset.from_tensors(x).repeat(3), cycle_length=2, block_length=2
    )
    assert values(ds) == [1, 1, 2, 2, 1, 2, 3, 3, 4, 4, 3, 4]
    parallel = Dataset.range(8).interleave(
        lambda x: Dataset.range(x), cycle_length=3, num_parallel_calls=mr.AUTOTUNE
    )
    assert values(parallel) == values(
        Dataset.range(8).interleave(lambda x: Dataset.range(x), cycle_length=3)
    )
    loose = Dataset.range(8).interleave(
        lambda x: Dataset.range(x), cycle_length=3, num_parallel_calls=3, deterministic=False
    )
    assert sorted(values(loose)) == sorted(values(parallel))
    assert values(
        Dataset.from_tensor_slices([[1, 2], [3, 4]]).flat_map(Dataset.from_tensor_slices)
    ) == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="Dataset"):
        Dataset.range(3).flat_map(lambda x: x)


def test_every_argument_may_be_a_value_of_the_function_around():
    ds = Dataset.range(1, 3).flat_map(
        lambda n: Dataset.range(n, 5 * n, n).skip(n).take(2).repeat(n).batch(n)
    )
    assert values(ds) == [[2], [3], [6, 8], [6, 8]]


ten = Dataset.range(10)


@pytest.mark.parametrize(
    "make",
    [
        lambda n: Dataset.range(n),
        lambda n: Dataset.range(n, 10),
        lambda n: Dataset.range(0, 10, n),
        lambda n: Dataset.from_tensors((n, [n, n])),
        lambda n: Dataset.from_tensor_slices([n, 7, n]),
        lambda n: ten.take(n),
        lambda n: ten.skip(n),
        lambda n: ten.repeat(n),
        lambda n: ten.batch(n),
        lambda n: ten.shuffle(n, seed=3),
        lambda n: ten.shuffle(10, seed=n),
        lambda n: ten.prefetch(n),
        lambda n: ten.shard(4, n),
        lambda n: ten.shard(n + 1, 1),
        lambda n: ten.map(lambda x: x + n, num_parallel_calls=n),
        lambda n: ten.filter(lambda x: x % n == 0),
        lambda n: ten.interleave(Dataset.range, cycle_length=n),
        lambda n: ten.flat_map(lambda x: Dataset.range(n)),
        lambda n: ten.interleave(Dataset.range, cycle_length=3, block_length=n),
        lambda n: ten.interleave(Dataset.range, cycle_length=3, num_parallel_calls=n),
        lambda n: ten.batch(4).rebatch(n),
        lambda n: ten.enumerate(n),
        lambda n: Dataset.counter(n, n).take(3),
        lambda n: ten.take_while(lambda x: x < n),
        lambda n: Dataset.zip(ten, Dataset.range(n)),
        lambda n: ten.concatenate(Dataset.range(n)),
        lambda n: ten.padded_batch(n),
        lambda n: ten.window(n, n + 1, 2, True).flat_map(lambda w: w.batch(5)),
        lambda n: ten.group_by_window(lambda x: x % n, lambda k, g: g.batch(n), n),
        lambda n: ten.group_by_window(
            lambda x: x % n, lambda k, g: g.batch(4), window_size_func=lambda k: k + n
        ),
        lambda n: ten.bucket_by_sequence_length(lambda x: x + n, [3, 5], [1, 2, 3]),
        lambda n: Dataset.sample_from_datasets([ten, ten], seed=n),
        lambda n: Dataset.choose_from_datasets(
            [ten, Dataset.range(7, 7 + n)], Dataset.range(2).repeat(n)
        ),
    ],
)
def test_any_number_may_be_a_value_of_the_function_around(make):
    for n in (1, 2, 3):
        there = Dataset.from_tensor_slices(np.array([n])).flat_map(make)
        assert [repr(x) for x in there] == [repr(x) for x in make(np.int64(n))]


def test_the_default_cycle_length_of_interleave_is_16_everywhere():
    ds = Dataset.range(20).interleave(lambda x: Dataset.from_tensors(x).repeat(2))
    assert values(ds)[:18] == list(range(16)) + [0, 1]


def test_parallel_map_keeps_the_order():
    ds = Dataset.range(5000)
    assert values(ds.map(lambda x: x * 3, num_parallel_calls=4)) == [3 * i for i in range(5000)]
    loose = ds.map(lambda x: x * 3, num_parallel_calls=mr.AUTOTUNE, deterministic=False)
    assert sorted(values(loose)) == [3 * i for i in range(5000)]
    with pytest.raises(ValueError):
        ds.map(lambda x: x, num_parallel_calls=0)


def test_shuffle_is_a_permutation_and_a_function_of_its_seed():
    ds = Dataset.range(1000)
    shuffled = ds.shuffle(100, seed=3)
    first, second = values(shuffled), values(shuffled)
    assert sorted(first) == sorted(second) == list(range(1000)) and first != list(range(1000))
    assert first != second  # reshuffled in each pass
    assert values(ds.shuffle(100, seed=3)) == first
    still = ds.shuffle(100, seed=3, reshuffle_each_iteration=False)
    assert values(still) == values(still)
    assert values(ds.shuffle(100, seed=4)) != first
    assert values(ds.shuffle(1)) == list(range(1000))
    assert all(
        x < i + 100 for i, x in enumerate(first)
    )  # no element comes before the buffer can hold it
    assert values(ds.shuffle(10).repeat(2)).count(7) == 2


def test_a_shuffle_of_unknown_size_is_one_of_everything():
    ds = Dataset.range(600).filter(lambda x: x % 7 == 0)
    assert ds.cardinality() == mr.UNKNOWN_CARDINALITY
    assert (
        values(ds.shuffle(ds.cardinality(), seed=3))
        == values(ds.shuffle(10**6, seed=3))
        != values(ds)
    )
    with pytest.raises(mr.errors.InvalidArgumentError, match="buffer_size.*-1"):
        list(Dataset.range(-1, 0).flat_map(lambda n: Dataset.range(3).shuffle(n)))


def test_prefetch_changes_nothing():
    assert values(Dataset.range(1000).prefetch(10)) == list(range(1000))
    assert values(Dataset.range(1000).prefetch(mr.AUTOTUNE).batch(7).prefetch(1))[-1] == list(
        range(994, 1000)
    )


def test_apply_and_options():
    double = Dataset.range(4).apply(lambda ds: ds.map(lambda x: 2 * x))
    assert values(double) == [0, 2, 4, 6]
    options = mr.Options()
    options.deterministic = True
    options.threading.private_threadpool_size = 1
    ds = double.with_options(options)
    assert (
        ds.options().deterministic is True
        and ds.map(lambda x: x).options().threading.private_threadpool_size == 1
    )
    assert values(ds) == [0, 2, 4, 6]
    with pytest.raises(AttributeError, match="determinstic"):
        options.determinstic = True
    with pytest.raises(TypeError):
        double.apply(lambda ds: 3)


def test_get_single_element_and_len():
    assert Dataset.from_tensors(7).get_single_element() == 7
    for ds in (Dataset.range(0), Dataset.range(2)):
        with pytest.raises(mr.errors.InvalidArgumentError):
            ds.get_single_element()
    assert len(Dataset.range(5)) == 5
    for ds in (Dataset.range(5).repeat(), Dataset.range(5).filter(lambda x: x > 1)):
        with pytest.raises(TypeError):
            len(ds)
        assert bool(ds)


def test_what_is_not_built_says_so_and_what_to_use():
    with pytest.raises(mr.errors.UnimplementedError, match="from_tensor_slices"):
        Dataset.from_generator(lambda: iter([]), output_types=None)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ds: ds.batch(0),
        lambda ds: ds.batch(-1),
        lambda ds: ds.shuffle(0),
        lambda ds: ds.shuffle(-1),
        lambda ds: ds.interleave(lambda x: Dataset.range(x), cycle_length=0),
        lambda ds: Dataset.range(0, 1, 0),
    ],
)
def test_arguments_out_of_range_are_refused_when_built(wrong):
    with pytest.raises((mr.errors.InvalidArgumentError, ValueError)):
        wrong(Dataset.range(3))


def test_arguments_out_of_range_are_refused_when_they_are_known():
    with pytest.raises(
        mr.errors.InvalidArgumentError, match="batch_size' is 0, it must be at least 1"
    ):
        list(Dataset.range(1).flat_map(lambda n: Dataset.range(3).batch(n)))
    with pytest.raises(
        mr.errors.InvalidArgumentError, match="cycle_length' is 4097, it must be at most 4096"
    ):
        list(
            Dataset.range(4097, 4098).flat_map(
                lambda n: Dataset.range(3).interleave(Dataset.range, n)
            )
        )


@pytest.mark.parametrize(
    "wrong",
    [
        lambda ds: ds.map(lambda x: x, num_parallel_calls=2.5),
        lambda ds: ds.bucket_by_sequence_length(lambda x: x, [1.5], [1, 1]),
        lambda ds: ds.batch("2"),
        lambda ds: ds.take(1.5),
        lambda ds: ds.batch(2, drop_remainder=3),
        lambda ds: ds.map(3),
        lambda ds: ds.concatenate(3),
        lambda ds: ds.with_options(3),
        lambda ds: Dataset(3),
        lambda ds: Dataset.list_files(3),
    ],
)
def test_arguments_of_the_wrong_kind_are_type_errors(wrong):
    with pytest.raises(TypeError):
        wrong(Dataset.range(3))


def test_predicates_and_specs_that_do_not_fit():
    with pytest.raises(mr.errors.InvalidArgumentError, match="filter"):
        Dataset.range(3).filter(lambda x: x)
    with pytest.raises(mr.errors.InvalidArgumentError, match="concatenate"):
        Dataset.range(3).concatenate(Dataset.from_tensors("a"))


# ---- structures ----

Point = collections.namedtuple("Point", ["x", "y"])


@dataclasses.dataclass
class Sample:
    image: typing.Any
    label: typing.Any


def test_structures_come_back_as_they_went_in():
    ds = Dataset.range(2).map(lambda i: {"p": Point(i, (i + 1, i + 2)), "a": [i, i]})
    element = list(ds)[1]
    assert list(element) == ["p", "a"]
    assert (
        isinstance(element["p"], Point)
        and element["p"].y == (2, 3)
        and element["a"].tolist() == [1, 1]
    )
    record = list(Dataset.range(2).map(lambda i: Sample(image=i, label=-i)))[1]
    assert isinstance(record, Sample) and record.label == -1
    assert values(Dataset.range(2).map(lambda i: (i,))) == [(0,), (1,)]


@pytest.mark.parametrize("of", ["z a", "a z"])
def test_dicts_keep_the_order_of_their_keys(of, tmp_path):
    """In elements, specs and functions; pipelines that differ in nothing else can be joined."""
    first, second = of.split()
    values = {"z": [1], "a": [{"z": 2, "a": 3}[of[0]]]}
    ds = Dataset.from_tensor_slices({name: values[name] for name in (first, second)})
    other = Dataset.from_tensor_slices({name: values[name] for name in (second, first)})
    packed = next(iter(ds.map(lambda x: mr.stack(list(x.values())))))
    assert packed.tolist() == [values[first][0], values[second][0]]
    window = ds.window(1).flat_map(lambda w: Dataset.zip(dict(w)))
    state = {name: np.int32(0) for name in (first, second)}
    changed = ds.reduce(state, lambda s, x: {"a": s["a"] + x["a"], "z": s["z"] + x["z"]})
    ds.save(str(tmp_path / "saved"))
    for like in (
        ds,
        ds.concatenate(other),
        ds.batch(1),
        ds.batch(1).unbatch(),
        ds.shuffle(2).cache(),
        ds.map(lambda x: x).filter(lambda x: x["a"] > 0),
        ds.padded_batch(1, padded_shapes={"a": [], "z": []}, padding_values={"a": 0, "z": 0}),
        Dataset.load(str(tmp_path / "saved")),
        window,
        pickle.loads(pickle.dumps(ds)),
    ):
        element = next(iter(like))
        assert list(element) == list(like.element_spec) == [first, second]
        assert all(np.ravel(element[name]).tolist() == values[name] for name in values)
    assert list(changed) == [first, second] and changed["z"] == 1
    pairs = list(next(iter(Dataset.zip({first: ds, second: other}))).items())
    assert [list(part) for _, part in pairs] == [[first, second], [second, first]]


def test_tuples_are_unpacked_into_arguments_and_dicts_are_not():
    ds = Dataset.zip(Dataset.range(3), Dataset.range(3, 6))
    assert values(ds.map(lambda a, b: a + b)) == [3, 5, 7]
    assert values(ds.map(lambda a, b: {"a": a, "b": b}).map(lambda d: d["a"] * d["b"])) == [
        0,
        4,
        10,
    ]
    assert values(ds.map(lambda a, b: Point(a, b)).map(lambda p: p.y - p.x)) == [3, 3, 3]
    assert values(Dataset.zip(ds, ds).map(lambda p, q: p[0] + q[1])) == [3, 5, 7]


def test_element_specs_nest_like_the_elements():
    ds = Dataset.range(2).map(lambda i: {"a": (i, mr.cast(i, mr.float32)), "b": "s"})
    assert ds.element_spec == {
        "a": (mr.TensorSpec([], mr.int64), mr.TensorSpec([], mr.float32)),
        "b": mr.TensorSpec([], mr.string),
    }
    assert mr.TensorSpec([2, None], mr.int32) == mr.TensorSpec((2, None), np.int32)
    assert mr.TensorSpec([2], mr.int32) != mr.TensorSpec([None], mr.int32)
    assert mr.TensorSpec([2, None], mr.int32).is_compatible_with(np.zeros((2, 5), np.int32))
    assert (
        mr.int64 == np.int64
        and np.dtype("int64") == mr.int64.as_numpy_dtype
        and mr.string != mr.int64
    )


def test_odd_keys_are_refused():
    for key, error in (("!namedtuple", ValueError), (3, TypeError)):
        with pytest.raises(error):
            Dataset.from_tensors({key: 1})


# ---- as bytes ----


def pipeline():
    return (
        Dataset.range(20)
        .map(lambda x: {"a": x * x, "b": mr.strings.as_string(x)})
        .filter(lambda d: d["a"] % 2 == 0)
        .shuffle(5, seed=1)
        .batch(3)
    )


def test_equal_pipelines_have_equal_fingerprints():
    assert pipeline().fingerprint() == pipeline().fingerprint()
    assert len(pipeline().fingerprint()) == 16
    assert Dataset.range(3).fingerprint() != Dataset.range(4).fingerprint()
    assert pipeline().fingerprint() == pickle.loads(pickle.dumps(pipeline())).fingerprint()


def _read_in_child(ds, out):
    out.put([(b["a"].tolist(), list(b["b"])) for b in ds])


def test_datasets_pickle_also_into_spawned_processes():
    ds = pipeline()
    expected = [(b["a"].tolist(), list(b["b"])) for b in pipeline()]
    again = pickle.loads(pickle.dumps(ds))
    assert [(b["a"].tolist(), list(b["b"])) for b in again] == expected
    assert again.element_spec == ds.element_spec
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    child = context.Process(target=_read_in_child, args=(ds, queue))
    child.start()
    assert queue.get(timeout=200) == expected
    child.join()
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(iter(ds))


def added(ds):
    """A method of a user's class, which is a function of this module."""
    return ds


class Derived(Dataset):
    assigned = added

    def defined(self):
        return self


def test_functions_of_derived_classes_keep_their_names():
    assert pickle.loads(pickle.dumps(added)) is added is Derived.assigned
    assert pickle.loads(pickle.dumps(Derived.defined)) is Derived.defined
    assert Dataset.map.__qualname__ == Dataset.shuffle.__qualname__[:-7] + "map" == "Dataset.map"


def test_options_pickle_with_the_dataset():
    options = mr.Options()
    options.threading.private_threadpool_size = 2
    ds = pickle.loads(pickle.dumps(Dataset.range(3).with_options(options)))
    assert ds.options().threading.private_threadpool_size == 2 and values(ds) == [0, 1, 2]


def test_a_definition_above_the_limit_is_refused_with_its_size():
    big = np.zeros((264, 1 << 20), np.uint8)  # the limit is 256 MiB
    with pytest.raises(
        (mr.errors.InvalidArgumentError, mr.errors.ResourceExhaustedError), match="MiB|bytes"
    ):
        Dataset.from_tensors(big)._serialize()
    assert values(Dataset.range(3)) == [0, 1, 2]


def test_damaged_definitions_are_refused():
    from millrace.dataset import _parse

    good = pipeline()._serialize()
    for n in range(0, len(good), 7):
        bad = good[:n] + bytes([good[n] ^ 0x55]) + good[n + 1 :]
        try:
            _parse(bad)
        except mr.errors.MillraceError:
            pass
    with pytest.raises(mr.errors.InvalidArgumentError):
        _parse(good[: len(good) // 2])


def test_a_trace_that_is_cut_off_leaves_nothing_behind():
    """Ctrl-C while a pipeline is built: what comes next is not taken for a part of the function."""
    through, step = False, 0
    while not through:
        through = not cut_off(lambda: Dataset.range(3).map(lambda x: x + 1), step)
        step += 1
        assert current_graph() is None


# ---- tables in memory ----


class NAType:
    """As pandas has it, for what is missing."""

    def __repr__(self):
        return "<NA>"


@pytest.mark.parametrize(
    "column,text",
    [
        (np.array(["2020-01-01", "2021-01-01"], "datetime64[ns]"), r"datetime64\[ns\].*int64.*str"),
        (np.array([1, 2], "timedelta64[s]"), r"timedelta64\[s\]"),
        (np.array(["a", None], object), "value 1 is None.*[Ff]ill"),
        (np.array(["a", float("nan")], object), "value 1 is nan"),
        (np.array([1, 2], object), r"value 0 is 1, which is no string: give numbers, x.astype"),
        (np.array([True, None], object), "value 1 is None, .* missing"),
        (np.array(["a", NAType()], object), "value 1 is <NA>, .* missing.*fillna"),
        (np.array([datetime.datetime(2020, 1, 1)] * 2, object), "no dates and times: .*astype"),
        (np.array([1, 2], [("x", "i4"), ("y", "f4")]), "tensors have no fields: give a dict"),
        ([1, None], "holds None"),
        ([1, NAType()], "holds <NA>"),
        ([datetime.date(2020, 1, 1)] * 2, r"datetime.date\(2020, 1, 1\) is no number: .* text"),
        ([decimal.Decimal("1.5")] * 2, r"Decimal\('1.5'\) is no number: give numbers"),
        (["a", None], "value 1 is None"),
        (np.ma.array([1, 2], mask=[False, True]), "masked"),
        ([object()] * 2, "cannot make a tensor of list"),
    ],
)
def test_a_column_that_is_no_tensor_is_named(column, text):
    for make in Dataset.from_tensor_slices, Dataset.from_tensors:
        with pytest.raises(TypeError, match=rf"component \['t'\]\['when'\]: .*{text}"):
            make({"t": {"n": [1, 2], "when": column}})
    with pytest.raises(TypeError, match=r"component \[1\]\['x'\]"):
        Dataset.from_tensors((1, {"x": None}))


def test_an_element_of_a_list_that_is_no_tensor_is_named():
    for value, text in (
        (None, r"it is component \['t'\]\['x'\]"),
        (datetime.date(2020, 1, 1), "no dates"),
    ):
        with pytest.raises(TypeError, match=f"from_list: element 1: .*{text}"):
            mr.experimental.from_list([{"t": {"x": 1}}, {"t": {"x": value}}])
    with pytest.raises(TypeError, match=r"element 0: component \['x'\]: .*datetime64"):
        mr.experimental.from_list([{"x": np.datetime64("2020-01-01")}])


def test_columns_of_strings():
    paths = [pathlib.Path("a/b"), pathlib.Path("c")]
    table = {
        "paths": paths,
        "mixed": np.array(["x", b"y"], object),
        "text": np.array(["u", "\u00fc"]),
        "bytes": np.array([b"1", b"22"]),
        "whole": np.ma.array([1, 2], mask=[False, False]),
    }
    first, second = Dataset.from_tensor_slices(table)
    assert first == {"paths": b"a/b", "mixed": b"x", "text": b"u", "bytes": b"1", "whole": 1}
    assert second["text"] == "\u00fc".encode() and second["paths"] == b"c"
    assert list(Dataset.from_tensors(paths[0])) == [b"a/b"]


def test_an_error_of_a_long_list_is_short():
    with pytest.raises(TypeError) as e:
        Dataset.from_tensor_slices([object()] * 100_000)
    assert len(str(e.value)) < 1000


def test_datasets_are_no_values():
    for value in Dataset.range(2), [Dataset.range(2), Dataset.range(3)], {"a": Dataset.range(2)}:
        for make in Dataset.from_tensors, Dataset.from_tensor_slices:
            with pytest.raises(mr.errors.UnimplementedError, match="choose_from_datasets"):
                make(value)


# ---- options ----


def fields_of(options):
    """Path -> value of all options."""
    found = {}
    for name in dir(options):
        if not name.startswith("_") and not callable(getattr(options, name)):
            value = getattr(options, name)
            if type(value).__name__.endswith("Options"):
                found.update({f"{name}.{k}": v for k, v in fields_of(value).items()})
            else:
                found[name] = value
    return found


def test_options_have_tensorflows_fields_and_defaults():
    fields = fields_of(mr.Options())
    assert (
        fields.pop("experimental_distribute.auto_shard_policy")
        == mr.experimental.AutoShardPolicy.AUTO
    )
    assert set(fields.values()) == {None} and {
        "deterministic",
        "experimental_deterministic",
    } <= set(fields)
    assert sum(name.startswith("experimental_optimization.") for name in fields) == 12
    assert "merge" in dir(mr.Options()) and "threading" in dir(mr.Options())
    for wrong in "no_such", "threading.no_such":
        group, name = mr.Options(), wrong.split(".")[-1]
        group = group.threading if "." in wrong else group
        for use in (lambda: getattr(group, name), lambda: setattr(group, name, 1)):
            with pytest.raises(AttributeError, match="no_such"):
                use()


@pytest.mark.parametrize(
    "join",
    [
        lambda a, b: a.with_options(b.options()),
        lambda a, b: Dataset.zip(a, b),
        lambda a, b: a.concatenate(b),
        lambda a, b: Dataset.choose_from_datasets([a, b], Dataset.range(1)),
    ],
)
def test_options_that_are_set_later_count(join):
    first, second = mr.Options(), mr.Options()
    first.deterministic, second.deterministic = True, False
    first.autotune.enabled, second.autotune.cpu_budget = True, 3
    ds = join(Dataset.range(3).with_options(first), Dataset.range(3).with_options(second))
    options = ds.map(lambda *x: x).options()
    assert options.deterministic is False
    assert options.autotune.enabled is True and options.autotune.cpu_budget == 3
    first.deterministic = None
    assert ds.options().deterministic is False  # a copy was taken
    # Of a dataset that a function makes nothing is taken over.
    inner = Dataset.range(2).flat_map(lambda x: Dataset.range(1).with_options(second))
    assert inner.options() == mr.Options()
