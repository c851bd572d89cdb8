/* A worker that drains, between a dispatcher and clients that do as the test says: it gives back
 * what its engine has not taken, serves the rest, and is through when that was read. Waiting is for
 * events. */
#include "worker/worker.h"
#include "worker_fake.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define N 1000
#define GRANT 100
/* A grant is more than a production makes ahead of its readers (1 MiB): it has not opened all of it
 * when it drains. */
#define LONG_SPLITS 16384 /* as many as a range is cut into at most */
#define LONG_SPLIT 64     /* elements */
#define LONG_N (LONG_SPLITS * LONG_SPLIT)
#define LONG_GRANT 4096
#define PATIENCE_MS 30000

struct fixture {
    mr_rpc_runtime *rt;
    struct fake_dispatcher *d;
    mr_worker *w;
    const char *iteration; /* of the tasks that are read; NULL: of those with a pipeline */
};

static int setup(void **state)
{
    struct fixture *f = mr_calloc(1, sizeof *f);
    struct mr_worker_options opts = {.heartbeat_ms = 20, .threads = 1};
    mr_dataset *ds = fake_range(N);
    mr_dataset *longer = fake_range(LONG_N);
    char address[64];

    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    f->d = fake_dispatcher_new(f->rt, 0);
    fake_add_dataset(f->d, "range", ds);
    fake_add_dataset(f->d, "long", longer);
    mr_dataset_unref(ds);
    mr_dataset_unref(longer);
    (void)snprintf(address, sizeof address, "127.0.0.1:%d", fake_dispatcher_port(f->d));
    opts.dispatchers = address;
    assert_int_equal(mr_worker_start(&opts, &f->w, NULL), MR_OK);
    assert_int_equal(mr_worker_wait_registered(f->w, PATIENCE_MS, NULL), MR_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_worker_free(f->w);
    fake_dispatcher_free(f->d);
    mr_rpc_release(f->rt);
    mr_free(f);
    return 0;
}

static struct fake_client *open_client(struct fixture *f, const char *task, uint64_t credit)
{
    struct fake_open open = {.address = mr_worker_address(f->w),
                             .incarnation = fake_incarnation(f->d),
                             .task = task,
                             .client = "a",
                             .iteration = f->iteration,
                             .session = 1,
                             .credit = credit};

    return fake_client_open(f->rt, &open);
}

/* The first @n elements of @task, and no more for the moment. */
static struct fake_client *begin(struct fixture *f, const char *task, unsigned *seen, uint64_t n)
{
    struct fake_client *c = open_client(f, task, n);
    struct mr_frame_content m;

    for (uint64_t have = 0; have < n; have += m.header->elements, mr_frame_content_free(&m)) {
        assert_true(fake_client_next(c, &m));
        assert_true(m.n > 0);
        const int64_t *data = mr_block_column(m.blocks[0], 0)->data;
        for (uint32_t r = 0; r < mr_block_rows(m.blocks[0]); r++) {
            seen[data[r]]++;
        }
    }
    return c;
}

static uint64_t count(const unsigned *seen)
{
    uint64_t n = 0;

    for (size_t i = 0; i < N; i++) {
        assert_in_range(seen[i], 0, 1);
        n += seen[i];
    }
    return n;
}

static void drain(struct fixture *f)
{
    mr_worker_drain(f->w);
    fake_wait_draining(f->d);
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_GIVEN_BACK, PATIENCE_MS));
}

static void what_was_not_opened_is_given_back_and_the_rest_is_read(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign(f->d, "t1", "range", N, GRANT);
    struct fake_client *c = begin(f, "t1", seen, 2);
    drain(f);
    uint64_t given_back = fake_given_back(f->d, "t1");
    assert_true(given_back > 0);
    assert_false(
        mr_worker_wait_drained(f->w, MR_DRAIN_ENDED, 0)); /* the reader has not read it all */
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_credit(c, N, 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_true(fake_has_drained(f->d, "t1"));
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_ENDED, PATIENCE_MS));
    assert_int_equal((count(seen) + given_back) % GRANT, 0); /* each grant, whole */
    assert_true(count(seen) < N);
    fake_client_free(c);
}

static void it_drains_when_a_dispatcher_says_so(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign(f->d, "t1", "range", N, GRANT);
    struct fake_client *c = begin(f, "t1", seen, 2);
    assert_false(mr_worker_was_told_to_drain(f->w));
    fake_want_drain(f->d);
    fake_wait_draining(f->d);
    assert_true(mr_worker_was_told_to_drain(f->w));
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_GIVEN_BACK, PATIENCE_MS));
    uint64_t given_back = fake_given_back(f->d, "t1");
    fake_client_credit(c, N, 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_ENDED, PATIENCE_MS));
    assert_int_equal((count(seen) + given_back) % GRANT, 0);
    assert_true(count(seen) < N);
    fake_client_free(c);
}

