"""
Two trainers learn handwritten digits from one shared job while the leading dispatcher is killed.

    make demo

Says what it does as it goes; the last line is "demo: ok", or says what went wrong and the exit
status is 1.
"""

from __future__ import annotations

import pathlib
import queue
import sys
from typing import Any

import numpy as np

from data import load_digits, write_shards

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))
from cluster import Cluster  # noqa: E402
from stage import Child, Events, Failed, need, need_gone, perform, say  # noqa: E402

SHARDS = 128
EPOCHS = 8
TRAINERS = ("A", "B")
KILL_RANGE = (0.30, 0.70)  # of an epoch's images, in one trainer's hands
ACCURACY = 0.90
LIMIT_S = 110


# ---- trainers ----


class Trainer(Child):
    """A process that runs train.py."""

    def __init__(self, name: str, args: list[str], events: Events) -> None:
        self.name = name
        super().__init__([str(HERE / "train.py"), "--name", name, "--wait", *args], events)


class Run:
    """What happened so far, as told by the trainers."""

    def __init__(self, cluster: Cluster, n_train: int) -> None:
        self.cluster = cluster
        self.n_train = n_train
        # Epoch -> trainer name -> ids, once it has ended there.
        self.epochs: dict[int, dict[str, list[int]]] = {}
        self.accuracy: dict[str, float] = {}
        self.killed: tuple[int, str, int] | None = None  # (epoch, trainer name, images it had)
        # Trainers that got a batch of the same epoch after the kill.
        self.after_kill: set[str] = set()

    def on_step(self, name: str, said: dict[str, Any]) -> None:
        epoch, images = said["epoch"], said["images"]
        if images - said["batch"] < self.n_train / 4 <= images:
            say(f"trainer {name}: epoch {epoch}, {images} images so far, loss {said['loss']:.3f}")
        if self.killed is None:
            self.consider_kill(name, epoch, images)
        elif epoch == self.killed[0]:
            self.after_kill.add(name)

    def consider_kill(self, name: str, epoch: int, images: int) -> None:
        """
        Kill the leader if this reader is in the middle of its epoch and splits are still to be
        handed out.
        """
        share = images / self.n_train
        if epoch == 0 or not KILL_RANGE[0] <= share <= KILL_RANGE[1]:
            return
        status = self.cluster.status()
        outstanding = outstanding_splits(status)
        if outstanding == 0:
            return  # The next epoch will do.
        leader = status["leader"]
        pid = self.cluster.kill_dispatcher(leader)
        self.killed = (epoch, name, images)
        say(
            f"trainer {name} has {images} of the {self.n_train} images of epoch {epoch} "
            f"({share:.0%}), {outstanding} of {SHARDS} splits are outstanding: SIGKILL to the "
            f"leading dispatcher {leader}, process {pid}"
        )

    def on_epoch(self, name: str, said: dict[str, Any]) -> None:
        epoch = said["epoch"]
        self.epochs.setdefault(epoch, {})[name] = said["ids"]
        loss = "-" if said["loss"] is None else f"{said['loss']:.3f}"
        say(
            f"trainer {name}: epoch {epoch} done, {len(said['ids'])} images, loss {loss}, test "
            f"accuracy {said['accuracy']:.3f}"
        )
        if len(self.epochs[epoch]) == len(TRAINERS):
            self.check_epoch(epoch)

    def check_epoch(self, epoch: int) -> None:
        """Between the trainers every image was visited exactly once."""
        visited = sorted(i for ids in self.epochs[epoch].values() for i in ids)
        missing = set(range(self.n_train)) - set(visited)
        need(
            not missing,
            f"epoch {epoch}: {len(missing)} images were not visited, for example "
            f"{sorted(missing)[:5]}",
        )
        twice = len(visited) - self.n_train
        need(twice == 0, f"epoch {epoch}: {twice} images were visited twice")
        say(f"epoch {epoch}: each of the {self.n_train} images was visited exactly once")


def outstanding_splits(status: dict[str, Any]) -> int:
    """Splits of the running iteration that no worker has been given yet."""
    count = 0
    for job in status.get("jobs", []):
        for iteration in job.get("iterations", []):
            if not iteration.get("finished"):
                for provider in iteration.get("providers", []):
                    count += int(provider.get("splits", 0)) - int(provider.get("next", 0))
    return count


