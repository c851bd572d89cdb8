"""What the checks ask of Helm."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).resolve().parent.parent / "millrace"
SETS = ("insecure", "secure", "monitored", "groups")  # in the order of the upgrades
KUBE_VERSION = "1.37.2"
RELEASE = "rel"
NAMESPACE = "ml"


class HelmError(Exception):
    """Helm failed; the message is what it said."""


class Helm:
    """Helm, with directories of its own.

    Parameters
    ----------
    program : Path
        The program.
    directory : Path
        For its caches.
    """

    def __init__(self, program: Path, directory: Path) -> None:
        self._program = program
        self._env = {
            **os.environ,
            "HELM_CACHE_HOME": str(directory / "cache"),
            "HELM_CONFIG_HOME": str(directory / "config"),
            "HELM_DATA_HOME": str(directory / "data"),
        }

    def run(self, *args: str, kubeconfig: Path | None = None) -> str:
        """Run it.

        Returns
        -------
        str
            What it printed.
        """
        env = dict(self._env)
        if kubeconfig is not None:
            env["KUBECONFIG"] = str(kubeconfig)
        done = subprocess.run([self._program, *args], env=env, capture_output=True, text=True)
        if done.returncode != 0:
            raise HelmError((done.stderr + done.stdout).strip())
        return done.stdout

    def lint(self, values: Path) -> None:
        """`helm lint --strict`."""
        self.run("lint", "--strict", f"--kube-version={KUBE_VERSION}", str(CHART), f"-f{values}")

    def render(self, values: Path, namespace: str = NAMESPACE) -> str:
        """The objects of a release, tests included, without lines that are blank."""
        text = self.run(
            "template",
            RELEASE,
            str(CHART),
            f"--namespace={namespace}",
            f"--kube-version={KUBE_VERSION}",
            f"-f{values}",
        )
        return re.sub(r"[ \t]*\n(?:[ \t]*\n)*", "\n", text)


def values_of(name: str) -> Path:
    """The values file of a set."""
    return CHART / "ci" / f"{name}-values.yaml"


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of a rendering."""
    return [d for d in yaml.safe_load_all(text) if d is not None]
