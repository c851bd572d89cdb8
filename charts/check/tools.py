"""Helm, an API server of Kubernetes and the definitions of foreign kinds, each from its Go module."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

HELM = ("helm.sh/helm/v3", "v3.22.0")
KUBERNETES = ("k8s.io/kubernetes", "v1.37.2")

# Kinds of others that the chart makes: a module, its version, files in it.
KINDS = (
    (
        "github.com/prometheus-operator/prometheus-operator",
        "v0.85.0",
        (
            "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        ),
    ),
    (
        "github.com/cert-manager/cert-manager",
        "v1.21.2",
        ("deploy/crds/cert-manager.io_certificates.yaml",),
    ),
    (
        "github.com/kedacore/keda/v2",
        "v2.21.0",
        (
            "config/crd/bases/keda.sh_scaledobjects.yaml",
            "config/crd/bases/keda.sh_triggerauthentications.yaml",
        ),
    ),
)


class ToolError(Exception):
    """A tool cannot be had."""


def _go(*args: str, cwd: Path, **env: str) -> str:
    """Run go with one job, so that a small machine stays usable.

    Returns
    -------
    str
        What it printed.
    """
    done = subprocess.run(
        ["nice", "go", *args],
        cwd=cwd,
        env={**os.environ, "GOFLAGS": "-p=1 -trimpath", "CGO_ENABLED": "0", **env},
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        raise ToolError(f"go {' '.join(args[:2])} failed in {cwd}")
    return done.stdout


def _module(module: str, version: str, cwd: Path) -> Path:
    """Where the files of a module are."""
    answer = json.loads(_go("mod", "download", "-json", f"{module}@{version}", cwd=cwd))
    return Path(answer["Dir"])


def _stamped(program: Path, version: str) -> bool:
    """Whether a program of that version was built already."""
    stamp = program.with_suffix(".version")
    return program.exists() and stamp.exists() and stamp.read_text() == version


def _built(program: Path, version: str) -> Path:
    program.with_suffix(".version").write_text(version)
    return program


def helm(tools: Path) -> Path:
    """Build Helm, if it is not there.

    Parameters
    ----------
    tools : Path
        The directory of the programs.
    """
    program = tools / "helm"
    module, version = HELM
    if not _stamped(program, version):
        print(f"chart-check: building helm {version} (minutes)", flush=True)
        _go(
            "install", "-ldflags=-s -w", f"{module}/cmd/helm@{version}", cwd=tools, GOBIN=str(tools)
        )
        _built(program, version)
    return program


def apiserver(tools: Path) -> Path:
    """Build kube-apiserver, if it is not there.

    Its module replaces those that are made of it by directories that it does not carry: a module
    around it says where they are published.
    """
    program = tools / "kube-apiserver"
    module, version = KUBERNETES
    if _stamped(program, version):
        return program
    print(f"chart-check: building kube-apiserver {version} (a quarter of an hour)", flush=True)
    around = tools / "apiserver"
    around.mkdir(exist_ok=True)
    text = (_module(module, version, tools) / "go.mod").read_text()
    go = re.search(r"^go (\S+)$", text, re.M)
    parts = sorted(set(re.findall(r"^\s*(?:replace )?(k8s\.io/\S+) => \./staging", text, re.M)))
    parts += [p for p in re.findall(r"^\s+(k8s\.io/\S+) v0\.0\.0$", text, re.M) if p not in parts]
    published = version.replace("v1.", "v0.", 1)
    lines = [f"module apiserver\n\ngo {go.group(1) if go else '1.26'}\n"]
    lines += [f"require {module} {version}\n"]
    lines += [f"replace {part} => {part} {published}" for part in parts]
    (around / "go.mod").write_text("\n".join(lines) + "\n")
    (around / "tools.go").write_text(
        f'//go:build tools\n\npackage tools\n\nimport _ "{module}/cmd/kube-apiserver"\n'
    )
    at = "k8s.io/component-base/version"
    major, minor = version[1:].split(".")[:2]
    says = f"-X {at}.gitVersion={version} -X {at}.gitMajor={major} -X {at}.gitMinor={minor}"
    _go(
        "build",
        "-mod=mod",
        f"-ldflags=-s -w {says}",
        f"-o={program}",
        f"{module}/cmd/kube-apiserver",
        cwd=around,
    )
    return _built(program, version)


def kinds(tools: Path) -> list[Path]:
    """The files that define the foreign kinds, copied below the directory of tools."""
    files = []
    for module, version, paths in KINDS:
        for path in paths:
            to = tools / f"{version}-{Path(path).name}"
            if not to.exists():
                shutil.copyfile(_module(module, version, tools) / path, to)
            files.append(to)
    return files


def need(*programs: str) -> None:
    """Say what is missing.

    Raises
    ------
    ToolError
        One of the programs is not installed.
    """
    for program in programs:
        if shutil.which(program) is None:
            hint = (
                "Go 1.26 or later" if program == "go" else "`ALERTS=1 scripts/deps.sh` installs it"
            )
            raise ToolError(f"{program} is not installed: {hint}")
