/* What coordination relies on in a store, run on the fake ("fake"), on a real etcd ("etcd"), and on
 * three members of one that want certificates and a password ("etcd_secure"): this is what keeps
 * the fake honest. Each test works under a prefix of its own. */
#include "coord/bytes.h"
#include "tests/support/store.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define WAIT_MS 20000
#define PAIRS 64

static struct mr_test_store *ts;
static mr_store *store;
static bool real;
static int test_number;

/* ---- one answer, copied ---- */

struct pair {
    char key[128];
    char value[128];
    int64_t create;
    int64_t mod;
    int64_t lease;
};

struct answer {
    bool there;
    int rc;
    mr_error err;
    bool flag; /* succeeded, more */
    int64_t revision;
    size_t n;
    struct pair pairs[PAIRS];
    int64_t lease;
    int64_t ttl_s;
    int64_t size_bytes;
};

static void copy_kv(struct pair *p, const struct mr_kv *kv)
{
    (void)snprintf(p->key, sizeof p->key, "%.*s", (int)kv->key.size, (const char *)kv->key.data);
    (void)snprintf(p->value, sizeof p->value, "%.*s",
                   (int)(kv->value.size < 100 ? kv->value.size : 100),
                   (const char *)kv->value.data);
    p->create = kv->create_revision;
    p->mod = kv->mod_revision;
    p->lease = kv->lease;
}

static void fill(struct answer *a, int rc, const mr_error *err, const struct mr_kv *kvs, size_t n)
{
    a->rc = rc;
    if (rc < 0) {
        a->err = *err;
    }
    a->n = n < PAIRS ? n : PAIRS;
    for (size_t i = 0; i < a->n; i++) {
        copy_kv(&a->pairs[i], &kvs[i]);
    }
    a->there = true;
}

static void txn_done(void *ctx, int rc, const struct mr_txn_result *r, const mr_error *err)
{
    struct answer *a = ctx;

    mr_test_store_lock(ts);
    if (rc >= 0) {
        a->flag = r->succeeded;
        a->revision = r->revision;
    }
    fill(a, rc, err, rc >= 0 ? r->gets : NULL, rc >= 0 ? r->ngets : 0);
    mr_test_store_unlock(ts);
}

static void range_done(void *ctx, int rc, const struct mr_range_result *r, const mr_error *err)
{
    struct answer *a = ctx;

    mr_test_store_lock(ts);
    if (rc >= 0) {
        a->flag = r->more;
        a->revision = r->revision;
    }
    fill(a, rc, err, rc >= 0 ? r->kvs : NULL, rc >= 0 ? r->count : 0);
    mr_test_store_unlock(ts);
}

static void lease_done(void *ctx, int rc, int64_t lease, int64_t ttl_s, const mr_error *err)
{
    struct answer *a = ctx;

    mr_test_store_lock(ts);
    a->lease = lease;
    a->ttl_s = ttl_s;
    fill(a, rc, err, NULL, 0);
    mr_test_store_unlock(ts);
}

static bool is_there(void *ctx)
{
    return ((struct answer *)ctx)->there;
}

static void await(struct answer *a)
{
    assert_true(mr_test_store_wait(ts, is_there, a, WAIT_MS));
}

/* ---- shorthands ---- */

static char names[16][64];
static size_t names_used;

/* "/test/<number>/<name>", good for a few calls. */
static struct mr_bytes k(const char *name)
{
    char *s = names[names_used++ % 16];

    (void)snprintf(s, 64, "/test/%d/%s", test_number, name);
    return mr_bytes_str(s);
}

static struct mr_op put_op(const char *name, const char *value, int64_t lease)
{
    return (struct mr_op){
        .kind = MR_OP_PUT, .key = k(name), .value = mr_bytes_str(value), .lease = lease};
}

static struct mr_op get_op(const char *name)
{
    return (struct mr_op){.kind = MR_OP_GET, .key = k(name)};
}

static struct mr_op delete_op(const char *name)
{
    return (struct mr_op){.kind = MR_OP_DELETE, .key = k(name)};
}

