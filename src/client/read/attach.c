/*
 * The session with the dispatchers: register the dataset, attach to the job (Open), follow the task
 * list (a watch), prove to be alive (heartbeats). When the leader does not know us any more, attach
 * again to the same job.
 *
 * A read that holds elements when its iteration ends goes on to prove that until it has used them,
 * and leaves then: who falls silent before that has lost them.
 *
 * While nobody leads, the calls wait; reading from the workers that are known goes on.
 */
#include "client/read/internal.h"
#include "element/unpack.h"
#include "engine/engine.h"
#include "millrace/service.rpc.h"

#define UNREACHABLE_MAX 64
#define NO_MEMORY_MS 100
/* two times that are compared, each the difference of two that were cut to milliseconds */
#define ROUNDED_MS 2

/* The iteration is, and nothing of it is left here. */
static bool is_through(const struct mr_read *r)
{
    return r->finished && !(r->lingers && !mr_read_is_used_up(r));
}

static bool is_over(const struct mr_read *r)
{
    return r->stopping || r->failed || is_through(r);
}

static void wait_until(struct mr_read_step *ret, int64_t until_ms)
{
    ret->kind = MR_READ_STEP_WAIT;
    ret->until_ms = until_ms;
}

/* ---- what is said ---- */

static void call(struct mr_read *r, struct mr_read_step *ret, const char *method,
                 const ProtobufCMessage *request, const ProtobufCMessageDescriptor *reply)
{
    ret->kind = MR_READ_STEP_CALL;
    ret->method = method;
    ret->reply = reply;
    /* Until a dispatcher has answered for the first time; afterwards only the application's
     * patience ends it. */
    ret->timeout_ms = r->attached ? -1 : r->opts.connect_timeout_ms;
    ret->request = mr_message_copy(request);
    if (ret->request == NULL) {
        wait_until(ret, r->now_ms + NO_MEMORY_MS); /* and try again */
    }
}

static void open_job(struct mr_read *r, struct mr_read_step *ret)
{
    Millrace__OpenRequest req = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__ResumeRound resume = MILLRACE__RESUME_ROUND__INIT;
    struct mr_read_options *o = &r->opts;

    req.client = r->client;
    req.dataset_id = r->dataset_id;
    req.job = &o->job;
    req.repetition = o->repetition;
    req.consumer_index = o->consumer_index;
    resume.round = o->resume_round;
    req.resume = o->resumes ? &resume : NULL;
    if (r->job_id != NULL) {
        req.job_id = r->job_id;
        req.iteration_id = r->iteration_id;
    }
    r->asked_ms = r->now_ms;
    call(r, ret, MR_METHOD_OPEN, &req.base, &millrace__open_reply__descriptor);
}

static void watch(struct mr_read *r, struct mr_read_step *ret)
{
    Millrace__WatchClientRequest req = MILLRACE__WATCH_CLIENT_REQUEST__INIT;

    req.client = r->client;
    req.iteration_id = r->iteration_id;
    call(r, ret, MR_METHOD_WATCH_CLIENT, &req.base, &millrace__client_update__descriptor);
    if (ret->kind == MR_READ_STEP_CALL) {
        ret->kind = MR_READ_STEP_WATCH;
        r->watching = true;
        r->phase = MR_READ_FOLLOWS;
        r->beat_ms = r->now_ms + r->heartbeat_ms;
    }
}

#define NS_PER_MS UINT64_C(1000000)

/* How long the application has waited, the wait that goes on included. */
static uint64_t waited_ns(const struct mr_read *r)
{
    struct mr_pull_log *log = r->opts.pull_log;
    int64_t since_ns = atomic_load(&log->since_ns);
    int64_t goes_on_ns = since_ns != 0 ? r->now_ms * (int64_t)NS_PER_MS - since_ns : 0;

    return atomic_load(&log->waited_ns) + (uint64_t)MR_MAX(goes_on_ns, 0);
}

/* Where its time went. */
static void fill_times(const struct mr_read *r, Millrace__ReaderTimes *times)
{
    int64_t starves_ms = r->starves_ms != 0 ? r->now_ms - r->starves_ms : 0;

    times->elapsed_ns = (uint64_t)(r->now_ms - r->opened_ms) * NS_PER_MS;
    times->waited_ns = waited_ns(r);
    times->starved_ns = (r->starved_ms + (uint64_t)starves_ms) * NS_PER_MS;
}

