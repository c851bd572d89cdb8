/* Servers, and how the ends of a stream come together. */
#include "rpc/local/internal.h"

#include "base/clock.h"

#include <stdlib.h>

/* For whoever asks for any port. Nothing listens there really, as far as one can know. */
#define PORT_MIN 2000
#define PORT_MAX 65535

/* ---- coming together ---- */

static bool is_here(const char *host)
{
    return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 ||
           strcmp(host, "::1") == 0;
}

static bool is_any(const char *host)
{
    return host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

static struct mr_rpc_server *at_port_locked(int port)
{
    struct mr_rpc_server *srv;

    LIST_FOREACH(srv, &mr_local.servers, link) {
        if (srv->port == port) {
            return srv;
        }
    }
    return NULL;
}

struct mr_rpc_server *mr_local_server_find_locked(const char *host, int port)
{
    struct mr_rpc_server *srv = at_port_locked(port);
    bool same = srv != NULL && (is_any(srv->host) || strcmp(host, srv->host) == 0 ||
                                (is_here(host) && is_here(srv->host)));

    return same && srv->started ? srv : NULL;
}

static void refuse_locked(struct mr_rpc_stream *client, int code, const char *why)
{
    mr_error err;

    (void)mr_error_set(&err, code, "%s", why);
    mr_local_break_locked(client, &err, NULL);
}

static void cut_locked(struct mr_rpc_first *f, const char *why)
{
    static const mr_error cut = {.code = MR_ECANCELED, .message = "the first message did not come"};
    mr_error err;

    (void)mr_error_set(&err, MR_EDEADLINE, "%s", why);
    mr_local_break_locked(MR_RPC_CONTAINER(f, struct mr_rpc_stream, first), &cut, &err);
}

/* The server's end of @client. */
static void serve_locked(struct mr_rpc_server *srv, const struct mr_rpc_method *method,
                         struct mr_rpc_stream *client)
{
    struct mr_share *share;
    mr_error err;

    if (mr_shares_take(&srv->calls, MR_LOCAL_HOST, 1, &share, &err) < 0) {
        refuse_locked(client, MR_EUNAVAIL,
                      err.message); /* Nobody has looked at it, so it may be asked again. */
        return;
    }
    struct mr_rpc_stream *s = mr_local_stream_new_locked(&err);
    if (s == NULL) {
        mr_share_give(share, 1);
        refuse_locked(client, MR_EUNAVAIL, err.message);
        return;
    }
    TAILQ_REMOVE(&mr_local.waiting, client, client);
    TAILQ_INSERT_TAIL(&mr_local.open, client, client);
    client->state = MR_LOCAL_OPEN;
    client->channel->open++;
    client->peer = s;
    s->state = MR_LOCAL_OPEN;
    s->peer = client;
    s->server = srv;
    s->method = method;
    s->share = share;
    s->accept_due = true;
    s->first.cut = cut_locked;
    s->first.host = MR_LOCAL_HOST;
    (void)snprintf(s->name, sizeof s->name, "ipv4:" MR_LOCAL_HOST ":%u", client->channel->number);
    TAILQ_INSERT_TAIL(&srv->streams, s, served);
    mr_local_schedule_locked(s);
    mr_local_schedule_locked(client);
    mr_rpc_first_wait(&srv->firsts, &s->first, mr_now_ms());
    mr_local_due_locked(mr_now_ms() + srv->limits.silent_ms);
}

void mr_local_connect_locked(struct mr_rpc_stream *client)
{
    const struct mr_rpc_channel *ch = client->channel;
    struct mr_rpc_server *srv =
        ch->rt->killed ? NULL : mr_local_server_find_locked(ch->host, ch->port);
    const struct mr_rpc_method *method =
        srv != NULL ? mr_rpc_methods_find(&srv->methods, client->path) : NULL;
    mr_error err;

    if (srv == NULL && client->wait_for_ready) {
        return;
    }
    if (srv == NULL) {
        refuse_locked(client, MR_EUNAVAIL, "nothing listens or answers there: Connection refused");
    } else if (method == NULL) {
        refuse_locked(client, mr_rpc_no_method(client->path, &err), err.message);
    } else if (ch->open < srv->limits.calls_per_connection) {
        serve_locked(srv, method, client);
    }
}

int mr_rpc_stream_open(mr_rpc_channel *ch, const char *path, const char *const *metadata,
                       int64_t timeout_ms, bool wait_for_ready, const struct mr_rpc_stream_ops *ops,
                       void *ctx, mr_rpc_stream **ret, mr_error *err)
{
    MR_TRY(mr_rpc_check_metadata(metadata, err)); /* No server of ours looks at it. */
    char *copy = mr_strdup(path);
    MR_CHECK_ALLOC(copy, err);
    MR_LOCK(&mr_local.lock);
    struct mr_rpc_stream *s = mr_local_stream_new_locked(err);
    if (s == NULL) {
        mr_free(copy);
        return MR_EEXHAUSTED;
    }
    s->path = copy;
    s->ops = ops;
    s->ctx = ctx;
    s->channel = ch;
    s->wait_for_ready = wait_for_ready;
    (void)snprintf(s->name, sizeof s->name, "ipv4:" MR_LOCAL_HOST ":%d", ch->port);
    if (timeout_ms >= 0) {
        s->due_ms = mr_now_ms() + timeout_ms;
        mr_local_due_locked(s->due_ms);
    }
    ch->calls++;
    TAILQ_INSERT_TAIL(&mr_local.waiting, s, client);
    *ret = s;
    mr_local_connect_locked(s);
    return MR_OK;
}

/* ---- servers ---- */

int mr_rpc_server_new(mr_rpc_runtime *rt, const struct mr_rpc_limits *limits, mr_rpc_server **ret,
                      mr_error *err)
{
    struct mr_rpc_server *srv = mr_calloc(1, sizeof *srv);

    MR_CHECK_ALLOC(srv, err);
    srv->rt = rt;
    srv->limits = mr_rpc_limits_of(limits);
    mr_shares_init(&srv->calls, "open calls", srv->limits.calls);
    mr_rpc_firsts_init(&srv->firsts, srv->limits.silent_calls, srv->limits.silent_ms);
    TAILQ_INIT(&srv->streams);
    *ret = srv;
    MR_LOCK(&mr_local.lock);
    srv->rt->objects++;
    return MR_OK;
}

struct mr_rpc_methods *mr_rpc_server_methods(mr_rpc_server *srv)
{
    MR_ASSERT(!srv->started);
    return &srv->methods;
}

void mr_rpc_server_guard(mr_rpc_server *srv, mr_rpc_guard *guard, void *ctx)
{
    MR_ASSERT(!srv->started);
    srv->door = (struct mr_rpc_door){.guard = guard, .ctx = ctx};
}

int mr_rpc_server_listen(mr_rpc_server *srv, const char *address, mr_rpc_credentials *c, int *port,
                         mr_error *err)
{
    struct mr_address parsed;

    MR_TRY(mr_rpc_parse_listen(address, &parsed, err));
    MR_LOCK(&mr_local.lock);
    MR_ASSERT(srv->port == 0);
    int wanted = (int)strtol(parsed.port, NULL, 10);
    for (int i = PORT_MIN; wanted == 0 && i <= PORT_MAX; i++) {
        /* Not again the one that was given last: callers may know who was there. */
        mr_local.port =
            mr_local.port < PORT_MIN || mr_local.port == PORT_MAX ? PORT_MIN : mr_local.port + 1;
        wanted = at_port_locked(mr_local.port) == NULL ? mr_local.port : 0;
    }
    if (wanted == 0 || at_port_locked(wanted) != NULL) {
        return mr_error_set(err, MR_EUNAVAIL, "listening on '%s': Address already in use",
                            MR_SHOWN(address));
    }
    memcpy(srv->host, parsed.host, sizeof srv->host);
    srv->port = wanted;
    LIST_INSERT_HEAD(&mr_local.servers, srv, link);
    if (port != NULL) {
        *port = wanted;
    }
    return MR_OK;
}

int mr_rpc_server_start(mr_rpc_server *srv, mr_error *err)
{
    MR_LOCK(&mr_local.lock);
    MR_ASSERT(!srv->started);
    srv->started = true;
    mr_local.room = true;
    (void)pthread_cond_broadcast(&mr_local.wake);
    return MR_OK;
}

void mr_local_server_shut_locked(struct mr_rpc_server *srv)
{
    if (srv->port != 0) {
        LIST_REMOVE(srv, link);
        srv->port = 0;
    }
}

void mr_local_server_break_locked(struct mr_rpc_server *srv, const mr_error *why)
{
    static const mr_error here = {.code = MR_ECANCELED, .message = "the server stops"};
    struct mr_rpc_stream *s;

    TAILQ_FOREACH(s, &srv->streams, served) {
        mr_local_break_locked(s, &here, why);
    }
}

void mr_rpc_server_stop(mr_rpc_server *srv, int64_t grace_ms)
{
    static const mr_error stops = {.code = MR_EUNAVAIL, .message = "the server stops"};
    int64_t until = mr_now_ms() + grace_ms;

    MR_ASSERT(!mr_rpc_is_own_thread());
    MR_LOCK(&mr_local.lock);
    if (srv->stopping) {
        return;
    }
    srv->stopping = true;
    mr_local_server_shut_locked(srv);
    while (!TAILQ_EMPTY(&srv->streams) && mr_now_ms() < until) {
        (void)mr_cond_wait_ms(&mr_local.wake, &mr_local.lock, until - mr_now_ms());
    }
    mr_local_server_break_locked(srv, &stops);
    while (!TAILQ_EMPTY(&srv->streams)) {
        mr_cond_wait(&mr_local.wake, &mr_local.lock);
    }
}

void mr_rpc_server_free(mr_rpc_server *srv)
{
    if (srv == NULL) {
        return;
    }
    mr_rpc_server_stop(srv, 0);
    mr_rpc_firsts_free(&srv->firsts);
    mr_shares_free(&srv->calls);
    mr_rpc_methods_free(&srv->methods);
    mr_mutex_lock(&mr_local.lock);
    srv->rt->objects--;
    mr_mutex_unlock(&mr_local.lock);
    mr_free(srv);
}
