"""
What tf.data 2.16 does, as expected values: behaviour that is 'same' in names.txt and that once was
not.
"""

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
    return [
        tuple(s.shape.as_list())
        for s in (
            [ds.element_spec] if isinstance(ds.element_spec, mr.TensorSpec) else ds.element_spec
        )
    ]


# ---- functions: what they get and what they give ----


def test_a_list_that_a_function_returns_is_a_tuple():
    two = Dataset.range(2)
    assert values(two.map(lambda x: [x, 10])) == [(0, 10), (1, 10)]
    assert values(two.map(lambda x: [x, "a"])) == [
        (0, b"a"),
        (1, b"a"),
    ]  # dtypes that no tensor holds together
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
    assert values(
        Dataset.zip(Point(Dataset.range(2), Dataset.range(2, 4))).flat_map(
            lambda p: Dataset.from_tensors(p.y)
        )
    ) == [2, 3]
    assert values(points.scan(np.int32(0), lambda s, p: (s + p.x, p.y))) == [2]
    assert values(Dataset.from_tensors((Point(1, 2), 3)).map(lambda p, z: p.x + z)) == [
        4
    ]  # a plain tuple is unpacked


# ---- options ----


def options(**given):
    out = mr.Options()
    for name, value in given.items():
        setattr(out, name, value)
    return out


def test_the_later_options_count():
    ds = (
        Dataset.range(3)
        .with_options(options(deterministic=True))
        .with_options(options(deterministic=False))
    )
    assert ds.options().deterministic is False
    assert (
        ds.with_options(mr.Options()).options().deterministic is False
    )  # what is not set changes nothing
    assert (
        Dataset.zip(ds, Dataset.range(3).with_options(options(deterministic=True)))
        .options()
        .deterministic
        is True
    )


def test_experimental_options_are_accepted():
    given = mr.Options()
    given.experimental_deterministic = False
    given.experimental_threading.private_threadpool_size = 2
    given.experimental_optimization.map_parallelization = True
    given.experimental_optimization.apply_default_optimizations = False
    given.experimental_distribute.auto_shard_policy = mr.experimental.AutoShardPolicy.DATA
    given.experimental_external_state_policy = mr.experimental.ExternalStatePolicy.IGNORE
    given.experimental_slack = (
        given.experimental_warm_start
    ) = given.experimental_symbolic_checkpoint = True
    given.autotune.autotune_algorithm = mr.experimental.AutotuneAlgorithm.HILL_CLIMB
    given.dataset_name = "train"
    assert (
        given.deterministic is False and given.threading.private_threadpool_size == 2
    )  # the names of today
    ds = pickle.loads(pickle.dumps(Dataset.range(3).with_options(given)))
    assert ds.options() == given and values(ds) == [0, 1, 2]
    with pytest.raises(AttributeError, match="map_paralelization"):
        given.experimental_optimization.map_paralelization = True
    with pytest.raises(TypeError, match="AutoShardPolicy"):
        given.experimental_distribute.auto_shard_policy = "DATA"


# ---- what is deprecated there, and used ----


