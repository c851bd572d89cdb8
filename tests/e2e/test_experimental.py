"""What mr.experimental has beside the methods of Dataset; rebatch in turn; counts of errors."""

import itertools

import numpy as np
import pytest

import millrace as mr

Dataset = mr.Dataset
E = mr.experimental


def values(ds):
    return [np.asarray(x).tolist() for x in ds]


# ---- rebatch ----


def batches_of(numbers, sizes, drop_remainder):
    """The batches of @numbers, whose sizes are @sizes in turn: one of 0 comes when its turn does."""
    out, at = [], 0
    for size in itertools.cycle(sizes):
        if size > 0 and at == len(numbers):
            return out
        if at + size > len(numbers):
            return out if drop_remainder else [*out, numbers[at:]]
        out.append(numbers[at : at + size])
        at += size


@pytest.mark.parametrize("sizes", [[2, 1], [2, 0], [0, 2], [1, 0, 0, 3], [3, 3], [5, 1, 2], [7]])
@pytest.mark.parametrize("drop_remainder", [False, True])
def test_rebatch_takes_sizes_in_turn(sizes, drop_remainder):
    for n in range(14):
        ds = Dataset.range(n).batch(3).rebatch(sizes, drop_remainder)
        assert values(ds) == batches_of(list(range(n)), sizes, drop_remainder)
        known = Dataset.range(n).batch(1, True).rebatch(sizes, drop_remainder)
        assert known.cardinality() == len(values(ds))


def test_rebatch_in_turn_keeps_structure_and_strings():
    ds = Dataset.range(5).map(lambda x: (mr.strings.as_string(x), {"b": mr.stack([x, x])}))
    first, empty, last = list(ds.batch(4).rebatch([4, 0]))
    assert first[0].tolist() == [b"0", b"1", b"2", b"3"] and first[1]["b"].shape == (4, 2)
    assert empty[0].tolist() == [] and empty[1]["b"].shape == (0, 2)
    assert last[1]["b"].tolist() == [[4, 4]]


def test_a_position_between_batches_of_several_sizes():
    ds = Dataset.range(20).batch(3).rebatch([2, 0, 3])
    want = values(ds)
    for k in range(len(want) + 1):
        it = iter(ds)
        assert values(itertools.islice(it, k)) == want[:k]
        again = iter(ds)
        again.set_state(it.get_state())
        assert values(again) == want[k:]


