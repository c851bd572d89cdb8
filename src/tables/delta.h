/* Parquet's DELTA_BINARY_PACKED. Threads: none of its own. */
#pragma once

#include "base/base.h"

/* All values that @p begins with, as many as they are, at most @most, and how many bytes they take.
 * *@ret is freed with mr_free(). MR_EDATALOSS says what is wrong. */
int mr_delta_read(const unsigned char *p, size_t size, uint64_t most, int64_t **ret, size_t *n,
                  size_t *used, mr_error *err);
