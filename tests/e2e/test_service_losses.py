"""
What a read ends without and how it says so; guarantees; workers out of reach; clients that were
away for too long.
"""

import collections
import itertools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from concurrent import futures

import pytest

import millrace as mr
from millrace._capi import ffi as _ffi
from conftest import free_port, freeze, lives_lost, thaw, wait_until, with_parent, writer_of

Dataset = mr.Dataset
GUARANTEES = ("at_most_once", "at_least_once")
CLIENT_MS = 2000
IN_HAND = (
    64 + 64
)  # max_outstanding_requests, and a block: so much is gone with a client that is given up


def values(it):
    return [int(x) for x in it]


def slowly(n):
    """
    A dataset of 0..n-1 that takes a worker a while: what is under way when something happens is not
    a matter of luck.
    """
    return Dataset.range(n).map(
        lambda x: x + mr.cast(mr.reduce_sum(mr.range(20_000)) * 0, mr.int64)
    )


def wait_for_tasks(cluster, what):
    """
    Until every worker has a task with some of @what; one that was given up since it had to wait for
    a CPU has another one.
    """

    def begun():
        tasks = [t for t in cluster.tasks() if t["state"] == "open"]
        return len(tasks) == len(cluster.workers) and all(int(t.get(what, 0)) for t in tasks)

    wait_until(begun, f"every worker has {what}")


def wait_for_splits(cluster):
    wait_for_tasks(cluster, "splits")


# ---- arguments ----


def test_guarantees_and_what_to_do_about_losses():
    service = "grpc://127.0.0.1:1"
    spec = mr.TensorSpec([], mr.int64)
    for guarantee, on_loss in itertools.product(GUARANTEES, ("warn", "error")):
        mr.service.distribute("distributed_epoch", service, guarantee=guarantee, on_loss=on_loss)
        mr.service.from_dataset_id(
            "distributed_epoch", service, "id", spec, guarantee=guarantee, on_loss=on_loss
        )
    for arguments in (
        {"guarantee": "at_will"},
        {"guarantee": None},
        {"on_loss": "ignore"},
        {"on_loss": None},
    ):
        with pytest.raises(ValueError):
            mr.service.distribute("distributed_epoch", service, **arguments)
        with pytest.raises(ValueError):
            mr.service.from_dataset_id("distributed_epoch", service, "id", spec, **arguments)
    with pytest.raises(mr.errors.UnimplementedError, match="exactly_once"):
        mr.service.from_dataset_id(
            "distributed_epoch", service, "id", spec, guarantee="exactly_once"
        )
    with pytest.raises(ValueError, match="DYNAMIC"):
        mr.service.distribute("parallel_epochs", service, guarantee="at_least_once")


def test_a_job_has_one_guarantee(cluster):
    a = Dataset.range(10).apply(cluster.distribute("distributed_epoch", job_name="g"))
    b = Dataset.range(10).apply(
        cluster.distribute("distributed_epoch", job_name="g", guarantee="at_least_once")
    )
    with pytest.raises(mr.errors.InvalidArgumentError, match="guarantee"):
        list(Dataset.zip(a, b))


# ---- workers that are lost ----


def test_nothing_is_said_when_nothing_is_lost(cluster):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        it = iter(
            Dataset.range(100).apply(cluster.distribute("distributed_epoch", on_loss="error"))
        )
        assert values(it) == list(range(100))
    assert it.losses == mr.Losses() and str(it.losses) == "nothing lost"
    assert it.skipped == 0
    assert iter(Dataset.range(3)).losses == mr.Losses()
    assert iter(Dataset.range(3)).skipped == 0


def test_at_most_once_leaves_out_what_a_lost_worker_had(make_cluster):
    cluster = make_cluster(workers=2, worker_timeout_ms=2000)
    it = iter(slowly(3000).apply(cluster.distribute("distributed_epoch")))
    got = values(itertools.islice(it, 10))
    wait_for_splits(cluster)
    cluster.workers[0].kill()
    with pytest.warns(mr.DataLossWarning, match="elements missing: .* workers? lost") as said:
        got += values(it)
    assert len(said) == 1 and said[0].filename == __file__
    assert len(got) == len(set(got)) and set(got) < set(range(3000))
    assert 3000 - len(got) <= it.losses.lost_splits < 3000
    assert it.losses.lost_elements == it.losses.lost_splits
    assert f"lost (at most {it.losses.lost_elements} element" in str(it.losses) and str(
        it.losses
    ) in str(said[0].message)
    assert 1 <= it.losses.lost_workers <= lives_lost(cluster)
    assert (it.losses.incomplete_reads, it.losses.repeated_splits) == (1, 0)


