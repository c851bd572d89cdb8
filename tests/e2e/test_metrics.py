"""Metrics and health of both servers: they say what status says, and disturb nothing."""

import itertools
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

import millrace as mr
from conftest import free_port, run_state, wait_until
from exposition import Page, get, page
from millrace._capi import ffi as _ffi

Dataset = mr.Dataset
PROGRAM = _ffi.program_path()
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs/run/metrics.md"
NOT_OF_THE_STATE = ("leader", "dispatchers/", "meta/")


@pytest.fixture
def measured(make_cluster):
    """measured(workers=1, ...): a cluster whose servers all serve metrics."""

    def make(workers=1, worker=None, **arguments):
        cluster = make_cluster(workers=0, metrics_port=0, **arguments)
        for _ in range(workers):
            cluster.start_worker(metrics_port=0, **(worker or {}))
        return cluster

    return make


def leader_page(cluster):
    pages = [page(d.metrics_address) for d in cluster.dispatchers]
    leading = [p for p in pages if p.value("millrace_dispatcher_leader") == 1]
    assert len(leading) == 1
    return leading[0]


def count_keys(etcd, cluster):
    lines = subprocess.run(
        [
            "etcdctl",
            f"--endpoints={etcd.endpoint}",
            "get",
            "--prefix",
            "--keys-only",
            f"/millrace/{cluster.name}/",
        ],
        env={**os.environ, "ETCDCTL_API": "3"},
        capture_output=True,
        text=True,
        timeout=120,
    ).stdout.split()
    names = [line.removeprefix(f"/millrace/{cluster.name}/") for line in lines]
    return sum(not n.startswith(NOT_OF_THE_STATE) for n in names)


def states_of(status):
    """What the metrics with a label `state` say, from a status document."""
    workers = {"live": 0, "draining": 0, "lost": 0}
    for w in status.get("workers", []):
        if not w.get("left"):
            workers["lost" if w.get("lost") else "draining" if w.get("draining") else "live"] += 1
    jobs, iterations = {"active": 0, "idle": 0}, {"open": 0, "finished": 0}
    tasks = dict.fromkeys(("open", "ended", "drained", "failed", "lost"), 0)
    for job in status.get("jobs", []):
        its = job.get("iterations", [])
        jobs["active" if any(not i.get("finished") for i in its) else "idle"] += 1
        for i in its:
            iterations["finished" if i.get("finished") else "open"] += 1
            for t in i.get("tasks", []):
                tasks[t["state"]] += 1
    for t in itertools.chain.from_iterable(
        p.get("tasks", []) for p in status.get("productions", [])
    ):
        tasks[t["state"]] += 1
    return {
        "millrace_workers": workers,
        "millrace_jobs": jobs,
        "millrace_iterations": iterations,
        "millrace_tasks": tasks,
    }


def numbers_of(status):
    """What some of the others say."""
    return {
        "millrace_dispatcher_epoch": int(status["epoch"]),
        "millrace_datasets": len(status.get("datasets", [])),
        "millrace_productions": len(status.get("productions", [])),
        "millrace_dispatchers": len(status["dispatchers"]),
    }


def check_against_status(cluster):
    """Between two equal status documents the page must say the same."""

    def agree():
        before = cluster.status()
        p = leader_page(cluster)
        after = cluster.status()
        states, numbers = states_of(before), numbers_of(before)
        if (states, numbers) != (states_of(after), numbers_of(after)):
            return False
        assert {name: p.by(name, "state") for name in states} == states
        assert {name: p.value(name) for name in numbers} == numbers
        return True

    wait_until(agree, "two status documents in a row are equal")


