"""
A reading process of soak.py: takes commands as lines of JSON on stdin, answers each with a line on
stdout.

{"do": "read", ...} reads one dataset and writes each element to a file before it asks for the next
one; the answer has what the service said of its end, and how many splits there were. How: "end"
reads to the end; "close" closes after some elements; "drop" lets the iterator go without a word;
"interrupt" reads to the end while a signal handler raises out of it again and again. {"do":
"leave"} opens and leaves jobs of its own.
"""

import collections
import dataclasses
import faulthandler
import itertools
import json
import random
import signal
import sys
import time
import warnings

import numpy as np

import millrace as mr

INTERRUPT_S = 0.02


class Interrupted(Exception):
    """Out of a signal handler, as KeyboardInterrupt in a notebook."""


def _interrupt(number, frame):
    raise Interrupted


def _take(it, into):
    """
    The next element, appended to @into as soon as the iterator gave it: what raises afterwards
    cannot lose it here.
    """
    before = len(into)
    try:
        into.extend(itertools.islice(it, 1))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return len(into) > before


def _elements(it, command, into):
    """Reads one after the other; False: it has ended. Counts interrupts."""
    interrupts = 0
    while True:
        try:
            if command["how"] == "interrupt":
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, INTERRUPT_S))
            more = _take(it, into)
        except Interrupted:
            interrupts += 1
            more = True
        yield more, interrupts
        if not more:
            return


def _splits(command):
    """
    How many there are of the job that is being read, as soon as its record can be seen; None: it
    cannot any more.
    """
    for job in json.loads(mr.service.status(command["service"])).get("jobs", []):
        if job.get("name") == command["job"] and job.get("iterations"):
            return int(job["iterations"][0]["providers"][0]["splits"])
    return None


def read(command):
    ds = mr.Dataset.range(command["n"]).map(lambda x: x + 0)
    if command["batch"]:
        ds = ds.batch(command["batch"])
    it = iter(
        ds.apply(
            mr.service.distribute(
                "distributed_epoch",
                command["service"],
                job_name=command["job"],
                **command["options"],
            )
        )
    )
    answer = {"errors": [], "interrupts": 0, "nexts": 0, "ended": False, "splits": None}
    got = collections.deque()
    stop = command.get("stop", 0)
    file = open(
        command["file"], "ab", buffering=0
    )  # what was written stays when this process is killed
    signal.signal(signal.SIGALRM, _interrupt)
    try:
        for more, answer["interrupts"] in _elements(it, command, got):
            while got:
                file.write(np.atleast_1d(got.popleft()).astype(np.int64).tobytes())
                answer["nexts"] += 1
            if command["splits"] and answer["splits"] is None:
                answer["splits"] = _splits(command)
            if not more:
                answer["ended"] = True
                break
            if stop and answer["nexts"] >= stop:
                break
            if command["nap"]:
                time.sleep(command["nap"])
        answer["losses"] = dataclasses.asdict(it.losses)
        if command["how"] != "drop":
            it.close()
    except mr.errors.MillraceError as e:
        answer["errors"].append(f"{type(e).__name__}: {e}")
    del it
    file.close()
    return answer


def leave(command):
    """Jobs that come and go: opened, looked at, and left in some way."""
    rng, errors, left = random.Random(command["seed"]), [], 0
    over = time.monotonic() + command["seconds"]
    while time.monotonic() < over:
        try:
            it = iter(
                mr.Dataset.range(rng.choice([10, 1000, 100000])).apply(
                    mr.service.distribute(
                        rng.choice(["parallel_epochs", "distributed_epoch"]), command["service"]
                    )
                )
            )
            for _ in range(rng.choice([0, 1, 100])):
                if next(it, None) is None:
                    break
            if rng.random() < 0.7:
                it.close()
            del it
            left += 1
        except mr.errors.MillraceError as e:
            errors.append(f"{type(e).__name__}: {e}")
    return {"errors": errors, "left": left}


def main():
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    warnings.simplefilter("ignore", mr.DataLossWarning)  # the elements are counted
    for line in sys.stdin:
        command = json.loads(line)
        print(json.dumps({"read": read, "leave": leave}[command["do"]](command)), flush=True)


if __name__ == "__main__":
    main()