@pytest.mark.parametrize("mode", ["distributed_epoch", "parallel_epochs"])
def test_a_loss_can_be_an_error_in_place_of_the_end(make_cluster, mode):
    cluster = make_cluster(workers=2, worker_timeout_ms=2000)
    it = iter(slowly(3000).apply(cluster.distribute(mode, on_loss="error")))
    got = values(itertools.islice(it, 10))
    wait_for_tasks(cluster, "produced")
    cluster.workers[0].kill()
    with pytest.raises(mr.errors.DataLossError, match="workers? lost"):
        for x in it:
            got.append(int(x))
    assert it.losses.incomplete_reads == 1
    lost = lives_lost(cluster)
    assert 1 <= it.losses.lost_workers <= lost
    assert max(collections.Counter(got).values()) <= (
        1 if mode == "distributed_epoch" else 1 + lost
    )
    if mode == "parallel_epochs":
        assert set(got) == set(range(3000))  # the copy of the other one


def test_each_pass_is_told_of_once(make_cluster):
    cluster = make_cluster(workers=2, worker_timeout_ms=2000)
    it = iter(slowly(3000).apply(cluster.distribute("distributed_epoch")).repeat(2))
    got = values(itertools.islice(it, 10))
    wait_for_splits(cluster)
    cluster.workers[0].kill()
    with pytest.warns(mr.DataLossWarning) as said:
        got += values(it)
    assert len(said) == 1 and it.losses.incomplete_reads == 1
    assert collections.Counter(got).keys() == set(range(3000))  # the second pass has them all


def test_a_read_that_is_left_early_is_not_told_of(make_cluster):
    cluster = make_cluster(workers=2, worker_timeout_ms=2000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        it = iter(
            slowly(3000).apply(cluster.distribute("distributed_epoch", on_loss="error")).take(500)
        )
        values(itertools.islice(it, 10))
        wait_for_splits(cluster)
        cluster.workers[0].kill()
        assert len(values(it)) == 490


def test_at_least_once_has_others_do_it_again(make_cluster):
    cluster = make_cluster(workers=3, worker_timeout_ms=2000)
    it = iter(
        slowly(3000).apply(
            cluster.distribute("distributed_epoch", guarantee="at_least_once", on_loss="error")
        )
    )
    got = values(itertools.islice(it, 10))
    wait_for_splits(cluster)
    cluster.workers[0].kill()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        got += values(it)  # repeats alone are no error
    times = collections.Counter(got)
    assert times.keys() == set(range(3000))
    assert len(got) - 3000 <= it.losses.repeated_splits
    assert (
        it.losses.lost_splits == 0
        and it.losses.incomplete_reads == 0
        and 1 <= it.losses.lost_workers <= lives_lost(cluster)
    )
    assert [w.category for w in said] == [mr.DataLossWarning] * (it.losses.repeated_splits > 0)


def test_at_least_once_when_the_last_elements_are_in_two_shuffle_buffers(make_cluster):
    """
    No split is left to hand out; the survivor has been told so. Another task takes what comes back.
    """
    cluster = make_cluster(workers=2, worker_timeout_ms=2000)
    n = 2000
    ds = Dataset.range(n).shuffle(n).batch(7)
    it = iter(ds.apply(cluster.distribute("distributed_epoch", guarantee="at_least_once")))
    got = list(next(it))
    wait_until(
        lambda: sum(int(t.get("splits", 0)) for t in cluster.tasks()) == n,
        "all splits are handed out",
    )
    cluster.workers[0].kill()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.DataLossWarning)
        for batch in it:
            got += list(batch)
    assert {int(x) for x in got} == set(range(n))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_worker_and_the_dispatcher_are_lost_together(make_cluster, guarantee):
    cluster = make_cluster(workers=2, worker_timeout_ms=2000)
    it = iter(slowly(3000).apply(cluster.distribute("distributed_epoch", guarantee=guarantee)))
    got = values(itertools.islice(it, 10))
    wait_for_splits(cluster)
    cluster.workers[0].kill()
    cluster.restart_dispatcher()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.DataLossWarning)
        got += values(it)
    if guarantee == "at_most_once":
        assert len(got) == len(set(got)) and 3000 - len(got) <= it.losses.lost_splits
    else:
        assert set(got) == set(range(3000)) and it.losses.lost_splits == 0


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_worker_that_is_replaced_at_its_address(make_cluster, guarantee):
    cluster = make_cluster(workers=1, worker_timeout_ms=2000)
    it = iter(slowly(2000).apply(cluster.distribute("distributed_epoch", guarantee=guarantee)))
    got = values(itertools.islice(it, 10))
    cluster.restart_worker()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.DataLossWarning)
        got += values(it)
    if guarantee == "at_most_once":
        assert len(got) == len(set(got)) and 2000 - len(got) <= it.losses.lost_splits
    else:
        assert set(got) == set(range(2000))


