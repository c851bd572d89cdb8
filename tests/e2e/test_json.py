"""JSON lines: values, shapes, defaults and errors, beside Python's json module."""

import json
import random

import numpy as np
import pytest

import millrace as mr

decode = mr.io.decode_json
Field = mr.io.FixedLenFeature
INTS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def refused(record, schema, match):
    with pytest.raises(mr.errors.InvalidArgumentError, match=match):
        decode(record, schema)


def test_columns():
    lines = [
        {"i": 1, "f": 0.5, "d": 1e300, "b": True, "s": "x", "v": [1, 2]},
        {
            "v": [3, -4],
            "other": {"a": [1, {"b": None}]},
            "s": 'é"\n',
            "b": False,
            "d": 2,
            "f": 3,
            "i": -7,
        },
    ]
    got = decode(
        [json.dumps(line) for line in lines],
        {"i": mr.int32, "f": mr.float32, "d": mr.TensorSpec([], mr.float64), "b": mr.bool,
         "s": mr.string, "v": mr.TensorSpec([2], mr.int16)},
    )  # fmt: skip
    assert list(got) == ["i", "f", "d", "b", "s", "v"]
    assert got["i"].tolist() == [1, -7] and got["i"].dtype == np.int32
    assert got["f"].tolist() == [0.5, 3.0] and got["f"].dtype == np.float32
    assert got["d"].tolist() == [1e300, 2.0] and got["d"].dtype == np.float64
    assert got["b"].tolist() == [True, False] and got["b"].dtype == np.bool_
    assert got["s"].tolist() == [b"x", 'é"\n'.encode()]
    assert got["v"].tolist() == [[1, 2], [3, -4]] and got["v"].dtype == np.int16


def test_shapes():
    got = decode(
        [['{"a": [[1, 2, 3]]}'], ['{"a": [[4, 5, 6]]}']], {"a": mr.TensorSpec([1, 3], "int8")}
    )
    assert got["a"].tolist() == [[[[1, 2, 3]]], [[[4, 5, 6]]]]
    assert decode('{"a": 5}', {"a": mr.int64})["a"].shape == ()
    assert decode('{"a": []}', {"a": mr.TensorSpec([0], mr.string)})["a"].shape == (0,)
    ds = mr.Dataset.from_tensor_slices(['{"a": [1, 2]}'] * 5).batch(2)
    ds = ds.map(lambda x: decode(x, {"a": mr.TensorSpec([2], mr.int32)}))
    assert ds.element_spec == {"a": mr.TensorSpec([None, 2], mr.int32)}
    assert [x["a"].shape for x in ds] == [(2, 2), (2, 2), (1, 2)]


def test_nested_names():
    record = json.dumps({"u": {"n": {"x": 1}, "a.b": 2, "c\\": 3}, "x": 4})
    want = {"u": {"n": {"x": mr.int32}, r"a\.b": mr.int32}, "x": mr.int32}
    assert decode(record, want) == {"u": {"n": {"x": 1}, r"a\.b": 2}, "x": 4}
    flat = {"u.n.x": mr.int32, r"u.a\.b": mr.int32, "u.c\\\\": mr.int32}
    assert decode(record, flat) == {"u.n.x": 1, r"u.a\.b": 2, "u.c\\\\": 3}
    assert decode(r'{"\u0061\n": 1}', {"a\n": mr.int32}) == {"a\n": 1}


def test_defaults():
    schema = {
        "a": Field([], mr.int32, 7),
        "o": {"s": Field([], mr.string, "none"), "v": Field([2], mr.float32, [1, 2])},
        "w": Field([3], mr.int64, 9),
    }
    for record in ('{"a": null, "o": null, "w": null}', "{}", '{"o": {}}', '{"o": {"s": null}}'):
        got = decode(record, schema)
        assert got["a"] == 7 and got["o"]["s"] == b"none"
        assert got["o"]["v"].tolist() == [1, 2] and got["w"].tolist() == [9, 9, 9]
    got = decode(['{"a": 1}', '{"o": {"v": [3, 4]}}'], schema)
    assert got["a"].tolist() == [1, 7] and got["o"]["v"].tolist() == [[1, 2], [3, 4]]
    refused("{}", {"a": mr.int32}, "field 'a' is missing or null, and has no default")
    refused('{"o": null}', {"o.s": mr.int32}, "field 'o.s' is missing or null")


