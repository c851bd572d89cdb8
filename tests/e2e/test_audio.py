"""mr.audio: WAV files as TensorFlow reads and writes them."""

import struct

import numpy as np
import pytest

import millrace as mr

SAMPLES = struct.pack("<6h", 0, 1, -1, 32767, -32768, 100)
VALUES = np.array([0, 1, -1, 32767, -32768, 100], np.float32) / 32768


def wav(data=SAMPLES, channels=1, rate=8000, bits=16, form=1, size=16, **more):
    per_sample = more.get("per_sample", channels * bits // 8)
    head = struct.pack(
        "<HHIIHH", form, channels, rate, more.get("a_second", rate * per_sample), per_sample, bits
    )
    body = more.get("wave", b"WAVE") + b"fmt " + struct.pack("<I", size) + head
    body += bytes(max(size - 16, 0)) + more.get("before", b"")
    body += b"data" + struct.pack("<I", more.get("said", len(data))) + data + more.get("after", b"")
    return more.get("riff", b"RIFF") + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("channels", [1, 2, 3])
def test_decode_wav(channels):
    audio, rate = mr.audio.decode_wav(wav(channels=channels, rate=44100))
    assert audio.dtype == np.float32 and rate.dtype == np.int32 and rate == 44100
    np.testing.assert_array_equal(audio, VALUES.reshape(-1, channels))


def test_channels_and_samples_that_are_desired():
    stereo = VALUES.reshape(3, 2)
    decode = lambda **how: mr.audio.decode_wav(wav(channels=2), **how).audio
    np.testing.assert_array_equal(decode(desired_channels=1), stereo[:, :1])
    np.testing.assert_array_equal(decode(desired_channels=3), stereo[:, [0, 1, 1]])
    assert decode(desired_channels=0).shape == (3, 0)
    np.testing.assert_array_equal(decode(desired_samples=2), stereo[:2])
    longer = decode(desired_samples=5)
    np.testing.assert_array_equal(longer[:3], stereo)
    assert longer.shape == (5, 2) and (longer[3:] == 0).all()
    for how in ("desired_channels", "desired_samples"):
        with pytest.raises(mr.errors.InvalidArgumentError, match=f"{how} is -2"):
            decode(**{how: -2})


@pytest.mark.parametrize(
    "data",
    [
        wav(size=18),
        wav(before=b"LIST\3\0\0\0abc"),
        wav(after=b"id3 \2\0\0\0ab"),
        wav(riff=b"RIFF", after=b"junk\xff\0\0\0"),
    ],
)
def test_other_chunks(data):
    np.testing.assert_array_equal(mr.audio.decode_wav(data).audio[:, 0], VALUES)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "ends early"),
        (wav(riff=b"RIFX"), "'RIFX' where 'RIFF' is due"),
        (wav(wave=b"AVI "), "'AVI ' where 'WAVE' is due"),
        (wav(bits=8), "format 1 of 8 bits"),
        (wav(form=3), "format 3 of 16 bits"),
        (wav(size=40), "a format of 40 bytes"),
        (wav(channels=0), "no channels"),
        (wav(per_sample=4), "4 bytes a sample"),
        (wav(a_second=1), "1 bytes a second"),
        (wav(SAMPLES[:-1]), "ends early"),
        (wav(said=100), "ends early: 12 bytes where 100 are due"),
        (wav(said=0xFFFFFFFF), "a chunk of 4294967295 bytes"),
        (wav(after=b"data\0\0\0\0"), "more than one chunk of data"),
        (wav(before=b"LIST\xff\xff\0\0"), "no chunk of data"),
        (wav()[:36], "no chunk of data"),
    ],
)
def test_what_is_no_such_file(data, message):
    with pytest.raises(mr.errors.InvalidArgumentError, match=message):
        mr.audio.decode_wav(data)


def test_encode_wav():
    audio = np.array([[0, 0.5], [1, -1], [1.5, -1.5], [np.nan, 1e-5], [0.3, -0.3]], np.float32)
    want = struct.pack("<10h", 0, 16384, 32767, -32768, 32767, -32768, 0, 0, 9830, -9830)
    assert mr.audio.encode_wav(audio, 44100) == wav(want, channels=2, rate=44100)
    assert mr.audio.encode_wav(audio[:0], 8000) == wav(b"", channels=2)
    halves = np.array([[0.5], [1.5], [-0.5], [-1.5]], np.float32) / 32768
    assert mr.audio.encode_wav(halves, 8000) == wav(struct.pack("<4h", 1, 2, -1, -2))
    with pytest.raises(mr.errors.InvalidArgumentError, match="0 channels"):
        mr.audio.encode_wav(audio[:, :0], 8000)
    for rate in (0, -1):
        with pytest.raises(mr.errors.InvalidArgumentError, match=f"a sample rate of {rate}"):
            mr.audio.encode_wav(audio, rate)


def test_what_the_header_of_wav_holds():
    """It has the bytes of a sample of all channels in 16 bits, those of a second in 32."""
    most = mr.audio.encode_wav(np.zeros((1, 32767), np.float32), 65538)
    assert len(most) == 44 + 65534
    assert struct.unpack("<HIIH", most[22:34]) == (32767, 65538, 65538 * 65534, 65534)
    for channels, rate, text in (
        (32768, 8000, "32768 channels, there may be 1 to 32767"),
        (32767, 65539, "a sample rate of 65539, of 32767 channels it may be 1 to 65538"),
    ):
        with pytest.raises(mr.errors.InvalidArgumentError, match=text):
            mr.audio.encode_wav(np.zeros((1, channels), np.float32), rate)


def test_in_a_pipeline():
    files = [wav(), wav(SAMPLES * 3, channels=2)]
    ds = mr.Dataset.from_tensor_slices(files).map(mr.audio.decode_wav)
    assert ds.element_spec.audio == mr.TensorSpec([None, None], mr.float32)
    first, second = ds
    assert first.audio.shape == (6, 1) and second.audio.shape == (9, 2)
    fixed = mr.Dataset.from_tensor_slices(files).map(
        lambda x: mr.audio.decode_wav(x, desired_channels=1, desired_samples=4).audio
    )
    assert fixed.element_spec == mr.TensorSpec([4, 1], mr.float32)
    again = ds.map(lambda sound: mr.audio.encode_wav(sound.audio, sound.sample_rate))
    assert list(again) == files
