#include "dispatcher/server/link.h"

#include "base/address.h"
#include "base/sync.h"
#include "millrace/service.rpc.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_MS 500

struct mr_leader_link {
    mr_rpc_runtime *rt;
    mr_rpc_credentials *credentials;
    struct mr_mailbox *mailbox;
    char *cluster;
    char *instance;

    pthread_t prober;
    bool prober_started;
    pthread_mutex_t lock; /* guards all that follows */
    pthread_cond_t wake;
    bool probe_stop;
    char probe_address[MR_ADDRESS_BYTES_MAX]; /* "": nothing to do */
    int64_t probe_epoch;
};

/* ---- the stream ---- */

struct follow_stream {
    struct mr_mailbox *mailbox;
    struct mr_follow *follow;
    mr_rpc_channel *channel;
    mr_rpc_stream *rpc;
};

static void post(const struct follow_stream *s, enum mr_item_kind kind)
{
    struct mr_item item = {.kind = kind, .follow = s->follow};

    mr_mailbox_put(s->mailbox, &item);
}

static void on_message(void *ctx, mr_rpc_stream *s, mr_rpc_message *m)
{
    mr_rpc_message_free(m); /* The leader's word that it leads at the epoch we asked for, and is
                             * alive; nothing else. */
    post(ctx, MR_ITEM_FOLLOW_ALIVE);
    mr_rpc_stream_receive(s);
}

static void on_ended(void *ctx, mr_rpc_stream *s, int rc, const mr_error *err)
{
    post(ctx, MR_ITEM_FOLLOW_ENDED);
}

static const struct mr_rpc_stream_ops follow_ops = {.message = on_message, .ended = on_ended};

static int send_request(const mr_leader_link *p, const struct follow_stream *s)
{
    Millrace__FollowRequest request = MILLRACE__FOLLOW_REQUEST__INIT;
    Millrace__RequestHeader header = MILLRACE__REQUEST_HEADER__INIT;
    unsigned char bytes[512];

    header.cluster = p->cluster;
    header.epoch = (uint64_t)s->follow->epoch;
    request.header = &header;
    request.instance = p->instance;
    MR_ASSERT(millrace__follow_request__get_packed_size(&request) <= sizeof bytes);

    struct mr_rpc_slice slice = {.data = bytes,
                                 .size = millrace__follow_request__pack(&request, bytes)};

    return mr_rpc_stream_send(s->rpc, &slice, 1, false, NULL);
}

bool mr_leader_link_open(mr_leader_link *p, struct mr_follow *f, const char *address)
{
    struct follow_stream *s = mr_calloc(1, sizeof *s);

    if (s == NULL) {
        return false;
    }
    *s = (struct follow_stream){.mailbox = p->mailbox, .follow = f};
    if (mr_rpc_channel_new(p->rt, address, p->credentials, &s->channel, NULL) < 0) {
        mr_free(s);
        return false;
    }
    mr_rpc_channel_show_token(s->channel);
    f->link = s;
    if (mr_rpc_stream_open(s->channel, MR_PATH_FOLLOW, NULL, -1, false, &follow_ops, s, &s->rpc,
                           NULL) < 0) {
        mr_rpc_channel_free(s->channel);
        mr_free(s);
        return false;
    }
    if (send_request(p, s) < 0) {
        mr_rpc_stream_cancel(s->rpc);
    }
    mr_rpc_stream_half_close(s->rpc);
    mr_rpc_stream_receive(s->rpc);
    return true;
}

void mr_leader_link_close(struct mr_follow *f)
{
    mr_rpc_stream_cancel(((struct follow_stream *)f->link)->rpc);
}

void mr_leader_link_release(void *link)
{
    struct follow_stream *s = link;

    mr_rpc_stream_unref(s->rpc);
    mr_rpc_channel_free(s->channel);
    mr_free(s);
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
    mr_leader_link *p = arg;

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

void mr_leader_link_probe(mr_leader_link *p, const char *address, int64_t epoch)
{
    MR_LOCK(&p->lock);
    (void)snprintf(p->probe_address, sizeof p->probe_address, "%s", address);
    p->probe_epoch = epoch;
    (void)pthread_cond_broadcast(&p->wake);
}

/* ---- beginning and end ---- */

int mr_leader_link_start(mr_rpc_runtime *rt, mr_rpc_credentials *credentials, const char *cluster,
                         const char *instance, struct mr_mailbox *mailbox, mr_leader_link **ret,
                         mr_error *err)
{
    mr_leader_link *p = mr_calloc(1, sizeof *p);
    int rc;

    MR_CHECK_ALLOC(p, err);
    p->rt = rt;
    p->credentials = credentials;
    p->mailbox = mailbox;
    mr_mutex_init(&p->lock);
    mr_cond_init(&p->wake);
    p->cluster = mr_strdup(cluster);
    p->instance = mr_strdup(instance);
    rc = p->cluster == NULL || p->instance == NULL
             ? mr_error_nomem(err)
             : mr_thread_start(&p->prober, "mr-prober", prober_main, p, err);
    if (rc < 0) {
        mr_leader_link_free(p);
        return rc;
    }
    p->prober_started = true;
    *ret = p;
    return MR_OK;
}

void mr_leader_link_free(mr_leader_link *p)
{
    if (p == NULL) {
        return;
    }
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
