"""
Dispatchers and workers that stop, restart, come late or never; what is said, and that nothing is
lost or hangs.
"""

import collections
import contextlib
import dataclasses
import errno
import gc
import itertools
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest

import millrace as mr
from millrace._capi import ffi as _ffi
from millrace._process import server as _server
from conftest import (
    children_of,
    free_port,
    freeze,
    is_waiting,
    judge_private_state,
    lives_lost,
    pid_gone,
    thaw,
    wait_until,
    with_parent,
)
from interrupts import cut_off

Dataset = mr.Dataset


def values(ds):
    return [int(x) for x in ds]


# ---- dispatchers ----


@pytest.mark.parametrize("n", [100, 1_000_000])  # of the larger one most is not made yet
def test_reading_goes_on_without_a_dispatcher(cluster, n):
    it = iter(Dataset.range(n).apply(cluster.distribute()))
    assert next(it) == 0
    cluster.dispatchers[0].kill()
    assert [int(x) for x in itertools.islice(it, n - 1)] == list(range(1, n))


def test_a_dispatcher_restarts_before_within_and_between_passes(cluster):
    ds = Dataset.range(100).apply(cluster.distribute())
    cluster.restart_dispatcher()
    assert values(ds) == list(range(100))
    cluster.restart_dispatcher()
    it = iter(ds)
    head = [int(x) for x in itertools.islice(it, 50)]
    cluster.restart_dispatcher()
    assert head + [int(x) for x in it] == list(range(100))
    cluster.restart_dispatcher(kill=False)
    assert values(ds) == list(range(100))


def test_dynamic_reading_survives_a_dispatcher_restart(cluster):
    for n in (100, 100_000):  # of the larger one most splits are still to be handed out
        it = iter(Dataset.range(n).apply(cluster.distribute("distributed_epoch")))
        head = [int(x) for x in itertools.islice(it, 50)]
        cluster.restart_dispatcher()
        assert head + [int(x) for x in it] == list(range(n))


@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once"])
def test_a_pass_goes_on_when_a_bad_record_is_put_right(etcd, make_cluster, guarantee):
    n = 200_000
    cluster = make_cluster(workers=2, client_timeout_ms=3000)

    def reader():
        how = cluster.distribute("distributed_epoch", job_name="train", guarantee=guarantee)
        return iter(Dataset.range(n).apply(how))

    first = reader()
    seen = [int(x) for x in itertools.islice(first, 50)]
    right = etcd.get(cluster.name, "jobs/train")
    etcd.put(cluster.name, "jobs/train", right[:-1])
    cluster.restart_dispatcher()
    with pytest.raises(mr.errors.DataLossError, match="jobs/train"):
        for x in first:
            seen.append(int(x))
    with pytest.raises(mr.errors.DataLossError, match="set aside"):
        next(reader())
    etcd.put(cluster.name, "jobs/train", right)
    cluster.restart_dispatcher()
    second = reader()
    seen.extend(int(x) for x in second)
    if guarantee == "at_most_once":  # what the first reader had read ahead went with it
        assert len(seen) == len(set(seen))
    else:
        assert set(seen) == set(range(n))
    assert (second.losses.lost_splits, second.losses.lost_workers) == (0, 0)


def test_registrations_survive_restarts(cluster):
    sizes = [10] * 10 + [10, 11, 12, 13, 14]
    made = []
    for i, n in enumerate(sizes):
        made.append(
            Dataset.range(n).map(lambda x: x + i).apply(cluster.distribute(job_name=f"job{i}"))
        )
        iter(made[-1]).close()
        cluster.restart_dispatcher()
    for i, (ds, n) in enumerate(zip(made, sizes)):
        assert sorted(values(ds)) == [x + i for x in range(n)]


def test_ids_survive_a_restart(cluster):
    mr.service.register_dataset(cluster.service, Dataset.range(10), dataset_id="kept")
    cluster.restart_dispatcher()
    assert values(mr.service.from_dataset_id("parallel_epochs", cluster.service, "kept")) == list(
        range(10)
    )


