"""Mirrors tf.strings."""

from ._base.hints import missing_name as _missing_name
from ._ops.formatting import format as format
from ._ops.text import (
    as_string as as_string,
    regex_full_match as regex_full_match,
    regex_replace as regex_replace,
    string_join as join,
    string_length as length,
    string_lower as lower,
    string_split as split,
    string_strip as strip,
    string_upper as upper,
    substr as substr,
    to_hash_bucket as to_hash_bucket,
    to_hash_bucket_fast as to_hash_bucket_fast,
    to_hash_bucket_strong as to_hash_bucket_strong,
    to_number as to_number,
)
from ._ops.unicode import (
    unicode_decode as unicode_decode,
    unicode_decode_with_offsets as unicode_decode_with_offsets,
    unicode_encode as unicode_encode,
    unicode_script as unicode_script,
    unicode_split as unicode_split,
    unicode_split_with_offsets as unicode_split_with_offsets,
    unicode_transcode as unicode_transcode,
)
from ._ops.words import (
    bytes_split as bytes_split,
    ngrams as ngrams,
    reduce_join as reduce_join,
    unsorted_segment_join as unsorted_segment_join,
)

__all__ = [
    "as_string",
    "bytes_split",
    "format",
    "join",
    "length",
    "lower",
    "ngrams",
    "reduce_join",
    "regex_full_match",
    "regex_replace",
    "split",
    "strip",
    "substr",
    "to_hash_bucket",
    "to_hash_bucket_fast",
    "to_hash_bucket_strong",
    "to_number",
    "unicode_decode",
    "unicode_decode_with_offsets",
    "unicode_encode",
    "unicode_script",
    "unicode_split",
    "unicode_split_with_offsets",
    "unicode_transcode",
    "unsorted_segment_join",
    "upper",
]

__getattr__ = _missing_name(__name__)
