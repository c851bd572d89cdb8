"""A whole Millrace cluster on this machine, as `millrace dev` runs it: started, asked, wounded, stopped."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

READY_S = 60
STOP_S = 30


class Cluster:
    """An etcd, dispatchers and workers, with their home in @home; the cluster is called @name. A context manager."""

    def __init__(self, home, name, dispatchers=3, workers=2):
        self.program = os.environ.get("MILLRACE_PROGRAM") or shutil.which("millrace")
        if not self.program:
            raise RuntimeError("there is no 'millrace' program: build it, or put it into PATH")
        self._home = pathlib.Path(home)
        self._argv = [self.program, "dev", f"--dispatchers={dispatchers}", f"--workers={workers}",
                      f"--work-dir={self._home / 'etcd'}", f"--cluster={name}", f"--owner-pid={os.getpid()}"]
        self._process = None

    def __enter__(self):
        ready, child_end = os.pipe()
        with open(self._home / "cluster.log", "wb") as log, open(ready, "rb") as ready_file:
            # A session of its own: Ctrl-C is for us, and we end the cluster when the trainers are gone.
            self._process = subprocess.Popen([*self._argv, f"--ready-fd={child_end}"], stdin=subprocess.DEVNULL,
                                             stdout=subprocess.DEVNULL, stderr=log, pass_fds=[child_end],
                                             start_new_session=True)
            os.close(child_end)
            line = ready_file.readline()
        said = json.loads(line) if line else {}
        if "servers" not in said:
            self.stop()
            raise RuntimeError(f"the cluster did not start: {said.get('error', 'see its log')}\n{self.log_tail()}")
        self.etcd = said["etcd"]
        self.service = "grpc://" + said["address"]
        self.servers = said["servers"]
        return self

    def __exit__(self, *exc):
        self.stop()

    def log_tail(self, lines=15):
        return "\n".join((self._home / "cluster.log").read_text(errors="replace").splitlines()[-lines:])

    def status(self):
        """`millrace status --json` as a dictionary."""
        run = subprocess.run([self.program, "status", "--json", "--service", self.service], capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(run.stderr.strip())
        return json.loads(run.stdout)

    def status_text(self):
        return subprocess.run([self.program, "status", "--service", self.service], capture_output=True, text=True,
                              check=True).stdout

    def etcdctl(self, *args):
        return subprocess.run(["etcdctl", "--endpoints", self.etcd, *args], capture_output=True, text=True, check=True,
                              env={**os.environ, "ETCDCTL_API": "3"}).stdout

    def kill_dispatcher(self, address):
        """SIGKILL for the dispatcher at @address; its process id."""
        for server in self.servers:
            if server["kind"] == "dispatcher" and server["address"] == address:
                os.kill(server["pid"], signal.SIGKILL)
                return server["pid"]
        raise RuntimeError(f"no dispatcher of ours is at {address}")

    def stop(self):
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


def processes_of(home):
    """Ids of processes that have @home in their command line: those that a cluster there left behind."""
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
