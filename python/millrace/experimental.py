"""Mirrors tf.data.experimental, as far as it is built."""

from . import service  # noqa: F401
from .dataset import AUTOTUNE, INFINITE_CARDINALITY, UNKNOWN_CARDINALITY  # noqa: F401
from .options import AutotuneOptions, ThreadingOptions  # noqa: F401


def cardinality(dataset):
    """dataset.cardinality()"""
    return dataset.cardinality()


def get_single_element(dataset):
    """dataset.get_single_element()"""
    return dataset.get_single_element()
