"""
What people reach for out of habit, and what to use instead: names of NumPy, names that are not
there, random numbers.
"""

from __future__ import annotations

import difflib
import os
import random
import sys
import warnings
from typing import Any, Callable, Iterable, NoReturn

import numpy as np

from .elsewhere import FAMILIES

# ---- NumPy's functions, applied to symbolic tensors ----

# The operators that come as ufuncs when an array stands on the left.
OPERATORS = {
    np.add: ("__add__", "__radd__"),
    np.subtract: ("__sub__", "__rsub__"),
    np.multiply: ("__mul__", "__rmul__"),
    np.divide: ("__truediv__", "__rtruediv__"),
    np.floor_divide: ("__floordiv__", "__rfloordiv__"),
    np.remainder: ("__mod__", "__rmod__"),
    np.power: ("__pow__", "__rpow__"),
    np.matmul: ("__matmul__", "__rmatmul__"),
    np.less: ("__lt__", "__gt__"),
    np.less_equal: ("__le__", "__ge__"),
    np.greater: ("__gt__", "__lt__"),
    np.greater_equal: ("__ge__", "__le__"),
    np.equal: ("__eq__", "__eq__"),
    np.not_equal: ("__ne__", "__ne__"),
    np.bitwise_and: ("__and__", "__rand__"),
    np.bitwise_or: ("__or__", "__ror__"),
    np.bitwise_xor: ("__xor__", "__rxor__"),
    np.left_shift: ("__lshift__", "__rlshift__"),
    np.right_shift: ("__rshift__", "__rrshift__"),
}

# Where NumPy's name is not TensorFlow's.
_NUMPY = {
    "absolute": "abs",
    "all": "reduce_all",
    "amax": "reduce_max",
    "amin": "reduce_min",
    "any": "reduce_any",
    "astype": "cast",
    "clip": "clip_by_value",
    "concatenate": "concat",
    "dot": "matmul",
    "flip": "reverse",
    "hstack": "concat",
    "isfinite": "math.is_finite",
    "isinf": "math.is_inf",
    "isnan": "math.is_nan",
    "max": "reduce_max",
    "mean": "reduce_mean",
    "min": "reduce_min",
    "mod": "math.floormod",
    "ndim": "rank",
    "prod": "reduce_prod",
    "remainder": "math.floormod",
    "std": "math.reduce_std",
    "var": "math.reduce_variance",
    "sum": "reduce_sum",
    "take": "gather",
    "true_divide": "divide",
    "vstack": "concat",
    "floor_divide": "math.floordiv",
    "invert": "bitwise.invert",
}


def _places(name: str) -> list[str]:
    """Where in the package a public @name is: "mr.sqrt", "mr.math.log1p"."""
    package = sys.modules["millrace"]
    names = (
        "math",
        "bitwise",
        "linalg",
        "nn",
        "strings",
        "random",
        "image",
        "audio",
        "io",
        "signal",
        "experimental",
    )
    return [
        "mr" + module.__name__.removeprefix("millrace") + "." + name
        for module in [package, *(getattr(package, n) for n in names)]
        if name in vars(module)
    ]


def instead_of_numpy(name: str, module: str = "numpy") -> str:
    """What to write in place of that function, as a sentence."""
    if module != "numpy":
        return "Put it together from the functions of mr, or apply it behind the iterator."
    if name in _NUMPY:
        return f"Use mr.{_NUMPY[name]}."
    found = _places(name)
    if found:
        return f"Use {found[0]}."
    return (
        f"There is no mr.{name}: put it together from the functions of mr, or apply it behind "
        "the iterator."
    )


# ---- names that are not there ----

