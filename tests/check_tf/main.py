"""
Compare this package with TensorFlow: every name that is marked `same` with generated arguments, and
random pipelines. `make check-tf` runs it; README.md says how to read what it prints.

    main.py [--calls 20] [--pipelines 300] [--seed 1] [--jobs 2] [--names math.pow ...] [--first 0]
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
from typing import Any

import names
from explained import rows_that_are_missing

HERE = pathlib.Path(__file__).parent
NAMES_A_PART = 15
PIPELINES_A_PART = 500  # TensorFlow keeps every function that it has traced: a process has an end
SILENCE_S = 300  # after that many seconds in one piece a process is stuck


class Work:
    """Parts that wait for a process, and what the processes have said."""

    def __init__(self, verbose: bool) -> None:
        self.parts: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.counts: collections.Counter[str] = collections.Counter()
        self._verbose = verbose
        self._lock = threading.Lock()

    def run(self) -> None:
        """Work on parts until there are none."""
        while True:
            try:
                part = self.parts.get_nowait()
            except queue.Empty:
                return
            self._run_part(part)

    def _run_part(self, part: dict[str, Any]) -> None:
        process = subprocess.Popen(
            [sys.executable, str(HERE / "part.py"), json.dumps(part)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **{v: "1" for v in _ONE_THREAD}},
        )
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.append(process.stderr.read()))
        reader.start()
        begun, done = None, False
        for line in process.stdout:
            heard = json.loads(line)
            begun = heard.get("begin", begun)
            done = done or "done" in heard
            with self._lock:
                self._hear(heard)
        process.wait()
        reader.join()
        if not done:
            with self._lock:
                self._died(part, begun, process.returncode, errors[0])

    def _hear(self, heard: dict[str, Any]) -> None:
        self.counts.update(heard.get("done", {}))
        if "difference" in heard and (heard["row"] is None or self._verbose):
            _print(heard)

    def _died(self, part: dict[str, Any], begun: Any, code: int, errors: str) -> None:
        """Count that as a difference, and go on behind the piece in which it happened."""
        print(f"DIED in {begun} of {part} (code {code}):\n{errors[-2000:]}", flush=True)
        self.counts["differences"] += 1
        if begun is None:
            return
        if part["kind"] == "calls":
            rest = part["names"][part["names"].index(begun) + 1 :]
            again = {**part, "names": rest}
            left = len(rest)
        else:
            left = part["first"] + part["count"] - begun - 1
            again = {**part, "first": begun + 1, "count": left}
        if left > 0:
            self.parts.put(again)


_ONE_THREAD = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def _print(heard: dict[str, Any]) -> None:
    what = heard["difference"]
    place = f"SEED={heard['seed']} {'PIPELINE' if what['name'] == 'pipeline' else 'CALL'}={heard['number']}"
    print(f"{what['name']} ({what['kind']}) {what['way']} {place}")
    print(f"    text:       {what['text']}")
    if heard.get("whole", what["text"]) != what["text"]:
        print(f"    whole:      {heard['whole']}")
    print(f"    millrace:   {what['ours']}\n    tensorflow: {what['theirs']}")
    if heard["row"]:
        print(f"    explained:  {heard['row']}")
    sys.stdout.flush()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--calls", type=int, default=20, help="calls a name")
    parser.add_argument("--pipelines", type=int, default=300)
    parser.add_argument("--first", type=int, default=0, help="number of the first pipeline")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--names", nargs="*", help="only these names")
    parser.add_argument("--verbose", action="store_true", help="what is explained, too")
    return parser.parse_args()


def _covered() -> list[str]:
    """The names that there are generators for, of those that exist."""
    listing = subprocess.run(
        [sys.executable, str(HERE / "part.py"), '{"kind": "names"}'],
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    entries = names.entries()
    generators = json.loads(listing.stdout)["names"]
    return [name for name in generators if entries.get(name, "absent") != "absent"]


def main() -> int:
    arguments = _arguments()
    covered = _covered()
    uncovered = [n for n, kind in names.entries().items() if kind == "same" and n not in covered]
    wanted = [n for n in covered if arguments.names is None or n in arguments.names]
    work = Work(arguments.verbose)
    for i in range(0, len(wanted) if arguments.calls else 0, NAMES_A_PART):
        part = {"kind": "calls", "names": wanted[i : i + NAMES_A_PART], "count": arguments.calls}
        work.parts.put({**part, "seed": arguments.seed})
    for first in range(0, arguments.pipelines, PIPELINES_A_PART):
        count = min(PIPELINES_A_PART, arguments.pipelines - first)
        part = {"kind": "pipelines", "first": arguments.first + first, "count": count}
        work.parts.put({**part, "seed": arguments.seed})
    workers = [threading.Thread(target=work.run) for _ in range(arguments.jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    walked = subprocess.run([sys.executable, str(HERE / "walk.py")]).returncode
    missing = rows_that_are_missing()
    for row in missing:
        print(f"explained.py names a row that the page of differences does not have: {row}")
    for name in uncovered:
        print(f"uncovered: {name} is marked same, and no generator makes calls of it")
    counts = work.counts
    print(f"explained differences: {counts['explained']}; refused by both: {counts['refused']}")
    print(
        f"names {len(wanted)}, calls {counts['calls']}, pipelines {counts['pipelines']}, "
        f"differences {counts['differences']}, uncovered {len(uncovered)}"
    )
    return 1 if counts["differences"] or uncovered or missing or walked else 0


if __name__ == "__main__":
    sys.exit(main())
