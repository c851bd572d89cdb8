/*
 * Reading as a consumer of a coordinated job: what client/rounds.h decides, done. Each task has a
 * queue of the elements that came, by round; the application gets them in the order of the rounds,
 * whoever's they are.
 *
 * Whether an element may be returned is never decided by its being here: client/rounds.h says when.
 * What was accepted counts as received at once, so there is no way back: an element that cannot be
 * queued then ends the read.
 */
#include "client/modes/coordinated.h"
#include "client/queue.h"
#include "client/read/internal.h"

/* Rounds of one worker that may be here at once, unless the application asks for less. Each
 * message, receipt and credit is for about half of them: with 16 they cost four times the CPU time.
 * Large elements are bounded in bytes. */
#define AHEAD_ROUNDS 64u

#define MAGIC 0x434f4f52u

struct coordinated_task {
    struct mr_read_task base; /* first */
    uint32_t magic;
    uint64_t number;             /* of the last stream: each has one of its own */
    Millrace__RoundOpen opening; /* what it was opened with */
    struct mr_queue queue;       /* elements that wait until their rounds are complete, ascending */
    uint64_t stream_bytes;       /* that came on this stream */
};

struct coordinated {
    uint32_t magic;
    mr_client_rounds *rounds;        /* NULL: not attached yet, or it was over before */
    Millrace__ConsumerReport report; /* the last one */
};

static mr_client_rounds *rounds_of(const struct mr_read *r)
{
    const struct coordinated *c = r->of_mode;

    MR_ASSERT(c->magic == MAGIC);
    return c->rounds;
}

const mr_client_rounds *mr_coordinated_rounds(const struct mr_read *r)
{
    return rounds_of(r);
}

static struct coordinated_task *task_of(const struct mr_read_task *t)
{
    struct coordinated_task *c = (struct coordinated_task *)(uintptr_t)t;

    MR_ASSERT(c->magic == MAGIC);
    return c;
}

static void drop_below(struct mr_queue *q, uint64_t round)
{
    while (q->count > 0 && mr_queue_at(q, 0)->number < round) {
        mr_block_unref(mr_queue_pop(q));
    }
}

/* ---- life ---- */

static void begin(struct mr_read *r)
{
    struct coordinated *c = r->of_mode;

    c->magic = MAGIC;
}

static void end(struct mr_read *r)
{
    mr_client_rounds_free(rounds_of(r));
}

static void task_begin(struct mr_read_task *base)
{
    struct coordinated_task *t = (struct coordinated_task *)base;

    t->magic = MAGIC;
    t->number = 1;
}

static void task_end(struct mr_read_task *base)
{
    struct coordinated_task *t = task_of(base);

    mr_queue_clear(&t->queue);
    t->magic = 0;
}

/* ---- the dispatcher ---- */

static int opened(struct mr_read *r, const Millrace__OpenReply *reply, mr_error *err)
{
    struct coordinated *c = r->of_mode;
    uint64_t asked = r->opts.max_outstanding;
    struct mr_client_rounds_config config = {.consumer_index = r->opts.consumer_index,
                                             .session = reply->consumer_session,
                                             .from_round = reply->from_round,
                                             .placed = r->opts.resumes,
                                             .ahead = AHEAD_ROUNDS};

    if (asked > 0 && asked < AHEAD_ROUNDS) {
        config.ahead = (uint32_t)asked;
    }
    if (reply->report_ms > 0 && reply->report_ms < r->heartbeat_ms) {
        r->heartbeat_ms = reply->report_ms;
    }
    if (c->rounds == NULL) {
        c->rounds = mr_client_rounds_new(&config);
    }
    return c->rounds != NULL ? MR_OK : mr_error_nomem(err);
}

/* Which tasks are to be read now has changed, perhaps. */
static void follow(struct mr_read *r)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link) {
        t->closed = r->finished || !mr_client_rounds_wants(rounds_of(r), t->id);
        if (t->closed && !t->goodbye) {
            mr_read_cut(t);
        }
        mr_read_changed(t);
    }
    mr_read_retry(r, 0);
    /* The tick connects; the session reports; the application may have waited for just this. */
    mr_read_wake(r);
    r->wakes |= MR_READ_WAKE_TAKE;
}

static void updated(struct mr_read *r, const Millrace__ClientUpdate *u)
{
    mr_error err;

    if (u->rounds == NULL) {
        return;
    }
    if (mr_client_rounds_update(rounds_of(r), u->rounds, &err) < 0) {
        mr_read_fail(r, &err);
    }
    follow(r);
}

