"""
An etcd of several members, with TLS, a user and a quota on demand, whose members a test kills,
freezes and restores; and programs of a cluster on it, with what they log.
"""

import collections
import contextlib
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from conftest import NO_STATE, free_port, wait_until, with_parent
from millrace._capi import ffi as _ffi

PROGRAM = os.environ.get("MILLRACE_PROGRAM") or _ffi.program_path()
USER = "millrace"

READ_AN_EPOCH = """
import sys
import millrace as mr
service, elements, job = sys.argv[1], int(sys.argv[2]), sys.argv[3]
dataset = mr.service.register_dataset(service, mr.Dataset.range(elements))
ds = mr.service.from_dataset_id("distributed_epoch", service, dataset, job_name=job)
print(*ds.as_numpy_iterator())
"""
ELEMENTS = 1000

_CERTIFICATES = r"""
key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'
openssl req -x509 $key -days 2 -subj '/CN=millrace test CA' -keyout ca.key -out ca.pem
openssl req $key -subj '/CN=etcd' -keyout server.key -out server.csr
printf 'subjectAltName=DNS:etcd.test\nextendedKeyUsage=serverAuth,clientAuth\n' > server.ext
openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile server.ext -out server.pem
openssl req $key -subj '/CN=dispatcher' -keyout client.key -out client.csr
openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out client.pem
openssl req -x509 $key -days 2 -subj '/CN=somebody else' -keyout other.key -out other.pem
"""


