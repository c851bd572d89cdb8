#!/usr/bin/env python3
"""
Put mistakes into copies of the code, one at a time, and see which test finds each.

    tests/sim/mutants.py [--build build/dev] [--jobs 2] [NAME...]     these, or all
    tests/sim/mutants.py --check                                      is each one's text still in the code, once?
    tests/sim/mutants.py --ranges 10 OWED_STAYS                       how many walks it takes, from ten seeds on

The list is mutations.py. A mistake is one place of one file that reads otherwise. That file alone
is compiled again, in a temporary directory, and linked in front of the archive that has the right
one, into each of the tests that are to find it, one after the other until one does; nothing in the
tree or in the build changes. A mistake that no test finds, or whose text is not found any more,
makes this fail.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time

from mutations import MUTATIONS, RULES

TOP = pathlib.Path(__file__).resolve().parents[2]
WALKS = "walks"  # of sim_main, which draws them; --seeds of them
PATIENCE_S = (
    20  # and ten times as long as it takes without a mistake: a test that hangs has found one, too
)
AT_LEAST = 3  # mistakes for each group of rules


def out_of_date():
    """What is wrong with the list itself."""
    wrong = []
    names = collections.Counter(m.name for m in MUTATIONS)
    rules = collections.Counter(m.rule.split(".")[0] for m in MUTATIONS)
    for m in MUTATIONS:
        found = (
            len(places(m).findall((TOP / m.file).read_text())) if (TOP / m.file).is_file() else 0
        )
        if found != 1:
            wrong.append(
                f"{m.name}: {m.file} has {found} places that read {m.old!r}: the list is out of"
                " date"
            )
        if names[m.name] != 1 or m.old == m.new or m.rule.split(".")[0] not in RULES:
            wrong.append(f"{m.name}: not a mistake of its own, of a rule that there is")
    wrong += [
        f"rules {r} ({what}): {rules[r]} mistakes"
        for r, what in RULES.items()
        if rules[r] < AT_LEAST
    ]
    return wrong


class Build:
    """The build tree: how its objects are compiled and its programs linked."""

    def __init__(self, path):
        self.path = os.path.abspath(path)
        entries = json.loads((pathlib.Path(self.path) / "compile_commands.json").read_text())
        self.compile = {}
        # A test may compile a file once more; the library's object is what others link.
        for e in entries:
            if e["file"] not in self.compile or " -o tests/" in self.compile[e["file"]]:
                self.compile[e["file"]] = e["command"]
        self.links = {}

    def make(self, programs):
        targets = [f"tests/{p}" for p in programs]
        subprocess.run(["ninja", "-C", self.path, *targets], check=True, stdout=subprocess.DEVNULL)
        for program in programs:
            out = subprocess.run(
                ["ninja", "-C", self.path, "-t", "commands", "-s", f"tests/{program}"],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            words = shlex.split(out.splitlines()[-1].removeprefix(": && ").removesuffix(" && :"))
            self.links[program] = without_cache(words)

    def compile_mutant(self, m, directory):
        source = TOP / m.file
        mutant, obj = directory / source.name, directory / f"{source.name}.o"
        mutant.write_text(places(m).sub(lambda _: m.new, source.read_text()))
        words = without_cache(shlex.split(self.compile[str(source)]))
        words = replaced(replaced(words, "-o", str(obj)), "-c", str(mutant))
        # Paths of assertions and of headers next to it stay; what is left unused by the mistake is
        # no concern.
        words += ["-w", "-iquote", str(source.parent)]
        subprocess.run(words, cwd=self.path, check=True, capture_output=True, text=True)
        return obj

    def link_mutant(self, m, program, obj, directory):
        own = f"/{m.file}.o"  # of a program that compiles the file itself
        linked = directory / program
        words = [str(obj) if w.endswith(own) else w for w in self.links[program]]
        words = replaced(words, "-o", str(linked))
        if str(obj) not in words:
            words.insert(words.index("-o"), str(obj))
        subprocess.run(words, cwd=self.path, check=True, capture_output=True, text=True)
        return linked


def places(m):
    """Where the code reads so, however its lines are broken."""
    before, after = (r"\s+" if end.isspace() else "" for end in (m.old[0], m.old[-1]))
    return re.compile(before + r"\s+".join(map(re.escape, m.old.split())) + after)


def without_cache(words):
    return words[1:] if words[0].endswith("ccache") else words


def replaced(words, option, value):
    at = words.index(option)
    return words[: at + 1] + [value] + words[at + 2 :]


def program_of(test):
    return "sim_main" if test == WALKS else test


def run(program, test, seeds, patience_s=None):
    """None if it passes, or what of it failed."""
    args = [str(program), "--seeds", str(seeds)] if test == WALKS else [str(program)]
    try:
        done = subprocess.run(
            args, capture_output=True, text=True, errors="replace", timeout=patience_s, cwd=TOP
        )
    except subprocess.TimeoutExpired:
        return "hangs"
    if done.returncode == 0:
        return None
    text = done.stdout + done.stderr
    if test == WALKS:
        found = re.search(r"seed (\d+)", text)
        return f"seed {found[1]}" if found else f"exit code {done.returncode}"
    failed = re.findall(r"\[  FAILED  \] (\w+)", text)
    begun = re.findall(r"\[ RUN      \] (\w+)", text)
    return (failed or begun[-1:] or [f"exit code {done.returncode}"])[0]


def judge(build, m, seeds, patience):
    """(which test found it, what of it), or None."""
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        obj = build.compile_mutant(m, directory)
        for test in m.tests:
            program = build.link_mutant(m, program_of(test), obj, directory)
            what = run(program, test, seeds, patience[test])
            if what is not None:
                return test, what
    return None


def count_walks(build, m, ranges, seeds):
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        program = build.link_mutant(m, "sim_main", build.compile_mutant(m, directory), directory)
        done = subprocess.run(
            [program, "--ranges", str(ranges), "--seeds", str(seeds)],
            capture_output=True,
            text=True,
        )
        print(f"{m.name} ({m.what}){done.stdout.removeprefix('NONE').rstrip()}", flush=True)
        return done.returncode == 0


def attempt(build, m, seeds, patience):
    try:
        return m, judge(build, m, seeds, patience), None
    except subprocess.CalledProcessError as e:
        return m, None, f"cannot be built: {e.stderr.strip().splitlines()[-1] if e.stderr else e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(TOP / "build/dev"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seeds", type=int, default=1000, help="walks of a range, at most (1000)")
    parser.add_argument("--ranges", type=int, default=0, help="count walks, from so many seeds on")
    parser.add_argument("--check", action="store_true", help="look at the list only")
    parser.add_argument("--rule", help="those of one rule, or of a group: 3.4, 3")
    parser.add_argument("names", nargs="*", metavar="NAME")
    options = parser.parse_args()

    wrong = out_of_date()
    for line in wrong:
        print(line)
    if options.check or wrong:
        print(f"{len(MUTATIONS)} mistakes, {len(wrong)} wrong in the list")
        return 1 if wrong else 0
    chosen = [m for m in MUTATIONS if not options.names or m.name in options.names]
    if options.rule:
        chosen = [m for m in chosen if f"{m.rule}.".startswith(f"{options.rule}.")]
    unknown = set(options.names) - {m.name for m in MUTATIONS}
    if unknown:
        parser.error(f"no such mistake: {', '.join(sorted(unknown))}")

    build = Build(options.build)
    if options.ranges > 0:
        build.make(["sim_main"])
        return (
            0 if all([count_walks(build, m, options.ranges, options.seeds) for m in chosen]) else 1
        )
    tests = sorted({t for m in chosen for t in m.tests})
    build.make(sorted({program_of(t) for t in tests}))
    patience, red = {}, []
    for t in tests:
        begun = time.monotonic()
        if run(pathlib.Path(build.path) / "tests" / program_of(t), t, options.seeds) is not None:
            red.append(t)
        patience[t] = PATIENCE_S + 10 * (time.monotonic() - begun)
    if red:
        print(f"without any mistake in the code these fail: {', '.join(red)}")
        return 1

    survived = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for m, found, broken in pool.map(
            lambda m: attempt(build, m, options.seeds, patience), chosen
        ):
            survived += found is None
            verdict = broken or (
                f"{found[0]}: {found[1]}" if found else f"SURVIVES {', '.join(m.tests)}"
            )
            print(f"{m.rule:5} {m.name:28} {verdict}", flush=True)
    print(f"{len(chosen)} mistakes, {survived} not found")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
