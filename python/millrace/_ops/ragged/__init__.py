"""Ragged tensors: rows of several lengths, as values and row splits."""
