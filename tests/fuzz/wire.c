#include "wire.h"

#include "base/clock.h"
#include "base/sync.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <time.h>

#define SETTLE_ROUNDS_MAX 50
#define SETTLE_NS 200000
#define TAKEN_MS 200

#define NEVER(...)                                                                                 \
    do {                                                                                           \
        fprintf(stderr, "fuzz: " __VA_ARGS__);                                                     \
        fputc('\n', stderr);                                                                       \
        abort();                                                                                   \
    } while (0)

struct mr_rpc_runtime {
    unsigned users;
};

struct mr_rpc_channel {
    mr_rpc_runtime *rt;
};

struct mr_rpc_message {
    TAILQ_ENTRY(mr_rpc_message) link;
    size_t size;
    unsigned char bytes[];
};

struct mr_rpc_call {
    unsigned refs; /* lock, as all below */
    bool over;
    bool cancelled;
    mr_rpc_done *done;
    void *ctx;
};

struct mr_rpc_stream {
    unsigned refs; /* lock, as all below; without ours */
    bool asked;
    bool sending;
    bool over; /* `ended` is on its way, or has run */
    TAILQ_HEAD(, mr_rpc_message) inbox;
    const struct mr_rpc_stream_ops *ops; /* NULL: not accepted */
    void *ctx;
    _Atomic(void *) note; /* a callback may set it on any thread */
    char path[64];
};

enum event_kind { CALL_DONE, ACCEPTED, MESSAGE, SENT, ENDED };

struct event {
    TAILQ_ENTRY(event) link;
    enum event_kind kind;
    mr_rpc_call *call;
    mr_rpc_stream *stream;
    mr_rpc_message *message;
    struct mr_buf reply;
    int code;
};

struct mr_rpc_server {
    mr_rpc_runtime *rt;
    mr_rpc_accept *accept;
    void *ctx;
    char path[64];
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct wire_ops ops;
    mr_rpc_runtime runtime;
    mr_rpc_server *server;
    TAILQ_HEAD(, event) events;
    mr_rpc_stream **streams;
    size_t nstreams;
    unsigned channels;
    unsigned calls;    /* not over */
    unsigned activity; /* events so far */
    bool running;      /* a callback is */
    bool closing;
} wire;

/* ---- the thread ---- */

static void post_locked(struct event what)
{
    struct event *e = malloc(sizeof *e);

    if (e == NULL) {
        abort();
    }
    *e = what;
    TAILQ_INSERT_TAIL(&wire.events, e, link);
    wire.activity++;
    (void)pthread_cond_broadcast(&wire.changed);
}

static void hand_over_locked(mr_rpc_stream *s)
{
    mr_rpc_message *m = TAILQ_FIRST(&s->inbox);

    if (m != NULL && s->asked && !s->over) {
        s->asked = false;
        TAILQ_REMOVE(&s->inbox, m, link);
        post_locked((struct event){.kind = MESSAGE, .stream = s, .message = m});
    }
}

static void end_locked(mr_rpc_stream *s, int code)
{
    if (!s->over) {
        s->over = true;
        post_locked((struct event){.kind = ENDED, .stream = s, .code = code});
    }
}

static void unref_call_locked(mr_rpc_call *call)
{
    if (--call->refs == 0) {
        free(call);
    }
}

static void run(struct event *e)
{
    mr_rpc_stream *s = e->stream;
    mr_error err = {0};

    if (e->code < 0) {
        (void)mr_error_set(&err, e->code, "the other end says so");
    }
    switch (e->kind) {
    case CALL_DONE:
        e->call->done(e->call->ctx, e->code, e->reply.data, e->reply.len,
                      e->code < 0 ? &err : NULL);
        break;
    case ACCEPTED: wire.server->accept(wire.server->ctx, s); break;
    case MESSAGE: s->ops->message(s->ctx, s, e->message); break;
    case SENT:
        mr_mutex_lock(&wire.lock);
        s->sending = false;
        mr_mutex_unlock(&wire.lock);
        if (s->ops->sent != NULL) {
            s->ops->sent(s->ctx, s);
        }
        break;
    case ENDED:
        if (s->ops != NULL) {
            s->ops->ended(s->ctx, s, e->code, e->code < 0 ? &err : NULL);
        }
        break;
    }
}

