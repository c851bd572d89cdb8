"""
Four trainers with different learning rates share one image pipeline that is heavy on purpose; one
starts late, one is slow.

    make demo-sharing

Says what it does as it goes; the last line is "demo-sharing: ok", or says what went wrong and the
exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import queue
import sys
import time
from typing import Any, TypeVar

import numpy as np

import millrace as mr

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "digits"))
sys.path.insert(0, str(HERE.parent / "common"))
from data import load_digits, write_shards  # noqa: E402
from stage import (  # noqa: E402
    Child,
    Events,
    check_plot,
    need,
    need_gone,
    perform,
    plot_option,
    say,
)

SHARDS = 64
EPOCHS = 4
WORKERS = 2
# Of a worker; a window has half of it, less what RocksDB needs: 60 % of what it makes.
CACHE_BYTES = 40 << 20
RATES = {"A": 0.05, "B": 0.1, "late": 0.03, "slow": 0.02}
LATE = 0.2  # it starts when A has had this share
SLOW = 0.15  # it takes a step when it is behind this share of what A has had, until A is through
ACCURACY = 0.80  # of those that had all images
LIMIT_S = 170

Server = TypeVar("Server", mr.service.DispatchServer, mr.service.WorkerServer)


# ---- the service ----


class Service:
    """
    A dispatcher with an etcd of its own and two workers, with their files in @home. A context
    manager.
    """

    def __init__(self, home: pathlib.Path) -> None:
        self._home = home
        self.servers: list[Any] = []

    def __enter__(self) -> Service:
        try:
            dispatcher = self._add(
                mr.service.DispatchServer(
                    mr.service.DispatcherConfig(work_dir=str(self._home / "etcd"))
                )
            )
            self.target = dispatcher.target
            self.workers = [
                self._add(
                    mr.service.WorkerServer(
                        mr.service.WorkerConfig(
                            dispatcher.address,
                            heartbeat_interval_ms=100,
                            cache_dir=str(self._home / f"cache-{i}"),
                            cross_trainer_cache_size_bytes=CACHE_BYTES,
                        )
                    )
                )
                for i in range(WORKERS)
            ]
        except BaseException:
            self.__exit__()
            raise
        return self

    def _add(self, server: Server) -> Server:
        self.servers.append(server)
        return server

    def __exit__(self, *exc: object) -> None:
        for server in reversed(self.servers):
            server.stop()

    def productions(self) -> list[dict[str, Any]]:
        status = json.loads(mr.service.status(self.target))
        found: list[dict[str, Any]] = status.get("productions", [])
        return found

    def cpu_s(self) -> float:
        """CPU time that the workers have used."""
        return sum(cpu_s(w.pid) for w in self.workers)


def cpu_s(pid: int) -> float:
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def produced(productions: list[dict[str, Any]]) -> int:
    return sum(int(t.get("produced", 0)) for p in productions for t in p.get("tasks", []))


# ---- trainers ----


class Trainer(Child):
    """A process that runs search.py."""

    def __init__(self, name: str, args: list[str], events: Events) -> None:
        self.name = name
        self.points: list[tuple[float, int]] = []  # (time, images)
        self.done: dict[str, Any] = {}
        self.steps_allowed = 0
        super().__init__(
            [str(HERE / "search.py"), "--name", name, "--rate", str(RATES[name]), *args], events
        )

    @property
    def images(self) -> int:
        return self.points[-1][1] if self.points else 0

    def go(self) -> None:
        self.points.append((time.monotonic(), 0))
        self.write("\n")

    def go_on(self, steps: int) -> None:
        """It may have made so many steps."""
        if steps > self.steps_allowed:
            self.write("\n" * (steps - self.steps_allowed))
            self.steps_allowed = steps


class Search:
    """Four trainers, from their start to their end."""

    def __init__(self, service: Service, args: list[str], share: bool, n: int) -> None:
        self.service, self.n, self.share = service, n, share
        self.events: Events = queue.Queue()
        self.trainers: dict[str, Trainer] = {}
        for name in RATES:
            lines = "steps" if share and name == "slow" else "start"
            more = ["--share"] if share else []
            self.trainers[name] = Trainer(name, [*args, "--lines", lines, *more], self.events)
        self.began = 0.0
        self.produced: list[tuple[float, int]] = []  # (time, images)
        self.cpu_s = self.seconds = 0.0

    def run(self) -> None:
        try:
            self._loop()
        finally:
            for t in self.trainers.values():
                t.end()

    def _loop(self) -> None:
        ready, running = 0, len(self.trainers)
        while running > 0:
            trainer, said = self.events.get()
            if said is None:
                running -= 1
                trainer.check_end(f"trainer {trainer.name}")
            elif said["event"] == "ready":
                ready += 1
                if ready == len(self.trainers):
                    self._start()
            elif said["event"] == "step":
                trainer.points.append((time.monotonic(), said["images"]))
                self._pace(trainer)
            else:
                trainer.done = said
                trainer.points.append((time.monotonic(), len(said["ids"])))
                self._tell_end(trainer)
        self.seconds = time.monotonic() - self.began

    def _start(self) -> None:
        self.began = time.monotonic()
        for t in self.trainers.values():
            if not (self.share and t.name == "late"):
                t.go()

    def _pace(self, trainer: Trainer) -> None:
        """The late one starts, and the slow one goes on, by how far the first one is."""
        if not self.share or trainer.name != "A":
            return
        self.produced.append((time.monotonic(), produced(self.service.productions())))
        late, slow = self.trainers["late"], self.trainers["slow"]
        if not late.points and trainer.images >= LATE * self.n:
            say(f"trainer A has had {trainer.images} of {self.n} images: the late trainer starts")
            late.go()
        slow.go_on(int(SLOW * trainer.images / 32))

    def _tell_end(self, trainer: Trainer) -> None:
        missed = trainer.done["skipped"]
        say(
            f"trainer {trainer.name}: {trainer.images} images"
            + (f", {missed} missed" if missed else "")
            + f", test accuracy {trainer.done['accuracy']:.3f}"
        )
        if self.share and trainer.name == "A":
            self.trainers["slow"].close_input()


def search(service: Service, args: list[str], share: bool, n: int) -> Search:
    """Run the four trainers; how it went, and the CPU time that the workers took for it."""
    before = service.cpu_s()
    run = Search(service, args, share, n)
    run.run()
    if share:
        run.produced.append((time.monotonic(), produced(service.productions())))
    run.cpu_s = service.cpu_s() - before
    return run


# ---- judgement ----


def check_shared(run: Search, service: Service) -> None:
    productions = service.productions()
    users = [sorted(u["job"] for u in p["users"]) for p in productions]
    need(
        users == [sorted(f"search+trainer-{name}" for name in RATES)],
        f"there is not one production for all, but {users}",
    )
    deadline = time.monotonic() + 10
    while produced(service.productions()) < run.n and time.monotonic() < deadline:
        time.sleep(0.05)  # the workers' next heartbeats
    made = produced(service.productions())
    need(made == run.n, f"{made} images were produced, there are {run.n}")
    for t in run.trainers.values():
        ids = t.done["ids"]
        need(len(set(ids)) == len(ids), f"trainer {t.name} got images twice")
        need(
            len(ids) + t.done["skipped"] == run.n,
            f"trainer {t.name}: {len(ids)} images and {t.done['skipped']} missed are not {run.n}",
        )
        need(
            t.name == "slow" or t.done["skipped"] == 0,
            f"trainer {t.name} missed {t.done['skipped']} images",
        )
        need(
            t.done["skipped"] > 0 or t.done["accuracy"] >= ACCURACY,
            f"trainer {t.name}: accuracy {t.done['accuracy']:.3f} is below {ACCURACY}",
        )
    need(
        run.trainers["slow"].done["skipped"] > 0,
        "the slow trainer missed nothing: the window was not too small for it",
    )


def check_alone(run: Search) -> None:
    for t in run.trainers.values():
        got = len(set(t.done["ids"]))
        need(got == run.n, f"trainer {t.name} alone got {got} of {run.n} images")


def table(shared: Search, alone: Search) -> None:
    print(f"\n    {'trainer':10}{'rate':>8}{'images':>10}{'missed':>10}{'accuracy':>10}")
    for t in shared.trainers.values():
        print(
            f"    {t.name:10}{RATES[t.name]:8}{t.images:10,}{t.done['skipped']:10,}"
            f"{t.done['accuracy']:10.3f}"
        )
    delivered = [sum(t.images for t in run.trainers.values()) for run in (shared, alone)]
    print(f"\n    {'':24}{'shared':>12}{'four alone':>12}")
    print(f"    {'images produced':24}{shared.n:12,}{4 * alone.n:12,}")
    print(f"    {'images delivered':24}{delivered[0]:12,}{delivered[1]:12,}")
    missed = sum(t.done["skipped"] for t in shared.trainers.values())
    print(f"    {'images missed':24}{missed:12,}{0:12,}")
    print(f"    {'CPU s of the workers':24}{shared.cpu_s:12.1f}{alone.cpu_s:12.1f}")
    print(f"    {'seconds':24}{shared.seconds:12.1f}{alone.seconds:12.1f}\n", flush=True)


def draw(path: str, shared: Search, alone: Search) -> None:
    from plot import MARK, Figure, bars, label, legend, mark  # it needs matplotlib

    figure = Figure("Four trainers share one costly production of images", [3, 1])
    images, cpu = figure.panels

    def line(points: list[tuple[float, int]], text: str, **style: Any) -> None:
        images.plot(
            [at - shared.began for at, _ in points], [n for _, n in points], label=text, **style
        )

    line(shared.produced, "made by the workers, once for all", color=MARK, linewidth=12, alpha=0.3)
    # They lie on each other: the first ones are broader.
    for t, width in zip(shared.trainers.values(), (7, 4.5, 2.5, 2.5)):
        missed = f", {t.done['skipped']:,} missed" if t.done["skipped"] else ""
        line(t.points, f"trainer {t.name}, rate {RATES[t.name]}{missed}", linewidth=width)
    late, first = shared.trainers["late"], shared.trainers["A"]
    mark(images, late.points[0][0] - shared.began, "the late trainer starts", height=0.62)
    mark(
        images,
        first.points[-1][0] - shared.began,
        "A is done: the slow one hurries",
        height=0.3,
        left=True,
    )
    label(images, "In the hands of each trainer", "time since the start [s]", "images")
    legend(images)
    bars(cpu, {"shared": shared.cpu_s, "four alone": alone.cpu_s}, "{:.0f} s")
    label(cpu, "What the workers computed", "", "CPU time [s]")
    figure.save(path)
    say(f"the plot is {path}")


def demo(directory: pathlib.Path, plot: str | None) -> None:
    images, labels = load_digits()
    order = np.random.default_rng(1).permutation(len(labels))
    test, rest = order[:360], order[360:]
    n = EPOCHS * len(rest)
    say(
        f"{len(rest)} handwritten digits (UCI, CC BY 4.0), {EPOCHS} epochs of moved, enlarged and "
        f"smoothed pictures: {n} images"
    )
    write_shards(directory, images[rest], labels[rest], np.arange(len(rest)), SHARDS)
    np.savez(
        directory / "test.npz", images=(images[test] / 16).astype(np.float32), labels=labels[test]
    )
    with Service(directory) as service:
        say(
            f"a dispatcher at {service.target} and {WORKERS} workers, each with "
            f"{CACHE_BYTES >> 20} MiB of disk for windows"
        )
        args = [
            "--service",
            service.target,
            "--shards",
            str(directory / "*.tfrecord"),
            "--test",
            str(directory / "test.npz"),
            "--epochs",
            str(EPOCHS),
        ]
        say(
            "four trainers share one production; one of them comes late, one is five times slower "
            "than the others"
        )
        shared = search(service, args, True, n)
        check_shared(shared, service)
        say("the same four, each with a production of its own, all as fast as they can")
        alone = search(service, args, False, n)
        check_alone(alone)
        pids = [server.pid for server in service.servers]
    table(shared, alone)
    if plot is not None:
        draw(plot, shared, alone)
    need(alone.cpu_s > 2 * shared.cpu_s, "sharing has not halved the workers' CPU time")
    need_gone(directory, pids)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    plot_option(parser)
    args = parser.parse_args()
    check_plot(args.plot)
    return perform("demo-sharing", lambda directory: demo(directory, args.plot), LIMIT_S)


if __name__ == "__main__":
    sys.exit(main())
