/* Shares of hosts: examples, then random takes and gives against a plain array. */
#include "base/base.h"
#include "base/rng.h"
#include "base/shares.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MAX 100
#define HOSTS 5
#define TAKEN_MAX 200

static uint64_t take_all(struct mr_shares *all, const char *host, struct mr_share **share)
{
    uint64_t n = 0;

    while (mr_shares_take(all, host, 1, share, NULL) == MR_OK) {
        n++;
    }
    return n;
}

static void give_all(struct mr_share *share, uint64_t n)
{
    while (n-- > 0) {
        mr_share_give(share, 1);
    }
}

static void one_host_has_half_and_others_get_in(void **state)
{
    struct mr_share *a = NULL, *b = NULL, *c = NULL;
    struct mr_shares all;
    mr_error err;

    mr_shares_init(&all, "calls", MAX);
    assert_int_equal(take_all(&all, "10.0.0.1", &a), 50);
    assert_int_equal(take_all(&all, "10.0.0.2", &b), 25);
    assert_int_equal(take_all(&all, "10.0.0.3", &c), 12);
    assert_int_equal(mr_shares_take(&all, "10.0.0.1", 1, &a, &err), MR_EEXHAUSTED);
    assert_int_equal(err.traits, MR_RETRYABLE);
    assert_string_equal(
        err.message,
        "host 10.0.0.1 has 50 of 100 calls (87 are taken in all) and may have no more than it "
        "leaves free: end some of its, or ask again later");
    assert_ptr_equal(mr_shares_largest(&all), a);
    give_all(a, 50);
    assert_int_equal(take_all(&all, "10.0.0.2", &b),
                     44 - 25); /* What others gave back is there for who is left. */
    give_all(b, 44);
    give_all(c, 12);
    assert_null(mr_shares_largest(&all));
    mr_shares_free(&all);
}

static void one_large_thing_goes_at_a_time(void **state)
{
    struct mr_share *a = NULL, *b = NULL;
    struct mr_shares all;

    mr_shares_init(&all, "bytes", 192);
    assert_int_equal(mr_shares_take(&all, "a", 193, &a, NULL), MR_EEXHAUSTED);
    assert_int_equal(mr_shares_take(&all, "a", 96, &a, NULL), MR_OK);
    assert_int_equal(mr_shares_take(&all, "a", 96, &a, NULL), MR_EEXHAUSTED);
    assert_int_equal(mr_shares_take(&all, "b", 96, &b, NULL), MR_OK);
    mr_share_give(a, 96);
    assert_int_equal(mr_shares_take(&all, "a", 96, &a, NULL), MR_OK);
    mr_share_give(a, 96);
    mr_share_give(b, 96);
    mr_shares_free(&all);
}

static void what_is_empty_is_held_too(void **state)
{
    struct mr_share *a = NULL, *same = NULL;
    struct mr_shares all;

    mr_shares_init(&all, "bytes", MAX);
    assert_int_equal(mr_shares_take(&all, "a", 0, &a, NULL), MR_OK);
    assert_int_equal(mr_shares_take(&all, "a", 3, &same, NULL), MR_OK);
    assert_ptr_equal(a, same);
    mr_share_give(a, 3);
    assert_string_equal(a->host, "a");
    mr_share_give(a, 0);
    mr_share_give(NULL, 1);
    mr_shares_free(&all);
}

static void agrees_with_an_array(void **state)
{
    static const char *const hosts[HOSTS] = {"a", "b", "c", "d", "e"};
    struct {
        struct mr_share *share;
        size_t host;
        uint64_t n;
    } held[TAKEN_MAX];
    uint64_t of[HOSTS] = {0}, taken = 0;
    struct mr_shares all;
    struct mr_rng rng;
    size_t nheld = 0;

    mr_shares_init(&all, "things", MAX);
    mr_rng_seed(&rng, 1);
    for (int step = 0; step < 20000; step++) {
        size_t host = mr_rng_below(&rng, HOSTS);
        uint64_t n = 1 + mr_rng_below(&rng, 7);
        struct mr_share *share = NULL;

        if (nheld > 0 && mr_rng_below(&rng, 2) == 0) {
            size_t i = mr_rng_below(&rng, nheld);

            mr_share_give(held[i].share, held[i].n);
            of[held[i].host] -= held[i].n;
            taken -= held[i].n;
            held[i] = held[--nheld];
            continue;
        }
        bool fits = taken + n <= MAX && (of[host] == 0 || of[host] + n <= MAX - taken - n);
        assert_int_equal(mr_shares_take(&all, hosts[host], n, &share, NULL) == MR_OK, fits);
        if (fits) {
            held[nheld].share = share;
            held[nheld].host = host;
            held[nheld++].n = n;
            of[host] += n;
            taken += n;
            assert_int_equal(share->held, of[host]);
        }
        assert_int_equal(all.taken, taken);
    }
    while (nheld > 0) {
        nheld--;
        mr_share_give(held[nheld].share, held[nheld].n);
    }
    mr_shares_free(&all);
}

static void out_of_memory_changes_nothing(void **state)
{
    for (size_t nth = 1; nth <= 2; nth++) {
        struct mr_share *a = NULL;
        struct mr_shares all;

        mr_shares_init(&all, "calls", MAX);
        mr_alloc_fail_at(nth);
        assert_int_equal(mr_shares_take(&all, "a", 1, &a, NULL), MR_EEXHAUSTED);
        mr_alloc_fail_at(0);
        assert_int_equal(all.taken, 0);
        assert_int_equal(mr_shares_take(&all, "a", 1, &a, NULL), MR_OK);
        mr_share_give(a, 1);
        mr_shares_free(&all);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_host_has_half_and_others_get_in),
        cmocka_unit_test(one_large_thing_goes_at_a_time),
        cmocka_unit_test(what_is_empty_is_held_too),
        cmocka_unit_test(agrees_with_an_array),
        cmocka_unit_test(out_of_memory_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
