/* A member's requests: their events, with some to spare for when there is no memory, and their
 * answers. The store's callbacks run on its own threads: they copy what they are given into the
 * event and post it, nothing else. */
#include "coord/member_internal.h"

static struct mr_member_event *event_new(void (*post)(void *, struct mr_member_event *), void *ctx)
{
    struct mr_member_event *ev = mr_calloc(1, sizeof *ev);

    if (ev != NULL) {
        ev->post = post;
        ev->ctx = ctx;
    }
    return ev;
}

static void event_free(struct mr_member_event *ev)
{
    mr_free(ev->kvs);
    if (!ev->is_embedded) {
        mr_free(ev);
    }
}

static struct mr_member_event *take_event(mr_member *m)
{
    struct mr_member_event *ev = event_new(m->opts.post, m->opts.ctx);

    if (ev == NULL) {
        /* Without any memory for so long nobody can coordinate; a crash hands over. */
        ev = LIST_FIRST(&m->spares);
        MR_ASSERT(ev != NULL);
        LIST_REMOVE(ev, link);
        m->nspares--;
    }
    return ev;
}

struct mr_member_event *mr_member_request(mr_member *m, enum mr_member_request kind,
                                          uint64_t serial)
{
    struct mr_member_event *ev = take_event(m);

    ev->kind = kind;
    ev->serial = serial;
    ev->sent_ms = m->now_ms;
    ev->floor = m->newest_revision;
    LIST_INSERT_HEAD(&m->requests, ev, link);
    ev->listed = true;
    return ev;
}

struct mr_bytes mr_member_key(const mr_member *m, struct key *k, const char *a, const char *b)
{
    int n = snprintf(k->s, sizeof k->s, "%s%s%s", m->root, a, b);

    MR_ASSERT(n > 0 && (size_t)n < sizeof k->s);
    return (struct mr_bytes){k->s, (size_t)n};
}

static void add_spare(mr_member *m, struct mr_member_event *ev)
{
    *ev = (struct mr_member_event){.post = m->opts.post, .ctx = m->opts.ctx};
    LIST_INSERT_HEAD(&m->spares, ev, link);
    m->nspares++;
}

/* An event that is done with is a spare, if one was taken. */
void mr_member_give_back(mr_member *m, struct mr_member_event *ev)
{
    if (m->nspares < MR_MEMBER_SPARES && !ev->is_embedded) {
        mr_free(ev->kvs);
        add_spare(m, ev);
    } else {
        event_free(ev);
    }
}

void mr_member_unlist(mr_member *m, struct mr_member_event *ev)
{
    if (ev->listed) {
        LIST_REMOVE(ev, link);
        ev->listed = false;
    }
}

int mr_member_fill_spares(mr_member *m)
{
    while (m->nspares < MR_MEMBER_SPARES) {
        struct mr_member_event *spare = event_new(m->opts.post, m->opts.ctx);

        if (spare == NULL) {
            return MR_EEXHAUSTED;
        }
        add_spare(m, spare);
    }
    return MR_OK;
}

void mr_member_drop_requests(mr_member *m)
{
    struct mr_member_event *ev;

    while ((ev = LIST_FIRST(&m->requests)) != NULL) {
        mr_member_unlist(m, ev);
        mr_member_give_back(m, ev);
    }
    while ((ev = LIST_FIRST(&m->spares)) != NULL) {
        LIST_REMOVE(ev, link);
        event_free(ev);
    }
}

void mr_member_event_fail(struct mr_member_event *ev)
{
    ev->rc = mr_error_nomem(&ev->err);
    ev->post(ev->ctx, ev);
}

static struct mr_bytes move_in(char **at, struct mr_bytes b)
{
    struct mr_bytes copy = {*at, b.size};

    if (b.size > 0) {
        memcpy(*at, b.data, b.size);
    }
    (*at)[b.size] = '\0'; /* Keys are used as C strings. */
    *at += b.size + 1;
    return copy;
}

/* Copy pairs into one block: the array, then the bytes. */
static void keep(struct mr_member_event *ev, const struct mr_kv *kvs, size_t n)
{
    size_t bytes = (n + 1) * sizeof *kvs;

    for (size_t i = 0; i < n; i++) {
        bytes += kvs[i].key.size + kvs[i].value.size + 2;
    }
    ev->kvs = mr_malloc(bytes);
    if (ev->kvs == NULL) {
        /* An answer that was lost. Not MR_EEXHAUSTED, which is what a full store says. */
        ev->rc = mr_error_set_traits(&ev->err, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED,
                                     "no memory for the answer of etcd");
        return;
    }
    char *at = (char *)(ev->kvs + n + 1);
    for (size_t i = 0; i < n; i++) {
        ev->kvs[i] = kvs[i];
        ev->kvs[i].key = move_in(&at, kvs[i].key);
        ev->kvs[i].value = move_in(&at, kvs[i].value);
    }
    ev->count = n;
}

static void set_outcome(struct mr_member_event *ev, int rc, const mr_error *err)
{
    ev->rc = rc;
    if (rc < 0 && err != NULL) {
        ev->err = *err;
    }
}

void mr_member_txn_done(void *ctx, int rc, const struct mr_txn_result *r, const mr_error *err)
{
    struct mr_member_event *ev = ctx;

    set_outcome(ev, rc, err);
    if (rc >= 0) {
        ev->succeeded = r->succeeded;
        ev->revision = r->revision;
        ev->store_id = r->store_id;
        keep(ev, r->gets, r->ngets);
    }
    ev->post(ev->ctx, ev);
}

void mr_member_range_done(void *ctx, int rc, const struct mr_range_result *r, const mr_error *err)
{
    struct mr_member_event *ev = ctx;

    set_outcome(ev, rc, err);
    if (rc >= 0) {
        ev->revision = r->revision;
        ev->more = r->more;
        keep(ev, r->kvs, r->count);
    }
    ev->post(ev->ctx, ev);
}

void mr_member_lease_done(void *ctx, int rc, int64_t lease, int64_t ttl_s, const mr_error *err)
{
    struct mr_member_event *ev = ctx;

    set_outcome(ev, rc, err);
    ev->lease = lease;
    ev->ttl_s = ttl_s;
    ev->post(ev->ctx, ev);
}

void mr_member_status_done(void *ctx, int rc, const struct mr_store_status *r, const mr_error *err)
{
    struct mr_member_event *ev = ctx;

    set_outcome(ev, rc, err);
    if (rc >= 0) {
        ev->status = *r;
    }
    ev->post(ev->ctx, ev);
}

void mr_member_watched(void *ctx, int rc, const struct mr_watch_event *events, size_t n,
                       int64_t revision, const mr_error *err)
{
    struct mr_member_watch *w = ctx;

    if (w->lost.rc < 0) {
        return; /* The member has been told that this watch is over. */
    }
    struct mr_member_event *ev = event_new(w->post, w->ctx);

    if (ev == NULL) {
        /* An event of the leader key that is dropped silently would leave us blind. */
        mr_member_event_fail(&w->lost);
        return;
    }
    ev->kind = MR_MEMBER_WATCHED;
    ev->serial = w->serial;
    set_outcome(ev, rc, err);
    ev->revision = revision;
    if (rc >= 0) {
        /* One key and one revision: one event. */
        ev->deleted = n > 0 && events[n - 1].deleted;
        keep(ev, n > 0 ? &events[n - 1].kv : NULL, n > 0);
    }
    ev->post(ev->ctx, ev);
}
