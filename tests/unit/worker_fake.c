/* The fake dispatcher as its worker meets it: the watch of the task list, and calls. */
#include "worker_fake_internal.h"

#include "base/limits.h"

#include <stdlib.h>

static void fill_header(Millrace__ReplyHeader *h)
{
    millrace__reply_header__init(h);
    h->cluster = fake_text(FAKE_CLUSTER);
    h->incarnation = fake_text(FAKE_CLUSTER_INCARNATION);
    h->epoch = 1;
}

static void reply(mr_rpc_request *req, const ProtobufCMessage *msg)
{
    size_t size = protobuf_c_message_get_packed_size(msg);
    void *bytes = malloc(size == 0 ? 1 : size);

    (void)protobuf_c_message_pack(msg, bytes);
    mr_rpc_reply(req, MR_OK, NULL, bytes, size);
    free(bytes);
}

static bool fails_locked(struct fake_dispatcher *d, const char *method, Millrace__ReplyHeader *h)
{
    if (d->fail_code == 0 || strcmp(d->fail_method, method) != 0) {
        return false;
    }
    h->code = d->fail_code;
    h->message = fake_text("as the test wants it");
    d->fail_code = 0;
    (void)pthread_cond_broadcast(&d->changed);
    return true;
}

struct fake_task *fake_find_locked(struct fake_dispatcher *d, const char *id)
{
    for (size_t i = 0; i < d->ntasks; i++) {
        if (strcmp(d->tasks[i].id, id) == 0) {
            return &d->tasks[i];
        }
    }
    return NULL;
}

const uint8_t fake_ticket_key[16] = "key of the fake";

static bool is_aside(const struct fake_dispatcher *d, const struct fake_task *t)
{
    return d->aside != NULL && strcmp(fake_iteration(t), d->aside) == 0;
}

static bool refuses_aside(const struct fake_dispatcher *d, const struct fake_task *t,
                          Millrace__ReplyHeader *h)
{
    if (t == NULL || !is_aside(d, t)) {
        return false;
    }
    h->code = MR_EUNAVAIL;
    h->message = fake_text("its job is set aside");
    return true;
}

/* ---- the watch ---- */

void fake_push_locked(struct fake_dispatcher *d)
{
    Millrace__WorkerUpdate update = MILLRACE__WORKER_UPDATE__INIT;
    Millrace__ReplyHeader h;
    Millrace__TaskAssignment tasks[FAKE_MAX];
    Millrace__TaskAssignment *pointers[FAKE_MAX];
    Millrace__ProviderInfo providers[FAKE_MAX];
    Millrace__ProviderInfo *provider_pointers[FAKE_MAX];
    char *released[FAKE_MAX];
    char *dropped[FAKE_MAX];
    Millrace__RoundChange changes[FAKE_MAX];
    Millrace__RoundChange *change_pointers[FAKE_MAX];
    char *held[] = {fake_text(d->aside)};

    if (d->watch == NULL || d->held) {
        return;
    }
    if (d->watch_sending) {
        d->watch_stale = true;
        return;
    }
    fill_header(&h);
    update.header = &h;
    update.follows = d->watch_is_new ? 0 : d->version;
    update.version = ++d->version;
    update.tasks = pointers;
    update.dropped = dropped;
    update.rounds = change_pointers;
    update.held = held;
    update.n_held = d->aside != NULL ? 1 : 0;
    for (size_t i = 0; i < d->ntasks; i++) {
        struct fake_task *t = &d->tasks[i];
        Millrace__TaskAssignment *a = &tasks[update.n_tasks];

        if (!t->listed && t->told) {
            dropped[update.n_dropped++] = t->id;
        }
        bool wanted = t->listed && !is_aside(d, t) && (d->watch_is_new || !t->told);

        t->told = t->listed;
        if (t->rounds_changed && !wanted) {
            Millrace__RoundChange *change = &changes[update.n_rounds];

            millrace__round_change__init(change);
            change->task_id = t->id;
            change->rounds = t->rounds;
            change_pointers[update.n_rounds++] = change;
        }
        t->rounds_changed = false;
        if (!wanted) {
            continue;
        }
        millrace__task_assignment__init(a);
        a->task_id = t->id;
        a->iteration_id = fake_text(fake_iteration(t));
        a->job_id = fake_text("j1");
        a->dataset_id = t->dataset;
        a->host = fake_text(t->host != NULL ? t->host : "");
        a->seed = 7;
        a->attempt = 1;
        a->rounds = t->rounds;
        a->production = t->production;
        a->producing = t->producing;
        a->joining = t->joining;
        a->unread = t->unread;
        a->lag = t->wait ? MILLRACE__LAG__LAG_WAIT : MILLRACE__LAG__LAG_SKIP;
        a->guarantee = t->at_least_once ? MILLRACE__GUARANTEE__AT_LEAST_ONCE
                                        : MILLRACE__GUARANTEE__AT_MOST_ONCE;
        if (t->splits >= 0) {
            a->mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
            millrace__provider_info__init(&providers[i]);
            providers[i].splits = t->splits;
            provider_pointers[i] = &providers[i];
            a->providers = &provider_pointers[i];
            a->n_providers = 1;
        }
        pointers[update.n_tasks++] = a;
    }
    for (size_t i = 0; i < d->nreleased; i++) {
        released[i] = d->released[i];
    }
    d->watch_is_new = false;
    update.released_clients = released;
    update.n_released_clients = d->nreleased;
    size_t size = millrace__worker_update__get_packed_size(&update);
    void *bytes = malloc(size);
    (void)millrace__worker_update__pack(&update, bytes);
    struct mr_rpc_slice slice = {.data = bytes, .size = size};
    d->watch_sending = mr_rpc_stream_send(d->watch, &slice, 1, false, NULL) == MR_OK;
    free(bytes);
}