static void *thread_main(void *arg)
{
    mr_mutex_lock(&wire.lock);
    for (;;) {
        struct event *e = TAILQ_FIRST(&wire.events);

        if (e == NULL && wire.closing) {
            break;
        }
        if (e == NULL) {
            mr_cond_wait(&wire.changed, &wire.lock);
            continue;
        }
        TAILQ_REMOVE(&wire.events, e, link);
        wire.running = true;
        mr_mutex_unlock(&wire.lock);
        run(e);
        mr_mutex_lock(&wire.lock);
        wire.running = false;
        if (e->call != NULL) {
            wire.calls--;
            unref_call_locked(e->call);
        }
        mr_buf_free(&e->reply);
        free(e);
        (void)pthread_cond_broadcast(&wire.changed);
    }
    mr_mutex_unlock(&wire.lock);
    return NULL;
}

/* ---- the target's side ---- */

void wire_open(const struct wire_ops *ops)
{
    memset(&wire, 0, sizeof wire);
    wire.ops = *ops;
    TAILQ_INIT(&wire.events);
    mr_mutex_init(&wire.lock);
    mr_cond_init(&wire.changed);
    if (mr_thread_start(&wire.thread, "wire", thread_main, NULL, NULL) < 0) {
        abort();
    }
}

void wire_close(void)
{
    mr_mutex_lock(&wire.lock);
    wire.closing = true;
    (void)pthread_cond_broadcast(&wire.changed);
    mr_mutex_unlock(&wire.lock);
    (void)pthread_join(wire.thread, NULL);
    if (wire.runtime.users > 0 || wire.channels > 0 || wire.calls > 0 || wire.server != NULL) {
        NEVER("left: %u users, %u channels, %u calls, or the server", wire.runtime.users,
              wire.channels, wire.calls);
    }
    for (size_t i = 0; i < wire.nstreams; i++) {
        mr_rpc_stream *s = wire.streams[i];
        mr_rpc_message *m;

        if (s->refs > 0 || !s->over) {
            NEVER("stream %zu (%s) is left", i, s->path);
        }
        while ((m = TAILQ_FIRST(&s->inbox)) != NULL) {
            TAILQ_REMOVE(&s->inbox, m, link);
            free(m);
        }
        free(s);
    }
    free(wire.streams);
    (void)pthread_cond_destroy(&wire.changed);
    (void)pthread_mutex_destroy(&wire.lock);
}

static mr_rpc_stream *add_stream_locked(const char *path)
{
    mr_rpc_stream *s = calloc(1, sizeof *s);
    mr_rpc_stream **streams = realloc(wire.streams, (wire.nstreams + 1) * sizeof(mr_rpc_stream *));

    if (s == NULL || streams == NULL) {
        abort();
    }
    s->refs = 1; /* the opener's, or the accept callback's */
    TAILQ_INIT(&s->inbox);
    (void)snprintf(s->path, sizeof s->path, "%s", path);
    wire.streams = streams;
    streams[wire.nstreams++] = s;
    return s;
}

mr_rpc_stream *wire_stream(size_t i)
{
    MR_LOCK(&wire.lock);
    return i < wire.nstreams ? wire.streams[i] : NULL;
}

const char *wire_path(const mr_rpc_stream *s)
{
    return s->path;
}

static mr_rpc_stream *last_locked(const char *path, bool open)
{
    for (size_t i = wire.nstreams; i > 0; i--) {
        mr_rpc_stream *s = wire.streams[i - 1];

        if (strcmp(s->path, path) == 0 && !(open && s->over)) {
            return s;
        }
    }
    return NULL;
}

