"""
Text: splitting, regular expressions, hashes and tables; and all of it together, from lines to ids.
"""

import re

import numpy as np
import pytest

import millrace as mr

Dataset = mr.Dataset


def split(text, *args, **kwargs):
    return list(mr.strings.split(text, *args, **kwargs))


@pytest.mark.parametrize(
    "text",
    ["", " ", "a", " a  b\tc\r\nd ", "a,b,,c,", ",", "aaa", "\x0b\x0c x", "caf\u00e9 na\u00efve"],
)
@pytest.mark.parametrize("sep", [None, "", ",", "aa", "a"])
@pytest.mark.parametrize("maxsplit", [-1, 0, 1, 2, 100])
def test_split_is_pythons_but_for_what_is_left(text, sep, maxsplit):
    want = text.encode().split(sep.encode() if sep else None, maxsplit)
    if not sep and maxsplit == 0:
        want = [text.encode()]
    elif not sep and maxsplit == len(want):
        want.append(b"")  # as TensorFlow: a part, also where nothing is left
    assert split(text, sep, maxsplit) == want
    traced = list(
        Dataset.from_tensors(text).map(lambda s: mr.strings.split(s, sep=sep, maxsplit=maxsplit))
    )[0]
    assert list(traced) == want


def test_split_of_many_rows_and_of_vectors():
    ds = Dataset.range(50).map(lambda n: mr.strings.split(mr.strings.as_string(n * 1007), "0"))
    assert ds.element_spec == mr.TensorSpec([None], mr.string)
    assert [list(x) for x in ds] == [(b"%d" % (n * 1007)).split(b"0") for n in range(50)]
    ds = Dataset.range(50).map(lambda n: mr.strings.as_string(n * 1007)).batch(7)
    batches = ds.map(lambda text: mr.strings.split(text, "0"))
    assert [row for x in batches for row in x.to_list()] == [
        (b"%d" % (n * 1007)).split(b"0") for n in range(50)
    ]
    assert mr.strings.split([["a b", ""], ["c", "d e f"]]).to_list() == [
        [[b"a", b"b"], []],
        [[b"c"], [b"d", b"e", b"f"]],
    ]


@pytest.mark.parametrize(
    "pattern,rewrite",
    [
        ("a", "b"),
        ("[aeiou]+", r"<\0>"),
        (r"(\w+) (\w+)", r"\2 \1"),
        ("a*", "-"),
        ("^", ">"),
        ("$", "<"),
        ("", "."),
        (r"\.", r"\\"),
        (r"[^\w\s]", ""),
        ("(x)|b", r"[\1]"),
    ],
)
@pytest.mark.parametrize(
    "text", ["", "abc", "hello big world", "baaac", "x.y.z", "na\u00efve caf\u00e9!"]
)
def test_regex_replace_is_pythons(pattern, rewrite, text):
    python = re.sub(r"\\(\d)", r"\\g<\1>", rewrite)
    want = re.sub(pattern, python, text, flags=re.ASCII)  # as RE2's classes
    if pattern == "a*":  # RE2 allows no empty match right behind another
        want = {
            "": "-",
            "abc": "-b-c-",
            "hello big world": None,
            "baaac": "-b-c-",
            "x.y.z": "-x-.-y-.-z-",
        }.get(text)
    if want is not None:
        assert mr.strings.regex_replace(text, pattern, rewrite) == want.encode()
    if pattern != "a*":
        once = mr.strings.regex_replace(text, pattern, rewrite, replace_global=False)
        assert once == re.sub(pattern, python, text, count=1, flags=re.ASCII).encode()


def test_regular_expressions_refuse():
    words = Dataset.from_tensor_slices(["abc", "ABC", "ab"])
    assert list(words.map(lambda s: mr.strings.regex_full_match(s, "(?i)a.c"))) == [
        True,
        True,
        False,
    ]
    assert list(mr.strings.regex_full_match(np.array(["a\n", "a"]), "a")) == [False, True]
    for pattern in ("(", "[z-a]", "*"):
        with pytest.raises(mr.errors.InvalidArgumentError, match="regex_replace: pattern"):
            mr.strings.regex_replace("x", pattern, "")
    for rewrite in ("\\", "\\x", r"\1"):
        with pytest.raises(mr.errors.InvalidArgumentError, match="rewrite"):
            mr.strings.regex_replace("x", "x", rewrite)
    for backtracking in (r"(a)\1", "a(?=b)", "a(?!b)", "a*+", "(?>a)"):
        with pytest.raises(mr.errors.InvalidArgumentError, match="regex_full_match: pattern"):
            mr.strings.regex_full_match("x", backtracking)


