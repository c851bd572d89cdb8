"""
Makes the files of this directory; what a-b.parquet holds is in a.json. Needs pyarrow, duckdb, polars
and fastparquet.
"""

import json
import pathlib
import random

import duckdb
import fastparquet
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).parent
ROWS = 20


def with_nulls(values):
    return [None if i % 3 == 1 else v for i, v in enumerate(values)]


def ints(kind):
    info = np.iinfo(kind)
    return [int(v) for v in np.linspace(info.min / 2, info.max / 2, ROWS).astype(kind)]


def types():
    """A column of each type; those with an `_n` have nulls."""
    of = {k: (ints(k), getattr(pa, k)()) for k in ("int8", "int16", "int32", "int64")}
    of |= {k: (ints(k), getattr(pa, k)()) for k in ("uint8", "uint16", "uint32", "uint64")}
    halves = [i / 4 for i in range(ROWS)]
    of["float16"] = ([np.float16(v) for v in halves], pa.float16())
    of["float32"] = (halves, pa.float32())
    of["float64"] = ([v / 3 for v in halves], pa.float64())
    of["bool"] = ([i % 5 < 2 for i in range(ROWS)], pa.bool_())
    of["string"] = ([f"text {i}" * (i % 3) for i in range(ROWS)], pa.string())
    of["binary"] = ([bytes([i, 0, 255]) for i in range(ROWS)], pa.binary())
    of["fixed"] = ([bytes([i] * 5) for i in range(ROWS)], pa.binary(5))
    of["date"] = ([i * 100 - 500 for i in range(ROWS)], pa.date32())
    of["time"] = ([i * 1000 for i in range(ROWS)], pa.time64("us"))
    of["stamp"] = ([i * 10**9 for i in range(ROWS)], pa.timestamp("us", "UTC"))
    columns = {}
    for name, (values, kind) in of.items():
        for suffix, some in (("", values), ("_n", with_nulls(values))):
            plain = pa.int32() if name == "date" else pa.int64()
            to = plain if name in ("date", "time", "stamp") else kind
            columns[name + suffix] = pa.array(some, to).cast(kind)
    colours = ["red", "green", "blue"]
    columns["colour"] = pa.array([colours[i % 3] for i in range(ROWS)]).dictionary_encode()
    return pa.table(columns)