static struct answer txn(const struct mr_compare *c, size_t nc, const struct mr_op *s, size_t ns,
                         const struct mr_op *f, size_t nf)
{
    struct answer a = {0};
    struct mr_txn t = {
        .compares = c, .ncompares = nc, .success = s, .nsuccess = ns, .failure = f, .nfailure = nf};

    store->ops->txn(store, &t, 10000, txn_done, &a);
    await(&a);
    return a;
}

static struct answer put(const char *name, const char *value, int64_t lease)
{
    struct mr_op op = put_op(name, value, lease);

    return txn(NULL, 0, &op, 1, NULL, 0);
}

static struct answer drop(const char *name)
{
    struct mr_op op = delete_op(name);

    return txn(NULL, 0, &op, 1, NULL, 0);
}

static struct answer range(const char *from, const char *end, int64_t revision, int64_t limit,
                           bool keys_only)
{
    struct answer a = {0};

    store->ops->range(store, k(from), end != NULL ? k(end) : (struct mr_bytes){0}, revision, limit,
                      keys_only, 10000, range_done, &a);
    await(&a);
    return a;
}

static struct answer get(const char *name)
{
    return range(name, NULL, 0, 0, false);
}

static struct answer lease_call(enum mr_lease_call call, int64_t number)
{
    struct answer a = {0};

    store->ops->lease(store, call, number, 10000, lease_done, &a);
    await(&a);
    return a;
}

static int64_t grant(int64_t ttl_s)
{
    struct answer a = lease_call(MR_LEASE_GRANT, ttl_s);

    assert_int_equal(a.rc, MR_OK);
    assert_true(a.ttl_s >= ttl_s);
    assert_int_not_equal(a.lease, 0);
    return a.lease;
}

static int set_up(void **state)
{
    test_number++;
    return 0;
}

/* ---- transactions ---- */

static void a_key_is_created_once(void **state)
{
    struct mr_compare absent = {k("leader"), MR_COMPARE_CREATE, 0};
    struct mr_op first[] = {put_op("leader", "a", 0), get_op("other")};
    struct mr_op read[] = {get_op("leader"), get_op("other")};
    struct answer won = txn(&absent, 1, first, 2, read, 2);

    assert_int_equal(won.rc, MR_OK);
    assert_true(won.flag);
    assert_int_equal(won.n, 1);
    assert_string_equal(won.pairs[0].key, "");

    struct mr_op second[] = {put_op("leader", "b", 0)};
    struct answer lost = txn(&absent, 1, second, 1, read, 2);

    assert_int_equal(lost.rc, MR_OK);
    assert_false(lost.flag);
    assert_int_equal(lost.n, 2);
    assert_string_equal(lost.pairs[0].value, "a");
    assert_int_equal(lost.pairs[0].create, won.revision);
    assert_string_equal(lost.pairs[1].key, "");
    assert_int_equal(lost.revision, won.revision); /* It changed nothing. */
}

static void revisions_move_as_coordination_expects(void **state)
{
    struct answer a = put("x", "1", 0);
    struct answer b = put("x", "2", 0);
    struct answer c = get("x");

    assert_int_equal(b.revision, a.revision + 1);
    assert_int_equal(c.n, 1);
    assert_int_equal(c.pairs[0].create, a.revision);
    assert_int_equal(c.pairs[0].mod, b.revision);
    assert_string_equal(c.pairs[0].value, "2");

    /* Deleting what is not there changes nothing; several writes of one transaction share a
     * revision. */
    assert_int_equal(drop("nothing").revision, b.revision);
    struct mr_op both[] = {delete_op("x"), put_op("y", "3", 0)};

    assert_int_equal(txn(NULL, 0, both, 2, NULL, 0).revision, b.revision + 1);
    struct answer again = put("x", "4", 0);

    assert_int_equal(get("x").pairs[0].create, again.revision); /* A new life of the key. */
    assert_int_equal(get("y").pairs[0].mod, b.revision + 1);
}

static void a_guard_on_the_last_change_holds_once(void **state)
{
    struct answer a = put("batch", "1", 0);
    struct mr_compare same = {k("batch"), MR_COMPARE_MOD, a.revision};
    struct mr_op op = put_op("batch", "2", 0);
    struct mr_op read = get_op("batch");

    assert_true(txn(&same, 1, &op, 1, &read, 1).flag);
    struct answer late = txn(&same, 1, &op, 1, &read, 1);

    assert_false(late.flag);
    assert_int_equal(late.pairs[0].mod, a.revision + 1);
    struct mr_compare absent = {k("never"), MR_COMPARE_MOD, 0};

    assert_true(txn(&absent, 1, &op, 1, &read, 1).flag);
}

