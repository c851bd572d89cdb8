"""Functions of mr.strings: characters, pieces, numbers in text. The values are TensorFlow's."""

import numpy as np
import pytest

import millrace as mr

BAD = [b"a\xffb", b"\xe2\x82", b"x\xf0\x9f\x98", b"\xc0\x80", b"\xed\xa0\x80z", b"\xf4\x90\x80\x80"]
BAD_CODES = [[97, -1, 98], [-1], [120, -1], [-1] * 2, [-1] * 3 + [122], [-1] * 4]


def rows(value):
    return value.to_list() if hasattr(value, "to_list") else value.tolist()


def test_malformed_utf8_is_replaced_ignored_or_an_error():
    def want(replacement):
        return [[replacement if c < 0 else c for c in codes] for codes in BAD_CODES]

    decode = mr.strings.unicode_decode
    assert rows(decode(BAD, "UTF-8")) == want(0xFFFD)
    assert rows(decode(BAD, "UTF-8", replacement_char=65)) == want(65)
    ignored = [[c for c in codes if c >= 0] for codes in BAD_CODES]
    assert rows(decode(BAD, "UTF-8", errors="ignore")) == ignored
    for text in BAD:
        with pytest.raises(mr.errors.InvalidArgumentError, match="there is no character"):
            decode(text, "UTF-8", errors="strict")


@pytest.mark.parametrize(
    "encoding, text, codes, offsets",
    [
        ("UTF-8", b"\xef\xbb\xbfa\xe2\x82\xac", [0xFEFF, 97, 0x20AC], [0, 3, 4]),
        (
            "UTF-16-BE",
            b"\xd8\x3d\xde\x00\x00A\xd8\x00\x00A\x00",
            [0x1F600, 65, 0xFFFD, 65, 0xFFFD],
            [0, 4, 6, 8, 10],
        ),
        ("UTF-16-BE", b"\xdc\x00\x00A", [0xFFFD, 65], [0, 2]),
        (
            "UTF-32-BE",
            b"\0\0\0A\0\x11\0\0\0\0\xd8\0\0\0\0",
            [65, 0xFFFD, 0xFFFD, 0xFFFD],
            [0, 4, 8, 12],
        ),
        ("windows-1252", b"\x80a", [0x20AC, 97], [0, 1]),
        ("Shift_JIS", b"\x82\xa0a", [0x3042, 97], [0, 2]),
    ],
)
def test_encodings(encoding, text, codes, offsets):
    found = mr.strings.unicode_decode_with_offsets(text, encoding)
    assert [rows(x) for x in found] == [codes, offsets]
    for target in ("UTF-8", "UTF-16-BE", "UTF-32-BE"):
        want = "".join(map(chr, codes)).encode(target.replace("-BE", "be"))
        assert mr.strings.unicode_transcode(text, encoding, target) == want
        assert mr.strings.unicode_encode(codes, target) == want


def test_control_characters_may_be_none():
    text = b"a\0\n\x7f"
    decode = mr.strings.unicode_decode
    assert rows(decode(text, "UTF-8", replace_control_characters=True)) == [97, 65533, 65533, 127]
    got = mr.strings.unicode_transcode(
        text, "UTF-8", "UTF-8", errors="ignore", replace_control_characters=True
    )
    assert got == b"a\x7f"
    with pytest.raises(mr.errors.InvalidArgumentError):
        mr.strings.unicode_transcode(
            text, "UTF-8", "UTF-8", errors="strict", replace_control_characters=True
        )


def test_what_is_no_character_is_not_encoded():
    encode = mr.strings.unicode_encode
    for code, ignored in [(0xD800, b"A\xef\xbf\xbd"), (0xFFFE, b"A\xef\xbf\xbe"), (-1, b"A")]:
        assert encode([65, code], "UTF-8") == b"A\xef\xbf\xbd"
        assert encode([65, code], "UTF-8", errors="ignore") == ignored
        with pytest.raises(mr.errors.InvalidArgumentError):
            encode([65, code], "UTF-8", errors="strict")
    assert encode([65, 0x110000], "UTF-8", replacement_char=66) == b"AB"
    with pytest.raises(ValueError, match="at least one axis"):
        encode(65, "UTF-8")