def test_pages_say_what_status_says(etcd, measured):
    cluster = measured(workers=2)
    check_against_status(cluster)
    ds = Dataset.range(1000)
    done = ds.apply(cluster.distribute("distributed_epoch", job_name="done"))
    assert sorted(int(x) for x in done) == list(range(1000))
    reader = iter(Dataset.range(1 << 40).apply(cluster.distribute(job_name="reads")))
    next(reader)
    check_against_status(cluster)
    wait_until(
        lambda: leader_page(cluster).value("millrace_clients") == 1, "the other client has gone"
    )

    p = leader_page(cluster)
    assert p.by("millrace_job_clients", "data_job") == {"done": 0, "reads": 1}
    assert p.value("millrace_splits_assigned_total") == 1000
    assert p.value("millrace_splits_lost_total") == 0
    assert p.value("millrace_dispatcher_takeover_seconds_count") == 1
    assert p.value("millrace_rpc_seconds_count", method="Open") >= 2
    with pytest.raises(mr.errors.NotFoundError):
        mr.service.delete_dataset(cluster.service, "nobody's")
    assert (
        leader_page(cluster).value(
            "millrace_rpc_errors_total", method="DeleteDataset", code="NOT_FOUND"
        )
        == 1
    )
    assert p.value("millrace_store_txn_seconds_count", result="ok") > 0
    assert p.value("millrace_store_written_bytes_total") > 0
    assert p.value("millrace_store_write_budget_bytes_per_second") == 1000000
    wait_until(
        lambda: leader_page(cluster).value("millrace_store_keys") == count_keys(etcd, cluster),
        "the keys are counted",
    )

    def worker_pages():
        return [page(w.metrics_address) for w in cluster.workers]

    # One may have to begin still, and what was received may not be counted yet.
    wait_until(
        lambda: all(
            w.value("millrace_worker_busy_seconds_total") > 0
            and w.value("millrace_worker_tasks", kind="own") >= 1
            for w in worker_pages()
        ),
        "both workers work",
    )
    wait_until(
        lambda: sum(
            w.value("millrace_worker_elements_total", source="pipeline") for w in worker_pages()
        )
        >= 1001,
        "what was sent is counted",
    )
    for w in worker_pages():
        assert w.value("millrace_worker_made_elements_total") >= w.value(
            "millrace_worker_elements_total", source="pipeline"
        )
        assert w.value("millrace_worker_registered") == 1
    wait_until(
        lambda: sum(w.value("millrace_worker_sessions") for w in worker_pages()) >= 1,
        "the reader has a session",
    )
    reader.close()


def test_every_metric_is_in_the_docs_and_every_process_tells_of_itself(measured):
    started = time.time()
    cluster = measured()
    version = re.search(r"\d+\.\d+\.\d+", mr.version())[0]
    rows = dict(re.findall(r"^\| `((?:millrace|process)_\w+)` \| (\w+) \|", DOCS.read_text(), re.M))
    for address, component in (
        (cluster.dispatchers[0].metrics_address, "dispatcher"),
        (cluster.workers[0].metrics_address, "worker"),
    ):
        p = page(address)
        assert {n: rows.get(n) for n in p.types} == p.types
        assert p.value("millrace_build_info", component=component, version=version) == 1
        assert p.value("process_resident_memory_bytes") > 1 << 20
        assert 0 < p.value("process_open_fds") < p.value("process_max_fds")
        assert p.value("process_cpu_seconds_total") < 1000
        assert started - 1 < p.value("process_start_time_seconds") < time.time() + 1


def test_one_leads_and_the_standby_is_ready_too(measured):
    cluster = measured(dispatchers=2)
    pages = [page(d.metrics_address) for d in cluster.dispatchers]
    leads = [p.value("millrace_dispatcher_leader") for p in pages]
    assert sorted(leads) == [0, 1]
    leader, standby = leads.index(1), leads.index(0)
    for d in cluster.dispatchers:
        assert get(d.metrics_address, "/healthz") == (200, "ok\n")
        wait_until(
            lambda: get(d.metrics_address, "/readyz") == (200, "ok\n"), "etcd has answered it"
        )
    assert not pages[standby].has("millrace_workers")
    epoch = pages[leader].value("millrace_dispatcher_epoch")
    wait_until(
        lambda: page(cluster.dispatchers[standby].metrics_address).value(
            "millrace_dispatcher_epoch"
        )
        == epoch,
        "the standby knows the leader",
    )
    cluster.dispatchers[leader].kill()
    address = cluster.dispatchers[standby].metrics_address
    wait_until(
        lambda: page(address).value("millrace_dispatcher_leader") == 1, "the other one leads"
    )
    after = page(address)
    assert after.value("millrace_dispatcher_epoch") > epoch
    assert after.value("millrace_dispatcher_leader_changes_total") >= 2
    assert after.value("millrace_dispatcher_takeover_seconds_count") == 1