@pytest.mark.parametrize("ignores", [False, True], ids=["", "ignore_errors"])
def test_a_split_that_kills_its_workers_is_given_up(make_cluster, tmp_path, ignores):
    """
    A file whose reader is killed, whoever it is: after four of them the others are let live, and
    the file is named.
    """
    cluster = make_cluster(workers=1)
    paths = [str(tmp_path / f"{i}.tfrecord") for i in range(5)]
    deadly = paths.pop(2)
    os.mkfifo(deadly)
    for i, path in enumerate(paths):
        with mr.io.TFRecordWriter(path) as writer:
            writer.write(str(i).encode())
    ds = Dataset.from_tensor_slices(paths[:2] + [deadly] + paths[2:]).flat_map(mr.TFRecordDataset)
    ds = ds.ignore_errors() if ignores else ds
    it = iter(ds.apply(cluster.distribute("distributed_epoch", guarantee="at_least_once")))
    with futures.ThreadPoolExecutor() as pool, warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.DataLossWarning)
        got = pool.submit(lambda: [bytes(x) for x in it])
        for _ in range(4):
            fd = wait_until(lambda: writer_of(deadly), "a worker reads the file")
            cluster.restart_worker()
            os.close(fd)
        if ignores:
            assert set(got.result(60)) == {b"0", b"1", b"2", b"3"}
        else:
            with pytest.raises(
                mr.errors.MillraceError, match="split 2 of .* is given up: 4 workers were lost"
            ):
                got.result(60)
    if ignores:
        assert (
            it.losses.quarantined_splits,
            it.losses.lost_splits,
            it.losses.incomplete_reads,
        ) == (1, 1, 1)
        assert it.losses.lost_elements == 0  # who knows what the file has


# ---- operators behind the read that hold elements back ----

# One comes out for each that goes in, in order: what is used is known, and the rest is given back.
IN_ORDER = {
    "enumerate": lambda ds: ds.enumerate().map(lambda i, x: x).prefetch(4),
    "map": lambda ds: ds.map(lambda x: x, num_parallel_calls=4),
    "prefetch": lambda ds: ds.prefetch(10),
    "prefetch as it likes": lambda ds: ds.prefetch(mr.AUTOTUNE),
    "several": (
        lambda ds: ds.map(lambda x: x, num_parallel_calls=3)
        .prefetch(50)
        .take(900)
        .map(lambda x: x)
        .prefetch(2)
    ),
}
# One for each, but nobody knows which: those that are held back are counted.
MIXED = {
    "map": lambda ds: ds.map(lambda x: x, num_parallel_calls=4, deterministic=False),
    "shuffle": lambda ds: ds.shuffle(100),
    "shuffle and others": (
        lambda ds: ds.prefetch(7).shuffle(50).enumerate().map(lambda i, x: x).prefetch(3)
    ),
}


