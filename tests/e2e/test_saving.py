"""Datasets kept in files: save, load, and what is wrong with files."""

import itertools
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import millrace as mr
from conftest import wait_until, with_parent, writer_of

Dataset = mr.Dataset


def chunks_of(path):
    return sorted(pathlib.Path(path).glob("*/*.chunk"))


def replace(path, content):
    """A new file in the place of @path, which somebody may have mapped."""
    path.unlink()
    path.write_bytes(content)


def same(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, tuple):
        return type(a) is type(b) and all(map(same, a, b))
    if isinstance(a, (mr.RaggedTensor, mr.SparseTensor)):
        return type(a) is type(b) and repr(a) == repr(b)
    return np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(a, b)


KINDS = {
    "numbers": lambda: Dataset.range(100),
    "nothing": lambda: Dataset.range(0),
    "strings": lambda: Dataset.range(50).map(lambda x: mr.strings.as_string(x)),
    "several shapes": lambda: Dataset.range(20).map(lambda x: mr.range(x % 5)),
    "a structure": lambda: Dataset.range(20).map(
        lambda x: {"a": (x, mr.cast(x, mr.float16)), "b": mr.reshape(mr.range(x, x + 6), [2, 3])}
    ),
    "ragged": lambda: Dataset.from_tensor_slices(mr.ragged.constant([[1], [], [2, 3]])),
    # map() forgets the sizes of sparse tensors, as files do
    "sparse": lambda: Dataset.from_tensor_slices(
        mr.SparseTensor([[0, 1], [2, 0]], np.array([1.5, 2.5]), [3, 2])
    ).map(lambda x: x),
    "large": lambda: Dataset.range(3).map(lambda x: mr.zeros([300, 300]) + mr.cast(x, "float32")),
}


