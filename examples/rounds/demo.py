"""
Four replicas of a synchronous training read text in coordinated rounds, while a worker and the
leading dispatcher are killed.

    make demo-rounds

Says what it does as it goes; the last line is "demo-rounds: ok", or says what went wrong and the
exit status is 1.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import queue
import signal
import sys
import time
from typing import Any, Callable

import corpus
from consumer import BATCH
from cost import Cost

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
from cluster import Cluster  # noqa: E402
from stage import (  # noqa: E402
    Child,
    Events,
    Failed,
    check_plot,
    need,
    need_gone,
    perform,
    plot_option,
    say,
)

REPLICAS = 4
WORKERS = 3
STEPS = 600
STEP_MS = 15
KILL_WORKER, KILL_LEADER = 150, 300  # at these steps
LIMIT_S = 110


# ---- replicas ----


class Replica(Child):
    """A process that runs consumer.py."""

    def __init__(self, index: int, args: list[str], events: Events) -> None:
        self.index = index
        self.steps: list[dict[str, Any]] = []
        self.at: list[float] = []  # the time of each
        super().__init__(
            [str(HERE / "consumer.py"), "--index", str(index), "--of", str(REPLICAS), *args], events
        )


class Run:
    """All replicas, from their start to their end."""

    def __init__(self, cluster: Cluster, directory: pathlib.Path, coordinated: bool) -> None:
        self.cluster = cluster
        self.to_kill: list[tuple[int, str, Callable[[], str]]] = []
        if coordinated:
            self.to_kill = [
                (KILL_WORKER, "a worker", self._kill_worker),
                (KILL_LEADER, "the leading dispatcher", self._kill_leader),
            ]
        self.killed: list[tuple[str, float]] = []  # (what, when)
        self.events: Events = queue.Queue()
        args = ["--service", cluster.service, "--directory", str(directory), "--steps", str(STEPS)]
        args += ["--coordinated", "--step-ms", str(STEP_MS)] if coordinated else []
        self.replicas = [Replica(i, args, self.events) for i in range(REPLICAS)]

    def run(self) -> Run:
        done = running = len(self.replicas)
        try:
            while running > 0:
                replica, said = self.events.get()
                if said is None:
                    running -= 1
                    replica.check_end(f"replica {replica.index}")
                elif said["event"] == "step":
                    replica.steps.append(said)
                    replica.at.append(said["at"])  # one clock for all of this machine
                    self._consider_kill()
                else:
                    done -= 1
                    for r in self.replicas if done == 0 else []:
                        r.close_input()
        finally:
            for r in self.replicas:
                r.end()
        return self

    def _consider_kill(self) -> None:
        if self.to_kill and min(len(r.steps) for r in self.replicas) >= self.to_kill[0][0]:
            step, what, kill = self.to_kill.pop(0)
            say(f"step {step}: SIGKILL to {kill()}")
            self.killed.append((what, time.monotonic()))

    def _kill_worker(self) -> str:
        worker = next(s for s in self.cluster.servers if s["kind"] == "worker")
        os.kill(worker["pid"], signal.SIGKILL)
        return f"the worker at {worker['address']}, process {worker['pid']}"

    def _kill_leader(self) -> str:
        leader = self.cluster.status()["leader"]
        return f"the leading dispatcher {leader}, process {self.cluster.kill_dispatcher(leader)}"

    def steps(self) -> list[tuple[dict[str, Any], ...]]:
        """What all replicas had in each step."""
        return list(zip(*(r.steps for r in self.replicas)))

    def pauses(self) -> list[float]:
        """The longest time between two steps of a replica after each kill, in seconds."""
        found = []
        for _, at in self.killed:
            gaps = [
                b - a
                for r in self.replicas
                for a, b in zip(r.at, r.at[1:])
                if b > at and a < at + 15
            ]
            found.append(max(gaps))
        return found


# ---- judgement ----


def table(with_: Cost, without: Cost) -> None:
    print(f"\n    {'':44}{'coordinated':>14}{'uncoordinated':>16}{'saved':>9}")
    print(
        f"    {'steps whose replicas all had one bucket':44}{with_.buckets:>14.0%}"
        f"{without.buckets:>16.0%}"
    )
    rows = [
        ("padding, share of what is computed", ".0%", "padding"),
        ("step time for each word (1: no padding)", ".2f", "per_word"),
        ("waiting for the longest replica, same unit", ".2f", "waiting"),
    ]
    for name, form, field in rows:
        a, b = getattr(with_, field), getattr(without, field)
        print(f"    {name:44}{a:>14{form}}{b:>16{form}}{1 - a / b:>9.0%}")
    print(flush=True)


def draw(path: str, run: Run, with_: Cost, without: Cost) -> None:
    from plot import Figure, bars, label, legend, mark  # it needs matplotlib

    figure = Figure(f"{REPLICAS} replicas read text in coordinated rounds", [3, 1.2, 1.2])
    steps, padding, waiting = figure.panels
    began = min(r.at[0] for r in run.replicas)
    for r in run.replicas:
        steps.plot([at - began for at in r.at], range(1, len(r.at) + 1), label=f"replica {r.index}")
    for (what, at), pause in zip(run.killed, run.pauses()):
        mark(
            steps,
            at - began,
            f"SIGKILL to {what}\n(longest pause {1000 * pause:.0f} ms)",
            height=0.14 if what == "a worker" else 0.32,
        )
    label(
        steps,
        "All stay in the same step, through both kills",
        "time since the first step [s]",
        "steps done",
    )
    legend(steps)
    costs = {"coordinated": with_, "uncoordinated": without}
    bars(padding, {n: 100 * c.padding for n, c in costs.items()}, "{:.0f} %")
    label(padding, "Padding", "", "share of what is computed [%]")
    bars(waiting, {n: 100 * c.waiting for n, c in costs.items()}, "{:.0f} %")
    label(waiting, "Waiting for others", "", "time waited [% of computing the words]")
    figure.save(path)
    say(f"the plot is {path}")


def check(run: Run, cost: Cost) -> None:
    need(len(run.killed) == 2, "not both were killed")
    need(len(run.steps()) == STEPS, f"{len(run.steps())} steps were made, not {STEPS}")
    need(
        not cost.mixed,
        f"the replicas had different buckets in {len(cost.mixed)} steps, first in step "
        f"{cost.mixed[:1]}",
    )
    say(
        f"in each of {STEPS} steps all {REPLICAS} replicas had batches of one bucket; longest "
        f"pause of a replica after the worker was killed {run.pauses()[0]:.2f} s, after the "
        f"dispatcher {run.pauses()[1]:.2f} s"
    )


def demo(directory: pathlib.Path, plot: str | None) -> None:
    lines, words = corpus.write(directory)
    say(f"{lines} paragraphs of the licences in {corpus.SOURCE}, {words} words")
    with Cluster(directory, "rounds", dispatchers=3, workers=WORKERS) as cluster:
        say(
            f"etcd {cluster.etcd}, three dispatchers and {WORKERS} workers; {REPLICAS} replicas, "
            f"{STEPS} steps of {BATCH} lines each"
        )
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
    if plot is not None:
        draw(plot, run, with_, without)
    need(
        with_.waiting < without.waiting / 2,
        "coordination has not halved the waiting for the longest replica",
    )
    need(
        with_.per_word - 1 < (without.per_word - 1) / 2,
        "coordination has not halved the time that goes into padding",
    )
    need_gone(directory, pids)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    plot_option(parser)
    args = parser.parse_args()
    check_plot(args.plot)
    return perform("demo-rounds", lambda directory: demo(directory, args.plot), LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
