"""
etcd as operators have it: several members that go and return, certificates and passwords, a
database that is full, restored or wiped. No answer is wrong, the log says in a line what is the
matter, and all goes on by itself.
"""

import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid

import pytest

import millrace as mr
from conftest import free_port, freeze, thaw, wait_until
from exposition import page
from members import PROGRAM, Balancer, Door, Installation, Members
from millrace import Dataset

pytestmark = pytest.mark.skipif(
    shutil.which("etcd") is None, reason="SKIPPED ALOUD: there is no etcd here"
)


@pytest.fixture
def make(tmp_path):
    """
    make(etcd options..., installation={...}): members and an installation on them. What the test
    leaves in etcd is judged at its end.
    """
    with contextlib.ExitStack() as made:

        def make(installation=None, **options):
            directory = tmp_path / f"etcd-{uuid.uuid4().hex}"
            directory.mkdir()
            etcd = Members(directory, **options)
            made.callback(etcd.stop)
            there = Installation(directory, etcd, **(installation or {}))
            made.callback(there.judge)
            made.callback(there.close)
            return etcd, there

        yield make


# What a fresh process reads of a dataset of that name.
ASK = """
import sys
import millrace as mr
print(*[int(x) for x in mr.service.from_dataset_id("parallel_epochs", *sys.argv[1:])])
"""


PART = 10_000


class Reader(threading.Thread):
    """
    Reads range(n), DYNAMIC, in the background. With @rest it pauses after so many elements, until
    `go` is set.
    """

    def __init__(self, there, n, rest=None, **arguments):
        super().__init__(daemon=True)
        self.n = n
        self._rest = rest
        self.go = threading.Event()
        # A split is a part of 10,000: who rests within the first of them can go on without a
        # dispatcher.
        whole = Dataset.range(0, n, PART).flat_map(lambda x: Dataset.range(x, x + PART))
        self._ds = whole.apply(
            mr.service.distribute("distributed_epoch", there.service, **arguments)
        )
        self.seen = []
        self.error = None
        self.start()

    def run(self):
        try:
            for x in self._ds:
                self.seen.append(int(x))
                if len(self.seen) == self._rest:
                    self.go.wait()
        except mr.errors.MillraceError as e:
            self.error = e

    def wait_for(self, count):
        wait_until(
            lambda: len(self.seen) >= count or not self.is_alive(), f"{count} elements are read"
        )
        assert self.error is None

    def end(self):
        self.go.set()
        self.join(200)
        assert not self.is_alive()

    def finish(self):
        self.end()
        assert self.error is None
        assert sorted(self.seen) == list(range(self.n))


def read(there, n=100, **arguments):
    return sorted(
        int(x)
        for x in Dataset.range(n).apply(
            mr.service.distribute("distributed_epoch", there.service, **arguments)
        )
    )


def keys_below(etcd, prefix):
    return [k for k in etcd.ctl("get", "--prefix", "--keys-only", prefix).stdout.split() if k]


def values_below(there, prefix):
    return [
        json.loads(line.split(None, 1)[1])
        for line in there.state("get", prefix).stdout.splitlines()
        if line
    ]


def refusal(there, text):
    """
    Wait until a registration is refused with @text. A dispatcher to which nobody comes writes so
    rarely that it notices late what etcd has.
    """

    def refused():
        try:
            mr.service.register_dataset(
                there.service, Dataset.range(8), dataset_id="new", timeout_ms=2000
            )
        except mr.errors.MillraceError as e:
            return re.search(text, str(e))

    return wait_until(refused, f"'{text}' is said")


def roles(there):
    """Who leads, of two dispatchers, and who does not."""
    wait_until(lambda: any(d.lines("leading") for d in there.dispatchers), "somebody leads")
    return sorted(there.dispatchers, key=lambda d: not d.lines("leading"))


# ---- members that go and return ----