static void finished(struct mr_read *r)
{
    if (rounds_of(r) == NULL) {
        return;
    }
    if (r->end_err.code == MR_OK) {
        mr_client_rounds_finish(rounds_of(r));
    } else {
        mr_read_fail(r, &r->end_err);
    }
    follow(r);
}

static uint64_t report(struct mr_read *r, Millrace__ClientHeartbeatRequest *req)
{
    struct coordinated *c = r->of_mode;

    req->rounds = &c->report;
    return mr_client_rounds_report(c->rounds, &c->report);
}

static void reported(struct mr_read *r, uint64_t number)
{
    mr_client_rounds_reported(rounds_of(r), number);
}

static bool must_report(const struct mr_read *r)
{
    return mr_client_rounds_must_report(rounds_of(r));
}

/* ---- the link to a worker ---- */

static int open_stream(struct mr_read_task *base, Millrace__ReadOpen *ret, mr_error *err)
{
    struct coordinated_task *t = task_of(base);

    millrace__round_open__init(&t->opening);
    t->stream_bytes = 0;
    ret->session = ++t->number;
    ret->rounds = &t->opening;
    return mr_client_rounds_open(rounds_of(base->read), base->id, &t->opening, err);
}

static bool must_send(struct mr_read_task *base)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    return mr_client_rounds_tell(rounds_of(base->read), base->id, &req);
}

static void fill(struct mr_read_task *base, Millrace__ReadRequest *ret)
{
    const struct coordinated_task *t = task_of(base);
    size_t budget = mr_read_share_bytes(base->read, base->read->ntasks);

    /* With nothing queued one element always may come, however large it is. */
    ret->limit_bytes = t->stream_bytes + (budget > t->queue.bytes ? budget - t->queue.bytes : 0);
    (void)mr_client_rounds_tell(rounds_of(base->read), base->id, ret);
}

static uint64_t rows_of(const struct mr_frame_content *c)
{
    uint64_t rows = 0;

    for (size_t i = 0; i < c->n; i++) {
        rows += mr_block_rows(c->blocks[i]);
    }
    return rows;
}

/* Queue the elements of @c from the @first-th on. */
static int queue_elements(struct coordinated_task *t, const struct mr_frame_content *c,
                          size_t first, mr_error *err)
{
    const Millrace__RoundHeader *header = c->header->rounds;
    size_t k = 0;

    MR_TRY(mr_queue_reserve(&t->queue, header->n_rounds - first, err));
    for (size_t i = 0; i < c->n; i++) {
        for (uint32_t row = 0; row < mr_block_rows(c->blocks[i]); row++, k++) {
            mr_block *one = NULL;

            if (k < first) {
                continue;
            }
            MR_TRY(mr_block_slice(c->blocks[i], row, 1, &one, err));
            mr_queue_push(&t->queue, one, 0, header->rounds[k]);
        }
        t->stream_bytes += mr_block_row_bytes(c->blocks[i], 0, mr_block_rows(c->blocks[i]));
    }
    return MR_OK;
}

static int receive(struct mr_read_task *base, const struct mr_frame_content *c, bool *news,
                   mr_error *err)
{
    struct mr_read *r = base->read;
    const Millrace__RoundHeader *header = c->header->rounds;
    size_t first = 0;

    if (header == NULL || header->n_rounds != rows_of(c)) {
        return mr_error_set(err, MR_EDATALOSS,
                            "a message of a coordinated job has %" PRIu64 " elements of %zu rounds",
                            rows_of(c), header == NULL ? 0 : header->n_rounds);
    }
    int rc = mr_client_rounds_receive(rounds_of(r), base->id, header, &first, err);
    if (rc == MR_OK) {
        rc = queue_elements(task_of(base), c, first, err);
        if (rc < 0) {
            mr_read_fail(r, err); /* Its rounds count as received: there is no going back. */
        }
    }
    *news = true; /* Also without elements: a round may be complete. */
    return rc;
}

static bool is_empty(const struct mr_read_task *base)
{
    return task_of(base)->queue.count == 0;
}

/* ---- the application ---- */

/* The task of that round: the one whose queue begins with it (@has_it), or the first of its id. Of
 * an id there may be several attempts. */
static struct mr_read_task *find_task(const struct mr_read *r,
                                      const struct mr_client_rounds_next *next, bool has_it)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link) {
        const struct mr_queue *q = &task_of(t)->queue;
        bool has = q->count > 0 && mr_queue_at(q, 0)->number == next->round;

        if (strcmp(t->id, next->task_id) == 0 && (has || !has_it)) {
            return t;
        }
    }
    return NULL;
}

