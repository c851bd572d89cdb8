"""
Measure what dispatchers and etcd cost a reader: failover, hand-out of splits, bytes written. Prints
one line a figure.

    make bench-dispatcher python3 bench/dispatcher.py [--cycles 100] [--keys 20000] [--rounds 5]
    [--only failover,handout] [--build build/release]

Failover: one member of etcd and three dispatchers; the leader is killed (SIGKILL) or told to go
(SIGTERM) again and again. Two times are taken from the signal: until the next one leads (by its
log), and until a client that begins to ask at that moment has an answer of it: which dataset it has
registered. --keys fills the state first. Hand-out: one worker, DYNAMIC beside OFF in interleaved
rounds.
"""

import argparse
import base64
import contextlib
import datetime
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
ELEMENTS = 10_000_000
FILES, RECORDS = 10_000, 100
JOB_ELEMENTS, JOBS = 100, 200


def say(name, values, unit, scale=1):
    p50, p99, top = scale * np.quantile(
        values, (0.5, 0.99, 1), method="inverted_cdf"
    )  # by nearest rank
    print(
        f"{name:58} p50 {p50:8.1f}   p99 {p99:8.1f}   max {top:8.1f} {unit}   (n = {len(values)})",
        flush=True,
    )


@contextlib.contextmanager
def cluster_of(**how):
    from cluster import Cluster

    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as directory:
        cluster = Cluster(directory, random.Random(), **how)
        try:
            cluster.start(60)
            yield cluster
        finally:
            cluster.kill()


# ---- failover ----


def fill(mr, cluster, keys):
    """
    Named jobs until the state has that many keys: each is a job, an iteration and a client's record
    at least.
    """
    ds = mr.Dataset.range(1)
    made = 0
    while count_keys(cluster) < keys:
        for _ in range(200):
            it = iter(
                ds.apply(
                    mr.service.distribute(
                        "parallel_epochs", cluster.service, job_name=f"fill{made}"
                    )
                )
            )
            next(it)
            it.close()
            made += 1


def gateway(cluster, path, **body):
    """Etcd's JSON gateway: keys and values are base64."""
    url = f"http://{cluster.members[0].address}/v3/kv/{path}"
    with urllib.request.urlopen(
        urllib.request.Request(url, json.dumps(body).encode()), timeout=60
    ) as answer:
        return json.load(answer)


def count_keys(cluster):
    first = f"/millrace/{cluster.name}/"
    key, end = (base64.b64encode(k.encode()).decode() for k in (first, first[:-1] + "0"))
    return int(gateway(cluster, "range", key=key, range_end=end, count_only=True).get("count", 0))


def etcd_put_ms(cluster, n=200):
    """Etcd's own time for a put, through its HTTP gateway."""
    took = []
    for _ in range(n):
        began = time.perf_counter()
        gateway(cluster, "put", key="YmVuY2g=", value="eA==")
        took.append(time.perf_counter() - began)
    return took


def led_after(cluster, epoch):
    """
    When somebody began to lead in a later epoch, in seconds since 1970, by the logs; None: nobody
    yet.
    """
    for process in cluster.dispatchers:
        with open(process.log) as f:
            for line in f:
                said = json.loads(line)
                if said["msg"] == "leading" and said["epoch"] > epoch:
                    return datetime.datetime.fromisoformat(said["time"]).timestamp()
    return None


def failover(mr, cluster, how, cycles):
    """
    Seconds without a leader, and until a client has an answer, for each of so many deaths of a
    leader.
    """
    led, answered = [], []
    known = mr.Dataset.range(1)
    while len(led) < cycles:
        cluster.wait_whole(time.monotonic() + 60)
        victim, since = cluster.leader()
        # A term is left alone for a second before another ends it by force, and a standby has to be
        # ready.
        ready = (
            victim is not None
            and time.time() - since > 1.2
            and all(d.up and time.monotonic() - d.since > 1 for d in cluster.dispatchers)
        )
        if not ready:
            time.sleep(0.05)
            continue
        epoch = int(cluster.status(10)["epoch"])
        began = time.time()
        how(victim)
        next_led = None
        while next_led is None or at < next_led:  # what the old one still answers does not count
            mr.service.register_dataset(cluster.service, known)
            at = time.time()
            next_led = led_after(cluster, epoch)
        answered.append(at - began)
        led.append(next_led - began)
        if not victim.up:
            victim.start()
    return led, answered


def bench_failover(mr, args):
    with cluster_of(members=1, dispatchers=3, workers=1) as cluster:
        if args.keys:
            fill(mr, cluster, args.keys)
        keys = count_keys(cluster)
        say(f"etcd: a put, {keys} keys", etcd_put_ms(cluster), "ms", 1000)
        leaving = []
        for name, how in (
            ("SIGKILL", lambda v: v.kill()),
            ("SIGTERM", lambda v: leaving.append(v.tell_to_end())),
        ):
            led, answered = failover(mr, cluster, how, args.cycles)
            say(f"failover by {name}, {keys} keys: the next one leads", led, "ms", 1000)
            say(f"failover by {name}, {keys} keys: a client is answered", answered, "ms", 1000)
        if any(child.wait(60) != 0 for child in leaving):
            sys.exit("a dispatcher did not end well after SIGTERM")
        say(f"etcd: a put, {keys} keys, afterwards", etcd_put_ms(cluster), "ms", 1000)