def train(cluster: Cluster, directory: pathlib.Path, n_train: int) -> Run:
    """Run both trainers to their end; what happened."""
    events: Events = queue.Queue()
    args = [
        "--service",
        cluster.service,
        "--shards",
        str(directory / "*.tfrecord"),
        "--test",
        str(directory / "test.npz"),
        "--epochs",
        str(EPOCHS),
    ]
    trainers = [Trainer(name, args, events) for name in TRAINERS]
    run = Run(cluster, n_train)
    ready = running = 0
    try:
        running = len(trainers)
        while running > 0:
            trainer, said = events.get()
            if said is None:
                running -= 1
                trainer.check_end(f"trainer {trainer.name}")
            elif said["event"] == "ready":
                ready += 1
                if ready == len(trainers):
                    say("both trainers are ready: go")
                    for t in trainers:
                        t.write("\n")
            elif said["event"] == "step":
                run.on_step(trainer.name, said)
            elif said["event"] == "epoch":
                run.on_epoch(trainer.name, said)
            else:
                run.accuracy[trainer.name] = said["accuracy"]
    finally:
        for t in trainers:
            t.end()
    return run


# ---- judgement ----


def check(run: Run) -> None:
    if run.killed is None:
        raise Failed(
            "no epoch had a reader in its middle while splits were outstanding: no leader "
            "was killed"
        )
    epoch = run.killed[0]
    need(run.after_kill, f"nobody received a batch of epoch {epoch} after the leader was killed")
    say(
        f"training went on in epoch {epoch}: after the kill, batches came to trainer "
        f"{' and '.join(sorted(run.after_kill))}"
    )
    need(
        sorted(run.epochs) == list(range(EPOCHS))
        and all(len(e) == len(TRAINERS) for e in run.epochs.values()),
        f"not every trainer ended all {EPOCHS} epochs",
    )
    for name in TRAINERS:
        got = sum(len(run.epochs[e][name]) for e in range(EPOCHS))
        share = got / (EPOCHS * run.n_train)
        say(
            f"trainer {name}: {got} images in all ({share:.0%}), test accuracy "
            f"{run.accuracy[name]:.3f}"
        )
        need(
            share >= 0.25, f"trainer {name} received {share:.0%} of the images, less than a quarter"
        )
        need(
            run.accuracy[name] >= ACCURACY,
            f"trainer {name}: accuracy {run.accuracy[name]:.3f} is below {ACCURACY}",
        )


def show(cluster: Cluster, leader_before: str) -> None:
    say("the state in etcd explains itself: etcdctl get --prefix /millrace/digits/")
    listing = cluster.etcdctl("get", "--prefix", "/millrace/digits/").splitlines()
    keys, values = listing[0::2], listing[1::2]
    for noun in ("leader", "jobs", "iterations", "workers", "datasets"):
        for key, value in zip(keys, values):
            if f"/{noun}" in key:
                print(f"    {key}\n        {value if len(value) <= 200 else value[:200] + ' ...'}")
                break
    status = cluster.status()
    need(status["leader"] != "", "nobody leads")
    say(
        f"the leader is now {status['leader']}, epoch {status['epoch']} (it was {leader_before}); "
        "millrace status:"
    )
    print("    " + cluster.status_text().replace("\n", "\n    ").rstrip(), flush=True)


def demo(directory: pathlib.Path) -> None:
    images, labels = load_digits()
    order = np.random.default_rng(1).permutation(len(labels))
    test, rest = order[:360], order[360:]
    say(
        f"{len(labels)} handwritten digits (UCI, CC BY 4.0): {len(rest)} to train with, "
        f"{len(test)} to test with"
    )
    write_shards(directory, images[rest], labels[rest], np.arange(len(rest)), SHARDS)
    np.savez(
        directory / "test.npz", images=(images[test] / 16).astype(np.float32), labels=labels[test]
    )
    say(f"wrote {SHARDS} TFRecord files of tf.Example to {directory}")
    with Cluster(directory, "digits") as cluster:
        for server in cluster.servers:
            say(
                f"{server['kind']} {server['number']} serves on {server['address']}, process "
                f"{server['pid']}"
            )
        say(f"etcd {cluster.etcd}, service {cluster.service}")
        leader = cluster.status()["leader"]
        say(f"leading: {leader}")
        say(
            "the pipeline: list_files, interleave TFRecord, parse_example, map cast and scale, "
            'shuffle, batch; DYNAMIC, job "digits"'
        )
        try:
            run = train(cluster, directory, len(rest))
            check(run)
            show(cluster, leader)
        except Failed:
            print(cluster.log_tail(), file=sys.stderr)
            raise
        pids = [server["pid"] for server in cluster.servers]
    need_gone(directory, pids)


if __name__ == "__main__":
    sys.exit(perform("demo", demo, LIMIT_S))
