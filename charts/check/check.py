"""`make chart-check`: the chart as Helm and as an API server of Kubernetes see it.

Everything here needs Go, once: Helm and kube-apiserver are built from their modules. What needs none
is in tests/charts and part of `make check`.
"""

import argparse
import concurrent.futures
import contextlib
import difflib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import helm
import kube
import tools
import yaml

HERE = Path(__file__).resolve().parent


class CheckError(Exception):
    """The chart is not as it should be."""


def lint(run: helm.Helm) -> None:
    """`helm lint --strict` with each set of values."""
    for name in helm.SETS:
        run.lint(helm.values_of(name))


def golden(run: helm.Helm, write: bool) -> None:
    """What is rendered is what was reviewed.

    Raises
    ------
    CheckError
        A rendering differs from its file.
    """
    differing = []
    for name in helm.SETS:
        file = HERE / "golden" / f"{name}.yaml"
        text = run.render(helm.values_of(name))
        before = file.read_text() if file.exists() else ""
        if write:
            file.write_text(text)
        elif text != before:
            differing.append(name)
            sys.stdout.writelines(
                difflib.unified_diff(
                    before.splitlines(True), text.splitlines(True), str(file), "now"
                )
            )
    if differing:
        raise CheckError(f"not as in charts/check/golden: {', '.join(differing)}; --write if meant")


def refusals(run: helm.Helm, scratch: Path) -> None:
    """Values that contradict each other are refused with a sentence that says what to set.

    Raises
    ------
    CheckError
        They were taken, or something else was said.
    """
    for case in yaml.safe_load((HERE / "refused.yaml").read_text()):
        file = scratch / "refused.yaml"
        file.write_text(yaml.safe_dump(case["values"]))
        try:
            run.render(file)
        except helm.HelmError as e:
            if case["says"] not in str(e):
                raise CheckError(f"{case['values']}: not {case['says']!r} but {e}") from e
        else:
            raise CheckError(f"{case['values']}: taken; {case['says']!r} was expected")


def expressions(run: helm.Helm, scratch: Path) -> None:
    """Prometheus can evaluate the alerts, and what the panels of the dashboard ask.

    Raises
    ------
    CheckError
        An expression is wrong.
    """
    groups: list[dict[str, Any]] = []
    for document in helm.documents(run.render(helm.values_of("monitored"))):
        if document["kind"] == "PrometheusRule":
            groups += document["spec"]["groups"]
        if document["kind"] == "ConfigMap" and "millrace.json" in document["data"]:
            panels = json.loads(document["data"]["millrace.json"])["panels"]
            targets = [target for panel in panels for target in panel["targets"]]
            rules = [{"record": f"panel:{i}", "expr": t["expr"]} for i, t in enumerate(targets)]
            groups.append({"name": "dashboard", "rules": rules})
    if len(groups) != 2:
        raise CheckError(f"{len(groups)} groups of expressions; alerts and panels are expected")
    file = scratch / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": groups}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    if done.returncode != 0:
        raise CheckError(done.stderr + done.stdout)


def _pod(workload: dict[str, Any]) -> dict[str, Any]:
    """The pod that a workload would make."""
    template = workload["spec"]["template"]
    claims = workload["spec"].get("volumeClaimTemplates", ())
    volumes = [
        {"name": c["metadata"]["name"], "persistentVolumeClaim": {"claimName": "c"}} for c in claims
    ]
    spec = {**template["spec"], "volumes": [*template["spec"].get("volumes", ()), *volumes]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": "p"},
        "spec": spec,
    }


def judged(api: kube.Api, run: helm.Helm, name: str, namespace: str) -> None:
    """The server takes each object, and each pod that the workloads would make as "restricted"."""
    for document in helm.documents(run.render(helm.values_of(name), namespace)):
        if document["kind"] not in ("StatefulSet", "Deployment"):
            api.check(document, namespace)
            continue
        pod = _pod(document)
        if any("hostPath" in v for v in pod["spec"]["volumes"]):  # not "restricted", and meant
            api.check(document, namespace, may_warn='uses restricted volume type \\"hostPath\\"')
        else:
            api.check(document, namespace)
            api.check(pod, namespace)


