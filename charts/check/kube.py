"""An API server of Kubernetes on an etcd, both of our own: it checks and keeps objects, and runs no pod."""

import contextlib
import json
import secrets
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

START_SECONDS = 300  # only bounds a start that hangs


class ApiError(Exception):
    """The API server refused something."""


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


class Api:
    """Requests to an API server.

    Attributes
    ----------
    kubeconfig : Path
        For programs that talk to it.
    """

    def __init__(self, port: int, directory: Path) -> None:
        self._url = f"https://127.0.0.1:{port}"
        self._token = secrets.token_hex(16)
        self._tls = ssl.create_default_context()
        self._tls.check_hostname = False
        self._tls.verify_mode = ssl.CERT_NONE  # it made its certificate when it started
        self.warning = ""
        self._resources: dict[tuple[str, str], tuple[str, bool]] = {}
        self.tokens = directory / "tokens.csv"
        self.tokens.write_text(f"{self._token},admin,admin,system:masters\n")
        self.kubeconfig = directory / "kubeconfig"
        self.kubeconfig.write_text(
            yaml.safe_dump(
                {
                    "apiVersion": "v1",
                    "kind": "Config",
                    "current-context": "check",
                    "clusters": [
                        {
                            "name": "check",
                            "cluster": {"server": self._url, "insecure-skip-tls-verify": True},
                        }
                    ],
                    "users": [{"name": "check", "user": {"token": self._token}}],
                    "contexts": [
                        {"name": "check", "context": {"cluster": "check", "user": "check"}}
                    ],
                }
            )
        )
        self.kubeconfig.chmod(0o600)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A request, its answer as JSON; `warning` is what the server warned of.

        Raises
        ------
        ApiError
            It was refused; the message is the server's.
        """
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=60) as answer:
                text = answer.read()
                self.warning = str(answer.headers.get("Warning") or "")
        except urllib.error.HTTPError as e:
            said = e.read().decode(errors="replace")
            with contextlib.suppress(ValueError, KeyError):
                said = json.loads(said)["message"]
            raise ApiError(f"{method} {path}: {said}") from e
        return json.loads(text) if text.startswith(b"{") else text.decode()

    def kinds(self) -> dict[tuple[str, str], tuple[str, bool]]:
        """(apiVersion, kind) -> (path of its resource, whether it is in a namespace), of what can be listed."""
        if not self._resources:
            groups = [("/api/v1", "v1")]
            for group in self.call("GET", "/apis")["groups"]:
                groups += [
                    (f"/apis/{v['groupVersion']}", v["groupVersion"]) for v in group["versions"]
                ]
            for path, version in groups:
                for r in self.call("GET", path)["resources"]:
                    if "/" not in r["name"] and "list" in r["verbs"]:
                        self._resources[version, r["kind"]] = (
                            f"{path}/%s{r['name']}",
                            r["namespaced"],
                        )
        return self._resources

    def path(self, document: dict[str, Any], namespace: str) -> str:
        """Where objects of that kind are.

        Raises
        ------
        ApiError
            There is no such kind.
        """
        key = (document["apiVersion"], document["kind"])
        if key not in self.kinds():
            raise ApiError(f"there is no kind {key[1]} of {key[0]}")
        path, namespaced = self.kinds()[key]
        return path % (f"namespaces/{namespace}/" if namespaced else "")

    def check(self, document: dict[str, Any], namespace: str, may_warn: str = "") -> None:
        """Have an object judged, fields it does not know or that come twice included, and not kept.

        Parameters
        ----------
        document : dict[str, Any]
            The object.
        namespace : str
            Where it would be.
        may_warn : str
            What a warning may say. Any other is a refusal.
        """
        self.call(
            "POST", self.path(document, namespace) + "?dryRun=All&fieldValidation=Strict", document
        )

    def names(self, namespace: str) -> set[str]:
        """kind/name of everything in a namespace but Helm's own records and events."""
        found = set()
        for (_, kind), (path, namespaced) in self.kinds().items():
            if namespaced and kind != "Event":
                for item in self.call("GET", path % f"namespaces/{namespace}/")["items"]:
                    if not str(item.get("type", "")).startswith("helm.sh/"):
                        found.add(f"{kind}/{item['metadata']['name']}")
        return found

    def make_namespace(self, name: str) -> None:
        """A namespace that lets in only pods of the standard "restricted"."""
        labels = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.call(
            "POST",
            "/api/v1/namespaces",
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}},
        )

    def define(self, file: Path) -> None:
        """Define a foreign kind, and wait until it is served."""
        document = yaml.safe_load(file.read_text())
        at = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        self.call("POST", at, document)
        name = document["metadata"]["name"]
        until = time.monotonic() + START_SECONDS
        while True:
            conditions = self.call("GET", f"{at}/{name}").get("status", {}).get("conditions") or []
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                return
            if time.monotonic() > until:
                raise ApiError(f"{name} is not served")
            time.sleep(0.1)

    def wait(self, server: "subprocess.Popen[bytes]", log: Path) -> None:
        """Until the server serves.

        Raises
        ------
        ApiError
            It ended, or did not come up.
        """
        until = time.monotonic() + START_SECONDS
        while True:
            with contextlib.suppress(ApiError, OSError):
                self.call("GET", "/readyz")
                return
            if server.poll() is not None or time.monotonic() > until:
                raise ApiError("kube-apiserver did not start:\n" + log.read_text()[-3000:])
            time.sleep(0.2)


@contextlib.contextmanager
def _running(argv: list[str], log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def server(apiserver: Path, directory: Path) -> Iterator[Api]:
    """Run the two for as long as the context lasts.

    Parameters
    ----------
    apiserver : Path
        The program.
    directory : Path
        For their data and logs.
    """
    etcd_port, peer_port, port = _free_port(), _free_port(), _free_port()
    key = directory / "service-accounts.key"
    subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True)
    api = Api(port, directory)
    etcd = [
        "etcd",
        f"--data-dir={directory / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{etcd_port}",
        f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
        f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
    ]
    serve = [
        str(apiserver),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={directory / 'certificates'}",
        f"--token-auth-file={api.tokens}",
        "--authorization-mode=AlwaysAllow",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={key}",
        f"--service-account-signing-key-file={key}",
        "--disable-admission-plugins=ServiceAccount",  # no controller makes them
    ]
    log = directory / "apiserver.log"
    with _running(etcd, directory / "etcd.log"), _running(serve, log) as process:
        api.wait(process, log)
        yield api
