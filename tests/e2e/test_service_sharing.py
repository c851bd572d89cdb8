"""
One production for several jobs: who shares, what each gets, what a slow one misses, what it
survives.
"""

import itertools
import os
import re
import socket
import subprocess
import sys
import textwrap
import threading
import uuid
import warnings

import pytest

import millrace as mr
from conftest import free_port, lives_lost, run_state, wait_until
from millrace._capi import ffi as _ffi

Dataset = mr.Dataset
AUTO = {"sharing": "auto"}
WIDE_BYTES = 65536
SMALL_CACHE = (
    32 << 20
)  # of a worker, for all its windows; a window is a fraction of what 2000 wide elements are
MANY = 2000


def values(it):
    return [int(x) for x in it]


def endless():
    return Dataset.range(1 << 40).repeat()


def wide(n):
    """
    Elements of 64 KiB, whose last byte is looked at. Production runs a mebibyte ahead of its
    readers: of these it has not made all when a test goes on.
    """
    return Dataset.range(n).map(lambda x: (x, mr.broadcast_to(mr.cast(x, mr.uint8), [WIDE_BYTES])))


def each_wide(it):
    for x, payload in it:
        assert payload[0] == payload[-1] == x % 256
        yield int(x)


def wide_values(it):
    return list(each_wide(it))


def trainer(name, **arguments):
    """Arguments of distribute() for a trainer of job "j"."""
    return {"job_name": "j", "cross_trainer_cache": mr.service.CrossTrainerCache(name), **arguments}


def read(cluster, ds, mode="parallel_epochs", **arguments):
    return iter(ds.apply(cluster.distribute(mode, **arguments)))


def productions(cluster):
    return cluster.status().get("productions", [])


def produced(cluster):
    """Elements that pipelines of productions have made, as the workers last said."""
    return sum(int(t.get("produced", 0)) for p in productions(cluster) for t in p.get("tasks", []))


def jobs(cluster):
    """By name, trainers as "name+trainer"."""
    return {
        j.get("name", "") + ("+" + j["trainer"] if j.get("trainer") else ""): j
        for j in cluster.status().get("jobs", [])
    }


def skipped_of(cluster, job):
    return sum(int(i.get("skipped", 0)) for i in jobs(cluster)[job].get("iterations", []))


def make_small(make_cluster, **arguments):
    """A cluster with one worker, whose windows are small."""
    cluster = make_cluster(workers=0, **arguments)
    cluster.start_worker(cross_trainer_cache_size_bytes=SMALL_CACHE)
    return cluster


@pytest.fixture
def background():
    """background(function): runs it on a thread; calling what is returned waits for its result."""
    threads = []

    def start(function):
        outcome = []

        def run():
            try:
                outcome.append((function(), None))
            except BaseException as e:
                outcome.append((None, e))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        threads.append(thread)

        def result():
            thread.join(120)
            assert not thread.is_alive(), "it hangs"
            value, error = outcome[0]
            if error is not None:
                raise error
            return value

        return result

    return start


# ---- trainers of one job ----


def test_what_a_reader_of_a_trainer_leaves_goes_to_another(cluster):
    """Also what is left of the block in its hands."""
    n = 5000
    first = read(cluster, Dataset.range(n), **trainer("t"))
    got = values(itertools.islice(first, 777))
    first.close()
    assert first.losses == mr.Losses()
    second = read(cluster, Dataset.range(n), **trainer("t"))
    got += values(second)
    assert sorted(got) == list(range(n))
    assert second.losses == mr.Losses()


KILLED = """
    import itertools, os, signal, sys
    import millrace as mr
    ds = mr.Dataset.range(int(sys.argv[2])).apply(mr.service.distribute(
        "parallel_epochs", sys.argv[1], job_name="j", cross_trainer_cache=mr.service.CrossTrainerCache("t"),
        max_outstanding_requests=64))
    it = iter(ds)
    print(*(int(x) for x in itertools.islice(it, 777)), flush=True)
    sys.stdin.readline()
"""


