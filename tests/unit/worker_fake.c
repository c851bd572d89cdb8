#include "worker_fake.h"

#include "base/alloc.h"
#include "base/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define CLUSTER "test"
#define CLUSTER_INCARNATION "00000000000000000000000000000001"
#define MAX 16
/* Longer than anything takes; then the test fails instead of hanging. */
#define PATIENCE_MS 30000

struct fake_task {
    char id[64];
    char dataset[64];
    int64_t splits;
    uint64_t grant;
    bool listed;
    bool told; /* ... as far as the worker was told */
    bool at_least_once;
    uint64_t finished; /* grants that were reported, a bit each */
    uint64_t cursor;
    uint64_t seq;
    uint64_t answer_first;
    uint64_t answer_count;
    uint64_t given_back;
    Millrace__RoundAssignment *rounds; /* NULL: it is no coordinated task */
    bool rounds_changed;
    uint64_t end_round;
    bool ended;
    bool drained;
    int code;
    char *message;
    uint64_t delivered;
    char production[64]; /* "": none */
    bool producing, joining, wait, unread;
    bool joined; /* an answer came */
    uint64_t join_first;
    char refused[256];
    struct fake_progress progress;
};

struct fake_dispatcher {
    mr_rpc_server *server;
    int port;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        char id[64];
        mr_dataset *ds;
    } datasets[MAX];
    size_t ndatasets;
    struct fake_task tasks[MAX];
    size_t ntasks;
    char released[MAX][64];
    size_t nreleased;
    char fail_method[64];
    int fail_code;
    char incarnation[64];
    unsigned registrations;
    unsigned heartbeats;
    unsigned grants;
    unsigned wrong_reports;
    mr_rpc_stream *watch;
    bool watch_is_new; /* its first message is complete, the others say what changed */
    bool held;         /* no update is sent */
    bool watch_sending;
    bool watch_stale;
    bool draining;
    bool keeps; /* takes nothing back */
    uint64_t version;
};

static char *text(const char *s)
{
    return (char *)(uintptr_t)s;
}

static void fill_header(Millrace__ReplyHeader *h)
{
    millrace__reply_header__init(h);
    h->cluster = text(CLUSTER);
    h->incarnation = text(CLUSTER_INCARNATION);
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
    h->message = text("as the test wants it");
    d->fail_code = 0;
    return true;
}

static struct fake_task *find_locked(struct fake_dispatcher *d, const char *id)
{
    for (size_t i = 0; i < d->ntasks; i++) {
        if (strcmp(d->tasks[i].id, id) == 0) {
            return &d->tasks[i];
        }
    }
    return NULL;
}

/* ---- the watch ---- */

