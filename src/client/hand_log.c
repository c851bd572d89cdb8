#include "client/hand_log.h"

void mr_hand_log_come(struct mr_hand_log *log)
{
    if (!atomic_load(&log->under_way)) {
        atomic_fetch_add(&log->pulls, 1);
    }
    if (log->tell != NULL) {
        log->tell(log->reader, atomic_load(&log->handed));
    }
}

void mr_hand_log_came(struct mr_hand_log *log, uint32_t rows, bool failed, bool ended)
{
    atomic_store(&log->under_way, rows == 0 && !failed && !ended);
    atomic_store(&log->ended, ended);
    atomic_store(&log->last, rows);
    atomic_fetch_add(&log->handed, failed ? 1 : rows);
}

/* An error in place of an element used what was taken for it. */
bool mr_hand_log_unused(const struct mr_hand_log *log)
{
    return atomic_load(&log->under_way) || atomic_load(&log->unused) > 0;
}

bool mr_hand_log_unused_last(const struct mr_hand_log *log)
{
    uint64_t last = atomic_load(&log->last);

    return atomic_load(&log->under_way) || (last > 0 && atomic_load(&log->unused) >= last);
}

bool mr_hand_log_may_hold(const struct mr_hand_log *log)
{
    return (log->way == MR_HAND_UNKNOWN || log->splits_elements) && !atomic_load(&log->ended);
}

uint64_t mr_hand_log_used(const struct mr_hand_log *log)
{
    uint64_t handed = atomic_load(&log->handed);
    uint64_t back = atomic_load(&log->unused);

    return handed > back ? handed - back : 0;
}
