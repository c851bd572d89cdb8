/* Closing. What did not come, or was not taken, may go to others: the workers are told. The
 * dispatcher is told when they know, since its word alone ("this client is gone") does not say what
 * of the elements on their way was used. What was not used, and could not be given back, is
 * nobody's, and counted. */
#include "base/limits.h"
#include "client/hand_log.h"
#include "client/read/internal.h"
#include "element/unpack.h"

void mr_read_say_goodbye(struct mr_read *r)
{
    struct mr_read_task *t;

    if (r->mode->count_used != NULL) {
        r->mode->count_used(r);
    }
    TAILQ_FOREACH(t, &r->tasks, link) {
        bool owes = r->mode->unused != NULL && r->mode->unused(t) > 0;

        if (r->failed && t->failing_ms != 0) {
            mr_read_cut(t); /* Nobody may be there who takes anything back: it is counted. */
            continue;
        }
        if (!t->streams && !r->failed && !t->done && !t->closed && owes) {
            mr_read_connect(t); /* It was about to try again. */
        }
        /* Also one on which nothing came yet: the worker may have sent. One that does not connect
         * ends by itself. */
        if (t->streams && !t->goodbye) {
            t->goodbye = true;
            mr_read_tell(t, true);
        }
    }
}

static void say_what_is_not_counted(const struct mr_read *r)
{
    const struct mr_hand_log *log = r->opts.hand_log;
    bool comes_again = log != NULL && log->splits_elements && !mr_read_counts(r);

    if (log != NULL && mr_hand_log_may_hold(log) && !comes_again && r->taken > 0 &&
        mr_read_has_others(r)) {
        r->port->log(MR_LOG_WARN,
                     "closing a reader in the middle: nobody gets what operators behind distribute "
                     "hold, a buffer or the rest of an element that is split, and its number is "
                     "not known; to lose nothing, put them before it, and only map, take, "
                     "enumerate and prefetch behind it",
                     "job", "%s", r->job_id, NULL);
    }
}

/* Elements that operators behind the read hold. */
static uint64_t abandon_behind(const struct mr_read *r)
{
    bool counts = mr_read_has_others(r) && r->mode->held_downstream != NULL;
    uint64_t n = counts ? r->mode->held_downstream(r, true) : 0;

    if (n > 0) {
        r->port->log(
            MR_LOG_WARN,
            "closing a reader with elements that nobody gets: a buffer behind it holds them", "job",
            "%s", r->job_id, "elements", "%" PRIu64, n, NULL);
    }
    return n;
}

static uint64_t abandon_of(const struct mr_read_task *t)
{
    uint64_t n = mr_read_unused(t);

    if (n > 0) {
        t->read->port->log(
            MR_LOG_WARN,
            mr_read_task_is_over(t)
                ? "closing a reader with elements that nobody gets: their task has ended"
                : "closing a reader with elements that nobody gets: their worker cannot be reached",
            "job", "%s", t->read->job_id, "worker", "%s", t->address, "elements", "%" PRIu64, n,
            NULL);
    }
    return n;
}

/* What is held back, and what of it is of tasks that are over, the dispatcher is told as lost; of
 * the rest the workers hear from it that this client is gone, and count it. More than fits counts
 * as lost: perhaps the worker counts it, too. */
ProtobufCMessage *mr_read_release(struct mr_read *r)
{
    Millrace__ReleaseClientRequest req = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    Millrace__Unheard unheard[MR_HOLDERS_MAX];
    Millrace__Unheard *list[MR_HOLDERS_MAX];
    struct mr_losses sum = {.incomplete_reads = 1};
    struct mr_read_task *t;

    req.client = r->client;
    req.iteration_id = r->iteration_id;
    req.unheard = list;
    req.abandoned = sum.abandoned_elements = abandon_behind(r);
    say_what_is_not_counted(r);
    TAILQ_FOREACH(t, &r->tasks, link) {
        uint64_t n = abandon_of(t);

        sum.abandoned_elements += n;
        if (mr_read_task_is_over(t) || req.n_unheard == MR_HOLDERS_MAX) {
            req.abandoned += n;
        } else if (n > 0) {
            Millrace__Unheard *one = list[req.n_unheard] = &unheard[req.n_unheard];

            millrace__unheard__init(one);
            one->task_id = t->id;
            one->elements = n;
            req.n_unheard++;
        }
    }
    if (sum.abandoned_elements > 0) {
        r->port->lost(r, &sum);
    }
    return r->attached ? mr_message_copy(&req.base) : NULL;
}

void mr_read_cut_all(struct mr_read *r)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &r->tasks, link) {
        mr_read_cut(t);
    }
}
