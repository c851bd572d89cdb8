"""What the demonstrations have in common: they say what they do, judge it, end in time and leave nothing behind."""

import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time

import millrace as mr
from cluster import processes_of


class Failed(Exception):
    pass


def need(condition, message):
    if not condition:
        raise Failed(message)


def say(text):
    print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)


class Child:
    """
    A Python process of ours: @argv, a script and its arguments. Each line that it prints is a JSON object and comes to the
    queue @events as (this child, dictionary); at its end comes (this child, None). It reads lines from its standard input.
    """

    def __init__(self, argv, events):
        self.process = subprocess.Popen([sys.executable, *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, args=(events,), daemon=True).start()

    def _read(self, events):
        for line in self.process.stdout:
            events.put((self, json.loads(line)))
        events.put((self, None))

    def write(self, text):
        self.process.stdin.write(text)
        self.process.stdin.flush()

    def close_input(self):
        """More than once is fine."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has ended

    def check_end(self, name):
        """After its None: wait until it is gone; Failed unless it went well."""
        status = self.process.wait()
        need(status == 0, f"{name} ended with status {status}")

    def end(self):
        """Kill it, unless it has ended."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.close_input()
        self.process.stdout.close()


def need_gone(directory, pids):
    """Failed if a process of @pids, or one that has @directory in its command line, still runs."""
    need(not processes_of(directory), f"processes are left: {processes_of(directory)}")
    need(not [p for p in pids if pathlib.Path(f"/proc/{p}").exists()], f"a server is left: one of {pids}")


def perform(name, play, limit_s):
    """
    Call @play with a temporary directory; the exit status. A demonstration that hangs has failed: it may take @limit_s
    seconds. The last line is "@name: ok" or says what went wrong.
    """

    def too_late(number, frame):
        raise Failed(f"not done after {limit_s} s")

    signal.signal(signal.SIGALRM, too_late)
    signal.alarm(limit_s)
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="millrace-demo-") as home:
            directory = pathlib.Path(home)
            play(directory)
        need(not directory.exists(), f"{directory} is left")
    except (Failed, RuntimeError, OSError, subprocess.CalledProcessError, mr.errors.MillraceError) as e:
        print(f"{name}: failed: {e}", flush=True)
        return 1
    except KeyboardInterrupt:
        print(f"{name}: interrupted", flush=True)
        return 130
    say(f"no process and no temporary file is left behind ({time.monotonic() - began:.0f} s)")
    print(f"{name}: ok", flush=True)
    return 0
