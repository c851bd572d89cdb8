/* Dispatchers over a real etcd: calls, watches, standbys, hand-over, and a leader whose process
 * dies. */
#include "base/clock.h"
#include "base/identity.h"
#include "base/limits.h"
#include "base/rng.h"
#include "coord/commit.h"
#include "dispatcher/dispatcher.h"
#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"
#include "tests/support/etcd.h"
#include "tests/support/state.h"
#include "tests/support/unary.h"

#include <millrace/dataset.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define NOBODY "00112233445566778899aabbccddeeff"
#define CALL_MS 5000
#define PATIENCE_MS 30000
#define LONG_LEASE_MS 60000 /* nothing here waits for its end */

static struct mr_test_etcd *etcd;
static mr_rpc_runtime *rpc;
static int clusters;
static char cluster[32];
static struct mr_identity worker, client;

/* ---- calls ---- */

/* What calls of @who begin with; until the next of these. */
static Millrace__RequestHeader *said_by(struct mr_identity *who)
{
    static Millrace__RequestHeader header;

    millrace__request_header__init(&header);
    header.key = (ProtobufCBinaryData){.data = who->key, .len = sizeof who->key};
    return &header;
}

static ProtobufCMessage *try_call(const char *address, const char *name,
                                  const ProtobufCMessage *request,
                                  const ProtobufCMessageDescriptor *reply, mr_error *err)
{
    mr_rpc_channel *ch = NULL;
    char path[96];
    void *bytes = mr_malloc(protobuf_c_message_get_packed_size(request) + 1);
    void *answer = NULL;
    size_t size = 0;
    ProtobufCMessage *msg = NULL;

    (void)snprintf(path, sizeof path, "/millrace.Dispatcher/%s", name);
    assert_non_null(bytes);
    size_t n = protobuf_c_message_pack(request, bytes);

    assert_int_equal(mr_rpc_channel_new(rpc, address, NULL, &ch, err), MR_OK);
    if (mr_rpc_unary_wait(ch, path, bytes, n, NULL, CALL_MS, false, &answer, &size, err) >= 0) {
        msg = protobuf_c_message_unpack(reply, NULL, size, answer);
        assert_non_null(msg);
    }
    mr_rpc_channel_free(ch);
    mr_free(bytes);
    mr_free(answer);
    return msg;
}

#define CALL(address, Name, lower, request)                                                        \
    ((Millrace__##Name##Reply *)call(address, #Name, &(request)->base,                             \
                                     &millrace__##lower##_reply__descriptor))

/* Until somebody answers with something else than "not the leader". */
static ProtobufCMessage *call(const char *address, const char *name,
                              const ProtobufCMessage *request,
                              const ProtobufCMessageDescriptor *reply)
{
    int64_t until = mr_now_ms() + PATIENCE_MS;
    mr_error err = {0};

    while (mr_now_ms() < until) {
        ProtobufCMessage *msg = try_call(address, name, request, reply, &err);

        if (msg != NULL) {
            /* All replies begin with the header. */
            const Millrace__ReplyHeader *h = ((const Millrace__StatusReply *)msg)->header;

            if (h->code != MR_EUNAVAIL) {
                return msg;
            }
            (void)snprintf(err.message, sizeof err.message, "%s", h->message);
            protobuf_c_message_free_unpacked(msg, NULL);
        }
        usleep(10000);
    }
    fail_msg("%s at %s: %s", name, address, err.message);
    return NULL;
}

static void drop(void *msg)
{
    protobuf_c_message_free_unpacked(msg, NULL);
}

static mr_dispatcher *start(void)
{
    struct mr_dispatcher_options o = {.listen = "127.0.0.1:0",
                                      .etcd_endpoints = mr_test_etcd_endpoint(etcd),
                                      .cluster = cluster,
                                      .worker_timeout_ms = 3000};
    mr_dispatcher *d = NULL;
    mr_error err;

    if (mr_dispatcher_start(&o, &d, &err) < 0) {
        fail_msg("%s", err.message);
    }
    return d;
}

static Millrace__StatusReply *status(const char *address)
{
    Millrace__StatusRequest r = MILLRACE__STATUS_REQUEST__INIT;

    return CALL(address, Status, status, &r);
}

static mr_dataset *range_dataset(int64_t n)
{
    struct mr_attr attrs[] = {{.name = "start", .kind = MR_ATTR_INT, .i = 0},
                              {.name = "step", .kind = MR_ATTR_INT, .i = 1},
                              {.name = "stop", .kind = MR_ATTR_INT, .i = n}};
    mr_dataset *ds = NULL;
    mr_error err;

    if (mr_dataset_apply("range", NULL, 0, attrs, 3, NULL, 0, NULL, &ds, &err) < 0) {
        fail_msg("%s", err.message);
    }
    return ds;
}

/* One element of @n numbers of random bytes: it does not get smaller anywhere. */
static mr_dataset *constant_dataset(size_t n)
{
    int64_t dims[1] = {(int64_t)(n / 8)};
    void *data = mr_malloc(n);
    struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .rank = 1};
    mr_block *block = NULL;
    mr_dataset *ds = NULL;
    mr_error err;

    assert_non_null(data);
    mr_random_bytes(data, n);
    column.dims[0] = dims[0];
    column.data = data;
    if (mr_block_new(1, &column, 1, &block, &err) < 0) {
        fail_msg("%s", err.message);
    }
    struct mr_attr attr = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};

    if (mr_dataset_apply("from_tensors", NULL, 0, &attr, 1, NULL, 0, NULL, &ds, &err) < 0) {
        fail_msg("%s", err.message);
    }
    mr_block_unref(block);
    mr_free(data);
    return ds;
}