def leave(cluster, behind, guarantee, n=1000, first=100):
    """
    A reader takes @first elements and is closed, another one reads the rest. What each got; both
    iterators; what was said.
    """
    ds = Dataset.range(n).apply(
        cluster.distribute("distributed_epoch", job_name="left", guarantee=guarantee)
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        it = iter(behind(ds))
        got = values(itertools.islice(it, first))
        it.close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.DataLossWarning)
        rest = iter(
            Dataset.range(n).apply(
                cluster.distribute("distributed_epoch", job_name="left", guarantee=guarantee)
            )
        )
        return got, values(rest), it, rest, said


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("name", IN_ORDER)
def test_what_is_held_back_in_order_goes_to_others(make_cluster, name, guarantee):
    got, others, it, rest, said = leave(make_cluster(workers=2), IN_ORDER[name], guarantee)
    assert sorted(got + others) == list(range(1000))
    assert str(it.losses) == str(rest.losses) == "nothing lost" and not said


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("name", MIXED)
def test_what_is_held_back_in_another_order_is_counted(make_cluster, name, guarantee):
    got, others, it, rest, said = leave(make_cluster(workers=2), MIXED[name], guarantee)
    gone = it.losses.abandoned_elements
    missing = set(range(1000)) - set(got) - set(others)
    if guarantee == "at_most_once":
        assert len(got + others) == len(set(got + others)) and gone == len(missing)
    else:
        assert len(missing) <= gone  # the last of them were given back
    assert name == "map" or gone > 0
    assert rest.losses.abandoned_elements == gone  # the job's record says it, too
    assert [w.category for w in said] == [mr.DataLossWarning] * (gone > 0)


@pytest.mark.parametrize("closes", ["another thread", "a signal handler"])
def test_a_close_in_the_middle_of_a_read_tells_its_losses(cluster, monkeypatch, closes):
    it = iter(
        Dataset.range(1000)
        .apply(cluster.distribute("distributed_epoch", job_name="closed"))
        .shuffle(100)
    )
    next(it)
    read, cancel = _ffi.lib.mr_iterator_next_block, _ffi.lib.mr_iterator_cancel
    closer, cancelled = threading.Thread(target=it.close), threading.Event()

    def cancel_and_say_so(handle):
        cancel(handle)
        cancelled.set()

    def closed_meanwhile(*args):
        if not cancelled.is_set():
            closer.start() if closes == "another thread" else it.close()
            cancelled.wait()
        return read(*args)

    monkeypatch.setattr(_ffi.lib, "mr_iterator_cancel", cancel_and_say_so)
    monkeypatch.setattr(_ffi.lib, "mr_iterator_next_block", closed_meanwhile)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(mr.errors.FailedPreconditionError, match="closed") as refused:
            for _ in it:
                pass
        if closes == "another thread":
            closer.join()
        else:
            assert said[0].filename == __file__
    assert [w.category for w in said] == [mr.DataLossWarning]
    assert it.losses.abandoned_elements > 0
    assert refused.tb is not None  # which keeps nothing open


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_what_a_shuffle_holds_when_its_epoch_is_over_is_in_the_record(cluster, guarantee):
    ds = Dataset.range(100).apply(
        cluster.distribute("distributed_epoch", job_name="last", guarantee=guarantee)
    )
    it = iter(ds.shuffle(101))
    next(it)  # the shuffle has looked for one more than there are: the epoch is over
    assert abandoned(cluster) == 0
    with pytest.warns(mr.DataLossWarning):
        it.close()
    assert it.losses.abandoned_elements == 99
    wait_until(lambda: abandoned(cluster) == 99, "the job's record says so, too")


def test_what_may_be_held_back_is_told_where_it_is_not_counted(cluster, capfd):
    def read(job_name, behind, n):
        it = iter(
            behind(
                Dataset.range(1000).apply(
                    cluster.distribute("distributed_epoch", job_name=job_name)
                )
            )
        )
        assert len(list(itertools.islice(it, n))) == n
        it.close()
        return "its number is not known" in capfd.readouterr().err

    assert read("windows", lambda ds: ds.window(10).flat_map(lambda w: w), 25)
    assert read("batches", lambda ds: ds.batch(10).prefetch(2), 3)
    assert read("parts of batches", lambda ds: ds.batch(10).unbatch(), 25)
    assert not read("in order", lambda ds: ds.prefetch(2), 25)
    assert not read(None, lambda ds: ds.batch(10).prefetch(2), 3)  # nobody else reads it


