#!/usr/bin/env python3
"""
Break it: a cluster of real processes under faults, and readers that count every element.

    scripts/with-build.sh BUILD python3 tests/fault/torture.py --minutes 2 [--seed N] [--faults kill,stop,...]

One etcd, three dispatchers, three workers, reading processes. A run is a row of cycles. In a cycle readers share one job with
DYNAMIC sharding (at most once), another reads a job with OFF, visitors come and go; meanwhile dispatchers are killed, frozen,
stopped and started again, connections are cut, etcd and workers restarted. Then everything is healed and the readers are
given some time to end. What must hold:

  - no element comes twice within a DYNAMIC repetition;
  - while no worker is killed: none is missing, OFF jobs give one copy for each worker, no client sees an error;
  - when workers are killed: reads end, and no more is missing than the splits that the service itself reports as lost;
  - nobody hangs once all is healed; no server ends unless it was told to; servers do not gather descriptors.

It ends with one line of figures, and a non-zero status if something of this broke; the logs are kept then. The seed is printed
first: it replays the faults, though not the machine's timing.
"""

import argparse
import base64
import collections
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import numpy as np

import millrace as mr

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPES = ["range", "shuffle", "batch", "flat_map", "interleave", "parallel"]
FAULTS = ["kill", "term", "stop", "all", "cut", "etcd", "worker", "pause_worker"]
DESCRIPTORS_MORE = 100  # what a server may hold beyond its first count


class Broken(Exception):
    """An invariant that did not hold, and after which the run cannot go on."""


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def fixed_port(rng):
    """A port below those that the kernel gives to connections: it is still free when a server comes back to it."""
    while True:
        port = rng.randrange(15000, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass


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

    def start(self):
        assert self._child is None
        env = dict(os.environ)
        for name in ("LD_PRELOAD", "ASAN_OPTIONS"):  # for Python; a sanitized program has the runtime in it, and looks for leaks
            env.pop(name, None)
        with open(self.log, "ab") as log:
            self._child = subprocess.Popen(self._argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env,
                                           preexec_fn=die_with_parent, start_new_session=True)
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


class Reader:
    """A reading process; one command at a time."""

    def __init__(self, number, log):
        self.number, self.log = number, log
        with open(log, "ab") as f:
            self._child = subprocess.Popen([sys.executable, os.path.join(HERE, "torture_reader.py")], text=True,
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=f, preexec_fn=die_with_parent)
        self._answer = None
        self._thread = None

    def send(self, **command):
        self._answer = None
        self._child.stdin.write(json.dumps(command) + "\n")
        self._child.stdin.flush()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self):
        self._answer = self._child.stdout.readline()

    def busy(self):
        return self._thread is not None and self._thread.is_alive()

    def take(self, deadline):
        """The answer; Broken if there is none by @deadline."""
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self.busy():
            self._child.send_signal(signal.SIGUSR1)  # where its threads are, into its log
            raise Broken(f"reader {self.number} hangs: see {self.log}")
        if not self._answer:
            raise Broken(f"reader {self.number} died with status {self._child.wait()}: see {self.log}")
        return json.loads(self._answer)

    @property
    def pid(self):
        return self._child.pid

    def end(self):
        self._child.kill()
        self._child.wait()


