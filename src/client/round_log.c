#include "client/round_log.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/scope.h"
#include "base/sync.h"
#include "client/steps.h"
#include "dataset/graph.h"
#include "dataset/operator.h"
#include "ops/kernel.h"

#include <string.h>

#define RING_MIN 64u
/* Of what stands behind a read: it is for an error's words alone. */
#define STEPS_MAX 65536

static bool is_coordinated_read(const mr_dataset *ds)
{
    const struct mr_attr *n = mr_attr_find(ds->attrs, ds->nattrs, "num_consumers");

    return n != NULL && n->i > 0;
}

/* @steps are left: a graph whose nodes meet again has more paths than anybody can walk. */
static bool has_coordinated_read(const mr_dataset *ds, size_t *steps)
{
    if (is_coordinated_read(ds)) {
        return true;
    }
    for (size_t i = 0; i<ds->ninputs && * steps> 0; i++) {
        --*steps;
        if (has_coordinated_read(ds->inputs[i], steps)) {
            return true;
        }
    }
    return false;
}

void mr_round_log_init(struct mr_round_log *log, const mr_dataset *ds)
{
    size_t steps = STEPS_MAX;
    const mr_dataset *below;
    bool mixed = false;

    memset(log, 0, sizeof *log);
    mr_mutex_init(&log->lock);
    while (!is_coordinated_read(ds) && (below = mr_steps_input(ds, &mixed)) != NULL && !mixed) {
        ds = below;
    }
    log->follows = is_coordinated_read(ds);
    log->obstacle = !log->follows && has_coordinated_read(ds, &steps) ? ds->op->name : NULL;
}

void mr_round_log_destroy(struct mr_round_log *log)
{
    mr_free(log->ring);
    (void)pthread_mutex_destroy(&log->lock);
}

static int grow_locked(struct mr_round_log *log, mr_error *err)
{
    size_t cap = log->cap == 0 ? RING_MIN : 2 * log->cap;
    uint64_t *ring = mr_calloc(cap, sizeof *ring);

    MR_CHECK_ALLOC(ring, err);
    for (size_t i = 0; i < log->count; i++) {
        ring[i] = log->ring[(log->head + i) % log->cap];
    }
    mr_free(log->ring);
    log->ring = ring;
    log->cap = cap;
    log->head = 0;
    return MR_OK;
}

int mr_round_log_give(struct mr_round_log *log, uint64_t round, mr_error *err)
{
    if (!log->follows) {
        return MR_OK;
    }
    MR_LOCK(&log->lock);
    if (log->count == log->cap) {
        MR_TRY(grow_locked(log, err));
    }
    log->ring[(log->head + log->count++) % log->cap] = round;
    return MR_OK;
}

void mr_round_log_hand_out(struct mr_round_log *log, uint32_t rows)
{
    if (!log->follows) {
        return;
    }
    MR_LOCK(&log->lock);
    log->lost = log->failed || log->lost;
    for (; rows > 0 && log->count > 0; rows--) {
        log->any = true;
        log->round = log->ring[log->head];
        log->head = (log->head + 1) % log->cap;
        log->count--;
    }
}

void mr_round_log_fail(struct mr_round_log *log)
{
    MR_LOCK(&log->lock);
    log->failed = true;
}

int mr_round_log_get(struct mr_round_log *log, uint64_t *ret, mr_error *err)
{
    if (log->obstacle != NULL) {
        return mr_error_set(err, MR_EPRECOND,
                            "the round of an element is not known behind '%s': it does not keep "
                            "elements one for one and in order; put it before the service",
                            log->obstacle);
    }
    MR_LOCK(&log->lock);
    if (log->lost) {
        return mr_error_set(err, MR_EPRECOND,
                            "the round of an element is not known any more: one before it failed");
    }
    if (!log->any) {
        return MR_END;
    }
    *ret = log->round;
    return MR_OK;
}
