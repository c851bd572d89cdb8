/*
 * A reader's dealings with the dispatchers: register the dataset, attach to the job (Open), follow
 * the task list (a watch), prove to be alive (heartbeats). When the leader does not know us any
 * more, attach again to the same job.
 *
 * A reader that holds elements when its iteration ends goes on to prove that until it has used
 * them, and leaves then: who falls silent before that has lost them.
 *
 * While nobody leads, the calls wait; reading from the workers that are known goes on.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sync.h"
#include "client/reader_internal.h"
#include "client/registration.h"

#include <inttypes.h>
#include <string.h>

#define UNREACHABLE_MAX 64
/* two times that are compared, each the difference of two that were cut to milliseconds */
#define ROUNDED_MS 2

void mr_reader_fail_locked(mr_reader *r, const mr_error *err)
{
    if (!r->failed) {
        r->failed = true;
        r->err = *err;
    }
    (void)pthread_cond_broadcast(&r->ready);
}

/* ---- the task list, on the watch's thread ---- */

static void take_end_locked(mr_reader *r, const Millrace__IterationEnd *end)
{
    struct mr_read_task *t;

    r->finished = true;
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        mr_read_task_close_locked(t);
    }
    if (end != NULL && end->error_code < 0) {
        (void)mr_error_set(&r->end_err, end->error_code, "%s", end->error);
    }
    if (end != NULL) {
        mr_read_end_take(&r->end, end);
    }
    r->lingers = r->lingers || !mr_reader_used_up_locked(r);
    if (r->rounds != NULL) {
        mr_coordinated_finish_locked(r);
    }
}

/* Of a complete list the rest is over. */
static void take_tasks_locked(mr_reader *r, const Millrace__ClientUpdate *u)
{
    struct mr_read_task *t;

    r->lists += u->follows == 0;
    for (size_t i = 0; i < u->n_tasks; i++) {
        t = mr_read_task_get_locked(r, u->tasks[i]);
        if (t == NULL) {
            continue;
        }
        t->list = r->lists;
        if (u->tasks[i]->ended || u->tasks[i]->lost) {
            mr_read_task_close_locked(t);
        }
    }
    if (u->follows != 0) {
        return;
    }
    TAILQ_FOREACH(t, &r->tasks, link)
    {
        if (t->list < r->lists) {
            mr_read_task_close_locked(t);
        }
    }
}

static void on_update(void *ctx, const ProtobufCMessage *msg)
{
    mr_reader *r = ctx;
    const Millrace__ClientUpdate *u = (const Millrace__ClientUpdate *)msg;

    MR_LOCK(&r->lock);
    if (r->stopping) {
        return;
    }
    if (u->follows != 0 && u->follows != r->version) {
        r->reopen = true; /* One was missed: the next watch begins with all. */
        mr_reader_wake_locked(r);
        return;
    }
    take_tasks_locked(r, u);
    r->version = u->version;
    if (r->rounds != NULL && u->rounds != NULL) {
        mr_coordinated_update_locked(r, u->rounds);
    }
    if (u->finished) {
        take_end_locked(r, u->end);
    }
    mr_read_grant_locked(r);
    (void)pthread_cond_broadcast(&r->ready);
    mr_reader_wake_locked(r);
}

static void on_refused(void *ctx, const mr_error *err, bool *again)
{
    mr_reader *r = ctx;

    MR_LOCK(&r->lock);
    if (err->code == MR_ENOTFOUND || r->finished) {
        r->reopen = true; /* The watch rests until it is replaced. */
    } else {
        mr_reader_fail_locked(r, err);
    }
    *again = false;
    mr_reader_wake_locked(r);
}

static const struct mr_control_watch_ops watch_ops = {.update = on_update, .refused = on_refused};

/* ---- calls, on the link's thread ---- */

/*
 * Until a dispatcher has answered for the first time, the connect timeout holds; afterwards only
 * the application's patience.
 */
static int call(mr_reader *r, const char *method, ProtobufCMessage *request,
                const ProtobufCMessageDescriptor *type, ProtobufCMessage **reply, mr_error *err)
{
    int64_t timeout_ms = r->attached ? -1 : r->opts.connect_timeout_ms;

    int rc =
        mr_control_call(r->control, method, request, type, timeout_ms, &r->cancelled, reply, err);
    MR_LOCK(&r->lock);
    r->heard_ms = mr_now_ms();
    return rc;
}

