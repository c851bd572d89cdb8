"""Large definitions on workers: arrays in memory, long lists of names."""

import numpy as np

import millrace as mr

Dataset = mr.Dataset


def test_a_large_array_in_memory_is_read_from_workers(cluster):
    rows = np.random.default_rng(1).integers(0, 2**63, (40, 131072), np.int64)  # 40 MiB that do not compress
    total = 0
    for i, row in enumerate(Dataset.from_tensor_slices(rows).apply(cluster.distribute())):
        assert np.array_equal(row, rows[i])
        total += 1
    assert total == 40


def test_a_million_file_names_are_read_from_workers(cluster):
    names = [b"/data/imagenet/train/n%08d/image-%012d.jpeg" % (i % 1000, i) for i in range(1000000)]
    assert sum(map(len, names)) > 32 << 20
    ds = Dataset.from_tensor_slices(names).batch(100000).apply(cluster.distribute())
    assert [name for batch in ds for name in batch.tolist()] == names