static void assert_refused(struct answer a, int code)
{
    assert_int_equal(a.rc, code);
    assert_int_equal(a.err.traits & MR_MAYBE_APPLIED, 0);
}

static void a_transaction_against_the_rules_is_refused_definitely(void **state)
{
    struct mr_op twice[] = {put_op("x", "1", 0), put_op("x", "2", 0)};
    struct mr_op both[] = {put_op("x", "1", 0), delete_op("x")};
    struct mr_op many[129];

    assert_refused(txn(NULL, 0, twice, 2, NULL, 0), MR_EINVAL);
    assert_refused(txn(NULL, 0, both, 2, NULL, 0), MR_EINVAL);
    for (size_t i = 0; i < 129; i++) {
        many[i] = (struct mr_op){.kind = MR_OP_GET, .key = mr_bytes_str("/test/many")};
    }
    assert_refused(txn(NULL, 0, many, 129, NULL, 0), MR_EINVAL);
    assert_int_equal(txn(NULL, 0, many, 128, NULL, 0).rc, MR_OK);
    assert_refused(put("x", "1", 4711 /* no such lease */), MR_ENOTFOUND);
    assert_int_equal(get("x").n, 0);
}

static void a_transaction_that_is_too_large_is_refused_definitely(void **state)
{
    static const size_t sizes[] = {1600 << 10, 3 << 20}; /* etcd refuses them at different places */
    struct mr_op op = put_op("x", "", 0);

    for (size_t i = 0; i < 2; i++) {
        char *large = mr_calloc(1, sizes[i]);

        op.value = (struct mr_bytes){large, sizes[i]};
        assert_refused(txn(NULL, 0, &op, 1, NULL, 0), MR_EINVAL);
        op.value.size = 1 << 20;
        assert_int_equal(txn(NULL, 0, &op, 1, NULL, 0).rc, MR_OK);
        mr_bytes_free((struct mr_bytes){large, 0});
    }
}

/* ---- ranges ---- */

static void a_prefix_is_read_in_pages_at_one_revision(void **state)
{
    struct answer last = {0};

    for (int i = 0; i < 7; i++) {
        char name[8];

        (void)snprintf(name, sizeof name, "p/%d", i);
        last = put(name, "old", 0);
    }
    (void)put("p", "outside", 0);
    (void)put("p0", "outside", 0);

    struct answer a = range("p/", "p0", 0, 3, false);

    assert_int_equal(a.n, 3);
    assert_true(a.flag);
    assert_true(a.revision >= last.revision);
    (void)put("p/5", "new", 0);
    (void)drop("p/6");

    struct answer b = range("p/3", "p0", a.revision, 10, false);

    assert_int_equal(b.n, 4);
    assert_false(b.flag);
    assert_string_equal(b.pairs[2].value, "old");
    assert_string_equal(b.pairs[3].value, "old");
    struct answer now = range("p/3", "p0", 0, 0, true);

    assert_int_equal(now.n, 3);
    assert_string_equal(now.pairs[2].value, ""); /* keys only */
    assert_int_equal(now.pairs[2].mod, a.revision + 1);
}

static void what_was_compacted_or_is_to_come_cannot_be_read(void **state)
{
    struct answer a = put("x", "1", 0);
    struct answer b = put("x", "2", 0);

    assert_true(mr_test_store_compact(ts, b.revision));
    assert_int_equal(range("x", NULL, a.revision, 0, false).rc, MR_ERANGE);
    assert_int_equal(range("x", NULL, b.revision + 1000, 0, false).rc, MR_ERANGE);
    assert_string_equal(range("x", NULL, b.revision, 0, false).pairs[0].value, "2");
}

/* ---- leases ---- */

