#include "worker/serving.h"

#include "base/clock.h"
#include "base/log.h"
#include "worker/conn.h"

#define SESSIONS_MAX 4096u

static struct mr_serving *serving_of(struct mr_worker_task *t)
{
    return (struct mr_serving *)t;
}

int mr_serving_init(struct mr_serving *s, uint64_t kept_bytes_max, bool reports_given,
                    mr_error *err)
{
    uint64_t budget = mr_memory_limit(s->task.worker->memory);
    struct mr_book_limits limits = {.message_bytes = MR_DATA_MESSAGE_BYTES_TARGET,
                                    .kept_bytes = MR_MIN(kept_bytes_max, budget / 4),
                                    .sessions = SESSIONS_MAX,
                                    .repeats = s->task.at_least_once,
                                    .reports_given = reports_given};

    return mr_book_new(&limits, &s->book, err);
}

void mr_serving_free(struct mr_worker_task *t)
{
    mr_book_free(serving_of(t)->book);
}

/* The book has changed: wake the task's thread if there is something for it to do. */
static void changed_locked(struct mr_serving *s)
{
    const mr_book *book = s->book;

    MR_ASSERT_SLOW(mr_book_check(book));
    if (s->returned_locked != NULL) {
        s->returned_locked(s);
    }
    if (s->task.cancelled || mr_book_low(book) || mr_book_deserted(book) ||
        mr_book_is_complete(book) || mr_book_waits_for_clients(book)) {
        (void)pthread_cond_broadcast(&s->task.changed);
    }
}

/* ---- sending ---- */

static void send_message(struct mr_conn *c, const struct mr_book_message *m)
{
    struct mr_conn_header header;

    mr_conn_header_init(&header, c);
    header.base.session = m->number;
    header.base.first_element = m->first;
    header.base.elements = m->elements;
    header.base.skipped = m->skipped;
    header.base.end = m->end;
    header.base.code = m->code;
    header.base.task_failed = m->end && m->code < 0;
    if (m->message != NULL) {
        header.base.message = (char *)(uintptr_t)m->message;
    }
    mr_conn_send(c, &header, m->parts, m->n);
}

void mr_serving_pump(struct mr_worker_task *t)
{
    struct mr_serving *s = serving_of(t);

    for (;;) {
        struct mr_book_message m;
        mr_error err;

        mr_mutex_lock(&t->lock);
        int rc = t->cancelled ? MR_END : mr_book_next(s->book, &m, &err);
        if (rc == MR_END) {
            mr_mutex_unlock(&t->lock);
            return;
        }
        struct mr_conn *c = mr_conn_ref(m.owner);
        if (rc < 0) {
            c->session = NULL;
            mr_book_disconnect(m.session);
        }
        changed_locked(s);
        mr_mutex_unlock(&t->lock);
        if (rc == MR_OK) {
            send_message(c, &m);
            mr_book_message_free(&m);
        } else {
            mr_conn_break_off(c, &err);
        }
        mr_conn_unref(c);
    }
}

/* ---- streams ---- */

/* Its session must not send on a stream that is about to say why it is refused. Nobody waits for a
 * session that is new. */
static void detach_refused_locked(struct mr_conn *c, mr_book *book, bool is_new)
{
    mr_book_session *session = c->session;

    c->session = NULL;
    if (is_new) {
        mr_book_close(book, session, true);
    } else {
        mr_book_disconnect(session);
    }
}

/* What a message says of how far the client is, and of how much more it takes. */
static int take_credit(mr_book *book, mr_book_session *session, const Millrace__ReadRequest *req,
                       uint64_t received, mr_error *err)
{
    MR_TRY(mr_book_credit(book, session, req->limit_elements, req->limit_bytes, received,
                          req->returned_elements, err));
    return mr_book_given(session, req->given_elements, err);
}

static int attach_locked(struct mr_conn *c, struct mr_worker_task *t, mr_rpc_stream **replaced,
                         mr_error *err)
{
    mr_book *book = serving_of(t)->book;
    const Millrace__ReadOpen *open = c->first->open;
    const char *host = mr_rpc_stream_host(c->stream);
    mr_book_session *before = mr_book_find(book, open->client);
    struct mr_conn *old = before == NULL ? NULL : mr_book_owner(before);
    mr_book_session *session;

    MR_TRY(
        mr_book_open(book, host, open->client, open->session, open->resume_from, c, &session, err));
    if (old != NULL) {
        old->session = NULL;
        *replaced = mr_rpc_stream_ref(old->stream);
    }
    c->task = mr_worker_task_ref(t);
    c->session = session;
    c->released_before = before == NULL && mr_book_was_released(book, open->client);
    /* The first message may bring credit along. What it says was received was said by resume_from.
     * */
    int rc = take_credit(book, session, c->first, open->resume_from, err);
    rc = rc == MR_OK ? mr_worker_task_begin_locked(t, host, err) : rc;
    if (rc < 0) {
        detach_refused_locked(c, book, before == NULL);
    }
    changed_locked(serving_of(t));
    return rc;
}

