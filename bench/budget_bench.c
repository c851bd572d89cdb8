/*
 * What many workers write to etcd, and how the write budget holds it: a dispatcher in this process,
 * on an etcd, and as many workers and jobs as asked for, each of which asks for splits when its
 * last ones would be used up. No element is made.
 *
 *     budget_bench ETCD WORKERS JOBS SECONDS [BUDGET]
 *
 * One line of JSON every five seconds.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/identity.h"
#include "base/sync.h"
#include "dispatcher/dispatcher.h"
#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"
#include "tests/support/unary.h"

#include <inttypes.h>
#include <jansson.h>
#include <millrace/dataset.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SPLIT_MS 1000 /* that a task works on one: a table of splits lasts for a while */
#define OUTSTANDING_MAX 1000
#define CALL_MS 20000
#define REPORT_MS 5000
#define LATENCIES 65536

struct task {
    char id[128];
    char iteration[64];
    struct mr_identity *worker;
    uint64_t seq;
    uint64_t repetition; /* of the splits: a task that is at their end goes on with the next one */
    int64_t next_ms;     /* INT64_MAX: a call is out */
    int64_t sent_ms;
};

struct worker {
    struct load *load;
    struct mr_identity who;
    mr_rpc_stream *tasks; /* the stream of its tasks: with it its life begins */
};

struct load {
    mr_rpc_runtime *rt;
    mr_rpc_channel *channel;
    mr_dispatcher *dispatcher;
    struct worker *workers;
    size_t nworkers;
    struct task *tasks;   /* room for those of all workers */
    pthread_mutex_t lock; /* guards what follows, and the tasks */
    pthread_cond_t changed;
    size_t watching; /* workers whose life has begun */
    size_t streams;  /* that are not over */
    size_t ntasks;
    unsigned outstanding;
    uint64_t answered;
    uint64_t refused;
    int32_t latencies[LATENCIES]; /* ms */
    size_t nlatencies;
};

struct call {
    struct load *load;
    struct task *task;
    mr_rpc_call *rpc;
};

static void die(const char *what, const mr_error *err)
{
    fprintf(stderr, "%s: %s\n", what, err->message);
    exit(1);
}

static ProtobufCMessage *call(struct load *l, const char *method, const ProtobufCMessage *request,
                              const ProtobufCMessageDescriptor *reply)
{
    char path[96];
    size_t size = protobuf_c_message_get_packed_size(request);
    uint8_t *bytes = mr_malloc(size + 1);
    void *answer = NULL;
    size_t n = 0;
    mr_error err = {.message = "no answer"};

    (void)snprintf(path, sizeof path, "/millrace.Dispatcher/%s", method);
    (void)protobuf_c_message_pack(request, bytes);
    for (int64_t until = mr_now_ms() + CALL_MS; mr_now_ms() < until; usleep(10000)) {
        if (mr_rpc_unary_wait(l->channel, path, bytes, size, NULL, CALL_MS, true, &answer, &n,
                              &err) < 0) {
            continue;
        }
        ProtobufCMessage *msg = protobuf_c_message_unpack(reply, NULL, n, answer);
        const Millrace__ReplyHeader *h = ((const Millrace__StatusReply *)msg)->header;

        mr_free(answer);
        if (h->code == 0) {
            mr_free(bytes);
            return msg;
        }
        (void)snprintf(err.message, sizeof err.message, "%s", h->message);
        protobuf_c_message_free_unpacked(msg, NULL);
    }
    die(method, &err);
    return NULL;
}

/* What calls of @who begin with. */
static Millrace__RequestHeader said_by(struct mr_identity *who)
{
    Millrace__RequestHeader header = MILLRACE__REQUEST_HEADER__INIT;

    header.key = (ProtobufCBinaryData){.data = who->key, .len = sizeof who->key};
    return header;
}

