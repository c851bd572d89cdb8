"""
A whole Millrace cluster on this machine, as `millrace dev` runs it: started, asked, wounded,
stopped.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
from types import TracebackType
from typing import Any

READY_S = 60
STOP_S = 30


class Cluster:
    """
    An etcd, dispatchers and workers, with their home in @home; the cluster is called @name. A
    context manager.
    """

    def __init__(
        self, home: str | pathlib.Path, name: str, dispatchers: int = 3, workers: int = 2
    ) -> None:
        program = os.environ.get("MILLRACE_PROGRAM") or shutil.which("millrace")
        if not program:
            raise RuntimeError("there is no 'millrace' program: build it, or put it into PATH")
        self.program = program
        self._home = pathlib.Path(home)
        self._argv = [
            self.program,
            "dev",
            f"--dispatchers={dispatchers}",
            f"--workers={workers}",
            f"--work-dir={self._home / 'etcd'}",
            f"--cluster={name}",
            f"--owner-pid={os.getpid()}",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Cluster:
        ready, child_end = os.pipe()
        with open(self._home / "cluster.log", "wb") as log, open(ready, "rb") as ready_file:
            # A session of its own: Ctrl-C is for us, and we end the cluster when the trainers are
            # gone.
            self._process = subprocess.Popen(
                [*self._argv, f"--ready-fd={child_end}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                pass_fds=[child_end],
                start_new_session=True,
            )
            os.close(child_end)
            line = ready_file.readline()
        said = json.loads(line) if line else {}
        if "servers" not in said:
            self.stop()
            why = said.get("error", "see its log")
            raise RuntimeError(f"the cluster did not start: {why}\n{self.log_tail()}")
        self.etcd: str = said["etcd"]
        self.service: str = "grpc://" + said["address"]
        self.servers: list[dict[str, Any]] = said["servers"]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def log_tail(self, lines: int = 15) -> str:
        log = (self._home / "cluster.log").read_text(errors="replace")
        return "\n".join(log.splitlines()[-lines:])

    def status(self) -> dict[str, Any]:
        """`millrace status --json` as a dictionary."""
        run = subprocess.run(
            [self.program, "status", "--json", "--service", self.service],
            capture_output=True,
            text=True,
        )
        if run.returncode != 0:
            raise RuntimeError(run.stderr.strip())
        said: dict[str, Any] = json.loads(run.stdout)
        return said

    def status_text(self) -> str:
        return subprocess.run(
            [self.program, "status", "--service", self.service],
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    def etcdctl(self, *args: str) -> str:
        return subprocess.run(
            ["etcdctl", "--endpoints", self.etcd, *args],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "ETCDCTL_API": "3"},
        ).stdout

    def kill_dispatcher(self, address: str) -> int:
        """SIGKILL for the dispatcher at @address; its process id."""
        for server in self.servers:
            if server["kind"] == "dispatcher" and server["address"] == address:
                pid = int(server["pid"])
                os.kill(pid, signal.SIGKILL)
                return pid
        raise RuntimeError(f"no dispatcher of ours is at {address}")

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise RuntimeError(f"the cluster did not stop within {STOP_S} s") from None


def processes_of(home: str | pathlib.Path) -> list[int]:
    """
    Ids of processes that have @home in their command line: those that a cluster there left behind.
    """
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue  # it ended in the meantime
            if os.fsencode(home) in command:
                found.append(int(entry.name))
    return found
