"""Hostile peers attack a dispatcher and a worker, and a reader reads on."""

import os
import pathlib

import pytest

import hostile
from conftest import wait_until
from members import Program, read_an_epoch

DESCRIPTORS = 512
MEMORY_BYTES = 400 << 20  # more than both servers may need for what has not arrived completely
FLOODS = 3  # of those that cost the server some time each

QUICK = (
    hostile.say_nothing,
    hostile.greet_a_byte_at_a_time,
    hostile.talk_nonsense,
    hostile.talk_nonsense_later,
    hostile.send_frames_that_are_too_large,
    hostile.send_beyond_the_window,
    hostile.begin_calls_without_a_message,
    hostile.say_what_is_no_message,
)
# What the server says when it hangs up on one.
COSTLY = {
    hostile.take_back_calls: "a peer takes back the calls that it makes, ending its connection",
    hostile.send_what_is_no_call: "a peer sends so much that is no call that others wait",
}
PATHS = ("/millrace.Dispatcher/Status", "/millrace.Worker/Read")


@pytest.fixture
def servers(etcd, tmp_path):
    """A dispatcher and a worker, which nobody takes for dead while they are busy."""
    cluster = tmp_path.name  # its own, since the dispatcher's lease is long
    etcd.clusters.append(cluster)
    dispatcher = Program(
        tmp_path,
        "dispatcher",
        "dispatcher",
        "--listen=127.0.0.1:0",
        f"--etcd-endpoints={etcd.endpoint}",
        f"--cluster={cluster}",
        "--worker-timeout=60s",
        "--client-timeout=60s",
        "--lease-ttl=60s",
        descriptors=DESCRIPTORS,
    )
    worker = Program(
        tmp_path,
        "worker",
        "worker",
        f"--dispatcher={dispatcher.address}",
        "--listen=127.0.0.1:0",
        descriptors=DESCRIPTORS,
    )
    yield dispatcher, worker
    worker.stop()
    dispatcher.stop()


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
        for server, path in zip(servers, PATHS):
            attacks.append(hostile.Attack(hurt, server.address, path, turns=turns))
        return attacks

    yield begin
    for one in attacks:
        one.stop()


def wait_for_turns(attacks, n):
    wait_until(
        lambda: all(one.check() and one.turns >= n for one in attacks),
        lambda: f"the attacks have had {n} turns, not {[one.turns for one in attacks]}",
    )


@pytest.mark.parametrize("hurt", QUICK, ids=lambda hurt: hurt.__name__)
def test_a_reader_reads_on(servers, attack, hurt):
    before = [(descriptors(server), peak_bytes(server)) for server in servers]
    attacks = attack(hurt)
    wait_for_turns(attacks, 2)
    read_an_epoch("grpc://" + servers[0].address, "bystander")
    wait_for_turns(attacks, max(one.turns for one in attacks) + 1)  # It has gone on until now.
    for one in attacks:
        one.stop()
    for server, (open_before, peak_before) in zip(servers, before):
        assert peak_bytes(server) - peak_before < MEMORY_BYTES
        wait_until(
            lambda: descriptors(server) < open_before + hostile.CONNECTIONS,
            lambda: f"{open_before} descriptors are open again, not {descriptors(server)}",
        )


@pytest.mark.parametrize("hurt", COSTLY, ids=lambda hurt: hurt.__name__)
def test_a_reader_reads_on_beside_a_flood(servers, attack, hurt):
    before = [peak_bytes(server) for server in servers]
    attacks = attack(hurt, turns=FLOODS)
    read_an_epoch("grpc://" + servers[0].address, "bystander")
    wait_for_turns(attacks, FLOODS)
    for server, peak_before in zip(servers, before):
        assert peak_bytes(server) - peak_before < MEMORY_BYTES
        if hurt is hostile.take_back_calls:  # The others may get too little of a busy machine.
            server.wait_for(COSTLY[hurt])
        assert len(server.lines(COSTLY[hurt])) <= FLOODS  # one for each that was ended
