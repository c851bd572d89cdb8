"""Mirrors tf.linalg, as far as it is built."""

from ._base.hints import missing_name as _missing_name
from ._ops.reductions import matmul as matmul

__getattr__ = _missing_name(__name__)
