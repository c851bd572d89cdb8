"""SqlDataset: rows of a database. What SQLite makes of each value is what TensorFlow gives."""

import sqlite3

import numpy as np
import pytest

import millrace as mr
from millrace.experimental import SqlDataset

ROWS = [
    ("a", 1, 1.5, b"\x00\xff"),
    ("bé", -300, 2.0, None),
    (None,) * 4,
    ("12", 1 << 40, 1e300, b"7"),
]


def make(path, encoding="UTF-8"):
    database = sqlite3.connect(path)
    database.execute(f"PRAGMA encoding = '{encoding}'")
    database.execute("CREATE TABLE t (name TEXT, n INTEGER, x REAL, b BLOB)")
    database.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", ROWS)
    database.commit()
    database.close()
    return path


@pytest.fixture
def path(tmp_path):
    return make(tmp_path / "a table?.db")


def rows(ds):
    return [tuple(x.tolist() if isinstance(x, np.generic) else x for x in row) for row in ds]


def test_rows_have_the_types_that_are_asked_for(path):
    ds = SqlDataset(
        "sqlite", path, "SELECT name, n, x, b FROM t", (mr.string, mr.int64, mr.float64, mr.string)
    )
    assert [spec.dtype for spec in ds.element_spec] == [mr.string, mr.int64, mr.float64, mr.string]
    assert all(spec.shape == () for spec in ds.element_spec)
    assert (
        rows(ds)
        == rows(ds)
        == [
            (b"a", 1, 1.5, b"\x00\xff"),
            ("bé".encode(), -300, 2.0, b""),
            (b"", 0, 0.0, b""),
            (b"12", 1 << 40, 1e300, b"7"),
        ]
    )


@pytest.mark.parametrize(
    "query, types, want",
    [
        (
            "SELECT n, n, n, n, n, n FROM t",
            (mr.int8, mr.int16, mr.int32, mr.uint8, mr.uint16, mr.bool),
            [(1,) * 5 + (True,), (-44, -300, -300, 212, 65236, True), (0,) * 6, (0,) * 5 + (True,)],
        ),
        ("SELECT name, x FROM t", (mr.int64, mr.int32), [(0, 1), (0, 2), (0, 0), (12, -1)]),
        (
            "SELECT n, x FROM t",
            ("string", "string"),
            [(b"1", b"1.5"), (b"-300", b"2.0"), (b"", b""), (b"1099511627776", b"1.0e+300")],
        ),
        (
            "SELECT n, x FROM t",
            [mr.float64, mr.bool],
            [(1.0, True), (-300.0, True), (0.0, False), (float(1 << 40), True)],
        ),
        ("SELECT name, n FROM t WHERE n > 1e15", (mr.string, mr.int32), []),
    ],
)
def test_sqlite_converts_what_has_another_type(path, query, types, want):
    ds = SqlDataset("sqlite", str(path), query, types)
    assert rows(ds) == want
    assert [spec.dtype for spec in ds.element_spec] == [mr.as_dtype(dtype) for dtype in types]


def test_text_is_utf_8_whatever_the_database_has(tmp_path):
    path = make(tmp_path / "wide.db", "UTF-16le")
    assert rows(SqlDataset("sqlite", path, "SELECT name, n, b FROM t", (mr.string,) * 3)) == [
        (b"a", b"1", b"\x00\xff"),
        ("bé".encode(), b"-300", b""),
        (b"", b"", b""),
        (b"12", b"1099511627776", b"7"),
    ]


def test_rows_are_those_of_when_it_was_built(path):
    ds = SqlDataset("sqlite", path, "SELECT n FROM t", (mr.int64,))
    path.unlink()
    assert rows(ds) == [(1,), (-300,), (0,), (1 << 40,)]
    assert ds.cardinality() == 4


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        (
            ("mysql", None, "SELECT n FROM t", (mr.int64,)),
            mr.errors.InvalidArgumentError,
            "'mysql'",
        ),
        (
            ("sqlite", "/nowhere/at/all", "SELECT n FROM t", (mr.int64,)),
            mr.errors.NotFoundError,
            "'/nowhere/at/all'",
        ),
        (
            ("sqlite", None, "SELECT n FROM t", (mr.float32,)),
            mr.errors.InvalidArgumentError,
            r"output_types\[0\] is float32",
        ),
        (("sqlite", None, "SELECT n FROM t", mr.int64), TypeError, "a tuple"),
        (
            ("sqlite", None, "SELECT n FROM t", (mr.int64,) * 2),
            mr.errors.InvalidArgumentError,
            "gives 1 columns, output_types has 2",
        ),
        (
            ("sqlite", None, "SELECT nope FROM t", (mr.int64,)),
            mr.errors.InvalidArgumentError,
            "no such column: nope",
        ),
        (
            ("sqlite", None, "SELECT n FROM t; SELECT x FROM t", (mr.int64,)),
            mr.errors.InvalidArgumentError,
            "one statement",
        ),
        (
            ("sqlite", None, "DELETE FROM t", (mr.int64,)),
            mr.errors.InvalidArgumentError,
            "readonly database",
        ),
        (
            ("sqlite", __file__, "SELECT n FROM t", (mr.int64,)),
            mr.errors.InvalidArgumentError,
            "not a database",
        ),
        (("sqlite", None, "SELECT n FROM t", ()), TypeError, "a tuple"),
    ],
)
def test_what_is_wrong_is_named(path, arguments, error, text):
    driver, source, query, types = arguments
    with pytest.raises(error, match=text):
        SqlDataset(driver, path if source is None else source, query, types)


def test_names_and_words_that_are_no_utf_8_are_refused(path):
    """SQLite takes any bytes for names, and gives them in what it says."""
    rows_of = lambda query: SqlDataset("sqlite", path, query, (mr.int64,))
    with pytest.raises(mr.errors.InvalidArgumentError, match="a table.*surrogates not allowed"):
        rows_of("SELECT '\ud800'")
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE u (naim INTEGER)")
    database.commit()
    database.close()
    path.write_bytes(path.read_bytes().replace(b"naim", b"na\xefm"))
    with pytest.raises(mr.errors.InvalidArgumentError, match="a table.*SELECT .*can't decode"):
        rows_of("SELECT * FROM u")
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE u", b"CREATE TA\xc4LE u"))
    with pytest.raises(mr.errors.InvalidArgumentError, match="a table.*SELECT .*can't decode"):
        rows_of("SELECT n FROM t")


def test_workers_do_not_need_the_database(cluster, path):
    ds = SqlDataset("sqlite", path, "SELECT name, n FROM t", (mr.string, mr.int64))
    path.unlink()
    read = ds.apply(mr.service.distribute("parallel_epochs", cluster.service))
    assert sorted(rows(read)) == sorted(rows(ds))
