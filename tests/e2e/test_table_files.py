"""Files of tables: what pyarrow wrote (tests/support/tables), row by row."""

import datetime
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

import millrace as mr

TABLES = pathlib.Path(__file__).parents[1] / "support" / "tables"
FILES = sorted(
    p for p in TABLES.iterdir() if p.suffix in (".parquet", ".arrow") and p.stem != "kinds"
)
Parquet = mr.experimental.ParquetDataset
Arrow = mr.experimental.ArrowDataset


def rows_of(path, *args, **kwargs):
    return (Arrow if path.suffix == ".arrow" else Parquet)(path, *args, **kwargs)


def expected(path, name, dtype, default):
    """What the file holds in column @name, as elements are; null: @default."""
    said = json.loads((TABLES / f"{path.stem.partition('-')[0]}.json").read_text())

    def plain(value):
        if isinstance(value, list):
            return [plain(v) for v in value]
        if value is None:
            return default
        return value.encode(encoding(name)) if isinstance(value, str) else value

    def encoding(column):
        return "latin-1" if column.startswith(("binary", "fixed")) else "utf-8"

    return [plain(value) for value in said[name]]


def default_of(spec):
    return b"null" if spec.dtype is mr.string else spec.dtype.numpy_dtype().type(1)


def as_python(value):
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_column_is_what_was_written(path):
    specs = rows_of(path).element_spec
    defaults = {name: default_of(spec) for name, spec in specs.items()}
    rows = list(rows_of(path, defaults=defaults))
    for name, spec in specs.items():
        want = expected(path, name, spec.dtype, as_python(defaults[name]))
        if spec.shape.rank == 1:
            want = [[] if w == as_python(defaults[name]) else w for w in want]
        assert [as_python(row[name]) for row in rows] == want, name
        if rows and spec.dtype is not mr.string:
            assert rows[0][name].dtype == spec.dtype.numpy_dtype()


def test_specs_say_what_columns_are():
    specs = Parquet(TABLES / "types.parquet").element_spec
    for name in ("int8", "uint16", "uint64", "float16", "float64", "bool", "string"):
        assert specs[name] == mr.TensorSpec([], getattr(mr, name))
    assert specs["date"].dtype is mr.int32 and specs["stamp"].dtype is mr.int64
    assert specs["fixed"].dtype is mr.string and specs["colour"].dtype is mr.string
    assert Parquet(TABLES / "lists.parquet", ["ints"]).element_spec == {
        "ints": mr.TensorSpec([None], mr.int64)
    }


def test_batches_are_columns():
    path = TABLES / "types.parquet"
    batch = next(iter(Parquet(path, ["int64", "string"]).batch(20)))
    assert batch["int64"].tolist() == expected(path, "int64", None, None)
    assert batch["string"].tolist() == expected(path, "string", None, None)


def test_row_groups_and_files_follow_one_another():
    paths = [TABLES / "example.parquet"] * 2
    for split in (True, False):
        assert [int(r["id"]) for r in Parquet(paths, ["id"], split_files=split)] == [*range(6)] * 2
    names = mr.Dataset.from_tensor_slices([str(p) for p in paths])
    spec = {"id": mr.int64}
    assert [int(r["id"]) for r in Parquet(names, element_spec=spec)] == [*range(6)] * 2
    inner = names.interleave(lambda p: Parquet(p, element_spec=spec), cycle_length=2)
    assert [int(r["id"]) for r in inner] == [i for i in range(6) for _ in range(2)]
    with pytest.raises(ValueError, match="element_spec is needed"):
        Parquet(names)


def read_past_errors(ds):
    """Elements, and the messages of errors in their places."""
    it, got = iter(ds), []
    while True:
        try:
            got.append(next(it))
        except StopIteration:
            return got
        except mr.errors.MillraceError as e:
            got.append(str(e))


def test_null_without_a_default_is_an_error_in_its_place():
    got = read_past_errors(Parquet(TABLES / "example.parquet", ["id", "name"]))
    assert [g if isinstance(g, str) else int(g["id"]) for g in got][:1] == [0]
    assert "row group 0, row 1, column 'name': it is null" in got[1]
    assert got[1].startswith("ParquetDataset (step 1, ")
    assert [int(g["id"]) for g in got[2:]] == [2, 3, 4, 5]
    ds = Parquet(TABLES / "example.parquet", ["id", "name"]).ignore_errors()
    assert [int(r["id"]) for r in ds] == [0, 2, 3, 4, 5]
    with pytest.raises(mr.errors.InvalidArgumentError, match="row 2, column 'ints'"):
        list(Parquet(TABLES / "lists.parquet", ["ints"]))