static char *register_dataset(struct load *l)
{
    struct mr_attr attrs[] = {{.name = "start", .kind = MR_ATTR_INT, .i = 0},
                              {.name = "step", .kind = MR_ATTR_INT, .i = 1},
                              {.name = "stop", .kind = MR_ATTR_INT, .i = INT64_C(1) << 40}};
    Millrace__RegisterDatasetRequest r = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    mr_dataset *ds = NULL;
    void *bytes = NULL;
    mr_error err;

    if (mr_dataset_apply("range", NULL, 0, attrs, 3, NULL, 0, NULL, &ds, &err) < 0 ||
        mr_dataset_serialize(ds, &bytes, &r.definition.len, &err) < 0) {
        die("dataset", &err);
    }
    r.definition.data = bytes;
    r.compression = (char *)(uintptr_t) "AUTO";
    Millrace__RegisterDatasetReply *reply = (Millrace__RegisterDatasetReply *)call(
        l, "RegisterDataset", &r.base, &millrace__register_dataset_reply__descriptor);
    char *id = mr_strdup(reply->dataset_id);

    protobuf_c_message_free_unpacked(&reply->base, NULL);
    mr_dataset_unref(ds);
    mr_free(bytes);
    return id;
}

/* ---------------------------------------------------------------- workers and their tasks */

/* With the lock held. */
static void add_task(struct load *l, struct worker *w, const Millrace__TaskAssignment *given)
{
    struct task *t = &l->tasks[l->ntasks++];

    *t = (struct task){.worker = &w->who, .next_ms = mr_now_ms() + (int64_t)(l->ntasks % 2000)};
    (void)snprintf(t->id, sizeof t->id, "%s", given->task_id);
    (void)snprintf(t->iteration, sizeof t->iteration, "%s", given->iteration_id);
}

static void on_update(void *ctx, mr_rpc_stream *stream, mr_rpc_message *m)
{
    struct worker *w = ctx;
    struct load *l = w->load;
    size_t size = mr_rpc_message_size(m);
    uint8_t *bytes = mr_malloc(size + 1);

    mr_rpc_message_copy(m, 0, size, bytes);
    mr_rpc_message_free(m);
    Millrace__WorkerUpdate *update = millrace__worker_update__unpack(NULL, size, bytes);

    mr_free(bytes);
    mr_mutex_lock(&l->lock);
    l->watching += update->follows == 0;
    for (size_t i = 0; i < update->n_tasks; i++) {
        add_task(l, w, update->tasks[i]);
    }
    (void)pthread_cond_broadcast(&l->changed);
    mr_mutex_unlock(&l->lock);
    millrace__worker_update__free_unpacked(update, NULL);
    mr_rpc_stream_receive(stream);
}

static void on_sent(void *ctx, mr_rpc_stream *stream)
{
    (void)ctx;
    (void)stream;
}

static void on_ended(void *ctx, mr_rpc_stream *stream, int rc, const mr_error *err)
{
    struct worker *w = ctx;
    struct load *l = w->load;

    (void)stream;
    if (rc != MR_ECANCELED) {
        die("WatchWorker", err);
    }
    mr_mutex_lock(&l->lock);
    l->streams--;
    (void)pthread_cond_broadcast(&l->changed);
    mr_mutex_unlock(&l->lock);
}

static void start_worker(struct load *l, size_t i)
{
    static const struct mr_rpc_stream_ops ops = {
        .message = on_update, .sent = on_sent, .ended = on_ended};
    struct worker *w = &l->workers[i];
    Millrace__RegisterWorkerRequest r = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    Millrace__WatchWorkerRequest watch = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    Millrace__RequestHeader header;
    char address[32];
    uint8_t bytes[256];
    mr_error err;

    w->load = l;
    mr_identity_draw(&w->who);
    header = said_by(&w->who);
    (void)snprintf(address, sizeof address, "10.0.%zu.%zu:1", i / 250, i % 250);
    r.header = &header;
    r.incarnation = w->who.id;
    r.address = address;
    protobuf_c_message_free_unpacked(
        call(l, "RegisterWorker", &r.base, &millrace__register_worker_reply__descriptor), NULL);
    watch.header = &header;
    watch.incarnation = w->who.id;
    struct mr_rpc_slice slice = {.data = bytes,
                                 .size = millrace__watch_worker_request__pack(&watch, bytes)};

    mr_mutex_lock(&l->lock);
    l->streams++;
    mr_mutex_unlock(&l->lock);
    if (mr_rpc_stream_open(l->channel, "/millrace.Dispatcher/WatchWorker", NULL, -1, true, &ops, w,
                           &w->tasks, &err) < 0 ||
        mr_rpc_stream_send(w->tasks, &slice, 1, false, &err) < 0) {
        die("WatchWorker", &err);
    }
    mr_rpc_stream_receive(w->tasks);
}

