/*
 * Reference-counted runs of bytes, 64-byte aligned. Small ones come with their header in one
 * allocation.
 *
 * What mr_buffer_new() makes is charged to the thread's budget (base/memory.h) until it is freed.
 *
 * Threads: ref and unref from any thread; writing only before the buffer is shared.
 */
#pragma once

#include "base/base.h"
#include "base/memory.h"

typedef struct mr_buffer mr_buffer;

int mr_buffer_new(size_t size, mr_buffer **ret, mr_error *err);
/* Memory that somebody else owns: @release is called once, from the thread of the last unref. */
int mr_buffer_wrap(void *data, size_t size, void (*release)(void *ctx), void *ctx, mr_buffer **ret,
                   mr_error *err);
mr_buffer *mr_buffer_ref(mr_buffer *b);
void mr_buffer_unref(mr_buffer *b); /* NULL is fine */
/* @b, which is not shared yet and counts nowhere, counts in @memory, above its limit too: its bytes
 * came unasked. */
void mr_buffer_charge(mr_buffer *b, mr_memory *memory);
/* The same, where so many bytes were charged before: they are released with @b. */
void mr_buffer_adopt_charge(mr_buffer *b, mr_memory *memory);
/* It counts in no memory budget any more: somebody has it whose memory is not ours to bound. */
void mr_buffer_discharge(mr_buffer *b);
void *mr_buffer_data(const mr_buffer *b);
size_t mr_buffer_size(const mr_buffer *b);
uint32_t mr_buffer_refs(const mr_buffer *b);
/* Whether @p points into @b, or right behind it. NULL points nowhere. */
bool mr_buffer_has(const mr_buffer *b, const void *p);

MR_AUTO_DEFINE(mr_buffer, mr_buffer_unref)
