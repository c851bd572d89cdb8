#!/usr/bin/env python3
"""
Break it: a cluster of real processes under faults, and readers that count every element.

    scripts/with-build.sh BUILD python3 tests/fault/torture.py --minutes 2 [--seed N] [--faults
    kill,stop,...]

Three members of etcd, three dispatchers, three workers, reading processes. A run is a row of
cycles. In a cycle three readers share a job with DYNAMIC sharding at most once, two share one at
least once, one reads a job with OFF, two are the consumers of a coordinated job, two have jobs that
share a production, visitors come and go; meanwhile dispatchers, workers, members of etcd and a
reader are killed, frozen, stopped and started again, and connections are cut. Then everything is
healed and the readers are given some time to end. What must hold:

  - at most once: no element comes twice within a repetition; none is missing while no worker is
    killed, and no more than the splits that the service itself reports as lost when some are;
  - at least once: none is missing, whoever is killed, also if it is a reader: what was returned to
    it counts; and no more are doubled than the splits that the service reports as repeated, and
    what a killed reader held;
  - while no worker is killed: OFF jobs give one copy for each worker, no client sees an error;
  - coordinated: both consumers read as many elements, none of them comes twice;
  - shared, and nobody skips: none comes twice to a job, none is missing while no worker is killed;
  - nobody hangs once all is healed, this program included: without progress, that is; one that is
    slow does not hang; no server ends unless it was told to; servers do not gather descriptors; at
    the end `millrace state check` finds nothing wrong.

It ends with one line of figures, and a non-zero status if something of this broke; the logs are
kept then. The seed is printed first: it replays the faults, though not the machine's timing.
"""

import argparse
import collections
import faulthandler
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import millrace as mr

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
from cluster import Broken, Cluster, Commanded, write_stacks  # noqa: E402

SHAPES = ["range", "shuffle", "batch", "flat_map", "interleave", "parallel"]
# Name, and how often it is taken in relation to the others.
FAULTS = {
    "kill": 6,
    "term": 2,
    "stop": 3,
    "all": 1,
    "cut": 4,
    "etcd": 3,
    "worker": 2,
    "pause_worker": 2,
    "reader": 1,
}
DESCRIPTORS_MORE = 100  # what a server may hold beyond its first count
MOST, LEAST, OFF, ROUNDS, SHARED, VISIT = (
    slice(0, 3),
    slice(3, 5),
    5,
    slice(6, 8),
    slice(8, 10),
    10,
)  # which readers do what
READERS = 11
GAP_TOLD_S = 4  # a reader that waited longer is told of


class Watchdog(threading.Thread):
    """
    Ends a torture that itself stands still, and says where: in a call of the library, in the start
    of a process, in a wait.
    """

    def __init__(self, torture, patience_s):
        super().__init__(daemon=True)
        self._torture, self._patience_s = torture, patience_s
        self._last, self._what = time.monotonic(), "the start"

    def note(self, what):
        """Something has ended, and @what begins."""
        self._last, self._what = time.monotonic(), what

    def run(self):
        while time.monotonic() < self._last + self._patience_s:
            time.sleep(1)
        directory = self._torture.directory
        print(
            (
                f"torture: BROKEN: {self._what} has not ended for {self._patience_s:.0f} s: the"
                f" stacks are in {directory}/torture.log, the logs beside it"
            ),
            flush=True,
        )
        path = os.path.join(directory, "torture.log")
        with open(path, "a") as out:
            faulthandler.dump_traceback(out, all_threads=True)
        for pid in [os.getpid(), *(reader.pid for reader in self._torture.readers)]:
            try:
                write_stacks(pid, path)
            except (OSError, subprocess.SubprocessError) as e:
                print(f"torture: no stacks of {pid}: {e}", flush=True)
        os._exit(1)  # what was started goes along


def _clock(seconds):
    return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{int(seconds * 1000) % 1000:03d}"


