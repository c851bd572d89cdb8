"""Functions of TensorFlow that people look for and that are not built: they say what to use."""

from . import errors


def _absent(name, instead):
    def function(*args, **kwargs):
        raise errors.UnimplementedError(f"{name} is not built: {instead}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Not built: {instead}."
    function._absent = True
    return function


cond = _absent("cond", "use mr.where(condition, x, y), or filter and concatenate")
case = _absent("case", "use mr.where(condition, x, y)")
switch_case = _absent("switch_case", "use mr.gather over the stacked branches, or mr.where")
while_loop = _absent("while_loop", "functions have no loops: use operators on whole tensors, or repeat and batch of the dataset")
map_fn = _absent("map_fn", "use operators on whole tensors, or map before batch")
py_function = _absent("py_function", "functions of a pipeline are traced: use mr.* operators, or process the elements after reading")
numpy_function = _absent("numpy_function", "functions of a pipeline are traced: use mr.* operators, or process the elements after reading")

_decoded = ("write decoded pixels into TFRecord files and use mr.io.decode_raw and mr.reshape, or decode images behind the "
            "iterator")
decode_image = _absent("decode_image", _decoded)
decode_jpeg = _absent("decode_jpeg", _decoded)
decode_png = _absent("decode_png", _decoded)
read_file = _absent("read_file", "put many files into a few with mr.io.TFRecordWriter, or read those of one size with "
                                 "mr.FixedLengthRecordDataset")

missing_modules = {
    "image": "images are arrays to mr.* operators; " + _decoded,
    "random": "functions draw nothing: zip with numbers that are drawn, such as mr.Dataset.range(n).repeat().shuffle(n), or "
              "draw behind the iterator",
}

