"""Complex numbers and mr.signal: against NumPy."""

import numpy as np
import pytest

import millrace as mr
from test_tensors import RNG, over

COMPLEX = [np.complex64, np.complex128]
LENGTHS = [1, 2, 3, 7, 8, 12, 17, 100, 256, 1000, 1009]


def numbers(dtype, *shape):
    return (RNG.normal(size=shape) + 1j * RNG.normal(size=shape)).astype(dtype)


def close(got, expected, dtype):
    assert got.dtype == dtype and got.shape == expected.shape
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    eps = 1e-5 if np.dtype(dtype).itemsize in (4, 8) and dtype != np.float64 else 1e-11
    np.testing.assert_allclose(got, expected, rtol=eps, atol=eps * scale)


# ---- complex numbers ----


@pytest.mark.parametrize("dtype", COMPLEX)
def test_arithmetic(dtype):
    x, y = numbers(dtype, 5, 3), numbers(dtype, 5, 3)
    for ours in (lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b):
        close(over(ours, x, y), ours(x, y), dtype)
    close(over(lambda a: a * 2 + 1j, x), x * 2 + 1j, dtype)
    real = x.real.dtype
    for ours, numpys in ((mr.math.real, np.real), (mr.math.imag, np.imag), (mr.abs, np.abs)):
        close(over(ours, x), numpys(x), real)
    close(over(mr.math.angle, x), np.angle(x), real)
    close(over(mr.math.conj, x), np.conj(x), dtype)
    close(mr.complex(x.real, x.imag), x, dtype)


@pytest.mark.parametrize("part", (mr.math.real, mr.math.conj))
def test_only_numbers_have_parts(part):
    assert part(np.array([2, -3])).tolist() == [2, -3]
    for value in (np.array([True]), np.array(["a"])):
        with pytest.raises(TypeError, match="takes numbers, not (bool|string)"):
            part(value)


def test_powers_of_narrow_integers_wrap_around():
    assert mr.pow(np.int16(-6), np.int16(7)) == -17792  # as int16: -279936
    assert over(mr.pow, np.array([3, -2], np.int8), np.array([4, 3], np.int8)).tolist() == [81, -8]


def test_values_are_moved_whole():
    x = numbers(np.complex128, 6, 2)
    ds = mr.Dataset.from_tensor_slices(x).shuffle(6, seed=1).batch(6)
    np.testing.assert_array_equal(
        np.sort_complex(next(iter(ds)).ravel()), np.sort_complex(x.ravel())
    )
    rows = mr.Dataset.range(1, 4).map(lambda n: mr.constant(x)[:n, 0]).padded_batch(3)
    got = next(iter(rows))
    assert got.dtype == np.complex128
    np.testing.assert_array_equal(got[0], [x[0, 0], 0, 0])
    chosen = over(lambda a: mr.where(mr.math.real(a) > 0, a, mr.zeros([2], mr.complex128)), x)
    np.testing.assert_array_equal(chosen, np.where(x.real > 0, x, 0))
    joined = over(lambda a: mr.concat([a, mr.reverse(a, [0])], 0), x)
    np.testing.assert_array_equal(joined, np.concatenate([x, x[:, ::-1]], 1))


def test_dtypes():
    assert mr.constant(1j).dtype == np.complex128
    assert mr.complex64.is_complex and not mr.complex64.is_floating
    assert mr.complex128.real_dtype is mr.float64 and mr.int8.real_dtype is mr.int8
    assert mr.cast([1.5], mr.complex64).tolist() == [1.5]
    assert mr.cast([1.5 + 2j], mr.int32).tolist() == [1]
    assert mr.cast(np.complex64([1 + 2j]), mr.complex128).dtype == np.complex128
    for refused in (
        lambda: mr.sort([1j]),
        lambda: mr.reduce_max([1j]),
        lambda: mr.as_string([1j]),
        lambda: mr.unique([1j]),
        lambda: mr.add(np.complex64([1]), np.complex128([1])),
    ):
        with pytest.raises(mr.errors.InvalidArgumentError, match="complex"):
            refused()
    with pytest.raises(TypeError, match="does not fit float32"):
        mr.add(np.float32([1]), 1j)


# ---- transforms ----


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("n", LENGTHS)
def test_transforms(dtype, n):
    x, real = numbers(dtype, 3, 2, n), np.dtype(dtype).type(0).real.dtype
    close(over(mr.signal.fft, x), np.fft.fft(x), dtype)
    close(over(mr.signal.ifft, x), np.fft.ifft(x), dtype)
    close(over(mr.signal.rfft, x.real), np.fft.rfft(x.real), dtype)
    close(over(lambda a: mr.signal.irfft(a, [n]), np.fft.rfft(x.real).astype(dtype)), x.real, real)
    for length in (n + 3, max(1, n - 1)):
        close(
            over(lambda a: mr.signal.rfft(a, [length]), x.real), np.fft.rfft(x.real, length), dtype
        )
        close(over(lambda a: mr.signal.irfft(a, [length]), x), np.fft.irfft(x, length), real)