def test_splits_of_a_lost_worker_are_counted(measured):
    cluster = measured(workers=2, worker_timeout_ms=3000)
    ds = Dataset.range(3_000_000).batch(1000)  # more than a worker makes ahead of its readers
    readers = {
        g: iter(ds.apply(cluster.distribute("distributed_epoch", job_name=g, guarantee=g)))
        for g in ("at_most_once", "at_least_once")
    }
    for reader in readers.values():
        next(reader)
    wait_until(
        lambda: len([t for t in cluster.tasks() if int(t.get("splits", 0)) > 0]) == 4,
        "both workers have splits of both jobs",
    )
    cluster.workers[0].kill()
    with pytest.warns(mr.DataLossWarning):
        for reader in readers.values():
            for _ in reader:
                pass
    check_against_status(cluster)
    p = leader_page(cluster)
    assert p.value("millrace_workers", state="lost") >= 1
    ends = {j["name"]: j["iterations"][-1]["end"] for j in cluster.status()["jobs"]}
    lost = {name: int(end.get("lostSplits", 0)) for name, end in ends.items()}
    assert p.by("millrace_job_lost_splits", "data_job") == lost
    assert p.value("millrace_splits_lost_total") == lost["at_most_once"] > 0
    assert p.by("millrace_job_repeated_splits", "data_job") == {
        name: int(end.get("repeatedSplits", 0)) for name, end in ends.items()
    }
    assert p.value("millrace_splits_returned_total", reason="lost") >= int(
        ends["at_least_once"].get("repeatedSplits", 0)
    )
    assert p.value("millrace_splits_returned_total", reason="given_back") == 0


# ---- sharing ----


def wide(n):
    return Dataset.range(n).map(lambda x: (x, mr.broadcast_to(mr.cast(x, mr.uint8), [65536])))


def take(it, n):
    return [int(x) for x, _ in itertools.islice(it, n)]


def trainer(name, **arguments):
    return {"job_name": "j", "cross_trainer_cache": mr.service.CrossTrainerCache(name), **arguments}


def test_what_a_reader_was_skipped_shows(measured):
    cluster = measured(worker={"cross_trainer_cache_size_bytes": 32 << 20})
    slow, fast = (
        iter(wide(1 << 40).repeat().apply(cluster.distribute(**trainer(name))))
        for name in ("slow", "fast")
    )
    take(slow, 1)
    take(fast, 1500)
    while not slow.skipped:
        take(slow, 1)
    wait_until(
        lambda: leader_page(cluster).by("millrace_job_skipped_elements", "data_job")
        == {"j+slow": slow.skipped, "j+fast": 0},
        "what was skipped is counted for each reader",
    )
    told = slow.skipped
    w = page(cluster.workers[0].metrics_address)
    assert w.value("millrace_worker_skipped_elements_total") >= told
    assert w.value("millrace_worker_elements_total", source="window") > 0
    assert w.value("millrace_worker_windows", place="disk") == 1
    assert 0 < w.value("millrace_cache_bytes") <= w.value("millrace_cache_limit_bytes") == 32 << 20
    assert leader_page(cluster).by("millrace_windows", "place") == {"disk": 1, "memory": 0}
    check_against_status(cluster)


def test_what_does_not_share_shows(measured, tmp_path):
    cluster = measured(
        worker={"cross_trainer_cache_size_bytes": 32 << 20, "cache_dir": str(tmp_path / "cache")}
    )
    a = iter(wide(1 << 40).apply(cluster.distribute(job_name="a", sharing="auto")))
    take(a, 50)
    (tmp_path / "cache").rename(tmp_path / "elsewhere")  # the next file cannot be made
    b = iter(
        wide(1 << 40).apply(
            cluster.distribute(
                "distributed_epoch", job_name="b", sharing="auto", guarantee="at_least_once"
            )
        )
    )
    take(b, 1)

    def degraded():
        take(a, 100)
        return (
            page(cluster.workers[0].metrics_address).value(
                "millrace_worker_windows", place="memory"
            )
            == 1
        )

    wait_until(degraded, "the window is in memory")
    w = page(cluster.workers[0].metrics_address)
    reasons = w.by("millrace_worker_windows_degraded_total", "reason")
    assert sum(reasons.values()) == 1 and all(re.fullmatch("[A-Z_]+", r) for r in reasons)
    wait_until(
        lambda: leader_page(cluster).by("millrace_windows", "place") == {"disk": 0, "memory": 1},
        "the leader knows",
    )
    assert leader_page(cluster).by("millrace_iterations_unshared", "reason") == {
        "guarantee": 1,
        "not_joined": 0,
    }


