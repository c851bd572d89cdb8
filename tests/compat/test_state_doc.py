"""
docs/run/state.md tells of every key and every field of what is kept in etcd, and shows no others.
"""

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
    return {
        name: [camel(f) for f in re.findall(r"^\s*(?:repeated )?[\w.]+ (\w+) = \d+;", body, re.M)]
        for name, body in re.findall(r"^message (\w+) \{(.*?)^\}", text, re.M | re.S)
    }


def test_every_field_is_told_of():
    records = messages("millrace/state.proto") | messages("coord/records.proto")
    assert len(records) > 15 and all(records.values())
    # In an example, or by its name: `field`, or `field.of_it`.
    missing = [
        f"{name}.{field}"
        for name, fields in records.items()
        for field in fields
        if not re.search(rf'"{field}":|`{field}[`.]', DOC)
    ]
    assert missing == []


def test_every_key_is_told_of():
    """
    The table of kinds of keys (src/dispatcher/core/keys.h) and that of the page are the same, with
    their records.
    """
    keys = (ROOT / "src" / "dispatcher" / "core" / "keys.h").read_text()
    names = dict(
        re.findall(
            r'#define (MR_KEY_\w+) "([^"]+)"', (ROOT / "coord" / "record.h").read_text() + keys
        )
    )
    records = {
        names[key]: noun.capitalize() + "Record"
        for noun, key in re.findall(r"KIND\((\w+), (MR_KEY_\w+),", keys)
    }
    assert len(records) == 12 and len(names) > 16
    told = {}
    for row in re.findall(r"^\| (`.*)", DOC.split("## Keys")[1].split("\n### ")[0], re.M):
        cell, value = row.split(" | ")[:2]
        for key in re.findall(r"`([a-z]+(?:/[a-z]+)?/?)(?:<[^`]*|~[^`]*)?`", cell):
            told.setdefault(key, value)
    assert told.keys() == set(names.values())
    assert [key for key, record in records.items() if f"`{record}`" not in told[key]] == []


def test_every_feature_is_told_of():
    core = "".join(p.read_text() for p in (ROOT / "src" / "dispatcher").rglob("*.[ch]"))
    features = set(re.findall(r'#define MR_FEATURE_\w+ "(\w+)"', core))
    assert features and [f for f in features if f"`{f}`" not in DOC] == []


def test_defaults_are_those_of_the_options():
    options = (ROOT / "docs/run/options.md").read_text().split("## millrace dispatcher")[1]
    defaults = dict(re.findall(r"^\| `(--[a-z-]+)[^`]*`\*? \| ([^|]*) \|", options, re.M))
    told = re.findall(r"^\| `(--[a-z-]+)` \| ([^|]+) \|", DOC, re.M)
    assert len(told) >= 9
    for option, default in told:
        assert defaults[option] == ("" if default == "never" else default.replace(" ", "")), option


def test_examples_are_records():
    """Every example is of a key that there is, with fields that its record has."""
    known = {
        field
        for path in ("millrace/state.proto", "coord/records.proto", "millrace/service.proto")
        for fields in messages(path).values()
        for field in fields
    }
    examples = re.findall(r"^    ([a-z]+\S*)  (\{.*\})$", DOC, re.M)
    assert len(examples) > 15
    for key, value in examples:
        assert set(re.findall(r'"(\w+)":', value)) <= known, f"{key} has a field that no record has"
