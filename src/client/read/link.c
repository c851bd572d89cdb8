/*
 * The link to a task's worker (/millrace.Worker/Read).
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
#include "base/clock.h" /* mr_backoff_ms() */
#include "client/read/internal.h"

#define RETRY_MS_FIRST 50
#define RETRY_MS_MAX 2000

/* How many connections are being made at once, and how long an attempt counts: a thousand at once
 * would take both ends longer than that, and all fail, again and again. */
#define CONNECTING_MAX 32u
#define CONNECTING_MS 1000

/* ---- how many connect ---- */

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

static void connect_begins(struct mr_read_task *t)
{
    struct mr_read *r = t->read;

    t->batch = r->batch;
    r->connecting++;
    r->begun_ms = r->now_ms;
}

static void connect_ends(struct mr_read_task *t)
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

/* ---- receiving ---- */

static void fail_task(struct mr_read_task *t, const mr_error *err)
{
    if (!t->failed) {
        t->failed = true;
        t->err = *err;
        mr_error_wrap(&t->err, "worker %s", t->address);
    }
    t->end = true;
    t->read->wakes |= MR_READ_WAKE_TAKE;
}

static bool names_match(const struct mr_read_task *t, const Millrace__ReadHeader *h)
{
    return strcmp(h->worker_incarnation, t->incarnation) == 0 && strcmp(h->task_id, t->id) == 0 &&
           h->attempt == t->attempt && h->session == t->session;
}

/* The open was refused. The worker ends the stream; what happens then is decided there. */
static void refused(struct mr_read_task *t, const Millrace__ReadHeader *h)
{
    mr_error err;

    t->refused_open = true;
    (void)mr_error_set(&err, h->code, "%s", h->message);
    (void)snprintf(t->why, sizeof t->why, "%.159s", h->message);
    t->refused_why = true;
    if (h->code == MR_EABORTED && t->end) {
        t->done = true; /* It has closed the session, so it knows. */
    } else if (h->code == MR_EABORTED) {
        if (t->read->mode->session_lost != NULL) {
            t->read->mode->session_lost(t);
        }
        t->session = 0;
        t->failures = 0;
    } else if (h->code != MR_EUNAVAIL && h->code != MR_EEXHAUSTED) {
        fail_task(t, &err);
        t->done = true;
    }
}

static void note_skipped(struct mr_read_task *t, uint64_t skipped)
{
    struct mr_read *r = t->read;

    if (skipped > t->skipped) {
        uint64_t more = skipped - t->skipped;

        r->port->skipped(r, more);
        if (r->opts.job.lag == MILLRACE__LAG__LAG_WAIT) {
            mr_read_missed(r, more);
        }
        t->skipped = skipped;
        r->skipped += more;
    }
}

static void note_ignored(struct mr_read_task *t, uint64_t ignored)
{
    if (ignored > t->ignored) {
        t->read->port->ignored(t->read, ignored - t->ignored);
        t->ignored = ignored;
    }
}

/* What the application does not have yet is still ours to give back, or to lose, so the worker
 * keeps it. */
static bool owes_returns(const struct mr_read_task *t)
{
    return t->read->mode->unused != NULL && t->read->mode->unused(t) > 0;
}

/* A message of our session. */
static int data(struct mr_read_task *t, const struct mr_frame_content *c, mr_error *err)
{
    struct mr_read *r = t->read;
    bool news = false;

    MR_TRY(r->mode->receive(t, c, &news, err));
    t->failures = 0;
    t->failing_ms = 0;
    r->reached = true;
    note_skipped(t, c->header->skipped);
    note_ignored(t, c->header->ignored_errors);
    if (c->header->end) {
        t->end = true;
        t->goodbye = !owes_returns(t);
    }
    if (c->header->code < 0) {
        mr_error failure;

        (void)mr_error_set(&failure, c->header->code, "%s", c->header->message);
        r->failed_for_all = true;
        fail_task(t, &failure);
    }
    if (r->waiting && (news || t->end)) {
        r->wakes |= MR_READ_WAKE_TAKE;
    }
    return MR_OK;
}

