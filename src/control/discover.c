/*
 * When a round found no leader, there may be more dispatchers behind the names that were configured
 * than were asked.
 *
 * A name may have several addresses, of which a channel takes the first one that accepts: each of
 * them becomes a member of its own. And one address may be a load balancer's, with a standby behind
 * this connection that names a leader whom nobody can reach from here: a new connection may lead to
 * another dispatcher, perhaps the leader itself.
 */
#include "base/address.h"
#include "base/clock.h"
#include "control/internal.h"

#include <netdb.h>
#include <sys/socket.h>

#define EVERY_MS 1000
#define ADDRESSES_MAX 16 /* of one name */

struct found {
    char addresses[ADDRESSES_MAX][MR_ADDRESS_BYTES_MAX + 1];
    size_t n;
};

/* The old channels go without the lock: each may wait for a connection attempt. */
static void reconnect_locked(mr_control *c)
{
    mr_rpc_channel *old[MEMBERS_MAX];
    size_t n = 0;

    for (size_t i = 0; i < c->nmembers; i++) {
        struct mr_control_member *m = c->members[i];
        mr_rpc_channel *channel = NULL;

        if (m->configured && m->stands_by && m->users == 0 &&
            mr_control_channel(c, m->address, &channel, NULL) == MR_OK) {
            old[n++] = m->channel;
            m->channel = channel;
            m->stands_by = false;
        }
    }
    mr_mutex_unlock(&c->lock);
    for (size_t i = 0; i < n; i++) {
        mr_rpc_channel_free(old[i]);
    }
    mr_mutex_lock(&c->lock);
}

static void note(struct found *f, const struct addrinfo *ai)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    int n;

    if (f->n == ADDRESSES_MAX || getnameinfo(ai->ai_addr, ai->ai_addrlen, host, sizeof host, port,
                                             sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        return;
    }
    n = snprintf(f->addresses[f->n], sizeof f->addresses[0],
                 strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port);
    f->n += n > 0 && (size_t)n < sizeof f->addresses[0];
}

/* What "host:port" stands for now. Waits for the resolver. */
static void resolve(const char *address, struct found *f)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    struct mr_address parsed;

    f->n = 0;
    if (address[0] == '[' || !mr_address_parse(address, &parsed)) {
        return; /* The address of one place. */
    }
    if (getaddrinfo(parsed.host, parsed.port, &hints, &list) != 0) {
        return; /* The channel says so, to those who ask. */
    }
    for (const struct addrinfo *ai = list; ai != NULL; ai = ai->ai_next) {
        note(f, ai);
    }
    freeaddrinfo(list);
}

void mr_control_discover_locked(mr_control *c, bool reconnect)
{
    const char *names[MEMBERS_MAX];
    struct found found;
    size_t n = 0;
    int64_t now = mr_now_ms();

    if (now < c->discover_ms) {
        return;
    }
    c->discover_ms = now + EVERY_MS;
    if (reconnect) {
        reconnect_locked(c);
    }
    for (size_t i = 0; i < c->nmembers; i++) {
        if (c->members[i]->configured) {
            names[n++] = c->members[i]->address; /* Configured members stay. */
        }
    }
    for (size_t i = 0; i < n; i++) {
        mr_mutex_unlock(&c->lock);
        resolve(names[i], &found);
        mr_mutex_lock(&c->lock);
        for (size_t k = 0; k < found.n && found.n > 1; k++) {
            (void)mr_member_learn_locked(c, found.addresses[k], false, NULL,
                                         NULL); /* Without memory: later. */
        }
    }
}