# Elements are dropped or put together, and no more is taken than the next one needs.
ONE_BY_ONE = {
    "filter": lambda ds: ds.filter(lambda x: x >= 0),
    "ignore_errors": lambda ds: ds.ignore_errors(),
    "repeat": lambda ds: ds.repeat(1),
    "skip": lambda ds: ds.skip(0),
    "unbatch": lambda ds: ds.map(lambda x: mr.stack([x])).unbatch(),
    "unique": lambda ds: ds.unique(),
    "batch": lambda ds: ds.batch(7).map(lambda x: x),
}


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("name", ONE_BY_ONE)
def test_what_was_taken_when_an_interrupt_came_goes_to_others(
    cluster, monkeypatch, name, guarantee
):
    """Ctrl-C, and the iterator is left: the element that it waited for was made already."""
    read, armed = _ffi.lib.mr_iterator_next_block, False

    def interrupted(*args):
        result = read(*args)
        if armed:
            raise KeyboardInterrupt
        return result

    def dataset():
        return Dataset.range(300).apply(
            cluster.distribute("distributed_epoch", job_name="left", guarantee=guarantee)
        )

    monkeypatch.setattr(_ffi.lib, "mr_iterator_next_block", interrupted)
    it, got = iter(ONE_BY_ONE[name](dataset())), []
    for element in itertools.islice(it, 5):
        got += element.ravel().tolist()
    armed = True
    with pytest.raises(KeyboardInterrupt):
        next(it)
    armed = False
    it.close()
    rest = iter(dataset())
    others = values(rest)
    missing = set(range(300)) - set(got) - set(others)
    if name == "batch":  # on a busy machine it may have waited for long
        assert len(missing) == it.losses.abandoned_elements == rest.losses.abandoned_elements
    else:
        assert not missing and str(it.losses) == str(rest.losses) == "nothing lost"
    again = set(got) & set(others)
    assert not again or (name, guarantee) == ("unbatch", "at_least_once")