static void push_locked(struct fake_dispatcher *d)
{
    Millrace__WorkerUpdate update = MILLRACE__WORKER_UPDATE__INIT;
    Millrace__ReplyHeader h;
    Millrace__TaskAssignment tasks[MAX];
    Millrace__TaskAssignment *pointers[MAX];
    Millrace__ProviderInfo providers[MAX];
    Millrace__ProviderInfo *provider_pointers[MAX];
    char *released[MAX];
    char *dropped[MAX];
    Millrace__RoundChange changes[MAX];
    Millrace__RoundChange *change_pointers[MAX];

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
    for (size_t i = 0; i < d->ntasks; i++) {
        struct fake_task *t = &d->tasks[i];
        Millrace__TaskAssignment *a = &tasks[update.n_tasks];

        if (!t->listed && t->told) {
            dropped[update.n_dropped++] = t->id;
        }
        bool wanted = t->listed && (d->watch_is_new || !t->told);

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
        a->iteration_id = text("i1");
        a->job_id = text("j1");
        a->dataset_id = t->dataset;
        a->seed = 7;
        a->attempt = 1;
        a->rounds = t->rounds;
        a->production = t->production;
        a->producing = t->producing;
        a->joining = t->joining;
        a->unread = t->unread;
        a->lag = t->wait ? MILLRACE__LAG__LAG_WAIT : MILLRACE__LAG__LAG_SKIP;
        a->guarantee = t->at_least_once ? MILLRACE__GUARANTEE__AT_LEAST_ONCE : MILLRACE__GUARANTEE__AT_MOST_ONCE;
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
    push_locked(d);
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
        push_locked(d);
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

static const struct mr_rpc_stream_ops watch_ops = {.message = watch_message, .sent = watch_sent, .ended = watch_ended};

static void accept_watch(void *ctx, mr_rpc_stream *s)
{
    mr_rpc_stream_accept(s, &watch_ops, ctx);
    mr_rpc_stream_receive(s);
}

/* ---- calls ---- */

static void handle_register(void *ctx, mr_rpc_request *rpc, const void *bytes, size_t size)
{
    struct fake_dispatcher *d = ctx;
    Millrace__RegisterWorkerRequest *req = millrace__register_worker_request__unpack(NULL, size, bytes);
    Millrace__RegisterWorkerReply out = MILLRACE__REGISTER_WORKER_REPLY__INIT;
    Millrace__ReplyHeader h;

    fill_header(&h);
    out.header = &h;
    out.heartbeat_ms = 20;
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
    /* Two reports may overtake each other on the way: then the older one is one of a newer one's past. */
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
    Millrace__WorkerHeartbeatRequest *req = millrace__worker_heartbeat_request__unpack(NULL, size, bytes);
    Millrace__WorkerHeartbeatReply out = MILLRACE__WORKER_HEARTBEAT_REPLY__INIT;
    Millrace__ReplyHeader h;

    fill_header(&h);
    out.header = &h;
    mr_mutex_lock(&d->lock);
    if (!fails_locked(d, "WorkerHeartbeat", &h)) {
        out.version = d->version;
        d->draining = d->draining || req->draining;
        for (size_t i = 0; i < req->n_tasks; i++) {
            struct fake_task *t = find_locked(d, req->tasks[i]->task_id);

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
    h.message = text("no such dataset");
    mr_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->ndatasets; i++) {
        if (strcmp(d->datasets[i].id, req->dataset_id) == 0 &&
            mr_dataset_serialize(d->datasets[i].ds, &definition, &n, NULL) == MR_OK) {
            h.code = MR_OK;
            h.message = text("");
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
    struct fake_task *t = find_locked(d, req->task_id);
    if (fails_locked(d, "GetSplits", &h)) {
        /* said in the header */
    } else if (t == NULL || (req->seq != t->seq && req->seq != t->seq + 1) || req->repetition != 0) {
        h.code = MR_ERANGE;
        h.message = text("sequence");
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
    struct fake_task *t = find_locked(d, req->task_id);
    if (!fails_locked(d, "TaskEnded", &h) && t != NULL && !t->ended) {
        t->ended = true;
        t->progress.skipped = req->skipped;
        t->code = req->code;
        t->end_round = req->end_round;
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
    assert_int_equal(mr_rpc_server_new(rt, &d->server, NULL), MR_OK);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        assert_int_equal(mr_rpc_server_unary(d->server, calls[i].path, calls[i].handle, d, NULL), MR_OK);
    }
    assert_int_equal(mr_rpc_server_stream(d->server, "/millrace.Dispatcher/WatchWorker", accept_watch, d, NULL), MR_OK);
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

mr_dataset *fake_apply(const char *op, mr_dataset *input, const struct mr_attr *attrs, size_t n)
{
    mr_dataset *ds;
    mr_error err;

    if (mr_dataset_apply(op, &input, input != NULL ? 1 : 0, attrs, n, NULL, 0, NULL, &ds, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    mr_dataset_unref(input);
    return ds;
}

mr_dataset *fake_range(int64_t n)
{
    struct mr_attr attrs[3] = {{.name = "start", .kind = MR_ATTR_INT, .i = 0},
                               {.name = "stop", .kind = MR_ATTR_INT, .i = n},
                               {.name = "step", .kind = MR_ATTR_INT, .i = 1}};

    return fake_apply("range", NULL, attrs, 3);
}

void fake_add_dataset(struct fake_dispatcher *d, const char *id, mr_dataset *ds)
{
    MR_LOCK(&d->lock);
    (void)snprintf(d->datasets[d->ndatasets].id, 64, "%s", id);
    d->datasets[d->ndatasets++].ds = mr_dataset_ref(ds);
}

static void assign(struct fake_dispatcher *d, const char *task, const char *dataset, int64_t splits, uint64_t grant,
                   bool at_least_once)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = &d->tasks[d->ntasks++];

    *t = (struct fake_task){.splits = splits, .grant = grant, .listed = true, .at_least_once = at_least_once};
    (void)snprintf(t->id, sizeof t->id, "%s", task);
    (void)snprintf(t->dataset, sizeof t->dataset, "%s", dataset);
    push_locked(d);
}

void fake_assign(struct fake_dispatcher *d, const char *task, const char *dataset, int64_t splits, uint64_t grant)
{
    assign(d, task, dataset, splits, grant, false);
}

void fake_assign_at_least_once(struct fake_dispatcher *d, const char *task, const char *dataset, int64_t splits,
                               uint64_t grant)
{
    assign(d, task, dataset, splits, grant, true);
}

void fake_hold(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    d->held = true;
}

void fake_tell(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    d->held = false;
    push_locked(d);
}

void fake_assign_producing(struct fake_dispatcher *d, const char *task, const char *dataset, const char *production,
                           int64_t splits, uint64_t grant)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = &d->tasks[d->ntasks++];

    *t = (struct fake_task){.splits = splits, .grant = grant, .listed = true, .producing = true};
    (void)snprintf(t->id, sizeof t->id, "%s", task);
    (void)snprintf(t->dataset, sizeof t->dataset, "%s", dataset);
    (void)snprintf(t->production, sizeof t->production, "%s", production);
    push_locked(d);
}

void fake_assign_reading(struct fake_dispatcher *d, const char *task, const char *production, bool joining, bool wait)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = &d->tasks[d->ntasks++];

    *t = (struct fake_task){.splits = -1, .listed = true, .joining = joining, .wait = wait};
    (void)snprintf(t->id, sizeof t->id, "%s", task);
    (void)snprintf(t->production, sizeof t->production, "%s", production);
    push_locked(d);
}

void fake_reassign(struct fake_dispatcher *d, const char *task, const char *production, bool joining, bool unread)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = find_locked(d, task);

    (void)snprintf(t->production, sizeof t->production, "%s", production);
    t->joining = joining;
    t->unread = unread;
    t->joined = false;
    t->told = false; /* once more */
    push_locked(d);
}

void fake_assign_rounds(struct fake_dispatcher *d, const char *task, const char *dataset,
                        Millrace__RoundAssignment *rounds)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = &d->tasks[d->ntasks++];

    *t = (struct fake_task){.splits = -1, .listed = true, .rounds = rounds};
    (void)snprintf(t->id, sizeof t->id, "%s", task);
    (void)snprintf(t->dataset, sizeof t->dataset, "%s", dataset);
    push_locked(d);
}

void fake_tell_rounds(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    find_locked(d, task)->rounds_changed = true;
    push_locked(d);
}

uint64_t fake_end_round(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return find_locked(d, task)->end_round;
}

void fake_unassign(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    find_locked(d, task)->listed = false;
    push_locked(d);
}

void fake_lose_update(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    d->version++;
    for (size_t i = 0; i < d->ntasks; i++) {
        d->tasks[i].told = d->tasks[i].listed;
    }
}

void fake_list_quietly(struct fake_dispatcher *d, const char *task, bool listed)
{
    MR_LOCK(&d->lock);
    find_locked(d, task)->listed = listed;
}

void fake_release_client(struct fake_dispatcher *d, const char *client)
{
    MR_LOCK(&d->lock);
    (void)snprintf(d->released[d->nreleased++], 64, "%s", client);
    push_locked(d);
}

void fake_fail_once(struct fake_dispatcher *d, const char *method, int code)
{
    MR_LOCK(&d->lock);
    (void)snprintf(d->fail_method, sizeof d->fail_method, "%s", method);
    d->fail_code = code;
}

#define WAIT_UNTIL(d, condition)                                                                                       \
    while (!(condition)) {                                                                                             \
        if (!mr_cond_wait_ms(&(d)->changed, &(d)->lock, PATIENCE_MS)) {                                                \
            fail_msg("waited in vain for: %s", #condition);                                                            \
        }                                                                                                              \
    }

int fake_wait_ended(struct fake_dispatcher *d, const char *task, char **message)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = find_locked(d, task);

    WAIT_UNTIL(d, t->ended);
    if (message != NULL) {
        *message = mr_strdup(t->message);
    }
    return t->code;
}

uint64_t fake_wait_join(struct fake_dispatcher *d, const char *task, char **refused)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = find_locked(d, task);

    WAIT_UNTIL(d, t->joined);
    if (t->refused[0] == '\0') {
        return t->join_first;
    }
    *refused = mr_strdup(t->refused);
    return UINT64_MAX;
}

bool fake_has_joined(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return find_locked(d, task)->joined;
}

void fake_progress(struct fake_dispatcher *d, const char *task, struct fake_progress *ret)
{
    MR_LOCK(&d->lock);
    *ret = find_locked(d, task)->progress;
}

void fake_wait_progress(struct fake_dispatcher *d, const char *task, bool (*holds)(const struct fake_progress *p))
{
    MR_LOCK(&d->lock);
    WAIT_UNTIL(d, holds(&find_locked(d, task)->progress));
}

bool fake_has_ended(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return find_locked(d, task)->ended;
}

bool fake_has_drained(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return find_locked(d, task)->drained;
}

void fake_wait_draining(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    while (!d->draining) {
        mr_cond_wait(&d->changed, &d->lock);
    }
}

uint64_t fake_given_back(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return find_locked(d, task)->given_back;
}

void fake_refuse_given_back(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    d->keeps = true;
}

void fake_wait_registrations(struct fake_dispatcher *d, unsigned n)
{
    MR_LOCK(&d->lock);
    WAIT_UNTIL(d, d->registrations >= n);
}

void fake_wait_heartbeats(struct fake_dispatcher *d, unsigned n)
{
    MR_LOCK(&d->lock);
    unsigned from = d->heartbeats;
    WAIT_UNTIL(d, d->heartbeats >= from + n);
}

void fake_wait_delivered(struct fake_dispatcher *d, const char *task, uint64_t delivered)
{
    MR_LOCK(&d->lock);
    WAIT_UNTIL(d, find_locked(d, task)->delivered == delivered);
}

void fake_wait_finished(struct fake_dispatcher *d, const char *task, uint64_t grants)
{
    MR_LOCK(&d->lock);
    WAIT_UNTIL(d, find_locked(d, task)->finished == grants);
}

uint64_t fake_finished(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return find_locked(d, task)->finished;
}

unsigned fake_grants(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    return d->grants;
}

const char *fake_incarnation(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    return d->incarnation;
}

/* ---- client ---- */

struct fake_client {
    mr_rpc_channel *channel;
    mr_rpc_stream *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mr_rpc_message *in; /* received, not taken */
    bool sending;
    bool ended;
    int code; /* with which it ended */
};

static void client_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct fake_client *c = ctx;

    MR_LOCK(&c->lock);
    c->in = m;
    (void)pthread_cond_broadcast(&c->changed);
}

static void client_sent(void *ctx, mr_rpc_stream *s)
{
    struct fake_client *c = ctx;

    MR_LOCK(&c->lock);
    c->sending = false;
    (void)pthread_cond_broadcast(&c->changed);
}

static void client_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fake_client *c = ctx;

    MR_LOCK(&c->lock);
    c->ended = true;
    c->code = rc;
    (void)pthread_cond_broadcast(&c->changed);
}

static const struct mr_rpc_stream_ops client_ops = {
    .message = client_message, .sent = client_sent, .ended = client_ended};

static void client_send(struct fake_client *c, const Millrace__ReadRequest *req)
{
    size_t size = millrace__read_request__get_packed_size(req);
    void *bytes = malloc(size == 0 ? 1 : size);

    (void)millrace__read_request__pack(req, bytes);
    mr_mutex_lock(&c->lock);
    WAIT_UNTIL(c, !c->sending || c->ended);
    c->sending = true;
    mr_mutex_unlock(&c->lock);
    struct mr_rpc_slice slice = {.data = bytes, .size = size};
    (void)mr_rpc_stream_send(c->stream, &slice, 1, false, NULL);
    free(bytes);
}

struct fake_client *fake_client_open(mr_rpc_runtime *rt, const struct fake_open *open)
{
    struct fake_client *c = mr_calloc(1, sizeof *c);
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;
    Millrace__ReadOpen o = MILLRACE__READ_OPEN__INIT;
    mr_error err;

    mr_mutex_init(&c->lock);
    mr_cond_init(&c->changed);
    assert_int_equal(mr_rpc_channel_new(rt, open->address, NULL, &c->channel, NULL), MR_OK);
    if (mr_rpc_stream_open(c->channel, "/millrace.Worker/Read", NULL, -1, true, &client_ops, c, &c->stream, &err) !=
        MR_OK) {
        fail_msg("%s", err.message);
    }
    o.cluster = text(CLUSTER);
    o.cluster_incarnation = text(CLUSTER_INCARNATION);
    o.worker_incarnation = text(open->incarnation);
    o.task_id = text(open->task);
    o.attempt = open->attempt == 0 ? 1 : open->attempt;
    o.client = text(open->client);
    o.session = open->session;
    o.resume_from = open->resume_from;
    req.open = &o;
    req.limit_elements = open->credit;
    req.limit_bytes = UINT64_C(1) << 50; /* elements are what tests count */
    if (open->rounds != NULL) {
        o.rounds = open->rounds;
        req.limit_round = open->limit_round;
        req.limit_bytes = open->limit_bytes;
        req.received_below = open->rounds->received_below;
        req.returned_below = open->rounds->returned_below;
    }
    client_send(c, &req);
    mr_rpc_stream_receive(c->stream);
    return c;
}

void fake_client_free(struct fake_client *c)
{
    if (c == NULL) {
        return;
    }
    mr_rpc_stream_cancel(c->stream);
    mr_mutex_lock(&c->lock);
    WAIT_UNTIL(c, c->ended);
    mr_rpc_message_free(c->in);
    mr_mutex_unlock(&c->lock);
    mr_rpc_stream_unref(c->stream);
    mr_rpc_channel_free(c->channel);
    mr_free(c);
}

void fake_client_credit(struct fake_client *c, uint64_t limit, uint64_t received)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    req.limit_elements = limit;
    req.limit_bytes = UINT64_C(1) << 50; /* elements are what tests count */
    req.received_elements = received;
    req.returned_elements = received;
    client_send(c, &req);
}

