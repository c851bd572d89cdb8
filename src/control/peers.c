/*
 * Who is asked: the configured dispatchers, those learned from a leader, and the leader itself as far as it is known.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rng.h"
#include "control/internal.h"

#include <millrace/dataset.h> /* mr_free */
#include <stdio.h>
#include <string.h>

int mr_control_new(mr_rpc_runtime *rt, const struct mr_control_options *opts, mr_control **ret, mr_error *err)
{
    char addresses[CONTROL_PEERS_MAX][CONTROL_ADDRESS_MAX];
    mr_control *c = NULL;
    size_t n = 0;
    int rc;

    rc = control_parse_service(opts->service, addresses, &n, err);
    if (rc < 0) {
        return rc;
    }
    if (opts->cluster != NULL && strlen(opts->cluster) >= sizeof c->cluster) {
        return mr_error_set(err, MR_EINVAL, "cluster '%.60s...' is longer than %zu bytes", opts->cluster,
                            sizeof c->cluster - 1);
    }
    c = mr_calloc(1, sizeof *c);
    if (c == NULL) {
        return mr_error_nomem(err);
    }
    c->service = mr_strdup(opts->service);
    if (c->service == NULL) {
        mr_free(c);
        return mr_error_nomem(err);
    }
    c->rt = rt;
    c->announce = opts->announce;
    (void)snprintf(c->cluster, sizeof c->cluster, "%s", opts->cluster == NULL ? "" : opts->cluster);
    for (size_t i = 0; i < n; i++) {
        memcpy(c->peers[i].address, addresses[i], sizeof addresses[i]);
        c->peers[i].configured = true;
    }
    c->npeers = n;
    c->turn = (size_t)(mr_random_u64() % n); /* Clients of one list do not all begin at its first entry. */
    mr_mutex_init(&c->lock);
    mr_cond_init(&c->changed);
    *ret = c;
    return MR_OK;
}

static void link_free(struct control_link *link)
{
    if (link != NULL) {
        mr_rpc_channel_free(link->channel);
        mr_free(link);
    }
}

void mr_control_free(mr_control *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->npeers; i++) {
        link_free(c->peers[i].link);
    }
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_cond_destroy(&c->changed);
    mr_free(c->service);
    mr_free(c);
}

void mr_control_cancel(mr_control *c)
{
    MR_LOCK(&c->lock);

    c->cancelled = true;
    for (struct control_pending *p = c->pending; p != NULL; p = p->next) {
        if (p->call != NULL) {
            mr_rpc_call_cancel(p->call);
        }
    }
    (void)pthread_cond_broadcast(&c->changed);
}

uint64_t mr_control_epoch(mr_control *c)
{
    MR_LOCK(&c->lock);
    return c->epoch;
}

void mr_control_incarnation(mr_control *c, char out[40])
{
    MR_LOCK(&c->lock);
    memcpy(out, c->incarnation, sizeof c->incarnation);
}

/* The index of @address among the peers, added if there is room; npeers if there is none. */
static size_t find_peer_locked(mr_control *c, const char *address)
{
    for (size_t i = 0; i < c->npeers; i++) {
        if (strcmp(c->peers[i].address, address) == 0) {
            return i;
        }
    }
    if (c->npeers == CONTROL_PEERS_MAX || strlen(address) >= CONTROL_ADDRESS_MAX || address[0] == '\0') {
        return c->npeers;
    }
    struct control_peer *peer = &c->peers[c->npeers];
    memset(peer, 0, sizeof *peer);
    memcpy(peer->address, address, strlen(address) + 1);
    return c->npeers++;
}

/* Forget learned peers that a leader no longer lists; links in use live on with their users. */
static void keep_only_locked(mr_control *c, char *const *live, size_t nlive)
{
    size_t kept = 0;

    for (size_t i = 0; i < c->npeers; i++) {
        struct control_peer *peer = &c->peers[i];
        bool keep = peer->configured;

        for (size_t k = 0; k < nlive && !keep; k++) {
            keep = strcmp(live[k], peer->address) == 0;
        }
        if (!keep && peer->link != NULL) {
            peer->link->stale = true;
            if (peer->link->users == 0) {
                link_free(peer->link);
            }
        }
        if (keep && kept++ != i) {
            c->peers[kept - 1] = *peer;
        }
    }
    c->npeers = kept;
}

static int connect_locked(mr_control *c, struct control_peer *peer, mr_error *err)
{
    struct control_link *link;
    int rc;

    if (peer->link != NULL) {
        return MR_OK;
    }
    link = mr_calloc(1, sizeof *link);
    if (link == NULL) {
        return mr_error_nomem(err);
    }
    rc = mr_rpc_channel_new(c->rt, peer->address, NULL, &link->channel, err);
    if (rc < 0) {
        mr_free(link);
        return rc;
    }
    peer->link = link;
    return MR_OK;
}

int control_pick(mr_control *c, struct control_attempt *a, mr_error *err)
{
    MR_LOCK(&c->lock);
    size_t i = c->npeers;
    int rc;

    if (c->cancelled) {
        return mr_error_set(err, MR_ECANCELED, "cancelled");
    }
    if (c->leader[0] != '\0') {
        i = find_peer_locked(c, c->leader);
    }
    if (i == c->npeers) {
        i = c->turn++ % c->npeers;
    }
    rc = connect_locked(c, &c->peers[i], err);
    if (rc < 0) {
        return rc;
    }
    a->link = c->peers[i].link;
    a->link->users++;
    memcpy(a->address, c->peers[i].address, sizeof a->address);
    return MR_OK;
}

