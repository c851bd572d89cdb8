"""
Whose memory an element's arrays are: the user's. Writing through any view of it changes nothing
that is read later.
"""

import copy
import ctypes

import numpy as np
import pytest

import millrace as mr
from millrace import Dataset

BIG = np.arange(5000, dtype=np.float32)
TABLE = np.arange(60, dtype=np.int32).reshape(20, 3)


def overwrite(array):
    """As a consumer does that goes by the address and asks for no leave (torch.from_numpy)."""
    address, _ = array.__array_interface__["data"]
    ctypes.memset(address, 0x5A, array.nbytes)


def arrays_of(element):
    if isinstance(element, dict):
        element = tuple(element.values())
    return [
        a
        for part in (element if isinstance(element, tuple) else (element,))
        for a in (arrays_of(part) if isinstance(part, (tuple, dict)) else [part])
        if isinstance(a, np.ndarray)
    ]


def ragged(x):
    return mr.fill([x % 4], x)


PIPELINES = {
    "a constant": Dataset.from_tensors(TABLE).repeat(3),
    "a large constant": Dataset.from_tensors(BIG).repeat(3),
    "slices of a constant": Dataset.from_tensor_slices(TABLE).repeat(2),
    "batches of slices": Dataset.from_tensor_slices(TABLE).batch(4).repeat(2),
    "cache": Dataset.from_tensor_slices(TABLE).map(lambda x: x + 1).cache().repeat(2),
    "cache of one": Dataset.from_tensors(BIG).map(lambda x: x + 1).cache().repeat(3),
    "cache of batches": Dataset.range(64).batch(8).cache().repeat(2),
    "rows of many lengths": Dataset.range(40).map(ragged).cache().repeat(2),
    "twice the same": Dataset.range(8)
    .map(lambda x: (mr.fill([7], x), x))
    .map(lambda a, x: (a, x, a)),
    "a part of the same": Dataset.range(8)
    .map(lambda x: mr.fill([2, 7], x))
    .map(lambda a: {"all": a, "row": a[0]}),
    "a captured array": Dataset.range(8).map(lambda x: (x, TABLE)),
    "a captured value": Dataset.from_tensors(TABLE).flat_map(
        lambda t: Dataset.range(4).map(lambda x: (t, x))
    ),
    "elements of an element": Dataset.from_tensor_slices(TABLE).interleave(
        lambda t: Dataset.from_tensors(t).repeat(3)
    ),
    "state of a scan": Dataset.range(8).scan(np.zeros(5, np.int64), lambda s, x: (s + x, s + x)),
    "states of a reducer": Dataset.range(8).apply(
        mr.experimental.group_by_reducer(
            lambda x: x % 3,
            mr.experimental.Reducer(
                lambda key: np.zeros(5, np.int64), lambda s, x: s + x // 4, lambda s: (s, s)
            ),
        )
    ),
    "shuffle": Dataset.from_tensor_slices(TABLE)
    .shuffle(7, seed=1, reshuffle_each_iteration=False)
    .repeat(2),
    "prefetch": Dataset.from_tensor_slices(TABLE).prefetch(4).repeat(2),
    "parallel map": Dataset.from_tensor_slices(TABLE)
    .map(lambda x: x, num_parallel_calls=2)
    .repeat(2),
    "zip with itself": Dataset.zip(
        Dataset.from_tensor_slices(TABLE), Dataset.from_tensor_slices(TABLE)
    ),
    "windows": Dataset.from_tensor_slices(TABLE).window(3, shift=1).flat_map(lambda w: w.batch(3)),
    "filter": Dataset.from_tensor_slices(TABLE).filter(lambda x: x[0] % 2 == 0).repeat(2),
    "unbatch": Dataset.from_tensors(TABLE).repeat(2).unbatch(),
    "padding": Dataset.range(12).map(ragged).padded_batch(4).cache().repeat(2),
    "bool": Dataset.from_tensors(np.array([True, False])).repeat(3),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_writing_to_an_element_changes_no_other(name):
    ds = PIPELINES[name]
    want = [copy.deepcopy(element) for element in ds]
    for _ in range(2):
        got = 0
        for element, expected in zip(ds, want, strict=True):
            for k, array in enumerate(arrays_of(element)):
                assert array.flags.writeable
                np.testing.assert_array_equal(array, arrays_of(expected)[k])
                overwrite(array)
                got += 1
        assert got >= 3


def test_components_of_one_element_share_no_memory():
    for element in (
        Dataset.range(4)
        .map(lambda x: mr.fill([6], x))
        .map(lambda a: (a, a, mr.reshape(a, [2, 3]), a[:3]))
    ):
        for i, a in enumerate(element):
            assert not any(np.shares_memory(a, b) for b in element[:i])


def test_what_was_read_stays_when_the_dataset_goes_on():
    kept = [a for a in Dataset.from_tensor_slices(TABLE).cache().repeat(2)]
    for array in kept[:20]:
        overwrite(array)
    assert np.array_equal(np.stack(kept[20:]), TABLE)


def test_a_state_is_not_written_through_the_elements_that_it_gives_back():
    ds = Dataset.from_tensor_slices(TABLE)
    it = iter(ds)
    for _ in range(4):
        next(it)  # the block that is being returned is in the state
    state = it.get_state()
    for _ in range(2):
        it = iter(ds)
        it.set_state(state)
        rest = list(it)
        assert np.array_equal(np.stack(rest), TABLE[4:])
        for array in rest:
            assert array.flags.writeable
            overwrite(array)


def test_what_nobody_else_holds_is_not_copied():
    for array in Dataset.range(2000).map(lambda x: mr.fill([64], x)).batch(4):
        assert array.base is not None and array.flags.writeable
        root = array
        while isinstance(root, np.ndarray):
            owner, root = root, root.base
        assert not owner.flags.owndata  # the library's


def test_from_dlpack():
    for ds in (
        Dataset.from_tensors(BIG).repeat(2),
        Dataset.range(100).batch(10),
        Dataset.range(9).map(ragged),
    ):
        for x, y in zip(ds, ds):
            assert np.array_equal(np.from_dlpack(x), y)


def test_torch_writes_to_its_own():
    torch = pytest.importorskip("torch", reason="SKIPPED ALOUD: torch is not installed")
    for wrap in (torch.from_numpy, torch.from_dlpack):
        ds = Dataset.from_tensor_slices(TABLE).cache()
        for _ in range(3):
            assert np.array_equal(np.stack([x.copy() for x in ds]), TABLE)
            for x in ds:
                wrap(x).mul_(10)


def test_jax_reads_what_it_was_given():
    jnp = pytest.importorskip("jax.numpy", reason="SKIPPED ALOUD: jax is not installed")
    ds = Dataset.from_tensor_slices(TABLE).cache()
    for take in (jnp.asarray, jnp.from_dlpack):
        kept = [take(x) for x in ds]
        for x in ds:
            overwrite(x)
        assert np.array_equal(np.stack(kept), TABLE)