static char *register_range(const char *address, int64_t n)
{
    mr_dataset *ds = range_dataset(n);
    Millrace__RegisterDatasetRequest r = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    void *bytes = NULL;
    size_t size = 0;

    assert_int_equal(mr_dataset_serialize(ds, &bytes, &size, NULL), MR_OK);
    r.definition = (ProtobufCBinaryData){.data = bytes, .len = size};
    r.compression = "AUTO";
    Millrace__RegisterDatasetReply *reply = CALL(address, RegisterDataset, register_dataset, &r);

    assert_string_equal(reply->header->message, "");
    char *id = mr_strdup(reply->dataset_id);

    drop(reply);
    mr_free(bytes);
    mr_dataset_unref(ds);
    return id;
}

static void register_worker(const char *address)
{
    Millrace__RegisterWorkerRequest r = MILLRACE__REGISTER_WORKER_REQUEST__INIT;

    r.header = said_by(&worker);
    r.incarnation = worker.id;
    r.address = "127.0.0.1:1";
    Millrace__RegisterWorkerReply *reply = CALL(address, RegisterWorker, register_worker, &r);

    assert_string_equal(reply->header->message, "");
    drop(reply);
}

static Millrace__OpenReply *open_job(const char *address, const char *dataset, const char *job)
{
    Millrace__OpenRequest r = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;

    spec.name = (char *)(uintptr_t)job;
    spec.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    spec.target_workers = "AUTO";
    r.header = said_by(&client);
    r.client = client.id;
    r.dataset_id = (char *)(uintptr_t)dataset;
    r.job = &spec;
    return CALL(address, Open, open, &r);
}

/* ---- tests ---- */

static int new_cluster(void **state)
{
    (void)snprintf(cluster, sizeof cluster, "t%d", ++clusters);
    return rpc != NULL ? 0 : mr_rpc_acquire(&rpc, NULL);
}

/* Whatever happened, what is left in etcd is sound. */
static int check_state(void **state)
{
    return mr_test_state_is_sound(mr_test_etcd_endpoint(etcd), cluster) ? 0 : -1;
}

/* For tests that fork. */
static int new_cluster_without_rpc(void **state)
{
    if (rpc != NULL) {
        mr_rpc_release(rpc);
        rpc = NULL;
    }
    (void)snprintf(cluster, sizeof cluster, "t%d", ++clusters);
    return 0;
}