static void heartbeat(struct mr_read *r, struct mr_read_step *ret)
{
    Millrace__ClientHeartbeatRequest req = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    Millrace__ReaderTimes times = MILLRACE__READER_TIMES__INIT;
    char *unreachable[UNREACHABLE_MAX];
    char *refusing[UNREACHABLE_MAX];

    if (r->opts.pull_log != NULL) {
        fill_times(r, &times);
        req.times = &times;
    }
    req.client = r->client;
    req.iteration_id = r->iteration_id;
    req.n_unreachable = mr_read_unreachable(r, unreachable, UNREACHABLE_MAX);
    req.unreachable = unreachable;
    req.n_refusing = mr_read_refusing(r, refusing, UNREACHABLE_MAX);
    req.refusing = refusing;
    req.waits = r->asks = mr_read_must_ask(r);
    if (r->asks) {
        r->wait.asked_ms = r->now_ms;
    }
    r->report = r->mode->report != NULL ? r->mode->report(r, &req) : 0;
    call(r, ret, MR_METHOD_CLIENT_HEARTBEAT, &req.base,
         &millrace__client_heartbeat_reply__descriptor);
}

/* There is nothing more to say at its end. Else that is said again. */
static void leave(struct mr_read *r, struct mr_read_step *ret)
{
    Millrace__ReleaseClientRequest req = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;

    req.client = r->client;
    req.iteration_id = r->iteration_id;
    r->phase = MR_READ_LEAVES;
    call(r, ret, MR_METHOD_RELEASE_CLIENT, &req.base, &millrace__release_client_reply__descriptor);
}

/* ---- what is next ---- */

/* The watch goes on; or the session is over, or begins anew. */
static void follow(struct mr_read *r, struct mr_read_step *ret)
{
    mr_error err;

    if (!is_over(r) && !r->reopen) {
        bool due = r->now_ms >= r->beat_ms ||
                   (r->mode->must_report != NULL && r->mode->must_report(r)) || mr_read_must_ask(r);

        if (!due) {
            wait_until(ret, r->beat_ms);
            return;
        }
        if (r->finished || !mr_read_nobody_reached(r, &err)) {
            heartbeat(r, ret);
            return;
        }
        mr_read_fail(r, &err);
    }
    r->phase = is_over(r) ? MR_READ_DRAINS : MR_READ_OPENS;
    r->watching = false;
    ret->kind = MR_READ_STEP_UNWATCH;
}

/* Its iteration is over, and it has used all that it got. Where silence counts as a loss the
 * dispatcher is to hear that, also if we never held anything beyond the end of a task: its worker
 * may have heard too late of what we had used, and have named us as a holder. Who was given up is
 * not heard of meanwhile, and says it late. */
static void drain(struct mr_read *r, struct mr_read_step *ret)
{
    if (r->finished && !mr_read_is_used_up(r) && !r->stopping) {
        wait_until(ret, INT64_MAX);
    } else if (mr_read_counts(r) && r->had_tasks && r->finished && !r->stopping) {
        leave(r, ret);
    } else {
        r->phase = MR_READ_IS_OUT;
        ret->kind = MR_READ_STEP_OUT;
    }
}

void mr_read_next_step(struct mr_read *r, struct mr_read_step *ret)
{
    memset(ret, 0, sizeof *ret);
    switch (r->phase) {
    case MR_READ_REGISTERS:
        ret->kind = MR_READ_STEP_REGISTER;
        ret->timeout_ms = r->opts.connect_timeout_ms;
        break;
    case MR_READ_OPENS: open_job(r, ret); break;
    case MR_READ_BEGINS_WATCH: watch(r, ret); break;
    case MR_READ_FOLLOWS: follow(r, ret); break;
    case MR_READ_DRAINS: drain(r, ret); break;
    case MR_READ_LEAVES:
    case MR_READ_IS_OUT:
        ret->kind = r->watching ? MR_READ_STEP_UNWATCH : MR_READ_STEP_OUT;
        r->watching = false;
        break;
    }
}

/* ---- answers ---- */

/* It is to go on behind the last round, as a consumer does whose model was saved there. */
static bool resumes_at_end(const struct mr_read *r, const Millrace__IterationEnd *end)
{
    return r->opts.resumes && end != NULL && end->rounds > 0 && r->opts.resume_round >= end->rounds;
}

/* Whoever begins anew under a name that was used finds an end, and would take it for an epoch
 * without elements. A later epoch of an object, or one that others have read while this reader
 * opened, may well have none for it; and a consumer may say that it has had all rounds. */
static int judge_end(const struct mr_read *r, const Millrace__OpenReply *reply, mr_error *err)
{
    bool named = r->opts.job.name[0] != '\0';
    bool failed = reply->end != NULL && reply->end->error_code < 0;
    uint64_t age_ms = (uint64_t)(r->asked_ms - r->opened_ms);
    bool meanwhile = reply->ended_ms == 0 || reply->ended_ms + ROUNDED_MS < age_ms;

    if (!reply->finished || failed || !named || r->attached) {
        return MR_OK;
    }
    if (!r->opts.begins || meanwhile || resumes_at_end(r, reply->end)) {
        r->port->log(MR_LOG_WARN, "an epoch of a job is over: nothing is left for this read of it",
                     "job", "%s", r->opts.job.name, "epoch", "%" PRIu64, r->opts.repetition, NULL);
        return MR_OK;
    }
    return mr_error_set(
        err, MR_EPRECOND,
        "job '%s' had ended its epoch %" PRIu64
        " before this dataset was read. To read the data anew give another job_name; for the next "
        "epoch read the same Dataset object again, or give "
        "first_epoch=%" PRIu64 " (DataLoader: persistent_workers=True)",
        r->opts.job.name, r->opts.repetition, r->opts.repetition + 1);
}

