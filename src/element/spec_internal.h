/* The structure half of a spec: JSON in which "*" stands for the next leaf (see
 * <millrace/spec.h>). */
#pragma once

#include <millrace/spec.h>

#include <jansson.h>

/* The only keys of dicts that stand for something else. */
#define MR_STRUCTURE_NAMEDTUPLE "!namedtuple"
#define MR_STRUCTURE_DATASET "!dataset"

/* Check @structure (NULL: "*" for one leaf, else a flat tuple) against @leaves, @n of them. *@shown
 * is its text, *@sorted the same with the keys of dicts in the order of their bytes, which is that
 * of their leaves. The caller frees both with mr_free(), also after an error. MR_EINVAL says what
 * is wrong and where. Leaves that the structure says to be datasets become such; without a
 * structure those that are stay so. @nesting: datasets around this spec. */
int mr_structure_check(const char *structure, struct mr_leaf_spec *leaves, size_t n, int nesting,
                       char **shown, char **sorted, mr_error *err);
/* How many leaves @structure has. */
int mr_structure_count(const char *structure, size_t *ret, mr_error *err);
/* The keys of @dict in the order of their bytes, lent, in an array that is freed with mr_free().
 * NULL: no memory. */
const char **mr_structure_keys(const json_t *dict, size_t *n);

/* mr_spec_new() for a spec within others. */
int mr_spec_new_nested(const struct mr_leaf_spec *leaves, size_t n, const char *structure,
                       int nesting, mr_spec **ret, mr_error *err);
