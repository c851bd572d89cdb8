/* What is kept by key: entries that come, go and are sorted, beside a list of them; what states are
 * charged. */
#include "engine_support.h"

#include "base/rng.h"
#include "engine/ops/key_states.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define KEYS 70

struct thing {
    int64_t key;
    uint64_t value;
    uint32_t more;
};

/* The things that there are, by the numbers of their keys. */
struct model {
    struct mr_key_table table;
    bool there[KEYS];
    uint64_t values[KEYS];
};

static int64_t key_of(uint32_t i)
{
    const int64_t ends[4] = {INT64_MIN, INT64_MAX, -1, 1};

    return i < 4 ? ends[i] : ((int64_t)i - KEYS / 2) * (int64_t)1000003;
}

static void check(const struct model *m)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < KEYS; i++) {
        const struct thing *thing = mr_key_table_find(&m->table, key_of(i));

        assert_true((thing != NULL) == m->there[i]);
        if (thing != NULL) {
            assert_true(thing->key == key_of(i));
            assert_true(thing->value == m->values[i]);
            assert_int_equal(thing->more, i);
            n++;
        }
    }
    assert_int_equal(m->table.n, n);
}

static void add(struct model *m, uint32_t i, uint64_t value)
{
    mr_error err;

    if (mr_key_table_is_full(&m->table)) {
        size_t grown = mr_key_table_bytes_grown(&m->table);

        for (uint64_t nth = 1; nth <= 2; nth++) {
            mr_alloc_fail_at(nth);
            assert_int_equal(mr_key_table_grow(&m->table, &err), MR_EEXHAUSTED);
            mr_alloc_fail_at(0);
            check(m);
        }
        assert_int_equal(mr_key_table_grow(&m->table, &err), MR_OK);
        assert_int_equal(mr_key_table_bytes(&m->table), grown);
        check(m);
    }
    struct thing *thing = mr_key_table_add(&m->table, key_of(i));
    assert_true(thing->value == 0);
    assert_int_equal(thing->more, 0);
    thing->value = value;
    thing->more = i;
    m->there[i] = true;
    m->values[i] = value;
}

static void remove_at(struct model *m, uint32_t i)
{
    mr_key_table_remove(&m->table, mr_key_table_find(&m->table, key_of(i)));
    m->there[i] = false;
}

/* All leave, in the order of their keys. */
static void take_all(struct model *m)
{
    struct thing before = {.key = INT64_MIN};

    for (bool first = true; m->table.n > 0; first = false) {
        mr_key_table_sort(&m->table);
        struct thing *last = (struct thing *)m->table.all + m->table.n - 1;
        assert_true(first || before.key < last->key);
        before = *last;
        remove_at(m, last->more);
        check(m);
    }
}

static void entries_come_and_go(void **state)
{
    struct mr_rng rng;

    mr_rng_seed(&rng, 11);
    for (int run = 0; run < 60; run++) {
        struct model m = {.table = {.size = sizeof(struct thing)}};
        uint32_t keys = 1 + (uint32_t)mr_rng_below(&rng, KEYS);

        check(&m);
        for (int step = 0; step < 300; step++) {
            uint32_t i = (uint32_t)mr_rng_below(&rng, keys);

            if (mr_rng_below(&rng, 40) == 0) {
                mr_key_table_sort(&m.table);
            } else if (m.there[i]) {
                remove_at(&m, i);
            } else {
                add(&m, i, mr_rng_next(&rng));
            }
            check(&m);
        }
        take_all(&m);
        mr_key_table_free(&m.table);
    }
}

/* In the order in which they came, until one but the last is removed. */
static void entries_lie_in_the_order_in_which_they_came(void **state)
{
    struct model m = {.table = {.size = sizeof(struct thing)}};

    for (uint32_t i = 0; i < KEYS; i++) {
        add(&m, (i * 37) % KEYS, i);
    }
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(((struct thing *)m.table.all)[i].value, i);
    }
    mr_key_table_free(&m.table);
}

/* ---- states ---- */

/* A string of @size bytes. */
static mr_block *state_of(size_t size)
{
    static const char bytes[4096];
    const uint64_t offsets[2] = {0, size};
    const struct mr_column column = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = bytes};
    mr_block *block = NULL;

    assert_in_range(size, 0, sizeof bytes);
    CHECK_OK(mr_block_new(1, &column, 1, &block, e));
    return block;
}

/* At any time what they hold is charged: whoever leaves gives back its part. */
static void states_are_charged_while_they_are_there(void **state)
{
    const struct mr_engine_options opts = {.threads = 1};
    mr_dataset *ds = make_strings((const char *const[]){""}, 1);
    mr_block *large = state_of(4000);
    size_t charged[KEYS + 1] = {0}; /* for the first states */
    struct mr_key_states s;
    struct mr_env env;

    CHECK_OK(mr_env_init(&env, ds, &opts, e));
    mr_key_states_init(&s, &env, mr_dataset_spec(ds));
    for (uint32_t i = 0; i < KEYS; i++) {
        mr_block *one = state_of((size_t)i * 50);

        CHECK_OK(mr_key_states_add(&s, KEYS - i, one, e));
        charged[i + 1] = s.blocks;
        assert_true(charged[i + 1] >= charged[i] + (size_t)i * 50);
        CHECK_OK(mr_key_states_set(&s, mr_key_states_find(&s, KEYS - i), large, e));
        assert_true(s.blocks >= charged[i] + 4000);
        CHECK_OK(mr_key_states_set(&s, mr_key_states_find(&s, KEYS - i), one, e));
        assert_true(s.blocks == charged[i + 1]);
        mr_block_unref(one);
    }
    mr_key_states_sort(&s);
    for (uint32_t i = KEYS; i > 0; i--) {
        assert_true(s.blocks == charged[i]);
        assert_true(atomic_load(&env.used_bytes) == s.blocks + s.arrays);
        assert_int_equal(mr_key_states_first(&s)->key, KEYS - i + 1);
        mr_key_states_drop_first(&s);
    }
    assert_null(mr_key_states_first(&s));
    assert_true(s.blocks == 0 && atomic_load(&env.used_bytes) == s.arrays);
    mr_key_states_free(&s);
    assert_true(atomic_load(&env.used_bytes) == 0);
    mr_env_destroy(&env);
    mr_block_unref(large);
    mr_dataset_unref(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_and_go),
        cmocka_unit_test(entries_lie_in_the_order_in_which_they_came),
        cmocka_unit_test(states_are_charged_while_they_are_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
