"""What tf.data 2.16 does, as expected values: behaviour that is 'same' in names.txt and that once was not."""

import collections
import pathlib
import pickle

import numpy as np
import pytest

import millrace as mr

Dataset = mr.Dataset
Point = collections.namedtuple("Point", "x y")


def values(ds):
    return [x.tolist() if isinstance(x, np.ndarray) else x for x in ds]


def shapes(ds):
    return [tuple(s.shape.as_list()) for s in ([ds.element_spec] if isinstance(ds.element_spec, mr.TensorSpec) else ds.element_spec)]


# ---- functions: what they get and what they give ----


def test_a_list_that_a_function_returns_is_a_tuple():
    two = Dataset.range(2)
    assert values(two.map(lambda x: [x, 10])) == [(0, 10), (1, 10)]
    assert values(two.map(lambda x: [x, "a"])) == [(0, b"a"), (1, b"a")]  # dtypes that no tensor holds together
    assert values(two.map(lambda x: mr.split(mr.stack([x, x + 1]), 2)))[1][1].tolist() == [2]
    assert shapes(two.map(lambda x: [[x, x], x])) == [(2,), ()]  # the inner one is a tensor
    assert [a.tolist() for a, _ in two.map(lambda x: ([x, 10], x))] == [[0, 10], [1, 10]]
    assert [e["a"].tolist() for e in two.map(lambda x: {"a": [x, 10]})] == [[0, 10], [1, 10]]


def test_a_list_returned_to_scan_and_reduce_is_a_tuple():
    count = Dataset.range(1, 4)
    assert values(count.scan(np.int64(0), lambda s, x: [s + x, s])) == [0, 1, 3]
    assert count.reduce((np.int64(0), np.int64(1)), lambda s, x: [s[0] + x, s[1] * x]) == (6, 6)


def test_a_named_tuple_is_one_argument():
    points = Dataset.from_tensors(Point(1, 2))
    assert values(points.map(lambda p: p.x + p.y)) == [3]
    assert values(points.filter(lambda p: p.x < p.y)) == [(1, 2)]
    assert values(points.map(lambda p: Point(p.y, p.x)).map(lambda p: p.x)) == [2]
    assert values(Dataset.zip(Point(Dataset.range(2), Dataset.range(2, 4))).flat_map(lambda p: Dataset.from_tensors(p.y))) == [2, 3]
    assert values(points.scan(np.int32(0), lambda s, p: (s + p.x, p.y))) == [2]
    assert values(Dataset.from_tensors((Point(1, 2), 3)).map(lambda p, z: p.x + z)) == [4]  # a plain tuple is unpacked


# ---- options ----


def options(**given):
    out = mr.Options()
    for name, value in given.items():
        setattr(out, name, value)
    return out


def test_the_later_options_count():
    ds = Dataset.range(3).with_options(options(deterministic=True)).with_options(options(deterministic=False))
    assert ds.options().deterministic is False
    assert ds.with_options(mr.Options()).options().deterministic is False  # what is not set changes nothing
    assert Dataset.zip(ds, Dataset.range(3).with_options(options(deterministic=True))).options().deterministic is True


def test_experimental_options_are_accepted():
    given = mr.Options()
    given.experimental_deterministic = False
    given.experimental_threading.private_threadpool_size = 2
    given.experimental_optimization.map_parallelization = True
    given.experimental_optimization.apply_default_optimizations = False
    given.experimental_distribute.auto_shard_policy = mr.experimental.AutoShardPolicy.DATA
    given.experimental_external_state_policy = mr.experimental.ExternalStatePolicy.IGNORE
    given.experimental_slack = given.experimental_warm_start = given.experimental_symbolic_checkpoint = True
    given.autotune.autotune_algorithm = mr.experimental.AutotuneAlgorithm.HILL_CLIMB
    given.dataset_name = "train"
    assert given.deterministic is False and given.threading.private_threadpool_size == 2  # the names of today
    ds = pickle.loads(pickle.dumps(Dataset.range(3).with_options(given)))
    assert ds.options() == given and values(ds) == [0, 1, 2]
    with pytest.raises(AttributeError, match="map_paralelization"):
        given.experimental_optimization.map_paralelization = True
    with pytest.raises(TypeError, match="AutoShardPolicy"):
        given.experimental_distribute.auto_shard_policy = "DATA"


# ---- what is deprecated there, and used ----


