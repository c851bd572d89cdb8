#include "dispatcher/loop/mailbox.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/sync.h"

#include <millrace/dataset.h> /* mr_free */

void mr_mailbox_init(struct mr_mailbox *m)
{
    m->head = NULL;
    m->calls = 0;
    atomic_init(&m->call_bytes, 0);
    m->tail = &m->head;
    mr_mutex_init(&m->lock);
    mr_cond_init(&m->wake);
}

void mr_mailbox_destroy(struct mr_mailbox *m)
{
    MR_ASSERT(m->head == NULL);
    MR_ASSERT(atomic_load(&m->call_bytes) == 0); /* Every call was answered and freed. */
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
    struct mr_item *copy = mr_memdup(item, sizeof *item);

    MR_ASSERT(copy != NULL); /* An event that is lost here would leave the loop waiting for ever. */
    MR_LOCK(&m->lock);
    append_locked(m, copy);
}

int mr_mailbox_put_call(struct mr_mailbox *m, struct mr_call *call, mr_error *err)
{
    struct mr_item *item;

    if (atomic_fetch_add(&m->call_bytes, call->size) + call->size > MR_CALL_BYTES_MAX) {
        (void)atomic_fetch_sub(&m->call_bytes, call->size);
        return mr_error_set_traits(err, MR_EEXHAUSTED, MR_RETRYABLE,
                                   "the dispatcher has %llu bytes of requests waiting", MR_CALL_BYTES_MAX);
    }
    call->account = &m->call_bytes;
    item = mr_calloc(1, sizeof *item);
    if (item == NULL) {
        return mr_error_nomem(err);
    }
    item->kind = MR_ITEM_CALL;
    item->call = call;
    mr_mutex_lock(&m->lock);
    bool full = m->calls == MR_MAILBOX_CALLS_MAX;

    if (!full) {
        m->calls++;
        append_locked(m, item);
    }
    mr_mutex_unlock(&m->lock);
    if (full) {
        mr_free(item);
        return mr_error_set_traits(err, MR_EEXHAUSTED, MR_RETRYABLE, "the dispatcher has %d calls waiting",
                                   MR_MAILBOX_CALLS_MAX);
    }
    return MR_OK;
}

size_t mr_mailbox_calls(struct mr_mailbox *m)
{
    MR_LOCK(&m->lock);
    return m->calls;
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
