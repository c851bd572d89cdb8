"""Mirrors tf.nn, as far as it is built."""

from ._ops.absent import not_built as _not_built
from ._ops.elementwise import relu as relu, sigmoid as sigmoid, tanh as tanh
from ._ops.layout import depth_to_space as depth_to_space, space_to_depth as space_to_depth
from ._ops.matrices import l2_normalize as l2_normalize
from ._ops.ordering import in_top_k as in_top_k, top_k as top_k
from ._ops.special import (
    elu as elu,
    gelu as gelu,
    leaky_relu as leaky_relu,
    relu6 as relu6,
    selu as selu,
    silu as silu,
    softplus as softplus,
    softsign as softsign,
    swish as swish,
)
from ._ops.statistics import (
    l2_loss as l2_loss,
    log_softmax as log_softmax,
    moments as moments,
    softmax as softmax,
    zero_fraction as zero_fraction,
)

__getattr__ = _not_built(__name__)