static int send_registration(void *ctx, Millrace__RegisterDatasetRequest *req,
                             Millrace__RegisterDatasetReply **reply, mr_error *err)
{
    return call(ctx, "RegisterDataset", &req->base, &millrace__register_dataset_reply__descriptor,
                (ProtobufCMessage **)reply, err);
}

static int register_dataset(mr_reader *r, mr_error *err)
{
    Millrace__RegisterDatasetRequest req = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    Millrace__RegisterDatasetReply *reply = NULL;

    if (r->opts.input == NULL) {
        r->dataset_id = mr_strdup(r->opts.dataset_id);
        return r->dataset_id != NULL ? MR_OK : mr_error_nomem(err);
    }
    req.compression = r->opts.compression;
    int rc = mr_registration_send(r->opts.service, r->opts.input, &req, send_registration, r,
                                  &reply, err);
    if (rc == MR_OK) {
        r->dataset_id = mr_strdup(reply->dataset_id);
        rc = r->dataset_id != NULL ? MR_OK : mr_error_nomem(err);
        millrace__register_dataset_reply__free_unpacked(reply, NULL);
    }
    return rc;
}

/* It is to go on behind the last round, as a consumer does whose model was saved there. */
static bool resumes_at_end(const mr_reader *r, const Millrace__IterationEnd *end)
{
    return r->opts.resumes && end != NULL && end->rounds > 0 && r->opts.resume_round >= end->rounds;
}

/*
 * Whoever begins anew under a name that was used finds an end, and would take it for an epoch
 * without elements. A later epoch of an object, or one that others have read while this reader
 * opened, may well have none for it; and a consumer may say that it has had all rounds. @age_ms: of
 * the reader, when it asked.
 */
static int judge_end(const mr_reader *r, const Millrace__OpenReply *reply, int64_t age_ms,
                     mr_error *err)
{
    bool named = r->opts.job_name[0] != '\0';
    bool failed = reply->end != NULL && reply->end->error_code < 0;
    bool meanwhile = reply->ended_ms == 0 || reply->ended_ms + ROUNDED_MS < (uint64_t)age_ms;

    if (!reply->finished || failed || !named || r->attached) {
        return MR_OK;
    }
    if (!r->opts.begins || meanwhile || resumes_at_end(r, reply->end)) {
        mr_log(MR_LOG_WARN, "an epoch of a job is over: nothing is left for this read of it", "job",
               "%s", r->opts.job_name, "epoch", "%" PRIu64, r->opts.repetition, NULL);
        return MR_OK;
    }
    return mr_error_set(
        err, MR_EPRECOND,
        "job '%s' had ended its epoch %" PRIu64
        " before this dataset was read. To read the data anew "
        "give another job_name; for the next epoch read the same Dataset object again, or give "
        "first_epoch=%" PRIu64 " (DataLoader: persistent_workers=True)",
        r->opts.job_name, r->opts.repetition, r->opts.repetition + 1);
}

static int take_open_reply(mr_reader *r, const Millrace__OpenReply *reply, int64_t age_ms,
                           mr_error *err)
{
    char *job = mr_strdup(reply->job_id);
    char *iteration = mr_strdup(reply->iteration_id);

    MR_LOCK(&r->lock);
    int over = judge_end(r, reply, age_ms, err);
    if (over < 0) {
        mr_free(job);
        mr_free(iteration);
        return over;
    }
    if (job == NULL || iteration == NULL) {
        mr_free(job);
        mr_free(iteration);
        return mr_error_nomem(err);
    }
    mr_free(r->job_id);
    mr_free(r->iteration_id);
    r->job_id = job;
    r->iteration_id = iteration;
    bool again = r->attached;
    r->attached = true;
    /* The reader's own interval may be too long for this dispatcher. */
    r->heartbeat_ms = r->opts.heartbeat_ms;
    if (reply->client_timeout_ms > 0 && reply->client_timeout_ms / 3 < r->heartbeat_ms) {
        r->heartbeat_ms = reply->client_timeout_ms < 3 ? 1 : reply->client_timeout_ms / 3;
    }
    r->reopen = false;
    if (r->opts.num_consumers > 0 && !reply->finished) {
        int rc = mr_coordinated_attach_locked(r, reply, err);

        if (rc < 0) {
            return rc;
        }
    }
    if (!again && reply->unshared[0] != '\0') {
        mr_log(MR_LOG_WARN, "this job produces for itself, sharing was asked for", "job", "%s", job,
               "why", "%s", reply->unshared, NULL);
    }
    bool has_failed = reply->end != NULL && reply->end->error_code < 0;

    if (reply->finished) {
        /* Who comes late to an iteration that is over has read nothing of it, so nothing is
         * missing. One that has failed is over for all: a consumer that took that for the end would
         * think that the others are through, too. */
        take_end_locked(r, again || has_failed ? reply->end : NULL);
        r->lingers = false; /* It was given up. */
        (void)pthread_cond_broadcast(&r->ready);
    }
    return MR_OK;
}

