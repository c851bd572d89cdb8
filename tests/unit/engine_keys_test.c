/* What is kept by key: entries that come, go and are sorted, beside a list of them. */
#include "engine/ops/key_table.h"

#include "base/rng.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(entries_come_and_go),
        cmocka_unit_test(entries_lie_in_the_order_in_which_they_came),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
