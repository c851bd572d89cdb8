"""Lists of any length in JSON lines: vectors, ragged tensors, lists of objects; beside a model in
Python."""

import json
import random

import numpy as np
import pytest

import millrace as mr

decode = mr.io.decode_json
Feature, Spec, Ragged = mr.io.FixedLenFeature, mr.TensorSpec, mr.RaggedTensorSpec


def plain(value):
    """A result as lists of Python."""
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    if isinstance(value, mr.sparse.SparseTensor):
        return mr.sparse.to_dense(value).tolist()
    return value.to_list() if isinstance(value, mr.RaggedTensor) else value.tolist()


def refused(records, schema, match):
    with pytest.raises(mr.errors.InvalidArgumentError, match=match):
        decode(records, schema)


# ---- one description at a time ----


def test_a_list_of_any_length():
    schema = {"a": Spec([None], mr.int32)}
    got = decode('{"a": [1, 2, 3]}', schema)["a"]
    assert got.tolist() == [1, 2, 3] and got.dtype == np.int32
    assert decode('{"a": []}', schema)["a"].shape == (0,)
    got = decode(['{"a": [1, 2]}', '{"a": []}', '{"a": [3]}'], schema)["a"]
    assert got.to_list() == [[1, 2], [], [3]] and got.row_splits.dtype == np.int64
    assert plain(decode(['{"a": [1]}'], {"a": [mr.int32]})) == {"a": [[1]]}
    assert plain(decode('{"a": [[1], []]}', {"a": [[mr.int32]]})) == {"a": [[1], []]}


def test_lists_of_lists():
    record = '{"a": [[1, 2, 3], [4, 5, 6]]}'
    for shape in ([None, 3], [2, None], [None, None], [2, 3]):
        got = decode(record, {"a": Spec(shape, mr.float32)})["a"]
        assert got.tolist() == [[1, 2, 3], [4, 5, 6]] and got.shape == (2, 3)
    got = decode([record, '{"a": []}'], {"a": Spec([None, 3], mr.float32)})["a"]
    assert got.to_list() == [[[1, 2, 3], [4, 5, 6]], []] and got.values.shape == (2, 3)
    got = decode([record, '{"a": [[7], [8]]}'], {"a": Spec([2, None], mr.int8)})["a"]
    assert got.to_list() == [[[1, 2, 3], [4, 5, 6]], [[7], [8]]] and got.ragged_rank == 2
    assert decode('{"a": []}', {"a": Spec([None, 3], mr.int8)})["a"].shape == (0, 3)
    assert decode('{"a": [[], []]}', {"a": Spec([None, None], mr.int8)})["a"].shape == (2, 0)


def test_lists_of_several_lengths_in_one_record():
    schema = {"a": Ragged([None, None], mr.string, row_splits_dtype="int32")}
    got = decode('{"a": [["x", "y"], [], ["\\n"]]}', schema)["a"]
    assert got.to_list() == [[b"x", b"y"], [], [b"\n"]] and got.row_splits.dtype == np.int32
    assert decode(['{"a": [["x"], []]}', '{"a": []}'], schema)["a"].to_list() == [[[b"x"], []], []]
    got = decode('{"a": [[[1, 2], [3, 4]], []]}', {"a": Ragged([None, None, 2], "int8", 1)})["a"]
    assert got.to_list() == [[[1, 2], [3, 4]], []] and got.values.shape == (2, 2)
    refused('{"a": [[1], [1, 2]]}', {"a": Spec([None, None], mr.int8)},
            "field 'a': column 13: lists of 1 and 2 entries along axis 1; a ragged field takes them")  # fmt: skip
    refused('{"a": [[1], 2]}', {"a": Ragged([2, None], mr.int8)}, "column 13: a number instead of an array")  # fmt: skip


def test_features_as_of_examples():
    schema = {
        "var": mr.io.VarLenFeature(mr.int64),
        "ragged": mr.io.RaggedFeature(mr.float32),
        "padded": mr.io.FixedLenSequenceFeature([2], mr.int16, True, -1),
        "given": Feature([None], mr.int32, [7, 8]),
    }
    one = decode('{"var": [5], "ragged": [0.5], "padded": [[1, 2]], "given": [3]}', schema)
    assert plain(one) == {"var": [5], "ragged": [0.5], "padded": [[1, 2]], "given": [3]}
    none = decode('{"var": null}', schema)
    assert plain(none) == {"var": [], "ragged": [], "padded": [], "given": [7, 8]}
    assert none["padded"].shape == (0, 2)
    both = decode(['{"var": [5], "ragged": [0.5], "padded": [[1, 2]], "given": []}', "{}"], schema)
    assert plain(both) == {
        "var": [[5], [0]],
        "ragged": [[0.5], []],
        "padded": [[[1, 2]], [[-1, -1]]],
        "given": [[], [7, 8]],
    }
    assert isinstance(both["var"], mr.sparse.SparseTensor)
    assert both["ragged"].row_splits.dtype == np.int32 and both["padded"].dtype == np.int16