def test_lengths_that_differ():
    x = RNG.normal(size=20)
    ds = mr.Dataset.range(1, 20).map(lambda n: mr.signal.rfft(mr.constant(x)[:n]))
    for n, got in enumerate(ds, 1):
        close(got, np.fft.rfft(x[:n]), np.complex128)
    with pytest.raises(ValueError, match="one axis or more"):
        mr.signal.fft(np.complex64(1))
    with pytest.raises(mr.errors.UnimplementedError, match="constant"):
        mr.Dataset.range(3).map(lambda n: mr.signal.rfft([1.0], [n]))


@pytest.mark.parametrize("n", [0, 1])
def test_axes_of_hardly_anything(n):
    """An axis of no values has a transform of none; that of one value is of no length, for irfft."""
    x = np.ones((3, n), np.complex64)
    for call, given in ((mr.signal.fft, x), (mr.signal.ifft, x), (mr.signal.rfft, x.real)):
        assert call(given).shape == over(call, given).shape == (3, n)
    assert over(lambda a: mr.signal.irfft(a, [2]), x).shape == (3, 2)
    rows = mr.Dataset.from_tensors(x).map(lambda a: mr.signal.irfft(a[:, : mr.shape(a)[1]]))
    if n == 0:
        assert mr.signal.irfft(x).shape == over(mr.signal.irfft, x).shape == (3, 0)
        assert next(iter(rows)).shape == (3, 0)
        return
    for call in (lambda: mr.signal.irfft(x), lambda: next(iter(rows))):
        with pytest.raises(ValueError, match="of size 1 is the transform of no values: give"):
            call()


def frames_of(x, length, step):
    return np.stack([x[i : i + length] for i in range(0, len(x) - length + 1, step)])


@pytest.mark.parametrize("size", [10, 11, 12, 3, 0])
@pytest.mark.parametrize("step", [1, 2, 5])
def test_frames(size, step):
    x = RNG.integers(0, 100, size)
    if size >= 4:
        np.testing.assert_array_equal(mr.signal.frame(x, 4, step), frames_of(x, 4, step))
    else:
        assert mr.signal.frame(x, 4, step).shape == (0, 4)
    filled = mr.signal.frame(x, 4, step, pad_end=True, pad_value=-1)
    whole = np.concatenate([x, [-1] * 20])
    expected = [whole[i : i + 4] for i in range(0, size, step)]
    np.testing.assert_array_equal(filled, np.reshape(expected, (-1, 4)))
    late = mr.Dataset.range(size, size + 1).map(
        lambda n: mr.signal.frame(mr.constant(whole)[:n], 4, step, True, -1)
    )
    np.testing.assert_array_equal(next(iter(late)), filled)


def test_the_way_from_samples_to_mel_bands():
    x = RNG.normal(size=(3, 2000)).astype(np.float32)
    window = np.hanning(257)[:-1].astype(np.float32)
    expected = np.stack([np.fft.rfft(frames_of(row, 256, 128) * window) for row in x])
    spectra = over(lambda a: mr.signal.stft(a, 256, 128), x)
    close(spectra, expected, np.complex64)
    matrix = mr.signal.linear_to_mel_weight_matrix(20, 129, 8000)
    assert matrix.shape == (129, 20) and (matrix >= 0).all() and (matrix[0] == 0).all()

    def features(a):
        energy = mr.abs(mr.signal.stft(a, 256, 128)) ** 2.0
        mel = mr.math.log(mr.matmul(energy, matrix) + 1e-6)
        return mr.signal.mfccs_from_log_mel_spectrograms(mel)[..., :13]

    assert over(features, x).shape == (3, 14, 13)


def test_cosine_transforms():
    x = RNG.normal(size=(3, 12))
    for norm, factor in ((None, 24.0), ("ortho", 1.0)):
        there = over(lambda a: mr.signal.dct(a, norm=norm), x)
        np.testing.assert_allclose(over(lambda a: mr.signal.idct(a, norm=norm), there), x * factor)
    with pytest.raises(mr.errors.UnimplementedError, match="type 1"):
        mr.signal.dct(x, type=1)


def test_windows():
    np.testing.assert_allclose(mr.signal.hann_window(9, periodic=False), np.hanning(9), atol=1e-6)
    np.testing.assert_allclose(mr.signal.hamming_window(8), np.hamming(9)[:-1], atol=1e-6)
    assert mr.signal.hann_window(1).tolist() == [1]
    with pytest.raises(mr.errors.UnimplementedError, match="behind the iterator"):
        mr.signal.kaiser_window(5)
