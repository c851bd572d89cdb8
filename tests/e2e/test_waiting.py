"""A read that waits for long says what for, in one line."""

import re
import threading

import pytest

import millrace as mr
from conftest import wait_until
from millrace import Dataset

ENDLESS = 1 << 60


class Said:
    """What the library has written to stderr."""

    def __init__(self, capfd):
        self._capfd, self._text = capfd, ""

    def lines(self, job):
        self._text += self._capfd.readouterr().err
        return [line for line in self._text.splitlines() if f" job={job} " in line]

    def why(self, job, text):
        """Wait for a line of @job with @text in it."""
        wait_until(
            lambda: any(re.search(text, line) for line in self.lines(job)), f"'{text}' is said"
        )


@pytest.fixture
def said(capfd):
    return Said(capfd)


@pytest.fixture
def reading():
    """
    reading(ds): reads on a thread of its own; the list of what has come. The iterators are closed
    at the end of the test.
    """
    opened = []

    def read(ds, n=None):
        got, it = [], iter(ds)

        def run():
            try:
                for x in it:
                    got.append(x)
                    if n is not None and len(got) == n:
                        return
            except mr.errors.MillraceError as e:  # closed, or looked at by the test
                got.append(e)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        opened.append((it, thread))
        return got

    yield read
    for it, thread in opened:
        it.close()
        thread.join(120)


def consumer(cluster, index, of, ds, job):
    return ds.apply(cluster.distribute(job_name=job, num_consumers=of, consumer_index=index))


def test_who_or_what_is_waited_for_is_named(cluster, reading, said):
    address = cluster.workers[0].address
    endless = Dataset.range(ENDLESS)

    reading(consumer(cluster, 0, 3, endless, "incomplete"))
    reading(endless.filter(lambda x: x < 0).apply(cluster.distribute(job_name="barren")))
    for i in range(2):  # the second one stops to ask for more
        reading(consumer(cluster, i, 2, endless, "resting"), n=(None, 5)[i])
        reading(consumer(cluster, i, 2, Dataset.range(20), "ending"), n=(None, 5)[i])
    held = reading(
        Dataset.range(1).apply(
            cluster.distribute("distributed_epoch", job_name="held", guarantee="at_least_once")
        ),
        n=1,
    )
    wait_until(lambda: held, "somebody holds the only element")
    reading(
        Dataset.range(1).apply(
            cluster.distribute("distributed_epoch", job_name="held", guarantee="at_least_once")
        )
    )

    said.why("incomplete", r"consumer 1 \(and 1 more\) of 3 has not come yet")
    said.why(
        "barren",
        f"the pipeline at worker {address} has given nothing for [0-9]+ s, 0 elements came before",
    )
    said.why("resting", "consumer 1 is at round [0-9]+ and has not asked for what others wait for")
    said.why("ending", "consumer 1 is at round [0-9]+ ")
    said.why("held", "1 other reader of the job may hold elements back")


def test_that_a_wait_is_over_is_said_last(cluster, reading, said):
    first = reading(consumer(cluster, 0, 2, Dataset.range(ENDLESS), "late"))
    said.why("late", "consumer 1 of 2 has not come yet")
    assert not first
    reading(consumer(cluster, 1, 2, Dataset.range(ENDLESS), "late"))
    wait_until(lambda: first, "it goes on")
    said.why("late", "a read goes on")
    assert "a read goes on" in said.lines("late")[-1]


def test_a_worker_that_is_gone_is_named(make_cluster, reading, said):
    cluster = make_cluster(worker_timeout_ms=60_000)
    reading(Dataset.range(ENDLESS).apply(cluster.distribute(job_name="alone")))
    cluster.workers[0].kill()
    said.why(
        "alone",
        (
            f"a read waits .*worker {cluster.workers[0].address} cannot be reached .nothing listens"
            " or answers there: "
        ),
    )


def test_a_read_without_a_dispatcher_says_so(cluster, reading, said):
    ds = Dataset.range(1_000_000).map(
        lambda x: x + mr.cast(mr.reduce_sum(mr.range(200_000)) * 0, mr.int64)
    )
    got = reading(ds.apply(cluster.distribute("distributed_epoch", job_name="orphan")))
    wait_until(lambda: got, "it reads")
    cluster.dispatchers[0].kill()
    address = cluster.dispatchers[0].address
    said.why(
        "orphan",
        f"no dispatcher leads at grpc://{address} .{address}: nothing listens or answers there: ",
    )
