"""Element types. mr.int64 == np.int64 == np.dtype("int64"), as with TensorFlow's DType."""

import numpy as np

__all__ = ["DType", "as_dtype", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float16", "half", "bfloat16", "float32", "float64", "double", "string"]


class DType:
    """One element type. There is one object per type; compare with == or `is`."""

    __slots__ = ("name", "code", "size", "_numpy", "kind")

    def __init__(self, name, code, size, numpy_type, kind):
        self.name = name
        self.code = code  # enum mr_dtype
        self.size = size  # bytes of one value, 0 for string
        self._numpy = None if numpy_type is None else np.dtype(numpy_type)
        self.kind = kind  # 'b' bool, 'i' signed, 'u' unsigned, 'f' floating, 's' string

    @property
    def as_numpy_dtype(self):
        """NumPy's scalar type."""
        return self.numpy_dtype().type

    def numpy_dtype(self):
        """The NumPy dtype; bfloat16 needs ml_dtypes, which NumPy itself does not have."""
        if self._numpy is None:
            try:
                import ml_dtypes
            except ImportError:
                raise TypeError("NumPy has no bfloat16: install the module ml_dtypes, or cast in the pipeline "
                                "(mr.cast(x, mr.float32))") from None
            self._numpy = np.dtype(ml_dtypes.bfloat16)
        return self._numpy

    is_bool = property(lambda self: self.kind == "b", doc="Whether it is bool.")
    is_integer = property(lambda self: self.kind in "iu", doc="Whether it is an integer type, signed or not.")
    is_floating = property(lambda self: self.kind == "f", doc="Whether it is a floating point type.")
    is_unsigned = property(lambda self: self.kind == "u", doc="Whether it is an unsigned integer type.")

    def _limit(self, which):
        if self.kind == "f":
            return getattr(np.finfo(self.numpy_dtype()), which)
        if self.kind in "iu":
            return getattr(np.iinfo(self._numpy), which)
        raise TypeError(f"{self.name} has no {which}")

    min = property(lambda self: self._limit("min"), doc="The lowest number. TypeError for bool and string.")
    max = property(lambda self: self._limit("max"), doc="The highest number. TypeError for bool and string.")

    def __eq__(self, other):
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self):
        return hash(("millrace.DType", self.code))

    def __repr__(self):
        return f"mr.{self.name}"

    def __reduce__(self):
        return as_dtype, (self.name,)


_NAMES = [
    ("bool", 1, 1, np.bool_, "b"), ("int8", 2, 1, np.int8, "i"), ("int16", 3, 2, np.int16, "i"),
    ("int32", 4, 4, np.int32, "i"), ("int64", 5, 8, np.int64, "i"), ("uint8", 6, 1, np.uint8, "u"),
    ("uint16", 7, 2, np.uint16, "u"), ("uint32", 8, 4, np.uint32, "u"), ("uint64", 9, 8, np.uint64, "u"),
    ("float16", 10, 2, np.float16, "f"), ("bfloat16", 11, 2, None, "f"), ("float32", 12, 4, np.float32, "f"),
    ("float64", 13, 8, np.float64, "f"), ("string", 14, 0, object, "s"),
]
_BY_NAME = {row[0]: DType(*row) for row in _NAMES}
_BY_CODE = {t.code: t for t in _BY_NAME.values()}
_BY_NAME.update(half=_BY_NAME["float16"], double=_BY_NAME["float64"])
_BY_NUMPY = {t._numpy: t for t in _BY_CODE.values() if t._numpy is not None}

globals().update(_BY_NAME)
bool_ = _BY_NAME["bool"]


def from_code(code):
    """The type with this `enum mr_dtype`."""
    return _BY_CODE[code]


def as_dtype(value):
    """A DType from itself, its name, or anything np.dtype() takes. TypeError otherwise."""
    if isinstance(value, DType):
        return value
    if isinstance(value, str) and value in _BY_NAME:
        return _BY_NAME[value]
    if value is bytes or value is str:
        return _BY_NAME["string"]
    if value is None:
        raise TypeError("None is no dtype")
    try:
        numpy_type = np.dtype(value)
    except TypeError:
        raise TypeError(f"{value!r} is no dtype of Millrace") from None
    if numpy_type.kind in "SUO":
        return _BY_NAME["string"]
    if numpy_type.name == "bfloat16":
        return _BY_NAME["bfloat16"]
    found = _BY_NUMPY.get(numpy_type.newbyteorder("="))
    if found is None:
        raise TypeError(f"{value!r} is no dtype of Millrace")
    return found