def test_columns_that_are_not_read():
    path = TABLES / "kinds.parquet"
    assert [int(r["id"]) for r in Parquet(path, ["id"])] == [1, 2]
    for name, kind in [
        ("decimal", "decimals"),
        ("struct", "structs"),
        ("map", "maps"),
        ("deep", "lists of lists"),
    ]:
        with pytest.raises(ValueError, match=f"kinds.parquet', column '{name}' is .*{kind}"):
            Parquet(path, [name])
        with pytest.raises(mr.errors.UnimplementedError, match=f"column '{name}': it is .*{kind}"):
            list(Parquet(path, element_spec={name: mr.int64}, split_files=False))
    with pytest.raises(ValueError, match="is not read"):
        Parquet(path)


def test_columns_of_arrow_that_are_not_read():
    path = TABLES / "kinds.arrow"
    rows = list(Arrow(path, ["id", "after"]))
    assert [r["after"].tolist() for r in rows] == [[1, 2], [3, 4]]
    assert Arrow(path, ["after"]).element_spec == {"after": mr.TensorSpec([2], mr.int16)}
    assert next(iter(Arrow(path, ["after"]).batch(2)))["after"].shape == (2, 2)
    for name, kind in [("struct", "structs"), ("map", "maps"), ("view", "string views")]:
        with pytest.raises(ValueError, match=f"kinds.arrow', column '{name}' is .*{kind}"):
            Arrow(path, [name])


def test_arguments():
    path = TABLES / "example.parquet"
    with pytest.raises(ValueError, match="has no column 'nix': there are .'id', 'name'"):
        Parquet(path, ["nix"])
    with pytest.raises(ValueError, match="a name twice"):
        Parquet(path, ["id", "id"])
    with pytest.raises(ValueError, match="no column is chosen"):
        Parquet(path, [])
    with pytest.raises(TypeError, match="a sequence of names"):
        Parquet(path, "id")
    with pytest.raises(ValueError, match="defaults has .'nix'."):
        Parquet(path, defaults={"nix": 1})
    with pytest.raises(ValueError, match="is a scalar"):
        Parquet(path, defaults={"name": ["a"]})
    for wrong in (None, np.datetime64("2020-01-01"), datetime.date(2020, 1, 1), 1.5):
        with pytest.raises(TypeError, match="the default of column 'name': "):
            Parquet(path, defaults={"name": wrong})
    with pytest.raises(ValueError, match="filenames is empty"):
        Parquet([])
    with pytest.raises(mr.errors.NotFoundError, match="nowhere.parquet"):
        Parquet("nowhere.parquet")
    assert list(Parquet([], element_spec={"id": mr.int64})) == []


def test_columns_of_another_type_than_was_said():
    path = TABLES / "example.parquet"
    ds = Parquet(path, element_spec={"price": mr.float64})
    with pytest.raises(
        mr.errors.InvalidArgumentError, match=r"column 'price': it is float32\[\], not float64\[\]"
    ):
        list(ds)
    ds = Parquet(path, element_spec={"cost": mr.float64})
    with pytest.raises(mr.errors.InvalidArgumentError, match="column 'cost': there is no such"):
        list(ds)


@pytest.mark.parametrize("split", [True, False])
def test_a_damaged_row_group_leaves_the_next_one(tmp_path, split):
    path = tmp_path / "damaged.parquet"
    original = (TABLES / "example.parquet").read_bytes()
    path.write_bytes(b"PAR1" + b"\xff" * 40 + original[44:])
    got = read_past_errors(Parquet(path, ["id"], split_files=split))
    assert "damaged.parquet': row group 0: column 'id': " in got[0]
    assert [int(g["id"]) for g in got[1:]] == [4, 5]


def test_rows_before_the_damage_are_read(tmp_path):
    """Pages of 16 rows: what is lost does not depend on how many rows are read at a time."""
    whole = (TABLES / "encodings-fallback.parquet").read_bytes()
    good = [row["plain"] for row in Parquet(TABLES / "encodings-fallback.parquet", ["plain"])]
    path = tmp_path / "damaged.parquet"
    for at, rows in [(4, 0), (244, 16), (660, 48), (1252, 96)]:
        path.write_bytes(whole[:at] + b"\xff" * 16 + whole[at + 16 :])
        ds = Parquet(path, ["plain"])
        got = read_past_errors(ds)
        assert [row["plain"] for row in got[:-1]] == good[:rows]
        assert "damaged.parquet': row group 0: column 'plain': " in got[-1]
        kept = ds.ignore_errors()
        assert [len(b["plain"]) for b in kept.batch(100)] == [rows] * (rows > 0)
        assert len(list(kept.take(rows + 1))) == rows


