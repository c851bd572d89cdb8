/*
 * Accepting. gRPC 1.51 accepts whatever comes and asks nobody; and when accept4() has no descriptor
 * for it, or fails in any other way, it gives up its listener for good, which leaves a server that
 * is alive and deaf.
 *
 * So accept4() is ours: what a program defines itself is found before the C library's. For the
 * listeners of our servers it accepts, asks connections.c, and refuses what is too much on the
 * spot, so that gRPC is given none but those it may have and told of no failure but "there is
 * none". All other sockets are none of its business. A server does not start where gRPC would not
 * find this function (within libmillrace.so, which hides it).
 *
 * gRPC accepts until there is none, sets up what it has got, and comes again only when another one
 * arrives. A go ends early when it has many, or takes long: gRPC is told that there is none, and
 * the thread of resets.c then connects to the listener, so that another one arrives. Where that
 * does not help, since no more may wait, it refuses those that do.
 *
 * Without a descriptor the one in reserve is let go of, to refuse who waits.
 */
#include "rpc/grpc/internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GO_MS 100     /* while gRPC's thread does nothing else */
#define DRAIN_MS 1000 /* after a go that ended early; gRPC has been called long ago */
#define DRAINED 1000  /* refused in one look */
#define TELL_MS 10000 /* between two lines of the log */

/* Its name for the linker, since <sys/socket.h> declares accept4() in a way that nobody can define
 * it in. */
__attribute__((visibility("default"))) int
mr_grpc_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags) __asm__("accept4");

/* One lock for all: a process has one server, or two. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what `servers` holds */
static LIST_HEAD(, mr_grpc_accepts) servers = LIST_HEAD_INITIALIZER(servers); /* lock */
static atomic_uint nservers;

static int accept_raw(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    return (int)syscall(SYS_accept4, fd, addr, len, flags);
}

/* It is to leave nothing behind, neither here nor with the peer. */
static void refuse(int fd)
{
    const struct linger at_once = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    (void)close(fd);
}

/* accept(2): what went wrong with one connection, which is gone by then. */
static bool is_of_one(int error)
{
    switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case EPERM: /* a firewall's */
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT: return true;
    default: return false;
    }
}

static bool is_of_want(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void reserve_locked(struct mr_grpc_accepts *a)
{
    if (a->reserve < 0) {
        a->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
    }
}

/* One of those that wait is refused, or gone; false: errno says why not. */
static bool refuse_next_locked(struct mr_grpc_accepts *a, int listener)
{
    int fd = accept_raw(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0 && is_of_want(errno) && a->reserve >= 0) {
        (void)close(a->reserve);
        a->reserve = -1;
        fd = accept_raw(listener, NULL, NULL, SOCK_CLOEXEC);
    }
    int error = errno;
    if (fd >= 0) {
        refuse(fd);
        a->refused++;
    }
    reserve_locked(a);
    errno = error;
    return fd >= 0 || is_of_one(error);
}

static bool admit_locked(struct mr_grpc_accepts *a, int fd, const struct sockaddr_storage *from,
                         int64_t now_ms)
{
    char peer[MR_GRPC_PEER_SIZE], host[MR_GRPC_HOST_SIZE];

    if (!mr_grpc_socket_name(from, peer)) {
        return false;
    }
    mr_grpc_host_of(peer, host);
    return mr_grpc_connections_admit(&a->connections, fd, host, now_ms, &a->why) == MR_OK;
}

/* There is none, or none shall be taken now: until gRPC asks again. */
static int go_over_locked(struct mr_grpc_accepts *a)
{
    mr_grpc_connections_go_over(&a->connections);
    a->go_until_ms = 0;
    errno = EAGAIN;
    return -1;
}

/* Some wait at @listener, and gRPC is told otherwise. */
static int owe_locked(struct mr_grpc_accepts *a, int listener, int64_t now_ms)
{
    a->owed = listener;
    a->owed_ms = now_ms;
    a->called = false;
    return go_over_locked(a);
}

static int accept_locked(struct mr_grpc_accepts *a, int listener, struct sockaddr_storage *from,
                         socklen_t *len, int flags)
{
    a->owed = a->owed == listener ? -1 : a->owed;
    for (;;) {
        int64_t now = mr_now_ms();

        a->go_until_ms = a->go_until_ms != 0 ? a->go_until_ms : now + GO_MS;
        if (now >= a->go_until_ms || mr_grpc_connections_go_is_full(&a->connections)) {
            return owe_locked(a, listener, now);
        }
        *len = sizeof *from;
        int fd = accept_raw(listener, (struct sockaddr *)(void *)from, len, flags);
        if (fd >= 0 && admit_locked(a, fd, from, now)) {
            return fd;
        }
        if (fd >= 0) {
            refuse(fd);
            a->refused++;
        } else if (errno == EAGAIN) {
            return go_over_locked(a);
        } else if (is_of_want(errno)) {
            (void)mr_error_set(&a->why, MR_EEXHAUSTED, "%s", strerror(errno));
            /* EAGAIN: nobody waits, which it says only who has a descriptor. */
            if (!refuse_next_locked(a, listener)) {
                return is_of_want(errno) ? owe_locked(a, listener, now) : go_over_locked(a);
            }
        } else if (!is_of_one(errno)) {
            return -1; /* The listener is being closed. */
        }
    }
}

static struct mr_grpc_accepts *find_locked(int port)
{
    struct mr_grpc_accepts *a;

    LIST_FOREACH(a, &servers, link) {
        if (a->port == port) {
            return a;
        }
    }
    return NULL;
}

int mr_grpc_accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
    struct sockaddr_storage from;
    socklen_t n;

    if (atomic_load(&nservers) == 0) {
        return accept_raw(fd, addr, len, flags);
    }
    mr_mutex_lock(&lock);
    struct mr_grpc_accepts *a = find_locked(mr_grpc_socket_port(fd));
    if (a == NULL) {
        mr_mutex_unlock(&lock);
        return accept_raw(fd, addr, len, flags);
    }
    int got = accept_locked(a, fd, &from, &n, flags);
    int error = errno;
    mr_mutex_unlock(&lock);
    if (got >= 0 && addr != NULL) {
        memcpy(addr, &from, n < *len ? n : *len);
        *len = n;
    }
    errno = error;
    return got;
}

