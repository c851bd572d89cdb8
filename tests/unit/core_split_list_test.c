/* Lists of splits, against an array that says the same split by split. */
#include "dispatcher/model/splits.h"

#include "base/rng.h"
#include "dispatcher/core/core.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SPLITS 200
#define STEPS 20000

struct model {
    bool owed[SPLITS];
    uint32_t losses[SPLITS];
};

static void expect_same(struct mr_split_list list, const struct model *m)
{
    struct model other = {0};

    assert_true(mr_split_list_is_sound(list, SPLITS));
    for (size_t i = 0; i < *list.n; i++) {
        const Millrace__OwedRange *range = (*list.ranges)[i];

        for (uint64_t at = range->first; at < range->first + range->count; at++) {
            other.owed[at] = true;
            assert_true(range->losses >= m->losses[at]);
        }
    }
    assert_memory_equal(other.owed, m->owed, sizeof other.owed);
}

static void add(mr_core *core, struct mr_split_list list, struct model *m, struct mr_rng *rng)
{
    uint64_t first = mr_rng_below(rng, SPLITS);
    uint64_t count = 1 + mr_rng_below(rng, SPLITS - first < 8 ? SPLITS - first : 8);
    uint32_t losses = (uint32_t)mr_rng_below(rng, 3);

    mr_split_list_add(core, list, first, count, losses);
    for (uint64_t at = first; at < first + count; at++) {
        m->owed[at] = true;
        m->losses[at] = losses > m->losses[at] ? losses : m->losses[at];
    }
}

static void take(struct mr_split_list list, struct model *m, struct mr_rng *rng)
{
    size_t i = mr_rng_below(rng, *list.n);
    const Millrace__OwedRange *range = (*list.ranges)[i];
    uint64_t first = range->first;
    uint64_t count = 1 + mr_rng_below(rng, range->count);

    mr_split_list_take(list, i, count);
    for (uint64_t at = first; at < first + count; at++) {
        m->owed[at] = false;
        m->losses[at] = 0;
    }
}

static void a_list_is_what_was_added_and_not_taken(void **state)
{
    struct mr_core_config config = {.epoch = 1};
    mr_core *core = mr_core_new(&config);
    Millrace__CursorRecord rec = MILLRACE__CURSOR_RECORD__INIT;
    struct mr_split_list list = {&rec.pool, &rec.n_pool};
    struct model m = {0};
    struct mr_rng rng;

    mr_rng_seed(&rng, 7);
    for (int i = 0; i < STEPS; i++) {
        if (rec.n_pool == 0 || mr_rng_below(&rng, 2) == 0) {
            add(core, list, &m, &rng);
        } else {
            take(list, &m, &rng);
        }
        expect_same(list, &m);
    }
    mr_split_list_clear(list);
    mr_core_free(core);
}

static void squeezing_adds_the_smallest_gaps(void **state)
{
    struct mr_core_config config = {.epoch = 1};
    mr_core *core = mr_core_new(&config);
    Millrace__CursorRecord rec = MILLRACE__CURSOR_RECORD__INIT;
    struct mr_split_list list = {&rec.pool, &rec.n_pool};

    mr_split_list_add(core, list, 0, 10, 1);
    mr_split_list_add(core, list, 11, 1, 3);
    mr_split_list_add(core, list, 100, 10, 0);
    mr_split_list_add(core, list, 115, 5, 0);
    mr_split_list_squeeze(list, 4);
    assert_int_equal(rec.n_pool, 4);
    mr_split_list_squeeze(list, 3);
    assert_int_equal(rec.n_pool, 3);
    assert_int_equal(rec.pool[0]->count, 12);
    assert_int_equal(rec.pool[0]->losses, 3); /* the worst is said of all */
    mr_split_list_squeeze(list, 2);
    assert_int_equal(rec.pool[1]->first, 100);
    assert_int_equal(rec.pool[1]->count, 20);
    mr_split_list_squeeze(list, 1);
    assert_int_equal(mr_split_list_splits(list), 120);
    mr_split_list_clear(list);
    mr_core_free(core);
}

static void what_is_not_ascending_or_too_far_is_not_sound(void **state)
{
    static const uint64_t bad[][4] = {
        {0, 0, 5, 1}, {5, 1, 0, 1}, {0, 2, 1, 1}, {0, 1, 9, 2}, {0, 1, 9, UINT64_MAX}};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        Millrace__OwedRange a = MILLRACE__OWED_RANGE__INIT, b = MILLRACE__OWED_RANGE__INIT;
        Millrace__OwedRange *pointers[] = {&a, &b};
        Millrace__OwedRange **ranges = pointers;
        size_t n = 2;

        a.first = bad[i][0];
        a.count = bad[i][1];
        b.first = bad[i][2];
        b.count = bad[i][3];
        assert_false(mr_split_list_is_sound((struct mr_split_list){&ranges, &n}, 10));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_is_what_was_added_and_not_taken),
        cmocka_unit_test(squeezing_adds_the_smallest_gaps),
        cmocka_unit_test(what_is_not_ascending_or_too_far_is_not_sound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