mr_rpc_stream *wire_last(const char *path, bool open)
{
    MR_LOCK(&wire.lock);
    return last_locked(path, open);
}

void *wire_note(mr_rpc_stream *s)
{
    return atomic_load(&s->note);
}

void wire_set_note(mr_rpc_stream *s, void *note)
{
    atomic_store(&s->note, note);
}

mr_rpc_stream *wire_accept(const char *path)
{
    MR_LOCK(&wire.lock);
    if (wire.server == NULL || strcmp(wire.server->path, path) != 0) {
        NEVER("nobody serves %s", path);
    }
    mr_rpc_stream *s = add_stream_locked(path);
    post_locked((struct event){.kind = ACCEPTED, .stream = s});
    return s;
}

void wire_message(mr_rpc_stream *s, const void *bytes, size_t size)
{
    mr_rpc_message *m = malloc(sizeof *m + size);

    if (m == NULL) {
        abort();
    }
    m->size = size;
    if (size > 0) {
        memcpy(m->bytes, bytes, size);
    }
    MR_LOCK(&wire.lock);
    TAILQ_INSERT_TAIL(&s->inbox, m, link);
    hand_over_locked(s);
}

void wire_end(mr_rpc_stream *s, int code)
{
    MR_LOCK(&wire.lock);
    end_locked(s, code);
}

void wire_settle(void)
{
    static const struct timespec moment = {.tv_nsec = SETTLE_NS};

    /* The program's own threads do not say when they have nothing more to do. */
    for (unsigned i = 0; i < SETTLE_ROUNDS_MAX; i++) {
        mr_mutex_lock(&wire.lock);
        while (!TAILQ_EMPTY(&wire.events) || wire.running) {
            mr_cond_wait(&wire.changed, &wire.lock);
        }
        unsigned before = wire.activity;
        mr_mutex_unlock(&wire.lock);
        (void)nanosleep(&moment, NULL);
        mr_mutex_lock(&wire.lock);
        bool quiet = before == wire.activity;
        mr_mutex_unlock(&wire.lock);
        if (quiet) {
            return;
        }
    }
}

void wire_wait_taken(mr_rpc_stream *s)
{
    int64_t until = mr_now_ms() + TAKEN_MS;

    MR_LOCK(&wire.lock);
    while (!s->over && !(s->asked && TAILQ_EMPTY(&s->inbox)) && mr_now_ms() < until) {
        (void)mr_cond_wait_ms(&wire.changed, &wire.lock, until - mr_now_ms());
    }
}

void wire_wait_opened(const char *path, int64_t timeout_ms)
{
    int64_t until = mr_now_ms() + timeout_ms;

    MR_LOCK(&wire.lock);
    while (last_locked(path, true) == NULL && mr_now_ms() < until) {
        (void)mr_cond_wait_ms(&wire.changed, &wire.lock, until - mr_now_ms());
    }
}

/* ---- rpc.h: runtime, messages, channels ---- */

int mr_rpc_acquire(mr_rpc_runtime **ret, mr_error *err)
{
    MR_LOCK(&wire.lock);
    wire.runtime.users++;
    *ret = &wire.runtime;
    return MR_OK;
}

void mr_rpc_release(mr_rpc_runtime *rt)
{
    MR_LOCK(&wire.lock);
    rt->users--;
}

void mr_rpc_keep_forkable(void)
{
}

size_t mr_rpc_message_size(const mr_rpc_message *m)
{
    return m->size;
}

void mr_rpc_message_copy(const mr_rpc_message *m, size_t offset, size_t n, void *dst)
{
    if (offset > m->size || n > m->size - offset) {
        NEVER("bytes of a message that it does not have");
    }
    if (n > 0) {
        memcpy(dst, m->bytes + offset, n);
    }
}

void mr_rpc_message_free(mr_rpc_message *m)
{
    free(m);
}

