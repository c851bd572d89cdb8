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
#include "base/alloc.h"
#include "base/error.h"
#include "base/sync.h"
#include "client/hand_log.h"
#include "client/reader_internal.h"

/* Given for an element that is not there yet. A worker keeps as much for a reader, if it has 32 MiB
 * or more. */
#define GATHERED_BYTES (8 * MR_MIB)
#define GATHERED_MS 50

int mr_read_given_new(struct mr_read_given **ret, mr_error *err)
{
    *ret = mr_calloc(1, sizeof **ret);
    return *ret != NULL ? MR_OK : mr_error_nomem(err);
}

void mr_read_given_add_locked(mr_reader *r, struct mr_read_given *g)
{
    TAILQ_INSERT_TAIL(&r->given, g, link);
    g->task->given++;
    g->task->session.given_bytes += g->session == g->task->session.number ? g->bytes : 0;
    r->given_bytes += g->bytes;
    r->taken += g->rows;
}

static void remove_locked(mr_reader *r, struct mr_read_given *g)
{
    TAILQ_REMOVE(&r->given, g, link);
    r->given_bytes -= g->bytes;
    g->task->given--;
    mr_free(g);
}

/* The first @rows of @g are used. Of a session that is over nobody is told. */
static void use_rows_locked(mr_reader *r, struct mr_read_given *g, uint64_t rows)
{
    struct mr_session *s = &g->task->session;
    size_t bytes = rows == g->rows ? g->bytes : g->bytes / g->rows * rows;

    if (g->session == s->number) {
        s->used += rows;
        s->given_bytes -= bytes;
    }
    r->given_bytes -= bytes;
    g->rows -= rows;
    g->bytes -= bytes;
}

void mr_read_use_locked(mr_reader *r, uint64_t used, bool tell)
{
    struct mr_read_given *g;

    while (r->used < used && (g = TAILQ_FIRST(&r->given)) != NULL) {
        struct mr_read_task *t = g->task;
        uint64_t rows = used - r->used < g->rows ? used - r->used : g->rows;

        use_rows_locked(r, g, rows);
        r->used += rows;
        if (g->rows == 0) {
            remove_locked(r, g);
        }
        if (tell) {
            mr_read_task_taken_locked(t);
        }
    }
}

void mr_read_given_clear_locked(mr_reader *r)
{
    struct mr_read_given *g;

    while ((g = TAILQ_FIRST(&r->given)) != NULL) {
        remove_locked(r, g);
    }
}

static void on_used(void *reader, uint64_t used)
{
    mr_reader *r = reader;

    MR_LOCK(&r->lock);
    if (mr_read_follows(r)) {
        mr_read_use_locked(r, used, true);
    }
    r->handed = used;
    if (r->finished) {
        mr_reader_wake_locked(r); /* The link may have stayed until now. */
    }
}

/* Both on the thread of the application, as the log's word is. */
void mr_read_given_follow(mr_reader *r)
{
    struct mr_hand_log *log = r->opts.hand_log;

    if (log != NULL && (log->way == MR_HAND_IN_ORDER || log->way == MR_HAND_MIXED)) {
        log->reader = r;
        log->tell = on_used;
    }
}

void mr_read_given_unfollow(mr_reader *r)
{
    struct mr_hand_log *log = r->opts.hand_log;

    if (log != NULL && log->reader == r) {
        log->tell = NULL;
        log->reader = NULL;
    }
}

bool mr_read_follows(const mr_reader *r)
{
    return r->opts.hand_log != NULL && r->opts.hand_log->way == MR_HAND_IN_ORDER;
}

static bool gathers(const mr_reader *r)
{
    return r->opts.hand_log != NULL && r->opts.hand_log->way == MR_HAND_ONE_BY_ONE;
}

static bool is_at_least_once(const mr_reader *r)
{
    return r->opts.guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
}

/* What was given so far was for elements that the application was handed; a part of the last one
 * may not have been. */
static void begin_gathering_locked(mr_reader *r, uint64_t pull)
{
    bool in_part = r->opts.hand_log->splits_elements && is_at_least_once(r) && r->taken > 0;

    r->pull = pull;
    r->pull_first = r->taken;
    mr_read_use_locked(r, r->taken - (in_part ? 1 : 0), true);
}

void mr_read_given_ask_locked(mr_reader *r)
{
    uint64_t pull = gathers(r) ? atomic_load(&r->opts.hand_log->pulls) : 0;

    if (mr_read_follows(r)) {
        return;
    }
    if (gathers(r) && pull != r->pull) {
        begin_gathering_locked(r, pull);
    } else if (!gathers(r) || r->given_bytes >= GATHERED_BYTES) {
        mr_read_use_locked(r, r->taken, true);
    }
}

int64_t mr_read_given_wait_locked(mr_reader *r, int64_t now_ms)
{
    if (!gathers(r) || r->used == r->taken) {
        return INT64_MAX;
    }
    if (r->shares > 0 && now_ms - r->wait.since_ms < GATHERED_MS) {
        return r->wait.since_ms + GATHERED_MS;
    }
    mr_read_use_locked(r, r->taken, true);
    return INT64_MAX;
}

/* The pull that the application was handed nothing of, or not all, has taken some of what this read
 * gave. */
static bool is_in_hand_locked(const mr_reader *r)
{
    return gathers(r) && r->pull == atomic_load(&r->opts.hand_log->pulls);
}

/*
 * At the goodbye: how many of the elements that were given are used. At least once, where that is
 * not known the last ones are said not to be; else nobody else may get them.
 */
static uint64_t used_locked(const mr_reader *r)
{
    const struct mr_hand_log *log = r->opts.hand_log;

    if (mr_read_follows(r)) {
        return mr_hand_log_used(log);
    }
    if (is_in_hand_locked(r) && mr_hand_log_unused_last(log)) {
        return r->used;
    }
    bool all =
        gathers(r) && !log->splits_elements && (!is_in_hand_locked(r) || !mr_hand_log_unused(log));
    if (all || !is_at_least_once(r)) {
        return r->taken;
    }
    return gathers(r) && r->pull_first > r->used ? r->pull_first : r->used;
}

void mr_read_given_settle_locked(mr_reader *r)
{
    const struct mr_hand_log *log = r->opts.hand_log;

    mr_read_use_locked(r, used_locked(r), false);
    mr_read_given_clear_locked(r);
    if (log != NULL && log->way == MR_HAND_MIXED) {
        uint64_t handed = mr_hand_log_used(log);

        /* What is given back is not lost, wherever it is. */
        r->held_back = r->taken > handed ? r->taken - handed : 0;
        r->held_back = r->held_back < r->used ? r->held_back : r->used;
    } else if (is_in_hand_locked(r) && mr_hand_log_unused(log) && r->used > r->pull_first) {
        r->held_back = r->used - r->pull_first;
    }
}
