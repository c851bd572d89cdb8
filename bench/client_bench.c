/*
 * The client alone, with as many workers as asked for. Dispatcher and workers are a process beside
 * it that answers and sends as little as it can, each element in a message of its own; every worker
 * has an address, so the client has a connection to each. One line of JSON for each number of
 * workers, of the client's process alone:
 *
 *     connect      until every worker has delivered, time for each
 *     element      CPU time for each element that is read, and the time on the clock beside it
 *     replace      CPU time for each worker that goes while another one comes, a tenth of them at a
 *                  time; of each worker one element is read then
 *     heap, fds    memory in use and descriptors before those rounds and after them
 *     close        until the reader is gone
 *
 *     client_bench [WORKERS ...]
 */
#include "base/alloc.h"
#include "base/error.h"
#include "client/reader.h"
#include "element/frame.h"
#include "rpc/rpc.h"
#include "tests/support/unary.h"

#include <millrace/base.h>

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ELEMENTS 200000u
/* elements of each worker before those that count: credits begin with two elements */
#define WARM 50u
/* elements of each worker that may wait: equally many messages for each element, whatever
 * their number */
#define AHEAD 16u
#define ROUNDS 20u
#define LONG_MS 120000
#define ID_BYTES 48
#define GO "/millrace.Bench/Go"
#define REPLACE "/millrace.Bench/Replace"

static _Noreturn void die(const char *what, const mr_error *err)
{
    (void)fprintf(stderr, "client_bench: %s: %s\n", what,
                  err == NULL ? strerror(errno) : err->message);
    _exit(1);
}

static void check(const char *what, int rc, const mr_error *err)
{
    if (rc < 0) {
        die(what, err);
    }
}

/* ---------------------------------------------------------------- the service */

/* Its callbacks all come on rpc's thread. */
struct service {
    unsigned workers;
    int port;
    mr_rpc_stream *watcher;
    bool watcher_busy;
    uint64_t version;
    unsigned *generations; /* of each worker's place: it is the n-th that has it */
    unsigned next;         /* place whose worker is replaced next */
    bool loud;             /* workers send more than their first element */
    LIST_HEAD(, sender) senders;
};

/* A worker's stream. */
struct sender {
    LIST_ENTRY(sender) link;
    const struct service *service;
    mr_rpc_stream *stream;
    char task[ID_BYTES];
    char incarnation[ID_BYTES];
    int64_t value;
    uint64_t session;
    uint64_t cursor;
    uint64_t limit;
    bool sending;
};

static void name_task(char out[ID_BYTES], unsigned place, unsigned generation)
{
    (void)snprintf(out, ID_BYTES, "t/%u/%u", place, generation);
}

static void send_one(struct sender *s)
{
    Millrace__ReadHeader h = MILLRACE__READ_HEADER__INIT;
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    struct mr_rpc_slice slices[16];
    mr_block *block = NULL;
    mr_frame *frame = NULL;
    size_t n = 0;
    mr_error err;

    h.worker_incarnation = s->incarnation;
    h.task_id = s->task;
    h.session = s->session;
    h.first_element = s->cursor++;
    h.elements = 1;
    check("block", mr_block_alloc(1, &leaf, 1, &block, &err), &err);
    memcpy(mr_block_data(block, 0), &s->value, sizeof s->value);
    check("frame", mr_frame_build(&h, &(struct mr_part){.block = block}, 1, 0, false, &frame, &err),
          &err);
    const struct iovec *iov = mr_frame_iov(frame, &n);
    for (size_t i = 0; i < n && i < 16; i++) {
        slices[i] = (struct mr_rpc_slice){.data = iov[i].iov_base,
                                          .size = iov[i].iov_len,
                                          .release = mr_frame_unref,
                                          .ctx = mr_frame_ref(frame)};
    }
    s->sending = mr_rpc_stream_send(s->stream, slices, n, false, NULL) == MR_OK;
    mr_frame_unref(frame);
    mr_block_unref(block);
}

static void pump(struct sender *s)
{
    if (!s->sending && s->cursor < s->limit && (s->cursor == 0 || s->service->loud)) {
        send_one(s);
    }
}

