/*
 * Connections on which calls are begun and taken back at once, by the thousand: HTTP/2 allows it
 * without end, since a call that was reset does not count as open, and gRPC 1.51 has no limit. It
 * reads them in one go for as long as more come, on the completion queue's thread, or within any
 * call into gRPC of ours; that thread lets go of them only when the go is over. So they pile up,
 * and everybody else waits.
 *
 * A thread of its own looks at what gRPC itself counts (channelz): calls of a connection that were
 * begun and not let go of. Of those, calls_per_connection may be open, and as many again may be
 * over and wait for the completion queue's thread. A connection with several times as many is
 * ended, and with it the go. This thread takes no lock that anybody holds around a call into gRPC,
 * and asks for numbers alone, so it is never held up by what it looks for.
 *
 * gRPC tells nobody which descriptor is whose, so it is found by its two ends (sockets.c). The same
 * thread sees to connections that nobody else accepts (accept.c), and looks for those that send
 * what is no call (floods.c).
 */
#include "rpc/grpc/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <grpc/support/alloc.h>
#include <stdlib.h>
#include <unistd.h>

#define GLANCE_MS 50
#define TIMES_OPEN 4

/* ---- what gRPC counts ---- */

/* gRPC numbers what it makes in ascending order. */
static intptr_t newest_server(void)
{
    char *json = grpc_channelz_get_servers(0);
    intptr_t id = 0;

    for (const char *at = json; (at = mr_grpc_behind(at, "\"serverId\":\"")) != NULL;) {
        id = (intptr_t)strtoll(at, NULL, 10);
    }
    gpr_free(json);
    return id;
}

/* All calls of the server. Those that it refuses unheard stay in gRPC's count, so it only tells
 * when to look. */
static int64_t calls_of_server(intptr_t id)
{
    char *json = grpc_channelz_get_server(id);
    int64_t n = mr_grpc_number(json, "\"callsStarted\":\"") -
                mr_grpc_number(json, "\"callsSucceeded\":\"") -
                mr_grpc_number(json, "\"callsFailed\":\"");

    gpr_free(json);
    return n;
}

/* ---- ending a connection ---- */

/* The descriptor of the connection of @peer to our @port, as mr_grpc_socket_hold() has it. */
static int find_connection(const char *peer, int64_t port)
{
    DIR *dir = opendir("/proc/self/fd");
    int found = -1, error = 0;

    if (dir == NULL) {
        return -1;
    }
    for (struct dirent *d; found < 0 && error == 0 && (d = readdir(dir)) != NULL;) {
        int fd = d->d_name[0] == '.' ? -1 : (int)strtol(d->d_name, NULL, 10);

        if (fd >= 0) {
            found = mr_grpc_socket_hold(fd, peer, port);
            error = found < 0 ? errno : 0;
        }
    }
    (void)closedir(dir);
    errno = error;
    return found;
}

/* False: it could not be looked for, which is to be tried again. */
static bool end_connection(const char *peer, int64_t port, int64_t calls)
{
    int fd = find_connection(peer, port);

    if (fd < 0 && errno == 0) {
        return true; /* It is gone, and what it sent is being let go of. */
    }
    if (fd < 0) {
        mr_log(MR_LOG_WARN,
               "a connection that takes back its calls cannot be looked for, trying again", "peer",
               "%s", peer, "error", "%s", strerror(errno), NULL);
        return false;
    }
    if (mr_grpc_socket_end(fd)) {
        mr_log(MR_LOG_WARN, "a peer takes back the calls that it makes, ending its connection",
               "peer", "%s", peer, "calls", "%lld", (long long)calls, NULL);
    } else {
        mr_log(MR_LOG_WARN, "a connection that takes back its calls cannot be ended", "peer", "%s",
               peer, "error", "%s", strerror(errno), NULL);
    }
    return true;
}

/* ---- looking ---- */

