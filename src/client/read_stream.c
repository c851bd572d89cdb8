/*
 * The streams to the workers (/millrace.Worker/Read).
 *
 * Happy path: open with the session and the first limits; messages come, each is acknowledged at
 * once (one send in flight, the next says all that has happened meanwhile); END comes; the last
 * acknowledgement says "done"; the worker closes.
 *
 * Failures: a broken stream is opened again with the same session, from the first element that did
 * not come; the waiting grows, and the dispatcher is told whom we cannot reach. So is one that
 * broke before the worker had our last acknowledgement: until it has that, the task does not end
 * for anybody. A worker that cannot resume says ABORTED: then the next session begins. "Moved"
 * (UNAVAILABLE) is tried again until the dispatcher says where the task is, or that it is lost.
 * What a task's pipeline failed with is the reader's error.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sync.h"
#include "client/reader_internal.h"
#include "element/frame.h"
#include "millrace/service.rpc.h"

#include <stdio.h>
#include <string.h>

#define RETRY_MS_FIRST 50
#define RETRY_MS_MAX 2000
/* A credit that a worker has not used for so long goes to another one that waits. */
#define PARKED_MS 10
/* A worker that was asked to give a credit back and says nothing for so long is not waited for. */
#define REVOKED_MS 200

static unsigned sharers_locked(const mr_reader *r)
{
    return r->shares > 0 ? r->shares : 1;
}

bool mr_read_few_credits_locked(const mr_reader *r)
{
    return r->opts.max_outstanding > 0 && r->opts.max_outstanding < sharers_locked(r);
}

/* ---- telling ---- */

static void limits_locked(const struct mr_read_task *t, uint64_t *limit, uint64_t *limit_bytes)
{
    const mr_reader *r = t->reader;
    unsigned tasks = sharers_locked(r) + (t->shares ? 0 : 1);
    uint64_t window_max = MR_WINDOW_MAX;

    if (r->opts.max_outstanding > 0) {
        window_max = r->opts.max_outstanding / tasks;
    }
    mr_session_limits(&t->session, window_max, mr_reader_share(r, tasks),
                      MR_READER_BUDGET_BYTES / tasks, limit, limit_bytes);
    if (r->opts.max_outstanding > 0 && r->opts.max_outstanding < tasks) {
        *limit = t->session.limit; /* mr_read_grant_locked() decides */
        if (*limit < t->session.received || t->revoking) {
            *limit = t->session.received;
        }
    }
}

static void fill_open(struct mr_read_task *t, Millrace__ReadOpen *open, char *cluster,
                      char *incarnation)
{
    mr_reader *r = t->reader;

    millrace__read_open__init(open);
    open->epoch = mr_control_learned(r->control, cluster, incarnation);
    open->cluster = cluster;
    open->cluster_incarnation = incarnation;
    open->worker_incarnation = t->incarnation;
    open->task_id = t->id;
    open->attempt = t->attempt;
    open->client = r->client;
    open->session = t->session.number;
    open->resume_from = t->session.received;
}

/* The limits and receipts of @req, and with @open what only the first message has. */
static int fill_request(struct mr_read_task *t, Millrace__ReadRequest *req,
                        Millrace__ReadOpen *open, Millrace__RoundOpen *rounds, mr_error *err)
{
    if (t->reader->rounds == NULL) {
        limits_locked(t, &req->limit_elements, &req->limit_bytes);
        req->received_elements = t->session.received;
        req->returned_elements = t->session.used;
        req->given_elements = mr_read_options_share(&t->reader->opts) ? t->session.returned : 0;
        return MR_OK;
    }
    if (open != NULL) {
        int rc = mr_coordinated_open_locked(t, rounds, err);

        if (rc < 0) {
            return rc;
        }
        open->rounds = rounds;
        open->resume_from = 0;
    }
    (void)mr_coordinated_tell_locked(t, req);
    return MR_OK;
}

