#include "element/buffer.h"

#include "base/spare.h"
#include "element/internal.h"

/* What comes before the bytes of an owned buffer; a multiple of the alignment, so that the bytes
 * are aligned too. */
#define HEADER_BYTES MR_ALIGNMENT

_Static_assert(sizeof(struct mr_buffer) <= HEADER_BYTES,
               "a buffer's header fits in front of its data");

void mr_buffer_init(struct mr_buffer *b, void *data, size_t size, void (*release)(void *ctx),
                    void *ctx)
{
    atomic_init(&b->refs, 1);
    b->data = data;
    b->size = size;
    b->release = release;
    b->ctx = ctx;
    atomic_init(&b->memory, NULL);
    b->charged = 0;
}

void mr_buffer_set_charged(struct mr_buffer *b, mr_memory *memory, size_t bytes)
{
    atomic_init(&b->memory, memory);
    b->charged = bytes;
}

void mr_buffer_charge(mr_buffer *b, mr_memory *memory)
{
    mr_memory_add(memory, b->size);
    mr_buffer_adopt_charge(b, memory);
}

void mr_buffer_adopt_charge(mr_buffer *b, mr_memory *memory)
{
    mr_buffer_set_charged(b, memory, b->size);
}

void mr_buffer_discharge(mr_buffer *b)
{
    mr_memory *memory = atomic_exchange(&b->memory, NULL);

    mr_memory_release(memory, b->charged);
}

void *mr_aligned_memory(size_t size, void **raw, mr_error *err)
{
    mr_memory *memory = mr_memory_current();
    size_t padded;

    if (__builtin_add_overflow(size, (size_t)MR_ALIGNMENT, &padded)) {
        (void)mr_error_nomem(err);
        return NULL;
    }
    if (!mr_memory_charge(memory, MR_MEMORY_WORK, size)) {
        (void)mr_memory_refused(memory, MR_MEMORY_WORK, size, err);
        return NULL;
    }
    /* Not aligned_alloc(): what glibc before 2.38 makes by that fits no later one of the same size,
     * so that each large element takes fresh memory; and it never comes from a thread's cache. */
    *raw = mr_spare_malloc(padded);
    if (*raw == NULL) {
        mr_memory_release(memory, size);
        (void)mr_error_set(err, MR_EEXHAUSTED, "out of memory (%zu bytes)", size);
        return NULL;
    }
    return (void *)(((uintptr_t)*raw + MR_ALIGNMENT - 1) & ~(uintptr_t)(MR_ALIGNMENT - 1));
}

int mr_buffer_new(size_t size, mr_buffer **ret, mr_error *err)
{
    size_t total;
    unsigned char *memory;
    void *raw;

    if (__builtin_add_overflow(size, (size_t)HEADER_BYTES, &total)) {
        return mr_error_nomem(err);
    }
    memory = mr_aligned_memory(total, &raw, err);
    if (memory == NULL) {
        return MR_EEXHAUSTED;
    }
    mr_buffer_init((mr_buffer *)memory, memory + HEADER_BYTES, size, mr_spare_free, raw);
    mr_buffer_set_charged((mr_buffer *)memory, mr_memory_current(), total);
    *ret = (mr_buffer *)memory;
    return MR_OK;
}

/* A wrapped buffer is two things: its own header, and the memory of somebody else. */
struct wrapped {
    mr_buffer buffer;
    void (*release)(void *ctx);
    void *ctx;
};

static void release_wrapped(void *ctx)
{
    struct wrapped *w = ctx;

    if (w->release != NULL) {
        w->release(w->ctx);
    }
    mr_free(w);
}

int mr_buffer_wrap(void *data, size_t size, void (*release)(void *ctx), void *ctx, mr_buffer **ret,
                   mr_error *err)
{
    struct wrapped *w = mr_malloc(sizeof *w);

    MR_CHECK_ALLOC(w, err);
    mr_buffer_init(&w->buffer, data, size, release_wrapped, w);
    w->release = release;
    w->ctx = ctx;
    *ret = &w->buffer;
    return MR_OK;
}

mr_buffer *mr_buffer_ref(mr_buffer *b)
{
    uint32_t before = atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed);

    MR_ASSERT(before > 0);
    return b;
}

void mr_buffer_unref(mr_buffer *b)
{
    uint32_t before;

    if (b == NULL) {
        return;
    }
    before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    MR_ASSERT(before > 0);
    if (before == 1) {
        mr_buffer_discharge(b);
        b->release(b->ctx);
    }
}

void *mr_buffer_data(const mr_buffer *b)
{
    return b->data;
}

size_t mr_buffer_size(const mr_buffer *b)
{
    return b->size;
}

uint32_t mr_buffer_refs(const mr_buffer *b)
{
    /* Acquire: who finds itself alone must see what the others wrote before they let go. */
    return atomic_load_explicit(&b->refs, memory_order_acquire);
}

bool mr_buffer_has(const mr_buffer *b, const void *p)
{
    uintptr_t begin = (uintptr_t)b->data;

    return p != NULL && (uintptr_t)p >= begin && (uintptr_t)p <= begin + b->size;
}
