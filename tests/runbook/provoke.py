"""
Each alert of docs/run/runbook.md, provoked: real servers, a real fault, and Prometheus, which finds
that the alert's condition holds and did not before.

How long a condition has to hold before the alert fires is for promtool (tests/alerts).
"""

import itertools
import os
import pathlib
import shutil
import sys
import threading
import urllib.error
import uuid

import numpy as np
import pytest

import millrace as mr

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "e2e"))
from conftest import Cluster, Etcd, etcd, etcd_of_session, freeze, thaw, wait_until
from prometheus import Prometheus

Dataset = mr.Dataset


@pytest.fixture(scope="session")
def prometheus(tmp_path_factory):
    if shutil.which("prometheus") is None:
        pytest.skip("SKIPPED ALOUD: there is no prometheus here")
    server = Prometheus(tmp_path_factory.mktemp("prometheus"))
    yield server
    server.stop()


@pytest.fixture
def provoked(prometheus):
    """
    provoked(alert, cluster, step): its condition comes to hold while @step is done again and again;
    what Prometheus says then.
    """

    def until(alert, cluster, step=lambda: None):
        def holds():
            step()
            return prometheus.alert(alert, cluster)

        samples = wait_until(holds, f"the condition of {alert} holds", timeout_s=240)
        print(f"\n{alert}: {samples}")
        return samples

    return until


@pytest.fixture
def healthy(prometheus):
    """healthy(cluster, alert...): Prometheus has seen it, and none of the conditions holds."""

    def seen(cluster, *alerts):
        prometheus.watch(cluster)
        assert {alert: prometheus.alert(alert, cluster) for alert in alerts} == dict.fromkeys(
            alerts, []
        )
        return cluster

    return seen


def start(cluster, dispatchers=1, workers=1, **worker):
    for _ in range(dispatchers):
        cluster.start_dispatcher()
    for _ in range(workers):
        cluster.start_worker(metrics_port=0, **worker)
    return cluster


@pytest.fixture
def measured(etcd):
    """measured(dispatchers=1, workers=1, worker={}, ...): a cluster that serves metrics."""
    made = []

    def make(dispatchers=1, workers=1, worker=None, **arguments):
        made.append(Cluster(etcd, metrics_port=0, **arguments))
        return start(made[-1], dispatchers, workers, **(worker or {}))

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def own_etcd(tmp_path):
    """own_etcd(...): a cluster on an etcd of its own, which may suffer; and that etcd."""
    made = []

    def make(dispatchers=1, workers=1, **arguments):
        server = Etcd(tmp_path)
        cluster = Cluster(server, metrics_port=0, **arguments)
        made.append((server, cluster))
        return start(cluster, dispatchers, workers), server

    yield make
    for server, cluster in made:
        cluster.close()
        server.stop()


def register(cluster):
    """Something new, which the leader has to write."""
    mr.service.register_dataset(cluster.service, Dataset.from_tensors(uuid.uuid4().hex * 100))


def leader(cluster):
    address = cluster.status()["leader"]
    return next(d for d in cluster.dispatchers if d.address == address)


def wide(n):
    return Dataset.range(n).map(lambda x: (x, mr.broadcast_to(mr.cast(x, mr.uint8), [65536])))


def take(it, n):
    return [int(x) for x, _ in itertools.islice(it, n)]


# ---- dispatchers and etcd ----


def test_nobody_takes_over(own_etcd, healthy, provoked):
    cluster, etcd = own_etcd(dispatchers=2, workers=0, lease_ttl_s=60)
    healthy(cluster, "MillraceNoLeader")
    led = leader(cluster)
    freeze(etcd.process.pid)  # the other one does not hear that the leader is gone
    led.kill()
    provoked("MillraceNoLeader", cluster)


def test_etcd_stops_answering(own_etcd, healthy, provoked):
    cluster, etcd = own_etcd(dispatchers=2, workers=0)
    healthy(cluster, "MillraceStoreSilent", "MillraceStoreErrors")
    freeze(etcd.process.pid)
    provoked("MillraceStoreSilent", cluster)


