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
_QUANTIZED = "there are no quantized dtypes: use integers"
_BEHIND = "apply it behind the iterator, or put it together from the functions of mr"

# {module: [(why, names)]}
FAMILIES: dict[str, list[tuple[str, str]]] = {
    "": [
        (
            _MODEL,
            "compat distribute dtensor estimator feature_column initializers keras lite"
            " losses metrics optimizers saved_model summary tpu Module constant_initializer"
            " ones_initializer random_normal_initializer random_uniform_initializer"
            " zeros_initializer",
        ),
        (
            _GRADIENTS,
            "AggregationMethod CriticalSection GradientTape IndexedSlices IndexedSlicesSpec"
            " RegisterGradient UnconnectedGradients Variable VariableAggregation"
            " VariableSynchronization autodiff",
        ),
        (_TRACED, "Graph Operation autograph graph_util name_scope types xla"),
        (_DEVICE, "DeviceSpec config experimental profiler security sysconfig tools tsl"),
        (_LOADED, "mlir raw_ops"),
        (_QUANTIZED, "qint8 qint16 qint32 quint8 quint16 quantization"),
        (
            "say mr.TensorSpec, mr.RaggedTensorSpec, mr.SparseTensorSpec or mr.DatasetSpec",
            "OptionalSpec TensorArraySpec TypeSpec",
        ),
        ("functions run for a bounded time: use mr.map_fn, or Dataset.scan", "TensorArray queue"),
        (_BEHIND, "sets"),
        ("structures are nested tuples and dicts: walk them with Python", "nest"),
        ("use pytest", "test"),
        ("there are no resources: mr.lookup has tables", "resource variant"),
    ],
    "debugging": [("nothing of TensorFlow's runtime is in it", "experimental")],
    "errors": [
        (
            "errors are classes: use the class whose name it has, as mr.errors.NotFoundError",
            "ABORTED ALREADY_EXISTS CANCELLED DATA_LOSS DEADLINE_EXCEEDED FAILED_PRECONDITION"
            " INTERNAL INVALID_ARGUMENT NOT_FOUND OK OUT_OF_RANGE PERMISSION_DENIED"
            " RESOURCE_EXHAUSTED UNAUTHENTICATED UNAVAILABLE UNIMPLEMENTED UNKNOWN",
        ),
        ("what graphs do not allow raises TypeError", "OperatorNotAllowedInGraphError"),
    ],
    "math": [(_BEHIND, "special")],
    "io": [("use Python's own files", "gfile")],
    "linalg": [
        (
            "linear algebra is in mr.linalg as far as pipelines need it: " + _BEHIND,
            "LinearOperator LinearOperatorAdjoint LinearOperatorBlockDiag"
            " LinearOperatorBlockLowerTriangular LinearOperatorCirculant"
            " LinearOperatorCirculant2D LinearOperatorCirculant3D LinearOperatorComposition"
            " LinearOperatorDiag LinearOperatorFullMatrix LinearOperatorHouseholder"
            " LinearOperatorIdentity LinearOperatorInversion LinearOperatorKronecker"
            " LinearOperatorLowRankUpdate LinearOperatorLowerTriangular"
            " LinearOperatorPermutation LinearOperatorScaledIdentity LinearOperatorToeplitz"
            " LinearOperatorTridiag LinearOperatorZeros experimental",
        )
    ],
    "lookup": [("use mr.lookup.StaticHashTable, which does not change", "experimental")],
    "nn": [
        (
            "layers and losses are the model's: " + _BEHIND,
            "RNNCellDeviceWrapper RNNCellDropoutWrapper RNNCellResidualWrapper"
            " all_candidate_sampler atrous_conv2d atrous_conv2d_transpose avg_pool1d"
            " avg_pool2d avg_pool3d batch_norm_with_global_normalization"
            " compute_accidental_hits compute_average_loss conv1d_transpose conv2d_transpose"
            " conv3d_transpose conv_transpose ctc_unique_labels"
            " depthwise_conv2d_backprop_filter depthwise_conv2d_backprop_input dilation2d"
            " erosion2d experimental fixed_unigram_candidate_sampler fractional_avg_pool"
            " fractional_max_pool isotonic_regression learned_unigram_candidate_sampler lrn"
            " max_pool1d max_pool2d max_pool3d max_pool_with_argmax nce_loss"
            " safe_embedding_lookup_sparse sampled_softmax_loss scale_regularization_loss"
            " separable_conv2d with_space_to_batch",
        )
    ],
    "random": [("it is not configured: random numbers are counted (mr.random)", "Algorithm")],
    "train": [
        (
            "what an iterator has read is in its get_state(): keep those bytes",
            "Checkpoint CheckpointManager CheckpointOptions CheckpointView Coordinator"
            " ExponentialMovingAverage TrackableView checkpoints_iterator experimental"
            " get_checkpoint_state latest_checkpoint list_variables load_checkpoint"
            " load_variable",
        ),
        ("mr.service has the servers", "ClusterDef ClusterSpec JobDef ServerDef"),
    ],
}
