"""
A cluster with TLS, tokens and roles: who gets in, who does not and is told why; files that are
renewed while everything runs; what a worker gives to whoever knows its address.
"""

import hashlib
import json
import os
import pathlib
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import pytest
from conftest import free_port, wait_until, with_parent

import millrace as mr
from millrace._capi import ffi as _ffi

PROGRAM = os.environ.get("MILLRACE_PROGRAM") or _ffi.program_path()
TOKENS = {name: f"{name}-" + "x" * 32 for name in ("read", "write", "worker", "admin")}
N = 1000


def program(*words, timeout=120, **environment):
    return subprocess.run(
        [PROGRAM, *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, **environment},
    )


def write(path, text):
    """As those do who renew files: the new one takes the old one's place at once."""
    next_one = path.with_name(path.name + ".next")
    next_one.write_text(text)
    next_one.replace(path)


class Secured:
    """Certificates, tokens of all roles, and a cluster that asks for them."""

    def __init__(self, directory, cluster):
        self.directory = directory
        made = program("certs", "--out", str(directory / "certs"))
        assert made.returncode == 0, made.stderr
        for role, token in TOKENS.items():
            (directory / role).write_text(token + "\n")
        self.write_access(TOKENS)
        self._make = cluster

    def file(self, name):
        return str(self.directory / name)

    def certificate(self, name):
        return self.file(f"certs/{name}.pem"), self.file(f"certs/{name}.key")

    def write_access(self, tokens, spiffe=(), quotas=None):
        """@tokens: of each role, as a dict or, where there are several, as pairs. @quotas: of
        roles."""
        write(
            self.directory / "access.json",
            json.dumps(
                {
                    "identities": [
                        {
                            "name": f"the-{role}",
                            "roles": [role],
                            "token_sha256": hashlib.sha256(token.encode()).hexdigest(),
                            **({"quota": quotas[role]} if role in (quotas or {}) else {}),
                        }
                        for role, token in (tokens.items() if isinstance(tokens, dict) else tokens)
                    ]
                    + [
                        {"name": f"cert-{i}", "roles": [role], "spiffe": uri}
                        for i, (role, uri) in enumerate(spiffe)
                    ]
                }
            ),
        )

    def tls(self, name):
        cert, key = self.certificate(name)
        return {
            "tls_ca_file": self.file("certs/ca.pem"),
            "tls_cert_file": cert,
            "tls_key_file": key,
        }

    def start(self, dispatcher=None, **worker):
        """One dispatcher and one worker."""
        cluster = self._make(
            workers=0,
            dispatchers=0,
            **self.tls("dispatcher"),
            access_file=self.file("access.json"),
            **(dispatcher or {}),
        )
        cluster.start_dispatcher()
        cluster.start_worker(**{**self.tls("worker"), "token_file": self.file("worker"), **worker})
        return cluster

    def arguments(self, role):
        return [f"--tls-ca={self.file('certs/ca.pem')}", f"--token-file={self.file(role)}"]


@pytest.fixture
def secured(tmp_path, make_cluster):
    yield Secured(tmp_path, make_cluster)
    mr.service.set_credentials()


def use(secured, role, **others):
    mr.service.set_credentials(
        ca_file=secured.file("certs/ca.pem"), token_file=secured.file(role), **others
    )


def read(cluster, job, n=N, mode="parallel_epochs"):
    ds = mr.Dataset.range(n).apply(mr.service.distribute(mode, cluster.service, job_name=job))
    return sorted(int(x) for x in ds.as_numpy_iterator())


def refusal(call):
    with pytest.raises(mr.errors.OpError) as caught:
        call()
    return caught.value


# ---- roles ----


