/* The sockets of gRPC's connections, which it shows to nobody: they are found by their two ends. */
#include "rpc/grpc/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <unistd.h>

bool mr_grpc_socket_name(const struct sockaddr_storage *at, char out[MR_GRPC_PEER_SIZE])
{
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)at;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)at;
    char host[INET6_ADDRSTRLEN];

    if (at->ss_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host) != NULL) {
        (void)snprintf(out, MR_GRPC_PEER_SIZE, "ipv4:%s:%u", host, (unsigned)ntohs(v4->sin_port));
        return true;
    }
    if (at->ss_family != AF_INET6) {
        return false;
    }
    bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
    const void *address =
        mapped ? (const void *)(v6->sin6_addr.s6_addr + 12) : (const void *)&v6->sin6_addr;
    if (inet_ntop(mapped ? AF_INET : AF_INET6, address, host, sizeof host) == NULL) {
        return false;
    }
    (void)snprintf(out, MR_GRPC_PEER_SIZE, mapped ? "ipv4:%s:%u" : "ipv6:%%5B%s%%5D:%u", host,
                   (unsigned)ntohs(v6->sin6_port));
    return true;
}

static bool peer_of(int fd, char out[MR_GRPC_PEER_SIZE])
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof storage;

    return getpeername(fd, (struct sockaddr *)(void *)&storage, &len) == 0 &&
           mr_grpc_socket_name(&storage, out);
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
    return mr_grpc_socket_port(fd) == port && peer_of(fd, out);
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
