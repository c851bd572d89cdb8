"""Mirrors tf.sparse, as far as it is built."""

from ._base.hints import missing_name as _missing_name
from ._ops.sparse import SparseTensor as SparseTensor, from_dense as from_dense
from ._ops.sparse import retain as retain, to_dense as to_dense

__getattr__ = _missing_name(__name__)
