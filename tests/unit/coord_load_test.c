/* What a term begins with, and its first batch: one member over the fake store, and somebody else who writes meanwhile.
 * Whatever happens on the way, what was handed over when the load ends is every key below the
 * prefixes, each once, as it was at one revision. */
#include "coord/bytes.h"
#include "coord/fake/fake.h"
#include "coord/member.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROOT "/millrace/t/"
#define QUEUE_MAX 256
#define LOADED_MAX 64
#define SEEDS 300

/* In the order of keys; those that are not below a prefix are next to one. */
static const struct {
    const char *key;
    bool loaded;
} all[] = {
    {"a/0", true},      {"a/1", true},
    {"a/2", true}, /* two full pages, and nothing behind them */
    {"a/3", true},      {"a/4", true},
    {"a/5", true},      {"a0", false},
    {"b", false},                     /* below b/ there is nothing */
    {"c.", false},      {"c/", true}, /* the very beginning of the prefix */
    {"c/9", true},      {"c/\x7f\xff", true},
    {"c0", false}, /* the very end of it */
    {"d/x", true}, /* a page each: the next one begins with the least key that there can be */
    {"d/x\x01", true},  {"d/x\x01\x01", true},
    {"d/xx", true},     {"e/0", true}, /* without their values */
    {"e/1", true},      {"e/2", true},
    {"e/3", true},      {"first", true},
    {"firstly", false}, {"g/0", true}, /* more prefixes than are under way at a time */
    {"h/0", true},
};
enum { ALL = sizeof all / sizeof all[0] };

static const struct mr_member_prefix prefixes[] = {
    {.key = "first"},
    {.key = "a/", .page = 3},
    {.key = "b/", .page = 3},
    {.key = "c/", .page = 2},
    {.key = "d/", .page = 1},
    {.key = "e/", .page = 3, .keys_only = true},
    {.key = "g/"},
    {.key = "h/"},
};

struct world {
    mr_fake *fake;
    mr_store *store;  /* the member's */
    mr_store *writer; /* somebody else's */
    mr_member *member;
    struct mr_member_event *queue[QUEUE_MAX];
    size_t queued;
    int version; /* of all values, as last written */
    bool writing;
    unsigned begun, ended, lost, committed;
    bool refuse; /* the next key */
    struct {
        char key[32];
        char value[16];
    } loaded[LOADED_MAX];
    size_t nloaded;
};

/* ---- the owner ---- */

static void on_leader(void *ctx, const struct mr_leader_view *leader)
{
}

static void on_load_begin(void *ctx, int64_t epoch, const char *incarnation)
{
    struct world *w = ctx;

    w->begun++;
    w->nloaded = 0;
}

static int on_load_key(void *ctx, const char *key, const void *value, size_t size, mr_error *err)
{
    struct world *w = ctx;

    if (w->refuse) {
        w->refuse = false;
        return mr_error_set(err, MR_EDATALOSS, "refused");
    }
    assert_true(w->nloaded < LOADED_MAX);
    assert_true(size < sizeof w->loaded[0].value);
    (void)snprintf(w->loaded[w->nloaded].key, sizeof w->loaded[0].key, "%s", key);
    (void)snprintf(w->loaded[w->nloaded].value, sizeof w->loaded[0].value, "%.*s", (int)size,
                   (const char *)value);
    w->nloaded++;
    return MR_OK;
}

static int on_load_end(void *ctx, mr_error *err)
{
    ((struct world *)ctx)->ended++;
    return MR_OK;
}

static void on_committed(void *ctx, uint64_t batch)
{
    ((struct world *)ctx)->committed = (unsigned)batch;
}

static void on_lost(void *ctx, const mr_error *err)
{
    ((struct world *)ctx)->lost++;
}

static void on_refused(void *ctx, uint64_t batch, const mr_error *err)
{
}

static void on_probe(void *ctx, const char *address, int64_t epoch)
{
}

static void on_peers(void *ctx, const struct mr_dispatcher_record *peers, size_t n)
{
}

static bool on_follows(void *ctx, const char *instance)
{
    return false;
}

static void on_store(void *ctx, const struct mr_store_status *status)
{
}

static void on_stopped(void *ctx)
{
}

static const struct mr_member_ops ops = {.leader = on_leader,
                                         .load_begin = on_load_begin,
                                         .load_key = on_load_key,
                                         .load_end = on_load_end,
                                         .committed = on_committed,
                                         .lost = on_lost,
                                         .refused = on_refused,
                                         .probe = on_probe,
                                         .peers = on_peers,
                                         .follows = on_follows,
                                         .store = on_store,
                                         .stopped = on_stopped};

static void post(void *ctx, struct mr_member_event *event)
{
    struct world *w = ctx;

    assert_true(w->queued < QUEUE_MAX);
    w->queue[w->queued++] = event;
}

/* ---- the world ---- */

static void on_written(void *ctx, int rc, const struct mr_txn_result *r, const mr_error *err)
{
    assert_int_equal(rc, MR_OK);
    ((struct world *)ctx)->writing = false;
}

