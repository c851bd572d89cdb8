"""Mirrors tf.ragged, as far as it is built."""

from ._base.hints import missing_name as _missing_name
from ._ops.absent import cross as cross, cross_hashed as cross_hashed
from ._ops.ragged.functions import (
    constant as constant,
    map_flat_values as map_flat_values,
    ragged_boolean_mask as boolean_mask,
    ragged_range as range,
    ragged_stack as stack,
    row_splits_to_segment_ids as row_splits_to_segment_ids,
    segment_ids_to_row_splits as segment_ids_to_row_splits,
    stack_dynamic_partitions as stack_dynamic_partitions,
)

__getattr__ = _missing_name(__name__)