static int take_ids(struct mr_read *r, const Millrace__OpenReply *reply, mr_error *err)
{
    MR_AUTO(mr_free) char *job = mr_strdup(reply->job_id);
    MR_AUTO(mr_free) char *iteration = mr_strdup(reply->iteration_id);

    MR_CHECK_ALLOC(job, err);
    MR_CHECK_ALLOC(iteration, err);
    mr_free(r->job_id);
    mr_free(r->iteration_id);
    r->job_id = MR_TAKE(job);
    r->iteration_id = MR_TAKE(iteration);
    r->ticket_size = MR_MIN(reply->ticket.len, sizeof r->ticket);
    if (r->ticket_size > 0) {
        memcpy(r->ticket, reply->ticket.data, r->ticket_size);
    }
    return MR_OK;
}

static int take_opened(struct mr_read *r, const Millrace__OpenReply *reply, mr_error *err)
{
    bool has_failed = reply->end != NULL && reply->end->error_code < 0;
    bool again = r->attached;

    MR_TRY(judge_end(r, reply, err));
    MR_TRY(take_ids(r, reply, err));
    r->attached = true;
    r->reopen = false;
    /* The read's own interval may be too long for this dispatcher. */
    r->heartbeat_ms = r->opts.heartbeat_ms;
    if (reply->client_timeout_ms > 0 && reply->client_timeout_ms / 3 < r->heartbeat_ms) {
        r->heartbeat_ms = reply->client_timeout_ms < 3 ? 1 : reply->client_timeout_ms / 3;
    }
    if (r->mode->opened != NULL && !reply->finished) {
        MR_TRY(r->mode->opened(r, reply, err));
    }
    if (!again && reply->unshared[0] != '\0') {
        r->port->log(MR_LOG_WARN, "this job produces for itself, sharing was asked for", "job",
                     "%s", r->job_id, "why", "%s", reply->unshared, NULL);
    }
    if (reply->finished) {
        /* Who comes late to an iteration that is over has read nothing of it, so nothing is
         * missing. One that has failed is over for all: a consumer that took that for the end would
         * think that the others are through, too. */
        mr_read_take_end(r, again || has_failed ? reply->end : NULL);
        r->lingers = false; /* It was given up. */
        r->wakes |= MR_READ_WAKE_TAKE;
    }
    r->phase = is_over(r) ? MR_READ_DRAINS : MR_READ_BEGINS_WATCH;
    return MR_OK;
}

static void take_heartbeat(struct mr_read *r, const Millrace__ClientHeartbeatReply *reply)
{
    if (r->report != 0) {
        r->mode->reported(r, r->report);
    }
    if (r->asks) {
        mr_read_take_word(r, reply->waits_for);
    }
}

static int take_answer(struct mr_read *r, const ProtobufCMessage *reply, mr_error *err)
{
    switch (r->phase) {
    case MR_READ_REGISTERS:
        r->phase = MR_READ_OPENS;
        r->dataset_id = mr_strdup(((const Millrace__RegisterDatasetReply *)reply)->dataset_id);
        return r->dataset_id != NULL ? MR_OK : mr_error_nomem(err);
    case MR_READ_OPENS: return take_opened(r, (const Millrace__OpenReply *)reply, err);
    case MR_READ_FOLLOWS:
        take_heartbeat(r, (const Millrace__ClientHeartbeatReply *)reply);
        return MR_OK;
    case MR_READ_LEAVES:
        r->attached = false;
        r->phase = MR_READ_IS_OUT;
        return MR_OK;
    case MR_READ_BEGINS_WATCH:
    case MR_READ_DRAINS:
    case MR_READ_IS_OUT: break;
    }
    return MR_OK;
}

void mr_read_answered(struct mr_read *r, int rc, const ProtobufCMessage *reply, const mr_error *err)
{
    bool beats = r->phase == MR_READ_FOLLOWS;
    mr_error why;

    r->heard_ms = r->now_ms;
    if (beats) {
        r->beat_ms = r->now_ms + r->heartbeat_ms;
    }
    if (beats && rc == MR_ENOTFOUND) {
        r->reopen = true;
        return;
    }
    if (rc == MR_OK) {
        rc = take_answer(r, reply, &why);
    } else {
        why = *err;
    }
    if (rc < 0) {
        if (rc != MR_ECANCELED && !r->finished && r->phase != MR_READ_LEAVES) {
            mr_read_fail(r, &why);
        }
        r->phase = MR_READ_IS_OUT;
    }
}