@pytest.mark.filterwarnings("ignore::millrace.DataLossWarning")
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_batches_of_more_than_is_kept_for_them(monkeypatch, make_cluster, guarantee):
    """
    32 MiB each, of workers that keep 4 MiB for a reader: what is taken is used before the batch is
    full.
    """
    monkeypatch.setenv("MILLRACE_WORKER_MEMORY_BUDGET", "16MiB")
    cluster = make_cluster(workers=2)
    ds = (
        Dataset.range(256)
        .map(lambda x: mr.broadcast_to(x, [32 * 1024]))
        .apply(cluster.distribute("distributed_epoch", job_name="large", guarantee=guarantee))
    )
    got = [int(x) for batch in ds.batch(128) for x in batch[:, 0]]
    assert sorted(got) == list(range(256))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_an_element_that_failed_was_used(cluster, guarantee):
    ds = Dataset.range(1000).apply(
        cluster.distribute("distributed_epoch", job_name="failing", guarantee=guarantee)
    )
    it = iter(
        ds.map(lambda x: 1 // mr.cast(x % 7 > 0, mr.int64) * x, num_parallel_calls=3).prefetch(20)
    )
    got = []
    while len(got) < 90:
        try:
            got.append(int(next(it)))
        except mr.errors.InvalidArgumentError:
            got.append(None)
    it.close()
    others = [
        int(x)
        for x in Dataset.range(1000).apply(
            cluster.distribute("distributed_epoch", job_name="failing", guarantee=guarantee)
        )
    ]
    failed = set(range(1000)) - set(got) - set(others)
    assert len(failed) == got.count(None) > 0 and all(x % 7 == 0 for x in failed)
    assert len(got) + len(others) == 1000 and str(it.losses) == "nothing lost"


def test_a_prefetch_that_is_larger_than_what_is_kept_for_it(cluster):
    """It holds fewer elements; whoever takes them is served to the end."""
    n, numbers = (
        40,
        1 << 20,
    )  # of 8 MiB: four of them fill what a reader leaves with the application
    ds = Dataset.range(n).map(lambda x: mr.fill([numbers], x))
    it = iter(ds.apply(cluster.distribute("distributed_epoch", job_name="large")).prefetch(1000))
    got = [int(next(it)[0])]
    wait_until(
        lambda: sum(int(t.get("delivered", 0)) for t in cluster.tasks()) >= 4,
        "the prefetch holds what it may",
    )
    got += [int(x[-1]) for x in it]
    assert got == list(range(n)) and str(it.losses) == "nothing lost"


# ---- workers out of reach ----


def test_no_worker_can_be_reached(make_cluster):
    cluster = make_cluster(workers=0)
    wrong = f"127.0.0.1:{free_port()}"
    cluster.start_worker(worker_address=wrong)
    it = iter(Dataset.range(10).apply(cluster.distribute(connect_timeout_ms=1000)))
    with pytest.raises(
        mr.errors.UnavailableError, match=f"no worker reachable .*tried {wrong}"
    ) as e:
        next(it)
    assert e.value.permanent
    with pytest.warns(
        mr.DataLossWarning, match="this pass ended early: UnavailableError: .*no worker reachable"
    ):
        assert list(it) == []


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_worker_that_no_client_reaches_is_closed(make_cluster, guarantee):
    cluster = make_cluster(workers=1, worker_timeout_ms=3000)
    wrong = f"127.0.0.1:{free_port()}"
    cluster.start_worker(worker_address=wrong)
    readers = [
        iter(
            Dataset.range(500).apply(
                cluster.distribute("distributed_epoch", job_name="j", guarantee=guarantee)
            )
        )
        for _ in range(2)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.DataLossWarning)
        with futures.ThreadPoolExecutor() as pool:
            got = [x for part in pool.map(values, readers) for x in part]  # both end
    assert len(got) == len(set(got))
    assert readers[0].losses == readers[1].losses
    if guarantee == "at_most_once":
        assert len(got) + readers[0].losses.lost_splits == 500
    else:
        assert len(got) == 500
    # It lives and is served others with: only what nobody reached was closed.
    assert wrong in [w["address"] for w in cluster.status()["workers"] if not w.get("lost")]


# ---- clients that were away ----

READER = """
    import sys
    import millrace as mr
    service, guarantee, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    ds = mr.Dataset.range(n).apply(mr.service.distribute(
        "distributed_epoch", service, job_name="shared", guarantee=guarantee, max_outstanding_requests=64))
    for x in ds:
        print(int(x), flush=True)
    print("end", flush=True)
"""


class Reader:
    """A reader in a process of its own, which can be stopped."""

    def __init__(self, cluster, guarantee, n):
        argv = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            textwrap.dedent(READER),
            cluster.service,
            guarantee,
            str(n),
        ]
        self.process = subprocess.Popen(with_parent(argv), stdout=subprocess.PIPE, text=True)
        self.got = []

    def read(self, n):
        self.got += [int(self.process.stdout.readline()) for _ in range(n)]

    def read_to_the_end(self):
        for line in self.process.stdout:
            if line == "end\n":
                break
            self.got.append(int(line))
        else:
            pytest.fail("the reader ended without an end")
        assert self.process.wait(120) == 0

    def stop(self, cluster):
        """Until the dispatcher has given it up."""
        freeze(self.process.pid)
        wait_until(lambda: not self.clients(cluster), "the dispatcher gives up its client")

    @staticmethod
    def clients(cluster):
        return sum(
            i.get("clients", 0) for j in cluster.status().get("jobs", []) for i in j["iterations"]
        )

    def go_on(self):
        thaw(self.process.pid)

    def kill(self):
        """What it had read by then is in `got`: it does not wait for us."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if not self.process.stdout.closed:
            self.got += [int(line) for line in self.process.stdout if line != "end\n"]
            self.process.stdout.close()


@pytest.fixture
def start_reader():
    made = []
    yield lambda *arguments: made.append(Reader(*arguments)) or made[-1]
    for reader in made:
        reader.kill()


def abandoned(cluster):
    """What went with clients of the only iteration, which has ended."""
    (iteration,) = [i for job in cluster.status()["jobs"] for i in job["iterations"]]
    return int(iteration["end"].get("abandoned", 0))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_client_that_was_away_goes_on(make_cluster, start_reader, guarantee):
    n = 200_000
    cluster = make_cluster(workers=2, client_timeout_ms=CLIENT_MS)
    reader = start_reader(cluster, guarantee, n)
    reader.read(100)
    reader.stop(cluster)
    reader.go_on()
    reader.read_to_the_end()
    if guarantee == "at_most_once":
        # What it was sent and had not acknowledged when it was given up is nobody's, if it did not
        # read it any more.
        assert len(reader.got) == len(set(reader.got)) and n - len(set(reader.got)) <= abandoned(
            cluster
        )
    else:
        assert set(reader.got) == set(range(n))


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_a_client_that_was_away_while_another_read_on(make_cluster, start_reader, guarantee):
    n = 20_000
    cluster = make_cluster(workers=2, client_timeout_ms=CLIENT_MS)
    away = start_reader(cluster, guarantee, n)
    away.read(100)
    away.stop(cluster)
    other = start_reader(cluster, guarantee, n)
    other.read_to_the_end()
    away.go_on()
    away.read_to_the_end()
    together = collections.Counter(away.got + other.got)
    if guarantee == "at_most_once":
        assert max(together.values()) == 1 and n - len(together) <= abandoned(cluster)
    else:
        assert together.keys() == set(range(n))


def test_what_goes_with_a_client_is_counted(make_cluster, start_reader):
    """At most once it is nobody else's; not all of it was used."""
    cluster = make_cluster(client_timeout_ms=CLIENT_MS)
    reader = start_reader(cluster, "at_most_once", 10**9)
    other = start_reader(cluster, "at_most_once", 10**9)
    for r in (reader, other):
        r.read(100)
    reader.kill()
    gone = wait_until(
        lambda: sum(int(t.get("abandoned", 0)) for t in cluster.tasks()), "what it held is counted"
    )
    assert (
        gone <= 2 * IN_HAND
    )  # the other one may have been silent for too long, too: it had to wait for a CPU


