"""
Rejection sampling by class: which elements stay, so that the classes have the frequencies wanted.

With probability m an element is taken as it comes, else the next one that its class accepts, where m
is the least and the acceptance of a class in proportion to target / initial - m. These are the
probabilities of tf.data's rejection_resample, which leave out as few elements as possible. It reads
its input twice for that; here one pass remembers which of both is to come.
"""

from __future__ import annotations

from typing import Any, Callable

import numpy as np

from .. import dtypes
from .._graph.tensor import convert_to_tensor
from .._ops.arrays import gather, where
from .._ops.constants import one_hot
from .._ops.draws import uniform
from .._ops.elementwise import maximum
from .._ops.reductions import reduce_max, reduce_min, reduce_sum

_SEEN_BEFORE = 10.0  # of each class, so that the first estimates are not extreme
_TINY = float(np.finfo(np.float32).tiny)


def _probabilities(initial: Any, target: Any) -> tuple[Any, Any]:
    """How likely each class is accepted, and how likely an element is taken as it comes."""
    ratio = target / maximum(initial, _TINY)
    most, least = reduce_max(ratio), reduce_min(ratio)
    return (ratio - least) / maximum(most - least, _TINY), least


def _vector(values: Any, what: str) -> Any:
    vector = np.asarray(values, np.float32)
    if vector.ndim != 1 or len(vector) == 0:
        raise ValueError(f"{what} is a vector with a number for each class: got {values!r}")
    return vector


def resample(
    dataset: Any,
    class_func: Callable[..., Any],
    target_dist: Any,
    initial_dist: Any,
    seed: int | None,
) -> Any:
    """@dataset.rejection_resample()."""
    target = _vector(target_dist, "target_dist")
    initial = None if initial_dist is None else _vector(initial_dist, "initial_dist")
    if initial is not None and initial.shape != target.shape:
        raise ValueError(f"initial_dist has {len(initial)} classes, target_dist {len(target)}")

    def step(state: Any, element: Any) -> Any:
        """The state: elements seen of each class; what was drawn for the next one to be given."""
        seen, waiting = state
        kind = class_func(*element) if type(element) is tuple else class_func(element)
        frequency = initial
        if initial is None:
            seen = seen + one_hot(kind, len(target), dtype=dtypes.float32)
            frequency = seen / reduce_sum(seen)
        accepted, as_it_comes = _probabilities(frequency, convert_to_tensor(target))
        # One operator, as operators of one seed draw the same.
        drawn = uniform([3], seed=seed)
        waiting = where(waiting < 0, drawn[0], waiting)
        taken = (waiting < as_it_comes) | (drawn[1] < gather(accepted, kind))
        return (seen, where(taken, drawn[2], waiting)), (taken, kind, element)

    start = (np.full(len(target), _SEEN_BEFORE, np.float32), np.float32(-1))
    drawn = dataset.scan(start, step).filter(lambda taken, kind, element: taken)
    kept = drawn.map(lambda taken, kind, element: (kind, element))
    return kept._named("rejection_resample", [dataset])