def test_regular_expressions_take_time_that_grows_with_the_text_alone():
    text = "a" * 1_000_000
    for pattern in ("(a+)+", "(a|aa)+", "(.*)*", "(a*)*b?"):
        assert mr.strings.regex_full_match(text, pattern)
        assert not mr.strings.regex_full_match(text + "!", "(?:%s)c" % pattern)
    assert mr.strings.regex_replace(text + "!", "(a+)+$", "b") == (text + "!").encode()


# What TensorFlow 2.16 says.
@pytest.mark.parametrize(
    "pattern, rewrite, text, want",
    [
        ("a", "b", b"\xff a \xff", b"\xff b \xff"),
        ("", "-", "aé€😀".encode(), "-a-é-€-😀-".encode()),
        ("", "-", b"a\xff\x80\xe2\x82b", b"-a-\xff-\x80-\xe2-\x82-b-"),
        ("x*", "-", b"\xc3x\xa9", b"-\xc3-\xa9-"),
        ("", "-", b"\xed\xa0\x80", b"-\xed\xa0\x80-"),
        (r"\pL+", "W", "héé  wörld", b"W  W"),
        (r"\p{Greek}", "g", "aβγ", b"agg"),
        (r"\w", "w", "é_1", "éww".encode()),
        ("(?i)STRASSE", "X", "Strasse straße", "X straße".encode()),
        ("(?s).", ".", "a\nb", b"..."),
        (".", ".", "a\nb", b".\n."),
        ("(?m)^", ">", "a\nb", b">a\n>b"),
        ("$", "<", "a\n", b"a\n<"),
        ("(?P<name>a)(b)?", r"[\2\1\0]", "aab", b"[aa][baab]"),
        (r"\Qa.b\E", "x", "a.b acb", b"x acb"),
        (r"\C", "x", "é", b"xx"),
        ("a{2,3}?", "x", "aaaaa", b"xxa"),
        ("[[:alpha:]]+", "w", "ab1", b"w1"),
        (r"a\zb?", "x", "aba", b"abx"),
    ],
)
def test_regular_expressions_are_tensorflows(pattern, rewrite, text, want):
    assert mr.strings.regex_replace(text, pattern, rewrite) == want


def test_hash_buckets():
    words = np.array([b"w%d" % i for i in range(1000)], object)
    got = mr.strings.to_hash_bucket_fast(words, 10)
    assert got.dtype == np.int64 and set(got.tolist()) == set(range(10))
    assert (
        list(Dataset.from_tensor_slices(words).map(lambda s: mr.strings.to_hash_bucket_fast(s, 10)))
        == got.tolist()
    )
    with pytest.raises(mr.errors.InvalidArgumentError, match="num_buckets"):
        mr.strings.to_hash_bucket_fast(words, 0)


# ---- tables ----


def test_static_hash_table():
    table = mr.lookup.StaticHashTable(mr.lookup.KeyValueTensorInitializer(["a", "b"], [10, 20]), -1)
    assert table.size() == 2 and table.key_dtype == mr.string and table.value_dtype == mr.int32
    assert table.lookup("a") == 10 and table.lookup(["b", "z"]).tolist() == [20, -1]
    assert table[np.array([["a"], ["b"]])].tolist() == [[10], [20]]
    ds = Dataset.from_tensor_slices(["b", "c", "a"]).map(table.lookup)
    assert ds.element_spec == mr.TensorSpec([], mr.int32) and list(ds) == [20, -1, 10]
    words = mr.lookup.StaticHashTable(
        mr.lookup.KeyValueTensorInitializer(np.array([3, 5]), ["three", "five"]), "?"
    )
    assert list(Dataset.range(6).map(words.lookup)) == [b"?", b"?", b"?", b"three", b"?", b"five"]
    floats = mr.lookup.StaticHashTable(mr.lookup.KeyValueTensorInitializer([1, 2], [0.5, 1.5]), 0.0)
    assert floats.key_dtype == mr.int32 and floats.lookup([2, 7]).tolist() == [1.5, 0.0]
    empty = mr.lookup.StaticHashTable(
        mr.lookup.KeyValueTensorInitializer(np.empty(0, object), np.empty(0, np.int64)), 7
    )
    assert empty.lookup(["a"]).tolist() == [7]
    with pytest.raises(TypeError, match="int64"):
        Dataset.range(3).map(table.lookup)
    with pytest.raises(ValueError, match="two values"):
        mr.lookup.StaticHashTable(mr.lookup.KeyValueTensorInitializer(["a", "a"], [1, 2]), 0)
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        mr.lookup.KeyValueTensorInitializer(["a", "b"], [1])


