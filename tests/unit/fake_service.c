#include "fake_service.h"

#include "base/limits.h"
#include "base/sync.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static void fill_header(struct fake_service *d, Millrace__ReplyHeader *h)
{
    millrace__reply_header__init(h);
    h->cluster = d->cluster;
    h->incarnation = d->incarnation;
    if (d->role == FAKE_FOLLOWS) {
        h->not_leader = true;
        h->leader = d->leader;
    } else {
        h->epoch = d->epoch;
        h->code = d->refuse;
        h->traits = d->refuse_traits;
        h->message = d->refuse < 0 ? (char *)(uintptr_t) "as the test says" : h->message;
    }
}

static void answer(mr_rpc_request *req, const ProtobufCMessage *reply)
{
    uint8_t bytes[4096];
    size_t n = protobuf_c_message_get_packed_size(reply);

    assert_true(n <= sizeof bytes);
    (void)protobuf_c_message_pack(reply, bytes);
    mr_rpc_reply(req, MR_OK, NULL, bytes, n);
}

/* true: the call is held and will get no answer. */
static bool begin(struct fake_service *d, mr_rpc_request *req, const Millrace__RequestHeader *h)
{
    d->calls++;
    d->last_epoch = h->epoch;
    (void)snprintf(d->last_cluster, sizeof d->last_cluster, "%s", h->cluster);
    (void)pthread_cond_broadcast(&d->changed);
    if (d->hang_after > 0 && d->calls > d->hang_after) {
        d->role = FAKE_HANGS;
    }
    if (d->role != FAKE_HANGS) {
        return false;
    }
    assert_true(d->nheld < FAKE_HELD_MAX);
    d->held[d->nheld++] = req;
    return true;
}

static void on_register(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    struct fake_service *d = ctx;
    Millrace__RegisterDatasetRequest *r =
        millrace__register_dataset_request__unpack(NULL, size, bytes);
    Millrace__RegisterDatasetReply reply = MILLRACE__REGISTER_DATASET_REPLY__INIT;
    Millrace__ReplyHeader header;

    mr_mutex_lock(&d->lock);
    bool held = begin(d, req, r->header);
    d->registers++;
    fill_header(d, &header);
    mr_mutex_unlock(&d->lock);
    reply.header = &header;
    reply.dataset_id = (char *)(uintptr_t) "the-dataset";
    if (!held) {
        answer(req, &reply.base);
    }
    millrace__register_dataset_request__free_unpacked(r, NULL);
}

static void fill_end(const struct fake_service *d, Millrace__IterationEnd *end)
{
    millrace__iteration_end__init(end);
    end->error_code = d->error_code;
    end->error = (char *)(uintptr_t)(d->error_code < 0 ? "the iteration failed" : "");
    end->lost_splits = d->lost_splits;
    end->lost_elements = d->lost_elements;
    end->lost_workers = d->lost_workers;
    end->repeated_splits = d->repeated_splits;
}

static void on_open(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    struct fake_service *d = ctx;
    Millrace__OpenRequest *r = millrace__open_request__unpack(NULL, size, bytes);
    Millrace__OpenReply reply = MILLRACE__OPEN_REPLY__INIT;
    Millrace__IterationEnd end;
    Millrace__ReplyHeader header;

    mr_mutex_lock(&d->lock);
    bool held = begin(d, req, r->header);
    d->opens++;
    d->reopens += r->job_id[0] != '\0' && r->iteration_id[0] != '\0';
    if (r->job != NULL) {
        d->guarantee = (int)r->job->guarantee;
        (void)snprintf(d->trainer, sizeof d->trainer, "%s", r->job->trainer);
        d->sharing = (int)r->job->sharing;
        d->lag = (int)r->job->lag;
        d->num_consumers = r->job->num_consumers;
        d->last_round = (int)r->job->last_round;
    }
    d->consumer_index = r->consumer_index;
    d->resume_round = r->resume != NULL ? (int64_t)r->resume->round : -1;
    reply.consumer_session = d->consumer_session;
    reply.from_round = d->from_round;
    fill_header(d, &header);
    reply.finished = d->job_finished;
    reply.ended_ms = d->ended_ms;
    reply.client_timeout_ms = d->client_timeout_ms;
    fill_end(d, &end);
    reply.end = d->job_finished && !d->forgets_end ? &end : NULL;
    mr_mutex_unlock(&d->lock);
    reply.header = &header;
    reply.job_id = (char *)(uintptr_t) "job-1";
    reply.iteration_id = (char *)(uintptr_t) "iteration-1";
    if (!held) {
        answer(req, &reply.base);
    }
    millrace__open_request__free_unpacked(r, NULL);
}

