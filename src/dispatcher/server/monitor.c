#include "dispatcher/server/monitor.h"

#include "base/clock.h"
#include "base/sync.h"
#include "dispatcher/server/internal.h"

#define ALIVE_MS 10000 /* a loop that has not turned for so long hangs */
#define STORE_MS 10000 /* renewals of the lease come more often */

struct mr_page_request {
    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t answered;
    mr_metrics *page; /* the loop's until `done`; NULL then: there will be none */
    bool done;
    bool left; /* nobody waits for it any more; whoever answers frees it */
};

static void request_free(struct mr_page_request *r)
{
    mr_metrics_free(r->page);
    (void)pthread_cond_destroy(&r->answered);
    (void)pthread_mutex_destroy(&r->lock);
    mr_free(r);
}

int mr_loop_page(mr_loop *l, int64_t timeout_ms, mr_metrics **ret, mr_error *err)
{
    struct mr_page_request *r = mr_calloc(1, sizeof *r);
    struct mr_item item = {.kind = MR_ITEM_DRIVER, .own = r};
    int64_t until = mr_now_ms() + timeout_ms;
    bool done;

    MR_CHECK_ALLOC(r, err);
    mr_mutex_init(&r->lock);
    mr_cond_init(&r->answered);
    r->page = mr_metrics_new();
    if (r->page == NULL) {
        request_free(r);
        return mr_error_nomem(err);
    }
    mr_mailbox_put(&l->mailbox, &item);
    mr_mutex_lock(&r->lock);
    while (!r->done && mr_now_ms() < until) {
        (void)mr_cond_wait_ms(&r->answered, &r->lock, until - mr_now_ms());
    }
    done = r->done;
    r->left = !done;
    mr_mutex_unlock(&r->lock);
    if (!done) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                                   "the dispatcher's loop does not answer");
    }
    mr_metrics *page = r->page;

    r->page = NULL;
    request_free(r);
    if (page == NULL) {
        return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE, "the dispatcher is stopping");
    }
    *ret = page;
    return MR_OK;
}

int mr_loop_alive(mr_loop *l, mr_error *err)
{
    int64_t ms = mr_now_ms() - atomic_load(&l->numbers.turned_ms);

    return ms <= ALIVE_MS ? MR_OK
                          : mr_error_set(err, MR_EUNAVAIL, "the loop has not turned for %lld ms",
                                         (long long)ms);
}

int mr_loop_ready(mr_loop *l, mr_error *err)
{
    int64_t answered = atomic_load(&l->numbers.store_ms);
    int64_t ms = mr_now_ms() - answered;

    if (atomic_load(&l->numbers.stopping)) {
        return mr_error_set(err, MR_EUNAVAIL, "stopping");
    }
    if (answered == 0) {
        return mr_error_set(err, MR_EUNAVAIL, "etcd has not answered yet");
    }
    return ms <= STORE_MS
               ? MR_OK
               : mr_error_set(err, MR_EUNAVAIL, "etcd has not answered for %lld ms", (long long)ms);
}

static void add_methods(const struct mr_loop *l, mr_metrics *m)
{
    for (size_t i = 0; i < mr_methods_count; i++) {
        const struct mr_method_numbers *n = &l->numbers.methods[i];
        const char *name = strrchr(mr_methods[i].path, '/') + 1;

        if (mr_methods[i].stream) {
            continue; /* Its answers have no end. */
        }
        mr_metrics_add_histogram(m, MR_METRIC_RPC_SECONDS, name, &n->seconds);
        for (int kind = 1; kind < MR_CODES; kind++) {
            uint64_t errors = atomic_load(&n->errors[kind]);

            if (errors > 0) {
                mr_metrics_add2(m, MR_METRIC_RPC_ERRORS, name, mr_code_name(-kind), (double)errors);
            }
        }
    }
}

static void fill(struct mr_loop *l, mr_metrics *m)
{
    mr_metrics_add_histogram(m, MR_METRIC_TAKEOVER_SECONDS, NULL, &l->numbers.takeover);
    mr_metrics_add(m, MR_METRIC_QUEUED_CALLS,
                   (double)(mr_mailbox_calls(&l->mailbox) + mr_turn_waiting(l->turn)));
    mr_metrics_add(m, MR_METRIC_CALL_BYTES, (double)mr_mailbox_call_bytes(&l->mailbox));
    add_methods(l, m);
    mr_turn_page(l->turn, m);
}

void mr_page_request_answer(struct mr_page_request *r, struct mr_loop *l)
{
    bool left;

    if (l != NULL) {
        fill(l, r->page);
    } else {
        mr_metrics_free(r->page);
        r->page = NULL;
    }
    mr_mutex_lock(&r->lock);
    r->done = true;
    left = r->left;
    (void)pthread_cond_signal(&r->answered);
    mr_mutex_unlock(&r->lock);
    if (left) {
        request_free(r);
    }
}
