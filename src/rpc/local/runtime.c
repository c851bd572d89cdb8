/* The transport itself: its users, its thread, its channels. */
#include "rpc/local/internal.h"

#include "base/clock.h"
#include "rpc/local/local.h"

#include <stdlib.h>
#include <unistd.h>

/* guards `thread`, `pid` and `users` of mr_local; taken before its lock */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* ---- the thread ---- */

static void look_at_deadlines_locked(int64_t now_ms)
{
    struct mr_rpc_server *srv;

    mr_local.due_ms = INT64_MAX;
    mr_local_expire_locked(&mr_local.waiting, now_ms, &mr_local.due_ms);
    mr_local_expire_locked(&mr_local.open, now_ms, &mr_local.due_ms);
    LIST_FOREACH(srv, &mr_local.servers, link) {
        mr_rpc_firsts_tick(&srv->firsts, now_ms);
        const struct mr_rpc_first *oldest = TAILQ_FIRST(&srv->firsts.list);
        if (oldest != NULL && oldest->until_ms < mr_local.due_ms) {
            mr_local.due_ms = oldest->until_ms;
        }
    }
}

static void let_in_locked(void)
{
    struct mr_rpc_stream *next;

    mr_local.room = false;
    for (struct mr_rpc_stream *s = TAILQ_FIRST(&mr_local.waiting); s != NULL; s = next) {
        next = TAILQ_NEXT(s, client);
        mr_local_connect_locked(s);
    }
}

static void *run(void *arg)
{
    mr_local_this_is_own_thread();
    MR_LOCK(&mr_local.lock);
    while (!mr_local.stopping) {
        int64_t now = mr_now_ms();

        if (mr_local.room) {
            let_in_locked();
        }
        if (now >= mr_local.due_ms) {
            look_at_deadlines_locked(now);
        }
        if (!TAILQ_EMPTY(&mr_local.work)) {
            mr_local_stream_run_locked(TAILQ_FIRST(&mr_local.work));
        } else if (!mr_local.room) {
            (void)mr_cond_wait_ms(&mr_local.wake, &mr_local.lock,
                                  mr_local.due_ms == INT64_MAX ? -1 : mr_local.due_ms - now);
        }
    }
    return NULL;
}

/* ---- users ---- */

int mr_rpc_acquire(mr_rpc_runtime **ret, mr_error *err)
{
    struct mr_rpc_runtime *rt = mr_calloc(1, sizeof *rt);
    int rc = MR_OK;

    MR_CHECK_ALLOC(rt, err);
    MR_LOCK(&opening);
    if (mr_local.users == 0) {
        mr_local.pid = getpid();
        mr_local.stopping = false;
        mr_cond_init(&mr_local.wake);
        rc = mr_thread_start(&mr_local.thread, "mr-local", run, NULL, err);
    } else if (mr_local.pid != getpid()) {
        rc = mr_rpc_refuse_fork(mr_local.pid, err);
    }
    if (rc < 0) {
        mr_free(rt);
        return rc;
    }
    mr_local.users++;
    *ret = rt;
    return MR_OK;
}

void mr_rpc_release(mr_rpc_runtime *rt)
{
    MR_ASSERT(!mr_rpc_is_own_thread());
    if (rt == NULL) {
        return;
    }
    mr_mutex_lock(&mr_local.lock);
    MR_ASSERT(rt->objects == 0);
    mr_mutex_unlock(&mr_local.lock);
    mr_free(rt);
    MR_LOCK(&opening);
    if (--mr_local.users > 0) {
        return;
    }
    mr_mutex_lock(&mr_local.lock);
    while (mr_local.streams > 0) {
        mr_cond_wait(&mr_local.wake, &mr_local.lock);
    }
    mr_local.stopping = true;
    (void)pthread_cond_broadcast(&mr_local.wake);
    mr_mutex_unlock(&mr_local.lock);
    (void)pthread_join(mr_local.thread, NULL);
    (void)pthread_cond_destroy(&mr_local.wake);
}

