/* Reading from the service: what workers send gets to the application, once, however streams
 * break. */
#include "reader_support.h"

#include "base/sync.h"

static void everything_arrives_once(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 3, 50);
    open_reader(f, 0);
    pull_to_the_end(f);
    expect_each_once(f, 3, 50);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_int_equal(f->d.opens, 1);
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->d.registers, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(f->w[i].received, 50);
        assert_int_equal(f->w[i].opens, 1);
    }
}

static void tasks_may_come_later(void **state)
{
    struct fixture *f = *state;

    open_reader(f, 0);
    assert_int_equal(pull(f, 1, 50, NULL), MR_TIMEOUT);
    add_workers(f, 2, 10);
    fake_service_push(&f->d);
    pull_to_the_end(f);
    expect_each_once(f, 2, 10);
}

static void one_credit_starves_nobody(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 3, 10);
    f->w[0].silent = true; /* it would keep the only credit */
    open_reader(f, 1);
    pull_n(f, 20);
    assert_int_equal(f->w[1].cursor, 10);
    assert_int_equal(f->w[2].cursor, 10);
    mr_mutex_lock(&f->w[0].lock);
    f->w[0].silent = false;
    mr_mutex_unlock(&f->w[0].lock);
    fake_worker_go(&f->w[0]);
    pull_to_the_end(f);
    expect_each_once(f, 3, 10);
    for (size_t i = 0; i < 3; i++) {
        assert_true(f->w[i].limit_max <= 1 + 1); /* that, and what the application has */
    }
    assert_true(f->w[0].lowered > 0);
}

static void the_bound_of_outstanding_elements_holds(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 100);
    open_reader(f, 10);
    pull_to_the_end(f);
    expect_each_once(f, 2, 100);
    /* 10, shared while both have something, all of it for the last; and a block that the
     * application holds. */
    assert_true(f->w[0].limit_max <= 10 + 10);
    assert_true(f->w[1].limit_max <= 10 + 10);
}

static void a_broken_stream_resumes(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 60);
    f->w[0].break_at = 17;
    f->w[1].break_at = 1;
    open_reader(f, 0);
    pull_to_the_end(f);
    expect_each_once(f, 2, 60);
    assert_int_equal(f->w[0].opens, 2);
    assert_int_equal(f->w[0].number, 1);
}

static void a_session_that_was_forgotten_begins_anew(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1,
                1000); /* more than a reader takes ahead: the stream is there when it is to break */
    w->number = 1;
    open_reader(f, 0);
    pull_n(f, 5);
    mr_mutex_lock(&w->lock);
    w->forget = true;
    mr_rpc_stream_cancel(w->stream);
    mr_mutex_unlock(&w->lock);
    pull_to_the_end(f);
    assert_int_equal(w->number, 2);
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(f->seen[i] >= 1);
    }
}

/* The worker has given to other readers of the job what this one had not returned: it is not to
 * come from here, too. */
static void a_shared_job_leaves_to_others_what_was_not_returned(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 60);
    w->number = 1;
    w->shared = true;
    f->opts.job.sharing = MILLRACE__SHARING__SHARING_AUTO;
    open_reader(f, 0);
    pull_n(f, 5);
    mr_mutex_lock(&w->lock);
    while (w->given < 5 || w->received <= w->given) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    w->forget = true;
    mr_rpc_stream_cancel(w->stream);
    while (w->number < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
    pull_to_the_end(f);
    expect_each_once(f, 1, 60);
}

static void a_lost_goodbye_is_said_again(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 10);
    f->w[0].lose_goodbye = true;
    open_reader(f, 0);
    pull_to_the_end(f); /* only a worker that has our last acknowledgement ends its task */
    expect_each_once(f, 1, 10);
    assert_int_equal(f->w[0].opens, 2);
}

static void what_a_pipeline_fails_with_comes_after_its_elements(void **state)
{
    struct fixture *f = *state;
    mr_error err;
    int rc;

    add_workers(f, 1, 5);
    f->w[0].fail_code = MR_EINVAL;
    open_reader(f, 0);
    while ((rc = pull(f, 2, LONG_MS, &err)) == MR_OK) {
    }
    assert_int_equal(rc, MR_EINVAL);
    assert_non_null(strstr(err.message, "division by zero"));
    assert_non_null(strstr(err.message, f->w[0].address));
    assert_int_equal(f->count, 5);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EINVAL); /* it stays */
}

/* The other worker has lost its task, as the iteration is over, and waits whether it comes: it
 * takes nothing back. */
static void closing_a_failed_read_waits_for_nobody(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *other = &f->w[1];

    add_workers(f, 2, 5);
    f->w[0].fail_code = MR_EINVAL;
    other->break_at = 2;
    other->silent_after_break = true;
    open_reader(f, 0);
    mr_mutex_lock(&other->lock);
    while (other->opens < 2) {
        assert_true(mr_cond_wait_ms(&other->changed, &other->lock, LONG_MS));
    }
    mr_mutex_unlock(&other->lock);
    while (pull(f, 1, LONG_MS, NULL) == MR_OK) {
    }
    mr_reader_close(f->r);
    f->r = NULL;
    assert_false(other->done);
}