static void watch_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct fake_dispatcher *d = ctx;

    mr_rpc_message_free(m);
    MR_LOCK(&d->lock);
    if (d->watch != NULL) {
        mr_rpc_stream_finish(d->watch, MR_EUNAVAIL, "replaced");
        mr_rpc_stream_unref(d->watch);
    }
    d->watch = mr_rpc_stream_ref(s);
    d->watch_is_new = true;
    d->watch_sending = false;
    fake_push_locked(d);
}

static void watch_sent(void *ctx, mr_rpc_stream *s)
{
    struct fake_dispatcher *d = ctx;

    MR_LOCK(&d->lock);
    if (d->watch != s) {
        return;
    }
    d->watch_sending = false;
    if (d->watch_stale) {
        d->watch_stale = false;
        fake_push_locked(d);
    }
}

static void watch_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fake_dispatcher *d = ctx;

    mr_mutex_lock(&d->lock);
    bool mine = d->watch == s;
    if (mine) {
        d->watch = NULL;
    }
    mr_mutex_unlock(&d->lock);
    if (mine) {
        mr_rpc_stream_unref(s);
    }
    mr_rpc_stream_unref(s);
}

static const struct mr_rpc_stream_ops watch_ops = {
    .message = watch_message, .sent = watch_sent, .ended = watch_ended};

static void accept_watch(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_accept(s, &watch_ops, ctx);
    mr_rpc_stream_receive(s);
}

/* ---- calls ---- */

static void handle_register(void *ctx, mr_rpc_request *rpc, const void *bytes, size_t size)
{
    struct fake_dispatcher *d = ctx;
    Millrace__RegisterWorkerRequest *req =
        millrace__register_worker_request__unpack(NULL, size, bytes);
    Millrace__RegisterWorkerReply out = MILLRACE__REGISTER_WORKER_REPLY__INIT;
    Millrace__ReplyHeader h;

    fill_header(&h);
    out.header = &h;
    out.heartbeat_ms = 20;
    out.ticket_key = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)fake_ticket_key,
                                           .len = sizeof fake_ticket_key};
    mr_mutex_lock(&d->lock);
    if (!fails_locked(d, "RegisterWorker", &h)) {
        (void)snprintf(d->incarnation, sizeof d->incarnation, "%s", req->incarnation);
        d->registrations++;
        (void)pthread_cond_broadcast(&d->changed);
    }
    mr_mutex_unlock(&d->lock);
    reply(rpc, &out.base);
    millrace__register_worker_request__free_unpacked(req, NULL);
}

/* Reports are for AT_LEAST_ONCE only, ascending, and hold all that earlier ones held. */
static bool take_report_locked(struct fake_task *t, const Millrace__GrantReport *report)
{
    uint64_t finished = 0;
    uint64_t after = 0;

    for (size_t i = 0; i < report->n_finished; i++) {
        uint64_t first = report->finished[i]->first;
        uint64_t count = report->finished[i]->count;

        if (first <= after || count == 0 || first + count > 64) {
            return false;
        }
        after = first + count;
        finished |= (count == 64 ? UINT64_MAX : (UINT64_C(1) << count) - 1) << first;
    }
    /* Two reports may overtake each other on the way: then the older one is one of a newer one's
     * past. */
    bool cumulative = (t->finished & ~finished) == 0 || (finished & ~t->finished) == 0;
    t->finished |= finished;
    return t->at_least_once && report->provider == 0 && cumulative;
}

