"""
Elements that fail: what stands behind them has the place that it would have, whatever puts elements
together or counts them.
"""

import contextlib
import itertools
import pathlib
import re
import warnings

import numpy as np
import pytest

import millrace as mr
from millrace import Dataset

NUMBERS = [1, 2, 0, 4, 5, 6, 0, 0, 9, 10, 11, 12, 13, 0]
SHAPES_OF_PIPELINES = {
    "nothing": lambda ds: ds,
    "take": lambda ds: ds.take(12),
    "take, and others": lambda ds: ds.take(7).concatenate(Dataset.range(20, 30)),
    "skip": lambda ds: ds.skip(2),
    "skip what fails": lambda ds: ds.skip(4),
    "shard": lambda ds: ds.shard(3, 1),
    "batch": lambda ds: ds.batch(2),
    "batch of three": lambda ds: ds.batch(3, drop_remainder=True),
    "no remainder, and others": lambda ds: ds.batch(4, drop_remainder=True).concatenate(
        Dataset.range(20, 30).batch(2)
    ),
    "padded_batch": lambda ds: ds.map(lambda x: mr.fill([x % 3], x)).padded_batch(3),
    "prefetch": lambda ds: ds.prefetch(2),
    "parallel map": lambda ds: ds.map(lambda x: x, num_parallel_calls=3),
    "concatenate": lambda ds: ds.concatenate(Dataset.range(3)),
    "flat_map to one": lambda ds: ds.flat_map(lambda x: Dataset.from_tensors(x)),
    "shuffle(1)": lambda ds: ds.shuffle(1),
    "zip": lambda ds: Dataset.zip(Dataset.range(100), ds).map(lambda i, x: x),
    "cache, three times": lambda ds: ds.cache().repeat(3),
    "interleave": lambda ds: Dataset.range(2).interleave(lambda _: ds, cycle_length=2),
    "blocks of two": lambda ds: Dataset.range(3).interleave(
        lambda _: ds, cycle_length=2, block_length=2
    ),
    "parallel interleave": lambda ds: Dataset.range(3).interleave(
        lambda _: ds, cycle_length=2, num_parallel_calls=2
    ),
    "choose": lambda ds: Dataset.choose_from_datasets([ds, ds], Dataset.range(2).repeat()),
    "sample": lambda ds: Dataset.sample_from_datasets([ds, ds], seed=3),
}


def check(x):
    """@x; an error where it is 0."""
    return 360 // x * 0 + x


@pytest.mark.parametrize("name", SHAPES_OF_PIPELINES)
def test_behind_an_element_that_fails_everything_has_its_place(name):
    shape = SHAPES_OF_PIPELINES[name]
    a = Dataset.from_tensor_slices(np.array(NUMBERS, np.int64))
    for first, second in ((a.map(check), a), (a, a.map(check))):
        pairs = list(Dataset.zip(shape(first), shape(second)).ignore_errors())
        assert len(pairs) >= 1
        for x, y in pairs:
            np.testing.assert_array_equal(x, y)
        if name == "nothing":
            assert [int(x) for x, _ in pairs] == [x for x in NUMBERS if x]


LOSES_PLACES = {
    "unbatch": lambda ds: ds.batch(2).unbatch(),
    "rebatch": lambda ds: ds.batch(2).rebatch(3),
    "flat_map": lambda ds: ds.flat_map(Dataset.range),
    "interleave": lambda ds: ds.interleave(Dataset.range, cycle_length=2),
    "parallel interleave": lambda ds: ds.interleave(
        Dataset.range, cycle_length=2, num_parallel_calls=2
    ),
    "filter": lambda ds: ds.filter(lambda x: x != 9),
    "a failing filter": lambda ds: ds.filter(lambda x: check(x - 5) != 9),
    "take_while": lambda ds: ds.take_while(lambda x: x < 10),
    "unique": lambda ds: ds.unique(),
    "shuffle": lambda ds: ds.shuffle(4, seed=3, reshuffle_each_iteration=False),
    "group_by_window": lambda ds: ds.group_by_window(lambda x: x % 2, lambda key, group: group, 2),
    "group_by_reducer": lambda ds: ds.apply(
        mr.experimental.group_by_reducer(
            lambda x: x % 2,
            mr.experimental.Reducer(lambda key: np.int64(0), lambda s, x: s + x, lambda s: s),
        )
    ),
    "buckets": lambda ds: ds.bucket_by_sequence_length(lambda x: x % 9, [3, 6], [2, 2, 2]),
    "windows": lambda ds: ds.window(3).flat_map(lambda w: w.batch(3)),
    "windows that overlap": lambda ds: ds.window(3, shift=1, drop_remainder=True).flat_map(
        lambda w: w.batch(3)
    ),
    "choices": lambda ds: Dataset.choose_from_datasets(
        [Dataset.range(20), Dataset.range(20, 40)], ds.map(lambda x: x % 2)
    ),
}


