"""Mirrors tf.strings, as far as it is built."""

from ._hints import missing_name as _missing_name
from ._ops import as_string, substr, to_number  # noqa: F401
from ._ops import regex_full_match, regex_replace, string_split as split, to_hash_bucket_fast  # noqa: F401
from ._ops import string_join as join  # noqa: F401
from ._ops import string_length as length  # noqa: F401
from ._ops import string_lower as lower  # noqa: F401
from ._ops import string_strip as strip  # noqa: F401
from ._ops import string_upper as upper  # noqa: F401


__getattr__ = _missing_name(__name__)
