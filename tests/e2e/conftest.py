"""
What the end-to-end tests share: a private etcd for the session, clusters of real processes on it, a
clock for waiting.

The library and the program come from MILLRACE_LIBRARY and MILLRACE_PROGRAM. Everything that is
started here ends with this process, even when it is killed.
"""

import base64
import dataclasses
import errno
import faulthandler
import http.client
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import uuid

import pytest

import millrace as mr
from millrace._capi import ffi as _ffi

sys.path.insert(0, os.path.dirname(__file__))

NO_STATE = 3  # nobody has led


def with_parent(argv):
    """
    @argv, to be killed with the thread that starts it. Not by preexec_fn: Python code between fork
    and exec waits for ever when a thread of the library's, which the child does not have, held a
    lock.
    """
    return ["setpriv", "--pdeathsig=KILL", *argv]


class _Thaw:
    """
    A process that lets go on, when this one has ended, however it did, whoever is frozen by then:
    servers end with their owner then.
    """

    def __init__(self):
        wait_for_the_end = (
            'while read pid; do pids="$pids $pid"; done; kill -CONT $pids 2>/dev/null'
        )
        read, self._pids = os.pipe()
        os.posix_spawnp(
            "sh",
            ["sh", "-c", wait_for_the_end],
            os.environ,
            file_actions=[(os.POSIX_SPAWN_DUP2, read, 0)],
            setsid=True,
        )
        os.close(read)

    def note(self, pid):
        os.write(self._pids, b"%d\n" % pid)


_thaw = None


def freeze(*pids):
    """SIGSTOP: processes @pids are there and do nothing, from one moment on."""
    global _thaw
    _thaw = _thaw or _Thaw()
    for pid in pids:
        _thaw.note(pid)
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def thaw(pid):
    os.kill(pid, signal.SIGCONT)


def wait_until(condition, what, timeout_s=120):
    """
    Wait for a condition; its value. @what: the condition in words, or a function that says them.
    The limit only bounds a failing test: a machine may be many times slower than usual.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            pytest.fail(f"waited {timeout_s} s in vain until {what() if callable(what) else what}")
        time.sleep(0.01)


def writer_of(fifo):
    """The end of @fifo to write to; None: nobody has opened it to read."""
    try:
        return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return None


def _ports():
    """Those that the kernel does not give to whoever connects, or binds without naming one."""
    low, high = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    return [port for port in range(10000, 65536) if not low <= port <= high] or range(10000, 65536)


_random = random.Random()  # nobody seeds this one


def free_port():
    """
    A port for a server that may go and come back: it is nobody else's meanwhile. For other test
    processes it is taken as long as this one lives, by the name of a socket; other programs would
    have to ask for that number.
    """
    ports = _ports()
    while True:
        port = _random.choice(ports)
        reservation = socket.socket(socket.AF_UNIX)
        try:
            reservation.bind(f"\0millrace-test-port-{port}")
            with socket.socket() as s:
                s.bind(("127.0.0.1", port))
        except OSError:
            reservation.close()
        else:
            reservation.detach()  # open until this process ends
            return port


def pid_gone(pid):
    """Whether process @pid has ended (a zombie has)."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def is_waiting(pid):
    """Whether the main thread of process @pid sleeps: it waits for something."""
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rsplit(")", 1)[1].split()[0] == "S"


def run_state(etcd, cluster, *words):
    """millrace state ..., on the keys of a cluster; None: what @words say."""
    arguments = [f"--etcd-endpoints={etcd.endpoint}"] if etcd is not None else []
    arguments += [f"--cluster={cluster}"] if cluster is not None else []
    program = os.environ.get("MILLRACE_PROGRAM") or _ffi.program_path()
    return subprocess.run(
        [program, "state", *words, *arguments], capture_output=True, text=True, timeout=120
    )


def children_of(pid):
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(entry))
        except (OSError, IndexError):  # not a process, or gone meanwhile
            pass
    return found


def descendants_of(pid):
    return [p for child in children_of(pid) for p in (child, *descendants_of(child))]


def lives_lost(cluster):
    """
    Lives of workers that were given up. Who is killed is among them; one that was silent for as
    long since it had to wait for a CPU, too: it begins another life. A read counts those that had
    something to do for it.
    """
    return sum(bool(w.get("lost")) for w in cluster.status()["workers"])