static void *copy_message(mr_rpc_message *m, size_t *size)
{
    *size = mr_rpc_message_size(m);
    void *bytes = mr_malloc(*size + 1);

    if (bytes == NULL) {
        die("message", NULL);
    }
    mr_rpc_message_copy(m, 0, *size, bytes);
    mr_rpc_message_free(m);
    return bytes;
}

static void read_message(void *ctx, mr_rpc_stream *stream, mr_rpc_message *m)
{
    struct sender *s = ctx;
    size_t size;
    void *bytes = copy_message(m, &size);
    Millrace__ReadRequest *r = millrace__read_request__unpack(NULL, size, bytes);
    unsigned place = 0, generation = 0;

    mr_free(bytes);
    if (r->open != NULL) {
        (void)snprintf(s->task, sizeof s->task, "%s", r->open->task_id);
        (void)snprintf(s->incarnation, sizeof s->incarnation, "%s", r->open->worker_incarnation);
        (void)sscanf(s->task, "t/%u/%u", &place, &generation);
        s->value = (int64_t)generation << 32 | place;
        s->session = r->open->session;
        s->cursor = r->open->resume_from;
    }
    s->limit = r->limit_elements;
    if (r->done) {
        mr_rpc_stream_finish(stream, MR_OK, NULL);
    } else {
        mr_rpc_stream_receive(stream);
        pump(s);
    }
    millrace__read_request__free_unpacked(r, NULL);
}

static void read_sent(void *ctx, mr_rpc_stream *stream)
{
    struct sender *s = ctx;

    s->sending = false;
    pump(s);
}

static void read_ended(void *ctx, mr_rpc_stream *stream, int rc, const mr_error *err)
{
    LIST_REMOVE((struct sender *)ctx, link);
    mr_rpc_stream_unref(stream);
    mr_free(ctx);
}

static const struct mr_rpc_stream_ops read_ops = {read_message, read_sent, read_ended};

static void read_accept(void *ctx, mr_rpc_stream *stream)
{
    struct sender *s = mr_calloc(1, sizeof *s);

    if (s == NULL) {
        die("stream", NULL);
    }
    s->service = ctx;
    LIST_INSERT_HEAD(&((struct service *)ctx)->senders, s, link);
    s->stream = stream;
    mr_rpc_stream_accept(stream, &read_ops, s);
    mr_rpc_stream_receive(stream);
}

/* The tasks of @n places from @first on: as they are, or @lost and followed by those that come
 * instead. */
static void tell(struct service *v, unsigned first, unsigned n, bool replaced)
{
    Millrace__ClientUpdate u = MILLRACE__CLIENT_UPDATE__INIT;
    Millrace__ReplyHeader header = MILLRACE__REPLY_HEADER__INIT;
    size_t each = replaced ? 2 : 1;
    Millrace__TaskInfo *infos = mr_calloc(n * each, sizeof *infos);
    char(*names)[3][ID_BYTES] = mr_calloc(n * each, sizeof *names);

    u.tasks = mr_calloc(n * each, sizeof *u.tasks);
    if (infos == NULL || names == NULL || u.tasks == NULL || v->watcher == NULL ||
        v->watcher_busy) {
        die("task list", NULL);
    }
    for (size_t i = 0; i < n * each; i++) {
        unsigned place = (first + (unsigned)(i / each)) % v->workers;
        bool lost = replaced && i % 2 == 0;

        millrace__task_info__init(&infos[i]);
        v->generations[place] += replaced && !lost;
        name_task(names[i][0], place, v->generations[place]);
        (void)snprintf(names[i][1], ID_BYTES, "127.0.%u.%u:%d", place / 250, 1 + place % 250,
                       v->port);
        (void)snprintf(names[i][2], ID_BYTES, "w-%u-%u", place, v->generations[place]);
        infos[i].task_id = names[i][0];
        infos[i].worker_address = names[i][1];
        infos[i].worker_incarnation = names[i][2];
        infos[i].lost = lost;
        u.tasks[u.n_tasks++] = &infos[i];
    }
    header.epoch = 1;
    u.header = &header;
    u.follows = replaced ? v->version : 0;
    u.version = ++v->version;
    size_t size = millrace__client_update__get_packed_size(&u);
    struct mr_rpc_slice slice = {.data = mr_malloc(size), .size = size};
    (void)millrace__client_update__pack(&u, (uint8_t *)(uintptr_t)slice.data);
    v->watcher_busy = mr_rpc_stream_send(v->watcher, &slice, 1, false, NULL) == MR_OK;
    mr_free((void *)(uintptr_t)slice.data);
    mr_free(u.tasks);
    mr_free(names);
    mr_free(infos);
}