@pytest.mark.parametrize("name", LOSES_PLACES)
def test_where_the_places_are_lost_nothing_is_paired(name):
    shape = LOSES_PLACES[name]
    a = Dataset.from_tensor_slices(np.array(NUMBERS, np.int64))
    failing, whole = shape(a.map(check)), shape(a)
    numbered = failing.enumerate()
    for ds in (Dataset.zip(failing, whole), Dataset.zip(whole, failing), numbered):
        it = iter(ds.ignore_errors())
        pairs = []
        with pytest.raises(
            mr.errors.FailedPreconditionError,
            match="(zip|enumerate) .step [0-9]+, [^)]*.: it pairs nothing behind an error",
        ) as e:
            pairs.extend(it)
        assert e.value.permanent
        assert (
            "put ignore_errors() in front of it): " in e.value.message
            and "integer division by zero" in e.value.message
        )
        it.set_state(it.get_state())  # there is no way past it, nor by way of its position
        with pytest.warns(
            mr.DataLossWarning,
            match="this pass ended early: FailedPreconditionError: (zip|enumerate)",
        ):
            assert list(it) == []
        for n, (x, y) in enumerate(pairs):
            np.testing.assert_array_equal(x, n if ds is numbered else y)
    for x, y in Dataset.zip(failing.ignore_errors(), failing.ignore_errors()):
        np.testing.assert_array_equal(x, y)


def test_who_goes_on_after_every_error_comes_to_an_end():
    numbers = Dataset.from_tensor_slices(np.array(NUMBERS, np.int64)).map(check)
    it = iter(Dataset.zip(numbers.filter(lambda x: x != 9), Dataset.range(20)))
    pairs, failed = [], []
    with pytest.warns(
        mr.DataLossWarning, match="this pass ended early: FailedPreconditionError: (zip|enumerate)"
    ) as said:
        while True:
            try:
                pairs.append(next(it))
            except mr.errors.MillraceError as e:
                failed.append(type(e))
            except StopIteration:
                break
    assert all(x == NUMBERS[y] for x, y in pairs)
    assert failed == [mr.errors.InvalidArgumentError, mr.errors.FailedPreconditionError]
    assert [w.filename for w in said] == [__file__]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(it) == []  # that is how it is with ends


def test_a_pass_that_broke_off_ends_so_where_its_position_is_restored():
    numbers = Dataset.from_tensor_slices(np.array(NUMBERS, np.int64)).map(check)
    ds = Dataset.zip(numbers.filter(lambda x: x != 9), Dataset.range(20))
    original = iter(ds)

    def ends_early(it):
        with pytest.warns(
            mr.DataLossWarning,
            match="this pass ended early: FailedPreconditionError: (zip|enumerate)",
        ):
            with pytest.raises(StopIteration):
                next(it)

    def states():
        """Those from before the error that breaks off, from behind it, and from the end."""
        yield original.get_state()
        permanent = False
        while not permanent:
            try:
                next(original)
            except mr.errors.MillraceError as e:
                permanent = e.permanent
            if not permanent:
                yield original.get_state()
        yield original.get_state()
        ends_early(original)
        yield original.get_state()

    *before, behind, at_the_end = states()
    for used in (False, True):

        def restored(state):
            it = iter(ds)
            if used:
                next(it)
            it.set_state(state)
            return it

        for state in before:
            it = restored(state)
            raised = []
            while not any(raised):
                try:
                    next(it)
                except mr.errors.MillraceError as e:
                    raised.append(e.permanent)
            ends_early(it)
        it = restored(behind)
        assert it.get_state() == behind
        ends_early(it)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert list(it) == []
            assert it.get_state() == at_the_end
            it = restored(at_the_end)
            assert it.get_state() == at_the_end
            assert list(it) == []
            it.set_state(before[0])  # and the next pass is a pass
            assert next(it) == (1, 0)


