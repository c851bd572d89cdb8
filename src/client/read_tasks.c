/*
 * The tasks of a reader: those that the dispatcher names, until it says that they are over and all
 * of their elements were taken. Then they go, so that a reader whose workers come and go for weeks
 * holds as much as one whose workers stay.
 *
 * What is done for each element looks at one task, not at all: which of them have elements, have
 * something to tell, or have changed stands in lists.
 */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/sync.h"
#include "client/reader_internal.h"

#include <stdio.h>
#include <string.h>

/* Channels that are freed at a time. */
#define TIDY_MAX 64
/*
 * Connections that are being made at once, and how long an attempt may take at most: a thousand at
 * once would take both ends longer than that, and all fail, again and again.
 */
#define CONNECTING_MAX 32u
#define CONNECTING_MS 1000

void mr_read_tasks_init(mr_reader *r)
{
    TAILQ_INIT(&r->tasks);
    TAILQ_INIT(&r->full);
    TAILQ_INIT(&r->touched);
    TAILQ_INIT(&r->news);
    TAILQ_INIT(&r->given);
    r->ack_ms = INT64_MAX;
    r->retry_ms = INT64_MAX;
    r->batch = 1;
}

void mr_read_tasks_free(mr_reader *r)
{
    struct mr_read_task *t;

    while ((t = TAILQ_FIRST(&r->tasks)) != NULL) {
        TAILQ_REMOVE(&r->tasks, t, link);
        mr_read_task_free(t);
    }
    mr_map_free(&r->by_key);
}

/* ---- from the task list ---- */

/* Of all that tells one task from another. NULL: no memory. */
static char *make_key(const Millrace__TaskInfo *info)
{
    size_t size = strlen(info->task_id) + strlen(info->worker_incarnation) + 64;
    char *key = mr_malloc(size);

    if (key != NULL) {
        (void)snprintf(key, size, "%u:%zu:%s:%s", info->attempt, strlen(info->task_id),
                       info->task_id, info->worker_incarnation);
    }
    return key;
}

/* NULL: no room. */
static struct mr_read_task *new_task(mr_reader *r, const Millrace__TaskInfo *info, const char *key)
{
    struct mr_read_task *t = r->ntasks < MR_READER_TASKS_MAX ? mr_calloc(1, sizeof *t) : NULL;

    if (t == NULL) {
        return NULL;
    }
    t->reader = r;
    t->key = mr_strdup(key);
    t->id = mr_strdup(info->task_id);
    t->address = mr_strdup(info->worker_address);
    t->incarnation = mr_strdup(info->worker_incarnation);
    t->attempt = info->attempt;
    mr_session_init(&t->session);
    if (t->key == NULL || t->id == NULL || t->address == NULL || t->incarnation == NULL ||
        mr_map_put(&r->by_key, t->key, t, NULL) < 0) {
        mr_read_task_free(t);
        return NULL;
    }
    return t;
}

static struct mr_read_task *add_locked(mr_reader *r, const Millrace__TaskInfo *info,
                                       const char *key)
{
    struct mr_read_task *t = key != NULL ? new_task(r, info, key) : NULL;
    mr_error err;

    if (t == NULL) {
        (void)mr_error_set(&err, MR_EEXHAUSTED, "no room for task %s", info->task_id);
        mr_reader_fail_locked(r, &err);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&r->tasks, t, link);
    r->ntasks++;
    r->had_tasks = true;
    mr_read_task_share_locked(t);
    if (r->rounds == NULL && mr_read_may_connect_locked(r, mr_now_ms())) {
        mr_read_task_connect_locked(t);
        mr_read_task_list_locked(t);
    } else if (r->rounds != NULL) {
        mr_read_retry_locked(r, 0); /* Of a coordinated job when the schedule has it. */
    }
    return t;
}

struct mr_read_task *mr_read_task_get_locked(mr_reader *r, const Millrace__TaskInfo *info)
{
    char *key = make_key(info);
    struct mr_read_task *t = key != NULL ? mr_map_get(&r->by_key, key) : NULL;

