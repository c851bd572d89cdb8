"""
proto/README.md holds: each field says what it is, each rpc who may call it and what a repetition
gets.
"""

import pathlib
import re

import pytest

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
FILES = sorted([*PROTO.glob("millrace/*.proto"), *PROTO.glob("coord/*.proto")])


def listed():
    """
    The names of fields that mean the same in every message: tables of names at the top of a file.
    """
    names = set()
    for path in FILES:
        top = path.read_text().split("syntax =")[0]
        for row in re.findall(r"^//   (\w+(?:, \w+)*)  +\S", top, re.M):
            names.update(row.split(", "))
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_each_field_is_explained(path):
    known, silent, above, message = listed(), [], False, None
    for line in path.read_text().splitlines():
        if opened := re.match(r"(?:message|oneof|  oneof) (\w+)", line):
            message = opened[1]
        field = re.match(r"\s+(?:repeated )?([\w.]+) (\w+) = \d+;", line)
        if field and "//" not in line and not above:
            kind, name = field.groups()
            # A message or an enum of ours explains itself where it is declared.
            if name not in known and name.split("_", 1)[-1] not in known and not kind[0].isupper():
                silent.append(f"{message}.{name}")
        above = bool(re.match(r"\s+//", line))
    assert silent == []


def test_each_rpc_says_who_may_call_it_and_what_a_repetition_gets():
    text = (PROTO / "millrace" / "service.proto").read_text()
    rpcs = re.findall(r"((?:^  //.*\n)+)^  rpc (\w+)", text, re.M)
    assert len(rpcs) == len(re.findall(r"^  rpc ", text, re.M)) > 15
    for comment, name in rpcs:
        assert re.search(
            r"// (Any caller|The client|The worker|Another dispatcher|A client)\b", comment
        ), name
        assert "Repeated" in comment or name == "Read", name
        streams = re.search(rf"rpc {name}\(.*stream", text)
        assert bool(streams) == ("tream" in comment), name


def test_lines_are_short():
    assert [
        f"{p.name}: {line}" for p in FILES for line in p.read_text().splitlines() if len(line) > 100
    ] == []