/* Something went through; that a message came may be known before that ours has left. */
static void note_connection(struct mr_read_task *t)
{
    if (!t->connected) {
        t->connected = true;
        t->connected_ms = t->read->now_ms;
        connect_ends(t);
        mr_read_recount(t);
    }
}

/* Not what was agreed: what is missing is asked for again on a new stream. */
static void break_off(struct mr_read_task *t, const mr_error *err)
{
    t->read->port->log(MR_LOG_WARN, "breaking off a stream, trying again", "worker", "%s",
                       t->address, "task", "%s", t->id, "error", "%s", err->message, NULL);
    t->read->port->cut(t);
}

bool mr_read_message(struct mr_read_task *t, const struct mr_frame_content *c)
{
    mr_error err;
    int rc = MR_OK;

    note_connection(t);
    if (c->header->code < 0 && !c->header->task_failed) {
        refused(t, c->header);
    } else if (!names_match(t, c->header)) {
        rc = mr_error_set(&err, MR_EUNAVAIL, "a message of another task or session");
    } else if (!t->goodbye) {
        rc = data(t, c, &err);
    }
    if (rc < 0) {
        break_off(t, &err);
    } else {
        mr_read_recount(t);
        mr_read_tell(t, t->goodbye || t->end);
    }
    mr_read_changed(t);
    return rc == MR_OK;
}

void mr_read_garbled(struct mr_read_task *t, const mr_error *err)
{
    note_connection(t);
    break_off(t, err);
    mr_read_changed(t);
}

void mr_read_alien(struct mr_read_task *t, const mr_error *err)
{
    note_connection(t);
    fail_task(t, err);
    t->done = true;
    t->read->port->cut(t);
    mr_read_changed(t);
}

void mr_read_sent(struct mr_read_task *t)
{
    t->sending = false;
    note_connection(t);
    mr_read_tell(t, t->unsaid);
    mr_read_changed(t);
}

/* ---- a stream ends, and begins ---- */

static void try_later(struct mr_read_task *t, const char *why)
{
    struct mr_read *r = t->read;

    r->port->log(MR_LOG_DEBUG, "a stream ended", "worker", "%s", t->address, "task", "%s", t->id,
                 "why", "%s", why != NULL ? why : t->why, NULL);
    mr_read_task_fails(t, why, r->now_ms);
    t->retry_ms = r->now_ms +
                  mr_backoff_ms(t->failures++, RETRY_MS_FIRST, RETRY_MS_MAX, mr_rng_next(&r->rng));
    mr_read_retry(r, t->retry_ms);
}

void mr_read_ended(struct mr_read_task *t, int rc, const mr_error *err)
{
    struct mr_read *r = t->read;
    bool said_why = t->refused_why;

    if (mr_read_task_stands(t, r->now_ms)) {
        t->failing_ms = 0; /* until now */
        t->failures = 0;
    }
    mr_read_note_failure(t, rc < 0 ? err : NULL);
    if (!t->connected) {
        connect_ends(t);
    }
    t->streams = t->connected = t->sending = t->unsaid = t->refused_why = false;
    r->streams--;
    if (rc == MR_OK && (t->end || (t->said_bye && !t->refused_open))) {
        t->done = true;
    } else if (rc == MR_EABORTED && t->said_bye) {
        t->closed = true; /* Our goodbye came after its end. */
    }
    if (!t->done && !t->closed && !r->stopping && !r->failed) {
        try_later(t, said_why ? NULL : rc < 0 ? err->message : "it refuses");
    }
    if (r->mode->stream_ended != NULL) {
        r->mode->stream_ended(t);
    }
    mr_read_recount(t);
    mr_read_changed(t);
    mr_read_wake(r);
    r->wakes |= MR_READ_WAKE_TAKE;
}

void mr_read_connect(struct mr_read_task *t)
{
    struct mr_read *r = t->read;
    mr_error err;

    if (r->port->connect(t, &err) < 0) {
        t->retry_ms = r->now_ms + RETRY_MS_MAX;
        mr_read_task_fails(t, err.message, r->now_ms);
        mr_read_recount(t);
        mr_read_retry(r, t->retry_ms);
        return;
    }
    t->streams = true;
    r->streams++;
    connect_begins(t);
    t->retry_ms = 0;
    t->refused_open = false;
    mr_read_send(t, true);
}