def test_a_batch_with_a_failed_element_keeps_the_others_in_turn():
    ds = Dataset.range(8).map(lambda x: 10 // (x - 4)).batch(2).unbatch().batch(1).rebatch([1, 2])
    it, got = iter(ds), []
    while True:
        try:
            got.append(next(it).tolist())
        except StopIteration:
            break
        except mr.errors.InvalidArgumentError:
            got.append("error")
    assert got == [[-3], [-4, -5], [-10], "error", [5], [3]]


@pytest.mark.parametrize("sizes", [[0], [0, 0], [2, -1], [-1]])
def test_rebatch_refuses_sizes_that_make_no_batches(sizes):
    with pytest.raises(mr.errors.InvalidArgumentError, match="sizes|batch_size"):
        Dataset.range(3).batch(2).rebatch(sizes)


def test_rebatch_refuses_what_is_no_vector_of_integers():
    for sizes in [], [[1, 2]]:
        with pytest.raises(ValueError, match="vector"):
            Dataset.range(3).batch(2).rebatch(sizes)
    with pytest.raises(TypeError, match="integer"):
        Dataset.range(3).batch(2).rebatch([1.5, 2])


# ---- ignore_errors ----


def failing(n=10):
    return Dataset.range(n).map(lambda x: 100 // (x % 3))


def test_ignored_errors_are_counted():
    ds = failing().ignore_errors()
    with iter(ds) as it:
        assert it.ignored_errors == 0
        assert len(list(it)) == 6 and it.ignored_errors == 4
    assert it.ignored_errors == 4
    assert list(iter(ds)) and iter(Dataset.range(3)).ignored_errors == 0


def test_a_restored_iterator_counts_on():
    ds = failing().ignore_errors()
    it = iter(ds)
    for _ in range(3):
        next(it)
    before, again = it.ignored_errors, iter(ds)
    again.set_state(it.get_state())
    list(again)
    assert before >= 1 and again.ignored_errors == 4


def test_errors_up_to_a_number():
    assert len(list(failing().ignore_errors(max_errors=4))) == 6
    it, got = iter(failing().ignore_errors(max_errors=2)), []
    with pytest.raises(mr.errors.InvalidArgumentError, match="more than 2 errors") as e:
        got.extend(it)
    assert e.value.permanent and it.ignored_errors == 2
    with pytest.warns(mr.errors.DataLossWarning, match="more than 2 errors"):
        assert list(it) == []
    with pytest.raises(ValueError, match="max_errors"):
        failing().ignore_errors(max_errors=-1)


# ---- assert_cardinality ----


def counted(n, expected):
    return Dataset.range(n).filter(lambda x: x >= 0).apply(E.assert_cardinality(expected))


def test_a_cardinality_that_holds():
    assert len(counted(5, 5)) == 5 and values(counted(5, 5).repeat(2)) == [0, 1, 2, 3, 4] * 2
    assert counted(3, mr.INFINITE_CARDINALITY).cardinality() == mr.INFINITE_CARDINALITY
    assert values(counted(5, 3).take(3)) == [0, 1, 2]  # nobody asked whether there is one more


@pytest.mark.parametrize(
    "expected,text", [(4, "more than 4"), (6, "only 5"), (-1, "ends after 5"), (0, "more than 0")]
)
def test_a_cardinality_that_does_not_hold(expected, text):
    it, got = iter(counted(5, expected)), []
    with pytest.raises(mr.errors.FailedPreconditionError, match=text):
        got.extend(it)
    assert counted(5, expected).cardinality() == expected


def test_a_failed_element_is_counted():
    assert len(list(failing().apply(E.assert_cardinality(10)).ignore_errors())) == 6


# ---- lists, padding, places ----


def test_elements_of_different_sizes():
    ds = E.from_list([{"a": [1], "b": "x"}, {"a": [2, 3], "b": "yz"}])
    assert ds.element_spec["a"].shape.as_list() == [None] and len(ds) == 2
    assert [(x["a"].tolist(), x["b"]) for x in ds] == [([1], b"x"), ([2, 3], b"yz")]
    assert values(E.from_list([["a"], [], ["b\0", "c"]][::2])) == [[b"a"], [b"b\0", b"c"]]


@pytest.mark.parametrize(
    "elements,error,text",
    [
        ([], ValueError, "at least one"),
        ((1, 2), ValueError, "list"),
        ([1, "a"], TypeError, "component 0 of element 1 is string"),
        ([{"a": 1}, {"b": 1}], ValueError, "element 1 has the structure"),
        ([1, [1]], ValueError, "1 dimensions"),
    ],
)
def test_elements_that_make_no_dataset(elements, error, text):
    with pytest.raises(error, match=text):
        E.from_list(elements)


def test_padding_to_a_number_of_elements():
    ds = Dataset.from_tensor_slices({"a": [1, 2], "s": ["x", "y"], "n": {"v": [[1.5], [2.5]]}})
    padded = list(ds.apply(E.pad_to_cardinality(3, "there")))
    assert [x["there"] for x in padded] == [True, True, False]
    assert padded[2]["a"] == 0 and padded[2]["s"] == b"" and padded[2]["n"]["v"].tolist() == [0.0]
    assert (
        len(ds.apply(E.pad_to_cardinality(5))) == 5 and len(ds.apply(E.pad_to_cardinality(2))) == 2
    )


@pytest.mark.parametrize(
    "ds,text",
    [
        (Dataset.range(3), "dicts"),
        (Dataset.from_tensor_slices({"a": [1, 2, 3, 4, 5]}), "5 elements already"),
        (Dataset.from_tensor_slices({"a": [1]}).repeat(), "number of elements is known"),
        (Dataset.from_tensor_slices({"a": [1, 2, 3]}).batch(2), "shape"),
    ],
)
def test_what_cannot_be_padded(ds, text):
    with pytest.raises(ValueError, match=text):
        ds.apply(E.pad_to_cardinality(4))


def test_the_element_at_a_place():
    ds = Dataset.range(5).map(lambda x: x * 2)
    assert [E.at(ds, i) for i in range(5)] == [0, 2, 4, 6, 8]
    assert E.at(ds.filter(lambda x: x > 2), 1) == 6
    for i in 5, -1:
        with pytest.raises(mr.errors.OutOfRangeError, match=f"no element {i}: .* 5 elements"):
            E.at(ds, i)


# ---- optionals, tables, records ----


def test_an_element_or_none():
    it = iter(Dataset.range(1))
    first, second = E.get_next_as_optional(it), E.get_next_as_optional(it)
    assert first.has_value() and first.get_value() == 0 and not second.has_value()
    assert first.element_spec == second.element_spec == mr.TensorSpec([], "int64")
    with pytest.raises(mr.errors.InvalidArgumentError, match="no value"):
        second.get_value()
    with pytest.raises(TypeError, match="iterator"):
        E.get_next_as_optional([1])


def test_tables_of_datasets():
    words = Dataset.from_tensor_slices(["a", "b", "c"])
    assert E.index_table_from_dataset(words, 1, vocab_size=2)[["a", "c"]].tolist() == [0, 2]
    pairs = Dataset.zip(words, Dataset.from_tensor_slices([5, 6, 7]))
    assert E.table_from_dataset(pairs, default_value=9)[["c", "x"]].tolist() == [7, 9]
    for arguments, text in (
        ({"vocab_size": 4}, "has 3"),
        ({"vocab_size": 0}, "at least 1"),
        ({"num_oov_buckets": -1}, "at least 0"),
    ):
        with pytest.raises(ValueError, match=text):
            E.table_from_dataset(pairs, **arguments)
    with pytest.raises(TypeError, match="int64"):
        E.table_from_dataset(pairs, num_oov_buckets=1)
    with pytest.raises(ValueError, match="two values"):
        E.index_table_from_dataset(words.repeat(2))
    with pytest.raises(ValueError, match="pairs of scalars"):
        E.table_from_dataset(pairs.batch(2))


def test_records_of_a_dataset(tmp_path):
    path = tmp_path / "numbers"
    E.TFRecordWriter(path, "GZIP").write(Dataset.range(3).map(mr.strings.as_string))
    assert list(mr.TFRecordDataset(path, "GZIP")) == [b"0", b"1", b"2"]
    for ds in Dataset.range(3), Dataset.from_tensor_slices(["a"]).batch(1):
        with pytest.raises(TypeError, match="scalar strings"):
            E.TFRecordWriter(path).write(ds)


def test_batches_of_parsed_examples(tmp_path):
    for k in range(2):
        with mr.io.TFRecordWriter(tmp_path / f"part-{k}") as writer:
            for n in range(3):
                number = mr.train.Feature(int64_list=mr.train.Int64List(value=[10 * k + n]))
                features = mr.train.Features(feature={"n": number, "label": number})
                writer.write(mr.train.Example(features=features).SerializeToString())
    features = {k: mr.io.FixedLenFeature([], mr.int64) for k in ("n", "label")}
    pattern = str(tmp_path / "part-*")
    ds = E.make_batched_features_dataset(
        pattern, 4, features, label_key="label", num_epochs=1, shuffle=False
    )
    got = [(x["n"].tolist(), label.tolist()) for x, label in ds]
    assert got == [([0, 1, 2, 10], [0, 1, 2, 10]), ([11, 12], [11, 12])]
    shuffled = E.make_batched_features_dataset(pattern, 4, features, shuffle_seed=1).take(3)
    assert sorted(n for x in shuffled for n in x["n"]) == sorted([0, 1, 2, 10, 11, 12] * 2)
    with pytest.raises(ValueError, match="label_key"):
        E.make_batched_features_dataset(pattern, 4, features, label_key="x")
