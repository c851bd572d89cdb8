"""Functions of TensorFlow that people look for and that are not supported: they say what to use."""

from __future__ import annotations

from typing import Any, Callable, NoReturn

from .. import errors
from .._base.hints import missing_name


def absent(name: str, instead: str, owner: str = "") -> Callable[..., NoReturn]:
    """
    A function, or a method of the class @owner: using it says that it is not supported, and what to
    use.
    """

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise errors.UnimplementedError(f"{owner}{name} is not supported: {instead}")

    function.__name__, function.__qualname__ = name, owner + name
    function.__doc__ = f"Not supported: {instead}."
    function._absent = True  # type: ignore[attr-defined]
    return function


while_loop = absent(
    "while_loop",
    "a function runs for a bounded time: use mr.map_fn for each part of a tensor, mr.cond for a "
    "choice, operators on whole tensors, or Dataset.scan and repeat",
)

assert_shapes = absent("assert_shapes", "use mr.ensure_shape for each tensor")
assert_proper_iterable = absent("assert_proper_iterable", "nothing here needs it")
assert_same_float_dtype = absent("assert_same_float_dtype", "use mr.debugging.assert_type")

_rows = "use the values, row_splits and value_rowids() of the ragged tensors"
cross = absent("cross", _rows)
cross_hashed = absent("cross_hashed", _rows)

# ---- tf.io ----

decode_compressed = absent(
    "decode_compressed", "TFRecord files may be compressed (compression_type of mr.TFRecordDataset)"
)
decode_json_example = absent(
    "decode_json_example", "use mr.io.decode_json, which takes any fields, or mr.io.parse_example"
)
_messages = "of protobuf messages there are tf.Example and tf.SequenceExample: mr.io.parse_example"
decode_proto = absent("decode_proto", _messages)
encode_proto = absent("encode_proto", _messages)
_sparse_bytes = "write tf.Examples, and read them with mr.io.parse_example and mr.io.VarLenFeature"
deserialize_many_sparse = absent("deserialize_many_sparse", _sparse_bytes)
serialize_many_sparse = absent("serialize_many_sparse", _sparse_bytes)
serialize_sparse = absent("serialize_sparse", _sparse_bytes)
_names = "use mr.Dataset.list_files, or Python's glob"
match_filenames_once = absent("match_filenames_once", _names)
matching_files = absent("matching_files", _names)
write_file = absent(
    "write_file",
    "functions have no effects: write behind the iterator, with pathlib.Path(name).write_bytes(...)",
)
write_graph = absent("write_graph", "datasets pickle, and there is no graph of TensorFlow's")

# ---- tf.sparse ----

_dense = "use mr.sparse.to_dense, then the functions of mr for dense tensors"
sparse_cross = absent("cross", _dense)
sparse_cross_hashed = absent("cross_hashed", _dense)
sparse_mask = absent("mask", "it takes IndexedSlices of gradients; use mr.sparse.retain")

# ---- tf.debugging ----

_runtime = "there is no runtime of TensorFlow's; mr.debugging.check_numerics checks one tensor"
disable_check_numerics = absent("disable_check_numerics", _runtime)
enable_check_numerics = absent("enable_check_numerics", _runtime)
_tracebacks = "errors of a function already name the line of the user"
disable_traceback_filtering = absent("disable_traceback_filtering", _tracebacks)
enable_traceback_filtering = absent("enable_traceback_filtering", _tracebacks)
is_traceback_filtering_enabled = absent("is_traceback_filtering_enabled", _tracebacks)
_devices = "everything runs on CPUs"
get_log_device_placement = absent("get_log_device_placement", _devices)
set_log_device_placement = absent("set_log_device_placement", _devices)

_traced = (
    "functions of a pipeline are traced: use mr.* operators, or process the elements after "
    "reading"
)
py_function = absent("py_function", _traced)
numpy_function = absent("numpy_function", _traced)

_iterates = "iter(ds) gives a mr.NumpyIterator: next(it), it.element_spec, it.get_state()"
Iterator = absent("Iterator", _iterates)
IteratorSpec = absent("IteratorSpec", _iterates)

