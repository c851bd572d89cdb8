"""Ragged and sparse tensors through everything that elements pass: services, caches, states, errors."""

import pickle

import numpy as np
import pytest

import millrace as mr


def rows(n=7):
    """Of elements 0, 1, ...: that many numbers."""
    return mr.Dataset.range(n).map(lambda i: mr.range(i))


def lists(ds):
    return [x.to_list() for x in ds]


EXPECTED = [[[], [0]], [[0, 1], [0, 1, 2]], [[0, 1, 2, 3], [0, 1, 2, 3, 4]], [[0, 1, 2, 3, 4, 5]]]


def test_from_a_worker(cluster):
    ds = rows().ragged_batch(2).map(lambda r: {"r": r, "s": r.to_sparse()})
    far = ds.apply(cluster.distribute("distributed_epoch"))
    assert far.element_spec == ds.element_spec
    found = sorted(((e["r"].to_list(), mr.sparse.to_dense(e["s"]).tolist()) for e in far), key=str)
    assert [r for r, _ in found] == sorted(EXPECTED, key=str)
    for ragged, dense in found:
        assert [row[: len(r)] for row, r in zip(dense, ragged)] == ragged


def test_registered_with_a_spec(cluster):
    ds = rows().ragged_batch(2)
    identity = mr.service.register_dataset(cluster.service, ds)
    far = mr.service.from_dataset_id(
        "distributed_epoch", cluster.service, identity, ds.element_spec
    )
    assert sorted(lists(far), key=str) == sorted(EXPECTED, key=str)


def test_cached_repeated_shuffled_zipped():
    ds = rows().ragged_batch(2).cache()
    assert lists(ds.repeat(2)) == EXPECTED * 2
    assert sorted(lists(ds.shuffle(10)), key=str) == sorted(EXPECTED, key=str)
    pairs = list(mr.Dataset.zip((ds, mr.Dataset.range(4))))
    assert [(r.to_list(), int(i)) for r, i in pairs] == list(zip(EXPECTED, range(4)))


def both(n=7):
    """A ragged tensor, a number, and a sparse tensor."""
    ds = rows(n).ragged_batch(1)
    return ds.map(lambda r: {"n": r.nrows(), "r": r, "s": (r.to_sparse(),)})


def test_windows_are_of_the_components():
    windows = both().window(3, shift=2, drop_remainder=True)
    for at, w in enumerate(windows):
        assert sorted(w) == ["n", "r", "s"]
        assert w["r"].element_spec == mr.RaggedTensorSpec([None, None], mr.int64)
        assert w["s"][0].element_spec == mr.SparseTensorSpec([None, None], mr.int64)
        kept = range(2 * at, 2 * at + 3)
        assert lists(w["r"]) == [[list(range(k))] for k in kept]
        assert [s.values.tolist() for s in w["s"][0]] == [list(range(k)) for k in kept]
        assert [int(n) for n in w["n"]] == [1, 1, 1]
    assert at == 2


def batches_of_windows(ds):
    return ds.window(3, shift=2).flat_map(
        lambda w: mr.Dataset.zip((w["r"].batch(3), w["s"][0].batch(3), w["n"].batch(3)))
    )


def shown(element):
    ragged, sparse, numbers = element
    return ragged.to_list(), mr.sparse.to_dense(sparse).tolist(), numbers.tolist()


def test_windows_on_a_worker(cluster):
    expected = [shown(e) for e in batches_of_windows(both())]
    assert len(expected) == 4 and expected[1][0] == [[[0, 1]], [[0, 1, 2]], [[0, 1, 2, 3]]]
    far = batches_of_windows(both()).apply(cluster.distribute("distributed_epoch"))
    assert sorted(map(shown, far), key=str) == sorted(expected, key=str)
    behind = batches_of_windows(both().apply(cluster.distribute("distributed_epoch")))
    assert len(list(behind)) == 4


@pytest.mark.parametrize("cut", range(5))
def test_a_state_continues_among_windows(cut):
    ds = batches_of_windows(both().cache()).cache()
    whole = [shown(e) for e in ds]
    it = iter(ds)
    for _ in range(min(cut, len(whole))):
        next(it)
    again = iter(ds)
    again.set_state(it.get_state())
    assert [shown(e) for e in again] == whole[cut:]