static void keys_go_with_their_lease(void **state)
{
    int64_t lease = grant(60);
    int64_t other = grant(60);

    assert_int_equal(put("a", "1", lease).rc, MR_OK);
    assert_int_equal(put("b", "1", lease).rc, MR_OK);
    assert_int_equal(put("c", "1", lease).rc, MR_OK);
    assert_int_equal(get("a").pairs[0].lease, lease);
    assert_int_equal(put("b", "2", other).rc, MR_OK); /* moves to the other lease */
    assert_int_equal(put("c", "2", 0).rc, MR_OK);     /* and this one off it */
    assert_int_equal(lease_call(MR_LEASE_REVOKE, lease).rc, MR_OK);
    assert_int_equal(get("a").n, 0);
    assert_int_equal(get("b").n, 1);
    assert_int_equal(get("c").n, 1);
    assert_refused(lease_call(MR_LEASE_REVOKE, lease), MR_ENOTFOUND);
    assert_int_equal(lease_call(MR_LEASE_REVOKE, other).rc, MR_OK);
}

static void a_lease_is_renewed_and_its_end_is_told(void **state)
{
    int64_t lease = grant(600);
    struct answer left = lease_call(MR_LEASE_TTL, lease);
    struct answer renewed = lease_call(MR_LEASE_RENEW, lease);

    assert_int_equal(left.rc, MR_OK);
    assert_in_range(left.ttl_s, 300, 600);
    assert_int_equal(renewed.rc, MR_OK);
    assert_int_equal(renewed.ttl_s, 600);
    assert_int_equal(lease_call(MR_LEASE_REVOKE, lease).rc, MR_OK);
    struct answer gone = lease_call(MR_LEASE_RENEW, lease);

    assert_int_equal(gone.rc, MR_OK);
    assert_int_equal(gone.ttl_s, 0);
    assert_int_equal(lease_call(MR_LEASE_TTL, lease).ttl_s, -1);
}

/* ---- watches ---- */

struct seen {
    size_t n;
    struct {
        bool deleted;
        struct pair pair;
        int64_t revision;
    } events[32];
    int rc;
};

static void watched(void *ctx, int rc, const struct mr_watch_event *events, size_t n,
                    int64_t revision, const mr_error *err)
{
    struct seen *s = ctx;

    mr_test_store_lock(ts);
    s->rc = rc;
    for (size_t i = 0; i < n && s->n < 32; i++) {
        s->events[s->n].deleted = events[i].deleted;
        s->events[s->n].revision = revision;
        copy_kv(&s->events[s->n++].pair, &events[i].kv);
    }
    mr_test_store_unlock(ts);
}

static struct seen *awaited;
static size_t awaited_n;

static bool enough(void *ctx)
{
    return awaited->n >= awaited_n || awaited->rc < 0;
}

static void await_events(struct seen *s, size_t n)
{
    awaited = s;
    awaited_n = n;
    assert_true(mr_test_store_wait(ts, enough, NULL, WAIT_MS));
}

static void a_watch_tells_every_change_in_order(void **state)
{
    struct seen s = {0};
    struct answer first = put("w", "1", 0);

    (void)put("w", "2", 0);
    uint64_t id = store->ops->watch(store, k("w"), first.revision, watched, &s);

    (void)put("other", "x", 0);
    (void)drop("w");
    struct answer last = put("w", "3", 0);

    await_events(&s, 4);
    store->ops->watch_cancel(store, id);
    assert_int_equal(s.n, 4);
    assert_string_equal(s.events[0].pair.value, "1");
    assert_int_equal(s.events[0].revision, first.revision);
    assert_string_equal(s.events[1].pair.value, "2");
    assert_int_equal(s.events[1].pair.create, first.revision);
    assert_true(s.events[2].deleted);
    assert_int_equal(s.events[2].revision, last.revision - 1);
    assert_false(s.events[3].deleted);
    assert_int_equal(s.events[3].pair.create, last.revision);
}

static void the_end_of_a_lease_is_seen_by_a_watch(void **state)
{
    struct seen s = {0};
    struct answer a = put("w", "1", grant(1));

    while (a.rc == MR_ENOTFOUND) { /* it was over before the key was there */
        a = put("w", "1", grant(1));
    }
    uint64_t id = store->ops->watch(store, k("w"), a.revision + 1, watched, &s);

    await_events(&s, 1);
    store->ops->watch_cancel(store, id);
    assert_true(s.events[0].deleted);
    assert_true(s.events[0].revision > a.revision);
    assert_int_equal(get("w").n, 0);
}