def test_what_a_killed_reader_of_a_trainer_had_in_its_hands_is_counted(make_cluster):
    """What it was sent and had not come to goes to others."""
    n = 5000
    cluster = make_cluster(client_timeout_ms=2000)
    argv = [sys.executable, "-c", textwrap.dedent(KILLED), cluster.service, str(n)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        got = [int(x) for x in reader.stdout.readline().split()]
        wait_until(
            lambda: sum(int(t.get("delivered", 0)) for t in cluster.tasks()) > len(got),
            "it was sent more",
        )
        reader.kill()
    it = read(cluster, Dataset.range(n), **trainer("t"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.DataLossWarning)
        rest = values(it)
    missing = set(range(n)) - set(got) - set(rest)
    # What it gave last it tells within some milliseconds: till then that goes to others as well.
    assert len(got + rest) - len(set(got + rest)) <= 64
    assert len(missing) <= it.losses.abandoned_elements


@pytest.mark.parametrize("how", ["distribute", "id", "id without compression"])
def test_trainers_get_the_same_elements(cluster, how):
    def source(name):
        if how == "distribute":
            return read(cluster, endless(), **trainer(name))
        return iter(
            mr.service.from_dataset_id(
                "parallel_epochs", cluster.service, "endless", **trainer(name)
            )
        )

    if how != "distribute":
        compression = None if how == "id without compression" else "AUTO"
        mr.service.register_dataset(cluster.service, endless(), compression, dataset_id="endless")
    first, second = source("t1"), source("t2")
    assert values(itertools.islice(first, 10)) == list(range(10))
    assert values(itertools.islice(second, 10)) == list(range(10))
    assert len(productions(cluster)) == 1 and {
        u["job"] for u in productions(cluster)[0]["users"]
    } == {"j+t1", "j+t2"}


def test_without_trainers_readers_divide_the_elements(cluster):
    first = read(cluster, endless(), job_name="j")
    values(itertools.islice(first, 10))
    assert int(next(read(cluster, endless(), job_name="j"))) >= 10
    assert productions(cluster) == []


def test_an_endless_production_is_joined_where_its_window_begins(make_cluster):
    cluster = make_small(make_cluster)
    ds = wide(1 << 40).repeat()
    with read(cluster, ds, **trainer("t1")) as first:
        wide_values(itertools.islice(first, MANY))
    second = read(cluster, ds, **trainer("t2"))
    got = wide_values(itertools.islice(second, 200))
    assert got[0] > 0 and got == sorted(set(got)) and len(got) == 200
    # What had gone before it came was not its own to miss; what went while it came may have been.
    assert got[-1] - got[0] + 1 - len(got) <= second.skipped < got[0]


def test_trainers_see_one_shuffled_order(cluster):
    ds = Dataset.range(1000).shuffle(1000).repeat()
    orders = [
        values(itertools.islice(read(cluster, ds, **trainer(name)), 100)) for name in ("t1", "t2")
    ]
    assert orders[0] == orders[1] != sorted(orders[0])


def test_readers_of_one_trainer_have_one_place(cluster):
    """What the one before was sent, and did not take, is not lost."""
    for expected in range(0, 30, 10):
        assert values(endless().apply(cluster.distribute(**trainer("t1"))).take(10)) == list(
            range(expected, expected + 10)
        )


def test_readers_of_one_trainer_side_by_side(cluster):
    n = 20_000
    stays = read(cluster, Dataset.range(n), **trainer("t1"))
    got = values(itertools.islice(stays, 1))
    leaves = Dataset.range(n).apply(cluster.distribute(**trainer("t1"))).take(100)
    got += values(leaves)  # with others on their way to it
    assert sorted(got + values(stays)) == list(range(n))


def test_jobs_of_different_names_have_productions_of_their_own(cluster):
    for job in ("one", "two"):
        assert values(
            itertools.islice(read(cluster, endless(), **trainer("t1", job_name=job)), 10)
        ) == list(range(10))
    assert {p["scope"] for p in productions(cluster)} == {"one", "two"}


@pytest.mark.parametrize(
    "before,after", [(trainer("t1"), {"job_name": "j"}), ({"job_name": "j"}, trainer("t1"))]
)
def test_a_job_name_is_used_with_trainers_or_without(cluster, before, after):
    first = read(cluster, endless(), **before)
    next(first)
    with pytest.raises(mr.errors.InvalidArgumentError, match="(?i)trainer"):
        next(read(cluster, endless(), **after))
    assert values(itertools.islice(first, 3)) == [1, 2, 3]


# ---- finite datasets ----


@pytest.mark.parametrize("n", [0, 1, 1000])
def test_finite_datasets_are_shared_and_end(cluster, n):
    for name in ("t1", "t2", "t3"):
        assert values(read(cluster, Dataset.range(n), **trainer(name))) == list(range(n))
    wait_until(lambda: produced(cluster) == n, "the worker has said what it produced")
    assert len(productions(cluster)) == 1


@pytest.mark.parametrize("mode,copies", [("parallel_epochs", 2), ("distributed_epoch", 1)])
def test_who_comes_late_gets_every_element(make_cluster, mode, copies):
    cluster = make_cluster(workers=2)
    n = 500
    first = read(cluster, wide(n), mode, job_name="first", **AUTO)
    head = wide_values(itertools.islice(first, 10))
    late = wide_values(read(cluster, wide(n), mode, job_name="late", **AUTO))  # in the middle of it
    whole = sorted(copies * list(range(n)))
    assert sorted(late) == whole
    assert sorted(head + wide_values(first)) == whole
    assert sorted(wide_values(read(cluster, wide(n), mode, **AUTO))) == whole  # after its end
    wait_until(lambda: produced(cluster) == copies * n, "the workers have said what they produced")
    assert len(productions(cluster)) == 1


def test_who_comes_too_late_gets_a_production_of_its_own(make_cluster):
    cluster = make_small(make_cluster)
    first = read(cluster, wide(MANY), job_name="first", **AUTO)
    head = wide_values(itertools.islice(first, MANY - 100))
    late = read(cluster, wide(MANY), job_name="late", **AUTO)
    assert wide_values(late) == list(range(MANY)) and late.skipped == 0
    assert len(head + wide_values(first)) + first.skipped == MANY
    used = {job: jobs(cluster)[job]["iterations"][0] for job in ("first", "late")}
    assert used["first"]["production"] != used["late"]["production"]
    assert "nothing below element" in used["late"]["unshared"]


def test_epochs_are_shared_one_by_one(cluster):
    for job in ("a", "b"):
        ds = (
            Dataset.range(50)
            .apply(cluster.distribute("distributed_epoch", job_name=job, **AUTO))
            .repeat(3)
        )
        assert sorted(values(ds)) == sorted(3 * list(range(50)))
    wait_until(lambda: produced(cluster) == 150, "the worker has said what it produced")
    assert sorted(int(p.get("repetition", 0)) for p in productions(cluster)) == [0, 1, 2]


def test_a_pipeline_that_fails_fails_for_all_after_its_elements(cluster):
    ds = Dataset.range(10).map(lambda x: 10 // (x - 5))
    for job in ("a", "b"):
        it, got = read(cluster, ds, job_name=job, **AUTO), []
        with pytest.raises(mr.errors.InvalidArgumentError, match="zero"):
            for x in it:
                got.append(int(x))
        assert got == [-2, -3, -4, -5, -10]


# ---- jobs of different names ----


def test_only_equal_wishes_are_shared(cluster):
    n = 20
    wishes = [
        (Dataset.range(n), "parallel_epochs", AUTO),
        (Dataset.range(n), "distributed_epoch", AUTO),
        (Dataset.range(n).map(lambda x: x + 0), "parallel_epochs", AUTO),
        (Dataset.range(n), "parallel_epochs", {}),
    ]
    for _ in range(2):
        for ds, mode, how in wishes:
            assert values(read(cluster, ds, mode, job_name=uuid.uuid4().hex, **how)) == list(
                range(n)
            )
    assert len(productions(cluster)) == 3
    assert all(len(p["users"]) == 2 for p in productions(cluster))


def test_at_least_once_is_not_shared_and_says_so(cluster):
    arguments = {"guarantee": "at_least_once", **AUTO}
    for job in ("a", "b"):
        assert sorted(
            values(
                read(cluster, Dataset.range(100), "distributed_epoch", job_name=job, **arguments)
            )
        ) == list(range(100))
    assert productions(cluster) == []
    assert all(
        "at_least_once" in j["unshared"].lower() or "at least once" in j["unshared"].lower()
        for j in jobs(cluster).values()
    )


def test_a_production_goes_with_the_last_job(cluster, etcd):
    for job in ("a", "b"):
        values(read(cluster, Dataset.range(10), job_name=job, **AUTO))
    name = productions(cluster)[0]["id"]
    assert name in run_state(etcd, cluster.name, "get", "productions/").stdout
    mr.service.delete_job(cluster.service, "a")
    assert len(productions(cluster)) == 1
    mr.service.delete_job(cluster.service, "b")
    wait_until(lambda: productions(cluster) == [], "the production is gone")
    assert name not in run_state(etcd, cluster.name, "get", "productions/").stdout


# ---- falling behind ----


def test_a_slow_reader_skips_and_is_told_how_much(make_cluster):
    cluster = make_small(make_cluster)
    slow = read(cluster, wide(MANY), **trainer("slow"))
    got = wide_values(itertools.islice(slow, 1))
    fast = read(cluster, wide(MANY), **trainer("fast"))
    assert wide_values(fast) == list(range(MANY)) and fast.skipped == 0
    with pytest.warns(mr.DataLossWarning, match="elements skipped"):
        got += wide_values(slow)
    assert got == sorted(set(got)) and got[-1] == MANY - 1
    assert slow.skipped == MANY - len(got) > 0
    assert slow.losses == mr.Losses(incomplete_reads=1, skipped_elements=slow.skipped)
    assert len(productions(cluster)) == 1


def test_what_was_skipped_is_shown_while_reading(make_cluster):
    cluster = make_small(make_cluster)
    slow = read(cluster, wide(1 << 40).repeat(), **trainer("slow"))
    fast = read(cluster, wide(1 << 40).repeat(), **trainer("fast"))
    got = wide_values(itertools.islice(slow, 1))
    wide_values(itertools.islice(fast, MANY))
    while not slow.skipped:
        got += wide_values(itertools.islice(slow, 1))
    assert got == sorted(set(got))
    program = os.environ.get("MILLRACE_PROGRAM") or _ffi.program_path()

    def is_shown():
        """It goes on as long as what the fast one may prefetch: until everybody says the same."""
        user = next(u for u in productions(cluster)[0]["users"] if u["job"] == "j+slow")
        counts = {skipped_of(cluster, "j+slow"), int(user["skipped"]), slow.skipped}
        table = subprocess.run(
            [program, "job", "show", "j+slow", "--service", cluster.service],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        skipped = re.search(r"skipped ([0-9]+)", table.stdout)
        counts.add(skipped and int(skipped.group(1)))
        return len(counts) == 1

    wait_until(is_shown, "status, for programs and for people, shows it")
    assert skipped_of(cluster, "j+fast") == 0


def test_skipping_can_be_an_error_in_place_of_the_end(make_cluster):
    cluster = make_small(make_cluster)
    slow = read(cluster, wide(MANY), **trainer("slow", on_loss="error"))
    next(slow)
    wide_values(read(cluster, wide(MANY), **trainer("fast")))
    with pytest.raises(mr.errors.DataLossError, match="elements skipped"):
        wide_values(slow)


def test_who_waits_for_the_slow_misses_nothing(make_cluster, background):
    cluster = make_small(make_cluster)
    slow = read(cluster, wide(MANY), **trainer("slow", lag="wait"))
    got = wide_values(itertools.islice(slow, 1))
    fast = read(cluster, wide(MANY), **trainer("fast"))
    seen = []

    def read_on():
        for x in each_wide(fast):
            seen.append(x)

    rest = background(read_on)
    wait_until(lambda: len(seen) >= 50, "the fast one is ahead")
    for x in each_wide(slow):
        got.append(x)
        ahead = min(len(got) + 1, MANY)
        wait_until(lambda: len(seen) >= ahead, "the fast one stays ahead, which waits for nobody")
    rest()
    assert got == seen == list(range(MANY))
    assert slow.skipped == fast.skipped == 0


def test_who_has_gone_holds_nobody_up(make_cluster):
    cluster = make_small(make_cluster)
    with read(cluster, wide(MANY), **trainer("gone", lag="wait")) as gone:
        head = wide_values(itertools.islice(gone, 1))
    assert wide_values(read(cluster, wide(MANY), **trainer("fast"))) == list(range(MANY))
    back = read(cluster, wide(MANY), **trainer("gone", lag="wait"))
    with pytest.warns(mr.DataLossWarning, match="elements skipped"):
        got = wide_values(itertools.islice(back, 50))  # at once, not at the end
    got += wide_values(back)
    assert got[0] > head[-1] and got[-1] == MANY - 1 and len(head + got) + back.skipped == MANY
    assert back.losses == mr.Losses(incomplete_reads=1, skipped_elements=back.skipped)


# ---- what it survives ----


def test_a_worker_that_restarts_begins_anew_for_all(cluster):
    its = [read(cluster, endless(), **trainer(name)) for name in ("t1", "t2")]
    for it in its:
        assert values(itertools.islice(it, 100)) == list(range(100))
    cluster.restart_worker()
    for it in its:
        seen = values(itertools.takewhile(lambda x: x != 99, it))
        left = [x for x in seen if x >= 100]  # of the stream before: what was on its way
        assert left == list(range(100, 100 + len(left)))
        assert [x for x in seen if x < 100] == list(range(99))


def test_a_dispatcher_that_restarts_changes_nothing(cluster):
    ds = wide(1 << 40).repeat()
    first = read(cluster, ds, **trainer("t1"))
    assert wide_values(itertools.islice(first, 100)) == list(range(100))
    cluster.restart_dispatcher()
    assert wide_values(itertools.islice(first, 100)) == list(range(100, 200))
    assert wide_values(itertools.islice(read(cluster, ds, **trainer("t2")), 10)) == list(range(10))
    assert len(productions(cluster)) == 1


def test_another_dispatcher_takes_over_with_readers_of_finite_data(make_cluster):
    cluster = make_cluster(workers=2, dispatchers=2)
    n = 1000
    first = read(cluster, wide(n), "distributed_epoch", job_name="first", **AUTO)
    head = wide_values(itertools.islice(first, 50))
    leader = cluster.status()["leader"]
    next(d for d in cluster.dispatchers if d.address == leader).kill()
    assert sorted(
        wide_values(read(cluster, wide(n), "distributed_epoch", job_name="late", **AUTO))
    ) == list(range(n))
    assert sorted(head + wide_values(first)) == list(range(n))
    wait_until(lambda: produced(cluster) == n, "the workers have said what they produced")


def test_a_lost_worker_is_a_loss_for_each_job(make_cluster):
    cluster = make_cluster(workers=2, worker_timeout_ms=3000)
    n = 3000
    its = {
        job: read(cluster, wide(n), "distributed_epoch", job_name=job, **AUTO) for job in ("a", "b")
    }
    got = {job: wide_values(itertools.islice(it, 10)) for job, it in its.items()}
    wait_until(
        lambda: all(int(t.get("splits", 0)) for p in productions(cluster) for t in p["tasks"]),
        "each worker has splits",
    )
    cluster.workers[0].kill()
    for job, it in its.items():
        with pytest.warns(mr.DataLossWarning, match="workers? lost"):
            got[job] += wide_values(it)
        assert len(got[job]) == len(set(got[job])) and n - len(got[job]) <= it.losses.lost_splits


class Gate:
    """
    A way to a server that can be shut: then nobody gets through, and whoever was there is thrown
    out.
    """

    def __init__(self, port):
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._to = port
        self._lock = threading.Lock()
        self._inside = set()  # sockets, of both sides
        self._listener = None
        self.open()

    def open(self):
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._let_in, args=(self._listener,), daemon=True).start()

    def shut(self):
        with self._lock:
            listener, self._listener = self._listener, None
            inside, self._inside = self._inside, set()
        listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for somebody to come
        listener.close()
        for s in inside:
            self._end(s)

    @staticmethod
    def _end(s):
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:  # the other side was faster
            pass

    def _let_in(self, listener):
        while True:
            try:
                outer, _ = listener.accept()
                inner = socket.create_connection(("127.0.0.1", self._to))
            except OSError:
                return
            with self._lock:
                if self._listener is not listener:  # shut meanwhile
                    outer.close()
                    inner.close()
                    return
                self._inside |= {outer, inner}
            for a, b in ((outer, inner), (inner, outer)):
                threading.Thread(target=self._pass_on, args=(a, b), daemon=True).start()

    def _pass_on(self, a, b):
        try:
            while data := a.recv(1 << 16):
                b.sendall(data)
        except OSError:
            pass
        self._end(a)
        self._end(b)


def test_a_worker_that_was_out_of_reach_goes_on_when_all_others_are_gone(make_cluster):
    """
    Its task is closed, the other worker dies for good: it goes on in its window, and nothing comes
    twice.
    """
    cluster = make_cluster(workers=0, worker_timeout_ms=3000)
    port = free_port()
    gate = Gate(port)
    cluster.start_worker(port=port, worker_address=gate.address)
    cluster.start_worker()
    it = read(cluster, wide(MANY), "distributed_epoch", job_name="j", sharing="auto", lag="wait")

    def reading(address):
        return [
            t for t in cluster.tasks() if t["workerAddress"] == address and t["state"] == "open"
        ]

    def delivered(address):
        return sum(int(t.get("delivered", 0)) for t in reading(address))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mr.DataLossWarning)
        got = wide_values(itertools.islice(it, 1))
        wait_until(
            lambda: delivered(gate.address) and delivered(cluster.workers[1].address),
            "some of both have come",
        )
        gate.shut()
        wait_until(lambda: not reading(gate.address), "the task that nobody reaches is closed")
        cluster.workers[1].kill()
        wait_until(lambda: not reading(cluster.workers[1].address), "the other worker is given up")
        gate.open()
        got += wide_values(it)
    assert len(got) == len(set(got))
    assert MANY - len(got) <= it.losses.lost_splits
    assert it.losses.lost_workers == 2 or lives_lost(cluster) > 1
    assert it.losses.skipped_elements == 0  # nobody else read there meanwhile


@pytest.mark.parametrize("on_loss", ["warn", "error"])
def test_a_record_that_is_damaged_costs_no_more_than_itself(make_cluster, tmp_path, on_loss):
    """And is told at once to who waits: an endless read has no end to tell it at."""
    cluster = make_cluster(workers=0)
    cluster.start_worker(
        cross_trainer_cache_size_bytes=256 << 20, cache_dir=str(tmp_path / "cache")
    )
    ds = wide(1 << 40).repeat()
    slow = read(cluster, ds, **trainer("slow", lag="wait", on_loss=on_loss))
    got = wide_values(itertools.islice(slow, 10))
    fast = read(cluster, ds, **trainer("fast"))
    wide_values(itertools.islice(fast, 1000))
    # One behind which there is another is complete: tables are written by a thread of their own.
    tables = wait_until(
        lambda: (found := sorted((tmp_path / "cache").glob("worker-*/db/*.sst")))
        and len(found) > 1
        and found,
        "elements are in tables",
    )
    table = tables[0]
    with open(table, "r+b") as f:
        f.seek(table.stat().st_size // 2)
        byte = f.read(1)
        f.seek(-1, 1)
        f.write(bytes([byte[0] ^ 1]))

    def read_on():
        while got[-1] < 900:
            got.extend(wide_values(itertools.islice(slow, 10)))

    if on_loss == "error":
        with pytest.raises(mr.errors.DataLossError, match="misses [0-9]+ elements"):
            read_on()
    else:
        with pytest.warns(mr.DataLossWarning, match="element"):
            read_on()
        assert 0 < slow.skipped == got[-1] + 1 - len(got) <= 20  # a record
    assert got == sorted(set(got))
    wide_values(itertools.islice(fast, 100))
    degraded = wait_until(
        lambda: [
            p["window"]["degraded"]
            for q in productions(cluster)
            for p in q["tasks"]
            if p.get("window", {}).get("degraded")
        ],
        "status says why",
    )
    assert "is not what was written" in degraded[0]


def test_a_cache_directory_that_fails_stops_nobody(make_cluster, tmp_path):
    cluster = make_cluster(workers=0)
    cluster.start_worker(
        cross_trainer_cache_size_bytes=SMALL_CACHE, cache_dir=str(tmp_path / "cache")
    )
    a = read(cluster, wide(MANY), job_name="a", lag="wait", **AUTO)
    got = wide_values(itertools.islice(a, 50))
    (tmp_path / "cache").rename(tmp_path / "elsewhere")  # the next file cannot be made
    got += wide_values(a)
    assert got == list(range(MANY)) and a.skipped == 0
    b = read(cluster, wide(MANY), job_name="b", **AUTO)
    seen = wide_values(b)
    assert len(seen) + b.skipped == MANY and seen == sorted(set(seen))
    reasons = wait_until(
        lambda: [
            w["cache"]["degraded"]
            for w in cluster.status()["workers"]
            if w.get("cache", {}).get("degraded")
        ],
        "status says why",
    )
    assert "cache" in reasons[0] or "No such file" in reasons[0]