class Torture:
    def __init__(self, options):
        self.options = options
        self.rng = random.Random(options.seed)
        self.directory = tempfile.mkdtemp(prefix="millrace-torture-")
        self.faults = options.faults.split(",")
        if "cut" in self.faults and (os.geteuid() != 0 or shutil.which("ss") is None):
            print("torture: SKIPPED ALOUD: connections are not cut: that needs root and ss (iproute2)", flush=True)
            self.faults.remove("cut")
        self.failures = []
        self.counts = collections.Counter()
        self.failovers = []  # seconds until a status was answered in a later term
        self.gap = {False: 0.0, True: 0.0}  # the longest between two elements: without, with workers killed
        self.first_descriptors = {}
        self._start_cluster()

    # ---- processes ----

    def _log(self, name):
        return os.path.join(self.directory, name + ".log")

    def _start_cluster(self):
        program, rng = os.environ["MILLRACE_PROGRAM"], self.rng
        port, peer = fixed_port(rng), fixed_port(rng)
        client_url, peer_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer}"
        self.etcd = Process("etcd", [
            "etcd", "--name", "torture", "--data-dir", os.path.join(self.directory, "etcd"), "--listen-client-urls", client_url,
            "--advertise-client-urls", client_url, "--listen-peer-urls", peer_url, "--initial-advertise-peer-urls", peer_url,
            "--initial-cluster", f"torture={peer_url}", "--heartbeat-interval", "50", "--election-timeout", "250"],
            port, self._log("etcd"))
        ports = [fixed_port(rng) for _ in range(3)]
        self.addresses = ",".join(f"127.0.0.1:{p}" for p in ports)
        self.service = "grpc://" + self.addresses
        self.dispatchers = [Process(f"dispatcher{i}", [
            program, "dispatcher", f"--listen=127.0.0.1:{p}", f"--etcd-endpoints={self.etcd.address}", "--cluster=torture",
            "--worker-timeout=5s", "--log-level=info"], p, self._log(f"dispatcher{i}")) for i, p in enumerate(ports)]
        self.workers = []
        for i in range(3):
            p = fixed_port(rng)
            self.workers.append(Process(f"worker{i}", [
                program, "worker", f"--dispatcher={self.addresses}", f"--listen=127.0.0.1:{p}", "--log-level=info"],
                p, self._log(f"worker{i}")))
        self.readers = []
        self.etcd.start()
        for server in self.dispatchers + self.workers:
            server.start()
        self.readers = [Reader(i, self._log(f"reader{i}")) for i in range(5)]
        self._wait_workers(time.monotonic() + self.options.deadline)

    def _everything(self):
        return [self.etcd] + self.dispatchers + self.workers

    def status(self, timeout_s):
        return json.loads(mr.service.status(self.service, timeout_ms=max(1, int(timeout_s * 1000))))

    def _wait_workers(self, deadline):
        """Until the leader knows the current incarnation of each worker: a job opened now has a task on each."""
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

    def _judge_logs(self):
        """What sanitizers said does not always end the process."""
        for name in sorted(os.listdir(self.directory)):
            if name.endswith(".log"):
                with open(os.path.join(self.directory, name), "rb") as f:
                    if any(b"Sanitizer" in line or b"runtime error:" in line for line in f):
                        self._fail(f"a sanitizer spoke: see {os.path.join(self.directory, name)}")

    def close(self):
        for reader in self.readers:
            reader.end()
        for server in reversed(self._everything()):
            if server.up:
                try:
                    server.kill()
                except Broken as e:
                    self.failures.append(str(e))
        if self.failures or self.options.keep:
            print(f"torture: the logs are in {self.directory}", flush=True)
        else:
            shutil.rmtree(self.directory)

    # ---- faults ----

    def _leader(self):
        """The leading process, asked from etcd; None if the key is away."""
        key = "L21pbGxyYWNlL3RvcnR1cmUvbGVhZGVy"  # /millrace/torture/leader
        request = urllib.request.Request(f"http://{self.etcd.address}/v3/kv/range", json.dumps({"key": key}).encode())
        try:
            with urllib.request.urlopen(request, timeout=2) as answer:
                found = json.load(answer).get("kvs")
        except OSError:
            return None
        if not found:
            return None
        value = base64.b64decode(found[0]["value"]).decode()
        self._leads_since = int(json.loads(value).get("sinceMs", 0)) / 1000
        return next((d for d in self.dispatchers if d.address in value), None)

    def _restart_later(self, server, seconds):
        self._due.append((time.monotonic() + seconds, "start", server))

    def fault_kill(self):
        """A dispatcher, mostly the leader. Half of the time nothing else happens until another leads, and that is timed."""
        victim = self._leader() if self.rng.random() < 0.7 else self.rng.choice(self.dispatchers)
        if victim is None or not victim.up or victim.stopped:
            return
        now = time.monotonic()
        # A term is left alone for a second before a guess ends it: a leader that dies within it is not what is timed.
        calm = victim is self._leader() and self.etcd.up and time.time() - self._leads_since > 1.2 and any(
            d.up and not d.stopped and now - d.since > 2 for d in self.dispatchers if d is not victim)
        epoch = None
        if calm and self.rng.random() < 0.6:
            try:
                epoch = int(self.status(5)["epoch"])
            except mr.errors.MillraceError:
                pass
        self.counts["killed"] += 1
        began = time.monotonic()
        victim.kill()
        if epoch is not None:
            try:
                while int(self.status(30)["epoch"]) <= epoch:
                    time.sleep(0.005)
                took = time.monotonic() - began
                self.failovers.append(took)
                if took > 0.5:
                    print(f"torture: {took * 1000:.0f} ms without a leader after {victim.name} was killed "
                          f"(epoch {epoch}, killed at {time.time() - took:.3f})", flush=True)
            except mr.errors.MillraceError as e:
                self._fail(f"no leader within 30 s of the last one's death: {e}")
        self._restart_later(victim, self.rng.uniform(0, 2))

    def fault_term(self):
        victim = self._leader()
        if victim is None or not victim.up or victim.stopped:
            return
        self.counts["terminated"] += 1
        victim.terminate()
        self._restart_later(victim, self.rng.uniform(0, 1))

    def fault_stop(self):
        victim = self._leader() if self.rng.random() < 0.6 else self.rng.choice(self.dispatchers)
        if victim is None or not victim.up or victim.stopped:
            return
        self.counts["frozen"] += 1
        victim.stop()
        self._due.append((time.monotonic() + self.rng.choice([0.1, 0.5, 2, 6]), "cont", victim))

    def fault_all(self):
        self.counts["all killed"] += 1
        for d in self.dispatchers:
            if d.up:
                d.kill()
                self._restart_later(d, self.rng.uniform(0, 1))

    def fault_cut(self):
        server = self.rng.choice(self.dispatchers + self.workers + self.workers)
        self.counts["cut"] += 1
        subprocess.run(["ss", "-K", "dst", "127.0.0.1", "dport", "=", str(server.port)], stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def fault_etcd(self):
        if self.etcd.up:
            self.counts["etcd killed"] += 1
            self.etcd.kill()
            self._restart_later(self.etcd, self.rng.choice([0, 0.3, 2]))

    def fault_worker(self):
        if self.workers_may_die:
            victim = self.rng.choice(self.workers)
            if victim.up and sum(w.up for w in self.workers) > 1:
                self.counts["workers killed"] += 1
                victim.kill() if self.rng.random() < 0.7 else victim.terminate()
                self._restart_later(victim, self.rng.choice([0, 0, 0.5, 7]))

    def fault_pause_worker(self):
        victim = self.rng.choice(self.workers)
        if victim.up and not victim.stopped:
            self.counts["workers frozen"] += 1
            victim.stop()
            self._due.append((time.monotonic() + self.rng.choice([0.1, 0.5, 1.5]), "cont", victim))

    def _work_due(self, everything=False):
        now, left = time.monotonic(), []
        for when, what, server in self._due:
            if when > now and not everything:
                left.append((when, what, server))
            elif what == "start" and not server.up:
                server.start()
            elif what == "cont" and server.up:
                server.cont()
        self._due = left
        for server in self._everything():
            server.check()

    def _plague(self, seconds):
        over = time.monotonic() + seconds
        weights = {"kill": 6, "term": 2, "stop": 3, "all": 1, "cut": 4, "etcd": 1, "worker": 2, "pause_worker": 2}
        while time.monotonic() < over:
            name = self.rng.choices(self.faults, [weights[f] for f in self.faults])[0]
            self.trace(f"fault {name}")
            getattr(self, "fault_" + name)()
            until = time.monotonic() + self.rng.choice([0.05, 0.3, 0.8, 1.5])
            while time.monotonic() < until:
                self._work_due()
                time.sleep(0.02)

    def trace(self, text):
        if self.options.verbose:
            print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    # ---- cycles ----

    def _fail(self, text):
        self.failures.append(text)
        print(f"torture: BROKEN in cycle {self.counts['cycles']}: {text}", flush=True)

    def cycle(self):
        rng, number = self.rng, self.counts["cycles"]
        self._due = []
        self.workers_may_die = "worker" in self.faults and rng.random() < (0.35 if len(self.faults) > 1 else 1)
        self._starts = [w.starts for w in self.workers]
        seconds = rng.uniform(2, 8)
        # Paced: small and slow, so that hand-outs go on through the faults. Not paced: as much as there is time for.
        paced = rng.random() < 0.7
        n = rng.choice([100, 5000, 30000]) if paced else 50 * rng.choice([2000, 10000, 30000])
        shape = rng.choice(SHAPES)
        job = f"cycle{number}"
        self.trace(f"cycle {number}: {shape} of {n}, {seconds:.1f} s, paced {paced}, workers die {self.workers_may_die}")
        file = lambda i: os.path.join(self.directory, f"got{i}.npy")

        def reading(shape, n, share):
            nexts = n * share / (7 if shape == "batch" else 1)
            every = max(1, int(nexts / 100))
            return {"do": "read", "service": self.service, "shape": shape, "n": n, "every": every,
                    "nap": seconds / (nexts / every) if paced else 0.0}

        shared = {**reading(shape, n, 1 / 3), "mode": "distributed_epoch", "job": job}
        late = rng.random() < 0.3
        self.readers[0].send(**shared, file=file(0))
        self.readers[1].send(**shared, file=file(1))
        if not late:
            self.readers[2].send(**shared, file=file(2))
        self.readers[3].send(**reading(rng.choice(SHAPES), min(n, 30000), 3), mode="parallel_epochs", file=file(3))
        self.readers[4].send(do="visit", service=self.service, seconds=seconds, threads=rng.choice([1, 4, 30]),
                             seed=rng.randrange(1 << 30))
        self._plague(seconds / 2)
        if late:
            self.readers[2].send(**shared, file=file(2))
        self._plague(seconds / 2)
        self.trace("healing")
        self._work_due(everything=True)
        deadline = time.monotonic() + self.options.deadline
        answers = [r.take(deadline) for r in self.readers]
        self._wait_workers(deadline)
        for server in self._everything():
            server.check()
        self._judge(job, n, min(n, 30000), answers, [np.load(file(i)) for i in range(4)])
        self._judge_descriptors()
        self.counts["cycles"] += 1

    def _judge(self, job, n, n_off, answers, got):
        died = any(w.starts != s for w, s in zip(self.workers, self._starts))
        errors = [e for a in answers for e in a["errors"]]
        self.counts["client errors"] += len(errors)
        self.counts["visits"] += answers[4]["visits"]
        doubles = [e for e in errors if "twice" in e]
        if errors and not died or doubles:
            self._fail(f"{len(errors)} client errors, the first: {(doubles or errors)[0]}")
        for a in answers[:4]:
            self.gap[died] = max(self.gap[died], a["gap"], a["end"])
        counts = np.bincount(np.concatenate(got[:3]), minlength=n)
        doubled, missing = int((counts > 1).sum()), int((counts == 0).sum())
        self.counts["elements"] += int(counts.sum())
        self.counts["doubled"] += doubled
        if len(counts) > n:
            self._fail(f"elements that are none: {len(counts) - 1} of {n}")
        if doubled:
            self._fail(f"{doubled} of {n} elements doubled, from {np.flatnonzero(counts > 1)[:5]}")
        allowed = self._lost_elements(job, n) if died else 0
        if died:
            self.counts["lost with workers"] += missing
        else:
            self.counts["missing"] += missing
        if missing > allowed:
            self._fail(f"{missing} of {n} elements missing, {allowed} may be, from {np.flatnonzero(counts == 0)[:5]}; "
                       f"end: {self._end_of(job)}")
        off = np.bincount(got[3], minlength=n_off)
        least = sum(w.starts == s for w, s in zip(self.workers, self._starts))
        most = len(self.workers) + sum(w.starts - s for w, s in zip(self.workers, self._starts))
        if off.min() < least or off.max() > most:
            self._fail(f"copies of a job with OFF: {off.min()} to {off.max()}, where {least} to {most} are right")
            self.counts["off copies wrong"] += 1

    def _end_of(self, job):
        for j in self.status(self.options.deadline).get("jobs", []):
            if j.get("name") == job:
                return j["iterations"][0]
        return None

    def _lost_elements(self, job, n):
        """How many elements the service says may be lost."""
        iteration = self._end_of(job)
        if iteration is None:
            return 0
        splits = int(iteration["providers"][0]["splits"])
        return int(iteration.get("end", {}).get("lostSplits", 0)) * -(-n // splits)

    def _judge_descriptors(self):
        for server in self.dispatchers + self.workers:
            count = server.descriptors()
            first = self.first_descriptors.setdefault(server.name, count)
            if count > first + DESCRIPTORS_MORE:
                self._fail(f"{server.name} holds {count} descriptors, {first} after the first cycle")

    def run(self):
        over = time.monotonic() + self.options.minutes * 60
        try:
            while time.monotonic() < over and not (self.failures and self.options.first):
                self.cycle()
        except Broken as e:
            self._fail(str(e))
            if self.options.hold:
                print(f"torture: held; readers {[r.pid for r in self.readers]}, servers "
                      f"{[(s.name, s.pid) for s in self._everything() if s.up]}", flush=True)
                sys.stdin.read(1)
        self._judge_logs()
        self._report()

    def _report(self):
        c = self.counts
        took = sorted(self.failovers)
        at = lambda q: f"{took[min(len(took) - 1, int(q * len(took)))] * 1000:.0f}" if took else "-"
        injected = ", ".join(f"{c[k]} {k}" for k in ("killed", "terminated", "frozen", "all killed", "cut", "etcd killed",
                                                     "workers killed", "workers frozen") if c[k])
        print(f"torture: faults: {injected}; {c['elements']} elements, {c['visits']} visits")
        print(f"torture: {'BROKEN' if self.failures else 'ok'}: seed {self.options.seed}, {c['cycles']} cycles, {len(took)} failovers timed, "
              f"without a leader p50/p99/max {at(0.5)}/{at(0.99)}/{at(1)} ms, longest gap {self.gap[False]:.2f} s "
              f"({self.gap[True]:.2f} s with workers killed), client errors {c['client errors']}, missing {c['missing']} "
              f"(+{c['lost with workers']} lost with workers), doubled {c['doubled']}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--faults", default=",".join(FAULTS), help="which of " + ",".join(FAULTS))
    parser.add_argument("--deadline", type=float, default=60, help="seconds that the healed readers have (default 60)")
    parser.add_argument("--first", action="store_true", help="end after the first cycle that breaks something")
    parser.add_argument("--hold", action="store_true", help="wait for Enter with everything running when something hangs")
    parser.add_argument("--keep", action="store_true", help="keep the logs in any case")
    parser.add_argument("--verbose", action="store_true", help="say each fault")
    options = parser.parse_args()
    if unknown := set(options.faults.split(",")) - set(FAULTS):
        parser.error(f"unknown faults: {', '.join(unknown)}")
    print(f"torture: seed {options.seed}", flush=True)
    torture = Torture(options)
    try:
        torture.run()
    finally:
        torture.close()
    return 1 if torture.failures else 0


if __name__ == "__main__":
    sys.exit(main())
