#!/usr/bin/env python3
"""
Let it run: a cluster of real processes in ordinary use for hours. Nothing may grow, and no element
may be missing.

    scripts/with-build.sh BUILD python3 tests/fault/soak.py --minutes 60 [--seed N] [--without
    close,...]

A member of etcd, two dispatchers, three workers, eight reading processes. In each round of some
seconds jobs begin and end:

  most      at most once, three readers: two read to the end, one leaves in the middle, by close()
            or without a word
  cut       at most once, one reader that a signal handler interrupts all the time
  least     at least once, two readers; one of them is killed in the middle in some rounds, and
            another takes its place
  shared    two jobs that share a production, lag="wait"
  rounds    coordinated, two consumers
  visits    jobs of one reader that is gone at once

and a worker is killed, drained or left alone. Records of what has ended are kept for seconds only,
so that etcd has to come to rest. What must hold:

  - at most once: nothing twice; no more missing than the service says of lost workers, and nothing
    without any; whoever closes takes nothing along;
  - at least once: nothing missing, whoever is killed; shared: nothing missing, nothing twice,
    without a lost worker;
  - rounds: both consumers have read as many elements, none of them twice;
  - memory, descriptors and threads of every process that lives from the beginning to the end, and
    keys in etcd, stay flat: of the samples after the warm-up, one a round, the median of the last
    third is that of the first third, within the tolerance;
  - no client sees an error in a round without a lost worker, nobody hangs, `millrace state check`
    finds nothing wrong.

It ends with a table, and a non-zero status if something of this broke.
"""

import argparse
import base64
import collections
import faulthandler
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np

import millrace as mr

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "support"))
from cluster import Broken, Cluster, Commanded  # noqa: E402

KEPT_S = 20  # what ended is kept so long
RETENTION = ["--client-timeout=5s", "--job-gc-timeout=5s", "--gc-dynamic"] + [
    f"--{what}-retention={KEPT_S}s" for what in ("finished", "client", "worker", "job", "dataset")
]
WARM_UP = 0.3  # of the samples
SAMPLES_MIN = 9  # after it; with fewer nothing is said of growth
# What may be more in the end, of a value v: allocators, caches and logs breathe; a leak of 1 % a
# round does not fit.
TOLERANCE = {
    "rss_kb": lambda v: v * 0.10 + 16 * 1024,
    "fds": lambda v: 16,
    "threads": lambda v: 8,
    "keys": lambda v: v * 0.2 + 20,
}
READERS = {"most": 3, "cut": 1, "least": 2, "shared": 2, "rounds": 2, "visits": 1}
COUNTED = ["most", "cut", "least"]  # with what the service says was lost or repeated
LEAVES = ["close", "drop"]


def resources(pid):
    with open(f"/proc/{pid}/status") as f:
        fields = dict(line.split(":", 1) for line in f if ":" in line)
    return {
        "rss_kb": int(fields["VmRSS"].split()[0]),
        "fds": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": int(fields["Threads"]),
    }


