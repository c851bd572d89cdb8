/* How many connections are being made at once, and how long an attempt counts: a thousand at once
 * would take both ends longer than that, and all fail, again and again. */
#include "client/read/internal.h"

#define CONNECTING_MAX 32u
#define CONNECTING_MS 1000

void mr_read_retry(struct mr_read *r, int64_t when_ms)
{
    if (when_ms < r->retry_ms) {
        r->retry_ms = when_ms;
        r->wakes |= MR_READ_WAKE_TICK;
    }
}

bool mr_read_may_connect(struct mr_read *r)
{
    if (r->connecting < CONNECTING_MAX) {
        return true;
    }
    if (r->now_ms - r->begun_ms >= CONNECTING_MS) {
        r->batch++; /* Those before are slow (a name that nobody resolves): they hold nobody up. */
        r->connecting = 0;
        return true;
    }
    r->in_line = true;
    mr_read_retry(r, r->begun_ms + CONNECTING_MS);
    return false;
}

void mr_read_connect_begins(struct mr_read_task *t)
{
    struct mr_read *r = t->read;

    t->batch = r->batch;
    r->connecting++;
    r->begun_ms = r->now_ms;
}

void mr_read_connect_ends(struct mr_read_task *t)
{
    struct mr_read *r = t->read;

    if (t->batch == r->batch) {
        r->connecting--;
    }
    t->batch = 0;
    if (r->in_line &&
        r->connecting <= CONNECTING_MAX / 2) { /* Some at a time: all tasks are looked at. */
        r->in_line = false;
        mr_read_retry(r, 0);
    }
}
