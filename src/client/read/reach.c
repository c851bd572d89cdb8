/*
 * Which workers a reader cannot reach. The dispatcher is told: when no client of an iteration
 * reaches a worker, it closes the worker's tasks there as lost. A reader that has never reached any
 * of its workers fails by itself: that is an address which the workers advertise and nobody here
 * can use.
 *
 * A stream proves that its worker is reachable when elements come, or when it has stood for a
 * while: a pipeline may be slow. That something took the connection proves nothing: an address may
 * be another worker's by now, which refuses.
 */
#include "client/read/internal.h"

/* A worker counts as unreachable after this. */
#define UNREACHABLE_MS 3000
#define STANDING_MS 1000
/* Attempts after which a refused connection is no accident. */
#define REFUSED_TIMES 2u
#define TRIED_BYTES 120
/* Workers that cannot be reached are worth a line in the log after this, and another number of them
 * after as long. */
#define COMPLAIN_MS 3000
#define LOOK_MS 1000

bool mr_read_task_stands(const struct mr_read_task *t, int64_t now_ms)
{
    return t->streams && t->connected && now_ms - t->connected_ms >= STANDING_MS;
}

bool mr_read_task_is_away(const struct mr_read_task *t, int64_t now_ms)
{
    return t->failing_ms != 0 && !mr_read_task_stands(t, now_ms);
}

/* It is away for so long, and something is still wanted from it. */
static bool is_missed(const struct mr_read_task *t, int64_t now_ms, int64_t for_ms)
{
    return !t->done && !t->closed && mr_read_task_is_away(t, now_ms) &&
           now_ms - t->failing_ms >= for_ms;
}

static bool is_unreachable(const struct mr_read_task *t)
{
    return is_missed(t, t->read->now_ms, UNREACHABLE_MS);
}

static bool is_refusing(const struct mr_read_task *t)
{
    return !t->done && !t->closed && t->refused >= REFUSED_TIMES;
}

static size_t list_workers(const struct mr_read *r, bool (*is)(const struct mr_read_task *t),
                           char **list, size_t max)
{
    struct mr_read_task *t;
    size_t n = 0;

    TAILQ_FOREACH(t, &r->tasks, link) {
        if (n < max && is(t)) {
            list[n++] = t->incarnation;
        }
    }
    return n;
}

size_t mr_read_unreachable(const struct mr_read *r, char **list, size_t max)
{
    return list_workers(r, is_unreachable, list, max);
}

size_t mr_read_refusing(const struct mr_read *r, char **list, size_t max)
{
    return list_workers(r, is_refusing, list, max);
}

void mr_read_task_fails(struct mr_read_task *t, const char *why, int64_t now_ms)
{
    if (t->failing_ms == 0) {
        t->failing_ms = now_ms;
    }
    if (why != NULL) {
        (void)snprintf(t->why, sizeof t->why, "%.159s", why);
    }
}

/* One line for all of them: a network that is cut takes hundreds away at once. */
int64_t mr_read_tell_away(struct mr_read *r, int64_t now_ms)
{
    const struct mr_read_task *first = NULL;
    const struct mr_read_task *t;
    unsigned away = 0;
    unsigned all = 0;
    char count[32];

    if (now_ms < r->away.look_ms) {
        return r->away.look_ms;
    }
    r->away.look_ms = now_ms + LOOK_MS;
    TAILQ_FOREACH(t, &r->tasks, link) {
        all += !t->done && !t->closed;
        if (is_missed(t, now_ms, COMPLAIN_MS)) {
            first = first != NULL ? first : t;
            away++;
        }
    }
    if (away == r->away.told || (r->away.told_ms != 0 && now_ms - r->away.told_ms < COMPLAIN_MS)) {
        return r->away.look_ms;
    }
    r->away.told = away;
    r->away.told_ms = now_ms;
    if (first == NULL) {
        r->port->log(MR_LOG_WARN, "no worker is out of reach any more", "workers", "%u", all, NULL);
    } else {
        (void)snprintf(count, sizeof count, "%u of %u", away, all);
        r->port->log(
            MR_LOG_WARN, "workers cannot be reached, trying on until the dispatcher gives them up",
            "workers", "%s", count, "first", "%s", first->address, "error", "%s", first->why, NULL);
    }
    return r->away.look_ms;
}

void mr_read_note_failure(struct mr_read_task *t, const mr_error *err)
{
    if (t->connected || err == NULL) {
        t->refused = 0; /* somebody was there */
    } else if (strstr(err->message, "Connection refused") != NULL) {
        t->refused++; /* gRPC has no code for it, only the text of ECONNREFUSED */
    }
    /* Whatever else goes wrong on the way there says nothing: gRPC's poll engine overlooks an
     * answer now and then, and the attempt ends by its timeout. */
}

/* The addresses that were tried, as many as fit. */
static void list_tried(const struct mr_read *r, char text[TRIED_BYTES])
{
    const struct mr_read_task *t;
    size_t used = 0;

    text[0] = '\0';
    TAILQ_FOREACH(t, &r->tasks, link) {
        size_t left = TRIED_BYTES - used;

        if (t->failing_ms == 0 || strstr(text, t->address) != NULL) {
            continue;
        }
        if (strlen(t->address) + sizeof ", ..." >= left) {
            (void)snprintf(text + used, left, "%s...", used > 0 ? ", " : "");
            return;
        }
        used += (size_t)snprintf(text + used, left, "%s%s", used > 0 ? ", " : "", t->address);
    }
}

bool mr_read_nobody_reached(const struct mr_read *r, mr_error *err)
{
    const struct mr_read_task *t;
    const char *why = NULL;
    int64_t since = INT64_MAX;
    char tried[TRIED_BYTES];

    if (r->reached) {
        return false;
    }
    TAILQ_FOREACH(t, &r->tasks, link) {
        if (mr_read_task_is_away(t, r->now_ms)) {
            since = MR_MIN(t->failing_ms, since);
            why = t->why;
        } else if (!t->closed) {
            return false; /* That one may come. */
        }
    }
    if (why == NULL || r->now_ms - since < r->opts.connect_timeout_ms) {
        return false;
    }
    list_tried(r, tried);
    (void)mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE,
                              "no worker reachable after %lld ms, tried %s (%.90s)",
                              (long long)(r->now_ms - since), tried, why);
    return true;
}
