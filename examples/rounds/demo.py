"""
Four replicas of a synchronous training read text in coordinated rounds, while a worker and the leading dispatcher are killed.

    make demo-rounds

Says what it does as it goes; the last line is "demo-rounds: ok", or says what went wrong and the exit status is 1.
"""

import argparse
import os
import pathlib
import queue
import signal
import sys
import time

import corpus
from consumer import BATCH
from cost import Cost

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
from cluster import Cluster  # noqa: E402
from stage import Child, Failed, need, need_gone, perform, say  # noqa: E402

REPLICAS = 4
WORKERS = 3
STEPS = 600
STEP_MS = 15
KILL_WORKER, KILL_LEADER = 150, 300  # at these steps
LIMIT_S = 110


# ---- replicas ----


class Replica(Child):
    """A process that runs consumer.py."""

    def __init__(self, index, args, events):
        self.index, self.steps, self.at = index, [], []
        super().__init__([str(HERE / "consumer.py"), "--index", str(index), "--of", str(REPLICAS), *args], events)


class Run:
    """All replicas, from their start to their end."""

    def __init__(self, cluster, directory, coordinated):
        self.cluster = cluster
        self.to_kill = [(KILL_WORKER, self._kill_worker), (KILL_LEADER, self._kill_leader)] if coordinated else []
        self.killed = []  # (what, step, seconds until the next step of everybody)
        self.events = queue.Queue()
        args = ["--service", cluster.service, "--directory", str(directory), "--steps", str(STEPS)]
        args += ["--coordinated", "--step-ms", str(STEP_MS)] if coordinated else []
        self.replicas = [Replica(i, args, self.events) for i in range(REPLICAS)]

    def run(self):
        done = running = len(self.replicas)
        try:
            while running > 0:
                replica, said = self.events.get()
                if said is None:
                    running -= 1
                    replica.check_end(f"replica {replica.index}")
                elif said["event"] == "step":
                    replica.steps.append(said)
                    replica.at.append(time.monotonic())
                    self._consider_kill()
                else:
                    done -= 1
                    for r in self.replicas if done == 0 else []:
                        r.close_input()
        finally:
            for r in self.replicas:
                r.end()
        return self

    def _consider_kill(self):
        if self.to_kill and min(len(r.steps) for r in self.replicas) >= self.to_kill[0][0]:
            step, kill = self.to_kill.pop(0)
            say(f"step {step}: SIGKILL to {kill()}")
            self.killed.append((step, time.monotonic()))

    def _kill_worker(self):
        worker = next(s for s in self.cluster.servers if s["kind"] == "worker")
        os.kill(worker["pid"], signal.SIGKILL)
        return f"the worker at {worker['address']}, process {worker['pid']}"

    def _kill_leader(self):
        leader = self.cluster.status()["leader"]
        return f"the leading dispatcher {leader}, process {self.cluster.kill_dispatcher(leader)}"

    def steps(self):
        """What all replicas had in each step."""
        return list(zip(*(r.steps for r in self.replicas)))

    def pauses(self):
        """The longest time between two steps of a replica after each kill, in seconds."""
        found = []
        for _, at in self.killed:
            gaps = [b - a for r in self.replicas for a, b in zip(r.at, r.at[1:]) if b > at and a < at + 15]
            found.append(max(gaps))
        return found


# ---- judgement ----


def table(with_, without):
    print(f"\n    {'':44}{'coordinated':>14}{'uncoordinated':>16}{'saved':>9}")
    print(f"    {'steps whose replicas all had one bucket':44}{with_.buckets:>14.0%}{without.buckets:>16.0%}")
    rows = [("padding, share of what is computed", ".0%", "padding"), ("step time for each word (1: no padding)", ".2f", "per_word"),
            ("waiting for the longest replica, same unit", ".2f", "waiting")]
    for name, form, field in rows:
        a, b = getattr(with_, field), getattr(without, field)
        print(f"    {name:44}{a:>14{form}}{b:>16{form}}{1 - a / b:>9.0%}")
    print(flush=True)


def draw(path, with_, without):
    try:
        from plot import Plot
    except ImportError:
        say("no plot: this Python has no Pillow")
        return
    plot = Plot()
    costs = {"coordinated": with_, "uncoordinated": without}
    plot.bars((80, 60, 380, 420), "padding, % of what is computed", {n: 100 * c.padding for n, c in costs.items()})
    plot.bars((440, 60, 740, 420), "step time for 100 words (100: no padding)", {n: 100 * c.per_word for n, c in costs.items()})
    plot.bars((800, 60, 1080, 420), "waiting for the longest replica, for 100 words", {n: 100 * c.waiting for n, c in costs.items()})
    plot.save(path)
    say(f"the plot is {path}")


def check(run, cost):
    need(len(run.killed) == 2, "not both were killed")
    need(len(run.steps()) == STEPS, f"{len(run.steps())} steps were made, not {STEPS}")
    need(not cost.mixed, f"the replicas had different buckets in {len(cost.mixed)} steps, first in step {cost.mixed[:1]}")
    say(f"in each of {STEPS} steps all {REPLICAS} replicas had batches of one bucket; longest pause of a replica after the worker "
        f"was killed {run.pauses()[0]:.2f} s, after the dispatcher {run.pauses()[1]:.2f} s")


def demo(directory, plot):
    lines, words = corpus.write(directory)
    say(f"{lines} paragraphs of the licences in {corpus.SOURCE}, {words} words")
    with Cluster(directory, "rounds", dispatchers=3, workers=WORKERS) as cluster:
        say(f"etcd {cluster.etcd}, three dispatchers and {WORKERS} workers; {REPLICAS} replicas, {STEPS} steps of {BATCH} lines each")
        try:
            say("coordinated: consumer i takes the i-th of four batches of one bucket")
            run = Run(cluster, directory, True).run()
            with_ = Cost(run.steps())
            check(run, with_)
            say("uncoordinated: each takes what comes")
            without = Cost(Run(cluster, directory, False).run().steps())
        except Failed:
            print(cluster.log_tail(), file=sys.stderr)
            raise
        pids = [server["pid"] for server in cluster.servers]
    table(with_, without)
    draw(plot, with_, without)
    need(with_.waiting < without.waiting / 2, "coordination has not halved the waiting for the longest replica")
    need(with_.per_word - 1 < (without.per_word - 1) / 2, "coordination has not halved the time that goes into padding")
    need_gone(directory, pids)


def main():
    parser = argparse.ArgumentParser(description=__doc__.strip().splitlines()[0])
    parser.add_argument("--plot", default="demo-rounds.png", help="where to draw it")
    args = parser.parse_args()

    return perform("demo-rounds", lambda directory: demo(directory, args.plot), LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