    if (t == NULL && !info->ended && !info->lost) {
        t = add_locked(r, info, key);
    }
    mr_free(key);
    return t;
}

void mr_read_task_close_locked(struct mr_read_task *t)
{
    t->gone = true;
    if (!t->closed && t->reader->rounds == NULL) {
        t->closed = true;
        t->reader->lingers = t->reader->lingers || mr_reader_holds_of_locked(t) > 0;
        if (!t->goodbye) {
            mr_read_task_drop_locked(t);
        }
    }
    mr_read_task_share_locked(t);
    mr_read_task_list_locked(t);
}

/* ---- lists ---- */

/* Of the credits: who cannot be reached takes none away from the others. */
static bool has_share(const struct mr_read_task *t)
{
    return !t->end && !t->closed && (t->connected || t->failing_ms == 0);
}

void mr_read_task_share_locked(struct mr_read_task *t)
{
    mr_reader *r = t->reader;
    bool shares = has_share(t);

    if (shares && !t->shares) {
        r->shares++;
    } else if (!shares && t->shares) {
        r->shares--;
        r->reshared = r->reshared || r->opts.max_outstanding > 0;
    }
    t->shares = shares;
}

void mr_read_retry_locked(mr_reader *r, int64_t when_ms)
{
    if (when_ms < r->retry_ms) {
        r->retry_ms = when_ms;
        (void)pthread_cond_signal(&r->timer_due);
    }
}

bool mr_read_may_connect_locked(mr_reader *r, int64_t now_ms)
{
    if (r->connecting < CONNECTING_MAX) {
        return true;
    }
    if (now_ms - r->begun_ms >= CONNECTING_MS) {
        r->batch++; /* Those before are slow (a name that nobody resolves): they hold nobody up. */
        r->connecting = 0;
        return true;
    }
    r->in_line = true;
    mr_read_retry_locked(r, r->begun_ms + CONNECTING_MS);
    return false;
}

void mr_read_task_begins_locked(struct mr_read_task *t)
{
    mr_reader *r = t->reader;

    t->batch = r->batch;
    r->connecting++;
    r->begun_ms = mr_now_ms();
}

void mr_read_task_is_through_locked(struct mr_read_task *t)
{
    mr_reader *r = t->reader;

    if (t->batch == r->batch) {
        r->connecting--;
    }
    t->batch = 0;
    if (r->in_line &&
        r->connecting <= CONNECTING_MAX / 2) { /* Some at a time: the timer looks at all tasks. */
        r->in_line = false;
        mr_read_retry_locked(r, 0);
    }
}

/* What came and what was taken is said with the next credit, or soon: a message of its own for each
 * would cost more. */
static bool has_news(const struct mr_read_task *t)
{
    const struct mr_session *s = &t->session;

    bool given = mr_read_options_share(&t->reader->opts) && s->told_given != s->returned;

    return t->stream != NULL && !t->goodbye && !t->closed &&
           (s->told_received != s->received || s->told_returned != s->used || given);
}

static void list_news_locked(mr_reader *r, struct mr_read_task *t)
{
    bool news = has_news(t);

    if (news && !t->news) {
        TAILQ_INSERT_TAIL(&r->news, t, news_link);
    } else if (!news && t->news) {
        TAILQ_REMOVE(&r->news, t, news_link);
    }
    t->news = news;
    if (news && !t->unsaid && t->told_ms + MR_READ_ACK_MS < r->ack_ms) {
        r->ack_ms = t->told_ms + MR_READ_ACK_MS;
        (void)pthread_cond_signal(&r->timer_due);
    }
}

