"""What a service manager (systemd) is told by the servers: ready, how it is, alive, stopping."""

import os
import signal
import socket
import subprocess
import uuid

import pytest

from conftest import free_port
from millrace._capi import ffi as _ffi

PROGRAM = _ffi.program_path()


@pytest.fixture
def managed(tmp_path):
    """Start a program under a manager: what it is told, one after the other, and the process."""
    started = []

    def start(name, *args):
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        told.bind(str(tmp_path / name))
        told.settimeout(120)
        process = subprocess.Popen(
            [PROGRAM, *args, f"--owner-pid={os.getpid()}"],
            stdin=subprocess.DEVNULL,
            env={**os.environ, "NOTIFY_SOCKET": str(tmp_path / name)},
        )
        started.append((told, process))
        return told, process

    yield start
    for told, process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
        told.close()


def lines_until(told, wanted):
    """The lines that are told, up to one that begins so."""
    seen = []
    while not any(line.startswith(wanted) for line in seen):
        seen += told.recv(4096).decode().split("\n")
    return seen


def stop(process):
    process.send_signal(signal.SIGTERM)
    return process.wait(120)


def test_the_manager_hears_of_a_life(managed, etcd):
    cluster, port = f"t-{uuid.uuid4().hex[:12]}", free_port()
    at = f"127.0.0.1:{port}"
    told, dispatcher = managed(
        "d",
        "dispatcher",
        f"--listen={at}",
        f"--etcd-endpoints={etcd.endpoint}",
        f"--cluster={cluster}",
    )
    first = lines_until(told, "STATUS=")
    assert first == ["READY=1", f"STATUS=listening at {at}; serves once etcd answers"]
    assert f"STATUS=serving at {at}" in lines_until(told, "STATUS=serving")
    assert "WATCHDOG=1" in lines_until(told, "WATCHDOG=1")

    told_by_worker, worker = managed("w", "worker", f"--dispatcher={at}", "--drain-timeout=7s")
    assert lines_until(told_by_worker, "STATUS=")[0] == "READY=1"
    lines_until(told_by_worker, "STATUS=serving at ")
    assert stop(worker) == 0
    end = lines_until(told_by_worker, "STATUS=draining")
    assert end[0] == "STOPPING=1" and end[-1] == "STATUS=draining for at most 7 s"
    # It asks for the time that draining may take; a manager would kill it earlier.
    name, microseconds = end[1].split("=")
    assert name == "EXTEND_TIMEOUT_USEC" and int(microseconds) > 7_000_000

    assert stop(dispatcher) == 0
    assert "STOPPING=1" in lines_until(told, "STOPPING=1")


def test_it_is_ready_before_etcd_answers(managed):
    """An outage of etcd must not keep a machine from starting: it is the status that tells."""
    told, dispatcher = managed(
        "d", "dispatcher", "--listen=127.0.0.1:0", f"--etcd-endpoints=127.0.0.1:{free_port()}"
    )
    assert lines_until(told, "STATUS=")[0] == "READY=1"
    assert stop(dispatcher) == 0