static void take_report_locked(struct fake_service *d, const Millrace__ConsumerReport *report)
{
    d->reports++;
    d->report_session = report->session;
    d->report_from = report->from_round;
    d->report_position = report->position;
    d->report_ask = report->ask;
    (void)snprintf(d->closing, sizeof d->closing, "%s",
                   report->n_closing > 0 ? report->closing[0]->task_id : "");
    d->held_below = report->n_closing > 0 ? report->closing[0]->held_below : 0;
    (void)pthread_cond_broadcast(&d->changed);
}

static void on_heartbeat(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    struct fake_service *d = ctx;
    Millrace__ClientHeartbeatRequest *r =
        millrace__client_heartbeat_request__unpack(NULL, size, bytes);
    Millrace__ClientHeartbeatReply reply = MILLRACE__CLIENT_HEARTBEAT_REPLY__INIT;
    Millrace__ReplyHeader header;

    mr_mutex_lock(&d->lock);
    bool held = begin(d, req, r->header);
    d->heartbeats++;
    if (r->rounds != NULL) {
        take_report_locked(d, r->rounds);
    }
    (void)snprintf(d->unreachable, sizeof d->unreachable, "%s",
                   r->n_unreachable > 0 ? r->unreachable[0] : "");
    (void)snprintf(d->refusing, sizeof d->refusing, "%s", r->n_refusing > 0 ? r->refusing[0] : "");
    fill_header(d, &header);
    if (d->refuse_heartbeat < 0) {
        header.code = d->refuse_heartbeat;
        d->refuse_heartbeat = 0;
    }
    mr_mutex_unlock(&d->lock);
    reply.header = &header;
    if (!held) {
        answer(req, &reply.base);
    }
    millrace__client_heartbeat_request__free_unpacked(r, NULL);
}

static void on_release(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    struct fake_service *d = ctx;
    Millrace__ReleaseClientRequest *r = millrace__release_client_request__unpack(NULL, size, bytes);
    Millrace__ReleaseClientReply reply = MILLRACE__RELEASE_CLIENT_REPLY__INIT;
    Millrace__ReplyHeader header;

    mr_mutex_lock(&d->lock);
    bool held = begin(d, req, r->header);
    d->releases++;
    d->abandoned = r->abandoned;
    d->unheard = 0;
    for (size_t i = 0; i < r->n_unheard; i++) {
        d->unheard += r->unheard[i]->elements;
    }
    (void)snprintf(d->unheard_of, sizeof d->unheard_of, "%s",
                   r->n_unheard > 0 ? r->unheard[0]->task_id : "");
    fill_header(d, &header);
    mr_mutex_unlock(&d->lock);
    reply.header = &header;
    if (!held) {
        answer(req, &reply.base);
    }
    millrace__release_client_request__free_unpacked(r, NULL);
}

static void push_locked(struct fake_service *d, size_t i)
{
    Millrace__ClientUpdate u = MILLRACE__CLIENT_UPDATE__INIT;
    Millrace__IterationEnd end;
    Millrace__TaskInfo infos[FAKE_TASKS_MAX];
    Millrace__TaskInfo *list[FAKE_TASKS_MAX];
    Millrace__ReplyHeader header;
    uint8_t bytes[8192];

    if (d->role == FAKE_HANGS) {
        return;
    }
    if (d->watcher_busy[i]) {
        d->watcher_stale[i] = true;
        return;
    }
    fill_header(d, &header);
    u.header = &header;
    for (size_t k = 0; k < d->ntasks; k++) {
        millrace__task_info__init(&infos[k]);
        infos[k].task_id = (char *)(uintptr_t)d->tasks[k].id;
        infos[k].worker_address = (char *)(uintptr_t)d->tasks[k].address;
        infos[k].worker_incarnation = (char *)(uintptr_t)d->tasks[k].incarnation;
        infos[k].ended = d->tasks[k].ended;
        infos[k].lost = d->tasks[k].lost;
        list[k] = &infos[k];
    }
    u.n_tasks = d->ntasks;
    u.tasks = list;
    u.rounds = d->rounds;
    u.finished = d->finished;
    if (d->finished && !d->forgets_end) {
        fill_end(d, &end);
        u.end = &end;
    }
    struct mr_rpc_slice slice = {.data = bytes, .size = millrace__client_update__pack(&u, bytes)};
    if (mr_rpc_stream_send(d->watchers[i], &slice, 1, false, NULL) == MR_OK) {
        d->watcher_busy[i] = true;
    }
}