int64_t mr_read_acknowledge_locked(mr_reader *r, int64_t now_ms)
{
    struct mr_read_task *t = TAILQ_FIRST(&r->news);
    struct mr_read_task *behind;

    if (now_ms < r->ack_ms) {
        return r->ack_ms;
    }
    r->ack_ms = INT64_MAX;
    for (; t != NULL; t = behind) {
        int64_t due = t->told_ms + MR_READ_ACK_MS;

        behind = TAILQ_NEXT(t, news_link);
        if (!has_news(t)) {
            TAILQ_REMOVE(&r->news, t, news_link); /* Another message has said it. */
            t->news = false;
        } else if (due <= now_ms) {
            mr_read_task_tell_locked(
                t, true); /* Or when what is being sent has left; or its stream has ended. */
        } else {
            r->ack_ms = due < r->ack_ms ? due : r->ack_ms;
        }
    }
    return r->ack_ms;
}

/* gRPC goes on connecting to a worker that is gone for as long as there is a channel, with a
 * descriptor and threads. */
static bool is_idle(const struct mr_read_task *t)
{
    return t->channel != NULL && t->stream == NULL && (t->settled || t->closed);
}

/* Nothing will happen to it any more, and nothing is left that anybody asks for. */
static bool is_over(const struct mr_read_task *t)
{
    const mr_reader *r = t->reader;
    bool empty = t->session.count == 0 && t->rounds.count == 0 && t->given == 0;
    /* Of a reader that has reached nobody the addresses that it has tried are the error. */
    bool tells = t->failed || (!r->reached && t->failing_ms != 0);

    return t->gone && t->closed && t->stream == NULL && empty && !tells;
}

void mr_read_task_list_locked(struct mr_read_task *t)
{
    mr_reader *r = t->reader;
    bool full = t->session.count > 0 || t->failed;

    if (full && !t->full) {
        TAILQ_INSERT_TAIL(&r->full, t, full_link);
    } else if (!full && t->full) {
        TAILQ_REMOVE(&r->full, t, full_link);
    }
    t->full = full;
    if (!t->touched && t->stream != NULL && !t->end && !t->closed) {
        TAILQ_INSERT_TAIL(&r->touched, t, touched_link);
        t->touched = true;
    }
    list_news_locked(r, t);
    if (!r->litter && (is_idle(t) || is_over(t))) {
        r->litter = true;
        (void)pthread_cond_signal(&r->timer_due);
    }
}

/* ---- the end of a task ---- */

static void unlink_locked(mr_reader *r, struct mr_read_task *t)
{
    TAILQ_REMOVE(&r->tasks, t, link);
    (void)mr_map_remove(&r->by_key, t->key);
    r->ntasks--;
    if (t->touched) {
        TAILQ_REMOVE(&r->touched, t, touched_link);
    }
    MR_ASSERT(!t->full);
    MR_ASSERT(!t->news);
    MR_ASSERT(!t->shares);
}

/* Moves what is over to @over, and idle channels to @channels. False: there may be more. */
static bool collect_locked(mr_reader *r, mr_read_tasks *over, mr_rpc_channel **channels, size_t *n)
{
    struct mr_read_task *t = TAILQ_FIRST(&r->tasks);
    struct mr_read_task *behind;

    for (; t != NULL; t = behind) {
        behind = TAILQ_NEXT(t, link);
        if (is_over(t)) {
            unlink_locked(r, t);
            TAILQ_INSERT_TAIL(over, t, link);
        } else if (is_idle(t)) {
            if (*n == TIDY_MAX) {
                return false;
            }
            channels[(*n)++] = t->channel;
            t->channel = NULL;
        }
    }
    return true;
}

void mr_read_tidy_locked(mr_reader *r)
{
    mr_rpc_channel *channels[TIDY_MAX];
    mr_read_tasks over = TAILQ_HEAD_INITIALIZER(over);
    struct mr_read_task *t;

    while (r->litter) {
        size_t n = 0;

        r->litter = !collect_locked(r, &over, channels, &n);
        mr_mutex_unlock(
            /* Freeing a channel may wait for gRPC, whose thread may wait for the lock. */
            &r->lock);
        while (n > 0) {
            mr_rpc_channel_free(channels[--n]);
        }
        while ((t = TAILQ_FIRST(&over)) != NULL) {
            TAILQ_REMOVE(&over, t, link);
            mr_read_task_free(t);
        }
        mr_mutex_lock(&r->lock);
    }
}
