/* Windows in memory: all of them have one bound, the worker's budget, of which they leave something
 * to others. */
#include "worker/windows.h"

#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BUDGET (256 * MR_MIB)

static void windows_in_memory_have_a_common_bound(void **state)
{
    mr_memory *memory = NULL;
    mr_windows *w = NULL;
    uint64_t taken[64];
    uint64_t bytes = 0;
    size_t n = 0;
    mr_error err;

    assert_int_equal(mr_memory_new(BUDGET, NULL, &memory, NULL), MR_OK);
    uint64_t none = mr_memory_used(memory);
    struct mr_windows_options opts = {
        .dir = "/nonexistent", .memory_bytes_max = 128 * MR_MIB, .memory = memory};
    assert_int_equal(mr_windows_new(&opts, &w, NULL), MR_OK);
    uint64_t used = 0;
    while (n < 64 && mr_windows_take_memory(w, 0, &bytes, &taken[n], &err) == MR_OK) {
        assert_true(bytes >= (used + 12 * MR_MIB <= 128 * MR_MIB ? 8 : 2) * MR_MIB);
        assert_true(taken[n] >= bytes + bytes / 2);
        used += taken[n++];
    }
    assert_true(n >= 24 && n < 64); /* 16 with at least 8 MiB each */
    assert_non_null(strstr(err.message, "memory budget of 268435456 bytes"));
    assert_non_null(strstr(err.message, "67108864 are kept for what elements need"));
    assert_true(mr_memory_used(memory) <= BUDGET / 4 * 3);
    /* One that an element needs, when there is room again; more than there is, never. */
    assert_int_equal(mr_windows_take_memory(w, 128 * MR_MIB, &bytes, &taken[n], &err),
                     MR_EEXHAUSTED);
    while (n > 0) {
        mr_windows_give_memory(w, taken[--n]);
    }
    assert_int_equal(mr_memory_used(memory) - none, 1); /* the windows' reference */
    assert_int_equal(mr_windows_take_memory(w, 128 * MR_MIB, &bytes, &taken[0], &err), MR_OK);
    assert_int_equal(bytes, 128 * MR_MIB);
    assert_int_equal(mr_windows_take_memory(w, 1024 * MR_MIB, &bytes, &taken[1], &err),
                     MR_EEXHAUSTED);
    mr_windows_give_memory(w, taken[0]);
    mr_windows_free(w);
    assert_int_equal(mr_memory_used(memory), none);
    mr_memory_unref(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_in_memory_have_a_common_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
