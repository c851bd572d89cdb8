/* Telling people why a read waits. A read that waits for long looks like one that hangs: after a
 * few seconds it says, in one line, what for; again when it has waited twice as long, and so on;
 * within 5 s when it waits for something else; and once that it goes on. What holds a job up is
 * often somebody else (another consumer, a slow pipeline, a full store): the dispatcher is asked,
 * in heartbeats. */
#include "client/read/internal.h"

#define FIRST_LINE_MS 3000
/* So much earlier the dispatcher is asked for the first time, so that its word is there. */
#define ASK_AHEAD_MS 1000
/* What has changed is told 5 s later at most: as often the dispatcher is asked, and no more often
 * something is told. */
#define CHANGE_MS 3000
/* An application that has not come back for so long does something else. */
#define ABSENT_MS 1000
#define LOOK_MS 1000
#define WHO_BYTES 96
/* Beyond its heartbeat a dispatcher that is there has answered by now. */
#define SILENT_MS 2000

void mr_read_waits(struct mr_read *r)
{
    r->wait.since_ms = r->wait.since_ms != 0 ? r->wait.since_ms : r->now_ms;
    r->wait.seen_ms = r->now_ms;
}

static const char *job_name(const struct mr_read *r)
{
    const char *id = r->job_id != NULL ? r->job_id : "?";

    return r->opts.job.name[0] != '\0' ? r->opts.job.name : id;
}

void mr_read_fed(struct mr_read *r)
{
    if (r->wait.said_ms != 0) {
        r->port->log(MR_LOG_WARN, "a read goes on", "job", "%s", job_name(r), "waited_s", "%lld",
                     (long long)((r->now_ms - r->wait.since_ms) / 1000), NULL);
    }
    memset(&r->wait, 0, sizeof r->wait);
}

/* ---- why ---- */

/* The workers that more may come from: the first of them, and how many there are; with @away of
 * those that cannot be reached. */
static const struct mr_read_task *count_open(const struct mr_read *r, bool away, unsigned *n)
{
    const struct mr_read_task *first = NULL;
    const struct mr_read_task *t;

    *n = 0;
    TAILQ_FOREACH(t, &r->tasks, link) {
        if (!t->end && !t->closed && (!away || mr_read_task_is_away(t, r->now_ms))) {
            first = first != NULL ? first : t;
            ++*n;
        }
    }
    return first;
}

/* An address, and how many more there are. */
static void name_tasks(char out[WHO_BYTES], const struct mr_read_task *first, unsigned n)
{
    int used = snprintf(out, WHO_BYTES, "%.60s", first->address);

    if (n > 1) {
        (void)snprintf(out + used, WHO_BYTES - (size_t)used, " (and %u more)", n - 1);
    }
}

static bool say_dispatcher(struct mr_read *r, char *out, size_t size)
{
    char why[MR_READ_WAIT_BYTES / 2];

    if (r->attached && r->now_ms - r->heard_ms < r->heartbeat_ms + SILENT_MS) {
        return false;
    }
    if (!r->port->trouble(r, why, sizeof why)) {
        return !r->attached; /* nothing has gone wrong so far */
    }
    (void)snprintf(out, size, "%s at %.60s (%.120s)",
                   r->attached ? "no dispatcher leads" : "it is not taken on by a dispatcher",
                   r->opts.service, why);
    return true;
}

/* Workers that cannot be reached; if @all, only if that is all there are. */
static bool say_away(const struct mr_read *r, bool all, char *out, size_t size)
{
    unsigned away, open;
    const struct mr_read_task *first = count_open(r, true, &away);
    char who[WHO_BYTES];

    (void)count_open(r, false, &open);
    if (first == NULL || (all && away < open)) {
        return false;
    }
    name_tasks(who, first, away);
    (void)snprintf(out, size, "worker %s cannot be reached (%s)", who, first->why);
    return true;
}

void mr_read_explain_workers(const struct mr_read *r, char *out, size_t size)
{
    unsigned open;
    const struct mr_read_task *first = count_open(r, false, &open);
    char who[WHO_BYTES];

    if (first == NULL) {
        (void)snprintf(out, size,
                       "its workers have no more; whether others come is not decided yet");
        return;
    }
    name_tasks(who, first, open);
    (void)snprintf(out, size, "nothing comes from worker %s", who);
}