def test_the_outcome_of_a_transaction_is_not_known(own_etcd, healthy, provoked):
    cluster, etcd = own_etcd(workers=0, lease_ttl_s=60)
    healthy(cluster, "MillraceStoreErrors")

    def write_in_vain():
        writer = threading.Thread(target=register, args=(cluster,))
        freeze(etcd.process.pid)
        writer.start()
        writer.join(10)  # longer than an attempt; it cannot end while etcd stands still
        thaw(etcd.process.pid)
        writer.join(120)

    provoked("MillraceStoreErrors", cluster, write_in_vain)


def test_leaders_change(measured, healthy, provoked, etcd):
    cluster = healthy(measured(dispatchers=2, workers=0), "MillraceLeaderChanges")

    def end_a_term():
        before = cluster.status()["epoch"]
        etcd.end_lease(cluster.name, leader(cluster).address)
        wait_until(lambda: cluster.status()["epoch"] != before, "another term has begun")

    provoked("MillraceLeaderChanges", cluster, end_a_term)


def test_a_dispatcher_dies(measured, healthy, provoked, etcd):
    cluster = healthy(measured(dispatchers=3, workers=0), "MillraceDispatcherMissing")
    standby = next(d for d in cluster.dispatchers if d is not leader(cluster))
    standby.kill()
    etcd.end_lease(cluster.name, standby.address)
    provoked("MillraceDispatcherMissing", cluster)


def test_etcd_is_slow(own_etcd, healthy, provoked):
    cluster, etcd = own_etcd(lease_ttl_s=60)
    healthy(cluster, "MillraceStoreSlow")

    def write_slowly():
        writer = threading.Thread(target=register, args=(cluster,))
        freeze(etcd.process.pid)
        writer.start()
        writer.join(0.5)  # it cannot end while etcd stands still
        thaw(etcd.process.pid)
        writer.join(120)

    provoked("MillraceStoreSlow", cluster, write_slowly)


def test_etcd_fills_up(own_etcd, healthy, provoked, monkeypatch):
    quota = 32 << 20
    monkeypatch.setenv("ETCD_QUOTA_BACKEND_BYTES", str(quota))
    cluster, etcd = own_etcd(lease_ttl_s=3, etcd_quota_bytes=quota)
    healthy(cluster, "MillraceStoreFilling", "MillraceStoreFull")
    numbers = itertools.count()

    def fill():
        try:
            etcd.put("somebody-else", f"filler/{next(numbers)}", "x" * (1 << 20))
        except urllib.error.HTTPError:
            pass  # it is full

    provoked("MillraceStoreFilling", cluster, fill)
    provoked("MillraceStoreFull", cluster, fill)


def test_more_is_written_than_the_budget_allows(measured, healthy, provoked):
    cluster = measured(workers=0, etcd_write_budget_bytes=1000)
    healthy(cluster, "MillraceWriteBudgetUsedUp")
    provoked("MillraceWriteBudgetUsedUp", cluster, lambda: register(cluster))


# ---- workers ----


def test_a_worker_dies_with_splits(measured, healthy, provoked):
    cluster = measured(workers=2, worker_timeout_ms=3000)
    healthy(cluster, "MillraceWorkersLost", "MillraceSplitsLost")
    ds = Dataset.range(3_000_000).batch(1000)  # more than a worker makes ahead of its readers
    reader = iter(
        ds.apply(cluster.distribute("distributed_epoch", job_name="j", guarantee="at_most_once"))
    )
    next(reader)
    wait_until(
        lambda: len([t for t in cluster.tasks() if int(t.get("splits", 0)) > 0]) == 2,
        "both workers have splits",
    )
    cluster.workers[0].kill()
    provoked("MillraceWorkersLost", cluster)
    with pytest.warns(mr.DataLossWarning):
        for _ in reader:
            pass
    provoked("MillraceSplitsLost", cluster)


