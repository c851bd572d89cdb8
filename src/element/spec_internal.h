/* The structure half of a spec: JSON in which "*" stands for the next leaf (see <millrace/spec.h>). */
#ifndef MR_ELEMENT_SPEC_INTERNAL_H
#define MR_ELEMENT_SPEC_INTERNAL_H

#include <millrace/spec.h>

/* How deep structures may be nested, and how long their text may be. */
#define MR_STRUCTURE_DEPTH_MAX 64
#define MR_STRUCTURE_BYTES_MAX (1u << 20)

/*
 * Check @structure (NULL: "*" for one leaf, else a flat tuple) and that it has @leaves leaves. *@ret is its canonical
 * text, freed with mr_free(). MR_EINVAL says what is wrong and where.
 */
int mr_structure_canonical(const char *structure, size_t leaves, char **ret, mr_error *err);

#endif
