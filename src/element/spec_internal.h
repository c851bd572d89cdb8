/* The structure half of a spec: JSON in which "*" stands for the next leaf (see
 * <millrace/spec.h>). */
#pragma once

#include <millrace/spec.h>

/* The only keys of dicts that stand for something else. */
#define MR_STRUCTURE_NAMEDTUPLE "!namedtuple"
#define MR_STRUCTURE_DATASET "!dataset"

/* Check @structure (NULL: "*" for one leaf, else a flat tuple) against @leaves, @n of them. *@ret
 * is its canonical text, freed with mr_free(). MR_EINVAL says what is wrong and where. Leaves that
 * the structure says to be datasets become such; without a structure those that are stay so.
 * @nesting: datasets around this spec. */
int mr_structure_canonical(const char *structure, struct mr_leaf_spec *leaves, size_t n,
                           int nesting, char **ret, mr_error *err);

/* mr_spec_new() for a spec within others. */
int mr_spec_new_nested(const struct mr_leaf_spec *leaves, size_t n, const char *structure,
                       int nesting, mr_spec **ret, mr_error *err);
