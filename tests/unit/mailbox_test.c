/* Calls in the dispatcher's mailbox: each host has its share of them and of their bytes, until they
 * are freed. */
#include "dispatcher/server/mailbox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define LARGE ((size_t)MR_RPC_DEFINITION_BYTES_MAX)

static struct mr_mailbox mailbox;

static int setup(void **state)
{
    mr_mailbox_init(&mailbox);
    return 0;
}

static int teardown(void **state)
{
    mr_mailbox_destroy(&mailbox); /* asserts that nothing is counted any more */
    return 0;
}

static struct mr_server_call *call_of(size_t size)
{
    struct mr_server_call *call = mr_server_call_new(&mr_methods[0], "", 0, NULL);

    call->size = size;
    call->call.answered = true;
    return call;
}

/* Taken out, as by the loop: they live on. */
static void take_all(void)
{
    struct mr_item *item = mr_mailbox_take(&mailbox, 0);

    while (item != NULL) {
        struct mr_item *next = item->next;

        mr_free(item);
        item = next;
    }
}

static void a_host_has_half_of_the_calls(void **state)
{
    struct mr_server_call **calls = calloc(MR_CALLS_MAX, sizeof *calls);
    struct mr_server_call *other = call_of(100), *more = call_of(100);
    size_t n = 0;
    mr_error err;

    do {
        calls[n] = call_of(100);
    } while (mr_mailbox_put_call(&mailbox, calls[n], "10.0.0.1", &err) == MR_OK &&
             ++n < MR_CALLS_MAX);
    assert_int_equal(n, MR_CALLS_MAX / 2);
    assert_string_equal(
        err.message,
        "host 10.0.0.1 has 16384 of 32768 unanswered calls (16384 are taken in all) and may have "
        "no more than it leaves free: end some of its, or ask again later");
    assert_int_equal(mr_mailbox_calls(&mailbox), n);
    take_all(); /* They wait elsewhere, and count as before. */
    assert_int_equal(mr_mailbox_put_call(&mailbox, more, "10.0.0.1", &err), MR_EEXHAUSTED);
    assert_int_equal(mr_mailbox_put_call(&mailbox, other, "10.0.0.2", NULL), MR_OK);
    mr_call_free(&calls[0]->call);
    assert_int_equal(mr_mailbox_put_call(&mailbox, more, "10.0.0.1", NULL),
                     MR_EEXHAUSTED); /* The other has one. */
    mr_call_free(&other->call);
    assert_int_equal(mr_mailbox_put_call(&mailbox, more, "10.0.0.1", NULL), MR_OK);
    take_all();
    mr_call_free(&more->call);
    for (size_t i = 1; i <= n; i++) {
        mr_call_free(&calls[i]->call);
    }
    free(calls);
}

static void a_host_has_half_of_the_bytes(void **state)
{
    struct mr_server_call *a = call_of(LARGE), *b = call_of(LARGE), *c = call_of(LARGE),
                          *other = call_of(LARGE);

    assert_int_equal(mr_mailbox_put_call(&mailbox, a, "10.0.0.1", NULL), MR_OK);
    assert_int_equal(mr_mailbox_put_call(&mailbox, b, "10.0.0.1", NULL), MR_OK);
    assert_int_equal(mr_mailbox_put_call(&mailbox, c, "10.0.0.1", NULL), MR_EEXHAUSTED);
    assert_int_equal(mr_mailbox_call_bytes(&mailbox), 2 * LARGE);
    assert_int_equal(mr_mailbox_put_call(&mailbox, other, "10.0.0.2", NULL), MR_OK);
    take_all();
    mr_call_free(&a->call);
    mr_call_free(&b->call);
    mr_call_free(&c->call); /* was never counted */
    mr_call_free(&other->call);
    assert_int_equal(mr_mailbox_call_bytes(&mailbox), 0);
}

static void without_memory_nothing_is_counted(void **state)
{
    struct mr_server_call *call = call_of(100);

    for (size_t nth = 1; nth <= 4; nth++) {
        mr_alloc_fail_at(nth);
        assert_int_equal(mr_mailbox_put_call(&mailbox, call, "10.0.0.1", NULL), MR_EEXHAUSTED);
        mr_alloc_fail_at(0);
        assert_int_equal(mailbox.live.taken, 0);
        assert_int_equal(mailbox.live_bytes.taken, 0);
    }
    mr_call_free(&call->call);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_host_has_half_of_the_calls, setup, teardown),
        cmocka_unit_test_setup_teardown(a_host_has_half_of_the_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_nothing_is_counted, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
