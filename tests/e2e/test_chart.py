"""The servers run with the arguments that the Helm chart gives them, and `helm test` finds them."""

import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.error
import urllib.request
import uuid

import pytest

from conftest import free_port, wait_until
from millrace._capi import ffi as _ffi

yaml = pytest.importorskip("yaml", reason="python3-yaml is not installed")

PROGRAM = _ffi.program_path()
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "charts/check/golden"


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120)


def containers(name):
    """Component -> arguments of its container; of workers those of the first group."""
    found = {}
    for document in yaml.safe_load_all((GOLDEN / f"{name}.yaml").read_text()):
        spec = (document or {}).get("spec") or {}
        pod = spec.get("template", {}).get("spec", spec)
        for container in pod.get("containers", ()):
            found.setdefault(container["args"][0], container["args"])
    return found


class Secrets:
    """What the chart mounts below /etc/millrace, as files of a directory."""

    def __init__(self, directory):
        self.directory = directory
        made = run("certs", f"--out={directory}")
        assert made.returncode == 0, made.stderr
        access = json.loads((directory / "access.json").read_text())
        tokens = [self._token("worker", "worker"), self._token("status", "read")]
        worker = next(i["spiffe"] for i in access["identities"] if i["roles"] == ["worker"])
        dispatcher = worker.replace("/worker", "/dispatcher")
        access["identities"] = [i for i in access["identities"] if i.get("spiffe") != dispatcher]
        # The same certificate is the client's, too.
        access["identities"] += [
            *tokens,
            {"name": "servers", "roles": ["read"], "spiffe": dispatcher},
        ]
        (directory / "access.json").write_text(json.dumps(access))
        (directory / "metrics.token").write_text("0123456789abcdef\n")

    def _token(self, program, role):
        out = self.directory / f"{program}.token"
        made = run("token", f"--out={out}", f"--name=chart-{program}", f"--roles={role}")
        assert made.returncode == 0, made.stderr
        return json.loads(made.stdout)

    def file(self, program, path):
        """The file that stands for one of the chart's."""
        pair = "worker" if program == "worker" else "dispatcher"
        token = "status" if program == "status" else "worker"
        return (
            self.directory
            / {
                "tls/ca.crt": "ca.pem",
                "tls/tls.crt": f"{pair}.pem",
                "tls/tls.key": f"{pair}.key",
                "token/token": f"{token}.token",
                "access/access.json": "access.json",
                "metrics-token/token": "metrics.token",
            }[path.removeprefix("/etc/millrace/")]
        )


def local(args, secrets, etcd, cluster, ports, cache):
    """The same arguments for this machine: its names, ports and files. etcd has neither TLS nor users here."""
    program, *options = args
    out = [program]
    for option in options:
        name, _, value = option.partition("=")
        if name.startswith("--etcd-"):
            continue
        if name == "--cluster":
            value = cluster
        elif name == "--cache-dir":
            value = str(cache)
        elif name in ("--dispatcher", "--service"):
            value = f"127.0.0.1:{ports['dispatcher']}"
        elif name == "--advertise-address":
            value = f"127.0.0.1:{ports[program]}"
        elif name == "--listen":
            value = re.sub(r"\d+$", str(ports[program]), value)
        elif name == "--metrics-address":
            value = re.sub(r"\d+$", str(ports[f"{program}-metrics"]), value)
        elif value.startswith("/etc/millrace/"):
            value = str(secrets.file(program, value))
        out.append(f"{name}={value}" if value else name)
    if program == "dispatcher":
        out.append(f"--etcd-endpoints={etcd.endpoint}")
    return out


def get(url, token=""):
    """The status of an answer; 0 if there is none."""
    request = urllib.request.Request(url, headers={"Authorization": token} if token else {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as e:
        return e.code
    except OSError:
        return 0


@pytest.fixture
def start():
    """Start a server that ends with the test, and with this process."""
    started = []

    def start(args):
        process = subprocess.Popen([PROGRAM, *args, f"--owner-pid={os.getpid()}"])
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


@pytest.mark.parametrize("name", ["insecure", "secure", "monitored", "groups"])
def test_servers_of_the_chart_serve(name, start, etcd, tmp_path):
    secrets = Secrets(tmp_path / "secrets")
    ports = {
        f"{program}{what}": free_port()
        for program in ("dispatcher", "worker")
        for what in ("", "-metrics")
    }
    args = containers(name)
    cluster = f"t-{uuid.uuid4().hex[:12]}"
    servers = []
    for program in ("dispatcher", "worker"):
        options = local(args[program], secrets, etcd, cluster, ports, tmp_path / "cache")
        at = f"http://127.0.0.1:{ports[f'{program}-metrics']}"
        process = start(options)
        servers.append(process)
        # What the kubelet asks, which has no token.
        for probe in ("healthz", "readyz"):
            wait_until(
                lambda: process.poll() is not None or get(f"{at}/{probe}") == 200,
                f"/{probe} of the {program}",
            )
        assert process.poll() is None
        guarded = any(o.startswith("--metrics-token-file") for o in options)
        assert get(f"{at}/metrics") == (401 if guarded else 200)
        assert get(f"{at}/metrics", "Bearer 0123456789abcdef") == 200
    test = local(args["status"], secrets, etcd, cluster, ports, None)
    done = run(*test, "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["workers"]) == 1
    for process in reversed(servers):
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
