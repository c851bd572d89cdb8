"""Sections of docstrings that many functions share, put in where the function has an example."""

from __future__ import annotations

import inspect
from typing import Any, Callable, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_RETURNS = """Returns
-------
Tensor or numpy.ndarray
    {returns} In a function that is traced a tensor, else an array."""

_RAISES = """Raises
------
InvalidArgumentError
    The operator does not take these dtypes, or the shapes do not go together.
TypeError
    A literal does not fit the dtype that it meets: nothing is converted silently."""

UNARY = (
    """Parameters
----------
{first} : tensor_like
    A tensor, an array, a number, or nested lists of numbers.
name : str, optional
    Accepted and ignored.""",
    "Of the shape of `{first}`.",
)

BINARY = (
    """Parameters
----------
x, y : tensor_like
    Both of one dtype; a literal takes that of the other one. Shapes broadcast as NumPy's do.
name : str, optional
    Accepted and ignored.""",
    "Of the shape to which both broadcast.",
)

REDUCTION = (
    """Parameters
----------
input_tensor : tensor_like
    What is reduced.
axis : int or sequence of int, optional
    Axes that go; negative ones count from the end. By default all do.
keepdims : bool, default False
    Whether the axes stay, with size 1.
name : str, optional
    Accepted and ignored.""",
    "What is left.",
)

INDEX = (
    """Parameters
----------
input : tensor_like
    Numbers.
axis : int, optional
    Which axis (0); a negative one counts from the end.
output_type : dtype_like, default "int64"
    Or int32.
name : str, optional
    Accepted and ignored.""",
    "Without that axis.",
)

STRING = (
    """Parameters
----------
input : tensor_like of string
    Bytes or str, of any shape.
encoding : str, default ""
    What the strings are: bytes, of which ASCII letters are changed, or "utf-8", of which all letters
    are, as Unicode has it (a result may be longer or shorter).
name : str, optional
    Accepted and ignored.""",
    "Of the shape of `input`.",
)


def documented(kind: tuple[str, str]) -> Callable[[F], F]:
    """Completes a docstring that is a summary and an example into one in NumPy's form."""

    def complete(function: F) -> F:
        first = next(iter(inspect.signature(function).parameters))
        parameters, returns = (part.format(first=first) for part in kind)
        _complete(function, parameters, _RETURNS.format(returns=returns), _RAISES)
        return function

    return complete


def _complete(function: Any, *sections: str) -> None:
    """Put @sections between the summary and the example of @function's docstring."""
    text, _, example = inspect.cleandoc(function.__doc__ or "").partition("\n\n>>>")
    parts = [text, *sections, f"Examples\n--------\n>>>{example}"]
    function.__doc__ = "\n\n".join(parts) + "\n"


_OF_UNICODE = {
    "input": """input : tensor_like of string, or RaggedTensor
    Bytes or str, of any shape.""",
    "input_encoding": """input_encoding : str
    "UTF-8", "UTF-16-BE", "UTF-32-BE", or another that ICU knows.""",
    "output_encoding": """output_encoding : {"UTF-8", "UTF-16-BE", "UTF-32-BE"}
    Of the strings that are made.""",
    "errors": """errors : {"replace", "ignore", "strict"}, default "replace"
    What becomes of what is no character: `replacement_char`, nothing, or an error.""",
    "replacement_char": """replacement_char : int, default 65533
    A code point.""",
    "replace_control_characters": """replace_control_characters : bool, default False
    Whether those below 32 are no characters either.""",
    "name": """name : str, optional
    Accepted and ignored.""",
}


def unicode_documented(what: str, returns: str) -> Callable[[F], F]:
    """documented(), for functions of characters."""

    def complete(function: F) -> F:
        texts = dict(_OF_UNICODE)
        if "input_encoding" not in inspect.signature(function).parameters:
            texts["input"] = "input : tensor_like of int32, or RaggedTensor\n    Code points."
        raises = (
            "Raises\n------\nInvalidArgumentError\n"
            '    With errors="strict": there is something that is no character.'
        )
        section = f"Returns\n-------\n{what}\n    {returns}"
        _complete(function, _listed(function, texts), section, raises)
        return function

    return complete