def test_lists_of_objects():
    records = [
        '{"buys": [{"sku": "a", "at": [1, 2], "tags": ["x"]}, {"sku": "b", "at": [3, 4]}]}',
        '{"buys": []}',
        '{"buys": null}',
        '{"buys": [{"at": [5, 6], "sku": null, "tags": ["y", "z"], "other": [{}]}, null]}',
    ]
    schema = {"buys": [{
        "sku": Feature([], mr.string, "?"),
        "at": Feature([2], mr.int32, 0),
        "tags": mr.io.RaggedFeature(mr.string),
    }]}  # fmt: skip
    want = [
        {"sku": [b"a", b"b"], "at": [[1, 2], [3, 4]], "tags": [[b"x"], []]},
        {"sku": [], "at": [], "tags": []},
        {"sku": [], "at": [], "tags": []},
        {"sku": [b"?", b"?"], "at": [[5, 6], [0, 0]], "tags": [[b"y", b"z"], []]},
    ]
    assert [plain(decode(r, schema)["buys"]) for r in records] == want
    assert plain(decode(records, schema)["buys"]) == {
        name: [one[name] for one in want] for name in want[0]
    }
    flat = {f"buys[].{name}": field for name, field in schema["buys"][0].items()}
    assert plain(decode(records, flat)) == {
        f"buys[].{name}": [one[name] for one in want] for name in want[0]
    }


def test_lists_of_objects_in_lists_of_objects():
    record = '{"a": [{"b": [{"n": 1}, {"n": 2}]}, {"b": []}, {"b": [{"n": 3}], "m": 4}]}'
    schema = {"a": [{"b": [{"n": mr.int32}], "m": Feature([], mr.int8, 0)}]}
    want = {"a": {"b": {"n": [[1, 2], [], [3]]}, "m": [0, 0, 4]}}
    assert plain(decode(record, schema)) == want
    assert plain(decode([record, '{"a": []}'], schema)) == {
        "a": {"b": {"n": [want["a"]["b"]["n"], []]}, "m": [[0, 0, 4], []]}
    }
    assert plain(decode('{"a": [[{"n": 1}], [], [{"n": 2}]]}', {"a": [[{"n": mr.int32}]]})) == {
        "a": {"n": [[1], [], [2]]}
    }


def test_null_in_a_list():
    assert plain(decode('{"a": [1, null]}', {"a": [Feature([], mr.int32, -1)]})) == {"a": [1, -1]}
    refused('{"a": [1, null]}', {"a": [mr.int32]}, "field 'a\\[\\]': column 11: null instead of a number")  # fmt: skip
    refused('{"a": [1, null]}', {"a": Spec([None], "int32")}, "field 'a': column 11: null instead")
    refused('{"a": [[1], null]}', {"a": Ragged([None, None], "int32")}, "null instead of an array")


def test_records_in_a_matrix():
    records = np.array([['{"a": [1]}', '{"a": []}'], ['{"a": [2, 3]}', '{"a": [4]}']], object)
    got = decode(records, {"a": Spec([None], mr.int32)})["a"]
    assert got.to_list() == [[[1], []], [[2, 3], [4]]]
    got = decode(records[None], {"a": mr.io.RaggedFeature(mr.int32)})["a"]
    assert got.to_list() == [[[[1], []], [[2, 3], [4]]]] and got.row_splits.dtype == np.int32
    assert mr.sparse.to_dense(
        decode(records, {"a": mr.io.VarLenFeature("int32")})["a"]
    ).tolist() == [[[1, 0], [0, 0]], [[2, 3], [4, 0]]]


def test_names_with_brackets():
    assert decode(r'{"a[]": 1, "b[0]": 2}', {r"a\[]": mr.int32, "b[0]": mr.int32}) == {
        r"a\[]": 1,
        "b[0]": 2,
    }


# ---- errors ----


