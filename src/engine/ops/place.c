#include "engine/ops/place.h"

#include "base/clock.h"

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
    int64_t begin = mr_cpu_now_ns();

    e.rc = mr_op_pull(p->inner, &pull, &e.block, &e.err);
    int64_t ns = mr_cpu_now_ns() - begin;
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
    } else if (e.rc < 0 && !mr_driver_gave_up(driver, e.rc)) {
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
        return mr_error_pass(err, e.rc, &e.err);
    }
    p->block = e.block;
    p->used = 0;
    return MR_OK;
}

int mr_place_state(struct mr_place *p, const mr_spec *spec, struct mr_expander *expander,
                   struct mr_state *s, mr_error *err)
{
    bool present = p->inner != NULL;

    MR_TRY(mr_state_bool(s, &present, err));
    if (!present) {
        return MR_OK;
    }
    MR_TRY(mr_state_rest(s, &p->block, &p->used, spec, err));
    MR_TRY(mr_state_bool(s, &p->ended, err));
    MR_TRY(mr_state_u32(s, &p->queued, MR_PLACE_QUEUE_MAX, err));
    for (uint32_t i = 0; i < p->queued; i++) {
        struct mr_place_entry *e = &p->queue[i];

        MR_TRY(mr_state_block_or_error(s, &e->block, spec, &e->rc, &e->err, err));
    }
    MR_TRY(mr_expander_inner_state(expander, &p->inner, s, err));
    p->demand = s->restores ? 1 : p->demand;
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
