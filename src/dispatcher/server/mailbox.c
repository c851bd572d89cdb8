#include "dispatcher/server/mailbox.h"

#include "base/sync.h"

#include <time.h>

void mr_mailbox_init(struct mr_mailbox *m)
{
    m->head = NULL;
    m->calls = 0;
    mr_shares_init(&m->live, "unanswered calls", MR_CALLS_MAX);
    mr_shares_init(&m->live_bytes, "bytes of unanswered calls", MR_CALL_BYTES_MAX);
    m->tail = &m->head;
    mr_mutex_init(&m->lock);
    mr_cond_init(&m->wake);
}

void mr_mailbox_destroy(struct mr_mailbox *m)
{
    MR_ASSERT(m->head == NULL);
    mr_shares_free(&m->live_bytes); /* Every call was answered and freed. */
    mr_shares_free(&m->live);
    (void)pthread_cond_destroy(&m->wake);
    (void)pthread_mutex_destroy(&m->lock);
}

static void append_locked(struct mr_mailbox *m, struct mr_item *item)
{
    item->next = NULL;
    *m->tail = item;
    m->tail = &item->next;
    (void)pthread_cond_signal(&m->wake);
}

void mr_mailbox_put(struct mr_mailbox *m, const struct mr_item *item)
{
    struct mr_item *copy;

    /* An event that is lost here would leave the loop waiting for ever: wait for memory. */
    while ((copy = mr_memdup(item, sizeof *item)) == NULL) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    MR_LOCK(&m->lock);
    append_locked(m, copy);
}

static int take_shares_locked(struct mr_mailbox *m, struct mr_server_call *call, const char *host,
                              mr_error *err)
{
    int rc = mr_shares_take(&m->live, host, 1, &call->share, err);

    if (rc == MR_OK) {
        rc = mr_shares_take(&m->live_bytes, host, call->size, &call->share_bytes, err);
    }
    if (rc < 0) {
        mr_share_give(call->share, 1);
        call->share = NULL;
    }
    return rc;
}

int mr_mailbox_put_call(struct mr_mailbox *m, struct mr_server_call *call, const char *host,
                        mr_error *err)
{
    struct mr_item *item = mr_calloc(1, sizeof *item);

    MR_CHECK_ALLOC(item, err);
    item->kind = MR_ITEM_CALL;
    item->call = &call->call;
    mr_mutex_lock(&m->lock);
    int rc = take_shares_locked(m, call, host, err);

    if (rc == MR_OK) {
        call->mailbox = m;
        call->call.host = call->share->host;
        m->calls++;
        append_locked(m, item);
    }
    mr_mutex_unlock(&m->lock);
    if (rc < 0) {
        mr_free(item);
    }
    return rc;
}

void mr_mailbox_call_over(struct mr_mailbox *m, struct mr_server_call *call)
{
    MR_LOCK(&m->lock);
    mr_share_give(call->share_bytes, call->size);
    mr_share_give(call->share, 1);
}

size_t mr_mailbox_calls(struct mr_mailbox *m)
{
    MR_LOCK(&m->lock);
    return m->calls;
}

uint64_t mr_mailbox_call_bytes(struct mr_mailbox *m)
{
    MR_LOCK(&m->lock);
    return m->live_bytes.taken;
}

struct mr_item *mr_mailbox_take(struct mr_mailbox *m, int64_t timeout_ms)
{
    MR_LOCK(&m->lock);
    if (m->head == NULL && timeout_ms > 0) {
        (void)mr_cond_wait_ms(&m->wake, &m->lock, timeout_ms);
    }
    struct mr_item *all = m->head;

    m->head = NULL;
    m->tail = &m->head;
    m->calls = 0;
    return all;
}
