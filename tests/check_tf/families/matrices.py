"""Products, diagonals and norms; blocks of pixels as channels."""

from __future__ import annotations

import random

from calls import Call, cover, of
from values import FLOATS, NUMBERS, shape, tensor

_DTYPES = ("int32", "float32", "float64")


def matrix(r: random.Random, name: str, rank: int = 2) -> Call:
    return of(name, tensor(r, r.choice(_DTYPES), shape(r, rank), "small"))


def square(r: random.Random, name: str) -> Call:
    n = r.randrange(1, 4)
    dims = r.choice(((n, n), (2, n, n), (n, n + 1)))
    return of(name, tensor(r, r.choice(_DTYPES), dims, "small"))


def einsum(r: random.Random, name: str) -> Call:
    text, one, two = r.choice(
        (
            ("ij,jk->ik", (2, 3), (3, 2)),
            ("ij,ij->i", (2, 3), (2, 3)),
            ("bij,bjk->bik", (2, 1, 3), (2, 3, 2)),
            ("i,j->ij", (3,), (2,)),
            ("ij,jk", (2, 3), (3, 1)),
        )
    )
    dtype = r.choice(_DTYPES)
    texts = (tensor(r, dtype, one, "small"), tensor(r, dtype, two, "small"))
    return Call(f"lambda a, b: m.{name}({text!r}, a, b)", texts)


def tensordot(r: random.Random, name: str) -> Call:
    dtype = r.choice(_DTYPES)
    axes, one, two = r.choice(
        (("1", (2, 3), (3, 2)), ("2", (2, 3), (2, 3)), ("[[0], [1]]", (2, 3), (3, 2)))
    )
    return of(name, tensor(r, dtype, one, "small"), tensor(r, dtype, two, "small"), rest=axes)


def matvec(r: random.Random, name: str) -> Call:
    dtype = r.choice(_DTYPES)
    return of(name, tensor(r, dtype, (2, 3), "small"), tensor(r, dtype, (3,), "small"))


def cross(r: random.Random, name: str) -> Call:
    dtype, dims = r.choice(_DTYPES), r.choice(((3,), (2, 3)))
    return of(name, tensor(r, dtype, dims, "small"), tensor(r, dtype, dims, "small"))


def band(r: random.Random, name: str) -> Call:
    rest = f"{r.randrange(-1, 3)}, {r.randrange(-1, 3)}"
    return of(name, tensor(r, r.choice(NUMBERS), (3, 4)), rest=rest)


def clipped(r: random.Random, name: str) -> Call:
    dtype = r.choice(("float32", "float64"))
    if name == "clip_by_norm":
        return of(name, tensor(r, dtype, shape(r, 1), "ordinary"), rest="2.0")
    texts = (tensor(r, dtype, (2,), "ordinary"), tensor(r, dtype, (2, 3), "ordinary"))
    rest = ", 2.0" if name == "clip_by_global_norm" else ""
    return Call(f"lambda a, b: m.{name}([a, b]{rest})", texts, ways=("outside", "map"))


def polyval(r: random.Random, name: str) -> Call:
    coefficients = [r.randrange(-3, 4) / 2 for _ in range(r.randrange(4))]
    return Call(f"lambda a: m.{name}({coefficients}, a)", (tensor(r, "float32", pool="small"),))


def in_top_k(r: random.Random, name: str) -> Call:
    targets = f"np.array({[r.randrange(4) for _ in range(2)]}, np.int32)"
    predictions = tensor(r, "float32", (2, 4), "small")
    return Call(f"lambda a, b: m.{name}(a, b, {r.randrange(1, 4)})", (targets, predictions))


def lbeta(r: random.Random, name: str) -> Call:
    return of(name, tensor(r, r.choice(("float32", "float64")), shape(r, 1), "positive"))


def blocks(r: random.Random, name: str) -> Call:
    dims = (1, 2, 4, 4) if name.endswith("depth_to_space") else (1, 4, 2, 1)
    return of(name, tensor(r, r.choice(("float32", "uint8")), dims), rest="2")


def moments(r: random.Random, name: str) -> Call:
    rest = r.choice(("[0]", "[1]", "[0, 1]", "[0], keepdims=True"))
    return of(name, tensor(r, r.choice(FLOATS), (2, 3), "ordinary"), rest=rest)


cover("einsum linalg.einsum", einsum)
cover("tensordot linalg.tensordot", tensordot)
cover("linalg.matvec", matvec)
cover("linalg.cross", cross)
cover("linalg.band_part", band)
cover("linalg.adjoint linalg.matrix_transpose", matrix)
cover("linalg.trace", matrix)
cover("linalg.tensor_diag", matrix, 1)
cover("linalg.tensor_diag_part", square)
cover("clip_by_norm clip_by_global_norm linalg.global_norm", clipped)
cover("math.polyval", polyval)
cover("math.in_top_k nn.in_top_k", in_top_k)
cover("math.lbeta", lbeta)
cover("nn.depth_to_space nn.space_to_depth", blocks)
cover("nn.l2_loss", matrix, 0)
cover("nn.moments", moments)