static void elements_of_another_spec_are_refused(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    add_workers(f, 1, 5);
    f->w[0].strings = true;
    open_reader(f, 0);
    assert_true(pull(f, 2, LONG_MS, &err) < 0);
    assert_non_null(strstr(err.message, "not what the dataset's spec says"));
}

static void a_worker_that_moved_is_asked_again(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 20);
    f->w[0].refuse_open = MR_EUNAVAIL;
    open_reader(f, 0);
    mr_mutex_lock(&f->w[0].lock);
    while (f->w[0].opens < 2) {
        assert_true(mr_cond_wait_ms(&f->w[0].changed, &f->w[0].lock, LONG_MS));
    }
    f->w[0].refuse_open = 0;
    mr_mutex_unlock(&f->w[0].lock);
    pull_to_the_end(f);
    expect_each_once(f, 1, 20);
}

static void *cancel_soon(void *arg)
{
    struct fixture *f = arg;

    mr_mutex_lock(&f->d.lock);
    while (f->d.heartbeats == 0) {
        mr_cond_wait(&f->d.changed, &f->d.lock);
    }
    mr_mutex_unlock(&f->d.lock);
    mr_reader_cancel(f->r);
    return NULL;
}

static void a_blocked_pull_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;

    open_reader(f, 0);
    assert_int_equal(mr_thread_start(&thread, "cancel", cancel_soon, f, NULL), MR_OK);
    assert_int_equal(pull(f, 1, -1, NULL), MR_ECANCELED);
    assert_int_equal(pull(f, 1, 0, NULL), MR_ECANCELED);
    (void)pthread_join(thread, NULL);
}

static void what_was_returned_is_reported(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 100);
    open_reader(f, 50);
    pull_n(f, 2); /* who comes back has used what it was given before */
    mr_mutex_lock(&f->w[0].lock);
    while (f->w[0].returned < 1) {
        assert_true(mr_cond_wait_ms(&f->w[0].changed, &f->w[0].lock, LONG_MS));
    }
    mr_mutex_unlock(&f->w[0].lock);
}

static void the_queue_is_bounded(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 1000);
    open_reader(f, 0);
    pull_n(f, 1);
    /* Nobody takes more: the worker comes to a stop at the window. */
    mr_mutex_lock(&f->w[0].lock);
    while (f->w[0].cursor < f->w[0].limit) {
        (void)mr_cond_wait_ms(&f->w[0].changed, &f->w[0].lock, 10);
    }
    assert_true(f->w[0].cursor < 100);
    mr_mutex_unlock(&f->w[0].lock);
    f->count = 0;
    memset(f->seen, 0, sizeof f->seen);
}

/* Whichever allocation fails: an error or the right answer, and nothing is left behind (a sanitizer
 * sees to that). */
static void any_allocation_may_fail(void **state)
{
    struct fixture *f = *state;
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    struct mr_want want = {.rows_max = 1};

    f->d.job_finished = true;
    for (uint64_t nth = 1; nth <= 60; nth++) {
        struct mr_read_options opts = {
            .service = mr_strdup(f->d.address),
            .job.base = PROTOBUF_C_MESSAGE_INIT(&millrace__job_spec__descriptor),
            .job.name = mr_strdup("j"),
            .job.trainer = mr_strdup(""),
            .compression = "NONE",
            .job.target_workers = (char *)"AUTO",
            .connect_timeout_ms = LONG_MS,
            .heartbeat_ms = 1000,
            .dataset_id = mr_strdup("digits"),
        };
        mr_block *block = NULL;
        mr_reader *r = NULL;

        assert_int_equal(mr_spec_new(&leaf, 1, NULL, &opts.spec, NULL), MR_OK);
        mr_alloc_fail_at(nth);
        int rc = mr_reader_open(&opts, &r, NULL);
        if (rc == MR_OK) {
            rc = mr_reader_pull(r, want, LONG_MS, &block, NULL);
            mr_reader_close(r);
        }
        mr_alloc_fail_at(0);
        assert_true(rc == MR_END || rc == MR_EEXHAUSTED || rc == MR_EUNAVAIL);
        mr_read_options_clear(&opts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(everything_arrives_once),
        TEST(tasks_may_come_later),
        TEST(one_credit_starves_nobody),
        TEST(the_bound_of_outstanding_elements_holds),
        TEST(a_broken_stream_resumes),
        TEST(a_session_that_was_forgotten_begins_anew),
        TEST(a_shared_job_leaves_to_others_what_was_not_returned),
        TEST(a_lost_goodbye_is_said_again),
        TEST(what_a_pipeline_fails_with_comes_after_its_elements),
        TEST(closing_a_failed_read_waits_for_nobody),
        TEST(elements_of_another_spec_are_refused),
        TEST(a_worker_that_moved_is_asked_again),
        TEST(a_blocked_pull_can_be_cancelled),
        TEST(what_was_returned_is_reported),
        TEST(the_queue_is_bounded),
        TEST(any_allocation_may_fail),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