static void take_progress_locked(struct fake_task *t, const Millrace__TaskProgress *p,
                                 const Millrace__CacheProgress *cache)
{
    struct fake_progress *to = &t->progress;

    to->produced = p->produced;
    to->skipped = p->skipped;
    to->sessions = p->sessions;
    to->buffered_bytes = p->buffered_bytes;
    if (p->rounds != NULL) {
        to->complete_below = p->rounds->complete_below;
        to->waiting_round = p->rounds->waiting_round;
        to->missing = 0;
        for (size_t i = 0; i < p->rounds->n_missing; i++) {
            to->missing |= 1u << p->rounds->missing[i];
        }
    }
    if (p->window != NULL) {
        to->first = p->window->first;
        to->end = p->window->end;
        to->complete = p->window->complete;
        to->held = p->window->held;
        (void)snprintf(to->degraded, sizeof to->degraded, "%s", p->window->degraded);
    }
    if (cache != NULL) {
        to->cache_failures = cache->failures;
        (void)snprintf(to->cache_degraded, sizeof to->cache_degraded, "%s", cache->degraded);
    }
    if (p->join != NULL) {
        t->joined = true;
        t->join_first = p->join->first;
        (void)snprintf(t->refused, sizeof t->refused, "%s", p->join->refused);
    }
}

static void handle_heartbeat(void *ctx, mr_rpc_request *rpc, const void *bytes, size_t size)
{
    struct fake_dispatcher *d = ctx;
    Millrace__WorkerHeartbeatRequest *req =
        millrace__worker_heartbeat_request__unpack(NULL, size, bytes);
    Millrace__WorkerHeartbeatReply out = MILLRACE__WORKER_HEARTBEAT_REPLY__INIT;
    Millrace__ReplyHeader h;

    fill_header(&h);
    out.header = &h;
    mr_mutex_lock(&d->lock);
    if (!fails_locked(d, "WorkerHeartbeat", &h)) {
        out.version = d->version;
        d->draining = d->draining || req->draining;
        out.drain = d->wants_drain && !req->draining;
        for (size_t i = 0; i < req->n_tasks; i++) {
            struct fake_task *t = fake_find_locked(d, req->tasks[i]->task_id);

            if (t != NULL) {
                t->delivered = req->tasks[i]->delivered;
                take_progress_locked(t, req->tasks[i], req->cache);
                bool right = req->tasks[i]->n_reports == (t->at_least_once ? 1 : 0);
                for (size_t k = 0; k < req->tasks[i]->n_reports; k++) {
                    right = take_report_locked(t, req->tasks[i]->reports[k]) && right;
                }
                d->wrong_reports += !right;
            }
        }
        d->heartbeats++;
        (void)pthread_cond_broadcast(&d->changed);
    }
    mr_mutex_unlock(&d->lock);
    reply(rpc, &out.base);
    millrace__worker_heartbeat_request__free_unpacked(req, NULL);
}

static void handle_dataset(void *ctx, mr_rpc_request *rpc, const void *bytes, size_t size)
{
    struct fake_dispatcher *d = ctx;
    Millrace__GetDatasetRequest *req = millrace__get_dataset_request__unpack(NULL, size, bytes);
    Millrace__GetDatasetReply out = MILLRACE__GET_DATASET_REPLY__INIT;
    Millrace__ReplyHeader h;
    void *definition = NULL;
    size_t n = 0;

    fill_header(&h);
    out.header = &h;
    h.code = MR_ENOTFOUND;
    h.message = fake_text("no such dataset");
    mr_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->ndatasets; i++) {
        if (strcmp(d->datasets[i].id, req->dataset_id) == 0 &&
            mr_dataset_serialize(d->datasets[i].ds, &definition, &n, NULL) == MR_OK) {
            h.code = MR_OK;
            h.message = fake_text("");
            out.definition.data = definition;
            out.definition.len = n;
            break;
        }
    }
    (void)fails_locked(d, "GetDataset", &h);
    mr_mutex_unlock(&d->lock);
    reply(rpc, &out.base);
    mr_free(definition);
    millrace__get_dataset_request__free_unpacked(req, NULL);
}