def test_deprecated_transformations():
    e, ten = mr.experimental, Dataset.range(10)
    pieces = e.parallel_interleave(lambda x: Dataset.range(10 * x, 10 * x + 3), cycle_length=2, block_length=2)
    assert values(Dataset.range(2).apply(pieces)) == [0, 1, 10, 11, 2, 12]
    sloppy = e.parallel_interleave(lambda x: Dataset.range(10 * x, 10 * x + 3), 2, sloppy=True, buffer_output_elements=1)
    assert sorted(values(Dataset.range(2).apply(sloppy))) == [0, 1, 2, 10, 11, 12]
    assert values(ten.apply(e.map_and_batch(lambda x: x * x, 4, num_parallel_batches=2, drop_remainder=True))) == [
        [0, 1, 4, 9], [16, 25, 36, 49]]
    with pytest.raises(ValueError, match="num_parallel_calls"):
        e.map_and_batch(lambda x: x, 4, num_parallel_batches=2, num_parallel_calls=2)
    mixed = values(ten.apply(e.shuffle_and_repeat(10, count=2, seed=1)))
    assert sorted(mixed[:10]) == sorted(mixed[10:]) == list(range(10)) != mixed[:10]
    assert values(ten.take(2).apply(e.enumerate_dataset(5))) == [(5, 0), (6, 1)]
    assert values(ten.batch(4).apply(e.unbatch())) == values(ten)
    assert values(ten.apply(e.take_while(lambda x: x < 3))) == [0, 1, 2]
    assert values(Dataset.from_tensor_slices([1, 2, 1]).apply(e.unique())) == [1, 2]
    assert values(Dataset.from_tensor_slices([1, 0, 2]).map(lambda x: 4 // x).apply(e.ignore_errors())) == [4, 2]
    assert values(ten.take(3).apply(e.scan(np.int64(0), lambda s, x: (s + x, s)))) == [0, 0, 1]
    assert values(ten.take(4).apply(e.group_by_window(lambda x: x % 2, lambda k, w: w.batch(2), 2))) == [[0, 2], [1, 3]]
    assert values(ten.take(2).apply(e.bucket_by_sequence_length(lambda x: x, [5], [2, 2]))) == [[0, 1]]
    choice = Dataset.from_tensor_slices(np.array([0, 1, 1, 0]))
    assert values(e.choose_from_datasets([Dataset.range(2), Dataset.range(5, 6)], choice)) == [0, 5, 1]
    assert values(e.sample_from_datasets([Dataset.range(3), ten], weights=[1.0, 0.0])) == [0, 1, 2]
    assert values(e.Counter(3, 2).take(2)) == [3, 5]
    assert e.get_structure(ten) == ten.element_spec == e.get_structure(iter(ten))


# ---- tensors ----


def test_one_hot_has_the_dtype_of_its_values():
    hot = mr.one_hot([0, 1], 3, on_value=5, off_value=2)
    assert hot.dtype == np.int32 and hot.tolist() == [[5, 2, 2], [2, 5, 2]]
    assert mr.one_hot([0], 2).dtype == np.float32
    assert mr.one_hot([0], 2, off_value=np.int64(3)).tolist() == [[1, 3]]
    assert mr.one_hot([0], 2, on_value=5, off_value=np.uint8(1)).dtype == np.uint8
    assert mr.one_hot([0], 2, on_value=5, dtype=mr.float32).dtype == np.float32
    assert mr.one_hot([1], 2, on_value="y", off_value="n").tolist() == [[b"n", b"y"]]
    assert mr.one_hot([1], 2, on_value=True).tolist() == [[False, True]]
    assert mr.one_hot([1], 2, dtype=mr.bool).tolist() == [[False, True]]
    assert values(Dataset.range(2).map(lambda x: mr.one_hot(x, 2, "y", "n"))) == [[b"y", b"n"], [b"n", b"y"]]
    with pytest.raises(TypeError, match="off_value"):
        mr.one_hot([1], 2, on_value="y")


def test_reshape_of_what_is_empty():
    assert mr.reshape(np.zeros([0, 6]), [0, -1, 3]).shape == (0, 2, 3)
    assert mr.reshape(np.zeros([0, 6]), [-1, 3]).shape == (0, 3)
    assert mr.reshape(np.zeros([3, 0]), [0, -1]).shape == (0, 3)
    batches = Dataset.range(2).batch(2).map(lambda x: mr.reshape(mr.zeros(mr.stack([mr.cast(x[0], "int32"), 6])), [0, -1, 3]))
    assert [x.shape for x in batches] == [(0, 2, 3)]
    for size, shape in (([0, 5], [0, -1, 3]), ([6], [0, -1])):
        with pytest.raises(mr.errors.InvalidArgumentError, match="cannot become"):
            mr.reshape(np.zeros(size), shape)


# ---- files ----


@pytest.mark.parametrize("reader", [mr.TextLineDataset, mr.TFRecordDataset, lambda f: mr.FixedLengthRecordDataset(f, 1)])
def test_no_files_are_an_empty_dataset(reader):
    for none in ([], (), np.empty(0, object)):
        ds = reader(none)
        assert values(ds) == [] and ds.element_spec == mr.TensorSpec([], "string")


def test_files_are_named_by_paths(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text(path.name + "\n")
    assert values(mr.TextLineDataset(paths)) == values(mr.TextLineDataset((str(paths[0]), paths[1]))) == [b"a", b"b"]
    assert values(mr.TextLineDataset(paths[1], num_parallel_reads=2)) == [b"b"]
    with pytest.raises(TypeError, match="filenames"):
        mr.TextLineDataset([3])
    assert isinstance(paths[0], pathlib.Path)
