"""
The two packages under one set of names, and what an expression comes to in either: a value in a
common form (outcome.py), or a refusal.
"""

from __future__ import annotations

import os
from typing import Any, Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import millrace as mr  # noqa: E402

import inputs  # noqa: E402
from outcome import attempt  # noqa: E402

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
tf.get_logger().setLevel("ERROR")
# What is iterated a few times is not worth optimizing: it costs more than all the rest of an iterator.
tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})


class _TensorFlow:
    """TensorFlow under this package's names: those of tf.data stand beside the others."""

    Dataset = tf.data.Dataset
    experimental = tf.data.experimental
    service = tf.data.experimental.service

    def __getattr__(self, name: str) -> Any:
        return getattr(tf, name) if hasattr(tf, name) else getattr(tf.data, name)


def _names(m: Any) -> dict[str, Any]:
    return {"m": m, "D": m.Dataset, "np": np, **inputs.NAMES}


OURS = _names(mr)
THEIRS = _names(_TensorFlow())

# Semantics are the same without them, and an iterator is made in half the time.
_QUICK = tf.data.Options()
_QUICK.experimental_optimization.apply_default_optimizations = False
_QUICK.autotune.enabled = False


def ours(function: Callable[[dict[str, Any]], Any]) -> Any:
    """What @function makes of this package's names."""
    return attempt(lambda: function(OURS))


@tf.autograph.experimental.do_not_convert
def _plainly(function: Callable[[dict[str, Any]], Any]) -> Any:
    return function(THEIRS)


def theirs(function: Callable[[dict[str, Any]], Any]) -> Any:
    """What @function makes of TensorFlow's, whose lambdas have no source that AutoGraph could read."""
    return attempt(lambda: _plainly(function))


def evaluate(names: dict[str, Any], function: Callable[[], Any]) -> Any:
    """What @function returns or that it refuses, in the package of @names."""
    return theirs(lambda _: function()) if names is THEIRS else attempt(function)


def quick(ds: Any) -> Any:
    """@ds as it is iterated: of TensorFlow's without rewrites."""
    return ds.with_options(_QUICK) if isinstance(ds, tf.data.Dataset) else ds


def as_argument(names: dict[str, Any], value: Any) -> Any:
    """An array as what operators take: a tensor, where there are tensors with values."""
    return (
        tf.constant(value)
        if names is THEIRS and isinstance(value, (np.ndarray, np.generic))
        else value
    )