static void send_locked(struct mr_read_task *t, bool first)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;
    Millrace__ReadOpen open;
    char cluster[MR_NAME_BYTES_MAX + 1];
    char incarnation[MR_INCARNATION_BYTES_MAX + 1];
    uint8_t bytes[4096]; /* ids are bounded, the rest is numbers */
    struct mr_session *s = &t->session;
    Millrace__RoundOpen rounds;
    mr_error err;

    req.done = t->goodbye && !first; /* a first message opens */
    req.gives_back = req.done;
    if (first) {
        fill_open(t, &open, cluster, incarnation);
        req.open = &open;
    }
    if (fill_request(t, &req, req.open, &rounds, &err) < 0) {
        mr_reader_fail_locked(t->reader, &err);
        mr_rpc_stream_cancel(t->stream);
        return;
    }
    size_t size = millrace__read_request__get_packed_size(&req);
    if (size > sizeof bytes) {
        mr_rpc_stream_cancel(t->stream);
        return;
    }
    (void)millrace__read_request__pack(&req, bytes);
    struct mr_rpc_slice slice = {.data = bytes, .size = size};
    if (mr_rpc_stream_send(t->stream, &slice, 1, false, NULL) < 0) {
        return; /* It has ended; `ended` is on its way. */
    }
    t->sending = true;
    t->unsaid = false;
    t->said_bye = req.done;
    t->told_ms = mr_now_ms();
    s->limit = req.limit_elements;
    s->limit_bytes = req.limit_bytes;
    s->limit_max = s->limit > s->limit_max ? s->limit : s->limit_max;
    s->told_received = s->received;
    s->told_returned = s->used;
    s->told_given = s->returned;
    s->told_taken_bytes = mr_session_taken_bytes(s);
}

void mr_read_task_tell_locked(struct mr_read_task *t, bool force)
{
    uint64_t limit;
    uint64_t limit_bytes;

    if (t->stream == NULL) {
        return;
    }
    if (t->sending) {
        t->unsaid = t->unsaid || force;
        return;
    }
    if (t->reader->rounds != NULL) {
        Millrace__ReadRequest news = MILLRACE__READ_REQUEST__INIT;

        if (mr_coordinated_tell_locked(t, &news) || force) {
            send_locked(t, false);
        }
        return;
    }
    limits_locked(t, &limit, &limit_bytes);
    if (force || mr_session_worth_telling(&t->session, limit, limit_bytes)) {
        send_locked(t, false);
    }
}

/* What the application does not have yet is still ours to give back, or to lose, so the worker
 * keeps it. */
static bool owes_returns_locked(const struct mr_read_task *t)
{
    return t->session.used < t->session.received;
}

void mr_read_task_taken_locked(struct mr_read_task *t)
{
    mr_reader *r = t->reader;
    bool over = t->goodbye || t->closed;

    if (over) {
        /* Nobody is told any more. */
    } else if (t->end) {
        t->goodbye = !owes_returns_locked(t);
        mr_read_task_tell_locked(t, t->goodbye);
    } else if (mr_read_few_credits_locked(r)) {
        mr_read_grant_locked(r);
    } else {
        mr_read_task_tell_locked(t, false);
    }
    mr_read_task_list_locked(t);
}

/* ---- few credits for many tasks ---- */

/* A task that could use a credit and has none; the one that has waited longest. */
static struct mr_read_task *hungriest_locked(const mr_reader *r)
{
    struct mr_read_task *best = NULL;
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link)
    {
        bool idle = t->stream != NULL && t->connected && !t->end && !t->closed && !t->revoking &&
                    !t->sending && t->session.count == 0 && t->session.limit <= t->session.received;

        if (idle && (best == NULL || t->granted_ms < best->granted_ms)) {
            best = t;
        }
    }
    return best;
}

