"""
TFRecord files and tf.Example: written here, read by the engine; what is damaged names its place.
"""

import os
import pathlib
import re
import resource
import struct
import zlib

import numpy as np
import pytest

import millrace as mr
from interrupts import cut_off
from millrace.train import BytesList, Example, Feature, Features, FloatList, Int64List

Dataset = mr.Dataset


def write(path, records, options=None):
    with mr.io.TFRecordWriter(str(path), options) as writer:
        for record in records:
            writer.write(record)
    return str(path)


def records(n, size=20):
    return [b"%d:" % i + bytes([i % 256]) * (i * size % 997) for i in range(n)]


def test_what_fails_for_want_of_descriptors_is_read_on(tmp_path):
    path = write(tmp_path / "a", records(3))
    ds = Dataset.zip(mr.TFRecordDataset(path), Dataset.range(3)).map(lambda x, i: i)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with iter(ds) as it:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            for _ in range(2):
                with pytest.raises(mr.errors.ResourceExhaustedError, match="Too many open files"):
                    next(it)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert list(it) == [0, 1, 2]


def in_a_mebibyte(ds):
    options = mr.Options()
    options.autotune.ram_budget = 1 << 20
    return ds.with_options(options)


def test_what_a_function_needs_besides_its_results_is_in_the_budget():
    refused = "do not fit into the memory budget of 1048576 bytes"
    features = {
        f"f{i}": mr.io.FixedLenSequenceFeature([], mr.int64, allow_missing=True) for i in range(64)
    }
    ds = Dataset.from_tensors(np.array([b""] * 4096)).map(
        lambda x: mr.io.parse_example(x, features)
    )  # a table of places
    assert next(iter(ds))["f0"].shape == (4096, 0)
    with pytest.raises(
        mr.errors.ResourceExhaustedError,
        match=r"map \(step 2, .*:[0-9]+\), element 0: parse_example \(.*:[0-9]+\): "
        r"[0-9]+ bytes more " + refused,
    ):
        next(iter(in_a_mebibyte(ds)))
    keys = mr.lookup.KeyValueTensorInitializer(np.arange(200_000), np.arange(200_000))
    table = mr.lookup.StaticHashTable(keys, -1)
    ds = Dataset.range(3).map(table.lookup)
    assert list(ds) == [0, 1, 2]
    with pytest.raises(
        mr.errors.ResourceExhaustedError,
        match=r"map \(step 2, .*:[0-9]+\): lookup \(.*:[0-9]+\): [0-9]+ bytes more " + refused,
    ):
        list(in_a_mebibyte(ds))
    lines = Dataset.range(40).map(lambda x: mr.fill([3000], x))
    assert len(list(lines.window(40).flat_map(lambda w: w))) == 40
    with pytest.raises(
        mr.errors.ResourceExhaustedError, match=refused + "|the memory budget is 1048576"
    ):
        list(in_a_mebibyte(lines.window(40)))


NOISE = np.random.RandomState(4).randint(0, 256, (450, 450, 4)).astype(np.uint8)
GREY = np.zeros((1000, 1000, 1), np.uint8)
IMAGES = pathlib.Path(__file__).parents[1] / "fuzz/corpus/image"
# Functions that work on more than their arguments and results: those fit into a mebibyte.
WORK = {
    "reduce_sum": (np.zeros((1, 90000), np.float32), lambda x: mr.reduce_sum(x, 0)),
    "resize": (np.zeros((1, 400000, 1), np.uint8), lambda x: mr.image.resize(x, [1, 2])),
    "string_split": (np.array([b""] * 40000), lambda x: mr.strings.split(x).values),
    "map_fn": (np.zeros(300000, np.int8), lambda x: mr.map_fn(lambda y: y, x)),
    "encode_png": (GREY, mr.io.encode_png),
    "encode_jpeg": (GREY, mr.io.encode_jpeg),
    "encode_jpeg in scans": (GREY[:600, :600], lambda x: mr.io.encode_jpeg(x, progressive=True)),
    "decode_png of a PNG of two channels": (
        mr.io.encode_png(NOISE),
        lambda x: mr.io.decode_png(x, channels=2),
    ),
    "decode_png of a part": (
        mr.io.encode_png(np.zeros((700, 700, 3), np.uint8)),
        lambda x: mr.slice(mr.io.decode_png(x, channels=3), [0, 0, 0], [2, 2, 3]),
    ),
    "decode_jpeg of scans": (
        mr.io.encode_jpeg(NOISE[..., :3], quality=5, progressive=True, chroma_downsampling=False),
        lambda x: mr.io.decode_jpeg(x, ratio=8),
    ),
    "decode_image without losses": (
        (IMAGES / "large-lossless.webp").read_bytes(),
        mr.io.decode_image,
    ),
}
# Functions that work on less than those.
LITTLE_WORK = {
    "decode_jpeg of scans with fewer colours": (
        mr.io.encode_jpeg(NOISE[..., :3], quality=5, progressive=True),
        lambda x: mr.io.decode_jpeg(x, ratio=8),
    ),
    "decode_image with losses": ((IMAGES / "large-lossy.webp").read_bytes(), mr.io.decode_image),
}