@pytest.mark.parametrize("dtype", INTS)
def test_bounds_of_ints(dtype):
    info = np.iinfo(dtype)
    for value in (info.min, info.max, 0):
        got = decode(json.dumps({"a": int(value)}), {"a": dtype})["a"]
        assert got == value and got.dtype == dtype
    for value in (int(info.min) - 1, int(info.max) + 1, 0.5, 10**400):
        text = json.dumps(value)
        refused('{"a": %s}' % text, {"a": dtype}, f"field 'a': column 7: .* is not a valid {dtype}")


def test_whole_numbers_that_are_written_with_a_fraction():
    got = decode('{"a": [3.0, -2e1, 1E+2, -0]}', {"a": mr.TensorSpec([4], mr.int8)})["a"]
    assert got.tolist() == [3, -20, 100, 0]
    refused('{"a": 1e19}', {"a": mr.int64}, "1e19 is not a valid int64")
    refused('{"a": NaN}', {"a": mr.int64}, "NaN is not a valid int64")


def test_floats_are_those_of_python():
    source = random.Random(4)
    values = [source.uniform(-1, 1) * 10.0 ** source.randint(-320, 308) for _ in range(500)]
    values += [0.0, -0.0, float("inf"), -float("inf"), 5e-324, 2**63, 0.1]
    text = json.dumps({"a": values})
    got = decode(text, {"a": mr.TensorSpec([len(values)], mr.float64)})["a"]
    assert got.tolist() == values
    assert np.isnan(decode('{"a": NaN}', {"a": mr.float32})["a"])
    single = decode(text, {"a": mr.TensorSpec([len(values)], mr.float32)})["a"]
    with np.errstate(over="ignore"):
        assert single.tolist() == np.array(values, np.float32).tolist()


def test_strings_are_those_of_python():
    source = random.Random(5)
    alphabet = ['"', "\\", "/", "\b", "\f", "\n", "\r", "\t", "\0", "\x1f", "a", "é", "\u20ac", "😀",
                "\uffff", "\U0010ffff"]  # fmt: skip
    texts = ["".join(source.choices(alphabet, k=source.randint(0, 30))) for _ in range(200)]
    for plain in (True, False):
        lines = [json.dumps({"s": t}, ensure_ascii=plain) for t in texts]
        assert decode(lines, {"s": mr.string})["s"].tolist() == [t.encode() for t in texts]
    assert decode(r'{"s": "\/\uD83d\uDe00"}', {"s": mr.string})["s"] == "/😀".encode()


def rows(source, depth=0):
    kind = source.randint(0, 6 if depth < 3 else 4)
    if kind < 5:
        return [
            None,
            True,
            source.randint(-9, 9),
            source.random(),
            "".join(source.choices('a"\\é', k=3)),
        ][kind]
    if kind == 5:
        return [rows(source, depth + 1) for _ in range(source.randint(0, 3))]
    return {
        source.choice("abcde\n") + str(i): rows(source, depth + 1)
        for i in range(source.randint(0, 3))
    }


def test_what_is_not_wanted_is_passed_over():
    source = random.Random(6)
    lines = []
    for i in range(300):
        members = [(f"x{k}", rows(source)) for k in range(4)] + [("id", i)]
        source.shuffle(members)
        lines.append(json.dumps(dict(members), indent=source.choice([None, 1])))
    assert decode(lines, {"id": mr.int32})["id"].tolist() == list(range(300))


def test_whatever_python_refuses_is_refused():
    source = random.Random(7)
    good = json.dumps({"a": 1, "b": [1.5, True, None, {"c": "x\ny\u00e9"}], "z": -1e-7})
    checked = 0
    for _ in range(3000):
        text = list(good)
        for _ in range(source.randint(1, 2)):
            at = source.randrange(len(text))
            text[at : at + source.randint(0, 2)] = source.choices(
                '{}[]",:\\u0aeE+-.1 tn', k=source.randint(0, 2)
            )
        text = "".join(text)
        try:
            value = json.loads(text)
        except ValueError:
            value = None
        schema = {"a": Field([], mr.int32, 1)}
        try:
            decode(text, schema)
            ours = True
        except mr.errors.InvalidArgumentError as error:
            ours = False
            if "column" in str(error) and "'a'" in str(error) or "twice" in str(error):
                continue  # JSON, but not what the schema says
        assert ours == isinstance(value, dict), text
        checked += 1
    assert checked > 2000


