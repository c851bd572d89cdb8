"""
Random expressions of the components of an element, with their dtypes and shapes: what the functions of
a pipeline are made of.

Their values are such that both packages must agree to the bit, because an element may be filtered by
them later: integers that wrap, floats that are multiples of 1/4, no quotient but of powers of two. What is
only right within a tolerance is tested call by call.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, Callable

Shape = tuple["int | None", ...] | None  # None: not even the rank is known


@dataclass(frozen=True)
class Value:
    """An expression, and what is known of its value."""

    text: str
    dtype: str
    shape: Shape

    @property
    def rank(self) -> int | None:
        return None if self.shape is None else len(self.shape)

    @property
    def is_number(self) -> bool:
        return self.dtype not in ("string", "bool")


def components(spec: Any, text: str) -> list[Value]:
    """The dense tensors of the structure @spec, which the expression @text names."""
    if isinstance(spec, dict):
        return [v for key in spec for v in components(spec[key], f"{text}[{key!r}]")]
    if isinstance(spec, (tuple, list)):
        return [v for i, part in enumerate(spec) for v in components(part, f"{text}[{i}]")]
    if type(spec).__name__ != "TensorSpec":
        return []
    shape = None if spec.shape.rank is None else tuple(spec.shape.as_list())
    return [Value(text, spec.dtype.name, shape)]


def parameters(spec: Any) -> tuple[str, list[Value]]:
    """The parameters of a function of elements like @spec, and their dense tensors."""
    if isinstance(spec, (tuple, list)):
        names = [f"x{i}" for i in range(len(spec))]
        return ", ".join(names), [v for n, s in zip(names, spec) for v in components(s, n)]
    return "x", components(spec, "x")


def literal(r: random.Random, dtype: str) -> str:
    if dtype == "bool":
        return r.choice(("True", "False"))
    if dtype == "string":
        return r.choice(("'a'", "'-'", "''"))
    if dtype.startswith("float"):
        return r.choice(("0.5", "2.0", "-1.0", "4.0", "0.25"))
    return r.choice(
        ("1", "2", "3", "7", "100") if dtype.startswith("u") else ("1", "2", "3", "-1", "7")
    )


def wrapped(text: str, dtype: str, shape: Shape) -> Value:
    return Value(text, dtype, shape)


def _arithmetic(r: random.Random, x: Value, others: list[Value]) -> Value:
    partners = [o for o in others if o.dtype == x.dtype and (o.shape == x.shape or o.shape == ())]
    other = r.choice(partners).text if partners and r.random() < 0.5 else literal(r, x.dtype)
    op = r.choice(("+", "-", "*")) if x.dtype.startswith("float") else r.choice("+-*&|^")
    return wrapped(f"({x.text} {op} {other})", x.dtype, x.shape)


def _divided(r: random.Random, x: Value, others: list[Value]) -> Value:
    op = "/ 2.0" if x.dtype.startswith("float") else r.choice(("% 3", "// 2", "% 5", "// 7"))
    return wrapped(f"({x.text} {op})", x.dtype, x.shape)


def _elementwise(r: random.Random, x: Value, others: list[Value]) -> Value:
    limit = literal(r, x.dtype)
    options = [f"m.maximum({x.text}, {limit})", f"m.minimum({x.text}, {limit})"]
    if not x.dtype.startswith("u"):
        options += [f"m.abs({x.text})", f"-{x.text}", f"m.sign({x.text})"]
    if x.dtype in ("float32", "float64", "int32", "int64"):
        options += [f"m.square({x.text} % 4)" if "int" in x.dtype else f"m.floor({x.text})"]
        options += [f"m.clip_by_value({x.text}, {'0, 9' if 'int' in x.dtype else '-2.0, 8.0'})"]
    return wrapped(f"({r.choice(options)})", x.dtype, x.shape)


def _compared(r: random.Random, x: Value, others: list[Value]) -> Value:
    op = r.choice(("<", "<=", ">", ">="))
    text = f"({x.text} {op} {literal(r, x.dtype)})"
    if r.random() < 0.3:
        text = f"m.not_equal({x.text}, {literal(r, x.dtype)})"
    return wrapped(text, "bool", x.shape)


def _cast(r: random.Random, x: Value, others: list[Value]) -> Value:
    dtype = r.choice(("int32", "int64", "float32", "float64", "int16", "uint8"))
    # Out of range a cast is anything.
    text = f"({x.text} % 50)" if "int" in x.dtype else f"m.clip_by_value({x.text}, 0.0, 50.0)"
    return wrapped(f"m.cast({text}, m.{dtype})", dtype, x.shape)


def _chosen(r: random.Random, x: Value, others: list[Value]) -> Value:
    limit, other = literal(r, x.dtype), r.choice((x.text, literal(r, x.dtype)))
    zero = f"m.zeros_like({x.text})"
    return wrapped(f"m.where({x.text} > {limit}, {x.text}, {zero} + {other})", x.dtype, x.shape)


def _reduced(r: random.Random, x: Value, others: list[Value]) -> Value:
    functions = ("reduce_sum", "reduce_max", "reduce_min", "size", "rank")
    name = r.choice(functions)
    if x.rank and name.startswith("reduce") and r.random() < 0.4:
        axis = r.randrange(x.rank)
        keep = r.random() < 0.3
        rest = [1] if keep else []
        shape = x.shape[:axis] + tuple(rest) + x.shape[axis + 1 :]  # type: ignore[index]
        extra = ", keepdims=True" if keep else ""
        return wrapped(f"m.{name}({x.text}, axis={axis}{extra})", x.dtype, shape)
    dtype = x.dtype if name.startswith("reduce") else "int32"
    return wrapped(f"m.{name}({x.text})", dtype, ())


def _reshaped(r: random.Random, x: Value, others: list[Value]) -> Value:
    if x.shape is None:
        return wrapped(f"m.reshape({x.text}, [-1])", x.dtype, (None,))
    options = [(f"m.expand_dims({x.text}, 0)", (1, *x.shape))]
    options.append((f"m.reshape({x.text}, [-1])", (None,)))
    options.append((f"m.stack([{x.text}, {x.text}])", (2, *x.shape)))
    if x.shape:
        first = None if x.shape[0] is None else 2 * x.shape[0]
        options.append((f"m.concat([{x.text}, {x.text}], 0)", (first, *x.shape[1:])))
        options.append((f"m.reverse({x.text}, [0])", x.shape))
        options.append((f"m.transpose({x.text})", x.shape[::-1]))
        options.append((f"{x.text}[:2]", (None, *x.shape[1:])))
        options.append((f"m.repeat({x.text}, 2, axis=0)", (first, *x.shape[1:])))
        if x.dtype in ("int32", "int64"):
            options.append((f"m.cumsum({x.text})", x.shape))
    if x.shape and x.rank == 1 and x.is_number:
        options.append((f"m.boolean_mask({x.text}, {x.text} > {literal(r, x.dtype)})", (None,)))
    text, shape = r.choice(options)
    return wrapped(text, x.dtype, shape)


def _made(r: random.Random, x: Value, others: list[Value]) -> Value:
    count = f"m.cast({x.text} % 5, m.int32)" if "int" in x.dtype else "3"
    if x.shape == () and r.random() < 0.6:
        options = [(f"m.range({count})", "int32", (None,))]
        options += [(f"m.fill([{count}], {x.text})", x.dtype, (None,))]
        if "int" in x.dtype and x.dtype in ("int32", "int64", "uint8"):
            options.append((f"m.one_hot({x.text} % 4, 4)", "float32", (4,)))
        text, dtype, shape = r.choice(options)
        return wrapped(text, dtype, shape)
    return wrapped(f"m.shape({x.text})", "int32", (x.rank,))


def _number_as_string(r: random.Random, x: Value, others: list[Value]) -> Value:
    if "int" not in x.dtype:
        return _compared(r, x, others)
    return wrapped(f"m.as_string({x.text})", "string", x.shape)


def _of_string(r: random.Random, x: Value, others: list[Value]) -> Value:
    t = x.text
    options: list[tuple[str, str, Shape]] = [
        (f"m.strings.length({t})", "int32", x.shape),
        (f"m.strings.join([{t}, {t}], '-')", "string", x.shape),
        (f"m.strings.substr({t}, 0, 1)", "string", x.shape),
        (f"m.strings.strip({t})", "string", x.shape),
        (f"m.strings.lower({t})", "string", x.shape),
        (f"m.strings.regex_replace({t}, '[0-9]', 'n')", "string", x.shape),
        (f"m.strings.regex_full_match({t}, '[a-z0-9-]+')", "bool", x.shape),
        (f"m.equal({t}, 'a')", "bool", x.shape),
        (
            f"m.strings.to_number('0' + m.strings.regex_replace({t}, '[^0-9]', '') , m.int64)",
            "int64",
            x.shape,
        ),
    ]
    if x.rank == 0:
        options.append((f"m.strings.split({t}, '1')", "string", (None,)))
    if x.rank:
        options.append((f"m.strings.reduce_join({t}, separator='+')", "string", ()))
    options = [o for o in options if "to_number" not in o[0]]
    text, dtype, shape = r.choice(options)
    return wrapped(text, dtype, shape)


def _of_bool(r: random.Random, x: Value, others: list[Value]) -> Value:
    options: list[tuple[str, str, Shape]] = [
        (f"m.logical_not({x.text})", "bool", x.shape),
        (f"m.cast({x.text}, m.int32)", "int32", x.shape),
        (f"m.reduce_any({x.text})", "bool", ()),
        (f"m.reduce_all({x.text})", "bool", ()),
        (f"m.where({x.text}, 1, 2)", "int32", x.shape),
        (f"({x.text} & {x.text})", "bool", x.shape),
    ]
    text, dtype, shape = r.choice(options)
    return wrapped(text, dtype, shape)


_Rule = Callable[[random.Random, Value, list[Value]], Value]
_OF_NUMBERS: list[_Rule] = [
    _arithmetic,
    _arithmetic,
    _divided,
    _elementwise,
    _compared,
    _cast,
    _chosen,
    _reduced,
    _reshaped,
    _reshaped,
    _made,
    _number_as_string,
]


def step(r: random.Random, x: Value, others: list[Value]) -> Value:
    """Something made of @x, and perhaps of @others."""
    if x.dtype == "string":
        return _of_string(r, x, others)
    if x.dtype == "bool":
        return _of_bool(r, x, others)
    return r.choice(_OF_NUMBERS)(r, x, others)


def expression(r: random.Random, values: list[Value], depth: int = 3) -> Value:
    """Something made of one of @values, or of several."""
    x = r.choice(values)
    for _ in range(r.randrange(1, depth + 1)):
        x = step(r, x, values)
    return x


def scalar(r: random.Random, values: list[Value], kind: str) -> str:
    """The text of a scalar int64 below 100 ("int"), or of a scalar bool ("bool")."""
    x = r.choice(values)
    if x.dtype == "string":
        x = Value(f"m.strings.length({x.text})", "int32", x.shape)
    if x.dtype == "bool":
        x = Value(f"m.cast({x.text}, m.int32)", "int32", x.shape)
    if x.shape != ():
        x = Value(f"m.reduce_sum({x.text})", x.dtype, ())
    if "float" in x.dtype:
        x = Value(f"m.cast(m.clip_by_value({x.text}, -99.0, 99.0), m.int64)", "int64", ())
    number = f"m.cast({x.text} % 97, m.int64)"
    if kind == "int":
        return number
    return f"({number} % {r.randrange(2, 6)} {r.choice(('!=', '<', '>'))} 1)".replace("!= 1", "> 0")


def structure(r: random.Random, values: list[Value], parameters: str) -> str:
    """The text of what a function returns: a tensor, a tuple, a dict, one in the other."""
    kind = r.random()
    one = expression(r, values).text
    if kind < 0.5:
        return one
    two = expression(r, values).text if r.random() < 0.6 else r.choice(values).text
    if kind < 0.75:
        return f"({one}, {two})"
    if kind < 0.9:
        return f"{{'a': {one}, 'b': {two}}}"
    return f"({one}, {{'c': {two}}})"
