/* Definitions that a worker keeps: fetched once, however many want them, charged before they are
 * there, and no longer kept than there is memory. Whoever has to wait is asked before: what happens
 * then happens there. */
#include "engine_support.h"

#include "base/sync.h"
#include "worker/definitions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define TASKS 8
#define SMALL 1024u           /* bytes of constants */
#define LARGE (2u << 20)      /* ... of one that waits for its turn */
#define WAIT_MS (1000 * 1000) /* no test waits so long: where it has to end, it is told to */

struct source {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned fetched;
    unsigned started; /* threads */
    unsigned waiting; /* for room, when it was asked */
    unsigned asked;   /* whether to wait on */
    bool waits;       /* until all threads have started */
    bool ends;        /* does not go on */
    int fails;        /* so many times */
    uint32_t size;    /* of the constants of what is fetched */
    bool compressed;
    bool unknown; /* how large it is, before it is there */
    mr_definitions *d;
    struct mr_kept_definition *held; /* let go of when somebody waits */
    struct source *inside;           /* fetches while this one does */
    int inside_rc;
};

/* The definition of a dataset with so many bytes of constants. */
static struct mr_definition_bytes definition_of(uint32_t size, bool compressed)
{
    struct mr_definition_bytes bytes = {NULL, 0};
    int64_t *v = calloc(size / 8, sizeof *v);

    for (uint32_t i = 0; i < size / 8; i++) {
        v[i] = i % 1000;
    }
    mr_dataset *ds = make_ints(v, size / 8);
    CHECK_OK(mr_dataset_serialize(ds, &bytes.data, &bytes.size, e));
    if (compressed) {
        CHECK_OK(mr_definition_compress(&bytes.data, &bytes.size, e));
    }
    mr_dataset_unref(ds);
    free(v);
    return bytes;
}

static int get(struct source *s, const char *fingerprint, struct mr_kept_definition **k,
               mr_error *err);

static int fetch(void *ctx, struct mr_definition_bytes *ret, mr_error *err)
{
    struct source *s = ctx;

    mr_mutex_lock(&s->lock);
    s->fetched++;
    while (s->waits && s->started < TASKS) {
        mr_cond_wait(&s->changed, &s->lock);
    }
    bool fails = s->fails > 0;
    s->fails -= fails;
    mr_mutex_unlock(&s->lock);
    if (fails) {
        return mr_error_set(err, MR_ECANCELED, "the task was cancelled");
    }
    if (s->inside != NULL) {
        struct mr_kept_definition *k = NULL;

        s->inside_rc = get(s->inside, "inside", &k, NULL);
        if (k != NULL) {
            mr_definitions_release(s->d, k);
        }
    }
    *ret = definition_of(s->size, s->compressed);
    return MR_OK;
}

static bool goes_on(void *ctx)
{
    struct source *s = ctx;

    MR_LOCK(&s->lock);
    s->asked++;
    s->waiting = mr_definitions_waiting(s->d);
    if (s->held != NULL) {
        mr_definitions_release(s->d, s->held);
        s->held = NULL;
    }
    return !s->ends;
}

static int get(struct source *s, const char *fingerprint, struct mr_kept_definition **k,
               mr_error *err)
{
    struct mr_definition_bytes sent = definition_of(s->size, s->compressed);
    struct mr_definition_wanted wanted = {.dataset = "table",
                                          .fingerprint = fingerprint,
                                          .sent_bytes = s->unknown ? 0 : sent.size,
                                          .fetch = fetch,
                                          .goes_on = goes_on,
                                          .ctx = s};

    mr_free(sent.data);
    return mr_definitions_get(s->d, &wanted, k, err);
}

static int use(struct source *s, const char *fingerprint)
{
    struct mr_kept_definition *k = NULL;
    int rc = get(s, fingerprint, &k, NULL);

    if (rc == MR_OK) {
        mr_definitions_release(s->d, k);
    }
    return rc;
}

static void *task(void *arg)
{
    struct source *s = arg;

    mr_mutex_lock(&s->lock);
    s->started++;
    (void)pthread_cond_broadcast(&s->changed);
    mr_mutex_unlock(&s->lock);
    return (void *)(intptr_t)use(s, "one");
}

