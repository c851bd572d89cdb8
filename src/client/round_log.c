#include "client/round_log.h"

#include "base/base.h"
#include "base/sync.h"

#define RING_MIN 64u

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
