#include "engine_outside.h"

#include "base/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static int outside_pull(void *ctx, struct mr_want want, int timeout_ms, mr_block **ret,
                        mr_error *err)
{
    struct outside *o = ctx;
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    uint32_t n = want.rows_max;

    MR_LOCK(&o->lock);
    o->largest = n > o->largest ? n : o->largest;
    if (o->next == o->rows) {
        return MR_END;
    }
    if (o->cancelled_at > 0 && o->next == o->cancelled_at) {
        return mr_error_set(err, MR_ECANCELED, "the job was cancelled");
    }
    if (o->next == o->blocks_at) {
        o->waiting = true;
        (void)pthread_cond_broadcast(&o->changed);
        while (!o->cancelled) {
            if (!mr_cond_wait_ms(&o->changed, &o->lock, timeout_ms)) {
                return MR_TIMEOUT;
            }
        }
        return mr_error_set(err, MR_ECANCELED, "cancelled");
    }
    if ((int64_t)n > o->rows - o->next) {
        n = (uint32_t)(o->rows - o->next);
    }
    if (o->cancelled_at > 0 && (int64_t)n > o->cancelled_at - o->next) {
        n = (uint32_t)(o->cancelled_at - o->next);
    }
    if (o->blocks_at >= 0 && (int64_t)n > o->blocks_at - o->next) {
        n = (uint32_t)(o->blocks_at - o->next);
    }
    int rc = mr_block_alloc(n, &leaf, 1, ret, err);
    for (uint32_t i = 0; rc == MR_OK && i < n; i++) {
        ((int64_t *)mr_block_data(*ret, 0))[i] = o->next++;
    }
    return rc;
}

static void outside_cancel(void *ctx)
{
    struct outside *o = ctx;

    MR_LOCK(&o->lock);
    o->cancelled = true;
    (void)pthread_cond_broadcast(&o->changed);
}

static void outside_close(void *ctx)
{
    ((struct outside *)ctx)->closed++;
}

int outside_open(void *ctx, const char *op, const struct mr_attr *attrs, size_t nattrs,
                 mr_dataset *input, uint64_t ordinal, struct mr_external_iter *ret, mr_error *err)
{
    struct outside *o = ctx;

    assert_string_equal(op, "distribute");
    assert_non_null(input);
    assert_int_equal(nattrs, 2);
    assert_string_equal(attrs[0].name, "processing_mode");
    o->ordinal = ordinal;
    o->opened++;
    o->next = 0;
    *ret = (struct mr_external_iter){
        .ctx = o, .pull = outside_pull, .cancel = outside_cancel, .close = outside_close};
    return MR_OK;
}

struct outside *outside_new(int64_t rows, int64_t blocks_at)
{
    struct outside *o = calloc(1, sizeof *o);

    mr_mutex_init(&o->lock);
    mr_cond_init(&o->changed);
    o->rows = rows;
    o->blocks_at = blocks_at;
    return o;
}

mr_dataset *make_outside(void)
{
    return make("distribute", make_range(0, 100, 1), NULL,
                ATTRS(TEXT_ATTR("service", "a:1"), TEXT_ATTR("processing_mode", "parallel_epochs")),
                NULL);
}
