"""Tensors as strings (parse_tensor, serialize_tensor), and bytes as letters (base64)."""

from __future__ import annotations

import base64

import numpy as np
import pytest

import millrace as mr

# What TensorFlow writes: the number of the dtype, and where its values are if they are no content.
DTYPES = {
    mr.float32: (1, 5),
    mr.float64: (2, 6),
    mr.int32: (3, 7),
    mr.uint8: (4, 7),
    mr.int16: (5, 7),
    mr.int8: (6, 7),
    mr.complex64: (8, 9),
    mr.int64: (9, 10),
    mr.bool: (10, 11),
    mr.uint16: (17, 7),
    mr.complex128: (18, 12),
    mr.float16: (19, 13),
    mr.uint32: (22, 16),
    mr.uint64: (23, 17),
}


def tag(number: int, kind: int) -> bytes:
    tag = number << 3 | kind
    return bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])


def field(number: int, data: bytes) -> bytes:
    return tag(number, 2) + bytes([len(data)]) + data


def shaped(dtype: int, *dims: int) -> bytes:
    """The head of a TensorProto with these sizes, which are below 128."""
    return bytes([8, dtype]) + field(2, b"".join(field(2, bytes([8, n])) for n in dims))


def array_of(dtype: mr.DType, *shape: int) -> np.ndarray:
    return np.asarray(mr.cast(np.arange(np.prod(shape)).reshape(shape) % 2, dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_the_bytes_are_those_of_tensorflow(dtype):
    x = array_of(dtype, 2, 3)
    serialized = mr.io.serialize_tensor(x)
    assert serialized == shaped(DTYPES[dtype][0], 2, 3) + field(4, x.tobytes())
    got = mr.io.parse_tensor(serialized, dtype)
    assert (got.dtype, got.tolist()) == (x.dtype, x.tolist())


def test_strings_scalars_and_empty_tensors_are_serialized():
    assert mr.io.serialize_tensor([b"ab", b""]) == shaped(7, 2) + b"B\2abB\0"
    assert mr.io.serialize_tensor("x") == b"\x08\x07\x12\x00B\1x"
    assert mr.io.serialize_tensor(mr.zeros([0, 3])) == b"\x08\x01\x12\x06\x12\x00\x12\x02\x08\x03"
    for x in ([[b"ab", b"", b"c"]], b"x", [b""]):
        assert np.all(mr.io.parse_tensor(mr.io.serialize_tensor(x), mr.string) == np.array(x))
    empty = mr.io.parse_tensor(mr.io.serialize_tensor(mr.zeros([0, 3])), mr.float32)
    assert empty.shape == (0, 3)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_the_last_value_stands_for_those_that_lack(dtype, packed):
    number, values = DTYPES[dtype]
    one = np.asarray(mr.cast([0, 1], dtype))
    if values in (5, 6, 9, 12):  # floats, in 4 or 8 bytes
        parts = one.view(one.real.dtype)
        texts = [part.tobytes() for part in parts]
        kind = 5 if values in (5, 9) else 1
    else:
        texts = [bytes([0]), (b"\x80\x7f" if values == 13 and dtype == mr.bfloat16 else b"\x01")]
        kind = 0
        one = one if values != 13 else np.array([0, 0x3F80 if dtype == mr.bfloat16 else 1], "u2")
    data = field(values, b"".join(texts))
    if not packed:
        data = b"".join(tag(values, kind) + text for text in texts)
    got = mr.io.parse_tensor(shaped(number, 4) + data, dtype)
    assert got.tobytes() == np.concatenate([one, one[-1:], one[-1:]]).tobytes()
    assert mr.io.parse_tensor(shaped(number, 1) + data, dtype).tobytes() == one[:1].tobytes()
    assert not np.any(mr.io.parse_tensor(shaped(number, 2), dtype))


def test_bfloat16_is_serialized():
    @mr.function
    def there_and_back(x):
        serialized = mr.io.serialize_tensor(mr.cast(x, mr.bfloat16))
        return serialized, mr.cast(mr.io.parse_tensor(serialized, mr.bfloat16), mr.float32)

    serialized, x = next(iter(mr.Dataset.from_tensors([1.0, -2.0]).map(there_and_back)))
    assert serialized == shaped(14, 2) + field(4, b"\x80\x3f\x00\xc0")
    assert x.tolist() == [1.0, -2.0]


def test_values_are_cut_to_their_dtype():
    assert mr.io.parse_tensor(shaped(4, 2) + b":\3\xac\2\7", mr.uint8).tolist() == [44, 7]
    minus = b"\xff" * 9 + b"\1"
    assert mr.io.parse_tensor(shaped(6, 1) + field(7, minus), mr.int8).tolist() == [-1]
    assert mr.io.parse_tensor(shaped(10, 2) + b"Z\2\7\0", mr.bool).tolist() == [True, False]


def test_an_empty_tensor_is_its_shape():
    for dtype, number in ((mr.float32, 1), (mr.string, 7)):
        content = field(4, b"abc")
        assert mr.io.parse_tensor(shaped(number, 0, 3) + content, dtype).shape == (0, 3)


def test_strings_may_be_content():
    content = shaped(7, 2) + field(4, b"\1\2abc")
    assert mr.io.parse_tensor(content, mr.string).tolist() == [b"a", b"bc"]
    assert mr.io.parse_tensor(shaped(7, 3) + b"B\1a", mr.string).tolist() == [b"a"] * 3


@pytest.mark.parametrize(
    "bytes_, error",
    [
        (b"", "no dtype"),
        (b"hello", "not a TensorProto: bad field near byte"),
        (b"\x08", "bad field near byte 1 of 1"),
        (shaped(1, 1) + b"*\3abc", "bad field"),
        (shaped(1, 1) + b":\1\xff", "bad field"),
        (b"\x08\x63" + shaped(1)[2:], "dtype 99"),
        (shaped(3, 1), "is int32, not float32"),
        (b"\x08\x01\x12\x02\x18\x01", "unknown rank"),
        (b"\x08\x01\x12\x0d\x12\x0b\x08" + b"\xff" * 9 + b"\1", "a size of -1"),
        (shaped(1, *[1] * 9), "more than 8 axes"),
        (b"\x08\x01\x12\x09\x12\x07\x08\x80\x80\x80\x80\x80\x20", r"\[1099511627776\]: .* limit"),
        (b"\x08\x01\x12\x16" + b"\x12\x09\x08" + b"\x80" * 7 + b"\x20" + b"\x12\x09\x08" + b"\x80" * 7
         + b"\x20", "limit"),
        (shaped(1, 3) + field(4, b"abcd"), "has 4 bytes; its shape wants 12"),
        (shaped(7, 2) + field(4, b"\1\2ab"), "not of 2 strings"),
        (shaped(10, 2) + field(4, b"\2\0"), "bool has byte 0x02"),
        (b"\x08\x01\x12\x0e\x12\x0a\x08" + b"\x80" * 8 + b"\x40\x12\x00", "limit"),
        (b"\x08\x07\x12\x07\x12\x05\x08\x80\x80\x80\x20B\x7f" + b"x" * 127, "repeats a string"),
    ],
)  # fmt: skip
def test_what_is_no_tensor_is_an_error(bytes_, error):
    dtype = {b"\x07": mr.string, b"\x0a": mr.bool}.get(bytes_[1:2], mr.float32)
    with pytest.raises(mr.errors.InvalidArgumentError, match=error):
        mr.io.parse_tensor(bytes_, dtype)


def serialized(arrays) -> mr.Dataset:
    return mr.Dataset.from_tensor_slices([mr.io.serialize_tensor(x) for x in arrays])


ARRAYS = [np.ones((2, 3), np.float32), np.arange(4, dtype=np.float32), np.float32(3)] * 20


@pytest.mark.parametrize("calls", [None, 3])
def test_elements_may_have_several_ranks(calls):
    ds = serialized(ARRAYS)
    ds = ds.map(lambda s: mr.io.parse_tensor(s, mr.float32) + 1, num_parallel_calls=calls)
    assert ds.element_spec == mr.TensorSpec(None, mr.float32)
    assert [x.tolist() for x in ds] == [(x + 1).tolist() for x in ARRAYS]
    assert [x.tolist() for x in ds.filter(lambda x: mr.size(x) > 3)] == [
        (x + 1).tolist() for x in ARRAYS if x.size > 3
    ]


def test_keys_of_groups_may_be_of_several_ranks():
    ds = serialized(ARRAYS).group_by_window(
        lambda s: mr.cast(mr.size(mr.io.parse_tensor(s, mr.float32)), mr.int64),
        lambda key, group: group.batch(20),
        window_size=20,
    )
    iterator = iter(ds)
    sizes = [len(next(iterator))]
    state = iterator.get_state()
    again = iter(ds)
    again.set_state(state)
    assert sizes + [len(b) for b in again] == [20] * 3


def test_the_shape_is_said_behind_parse_tensor():
    def set_shape(s):
        x = mr.io.parse_tensor(s, mr.float32)
        x.set_shape([None, 3])
        return x

    def ensure_shape(s):
        return mr.ensure_shape(mr.io.parse_tensor(s, mr.float32), [None, 3])

    def reshape(s):
        return mr.reshape(mr.io.parse_tensor(s, mr.float32), [-1, 3])

    ds = serialized([np.ones((n, 3), np.float32) for n in (2, 2, 1)])
    for shape in (set_shape, ensure_shape, reshape):
        rows = ds.map(shape)
        assert rows.element_spec == mr.TensorSpec([None, 3], mr.float32)
        assert [b.shape for b in rows.take(2).batch(2)] == [(2, 2, 3)]
        assert [b.shape for b in rows.padded_batch(3)] == [(3, 2, 3)]
    parts = ds.take(2).map(lambda s: mr.io.parse_tensor(s, mr.float32)).batch(2)
    assert [b.shape for b in parts] == [(2, 2, 3)]


def test_an_element_of_another_shape_fails_alone():
    ds = serialized(ARRAYS).map(lambda s: mr.ensure_shape(mr.io.parse_tensor(s, mr.float32), [4]))
    with pytest.raises(
        mr.errors.InvalidArgumentError, match=r"element 0: .*\[2,3\], \[4\] is wanted"
    ):
        next(iter(ds))
    assert len(list(ds.ignore_errors())) == 20


def test_parse_tensor_takes_a_scalar():
    batches = serialized(ARRAYS[1::3]).batch(5)
    with pytest.raises(mr.errors.InvalidArgumentError, match="wants 0, a scalar"):
        batches.map(lambda s: mr.io.parse_tensor(s, mr.float32))
    of_batches = batches.map(
        lambda s: mr.map_fn(
            lambda x: mr.ensure_shape(mr.io.parse_tensor(x, mr.float32), [4]),
            s,
            fn_output_signature=mr.float32,
        )
    )
    assert [b.shape for b in of_batches] == [(5, 4)] * 4


def test_some_functions_want_a_known_rank():
    def first(s):
        return mr.io.parse_tensor(s, mr.float32)[0]

    def of_batch(s):
        return mr.map_fn(
            lambda x: mr.io.parse_tensor(x, mr.float32), s, fn_output_signature="float32"
        )

    for ds, function in ((serialized(ARRAYS), first), (serialized(ARRAYS).batch(3), of_batch)):
        with pytest.raises(mr.errors.InvalidArgumentError, match="rank"):
            ds.map(function)


def test_parts_of_several_ranks_do_not_go_into_one_map_fn():
    def sums(s):
        return mr.map_fn(
            lambda x: mr.reduce_sum(mr.io.parse_tensor(x, mr.float32)),
            s,
            fn_output_signature="float32",
        )

    batches = serialized(ARRAYS[:3]).batch(3)
    with pytest.raises(mr.errors.ResourceExhaustedError, match="rank 1, and rank 2 in row 0"):
        list(batches.map(sums))
    alike = serialized(ARRAYS[::3]).batch(10)
    assert [s.tolist() for s in alike.map(sums)] == [[6.0] * 10] * 2


def test_tensors_are_serialized_in_functions():
    ds = serialized(ARRAYS)
    again = ds.map(lambda s: mr.io.serialize_tensor(mr.io.parse_tensor(s, mr.float32)))
    assert list(again) == list(ds)


@pytest.mark.parametrize("pad", [False, True])
def test_base64_is_that_of_python(pad):
    texts = [bytes(range(255 - n, 255)) for n in range(9)]
    coded = [base64.urlsafe_b64encode(t) for t in texts]
    wanted = coded if pad else [c.rstrip(b"=") for c in coded]
    assert mr.io.encode_base64([texts], pad=pad).tolist() == [wanted]
    assert mr.io.decode_base64([wanted]).tolist() == [texts]
    ds = mr.Dataset.from_tensor_slices(texts).map(lambda t: mr.io.encode_base64(t, pad=pad))
    assert list(ds) == wanted
    assert list(ds.map(mr.io.decode_base64)) == texts


@pytest.mark.parametrize(
    "text", [b"Y", b"YQ=", b"/+8", b"YQ\n", b"=", b"==", b"====", b"YQ==YQ==", b"YWJj=", b"YQ=a"]
)
def test_what_is_no_base64_is_an_error(text):
    with pytest.raises(mr.errors.InvalidArgumentError, match="base64"):
        mr.io.decode_base64(text)


def test_bits_behind_the_last_byte_mean_nothing():
    assert mr.io.decode_base64([b"YR", b"YQ", b"YQ=="]).tolist() == [b"a"] * 3


def test_pad_is_a_bool():
    with pytest.raises(TypeError, match="pad is True or False"):
        mr.io.encode_base64("a", pad=1)