static void explain(const struct mr_read *r, char *out, size_t size)
{
    struct mr_client_rounds_next next;

    if (mr_client_rounds_next(rounds_of(r), &next, NULL) < 0 || next.task_id == NULL) {
        (void)snprintf(out, size, "no worker has a turn that this consumer may know of yet");
    } else if (find_task(r, &next, true) != NULL) {
        (void)snprintf(out, size, "round %" PRIu64 " is here, and others have not received it",
                       next.round);
    } else {
        const struct mr_read_task *t = find_task(r, &next, false);

        (void)snprintf(out, size, "worker %.60s has not sent round %" PRIu64,
                       t != NULL ? t->address : next.task_id, next.round);
    }
}

/* The pipeline whose round is due has failed, or its worker has refused us for good. */
static void check_due(struct mr_read *r, const struct mr_client_rounds_next *next)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link) {
        if (t->failed && next->task_id != NULL && strcmp(t->id, next->task_id) == 0) {
            mr_read_fail(r, &t->err);
        }
    }
}

static int take(struct mr_read *r, uint32_t rows_max, struct mr_read_taken *ret, mr_error *err)
{
    mr_client_rounds *rounds = rounds_of(r);
    struct mr_client_rounds_next next;
    struct mr_read_task *base;
    mr_error why;

    if (rounds == NULL) {
        return r->finished
                   ? MR_END
                   : MR_TIMEOUT; /* it was over before we came; or we are not attached yet */
    }
    if (mr_client_rounds_next(rounds, &next, &why) < 0) {
        mr_read_fail(r, &why); /* There is no going on. */
        return MR_TIMEOUT;
    }
    TAILQ_FOREACH(base, &r->tasks, link) {
        drop_below(&task_of(base)->queue, mr_client_rounds_position(rounds));
        if (base->gone) {
            mr_read_changed(base);
        }
    }
    if (mr_client_rounds_must_report(rounds)) {
        mr_read_wake(r);
    }
    if (next.turn != MR_ROUNDS_TAKE) {
        check_due(r, &next);
        return next.turn == MR_ROUNDS_END ? MR_END : MR_TIMEOUT;
    }
    base = find_task(r, &next, true);
    if (base == NULL) {
        /* Its worker sent later ones first, which a schedule that came only then does not bear
         * out. */
        (void)mr_error_set(&why, MR_EDATALOSS,
                           "round %" PRIu64 " is due, and task %.60s has left its element out",
                           next.round, next.task_id);
        mr_read_fail(r, &why); /* There is no going on. */
        return MR_TIMEOUT;
    }
    ret->round = next.round;
    ret->block = mr_queue_pop(&task_of(base)->queue);
    mr_client_rounds_taken(rounds);
    mr_read_tell(base, false);
    return MR_OK;
}

/* The rounds of each worker depend on the others, too. */
static int64_t hungry(struct mr_read *r)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link) {
        if (!t->end && !t->closed) {
            mr_read_tell(t, false);
        }
    }
    return INT64_MAX;
}

static bool is_consistent(const struct mr_read *r)
{
    const struct mr_read_task *base;

    TAILQ_FOREACH(base, &r->tasks, link) {
        const struct mr_queue *q = &task_of(base)->queue;
        size_t bytes = 0;

        for (size_t i = 0; i < q->count; i++) {
            bytes += mr_queue_at(q, i)->bytes;
            if (i > 0 && mr_queue_at(q, i)->number <= mr_queue_at(q, i - 1)->number) {
                return false;
            }
        }
        if (q->count > q->cap || bytes != q->bytes) {
            return false;
        }
    }
    return true;
}

const struct mr_read_mode mr_read_mode_coordinated = {
    .size = sizeof(struct coordinated),
    .task_size = sizeof(struct coordinated_task),
    .on_schedule = true,
    .begin = begin,
    .end = end,
    .task_begin = task_begin,
    .task_end = task_end,
    .opened = opened,
    .updated = updated,
    .finished = finished,
    .report = report,
    .reported = reported,
    .must_report = must_report,
    .open = open_stream,
    .must_send = must_send,
    .fill = fill,
    .receive = receive,
    .is_empty = is_empty,
    .take = take,
    .hungry = hungry,
    .explain = explain,
    .is_consistent = is_consistent,
};
