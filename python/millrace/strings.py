"""Mirrors tf.strings, as far as it is built."""

from ._base.hints import missing_name as _missing_name
from ._ops.text import (
    as_string as as_string,
    reduce_join as reduce_join,
    regex_full_match as regex_full_match,
    regex_replace as regex_replace,
    string_join as join,
    string_length as length,
    string_lower as lower,
    string_split as split,
    string_strip as strip,
    string_upper as upper,
    substr as substr,
    to_hash_bucket_fast as to_hash_bucket_fast,
    to_number as to_number,
)

__all__ = [
    "as_string",
    "join",
    "length",
    "lower",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket_fast",
    "to_number",
    "upper",
]

__getattr__ = _missing_name(__name__)
