"""Mirrors tf.math, as far as it is built."""

from ._hints import missing_name as _missing_name
from ._ops import abs_ as abs  # noqa: F401
from ._ops import (add, argmax, argmin, ceil, cos, divide, equal, exp, expm1, floor, floordiv, floormod, greater,  # noqa: F401
                   greater_equal, is_finite, is_inf, is_nan, less, less_equal, log, log1p, logical_and, logical_not,
                   logical_or, logical_xor, maximum, minimum, mod, multiply, negative, not_equal, reciprocal, reduce_all,
                   reduce_any, reduce_max, reduce_mean, reduce_min, reduce_prod, reduce_sum, rsqrt, sigmoid, sign, sin,
                   sqrt, square, squared_difference, subtract, tan, tanh, truediv)
from ._ops import pow_ as pow  # noqa: F401
from ._ops import round_ as round  # noqa: F401


__getattr__ = _missing_name(__name__)