/* All keys get another value, at one revision; unless that is what is just happening. */
static void write_all(struct world *w)
{
    char keys[ALL][32], value[16];
    struct mr_op puts[ALL];
    struct mr_txn txn = {.success = puts, .nsuccess = ALL};

    if (w->writing) {
        return;
    }
    w->writing = true;
    (void)snprintf(value, sizeof value, "v%d", ++w->version);
    for (size_t i = 0; i < ALL; i++) {
        (void)snprintf(keys[i], sizeof keys[i], ROOT "%s", all[i].key);
        puts[i] = (struct mr_op){
            .kind = MR_OP_PUT, .key = mr_bytes_str(keys[i]), .value = mr_bytes_str(value)};
    }
    w->writer->ops->txn(w->writer, &txn, 1000, on_written, w);
}

static void turn(struct world *w)
{
    int64_t now = mr_fake_now_ms(w->fake);

    for (size_t i = 0; i < w->queued; i++) {
        mr_member_deliver(w->member, w->queue[i], now, 1);
    }
    w->queued = 0;
    mr_member_tick(w->member, now, 1);
}

/* Until the next thing has happened, at most a second later. */
static void step(struct world *w)
{
    int64_t now = mr_fake_now_ms(w->fake);
    int64_t due = mr_member_due(w->member);
    int64_t until = due <= now ? now + 1 : due < now + 1000 ? due : now + 1000;

    (void)mr_fake_step(w->fake, until);
    turn(w);
}

static struct world *world_new(uint64_t seed)
{
    struct world *w = mr_calloc(1, sizeof *w);
    struct mr_member_options o = {.cluster = "t",
                                  .instance = "0123456789abcdef0123456789abcdef",
                                  .secret = "00112233445566778899aabbccddeeff",
                                  .address = "here",
                                  .version = "1",
                                  .ttl_ms = 10000,
                                  .seed = seed,
                                  .prefixes = prefixes,
                                  .nprefixes = sizeof prefixes / sizeof prefixes[0],
                                  .ops = &ops,
                                  .ctx = w,
                                  .post = post};

    assert_non_null(w);
    assert_int_equal(mr_fake_new(seed, &w->fake, NULL), MR_OK);
    assert_int_equal(mr_fake_connect(w->fake, &w->store, NULL), MR_OK);
    assert_int_equal(mr_fake_connect(w->fake, &w->writer, NULL), MR_OK);
    o.store = w->store;
    assert_int_equal(mr_member_new(&o, &w->member, NULL), MR_OK);
    write_all(w);
    mr_fake_advance(w->fake, 100);
    return w;
}

static void world_free(struct world *w)
{
    mr_fake_odds(w->fake, NULL);
    w->store->ops->close(w->store);
    w->writer->ops->close(w->writer);
    for (size_t i = 0; i < w->queued; i++) {
        mr_member_discard(w->member, w->queue[i]);
    }
    mr_member_free(w->member);
    mr_fake_free(w->fake);
    mr_free(w);
}

static void await_load_begin(struct world *w, unsigned times)
{
    for (int i = 0; i < 10000 && w->begun < times; i++) {
        step(w);
    }
    assert_int_equal(w->begun, times);
}

static void await_load_end(struct world *w)
{
    for (int i = 0; i < 10000 && w->ended == 0; i++) {
        step(w);
    }
    assert_int_equal(w->ended, 1);
}

static const char *value_of(const struct world *w, const char *key)
{
    const char *value = NULL;

    for (size_t i = 0; i < w->nloaded; i++) {
        if (strcmp(w->loaded[i].key, key) == 0) {
            assert_null(value); /* once */
            value = w->loaded[i].value;
        }
    }
    return value;
}

static void check_loaded(const struct world *w)
{
    const char *version = value_of(w, "first");
    size_t expected = 0;

    assert_non_null(version);
    assert_string_equal(w->loaded[0].key, "first");
    for (size_t i = 0; i < ALL; i++) {
        const char *value = value_of(w, all[i].key);

        if (!all[i].loaded) {
            assert_null(value);
            continue;
        }
        expected++;
        assert_non_null(value);
        assert_string_equal(value, strncmp(all[i].key, "e/", 2) == 0 ? "" : version);
    }
    assert_int_equal(w->nloaded, expected);
}

/* ---- tests ---- */

static void every_key_below_the_prefixes_comes_once(void **state)
{
    struct world *w = world_new(1);

    await_load_end(w);
    check_loaded(w);
    assert_int_equal(w->begun, 1);
    world_free(w);
}

static void a_load_is_of_one_revision(void **state)
{
    struct world *w = world_new(2);

    await_load_begin(w, 1);
    while (w->ended == 0) {
        write_all(w);
        step(w);
    }
    check_loaded(w);
    assert_true(w->version > 2);
    assert_int_equal(w->begun, 1);
    world_free(w);
}