void fake_service_push(struct fake_service *d)
{
    MR_LOCK(&d->lock);
    for (size_t i = 0; i < FAKE_WATCHERS_MAX; i++) {
        if (d->watchers[i] != NULL) {
            push_locked(d, i);
        }
    }
}

static size_t watcher_locked(struct fake_service *d, const mr_rpc_stream *s)
{
    for (size_t i = 0; i < FAKE_WATCHERS_MAX; i++) {
        if (d->watchers[i] == s) {
            return i;
        }
    }
    return FAKE_WATCHERS_MAX;
}

static void watch_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct fake_service *d = ctx;

    mr_rpc_message_free(m);
    MR_LOCK(&d->lock);
    d->watches++;
    size_t i = watcher_locked(d, s);
    if (i < FAKE_WATCHERS_MAX) {
        push_locked(d, i);
    }
    (void)pthread_cond_broadcast(&d->changed);
}

static void watch_sent(void *ctx, mr_rpc_stream *s)
{
    struct fake_service *d = ctx;

    MR_LOCK(&d->lock);
    size_t i = watcher_locked(d, s);
    if (i < FAKE_WATCHERS_MAX) {
        d->watcher_busy[i] = false;
        if (d->watcher_stale[i]) {
            d->watcher_stale[i] = false;
            push_locked(d, i);
        }
    }
}

static void watch_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct fake_service *d = ctx;

    MR_LOCK(&d->lock);
    size_t i = watcher_locked(d, s);
    if (i < FAKE_WATCHERS_MAX) {
        d->watchers[i] = NULL;
        d->watcher_busy[i] = false;
        d->watcher_stale[i] = false;
    }
    (void)pthread_cond_broadcast(&d->changed);
    mr_rpc_stream_unref(s);
}

static const struct mr_rpc_stream_ops watch_ops = {watch_message, watch_sent, watch_ended};

static void watch_accept(void *ctx, mr_rpc_stream *s)
{
    struct fake_service *d = ctx;

    mr_mutex_lock(&d->lock);
    for (size_t i = 0; i < FAKE_WATCHERS_MAX; i++) {
        if (d->watchers[i] == NULL) {
            d->watchers[i] = s;
            break;
        }
    }
    mr_mutex_unlock(&d->lock);
    mr_rpc_stream_accept(s, &watch_ops, d);
    mr_rpc_stream_receive(s);
}

void fake_service_start(struct fake_service *d, mr_rpc_runtime *rt, int port)
{
    char where[64];
    int bound = 0;

    memset(d, 0, sizeof *d);
    d->rt = rt;
    d->epoch = 7;
    (void)snprintf(d->cluster, sizeof d->cluster, "default");
    (void)snprintf(d->incarnation, sizeof d->incarnation, "first-life");
    mr_mutex_init(&d->lock);
    mr_cond_init(&d->changed);
    (void)snprintf(where, sizeof where, "127.0.0.1:%d", port);
    assert_int_equal(mr_rpc_server_new(rt, NULL, &d->srv, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_unary(d->srv, "/millrace.Dispatcher/RegisterDataset",
                                         MR_RPC_REQUEST_BYTES_MAX, on_register, d, NULL),
                     MR_OK);
    assert_int_equal(mr_rpc_server_unary(d->srv, "/millrace.Dispatcher/Open",
                                         MR_RPC_REQUEST_BYTES_MAX, on_open, d, NULL),
                     MR_OK);
    assert_int_equal(mr_rpc_server_unary(d->srv, "/millrace.Dispatcher/ClientHeartbeat",
                                         MR_RPC_REQUEST_BYTES_MAX, on_heartbeat, d, NULL),
                     MR_OK);
    assert_int_equal(mr_rpc_server_unary(d->srv, "/millrace.Dispatcher/ReleaseClient",
                                         MR_RPC_REQUEST_BYTES_MAX, on_release, d, NULL),
                     MR_OK);
    assert_int_equal(
        mr_rpc_server_stream(d->srv, "/millrace.Dispatcher/WatchClient", watch_accept, d, NULL),
        MR_OK);
    assert_int_equal(mr_rpc_server_listen(d->srv, where, NULL, &bound, NULL), MR_OK);
    assert_int_equal(mr_rpc_server_start(d->srv, NULL), MR_OK);
    (void)snprintf(d->address, sizeof d->address, "127.0.0.1:%d", bound);
}

void fake_service_stop(struct fake_service *d)
{
    mr_rpc_server_free(d->srv);
    d->srv = NULL;
    for (size_t i = 0; i < d->nheld; i++) {
        mr_rpc_reply(d->held[i], MR_EUNAVAIL, "the test is over", NULL, 0);
    }
    d->nheld = 0;
}
