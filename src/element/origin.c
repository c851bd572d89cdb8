#include "element/origin.h"

#include "base/base.h"

#include <stdatomic.h>

struct mr_marks {
    _Atomic uint32_t refs;
    _Atomic uint32_t held[MR_MARKS_MAX]; /* origins that have the mark */
};

struct mr_origin {
    _Atomic uint32_t refs;
    mr_marks *marks; /* one reference */
    uint64_t mask;
};

int mr_marks_new(mr_marks **ret, mr_error *err)
{
    mr_marks *m = mr_calloc(1, sizeof *m);

    MR_CHECK_ALLOC(m, err);
    atomic_init(&m->refs, 1);
    for (uint32_t i = 0; i < MR_MARKS_MAX; i++) {
        atomic_init(&m->held[i], 0);
    }
    *ret = m;
    return MR_OK;
}

void mr_marks_unref(mr_marks *m)
{
    if (m != NULL && atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) == 1) {
        mr_free(m);
    }
}

uint64_t mr_marks_held(const mr_marks *m)
{
    uint64_t mask = 0;

    for (uint32_t i = 0; i < MR_MARKS_MAX; i++) {
        mask |= (uint64_t)(atomic_load_explicit(&m->held[i], memory_order_acquire) > 0) << i;
    }
    return mask;
}

static void hold(mr_marks *m, uint64_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        (void)atomic_fetch_add_explicit(&m->held[__builtin_ctzll(mask)], 1, memory_order_relaxed);
    }
}

static void let_go(mr_marks *m, uint64_t mask)
{
    for (; mask != 0; mask &= mask - 1) {
        uint32_t before =
            atomic_fetch_sub_explicit(&m->held[__builtin_ctzll(mask)], 1, memory_order_release);

        MR_ASSERT(before > 0);
    }
}

static int origin_new(mr_marks *marks, uint64_t mask, mr_origin **ret, mr_error *err)
{
    mr_origin *o = mr_malloc(sizeof *o);

    MR_CHECK_ALLOC(o, err);
    (void)atomic_fetch_add_explicit(&marks->refs, 1, memory_order_relaxed);
    hold(marks, mask);
    atomic_init(&o->refs, 1);
    o->marks = marks;
    o->mask = mask;
    *ret = o;
    return MR_OK;
}

int mr_origin_new(mr_marks *marks, uint32_t mark, mr_origin **ret, mr_error *err)
{
    MR_ASSERT(mark < MR_MARKS_MAX);
    return origin_new(marks, UINT64_C(1) << mark, ret, err);
}

mr_origin *mr_origin_ref(const mr_origin *origin)
{
    mr_origin *o =
        (mr_origin *)(uintptr_t)origin; /* The count is not part of what never changes. */

    if (o != NULL) {
        uint32_t before = atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);

        MR_ASSERT(before > 0);
    }
    return o;
}

void mr_origin_unref(const mr_origin *origin)
{
    mr_origin *o = (mr_origin *)(uintptr_t)origin;

    if (o == NULL) {
        return;
    }
    uint32_t before = atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel);
    MR_ASSERT(before > 0);
    if (before > 1) {
        return;
    }
    let_go(o->marks, o->mask);
    mr_marks_unref(o->marks);
    mr_free(o);
}

int mr_origin_add(mr_origin **origin, const mr_origin *more, mr_error *err)
{
    mr_origin *o = *origin;
    mr_origin *both = NULL;

    if (more == NULL || more == o) {
        return MR_OK;
    }
    if (o == NULL) {
        *origin = mr_origin_ref(more);
        return MR_OK;
    }
    MR_ASSERT(o->marks == more->marks);
    uint64_t new_marks = more->mask & ~o->mask;
    if (new_marks == 0) {
        return MR_OK;
    }
    if ((o->mask & ~more->mask) == 0) {
        *origin = mr_origin_ref(more);
        mr_origin_unref(o);
        return MR_OK;
    }
    if (atomic_load_explicit(&o->refs, memory_order_acquire) == 1) { /* Nobody else can see it. */
        hold(o->marks, new_marks);
        o->mask |= new_marks;
        return MR_OK;
    }
    MR_TRY(origin_new(o->marks, o->mask | more->mask, &both, err));
    *origin = both;
    mr_origin_unref(o);
    return MR_OK;
}

uint64_t mr_origin_mask(const mr_origin *origin)
{
    return origin == NULL ? 0 : origin->mask;
}