def judge_private_state(dispatcher):
    """What is in the private etcd of a DispatchServer is sound."""
    [etcd] = children_of(dispatcher.pid)
    with open(f"/proc/{etcd}/cmdline") as f:
        words = f.read().split("\0")
    endpoint = words[words.index("--listen-client-urls") + 1].split("://")[1]
    done = run_state(None, "default", "check", "--timeout=60s", f"--etcd-endpoints={endpoint}")
    assert done.returncode == 0, done.stdout + done.stderr


def pytest_configure(config):
    if (
        signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    ):  # a shell's job in the background; what is started here inherits it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stderr_fd = os.dup(2)  # not captured yet


@pytest.fixture(autouse=True)
def bounded(pytestconfig):
    """
    A test that hangs ends the run, with a stack: later than anything in it gives up, which says
    what it was waiting for.
    """
    faulthandler.dump_traceback_later(600, exit=True, file=pytestconfig.stderr_fd)
    yield
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def sanitizer_reports(tmp_path_factory):
    """Where the children of this process leave what a sanitizer says of them; None without one."""
    if "ASAN_OPTIONS" not in os.environ:
        return None
    directory = tmp_path_factory.mktemp("sanitizers")
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        os.environ[name] = os.environ.get(name, "") + f":log_path={directory}/report"
    return directory


@pytest.fixture(autouse=True)
def sanitized(sanitizer_reports):
    """Whatever becomes of a server in a test, it has not misused memory."""
    yield
    for report in sorted(sanitizer_reports.iterdir()) if sanitizer_reports else []:
        text = report.read_text()
        report.unlink()
        if not text:
            continue  # it was killed before it had said anything
        pytest.fail(f"a process of this test, or of the one before it: {text}", pytrace=False)


def _encoded(text):
    return base64.b64encode(text.encode()).decode()