/* Whichever of the requests it is, and whatever the others are doing. */
static void a_page_that_fails_is_asked_for_again(void **state)
{
    static const enum mr_fake_fault faults[] = {MR_FAKE_LOST_ANSWER, MR_FAKE_LOST_REQUEST,
                                                MR_FAKE_DELAYED, MR_FAKE_STALE};

    for (unsigned i = 0; i < 4 * 20; i++) {
        struct world *w = world_new(3);

        await_load_begin(w, 1);
        for (unsigned before = i / 4; before > 0 && w->ended == 0; before--) {
            step(w);
        }
        mr_fake_script(w->store, MR_FAKE_RANGE, faults[i % 4], 500);
        while (w->ended == 0) {
            write_all(w);
            step(w);
        }
        check_loaded(w);
        assert_int_equal(w->begun, 1);
        world_free(w);
    }
}

static void many_pages_fail_at_a_time(void **state)
{
    static const struct mr_fake_odds odds = {.permille = {[MR_FAKE_DELAYED] = 200,
                                                          [MR_FAKE_LOST_ANSWER] = 150,
                                                          [MR_FAKE_LOST_REQUEST] = 150,
                                                          [MR_FAKE_STALE] = 200},
                                             .delay_ms_max = 3000};

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct world *w = world_new(seed);

        await_load_begin(w, 1);
        mr_fake_odds(w->fake, &odds);
        for (int i = 0; i < 10000 && w->ended == 0; i++) {
            step(w);
        }
        /* It may have lost its lease on the way, and begun anew. */
        assert_int_equal(w->ended, 1);
        check_loaded(w);
        world_free(w);
    }
}

static void a_compaction_begins_the_load_anew(void **state)
{
    unsigned anew = 0;

    for (unsigned before = 0; before < 20; before++) {
        struct world *w = world_new(4);

        await_load_begin(w, 1);
        for (unsigned i = 0; i < before && w->ended == 0; i++) {
            step(w);
        }
        write_all(w);
        for (int i = 0; i < 4 && w->ended == 0; i++) {
            step(w);
        }
        if (w->ended == 0) {
            assert_int_equal(mr_fake_compact(w->fake, mr_fake_revision(w->fake), NULL), MR_OK);
        }
        await_load_end(w);
        check_loaded(w);
        assert_true(w->begun <= 2);
        anew += w->begun == 2;
        world_free(w);
    }
    assert_true(anew > 3);
}

/* What is on its way for the other prefixes is answered later, and ignored. */
static void a_state_that_cannot_be_used_ends_the_term(void **state)
{
    for (unsigned before = 0; before < 12; before++) {
        struct world *w = world_new(5);

        await_load_begin(w, 1);
        for (unsigned i = 0; i < before; i++) {
            step(w);
        }
        if (w->ended == 0) {
            w->refuse = true;
            while (w->lost == 0) {
                step(w);
            }
            assert_int_equal(w->ended, 0);
            assert_int_equal(mr_member_epoch(w->member), 0);
            await_load_begin(w, 2); /* in another term, after a while */
            await_load_end(w);
        }
        check_loaded(w);
        world_free(w);
    }
}

static void await_commit(struct world *w, uint64_t batch)
{
    for (int i = 0; i < 100 && w->committed < batch; i++) {
        step(w);
    }
    assert_true(w->committed >= batch);
}

static void commit(struct world *w, struct mr_write write)
{
    uint64_t batch;

    assert_int_equal(mr_member_add(w->member, &write, 1, false, &batch, NULL), MR_OK);
    await_commit(w, batch);
}

/* The first batch of a cluster has no earlier one to compare with. If it counted as lost because
 * the store is slow, a store that is full later would take no deletes from this term. */
static void a_first_batch_may_take_its_time(void **state)
{
    struct world *w = world_new(6);
    int64_t begin;

    await_load_begin(w, 1);
    mr_fake_script(w->store, MR_FAKE_TXN, MR_FAKE_DELAYED, 3000);
    await_load_end(w);
    begin = mr_fake_now_ms(w->fake);
    await_commit(w, 1);
    assert_true(mr_fake_now_ms(w->fake) - begin >= 1000); /* it was that one */
    mr_fake_full(w->fake, true);
    commit(w, (struct mr_write){.key = "last", .value = "1", .size = 1}); /* fills it up */
    commit(w, (struct mr_write){.key = "g/0"});
    assert_true(mr_member_full(w->member));
    assert_null(mr_fake_get(w->fake, ROOT "g/0").key.data);
    commit(w, (struct mr_write){.key = "h/0"}); /* meta/batch is absent now */
    assert_int_equal(w->lost, 0);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_below_the_prefixes_comes_once),
        cmocka_unit_test(a_load_is_of_one_revision),
        cmocka_unit_test(a_page_that_fails_is_asked_for_again),
        cmocka_unit_test(many_pages_fail_at_a_time),
        cmocka_unit_test(a_compaction_begins_the_load_anew),
        cmocka_unit_test(a_state_that_cannot_be_used_ends_the_term),
        cmocka_unit_test(a_first_batch_may_take_its_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