static void what_is_not_taken_back_is_read(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_refuse_given_back(f->d);
    fake_assign(f->d, "t1", "range", N, GRANT);
    struct fake_client *c = begin(f, "t1", seen, 2);
    drain(f);
    assert_int_equal(fake_given_back(f->d, "t1"), 0);
    fake_client_credit(c, N, 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_true(fake_has_drained(f->d, "t1"));
    assert_true(count(seen) >= GRANT);
    assert_int_equal(count(seen) % GRANT, 0);
    fake_client_free(c);
}

/* At least once: a grant that was given back in part is finished with what is left of it. */
static void reports_go_on(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign_at_least_once(f->d, "t1", "range", N, GRANT);
    struct fake_client *c = begin(f, "t1", seen, 2);
    drain(f);
    assert_true(fake_given_back(f->d, "t1") > 0);
    fake_client_returned(c, N, 2, 2);
    struct mr_frame_content m;
    uint64_t have = 2;
    bool end = false;
    while (!end && fake_client_next(c, &m)) {
        have += m.header->elements;
        end = m.header->end;
        mr_frame_content_free(&m);
        fake_client_returned(c, N, have, have);
    }
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_true(fake_has_drained(f->d, "t1"));
    fake_client_free(c);
}

/* Nobody has come to read it, and it holds nothing: nobody is waited for. */
static void a_task_that_nobody_reads_ends_at_once(void **state)
{
    struct fixture *f = *state;

    fake_assign(f->d, "t1", "range", N, GRANT);
    mr_worker_drain(f->w);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_true(fake_has_drained(f->d, "t1"));
    assert_int_equal(fake_grants(f->d), 0);
    fake_assign(f->d, "t2", "range", N, GRANT); /* it was under way */
    assert_int_equal(fake_wait_ended(f->d, "t2", NULL), MR_OK);
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_ENDED, PATIENCE_MS));
}

static void an_end_that_the_dispatcher_told_is_one(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign(f->d, "t1", "range", N, N);
    struct fake_client *c = open_client(f, "t1", N);
    struct mr_frame_content m;
    uint64_t have = 0;
    bool end = false;
    while (!end && fake_client_next(c, &m)) {
        have += m.header->elements;
        end = m.header->end;
        mr_frame_content_free(&m);
    }
    drain(f);
    assert_false(mr_worker_wait_drained(f->w, MR_DRAIN_ENDED, 0)); /* they have not arrived yet */
    fake_client_returned(c, N, have, have - 10);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_false(fake_has_drained(f->d, "t1"));
    assert_int_equal(fake_holding(f->d, "t1"),
                     10); /* the reader may still use them, or take them along */
    assert_int_equal(fake_abandoned(f->d, "t1"), 0);
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_ENDED, PATIENCE_MS));
    assert_int_equal(count(seen), 0);
    fake_client_free(c);
}

/* Copies of everything are not waited for: who reads one hears that it went. */
static void off_tasks_are_not_waited_for(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_assign(f->d, "t1", "range", -1, 0);
    struct fake_client *c = begin(f, "t1", seen, 2);
    mr_worker_drain(f->w);
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_ENDED, PATIENCE_MS));
    assert_false(fake_has_ended(f->d, "t1"));
    fake_client_free(c);
}

/* The task that makes it gives back; those that read it read what there is, and end for that
 * reason. */
static void readers_of_a_production_end_with_it(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_hold(f->d);
    fake_assign_producing(f->d, "p", "long", "p1", LONG_SPLITS, LONG_GRANT);
    fake_assign_reading(f->d, "t1", "p1", false, true);
    fake_tell(f->d);
    f->iteration = "t1";
    struct fake_client *c = begin(f, "t1", seen, 2);
    drain(f);
    assert_true(fake_given_back(f->d, "p") > 0);
    fake_client_returned(c, LONG_N, 2, 2);
    struct mr_frame_content m;
    uint64_t have = 2;
    bool end = false;
    while (!end && fake_client_next(c, &m)) {
        have += m.header->elements;
        end = m.header->end;
        mr_frame_content_free(&m);
        fake_client_returned(c, LONG_N, have, have);
    }
    assert_int_equal(have % LONG_SPLIT, 0);
    assert_int_equal((have / LONG_SPLIT + fake_given_back(f->d, "p")) % LONG_GRANT, 0);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_true(fake_has_drained(f->d, "t1"));
    assert_true(mr_worker_wait_drained(f->w, MR_DRAIN_ENDED,
                                       PATIENCE_MS)); /* the producing one has no end */
    assert_false(fake_has_ended(f->d, "p"));
    fake_client_free(c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(what_was_not_opened_is_given_back_and_the_rest_is_read),
        T(it_drains_when_a_dispatcher_says_so),
        T(what_is_not_taken_back_is_read),
        T(reports_go_on),
        T(a_task_that_nobody_reads_ends_at_once),
        T(an_end_that_the_dispatcher_told_is_one),
        T(off_tasks_are_not_waited_for),
        T(readers_of_a_production_end_with_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