void mr_read_grant_locked(mr_reader *r)
{
    struct mr_read_task *t;
    int64_t now = mr_now_ms();
    uint64_t used = 0;

    if (!mr_read_few_credits_locked(r)) {
        return;
    }
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        if (!t->end && !t->closed) {
            bool unsure = t->revoking && now - t->told_ms < REVOKED_MS;

            used += mr_session_outstanding(&t->session) + (unsure ? 1 : 0);
        }
    }
    while (used < r->opts.max_outstanding && (t = hungriest_locked(r)) != NULL) {
        t->granted_ms = mr_now_ns(); /* only compared: an order */
        t->session.limit = t->session.received + 1;
        send_locked(t, false);
        used++;
    }
    if (hungriest_locked(r) != NULL) {
        (void)pthread_cond_signal(&r->timer_due); /* It sees to it that the credits go round. */
    }
}

int64_t mr_read_rotate_locked(mr_reader *r, int64_t now_ms)
{
    struct mr_read_task *t;
    int64_t next = INT64_MAX;

    if (!mr_read_few_credits_locked(r) || hungriest_locked(r) == NULL) {
        return next;
    }
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        bool parked = t->session.limit > t->session.received;
        int64_t due = t->told_ms + (t->revoking ? REVOKED_MS : PARKED_MS);

        if (t->stream == NULL || t->end || t->closed || (!t->revoking && !parked)) {
            continue;
        }
        if (now_ms < due) {
            next = due < next ? due : next;
        } else if (!t->revoking) {
            t->revoking = true;
            mr_read_task_tell_locked(t, true);
            next = now_ms + REVOKED_MS < next ? now_ms + REVOKED_MS : next;
        }
    }
    mr_read_grant_locked(r);
    return next;
}

/* ---- receiving, on rpc's thread ---- */

static int decode(mr_memory *memory, mr_rpc_message *m, struct mr_frame_content *ret, mr_error *err)
{
    mr_buffer *buffer = NULL;
    size_t size = mr_rpc_message_size(m);
    int rc = mr_buffer_new(size, &buffer, err);

    if (rc < 0) {
        return rc;
    }
    mr_buffer_charge(buffer, memory);
    mr_rpc_message_copy(m, 0, size, mr_buffer_data(buffer)); /* the one copy */
    rc = mr_frame_parse(buffer, 0, ret, err);
    mr_buffer_unref(buffer); /* The blocks hold it. */
    return rc;
}

static int check_spec(const mr_reader *r, const struct mr_frame_content *c, mr_error *err)
{
    for (size_t i = 0; i < c->n; i++) {
        int rc = mr_block_check_spec(c->blocks[i], r->opts.spec, err);

        if (rc < 0) {
            mr_error_wrap(err, "an element that is not what the dataset's spec says");
            return rc;
        }
    }
    return MR_OK;
}

static void fail_task_locked(struct mr_read_task *t, const mr_error *err)
{
    if (!t->failed) {
        t->failed = true;
        t->err = *err;
        mr_error_wrap(&t->err, "worker %s", t->address);
    }
    t->end = true;
    (void)pthread_cond_signal(&t->reader->ready);
}

static bool names_match(const struct mr_read_task *t, const Millrace__ReadHeader *h)
{
    return strcmp(h->worker_incarnation, t->incarnation) == 0 && strcmp(h->task_id, t->id) == 0 &&
           h->attempt == t->attempt && h->session == t->session.number;
}

/* The open was refused. The worker ends the stream; what happens then is decided there. */
static void refused_locked(struct mr_read_task *t, const Millrace__ReadHeader *h)
{
    mr_error err;

    t->refused_open = true;
    (void)mr_error_set(&err, h->code, "%s", h->message);
    (void)snprintf(t->why, sizeof t->why, "%.159s", h->message);
    t->refused_why = true;
    if (h->code == MR_EABORTED && t->end) {
        t->settled = true; /* It has closed the session, so it knows. */
    } else if (h->code == MR_EABORTED) {
        if (mr_read_options_share(&t->reader->opts)) {
            /* It has given to others what we had not returned. At least once, better twice than
             * never. */
            mr_session_clear(&t->session);
        }
        mr_session_next(&t->session);
        t->failures = 0;
    } else if (h->code != MR_EUNAVAIL && h->code != MR_EEXHAUSTED) {
        fail_task_locked(t, &err);
        t->settled = true;
    }
}