def test_a_file_system_hangs(measured, healthy, provoked, monkeypatch, tmp_path):
    monkeypatch.setenv("MILLRACE_DISPATCHER_STALL_TIMEOUT", "1s")
    cluster = healthy(measured(), "MillraceTasksStalled")
    os.mkfifo(tmp_path / "file")  # nobody writes
    reader = iter(
        mr.TextLineDataset(str(tmp_path / "file")).apply(cluster.distribute(job_name="j"))
    )
    thread = threading.Thread(target=lambda: next(reader, None), daemon=True)
    thread.start()
    provoked("MillraceTasksStalled", cluster)
    os.close(os.open(tmp_path / "file", os.O_WRONLY))
    thread.join(120)


def test_the_constants_of_two_jobs_do_not_fit(measured, healthy, provoked, monkeypatch):
    monkeypatch.setenv("MILLRACE_WORKER_MEMORY_BUDGET", "64MiB")
    cluster = healthy(measured(), "MillraceWorkerMemoryFull")

    def reader(n):
        table = np.full(40 << 20, n, np.uint8)
        ds = Dataset.range(1 << 40).map(lambda i: mr.gather(table, i % 7))
        return iter(ds.apply(cluster.distribute(job_name=f"j{n}")))

    first = reader(1)
    assert next(first) == 1
    second = reader(2)
    got = []
    waiting = threading.Thread(target=lambda: got.append(next(second)), daemon=True)
    waiting.start()
    provoked("MillraceWorkerMemoryFull", cluster)
    first.close()  # its job stays for a while, and with it the constants
    mr.service.delete_job(cluster.service, "j1", force=True)
    waiting.join(120)
    assert got == [2]
    second.close()


# ---- sharing and rounds ----


def test_the_disk_of_a_window_fails(measured, healthy, provoked, tmp_path):
    cache = tmp_path / "cache"
    cluster = measured(worker={"cross_trainer_cache_size_bytes": 32 << 20, "cache_dir": str(cache)})
    healthy(cluster, "MillraceWindowsInMemory")
    reader = iter(wide(1 << 40).apply(cluster.distribute(job_name="a", sharing="auto")))
    take(reader, 50)
    cache.rename(tmp_path / "elsewhere")  # the next file cannot be made
    provoked("MillraceWindowsInMemory", cluster, lambda: take(reader, 100))
    reader.close()


def test_a_job_is_slower_than_its_window(measured, healthy, provoked):
    cluster = measured(worker={"cross_trainer_cache_size_bytes": 32 << 20})
    slow, fast = (
        iter(
            wide(1 << 40).apply(
                cluster.distribute(
                    job_name="j", cross_trainer_cache=mr.service.CrossTrainerCache(name)
                )
            )
        )
        for name in ("slow", "fast")
    )
    take(slow, 1)
    take(fast, 1)
    healthy(cluster, "MillraceJobTooSlow")

    def fall_behind():
        take(fast, 500)
        take(slow, 1)

    samples = provoked("MillraceJobTooSlow", cluster, fall_behind)
    assert [labels["data_job"] for labels, _ in samples] == ["j+slow"]
    slow.close()
    fast.close()


def test_a_consumer_stays_away(measured, healthy, provoked):
    cluster = healthy(measured(), "MillraceConsumerLate")
    readers = [
        iter(
            Dataset.range(1 << 60).apply(
                cluster.distribute(job_name="rounds", num_consumers=2, consumer_index=i)
            )
        )
        for i in range(2)
    ]
    opening = threading.Thread(target=next, args=(readers[1],))
    opening.start()
    next(readers[0])
    opening.join(120)

    def read_on():
        try:
            for _ in readers[0]:
                pass
        except mr.errors.MillraceError:
            pass  # closed below

    other = threading.Thread(target=read_on, daemon=True)
    other.start()
    samples = provoked("MillraceConsumerLate", cluster)
    assert [labels["consumer"] for labels, _ in samples] == ["1"]
    for reader in readers:
        reader.close()
    other.join(120)