static int open_job(mr_reader *r, mr_error *err)
{
    Millrace__OpenRequest req = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec job = MILLRACE__JOB_SPEC__INIT;
    Millrace__ResumeRound resume = MILLRACE__RESUME_ROUND__INIT;
    Millrace__OpenReply *reply = NULL;

    job.name = r->opts.job_name;
    job.mode = r->opts.mode;
    job.guarantee = r->opts.guarantee;
    job.target_workers = r->opts.target_workers;
    job.trainer = r->opts.trainer;
    job.sharing = r->opts.sharing;
    job.lag = r->opts.lag;
    job.num_consumers = r->opts.num_consumers;
    job.last_round = r->opts.last_round;
    req.client = r->client;
    req.dataset_id = r->dataset_id;
    req.job = &job;
    req.repetition = r->opts.repetition;
    req.consumer_index = r->opts.consumer_index;
    if (r->opts.resumes) {
        resume.round = r->opts.resume_round;
        req.resume = &resume;
    }
    if (r->job_id != NULL) {
        req.job_id = r->job_id;
        req.iteration_id = r->iteration_id;
    }
    int64_t age_ms = mr_now_ms() - r->opened_ms;
    int rc = call(r, "Open", &req.base, &millrace__open_reply__descriptor,
                  (ProtobufCMessage **)&reply, err);
    if (rc == MR_OK) {
        rc = take_open_reply(r, reply, age_ms, err);
        millrace__open_reply__free_unpacked(reply, NULL);
    }
    return rc;
}

static void free_list(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_free(list[i]);
    }
}

static int heartbeat(mr_reader *r, mr_error *err)
{
    Millrace__ClientHeartbeatRequest req = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    Millrace__ClientHeartbeatReply *reply = NULL;
    Millrace__ConsumerReport report = MILLRACE__CONSUMER_REPORT__INIT;
    uint64_t number = 0;
    char *unreachable[UNREACHABLE_MAX];
    char *refusing[UNREACHABLE_MAX];

    if (r->opts.num_consumers > 0) {
        number = mr_coordinated_report(r, &report);
        req.rounds = number != 0 ? &report : NULL; /* Without memory: next time. */
    }
    req.client = r->client;
    req.iteration_id = r->iteration_id;
    req.n_unreachable = mr_read_unreachable(r, unreachable, UNREACHABLE_MAX);
    req.unreachable = unreachable;
    req.n_refusing = mr_read_refusing(r, refusing, UNREACHABLE_MAX);
    req.refusing = refusing;
    req.waits = mr_read_ask(r);
    int rc = call(r, "ClientHeartbeat", &req.base, &millrace__client_heartbeat_reply__descriptor,
                  (ProtobufCMessage **)&reply, err);
    mr_client_rounds_report_clear(&report);
    free_list(unreachable, req.n_unreachable);
    free_list(refusing, req.n_refusing);
    if (rc == MR_OK) {
        mr_coordinated_reported(r, number);
        if (req.waits) {
            mr_read_take_word(r, reply->waits_for);
        }
        millrace__client_heartbeat_reply__free_unpacked(reply, NULL);
    } else if (rc == MR_ENOTFOUND) {
        MR_LOCK(&r->lock);
        r->reopen = true;
        rc = MR_OK;
    }
    return rc;
}