int mr_rpc_credentials_new(mr_rpc_runtime *rt, const struct mr_rpc_files *files,
                           mr_rpc_credentials **ret, mr_error *err)
{
    *ret = NULL;
    return MR_OK;
}

void mr_rpc_credentials_free(mr_rpc_credentials *c)
{
}

void mr_rpc_channel_show_token(mr_rpc_channel *ch)
{
}

int mr_rpc_channel_new(mr_rpc_runtime *rt, const char *address, mr_rpc_credentials *c,
                       mr_rpc_channel **ret, mr_error *err)
{
    mr_rpc_channel *ch = calloc(1, sizeof *ch);

    if (ch == NULL) {
        abort();
    }
    ch->rt = rt;
    *ret = ch;
    MR_LOCK(&wire.lock);
    wire.channels++;
    return MR_OK;
}

void mr_rpc_channel_free(mr_rpc_channel *ch)
{
    if (ch != NULL) {
        MR_LOCK(&wire.lock);
        wire.channels--;
    }
    free(ch);
}

/* ---- rpc.h: calls ---- */

int mr_rpc_unary(mr_rpc_channel *ch, const char *path, const void *request, size_t size,
                 const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                 mr_rpc_done *done, void *ctx, mr_rpc_call **ret, mr_error *err)
{
    mr_rpc_call *call = calloc(1, sizeof *call);
    struct event e = {.kind = CALL_DONE, .call = call, .reply = MR_BUF_INIT};

    if (call == NULL) {
        abort();
    }
    *call = (mr_rpc_call){.refs = 2, .done = done, .ctx = ctx};
    *ret = call;
    e.code = wire.ops.called(wire.ops.ctx, path, request, size, &e.reply);
    MR_LOCK(&wire.lock);
    wire.calls++;
    wire.activity++;
    if (e.code == MR_TIMEOUT) {
        mr_buf_free(&e.reply);
    } else {
        call->over = true;
        post_locked(e);
    }
    return MR_OK;
}

void mr_rpc_call_cancel(mr_rpc_call *call)
{
    MR_LOCK(&wire.lock);
    if (!call->over) {
        call->over = true;
        post_locked((struct event){
            .kind = CALL_DONE, .call = call, .reply = MR_BUF_INIT, .code = MR_ECANCELED});
    }
}

void mr_rpc_call_unref(mr_rpc_call *call)
{
    if (call != NULL) {
        MR_LOCK(&wire.lock);
        unref_call_locked(call);
    }
}

/* ---- rpc.h: streams ---- */

int mr_rpc_stream_open(mr_rpc_channel *ch, const char *path, const char *const *metadata,
                       int64_t timeout_ms, bool wait_for_ready, const struct mr_rpc_stream_ops *ops,
                       void *ctx, mr_rpc_stream **ret, mr_error *err)
{
    MR_LOCK(&wire.lock);
    mr_rpc_stream *s = add_stream_locked(path);
    s->ops = ops;
    s->ctx = ctx;
    wire.activity++;
    *ret = s;
    (void)pthread_cond_broadcast(&wire.changed);
    return MR_OK;
}

void mr_rpc_stream_receive(mr_rpc_stream *s)
{
    MR_LOCK(&wire.lock);
    if (s->asked) {
        NEVER("a message of %s is asked for twice", s->path);
    }
    s->asked = true;
    hand_over_locked(s);
    (void)pthread_cond_broadcast(&wire.changed);
}

static void release_slices(const struct mr_rpc_slice *slices, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (slices[i].release != NULL) {
            slices[i].release(slices[i].ctx);
        }
    }
}