static void a_dataset_survives_its_dispatcher(void **state)
{
    mr_dispatcher *d = start();
    char *id = register_range(mr_dispatcher_address(d), 10);
    char *again = register_range(mr_dispatcher_address(d), 10);
    Millrace__GetDatasetRequest get = MILLRACE__GET_DATASET_REQUEST__INIT;

    assert_string_equal(id, again);
    mr_dispatcher_free(d);

    d = start();
    get.dataset_id = id;
    get.want_definition = true;
    Millrace__GetDatasetReply *reply =
        CALL(mr_dispatcher_address(d), GetDataset, get_dataset, &get);
    mr_dataset *ds = NULL;

    assert_string_equal(reply->header->message, "");
    assert_int_equal(reply->header->n_dispatchers, 1);
    assert_int_equal(reply->cardinality, 10);
    assert_int_equal(mr_dataset_parse(reply->definition.data, reply->definition.len, &ds, NULL),
                     MR_OK);
    assert_int_equal(mr_dataset_cardinality(ds), 10);
    mr_dataset_unref(ds);
    drop(reply);

    get.dataset_id = "nothing";
    reply = CALL(mr_dispatcher_address(d), GetDataset, get_dataset, &get);
    assert_int_equal(reply->header->code, MR_ENOTFOUND);
    drop(reply);
    mr_dispatcher_free(d);
    mr_free(id);
    mr_free(again);
}

struct registration {
    pthread_t thread;
    const char *address;
    char id[32];
    void *bytes;
    size_t size;
};

static void *register_large(void *arg)
{
    const struct registration *it = arg;
    Millrace__RegisterDatasetRequest r = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    int64_t until = mr_now_ms() + PATIENCE_MS;
    bool registered = false;

    r.definition = (ProtobufCBinaryData){.data = it->bytes, .len = it->size};
    r.dataset_id = (char *)(uintptr_t)it->id;
    r.compression = "AUTO";
    /* As clients do: what could not be had in time is asked for again. */
    while (!registered && mr_now_ms() < until) {
        Millrace__RegisterDatasetReply *reply = (Millrace__RegisterDatasetReply *)try_call(
            it->address, "RegisterDataset", &r.base, &millrace__register_dataset_reply__descriptor,
            NULL);

        registered = reply != NULL && reply->header->code == 0;
        if (reply != NULL) {
            drop(reply);
        }
    }
    return (void *)(uintptr_t)registered;
}

/* More than may wait for etcd at a time. All get there, and the leader stays the leader. */
static void many_large_definitions_wait_for_each_other(void **state)
{
    enum { N = 4 };
    mr_dispatcher *d = start();
    struct registration all[N];
    size_t sum = 0;

    Millrace__StatusReply *before = status(mr_dispatcher_address(d));
    for (size_t i = 0; i < N; i++) {
        mr_dataset *ds = constant_dataset(6000000);

        all[i] = (struct registration){.address = mr_dispatcher_address(d)};
        (void)snprintf(all[i].id, sizeof all[i].id, "large-%zu", i);
        assert_int_equal(mr_dataset_serialize(ds, &all[i].bytes, &all[i].size, NULL), MR_OK);
        mr_dataset_unref(ds);
        sum += all[i].size;
    }
    assert_true(sum > MR_COMMIT_BACKLOG_BYTES_MAX);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(pthread_create(&all[i].thread, NULL, register_large, &all[i]), 0);
    }
    for (size_t i = 0; i < N; i++) {
        void *registered = NULL;

        (void)pthread_join(all[i].thread, &registered);
        assert_non_null(registered);
        mr_free(all[i].bytes);
    }
    Millrace__StatusReply *after = status(mr_dispatcher_address(d));
    assert_int_equal(after->header->epoch, before->header->epoch);
    drop(before);
    drop(after);
    mr_dispatcher_stop(d);
    mr_dispatcher_free(d);
}

