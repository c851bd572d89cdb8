#include "dispatcher/loop/peer.h"
#include "millrace/service.rpc.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <millrace/base.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REOPEN_MS 250
#define CONNECT_MS 500
#define SILENT_MS 1500 /* three beats */

/* One stream, from its opening to its end. */
struct mr_follow {
    mr_peer *peer;
    mr_rpc_channel *channel;
    mr_rpc_stream *stream;
    int64_t epoch;
    bool alive;  /* the leader has answered */
    bool silent; /* but not for some time */
    int64_t heard_ms;
};

struct mr_peer {
    mr_rpc_runtime *rt;
    struct mr_mailbox *mailbox;
    char *cluster;
    char *instance;
    bool stopping;
    char address[MR_ADDRESS_BYTES_MAX]; /* "": nobody */
    int64_t epoch;
    struct mr_follow *current;
    unsigned open; /* streams that have not ended, old ones included */
    int64_t reopen_ms;

    pthread_t prober;
    bool prober_started;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool probe_stop;                          /* lock */
    char probe_address[MR_ADDRESS_BYTES_MAX]; /* lock; "": nothing to do */
    int64_t probe_epoch;
};

/* ---- the stream ---- */

static void post(struct mr_follow *f, enum mr_item_kind kind)
{
    struct mr_item item = {.kind = kind, .follow = f};

    mr_mailbox_put(f->peer->mailbox, &item);
}

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    mr_rpc_message_free(
        /* The leader's word that it leads at the epoch we asked for, and is alive; nothing else. */
        m);
    post(ctx, MR_ITEM_FOLLOW_ALIVE);
    mr_rpc_stream_receive(s);
}

static void on_sent(void *ctx, mr_rpc_stream *s)
{
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    post(ctx, MR_ITEM_FOLLOW_ENDED);
}

static const struct mr_rpc_stream_ops follow_ops = {
    .message = on_message, .sent = on_sent, .ended = on_ended};

static int send_request(struct mr_follow *f, mr_error *err)
{
    Millrace__FollowRequest request = MILLRACE__FOLLOW_REQUEST__INIT;
    Millrace__RequestHeader header = MILLRACE__REQUEST_HEADER__INIT;
    unsigned char bytes[512];

    header.cluster = f->peer->cluster;
    header.epoch = (uint64_t)f->epoch;
    request.header = &header;
    request.instance = f->peer->instance;
    MR_ASSERT(millrace__follow_request__get_packed_size(&request) <= sizeof bytes);

    struct mr_rpc_slice slice = {.data = bytes,
                                 .size = millrace__follow_request__pack(&request, bytes)};

    return mr_rpc_stream_send(f->stream, &slice, 1, false, err);
}

static void follow_free(struct mr_follow *f)
{
    mr_rpc_stream_unref(f->stream);
    mr_rpc_channel_free(f->channel);
    mr_free(f);
}

static void open_stream(mr_peer *p)
{
    struct mr_follow *f = mr_calloc(1, sizeof *f);

    if (f == NULL) {
        return; /* Tried again. */
    }
    f->peer = p;
    f->epoch = p->epoch;
    if (mr_rpc_channel_new(p->rt, p->address, NULL, &f->channel, NULL) < 0) {
        mr_free(f);
        return;
    }
    if (mr_rpc_stream_open(f->channel, MR_PATH_FOLLOW, NULL, -1, false, &follow_ops, f, &f->stream,
                           NULL) < 0) {
        mr_rpc_channel_free(f->channel);
        mr_free(f);
        return;
    }
    p->open++;
    p->current = f;
    if (send_request(f, NULL) < 0) {
        mr_rpc_stream_cancel(f->stream);
    }
    mr_rpc_stream_half_close(f->stream);
    mr_rpc_stream_receive(f->stream);
}

static void let_go(mr_peer *p)
{
    if (p->current != NULL) {
        mr_rpc_stream_cancel(p->current->stream);
        p->current = NULL;
    }
}

void mr_peer_follow(mr_peer *p, const char *address, int64_t epoch, int64_t now_ms)
{
    if (epoch == p->epoch && address != NULL && p->address[0] != '\0') {
        return;
    }
    let_go(p);
    p->epoch = epoch;
    (void)snprintf(p->address, sizeof p->address, "%s", address != NULL ? address : "");
    p->reopen_ms = now_ms;
}

bool mr_peer_event(mr_peer *p, const struct mr_item *item, int64_t now_ms, int64_t *epoch,
                   enum mr_peer_state *state)
{
    struct mr_follow *f = item->follow;
    bool told = false;

    *epoch = f->epoch;
    if (item->kind == MR_ITEM_FOLLOW_ALIVE) {
        *state = MR_PEER_ALIVE;
        told = f == p->current && (!f->alive || f->silent);
        f->alive = true;
        f->silent = false;
        f->heard_ms = now_ms;
        return told;
    }
    *state = f->alive ? MR_PEER_LOST : MR_PEER_AWAY;
    if (f == p->current) {
        told = true;
        p->current = NULL;
        p->reopen_ms = now_ms + REOPEN_MS;
    }
    MR_ASSERT(p->open > 0);
    p->open--;
    follow_free(f);
    return told;
}