def test_dispatcher_and_worker_restart(make_cluster):
    cluster = make_cluster(
        worker_timeout_ms=10_000
    )  # for half of it the next leader keeps the address for who had it
    ds = Dataset.range(100).apply(cluster.distribute())
    for _ in range(2):
        cluster.restart_dispatcher()
        cluster.restart_worker()
        assert values(ds) == list(range(100))


def test_another_dispatcher_takes_over_and_readers_follow(make_cluster):
    cluster = make_cluster(workers=2, dispatchers=3)
    it = iter(Dataset.range(2000).apply(cluster.distribute("distributed_epoch", job_name="f")))
    got = [int(x) for x in itertools.islice(it, 200)]
    leader = cluster.status()["leader"]
    address = leader if isinstance(leader, str) else leader["address"]
    next(d for d in cluster.dispatchers if d.address == address).kill()
    got += [int(x) for x in it]
    assert sorted(got) == list(range(2000))
    assert values(Dataset.range(10).apply(cluster.distribute())) and cluster.status()


def test_a_private_etcd_in_work_dir_recovers(tmp_path):
    config = mr.service.DispatcherConfig(
        port=free_port(), work_dir=str(tmp_path / "state"), fault_tolerant_mode=True
    )
    with mr.service.DispatchServer(config) as first:
        mr.service.register_dataset(first.target, Dataset.range(10), dataset_id="kept")
    with mr.service.DispatchServer(config) as second:
        assert second.address == first.address
        with mr.service.WorkerServer(mr.service.WorkerConfig(second.address)):
            assert values(
                mr.service.from_dataset_id("parallel_epochs", second.target, "kept")
            ) == list(range(10))
        second.kill()
    with mr.service.DispatchServer(config) as third:
        ds = mr.service.from_dataset_id("parallel_epochs", third.target, "kept")
        assert ds.element_spec == mr.TensorSpec([], mr.int64)
        judge_private_state(third)


# ---- workers ----


def test_a_client_waits_for_servers_that_come_later(etcd):
    port = free_port()
    started = []

    def start():
        started.append(mr.service.DispatchServer(etcd.dispatcher_config(f"late-{port}", port=port)))
        started.append(mr.service.WorkerServer(mr.service.WorkerConfig(f"127.0.0.1:{port}")))

    timer = threading.Timer(0.5, start)
    timer.start()
    try:
        ds = Dataset.range(10).apply(
            mr.service.distribute("parallel_epochs", f"grpc://127.0.0.1:{port}")
        )
        assert values(ds) == list(range(10))
    finally:
        timer.join()
        for server in reversed(started):
            server.kill()


def test_a_worker_that_joins_produces_a_copy_of_its_own(cluster):
    # More than a reader that took 50 asks for ahead: the first worker cannot be done when the
    # second joins
    n = 20000
    it = iter(Dataset.range(n).apply(cluster.distribute()))
    head = [int(x) for x in itertools.islice(it, 50)]
    cluster.start_worker()
    got = collections.Counter(head + [int(x) for x in it])
    assert got == collections.Counter({i: 2 for i in range(n)})


@pytest.mark.parametrize("where", ["same port", "another port"])
@pytest.mark.parametrize("dispatcher", ["stays", "restarts"])
def test_a_worker_that_restarts_begins_its_copy_anew(make_cluster, where, dispatcher):
    cluster = make_cluster(worker_timeout_ms=5000)
    n = 20000
    it = iter(Dataset.range(n).apply(cluster.distribute()))
    head = [int(x) for x in itertools.islice(it, 50)]
    assert head == list(range(50))
    if dispatcher == "restarts":
        cluster.restart_dispatcher()
    if where == "same port":
        cluster.restart_worker()
    else:
        cluster.workers[0].kill()
        cluster.start_worker()
    with pytest.warns(mr.DataLossWarning, match="workers? lost"):  # the rest of the first copy
        rest = [int(x) for x in it]
    assert 1 <= it.losses.lost_workers <= lives_lost(cluster)
    if (
        it.losses.lost_workers > 1
    ):  # the new one, too, was silent for too long: it had to wait for a CPU
        assert set(rest) >= set(range(50, n))
        return
    on_its_way = collections.Counter(
        range(50, 50 + len(rest) - n)
    )  # of the first copy, before or among the other's
    assert collections.Counter(rest) == on_its_way + collections.Counter(range(n))


