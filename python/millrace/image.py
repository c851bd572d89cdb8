"""Mirrors tf.image, as far as it is built."""

from ._base.hints import missing_name as _missing_name
from ._ops.absent import decode_gif as decode_gif
from ._ops.codecs import (
    decode_and_crop_jpeg as decode_and_crop_jpeg,
    decode_bmp as decode_bmp,
    decode_image as decode_image,
    decode_jpeg as decode_jpeg,
    decode_png as decode_png,
    encode_jpeg as encode_jpeg,
    encode_png as encode_png,
    extract_jpeg_shape as extract_jpeg_shape,
    is_jpeg as is_jpeg,
)

__getattr__ = _missing_name(__name__)
