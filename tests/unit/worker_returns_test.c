/* At least once, at a worker: grants are finished when all of their elements were returned. */
#include "worker_service_support.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Take messages until @n elements of the session have come. */
static void receive(struct fake_client *c, uint64_t n)
{
    struct mr_frame_content m;
    uint64_t got = 0;

    while (got < n) {
        assert_true(fake_client_next(c, &m));
        got = m.header->first_element + m.header->elements;
        mr_frame_content_free(&m);
    }
    assert_int_equal(got, n);
}

#define GRANTS(first, last) (((UINT64_C(2) << (last)) - 1) & ~((UINT64_C(1) << (first)) - 1))

static void grants_are_finished_when_all_of_them_was_returned(void **state)
{
    struct fixture *f = *state;

    fake_assign_at_least_once(f->d, "t1", "short", SHORT, 10);
    struct fake_client *c = open_client(f, "t1", "a", 0, 100);
    receive(c, 100);
    fake_client_returned(c, 100, 100, 9);
    fake_wait_delivered(f->d, "t1", 100);
    fake_wait_heartbeats(f->d, 2);
    assert_int_equal(fake_finished(f->d, "t1") & GRANTS(1, 10), 0); /* arrived is not returned */
    fake_client_returned(c, 100, 100, 10);
    fake_wait_finished(f->d, "t1",
                       GRANTS(1, 1) | GRANTS(11, 11)); /* the eleventh answer had no splits */
    fake_client_returned(c, 100, 100, 35);
    fake_wait_finished(f->d, "t1", GRANTS(1, 3) | GRANTS(11, 11));
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_returned(c, 100, 100, 100);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(c);
}

static void what_a_dead_client_had_not_returned_is_given_to_another(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign_at_least_once(f->d, "t1", "range", N, 37);
    struct fake_client *a = open_client(f, "t1", "a", 0, 100);
    receive(a, 100);
    fake_client_returned(a, 100, 100, 40);
    fake_wait_delivered(f->d, "t1", 100);
    fake_client_free(a);
    fake_release_client(f->d, "a");
    struct fake_client *b = open_client(f, "t1", "b", 0, 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(seen[i], i < 40 ? 0 : 1);
    }
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(b);
}

/* It hears only later that it is gone, begins anew, and dies. The worker was told already, and asks
 * again. */
static void what_a_client_takes_after_its_release_is_given_to_another(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    struct mr_frame_content m;

    fake_assign_at_least_once(f->d, "t1", "range", N, 37);
    struct fake_client *a = open_client(f, "t1", "a", 0, 100);
    receive(a, 100);
    fake_release_client(f->d, "a");
    while (fake_client_next(a, &m)) { /* the worker ends it */
        mr_frame_content_free(&m);
    }
    fake_client_free(a);
    a = open_client(f, "t1", "a", 0, 50);
    receive(a, 50);
    fake_client_free(a);
    struct fake_client *b = open_client(f, "t1", "b", 0, 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(b);
}

/* The task ends for nobody while one client still has elements in its hands. */
static void the_end_waits_for_what_another_client_has_not_returned(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign_at_least_once(f->d, "t1", "range", N, 400);
    struct fake_client *a = open_client(f, "t1", "a", 0, 50);
    receive(a, 50);
    struct fake_client *b = open_client(f, "t1", "b", 0, N);
    uint64_t got = 0;
    struct mr_frame_content m;
    while (got < N - 50) {
        assert_true(fake_client_next(b, &m));
        got = m.header->first_element + m.header->elements;
        assert_false(m.header->end);
        mr_frame_content_free(&m);
    }
    fake_client_returned(b, N, got, got);
    fake_wait_heartbeats(f->d, 2);
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_done(a, 20); /* it goes, and leaves thirty */
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    for (int i = 0; i < N; i++) {
        assert_int_equal(seen[i], i >= 20 && i < 50 ? 1 : 0);
    }
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    fake_client_free(a);
    fake_client_free(b);
}

/* A recovery task is a task like any other, of an iteration that this worker works for already. */
static void two_tasks_of_one_iteration_are_apart(void **state)
{
    struct fixture *f = *state;
    unsigned first[N] = {0};
    unsigned second[N] = {0};

    fake_assign_at_least_once(f->d, "t1", "range", N, 100);
    fake_assign_at_least_once(f->d, "t1/r1", "short", SHORT, 3);
    struct fake_client *a = open_client(f, "t1", "a", 0, 2);
    struct fake_client *b = open_client(f, "t1/r1", "a", 0, 2); /* the same client reads both */
    assert_int_equal(fake_client_drain(b, second, N, NULL), MR_OK);
    assert_int_equal(fake_wait_ended(f->d, "t1/r1", NULL), MR_OK);
    assert_false(fake_has_ended(f->d, "t1"));
    assert_int_equal(fake_client_drain(a, first, N, NULL), MR_OK);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_all_once(first, N);
    assert_all_once(second, SHORT);
    assert_int_equal(second[SHORT], 0);
    fake_client_free(a);
    fake_client_free(b);
}

/* Stopping drops what was not returned: that finishes nothing. */
static void a_worker_that_stops_finishes_nothing(void **state)
{
    struct fixture *f = *state;

    fake_assign_at_least_once(f->d, "t1", "short", SHORT, 10);
    struct fake_client *c = open_client(f, "t1", "a", 0, 100);
    receive(c, 100);
    fake_client_returned(c, 100, 100, 20);
    fake_wait_finished(f->d, "t1", GRANTS(1, 2) | GRANTS(11, 11));
    mr_worker_stop(f->w, 0);
    assert_int_equal(fake_finished(f->d, "t1"), GRANTS(1, 2) | GRANTS(11, 11));
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_free(c);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, service_setup, service_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(grants_are_finished_when_all_of_them_was_returned),
        TEST(what_a_dead_client_had_not_returned_is_given_to_another),
        TEST(what_a_client_takes_after_its_release_is_given_to_another),
        TEST(the_end_waits_for_what_another_client_has_not_returned),
        TEST(two_tasks_of_one_iteration_are_apart),
        TEST(a_worker_that_stops_finishes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