def test_a_finite_read_ends_when_a_worker_is_lost(make_cluster):
    cluster = make_cluster(workers=2, worker_timeout_ms=5000)
    # Elements of a split: more than a reader that took 10 asks for ahead, so whoever has a split is
    # not done
    each = 300
    ds = Dataset.range(300).flat_map(lambda x: Dataset.range(each * x, each * (x + 1)))
    it = iter(ds.apply(cluster.distribute("distributed_epoch")))
    got = [int(x) for x in itertools.islice(it, 10)]
    wait_until(
        lambda: [int(t.get("splits", 0)) > 0 for t in cluster.tasks()] == [True, True],
        "both workers have splits",
    )
    cluster.workers[0].kill()
    with pytest.warns(mr.DataLossWarning, match="workers? lost"):
        got += [int(x) for x in it]  # ends
    assert 1 <= it.losses.lost_workers <= lives_lost(cluster) and it.losses.incomplete_reads == 1
    assert 0 < 300 * each - len(got) <= it.losses.lost_splits * each
    assert len(got) == len(set(got)) and set(got) <= set(range(300 * each))  # at most once


def test_a_worker_that_is_stopped_says_so(make_cluster):
    cluster = make_cluster(
        workers=2, worker_timeout_ms=3_600_000
    )  # nobody learns it from its silence
    cluster.workers[0].stop()
    wait_until(
        lambda: [w["address"] for w in cluster.status()["workers"] if w.get("lost")]
        == [cluster.workers[0].address],
        "its goodbye has come",
    )
    assert values(Dataset.range(10).apply(cluster.distribute())) == list(range(10))


# ---- bad input ----


def test_no_dispatcher_is_unavailable_and_named():
    address = f"127.0.0.1:{free_port()}"
    ds = Dataset.range(10).apply(
        mr.service.distribute("parallel_epochs", address, connect_timeout_ms=1000)
    )
    with pytest.raises(mr.errors.UnavailableError, match=address):
        next(iter(ds))
    with pytest.raises(mr.errors.UnavailableError, match=address):
        mr.service.register_dataset(address, Dataset.range(1), timeout_ms=500)
    with pytest.raises(mr.errors.UnavailableError, match=address):
        mr.service.from_dataset_id("parallel_epochs", address, "id", connect_timeout_ms=500)


def test_a_worker_that_nobody_takes_on_is_unavailable():
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(
        mr.errors.UnavailableError,
        match=f"{address} took this worker on within 1000 ms: .*nothing listens",
    ):
        mr.service.WorkerServer(mr.service.WorkerConfig(address, dispatcher_timeout_ms=1000))