@pytest.mark.parametrize("dataset", [Parquet, Arrow])
def test_what_is_no_regular_file(tmp_path, dataset):
    """Nobody writes into the pipe: it must not be waited for."""
    os.mkfifo(tmp_path / "pipe")
    for path, says in (
        (tmp_path, "Is a directory"),
        (tmp_path / "pipe", "this is no regular file"),
    ):
        with pytest.raises(mr.errors.InvalidArgumentError, match=says):
            dataset(path)


def test_what_is_no_parquet_file(tmp_path):
    path = tmp_path / "a.parquet"
    whole = (TABLES / "example.parquet").read_bytes()
    for bytes_, why in [
        (b"", "0 bytes are no Parquet file"),
        (b"text, and more of it", "does not end as"),
        (whole[:-4] + b"PARE", "is encrypted"),
        (whole[:-8] + b"\xff\xff\xff\x7fPAR1", "a footer of"),
        (whole[:-60] + b"\xff" * 52 + whole[-8:], "damaged"),
    ]:
        path.write_bytes(bytes_)
        with pytest.raises((mr.errors.DataLossError, mr.errors.UnimplementedError), match=why):
            Parquet(path)


def test_what_is_no_arrow_file(tmp_path):
    path = tmp_path / "a.arrow"
    whole = (TABLES / "example.arrow").read_bytes()
    for bytes_, why in [
        (b"", "no schema"),
        (b"text, and more of it, and more", "the head of a message"),
        (whole[:-1], "does not end as"),
        (whole[:-40] + b"\xff" * 30 + whole[-10:], "damaged"),
        (whole[: len(whole) // 2] + b"ARROW1", "does not end as"),
    ]:
        path.write_bytes(bytes_)
        with pytest.raises(mr.errors.DataLossError, match=why):
            Arrow(path)


def test_a_damaged_record_batch_leaves_the_next_one(tmp_path):
    path = tmp_path / "damaged.arrow"
    whole = (TABLES / "example.arrow").read_bytes()
    at = whole.index(b"row 0")  # the offsets of the strings are before them
    path.write_bytes(whole[: at - 20] + b"\xff" * 20 + whole[at:])
    got = read_past_errors(Arrow(path, ["id", "name"], {"name": "?"}))
    assert "damaged.arrow': record batch 0: column 'name': " in got[0]
    assert [int(g["id"]) for g in got[1:]] == [4, 5]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
@pytest.mark.parametrize("cut", [0, 1, 3, 4, 5, 6, 11, 12])
def test_positions(cut, kind, split):
    def make():
        paths = [TABLES / f"example.{kind}"] * 2
        dataset = Arrow if kind == "arrow" else Parquet
        return dataset(paths, ["id", "name"], {"name": "?"}, split_files=split)

    everything = [(int(r["id"]), r["name"]) for r in make()]
    it = iter(make())
    for _ in range(cut):
        next(it)
    state = it.get_state()
    again = iter(make())
    again.set_state(state)
    assert [(int(r["id"]), r["name"]) for r in again] == everything[cut:]


def divided(row):
    return 1 // (row["id"] - 4)


@pytest.mark.parametrize("name", ["example.parquet", "example.arrow"])
def test_an_error_behind_a_table_names_its_row(name, make_cluster):
    """The number is that in the file, also where each row group is a piece of its own."""
    path = TABLES / name
    cluster = make_cluster(workers=1)
    where = rf"\(file '[^']*{name}', row 4\): // "
    rows = rows_of(path, ["id"])
    for ds, said in [
        (rows.map(divided), where),
        (rows_of(path, ["id"], split_files=False).map(divided), where),
        (rows.shuffle(10, seed=3).map(divided), where),
        (rows.cache().repeat(2).skip(6).map(divided), where),
        (rows.batch(3).map(divided), where.replace("row 4", "rows 3 to 5")),
        (rows.map(divided).apply(cluster.distribute("distributed_epoch")), where),
    ]:
        with pytest.raises(mr.errors.InvalidArgumentError, match=said):
            list(ds)


def test_a_restored_state_knows_the_rows():
    ds = rows_of(TABLES / "example.parquet", ["id"], split_files=False).map(divided)
    before, after = iter(ds), iter(ds)
    next(before)
    after.set_state(before.get_state())
    assert next(after) == 1 // -3
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"example.parquet', row 4\)"):
        list(after)


def test_row_groups_are_splits(make_cluster, tmp_path):
    paths = []
    for i in range(3):
        paths.append(tmp_path / f"{i}.parquet")
        shutil.copy(TABLES / "lists.parquet", paths[-1])
    cluster = make_cluster(workers=2)
    ds = Parquet(paths, ["row"]).batch(4)
    ds = ds.apply(cluster.distribute("distributed_epoch", job_name="table"))
    batches = [b["row"].tolist() for b in ds]
    assert sorted(i for b in batches for i in b) == sorted([*range(40)] * 3)