static void watch_message(void *ctx, mr_rpc_stream *stream, mr_rpc_message *m)
{
    struct service *v = ctx;

    mr_rpc_message_free(m);
    v->watcher = stream;
    v->watcher_busy = false;
    tell(v, 0, v->workers, false);
}

static void watch_sent(void *ctx, mr_rpc_stream *stream)
{
    struct service *v = ctx;

    v->watcher_busy = v->watcher_busy && v->watcher != stream;
}

static void watch_ended(void *ctx, mr_rpc_stream *stream, int rc, const mr_error *err)
{
    struct service *v = ctx;

    v->watcher = v->watcher == stream ? NULL : v->watcher;
    mr_rpc_stream_unref(stream);
}

static const struct mr_rpc_stream_ops watch_ops = {watch_message, watch_sent, watch_ended};

static void watch_accept(void *ctx, mr_rpc_stream *stream)
{
    mr_rpc_stream_accept(stream, &watch_ops, ctx);
    mr_rpc_stream_receive(stream);
}

static void answer(mr_rpc_request *req, const ProtobufCMessage *reply)
{
    uint8_t bytes[512];

    mr_rpc_reply(req, MR_OK, NULL, bytes, protobuf_c_message_pack(reply, bytes));
}

static void on_open(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    Millrace__OpenReply reply = MILLRACE__OPEN_REPLY__INIT;
    Millrace__ReplyHeader header = MILLRACE__REPLY_HEADER__INIT;

    header.epoch = 1;
    reply.header = &header;
    reply.job_id = (char[]){"job"};
    reply.iteration_id = (char[]){"iteration"};
    answer(req, &reply.base);
}

static void on_heartbeat(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    Millrace__ClientHeartbeatReply reply = MILLRACE__CLIENT_HEARTBEAT_REPLY__INIT;
    Millrace__ReplyHeader header = MILLRACE__REPLY_HEADER__INIT;

    header.epoch = 1;
    reply.header = &header;
    answer(req, &reply.base);
}

static void on_release(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    Millrace__ReleaseClientReply reply = MILLRACE__RELEASE_CLIENT_REPLY__INIT;
    Millrace__ReplyHeader header = MILLRACE__REPLY_HEADER__INIT;

    header.epoch = 1;
    reply.header = &header;
    answer(req, &reply.base);
}

static void on_go(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    struct service *v = ctx;
    struct sender *s;

    v->loud = true;
    LIST_FOREACH(s, &v->senders, link) {
        pump(s);
    }
    mr_rpc_reply(req, MR_OK, NULL, "", 0);
}

/* A tenth of the workers are lost, and as many come. */
static void on_replace(void *ctx, mr_rpc_request *req, const void *bytes, size_t size)
{
    struct service *v = ctx;
    unsigned n = v->workers / 10;

    v->loud = false;
    tell(v, v->next, n, true);
    v->next = (v->next + n) % v->workers;
    mr_rpc_reply(req, MR_OK, NULL, "", 0);
}

