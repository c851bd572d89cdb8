"""The program: what it says, how it ends, and that nothing outlives it."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess

import pytest

import millrace as mr
from conftest import children_of, descendants_of, pid_gone, run_state, wait_until
from millrace._capi import ffi as _ffi

PROGRAM = _ffi.program_path()


def run(*args, **env):
    return subprocess.run(
        [PROGRAM, *args], capture_output=True, text=True, env={**os.environ, **env}, timeout=120
    )


# ---- usage ----


def test_bare_call_is_short_help_and_usage():
    done = run()
    assert done.returncode == 2
    assert done.stdout == ""
    assert "millrace dev" in done.stderr


@pytest.mark.parametrize(
    "command",
    [
        *("dispatcher", "dispatcher list", "worker", "dev", "status", "state get", "job delete"),
        *("certs", "token"),
    ],
)
def test_help_has_examples_first(command):
    for args in ([*command.split(), "--help"], ["help", *command.split()]):
        done = run(*args)
        assert done.returncode == 0
        assert done.stdout.startswith(f"millrace {command}: ")
        assert done.stdout.index("Examples:") < done.stdout.index("Options:")


@pytest.mark.parametrize("noun", ["dataset", "job", "state"])
def test_help_of_a_noun_lists_its_verbs(noun):
    for args in ([noun, "--help"], ["help", noun]):
        done = run(*args)
        assert done.returncode == 0
        assert done.stdout.startswith(f"millrace {noun}: ")
        assert done.stdout.index("Examples:") < done.stdout.index("Commands:")
    bare = run(noun)
    assert bare.returncode == 2
    assert f"{noun} what? there is: " in bare.stderr


def test_version():
    assert run("--version").stdout == f"millrace {mr.__version__}\n"
    assert json.loads(run("version", "--json").stdout)["version"] == mr.__version__


@pytest.mark.parametrize(
    "args, said",
    [
        (["stats"], "no command 'stats'; did you mean 'status'?"),
        (["status", "--jsn"], "no option --jsn; did you mean --json?"),
        (["dispatcher", "--lease-ttl", "10"], "--lease-ttl '10': the unit is missing"),
        (["dispatcher", "--lease-ttl", "1d"], "must be from 1s to 60s"),
        (["worker"], "--dispatcher is needed: host:port of a dispatcher"),
        (["worker", "--dispatcher", ""], "--dispatcher is needed: host:port of a dispatcher"),
        (["dispatcher", "--etcd-endpoints", ""], "--etcd-endpoints is needed"),
        (["dataset", "remove", "x"], "no command 'dataset remove'; there is: list, show, delete"),
        (["job", "lits"], "no command 'job lits'; did you mean 'job list'?"),
        (["worker", "shwo"], "no command 'worker shwo'; did you mean 'worker show'?"),
        (["worker", "run"], "--dispatcher is needed: host:port of a dispatcher"),
        (["job", "delete"], "NAME is missing: millrace job delete NAME"),
        (
            ["worker", "--dispatcher", "localhost"],
            "'localhost' is not an address: host:port is wanted",
        ),
        (
            ["worker", "--dispatcher", "localhost:1", "--listen", "127.0.0.1:99999"],
            "with a port from 0 to 65535",
        ),
        (
            ["worker", "--dispatcher", "localhost:1", "--listen", "5051"],
            "--listen '5051': host:port is wanted",
        ),
        (["dispatcher", "--listen", "::1:5050"], "--listen '::1:5050': host:port is wanted"),
        (
            ["worker", "--dispatcher", "localhost:1", "--advertise-address", "host:%port%x"],
            "--advertise-address 'host:%port%x': host:port is wanted",
        ),
        (
            [
                "dispatcher",
                "--listen",
                "127.0.0.1:0",
                "--etcd-endpoints",
                "localhost:1",
                "--advertise-address",
                "host",
            ],
            "--advertise-address 'host': host:port is wanted",
        ),
        *[
            (
                ["worker", "--dispatcher", "localhost:1", f"--advertise-address={address}"],
                (
                    f"--advertise-address '{address}': host:port is wanted, with a port from 1 to"
                    " 65535"
                ),
            )
            for address in (
                "x:y",
                ":1",
                "localhost:0",
                "localhost:99999",
                "unix:/tmp/x:1",
                "dns:///x:1",
            )
        ],
        *[
            (
                ["worker", "--dispatcher", "localhost:1", f"--advertise-address={address}:7000"],
                f"'{address}:7000' is not an address to advertise: nobody can connect to it",
            )
            for address in ("0.0.0.0", "[::]", "[0::0]", "0")
        ],
        (
            ["worker", "--dispatcher", "localhost:1", "--advertise-address=0.0.0.0:%port%"],
            "nobody can connect to it",
        ),
        (
            [
                "dispatcher",
                "--listen",
                "127.0.0.1:0",
                "--etcd-endpoints",
                "localhost:1",
                "--advertise-address=0.0.0.0:5050",
            ],
            "'0.0.0.0:5050' is not an address to advertise: nobody can connect to it",
        ),
        (
            ["dispatcher", "--etcd-endpoints", "localhost:1", "--worker-timeout", "1s"],
            "--worker-timeout 1000 ms: at least three heartbeats (3000 ms) are needed",
        ),
        (
            [
                "dispatcher",
                "--etcd-endpoints",
                "localhost:1",
                "--client-timeout",
                "7s",
                "--heartbeat",
                "3s",
            ],
            "--client-timeout 7000 ms: at least three heartbeats (9000 ms) are needed",
        ),
        (
            ["dispatcher", "--etcd-endpoints", "localhost:1", "--lease-ttl", "1.5s"],
            "--lease-ttl 1500 ms: whole seconds from 1s to 60s are allowed",
        ),
        (
            ["dev", "--work-dir", "x", "--etcd-endpoints", "y"],
            "--work-dir is the home of a private etcd",
        ),
    ],
)
def test_usage_errors(args, said):
    done = run(*args)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""


LONG = "a" * 5000


@pytest.mark.parametrize(
    "args",
    [
        ["{}"],
        ["help", "{}"],
        ["state", "{}"],
        ["state", "tree", "{}"],
        ["job", "delete", "x", "{}"],
        ["status", "--{}"],
        ["status", "-{}"],
        ["status", "--timeout={}"],
        ["status", "--service={}"],
        ["status", "--json={}"],
        ["dispatcher", "--lease-ttl={}"],
        ["dispatcher", "--lease-ttl-ms={}"],
        ["dispatcher", "--etcd-quota={}"],
        ["dispatcher", "--log-level={}"],
        ["dispatcher", "--listen={}"],
        ["dispatcher", "--advertise-address={}"],
        ["dispatcher", "--metrics-address={}"],
        ["dispatcher", "--listen=127.0.0.1:0", "--etcd-endpoints={}"],
        ["dispatcher", "--listen=127.0.0.1:0", "--etcd-endpoints=127.0.0.1:1", "--cluster={}"],
        ["dispatcher", "--etcd-server-name={}"],
        ["worker", "--dispatcher={}"],
        ["worker", "--threads={}"],
        ["worker", "--dispatcher=127.0.0.1:1", "--cluster={}"],
        ["dev", "--workers={}"],
        ["dev", "--etcd-endpoints={}"],
        ["dev", "--etcd-endpoints=127.0.0.1:1", "--cluster={}"],
        ["dev", "--etcd-server-name={}"],
        ["state", "tree", "--cluster={}"],
        ["state", "tree", "--etcd-endpoints={}"],
        ["state", "tree", "--etcd-server-name={}"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("value", [LONG, "\x1b[31mX\nY\r\udcff"], ids=["long", "no text"])
def test_a_wrong_value_is_shown_in_one_line_that_says_what_is_wanted(args, value):
    done = run(*(a.format(value) for a in args))
    lines = done.stderr.splitlines()
    assert done.returncode == 2, done.stderr
    assert len(lines) == 2 and lines[1].startswith("See: millrace help"), done.stderr
    assert len(lines[0]) < 250 and "\x1b" not in done.stderr and not lines[0].endswith("...")
    assert ("a" * 60 + "..." if value == LONG else "\\x1b[31mX\\nY\\x0d\\xff") in lines[0]


@pytest.mark.parametrize(
    "name", ["a" * 254, "a" * 300, LONG, "a b", "[::1", "[::1]", "x:1", "\u00fc"]
)
@pytest.mark.parametrize(
    "args", [["dispatcher", "--listen=127.0.0.1:0"], ["state", "tree"], ["dev"]], ids=" ".join
)
def test_what_is_no_host_is_nobody_whom_a_certificate_names(args, name):
    done = run(*args, "--etcd-endpoints=127.0.0.1:1", f"--etcd-server-name={name}")
    assert done.returncode == 2
    program = " ".join(word for word in args if not word.startswith("-"))
    assert f"millrace {program}: --etcd-server-name '{name[:60]}" in done.stderr
    assert "a host name is wanted, of at most 253 letters" in done.stderr
    by_variable = run(*args, "--etcd-endpoints=127.0.0.1:1", MILLRACE_ETCD_SERVER_NAME=name)
    assert by_variable.returncode == 2 and "--etcd-server-name" in by_variable.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["--etcd-server-name=" + "a" * 253],
        ["--etcd-server-name=127.0.0.1"],
        ["--etcd-server-name=::1"],
        [],
    ],
    ids=["longest", "IPv4", "IPv6", "of the endpoint"],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "a" * 253], ids=["an address", "longest host"])
def test_a_host_of_any_length_that_there_is_can_be_tried(host, options):
    done = run("state", "tree", f"--etcd-endpoints=https://{host}:1", "--timeout=200ms", *options)
    assert done.returncode in (4, 124), done.stderr
    longer = run(
        "state", "tree", f"--etcd-endpoints=https://{'a' * 254}:1", "--timeout=200ms", *options
    )
    assert longer.returncode == 2 and "host:port is wanted" in longer.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["help"],
        ["--help"],
        ["help", "dev"],
        ["dev", "--help"],
        ["version"],
        ["--version"],
        ["version", "--json"],
        ["job", "-h"],
    ],
    ids=" ".join,
)
def test_output_that_cannot_be_written_is_an_error(args):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [PROGRAM, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.endswith(": standard output cannot be written: No space left on device\n")
    assert done.stderr.count("\n") == 1
    closed = subprocess.run(
        [PROGRAM, *args],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        preexec_fn=lambda: os.close(1),
    )
    assert closed.returncode == 1
    assert closed.stderr.endswith(": standard output cannot be written: Bad file descriptor\n")
    assert closed.stderr.count("\n") == 1


def test_variables_are_options_too():
    done = run("status", MILLRACE_STATUS_TIMEOUT="soon")
    assert done.returncode == 2
    assert "MILLRACE_STATUS_TIMEOUT" in done.stderr


def test_status_of_nobody_is_unreachable():
    done = run("status", "--service", "127.0.0.1:1", "--timeout", "300ms")
    assert done.returncode == 4
    assert "127.0.0.1:1" in done.stderr


@pytest.mark.parametrize(
    "options, said",
    [
        (
            ["--etcd-endpoints=BAD"],
            "dispatcher 1: starting a dispatcher: etcd endpoint 'BAD': host:port is wanted",
        ),
        (["--cluster=A B"], "cluster 'A B': 1 to "),
    ],
)
def test_why_dev_does_not_start_is_told_once(options, said):
    done = run("dev", *options)
    assert done.returncode == 2
    assert done.stderr.count(said) == 1, done.stderr
    assert "See: millrace help dev" in done.stderr and "where it serves" not in done.stderr
    assert (
        len([line for line in done.stderr.splitlines() if line.startswith("millrace ")]) == 1
    ), done.stderr


@pytest.mark.parametrize(
    "args",
    [["dispatcher", "--etcd-endpoints=127.0.0.1:1"], ["worker", "--dispatcher=127.0.0.1:1"]],
    ids=["dispatcher", "worker"],
)
def test_a_server_does_not_say_that_it_serves_before_it_can(args):
    process = subprocess.Popen(
        [PROGRAM, *args, "--listen=127.0.0.1:0", f"--owner-pid={os.getpid()}", "--log-format=text"],
        stderr=subprocess.PIPE,
        text=True,
    )
    said = []
    while not said or "listening; serves once" not in said[-1]:
        said.append(process.stderr.readline())
        assert said[-1] != "", "it has ended"
    process.terminate()
    said += process.stderr.readlines()
    assert process.wait(60) == 0
    assert [line for line in said if "serving" in line] == []


def test_taken_address_is_told(tmp_path):
    with serving("dispatcher", "--listen=127.0.0.1:0", f"--work-dir={tmp_path / 'one'}") as (
        process,
        said,
    ):
        done = run("dispatcher", f"--listen={said['address']}", f"--work-dir={tmp_path / 'two'}")
        assert done.returncode == 4
        assert said["address"] in done.stderr


def test_a_cache_directory_that_cannot_be_used_is_told_at_the_start(tmp_path):
    (tmp_path / "file").touch()
    for where, why in (
        (tmp_path / "none" / "cache", "No such file or directory"),
        (tmp_path / "file", "Not a directory"),
    ):
        process = subprocess.Popen(
            [
                PROGRAM,
                "worker",
                "--dispatcher=127.0.0.1:1",
                f"--cache-dir={where}",
                f"--owner-pid={os.getpid()}",
                "--log-format=text",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        first = process.stderr.readline()
        process.terminate()
        process.stderr.read()
        assert process.wait(60) == 0
        assert "--cache-dir cannot be used" in first and str(where) in first and why in first


# ---- life ----


@contextlib.contextmanager
def serving(*args, **env):
    """The program in a session of its own, and what it said once it served."""
    if shutil.which("etcd") is None:
        pytest.skip("SKIPPED ALOUD: there is no etcd here")
    ready, child_end = os.pipe()
    process = subprocess.Popen(
        [PROGRAM, *args, f"--ready-fd={child_end}", f"--owner-pid={os.getpid()}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[child_end],
        start_new_session=True,
        env={**os.environ, **env},
    )
    os.close(child_end)
    try:
        with open(ready) as f:
            yield process, json.loads(f.readline())
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def check_state_of_dev(said):
    done = run_state(None, "dev", "check", "--timeout=60s", f"--etcd-endpoints={said['etcd']}")
    assert done.returncode == 0, done.stdout + done.stderr


def check_lists(service, said):
    def lines(*words):
        done = run(*words, "--service", service)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    workers = json.loads(lines("worker", "list", "--json")[0])
    assert lines("worker", "list", "--names") == [worker["address"] for worker in workers]
    table = lines("worker", "list")
    assert table[0].split()[:4] == ["WORKER", "ID", "STATE", "TASKS"]
    assert [row.split()[:3] for row in table[1:]] == [
        [worker["address"], worker["worker"], "live"] for worker in workers
    ]
    shown = lines("worker", "show", workers[0]["worker"])
    assert shown[0] == "worker " + workers[0]["address"]
    dispatchers = lines("dispatcher", "list", "--names")  # a standby is known when it has written
    assert dispatchers and set(dispatchers) <= set(said["address"].split(","))
    [dataset] = lines("dataset", "list", "--names")  # of the job that was read
    assert lines("dataset", "show", dataset)[0] == "dataset " + dataset


def test_a_doctor_says_what_is_wrong_and_what_to_do(make_cluster):
    cluster = make_cluster(workers=0)
    service = cluster.service.split("://")[1]
    ill = run("doctor", "--service", service)
    assert ill.returncode == 7
    assert "wrong  workers: none takes on work. start one: millrace worker" in ill.stdout
    found = json.loads(run("doctor", "--service", service, "--json").stdout)
    assert {"about": "workers", "level": "wrong"}.items() <= found[-1].items()
    cluster.start_worker()
    wait_until(lambda: run("doctor", "--service", service).returncode == 0, "nothing is wrong")
    assert run("doctor", "--service", "127.0.0.1:1", "--timeout", "300ms").returncode == 4


def test_dev_is_a_whole_cluster_until_ctrl_c(tmp_path):
    with serving("dev", "--dispatchers=2", "--workers=2", TMPDIR=str(tmp_path)) as (process, said):
        service = "grpc://" + said["address"]
        ds = mr.Dataset.range(10).apply(mr.service.distribute("distributed_epoch", service))
        assert sorted(ds.as_numpy_iterator()) == list(range(10))

        status = json.loads(run("status", "--json", "--service", service).stdout)
        assert status["cluster"] == "dev"
        assert status["leader"] in said["address"].split(",")
        assert len(status["workers"]) == 2
        text = run("status", "--service", service).stdout
        assert "workers (2)" in text
        leader = next(line.split()[-1] for line in text.splitlines() if line.startswith("leader"))
        assert leader in said["address"].split(",")  # perhaps the other one by now
        check_lists(service, said)

        check_state_of_dev(said)
        children = descendants_of(process.pid)
        assert len(children) == 5  # etcd, two dispatchers, two workers
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == 0
        assert all(pid_gone(pid) for pid in children)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("waits_for", ["etcd", "worker"])
def test_dev_may_be_stopped_while_it_starts(tmp_path, waits_for):
    """A single signal: it takes with it what it has started so far, in order."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "etcd").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "bin" / "etcd").chmod(0o755)
    (tmp_path / "tmp").mkdir()
    with socket.create_server(
        ("127.0.0.1", 0)
    ) as mute:  # an etcd that takes connections and says nothing
        etcd = (
            [] if waits_for == "etcd" else [f"--etcd-endpoints=127.0.0.1:{mute.getsockname()[1]}"]
        )
        process = subprocess.Popen(
            [PROGRAM, "dev", "--dispatchers=1", "--workers=1", f"--owner-pid={os.getpid()}", *etcd],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
                "TMPDIR": f"{tmp_path}/tmp",
            },
        )
        try:
            wait_until(
                lambda: len(children_of(process.pid)) == (1 if waits_for == "etcd" else 2),
                "it waits",
            )
            children = children_of(process.pid)
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=120)[1]
            assert process.returncode == 130, said
            assert "stopped while starting" in said
            assert "second signal" not in said
            assert all(pid_gone(pid) for pid in children)
            assert list((tmp_path / "tmp").iterdir()) == []
        finally:
            process.kill()
            process.wait()


