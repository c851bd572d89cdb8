/* Parquet's DELTA_BINARY_PACKED. Threads: none of its own. */
#pragma once

#include "element/buffer.h"

/* All values that @p begins with, as many as they are, at most @most, and how many bytes they take.
 * *@ret are int64, in memory that counts: a few bytes may be millions of values. MR_EDATALOSS says
 * what is wrong. */
int mr_delta_read(const unsigned char *p, size_t size, uint64_t most, mr_buffer **ret, size_t *n,
                  size_t *used, mr_error *err);
