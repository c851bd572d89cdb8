"""
Millrace feeds training jobs: read, decode, transform, shuffle and batch on a pool of workers that any number of training
clients read from.

    import millrace as mr

    ds = mr.Dataset.range(10).map(lambda x: x * x).batch(2)
    for x in ds: ...

The names are tf.data's: a script ports by replacing `tf.data.` and `tf.` with `mr.`.
"""

from . import _ffi, bitwise, errors, experimental, io, linalg, lookup, math, nn, service, strings, train  # noqa: F401
from ._absent import (case, cond, map_fn, missing_modules as _missing_modules, numpy_function, py_function,  # noqa: F401
                      switch_case, while_loop)
from ._hints import missing_name as _missing_name
from ._ops import abs_ as abs  # noqa: F401
from ._ops import (add, argmax, argmin, as_string, broadcast_to, cast, clip_by_value, concat, constant, cos, divide,  # noqa: F401
                   equal, exp, expand_dims, fill, floor, gather, greater, greater_equal, identity, less, less_equal,
                   logical_and, logical_not, logical_or, matmul, maximum, minimum, multiply, negative, not_equal, one_hot,
                   ones, ones_like, pad, rank, reduce_all, reduce_any, reduce_max, reduce_mean, reduce_min, reduce_prod,
                   reduce_sum, reshape, reverse, shape, sigmoid, sign, sin, size, split, sqrt, square, squeeze, stack,
                   subtract, tan, tanh, tile, transpose, truediv, unstack, where, zeros, zeros_like)
from ._ops import pow_ as pow  # noqa: F401
from ._ops import range_ as range  # noqa: F401
from ._ops import round_ as round  # noqa: F401
from ._ops import slice_ as slice  # noqa: F401
from ._iterator import Losses, NumpyIterator  # noqa: F401
from ._spec import DatasetSpec, TensorShape, TensorSpec  # noqa: F401
from ._tensor import Tensor, convert_to_tensor  # noqa: F401
from ._version import __version__  # noqa: F401
from ._files import FixedLengthRecordDataset, TextLineDataset, TFRecordDataset  # noqa: F401
from .dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset  # noqa: F401
from .dtypes import (DType, as_dtype, bfloat16, double, float16, float32, float64, half, int8, int16, int32,  # noqa: F401
                     int64, string, uint8, uint16, uint32, uint64)
from .dtypes import bool_ as bool  # noqa: F401
from .errors import DataLossWarning  # noqa: F401
from .options import AutotuneOptions, Options, ThreadingOptions  # noqa: F401


def version():
    """Package, library and where the library is, in one line."""
    return f"millrace {__version__}, libmillrace {_ffi.lib.mr_version().decode()} ({_ffi.library_path})"


__getattr__ = _missing_name(__name__, _missing_modules)
