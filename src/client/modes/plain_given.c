/*
 * What a reader gave and the application is not through with, in the order in which it was given.
 * Workers are told of an element that it was returned when it is used. They keep it until then, so
 * it is nobody's loss when this reader closes before.
 *
 * Where nothing is known of what stands behind the read, what was given counts as used when more is
 * asked for. Where elements are handed out in the order in which they were given (hand_log.h),
 * those are used that the application is through with, however many prefetch or a parallel map hold
 * back. Nobody waits for ever on that: an application that waits is through with all that it was
 * handed, and what is held back comes out without anything more going in.
 *
 * Where operators take no more than they need for the next element, what was given for it counts as
 * used when the application has come back for another. But a large batch may take more than a
 * worker keeps for us, and other readers may wait until we say what became of it. So after some
 * bytes, or some time of waiting, what was given counts as used at once. If the element is not
 * handed out after all, that part is counted as abandoned.
 */
#include "client/hand_log.h"
#include "client/modes/plain.h"

/* Given for an element that is not there yet. A worker keeps as much for a reader, if it has 32 MiB
 * or more. */
#define GATHERED_BYTES (8 * MR_MIB)
#define GATHERED_MS 50

void mr_plain_given_add(struct mr_read *r, struct mr_plain_given *g)
{
    struct mr_plain *p = mr_plain_of(r);

    TAILQ_INSERT_TAIL(&p->given, g, link);
    g->task->given++;
    g->task->session.given_bytes += g->session == g->task->session.number ? g->bytes : 0;
    p->given_bytes += g->bytes;
}

static void remove_given(struct mr_plain *p, struct mr_plain_given *g)
{
    TAILQ_REMOVE(&p->given, g, link);
    p->given_bytes -= g->bytes;
    g->task->given--;
    mr_free(g);
}

void mr_plain_given_clear(struct mr_read *r)
{
    struct mr_plain *p = mr_plain_of(r);
    struct mr_plain_given *g;

    while ((g = TAILQ_FIRST(&p->given)) != NULL) {
        remove_given(p, g);
    }
}

/* The first @rows of @g are used. Of a session that is over nobody is told. */
static void use_rows(struct mr_plain *p, struct mr_plain_given *g, uint64_t rows)
{
    struct mr_session *s = &g->task->session;
    size_t bytes = rows == g->rows ? g->bytes : g->bytes / g->rows * rows;

    if (g->session == s->number) {
        s->used += rows;
        s->given_bytes -= bytes;
    }
    p->given_bytes -= bytes;
    g->rows -= rows;
    g->bytes -= bytes;
}

/* Of all elements that were given the first @used are used; workers are told, if @tell. */
static void use(struct mr_read *r, uint64_t used, bool tell)
{
    struct mr_plain *p = mr_plain_of(r);
    struct mr_plain_given *g;

    while (p->used < used && (g = TAILQ_FIRST(&p->given)) != NULL) {
        struct mr_plain_task *t = g->task;
        uint64_t rows = MR_MIN(used - p->used, g->rows);

        use_rows(p, g, rows);
        p->used += rows;
        if (g->rows == 0) {
            remove_given(p, g);
        }
        if (tell) {
            mr_plain_took(t);
        }
    }
}

/* Its hand log tells it what is used; else it is what was given before. */
static bool follows(const struct mr_read *r)
{
    return r->opts.hand_log != NULL && r->opts.hand_log->way == MR_HAND_IN_ORDER;
}

void mr_plain_used(struct mr_read *r, uint64_t used)
{
    if (follows(r)) {
        use(r, used, true);
    }
    mr_plain_of(r)->handed = used;
}

static bool gathers(const struct mr_read *r)
{
    return r->opts.hand_log != NULL && r->opts.hand_log->way == MR_HAND_ONE_BY_ONE;
}

static bool is_at_least_once(const struct mr_read *r)
{
    return r->opts.job.guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
}

/* What was given so far was for elements that the application was handed; a part of the last one
 * may not have been. */
static void begin_gathering(struct mr_read *r, uint64_t pull)
{
    struct mr_plain *p = mr_plain_of(r);
    bool in_part = r->opts.hand_log->splits_elements && is_at_least_once(r) && r->taken > 0;

    p->pull = pull;
    p->pull_first = r->taken;
    use(r, r->taken - (in_part ? 1 : 0), true);
}

void mr_plain_ask(struct mr_read *r)
{
    struct mr_plain *p = mr_plain_of(r);
    uint64_t pull = gathers(r) ? atomic_load(&r->opts.hand_log->pulls) : 0;

    if (follows(r)) {
        return;
    }
    if (gathers(r) && pull != p->pull) {
        begin_gathering(r, pull);
    } else if (!gathers(r) || p->given_bytes >= GATHERED_BYTES) {
        use(r, r->taken, true);
    }
}

int64_t mr_plain_given_wait(struct mr_read *r)
{
    struct mr_plain *p = mr_plain_of(r);

    if (!gathers(r) || p->used == r->taken) {
        return INT64_MAX;
    }
    if (p->shares > 0 && r->now_ms - r->wait.since_ms < GATHERED_MS) {
        return r->wait.since_ms + GATHERED_MS;
    }
    use(r, r->taken, true);
    return INT64_MAX;
}

/* The pull that the application was handed nothing of, or not all, has taken some of what this read
 * gave. */
static bool is_in_hand(const struct mr_read *r)
{
    return gathers(r) && mr_plain_of(r)->pull == atomic_load(&r->opts.hand_log->pulls);
}

/* At the goodbye: how many of the elements that were given are used. At least once, where that is
 * not known the last ones are said not to be; else nobody else may get them. */
static uint64_t count_used(const struct mr_read *r)
{
    const struct mr_hand_log *log = r->opts.hand_log;
    const struct mr_plain *p = mr_plain_of(r);

    if (follows(r)) {
        return mr_hand_log_used(log);
    }
    if (is_in_hand(r) && mr_hand_log_unused_last(log)) {
        return p->used;
    }
    bool all = gathers(r) && !log->splits_elements && (!is_in_hand(r) || !mr_hand_log_unused(log));
    if (all || !is_at_least_once(r)) {
        return r->taken;
    }
    return gathers(r) && p->pull_first > p->used ? p->pull_first : p->used;
}

void mr_plain_count_used(struct mr_read *r)
{
    const struct mr_hand_log *log = r->opts.hand_log;
    struct mr_plain *p = mr_plain_of(r);

    use(r, count_used(r), false);
    mr_plain_given_clear(r);
    if (log != NULL && log->way == MR_HAND_MIXED) {
        uint64_t handed = mr_hand_log_used(log);

        /* What is given back is not lost, wherever it is. */
        p->held_back = r->taken > handed ? r->taken - handed : 0;
        p->held_back = MR_MIN(p->held_back, p->used);
    } else if (is_in_hand(r) && mr_hand_log_unused(log) && p->used > p->pull_first) {
        p->held_back = p->used - p->pull_first;
    }
}

uint64_t mr_plain_held_downstream(const struct mr_read *r, bool closing)
{
    const struct mr_plain *p = mr_plain_of(r);
    bool mixed = r->opts.hand_log != NULL && r->opts.hand_log->way == MR_HAND_MIXED;

    if (closing) {
        return p->held_back;
    }
    return mixed && r->taken > p->handed ? r->taken - p->handed : 0;
}