def test_one_member_goes_and_returns(make):
    etcd, there = make(installation={"lease": "60s"})
    reader = Reader(there, 400_000)
    reader.wait_for(1000)
    for i in range(3):  # whichever the dispatcher talks to is among them
        etcd.kill(i)
        assert read(there) == list(range(100))
        etcd.start_member(i)
        etcd.wait()
    reader.finish()
    log = there.dispatchers[0]
    # One line when an outage begins and one when it ends, however many attempts lie between.
    outages = len(log.lines("etcd endpoint refuses connections, trying the next"))
    outages += len(log.lines("etcd endpoint does not answer, trying the next"))
    assert outages >= 1
    assert outages - 1 <= len(log.lines("etcd answers again")) <= outages
    assert not log.lines("no longer leader")


def test_a_frozen_member_is_passed_over(make):
    etcd, there = make()
    reader = Reader(there, 400_000)
    reader.wait_for(1000)
    for i in range(3):
        etcd.freeze(i)
        assert read(there) == list(range(100))
        etcd.thaw(i)
        etcd.wait()
    reader.finish()


@pytest.mark.parametrize("lost", [(0, 1), (0, 1, 2)], ids=["majority", "all"])
def test_without_a_quorum_nothing_is_promised_and_reading_goes_on(make, lost):
    etcd, there = make()
    mr.service.register_dataset(there.service, Dataset.range(7), dataset_id="kept")
    reader = Reader(there, 1_000_000, rest=1000)
    reader.wait_for(1000)
    etcd.kill(*lost)
    reader.go.set()
    reader.wait_for(2000)
    with pytest.raises((mr.errors.UnavailableError, mr.errors.DeadlineExceededError)):
        mr.service.register_dataset(
            there.service, Dataset.range(8), dataset_id="new", timeout_ms=4000
        )
    there.dispatchers[0].wait_for("trying the next")
    status = json.loads(mr.service.status(there.service))
    assert int(status["storeSilentMs"]) > 2000 and len(status["workers"]) == 1
    said = subprocess.run(
        [PROGRAM, "status", f"--service={there.addresses}"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert said.returncode == 0 and "etcd has not answered for" in said.stderr
    for i in lost:
        etcd.start_member(i)
    etcd.wait()
    there.dispatchers[0].wait_for("etcd answers again")
    reader.finish()
    assert "storeSilentMs" not in json.loads(mr.service.status(there.service))
    ds = mr.service.from_dataset_id("parallel_epochs", there.service, "kept")
    assert [int(x) for x in ds] == list(range(7))
    assert read(there) == list(range(100))


def test_the_silence_of_etcd_is_nobodys_silence(make):
    """
    Nothing that workers and clients say counts meanwhile; afterwards they are as alive as before.
    """
    etcd, there = make(installation={"lease": "60s", "worker_timeout": "6s"})
    reader = Reader(there, 400_000, rest=1000)
    reader.wait_for(1000)
    for i in range(3):
        etcd.freeze(i)
    refusal(there, "etcd does not answer")
    wait_until(
        lambda: int(json.loads(mr.service.status(there.service)).get("storeSilentMs", 0)) > 7000,
        "it is silent for longer than workers may be",
    )
    for i in range(3):
        etcd.thaw(i)
    there.dispatchers[0].wait_for("etcd answers again")
    reader.finish()
    assert sum('"lost"' in line for line in there.state("get", "workers/").stdout.splitlines()) == 0


def test_a_watch_that_slept_through_a_compaction(make):
    # If its lease ended, too, it would begin anew instead of going on where it was.
    etcd, there = make(installation={"dispatchers": 2, "lease": "60s"})
    leader, standby = roles(there)
    standby.wait_for("following")
    freeze(standby.process.pid)
    for i in range(3):
        etcd.kill(i)  # its watch ends with one of them
        etcd.start_member(i)
        etcd.wait()
    for i in range(20):
        mr.service.register_dataset(
            "grpc://" + leader.address, Dataset.range(i), dataset_id=f"d{i}"
        )
    etcd.compact()
    thaw(standby.process.pid)
    standby.wait_for("etcd was compacted beyond what was seen")
    leader.kill()
    standby.wait_for("leading")
    ds = mr.service.from_dataset_id("parallel_epochs", "grpc://" + standby.address, "d19")
    assert [int(x) for x in ds] == list(range(19))


# ---- certificates, users, roles ----


def test_certificates_a_password_and_a_role_for_the_prefix_alone(make):
    etcd, there = make(
        tls=True, prefix="/millrace/prod/", installation={"dispatchers": 2, "lease": "60s"}
    )
    assert read(there) == list(range(100))
    for i in range(3):  # members forget the tokens they gave
        etcd.kill(i)
        etcd.start_member(i)
        etcd.wait()
        assert read(there) == list(range(100))
    etcd.ctl("user", "add", "another:pw")  # every token is of an old revision now
    assert read(there) == list(range(100))
    etcd.ctl("get", "x")
    leader = next(d for d in there.dispatchers if d.lines("leading"))
    other = next(d for d in there.dispatchers if d is not leader)
    leader.kill()
    other.wait_for("leading")
    assert read(there) == list(range(100))


def test_a_certificate_is_a_user(make):
    etcd, there = make(
        n=1, tls=True, prefix="/millrace/another/", installation={"dispatchers": 0, "workers": 0}
    )
    etcd.ctl(
        "role", "grant-permission", "--prefix=true", "millrace", "readwrite", "/millrace/prod/"
    )
    etcd.ctl("user", "add", "dispatcher", "--no-password")
    etcd.ctl("user", "grant-role", "dispatcher", "millrace")
    d = there.start_dispatcher(
        *[a for a in etcd.arguments if not a.startswith(("--etcd-user", "--etcd-password"))]
    )
    d.wait_for("leading")


def test_a_password_that_is_wrong_is_said_and_may_be_corrected(make):
    etcd, there = make(n=1, prefix="/millrace/prod/", installation={"dispatchers": 0, "workers": 0})
    with open(etcd.file("password"), "w") as f:
        f.write("wrong\n")
    d = there.start_dispatcher()
    line = d.wait_for("does not let user 'millrace' in")
    assert "invalid user ID or password" in line
    limits = itertools.count(2)  # it tries on until then

    def refused():
        shown = there.state("tree", f"--timeout={next(limits)}s")
        assert shown.returncode != 0
        return shown.stderr if "does not let user 'millrace' in" in shown.stderr else None

    assert "wrong" not in wait_until(refused, "millrace state says so, too") + d.log.replace(
        "went wrong", ""
    )
    with open(etcd.file("password"), "w") as f:
        f.write("secret\n")
    d.wait_for("leading")


def test_a_user_that_may_do_nothing_here_or_is_missing_is_said(make):
    etcd, there = make(
        n=1, prefix="/millrace/another/", installation={"dispatchers": 0, "workers": 0}
    )
    another_prefix = there.start_dispatcher()
    nobody = there.start_dispatcher(f"--etcd-endpoints={etcd.endpoints}")
    another_prefix.wait_for("nobody leads, retrying", "permission denied")
    nobody.wait_for("nobody leads, retrying", "etcd wants a user and a password")
    etcd.ctl(
        "role", "grant-permission", "--prefix=true", "millrace", "readwrite", "/millrace/prod/"
    )
    another_prefix.wait_for("leading")


def test_certificates_that_do_not_fit_are_said(make):
    etcd, there = make(n=1, tls=True, installation={"dispatchers": 0, "workers": 0})
    fitting = {a.split("=")[0]: a for a in etcd.arguments}
    another_ca = {**fitting, "--etcd-ca": f"--etcd-ca={etcd.file('other.pem')}"}
    another_name = {k: a for k, a in fitting.items() if k != "--etcd-server-name"}
    no_certificate = {k: a for k, a in fitting.items() if k not in ("--etcd-cert", "--etcd-key")}
    for d in [
        there.start_dispatcher(*wrong.values())
        for wrong in (another_ca, another_name, no_certificate)
    ]:
        assert "error" in json.loads(d.wait_for("etcd endpoint does not answer, trying it again"))
        assert json.loads(d.wait_for("nobody leads, retrying"))["error"]


def test_files_are_looked_at_before_anything_starts(tmp_path):
    (tmp_path / "text").write_text("hello")
    for arguments, said in (
        (["--etcd-ca=/does/not/exist"], "/does/not/exist: No such file"),
        ([f"--etcd-ca={tmp_path}/text"], "is not a certificate in PEM format"),
        ([f"--etcd-cert={tmp_path}/text"], "go together"),
        (["--etcd-user=u"], "go together"),
        (
            ["--etcd-ca=x", "--etcd-endpoints=http://localhost:1"],
            "is plain text, but TLS was asked for",
        ),
        (
            ["--etcd-server-name=x", "--etcd-endpoints=http://localhost:1"],
            "is plain text, but TLS was asked for",
        ),
        (["--etcd-endpoints=localhost:1,https://localhost:2"], "is TLS, 'localhost:1' is not"),
    ):
        endpoints = (
            [] if any("endpoints" in a for a in arguments) else ["--etcd-endpoints=localhost:1"]
        )
        done = subprocess.run(
            [PROGRAM, "dispatcher", "--listen=127.0.0.1:0", *endpoints, *arguments],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 2, done.stderr
        assert said in done.stderr


def test_what_etcd_refuses_for_good_is_told_to_whom_it_concerns(make):
    etcd, there = make(
        n=1,
        prefix="/millrace/another/",
        installation={"dispatchers": 0, "workers": 0, "lease": "60s"},
    )
    etcd.ctl(
        "role",
        "grant-permission",
        "millrace",
        "readwrite",
        "/millrace/prod/",
        "/millrace/prod/jobs/",
    )
    etcd.ctl(
        "role",
        "grant-permission",
        "millrace",
        "readwrite",
        "/millrace/prod/jobs0",
        "/millrace/prod0",
    )
    etcd.ctl(
        "role", "grant-permission", "--prefix=true", "millrace", "read", "/millrace/prod/jobs/"
    )
    d = there.start_dispatcher()
    with pytest.raises(mr.errors.InternalError, match="etcd refuses.*permission denied"):
        read(there)
    mr.service.register_dataset(
        there.service, Dataset.range(8), dataset_id="other"
    )  # others are served
    assert not d.lines("no longer leader")


# ---- dispatchers that do not see each other ----


def test_dispatchers_that_refuse_each_other_do_not_depose_each_other_for_ever(make):
    etcd, there = make(n=1, installation={"dispatchers": 0, "workers": 0, "lease": "5s"})
    doors = [Door(), Door()]
    for door in doors:
        door.target = free_port()
        there.start_dispatcher(
            *etcd.arguments, f"--advertise-address=127.0.0.1:{door.port}", port=door.target
        )
    leader, standby = roles(there)
    to_leader = doors[there.dispatchers.index(leader)]
    leader.wait_for("a standby is here")
    heard = to_leader.heard
    wait_until(
        lambda: to_leader.heard >= heard + 3,
        "the standby has heard of the leader: its stream can break",
    )
    for door in doors:
        door.shut()  # and stay so: who is deposed shall not see the other one
    # The standby deposes the leader. Whoever of them is faster wins the next term, and the other
    # one has no evidence against it: it never had a stream to that term.
    wait_until(
        lambda: sum(len(d.lines("won the election")) for d in there.dispatchers) >= 2,
        "a leader was deposed",
    )
    began = time.monotonic()
    wait_until(lambda: time.monotonic() > began + 7, "a lease would have run out")
    said = [
        json.loads(line)
        for line in etcd.ctl(
            "get", "--prefix", "--print-value-only", "/millrace/prod/dispatchers/"
        ).stdout.splitlines()
    ]
    assert sum(d.get("deposedAlive", 0) for d in said) == 1


def test_one_address_in_front_of_dispatchers_that_cannot_be_reached_otherwise(make):
    """
    A load balancer: what standbys say of the leader's address is of no use to anybody behind it.
    """
    etcd, there = make(n=1, installation={"dispatchers": 0, "workers": 0})
    balancer = Balancer([free_port() for _ in range(3)])
    for port in list(balancer.targets):
        there.start_dispatcher(
            *etcd.arguments, f"--advertise-address=127.0.0.1:{free_port()}", port=port
        )
    service = f"127.0.0.1:{balancer.port}"
    there.start_worker(service)
    wait_until(lambda: any(d.lines("leading") for d in there.dispatchers), "somebody leads")
    there.workers[0].wait_for("registered")
    ds = Dataset.range(100).apply(mr.service.distribute("distributed_epoch", "grpc://" + service))
    assert sorted(int(x) for x in ds) == list(range(100))
    next(d for d in there.dispatchers if d.lines("leading")).kill()
    assert sorted(int(x) for x in ds) == list(range(100))


def test_a_frozen_leader_is_replaced_long_before_its_lease_ends(make):
    etcd, there = make(n=1, installation={"dispatchers": 2, "lease": "60s"})
    leader, standby = roles(there)
    standby.wait_for("following")
    reader = Reader(there, 1_000_000, rest=1000)
    reader.wait_for(1000)
    freeze(leader.process.pid)
    standby.wait_for("leading")
    assert (
        len(keys_below(etcd, "/millrace/prod/dispatchers/")) == 2
    )  # the sleeper's lease has not ended
    assert read(there) == list(range(100))  # although the first of the list does not answer
    reader.finish()
    thaw(leader.process.pid)
    leader.wait_for("no longer leader")
    assert read(there) == list(range(100))


def test_a_leader_that_slept_beyond_its_lease(make):
    """
    It wakes up as the leader it was, for a moment: what it does not know it does not deny, and
    nobody is lost.
    """
    etcd, there = make(n=1, installation={"dispatchers": 2, "lease": "3s"})
    leader, standby = roles(there)
    standby.wait_for("following")
    reader = Reader(there, 1_000_000, rest=1000)
    reader.wait_for(1000)
    freeze(leader.process.pid)
    standby.wait_for("leading")
    wait_until(
        lambda: len(keys_below(etcd, "/millrace/prod/dispatchers/")) == 1,
        "the lease of the sleeper ran out",
    )
    mr.service.register_dataset(
        "grpc://" + standby.address, Dataset.range(7), dataset_id="meanwhile"
    )
    thaw(leader.process.pid)
    # Of a process that knows of nobody but the sleeper.
    done = subprocess.run(
        [sys.executable, "-c", ASK, "grpc://" + leader.address, "meanwhile"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout.split() == [str(i) for i in range(7)], done.stderr
    leader.wait_for("no longer leader")
    reader.finish()
    assert not any("lost" in worker for worker in values_below(there, "workers/"))


def test_the_longest_serving_of_the_newest_is_handed_over_to(make):
    etcd, there = make(n=1, installation={"workers": 0, "lease": "60s"})
    there.dispatchers[0].wait_for("leading")  # before another one could
    for _ in range(3):
        there.start_dispatcher()
    there.start_worker(there.addresses)
    for i in range(3):
        leader = there.dispatchers[i]
        leader.wait_for("leading")
        assert read(there) == list(range(100))
        # Only somebody who is there is handed over to.
        wait_until(
            lambda: len(
                {json.loads(line)["instance"] for line in leader.lines("a standby is here")}
            )
            == 3 - i,
            "it knows of all others",
        )
        leader.stop()
    there.dispatchers[3].wait_for("leading")
    for i, d in enumerate(there.dispatchers):
        assert len(d.lines("won the election")) == 1


# ---- a full database ----


def fill(etcd):
    while True:
        done = subprocess.run(
            [
                "etcdctl",
                f"--endpoints={etcd.endpoints}",
                "--command-timeout=60s",
                "put",
                "/other/tenant",
            ],
            input="x" * (1 << 20),
            env={**os.environ, "ETCDCTL_API": "3"},
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            assert "space exceeded" in done.stderr
            return


def test_a_full_database_stops_handing_out_and_is_recovered_from(make):
    # Nothing is collected before everybody has had time to come back after a takeover, whatever its
    # own retention.
    patience = {"dataset_retention": "5s", "job_gc_timeout": "10s", "client_timeout": "15s"}
    metrics = f"127.0.0.1:{free_port()}"
    etcd, there = make(
        n=1, quota=8 << 20, installation={**patience, "metrics_address": metrics, "lease": "60s"}
    )
    dispatcher = there.dispatchers[0]
    reader = Reader(there, 3_000_000, rest=1000)
    reader.wait_for(1000)

    def registered_and_frozen():
        mr.service.register_dataset(there.service, Dataset.range(5))
        freeze(dispatcher.process.pid)  # so that it collects nothing before etcd is full
        if len(keys_below(etcd, "/millrace/prod/datasets/")) == 2:
            return True
        thaw(dispatcher.process.pid)  # it has been quicker
        return False

    wait_until(registered_and_frozen, "it is frozen before it collects the dataset")
    fill(etcd)
    assert len(keys_below(etcd, "/millrace/prod/datasets/")) == 2
    thaw(dispatcher.process.pid)
    refusal(there, "NOSPACE.*disarm")
    assert len(dispatcher.lines("etcd is full (alarm NOSPACE): nothing is handed out")) == 1
    status = json.loads(mr.service.status(there.service))
    assert status["storeFull"]
    assert page(metrics).value("millrace_store_full") == 1
    # What is past its time is deleted all the same: the dataset that nobody uses.
    wait_until(
        lambda: len(keys_below(etcd, "/millrace/prod/datasets/")) == 1, "the dataset is collected"
    )
    reader.go.set()
    reader.wait_for(2000)  # there are grants to go on with
    etcd.ctl("del", "--prefix", "/other/")
    etcd.compact()
    etcd.ctl("defrag")
    etcd.ctl("alarm", "disarm")
    dispatcher.wait_for("etcd has room again")
    assert page(metrics).value("millrace_store_full") == 0
    reader.finish()
    assert not dispatcher.lines("no longer leader")


def test_a_database_that_fills_up_is_warned_of(make):
    metrics = f"127.0.0.1:{free_port()}"
    etcd, there = make(n=1, installation={"etcd_quota": "10kB", "metrics_address": metrics})
    there.dispatchers[0].wait_for("etcd's database fills up")
    p = page(metrics)
    assert p.value("millrace_store_quota_bytes") == 10000
    assert p.value("millrace_store_database_bytes") >= 7000


def test_a_write_budget_that_is_used_up_makes_grants_longer(make):
    metrics = f"127.0.0.1:{free_port()}"
    etcd, there = make(n=1, installation={"etcd_write_budget": "1kB", "metrics_address": metrics})

    def when_busy(look):
        """What @look gives as long as it is written more than the budget allows."""

        def write_and_look():
            mr.service.register_dataset(
                there.service, Dataset.from_tensors(uuid.uuid4().hex * 1000)
            )
            return look()

        return wait_until(write_and_look, "it is seen")

    when_busy(lambda: there.dispatchers[0].lines("the write budget of etcd is used up"))
    line = json.loads(there.dispatchers[0].lines("the write budget of etcd is used up")[0])
    assert line["budget"] == 1000
    assert line["bytes_per_s"] > 0
    assert line["grant_ms"] > 2000
    assert when_busy(lambda: int(json.loads(mr.service.status(there.service))["grantMs"]) > 2000)
    assert when_busy(lambda: page(metrics).value("millrace_grant_seconds") > 2)
    p = page(metrics)
    assert p.value("millrace_store_write_budget_bytes_per_second") == 1000
    assert p.value("millrace_store_written_bytes_total") > 1000
    assert read(there) == list(range(100))


# ---- a past that is lost ----


def incarnation(there):
    return json.loads(mr.service.status(there.service))["incarnation"]


def incarnation_after(there, before):
    """The one that follows @before."""

    def another():
        with contextlib.suppress(
            mr.errors.UnavailableError, mr.errors.DeadlineExceededError
        ):  # nobody leads yet
            now = incarnation(there)
            return now if now != before else None

    return wait_until(another, "another incarnation began")


def save_snapshot(etcd):
    """Of all that was written before: a member may lag behind, but not when it has answered."""
    etcd.ctl("get", "x", "--consistency=l", member=0)
    etcd.ctl("snapshot", "save", etcd.file("snapshot"), member=0)


def test_a_snapshot_is_restored_under_running_servers(make):
    etcd, there = make(installation={"dispatchers": 2})
    mr.service.register_dataset(there.service, Dataset.range(7), dataset_id="before")
    assert read(there, job_name="old") == list(range(100))
    before = incarnation(there)
    save_snapshot(etcd)
    mr.service.register_dataset(there.service, Dataset.range(8), dataset_id="after")
    for i in range(5):
        assert read(there) == list(range(100))
    etcd.renew(etcd.file("snapshot"))
    after = incarnation_after(there, before)
    ds = mr.service.from_dataset_id("parallel_epochs", there.service, "before")
    assert [int(x) for x in ds] == list(range(7))
    with pytest.raises(mr.errors.NotFoundError):
        mr.service.from_dataset_id("parallel_epochs", there.service, "after")
    assert read(there) == list(range(100))
    there.workers[0].wait_for("the cluster is another one than before")
    assert any(d.lines("beginning a new incarnation") for d in there.dispatchers)
    assert incarnation(there) == after


def test_a_restored_past_is_told_by_processes_that_were_started_later(make):
    etcd, there = make(installation={"workers": 0})
    before = incarnation(there)
    save_snapshot(etcd)
    there.dispatchers[0].stop()
    etcd.renew(etcd.file("snapshot"))
    there.start_dispatcher(port=int(there.dispatchers[0].address.rsplit(":", 1)[1]))
    incarnation_after(there, before)


def test_an_etcd_that_was_wiped_is_begun_anew_by_those_that_run(make):
    etcd, there = make(installation={"dispatchers": 2})
    reader = Reader(there, 3_000_000, rest=1000, job_name="train")
    reader.wait_for(1000)
    before = incarnation(there)
    etcd.renew()
    incarnation_after(there, before)
    there.workers[0].wait_for("the cluster is another one than before")
    # Whoever was reading is told; what was promised to him is forgotten.
    reader.end()
    assert isinstance(reader.error, mr.errors.NotFoundError), reader.error
    assert read(there) == list(range(100))


# ---- a state that is too new ----


@pytest.mark.parametrize(
    "schema, said",
    [
        ({"version": 2, "minReader": 2, "createdBy": "millrace 9.9"}, "needs a reader of 2"),
        (
            {"version": 1, "minReader": 1, "createdBy": "millrace 9.9", "features": ["lanes"]},
            "uses 'lanes'",
        ),
    ],
)
def test_a_state_that_is_too_new_is_refused(make, schema, said):
    etcd, there = make(n=1, installation={"workers": 0, "dispatchers": 0})
    etcd.ctl("put", "/millrace/prod/schema", json.dumps(schema))
    kept = etcd.ctl("get", "--prefix", "/millrace/prod/schema").stdout
    d = there.start_dispatcher()
    assert d.process.wait(120) == 6
    assert said in d.log
    assert etcd.ctl("get", "--prefix", "/millrace/prod/schema").stdout == kept
    etcd.ctl("del", "/millrace/prod/schema")  # so that the end of the test can be judged


def test_a_standby_does_not_take_over_what_it_does_not_understand(make):
    """A leader of a newer version has used a feature; the next leader must know it."""
    etcd, there = make(n=1, installation={"workers": 0, "dispatchers": 2, "lease": "60s"})
    leader, standby = roles(there)
    standby.wait_for("following")
    schema = etcd.ctl("get", "/millrace/prod/schema", "--print-value-only").stdout.strip()
    etcd.ctl(
        "put", "/millrace/prod/schema", json.dumps({**json.loads(schema), "features": ["lanes"]})
    )
    leader.kill()
    assert standby.process.wait(120) == 6
    assert "uses 'lanes'" in standby.log
    assert not standby.lines("leading")
    etcd.ctl("put", "/millrace/prod/schema", schema)  # so that the end of the test can be judged