def test_each_role_may_do_its_own(secured):
    cluster = secured.start()
    use(secured, "write")
    ds = mr.Dataset.range(N).apply(
        mr.service.distribute("parallel_epochs", cluster.service, job_name="shared")
    )
    started = iter(ds.as_numpy_iterator())
    assert next(started) == 0
    dataset = mr.service.register_dataset(cluster.service, mr.Dataset.range(N), dataset_id="named")

    use(secured, "read")
    joined = mr.service.from_dataset_id(
        "parallel_epochs", cluster.service, dataset, job_name="theirs"
    )
    error = refusal(lambda: next(iter(joined)))
    assert isinstance(error, mr.errors.PermissionDeniedError)
    assert "there is no job 'theirs', and starting one takes the role write" in str(error)
    error = refusal(lambda: read(cluster, "other"))
    assert "RegisterDataset: 'the-read' has the roles read, one of write is needed" in str(error)
    assert json.loads(mr.service.status(cluster.service))["jobs"]
    error = refusal(lambda: mr.service.delete_job(cluster.service, "shared", force=True))
    assert "DeleteJob: 'the-read' has the roles read, one of admin is needed" in str(error)

    use(secured, "worker")
    error = refusal(lambda: mr.service.status(cluster.service))
    assert "'the-worker' has the roles worker, one of read is needed" in str(error)

    use(secured, "write")
    mine = mr.service.from_dataset_id("parallel_epochs", cluster.service, dataset, job_name="mine")
    reader = iter(mine)
    next(reader)
    use(secured, "read")  # may join what somebody has started
    join = mr.service.from_dataset_id("parallel_epochs", cluster.service, dataset, job_name="mine")
    assert next(iter(join)) is not None

    use(secured, "admin")
    mr.service.delete_job(cluster.service, "shared", force=True)
    names = [job.get("name") for job in json.loads(mr.service.status(cluster.service))["jobs"]]
    assert "shared" not in names and "mine" in names


def test_a_quota_limits_what_its_owner_has(secured):
    secured.write_access(TOKENS, quotas={"write": {"jobs": 1, "datasets": 1, "weight": 200}})
    cluster = secured.start()
    use(secured, "write")

    ds = mr.Dataset.range(1 << 40).apply(
        mr.service.distribute("parallel_epochs", cluster.service, job_name="first")
    )
    first = ds.as_numpy_iterator()
    next(first)
    error = refusal(lambda: read(cluster, "second", 1 << 40))
    assert isinstance(error, mr.errors.ResourceExhaustedError)
    assert "'the-write' has 1 jobs at work, and the quota allows 1" in str(error)
    error = refusal(lambda: mr.service.register_dataset(cluster.service, mr.Dataset.range(7)))
    assert "'the-write' has 1 datasets" in str(error) and "access file" in str(error)

    use(secured, "admin")  # who has no quota, and is somebody else
    assert read(cluster, "second") == list(range(N))
    del first