_drawn = "draw on the images behind the iterator"
draw_bounding_boxes = absent("draw_bounding_boxes", _drawn)
extract_glimpse = absent(
    "extract_glimpse", "use mr.image.crop_and_resize, or mr.slice and mr.image.pad_to_bounding_box"
)
_compared = "compare the images behind the iterator; mr.image.psnr is"
ssim = absent("ssim", _compared)
ssim_multiscale = absent("ssim_multiscale", _compared)
_detected = "a model's boxes are chosen where the model runs, behind the iterator"
non_max_suppression = absent("non_max_suppression", _detected)
non_max_suppression_overlaps = absent("non_max_suppression_overlaps", _detected)
non_max_suppression_padded = absent("non_max_suppression_padded", _detected)
non_max_suppression_with_scores = absent("non_max_suppression_with_scores", _detected)
combined_non_max_suppression = absent("combined_non_max_suppression", _detected)
generate_bounding_box_proposals = absent("generate_bounding_box_proposals", _detected)

_counted = (
    "mr.random.uniform, normal, truncated_normal, categorical and shuffle, and their stateless_ "
    "forms, are"
)
_by_quantiles = (
    _counted + ". Of another distribution, such as the beta distribution of mixup: compute a "
    "thousand quantiles q with NumPy, and draw with mr.gather(q, mr.random.uniform(shape, 0, 1000, "
    "mr.int32))"
)
gamma = absent("gamma", _by_quantiles)
poisson = absent("poisson", _by_quantiles)
stateless_binomial = absent("stateless_binomial", _by_quantiles)
stateless_gamma = absent("stateless_gamma", _by_quantiles)
stateless_poisson = absent("stateless_poisson", _by_quantiles)
_no_state = (
    "nothing has a state that draws change; use mr.random.uniform(...) in the function, or "
    "mr.random.stateless_uniform with a seed from the element (Dataset.enumerate, mr.random.fold_in)"
)
create_rng_state = absent("create_rng_state", _no_state)
get_global_generator = absent("get_global_generator", _no_state)
random_generator = absent("Generator", _no_state)
for _way in ("from_seed", "from_state", "from_key_counter", "from_non_deterministic_state"):
    setattr(random_generator, _way, absent(_way, _no_state, "Generator."))

_samplers = "candidates are the model's: use mr.random.uniform, or sample behind the iterator"
all_candidate_sampler = absent("all_candidate_sampler", _samplers)
fixed_unigram_candidate_sampler = absent("fixed_unigram_candidate_sampler", _samplers)
learned_unigram_candidate_sampler = absent("learned_unigram_candidate_sampler", _samplers)
log_uniform_candidate_sampler = absent("log_uniform_candidate_sampler", _samplers)
uniform_candidate_sampler = absent("uniform_candidate_sampler", _samplers)
stateless_parameterized_truncated_normal = absent(
    "stateless_parameterized_truncated_normal",
    "use mr.random.stateless_truncated_normal with one mean and deviation",
)
index_shuffle = absent(
    "index_shuffle", "use mr.random.experimental.stateless_shuffle, or Dataset.shuffle"
)
set_global_generator = absent("set_global_generator", _no_state)

# ---- names that only a module's __getattr__ knows ----

_spectra = "use mr.signal.fft, rfft and irfft, of the last axis"
_solver = "that is the model's business, not the pipeline's: apply it behind the iterator"
_layer = "layers, losses and decoders are the model's business: apply it behind the iterator"
_rare = "put it together from the functions of mr, or apply it behind the iterator"
_no_gradients = "there are no gradients here"
_no_graphs = "functions given to map, filter, ... are traced without it"
_blocks = "use mr.reshape, mr.transpose and mr.pad, or mr.nn.space_to_depth"
_loops = "use mr.cumsum and its like, mr.map_fn for each part of a tensor, or Dataset.scan"
_order = "results that are used are computed; use mr.debugging.Assert for what has to hold"