static void skipped_locked(struct mr_read_task *t, uint64_t skipped)
{
    if (skipped > t->skipped) {
        uint64_t more = skipped - t->skipped;

        if (t->reader->opts.losses != NULL) {
            mr_loss_tally_skip(t->reader->opts.losses, more);
        }
        if (t->reader->opts.lag == MILLRACE__LAG__LAG_WAIT) {
            mr_reader_missed_locked(t->reader, more);
        }
        t->skipped = skipped;
        t->reader->skipped += more;
    }
}

/* A message of our session. *@wake: the application waits for what it brought. */
static int data_locked(struct mr_read_task *t, const struct mr_frame_content *c, bool *wake,
                       mr_error *err)
{
    mr_reader *r = t->reader;
    int rc = r->rounds != NULL
                 ? mr_coordinated_receive_locked(t, c, err)
                 : mr_session_add(&t->session, c->header->first_element, c->blocks, c->n, err);

    if (rc < 0) {
        return rc;
    }
    t->revoking = false;
    t->failures = 0;
    t->failing_ms = 0;
    r->reached = true;
    skipped_locked(t, c->header->skipped);
    if (c->header->end) {
        t->end = true;
        t->goodbye = !owes_returns_locked(t);
    }
    if (c->header->code < 0) {
        mr_error failure;

        (void)mr_error_set(&failure, c->header->code, "%s", c->header->message);
        t->reader->failed_for_all = true;
        fail_task_locked(t, &failure);
    }
    /* Without elements a message of a coordinated job may say that a round is complete. */
    *wake = r->waiting && (c->n > 0 || t->end || r->rounds != NULL);
    return MR_OK;
}

/* Something went through; that a message came may be known before that ours has left. */
static void note_connection_locked(struct mr_read_task *t)
{
    if (!t->connected) {
        t->connected = true;
        t->connected_ms = mr_now_ms();
        mr_read_task_is_through_locked(t);
        mr_read_task_share_locked(t);
    }
}

static void on_message(void *ctx, mr_rpc_stream *stream, mr_rpc_message *m)
{
    struct mr_read_task *t = ctx;
    mr_reader *r = t->reader;
    struct mr_frame_content content = {0};
    mr_error err;
    bool more = false;
    bool wake = false;
    int rc = decode(r->memory, m, &content, &err);

    mr_rpc_message_free(m);
    int spec_rc = rc == MR_OK ? check_spec(r, &content, &err) : MR_OK;

    mr_mutex_lock(&r->lock);
    note_connection_locked(t);
    if (spec_rc < 0) {
        fail_task_locked(t, &err);
        t->settled = true;
        mr_rpc_stream_cancel(stream);
    } else if (rc == MR_OK && content.header->code < 0 && !content.header->task_failed) {
        refused_locked(t, content.header);
        more = true;
    } else if (rc == MR_OK && !names_match(t, content.header)) {
        rc = mr_error_set(&err, MR_EUNAVAIL, "a message of another task or session");
    } else if (rc == MR_OK) {
        rc = t->goodbye ? MR_OK : data_locked(t, &content, &wake, &err);
        more = true;
    }
    if (rc < 0) {
        /* Not what was agreed: what is missing is asked for again on a new stream. */
        mr_log(MR_LOG_WARN, "breaking off a stream, trying again", "worker", "%s", t->address,
               "task", "%s", t->id, "error", "%s", err.message, NULL);
        mr_rpc_stream_cancel(stream);
    } else if (more) {
        mr_read_task_share_locked(t);
        mr_read_task_tell_locked(t, t->goodbye || t->end);
        mr_read_grant_locked(r);
    }
    mr_read_task_list_locked(t);
    mr_mutex_unlock(&r->lock);
    if (wake) {
        (void)pthread_cond_signal(
            &r->ready); /* Not under the lock, on which the woken thread would wait again. */
    }
    if (more && rc == MR_OK) {
        mr_rpc_stream_receive(stream);
    }
    mr_frame_content_free(&content);
}

