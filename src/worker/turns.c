#include "worker/turns.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "element/frame.h"
#include "worker/internal.h"

#include <millrace/base.h>
#include <string.h>

/* Rounds that may be fixed and not returned by everybody: what consumers have under way at once
 * (AHEAD_ROUNDS of src/client/coordinated.c), and as many that they have returned and not told of
 * yet. */
#define KEEP_ROUNDS 128u
/* Groups that are made ahead of the rounds they will be of; beyond one, only while they are
 * small. */
#define AHEAD_GROUPS 64u
#define AHEAD_BYTES (8 * MR_MIB)
/* Elements of one message. */
#define MESSAGE_ELEMENTS_MAX 64u

/* ---- life ---- */

int mr_turns_new(const Millrace__RoundAssignment *assignment, size_t kept_bytes,
                 struct mr_turns **ret, mr_error *err)
{
    mr_round_book *book = NULL;
    int rc =
        mr_round_book_new(assignment, KEEP_ROUNDS, &book, err); /* checks the number of consumers */

    if (rc < 0) {
        return rc;
    }
    uint32_t consumers = assignment->num_consumers;
    struct mr_turns *turns = mr_calloc(1, sizeof *turns + consumers * sizeof turns->streams[0]);
    if (turns == NULL) {
        mr_round_book_free(book);
        return mr_error_nomem(err);
    }
    turns->book = book;
    turns->consumers = consumers;
    turns->kept_bytes = kept_bytes;
    turns->pad = assignment->last_round == MILLRACE__LAST_ROUND__LAST_ROUND_PAD;
    rc = mr_row_groups_new(consumers, &turns->groups, err);
    if (rc < 0) {
        mr_turns_free(turns);
        return rc;
    }
    *ret = turns;
    return MR_OK;
}

void mr_turns_free(struct mr_turns *turns)
{
    if (turns != NULL) {
        mr_row_groups_free(turns->groups);
        mr_round_book_free(turns->book);
        mr_free(turns);
    }
}

/* ---- rounds ---- */

/* Groups that are there become rounds as far as they may; what everybody has returned goes. */
static void advance_locked(struct mr_worker_task *t)
{
    struct mr_turns *turns = t->turns;
    struct mr_round round;

    while (turns->fixed < mr_row_groups_whole(turns->groups) &&
           mr_round_book_may_fix(turns->book, &round)) {
        MR_ASSERT(round.ordinal == turns->fixed);
        mr_round_book_fix(turns->book);
        turns->fixed++;
    }
    if (turns->over && !turns->ended && turns->fixed == mr_row_groups_whole(turns->groups)) {
        turns->ended = true;
        mr_round_book_end(turns->book);
    }
    mr_row_groups_drop(turns->groups, mr_round_book_kept(turns->book).ordinal);
    (void)pthread_cond_broadcast(&t->changed);
}

void mr_turns_assign(struct mr_worker_task *t, const Millrace__RoundAssignment *assignment)
{
    mr_error err;

    mr_mutex_lock(&t->lock);
    int rc = mr_round_book_assign(t->turns->book, assignment, &err);
    advance_locked(t);
    mr_mutex_unlock(&t->lock);
    if (rc < 0) {
        mr_log(MR_LOG_ERROR, "an assignment of rounds that cannot be", "task", "%s", t->id, "error",
               "%s", err.message, NULL);
    }
    mr_turns_pump(t);
}

/* Whole groups that wait for a round: some, so that nobody waits for the pipeline, but not many.
 * However large they are, there are two: one is made while the other is read. */
static bool has_enough_locked(const struct mr_turns *turns)
{
    uint64_t whole = mr_row_groups_whole(turns->groups);
    uint64_t ahead = whole - turns->fixed;
    uint64_t kept = whole - mr_round_book_kept(turns->book).ordinal;
    size_t bytes = mr_row_groups_bytes(turns->groups);

    return ahead >= AHEAD_GROUPS || (ahead > 0 && bytes >= AHEAD_BYTES) ||
           (kept >= 2 && bytes >= turns->kept_bytes);
}

static int wait_room(struct mr_worker_task *t, uint32_t *rows, mr_error *err)
{
    struct mr_turns *turns = t->turns;

    MR_LOCK(&t->lock);
    while (!t->cancelled && has_enough_locked(turns)) {
        mr_cond_wait(&t->changed, &t->lock);
    }
    if (t->cancelled) {
        return mr_error_set(err, MR_ECANCELED, "the task was cancelled");
    }
    *rows = turns->consumers *
            (uint32_t)(AHEAD_GROUPS - (mr_row_groups_whole(turns->groups) - turns->fixed));
    return MR_OK;
}

