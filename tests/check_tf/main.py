"""
Compare this package with TensorFlow: every name that is marked `same` with generated arguments, and
random pipelines. `make check-tf` runs it; README.md says how to read what it prints.

    main.py [--calls 20] [--pipelines 300] [--seed 1] [--jobs 2] [--names math.pow ...] [--first 0]
            [--journal FILE]

With a journal a run can be stopped at any time: the same command goes on where it was.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import os
import pathlib
import queue
import select
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any, Iterator

import names
from explained import Difference, row_of, rows_that_are_missing
from journal import Journal

HERE = pathlib.Path(__file__).parent
NAMES_A_PART = 15
PIPELINES_A_PART = (
    2000  # what TensorFlow keeps of functions that it has traced grows: a process has an end
)
SILENCE_S = 300  # after that many seconds in one piece a process is stuck


class Work:
    """Parts that wait for a process, and what the processes have said."""

    def __init__(self, verbose: bool, journal: Journal) -> None:
        self.parts: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.counts: collections.Counter[str] = collections.Counter()
        self._verbose = verbose
        self._journal = journal
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
        with tempfile.TemporaryFile() as errors:
            process = subprocess.Popen(
                [sys.executable, str(HERE / "part.py"), json.dumps(part)],
                stdout=subprocess.PIPE,
                stderr=errors,
                env={**os.environ, **{v: "1" for v in _ONE_THREAD}},
            )
            begun: dict[str, Any] = {}
            ended = False
            for line in _lines(process):
                heard = json.loads(line)
                begun = heard if "begin" in heard else begun
                ended = ended or "end" in heard
                with self._lock:
                    self._hear(part, heard)
            process.wait()
            if not ended:
                with self._lock:
                    self._died(part, begun, process.returncode, _tail(errors))

    def _hear(self, part: dict[str, Any], heard: dict[str, Any]) -> None:
        if "done" in heard:
            self._count(part, heard["done"], heard)
        if "difference" in heard and (heard["row"] is None or self._verbose):
            _print(heard)

    def _count(self, part: dict[str, Any], counts: dict[str, int], where: dict[str, Any]) -> None:
        self.counts.update(counts)
        if part["kind"] == "pipelines":
            self._journal.add(part["seed"], where["first"], where["count"], counts)

    def _died(self, part: dict[str, Any], begun: dict[str, Any], code: int, errors: str) -> None:
        """Count that as a difference, and go on behind the piece in which it happened."""
        piece = begun.get("begin")
        ours, theirs = (
            (f"died (code {code})", "") if "text" not in begun else ("", f"died (code {code})")
        )
        what = Difference(
            part["kind"].rstrip("s"), "died", "", begun.get("text", str(piece)), ours, theirs
        )
        row = row_of(what)
        if row is None or self._verbose:
            heard = {"difference": dataclasses.asdict(what), "row": row, "number": piece}
            _print({**heard, "seed": part["seed"]})
            print(errors, flush=True)
        counts = {"explained" if row else "differences": 1}
        if piece is None:  # it did not even begin, and would not again
            self.counts.update(counts)
            return
        if part["kind"] == "calls":
            self.counts.update(counts)
            rest = part["names"][part["names"].index(piece) :]
            again = {**part, "names": rest, "first": begun["number"] + 1}
            left = len(rest)
        else:
            # What the family had counted went with the process: its pipelines before this one run again.
            for first, count in self._journal.missing(part["seed"], part["first"], piece):
                self.parts.put({**part, "first": first, "count": count})
            self._count(part, {"pipelines": 1, **counts}, {"first": piece, "count": 1})
            left = part["first"] + part["count"] - piece - 1
            again = {**part, "first": piece + 1, "count": left}
        if left > 0:
            self.parts.put(again)


def _lines(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """The lines that @process prints; one that is silent for too long is killed."""
    rest = b""
    while True:
        if not select.select([process.stdout], [], [], SILENCE_S)[0]:
            process.kill()
            return
        data = os.read(process.stdout.fileno(), 65536)
        if not data:
            return
        *whole, rest = (rest + data).split(b"\n")
        yield from whole


def _tail(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - 2000))
    return file.read().decode(errors="replace")


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
    parser.add_argument("--journal", help="a file that says which pipelines have run")
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
    journal = Journal(arguments.journal)
    work = Work(arguments.verbose, journal)
    work.counts.update(journal.counts(arguments.seed, arguments.first, arguments.pipelines))
    for i in range(0, len(wanted) if arguments.calls else 0, NAMES_A_PART):
        part = {"kind": "calls", "names": wanted[i : i + NAMES_A_PART], "seed": arguments.seed}
        work.parts.put({**part, "first": 0, "count": arguments.calls})
    for begin, length in journal.missing(
        arguments.seed, arguments.first, arguments.first + arguments.pipelines
    ):
        most = min(PIPELINES_A_PART, -(-length // arguments.jobs))
        for first in range(begin, begin + length, most):
            count = min(most, begin + length - first)
            part = {"kind": "pipelines", "first": first, "count": count, "seed": arguments.seed}
            work.parts.put(part)
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
