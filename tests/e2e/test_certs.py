"""millrace certs and millrace token: what OpenSSL and Python's TLS take the files for."""

import hashlib
import json
import ssl
import stat
import subprocess

import pytest

from members import PROGRAM

SERVERS = ("dispatcher", "worker")
SECRETS = {"ca.key", "dispatcher.key", "worker.key", "team.token", "admin.token", "access.json"}
PUBLIC = {"ca.pem", "dispatcher.pem", "worker.pem"}


def run(*args, cwd=None):
    return subprocess.run(
        [PROGRAM, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=cwd
    )


def certs(directory, *args):
    done = run("certs", f"--out={directory}", *args)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def openssl(*args):
    done = subprocess.run(["openssl", *args], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def verify(directory, role, *args):
    openssl(
        "verify", "-x509_strict", "-CAfile", f"{directory}/ca.pem", *args, f"{directory}/{role}.pem"
    )


def names_of(directory, role):
    text = openssl("x509", "-in", f"{directory}/{role}.pem", "-noout", "-ext", "subjectAltName")
    return text.splitlines()[1].strip().split(", ")


def contents(directory):
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def context(directory, role, purpose):
    """A side that shows the certificate of @role, and trusts the CA alone."""
    ctx = ssl.SSLContext(purpose)
    ctx.load_verify_locations(directory / "ca.pem")
    ctx.load_cert_chain(directory / f"{role}.pem", directory / f"{role}.key")
    ctx.verify_mode = ssl.CERT_REQUIRED
    return ctx


def shake_hands(server, client, host):
    """Both ways, in memory; the names that the client has shown."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    a = server.wrap_bio(up, down, server_side=True)
    b = client.wrap_bio(down, up, server_hostname=host)
    for _ in range(4):  # each says what it can say, until both are content
        for side in (b, a):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                pass
    return a.getpeercert()["subjectAltName"]


def test_one_call_makes_all_that_a_cluster_needs(tmp_path):
    out = tmp_path / "certs"
    said = certs(out, "--hosts=d-0,10.0.0.7", "--trust-domain=example.org")

    assert {path.name for path in out.iterdir()} == SECRETS | PUBLIC
    for path in out.iterdir():
        others_may = stat.S_IMODE(path.stat().st_mode) & 0o077
        assert bool(others_may) == (path.name in PUBLIC), path.name
    for role in SERVERS:
        assert names_of(out, role) == [
            "DNS:d-0",
            "IP Address:10.0.0.7",
            "DNS:localhost",
            "IP Address:127.0.0.1",
            "IP Address:0:0:0:0:0:0:0:1",
            f"URI:spiffe://example.org/millrace/{role}",
        ]
        for purpose in ("sslserver", "sslclient"):
            verify(out, role, "-purpose", purpose, "-verify_hostname", "d-0")
        verify(out, role, "-verify_ip", "10.0.0.7")
        assert f"--tls-cert {out}/{role}.pem" in said
        assert f"--tls-key {out}/{role}.key" in said
    assert "--advertise-address d-0:5050" in said


def test_servers_and_clients_take_them(tmp_path):
    certs(tmp_path)
    server = context(tmp_path, "dispatcher", ssl.PROTOCOL_TLS_SERVER)
    client = context(tmp_path, "worker", ssl.PROTOCOL_TLS_CLIENT)
    for host in ("localhost", "127.0.0.1", "::1"):
        shown = shake_hands(server, client, host)
        assert ("URI", "spiffe://millrace.test/millrace/worker") in shown
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(server, client, "d-0")


def test_the_access_file_knows_tokens_and_workers(tmp_path):
    certs(tmp_path, "--trust-domain=example.org")
    identities = {
        one.pop("name"): one
        for one in json.loads((tmp_path / "access.json").read_text())["identities"]
    }
    for name, roles in (("team", ["read", "write"]), ("admin", ["read", "write", "admin"])):
        token = (tmp_path / f"{name}.token").read_text().strip()
        hashed = hashlib.sha256(token.encode()).hexdigest()
        assert len(bytes.fromhex(token)) == 32
        assert identities.pop(name) == {"roles": roles, "token_sha256": hashed}
    assert identities == {
        "workers": {"roles": ["worker"], "spiffe": "spiffe://example.org/millrace/worker"},
        "dispatchers": {"roles": ["read"], "spiffe": "spiffe://example.org/millrace/dispatcher"},
    }


# ---- again ----


def test_nothing_that_is_there_is_replaced(tmp_path):
    certs(tmp_path)
    before = contents(tmp_path)
    done = run("certs", f"--out={tmp_path}")
    assert done.returncode == 6
    assert "has dispatcher.key already: --renew makes new certificates" in done.stderr
    assert contents(tmp_path) == before


def test_renewed_certificates_are_of_the_same_ca_and_names(tmp_path):
    certs(tmp_path, "--hosts=d-0", "--trust-domain=example.org")
    before = contents(tmp_path)
    names = {role: names_of(tmp_path, role) for role in SERVERS}
    old = context(tmp_path, "dispatcher", ssl.PROTOCOL_TLS_SERVER)

    certs(tmp_path, "--renew", "--days=30")
    after = contents(tmp_path)
    changed = {name for name in after if after[name] != before.get(name)}
    assert changed == {f"{role}.{kind}" for role in SERVERS for kind in ("key", "pem")}
    assert after.keys() == before.keys()
    for role in SERVERS:
        assert names_of(tmp_path, role) == names[role]
        verify(tmp_path, role)
    # One that has its old certificate still talks to one that has a new one.
    shake_hands(old, context(tmp_path, "worker", ssl.PROTOCOL_TLS_CLIENT), "d-0")


def test_renewed_certificates_are_for_other_hosts_if_these_are_named(tmp_path):
    certs(tmp_path, "--hosts=d-0", "--trust-domain=example.org")
    certs(tmp_path, "--renew", "--hosts=d-1")
    assert names_of(tmp_path, "worker") == [
        "DNS:d-1",
        "DNS:localhost",
        "IP Address:127.0.0.1",
        "IP Address:0:0:0:0:0:0:0:1",
        "URI:spiffe://example.org/millrace/worker",  # as the CA says
    ]


def test_somebody_s_own_ca_signs(tmp_path):
    openssl(
        *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "400", "-subj", "/O=Example"),
        *("-addext", "keyUsage=critical,keyCertSign"),
        *("-keyout", str(tmp_path / "ca.key"), "-out", str(tmp_path / "ca.pem")),
    )
    authority = (tmp_path / "ca.pem").read_bytes()
    certs(tmp_path, "--trust-domain=example.org")
    assert (tmp_path / "ca.pem").read_bytes() == authority
    for role in SERVERS:
        verify(tmp_path, role)
    done = run("certs", f"--out={tmp_path}", "--renew", "--days=401")
    assert done.returncode == 6
    assert "dispatcher.pem: the authority (CA) ends in 399 days" in done.stderr or (
        "dispatcher.pem: the authority (CA) ends in 400 days" in done.stderr
    )


def test_a_run_that_was_killed_leaves_nothing_in_the_way(tmp_path):
    left = tmp_path / "worker.key.new"
    left.write_text("half a k")
    left.chmod(0o644)
    certs(tmp_path)
    assert not left.exists()
    assert stat.S_IMODE((tmp_path / "worker.key").stat().st_mode) == 0o600


def test_what_cannot_be_stored_leaves_nothing_behind(tmp_path):
    (tmp_path / "access.json.new").mkdir()  # the last of them has no place
    done = run("certs", f"--out={tmp_path}")
    assert done.returncode == 1
    assert "access.json.new: " in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["access.json.new"]


# ---- mistakes ----


@pytest.mark.parametrize(
    "args, status, said",
    [
        (["--hosts=d-0:5050"], 2, "--hosts: 'd-0:5050' is no host name or IP address"),
        (["--hosts=a,*.b"], 2, "--hosts: '*.b' is no host name or IP address"),
        (["--hosts=" + ",".join(f"d-{i}" for i in range(70))], 2, "--hosts: more than 64 of them"),
        (["--trust-domain=Example.org"], 2, "--trust-domain 'Example.org': lower-case letters"),
        (["--days=0"], 2, "--days 0: must be from 1 to 3650"),
        (["--renew"], 3, "ca.pem: No such file or directory"),
        (["prod"], 2, "'prod' is not expected here"),
    ],
)
def test_mistakes_are_named_and_make_nothing(tmp_path, args, status, said):
    done = run("certs", f"--out={tmp_path}/certs", *args)
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_out_is_needed_and_its_parent_has_to_be_there(tmp_path):
    assert "--out is needed: directory to write to" in run("certs").stderr
    done = run("certs", f"--out={tmp_path}/a/b")
    assert (done.returncode, "a/b: No such file or directory" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    "cert, key, said",
    [
        ("ca.pem", None, "ca.key: No such file or directory"),
        (None, "ca.key", "ca.pem: No such file or directory"),
        ("ca.pem", "worker.key", "the key is not the certificate's"),
        ("worker.pem", "worker.key", "the certificate is not one of an authority (CA)"),
        ("access.json", "ca.key", "no certificate in PEM"),
        ("ca.pem", "access.json", "no private key in PEM that is not encrypted"),
    ],
)
def test_a_ca_that_is_none_is_refused(tmp_path, cert, key, said):
    good, out = tmp_path / "good", tmp_path / "out"
    certs(good)
    out.mkdir()
    if cert is not None:
        (out / "ca.pem").write_bytes((good / cert).read_bytes())
    if key is not None:
        (out / "ca.key").write_bytes((good / key).read_bytes())
    before = contents(out)
    done = run("certs", f"--out={out}")
    assert done.returncode != 0
    assert said in done.stderr
    assert contents(out) == before


def test_a_ca_of_another_trust_domain_is_named(tmp_path):
    certs(tmp_path, "--trust-domain=example.org")
    done = run("certs", f"--out={tmp_path}", "--renew", "--trust-domain=example.com")
    assert done.returncode == 6
    assert "is of the trust domain 'example.org', not 'example.com'" in done.stderr


# ---- millrace token ----


def test_a_token_is_for_its_owner_and_its_hash_for_the_access_file(tmp_path):
    path = tmp_path / "team-b.token"
    done = run("token", f"--out={path}", '--name=the "B" team', "--roles=read")
    assert done.returncode == 0
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    token = path.read_text().strip()
    assert json.loads(done.stdout) == {
        "name": 'the "B" team',
        "roles": ["read"],
        "token_sha256": hashlib.sha256(token.encode()).hexdigest(),
    }
    assert token not in done.stdout + done.stderr


def test_no_two_tokens_are_the_same_and_none_is_replaced(tmp_path):
    for name in ("a", "b"):
        assert run("token", f"--out={name}.token", f"--name={name}", cwd=tmp_path).returncode == 0
    first = (tmp_path / "a.token").read_text()
    assert first != (tmp_path / "b.token").read_text()
    done = run("token", "--out=a.token", "--name=a", cwd=tmp_path)
    assert (done.returncode, "a.token is there" in done.stderr) == (6, True)
    assert (tmp_path / "a.token").read_text() == first


@pytest.mark.parametrize(
    "args, said",
    [
        (["--name=a", "--roles=read,admn"], "no role 'admn': did you mean admin; there are read,"),
        (["--name=a", "--roles=read,"], "no role ''; there are read, write, worker and admin"),
        ([], "--name is needed: whom it is for"),
        (["--name=\udcff"], "it is no text in UTF-8"),
    ],
)
def test_mistakes_of_tokens(tmp_path, args, said):
    done = run("token", f"--out={tmp_path}/x", *args)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == []
