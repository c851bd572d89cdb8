/* What one host may make of what is bounded for all: half of it alone, and others still get in. */
#include "core_support.h"
#include "dispatcher/model/model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MAX 16

static int setup(void **state)
{
    static struct table t;

    t = (struct table){.now = 0};
    table_open_usual(&t);
    t.core->hosts.datasets.max = MAX;
    t.core->hosts.iterations.max = MAX;
    t.core->hosts.clients.max = MAX;
    t.core->hosts.workers.max = MAX;
    *state = &t;
    return 0;
}

static int teardown(void **state)
{
    table_close(*state); /* asserts that all was given back */
    return 0;
}

static int open_as(struct table *t, const char *host, unsigned client, const char *job)
{
    char name[16];

    snprintf(name, sizeof name, "c%u", client);
    t->host = host;
    return open_job(t, (struct open_args){.client = name, .dataset = "numbers", .name = job});
}

static int put_as(struct table *t, const char *host, unsigned number)
{
    char id[32], fingerprint[16];

    snprintf(id, sizeof id, "set%u", number);
    snprintf(fingerprint, sizeof fingerprint, "f%u", number);
    t->host = host;
    return put_dataset(t, id, id_of(fingerprint), (int64_t[]){10}, 1);
}

static void clients_of_one_job(void **state)
{
    struct table *t = *state;
    unsigned n = 0;

    while (open_as(t, "10.0.0.1", 100 + n, "shared") == MR_OK) {
        n++;
        assert_true(n < MAX);
    }
    assert_int_equal(n, MAX / 2);
    assert_int_equal(the_reply(t)->error.code, MR_EEXHAUSTED);
    assert_string_equal(the_reply(t)->error.message,
                        "host 10.0.0.1 has 8 of 16 clients (8 are taken in all) and may have no "
                        "more than it leaves free: end some of its, or ask again later");
    assert_int_equal(open_as(t, "10.0.0.1", 100, "shared"), MR_OK); /* One that is there goes on. */
    assert_int_equal(open_as(t, "10.0.0.2", 200, "shared"), MR_OK);
    assert_int_equal(open_as(t, NULL, 300, "shared"), MR_OK);
}

/* Anonymous reads: each has a job, an iteration, a client. */
static void anonymous_reads(void **state)
{
    struct table *t = *state;
    unsigned n = 0;

    t->core->hosts.clients.max = 10 * MAX;
    while (open_as(t, "10.0.0.1", 100 + n, "") == MR_OK) {
        n++;
        assert_true(n < MAX);
    }
    assert_int_equal(n, MAX / 2);
    assert_int_equal(the_reply(t)->error.code, MR_EEXHAUSTED);
    assert_int_equal(open_as(t, "10.0.0.2", 200, ""), MR_OK);
}

/* What was released makes room, once it is forgotten. */
static void what_is_gone_is_given_back(void **state)
{
    struct table *t = *state;
    char iteration[64];

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MAX / 2; i++) {
            char client[16];

            assert_int_equal(open_as(t, "10.0.0.1", 100 * round + i, ""), MR_OK);
            snprintf(iteration, sizeof iteration, "%s", opened(t)->iteration_id);
            snprintf(client, sizeof client, "c%u", 100 * round + i);
            assert_int_equal(release_client(t, client, iteration), MR_OK);
        }
        assert_int_equal(open_as(t, "10.0.0.1", 100 * round + 50, ""), MR_EEXHAUSTED);
        table_wait(t, (int64_t)3 * 3600 * 1000);
        t->host = NULL;
        assert_int_equal(add_worker(t, "w1", "a:1"), MR_OK); /* They were silent. */
        assert_int_equal(add_worker(t, "w2", "b:1"), MR_OK);
    }
}

/* An epoch that is over is kept for a while, and has no tasks: who has read many short ones may go
 * on. */
static void what_has_ended_has_no_tasks(void **state)
{
    struct table *t = *state;
    char iteration[64];

    assert_int_equal(open_as(t, "10.0.0.1", 100, "shared"), MR_OK);
    snprintf(iteration, sizeof iteration, "%s", opened(t)->iteration_id);
    assert_int_equal(t->core->hosts.open_iterations.taken, 1);
    end_task(t, "w1", task_of(iteration, "w1", 1), MR_EDATALOSS, "it fails for all");
    assert_int_equal(t->core->hosts.iterations.taken, 1);
    assert_int_equal(t->core->hosts.open_iterations.taken, 0);
}

static void datasets(void **state)
{
    struct table *t = *state;
    unsigned n = 0;

    while (put_as(t, "10.0.0.1", n) == MR_OK) {
        n++;
        assert_true(n < MAX);
    }
    assert_int_equal(n, 7); /* "numbers" is nobody's: 7 of this host leave 8. */
    assert_int_equal(the_reply(t)->error.code, MR_EEXHAUSTED);
    assert_int_equal(put_as(t, "10.0.0.1", 0), MR_OK); /* It is known. */
    assert_int_equal(put_as(t, "10.0.0.2", 100), MR_OK);
}

static void workers(void **state)
{
    struct table *t = *state;
    unsigned n = 0;
    int rc;

    t->host = "10.0.0.1";
    do {
        char worker[16], address[16];

        snprintf(worker, sizeof worker, "x%u", n);
        snprintf(address, sizeof address, "x:%u", n + 1);
        rc = add_worker(t, worker, address);
    } while (rc == MR_OK && ++n < MAX);
    assert_int_equal(n, 7); /* Two are nobody's. */
    assert_int_equal(rc, MR_EEXHAUSTED);
    t->host = "10.0.0.2";
    assert_int_equal(add_worker(t, "y1", "y:1"), MR_OK);
}

/* The store does not know whose they are: they count, as nobody's. */
static void after_a_takeover_others_still_get_in(void **state)
{
    struct table *t = *state;

    for (unsigned i = 0; i < MAX / 2; i++) {
        assert_int_equal(open_as(t, "10.0.0.1", 100 + i, "shared"), MR_OK);
    }
    table_take_over(t);
    t->core->hosts.clients.max = MAX;
    for (unsigned i = 0; i < MAX / 4; i++) {
        assert_int_equal(open_as(t, "10.0.0.1", 200 + i, "shared"), MR_OK);
    }
    assert_int_equal(open_as(t, "10.0.0.1", 300, "shared"), MR_EEXHAUSTED);
    assert_int_equal(open_as(t, "10.0.0.2", 400, "shared"), MR_OK);
}

/* Tasks that begin unread are at work for whoever made their iteration. */
static void a_worker_is_told_whose_a_task_is(void **state)
{
    struct table *t = *state;
    const Millrace__WorkerUpdate *update;

    assert_int_equal(open_as(t, "10.0.0.1", 100, "shared"), MR_OK);
    assert_int_equal(open_as(t, "10.0.0.2", 200, "shared"), MR_OK);
    update = watch_worker(t, "w1");
    assert_int_equal(update->n_tasks, 1);
    assert_string_equal(update->tasks[0]->host, "10.0.0.1");
    table_take_over(t);
    t->host = NULL;
    assert_int_equal(add_worker(t, "w1", "a:1"), MR_OK);
    update = watch_worker(t, "w1");
    assert_int_equal(update->n_tasks, 1);
    assert_string_equal(update->tasks[0]->host, "");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(clients_of_one_job),
        TEST(anonymous_reads),
        TEST(what_is_gone_is_given_back),
        TEST(what_has_ended_has_no_tasks),
        TEST(datasets),
        TEST(workers),
        TEST(after_a_takeover_others_still_get_in),
        TEST(a_worker_is_told_whose_a_task_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