def _expect(api: kube.Api, namespace: str, run: helm.Helm, name: str | None) -> None:
    """What is in the namespace is what the values ask for."""
    wanted = set()
    if name is not None:
        for d in helm.documents(run.render(helm.values_of(name), namespace)):
            if "helm.sh/hook" not in d["metadata"].get("annotations", {}):
                wanted.add(f"{d['kind']}/{d['metadata']['name']}")
    there = api.names(namespace)
    if there != wanted:
        raise CheckError(
            f"{name or 'uninstalled'}: missing {sorted(wanted - there)}, left {sorted(there - wanted)}"
        )


def tested(api: kube.Api, run: helm.Helm) -> None:
    """`helm test` makes its pod, takes the pod's end for the answer, and removes a pod that succeeded.

    No kubelet runs the pod: its end is written for it. tests/e2e/test_chart.py runs what it would.
    """
    pod = f"/api/v1/namespaces/{helm.NAMESPACE}/pods/{helm.RELEASE}-millrace-test"
    args = ["test", helm.RELEASE, f"--namespace={helm.NAMESPACE}", "--timeout=5m"]
    for phase in ("Failed", "Succeeded"):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(run.run, *args, kubeconfig=api.kubeconfig)
            while not answer.done():
                with contextlib.suppress(kube.ApiError):  # not there yet, or not any more
                    document = api.call("GET", pod)
                    if document["status"]["phase"] == "Pending":
                        document["status"]["phase"] = phase
                        api.call("PUT", f"{pod}/status", document)
                time.sleep(0.1)
            if (answer.exception() is None) != (phase == "Succeeded"):
                raise CheckError(f"helm test, and a pod that {phase}: {answer.exception()}")


def installed(api: kube.Api, run: helm.Helm) -> None:
    """Each set alone, then one release through all of them; what is uninstalled leaves nothing."""
    where = [f"--namespace={helm.NAMESPACE}"]

    def do(verb: str, name: str, *more: str) -> None:
        values = [str(helm.CHART), f"-f{helm.values_of(name)}", *more]
        run.run(verb, helm.RELEASE, *values, *where, kubeconfig=api.kubeconfig)
        _expect(api, helm.NAMESPACE, run, name)

    def uninstall() -> None:
        run.run("uninstall", helm.RELEASE, *where, kubeconfig=api.kubeconfig)
        _expect(api, helm.NAMESPACE, run, None)

    api.make_namespace(helm.NAMESPACE)
    for name in helm.SETS:
        judged(api, run, name, helm.NAMESPACE)
        do("install", name)
        if name == helm.SETS[0]:
            tested(api, run)
            _expect(api, helm.NAMESPACE, run, name)
        uninstall()
        print(f"chart-check: {name}: judged, installed, uninstalled", flush=True)
    same = "--set=clusterName=vision"
    do("install", helm.SETS[0], same)
    for name in helm.SETS[1:]:
        do("upgrade", name, same)
        print(f"chart-check: upgraded to {name}", flush=True)
    try:
        do("upgrade", helm.SETS[-1], "--set=clusterName=speech")
    except helm.HelmError as e:
        if "this release runs cluster 'vision'" not in str(e):
            raise
    else:
        raise CheckError("an upgrade renamed the cluster, whose state is lost then")
    uninstall()


def main() -> int:
    """Run the checks.

    Returns
    -------
    int
        The exit status.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", type=Path, required=True, help="directory of the programs built")
    parser.add_argument("--write", action="store_true", help="write the golden files anew")
    parser.add_argument("--no-server", action="store_true", help="Helm alone: no API server")
    args = parser.parse_args()
    try:
        args.tools.mkdir(parents=True, exist_ok=True)
        directory = args.tools.resolve()
        tools.need("promtool")
        if not (directory / "helm").exists():
            tools.need("go")
        with tempfile.TemporaryDirectory(prefix="millrace-chart-") as scratch:
            run = helm.Helm(tools.helm(directory), Path(scratch) / "helm")
            lint(run)
            golden(run, args.write)
            refusals(run, Path(scratch))
            expressions(run, Path(scratch))
            print(f"chart-check: Helm: ok ({len(helm.SETS)} sets of values)", flush=True)
            if not args.no_server:
                tools.need("etcd", "openssl")
                program, kinds = tools.apiserver(directory), tools.kinds(directory)
                with kube.server(program, Path(scratch)) as api:
                    for file in kinds:
                        api.define(file)
                    installed(api, run)
    except (CheckError, kube.ApiError, helm.HelmError, tools.ToolError) as e:
        print(f"chart-check: {e}", file=sys.stderr)
        return 1
    print("chart-check: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
