/* What all of this transport share, and how something gets done. */
#include "rpc/local/internal.h"

const char mr_rpc_transport[] = "local";

static _Thread_local bool is_callback_thread;

struct mr_local mr_local = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .due_ms = INT64_MAX,
    .work = TAILQ_HEAD_INITIALIZER(mr_local.work),
    .waiting = TAILQ_HEAD_INITIALIZER(mr_local.waiting),
    .open = TAILQ_HEAD_INITIALIZER(mr_local.open),
    .servers = LIST_HEAD_INITIALIZER(mr_local.servers),
};

void mr_local_due_locked(int64_t due_ms)
{
    if (due_ms < mr_local.due_ms) {
        mr_local.due_ms = due_ms;
        (void)pthread_cond_broadcast(&mr_local.wake);
    }
}

void mr_local_schedule_locked(struct mr_rpc_stream *s)
{
    if (!s->queued && s->state != MR_LOCAL_ENDED) {
        s->queued = true;
        s->refs++;
        TAILQ_INSERT_TAIL(&mr_local.work, s, work);
        (void)pthread_cond_broadcast(&mr_local.wake);
    }
}

bool mr_rpc_is_own_thread(void)
{
    return is_callback_thread;
}

void mr_local_this_is_own_thread(void)
{
    is_callback_thread = true;
}