def test_deprecated_transformations():
    e, ten = mr.experimental, Dataset.range(10)
    pieces = e.parallel_interleave(
        lambda x: Dataset.range(10 * x, 10 * x + 3), cycle_length=2, block_length=2
    )
    assert values(Dataset.range(2).apply(pieces)) == [0, 1, 10, 11, 2, 12]
    sloppy = e.parallel_interleave(
        lambda x: Dataset.range(10 * x, 10 * x + 3), 2, sloppy=True, buffer_output_elements=1
    )
    assert sorted(values(Dataset.range(2).apply(sloppy))) == [0, 1, 2, 10, 11, 12]
    assert values(
        ten.apply(e.map_and_batch(lambda x: x * x, 4, num_parallel_batches=2, drop_remainder=True))
    ) == [[0, 1, 4, 9], [16, 25, 36, 49]]
    with pytest.raises(ValueError, match="num_parallel_calls"):
        e.map_and_batch(lambda x: x, 4, num_parallel_batches=2, num_parallel_calls=2)
    mixed = values(ten.apply(e.shuffle_and_repeat(10, count=2, seed=1)))
    assert sorted(mixed[:10]) == sorted(mixed[10:]) == list(range(10)) != mixed[:10]
    assert values(ten.take(2).apply(e.enumerate_dataset(5))) == [(5, 0), (6, 1)]
    assert values(ten.batch(4).apply(e.unbatch())) == values(ten)
    assert values(ten.apply(e.take_while(lambda x: x < 3))) == [0, 1, 2]
    assert values(Dataset.from_tensor_slices([1, 2, 1]).apply(e.unique())) == [1, 2]
    assert values(
        Dataset.from_tensor_slices([1, 0, 2]).map(lambda x: 4 // x).apply(e.ignore_errors())
    ) == [4, 2]
    assert values(ten.take(3).apply(e.scan(np.int64(0), lambda s, x: (s + x, s)))) == [0, 0, 1]
    assert values(
        ten.take(4).apply(e.group_by_window(lambda x: x % 2, lambda k, w: w.batch(2), 2))
    ) == [[0, 2], [1, 3]]
    total = e.Reducer(lambda k: k, lambda s, x: s + x, lambda s: s * 10)
    assert values(ten.take(4).apply(e.group_by_reducer(lambda x: -x % 2, total))) == [20, 50]
    assert values(ten.take(2).apply(e.bucket_by_sequence_length(lambda x: x, [5], [2, 2]))) == [
        [0, 1]
    ]
    choice = Dataset.from_tensor_slices(np.array([0, 1, 1, 0]))
    assert values(e.choose_from_datasets([Dataset.range(2), Dataset.range(5, 6)], choice)) == [
        0,
        5,
        1,
    ]
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
    assert values(Dataset.range(2).map(lambda x: mr.one_hot(x, 2, "y", "n"))) == [
        [b"y", b"n"],
        [b"n", b"y"],
    ]
    with pytest.raises(TypeError, match="off_value"):
        mr.one_hot([1], 2, on_value="y")


def test_reshape_of_what_is_empty():
    assert mr.reshape(np.zeros([0, 6]), [0, -1, 3]).shape == (0, 2, 3)
    assert mr.reshape(np.zeros([0, 6]), [-1, 3]).shape == (0, 3)
    assert mr.reshape(np.zeros([3, 0]), [0, -1]).shape == (0, 3)
    batches = (
        Dataset.range(2)
        .batch(2)
        .map(lambda x: mr.reshape(mr.zeros(mr.stack([mr.cast(x[0], "int32"), 6])), [0, -1, 3]))
    )
    assert [x.shape for x in batches] == [(0, 2, 3)]
    for size, shape in (([0, 5], [0, -1, 3]), ([6], [0, -1])):
        with pytest.raises(mr.errors.InvalidArgumentError, match="cannot become"):
            mr.reshape(np.zeros(size), shape)


# ---- files ----


@pytest.mark.parametrize(
    "reader", [mr.TextLineDataset, mr.TFRecordDataset, lambda f: mr.FixedLengthRecordDataset(f, 1)]
)
def test_no_files_are_an_empty_dataset(reader):
    for none in ([], (), np.empty(0, object)):
        ds = reader(none)
        assert values(ds) == [] and ds.element_spec == mr.TensorSpec([], "string")


def test_files_are_named_by_paths(tmp_path):
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        path.write_text(path.name + "\n")
    assert (
        values(mr.TextLineDataset(paths))
        == values(mr.TextLineDataset((str(paths[0]), paths[1])))
        == [b"a", b"b"]
    )
    assert values(mr.TextLineDataset(paths[1], num_parallel_reads=2)) == [b"b"]
    with pytest.raises(TypeError, match="filenames"):
        mr.TextLineDataset([3])
    assert isinstance(paths[0], pathlib.Path)


# ---- padding, batches, samples ----


def test_padding_values_may_leave_out_whole_parts():
    ds = Dataset.from_tensor_slices([1, 2]).map(
        lambda n: ({"a": mr.fill([n], n), "b": mr.fill([n], "x")}, mr.fill([n], n))
    )
    ab, c = next(iter(ds.padded_batch(2, padding_values=(None, 7))))
    a, b = ab["a"], ab["b"]
    assert (a.tolist(), b.tolist(), c.tolist()) == (
        [[1, 0], [2, 2]],
        [[b"x", b""], [b"x", b"x"]],
        [[1, 7], [2, 2]],
    )


def test_padded_shapes_that_are_no_vector_are_named():
    ds = Dataset.from_tensors(np.zeros((1, 1)))
    for shapes in ([[1, 1], [1, 1]], ["a"], [np.array([1, 2])]):
        with pytest.raises(
            ValueError, match="padded shape .* of component 0 must be a vector of integers"
        ):
            ds.padded_batch(1, padded_shapes=shapes)


def test_rebatch_knows_when_no_remainder_is_left():
    whole = Dataset.range(8).batch(4, drop_remainder=True)
    assert shapes(whole.rebatch(2)) == [(2,)] and values(whole.rebatch(2)) == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
    ]
    assert shapes(whole.rebatch(3)) == [(None,)] and values(whole.rebatch(3))[-1] == [6, 7]
    assert shapes(Dataset.range(8).batch(4).rebatch(2)) == [(None,)]
    assert shapes(whole.rebatch(3, drop_remainder=True)) == [(3,)]


