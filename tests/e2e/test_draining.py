"""
Workers that are stopped gracefully: what they have not opened goes to others, what they have begun
is read first.
"""

import collections
import itertools
import os
import signal
import subprocess
import threading
import warnings

import pytest

import millrace as mr
from conftest import freeze, pid_gone, thaw, wait_until
from exposition import get, page
from millrace._capi import ffi as _ffi

FILES, RECORDS, RECORD_BYTES = 80, 40, 30_000
PATIENT_MS = 3_600_000  # longer than any test


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of a megabyte: an open one is more than is on its way to a reader."""
    directory = tmp_path_factory.mktemp("files")
    paths = []
    for i in range(FILES):
        path = str(directory / f"{i:03}.tfrecord")
        with mr.io.TFRecordWriter(path) as writer:
            for k in range(RECORDS):
                writer.write((b"%d-%d-" % (i, k)).ljust(RECORD_BYTES, b"."))
        paths.append(path)
    return paths


def name(record):
    return record.rstrip(b".")


ALL = collections.Counter(b"%d-%d-" % (i, k) for i in range(FILES) for k in range(RECORDS))


def read(cluster, files, **arguments):
    ds = mr.TFRecordDataset(files).apply(
        cluster.distribute("distributed_epoch", max_outstanding_requests=4, **arguments)
    )
    return iter(ds)


def stop_in_background(server):
    thread = threading.Thread(target=server.stop)
    thread.start()
    return thread


def worker_of(cluster, i):
    return next(
        w for w in cluster.status()["workers"] if w["address"] == cluster.workers[i].address
    )


def splits_of(cluster, i):
    """Handed out to it and not given back."""
    return sum(
        int(t.get("splits", 0))
        for t in cluster.tasks()
        if t["workerAddress"] == cluster.workers[i].address
    )


def both_read(cluster, it):
    """
    The first element; both workers have opened a split then, and have more than they open for a
    reader that rests.
    """
    got = [name(next(it))]
    wait_until(
        lambda: sum(int(t.get("delivered", 0)) > 0 for t in cluster.tasks()) == 2, "both have begun"
    )
    return got


def opened_by_who_went(got):
    """Files that did not come, or not whole."""
    return len({record.split(b"-")[0] for record in ALL - collections.Counter(got)})


@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once"])
def test_a_worker_that_drains_loses_nothing_and_nothing_comes_twice(make_cluster, files, guarantee):
    cluster = make_cluster()
    cluster.start_worker(shutdown_quiet_period_ms=PATIENT_MS)
    it = read(cluster, files, guarantee=guarantee)
    got = both_read(cluster, it)
    granted = splits_of(cluster, 1)
    stopping = stop_in_background(cluster.workers[1])
    wait_until(lambda: worker_of(cluster, 1).get("draining"), "the dispatcher knows that it drains")
    wait_until(lambda: splits_of(cluster, 1) < granted, "it has given back what it had not opened")
    with warnings.catch_warnings():
        warnings.simplefilter("error", mr.DataLossWarning)
        got += [name(record) for record in it]
    assert collections.Counter(got) == ALL
    assert it.losses.lost_workers == it.losses.lost_splits == it.losses.repeated_splits == 0
    stopping.join()
    wait_until(lambda: worker_of(cluster, 1).get("lost"), "the dispatcher knows that it went")
    assert worker_of(cluster, 1).get("left")


def drain(cluster, worker, *more):
    return subprocess.Popen(
        [
            _ffi.program_path(),
            *("worker", "drain", worker, "--service", cluster.service.split("://")[1], *more),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_worker_that_was_told_to_drain_loses_nothing_and_ends(make_cluster, files):
    """It has no limit, whatever its own patience with a signal."""
    cluster = make_cluster()
    told = cluster.start_worker(shutdown_quiet_period_ms=1)
    it = read(cluster, files)
    got = both_read(cluster, it)
    granted = splits_of(cluster, 1)
    with drain(cluster, told.address, "--wait") as waiting:
        wait_until(lambda: splits_of(cluster, 1) < granted, "it has given back what it can")
        assert worker_of(cluster, 1)["draining"]
        with drain(cluster, worker_of(cluster, 1)["worker"]) as again:
            assert again.wait(60) == 0
        assert waiting.poll() is None
        got += [name(record) for record in it]
        assert waiting.wait(120) == 0
        assert "open task" in waiting.stderr.read()
    assert collections.Counter(got) == ALL
    assert it.losses.lost_workers == it.losses.lost_splits == it.losses.repeated_splits == 0
    wait_until(lambda: pid_gone(told.pid), "its process has ended")
    assert worker_of(cluster, 1).get("left")
    with drain(cluster, told.address) as late:
        assert late.wait(60) == 3
        assert f"there is no live worker '{told.address}'" in late.stderr.read()


def test_without_time_only_what_it_has_opened_is_lost(make_cluster, files):
    cluster = make_cluster(workers=2, metrics_port=0)
    it = read(cluster, files)
    got = both_read(cluster, it)
    cluster.workers[1].stop()
    given_back = page(cluster.dispatchers[0].metrics_address).value(
        "millrace_splits_returned_total", reason="given_back"
    )
    with pytest.warns(mr.DataLossWarning, match="1 worker lost"):
        got += [name(record) for record in it]
    assert not collections.Counter(got) - ALL
    # The dispatcher has two seconds to take something back: that it does when it has more is seen
    # below.
    assert opened_by_who_went(got) <= it.losses.lost_splits <= FILES - given_back
    assert it.losses.lost_workers == 1


def test_nobody_waits_for_a_worker_that_has_not_begun(make_cluster, files):
    """
    What it is told of while it drains it does not open: it goes without being read, whatever time
    it has.
    """
    cluster = make_cluster(worker_timeout_ms=60_000, lease_ttl_s=60)
    idle = cluster.start_worker(shutdown_quiet_period_ms=PATIENT_MS, metrics_port=0)
    freeze(idle.pid)  # it does not see its task yet
    it = read(cluster, files)
    got = [name(record) for record in itertools.islice(it, 10)]
    assert len(cluster.tasks()) == 2
    freeze(cluster.dispatchers[0].pid)  # nobody says what the task consists of
    os.kill(idle.pid, signal.SIGTERM)
    thaw(idle.pid)
    wait_until(lambda: get(idle.metrics_address, "/readyz")[0] == 503, "it drains")
    thaw(cluster.dispatchers[0].pid)
    idle.join()
    got += [name(record) for record in it]
    assert collections.Counter(got) == ALL
    assert it.losses.lost_workers == 0


def test_a_worker_that_drains_hands_its_place_to_the_next(make_cluster, files):
    """A rolling restart of the only worker: what is left waits for the new one."""
    cluster = make_cluster(workers=0)
    cluster.start_worker(shutdown_quiet_period_ms=PATIENT_MS)
    it = read(cluster, files)
    got = [name(record) for record in itertools.islice(it, 10)]
    stopping = stop_in_background(cluster.workers[0])
    wait_until(lambda: worker_of(cluster, 0).get("draining"), "the dispatcher knows that it drains")
    cluster.start_worker()
    got += [name(record) for record in it]
    stopping.join()
    assert collections.Counter(got) == ALL
    assert it.losses.lost_workers == it.losses.lost_splits == 0


def test_iterations_that_begin_later_do_without_it(make_cluster, files):
    cluster = make_cluster()
    cluster.start_worker(shutdown_quiet_period_ms=PATIENT_MS)
    first = read(cluster, files)
    got = both_read(cluster, first)
    stopping = stop_in_background(cluster.workers[1])
    wait_until(lambda: worker_of(cluster, 1).get("draining"), "the dispatcher knows that it drains")
    second = read(cluster, files)
    assert collections.Counter(name(record) for record in second) == ALL
    got += [name(record) for record in first]
    assert collections.Counter(got) == ALL
    assert first.losses.lost_workers == second.losses.lost_workers == 0
    stopping.join()


def test_a_second_signal_ends_the_wait(make_cluster, files):
    """What it has opened is lost, nothing else."""
    cluster = make_cluster()
    impatient = cluster.start_worker(shutdown_quiet_period_ms=PATIENT_MS)
    it = read(cluster, files)
    got = both_read(cluster, it)
    granted = splits_of(cluster, 1)
    os.kill(impatient.pid, signal.SIGTERM)
    wait_until(lambda: worker_of(cluster, 1).get("draining"), "the dispatcher knows that it drains")
    wait_until(lambda: splits_of(cluster, 1) < granted, "it has given back what it had not opened")
    kept = splits_of(cluster, 1)
    os.kill(impatient.pid, signal.SIGTERM)
    wait_until(lambda: worker_of(cluster, 1).get("lost"), "it has said that it goes")
    impatient.join()
    with pytest.warns(mr.DataLossWarning, match="1 worker lost"):
        got += [name(record) for record in it]
    assert not collections.Counter(got) - ALL  # nothing came twice
    assert 1 <= opened_by_who_went(got) <= it.losses.lost_splits <= kept < granted