_OWN_SEED = """seed : int, optional
    Operators of one seed draw the same. Without one, each draws its own: mr.random.set_seed."""

_OF_DRAWS = {
    "shape": """shape : sequence of int, or tensor_like of int
    Of the result.""",
    "seed": """seed : tensor_like of int
    Two numbers, int32 or int64.""",
    "minval": """minval : tensor_like, default 0
    The smallest value. None, with maxval=None: all values of an integer dtype.""",
    "maxval": """maxval : tensor_like, optional
    Above the largest value. Of floats 1 by default; of integers it must be given.""",
    "mean": """mean : tensor_like, default 0.0
    The mean.""",
    "stddev": """stddev : tensor_like, default 1.0
    The standard deviation.""",
    "dtype": """dtype : dtype_like, optional
    Of the result: a float dtype; where bounds are given also int32, int64, uint32 and uint64; of
    classes int64 or int32.""",
    "value": """value : tensor_like
    Of any dtype.""",
    "logits": """logits : tensor_like of float
    [batch, classes]: logarithms of probabilities, up to a constant.""",
    "num_samples": """num_samples : int
    How many are drawn a row.""",
    "num": """num : int, default 2
    How many.""",
    "data": """data : tensor_like of int
    A scalar.""",
    "alg": """alg : str, default "auto_select"
    Accepted and ignored: it is always Philox.""",
    "name": """name : str, optional
    Accepted and ignored.""",
}


def _listed(function: Any, texts: dict[str, str]) -> str:
    """The section of the parameters of @function."""
    listed = "\n".join(texts[name] for name in inspect.signature(function).parameters)
    return f"Parameters\n----------\n{listed}"


def drawn(function: F) -> F:
    """As documented(), for functions that draw random numbers."""
    own = inspect.signature(function).parameters.get("seed")
    texts = dict(_OF_DRAWS)
    if own is not None and own.default is None:
        texts["seed"] = _OWN_SEED
    _complete(
        function, _listed(function, texts), _RETURNS.format(returns="What was drawn."), _RAISES
    )
    return function


_IMAGES = """ : tensor_like
    [height, width, channels] or a batch of these."""

_OF_IMAGES = {
    "image": "image" + _IMAGES,
    "images": "images" + _IMAGES,
    "offset_height": """offset_height : int
    The first line.""",
    "offset_width": """offset_width : int
    The first column.""",
    "target_height": """target_height : int
    Of the result; this and all sizes and offsets may be scalar tensors.""",
    "target_width": """target_width : int
    Of the result.""",
    "central_fraction": """central_fraction : float
    How much of each side stays.""",
    "method": """method : str, default "bilinear"
    As in `resize`.""",
    "antialias": """antialias : bool, default False
    As in `resize`.""",
    "k": """k : int, or tensor_like of int, default 1
    How often.""",
    "dtype": """dtype : dtype_like
    Of the result.""",
    "saturate": """saturate : bool, default False
    Whether values out of range become the nearest value.""",
    "delta": """delta : tensor_like of float
    How much, a scalar.""",
    "contrast_factor": """contrast_factor : tensor_like of float
    1 changes nothing.""",
    "saturation_factor": """saturation_factor : tensor_like of float
    1 changes nothing, 0 gives grey.""",
    "gamma": """gamma : float, default 1
    The exponent.""",
    "gain": """gain : float, default 1
    The factor.""",
    "lower": """lower : float
    The least factor.""",
    "upper": """upper : float
    Above the largest factor.""",
    "max_delta": """max_delta : float
    The change is drawn from [-max_delta, max_delta).""",
    "size": """size : sequence of int
    Of the part, one number an axis.""",
    "value": """value : tensor_like
    Of any dtype and shape.""",
    "dct_method": """dct_method : str, default ""
    As in `decode_jpeg`.""",
    "jpeg_quality": """jpeg_quality : int, or tensor_like of int
    0 to 100.""",
    "min_jpeg_quality": """min_jpeg_quality : int
    The least quality, from 0.""",
    "max_jpeg_quality": """max_jpeg_quality : int
    Above the largest quality, to 100.""",
    "a": "a" + _IMAGES,
    "b": """b : tensor_like
    Of the shape of `a`.""",
    "max_val": """max_val : tensor_like
    255 of bytes, 1.0 of floats.""",
    "sizes": """sizes : sequence of int
    Rows and columns of a patch.""",
    "strides": """strides : sequence of int
    From patch to patch.""",
    "rates": """rates : sequence of int
    From pixel to pixel within a patch.""",
    "padding": """padding : str
    Whether patches lie within ("VALID"), or zeros are added so that they cover everything.""",
    "name": _OF_DRAWS["name"],
}

