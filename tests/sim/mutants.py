#!/usr/bin/env python3
"""Put bugs into a copy of the core, one at a time, and see after how many walks the judge objects.

    tests/sim/mutants.py [--build build/dev] [--ranges 10] [--seeds 1000] [NAME...]

Each bug is one place of src/dispatcher/core that reads otherwise. That file alone is compiled again, in a temporary
directory, and linked in front of the archive that has the right one; nothing in the tree or in the build changes. A
bug whose text is not found any more, or that no walk of a range objects to, makes this fail.
"""

import argparse
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

TOP = pathlib.Path(__file__).resolve().parents[2]
CORE = TOP / "src/dispatcher/core"

# name: what is wrong, the file, what it reads, what it is to read
BUGS = {
    "OWED_STAYS": (
        "what came back is handed out and stays in its list",
        "splits.c",
        "    mr_owed_take(list, i, n);\n",
        "    mr_owed_take(list, i, n > 1 ? n - 1 : n);\n",
    ),
    "TAKEOVER_ARMS_NOTHING": (
        "a takeover does not arm the timeouts of workers",
        "load.c",
        "mr_alarm_at(core, &worker->alarm, mr_worker_is_live(worker) ? worker->deadline : core->now);",
        "mr_alarm_at(core, &worker->alarm, mr_worker_is_live(worker) ? MR_NEVER : core->now);",
    ),
    "ENDED_TOO_FAR": (
        "with a repetition the one after it counts as ended, too",
        "ended.c",
        "        rec->ended_below++;\n",
        "        rec->ended_below += 2;\n",
    ),
    "JOINED_TRIMMED": (
        "a production is joined of which a worker has trimmed the start",
        "join.c",
        "    if (join->first > 0) {\n",
        "    if (join->first > 1000) {\n",
    ),
    "JOINED_LOSSES": (
        "a production is joined of which splits went with a worker",
        "productions.c",
        "!p->rec->endless && lost > 0",
        "!p->rec->endless && lost > 1000000",
    ),
    "NO_CRASH_COUNTS": (
        "a split that comes back from a crash is not suspected",
        "recovery.c",
        "    uint32_t losses = range->losses + (r->crashed ? 1 : 0);\n",
        "    uint32_t losses = range->losses;\n",
    ),
}


def ninja(build, *args):
    out = subprocess.run(["ninja", "-C", build, *args], check=True, capture_output=True, text=True)
    return out.stdout.splitlines()


def command_for(build, target):
    """The last command that makes @target, without a compiler cache."""
    words = shlex.split(ninja(build, "-t", "commands", target)[-1].removeprefix(": && ").removesuffix(" && :"))
    return words[1:] if words[0].endswith("ccache") else words


def replaced(words, option, value):
    at = words.index(option)
    return words[: at + 1] + [value] + words[at + 2 :]


def build_mutant(build, directory, name):
    """sim_main with this bug in it."""
    _, file, old, new = BUGS[name]
    source = (CORE / file).read_text()
    if source.count(old) != 1:
        sys.exit(f"{name}: {file} has {source.count(old)} places that read {old!r}; the list of bugs is out of date")
    mutant = directory / f"{name}.c"
    mutant.write_text(source.replace(old, new))
    obj, program = directory / f"{name}.o", directory / name
    names = [line.split(":")[0] for line in ninja(build, "-t", "targets", "all")]
    (target,) = [n for n in names if n.endswith(f"core/CMakeFiles/mr_dispatcher_core.dir/{file}.o")]
    compile_ = replaced(replaced(command_for(build, target), "-o", str(obj)), "-c", str(mutant))
    compile_ = replaced(compile_, "-MF", str(directory / "deps"))
    subprocess.run(compile_, cwd=build, check=True)
    link = replaced(command_for(build, "tests/sim_main"), "-o", str(program))
    link.insert(link.index("-o"), str(obj))
    subprocess.run(link, cwd=build, check=True)
    return program


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(TOP / "build/dev"))
    parser.add_argument("--ranges", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BUGS))
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    missed = 0

    subprocess.run(["ninja", "-C", build, "tests/sim_main"], check=True, stdout=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as directory:
        for name in options.names or BUGS:
            program = build_mutant(build, pathlib.Path(directory), name)
            run = subprocess.run(
                [program, "--ranges", str(options.ranges), "--seeds", str(options.seeds)], capture_output=True, text=True
            )
            print(f"{name} ({BUGS[name][0]}){run.stdout.removeprefix('NONE').rstrip()}", flush=True)
            missed += run.returncode != 0
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
