"""
What an error of a worker names: the operator and the line of the program that it was made by, and
the record of the file that the element comes from. The same as where the pipeline runs here.
"""

import json
import re

import numpy as np
import pytest

import millrace as mr
from millrace import Dataset

FEATURES = {"a": mr.io.FixedLenFeature([], mr.int64)}
BAD = 4  # the record of each file that makes no element


def example(values):
    return mr.train.Example(
        features=mr.train.Features(
            feature={
                k: mr.train.Feature(int64_list=mr.train.Int64List(value=[v])) for k, v in values
            }
        )
    ).SerializeToString()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The names of a file of each format."""
    directory = tmp_path_factory.mktemp("f")
    names = {kind: str(directory / kind) for kind in ("lines", "csv", "fixed", "records")}
    with open(names["lines"], "w") as out:
        out.writelines("none\n" if i == BAD else f"{i}\n" for i in range(12))
    with open(names["csv"], "w") as out:
        out.writelines(f"none,{i}\n" if i == BAD else f"{i},{i}\n" for i in range(12))
    with open(names["fixed"], "w") as out:
        out.writelines("none" if i == BAD else f"{i:04}" for i in range(12))
    with mr.io.TFRecordWriter(names["records"]) as writer:
        for i in range(12):
            writer.write(example([] if i == BAD else [("a", i)]))
    return names


def number(text):
    return mr.strings.to_number(text, mr.int64)


NUMBER = number.__code__.co_firstlineno + 1


def lines(f):
    return mr.TextLineDataset(f["lines"])


def parse(records):
    return mr.io.parse_example(records, FEATURES)


PARSE = parse.__code__.co_firstlineno + 1

ONE, THREE = "record 4", "records 3 to 5"
# Each fails in `number` or in a function of its own; "map" if nothing else stands there.
PIPELINES = {
    "map": (lambda f: lines(f).map(number), "map", ONE),
    "parallel map": (lambda f: lines(f).map(number, num_parallel_calls=2), "map", ONE),
    "joined maps": (
        lambda f: lines(f).map(lambda s: s).map(number).map(lambda n: n + 1).map(lambda n: n),
        "map",
        ONE,
    ),
    "filter": (lambda f: lines(f).filter(lambda s: number(s) >= 0), "filter", ONE),
    "take_while": (lambda f: lines(f).take_while(lambda s: number(s) >= 0), "take_while", ONE),
    "scan": (lambda f: lines(f).scan(np.int64(0), lambda c, s: (c + number(s), c)), "scan", ONE),
    "flat_map": (lambda f: lines(f).flat_map(lambda s: Dataset.range(number(s))), "flat_map", ONE),
    "behind flat_map": (
        lambda f: lines(f).flat_map(lambda s: Dataset.from_tensors(s)).map(number),
        "map",
        ONE,
    ),
    "interleave": (
        lambda f: Dataset.from_tensors(f["lines"]).interleave(mr.TextLineDataset).map(number),
        "map",
        ONE,
    ),
    "within interleave": (
        lambda f: Dataset.from_tensors(f["lines"]).interleave(
            lambda name: mr.TextLineDataset(name).map(number), num_parallel_calls=2
        ),
        "map",
        ONE,
    ),
    "shuffle": (lambda f: lines(f).shuffle(4, seed=1).map(number), "map", ONE),
    "batch": (lambda f: lines(f).batch(3).map(number), "map", THREE),
    "padded_batch": (lambda f: lines(f).padded_batch(3).map(number), "map", THREE),
    "unbatch": (lambda f: lines(f).batch(3).unbatch().map(number), "map", THREE),
    "window": (lambda f: lines(f).window(3).flat_map(lambda w: w.map(number)), "map", ONE),
    "group": (
        lambda f: lines(f).group_by_window(lambda s: 0, lambda _, w: w.batch(3), 3).map(number),
        "map",
        THREE,
    ),
    "key of a group": (
        lambda f: lines(f).group_by_window(number, lambda _, w: w.batch(3), 3),
        "group_by_window",
        ONE,
    ),
    "within a group": (
        lambda f: lines(f).group_by_window(lambda s: 0, lambda _, w: w.map(number).batch(3), 3),
        "map",
        ONE,
    ),
    "key of a reducer": (
        lambda f: lines(f).apply(
            mr.experimental.group_by_reducer(
                number, mr.experimental.Reducer(lambda _: 0, lambda n, s: n + 1, lambda n: n)
            )
        ),
        "group_by_reducer",
        ONE,
    ),
    "bucket": (
        lambda f: lines(f).bucket_by_sequence_length(mr.strings.length, [9], [3, 3]).map(number),
        "map",
        THREE,
    ),
    "zip": (
        lambda f: Dataset.zip(Dataset.range(99), lines(f)).map(lambda _, s: number(s)),
        "map",
        ONE,
    ),
    "concatenate": (
        lambda f: Dataset.from_tensors("1").concatenate(lines(f)).map(number),
        "map",
        ONE,
    ),
    "choose": (
        lambda f: Dataset.choose_from_datasets([lines(f)], Dataset.range(1).repeat()).map(number),
        "map",
        ONE,
    ),
    "sample": (
        lambda f: Dataset.sample_from_datasets([lines(f), lines(f)], seed=1).map(number),
        "map",
        ONE,
    ),
    "cache": (lambda f: lines(f).cache().repeat(2).map(number), "map", ONE),
    "prefetch": (lambda f: lines(f).prefetch(2).map(number).prefetch(2), "map", ONE),
    "repeat": (lambda f: lines(f).repeat(2).map(number), "map", ONE),
    "take and skip": (lambda f: lines(f).take(9).skip(2).map(number), "map", ONE),
    "shard": (lambda f: lines(f).shard(2, 0).map(number), "map", ONE),
    "unique": (lambda f: lines(f).unique().map(number), "map", ONE),
    "fixed length": (lambda f: mr.FixedLengthRecordDataset(f["fixed"], 4).map(number), "map", ONE),
    "files that are listed": (
        lambda f: Dataset.list_files(f["lines"] + "*").interleave(mr.TextLineDataset).map(number),
        "map",
        ONE,
    ),
}


def lines_of(function):
    """The lines of this file in which @function stands."""
    return {line for _, _, line in function.__code__.co_lines() if line is not None}


def line_of(text):
    """The first line of this file with @text."""
    with open(__file__) as source:
        return next(n for n, line in enumerate(source, 1) if text in line)


def error_of(ds):
    with pytest.raises(mr.errors.MillraceError) as raised:
        for _ in ds.take(100):
            pass
    return raised.value.message


def assert_same(there, here):
    """What a worker says is what is said here, but for the middle where that is too long."""
    begin, _, end = re.sub("^worker [^ ]*: ", "", there).rpartition("...")
    assert here.startswith(begin) and here.endswith(end), there
    assert len(there) > 240 or there.endswith(here), there


def expect(message, op, pipeline, kernel, kernel_lines, records, cause):
    found = re.fullmatch(
        op
        + r" \(step [0-9]+, e2e/test_service_lines.py:([0-9]+)\), element [0-9]+ "
        + rf"\(file '[^']*', {records}, offset [0-9]+\): "
        + kernel
        + rf" \(e2e/test_service_lines.py:([0-9]+)\): {cause}",
        message,
    )
    assert found, message
    assert int(found[1]) in lines_of(pipeline), message
    assert int(found[2]) in kernel_lines, message


def test_errors_name_line_and_record(files, make_cluster):
    cluster = make_cluster()
    for pipeline, op, records in PIPELINES.values():
        ds = pipeline(files)
        here = error_of(ds)
        expect(here, op, pipeline, "to_number", {NUMBER}, records, "'none' is not an integer.*")
        there = error_of(ds.apply(cluster.distribute(mr.service.ShardingPolicy.OFF)))
        assert_same(there, here)


FORMATS = {
    "CSV": (
        lambda f: mr.experimental.CsvDataset(f["csv"], [mr.int32, mr.int32]),
        "CsvDataset",
        "decode_csv",
        ONE,
        "field 1, 'none', is not a valid int32",
    ),
    "CSV in batches": (
        lambda f: mr.experimental.make_csv_dataset(
            f["csv"], 3, ["a", "b"], [mr.int32, mr.int32], header=False, shuffle=False
        ),
        "make_csv_dataset",
        "decode_csv",
        ONE,
        "field 1, 'none', is not a valid int32",
    ),
    "examples": (
        lambda f: mr.TFRecordDataset(f["records"]).map(
            lambda r: mr.io.parse_single_example(r, FEATURES)
        ),
        "map",
        "parse_single_example",
        ONE,
        "feature 'a' is missing.*",
    ),
    "examples in batches": (
        lambda f: mr.TFRecordDataset(f["records"]).batch(3).map(parse),
        "map",
        "parse_example",
        THREE,
        "record 1 of 3: feature 'a' is missing.*",
    ),
    "examples of a rest": (
        lambda f: mr.TFRecordDataset(f["records"]).take(6).batch(5).skip(0).map(parse),
        "map",
        "parse_example",
        "records 0 to 4",
        "record 4 of 5: feature 'a' is missing.*",
    ),
}


def test_errors_of_each_format_name_line_and_record(files, make_cluster):
    cluster = make_cluster()
    for pipeline, op, kernel, records, cause in FORMATS.values():
        ds = pipeline(files)
        here = error_of(ds)
        expect(here, op, pipeline, kernel, lines_of(pipeline) | {PARSE, *LAMBDAS}, records, cause)
        there = error_of(ds.apply(cluster.distribute(mr.service.ShardingPolicy.OFF)))
        assert_same(there, here)


# The functions within the pipelines.
LAMBDAS = {
    line
    for pipeline, *_ in FORMATS.values()
    for code in pipeline.__code__.co_consts
    if hasattr(code, "co_lines")
    for _, _, line in code.co_lines()
}


def test_a_damaged_file_names_the_line_of_its_source(files, tmp_path, cluster):
    data = bytearray(open(files["records"], "rb").read())
    data[-5] ^= 1  # of the last record
    (tmp_path / "r").write_bytes(data)
    names = Dataset.from_tensors(str(tmp_path / "r"))
    for ds in (
        mr.TFRecordDataset(str(tmp_path / "r")),
        names.interleave(lambda name: mr.TFRecordDataset(name), num_parallel_calls=2),
    ):
        here = error_of(ds)
        found = re.match(
            r"TFRecordDataset \(step 1, e2e/test_service_lines.py:([0-9]+)\), element 11: "
            r"file '[^']*/r', offset [0-9]+, record 11: ",
            here,
        )
        assert found, here
        assert int(found[1]) in lines_of(test_a_damaged_file_names_the_line_of_its_source) | {
            line_of("names.interleave(lambda name")
        }
        there = error_of(ds.apply(cluster.distribute(mr.service.ShardingPolicy.OFF)))
        assert_same(there, here)


def test_batches_that_cannot_be_made_name_their_records(files, cluster):
    ones = lines(files).map(lambda s: mr.fill([mr.strings.length(s)], 1))
    for ds, op in ((ones.batch(3), "batch"), (ones.padded_batch(3, [2]), "padded_batch")):
        here = error_of(ds)
        assert re.match(
            op + r" \(step 4, e2e/test_service_lines.py:[0-9]+\), element 1 "
            r"\(file '[^']*', records 3 to 5, offset 6\): the element has the shape",
            here,
        ), here
        there = error_of(ds.apply(cluster.distribute(mr.service.ShardingPolicy.OFF)))
        assert_same(there, here)


DECODED = {
    "shuffle": (lambda ds: ds.shuffle(3, seed=1).map(mr.io.decode_jpeg), "2.jpg'"),
    "cache": (lambda ds: ds.cache().map(mr.io.decode_jpeg), "2.jpg'"),
    "filter": (
        lambda ds: ds.filter(lambda b: mr.strings.length(b) > 3).map(mr.io.decode_jpeg),
        "2.jpg'",
    ),
    "a dataset": (
        lambda ds: ds.flat_map(lambda b: Dataset.from_tensors(b)).map(mr.io.decode_jpeg),
        "2.jpg'",
    ),
    "batch": (
        lambda ds: ds.batch(3).map(
            lambda b: mr.map_fn(lambda x: mr.io.decode_jpeg(x, channels=1), b)
        ),
        "0.jpg', and 2 more",
    ),
}


@pytest.mark.parametrize("between", DECODED)
def test_a_file_that_another_function_has_read_is_named(between, tmp_path, cluster):
    """Whatever stands between the function that reads it and the one that uses its bytes."""
    for i in range(3):
        data = mr.io.encode_jpeg(np.zeros([2, 2, 1], np.uint8))
        (tmp_path / f"{i}.jpg").write_bytes(b"none" if i == 2 else data)
    pipeline, name = DECODED[between]
    paths = Dataset.from_tensor_slices([str(tmp_path / f"{i}.jpg") for i in range(3)])
    ds = pipeline(paths.map(mr.io.read_file))
    for there in (ds, ds.apply(cluster.distribute(mr.service.ShardingPolicy.OFF))):
        assert re.search(rf"\(file '[^']*/{name}\): ", error_of(there))


def test_two_files_for_an_element_are_two(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(b"none")
    ds = Dataset.from_tensors((str(tmp_path / "a"), str(tmp_path / "b")))
    both = ds.map(lambda a, b: (mr.io.read_file(a), mr.io.read_file(b)))
    decoded = both.shuffle(2).map(lambda a, b: mr.io.decode_png(b))
    assert "/a', and 1 more): decode_png (" in error_of(decoded)


def test_a_file_that_all_elements_use_is_not_theirs(files, tmp_path):
    (tmp_path / "words").write_bytes(b"none")
    words = str(tmp_path / "words")
    ds = lines(files).map(lambda s: mr.where(mr.io.read_file(words) == s, s, s)).cache()
    assert re.search(r"\(file '[^']*/lines', record 4, offset 8\)", error_of(ds.map(number)))


def test_what_workers_leave_out_is_in_their_log(files, make_cluster, capfd):
    cluster = make_cluster()
    ds = lines(files).map(number).repeat(2).ignore_errors(log_warning=True)
    it = iter(ds.apply(cluster.distribute(mr.service.ShardingPolicy.OFF)))
    assert len(list(it)) == 22
    assert it.ignored_errors == 2
    said = [json.loads(line) for line in capfd.readouterr().err.splitlines() if "left out" in line]
    assert [one["so_far"] for one in said] == [1, 2]
    for one in said:
        expect(
            one["error"],
            "map",
            test_what_workers_leave_out_is_in_their_log,
            "to_number",
            {NUMBER},
            ONE,
            "'none' is not an integer.*",
        )


def test_what_workers_leave_out_is_counted(files, make_cluster):
    """Those of all tasks, and those of this process; also where the last elements are bad."""
    cluster = make_cluster(workers=2)
    paths = Dataset.from_tensor_slices([files["lines"]] * 5)
    ds = paths.flat_map(mr.TextLineDataset).map(number).filter(lambda n: n < 0).ignore_errors()
    there = ds.apply(cluster.distribute("distributed_epoch"))
    it = iter(there.concatenate(lines(files).map(number).ignore_errors()))
    assert len(list(it)) == 11
    assert it.ignored_errors == 6
    twice = lines(files).map(number).ignore_errors()
    it = iter(twice.apply(cluster.distribute("parallel_epochs", job_name="twice")))
    assert len(list(it)) == 22
    assert it.ignored_errors == 2


def test_a_dataset_keeps_the_lines_that_it_was_registered_with(files, cluster):
    one = lines(files).map(number)
    other = lines(files).map(number)
    distribute = cluster.distribute(mr.service.ShardingPolicy.OFF)
    assert error_of(one) != error_of(other)
    assert mr.service.register_dataset(cluster.service, one) == mr.service.register_dataset(
        cluster.service, other
    )
    first, second = error_of(one.apply(distribute)), error_of(other.apply(distribute))
    assert first == second
    assert_same(first, error_of(one))


def test_behind_distribute_the_line_is_that_of_this_process(files, cluster):
    read = lines(files).apply(cluster.distribute(mr.service.ShardingPolicy.OFF))
    message = error_of(read.map(number))
    line = lines_of(test_behind_distribute_the_line_is_that_of_this_process)
    found = re.match(
        r"map \(step [0-9]+, e2e/test_service_lines.py:([0-9]+)\), element 4 "
        r"\(file '[^']*', record 4, offset 8\): to_number",
        message,
    )
    assert found and int(found[1]) in line, message
