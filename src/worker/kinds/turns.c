/* A task of a coordinated job: its rows become groups (session/row_groups.h), its rounds are those
 * of the round book (session/round_book.h), and each consumer has one stream at a time. Consumers
 * hear from the dispatcher that the pipeline has failed. */
#include "base/clock.h"
#include "base/log.h"
#include "element/frame.h"
#include "worker/conn.h"
#include "worker/kinds.h"
#include "worker/session/round_book.h"
#include "worker/session/row_groups.h"

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

#define KEPT_BYTES_MAX (256 * MR_MIB) /* beyond it two groups are kept at most */

/* The stream of a consumer. */
struct place {
    struct mr_conn *conn; /* NULL: none */
    uint64_t number;      /* ours, growing */
    uint64_t session;     /* the client's number for the stream, as messages carry it */
    uint64_t elements;    /* sent on it */
    uint64_t bytes;
    uint64_t limit_bytes;
    bool busy; /* a message is under way */
};

struct turns {
    struct mr_worker_task task;
    uint32_t consumers; /* set when made, with the next */
    size_t kept_bytes;
    /* task.lock guards the rest. */
    mr_round_book *book;
    mr_row_groups *groups;
    bool over;            /* the pipeline is */
    bool ended;           /* ... and so did the rounds */
    uint64_t fixed;       /* groups that have a round */
    uint64_t last_stream; /* number */
    struct place *places; /* of each consumer */
};

static struct turns *turns_of(struct mr_worker_task *t)
{
    MR_ASSERT(t->kind == &mr_kind_turns);
    return (struct turns *)t;
}

/* ---- life ---- */

static bool turns_is_its(const Millrace__TaskAssignment *a)
{
    return a->rounds != NULL;
}

static int turns_init(struct mr_worker_task *t, mr_error *err)
{
    const Millrace__RoundAssignment *rounds = t->a->rounds;
    struct turns *turns = turns_of(t);
    uint64_t budget = mr_memory_limit(t->worker->memory);

    MR_TRY(mr_round_book_new(rounds, KEEP_ROUNDS, &turns->book, err));
    turns->consumers = rounds->num_consumers; /* the book has checked that */
    turns->kept_bytes = MR_MIN(KEPT_BYTES_MAX, budget / 4);
    turns->places = mr_calloc(turns->consumers, sizeof turns->places[0]);
    return turns->places == NULL ? mr_error_nomem(err)
                                 : mr_row_groups_new(turns->consumers, &turns->groups, err);
}

