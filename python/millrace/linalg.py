"""Mirrors tf.linalg, as far as it is built."""

from ._hints import missing_name as _missing_name
from ._ops import matmul  # noqa: F401


__getattr__ = _missing_name(__name__)