_FOUND = {
    "image_gradients": "Two of the shape of `image`.",
    "psnr": "float32, a number an image.",
    "sobel_edges": "One axis more than `image`, of 2.",
    "total_variation": "A number an image.",
}


def of_images(function: F) -> F:
    """As documented(), for functions of images."""
    texts = dict(_OF_IMAGES)
    own = inspect.signature(function).parameters.get("seed")
    if own is not None:
        texts["seed"] = _OWN_SEED if own.default is None else _OF_DRAWS["seed"]
    returns = _RETURNS.format(returns=_FOUND.get(function.__name__, "The new images."))
    _complete(function, _listed(function, texts), returns, _RAISES)
    return function


_CHECKED = {
    "x": """x : tensor_like
    What is looked at.""",
    "y": """y : tensor_like
    Of the dtype of `x`; shapes broadcast as NumPy's do.""",
    "tensor": """tensor : tensor_like
    What is looked at.""",
    "message": """message : str, optional
    What the error says.""",
    "rtol": """rtol : float, optional
    Ten times the dtype's epsilon by default.""",
    "atol": """atol : float, optional
    Ten times the dtype's epsilon by default.""",
    "rank": """rank : int
    A number of dimensions.""",
    "ranks": """ranks : iterable of int
    Numbers of dimensions.""",
    "tf_type": """tf_type : dtype_like
    The dtype that is wanted.""",
    "summarize": """summarize : int, optional
    Accepted and ignored.""",
    "name": _OF_DRAWS["name"],
}

_FAILS = """Raises
------
InvalidArgumentError
    It does not hold for the values: at once outside of functions, else with the element.
TypeError, ValueError
    It does not hold for dtype or rank, which are known when a function is traced."""


def checked(function: F) -> F:
    """As documented(), for assertions."""
    sections = [_listed(function, _CHECKED), _FAILS]
    if inspect.signature(function).return_annotation not in (None, "None"):
        sections.insert(1, _RETURNS.format(returns="The tensor as it is."))
    _complete(function, *sections)
    return function


_OF_TENSORS = {
    "x": "tensor_like: Numbers.",
    "y": "tensor_like: Of the same dtype; shapes broadcast as NumPy's do.",
    "axis": "int, default -1: Which axis; a negative one counts from the end.",
    "data": "tensor_like: The values.",
    "dtype": "dtype_like: Of the result.",
    "features": "tensor_like of float: Numbers.",
    "keepdims": "bool, optional: Whether the axes stay, with size 1.",
    "input": "tensor_like: The values.",
    "indices": "tensor_like of int: Of n numbers in the last axis each, from 0 on.",
    "k": "int, or scalar tensor: How many.",
    "logits": "tensor_like of float: Of one axis or more.",
    "num_segments": "int, or scalar tensor: How many segments there are.",
    "segment_ids": "tensor_like of int: To which segment each value belongs.",
    "tensor": "tensor_like: The values.",
    "updates": "tensor_like: What is put there, of the dtype of the tensor.",
    "name": "str, optional: Accepted and ignored.",
}


def described(returns: str, **texts: str) -> Callable[[F], F]:
    """
    As documented(), with texts of its own: `argument="type: what it is"`, beside those that many
    functions share. @returns says what comes back.
    """

    def complete(function: F) -> F:
        lines = []
        for name in inspect.signature(function).parameters:
            kind, _, text = {**_OF_TENSORS, **texts}[name].partition(": ")
            lines.append(f"{name} : {kind}\n    {text}")
        _complete(
            function,
            "Parameters\n----------\n" + "\n".join(lines),
            _RETURNS.format(returns=returns),
            _RAISES,
        )
        return function

    return complete