static void on_sent(void *ctx, mr_rpc_stream *stream)
{
    struct mr_read_task *t = ctx;

    (void)stream;
    MR_LOCK(&t->reader->lock);
    t->sending = false;
    note_connection_locked(t);
    mr_read_task_tell_locked(t, t->unsaid);
    mr_read_grant_locked(t->reader);
    mr_read_task_list_locked(t);
}

static void on_ended(void *ctx, mr_rpc_stream *stream, int rc, const mr_error *err)
{
    struct mr_read_task *t = ctx;
    mr_reader *r = t->reader;
    int64_t now = mr_now_ms();

    MR_LOCK(&r->lock);
    if (mr_read_task_stands_locked(t, now)) {
        t->failing_ms = 0; /* until now */
        t->failures = 0;
    }
    mr_read_note_failure_locked(t, rc < 0 ? err : NULL);
    t->stream = NULL;
    if (!t->connected) {
        mr_read_task_is_through_locked(t);
    }
    t->connected = false;
    t->sending = false;
    t->unsaid = false;
    t->revoking = false;
    r->streams--;
    bool said_why = t->refused_why;
    t->refused_why = false;
    if (rc == MR_OK && (t->end || (t->said_bye && !t->refused_open))) {
        t->settled = true;
    } else if (rc == MR_EABORTED && t->said_bye) {
        t->closed = true; /* Our goodbye came after its end. */
    }
    if (!t->settled && !t->closed && !r->stopping && !r->failed) {
        mr_log(MR_LOG_DEBUG, "a stream ended", "worker", "%s", t->address, "task", "%s", t->id,
               "why", "%s", rc < 0 ? err->message : "closed", NULL);
        mr_read_task_fails_locked(t, said_why ? NULL : rc < 0 ? err->message : "it refuses", now);
        t->retry_ms =
            now + mr_backoff_ms(t->failures++, RETRY_MS_FIRST, RETRY_MS_MAX, mr_rng_next(&r->rng));
        mr_read_retry_locked(r, t->retry_ms);
    }
    /* Its credits are free again. */
    mr_session_reconnect(&t->session);
    mr_read_task_share_locked(t);
    mr_read_grant_locked(r);
    mr_read_task_list_locked(t);
    mr_rpc_stream_unref(stream);
    mr_reader_wake_locked(r);
    (void)pthread_cond_signal(&r->ready);
}

static const struct mr_rpc_stream_ops stream_ops = {
    .message = on_message, .sent = on_sent, .ended = on_ended};

/* ---- life ---- */

void mr_read_task_connect_locked(struct mr_read_task *t)
{
    mr_reader *r = t->reader;
    mr_error err;
    int rc = MR_OK;

    if (t->channel == NULL) {
        rc = mr_rpc_channel_new(r->rt, t->address, NULL, &t->channel, &err);
    }
    if (rc == MR_OK) {
        rc = mr_rpc_stream_open(t->channel, MR_PATH_READ, NULL, -1, false, &stream_ops, t,
                                &t->stream, &err);
    }
    if (rc < 0) {
        t->retry_ms = mr_now_ms() + RETRY_MS_MAX;
        mr_read_task_fails_locked(t, err.message, t->retry_ms - RETRY_MS_MAX);
        mr_read_task_share_locked(t);
        mr_read_retry_locked(r, t->retry_ms);
        return;
    }
    r->streams++;
    mr_read_task_begins_locked(t);
    t->retry_ms = 0;
    t->refused_open = false;
    mr_session_reconnect(&t->session);
    t->session.number += r->rounds != NULL ? 1 : 0; /* each stream has a number of its own */
    send_locked(t, true);
    mr_rpc_stream_receive(t->stream);
}

void mr_read_task_drop_locked(struct mr_read_task *t)
{
    if (t->stream == NULL) {
        return;
    }
    mr_rpc_stream_cancel(t->stream);
}

void mr_read_task_free(struct mr_read_task *t)
{
    mr_session_clear(&t->session);
    mr_round_queue_clear(&t->rounds);
    mr_rpc_channel_free(t->channel);
    mr_free(t->key);
    mr_free(t->id);
    mr_free(t->address);
    mr_free(t->incarnation);
    mr_free(t);
}