static void a_large_definition_is_kept_in_parts(void **state)
{
    mr_dispatcher *d = start();
    Millrace__RegisterDatasetRequest r = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    mr_dataset *ds = constant_dataset(700000);
    void *bytes = NULL;
    size_t size = 0;

    /* Garbage first: it names the fault, and nothing else is disturbed. */
    r.definition = (ProtobufCBinaryData){.data = (uint8_t *)"garbage", .len = 7};
    Millrace__RegisterDatasetReply *bad =
        CALL(mr_dispatcher_address(d), RegisterDataset, register_dataset, &r);

    assert_int_equal(bad->header->code, MR_EINVAL);
    drop(bad);

    assert_int_equal(mr_dataset_serialize(ds, &bytes, &size, NULL), MR_OK);
    assert_true(size > MR_TXN_BYTES_MAX);
    r.definition = (ProtobufCBinaryData){.data = bytes, .len = size};
    r.dataset_id = "large";
    r.compression = "AUTO";
    Millrace__RegisterDatasetReply *reply =
        CALL(mr_dispatcher_address(d), RegisterDataset, register_dataset, &r);

    assert_string_equal(reply->header->message, "");
    assert_string_equal(reply->dataset_id, "large");
    drop(reply);
    Millrace__GetDatasetRequest get = MILLRACE__GET_DATASET_REQUEST__INIT;

    get.dataset_id = "large";
    get.want_definition = true;
    Millrace__GetDatasetReply *got = CALL(mr_dispatcher_address(d), GetDataset, get_dataset, &get);

    assert_int_equal(got->definition.len, size);
    assert_memory_equal(got->definition.data, bytes, size);
    drop(got);
    mr_free(bytes);
    mr_dataset_unref(ds);
    mr_dispatcher_free(d);
}

static void a_standby_sends_callers_to_the_leader(void **state)
{
    mr_dispatcher *a = start();
    Millrace__StatusReply *led = status(mr_dispatcher_address(a));
    mr_dispatcher *b = start();
    Millrace__StatusRequest r = MILLRACE__STATUS_REQUEST__INIT;
    int64_t until = mr_now_ms() + PATIENCE_MS;
    bool told = false;

    assert_false(led->header->not_leader);
    drop(led);
    while (!told && mr_now_ms() < until) {
        mr_error err;
        Millrace__StatusReply *reply = (Millrace__StatusReply *)try_call(
            mr_dispatcher_address(b), "Status", &r.base, &millrace__status_reply__descriptor, &err);

        assert_non_null(reply);
        assert_true(reply->header->not_leader);
        assert_int_equal(reply->header->code, MR_EUNAVAIL);
        told = strcmp(reply->header->leader, mr_dispatcher_address(a)) == 0;
        drop(reply);
    }
    assert_true(told);

    /* A graceful stop hands over. */
    mr_dispatcher_free(a);
    led = status(mr_dispatcher_address(b));
    assert_int_equal(led->header->code, MR_OK);
    drop(led);
    mr_dispatcher_free(b);
}

/* ---- watches ---- */

struct watcher {
    mr_rpc_channel *channel;
    mr_rpc_stream *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    Millrace__ClientUpdate *last; /* lock */
    unsigned updates;
    bool ended;
};

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    struct watcher *w = ctx;
    size_t size = mr_rpc_message_size(m);
    uint8_t *bytes = malloc(size + 1);

    mr_rpc_message_copy(m, 0, size, bytes);
    mr_rpc_message_free(m);
    pthread_mutex_lock(&w->lock);
    if (w->last != NULL) {
        drop(w->last);
    }
    w->last = millrace__client_update__unpack(NULL, size, bytes);
    w->updates++;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
    free(bytes);
    mr_rpc_stream_receive(s);
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
    (void)ctx, (void)s;
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    struct watcher *w = ctx;

    (void)s, (void)rc, (void)err;
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static const struct mr_rpc_stream_ops watch_ops = {
    .message = on_message, .sent = on_sent, .ended = on_ended};

