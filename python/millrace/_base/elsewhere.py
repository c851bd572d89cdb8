"""
Names of TensorFlow that input pipelines do not need, and why they are not here: so that somebody who
carries a script over learns what to do.
"""

from __future__ import annotations

_MODEL = "models are not its business: feed them with the elements of a dataset"
_GRADIENTS = "gradients and variables belong to the framework that trains"
_TRACED = "functions given to map, filter, ... are traced without it"
_DEVICE = "it runs on CPUs, as many as it finds: elements are NumPy arrays"
_LOADED = "TensorFlow's graphs and operators cannot be loaded"
_COMPLEX = "there are no complex numbers: apply it behind the iterator"
_QUANTIZED = "there are no quantized dtypes: use integers"
_BEHIND = "apply it behind the iterator, or put it together from the functions of mr"
_PLACES = "use mr.gather, mr.where, mr.boolean_mask, or apply it behind the iterator"
_FIXED = "shapes are known when a function is traced: look at x.shape"

# {module: [(why, names)]}
FAMILIES: dict[str, list[tuple[str, str]]] = {
    "": [
        (
            _MODEL,
            "compat distribute dtensor estimator feature_column initializers keras lite losses metrics"
            " optimizers saved_model summary tpu Module approx_top_k constant_initializer conv"
            " conv2d_backprop_filter_v2 conv2d_backprop_input_v2 ones_initializer"
            " random_normal_initializer random_uniform_initializer zeros_initializer",
        ),
        (
            _GRADIENTS,
            "AggregationMethod CriticalSection GradientTape IndexedSlices IndexedSlicesSpec"
            " RegisterGradient UnconnectedGradients Variable VariableAggregation"
            " VariableSynchronization autodiff clip_by_global_norm custom_gradient"
            " grad_pass_through gradients hessians no_gradient recompute_grad stop_gradient"
            " variable_creator_scope",
        ),
        (
            _TRACED,
            "Graph Operation autograph executing_eagerly function get_current_name_scope"
            " get_static_value graph_util group guarantee_const identity_n init_scope inside_function"
            " is_symbolic_tensor is_tensor name_scope no_op nondifferentiable_batch_function"
            " register_tensor_conversion_function tuple types xla",
        ),
        (_DEVICE, "DeviceSpec config device experimental profiler security sysconfig tools tsl"),
        (
            _LOADED,
            "import_graph_def load_library load_op_library make_ndarray make_tensor_proto mlir"
            " raw_ops",
        ),
        (_COMPLEX, "complex complex64 complex128 fftnd ifftnd irfftnd rfftnd"),
        (_QUANTIZED, "qint8 qint16 qint32 quint8 quint16 quantization"),
        (_FIXED, "broadcast_dynamic_shape broadcast_static_shape shape_n"),
        (
            "say mr.TensorSpec, mr.RaggedTensorSpec, mr.SparseTensorSpec or mr.DatasetSpec",
            "OptionalSpec TensorArraySpec TypeSpec type_spec_from_value",
        ),
        (
            "functions run for a bounded time: use mr.map_fn, or Dataset.scan",
            "TensorArray foldl foldr queue scan",
        ),
        (
            _PLACES,
            "batch_to_space dynamic_partition dynamic_stitch gather_nd reverse_sequence scatter_nd"
            " space_to_batch space_to_batch_nd strided_slice tensor_scatter_nd_add"
            " tensor_scatter_nd_max tensor_scatter_nd_min tensor_scatter_nd_sub"
            " tensor_scatter_nd_update unravel_index required_space_to_batch_paddings",
        ),
        (
            _BEHIND,
            "acos acosh add_n argsort asin asinh atan atan2 atanh bitcast clip_by_norm cosh"
            " edit_distance eig eigvals einsum extract_volume_patches eye fingerprint"
            " histogram_fixed_width histogram_fixed_width_bins linspace matrix_square_root meshgrid"
            " norm parallel_stack ragged_fill_empty_rows ragged_fill_empty_rows_grad"
            " random_index_shuffle realdiv reduce_logsumexp roll saturate_cast scalar_mul sets sinh"
            " sort tensordot timestamp truncatediv truncatemod unique unique_with_counts",
        ),
        ("use Python's logging", "get_logger"),
        ("say None in an index, or use mr.expand_dims", "newaxis"),
        ("structures are nested tuples and dicts: walk them with Python", "nest"),
        ("iter(ds) gives an iterator, and ds.element_spec its spec", "Iterator IteratorSpec"),
        ("use pytest", "test"),
        ("there are no resources: mr.lookup has tables", "resource variant"),
    ],
    "debugging": [("nothing of TensorFlow's runtime is in it", "experimental")],
    "errors": [
        (
            "errors are classes: use the class whose name it has, as mr.errors.NotFoundError",
            "ABORTED ALREADY_EXISTS CANCELLED DATA_LOSS DEADLINE_EXCEEDED FAILED_PRECONDITION INTERNAL"
            " INVALID_ARGUMENT NOT_FOUND OK OUT_OF_RANGE PERMISSION_DENIED RESOURCE_EXHAUSTED"
            " UNAUTHENTICATED UNAVAILABLE UNIMPLEMENTED UNKNOWN",
        ),
        ("what graphs do not allow raises TypeError", "OperatorNotAllowedInGraphError"),
    ],
    "experimental": [
        (
            "mr.Dataset has what it does, or it is done behind the iterator",
            "DatasetInitializer Optional Reducer SHARD_HINT at enable_debug_mode"
            " get_next_as_optional group_by_reducer parse_example_dataset",
        )
    ],
    "image": [
        (
            _BEHIND,
            "extract_glimpse generate_bounding_box_proposals non_max_suppression_with_scores"
            " ssim_multiscale",
        )
    ],
    "math": [
        (
            _BEHIND,
            "accumulate_n acosh add_n angle approx_max_k approx_min_k asinh atan2 bessel_i0"
            " bessel_i0e bessel_i1 bessel_i1e betainc bincount confusion_matrix conj count_nonzero"
            " cumulative_logsumexp digamma divide_no_nan erf erfc erfcinv erfinv igamma igammac"
            " imag in_top_k invert_permutation is_non_decreasing is_strictly_increasing"
            " l2_normalize lbeta lgamma log_sigmoid log_softmax multiply_no_nan ndtri nextafter"
            " polygamma polyval real reciprocal_no_nan reduce_euclidean_norm reduce_logsumexp"
            " reduce_variance rint scalar_mul segment_max segment_mean segment_min segment_prod"
            " segment_sum sobol_sample softmax softplus softsign special top_k"
            " unsorted_segment_max unsorted_segment_mean unsorted_segment_min"
            " unsorted_segment_prod unsorted_segment_sqrt_n unsorted_segment_sum xdivy xlogy"
            " zero_fraction zeta",
        )
    ],
    "strings": [
        (
            _BEHIND,
            "unicode_decode unicode_decode_with_offsets unicode_encode unicode_script"
            " unicode_split_with_offsets unicode_transcode unsorted_segment_join",
        )
    ],
    "io": [("use Python's own files", "gfile")],
    "linalg": [
        (
            "of linear algebra there is matmul: " + _BEHIND,
            "LinearOperator LinearOperatorAdjoint LinearOperatorBlockDiag"
            " LinearOperatorBlockLowerTriangular LinearOperatorCirculant LinearOperatorCirculant2D"
            " LinearOperatorCirculant3D LinearOperatorComposition LinearOperatorDiag"
            " LinearOperatorFullMatrix LinearOperatorHouseholder LinearOperatorIdentity"
            " LinearOperatorInversion LinearOperatorKronecker LinearOperatorLowRankUpdate"
            " LinearOperatorLowerTriangular LinearOperatorPermutation LinearOperatorScaledIdentity"
            " LinearOperatorToeplitz LinearOperatorTridiag LinearOperatorZeros adjoint band_part"
            " banded_triangular_solve cholesky cholesky_solve cross det diag diag_part eig eigh"
            " eigh_tridiagonal eigvals eigvalsh einsum experimental expm eye global_norm inv"
            " l2_normalize logdet logm lstsq lu lu_matrix_inverse lu_reconstruct lu_solve"
            " matrix_rank matrix_transpose matvec norm normalize pinv qr set_diag slogdet solve"
            " sqrtm svd tensor_diag tensor_diag_part tensordot trace triangular_solve"
            " tridiagonal_matmul tridiagonal_solve",
        )
    ],
    "lookup": [("use mr.lookup.StaticHashTable, which does not change", "experimental")],
    "nn": [
        (
            "layers and losses are the model's: " + _BEHIND,
            "RNNCellDeviceWrapper RNNCellDropoutWrapper RNNCellResidualWrapper"
            " all_candidate_sampler approx_max_k approx_min_k atrous_conv2d"
            " atrous_conv2d_transpose avg_pool avg_pool1d avg_pool2d avg_pool3d"
            " batch_norm_with_global_normalization batch_normalization bias_add collapse_repeated"
            " compute_accidental_hits compute_average_loss conv1d conv1d_transpose conv2d"
            " conv2d_transpose conv3d conv3d_transpose conv_transpose convolution crelu"
            " ctc_beam_search_decoder ctc_greedy_decoder ctc_loss ctc_unique_labels depth_to_space"
            " depthwise_conv2d depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input"
            " dilation2d dropout elu embedding_lookup embedding_lookup_sparse erosion2d"
            " experimental fixed_unigram_candidate_sampler fractional_avg_pool fractional_max_pool"
            " gelu in_top_k isotonic_regression l2_loss l2_normalize leaky_relu"
            " learned_unigram_candidate_sampler local_response_normalization log_poisson_loss"
            " log_softmax lrn max_pool max_pool1d max_pool2d max_pool3d max_pool_with_argmax"
            " moments nce_loss normalize_moments pool relu6 safe_embedding_lookup_sparse"
            " sampled_softmax_loss scale_regularization_loss selu separable_conv2d"
            " sigmoid_cross_entropy_with_logits silu softmax_cross_entropy_with_logits softplus"
            " softsign space_to_batch space_to_depth sparse_softmax_cross_entropy_with_logits"
            " sufficient_statistics swish top_k weighted_cross_entropy_with_logits"
            " weighted_moments with_space_to_batch zero_fraction",
        )
    ],
    "random": [("it is not configured: random numbers are counted (mr.random)", "Algorithm")],
    "train": [
        (
            "what an iterator has read is in its get_state(): keep those bytes",
            "Checkpoint CheckpointManager CheckpointOptions CheckpointView Coordinator"
            " ExponentialMovingAverage TrackableView checkpoints_iterator experimental"
            " get_checkpoint_state latest_checkpoint list_variables load_checkpoint load_variable",
        ),
        ("mr.service has the servers", "ClusterDef ClusterSpec JobDef ServerDef"),
    ],
}
