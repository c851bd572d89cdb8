"""tf.Example and tf.SequenceExample, files as bytes, tables for lookup."""

from __future__ import annotations

import random

from calls import Call, cover
from values import tensor

_KINDS = {
    "int64": ("[1]", "[1, 2, -3]", "[]", "[7, 8]"),
    "float32": ("[1.5]", "[0.25, -1.0, 3.0]", "[]", "[2.0, 4.0]"),
    "string": ("[b'x']", "[b'a', b'', b'ccc']", "[]", "[b'p', b'q']"),
}
_EMPTY = {"int64": "0", "float32": "-1.0", "string": "b'none'"}


def feature(r: random.Random, kind: str, dtype: str) -> str:
    """The text of a feature's configuration."""
    if kind == "FixedLenFeature":
        shape, default = r.choice((("[]", "{0}"), ("[3]", "[{0}, {0}, {0}]"), ("[2]", None)))
        rest = f", {default.format(_EMPTY[dtype])}" if default and r.random() < 0.6 else ""
        return f"m.io.FixedLenFeature({shape}, m.{dtype}{rest})"
    if kind == "FixedLenSequenceFeature":
        shape = r.choice(("[]", "[]", "[2]"))
        rest = ", allow_missing=True" if r.random() < 0.9 else ""
        rest += f", default_value={_EMPTY[dtype]}" if rest and r.random() < 0.3 else ""
        return f"m.io.FixedLenSequenceFeature({shape}, m.{dtype}{rest})"
    if kind == "RaggedFeature":
        return f"m.io.RaggedFeature(m.{dtype})"
    return f"m.io.VarLenFeature(m.{dtype})"


_FEATURES = ("FixedLenFeature", "FixedLenSequenceFeature", "VarLenFeature", "RaggedFeature")


def serialized(r: random.Random) -> str:
    """The text of an example's bytes, some of whose features are missing, or of bytes that are none."""
    if r.random() < 0.04:
        return repr(r.choice((b"\xff\xff", b"\n")))
    parts = [f"{d}={r.choice(values)}" for d, values in _KINDS.items() if r.random() < 0.85]
    return f"example({', '.join(parts)})"


def parsed(r: random.Random, name: str, only: str = "") -> Call:
    features = []
    for dtype in _KINDS:
        if r.random() < 0.6 or not features:
            kind = only if only and not features else r.choice(_FEATURES)
            given = r.choice(list(_KINDS)) if r.random() < 0.05 else dtype
            features.append(f"'{dtype}': {feature(r, kind, given)}")
    single = "single" in name
    config = "{" + ", ".join(features) + "}"
    function = f"lambda a: m.io.parse_{'single_' if single else ''}example(a, {config})"
    if single:
        return Call(function, (serialized(r),), ways=("outside", "map"))
    rows = [serialized(r) for _ in range(r.randrange(0, 4))]
    data = "strings(" + "".join(row + ", " for row in rows) + f"shape=({len(rows)},))"
    return Call(function, (data,))


def configured(r: random.Random, name: str) -> Call:
    """A configuration by its use."""
    call = parsed(r, r.choice(("io.parse_example", "io.parse_single_example")), name.split(".")[1])
    return call


def sparse_feature(r: random.Random, name: str) -> Call:
    """Values and their places, in one dimension or in two."""
    values, dtype = r.choice(
        (("[5, 6]", "int64"), ("[0.5, 1.5]", "float32"), ("[b'p', b'q']", "string"))
    )
    keys, size = r.choice((("'i'", "6"), ("['i']", "[6]"), ("['i', 'j']", "[6, 4]")))
    places = [r.choice(("[0, 3]", "[4, 1]", "[2, 2]", "[1]", "[0, 9]")) for _ in "ij"]
    rest = r.choice(("", "", ", already_sorted=True"))
    config = f"{{'s': m.{name}({keys}, 'v', m.{dtype}, {size}{rest})}}"
    example = f"example(i={places[0]}, j={r.choice((places[1], '[0, 3]'))}, v={values})"
    if r.random() < 0.5:
        function = f"lambda a: m.io.parse_single_example(a, {config})"
        return Call(function, (example,), ways=("outside", "map"))
    data = f"strings({example}, example(v=[]), {example}, shape=(3,))"
    return Call(f"lambda a: m.io.parse_example(a, {config})", (data,))