def test_static_vocabulary_table(tmp_path):
    path = str(tmp_path / "vocab.txt")
    open(path, "wb").write(b"the\r\nof\nand\n")
    init = mr.lookup.TextFileInitializer(
        path,
        mr.string,
        mr.lookup.TextFileIndex.WHOLE_LINE,
        mr.int64,
        mr.lookup.TextFileIndex.LINE_NUMBER,
    )
    table = mr.lookup.StaticVocabularyTable(init, 3)
    assert table.size() == 6
    ids = table.lookup(["of", "x", "the", "y", "and"])
    assert ids[[0, 2, 4]].tolist() == [1, 0, 2] and all(3 <= i < 6 for i in ids[[1, 3]])
    assert ids[1] == 3 + mr.strings.to_hash_bucket_fast("x", 3)
    shuffled = mr.lookup.StaticVocabularyTable(
        mr.lookup.KeyValueTensorInitializer(["a", "b"], np.array([1, 0])), 1
    )
    assert shuffled.lookup(["a", "b", "c"]).tolist() == [1, 0, 2]
    numbers = mr.lookup.StaticVocabularyTable(
        mr.lookup.KeyValueTensorInitializer(np.array([7, 9]), np.arange(2)), 5
    )
    assert numbers.lookup(np.array([9, 8])).tolist() == [
        1,
        2 + mr.strings.to_hash_bucket_fast("8", 5),
    ]
    nothing = mr.lookup.StaticVocabularyTable(None, 4, lookup_key_dtype=mr.string)
    assert nothing.lookup("x") == mr.strings.to_hash_bucket_fast("x", 4)
    with pytest.raises(ValueError, match="StaticHashTable"):
        mr.lookup.StaticVocabularyTable(init, 0)
    with pytest.raises(TypeError, match="int64"):
        mr.lookup.StaticVocabularyTable(mr.lookup.KeyValueTensorInitializer(["a"], ["b"]), 1)


def test_tables_from_columns_of_a_file(tmp_path):
    path = str(tmp_path / "table.tsv")
    open(path, "w").write("a\t1\nb\t2\n")
    init = mr.lookup.TextFileInitializer(path, mr.string, 0, mr.int64, 1)
    assert mr.lookup.StaticHashTable(init, -1).lookup(["b", "a", "c"]).tolist() == [2, 1, -1]
    by_number = mr.lookup.TextFileInitializer(
        path, mr.string, 0, mr.int64, mr.lookup.TextFileIndex.LINE_NUMBER, value_index_offset=5
    )
    assert mr.lookup.StaticHashTable(by_number, 0).lookup(["b"]).tolist() == [6]
    with pytest.raises(ValueError, match="line 1: 2 columns, column 2"):
        mr.lookup.TextFileInitializer(path, mr.string, 2, mr.int64, 1)
    with pytest.raises(ValueError, match="line 1: b'a' is no int64"):
        mr.lookup.TextFileInitializer(path, mr.int64, 0, mr.int64, 1)
    with pytest.raises(ValueError, match="2 lines, not 3"):
        mr.lookup.TextFileInitializer(path, mr.string, 0, mr.int64, 1, vocab_size=3)
    with pytest.raises(ValueError, match="WHOLE_LINE is a string or an integer"):
        mr.lookup.TextFileInitializer(
            path, mr.float32, mr.lookup.TextFileIndex.WHOLE_LINE, mr.int64, 1
        )