static void stop_workers(struct load *l)
{
    for (size_t i = 0; i < l->nworkers; i++) {
        mr_rpc_stream_cancel(l->workers[i].tasks);
    }
    mr_mutex_lock(&l->lock);
    while (l->streams > 0) {
        mr_cond_wait(&l->changed, &l->lock);
    }
    mr_mutex_unlock(&l->lock);
    for (size_t i = 0; i < l->nworkers; i++) {
        mr_rpc_stream_unref(l->workers[i].tasks);
    }
}

static void open_job(struct load *l, char *dataset, size_t number)
{
    Millrace__OpenRequest r = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
    struct mr_identity client;
    Millrace__RequestHeader header;
    char name[32];

    mr_identity_draw(&client);
    header = said_by(&client);
    (void)snprintf(name, sizeof name, "job%zu", number);
    spec.name = name;
    spec.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    spec.target_workers = (char *)(uintptr_t) "AUTO";
    r.header = &header;
    r.client = client.id;
    r.dataset_id = dataset;
    r.job = &spec;
    protobuf_c_message_free_unpacked(call(l, "Open", &r.base, &millrace__open_reply__descriptor),
                                     NULL);
}

static void set_up(struct load *l, size_t workers, size_t jobs)
{
    char *dataset = register_dataset(l);

    l->nworkers = workers;
    l->workers = mr_calloc(workers, sizeof *l->workers);
    l->tasks = mr_calloc(workers * jobs, sizeof *l->tasks);
    for (size_t i = 0; i < workers; i++) {
        start_worker(l, i);
    }
    mr_mutex_lock(&l->lock);
    while (l->watching < workers) {
        mr_cond_wait(&l->changed, &l->lock);
    }
    mr_mutex_unlock(&l->lock);
    for (size_t j = 0; j < jobs; j++) {
        open_job(l, dataset, j);
    }
    mr_mutex_lock(&l->lock);
    while (l->ntasks < workers * jobs) {
        mr_cond_wait(&l->changed, &l->lock);
    }
    mr_mutex_unlock(&l->lock);
    mr_free(dataset);
}

/* ---------------------------------------------------------------- splits */

static void answered(void *ctx, int rc, const void *bytes, size_t size, const mr_error *err)
{
    struct call *c = ctx;
    struct load *l = c->load;
    Millrace__GetSplitsReply *reply =
        rc < 0 ? NULL : millrace__get_splits_reply__unpack(NULL, size, bytes);
    uint64_t splits = 0;
    int64_t now = mr_now_ms();

    (void)err;
    for (size_t i = 0; reply != NULL && i < reply->n_ranges; i++) {
        splits += reply->ranges[i]->count;
    }
    mr_mutex_lock(&l->lock);
    if (reply != NULL && reply->end) {
        c->task->seq++;
        c->task->repetition++;
    } else if (splits > 0) {
        c->task->seq++;
        l->answered++;
        l->latencies[l->nlatencies++ % LATENCIES] = (int32_t)(now - c->task->sent_ms);
    } else {
        l->refused++;
    }
    bool end = reply != NULL && reply->end;

    c->task->next_ms = now + (end ? 0 : splits > 0 ? (int64_t)splits * SPLIT_MS : 500);
    l->outstanding--;
    (void)pthread_cond_broadcast(&l->changed);
    mr_mutex_unlock(&l->lock);
    if (reply != NULL) {
        millrace__get_splits_reply__free_unpacked(reply, NULL);
    }
    mr_rpc_call_unref(c->rpc);
    mr_free(c);
}

/* With the lock held. */
static void ask(struct load *l, struct task *t, int64_t now)
{
    Millrace__GetSplitsRequest r = MILLRACE__GET_SPLITS_REQUEST__INIT;
    Millrace__RequestHeader header = said_by(t->worker);
    struct call *c = mr_calloc(1, sizeof *c);
    uint8_t bytes[512];
    mr_error err;

    r.header = &header;
    r.incarnation = t->worker->id;
    r.task_id = t->id;
    r.iteration_id = t->iteration;
    r.repetition = t->repetition;
    r.seq = t->seq + 1;
    r.want = 2000 / SPLIT_MS;
    c->load = l;
    c->task = t;
    t->next_ms = INT64_MAX;
    t->sent_ms = now;
    l->outstanding++;
    if (mr_rpc_unary(l->channel, "/millrace.Dispatcher/GetSplits", bytes,
                     millrace__get_splits_request__pack(&r, bytes), NULL, CALL_MS, true, answered,
                     c, &c->rpc, &err) < 0) {
        die("GetSplits", &err);
    }
}

