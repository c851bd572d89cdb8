/*
 * Connections that send much and finish nothing: headers of a call that go on without an end, in
 * frames of any size, as slowly as the peer likes. gRPC 1.51 keeps what it has of them, outside of
 * its quota, for as long as the connection lasts.
 *
 * What is finished, gRPC counts (channelz): calls whose headers have begun, and messages. The bytes
 * that a connection has received since the last of them are what it may hold here. Honest ones hold
 * messages that are on their way, all together no more than the server has memory for, since gRPC
 * ends calls beyond that. If there is more, the connection that has most is ended, and the next,
 * until it fits.
 *
 * gRPC is asked only about connections with more than a few bytes: one that is idle receives pings.
 */
#include "rpc/grpc/internal.h"

#include "base/log.h"

#include <errno.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>

#define LOOK_MS 1000
#define FEW_BYTES ((uint64_t)64 << 10)
#define SLACK_BYTES ((uint64_t)256 << 10) /* of all that is no message */

static int by_fd(const void *key, const void *at)
{
    return *(const int *)key - ((const struct mr_grpc_sender *)at)->fd;
}

/* The kernel lists descriptors in ascending order, and so they were noted. */
static const struct mr_grpc_sender *known(const struct mr_grpc_unfinished *u, int fd,
                                          const char *peer)
{
    const struct mr_grpc_sender *s =
        u->n > 0 ? bsearch(&fd, u->senders, u->n, sizeof *s, by_fd) : NULL;

    return s != NULL && strcmp(s->peer, peer) == 0 ? s : NULL;
}

struct look {
    struct mr_grpc_unfinished *u;
    struct mr_grpc_sender *senders;
    size_t n;
    size_t cap;
    size_t *many; /* of these, those with more than a few bytes */
    size_t n_many;
    size_t cap_many;
};

/* Without memory it is not noted, and so not ended. */
static void note(void *ctx, int fd, const char *peer)
{
    struct look *look = ctx;
    const struct mr_grpc_sender *before = known(look->u, fd, peer);

    if (!mr_grow(&look->senders, &look->cap, look->n, 1, sizeof look->senders[0])) {
        return;
    }
    struct mr_grpc_sender *s = &look->senders[look->n++];
    uint64_t received = mr_grpc_socket_received(fd);

    /* Fewer than before: another connection between the same two ends. */
    *s = before != NULL && before->base <= received ? *before : (struct mr_grpc_sender){.fd = fd};
    (void)snprintf(s->peer, sizeof s->peer, "%s", peer);
    s->bytes = received - s->base;
    if (s->bytes > FEW_BYTES &&
        mr_grow(&look->many, &look->cap_many, look->n_many, 1, sizeof look->many[0])) {
        look->many[look->n_many++] = look->n - 1;
    }
}

static void forget(struct mr_grpc_sender *s)
{
    s->base += s->bytes;
    s->bytes = 0;
}

/* What the connection that gRPC calls @socket has finished is no longer counted. */
static void ask(const struct look *look, intptr_t socket, const char *peer, size_t n)
{
    for (size_t i = 0; i < look->n_many; i++) {
        struct mr_grpc_sender *s = &look->senders[look->many[i]];

        if (strlen(s->peer) != n || memcmp(s->peer, peer, n) != 0) {
            continue;
        }
        char *json = grpc_channelz_get_socket(socket); /* NULL: it is gone */
        int64_t finished = mr_grpc_number(json, "\"streamsStarted\":\"") +
                           mr_grpc_number(json, "\"messagesReceived\":\"");

        gpr_free(json);
        if (finished != s->finished) {
            s->finished = finished;
            forget(s);
        }
    }
}

static void ask_all(const struct look *look, intptr_t server)
{
    intptr_t socket = 0;

    for (bool more = true; more;) { /* gRPC tells some hundreds at a time. */
        char *json = grpc_channelz_get_server_sockets(server, socket + 1, 0);

        more = json != NULL && strstr(json, "\"end\":true") == NULL;
        for (const char *at = json; (at = mr_grpc_behind(at, "\"socketId\":\"")) != NULL;) {
            const char *name = mr_grpc_behind(at, "\"name\":\"chttp2 ");

            socket = (intptr_t)strtoll(at, NULL, 10);
            if (name != NULL) {
                ask(look, socket, name, strcspn(name, "\""));
            }
        }
        gpr_free(json);
    }
}

static void end(const struct mr_grpc_unfinished *u, const struct mr_grpc_sender *s)
{
    int held = mr_grpc_socket_hold(s->fd, s->peer, u->port);

    if (held < 0 && errno == 0) {
        return; /* It is gone. */
    }
    if (held < 0 || !mr_grpc_socket_end(held)) {
        mr_log(MR_LOG_WARN, "a connection that finishes nothing cannot be ended, trying again",
               "peer", "%s", s->peer, "error", "%s", strerror(errno), NULL);
        return;
    }
    mr_log(MR_LOG_WARN, "a peer sends much and finishes nothing, ending its connection", "peer",
           "%s", s->peer, "bytes", "%llu", (unsigned long long)s->bytes, NULL);
}

static void end_most(const struct look *look)
{
    const struct mr_grpc_unfinished *u = look->u;
    uint64_t total = 0;

    for (size_t i = 0; i < look->n_many; i++) {
        total += look->senders[look->many[i]].bytes;
    }
    while (total > u->memory_bytes + SLACK_BYTES) {
        struct mr_grpc_sender *most = &look->senders[look->many[0]];

        for (size_t i = 1; i < look->n_many; i++) {
            struct mr_grpc_sender *s = &look->senders[look->many[i]];

            most = s->bytes > most->bytes ? s : most;
        }
        end(u, most);
        total -= most->bytes;
        most->bytes = 0; /* of this look; what is still there is counted again in the next one */
    }
}

void mr_grpc_unfinished_look(struct mr_grpc_unfinished *u, intptr_t server, int64_t now_ms)
{
    struct look look = {.u = u};

    if (now_ms < u->next_ms) {
        return;
    }
    u->next_ms = now_ms + LOOK_MS;
    mr_grpc_socket_each(u->port, note, &look);
    if (look.n_many > 0) {
        ask_all(&look, server);
        end_most(&look);
    }
    mr_free(look.many);
    mr_free(u->senders);
    u->senders = look.senders;
    u->n = look.n;
}

void mr_grpc_unfinished_free(struct mr_grpc_unfinished *u)
{
    mr_free(u->senders);
}