def test_unicode_of_many_shapes():
    ragged = mr.ragged.constant([["a", "bc"], ["d"]])
    codes = mr.strings.unicode_decode(ragged, "UTF-8")
    assert rows(codes) == [[[97], [98, 99]], [[100]]]
    assert rows(mr.strings.unicode_encode(codes, "UTF-8")) == [[b"a", b"bc"], [b"d"]]
    assert rows(mr.strings.unicode_decode([["a"], ["b"]], "UTF-8")) == [[[97]], [[98]]]
    assert rows(mr.strings.unicode_encode([[[65, 66]], [[67, 68]]], "UTF-8")) == [[b"AB"], [b"CD"]]
    assert rows(mr.strings.unicode_split(ragged, "UTF-8")) == [[[b"a"], [b"b", b"c"]], [[b"d"]]]
    split = mr.strings.unicode_split(b"a\xff\xc3\xa9", "UTF-8")
    assert rows(split) == [b"a", b"\xef\xbf\xbd", b"\xc3\xa9"]
    assert rows(mr.strings.unicode_transcode(ragged, "UTF-8", "UTF-16-BE")) == [
        [b"\0a", b"\0b\0c"],
        [b"\0d"],
    ]
    assert rows(mr.strings.bytes_split(ragged)) == [[[b"a"], [b"b", b"c"]], [[b"d"]]]


def test_unicode_in_a_pipeline():
    words = ["h\u00e9", "", "\u20acuro", "\U0001f600"] * 50
    ds = mr.Dataset.from_tensor_slices(words).map(lambda s: mr.strings.unicode_split(s, "UTF-8"))
    assert [[c.decode() for c in x] for x in ds] == [list(w) for w in words]
    ds = mr.Dataset.from_tensor_slices(words).batch(7)
    ds = ds.map(lambda s: mr.strings.unicode_decode(s, "UTF-8"))
    assert [row for x in ds for row in x.to_list()] == [[ord(c) for c in w] for w in words]


@pytest.mark.parametrize("wrong", [{"errors": "x"}, {"replacement_char": 0x110000}])
def test_wrong_arguments_of_unicode(wrong):
    with pytest.raises(mr.errors.InvalidArgumentError):
        mr.strings.unicode_decode("a", "UTF-8", **wrong)


def test_an_unknown_encoding():
    with pytest.raises(mr.errors.InvalidArgumentError, match="no encoding 'no-such'"):
        mr.strings.unicode_decode("a", "no-such")
    with pytest.raises(mr.errors.InvalidArgumentError, match="wants UTF-8"):
        mr.strings.unicode_encode([65], "latin1")


def test_scripts():
    codes = [65, 0x3B1, 0x4E2D, 32, -1, 0x110000]
    assert rows(mr.strings.unicode_script(codes)) == [25, 14, 17, 0, -1, -1]


def test_cases_of_unicode():
    upper = mr.strings.upper(["stra\u00dfe", "\u01c6", "a\0b"], encoding="utf-8")
    assert [x.decode() for x in upper] == ["STRASSE", "\u01c4", "A\0B"]
    lower = mr.strings.lower(["\u03a3\u0391\u03a3", "\u0130"], encoding="utf-8")
    assert [x.decode() for x in lower] == ["\u03c3\u03b1\u03c2", "i\u0307"]
    bad = mr.strings.lower(b"A\xff\xc3B\xe2\x82", encoding="utf-8")
    assert bad == b"a\xef\xbf\xbd\xef\xbf\xbdb\xef\xbf\xbd"
    assert mr.strings.lower("\u00c9A") == "\u00c9a".encode()
    with pytest.raises(mr.errors.InvalidArgumentError, match="wants utf-8"):
        mr.strings.lower("a", encoding="latin1")