class Soak:
    def __init__(self, options):
        self.options = options
        self.rng = random.Random(options.seed)
        self.kinds = {k: n for k, n in READERS.items() if k not in options.without}
        self.directory = tempfile.mkdtemp(prefix="millrace-soak-")
        self.cluster = Cluster(
            self.directory,
            self.rng,
            members=1,
            dispatchers=2,
            workers=3,
            worker_timeout="3s",
            options=RETENTION,
        )
        self.readers = {}  # (kind, i): process
        self.files = {}  # the same: what it was given in this round
        self.samples = collections.defaultdict(list)  # (who, what): one a round
        self.starts = {}  # who: how often it was started, when it was sampled first
        self.counts = collections.Counter()
        self.failures = []

    # ---- processes ----

    def _reader(self, who):
        name = "-".join(map(str, who))
        return Commanded(
            name, os.path.join(HERE, "soak_reader.py"), os.path.join(self.directory, f"{name}.log")
        )

    def start(self):
        self.cluster.start(self.options.deadline)
        for kind, n in self.kinds.items():
            for i in range(n):
                self.readers[kind, i] = self._reader((kind, i))

    def close(self):
        for reader in self.readers.values():
            reader.kill()
        self.failures += self.cluster.kill()
        if self.failures or self.options.keep:
            print(f"soak: the logs are in {self.directory}", flush=True)
        else:
            shutil.rmtree(self.directory)

    def _fail(self, text):
        self.failures.append(text)
        print(f"soak: BROKEN in round {self.counts['rounds']}: {text}", flush=True)

    # ---- a round ----

    def _read(self, kind, i, how="end", stop=0, job=None, **options):
        n = self.n // 8 if kind == "rounds" else self.n
        file = os.path.join(self.directory, f"{kind}{i}-{len(self.files)}")
        self.files.setdefault((kind, i), []).append(file)
        open(file, "wb").close()
        share = n / max(1, READERS[kind] if kind in ("most", "least") else 1) / self.batch
        self.readers[kind, i].send(
            do="read",
            service=self.cluster.service,
            how=how,
            stop=stop,
            n=n,
            file=file,
            batch=self.batch if kind in ("most", "least") and self.batch > 1 else 0,
            splits=kind in COUNTED,
            nap=min(0.01, self.options.round / 2 / share),
            job=job or f"{kind}{self.counts['rounds']}",
            options=options,
        )

    def _begin(self):
        rng, number = self.rng, self.counts["rounds"]
        self.n, self.batch = rng.choice([1000, 5000, 20000]), rng.choice([1, 1, 10])
        self.files, self.leaver, self.killed_reader = {}, None, False
        if "most" in self.kinds:
            self.leaver = rng.choice(LEAVES)
            for i in range(2):
                self._read("most", i)
            self._read("most", 2, how=self.leaver, stop=max(1, self.n // self.batch // 10))
        if "cut" in self.kinds:
            self._read("cut", 0, how="interrupt")
        if "least" in self.kinds:
            for i in range(2):
                self._read("least", i, guarantee="at_least_once")
        if "shared" in self.kinds:
            for i in range(2):
                self._read("shared", i, job=f"shared{number}-{i}", sharing="auto", lag="wait")
        if "rounds" in self.kinds:
            for i in range(2):
                self._read("rounds", i, num_consumers=2, consumer_index=i)
        if "visits" in self.kinds:
            self.readers["visits", 0].send(
                do="leave",
                service=self.cluster.service,
                seconds=self.options.round / 2,
                seed=rng.randrange(1 << 30),
            )

    def _disturb(self):
        """Worker 0 lives from the beginning to the end, so that its memory can be compared."""
        rng = self.rng
        time.sleep(rng.uniform(0.1, 0.4) * self.options.round)
        if "least" in self.kinds and rng.random() < 0.3:
            self.counts["readers killed"] += 1
            self.killed_reader = True
            self.readers["least", 1].kill()
            self.readers["least", 1] = self._reader(("least", 1))
            self._read("least", 1, guarantee="at_least_once")
        what = rng.choices(["kill", "drain", "nothing"], [2, 2, 6])[0]
        if what != "nothing" and "workers" not in self.options.without:
            victim = rng.choice(self.cluster.workers[1:])
            self.counts[f"workers {what}ed"] += 1
            victim.kill() if what == "kill" else victim.terminate()
            time.sleep(rng.choice([0, 1, 4]))
            victim.start()
            self.disturbed = True

    def _done(self, who):
        """How far a reader is: one that goes on does not hang."""
        return sum(os.path.getsize(file) for file in self.files.get(who, []))

    def _too_late(self, who, error):
        """Who takes a killed reader's place may find that the others have read all of it."""
        return who == ("least", 1) and self.killed_reader and "had ended its epoch" in error

    def _judge(self, answers):
        for who, a in answers.items():
            a["errors"] = [e for e in a["errors"] if not self._too_late(who, e)]
        errors = [
            f"{'-'.join(map(str, who))}: {e}" for who, a in answers.items() for e in a["errors"]
        ]
        self.counts["client errors"] += len(errors)
        self.counts["interrupts"] += sum(a.get("interrupts", 0) for a in answers.values())
        self.counts["visits"] += answers.get(("visits", 0), {}).get("left", 0)
        if errors and not self.disturbed:
            self._fail(f"{len(errors)} client errors, the first: {errors[0]}")
        got = {
            who: np.concatenate([np.fromfile(f, np.int64) for f in files])
            for who, files in self.files.items()
        }
        self.counts["elements"] += sum(len(g) for g in got.values())
        for kind in COUNTED:
            if kind in self.kinds and not any(
                a["errors"] for who, a in answers.items() if who[0] == kind
            ):
                self._judge_job(
                    kind, np.concatenate([g for who, g in got.items() if who[0] == kind]), answers
                )
        for i in range(2 if "shared" in self.kinds else 0):
            if not self.disturbed:
                self._judge_all(f"shared-{i}", got["shared", i], 0)
        if "rounds" in self.kinds and not errors:
            self._judge_rounds(got["rounds", 0], got["rounds", 1])
        for files in self.files.values():
            for file in files:
                os.unlink(file)

    def _judge_all(self, name, got, missing_may_be, doubled_may_be=0):
        copies = np.bincount(got, minlength=self.n)
        doubled, missing = int((copies[: self.n] > 1).sum()), int((copies[: self.n] == 0).sum())
        self.counts[f"{name.split('-')[0]}: missing"] += missing
        self.counts[f"{name.split('-')[0]}: doubled"] += doubled
        if len(copies) > self.n or missing > missing_may_be or doubled > doubled_may_be:
            self._fail(
                f"{name}: of {self.n} elements {missing} are missing ({missing_may_be} may be) and"
                f" {doubled} doubled ({doubled_may_be} may be)"
            )

    def _judge_job(self, kind, got, answers):
        """
        By what its readers were told: the dispatcher's record of it may have gone before the last
        reader of another job ended.
        """
        told = [a["losses"] for who, a in answers.items() if who[0] == kind and a["ended"]]
        if any(other != told[0] for other in told):
            self._fail(f"{kind}: its readers were told of different ends: {told}")
        splits = next(
            (a["splits"] for who, a in answers.items() if who[0] == kind and a["splits"]), None
        )
        per_split = (
            -(-self.n // splits) if splits else self.n
        )  # unknown: nobody has seen the record in time
        lost, repeated = told[0]["lost_splits"], told[0]["repeated_splits"]
        if kind == "least":
            # What a killed reader had read is read again: it is not doubled for anybody who lives.
            self._judge_all(kind, got, 0, self.n if self.killed_reader else repeated * per_split)
        else:
            if lost and not self.disturbed:
                self._fail(
                    f"{kind}: {lost} splits are lost, and no worker was (leaver: {self.leaver})"
                )
            self._judge_all(kind, got, lost * per_split)

    def _judge_rounds(self, one, other):
        both = np.concatenate([one, other])
        self.counts["rounds: elements"] += len(both)
        if len(one) != len(other) or len(np.unique(both)) != len(both):
            self._fail(
                f"rounds: the consumers read {len(one)} and {len(other)} elements,"
                f" {len(np.unique(both))} different ones"
            )

    def round(self):
        self.disturbed = False
        self._begin()
        self._disturb()
        answers = {
            who: reader.take(
                time.monotonic() + self.options.deadline, lambda who=who: self._done(who)
            )
            for who, reader in self.readers.items()
        }
        self.cluster.wait_whole(time.monotonic() + self.options.deadline)
        self.cluster.check()
        self._judge(answers)
        self._sample()
        self.counts["rounds"] += 1

    # ---- growth ----

    def _keys(self):
        start = b"/millrace/" + self.cluster.name.encode() + b"/"
        body = {
            "key": base64.b64encode(start).decode(),
            "range_end": base64.b64encode(start[:-1] + b"0").decode(),
            "count_only": True,
        }
        request = urllib.request.Request(
            f"http://{self.cluster.members[0].address}/v3/kv/range", json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(json.load(answer).get("count", 0))

    def _sample(self):
        """Everybody is idle now. Who was replaced meanwhile is no more compared."""
        for server in self.cluster.dispatchers + self.cluster.workers:
            if self.starts.setdefault(server.name, server.starts) == server.starts:
                for what, value in resources(server.pid).items():
                    self.samples[server.name, what].append(value)
        for who, reader in self.readers.items():
            if who != ("least", 1):
                for what, value in resources(reader.pid).items():
                    self.samples["reader " + "-".join(map(str, who)), what].append(value)
        self.samples["etcd", "keys"].append(self._keys())

    def judge_growth(self):
        print(
            f"soak: {'':24} {'':8} {'first':>9} {'last':>9} {'most':>9}   may grow by", flush=True
        )
        judged = False
        for (who, what), values in self.samples.items():
            if len(values) < self.counts["rounds"]:
                continue  # it was replaced
            settled = values[int(len(values) * WARM_UP) :]
            third = max(1, len(settled) // 3)
            first, last = statistics.median(settled[:third]), statistics.median(settled[-third:])
            may = TOLERANCE[what](first)
            grows = len(settled) >= SAMPLES_MIN and last > first + may
            judged = judged or len(settled) >= SAMPLES_MIN
            print(
                f"soak: {who:24} {what:8} {first:9.0f} {last:9.0f} {max(values):9.0f}  "
                f" {may:.0f}{'  GROWS' if grows else ''}"
            )
            if grows:
                self._fail(f"{who}: {what} grows from {first:.0f} to {last:.0f}")
        if not judged:
            print(
                (
                    f"soak: too few rounds to say whether something grows: {SAMPLES_MIN} are needed"
                    " after the warm-up"
                ),
                flush=True,
            )

    def run(self):
        over = time.monotonic() + self.options.minutes * 60
        try:
            self.start()
            while time.monotonic() < over and not (self.failures and self.options.first):
                self.round()
            if wrong := self.cluster.check_state():
                self._fail(f"millrace state check: {wrong}")
        except (Broken, subprocess.SubprocessError, mr.errors.MillraceError) as e:
            self._fail(f"{type(e).__name__}: {e}")
        self.judge_growth()
        print(
            f"soak: {'BROKEN' if self.failures else 'ok'}: seed {self.options.seed}; "
            + ", ".join(f"{n} {what}" for what, n in self.counts.items()),
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument(
        "--round", type=float, default=5, help="seconds that a round's readers take, about (5)"
    )
    parser.add_argument(
        "--deadline",
        type=float,
        default=120,
        help="seconds without progress after which a reader hangs (120)",
    )
    parser.add_argument(
        "--without",
        default="",
        type=lambda s: s.split(","),
        help="what to leave out: workers, " + ", ".join(READERS),
    )
    parser.add_argument(
        "--first", action="store_true", help="end after the first round that breaks something"
    )
    parser.add_argument("--keep", action="store_true", help="keep the logs in any case")
    options = parser.parse_args()
    faulthandler.enable()
    print(f"soak: seed {options.seed}", flush=True)
    soak = Soak(options)
    try:
        soak.run()
    finally:
        soak.close()
    return 1 if soak.failures else 0


if __name__ == "__main__":
    sys.exit(main())