# ---- handing out ----


def small(args, service, mode):
    done = subprocess.run(
        [args.build / "bench" / "read_bench", "small", service, str(ELEMENTS), mode],
        check=True,
        capture_output=True,
        text=True,
    )
    return json.loads(done.stdout)["m_elements_per_s"]


def write_files(mr, directory):
    for i in range(FILES):
        with mr.io.TFRecordWriter(os.path.join(directory, f"{i:05}.tfrecord")) as w:
            for k in range(RECORDS):
                w.write(b"%d" % (i * RECORDS + k))


def read_files(mr, service, directory, mode):
    """Records a second, all of them, in batches."""
    ds = mr.Dataset.list_files(os.path.join(directory, "*.tfrecord"), shuffle=False)
    ds = ds.interleave(mr.TFRecordDataset, cycle_length=16, block_length=16).batch(100)
    ds = ds.apply(mr.service.distribute(mode, service))
    began, n = time.perf_counter(), 0
    for batch in ds.as_numpy_iterator():
        n += len(batch)
    assert n == FILES * RECORDS, n
    return n / (time.perf_counter() - began)


def received_bytes(cluster):
    """What clients have sent to etcd, ever."""
    with urllib.request.urlopen(
        f"http://{cluster.members[0].address}/metrics", timeout=10
    ) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith("etcd_network_client_grpc_received_bytes_total"):
                return float(line.split()[1])
    sys.exit("etcd has no etcd_network_client_grpc_received_bytes_total")


def whole_job(mr, service):
    ds = mr.Dataset.range(JOB_ELEMENTS).apply(mr.service.distribute("distributed_epoch", service))
    began = time.perf_counter()
    assert sum(1 for _ in ds.as_numpy_iterator()) == JOB_ELEMENTS
    return time.perf_counter() - began


def bench_handout(mr, args):
    with tempfile.TemporaryDirectory(prefix="millrace-bench-") as directory, cluster_of(
        members=1, dispatchers=1, workers=1
    ) as cluster:
        write_files(mr, directory)
        numbers, files, rates = [], [], []
        warm = (
            mr.Dataset.range(1)
            .repeat()
            .apply(mr.service.distribute("parallel_epochs", cluster.service))
            .as_numpy_iterator()
        )
        next(warm)
        for _ in range(args.rounds):
            off = small(args, cluster.service, "parallel_epochs")
            before, began = received_bytes(cluster), time.perf_counter()
            dynamic = small(args, cluster.service, "distributed_epoch")
            rates.append((received_bytes(cluster) - before) / (time.perf_counter() - began))
            numbers.append((off, dynamic, dynamic / off))
            off, dynamic = (
                read_files(mr, cluster.service, directory, m)
                for m in ("parallel_epochs", "distributed_epoch")
            )
            files.append((off / 1e3, dynamic / 1e3, dynamic / off))
        for name, rows, unit in (
            (f"range({ELEMENTS})", numbers, "M elements/s"),
            (f"{FILES} files of {RECORDS} records", files, "k records/s"),
        ):
            off, dynamic, ratio = (statistics.median(column) for column in zip(*rows))
            print(
                f"{name:40} OFF {off:9.2f}   DYNAMIC {dynamic:9.2f} {unit}   ratio {ratio:.2f}",
                flush=True,
            )
        print(
            (
                f"{'bytes to etcd while DYNAMIC is read':40} {statistics.median(rates) / 1e3:9.1f} kB/s"
            ),
            flush=True,
        )
        jobs = [whole_job(mr, cluster.service) for _ in range(JOBS)]
        say(f"a whole DYNAMIC job of {JOB_ELEMENTS} elements, warm", jobs, "ms", 1000)
        warm.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cycles", type=int, default=100, help="of failover, each way")
    parser.add_argument(
        "--keys", type=int, default=0, help="fill the state with so many keys before"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="failover,handout")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    args = parser.parse_args()
    args.build = args.build.resolve()
    os.environ.setdefault("MILLRACE_LIBRARY", str(args.build / "lib" / "libmillrace.so.0"))
    os.environ.setdefault("MILLRACE_PROGRAM", str(args.build / "bin" / "millrace"))
    sys.path[:0] = [str(ROOT / "python"), str(ROOT / "tests" / "support")]
    import millrace as mr

    only = args.only.split(",")
    if "handout" in only:
        bench_handout(mr, args)
    if "failover" in only:
        bench_failover(mr, args)


if __name__ == "__main__":
    main()