def test_nobody_gets_in_who_does_not_belong(secured, tmp_path):
    cluster = secured.start()
    for arguments, said in (
        ([], "closed the connection: it may want TLS"),
        (secured.arguments("read")[:1], "a token is needed (--token-file, MILLRACE_TOKEN_FILE)"),
        ([f"--tls-ca={secured.file('certs/worker.pem')}"], "no authority that is trusted here"),
        (
            [*secured.arguments("read"), "--tls-server-name=elsewhere.example"],
            "does not name that host",
        ),
        (["--tls-cert=/does/not/exist", "--tls-key=x"], "/does/not/exist: No such file"),
        (["--tls-ca", secured.file("certs/ca.key")], "is not a certificate in PEM format"),
        (
            [f"--tls-cert={secured.certificate('worker')[0]}"]
            + [f"--tls-key={secured.certificate('dispatcher')[1]}"],
            "is not that of the certificate in",
        ),
        (["--token-file=/does/not/exist"], "/does/not/exist: No such file"),
    ):
        done = program("status", "--service", cluster.addresses, "--timeout=4s", *arguments)
        assert done.returncode != 0 and said in done.stderr, (arguments, done.stderr)
        assert len(done.stderr.splitlines()) <= 2, done.stderr
    (tmp_path / "wrong").write_text("nobody")
    done = program(
        "status", "--service", cluster.addresses, *secured.arguments("read"), "--token-file",
        str(tmp_path / "wrong"),
    )  # fmt: skip
    assert done.returncode == 5 and "the token is not one of the access file's" in done.stderr
    done = program("status", "--json", "--service", cluster.addresses, *secured.arguments("read"))
    assert done.returncode == 0 and json.loads(done.stdout)["workers"], done.stderr
    done = program(
        "status", "--json", "--service", f"grpcs://{cluster.addresses}",
        MILLRACE_TLS_CA=secured.file("certs/ca.pem"), MILLRACE_TOKEN_FILE=secured.file("read"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_worker_without_the_role_is_not_taken_on(secured):
    cluster = secured.start()
    use(secured, "read")
    assert len(cluster.status()["workers"]) == 1
    with pytest.raises(mr.errors.OpError, match="one of worker is needed"):
        cluster.start_worker(
            **secured.tls("worker"), token_file=secured.file("write"), dispatcher_timeout_ms=3000
        )
    assert len(cluster.status()["workers"]) == 1


# ---- certificates of clients ----


def test_a_certificate_is_an_identity(secured):
    secured.write_access(
        {},
        spiffe=[
            ("worker", "spiffe://millrace.test/millrace/worker"),
            ("write", "spiffe://millrace.test/millrace/dispatcher"),
        ],
    )
    cluster = secured.start(dispatcher={"tls_client_auth": "require"}, token_file=None)
    cert, key = secured.certificate("dispatcher")  # for want of another
    mr.service.set_credentials(ca_file=secured.file("certs/ca.pem"), cert_file=cert, key_file=key)
    assert read(cluster, "job") == list(range(N))
    mr.service.set_credentials(ca_file=secured.file("certs/ca.pem"))
    assert "it may want TLS or a certificate" in str(
        refusal(lambda: mr.service.status(cluster.service, timeout_ms=3000))
    )
    cert, key = secured.certificate("worker")
    mr.service.set_credentials(ca_file=secured.file("certs/ca.pem"), cert_file=cert, key_file=key)
    assert "'cert-0' has the roles worker, one of read is needed" in str(
        refusal(lambda: mr.service.status(cluster.service))
    )


# ---- renewed while everything runs ----


def shown(address, ca):
    """The certificate that a server shows to whoever connects now."""
    host, port = address.rsplit(":", 1)
    context = ssl.create_default_context(cafile=ca)
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    with socket.create_connection((host, int(port)), timeout=60) as plain:
        try:
            with context.wrap_socket(plain) as tls:
                return tls.getpeercert(binary_form=True)
        except (ssl.SSLError, ConnectionError):
            return None  # in the middle of being renewed


def test_certificates_are_renewed_under_a_reader(secured):
    cluster = secured.start()
    use(secured, "write")
    ds = mr.Dataset.range(N).apply(
        mr.service.distribute("parallel_epochs", cluster.service, job_name="job")
    )
    reader = iter(ds.as_numpy_iterator())
    got = [int(next(reader)) for _ in range(10)]
    ca = secured.file("certs/ca.pem")
    servers = (cluster.dispatchers[0].address, cluster.workers[0].address)
    before = [shown(address, ca) for address in servers]
    assert all(before) and len(set(before)) == 2
    made = program("certs", "--out", secured.file("certs"), "--renew")
    assert made.returncode == 0, made.stderr
    for address, old in zip(servers, before):
        wait_until(lambda: shown(address, ca) not in (None, old), f"{address} shows the new one")
    got += [int(x) for x in reader]
    assert sorted(got) == list(range(N))
    assert read(cluster, "another") == list(range(N))


def test_the_scheme_turns_tls_on(secured):
    cluster = secured.start()
    mr.service.set_credentials(token_file=secured.file("read"))
    address = f"grpcs://{cluster.addresses}"
    error = refusal(lambda: mr.service.status(address, timeout_ms=3000))
    assert "no authority that is trusted here has signed" in str(error)  # the system's
    use(secured, "write")
    ds = mr.Dataset.range(N).apply(
        mr.service.distribute("parallel_epochs", address, job_name="with-the-scheme")
    )
    assert sorted(int(x) for x in ds.as_numpy_iterator()) == list(range(N))


def test_tokens_are_renewed_without_a_restart(secured):
    """As an operator would: both are good, then everybody has the new one, then the old one goes."""
    cluster = secured.start()
    use(secured, "write")
    ds = mr.Dataset.range(N).apply(
        mr.service.distribute("distributed_epoch", cluster.service, job_name="job")
    )
    reader = iter(ds.as_numpy_iterator())
    got = [int(next(reader))]
    renewed = {role: token.upper() for role, token in TOKENS.items()}
    secured.write_access([*TOKENS.items(), *renewed.items()])
    for role, token in renewed.items():
        write(pathlib.Path(secured.file(role)), token)
    secured.write_access(renewed.items())
    (secured.directory / "old").write_text(TOKENS["read"])

    def old_is_refused():
        mr.service.set_credentials(
            ca_file=secured.file("certs/ca.pem"), token_file=secured.file("old")
        )
        try:
            mr.service.status(cluster.service)
        except mr.errors.UnauthenticatedError:
            return True
        return False

    wait_until(old_is_refused, "the old token is not good any more")
    use(secured, "read")
    [worker] = cluster.status()["workers"]
    assert not worker.get("lost")
    got += [int(x) for x in reader]
    assert sorted(got) == list(range(N))
    use(secured, "write")
    assert read(cluster, "another") == list(range(N))  # with tasks for the worker, by its new token


def test_an_access_file_that_goes_bad_changes_nothing(secured):
    cluster = secured.start()
    use(secured, "write")
    write(pathlib.Path(secured.file("access.json")), '{"identities": [')
    for job in ("one", "two"):
        assert read(cluster, job) == list(range(N))
    secured.write_access({"write": TOKENS["write"]})
    use(secured, "admin")

    def is_nobody():
        try:
            mr.service.status(cluster.service)
        except mr.errors.UnauthenticatedError:
            return True
        return False

    wait_until(is_nobody, "the file that is good again is read")


# ---- where servers listen ----


@pytest.mark.parametrize("listen", ["0.0.0.0:0", ":0", "[::]:0"])
def test_others_are_let_in_on_purpose(secured, listen):
    cert, key = secured.certificate("dispatcher")
    tls = [f"--tls-cert={cert}", f"--tls-key={key}"]
    wanted = "--tls-cert and --tls-key are not given"
    dispatcher = ["dispatcher", "--etcd-endpoints=127.0.0.1:1", f"--listen={listen}"]
    worker = ["worker", "--dispatcher=127.0.0.1:1", f"--listen={listen}"]
    for words, said in (
        (dispatcher, wanted),
        ([*dispatcher, "--access-file", secured.file("access.json")], wanted),
        ([*dispatcher, *tls], "--access-file is not given"),
        (worker, wanted),
    ):
        done = program(*words)
        assert done.returncode == 2 and said in done.stderr, (words, done.stderr)
        assert "--insecure" in done.stderr and "docs/run/security.md" in done.stderr


# ---- metrics ----


def metrics(port, token=None, path="/metrics"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_have_a_token_of_their_own(tmp_path, etcd):
    (tmp_path / "token").write_text("scrape-me\n")
    port = free_port()
    server = subprocess.Popen(
        with_parent(
            [
                PROGRAM,
                "dispatcher",
                f"--etcd-endpoints={etcd.endpoint}",
                "--cluster=metrics-token",
                "--listen=127.0.0.1:0",
                f"--metrics-address=127.0.0.1:{port}",
                f"--metrics-token-file={tmp_path}/token",
            ]
        ),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def answers():
        try:
            return metrics(port, path="/healthz")[0] == 200  # probes show nothing
        except OSError:
            return False

    try:
        wait_until(answers, "it serves")
        assert metrics(port)[0] == 401
        assert metrics(port, "scrape-mE")[0] == 401
        status, text = metrics(port, "scrape-me")
        assert status == 200 and "millrace_rpc_refused_total" in text
        write(tmp_path / "token", "another")
        wait_until(lambda: metrics(port, "another")[0] == 200, "the new token is good")
        assert metrics(port, "scrape-me")[0] == 401
    finally:
        server.kill()
        server.wait()


def test_a_token_file_that_is_none_is_an_error(tmp_path):
    (tmp_path / "empty").write_text("\n")
    done = program(
        "dispatcher", "--etcd-endpoints=127.0.0.1:1", "--listen=127.0.0.1:0",
        "--metrics-address=127.0.0.1:0", f"--metrics-token-file={tmp_path}/empty",
    )  # fmt: skip
    assert done.returncode == 2 and "a token of 1 to 1024 bytes is wanted" in done.stderr