class Torture:
    def __init__(self, options):
        self.options = options
        self.rng = random.Random(options.seed)
        self.directory = tempfile.mkdtemp(prefix="millrace-torture-")
        self.faults = options.faults.split(",")
        if "cut" in self.faults and (os.geteuid() != 0 or shutil.which("ss") is None):
            print(
                (
                    "torture: SKIPPED ALOUD: connections are not cut: that needs root and ss"
                    " (iproute2)"
                ),
                flush=True,
            )
            self.faults.remove("cut")
        self.failures = []
        self.counts = collections.Counter()
        self.failovers = []  # seconds until a status was answered in a later term
        self.gap = (
            collections.Counter()
        )  # the longest that a reader waited, by what was killed meanwhile
        self.first_descriptors = {}
        self.cluster = Cluster(self.directory, self.rng, options=["--client-timeout=5s"])
        self.dispatchers, self.workers, self.members = (
            self.cluster.dispatchers,
            self.cluster.workers,
            self.cluster.members,
        )
        self.readers = []
        self._due = []
        self._story = collections.deque(maxlen=200)  # (when, what was done)
        self.watchdog = Watchdog(
            self, 2 * options.deadline + 60
        )  # a cycle waits for its readers, and for the cluster

    # ---- processes ----

    def _log(self, name):
        return os.path.join(self.directory, name + ".log")

    def _reader(self, i):
        return Commanded(
            f"reader{i}", os.path.join(HERE, "torture_reader.py"), self._log(f"reader{i}")
        )

    def start(self):
        self.cluster.start(self.options.deadline)
        self.readers = [self._reader(i) for i in range(READERS)]

    def status(self, timeout_s):
        return self.cluster.status(timeout_s)

    def _judge_logs(self):
        """What sanitizers said does not always end the process."""
        for name in sorted(os.listdir(self.directory)):
            if name.endswith(".log"):
                with open(os.path.join(self.directory, name), "rb") as f:
                    if any(b"Sanitizer" in line or b"runtime error:" in line for line in f):
                        self._fail(f"a sanitizer spoke: see {os.path.join(self.directory, name)}")

    def close(self):
        for reader in self.readers:
            reader.kill()
        self.failures += self.cluster.kill()
        if self.failures or self.options.keep:
            print(f"torture: the logs are in {self.directory}", flush=True)
        else:
            shutil.rmtree(self.directory)

    # ---- faults ----

    def _restart_later(self, server, seconds):
        self._due.append((time.monotonic() + seconds, "start", server))

    def fault_kill(self):
        """
        A dispatcher, mostly the leader. Half of the time nothing else happens until another leads,
        and that is timed.
        """
        leader, leads_since = self.cluster.leader()
        victim = leader if self.rng.random() < 0.7 else self.rng.choice(self.dispatchers)
        if victim is None or not victim.up or victim.stopped:
            return
        now = time.monotonic()
        # A term is left alone for a second before a guess ends it: a leader that dies within it is
        # not what is timed.
        calm = (
            victim is leader
            and all(m.well for m in self.members)
            and time.time() - leads_since > 1.2
            and any(d.well and now - d.since > 2 for d in self.dispatchers if d is not victim)
        )
        epoch = None
        if calm and self.rng.random() < 0.6:
            try:
                said = self.status(5)
                if said["leader"] == victim.address:  # and not of one that has taken over since
                    epoch = int(said["epoch"])
            except mr.errors.MillraceError:
                pass
        self.counts["killed"] += 1
        self.trace(f"{victim.name} is killed{', the leader' if victim is leader else ''}")
        began = time.monotonic()
        victim.kill()
        if epoch is not None:
            try:
                while int(self.status(30)["epoch"]) <= epoch:
                    time.sleep(0.005)
                took = time.monotonic() - began
                self.failovers.append(took)
                if took > 0.5:
                    print(
                        (
                            f"torture: {took * 1000:.0f} ms without a leader after"
                            f" {victim.name} was killed (epoch {epoch}, killed at"
                            f" {time.time() - took:.3f})"
                        ),
                        flush=True,
                    )
            except mr.errors.MillraceError as e:
                self._fail(f"no leader within 30 s of the last one's death: {e}")
        self._restart_later(victim, self.rng.uniform(0, 2))

    def fault_term(self):
        victim, _ = self.cluster.leader()
        if victim is None or not victim.up or victim.stopped or time.monotonic() - victim.since < 1:
            # One that has just been started leads only in an old answer, and may not be a
            # dispatcher yet
            return
        self.counts["terminated"] += 1
        self.trace(f"{victim.name} is terminated, the leader")
        victim.terminate()
        self._restart_later(victim, self.rng.uniform(0, 1))

    def fault_stop(self):
        victim = (
            self.cluster.leader()[0]
            if self.rng.random() < 0.6
            else self.rng.choice(self.dispatchers)
        )
        if victim is None or not victim.up or victim.stopped:
            return
        self.counts["frozen"] += 1
        seconds = self.rng.choice([0.1, 0.5, 2, 6])
        self.trace(f"{victim.name} is frozen for {seconds} s")
        victim.stop()
        self._due.append((time.monotonic() + seconds, "cont", victim))

    def fault_all(self):
        self.counts["all killed"] += 1
        self.trace("all dispatchers are killed")
        for d in self.dispatchers:
            if d.up:
                d.kill()
                self._restart_later(d, self.rng.uniform(0, 1))

    def fault_cut(self):
        server = self.rng.choice(self.dispatchers + self.workers + self.workers)
        self.counts["cut"] += 1
        self.trace(f"connections to {server.name} are cut")
        subprocess.run(
            ["ss", "-K", "dst", "127.0.0.1", "dport", "=", str(server.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )

    def fault_etcd(self):
        """A member, sometimes the majority, sometimes all; killed, or frozen."""
        victims = self.rng.sample(self.members, self.rng.choices([1, 2, 3], [6, 2, 1])[0])
        freeze = self.rng.random() < 0.3
        for member in victims:
            if not member.well:
                continue
            self.counts["members of etcd " + ("frozen" if freeze else "killed")] += 1
            self.trace(f"{member.name} is {'frozen' if freeze else 'killed'}")
            if freeze:
                member.stop()
                self._due.append((time.monotonic() + self.rng.choice([0.2, 1, 3]), "cont", member))
            else:
                member.kill()
                self._restart_later(member, self.rng.choice([0, 0.3, 2]))

    def fault_worker(self):
        if self.workers_may_die:
            victim = self.rng.choice(self.workers)
            if victim.up and sum(w.up for w in self.workers) > 1:
                self.counts["workers killed"] += 1
                self.trace(f"{victim.name} is killed or terminated")
                victim.kill() if self.rng.random() < 0.7 else victim.terminate()
                self._restart_later(victim, self.rng.choice([0, 0, 0.5, 7]))

    def fault_pause_worker(self):
        victim = self.rng.choice(self.workers)
        if victim.up and not victim.stopped:
            self.counts["workers frozen"] += 1
            seconds = self.rng.choice([0.1, 0.5, 1.5])
            self.trace(f"{victim.name} is frozen for {seconds} s")
            victim.stop()
            self._due.append((time.monotonic() + seconds, "cont", victim))

    def fault_reader(self):
        """One of the two that read at least once. What it was given is in its file."""
        if not self.reader_killed:
            self.counts["readers killed"] += 1
            self.trace("reader 4 is killed")
            self.reader_killed = True
            self.readers[LEAST][1].kill()

    def _work_due(self, everything=False):
        now, left = time.monotonic(), []
        for when, what, server in self._due:
            if when > now and not everything:
                left.append((when, what, server))
            elif what == "start" and not server.up:
                self.trace(f"{server.name} is started")
                server.start()
            elif what == "cont" and server.up:
                self.trace(f"{server.name} goes on")
                server.cont()
        self._due = left
        self.cluster.check()

    def _plague(self, seconds):
        over = time.monotonic() + seconds
        while time.monotonic() < over:
            name = self.rng.choices(self.faults, [FAULTS[f] for f in self.faults])[0]
            self.watchdog.note(f"fault '{name}' of cycle {self.counts['cycles']}")
            getattr(self, "fault_" + name)()
            until = time.monotonic() + self.rng.choice([0.05, 0.3, 0.8, 1.5])
            while time.monotonic() < until:
                self._work_due()
                time.sleep(0.02)

    def trace(self, text):
        self._story.append((time.time(), text))
        if self.options.verbose:
            print(f"{_clock(time.time())} {text}", flush=True)

    def _suffered(self, since, until):
        """What was done to the cluster before and within a span of time."""
        return ", ".join(
            f"{_clock(when)} {what}" for when, what in self._story if since - 2 < when < until
        )

    # ---- cycles ----

    def _fail(self, text):
        self.failures.append(text)
        print(f"torture: BROKEN in cycle {self.counts['cycles']}: {text}", flush=True)

    def cycle(self):
        rng, number = self.rng, self.counts["cycles"]
        self.workers_may_die = "worker" in self.faults and rng.random() < (
            0.5 if len(self.faults) > 1 else 1
        )
        self.reader_killed = False
        starts = [w.starts for w in self.workers]
        seconds = rng.uniform(2, 8)
        # Paced: small and slow, so that hand-outs go on through the faults. Not paced: as much as
        # there is time for.
        paced = rng.random() < 0.7
        n = rng.choice([100, 5000, 30000]) if paced else 50 * rng.choice([2000, 10000, 30000])
        n_off = min(n, 30000)
        shape, job = rng.choice(SHAPES), f"cycle{number}"
        self.trace(
            f"cycle {number}: {shape} of {n}, {seconds:.1f} s, paced {paced}, workers die"
            f" {self.workers_may_die}"
        )
        self.files = files = [os.path.join(self.directory, f"got{i}") for i in range(READERS)]
        for file in files:  # a reader may be killed before it makes its own
            open(file, "wb").close()

        def reading(shape, n, share, i):
            nexts = n * share / (7 if shape == "batch" else 1)
            every = max(1, int(nexts / 100))
            return {
                "do": "read",
                "service": self.cluster.service,
                "shape": shape,
                "n": n,
                "every": every,
                "file": files[i],
                "nap": seconds / (nexts / every) if paced else 0.0,
            }

        dynamic = {"mode": "distributed_epoch"}
        least = {**dynamic, "job": job + "-again", "guarantee": "at_least_once"}
        late = rng.random() < 0.3
        for i in range(2 if late else 3):
            self.readers[i].send(**reading(shape, n, 1 / 3, i), **dynamic, job=job)
        shape_least = rng.choice(SHAPES)
        for i in (3, 4):
            self.readers[i].send(**reading(shape_least, n, 1 / 2, i), **least)
        self.readers[OFF].send(**reading(rng.choice(SHAPES), n_off, 3, OFF), mode="parallel_epochs")
        n_rounds, n_shared = rng.choice([100, 1000, 3000]), min(n, 30000)
        for i in range(2):
            self.readers[ROUNDS][i].send(
                **reading("range", n_rounds, 1 / 2, ROUNDS.start + i),
                **dynamic,
                job=job + "-rounds",
                options={"num_consumers": 2, "consumer_index": i},
            )
            self.readers[SHARED][i].send(
                **reading("range", n_shared, 1, SHARED.start + i),
                **dynamic,
                job=f"{job}-shared{i}",
                options={"sharing": "auto", "lag": "wait"},
            )
        self.readers[VISIT].send(
            do="visit",
            service=self.cluster.service,
            seconds=seconds,
            threads=rng.choice([1, 4, 30]),
            seed=rng.randrange(1 << 30),
            file=files[VISIT],
        )
        self._plague(seconds / 2)
        if late:
            self.readers[2].send(**reading(shape, n, 1 / 3, 2), **dynamic, job=job)
        self._plague(seconds / 2)
        self.trace("healing")
        self.watchdog.note(f"the healing of cycle {self.counts['cycles']}")
        self._work_due(everything=True)
        answers = self._answers()
        self.died = any(w.starts != s for w, s in zip(self.workers, starts))
        got = [np.fromfile(file, np.int64) for file in files[:VISIT]]
        self._judge_answers(answers)
        self._judge_most(job, n, np.concatenate(got[MOST]))
        self._judge_least(job + "-again", n, np.concatenate(got[LEAST]), answers[LEAST])
        self._judge_off(n_off, got[OFF], starts)
        self._judge_rounds(got[ROUNDS], answers[ROUNDS])
        for numbers, answer in zip(got[SHARED], answers[SHARED]):
            self._judge_shared(n_shared, numbers, answer)
        self._judge_descriptors()
        self.counts["cycles"] += 1

    def _take(self, i):
        """The answer of reader @i, which has as long as it goes on."""

        def progress():
            self.watchdog.note(f"the reading of reader {i} in cycle {self.counts['cycles']}")
            return os.path.getsize(self.files[i])

        return self.readers[i].take(time.monotonic() + self.options.deadline, progress)

    def _answers(self):
        answers = []
        for i, reader in enumerate(self.readers):
            if self.reader_killed and reader is self.readers[LEAST][1]:
                answers.append(None)
                self.readers[i] = self._reader(i)
            else:
                answers.append(self._take(i))
        self.watchdog.note(f"what comes after the reading in cycle {self.counts['cycles']}")
        self.cluster.wait_whole(time.monotonic() + self.options.deadline)
        self.cluster.check()
        return answers

    # ---- judging a cycle ----

    def _judge_answers(self, answers):
        errors = [e for a in answers if a for e in a["errors"]]
        doubles = [e for e in errors if "twice" in e]
        self.counts["client errors"] += len(errors)
        self.counts["visits"] += answers[VISIT]["visits"]
        if errors and not self.died or doubles:
            self._fail(f"{len(errors)} client errors, the first: {(doubles or errors)[0]}")
        for i, a in enumerate(answers[:VISIT]):
            if a:
                gap = a["gap"]
                # What a killed reader was given comes to the other one when the dispatcher has
                # given it up.
                killed = (
                    "worker"
                    if self.died
                    else "reader"
                    if self.reader_killed and i in range(READERS)[LEAST]
                    else ""
                )
                self.gap[killed] = max(self.gap[killed], gap["s"])
                if gap["s"] > GAP_TOLD_S:
                    print(
                        (
                            f"torture: reader {i} waited {gap['s']:.1f} s for {gap['for']}, until"
                            f" {_clock(gap['until'])}, in cycle"
                            f" {self.counts['cycles']}{killed and f' (a {killed} was killed)'}:"
                            f" {self._suffered(gap['until'] - gap['s'], gap['until'])}"
                        ),
                        flush=True,
                    )

    def _count(self, n, got, guarantee):
        """Of numbers below n: which are doubled, which are missing."""
        counts = np.bincount(got, minlength=n)
        if len(counts) > n:
            self._fail(f"{guarantee}: elements that are none: {len(counts) - 1} of {n}")
        self.counts["elements"] += len(got)
        return np.flatnonzero(counts[:n] > 1), np.flatnonzero(counts[:n] == 0)

    def _judge_most(self, job, n, got):
        doubled, missing = self._count(n, got, "at most once")
        end, per_split = self._end_of(job, n)
        allowed = int(end.get("lostSplits", 0)) * per_split if self.died else 0
        self.counts["doubled"] += len(doubled)
        self.counts["lost with workers" if self.died else "missing"] += len(missing)
        if len(doubled):
            self._fail(f"at most once: {len(doubled)} of {n} elements doubled, from {doubled[:5]}")
        if len(missing) > allowed:
            self._fail(
                f"at most once: {len(missing)} of {n} elements missing, {allowed} may be, from"
                f" {missing[:5]}; end: {end}"
            )

    def _judge_least(self, job, n, got, answers):
        doubled, missing = self._count(n, got, "at least once")
        end, per_split = self._end_of(job, n)
        self.counts["doubled, least"] += len(doubled)
        if any(a and a["errors"] for a in answers):
            return  # counted, and judged: the promise is for reads that end without one
        self.counts["missing, least"] += len(missing)
        if len(missing):
            self._fail(
                f"at least once: {len(missing)} of {n} elements missing, from {missing[:5]}; end:"
                f" {end}"
            )
        allowed = int(end.get("repeatedSplits", 0)) * per_split
        if len(doubled) > allowed and not self.reader_killed:
            self._fail(
                f"at least once: {len(doubled)} of {n} elements doubled, {allowed} may be, from"
                f" {doubled[:5]}; end: {end}"
            )

    def _judge_off(self, n, got, starts):
        copies = np.bincount(got, minlength=n)
        least = sum(w.starts == s for w, s in zip(self.workers, starts))
        most = len(self.workers) + sum(w.starts - s for w, s in zip(self.workers, starts))
        if copies.min() < least or copies.max() > most:
            self._fail(
                f"copies of a job with OFF: {copies.min()} to {copies.max()}, where {least} to"
                f" {most} are right"
            )

    def _judge_rounds(self, got, answers):
        """Each round has one element for each; a round that is void is void for both."""
        if any(a["errors"] for a in answers):
            return  # counted, and judged
        both = np.concatenate(got)
        self.counts["rounds"] += len(got[0])
        if len(got[0]) != len(got[1]) or len(np.unique(both)) != len(both):
            self._fail(
                f"coordinated: the consumers read {len(got[0])} and {len(got[1])} elements,"
                f" {len(np.unique(both))} different ones"
            )

    def _judge_shared(self, n, got, answer):
        doubled, missing = self._count(n, got, "shared")
        if len(doubled) or len(missing) and not (self.died or answer["errors"]):
            self._fail(
                f"shared: of {n} elements {len(missing)} are missing, from {missing[:5]}, and"
                f" {len(doubled)} doubled, from {doubled[:5]}"
            )

    def _end_of(self, job, n):
        """(what the service says of the end of a job's read, elements in a split)."""
        for j in self.status(self.options.deadline).get("jobs", []):
            if j.get("name") == job:
                iteration = j["iterations"][0]
                return iteration.get("end", {}), -(-n // int(iteration["providers"][0]["splits"]))
        return {}, 0

    def _judge_descriptors(self):
        for server in self.dispatchers + self.workers:
            count = server.descriptors()
            first = self.first_descriptors.setdefault(server.name, count)
            if count > first + DESCRIPTORS_MORE:
                self._fail(
                    f"{server.name} holds {count} descriptors, {first} after the first cycle"
                )

    def run(self):
        over = time.monotonic() + self.options.minutes * 60
        try:
            self.start()
            while time.monotonic() < over and not (self.failures and self.options.first):
                self.cycle()
            if wrong := self.cluster.check_state():
                self._fail(f"millrace state check: {wrong}")
        except (Broken, subprocess.SubprocessError) as e:
            self._fail(str(e))
            if self.options.hold:
                print(
                    (
                        f"torture: held; readers {[r.pid for r in self.readers]}, servers "
                        f"{[(s.name, s.pid) for s in self.cluster.everything if s.up]}"
                    ),
                    flush=True,
                )
                sys.stdin.read(1)
        self._judge_logs()
        self._report()

    def _report(self):
        c = self.counts
        took = sorted(self.failovers)
        at = lambda q: f"{took[min(len(took) - 1, int(q * len(took)))] * 1000:.0f}" if took else "-"
        injected = ", ".join(
            f"{c[k]} {k}"
            for k in (
                "killed",
                "terminated",
                "frozen",
                "all killed",
                "cut",
                "members of etcd killed",
                "members of etcd frozen",
                "workers killed",
                "workers frozen",
                "readers killed",
            )
            if c[k]
        )
        print(
            f"torture: faults: {injected}; {c['elements']} elements, {c['rounds']} rounds,"
            f" {c['visits']} visits"
        )
        print(
            (
                f"torture: {'BROKEN' if self.failures else 'ok'}: seed {self.options.seed},"
                f" {c['cycles']} cycles, {len(took)} failovers timed, without a leader p50/p99/max"
                f" {at(0.5)}/{at(0.99)}/{at(1)} ms, longest gap {self.gap['']:.2f} s"
                f" ({self.gap['worker']:.2f} s with workers killed, {self.gap['reader']:.2f} s with"
                f" the other reader killed), client errors {c['client errors']}, at most once:"
                f" missing {c['missing']} (+{c['lost with workers']} lost with workers), doubled"
                f" {c['doubled']}; at least once: missing {c['missing, least']}, doubled"
                f" {c['doubled, least']}"
            ),
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=2)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--faults", default=",".join(FAULTS), help="which of " + ",".join(FAULTS))
    parser.add_argument(
        "--deadline",
        type=float,
        default=60,
        help="seconds without progress after which a healed reader hangs (default 60)",
    )
    parser.add_argument(
        "--first", action="store_true", help="end after the first cycle that breaks something"
    )
    parser.add_argument(
        "--hold",
        action="store_true",
        help="wait for Enter with everything running when something hangs",
    )
    parser.add_argument("--keep", action="store_true", help="keep the logs in any case")
    parser.add_argument("--verbose", action="store_true", help="say each fault")
    options = parser.parse_args()
    if unknown := set(options.faults.split(",")) - set(FAULTS):
        parser.error(f"unknown faults: {', '.join(unknown)}")
    print(f"torture: seed {options.seed}", flush=True)
    torture = Torture(options)
    torture.watchdog.start()
    try:
        torture.run()
    finally:
        torture.close()
    return 1 if torture.failures else 0


if __name__ == "__main__":
    sys.exit(main())
