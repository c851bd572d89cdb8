/* Walks of coordinated reads, and the same with bugs put in, which the judge must find; make sim
 * SEED=n shows one. */
#include "rounds_walk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define BUG_WALKS 400
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define WALKS 32
#define SEEK_BUGS 0 /* ten times as slow, and about the judge */
#else
#define WALKS 80
#define SEEK_BUGS 1
#endif

static struct rounds_tally tally;

static void everybody_gets_on(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= WALKS; seed++) {
        const char *why = rounds_walk(seed, BUG_NONE, false, &tally);

        if (why != NULL) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, why);
        }
    }
}

static void bugs_are_found(void **state)
{
    /* Where to begin: some of them are rare. */
    static const uint64_t first[BUGS] = {
        [BUG_RECEIPT_IS_RETURNED] = 10130, [BUG_NO_BARRIER] = 70001};
    struct rounds_tally ignored = {0};
    int missed = 0;

    (void)state;
    for (int bug = BUG_NONE + 1; bug < BUGS && SEEK_BUGS; bug++) {
        const char *why = NULL;

        for (uint64_t i = 0; why == NULL && i < BUG_WALKS; i++) {
            uint64_t seed = i + (first[bug] > 0 ? first[bug] : 1);

            why = rounds_walk(seed, (enum bug)bug, false, &ignored);
        }
        missed += why == NULL ? 1 : 0;
        if (why == NULL) {
            printf("  not found: %s\n", rounds_bug_name((enum bug)bug));
        }
    }
    assert_int_equal(missed, 0);
}

static void rare_things_happened(void **state)
{
    (void)state;
    for (int i = 0; i < RARES; i++) {
        if (tally.rares[i] == 0) {
            fail_msg("it never came to pass: %s", rounds_rare_text((enum rare)i));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_gets_on),
        cmocka_unit_test(rare_things_happened),
        cmocka_unit_test(bugs_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