def test_an_error_that_ends_a_file_is_of_any_number_of_records(tmp_path):
    for name in "ab":
        with mr.io.TFRecordWriter(str(tmp_path / name)) as w:
            for i in range(3):
                w.write(b"%s%d" % (name.encode(), i))
    data = bytearray((tmp_path / "a").read_bytes())
    record = len(data) // 3
    damaged = bytearray(data)
    damaged[record + 12] ^= 1  # of the second record's data: reading goes on behind it
    (tmp_path / "a").write_bytes(damaged)
    names = [str(tmp_path / name) for name in "ab"]
    ds = Dataset.from_tensor_slices(names).flat_map(mr.TFRecordDataset).enumerate()
    assert list(ds.ignore_errors()) == [(0, b"a0"), (2, b"a2"), (3, b"b0"), (4, b"b1"), (5, b"b2")]
    data[record] ^= 1  # of its length: where the third one begins nobody knows
    (tmp_path / "a").write_bytes(data)
    for file in (names[0], str(tmp_path / "none")):
        ds = Dataset.from_tensor_slices([file, names[1]]).flat_map(mr.TFRecordDataset).enumerate()
        seen = []
        with pytest.raises(
            mr.errors.FailedPreconditionError, match="it pairs nothing behind an error"
        ):
            seen.extend(ds.ignore_errors())
        assert (
            len(
                list(
                    Dataset.from_tensor_slices([file, names[1]])
                    .flat_map(mr.TFRecordDataset)
                    .ignore_errors()
                    .enumerate()
                )
            )
            >= 3
        )


def test_who_has_no_pairs_goes_on():
    a = Dataset.from_tensor_slices([1, 0, 3, 4])
    assert list(a.map(check).filter(lambda x: x != 3).ignore_errors().map(lambda x: x)) == [1, 4]
    assert list(a.filter(lambda x: check(x) > 0).batch(2).ignore_errors().unbatch()) == [3, 4]
    assert list(Dataset.zip((a.filter(lambda x: check(x) > 0),)).ignore_errors()) == [
        (1,),
        (3,),
        (4,),
    ]


def test_what_is_left_out_fails_for_nobody():
    a = Dataset.from_tensor_slices([0, 1, 0, 3, 4, 0]).map(check)
    assert list(a.skip(3).take(2)) == [3, 4]
    assert list(a.shard(3, 1)) == [1, 4]
    assert [list(w) for w in a.skip(3).window(2, shift=3)] == [[3, 4]]
    assert [b.tolist() for b in a.skip(3).batch(2, drop_remainder=True)] == [[3, 4]]
    assert outcomes(a.take(3)) == [None, 1, None]


