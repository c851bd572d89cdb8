"""Methods of datasets one by one, with their arguments; pipelines.py has them in chains."""

from __future__ import annotations

import random

from calls import Call, cover

_SOURCES = (
    "D.range(7)",
    "D.range(0)",
    "D.range(5).map(lambda x: (x, {'a': m.cast(x, m.float32)}))",
    "D.from_tensor_slices([[1, 2], [3, 4], [5, 6]])",
    "D.from_tensor_slices(['b', 'a', 'b', ''])",
    "D.range(6).batch(4)",
    "D.range(4).map(lambda x: m.range(x))",
    "D.range(9).map(lambda x: x % 4)",
)


def method(r: random.Random, name: str, rests: tuple[str, ...]) -> Call:
    return Call(f"{r.choice(_SOURCES)}.{name.split('.')[1]}({r.choice(rests)})")


def source(r: random.Random, name: str) -> Call:
    tensors = r.choice(
        (
            "[1, 2, 3]",
            "np.zeros((3, 2), np.float32)",
            "(np.array([1, 2], np.int8), ['a', 'b'])",
            "{'a': [1.5, 2.5], 'b': ([True, False],)}",
            "([1, 2], [3])",
            "5",
            "[]",
            "[[1], [2, 3]]",
            "m.ragged.constant([[1], [], [2, 3]])",
            "m.sparse.from_dense([[0, 1], [2, 0]])",
            "'text'",
            "None",
        )
    )
    return Call(f"m.{name}({tensors})")


def ranged(r: random.Random, name: str) -> Call:
    numbers = [str(r.randrange(-5, 12)) for _ in range(r.choice((1, 2, 3, 3, 0)))]
    kind = [f"output_type=m.{r.choice(('int32', 'float32', 'int8', 'string'))}"] * (
        r.random() < 0.3
    )
    return Call(f"m.{name}({', '.join(numbers + kind)})")


def concatenated(r: random.Random, name: str) -> Call:
    return Call(f"{r.choice(_SOURCES)}.concatenate({r.choice(_SOURCES)})")


def choice(r: random.Random, name: str) -> Call:
    choices = [r.choice((0, 1, 0, 1, 2) if r.random() < 0.2 else (0, 1)) for _ in range(8)]
    stop = r.choice(("", ", stop_on_empty_dataset=False", ", stop_on_empty_dataset=True"))
    parts = f"[D.range({r.randrange(5)}), D.range(10, 13)]"
    picks = f"D.from_tensor_slices(np.array({choices}, np.int64))"
    return Call(f"m.{name}({parts}, {picks}{stop})")


def buckets(r: random.Random, name: str) -> Call:
    rest = r.choice(
        (
            "",
            ", pad_to_bucket_boundary=True",
            ", no_padding=True",
            ", drop_remainder=True",
            ", padding_values=np.int64(-1)",
        )
    )
    sizes = [r.randrange(1, 4) for _ in range(3)]
    arguments = f"lambda x: m.shape(x)[0], [2, 4], {sizes}{rest}"
    ds = f"D.range({r.randrange(12)}).map(lambda x: m.range(x % 6))"
    if name.startswith("experimental"):
        return Call(f"{ds}.apply(m.{name}({arguments}))")
    return Call(f"{ds}.bucket_by_sequence_length({arguments})")


def applied(r: random.Random, name: str, rests: tuple[str, ...]) -> Call:
    return Call(f"{r.choice(_SOURCES)}.apply(m.{name}({r.choice(rests)}))")


def reducer(r: random.Random, name: str) -> Call:
    functions = r.choice(
        (
            "lambda k: k, lambda s, x: s + x, lambda s: s * 2",
            "lambda k: (k, k * 0), lambda s, x: (x, s[1] + 1), lambda a, b: {'a': a, 'b': b}",
            "lambda k: m.zeros([0], m.int64), lambda s, x: m.concat([s, [x]], 0), lambda s: s",
            "lambda k: k, lambda s, x: m.cast(s, m.int32), lambda s: s",
            "lambda k: k, lambda s: s, lambda s: s",
        )
    )
    key = f"lambda x: x % {r.randrange(1, 6)} - 2"
    group = f"m.experimental.group_by_reducer({key}, m.{name}({functions}))"
    return Call(f"D.range({r.randrange(20)}).apply({group})")


def single(r: random.Random, name: str) -> Call:
    ds = r.choice(("D.range(1)", "D.range(2)", "D.range(0)", "D.from_tensors((1, {'a': b'x'}))"))
    if name.startswith("experimental"):
        return Call(f"m.{name}({ds})")
    return Call(f"{ds}.get_single_element()")


def attribute(r: random.Random, name: str) -> Call:
    what = {
        "Dataset.element_spec": "element_spec",
        "Dataset.options": "options().deterministic",
        "Dataset.as_numpy_iterator": "as_numpy_iterator().__next__()",
    }[name]
    return Call(f"{r.choice(_SOURCES)}.{what}")


def structure(r: random.Random, name: str) -> Call:
    return Call(f"m.{name}({r.choice(_SOURCES)})")


cover("Dataset.apply", method, ("lambda ds: ds.take(2)", "lambda ds: ds.batch(2)", "None"))
cover("Dataset.prefetch", method, ("1", "m.AUTOTUNE", "0", "100", "-2"))
cover("Dataset.repeat", method, ("", "2", "0", "-1", "None"))
cover("Dataset.unique", method, ("",))
cover("Dataset.take Dataset.skip", method, ("3", "0", "-1", "100"))
cover("Dataset.batch", method, ("2", "3, drop_remainder=True", "100", "0"))
cover("Dataset.padded_batch", method, ("2", "3, drop_remainder=True"))
cover("Dataset.ragged_batch", method, ("2", "3, drop_remainder=True"))
cover("Dataset.sparse_batch", method, ("2, [4]", "3, [9]", "2, [2]", "2, [None]", "2, []"))
cover("Dataset.unbatch", method, ("",))
cover("Dataset.enumerate", method, ("", "start=5"))
cover("Dataset.shard", method, ("2, 0", "3, 2", "2, 2"))
cover("Dataset.window", method, ("2", "3, 1", "2, 1, 2, True", "3, drop_remainder=True"))
cover("Dataset.from_tensor_slices Dataset.from_tensors", source)
cover("Dataset.range", ranged)
cover("Dataset.concatenate", concatenated)
cover("Dataset.choose_from_datasets experimental.choose_from_datasets", choice)
cover("Dataset.bucket_by_sequence_length experimental.bucket_by_sequence_length", buckets)
cover("experimental.Reducer", reducer)
cover("Dataset.get_single_element experimental.get_single_element", single)
cover("Dataset.element_spec Dataset.options Dataset.as_numpy_iterator", attribute)
cover("experimental.get_structure", structure)
cover("experimental.unbatch experimental.unique", applied, ("",))
cover("experimental.dense_to_ragged_batch", applied, ("2", "3, drop_remainder=True"))
cover("experimental.dense_to_sparse_batch", applied, ("2, [4]", "3, [9]", "2, [None]"))