@pytest.mark.parametrize(
    "arguments, want",
    [
        ({"ngram_width": 2}, [[b"a b", b"b c"], []]),
        ({"ngram_width": [2, 3]}, [[b"a b", b"b c", b"a b c"], []]),
        (
            {"ngram_width": 2, "pad_values": "P"},
            [[b"P a", b"a b", b"b c", b"c P"], [b"P d", b"d P"]],
        ),
        (
            {"ngram_width": 3, "pad_values": ("L", "R"), "padding_width": 1, "separator": ""},
            [[b"Lab", b"abc", b"bcR"], [b"LdR"]],
        ),
        ({"ngram_width": 4, "preserve_short_sequences": True}, [[b"a b c"], [b"d"]]),
        (  # no ngram is of pads alone
            {"ngram_width": 2, "pad_values": "P", "padding_width": 5},
            [[b"P a", b"a b", b"b c", b"c P"], [b"P d", b"d P"]],
        ),
    ],
)
def test_ngrams(arguments, want):
    data = mr.ragged.constant([["a", "b", "c"], ["d"]])
    assert rows(mr.strings.ngrams(data, **arguments)) == want
    assert rows(mr.strings.ngrams(["a", "b", "c"], **arguments)) == want[0]
    nested = mr.ragged.constant([[["a", "b", "c"], ["d"]], []])
    assert rows(mr.strings.ngrams(nested, **arguments)) == [want, []]


def test_ngrams_of_dense_rows():
    got = mr.strings.ngrams([["a", "b", "c"], ["d", "e", "f"]], 2)
    assert rows(got) == [[b"a b", b"b c"], [b"d e", b"e f"]]
    for wrong in ({"ngram_width": 0}, {"ngram_width": 2, "padding_width": 1}):
        with pytest.raises(ValueError):
            mr.strings.ngrams(["a"], **wrong)
    with pytest.raises(ValueError, match="last axis"):
        mr.strings.ngrams("a", 2)
    # a difference: each row is padded
    empty = mr.ragged.constant([[], []], dtype=mr.string, ragged_rank=1)
    assert rows(mr.strings.ngrams(empty, 2, pad_values="P")) == [[b"P P"], [b"P P"]]


@pytest.mark.parametrize(
    "value, options, want",
    [
        (np.arange(10), {}, "[0 1 2 ... 7 8 9]"),
        (np.arange(10), {"summarize": -1}, "[0 1 2 3 4 5 6 7 8 9]"),
        (np.arange(24).reshape(2, 3, 4), {"summarize": 1},
         "[[[0 ... 3]\n  ...\n  [8 ... 11]]\n\n [[12 ... 15]\n  ...\n  [20 ... 23]]]"),
        (["a", 'b"c\n\u00e9'], {}, '["a" "b\\"c\\n\u00e9"]'),
        (np.array([1, 1e10, 3.14159265, np.nan, -0.0, 123456789], np.float32), {},
         "[1 1e+10 3.14159274 nan -0 123456792]"),
        (np.array([1e10, 1 / 3]), {}, "[10000000000 0.33333333333333331]"),
        (True, {}, "1"),
        (np.zeros([2, 0]), {}, "[\n ...]"),
    ],
)  # fmt: skip
def test_format(value, options, want):
    assert mr.strings.format("x {} y", [value], **options).decode() == f"x {want} y"