int mr_grpc_accepts_start(struct mr_grpc_accepts *a, unsigned max, uint64_t descriptors,
                          mr_error *err)
{
    if (dlsym(RTLD_DEFAULT, "accept4") != (void *)mr_grpc_accept4) {
        return mr_error_set(err, MR_EINTERNAL,
                            "gRPC would accept connections without a limit: this program does not "
                            "export accept4()");
    }
    mr_grpc_connections_init(&a->connections, max, descriptors);
    a->reserve = -1;
    a->owed = -1;
    MR_LOCK(&lock);
    reserve_locked(a);
    LIST_INSERT_HEAD(&servers, a, link);
    atomic_fetch_add(&nservers, 1);
    a->started = true;
    return MR_OK;
}

void mr_grpc_accepts_free(struct mr_grpc_accepts *a)
{
    if (!a->started) {
        return;
    }
    MR_LOCK(&lock);
    LIST_REMOVE(a, link);
    atomic_fetch_sub(&nservers, 1);
    if (a->reserve >= 0) {
        (void)close(a->reserve);
    }
    mr_grpc_connections_free(&a->connections);
    a->started = false;
}

/* To the listener: gRPC will find it closed. */
static void call_locked(struct mr_grpc_accepts *a)
{
    struct sockaddr_storage at;
    socklen_t len = sizeof at;

    a->called = true;
    if (getsockname(a->owed, (struct sockaddr *)(void *)&at, &len) != 0) {
        return;
    }
    int fd = socket(at.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        (void)connect(fd, (struct sockaddr *)(void *)&at,
                      len); /* "Any address" is this host, too. */
        (void)close(fd);
    }
}

static void drain_locked(struct mr_grpc_accepts *a)
{
    (void)mr_error_set(&a->why, MR_EEXHAUSTED,
                       "no descriptor was left for them, or gRPC did not come for them");
    for (unsigned i = 0; a->owed >= 0 && i < DRAINED; i++) {
        if (!refuse_next_locked(a, a->owed)) {
            a->owed = is_of_want(errno) ? a->owed : -1;
            return;
        }
    }
}

/* Some wait, and gRPC does not know it. */
static void see_to_them_locked(struct mr_grpc_accepts *a, int64_t now_ms)
{
    if (mr_grpc_socket_port(a->owed) != a->port) {
        a->owed = -1; /* The listener is closed, and the number another's. */
    } else if (now_ms >= a->owed_ms + DRAIN_MS) {
        drain_locked(a);
    } else if (!a->called) {
        call_locked(a);
    }
}

void mr_grpc_accepts_look(struct mr_grpc_accepts *a, int64_t now_ms)
{
    mr_error why;
    unsigned refused = 0;

    mr_mutex_lock(&lock);
    reserve_locked(a);
    if (a->owed >= 0) {
        see_to_them_locked(a, now_ms);
    }
    if (a->refused > 0 && now_ms >= a->tell_ms) {
        refused = a->refused;
        why = a->why;
        a->refused = 0;
        a->tell_ms = now_ms + TELL_MS;
    }
    mr_mutex_unlock(&lock);
    if (refused > 0) {
        mr_log(MR_LOG_WARN, "refusing connections", "connections", "%u", refused, "error", "%s",
               why.message, NULL);
    }
}
