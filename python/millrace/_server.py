"""The `millrace` program as a child process: started, awaited, stopped, killed.

A child has its own session, so that the terminal's Ctrl-C does not take it away before its users are done. It watches the
process that started it (--owner-pid) and ends with it, a SIGKILL included. It says where it serves, or why it does not, in
one line of JSON on the descriptor --ready-fd. Its log goes to this process's stderr: warnings, unless MILLRACE_LOG_LEVEL says otherwise.
"""

import json
import mmap
import os
import select
import signal
import subprocess

from . import _ffi, errors

_STOP_GRACE_S = 30
_LAST_LOG_BYTES = 8192  # MR_LOG_KEPT_BYTES_MAX

# What the program's exit status says (millrace --help).
_BY_STATUS = {2: errors.InvalidArgumentError, 3: errors.NotFoundError, 4: errors.UnavailableError,
              5: errors.PermissionDeniedError, 6: errors.FailedPreconditionError, 124: errors.DeadlineExceededError,
              130: errors.CancelledError}


class Child:
    """One run of the program."""

    def __init__(self, subcommand, flags):
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

    def _start(self, program, subcommand, flags, last):
        ready, child_end = os.pipe()
        try:
            # First of all the descriptor: a flag that is refused is told there, too.
            argv = [program, subcommand, f"--ready-fd={child_end}", f"--owner-pid={os.getpid()}", f"--last-log-fd={last}",
                    *flags]
            if "MILLRACE_LOG_LEVEL" not in os.environ:
                argv.append("--log-level=warn")
            try:
                self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=(child_end, last),
                                                 start_new_session=True)
            except OSError as e:
                raise errors.NotFoundError(f"starting '{program}': {e.strerror}") from None
            finally:
                os.close(child_end)
            try:
                said = self._await_ready(ready)
            except BaseException:
                self.kill()
                raise
            self.address = said["address"]
            self.metrics = said.get("metrics")
        finally:
            os.close(ready)

    def __del__(self):
        if hasattr(self, "_process"):  # a Server stops it first, unless a signal handler's exception met its start
            try:
                self.kill()
            except Exception:  # the interpreter may be going down; the child then goes with its owner
                pass

    def _await_ready(self, ready):
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
            said = json.loads(line) if line else {}
        except ValueError:
            raise errors.InternalError(f"{self.what} said {line!r} where its address was expected") from None
        if "address" in said:
            return said
        if "error" in said:
            raise errors.from_code(int(said.get("code", 2)), f"{self.what}: {said['error']}")
        status = self._process.wait(_STOP_GRACE_S)
        raise _BY_STATUS.get(status, errors.UnknownError)(
            f"{self.what} ended with status {status} before it served{self._last_words()}")

    @property
    def pid(self):
        return self._process.pid

    @property
    def running(self):
        return self._process.poll() is None

    def _signal(self, number):
        if os.getpid() == self._owner and self._process.poll() is None:
            self._process.send_signal(number)

    def death(self):
        """How it ended, if nobody here has ended it and it was no orderly end; else None."""
        status = self._process.poll() if os.getpid() == self._owner else None
        if not status or self._ended_here:
            return None
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"it ended with status {status}"
        return f"{self.what} at {self.address}, process {self.pid}, died: {how}{self._last_words()}"

    def _last_words(self):
        said = self._last_log[:].partition(b"\0")[0].decode("utf-8", "replace").rstrip("\n")
        return f". Its log ends with:\n{said}" if said else ". It has logged nothing"

    def stop(self, grace_s=_STOP_GRACE_S):
        """SIGTERM, then wait; SIGKILL if it has not ended after @grace_s."""
        if os.getpid() != self._owner:
            return
        self._note_end()
        self._signal(signal.SIGTERM)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self):
        """SIGKILL, then wait."""
        self._note_end()
        self._signal(signal.SIGKILL)
        if os.getpid() == self._owner:
            self._process.wait()

    def _note_end(self):
        if self._process.poll() is None:
            self._ended_here = True

    def join(self):
        """Wait until it ends; its status."""
        while True:
            try:
                return self._process.wait(0.5)
            except subprocess.TimeoutExpired:
                pass


_servers = _ffi.Living()  # all of this process


def servers_at(addresses):
    """The servers of this process that serve at one of @addresses."""
    return [s for s in _servers if s._child is not None and s._child.address in addresses]


def refuse_dead(addresses):
    """UnavailableError if all of @addresses are those of servers of this process that have died, by themselves."""
    there = servers_at(addresses)
    deaths = [s._child.death() for s in there]
    if deaths and all(deaths) and {s._child.address for s in there} == set(addresses):
        raise errors.UnavailableError("; ".join(deaths))


class Server:
    """What DispatchServer and WorkerServer share: the life of one child."""

    _subcommand = None

    def __init__(self, config, start):
        self._config = config
        self._child = None
        _servers.add(self)
        if start:
            self.start()

    def _flags(self):
        raise NotImplementedError

    def _stop_grace_s(self):
        return _STOP_GRACE_S

    def start(self):
        """Start the server and wait until it serves. Again after stop() or kill(): a restart with the same config."""
        if self._child is not None and self._child.running:
            return
        self._child = Child(self._subcommand, self._flags())

    def _need(self):
        if self._child is None:
            raise errors.FailedPreconditionError(f"the {type(self).__name__} was not started")
        return self._child

    def stop(self):
        """End it gracefully: it finishes what it is doing and hands over."""
        if self._child is not None:
            self._child.stop(self._stop_grace_s())

    def kill(self):
        """End it at once (SIGKILL), as a crash would."""
        if self._child is not None:
            self._child.kill()

    def join(self):
        """Wait until the server ends. UnavailableError says how it died, if it was no orderly end and nobody here has ended it."""
        child = self._need()
        child.join()
        death = child.death()
        if death is not None:
            raise errors.UnavailableError(death)

    @property
    def config(self):
        return self._config

    @property
    def pid(self):
        """The process id of the server."""
        return self._need().pid

    @property
    def address(self):
        """host:port"""
        return self._need().address

    @property
    def metrics_address(self):
        """host:port of /metrics, /healthz and /readyz; None if the config has no metrics_port."""
        return self._need().metrics

    @property
    def running(self):
        return self._child is not None and self._child.running

    def __repr__(self):
        if self._child is None:
            return f"<{type(self).__name__} not started>"
        state = "running" if self.running else "died" if self._child.death() else "stopped"
        return f"<{type(self).__name__} {self.address} {state}, pid {self.pid}>"

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *exc):
        self.stop()

    def __del__(self):
        child = getattr(self, "_child", None)
        if child is not None:
            try:
                child.stop()
            except Exception:  # the interpreter may be going down; the child then goes with its owner
                pass

    def __reduce__(self):
        raise TypeError(f"a {type(self).__name__} belongs to the process that started it: pickle its target instead")
