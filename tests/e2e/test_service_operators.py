"""
Operators beyond the basic ones on workers: buckets of text, windows on either side of distribute.
"""

import re

import numpy as np
import pytest

import millrace as mr

Dataset = mr.Dataset


def test_lines_become_buckets_of_ids_on_two_workers(make_cluster, tmp_path):
    cluster = make_cluster(workers=2)
    random = np.random.default_rng(5)
    vocabulary = [f"w{i}" for i in range(50)]
    texts, files = [], []
    for f in range(6):
        lines = [" ".join(random.choice(vocabulary, random.integers(1, 12))) for _ in range(40)]
        files.append(str(tmp_path / f"{f}.txt"))
        with open(files[-1], "w") as out:
            out.write("".join(line + "\r\n" for line in lines))
        texts += lines
    table = mr.lookup.StaticVocabularyTable(
        mr.lookup.KeyValueTensorInitializer(vocabulary, np.arange(50, dtype=np.int64)), 1
    )
    ds = (
        mr.TextLineDataset(Dataset.from_tensor_slices(files))
        .map(lambda line: table.lookup(mr.strings.split(line)) + 1)
        .bucket_by_sequence_length(mr.size, [4, 8], [3, 3, 3])
        .apply(cluster.distribute("distributed_epoch"))
    )
    got = []
    for batch in ds:
        lengths = (batch != 0).sum(axis=1)
        assert batch.shape[0] <= 3 and batch.shape[1] == lengths.max()
        assert len({int(n >= 4) + int(n >= 8) for n in lengths}) == 1  # one bucket in each batch
        got += [" ".join(vocabulary[v - 1] for v in row if v) for row in batch]
    assert sorted(got) == sorted(texts)


def test_random_numbers_on_workers(make_cluster):
    cluster = make_cluster(workers=2)
    seeded = Dataset.range(40).map(lambda x: (x, mr.random.uniform([2], seed=5)))
    there = [
        (int(x), u.tolist())
        for x, u in seeded.apply(cluster.distribute(mr.service.ShardingPolicy.OFF))
    ]
    here = [(int(x), u.tolist()) for x, u in seeded]
    assert sorted(there) == sorted(here + here)

    even = Dataset.range(200).filter(lambda x: x % 2 == 0)
    drawn = even.map(lambda x: (x, mr.random.uniform([], seed=5)))
    both = list(drawn.apply(cluster.distribute("distributed_epoch")))
    assert sorted(int(x) for x, _ in both) == list(range(0, 200, 2))
    assert len({float(u) for _, u in both}) == 100


def some_of(n):
    return Dataset.range(n).shuffle(9, reshuffle_each_iteration=False).take(3)


def several_of_each(n, calls=None, buffer=1):
    """(i, k, a number drawn for it): of every other i several k, some of them in a drawn order."""
    in_order = lambda i: Dataset.range(i % 4).map(lambda k: (i, k))
    drawn_order = lambda i, k: some_of(k * 5).map(lambda m: (i, m))
    ds = Dataset.range(n).filter(lambda i: i % 2 == 1).flat_map(in_order)
    ds = ds.interleave(drawn_order, cycle_length=3, num_parallel_calls=calls)
    ds = ds.batch(1).unbatch().shuffle(buffer).prefetch(2)
    return ds.map(
        lambda i, k: (i, k, mr.random.uniform([], seed=3), mr.random.normal([2], seed=4)),
        num_parallel_calls=calls,
    )


def elements(ds):
    return sorted((int(i), int(k), float(u), *map(float, v)) for i, k, u, v in ds)


def test_numbers_are_the_element_s_whichever_worker_makes_it(make_cluster):
    one = make_cluster()
    want = elements(several_of_each(400).apply(one.distribute("distributed_epoch")))
    assert len({u for _, _, u, *_ in want}) == len(want) == 600
    assert elements(several_of_each(400, 4, 50).apply(one.distribute("distributed_epoch"))) == want
    three = make_cluster(workers=3)
    for calls, buffer in ((None, 1), (3, 40)):
        ds = several_of_each(400, calls, buffer).apply(three.distribute("distributed_epoch"))
        assert elements(ds) == want
        again = elements(ds)  # the next epoch has others
        assert [x[:2] for x in again] == [x[:2] for x in want]
        assert not {u for _, _, u, *_ in again} & {u for _, _, u, *_ in want}
    twice = several_of_each(400).repeat(2)
    both = elements(twice.apply(three.distribute("distributed_epoch")))
    assert both == elements(twice.apply(one.distribute("distributed_epoch")))
    assert len({u for _, _, u, *_ in both}) == 2 * len(want)


def test_what_is_done_again_has_the_numbers_that_it_had(make_cluster):
    one = make_cluster()
    n = 4000
    want = elements(several_of_each(n).apply(one.distribute("distributed_epoch")))
    three = make_cluster(workers=3, worker_timeout_ms=3000, client_timeout_ms=3000)
    how = three.distribute("distributed_epoch", guarantee="at_least_once")
    got = []
    with pytest.warns(mr.errors.DataLossWarning, match="handed out again"):
        for element in several_of_each(n, 2, 30).apply(how):
            got.append(element)
            if len(got) == 100:
                three.workers[1].kill()
    assert len(got) >= len(want)
    assert sorted(set(elements(got))) == want