def test_waiting_for_a_dispatcher_is_said_and_can_be_interrupted():
    """
    A dispatcher that takes connections and says nothing; the default time is a minute, but for a
    status. Each call in a process of its own, all at once.
    """
    calls = (
        "next(iter(ds))",
        "mr.service.register_dataset(service, ds)",
        "mr.service.from_dataset_id('parallel_epochs', service, 'id')",
        "mr.service.status(service, timeout_ms=60000)",
    )
    with socket.create_server(("127.0.0.1", 0)) as silent, contextlib.ExitStack() as started:
        service = "127.0.0.1:%d" % silent.getsockname()[1]
        children = []
        for call in calls:
            source = f"""
                import millrace as mr
                service = "{service}"
                ds = mr.Dataset.range(3).apply(mr.service.distribute("parallel_epochs", service))
                try:
                    {call}
                except KeyboardInterrupt:
                    print("interrupted")
            """
            children.append(
                subprocess.Popen(
                    with_parent([sys.executable, "-c", textwrap.dedent(source)]),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            started.callback(children[-1].kill)
        for call, child in zip(calls, children):
            assert (
                child.stderr.readline()
                == f"millrace: no dispatcher answers at grpc://{service} yet, waiting up to 60 s\n"
            ), call
            child.send_signal(signal.SIGINT)
        for call, child in zip(calls, children):
            assert child.communicate(timeout=120) == ("interrupted\n", ""), call


def test_a_service_without_workers_is_said_and_waited_for(make_cluster):
    cluster = make_cluster(workers=0)
    source = f"""
        import millrace as mr
        ds = mr.Dataset.range(3).apply(mr.service.distribute("parallel_epochs", "{cluster.service}"))
        print([int(x) for x in ds])
    """
    child = subprocess.Popen(
        with_parent([sys.executable, "-c", textwrap.dedent(source)]),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        said = child.stderr.readline()
        assert (
            "a read waits" in said
            and f'why="no worker has joined the service at {cluster.service} yet"' in said
        )
        cluster.start_worker()
        out, err = child.communicate(timeout=120)
        assert out == "[0, 1, 2]\n" and "a read goes on" in err.splitlines()[-1]
    finally:
        child.kill()
        child.wait()


def test_a_frozen_dispatcher_is_unavailable_and_found_again(cluster):
    ds = lambda **more: Dataset.range(3).apply(cluster.distribute(**more))  # noqa: E731
    freeze(cluster.dispatchers[0].pid)
    try:
        with pytest.raises(mr.errors.UnavailableError, match=cluster.dispatchers[0].address):
            list(ds(connect_timeout_ms=1000))
    finally:
        thaw(cluster.dispatchers[0].pid)
    assert values(ds()) == [0, 1, 2]


def test_what_is_no_dispatcher_is_unavailable_and_says_why(cluster, etcd):
    for address, why in (
        (cluster.workers[0].address, "no method"),
        (etcd.endpoint, "unknown service"),
    ):
        said, timeout_ms = "", 500
        while why not in said and timeout_ms < 30_000:  # there must be time for an answer
            with pytest.raises(mr.errors.UnavailableError, match=f"{address} after ") as raised:
                mr.service.status(address, timeout_ms=timeout_ms)
            said, timeout_ms = str(raised.value), 4 * timeout_ms
        assert why in said


def test_a_corrupt_file_on_a_worker_names_file_and_offset(cluster, tmp_path):
    path = tmp_path / "broken.tfrecord"
    with mr.io.TFRecordWriter(str(path)) as writer:
        for i in range(10):
            writer.write(b"x" * 100)
    raw = bytearray(path.read_bytes())
    raw[5 * 116 + 50] ^= 1
    path.write_bytes(raw)
    ds = mr.TFRecordDataset(str(path)).apply(cluster.distribute())
    got = []
    with pytest.raises(mr.errors.DataLossError, match="broken.tfrecord.*580"):
        for x in ds:
            got.append(x)
    assert len(got) == 5
    assert values(Dataset.range(3).apply(cluster.distribute())) == [0, 1, 2]


def test_a_file_that_the_worker_does_not_see_is_named(cluster, tmp_path):
    ds = mr.TFRecordDataset(str(tmp_path / "missing.tfrecord")).apply(cluster.distribute())
    with pytest.raises(mr.errors.NotFoundError, match="missing.tfrecord"):
        list(ds)


def test_a_definition_above_the_limit_is_refused(cluster):
    import numpy as np

    big = np.zeros((264, 1 << 20), np.uint8)  # the limit is 256 MiB
    with pytest.raises(
        (mr.errors.InvalidArgumentError, mr.errors.ResourceExhaustedError), match="MiB|bytes"
    ):
        list(Dataset.from_tensors(big).apply(cluster.distribute()))
    assert values(Dataset.range(3).apply(cluster.distribute())) == [0, 1, 2]


def test_closing_a_reader_early_disturbs_nobody(cluster):
    for _ in range(5):
        with iter(Dataset.range(10**9).apply(cluster.distribute())) as it:
            assert next(it) == 0
    assert values(Dataset.range(3).apply(cluster.distribute())) == [0, 1, 2]


# ---- processes ----


@pytest.mark.parametrize("end", ["SIGKILL", "exit"])
def test_servers_and_the_private_etcd_end_with_their_owner(end):
    source = """
        import sys, time
        import millrace as mr
        d = mr.service.DispatchServer()
        w = mr.service.WorkerServer(mr.service.WorkerConfig(d.address))
        print(d.pid, w.pid, flush=True)
        sys.stdin.read(1)
        import os; os._exit(0)
    """
    owner = subprocess.Popen(
        with_parent([sys.executable, "-c", textwrap.dedent(source)]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pids = [int(p) for p in owner.stdout.readline().split()]
    everything = pids + children_of(pids[0])  # the private etcd is a child of the dispatcher
    assert len(everything) == 3 and not any(pid_gone(p) for p in everything)
    if end == "SIGKILL":
        owner.kill()
    else:
        owner.stdin.write("x")
        owner.stdin.close()
    owner.wait()
    wait_until(lambda: all(pid_gone(p) for p in everything), "all servers are gone")


def test_a_script_that_just_ends_takes_its_workers_before_their_dispatcher():
    source = """
        import millrace as mr
        dispatcher = mr.service.DispatchServer()
        worker = mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address))
        for x in mr.Dataset.range(100).apply(mr.service.distribute("parallel_epochs", dispatcher.target)):
            break
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source)], capture_output=True, text=True, timeout=120
    )
    assert (run.returncode, run.stdout, run.stderr) == (
        0,
        "",
        "",
    )  # a worker that finds nobody at its end says so


def test_killing_a_dispatcher_takes_its_private_etcd_along():
    server = mr.service.DispatchServer()
    etcd = children_of(server.pid)
    assert len(etcd) == 1
    server.kill()
    wait_until(lambda: pid_gone(etcd[0]), "the private etcd is gone")


def test_ctrl_c_on_the_terminal_does_not_reach_the_servers(cluster):
    assert os.getsid(cluster.workers[0].pid) != os.getsid(0)
    assert os.getsid(cluster.dispatchers[0].pid) == cluster.dispatchers[0].pid


def test_the_life_of_a_server(etcd):
    config = dataclasses.replace(etcd.dispatcher_config("life"), etcd_endpoints=[etcd.endpoint])
    server = mr.service.DispatchServer(config, start=False)
    with pytest.raises(mr.errors.FailedPreconditionError):
        server.address
    server.start()
    assert server.running and server.pid and server.target == "grpc://" + server.address
    first = server.pid
    server.stop()
    assert not server.running
    server.join()
    with server:
        assert server.pid != first
    assert not server.running


def test_every_setting_of_a_dispatcher_is_an_option_of_the_program(etcd):
    times = {
        f.name: 5000
        for f in dataclasses.fields(mr.service.DispatcherConfig)
        if f.name.endswith("_ms") and f.name != "job_gc_check_interval_ms"
    }
    config = etcd.dispatcher_config(
        "settings",
        gc_dynamic_sharding_jobs=True,
        etcd_write_budget_bytes=500_000,
        etcd_quota_bytes=1 << 30,
        **{**times, "heartbeat_interval_ms": 500},
    )
    with mr.service.DispatchServer(config) as server:
        assert server.running
    access = dataclasses.replace(
        config,
        etcd_ca_file="a",
        etcd_cert_file="b",
        etcd_key_file="c",
        etcd_server_name="d",
        etcd_user="e",
        etcd_password_file="f",
    )
    help = subprocess.run(
        [_ffi.program_path(), "dispatcher", "--help"], capture_output=True, text=True, timeout=120
    ).stdout
    flags = [flag.split("=")[0] for flag in mr.service.DispatchServer(access, start=False)._flags()]
    assert len(flags) == len(set(flags)) and [f for f in flags if f + " " not in help] == []
    with pytest.raises(mr.errors.MillraceError):
        mr.service.DispatchServer(
            dataclasses.replace(config, etcd_ca_file="/there/is/no/such/file")
        )


def test_a_start_that_is_cut_off_leaves_no_process(tmp_path, monkeypatch):
    """Whatever moment a signal handler's exception comes at."""
    program = tmp_path / "program"
    program.write_text(
        """#!/usr/bin/python3
import os, signal, sys
os.write(int(sys.argv[2].split("=")[1]), b'{"address": "127.0.0.1:1"}\\n')
signal.pause()
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("MILLRACE_PROGRAM", str(program))
    mine = set(children_of(os.getpid()))
    through, step = False, 0
    while not through:
        server = mr.service.WorkerServer(mr.service.WorkerConfig("127.0.0.1:2"), start=False)
        through = not cut_off(server.start, step)
        step += 1
        server.kill()
        wait_until(
            lambda: all(pid_gone(pid) for pid in set(children_of(os.getpid())) - mine),
            f"nothing is left of step {step}",
        )


def test_a_death_is_told_with_the_last_lines_of_the_log(monkeypatch):
    monkeypatch.setenv("MILLRACE_LOG_LEVEL", "info")
    dispatcher = mr.service.DispatchServer(mr.service.DispatcherConfig(port=0))
    os.kill(dispatcher.pid, signal.SIGKILL)
    with pytest.raises(
        mr.errors.UnavailableError, match="died: killed by SIGKILL. Its log ends with:\n"
    ) as e:
        dispatcher.join()
    lines = e.value.message.splitlines()[1:]
    assert 1 <= len(lines) <= 10
    assert all(json.loads(line)["component"] == "dispatcher" for line in lines)


def test_a_server_that_died_by_itself_says_how(make_cluster):
    cluster = make_cluster(
        worker_timeout_ms=3000
    )  # for half of it the next leader keeps the address for who had it
    dispatcher, worker = cluster.dispatchers[0], cluster.workers[0]
    read = mr.Dataset.range(3).apply(cluster.distribute()).map(lambda x: x + 1)
    within = mr.Dataset.range(2).flat_map(lambda _: read).prefetch(1)
    by_id = mr.service.from_dataset_id(
        "parallel_epochs",
        cluster.service,
        mr.service.register_dataset(cluster.service, mr.Dataset.range(3)),
    )
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(
        mr.errors.UnavailableError,
        match=f"millrace worker at {worker.address}.* died: killed by SIGKILL",
    ):
        worker.join()
    assert "died" in repr(worker)
    os.kill(dispatcher.pid, signal.SIGKILL)
    with pytest.raises(mr.errors.UnavailableError, match="millrace dispatcher .* died"):
        dispatcher.join()
    for use in (
        cluster.status,
        cluster.distribute,
        lambda: mr.service.register_dataset(cluster.service, mr.Dataset.range(1)),
        worker.start,
        lambda: iter(read),
        lambda: iter(within),
        lambda: iter(by_id),
    ):
        with pytest.raises(mr.errors.UnavailableError, match="millrace dispatcher .* died"):
            use()
    cluster.restart_dispatcher()
    cluster.status()
    worker.start()
    assert worker.running
    iter(read).close()
    worker.kill()
    worker.join()  # as was asked for
    assert "stopped" in repr(worker)


def test_a_server_that_cannot_start_says_so(etcd):
    with mr.service.DispatchServer(etcd.dispatcher_config("busy")) as server:
        port = int(server.address.rsplit(":", 1)[1])
        with pytest.raises(mr.errors.MillraceError, match="dispatcher"):
            mr.service.DispatchServer(etcd.dispatcher_config("busy", port=port))


@pytest.mark.parametrize("module, name", [(os, "memfd_create"), (os, "ftruncate"), (mmap, "mmap")])
def test_a_server_that_gets_no_room_for_its_log_leaves_no_pipe_behind(monkeypatch, module, name):
    made, pipe = [], os.pipe

    def remembered():
        ends = pipe()
        made.append(f"pipe:[{os.fstat(ends[0]).st_ino}]")
        return ends

    def refused(*_, **__):
        raise OSError(errno.ENFILE, os.strerror(errno.ENFILE))

    monkeypatch.setattr(os, "pipe", remembered)
    monkeypatch.setattr(module, name, refused)
    with pytest.raises(OSError, match=os.strerror(errno.ENFILE)):
        _server.Child("worker", [])
    held = set()
    for fd in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the one that lists them, or another thread's
            held.add(os.readlink(f"/proc/self/fd/{fd}"))
    assert not held & set(made)


def test_ctrl_c_in_a_read_from_a_stopped_worker(cluster, tmp_path):
    script = tmp_path / "reader.py"
    script.write_text(
        textwrap.dedent(
            f"""
        import itertools, sys
        import millrace as mr
        ds = mr.Dataset.range(10**9).apply(mr.service.distribute("parallel_epochs", "{cluster.service}"))
        it = iter(ds)
        next(it)
        try:
            print("reading", flush=True)
            for x in it: pass
        except KeyboardInterrupt:
            print("interrupted", flush=True)
    """
        )
    )
    child = subprocess.Popen(
        with_parent([sys.executable, str(script)]), stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "reading\n"
    freeze(cluster.workers[0].pid)
    try:
        wait_until(lambda: is_waiting(child.pid), "the reader has run dry")
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() == "interrupted\n"
        assert child.wait(120) == 0
    finally:
        thaw(cluster.workers[0].pid)


# ---- fork ----


def test_a_forked_pool_reads_from_the_service_when_nothing_is_open(make_cluster):
    import multiprocessing

    cluster = make_cluster(workers=2)
    ds = Dataset.range(200).apply(cluster.distribute("distributed_epoch", job_name="pool"))
    assert sorted(values(Dataset.range(20).apply(cluster.distribute("distributed_epoch")))) == list(
        range(20)
    )  # used, closed
    gc.collect()  # iterators of other tests, in a cycle with the error that they raised
    context = multiprocessing.get_context("fork")
    queue, both_read = context.Queue(), context.Barrier(2)

    def read():
        it = iter(ds)
        first = int(next(it))
        both_read.wait(120)  # the epoch is not over before the other one has come
        queue.put([first, *values(it)])

    children = [context.Process(target=read) for _ in range(2)]
    for child in children:
        child.start()
    got = [queue.get(timeout=120) for _ in children]
    for child in children:
        child.join()
    assert sorted(got[0] + got[1]) == list(range(200))


def refused_in_a_child(read):
    """The text of the FailedPreconditionError that @read raises in a forked child."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            read()
            text = "read on"
        except mr.errors.FailedPreconditionError as e:
            text = str(e)
        os.write(write_end, text.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return text


def test_a_fork_while_a_service_read_is_open(cluster):
    ds = Dataset.range(1000).apply(cluster.distribute())
    it = iter(ds)
    next(it)
    assert "fork" in refused_in_a_child(lambda: next(it))
    # One of the child's own needs threads of gRPC, which only the parent has.
    text = refused_in_a_child(lambda: next(iter(ds)))
    assert f"process {os.getpid()}, of which this is a fork, has the service open" in text
    assert [int(x) for x in it] == list(range(1, 1000))