@pytest.mark.skipif(
    "MILLRACE_SIGNAL_AT_START" not in os.environ, reason="a sanitizer wants to be the first library"
)
@pytest.mark.parametrize(
    "argv",
    [
        ["worker", "--dispatcher=127.0.0.1:1"],
        ["dispatcher", "--listen=127.0.0.1:0"],
        ["dev", "--dispatchers=1", "--workers=1"],
    ],
    ids=lambda argv: argv[0],
)
def test_a_signal_at_the_very_start_is_an_orderly_end(argv, tmp_path):
    """It comes while the libraries are loaded, before main(): from one of them."""
    done = subprocess.run(
        [PROGRAM, *argv],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        env={
            **os.environ,
            "LD_PRELOAD": os.environ["MILLRACE_SIGNAL_AT_START"],
            "TMPDIR": str(tmp_path),
        },
    )
    said, status = (
        ("SIGTERM", 0) if argv[0] == "worker" else ("stopped while starting", 130)
    )  # an etcd of its own
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_everything_dies_with_dev():
    with serving("dev", "--dispatchers=1", "--workers=1") as (process, said):
        children = descendants_of(process.pid)
        assert len(children) == 3
        process.kill()
        wait_until(
            lambda: all(pid_gone(pid) for pid in children),
            "the children of a killed dev have ended",
        )