@pytest.mark.parametrize("what", WORK)
def test_what_a_function_works_on_is_in_the_budget(what):
    argument, function = WORK[what]
    ds = Dataset.from_tensors(argument).map(function)
    next(iter(ds))
    with pytest.raises(
        mr.errors.ResourceExhaustedError,
        match=rf"{what.split()[0]} \(.*\): [0-9]+ bytes more do not fit into the memory budget",
    ):
        next(iter(in_a_mebibyte(ds)))


@pytest.mark.parametrize("what", LITTLE_WORK)
def test_what_a_function_does_not_work_on_is_not_in_the_budget(what):
    argument, function = LITTLE_WORK[what]
    ds = Dataset.from_tensors(argument).map(function)
    assert np.array_equal(next(iter(in_a_mebibyte(ds))), next(iter(ds)))


@pytest.mark.parametrize("compression", ["", "GZIP", "ZSTD"])
def test_a_record_that_fits_no_memory_keeps_its_place(tmp_path, compression):
    path = write(
        tmp_path / "a", [b"one", bytes(3 << 20), b"three"], mr.io.TFRecordOptions(compression)
    )
    with iter(
        in_a_mebibyte(mr.TFRecordDataset(path, compression).ignore_errors().enumerate())
    ) as it:
        assert next(it) == (0, b"one")
        with pytest.raises(
            mr.errors.ResourceExhaustedError, match="record 1: "
        ):  # nothing is wrong with it: no reason to drop it
            next(it)
        assert list(it) == [(2, b"three")]


@pytest.mark.parametrize("compression", ["", "GZIP", "ZSTD"])
def test_records_whose_block_fits_no_memory_keep_their_places(tmp_path, monkeypatch, compression):
    monkeypatch.chdir(tmp_path)  # the path does not take the room of what is asked for
    wanted = [bytes([i]) * (1 << 20) for i in range(4)]
    path = write("a", wanted, mr.io.TFRecordOptions(compression))
    options = mr.Options()
    options.autotune.ram_budget = 3 << 20
    places = []
    with iter(mr.TFRecordDataset(path, compression).enumerate().with_options(options)) as it:
        while True:
            try:
                i, record = next(it)
            except mr.errors.ResourceExhaustedError as e:
                i = int(re.search("record ([0-9]+)", e.message)[1])
            except StopIteration:
                break
            else:
                assert record == wanted[i]
            places.append(i)
    assert places == [0, 1, 2, 3]


def masked_crc32c(data):
    """As TFRecord files store it, by the definition."""
    register = 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = register >> 1 ^ (0x82F63B78 if register & 1 else 0)
    crc = register ^ 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def framed(record):
    length = struct.pack("<Q", len(record))
    return (
        length
        + struct.pack("<I", masked_crc32c(length))
        + record
        + struct.pack("<I", masked_crc32c(record))
    )


def test_the_bytes_of_a_file(tmp_path):
    long = np.random.default_rng(1).bytes(300_001)
    path = write(
        tmp_path / "x", [b"", b"a\0b", bytearray(b"123456789"), memoryview(long), "Zürich"]
    )
    assert open(path, "rb").read() == b"".join(
        map(framed, (b"", b"a\0b", b"123456789", long, "Zürich".encode()))
    )
    for other in (5, None, [1, 2]):  # bytes(5) would be five zero bytes
        with pytest.raises(TypeError):
            write(tmp_path / "y", [other])


