/*
 * Connections that keep gRPC's thread to themselves. gRPC 1.51 reads a connection for as long as
 * more comes, on the completion queue's thread, and frames that are no calls (PING, SETTINGS, any
 * of an unknown kind) give no event. A peer that sends nothing else, as fast as it can, stops
 * everybody.
 *
 * It shows in the CPU time which that thread has used since its last event: however busy the
 * machine is otherwise, that is the thread's own. Then it is noted how many bytes each connection
 * has received. Honest messages give no event either, until one is whole, and several may come at a
 * time; but no more than the server has memory for. A connection that goes on beyond that is ended.
 * So is one of which many bytes came, however few a message has, when that thread has used far more
 * time than such messages take.
 */
#include "rpc/grpc/internal.h"

#include "base/log.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* CPU time without an event: */
#define NOTE_MS 50
#define FLOOD_MS 200
#define HELD_CPU_MS 1000
/* Time without an event, which is told of every second if there is none: */
#define HELD_MS (MR_GRPC_TICK_MS + MR_GRPC_TICK_MS / 2)

#define MANY_BYTES ((uint64_t)256 << 10)

static int64_t cpu_ms(pthread_t thread)
{
    clockid_t clock;
    struct timespec t;

    if (pthread_getcpuclockid(thread, &clock) != 0 || clock_gettime(clock, &t) != 0) {
        return 0;
    }
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void end_flood(const struct mr_grpc_floods *f, int fd, const char *peer, uint64_t bytes)
{
    int held = mr_grpc_socket_hold(fd, peer, f->port);

    if (held < 0 && errno == 0) {
        return; /* It is gone. */
    }
    if (held < 0 || !mr_grpc_socket_end(held)) {
        mr_log(MR_LOG_WARN,
               "a connection that keeps all others waiting cannot be ended, trying again", "peer",
               "%s", peer, "error", "%s", strerror(errno), NULL);
        return;
    }
    mr_log(MR_LOG_WARN,
           "a peer sends so much that is no call that others wait, ending its connection", "peer",
           "%s", peer, "bytes", "%llu", (unsigned long long)bytes, NULL);
}

static int by_fd(const void *key, const void *at)
{
    return *(const int *)key - ((const struct mr_grpc_received *)at)->fd;
}

/* The kernel lists descriptors in ascending order, and so they were noted. */
static const struct mr_grpc_received *noted(const struct mr_grpc_floods *f, int fd,
                                            const char *peer)
{
    const struct mr_grpc_received *r =
        f->n > 0 ? bsearch(&fd, f->received, f->n, sizeof *r, by_fd) : NULL;

    return r != NULL && strcmp(r->peer, peer) == 0 ? r : NULL;
}

/* What connection @fd of @peer has received until now. Without memory it is not noted, and so not
 * ended. */
static void note(void *ctx, int fd, const char *peer)
{
    struct mr_grpc_floods *f = ctx;

    if (!mr_grow(&f->received, &f->cap, f->n, 1, sizeof f->received[0])) {
        return;
    }
    f->received[f->n].fd = fd;
    memcpy(f->received[f->n].peer, peer, MR_GRPC_PEER_SIZE);
    f->received[f->n++].bytes = mr_grpc_socket_received(fd);
}

static void end_above(const struct mr_grpc_floods *f, int fd, const char *peer, uint64_t limit)
{
    const struct mr_grpc_received *before = noted(f, fd, peer);
    uint64_t bytes = before != NULL ? mr_grpc_socket_received(fd) - before->bytes : 0;

    if (bytes >= limit) {
        end_flood(f, fd, peer, bytes);
    }
}

static void judge(void *ctx, int fd, const char *peer)
{
    struct mr_grpc_floods *f = ctx;

    end_above(f, fd, peer, MANY_BYTES + f->memory_bytes);
}

static void judge_held(void *ctx, int fd, const char *peer)
{
    struct mr_grpc_floods *f = ctx;

    end_above(f, fd, peer, MANY_BYTES);
}

void mr_grpc_floods_look(struct mr_grpc_floods *f, const struct mr_rpc_runtime *rt, int64_t now_ms)
{
    unsigned events = atomic_load_explicit(&rt->events, memory_order_relaxed);
    int64_t used_ms = cpu_ms(rt->thread);

    if (events != f->events) {
        f->events = events;
        f->since_ms = now_ms;
        f->used_ms = used_ms;
        f->n = 0;
    } else if (used_ms - f->used_ms >= NOTE_MS && f->n == 0) {
        mr_grpc_socket_each(f->port, note, f);
    } else if (used_ms - f->used_ms >= FLOOD_MS) {
        bool held = used_ms - f->used_ms >= HELD_CPU_MS && now_ms - f->since_ms >= HELD_MS;

        mr_grpc_socket_each(f->port, held ? judge_held : judge, f);
    }
}

void mr_grpc_floods_free(struct mr_grpc_floods *f)
{
    mr_free(f->received);
}