def test_weights_that_are_all_zero_give_nothing():
    ds = Dataset.sample_from_datasets([Dataset.range(3), Dataset.range(5)], weights=[0.0, 0.0])
    assert (
        values(ds) == [] and ds.cardinality() == 0 and ds.element_spec == mr.TensorSpec([], "int64")
    )


# ---- text ----


def test_strings_of_nothing_and_of_strings():
    assert mr.strings.join([]) == b""
    assert (
        mr.strings.join([[], []]).tolist()
        == mr.strings.lower([]).tolist()
        == mr.strings.regex_replace([], "a", "b").tolist()
        == []
    )
    assert mr.strings.length([]).dtype == np.int32 and mr.strings.to_number([]).dtype == np.float32
    with pytest.raises(TypeError, match="does not fit string"):
        mr.strings.join(["a", 5])
    assert mr.as_string(["a", "é"]).tolist() == [b"a", "é".encode()]
    assert values(
        Dataset.from_tensor_slices(["a", ""]).map(lambda s: mr.strings.join([mr.as_string(s), "b"]))
    ) == [b"ab", b"b"]
    assert values(Dataset.range(1).map(lambda x: mr.strings.join([]))) == [b""]


def test_all_and_any_of_nothing():
    assert mr.reduce_all([]) == True and mr.reduce_any([]) == False  # noqa: E712
    assert mr.reduce_all([True, False]) == False  # noqa: E712
    assert values(Dataset.range(1).map(lambda x: mr.reduce_all([]))) == [True]
    with pytest.raises(TypeError):
        mr.reduce_all([1, 0])


def test_whole_lines_may_be_integers(tmp_path):
    path = tmp_path / "numbers"
    path.write_text("40\n-2\n")
    index = mr.lookup.TextFileIndex
    table = mr.lookup.StaticHashTable(
        mr.lookup.TextFileInitializer(path, "int64", index.WHOLE_LINE, "int64", index.LINE_NUMBER),
        -1,
    )
    assert table.lookup(np.array([-2, 40, 3])).tolist() == [1, 0, -1]
    with pytest.raises(ValueError, match="WHOLE_LINE is a string or an integer"):
        mr.lookup.TextFileInitializer(path, "float32", index.WHOLE_LINE, "int64", index.LINE_NUMBER)
    path.write_text("40\nx\n")
    with pytest.raises(ValueError, match="line 2: b'x' is no int64"):
        mr.lookup.TextFileInitializer(path, "int64", index.WHOLE_LINE, "int64", index.LINE_NUMBER)


# ---- tf.Example ----


def example(**lists):
    kinds = {int: ("int64_list", mr.train.Int64List), bytes: ("bytes_list", mr.train.BytesList)}
    feature = {}
    for name, given in lists.items():
        field, kind = kinds[type(given[0]) if given else int]
        feature[name] = mr.train.Feature(**{field: kind(value=given)})
    return mr.train.Example(features=mr.train.Features(feature=feature)).SerializeToString()


def test_sequences_of_a_batch_are_padded_with_their_default():
    sequence = mr.io.FixedLenSequenceFeature
    features = {
        "n": sequence([], mr.int64, allow_missing=True, default_value=-1),
        "s": sequence([], mr.string, allow_missing=True),
        "pair": sequence([2], mr.int64, allow_missing=True),
    }
    records = [
        example(n=[1, 2, 3], s=[b"a"], pair=[1, 2]),
        example(s=[b"b", b"c"]),
        example(n=[4], pair=[3, 4, 5, 6]),
    ]
    got = mr.io.parse_example(np.array(records, object), features)
    assert got["n"].tolist() == [[1, 2, 3], [-1, -1, -1], [4, -1, -1]]
    assert got["s"].tolist() == [[b"a", b""], [b"b", b"c"], [b"", b""]]
    assert got["pair"].tolist() == [[[1, 2], [0, 0]], [[0, 0], [0, 0]], [[3, 4], [5, 6]]]
    ds = Dataset.from_tensor_slices(records)
    assert [e["n"].tolist() for e in ds.map(lambda r: mr.io.parse_single_example(r, features))] == [
        [1, 2, 3],
        [],
        [4],
    ]
    batches = ds.repeat(2).batch(4).map(lambda r: mr.io.parse_example(r, features))
    assert batches.element_spec["n"].shape.as_list() == [None, None]
    assert [e["n"].shape for e in batches] == [(4, 3), (2, 1)]
    assert [
        e["n"].tolist() for e in ds.batch(1).map(lambda r: mr.io.parse_example(r, features))
    ] == [[[1, 2, 3]], [[]], [[4]]]
    with pytest.raises(mr.errors.InvalidArgumentError, match="'n'.*one value, not 2"):
        mr.io.parse_example(np.array(records, object), {"n": sequence([], mr.int64, True, [1, 2])})


