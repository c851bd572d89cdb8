/*
 * Connections, whatever is said on them: each takes a descriptor, and when there is none left gRPC 1.51 gives up its
 * listener for good. It has no limit of them, and asks nobody before it accepts one. So a host that has more than its
 * share is found afterwards, on the thread of resets.c, and its newest connections are ended.
 *
 * A new descriptor has the lowest number that is free, which tells in one call how far it has come. As long as that is
 * half of what there may be, nobody can have more than its share, and nothing else is looked at.
 */
#include "rpc/internal.h"

#include "base/log.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Looking at all costs something: again when so many have come since, or after so many looks at the first number, since
 * those that come may take the numbers of those that go. */
#define STEP(max) ((max) / 32)
#define PATIENCE 20

/* So many descriptors are open at least. */
static int64_t descriptors(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return INT64_C(1) << 32; /* None is left. */
    }
    (void)close(fd);
    return fd;
}

/* @fd, a connection of @peer, is one too many. */
static void end_one(const struct mr_rpc_connections *c, int fd, const char *peer, const mr_error *why)
{
    int held = mr_rpc_socket_hold(fd, peer, c->port);

    if (held < 0 && errno == 0) {
        return; /* It is gone. */
    }
    if (held < 0 || !mr_rpc_socket_end(held)) {
        mr_log(MR_LOG_WARN, "a connection that is one too many cannot be ended, trying again when more come", "peer",
               "%s", peer, "error", "%s", strerror(errno), NULL);
    } else {
        mr_log(MR_LOG_DEBUG, "ending a connection", "peer", "%s", peer, "error", "%s", why->message, NULL);
    }
}

/* Count them anew, the oldest first as far as numbers tell. Returns how many were too many; the last @why. */
static unsigned end_surplus(const struct mr_rpc_connections *c, DIR *dir, struct mr_shares *shares, mr_error *why)
{
    char peer[MR_RPC_PEER_SIZE], host[MR_RPC_HOST_SIZE];
    unsigned ended = 0;

    for (struct dirent *d; (d = readdir(dir)) != NULL;) {
        int fd = d->d_name[0] == '.' ? -1 : (int)strtol(d->d_name, NULL, 10);
        struct mr_share *share;

        if (fd < 0 || !mr_rpc_socket_peer(fd, c->port, peer)) {
            continue;
        }
        mr_rpc_host_of(peer, host);
        if (mr_shares_take(shares, host, 1, &share, why) < 0) {
            end_one(c, fd, peer, why);
            ended++;
        }
    }
    return ended;
}

/* False: some are going, so that it is to be done again. */
static bool look_at_all(const struct mr_rpc_connections *c)
{
    struct mr_shares shares;
    unsigned ended = 0;
    mr_error why;
    DIR *dir = opendir("/proc/self/fd");

    if (dir == NULL) {
        mr_log(MR_LOG_WARN, "connections cannot be counted, trying again when more come", "error", "%s",
               strerror(errno), NULL);
        return true;
    }
    mr_shares_init(&shares, "connections", c->max);
    ended = end_surplus(c, dir, &shares, &why);
    (void)closedir(dir);
    if (ended > 0) {
        mr_log(MR_LOG_WARN, "ending connections of hosts that have too many", "connections", "%u", ended, "error", "%s",
               why.message, NULL);
    }
    while (!LIST_EMPTY(&shares.list)) {
        mr_share_give(LIST_FIRST(&shares.list), 1);
    }
    mr_shares_free(&shares);
    return ended == 0;
}

void mr_rpc_connections_look(struct mr_rpc_connections *c)
{
    int64_t open = descriptors();

    if (open > c->max / 2 && (open > c->seen + STEP(c->max) || ++c->waited == PATIENCE)) {
        c->waited = 0;
        c->seen = look_at_all(c) ? open : 0;
    } else if (open < c->seen) {
        c->seen = open;
    }
}
