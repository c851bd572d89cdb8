/* Room to work in for one row: little of it lies on the stack, more of it is charged to the
 * thread's budget. */
#pragma once

#include "element/buffer.h"

struct mr_scratch {
    mr_buffer *memory; /* NULL: `few` is enough */
    _Alignas(MR_ALIGNMENT) unsigned char few[2048];
};

/* @n bytes, aligned for any value, in *@ret. To be freed, whatever comes of it. */
static inline int mr_scratch_take(struct mr_scratch *s, size_t n, void **ret, mr_error *err)
{
    s->memory = NULL;
    if (n > sizeof s->few) {
        MR_TRY(mr_buffer_new(n, &s->memory, err));
    }
    *ret = s->memory != NULL ? mr_buffer_data(s->memory) : s->few;
    return MR_OK;
}

static inline void mr_scratch_free(struct mr_scratch *s)
{
    mr_buffer_unref(s->memory);
}
