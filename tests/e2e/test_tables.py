"""CSV: fields, records and files, beside Python's csv module."""

import csv
import gzip
import io
import random
import struct
import zlib

import numpy as np
import pytest

import millrace as mr

decode = mr.io.decode_csv


def test_columns():
    a, b, c, d, e = decode(
        ["1,2,0.5,1e3,x", ' -7 ,9000000000,-.25,inf,"y, z"'],
        [mr.int32, mr.int64, mr.float32, mr.float64, mr.string],
    )
    assert a.tolist() == [1, -7] and a.dtype == np.int32
    assert b.tolist() == [2, 9000000000] and b.dtype == np.int64
    assert c.tolist() == [0.5, -0.25] and c.dtype == np.float32
    assert d.tolist() == [1000.0, float("inf")] and d.dtype == np.float64
    assert e.tolist() == [b"x", b"y, z"]


def test_shapes():
    (x,) = decode([["1", "2"], ["3", "4"]], [[0]])
    assert x.tolist() == [[1, 2], [3, 4]]
    (y,) = decode("5", [[0]])
    assert y == 5 and y.shape == ()


def test_empty_fields():
    a, b, c = decode(",NA,", [[1], [2.0], ["z"]], na_value="NA")
    assert (a, b, c) == (1, 2.0, b"z")
    a, b = decode('"",', [["q"], [3]])
    assert (a, b) == (b"q", 3)
    for required in (mr.int32, []):
        with pytest.raises(
            mr.errors.InvalidArgumentError, match="field 2 is empty and has no default"
        ):
            decode("1,", [mr.int32, required])
    defaults = mr.Dataset.range(3).map(lambda i: decode(",7", [i, [0]]))
    assert [tuple(map(int, x)) for x in defaults] == [(0, 7), (1, 7), (2, 7)]


def test_selected_columns():
    a, b = decode("a,b,c,d", [["x"], ["y"]], select_cols=[1, 3])
    assert (a, b) == (b"b", b"d")
    with pytest.raises(mr.errors.InvalidArgumentError, match="3 fields, there must be at least 5"):
        decode("a,b,c", [["x"]], select_cols=[4])
    for cols in ([1, 0], [-1, 0], [1]):
        with pytest.raises(mr.errors.InvalidArgumentError, match="select_cols"):
            decode("a,b", [["x"], ["y"]], select_cols=cols)


@pytest.mark.parametrize(
    "record, defaults, text",
    [
        ("1", [[0], [0]], "1 fields, there must be 2"),
        ("1,2,3", [[0], [0]], "3 fields, there must be 2"),
        ("1,x", [[0], [0]], "field 2, 'x', is not a valid int32"),
        ("2147483648", [[0]], "is not a valid int32"),
        ("1.5", [np.int64(0)], "is not a valid int64"),
        ("0x10", [[0]], "is not a valid int32"),
        ("1 2", [[0.0]], "is not a valid float32"),
        ('a"b', [["x"]], "field 1 has a quote in it and is not in quotes"),
        ("a\nb", [["x"]], "field 1 has an end of line in it"),
        ('"a', [["x"]], "field 1 begins with a quote that nothing closes"),
        ('"a"b', [["x"]], "field 1 goes on behind the quote that closes it"),
    ],
)
def test_bad_records(record, defaults, text):
    with pytest.raises(mr.errors.InvalidArgumentError, match=text):
        decode(record, defaults)


def test_bad_arguments():
    with pytest.raises(mr.errors.InvalidArgumentError, match="field_delim"):
        decode("1", [[0]], field_delim=";;")
    with pytest.raises(mr.errors.InvalidArgumentError, match="more than one value"):
        decode("1", [[0, 1]])
    with pytest.raises(mr.errors.InvalidArgumentError, match="bool"):
        decode("1", [mr.bool])
    with pytest.raises(ValueError, match="record_defaults"):
        decode("1", [])


def test_without_quotes():
    a, b = decode('"a,b"', [["x"], ["y"]], use_quote_delim=False)
    assert (a, b) == (b'"a', b'b"')
    a, b = decode("a\tb", [["x"], ["y"]], field_delim="\t")
    assert (a, b) == (b"a", b"b")


def some_text(r, characters):
    return "".join(r.choice(characters) for _ in range(r.randrange(6)))


def written(rows, delimiter=",", end="\n"):
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator=end).writerows(rows)
    return out.getvalue()


@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_what_pythons_module_writes(tmp_path, delimiter, end):
    r = random.Random(7)
    rows = [[some_text(r, 'ab,;"\n é' + end) for _ in range(3)] for _ in range(300)]
    path = tmp_path / "x.csv"
    path.write_bytes(written(rows, delimiter, end).encode())
    ds = mr.experimental.CsvDataset(str(path), [[""]] * 3, field_delim=delimiter, buffer_size=1)
    assert [[f.decode() for f in row] for row in ds] == rows


