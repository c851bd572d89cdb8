"""Mirrors tf.linalg, as far as it is built."""

from ._ops import matmul  # noqa: F401