def test_windows_stay_on_their_side(cluster):
    windows = Dataset.range(20).window(4, 2, drop_remainder=True)
    with pytest.raises(mr.errors.InvalidArgumentError, match="is a dataset"):
        mr.service.register_dataset(cluster.service, windows)
    there = windows.flat_map(lambda w: w.batch(4)).apply(cluster.distribute())
    want = [list(range(k, k + 4)) for k in range(0, 17, 2)]
    assert [x.tolist() for x in there] == want
    here = (
        Dataset.range(20)
        .apply(cluster.distribute())
        .window(4, 2, drop_remainder=True)
        .flat_map(lambda w: w.batch(4))
    )
    assert [x.tolist() for x in here] == want


def test_errors_are_left_out_on_workers_and_raised_where_they_are_not(cluster):
    ds = Dataset.range(10).map(lambda x: 10 // (5 - x))
    want = [10 // (5 - x) for x in range(10) if x != 5]
    assert list(ds.ignore_errors().apply(cluster.distribute())) == want
    got = []
    with pytest.raises(mr.errors.InvalidArgumentError, match="zero"):
        for x in ds.apply(cluster.distribute()).ignore_errors():
            got.append(int(x))
    assert got == want[:5]


def test_lines_become_groups_of_equal_batches(cluster, tmp_path):
    """
    What synchronous readers of text need: each group of m batches is one bucket, padded to one
    width.
    """
    readers, size = 3, 2
    random = np.random.default_rng(7)
    vocabulary = [f"w{i}" for i in range(30)]
    (tmp_path / "vocabulary").write_text("\n".join(vocabulary))
    for f in range(3):
        lines = [" ".join(random.choice(vocabulary, random.integers(0, 25))) for _ in range(60)]
        (tmp_path / f"{f}.txt").write_text("\n".join(lines))
    words = mr.lookup.TextFileInitializer(
        str(tmp_path / "vocabulary"),
        mr.string,
        mr.lookup.TextFileIndex.WHOLE_LINE,
        mr.int64,
        mr.lookup.TextFileIndex.LINE_NUMBER,
    )
    table = mr.lookup.StaticVocabularyTable(words, 1)

    def bucket(ids):
        return mr.cast(mr.size(ids) // 8, mr.int64)

    ds = (
        mr.TextLineDataset(Dataset.list_files(str(tmp_path / "*.txt"), shuffle=False))
        .map(mr.strings.split)
        .filter(lambda words: mr.size(words) > 0)
        .map(lambda words: table.lookup(words) + 1)
        .shuffle(50, seed=2, reshuffle_each_iteration=False)
        .group_by_window(
            bucket,
            lambda key, group: group.padded_batch(readers * size, drop_remainder=True),
            readers * size,
        )
        .flat_map(lambda batch: Dataset.from_tensor_slices(batch).batch(size))
    )
    want = [x.tolist() for x in ds]
    assert len(want) > 30 and len(want) % readers == 0
    for k in range(0, len(want), readers):
        rows = [row for x in want[k : k + readers] for row in x]
        lengths = [np.count_nonzero(row) for row in rows]
        assert {len(row) for row in rows} == {max(lengths)} and len({n // 8 for n in lengths}) == 1
    assert [x.tolist() for x in ds.apply(cluster.distribute())] == want
    for cut in (1, 7, 8, 20):
        with iter(ds) as it, iter(ds) as other:
            for _ in range(cut):
                next(it)
            other.set_state(it.get_state())
            assert [x.tolist() for x in other] == want[cut:]


def test_an_order_without_a_seed_is_one_on_workers_and_here(make_cluster):
    cluster = make_cluster(workers=2)
    ds = Dataset.range(100).shuffle(100, reshuffle_each_iteration=False)
    held_out = set(ds.take(20))
    train = list(ds.skip(20).apply(cluster.distribute()))  # each worker's copy
    assert (
        not held_out & set(train) and held_out | set(train) == set(range(100)) and len(train) == 160
    )


def test_an_error_of_a_worker_names_the_record(make_cluster, tmp_path):
    """
    Of a part of the elements a number would say nothing; of a whole copy it is that of the element.
    """
    cluster = make_cluster(workers=2)
    files = []
    for f in range(4):
        files.append(str(tmp_path / f"{f}.txt"))
        (tmp_path / f"{f}.txt").write_text(
            "".join(f"{i}\n" if (f, i) != (2, 5) else "none\n" for i in range(8))
        )
    ds = mr.TextLineDataset(files).map(lambda line: mr.strings.to_number(line, mr.int64))
    for mode, number in (("distributed_epoch", ""), ("parallel_epochs", ", element 21")):
        with pytest.raises(mr.errors.InvalidArgumentError) as e:
            list(ds.apply(cluster.distribute(mode)))
        assert re.search(
            rf"map \(step 3, (e2e/)?test_service_operators.py:[0-9]+\){number} "
            r"\(file '.*/2.txt', record 5, offset 10\): ",
            str(e.value),
        )
    lengths = mr.TextLineDataset(files).map(lambda line: mr.cast(mr.strings.length(line), mr.int64))
    for ds in (
        lengths,
        lengths.shuffle(7),
        lengths.cache(),
        lengths.batch(1).unbatch(),
    ):  # what fails here, not there
        with pytest.raises(mr.errors.InvalidArgumentError) as e:
            list(
                ds.apply(cluster.distribute("distributed_epoch"))
                .shuffle(5)
                .map(lambda n: 100 // (n - 4))
            )
        assert re.search(r"\(file '.*/2.txt', record 5, offset 10\): ", str(e.value))
    with pytest.raises(mr.errors.InvalidArgumentError) as e:
        list(
            Dataset.range(20)
            .map(lambda x: 100 // (x - 15))
            .apply(cluster.distribute("distributed_epoch"))
        )
    at = r"(e2e/)?test_service_operators.py:[0-9]+\)"
    assert re.search(rf"map \(step 2, {at}: // \({at}", str(e.value))