static _Noreturn void serve(unsigned workers, int told)
{
    struct service v = {.workers = workers, .generations = mr_calloc(workers, sizeof(unsigned))};
    struct mr_rpc_limits limits = {.memory_bytes = (size_t)1 << 30,
                                   .silent_calls = 2 * workers + 1000};
    mr_rpc_runtime *rt = NULL;
    mr_rpc_server *srv = NULL;
    mr_error err;

    check("runtime", mr_rpc_acquire(&rt, &err), &err);
    check("server", mr_rpc_server_new(rt, &limits, &srv, &err), &err);
    check("server", mr_rpc_server_unary(srv, "/millrace.Dispatcher/Open", 65536, on_open, &v, &err),
          &err);
    check("server",
          mr_rpc_server_unary(srv, "/millrace.Dispatcher/ClientHeartbeat", 65536, on_heartbeat, &v,
                              &err),
          &err);
    check(
        "server",
        mr_rpc_server_unary(srv, "/millrace.Dispatcher/ReleaseClient", 65536, on_release, &v, &err),
        &err);
    check("server", mr_rpc_server_unary(srv, GO, 65536, on_go, &v, &err), &err);
    check("server", mr_rpc_server_unary(srv, REPLACE, 65536, on_replace, &v, &err), &err);
    check("server",
          mr_rpc_server_stream(srv, "/millrace.Dispatcher/WatchClient", watch_accept, &v, &err),
          &err);
    check("server", mr_rpc_server_stream(srv, "/millrace.Worker/Read", read_accept, &v, &err),
          &err);
    check("listening", mr_rpc_server_listen(srv, "0.0.0.0:0", NULL, &v.port, &err), &err);
    check("server", mr_rpc_server_start(srv, &err), &err);
    if (write(told, &v.port, sizeof v.port) != (ssize_t)sizeof v.port) {
        die("pipe", NULL);
    }
    for (;;) {
        (void)pause(); /* until it is killed */
    }
}

/* ---------------------------------------------------------------- the client */

struct client {
    unsigned workers;
    mr_reader *reader;
    unsigned *generations; /* of each place, the newest that has delivered */
};

static double clock_s(clockid_t clock)
{
    struct timespec ts;

    (void)clock_gettime(clock, &ts);
    return (double)ts.tv_sec + 1e-9 * (double)ts.tv_nsec;
}

static unsigned count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    unsigned n = 0;

    while (dir != NULL && readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

static double heap_mib(void)
{
    struct mallinfo2 m = mallinfo2();

    return (double)(m.uordblks + m.hblkhd) / (1 << 20);
}

static struct mr_read_options options(unsigned workers, int port)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    char service[64];
    mr_error err;

    (void)snprintf(service, sizeof service, "127.0.0.1:%d", port);
    struct mr_read_options opts = {.service = mr_strdup(service),
                                   .job_name = mr_strdup(""),
                                   .trainer = mr_strdup(""),
                                   .compression = "NONE",
                                   .target_workers = "AUTO",
                                   .max_outstanding = (uint64_t)AHEAD * workers,
                                   .connect_timeout_ms = LONG_MS,
                                   .heartbeat_ms = 5000,
                                   .dataset_id = mr_strdup("numbers")};

    check("spec", mr_spec_new(&leaf, 1, NULL, &opts.spec, &err), &err);
    return opts;
}

/* Elements of one block; of a worker whose element is the first, true. */
static unsigned pull(struct client *c, bool *is_new)
{
    mr_block *block = NULL;
    mr_error err = {0};
    int rc = mr_reader_pull(c->reader, (struct mr_want){.rows_max = 1024}, LONG_MS, &block, &err);

    if (rc != MR_OK) {
        (void)fprintf(stderr, "client_bench: reading: %d\n", rc);
        die("reading", &err);
    }
    int64_t value;
    unsigned rows = mr_block_rows(block);
    memcpy(&value, mr_block_column(block, 0)->data, sizeof value);
    unsigned place = (unsigned)(value & 0xffffffff), generation = (unsigned)(value >> 32) + 1;
    *is_new = generation > c->generations[place];
    c->generations[place] = generation > c->generations[place] ? generation : c->generations[place];
    mr_block_unref(block);
    return rows;
}

static void pull_new(struct client *c, unsigned n)
{
    bool is_new;

    while (n > 0) {
        (void)pull(c, &is_new);
        n -= is_new;
    }
}

static void ask(mr_rpc_channel *channel, const char *method)
{
    size_t size = 0;
    void *reply = NULL;
    mr_error err;

    check(method,
          mr_rpc_unary_wait(channel, method, "", 0, NULL, LONG_MS, true, &reply, &size, &err),
          &err);
    mr_free(reply);
}