static void source_init(struct source *s, mr_definitions *d, uint32_t size)
{
    *s = (struct source){.d = d, .size = size};
    mr_mutex_init(&s->lock);
    mr_cond_init(&s->changed);
}

static mr_definitions *definitions(mr_memory *memory, int64_t wait_ms)
{
    mr_definitions *d = NULL;

    CHECK_OK(mr_definitions_new(memory, wait_ms, &d, e));
    return d;
}

static mr_memory *budget(uint64_t bytes)
{
    mr_memory *memory = NULL;

    CHECK_OK(mr_memory_new(bytes, NULL, &memory, e));
    return memory;
}

/* All at once, of which the first two to fetch it are cancelled. */
static void many_tasks_fetch_it_once(void **state)
{
    mr_definitions *d = definitions(NULL, WAIT_MS);
    pthread_t threads[TASKS];
    struct source s;
    int cancelled = 0;

    source_init(&s, d, SMALL);
    s.waits = true;
    s.fails = 2;
    for (int i = 0; i < TASKS; i++) {
        assert_int_equal(mr_thread_start(&threads[i], "task", task, &s, NULL), MR_OK);
    }
    for (int i = 0; i < TASKS; i++) {
        void *rc;

        assert_int_equal(pthread_join(threads[i], &rc), 0);
        cancelled += (intptr_t)rc == MR_ECANCELED;
    }
    assert_int_equal(cancelled, 2);
    assert_int_equal(s.fetched, 3);
    assert_int_equal(use(&s, "one"), MR_OK);
    assert_int_equal(s.fetched, 3);
    mr_definitions_free(d);
}

/* However many pipelines come and go. */
static void those_used_last_are_kept(void **state)
{
    mr_definitions *d = definitions(NULL, WAIT_MS);
    struct source s;
    char name[16];

    source_init(&s, d, SMALL);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        assert_int_equal(use(&s, name), MR_OK);
    }
    assert_int_equal(use(&s, "199"), MR_OK);
    assert_int_equal(s.fetched, 200);
    assert_int_equal(use(&s, "0"), MR_OK);
    assert_int_equal(s.fetched, 201);
    mr_definitions_free(d);
}

/* Two tasks and what is made of their datasets have one copy, which counts until the last block of
 * it is gone. */
static void constants_count_once_and_as_long_as_they_are_there(void **state)
{
    mr_memory *memory = budget(10 * LARGE);
    mr_definitions *d = definitions(memory, WAIT_MS);
    uint64_t none = mr_memory_used(memory);
    struct mr_kept_definition *k[2] = {NULL, NULL};
    mr_dataset *ds[2] = {NULL, NULL};
    struct source s;

    source_init(&s, d, LARGE);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(get(&s, "one", &k[i], e));
        CHECK_OK(mr_dataset_of_definition(&k[i]->parts, &ds[i], e));
        assert_in_range(mr_memory_used(memory) - none, LARGE, LARGE + LARGE / 100);
    }
    assert_int_equal(s.fetched, 1);
    for (int i = 0; i < 2; i++) {
        mr_definitions_release(d, k[i]);
    }
    mr_dataset_unref(ds[0]);
    /* Somebody needs its room, and it is not kept any more; but it is there. */
    assert_true(mr_memory_is_short(memory, MR_MEMORY_WORK, 9 * LARGE));
    assert_in_range(mr_memory_used(memory) - none, LARGE, LARGE + LARGE / 100);
    mr_dataset_unref(ds[1]);
    assert_int_equal(mr_memory_used(memory), none);
    mr_definitions_free(d);
    mr_memory_unref(memory);
}

