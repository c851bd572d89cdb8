"""
Random numbers, under TensorFlow's names. They are counted: a draw depends on its seed, the epoch and
the place of the element only, neither on threads nor on the sizes of blocks.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from .. import dtypes, errors
from .._graph.attrs import AttrTable
from .._graph.symbol import Symbol, TensorLike
from .._graph.tensor import apply1, convert_to_tensor
from ..dtypes import DType, DTypeLike, as_dtype
from .constants import known_sizes, sized, static_shape
from .docs import drawn

_lock = threading.Lock()
_global: np.random.SeedSequence | None = None
_made = 0  # operators with a seed from the global one, so far


def set_seed(seed: int | None) -> None:
    """Give everything that is made from now on and draws at random a seed.

    As ``tf.random.set_seed``: the operators of this package and `Dataset.shuffle` that are made
    after this call and have no seed of their own get one each, by their order; a seed of their own
    is combined with it.

    Parameters
    ----------
    seed : int or None
        None takes the global seed away.

    Examples
    --------
    >>> mr.random.set_seed(1)
    >>> a = list(mr.Dataset.range(5).shuffle(5))
    >>> mr.random.set_seed(1)
    >>> a == list(mr.Dataset.range(5).shuffle(5))
    True
    >>> mr.random.set_seed(None)
    """
    global _global, _made
    with _lock:
        _global = None if seed is None else np.random.SeedSequence(abs(int(seed)))
        _made = 0


def signed_seed(seed: Any) -> Any:
    """@seed; an unsigned one of 64 bits as the signed one with the same bits."""
    large = isinstance(seed, (int, np.integer)) and 1 << 63 <= int(seed) < 1 << 64
    return int(seed) - (1 << 64) if large else seed


def seed_of(seed: Any) -> Any:
    """The seed of an operator that is given @seed: combined with the global one, if there is one."""
    global _made
    with _lock:
        if _global is None or isinstance(seed, Symbol):
            return signed_seed(seed)
        if seed is None:
            _made += 1
        key = (0, _made) if seed is None else (1, abs(int(seed)))
        mixed = np.random.SeedSequence(_global.entropy, spawn_key=key)
    return int(mixed.generate_state(1, np.uint64)[0]) >> 1


def _stream(seed: int | None) -> AttrTable:
    """The attributes of an operator with a stream of its own."""
    attrs, seed = AttrTable(), seed_of(seed)
    return attrs if seed is None else attrs.int("seed", seed)


def _pair(seed: Any) -> Any:
    """The seed of a stateless function."""
    pair = convert_to_tensor(seed)
    if pair.shape != (2,) and list(pair.shape) != [None]:
        raise ValueError(
            f"seed has the shape {tuple(pair.shape)}: a stateless function takes two integers, as "
            "(42, 0), mr.stack([i, 0]) or mr.random.fold_in((42, 0), i)"
        )
    return pair


def _draw(op: str, shape: Any, operands: list[Any], seed: Any, attrs: AttrTable) -> Any:
    """Operator @op, or its stateless form if there is a @seed of two numbers."""
    dims = static_shape(shape)
    inputs = [] if dims is not None else [convert_to_tensor(shape)]
    if dims is not None:
        attrs.shape("shape", dims)
    seeds = [] if seed is None else [_pair(seed)]
    name = op if seed is None else "stateless_" + op
    drawn = apply1(name, inputs + operands + seeds, attrs, same_dtype=False)
    return drawn if dims is not None else sized(drawn, known_sizes(shape))


def numbers(limit: int, seed: int | None, rerandomize: bool) -> Any:
    """A number in [0, limit), int64, which differs from epoch to epoch if @rerandomize."""
    attrs = AttrTable() if seed is None else AttrTable().int("seed", seed)
    bounds = [convert_to_tensor(v, dtypes.int64) for v in (0, limit)]
    return _draw("random_uniform", [], bounds, None, attrs.bool("rerandomize", rerandomize))


def _is_scalar(value: Any) -> bool:
    return value.ndim == 0 if isinstance(value, Symbol) else np.ndim(value) == 0


def _scaled(
    op: str, shape: Any, low: Any, scale: Any, dtype: DType, seed: Any, attrs: AttrTable
) -> Any:
    """@low + @scale times what @op draws, where they are no scalars."""
    base = _draw(op, shape, [convert_to_tensor(v, dtype) for v in (0, 1)], seed, attrs)
    return apply1("add", [apply1("mul", [base, scale]), low])


def _uniform(
    shape: Any, minval: Any, maxval: Any, dtype: DTypeLike, seed: Any, attrs: AttrTable
) -> Any:
    kind = as_dtype(dtype)
    if not kind.is_floating and (minval is None) != (maxval is None) and seed is not None:
        raise ValueError(
            f"of {kind.name}, minval and maxval are given both, or neither for the full range"
        )
    if not kind.is_floating and maxval is None:
        if seed is None:
            raise ValueError(f"maxval must be given for the integer dtype {kind.name}")
        minval, maxval = 0, 0
        attrs.bool("full_range", True)
    low = convert_to_tensor(0 if minval is None else minval, kind)
    high = convert_to_tensor(1 if maxval is None else maxval, kind)
    if _is_scalar(low) and _is_scalar(high):
        return _draw("random_uniform", shape, [low, high], seed, attrs)
    if not kind.is_floating:
        raise ValueError(f"minval and maxval of {kind.name} must be scalars")
    return _scaled("random_uniform", shape, low, apply1("sub", [high, low]), kind, seed, attrs)


def _normal(
    shape: Any, mean: Any, stddev: Any, dtype: DTypeLike, seed: Any, attrs: AttrTable
) -> Any:
    kind = as_dtype(dtype)
    mean, stddev = convert_to_tensor(mean, kind), convert_to_tensor(stddev, kind)
    if _is_scalar(mean) and _is_scalar(stddev):
        return _draw("random_normal", shape, [mean, stddev], seed, attrs)
    return _scaled("random_normal", shape, mean, stddev, kind, seed, attrs)


@drawn
def uniform(
    shape: Any,
    minval: TensorLike = 0,
    maxval: TensorLike | None = None,
    dtype: DTypeLike = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Draw from [minval, maxval), each value as likely as any other.

    >>> mr.random.uniform([3], seed=1).shape
    (3,)
    """
    return _uniform(shape, minval, maxval, dtype, None, _stream(seed))


