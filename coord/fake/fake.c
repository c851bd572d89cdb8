/* The virtual clock: what is due next, and what else moves with it: leases and watches. Requests
 * are in request.c. */
#include "coord/fake/internal.h"

/* ---- small things ---- */

int64_t mr_fake_between(mr_fake *f, int64_t lo, int64_t hi)
{
    return lo + (hi > lo ? (int64_t)mr_rng_below(&f->rng, (uint64_t)(hi - lo) + 1) : 0);
}

void mr_fake_schedule(mr_fake *f, enum event_kind kind, int64_t at_ms, struct request *r,
                      uint64_t watch)
{
    f->events = mr_fake_grow(f->events, f->nevents, &f->events_cap, sizeof *f->events);
    f->events[f->nevents++] = (struct event){.kind = kind,
                                             .at_ms = MR_MAX(at_ms, f->now_ms),
                                             .order = f->order++,
                                             .request = r,
                                             .watch = watch};
    if (r != NULL) {
        r->pending++;
    }
}

struct fake_lease *mr_fake_lease_find(mr_fake *f, int64_t id)
{
    for (size_t i = 0; i < f->nleases; i++) {
        if (f->leases[i].id == id) {
            return &f->leases[i];
        }
    }
    return NULL;
}

void mr_fake_pump_all(mr_fake *f)
{
    for (struct client *c = f->clients; c != NULL; c = c->next) {
        for (struct watch *w = c->watches; w != NULL; w = w->next) {
            mr_fake_schedule(f, EVENT_PUMP,
                             f->now_ms + mr_fake_between(f, 0, MR_FAKE_LATENCY_MAX_MS), NULL,
                             w->id);
        }
    }
}

void mr_fake_lease_drop(mr_fake *f, struct fake_lease *lease)
{
    mr_mvcc_delete_lease(f->data, lease->id);
    *lease = f->leases[--f->nleases];
    mr_fake_pump_all(f);
}

/* ---- watches ---- */

/* Unlink the watch of that id from its client; the caller frees it. */
struct watch *mr_fake_watch_take(struct client *c, uint64_t id)
{
    for (struct watch **p = &c->watches; *p != NULL; p = &(*p)->next) {
        if ((*p)->id == id) {
            struct watch *w = *p;

            *p = w->next;
            return w;
        }
    }
    return NULL;
}

void mr_fake_watch_free(struct watch *w)
{
    if (w != NULL) {
        mr_bytes_free(w->key);
        mr_free(w);
    }
}

static struct client *watch_owner(mr_fake *f, uint64_t id, struct watch **ret)
{
    for (struct client *c = f->clients; c != NULL; c = c->next) {
        for (struct watch *w = c->watches; w != NULL; w = w->next) {
            if (w->id == id) {
                *ret = w;
                return c;
            }
        }
    }
    return NULL;
}

/* Tell one watch everything that it has not been told. The callback may cancel it, so it is looked
 * up anew each time. */
static void pump(mr_fake *f, uint64_t id)
{
    struct watch *w = NULL;
    struct client *c;

    while ((c = watch_owner(f, id, &w)) != NULL && !c->cut && !c->deaf) {
        struct mr_watch_event event;

        if (w->from < mr_mvcc_compacted(f->data)) {
            mr_error err;
            int rc = mr_error_set(&err, MR_ERANGE, "watching from %lld: compacted at %lld",
                                  (long long)w->from, (long long)mr_mvcc_compacted(f->data));

            mr_fake_watch_take(c, id);
            w->fn(w->ctx, rc, NULL, 0, mr_mvcc_compacted(f->data), &err);
            mr_fake_watch_free(w);
            return;
        }
        if (!mr_mvcc_next_event(f->data, w->key, w->from, &event)) {
            w->from = mr_mvcc_revision(f->data) + 1;
            return;
        }
        w->from = event.kv.mod_revision + 1;
        w->fn(w->ctx, MR_OK, &event, 1, event.kv.mod_revision, NULL);
    }
}