static int by_size(const void *a, const void *b)
{
    return (*(const int32_t *)a > *(const int32_t *)b) -
           (*(const int32_t *)a < *(const int32_t *)b);
}

static void report(struct load *l, int64_t ms)
{
    Millrace__StatusRequest r = MILLRACE__STATUS_REQUEST__INIT;
    Millrace__StatusReply *reply =
        (Millrace__StatusReply *)call(l, "Status", &r.base, &millrace__status_reply__descriptor);
    json_t *doc = json_loads(reply->json, 0, NULL);
    const char *rate = json_string_value(json_object_get(doc, "storeBytesPerS"));
    const char *grant = json_string_value(json_object_get(doc, "grantMs"));

    mr_mutex_lock(&l->lock);
    size_t n = l->nlatencies < LATENCIES ? l->nlatencies : LATENCIES;

    qsort(l->latencies, n, sizeof l->latencies[0], by_size);
    printf("{\"grants_per_s\": %.0f, \"etcd_bytes_per_s\": %s, \"grant_ms\": %s, \"p50_ms\": %d, "
           "\"p99_ms\": %d, \"not_answered\": %" PRIu64 "}\n",
           (double)l->answered * 1000 / (double)ms, rate != NULL ? rate : "0",
           grant != NULL ? grant : "0", n > 0 ? l->latencies[n / 2] : 0,
           n > 0 ? l->latencies[n * 99 / 100] : 0, l->refused);
    (void)fflush(stdout);
    l->answered = 0;
    l->refused = 0;
    l->nlatencies = 0;
    mr_mutex_unlock(&l->lock);
    json_decref(doc);
    protobuf_c_message_free_unpacked(&reply->base, NULL);
}

static void run(struct load *l, int64_t ms)
{
    int64_t end = mr_now_ms() + ms;
    int64_t since = mr_now_ms();

    for (int64_t now = since; now < end; now = mr_now_ms()) {
        mr_mutex_lock(&l->lock);
        for (size_t i = 0; i < l->ntasks && l->outstanding < OUTSTANDING_MAX; i++) {
            if (l->tasks[i].next_ms <= now) {
                ask(l, &l->tasks[i], now);
            }
        }
        mr_mutex_unlock(&l->lock);
        if (now >= since + REPORT_MS) {
            report(l, now - since);
            since = now;
        }
        usleep(5000);
    }
    mr_mutex_lock(&l->lock);
    while (l->outstanding > 0) {
        mr_cond_wait(&l->changed, &l->lock);
    }
    mr_mutex_unlock(&l->lock);
}

int main(int argc, char **argv)
{
    static struct load l;
    struct mr_dispatcher_options o = {.listen = "127.0.0.1:0",
                                      .cluster = "bench",
                                      .worker_timeout_ms = 3600000,
                                      .client_timeout_ms = 3600000};
    mr_error err;

    if (argc < 5) {
        fprintf(stderr, "budget_bench ETCD WORKERS JOBS SECONDS [BUDGET]\n");
        return 2;
    }
    o.etcd_endpoints = argv[1];
    o.etcd_write_budget = argc > 5 ? strtoll(argv[5], NULL, 10) : 0;
    mr_mutex_init(&l.lock);
    mr_cond_init(&l.changed);
    if (mr_dispatcher_start(&o, &l.dispatcher, &err) < 0 || mr_rpc_acquire(&l.rt, &err) < 0 ||
        mr_rpc_channel_new(l.rt, mr_dispatcher_address(l.dispatcher), NULL, &l.channel, &err) < 0) {
        die("starting", &err);
    }
    set_up(&l, strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10));
    run(&l, strtoll(argv[4], NULL, 10) * 1000);
    stop_workers(&l);
    mr_rpc_channel_free(l.channel);
    mr_rpc_release(l.rt);
    mr_dispatcher_free(l.dispatcher);
    mr_free(l.workers);
    mr_free(l.tasks);
    return 0;
}
