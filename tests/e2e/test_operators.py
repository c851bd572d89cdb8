"""Dataset operators beyond the basic ones: each with tf.data's arguments, defaults and refusals."""

import gzip
import pickle
import re
import zlib

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
    want = [
        b"record 0",
        b"record 1",
        b"record 2",
        b"record 1",
        b"record 2",
        b"record 0",
        b"record 1",
        b"record 2",
    ]
    assert values(mr.TFRecordDataset(names).ignore_errors()) == want
    assert sorted(
        values(mr.TFRecordDataset(names, num_parallel_reads=2).ignore_errors())
    ) == sorted(want)


def test_ignore_errors_does_not_hide_that_memory_runs_out():
    options = mr.Options()
    options.autotune.ram_budget = 1 << 16
    ds = Dataset.range(100_000).shuffle(100_000).ignore_errors().with_options(options)
    with pytest.raises(mr.errors.ResourceExhaustedError, match="shuffle"):
        list(ds)


def test_ignore_errors_says_what_it_leaves_out(capfd):
    ds = Dataset.range(3).map(lambda x: 6 // (x - 1))
    assert values(ds.repeat(2).ignore_errors(log_warning=True)) == [-6, 6] * 2
    said = re.findall(
        "an element is left out so_far=([0-9]+) error=.map .step 2, (e2e/test_operators.py:[0-9]+)., "
        "element ([0-9]+): // .(e2e/test_operators.py:[0-9]+).: integer division",
        capfd.readouterr().err,
    )
    (line,) = {at for _, *both, in said for at in (both[0], both[2])}
    assert said == [("1", line, "1", line), ("2", line, "1", line)]
    assert values(ds.ignore_errors()) == [-6, 6]
    assert capfd.readouterr().err == ""
    with pytest.raises(TypeError, match="log_warning"):
        ds.ignore_errors(log_warning=1)


# ---- padded_batch ----


def vectors(*lengths, dtype=np.int32):
    """Elements [1, 2, ..] of these lengths."""
    return Dataset.from_tensor_slices(np.array(lengths)).map(
        lambda n: mr.cast(mr.range(n) + 1, dtype)
    )


def test_padded_batch_pads_to_the_longest_or_to_a_shape():
    ds = vectors(2, 0, 3, 1, 2)
    assert values(ds.padded_batch(2)) == [[[1, 2], [0, 0]], [[1, 2, 3], [1, 0, 0]], [[1, 2]]]
    assert ds.padded_batch(2).element_spec == mr.TensorSpec([None, None], mr.int32)
    assert ds.padded_batch(2, drop_remainder=True).element_spec == mr.TensorSpec(
        [2, None], mr.int32
    )
    assert ds.padded_batch(2, drop_remainder=True).cardinality() == 2
    for shape in (4, [4], (4,), np.array([4]), mr.TensorShape([4])):
        fixed = ds.padded_batch(3, padded_shapes=shape, padding_values=-1, drop_remainder=True)
        assert fixed.element_spec == mr.TensorSpec([3, 4], mr.int32)
        assert values(fixed) == [[[1, 2, -1, -1], [-1] * 4, [1, 2, 3, -1]]]
    assert values(ds.padded_batch(5, padded_shapes=[-1])) == values(
        ds.padded_batch(5, padded_shapes=[None])
    )


def test_padded_batch_takes_structures():
    ds = Dataset.zip(
        {
            "a": vectors(1, 2),
            "b": (vectors(2, 1, dtype=np.float32), Dataset.range(2).map(mr.strings.as_string)),
        }
    )
    (first,) = ds.padded_batch(2, {"a": [3], "b": ([None], [])}, {"a": 7, "b": (None, "x")})
    assert first["a"].tolist() == [[1, 7, 7], [1, 2, 7]] and first["b"][0].tolist() == [
        [1, 2],
        [1, 0],
    ]
    assert list(first["b"][1]) == [b"0", b"1"]
    with pytest.raises(ValueError, match="structure"):
        ds.padded_batch(2, {"a": [3]})
    with pytest.raises(ValueError, match="structure"):
        ds.padded_batch(2, padding_values=(1, 2))
    words = Dataset.from_tensors(np.array(["a b", "c"])).concatenate(
        Dataset.from_tensors(np.array(["d", "e", "f"]))
    )
    assert values(words.padded_batch(2, [None], padding_values="<pad>")) == [
        [[b"a b", b"c", b"<pad>"], [b"d", b"e", b"f"]]
    ]


def test_padded_batch_refuses_what_does_not_fit():
    ds = vectors(1, 2, 3, 1)
    it = iter(ds.padded_batch(2, padded_shapes=[2]))
    assert next(it).tolist() == [[1, 0], [1, 2]]
    with pytest.raises(mr.errors.DataLossError, match=r"padded_batch.*the element .*\[3\].*\[2\]"):
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


def test_padded_batch_takes_shapes_and_values_of_the_function_around():
    widths = Dataset.from_tensor_slices(np.array([3, 5], np.int32))
    want = [[[1, 0, 0], [1, 2, 0]], [[1, 0, 0, 0, 0], [1, 2, 0, 0, 0]]]
    for shape in (lambda n: [n], lambda n: (mr.cast(n, mr.int64),), lambda n: mr.stack([n])):
        assert values(widths.flat_map(lambda n: vectors(1, 2).padded_batch(2, shape(n)))) == want
    pairs = Dataset.zip((vectors(1, 2), vectors(2, 1).map(mr.strings.as_string)))
    got = widths.flat_map(
        lambda n: pairs.padded_batch(2, ([n], [None]), (None, mr.strings.as_string(n)))
    )
    assert [(a.tolist(), b.tolist()) for a, b in got] == [
        (want[0], [[b"1", b"2"], [b"1", b"3"]]),
        (want[1], [[b"1", b"2"], [b"1", b"5"]]),
    ]
    with iter(got) as it, iter(got) as other:
        next(it)
        other.set_state(it.get_state())
        assert [a.tolist() for a, _ in other] == want[1:]
    cube = Dataset.from_tensors(np.zeros((2, 3)))
    assert widths.flat_map(lambda n: cube.padded_batch(2, [n, 3])).element_spec.shape == (
        None,
        None,
        3,
    )


def test_padded_batch_refuses_values_that_do_not_fit():
    ds, numbers = vectors(1, 2), Dataset.range(3, 4)
    for shape, error, match in (
        (lambda n: [n, n], mr.errors.InvalidArgumentError, "cannot be padded"),
        (lambda n: n, ValueError, "vector"),
        (lambda n: mr.range(n), ValueError, "known length"),
        (lambda n: [mr.cast(n, mr.float32)], TypeError, "integers"),
    ):
        with pytest.raises(error, match=match):
            numbers.flat_map(lambda n: ds.padded_batch(2, shape(n)))
    for padding, error, match in (
        (lambda n: n, TypeError, "int64"),
        (lambda n: mr.stack([n]), ValueError, "scalar"),
    ):
        with pytest.raises(error, match=match):
            numbers.flat_map(lambda n: ds.padded_batch(2, [9], padding(n)))
    with pytest.raises(
        mr.errors.InvalidArgumentError,
        match="flat_map.*element 0.*padded_batch.*-3 is not a dimension",
    ):
        list(numbers.flat_map(lambda n: ds.padded_batch(2, [-n])))
    with pytest.raises(
        mr.errors.DataLossError, match=r"\[2\], which is larger than the padded shape \[1\]"
    ):
        list(numbers.flat_map(lambda n: ds.padded_batch(2, [n - 2])))


@pytest.mark.parametrize("seed", range(20))
def test_padded_batch_is_what_numpy_pads(seed):
    random = np.random.default_rng(seed)
    rank, n = int(random.integers(1, 4)), int(random.integers(1, 8))
    shapes = random.integers(0, 5, (n, rank))
    dtype = random.choice([np.int8, np.int16, np.float32, np.float64, np.uint64, np.bool_, object])
    arrays = [
        random.integers(0, 2 if dtype is np.bool_ else 100, tuple(s)).astype(dtype) for s in shapes
    ]
    if dtype is object:
        arrays = [
            np.array([b"%d" % v for v in a.reshape(-1)], object).reshape(a.shape) for a in arrays
        ]
    ds = Dataset.from_tensors(arrays[0])
    for a in arrays[1:]:
        ds = ds.concatenate(Dataset.from_tensors(a))
    value = b"pad" if dtype is object else dtype(1)
    target = [
        None if random.random() < 0.5 else int(shapes[:, d].max() + random.integers(0, 3))
        for d in range(rank)
    ]
    size = int(random.integers(1, n + 1))
    for k, got in enumerate(ds.padded_batch(size, target, padding_values=value)):
        part = arrays[k * size : (k + 1) * size]
        full = [
            max(a.shape[d] for a in part) if target[d] is None else target[d] for d in range(rank)
        ]
        want = np.full([len(part), *full], value, dtype)
        for w, a in zip(want, part):
            w[tuple(slice(s) for s in a.shape)] = a
        np.testing.assert_array_equal(got, want)


# ---- window: datasets as elements ----


def windows(n, *args, **kwargs):
    return [values(w) for w in Dataset.range(n).window(*args, **kwargs)]


def test_window_gives_datasets():
    assert windows(7, 3) == [[0, 1, 2], [3, 4, 5], [6]]
    assert windows(7, 3, drop_remainder=True) == [[0, 1, 2], [3, 4, 5]]
    assert windows(7, 3, 2, 1, True) == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
    assert windows(7, 3, 1, 2, True) == [[0, 2, 4], [1, 3, 5], [2, 4, 6]]
    assert windows(7, 3, 1) == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5], [4, 5, 6], [5, 6], [6]]
    assert windows(12, 2, 5) == [[0, 1], [5, 6], [10, 11]]
    assert windows(0, 2) == []
    ds = Dataset.range(7).window(2)
    assert ds.element_spec == mr.DatasetSpec(mr.TensorSpec([], mr.int64)) and len(ds) == 4
    assert len(next(iter(ds))) == 2
    for args in ((0,), (1, 0), (1, 1, 0)):
        with pytest.raises(mr.errors.InvalidArgumentError, match="window.*at least 1"):
            Dataset.range(3).window(*args)


