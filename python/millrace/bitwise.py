"""Mirrors tf.bitwise."""

from ._hints import missing_name as _missing_name
from ._ops import bitwise_and, bitwise_or, bitwise_xor, invert, left_shift, right_shift  # noqa: F401


__getattr__ = _missing_name(__name__)