def test_windows_that_fail_again_and_again_are_told_without_an_end():
    never = Dataset.range(5).repeat().map(lambda x: x // (x - x))
    fifth = Dataset.range(5).repeat().map(lambda x: 100 // x)
    for ds in (
        never.window(4, drop_remainder=True),
        fifth.window(10, drop_remainder=True),
        fifth.window(10, shift=3, stride=2, drop_remainder=True),
    ):
        with iter(ds) as it:
            for _ in range(6):
                with pytest.raises(mr.errors.InvalidArgumentError):
                    next(it)
    for size, windows in ((4, 4), (10, 2), (20, 1), (21, 0)):  # of a remainder nobody is told
        assert (
            outcomes(fifth.take(20).window(size, drop_remainder=True).map(lambda w: 0)).count(None)
            == windows
        )


def test_enumerate_counts_elements_that_fail():
    a = Dataset.from_tensor_slices([1, 2, 0, 4, 5]).map(lambda x: 100 // x)
    assert list(a.enumerate().ignore_errors()) == [(0, 100), (1, 50), (3, 25), (4, 20)]
    assert list(Dataset.zip(a.enumerate(), a.enumerate(5)).ignore_errors())[2] == ((3, 25), (8, 25))


def test_the_reader_goes_on_behind_an_element_that_failed():
    a = Dataset.from_tensor_slices([0, 2, 0, 4])
    ds = Dataset.zip(a, a.map(lambda x: 100 // x), Dataset.range(2, 100))
    it = iter(ds)
    seen = []
    for _ in range(4):
        state = it.get_state()
        try:
            seen.append(tuple(map(int, next(it))))
        except mr.errors.InvalidArgumentError:
            seen.append(None)
        other = iter(ds)
        other.set_state(state)
        with contextlib.suppress(mr.errors.InvalidArgumentError):
            assert tuple(map(int, next(other))) == seen[-1]
    assert seen == [None, (2, 50, 3), None, (4, 25, 5)]
    assert next(it, None) is None


def test_a_batch_fails_as_a_whole():
    a = Dataset.from_tensor_slices([1, 0, 3, 4, 5, 6, 0]).map(check)
    assert [b.tolist() for b in a.batch(2).ignore_errors()] == [[3, 4], [5, 6]]
    assert [b.tolist() for b in a.ignore_errors().batch(2)] == [[1, 3], [4, 5], [6]]


def test_a_pass_with_an_element_that_failed_is_not_kept():
    numbers = Dataset.from_tensor_slices([1, 0, 3])
    cached = numbers.map(check).cache()
    for _ in range(2):
        assert list(Dataset.zip(numbers, cached).ignore_errors()) == [(1, 1), (3, 3)]


def test_a_cache_that_gave_all_elements_is_complete():
    calls = Dataset.range(4).shuffle(4)  # another order at each pass that reads it
    cached = calls.cache()
    it = iter(cached)
    first = [next(it) for _ in range(4)]
    it.close()  # the end was never seen
    assert [list(cached) for _ in range(6)] == [first] * 6
    other = calls.cache()
    orders = set()
    for _ in range(20):
        it = iter(other)
        orders.add(tuple(next(it) for _ in range(3)))
        it.close()
    assert len(orders) > 1  # three of four are not all


def outcomes(ds):
    """The elements of @ds, and None for each error."""
    it, seen = iter(ds), []
    while True:
        try:
            seen.append(next(it).tolist())
        except StopIteration:
            return seen
        except mr.errors.InvalidArgumentError:
            seen.append(None)


def test_errors_of_a_parallel_interleave_overtake_nothing():
    random = np.random.default_rng(7)
    for _ in range(60):
        outer = Dataset.from_tensor_slices(random.integers(0, 6, random.integers(1, 9))).map(check)
        cycle, block = int(random.integers(1, 5)), int(random.integers(1, 4))

        def several(x):
            return Dataset.range(x).map(lambda i: check(i - 2) + 10 * x)

        one = outer.interleave(several, cycle_length=cycle, block_length=block)
        many = outer.interleave(
            several, cycle_length=cycle, block_length=block, num_parallel_calls=cycle
        )
        assert outcomes(many) == outcomes(one)


@pytest.mark.parametrize(
    "pipeline",
    [
        lambda ds: Dataset.range(1).interleave(lambda _: ds, cycle_length=1),
        lambda ds: Dataset.range(1).interleave(lambda _: ds, cycle_length=1, num_parallel_calls=1),
        lambda ds: Dataset.choose_from_datasets([ds], Dataset.from_tensors(np.int64(0)).repeat(7)),
        lambda ds: ds.shuffle(1),
        lambda ds: ds.batch(1).unbatch(),
        lambda ds: ds.filter(lambda x: mr.size(x) > 0),
        lambda ds: ds.scan(np.int64(0), lambda s, x: (s, x)),
    ],
)
def test_errors_overtake_no_element_of_another_rank(pipeline):
    ranks = (
        Dataset.range(3)
        .map(lambda x: mr.fill([2], x))
        .concatenate(Dataset.range(3, 4).map(lambda x: mr.fill([1, 2], x)))
        .concatenate(Dataset.range(4, 7).map(lambda x: mr.fill([2], check(x - 5))))
    )
    want = [[0, 0], [1, 1], [2, 2], [[3, 3]], [-1, -1], None, [1, 1]]
    assert outcomes(ranks) == want
    assert outcomes(pipeline(ranks)) == want


# ---- what an error names ----


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """
    Two files of lines; the fifth of each is not a number. Their names, and where those lines begin.
    """
    monkeypatch.chdir(tmp_path)  # long paths are shortened
    names = []
    for f in range(2):
        names.append(f"{f}.txt")
        with open(names[-1], "w") as out:
            out.write("".join("none\n" if i == 4 else f"{10 * f + i}\n" for i in range(12)))
    return names, [4 * 2, 4 * 3]


def number(line):
    return mr.strings.to_number(line, mr.int64)


def past_errors(it):
    """The elements of @it; of those that fail, what the error says."""
    while True:
        try:
            yield next(it)
        except StopIteration:
            return
        except mr.errors.MillraceError as e:
            yield e.message


def messages(ds):
    """What the errors of reading @ds say."""
    return [m for m in past_errors(iter(ds)) if isinstance(m, str)]


FILES_TO_NUMBERS = {
    "map": lambda ds: ds.map(number),
    "parallel map": lambda ds: ds.map(number, num_parallel_calls=2),
    "shuffle": lambda ds: ds.shuffle(5, seed=1).map(number),
    "filter": lambda ds: ds.filter(lambda line: mr.strings.length(line) > 0).map(number),
    "a failing filter": lambda ds: ds.filter(lambda line: number(line) >= 0),
    "take_while": lambda ds: ds.take_while(lambda line: number(line) >= 0),
    "scan": lambda ds: ds.scan(np.int64(0), lambda s, line: (s + number(line), s)),
    "labels": lambda ds: Dataset.zip(Dataset.range(100), ds).map(lambda i, line: (i, number(line))),
    "prefetch": lambda ds: ds.prefetch(3).skip(1).map(number),
    "behind ignore_errors": lambda ds: ds.map(
        lambda line: (line, 100 // (mr.strings.length(line) - 1))
    )
    .ignore_errors()
    .map(lambda line, _: number(line)),
}


@pytest.mark.parametrize("name", FILES_TO_NUMBERS)
def test_an_error_names_the_record(lines, name):
    files, offsets = lines
    read = Dataset.from_tensor_slices(files).interleave(mr.TextLineDataset, cycle_length=2)
    found = [m for m in messages(FILES_TO_NUMBERS[name](read)) if "none" in m]
    assert len(found) == 2
    for file, offset in zip(files, offsets):
        assert sum(f"(file '{file}', record 4, offset {offset})" in m for m in found) == 1, found


SEVERAL_LINES = {
    "batch": lambda ds: ds.batch(3).map(numbers),
    "parallel": lambda ds: ds.batch(3).map(numbers, num_parallel_calls=2),
    "batches of batches": lambda ds: ds.batch(1).batch(3).map(numbers),
    "padded_batch": lambda ds: ds.padded_batch(3).map(numbers),
    "cache": lambda ds: ds.batch(3)
    .map(lambda b: (b, mr.fill([100], 1)))
    .cache()
    .map(lambda b, _: numbers(b)),
    "unbatch": lambda ds: ds.batch(3).unbatch().map(number),
    "prefetch": lambda ds: ds.batch(3).prefetch(2).skip(1).map(numbers),
    "shuffle of batches": lambda ds: ds.batch(3).shuffle(3, seed=1).map(numbers),
    "filter of batches": lambda ds: ds.batch(3).filter(lambda b: mr.size(b) > 0).map(numbers),
    "interleave of batches": lambda ds: Dataset.range(2).interleave(
        lambda _: ds.batch(3).map(numbers), cycle_length=2
    ),
    "batches of windows": lambda ds: ds.window(3).flat_map(lambda w: w.batch(3)).map(numbers),
    "groups": lambda ds: ds.group_by_window(
        lambda line: 0, lambda key, group: group.batch(3), 3
    ).map(numbers),
    "reduced groups": lambda ds: ds.skip(3)
    .take(3)
    .apply(
        mr.experimental.group_by_reducer(
            lambda line: 0,
            mr.experimental.Reducer(lambda key: "", lambda s, line: s + line, number),
        )
    ),
    "slices of a batch": lambda ds: ds.batch(3)
    .flat_map(lambda b: Dataset.from_tensor_slices(b))
    .map(number),
    "behind ignore_errors": lambda ds: ds.batch(3)
    .map(lambda b: (b, 100 // (mr.size(b) - 9)))
    .ignore_errors()
    .map(lambda b, _: numbers(b)),
}


def numbers(lines):
    return mr.strings.to_number(lines, mr.int64)


@pytest.mark.parametrize("name", SEVERAL_LINES)
def test_an_error_names_the_records_of_several_elements(lines, name):
    files, _ = lines
    found = [m for m in messages(SEVERAL_LINES[name](mr.TextLineDataset(files[1]))) if "none" in m]
    assert found and all(
        f"(file '{files[1]}', records 3 to 5, offset 9)" in m for m in found
    ), found


def test_records_that_do_not_follow_one_another_are_counted(lines):
    files, offsets = lines
    read = Dataset.from_tensor_slices(files).interleave(mr.TextLineDataset, cycle_length=2)
    (error,) = [m for m in messages(read.batch(4).map(numbers)) if "none" in m]
    assert f"(file '{files[0]}', record 4, offset {offsets[0]}, and 3 more)" in error


FROM_ONE_LINE = {
    "flat_map": lambda ds: ds.flat_map(lambda line: Dataset.range(2).map(lambda i: (i, line))).map(
        lambda i, line: number(line)
    ),
    "tensors": lambda ds: ds.flat_map(lambda line: Dataset.from_tensors(line)).map(number),
    "within": lambda ds: ds.flat_map(lambda line: Dataset.from_tensors(line).map(number)),
    "scan": lambda ds: ds.scan(np.int64(0), lambda s, line: (s + 1, line)).map(number),
    "cache": lambda ds: ds.map(lambda line: (line, mr.fill([100], 1)))
    .cache()
    .map(lambda line, _: number(line)),
    "choose": lambda ds: Dataset.choose_from_datasets(
        [ds, Dataset.from_tensors(b"1")], Dataset.from_tensors(np.int64(0)).repeat(20)
    ).map(number),
    "shard": lambda ds: ds.shard(2, 0).map(number),
    "unique": lambda ds: ds.unique().map(number),
    "repeat": lambda ds: ds.repeat(2).map(number),
    "windows": lambda ds: ds.window(3).flat_map(lambda w: w).map(number),
    "windows of one": lambda ds: ds.window(1).flat_map(lambda w: w).map(number),
}


@pytest.mark.parametrize("name", FROM_ONE_LINE)
def test_what_is_made_of_a_record_names_it(lines, name):
    files, offsets = lines
    found = [m for m in messages(FROM_ONE_LINE[name](mr.TextLineDataset(files[1]))) if "none" in m]
    assert found and all(
        f"(file '{files[1]}', record 4, offset {offsets[1]})" in m for m in found
    ), found


def test_an_error_of_a_window_that_was_read_names_the_record(lines):
    files, offsets = lines
    ds = mr.TextLineDataset(files[1])
    pairs = Dataset.zip(Dataset.range(100), ds).window(3)
    for windows in (ds.window(3), ds.window(3, shift=1), [lines for _, lines in pairs]):
        found = [m for w in windows for m in messages(w.map(number)) if "none" in m]
        assert found and all(
            f"(file '{files[1]}', record 4, offset {offsets[1]})" in m for m in found
        ), found


def test_an_error_names_records_of_each_format(tmp_path):
    with mr.io.TFRecordWriter(
        str(tmp_path / "t"), mr.io.TFRecordOptions(compression_type="GZIP")
    ) as w:
        for i in range(4):
            w.write(b"none" if i == 2 else b"%d" % i)
    (tmp_path / "f").write_bytes(b"head" + b"001002xxx004")
    (error,) = messages(mr.TFRecordDataset(str(tmp_path / "t"), "GZIP").map(number))
    assert (
        re.match(r"map \(step 3, e2e/test_element_errors.py:[0-9]+\), element 2 \(file '", error)
        and "/t', record 2, offset 34 (uncompressed))" in error
    )
    (error,) = messages(
        mr.FixedLengthRecordDataset(str(tmp_path / "f"), 3, header_bytes=4).map(number)
    )
    assert "/f', record 2, offset 10)" in error


NUMBERS_OF_LINES = {
    "shuffle": lambda ds: ds.shuffle(5, seed=1),
    "shuffle of all": lambda ds: ds.shuffle(1000, seed=1),
    "shuffle of a shuffle": lambda ds: ds.shuffle(3, seed=1).shuffle(4, seed=2),
    "shuffle of pairs": lambda ds: Dataset.zip(Dataset.range(100), ds)
    .shuffle(5, seed=1)
    .map(lambda i, n: n),
    "shuffle, and others": lambda ds: Dataset.range(5, 30).concatenate(ds).shuffle(20, seed=1),
    "cache": lambda ds: ds.cache(),
    "cache, again": lambda ds: ds.cache().repeat(2),
    "cache of a shuffle": lambda ds: ds.shuffle(5, seed=1).cache(),
    "shuffle of a cache": lambda ds: ds.cache().repeat(2).shuffle(5, seed=1),
}


@pytest.mark.parametrize("name", NUMBERS_OF_LINES)
def test_an_error_of_a_number_names_the_record(lines, name):
    files, offsets = lines
    read = (
        Dataset.from_tensor_slices(files)
        .interleave(mr.TextLineDataset, cycle_length=2)
        .map(lambda line: mr.cast(mr.strings.length(line), mr.int64))
    )
    found = messages(NUMBERS_OF_LINES[name](read).map(lambda n: 100 // (n - 4)))
    records = {
        f"(file '{file}', record 4, offset {offset})" for file, offset in zip(files, offsets)
    }
    assert {re.search(r"\(file [^)]*\)|$", m)[0] for m in found} == records, found


CUTS = {
    "shuffle": lambda ds: ds.shuffle(5, seed=1),
    "shuffle of lines": lambda ds: ds.map(lambda n: (n, b""))
    .shuffle(5, seed=1)
    .map(lambda n, _: n),
    "cache": lambda ds: ds.cache().repeat(2),
    "batch": lambda ds: ds.batch(2).unbatch(),
    "prefetch": lambda ds: ds.prefetch(8),
    "windows": lambda ds: ds.window(3).flat_map(lambda w: w),
}


@pytest.mark.parametrize("name", CUTS)
def test_an_error_behind_a_state_names_the_record(lines, name):
    read = mr.TextLineDataset(lines[0][1]).map(
        lambda line: mr.cast(mr.strings.length(line), mr.int64)
    )
    ds = CUTS[name](read).map(lambda n: 100 // (n - 4))
    for cut in range(4):
        with iter(ds) as it, iter(ds) as other:
            assert len(list(itertools.islice(past_errors(it), cut))) == cut
            other.set_state(it.get_state())
            found = [m for m in past_errors(other) if isinstance(m, str)]
            assert found or cut > 0
            assert all(f"(file '{lines[0][1]}', record" in m for m in found), found
            assert any("offset 12)" in m for m in found) or not found, found


def test_a_file_that_is_the_same_for_all_elements_is_not_counted(tmp_path):
    paths = [str(tmp_path / name) for name in ("words", "a", "b")]
    for path, text in zip(paths, [b"7", b"1", b"none"]):
        pathlib.Path(path).write_bytes(text)
    both = {
        "before": lambda path: [mr.io.read_file(paths[0]), mr.io.read_file(path)],
        "behind": lambda path: [mr.io.read_file(path), mr.io.read_file(paths[0])][::-1],
    }
    for where, read in both.items():
        ds = Dataset.from_tensor_slices(paths[1:]).map(read).prefetch(1)
        (error,) = [m for m in messages(ds.map(lambda words, text: number(text))) if "none" in m]
        assert re.search(r"\(file '[^']*/b'\)", error) and "more" not in error, where


ZIPPED = {
    "zip": lambda ds: ds,
    "zip of zips": lambda ds: Dataset.zip(Dataset.range(9), ds).map(lambda i, pair: pair),
    "shuffle": lambda ds: ds.shuffle(5, seed=1),
    "skip": lambda ds: ds.skip(2),
    "prefetch": lambda ds: ds.prefetch(2).filter(lambda a, b: mr.strings.length(a) > 0),
}


@pytest.mark.parametrize("name", ZIPPED)
def test_of_records_of_two_files_the_first_is_named(lines, name):
    files, offsets = lines
    pairs = ZIPPED[name](Dataset.zip(mr.TextLineDataset(files[0]), mr.TextLineDataset(files[1])))
    (error,) = messages(pairs.map(lambda a, b: number(a) + number(b)))
    assert f"(file '{files[0]}', record 4, offset {offsets[0]}, and 1 more)" in error


def test_an_element_keeps_its_number_behind_an_error():
    ds = (
        Dataset.from_tensor_slices([1, 0, 3, 4])
        .map(lambda x: (x, 100 // x), num_parallel_calls=1)
        .prefetch(1)
    )
    for calls in (None, 2):
        errors = messages(ds.map(lambda x, _: 100 // (x - 4), num_parallel_calls=calls))
        assert "element 1: " in errors[0] and "element 3: " in errors[1]
