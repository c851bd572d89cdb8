"""
docs/use/tutorial.md, from the pipeline on: its files and its commands, as a reader types them.
"""

import contextlib
import os
import pathlib
import re
import shlex
import subprocess
import sys

from millrace._capi import ffi as _ffi

PAGE = pathlib.Path(__file__).parents[2] / "docs/use/tutorial.md"
FILES = re.compile(r"^```python\n# (\S+)\n(.*?)^```$", re.M | re.S)
COMMANDS = re.compile(r"^\$ (.*)$", re.M)


@contextlib.contextmanager
def server(words):
    """A server of the page, on a free port; its address."""
    there, here = os.pipe()
    try:
        argv = [
            _ffi.program_path(),
            *words,
            "--listen",
            "127.0.0.1:0",
            "--ready-fd",
            str(here),
            "--owner-pid",
            str(os.getpid()),
        ]
        process = subprocess.Popen(argv, pass_fds=[here])
    finally:
        os.close(here)
    try:
        with open(there) as ready:
            yield re.search(r'"address":"([^"]+)"', ready.readline())[1]
    finally:
        process.terminate()
        process.wait(60)


def python(script, directory):
    return subprocess.run(
        [sys.executable, script],
        cwd=directory,
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    ).stdout


def test_tutorial(tmp_path):
    text = PAGE.read_text()
    commands = COMMANDS.findall(text)
    for name, code in FILES.findall(text):
        (tmp_path / name).write_text(code)
    assert "python3 pipeline.py" in commands
    assert "$ python3 pipeline.py\n" + python("pipeline.py", tmp_path) in text

    assert "millrace dispatcher" in commands
    worker = [c for c in commands if c.startswith("millrace worker")]
    assert len(worker) == 2
    with contextlib.ExitStack() as servers:
        address = servers.enter_context(server(["dispatcher"]))
        for command in worker:
            servers.enter_context(
                server(shlex.split(command.replace("localhost:5050", address))[1:])
            )
        train = tmp_path / "train.py"
        train.write_text(
            train.read_text().replace("localhost:5050", address).replace("time.sleep(0.05)", "pass")
        )
        assert "python3 train.py" in commands
        assert python("train.py", tmp_path).rstrip().endswith("10000 elements")
        status = subprocess.run(
            [_ffi.program_path(), "status", "--service", address],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "tutorial" in status.stdout