void mr_fake_break_watches(mr_store *s)
{
    struct client *c = (struct client *)s;
    struct watch *w = c->watches;

    c->watches = NULL;
    while (w != NULL) {
        struct watch *next = w->next;
        mr_error err;
        int rc = mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE, "watch stream broken");

        w->fn(w->ctx, rc, NULL, 0, 0, &err);
        mr_fake_watch_free(w);
        w = next;
    }
}

/* ---- time ---- */

/* The earliest event, or `nevents`. */
static size_t earliest(const mr_fake *f)
{
    size_t best = 0;

    for (size_t i = 1; i < f->nevents; i++) {
        const struct event *a = &f->events[i];
        const struct event *b = &f->events[best];

        if (a->at_ms < b->at_ms || (a->at_ms == b->at_ms && a->order < b->order)) {
            best = i;
        }
    }
    return f->nevents > 0 ? best : f->nevents;
}

static struct fake_lease *first_expiry(const mr_fake *f)
{
    struct fake_lease *first = NULL;

    for (size_t i = 0; i < f->nleases; i++) {
        if (first == NULL || f->leases[i].expires_ms < first->expires_ms) {
            first = &f->leases[i];
        }
    }
    return first;
}

int64_t mr_fake_now_ms(const mr_fake *f)
{
    return f->now_ms;
}

int64_t mr_fake_next_ms(const mr_fake *f)
{
    size_t i = earliest(f);
    const struct fake_lease *lease = first_expiry(f);
    int64_t next = i < f->nevents ? f->events[i].at_ms : INT64_MAX;

    return lease != NULL && lease->expires_ms < next ? lease->expires_ms : next;
}

static void run(mr_fake *f, struct event e)
{
    switch (e.kind) {
    case EVENT_APPLY: mr_fake_apply(f, e.request); break;
    case EVENT_ANSWER: mr_fake_answer(f, e.request); break;
    case EVENT_PUMP: pump(f, e.watch); break;
    }
    if (e.request != NULL) {
        mr_fake_request_unref(e.request);
    }
}

bool mr_fake_step(mr_fake *f, int64_t until_ms)
{
    int64_t next = mr_fake_next_ms(f);
    struct fake_lease *lease = first_expiry(f);

    if (next > until_ms) {
        f->now_ms = MR_MAX(until_ms, f->now_ms);
        return false;
    }
    f->now_ms = MR_MAX(next, f->now_ms);
    if (lease != NULL && lease->expires_ms <= next) {
        mr_fake_lease_drop(f, lease);
        return true;
    }
    size_t i = earliest(f);
    struct event e = f->events[i];

    f->events[i] = f->events[--f->nevents];
    run(f, e);
    return true;
}

void mr_fake_advance(mr_fake *f, int64_t ms)
{
    int64_t until = f->now_ms + ms;

    while (mr_fake_step(f, until)) {
    }
}

/* ---- set-up and faults ---- */

int mr_fake_new(uint64_t seed, mr_fake **ret, mr_error *err)
{
    mr_fake *f = mr_fake_zeroed(1, sizeof *f);

    f->data = mr_mvcc_new();
    mr_rng_seed(&f->rng, seed);
    f->store_id = 1;
    *ret = f;
    return MR_OK;
}

void mr_fake_free(mr_fake *f)
{
    if (f == NULL) {
        return;
    }
    MR_ASSERT(f->clients == NULL);
    for (size_t i = 0; i < f->nevents; i++) {
        if (f->events[i].request != NULL) {
            mr_fake_request_unref(f->events[i].request);
        }
    }
    mr_free(f->events);
    mr_free(f->leases);
    mr_mvcc_free(f->data);
    mr_free(f);
}

int mr_fake_connect(mr_fake *f, mr_store **ret, mr_error *err)
{
    struct client *c = mr_fake_zeroed(1, sizeof *c);

    c->store.ops = &mr_fake_ops;
    c->fake = f;
    c->next = f->clients;
    f->clients = c;
    *ret = &c->store;
    return MR_OK;
}