def test_numbers_are_read_as_python_reads_them():
    r = random.Random(3)
    texts = [
        "0",
        "-0.0",
        "1e-45",
        "3.4028236e38",
        "1e400",
        "nan",
        ".5",
        "5.",
        "+1",
        "1e-400",
        "16777217",
    ]
    for _ in range(4000):
        texts.append(repr(r.uniform(-1, 1) * 10.0 ** r.randrange(-40, 40)))
        texts.append(f"{r.uniform(-9, 9):.{r.randrange(20)}f}")
        texts.append(str(np.float32(r.uniform(-9, 9)) + np.float64(2.0**-25)))
    (wide,) = decode(texts, [mr.float64])
    assert np.array_equal(wide, np.array([float(t) for t in texts]), equal_nan=True)
    (narrow,) = decode(texts, [mr.float32])
    with np.errstate(over="ignore"):
        want = np.array([exact32(t) for t in texts], np.float32)
    assert np.array_equal(narrow, want, equal_nan=True)
    ints = [str(r.randrange(-(2**63), 2**63)) for _ in range(1000)] + [
        str(-(2**63)),
        str(2**63 - 1),
    ]
    assert decode(ints, [mr.int64])[0].tolist() == [int(t) for t in ints]
    with pytest.raises(mr.errors.InvalidArgumentError):
        decode(str(2**63), [mr.int64])


def exact32(text):
    """The float32 that is nearest to the number written: rounded once."""
    from fractions import Fraction

    wide = float(text)
    near = np.float32(wide)
    if not np.isfinite(near) or not np.isfinite(wide):
        return near
    exact = Fraction(text.replace("+", "")) if "e" not in text else Fraction(text)
    candidates = [
        np.nextafter(near, np.float32(-np.inf)),
        near,
        np.nextafter(near, np.float32(np.inf)),
    ]
    finite = [c for c in candidates if np.isfinite(c)]
    best = min(abs(Fraction(float(c)) - exact) for c in finite)
    nearest = [c for c in finite if abs(Fraction(float(c)) - exact) == best]
    even = [c for c in nearest if np.float32(c).view(np.uint32) % 2 == 0]
    return near if near in nearest and (len(nearest) == 1 or near in even) else (even or nearest)[0]


# ---- files ----


def zstd(text):
    """@text as a Zstandard frame of one block, as it is."""
    return struct.pack("<IBB", 0xFD2FB528, 0, 0) + (len(text) << 3 | 1).to_bytes(3, "little") + text


@pytest.fixture
def table(tmp_path):
    def write(name, rows, header=("id", "price", "name"), compression=None):
        text = written([header, *rows] if header else rows).encode()
        packed = {"GZIP": gzip.compress, "ZLIB": zlib.compress, "ZSTD": zstd}.get(
            compression, bytes
        )(text)
        path = tmp_path / name
        path.write_bytes(packed)
        return str(path)

    return write


ROWS = [[i, i / 4, f"name {i}\nof two lines" if i % 3 else ""] for i in range(20)]


@pytest.mark.parametrize("compression", [None, "GZIP", "ZLIB", "ZSTD"])
def test_files(table, compression):
    path = table("t.csv", ROWS, compression=compression)
    ds = mr.experimental.CsvDataset(
        [path, path], [mr.int32, [0.0], ["?"]], compression_type=compression, header=True
    )
    want = [(i, p, (n or "?").encode()) for i, p, n in ROWS] * 2
    assert [tuple(x) for x in ds] == want
    made = mr.experimental.make_csv_dataset(
        path, 20, num_epochs=1, shuffle=False, compression_type=compression
    )
    (columns,) = made
    assert columns["name"].tolist() == [n.encode() for _, _, n in ROWS]
    specs = tuple(mr.TensorSpec([], d) for d in (mr.int32, mr.float32, mr.string))
    assert ds.element_spec == specs
    it = ds.as_numpy_iterator()
    for _ in range(23):
        next(it)
    state, rest = it.get_state(), [tuple(x) for x in it]
    again = ds.as_numpy_iterator()
    again.set_state(state)
    assert [tuple(x) for x in again] == rest == want[23:]


def test_columns_of_files(table):
    path = table("t.csv", ROWS)
    some = mr.experimental.CsvDataset(path, [mr.int32], header=True, select_cols=[0])
    assert [int(x) for x, in some] == list(range(20))
    others = mr.experimental.CsvDataset(path, [mr.int32, [""]], header=True, exclude_cols=[1])
    assert [int(x) for x, _ in others] == list(range(20))
    with pytest.raises(ValueError, match="not both"):
        mr.experimental.CsvDataset(path, [mr.int32], select_cols=[0], exclude_cols=[1])


