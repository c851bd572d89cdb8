"""
Hostile peers attack a dispatcher and a worker, plain ones and such with TLS, and a reader reads on.
"""

import datetime
import itertools
import json
import os
import pathlib
import ssl
import subprocess

import pytest

import hostile
from conftest import wait_until
from members import PROGRAM, Program, read_an_epoch

DESCRIPTORS = 512
MEMORY_BYTES = 400 << 20  # more than both servers may need for what has not arrived completely
TELL_S = 10  # at least, between two lines about calls that are refused
FLOODS = 3  # of those that cost the server some time each

QUICK = (
    hostile.say_nothing,
    hostile.greet_a_byte_at_a_time,
    hostile.talk_nonsense,
    hostile.talk_nonsense_later,
    hostile.send_frames_that_are_too_large,
    hostile.send_headers_that_are_too_large,
    hostile.send_beyond_the_window,
    hostile.say_what_is_no_message,
)
COSTLY = (
    hostile.begin_calls_without_a_message,
    hostile.take_back_calls,
    hostile.send_what_is_no_call,
)
# What a server says when it hangs up on one.
SAID = {
    hostile.take_back_calls: "a peer takes back the calls that it makes, ending its connection",
    hostile.send_what_is_no_call: "a peer sends so much that is no call that others wait",
}
PATHS = ("/millrace.Dispatcher/Status", "/millrace.Worker/Read")


class Servers:
    """
    A dispatcher and a worker, which nobody takes for dead while they are busy. With @secured they
    have what `millrace certs` made, and strangers have no token.
    """

    def __init__(self, directory, etcd, secured):
        self.certs = directory / "certs"
        cluster = directory.name  # its own, since the dispatcher's lease is long
        etcd.clusters.append(cluster)
        if secured:
            subprocess.run(
                [PROGRAM, "certs", f"--out={self.certs}"], check=True, capture_output=True
            )
        access = [f"--access-file={self.certs}/access.json"] if secured else []
        self.dispatcher = self._start(
            directory,
            "dispatcher",
            f"--etcd-endpoints={etcd.endpoint}",
            f"--cluster={cluster}",
            "--worker-timeout=60s",
            "--client-timeout=60s",
            "--lease-ttl=60s",
            *access,
        )
        self.worker = self._start(directory, "worker", f"--dispatcher={self.dispatcher.address}")
        self.both = (self.dispatcher, self.worker)

    def _start(self, directory, name, *arguments):
        tls = [
            f"--tls-ca={self.certs}/ca.pem",
            f"--tls-cert={self.certs}/{name}.pem",
            f"--tls-key={self.certs}/{name}.key",
        ]
        arguments += ("--listen=127.0.0.1:0", *(tls if self.certs.exists() else []))
        return Program(directory, name, name, *arguments, descriptors=DESCRIPTORS)

    def tls(self):
        """What a peer needs, who has no certificate; None: the servers are plain."""
        if not self.certs.exists():
            return None
        context = ssl.create_default_context(cafile=self.certs / "ca.pem")
        context.set_alpn_protocols(["h2"])
        return context

    @property
    def environment(self):
        """Of those who belong here."""
        if not self.certs.exists():
            return {}
        return {
            "MILLRACE_TLS_CA": str(self.certs / "ca.pem"),
            "MILLRACE_TOKEN_FILE": str(self.certs / "team.token"),
        }

    def read_an_epoch(self):
        read_an_epoch("grpc://" + self.dispatcher.address, "bystander", **self.environment)

    def stop(self):
        self.worker.stop()
        self.dispatcher.stop()


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def servers(request, etcd, tmp_path):
    servers = Servers(tmp_path, etcd, secured=request.param)
    yield servers
    servers.stop()


def descriptors(server):
    return len(os.listdir(f"/proc/{server.process.pid}/fd"))


def peak_bytes(server):
    status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
    [line] = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) << 10


@pytest.fixture
def attack(servers):
    """Begins one on both servers, and ends it with the test."""
    attacks = []

    def begin(hurt, turns=None):
        for server, path in zip(servers.both, PATHS):
            attacks.append(hostile.Attack(hurt, server.address, path, servers.tls(), turns))
        return attacks

    yield begin
    for one in attacks:
        one.stop()


def wait_for_turns(attacks, n):
    wait_until(
        lambda: all(one.check() and one.turns >= n for one in attacks),
        lambda: f"the attacks have had {n} turns, not {[one.turns for one in attacks]}",
    )


def assert_told_now_and_then(server, text):
    """However many there were: the least between two lines of the log."""
    times = [datetime.datetime.fromisoformat(json.loads(x)["time"]) for x in server.lines(text)]
    for earlier, later in itertools.pairwise(times):
        assert (later - earlier).total_seconds() > TELL_S - 1


@pytest.mark.parametrize("hurt", QUICK, ids=lambda hurt: hurt.__name__)
def test_a_reader_reads_on(servers, attack, hurt):
    before = [(descriptors(server), peak_bytes(server)) for server in servers.both]
    attacks = attack(hurt)
    wait_for_turns(attacks, 2)
    servers.read_an_epoch()
    wait_for_turns(attacks, max(one.turns for one in attacks) + 1)  # It has gone on until now.
    for one in attacks:
        one.stop()
    for server, (open_before, peak_before) in zip(servers.both, before):
        assert peak_bytes(server) - peak_before < MEMORY_BYTES
        wait_until(
            lambda: descriptors(server) < open_before + hostile.CONNECTIONS,
            lambda: f"{open_before} descriptors are open again, not {descriptors(server)}",
        )
        assert_told_now_and_then(server, "refusing calls")
    if servers.certs.exists() and hurt is hostile.say_what_is_no_message:
        servers.dispatcher.wait_for("refusing calls", hostile.OTHER_HOST, "a token is needed")


@pytest.mark.parametrize("hurt", COSTLY, ids=lambda hurt: hurt.__name__)
def test_a_reader_reads_on_beside_a_flood(servers, attack, hurt):
    before = [peak_bytes(server) for server in servers.both]
    attacks = attack(hurt, turns=FLOODS)
    servers.read_an_epoch()
    wait_for_turns(attacks, FLOODS)
    for server, peak_before in zip(servers.both, before):
        assert peak_bytes(server) - peak_before < MEMORY_BYTES
        if hurt is hostile.take_back_calls:  # The others may get too little of a busy machine.
            server.wait_for(SAID[hurt])
        if hurt in SAID:
            assert len(server.lines(SAID[hurt])) <= FLOODS  # one for each that was ended


def test_who_says_nothing_is_let_go(servers):
    peers = [hostile.Peer(server.address) for server in servers.both]
    for peer in peers:
        peer.hear_the_end()
