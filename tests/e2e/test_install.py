"""
What `make install` gives: a program against it is compiled with pkg-config or with CMake and runs,
and so does the installed one, wherever the prefix was moved to.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import millrace as mr
from millrace._capi import ffi as _ffi

BUILD = pathlib.Path(_ffi.library_path).resolve().parents[1]
EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "quickstart.c"
SCRIPTS = EXAMPLE.parents[1] / "scripts"

pytestmark = pytest.mark.skipif(
    not (BUILD / "cmake_install.cmake").exists(),
    reason="SKIPPED ALOUD: the library is not of a build tree",
)


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    """An installation that was moved after it was made: nothing in it may name its first place."""
    installed = tmp_path_factory.mktemp("install") / "first"
    subprocess.run(
        ["cmake", "--install", BUILD, "--prefix", installed], check=True, capture_output=True
    )
    return installed.rename(installed.with_name("moved"))


def run(*argv, **environment):
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=200, env={**os.environ, **environment}
    )


def test_the_example_in_c_reads_here_and_from_a_service(prefix, tmp_path, cluster):
    flags = run(
        "pkg-config",
        "--cflags",
        "--libs",
        "millrace",
        PKG_CONFIG_PATH=str(next(prefix.rglob("pkgconfig"))),
    )
    assert flags.returncode == 0, flags.stderr
    built = run(
        "cc",
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-pedantic",
        "-Werror",
        str(EXAMPLE),
        "-o",
        str(tmp_path / "quickstart"),
        *flags.stdout.split(),
    )
    assert (built.returncode, built.stderr) == (0, "")
    where = {"LD_LIBRARY_PATH": str(next(prefix.rglob("libmillrace.so")).parent)}
    expected = f"{sum(x * x for x in range(1000))}\n"
    for arguments in ([], [cluster.service]):
        done = run(str(tmp_path / "quickstart"), *arguments, **where)
        assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    done = run(str(tmp_path / "quickstart"), "nonsense", **where)
    assert done.returncode == 1 and "host:port is wanted" in done.stderr


def configure(source, build, prefix):
    return run("cmake", "-S", str(source), "-B", str(build), f"-DCMAKE_PREFIX_PATH={prefix}")


def test_the_example_in_c_is_built_with_cmake(prefix, tmp_path):
    configured = configure(EXAMPLE.parent, tmp_path, prefix)
    assert configured.returncode == 0, configured.stderr
    built = run("cmake", "--build", str(tmp_path))
    assert built.returncode == 0, built.stdout
    done = run(str(tmp_path / "quickstart"))
    assert (done.returncode, done.stdout) == (0, f"{sum(x * x for x in range(1000))}\n")


def test_cmake_refuses_another_major_version(prefix, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(later LANGUAGES C)\n"
        "find_package(Millrace 99 REQUIRED)\n"
    )
    configured = configure(tmp_path, tmp_path / "build", prefix)
    assert configured.returncode != 0
    assert f"MillraceConfig.cmake, version: {mr.__version__}" in configured.stderr


def test_what_is_installed(prefix):
    program = run(str(prefix / "bin" / "millrace"), "version")
    assert program.stdout == f"millrace {mr.__version__}\n"
    headers = sorted(p.name for p in (prefix / "include" / "millrace").iterdir())
    there = [p.name for p in (EXAMPLE.parents[1] / "src" / "include" / "millrace").glob("*.h")]
    assert headers == sorted([*there, "version.h"])
    assert (
        shutil.which("readelf") is None
        or "libmillrace.so.0"
        in run("readelf", "-d", str(next(prefix.rglob("libmillrace.so")))).stdout
    )


def test_the_debian_packages_have_the_version():
    changelog = (EXAMPLE.parents[1] / "debian" / "changelog").read_text()
    assert changelog.startswith(f"millrace ({mr.__version__}) ")


def test_the_debian_packages_are_built_from_what_deps_installs():
    """Of deps.sh `libraries`, but for what only tests need."""
    wanted = re.search(r'^libraries="(.*?)"', (SCRIPTS / "deps.sh").read_text(), re.M | re.S)
    control = (SCRIPTS.parent / "debian" / "control").read_text().partition("\n\n")[0]
    there = set(re.findall(r"^ ([a-z0-9.+-]+)", control, re.M))
    assert set(wanted.group(1).split()) - {"libcmocka-dev"} - there == set()


def test_the_package_brings_the_program_along(tmp_path):
    assert run(sys.executable, "-m", "millrace", "version").stdout == f"millrace {mr.__version__}\n"
    command = tmp_path / "millrace"  # as pip writes it; alone on PATH it must not find itself
    command.write_text(f"#!{sys.executable}\nfrom millrace.__main__ import main\nmain()\n")
    command.chmod(0o755)
    found = run(str(command), "version", PATH=str(tmp_path), MILLRACE_PROGRAM=_ffi.program_path())
    assert (found.returncode, found.stdout) == (0, f"millrace {mr.__version__}\n")
    without = run(str(command), "version", PATH=str(tmp_path), MILLRACE_PROGRAM="")
    assert without.returncode == 1 and "MILLRACE_PROGRAM" in without.stderr


@pytest.fixture
def bare(tmp_path):
    """
    A PATH of a Debian on which nothing is installed, and whose apt-get leaves a note when it is
    run.
    """
    for name, text in {"dpkg-query": "exit 1", "apt-get": f"touch {tmp_path}/apt-ran"}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    yield {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    assert not (tmp_path / "apt-ran").exists()


def test_pip_says_what_is_missing_and_installs_nothing(bare, tmp_path):
    pytest.importorskip("setuptools", reason="SKIPPED ALOUD: no setuptools")
    pytest.importorskip("wheel", reason="SKIPPED ALOUD: no wheel")
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build", "--build-base", str(tmp_path / "build")],
        cwd=SCRIPTS.parent / "python",
        capture_output=True,
        text=True,
        timeout=200,
        env={**os.environ, **bare},
    )
    assert done.returncode != 0
    assert (
        "it cannot be built here" in done.stderr
        and "apt-get update && apt-get install" in done.stderr
    )
    assert "librocksdb-dev" in done.stderr and "pytest" not in done.stderr
