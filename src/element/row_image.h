/*
 * A row as bytes of its own: what is kept of a small row, so that it neither pins the block it came
 * from nor costs a block itself. Made for rows that wait in a buffer and leave it one by one, in
 * another order (engine/rows.h).
 *
 * An image is its size (uint32), then for each column: int64 dims[rank]; MR_STRING: uint32
 * lengths[values]; the values. Nothing in it is aligned. It does not leave the process, and is not
 * checked.
 *
 * Threads: images are immutable.
 */
#pragma once

#include "element/block.h"

/* Rows of @spec may be kept as images: the ranks of all columns are known. */
bool mr_row_images_suit(const mr_spec *spec);
/* Row @row of @block, which has fewer than 4 GiB; freed with mr_free(). */
int mr_row_image_new(const mr_block *block, uint32_t row, void **ret, mr_error *err);
size_t mr_row_image_bytes(const void *image);
/* A block of these rows, @n >= 1 of them, each an image of a row of @spec. */
int mr_row_images_block(const mr_spec *spec, const void *const *images, uint32_t n, mr_block **ret,
                        mr_error *err);
