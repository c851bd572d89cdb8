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