@pytest.mark.parametrize("seed", range(30))
def test_windows_are_slices_and_counted(seed):
    random = np.random.default_rng(seed)
    n, size, shift, stride = (
        int(random.integers(a, b)) for a, b in ((0, 30), (1, 6), (1, 8), (1, 4))
    )
    for drop in (False, True):
        want = [list(range(k, n, stride))[:size] for k in range(0, n, shift)]
        want = [w for w in want if not drop or len(w) == size]
        ds = Dataset.range(n).window(size, shift, stride, drop)
        assert [values(w) for w in ds] == want and len(ds) == len(want)
        flat = ds.flat_map(lambda w: w.batch(100))
        assert values(flat) == want


def test_flat_map_over_windows_zips_their_components():
    ds = Dataset.zip(
        {"a": Dataset.range(5), "b": Dataset.range(5).map(mr.strings.as_string)}
    ).window(2)
    assert ds.element_spec == {
        "a": mr.DatasetSpec(mr.TensorSpec([], mr.int64)),
        "b": mr.DatasetSpec(mr.TensorSpec([], mr.string)),
    }
    back = ds.flat_map(lambda d: Dataset.zip((d["a"].batch(2), d["b"])))
    assert [(a.tolist(), b) for a, b in back] == [([0, 1], b"0"), ([2, 3], b"2"), ([4], b"4")]
    pairs = (
        Dataset.zip((Dataset.range(4), Dataset.range(4, 8)))
        .window(2)
        .flat_map(lambda a, b: Dataset.zip((a, b)).batch(2))
    )
    assert [(a.tolist(), b.tolist()) for a, b in pairs] == [([0, 1], [4, 5]), ([2, 3], [6, 7])]
    scaled = (
        Dataset.range(4)
        .window(2)
        .flat_map(lambda w: w.map(lambda x: x * 10).filter(lambda x: x > 0).batch(5))
    )
    assert values(scaled) == [[10], [20, 30]]
    shuffled = (
        Dataset.range(20)
        .window(4)
        .shuffle(5, seed=1)
        .prefetch(2)
        .interleave(lambda w: w, cycle_length=2)
    )
    assert sorted(values(shuffled)) == list(range(20))