/* What comes is taken for updates of WatchClient; those of a worker are not looked at. */
static void watch(struct watcher *w, const char *address, const char *method,
                  const ProtobufCMessage *request)
{
    uint8_t bytes[256];
    struct mr_rpc_slice slice = {.data = bytes, .size = protobuf_c_message_pack(request, bytes)};
    char path[96];

    (void)snprintf(path, sizeof path, "/millrace.Dispatcher/%s", method);
    *w = (struct watcher){.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    assert_int_equal(mr_rpc_channel_new(rpc, address, NULL, &w->channel, NULL), MR_OK);
    assert_int_equal(
        mr_rpc_stream_open(w->channel, path, NULL, -1, true, &watch_ops, w, &w->stream, NULL),
        MR_OK);
    assert_int_equal(mr_rpc_stream_send(w->stream, &slice, 1, false, NULL), MR_OK);
    mr_rpc_stream_receive(w->stream);
}

static void end_watch(struct watcher *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->ended) {
        pthread_cond_wait(&w->changed, &w->lock);
    }
    if (w->last != NULL) {
        drop(w->last);
    }
    pthread_mutex_unlock(&w->lock);
    mr_rpc_stream_unref(w->stream);
    mr_rpc_channel_free(w->channel);
}

/* Definitions never change, so a standby may give them to those who know what they want. */
static void a_standby_gives_definitions_of_known_content(void **state)
{
    mr_dispatcher *a = start();
    char *id = register_range(mr_dispatcher_address(a), 77);
    mr_dispatcher *b = start();
    Millrace__GetDatasetRequest r = MILLRACE__GET_DATASET_REQUEST__INIT;
    mr_dataset *ds = NULL;
    mr_error err;

    r.dataset_id = id;
    r.want_definition = true;
    r.fingerprint = id; /* which is its id, too */
    Millrace__GetDatasetReply *reply = CALL(mr_dispatcher_address(b), GetDataset, get_dataset, &r);

    assert_false(reply->header->not_leader);
    assert_int_equal(reply->header->code, 0);
    assert_true(reply->header->epoch == 0); /* It speaks for nobody's term. */
    assert_string_equal(reply->fingerprint, id);
    assert_int_equal(reply->cardinality, 77);
    assert_true(reply->spec.len > 0);
    assert_int_equal(mr_dataset_parse(reply->definition.data, reply->definition.len, &ds, &err),
                     MR_OK);
    assert_int_equal(mr_dataset_cardinality(ds), 77);
    mr_dataset_unref(ds);
    drop(reply);

    /* Other content, or no dataset at all: only the leader may deny that. */
    const char *const wrong[][2] = {{id, NOBODY}, {"none", id}};

    for (size_t i = 0; i < 2; i++) {
        r.dataset_id = (char *)(uintptr_t)wrong[i][0];
        r.fingerprint = (char *)(uintptr_t)wrong[i][1];
        bool told = false;

        for (int64_t until = mr_now_ms() + PATIENCE_MS; !told && mr_now_ms() < until;) {
            reply = (Millrace__GetDatasetReply *)try_call(
                mr_dispatcher_address(b), "GetDataset", &r.base,
                &millrace__get_dataset_reply__descriptor, &err);
            assert_non_null(reply);
            assert_true(reply->header->not_leader);
            told = reply->header->leader[0] != '\0'; /* It may have to find out. */
            if (!told) {
                drop(reply);
            }
        }
        assert_true(told);
        assert_string_equal(reply->header->leader, mr_dispatcher_address(a));
        drop(reply);
    }
    mr_free(id);
    mr_dispatcher_free(b);
    mr_dispatcher_free(a);
}

static void a_watch_is_told_of_changes(void **state)
{
    mr_dispatcher *d = start();
    const char *address = mr_dispatcher_address(d);
    char *id = register_range(address, 100);
    Millrace__OpenReply *job = open_job(address, id, "train");
    Millrace__WatchClientRequest r = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    Millrace__WatchWorkerRequest here = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    struct watcher w, other;

    assert_string_equal(job->header->message, "");
    r.header = said_by(&client);
    r.client = client.id;
    r.iteration_id = job->iteration_id;
    watch(&w, address, "WatchClient", &r.base);
    pthread_mutex_lock(&w.lock);
    while (w.updates == 0 && !w.ended) {
        pthread_cond_wait(&w.changed, &w.lock);
    }
    assert_false(w.ended);
    assert_int_equal(w.last->n_tasks, 0);
    pthread_mutex_unlock(&w.lock);

    register_worker(address); /* A worker comes: there is a task now, without anybody asking. */
    here.header = said_by(&worker);
    here.incarnation = worker.id;
    watch(&other, address, "WatchWorker", &here.base);
    pthread_mutex_lock(&w.lock);
    while (w.last->n_tasks == 0 && !w.ended) {
        pthread_cond_wait(&w.changed, &w.lock);
    }
    assert_false(w.ended);
    assert_string_equal(w.last->tasks[0]->worker_incarnation, worker.id);
    assert_true(w.last->header->epoch > 0);
    pthread_mutex_unlock(&w.lock);

    mr_dispatcher_free(d); /* Ends with the leader. */
    end_watch(&w);
    end_watch(&other);
    drop(job);
    mr_free(id);
}