/* Returns false for a goodbye that comes too late. */
static bool part_locked(struct mr_conn *c, const Millrace__ReadRequest *req)
{
    struct mr_serving *s = serving_of(c->task);
    mr_book_session *session = c->session;
    bool too_late = req->done && s->ending && mr_book_kept(session) > 0;

    c->session = NULL;
    if (req->done) {
        mr_book_close(s->book, session, req->gives_back);
    } else {
        mr_book_disconnect(session);
    }
    return !too_late;
}

static void take_message(struct mr_conn *c, const Millrace__ReadRequest *req)
{
    struct mr_worker_task *t = c->task;
    bool in_time = true;
    mr_error err;
    int rc = MR_OK;

    mr_mutex_lock(&t->lock);
    if (c->session != NULL) {
        rc = take_credit(serving_of(t)->book, c->session, req, req->received_elements, &err);
        in_time = req->done || rc < 0 ? part_locked(c, req) : true;
    }
    changed_locked(serving_of(t));
    mr_mutex_unlock(&t->lock);

    if (rc < 0) {
        mr_conn_blame(c, &err);
    } else if (!in_time) {
        mr_rpc_stream_finish(c->stream, MR_EABORTED,
                             "the task has ended: what is given back goes to nobody");
    } else if (req->done) {
        mr_rpc_stream_finish(c->stream, MR_OK, NULL);
    } else {
        mr_rpc_stream_receive(c->stream);
    }
    mr_serving_pump(t);
}

static void sent_locked(struct mr_conn *c)
{
    if (c->session != NULL) {
        mr_book_sent(c->session);
    }
}

static void detach_locked(struct mr_conn *c)
{
    if (c->session != NULL) {
        mr_book_disconnect(c->session);
        c->session = NULL;
    }
    changed_locked(serving_of(c->task));
}

static mr_rpc_stream *cut_one_locked(struct mr_worker_task *t)
{
    const mr_book *book = serving_of(t)->book;

    for (mr_book_session *session = mr_book_each(book, NULL); session != NULL;
         session = mr_book_each(book, session)) {
        struct mr_conn *c = mr_book_owner(session);

        if (c != NULL) {
            c->session = NULL;
            mr_book_disconnect(session);
            return mr_rpc_stream_ref(c->stream);
        }
    }
    return NULL;
}

static void release_client(struct mr_worker_task *t, const char *client)
{
    mr_rpc_stream *stream = NULL;

    mr_mutex_lock(&t->lock);
    struct mr_conn *c = mr_book_release(serving_of(t)->book, client);
    if (c != NULL) {
        c->session = NULL;
        stream = mr_rpc_stream_ref(c->stream);
    }
    changed_locked(serving_of(t));
    mr_mutex_unlock(&t->lock);
    mr_conn_end(stream, MR_ECANCELED, "the dispatcher has released this client");
    mr_serving_pump(t);
}

const struct mr_worker_task_streams mr_serving_streams = {
    .attach_locked = attach_locked,
    .message = take_message,
    .sent_locked = sent_locked,
    .detach_locked = detach_locked,
    .cut_locked = cut_one_locked,
    .pump = mr_serving_pump,
    .release_client = release_client,
};

/* ---- the end ---- */

/* Wait until every element was returned, or is with clients that rest: one thread may read two
 * iterators in turn, so that the one waits for the end and the other for its turn. False:
 * cancelled. A pipeline that did not finish is waited for until the task is dropped. */
