/* Groups by key, beside a list of them: which are full, how much they lack, in which order they are
 * given and saved. */
#include "engine_support.h"

#include "base/rng.h"
#include "engine/ops/groups.h"
#include "engine/state.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define KEYS 60

struct fixture {
    struct mr_env env;
    struct mr_rng rng;
    mr_dataset *ds;
    mr_block *rows; /* what is put into groups */
    struct mr_groups groups;
    /* The groups that there are, by the numbers of their keys. */
    uint64_t size[KEYS]; /* 0: there is none */
    uint64_t has[KEYS];
};

static int64_t key_of(uint32_t i)
{
    return ((int64_t)i - KEYS / 2) * (INT64_MAX / KEYS);
}

/* Its memory budget; 0: as it comes. */
static void begin(struct fixture *f, uint64_t seed, uint64_t budget)
{
    const struct mr_engine_options opts = {.threads = 1, .memory_budget_bytes = budget};
    const int64_t values[4] = {0, 1, 2, 3};
    struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = values};

    *f = (struct fixture){.ds = make_range(0, 4, 1)};
    mr_rng_seed(&f->rng, seed);
    CHECK_OK(mr_env_init(&f->env, f->ds, &opts, e));
    CHECK_OK(mr_block_new(4, &column, 1, &f->rows, e));
    mr_groups_init(&f->groups, &f->env, mr_dataset_spec(f->ds));
}

static void end(struct fixture *f)
{
    mr_groups_free(&f->groups);
    mr_block_unref(f->rows);
    mr_env_destroy(&f->env);
    mr_dataset_unref(f->ds);
}

/* What mr_groups_missing() is to say. */
static uint64_t missing(const struct fixture *f, uint64_t size, uint32_t wanted)
{
    uint64_t taken[KEYS] = {0};
    uint64_t rows = 0;

    for (uint32_t i = 0; i < KEYS; i++) {
        size = f->size[i] > 0 ? MR_MIN(size, f->size[i]) : size;
    }
    for (uint32_t k = 0; k < MR_MIN(wanted, MR_GROUPS_AHEAD); k++) {
        uint64_t least = size;
        uint32_t of = KEYS;

        for (uint32_t i = 0; i < KEYS; i++) {
            if (f->size[i] > 0 && taken[i] == 0 && f->size[i] - f->has[i] < least) {
                least = f->size[i] - f->has[i];
                of = i;
            }
        }
        if (of < KEYS) {
            taken[of] = 1;
        }
        if (least == UINT64_MAX) {
            return UINT64_MAX;
        }
        rows += least;
    }
    return rows;
}

static void check(struct fixture *f, struct mr_groups *g)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        const struct mr_group *group = mr_groups_find(g, key_of(i));

        assert_true((group != NULL) == (f->size[i] > 0));
        if (group != NULL) {
            assert_true(group->key == key_of(i));
            assert_true(group->size == f->size[i]);
            assert_int_equal(group->rows.n, f->has[i]);
        }
    }
    for (uint32_t wanted = 1; wanted <= MR_GROUPS_AHEAD + 1; wanted++) {
        assert_true(mr_groups_missing(g, 5, wanted) == missing(f, 5, wanted));
        assert_true(mr_groups_missing(g, UINT64_MAX, wanted) == missing(f, UINT64_MAX, wanted));
    }
}

/* One more element of key @i. */
static void put(struct fixture *f, uint32_t i, uint64_t size_max)
{
    struct mr_group *group = mr_groups_find(&f->groups, key_of(i));

    if (group == NULL) {
        f->size[i] = 1 + mr_rng_below(&f->rng, size_max);
        f->has[i] = 0;
        CHECK_OK(mr_groups_add(&f->groups, key_of(i), f->size[i], &group, e));
    }
    CHECK_OK(mr_groups_put(&f->groups, group, f->rows, (uint32_t)f->has[i] % 4, e));
    mr_rows_log_done(&f->groups.log);
    f->has[i]++;
}

static void drop(struct fixture *f, struct mr_group *group)
{
    uint32_t i = (uint32_t)(group->key / (INT64_MAX / KEYS) + KEYS / 2);

    f->size[i] = 0;
    mr_groups_remove(&f->groups, group);
}

