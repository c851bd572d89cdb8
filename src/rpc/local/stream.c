/*
 * Streams: two ends, of which each has an inbox.
 *
 * Happy path: server.c makes both ends; a message leaves its sender as a parcel of slices, is
 * copied into the inbox of the other end by the thread when there is room (then `sent`), and goes
 * from there to `message` when it was asked for; stream_finish() waits for the parcel and leaves a
 * status, which the client gets when its inbox is empty.
 *
 * Everything else breaks both ends: cancelling, deadlines, servers that stop, messages that are
 * too large. What has not arrived by then is dropped. `ended` is the last that is run for an end.
 */
#include "rpc/local/internal.h"

static const mr_error client_gone = {.code = MR_ECANCELED, .message = "the client is gone"};

static bool is_server(const struct mr_rpc_stream *s)
{
    return s->method != NULL;
}

/* ---- holding, and being held ---- */

struct mr_rpc_stream *mr_local_stream_new_locked(mr_error *err)
{
    struct mr_rpc_stream *s = mr_calloc(1, sizeof *s);

    if (s == NULL) {
        (void)mr_error_nomem(err);
        return NULL;
    }
    s->users = 1;
    s->refs = 2;
    s->due_ms = INT64_MAX;
    TAILQ_INIT(&s->inbox);
    mr_local.streams++;
    return s;
}

static void unref_locked(struct mr_rpc_stream *s)
{
    if (--s->refs > 0) {
        return;
    }
    mr_free(s->path);
    mr_free(s);
}

/* ---- parcels ---- */

static void parcel_free(struct mr_local_parcel *p)
{
    for (size_t i = 0; p != NULL && i < p->n; i++) {
        if (p->slices[i].release != NULL) {
            p->slices[i].release(p->slices[i].ctx);
        }
    }
    mr_free(p);
}

/* Takes the slices: also when there is no memory (NULL), they are released. */
static struct mr_local_parcel *parcel_new(const struct mr_rpc_slice *slices, size_t n)
{
    struct mr_local_parcel *p = mr_malloc(sizeof *p + n * sizeof p->slices[0]);
    bool failed = p == NULL;

    for (size_t i = 0; i < n; i++) {
        struct mr_rpc_slice slice = slices[i];

        if (!failed && slice.release == NULL && slice.size > 0) {
            slice.ctx = mr_memdup(slice.data, slice.size);
            slice.data = slice.ctx;
            slice.release = mr_free;
            failed = slice.ctx == NULL;
        }
        if (p == NULL) {
            if (slice.release != NULL) {
                slice.release(slice.ctx);
            }
            continue;
        }
        p->size = i == 0 ? slice.size : p->size + slice.size;
        p->slices[i] = slice;
    }
    if (p != NULL) {
        p->n = n;
        p->size = n == 0 ? 0 : p->size;
    }
    if (failed) {
        parcel_free(p);
        return NULL;
    }
    return p;
}

static struct mr_rpc_message *unpack(const struct mr_local_parcel *p)
{
    struct mr_rpc_message *m = mr_malloc(sizeof *m + p->size);
    size_t at = 0;

    if (m == NULL) {
        return NULL;
    }
    m->size = p->size;
    for (size_t i = 0; i < p->n; i++) {
        if (p->slices[i].size > 0) {
            memcpy(m->bytes + at, p->slices[i].data, p->slices[i].size);
        }
        at += p->slices[i].size;
    }
    return m;
}

/* The largest message that @s takes. */
static size_t largest(const struct mr_rpc_stream *s)
{
    return is_server(s) ? s->server->limits.message_bytes : MR_RPC_REPLY_BYTES_MAX;
}

/* ---- ends ---- */

static void over_locked(struct mr_rpc_stream *s, const mr_error *end)
{
    struct mr_rpc_channel *ch = s->channel;
    bool open = s->state == MR_LOCAL_OPEN;

    if (s->state >= MR_LOCAL_OVER) {
        return;
    }
    s->state = MR_LOCAL_OVER;
    s->end = *end;
    if (ch != NULL) {
        TAILQ_REMOVE(open ? &mr_local.open : &mr_local.waiting, s, client);
        ch->calls--;
        ch->open -= open;
        mr_local.room |= open;
        s->channel = NULL; /* It may be freed by whoever `ended` tells. */
    }
    mr_local_schedule_locked(s);
}

