"""
Millrace feeds training jobs: read, decode, transform, shuffle and batch on a pool of workers that
any number of training clients read from.

    import millrace as mr

    ds = mr.Dataset.range(10).map(lambda x: x * x).batch(2)
    for x in ds: ...

The names are tf.data's: a script ports by replacing `tf.data.` and `tf.` with `mr.`.

Functions take tensors, arrays, Python literals and nested lists of them ("tensor_like" in their
documentation). Inside a function that is given to `Dataset.map`, `filter`, ... they give symbolic
tensors, elsewhere NumPy arrays. The argument `name`, which TensorFlow has everywhere, means
nothing.
"""

from . import audio as audio
from . import bitwise as bitwise, debugging as debugging, errors as errors
from . import experimental as experimental, image as image
from . import (
    io as io,
    linalg as linalg,
    lookup as lookup,
    math as math,
    nn as nn,
    service as service,
)
from . import ragged as ragged, random as random, signal as signal, sparse as sparse
from . import strings as strings
from . import train as train
from ._capi import ffi as _ffi
from ._data.composite import RaggedTensorSpec as RaggedTensorSpec
from ._data.composite import SparseTensorSpec as SparseTensorSpec
from ._data.spec import DatasetSpec as DatasetSpec, TensorShape as TensorShape
from ._data.spec import TensorSpec as TensorSpec
from ._datasets.iterator import NumpyIterator as NumpyIterator
from ._datasets.losses import Losses as Losses
from ._files import FixedLengthRecordDataset as FixedLengthRecordDataset
from ._files import TextLineDataset as TextLineDataset, TFRecordDataset as TFRecordDataset
from ._graph.tensor import Tensor as Tensor, convert_to_tensor as convert_to_tensor
from ._ops.absent import not_built as _not_built
from ._ops.absent import (
    Iterator as Iterator,
    IteratorSpec as IteratorSpec,
    numpy_function as numpy_function,
    py_function as py_function,
    while_loop as while_loop,
)
from ._ops.arrays import (
    broadcast_to as broadcast_to,
    concat as concat,
    ensure_shape as ensure_shape,
    expand_dims as expand_dims,
    gather as gather,
    pad as pad,
    rank as rank,
    reshape as reshape,
    reverse as reverse,
    shape as shape,
    size as size,
    slice as slice,
    split as split,
    squeeze as squeeze,
    stack as stack,
    tile as tile,
    transpose as transpose,
    unstack as unstack,
    where as where,
)
from ._ops.complexes import complex as complex
from ._ops.constants import (
    cast as cast,
    constant as constant,
    fill as fill,
    one_hot as one_hot,
    ones as ones,
    ones_like as ones_like,
    range as range,
    zeros as zeros,
    zeros_like as zeros_like,
)
from ._ops.control import (
    case as case,
    cond as cond,
    control_dependencies as control_dependencies,
    function as function,
    map_fn as map_fn,
    switch_case as switch_case,
    vectorized_map as vectorized_map,
)
from ._ops.debugging import (
    Assert as Assert,
    assert_equal as assert_equal,
    assert_greater as assert_greater,
    assert_less as assert_less,
    assert_rank as assert_rank,
)
from ._ops.elementwise import (
    abs as abs,
    add as add,
    clip_by_value as clip_by_value,
    cos as cos,
    divide as divide,
    equal as equal,
    exp as exp,
    floor as floor,
    greater as greater,
    greater_equal as greater_equal,
    identity as identity,
    less as less,
    less_equal as less_equal,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    negative as negative,
    not_equal as not_equal,
    pow as pow,
    realdiv as realdiv,
    round as round,
    sigmoid as sigmoid,
    sign as sign,
    sin as sin,
    sqrt as sqrt,
    square as square,
    subtract as subtract,
    tan as tan,
    tanh as tanh,
    truediv as truediv,
)
from ._ops.layout import (
    broadcast_dynamic_shape as broadcast_dynamic_shape,
    broadcast_static_shape as broadcast_static_shape,
    executing_eagerly as executing_eagerly,
    identity_n as identity_n,
    inside_function as inside_function,
    is_symbolic_tensor as is_symbolic_tensor,
    is_tensor as is_tensor,
    linspace as linspace,
    meshgrid as meshgrid,
    parallel_stack as parallel_stack,
    reverse_sequence as reverse_sequence,
    roll as roll,
    shape_n as shape_n,
    stop_gradient as stop_gradient,
    strided_slice as strided_slice,
)
from ._ops.matrices import (
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    einsum as einsum,
    eye as eye,
    norm as norm,
    tensordot as tensordot,
)
from ._ops.ordering import (
    argsort as argsort,
    sort as sort,
    unique as unique,
    unique_with_counts as unique_with_counts,
)
from ._ops.ragged.tensor import RaggedTensor as RaggedTensor
from ._ops.reductions import (
    argmax as argmax,
    argmin as argmin,
    matmul as matmul,
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
)
from ._ops.scattering import (
    gather_nd as gather_nd,
    scatter_nd as scatter_nd,
    tensor_scatter_nd_add as tensor_scatter_nd_add,
    tensor_scatter_nd_max as tensor_scatter_nd_max,
    tensor_scatter_nd_min as tensor_scatter_nd_min,
    tensor_scatter_nd_sub as tensor_scatter_nd_sub,
    tensor_scatter_nd_update as tensor_scatter_nd_update,
    unravel_index as unravel_index,
)
from ._ops.segments import (
    dynamic_partition as dynamic_partition,
    dynamic_stitch as dynamic_stitch,
    histogram_fixed_width as histogram_fixed_width,
    histogram_fixed_width_bins as histogram_fixed_width_bins,
)
from ._ops.selection import (
    boolean_mask as boolean_mask,
    cumsum as cumsum,
    repeat as repeat,
    searchsorted as searchsorted,
    sequence_mask as sequence_mask,
)
from ._ops.sparse import SparseTensor as SparseTensor
from ._ops.special import (
    acos as acos,
    acosh as acosh,
    add_n as add_n,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cosh as cosh,
    saturate_cast as saturate_cast,
    scalar_mul as scalar_mul,
    sinh as sinh,
    truncatediv as truncatediv,
    truncatemod as truncatemod,
)
from ._ops.statistics import reduce_logsumexp as reduce_logsumexp
from ._ops.text import as_string as as_string
from ._version import __version__ as __version__
from .dataset import AUTOTUNE as AUTOTUNE, INFINITE_CARDINALITY as INFINITE_CARDINALITY
from .dataset import UNKNOWN_CARDINALITY as UNKNOWN_CARDINALITY, Dataset as Dataset
from .dtypes import (
    DType as DType,
    as_dtype as as_dtype,
    bfloat16 as bfloat16,
    bool_ as bool,
    complex64 as complex64,
    complex128 as complex128,
    double as double,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    half as half,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    string as string,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from .errors import DataLossWarning as DataLossWarning
from .options import AutotuneOptions as AutotuneOptions, Options as Options
from .options import ThreadingOptions as ThreadingOptions

newaxis = None  # in an index, as NumPy's


def version() -> str:
    """Return the versions of the package and the library, and where the library is.

    Returns
    -------
    str
        One line, for reports of faults.

    Examples
    --------
    >>> mr.version()
    'millrace ..., libmillrace ... (/...)'
    """
    library = _ffi.lib.mr_version().decode()
    return f"millrace {__version__}, libmillrace {library} ({_ffi.library_path})"


__getattr__ = _not_built(__name__)
