/* Reading whatever worker has something: each task has a session and a queue, and gives elements
 * when its turn comes. */
#include "client/modes/plain.h"

/* ---- life ---- */

static void begin(struct mr_read *r)
{
    struct mr_plain *p = r->of_mode;

    p->magic = MR_PLAIN_MAGIC;
    TAILQ_INIT(&p->full);
    TAILQ_INIT(&p->touched);
    TAILQ_INIT(&p->news);
    TAILQ_INIT(&p->given);
    p->ack_ms = INT64_MAX;
}

static void task_begin(struct mr_read_task *base)
{
    struct mr_plain_task *t = (struct mr_plain_task *)base;

    t->magic = MR_PLAIN_MAGIC;
    mr_session_init(&t->session);
}

static void task_end(struct mr_read_task *base)
{
    struct mr_plain_task *t = mr_plain_task_of(base);

    mr_queue_clear(&t->session.queue);
    t->magic = 0;
}

/* ---- the link to a worker ---- */

static int open_session(struct mr_read_task *base, Millrace__ReadOpen *ret, mr_error *err)
{
    struct mr_session *s = &mr_plain_task_of(base)->session;

    mr_session_reconnect(s);
    ret->session = s->number;
    ret->resume_from = s->received;
    return MR_OK;
}

static bool must_send(struct mr_read_task *base)
{
    struct mr_plain_task *t = mr_plain_task_of(base);
    uint64_t limit, limit_bytes;

    mr_plain_limits(t, &limit, &limit_bytes);
    return mr_session_worth_telling(&t->session, limit, limit_bytes);
}

static void fill(struct mr_read_task *base, Millrace__ReadRequest *ret)
{
    struct mr_plain_task *t = mr_plain_task_of(base);

    mr_plain_limits(t, &ret->limit_elements, &ret->limit_bytes);
    ret->received_elements = t->session.received;
    ret->returned_elements = t->session.used;
    ret->given_elements = mr_terms_share(&base->read->opts.job) ? t->session.returned : 0;
    t->told_ms = base->read->now_ms;
    mr_session_told(&t->session, ret->limit_elements, ret->limit_bytes);
}

static int receive(struct mr_read_task *base, const struct mr_frame_content *c, bool *news,
                   mr_error *err)
{
    struct mr_plain_task *t = mr_plain_task_of(base);

    MR_TRY(mr_session_add(&t->session, c->header->first_element, c->blocks, c->n, err));
    t->revoking = false;
    *news = c->n > 0;
    return MR_OK;
}

static void session_lost(struct mr_read_task *base)
{
    struct mr_session *s = &mr_plain_task_of(base)->session;

    if (mr_terms_share(&base->read->opts.job)) {
        /* It has given to others what we had not returned. At least once, better twice than
         * never. */
        mr_queue_clear(&s->queue);
    }
    mr_session_next(s);
}

/* Its credits are free again. */
static void stream_ended(struct mr_read_task *base)
{
    struct mr_plain_task *t = mr_plain_task_of(base);

    t->revoking = false;
    mr_session_reconnect(&t->session);
}

/* ---- lists ---- */

/* What came and what was taken is said with the next credit, or soon: a message of its own for each
 * would cost more. */
static bool has_news(const struct mr_plain_task *t)
{
    const struct mr_session *s = &t->session;
    bool given = mr_terms_share(&t->base.read->opts.job) && s->told_given != s->returned;

    return t->base.streams && !t->base.goodbye && !t->base.closed &&
           (s->told_received != s->received || s->told_returned != s->used || given);
}

static void list_news(struct mr_plain *p, struct mr_plain_task *t)
{
    bool news = has_news(t);

    if (news && !t->news) {
        TAILQ_INSERT_TAIL(&p->news, t, news_link);
    } else if (!news && t->news) {
        TAILQ_REMOVE(&p->news, t, news_link);
    }
    t->news = news;
    if (news && !t->base.unsaid && t->told_ms + MR_PLAIN_ACK_MS < p->ack_ms) {
        p->ack_ms = t->told_ms + MR_PLAIN_ACK_MS;
        t->base.read->wakes |= MR_READ_WAKE_TICK;
    }
}