@pytest.mark.parametrize(
    "record, match",
    [
        ('{"p": [{"n": 1}, {"n": "x"}]}', r"field 'p\[\].n': column 24: a string instead of a number"),
        ('{"p": [{"n": 1}, {}]}', r"column 18: field 'p\[\].n' is missing or null, and has no default"),
        ('{"p": [{"n": 1}, null]}', r"column 18: field 'p\[\].n' is missing or null"),
        ('{"p": null}', r"field 'p\[\].n' is missing or null, and has no default"),
        ("{}", r"field 'p\[\].n' is missing or null, and has no default"),
        ('{"p": {"n": 1}}', r"field 'p\[\]': column 7: an object instead of an array"),
        ('{"p": [3]}', r"field 'p\[\]': column 8: a number instead of an object"),
        ('{"p": [{"n": 1, "n": 2}]}', r"field 'p\[\].n': column 22: it is given twice"),
        ('{"p": [{"n": 1}', "column 16: the end instead of ',' or ']'"),
        ('{"p": [], "p": []}', r"field 'p\[\]': column 16: it is given twice"),
        ('{"p": [{"n": 1,}]}', "column 16: '}' instead of a name"),
    ],
)  # fmt: skip
def test_damaged_lists(record, match):
    refused(record, {"p": [{"n": mr.int32}]}, match)
    refused(['{"p": []}', record], {"p": [{"n": mr.int32}]}, "record 1 of 2: .*" + match)


def test_descriptions_that_cannot_be():
    with pytest.raises(ValueError, match="field 'a': a list in a schema has one entry.*, not 2"):
        decode("{}", {"a": [mr.int32, mr.int32]})
    with pytest.raises(ValueError, match="no partitions here; use RaggedTensorSpec"):
        decode("{}", {"a": mr.io.RaggedFeature(mr.int32, "b")})
    with pytest.raises(
        ValueError, match="field 'a': a FixedLenSequenceFeature needs allow_missing"
    ):
        decode("{}", {"a": mr.io.FixedLenSequenceFeature([], mr.int32)})
    with pytest.raises(ValueError, match=r"field 'a\[\].b' has a shape of unknown rank"):
        decode("{}", {"a": [{"b": Spec(None, mr.int32)}]})
    for wrong in (mr.SparseTensorSpec([None], "int32"), mr.io.SparseFeature("i", "v", "int32", 3)):
        with pytest.raises(TypeError, match="field 'a' is described by .*VarLenFeature"):
            decode("{}", {"a": wrong})
    refused("{}", {"a[].b": mr.int32, "a.c": mr.int32}, "in a list by one name, and not by another")
    refused("{}", {"a[].b": mr.int32, "a": mr.int32}, "has fields in it, and is one itself")
    refused("{}", {"a[]b": mr.int32}, r"\[\] stands behind a name")
    refused(
        "{}", {"a": Feature([None], mr.int32, 3)}, r"its default has the shape \[\], not \[\?\]"
    )
    refused("{}", {"a": Feature([None, 2], mr.int32, [[1]])}, r"the shape \[1,1\], not \[\?,2\]")


# ---- beside a model ----


def random_value(source, dims, alike):
    """Lists of the shape @dims, in which None is any length; @alike: the lengths of each axis."""
    if not dims:
        return source.randrange(-99, 99)
    n = dims[0]
    if n is None:
        n = alike.setdefault(len(dims), source.randrange(4)) if alike is not None else source.randrange(4)  # fmt: skip
    return [random_value(source, dims[1:], alike) for _ in range(n)]


def random_schema(source, depth=0):
    """(schema, a function that makes an object of it and what is to be read of it)."""
    schema, makers = {}, {}
    for name in source.sample("abcdef", source.randrange(1, 4)):
        kind = source.randrange(7 if depth < 2 else 5)
        if kind < 5:
            dims = [source.choice([None, None, 1, 2, 3]) for _ in range(source.randrange(4))]
            ragged = kind < 2 and len(dims) > 1
            schema[name] = Ragged(dims, mr.int32) if ragged else Spec(dims, mr.int32)

            def make(dims=dims, ragged=ragged):
                value = random_value(source, dims, None if ragged else {})
                return value, value

            makers[name] = make
        else:
            inner, made = random_schema(source, depth + 1)
            schema[name] = [inner] if kind == 6 else inner

            def make(made=made, kind=kind, inner=inner):
                if kind == 5:
                    return made()
                items = [made() for _ in range(source.randrange(3))]
                return [one for one, _ in items], columns([want for _, want in items], inner)

            makers[name] = make

    def whole():
        pairs = {name: make() for name, make in makers.items()}
        written = list(pairs)
        source.shuffle(written)
        text = {name: pairs[name][0] for name in written}
        return text, {name: pair[1] for name, pair in pairs.items()}

    return schema, whole


def columns(items, schema):
    """Objects as a list for each of their fields."""
    if isinstance(schema, list):
        schema = schema[0]
    if not isinstance(schema, dict):
        return items
    return {name: columns([one[name] for one in items], schema[name]) for name in schema}


