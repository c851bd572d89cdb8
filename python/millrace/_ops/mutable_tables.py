"""Mirrors tf.lookup.experimental: tables that change, which are not supported."""

from .absent import absent as _absent

_constant = (
    "tables are constants of the functions that look something up: use mr.lookup.StaticHashTable, "
    "made of what is known before; Dataset.unique and reduce find out what there is"
)
MutableHashTable = _absent("MutableHashTable", _constant, "mr.lookup.experimental.")
DenseHashTable = _absent("DenseHashTable", _constant, "mr.lookup.experimental.")

__all__ = ["DenseHashTable", "MutableHashTable"]