def test_windows_hold_any_element_also_windows():
    words = Dataset.from_tensors(np.array(["a", "b"])).concatenate(
        Dataset.from_tensors(np.array(["cc"]))
    )
    assert [[list(x) for x in w] for w in words.window(2)] == [[[b"a", b"b"], [b"cc"]]]
    assert values(words.window(2).flat_map(lambda w: w.padded_batch(2, padding_values="-"))) == [
        [[b"a", b"b"], [b"cc", b"-"]]
    ]
    nested = Dataset.range(5).window(2).window(2)
    assert nested.element_spec == mr.DatasetSpec(mr.DatasetSpec(mr.TensorSpec([], mr.int64)))
    assert [[values(x) for x in w] for w in nested] == [[[0, 1], [2, 3]], [[4]]]


def test_datasets_as_elements_are_refused_where_tensors_are_needed():
    ds = Dataset.range(6).window(2)
    for make in (
        lambda: ds.batch(2),
        lambda: ds.padded_batch(2),
        lambda: ds.apply(mr.service.distribute("parallel_epochs", "grpc://localhost:1")),
    ):
        with pytest.raises(mr.errors.InvalidArgumentError, match="is a dataset"):
            make()
    with pytest.raises(TypeError, match="as_numpy_iterator.*dataset"):
        ds.as_numpy_iterator()
    with pytest.raises(TypeError):
        ds.map(lambda w: w + 1)
    with pytest.raises(TypeError, match="dataset"):
        ds.map(lambda w: (w, 1))