static void changed(struct mr_read_task *base)
{
    struct mr_plain_task *t = mr_plain_task_of(base);
    struct mr_plain *p = mr_plain_of(base->read);
    bool full = t->session.queue.count > 0 || base->failed;

    mr_plain_grant(base->read);
    if (full && !t->full) {
        TAILQ_INSERT_TAIL(&p->full, t, full_link);
    } else if (!full && t->full) {
        TAILQ_REMOVE(&p->full, t, full_link);
    }
    t->full = full;
    if (!t->touched && base->streams && !base->end && !base->closed) {
        TAILQ_INSERT_TAIL(&p->touched, t, touched_link);
        t->touched = true;
    }
    list_news(p, t);
}

static bool is_empty(const struct mr_read_task *base)
{
    const struct mr_plain_task *t = mr_plain_task_of(base);

    return t->session.queue.count == 0 && t->given == 0;
}

static void unlink_task(struct mr_read_task *base)
{
    struct mr_plain_task *t = mr_plain_task_of(base);

    if (t->touched) {
        TAILQ_REMOVE(&mr_plain_of(base->read)->touched, t, touched_link);
    }
    MR_ASSERT(!t->full);
    MR_ASSERT(!t->news);
    MR_ASSERT(!t->shares);
}

static int64_t acknowledge(struct mr_read *r)
{
    struct mr_plain *p = mr_plain_of(r);
    struct mr_plain_task *t = TAILQ_FIRST(&p->news);
    struct mr_plain_task *behind;

    if (r->now_ms < p->ack_ms) {
        return p->ack_ms;
    }
    p->ack_ms = INT64_MAX;
    for (; t != NULL; t = behind) {
        int64_t due = t->told_ms + MR_PLAIN_ACK_MS;

        behind = TAILQ_NEXT(t, news_link);
        if (!has_news(t)) {
            TAILQ_REMOVE(&p->news, t, news_link); /* Another message has said it. */
            t->news = false;
        } else if (due <= r->now_ms) {
            mr_read_tell(&t->base,
                         true); /* Or when what is being sent has left; or its stream has ended. */
        } else {
            p->ack_ms = MR_MIN(p->ack_ms, due);
        }
    }
    return p->ack_ms;
}

static int64_t tick(struct mr_read *r)
{
    return MR_MIN(acknowledge(r), mr_plain_rotate(r));
}

/* ---- the application ---- */

static bool is_at_end(const struct mr_read *r)
{
    const struct mr_read_task *t;

    if (!r->finished) {
        return false;
    }
    TAILQ_FOREACH(t, &r->tasks, link) {
        if (mr_plain_task_of(t)->session.queue.count > 0 || (!t->end && !t->closed)) {
            return false;
        }
    }
    return true;
}

/* Rows of the next task in turn that has some. */
static int take(struct mr_read *r, uint32_t rows_max, struct mr_read_taken *ret, mr_error *err)
{
    struct mr_plain *p = mr_plain_of(r);
    struct mr_plain_task *t = TAILQ_FIRST(&p->full);

    if (t == NULL) {
        return is_at_end(r) ? MR_END : MR_TIMEOUT;
    }
    if (t->session.queue.count == 0) {
        mr_read_fail(r, &t->base.err);
        return MR_TIMEOUT;
    }

    struct mr_plain_given *given = mr_calloc(1, sizeof *given);
    MR_CHECK_ALLOC(given, err);
    given->task = t;
    int rc = mr_session_take(&t->session, rows_max, &ret->block, &given->session, err);
    if (rc != MR_OK) {
        mr_free(given);
        return rc;
    }
    TAILQ_REMOVE(&p->full, t, full_link);
    TAILQ_INSERT_TAIL(&p->full, t, full_link);
    given->rows = mr_block_rows(ret->block);
    given->bytes = mr_block_row_bytes(ret->block, 0, mr_block_rows(ret->block));
    mr_plain_given_add(r, given);
    mr_plain_took(t);
    return MR_OK;
}