class Etcd:
    def __init__(self, directory):
        port, peer = free_port(), free_port()
        self.endpoint = f"127.0.0.1:{port}"
        self.clusters = []  # of the running test
        self._log = open(directory / "etcd.log", "wb")
        self.process = subprocess.Popen(
            with_parent(
                [
                    "etcd",
                    "--name",
                    "test",
                    "--data-dir",
                    str(directory / "data"),
                    "--listen-client-urls",
                    f"http://{self.endpoint}",
                    "--advertise-client-urls",
                    f"http://{self.endpoint}",
                    "--listen-peer-urls",
                    f"http://127.0.0.1:{peer}",
                    "--initial-advertise-peer-urls",
                    f"http://127.0.0.1:{peer}",
                    "--initial-cluster",
                    f"test=http://127.0.0.1:{peer}",
                    "--heartbeat-interval",
                    "50",
                    "--election-timeout",
                    "250",
                ]
            ),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )
        wait_until(self._healthy, "etcd serves")

    def _healthy(self):
        try:
            with urllib.request.urlopen(f"http://{self.endpoint}/health", timeout=5) as answer:
                return json.load(answer)["health"] == "true"
        except (OSError, http.client.HTTPException):
            return False

    def dispatcher_config(self, cluster, **arguments):
        """A DispatcherConfig whose state is here; it is judged at the end of the test."""
        self.clusters.append(cluster)
        return mr.service.DispatcherConfig(
            etcd_endpoints=self.endpoint, cluster=cluster, **arguments
        )

    def _call(self, what, **body):
        request = urllib.request.Request(
            f"http://{self.endpoint}/v3/{what}", json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def get(self, cluster, key):
        """The value of a key of @cluster; None: there is none."""
        kvs = self._call("kv/range", key=_encoded(f"/millrace/{cluster}/{key}")).get("kvs", [])
        return base64.b64decode(kvs[0]["value"]).decode() if kvs else None

    def put(self, cluster, key, value):
        """As somebody with etcdctl would."""
        self._call("kv/put", key=_encoded(f"/millrace/{cluster}/{key}"), value=_encoded(value))

    def end_lease(self, cluster, address):
        """
        What a killed dispatcher left behind goes at once, as it would when its lease has run out.
        """
        first = f"/millrace/{cluster}/dispatchers/"
        for kv in self._call(
            "kv/range", key=_encoded(first), range_end=_encoded(first[:-1] + "0")
        ).get("kvs", []):
            if json.loads(base64.b64decode(kv["value"]))["address"] == address:
                self._call("lease/revoke", ID=kv["lease"])

    def judge(self):
        """Whatever the test has done, killed or cut off: what it leaves behind is sound."""
        clusters, self.clusters = self.clusters, []
        for cluster in clusters:
            done = run_state(self, cluster, "check", "--timeout=60s")
            if done.returncode not in (0, NO_STATE):
                pytest.fail(f"the stored state after the test: {done.stdout}{done.stderr}")

    def stop(self):
        self.process.kill()
        self.process.wait()
        self._log.close()


@pytest.fixture(scope="session")
def etcd_of_session(tmp_path_factory):
    if shutil.which("etcd") is None:
        pytest.skip("SKIPPED ALOUD: there is no etcd here; the service is not tested")
    server = Etcd(tmp_path_factory.mktemp("etcd"))
    yield server
    server.stop()


@pytest.fixture
def etcd(etcd_of_session):
    yield etcd_of_session
    etcd_of_session.judge()


class Cluster:
    """Dispatchers and workers of one cluster name, as children of this process."""

    def __init__(self, etcd, **dispatcher):
        self.name = "t-" + uuid.uuid4().hex[:12]
        # Whoever has to wait for a CPU is not taken for dead, unless the test is about that. A new
        # leader waits for half a lease before it gives a worker up: for a test in which one is, it
        # is short.
        dispatcher.setdefault("worker_timeout_ms", 60_000)
        dispatcher.setdefault("lease_ttl_s", 60 if dispatcher["worker_timeout_ms"] >= 60_000 else 3)
        self._etcd = etcd
        self._config = etcd.dispatcher_config(self.name, **dispatcher)
        self.dispatchers = []
        self.workers = []

    def start_dispatcher(self):
        server = mr.service.DispatchServer(
            dataclasses.replace(self._config, port=self._config.port or free_port())
        )
        self.dispatchers.append(server)
        return server

    @property
    def addresses(self):
        return ",".join(d.address for d in self.dispatchers)

    @property
    def service(self):
        return "grpc://" + self.addresses

    def restart_dispatcher(self, i=0, kill=True):
        """
        The same address, cluster and etcd: a restart. By SIGKILL unless @kill is False. It leads
        without waiting for its own old lease.
        """
        old = self.dispatchers[i]
        old.kill() if kill else old.stop()
        self._etcd.end_lease(self.name, old.address)
        port = int(old.address.rsplit(":", 1)[1])
        self.dispatchers[i] = mr.service.DispatchServer(dataclasses.replace(old.config, port=port))

    def start_worker(self, **config):
        config.setdefault("heartbeat_interval_ms", 200)
        config.setdefault("port", free_port())
        server = mr.service.WorkerServer(mr.service.WorkerConfig(self.addresses, **config))
        self.workers.append(server)
        return server

    def restart_worker(self, i=0, kill=True):
        """The same address, another process."""
        old = self.workers[i]
        old.kill() if kill else old.stop()
        port = int(old.address.rsplit(":", 1)[1])
        self.workers[i] = mr.service.WorkerServer(dataclasses.replace(old.config, port=port))

    def status(self):
        return json.loads(mr.service.status(self.service))

    def tasks(self):
        """The tasks of all iterations that are not over, as status shows them."""
        return [
            task
            for job in self.status().get("jobs", [])
            for iteration in job.get("iterations", [])
            if not iteration.get("finished")
            for task in iteration.get("tasks", [])
        ]

    def distribute(self, mode="parallel_epochs", **arguments):
        return mr.service.distribute(mode, self.service, **arguments)

    def close(self):
        for server in self.workers + self.dispatchers:
            server.kill()


@pytest.fixture
def make_cluster(etcd):
    """make_cluster(workers=1, dispatchers=1): a running Cluster."""
    made = []

    def make(workers=1, dispatchers=1, **dispatcher):
        cluster = Cluster(etcd, **dispatcher)
        made.append(cluster)
        for _ in range(dispatchers):
            cluster.start_dispatcher()
        for _ in range(workers):
            cluster.start_worker()
        return cluster

    yield make
    for cluster in made:
        cluster.close()


@pytest.fixture
def cluster(make_cluster):
    """One dispatcher, one worker."""
    return make_cluster()


def pytest_report_header(config):
    return f"{mr.version()}, program {os.environ.get('MILLRACE_PROGRAM') or _ffi.program_path()}"
