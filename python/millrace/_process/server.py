"""The `millrace` program as a child process: started, awaited, stopped, killed.

A child has its own session, so that the terminal's Ctrl-C does not take it away before its users
are done. It watches the process that started it (--owner-pid) and ends with it, a SIGKILL included.
It says where it serves, or why it does not, in one line of JSON on the descriptor --ready-fd. Its
log goes to this process's stderr: warnings, unless MILLRACE_LOG_LEVEL says otherwise.
"""

from __future__ import annotations

import dataclasses
import json
import mmap
import os
import select
import signal
import subprocess
from types import TracebackType
from typing import Any, Collection, Sequence, TypeVar

from .._capi import ffi as _ffi
from .. import errors
from .._base.html import html_table

_STOP_GRACE_S = 30
_LAST_LOG_BYTES = 8192  # MR_LOG_KEPT_BYTES_MAX

# What the program's exit status says (millrace --help).
_BY_STATUS = {
    2: errors.InvalidArgumentError,
    3: errors.NotFoundError,
    4: errors.UnavailableError,
    5: errors.PermissionDeniedError,
    6: errors.FailedPreconditionError,
    124: errors.DeadlineExceededError,
    130: errors.CancelledError,
}


class Child:
    """One run of the program."""

    def __init__(self, subcommand: str, flags: Sequence[str]) -> None:
        self.what = f"millrace {subcommand}"
        self._owner = os.getpid()
        self._ended_here = False  # by stop() or kill()
        program = _ffi.program_path()
        last = os.memfd_create("millrace-last-log")  # lines of its log, which outlive it
        try:
            os.ftruncate(last, _LAST_LOG_BYTES)
            self._last_log = mmap.mmap(last, _LAST_LOG_BYTES, prot=mmap.PROT_READ)
            self._start(program, subcommand, flags, last)
        finally:
            os.close(last)

    def _start(self, program: str, subcommand: str, flags: Sequence[str], last: int) -> None:
        ready, child_end = os.pipe()
        try:
            # First of all the descriptor: a flag that is refused is told there, too.
            argv = [
                program,
                subcommand,
                f"--ready-fd={child_end}",
                f"--owner-pid={os.getpid()}",
                f"--last-log-fd={last}",
                *flags,
            ]
            if "MILLRACE_LOG_LEVEL" not in os.environ:
                argv.append("--log-level=warn")
            try:
                self._process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    pass_fds=(child_end, last),
                    start_new_session=True,
                )
            except OSError as e:
                raise errors.NotFoundError(f"starting '{program}': {e.strerror}") from None
            finally:
                os.close(child_end)
            try:
                said = self._await_ready(ready)
            except BaseException:
                self.kill()
                raise
            self.address: str = said["address"]
            self.metrics: str | None = said.get("metrics")
        finally:
            os.close(ready)

    def __del__(self) -> None:
        # A Server stops it first, unless a signal handler's exception met its start.
        if hasattr(self, "_process"):
            try:
                self.kill()
            # The interpreter may be going down; the child then goes with its owner.
            except Exception:
                pass

    def _await_ready(self, ready: int) -> dict[str, Any]:
        """What it says once it serves. Waits in slices, so that Ctrl-C works."""
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([ready], [], [], 0.1)[0]:
                if self._process.poll() is not None:
                    break  # a grandchild may hold the pipe open
                continue
            part = os.read(ready, 4096)
            if not part:
                break
            line += part
        try:
            said: dict[str, Any] = json.loads(line) if line else {}
        except ValueError:
            raise errors.InternalError(
                f"{self.what} said {line!r} where its address was " "expected"
            ) from None
        if "address" in said:
            return said
        if "error" in said:
            raise errors.from_code(int(said.get("code", 2)), f"{self.what}: {said['error']}")
        status = self._process.wait(_STOP_GRACE_S)
        raise _BY_STATUS.get(status, errors.UnknownError)(
            f"{self.what} ended with status {status} before it served{self._last_words()}"
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def _signal(self, number: int) -> None:
        if os.getpid() == self._owner and self._process.poll() is None:
            self._process.send_signal(number)

    def death(self) -> str | None:
        """How it ended, if nobody here has ended it and it was no orderly end; else None."""
        status = self._process.poll() if os.getpid() == self._owner else None
        if not status or self._ended_here:
            return None
        if status < 0:
            how = f"killed by {signal.Signals(-status).name}"
        else:
            how = f"it ended with status {status}"
        return f"{self.what} at {self.address}, process {self.pid}, died: {how}{self._last_words()}"

    def _last_words(self) -> str:
        said = self._last_log[:].partition(b"\0")[0].decode("utf-8", "replace").rstrip("\n")
        return f". Its log ends with:\n{said}" if said else ". It has logged nothing"

    def stop(self, grace_s: float = _STOP_GRACE_S) -> None:
        """SIGTERM, then wait; SIGKILL if it has not ended after @grace_s."""
        if os.getpid() != self._owner:
            return
        self._note_end()
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """SIGKILL, then wait."""
        self._note_end()
        self._signal(signal.SIGKILL)
        if os.getpid() == self._owner:
            self._process.wait()

    def _note_end(self) -> None:
        if self._process.poll() is None:
            self._ended_here = True

    def join(self) -> int:
        """Wait until it ends; its status."""
        while True:
            try:
                return self._process.wait(0.5)
            except subprocess.TimeoutExpired:
                pass


_servers: _ffi.Living[Server] = _ffi.Living()  # all of this process


def servers_at(addresses: Collection[str]) -> list[Server]:
    """The servers of this process that serve at one of @addresses."""
    return [s for s in _servers if s._child is not None and s._child.address in addresses]


def refuse_dead(addresses: Collection[str]) -> None:
    """
    UnavailableError if all of @addresses are those of servers of this process that have died, by
    themselves.
    """
    there = [child for child in (s._child for s in servers_at(addresses)) if child is not None]
    deaths = [death for death in (child.death() for child in there) if death is not None]
    if deaths and len(deaths) == len(there) and {c.address for c in there} == set(addresses):
        raise errors.UnavailableError("; ".join(deaths))


_S = TypeVar("_S", bound="Server")


class Server:
    """What DispatchServer and WorkerServer share: the life of one child process."""

    _subcommand = ""

    def __init__(self, config: Any, start: bool) -> None:
        self._config = config
        self._child: Child | None = None
        _servers.add(self)
        if start:
            self.start()

    def _flags(self) -> list[str]:
        raise NotImplementedError

    def _stop_grace_s(self) -> float:
        return _STOP_GRACE_S

    def start(self) -> None:
        """Start the server and wait until it serves.

        After `stop` or `kill` it is a restart with the same config. Does nothing while it runs.

        Raises
        ------
        MillraceError
            It does not serve; the error says why, with the code that the program ended with.

        Examples
        --------
        >>> server = mr.service.DispatchServer(start=False)
        >>> server.start()
        >>> server.running
        True
        >>> server.stop()
        """
        if self._child is not None and self._child.running:
            return
        self._child = Child(self._subcommand, self._flags())

    def _need(self) -> Child:
        if self._child is None:
            raise errors.FailedPreconditionError(f"the {type(self).__name__} was not started")
        return self._child

    def stop(self) -> None:
        """End it gracefully: it finishes what it is doing and hands over. It may be started again.

        Waits for the end, and kills a server that takes longer than half a minute (and, of a
        worker, ``shutdown_quiet_period_ms``).

        Examples
        --------
        >>> with mr.service.DispatchServer() as server:
        ...     server.stop()
        ...     server.running
        False
        """
        if self._child is not None:
            self._child.stop(self._stop_grace_s())

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would. It may be started again.

        Examples
        --------
        >>> with mr.service.DispatchServer() as server:
        ...     server.kill()
        ...     server.running
        False
        """
        if self._child is not None:
            self._child.kill()

    def join(self) -> None:
        """Wait until the server ends.

        Raises
        ------
        UnavailableError
            How it died, if that was no orderly end and nobody here has ended it.
        FailedPreconditionError
            It was not started.

        Examples
        --------
        >>> server = mr.service.DispatchServer()
        >>> server.stop()
        >>> server.join()
        """
        child = self._need()
        child.join()
        death = child.death()
        if death is not None:
            raise errors.UnavailableError(death)

    @property
    def config(self) -> Any:
        """The config that it was made with."""
        return self._config

    @property
    def pid(self) -> int:
        """The process id of the server."""
        return self._need().pid

    @property
    def address(self) -> str:
        """Where it serves: "host:port"."""
        return self._need().address

    @property
    def metrics_address(self) -> str | None:
        """
        Where /metrics, /healthz and /readyz are: "host:port"; None if the config has no
        metrics_port.
        """
        return self._need().metrics

    @property
    def running(self) -> bool:
        """Whether its process runs."""
        return self._child is not None and self._child.running

    def _state(self) -> str:
        if self._child is None:
            return "not started"
        return "running" if self._child.running else "died" if self._child.death() else "stopped"

    def __repr__(self) -> str:
        where = "" if self._child is None else f" {self._child.address}"
        pid = "" if self._child is None else f", pid {self._child.pid}"
        return f"<millrace.service.{type(self).__name__}{where} {self._state()}{pid}>"

    def _repr_html_(self) -> str:
        """A table for notebooks: where it is, how it is, and what of its config was set."""
        rows = {"state": self._state()}
        if self._child is not None:
            rows.update(address=self._child.address, pid=str(self._child.pid))
            if self._child.metrics is not None:
                rows["metrics"] = self._child.metrics
        rows.update(
            {
                field.name: repr(getattr(self._config, field.name))
                for field in dataclasses.fields(self._config)
                if getattr(self._config, field.name) != field.default
            }
        )
        return html_table(type(self).__name__, rows)

    def __enter__(self: _S) -> _S:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        child = getattr(self, "_child", None)
        if child is not None:
            try:
                child.stop()
            # The interpreter may be going down; the child then goes with its owner.
            except Exception:
                pass

    def __reduce__(self) -> Any:
        raise TypeError(
            f"a {type(self).__name__} belongs to the process that started it: pickle "
            "its target instead"
        )