@pytest.mark.parametrize("compression", [None, "", "NONE", "AUTO", "GZIP", "LZ4", "SNAPPY", "ZSTD"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_saved_is_loaded(tmp_path, kind, compression):
    ds = KINDS[kind]()
    assert ds.save(tmp_path / "a" / "b", compression, chunk_bytes=1 << 11) is None
    there = Dataset.load(str(tmp_path / "a" / "b"))
    assert there.element_spec == ds.element_spec
    assert there.cardinality() == len(list(ds)) == len(list(there))
    assert all(map(same, ds, there))


def test_a_position_is_kept(tmp_path):
    Dataset.range(100).map(lambda x: (x, mr.strings.as_string(x))).save(tmp_path, chunk_bytes=600)
    ds = Dataset.load(tmp_path)
    assert len(chunks_of(tmp_path)) > 1
    whole = list(ds)
    for taken in (0, 1, 37, 99, 100):
        it = iter(ds)
        assert list(itertools.islice(it, taken)) == whole[:taken]
        again = iter(Dataset.load(tmp_path))
        again.set_state(it.get_state())
        assert list(again) == whole[taken:]


def test_shards_take_turns(tmp_path):
    Dataset.range(10).save(tmp_path, shard_func=lambda x: x % 3)
    assert list(Dataset.load(tmp_path)) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert len(Dataset.load(tmp_path)) == 10
    Dataset.range(10).save(tmp_path, shard_func=lambda x: 7)
    assert list(Dataset.load(tmp_path)) == list(range(10))
    Dataset.range(400).batch(4).save(tmp_path, shard_func=lambda x: x[0] // 4 % 2, chunk_bytes=1)
    assert [int(x[0]) // 4 for x in Dataset.load(tmp_path)] == list(range(100))


def test_a_reader_function_has_datasets(tmp_path):
    Dataset.range(12).map(lambda x: (x, -x)).save(tmp_path, shard_func=lambda x, y: x % 4)
    specs = []

    def read(shards):
        specs.append(shards.element_spec)
        return shards.skip(1).take(2).flat_map(lambda shard: shard.map(lambda x, y: x + 100))

    assert list(Dataset.load(tmp_path, reader_func=read)) == [101, 105, 109, 102, 106, 110]
    assert specs == [mr.DatasetSpec(Dataset.load(tmp_path).element_spec)]
    shuffled = Dataset.load(
        tmp_path,
        reader_func=lambda shards: shards.shuffle(4, seed=3).interleave(
            lambda shard: shard, cycle_length=2, num_parallel_calls=mr.AUTOTUNE
        ),
    )
    assert sorted(x for x, _ in shuffled) == list(range(12))
    assert [x for x, _ in shuffled] != list(range(12))
    assert shuffled.cardinality() == mr.UNKNOWN_CARDINALITY


@pytest.mark.parametrize(
    "reader_func,error",
    [
        (lambda shards: shards, TypeError),
        (lambda shards: 3, TypeError),
        (lambda shards: shards.enumerate(), mr.errors.UnimplementedError),
        (lambda shards: shards.batch(2), mr.errors.UnimplementedError),
        (lambda shards: list(shards), mr.errors.UnimplementedError),
        (lambda shards: shards.map(lambda shard: shard), mr.errors.UnimplementedError),
    ],
)
def test_what_stands_for_a_shard_is_not_seen(tmp_path, reader_func, error):
    Dataset.range(3).save(tmp_path)
    with pytest.raises(error):
        Dataset.load(tmp_path, reader_func=reader_func)


@pytest.mark.parametrize(
    "shard_func",
    [
        lambda x: mr.cast(x, mr.int32),
        lambda x: "a",
        lambda x: (x, x),
        lambda x: mr.reshape(x, [1]),
        lambda x: x - 1,
        lambda x: x,
    ],
)
def test_a_wrong_shard_leaves_nothing(tmp_path, shard_func):
    with pytest.raises(mr.errors.InvalidArgumentError, match="shard"):
        Dataset.range(300).save(tmp_path, shard_func=shard_func)
    assert list(tmp_path.iterdir()) == []


def test_saving_again_replaces(tmp_path):
    Dataset.range(5).save(tmp_path)
    before = Dataset.load(tmp_path)
    Dataset.load(tmp_path).map(lambda x: mr.strings.as_string(x)).save(tmp_path)
    assert list(Dataset.load(tmp_path)) == [b"0", b"1", b"2", b"3", b"4"]
    assert list(before) == [0, 1, 2, 3, 4]


def test_a_save_that_fails_changes_nothing(tmp_path):
    Dataset.range(5).save(tmp_path)
    files = sorted(tmp_path.rglob("*"))
    fails = Dataset.range(5).map(lambda x: 10 // (3 - x))
    with pytest.raises(mr.errors.InvalidArgumentError, match="element 3"):
        fails.save(tmp_path)
    assert sorted(tmp_path.rglob("*")) == files
    assert list(Dataset.load(tmp_path)) == [0, 1, 2, 3, 4]
    fails.ignore_errors().save(tmp_path)
    assert list(Dataset.load(tmp_path)) == [3, 5, 10, -10]


def test_waiting_for_what_is_not_there(tmp_path):
    with pytest.raises(mr.errors.NotFoundError, match="manifest.json"):
        Dataset.load(tmp_path / "later")
    found = []
    thread = threading.Thread(
        target=lambda: found.extend(Dataset.load(tmp_path / "later", wait=True))
    )
    thread.start()
    Dataset.range(3).save(tmp_path / "later")
    thread.join()
    assert found == [0, 1, 2]


def test_arguments(tmp_path):
    ds = Dataset.range(3)
    with pytest.raises(ValueError, match="gzip"):
        ds.save(tmp_path, "gzip")
    with pytest.raises(TypeError):
        ds.save(tmp_path, 3)
    with pytest.raises(TypeError):
        ds.save(None)
    with pytest.raises(ValueError):
        ds.save("")
    with pytest.raises(ValueError):
        ds.save(tmp_path, chunk_bytes=0)
    for number in (-1, 2**63, 2**64 + 1, -(2**64) + 1):
        with pytest.raises(ValueError, match=f"chunk_bytes is at least 1 .*, not {number}"):
            ds.save(tmp_path, chunk_bytes=number)
    with pytest.raises(TypeError):
        ds.save(tmp_path, shard_func=3)
    with pytest.raises(mr.errors.UnimplementedError, match="begins"):
        ds.save(tmp_path, checkpoint_args={})
    with pytest.raises(mr.errors.InvalidArgumentError, match="dataset"):
        ds.window(2).save(tmp_path)
    with pytest.raises(TypeError, match="traced"):
        ds.map(lambda x: ds.save(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(mr.errors.FailedPreconditionError, match="no directory"):
            Dataset.range(3).save(path)
    with pytest.raises(mr.errors.FailedPreconditionError, match="directory"):
        Dataset.load(tmp_path / "file")
    with pytest.raises(mr.errors.MillraceError, match="/proc"):
        Dataset.range(3).save("/proc/millrace")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission(tmp_path):
    (tmp_path / "closed").mkdir(mode=0o500)
    for write in (Dataset.save, lambda ds, path: list(ds.cache(path))):
        with pytest.raises(mr.errors.PermissionDeniedError, match="closed"):
            write(Dataset.range(3), tmp_path / "closed")


def test_another_element_spec(tmp_path):
    Dataset.range(6).map(lambda x: (mr.reshape(mr.range(x, x + 3), [3]), x)).save(tmp_path)
    wide = (mr.TensorSpec([None], "int64"), mr.TensorSpec(None, "int64"))
    ds = Dataset.load(tmp_path, wide)
    assert ds.element_spec == wide and len(list(ds)) == 6
    narrow = (mr.TensorSpec([2], "int64"), mr.TensorSpec([], "int64"))
    with pytest.raises(mr.errors.InvalidArgumentError, match="component 0"):
        Dataset.load(tmp_path, narrow)
    with pytest.raises(mr.errors.InvalidArgumentError, match="component 1"):
        Dataset.load(tmp_path, (wide[0], mr.TensorSpec([], "int32")))
    with pytest.raises(mr.errors.InvalidArgumentError, match="2"):
        Dataset.load(tmp_path, wide[0])
    Dataset.range(6).map(lambda x: mr.range(x)).save(tmp_path)
    with pytest.raises(mr.errors.InvalidArgumentError, match="shape"):
        list(Dataset.load(tmp_path, mr.TensorSpec([2], "int64")))


def test_a_damaged_file_is_named_and_left_out(tmp_path):
    ds = Dataset.range(40).batch(10)
    ds.save(tmp_path, chunk_bytes=1, shard_func=lambda x: x[0] // 10)
    whole = [x.tolist() for x in ds]
    file = chunks_of(tmp_path)[1]
    content = file.read_bytes()
    for damage in (
        b"",
        content[:40],
        content[:-64],
        content[:130],
        bytes([content[0] ^ 1]) + content[1:],
        content[:300] + bytes([content[300] ^ 1]) + content[301:],
        chunks_of(tmp_path)[2].read_bytes(),
    ):
        replace(file, damage)
        with pytest.raises(mr.errors.DataLossError, match=f"{file}.*offset") as raised:
            list(Dataset.load(tmp_path))
        assert "interleave" not in str(raised.value)
        rest = [x.tolist() for x in Dataset.load(tmp_path).ignore_errors()]
        assert [x for x in whole if x in rest] == rest and len(rest) in (3, 4)
    file.unlink()
    with pytest.raises(mr.errors.NotFoundError, match=str(file)):
        list(Dataset.load(tmp_path))
    rest = [x.tolist() for x in Dataset.load(tmp_path).ignore_errors()]
    assert rest == whole[:1] + whole[2:]


def records_of(chunk):
    """Where the records of a chunk begin."""
    return [i for i in range(64, len(chunk), 64) if chunk[i : i + 4] == b"MRR1"]


def test_a_record_of_another_chunk_is_no_part_of_this_one(tmp_path):
    """Sound in itself, of the same size and in the same place."""
    for name, first in (("a", 0), ("b", 7)):
        ds = Dataset.range(first, first + 250_000).batch(50_000)  # each is a record of its own
        ds.save(str(tmp_path / name), compression="NONE")
    (path,), (other,) = chunks_of(tmp_path / "a"), chunks_of(tmp_path / "b")
    chunk, foreign = path.read_bytes(), other.read_bytes()
    at = records_of(chunk)
    assert at == records_of(foreign) and len(at) > 3
    replace(path, chunk[: at[1]] + foreign[at[1] : at[2]] + chunk[at[2] :])
    got = []
    with pytest.raises(mr.errors.DataLossError, match="does not belong behind those before it"):
        for batch in Dataset.load(str(tmp_path / "a")):
            got += batch.tolist()
    assert got == list(range(len(got))) and 0 < len(got) < 250_000


def test_records_of_files_are_saved_with_elements(tmp_path):
    (tmp_path / "text").write_text("1\n2\nx\n")
    mr.TextLineDataset(tmp_path / "text").save(tmp_path / "lines")
    with pytest.raises(mr.errors.InvalidArgumentError, match="text', record 2, offset 4"):
        list(Dataset.load(tmp_path / "lines").map(mr.strings.to_number))


def test_damaged_manifests(tmp_path):
    Dataset.range(4).save(tmp_path)
    manifest = tmp_path / "manifest.json"
    content = manifest.read_bytes()
    said = json.loads(content.splitlines()[0])
    assert said["rows"] == 4 and said["fingerprint"] == Dataset.range(4).fingerprint().hex()
    for damage in (
        b"",
        b"{}",
        content[:-1],
        content[:50],
        content.replace(b'"rows":4', b'"rows":5'),
    ):
        manifest.write_bytes(damage)
        with pytest.raises(mr.errors.DataLossError, match=str(manifest)):
            Dataset.load(tmp_path)


@pytest.fixture(params=["cache", "snapshot", "sharded snapshot"])
def keep(request, tmp_path):
    """Dataset -> the same, kept in files; and where they are."""
    by_two = {"shard_func": lambda x: x % 2, "reader_func": None}
    return {
        "cache": lambda ds: ds.cache(tmp_path / "kept"),
        "snapshot": lambda ds: ds.snapshot(tmp_path / "kept"),
        "sharded snapshot": lambda ds: ds.snapshot(tmp_path / "kept", **by_two),
    }[request.param]


def counted(limit):
    """Numbers below @limit, of which nobody knows how many there are, with another one each pass."""
    return Dataset.range(limit).filter(lambda x: x >= 0)


def manifests(tmp_path):
    return sorted((tmp_path / "kept").rglob("manifest.json"))


def test_the_first_complete_pass_is_kept(tmp_path, keep):
    drawn = Dataset.range(50).shuffle(50)  # other orders show that it is read
    ds = keep(drawn.filter(lambda x: x >= 0))
    assert len(list(ds.take(49))) == 49
    assert manifests(tmp_path) == [] and list((tmp_path / "kept").rglob("*.unfinished")) == []
    first = list(ds)
    assert sorted(first) == list(range(50))
    assert len(manifests(tmp_path)) == 1
    later = [list(ds), list(keep(drawn.filter(lambda x: x >= 0))), list(ds.take(50))]
    assert all(one == later[0] for one in later) and sorted(later[0]) == sorted(first)
    assert list(ds.repeat(2)) == later[0] * 2


def test_a_pass_of_known_length_need_not_see_its_end(tmp_path, keep):
    it = iter(keep(Dataset.range(5)))
    assert [next(it) for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(manifests(tmp_path)) == 1


def test_repeats_write_once(tmp_path, keep):
    assert list(keep(counted(4)).repeat(3)) == [0, 1, 2, 3] * 3
    assert len(chunks_of(manifests(tmp_path)[0].parent)) in (1, 2)


def test_one_writes_at_a_time(tmp_path, keep):
    ds = keep(counted(100000))
    with iter(ds) as first:
        next(first)
        with pytest.raises(mr.errors.AlreadyExistsError, match="kept.*/lock"):
            list(ds)
        assert sum(1 for _ in first) == 99999
    assert sorted(ds) == list(range(100000))
    assert list((tmp_path / "kept").rglob("lock")) == []


def test_nobody_saves_where_a_pass_is_being_kept(tmp_path):
    with iter(counted(100000).cache(tmp_path)) as it:
        next(it)
        with pytest.raises(mr.errors.AlreadyExistsError, match="lock"):
            Dataset.range(3).save(tmp_path)
        assert sum(1 for _ in it) == 99999
    Dataset.range(3).save(tmp_path)
    assert list(Dataset.load(tmp_path)) == [0, 1, 2]


def test_who_comes_second_may_come_back(keep):
    ds = keep(counted(100000))
    first, second = iter(ds), iter(ds)
    next(first)
    with pytest.raises(mr.errors.AlreadyExistsError):
        next(second)
    first.close()
    assert sorted(second) == list(range(100000))


def test_a_pass_with_a_failed_element_is_not_kept(tmp_path, keep):
    fails = Dataset.range(5).map(lambda x: 10 // (x - 2) + 20)
    for _ in range(2):
        assert list(keep(fails).ignore_errors()) == [15, 10, 30, 25]
        assert manifests(tmp_path) == []
    assert list(keep(fails.ignore_errors())) == [15, 10, 30, 25]
    assert len(manifests(tmp_path)) == 1


def test_positions_of_passes_that_are_kept(tmp_path, keep):
    ds = keep(Dataset.range(3000).batch(1).map(lambda x: x[0]))
    whole = list(range(3000))
    before = iter(ds)
    assert list(itertools.islice(before, 5)) == whole[:5]
    state = before.get_state()
    before.close()
    again = iter(ds)
    again.set_state(state)
    assert list(again) == whole[5:]
    assert manifests(tmp_path) == []  # half of a pass is none
    assert list(ds) == whole
    reading = iter(ds)
    head = list(itertools.islice(reading, 777))
    again = iter(ds)
    again.set_state(reading.get_state())
    assert head + list(again) == list(ds)


def test_what_is_kept_is_a_saved_dataset(tmp_path, keep):
    ds = counted(9).map(lambda x: x * 1)
    assert list(keep(ds)) == list(range(9))
    saved = manifests(tmp_path)[0]
    assert sorted(Dataset.load(saved.parent)) == list(range(9))
    assert json.loads(saved.read_text().splitlines()[0])["rows"] == 9


def test_kept_by_fingerprint_or_by_name(tmp_path):
    assert list(Dataset.range(3).snapshot(tmp_path / "s")) == [0, 1, 2]
    assert list(Dataset.range(4).snapshot(tmp_path / "s")) == [0, 1, 2, 3]
    assert list(Dataset.range(3).cache(tmp_path / "c")) == [0, 1, 2]
    assert list(Dataset.range(4).cache(tmp_path / "c")) == [0, 1, 2]
    with pytest.raises(mr.errors.InvalidArgumentError, match="component 0"):
        list(Dataset.from_tensors("x").cache(tmp_path / "c"))


def test_a_snapshot_has_readers_and_shards(tmp_path):
    ds = Dataset.range(6).snapshot(
        tmp_path,
        "ZSTD",
        shard_func=lambda x: x % 2,
        reader_func=lambda shards: shards.flat_map(lambda shard: shard),
    )
    assert [list(ds) for _ in range(3)] == [
        [0, 1, 2, 3, 4, 5],
        [0, 2, 4, 1, 3, 5],
        [0, 2, 4, 1, 3, 5],
    ]
    assert len(ds) == 6
    with pytest.raises(mr.errors.InvalidArgumentError, match="shard"):
        Dataset.range(3).snapshot(tmp_path, shard_func=lambda x: "a")
    with pytest.raises(mr.errors.InvalidArgumentError, match="component 0"):
        Dataset.range(3).snapshot(
            tmp_path, reader_func=lambda s: s.flat_map(lambda d: d.map(mr.strings.as_string))
        )
    with pytest.raises(TypeError, match="reader_func"):
        Dataset.range(3).snapshot(tmp_path, reader_func=lambda s: s)
    with pytest.raises(ValueError):
        Dataset.range(3).snapshot(tmp_path, "gzip")


def test_where_nothing_can_be_kept(tmp_path):
    with pytest.raises(mr.errors.UnimplementedError, match="function"):
        Dataset.range(2).flat_map(lambda x: Dataset.range(3).cache(tmp_path / "x"))
    with pytest.raises(TypeError):
        Dataset.range(2).flat_map(lambda x: Dataset.range(3).cache(mr.strings.as_string(x)))
    (tmp_path / "file").write_text("x")
    with pytest.raises(mr.errors.FailedPreconditionError, match="file"):
        list(Dataset.range(2).cache(tmp_path / "file"))
    with pytest.raises(mr.errors.MillraceError, match="/proc"):
        list(Dataset.range(2).cache("/proc/millrace"))


@pytest.fixture
def file_size_limit():
    """Sets how long files of this process may get: what a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_no_room_for_the_files(tmp_path, file_size_limit):
    ds = counted(100000)
    ds.save(tmp_path / "saved")
    before = sorted(tmp_path.rglob("*"))
    file_size_limit(1 << 18)
    with pytest.raises(mr.errors.ResourceExhaustedError, match="chunk.unfinished.*too large"):
        ds.map(lambda x: x + 1).save(tmp_path / "saved")
    with pytest.raises(mr.errors.ResourceExhaustedError, match="chunk.unf.*too large") as raised:
        list(ds.cache(tmp_path / "kept").ignore_errors())
    assert raised.value.permanent
    assert sorted(tmp_path.rglob("*")) == sorted([*before, tmp_path / "kept"])
    assert sum(1 for _ in Dataset.load(tmp_path / "saved")) == 100000


KILLED = """
import os, signal, sys
import millrace as mr

ds = mr.Dataset.range(1000000).filter(lambda x: x >= 0).cache(sys.argv[1])
for x in ds:
    if x == 500000:
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_leaves_is_removed(tmp_path):
    path = tmp_path / "kept"
    done = subprocess.run([sys.executable, "-c", KILLED, path])
    assert done.returncode == -signal.SIGKILL
    left = [p.name for p in path.rglob("*") if p.is_file() and p.name != "lock"]
    assert sorted(left) == ["00000-00000000.chunk.unfinished", "manifest.json.unfinished"]
    (path / "notes").mkdir()
    assert list(counted(3).cache(path)) == [0, 1, 2]
    assert list(Dataset.load(path)) == [0, 1, 2]
    run = json.loads((path / "manifest.json").read_text().splitlines()[0])["run"]
    assert sorted(p.name for p in path.iterdir()) == sorted([run, "manifest.json", "notes"])


KILLED_SAVE = """
import sys
import millrace as mr

path, n, last = sys.argv[1], int(sys.argv[2]), sys.argv[3]
lines = mr.TextLineDataset(last).map(lambda x: mr.strings.to_number(x, mr.int64))
mr.Dataset.range(n).concatenate(lines).save(path, chunk_bytes=1 << 19)
"""


def test_a_save_that_was_killed_is_in_nobodys_way(tmp_path):
    """There is what was there before; the next save works, and removes what the dead one left."""
    path, fifo = tmp_path / "saved", tmp_path / "fifo"
    os.mkfifo(fifo)
    counted(5).save(path)
    whole = set(path.iterdir())
    for files in (2, 9):
        n = files * (1 << 16) - 20000  # half of the last file is there, and some in memory
        process = subprocess.Popen(
            with_parent([sys.executable, "-c", KILLED_SAVE, path, str(n), fifo])
        )
        end = wait_until(lambda: writer_of(fifo), "all that comes before the lines is saved")
        process.kill()
        process.wait()
        os.close(end)
        left = set(path.iterdir()) - whole
        assert len(left) == 2  # the lock, too
        assert len(chunks_of(path)) == files, chunks_of(path)
        assert list(Dataset.load(path)) == [0, 1, 2, 3, 4]
    counted(3).save(path)
    assert list(Dataset.load(path)) == [0, 1, 2]
    run = json.loads((path / "manifest.json").read_text().splitlines()[0])["run"]
    assert set(path.iterdir()) == {*whole, path / run}
    assert not list(path.rglob("*.unfinished"))


def test_a_forked_child_removes_nothing(tmp_path):
    it = iter(counted(100000).cache(tmp_path))
    next(it)
    child = os.fork()
    if child == 0:
        del it
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert sum(1 for _ in it) == 99999
    assert len(list(Dataset.load(tmp_path))) == 100000


def test_kept_for_each_worker_or_not_at_all(make_cluster, tmp_path):
    cluster = make_cluster(workers=1)
    ds = Dataset.range(100).map(lambda x: x * 2).cache(tmp_path / "kept")
    with pytest.raises(mr.errors.UnimplementedError, match="DYNAMIC"):
        list(ds.apply(cluster.distribute("distributed_epoch")))
    off = ds.apply(cluster.distribute(mr.service.ShardingPolicy.OFF))
    assert sorted(off) == list(range(0, 200, 2))
    assert list(Dataset.load(tmp_path / "kept")) == list(range(0, 200, 2))


def test_two_workers_share_the_files(make_cluster, tmp_path):
    cluster = make_cluster(workers=2)
    ds = Dataset.range(1000).map(lambda x: (x, mr.strings.as_string(x))).batch(10)
    ds.save(tmp_path / "chunks", "ZSTD", chunk_bytes=1)
    ds.save(tmp_path / "shards", shard_func=lambda x, s: x[0] // 10 % 7)
    assert len(chunks_of(tmp_path / "shards")) == 7
    loaded = [
        Dataset.load(tmp_path / "chunks"),
        Dataset.load(tmp_path / "shards"),
        Dataset.load(
            tmp_path / "shards", reader_func=lambda shards: shards.flat_map(lambda shard: shard)
        ),
    ]
    for one in loaded:
        got = [
            (int(x), s)
            for xs, ss in one.apply(cluster.distribute("distributed_epoch"))
            for x, s in zip(xs, ss)
        ]
        assert sorted(got) == [(x, str(x).encode()) for x in range(1000)]