void control_release(mr_control *c, struct control_attempt *a, bool failed)
{
    MR_LOCK(&c->lock);
    struct control_link *link = a->link;

    a->link = NULL;
    if (failed) {
        if (strcmp(c->leader, a->address) == 0) {
            c->leader[0] = '\0';
        }
        /* A new channel resolves the name anew: all dispatchers may have been replaced. */
        for (size_t i = 0; i < c->npeers; i++) {
            if (c->peers[i].link == link) {
                c->peers[i].link = NULL;
            }
        }
        link->stale = true;
    }
    if (--link->users == 0 && link->stale) {
        link_free(link);
    }
}

void control_fill_header(mr_control *c, Millrace__RequestHeader *h, struct control_header_store *store)
{
    MR_LOCK(&c->lock);

    memcpy(store->cluster, c->cluster, sizeof store->cluster);
    memcpy(store->incarnation, c->incarnation, sizeof store->incarnation);
    millrace__request_header__init(h);
    h->cluster = store->cluster;
    h->incarnation = store->incarnation;
    h->epoch = c->epoch;
    h->version = (char *)MR_VERSION;
}

/* Only a leader is believed (it has shown so by a fenced answer). Numbers compare within one incarnation only. */
static void learn_locked(mr_control *c, const struct control_attempt *a, const Millrace__ReplyHeader *h)
{
    if (h->epoch == 0) {
        return;
    }
    if (strcmp(c->incarnation, h->incarnation) != 0) {
        (void)snprintf(c->incarnation, sizeof c->incarnation, "%s", h->incarnation);
        c->epoch = 0;
    }
    if (h->epoch > c->epoch) {
        c->epoch = h->epoch;
    }
    (void)snprintf(c->cluster, sizeof c->cluster, "%s", h->cluster);
    memcpy(c->leader, a->address, sizeof c->leader);
    if (h->n_dispatchers > 0) {
        keep_only_locked(c, h->dispatchers, h->n_dispatchers);
        for (size_t i = 0; i < h->n_dispatchers; i++) {
            (void)find_peer_locked(c, h->dispatchers[i]);
        }
    }
}

/* To whom a standby sends us, unless that has gone in circles. */
static bool follow_locked(mr_control *c, struct control_attempt *a, const Millrace__ReplyHeader *h)
{
    c->leader[0] = '\0';
    if (h->leader[0] == '\0' || strcmp(h->leader, a->address) == 0 || strlen(h->leader) >= sizeof c->leader ||
        a->redirects >= CONTROL_REDIRECTS_MAX) {
        a->redirects = 0;
        return false;
    }
    a->redirects++;
    memcpy(c->leader, h->leader, strlen(h->leader) + 1);
    return true;
}

int control_judge(mr_control *c, struct control_attempt *a, const Millrace__ReplyHeader *h, bool *wait, mr_error *err)
{
    MR_LOCK(&c->lock);

    *wait = true;
    if (h == NULL) {
        return mr_error_set(err, MR_EDATALOSS, "dispatcher %s: answer without a header", a->address);
    }
    if (c->cluster[0] != '\0' && h->cluster[0] != '\0' && strcmp(c->cluster, h->cluster) != 0) {
        return mr_error_set(err, MR_EPRECOND, "dispatcher %s belongs to cluster '%s', not to '%s'", a->address, h->cluster,
                            c->cluster);
    }
    if (h->not_leader) {
        *wait = !follow_locked(c, a, h);
        return MR_TIMEOUT;
    }
    a->redirects = 0;
    if (h->code == MR_EUNAVAIL || (h->traits & (MR_RETRYABLE | MR_MAYBE_APPLIED)) != 0) {
        (void)mr_error_set(err, MR_EUNAVAIL, "dispatcher %s: %s", a->address, h->message);
        return MR_TIMEOUT;
    }
    learn_locked(c, a, h);
    if (h->code < 0) {
        return mr_error_set_traits(err, h->code, h->traits, "%s", h->message);
    }
    a->failures = 0;
    return MR_OK;
}

void control_announce(mr_control *c, const struct control_attempt *a, int64_t timeout_ms)
{
    bool say;

    if (mr_now_ms() - a->started_ms < CONTROL_ANNOUNCE_MS) {
        return;
    }
    {
        MR_LOCK(&c->lock);
        say = c->announce && !c->announced;
        c->announced = true;
    }
    if (!say) {
        return;
    }
    if (timeout_ms < 0) {
        (void)fprintf(stderr, "millrace: no dispatcher answers at %s yet; still trying\n", c->service);
    } else {
        (void)fprintf(stderr, "millrace: no dispatcher answers at %s yet; waiting up to %lld s\n", c->service,
                      (long long)(timeout_ms / 1000));
    }
}

int control_back_off(mr_control *c, struct control_attempt *a, int64_t timeout_ms, const bool *stop, mr_error *err)
{
    int64_t until = mr_now_ms() + mr_backoff_ms(a->failures++, 20, 1000, mr_random_u64());

    control_announce(c, a, timeout_ms);
    MR_LOCK(&c->lock);
    for (;;) {
        int64_t left = until - mr_now_ms();

        if (c->cancelled || (stop != NULL && *stop)) {
            return mr_error_set(err, MR_ECANCELED, "cancelled");
        }
        if (left <= 0) {
            return MR_OK;
        }
        (void)mr_cond_wait_ms(&c->changed, &c->lock, left);
    }
}
