"""
One process's part of the work: calls of some names, or some pipelines. It prints a JSON object a line:
{"begin": what} before each piece, {"difference": ...} for what it found, {"done": counts} after some pieces,
{"end": true}. The piece that a process died in is the last one it began.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import json
import random
import sys
from typing import Any

import families  # noqa: F401
from calls import GENERATORS, run, text, ways
from compare import MORE, difference, shown
from explained import Difference, row_of
from outcome import has_elements, refused
from pipelines import FAMILY, Family, Pipeline
from shrink import shrink


def say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


def tell(what: Difference, done: collections.Counter[str], **where: Any) -> None:
    """Print @what, and count it."""
    row = row_of(what)
    done["explained" if row else "differences"] += 1
    say(difference=dataclasses.asdict(what), row=row, **where)


def check_calls(names: list[str], first: int, count: int, seed: str) -> None:
    """Calls up to number @count of each of @names, of the first name from number @first on."""
    for name in names:
        for number in range(first, count):
            done: collections.Counter[str] = collections.Counter()
            call = GENERATORS[name](random.Random(f"{seed}:{name}:{number}"))
            for way in ways(call):
                say(begin=name, number=number)
                source = text(call, way)  # which this package runs first
                between = functools.partial(say, begin=name, number=number, text=source)
                ours, theirs = run(call, way, between)
                done["calls"] += 1
                done["refused"] += refused(ours) and refused(theirs)
                kind = difference(ours, theirs, call.slack)
                if kind is not None:
                    what = Difference(name, kind, way, source, shown(ours), shown(theirs))
                    tell(what, done, seed=seed, number=number)
            say(done=done)
        first = 0


def check_pipelines(first: int, count: int, seed: str) -> None:
    """Pipelines @first to @first + @count. What there is to count is said after each family."""
    for begin in range(first - first % FAMILY, first + count, FAMILY):
        done: collections.Counter[str] = collections.Counter()
        family = Family(random.Random(f"{seed}:{begin // FAMILY}"))
        numbers = range(begin, min(begin + FAMILY, first + count))
        for number in numbers:
            if number >= first:
                say(begin=number)
            pipeline = family.generate()
            if number >= first:
                say(begin=number, text=pipeline.text)  # this package has run it
                check_pipeline(family, pipeline, done, seed=seed, number=number)
        start = max(begin, first)
        say(done=done, first=start, count=numbers.stop - start)


def check_pipeline(
    family: Family, pipeline: Pipeline, done: collections.Counter[str], **where: Any
) -> None:
    """One of them."""
    ours, theirs = family.run(pipeline)
    done["pipelines"] += 1
    done["refused"] += refused(ours) and refused(theirs)
    done["with elements"] += has_elements(ours)
    done["steps"] += len(pipeline.steps)
    kind = difference(ours, theirs)
    if kind is None:
        return
    small = pipeline
    if kind != MORE:  # which is explained as it is
        small, ours, theirs = shrink(family, pipeline)
    what = Difference("pipeline", kind, "", small.text, shown(ours), shown(theirs))
    tell(what, done, **where, whole=pipeline.text)


def main() -> None:
    task = json.loads(sys.argv[1])
    # TensorFlow is a million objects that stay, and graphs are rings: collect seldom, and only what is new.
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    if task["kind"] == "names":
        say(names=list(GENERATORS))
        return
    if task["kind"] == "calls":
        check_calls(task["names"], task["first"], task["count"], task["seed"])
    else:
        check_pipelines(task["first"], task["count"], task["seed"])
    say(end=True)


if __name__ == "__main__":
    main()
