"""Mirrors tf.sparse, as far as it is built."""

from ._base.hints import missing_name as _missing_name
from ._ops.absent import (
    sparse_add as add,
    sparse_bincount as bincount,
    sparse_concat as concat,
    sparse_cross as cross,
    sparse_cross_hashed as cross_hashed,
    sparse_expand_dims as expand_dims,
    sparse_eye as eye,
    sparse_fill_empty_rows as fill_empty_rows,
    sparse_map_values as map_values,
    sparse_mask as mask,
    sparse_maximum as maximum,
    sparse_minimum as minimum,
    sparse_reduce_max as reduce_max,
    sparse_reduce_sum as reduce_sum,
    sparse_reorder as reorder,
    sparse_reset_shape as reset_shape,
    sparse_reshape as reshape,
    sparse_segment_mean as segment_mean,
    sparse_segment_sqrt_n as segment_sqrt_n,
    sparse_segment_sum as segment_sum,
    sparse_slice as slice,
    sparse_softmax as softmax,
    sparse_dense_matmul as sparse_dense_matmul,
    sparse_split as split,
    sparse_to_indicator as to_indicator,
    sparse_transpose as transpose,
)
from ._ops.sparse import SparseTensor as SparseTensor, from_dense as from_dense
from ._ops.sparse import reorder as reorder, retain as retain, to_dense as to_dense

__getattr__ = _missing_name(__name__)