def test_windows_of_windows_and_of_rows():
    ds = rows(5).ragged_batch(2)
    nested = ds.window(2).window(2).flat_map(lambda v: v.flat_map(lambda w: w.unbatch().batch(9)))
    assert lists(nested) == [[[], [0], [0, 1], [0, 1, 2]], [[0, 1, 2, 3]]]
    again = ds.window(2).flat_map(lambda w: w.window(1).flat_map(lambda v: v.ragged_batch(1)))
    assert lists(again) == [[rows] for rows in lists(ds)]
    tails = mr.Dataset.from_tensor_slices(mr.ragged.constant([[1, 2], [], [3]])).window(2)
    assert lists(tails.flat_map(lambda w: w.batch(2))) == [[[1, 2], []], [[3]]]


def test_an_element_that_fails_takes_its_windows_with_it():
    ds = mr.Dataset.range(6).map(lambda i: mr.range(6 // mr.abs(i - 3))).ragged_batch(1)
    ds = ds.window(2, shift=1, drop_remainder=True).flat_map(lambda w: w.batch(2))
    it, found, failed = iter(ds), [], 0
    while True:
        try:
            found.append(next(it).row_lengths(axis=2).to_list())
        except mr.errors.InvalidArgumentError:
            failed += 1
        except StopIteration:
            break
    assert found == [[[2], [3]], [[3], [6]], [[6], [3]]] and failed == 2


@pytest.mark.parametrize("cut", range(5))
def test_a_state_continues(cut):
    ds = rows(9).ragged_batch(2).unbatch().batch(3).prefetch(2)
    whole = lists(ds)
    it = iter(ds)
    for _ in range(min(cut, len(whole))):
        next(it)
    state = it.get_state() if hasattr(it, "get_state") else None
    again = iter(ds)
    again.set_state(state)
    assert [x.to_list() for x in again] == whole[cut:]


def test_parallel_maps_keep_the_order():
    ds = rows(40).map(lambda x: x, num_parallel_calls=4).ragged_batch(3)
    ds = ds.map(lambda r: r * 2, num_parallel_calls=4)
    assert lists(ds) == [
        [[2 * k for k in range(i)] for i in range(a, min(a + 3, 40))] for a in range(0, 40, 3)
    ]


def test_many_rows():
    """More than fit a block."""
    ds = (
        rows(1)
        .concatenate(mr.Dataset.range(5000).map(lambda i: mr.fill([i % 5], i)))
        .ragged_batch(7)
    )
    found = [row for x in ds.unbatch().batch(11) for row in x.to_list()]
    assert found == [[]] + [[i] * (i % 5) for i in range(5000)]


def test_batches_of_large_rows():
    ds = mr.Dataset.range(6).map(lambda i: mr.fill([i * 100_000, 3], mr.cast(i, mr.uint8)))
    first, second = ds.ragged_batch(3)
    assert first.row_lengths().tolist() == [0, 100_000, 200_000]
    assert second.row_lengths().tolist() == [300_000, 400_000, 500_000]
    assert [len(set(row.ravel().tolist())) for row in second.numpy()] == [1, 1, 1]


def test_rows_whose_inner_shapes_differ():
    ds = mr.Dataset.range(1, 3).map(lambda i: mr.fill([2, i], i))
    with pytest.raises(ValueError, match="ragged_rank"):
        mr.RaggedTensor.from_tensor([1, 2])
    assert lists(ds.ragged_batch(2)) == [[[[1], [1]], [[2, 2], [2, 2]]]]


def test_rows_of_no_values_are_counted():
    x = np.zeros((2, 3, 0), np.int32)
    assert mr.RaggedTensor.from_tensor(x).to_list() == [[[], [], []], [[], [], []]]
    rows = mr.Dataset.from_tensor_slices([2, 3]).map(lambda n: mr.zeros([n, 0]))
    batches = rows.map(lambda x: mr.ensure_shape(x, [None, 0])).ragged_batch(2)
    assert batches.element_spec == mr.RaggedTensorSpec([None, None, 0], mr.float32, 1)
    assert lists(batches) == [[[[], []], [[], [], []]]]
    rows = mr.Dataset.from_tensors(np.array([2, 3, 0])).map(lambda d: mr.zeros(d))
    rows = rows.map(lambda x: mr.RaggedTensor.from_tensor(mr.ensure_shape(x, [None, None, None])))
    assert lists(rows) == [[[[], [], []], [[], [], []]]]


def test_an_element_that_fails_takes_its_batch_with_it():
    ds = mr.Dataset.range(8).map(lambda i: mr.range(6 // mr.abs(i - 4))).ragged_batch(2)
    it, found = iter(ds), []
    while True:
        try:
            found.append(next(it).to_list())
        except mr.errors.InvalidArgumentError as e:
            assert "element 4" in str(e)
        except StopIteration:
            break
    assert len(found) == 3


@pytest.mark.parametrize(
    "make,error,text",
    [
        (lambda: mr.RaggedTensor.from_row_splits([1, 2], [0, 3]), "InvalidArgument", "end with"),
        (
            lambda: mr.RaggedTensor.from_row_splits([1, 2], [1, 2]),
            "InvalidArgument",
            "begin with 0",
        ),
        (
            lambda: mr.RaggedTensor.from_row_splits([1, 2], [0, 2, 1, 2]),
            "InvalidArgument",
            "decrease",
        ),
        (
            lambda: mr.ragged.constant([[1], [2, 3]]) + mr.ragged.constant([[1, 2], [3]]),
            "InvalidArgument",
            "different lengths",
        ),
        (
            lambda: mr.sparse.to_dense(mr.SparseTensor([[3]], [1], [2])),
            "InvalidArgument",
            "out of range",
        ),
        (
            lambda: mr.sparse.to_dense(mr.SparseTensor([[1], [0]], [1, 2], [2])),
            "InvalidArgument",
            "out of order",
        ),
        (lambda: mr.ragged.constant([[1], [2]])[:, 3], "InvalidArgument", "row without a value"),
        (
            lambda: mr.gather_nd(mr.ragged.constant([[1], [2, 3]]), [[0, 1]]),
            "InvalidArgument",
            "beyond its row",
        ),
        (
            lambda: mr.gather(mr.ragged.constant([[], [2, 3]]), [[0], [0]], batch_dims=1),
            "InvalidArgument",
            "beyond its row",
        ),
        (lambda: mr.ragged.range([1], [5], 0), "InvalidArgument", "distance is 0"),
        (
            lambda: mr.RaggedTensor.from_sparse(mr.sparse.from_dense([[0, 2]])),
            "InvalidArgument",
            "gap",
        ),
        (
            lambda: mr.RaggedTensor.from_value_rowids([5, 6], [1, 0]),
            "InvalidArgument",
            "do not decrease",
        ),
        (lambda: mr.ragged.segment_ids_to_row_splits([0, -1], 3), "InvalidArgument", "is negative"),
        (
            lambda: mr.ragged.stack_dynamic_partitions([1, 2], [0, 3], 2),
            "InvalidArgument",
            "out of range",
        ),
        (
            lambda: mr.sparse.reshape(mr.SparseTensor([[0, 1]], [1], [1 << 40, 1 << 41]), [-1]),
            "InvalidArgument",
            "2\\*\\*63",
        ),
        (
            lambda: mr.sparse.reduce_sum(mr.SparseTensor([[5]], [1], [2]), axis=0),
            "InvalidArgument",
            "out of range",
        ),
        (
            lambda: mr.sparse.add(mr.sparse.from_dense([1, 2]), mr.sparse.from_dense([1])),
            "InvalidArgument",
            "shapes differ",
        ),
    ],
)
def test_values_that_are_refused(make, error, text):
    with pytest.raises(getattr(mr.errors, error + "Error"), match=text):
        make()


@pytest.mark.parametrize(
    "make,error,text",
    [
        (
            lambda: mr.matmul(mr.ragged.constant([[1]]), [[1]]),
            TypeError,
            "matmul does not take a ragged tensor",
        ),
        (lambda: mr.reduce_sum(mr.sparse.from_dense([1])), TypeError, "sparse"),
        (lambda: mr.ragged.constant([[1]])[::0], ValueError, "step"),
        (lambda: mr.ragged.constant([[1]]) + [[1, 2]], TypeError, "axes have size 1"),
        (lambda: mr.sparse.concat(0, [mr.sparse.from_dense([1]), [1]]), TypeError, "SparseTensor"),
        (lambda: mr.ragged.constant([[1], 2]), ValueError, "several depths"),
        (lambda: rows().ragged_batch(2).padded_batch(2), TypeError, "to_tensor"),
        (
            lambda: mr.ragged.constant([[1]]) + mr.ragged.constant([[[1]]], ragged_rank=1),
            ValueError,
            "together",
        ),
        (lambda: mr.shape(mr.ragged.constant([[1]])), TypeError, "bounding_shape"),
        (lambda: mr.squeeze(mr.ragged.constant([[1]])), ValueError, "takes axes"),
        (
            lambda: mr.squeeze(mr.ragged.constant([[1], [2, 3]]), 1),
            mr.errors.InvalidArgumentError,
            "size 1",
        ),
        (
            lambda: mr.split(mr.ragged.constant([[1], [2]]), 2, axis=1),
            ValueError,
            "differ along axis",
        ),
        (lambda: mr.one_hot(mr.ragged.constant([[1], [2]]), 2, axis=1), ValueError, "ragged ones"),
        (lambda: mr.cumsum(mr.ragged.constant([[1], [2]]), 2), ValueError, "axis 2"),
        (
            lambda: mr.gather([[1, 2]], mr.ragged.constant([[1], [0]]), axis=1),
            mr.errors.UnimplementedError,
            "axis 0",
        ),
        (
            lambda: mr.dynamic_partition([1, 2], mr.ragged.constant([[1], [0]]), 2),
            ValueError,
            "same rows",
        ),
        (
            lambda: mr.dynamic_partition(mr.ragged.constant([[1], [0]]), [0], 2),
            mr.errors.InvalidArgumentError,
            "of no row",
        ),
        (
            lambda: mr.math.segment_sum(mr.ragged.constant([[1], [0]]), [0, 0]),
            TypeError,
            "unsorted",
        ),
        (lambda: mr.math.bincount(mr.ragged.constant([[[1]]]), axis=-1), ValueError, "2 axes"),
        (lambda: mr.ragged.constant([[1]])[1.5], TypeError, "not float"),
        (lambda: mr.ragged.constant([[1]])[True], TypeError, "not bool"),
        (
            lambda: mr.ragged.constant([[1]])[mr.ragged.constant([[True]])],
            TypeError,
            "boolean_mask",
        ),
        (lambda: mr.ragged.constant([[[1]]]).to_tensor(shape=[1, 1]), ValueError, "3 axes"),
        (lambda: mr.ragged.constant([[1]]).tolist(), AttributeError, "to_list"),
        (lambda: mr.ragged.constant([[1]]).ndim, AttributeError, "x.shape.rank"),
        (lambda: mr.ragged.constant([[1]]).nothing, AttributeError, "'nothing': use a function of"),
        (lambda: mr.ragged.constant([[1]])._nothing, AttributeError, "'_nothing'$"),
        (lambda: mr.ragged.constant([[1]]) @ [[1]], TypeError, "matmul does not take .*to_tensor"),
        (lambda: [[1]] @ mr.ragged.constant([[1]]), TypeError, "matmul does not take .*to_tensor"),
        (lambda: mr.sparse.from_dense([1]).nothing, AttributeError, "'nothing': use .*to_dense"),
        (lambda: mr.sparse.from_dense([1])._nothing, AttributeError, "'_nothing'$"),
        (lambda: np.sqrt(mr.ragged.constant([[1.0]])), TypeError, "numpy.sqrt does not take"),
        (lambda: np.add.reduce(mr.ragged.constant([[1.0]])), TypeError, "numpy.add.reduce"),
        (lambda: np.asarray(mr.ragged.constant([[1], []]), np.int32), ValueError, "to_tensor"),
        (lambda: mr.map_fn(lambda x: x, mr.sparse.from_dense([1])), TypeError, "to_dense"),
        (lambda: mr.map_fn(mr.sparse.from_dense, [[1]]), TypeError, "sparse"),
        (
            lambda: mr.map_fn(
                lambda x: x, [1], fn_output_signature=mr.RaggedTensorSpec([None], "int32")
            ),
            ValueError,
            "scalar",
        ),
        (
            lambda: mr.map_fn(
                mr.range, [1], fn_output_signature=mr.RaggedTensorSpec([None, None], "int32")
            ),
            TypeError,
            "says 1",
        ),
        (
            lambda: mr.map_fn(
                mr.range, [1], fn_output_signature=mr.RaggedTensorSpec([None], "int64")
            ),
            TypeError,
            "not what",
        ),
        (lambda: mr.reduce_logsumexp(mr.sparse.from_dense([1.0])), TypeError, "to_dense"),
        (lambda: mr.SparseTensor([1], [1], [1]), ValueError, "indices"),
        (lambda: bool(mr.ragged.constant([[1]])), TypeError, "neither"),
        (lambda: mr.RaggedTensorSpec(None), ValueError, "known rank"),
        (lambda: mr.RaggedTensorSpec([None], ragged_rank=3), ValueError, "fit"),
    ],
)
def test_what_does_not_go(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("lengths", [[2, 0, 1], [1, 2], [3, 0], [1, 1, 1]])
def test_rows_are_compared_in_functions(lengths):
    """Of as many values, too."""
    ds = mr.Dataset.from_tensors((mr.ragged.constant([[1, 2], [3]]), np.array(lengths, np.int64)))
    ds = ds.map(
        lambda x, n: x + mr.RaggedTensor.from_row_lengths(mr.ones([mr.reduce_sum(n)], "int32"), n)
    )
    with pytest.raises(mr.errors.InvalidArgumentError, match="different lengths"):
        list(ds)


def test_where_arrays_are_meant():
    x = mr.ragged.constant([[1, 2], [3]])
    assert [row.tolist() for row in np.asarray(x)] == [[1, 2], [3]]
    assert np.asarray(mr.ragged.constant([[1, 2], [3, 4]]), np.int64).tolist() == [[1, 2], [3, 4]]
    assert np.asarray(mr.ragged.constant([["a"], ["b", "c"]]))[1].tolist() == [b"b", b"c"]
    assert np.add(x, 1).to_list() == [[2, 3], [4]]
    assert (np.array([[1], [2]], np.int32) + x).to_list() == [[2, 3], [5]]
    assert (np.int32(2) * x).to_list() == [[2, 4], [6]]
    assert (np.array([[2], [3]], np.int32) == x).to_list() == [[False, True], [True]]
    assert [row.tolist() for row in x] == [[1, 2], [3]] and len(x) == 2
    with pytest.raises(TypeError, match="no values yet"):
        mr.Dataset.from_tensors(x).map(lambda r: np.asarray(r))


def test_rows_are_mapped():
    """Of many elements at a time, with captured values, and with rows that are all as long."""
    rows_of = mr.RaggedTensorSpec([None], mr.int64)
    ds = mr.Dataset.range(500)
    ds = ds.map(
        lambda i: mr.map_fn(lambda n: mr.range(n) + i, mr.range(i % 4), fn_output_signature=rows_of)
    )
    assert lists(ds) == [[[k + i for k in range(n)] for n in range(i % 4)] for i in range(500)]
    again = ds.map(lambda x: mr.map_fn(lambda row: row[::-1], x))
    assert lists(again) == [[row[::-1] for row in x] for x in lists(ds)]
    even = mr.Dataset.range(3).map(
        lambda i: mr.map_fn(
            lambda n: mr.fill([2], n), mr.range(i * 0 + 3), fn_output_signature=rows_of
        )
    )
    assert lists(even) == [[[0, 0], [1, 1], [2, 2]]] * 3


def test_rows_whose_other_axes_differ_are_not_joined():
    spec = mr.RaggedTensorSpec([None, None], mr.int64, ragged_rank=0)
    with pytest.raises(mr.errors.InvalidArgumentError, match="shape"):
        mr.map_fn(lambda n: mr.ones([2, n], "int64"), [1, 2], fn_output_signature=spec)


def test_splits_are_checked_in_functions():
    ds = mr.Dataset.from_tensor_slices(np.array([3, 4]))
    ds = ds.map(lambda n: mr.RaggedTensor.from_row_lengths(mr.range(np.int64(3)), [n]))
    it = iter(ds)
    assert next(it).to_list() == [[0, 1, 2]]
    with pytest.raises(mr.errors.InvalidArgumentError, match="end with the number of values"):
        next(it)


def test_specs():
    spec = rows().ragged_batch(2).element_spec
    assert spec == mr.RaggedTensorSpec([None, None], mr.int64) and hash(spec) == hash(
        pickle.loads(pickle.dumps(spec))
    )
    deep = rows().ragged_batch(2).batch(2).element_spec
    assert deep.ragged_rank == 2 and deep.shape.as_list() == [None, None, None]
    value = mr.ragged.constant([[1], [2, 3]])
    assert pickle.loads(pickle.dumps(value)).to_list() == [[1], [2, 3]]


def test_values_may_be_written_to():
    """Nobody else reads them."""
    ds = mr.Dataset.from_tensors(mr.ragged.constant([[1, 2], [3]])).cache().repeat(2)
    for x in ds:
        assert x.to_list() == [[1, 2], [3]]
        x.values[:] = 0


def test_in_branches():
    """A ragged tensor is what a branch returns, too."""
    ds = mr.Dataset.range(3).map(
        lambda i: mr.cond(
            i > 0,
            lambda: mr.RaggedTensor.from_row_lengths(mr.range(i), [i]),
            lambda: mr.RaggedTensor.from_row_lengths(mr.range(i + 2), [np.int64(1), np.int64(1)]),
        )
    )
    assert lists(ds) == [[[0], [1]], [[0]], [[0, 1]]]


def test_sizes_of_sparse_elements():
    x = mr.SparseTensor([[0, 1], [2, 3]], [1, 2], [3, 4])
    cube = mr.SparseTensor([[0, 1, 1], [2, 3, 0]], ["a", "b"], [3, 4, 2])
    Spec = mr.SparseTensorSpec
    whole = mr.Dataset.from_tensors({"x": x, "n": [1, 2, 3], "c": cube})
    assert whole.element_spec["x"] == Spec([3, 4], "int32")
    rows = mr.Dataset.from_tensor_slices({"x": x, "n": [1, 2, 3], "c": cube})
    assert rows.element_spec == {
        "x": Spec([4], "int32"),
        "n": mr.TensorSpec([], "int32"),
        "c": Spec([4, 2], "string"),
    }
    kept = rows.filter(lambda x: True).shuffle(3).repeat(2).take(4).cache().prefetch(1)
    assert kept.element_spec == rows.element_spec
    assert rows.batch(2).element_spec["c"] == Spec([None, 4, 2], "string")
    assert rows.batch(2, drop_remainder=True).element_spec["x"] == Spec([2, 4], "int32")
    assert rows.batch(2).unbatch().element_spec == rows.element_spec
    assert rows.map(lambda x: x["x"]).element_spec == Spec([None], "int32")
    both = mr.Dataset.zip({"b": rows, "a": mr.Dataset.range(3)})
    assert both.element_spec["b"] == rows.element_spec
    for element in kept:
        assert element["x"].dense_shape.tolist() == [4] and element["c"].shape == (4, 2)
    # a batch is as large as its largest element, whatever is known
    assert [b["x"].dense_shape.tolist() for b in rows.batch(2)] == [[2, 4], [1, 4]]


def test_row_splits_of_numbers_in_any_order():
    splits = mr.ragged.segment_ids_to_row_splits
    assert splits(np.array([1, 0])).tolist() == [0, 1, 2]
    assert splits(np.array([1, 1, 2, 4]), num_segments=2).tolist() == [0, 0, 2]
    assert splits([0, 2], 3, out_type=mr.int32).dtype == np.int32
    ds = mr.Dataset.from_tensors(np.array([2, 0, 2])).map(lambda ids: splits(ids, 3))
    assert ds.element_spec.shape.as_list() == [4]
    assert [x.tolist() for x in ds] == [[0, 1, 1, 3]]


def test_rows_are_known_where_their_number_is():
    ids, numbers = np.array([0, 2], np.int32), np.array([5, 7], np.int64)
    ds = mr.Dataset.from_tensors(ids)
    for rows in (
        lambda ids: mr.RaggedTensor.from_value_rowids([5, 7], ids, 3),
        lambda ids: mr.ragged.stack_dynamic_partitions(numbers, ids, 3),
    ):
        assert ds.map(rows).element_spec.shape.as_list() == [3, None]
        assert lists(ds.map(rows)) == [[[5], [], [7]]]
    assert mr.ragged.stack_dynamic_partitions(numbers, ids, 3).row_splits.dtype == np.int32


def test_ranges_of_int64_in_functions():
    ends = np.array([2, 0], np.int64)
    ds = mr.Dataset.from_tensors(ends).map(lambda x: mr.ragged.range(x, x + 2))
    assert lists(ds) == [[[2, 3], [0, 1]]]


def test_sparse_counts_of_all_axes():
    for axis in (None, 0):
        counts = mr.sparse.bincount(np.array([[1, 2], [2, 2]]), axis=axis)
        assert counts.indices.tolist() == [[1], [2]] and counts.values.tolist() == [1, 3]


def test_a_sparse_feature_has_as_many_places_as_values():
    feature = {"s": mr.io.SparseFeature("at", "v", mr.int64, 6)}

    def example(at, v):
        values = {"at": at, "v": v}
        lists_of = {k: mr.train.Int64List(value=x) for k, x in values.items()}
        features = {k: mr.train.Feature(int64_list=x) for k, x in lists_of.items()}
        return mr.train.Example(features=mr.train.Features(feature=features)).SerializeToString()

    assert mr.io.parse_single_example(example([4, 1], [5, 6]), feature)["s"].values.tolist() == [
        6,
        5,
    ]
    for parse, records in (
        (mr.io.parse_single_example, example([1], [5, 6])),
        # As many places as values in all, but not in each record.
        (mr.io.parse_example, [example([1], [5, 6]), example([1, 2], [5])]),
    ):
        with pytest.raises(mr.errors.InvalidArgumentError, match="as many places as values of 'v'"):
            parse(records, feature)


def test_dense_rows_of_ragged_batches():
    ds = mr.Dataset.range(5).ragged_batch(2).ragged_batch(2).unbatch()
    assert [x.tolist() for x in ds.unbatch()] == [0, 1, 2, 3, 4]
    assert ds.unbatch().element_spec == mr.TensorSpec([], mr.int64)
    hollow = mr.Dataset.from_tensors(np.zeros((2, 0), np.int32)).unbatch()
    assert [x.shape for x in hollow] == [(0,), (0,)]


def test_ragged_tensors_with_different_numbers_of_rows():
    batches = rows(3).ragged_batch(2).batch(2)
    assert lists(batches) == [[[[], [0]], [[0, 1]]]]


def test_segments_of_no_values():
    least = mr.math.unsorted_segment_min(np.zeros((2, 0)), np.array([3, 0]), 3)
    assert least.shape == (3, 0)
    with pytest.raises(mr.errors.InvalidArgumentError, match="segment id 3 of 3"):
        mr.math.unsorted_segment_min(np.zeros((2, 1)), np.array([3, 0]), 3)


def test_specs_of_one_kind_are_compatible():
    sparse = mr.SparseTensorSpec([None, 3], mr.int64)
    assert sparse.is_compatible_with(mr.SparseTensorSpec([2, None], mr.int64))
    assert sparse.is_compatible_with(mr.sparse.eye(3, dtype=mr.int64))
    for other in (
        mr.sparse.eye(3),
        mr.sparse.eye(4, dtype=mr.int64),
        mr.TensorSpec([2, 3], mr.int64),
    ):
        assert not sparse.is_compatible_with(other)
    assert not mr.TensorSpec(None, mr.int64).is_compatible_with(sparse)


def test_parts_of_a_tensor_without_values():
    hollow = np.zeros((2, 0), np.int16)
    assert mr.gather_nd(hollow, [[1], [1]]).shape == (2, 0)
    stacked = (
        mr.Dataset.from_tensor_slices(hollow).batch(9).map(lambda x: mr.parallel_stack([x, x]))
    )
    assert stacked.element_spec.shape.as_list() == [2, None, 0]


def test_rebatch_of_ragged_and_sparse_batches_leaves_nothing_out():
    """What divides is the number of rows, not that of splits, nor the rank."""
    one = mr.Dataset.from_tensor_slices([1, 2, 3]).batch(3).ragged_batch(1, drop_remainder=True)
    assert one.rebatch(2).element_spec.shape.as_list() == [None, None]
    assert lists(one.rebatch(2)) == [[[1, 2, 3]]]
    pairs = rows(4).ragged_batch(2, drop_remainder=True)
    assert lists(pairs.rebatch(3)) == [[[], [0], [0, 1]], [[0, 1, 2]]]
    assert pairs.rebatch(1).element_spec.shape.as_list() == [1, None]
    sparse = mr.Dataset.range(5).map(lambda x: mr.sparse.from_dense(mr.one_hot(x, 3))).batch(2)
    assert [x.shape[0] for x in sparse.rebatch(2)] == [2, 2, 1]


HABITS = "T all any argmax astype clip copy cumsum flatten item max mean min ndim prod ravel size std sum tolist var uniform_row_length consumers"


@pytest.mark.parametrize("name", HABITS.split())
def test_attributes_that_ragged_tensors_do_not_have_say_what_to_use(name):
    ds = mr.Dataset.from_tensors(mr.ragged.constant([[1], [2, 3]]))
    with pytest.raises(AttributeError, match=f"a ragged tensor has no attribute '{name}': use "):
        ds.map(lambda x: getattr(x, name))
    assert list(ds.map(lambda x: int(hasattr(x, name)))) == [0]


@pytest.mark.parametrize(
    "name", "T astype max mean ndim numpy op graph reshape size sum to_dense toarray tolist".split()
)
def test_attributes_that_sparse_tensors_do_not_have_say_what_to_use(name):
    ds = mr.Dataset.from_tensors(mr.sparse.from_dense([[0, 1]]))
    with pytest.raises(AttributeError, match=f"a sparse tensor has no attribute '{name}': use "):
        ds.map(lambda x: getattr(x, name))
    assert list(ds.map(lambda x: int(hasattr(x, name)))) == [0]


def test_rows_of_a_ragged_tensor_are_looped_over_outside_of_functions_only():
    x = mr.ragged.constant([[1], [2, 3], []])
    assert [row.tolist() for row in x] == [[1], [2, 3], []]
    with pytest.raises(TypeError, match="mr.map_fn"):
        mr.Dataset.from_tensors(x).map(lambda y: [row for row in y])


def test_either_or_of_ragged_tensors():
    x = mr.ragged.constant([[True], [False, True]])
    assert (x ^ True).to_list() == [[False], [True, False]]
    assert (True ^ x).to_list() == [[False], [True, False]]


def test_reduce_join_names_each_axis_once():
    with pytest.raises(mr.errors.InvalidArgumentError, match="names one of them twice"):
        mr.strings.reduce_join(mr.ragged.constant([["a", "b"], ["c"]]), axis=[0, -2])


def test_to_tensor_of_a_shape_that_is_a_tensor():
    flat = mr.ragged.constant([[1, 2], [], [3]])
    deep = mr.ragged.constant([[[1], [2, 3]], [], [[4]]])
    pairs = mr.ragged.constant([[[1, 2], [3, 4]], [[5, 6]]], ragged_rank=1)
    for x, shapes in (
        (flat, [[3, 2], [2, 1], [4, 3], [-1, 1], [2, -1], [-1, -1], [0, 0]]),
        (deep, [[3, 2, 2], [1, 1, 1], [-1, 3, -1], [4, -1, 1]]),
        (pairs, [[2, 2, 2], [1, -1, 2], [-1, 3, -1]]),
    ):
        ds = mr.Dataset.from_tensor_slices(np.array(shapes))
        for shape, found in zip(shapes, ds.map(lambda s: x.to_tensor(9, shape=s))):
            known = [None if n < 0 else n for n in shape]
            assert found.tolist() == x.to_tensor(9, shape=known).tolist()
    (found,) = mr.Dataset.range(3, 4).map(lambda n: flat.to_tensor(shape=[None, n]))
    assert found.tolist() == [[1, 2, 0], [0, 0, 0], [3, 0, 0]]
    assert flat.to_tensor(shape=np.array([3, 1])).tolist() == [[1], [0], [3]]
    with pytest.raises(ValueError, match="1 sizes, for 2 axes"):
        mr.Dataset.from_tensors([3]).map(lambda s: flat.to_tensor(shape=s))
    with pytest.raises(ValueError, match="a vector of known length"):
        mr.Dataset.from_tensors(3).map(lambda s: flat.to_tensor(shape=s))
