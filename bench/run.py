"""
Measure reading from one worker beside raw TCP, reading with TLS beside reading without, and the
sharing window beside bare RocksDB, in interleaved rounds; print medians and ratios.

    make bench python3 bench/run.py [--rounds 5] [--build build/release] [--json FILE] [--only
    reading|tls|window] [--disk DIRECTORY]

Starts a private etcd, one dispatcher and one worker on loopback. Every figure is the median of the
rounds; a ratio is taken within its round, against the baseline beside it. The window takes some 2
GB of disk while it is measured. Wants an idle machine: what else runs takes its share of the cores
from one of the two sides.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BULK = {"64 KiB": (65536, 40000), "1 MiB": (1 << 20, 4000)}
SMALL = 20_000_000
PYTHON_SMALL = 4_000_000
LATENCY_ROUNDS = 100
ENGINE = 200_000_000
WINDOW_MIB = 1000
WINDOW_TOTAL_MIB = 2000
WINDOW_FOR_MEMORY_MIB = 1280


def run(build, *args, program="read_bench"):
    """One run of a C program: the JSON it prints."""
    out = subprocess.run(
        [build / "bench" / program, *map(str, args)], check=True, capture_output=True, text=True
    )
    return json.loads(out.stdout)


def python_bulk(mr, np, service, element_bytes, count):
    ds = mr.Dataset.from_tensors(np.ones(element_bytes, np.uint8)).repeat(count)
    ds = ds.apply(mr.service.distribute(processing_mode="parallel_epochs", service=service))
    start, seen = None, 0
    for element in ds.as_numpy_iterator():
        if start is None:
            start = time.perf_counter()
        else:
            seen += element.nbytes
    seconds = time.perf_counter() - start
    if seen != (count - 1) * element_bytes:
        sys.exit(f"python bulk: {seen} bytes came")
    return seen / seconds / 1e9


def python_small(mr, service, count):
    ds = mr.Dataset.range(count).map(lambda x: {"a": x, "b": x})
    ds = ds.apply(mr.service.distribute(processing_mode="parallel_epochs", service=service))
    start, n = None, 0
    for element in ds.as_numpy_iterator():
        if start is None:
            start = time.perf_counter()
        n += 1
    seconds = time.perf_counter() - start
    if n != count or element["a"] != count - 1:
        sys.exit(f"python small: {n} elements came, the last {element}")
    return n / seconds / 1e6


def one_round(build, mr, np, service):
    """Every measurement once, each next to its baseline."""
    row = {}
    engine = run(build, ENGINE, 1, program="engine_bench")
    row["range, map, batch(32), one core, M elements/s"] = engine["m_elements_per_s"]
    row["the same as a plain loop, M elements/s"] = engine["loop_m_elements_per_s"]
    for name, (size, count) in BULK.items():
        tcp = run(build, "tcp", size, count)["gb_per_s"]
        c = run(build, "bulk", service, size, count)["gb_per_s"]
        py = python_bulk(mr, np, service, size, count)
        row[f"{name}: raw TCP, GB/s"] = tcp
        row[f"{name}: C, GB/s"] = c
        row[f"{name}: Python, GB/s"] = py
        row[f"{name}: C / raw TCP"] = c / tcp
        row[f"{name}: Python / raw TCP"] = py / tcp
    row["8 bytes, C, each element, M/s"] = run(build, "small", service, SMALL)["m_elements_per_s"]
    row["two-component dicts, Python, each element, M/s"] = python_small(mr, service, PYTHON_SMALL)
    latency = run(build, "latency", service, LATENCY_ROUNDS)
    row["first element, p50 ms"] = latency["first_p50_ms"]
    row["first element, p99 ms"] = latency["first_p99_ms"]
    row["last element to end, p50 ms"] = latency["end_p50_ms"]
    row["last element to end, p99 ms"] = latency["end_p99_ms"]
    return row


def window_round(build, disk):
    """The cache's log, and bare RocksDB (FIFO, pinned gets) in the same run."""
    row = {}
    for name, (size, _) in BULK.items():
        with tempfile.TemporaryDirectory(dir=disk) as path:
            r = run(
                build, "window", path, size, WINDOW_TOTAL_MIB, WINDOW_MIB, program="cache_bench"
            )
        for what, key in (
            ("write", "write"),
            ("read, page cache", "read_cached"),
            ("read, disk", "read_disk"),
            ("read, memory", "read_memory"),
        ):
            row[f"window {name}: {what}, GB/s"] = r[f"{key}_gb_per_s"]
            row[f"window {name}: {what} / bare"] = r[f"{key}_gb_per_s"] / r[f"bare_{key}_gb_per_s"]
        row[f"window {name}: write, CPU s/GB / bare"] = (
            r["write_cpu_s_per_gb"] / r["bare_write_cpu_s_per_gb"]
        )
        row[f"window {name}: read, page cache, CPU s/GB / bare"] = (
            r["read_cached_cpu_s_per_gb"] / r["bare_read_cached_cpu_s_per_gb"]
        )
        row[f"window {name}: write amplification"] = r["write_amplification"]
    with tempfile.TemporaryDirectory(dir=disk) as path:
        r = run(build, "memory", path, WINDOW_FOR_MEMORY_MIB, program="cache_bench")
    row["window of 20 x its memory: peak / budget"] = r["peak_anonymous_mib"] / r["budget_mib"]
    return row