/* Whoever needs it: what nobody uses is no reason to refuse anything. */
static void what_nobody_uses_gives_way(void **state)
{
    mr_memory *memory = budget(4 * LARGE);
    mr_definitions *d = definitions(memory, WAIT_MS);
    struct mr_kept_definition *used = NULL;
    struct source s;

    source_init(&s, d, LARGE);
    assert_int_equal(use(&s, "idle"), MR_OK);
    CHECK_OK(get(&s, "used", &used, e));
    assert_true(mr_memory_used(memory) > 2 * LARGE);
    assert_int_equal(use(&s, "idle"), MR_OK);
    assert_int_equal(s.fetched, 2);
    assert_true(mr_memory_charge(memory, MR_MEMORY_HELD, 2 * LARGE)); /* an operator's rows */
    assert_false(mr_memory_charge(memory, MR_MEMORY_WORK, LARGE));
    mr_memory_release(memory, 2 * LARGE);
    assert_int_equal(use(&s, "used"), MR_OK);
    assert_int_equal(s.fetched, 2);
    assert_int_equal(use(&s, "idle"), MR_OK);
    assert_int_equal(s.fetched, 3);
    mr_definitions_release(d, used);
    mr_definitions_free(d);
    mr_memory_unref(memory);
}

static void one_that_finds_no_room_waits_for_others_to_let_go(void **state)
{
    mr_memory *memory = budget(2 * LARGE);
    mr_definitions *d = definitions(memory, WAIT_MS);
    struct source s;

    source_init(&s, d, LARGE);
    CHECK_OK(get(&s, "one", &s.held, e));
    assert_int_equal(use(&s, "other"), MR_OK); /* goes_on() lets go of the first one */
    assert_int_equal(s.asked, 1);
    assert_int_equal(s.fetched, 2);
    assert_int_equal(s.waiting, 1);
    assert_int_equal(mr_definitions_waiting(d), 0);
    assert_true(mr_memory_used(memory) <= mr_memory_limit(memory));
    mr_definitions_free(d);
    mr_memory_unref(memory);
}

/* How large one is when it is expanded shows when it is there: it is not kept while there is no
 * room. */
static void one_that_is_larger_than_it_seemed_is_fetched_again(void **state)
{
    mr_memory *memory = budget(2 * LARGE);
    mr_definitions *d = definitions(memory, WAIT_MS);
    struct source s;

    source_init(&s, d, LARGE);
    CHECK_OK(get(&s, "one", &s.held, e));
    s.compressed = true;
    s.fetched = 0;
    assert_int_equal(use(&s, "other"), MR_OK);
    assert_int_equal(s.asked, 1);
    assert_int_equal(s.fetched, 2);
    mr_definitions_free(d);
    mr_memory_unref(memory);
}

static void one_without_room_is_told(void **state)
{
    mr_memory *memory = budget(2 * LARGE);
    mr_definitions *d = definitions(memory, 0); /* nobody lets go in that time */
    struct mr_kept_definition *k = NULL;
    struct mr_kept_definition *none = NULL;
    mr_error err;
    struct source s;

    source_init(&s, d, LARGE);
    CHECK_OK(get(&s, "one", &k, e));
    uint64_t used = mr_memory_used(memory);
    assert_int_equal(get(&s, "other", &none, &err), MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "dataset 'table': no room for its definition of 2097"));
    assert_non_null(strstr(
        err.message, "of the memory budget of 4194304 are in use: give more (--memory-budget)"));
    s.compressed = true; /* that is seen when it has come */
    assert_int_equal(get(&s, "other", &none, &err), MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "no room for its definition of 2097"));
    assert_int_equal(mr_memory_used(memory), used);
    mr_definitions_release(d, k);
    assert_int_equal(use(&s, "other"), MR_OK);
    mr_definitions_free(d);
    mr_memory_unref(memory);
}

/* Memory is short already: nobody can say of how much room there is none, before it has come. */
static void one_of_unknown_size_is_told_when_it_has_come(void **state)
{
    mr_memory *memory = budget(2 * LARGE);
    mr_definitions *d = definitions(memory, 0);
    struct mr_kept_definition *none = NULL;
    struct source s;
    mr_error err;

    source_init(&s, d, LARGE);
    s.unknown = true;
    s.ends = true; /* it is not asked */
    mr_memory_add(memory, 2 * LARGE);
    uint64_t used = mr_memory_used(memory);
    assert_int_equal(get(&s, "one", &none, &err), MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "no room for its definition of 2097"));
    assert_int_equal(s.fetched, 1);
    assert_int_equal(s.asked, 0);
    assert_int_equal(mr_memory_used(memory), used);
    mr_memory_release(memory, 2 * LARGE);
    assert_int_equal(use(&s, "one"), MR_OK);
    mr_definitions_free(d);
    mr_memory_unref(memory);
}

