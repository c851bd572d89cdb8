/*
 * Connections on which calls are begun and taken back at once, by the thousand: HTTP/2 allows it without end, since a
 * call that was reset does not count as open, and gRPC 1.51 has no limit. Those calls are counted by peer, and the
 * connection of one that has far more of them than any client ever needs is ended. gRPC tells nobody which descriptor
 * is whose, so it is found by the peer's address, with TLS or without.
 *
 * The counters are few. When all are taken and another peer comes, each loses one: who stands out keeps its own.
 */
#include "rpc/internal.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void mr_rpc_resets_init(struct mr_rpc_resets *all, unsigned calls_max)
{
    memset(all, 0, sizeof *all);
    all->calls_max = calls_max;
}

/* As gRPC writes the address of a peer; an IPv4 address in IPv6's clothes is an IPv4 address. */
static bool peer_of(int fd, char *out, size_t size)
{
    struct sockaddr_storage storage;
    struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)&storage;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)(void *)&storage;
    socklen_t len = sizeof storage;
    char host[INET6_ADDRSTRLEN];

    if (getpeername(fd, (struct sockaddr *)(void *)&storage, &len) != 0) {
        return false;
    }
    if (storage.ss_family == AF_INET && inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host) != NULL) {
        (void)snprintf(out, size, "ipv4:%s:%u", host, (unsigned)ntohs(v4->sin_port));
        return true;
    }
    if (storage.ss_family != AF_INET6) {
        return false;
    }
    bool mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
    const void *address = mapped ? (const void *)(v6->sin6_addr.s6_addr + 12) : (const void *)&v6->sin6_addr;
    if (inet_ntop(mapped ? AF_INET : AF_INET6, address, host, sizeof host) == NULL) {
        return false;
    }
    (void)snprintf(out, size, mapped ? "ipv4:%s:%u" : "ipv6:%%5B%s%%5D:%u", host, (unsigned)ntohs(v6->sin6_port));
    return true;
}

static bool is_at_port(int fd, int port)
{
    struct sockaddr_storage storage;
    socklen_t len = sizeof storage;

    if (getsockname(fd, (struct sockaddr *)(void *)&storage, &len) != 0) {
        return false;
    }
    /* The port is in the same place in both. */
    return ntohs(((struct sockaddr_in *)(void *)&storage)->sin_port) == port;
}

/*
 * By connecting it to nothing, since shutdown() would leave megabytes in its buffer to be read. @fd is a duplicate:
 * gRPC may close its own at any moment, and the number be another connection's.
 */
static bool end_if_it_is(int fd, const char *peer, int port)
{
    const struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    char name[MR_RPC_PEER_BYTES];

    return is_at_port(fd, port) && peer_of(fd, name, sizeof name) && strcmp(name, peer) == 0 &&
           connect(fd, &nobody, sizeof nobody) == 0;
}

static bool end_connection(const char *peer, int port)
{
    DIR *dir = opendir("/proc/self/fd");
    bool ended = false;

    if (dir == NULL) {
        return false;
    }
    for (struct dirent *d; !ended && (d = readdir(dir)) != NULL;) {
        int fd = d->d_name[0] == '.' ? -1 : fcntl((int)strtol(d->d_name, NULL, 10), F_DUPFD_CLOEXEC, 0);

        if (fd >= 0) {
            ended = end_if_it_is(fd, peer, port);
            (void)close(fd);
        }
    }
    (void)closedir(dir);
    return ended;
}

/* The counter of @peer; NULL: there is none left, which took one from each. */
static struct mr_rpc_reset_count *count_of(struct mr_rpc_resets *all, const char *peer)
{
    struct mr_rpc_reset_count *unused = NULL;

    for (size_t i = 0; i < MR_RPC_RESET_PEERS; i++) {
        struct mr_rpc_reset_count *c = &all->counts[i];

        if (c->calls > 0 && strcmp(c->peer, peer) == 0) {
            return c;
        }
        unused = c->calls == 0 ? c : unused;
    }
    if (unused != NULL) {
        (void)snprintf(unused->peer, sizeof unused->peer, "%s", peer);
        return unused;
    }
    for (size_t i = 0; i < MR_RPC_RESET_PEERS; i++) {
        all->counts[i].calls--;
    }
    return NULL;
}

void mr_rpc_resets_add(struct mr_rpc_resets *all, const char *peer, int port)
{
    struct mr_rpc_reset_count *c = count_of(all, peer);

    if (c == NULL || ++c->calls <= all->calls_max) {
        return;
    }
    c->calls = 0;
    if (end_connection(peer, port)) { /* It may be gone already, and what it sent be left. */
        mr_log(MR_LOG_WARN, "a peer takes back the calls that it makes, ending its connection", "peer", "%s", peer,
               "calls", "%u", all->calls_max, "within_s", "%d", MR_RPC_RESETS_MS / 1000, NULL);
    }
}

void mr_rpc_resets_tick(struct mr_rpc_resets *all, int64_t now_ms)
{
    if (now_ms >= all->until_ms) {
        memset(all->counts, 0, sizeof all->counts);
        all->until_ms = now_ms + MR_RPC_RESETS_MS;
    }
}