# ---- rounds ----


def test_whom_a_round_waits_for_shows(measured):
    cluster = measured()
    ds = Dataset.range(1 << 60)
    readers = {}

    def opened(i):
        readers[i] = iter(
            ds.apply(cluster.distribute(job_name="rounds", num_consumers=3, consumer_index=i))
        )
        next(readers[i])

    def reads_on(i):
        try:
            for _ in readers[i]:
                pass
        except mr.errors.MillraceError:
            pass  # closed at the end of the test

    openers = [threading.Thread(target=opened, args=(i,)) for i in range(3)]
    for t in openers:
        t.start()
    for t in openers:
        t.join(120)
    others = [threading.Thread(target=reads_on, args=(i,), daemon=True) for i in (0, 2)]
    for t in others:
        t.start()

    def waited_for():
        samples = leader_page(cluster).samples.items()
        return [
            (dict(labels), seconds)
            for (name, labels), seconds in samples
            if name == "millrace_rounds_waiting_seconds"
        ]

    # While somebody comes, others may be waited for as well.
    wait_until(
        lambda: [labels for labels, _ in waited_for()] == [{"data_job": "rounds", "consumer": "1"}],
        "consumer 1, who does not read, is named",
    )
    assert all(seconds > 0 for _, seconds in waited_for())
    position = leader_page(cluster).value("millrace_rounds_position", data_job="rounds")
    assert position > 0
    readers[1].close()
    for i in (0, 2):
        readers[i].close()
    for t in others:
        t.join(120)


# ---- the port ----


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    "address", ["nonsense", "127.0.0.1", ":9", "127.0.0.1:70000", "::1:9100", "127.0.0.1:9x"]
)
@pytest.mark.parametrize(
    "server",
    [["dispatcher", "--etcd-endpoints=127.0.0.1:1"], ["worker", "--dispatcher=127.0.0.1:1"]],
)
def test_what_is_no_address_is_a_usage_error(server, address):
    done = run(*server, f"--metrics-address={address}")
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        (
            f"millrace {server[0]}: serving metrics on '{address}': host:port is wanted, with a"
            " port from 0 to 65535"
        ),
        f"See: millrace help {server[0]}",
    ]


