/* Each allocation of a cluster's coordination fails once, one after the other: while members are
 * elected, load, commit, lose the lead and hand it over. Whatever it was, a leader is there again
 * and commits, nothing that was acknowledged is lost, and nothing leaks. */
#include "coord_world.h"

#include "base/base.h"
#include "tests/support/heap.h"

#include <stdlib.h>
#include <unistd.h>

/* A life of three members: what befalls them begins with the nth allocation failing. */
static bool live(uint64_t nth)
{
    struct coord_sim *s = coord_new(7);
    uint64_t start = mr_alloc_count();

    mr_alloc_fail_at(nth);
    coord_run_ms(s, 1500);
    for (int id = 0; id < NODES; id++) {
        if (s->nodes[id].leads) {
            mr_member_step_down(s->nodes[id].member, 100, mr_fake_now_ms(s->fake), 1);
        }
    }
    coord_run_ms(s, 1500);
    bool reached = mr_alloc_count() - start >= nth;

    mr_alloc_fail_at(0);
    (void)coord_await_leader(s);
    (void)coord_outage_ms(s);
    coord_free(s);
    return reached;
}

static void no_failed_allocation_ends_a_cluster(void **state)
{
    (void)live(0); /* what is made once stays */
    size_t before = mr_test_heap_in_use();
    uint64_t nth = 1;

    for (; live(nth); nth++) {
        size_t after = mr_test_heap_in_use();

        if (after != before) {
            fail_msg("%zu bytes are left after allocation %llu failed", after - before,
                     (unsigned long long)nth);
        }
    }
    print_message("%llu allocations\n", (unsigned long long)nth - 1);
    assert_true(nth > 500);
}

int main(int argc, char **argv)
{
    /* What a thread keeps of freed memory would count as in use. */
    if (getenv("GLIBC_TUNABLES") == NULL) {
        (void)setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
        (void)execv("/proc/self/exe", argv);
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_failed_allocation_ends_a_cluster)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