static void handle_splits(void *ctx, mr_rpc_request *rpc, const void *bytes, size_t size)
{
    struct fake_dispatcher *d = ctx;
    Millrace__GetSplitsRequest *req = millrace__get_splits_request__unpack(NULL, size, bytes);
    Millrace__GetSplitsReply out = MILLRACE__GET_SPLITS_REPLY__INIT;
    Millrace__SplitRange range = MILLRACE__SPLIT_RANGE__INIT;
    Millrace__SplitRange *pointer = &range;
    Millrace__ReplyHeader h;

    fill_header(&h);
    out.header = &h;
    mr_mutex_lock(&d->lock);
    struct fake_task *t = fake_find_locked(d, req->task_id);
    if (fails_locked(d, "GetSplits", &h) || refuses_aside(d, t, &h)) {
        /* said in the header */
    } else if (t == NULL || (req->seq != t->seq && req->seq != t->seq + 1) ||
               req->repetition != 0) {
        h.code = MR_ERANGE;
        h.message = fake_text("sequence");
    } else {
        bool right = (req->report != NULL) == t->at_least_once;
        if (req->report != NULL) {
            right = take_report_locked(t, req->report) && right;
        }
        d->wrong_reports += !right;
        if (req->seq == t->seq + 1) {
            uint64_t left = (uint64_t)t->splits - t->cursor;

            t->seq++;
            t->answer_first = t->cursor;
            t->answer_count = req->n_given_back > 0 ? 0 : t->grant < left ? t->grant : left;
            for (size_t i = 0; i < req->n_given_back && !d->keeps; i++) {
                t->given_back += req->given_back[i]->count;
            }
            t->cursor += t->answer_count;
            d->grants++;
        }
        range.first = t->answer_first;
        range.count = t->answer_count;
        out.end = range.count == 0;
        out.keep = req->n_given_back > 0 && d->keeps;
        out.ranges = &pointer;
        out.n_ranges = out.end ? 0 : 1;
    }
    mr_mutex_unlock(&d->lock);
    reply(rpc, &out.base);
    millrace__get_splits_request__free_unpacked(req, NULL);
}

static void handle_ended(void *ctx, mr_rpc_request *rpc, const void *bytes, size_t size)
{
    struct fake_dispatcher *d = ctx;
    Millrace__TaskEndedRequest *req = millrace__task_ended_request__unpack(NULL, size, bytes);
    Millrace__TaskEndedReply out = MILLRACE__TASK_ENDED_REPLY__INIT;
    Millrace__ReplyHeader h;

    fill_header(&h);
    out.header = &h;
    mr_mutex_lock(&d->lock);
    struct fake_task *t = fake_find_locked(d, req->task_id);
    if (!fails_locked(d, "TaskEnded", &h) && !refuses_aside(d, t, &h) && t != NULL && !t->ended) {
        t->ended = true;
        t->progress.skipped = req->skipped;
        t->code = req->code;
        t->end_round = req->end_round;
        t->abandoned = req->abandoned;
        for (size_t i = 0; i < req->n_holders; i++) {
            t->holding += req->holders[i]->elements;
        }
        t->drained = req->drained;
        t->message = mr_strdup(req->message);
        (void)pthread_cond_broadcast(&d->changed);
    }
    mr_mutex_unlock(&d->lock);
    reply(rpc, &out.base);
    millrace__task_ended_request__free_unpacked(req, NULL);
}

struct fake_dispatcher *fake_dispatcher_new(mr_rpc_runtime *rt, int port)
{
    static const struct {
        const char *path;
        mr_rpc_handler *handle;
    } calls[] = {
        {"/millrace.Dispatcher/RegisterWorker", handle_register},
        {"/millrace.Dispatcher/WorkerHeartbeat", handle_heartbeat},
        {"/millrace.Dispatcher/GetDataset", handle_dataset},
        {"/millrace.Dispatcher/GetSplits", handle_splits},
        {"/millrace.Dispatcher/TaskEnded", handle_ended},
    };
    struct fake_dispatcher *d = mr_calloc(1, sizeof *d);
    char address[64];
    mr_error err;

    mr_mutex_init(&d->lock);
    mr_cond_init(&d->changed);
    assert_int_equal(mr_rpc_server_new(rt, NULL, &d->server, NULL), MR_OK);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(mr_rpc_server_unary(d->server, calls[i].path, MR_RPC_REQUEST_BYTES_MAX,
                                             calls[i].handle, d, NULL),
                         MR_OK);
    }
    assert_int_equal(
        mr_rpc_server_stream(d->server, "/millrace.Dispatcher/WatchWorker", accept_watch, d, NULL),
        MR_OK);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    if (mr_rpc_server_listen(d->server, address, NULL, &d->port, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(mr_rpc_server_start(d->server, NULL), MR_OK);
    return d;
}

void fake_dispatcher_free(struct fake_dispatcher *d)
{
    mr_rpc_server_stop(d->server, 0);
    mr_rpc_server_free(d->server);
    assert_int_equal(d->wrong_reports, 0);
    for (size_t i = 0; i < d->ndatasets; i++) {
        mr_dataset_unref(d->datasets[i].ds);
    }
    for (size_t i = 0; i < d->ntasks; i++) {
        mr_free(d->tasks[i].message);
    }
    mr_free(d);
}

int fake_dispatcher_port(const struct fake_dispatcher *d)
{
    return d->port;
}