static void a_watch_of_compacted_history_says_so(void **state)
{
    struct seen s = {0};
    struct answer a = put("w", "1", 0);

    (void)put("w", "2", 0);
    struct answer c = put("w", "3", 0);

    assert_true(mr_test_store_compact(ts, c.revision));
    (void)store->ops->watch(store, k("w"), a.revision, watched, &s);
    await_events(&s, 1);
    assert_int_equal(s.rc, MR_ERANGE);
    assert_int_equal(s.n, 0);
}

static void a_cancelled_watch_is_silent(void **state)
{
    struct seen s = {0};
    struct seen other = {0};
    struct answer a = put("w", "1", 0);
    uint64_t id = store->ops->watch(store, k("w"), a.revision + 1, watched, &s);

    store->ops->watch_cancel(store, id);
    (void)put("w", "2", 0);
    id = store->ops->watch(store, k("w"), a.revision + 1, watched, &other);
    await_events(&other, 1);
    store->ops->watch_cancel(store, id);
    assert_int_equal(s.n, 0);
    assert_int_equal(s.rc, MR_OK);
}

/* ---- a store that is full ---- */

static void status_done(void *ctx, int rc, const struct mr_store_status *st, const mr_error *err)
{
    struct answer *a = ctx;

    mr_test_store_lock(ts);
    a->flag = rc >= 0 && st->full;
    a->size_bytes = rc >= 0 ? st->size_bytes : 0;
    fill(a, rc, err, NULL, 0);
    mr_test_store_unlock(ts);
}

static struct answer status(mr_store *s)
{
    struct answer a = {0};

    s->ops->status(s, 10000, status_done, &a);
    await(&a);
    assert_int_equal(a.rc, MR_OK);
    return a;
}

static struct answer one(mr_store *s, struct mr_op op)
{
    struct answer a = {0};
    struct mr_txn t = {.success = &op, .nsuccess = 1};

    s->ops->txn(s, &t, 10000, txn_done, &a);
    await(&a);
    return a;
}

/* The fake is told to be full; etcd is filled. @name is what the next put writes. */
static void fill_up(struct mr_test_store *t, mr_store *s)
{
    static char big[1 << 20];

    if (!t->real) {
        mr_fake_full(t->fake, true);
        return;
    }
    memset(big, 'x', sizeof big - 1);
    while (one(s, put_op("big", big, 0)).rc >= 0) {
    }
}

static void a_full_store_refuses_puts_and_takes_deletes(void **state)
{
    const struct mr_test_etcd_options small = {.quota_bytes = 16 << 20};
    struct mr_test_store *own = mr_test_store_new(real, &small, 1);
    mr_store *s = own != NULL ? mr_test_store_connect(own) : NULL;
    struct mr_test_store *others = ts;

    assert_non_null(s);
    ts = own;
    assert_int_equal(one(s, put_op("a", "1", 0)).rc, MR_OK);
    assert_false(status(s).flag);
    fill_up(own, s);
    (void)one(s, put_op("b", "1", 0)); /* the one that the fake applies and refuses */
    struct answer a = one(s, put_op("c", "1", 0));

    assert_int_equal(a.rc, MR_EEXHAUSTED);
    assert_true((a.err.traits & MR_MAYBE_APPLIED) != 0);
    assert_true((a.err.traits & MR_RETRYABLE) != 0);
    assert_true(status(s).flag);
    assert_int_equal(one(s, delete_op("a")).rc, MR_OK);
    a = one(s, get_op("a"));
    assert_int_equal(a.rc, MR_OK);
    assert_string_equal(a.pairs[0].key, "");
    a = one(s, get_op("c"));
    assert_string_equal(a.pairs[0].key, "");
    s->ops->close(s);
    mr_test_store_free(own);
    ts = others;
}

/* ---- without memory ---- */

static int put_one(void)
{
    return put("x", "1", 0).rc;
}

static int read_all(void)
{
    return range("", "~", 0, 10, false).rc;
}

static int hold_a_lease(void)
{
    struct answer a = lease_call(MR_LEASE_GRANT, 10);

    if (a.rc >= 0) {
        a.rc = lease_call(MR_LEASE_RENEW, a.lease).rc;
    }
    return a.rc < 0 ? a.rc : lease_call(MR_LEASE_REVOKE, a.lease).rc;
}

