/* The string map against a plain array, over random puts and removals. */
#include "base/base.h"
#include "base/map.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define KEYS 200

static void agrees_with_an_array(void **state)
{
    static char keys[KEYS][8];
    void *model[KEYS] = {NULL};
    struct mr_map map = {0};
    struct mr_rng rng;
    size_t count = 0;

    mr_rng_seed(&rng, 1);
    for (size_t i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", i);
    }
    for (int step = 0; step < 20000; step++) {
        size_t i = mr_rng_below(&rng, KEYS);

        if (mr_rng_below(&rng, 2) == 0) {
            count += model[i] == NULL ? 1 : 0;
            model[i] = &model[mr_rng_below(&rng, KEYS)];
            assert_int_equal(mr_map_put(&map, keys[i], model[i], NULL), MR_OK);
        } else {
            count -= model[i] != NULL ? 1 : 0;
            assert_ptr_equal(mr_map_remove(&map, keys[i]), model[i]);
            model[i] = NULL;
        }
        i = mr_rng_below(&rng, KEYS);
        assert_ptr_equal(mr_map_get(&map, keys[i]), model[i]);
        assert_int_equal(map.count, count);
    }
    mr_map_free(&map);
    assert_null(mr_map_get(&map, "k1"));
}

static void out_of_memory_changes_nothing(void **state)
{
    struct mr_map map = {0};
    mr_error err;

    mr_alloc_fail_at(1);
    assert_int_equal(mr_map_put(&map, "a", &map, &err), MR_EEXHAUSTED);
    mr_alloc_fail_at(0);
    assert_null(mr_map_get(&map, "a"));
    assert_null(mr_map_remove(&map, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_an_array),
        cmocka_unit_test(out_of_memory_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
