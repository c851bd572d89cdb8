"""
What the demonstrations have in common: they say what they do, judge it, end in time and leave
nothing behind.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import pathlib
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Collection, Sequence, TypeAlias

import millrace as mr
from cluster import processes_of


class Failed(Exception):
    pass


def need(condition: object, message: str) -> None:
    if not condition:
        raise Failed(message)


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


def plot_option(parser: argparse.ArgumentParser) -> None:
    """The option --plot: args.plot is a file name, or None."""
    parser.add_argument(
        "--plot", metavar="FILE", help="draw what happened, as a PNG (needs matplotlib)"
    )


def check_plot(path: str | None) -> None:
    """
    Ends the program, before anything was started, if there is to be a plot and nothing to draw it.
    """
    if path is not None and importlib.util.find_spec("matplotlib") is None:
        sys.exit(
            "--plot needs matplotlib, which this Python has not: apt-get install "
            "python3-matplotlib"
        )


Events: TypeAlias = "queue.Queue[tuple[Any, dict[str, Any] | None]]"


class Child:
    """
    A Python process of ours: @argv, a script and its arguments. Each line that it prints is a JSON
    object and comes to the queue @events as (this child, dictionary); at its end comes (this child,
    None). It reads lines from its standard input.
    """

    def __init__(self, argv: Sequence[str], events: Events) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout
        threading.Thread(target=self._read, args=(events,), daemon=True).start()

    def _read(self, events: Events) -> None:
        for line in self._stdout:
            events.put((self, json.loads(line)))
        events.put((self, None))

    def write(self, text: str) -> None:
        self._stdin.write(text)
        self._stdin.flush()

    def close_input(self) -> None:
        """More than once is fine."""
        try:
            self._stdin.close()
        except BrokenPipeError:
            pass  # it has ended

    def check_end(self, name: str) -> None:
        """After its None: wait until it is gone; Failed unless it went well."""
        status = self.process.wait()
        need(status == 0, f"{name} ended with status {status}")

    def end(self) -> None:
        """Kill it, unless it has ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.close_input()
        self._stdout.close()


def need_gone(directory: pathlib.Path, pids: Collection[int]) -> None:
    """Failed if a process of @pids, or one that has @directory in its command line, still runs."""
    need(not processes_of(directory), f"processes are left: {processes_of(directory)}")
    left = [p for p in pids if pathlib.Path(f"/proc/{p}").exists()]
    need(not left, f"a server is left: one of {pids}")


def perform(name: str, play: Callable[[pathlib.Path], None], limit_s: int) -> int:
    """
    Call @play with a temporary directory; the exit status. A demonstration that hangs has failed:
    it may take @limit_s seconds. The last line is "@name: ok" or says what went wrong.
    """

    def too_late(number: int, frame: object) -> None:
        raise Failed(f"not done after {limit_s} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(limit_s)
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="millrace-demo-") as home:
            directory = pathlib.Path(home)
            play(directory)
        need(not directory.exists(), f"{directory} is left")
    except (
        Failed,
        RuntimeError,
        OSError,
        subprocess.CalledProcessError,
        mr.errors.MillraceError,
    ) as e:
        print(f"{name}: failed: {e}", flush=True)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", flush=True)
        return 130
    say(f"no process and no temporary file is left behind ({time.monotonic() - began:.0f} s)")
    print(f"{name}: ok", flush=True)
    return 0
