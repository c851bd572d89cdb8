"""Large definitions on workers: arrays in memory, long lists of names."""

import re
import threading

import numpy as np
import pytest

import millrace as mr
from conftest import run_state, wait_until
from exposition import page

Dataset = mr.Dataset
MIB = 1 << 20


def test_a_large_array_in_memory_is_read_from_workers(cluster):
    rows = np.random.default_rng(1).integers(
        0, 2**63, (40, 131072), np.int64
    )  # 40 MiB that do not compress
    total = 0
    for i, row in enumerate(Dataset.from_tensor_slices(rows).apply(cluster.distribute())):
        assert np.array_equal(row, rows[i])
        total += 1
    assert total == 40


def test_a_million_file_names_are_read_from_workers(etcd, cluster):
    names = [b"/data/imagenet/train/n%08d/image-%012d.jpeg" % (i % 1000, i) for i in range(1000000)]
    assert sum(map(len, names)) > 32 << 20
    ds = Dataset.from_tensor_slices(names).batch(100000).apply(cluster.distribute())
    assert [name for batch in ds for name in batch.tolist()] == names
    stored = run_state(etcd, cluster.name, "get", "datasets/").stdout
    (size,) = map(int, re.findall(r'"definitionSize":"(\d+)"', stored))
    assert size < 16 * MIB  # of 80


def test_what_is_too_large_to_be_sent_names_its_array(cluster):
    small, large = np.zeros(5), np.frombuffer(np.random.default_rng(2).bytes(100 * MIB), np.uint8)
    ds = Dataset.zip(Dataset.from_tensors(small), Dataset.from_tensors(large))
    with pytest.raises(
        mr.errors.InvalidArgumentError,
        match=r"largest array is in from_tensors and has 104857\d+ bytes: .* the limits are",
    ):
        list(ds.apply(cluster.distribute()))


def table(seed, mib):
    return np.random.default_rng(seed).integers(0, 2**63, (mib, MIB // 8), np.int64)


@pytest.fixture
def small_worker(monkeypatch, make_cluster):
    """A cluster with one worker of the smallest memory budget."""
    monkeypatch.setenv("MILLRACE_WORKER_MEMORY_BUDGET", "16MiB")
    cluster = make_cluster(workers=0)
    cluster.start_worker(metrics_port=0)
    return cluster


def memory(cluster):
    numbers = page(cluster.workers[0].metrics_address)
    used = numbers.value("millrace_worker_memory_bytes")
    assert used <= numbers.value("millrace_worker_memory_limit_bytes") == 16 * MIB
    return used, numbers.value("millrace_worker_definitions_waiting")


class Reader(threading.Thread):
    """Reads a table to its end, on a thread of its own."""

    def __init__(self, cluster, rows):
        super().__init__()
        self.rows = rows
        self.ds = Dataset.from_tensor_slices(rows).apply(cluster.distribute())
        self.read = self.error = None
        self.start()

    def run(self):
        try:
            self.read = list(self.ds)
        except mr.errors.MillraceError as error:
            self.error = error

    def judge(self):
        self.join()
        assert self.error is None, self.error
        assert np.array_equal(np.stack(self.read), self.rows)


def test_definitions_beyond_the_memory_budget_take_turns(small_worker):
    holders = []
    for seed in range(3):  # they read on for ever: room for a fourth one there is none
        holders.append(
            iter(
                Dataset.from_tensor_slices(table(seed, 4)).repeat().apply(small_worker.distribute())
            )
        )
        next(holders[-1])
    readers = [Reader(small_worker, table(seed, 4)) for seed in range(3, 5)]
    wait_until(lambda: memory(small_worker)[1] == 2, "two tasks wait for room")
    small = Reader(
        small_worker, table(6, 1)[:, :1000]
    )  # who needs little does not wait behind them
    small.judge()
    assert memory(small_worker)[1] == 2
    for holder in holders:
        holder.close()
    for reader in readers:
        reader.judge()
    assert memory(small_worker)[1] == 0


def test_a_definition_that_never_fits_is_named(small_worker):
    with pytest.raises(
        mr.errors.ResourceExhaustedError,
        match="dataset '.*': its definition takes 157.* bytes, more than 7/8 "
        "of the memory budget of 16777216: give more .--memory-budget.",
    ):
        list(Dataset.from_tensor_slices(table(1, 15)).apply(small_worker.distribute()))
    assert memory(small_worker)[0] < MIB