/* ---- a leader that dies ---- */

/* A dispatcher in a process of its own; its address comes through a pipe. Nothing of gRPC may be
 * open in this one. */
static pid_t start_process(char address[64])
{
    int fds[2];

    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();

    if (pid == 0) {
        struct mr_dispatcher_options o = {.listen = "127.0.0.1:0",
                                          .etcd_endpoints = mr_test_etcd_endpoint(etcd),
                                          .cluster = cluster,
                                          .lease_ttl_ms = LONG_LEASE_MS};
        mr_dispatcher *d = NULL;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(fds[0]);
        mr_error err;

        if (mr_dispatcher_start(&o, &d, &err) < 0) {
            fprintf(stderr, "%s\n", err.message);
            _exit(1);
        }
        dprintf(fds[1], "%s", mr_dispatcher_address(d));
        close(fds[1]);
        for (;;) {
            pause();
        }
    }
    close(fds[1]);
    ssize_t n = read(fds[0], address, 63);

    close(fds[0]);
    assert_true(n > 0);
    address[n] = '\0';
    return pid;
}

static void a_killed_leader_is_replaced_before_its_lease_ends(void **state)
{
    char address[2][64];
    pid_t pids[2];
    int leader = -1;
    int64_t until = mr_now_ms() + PATIENCE_MS;
    Millrace__StatusRequest r = MILLRACE__STATUS_REQUEST__INIT;
    mr_error err;

    for (int i = 0; i < 2; i++) {
        pids[i] = start_process(address[i]);
    }
    assert_int_equal(mr_rpc_acquire(&rpc, NULL), MR_OK);
    for (bool settled = false; !settled && mr_now_ms() < until;) {
        settled = leader >= 0;
        for (int i = 0; i < 2; i++) {
            Millrace__StatusReply *reply = (Millrace__StatusReply *)try_call(
                address[i], "Status", &r.base, &millrace__status_reply__descriptor, &err);

            assert_non_null(reply);
            leader = reply->header->not_leader ? leader : i;
            settled =
                settled && (i == leader || strcmp(reply->header->leader, address[leader]) == 0);
            drop(reply);
        }
    }
    assert_true(leader >= 0);
    char *id = register_range(address[leader], 10);

    usleep(1200000); /* min_tenure: a term younger than a second is not ended by force */
    kill(pids[leader], SIGKILL);
    int64_t killed = mr_now_ms();

    waitpid(pids[leader], NULL, 0);
    Millrace__GetDatasetRequest get = MILLRACE__GET_DATASET_REQUEST__INIT;

    get.dataset_id = id;
    Millrace__GetDatasetReply *got = CALL(address[1 - leader], GetDataset, get_dataset, &get);
    int64_t took = mr_now_ms() - killed;

    assert_int_equal(got->header->code, MR_OK);
    print_message("failover in %lld ms\n", (long long)took);
    static_assert(PATIENCE_MS < LONG_LEASE_MS, "an answer shows that the lease was not waited for");
    drop(got);
    kill(pids[1 - leader], SIGKILL);
    waitpid(pids[1 - leader], NULL, 0);
    mr_free(id);
}

static void etcd_may_be_away_for_a_while(void **state)
{
    mr_dispatcher *d = start();
    char *id = register_range(mr_dispatcher_address(d), 10);

    mr_test_etcd_kill(etcd, 0);
    assert_true(mr_test_etcd_restart(etcd, 0));
    assert_true(mr_test_etcd_ready(etcd));
    char *other = register_range(mr_dispatcher_address(d), 11);

    assert_string_not_equal(id, other);
    mr_dispatcher_free(d);
    mr_free(id);
    mr_free(other);
}

