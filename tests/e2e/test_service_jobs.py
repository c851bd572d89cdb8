"""Jobs: names, sharing, repetitions; DYNAMIC sharding."""

import collections
import gc
import itertools
import multiprocessing
import random
import threading
import warnings

import numpy as np
import pytest

import millrace as mr

Dataset = mr.Dataset


def values(ds):
    return [int(x) for x in ds]


def copies(values, n):
    return collections.Counter({v: n for v in values})


def alternate(*readers):
    """All elements of several iterators, taken in turn."""
    out, alive = [], list(readers)
    while alive:
        for reader in list(alive):
            try:
                out.append(int(next(reader)))
            except StopIteration:
                alive.remove(reader)
    return out


# ---- names ----


@pytest.mark.parametrize("leave", ["break", "close", "close twice", "take"])
@pytest.mark.parametrize("batch", [0, 10])
def test_who_leaves_early_loses_nothing(make_cluster, batch, leave, monkeypatch):
    """What a reader had received and not returned goes to the next reader of the job."""
    cluster = make_cluster(workers=2)
    numbers = Dataset.range(1000) if not batch else Dataset.range(1000).batch(batch)

    def first_epoch():
        return numbers.apply(cluster.distribute("distributed_epoch", job_name="shared"))

    n, got = 100 if not batch else 10, []
    it = iter(first_epoch().take(n) if leave == "take" else first_epoch())
    for x in it:
        got.append(x)
        if len(got) == n and leave != "take":
            break
    if leave == "close twice":  # an exception out of a signal handler ended the first one

        def interrupt(iterator):
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(type(it), "_ask_round", interrupt)
            it.close()
    if leave.startswith("close"):
        it.close()
    del it
    never = iter(first_epoch())
    never.close()  # before the first element
    rest = iter(first_epoch())
    got += list(rest)
    assert sorted(int(v) for x in got for v in (x if batch else [x])) == list(range(1000))
    assert str(rest.losses) == "nothing lost"


# One element in hand at a time, whatever comes between the read and the loop.
BEHIND = {
    "batch": lambda ds: ds.batch(10).map(lambda x: x),
    "concatenate": lambda ds: ds.concatenate(Dataset.range(0)),
    "enumerate": lambda ds: ds.enumerate().map(lambda i, x: x),
    "filter": lambda ds: ds.filter(lambda x: x >= 0),
    "flat_map": lambda ds: ds.flat_map(Dataset.from_tensors),
    "ignore_errors": lambda ds: ds.ignore_errors(),
    "repeat": lambda ds: ds.repeat(1),
    "skip": lambda ds: ds.skip(0),
    "take_while": lambda ds: ds.take_while(lambda x: x >= 0),
    "unbatch": lambda ds: ds.batch(10).unbatch(),
    "zip": lambda ds: Dataset.zip(Dataset.range(1000), ds).map(lambda i, x: x),
}


@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once"])
def test_operators_behind_the_read_that_hold_nothing_lose_nothing(cluster, guarantee):
    for name, behind in BEHIND.items():
        read = cluster.distribute("distributed_epoch", job_name=name, guarantee=guarantee)
        it = iter(behind(Dataset.range(1000).apply(read)))
        got = []
        while len(got) < 100:
            got.extend(np.atleast_1d(next(it)).tolist())
        it.close()
        got.extend(values(Dataset.range(1000).apply(read)))
        assert sorted(set(got)) == list(range(1000)), name
        assert guarantee == "at_least_once" or len(got) == 1000, name


@pytest.mark.parametrize("prefetch", [0, 10])
def test_readers_come_and_go_and_lose_nothing(make_cluster, prefetch):
    """
    Each closes at another place; who meets the end was there when the others had closed. If this
    process had to wait for a CPU for so long that the end did not wait for one of them, what that
    one closes with is counted.
    """
    cluster, out, gone, lock = make_cluster(workers=2), [], [], threading.Lock()
    dice = random.Random(7)
    limits = [[dice.choice([0, 1, 5, 50, 200]) for _ in range(20)] + [None] for _ in range(3)]

    def read(limits):
        for limit in limits:
            ds, mine = (
                Dataset.range(20_000).apply(
                    cluster.distribute("distributed_epoch", job_name="shared")
                ),
                [],
            )
            it = iter(ds.prefetch(prefetch) if prefetch else ds)
            if limit != 0:
                try:
                    for x in it:
                        mine.append(int(x))
                        if len(mine) == limit:
                            break
                except mr.errors.FailedPreconditionError:
                    break  # the others have read all of it
            it.close()
            with lock:
                out.extend(mine)
                gone.append(it.losses.abandoned_elements)

    threads = [threading.Thread(target=read, args=(mine,)) for mine in limits]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(out) == len(set(out)) and set(out) <= set(range(20_000))
    assert 20_000 - len(out) <= sum(gone)


