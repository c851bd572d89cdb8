/* How much each worker may send ahead: its share of the memory, and of the elements that may be
 * outstanding at all. With fewer of these than there are tasks a credit that lies at a slow worker
 * goes to one that waits. */
#include "client/modes/plain.h"

/* A credit that a worker has not used for so long goes to another one that waits. */
#define PARKED_MS 10
/* A worker that was asked to give a credit back and says nothing for so long is not waited for. */
#define REVOKED_MS 200

static unsigned sharers(const struct mr_read *r)
{
    unsigned shares = mr_plain_of(r)->shares;

    return shares > 0 ? shares : 1;
}

bool mr_plain_few_credits(const struct mr_read *r)
{
    return r->opts.max_outstanding > 0 && r->opts.max_outstanding < sharers(r);
}

void mr_plain_limits(const struct mr_plain_task *t, uint64_t *limit, uint64_t *limit_bytes)
{
    const struct mr_read *r = t->base.read;
    unsigned tasks = sharers(r) + (t->shares ? 0 : 1);
    uint64_t window_max = MR_WINDOW_MAX;

    if (r->opts.max_outstanding > 0) {
        window_max = r->opts.max_outstanding / tasks;
    }
    mr_session_limits(&t->session, window_max, mr_read_share_bytes(r, tasks),
                      MR_READ_BUDGET_BYTES / tasks, limit, limit_bytes);
    if (r->opts.max_outstanding > 0 && r->opts.max_outstanding < tasks) {
        *limit = t->session.limit; /* mr_plain_grant() decides */
        if (*limit < t->session.received || t->revoking) {
            *limit = t->session.received;
        }
    }
}

/* Who cannot be reached takes none away from the others. */
static bool has_share(const struct mr_read_task *t)
{
    return !t->end && !t->closed && (t->connected || t->failing_ms == 0);
}

void mr_plain_recount(struct mr_read_task *base)
{
    struct mr_plain_task *t = mr_plain_task_of(base);
    struct mr_plain *p = mr_plain_of(base->read);
    bool shares = has_share(base);

    if (shares && !t->shares) {
        p->shares++;
    } else if (!shares && t->shares) {
        p->shares--;
        p->reshared = p->reshared || base->read->opts.max_outstanding > 0;
    }
    t->shares = shares;
}

/* A task that could use a credit and has none; the one that has waited longest. */
static struct mr_plain_task *hungriest(const struct mr_read *r)
{
    struct mr_plain_task *best = NULL;
    struct mr_read_task *base;

    TAILQ_FOREACH(base, &r->tasks, link) {
        struct mr_plain_task *t = mr_plain_task_of(base);
        bool idle = base->streams && base->connected && !base->end && !base->closed &&
                    !t->revoking && !base->sending && t->session.queue.count == 0 &&
                    t->session.limit <= t->session.received;

        if (idle && (best == NULL || t->granted < best->granted)) {
            best = t;
        }
    }
    return best;
}

void mr_plain_grant(struct mr_read *r)
{
    struct mr_plain *p = mr_plain_of(r);
    struct mr_read_task *base;
    struct mr_plain_task *t;
    uint64_t used = 0;

    if (!mr_plain_few_credits(r)) {
        return;
    }
    TAILQ_FOREACH(base, &r->tasks, link) {
        t = mr_plain_task_of(base);
        if (!base->end && !base->closed) {
            bool unsure = t->revoking && r->now_ms - t->told_ms < REVOKED_MS;

            used += mr_session_outstanding(&t->session) + (unsure ? 1 : 0);
        }
    }
    while (used < r->opts.max_outstanding && (t = hungriest(r)) != NULL) {
        t->granted = ++p->grants;
        t->session.limit = t->session.received + 1;
        mr_read_send(&t->base, false);
        used++;
    }
    if (hungriest(r) != NULL) {
        r->wakes |= MR_READ_WAKE_TICK; /* It sees to it that the credits go round. */
    }
}

int64_t mr_plain_rotate(struct mr_read *r)
{
    struct mr_read_task *base;
    int64_t next = INT64_MAX;

    if (!mr_plain_few_credits(r) || hungriest(r) == NULL) {
        return next;
    }
    TAILQ_FOREACH(base, &r->tasks, link) {
        struct mr_plain_task *t = mr_plain_task_of(base);
        bool parked = t->session.limit > t->session.received;
        int64_t due = t->told_ms + (t->revoking ? REVOKED_MS : PARKED_MS);

        if (!base->streams || base->end || base->closed || (!t->revoking && !parked)) {
            continue;
        }
        if (r->now_ms < due) {
            next = MR_MIN(next, due);
        } else if (!t->revoking) {
            t->revoking = true;
            mr_read_tell(base, true);
            next = MR_MIN(next, r->now_ms + REVOKED_MS);
        }
    }
    mr_plain_grant(r);
    return next;
}

uint64_t mr_plain_unused(const struct mr_read_task *base)
{
    const struct mr_session *s = &mr_plain_task_of(base)->session;

    return s->received > s->used ? s->received - s->used : 0;
}

void mr_plain_took(struct mr_plain_task *t)
{
    struct mr_read_task *base = &t->base;

    if (base->goodbye || base->closed) {
        /* Nobody is told any more. */
    } else if (base->end) {
        base->goodbye = mr_plain_unused(base) == 0;
        mr_read_tell(base, base->goodbye);
    } else if (!mr_plain_few_credits(base->read)) {
        mr_read_tell(base, false);
    }
    mr_read_changed(base);
}
