"""Complex numbers: made of two floats, and taken apart. `name` means nothing."""

from __future__ import annotations

import math
from typing import Any

from .._graph.symbol import TensorLike
from .._graph.tensor import Tensor, apply1, compute_each
from .arrays import where
from .constants import zeros_like
from .docs import described
from .special import require_floats

_COMPLEX = "tensor_like: Complex numbers, or others, whose imaginary part is 0."


@described(
    "complex64 of float32, complex128 of float64.",
    real="tensor_like of float: float32 or float64.",
    imag="tensor_like of float: Of the same dtype; shapes broadcast as NumPy's do.",
)
def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Any:
    """Make complex numbers of their parts, element-wise.

    >>> mr.complex([1.0], [2.0])
    array([1.+2.j], dtype=complex64)
    """
    return apply1("complex", [real, imag])


def _is_complex(name: str, x: Tensor) -> bool:
    """Whether @x is complex; TypeError if it is no number."""
    if not (x.dtype.is_complex or x.dtype.is_floating or x.dtype.is_integer):
        raise TypeError(f"{name} takes numbers, not {x.dtype.name}")
    return x.dtype.is_complex


@described("Floats of the shape of `input`.", input=_COMPLEX)
def real(input: TensorLike, name: str | None = None) -> Any:
    """Give the real part, element-wise.

    >>> mr.math.real(mr.complex([1.0], [2.0]))
    array([1.], dtype=float32)
    """
    return compute_each(lambda x: apply1("real", [x]) if _is_complex("real", x) else x, [input])


@described("Floats of the shape of `input`.", input=_COMPLEX)
def imag(input: TensorLike, name: str | None = None) -> Any:
    """Give the imaginary part, element-wise.

    >>> mr.math.imag(mr.complex([1.0], [2.0]))
    array([2.], dtype=float32)
    """
    return compute_each(
        lambda x: apply1("imag", [x]) if x.dtype.is_complex else zeros_like(x), [input]
    )


@described("Floats of the shape of `input`.", input=_COMPLEX)
def angle(input: TensorLike, name: str | None = None) -> Any:
    """Give the angle in radians, element-wise: of other numbers pi where they are negative, else 0.

    >>> mr.math.angle(mr.complex([1.0], [0.0]))
    array([0.], dtype=float32)
    """

    def body(x: Tensor) -> Any:
        if x.dtype.is_complex:
            return apply1("angle", [x])
        require_floats("angle", x.dtype)
        zeros = apply1("zeros_like", [x])
        return where(x < 0, zeros + math.pi, zeros)

    return compute_each(body, [input])


@described("Of the shape and dtype of `x`.", x=_COMPLEX)
def conj(x: TensorLike, name: str | None = None) -> Any:
    """Turn the sign of the imaginary part, element-wise.

    >>> mr.math.conj(mr.complex([1.0], [2.0]))
    array([1.-2.j], dtype=complex64)
    """
    return compute_each(lambda v: apply1("conj", [v]) if _is_complex("conj", v) else v, [x])