def test_dev_starts_a_crashed_worker_again():
    with serving("dev", "--dispatchers=1", "--workers=1") as (process, said):
        worker = next(s for s in said["servers"] if s["kind"] == "worker")
        os.kill(worker["pid"], signal.SIGKILL)
        wait_until(
            lambda: len(
                [p for p in descendants_of(process.pid) if not pid_gone(p) and p != worker["pid"]]
            )
            == 3,
            "there is a worker again",
        )
        ds = mr.Dataset.range(5).apply(
            mr.service.distribute("distributed_epoch", "grpc://" + said["address"])
        )
        assert sorted(ds.as_numpy_iterator()) == list(range(5))
        check_state_of_dev(said)


def test_state_outlives_a_restart_in_the_work_dir(tmp_path):
    home = f"--work-dir={tmp_path / 'home'}"
    with serving("dev", "--dispatchers=1", "--workers=0", home) as (process, said):
        mr.service.register_dataset(
            "grpc://" + said["address"], mr.Dataset.range(3), dataset_id="three"
        )
        process.kill()  # etcd has to recover, too
    with serving("dev", "--dispatchers=1", "--workers=1", home) as (process, said):
        ds = mr.service.from_dataset_id("distributed_epoch", "grpc://" + said["address"], "three")
        assert sorted(ds.as_numpy_iterator()) == [0, 1, 2]
        check_state_of_dev(said)


