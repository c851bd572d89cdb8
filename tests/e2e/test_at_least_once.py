"""
At least once, through processes that are killed: every element is taken up by the application of
some client.
"""

import itertools
import subprocess
import sys
import textwrap
import warnings

import pytest

import millrace as mr
from conftest import wait_until, with_parent
from interrupts import interrupted

Dataset = mr.Dataset

# What a reader was given counts when it is written down: it is killed at any instant, in the middle
# of a block too.
READER = """
    import sys, time
    import millrace as mr
    service, path, n, pause = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    slow = lambda x: x + mr.cast(mr.reduce_sum(mr.range(300_000) + mr.cast(x, mr.int32)) * 0, mr.int64)
    ds = mr.Dataset.range(n).shuffle(500).map(slow).batch(7).apply(
        mr.service.distribute("distributed_epoch", service, job_name="shared", guarantee="at_least_once"))
    with open(path, "w", buffering=1) as out:
        for i, batch in enumerate(ds):
            if i > 0:
                time.sleep(pause)
            out.write(" ".join(str(x) for x in batch) + "\\n")
            if i == 0:
                sys.stdin.read()  # until all have begun
        out.write("end\\n")
"""


class Reader:
    """
    A reader of the shared job in a process of its own, which waits after its first batch until it
    goes on, and rests before all others.
    """

    def __init__(self, cluster, path, n, pause):
        self.path = path
        self.path.touch()
        argv = [
            sys.executable,
            "-W",
            "ignore",
            "-c",
            textwrap.dedent(READER),
            cluster.service,
            str(path),
            str(n),
            str(pause),
        ]
        self.process = subprocess.Popen(with_parent(argv), stdin=subprocess.PIPE)

    def got(self):
        return [int(x) for line in self.lines() for x in line.split()]

    def lines(self):
        """The whole ones: a reader that was killed may not have finished its last."""
        text = self.path.read_text()
        return [line for line in text[: text.rfind("\n") + 1].splitlines() if line != "end"]

    def has_read(self, elements):
        """Or others were so much faster that there are no more."""
        wait_until(
            lambda: len(self.got()) >= elements or self.process.poll() is not None,
            f"a reader has {elements} elements",
        )

    def goes_on(self):
        self.process.stdin.close()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()

    def ends(self):
        assert self.process.wait(timeout=200) == 0
        assert self.path.read_text().endswith("end\n")


@pytest.fixture
def readers(tmp_path):
    started = []

    def start(cluster, n, pauses):
        started.extend(
            Reader(cluster, tmp_path / f"reader-{i}", n, pause) for i, pause in enumerate(pauses)
        )
        for reader in started:
            reader.has_read(1)
        for reader in started:
            reader.goes_on()
        return started

    yield start
    for reader in started:
        reader.kill()


def everything(readers):
    return {x for reader in readers for x in reader.got()}


def make(make_cluster, **arguments):
    """
    A cluster that soon sees who was killed. Who was only slow is taken for dead, too: then elements
    come twice.
    """
    return make_cluster(client_timeout_ms=3000, worker_timeout_ms=3000, **arguments)


def test_a_worker_is_killed(make_cluster, readers):
    cluster = make(make_cluster, workers=3)
    pair = readers(cluster, 4000, [0, 0])
    for reader in pair:
        reader.has_read(70)
    cluster.workers[0].kill()
    for reader in pair:
        reader.ends()
    assert everything(pair) == set(range(4000))


def test_a_client_is_killed(make_cluster, readers):
    cluster = make(make_cluster, workers=2)
    pair = readers(cluster, 3000, [0, 0])
    for reader in pair:
        reader.has_read(70)
    pair[0].kill()
    pair[1].ends()
    assert everything(pair) == set(range(3000))


def test_a_client_is_killed_with_the_last_elements_in_its_hands(make_cluster, readers):
    """
    All was handed out and sent; the other one waits for the end, and gets what is left instead.
    """
    cluster = make(make_cluster, workers=1)
    slow, fast = readers(cluster, 600, [3600, 0])
    batches = 600 // 7 + 1
    wait_until(
        lambda: sum(int(task.get("delivered", 0)) for task in cluster.tasks()) >= batches
        or fast.process.poll() is not None,
        "all of it is with the readers",
    )
    slow.kill()
    fast.ends()
    assert everything([slow, fast]) == set(range(600))


def test_a_worker_and_a_client_are_killed(make_cluster, readers):
    cluster = make(make_cluster, workers=3)
    trio = readers(cluster, 5000, [0, 0, 0.01])
    for reader in trio:
        reader.has_read(70)
    trio[2].kill()
    cluster.workers[1].kill()
    for reader in trio[:2]:
        reader.ends()
    assert everything(trio) == set(range(5000))


def test_a_worker_is_stopped(make_cluster, readers):
    cluster = make(make_cluster, workers=2)
    pair = readers(cluster, 3000, [0, 0])
    for reader in pair:
        reader.has_read(70)
    cluster.workers[0].stop()
    for reader in pair:
        reader.ends()
    assert everything(pair) == set(range(3000))


@pytest.mark.parametrize("outstanding", [1, 3])
def test_few_elements_in_flight(make_cluster, outstanding):
    """Credits and what is kept by the workers do not wait for each other."""
    cluster = make_cluster(workers=2)
    ds = Dataset.range(300).apply(
        cluster.distribute(
            "distributed_epoch", guarantee="at_least_once", max_outstanding_requests=outstanding
        )
    )
    assert sorted(int(x) for x in ds) == list(range(300))


def test_who_leaves_early_leaves_the_rest_to_others(make_cluster):
    cluster = make_cluster(workers=1)
    ds = Dataset.range(500).apply(
        cluster.distribute("distributed_epoch", guarantee="at_least_once", job_name="shared")
    )
    first = iter(ds)
    got = [int(x) for x in itertools.islice(first, 20)]
    second = iter(
        Dataset.range(500).apply(
            cluster.distribute("distributed_epoch", guarantee="at_least_once", job_name="shared")
        )
    )
    got += [int(next(second))]
    del first
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got += [int(x) for x in second]
    assert set(got) == set(range(500))


def test_interrupts_leave_nothing_out(make_cluster):
    cluster, raised = make_cluster(workers=2), 0
    ds = Dataset.range(20000).apply(
        mr.service.distribute("distributed_epoch", cluster.service, guarantee="at_least_once")
    )
    while raised < 30:
        it, got = iter(ds), []

        def read():
            for x in it:
                got.append(int(x))

        raised += interrupted(read)
        assert sorted(got) == list(range(20000))
