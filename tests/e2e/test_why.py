"""
What bounds a job is named, where nothing else can bound it: nobody comes on before it was named.
"""

import os
import pathlib
import subprocess
import threading

import pytest

import millrace as mr
from conftest import wait_until, writer_of
from millrace._capi import ffi as _ffi

Dataset = mr.Dataset
PROGRAM = _ffi.program_path()
ENDLESS = 1 << 60


@pytest.fixture
def readers():
    """readers(ds, ...): its iterator, closed at the end, as whoever waits in it is told."""
    iterators = []

    def read(cluster, ds, job, **options):
        distribute = mr.service.distribute(
            "parallel_epochs", cluster.service, job_name=job, **options
        )
        iterators.append(iter(ds.apply(distribute)))
        return iterators[-1]

    yield read
    for iterator in iterators:
        iterator.close()


def in_thread(iterator):
    """Somebody who reads until the iterator is closed."""

    def run():
        try:
            for _ in iterator:
                pass
        except mr.errors.FailedPreconditionError:
            pass  # closed

    threading.Thread(target=run, daemon=True).start()


def why(cluster, job):
    jobs = cluster.status().get("jobs", [])
    return next((j.get("why", {}) for j in jobs if j.get("name") == job), {})


def wait_for(cluster, job, bound):
    wait_until(
        lambda: why(cluster, job).get("bound") == bound,
        lambda: f"{job} is bound by {bound}, not: {why(cluster, job)}",
    )
    return why(cluster, job)


def test_a_trainer_that_does_not_come_back(make_cluster, readers):
    cluster = make_cluster()
    next(readers(cluster, Dataset.range(ENDLESS).map(lambda x: x + 1), "train"))
    assert wait_for(cluster, "train", "trainer")["permille"] > 500


def test_a_file_that_gives_nothing(make_cluster, readers, tmp_path):
    cluster = make_cluster()
    fifo = tmp_path / "lines"
    os.mkfifo(fifo)
    ds = mr.TextLineDataset(str(fifo))
    in_thread(readers(cluster, ds, "train"))
    writer = wait_until(lambda: writer_of(fifo), "somebody reads the file")
    try:
        found = wait_for(cluster, "train", "storage")
        said = subprocess.run(
            [PROGRAM, "job", "why", "train", "--service", cluster.service],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    finally:
        os.close(writer)
    assert found["operator"].startswith("TextLineDataset (")
    assert pathlib.Path(__file__).name in found["operator"]
    assert found["place"].split(" at ")[1].startswith("/")
    assert said.startswith(f"job train: bound by storage: {found['operator']}, {found['place']}, ")
    assert "\n    TIME  BOUND     OPERATOR\n" in said


def test_a_consumer_that_does_not_come_back(make_cluster, readers):
    cluster = make_cluster()
    for i in (0, 2):
        in_thread(
            readers(cluster, Dataset.range(ENDLESS), "rounds", num_consumers=3, consumer_index=i)
        )
    slow = readers(cluster, Dataset.range(ENDLESS), "rounds", num_consumers=3, consumer_index=1)
    next(slow)
    assert wait_for(cluster, "rounds", "consumer")["place"] == "consumer 1"
