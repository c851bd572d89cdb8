#include "client/reader_internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/sync.h"
#include "client/hand_log.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

/*
 * Whoever is cut short here loses elements of an at_most_once job, and the dispatcher learns of it
 * only when the client's time is over: so also a host where everything has to wait for a CPU gets
 * through. Only what is frozen takes all of it.
 */
#define GOODBYE_MS 2000

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- pulling ---- */

/* Rows of the next task in turn that has some. MR_TIMEOUT: nobody has. */
static int take_locked(mr_reader *r, struct mr_want want, mr_block **ret, mr_error *err)
{
    struct mr_read_task *t = TAILQ_FIRST(&r->full);

    if (r->opts.num_consumers > 0) {
        return mr_coordinated_take_locked(r, ret, err);
    }
    if (t == NULL) {
        return MR_TIMEOUT;
    }
    if (t->session.count == 0) {
        mr_reader_fail_locked(r, &t->err);
        return MR_TIMEOUT;
    }
    struct mr_read_given *given = NULL;
    int rc = mr_read_given_new(&given, err);
    if (rc != MR_OK) {
        return rc;
    }
    given->task = t;
    rc = mr_session_take(&t->session, want.rows_max, ret, &given->session, err);
    if (rc != MR_OK) {
        mr_free(given);
        return rc;
    }
    TAILQ_REMOVE(&r->full, t, full_link);
    TAILQ_INSERT_TAIL(&r->full, t, full_link);
    given->rows = mr_block_rows(*ret);
    given->bytes = mr_block_row_bytes(*ret, 0, mr_block_rows(*ret));
    mr_read_given_add_locked(r, given);
    mr_read_task_taken_locked(t);
    return MR_OK;
}

static bool at_end_locked(const mr_reader *r)
{
    const struct mr_read_task *t;

    if (!r->finished || r->rounds != NULL) {
        return false;
    }
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        if (t->session.count > 0 || (!t->end && !t->closed)) {
            return false;
        }
    }
    return true;
}

void mr_reader_wake_locked(mr_reader *r)
{
    (void)pthread_cond_broadcast(&r->due);
    (void)pthread_cond_signal(&r->timer_due);
}

/*
 * What the application is through with may be all that others, or the worker's memory, wait for.
 * The timer says it soon; a message for each of many small elements would cost worker and client
 * more than the elements do.
 */
static bool owes_word_locked(const struct mr_read_task *t)
{
    const struct mr_session *s = &t->session;

    return s->told_returned != s->used &&
           (mr_now_ms() - t->told_ms >= MR_READ_ACK_MS ||
            mr_session_taken_bytes(s) - s->told_taken_bytes >= MR_DATA_MESSAGE_BYTES_TARGET);
}

static void allow_more_locked(struct mr_read_task *t)
{
    if (t->stream != NULL && !t->end && !t->closed) {
        mr_session_found_empty(&t->session);
        mr_read_task_tell_locked(t, owes_word_locked(t));
    }
}

/*
 * The application waits: those that could deliver more if they were allowed to are allowed to. Only
 * where something has happened since it waited last can that have changed; for an element of one
 * worker the others, a thousand, are not looked at. The rounds of a coordinated job and what few
 * credits allow depend on the others, too.
 */
static void found_empty_locked(mr_reader *r)
{
    struct mr_read_task *t;

    if (r->rounds != NULL || r->reshared) {
        TAILQ_FOREACH(t, &r->tasks, link)
        {
            allow_more_locked(t);
        }
        r->reshared = false;
    }
    while ((t = TAILQ_FIRST(&r->touched)) != NULL) {
        TAILQ_REMOVE(&r->touched, t, touched_link);
        t->touched = false;
        allow_more_locked(t);
    }
    if (mr_read_few_credits_locked(r)) {
        mr_reader_wake_locked(r);
    }
}