@drawn
def normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Draw from the normal distribution.

    >>> mr.random.normal([2, 2], seed=1).dtype
    dtype('float32')
    """
    return _normal(shape, mean, stddev, dtype, None, _stream(seed))


@drawn
def truncated_normal(
    shape: Any,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = "float32",
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Draw from the normal distribution; what is two deviations away or more is drawn again.

    >>> bool((abs(mr.random.truncated_normal([100], seed=1)) < 2).all())
    True
    """
    return _normal(shape, mean, stddev, dtype, None, _stream(seed).bool("truncated", True))


@drawn
def shuffle(value: TensorLike, seed: int | None = None, name: str | None = None) -> Any:
    """Bring what lies along the first axis into a random order.

    >>> sorted(mr.random.shuffle([1, 2, 3]).tolist())
    [1, 2, 3]
    """
    return apply1("random_shuffle", [value], _stream(seed))


def _choice(attrs: AttrTable, num_samples: int, dtype: DTypeLike | None) -> AttrTable:
    return attrs.int("num_samples", num_samples).dtype("dtype", as_dtype(dtype or dtypes.int64))


@drawn
def categorical(
    logits: TensorLike,
    num_samples: int,
    dtype: DTypeLike | None = None,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Draw classes, each with the probability that its logit says.

    >>> mr.random.categorical([[0.0, -1e9]], 3)
    array([[0, 0, 0]])
    """
    return apply1("random_categorical", [logits], _choice(_stream(seed), num_samples, dtype))


@drawn
def stateless_uniform(
    shape: Any,
    seed: TensorLike,
    minval: TensorLike | None = 0,
    maxval: TensorLike | None = None,
    dtype: DTypeLike = "float32",
    name: str | None = None,
    alg: str = "auto_select",
) -> Any:
    """Draw from [minval, maxval): the same for the same seed.

    >>> a = mr.random.stateless_uniform([3], seed=(1, 2))
    >>> bool((a == mr.random.stateless_uniform([3], seed=(1, 2))).all())
    True
    """
    if not as_dtype(dtype).is_floating and maxval is None and minval == 0:
        raise ValueError(
            f"maxval must be given for the integer dtype {as_dtype(dtype).name}, or "
            "minval=None too, which is its full range"
        )
    return _uniform(shape, minval, maxval, dtype, seed, AttrTable())


@drawn
def stateless_normal(
    shape: Any,
    seed: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = "float32",
    name: str | None = None,
    alg: str = "auto_select",
) -> Any:
    """Draw from the normal distribution: the same for the same seed.

    >>> mr.random.stateless_normal([3], seed=(1, 2)).shape
    (3,)
    """
    return _normal(shape, mean, stddev, dtype, seed, AttrTable())


@drawn
def stateless_truncated_normal(
    shape: Any,
    seed: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = "float32",
    name: str | None = None,
    alg: str = "auto_select",
) -> Any:
    """Draw as `truncated_normal`: the same for the same seed.

    >>> mr.random.stateless_truncated_normal([3], seed=(1, 2)).shape
    (3,)
    """
    return _normal(shape, mean, stddev, dtype, seed, AttrTable().bool("truncated", True))


@drawn
def stateless_categorical(
    logits: TensorLike,
    num_samples: int,
    seed: TensorLike,
    dtype: DTypeLike = "int64",
    name: str | None = None,
) -> Any:
    """Draw classes as `categorical`: the same for the same seed.

    >>> mr.random.stateless_categorical([[-1e9, 0.0]], 2, seed=(1, 2))
    array([[1, 1]])
    """
    inputs = [convert_to_tensor(logits), convert_to_tensor(seed)]
    attrs = _choice(AttrTable(), num_samples, dtype)
    return apply1("stateless_random_categorical", inputs, attrs, same_dtype=False)


@drawn
def stateless_shuffle(
    value: TensorLike, seed: TensorLike, alg: str = "auto_select", name: str | None = None
) -> Any:
    """Bring what lies along the first axis into an order that is the same for the same seed.

    >>> sorted(mr.random.experimental.stateless_shuffle([3, 1, 2], seed=(1, 2)).tolist())
    [1, 2, 3]
    """
    inputs = [convert_to_tensor(value), convert_to_tensor(seed)]
    return apply1("stateless_random_shuffle", inputs, same_dtype=False)


@drawn
def split(seed: TensorLike, num: int = 2, alg: str = "auto_select") -> Any:
    """Make `num` seeds of one: [num, 2].

    >>> mr.random.split((1, 2), 3).shape
    (3, 2)
    """
    return apply1("stateless_seeds", [convert_to_tensor(seed)], AttrTable().int("num", num))


@drawn
def fold_in(seed: TensorLike, data: TensorLike, alg: str = "auto_select") -> Any:
    """Make a seed of a seed and a number, such as that of a step.

    >>> mr.random.fold_in((1, 2), 3).shape
    (2,)
    """
    inputs = [convert_to_tensor(seed), convert_to_tensor(data)]
    if inputs[0].ndim != 1:
        raise errors.InvalidArgumentError("a seed is a vector of two numbers")
    return apply1("stateless_seeds", inputs, same_dtype=False)
