"""Mirrors tf.math, as far as it is built."""

from ._base.hints import missing_name as _missing_name
from ._ops.elementwise import (
    abs as abs, add as add, ceil as ceil, cos as cos, divide as divide, equal as equal, exp as exp,
    expm1 as expm1, floor as floor, floordiv as floordiv, floormod as floormod, greater as greater,
    greater_equal as greater_equal, is_finite as is_finite, is_inf as is_inf, is_nan as is_nan,
    less as less, less_equal as less_equal, log as log, log1p as log1p, logical_and as logical_and,
    logical_not as logical_not, logical_or as logical_or, logical_xor as logical_xor,
    maximum as maximum, minimum as minimum, mod as mod, multiply as multiply, negative as negative,
    not_equal as not_equal, pow as pow, reciprocal as reciprocal, round as round, rsqrt as rsqrt,
    sigmoid as sigmoid, sign as sign, sin as sin, sqrt as sqrt, square as square,
    squared_difference as squared_difference, subtract as subtract, tan as tan, tanh as tanh,
    truediv as truediv)
from ._ops.reductions import (
    argmax as argmax, argmin as argmin, reduce_all as reduce_all, reduce_any as reduce_any,
    reduce_max as reduce_max, reduce_mean as reduce_mean, reduce_min as reduce_min,
    reduce_prod as reduce_prod, reduce_sum as reduce_sum)

__getattr__ = _missing_name(__name__)