@pytest.mark.parametrize("seed", range(60))
def test_random_schemas(seed):
    source = random.Random(seed)
    schema, make = random_schema(source)
    pairs = [make() for _ in range(5)]
    lines = [json.dumps(text, indent=source.choice([None, 1])) for text, _ in pairs]
    wants = [want for _, want in pairs]
    for line, want in zip(lines, wants):
        assert plain(decode(line, schema)) == want
    together = columns(wants, schema)
    assert plain(decode(lines, schema)) == together
    ds = mr.Dataset.from_tensor_slices(lines)
    single = ds.map(lambda line: decode(line, schema))
    assert [plain(x) for x in single] == wants
    batch = ds.batch(5, drop_remainder=True).map(lambda lines: decode(lines, schema))
    assert plain(next(iter(batch))) == together
    # Rows of the engine are many records each.
    twice = ds.batch(2).repeat(3).map(lambda lines: decode(lines, schema))
    want = [columns(wants[i : i + 2], schema) for i in (0, 2, 4)] * 3
    assert [plain(x) for x in twice] == want


# ---- in pipelines ----

SCHEMA = {
    "id": mr.int64,
    "words": Spec([None], mr.string),
    "buys": [{"sku": mr.string, "tags": mr.io.RaggedFeature(mr.string)}],
}


def lines_of(n):
    return [
        {
            "id": i,
            "words": [f"w{k}" for k in range(i % 4)],
            "buys": [{"sku": str(k), "tags": ["t"] * k} for k in range(i % 3)],
        }
        for i in range(n)
    ]


def wanted(line):
    buys = line["buys"]
    return {
        "id": line["id"],
        "words": [w.encode() for w in line["words"]],
        "buys": {
            "sku": [b["sku"].encode() for b in buys],
            "tags": [[t.encode() for t in b["tags"]] for b in buys],
        },
    }


def write(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return mr.TextLineDataset(str(path))


def test_specs_say_what_is_known():
    ds = mr.Dataset.from_tensors("{}").map(lambda x: decode(x, SCHEMA))
    assert ds.element_spec == {
        "id": Spec([], mr.int64),
        "words": Spec([None], mr.string),
        "buys": {"sku": Spec([None], mr.string), "tags": Ragged([None, None], mr.string, 1, "int32")},
    }  # fmt: skip
    ds = mr.Dataset.from_tensors(["{}"] * 3).map(lambda x: decode(x, SCHEMA))
    assert ds.element_spec["words"] == Ragged([3, None], mr.string, 1)
    assert ds.element_spec["buys"]["tags"] == Ragged([3, None, None], mr.string, 2, "int32")


def test_lines_of_files(tmp_path):
    lines = lines_of(20)
    ds = write(tmp_path / "t.jsonl", lines)
    assert [plain(x) for x in ds.map(lambda x: decode(x, SCHEMA))] == list(map(wanted, lines))
    ragged = ds.map(lambda x: decode(x, SCHEMA)["words"]).ragged_batch(7)
    together = ds.batch(7).map(lambda x: decode(x, SCHEMA)["words"])
    assert [plain(x) for x in ragged] == [plain(x) for x in together]
    rows = ds.batch(7).map(lambda x: decode(x, SCHEMA)["buys"]["tags"]).unbatch()
    assert [plain(x) for x in rows] == [wanted(line)["buys"]["tags"] for line in lines]
    cached = ds.batch(6).map(lambda x: decode(x, SCHEMA)).cache(str(tmp_path / "cache"))
    for _ in range(2):
        assert sum((plain(x)["words"] for x in cached), []) == [wanted(x)["words"] for x in lines]


def test_errors_name_the_line(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"a": [1]}\n{"a": [1, "x"]}\n{"a": []}\n')
    ds = mr.TextLineDataset(str(path)).map(lambda x: decode(x, {"a": [mr.int32]}))
    with pytest.raises(mr.errors.InvalidArgumentError) as raised:
        list(ds)
    assert "/t.jsonl', record 1, offset 11" in str(raised.value)
    assert r"field 'a[]': column 11: a string instead of a number" in str(raised.value)
    assert [plain(x["a"]) for x in ds.ignore_errors()] == [[1], []]


def test_through_a_service(cluster, tmp_path):
    lines = lines_of(30)
    ds = write(tmp_path / "t.jsonl", lines).batch(4).map(lambda x: decode(x, SCHEMA))
    got = [plain(x) for x in ds.apply(cluster.distribute())]
    want = [columns([wanted(x) for x in lines[i : i + 4]], SCHEMA) for i in range(0, 30, 4)]
    assert sorted(got, key=lambda x: x["id"][0]) == want