/* False: it is to be looked at again. */
static bool look_at(intptr_t socket, int64_t calls_max)
{
    char *json = grpc_channelz_get_socket(socket); /* NULL: it is gone */
    int64_t calls = mr_grpc_number(json, "\"streamsStarted\":\"") -
                    mr_grpc_number(json, "\"streamsSucceeded\":\"") -
                    mr_grpc_number(json, "\"streamsFailed\":\"");
    const char *name = mr_grpc_behind(mr_grpc_behind(json, "\"ref\":"), "\"name\":\"chttp2 ");
    char peer[MR_GRPC_PEER_SIZE];
    bool done = true;

    if (calls > calls_max && name != NULL) {
        (void)snprintf(peer, sizeof peer, "%.*s", (int)strcspn(name, "\""), name);
        done = end_connection(peer, mr_grpc_number(mr_grpc_behind(json, "\"local\":"), "\"port\":"),
                              calls);
    }
    gpr_free(json);
    return done;
}

static bool look_at_all(const struct mr_grpc_resets *r)
{
    intptr_t socket = 0;
    bool more = true, done = true;

    while (more) { /* gRPC tells some hundreds at a time. */
        char *json = grpc_channelz_get_server_sockets(r->server, socket + 1, 0);

        more = json != NULL && strstr(json, "\"end\":true") == NULL;
        for (const char *at = json; (at = mr_grpc_behind(at, "\"socketId\":\"")) != NULL;) {
            socket = (intptr_t)strtoll(at, NULL, 10);
            done = look_at(socket, r->calls_max) && done;
        }
        gpr_free(json);
    }
    return done;
}

/* One connection cannot get far without the number of all. With a thousand of them, looking at each
 * takes a while. */
static void glance(struct mr_grpc_resets *r)
{
    int64_t calls = calls_of_server(r->server);

    if (calls > r->seen + r->calls_max / 2) {
        if (look_at_all(r)) {
            r->seen = calls;
        }
    } else if (calls < r->seen) {
        r->seen = calls;
    }
}

static void *watch(void *arg)
{
    struct mr_grpc_resets *r = arg;

    mr_mutex_lock(&r->lock);
    while (!r->stopping) {
        mr_mutex_unlock(&r->lock);
        glance(r);
        int64_t now = mr_now_ms();
        mr_grpc_accepts_look(&r->accepts, now);
        mr_grpc_floods_look(&r->floods, r->rt, now);
        mr_grpc_unfinished_look(&r->unfinished, r->server, now);
        mr_mutex_lock(&r->lock);
        if (!r->stopping) {
            (void)mr_cond_wait_ms(&r->stopped, &r->lock, GLANCE_MS);
        }
    }
    mr_mutex_unlock(&r->lock);
    return NULL;
}

/* ---- life ---- */

grpc_server *mr_grpc_resets_server_create(struct mr_grpc_resets *r, const grpc_channel_args *args,
                                          unsigned calls_per_connection)
{
    /* guards the number of the newest server */
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;

    mr_mutex_init(&r->lock);
    mr_cond_init(&r->stopped);
    r->calls_max = (int64_t)TIMES_OPEN * calls_per_connection;
    MR_LOCK(&one_at_a_time); /* gRPC tells the number of no server, but the newest is this one. */
    grpc_server *server = grpc_server_create(args, NULL);
    r->server = newest_server();
    return server;
}

int mr_grpc_resets_start(struct mr_grpc_resets *r, mr_error *err)
{
    int rc = mr_thread_start(&r->thread, "mr-rpc-resets", watch, r, err);

    r->watching = rc == MR_OK;
    return rc;
}

void mr_grpc_resets_free(struct mr_grpc_resets *r)
{
    if (r->watching) {
        mr_mutex_lock(&r->lock);
        r->stopping = true;
        (void)pthread_cond_signal(&r->stopped);
        mr_mutex_unlock(&r->lock);
        (void)pthread_join(r->thread, NULL);
    }
    mr_grpc_floods_free(&r->floods);
    mr_grpc_unfinished_free(&r->unfinished);
    (void)pthread_cond_destroy(&r->stopped);
    (void)pthread_mutex_destroy(&r->lock);
}
