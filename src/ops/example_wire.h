/*
 * Reading tf.Example records from bytes that nobody has checked: a bounds-checked reader for the
 * four messages that they are made of. Nothing is copied or allocated; spans point into the record.
 *
 *   Example { Features features = 1; }     Features { map<string, Feature> feature = 1; }
 *   Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3;
 *   } } lists: repeated value = 1; numbers packed or not
 *
 * As in protobuf: unknown fields are skipped, repeated messages are merged, of two entries with one
 * key the last counts, and of two members of the oneof too. Pure.
 */
#pragma once

#include "ops/tensor.h"

enum mr_feature_kind {
    MR_FEATURE_NONE = 0,
    MR_FEATURE_BYTES = 1,
    MR_FEATURE_FLOATS = 2,
    MR_FEATURE_INT64S = 3,
};

/* Call @entry for each entry of the feature map, in order: key and Feature message. MR_EINVAL: not
 * a tf.Example, and where. */
int mr_example_scan(struct mr_string record,
                    void (*entry)(void *ctx, struct mr_string key, struct mr_string feature),
                    void *ctx, mr_error *err);

/* Call @list for each entry of the map of feature lists of a tf.SequenceExample: key and
 * FeatureList message. */
int mr_sequence_scan(struct mr_string record,
                     void (*list)(void *ctx, struct mr_string key, struct mr_string list),
                     void *ctx, mr_error *err);
/* Call @step for each Feature message of a FeatureList. */
int mr_sequence_steps(struct mr_string list, void (*step)(void *ctx, struct mr_string feature),
                      void *ctx, mr_error *err);

/* The kind of the list in a Feature message, and the number of its values. */
int mr_feature_count(struct mr_string feature, enum mr_feature_kind *kind, uint64_t *count,
                     mr_error *err);

/* The values of a feature that mr_feature_count() has accepted, @count of @kind: struct mr_string
 * (pointing into the record), float or int64_t. */
void mr_feature_read(struct mr_string feature, enum mr_feature_kind kind, uint64_t count,
                     void *out);
