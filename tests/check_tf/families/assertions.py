"""Assertions: whether they hold, of the values outside of functions and of elements inside."""

from __future__ import annotations

import random

from calls import Call, cover
from values import ALL, FLOATS, NUMBERS, shape, shapes_that_broadcast, tensor

_MESSAGE = ", message='not so'"


def _asserted(call: str, *tensors: str) -> Call:
    """@call, then its first argument as the result, so that there is one inside of functions."""
    letters = ", ".join("ab"[: len(tensors)])
    return Call(f"lambda {letters}: ({call}, m.identity(a))[1]", tensors, ways=("outside", "map"))


def _checked(call: str, *tensors: str) -> Call:
    """The same inside control_dependencies, as graphs of TensorFlow need it."""
    letters = ", ".join("ab"[: len(tensors)])
    body = f"[m.identity(a) for _ in [m.control_dependencies([{call}])]][0]"
    return Call(f"lambda {letters}: {body}", tensors, ways=("outside",))


def two(r: random.Random, name: str) -> Call:
    dtype = r.choice(NUMBERS)
    one, other = shapes_that_broadcast(r)
    text = tensor(r, dtype, one, "small")
    same = text if r.random() < 0.4 else tensor(r, dtype, other, "small")
    return _asserted(f"m.{name}(a, b{r.choice(('', _MESSAGE))})", text, same)


def one(r: random.Random, name: str) -> Call:
    pool = r.choice(("small", "positive"))
    dtype = r.choice(FLOATS + ("int32", "int64"))
    return _asserted(f"m.{name}(a{r.choice(('', _MESSAGE))})", tensor(r, dtype, pool=pool))


def kind(r: random.Random, name: str) -> Call:
    return _asserted(f"m.{name}(a)", tensor(r, r.choice(ALL)))


def of_type(r: random.Random, name: str) -> Call:
    dtype = r.choice(ALL)
    other = dtype if r.random() < 0.5 else r.choice(ALL)
    return _asserted(f"m.{name}(a, m.{other})", tensor(r, dtype))


def rank(r: random.Random, name: str) -> Call:
    wanted = f"[{r.randrange(3)}, 1]" if name.endswith("_in") else str(r.randrange(4))
    return _asserted(f"m.{name}(a, {wanted})", tensor(r, r.choice(ALL), shape(r)))


def condition(r: random.Random, name: str) -> Call:
    return _asserted(f"m.{name}(a, ['it was', a])", tensor(r, "bool", ()))


def numerics(r: random.Random, name: str) -> Call:
    pool = r.choice(("any", "ordinary"))
    call = f"lambda a: m.{name}(a, 'not a number')"
    return Call(call, (tensor(r, r.choice(FLOATS), pool=pool),))


def numeric(r: random.Random, name: str) -> Call:
    return Call(f"lambda a: m.{name}(a)", (tensor(r, r.choice(ALL)),), ways=("outside",))


def dependencies(r: random.Random, name: str) -> Call:
    return _checked("m.debugging.assert_non_negative(a)", tensor(r, "int32", pool="small"))


cover(
    "assert_equal debugging.assert_equal debugging.assert_none_equal assert_greater"
    " debugging.assert_greater debugging.assert_greater_equal assert_less debugging.assert_less"
    " debugging.assert_less_equal debugging.assert_near",
    two,
)
cover(
    "debugging.assert_negative debugging.assert_non_negative debugging.assert_non_positive"
    " debugging.assert_positive",
    one,
)
cover("debugging.assert_integer debugging.assert_scalar", kind)
cover("debugging.assert_type", of_type)
cover(
    "assert_rank debugging.assert_rank debugging.assert_rank_at_least debugging.assert_rank_in",
    rank,
)
cover("Assert debugging.Assert", condition)
cover("debugging.check_numerics debugging.assert_all_finite", numerics)
cover("debugging.is_numeric_tensor", numeric)
cover("control_dependencies", dependencies)