def test_a_writer_until_it_is_closed(tmp_path):
    path = tmp_path / "x.gz"
    writer = mr.io.TFRecordWriter(path, mr.io.TFRecordOptions("GZIP", compression_level=9))
    writer.write(b"a" * 1000)
    writer.flush()
    (temporary,) = tmp_path.iterdir()
    assert temporary != path and zlib.decompressobj(31).decompress(
        temporary.read_bytes()
    ) == framed(b"a" * 1000)
    child = os.fork()
    if child == 0:  # the file is the parent's
        writer.__del__()
        os._exit(0)
    os.waitpid(child, 0)
    assert list(tmp_path.iterdir()) == [temporary]
    writer.close()
    writer.close()
    assert list(tmp_path.iterdir()) == [path] and list(mr.TFRecordDataset(str(path), "GZIP")) == [
        b"a" * 1000
    ]
    for call in (lambda: writer.write(b"b"), writer.flush):
        with pytest.raises(mr.errors.FailedPreconditionError, match="closed"):
            call()
    with pytest.raises(mr.errors.NotFoundError, match="nowhere"):
        mr.io.TFRecordWriter(tmp_path / "nowhere" / "x")
    with pytest.raises(mr.errors.InvalidArgumentError, match="level 10"):
        mr.io.TFRecordWriter(path, mr.io.TFRecordOptions("GZIP", compression_level=10))


@pytest.mark.parametrize("compression", ["", "GZIP", "ZLIB", "ZSTD"])
def test_what_is_written_is_read(tmp_path, compression):
    expected = records(300)
    path = write(tmp_path / "x.tfrecord", expected, compression)
    assert list(mr.TFRecordDataset(path, compression)) == expected
    assert list(mr.TFRecordDataset([path, path], compression_type=compression)) == 2 * expected
    assert list(tmp_path.iterdir()) == [tmp_path / "x.tfrecord"]


def zstd_frame(blocks, window_log=10):
    """A Zstandard frame of blocks: bytes as they are, or (a byte, how often it comes)."""
    out = struct.pack("<IBB", 0xFD2FB528, 0, (window_log - 10) << 3)
    for i, block in enumerate(blocks):
        raw = isinstance(block, bytes)
        size = len(block) if raw else block[1]
        head = size << 3 | (0 if raw else 2) | (i == len(blocks) - 1)
        out += head.to_bytes(3, "little") + (block if raw else block[0])
    return out


def test_zstd_of_several_frames(tmp_path):
    path, text = tmp_path / "x.zst", b"".join(map(framed, [b"a" * 900, b"b", b"c" * 40]))
    skippable = struct.pack("<II", 0x184D2A50 + 7, 5) + b"notes"
    path.write_bytes(
        skippable + zstd_frame([text[:500], text[500:920]]) + skippable + zstd_frame([text[920:]])
    )
    assert list(mr.TFRecordDataset(path, "ZSTD")) == [b"a" * 900, b"b", b"c" * 40]
    path.write_bytes(zstd_frame([b"one\n" * 3, (b"x", 1000), b"\n", b""]))
    assert list(mr.TextLineDataset(path, "ZSTD")) == [b"one"] * 3 + [b"x" * 1000]
    it = iter(mr.TextLineDataset(path, "ZSTD"))
    _, state = next(it), it.get_state()
    it.set_state(state)
    assert list(it) == [b"one"] * 2 + [b"x" * 1000]