def test_a_bad_record_is_named(table):
    path = table("t.csv", [*ROWS[:5], ["x", 1, "a"], *ROWS[6:]])
    ds = mr.experimental.CsvDataset(path, [mr.int32, [0.0], ["?"]], header=True)
    with pytest.raises(mr.errors.InvalidArgumentError) as raised:
        list(ds)
    text = str(raised.value)
    assert "/t.csv', record 6, offset " in text and "field 1, 'x', is not a valid int32" in text
    assert [int(x[0]) for x in ds.ignore_errors()] == [i for i in range(20) if i != 5]
    unclosed = table("u.csv", [["1", "2", "3"]])
    with open(unclosed, "a") as file:
        file.write('2,3,"')
    with pytest.raises(mr.errors.InvalidArgumentError, match="record 2, .*nothing closes"):
        list(mr.experimental.CsvDataset(unclosed, [[0], [0], [""]], header=True))


def test_on_workers(make_cluster, table):
    cluster = make_cluster(workers=2)
    files = [table(f"{k}.csv", [[100 * k + i, i, ""] for i in range(20)]) for k in range(4)]
    ds = mr.experimental.CsvDataset(files, [mr.int32, [0.0], ["?"]], header=True)
    there = ds.apply(cluster.distribute("distributed_epoch"))
    assert sorted(int(x[0]) for x in there) == [100 * k + i for k in range(4) for i in range(20)]


def test_make_csv_dataset(table, tmp_path):
    for k in range(3):
        table(f"part{k}.csv", [[100 * k + i, i / 4, f"n{i}"] for i in range(10)])
    pattern = str(tmp_path / "part*.csv")
    make = mr.experimental.make_csv_dataset
    ds = make(pattern, 4, label_name="price", num_epochs=1, shuffle=False)
    assert ds.element_spec == (
        {"id": mr.TensorSpec([None], mr.int32), "name": mr.TensorSpec([None], mr.string)},
        mr.TensorSpec([None], mr.float32),
    )
    batches = list(ds)
    assert [len(label) for _, label in batches] == [4] * 7 + [2]
    ids = np.concatenate([x["id"] for x, _ in batches]).tolist()
    assert ids == [100 * k + i for k in range(3) for i in range(10)]
    shuffled = make(pattern, 30, num_epochs=1, shuffle_seed=3)
    (only,) = list(shuffled)
    assert sorted(only["id"].tolist()) == ids and only["id"].tolist() != ids
    endless = make(pattern, 4, select_columns=["id"], num_parallel_reads=2)
    assert all(x["id"].shape == (4,) for x in endless.take(20))
    assert endless.element_spec == {"id": mr.TensorSpec([4], mr.int32)}


def test_dtypes_are_found(table):
    rows = [[1, 2**40, 0.5, 1e300, "x", ""], ["", 1, 2, 3, 4, ""]]
    path = table("t.csv", rows, header=list("abcdef"))
    ds = mr.experimental.make_csv_dataset(path, 2, num_epochs=1, shuffle=False)
    found = {name: spec.dtype for name, spec in ds.element_spec.items()}
    assert found == {
        "a": mr.int32,
        "b": mr.int64,
        "c": mr.float32,
        "d": mr.float64,
        "e": mr.string,
        "f": mr.string,
    }
    (batch,) = list(ds)
    assert batch["a"].tolist() == [1, 0] and batch["f"].tolist() == [b"", b""]


def test_bad_tables(table, tmp_path):
    make = mr.experimental.make_csv_dataset
    path = table("t.csv", ROWS)
    with pytest.raises(ValueError, match="label_name is 'cost'"):
        make(path, 4, label_name="cost")
    with pytest.raises(ValueError, match="select_columns has 'cost'"):
        make(path, 4, select_columns=["cost"])
    with pytest.raises(ValueError, match="1 column_defaults for 3 columns"):
        make(path, 4, column_defaults=[[0]])
    with pytest.raises(ValueError, match="column_names must be given"):
        make(path, 4, header=False)
    short = table("short.csv", [[1, 2.5, "a"], [2, 3.5]])
    with pytest.raises(ValueError, match="short.csv', record 2: 2 fields, the first one has 3"):
        make(short, 4)
    columns = make(short, 4, column_defaults=[[0], [0.0], [""]], num_epochs=1, ignore_errors=True)
    assert next(iter(columns))["id"].tolist() == [1]
    table("t2.csv", ROWS, header=("id", "cost", "name"))
    with pytest.raises(ValueError, match="has another header"):
        make(str(tmp_path / "t*.csv"), 4)
    with pytest.raises(mr.errors.InvalidArgumentError, match="nosuch"):
        make(str(tmp_path / "nosuch*.csv"), 4)


# ---- where TensorFlow draws the line ----


