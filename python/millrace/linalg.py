"""Mirrors tf.linalg, as far as it is built."""

from ._ops.absent import not_built as _not_built
from ._ops.matrices import (
    adjoint as adjoint,
    band_part as band_part,
    cross as cross,
    diag as diag,
    diag_part as diag_part,
    einsum as einsum,
    eye as eye,
    global_norm as global_norm,
    l2_normalize as l2_normalize,
    matrix_transpose as matrix_transpose,
    matvec as matvec,
    norm as norm,
    normalize as normalize,
    set_diag as set_diag,
    tensor_diag as tensor_diag,
    tensor_diag_part as tensor_diag_part,
    tensordot as tensordot,
    trace as trace,
)
from ._ops.reductions import matmul as matmul

__getattr__ = _not_built(__name__)
