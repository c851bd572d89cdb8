"""
One host takes all that it may of a dispatcher and a worker, and another one is served. Each
127.0.0.x is a host of its own.
"""

import collections
import contextlib
import os
import selectors
import socket
import struct
import subprocess
import sys
import threading

import pytest

from conftest import wait_until, with_parent
from hostile import OTHER_HOST, Peer
from members import Program, read_an_epoch

TASKS = 16  # at work, of one worker
DESCRIPTORS = 512  # of one server, which takes half as many connections
CONNECTIONS_SHARE = DESCRIPTORS // 4
SILENT_CALLS = 1024  # of one server
CALLS_EACH, CALLERS = 400, 4
IDLE = 300  # with what a server has open anyway less than DESCRIPTORS: it shall have to choose
STORM_DESCRIPTORS = 256  # of one server
STORM, STANDING = (
    4000,
    400,
)  # connections that are opened, and of them those that are not closed at once

HOLD_TASKS = """
import sys, threading
import millrace as mr
ds = mr.Dataset.range(1 << 60).apply(mr.service.distribute("parallel_epochs", sys.argv[1]))
iterators = [iter(ds) for _ in range(int(sys.argv[2]))]
for it in iterators:
    threading.Thread(target=next, args=(it,), daemon=True).start()
threading.Event().wait()
"""


class Flood:
    """
    Connections to one server, and calls. A thread of its own listens to all; what it dies of, the
    test is told by check().
    """

    def __init__(self, address):
        self._address = address
        self._selector = selectors.DefaultSelector()
        self._peers = []
        self._stopping = False
        self._died = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def connect(self):
        """Returns the peer; None: it was refused before it knew that it was connected."""
        try:
            peer = Peer(self._address).greet()
        except ConnectionResetError:
            return None
        self._peers.append(peer)
        self._selector.register(peer.socket, selectors.EVENT_READ, peer)
        return peer

    def _run(self):
        try:
            while not self._stopping:
                for key, _ in self._selector.select(0.05):
                    key.data.hear()
                    if key.data.closed:
                        self._selector.unregister(key.fileobj)
                        key.fileobj.close()
        except Exception as e:  # told by check()
            self._died = e

    def check(self):
        assert self._died is None, self._died
        return True

    @property
    def connections(self):
        return sum(not peer.closed for peer in self._peers)

    @property
    def ended_calls(self):
        return sum(peer.ended_calls for peer in self._peers)

    def stop(self):
        self._stopping = True
        self._thread.join()
        for peer in self._peers:
            peer.socket.close()
        self._selector.close()


@pytest.fixture
def closing():
    """Whatever is put there ends with the test, the last first."""
    ends = []
    yield ends
    for end in reversed(ends):
        end()


@pytest.fixture
def servers(request, etcd, tmp_path, closing):
    """A dispatcher and a worker, with few descriptors and few tasks at work."""
    descriptors = getattr(request, "param", DESCRIPTORS)
    # Its own: a dispatcher that was killed leads for as long as its lease
    cluster = f"flood-{descriptors}"
    etcd.clusters.append(cluster)
    dispatcher = Program(
        tmp_path,
        "dispatcher",
        "dispatcher",
        "--listen=127.0.0.1:0",
        f"--etcd-endpoints={etcd.endpoint}",
        f"--cluster={cluster}",
        "--worker-timeout=60s",
        "--lease-ttl=60s",
        descriptors=descriptors,
    )
    closing.append(dispatcher.kill)
    worker = Program(
        tmp_path,
        "worker",
        "worker",
        f"--dispatcher={dispatcher.address}",
        "--listen=127.0.0.1:0",
        f"--tasks-max={TASKS}",
        "--log-level=debug",
        descriptors=descriptors,
    )
    closing.append(worker.kill)
    return dispatcher, worker


def take_tasks(service, worker, closing):
    """
    A client of the other host opens jobs and reads hardly anything of them, until the worker
    refuses one.
    """
    client = subprocess.Popen(
        with_parent([sys.executable, "-c", HOLD_TASKS, service, str(2 * TASKS)]),
        stdin=subprocess.DEVNULL,
        env={**os.environ, "LD_PRELOAD": os.environ["MILLRACE_OTHER_HOST"]},
    )
    closing.append(client.wait)
    closing.append(client.kill)
    worker.wait_for("read refused", f"host {OTHER_HOST} has", f"of {TASKS} tasks at work")
    assert client.poll() is None


def take_calls(flood, path):
    """
    Calls without a message, until those that are too many were ended. On connections that came
    early, and stay for it.
    """
    for _ in range(CALLERS):
        peer = flood.connect()
        wait_until(
            lambda: flood.check() and (peer.heard or peer.closed), "the server says something"
        )
        for _ in range(CALLS_EACH):
            peer.call(path)
    surplus = CALLERS * CALLS_EACH - SILENT_CALLS
    wait_until(
        lambda: flood.check() and flood.ended_calls >= surplus,
        lambda: f"{surplus} calls are ended, not {flood.ended_calls}",
    )


def take_connections(flood):
    for _ in range(IDLE):
        flood.connect()
    wait_until(
        lambda: flood.check() and flood.connections <= CONNECTIONS_SHARE,
        lambda: f"{CONNECTIONS_SHARE} connections are left, not {flood.connections}",
    )


def storm(address):
    """Connections of the other host, as fast as it can; returns those that it has not closed."""
    host, port = address.rsplit(":", 1)
    standing = collections.deque()
    for _ in range(STORM):
        if len(standing) == STANDING:
            oldest = standing.popleft()
            oldest.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            oldest.close()
        with contextlib.suppress(
            ConnectionResetError
        ):  # It may be refused before it knows that it is connected.
            standing.append(
                socket.create_connection((host, int(port)), source_address=(OTHER_HOST, 0))
            )
    return standing


@pytest.mark.skipif(
    "MILLRACE_OTHER_HOST" not in os.environ, reason="a sanitizer wants to be the first library"
)
def test_a_host_that_takes_all_it_may_leaves_room(servers, closing):
    dispatcher, worker = servers
    service = "grpc://" + dispatcher.address
    take_tasks(service, worker, closing)
    for server, path in [
        (dispatcher, "/millrace.Dispatcher/GetDataset"),
        (worker, "/millrace.Worker/Read"),
    ]:
        flood = Flood(server.address)
        closing.append(flood.stop)
        take_calls(flood, path)
        take_connections(flood)
    read_an_epoch(service, "bystander")


@pytest.mark.parametrize("servers", [STORM_DESCRIPTORS], indirect=True)
def test_a_storm_of_connections_leaves_servers_that_listen(servers):
    service = "grpc://" + servers[0].address
    standing = [connection for server in servers for connection in storm(server.address)]
    read_an_epoch(service, "meanwhile")
    for connection in standing:
        connection.close()
    read_an_epoch(service, "afterwards")
