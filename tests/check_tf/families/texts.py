"""Strings, and raw bytes as numbers."""

from __future__ import annotations

import random

from calls import Call, cover, of
from values import ALL, STRINGS, integers, number, shape, tensor

from .reductions import axis

_UTF8 = [s for s in STRINGS if b"\xff" not in s]


def _strings(r: random.Random, dims: tuple[int, ...] | None = None) -> str:
    return tensor(r, "string", dims)


def plain(r: random.Random, name: str, rest: tuple[str, ...] = ("",)) -> Call:
    return of(name, _strings(r), rest=r.choice(rest))


def joined(r: random.Random, name: str) -> Call:
    dims = shape(r)
    texts = tuple(_strings(r, r.choice((dims, dims, ()))) for _ in range(r.randrange(1, 4)))
    letters = ", ".join("abc"[: len(texts)])
    return Call(f"lambda {letters}: m.{name}([{letters}]{r.choice(('', ', separator=b-b'))})".replace(
        "b-b", "'-'"), texts)  # fmt: skip


def reduce_join(r: random.Random, name: str) -> Call:
    dims = shape(r)
    rest = [f"axis={axis(r, len(dims))}"] if r.random() < 0.6 else []
    rest += [text for text in ("keepdims=True", "separator=', '") if r.random() < 0.3]
    return of(name, _strings(r, dims), rest=", ".join(rest))


def split(r: random.Random, name: str) -> Call:
    rest = r.choice(("", "sep=' '", "sep='X'", "sep='l'", "maxsplit=1", "sep='', maxsplit=2"))
    return of(name, _strings(r, shape(r, 0, 2)), rest=rest)


def substr(r: random.Random, name: str) -> Call:
    dims = shape(r)
    unit = r.choice(("", "", ", unit='UTF8_CHAR'", ", unit='BYTE'"))
    if r.random() < 0.6:
        rest = f"{r.randrange(-4, 4)}, {r.randrange(0, 5)}{unit}"
        return of(name, _strings(r, dims), rest=rest)
    texts = (
        _strings(r, dims),
        tensor(r, "int32", dims, "small"),
        tensor(r, "int32", dims, "small"),
    )
    return Call(f"lambda a, b, c: m.{name}(a, b, c{unit})", texts)


def to_number(r: random.Random, name: str) -> Call:
    numbers = [
        b"1",
        b"-7",
        b" 12 ",
        b"3.5",
        b"1e3",
        b"nan",
        b"-inf",
        b"0x1F",
        b"+4",
        b"",
        b"9" * 12,
    ]
    dims = shape(r, 0, 2)
    count = 1
    for n in dims:
        count *= n
    values = "".join(
        f"{r.choice(numbers if r.random() < 0.5 else numbers[:2])!r}, " for _ in range(count)
    )
    kind = r.choice(("", "m.float64", "m.int32", "m.int64", "m.float32", "m.uint8"))
    return of(name, f"strings({values}shape={dims})", rest=kind)


def as_string(r: random.Random, name: str) -> Call:
    dtype = r.choice(("int8", "int32", "int64", "float32", "float64", "bool", "uint8"))
    options = (
        "",
        "precision=3",
        "scientific=True",
        "shortest=True",
        "precision=2, scientific=True",
    )
    rest = r.choice(options if dtype.startswith("float") else ("",))
    return of(name, tensor(r, dtype), rest=rest)


def regex(r: random.Random, name: str) -> Call:
    pattern = r.choice((r"[a-z]+", r"(\w)(\w)", r"^\s*", r"X|l", r".*", r"\d+(\.\d+)?"))
    rest = f"{pattern!r}"
    if name.endswith("replace"):
        rest += r.choice((", '-'", r", '<\\0>'", ", '', replace_global=False"))
    return of(name, _strings(r), rest=rest)


def buckets(r: random.Random, name: str) -> Call:
    rest = f"{r.randrange(1, 1000)}" + (", key=[1, 2]" if name.endswith("strong") else "")
    return of(name, _strings(r), rest=rest)


def ngrams(r: random.Random, name: str) -> Call:
    options = ("2", "[1, 2]", "2, separator='-'", "3, pad_values=('<', '>')", "2, padding_width=1")
    return of(name, _strings(r, shape(r, 1, 2)), rest=r.choice(options))