void mr_local_break_locked(struct mr_rpc_stream *s, const mr_error *why, const mr_error *other)
{
    struct mr_rpc_stream *peer = s->peer;

    if (s->state >= MR_LOCAL_OVER) {
        return;
    }
    s->peer = NULL;
    over_locked(s, why);
    if (peer != NULL) {
        peer->peer = NULL;
        over_locked(peer, other);
    }
}

/* What was sent before is not overtaken, if the other end has asked for it. */
static void hurry_parcel_locked(struct mr_rpc_stream *s)
{
    struct mr_rpc_stream *peer = s->peer;
    struct mr_rpc_message *m = NULL;

    if (s->parcel != NULL && peer != NULL && peer->asked && TAILQ_EMPTY(&peer->inbox) &&
        s->parcel->size <= largest(peer)) {
        m = unpack(s->parcel);
    }
    if (m != NULL) {
        TAILQ_INSERT_TAIL(&peer->inbox, m, link);
        peer->inbox_bytes += m->size;
    }
}

static void cancel_locked(struct mr_rpc_stream *s)
{
    static const mr_error cancelled = {.code = MR_ECANCELED, .message = "cancelled"};

    hurry_parcel_locked(s);
    mr_local_break_locked(s, &cancelled, is_server(s) ? &cancelled : &client_gone);
    s->asked = false;
}

void mr_local_expire_locked(struct mr_local_streams *clients, int64_t now_ms, int64_t *due_ms)
{
    static const mr_error late = {.code = MR_EDEADLINE, .message = "deadline exceeded"};
    struct mr_rpc_stream *s, *next;

    for (s = TAILQ_FIRST(clients); s != NULL; s = next) {
        next = TAILQ_NEXT(s, client);
        if (s->due_ms <= now_ms) {
            mr_local_break_locked(s, &late, &client_gone);
        } else if (s->due_ms < *due_ms) {
            *due_ms = s->due_ms;
        }
    }
}

/* All that was sent is with the other end. */
static void close_locked(struct mr_rpc_stream *s)
{
    static const mr_error clean = {.code = MR_OK};
    struct mr_rpc_stream *client = s->peer;

    if (!is_server(s)) {
        return; /* Who half-closes sends no more: nobody is told. */
    }
    s->peer = NULL;
    over_locked(s, &clean);
    client->peer = NULL;
    client->has_status = true;
    if (s->finish_code < 0) {
        (void)mr_error_set(&client->end, s->finish_code, "%s",
                           s->finish_message[0] != '\0' ? s->finish_message
                                                        : mr_code_name(s->finish_code));
    }
    if (s->finish_code < 0 || TAILQ_EMPTY(&client->inbox)) {
        over_locked(client, &client->end);
    }
}

/* ---- what the thread does ---- */

/* @s has sent what cannot arrive: too large, or (@size is no more than @max) there is no memory. */
static void break_lost_locked(struct mr_rpc_stream *s, size_t size, size_t max)
{
    struct mr_rpc_stream *client = is_server(s) ? s->peer : s;
    mr_error err;

    if (size > max) {
        (void)mr_error_set(&err, MR_EEXHAUSTED, "a message of %zu bytes, at most %zu are taken",
                           size, max);
    } else {
        (void)mr_error_nomem(&err);
    }
    mr_local_break_locked(client, &err, &client_gone);
}

/* Into the other's inbox, if there is room; into nothing, if the other end is over. */
static void move_parcel_locked(struct mr_rpc_stream *s)
{
    struct mr_local_parcel *p = s->parcel;
    size_t size = p->size;
    size_t max = s->peer != NULL ? largest(s->peer) : 0;
    struct mr_rpc_message *m = NULL;

    if (s->peer != NULL && s->peer->inbox_bytes >= MR_LOCAL_WINDOW_BYTES) {
        return;
    }
    s->parcel = NULL;
    mr_mutex_unlock(&mr_local.lock);
    if (size <= max) {
        m = unpack(p);
    }
    parcel_free(p);
    mr_mutex_lock(&mr_local.lock);
    if (s->state == MR_LOCAL_OPEN && s->peer != NULL && m == NULL) {
        break_lost_locked(s, size, max);
    }
    if (s->state != MR_LOCAL_OPEN || s->peer == NULL) {
        mr_free(m);
    } else {
        TAILQ_INSERT_TAIL(&s->peer->inbox, m, link);
        s->peer->inbox_bytes += size;
        mr_local_schedule_locked(s->peer);
    }
    if (s->state != MR_LOCAL_OPEN) {
        return;
    }
    s->sending = false;
    if (s->closing) {
        close_locked(s);
    } else if (s->ops->sent != NULL) {
        mr_mutex_unlock(&mr_local.lock);
        s->ops->sent(s->ctx, s);
        mr_mutex_lock(&mr_local.lock);
    }
}