def test_windows_keep_the_place_and_pickle():
    ds = Dataset.range(20).window(3, 2)
    it = iter(ds)
    first = [values(next(it)) for _ in range(3)]
    state = it.get_state()
    other = iter(ds)
    other.set_state(state)
    rest = [values(w) for w in other]
    assert first + rest == [values(w) for w in ds] and rest == [values(w) for w in it]
    window = next(iter(ds))
    assert values(pickle.loads(pickle.dumps(window))) == [0, 1, 2]
    assert [values(w) for w in pickle.loads(pickle.dumps(ds))] == first + rest


def test_a_window_beyond_the_memory_budget_says_so():
    options = mr.Options()
    options.autotune.ram_budget = 1 << 16
    with pytest.raises(mr.errors.ResourceExhaustedError, match=r"window.*elements.*bytes.*budget"):
        list(Dataset.range(1 << 20).window(1 << 20).with_options(options))


# ---- TextLineDataset ----


LINES = b"one\r\ntwo words\n\nlast\rmid \xc3\xa9\n\xff\x00raw\nno end"
WANT = [b"one", b"two words", b"", b"last\rmid \xc3\xa9", b"\xff\x00raw", b"no end"]


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
@pytest.mark.parametrize("buffer_size", [None, 4096])
def test_text_lines(tmp_path, kind, buffer_size):
    pack = {"": bytes, "GZIP": gzip.compress, "ZLIB": zlib.compress}[kind]
    path, long = str(tmp_path / "lines"), str(tmp_path / "long")
    open(path, "wb").write(pack(LINES))
    big = [b"%d " % i * (i % 700) for i in range(2000)]
    open(long, "wb").write(pack(b"\n".join(big) + b"\n"))
    assert values(mr.TextLineDataset(path, kind, buffer_size)) == WANT
    assert values(mr.TextLineDataset([path, long, path], kind, buffer_size)) == WANT + big + WANT
    assert sorted(
        values(mr.TextLineDataset([path, path], kind, buffer_size, num_parallel_reads=2))
    ) == sorted(WANT * 2)
    files = Dataset.from_tensor_slices([path, path]).interleave(
        lambda f: mr.TextLineDataset(f, kind), cycle_length=2
    )
    assert values(files) == [line for line in WANT for _ in range(2)]
    it = iter(mr.TextLineDataset(long, kind, buffer_size))
    first = [next(it) for _ in range(700)]
    other = iter(mr.TextLineDataset(long, kind, buffer_size))
    other.set_state(it.get_state())
    assert first + list(other) == big