static void turns_free(struct mr_worker_task *t)
{
    struct turns *turns = turns_of(t);

    mr_row_groups_free(turns->groups);
    mr_round_book_free(turns->book);
    mr_free(turns->places);
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
static int gather_locked(struct turns *turns, uint32_t consumer, struct message *m, mr_error *err)
{
    struct place *s = &turns->places[consumer];
    size_t bytes = 0;
    struct mr_round round;

    while (m->n < MESSAGE_ELEMENTS_MAX && bytes < MR_DATA_MESSAGE_BYTES_TARGET &&
           s->bytes < s->limit_bytes && mr_round_book_next(turns->book, consumer, &round)) {
        mr_block *block;

        MR_TRY(mr_row_groups_element(turns->groups, round.ordinal, consumer, &block, err));
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

/* Detach the stream of @p, which has one: a reference to it. */
static mr_rpc_stream *cut(struct place *p)
{
    struct mr_conn *c = p->conn;

    p->conn = NULL;
    c->session = NULL;
    return mr_rpc_stream_ref(c->stream);
}

/* Another process has the place of the consumer whose stream this was: a reference to it, or
 * NULL. */
static mr_rpc_stream *cut_superseded_locked(struct turns *turns, uint32_t consumer)
{
    struct place *s = &turns->places[consumer];

    if (s->conn == NULL || mr_round_book_is_current(turns->book, consumer, s->number)) {
        return NULL;
    }
    return cut(s);
}

/* What @consumer is to be sent now: MR_OK, MR_END (nothing) or an error. */
static int compose_locked(struct mr_worker_task *t, uint32_t consumer, struct message *m,
                          mr_error *err)
{
    struct turns *turns = turns_of(t);
    struct place *s = &turns->places[consumer];

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
    (void)mr_conn_ref(m->conn);
    millrace__round_header__init(&m->header);
    mr_round_book_header(turns->book, consumer, &m->header);
    m->header.rounds = m->rounds;
    m->header.n_rounds = m->n;
    s->busy = true;
    return rc;
}

static void send_message(struct message *m, int rc, const mr_error *err)
{
    if (rc == MR_OK) {
        struct mr_conn_header header;

        mr_conn_header_init(&header, m->conn);
        header.base.session = m->session;
        header.base.first_element = m->first;
        header.base.elements = (uint32_t)m->n;
        header.base.rounds = &m->header;
        mr_conn_send(m->conn, &header, m->parts, m->n);
    } else {
        mr_conn_break_off(m->conn, err);
    }
    for (size_t i = 0; i < m->n; i++) {
        mr_block_unref(m->parts[i].block);
    }
    mr_conn_unref(m->conn);
}

static void turns_pump(struct mr_worker_task *t)
{
    for (uint32_t i = 0; i < turns_of(t)->consumers; i++) {
        struct message m;
        mr_error err;

        mr_mutex_lock(&t->lock);
        mr_rpc_stream *superseded = cut_superseded_locked(turns_of(t), i);
        int rc = t->cancelled ? MR_END : compose_locked(t, i, &m, &err);
        mr_mutex_unlock(&t->lock);
        mr_conn_end(superseded, MR_EPRECOND,
                    "another process has taken the place of this consumer");
        if (rc != MR_END) {
            send_message(&m, rc, &err);
        }
    }
}

/* ---- rounds ---- */

/* Groups that are there become rounds as far as they may; what everybody has returned goes. */
static void advance_locked(struct turns *turns)
{
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
    (void)pthread_cond_broadcast(&turns->task.changed);
}

static void turns_change_rounds(struct mr_worker_task *t, const Millrace__RoundAssignment *rounds)
{
    mr_error err;

    mr_mutex_lock(&t->lock);
    int rc = mr_round_book_assign(turns_of(t)->book, rounds, &err);
    advance_locked(turns_of(t));
    mr_mutex_unlock(&t->lock);
    if (rc < 0) {
        mr_log(MR_LOG_ERROR, "an assignment of rounds that cannot be", "task", "%s", t->id, "error",
               "%s", err.message, NULL);
    }
    turns_pump(t);
}

static void turns_assign(struct mr_worker_task *t, const Millrace__TaskAssignment *a)
{
    if (a->rounds != NULL) {
        turns_change_rounds(t, a->rounds);
    }
}

/* Whole groups that wait for a round: some, so that nobody waits for the pipeline, but not many.
 * However large they are, there are two: one is made while the other is read. */
static bool has_enough_locked(const struct turns *turns)
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
    struct turns *turns = turns_of(t);

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
    int rc = mr_row_groups_add(turns_of(t)->groups, block, err);
    if (rc == MR_OK) {
        advance_locked(turns_of(t));
    }
    mr_mutex_unlock(&t->lock);
    turns_pump(t);
    return rc;
}

/* The pipeline is over. Wait until everybody has returned everything: true, with the first round
 * that it has not. False: cancelled. */
static bool finish(struct mr_worker_task *t, uint64_t *end_round)
{
    struct turns *turns = turns_of(t);
    bool pad = t->a->rounds->last_round == MILLRACE__LAST_ROUND__LAST_ROUND_PAD;
    mr_error err;

    mr_mutex_lock(&t->lock);
    if (mr_row_groups_finish(turns->groups, pad, &err) < 0) {
        mr_log(MR_LOG_WARN, "the last group is dropped", "task", "%s", t->id, "error", "%s",
               err.message, NULL);
    }
    turns->over = true;
    advance_locked(turns_of(t));
    mr_mutex_unlock(&t->lock);
    turns_pump(t);
    MR_LOCK(&t->lock);
    while (!t->cancelled && !mr_round_book_over(turns->book, end_round)) {
        mr_cond_wait(&t->changed, &t->lock);
    }
    return !t->cancelled;
}

static void report_end(struct mr_worker_task *t, int code, const char *message, uint64_t end_round)
{
    Millrace__TaskEndedRequest req = MILLRACE__TASK_ENDED_REQUEST__INIT;

    req.code = code;
    req.message = (char *)(uintptr_t)message;
    req.end_round = end_round;
    mr_worker_task_report_end(t, &req);
}

static void turns_run(struct mr_worker_task *t)
{
    static const struct mr_sink sink = {.wait = wait_room, .put = put_row};
    uint64_t end_round = 0;
    mr_error err;

    mr_error_clear(&err);
    int rc = mr_pipeline_run(t, &sink, &err);
    if (rc == MR_END) {
        if (finish(t, &end_round)) {
            report_end(t, MR_OK, "", end_round);
        }
    } else if (!atomic_load(&t->stop) && !atomic_load(&t->disowned)) {
        mr_pipeline_log_failure(t, &err);
        report_end(t, rc, err.message, 0);
    }
}

/* ---- streams ---- */

static void turns_detach_locked(struct mr_conn *c)
{
    struct place *p = c->session;

    if (p != NULL) {
        p->conn = NULL;
        c->session = NULL;
    }
}

/* What a message of @c says. MR_EINVAL: it cannot be; the place of its consumer is free then. */
static int take_word_locked(struct mr_conn *c, const Millrace__ReadRequest *req, mr_error *err)
{
    struct turns *turns = turns_of(c->task);
    struct place *p = c->session;
    int rc = MR_OK;

    if (p != NULL) {
        p->limit_bytes = req->limit_bytes;
        rc = mr_round_book_tell(turns->book, (uint32_t)(p - turns->places), p->number,
                                req->limit_round, req->received_below, req->returned_below, err);
        if (rc < 0) {
            turns_detach_locked(c);
        }
        advance_locked(turns);
    }
    return rc;
}

static int turns_attach_locked(struct mr_conn *c, struct mr_worker_task *t,
                               mr_rpc_stream **replaced, mr_error *err)
{
    struct turns *turns = turns_of(t);
    const Millrace__ReadRequest *req = c->first;
    const Millrace__RoundOpen *open = req->open->rounds;
    uint64_t number = turns->last_stream + 1;

    if (open == NULL) {
        return mr_error_set(err, MR_EINVAL,
                            "task %s is of a coordinated job, and %.32s opens no round", t->id,
                            req->open->client);
    }
    MR_TRY(mr_round_book_open(turns->book, open, number, err)); /* checks the index */
    struct place *p = &turns->places[open->consumer_index];
    *replaced = p->conn != NULL ? cut(p) : NULL;
    *p = (struct place){.conn = c,
                        .number = number,
                        .session = req->open->session,
                        .limit_bytes = req->limit_bytes};
    turns->last_stream = number;
    c->task = mr_worker_task_ref(t);
    c->session = p;
    return take_word_locked(c, req, err);
}

/* That a consumer goes is told to the dispatcher; here its place is kept. */
static void turns_message(struct mr_conn *c, const Millrace__ReadRequest *req)
{
    struct mr_worker_task *t = c->task;
    mr_error err;

    mr_mutex_lock(&t->lock);
    int rc = take_word_locked(c, req, &err);
    if (req->done) {
        turns_detach_locked(c);
    }
    mr_mutex_unlock(&t->lock);
    if (rc < 0) {
        mr_conn_blame(c, &err);
    } else if (req->done) {
        mr_rpc_stream_finish(c->stream, MR_OK, NULL);
    } else {
        mr_rpc_stream_receive(c->stream);
    }
    turns_pump(t);
}

static void turns_sent_locked(struct mr_conn *c)
{
    struct place *p = c->session;

    if (p != NULL) {
        p->busy = false;
    }
}

static mr_rpc_stream *turns_cut_locked(struct mr_worker_task *t)
{
    struct turns *turns = turns_of(t);

    for (uint32_t i = 0; i < turns->consumers; i++) {
        if (turns->places[i].conn != NULL) {
            return cut(&turns->places[i]);
        }
    }
    return NULL;
}

/* ---- for people ---- */

static void turns_progress(struct mr_worker_task *t, struct mr_worker_task_progress *ret)
{
    struct turns *turns = turns_of(t);

    MR_LOCK(&t->lock);
    millrace__round_progress__init(&ret->rounds);
    mr_round_book_progress(turns->book, mr_now_ms(), &ret->rounds);
    ret->base.rounds = &ret->rounds;
    ret->base.produced = mr_row_groups_rows(turns->groups);
    ret->base.delivered = mr_round_book_kept(turns->book).ordinal * turns->consumers;
    ret->base.buffered_bytes = mr_row_groups_bytes(turns->groups);
    for (uint32_t i = 0; i < turns->consumers; i++) {
        ret->base.sessions += turns->places[i].conn != NULL ? 1 : 0;
    }
}

static const struct mr_worker_task_streams turns_streams = {
    .attach_locked = turns_attach_locked,
    .message = turns_message,
    .sent_locked = turns_sent_locked,
    .detach_locked = turns_detach_locked,
    .cut_locked = turns_cut_locked,
    .pump = turns_pump,
};

const struct mr_worker_task_kind mr_kind_turns = {
    .name = "coordinated",
    .thread = "mr-turns",
    .size = sizeof(struct turns),
    .source = MR_SENT_PIPELINE,
    .has_pipeline = true,
    .is_its = turns_is_its,
    .init = turns_init,
    .free = turns_free,
    .run = turns_run,
    .assign = turns_assign,
    .change_rounds = turns_change_rounds,
    .streams = &turns_streams,
    .progress = turns_progress,
};
