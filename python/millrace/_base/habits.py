"""
What strings, paths, arrays and tensors of other packages have, and what to use on a symbolic tensor;
and the same for datasets.
"""

from __future__ import annotations

_CHANGED = "tensors do not change: use mr.where, mr.tensor_scatter_nd_update or mr.concat"
_CAST = "use mr.cast(x, mr.{})"
_OPERATOR = "use Python's operator, x {} y"
_NO_DEVICE = "leave it away: elements go to a device behind the iterator"
_NO_GRADIENT = "leave it away: there are no gradients here"
_CONTENTS = "use mr.io.read_file(x)"
_PART = "use mr.strings.split(x, '/'), and [-1] of it for the last part"
_MATCH = "use mr.strings.regex_full_match(x, pattern)"
_REPLACE = "use mr.strings.regex_replace(x, pattern, rewrite)"
_CROP = "use x[top:bottom, left:right], or mr.image.crop_to_bounding_box"
_DENSE = "it is dense already"
_BYTES = "values exist when the dataset is iterated: take the bytes of the array there"


def _each(names: str, hint: str) -> dict[str, str]:
    return {name: hint for name in names.split()}


# A word that means one thing for strings and another one for arrays says both.
OF_TENSORS: dict[str, str] = {
    # Python's strings and paths
    "split": "use mr.strings.split(x, sep) for strings, mr.split(x, n, axis) for numbers",
    "rsplit": "use mr.strings.split(x, sep)",
    "splitlines": "use mr.strings.split(x, '\\n')",
    "partition": _REPLACE + ", or mr.strings.split(x, sep)",
    **_each("lower casefold", "use mr.strings.lower(x)"),
    "upper": "use mr.strings.upper(x)",
    "strip": "use mr.strings.strip(x)",
    **_each("lstrip rstrip removeprefix removesuffix replace translate", _REPLACE),
    **_each(
        "startswith endswith isdigit isalpha isalnum isnumeric isspace islower isupper", _MATCH
    ),
    "find": _MATCH + ", or mr.strings.split",
    "join": "use mr.strings.join(tensors, x), or mr.strings.reduce_join(x, separator=...)",
    "format": "use mr.strings.format(template, x)",
    "zfill": "use mr.strings.as_string(number, width=n, fill='0')",
    "decode": "strings are bytes here: leave it away, or use mr.strings.unicode_decode(x, 'UTF-8')",
    "encode": "strings are bytes already: leave it away",
    **_each("read_bytes read_text open read", _CONTENTS),
    **_each("name stem suffix parent parts", _PART),
    # NumPy
    **_each("tobytes tofile dump dumps nbytes data", _BYTES),
    "itemsize": "use x.dtype.size",
    "flat": "use mr.reshape(x, [-1])",
    "compress": "use mr.boolean_mask(x, mask)",
    "choose": "use mr.gather",
    "diagonal": "use mr.linalg.diag_part(x)",
    "nonzero": "use mr.where(x)",
    "ptp": "use x.max() - x.min()",
    **_each("fill put setflags setfield itemset", _CHANGED),
    # PyTorch
    "permute": "use mr.transpose(x, [2, 0, 1])",
    "t": "use mr.transpose(x)",
    **_each("view view_as reshape_as", "use mr.reshape(x, shape)"),
    "unflatten": "use mr.reshape(x, shape)",
    "unsqueeze": "use mr.expand_dims(x, axis)",
    **_each("expand expand_as", "use mr.broadcast_to(x, shape)"),
    "numel": "use x.size",
    "dim": "use x.ndim",
    "nelement": "use x.size",
    "float": _CAST.format("float32"),
    "double": _CAST.format("float64"),
    "half": _CAST.format("float16"),
    "bfloat16": _CAST.format("bfloat16"),
    "long": _CAST.format("int64"),
    "int": _CAST.format("int32"),
    "short": _CAST.format("int16"),
    "char": _CAST.format("int8"),
    "byte": _CAST.format("uint8"),
    "bool": _CAST.format("bool"),
    **_each("type type_as", "use mr.cast(x, dtype)"),
    "to": "use mr.cast(x, dtype) for a dtype; elements go to a device behind the iterator",
    **_each("cuda cpu pin_memory device share_memory_ contiguous is_cuda", _NO_DEVICE),
    **_each("detach requires_grad requires_grad_ grad backward", _NO_GRADIENT),
    "clone": "leave it away: nobody can change a tensor",
    "cat": "use mr.concat([x, y], axis)",
    "chunk": "use mr.split(x, n, axis)",
    "unbind": "use mr.unstack(x)",
    **_each("narrow select", "use x[begin:end]"),
    **_each("flip fliplr flipud", "use mr.reverse(x, axis), or mr.image.flip_left_right"),
    "clamp": "use mr.clip_by_value(x, low, high)",
    "masked_fill": "use mr.where(mask, value, x)",
    "masked_select": "use mr.boolean_mask(x, mask)",
    "index_select": "use mr.gather(x, indices, axis=axis)",
    **_each("scatter scatter_add index_fill index_copy index_put", _CHANGED),
    "topk": "use mr.math.top_k(x, k)",
    "softmax": "use mr.nn.softmax(x)",
    "norm": "use mr.norm(x)",
    **_each("mm bmm mv matmul", _OPERATOR.format("@")),
    **_each("add", _OPERATOR.format("+")),
    **_each("sub subtract", _OPERATOR.format("-")),
    **_each("mul multiply", _OPERATOR.format("*")),
    **_each("div divide true_divide", _OPERATOR.format("/")),
    "pow": _OPERATOR.format("**"),
    "eq": _OPERATOR.format("=="),
    "ne": _OPERATOR.format("!="),
    "lt": _OPERATOR.format("<"),
    "le": _OPERATOR.format("<="),
    "gt": _OPERATOR.format(">"),
    "ge": _OPERATOR.format(">="),
    # JAX, TensorFlow, PIL, pandas
    "at": _CHANGED,
    **_each("block_until_ready device_put", _NO_DEVICE),
    **_each("eval assign assign_add", "a tensor has no value while the function is traced"),
    **_each("to_tensor to_list row_splits values to_numpy", _DENSE),
    **_each("row_lengths nrows", "it is dense: use mr.shape(x)"),
    "crop": _CROP,
    "resize": "use mr.image.resize(x, [height, width])",
    "rotate": "use mr.image.rot90(x)",
    "convert": "use mr.image.rgb_to_grayscale(x), or channels=3 of mr.io.decode_image",
    "apply": "call the function with x, or use mr.map_fn(function, x) for each part of it",
    "map": "call the function with x, or use mr.map_fn(function, x) for each part of it",
    "fillna": "use mr.where(mr.math.is_nan(x), value, x)",
    "isin": "use mr.reduce_any(x[..., None] == values, axis=-1)",
    "length": "use x.shape[0], or mr.strings.length(x) of strings",
}

