"""
When two outcomes are the same: dtypes, shapes and bytes exactly, floats within a tolerance.

A float is right if it is within a relative distance of the other one, or if both are next to zero
beside the largest number of the tensor: a sum of terms that cancel is no better than its terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outcome import Refusal, refused

RELATIVE = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 1e-5, "float64": 1e-10}
BESIDE_LARGEST = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-13}
SHOWN_MAX = 1000
_UNKNOWN = -2  # a cardinality


# What two outcomes differ in, from harmless to bad.
MORE, LESS, DIFFERS = "more is known", "less is known", "differs"


def difference(ours: Any, theirs: Any, slack: float = 0) -> str | None:
    """
    What @ours differs in from @theirs; None if in nothing. Numbers may differ by @slack (pixels of a JPEG by
    1). MORE and LESS are of specs and cardinalities alone: sizes that one side leaves open.
    """
    if isinstance(ours, Refusal) or isinstance(theirs, Refusal):
        return None if refused(ours) and refused(theirs) else DIFFERS
    if ours[0] != "dataset" or theirs[0] != "dataset":
        return None if same(ours, theirs, slack) else DIFFERS
    _, our_spec, our_count, our_end, our_elements = ours
    _, their_spec, their_count, their_end, their_elements = theirs
    if not same((our_end, our_elements), (their_end, their_elements), slack):
        return DIFFERS
    if our_end == "end" and our_count >= 0 and our_count != len(our_elements):
        return DIFFERS  # what is known of it is wrong
    found = {_spec_difference(our_spec, their_spec), _count_difference(our_count, their_count)}
    if not all(fits(element, our_spec) for element in our_elements):
        return DIFFERS
    return next((kind for kind in (DIFFERS, LESS, MORE) if kind in found), None)


def _count_difference(ours: int, theirs: int) -> str | None:
    if ours == theirs:
        return None
    return MORE if theirs == _UNKNOWN else LESS if ours == _UNKNOWN else DIFFERS


def _spec_difference(ours: Any, theirs: Any) -> str | None:
    """Of specs in the common form: tuples in which shapes are tuples of sizes or None."""
    if ours == theirs:
        return None
    if theirs is None and not isinstance(ours, str):
        return MORE
    if ours is None and not isinstance(theirs, str):
        return LESS
    if not (isinstance(ours, tuple) and isinstance(theirs, tuple) and len(ours) == len(theirs)):
        return DIFFERS
    found = {_spec_difference(a, b) for a, b in zip(ours, theirs)}
    return next((kind for kind in (DIFFERS, LESS, MORE) if kind in found), None)


def fits(value: Any, spec: Any) -> bool:
    """Whether the element @value is what @spec says, both in the common form."""
    if spec[0] in ("sequence", "dict"):
        parts = zip(value[1:], spec[1:])
        if spec[0] == "dict":
            parts = ((v[1], s[1]) for v, s in parts)  # type: ignore[assignment]
        return len(value) == len(spec) and all(fits(v, s) for v, s in parts)
    if spec[0] == "DatasetSpec":
        return bool(value[0] == "dataset")
    if spec[0] != "TensorSpec" or value[0] != "tensor":
        return spec[0].removesuffix("TensorSpec").lower() == value[0]
    _, dtype, shape = spec
    if value[1] != dtype:
        return False
    return shape is None or (
        len(shape) == len(value[2]) and all(s in (None, n) for s, n in zip(shape, value[2]))
    )


def same(ours: Any, theirs: Any, slack: float = 0) -> bool:
    """Whether values in the common form are the same."""
    if isinstance(ours, Refusal) or isinstance(theirs, Refusal):
        return isinstance(ours, Refusal) and isinstance(theirs, Refusal)
    if isinstance(ours, np.ndarray) and isinstance(theirs, np.ndarray):
        return _same_array(ours, theirs, slack)
    if isinstance(ours, tuple) and isinstance(theirs, tuple):
        return len(ours) == len(theirs) and all(same(a, b, slack) for a, b in zip(ours, theirs))
    return type(ours) is type(theirs) and (ours == theirs or ours != ours and theirs != theirs)


def _same_array(ours: np.ndarray, theirs: np.ndarray, slack: float) -> bool:
    if ours.shape != theirs.shape:
        return False
    if ours.dtype.kind in "OSU":
        return [_bytes(a) for a in ours.flat] == [_bytes(b) for b in theirs.flat]
    if ours.dtype.kind == "c" and theirs.dtype.kind == "c":
        return _same_array(ours.real, theirs.real, slack) and _same_array(
            ours.imag, theirs.imag, slack
        )
    if ours.dtype.name not in RELATIVE:
        if not slack:
            return bool(np.array_equal(ours, theirs))
        return bool(np.all(np.abs(ours.astype(np.int64) - theirs.astype(np.int64)) <= slack))
    name = ours.dtype.name
    a, b = ours.astype(np.float64), theirs.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.abs(b[np.isfinite(b)])
        beside = BESIDE_LARGEST[name] * (finite.max() if finite.size else 0)
        close = np.abs(a - b) <= np.maximum(RELATIVE[name] * np.abs(b), max(beside, slack))
    return bool(np.all(close | (a == b) | (np.isnan(a) & np.isnan(b))))


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def shown(outcome: Any) -> str:
    """@outcome in a line."""
    if isinstance(outcome, np.ndarray):
        text = str(outcome.tolist())
    elif isinstance(outcome, tuple):
        text = "(" + ", ".join(shown(part) for part in outcome) + ")"
    else:
        text = repr(outcome)
    return text if len(text) <= SHOWN_MAX else text[:SHOWN_MAX] + "..."