def test_what_a_killed_reader_takes_along_is_told_to_the_others(make_cluster, start_reader):
    # More than fits into the pipe that it writes to: it has not read them all when it is stopped
    n = 20_000
    cluster = make_cluster(client_timeout_ms=CLIENT_MS)
    ds = Dataset.range(n).apply(
        cluster.distribute("distributed_epoch", job_name="shared", max_outstanding_requests=64)
    )
    killed = start_reader(cluster, "at_most_once", n)
    killed.read(100)
    killed.stop(cluster)
    killed.kill()
    got, it = [], iter(ds)
    with pytest.warns(mr.DataLossWarning, match="gone with"):
        got += [int(x) for x in it]
    missing = set(range(n)) - set(got) - set(killed.got)
    assert len(got) == len(set(got)) and not set(got) & set(killed.got)
    assert (
        missing
        and len(missing) <= it.losses.abandoned_elements <= 2 * IN_HAND
        and it.losses.incomplete_reads == 1
    )
    assert abandoned(cluster) == it.losses.abandoned_elements


def test_what_a_reader_closes_with_after_the_end_is_told_to_it(make_cluster):
    """The other one has ended without it, so nobody gets what it holds."""
    cluster = make_cluster()
    rests, other = [
        iter(Dataset.range(100).apply(cluster.distribute("distributed_epoch", job_name="shared")))
        for _ in range(2)
    ]
    used = [int(next(rests))]
    used += [int(x) for x in other]
    if len(used) == 100:
        rests.close()  # it had been sent no other
        return
    with pytest.warns(mr.DataLossWarning, match="gone with"):
        rests.close()
    assert len(used) == len(set(used)) and rests.losses.abandoned_elements == 100 - len(used)
    assert abandoned(cluster) == 100 - len(used)