_NOT_BUILT: dict[str, dict[str, str]] = {
    "": {
        "approx_top_k": "use mr.math.top_k",
        "batch_to_space": _blocks,
        "bitcast": "use mr.io.decode_raw for numbers in bytes, mr.cast for other values",
        "conv": _layer,
        "conv2d_backprop_filter_v2": _layer,
        "conv2d_backprop_input_v2": _layer,
        "custom_gradient": _no_gradients,
        "device": "functions run where the pipeline runs: leave it away",
        "edit_distance": "compare the strings behind the iterator",
        "eig": _solver,
        "eigvals": _solver,
        "extract_volume_patches": _blocks,
        "fftnd": _spectra,
        "fingerprint": "use mr.strings.to_hash_bucket_fast",
        "foldl": _loops,
        "foldr": _loops,
        "get_current_name_scope": "names mean nothing here",
        "get_logger": "use Python's logging",
        "get_static_value": "a value of a function is not known while it is traced; see x.shape",
        "grad_pass_through": _no_gradients,
        "gradients": _no_gradients,
        "group": _order,
        "guarantee_const": "use mr.identity",
        "hessians": _no_gradients,
        "ifftnd": _spectra,
        "import_graph_def": _no_graphs,
        "init_scope": _no_graphs,
        "irfftnd": _spectra,
        "load_library": "use the functions of mr",
        "load_op_library": "use the functions of mr",
        "make_ndarray": "elements are arrays already",
        "make_tensor_proto": "use mr.train.Example for values in files",
        "matrix_square_root": _solver,
        "no_gradient": _no_gradients,
        "no_op": _order,
        "nondifferentiable_batch_function": "use Dataset.batch",
        "print": "Python's print shows a tensor's dtype and shape; values exist behind the iterator",
        "ragged_fill_empty_rows": _rows,
        "ragged_fill_empty_rows_grad": _no_gradients,
        "random_index_shuffle": "use mr.random.shuffle, or Dataset.shuffle",
        "recompute_grad": _no_gradients,
        "register_tensor_conversion_function": "convert values before they come into the pipeline",
        "required_space_to_batch_paddings": _blocks,
        "rfftnd": _spectra,
        "scan": _loops,
        "space_to_batch": _blocks,
        "space_to_batch_nd": _blocks,
        "timestamp": "a function gives the same at any time: read clocks behind the iterator",
        "tuple": _order,
        "type_spec_from_value": "use Dataset.element_spec, or mr.TensorSpec",
        "variable_creator_scope": "functions have no state: Dataset.scan hands one on",
    },
    "math": {
        "approx_max_k": "use mr.math.top_k",
        "approx_min_k": "use mr.math.top_k of -x",
        "bessel_i0": _rare,
        "bessel_i0e": _rare,
        "bessel_i1": _rare,
        "bessel_i1e": _rare,
        "betainc": _rare,
        "digamma": _rare,
        "erfcinv": _rare,
        "erfinv": _rare,
        "igamma": _rare,
        "igammac": _rare,
        "ndtri": _rare,
        "polygamma": _rare,
        "sobol_sample": "use mr.random.uniform",
        "zeta": _rare,
    },
    "linalg": {
        name: _solver
        for name in (
            "banded_triangular_solve cholesky cholesky_solve det eig eigh eigh_tridiagonal eigvals "
            "eigvalsh expm inv logdet logm lstsq lu lu_matrix_inverse lu_reconstruct lu_solve "
            "matrix_rank pinv qr slogdet solve sqrtm svd triangular_solve tridiagonal_matmul "
            "tridiagonal_solve"
        ).split()
    },
    "signal": {
        **{
            name: _spectra
            for name in "fft2d fft3d fftnd fftshift ifft2d ifft3d ifftnd ifftshift irfft2d irfft3d irfftnd rfft2d rfft3d rfftnd".split()
        },
        **{
            name: "apply it behind the iterator"
            for name in "inverse_mdct inverse_stft inverse_stft_window_fn kaiser_bessel_derived_window kaiser_window mdct overlap_and_add vorbis_window".split()
        },
    },
    "nn": {
        name: _layer
        for name in (
            "approx_max_k approx_min_k avg_pool batch_normalization bias_add collapse_repeated "
            "conv1d conv2d conv3d convolution crelu ctc_beam_search_decoder ctc_greedy_decoder "
            "ctc_loss depthwise_conv2d dropout embedding_lookup embedding_lookup_sparse "
            "local_response_normalization log_poisson_loss max_pool normalize_moments pool "
            "sigmoid_cross_entropy_with_logits softmax_cross_entropy_with_logits space_to_batch "
            "sparse_softmax_cross_entropy_with_logits sufficient_statistics "
            "weighted_cross_entropy_with_logits weighted_moments"
        ).split()
    },
}


def not_built(module: str) -> Callable[[str], Any]:
    """
    A module's __getattr__: TensorFlow's functions that say when they are called what to use, and
    missing_name() for the rest.
    """
    table = _NOT_BUILT[module.removeprefix("millrace").removeprefix(".")]
    missing = missing_name(module)

    def __getattr__(name: str) -> Any:
        return absent(name, table[name]) if name in table else missing(name)

    return __getattr__