static int put_row(struct mr_worker_task *t, mr_block *block, mr_error *err)
{
    mr_mutex_lock(&t->lock);
    int rc = mr_row_groups_add(t->turns->groups, block, err);
    if (rc == MR_OK) {
        advance_locked(t);
    }
    mr_mutex_unlock(&t->lock);
    mr_turns_pump(t);
    return rc;
}

const struct mr_sink mr_turns_sink = {.wait = wait_room, .put = put_row};

bool mr_turns_finish(struct mr_worker_task *t, uint64_t *end_round)
{
    struct mr_turns *turns = t->turns;
    mr_error err;

    mr_mutex_lock(&t->lock);
    if (mr_row_groups_finish(turns->groups, turns->pad, &err) < 0) {
        mr_log(MR_LOG_WARN, "the last group is dropped", "task", "%s", t->id, "error", "%s",
               err.message, NULL);
    }
    turns->over = true;
    advance_locked(t);
    mr_mutex_unlock(&t->lock);
    mr_turns_pump(t);
    MR_LOCK(&t->lock);
    while (!t->cancelled && !mr_round_book_over(turns->book, end_round)) {
        mr_cond_wait(&t->changed, &t->lock);
    }
    return !t->cancelled;
}

/* ---- streams ---- */

/* The stream of @c, if it is still the one of its consumer. */
static struct mr_turns_stream *stream_of(const struct mr_conn *c)
{
    struct mr_turns_stream *s = &c->task->turns->streams[c->consumer];

    return s->conn == c ? s : NULL;
}

int mr_turns_attach_locked(struct mr_conn *c, struct mr_worker_task *t, mr_rpc_stream **replaced,
                           mr_error *err)
{
    struct mr_turns *turns = t->turns;
    const Millrace__ReadRequest *req = c->first;
    const Millrace__RoundOpen *open = req->open->rounds;
    uint64_t number = turns->last_stream + 1;

    if (open == NULL) {
        return mr_error_set(err, MR_EINVAL,
                            "task %s is of a coordinated job, and %.32s opens no round", t->id,
                            req->open->client);
    }
    int rc = mr_round_book_open(turns->book, open, number, err); /* checks the index */
    if (rc < 0) {
        return rc;
    }
    struct mr_turns_stream *s = &turns->streams[open->consumer_index];
    *replaced = s->conn != NULL ? mr_rpc_stream_ref(s->conn->stream) : NULL;
    *s = (struct mr_turns_stream){.conn = c,
                                  .number = number,
                                  .session = req->open->session,
                                  .limit_bytes = req->limit_bytes};
    turns->last_stream = number;
    c->task = mr_worker_task_ref(t);
    c->consumer = open->consumer_index;
    return mr_turns_tell_locked(c, req, err);
}

int mr_turns_tell_locked(struct mr_conn *c, const Millrace__ReadRequest *req, mr_error *err)
{
    struct mr_turns_stream *s = stream_of(c);
    int rc = MR_OK;

    if (s != NULL) {
        s->limit_bytes = req->limit_bytes;
        rc = mr_round_book_tell(c->task->turns->book, c->consumer, s->number, req->limit_round,
                                req->received_below, req->returned_below, err);
        if (rc < 0) {
            mr_turns_detach_locked(c);
        }
        advance_locked(c->task);
    }
    return rc;
}

void mr_turns_sent_locked(struct mr_conn *c)
{
    struct mr_turns_stream *s = stream_of(c);

    if (s != NULL) {
        s->busy = false;
    }
}

void mr_turns_detach_locked(struct mr_conn *c)
{
    struct mr_turns_stream *s = stream_of(c);

    if (s != NULL) {
        s->conn = NULL;
    }
}

mr_rpc_stream *mr_turns_cut_locked(struct mr_worker_task *t)
{
    for (uint32_t i = 0; i < t->turns->consumers; i++) {
        struct mr_conn *c = t->turns->streams[i].conn;

        if (c != NULL) {
            t->turns->streams[i].conn = NULL;
            return mr_rpc_stream_ref(c->stream);
        }
    }
    return NULL;
}

/* ---- sending ---- */

/* A message for a consumer, while it is made and sent. */
struct message {
    struct mr_conn *conn; /* a reference */
    Millrace__RoundHeader header;
    uint64_t rounds[MESSAGE_ELEMENTS_MAX];
    struct mr_part parts[MESSAGE_ELEMENTS_MAX]; /* references */
    size_t n;
    uint64_t session;
    uint64_t first;
};

