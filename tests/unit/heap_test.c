/* What malloc keeps: much for a while, and not for good. */
#include "base/heap.h"
#include "element/buffer.h"
#include "tests/support/heap.h"

#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define LARGE_BYTES ((size_t)25 << 20)
#define ROUNDS 20

/* As elements do that come one after the other, with small things made in between that stay. */
static void large_buffers_take_the_place_of_those_before(void **state)
{
    void *small[ROUNDS];
    mr_buffer *b = NULL;

    if (!MR_TEST_MALLOC_IS_GLIBCS) {
        skip();
    }
    mr_heap_keep_large();
    size_t before = mallinfo2().arena;
    for (size_t i = 0; i < ROUNDS; i++) {
        assert_int_equal(mr_buffer_new(LARGE_BYTES, &b, NULL), MR_OK);
        small[i] = malloc(2000);
        mr_buffer_unref(b);
    }
    assert_in_range(mallinfo2().arena - before, LARGE_BYTES, 5 * LARGE_BYTES);
    for (size_t i = 0; i < ROUNDS; i++) {
        free(small[i]);
    }
}

static void what_is_too_much_is_given_back(void **state)
{
    if (!MR_TEST_MALLOC_IS_GLIBCS) {
        skip();
    }
    mr_test_heap_spike();
    assert_true(mr_test_resident_bytes() > MR_HEAP_FREE_BYTES);
    mr_heap_trim();
    assert_true(mr_test_resident_bytes() < MR_HEAP_FREE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_buffers_take_the_place_of_those_before),
        cmocka_unit_test(what_is_too_much_is_given_back),
    };

    (void)unsetenv("MILLRACE_MALLOC");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