def encodings():
    """The same values in each encoding."""
    random.seed(1)
    numbers = [random.randint(-(2**40), 2**40) for _ in range(100)]
    words = [random.choice(["", "a", "ab", "abc" * 9]) + str(i // 7) for i in range(100)]
    flags = [i // 40 % 2 == 0 for i in range(100)]
    return pa.table(
        {
            "plain": numbers,
            "delta": numbers,
            "split": numbers,
            "small": pa.array([n % 1000 for n in numbers], pa.int32()),
            "lengths": words,
            "prefixes": words,
            "words": words,
            "flags": flags,
        }
    )


ENCODINGS = {
    "plain": "PLAIN",
    "delta": "DELTA_BINARY_PACKED",
    "split": "BYTE_STREAM_SPLIT",
    "small": "DELTA_BINARY_PACKED",
    "lengths": "DELTA_LENGTH_BYTE_ARRAY",
    "prefixes": "DELTA_BYTE_ARRAY",
    "words": "PLAIN",
    "flags": "RLE",
}


def lists():
    of = [[1, 2, 3], [], None, [None, 4], [5]] * 8
    words = [["a", "bb"], None, [""], [], [None]] * 8
    return pa.table(
        {
            "ints": pa.array(of, pa.list_(pa.int64())),
            "words": pa.array(words, pa.list_(pa.string())),
            "flags": pa.array([[True], [False, True], []] * 13 + [[True]], pa.list_(pa.bool_())),
            "large": pa.array(of, pa.large_list(pa.float32())),
            "row": list(range(40)),
        }
    )


def kinds():
    """Columns that are not read, and one that is."""
    return pa.table(
        {
            "id": [1, 2],
            "decimal": pa.array([1, 2], pa.int32()).cast(pa.decimal128(12, 2)),
            "struct": [{"x": 1}, {"x": 2}],
            "map": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())),
            "deep": [[[1]], [[2], []]],
        }
    )


def example():
    """For the documentation."""
    return pa.table(
        {
            "id": range(6),
            "name": [None if i == 1 else f"row {i}" for i in range(6)],
            "price": pa.array([i / 2 for i in range(6)], pa.float32()),
            "tags": [["new"] * (i % 3) for i in range(6)],
        }
    )


def as_json(column):
    values = column.to_pylist()
    kind = column.type
    if pa.types.is_date32(kind):
        values = column.cast(pa.int32()).to_pylist()
    elif pa.types.is_time64(kind) or pa.types.is_timestamp(kind):
        values = column.cast(pa.int64()).to_pylist()
    return [v.decode("latin-1") if isinstance(v, bytes) else v for v in map(number, values)]


def number(v):
    return float(v) if isinstance(v, np.floating) else v


def write(name, table, **how):
    pq.write_table(table, HERE / f"{name}.parquet", store_schema=False, **how)
    said = {c: as_json(table[c].combine_chunks()) for c in table.column_names}
    if name != "kinds":
        text = json.dumps(said, separators=(",", ":"), sort_keys=True)
        (HERE / f"{name.partition('-')[0]}.json").write_text(text + "\n")


def arrow(name, table, rows=None, stream=False, compression=None):
    """As Arrow IPC."""
    options = pa.ipc.IpcWriteOptions(compression=compression, unify_dictionaries=True)
    new = pa.ipc.new_stream if stream else pa.ipc.new_file
    with new(HERE / f"{name}.arrow", table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)


def arrow_kinds():
    """What Parquet has not, or does not tell apart."""
    return (
        kinds()
        .append_column("view", pa.array(["a", "longer than twelve bytes"], pa.string_view()))
        .append_column("after", pa.array([[1, 2], [3, 4]], pa.list_(pa.int16(), 2)))
    )


def others():
    """Files of other writers."""
    table = example().select(["id", "name", "price"])
    frame = polars.from_arrow(table)
    frame.write_parquet(HERE / "others-polars.parquet", row_group_size=4)
    frame.write_ipc(HERE / "others-polars.arrow", compat_level=polars.CompatLevel.oldest())
    fastparquet.write(str(HERE / "others-fastparquet.parquet"), table.to_pandas())
    to = HERE / "others-duckdb.parquet"
    duckdb.sql(f"copy (select * from frame) to '{to}' (format parquet, parquet_version 'V2')")
    said = {c: as_json(table[c].combine_chunks()) for c in table.column_names}
    (HERE / "others.json").write_text(json.dumps(said, separators=(",", ":")) + "\n")


def main():
    v2 = {"data_page_version": "2.0"}
    write("types", types(), row_group_size=8, compression="NONE")
    write("types-v2-zstd", types(), row_group_size=16, compression="ZSTD", **v2)
    write("types-plain-lz4", types(), compression="LZ4", use_dictionary=False)
    how = {"use_dictionary": False, "column_encoding": ENCODINGS}
    write("encodings-gzip", encodings(), compression="GZIP", data_page_size=256, **how)
    write("encodings-v2", encodings(), compression="SNAPPY", write_page_checksum=True, **how, **v2)
    small = {"dictionary_pagesize_limit": 64, "data_page_size": 64, "write_batch_size": 16}
    write("encodings-fallback", encodings(), compression="SNAPPY", **small)
    write("lists", lists(), compression="SNAPPY", row_group_size=17, data_page_size=32)
    write("lists-v2", lists(), compression="NONE", **v2)
    stamps = types().select(["stamp", "stamp_n"])
    in_ns = pa.table({c: stamps[c].cast(pa.timestamp("ns", "UTC")) for c in stamps.column_names})
    write("int96", in_ns, use_deprecated_int96_timestamps=True)
    write("empty", types().select(["int64", "string"]).slice(0, 0))
    write("kinds", kinds())
    write("example", example(), row_group_size=4, compression="SNAPPY")
    plain = {"compression": "NONE", "use_dictionary": False}
    write("example-checksums", example(), row_group_size=4, write_page_checksum=True, **plain)
    arrow("types", types(), rows=8)
    arrow("types-stream-zstd", types(), rows=16, stream=True, compression="zstd")
    arrow("lists-lz4", lists(), rows=17, compression="lz4")
    arrow("lists-stream", lists(), stream=True)
    arrow("empty", types().select(["int64", "string"]).slice(0, 0))
    arrow("kinds", arrow_kinds())
    arrow("example", example(), rows=4)
    others()


if __name__ == "__main__":
    main()