def test_from_lines_to_buckets_of_ids(tmp_path):
    path = str(tmp_path / "text")
    open(path, "w").write("the cat sat\n\nthe dog sat on the cat\nA cat!\nthe the the the\n")
    vocabulary = mr.lookup.StaticVocabularyTable(
        mr.lookup.KeyValueTensorInitializer(["the", "cat", "sat"], np.arange(3)), 1
    )

    def ids(line):
        words = mr.strings.split(mr.strings.regex_replace(mr.strings.lower(line), "[^a-z ]", ""))
        return vocabulary.lookup(words) + 1

    ds = mr.TextLineDataset(path).map(ids).filter(lambda x: mr.size(x) > 0)
    assert [x.tolist() for x in ds] == [[1, 2, 3], [1, 4, 3, 4, 1, 2], [4, 2], [1, 1, 1, 1]]
    buckets = ds.bucket_by_sequence_length(mr.size, [4], [2, 2])
    assert [x.tolist() for x in buckets] == [
        [[1, 2, 3], [4, 2, 0]],
        [[1, 4, 3, 4, 1, 2], [1, 1, 1, 1, 0, 0]],
    ]


# What TensorFlow 2.16 says.
@pytest.mark.parametrize(
    "text, pos, length, octets, characters",
    [
        ("aéb", 0, 2, b"a\xc3", "aé".encode()),
        ("aéb", 3, 2, b"b", b""),
        ("aéb", 1, -1, "éb".encode(), b""),
        ("aéb", 1, 100, "éb".encode(), "éb".encode()),
        ("aéb", -3, 2, "é".encode(), "aé".encode()),
        ("aéb", -4, 2, b"a\xc3", None),
        ("aéb", 4, 1, b"", None),
        ("aéb", 5, 1, None, None),
        (b"\x80a\xff\xc3", 1, 2, b"a\xff", b"a\xff"),
        (b"\x80\x80a", 1, 2, b"\x80a", b"a"),
        (b"\x80\x80a", -2, 2, b"\x80a", b"\x80\x80a"),
        ("", 0, 2, b"", b""),
    ],
)
def test_substr(text, pos, length, octets, characters):
    for unit, want in (("BYTE", octets), ("UTF8_CHAR", characters)):
        if want is not None:
            assert mr.strings.substr(text, pos, length, unit) == want
        else:
            with pytest.raises(mr.errors.InvalidArgumentError, match=f"position {pos}, in "):
                mr.strings.substr(text, pos, length, unit)
    with pytest.raises(mr.errors.InvalidArgumentError, match="wants BYTE or UTF8_CHAR"):
        mr.strings.substr(text, 0, 0, "CHAR")


# What TensorFlow 2.16 says.
def test_reduce_join():
    join, square = mr.strings.reduce_join, [["a", "b"], ["c", "d"]]
    for axis, want in (
        (None, b"a-b-c-d"),
        (0, [b"a-c", b"b-d"]),
        (-1, [b"a-b", b"c-d"]),
        ([0, 1], b"a-c-b-d"),
        ([1, 0], b"a-b-c-d"),
        ([], [[b"a", b"b"], [b"c", b"d"]]),
    ):
        assert np.asarray(join(square, axis, separator="-")).tolist() == want
    assert join(square, 1, keepdims=True).tolist() == [[b"ab"], [b"cd"]]
    assert join(square, keepdims=True).tolist() == [[b"abcd"]]
    assert join("x") == join("x", []) == b"x"
    nothing = np.empty([0, 2], object)
    assert join(nothing, 0, separator="-").tolist() == [b"", b""]
    assert join(nothing, 1).tolist() == []
    for axis in (2, -3, [0, 0], [0, -2]):
        with pytest.raises(mr.errors.InvalidArgumentError, match="reduce_join: .*axis"):
            join(square, axis)
    words = Dataset.from_tensor_slices(["a b c", "d", ""]).map(lambda s: mr.strings.split(s))
    assert list(words.map(lambda w: join(w, separator="+"))) == [b"a+b+c", b"d", b""]


def test_tables_take_ragged_and_sparse_keys():
    entries = mr.lookup.KeyValueTensorInitializer(["a", "b"], np.array([0, 1]))
    ragged = mr.ragged.constant([["a", "x"], []], dtype=mr.string)
    sparse = mr.SparseTensor([[0, 1], [2, 0]], ["b", "x"], [3, 2])
    for table, unknown in [
        (mr.lookup.StaticHashTable(entries, -1), -1),
        (mr.lookup.StaticVocabularyTable(entries, 1), 2),
    ]:
        assert table[ragged].to_list() == [[0, unknown], []]
        found = table[sparse]
        assert found.values.tolist() == [1, unknown]
        assert found.indices.tolist() == [[0, 1], [2, 0]]
        ds = Dataset.from_tensor_slices([["a b", "x"], ["b", ""]])
        ds = ds.map(lambda text: table.lookup(mr.strings.split(text)))
        assert [x.to_list() for x in ds] == [[[0, 1], [unknown]], [[1], []]]
    with pytest.raises(TypeError, match="keys are string"):
        mr.lookup.StaticHashTable(entries, -1).lookup(mr.ragged.constant([[1]]))