void mr_reader_missed_locked(mr_reader *r, uint64_t n)
{
    struct mr_read_end missed = {.skipped_elements = n};
    bool first = r->told_missed == 0;
    mr_error err;

    r->told_missed += n;
    if (r->opts.losses != NULL) {
        mr_loss_tally_add(r->opts.losses, &missed, first /* incomplete: once for each read */);
    }
    (void)mr_error_set(&err, MR_EDATALOSS,
                       "job %s waits (lag), and misses %" PRIu64
                       " elements all the same: they cannot be read from a worker's"
                       " disk, or the job had no reader while they were dropped",
                       r->job_id, r->told_missed);
    if (r->opts.on_loss == MR_ON_LOSS_ERROR) {
        mr_reader_fail_locked(r, &err);
    } else if (r->opts.on_loss == MR_ON_LOSS_WARN && first) {
        mr_log(MR_LOG_WARN, "elements are missing", "job", "%s", r->job_id, "error", "%s",
               err.message, NULL);
    }
}

/* What the tally was not told yet. */
static void tally_end_locked(mr_reader *r, bool incomplete)
{
    struct mr_read_end rest = r->end;

    rest.skipped_elements -= r->told_missed;
    if (r->opts.losses != NULL) {
        mr_loss_tally_add(r->opts.losses, &rest, incomplete && r->told_missed == 0);
    }
}

/* Everything was taken. That something is missing is told once; as an error, if that was asked for,
 * each time. */
static int end_locked(mr_reader *r, mr_error *err)
{
    char what[240];

    r->end.skipped_elements = r->skipped;
    bool incomplete = mr_read_end_is_incomplete(&r->end, r->opts.mode);
    if (r->end_err.code < 0 && !r->failed) {
        mr_reader_fail_locked(r, &r->end_err);
    }
    if (!r->told_end) {
        r->told_end = true;
        mr_reader_wake_locked(r); /* The link may have stayed until now. */
        tally_end_locked(r, incomplete);
        mr_read_end_describe(&r->end, what, sizeof what);
        if (what[0] != '\0' && r->opts.on_loss == MR_ON_LOSS_WARN) {
            mr_log(MR_LOG_WARN,
                   incomplete ? "a read ended with elements missing" : "a read ended after losses",
                   "job", "%s", r->job_id, "what", "%s", what, NULL);
        }
        if (incomplete && r->opts.on_loss == MR_ON_LOSS_ERROR && !r->failed) {
            (void)mr_error_set(&r->err, MR_EDATALOSS,
                               "the read of job %s ended with elements missing: %s", r->job_id,
                               what);
            r->failed = true;
        }
    }
    if (!r->failed) {
        return MR_END;
    }
    if (err != NULL) {
        *err = r->err;
    }
    return r->err.code;
}

int mr_reader_pull(void *ctx, struct mr_want want, int timeout_ms, mr_block **ret, mr_error *err)
{
    mr_reader *r = ctx;
    int64_t until = timeout_ms > 0 ? mr_now_ms() + timeout_ms : 0;

    MR_LOCK(&r->lock);
    mr_read_given_ask_locked(r);
    for (;;) {
        int rc = MR_TIMEOUT;

        if (atomic_load(&r->cancelled)) {
            return mr_error_set(err, MR_ECANCELED, "the iterator was cancelled");
        }
        if (!r->failed) {
            rc = take_locked(r, want, ret, err);
        }
        if (rc == MR_OK && r->wait.since_ms != 0) {
            mr_read_fed_locked(r);
        }
        if (rc != MR_TIMEOUT && rc != MR_END) {
            return rc;
        }
        if (r->failed) {
            if (err != NULL) {
                *err = r->err;
            }
            return r->err.code;
        }
        if (rc == MR_END || at_end_locked(r)) {
            return end_locked(r, err);
        }
        if (timeout_ms == 0 || (timeout_ms > 0 && mr_now_ms() >= until)) {
            return MR_TIMEOUT;
        }
        found_empty_locked(r);
        int64_t now = mr_now_ms();

        mr_read_hungry_locked(r, now);
        int64_t look = least(mr_read_given_wait_locked(r, now), timeout_ms > 0 ? until : INT64_MAX);
        r->waiting = true;
        (void)mr_cond_wait_ms(&r->ready, &r->lock,
                              look < INT64_MAX ? least(look - now, INT_MAX) : -1);
        r->waiting = false;
    }
}