def test_a_taken_address_is_told_before_anything_else(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for server in (
            ["dispatcher", f"--work-dir={tmp_path / 'home'}"],
            ["worker", "--dispatcher=127.0.0.1:1"],
        ):
            done = run(*server, f"--metrics-address={address}")
            assert done.returncode == 4
            assert done.stderr.splitlines() == [
                f"millrace {server[0]}: serving metrics on '{address}': Address already in use"
            ]
    assert not (tmp_path / "home").exists()


def test_without_the_option_nothing_is_served(cluster):
    assert cluster.dispatchers[0].metrics_address is None
    assert cluster.workers[0].metrics_address is None


def test_a_port_of_python_is_checked():
    for port in (-1, 65536):
        with pytest.raises(ValueError, match="metrics_port"):
            mr.service.DispatchServer(mr.service.DispatcherConfig(metrics_port=port))
        with pytest.raises(ValueError, match="metrics_port"):
            mr.service.WorkerServer(mr.service.WorkerConfig("localhost:1", metrics_port=port))


def test_health_does_not_ask_etcd_and_readiness_does(tmp_path):
    port = free_port()
    child = subprocess.Popen(
        [
            PROGRAM,
            "dispatcher",
            "--listen=127.0.0.1:0",
            "--etcd-endpoints=127.0.0.1:1",
            "--log-level=off",
            f"--owner-pid={os.getpid()}",
            f"--metrics-address=localhost:{port}",
        ]
    )
    try:
        address = f"localhost:{port}"

        def answers():
            try:
                return get(address, "/healthz")
            except OSError:
                return None

        assert wait_until(answers, "the port is open") == (200, "ok\n")
        assert get(address, "/readyz") == (503, "etcd has not answered yet\n")
        p = page(address)
        assert p.value("millrace_dispatcher_leader") == p.value("millrace_dispatcher_epoch") == 0
    finally:
        child.terminate()
        assert child.wait(120) == 0


def test_what_is_not_there_is_said(measured):
    address = measured().workers[0].metrics_address
    assert get(address, "/nothing") == (404, "there are /metrics, /healthz and /readyz\n")
    with socket.create_connection(address.split(":"), timeout=120) as s:
        s.sendall(b"POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nabcd")
        assert s.recv(4096).startswith(b"HTTP/1.1 405 ")
    with socket.create_connection(address.split(":"), timeout=120) as s:
        s.sendall(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert s.makefile("rb").read().endswith(b"\r\n\r\n")
    with socket.create_connection(address.split(":"), timeout=120) as s:
        try:
            s.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 100000)
            answer = s.recv(4096)
        except (
            ConnectionError
        ):  # it closed before it had all of it, and that overtakes what it said
            answer = b""
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
    assert get(address, "/healthz") == (200, "ok\n")


def test_clients_that_hang_disturb_nothing(measured):
    cluster = measured()
    servers = [*cluster.dispatchers, *cluster.workers]
    hanging = []
    for server in servers:
        for said in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"):
            for _ in range(8):
                s = socket.create_connection(server.metrics_address.split(":"), timeout=120)
                s.sendall(said)
                hanging.append(s)
    assert all(isinstance(page(server.metrics_address), Page) for server in servers)
    assert sorted(
        int(x) for x in Dataset.range(100).apply(cluster.distribute("distributed_epoch"))
    ) == list(range(100))
    for server in servers[::-1]:
        os.kill(server.pid, signal.SIGTERM)
        assert server.join() is None
        assert server._child.join() == 0
    for s in hanging:
        s.close()


def test_a_worker_that_drains_is_not_ready_and_still_tells(measured):
    cluster = measured(worker={"shutdown_quiet_period_ms": 60000})
    worker = cluster.workers[0]
    unread = Dataset.range(1).flat_map(
        lambda x: Dataset.range(1 << 40)
    )  # more of one split than a reader takes ahead
    reader = iter(unread.apply(cluster.distribute("distributed_epoch", job_name="j")))
    next(reader)
    os.kill(worker.pid, signal.SIGTERM)
    wait_until(lambda: get(worker.metrics_address, "/readyz")[0] == 503, "it is not ready any more")
    assert get(worker.metrics_address, "/healthz") == (200, "ok\n")
    assert page(worker.metrics_address).value("millrace_worker_draining") == 1
    wait_until(
        lambda: leader_page(cluster).value("millrace_workers", state="draining") == 1,
        "the dispatcher knows",
    )
    reader.close()
    os.kill(worker.pid, signal.SIGTERM)  # at once
    worker.join()
    with pytest.raises(OSError):
        get(worker.metrics_address)


def test_the_port_is_closed_at_the_end(measured):
    cluster = measured()
    addresses = [s.metrics_address for s in (*cluster.workers, *cluster.dispatchers)]
    for server in (*cluster.workers, *cluster.dispatchers):
        server.stop()
    for address in addresses:
        with pytest.raises(OSError):
            get(address)


def test_dev_says_where_everybody_serves(tmp_path):
    out, child_end = os.pipe()
    child = subprocess.Popen(
        [
            PROGRAM,
            "dev",
            "--dispatchers=1",
            "--workers=1",
            "--log-level=warn",
            f"--owner-pid={os.getpid()}",
        ],
        stdout=child_end,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    os.close(child_end)
    try:
        with open(out) as f:
            said = "".join(itertools.takewhile(lambda line: "Ctrl-C" not in line, f))
        addresses = re.findall(r"http://(\S+)/metrics", said)
        assert len(addresses) == 2
        assert page(addresses[0]).value("millrace_workers", state="live") == 1
        assert page(addresses[1]).value("millrace_worker_registered") == 1
    finally:
        child.terminate()
        assert child.wait(120) == 0
