"""
Makes each thing that can bound a job the one that does, on purpose, and counts how often the
dispatcher names it.

    make why-check
    python3 bench/why.py [--runs 20] [--only storage,network] [--seconds 8]

A cluster of its own: a dispatcher and workers on loopback; trainers are threads of this process. What
slows a run down is real: trainers sleep, a map multiplies matrices, a file is a pipe into which
somebody writes slowly, a proxy that passes few bytes a second stands before a worker. Sizes and paces
are drawn anew for each run. The verdict is read after so many seconds of reading. A run is right if
the bound is named, and with it the operator at its line, the consumer or the file system where there
is one. Fails if one of them is named in fewer than 18 of 20 runs.
"""

import argparse
import contextlib
import dataclasses
import inspect
import json
import os
import pathlib
import random
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import millrace as mr
from millrace import Dataset

ENDLESS = 1 << 60
PASS_AT_ONCE = 16 << 10
RIGHT_OF_20 = 18


class Proxy:
    """Passes what comes to its port on to another one, and so many bytes a second back."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.target = 0
        self.bytes_per_s = 1 << 20
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            near, _ = self.server.accept()
            far = socket.socket()
            far.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 10)
            far.connect(("127.0.0.1", self.target))
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, True), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, slowly: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(PASS_AT_ONCE):
                sink.sendall(data)
                if slowly:
                    time.sleep(len(data) / self.bytes_per_s)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Trainer(threading.Thread):
    """Reads @ds, sleeping so long for each element, until it is stopped."""

    def __init__(self, ds: Any, sleep_s: float) -> None:
        super().__init__(daemon=True)
        self.iterator = iter(ds)
        self.sleep_s = sleep_s
        self.stopping = threading.Event()
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for _ in self.iterator:
                if self.stopping.wait(self.sleep_s):
                    return
        except mr.errors.MillraceError as error:
            self.error = None if self.stopping.is_set() else error

    def stop(self) -> None:
        self.stopping.set()
        self.iterator.close()
        self.join()
        if self.error is not None:
            raise self.error


class SlowFile(threading.Thread):
    """A pipe in the place of a file of lines: so many bytes a second come out of it."""

    def __init__(self, path: pathlib.Path, bytes_per_s: int) -> None:
        super().__init__(daemon=True)
        os.mkfifo(path)
        self.path = path
        self.bytes_per_s = bytes_per_s
        self.start()

    def run(self) -> None:
        lines = b"".join(b"%d\n" % i for i in range(1000, 1200))
        with contextlib.suppress(BrokenPipeError), open(self.path, "wb", buffering=0) as f:
            while True:
                f.write(lines)
                time.sleep(len(lines) / self.bytes_per_s)


@dataclasses.dataclass
class Run:
    """One run of a case: what it needs, and what is right."""

    service: str
    job: str
    random: random.Random
    directory: pathlib.Path
    proxy: Proxy
    ends: contextlib.ExitStack
    right: dict[str, str] = dataclasses.field(default_factory=dict)

    def read(
        self, ds: Any, mode: str = "parallel_epochs", sleep_s: float = 0, **options: Any
    ) -> None:
        distribute = mr.service.distribute(mode, self.service, job_name=self.job, **options)
        trainer = Trainer(ds.apply(distribute), sleep_s)
        self.ends.callback(trainer.stop)

    def line_before(self) -> str:
        """The line before its caller's, as operators are named by it."""
        frame = inspect.currentframe()
        assert frame is not None and frame.f_back is not None
        return f"why.py:{frame.f_back.f_lineno - 1})"


def multiply(times: int, size: int) -> Callable[[Any], Any]:
    """Work for a map: an element, the longer the larger @times."""

    def run(x: Any) -> Any:
        ones = mr.ones([size, size], mr.float32)
        product = ones * mr.cast(x % 7, mr.float32)
        for _ in range(times):
            product = mr.linalg.matmul(product, ones)
        return product[0]

    return run


def trainer(run: Run) -> None:
    ds = Dataset.range(ENDLESS).map(lambda x: x + 1).batch(run.random.choice([1, 32, 256]))
    run.read(ds, sleep_s=run.random.uniform(0.005, 0.2))
    run.right = {"bound": "trainer"}


def client(run: Run) -> None:
    work = multiply(run.random.randint(2, 20), 150)
    distribute = mr.service.distribute("parallel_epochs", run.service, job_name=run.job)
    reader = Trainer(Dataset.range(ENDLESS).apply(distribute).map(work), 0)
    run.ends.callback(reader.stop)
    run.right = {"bound": "client"}


def cpu(run: Run) -> None:
    work = multiply(run.random.randint(2, 20), 150)
    ds = Dataset.range(ENDLESS).shuffle(100).map(lambda x: x + 1)
    calls = run.random.choice([None, 2, mr.AUTOTUNE])
    ds = ds.map(work, num_parallel_calls=calls)
    run.right = {"bound": "cpu", "operator": run.line_before()}
    if run.random.random() < 0.5:
        ds = ds.batch(4).prefetch(2)
    run.read(ds)


def storage(run: Run) -> None:
    files = [
        str(SlowFile(run.directory / f"{run.job}-{i}", run.random.randint(2_000, 50_000)).path)
        for i in range(run.random.choice([1, 3]))
    ]
    ds = Dataset.from_tensor_slices(files).interleave(mr.TextLineDataset, cycle_length=len(files))
    run.right = {"bound": "storage", "operator": "TextLineDataset", "place": " at /"}
    run.read(ds.map(lambda line: mr.strings.length(line)).batch(8))


