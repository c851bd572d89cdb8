"""
What time does, and what goes by command: a leader that hears nobody; datasets and jobs that were
given a name. What is collected by itself is in test_service_retention.py.
"""

import json
import os
import signal
import subprocess

import pytest

import millrace as mr
from conftest import freeze, run_state, thaw, wait_until
from millrace._capi import ffi as _ffi

Dataset = mr.Dataset


def millrace(cluster, *words):
    return subprocess.run(
        [_ffi.program_path(), *words, f"--service={cluster.service.split('://')[1]}"],
        capture_output=True,
        text=True,
        timeout=120,
    )


def keys(etcd, cluster, below):
    done = run_state(etcd, cluster.name, "get", below)
    return done.stdout.splitlines() if done.returncode == 0 else []


def test_a_dataset_is_deleted_when_nothing_uses_it(etcd, cluster):
    mr.service.register_dataset(cluster.service, Dataset.range(10), dataset_id="digits")
    read = mr.service.from_dataset_id(
        mr.service.ShardingPolicy.OFF, cluster.service, "digits", job_name="train"
    )
    assert sorted(int(x) for x in read) == list(range(10))
    refused = millrace(cluster, "dataset", "delete", "digits")
    assert refused.returncode == 6
    assert "is used by job 'train'" in refused.stderr
    shown = millrace(cluster, "job", "show", "train")
    assert (
        shown.returncode == 0 and "iterations" in shown.stdout and "digits" in shown.stdout
    ), shown
    assert [
        job["name"]
        for job in json.loads(millrace(cluster, "job", "show", "train", "--json").stdout)["jobs"]
    ] == ["train"]
    listed = millrace(cluster, "job", "list").stdout.splitlines()
    assert listed[0].split()[:4] == ["JOB", "ID", "STATE", "DATASET"]
    assert [row.split()[0] for row in listed[1:]] == ["train"]
    for verb in ("show", "delete"):
        wrong = millrace(cluster, "job", verb, "tarin")
        assert wrong.returncode == 3
        assert "there is no job 'tarin'; did you mean 'train'?" in wrong.stderr
    assert millrace(cluster, "job", "delete", "train").returncode == 0
    assert millrace(cluster, "job", "show", "train").returncode == 3
    assert millrace(cluster, "dataset", "delete", "digits").returncode == 0
    assert keys(etcd, cluster, "datasets/") == keys(etcd, cluster, "jobs/") == []
    assert millrace(cluster, "dataset", "delete", "digits").returncode == 3
    with pytest.raises(mr.errors.NotFoundError, match="digits"):
        mr.service.delete_dataset(cluster.service, "digits")


def test_a_job_is_deleted_under_its_reader_by_force(cluster):
    endless = Dataset.range(10).repeat()
    reader = iter(endless.apply(cluster.distribute(job_name="train")))
    next(reader)
    with pytest.raises(mr.errors.FailedPreconditionError, match="has 1 client"):
        mr.service.delete_job(cluster.service, "train")
    next(reader)
    mr.service.delete_job(cluster.service, "train", force=True)
    with pytest.raises(mr.errors.NotFoundError, match="'train'. is gone"):
        for _ in range(100_000_000):
            next(reader)


def test_a_leader_that_hears_no_worker_lets_another_one_lead(etcd, make_cluster):
    """
    All of them silent at once: that may be the leader's own fault. Nobody is given up before
    another one has listened.
    """
    # The next leader waits for half a lease before it gives anybody up: they are there again long
    # before.
    cluster = make_cluster(workers=3, dispatchers=2, worker_timeout_ms=4000, lease_ttl_s=60)
    reader = iter(Dataset.range(100_000).apply(cluster.distribute("distributed_epoch")))
    seen = [int(next(reader))]
    leader = cluster.status()["leader"]
    freeze(
        *(worker.pid for worker in cluster.workers)
    )  # within half their time, or it is the fault of those that are silent
    wait_until(lambda: cluster.status()["leader"] != leader, "another dispatcher leads")
    for worker in cluster.workers:
        thaw(worker.pid)
    seen += (int(x) for x in reader)
    assert sorted(seen) == list(range(100_000))
    assert not any('"lost"' in line for line in keys(etcd, cluster, "workers/"))
