/* The write budget with workers that write when their grant is used up: what matters is the load
 * that results, not how it is found. */
#include "coord/budget.h"

#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define BASE_MS 2000
#define MAX_MS 30000
#define BUDGET 1000000

/* @tasks that write @bytes at each grant, of as much work as the stretch says when it is given. */
struct fleet {
    struct mr_budget budget;
    struct mr_rng rng;
    int64_t *next_ms;
    size_t tasks;
    uint64_t bytes;
    uint64_t written;
    int64_t now_ms;
};

static void fleet_init(struct fleet *f, size_t tasks, uint64_t bytes)
{
    *f = (struct fleet){.tasks = tasks, .bytes = bytes};
    mr_rng_seed(&f->rng, 7);
    f->next_ms = calloc(tasks, sizeof *f->next_ms);
    assert_non_null(f->next_ms);
    for (size_t i = 0; i < tasks; i++) {
        f->next_ms[i] = (int64_t)mr_rng_below(&f->rng, BASE_MS);
    }
    mr_budget_init(&f->budget, BUDGET, BASE_MS, MAX_MS, 0, 0);
}

/* Let @ms pass; the mean rate in bytes per second. */
static int64_t run(struct fleet *f, int64_t ms)
{
    uint64_t before = f->written;

    for (int64_t end = f->now_ms + ms; f->now_ms < end; f->now_ms += 10) {
        for (size_t i = 0; i < f->tasks; i++) {
            if (f->next_ms[i] <= f->now_ms) {
                f->written += f->bytes;
                f->next_ms[i] = f->now_ms + mr_budget_stretch_ms(&f->budget);
            }
        }
        mr_budget_update(&f->budget, f->written, f->now_ms);
    }
    return (int64_t)(f->written - before) * 1000 / ms;
}

static void few_workers_are_left_alone(void **state)
{
    struct fleet f;

    fleet_init(&f, 1000, 340); /* 170 KB/s */
    (void)run(&f, 60000);
    assert_int_equal(mr_budget_stretch_ms(&f.budget), BASE_MS);
    free(f.next_ms);
}

static void many_workers_come_down_to_the_budget(void **state)
{
    struct fleet f;

    fleet_init(&f, 20000, 340); /* 3.4 MB/s at 2 s */
    (void)run(&f, 20000);
    for (int i = 0; i < 10; i++) {
        int64_t rate = run(&f, 60000);

        assert_true(rate <= BUDGET * 105 / 100);
        assert_true(rate >= BUDGET / 2); /* and do not wait for nothing */
    }
    free(f.next_ms);
}

static void what_cannot_be_held_is_held_as_far_as_it_goes(void **state)
{
    struct fleet f;

    fleet_init(&f, 100000, 340);
    (void)run(&f, 60000);
    assert_int_equal(mr_budget_stretch_ms(&f.budget), MAX_MS);
    assert_true(run(&f, 60000) <= 100000 * INT64_C(340) / 30 * 105 / 100);
    free(f.next_ms);
}

static void it_relaxes_when_the_load_is_gone(void **state)
{
    struct fleet f;

    fleet_init(&f, 100000, 340);
    (void)run(&f, 60000);
    f.tasks = 100;
    (void)run(&f, 180000);
    assert_int_equal(mr_budget_stretch_ms(&f.budget), BASE_MS);
    free(f.next_ms);
}

static void one_large_definition_is_no_load(void **state)
{
    struct mr_budget b;

    mr_budget_init(&b, BUDGET, BASE_MS, MAX_MS, 0, 0);
    for (int64_t t = 500; t <= 60000; t += 500) {
        mr_budget_update(&b, t >= 1000 ? 900000 : 0, t); /* 900 KB in half a second, once */
    }
    assert_int_equal(mr_budget_stretch_ms(&b), BASE_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_workers_are_left_alone),
        cmocka_unit_test(many_workers_come_down_to_the_budget),
        cmocka_unit_test(what_cannot_be_held_is_held_as_far_as_it_goes),
        cmocka_unit_test(it_relaxes_when_the_load_is_gone),
        cmocka_unit_test(one_large_definition_is_no_load),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