def test_readers_of_one_job_share_its_elements(cluster):
    ds = Dataset.range(1000).shuffle(100)
    readers = [iter(ds.apply(cluster.distribute(job_name="shared"))) for _ in range(2)]
    head = [int(next(readers[i % 2])) for i in range(100)]
    assert sorted(head + alternate(*readers)) == list(range(1000))


def test_jobs_of_different_names_are_independent(cluster):
    for name in ("one", "two"):
        assert values(Dataset.range(10).apply(cluster.distribute(job_name=name))) == list(range(10))


def test_shared_jobs_repeat_together(cluster):
    readers = [
        iter(Dataset.range(100).apply(cluster.distribute(job_name="r")).repeat(3)) for _ in range(2)
    ]
    head = [int(x) for r in readers for x in itertools.islice(r, 20)]
    assert collections.Counter(head + alternate(*readers)) == copies(range(100), 3)


def test_one_object_with_a_name_can_be_read_again_and_again(cluster):
    ds = Dataset.range(10).apply(cluster.distribute(job_name="again"))
    for _ in range(5):
        assert values(ds) == list(range(10))


def test_who_begins_anew_under_a_used_name_is_told_what_to_write(cluster, capfd):
    first, anew = [Dataset.range(10).apply(cluster.distribute(job_name="used")) for _ in range(2)]
    assert values(first) == list(range(10))
    with pytest.raises(
        mr.errors.FailedPreconditionError,
        match="job 'used' had ended its epoch 0 .* another job_name",
    ):
        list(anew)
    assert values(anew) == list(range(10))  # the next epoch
    assert values(first) == []  # which this object has come too late for
    assert (
        "an epoch of a job is over: nothing is left for this read of it job=used epoch=1\n"
        in capfd.readouterr().err
    )


def _read_epochs(ds, epochs, everybody, queue):
    """One of a DataLoader's processes: it has got the dataset, and reads it once an epoch."""
    for epoch in range(epochs):
        try:
            it = iter(ds)
            everybody.wait()  # so that nobody comes too late
            queue.put((epoch, [int(x) for x in it]))
        except mr.errors.MillraceError as e:
            queue.put((epoch, str(e)))
        everybody.wait()


def _run_loader(ds, processes, epochs=1):
    """
    What @processes new processes read of @epochs epochs: a list of what each one got, for each
    epoch.
    """
    # An iterator that an earlier test's exception still holds would be open in the children
    gc.collect()
    context = multiprocessing.get_context("fork")
    queue, everybody = context.Queue(), context.Barrier(processes)
    children = [
        context.Process(target=_read_epochs, args=(ds, epochs, everybody, queue))
        for _ in range(processes)
    ]
    for child in children:
        child.start()
    got = [[] for _ in range(epochs)]
    for _ in range(epochs * processes):
        epoch, elements = queue.get(timeout=200)
        got[epoch].append(elements)
    for child in children:
        child.join()
    return got


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_that_stay_read_epoch_after_epoch(make_cluster, processes):
    cluster = make_cluster(workers=2)
    ds = Dataset.range(500).apply(cluster.distribute("distributed_epoch", job_name="stay"))
    for readers in _run_loader(ds, processes, epochs=3):
        assert sorted(x for elements in readers for x in elements) == list(range(500))


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_that_begin_anew_say_which_epoch_is_theirs(make_cluster, processes):
    cluster = make_cluster(workers=2)
    made = Dataset.range(500).shuffle(500, seed=5)
    orders = set()
    for epoch in range(3):
        ds = made.apply(cluster.distribute("distributed_epoch", job_name="anew", first_epoch=epoch))
        [readers] = _run_loader(ds, processes)
        assert sorted(x for elements in readers for x in elements) == list(range(500))
        orders.add(tuple(map(tuple, readers)))
    assert len(orders) == 3  # the order is that of the epoch
    [readers] = _run_loader(
        ds, processes
    )  # who forgets to count has an error, not an epoch without elements
    assert all("had ended its epoch 2" in said and "first_epoch=3" in said for said in readers)


def test_a_first_epoch_is_counted_on_from(cluster):
    ds = Dataset.range(5).apply(cluster.distribute(job_name="j", first_epoch=7))
    assert values(ds) == values(ds) == list(range(5))
    with pytest.raises(
        mr.errors.FailedPreconditionError, match="had ended its epoch 8 .* first_epoch=9"
    ):
        list(Dataset.range(5).apply(cluster.distribute(job_name="j", first_epoch=8)))
    for wrong in (-1, 1.5, True, "0", 2**60):
        with pytest.raises(ValueError, match="first_epoch"):
            cluster.distribute(job_name="j", first_epoch=wrong)
    with pytest.raises(ValueError, match="first_epoch needs a job_name"):
        cluster.distribute(first_epoch=1)