void fake_client_returned(struct fake_client *c, uint64_t limit, uint64_t received, uint64_t returned)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    req.limit_elements = limit;
    req.limit_bytes = UINT64_C(1) << 50;
    req.received_elements = received;
    req.returned_elements = returned;
    client_send(c, &req);
}

void fake_client_tell(struct fake_client *c, uint64_t limit_round, uint64_t limit_bytes, uint64_t received_below,
                      uint64_t returned_below)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    req.limit_round = limit_round;
    req.limit_bytes = limit_bytes;
    req.received_below = received_below;
    req.returned_below = returned_below;
    client_send(c, &req);
}

int fake_client_wait_end(struct fake_client *c)
{
    struct mr_frame_content m;

    while (fake_client_next(c, &m)) {
        mr_frame_content_free(&m);
    }
    return c->code;
}

void fake_client_done(struct fake_client *c, uint64_t received)
{
    Millrace__ReadRequest req = MILLRACE__READ_REQUEST__INIT;

    req.limit_elements = received;
    req.received_elements = received;
    req.returned_elements = received;
    req.done = true;
    client_send(c, &req);
}

bool fake_client_next(struct fake_client *c, struct mr_frame_content *ret)
{
    mr_rpc_message *m;
    mr_buffer *buffer;
    mr_error err;

    mr_mutex_lock(&c->lock);
    WAIT_UNTIL(c, c->in != NULL || c->ended);
    m = c->in;
    c->in = NULL;
    mr_mutex_unlock(&c->lock);
    if (m == NULL) {
        return false;
    }
    assert_int_equal(mr_buffer_new(mr_rpc_message_size(m), &buffer, NULL), MR_OK);
    mr_rpc_message_copy(m, 0, mr_rpc_message_size(m), mr_buffer_data(buffer));
    mr_rpc_message_free(m);
    if (mr_frame_parse(buffer, 0, ret, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    mr_buffer_unref(buffer);
    mr_rpc_stream_receive(c->stream);
    return true;
}

int fake_client_drain(struct fake_client *c, unsigned *seen, size_t n, char **message)
{
    for (;;) {
        struct mr_frame_content m;

        if (!fake_client_next(c, &m)) {
            fail_msg("the stream ended before the end");
        }
        uint64_t received = m.header->first_element + m.header->elements;
        for (size_t i = 0; i < m.n; i++) {
            const int64_t *data = mr_block_column(m.blocks[i], 0)->data;

            for (uint32_t r = 0; r < mr_block_rows(m.blocks[i]); r++) {
                assert_in_range(data[r], 0, n - 1);
                seen[data[r]]++;
            }
        }
        bool end = m.header->end;
        int code = m.header->code;
        if (end && message != NULL) {
            *message = mr_strdup(m.header->message);
        }
        fake_client_credit(c, 2 * received + 16, received);
        mr_frame_content_free(&m);
        if (end) {
            return code;
        }
    }
}
