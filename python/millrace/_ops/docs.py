"""Sections of docstrings that many functions share, put in where the function has an example."""

from __future__ import annotations

import inspect
from typing import Any, Callable, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_RETURNS = """Returns
-------
Tensor or numpy.ndarray
    {returns} In a function that is traced a tensor, else an array."""

_RAISES = """Raises
------
InvalidArgumentError
    The operator does not take these dtypes, or the shapes do not go together.
TypeError
    A literal does not fit the dtype that it meets: nothing is converted silently."""

UNARY = (
    """Parameters
----------
{first} : tensor_like
    A tensor, an array, a number, or nested lists of numbers.
name : str, optional
    Accepted and ignored.""",
    "Of the shape of `{first}`.",
)

BINARY = (
    """Parameters
----------
x, y : tensor_like
    Both of one dtype; a literal takes that of the other one. Shapes broadcast as NumPy's do.
name : str, optional
    Accepted and ignored.""",
    "Of the shape to which both broadcast.",
)

REDUCTION = (
    """Parameters
----------
input_tensor : tensor_like
    What is reduced.
axis : int or sequence of int, optional
    Axes that go; negative ones count from the end. By default all do.
keepdims : bool, default False
    Whether the axes stay, with size 1.
name : str, optional
    Accepted and ignored.""",
    "What is left.",
)

INDEX = (
    """Parameters
----------
input : tensor_like
    Numbers.
axis : int, optional
    Which axis (0); a negative one counts from the end.
output_type : dtype_like, default "int64"
    Or int32.
name : str, optional
    Accepted and ignored.""",
    "Without that axis.",
)

STRING = (
    """Parameters
----------
input : tensor_like of string
    Bytes or str, of any shape.
encoding : str, default ""
    Only the default is built: bytes, of which ASCII letters are changed.
name : str, optional
    Accepted and ignored.""",
    "Of the shape of `input`.",
)


def documented(kind: tuple[str, str]) -> Callable[[F], F]:
    """Completes a docstring that is a summary and an example into one in NumPy's form."""

    def complete(function: F) -> F:
        first = next(iter(inspect.signature(function).parameters))
        text, _, example = inspect.cleandoc(function.__doc__ or "").partition("\n\n>>>")
        parameters, returns = (part.format(first=first) for part in kind)
        function.__doc__ = (
            "\n\n".join(
                [
                    text,
                    parameters,
                    _RETURNS.format(returns=returns),
                    _RAISES,
                    f"Examples\n--------\n>>>{example}",
                ]
            )
            + "\n"
        )
        return function

    return complete
