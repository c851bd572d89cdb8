"""docs/run/state.md tells of every key and every field of what is kept in etcd, and shows no others."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parent.parent.parent
DOC = (ROOT / "docs/run/state.md").read_text()
# Where what is stored ends, and what is only said begins.
STATUS = "// ---------------------------------------------------------------- status"


def camel(field):
    return re.sub(r"_(\w)", lambda m: m[1].upper(), field)


def messages(path):
    """Of each message of a .proto file its fields, as they are written in JSON."""
    text = (ROOT / "proto" / path).read_text().split(STATUS)[0]
    return {name: [camel(f) for f in re.findall(r"^\s*(?:repeated )?[\w.]+ (\w+) = \d+;", body, re.M)]
            for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S)}


def test_every_field_is_told_of():
    records = messages("millrace/state.proto") | messages("coord/records.proto")
    assert len(records) > 15 and all(records.values())
    # In an example, or by its name: `field`, or `field.of_it`.
    missing = [f"{name}.{field}" for name, fields in records.items() for field in fields
               if not re.search(rf'"{field}":|`{field}[`.]', DOC)]
    assert missing == []


def test_every_key_is_told_of():
    """Those that `millrace state` knows, which the unit tests compare with those that the dispatcher loads."""
    table = (ROOT / "src" / "main" / "state_kinds.c").read_text()
    names = dict(re.findall(r'#define (MR_KEY_\w+) "([^"]+)"', (ROOT / "coord" / "record.h").read_text()))
    kinds = [names.get(k.strip('"'), k.strip('"')) for k in re.findall(r'^    \{(MR_KEY_\w+|"[a-z]+/?"), &millrace__', table, re.M)]
    assert len(kinds) > 15
    rows = re.findall(r"^\| (`[^|]*) \|", DOC, re.M)
    told = [key.rstrip("/") for row in rows for key in re.findall(r"`([a-z]+(?:/[a-z]+)?/?)(?:<[^`]*|~[^`]*)?`", row)]
    assert [kind for kind in kinds if kind.rstrip("/") not in told] == []


def test_every_feature_is_told_of():
    core = "".join(p.read_text() for p in (ROOT / "src" / "dispatcher" / "core").glob("*.[ch]"))
    features = set(re.findall(r'#define MR_FEATURE_\w+ "(\w+)"', core))
    assert features and [f for f in features if f"`{f}`" not in DOC] == []


def test_examples_are_records():
    """Every example is of a key that there is, with fields that its record has."""
    known = {field for path in ("millrace/state.proto", "coord/records.proto", "millrace/service.proto")
             for fields in messages(path).values() for field in fields}
    examples = re.findall(r"^    ([a-z]+\S*)  (\{.*\})$", DOC, re.M)
    assert len(examples) > 15
    for key, value in examples:
        assert set(re.findall(r'"(\w+)":', value)) <= known, f"{key} has a field that no record has"
