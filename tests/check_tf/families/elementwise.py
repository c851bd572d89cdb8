"""Functions of one value each: one argument, two that broadcast, conditions."""

from __future__ import annotations

import random

from calls import Call, cover, of
from values import ALL, FLOATS, INTEGERS, NUMBERS, SIGNED
from values import number, shape, shapes_that_broadcast, tensor


def _dtype(r: random.Random, dtypes: tuple[str, ...]) -> str:
    """One of @dtypes, now and then another one, which may be refused."""
    return r.choice(ALL) if r.random() < 0.1 else r.choice(dtypes)


def unary(
    r: random.Random, name: str, dtypes: tuple[str, ...], pool: str = "any", slack: float = 0
) -> Call:
    return of(name, tensor(r, _dtype(r, dtypes), pool=pool), slack=slack)


def binary(
    r: random.Random,
    name: str,
    dtypes: tuple[str, ...],
    pool: str = "any",
    second: str | None = None,
    literals: bool = True,
) -> Call:
    dtype = _dtype(r, dtypes)
    one, two = shapes_that_broadcast(r)
    if literals and r.random() < 0.2:
        literal = number(r, r.choice(("int8", dtype)), second or "small")
        call = of(name, tensor(r, dtype, one, pool))
        inside = r.choice((f"a, {literal}", f"{literal}, a"))
        if "nan" not in literal and "inf" not in literal:
            return Call(f"lambda a: m.{name}({inside})", call.arguments)
    other = _dtype(r, dtypes) if r.random() < 0.05 else dtype
    return of(name, tensor(r, dtype, one, pool), tensor(r, other, two, second or pool))


def clip(r: random.Random, name: str) -> Call:
    dtype = _dtype(r, NUMBERS)
    one = tensor(r, dtype, pool="finite")
    if r.random() < 0.5:
        return of(name, one, rest=f"{number(r, dtype, 'small')}, {number(r, dtype, 'positive')}")
    return of(name, one, tensor(r, dtype, (), "small"), tensor(r, dtype, (), "positive"))


def where(r: random.Random, name: str) -> Call:
    if r.random() < 0.2:
        return of(name, tensor(r, _dtype(r, ("bool",)), shape(r, 1)))
    dtype = r.choice(ALL)
    condition, one = shapes_that_broadcast(r)
    other = r.choice((one, condition, ()))
    return of(name, tensor(r, "bool", condition), tensor(r, dtype, one), tensor(r, dtype, other))


def n_tensors(r: random.Random, name: str) -> Call:
    dtype = _dtype(r, NUMBERS)
    one = shape(r)
    parts = [tensor(r, dtype, one, "small") for _ in range(r.randrange(1, 4))]
    letters = ", ".join("abc"[: len(parts)])
    return Call(f"lambda {letters}: m.{name}([{letters}])", tuple(parts))


def scalar_mul(r: random.Random, name: str) -> Call:
    dtype = _dtype(r, NUMBERS)
    return of(name, tensor(r, dtype, (), "small"), tensor(r, dtype, pool="small"))


def shift(r: random.Random, name: str) -> Call:
    dtype = _dtype(r, INTEGERS)
    one = shape(r)
    bits = 8 if dtype.endswith("8") else 16
    values = [str(r.randrange(bits)) for _ in range(3)]
    return Call(f"lambda a: m.{name}(a, {r.choice(values)})", (tensor(r, dtype, one),))


cover("abs math.abs negative math.negative sign math.sign", unary, SIGNED + FLOATS)
cover("square math.square", unary, ("int32", "int64") + FLOATS)
cover("identity", unary, ALL)
cover("ones_like zeros_like shape size rank", unary, ALL)
cover("floor math.floor math.ceil math.rint", unary, FLOATS)
cover("round math.round", unary, ("int32", "int64") + FLOATS)
cover("math.is_finite math.is_inf math.is_nan", unary, FLOATS)
cover("logical_not math.logical_not", unary, ("bool",))
cover("nn.relu nn.relu6", unary, ("int32", "int8", "uint8") + FLOATS)
cover("bitwise.invert", unary, INTEGERS)
# Of angles beyond some thousand TensorFlow's own kernels keep few digits.
cover(
    "sin cos tan math.sin math.cos math.tan sinh cosh math.sinh math.cosh",
    unary,
    FLOATS,
    "ordinary",
)
cover(
    "exp math.exp math.expm1 sqrt math.sqrt math.rsqrt math.reciprocal math.log math.log1p tanh"
    " math.tanh nn.tanh sigmoid math.sigmoid nn.sigmoid",
    unary,
    FLOATS,
)
cover(
    "asinh math.asinh atan math.atan math.erf math.erfc math.softplus nn.softplus math.softsign"
    " nn.softsign math.log_sigmoid nn.elu nn.selu nn.silu nn.swish nn.leaky_relu"
    " math.digamma math.lgamma math.reciprocal_no_nan math.bessel_i0 math.bessel_i0e math.bessel_i1"
    " math.bessel_i1e",
    unary,
    FLOATS,
    "ordinary",
)
cover(
    "asin acos atanh math.asin math.acos math.atanh math.ndtri math.erfinv", unary, FLOATS, "unit"
)
# Its parts cancel: 1 + erf(x) in float32.
cover("nn.gelu", unary, FLOATS, "ordinary", 1e-6)
cover("acosh math.acosh math.erfcinv", unary, FLOATS, "positive")
cover("math.conj math.real math.imag math.angle", unary, FLOATS)

cover("add math.add", binary, NUMBERS + ("string",))
cover("subtract math.subtract multiply math.multiply", binary, NUMBERS)
cover("divide math.divide truediv math.truediv realdiv", binary, NUMBERS)
cover("math.floordiv math.floormod math.mod", binary, NUMBERS)
cover("truncatediv truncatemod", binary, ("int32", "int64"))
cover("maximum math.maximum minimum math.minimum", binary, NUMBERS)
cover("math.squared_difference", binary, ("int32", "int64") + FLOATS, "finite")
cover("pow math.pow", binary, ("int8", "int16", "int32", "int64") + FLOATS, "small", "positive")
cover("equal math.equal not_equal math.not_equal", binary, ALL)
cover(
    "greater math.greater greater_equal math.greater_equal less math.less less_equal"
    " math.less_equal",
    binary,
    NUMBERS,
)
cover("logical_and math.logical_and logical_or math.logical_or math.logical_xor", binary, ("bool",))
cover("bitwise.bitwise_and bitwise.bitwise_or bitwise.bitwise_xor", binary, INTEGERS)
cover("bitwise.left_shift bitwise.right_shift", shift)
cover("atan2 math.atan2 math.xdivy math.xlogy math.xlog1py", binary, FLOATS, "positive")
cover("math.nextafter", binary, ("float32", "float64"), "finite")
cover("math.divide_no_nan math.multiply_no_nan", binary, FLOATS, "small")
cover("clip_by_value", clip)
cover("where", where)
cover("add_n math.add_n math.accumulate_n", n_tensors)
cover("scalar_mul math.scalar_mul", scalar_mul)
