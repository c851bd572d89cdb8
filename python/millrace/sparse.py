"""Mirrors tf.sparse."""

from ._base.hints import missing_name as _missing_name
from ._ops.absent import (
    sparse_cross as cross,
    sparse_cross_hashed as cross_hashed,
    sparse_mask as mask,
)
from ._ops.sparse import SparseTensor as SparseTensor, from_dense as from_dense
from ._ops.sparse import reorder as reorder, retain as retain, to_dense as to_dense
from ._ops.sparse_groups import (
    sparse_bincount as bincount,
    sparse_segment_mean as segment_mean,
    sparse_segment_sqrt_n as segment_sqrt_n,
    sparse_segment_sum as segment_sum,
)
from ._ops.sparse_places import (
    sparse_concat as concat,
    sparse_expand_dims as expand_dims,
    sparse_eye as eye,
    sparse_fill_empty_rows as fill_empty_rows,
    sparse_reset_shape as reset_shape,
    sparse_reshape as reshape,
    sparse_slice as slice,
    sparse_split as split,
    sparse_transpose as transpose,
)
from ._ops.sparse_values import (
    map_values as map_values,
    sparse_add as add,
    sparse_dense_matmul as sparse_dense_matmul,
    sparse_maximum as maximum,
    sparse_minimum as minimum,
    sparse_reduce_max as reduce_max,
    sparse_reduce_sum as reduce_sum,
    sparse_softmax as softmax,
    sparse_to_indicator as to_indicator,
)

__getattr__ = _missing_name(__name__)