@pytest.fixture
def hangups():
    """What is started here does not ignore SIGHUP, as it would under nohup(1)."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def test_a_hangup_ends_dev_in_order_and_no_server(hangups):
    with serving("dispatcher", "--listen=127.0.0.1:0") as (process, said):
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        service = "grpc://" + said["address"]
        assert json.loads(mr.service.status(service))["cluster"] == "default"
        process.send_signal(signal.SIGTERM)  # seen after the others, which came first
        assert process.wait(120) == 0
    with serving("dev", "--dispatchers=1", "--workers=1") as (process, said):
        children = descendants_of(process.pid)
        process.send_signal(signal.SIGHUP)
        assert process.wait(120) == 0
        assert all(pid_gone(pid) for pid in children)


def test_stray_signals_end_nobody():
    with serving("dev", "--dispatchers=1", "--workers=1") as (process, said):
        servers = [s["pid"] for s in said["servers"]]
        for pid in [*servers, process.pid]:
            os.kill(pid, signal.SIGUSR1)
            os.kill(pid, signal.SIGUSR2)
        ds = mr.Dataset.range(5).apply(
            mr.service.distribute("distributed_epoch", "grpc://" + said["address"])
        )
        assert sorted(ds.as_numpy_iterator()) == list(range(5))
        assert not any(pid_gone(pid) for pid in servers)
        process.send_signal(signal.SIGTERM)  # seen after the others, which came first
        assert process.wait(120) == 0


def test_a_server_ends_with_its_owner(tmp_path):
    owner = subprocess.Popen(["sleep", "1000"])
    ready, child_end = os.pipe()
    server = subprocess.Popen(
        [
            PROGRAM,
            "dispatcher",
            "--listen=127.0.0.1:0",
            f"--work-dir={tmp_path}",
            f"--owner-pid={owner.pid}",
            f"--ready-fd={child_end}",
        ],
        pass_fds=[child_end],
    )
    os.close(child_end)
    try:
        with open(ready) as f:
            assert "address" in json.loads(f.readline())
        children = children_of(server.pid)
        owner.kill()
        owner.wait()
        assert server.wait(120) == 0
        assert all(pid_gone(pid) for pid in children)
    finally:
        owner.kill()
        server.kill()
        server.wait()


def test_an_owner_that_is_gone_is_refused():
    owner = subprocess.Popen(["true"])
    owner.wait()
    done = run("worker", "--dispatcher=127.0.0.1:1", f"--owner-pid={owner.pid}")
    assert done.returncode == 6
    assert "has ended already" in done.stderr
