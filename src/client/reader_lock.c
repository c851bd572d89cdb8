/* Around all that happens to a read: its lock, the time, and who is to be woken. */
#include "base/clock.h"
#include "base/sync.h"
#include "client/reader_internal.h"

void mr_reader_enter(mr_reader *r)
{
    mr_mutex_lock(&r->lock);
    r->read.now_ms = mr_now_ms();
}

static void wake(mr_reader *r, unsigned whom)
{
    if ((whom & MR_READ_WAKE_TAKE) != 0) {
        (void)pthread_cond_broadcast(&r->ready);
    }
    if ((whom & MR_READ_WAKE_ATTACH) != 0) {
        (void)pthread_cond_broadcast(&r->due);
    }
    if ((whom & MR_READ_WAKE_TICK) != 0) {
        (void)pthread_cond_signal(&r->timer_due);
    }
}

void mr_reader_wake_locked(mr_reader *r)
{
    unsigned whom = r->read.wakes;

    r->read.wakes = 0;
    wake(r, whom);
}

void mr_reader_leave(mr_reader *r)
{
    unsigned whom = r->read.wakes;

    r->read.wakes = 0;
    mr_mutex_unlock(&r->lock);
    wake(r, whom);
}
