"""
`pip install ./python` from the source tree: builds the C library and the program with CMake and
puts both beside the package (millrace/_lib), so that nothing else has to be installed. What it is
built from has to be there: if not, it says what is missing and how to install it. It installs
nothing behind pip's back.

MILLRACE_PREBUILT=<prefix of a `make install`> takes them from there instead; MILLRACE_PREBUILT=none
leaves them out (they are then found through MILLRACE_LIBRARY and MILLRACE_PROGRAM, or the loader
and PATH).
"""

import os
import pathlib
import shutil
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

ROOT = pathlib.Path(__file__).resolve().parent.parent


def installed_prefix(scratch):
    """A prefix that holds lib*/libmillrace.so.0 and bin/millrace; None to leave them out."""
    prebuilt = os.environ.get("MILLRACE_PREBUILT")
    if prebuilt:
        return None if prebuilt == "none" else pathlib.Path(prebuilt)
    if not (ROOT / "CMakeLists.txt").exists():
        raise SystemExit(
            "millrace: this is not the source tree, so there is nothing to build the "
            "C library from; set MILLRACE_PREBUILT to the prefix of an installation, "
            "or to 'none'"
        )
    dependencies = ROOT / "scripts" / "deps.sh"
    if dependencies.exists():
        done = subprocess.run(
            [str(dependencies)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHON": sys.executable, "BUILD": "only"},
        )
        if done.returncode != 0:
            raise SystemExit(f"millrace: it cannot be built here\n{done.stdout}")
    build, prefix = scratch / "cmake", scratch / "prefix"
    subprocess.run(
        [
            "cmake",
            "-S",
            str(ROOT),
            "-B",
            str(build),
            "-DCMAKE_BUILD_TYPE=RelWithDebInfo",
            "-DMR_BUILD_TESTS=OFF",
            f"-DCMAKE_INSTALL_PREFIX={prefix}",
        ],
        check=True,
    )
    subprocess.run(["cmake", "--build", str(build), "--parallel", str(os.cpu_count())], check=True)
    subprocess.run(["cmake", "--install", str(build), "--strip"], check=True)
    return prefix


class build_with_library(build_py):
    def run(self):
        super().run()
        prefix = installed_prefix(
            pathlib.Path(self.get_finalized_command("build").build_temp).resolve()
        )
        if prefix is None:
            return
        target = pathlib.Path(self.build_lib) / "millrace" / "_lib"
        target.mkdir(parents=True, exist_ok=True)
        libraries = sorted(prefix.glob("lib*/**/libmillrace.so.0"))
        program = prefix / "bin" / "millrace"
        if not libraries or not program.exists():
            raise SystemExit(f"millrace: {prefix} has no lib/libmillrace.so.0 and bin/millrace")
        shutil.copy(libraries[0], target / "libmillrace.so.0")
        shutil.copy(program, target / "millrace")


class platform_wheel(bdist_wheel):
    """Pure Python with a shared library beside it: any Python 3, this platform. Without: any."""

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class WithLibrary(Distribution):
    def has_ext_modules(self):
        return os.environ.get("MILLRACE_PREBUILT") != "none"


setup(
    cmdclass={"build_py": build_with_library, "bdist_wheel": platform_wheel},
    distclass=WithLibrary,
    # Not in pyproject.toml: old versions of setuptools read a table there, new ones only a string.
    license="Apache-2.0",
)