@pytest.mark.parametrize(
    "wrong,name",
    [
        (lambda: mr.TensorSpec([[1]]), "a dimension"),
        (lambda: mr.TensorShape([1.5]), "a dimension"),
        (lambda: mr.TensorShape("ab"), "a dimension"),
        (lambda: mr.reshape(np.zeros(4), [[2, 2]]), "vectors of integers"),
        (lambda: mr.reshape(np.zeros(4), [2.5, 2]), "vectors of integers"),
        (lambda: mr.reshape(np.zeros(4), [2, None]), "vectors"),
        (lambda: mr.zeros([[2]]), "vectors of integers"),
        (lambda: mr.tile([1], ["a"]), "vectors of integers"),
        (lambda: mr.expand_dims([1], [0]), "axis"),
        (lambda: mr.concat([[1]], 0.0), "axis"),
        (lambda: mr.reduce_sum([1], "a"), "axes"),
        (lambda: mr.reduce_sum([[1]], [[0]]), "axes"),
        (lambda: mr.one_hot([1], [2]), "depth"),
        (lambda: mr.one_hot([1], 2.0), "depth"),
        (lambda: mr.split([1, 2], [[1], [1]]), "num_or_size_splits"),
        (lambda: mr.pad([1], [["a", "b"]]), "paddings"),
        (lambda: mr.as_string([1], precision="a"), "precision"),
        (lambda: mr.strings.to_hash_bucket_fast(["a"], "x"), "num_buckets"),
        (
            lambda: mr.io.parse_single_example(b"", {"a": mr.io.FixedLenFeature([[1]], mr.int64)}),
            "a dimension",
        ),
        (lambda: Dataset.range(2).batch(1).padded_batch(1, padded_shapes=[1.5]), "a dimension"),
    ],
)
def test_what_is_no_integer_is_named(wrong, name):
    """No number is cut off, and no message is int()'s."""
    with pytest.raises((TypeError, ValueError), match=name):
        wrong()


# ---- functions ----


def spec(function, *arguments):
    """The shape of what @function makes of tensors, as it is known when it is traced."""
    return tuple(Dataset.from_tensors(arguments).map(function).element_spec.shape.as_list())


def test_of_bounds_that_cross_the_lower_one_counts():
    assert mr.clip_by_value([1.0, 7.0], 5.0, 0.25).tolist() == [5.0, 5.0]
    assert mr.clip_by_value([1, 7], 5, 0).tolist() == [5, 5]


@pytest.mark.parametrize("arguments", [(-1,), (3, 2), (1.5, 1.0), (2, 3, -1), (0.0, 1.0, -0.5)])
def test_a_range_never_leads_away_from_its_limit(arguments):
    with pytest.raises(mr.errors.InvalidArgumentError, match="no range"):
        mr.range(*arguments)
    assert mr.range(3, 3).tolist() == mr.range(np.uint8(3), np.uint8(3)).tolist() == []


def test_a_mask_of_lengths_below_zero_is_empty():
    assert mr.sequence_mask([-3, -1]).shape == (2, 0)


