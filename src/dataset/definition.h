/*
 * Definitions as bytes: a packed DatasetDef, or one frame of zstd with that in it, which is how large ones are sent and
 * stored. A frame says how much is in it; a DatasetDef never begins like one.
 *
 * Threads: pure.
 */
#ifndef MR_DATASET_DEFINITION_H
#define MR_DATASET_DEFINITION_H

#include "millrace/dataset.pb-c.h"

#include <millrace/dataset.h>

/*
 * Make *@bytes (of mr_malloc(), replaced) what is sent: compressed where that saves something worth it. MR_EINVAL, with
 * both sizes: too large even so.
 */
int mr_definition_compress(void **bytes, size_t *size, mr_error *err);

/* In either form, within the limits before and after. *@ret is freed with millrace__dataset_def__free_unpacked(). */
int mr_definition_unpack(const void *bytes, size_t size, Millrace__DatasetDef **ret, mr_error *err);

/* mr_dataset_parse() of what was unpacked. */
int mr_dataset_of_definition(const Millrace__DatasetDef *def, mr_dataset **ret, mr_error *err);

#endif