static bool wait_returned(struct mr_serving *s)
{
    struct mr_worker_task *t = &s->task;

    mr_mutex_lock(&t->lock);
    while (!t->cancelled && !mr_book_is_complete(s->book)) {
        int64_t left_ms = mr_book_patience_ms(
            s->book, mr_worker_task_splits(t, mr_splits_are_draining), mr_now_ms());

        if (left_ms != 0) {
            (void)mr_cond_wait_ms(&t->changed, &t->lock, left_ms);
            continue;
        }
        mr_book_stop_waiting(s->book);
        mr_log(MR_LOG_INFO, "the end does not wait any longer for readers that rest with elements",
               "task", "%s", t->id, "job", "%s", t->a->job_id, NULL);
        s->ending = true;
        mr_mutex_unlock(&t->lock);
        mr_serving_pump(t); /* Others may have to be told the end. */
        mr_mutex_lock(&t->lock);
        break; /* Who was told it does not come for what is given back meanwhile. */
    }
    s->ending = !t->cancelled;
    bool returned = s->ending;
    mr_mutex_unlock(&t->lock);
    return returned;
}

/* Clients that rest with elements, as the end has them. */
struct holders {
    Millrace__Holder all[MR_HOLDERS_MAX];
    Millrace__Holder *list[MR_HOLDERS_MAX];
    char ids[MR_HOLDERS_MAX][MR_CLIENT_ID_SIZE];
};

/* Of those that are too many nobody waits to hear what they used. */
static void list_holders_locked(const mr_book *book, struct holders *h,
                                Millrace__TaskEndedRequest *req)
{
    const mr_book_session *session = NULL;

    req->holders = h->list;
    while ((session = mr_book_each(book, session)) != NULL) {
        uint64_t kept = mr_book_kept(session);
        const char *client = mr_book_client(session);

        if (kept == 0) {
            continue;
        }
        if (req->n_holders == MR_HOLDERS_MAX || strlen(client) >= sizeof h->ids[0]) {
            req->abandoned += kept;
            continue;
        }
        Millrace__Holder *holder = &h->all[req->n_holders];
        char *id = h->ids[req->n_holders];
        (void)snprintf(id, sizeof h->ids[0], "%s", client);
        millrace__holder__init(holder);
        holder->client = id;
        holder->elements = kept;
        h->list[req->n_holders++] = holder;
    }
}

static void report_end(struct mr_serving *s, int code, const char *message)
{
    Millrace__TaskEndedRequest req = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_book_counts counts;
    struct holders holders;

    req.code = code;
    req.message = (char *)(uintptr_t)message;
    mr_mutex_lock(&s->task.lock);
    req.skipped = s->skipped;
    mr_book_counts(s->book, &counts);
    req.abandoned = counts.lost + counts.untaken + s->missing;
    list_holders_locked(s->book, &holders, &req);
    mr_mutex_unlock(&s->task.lock);
    mr_worker_task_report_end(&s->task, &req);
}

static void finish(struct mr_serving *s, int code, const mr_error *err)
{
    struct mr_worker_task *t = &s->task;

    if (code < 0) {
        mr_pipeline_log_failure(t, err);
    }
    mr_mutex_lock(&t->lock);
    mr_book_finish(s->book, code, code < 0 ? err->message : NULL);
    mr_mutex_unlock(&t->lock);
    mr_serving_pump(t);
}

void mr_serving_run(struct mr_serving *s, int (*fill)(struct mr_serving *s, mr_error *err))
{
    struct mr_worker_task *t = &s->task;
    mr_error err;

    mr_error_clear(&err);
    int rc = fill(s, &err);
    int code = rc == MR_END ? MR_OK : rc;
    if (code < 0 && atomic_load(&t->disowned)) {
        mr_log(MR_LOG_INFO, "this task gets no more, waiting for the next list of tasks", "task",
               "%s", t->id, "error", "%s", err.message, NULL);
    } else if (!atomic_load(&t->stop)) {
        finish(s, code, &err);
    }
    if (wait_returned(s)) {
        report_end(s, code, code < 0 ? err.message : "");
    }
}

/* ---- for people ---- */

void mr_serving_progress_locked(struct mr_serving *s, struct mr_worker_task_progress *ret)
{
    struct mr_book_counts counts;

    mr_book_counts(s->book, &counts);
    ret->base.produced = counts.produced;
    ret->base.delivered = counts.received + counts.lost;
    ret->base.abandoned = counts.lost + counts.untaken + s->missing;
    ret->base.sessions = counts.sessions;
    ret->base.buffered_bytes = counts.buffered_bytes;
    ret->base.finished = counts.finished;
    ret->base.skipped = s->skipped;
}

void mr_serving_usage_locked(struct mr_worker_task *t, struct mr_worker_task_usage *ret)
{
    struct mr_book_counts counts;

    mr_book_counts(serving_of(t)->book, &counts);
    ret->bytes = counts.buffered_bytes;
    ret->unread = counts.sessions == 0; /* own only */
}
