"""
Pipelines that people write: images a second, records a second, beside tf.data.

    bench/pipelines.py --build build/release [--only g] [--rounds 5]
        [--tensorflow build/peers/bin/python] [--pyarrow build/peers/bin/python] [--service]
        [--one-core]

They run in the process that reads them, or, with --service, on one worker that one client reads.
With --one-core each round also runs on one core alone: `all cores / one core` is what the others
bring, of the best variant here and there. Cases b and g then run beside cores_bench, too, which
moves the same bytes and does nothing else.

Cases c and h run beside libjpeg-turbo alone, too, if there is a build directory: one thread decodes
the images whole, as one thread does in the best variant without AUTOTUNE.

Each case has a few variants (where the batch stands, AUTOTUNE or not), the same source text for both
packages. Rounds are interleaved; of each variant the median counts, of each package the best
variant. `auto / fixed` is the best variant with AUTOTUNE beside the best without.

The input: case a 200 million numbers; b 20,000 tf.Examples of 784 floats, 24 times; c 256 JPEGs of
500 x 375, eight times, of which a part of 320 x 320 is resized; d 200,000 lines of 10 numbers, 16
times; e 100,000 lines of text, eight times, i the same without lookup and buckets; f a Parquet file
of 2 million rows of 13 numbers, Snappy, four times, beside pyarrow's iter_batches (which writes it:
only with --pyarrow); g 16,384 images of 224 x 224 x 3 bytes; h those of c, of which a part of
224 x 224 is not resized. A pass takes about a second, so that its start weighs little, as in an
epoch; tf.data has less of some input, for which it needs longer.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PARQUET_PASSES = 4
VARIANTS = {
    "a": {
        "map, filter, batch": "NUMBERS.map(lambda x: x * 2 + 1)"
        ".filter(lambda x: x % 3 == 0).batch(256)",
        "map (A), filter, batch": "NUMBERS.map(lambda x: x * 2 + 1, num_parallel_calls=A)"
        ".filter(lambda x: x % 3 == 0).batch(256).prefetch(2)",
        "batch, map, mask": "NUMBERS.batch(256).map(lambda x: x * 2 + 1)"
        ".map(lambda x: m.boolean_mask(x, x % 3 == 0))",
        "batch, map, mask (A)": "NUMBERS.batch(256)"
        ".map(lambda x: x * 2 + 1, num_parallel_calls=A)"
        ".map(lambda x: m.boolean_mask(x, x % 3 == 0), num_parallel_calls=A).prefetch(2)",
    },
    "b": {
        "shuffle, batch, parse": "EXAMPLES.shuffle(5000).batch(128)"
        ".map(lambda x: m.io.parse_example(x, FEATURES))",
        "shuffle, batch, parse (A)": "EXAMPLES.shuffle(5000).batch(128)"
        ".map(lambda x: m.io.parse_example(x, FEATURES), num_parallel_calls=A).prefetch(2)",
        "parse, shuffle, padded_batch": "EXAMPLES.map("
        "lambda x: m.io.parse_single_example(x, FEATURES)).shuffle(5000).padded_batch(128)",
        "parse (A), shuffle, padded_batch": "EXAMPLES.map("
        "lambda x: m.io.parse_single_example(x, FEATURES), num_parallel_calls=A)"
        ".shuffle(5000).padded_batch(128).prefetch(2)",
    },
    "c": {
        "decode, batch": "JPEGS.map(augmented).batch(32)",
        "decode (A), batch": "JPEGS.map(augmented, num_parallel_calls=A).batch(32).prefetch(2)",
    },
    "d": {
        "batch, decode": "ROWS.batch(256).map(columns)",
        "batch, decode (A)": "ROWS.batch(256).map(columns, num_parallel_calls=A).prefetch(2)",
    },
    "e": {
        "split, lookup, bucket": "BUCKETS(TEXT.map(ids))",
        "split, lookup (A), bucket": "BUCKETS(TEXT.map(ids, num_parallel_calls=A)).prefetch(2)",
        "split, lookup, padded_batch": "TEXT.map(ids).padded_batch(64)",
        "split, lookup (A), padded_batch": "TEXT.map(ids, num_parallel_calls=A)"
        ".padded_batch(64).prefetch(2)",
        "batch, split, lookup": "TEXT.batch(64).map(lambda x: ids(x).to_tensor())",
        "batch, split, lookup (A)": "TEXT.batch(64).map("
        "lambda x: ids(x).to_tensor(), num_parallel_calls=A).prefetch(2)",
    },
    "f": {
        "batch": "PARQUET().batch(1024)",
        "batch, prefetch (A)": "PARQUET().batch(1024).prefetch(A)",
    },
    "g": {
        "map, batch": "IMAGES.map(normal).batch(32)",
        "map (A), batch": "IMAGES.map(normal, num_parallel_calls=A).batch(32).prefetch(2)",
        "batch, map": "IMAGES.batch(32).map(normal)",
        "batch, map (A)": "IMAGES.batch(32).map(normal, num_parallel_calls=A).prefetch(2)",
    },
    "h": {
        "decode, batch": "JPEGS.map(cropped).batch(32)",
        "decode (A), batch": "JPEGS.map(cropped, num_parallel_calls=A).batch(32).prefetch(2)",
    },
    "i": {
        "split, padded_batch": "TEXT.map(words).padded_batch(64)",
        "split (A), padded_batch": "TEXT.map(words, num_parallel_calls=A)"
        ".padded_batch(64).prefetch(2)",
        "batch, split": "TEXT.batch(64).map(lambda x: words(x).to_tensor())",
        "batch, split (A)": "TEXT.batch(64).map("
        "lambda x: words(x).to_tensor(), num_parallel_calls=A).prefetch(2)",
    },
}


def names(m, data, directory):
    """What the texts of VARIANTS mean with package @m, whose datasets are in @data."""
    import numpy as np

    def normal(x):
        return (m.cast(x, m.float32) - 127.5) / 127.5

    def augmented(name):
        image = m.io.decode_jpeg(m.io.read_file(name), channels=3)
        image = m.image.random_flip_left_right(m.image.random_crop(image, [320, 320, 3]))
        return normal(m.image.resize(image, [224, 224]))

    def cropped(name):
        image = m.io.decode_jpeg(m.io.read_file(name), channels=3)
        image = m.image.random_crop(image, [224, 224, 3])
        return normal(m.image.random_flip_left_right(image))

    def files(case):
        return sorted(str(p) for p in pathlib.Path(directory).glob(case + "-*"))

    def columns(lines):
        return m.stack(m.io.decode_csv(lines, [0.0] * 10), axis=1)

    ours = m is data
    images = np.random.default_rng(0).integers(0, 255, (256, 224, 224, 3), dtype=np.uint8)
    words = ["word%d" % i for i in range(5000)]
    table = m.lookup.StaticVocabularyTable(
        m.lookup.KeyValueTensorInitializer(words, np.arange(5000, dtype=np.int64)), 1
    )

    def split(line):
        return m.strings.split(m.strings.lower(line))

    def bucketed(ds):
        return ds.bucket_by_sequence_length(m.size, [8, 16, 24], [128, 64, 64, 64])

    return {
        "m": m,
        "A": data.AUTOTUNE,
        "NUMBERS": data.Dataset.range(200_000_000 if ours else 500_000),
        "EXAMPLES": data.TFRecordDataset(files("b")).repeat(24 if ours else 4),
        "JPEGS": data.Dataset.from_tensor_slices(files("c")).repeat(8),
        "ROWS": data.TextLineDataset(files("d")).repeat(16 if ours else 2),
        "TEXT": data.TextLineDataset(files("e")).repeat(8 if ours else 1),
        "PARQUET": lambda: m.experimental.ParquetDataset(files("f")).repeat(PARQUET_PASSES),
        "IMAGES": data.Dataset.from_tensor_slices(images).repeat(64 if ours else 16),
        "FEATURES": {
            "x": m.io.FixedLenFeature([784], m.float32),
            "y": m.io.FixedLenFeature([], m.int64),
        },
        "normal": normal,
        "augmented": augmented,
        "cropped": cropped,
        "columns": columns,
        "words": split,
        "ids": lambda line: table.lookup(split(line)),
        "BUCKETS": bucketed,
    }


def make_input(directory):
    """The files, written by this package."""
    import millrace as mr
    import numpy as np

    rng = np.random.default_rng(1)
    with mr.io.TFRecordWriter(f"{directory}/b-0") as writer:
        for i in range(20_000):
            feature = {
                "x": mr.train.Feature(float_list=mr.train.FloatList(value=rng.random(784))),
                "y": mr.train.Feature(int64_list=mr.train.Int64List(value=[i])),
            }
            example = mr.train.Example(features=mr.train.Features(feature=feature))
            writer.write(example.SerializeToString())
    for i in range(256):
        coarse = rng.integers(0, 255, (25, 32, 3), dtype=np.uint8)
        image = mr.cast(mr.image.resize(coarse, [375, 500]), mr.uint8)
        pathlib.Path(f"{directory}/c-{i:03d}").write_bytes(mr.io.encode_jpeg(image))
    np.savetxt(f"{directory}/d-0", rng.random((200_000, 10)), delimiter=",", fmt="%.5f")
    vocabulary = ["word%d" % i for i in range(5000)]
    with open(f"{directory}/e-0", "w") as f:
        for length in rng.integers(3, 30, 100_000):
            f.write(" ".join(vocabulary[i] for i in rng.integers(0, 5000, length)) + "\n")


def make_parquet(directory):
    import numpy as np
    import pyarrow
    import pyarrow.parquet

    rng, rows = np.random.default_rng(2), 2_000_000
    columns = {f"f{i}": rng.standard_normal(rows).astype(np.float32) for i in range(8)}
    columns.update({f"i{i}": rng.integers(0, 1000, rows) for i in range(4)})
    columns["label"] = rng.integers(0, 2, rows).astype(np.int32)
    table = pyarrow.table(columns)
    pyarrow.parquet.write_table(table, f"{directory}/f-0", row_group_size=1 << 18)


def run_pyarrow(directory):
    """The same of pyarrow alone, which has its columns when it has a batch."""
    import pyarrow.parquet

    rates = {}
    for variant, threads in {"one thread": False, "threads": True}.items():
        begin, count = time.perf_counter(), 0
        for _ in range(PARQUET_PASSES):
            file = pyarrow.parquet.ParquetFile(f"{directory}/f-0")
            for batch in file.iter_batches(batch_size=1024, use_threads=threads):
                count += batch.num_rows
        rates[variant] = count / (time.perf_counter() - begin)
    return rates


def servers(package):
    """A dispatcher and a worker: their address, and what keeps them alive."""
    if package == "millrace":
        import millrace as m

        dispatcher = m.service.DispatchServer()
        worker = m.service.WorkerServer(m.service.WorkerConfig(dispatcher.address))
        return dispatcher.target, (dispatcher, worker)
    command = [sys.executable, __file__, "--tf-servers"]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return child.stdout.readline().strip(), child


def serve_tensorflow():
    """tf.data service in a process of its own, until stdin ends."""
    import tensorflow as tf

    service = tf.data.experimental.service
    dispatcher = service.DispatchServer()
    address = dispatcher.target.split("://")[1]
    worker = service.WorkerServer(service.WorkerConfig(dispatcher_address=address))
    print(dispatcher.target, flush=True)
    sys.stdin.read()
    del worker, dispatcher


def run_once(case, package, directory, on_worker):
    """{variant: elements a second} of one pass of each."""
    if package == "pyarrow":
        return run_pyarrow(directory) if case == "f" else make_parquet(directory)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    target, alive = servers(package) if on_worker else (None, None)
    if package == "millrace":
        import millrace as m

        data, service = m, m.service
    else:
        import tensorflow as m

        data, service = m.data, m.data.experimental.service
    table = names(m, data, directory)
    rates = {}
    for variant, text in VARIANTS[case].items():
        ds = eval(text, table)
        if on_worker:
            ds = ds.apply(service.distribute("parallel_epochs", target))
        for warm in (True, False):
            begin, count = time.perf_counter(), 0
            for element in ds.as_numpy_iterator():
                first = next(iter(element.values())) if isinstance(element, dict) else element
                count += len(first)
                if warm and count > 500:
                    break
        rates[variant] = count / (time.perf_counter() - begin)
    if package == "tensorflow" and alive is not None:
        alive.communicate()
    return rates


def measure(python, case, package, directory, *options):
    command = [python, __file__, "--run", case, package, directory, *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"pipelines: {package}, case {case}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def median_rates(rounds):
    return {v: statistics.median(r[v] for r in rounds) for v in rounds[0]}


def measure_jpeg(build, directory):
    """Images that libjpeg-turbo alone decodes a second, on one core."""
    files = sorted(str(p) for p in pathlib.Path(directory).glob("c-*"))
    command = [pathlib.Path(build) / "bench" / "jpeg_bench", "8", *files]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)["images_per_s"]


def measure_loop(build, case, directory):
    """A loop that moves the bytes of case b or g, on one core and on all."""
    what = {"b": ["records", f"{directory}/b-0"], "g": ["images"]}[case]
    command = [pathlib.Path(build) / "bench" / "cores_bench", *what, "1"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout)


def report(case, ours, theirs, peer, bare, alone, loops):
    found = median_rates(ours)
    auto = max((r for v, r in found.items() if "(A)" in v), default=None)
    fixed = max(r for v, r in found.items() if "(A)" not in v)
    line = {"case": case, "elements/s": {v: round(r) for v, r in found.items()}}
    if auto is not None:
        line["auto / fixed"] = round(auto / fixed, 2)
    if theirs:
        best = max(median_rates(theirs).values())
        line[f"{peer}/s"] = round(best)
        line[f"ratio to {peer}"] = round(max(found.values()) / best, 2)
    if bare:
        line["libjpeg-turbo/s"] = round(statistics.median(bare))
        line["fixed / libjpeg-turbo"] = round(fixed / line["libjpeg-turbo/s"], 2)
    if alone:
        best = max(median_rates(alone).values())
        line["one core, elements/s"] = round(best)
        line["all cores / one core"] = round(max(found.values()) / best, 2)
    if loops:
        one, every = (statistics.median(x[k] for x in loops) for k in ("one_core", "all_cores"))
        line["cores_bench/s"] = [round(one), round(every)]
        line["cores_bench, all cores / one core"] = round(every / one, 2)
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description="Pipelines a second, beside tf.data.")
    parser.add_argument("--build", help="a build directory; by default what is installed")
    parser.add_argument("--only", help="one case")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tensorflow", help="a Python that has TensorFlow")
    parser.add_argument(
        "--service", action="store_true", help="on one worker, beside tf.data service"
    )
    parser.add_argument("--pyarrow", help="a Python that has pyarrow: for case f")
    parser.add_argument("--one-core", action="store_true", help="beside the same on one core")
    parser.add_argument("--run", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--tf-servers", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.run:
        if args.one_core:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps(run_once(*args.run, args.service)))
        return
    if args.tf_servers:
        serve_tensorflow()
        return
    if args.only == "f" and not args.pyarrow:
        parser.error("case f needs --pyarrow")
    if args.build:
        root = pathlib.Path(__file__).resolve().parents[1]
        library = next(pathlib.Path(args.build).resolve().glob("lib/libmillrace.so.*"))
        os.environ["MILLRACE_LIBRARY"] = str(library)
        os.environ["MILLRACE_PROGRAM"] = str(library.parents[1] / "bin" / "millrace")
        os.environ["PYTHONPATH"] = str(root / "python")
        sys.path.insert(0, str(root / "python"))
    with tempfile.TemporaryDirectory() as directory:
        make_input(directory)
        peers = {case: ("tensorflow", args.tensorflow) for case in VARIANTS}
        peers["f"] = ("pyarrow", args.pyarrow)
        if args.pyarrow:
            measure(args.pyarrow, "make", "pyarrow", directory, False)
        else:
            del VARIANTS["f"]
        for case in [args.only] if args.only else VARIANTS:
            package, python = peers[case]
            ours, theirs, bare, alone, loops = [], [], [], [], []
            where = ["--service"] if args.service else []
            for _ in range(args.rounds):
                ours.append(measure(sys.executable, case, "millrace", directory, *where))
                if args.one_core:
                    one = measure(sys.executable, case, "millrace", directory, "--one-core", *where)
                    alone.append(one)
                    if case in ("b", "g") and args.build:
                        loops.append(measure_loop(args.build, case, directory))
                if python:
                    theirs.append(measure(python, case, package, directory, *where))
                if case in ("c", "h") and args.build and not args.service:
                    bare.append(measure_jpeg(args.build, directory))
            peer = "tf.data" if package == "tensorflow" else package
            report(case, ours, theirs, peer, bare, alone, loops)


main()