HOLDER = """
    import sys
    import millrace as mr
    service, n = sys.argv[1], int(sys.argv[2])
    ds = mr.Dataset.range(n).apply(mr.service.distribute(
        "distributed_epoch", service, job_name="shared", max_outstanding_requests=64))
    it = iter(ds)
    print(int(next(it)), flush=True)
    for line in sys.stdin:
        break
    for x in it:
        print(int(x), flush=True)
    print("end", flush=True)
    for line in sys.stdin:
        break
"""


@pytest.mark.parametrize(
    "uses", [False, True], ids=["killed with them", "killed when it had used them"]
)
def test_what_a_reader_holds_that_is_killed_after_the_others_ended(make_cluster, uses):
    """
    They did not wait for it for ever, and what it may still use is not lost. It is when the reader
    is.
    """
    n = 2000
    # It is there all the time until it is killed: that it waits for a CPU is no reason to give it
    # up.
    cluster = make_cluster() if uses else make_cluster(client_timeout_ms=5 * CLIENT_MS)
    argv = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(HOLDER), cluster.service, str(n)]

    def end():
        (iteration,) = [i for job in cluster.status()["jobs"] for i in job["iterations"]]
        return iteration

    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        used = [int(holder.stdout.readline())]
        wait_until(
            lambda: sum(int(t.get("delivered", 0)) for t in cluster.tasks()) > 1,
            "it was sent more than it took",
        )
        it = iter(
            Dataset.range(n).apply(cluster.distribute("distributed_epoch", job_name="shared"))
        )
        used += values(it)
        assert it.losses == mr.Losses()
        iteration = wait_until(
            lambda: end() if end().get("finished") else None, "the iteration has ended"
        )
        assert "abandoned" not in iteration["end"]
        it.close()
        if uses:
            holder.stdin.write("go on\n")
            holder.stdin.flush()
            for line in iter(holder.stdout.readline, "end\n"):
                used.append(int(line))
        missing = set(range(n)) - set(used)
        assert len(used) == len(set(used)) and bool(missing) != uses
        if uses:
            wait_until(lambda: "clients" not in end(), "it has left")
        holder.kill()
    iteration = wait_until(
        lambda: end() if "clients" not in end() else None, "the dispatcher gives it up"
    )
    assert len(missing) <= int(iteration["end"].get("abandoned", 0)) <= (0 if uses else 64 + 64)


def test_a_slow_heartbeat_is_no_reason_to_be_given_up(make_cluster, start_reader):
    """
    The client's own interval is longer than the dispatcher's patience: it is told so, and reports
    more often.
    """
    cluster = make_cluster(client_timeout_ms=CLIENT_MS)
    it = iter(
        Dataset.range(10**9).apply(
            cluster.distribute(job_name="own", heartbeat_interval_ms=3_600_000)
        )
    )
    assert next(it) == 0
    for _ in range(2):  # each time one that was attached later is given up
        reader = start_reader(cluster, "at_most_once", 10**9)
        reader.read(1)
        freeze(reader.process.pid)
        wait_until(lambda: reader.clients(cluster) == 1, "the dispatcher gives up the other client")
        reader.kill()

    def own():
        return next(j for j in cluster.status()["jobs"] if j["name"] == "own")["iterations"][0]

    wait_until(lambda: own()["clients"] == 1, "it is attached, again if it had to wait for a CPU")
    got = values(itertools.islice(it, 1000))
    if not any(int(t.get("abandoned", 0)) for t in own()["tasks"]):
        assert got == list(range(1, 1001))
    assert got == sorted(set(got)) and got[0] > 0


# ---- which service ----


def test_two_clusters_behind_one_list(make_cluster):
    a, b = make_cluster(workers=1), make_cluster(workers=1)
    both = f"grpc://{a.addresses},{b.addresses}"
    first = mr.service.status(both)  # from here on it is this one
    led, other = (a, b) if a.name in first else (b, a)
    ds = Dataset.range(10).apply(mr.service.distribute("parallel_epochs", both))
    assert values(ds) == list(range(10))
    led.dispatchers[0].kill()
    with pytest.raises(mr.errors.FailedPreconditionError) as said:
        values(ds)
    assert led.name in str(said.value) and other.name in str(said.value)