void mr_rpc_keep_forkable(void)
{
}

bool mr_rpc_local_kill(const char *address)
{
    static const mr_error broken = {.code = MR_EUNAVAIL, .message = "connection reset"};
    static const mr_error gone = {.code = MR_ECANCELED, .message = "the client is gone"};
    struct mr_local_streams *const clients[] = {&mr_local.waiting, &mr_local.open};
    struct mr_rpc_server *srv, *next_server;
    struct mr_rpc_stream *s, *next;
    struct mr_address parsed;

    if (!mr_address_parse(address, &parsed)) {
        return false;
    }
    MR_LOCK(&mr_local.lock);
    srv = mr_local_server_find_locked(parsed.host, (int)strtol(parsed.port, NULL, 10));
    if (srv == NULL) {
        return false;
    }
    struct mr_rpc_runtime *rt = srv->rt;
    rt->killed = true;
    for (srv = LIST_FIRST(&mr_local.servers); srv != NULL; srv = next_server) {
        next_server = LIST_NEXT(srv, link);
        if (srv->rt == rt) {
            mr_local_server_shut_locked(srv);
            mr_local_server_break_locked(srv, &broken);
        }
    }
    for (size_t i = 0; i < 2; i++) {
        for (s = TAILQ_FIRST(clients[i]); s != NULL; s = next) {
            next = TAILQ_NEXT(s, client);
            if (s->channel->rt == rt && !(s->wait_for_ready && s->state == MR_LOCAL_WAITING)) {
                mr_local_break_locked(s, &broken, &gone);
            }
        }
    }
    return true;
}

/* ---- channels ---- */

int mr_rpc_credentials_new(mr_rpc_runtime *rt, const struct mr_rpc_files *files,
                           mr_rpc_credentials **ret, mr_error *err)
{
    if (files->tls) {
        return mr_error_set(err, MR_EUNIMPL, "there is no TLS within a process");
    }
    struct mr_rpc_credentials *c = mr_calloc(1, sizeof *c);
    MR_CHECK_ALLOC(c, err);
    int rc = mr_rpc_token_init(&c->token, files->token, err);
    if (rc < 0) {
        mr_rpc_credentials_free(c);
        return rc;
    }
    *ret = c;
    return MR_OK;
}

void mr_rpc_credentials_free(mr_rpc_credentials *c)
{
    if (c != NULL) {
        mr_rpc_token_free(&c->token);
        mr_free(c);
    }
}

void mr_rpc_channel_show_token(mr_rpc_channel *ch)
{
    ch->token = ch->credentials != NULL && ch->credentials->token.path != NULL
                    ? &ch->credentials->token
                    : NULL;
}

int mr_rpc_channel_new(mr_rpc_runtime *rt, const char *address, mr_rpc_credentials *c,
                       mr_rpc_channel **ret, mr_error *err)
{
    struct mr_address parsed;

    MR_TRY(mr_rpc_parse_address(address, &parsed, err));
    struct mr_rpc_channel *ch = mr_calloc(1, sizeof *ch);
    MR_CHECK_ALLOC(ch, err);
    ch->rt = rt;
    ch->credentials = c;
    memcpy(ch->host, parsed.host, sizeof ch->host);
    ch->port = (int)strtol(parsed.port, NULL, 10);
    *ret = ch;
    MR_LOCK(&mr_local.lock);
    ch->number = ++mr_local.channels;
    ch->rt->objects++;
    return MR_OK;
}

void mr_rpc_channel_free(mr_rpc_channel *ch)
{
    if (ch == NULL) {
        return;
    }
    mr_mutex_lock(&mr_local.lock);
    MR_ASSERT(ch->calls == 0);
    ch->rt->objects--;
    mr_mutex_unlock(&mr_local.lock);
    mr_free(ch);
}
