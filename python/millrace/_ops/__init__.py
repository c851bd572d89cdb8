"""Tensor functions; the public modules (math, strings, ...) say which belongs where."""
