"""Mirrors tf.nn, as far as it is built."""

from ._base.hints import missing_name as _missing_name
from ._ops.elementwise import relu as relu, sigmoid as sigmoid, tanh as tanh

__getattr__ = _missing_name(__name__)