static int watch_one(void)
{
    static struct seen all[64]; /* a callback may be running when a watch is cancelled */
    static unsigned n;
    struct seen *w = &all[n++ % 64];

    struct answer a = put("x", "2", 0);

    if (a.rc < 0) {
        return a.rc;
    }
    memset(w, 0, sizeof *w);
    uint64_t id = store->ops->watch(store, k("x"), a.revision, watched, w);

    assert_int_not_equal(id, 0);
    await_events(w, 1);
    store->ops->watch_cancel(store, id);
    return w->rc;
}

/* Each allocation of a request fails once: the request has an outcome all the same, and the next
 * one is like any other. */
static void without_memory_there_is_an_outcome(void **state)
{
    int (*const all[])(void) = {put_one, read_all, hold_a_lease, watch_one};

    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool reached = true;

        for (uint64_t nth = 1; reached; nth++) {
            uint64_t start = mr_alloc_count();

            mr_alloc_fail_at(nth);
            int rc = all[i]();

            reached = mr_alloc_count() - start >= nth;
            mr_alloc_fail_at(0);
            assert_true(rc >= 0 || rc == MR_EEXHAUSTED || rc == MR_EUNAVAIL);
            assert_true(all[i]() >= 0);
        }
    }
}

static void closing_drops_what_is_outstanding(void **state)
{
    mr_store *s = mr_test_store_connect(ts);
    struct answer a = {0};
    struct seen w = {0};
    struct mr_op op = put_op("x", "1", 0);
    struct mr_txn t = {.success = &op, .nsuccess = 1};

    assert_non_null(s);
    (void)s->ops->watch(s, k("x"), 0, watched, &w);
    s->ops->txn(s, &t, 10000, txn_done, &a);
    s->ops->close(s);
    bool told = a.there;
    size_t seen_n = w.n;

    (void)put("x", "2",
              0); /* The store lives on for others; the closed client hears nothing more. */
    assert_int_equal(a.there, told);
    assert_int_equal(w.n, seen_n);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_key_is_created_once, set_up),
        cmocka_unit_test_setup(revisions_move_as_coordination_expects, set_up),
        cmocka_unit_test_setup(a_guard_on_the_last_change_holds_once, set_up),
        cmocka_unit_test_setup(a_transaction_against_the_rules_is_refused_definitely, set_up),
        cmocka_unit_test_setup(a_transaction_that_is_too_large_is_refused_definitely, set_up),
        cmocka_unit_test_setup(a_prefix_is_read_in_pages_at_one_revision, set_up),
        cmocka_unit_test_setup(what_was_compacted_or_is_to_come_cannot_be_read, set_up),
        cmocka_unit_test_setup(keys_go_with_their_lease, set_up),
        cmocka_unit_test_setup(a_lease_is_renewed_and_its_end_is_told, set_up),
        cmocka_unit_test_setup(a_watch_tells_every_change_in_order, set_up),
        cmocka_unit_test_setup(the_end_of_a_lease_is_seen_by_a_watch, set_up),
        cmocka_unit_test_setup(a_watch_of_compacted_history_says_so, set_up),
        cmocka_unit_test_setup(a_cancelled_watch_is_silent, set_up),
        cmocka_unit_test_setup(a_full_store_refuses_puts_and_takes_deletes, set_up),
        cmocka_unit_test_setup(without_memory_there_is_an_outcome, set_up),
        cmocka_unit_test_setup(closing_drops_what_is_outstanding, set_up),
    };
    int failed;

    const char *kind = argc > 1 ? argv[1] : "fake";
    struct mr_test_etcd_options secure = {.members = 3, .tls = true, .prefix = "/test/"};

    real = strcmp(kind, "fake") != 0;
    if (real && !mr_test_etcd_exists()) {
        fprintf(stderr, "SKIPPED: there is no /usr/bin/etcd\n");
        return 77;
    }
    ts = mr_test_store_new(real, strcmp(kind, "etcd_secure") == 0 ? &secure : NULL, 1);
    store = ts != NULL ? mr_test_store_connect(ts) : NULL;
    if (store == NULL) {
        return 1;
    }
    failed = cmocka_run_group_tests_name(kind, tests, NULL, NULL);
    store->ops->close(store);
    mr_test_store_free(ts);
    return failed;
}