def unicode(r: random.Random, name: str) -> Call:
    rest = ["'UTF-8'"] + ["errors='replace'"] * (r.random() < 0.5)
    if name.endswith("transcode"):
        rest.insert(1, r.choice(("'UTF-16-BE'", "'UTF-8'", "'UTF-32-BE'")))
    return of(name, _strings(r, shape(r, 0, 2)), rest=", ".join(rest))


def encoded(r: random.Random, name: str) -> Call:
    points = [
        r.choice((65, 0x17C, 0x65E5, 0x1F600, 0x110000 if r.random() < 0.1 else 97))
        for _ in range(4)
    ]
    return of(
        name,
        integers(points),
        rest=r.choice(("'UTF-8'", "'UTF-16-BE'", "'UTF-8', errors='ignore'")),
    )


def script(r: random.Random, name: str) -> Call:
    return of(name, integers([r.choice((65, 0x17C, 0x65E5, 32, 0x3B1)) for _ in range(3)]))


def formatted(r: random.Random, name: str) -> Call:
    dtype = r.choice(("int32", "float32", "string", "bool"))
    call = r.choice(("m.strings.format('x: {}', a)", "m.strings.format('{} and {}', (a, a))"))
    return Call(f"lambda a: {call}", (tensor(r, dtype, pool="small"),))


def segment_join(r: random.Random, name: str) -> Call:
    ids = [r.randrange(3) for _ in range(4)]
    rest = "3" + r.choice(("", ", separator='-'"))
    return of(name, _strings(r, (4,)), integers(ids), rest=rest)


def raw(r: random.Random, name: str) -> Call:
    size = r.choice((0, 4, 8, 8, 7))
    data = "".join(repr(bytes(r.randrange(256) for _ in range(size))) + ", " for _ in range(2))
    rest = f"m.{r.choice(('uint8', 'int16', 'int32', 'float32', 'bool'))}"
    rest += r.choice(("", ", little_endian=False")) + r.choice(("", "", ", fixed_length=4"))
    return of(name, f"strings({data}shape=(2,))", rest=rest)


def base64(r: random.Random, name: str) -> Call:
    if name.endswith("decode_base64"):
        return of(name, f"strings({r.choice((b'YWJj', b'YQ', b'_-8', b'a', b'YQ==', b'%%%%'))!r})")
    return of(name, _strings(r), rest=r.choice(("", "pad=True")))


# dtype float32 and a size of 3: content, few values, none, too little content, a size below 0
_MESSAGES = (
    b"\x08\x01\x12\x04\x12\x02\x08\x03" + rest
    for rest in (
        b'"\x0c' + bytes(range(12)),
        b"*\x04\0\0\x80?",
        b"",
        b'"\x01a',
        b"\x12\x02\x08\x7f",
    )
)
_TENSORS = (*_MESSAGES, b"\x08\x01\x12\r\x12\x0b\x08" + b"\xff" * 9 + b"\x01", b"", b"hello")


def serialized(r: random.Random, name: str) -> Call:
    return of(name, tensor(r, r.choice(ALL)))


def parsed(r: random.Random, name: str) -> Call:
    if r.random() < 0.4:
        return of(name, f"strings({r.choice(_TENSORS)!r}, shape=())", rest="m.float32")
    dtype = r.choice(ALL)
    asked = dtype if r.random() < 0.9 else "int32"
    inner = f"m.io.serialize_tensor(a), m.{asked}"
    return Call(f"lambda a: m.{name}({inner})", (tensor(r, dtype),))


cover("strings.length", plain, ("", "unit='BYTE'", "unit='UTF8_CHAR'"))
cover("strings.strip strings.bytes_split", plain)
cover("strings.lower strings.upper", plain)
cover("strings.join", joined)
cover("strings.reduce_join", reduce_join)
cover("strings.split", split)
cover("strings.substr", substr)
cover("strings.to_number", to_number)
cover("strings.as_string as_string", as_string)
cover("strings.regex_replace strings.regex_full_match", regex)
cover("strings.to_hash_bucket strings.to_hash_bucket_strong", buckets)
cover("strings.ngrams", ngrams)
cover(
    "strings.unicode_split strings.unicode_decode strings.unicode_transcode"
    " strings.unicode_split_with_offsets strings.unicode_decode_with_offsets",
    unicode,
)
cover("strings.unicode_encode", encoded)
cover("strings.unicode_script", script)
cover("strings.format", formatted)
cover("strings.unsorted_segment_join", segment_join)
cover("io.decode_raw", raw)
cover("io.decode_base64 io.encode_base64", base64)
cover("io.serialize_tensor", serialized)
cover("io.parse_tensor", parsed)