/* Elements of the next rounds of @consumer, as many as it has room for. */
static int gather_locked(struct mr_turns *turns, uint32_t consumer, struct message *m,
                         mr_error *err)
{
    struct mr_turns_stream *s = &turns->streams[consumer];
    size_t bytes = 0;
    struct mr_round round;

    while (m->n < MESSAGE_ELEMENTS_MAX && bytes < MR_DATA_MESSAGE_BYTES_TARGET &&
           s->bytes < s->limit_bytes && mr_round_book_next(turns->book, consumer, &round)) {
        mr_block *block;
        int rc = mr_row_groups_element(turns->groups, round.ordinal, consumer, &block, err);

        if (rc < 0) {
            return rc;
        }
        size_t size = mr_block_row_bytes(block, 0, 1);

        m->rounds[m->n] = round.round;
        m->parts[m->n++] = (struct mr_part){.block = block};
        mr_round_book_sent(turns->book, consumer, round.round);
        bytes += size;
        s->bytes += size;
        s->elements++;
    }
    return MR_OK;
}

/* Another process has the place of the consumer whose stream this was: a reference to it, or
 * NULL. */
static mr_rpc_stream *cut_superseded_locked(struct mr_turns *turns, uint32_t consumer)
{
    struct mr_turns_stream *s = &turns->streams[consumer];

    if (s->conn == NULL || mr_round_book_is_current(turns->book, consumer, s->number)) {
        return NULL;
    }
    mr_rpc_stream *stream = mr_rpc_stream_ref(s->conn->stream);
    s->conn = NULL;
    return stream;
}

/* What @consumer is to be sent now: MR_OK, MR_END (nothing) or an error. */
static int compose_locked(struct mr_worker_task *t, uint32_t consumer, struct message *m,
                          mr_error *err)
{
    struct mr_turns *turns = t->turns;
    struct mr_turns_stream *s = &turns->streams[consumer];

    m->n = 0;
    if (s->conn == NULL || s->busy) {
        return MR_END;
    }
    m->session = s->session;
    m->first = s->elements;
    m->conn = s->conn;
    int rc = gather_locked(turns, consumer, m, err);
    if (rc == MR_OK && m->n == 0 && !mr_round_book_has_news(turns->book, consumer)) {
        return MR_END;
    }
    (void)atomic_fetch_add(&m->conn->refs, 1);
    millrace__round_header__init(&m->header);
    mr_round_book_header(turns->book, consumer, &m->header);
    m->header.rounds = m->rounds;
    m->header.n_rounds = m->n;
    s->busy = true;
    return rc;
}

static void send_message(struct mr_worker_task *t, struct message *m, int rc, const mr_error *err)
{
    if (rc == MR_OK) {
        struct mr_conn_rounds rounds = {
            .header = &m->header, .session = m->session, .first = m->first};

        mr_conn_send_rounds(m->conn, &rounds, m->parts, m->n);
    } else {
        mr_log(MR_LOG_WARN, "making a message, breaking the stream off", "task", "%s", t->id,
               "error", "%s", err->message, NULL);
        mr_rpc_stream_cancel(m->conn->stream);
    }
    for (size_t i = 0; i < m->n; i++) {
        mr_block_unref(m->parts[i].block);
    }
    mr_conn_unref(m->conn);
}

void mr_turns_pump(struct mr_worker_task *t)
{
    for (uint32_t i = 0; i < t->turns->consumers; i++) {
        struct message m;
        mr_error err;

        mr_mutex_lock(&t->lock);
        mr_rpc_stream *superseded = cut_superseded_locked(t->turns, i);
        int rc = t->cancelled ? MR_END : compose_locked(t, i, &m, &err);
        mr_mutex_unlock(&t->lock);
        if (superseded != NULL) {
            mr_rpc_stream_finish(superseded, MR_EPRECOND,
                                 "another process has taken the place of this consumer");
            mr_rpc_stream_unref(superseded);
        }
        if (rc != MR_END) {
            send_message(t, &m, rc, &err);
        }
    }
}

/* ---- for people ---- */

void mr_turns_progress_locked(struct mr_worker_task *t, Millrace__TaskProgress *ret,
                              Millrace__RoundProgress *rounds)
{
    struct mr_turns *turns = t->turns;

    millrace__round_progress__init(rounds);
    mr_round_book_progress(turns->book, mr_now_ms(), rounds);
    ret->rounds = rounds;
    ret->produced = mr_row_groups_rows(turns->groups);
    ret->delivered = mr_round_book_kept(turns->book).ordinal * turns->consumers;
    ret->buffered_bytes = mr_row_groups_bytes(turns->groups);
    for (uint32_t i = 0; i < turns->consumers; i++) {
        ret->sessions += turns->streams[i].conn != NULL ? 1 : 0;
    }
}
