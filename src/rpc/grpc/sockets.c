/* The sockets of gRPC's connections, which it shows to nobody: they are found by their two ends. */
#include "rpc/grpc/internal.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

bool mr_grpc_socket_name(const struct sockaddr_storage *at, char out[MR_GRPC_PEER_SIZE])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)at;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)at;
    bool mapped = at->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
    int family = mapped ? AF_INET : at->ss_family;
    const void *address = mapped               ? (const void *)(v6->sin6_addr.s6_addr + 12)
                          : family == AF_INET6 ? (const void *)&v6->sin6_addr
                                               : (const void *)&v4->sin_addr;
    char host[INET6_ADDRSTRLEN];

    if (inet_ntop(family, address, host, sizeof host) == NULL) {
        return false; /* It is neither. */
    }
    (void)snprintf(out, MR_GRPC_PEER_SIZE, family == AF_INET ? "ipv4:%s:%u" : "ipv6:%%5B%s%%5D:%u",
                   host, (unsigned)ntohs(v4->sin_port)); /* The same place in both. */
    return true;
}

int mr_grpc_socket_port(int fd)
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof storage;

    if (getsockname(fd, (struct sockaddr *)(void *)&storage, &len) != 0 ||
        (storage.ss_family != AF_INET && storage.ss_family != AF_INET6)) {
        return -1;
    }
    return ntohs(((struct sockaddr_in *)(void *)&storage)->sin_port); /* The same place in both. */
}

bool mr_grpc_socket_peer(int fd, int64_t port, char out[MR_GRPC_PEER_SIZE])
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof storage;

    return mr_grpc_socket_port(fd) == port &&
           getpeername(fd, (struct sockaddr *)(void *)&storage, &len) == 0 &&
           mr_grpc_socket_name(&storage, out);
}

static bool is_connection(int fd, const char *peer, int64_t port)
{
    char name[MR_GRPC_PEER_SIZE];

    return mr_grpc_socket_peer(fd, port, name) && strcmp(name, peer) == 0;
}

int mr_grpc_socket_hold(int fd, const char *peer, int64_t port)
{
    if (!is_connection(fd, peer, port)) {
        errno = 0;
        return -1;
    }
    int held = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (held < 0) {
        errno = errno == EBADF ? 0 : errno; /* EBADF: gRPC has closed it just now. */
    } else if (!is_connection(held, peer, port)) {
        (void)close(held);
        errno = 0;
        held = -1;
    }
    return held;
}

bool mr_grpc_socket_end(int held)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    int rc = connect(held, &nobody, sizeof nobody);
    int error = errno;

    (void)close(held);
    errno = error;
    return rc == 0;
}

void mr_grpc_socket_each(int64_t port, void (*visit)(void *ctx, int fd, const char *peer),
                         void *ctx)
{
    char peer[MR_GRPC_PEER_SIZE];
    DIR *dir = opendir("/proc/self/fd");

    for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;) {
        int fd = d->d_name[0] == '.' ? -1 : (int)strtol(d->d_name, NULL, 10);

        if (fd >= 0 && mr_grpc_socket_peer(fd, port, peer)) {
            visit(ctx, fd, peer);
        }
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

uint64_t mr_grpc_socket_received(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof info;

    memset(&info, 0, sizeof info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 ? info.tcpi_bytes_received : 0;
}

/* Whoever has an IPv6 address may as well have all of its /64, which would be as many hosts as they
 * like. */
static void widen(char host[MR_GRPC_HOST_SIZE])
{
    struct in6_addr address;
    char text[INET6_ADDRSTRLEN];

    (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(host, "%"),
                   host); /* without the interface's number */
    if (inet_pton(AF_INET6, text, &address) != 1 || IN6_IS_ADDR_LOOPBACK(&address) ||
        IN6_IS_ADDR_V4MAPPED(&address)) {
        return;
    }
    memset(address.s6_addr + 8, 0, 8);
    if (inet_ntop(AF_INET6, &address, text, sizeof text) != NULL) {
        (void)snprintf(host, MR_GRPC_HOST_SIZE, "%s/64", text);
    }
}

/* "ipv4:10.0.0.7:4711" or "ipv6:%5Bfe80::1%5D:4711", the brackets as they are or escaped. */
void mr_grpc_host_of(const char *peer, char out[MR_GRPC_HOST_SIZE])
{
    const char *from =
        strncmp(peer, "ipv4:", 5) == 0 || strncmp(peer, "ipv6:", 5) == 0 ? peer + 5 : NULL;
    const char *end = from != NULL ? strrchr(from, ':') : NULL;

    if (end == NULL) {
        (void)snprintf(out, MR_GRPC_HOST_SIZE, "local");
        return;
    }
    if (strncmp(from, "%5B", 3) == 0 && end - from > 6) {
        from += 3;
        end -= 3;
    } else if (from[0] == '[' && end - from > 2) {
        from++;
        end--;
    }
    (void)snprintf(out, MR_GRPC_HOST_SIZE, "%.*s", (int)(end - from), from);
    widen(out);
}
