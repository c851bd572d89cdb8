#include "base/memory.h"

#include "base/base.h"

#include <stdatomic.h>

struct mr_memory {
    uint64_t limit;
    mr_memory *parent;
    bool (*give_way)(void *ctx); /* NULL: there is nothing spare */
    void *give_way_ctx;
    /* Bytes charged, and one for each reference: it is gone when nothing is left of either. */
    atomic_uint_least64_t used;
};

static _Thread_local mr_memory *current;

mr_memory *mr_memory_ref(mr_memory *m)
{
    if (m != NULL) {
        (void)atomic_fetch_add_explicit(&m->used, 1, memory_order_relaxed);
    }
    return m;
}

int mr_memory_new(uint64_t limit_bytes, mr_memory *parent, mr_memory **ret, mr_error *err)
{
    mr_memory *m = mr_calloc(1, sizeof *m);

    MR_CHECK_ALLOC(m, err);
    m->limit = limit_bytes;
    m->parent = mr_memory_ref(parent);
    atomic_init(&m->used, 1);
    *ret = m;
    return MR_OK;
}

static void give_back(mr_memory *m, size_t n)
{
    if (atomic_fetch_sub_explicit(&m->used, n, memory_order_acq_rel) == n) {
        mr_memory_unref(m->parent);
        mr_free(m);
    }
}

void mr_memory_unref(mr_memory *m)
{
    if (m != NULL) {
        give_back(m, 1);
    }
}

/* How much may be in use for a piece of so many bytes to be allowed. */
static uint64_t bound(const mr_memory *m, enum mr_memory_use use, size_t bytes)
{
    if (use == MR_MEMORY_AHEAD) {
        return m->limit - m->limit / 4;
    }
    if (use == MR_MEMORY_HELD) {
        return m->limit - m->limit / 8;
    }
    return bytes > m->limit / 16 ? m->limit - m->limit / 16 : m->limit;
}

void mr_memory_set_spare(mr_memory *m, bool (*give_way)(void *ctx), void *ctx)
{
    if (m != NULL) {
        m->give_way = give_way;
        m->give_way_ctx = ctx;
    }
}

static bool gives_way(const mr_memory *m)
{
    return m->give_way != NULL && m->give_way(m->give_way_ctx);
}

static bool try_charge(mr_memory *m, enum mr_memory_use use, size_t bytes)
{
    uint64_t most = bound(m, use, bytes);
    uint64_t used = atomic_load_explicit(&m->used, memory_order_relaxed);

    do { /* Never above it for a moment: that would refuse others. */
        if (bytes > most || used > most - bytes) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&m->used, &used, used + bytes,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static bool charge_one(mr_memory *m, enum mr_memory_use use, size_t bytes)
{
    while (!try_charge(m, use, bytes)) {
        if (bytes > bound(m, use, bytes) || !gives_way(m)) {
            return false;
        }
    }
    return true;
}

bool mr_memory_charge(mr_memory *m, enum mr_memory_use use, size_t bytes)
{
    for (mr_memory *at = m; at != NULL; at = at->parent) {
        if (!charge_one(at, use, bytes)) {
            for (mr_memory *back = m; back != at;) {
                mr_memory *next = back->parent;

                give_back(back, bytes);
                back = next;
            }
            return false;
        }
    }
    return true;
}

void mr_memory_add(mr_memory *m, size_t bytes)
{
    for (; m != NULL; m = m->parent) {
        (void)atomic_fetch_add_explicit(&m->used, bytes, memory_order_relaxed);
    }
}

void mr_memory_release(mr_memory *m, size_t bytes)
{
    if (m != NULL && bytes > 0) {
        mr_memory_release(m->parent, bytes); /* first: what is charged to us keeps it alive */
        give_back(m, bytes);
    }
}

bool mr_memory_could(const mr_memory *m, enum mr_memory_use use, size_t bytes)
{
    for (; m != NULL; m = m->parent) {
        if (bytes > bound(m, use, bytes)) {
            return false;
        }
    }
    return true;
}

bool mr_memory_is_short(const mr_memory *m, enum mr_memory_use use, size_t bytes)
{
    for (; m != NULL; m = m->parent) {
        uint64_t most = bound(m, use, bytes);

        while (bytes > most || mr_memory_used(m) > most - bytes) {
            if (bytes > most || !gives_way(m)) {
                return true;
            }
        }
    }
    return false;
}

int mr_memory_refused(const mr_memory *m, enum mr_memory_use use, size_t bytes, mr_error *err)
{
    const mr_memory *which = m;
    char kept[64] = "";

    /* The one that is fullest says most. */
    for (; m != NULL; m = m->parent) {
        which = mr_memory_is_short(m, use, bytes) ? m : which;
    }
    if (use != MR_MEMORY_WORK) {
        (void)snprintf(kept, sizeof kept, ", and %llu are kept for what elements need",
                       (unsigned long long)(mr_memory_limit(which) - bound(which, use, bytes)));
    }
    return mr_error_set_traits(
        err, MR_EEXHAUSTED, MR_MEMORY_UNNAMED,
        "%zu bytes more do not fit into the memory budget of %llu bytes, %llu of which are in "
        "use%s",
        bytes, (unsigned long long)mr_memory_limit(which),
        (unsigned long long)mr_memory_used(which), kept);
}

int mr_memory_lend(size_t bytes, struct mr_memory_lent *ret, mr_error *err)
{
    *ret = (struct mr_memory_lent){0};
    if (!mr_memory_charge(current, MR_MEMORY_WORK, bytes)) {
        return mr_memory_refused(current, MR_MEMORY_WORK, bytes, err);
    }
    *ret = (struct mr_memory_lent){current, bytes};
    return MR_OK;
}

void mr_memory_give_back(struct mr_memory_lent *lent)
{
    mr_memory_release(lent->memory, lent->bytes);
    *lent = (struct mr_memory_lent){0};
}

uint64_t mr_memory_limit(const mr_memory *m)
{
    return m == NULL ? UINT64_MAX : m->limit;
}

uint64_t mr_memory_used(const mr_memory *m)
{
    return m == NULL ? 0 : atomic_load_explicit(&m->used, memory_order_relaxed);
}

mr_memory *mr_memory_enter(mr_memory *m)
{
    mr_memory *before = current;

    current = m;
    return before;
}

mr_memory *mr_memory_current(void)
{
    return current;
}