/* What was saved is in the order of the keys: restored and saved again, it is the same. */
static void save_and_restore(struct fixture *f)
{
    struct mr_state saved[2] = {{.buf = MR_BUF_INIT}, {.buf = MR_BUF_INIT}};
    struct mr_groups again;

    CHECK_OK(mr_groups_state(&f->groups, &saved[0], e));
    struct mr_state restored = {.restores = true, .p = saved[0].buf.data, .left = saved[0].buf.len};
    mr_groups_init(&again, &f->env, mr_dataset_spec(f->ds));
    CHECK_OK(mr_groups_state(&again, &restored, e));
    assert_int_equal(restored.left, 0);
    check(f, &again);
    CHECK_OK(mr_groups_state(&again, &saved[1], e));
    assert_int_equal(saved[0].buf.len, saved[1].buf.len);
    assert_memory_equal(saved[0].buf.data, saved[1].buf.data, saved[0].buf.len);
    mr_groups_free(&again);
    mr_buf_free(&saved[0].buf);
    mr_buf_free(&saved[1].buf);
}

/* All that are left leave in the order of their keys. */
static void take_all(struct fixture *f)
{
    for (uint32_t i = 0; i < KEYS; i++) {
        if (f->size[i] > 0) {
            struct mr_group *group = mr_groups_first(&f->groups);

            assert_non_null(group);
            assert_true(group->key == key_of(i));
            drop(f, group);
            check(f, &f->groups);
        }
    }
    assert_null(mr_groups_first(&f->groups));
}

static void groups_come_and_go(void **state)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct fixture f;

        begin(&f, seed, 0);
        uint32_t keys = 1 + (uint32_t)mr_rng_below(&f.rng, KEYS);
        uint64_t size_max = 1 + mr_rng_below(&f.rng, 12);

        check(&f, &f.groups);
        for (int step = 0; step < 300; step++) {
            uint32_t i = (uint32_t)mr_rng_below(&f.rng, keys);

            put(&f, i, size_max);
            check(&f, &f.groups);
            struct mr_group *full = mr_groups_full(&f.groups);
            assert_true((full != NULL) == (f.has[i] == f.size[i]));
            if (full != NULL) {
                assert_true(full->key == key_of(i));
                drop(&f, full);
                check(&f, &f.groups);
            }
            if (step % 50 == 0) {
                save_and_restore(&f);
            }
        }
        take_all(&f);
        end(&f);
    }
}

/* The first ones are the smallest keys, whatever order they came in. */
static void groups_are_saved_by_key(void **state)
{
    struct mr_state saved = {.buf = MR_BUF_INIT};
    struct fixture f;
    uint64_t n = 0;

    begin(&f, 3, 0);
    for (uint32_t i = 0; i < KEYS; i++) {
        put(&f, (i * 37) % KEYS, 1);
    }
    CHECK_OK(mr_groups_state(&f.groups, &saved, e));
    struct mr_state restored = {.restores = true, .p = saved.buf.data, .left = saved.buf.len};
    CHECK_OK(mr_state_count(&restored, &n, e));
    assert_int_equal(n, KEYS);
    for (uint32_t i = 0; i < KEYS; i++) {
        struct mr_rows rows;
        struct mr_rows_log log = {.env = &f.env};
        uint64_t key = 0;
        uint64_t size = 0;

        CHECK_OK(mr_state_u64(&restored, &key, e));
        CHECK_OK(mr_state_u64(&restored, &size, e));
        assert_true((int64_t)key == key_of(i));
        assert_int_equal(size, 1);
        mr_rows_init(&rows, &f.env, mr_dataset_spec(f.ds), &log);
        CHECK_OK(mr_rows_state(&rows, &restored, e));
        assert_int_equal(rows.n, 1);
        mr_rows_free(&rows);
        mr_rows_log_free(&log);
    }
    assert_int_equal(restored.left, 0);
    mr_buf_free(&saved.buf);
    end(&f);
}

/* Keys without an end take memory, however small their elements are. */
static void groups_are_within_the_budget(void **state)
{
    struct fixture f;
    mr_error error;
    int64_t n = 0;
    int rc;

    begin(&f, 3, 64u << 10);
    do {
        struct mr_group *group = NULL;

        rc = mr_groups_add(&f.groups, n, 1, &group, &error);
        n += rc == MR_OK;
    } while (rc == MR_OK);
    assert_int_equal(rc, MR_EEXHAUSTED);
    assert_non_null(strstr(error.message, "0 elements in "));
    assert_in_range(n, 16, (64u << 10) / sizeof(struct mr_group));
    assert_true(atomic_load(&f.env.used_bytes) == f.groups.arrays);
    mr_groups_free(&f.groups);
    assert_true(atomic_load(&f.env.used_bytes) == 0);
    end(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_come_and_go),
        cmocka_unit_test(groups_are_saved_by_key),
        cmocka_unit_test(groups_are_within_the_budget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