@pytest.mark.parametrize(
    "value, options, want",
    [
        ([["a", "it's"], [], ["\\"]], {}, r"[['a', 'it\'s'], [], ['\\']]"),
        ([[1, 2, 3, 4, 5], [6]], {"summarize": 2}, "[[1, 2, ..., 4, 5], [6]]"),
        ([[1, 2, 3, 4], [6]], {"summarize": 2}, "[[1, 2, 3, 4], [6]]"),
        ([[0.5], [1], [2]], {"summarize": 1}, "[[0.500000], ..., [2.000000]]"),
        ([[[1], [2], [3]], [[3]], [[4]]], {"summarize": 1}, "[[[1], ..., [3]], ..., [[4]]]"),
        ([[i] for i in range(9)], {"summarize": None}, str([[i] for i in range(9)])),
        ([[True], []], {}, "[[true], []]"),
    ],
)
def test_format_of_ragged_tensors(value, options, want):
    ragged = mr.ragged.constant(value)
    assert mr.strings.format("x {} y", ragged, **options).decode() == f"x {want} y"
    both = mr.strings.format("{}: {}", [3, ragged], **options).decode()
    assert both == f"3: {want}"
    ds = mr.Dataset.from_tensors(ragged).map(lambda x: mr.strings.format("{}", x, **options))
    assert [x.decode() for x in ds] == [want]


def test_format_of_ragged_tensors_with_dense_values():
    whole = mr.RaggedTensor.from_row_splits(np.arange(8).reshape(4, 2), [0, 3, 3, 4])
    assert mr.strings.format("{}", whole) == b"[[[0, 1], [2, 3], [4, 5]], [], [[6, 7]]]"
    assert mr.strings.format("{}", whole[:0]) == b"[]"
    for summarize in (0, -2):
        with pytest.raises(ValueError, match="summarize is -1 or at least 1"):
            mr.strings.format("{}", whole, summarize=summarize)


def test_format_wants_as_many_tensors():
    assert mr.strings.format("%t%t", [1, 2], placeholder="%t") == b"12"
    assert mr.strings.format("none", []) == b"none"
    with pytest.raises(ValueError, match="2 placeholders for 1 tensors"):
        mr.strings.format("{} {}", [1])


def test_unsorted_segment_join():
    join = mr.strings.unsorted_segment_join
    joined = mr.Dataset.from_tensors(["a", "b"]).map(lambda x: join(x, [1, 0], 3))
    assert joined.element_spec.shape.as_list() == [3]
    assert [x.tolist() for x in joined] == [[b"b", b"a", b""]]
    assert rows(join(["a", "b", "c"], [0, 1, 0], 3, ":")) == [b"a:c", b"b", b""]
    assert rows(join([["a", "b"], ["c", "d"]], [0, 0], 2, ":")) == [[b"a:c", b"b:d"], [b"", b""]]
    assert rows(join([["a", "b"], ["c", "d"]], [[0, 1], [1, 0]], 2)) == [b"ad", b"bc"]
    assert rows(join(["", "a", ""], [0, 0, 0], 1, ":")) == [b"a:"]  # none before the first text
    for ids in ([0, -1, 0], [0, 3, 0]):
        with pytest.raises(mr.errors.InvalidArgumentError, match="segment_id"):
            join(["a", "b", "c"], ids, 3)


def test_reduce_join_of_ragged_rows():
    data = mr.ragged.constant([["ab", "c"], ["c", "d", "e"], []])
    join = mr.strings.reduce_join
    assert rows(join(data, axis=1)) == [b"abc", b"cde", b""]
    assert rows(join(data, axis=-1, keepdims=True)) == [[b"abc"], [b"cde"], [b""]]
    assert rows(join(data, axis=0, separator="-")) == [b"ab-c", b"c-d", b"e"]
    assert join(data) == b"abccde"
    assert (
        join(data, axis=[0, 1], separator="-") == b"ab-c-c-d-e-"
    )  # the rows first, whatever the order
    assert join(data, axis=[1, 0], separator="-") == b"ab-c-c-d-e-"
    assert rows(join(data, axis=[])) == rows(data)
    assert rows(join(data[:0], axis=0)) == [] and join(data[:0], axis=[0, 1]) == b""
    with pytest.raises(mr.errors.InvalidArgumentError, match="axis 2 of a tensor of rank 2"):
        join(data, axis=2)