/* What the application is through with may be all that others, or the worker's memory, wait for.
 * The tick says it soon; a message for each of many small elements would cost worker and client
 * more than the elements do. */
static bool owes_word(const struct mr_plain_task *t)
{
    const struct mr_session *s = &t->session;

    return s->told_returned != s->used &&
           (t->base.read->now_ms - t->told_ms >= MR_PLAIN_ACK_MS ||
            mr_session_taken_bytes(s) - s->told_taken_bytes >= MR_DATA_MESSAGE_BYTES_TARGET);
}

static void allow_more(struct mr_plain_task *t)
{
    if (t->base.streams && !t->base.end && !t->base.closed) {
        mr_session_found_empty(&t->session);
        mr_read_tell(&t->base, owes_word(t));
    }
}

/* Only where something has happened since the application waited last can it have changed who could
 * deliver more; for an element of one worker the others, a thousand, are not looked at. What few
 * credits allow depends on the others, too. */
static int64_t hungry(struct mr_read *r)
{
    struct mr_plain *p = mr_plain_of(r);
    struct mr_read_task *base;
    struct mr_plain_task *t;

    if (p->reshared) {
        TAILQ_FOREACH(base, &r->tasks, link) {
            allow_more(mr_plain_task_of(base));
        }
        p->reshared = false;
    }
    while ((t = TAILQ_FIRST(&p->touched)) != NULL) {
        TAILQ_REMOVE(&p->touched, t, touched_link);
        t->touched = false;
        allow_more(t);
    }
    if (mr_plain_few_credits(r)) {
        mr_read_wake(r);
    }
    return mr_plain_given_wait(r);
}

/* ---- assertions ---- */

static bool is_consistent(const struct mr_read *r)
{
    const struct mr_plain *p = mr_plain_of(r);
    const struct mr_plain_given *g;
    const struct mr_plain_task *t;
    const struct mr_read_task *base;
    unsigned shares = 0, listed = 0, flags = 0, given = 0;
    size_t given_bytes = 0;
    uint64_t rows = 0;

    TAILQ_FOREACH(base, &r->tasks, link) {
        t = mr_plain_task_of(base);
        shares += t->shares;
        flags += (unsigned)t->full + t->touched + t->news;
        given += t->given;
        if (!mr_session_is_consistent(&t->session)) {
            return false;
        }
    }
    TAILQ_FOREACH(t, &p->full, full_link) {
        listed += t->full;
    }
    TAILQ_FOREACH(t, &p->touched, touched_link) {
        listed += t->touched;
    }
    TAILQ_FOREACH(t, &p->news, news_link) {
        listed += t->news;
    }
    TAILQ_FOREACH(g, &p->given, link) {
        given--;
        given_bytes += g->bytes;
        rows += g->rows;
    }
    return shares == p->shares && listed == flags && given == 0 && given_bytes == p->given_bytes &&
           p->used + rows == r->taken;
}

const struct mr_read_mode mr_read_mode_plain = {
    .size = sizeof(struct mr_plain),
    .task_size = sizeof(struct mr_plain_task),
    .begin = begin,
    .end = mr_plain_given_clear,
    .task_begin = task_begin,
    .task_end = task_end,
    .open = open_session,
    .must_send = must_send,
    .fill = fill,
    .receive = receive,
    .session_lost = session_lost,
    .stream_ended = stream_ended,
    .recount = mr_plain_recount,
    .changed = changed,
    .unlink = unlink_task,
    .unused = mr_plain_unused,
    .is_empty = is_empty,
    .ask = mr_plain_ask,
    .take = take,
    .hungry = hungry,
    .used = mr_plain_used,
    .explain = mr_read_explain_workers,
    .tick = tick,
    .count_used = mr_plain_count_used,
    .held_downstream = mr_plain_held_downstream,
    .is_consistent = is_consistent,
};
