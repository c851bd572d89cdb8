"""Mirrors tf.audio."""

from ._base.hints import missing_name as _missing_name
from ._ops.sounds import decode_wav as decode_wav, encode_wav as encode_wav

__getattr__ = _missing_name(__name__)