void mr_reader_cancel(void *ctx)
{
    mr_reader *r = ctx;

    atomic_store(&r->cancelled, true);
    mr_control_wake(r->control);
    MR_LOCK(&r->lock);
    (void)pthread_cond_broadcast(&r->ready);
    mr_reader_wake_locked(r);
}

/* ---- the timer's thread ---- */

static int64_t reconnect_locked(mr_reader *r, int64_t now)
{
    struct mr_read_task *t = TAILQ_FIRST(&r->tasks);
    struct mr_read_task *behind;

    if (r->failed) {
        return INT64_MAX; /* Nothing that comes is given to anybody any more. */
    }
    if (now < r->retry_ms) {
        return r->retry_ms;
    }
    r->retry_ms = INT64_MAX;
    for (; t != NULL; t = behind) {
        behind = TAILQ_NEXT(t, link);
        if (t->stream != NULL || t->settled || t->closed) {
            continue;
        }
        if (t->retry_ms > now) {
            mr_read_retry_locked(r, t->retry_ms);
        } else if (mr_read_may_connect_locked(r, now)) {
            TAILQ_REMOVE(
                &r->tasks, t,
                link); /* Who fails again does not come before those that were not tried yet. */
            TAILQ_INSERT_TAIL(&r->tasks, t, link);
            mr_read_task_connect_locked(t);
        }
    }
    return r->retry_ms;
}

static void *run_timer(void *arg)
{
    mr_reader *r = arg;

    MR_LOCK(&r->lock);
    while (!r->stopping) {
        mr_read_tidy_locked(r);
        int64_t now = mr_now_ms();
        int64_t next = reconnect_locked(r, now);

        next = least(next, mr_read_acknowledge_locked(r, now));
        next = least(next, mr_read_rotate_locked(r, now));
        next = least(next, mr_read_look_at_wait_locked(r, now));
        next = least(next, mr_read_tell_away_locked(r, now));
        if (!r->stopping) { /* It may have been told so while a channel was freed. */
            (void)mr_cond_wait_ms(&r->timer_due, &r->lock, next - now);
        }
    }
    return NULL;
}

/* ---- life ---- */

static void reader_free(mr_reader *r)
{
    mr_read_given_clear_locked(r); /* nobody is left to lock out */
    mr_read_tasks_free(r);
    mr_client_rounds_free(r->rounds);
    mr_control_free(r->control);
    if (r->rt != NULL) {
        mr_rpc_release(r->rt);
    }
    mr_read_options_clear(&r->opts);
    mr_memory_unref(r->memory);
    mr_free(r->dataset_id);
    mr_free(r->job_id);
    mr_free(r->iteration_id);
    (void)pthread_cond_destroy(&r->ready);
    (void)pthread_cond_destroy(&r->due);
    (void)pthread_cond_destroy(&r->timer_due);
    (void)pthread_mutex_destroy(&r->lock);
    mr_free(r);
}

static void stop_threads(mr_reader *r, bool link, bool timer)
{
    mr_mutex_lock(&r->lock);
    r->stopping = true;
    mr_mutex_unlock(&r->lock);
    mr_reader_cancel(r);
    if (link) {
        (void)pthread_join(r->link, NULL);
    }
    if (timer) {
        (void)pthread_join(r->timer, NULL);
    }
}

size_t mr_reader_share(const mr_reader *r, unsigned tasks)
{
    return mr_memory_is_short(r->memory, MR_MEMORY_AHEAD, 0) ? 1 : MR_READER_BUDGET_BYTES / tasks;
}