def shares(ds, mode="distributed_epoch"):
    """What distribute() warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ds.apply(mr.service.distribute(mode, "grpc://nobody:1"))
    assert (
        all(w.category is mr.errors.ShardingWarning and w.filename == __file__ for w in caught)
        and len(caught) <= 1
    )
    return "".join(str(w.message) for w in caught)


def test_what_counts_by_share_is_warned_of_once():
    ten, mixed = Dataset.range(10), Dataset.range(10).shuffle(10)
    assert "take before distribute" in shares(ten.take(3)) and "behind distribute" in shares(
        ten.take(3)
    )
    assert "shard, skip, take before" in shares(
        ten.take(3).skip(1).map(lambda x: x).shard(2, 1).with_options(mr.Options()).batch(2)
    )
    assert "zip of several sources" in shares(Dataset.zip(mixed, ten))
    assert "take before" in shares(Dataset.zip(mixed.take(2), ten)) and "zip of" in shares(
        Dataset.zip(mixed.take(2), ten)
    )
    for harmless in (
        ten,
        Dataset.zip(ten, ten.map(lambda x: x)),
        ten.take(-1).skip(0).shard(1, 0),
        mixed.enumerate(),
        ten.repeat().batch(2),
        ten.flat_map(lambda x: Dataset.range(x).take(2)),
        Dataset.sample_from_datasets([ten, ten], [1.0, 0.0]),
    ):
        assert shares(harmless) == ""
    assert shares(ten.take(3), "parallel_epochs") == ""


def test_a_job_has_one_processing_mode(cluster):
    a = Dataset.range(100).apply(cluster.distribute("parallel_epochs", job_name="mode"))
    b = Dataset.range(100).apply(cluster.distribute("distributed_epoch", job_name="mode"))
    with pytest.raises(mr.errors.InvalidArgumentError, match="(?i)mode"):
        list(Dataset.zip(a, b))


@pytest.mark.parametrize("names", [("x", "y"), (None, None)])
def test_jobs_of_different_modes_side_by_side(cluster, names):
    a = Dataset.range(100).apply(cluster.distribute("parallel_epochs", job_name=names[0]))
    b = Dataset.range(100).apply(cluster.distribute("distributed_epoch", job_name=names[1]))
    pairs = list(Dataset.zip(a, b))
    assert len(pairs) == 100
    assert sorted(int(x) for x, _ in pairs) == sorted(int(y) for _, y in pairs) == list(range(100))


# ---- DYNAMIC ----


@pytest.mark.parametrize("name", [None, "job"])
def test_dynamic_gives_each_element_once_over_all_workers(make_cluster, name):
    cluster = make_cluster(workers=2)
    assert sorted(
        values(Dataset.range(100).apply(cluster.distribute("distributed_epoch", job_name=name)))
    ) == list(range(100))


def test_dynamic_with_repeat_before_the_service(make_cluster):
    cluster = make_cluster(workers=2)
    ds = Dataset.range(20).repeat(5).apply(cluster.distribute("distributed_epoch"))
    assert collections.Counter(values(ds)) == copies(range(20), 5)


def test_dynamic_with_repeat_in_the_client(make_cluster):
    cluster = make_cluster(workers=2)
    ds = Dataset.range(20).apply(cluster.distribute("distributed_epoch")).repeat(5)
    assert collections.Counter(values(ds)) == copies(range(20), 5)


def test_dynamic_without_an_end(make_cluster):
    cluster = make_cluster(workers=2)
    ds = Dataset.range(20).repeat().apply(cluster.distribute("distributed_epoch"))
    seen = collections.Counter(int(x) for x in itertools.islice(ds, 1000))
    assert all(seen[v] > 25 for v in range(20))


@pytest.mark.parametrize("sizes", [(10, 10), (200, 1000)])
def test_dynamic_keeps_the_pairs_of_a_zip(cluster, sizes):
    ds = Dataset.zip(*map(Dataset.range, sizes)).apply(cluster.distribute("distributed_epoch"))
    assert [(int(a), int(b)) for a, b in ds] == [(i, i) for i in range(sizes[0])]


def test_a_zip_is_one_source_also_with_several_workers(make_cluster):
    cluster = make_cluster(workers=2)
    ds = Dataset.zip(Dataset.range(50), Dataset.range(100, 200)).apply(
        cluster.distribute("distributed_epoch")
    )
    assert sorted((int(a), int(b)) for a, b in ds) == [(i, 100 + i) for i in range(50)]


@pytest.mark.parametrize(
    "what",
    [
        lambda ds: ds.filter(lambda x: x >= 0),
        lambda ds: ds.shuffle(5),
        lambda ds: ds.repeat(1),
        lambda ds: ds.batch(1).unbatch(),
    ],
)
def test_enumerate_numbers_what_each_worker_makes(make_cluster, what):
    cluster = make_cluster(workers=2)
    got = list(what(Dataset.range(64)).enumerate(7).apply(cluster.distribute("distributed_epoch")))
    assert sorted(int(x) for _, x in got) == list(range(64))
    numbers = sorted(int(i) for i, _ in got)
    most = numbers[-1] - 6  # what the worker with more elements has made
    assert numbers == sorted([*range(7, 7 + most), *range(7, 7 + 64 - most)])


def test_enumerate_numbers_the_elements_of_a_source(make_cluster):
    cluster = make_cluster(workers=2)
    ds = (
        Dataset.range(100, 150)
        .map(lambda x: x + 1)
        .enumerate()
        .apply(cluster.distribute("distributed_epoch"))
    )
    assert sorted((int(i), int(x)) for i, x in ds) == [(i, 101 + i) for i in range(50)]


@pytest.mark.parametrize("workers", [1, 3])
def test_dynamic_over_a_concatenation(make_cluster, workers):
    cluster = make_cluster(workers=workers)
    got = values(
        Dataset.range(100)
        .concatenate(Dataset.range(100, 200))
        .apply(cluster.distribute("distributed_epoch"))
    )
    assert (got if workers == 1 else sorted(got)) == list(range(200))


def test_dynamic_over_datasets_of_elements(make_cluster):
    cluster = make_cluster(workers=2)
    ds = Dataset.from_tensor_slices([1, 5, 0])
    for made in (
        ds.interleave(Dataset.from_tensors),
        ds.flat_map(Dataset.from_tensors),
        ds.interleave(Dataset.from_tensors, cycle_length=10, num_parallel_calls=10),
    ):
        assert sorted(values(made.apply(cluster.distribute("distributed_epoch")))) == [0, 1, 5]


def test_dynamic_samples_keep_their_weights(make_cluster):
    cluster = make_cluster(workers=3)
    ds = Dataset.sample_from_datasets(
        [Dataset.from_tensors(i).repeat() for i in range(3)], [0.6, 0.3, 0.1], seed=1
    )
    seen = collections.Counter(
        int(x) for x in itertools.islice(ds.apply(cluster.distribute("distributed_epoch")), 200)
    )
    assert seen[0] > seen[1] > seen[2]


def test_what_cannot_be_split_is_unimplemented(cluster):
    ds = Dataset.range(10).apply(cluster.distribute()).map(lambda x: x + 1)
    registered = mr.service.register_dataset(cluster.service, ds)
    with pytest.raises(mr.errors.UnimplementedError, match="distribute.*cannot be split"):
        list(mr.service.from_dataset_id("distributed_epoch", cluster.service, registered))


def test_dynamic_with_shuffle_and_repeat(make_cluster):
    cluster = make_cluster(workers=2)
    ds = Dataset.range(20).shuffle(20).repeat(5).apply(cluster.distribute("distributed_epoch"))
    assert collections.Counter(values(ds)) == copies(range(20), 5)


def test_dynamic_over_files(make_cluster, tmp_path):
    for i in range(5):
        with mr.io.TFRecordWriter(str(tmp_path / f"{i}.tfrecord")) as writer:
            for k in range(5):
                writer.write(b"%d" % (5 * i + k))
    cluster = make_cluster(workers=3)
    ds = Dataset.list_files(str(tmp_path / "*.tfrecord"), shuffle=True).interleave(
        mr.TFRecordDataset
    )
    assert sorted(int(x) for x in ds.apply(cluster.distribute("distributed_epoch"))) == list(
        range(25)
    )
    ds = mr.TFRecordDataset(sorted(str(p) for p in tmp_path.iterdir()))
    assert sorted(int(x) for x in ds.apply(cluster.distribute("distributed_epoch"))) == list(
        range(25)
    )


def test_the_old_names_of_the_modes(make_cluster):
    cluster = make_cluster(workers=2)
    for mode, n in (
        ("distributed_epoch", 1),
        ("parallel_epochs", 2),
        (mr.service.ShardingPolicy.DYNAMIC, 1),
        (mr.service.ShardingPolicy.OFF, 2),
    ):
        assert collections.Counter(
            values(Dataset.range(100).apply(cluster.distribute(mode)))
        ) == copies(range(100), n)


def test_seeded_off_copies_are_equal_and_unseeded_ones_differ(make_cluster):
    cluster = make_cluster(workers=1)
    read = lambda seed: values(
        Dataset.range(200).shuffle(200, seed=seed).apply(cluster.distribute())
    )  # noqa: E731
    assert read(5) == read(5)
    assert read(None) != read(None)