static void deliver_locked(struct mr_rpc_stream *s)
{
    struct mr_rpc_message *m = TAILQ_FIRST(&s->inbox);

    s->asked = false;
    TAILQ_REMOVE(&s->inbox, m, link);
    s->inbox_bytes -= m->size;
    if (is_server(s)) {
        mr_rpc_first_came(&s->server->firsts, &s->first);
    }
    if (s->peer != NULL && s->peer->parcel != NULL) {
        mr_local_schedule_locked(s->peer);
    }
    if (s->state == MR_LOCAL_OPEN && s->has_status && TAILQ_EMPTY(&s->inbox)) {
        over_locked(s, &s->end); /* `ended` comes after this message */
    }
    mr_mutex_unlock(&mr_local.lock);
    s->ops->message(s->ctx, s, m);
    mr_mutex_lock(&mr_local.lock);
}

static void end_locked(struct mr_rpc_stream *s)
{
    struct mr_rpc_server *srv = s->server;
    struct mr_local_parcel *parcel = s->parcel;
    struct mr_rpc_message *m;
    mr_error end = s->end;

    s->state = MR_LOCAL_ENDED;
    s->parcel = NULL;
    if (srv != NULL) {
        mr_rpc_first_came(&srv->firsts, &s->first);
    }
    mr_mutex_unlock(&mr_local.lock);
    while ((m = TAILQ_FIRST(&s->inbox)) != NULL) {
        TAILQ_REMOVE(&s->inbox, m, link);
        mr_free(m);
    }
    parcel_free(parcel);
    if (s->ops != NULL) {
        s->ops->ended(s->ctx, s, end.code, end.code < 0 ? &end : NULL);
    }
    mr_mutex_lock(&mr_local.lock);
    if (srv != NULL) {
        TAILQ_REMOVE(&srv->streams, s, served);
        mr_share_give(s->share, 1);
        s->server = NULL;
        mr_local.room = true;
    }
    mr_local.streams--;
    (void)pthread_cond_broadcast(&mr_local.wake);
    unref_locked(s);
}

/* The token that the client's end shows; false: none. */
static bool find_token_locked(const struct mr_rpc_stream *s, char out[MR_RPC_TOKEN_SIZE])
{
    struct mr_rpc_token *t = s->peer != NULL ? s->peer->channel->token : NULL;
    char bearer[sizeof MR_RPC_BEARER - 1 + MR_RPC_TOKEN_SIZE];

    if (t == NULL) {
        return false;
    }
    mr_rpc_token_bearer(t, bearer);
    return mr_rpc_token_parse(bearer, strlen(bearer), out);
}

/* Ask the guard, if there is one, then hand it over. */
static void accept_locked(struct mr_rpc_stream *s)
{
    const struct mr_rpc_door door =
        s->server != NULL ? s->server->door : (struct mr_rpc_door){.guard = NULL};
    char token[MR_RPC_TOKEN_SIZE];
    bool has_token = find_token_locked(s, token);
    const struct mr_rpc_caller caller = {.token = has_token ? token : NULL, .host = MR_LOCAL_HOST};
    mr_error err;

    s->accept_due = false;
    mr_mutex_unlock(&mr_local.lock);
    int rc =
        door.guard != NULL ? door.guard(door.ctx, s->method->path, &caller, &s->who, &err) : MR_OK;
    if (rc == MR_OK) {
        mr_rpc_method_accept(s->method, s);
    } else {
        mr_rpc_stream_finish(s, rc, err.message);
        mr_rpc_stream_unref(s);
    }
    mr_mutex_lock(&mr_local.lock);
}