int64_t mr_peer_due(const mr_peer *p)
{
    if (p->stopping || p->address[0] == '\0') {
        return INT64_MAX;
    }
    if (p->current == NULL) {
        return p->reopen_ms;
    }
    return p->current->alive && !p->current->silent ? p->current->heard_ms + SILENT_MS : INT64_MAX;
}

bool mr_peer_tick(mr_peer *p, int64_t now_ms, int64_t *epoch)
{
    if (now_ms < mr_peer_due(p)) {
        return false;
    }
    if (p->current == NULL) {
        p->reopen_ms = now_ms + REOPEN_MS;
        open_stream(p);
        return false;
    }
    p->current->silent = true;
    *epoch = p->current->epoch;
    return true;
}

bool mr_peer_silent(const mr_peer *p, int64_t epoch)
{
    return p->current != NULL && p->current->silent && p->current->epoch == epoch;
}

/* ---- probes ---- */

/* Is a connect to this address refused (and not: accepted, unreachable, unanswered)? */
static bool connect_refused(const struct addrinfo *ai)
{
    int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, ai->ai_protocol);
    int why = 0;
    socklen_t len = sizeof why;

    if (fd < 0) {
        return false;
    }
    if (connect(fd, ai->ai_addr, ai->ai_addrlen) < 0) {
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        why = errno;
        if (why == EINPROGRESS && poll(&p, 1, CONNECT_MS) == 1) {
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &len);
        }
    }
    close(fd);
    return why == ECONNREFUSED;
}

/* Every address that the name stands for must refuse. */
static bool refused(const char *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    struct mr_address parsed;
    bool all;

    if (!mr_address_parse(address, &parsed) ||
        getaddrinfo(parsed.host, parsed.port, &hints, &list) != 0) {
        return false;
    }
    all = list != NULL;
    for (const struct addrinfo *ai = list; ai != NULL && all; ai = ai->ai_next) {
        all = connect_refused(ai);
    }
    freeaddrinfo(list);
    return all;
}

static void *prober_main(void *arg)
{
    mr_peer *p = arg;

    mr_mutex_lock(&p->lock);
    while (!p->probe_stop) {
        char address[MR_ADDRESS_BYTES_MAX];
        struct mr_item item = {.kind = MR_ITEM_PROBED, .epoch = p->probe_epoch};

        if (p->probe_address[0] == '\0') {
            mr_cond_wait(&p->wake, &p->lock);
            continue;
        }
        memcpy(address, p->probe_address, sizeof address);
        p->probe_address[0] = '\0';
        mr_mutex_unlock(&p->lock);
        item.refused = refused(address);
        mr_mailbox_put(p->mailbox, &item);
        mr_mutex_lock(&p->lock);
    }
    mr_mutex_unlock(&p->lock);
    return NULL;
}

void mr_peer_probe(mr_peer *p, const char *address, int64_t epoch)
{
    MR_LOCK(&p->lock);
    (void)snprintf(p->probe_address, sizeof p->probe_address, "%s", address);
    p->probe_epoch = epoch;
    (void)pthread_cond_broadcast(&p->wake);
}

/* ---- life ---- */

int mr_peer_start(mr_rpc_runtime *rt, const char *cluster, const char *instance,
                  struct mr_mailbox *mailbox, mr_peer **ret, mr_error *err)
{
    mr_peer *p = mr_calloc(1, sizeof *p);
    int rc;

    if (p == NULL) {
        return mr_error_nomem(err);
    }
    p->rt = rt;
    p->mailbox = mailbox;
    mr_mutex_init(&p->lock);
    mr_cond_init(&p->wake);
    p->cluster = mr_strdup(cluster);
    p->instance = mr_strdup(instance);
    rc = p->cluster == NULL || p->instance == NULL
             ? mr_error_nomem(err)
             : mr_thread_start(&p->prober, "mr-prober", prober_main, p, err);
    if (rc < 0) {
        mr_peer_free(p);
        return rc;
    }
    p->prober_started = true;
    *ret = p;
    return MR_OK;
}

void mr_peer_stop(mr_peer *p)
{
    p->stopping = true;
    let_go(p);
}

bool mr_peer_idle(const mr_peer *p)
{
    return p->open == 0;
}

void mr_peer_free(mr_peer *p)
{
    if (p == NULL) {
        return;
    }
    MR_ASSERT(p->open == 0);
    if (p->prober_started) {
        mr_mutex_lock(&p->lock);
        p->probe_stop = true;
        (void)pthread_cond_broadcast(&p->wake);
        mr_mutex_unlock(&p->lock);
        (void)pthread_join(p->prober, NULL);
    }
    mr_free(p->cluster);
    mr_free(p->instance);
    (void)pthread_cond_destroy(&p->wake);
    (void)pthread_mutex_destroy(&p->lock);
    mr_free(p);
}
