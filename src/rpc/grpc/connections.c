/*
 * Connections, whatever is said on them: each takes a descriptor and some memory, and gRPC 1.51 has
 * no limit of them. So each is counted when it has been accepted (accept.c), before gRPC hears of
 * it: a host has its share, and what is too much is refused.
 *
 * Nobody tells when gRPC closes one. But a descriptor has the lowest number that is free, so a
 * connection that is gone is found out when its number is given to the next one, or else when
 * somebody would be refused: then all numbers are looked at, though not again and again.
 *
 * A host has its share of those that come at once, too. gRPC accepts in one go whatever waits, and
 * only then begins to set up any of it, with timers that count from the beginning of that go. Those
 * of 10 s (keepalive) were over before they started, on another thread than the one that was
 * setting up the connection, and an assertion of gRPC's ended the process (seen with 19,000 in one
 * go).
 */
#include "rpc/grpc/internal.h"

#include <sys/stat.h>

/* Some ms each to set up on a slow machine. */
#define AT_ONCE 512

/* Of all descriptors, what connections leave free in any case: files, and the connections that we
 * open ourselves. */
#define SPARE(descriptors) ((descriptors) / 8)

/* Looking at all costs something: again when so many have come since, or after so long. */
#define STEP(max) ((max) / 32)
#define PATIENCE_MS 50

void mr_grpc_connections_init(struct mr_grpc_connections *c, unsigned max, uint64_t descriptors)
{
    *c = (struct mr_grpc_connections){.max = max, .descriptors = descriptors};
    mr_shares_init(&c->hosts, "connections", max);
    mr_shares_init(&c->going, "connections that come at once", AT_ONCE);
}

/* Its holders have all gone. */
static void give_back_all(struct mr_shares *shares)
{
    while (!LIST_EMPTY(&shares->list)) {
        mr_share_give(LIST_FIRST(&shares->list), 1);
    }
}

void mr_grpc_connections_free(struct mr_grpc_connections *c)
{
    give_back_all(&c->hosts);
    give_back_all(&c->going);
    mr_shares_free(&c->hosts);
    mr_shares_free(&c->going);
    mr_free(c->all);
    *c = (struct mr_grpc_connections){.max = 0};
}

bool mr_grpc_connections_go_is_full(const struct mr_grpc_connections *c)
{
    return c->going.taken >= c->going.max;
}

void mr_grpc_connections_go_over(struct mr_grpc_connections *c)
{
    give_back_all(&c->going);
}

/* What tells one socket from the next with its number; 0: it is none. */
static uint64_t inode(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) ? (uint64_t)st.st_ino : 0;
}

static void forget(struct mr_grpc_connection *held)
{
    mr_share_give(held->share, 1);
    held->share = NULL;
}

static void look_at_all(struct mr_grpc_connections *c, int64_t now_ms)
{
    for (size_t fd = 0; fd < c->cap; fd++) {
        if (c->all[fd].share != NULL && inode((int)fd) != c->all[fd].inode) {
            forget(&c->all[fd]);
        }
    }
    c->came = 0;
    c->looked_ms = now_ms;
}

static bool has_room(struct mr_grpc_connections *c, const char *host, int64_t now_ms, mr_error *why)
{
    if (mr_shares_check(&c->hosts, host, 1, why) == MR_OK) {
        return true;
    }
    if (c->came <= STEP(c->max) && now_ms < c->looked_ms + PATIENCE_MS) {
        return false;
    }
    look_at_all(c, now_ms);
    return mr_shares_check(&c->hosts, host, 1, why) == MR_OK;
}

/* The place of @fd, which is empty: the one that had the number before is gone. NULL: no memory. */
static struct mr_grpc_connection *place_of(struct mr_grpc_connections *c, int fd)
{
    size_t at = (size_t)fd;

    if (at >= c->cap) {
        size_t cap = 2 * at + 1;
        struct mr_grpc_connection *all = mr_reallocarray(c->all, cap, sizeof *all);

        if (all == NULL) {
            return NULL;
        }
        memset(all + c->cap, 0, (cap - c->cap) * sizeof *all);
        c->all = all;
        c->cap = cap;
    }
    if (c->all[at].share != NULL) {
        forget(&c->all[at]);
    }
    return &c->all[at];
}

int mr_grpc_connections_admit(struct mr_grpc_connections *c, int fd, const char *host,
                              int64_t now_ms, mr_error *err)
{
    struct mr_share *going;
    struct mr_grpc_connection *held = place_of(c, fd);

    MR_CHECK_ALLOC(held, err);
    if ((uint64_t)fd >= c->descriptors - SPARE(c->descriptors)) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "%d descriptors of %llu are open, the others are kept for files", fd,
                            (unsigned long long)c->descriptors);
    }
    if (!has_room(c, host, now_ms, err)) {
        return MR_EEXHAUSTED;
    }

    MR_TRY(mr_shares_take(&c->going, host, 1, &going, err));
    MR_TRY(mr_shares_take(&c->hosts, host, 1, &held->share, err));
    held->inode = inode(fd);
    c->came++;
    return MR_OK;
}