@pytest.mark.parametrize(
    "record, want",
    [
        ("", "0 fields, there must be 1"),
        ("\n\r", "0 fields, there must be 1"),
        ("\r\na", [b"a"]),
        ('\n"a\nb"', [b"a\nb"]),
        ("a\n", "field 1 has an end of line in it"),
    ],
)
def test_ends_of_lines_in_front_of_fields(record, want):
    if isinstance(want, list):
        assert mr.io.decode_csv(record, [["d"]]) == want
    else:
        with pytest.raises(mr.errors.InvalidArgumentError, match=want):
            mr.io.decode_csv(record, [["d"]])


def test_an_end_of_line_behind_the_last_delimiter_is_no_field():
    assert mr.io.decode_csv("1,\r", [[0]]) == [1]
    assert mr.io.decode_csv("1,", [[0], [2]]) == [1, 2]
    with pytest.raises(mr.errors.InvalidArgumentError, match="1 fields, there must be 2"):
        mr.io.decode_csv("1,\r", [[0], [0]])


def csv_rows(tmp_path, text, *arguments, **options):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    ds = mr.experimental.CsvDataset(str(path), *arguments, **options)
    found = []
    try:
        for row in ds:
            found.append([x if isinstance(x, bytes) else x.item() for x in row])
    except mr.errors.InvalidArgumentError as error:
        found.append(str(error).split(": ", 2)[-1])
    return found


def test_an_empty_line_is_a_record_with_one_field(tmp_path):
    assert csv_rows(tmp_path, "\n5\n\n", [[7]]) == [[7], [5], [7]]
    assert "1 fields, there must be 2" in csv_rows(tmp_path, "\n", [[7], [8]])[0]
    assert csv_rows(tmp_path, "", [[7]], header=True) == []


def test_all_of_a_record_is_checked_whatever_is_selected(tmp_path):
    two = '1,"a\n2",b"\n'
    assert "field 3 has a quote in it" in csv_rows(tmp_path, two, [[0]], select_cols=[0])[0]
    text = '1,"a\n2,b\n'
    assert "a quote that nothing closes" in csv_rows(tmp_path, text, [[0]], select_cols=[0])[0]
    assert csv_rows(tmp_path, "1,a,b\n2\n", [[0]], select_cols=[0]) == [[1], [2]]


def test_how_many_fields_a_record_has_besides_excluded_ones(tmp_path):
    options = {"exclude_cols": [1]}
    assert csv_rows(tmp_path, "1,a\n2\n", [[0]], **options) == [[1], [2]]
    found = csv_rows(tmp_path, "1,a\n2,b,c\n", [[0]], **options)
    assert found[0] == [1] and "3 fields, there must be at most 2" in found[1]


FLOATS = {
    "0x1f": 31.0, "-0X10": -16.0, "inf": np.inf, "-INF": -np.inf, "+5": 5.0, " 1.5 ": 1.5, "1e5": 1e5,
    "0x1p3": None, "infinity": None, "nan(1)": None, "1d3": None, "": None, "  ": None, "1e": None,
    "1e400": np.inf, ".5": 0.5, "5.": 5.0, "0x": None, "1\x002": None,
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_which_texts_are_floats(dtype):
    for text, want in FLOATS.items():
        if want is not None:
            assert mr.strings.to_number(text, dtype) == want, text
            assert mr.io.decode_csv(text, [np.zeros(1, dtype)])[0] == want
        else:
            with pytest.raises(mr.errors.InvalidArgumentError):
                mr.strings.to_number(text, dtype)
    assert np.isnan(mr.strings.to_number(["nan", "-NaN"], dtype)).all()


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_which_texts_are_ints(dtype):
    assert mr.strings.to_number(["007", " -5 "], dtype).tolist() == [7, -5]
    for text in ("+5", "0x1f", "1.0", "1_0", "-", ""):
        with pytest.raises(mr.errors.InvalidArgumentError):
            mr.strings.to_number(text, dtype)


@pytest.mark.parametrize(
    "values, dtype",
    [
        (["1", "2"], mr.int32),
        (["1", "3000000000"], mr.int64),
        (["1", "99999999999999999999"], mr.float32),
        (["1", "2.5"], mr.float32),
        (["-inf", "1"], mr.float32),
        (["1e300"], mr.float64),
        (["-1e300"], mr.float64),
        (["1", "nan"], mr.string),
        (["inf"], mr.string),
        (["1", "x"], mr.string),
    ],
)
def test_dtypes_that_are_found(tmp_path, values, dtype):
    path = tmp_path / "t.csv"
    path.write_text("a\n" + "\n".join(values) + "\n")
    ds = mr.experimental.make_csv_dataset(str(path), 2, num_epochs=1, shuffle=False)
    assert ds.element_spec["a"].dtype == dtype
    assert len(next(iter(ds))["a"]) == len(values)
