"""Names that are no functions of tensors: dtypes, shapes, specs, errors, constants."""

from __future__ import annotations

import random

from calls import Call, cover
from values import NUMBERS, tensor

_DTYPE = (
    "name",
    "is_integer",
    "is_floating",
    "is_bool",
    "is_unsigned",
    "is_complex",
    "size",
    "min",
    "max",
    "as_numpy_dtype",
)


def dtype(r: random.Random, name: str) -> Call:
    return Call(f"m.{name}.{r.choice(_DTYPE)}")


def as_dtype(r: random.Random, name: str) -> Call:
    what = r.choice(
        (
            "'int32'",
            "np.float64",
            "'string'",
            "bool",
            "int",
            "float",
            "m.uint8",
            "'no'",
            "np.dtype('i8')",
        )
    )
    return Call(f"m.{name}({what})")


def constant(r: random.Random, name: str) -> Call:
    return Call(f"int(m.{name})")


def error(r: random.Random, name: str) -> Call:
    return Call(
        f"(m.{name}.__name__, issubclass(m.{name}, m.errors.OpError), issubclass(m.{name}, Exception))"
    )


def shape(r: random.Random, name: str) -> Call:
    one, two = (r.choice(("[2, 3]", "[None, 3]", "None", "[]", "3", "[2, None, 1]")) for _ in "ab")
    method = r.choice(
        (
            "rank",
            "ndims",
            "as_list()",
            "dims",
            "is_fully_defined()",
            "num_elements()",
            f"is_compatible_with(m.TensorShape({two}))",
            f"merge_with(m.TensorShape({two}))",
            f"concatenate(m.TensorShape({two}))",
            f"assert_is_compatible_with(m.TensorShape({two}))",
            f"most_specific_compatible_shape(m.TensorShape({two}))",
            "with_rank(2)",
            "__len__()",
            "__bool__()",
            "__getitem__(0)",
            f"__eq__(m.TensorShape({two}))",
        )
    )
    return Call(f"m.TensorShape({one}).{method}")


_SPECS = (
    "m.TensorSpec([2, None], m.float32)",
    "m.TensorSpec([2, 3], m.float32)",
    "m.TensorSpec([], m.string)",
    "m.TensorSpec(None, m.int64)",
    "m.TensorSpec([2, 3], 'int64')",
    "m.SparseTensorSpec([None, 3], m.int64)",
    "m.SparseTensorSpec(None, m.float32)",
)


def spec(r: random.Random, name: str) -> Call:
    mine = [s for s in _SPECS if s.startswith(f"m.{name}(")]
    one, other = r.choice(mine), r.choice(_SPECS)
    method = r.choice(("{}", "{}.shape", "{}.dtype", "{} == {}", "{}.is_compatible_with({})"))
    return Call(method.format(one, other))


def new_axis(r: random.Random, name: str) -> Call:
    places = r.choice(
        ("m.newaxis", "..., m.newaxis", ":, m.newaxis", "m.newaxis, 0", "m.newaxis, m.newaxis")
    )
    return Call(f"lambda a: a[{places}]", (tensor(r, r.choice(NUMBERS)),))


def dataset_spec(r: random.Random, name: str) -> Call:
    inner = r.choice(("m.TensorSpec([], m.int64)", "(m.TensorSpec([2], m.string),)"))
    return Call(f"m.DatasetSpec({inner})")


cover(
    "complex64 complex128 bool double float16 float32 float64 half int16 int32 int64 int8 string uint16 uint32 uint64"
    " uint8",
    dtype,
)
cover("newaxis", new_axis)
cover("as_dtype", as_dtype)
cover(
    "AUTOTUNE INFINITE_CARDINALITY UNKNOWN_CARDINALITY experimental.AUTOTUNE"
    " experimental.INFINITE_CARDINALITY experimental.UNKNOWN_CARDINALITY",
    constant,
)
cover(
    " ".join(
        f"errors.{name}Error"
        for name in "Aborted AlreadyExists Cancelled DataLoss DeadlineExceeded FailedPrecondition"
        " Internal InvalidArgument NotFound OutOfRange PermissionDenied ResourceExhausted"
        " Unauthenticated Unavailable Unimplemented Unknown".split()
    ),
    error,
)
cover("TensorShape", shape)
cover("TensorSpec SparseTensorSpec", spec)
cover("DatasetSpec", dataset_spec)
