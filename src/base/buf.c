#include "base/buf.h"

#include "base/spare.h"

#include <stdarg.h>

/* The bytes with room for @cap; NULL, and nothing has changed, if there is no memory. */
static unsigned char *with_room(struct mr_buf *b, size_t cap)
{
    if (!b->spare) {
        return mr_realloc(b->data, cap);
    }
    unsigned char *data = mr_spare_malloc(cap);
    if (data != NULL) {
        if (b->len > 0) {
            memcpy(data, b->data, b->len);
        }
        mr_spare_free(b->data);
    }
    return data;
}

void *mr_buf_reserve(struct mr_buf *b, size_t n)
{
    size_t need;

    if (b->failed || __builtin_add_overflow(b->len, n, &need) || need == SIZE_MAX) {
        b->failed = true;
        return NULL;
    }
    need++; /* the NUL */
    if (need > b->cap) {
        size_t cap = b->cap == 0 ? MR_MAX(need, 64) : b->cap; /* the first is taken at its word */

        while (cap < need) {
            cap = cap > SIZE_MAX / 2 ? need : cap * 2;
        }
        if (!mr_memory_charge(b->memory, MR_MEMORY_WORK, cap - b->cap)) {
            b->refused = cap - b->cap;
            b->failed = true;
            return NULL;
        }
        unsigned char *data = with_room(b, cap);
        if (data == NULL) {
            mr_memory_release(b->memory, cap - b->cap);
            b->failed = true;
            return NULL;
        }
        b->data = data;
        b->cap = cap;
    }
    return b->data + b->len;
}

void mr_buf_append(struct mr_buf *b, const void *p, size_t n)
{
    unsigned char *to = mr_buf_reserve(b, n);

    if (to != NULL) {
        if (n > 0) {
            memcpy(to, p, n);
        }
        to[n] = '\0';
        b->len += n;
    }
}

void mr_buf_puts(struct mr_buf *b, const char *s)
{
    mr_buf_append(b, s, strlen(s));
}

void mr_buf_printf(struct mr_buf *b, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *to = n < 0 ? NULL : mr_buf_reserve(b, (size_t)n);
    if (to == NULL) {
        b->failed = true;
        return;
    }
    va_start(ap, fmt);
    (void)vsnprintf(to, (size_t)n + 1, fmt, ap);
    va_end(ap);
    b->len += (size_t)n;
}

void *mr_buf_take(struct mr_buf *b, size_t *len)
{
    void *data = NULL;

    MR_ASSERT(!b->spare);
    if (!b->failed && mr_buf_reserve(b, 0) != NULL) {
        b->data[b->len] = '\0';
        data = b->data;
        if (len != NULL) {
            *len = b->len;
        }
        b->data = NULL; /* what was charged is released with the buffer: it is the caller's now */
    }
    mr_buf_free(b);
    return data;
}

void mr_buf_clear(struct mr_buf *b)
{
    b->len = 0;
    b->refused = 0;
    b->failed = false;
}

int mr_buf_error(const struct mr_buf *b, mr_error *err)
{
    return b->refused > 0 ? mr_memory_refused(b->memory, MR_MEMORY_WORK, b->refused, err)
                          : mr_error_nomem(err);
}

void mr_buf_free(struct mr_buf *b)
{
    if (b->spare) {
        mr_spare_free(b->data);
    } else {
        mr_free(b->data);
    }
    mr_memory_release(b->memory, b->cap);
    *b = (struct mr_buf){.spare = b->spare, .memory = b->memory};
}