def test_text_lines_of_nothing_and_of_what_is_no_file(tmp_path):
    path = str(tmp_path / "lines")
    for text, want in (
        (b"", []),
        (b"\n", [b""]),
        (b"\r\n\r\n", [b"", b""]),
        (b"a", [b"a"]),
        (b"a\r", [b"a"]),
    ):
        open(path, "wb").write(text)
        assert values(mr.TextLineDataset(path)) == want
    assert mr.TextLineDataset(path).element_spec == mr.TensorSpec([], mr.string)
    with pytest.raises(mr.errors.NotFoundError, match="missing"):
        list(mr.TextLineDataset(str(tmp_path / "missing")))
    packed = gzip.compress(b"".join(b"line %d\n" % i for i in range(20000)))
    open(path, "wb").write(packed[: len(packed) // 2])
    got = []
    with pytest.raises(mr.errors.DataLossError, match="line [0-9]+: file '.*/lines', offset"):
        for line in mr.TextLineDataset(path, "GZIP"):
            got.append(line)
    assert got == [b"line %d" % i for i in range(len(got))] and len(got) > 1000
    with pytest.raises(ValueError, match="BZIP"):
        mr.TextLineDataset(path, "BZIP")
    options = mr.Options()
    options.autotune.ram_budget = 1 << 16
    open(path, "wb").write(b"short\n" + b"x" * (1 << 17) + b"\n")
    it = iter(mr.TextLineDataset(path).with_options(options))
    assert next(it) == b"short"
    with pytest.raises(mr.errors.ResourceExhaustedError, match="line 2"):
        next(it)


# ---- small ones ----


def test_take_while_stops_for_good():
    assert values(Dataset.range(10).take_while(lambda x: x % 5 < 3)) == [0, 1, 2]
    assert values(Dataset.range(3).take_while(lambda x: x < 9)) == [0, 1, 2]
    assert values(Dataset.range(3).take_while(lambda x: x < 0)) == []
    assert values(Dataset.range(10).repeat().take_while(lambda x: x < 4).take(9)) == [0, 1, 2, 3]
    with pytest.raises(mr.errors.InvalidArgumentError, match="scalar bool"):
        Dataset.range(3).take_while(lambda x: x)


def test_unbatch_and_rebatch():
    pairs = Dataset.zip({"a": Dataset.range(7), "b": Dataset.range(7).map(mr.strings.as_string)})
    back = pairs.batch(3).unbatch()
    assert [(int(d["a"]), d["b"]) for d in back] == [(i, b"%d" % i) for i in range(7)]
    assert back.element_spec == pairs.element_spec and back.cardinality() == mr.UNKNOWN_CARDINALITY
    assert len(Dataset.range(6).batch(3, drop_remainder=True).unbatch()) == 6
    assert values(vectors(0, 3, 1).unbatch()) == [1, 2, 3, 1]
    assert values(Dataset.range(7).batch(3).rebatch(2)) == [[0, 1], [2, 3], [4, 5], [6]]
    assert values(Dataset.range(7).batch(3).rebatch(2, drop_remainder=True)) == [
        [0, 1],
        [2, 3],
        [4, 5],
    ]
    with pytest.raises(mr.errors.InvalidArgumentError, match="unbatch.*scalar"):
        Dataset.range(3).unbatch()
    uneven = Dataset.zip((vectors(2, 1, 1), vectors(2, 2, 1)))
    assert [(int(a), int(b)) for a, b in uneven.unbatch().ignore_errors()] == [
        (1, 1),
        (2, 2),
        (1, 1),
    ]
    with pytest.raises(mr.errors.InvalidArgumentError, match="unbatch.*element 1"):
        list(uneven.unbatch())


def test_shard_enumerate_unique_counter():
    assert (
        values(Dataset.range(10).shard(3, 1)) == [1, 4, 7]
        and len(Dataset.range(10).shard(3, 0)) == 4
    )
    assert sorted(sum((values(Dataset.range(25).shard(4, i)) for i in range(4)), [])) == list(
        range(25)
    )
    for args in ((0, 0), (2, 2), (2, -1)):
        with pytest.raises(mr.errors.InvalidArgumentError, match="shard"):
            Dataset.range(3).shard(*args)
    assert list(Dataset.from_tensor_slices(["a", "b"]).enumerate(5)) == [(5, b"a"), (6, b"b")]
    assert len(Dataset.range(4).enumerate()) == 4
    assert values(Dataset.from_tensor_slices([3, 1, 3, 2, 1]).unique()) == [3, 1, 2]
    words = Dataset.range(5000).map(lambda x: mr.strings.as_string(x % 700))
    assert values(words.unique()) == [b"%d" % i for i in range(700)]
    with pytest.raises(mr.errors.InvalidArgumentError, match="unique.*scalars"):
        vectors(1).unique()
    options = mr.Options()
    options.autotune.ram_budget = 1 << 16
    with pytest.raises(mr.errors.ResourceExhaustedError, match="unique.*different elements hold"):
        list(Dataset.range(1 << 20).unique().with_options(options))
    assert values(Dataset.counter().take(3)) == [0, 1, 2] and values(
        Dataset.counter(5, -2).take(3)
    ) == [5, 3, 1]
    assert Dataset.counter(dtype=mr.int32).element_spec.dtype == mr.int32


# ---- cache ----


def test_cache_keeps_the_first_complete_pass():
    ds = Dataset.range(20).shuffle(20).cache()
    it = iter(ds)
    part = [next(it) for _ in range(15)]
    it.close()
    first = values(ds)
    assert (
        sorted(first) == list(range(20)) and first[:15] != part
    )  # what was not read to the end is not kept
    assert values(ds) == first and values(ds.repeat(2)) == first * 2
    assert values(ds.map(lambda x: x).take(3)) == first[:3]
    assert len(ds) == 20
    shuffled = Dataset.range(20).shuffle(20).cache().repeat(3)
    got = values(shuffled)
    assert got[:20] == got[20:40] == got[40:]
    reshuffled = values(Dataset.range(20).cache().shuffle(20).repeat(2))
    assert reshuffled[:20] != reshuffled[20:]


def test_cache_of_files_outlives_them(tmp_path):
    path = tmp_path / "lines"
    path.write_text("a\nb\n")
    ds = mr.TextLineDataset(str(path)).cache()
    assert values(ds) == [b"a", b"b"]
    path.unlink()
    assert values(ds) == [b"a", b"b"]
    with pytest.raises(mr.errors.NotFoundError):
        values(pickle.loads(pickle.dumps(ds)))  # another object has nothing


@pytest.mark.parametrize("cut", [0, 3, 10, 13, 20, 24, 30])
def test_cache_keeps_the_place_while_it_is_written_and_read(cut):
    def make():
        return (
            Dataset.range(10)
            .shuffle(10)
            .map(lambda x: (x, mr.strings.as_string(x)))
            .cache()
            .repeat(3)
        )

    it = iter(make())
    first = [next(it) for _ in range(cut)]
    state = it.get_state()
    want = first + list(it)
    other = iter(make())  # another object: everything comes from the state
    other.set_state(state)
    assert first + list(other) == want and want[:10] == want[10:20] == want[20:]
    again = make()
    list(again)
    same = iter(
        again
    )  # a complete pass is kept already, in another order: later passes may be that one's
    same.set_state(state)
    got = first + list(same)
    assert all(sorted(got[k : k + 10]) == sorted(want[:10]) for k in (0, 10, 20))


def test_cache_is_on_the_memory_budget():
    options = mr.Options()
    options.autotune.ram_budget = 1 << 16
    with pytest.raises(
        mr.errors.ResourceExhaustedError, match=r"cache.*elements hold.*bytes.*budget"
    ):
        list(Dataset.range(1 << 20).cache().with_options(options))
    with pytest.raises(mr.errors.InvalidArgumentError, match="is a dataset"):
        Dataset.range(3).window(2).cache()
    inside = Dataset.range(4).flat_map(lambda n: Dataset.range(n).cache())
    assert values(inside) == [0, 0, 1, 0, 1, 2] == values(inside)


# ---- scan, reduce ----


def test_scan_and_reduce():
    assert values(Dataset.range(5).scan(np.int64(0), lambda s, x: (s + x, s * 10 + x))) == [
        0,
        1,
        12,
        33,
        64,
    ]
    state = {"n": 0, "text": ""}
    ds = Dataset.from_tensor_slices(["a", "b", "c"]).scan(
        state, lambda s, x: ({"n": s["n"] + 1, "text": s["text"] + x}, (s["n"], s["text"]))
    )
    assert [(int(n), t) for n, t in ds] == [(0, b""), (1, b"a"), (2, b"ab")] and len(ds) == 3
    growing = Dataset.range(4).scan(
        np.empty(0, np.int64), lambda s, x: (mr.concat([s, mr.expand_dims(x, 0)], 0), mr.size(s))
    )
    assert values(growing) == [0, 1, 2, 3]
    assert Dataset.range(5).reduce(np.int64(0), lambda s, x: s + x) == 10
    assert Dataset.range(0).reduce(7, lambda s, x: s) == 7
    count, total = Dataset.range(5).reduce((0, np.int64(0)), lambda s, x: (s[0] + 1, s[1] + x))
    assert (count, total) == (5, 10) and count.dtype == np.int32
    pairs = Dataset.zip((Dataset.range(3), Dataset.range(3)))
    assert pairs.reduce(np.int64(0), lambda s, x: s + x[0] * x[1]) == 5
    with pytest.raises(TypeError, match="int32.*int64|int64.*int32"):
        Dataset.range(3).reduce(0, lambda s, x: x)
    with pytest.raises(TypeError, match="state, result"):
        Dataset.range(3).scan(0, lambda s, x: s)
    with pytest.raises(TypeError, match="structure"):
        Dataset.range(3).scan(0, lambda s, x: ((s, s), x))


# ---- choose_from_datasets, sample_from_datasets ----


def test_choose_from_datasets():
    letters = [Dataset.from_tensor_slices([c] * n) for c, n in (("a", 3), ("b", 1), ("c", 2))]
    choice = Dataset.from_tensor_slices(np.array([0, 1, 2, 0, 1, 2, 0, 0]))
    assert b"".join(Dataset.choose_from_datasets(letters, choice)) == b"abca"
    vectors = Dataset.from_tensors(np.array([7, 8]))
    chosen = Dataset.choose_from_datasets([vectors, vectors], Dataset.range(2))
    assert [x.tolist() for x in chosen.concatenate(vectors)] == [[7, 8]] * 3
    assert (
        b"".join(Dataset.choose_from_datasets(letters, choice, stop_on_empty_dataset=False))
        == b"abcaca"
    )
    with pytest.raises(mr.errors.InvalidArgumentError, match="choice 7, there are 3"):
        list(Dataset.choose_from_datasets(letters, Dataset.range(7, 8)))
    with pytest.raises(mr.errors.InvalidArgumentError, match="int64"):
        Dataset.choose_from_datasets(letters, Dataset.from_tensor_slices([0]))
    with pytest.raises(mr.errors.InvalidArgumentError, match="choose.*input 1"):
        Dataset.choose_from_datasets([Dataset.range(3), letters[0]], Dataset.range(2))
    with pytest.raises(ValueError, match="at least one"):
        Dataset.choose_from_datasets([], choice)


def test_sample_from_datasets():
    parts = [Dataset.from_tensors(np.int64(k)).repeat() for k in range(3)]
    drawn = np.array(
        values(Dataset.sample_from_datasets(parts, [0.5, 0.2, 0.3], seed=3).take(10000))
    )
    assert np.abs(np.bincount(drawn) / 10000 - [0.5, 0.2, 0.3]).max() < 0.03
    uniform = np.array(values(Dataset.sample_from_datasets(parts, seed=3).take(9000)))
    assert np.abs(np.bincount(uniform) - 3000).max() < 300
    assert set(values(Dataset.sample_from_datasets(parts, [1, 0, 1]).take(100))) == {0, 2}
    finite = [Dataset.range(10), Dataset.range(100, 105)]
    ds = Dataset.sample_from_datasets(finite, seed=1)
    got = values(ds)
    assert sorted(got) == [*range(10), *range(100, 105)] and [x for x in got if x < 100] == list(
        range(10)
    )
    assert len(ds) == 15 and values(ds) == got
    again = Dataset.sample_from_datasets(finite, seed=1, rerandomize_each_iteration=True)
    assert len({tuple(values(again)) for _ in range(5)}) > 1
    assert (
        len(values(Dataset.sample_from_datasets(finite, seed=1, stop_on_empty_dataset=True))) < 15
    )
    with pytest.raises(ValueError, match="2 weights for 3"):
        Dataset.sample_from_datasets(parts, [1, 2])
    for weights in (["a", 1, 2], [None, 1, object()], [[1, 2], 3]):
        with pytest.raises(
            TypeError, match="sample_from_datasets: weights are numbers, one for each dataset, not "
        ):
            Dataset.sample_from_datasets(parts, weights)


# ---- FixedLengthRecordDataset ----


@pytest.mark.parametrize("kind", ["", "GZIP"])
@pytest.mark.parametrize("header,footer", [(None, None), (5, 0), (0, 7), (3, 4), (0, 100)])
def test_fixed_length_records(tmp_path, kind, header, footer):
    pack = gzip.compress if kind else bytes
    path = str(tmp_path / "records")
    records = [bytes([i % 256]) * 6 for i in range(3000)]
    with open(path, "wb") as f:
        f.write(pack(b"h" * (header or 0) + b"".join(records) + b"f" * (footer or 0)))
    ds = mr.FixedLengthRecordDataset([path, path], 6, header, footer, compression_type=kind)
    assert values(ds) == records * 2
    it = iter(ds)
    first = [next(it) for _ in range(1700)]
    other = iter(ds)
    other.set_state(it.get_state())
    assert first + list(other) == records * 2


def test_fixed_length_records_of_a_file_that_is_none(tmp_path):
    path = str(tmp_path / "records")
    open(path, "wb").write(b"x" * 20)
    with pytest.raises(
        mr.errors.InvalidArgumentError, match="20 bytes are not a multiple of records of 6 bytes"
    ):
        list(mr.FixedLengthRecordDataset(path, 6, 1, 2))
    assert values(mr.FixedLengthRecordDataset(path, 6, 1, 1)) == [b"x" * 6] * 3
    open(path, "wb").write(gzip.compress(b"x" * 20))
    it = iter(mr.FixedLengthRecordDataset(path, 6, compression_type="GZIP"))
    assert [next(it) for _ in range(3)] == [b"x" * 6] * 3
    with pytest.raises(mr.errors.DataLossError, match="middle"):
        next(it)
    with pytest.raises(mr.errors.InvalidArgumentError, match="record_bytes"):
        mr.FixedLengthRecordDataset(path, 0)


def test_fixed_length_records_with_sizes_from_a_function(tmp_path):
    path = str(tmp_path / "records")
    open(path, "wb").write(b"hhabcdefgh")
    ds = Dataset.from_tensor_slices([2, 4]).flat_map(
        lambda n: mr.FixedLengthRecordDataset(path, n, header_bytes=n - n + 2)
    )
    assert values(ds) == [b"ab", b"cd", b"ef", b"gh", b"abcd", b"efgh"]
    with pytest.raises(mr.errors.InvalidArgumentError, match="record_bytes"):
        list(Dataset.range(1).flat_map(lambda n: mr.FixedLengthRecordDataset(path, n)))