@pytest.mark.parametrize(
    "record, match",
    [
        ("", "column 1: the end instead of a value"),
        ("[1]", "column 1: an array instead of an object"),
        ("3", "column 1: a number instead of an object"),
        ("null", "column 1: null instead of an object"),
        ("not json", "column 1: 'n' instead of a value"),
        ('{"a": 1} x', "column 10: 'x' instead of the end"),
        ('{"a": 1', "column 8: the end instead of ',' or '}'"),
        ('{"a" 1}', "column 6: '1' instead of ':'"),
        ("{a: 1}", "column 2: 'a' instead of a name in quotes"),
        ('{"a": 1,}', "column 9: '}' instead of a name in quotes"),
        ('{"a": "1"}', "field 'a': column 7: a string instead of a number"),
        ('{"a": true}', "field 'a': column 7: a bool instead of a number"),
        ('{"a": [1]}', "field 'a': column 7: an array instead of a number"),
        ('{"a": 1, "a": 2}', "field 'a': column 15: it is given twice"),
        ('{"a": 1, "o": 3}', "field 'o': column 15: a number instead of an object"),
        ('{"a": 1, "o": {"s": 3}}', "field 'o.s': column 21: a number instead of a string"),
        ('{"a": 1, "o": {"s": "\\ud800"}}', "field 'o.s': column 22: half of a pair of surrogates"),
        ('{"a": 1, "o": {"s": "\\udc00\\ud800"}}', "half of a pair"),
        ('{"a": 1, "o": {"s": "\\x"}}', "column 22: a backslash without"),
        ('{"a": 1, "o": {"s": "\n"}}', "column 22: a control character in a string"),
        ('{"a": 1, "o": {"s": "x}}', "column 21: a string that nothing closes"),
        ('{"a": 1, "v": [1]}', "field 'v': column 15: an array of 1, its shape wants 2"),
        ('{"a": 1, "v": [1, 2, 3]}', "field 'v': column 15: an array of more than 2, its shape wants 2"),
        ('{"a": 1, "v": [1, null]}', "field 'v': column 19: null instead of a number"),
        ('{"a": 1, "v": 3}', "field 'v': column 15: a number instead of an array"),
        ('{"a": 012}', "field 'a': column 8: a digit behind a leading 0"),
        ('{"a": 1.}', "field 'a': column 9: '}' instead of a digit"),
        ('{"a": +1}', r"field 'a': column 7: '\+' instead of a value"),
        ('{"b": ' + "[" * 65 + "]" * 65 + "}", "field 'b': column 71: more than 64 brackets deep"),
    ],
)  # fmt: skip
def test_damaged_records(record, match):
    schema = {
        "a": mr.int32, "o.s": Field([], mr.string, ""), "v": Field([2], mr.float32, 0)
    }  # fmt: skip
    refused(record, schema, match)


def test_descriptions_that_cannot_be():
    for schema in ({}, [], {"a": {}}):
        with pytest.raises(ValueError, match="a dict with at least one entry"):
            decode("{}", schema)
    with pytest.raises(TypeError, match="field 'a' is described by"):
        decode("{}", {"a": 0})
    refused("{}", {"a": mr.float16}, "field 'a': wants ints, float32")
    refused("{}", {"a": mr.int32, "a.b": mr.int32}, "field 'a.b': is in a value")
    refused("{}", {"a.b": mr.int32, "a": mr.int32}, "field 'a' has fields in it")
    refused("{}", {"a.b": mr.int32, "a": {"b": mr.int32}}, "field 'a.b': named twice")
    refused("{}", {"a\\n": mr.int32}, "a backslash stands before a dot, a bracket or a backslash")
    refused("{}", {"a": Field([2], mr.int32, [1, 2, 3])}, "its default has 3 values, not 2")


def test_lines_of_files(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"id": i, "w": [i / 2] * 2}) + "\n" for i in range(20)))
    schema = {"id": mr.int64, "w": mr.TensorSpec([2], mr.float32)}
    lines = mr.TextLineDataset(str(path))
    whole = lines.batch(8).map(lambda x: decode(x, schema))
    assert np.concatenate([x["id"] for x in whole]).tolist() == list(range(20))
    assert [x["w"].tolist() for x in lines.map(lambda x: decode(x, schema))] == [
        [i / 2] * 2 for i in range(20)
    ]
    path.write_text('{"id": 1, "w": [1, 2]}\n{"id": "x"}\n{"id": 3, "w": [5, 6]}\n')
    with pytest.raises(mr.errors.InvalidArgumentError) as raised:
        list(lines.map(lambda x: decode(x, schema)))
    assert "/t.jsonl', record 1, offset 23" in str(raised.value) and "field 'id': column 8" in str(
        raised.value
    )
    good = lines.map(lambda x: decode(x, schema)).ignore_errors()
    assert [int(x["id"]) for x in good] == [1, 3]
