"""
What nobody reads any more goes away, and is not begun again behind anybody's back. After a start
nothing is collected for a while.
"""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import millrace as mr
from conftest import freeze, thaw, wait_until, with_parent

Dataset = mr.Dataset
ENDLESS = 10**12


def values(ds):
    return [int(x) for x in ds]


def reader(cluster, mode="parallel_epochs", n=ENDLESS, **arguments):
    """An open reader that has begun."""
    it = iter(Dataset.range(n).apply(cluster.distribute(mode, **arguments)))
    next(it)
    return it


def open_tasks(cluster):
    return sum(int(w.get("tasks", 0)) for w in cluster.status()["workers"])


def jobs(cluster):
    return {j.get("name", ""): j.get("iterations", []) for j in cluster.status().get("jobs", [])}


def test_the_task_of_a_reader_that_left_goes(make_cluster):
    cluster = make_cluster(client_timeout_ms=15_000, job_gc_timeout_ms=100)
    anonymous = reader(cluster)
    named = reader(cluster, job_name="named")
    assert open_tasks(cluster) == 2
    anonymous.close()
    wait_until(lambda: open_tasks(cluster) == 1, "the job that nobody else can read goes")
    named.close()
    wait_until(lambda: open_tasks(cluster) == 0, "an iteration that nobody reads is collected")
    assert values(Dataset.range(5).apply(cluster.distribute(job_name="named-2"))) == list(range(5))


def test_only_what_nobody_reads_goes(make_cluster):
    cluster = make_cluster(client_timeout_ms=15_000, job_gc_timeout_ms=100)
    one, first, second = (reader(cluster, job_name=name) for name in ("test1", "test2", "test2"))
    dynamic = reader(cluster, "distributed_epoch", job_name="dynamic")
    for it in (one, first, dynamic):
        it.close()
    wait_until(lambda: not jobs(cluster)["test1"], "the iteration without readers is collected")
    assert jobs(cluster)["test2"][0]["clients"] == 1 and next(second) > 0
    # What a DYNAMIC iteration has handed out is not to be handed out again: it waits for readers as
    # long as its job.
    assert (
        len(jobs(cluster)["dynamic"]) == 1
        and next(reader(cluster, "distributed_epoch", job_name="dynamic")) > 0
    )


def test_dynamic_iterations_go_if_that_was_asked_for(make_cluster):
    cluster = make_cluster(
        client_timeout_ms=15_000, job_gc_timeout_ms=100, gc_dynamic_sharding_jobs=True
    )
    reader(cluster, "distributed_epoch", n=10**6, job_name="dynamic").close()
    wait_until(lambda: open_tasks(cluster) == 0, "the iteration is collected")
    # It counts as ended: nothing of it is handed out again.
    again = Dataset.range(10**6).apply(
        cluster.distribute("distributed_epoch", job_name="dynamic")
    )
    with pytest.raises(mr.errors.FailedPreconditionError, match="had ended its epoch 0"):
        list(again)
    assert sorted(values(again)) == list(range(10**6))  # the next repetition


def test_a_forgotten_epoch_is_not_run_again(make_cluster):
    cluster = make_cluster(
        client_timeout_ms=15_000, job_gc_timeout_ms=100, finished_retention_ms=1000
    )
    read = lambda: Dataset.range(100).apply(
        cluster.distribute("distributed_epoch", job_name="train")
    )  # noqa: E731
    assert sorted(values(read())) == list(range(100))
    wait_until(lambda: not jobs(cluster)["train"], "the record of the finished iteration goes")
    late = read()
    with pytest.raises(mr.errors.FailedPreconditionError, match="had ended its epoch 0"):
        list(late)
    assert sorted(values(late)) == list(range(100))
    cluster.restart_dispatcher()
    with pytest.raises(mr.errors.FailedPreconditionError, match="had ended its epoch 0"):
        list(read())


def test_a_client_that_was_away_while_its_iteration_went(make_cluster):
    """It is told so; beginning from the start would give it everything twice."""
    cluster = make_cluster(client_timeout_ms=5000, job_gc_timeout_ms=100)
    source = f"""
        import millrace as mr
        while True:
            it = iter(mr.Dataset.range({ENDLESS}).apply(mr.service.distribute("parallel_epochs", "{cluster.service}", job_name="away")))
            try:
                print(next(it), flush=True)
                break
            except mr.errors.FailedPreconditionError:  # it had to wait for a CPU, and was away too early
                pass
        try:
            for x in it:
                pass
        except mr.errors.FailedPreconditionError as e:
            print(e, flush=True)
    """
    child = subprocess.Popen(
        with_parent([sys.executable, "-c", textwrap.dedent(source)]),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout.readline() == "0\n"
        freeze(child.pid)
        wait_until(lambda: not jobs(cluster)["away"], "the iteration is collected")
        thaw(child.pid)
        assert "collected" in child.stdout.readline()
        assert child.wait(120) == 0
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.mark.parametrize("restart", [False, True], ids=["", "restart"])
def test_what_was_registered_goes_by_its_name(make_cluster, restart):
    cluster = make_cluster(
        workers=0, client_timeout_ms=15_000, job_gc_timeout_ms=100, dataset_retention_ms=1000
    )
    mr.service.register_dataset(cluster.service, Dataset.range(3), dataset_id="named")
    anonymous = mr.service.register_dataset(cluster.service, Dataset.range(4))
    if restart:
        cluster.restart_dispatcher()
    wait_until(
        lambda: [d["id"] for d in cluster.status()["datasets"]] == ["named"],
        "the anonymous one goes",
    )
    with pytest.raises(mr.errors.NotFoundError, match=anonymous):
        mr.service.from_dataset_id("parallel_epochs", cluster.service, anonymous)
    assert mr.service.from_dataset_id(
        "parallel_epochs", cluster.service, "named"
    ).element_spec == mr.TensorSpec([], mr.int64)