int mr_rpc_stream_send(mr_rpc_stream *s, const struct mr_rpc_slice *slices, size_t n,
                       bool more_follows, mr_error *err)
{
    struct mr_buf whole = MR_BUF_INIT;
    bool over;

    for (size_t i = 0; i < n; i++) {
        mr_buf_append(&whole, slices[i].data, slices[i].size);
    }
    mr_mutex_lock(&wire.lock);
    over = s->over;
    if (!over && s->sending) {
        NEVER("two sends at once on %s", s->path);
    }
    if (!over) {
        s->sending = true;
        post_locked((struct event){.kind = SENT, .stream = s});
    }
    mr_mutex_unlock(&wire.lock);
    if (!over && wire.ops.sent != NULL) {
        wire.ops.sent(wire.ops.ctx, s, whole.data, whole.len);
    }
    mr_buf_free(&whole);
    release_slices(slices, n);
    return over ? mr_error_set(err, MR_ECANCELED, "the stream has ended") : MR_OK;
}

void mr_rpc_stream_half_close(mr_rpc_stream *s)
{
}

void mr_rpc_stream_finish(mr_rpc_stream *s, int code, const char *message)
{
    wire_end(s, MR_OK);
}

void mr_rpc_stream_cancel(mr_rpc_stream *s)
{
    wire_end(s, MR_ECANCELED);
}

mr_rpc_stream *mr_rpc_stream_ref(mr_rpc_stream *s)
{
    MR_LOCK(&wire.lock);
    s->refs++;
    return s;
}

void mr_rpc_stream_unref(mr_rpc_stream *s)
{
    if (s != NULL) {
        MR_LOCK(&wire.lock);
        if (s->refs == 0) {
            NEVER("a reference of %s too many is dropped", s->path);
        }
        if (--s->refs == 0) {
            end_locked(s, MR_ECANCELED);
        }
    }
}

const char *mr_rpc_stream_peer(mr_rpc_stream *s)
{
    return "peer";
}

const char *mr_rpc_stream_host(const mr_rpc_stream *s)
{
    return "host";
}

/* ---- rpc.h: the server ---- */

int mr_rpc_server_new(mr_rpc_runtime *rt, const struct mr_rpc_limits *limits, mr_rpc_server **ret,
                      mr_error *err)
{
    mr_rpc_server *srv = calloc(1, sizeof *srv);

    if (srv == NULL) {
        abort();
    }
    srv->rt = rt;
    *ret = srv;
    return MR_OK;
}

int mr_rpc_server_stream(mr_rpc_server *srv, const char *path, mr_rpc_accept *accept, void *ctx,
                         mr_error *err)
{
    (void)snprintf(srv->path, sizeof srv->path, "%s", path);
    srv->accept = accept;
    srv->ctx = ctx;
    return MR_OK;
}

void mr_rpc_stream_accept(mr_rpc_stream *s, const struct mr_rpc_stream_ops *ops, void *ctx)
{
    MR_LOCK(&wire.lock);
    s->ops = ops;
    s->ctx = ctx;
}

int mr_rpc_server_listen(mr_rpc_server *srv, const char *address, mr_rpc_credentials *c, int *port,
                         mr_error *err)
{
    *port = 1;
    return MR_OK;
}

int mr_rpc_server_start(mr_rpc_server *srv, mr_error *err)
{
    MR_LOCK(&wire.lock);
    wire.server = srv;
    return MR_OK;
}

void mr_rpc_server_stop(mr_rpc_server *srv, int64_t grace_ms)
{
    MR_LOCK(&wire.lock);
    for (size_t i = 0; i < wire.nstreams; i++) {
        if (strcmp(wire.streams[i]->path, srv->path) == 0) {
            end_locked(wire.streams[i], MR_ECANCELED);
        }
    }
    while (!TAILQ_EMPTY(&wire.events) || wire.running) {
        mr_cond_wait(&wire.changed, &wire.lock);
    }
    wire.server = NULL;
}

void mr_rpc_server_free(mr_rpc_server *srv)
{
    free(srv);
}

/* ---- no patience ---- */

int64_t __wrap_mr_backoff_ms(uint32_t attempt, int64_t base_ms, int64_t max_ms, uint64_t random);

int64_t __wrap_mr_backoff_ms(uint32_t attempt, int64_t base_ms, int64_t max_ms, uint64_t random)
{
    return 1;
}