void mr_fake_odds(mr_fake *f, const struct mr_fake_odds *odds)
{
    f->odds = odds != NULL ? *odds : (struct mr_fake_odds){0};
}

void mr_fake_script(mr_store *s, enum mr_fake_kind kind, enum mr_fake_fault fault, int64_t delay_ms)
{
    struct client *c = (struct client *)s;

    c->script[kind].fault = fault;
    c->script[kind].delay_ms = delay_ms;
}

/* What was missed is told. */
static void catch_up(struct client *c)
{
    for (struct watch *w = c->watches; w != NULL; w = w->next) {
        mr_fake_schedule(c->fake, EVENT_PUMP, c->fake->now_ms, NULL, w->id);
    }
}

void mr_fake_cut(mr_store *s, bool cut)
{
    struct client *c = (struct client *)s;

    c->cut = cut;
    if (!cut) {
        catch_up(c);
    }
}

void mr_fake_deafen(mr_store *s, bool deaf)
{
    struct client *c = (struct client *)s;

    c->deaf = deaf;
    if (!deaf) {
        catch_up(c);
    }
}

void mr_fake_full(mr_fake *f, bool full)
{
    f->full = full;
    f->overflowed = false;
}

void mr_fake_rename(mr_fake *f, uint64_t store_id)
{
    f->store_id = store_id;
}

int mr_fake_compact(mr_fake *f, int64_t revision, mr_error *err)
{
    return mr_mvcc_compact(f->data, revision, err);
}

bool mr_fake_expire(mr_fake *f, int64_t lease)
{
    struct fake_lease *l = mr_fake_lease_find(f, lease);

    if (l != NULL) {
        mr_fake_lease_drop(f, l);
    }
    return l != NULL;
}

bool mr_fake_prolong(mr_fake *f, int64_t lease, int64_t ms)
{
    struct fake_lease *l = mr_fake_lease_find(f, lease);

    if (l != NULL && l->expires_ms < f->now_ms + ms) {
        l->expires_ms = f->now_ms + ms;
    }
    return l != NULL;
}

void mr_fake_observe(mr_fake *f,
                     void (*fn)(void *ctx, const struct mr_txn *txn, bool succeeded,
                                int64_t revision),
                     void *ctx)
{
    f->observer = fn;
    f->observer_ctx = ctx;
}

void mr_fake_each(const mr_fake *f, const char *prefix,
                  void (*fn)(void *ctx, const struct mr_kv *kv), void *ctx)
{
    struct mr_mvcc_reads reads = {0};
    struct mr_bytes end = mr_fake_dup(mr_bytes_str(prefix));
    bool more;

    MR_ASSERT(end.size > 0);
    ((char *)(uintptr_t)end.data)[end.size - 1]++;
    int rc = mr_mvcc_range(f->data, mr_bytes_str(prefix), end, 0, 0, &reads, &more, NULL);

    MR_ASSERT(rc >= 0);
    for (size_t i = 0; i < reads.count; i++) {
        fn(ctx, &reads.kvs[i]);
    }
    mr_mvcc_reads_free(&reads);
    mr_bytes_free(end);
}

int64_t mr_fake_revision(const mr_fake *f)
{
    return mr_mvcc_revision(f->data);
}

struct mr_kv mr_fake_get(const mr_fake *f, const char *key)
{
    struct mr_mvcc_reads reads = {0};
    struct mr_kv kv = {0};
    bool more;
    int rc =
        mr_mvcc_range(f->data, mr_bytes_str(key), (struct mr_bytes){0}, 0, 0, &reads, &more, NULL);

    MR_ASSERT(rc >= 0);
    if (reads.count > 0) {
        kv = reads.kvs[0];
    }
    mr_mvcc_reads_free(&reads);
    return kv;
}
