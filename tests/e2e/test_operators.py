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