int mr_reader_open(struct mr_read_options *opts, mr_reader **ret, mr_error *err)
{
    mr_reader *r = mr_calloc(1, sizeof *r);
    struct mr_control_options control = {.service = opts->service, .announce = true};

    if (r == NULL) {
        return mr_error_nomem(err);
    }
    mr_mutex_init(&r->lock);
    mr_cond_init(&r->ready);
    mr_cond_init(&r->due);
    mr_cond_init(&r->timer_due);
    mr_read_tasks_init(r);
    struct mr_identity who;

    mr_identity_draw(&who);
    memcpy(r->client, who.id, sizeof r->client);
    r->opened_ms = mr_now_ms();
    r->memory = mr_memory_ref(mr_memory_current());
    mr_rng_seed(&r->rng, mr_random_u64());
    mr_rpc_keep_forkable();
    int rc = mr_rpc_acquire(&r->rt, err);
    if (rc == MR_OK) {
        rc = mr_control_new(r->rt, &control, &r->control, err);
    }
    if (rc == MR_OK) {
        mr_control_speak_as(r->control, &who);
        r->opts = *opts;
        rc = mr_thread_start(&r->link, "mr-link", mr_read_link_run, r, err);
    }
    if (rc == MR_OK) {
        rc = mr_thread_start(&r->timer, "mr-timer", run_timer, r, err);
        if (rc < 0) {
            stop_threads(r, true, false);
        }
    }
    if (rc < 0) {
        memset(&r->opts, 0, sizeof r->opts); /* the caller's still */
        reader_free(r);
        return rc;
    }
    memset(opts, 0, sizeof *opts);
    mr_read_given_follow(r);
    *ret = r;
    return MR_OK;
}

/* Would others read what this reader goes with? */
static bool has_others_locked(const mr_reader *r)
{
    return r->rounds == NULL && !r->failed_for_all && r->end_err.code >= 0 &&
           r->opts.job_name[0] != '\0';
}

/*
 * Does it count what this reader goes with? Else nobody else would read it, or somebody does. That
 * this read alone has failed is no reason not to: others miss what it had read ahead.
 */
static bool counts_locked(const mr_reader *r)
{
    return has_others_locked(r) && r->opts.guarantee == MILLRACE__GUARANTEE__AT_MOST_ONCE;
}

/* Of one that we broke off ourselves, since its elements are not what they should be, the worker
 * keeps them. */
static uint64_t unused_locked(const struct mr_read_task *t)
{
    bool kept = !t->settled || (t->failed && !t->refused_open);

    return kept && t->session.received > t->session.used ? t->session.received - t->session.used
                                                         : 0;
}

static bool is_over_locked(const struct mr_read_task *t)
{
    return t->closed || t->refused_open;
}

uint64_t mr_reader_holds_of_locked(const struct mr_read_task *t)
{
    return counts_locked(t->reader) && is_over_locked(t) ? unused_locked(t) : 0;
}

uint64_t mr_reader_holds_locked(const mr_reader *r)
{
    const struct mr_read_task *t;
    uint64_t n = 0;

    TAILQ_FOREACH(t, &r->tasks, link)
    {
        n += mr_reader_holds_of_locked(t);
    }
    return n;
}

bool mr_reader_used_up_locked(const mr_reader *r)
{
    bool mixed =
        r->opts.hand_log != NULL && r->opts.hand_log->way == MR_HAND_MIXED && counts_locked(r);

    return mr_reader_holds_locked(r) == 0 && !(mixed && r->taken > r->handed);
}

/* What operators behind the read have taken up: it counts as used, at least once, too. */
static uint64_t held_back_locked(const mr_reader *r)
{
    return has_others_locked(r) ? r->held_back : 0;
}

static void say_what_is_not_counted_locked(const mr_reader *r)
{
    const struct mr_hand_log *log = r->opts.hand_log;
    bool comes_again = log != NULL && log->splits_elements && !counts_locked(r);

    if (log != NULL && mr_hand_log_may_hold(log) && !comes_again && r->taken > 0 &&
        has_others_locked(r)) {
        mr_log(MR_LOG_WARN,
               "closing a reader in the middle: nobody gets what operators behind distribute hold, "
               "a buffer or the rest "
               "of an element that is split, and its number is not known; to lose nothing, put "
               "them before it, and "
               "only map, take, enumerate and prefetch behind it",
               "job", "%s", r->job_id, NULL);
    }
}

/*
 * After the goodbyes: what was not used, and was not given back, is nobody's. What of it is of
 * tasks that are over, and what is held back, the dispatcher is told; of the rest the workers hear
 * from it that this client is gone, and count it.
 */