def test_what_a_table_holds():
    entries = mr.lookup.KeyValueTensorInitializer(["b", "a", "b"], np.array([3, 4, 3]))
    keys, values = mr.lookup.StaticHashTable(entries, -1).export()
    assert keys.tolist() == [b"b", b"a"]
    assert values.tolist() == [3, 4]
    with pytest.raises(mr.errors.UnimplementedError, match="StaticHashTable"):
        mr.lookup.experimental.MutableHashTable("string", "int64", -1)


# ---- bytes as numbers ----


@pytest.mark.parametrize("dtype", ["uint8", "int16", "float32", "float64", "complex64"])
@pytest.mark.parametrize("little_endian", [True, False])
def test_decode_raw_with_a_fixed_length(dtype, little_endian):
    source = np.random.default_rng(5)
    texts = [source.bytes(n) for n in (0, 3, 16, 17, 40)]
    filled = b"".join(text[:16].ljust(16, b"\0") for text in texts)
    want = np.frombuffer(filled, np.dtype(dtype).newbyteorder("<" if little_endian else ">"))
    for length in (16, np.int64(16), mr.constant(16)):
        got = mr.io.decode_raw(texts, dtype, little_endian, length)
        assert got.dtype == dtype and got.tobytes() == want.astype(dtype).tobytes()
        assert got.shape == (5, 16 // got.itemsize)


def test_the_fixed_length_of_decode_raw_may_be_a_tensor():
    ds = Dataset.from_tensors((["ab", "", "abcdef"], np.int32(4)))
    constant = ds.map(lambda x, n: mr.io.decode_raw(x, mr.uint8, fixed_length=2))
    assert constant.element_spec == mr.TensorSpec([3, 2], mr.uint8)
    given = ds.map(lambda x, n: mr.io.decode_raw(x, mr.uint8, fixed_length=n))
    assert given.element_spec == mr.TensorSpec([3, None], mr.uint8)
    assert next(iter(constant)).tolist() == [[97, 98], [0, 0], [97, 98]]
    assert next(iter(given)).tolist() == [[97, 98, 0, 0], [0] * 4, [97, 98, 99, 100]]
    assert mr.io.decode_raw(mr.zeros([0], mr.string), mr.int16, fixed_length=4).shape == (0, 2)


@pytest.mark.parametrize("length", [0, -2, 3])
def test_a_fixed_length_that_cannot_be(length):
    with pytest.raises(mr.errors.InvalidArgumentError, match=f"fixed_length is {length}, it must"):
        mr.io.decode_raw("abcd", mr.uint16, fixed_length=length)
    n = mr.Dataset.from_tensors(length)
    n = n.map(lambda n: mr.io.decode_raw("abcd", mr.uint16, fixed_length=n))
    with pytest.raises(mr.errors.InvalidArgumentError, match=f"fixed_length is {length}, it must"):
        list(n)


def test_strings_are_added():
    assert mr.add(["a", "b"], [b"c", "d"]).tolist() == [b"ac", b"bd"]
    assert mr.math.add("part-", np.array([["0"], ["1"]])).tolist() == [[b"part-0"], [b"part-1"]]
    assert mr.add(np.array([], object), np.array([], object)).shape == (0,)
    ds = mr.Dataset.from_tensor_slices(["x", "y"]).map(lambda x: mr.add("dir/", x) + ".txt")
    assert list(ds) == [b"dir/x.txt", b"dir/y.txt"]
    ragged = mr.ragged.constant([["a"], ["b", "c"]])
    assert (ragged + "x").to_list() == mr.add(ragged, "x").to_list() == [[b"ax"], [b"bx", b"cx"]]
    with pytest.raises(mr.errors.InvalidArgumentError, match="input 1 is int32; wants a string"):
        mr.add("a", 1)


def test_lists_of_empty_lists_take_the_dtype_of_others():
    assert mr.concat([[[]], np.zeros((1, 2), np.int64)], 1).tolist() == [[0, 0]]
    assert mr.add([[], []], np.zeros((2, 0), np.float32)).shape == (2, 0)