static void state_of_a_newer_version_is_refused(void **state)
{
    char key[64];
    const char *const args[] = {
        "put", key, "{\"version\":9,\"minReader\":9,\"createdBy\":\"millrace 9\"}", NULL};
    const char *const undo[] = {"del", key, NULL}; /* what is judged at the end is this version's */
    mr_error err = {0};
    int64_t until = mr_now_ms() + PATIENCE_MS;

    (void)snprintf(key, sizeof key, "/millrace/%s/schema", cluster);
    assert_int_equal(mr_test_etcdctl(etcd, args), 0);
    mr_dispatcher *d = start();

    while (mr_dispatcher_health(d, &err) == MR_OK && mr_now_ms() < until) {
        usleep(10000);
    }
    assert_int_equal(err.code, MR_EPRECOND);
    assert_non_null(strstr(err.message, "millrace 9"));
    mr_dispatcher_free(d);
    assert_int_equal(mr_test_etcdctl(etcd, undo), 0);
}

static void bad_options_are_named(void **state)
{
    struct mr_dispatcher_options o = {
        .etcd_endpoints = "127.0.0.1:1", .lease_ttl_ms = 1500, .listen = "127.0.0.1:0"};
    static const char *const no_endpoints[] = {"nonsense", "localhost:99999",
                                               "https://localhost:etcd", "unix:/x:1"};
    mr_dispatcher *d = NULL;
    mr_error err;

    assert_int_equal(mr_dispatcher_start(&o, &d, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "--lease-ttl 1500 ms: whole seconds"));
    o.lease_ttl_ms = 0;
    o.cluster = "No Good";
    assert_int_equal(mr_dispatcher_start(&o, &d, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "cluster"));
    o.cluster = NULL;
    for (size_t i = 0; i < sizeof no_endpoints / sizeof no_endpoints[0]; i++) {
        o.etcd_endpoints = no_endpoints[i];
        assert_int_equal(mr_dispatcher_start(&o, &d, &err), MR_EINVAL);
        assert_non_null(strstr(err.message, "host:port is wanted"));
        assert_non_null(strstr(err.message, no_endpoints[i]));
    }

    /* An etcd that is not there is no error: it may come. */
    o.etcd_endpoints = "127.0.0.1:1";
    assert_int_equal(mr_dispatcher_start(&o, &d, &err), MR_OK);
    mr_dispatcher_free(d);
}

int main(void)
{
    mr_identity_draw(&worker);
    mr_identity_draw(&client);

    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_killed_leader_is_replaced_before_its_lease_ends,
                                        new_cluster_without_rpc, check_state),
        cmocka_unit_test_setup_teardown(a_dataset_survives_its_dispatcher, new_cluster,
                                        check_state),
        cmocka_unit_test_setup_teardown(a_large_definition_is_kept_in_parts, new_cluster,
                                        check_state),
        cmocka_unit_test_setup_teardown(many_large_definitions_wait_for_each_other, new_cluster,
                                        check_state),
        cmocka_unit_test_setup_teardown(a_standby_sends_callers_to_the_leader, new_cluster,
                                        check_state),
        cmocka_unit_test_setup_teardown(a_standby_gives_definitions_of_known_content, new_cluster,
                                        check_state),
        cmocka_unit_test_setup_teardown(a_watch_is_told_of_changes, new_cluster, check_state),
        cmocka_unit_test_setup_teardown(etcd_may_be_away_for_a_while, new_cluster, check_state),
        cmocka_unit_test_setup_teardown(state_of_a_newer_version_is_refused, new_cluster,
                                        check_state),
        cmocka_unit_test_setup_teardown(bad_options_are_named, new_cluster, check_state),
    };
    int failed;

    if (!mr_test_etcd_exists()) {
        fprintf(stderr, "SKIPPED: there is no /usr/bin/etcd\n");
        return 77;
    }
    etcd = mr_test_etcd_start();
    if (etcd == NULL) {
        return 1;
    }
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (rpc != NULL) {
        mr_rpc_release(rpc);
    }
    mr_test_etcd_stop(etcd);
    return failed;
}