def test_sizes_that_constants_say_are_known_when_a_function_is_traced():
    assert spec(lambda x: mr.fill([2, 3], x), 1) == (2, 3)
    assert spec(lambda x: mr.fill([], x), 1) == ()
    assert spec(lambda x: mr.range(7) + x, 1) == (7,)
    assert spec(lambda x: mr.reverse_sequence(x, [1, 2], 1), [[1, 2], [3, 4]]) == (2, 2)
    assert spec(lambda x: mr.range(0.0, 1.0, 0.1) + x, np.float32(1)) == (10,)
    assert spec(lambda x: mr.sequence_mask(x, 4), [1, 2]) == (2, 4)
    assert spec(lambda x: mr.repeat(x, 2, axis=0), [1, 2]) == (4,)
    assert spec(lambda x: mr.repeat(x, 2), [[1, 2]]) == (4,)
    batches = Dataset.range(3).batch(2).map(lambda x: mr.slice(x, [0], [1]))
    assert batches.element_spec.shape.as_list() == [1]
    assert values(batches) == [[0], [2]]


def test_what_is_empty_is_not_written_into_a_sequence_example():
    record = mr.train.SequenceExample(feature_lists=mr.train.FeatureLists())
    assert record.SerializeToString() == b""
    assert mr.float32.is_complex is False


def test_what_python_calls_a_float_has_the_dtype_of_literals():
    assert mr.as_dtype(float) is mr.float32 and mr.as_dtype(int) is mr.int64
    assert mr.string.as_numpy_dtype is object


def test_an_axis_without_places_is_no_tensor():
    assert mr.unstack(np.zeros([2, 0]), axis=1) == mr.unstack(np.zeros([0])) == []
    with pytest.raises(mr.errors.InvalidArgumentError, match="size 0"):
        mr.unstack(np.zeros([0]), 2)


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float64])
def test_a_standardized_image_is_float32(dtype):
    image = np.arange(12, dtype=dtype).reshape(2, 2, 3)
    assert mr.image.per_image_standardization(image).dtype == np.float32


def test_the_size_of_a_window_of_a_jpeg_is_known_when_a_function_is_traced():
    jpeg = mr.io.encode_jpeg(np.zeros([9, 9, 3], np.uint8))
    assert spec(lambda x: mr.io.decode_and_crop_jpeg(x, [1, 2, 3, 4], 3), jpeg) == (3, 4, 3)


def test_a_tensor_alone_is_joined_along_any_axis():
    assert mr.concat([[1, 2]], axis=1).tolist() == [1, 2]


def test_lists_that_hold_nothing_are_as_deep_as_somebody_says():
    assert mr.ragged.constant([], ragged_rank=1).row_splits.tolist() == [0]
    rows = mr.ragged.constant([[], []], ragged_rank=2)
    assert [s.tolist() for s in rows.nested_row_splits] == [[0, 0, 0], [0]]


# ---- what differs ----


def test_what_tensorflow_finds_out_later_is_an_error_at_once():
    batches = Dataset.from_tensors([5]).unbatch().batch(2)
    with pytest.raises(mr.errors.InvalidArgumentError, match="name the axes"):
        batches.map(mr.squeeze)
    with pytest.raises(mr.errors.InvalidArgumentError, match="length of dims"):
        batches.map(lambda x: mr.fill(x, 1))
    with pytest.raises(mr.errors.InvalidArgumentError, match="scalars"):
        batches.unique()
    with pytest.raises(ValueError, match="known rank"):
        mr.SparseTensorSpec(None, mr.int32)
    with pytest.raises(ValueError, match="known shape"):
        batches.map(mr.linalg.tensor_diag)
    with pytest.raises(ValueError, match="three numbers"):
        batches.map(lambda x: mr.linalg.cross(x, x))
    with pytest.raises(ValueError, match="known size"):
        batches.batch(2).map(mr.linalg.trace)
    with pytest.raises(ValueError, match="known shape"):
        batches.batch(2).map(mr.linalg.tensor_diag_part)
    with pytest.raises(ValueError, match="row shape is known"):
        batches.sparse_batch(2, [None])
    with pytest.raises(mr.errors.InvalidArgumentError, match="out of range"):
        mr.gather(np.zeros([2, 0]), [2])
    assert not hasattr(mr.TensorShape([2]), "merge_with")


def test_shapes_of_other_images_and_fourth_channels():
    image = np.zeros([2, 3, 3], np.uint8)
    assert mr.io.extract_jpeg_shape(mr.io.encode_png(image)).tolist() == [2, 3, 3]
    bmp = b"BM" + b"".join(n.to_bytes(4, "little") for n in (70, 0, 54, 40, 3, 2))
    bmp += b"\x01\0\x18\0" + bytes(24) + bytes(24)
    assert mr.io.decode_bmp(bmp).shape == (2, 3, 3)
    with pytest.raises(mr.errors.InvalidArgumentError, match="channels is 4"):
        mr.io.decode_bmp(bmp, channels=4)