@pytest.mark.parametrize(
    "axis, want",
    [
        (0, [[b"a.c.d", b"b"], [b"e"]]),
        (1, [[b"a", b"b"], [b"c"], [b"d.e"]]),
        (2, [[b"a.b", b""], [b"c"], [b"d", b"e"]]),
        (-1, [[b"a.b", b""], [b"c"], [b"d", b"e"]]),
        ([0, 1], [b"a.c.d.e", b"b"]),
        ([1, 2], [b"a.b.", b"c", b"d.e"]),
        ([-1, 0], [b"a.b.c.d", b"e"]),
        ([0, 1, 2], b"a.b..c.d.e"),
    ],
)
def test_reduce_join_over_axes_of_ragged_tensors(axis, want):
    data = mr.ragged.constant([[["a", "b"], []], [["c"]], [["d"], ["e"]]])
    got = mr.strings.reduce_join(data, axis, separator=".")
    assert rows(got) == want if not isinstance(got, bytes) else got == want
    ds = mr.Dataset.from_tensors(data).map(lambda x: mr.strings.reduce_join(x, axis, separator="."))
    (traced,) = ds
    assert rows(traced) == want if not isinstance(traced, bytes) else traced == want


@pytest.mark.parametrize("axis", [[1, 1], [1, -1], [0, 0], [0, -2]])
def test_reduce_join_over_an_axis_named_twice(axis):
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"rank 2 names one of them twice"):
        mr.strings.reduce_join(mr.ragged.constant([["a", "b"], ["c"]]), axis)
    data = mr.ragged.constant([[["a", "b"], []], [["c"]]])
    with pytest.raises(mr.errors.InvalidArgumentError, match=r"rank 3 names one of them twice"):
        mr.strings.reduce_join(data, [axis[0], axis[0]])


def test_hash_buckets_are_tensorflows():
    text = ["a", "", "hello world this is", "12345678"]
    assert rows(mr.strings.to_hash_bucket(text, 1000)) == [868, 899, 56, 287]
    strong = mr.strings.to_hash_bucket_strong
    assert rows(strong(text, 1000, [1, 2])) == [646, 435, 488, 12]
    assert rows(strong(["a"], 1000, [-1, 2])) == [650]
    with pytest.raises(mr.errors.InvalidArgumentError, match="two ints"):
        strong(text, 1000, [1])


def test_as_string_with_a_width():
    write = mr.strings.as_string
    assert rows(write([1, -2], width=6, fill="-")) == [b"1     ", b"-2    "]
    assert rows(write([1, -2], width=4, fill="+")) == [b"  +1", b"  -2"]
    assert rows(write([1.5, np.nan], width=9, fill="0")) == [b"01.500000", b"      nan"]
    assert rows(write([1.5], width=9, fill="0", scientific=True, precision=1)) == [b"001.5e+00"]
    assert rows(write(["abcdef"], precision=3, width=5, fill="-")) == [b"abc  "]
    assert rows(write(["abc"], precision=2)) == [b"abc"]
    assert write(True, width=9) == b"true"
    for wrong in ({"fill": "x"}, {"fill": "00"}, {"precision": 2}, {"shortest": True}):
        with pytest.raises(mr.errors.InvalidArgumentError):
            write([1], **wrong)


def test_numbers_with_a_default():
    text = ["1", "n/a", "2.5", "", "99999999999"]
    assert rows(mr.strings.to_number(text, mr.int32, default=-1)) == [1, -1, -1, -1, -1]
    assert rows(mr.strings.to_number(text[:4], default=0.5)) == [1.0, 0.5, 2.5, 0.5]
    ragged = mr.ragged.constant([["1", "x"], ["3"]])
    assert rows(mr.strings.to_number(ragged, mr.int64, default=0)) == [[1, 0], [3]]
    with pytest.raises(TypeError, match="default is int32"):
        mr.strings.to_number(text, mr.int64, default=np.int32(1))
