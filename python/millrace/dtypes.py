"""Element types. mr.int64 == np.int64 == np.dtype("int64"), as with TensorFlow's DType."""

from __future__ import annotations

import builtins
import difflib
from typing import Any, TypeAlias, Union

import numpy as np
import numpy.typing as npt

__all__ = [
    "DType",
    "as_dtype",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "half",
    "bfloat16",
    "float32",
    "float64",
    "double",
    "string",
    "complex64",
    "complex128",
]


_BFLOAT16_MAX = float.fromhex("0x1.FEp127")


class DType:
    """One element type. There is one object per type; compare with ``==`` or ``is``.

    As ``tf.DType``. The types are names of ``mr``: ``mr.int64``, ``mr.string``, ...

    Attributes
    ----------
    name : str
        Such as "int64".
    code : int
        The number in the C library, ``enum mr_dtype``.
    size : int
        The bytes of one value; 0 for strings.
    kind : str
        "b" bool, "i" signed, "u" unsigned, "f" floating, "s" string, "c" complex.

    Examples
    --------
    >>> mr.int64 == np.dtype("int64"), mr.int64.size, mr.uint8.max
    (True, 8, 255)
    """

    __slots__ = ("name", "code", "size", "_numpy", "kind")

    def __init__(self, name: str, code: int, size: int, numpy_type: Any, kind: str) -> None:
        self.name = name
        self.code = code
        self.size = size
        self._numpy: Any = None if numpy_type is None else np.dtype(numpy_type)
        self.kind = kind

    @property
    def as_numpy_dtype(self) -> type[Any]:
        """NumPy's scalar type, `object` for strings; TypeError for bfloat16 without ml_dtypes."""
        if self.kind == "s":
            return object
        found: type[np.generic] = self.numpy_dtype().type
        return found

    def numpy_dtype(self) -> np.dtype[Any]:
        """Return the NumPy dtype.

        Returns
        -------
        numpy.dtype
            Of strings dtype("O"): elements hold bytes.

        Raises
        ------
        TypeError
            For bfloat16, which NumPy itself does not have, without the module ml_dtypes.

        Examples
        --------
        >>> mr.float32.numpy_dtype()
        dtype('float32')
        """
        if self._numpy is None:
            try:
                import ml_dtypes
            except ImportError:
                raise TypeError(
                    "NumPy has no bfloat16: install the module ml_dtypes, or cast in "
                    "the pipeline (mr.cast(x, mr.float32))"
                ) from None
            self._numpy = np.dtype(ml_dtypes.bfloat16)
        found: np.dtype[Any] = self._numpy
        return found

    @property
    def is_bool(self) -> builtins.bool:
        """Whether it is bool."""
        return self.kind == "b"

    @property
    def is_integer(self) -> builtins.bool:
        """Whether it is an integer type, signed or not."""
        return self.kind in "iu"

    @property
    def is_floating(self) -> builtins.bool:
        """Whether it is a floating point type."""
        return self.kind == "f"

    @property
    def is_complex(self) -> builtins.bool:
        """Whether it is a complex type."""
        return self.kind == "c"

    @property
    def real_dtype(self) -> DType:
        """The type of the parts of a complex type; any other type itself."""
        return {"complex64": float32, "complex128": float64}.get(self.name, self)

    @property
    def is_unsigned(self) -> builtins.bool:
        """Whether it is an unsigned integer type."""
        return self.kind == "u"

    def _limit(self, which: str) -> Any:
        if self.kind == "f":
            if self.name == "bfloat16":  # which numpy.finfo does not know
                return self.numpy_dtype().type((-1 if which == "min" else 1) * _BFLOAT16_MAX)
            return getattr(np.finfo(self.numpy_dtype()), which)
        if self.kind in "iu":
            return getattr(np.iinfo(self._numpy), which)
        raise TypeError(f"{self.name} has no {which}")

    @property
    def min(self) -> Any:
        """The lowest number. TypeError for bool and string."""
        return self._limit("min")

    @property
    def max(self) -> Any:
        """The highest number. TypeError for bool and string."""
        return self._limit("max")

    def __eq__(self, other: object) -> builtins.bool:
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return hash(("millrace.DType", self.code))

    def __repr__(self) -> str:
        return f"mr.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


# What stands for an element type: mr.int64, "int64", np.int64, ...
DTypeLike: TypeAlias = Union[DType, npt.DTypeLike]

bool_ = DType("bool", 1, 1, np.bool_, "b")
int8 = DType("int8", 2, 1, np.int8, "i")
int16 = DType("int16", 3, 2, np.int16, "i")
int32 = DType("int32", 4, 4, np.int32, "i")
int64 = DType("int64", 5, 8, np.int64, "i")
uint8 = DType("uint8", 6, 1, np.uint8, "u")
uint16 = DType("uint16", 7, 2, np.uint16, "u")
uint32 = DType("uint32", 8, 4, np.uint32, "u")
uint64 = DType("uint64", 9, 8, np.uint64, "u")
float16 = half = DType("float16", 10, 2, np.float16, "f")
bfloat16 = DType("bfloat16", 11, 2, None, "f")
float32 = DType("float32", 12, 4, np.float32, "f")
float64 = double = DType("float64", 13, 8, np.float64, "f")
string = DType("string", 14, 0, object, "s")
complex64 = DType("complex64", 15, 8, np.complex64, "c")
complex128 = DType("complex128", 16, 16, np.complex128, "c")
bool = bool_

_ALL = (
    bool_,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
    float16,
    bfloat16,
    float32,
    float64,
    string,
    complex64,
    complex128,
)
_BY_CODE = {t.code: t for t in _ALL}
_BY_NAME = {**{t.name: t for t in _ALL}, "half": float16, "double": float64}
_BY_NUMPY = {t._numpy: t for t in _ALL if t._numpy is not None}


def from_code(code: int) -> DType:
    """The type with this `enum mr_dtype`."""
    return _BY_CODE[code]


def as_dtype(value: Any) -> DType:
    """Return the element type that `value` stands for.

    As ``tf.as_dtype``.

    Parameters
    ----------
    value : dtype_like
        A DType, its name, or anything that ``np.dtype()`` takes.

    Returns
    -------
    DType
        The one object of that type.

    Raises
    ------
    TypeError
        Millrace has no such type.

    Examples
    --------
    >>> mr.as_dtype(np.float32), mr.as_dtype("half"), mr.as_dtype(str)
    (mr.float32, mr.float16, mr.string)
    """
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if value is bytes or value is str:
        return string
    if value is builtins.float:
        return float32  # as Python's floats become; NumPy has float64
    if value is None:
        raise TypeError("None is not a dtype")
    try:
        numpy_type = np.dtype(value)
    except TypeError:
        name = str(value).rpartition(".")[2]  # such as torch.float32
        close = difflib.get_close_matches(name, _BY_NAME, 1, 0.7)
        hint = f": use mr.{_BY_NAME[close[0]].name}" if close else ""
        raise TypeError(f"{value!r} is not a dtype of Millrace{hint}") from None
    if numpy_type.kind in "SUO":
        return string
    if numpy_type.name == "bfloat16":
        return bfloat16
    found = _BY_NUMPY.get(numpy_type.newbyteorder("="))
    if found is None:
        raise TypeError(f"{value!r} is not a dtype of Millrace")
    return found