void mr_local_stream_run_locked(struct mr_rpc_stream *s)
{
    s->queued = false;
    TAILQ_REMOVE(&mr_local.work, s, work);
    if (s->accept_due) {
        accept_locked(s);
    }
    if (s->state == MR_LOCAL_OPEN && s->parcel != NULL) {
        move_parcel_locked(s);
    }
    if (s->state != MR_LOCAL_ENDED && s->asked && !TAILQ_EMPTY(&s->inbox)) {
        deliver_locked(s); /* Also when it is over: it was asked for before. */
    }
    if (s->state == MR_LOCAL_OVER) {
        end_locked(s);
    }
    unref_locked(s);
}

/* ---- the port ---- */

void mr_rpc_stream_receive(mr_rpc_stream *s)
{
    MR_LOCK(&mr_local.lock);
    if (s->state >= MR_LOCAL_OVER) {
        return;
    }
    MR_ASSERT(!s->asked);
    s->asked = true;
    if (!TAILQ_EMPTY(&s->inbox)) {
        mr_local_schedule_locked(s);
    }
}

int mr_rpc_stream_send(mr_rpc_stream *s, const struct mr_rpc_slice *slices, size_t n,
                       bool more_follows, mr_error *err)
{
    struct mr_local_parcel *p = parcel_new(slices, n);

    MR_CHECK_ALLOC(p, err);
    mr_mutex_lock(&mr_local.lock);
    if (s->state < MR_LOCAL_OVER && !s->closing) {
        MR_ASSERT(!s->sending);
        s->sending = true;
        s->parcel = p;
        p = NULL;
        mr_local_schedule_locked(s);
    }
    mr_mutex_unlock(&mr_local.lock);
    if (p != NULL) {
        parcel_free(p);
        return mr_error_set(err, MR_ECANCELED, "sending on a stream that has ended");
    }
    return MR_OK;
}

static void begin_close(struct mr_rpc_stream *s, int code, const char *message)
{
    MR_LOCK(&mr_local.lock);
    if (s->state >= MR_LOCAL_OVER || s->closing) {
        return;
    }
    s->closing = true;
    s->finish_code = code;
    if (message != NULL) {
        (void)snprintf(s->finish_message, sizeof s->finish_message, "%s", message);
    }
    if (!s->sending) {
        close_locked(s);
    }
}

void mr_rpc_stream_half_close(mr_rpc_stream *s)
{
    MR_ASSERT(!is_server(s));
    begin_close(s, MR_OK, NULL);
}

void mr_rpc_stream_finish(mr_rpc_stream *s, int code, const char *message)
{
    MR_ASSERT(is_server(s));
    begin_close(s, code, message);
}

void mr_rpc_stream_reply(mr_rpc_stream *s, int code, const char *message, const void *bytes,
                         size_t size)
{
    const struct mr_rpc_slice slice = {.data = bytes, .size = size};

    if (code == MR_OK && mr_rpc_stream_send(s, &slice, 1, false, NULL) == MR_EEXHAUSTED) {
        code = MR_EEXHAUSTED;
        message = "out of memory";
    }
    mr_rpc_stream_finish(s, code, message);
}

void mr_rpc_stream_cancel(mr_rpc_stream *s)
{
    MR_LOCK(&mr_local.lock);
    cancel_locked(s);
}

mr_rpc_stream *mr_rpc_stream_ref(mr_rpc_stream *s)
{
    MR_LOCK(&mr_local.lock);
    s->users++;
    s->refs++;
    return s;
}

void mr_rpc_stream_unref(mr_rpc_stream *s)
{
    if (s == NULL) {
        return;
    }
    MR_LOCK(&mr_local.lock);
    MR_ASSERT(s->users > 0);
    if (--s->users == 0 && !(is_server(s) && s->closing)) {
        cancel_locked(s); /* Nobody is left who could end it. */
    }
    unref_locked(s);
}

const char *mr_rpc_stream_peer(mr_rpc_stream *s)
{
    return s->name;
}

const char *mr_rpc_stream_host(const mr_rpc_stream *s)
{
    return MR_LOCAL_HOST;
}

const struct mr_rpc_who *mr_rpc_stream_who(const mr_rpc_stream *s)
{
    return &s->who;
}

void mr_rpc_stream_accept(mr_rpc_stream *s, const struct mr_rpc_stream_ops *ops, void *ctx)
{
    MR_ASSERT(is_server(s));
    MR_LOCK(&mr_local.lock);
    MR_ASSERT(s->ops == NULL);
    s->ops = ops;
    s->ctx = ctx;
}
