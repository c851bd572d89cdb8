/* What malloc keeps: much for a while, and not for good. */
#include "base/heap.h"
#include "base/spare.h"
#include "element/buffer.h"
#include "tests/support/heap.h"

#include <malloc.h>
#include <pthread.h>
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

static void large_pieces_are_used_again(void **state)
{
    void *p = mr_spare_malloc(LARGE_BYTES);

    assert_non_null(p);
    memset(p, 1, LARGE_BYTES);
    mr_spare_free(p);
    if (mr_spare_bytes() == 0) {
        skip(); /* sanitizers, MILLRACE_MALLOC */
    }
    assert_in_range(mr_spare_bytes(), LARGE_BYTES, LARGE_BYTES + LARGE_BYTES / 8);
    void *again = mr_spare_malloc(LARGE_BYTES - 1000);
    assert_ptr_equal(again, p);
    assert_int_equal(mr_spare_bytes(), 0);
    mr_spare_free(again);
    mr_spare_trim();
    assert_int_equal(mr_spare_bytes(), 0);
    mr_spare_free(NULL);
}

/* Of what is unused the oldest makes room. */
static void so_much_stays_unused(void **state)
{
    enum { N = 12 };
    void *p[N];

    for (size_t i = 0; i < N; i++) {
        p[i] = mr_spare_malloc(LARGE_BYTES + i * (LARGE_BYTES / 4));
        assert_non_null(p[i]);
    }
    for (size_t i = 0; i < N; i++) {
        mr_spare_free(p[i]);
        assert_true(mr_spare_bytes() <= MR_SPARE_BYTES_MAX);
    }
    if (mr_spare_bytes() > 0) {
        void *newest = mr_spare_malloc(LARGE_BYTES + (N - 1) * (LARGE_BYTES / 4));
        assert_ptr_equal(newest, p[N - 1]);
        mr_spare_free(newest);
    }
    mr_spare_trim();
}

#define HANDED_BYTES ((size_t)200 << 10)

static void *free_it(void *p)
{
    mr_spare_free(p);
    return NULL;
}

static void free_in_another_thread(void *p)
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, free_it, p), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* Others that do the same beside this thread come between it and its own. */
static void what_this_thread_gave_back_is_found(void **state)
{
    void *mine = mr_spare_malloc(HANDED_BYTES);
    void *other = mr_spare_malloc(HANDED_BYTES);

    mr_spare_trim();
    mr_spare_free(mine);
    if (mr_spare_bytes() == 0) {
        mr_spare_free(other);
        skip(); /* sanitizers, MILLRACE_MALLOC */
    }
    free_in_another_thread(other);
    assert_ptr_equal(mr_spare_malloc(HANDED_BYTES), mine);
    mr_spare_free(mine);
    mr_spare_trim();
}

/* What another core has read is not written at once; what this one gave back is. */
static void what_another_thread_gave_back_rests(void **state)
{
    enum { N = MR_SPARE_REST_BYTES / HANDED_BYTES + 1 };
    void *p[N];

    mr_spare_trim();
    for (size_t i = 0; i < N; i++) {
        p[i] = mr_spare_malloc(HANDED_BYTES);
        assert_non_null(p[i]);
    }
    free_in_another_thread(p[0]);
    if (mr_spare_bytes() == 0) {
        for (size_t i = 1; i < N; i++) {
            mr_spare_free(p[i]);
        }
        skip(); /* sanitizers, MILLRACE_MALLOC */
    }
    void *fresh = mr_spare_malloc(HANDED_BYTES);
    assert_ptr_not_equal(fresh, p[0]);
    for (size_t i = 1; i < N; i++) {
        free_in_another_thread(p[i]);
    }
    /* The two longest ones, with all that came after them: not the one behind. */
    void *rested = mr_spare_malloc(HANDED_BYTES);
    assert_ptr_equal(rested, p[0]);
    void *second = mr_spare_malloc(HANDED_BYTES);
    assert_ptr_equal(second, p[1]);
    void *third = mr_spare_malloc(HANDED_BYTES);
    assert_ptr_not_equal(third, p[2]);
    mr_spare_free(third);
    assert_ptr_equal(mr_spare_malloc(HANDED_BYTES), third);
    /* Pieces of any size count: the next one has rested now. */
    free_in_another_thread(mr_spare_malloc(2 * HANDED_BYTES));
    void *fourth = mr_spare_malloc(HANDED_BYTES);
    assert_ptr_equal(fourth, p[2]);
    mr_spare_free(fourth);
    mr_spare_free(third);
    mr_spare_free(second);
    mr_spare_free(rested);
    mr_spare_free(fresh);
    mr_spare_trim();
}

static void small_pieces_are_mallocs(void **state)
{
    void *p = mr_spare_malloc(1000);

    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 16, 0);
    mr_spare_free(p);
    assert_int_equal(mr_spare_bytes(), 0);
    assert_null(mr_spare_malloc(SIZE_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_buffers_take_the_place_of_those_before),
        cmocka_unit_test(what_is_too_much_is_given_back),
        cmocka_unit_test(large_pieces_are_used_again),
        cmocka_unit_test(so_much_stays_unused),
        cmocka_unit_test(what_this_thread_gave_back_is_found),
        cmocka_unit_test(what_another_thread_gave_back_rests),
        cmocka_unit_test(small_pieces_are_mallocs),
    };

    (void)unsetenv("MILLRACE_MALLOC");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
