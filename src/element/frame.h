/*
 * One message of the data path (/millrace.Worker/Read, worker to client):
 *
 *     u32 magic "MRF1" | u32 length of the header | packed millrace.ReadHeader | zeros to a
 *     multiple of 64 | blocks
 *
 * each block as block.h says, so that all of them start at a multiple of 64. Building gathers
 * nothing: a frame is a list of slices, of which only the small parts are its own. Parsing copies
 * nothing: the blocks point into the buffer.
 *
 * Threads: a built frame is immutable; ref and unref from any thread.
 */
#pragma once

#include "element/packed.h"
#include "millrace/service.pb-c.h"

typedef struct mr_frame mr_frame;

/* A message of @header and @parts (n may be 0); takes a reference to each of them. What is packed
 * goes as it is, @spec_hash and @checksum are for the others. header->elements is written as it is:
 * it must be the sum of all rows. The caller owns *@ret. */
int mr_frame_build(const Millrace__ReadHeader *header, const struct mr_part *parts, size_t n,
                   uint64_t spec_hash, bool checksum, mr_frame **ret, mr_error *err);
mr_frame *mr_frame_ref(mr_frame *frame);
/* NULL is fine; takes void * to serve as a slice's release function */
void mr_frame_unref(void *frame);

/* The slices in order: lent, as long as the caller holds a reference. */
const struct iovec *mr_frame_iov(const mr_frame *frame, size_t *count);
size_t mr_frame_bytes(const mr_frame *frame);

/* What a received message says. */
struct mr_frame_content {
    Millrace__ReadHeader *header;
    mr_block **blocks;
    size_t n;
};

/* Parse a received message: @buffer holds exactly the message, its data aligned to 64. The blocks
 * keep the buffer, each through a handle of its own: they share no byte, so that each of them can
 * be exclusive. MR_EDATALOSS names the fault. @spec_hash 0: not compared. Free with
 * mr_frame_content_free(). */
int mr_frame_parse(mr_buffer *buffer, uint64_t spec_hash, struct mr_frame_content *ret,
                   mr_error *err);
void mr_frame_content_free(struct mr_frame_content *content); /* a zeroed one is fine */
