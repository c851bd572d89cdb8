#include "engine/ops/place.h"

#include "base/assert.h"
#include "base/clock.h"
#include "base/scope.h"

#include <string.h>

bool mr_place_can_pull_locked(const struct mr_place *p)
{
    return p->inner != NULL && !p->busy && !p->ended && p->queued < MR_PLACE_QUEUE_MAX;
}

void mr_place_pull(struct mr_place *p, struct mr_driver *driver)
{
    struct mr_pull pull = {.rows = p->demand,
                           .bytes = MR_BLOCK_BYTES_HINT,
                           .deadline_ms = MR_NO_DEADLINE,
                           .interrupt = &driver->interrupt};
    struct mr_place_entry e = {0};
    int64_t begin = mr_now_ns();

    e.rc = mr_op_pull(p->inner, &pull, &e.block, &e.err);
    int64_t ns = mr_now_ns() - begin;
    MR_LOCK(&driver->lock);
    MR_ASSERT(p->busy);
    MR_ASSERT(!p->ended);
    MR_ASSERT(p->queued < MR_PLACE_QUEUE_MAX);
    p->busy = false;
    if (e.rc == MR_OK) {
        uint32_t rows = mr_block_rows(e.block);

        p->demand =
            mr_driver_next_demand(p->demand, rows, mr_block_row_bytes(e.block, 0, rows), ns);
        p->queue[p->queued++] = e;
    } else if (e.rc == MR_END) {
        p->ended = true;
    } else if (e.rc < 0 && e.rc != MR_ECANCELED) {
        p->queue[p->queued++] = e;
    }
    mr_driver_changed_locked(driver);
}

int mr_place_pop_locked(struct mr_place *p, mr_error *err)
{
    if (p->queued == 0) {
        return p->ended ? MR_END : MR_TIMEOUT;
    }
    struct mr_place_entry e = p->queue[0];
    MR_ASSERT((e.block == NULL) == (e.rc != MR_OK));
    MR_ASSERT(p->block == NULL);
    p->queued--;
    memmove(p->queue, p->queue + 1, p->queued * sizeof p->queue[0]);
    if (e.block == NULL) {
        if (err != NULL) {
            *err = e.err;
        }
        return e.rc;
    }
    p->block = e.block;
    p->used = 0;
    return MR_OK;
}

static int save_slice(mr_block *block, uint32_t first, uint32_t count, struct mr_state_out *out,
                      mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *slice = NULL;

    MR_TRY(mr_block_slice(block, first, count, &slice, err));
    return mr_state_put_block(out, slice, err);
}

int mr_place_save(const struct mr_place *p, struct mr_state_out *out, mr_error *err)
{
    int rc = MR_OK;

    mr_state_put_u64(out, p->inner != NULL);
    if (p->inner == NULL) {
        return MR_OK;
    }
    if (p->block != NULL) {
        rc = save_slice(p->block, p->used, mr_block_rows(p->block) - p->used, out, err);
    } else {
        rc = mr_state_put_block(out, NULL, err);
    }
    mr_state_put_u64(out, p->ended);
    mr_state_put_u64(out, p->queued);
    for (uint32_t i = 0; i < p->queued && rc == MR_OK; i++) {
        rc = mr_state_put_block(out, p->queue[i].block, err);
        mr_state_put_error(out, p->queue[i].rc, &p->queue[i].err);
    }
    return rc == MR_OK ? mr_expander_save_inner(p->inner, out, err) : rc;
}

static int restore_entry(struct mr_place *p, const mr_spec *spec, struct mr_state_in *in,
                         mr_error *err)
{
    struct mr_place_entry *e = &p->queue[p->queued];
    int rc = mr_state_get_block(in, spec, &e->block, err);

    p->queued++; /* closing frees it, however far this came */
    if (rc == MR_OK) {
        rc = mr_state_get_error(in, &e->rc, &e->err, err);
    }
    if (rc == MR_OK && (e->block == NULL) == (e->rc == MR_OK)) {
        rc = mr_state_damaged(err);
    }
    return rc;
}

int mr_place_restore(struct mr_place *p, const mr_spec *spec, struct mr_expander *expander,
                     struct mr_state_in *in, mr_error *err)
{
    bool present = false;
    uint64_t queued = 0;
    int rc = mr_state_get_bool(in, &present, err);

    if (rc != MR_OK || !present) {
        return rc;
    }
    rc = mr_state_get_block(in, spec, &p->block, err);
    if (rc == MR_OK) {
        rc = mr_state_get_bool(in, &p->ended, err);
    }
    if (rc == MR_OK) {
        rc = mr_state_get_bounded(in, MR_PLACE_QUEUE_MAX, &queued, err);
    }
    for (uint64_t i = 0; i < queued && rc == MR_OK; i++) {
        rc = restore_entry(p, spec, in, err);
    }
    MR_TRY(rc);
    MR_TRY(mr_expander_restore_inner(expander, in, &p->inner, err));
    p->demand = 1;
    return MR_OK;
}

void mr_place_free(struct mr_place *p)
{
    for (uint32_t k = 0; k < p->queued; k++) {
        mr_block_unref(p->queue[k].block);
    }
    mr_block_unref(p->block);
    mr_op_close(p->inner);
}
