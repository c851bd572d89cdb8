"""Complex numbers, spectra and filter banks."""

from __future__ import annotations

import random

from calls import Call, cover, of
from values import shape, tensor


def complexes(r: random.Random, name: str) -> Call:
    dtype, dims = r.choice(("float32", "float64")), shape(r)
    return of(name, tensor(r, dtype, dims, "ordinary"), tensor(r, dtype, dims, "ordinary"))


def fft(r: random.Random, name: str) -> Call:
    dims = r.choice(((4,), (3,), (2, 5), (1,)))
    texts = (tensor(r, "float32", dims, "ordinary"), tensor(r, "float32", dims, "ordinary"))
    return Call(f"lambda a, b: m.{name}(m.complex(a, b))", texts, slack=1e-5)


def mel(r: random.Random, name: str) -> Call:
    bins = f"{r.randrange(3, 20)}, {r.randrange(5, 40)}"
    rest = r.choice(("", ", 8000", ", 8000, 100.0, 3000.0"))
    return Call(f"m.{name}({bins}{rest})", slack=1e-5)


def mfccs(r: random.Random, name: str) -> Call:
    return of(name, tensor(r, "float32", (2, r.randrange(1, 9)), "ordinary"), slack=1e-5)


cover("complex", complexes)
cover("signal.fft signal.ifft", fft)
cover("signal.linear_to_mel_weight_matrix", mel)
cover("signal.mfccs_from_log_mel_spectrograms", mfccs)