/* false: somebody else has said it. */
static bool explain(struct mr_read *r, char *out, size_t size)
{
    out[0] = '\0';
    if (say_dispatcher(r, out, size)) {
        return out[0] != '\0';
    }
    if (!r->had_tasks) {
        (void)snprintf(out, size, "no worker has joined the service at %.120s yet",
                       r->opts.service);
    } else if (say_away(r, true, out, size)) {
        return true;
    } else if (r->wait.word[0] != '\0') {
        (void)snprintf(out, size, "%s", r->wait.word);
    } else if (!say_away(r, false, out, size)) {
        r->mode->explain(r, out, size);
    }
    return true;
}

/* ---- when ---- */

/* What tells a reason from another one: what stands in brackets and a number by itself say how
 * things stand, not what is waited for. Except a consumer's, which is its name. */
static void strip(const char *text, char out[MR_READ_WAIT_BYTES])
{
    static const char name[] = "consumer ";
    size_t n = sizeof name - 1;
    size_t used = 0;
    unsigned depth = 0;

    for (const char *s = text; *s != '\0' && used + 1 < MR_READ_WAIT_BYTES; s++) {
        bool named = (size_t)(s - text) >= n && memcmp(s - n, name, n) == 0;
        bool begins = s == text || s[-1] == ' ';
        size_t digits = strspn(s, "0123456789");

        depth += *s == '(';
        if (depth > 0) {
            depth -= *s == ')';
        } else if (begins && !named && digits > 0 &&
                   strchr(" ,", s[digits]) != NULL) { /* or the end */
            s += digits - 1;
        } else {
            out[used++] = *s;
        }
    }
    out[used] = '\0';
}

bool mr_read_wait_same(const char *a, const char *b)
{
    char x[MR_READ_WAIT_BYTES];
    char y[MR_READ_WAIT_BYTES];

    strip(a, x);
    strip(b, y);
    return strcmp(x, y) == 0;
}

bool mr_read_wait_tell(struct mr_read_wait *w, const char *why, int64_t now_ms)
{
    int64_t again_ms = w->said_ms == 0 ? w->since_ms + FIRST_LINE_MS
                                       : w->since_ms + 2 * (w->said_ms - w->since_ms);
    bool changed =
        w->said_ms != 0 && now_ms - w->said_ms >= CHANGE_MS && !mr_read_wait_same(w->said, why);

    if (now_ms < again_ms && !changed) {
        return false;
    }
    w->said_ms = now_ms;
    (void)snprintf(w->said, sizeof w->said, "%s", why);
    return true;
}

static bool is_there(const struct mr_read *r)
{
    return r->wait.since_ms != 0 && (r->waiting || r->now_ms - r->wait.seen_ms <= ABSENT_MS);
}

bool mr_read_must_ask(const struct mr_read *r)
{
    return is_there(r) && r->now_ms - r->wait.since_ms >= FIRST_LINE_MS - ASK_AHEAD_MS &&
           r->now_ms - r->wait.asked_ms >= CHANGE_MS;
}

void mr_read_take_word(struct mr_read *r, const char *word)
{
    if (r->wait.asked_ms != 0) { /* else it has what it waited for */
        (void)snprintf(r->wait.word, sizeof r->wait.word, "%s", word);
    }
}

int64_t mr_read_look_at_wait(struct mr_read *r)
{
    int64_t now_ms = r->now_ms;
    char why[MR_READ_WAIT_BYTES];

    if (r->waiting) {
        r->wait.seen_ms = now_ms;
    }
    if (!is_there(r) || r->failed || r->stopping) {
        return now_ms + LOOK_MS;
    }
    if (mr_read_must_ask(r)) {
        r->wakes |= MR_READ_WAKE_ATTACH; /* It sends a heartbeat. */
    }
    if (now_ms - r->wait.since_ms >= FIRST_LINE_MS && explain(r, why, sizeof why) &&
        mr_read_wait_tell(&r->wait, why, now_ms)) {
        r->port->log(MR_LOG_WARN, "a read waits", "job", "%s", job_name(r), "for_s", "%lld",
                     (long long)((now_ms - r->wait.since_ms) / 1000), "why", "%s", why, NULL);
    }
    return now_ms + LOOK_MS;
}