class Members:
    def __init__(self, directory, n=3, tls=False, prefix=None, quota=None):
        self.directory = directory
        self.tls = tls
        self.quota = quota
        self._authenticating = False
        self._ports = [(free_port(), free_port()) for _ in range(n)]
        self._generation = 0
        self.processes = [None] * n
        if tls:
            subprocess.run(
                ["sh", "-ec", _CERTIFICATES], cwd=directory, check=True, capture_output=True
            )
        self.start()
        if prefix is not None:
            self._authenticate(prefix)

    @property
    def endpoints(self):
        return ",".join(f"127.0.0.1:{port}" for port, _ in self._ports)

    def file(self, name):
        return str(self.directory / name)

    @property
    def arguments(self):
        """What a program needs to get in."""
        out = [f"--etcd-endpoints={self.endpoints}"]
        if self.tls:
            out += [
                f"--etcd-ca={self.file('ca.pem')}",
                f"--etcd-cert={self.file('client.pem')}",
                f"--etcd-key={self.file('client.key')}",
                "--etcd-server-name=etcd.test",
            ]
        if self._authenticating:
            out += [f"--etcd-user={USER}", f"--etcd-password-file={self.file('password')}"]
        return out

    # ---- members ----

    def _data(self, i):
        return self.file(f"data-{i}-{self._generation}")

    @property
    def _initial_cluster(self):
        return ",".join(f"m{i}=http://127.0.0.1:{peer}" for i, (_, peer) in enumerate(self._ports))

    def start_member(self, i):
        client, peer = self._ports[i]
        scheme = "https" if self.tls else "http"
        argv = [
            "etcd",
            "--name",
            f"m{i}",
            "--data-dir",
            self._data(i),
            "--listen-client-urls",
            f"{scheme}://127.0.0.1:{client}",
            "--advertise-client-urls",
            f"{scheme}://127.0.0.1:{client}",
            "--listen-peer-urls",
            f"http://127.0.0.1:{peer}",
            "--initial-advertise-peer-urls",
            f"http://127.0.0.1:{peer}",
            "--initial-cluster",
            self._initial_cluster,
            "--heartbeat-interval",
            "50",
            "--election-timeout",
            "250",
        ]
        if self.quota is not None:
            argv += ["--quota-backend-bytes", str(self.quota)]
        if self.tls:
            argv += [
                "--cert-file",
                self.file("server.pem"),
                "--key-file",
                self.file("server.key"),
                "--trusted-ca-file",
                self.file("ca.pem"),
                "--client-cert-auth",
            ]
        with open(self.file(f"etcd-{i}.log"), "ab") as log:
            self.processes[i] = subprocess.Popen(
                with_parent(argv),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def start(self):
        for i in range(len(self.processes)):
            self.start_member(i)
        self.wait()

    def wait(self):
        # Seldom more than one attempt: an early one may hang on a connection that was refused. Then
        # each is given more time.
        limits = itertools.count(1)
        wait_until(
            lambda: self.ctl("get", "x", check=False, limit_s=next(limits)).returncode == 0,
            "etcd answers",
        )

    def kill(self, *which):
        for i in which or range(len(self.processes)):
            if self.processes[i] is not None:
                self.processes[i].kill()
                self.processes[i].wait()
                self.processes[i] = None

    def freeze(self, i):
        self.processes[i].send_signal(signal.SIGSTOP)

    def thaw(self, i):
        self.processes[i].send_signal(signal.SIGCONT)

    def renew(self, snapshot=None):
        """All members anew, empty or from a snapshot."""
        self.kill()
        self._generation += 1
        if snapshot is not None:
            for i, (_, peer) in enumerate(self._ports):
                subprocess.run(
                    [
                        "etcdctl",
                        "snapshot",
                        "restore",
                        snapshot,
                        "--name",
                        f"m{i}",
                        "--data-dir",
                        self._data(i),
                        "--initial-cluster",
                        self._initial_cluster,
                        "--initial-advertise-peer-urls",
                        f"http://127.0.0.1:{peer}",
                        "--initial-cluster-token",
                        f"restored-{self._generation}",
                    ],
                    env={**os.environ, "ETCDCTL_API": "3"},
                    check=True,
                    capture_output=True,
                )
        self.start()

    def stop(self):
        for p in self.processes:
            if p is not None:
                p.send_signal(signal.SIGCONT)
        self.kill()

    # ---- etcdctl ----

    def ctl(self, *words, member=None, check=True, limit_s=60):
        """
        A disk may be busy; and etcd has to calculate for a while to check a password, which is part
        of dialling.
        """
        endpoints = self.endpoints if member is None else f"127.0.0.1:{self._ports[member][0]}"
        argv = [
            "etcdctl",
            f"--endpoints={endpoints}",
            f"--command-timeout={limit_s}s",
            f"--dial-timeout={limit_s}s",
        ]
        if self.tls:
            argv += [
                "--insecure-skip-tls-verify",
                "--insecure-transport=false",
                f"--cacert={self.file('ca.pem')}",
                f"--cert={self.file('client.pem')}",
                f"--key={self.file('client.key')}",
            ]
        if self._authenticating:
            argv += ["--user=root:rootpw"]
        return subprocess.run(
            argv + list(words),
            env={**os.environ, "ETCDCTL_API": "3"},
            check=check,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def revision(self):
        return json.loads(self.ctl("get", "x", "-w", "json").stdout)["header"]["revision"]

    def compact(self):
        self.ctl("compact", str(self.revision()))

    def _authenticate(self, prefix):
        with open(self.file("password"), "w") as f:
            f.write("secret\n")
        self.ctl("user", "add", "root:rootpw")
        self.ctl("role", "add", "root")
        self.ctl("user", "grant-role", "root", "root")
        self.ctl("role", "add", "millrace")
        self.ctl("role", "grant-permission", "--prefix=true", "millrace", "readwrite", prefix)
        self.ctl("user", "add", f"{USER}:secret")
        self.ctl("user", "grant-role", USER, "millrace")
        self.ctl("auth", "enable")
        self._authenticating = True


class Door:
    """
    A port that leads to another one, and that can be shut: connects are refused then, and what was
    open breaks.
    """

    def __init__(self):
        self.port = free_port()
        self.target = None
        self.heard = 0  # how often something came from within
        self._lock = threading.Lock()  # guards the two below
        self._listening = None
        self._pairs = set()
        self.open()

    def open(self):
        with self._lock:
            if self._listening is None:
                self._listening = socket.create_server(("127.0.0.1", self.port))
                threading.Thread(target=self._accept, args=(self._listening,), daemon=True).start()

    def shut(self):
        with self._lock:
            listening, self._listening = self._listening, None
            pairs = list(self._pairs)
        with contextlib.suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        for pair in pairs:
            self._break(pair)

    def _break(self, pair):
        for s in pair:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)

    def _accept(self, listening):
        while True:
            try:
                inside, _ = listening.accept()
            except OSError:
                return
            try:
                pair = (inside, self._connect())
            except OSError:
                inside.close()
                continue
            with self._lock:
                self._pairs.add(pair)
                shut = self._listening is not listening
            if shut:  # while this one came in
                self._break(pair)
            copies = [
                threading.Thread(target=self._copy, args=(*ends, answers), daemon=True)
                for ends, answers in ((pair, 0), (pair[::-1], 1))
            ]
            for copy in copies:
                copy.start()
            threading.Thread(target=self._close, args=(pair, copies), daemon=True).start()

    def _connect(self):
        return socket.create_connection(("127.0.0.1", self.target))

    def _copy(self, source, sink, answers):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
                self.heard += answers
        self._break((source, sink))

    def _close(self, pair, copies):
        for copy in copies:
            copy.join()
        with self._lock:
            self._pairs.discard(pair)
        for s in pair:
            s.close()


class Balancer(Door):
    """One port in front of several: each connection goes to the next of them that takes it."""

    def __init__(self, targets):
        self.targets = collections.deque(targets)
        super().__init__()

    def _connect(self):
        for _ in range(len(self.targets)):
            self.targets.rotate(-1)
            with contextlib.suppress(ConnectionRefusedError):
                return socket.create_connection(("127.0.0.1", self.targets[0]))
        raise ConnectionRefusedError("nobody is there")


class Program:
    """`millrace <words>`, its log in a file. With @descriptors it may have so many open."""

    def __init__(self, directory, name, *words, descriptors=None):
        limit = ["prlimit", f"--nofile={descriptors}"] if descriptors is not None else []
        self.log_path = str(directory / f"{name}-{time.monotonic_ns()}.log")
        read, write = os.pipe()
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                with_parent([*limit, PROGRAM, *words, f"--ready-fd={write}"]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[write],
            )
        os.close(write)
        with os.fdopen(read) as f:
            line = f.readline()
        self.ready = json.loads(line) if line else {}
        self.address = self.ready.get("address")

    @property
    def log(self):
        """The whole lines of it."""
        with open(self.log_path, errors="replace") as f:
            text = f.read()
        return text[: text.rfind("\n") + 1]

    def lines(self, *texts):
        """Those with all of @texts."""
        return [line for line in self.log.splitlines() if all(text in line for text in texts)]

    def wait_for(self, *texts):
        """The first line with all of @texts."""
        return wait_until(
            lambda: self.lines(*texts), lambda: f"{texts} are logged; it is:\n{self.log[-4000:]}"
        )[0]

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(120)

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


class Installation:
    """Dispatchers and workers on an etcd."""

    def __init__(
        self, directory, etcd, name="prod", dispatchers=1, workers=1, lease="3s", **options
    ):
        self.directory = directory
        self.etcd = etcd
        self.name = name
        self._options = [f"--lease-ttl={lease}"] + [
            f"--{k.replace('_', '-')}={v}" for k, v in options.items()
        ]
        self.dispatchers = []
        self.workers = []
        for _ in range(dispatchers):
            self.start_dispatcher()
        for _ in range(workers):
            self.start_worker(self.addresses)

    def start_dispatcher(self, *arguments, port=0):
        d = Program(
            self.directory,
            "dispatcher",
            "dispatcher",
            f"--listen=127.0.0.1:{port}",
            f"--cluster={self.name}",
            *self._options,
            *(arguments or self.etcd.arguments),
        )
        self.dispatchers.append(d)
        return d

    def start_worker(self, dispatchers):
        w = Program(
            self.directory,
            "worker",
            "worker",
            f"--dispatcher={dispatchers}",
            "--listen=127.0.0.1:0",
        )
        self.workers.append(w)
        return w

    @property
    def addresses(self):
        return ",".join(d.address for d in self.dispatchers if d.address)

    @property
    def service(self):
        return "grpc://" + self.addresses

    def state(self, *words):
        return subprocess.run(
            [PROGRAM, "state", *words, f"--cluster={self.name}", *self.etcd.arguments],
            capture_output=True,
            text=True,
            timeout=120,
        )

    def judge(self):
        """Whatever the test has done, killed or cut off: what it leaves behind is sound."""
        done = self.state("check", "--timeout=60s")
        if done.returncode not in (0, NO_STATE):
            pytest.fail(f"the stored state after the test: {done.stdout}{done.stderr}")

    def close(self):
        for p in self.workers + self.dispatchers:
            p.kill()


def read_an_epoch(service, job, **environment):
    """A client of its own process reads a whole dataset: it gets each element once."""
    done = subprocess.run(
        with_parent([sys.executable, "-c", READ_AN_EPOCH, service, str(ELEMENTS), job]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
        timeout=240,
    )
    assert done.returncode == 0
    assert sorted(map(int, done.stdout.split())) == list(range(ELEMENTS))