@contextlib.contextmanager
def servers(mr, tls=None):
    """A dispatcher and a worker; the target of the first. @tls: a directory of certificates."""

    def files(name):
        return (
            {
                "tls_ca_file": f"{tls}/ca.pem",
                "tls_cert_file": f"{tls}/{name}.pem",
                "tls_key_file": f"{tls}/{name}.key",
            }
            if tls is not None
            else {}
        )

    config = mr.service.DispatcherConfig(**files("dispatcher"))
    with mr.service.DispatchServer(config) as dispatcher:
        config = mr.service.WorkerConfig(
            dispatcher_address=dispatcher.target.split("://")[1], **files("worker")
        )
        with mr.service.WorkerServer(config):
            yield dispatcher.target


def reading_rounds(build, rounds):
    import millrace as mr
    import numpy as np

    with servers(mr) as target:
        for _ in range(rounds):
            yield one_round(build, mr, np, target)


def tls_rounds(build, rounds):
    import millrace as mr

    with tempfile.TemporaryDirectory() as certs, contextlib.ExitStack() as stack:
        subprocess.run(
            [build / "bin" / "millrace", "certs", "--out", certs], check=True, capture_output=True
        )
        plain = stack.enter_context(servers(mr))
        tls = stack.enter_context(servers(mr, certs)).replace("grpc://", "grpcs://")
        for _ in range(rounds):
            row = {}
            for name, (size, count) in BULK.items():
                without = run(build, "bulk", plain, size, count)["gb_per_s"]
                os.environ["MILLRACE_TLS_CA"] = f"{certs}/ca.pem"
                with_tls = run(build, "bulk", tls, size, count)["gb_per_s"]
                del os.environ["MILLRACE_TLS_CA"]
                row[f"{name}: C, TLS, GB/s"] = with_tls
                row[f"{name}: C, TLS / without"] = with_tls / without
            yield row


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--only", choices=("reading", "tls", "window"), help="measure one of them")
    parser.add_argument(
        "--disk",
        type=pathlib.Path,
        help="where the window's files are; default: the temporary directory",
    )
    parser.add_argument("--json", type=pathlib.Path, help="also write all rounds here")
    args = parser.parse_args()
    build = args.build.resolve()
    os.environ.setdefault("MILLRACE_LIBRARY", str(build / "lib" / "libmillrace.so.0"))
    os.environ.setdefault("MILLRACE_PROGRAM", str(build / "bin" / "millrace"))
    sys.path.insert(0, str(ROOT / "python"))
    rows = [{} for _ in range(args.rounds)]
    measurements = {
        "reading": lambda: reading_rounds(build, args.rounds),
        "tls": lambda: tls_rounds(build, args.rounds),
        "window": lambda: (window_round(build, args.disk) for _ in range(args.rounds)),
    }
    for name, measure in measurements.items():
        if args.only in (None, name):
            for i, row in enumerate(measure()):
                print(f"{name}: round {i + 1} of {args.rounds}", file=sys.stderr, flush=True)
                rows[i].update(row)
    for name in rows[0]:
        values = [row[name] for row in rows]
        print(
            f"{name:50} {statistics.median(values):10.3f}   ({min(values):.3f} .."
            f" {max(values):.3f})"
        )
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
