"""Dataset operators beyond the basic ones: each with tf.data's arguments, defaults and refusals."""

import numpy as np
import pytest

import millrace as mr

Dataset = mr.Dataset


def values(ds):
    return [x.tolist() if isinstance(x, np.ndarray) else x for x in ds]


# ---- ignore_errors ----


def test_ignore_errors_leaves_out_what_fails():
    ds = Dataset.range(6).map(lambda x: 60 // (x - 3))
    with pytest.raises(mr.errors.InvalidArgumentError):
        list(ds)
    assert values(ds.ignore_errors()) == [-20, -30, -60, 60, 30]
    assert ds.ignore_errors().cardinality() == mr.UNKNOWN_CARDINALITY
    assert ds.repeat().ignore_errors().cardinality() == mr.INFINITE_CARDINALITY
    parallel = Dataset.range(6).map(lambda x: 60 // (x - 3), num_parallel_calls=2).prefetch(2)
    assert values(parallel.ignore_errors().batch(2)) == [[-20, -30], [-60, 60], [30]]


def test_ignore_errors_goes_on_behind_missing_and_broken_files(tmp_path):
    good, broken = str(tmp_path / "good"), str(tmp_path / "broken")
    for path in (good, broken):
        with mr.io.TFRecordWriter(path) as w:
            for i in range(3):
                w.write(b"record %d" % i)
    data = bytearray(open(broken, "rb").read())
    data[14] ^= 1  # in the first record's data: the others can be read
    open(broken, "wb").write(data)
    names = [str(tmp_path / "missing"), good, broken, good]
    want = [b"record 0", b"record 1", b"record 2", b"record 1", b"record 2", b"record 0", b"record 1", b"record 2"]
    assert values(mr.TFRecordDataset(names).ignore_errors()) == want
    assert sorted(values(mr.TFRecordDataset(names, num_parallel_reads=2).ignore_errors())) == sorted(want)


def test_ignore_errors_does_not_hide_that_memory_runs_out():
    options = mr.Options()
    options.autotune.ram_budget = 1 << 16
    ds = Dataset.range(100_000).shuffle(100_000).ignore_errors().with_options(options)
    with pytest.raises(mr.errors.ResourceExhaustedError, match="shuffle"):
        list(ds)


def test_ignore_errors_says_what_it_leaves_out(capfd):
    ds = Dataset.range(3).map(lambda x: 6 // (x - 1))
    assert values(ds.ignore_errors(log_warning=True)) == [-6, 6]
    assert "element 1" in capfd.readouterr().err
    assert values(ds.ignore_errors()) == [-6, 6]
    assert capfd.readouterr().err == ""
    with pytest.raises(TypeError, match="log_warning"):
        ds.ignore_errors(log_warning=1)


# ---- padded_batch ----


def vectors(*lengths, dtype=np.int32):
    """Elements [1, 2, ..] of these lengths."""
    return Dataset.from_tensor_slices(np.array(lengths)).map(lambda n: mr.cast(mr.range(n) + 1, dtype))


def test_padded_batch_pads_to_the_longest_or_to_a_shape():
    ds = vectors(2, 0, 3, 1, 2)
    assert values(ds.padded_batch(2)) == [[[1, 2], [0, 0]], [[1, 2, 3], [1, 0, 0]], [[1, 2]]]
    assert ds.padded_batch(2).element_spec == mr.TensorSpec([None, None], mr.int32)
    assert ds.padded_batch(2, drop_remainder=True).element_spec == mr.TensorSpec([2, None], mr.int32)
    assert ds.padded_batch(2, drop_remainder=True).cardinality() == 2
    for shape in (4, [4], (4,), np.array([4]), mr.TensorShape([4])):
        fixed = ds.padded_batch(3, padded_shapes=shape, padding_values=-1, drop_remainder=True)
        assert fixed.element_spec == mr.TensorSpec([3, 4], mr.int32)
        assert values(fixed) == [[[1, 2, -1, -1], [-1] * 4, [1, 2, 3, -1]]]
    assert values(ds.padded_batch(5, padded_shapes=[-1])) == values(ds.padded_batch(5, padded_shapes=[None]))


def test_padded_batch_takes_structures():
    ds = Dataset.zip({"a": vectors(1, 2), "b": (vectors(2, 1, dtype=np.float32), Dataset.range(2).map(mr.strings.as_string))})
    first, = ds.padded_batch(2, {"a": [3], "b": ([None], [])}, {"a": 7, "b": (None, "x")})
    assert first["a"].tolist() == [[1, 7, 7], [1, 2, 7]] and first["b"][0].tolist() == [[1, 2], [1, 0]]
    assert list(first["b"][1]) == [b"0", b"1"]
    with pytest.raises(ValueError, match="structure"):
        ds.padded_batch(2, {"a": [3]})
    with pytest.raises(ValueError, match="structure"):
        ds.padded_batch(2, padding_values=(1, 2))
    words = Dataset.from_tensors(np.array(["a b", "c"])).concatenate(Dataset.from_tensors(np.array(["d", "e", "f"])))
    assert values(words.padded_batch(2, [None], padding_values="<pad>")) == [[[b"a b", b"c", b"<pad>"], [b"d", b"e", b"f"]]]


def test_padded_batch_refuses_what_does_not_fit():
    ds = vectors(1, 2, 3, 1)
    it = iter(ds.padded_batch(2, padded_shapes=[2]))
    assert next(it).tolist() == [[1, 0], [1, 2]]
    with pytest.raises(mr.errors.DataLossError, match=r"padded_batch.*component 0.*\[3\].*\[2\]"):
        next(it)
    with pytest.raises(mr.errors.InvalidArgumentError, match="cannot be padded"):
        ds.padded_batch(2, padded_shapes=[2, 2])
    with pytest.raises(mr.errors.InvalidArgumentError, match="cannot be padded"):
        Dataset.from_tensors(np.zeros(3)).padded_batch(2, padded_shapes=[2])
    with pytest.raises(ValueError, match="scalar"):
        ds.padded_batch(2, padding_values=[1, 2])
    with pytest.raises(TypeError, match="int32"):
        ds.padded_batch(2, padding_values=1.5)
    with pytest.raises(TypeError, match="int64"):
        ds.padded_batch(2, padding_values=np.int64(1))
    with pytest.raises(ValueError, match="rank"):
        ds.padded_batch(2, padded_shapes=mr.TensorShape(None))
    options = mr.Options()
    options.autotune.ram_budget = 1 << 20
    wide = vectors(1, 1, 1).padded_batch(3, padded_shapes=[1 << 20]).with_options(options)
    with pytest.raises(mr.errors.ResourceExhaustedError, match=r"padded_batch.*3 elements"):
        list(wide)


@pytest.mark.parametrize("seed", range(20))
def test_padded_batch_is_what_numpy_pads(seed):
    random = np.random.default_rng(seed)
    rank, n = int(random.integers(1, 4)), int(random.integers(1, 8))
    shapes = random.integers(0, 5, (n, rank))
    dtype = random.choice([np.int8, np.int16, np.float32, np.float64, np.uint64, np.bool_, object])
    arrays = [random.integers(0, 2 if dtype is np.bool_ else 100, tuple(s)).astype(dtype) for s in shapes]
    if dtype is object:
        arrays = [np.array([b"%d" % v for v in a.reshape(-1)], object).reshape(a.shape) for a in arrays]
    ds = Dataset.from_tensors(arrays[0])
    for a in arrays[1:]:
        ds = ds.concatenate(Dataset.from_tensors(a))
    value = b"pad" if dtype is object else dtype(1)
    target = [None if random.random() < 0.5 else int(shapes[:, d].max() + random.integers(0, 3)) for d in range(rank)]
    size = int(random.integers(1, n + 1))
    for k, got in enumerate(ds.padded_batch(size, target, padding_values=value)):
        part = arrays[k * size:(k + 1) * size]
        full = [max(a.shape[d] for a in part) if target[d] is None else target[d] for d in range(rank)]
        want = np.full([len(part), *full], value, dtype)
        for w, a in zip(want, part):
            w[tuple(slice(s) for s in a.shape)] = a
        np.testing.assert_array_equal(got, want)