/* The iteration is, and nothing of it is left here. */
static bool is_through_locked(const mr_reader *r)
{
    return r->finished && !(r->lingers && !mr_reader_used_up_locked(r));
}

/* Wait for the next heartbeat, or until something is to be done at once. false: stop. */
static bool rest(mr_reader *r)
{
    mr_error err;

    MR_LOCK(&r->lock);
    int64_t until = mr_now_ms() + r->heartbeat_ms;
    while (!r->stopping && !is_through_locked(r) && !r->failed && !r->reopen &&
           mr_now_ms() < until && !mr_coordinated_must_report_locked(r) &&
           !mr_read_must_ask_locked(r)) {
        (void)mr_cond_wait_ms(&r->due, &r->lock, until - mr_now_ms());
    }
    if (!r->finished && mr_read_nobody_reached_locked(r, mr_now_ms(), &err)) {
        mr_reader_fail_locked(r, &err);
    }
    return !r->stopping && !is_through_locked(r) && !r->failed;
}

static bool over(mr_reader *r, bool *reopen)
{
    MR_LOCK(&r->lock);
    *reopen = r->reopen;
    return r->stopping || is_through_locked(r) || r->failed;
}

/* Attached: watch and beat until the end of the iteration or of the reader, or until we have to
 * attach anew. */
static int follow(mr_reader *r, mr_error *err)
{
    Millrace__WatchClientRequest req = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    mr_control_watch *watch = NULL;
    bool reopen = false;

    req.client = r->client;
    req.iteration_id = r->iteration_id;
    int rc = mr_control_watch_new(r->control, "WatchClient", &req.base,
                                  &millrace__client_update__descriptor, &watch_ops, r, &watch, err);
    while (rc == MR_OK && rest(r) && !over(r, &reopen) && !reopen) {
        rc = heartbeat(r, err);
    }
    mr_control_watch_free(watch);
    return rc;
}

/*
 * Its iteration is over, and it has used all that it got. Where silence counts as a loss the
 * dispatcher is to hear that, also if we never held anything beyond the end of a task: its worker
 * may have heard too late of what we had used, and have named us as a holder. Who was given up is
 * not heard of meanwhile, and says it late.
 */
static bool has_used_up(mr_reader *r)
{
    bool counts =
        r->opts.job_name[0] != '\0' && r->opts.guarantee == MILLRACE__GUARANTEE__AT_MOST_ONCE;

    MR_LOCK(&r->lock);
    while (r->finished && !mr_reader_used_up_locked(r) && !r->stopping) {
        mr_cond_wait(&r->due, &r->lock);
    }
    return counts && r->had_tasks && r->rounds == NULL && r->finished && !r->stopping &&
           !r->failed_for_all && r->end_err.code >= 0;
}

/* There is nothing more to say at its end. Else that is said again. */
static void leave(mr_reader *r)
{
    Millrace__ReleaseClientRequest req = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    Millrace__ReleaseClientReply *reply = NULL;
    mr_error err;

    req.client = r->client;
    req.iteration_id = r->iteration_id;
    int rc = call(r, "ReleaseClient", &req.base, &millrace__release_client_reply__descriptor,
                  (ProtobufCMessage **)&reply, &err);
    if (rc == MR_OK) {
        millrace__release_client_reply__free_unpacked(reply, NULL);
        MR_LOCK(&r->lock);
        r->attached = false;
    }
}

void *mr_read_link_run(void *arg)
{
    mr_reader *r = arg;
    mr_error err;
    bool reopen = true;
    int rc = register_dataset(r, &err);

    while (rc == MR_OK && reopen) {
        rc = open_job(r, &err);
        if (rc < 0 || over(r, &reopen)) {
            break;
        }
        rc = follow(r, &err);
        if (over(r, &reopen)) {
            break;
        }
    }
    if (rc == MR_OK && has_used_up(r)) {
        leave(r);
    }
    MR_LOCK(&r->lock);
    if (rc < 0 && !r->finished && !atomic_load(&r->cancelled)) {
        mr_reader_fail_locked(r, &err);
    }
    return NULL;
}
