"""
A reading process of torture.py: takes commands as lines of JSON on stdin, answers each with a line
on stdout.

{"do": "read", ...} reads one dataset to its end and writes every element to a file before it asks
for the next; {"do": "visit", ...} opens, reads a little of and leaves many iterators on several
threads for some seconds, and writes a byte to its file for each step. An answer says what went
wrong as a list of errors.
"""

import collections
import faulthandler
import json
import random
import signal
import sys
import threading
import time

import numpy as np

import millrace as mr


def numbered(shape, n):
    """A dataset whose elements, taken together, are the numbers below n."""
    if shape == "shuffle":
        return mr.Dataset.range(n).shuffle(1000, seed=7)
    if shape == "batch":
        return mr.Dataset.range(n).map(lambda x: x * 1).batch(7)
    if shape == "flat_map":
        return mr.Dataset.range(n // 50).flat_map(lambda i: mr.Dataset.range(i * 50, i * 50 + 50))
    if shape == "interleave":
        return mr.Dataset.range(n // 50).interleave(
            lambda i: mr.Dataset.range(i * 50, i * 50 + 50), cycle_length=4, num_parallel_calls=2
        )
    if shape == "parallel":
        return mr.Dataset.range(n).map(lambda x: x + 0, num_parallel_calls=4).prefetch(4)
    return mr.Dataset.range(n)


def read(command):
    """
    Read to the end. A nap every so many elements keeps a small dataset going through many faults.
    """
    ds = numbered(command["shape"], command["n"]).apply(
        mr.service.distribute(
            command["mode"],
            command["service"],
            job_name=command.get("job"),
            guarantee=command.get("guarantee", "at_most_once"),
            **command.get("options", {}),
        )
    )
    gap, errors = {"s": 0.0, "until": 0.0, "for": "nothing"}, []

    def waited(since, what):
        now = time.monotonic()
        if now - since > gap["s"]:
            gap.update({"s": now - since, "until": time.time(), "for": what})
        return now

    file = open(
        command["file"], "wb", buffering=0
    )  # what was written stays when this process is killed
    every, nap = command["every"], command["nap"]
    last = time.monotonic()
    try:
        for i, x in enumerate(ds):
            last = waited(last, f"element {i}")
            file.write(np.atleast_1d(x).astype(np.int64).tobytes())
            if nap and i % every == every - 1:
                time.sleep(nap)
                last = time.monotonic()
        waited(last, "the end")
    except mr.errors.MillraceError as e:
        errors.append(f"{type(e).__name__}: {e}")
        waited(last, "an error")
    file.close()
    return {"errors": errors, "gap": gap}


def visit(command):
    """
    Threads that come, read a little, and go: by close(), also from another thread, by the end, or
    by dropping the iterator.
    """
    over = time.monotonic() + command["seconds"]
    errors, counts, lock = [], collections.Counter(), threading.Lock()
    steps = open(command["file"], "wb", buffering=0)

    def visitor(number):
        rng = random.Random(command["seed"] * 1000 + number)
        while time.monotonic() < over:
            n = rng.choice([10, 1000, 50000])
            mode = rng.choice(["parallel_epochs", "distributed_epoch"])
            it, closer, seen = None, None, set()
            try:
                it = iter(
                    numbered(rng.choice(["range", "shuffle", "flat_map"]), n).apply(
                        mr.service.distribute(mode, command["service"])
                    )
                )
                if rng.random() < 0.3:
                    closer = threading.Timer(rng.uniform(0, 0.5), it.close)
                    closer.start()
                for _ in range(rng.choice([0, 1, 10, n])):
                    x = next(it, None)
                    steps.write(b".")
                    if x is None or time.monotonic() > over:
                        break
                    if mode == "distributed_epoch" and int(x) in seen:
                        with lock:
                            errors.append(f"a visitor got {int(x)} of {n} twice")
                    seen.add(int(x))
                if rng.random() < 0.7:
                    it.close()
                with lock:
                    counts["visits"] += 1
            except mr.errors.MillraceError as e:
                if closer is None or not isinstance(e, mr.errors.FailedPreconditionError):
                    with lock:
                        errors.append(f"visitor, {mode}: {type(e).__name__}: {e}")
            if closer is not None:
                closer.join()
            del it, closer

    threads = [threading.Thread(target=visitor, args=(i,)) for i in range(command["threads"])]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    steps.close()
    return {"errors": errors, "visits": counts["visits"]}


def main():
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    for line in sys.stdin:
        command = json.loads(line)
        answer = {"read": read, "visit": visit}[command["do"]](command)
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
