/* parse_example: what its attributes say of the features, checked. Pure. */
#pragma once

#include "ops/example_wire.h"

struct mr_example_feature {
    struct mr_string name; /* in the attribute's block */
    uint8_t dtype;
    int rank;
    int64_t dims[MR_RANK_MAX];
    bool sequence; /* dims[0] is whatever the record has */
    /* a sequence whose records are put behind one another; its lengths are result n + so many */
    bool joined;
    size_t number;
    uint64_t per_record;      /* values; of one step along dims[0] for a sequence */
    const mr_block *fallback; /* in the attributes; NULL: none */
    uint64_t fallback_count;  /* 1 or per_record */
};

#define MR_EXAMPLE_MAGIC UINT32_C(0x6d726578)

struct mr_example_config {
    uint32_t magic;
    size_t n;
    size_t njoined;
    uint32_t *by_name; /* indices, sorted by name */
    struct mr_example_feature features[];
};

int mr_example_config_new(struct mr_attrs attrs, struct mr_example_config **ret, mr_error *err);
void mr_example_config_free(void *config); /* NULL is fine */
MR_AUTO_DEFINE(struct mr_example_config, mr_example_config_free)

enum mr_feature_kind mr_feature_kind_of(unsigned dtype);
/* "feature 'label'" for messages, cut if it is long. */
#define MR_FEATURE_TEXT 80
const char *mr_feature_text(struct mr_string name, char buf[MR_FEATURE_TEXT]);
/* Below, at or above 0, as memcmp() has it. */
int mr_string_compare(struct mr_string a, struct mr_string b);