_MISSING = {
    "": {
        "data": "the names of tf.data are in mr itself (mr.Dataset, mr.AUTOTUNE), in "
        "mr.experimental and in mr.service",
        "Variable": "functions have no state: Dataset.scan hands one from element to element",
        "keras": "models are not its business: feed them with the elements of a dataset; folders "
        "of files are read with Dataset.list_files and map",
        # what PyTorch, JAX and NumPy users look for
        "DataLoader": "a dataset is its own loader: shuffle, batch and prefetch, then loop over it",
        "from_numpy": "use mr.Dataset.from_tensor_slices(arrays), or mr.constant(array)",
        "tensor": "use mr.constant",
        "array": "use mr.constant",
        "asarray": "use mr.convert_to_tensor",
        "arange": "use mr.range, or mr.Dataset.range",
        "numpy": "the functions of mr take arrays",
        "jit": "leave it away: functions given to map, filter, ... are traced",
        "from_generator": "use mr.Dataset.from_tensor_slices, or mr.experimental.from_list",
    },
    "lookup": {"StaticTensorTable": "use mr.lookup.StaticHashTable"},
    "service": {"experimental": "its names are in mr.service"},
    "train": {
        "SequenceExample": "write an Example whose features are as long as the sequence",
        "Checkpoint": "keep the bytes of get_state()",
    },
}


def missing_name(module: str) -> Callable[[str], Any]:
    """
    A module's __getattr__ (PEP 562): an AttributeError that says what to use in place of a name of
    TensorFlow's that is not there, or where it is.
    """
    short = module.removeprefix("millrace").removeprefix(".")
    hints = _MISSING.get(short, {})
    reasons = {n: why for why, names in FAMILIES.get(short, []) for n in names.split()}

    def __getattr__(name: str) -> NoReturn:
        text = f"module {module!r} has no attribute {name!r}"
        if name in hints:
            raise AttributeError(f"{text}: {hints[name]}")
        if not name.startswith("_"):
            found = _places(name)
            there = [n for n in vars(sys.modules[module]) if not n.startswith("_")]
            close = difflib.get_close_matches(name, there, 1, 0.8)
            if found:
                text += f": there is {found[0]}"
            elif name in reasons:
                text += f": {reasons[name]}"
            elif close:
                text += f": there is {close[0]!r}"
        raise AttributeError(text)

    return __getattr__


def no_attribute(owner: str, name: str, habits: dict[str, str], own: Iterable[str]) -> str:
    """
    What an AttributeError says of an object of the class @owner, which has the attributes @own: what
    to use in place of @name.
    """
    text = f"{owner!r} object has no attribute {name!r}"
    if name.startswith("_"):
        return text  # somebody asks for a protocol
    if name in habits:
        return f"{text}: {habits[name]}"
    if owner == "Tensor":
        if name.endswith("_") and not name.endswith("__"):
            return f"{text}: {habits['at']}"
        found = _places(_NUMPY.get(name, name))
        if found or name in _NUMPY:
            return f"{text}: use {found[0] if found else 'mr.' + _NUMPY[name]}(x)"
    close = difflib.get_close_matches(name, [n for n in own if not n.startswith("_")], 1, 0.7)
    if close:
        return f"{text}: there is {close[0]!r}"
    if owner == "Tensor":
        return f"{text}: tensors have Python's operators and NumPy's methods, mr has the functions"
    return text


def no_part(what: str, name: str, habits: dict[str, str], otherwise: str) -> str:
    """
    What an AttributeError says of a tensor of several parts: what to use in place of @name, which
    @habits know or the package has, or @otherwise.
    """
    text = f"{what} has no attribute {name!r}"
    if name.startswith("_"):
        return text  # somebody asks for a protocol
    return f"{text}: use {habits.get(name, otherwise)}"


# ---- at the user's line ----

_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package from which it was called."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, level)


def _drawn() -> tuple[list[Any], Any]:
    """Changes when somebody draws from NumPy's or Python's own generator."""
    numpys: Any = np.random.get_state(legacy=False)
    return [
        *numpys["state"].values(),
        *(v for k, v in numpys.items() if k != "state"),
    ], random.getstate()


def _same(before: tuple[list[Any], Any], after: tuple[list[Any], Any]) -> bool:
    return (
        before[1] == after[1]
        and len(before[0]) == len(after[0])
        and all(map(np.array_equal, before[0], after[0]))
    )


class Draws:
    """
    Whether a function that was traced has drawn random numbers: they are constants in what it
    recorded.
    """

    def __init__(self) -> None:
        self._before = _drawn()

    def warn(self, what: str) -> None:
        if not _same(self._before, _drawn()):
            warn(
                f"the function given to {what} drew random numbers (numpy.random or random): it "
                "is called once, to be recorded, so they are the same for all elements. "
                "Draw with mr.random inside of it",
                UserWarning,
            )