/* At once, and neither fetched nor asked whether to wait. */
static void one_that_never_fits_is_told(void **state)
{
    mr_memory *memory = budget(LARGE + LARGE / 10);
    mr_definitions *d = definitions(memory, WAIT_MS);
    struct mr_kept_definition *k = NULL;
    struct source s;
    mr_error err;

    source_init(&s, d, LARGE);
    uint64_t none = mr_memory_used(memory);
    assert_int_equal(get(&s, "one", &k, &err), MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "dataset 'table': its definition takes 2097"));
    assert_non_null(strstr(err.message, "more than 7/8 of the memory budget of 2306867"));
    assert_non_null(strstr(err.message, "--memory-budget"));
    assert_int_equal(s.fetched, 0);
    assert_int_equal(s.asked, 0);
    s.compressed = true;
    assert_int_equal(get(&s, "one", &k, &err), MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "more than 7/8"));
    assert_int_equal(s.fetched, 1);
    assert_int_equal(s.asked, 0);
    assert_int_equal(mr_memory_used(memory), none);
    mr_definitions_free(d);
    mr_memory_unref(memory);
}

static void whoever_is_dropped_does_not_wait(void **state)
{
    mr_memory *memory = budget(2 * LARGE);
    mr_definitions *d = definitions(memory, WAIT_MS);
    struct mr_kept_definition *k = NULL;
    struct source s;

    source_init(&s, d, LARGE);
    CHECK_OK(get(&s, "one", &k, e));
    s.ends = true;
    assert_int_equal(use(&s, "other"), MR_ECANCELED);
    mr_definitions_release(d, k);
    mr_definitions_free(d);
    mr_memory_unref(memory);
}

/* What comes of a large one before it is taken apart is in no budget: while one is fetched another
 * one waits. */
static void large_ones_are_fetched_one_at_a_time(void **state)
{
    const struct {
        uint32_t size;
        int rc;
        unsigned asked;
    } cases[] = {{LARGE, MR_ECANCELED, 1}, {SMALL, MR_OK, 0}};

    for (size_t i = 0; i < 2; i++) {
        mr_definitions *d = definitions(NULL, WAIT_MS);
        struct source s;
        struct source other;

        source_init(&s, d, LARGE);
        source_init(&other, d, cases[i].size);
        other.ends = true;
        s.inside = &other;
        assert_int_equal(use(&s, "one"), MR_OK);
        assert_int_equal(s.inside_rc, cases[i].rc);
        assert_int_equal(other.asked, cases[i].asked);
        s.inside = NULL;
        other.ends = false;
        assert_int_equal(use(&other, "other"), MR_OK); /* the turn was given back */
        assert_int_equal(other.asked, cases[i].asked);
        mr_definitions_free(d);
    }
}

/* Whoever has the turn may wait for a dispatcher that is away: others go on without it. */
static void nobody_waits_for_the_turn_for_ever(void **state)
{
    mr_definitions *d = definitions(NULL, 0);
    struct source s;
    struct source other;

    source_init(&s, d, LARGE);
    source_init(&other, d, LARGE);
    s.inside = &other;
    assert_int_equal(use(&s, "one"), MR_OK);
    assert_int_equal(s.inside_rc, MR_OK);
    mr_definitions_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_tasks_fetch_it_once),
        cmocka_unit_test(those_used_last_are_kept),
        cmocka_unit_test(constants_count_once_and_as_long_as_they_are_there),
        cmocka_unit_test(what_nobody_uses_gives_way),
        cmocka_unit_test(one_that_finds_no_room_waits_for_others_to_let_go),
        cmocka_unit_test(one_that_is_larger_than_it_seemed_is_fetched_again),
        cmocka_unit_test(one_without_room_is_told),
        cmocka_unit_test(one_of_unknown_size_is_told_when_it_has_come),
        cmocka_unit_test(one_that_never_fits_is_told),
        cmocka_unit_test(whoever_is_dropped_does_not_wait),
        cmocka_unit_test(large_ones_are_fetched_one_at_a_time),
        cmocka_unit_test(nobody_waits_for_the_turn_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