def test_zstd_that_is_damaged_gives_what_comes_before(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a short name: the message has room for all of it
    path, good = pathlib.Path("x.zst"), zstd_frame([b"one\ntwo\n", b"three\n"])
    for content, text in (
        (good[:-4], "cut short"),
        (b"", "cut short"),
        (good + b"rest", "damaged"),
        (b"\x27" + good[1:], "damaged"),  # an older format
        (good[:-9] + b"\xff" + good[-8:], "damaged|cut short"),
        (zstd_frame([b"one\ntwo\nthree\n"], window_log=24), "more than 8 MiB"),
    ):
        path.write_bytes(content)
        it, got = iter(mr.TextLineDataset(path, "ZSTD", buffer_size=1)), []
        with pytest.raises(mr.errors.DataLossError, match=f"x.zst.*({text})"):
            got.extend(it)
        assert got == [b"one", b"two", b"three"][: len(got)] and list(it) == []


def test_zstd_that_expands_to_more_than_there_is_memory(tmp_path):
    path = tmp_path / "x.zst"
    path.write_bytes(zstd_frame([b"one\n", *[(b"x", 128 << 10)] * 10_000, b"\ntwo\n"], 17))
    it, got = iter(in_a_mebibyte(mr.TextLineDataset(path, "ZSTD"))), []
    with pytest.raises(mr.errors.ResourceExhaustedError, match="x.zst"):
        got.extend(it)
    assert got == [b"one"] and path.stat().st_size < 41_000


def test_the_level_of_zstd(tmp_path):
    sizes = []
    for level in 1, 19:
        options = mr.io.TFRecordOptions("ZSTD", compression_level=level)
        write(tmp_path / "x", [b"%d" % (i * i) for i in range(3000)], options)
        sizes.append((tmp_path / "x").stat().st_size)
    assert sizes[1] < sizes[0]
    with pytest.raises(mr.errors.InvalidArgumentError, match="level 20: 0 to 19"):
        mr.io.TFRecordWriter(tmp_path / "x", mr.io.TFRecordOptions("ZSTD", compression_level=20))
    with pytest.raises(mr.errors.InvalidArgumentError, match=f"no compression level {2**32 + 2}"):
        mr.io.TFRecordWriter(
            tmp_path / "x", mr.io.TFRecordOptions("ZSTD", compression_level=2**32 + 2)
        )


def test_many_files_in_parallel(tmp_path):
    paths = [
        write(tmp_path / f"{i}.tfrecord", [b"%d-%d" % (i, k) for k in range(5)]) for i in range(4)
    ]
    everything = sorted(b"%d-%d" % (i, k) for i in range(4) for k in range(5))
    assert sorted(mr.TFRecordDataset(paths, num_parallel_reads=2)) == everything
    ds = Dataset.from_tensor_slices(paths).interleave(
        mr.TFRecordDataset, cycle_length=2, block_length=5
    )
    assert list(ds) == [b"%d-%d" % (i, k) for i in range(4) for k in range(5)]
    assert (
        sorted(mr.TFRecordDataset(Dataset.list_files(str(tmp_path / "*.tfrecord")))) == everything
    )


def test_list_files_expands_when_called_and_shuffles_by_default(tmp_path):
    for i in range(20):
        (tmp_path / f"{i:02}.txt").write_text("")
    pattern = str(tmp_path / "*.txt")
    shuffled, ordered = Dataset.list_files(pattern, seed=1), Dataset.list_files(
        pattern, shuffle=False
    )
    (tmp_path / "99.txt").write_text("")
    names = [str(tmp_path / f"{i:02}.txt").encode() for i in range(20)]
    assert list(ordered) == names
    assert sorted(shuffled) == names and list(shuffled) != names
    with pytest.raises(mr.errors.InvalidArgumentError, match="nothing-here"):
        Dataset.list_files(str(tmp_path / "nothing-here-*"))


def test_list_files_takes_paths(tmp_path):
    names = ["a.csv", "a.txt", "b.txt"]
    for name in names:
        (tmp_path / name).write_text("")
    expected = [str(tmp_path / name).encode() for name in names]
    assert list(Dataset.list_files(tmp_path / "*.txt", shuffle=False)) == expected[1:]
    assert (
        list(Dataset.list_files([tmp_path / "*.csv", str(tmp_path / "b*")], shuffle=False))
        == expected[::2]
    )


def test_a_writer_that_fails_leaves_nothing_behind(tmp_path):
    with pytest.raises(TypeError):
        with mr.io.TFRecordWriter(str(tmp_path / "x")) as writer:
            writer.write(b"fine")
            writer.write(5)
    assert list(tmp_path.iterdir()) == []


def test_a_writer_whose_closing_was_cut_off_is_closed_again(tmp_path):
    path, through, step = tmp_path / "x", False, 0
    while not through:
        path.write_bytes(b"before")
        writer = mr.io.TFRecordWriter(path)
        writer.write(b"fine")
        through = not cut_off(writer.close, step)
        step += 1
        writer.close()
        assert list(mr.TFRecordDataset(str(path))) == [b"fine"] and list(tmp_path.iterdir()) == [
            path
        ]


def test_a_writer_whose_opening_was_cut_off_leaves_the_file(tmp_path):
    path, through, step = tmp_path / "x", False, 0
    path.write_bytes(b"before")
    while not through:
        assert path.read_bytes() == b"before" and list(tmp_path.iterdir()) == [path]
        through = not cut_off(lambda: mr.io.TFRecordWriter(path), step)
        step += 1


@pytest.mark.parametrize("where", ["length", "length crc", "data", "data crc"])
def test_corrupt_records_name_file_record_and_offset(tmp_path, where):
    expected = records(5)
    path = write(tmp_path / "broken.tfrecord", expected)
    raw = bytearray(open(path, "rb").read())
    start = sum(16 + len(r) for r in expected[:3])
    at = {"length": 0, "length crc": 8, "data": 12, "data crc": 12 + len(expected[3])}[where]
    raw[start + at] ^= 0x40
    open(path, "wb").write(raw)
    it = iter(mr.TFRecordDataset(path))
    assert [next(it) for _ in range(3)] == expected[:3]
    with pytest.raises(mr.errors.DataLossError, match="broken.tfrecord") as caught:
        next(it)
    assert str(start) in str(caught.value) or str(start + at) in str(caught.value)


@pytest.mark.parametrize(
    "written, read, hint",
    [
        ("GZIP", None, 'the file is compressed: compression_type="GZIP"'),
        ("ZSTD", None, 'the file is compressed: compression_type="ZSTD"'),
        (None, "GZIP", "or of another compression_type"),
        ("GZIP", "ZLIB", "or of another compression_type"),
    ],
)
def test_another_compression_is_told(tmp_path, written, read, hint):
    path = write(tmp_path / "a.tfrecord", records(3), written)
    with pytest.raises(mr.errors.DataLossError, match=hint):
        list(mr.TFRecordDataset(path, compression_type=read))


def test_text_is_no_tfrecord_file(tmp_path):
    (tmp_path / "a.csv").write_text("id,name\n1,a\n")
    with pytest.raises(mr.errors.DataLossError, match="or it is no TFRecord file"):
        list(mr.TFRecordDataset(tmp_path / "a.csv"))


def test_a_record_is_bytes(tmp_path):
    with mr.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        with pytest.raises(TypeError, match=r"write Example.SerializeToString\(\)"):
            writer.write(example(1))


def test_a_truncated_file_is_data_loss(tmp_path):
    path = write(tmp_path / "cut.tfrecord", records(3))
    raw = open(path, "rb").read()
    open(path, "wb").write(raw[:-3])
    with pytest.raises(mr.errors.DataLossError, match="cut.tfrecord"):
        list(mr.TFRecordDataset(path))


def test_an_absurd_length_allocates_nothing(tmp_path):
    length = struct.pack("<Q", 1 << 60)
    path = tmp_path / "huge.tfrecord"
    path.write_bytes(length + struct.pack("<I", masked_crc32c(length)) + b"xx")
    with pytest.raises(
        (mr.errors.DataLossError, mr.errors.ResourceExhaustedError), match="huge.tfrecord"
    ):
        list(mr.TFRecordDataset(str(path)))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(mr.errors.NotFoundError, match="missing.tfrecord"):
        list(mr.TFRecordDataset(str(tmp_path / "missing.tfrecord")))


def example(i):
    return Example(
        features=Features(
            feature={
                "id": Feature(int64_list=Int64List(value=[i])),
                "xy": Feature(float_list=FloatList(value=[i / 2, -i])),
                "name": Feature(bytes_list=BytesList(value=[b"n%d" % i])),
            }
        )
    )


def test_examples_round_trip():
    message = example(-3)
    data = message.SerializeToString()
    again = Example.FromString(data)
    assert again == message
    assert again.features.feature["id"].int64_list.value == [-3]
    assert again.features.feature["xy"].float_list.value == [-1.5, 3.0]
    assert again.features.feature["xy"].WhichOneof("kind") == "float_list"
    for n in range(1, len(data)):
        try:
            Example.FromString(data[:n])
        except (ValueError, struct.error, UnicodeDecodeError):
            pass


@pytest.mark.parametrize(
    "make, hint",
    [
        (lambda: BytesList(value=b"abc"), r"is a list, not bytes: value=\[x\]"),
        (lambda: BytesList(value="abc"), "is a list, not str"),
        (lambda: BytesList(value=["abc"]), "encode it"),
        (lambda: BytesList(value=[97]), "numbers go into Int64List"),
        (lambda: BytesList(value=[np.ones(2)]), "tobytes"),
        (lambda: Int64List(value=3), "is a list, not int"),
        (lambda: Int64List(value=[1.5]), r"holds integers, not float \(1.5\)"),
        (lambda: Int64List(value=np.ones([2, 2], np.int64)), "ravel"),
        (lambda: FloatList(value=["1.5"]), "BytesList"),
        (lambda: FloatList(value=np.ones([2, 2])), "ravel"),
        (lambda: Feature(int64_list=[3]), r"mr.train.Int64List\(value=...\)"),
        (lambda: Features(feature=[1]), "a dict of name"),
        (lambda: Example(features={"a": 1}), "is a Features, not dict"),
    ],
)
def test_what_examples_do_not_hold_is_refused(make, hint):
    with pytest.raises(TypeError, match=hint):
        make()


def test_examples_are_filled_by_name():
    message = Example()
    message.features.feature["n"].int64_list.value.append(3)
    message.features.feature["s"].bytes_list.value.extend([b"a", b"b"])
    assert Example.FromString(message.SerializeToString()) == message
    assert message.features.feature["n"] == Feature(int64_list=Int64List(value=[3]))
    feature = Feature(int64_list=Int64List(value=[1]))
    assert feature.float_list.value == [] and feature.WhichOneof("kind") == "int64_list"
    feature.float_list.value.append(0.5)  # takes the place of the other list
    assert feature == Feature(float_list=FloatList(value=[0.5])) and not feature.int64_list.value
    feature.float_list.value.append("x")
    with pytest.raises(TypeError, match="holds numbers"):
        feature.SerializeToString()


FEATURES = {
    "id": mr.io.FixedLenFeature([], mr.int64),
    "xy": mr.io.FixedLenFeature([2], mr.float32),
    "name": mr.io.FixedLenFeature([], mr.string),
    "weight": mr.io.FixedLenFeature([], mr.float32, default_value=1.5),
}


def test_parse_single_example_and_parse_example(tmp_path):
    path = write(tmp_path / "e.tfrecord", [example(i).SerializeToString() for i in range(5)])
    ds = mr.TFRecordDataset(path).map(lambda s: mr.io.parse_single_example(s, FEATURES))
    assert ds.element_spec == {
        "id": mr.TensorSpec([], mr.int64),
        "xy": mr.TensorSpec([2], mr.float32),
        "name": mr.TensorSpec([], mr.string),
        "weight": mr.TensorSpec([], mr.float32),
    }
    rows = list(ds)
    assert (
        [r["id"] for r in rows] == list(range(5))
        and rows[3]["xy"].tolist() == [1.5, -3]
        and rows[2]["name"] == b"n2"
    )
    assert rows[0]["weight"] == 1.5
    batched = list(
        mr.TFRecordDataset(path).batch(5).map(lambda s: mr.io.parse_example(s, FEATURES))
    )
    assert batched[0]["id"].tolist() == list(range(5)) and batched[0]["xy"].shape == (5, 2)
    assert list(batched[0]["name"]) == [b"n%d" % i for i in range(5)]


@pytest.mark.parametrize(
    "features,word",
    [
        ({"absent": mr.io.FixedLenFeature([], mr.int64)}, "absent"),
        ({"id": mr.io.FixedLenFeature([], mr.float32)}, "id"),
        ({"xy": mr.io.FixedLenFeature([3], mr.float32)}, "xy"),
    ],
)
def test_examples_that_do_not_fit_name_the_feature(features, word):
    ds = Dataset.from_tensors(example(1).SerializeToString()).map(
        lambda s: mr.io.parse_single_example(s, features)
    )
    with pytest.raises(mr.errors.InvalidArgumentError, match=word):
        list(ds)


def test_what_is_no_example_is_refused():
    ds = Dataset.from_tensors(b"\xff\xff\xff").map(
        lambda s: mr.io.parse_single_example(s, FEATURES)
    )
    with pytest.raises(mr.errors.InvalidArgumentError):
        list(ds)


def test_features_that_cannot_be_are_refused_at_once():
    parse = lambda f: Dataset.from_tensors(b"").map(
        lambda s: mr.io.parse_single_example(s, f)
    )  # noqa: E731
    with pytest.raises(ValueError, match="int64, float32 and string"):
        parse({"a": mr.io.FixedLenFeature([], mr.int32)})
    with pytest.raises(ValueError, match="RaggedFeature, VarLenFeature or FixedLenSequenceFeature"):
        parse({"a": mr.io.FixedLenFeature([None], mr.int64)})
    with pytest.raises(TypeError):
        parse({"a": mr.TensorSpec([], mr.int64)})
    with pytest.raises(ValueError):
        parse({})
    with pytest.raises(TypeError, match="no partition"):
        parse({"a": mr.io.RaggedFeature(mr.int64, partitions=["lengths"])})
    with pytest.raises(ValueError, match="at least 1"):
        uniform = mr.io.RaggedFeature.UniformRowLength(0)
        parse({"a": mr.io.RaggedFeature(mr.int64, partitions=[uniform])})


def test_one_record_or_a_batch():
    one = Dataset.from_tensors(example(1).SerializeToString())
    features = {"id": mr.io.FixedLenFeature([], mr.int64), "xy": mr.io.RaggedFeature(mr.float32)}
    for parse in (mr.io.parse_example, mr.io.parse_single_example):
        parsed = next(iter(one.map(lambda s: parse(s, features))))
        assert parsed["id"] == 1 and parsed["xy"].tolist() == [0.5, -1.0]
    with pytest.raises(ValueError, match="a scalar, not of shape .*parse_example and .* a batch"):
        one.batch(2).map(lambda s: mr.io.parse_single_example(s, features))
    with pytest.raises(ValueError, match="a vector, as batch makes it, not of shape"):
        one.map(lambda s: mr.io.parse_sequence_example(s, features))


def test_partitions_that_do_not_fit_the_values():
    def number(*v):
        return Feature(int64_list=Int64List(value=v))

    record = Example(
        features=Features(
            feature={"v": number(1, 2, 3), "n": number(1, 1), "ids": number(0, -1, 0)}
        )
    ).SerializeToString()
    ragged = mr.io.RaggedFeature
    for partition in (ragged.RowLengths("n"), ragged.RowLimits("n"), ragged.ValueRowIds("ids")):
        feature = ragged(mr.int64, value_key="v", partitions=[partition])
        with pytest.raises(mr.errors.InvalidArgumentError):
            mr.io.parse_single_example(record, {"r": feature})
        with pytest.raises(mr.errors.InvalidArgumentError):
            mr.io.parse_example([record, record], {"r": feature})
        ds = Dataset.from_tensors([record]).map(lambda s: mr.io.parse_example(s, {"r": feature}))
        with pytest.raises(mr.errors.InvalidArgumentError):
            list(ds)


def test_partitions_of_other_steps():
    def lists(**steps):
        return mr.train.SequenceExample(
            feature_lists=mr.train.FeatureLists(
                feature_list={
                    k: mr.train.FeatureList(feature=[Feature(int64_list=Int64List(value=[1]))] * n)
                    for k, n in steps.items()
                }
            )
        ).SerializeToString()

    partition = mr.io.RaggedFeature.RowLengths("n")
    feature = {"v": mr.io.RaggedFeature(mr.int64, partitions=[partition])}
    _, found = mr.io.parse_single_sequence_example(lists(v=2, n=2), sequence_features=feature)
    assert found["v"].to_list() == [[[1]], [[1]]]
    with pytest.raises(mr.errors.InvalidArgumentError, match="numbers of steps"):
        mr.io.parse_single_sequence_example(lists(v=2, n=1), sequence_features=feature)


def test_sequences_of_any_length():
    features = {"v": mr.io.FixedLenSequenceFeature([], mr.int64, allow_missing=True)}
    messages = [
        Example(
            features=Features(feature={"v": Feature(int64_list=Int64List(value=range(n)))})
        ).SerializeToString()
        for n in range(3)
    ]
    ds = Dataset.from_tensor_slices(messages).map(
        lambda s: mr.io.parse_single_example(s, features)["v"]
    )
    assert [r.tolist() for r in ds] == [[], [0], [0, 1]]
