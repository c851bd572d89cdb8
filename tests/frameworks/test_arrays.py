"""Arrays that frameworks write to, and keep."""

import gc

import numpy as np
import pytest

import millrace as mr

torch = pytest.importorskip("torch")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

X = np.arange(12, dtype=np.float32).reshape(3, 4)

PIPELINES = {
    "slices": lambda: mr.Dataset.from_tensor_slices(X),
    "tensors": lambda: mr.Dataset.from_tensors(X),
    "repeated": lambda: mr.Dataset.from_tensors(X).repeat(3),
    "batch": lambda: mr.Dataset.from_tensor_slices(X).batch(3),
    "cache": lambda: mr.Dataset.from_tensor_slices(X).cache(),
    "repeated cache": lambda: mr.Dataset.from_tensor_slices(X).cache().repeat(2),
    "shuffle": lambda: mr.Dataset.from_tensor_slices(X).shuffle(
        3, seed=1, reshuffle_each_iteration=False
    ),
    "one tensor twice": lambda: mr.Dataset.from_tensor_slices(X).map(lambda x: (x, x)),
    "constant": lambda: mr.Dataset.range(3).map(lambda i: mr.constant(X)),
    "ragged": lambda: mr.Dataset.range(1, 4).map(mr.range).ragged_batch(3),
}


def write_as_numpy(array):
    array *= 10


def write_as_torch(array):
    torch.from_numpy(array).mul_(10)


def write_by_dlpack(array):
    torch.from_dlpack(array).mul_(10)


def write_by_buffer(array):
    np.frombuffer(memoryview(array).cast("B"), dtype=array.dtype)[...] = 0


WRITES = [write_as_numpy, write_as_torch, write_by_dlpack, write_by_buffer]


def arrays_of(element):
    parts = element if isinstance(element, tuple) else (element,)
    for part in parts:
        yield from (part.values, part.row_splits) if hasattr(part, "row_splits") else (part,)


def values_of(ds):
    return [[np.copy(a) for a in arrays_of(element)] for element in ds]


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("name", PIPELINES)
def test_a_write_changes_nothing_else(name, write):
    ds = PIPELINES[name]()
    before = values_of(ds)
    for element in ds:
        for array in arrays_of(element):
            assert isinstance(array, np.ndarray)
            others = [a for a in arrays_of(element) if a is not array]
            kept = [np.copy(a) for a in others]
            write(array)
            for a, b in zip(others, kept):
                np.testing.assert_array_equal(a, b)
    after = values_of(ds)
    assert len(before) == len(after)
    for was, now in zip(before, after):
        for a, b in zip(was, now):
            np.testing.assert_array_equal(a, b)


KEEPS = [torch.from_numpy, torch.from_dlpack, jnp.asarray, jax.device_put, jnp.from_dlpack]


@pytest.mark.parametrize("keep", KEEPS)
def test_what_a_framework_keeps_stays(keep):
    kept = []
    for x in mr.Dataset.range(4000).batch(8).map(lambda x: mr.cast(x, mr.float32) * 2):
        kept.append(keep(x))
    gc.collect()
    # memory that was let go too early would be used again here
    for _ in mr.Dataset.range(4000).batch(8).map(lambda x: mr.cast(x, mr.float32) * -1):
        pass
    whole = np.concatenate([np.asarray(k) for k in kept])
    np.testing.assert_array_equal(whole, np.arange(4000, dtype=np.float32) * 2)


@pytest.mark.parametrize("write", WRITES)
def test_a_shared_production_is_not_written_to(write):
    x = np.arange(4096, dtype=np.float32)
    with mr.service.DispatchServer() as dispatcher:
        with mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address)):
            for trainer in range(2):
                ds = (
                    mr.Dataset.from_tensors(x)
                    .repeat(20)
                    .apply(
                        mr.service.distribute(
                            "parallel_epochs",
                            dispatcher.target,
                            job_name="shared",
                            cross_trainer_cache=mr.service.CrossTrainerCache(str(trainer)),
                        )
                    )
                )
                for element in ds:
                    np.testing.assert_array_equal(element, x)
                    write(element)


class FromService(torch.utils.data.IterableDataset):
    def __init__(self, ds):
        super().__init__()
        self.ds = ds

    def __iter__(self):
        return (torch.from_numpy(np.atleast_1d(x)) for x in self.ds)


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_a_data_loader_reads_a_job(how):
    with mr.service.DispatchServer() as dispatcher:
        with mr.service.WorkerServer(mr.service.WorkerConfig(dispatcher.address)):
            ds = mr.Dataset.range(100).apply(
                mr.service.distribute("distributed_epoch", dispatcher.target, job_name=how)
            )
            loader = torch.utils.data.DataLoader(
                FromService(ds), batch_size=None, num_workers=2, multiprocessing_context=how
            )
            assert sorted(int(x[0]) for x in loader) == list(range(100))


def test_a_data_loader_takes_what_iterates():
    ds = mr.Dataset.from_tensor_slices(X).batch(2)

    class Batches(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(ds)

    loader = torch.utils.data.DataLoader(Batches(), batch_size=None)
    assert [x.shape for x in loader] == [(2, 4), (1, 4)]
    with pytest.raises(TypeError, match="IterableDataset"):
        list(torch.utils.data.DataLoader(ds, batch_size=None))


def test_functions_of_frameworks_in_a_pipeline():
    ds = mr.Dataset.from_tensor_slices(X)
    with pytest.raises(TypeError, match="torch.sqrt of <mr.Tensor .*Use mr.sqrt"):
        ds.map(lambda x: torch.sqrt(x))
    with pytest.raises(TypeError, match="torch.cat .*use mr.concat"):
        ds.map(lambda x: torch.cat([x, x]))
    with pytest.raises(TypeError) as caught:
        ds.map(lambda x: jnp.sqrt(x))
    assert any("those of mr do" in note for note in caught.value.__notes__)
    for ones in (torch.ones(4), jnp.ones(4)):  # constants, on either side
        for add in (lambda x: x + ones, lambda x: ones + x):
            assert next(iter(ds.map(add))).tolist() == [1, 2, 3, 4]
    with pytest.raises(TypeError, match="use mr.float32$"):
        ds.map(lambda x: mr.cast(x, torch.float32))
