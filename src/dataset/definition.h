/*
 * Definitions as bytes: a packed DatasetDef, or one frame of zstd with that in it, which is how
 * large ones are sent and stored. A frame says how much is in it; a DatasetDef never begins like
 * one.
 *
 * Threads: pure.
 */
#pragma once

#include "element/buffer.h"
#include "millrace/dataset.pb-c.h"

#include <millrace/dataset.h>

/* Make *@bytes (of mr_malloc(), replaced) what is sent: compressed where that saves something worth
 * it. MR_EINVAL, with both sizes: too large even so. */
int mr_definition_compress(void **bytes, size_t *size, mr_error *err);

/* Put in front of @err, which says that the definition of @ds is too large, what makes it so. */
void mr_definition_name_largest(const mr_dataset *ds, mr_error *err);

/* What it has when it is not compressed, within the limits. */
int mr_definition_expanded(const void *bytes, size_t size, size_t *ret, mr_error *err);

/* A definition taken apart. Its constants, which are what makes it large, go from where they come
 * from to where they stay, once: they are expanded a piece at a time, and blocks are made in their
 * buffers. */
struct mr_definition_parts {
    Millrace__DatasetDef *def; /* all but the constants */
    size_t def_bytes;          /* of memory */
    mr_buffer **constants;
    size_t nconstants;
};
/* In either form, within the limits before and after. *@ret is freed with
 * mr_definition_parts_free(). */
int mr_definition_unpack(const void *bytes, size_t size, struct mr_definition_parts *ret,
                         mr_error *err);
void mr_definition_parts_free(struct mr_definition_parts *parts); /* zeros are fine */
/* Memory that it keeps. */
size_t mr_definition_parts_bytes(const struct mr_definition_parts *parts);

/* mr_dataset_parse() of what was unpacked. The dataset shares the constants. */
int mr_dataset_of_definition(const struct mr_definition_parts *parts, mr_dataset **ret,
                             mr_error *err);
