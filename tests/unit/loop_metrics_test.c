/* Health of the dispatcher's loop, and pages that nobody waits for any more. The loop here is a
 * mailbox without a thread: the test is who takes from it. */
#include "base/clock.h"
#include "base/sync.h"
#include "dispatcher/server/internal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PATIENCE_MS 60000

static int setup(void **state)
{
    static struct mr_loop l;

    memset(&l, 0, sizeof l);
    mr_mailbox_init(&l.mailbox);
    *state = &l;
    return 0;
}

static int teardown(void **state)
{
    struct mr_loop *l = *state;

    mr_mailbox_destroy(&l->mailbox);
    return 0;
}

/* Whoever asked is told that there is nothing; false: nobody has asked. */
static bool answer_nothing(struct mr_loop *l)
{
    struct mr_item *item = mr_mailbox_take(&l->mailbox, PATIENCE_MS);
    bool asked = item != NULL && item->kind == MR_ITEM_DRIVER;

    if (asked) {
        mr_page_request_answer(item->own, NULL);
    }
    mr_free(item);
    return asked;
}

/* The memory is freed by whoever comes last: a leak, or a second free, is the sanitizer's to
 * see. */
static void a_page_that_comes_too_late_is_thrown_away(void **state)
{
    struct mr_loop *l = *state;
    mr_metrics *page = NULL;
    mr_error err;

    assert_int_equal(mr_loop_page(l, 0, &page, &err), MR_EUNAVAIL);
    assert_string_equal(err.message, "the dispatcher's loop does not answer");
    assert_null(page);
    assert_true(answer_nothing(l));
}

static void *loop_main(void *arg)
{
    (void)answer_nothing(arg); /* Or else the asker's patience ends. */
    return NULL;
}

static void a_loop_that_ends_says_so(void **state)
{
    struct mr_loop *l = *state;
    mr_metrics *page = NULL;
    pthread_t thread;
    mr_error err;

    assert_int_equal(mr_thread_start(&thread, "loop", loop_main, l, &err), MR_OK);
    assert_int_equal(mr_loop_page(l, PATIENCE_MS, &page, &err), MR_EUNAVAIL);
    assert_string_equal(err.message, "the dispatcher is stopping");
    assert_null(page);
    (void)pthread_join(thread, NULL);
}

static void a_loop_that_does_not_turn_is_not_alive(void **state)
{
    struct mr_loop *l = *state;
    mr_error err;

    atomic_store(&l->numbers.turned_ms, mr_now_ms());
    assert_int_equal(mr_loop_alive(l, &err), MR_OK);
    atomic_store(&l->numbers.turned_ms, mr_now_ms() - 3600 * 1000);
    assert_int_equal(mr_loop_alive(l, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, "the loop has not turned for 3600"));
}

static void ready_means_that_the_store_answers(void **state)
{
    struct mr_loop *l = *state;
    mr_error err;

    assert_int_equal(mr_loop_ready(l, &err), MR_EUNAVAIL);
    assert_string_equal(err.message, "etcd has not answered yet");
    atomic_store(&l->numbers.store_ms, mr_now_ms());
    assert_int_equal(mr_loop_ready(l, &err), MR_OK);
    atomic_store(&l->numbers.store_ms, mr_now_ms() - 3600 * 1000);
    assert_int_equal(mr_loop_ready(l, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, "etcd has not answered for 3600"));
    atomic_store(&l->numbers.store_ms, mr_now_ms());
    atomic_store(&l->numbers.stopping, true);
    assert_int_equal(mr_loop_ready(l, &err), MR_EUNAVAIL);
    assert_string_equal(err.message, "stopping");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        CASE(a_page_that_comes_too_late_is_thrown_away),
        CASE(a_loop_that_ends_says_so),
        CASE(a_loop_that_does_not_turn_is_not_alive),
        CASE(ready_means_that_the_store_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