_SPEC = "use ds.element_spec"
_READ = "loop over the dataset: its elements are NumPy arrays"
_FILES = "use batch, shuffle and prefetch of the dataset"

OF_DATASETS: dict[str, str] = {
    # TensorFlow
    "make_one_shot_iterator": "use iter(ds)",
    "make_initializable_iterator": "use iter(ds)",
    **_each("output_shapes output_types output_classes", _SPEC),
    "map_with_legacy_function": "use ds.map",
    "filter_with_legacy_function": "use ds.filter",
    # PyTorch, Hugging Face, Grain, WebDataset
    **_each("shape dtype dtypes features columns column_names", _SPEC),
    **_each("numpy to_numpy tolist to_list values item collect", _READ + ", list(ds) has all"),
    **_each("collate_fn num_workers batch_size sampler", _FILES),
    **_each("with_format set_format set_transform with_transform", "use ds.map(function)"),
    **_each("to_tf_dataset to_iter_dataset", "leave it away"),
    "select": "use ds.take, ds.skip or ds.filter",
    "train_test_split": "use ds.take(n) and ds.skip(n), or ds.shard",
    "random_map": "use ds.map with mr.random in the function",
    "slice": "use ds.skip(begin).take(count)",
    "head": "use ds.take(n)",
    "to_tuple": "use ds.map(lambda e: (e['a'], e['b']))",
    "decode": "use ds.map with mr.io.decode_image",
    "rename": "use ds.map(lambda e: {'new': e['old']})",
    "with_epoch": "use ds.take(n)",
    "mix": "use mr.Dataset.sample_from_datasets",
    "count": "use ds.cardinality(), or sum(1 for _ in ds) where that is unknown",
    "sort": "sort what it is made of: a dataset is a stream",
    "groupby": "use ds.group_by_window",
    "distribute": "use ds.apply(mr.service.distribute(...))",
    "set_epoch": "leave it away: each pass is the next epoch",
    "next": "use it = iter(ds), then next(it)",
    "get_next": "use it = iter(ds), then next(it)",
    "state": "it = iter(ds) has it.get_state()",
}
OF_DATASETS.update(_each("get_state set_state state_dict load_state_dict", OF_DATASETS["state"]))