def sequences(r: random.Random, name: str) -> Call:
    def row() -> str:
        steps = ", ".join(r.choice(_KINDS["int64"][:2]) for _ in range(r.randrange(3)))
        words = ", ".join("[b'w']" for _ in range(r.randrange(3)))
        context = r.choice(("{'id': [3]}", "{'id': [3], 'w': [0.5]}"))
        return f"sequence({context}, {{'steps': [{steps}], 'words': [{words}]}})"

    context = "{'id': m.io.FixedLenFeature([], m.int64), 'w': m.io.VarLenFeature(m.float32)}"
    steps = r.choice(("m.io.VarLenFeature(m.int64)", "m.io.RaggedFeature(m.int64)"))
    words = "m.io.FixedLenSequenceFeature([], m.string)"
    lists = f"{{'steps': {steps}, 'words': {words}}}"
    single = "single" in name
    function = f"lambda a: m.{name}(a, context_features={context}, sequence_features={lists})"
    if single:
        return Call(function, (row(),), ways=("outside", "map"))
    return Call(function, (f"strings({row()}, {row()})",))


def message(r: random.Random, name: str) -> Call:
    """A message that is built and serialized."""
    values = r.choice(("[1, 2]", "[]"))
    one = f"m.train.Feature(int64_list=m.train.Int64List(value={values}))"
    many = f"m.train.FeatureList(feature=[{one}, {one}])"
    lists = f"m.train.FeatureLists(feature_list={{'a': {many}}})"
    whole = f"m.train.SequenceExample(feature_lists={lists})"
    text = {"FeatureList": many, "FeatureLists": lists, "SequenceExample": whole}[
        name.split(".")[1]
    ]
    return Call(f"{text}.SerializeToString()")


def read(r: random.Random, name: str) -> Call:
    file = r.choice(("content(b'')", "content(b'some bytes\\x00')", "'/no/such/file'"))
    return Call(f"lambda a: m.{name}(a)", (file,), ways=("outside", "map"))


def record_options(r: random.Random, name: str) -> Call:
    kind = r.choice(("None", "''", "'GZIP'", "'ZLIB'", "'zip'", "m.io.TFRecordOptions('GZIP')"))
    return Call(f"m.{name}.get_compression_type_string({kind})")


def table(r: random.Random, name: str) -> Call:
    keys, values = r.choice(
        (
            ("[b'a', b'Hello, World', b'3.5']", "[1, 2, 3]"),
            ("np.array([0, 1, 100], np.int64)", "[b'zero', b'one', b'hundred']"),
            ("np.array([1, 1], np.int64)", "np.array([1, 2], np.int64)"),
        )
    )
    initializer = f"m.lookup.KeyValueTensorInitializer({keys}, {values})"
    default = "b'?'" if "b'" in values else "-1"
    wanted = tensor(r, "string" if "b'" in keys else "int64")
    return Call(
        f"lambda a: m.lookup.StaticHashTable({initializer}, {default}).lookup(a)",
        (wanted,),
        ways=("outside",),
    )


def text_file(r: random.Random, name: str) -> Call:
    line, whole = "m.lookup.TextFileIndex.LINE_NUMBER", "m.lookup.TextFileIndex.WHOLE_LINE"
    which = r.choice((f"m.string, {whole}, m.int64, {line}", f"m.int64, {line}, m.string, {whole}"))
    initializer = f"m.lookup.TextFileInitializer(lines('a', 'Hello, World', 'c'), {which})"
    dtype, default = ("string", "-1") if which.startswith("m.string") else ("int64", "b'?'")
    function = f"lambda a: m.lookup.StaticHashTable({initializer}, {default}).lookup(a)"
    return Call(function, (tensor(r, dtype),), ways=("outside",))


def csv(r: random.Random, name: str) -> Call:
    rows = [r.choice((b"1,2.5,x", b'3,,"a,b"', b",1,", b"a,1,b", b'4,5,"q""q"')) for _ in range(3)]
    defaults = r.choice(("[[0], [0.0], ['']]", "[[-1], m.float32, ['z']]", "[[''], [''], ['']]"))
    rest = f"{defaults}" + r.choice(("", ", select_cols=[0, 1, 2]", ", na_value='a'"))
    return Call(f"lambda a: m.{name}(a, {rest})", (f"strings({', '.join(map(repr, rows))})",))


def compressed(r: random.Random, name: str) -> Call:
    return Call(f"lambda a: m.{name}(a)", ("strings(b'', b'abc')",))


cover("io.parse_example io.parse_single_example", parsed)
cover("io.SparseFeature", sparse_feature)
cover("io.FixedLenFeature io.FixedLenSequenceFeature io.VarLenFeature io.RaggedFeature", configured)
cover("io.parse_sequence_example io.parse_single_sequence_example", sequences)
cover("train.FeatureList train.FeatureLists train.SequenceExample", message)
cover("io.read_file", read)
cover("io.TFRecordOptions", record_options)
cover("lookup.KeyValueTensorInitializer lookup.StaticHashTable", table)
cover("lookup.TextFileIndex", text_file)
cover("io.decode_csv", csv)
cover("io.decode_compressed", compressed)