def network(run: Run) -> None:
    run.proxy.bytes_per_s = run.random.randint(300_000, 4_000_000)
    size = run.random.choice([100, 10_000, 100_000])
    ds = Dataset.range(ENDLESS).map(lambda x: mr.fill([size], x))
    run.right = {"bound": "network"}
    run.read(ds)


def splits(run: Run) -> None:
    work = multiply(run.random.randint(2, 20), 150)
    ds = Dataset.range(1).flat_map(lambda x: Dataset.range(ENDLESS)).map(work)
    run.right = {"bound": "splits"}
    run.read(ds, mode="distributed_epoch")


def consumer(run: Run) -> None:
    of = run.random.randint(2, 4)
    slow = run.random.randrange(of)
    ds = Dataset.range(ENDLESS).map(lambda x: x + 1)
    for i in range(of):
        sleep_s = run.random.uniform(0.01, 0.2) if i == slow else 0
        run.read(ds, "parallel_epochs", sleep_s, num_consumers=of, consumer_index=i)
    run.right = {"bound": "consumer", "place": f"consumer {slow}"}


def memory(run: Run) -> None:
    """Another job's buffer has most of the budget: little is made ahead."""
    kib = run.random.choice([16, 64])
    held = Dataset.range(ENDLESS).map(lambda x: mr.fill([kib << 8], x))
    held = held.shuffle(int(run.random.uniform(24.2, 26) * 1024 / kib))
    holder = mr.service.distribute("parallel_epochs", run.service)
    run.ends.callback(Trainer(held.apply(holder), 1).stop)
    work = multiply(run.random.randint(2, 20), 150)
    ds = Dataset.range(ENDLESS).map(work, num_parallel_calls=mr.AUTOTUNE)
    run.right = {"bound": "memory"}
    run.read(ds.prefetch(8))


@dataclasses.dataclass
class Case:
    start: Callable[[Run], None]
    workers: int = 1
    proxied: bool = False
    budget: str = ""
    anew: bool = False  # a cluster for each run: what the last one held may still be there


CASES = {
    "trainer": Case(trainer, workers=2),
    "client": Case(client),
    "cpu": Case(cpu),
    "storage": Case(storage),
    "network": Case(network, proxied=True),
    "splits": Case(splits, workers=2),
    "consumer": Case(consumer, workers=2),
    "memory": Case(memory, budget="64MiB", anew=True),
}


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


@contextlib.contextmanager
def cluster(case: Case) -> Iterator[tuple[Any, Proxy]]:
    dispatcher = mr.service.DispatchServer()
    proxy = Proxy()
    workers = []
    if case.budget:
        os.environ["MILLRACE_WORKER_MEMORY_BUDGET"] = case.budget
    for _ in range(case.workers):
        config = mr.service.WorkerConfig(dispatcher.address)
        if case.proxied:
            proxy.target = free_port()
            address = f"127.0.0.1:{proxy.port}"
            config = dataclasses.replace(config, port=proxy.target, worker_address=address)
        workers.append(mr.service.WorkerServer(config))
    os.environ.pop("MILLRACE_WORKER_MEMORY_BUDGET", None)
    try:
        yield dispatcher, proxy
    finally:
        for worker in workers:
            worker.stop()
        dispatcher.stop()


def verdict(service: str, job: str) -> dict[str, Any]:
    status = json.loads(mr.service.status(service))
    return next((j.get("why", {}) for j in status["jobs"] if j.get("name") == job), {})


def look(case: Case, seed: str, seconds: float, at: tuple[Any, Proxy]) -> bool:
    """One run; says what was wrong, or all."""
    dispatcher, proxy = at
    with contextlib.ExitStack() as ends:
        directory = pathlib.Path(ends.enter_context(tempfile.TemporaryDirectory()))
        run = Run(dispatcher.target, seed, random.Random(seed), directory, proxy, ends)
        case.start(run)
        time.sleep(seconds)
        why = verdict(run.service, run.job)
    mr.service.delete_job(run.service, run.job, force=True)
    good = all(text in why.get(field, "") for field, text in run.right.items())
    parts = ", ".join(
        " ".join([f"{p.get('permille', 0) / 10} % {p['bound']}", p.get("operator", "")]).strip()
        for p in why.get("parts", [])
    )
    place = why.get("place", "")
    print(f"  {seed}: {'right' if good else 'WRONG'}: {place} {parts}", flush=True)
    return good


def measure(name: str, case: Case, args: argparse.Namespace) -> int:
    right = 0
    with contextlib.ExitStack() as ends:
        at = None
        for i in range(args.runs):
            if at is None or case.anew:
                ends.pop_all().close()
                at = ends.enter_context(cluster(case))
            right += look(case, f"{name}-{args.seed}-{i}", args.seconds, at)
    print(f"{name:10} {right} of {args.runs} right", flush=True)
    return right


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--seed", default=str(random.randrange(1 << 32)))
    parser.add_argument("--only", default=",".join(CASES))
    args = parser.parse_args()
    failed = []
    for name in args.only.split(","):
        if measure(name, CASES[name], args) * 20 < RIGHT_OF_20 * args.runs:
            failed.append(name)
    if failed:
        sys.exit(f"not named often enough: {', '.join(failed)}")


if __name__ == "__main__":
    main()
