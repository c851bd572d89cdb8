"""Mirrors tf.signal, as far as it is built."""

from ._ops.absent import not_built as _not_built
from ._ops.signals import (
    dct as dct,
    fft as fft,
    frame as frame,
    hamming_window as hamming_window,
    hann_window as hann_window,
    idct as idct,
    ifft as ifft,
    irfft as irfft,
    linear_to_mel_weight_matrix as linear_to_mel_weight_matrix,
    mfccs_from_log_mel_spectrograms as mfccs_from_log_mel_spectrograms,
    rfft as rfft,
    stft as stft,
)

__getattr__ = _not_built(__name__)