static void replace(struct client *c, mr_rpc_channel *channel)
{
    ask(channel, REPLACE);
    pull_new(c, c->workers / 10);
}

static _Noreturn void run(unsigned workers, int port)
{
    struct client c = {.workers = workers, .generations = mr_calloc(workers, sizeof(unsigned))};
    struct mr_read_options opts = options(workers, port);
    mr_rpc_runtime *rt = NULL;
    mr_rpc_channel *channel = NULL;
    mr_error err;
    char address[64];
    bool is_new;
    unsigned n = 0;

    (void)snprintf(address, sizeof address, "127.0.0.1:%d", port);
    mr_rpc_keep_forkable(); /* as every client does: gRPC's poll engine */
    check("runtime", mr_rpc_acquire(&rt, &err), &err);
    check("channel", mr_rpc_channel_new(rt, address, NULL, &channel, &err), &err);
    double from = clock_s(CLOCK_MONOTONIC);
    check("reader", mr_reader_open(&opts, &c.reader, &err), &err);
    pull_new(&c, workers);
    printf("{\"workers\": %u, \"connect_us\": %.0f, ", workers,
           1e6 * (clock_s(CLOCK_MONOTONIC) - from) / workers);
    ask(channel, GO);
    while (n < WARM * workers) {
        n += pull(&c, &is_new);
    }
    n = 0;
    double cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    from = clock_s(CLOCK_MONOTONIC);
    while (n < ELEMENTS) {
        n += pull(&c, &is_new);
    }
    printf("\"element_us\": %.2f, \"element_clock_us\": %.2f, ",
           1e6 * (clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu) / n,
           1e6 * (clock_s(CLOCK_MONOTONIC) - from) / n);
    for (unsigned i = 0; i < 10; i++) {
        replace(&c, channel); /* what was on its way before is read, and everybody is another one */
    }
    double before = heap_mib();
    unsigned fds = count_fds();
    cpu = clock_s(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned i = 0; i < ROUNDS; i++) {
        replace(&c, channel);
    }
    unsigned replaced = ROUNDS * (workers / 10);
    printf("\"replace_us\": %.0f, \"heap_mib\": [%.1f, %.1f], \"fds\": [%u, %u], ",
           1e6 * (clock_s(CLOCK_PROCESS_CPUTIME_ID) - cpu) / replaced, before, heap_mib(), fds,
           count_fds());
    from = clock_s(CLOCK_MONOTONIC);
    mr_reader_close(c.reader);
    printf("\"close_ms\": %.0f}\n", 1e3 * (clock_s(CLOCK_MONOTONIC) - from));
    (void)fflush(stdout);
    mr_rpc_channel_free(channel);
    _exit(0);
}

/* ---------------------------------------------------------------- both */

static void measure(unsigned workers)
{
    int told[2];
    int port = 0;
    int status = 0;

    if (pipe(told) != 0) {
        die("pipe", NULL);
    }
    pid_t service = fork();
    if (service == 0) {
        serve(workers, told[1]);
    }
    (void)close(told[1]);
    if (service < 0 || read(told[0], &port, sizeof port) != (ssize_t)sizeof port) {
        die("service", NULL);
    }
    (void)close(told[0]);
    pid_t client = fork();
    if (client == 0) {
        run(workers, port);
    }
    (void)waitpid(client, &status, 0);
    (void)kill(service, SIGKILL);
    (void)waitpid(service, NULL, 0);
    if (status != 0) {
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const unsigned usual[] = {100, 1000};
    struct rlimit files;

    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    for (size_t i = 0; argc == 1 && i < sizeof usual / sizeof usual[0]; i++) {
        measure(usual[i]);
    }
    for (int i = 1; i < argc; i++) {
        long n = strtol(argv[i], NULL, 10);

        if (n < 10 || n > 60000) {
            (void)fprintf(stderr, "usage: client_bench [WORKERS ...]: each 10 to 60000\n");
            return 2;
        }
        measure((unsigned)n);
    }
    return 0;
}
