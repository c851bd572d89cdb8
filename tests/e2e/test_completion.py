"""What shells offer when somebody presses Tab, as their own parsers have it."""

import os
import shlex
import shutil
import subprocess

import pytest

import millrace as mr
from millrace._capi import ffi as _ffi

PROGRAM = os.environ.get("MILLRACE_PROGRAM") or _ffi.program_path()

BASH = """
{script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
compopt() {{ :; }}
_millrace
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

# compadd and _arguments work within a completion only: here they print what they are given.
ZSH = """
compdef() {{ :; }}
compadd() {{ shift; print -l -- "$@"; }}
_arguments() {{ print -l -- "$@"; }}
{script}
words=({words}); CURRENT=$#words
_millrace
"""


def script(shell):
    return subprocess.run(
        [PROGRAM, "completion", shell], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def ask(shell, line):
    """The words of the line, of which the last one is not complete."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    words = " ".join(word if word else "''" for word in line.split(" "))
    if shell == "fish":
        code = script(shell) + f"\ncomplete -C {shlex.quote(line)}\n"
    else:
        code = {"bash": BASH, "zsh": ZSH}[shell].format(script=script(shell), words=words)
    done = subprocess.run(
        [shell, *(["-f"] if shell == "zsh" else []), "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PATH": os.path.dirname(PROGRAM) + ":" + os.environ["PATH"]},
    )
    assert done.stderr == "", done.stderr
    return [line.split("\t")[0] for line in done.stdout.splitlines()]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_programs_and_verbs(shell):
    assert {"dev", "status", "job", "worker", "help"} <= set(ask(shell, "millrace "))
    assert set(ask(shell, "millrace job ")) == {"list", "show", "why", "delete"}
    assert {"run", "list", "show", "drain"} <= set(ask(shell, "millrace worker "))
    assert set(ask(shell, "millrace completion ")) == {"bash", "zsh", "fish"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_options_of_a_program_and_no_others(shell):
    def options(line):
        return {o.split("=")[0].split("[")[0] for o in ask(shell, line) if o.startswith("--")}

    listing = options("millrace job list --")
    assert {"--json", "--names", "--service"} <= listing and "--force" not in listing
    deleting = options("millrace job delete --")
    assert {"--force", "--service"} <= deleting and "--names" not in deleting
    serving = options("millrace worker --")
    assert {"--dispatcher", "--tags"} <= serving and "--wait" not in serving
    assert options("millrace worker run --") == serving


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_values_that_can_be_known(shell):
    levels = {"debug", "info", "warn", "error", "off"}
    assert set(ask(shell, "millrace dispatcher --log-level ")) == levels


@pytest.mark.parametrize("shell", ["bash", "fish"])
def test_names_are_asked_of_the_cluster(shell, cluster, monkeypatch):
    monkeypatch.setenv("MILLRACE_SERVICE", cluster.service.split("://")[1])
    mr.service.register_dataset(cluster.service, mr.Dataset.range(10), dataset_id="digits")
    assert ask(shell, "millrace dataset show ") == ["digits"]


def test_another_shell_is_a_mistake():
    done = subprocess.run(
        [PROGRAM, "completion", "csh"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2
    assert "no completion for 'csh'; there is: bash|zsh|fish" in done.stderr