static void count_abandoned_locked(mr_reader *r)
{
    struct mr_read_end sum = {.abandoned_elements = held_back_locked(r)};
    struct mr_read_task *t;

    if (sum.abandoned_elements > 0) {
        mr_log(MR_LOG_WARN,
               "closing a reader with elements that nobody gets: a buffer behind it holds them",
               "job", "%s", r->job_id, "elements", "%" PRIu64, sum.abandoned_elements, NULL);
    }

    say_what_is_not_counted_locked(r);
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        uint64_t n = counts_locked(r) ? unused_locked(t) : 0;
        bool over = is_over_locked(t);

        if (n == 0) {
            continue;
        }
        sum.abandoned_elements += n;
        mr_log(
            MR_LOG_WARN,
            over
                ? "closing a reader with elements that nobody gets: their task has ended"
                : "closing a reader with elements that nobody gets: their worker cannot be reached",
            "job", "%s", r->job_id, "worker", "%s", t->address, "elements", "%" PRIu64, n, NULL);
    }
    if (sum.abandoned_elements > 0 && r->opts.losses != NULL) {
        mr_loss_tally_add(r->opts.losses, &sum, true /* incomplete */);
    }
}

/* What was not used of tasks whose worker did not hear our goodbye, as the dispatcher is told of
 * it. */
struct unheard {
    Millrace__Unheard all[MR_HOLDERS_MAX];
    Millrace__Unheard *list[MR_HOLDERS_MAX];
};

/* And what we take along for sure. More than fits counts so: perhaps the worker counts it, too. */
static void fill_release_locked(mr_reader *r, struct unheard *u,
                                Millrace__ReleaseClientRequest *req)
{
    struct mr_read_task *t;

    req->client = r->client;
    req->iteration_id = r->iteration_id;
    req->abandoned = mr_reader_holds_locked(r) + held_back_locked(r);
    req->unheard = u->list;
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        uint64_t n = counts_locked(r) && !is_over_locked(t) ? unused_locked(t) : 0;

        if (n == 0) {
            continue;
        }
        if (req->n_unheard == MR_HOLDERS_MAX) {
            req->abandoned += n;
            continue;
        }
        Millrace__Unheard *one = &u->all[req->n_unheard];

        millrace__unheard__init(one);
        one->task_id = t->id;
        one->elements = n;
        u->list[req->n_unheard++] = one;
    }
}

/*
 * What did not come, or was not taken, may go to others: tell the workers. The dispatcher is told
 * when they know, since its word alone ("this client is gone") does not say what of the elements on
 * their way was used.
 */
static void say_goodbye(mr_reader *r)
{
    Millrace__ReleaseClientRequest req = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    struct unheard unheard;
    int64_t until = mr_now_ms() + GOODBYE_MS;
    struct mr_read_task *t;

    mr_mutex_lock(&r->lock);
    mr_read_given_settle_locked(r);
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        if (r->failed && t->failing_ms != 0) {
            mr_read_task_drop_locked(
                t); /* Nobody may be there who takes anything back: it is counted. */
            continue;
        }
        if (t->stream == NULL && !r->failed && !t->settled && !t->closed &&
            t->session.received > t->session.used) {
            mr_read_task_connect_locked(t); /* It was about to try again. */
        }
        /* Also one on which nothing came yet: the worker may have sent. One that does not connect
         * ends by itself. */
        if (t->stream != NULL && !t->goodbye) {
            t->goodbye = true;
            mr_read_task_tell_locked(t, true);
        }
    }
    while (r->streams > 0 && mr_now_ms() < until) {
        (void)mr_cond_wait_ms(&r->due, &r->lock, until - mr_now_ms());
    }
    count_abandoned_locked(r);
    fill_release_locked(r, &unheard, &req);
    mr_mutex_unlock(&r->lock);
    if (r->attached) {
        mr_control_tell(r->control, "ReleaseClient", &req.base, GOODBYE_MS);
    }
}

void mr_reader_close(void *ctx)
{
    mr_reader *r = ctx;
    struct mr_read_task *t;

    stop_threads(r, true, true);
    mr_read_given_unfollow(r);
    say_goodbye(r);
    mr_mutex_lock(&r->lock);
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        mr_read_task_drop_locked(t);
    }
    while (r->streams > 0) {
        mr_cond_wait(&r->due, &r->lock);
    }
    mr_mutex_unlock(&r->lock);
    reader_free(r);
}
