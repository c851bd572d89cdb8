"""
Clusters of real processes that are broken on purpose: three members of etcd, dispatchers, workers.
For torture and benchmarks.

Every process is killed with the one that started it. Addresses stay the same when a server comes
back.
"""

import base64
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import millrace as mr


class Broken(Exception):
    """An invariant that did not hold, and after which the run cannot go on."""


def with_parent(argv):
    """
    @argv, to be killed with the thread that starts it. Not by preexec_fn: Python code between fork
    and exec waits for ever when a thread of the library's, which the child does not have, held a
    lock.
    """
    return ["setpriv", "--pdeathsig=KILL", *argv]


def fixed_port(rng):
    """
    A port below those that the kernel gives to connections: it is still free when a server comes
    back to it.
    """
    while True:
        port = rng.randrange(15000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


def write_stacks(pid, path):
    """
    Where the threads of process @pid are, appended to a file; without gdb only what the kernel
    says.
    """
    with open(path, "a") as out:
        out.write(f"---- process {pid}\n")
        out.flush()
        if shutil.which("gdb") is not None:
            subprocess.run(
                [
                    "gdb",
                    "-p",
                    str(pid),
                    "-batch",
                    "-ex",
                    "set pagination off",
                    "-ex",
                    "thread apply all bt 30",
                ],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.DEVNULL,
                timeout=60,
            )
            return
        for task in sorted(os.listdir(f"/proc/{pid}/task"), key=int):
            with open(f"/proc/{pid}/task/{task}/comm") as comm, open(
                f"/proc/{pid}/task/{task}/wchan"
            ) as where:
                out.write(f"{task} {comm.read().strip()} {where.read()}\n")


class Process:
    """A server that is killed and started again on the same port."""

    def __init__(self, name, argv, port, log):
        self.name, self.port, self.log = name, port, log
        self._argv = argv
        self._child = None
        self.stopped = False
        self.since = 0.0  # when it was started or woken
        self.starts = 0

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self):
        return self._child.pid

    @property
    def up(self):
        return self._child is not None

    @property
    def well(self):
        return self.up and not self.stopped

    def start(self):
        assert self._child is None
        env = dict(os.environ)
        for name in (
            "LD_PRELOAD",
            "ASAN_OPTIONS",
        ):  # for Python; a sanitized program has the runtime in it, and looks for leaks
            env.pop(name, None)
        with open(self.log, "ab") as log:
            self._child = subprocess.Popen(
                with_parent(self._argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=env,
                start_new_session=True,
            )
        self.since = time.monotonic()
        self.starts += 1

    def check(self):
        """Nobody told it to end."""
        if self._child is not None and self._child.poll() is not None:
            status, self._child = self._child.returncode, None
            raise Broken(f"{self.name} ended by itself with status {status}: see {self.log}")

    def kill(self):
        self.check()
        self.cont()
        child, self._child = self._child, None
        child.kill()
        child.wait()

    def terminate(self):
        """SIGTERM, and it has to end well."""
        self.check()
        self.cont()
        child, self._child = self._child, None
        child.terminate()
        try:
            status = child.wait(60)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            raise Broken(f"{self.name} did not end within 60 s of SIGTERM") from None
        if status != 0:
            raise Broken(f"{self.name} ended with status {status} after SIGTERM: see {self.log}")

    def tell_to_end(self):
        """SIGTERM, without waiting: the child, for the caller to wait for."""
        child, self._child = self._child, None
        child.terminate()
        return child

    def stop(self):
        self._child.send_signal(signal.SIGSTOP)
        self.stopped = True

    def cont(self):
        if self.stopped:
            self._child.send_signal(signal.SIGCONT)
            self.stopped = False
            self.since = time.monotonic()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_s(self):
        """CPU time it has used."""
        with open(f"/proc/{self.pid}/stat") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Cluster:
    """
    Members of etcd, dispatchers and workers, not started yet. Directory and random numbers are the
    caller's.
    """

    def __init__(
        self,
        directory,
        rng,
        *,
        members=3,
        dispatchers=3,
        workers=3,
        worker_timeout="5s",
        options=(),
    ):
        self._directory = directory
        self.name = "cluster"
        self.members = self._make_members(rng, members)
        self.endpoints = ",".join(m.address for m in self.members)
        program = os.environ["MILLRACE_PROGRAM"]
        ports = [fixed_port(rng) for _ in range(dispatchers)]
        self.addresses = ",".join(f"127.0.0.1:{p}" for p in ports)
        self.service = "grpc://" + self.addresses
        self.dispatchers = [
            self._process(
                f"dispatcher{i}",
                [
                    program,
                    "dispatcher",
                    f"--listen=127.0.0.1:{p}",
                    f"--etcd-endpoints={self.endpoints}",
                    f"--cluster={self.name}",
                    f"--worker-timeout={worker_timeout}",
                    "--log-level=info",
                    *options,
                ],
                p,
            )
            for i, p in enumerate(ports)
        ]
        self.workers = [
            self._process(
                f"worker{i}",
                [
                    program,
                    "worker",
                    f"--dispatcher={self.addresses}",
                    f"--listen=127.0.0.1:{p}",
                    "--log-level=info",
                    "--drain-timeout=5s",
                ],
                p,
            )
            for i, p in enumerate(fixed_port(rng) for _ in range(workers))
        ]

    def _process(self, name, argv, port):
        return Process(name, argv, port, os.path.join(self._directory, name + ".log"))

    def _make_members(self, rng, count):
        ports = [(fixed_port(rng), fixed_port(rng)) for _ in range(count)]
        url = "http://127.0.0.1:{}".format
        initial = ",".join(f"etcd{i}={url(peer)}" for i, (_, peer) in enumerate(ports))
        return [
            self._process(
                f"etcd{i}",
                [
                    "etcd",
                    "--name",
                    f"etcd{i}",
                    "--data-dir",
                    os.path.join(self._directory, f"etcd{i}"),
                    "--listen-client-urls",
                    url(port),
                    "--advertise-client-urls",
                    url(port),
                    "--listen-peer-urls",
                    url(peer),
                    "--initial-advertise-peer-urls",
                    url(peer),
                    "--initial-cluster",
                    initial,
                    "--initial-cluster-token",
                    str(ports),
                    "--heartbeat-interval",
                    "50",
                    "--election-timeout",
                    "250",
                ],
                port,
            )
            for i, (port, peer) in enumerate(ports)
        ]

    @property
    def everything(self):
        return self.members + self.dispatchers + self.workers

    @property
    def etcd_works(self):
        return 2 * sum(m.well for m in self.members) > len(self.members)

    def start(self, timeout_s):
        for server in self.everything:
            server.start()
        self.wait_whole(time.monotonic() + timeout_s)

    def kill(self):
        """All of it; what had ended by itself."""
        broken = []
        for server in reversed(self.everything):
            if server.up:
                try:
                    server.kill()
                except Broken as e:
                    broken.append(str(e))
        return broken

    def check(self):
        for server in self.everything:
            server.check()

    def status(self, timeout_s):
        return json.loads(mr.service.status(self.service, timeout_ms=max(1, int(timeout_s * 1000))))

    def wait_whole(self, deadline):
        """
        Until the leader knows the current incarnation of each worker: a job opened now has a task
        on each.
        """
        while True:
            seen = "no dispatcher answers"
            try:
                status = self.status(deadline - time.monotonic())
                live = [w for w in status.get("workers", []) if not w.get("lost")]
                if len(live) == len(self.workers):
                    return
                seen = f"{len(live)} of {len(self.workers)} workers are known"
            except mr.errors.MillraceError as e:
                seen = str(e)
            if time.monotonic() > deadline:
                raise Broken(f"the healed cluster is not whole: {seen}")
            time.sleep(0.05)

    def leader(self):
        """
        (the leading process, since when it leads in seconds since 1970), asked from etcd; (None, 0)
        if the key is away.
        """
        key = base64.b64encode(f"/millrace/{self.name}/leader".encode()).decode()
        for member in self.members:
            if not member.well:
                continue
            request = urllib.request.Request(
                f"http://{member.address}/v3/kv/range", json.dumps({"key": key}).encode()
            )
            try:
                with urllib.request.urlopen(request, timeout=2) as answer:
                    found = json.load(answer).get("kvs")
            except OSError:
                continue
            if found:
                value = base64.b64decode(found[0]["value"]).decode()
                process = next((d for d in self.dispatchers if d.address in value), None)
                return process, int(json.loads(value).get("sinceMs", 0)) / 1000
        return None, 0.0

    def check_state(self):
        """What `millrace state check` says is wrong; None: nothing."""
        done = subprocess.run(
            [
                os.environ["MILLRACE_PROGRAM"],
                "state",
                "check",
                f"--etcd-endpoints={self.endpoints}",
                f"--cluster={self.name}",
            ],
            capture_output=True,
            text=True,
            timeout=60,
        )
        return None if done.returncode == 0 else done.stdout + done.stderr


class Commanded:
    """
    A child process that takes commands as lines of JSON, one at a time, and answers each with a
    line.
    """

    def __init__(self, name, script, log):
        self.name, self.log = name, log
        with open(log, "ab") as f:
            self._child = subprocess.Popen(
                with_parent([sys.executable, script]),
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=f,
            )

    @property
    def pid(self):
        return self._child.pid

    def send(self, **command):
        self._child.stdin.write(json.dumps(command) + "\n")
        self._child.stdin.flush()

    def kill(self):
        self._child.kill()
        self._child.wait()

    def take(self, deadline, progress=None):
        """
        The answer; Broken, with its stacks in its log, if there is none by @deadline. With
        @progress, a number of what it has done so far, it has as long again whenever that has
        changed: one that is slow does not hang.
        """
        patience, done = max(1.0, deadline - time.monotonic()), progress() if progress else 0
        while not (
            ready := select.select(
                [self._child.stdout], [], [], max(0.0, deadline - time.monotonic())
            )[0]
        ):
            now_done = progress() if progress else done
            if now_done == done:
                break
            deadline, done = time.monotonic() + patience, now_done
        if not ready:
            self._child.send_signal(signal.SIGUSR1)  # Python's stacks, by faulthandler
            write_stacks(self.pid, self.log)
            raise Broken(f"{self.name} hangs: see {self.log}")
        line = self._child.stdout.readline()
        if not line:
            raise Broken(f"{self.name} died with status {self._child.wait()}: see {self.log}")
        return json.loads(line)
