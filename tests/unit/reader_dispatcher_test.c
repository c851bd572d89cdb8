/* A reader's session with the dispatchers: what it asks for, what it is told, whom it waits for. */
#include "reader_support.h"

#include "base/sync.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void a_job_that_is_over_has_no_element(void **state)
{
    struct fixture *f = *state;

    f->d.job_finished = true;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
}

#define LONG_AGO_MS 1000000000

static void who_begins_anew_under_a_used_name_is_told(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    f->d.job_finished = true;
    f->d.ended_ms = LONG_AGO_MS;
    f->opts.job.name = "used";
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EPRECOND);
    assert_non_null(strstr(err.message, "job 'used' had ended its epoch 0"));
    assert_non_null(strstr(err.message, "another job_name"));
    assert_non_null(strstr(err.message, "same Dataset object"));
    assert_non_null(strstr(err.message, "first_epoch=1"));
    assert_non_null(strstr(err.message, "persistent_workers=True"));
}

/* A later epoch of an object, and one that ended when the reader was here already. */
static void an_epoch_that_others_have_read_is_empty(void **state)
{
    struct fixture *f = *state;

    f->d.job_finished = true;
    f->opts.job.name = "used";
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    mr_reader_close(f->r);
    f->d.ended_ms = LONG_AGO_MS;
    f->opts.repetition = 1;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
}

static void what_an_iteration_fails_with_is_told(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    f->d.finished = true;
    f->d.error_code = MR_EDATALOSS;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "the iteration failed"));
}

/* The dispatcher may be faster than the application: what came is taken first. */
static void an_iteration_fails_after_the_elements_that_came(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    mr_error err;

    add_workers(f, 1, 2);
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&w->lock);
    while (w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[0].ended = true;
    f->d.finished = true;
    f->d.error_code = MR_EDATALOSS;
    mr_mutex_unlock(&f->d.lock);
    fake_service_push(&f->d);
    mr_mutex_lock(&f->d.lock);
    while (f->d.watchers[0] != NULL) { /* closed when the end was told */
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EDATALOSS);
    assert_int_equal(f->count, 2);
}

static void reading_goes_on_while_no_dispatcher_leads(void **state)
{
    struct fixture *f = *state;
    int port = atoi(strrchr(f->d.address, ':') + 1);

    add_workers(f, 2, 90);
    open_reader(f, 0);
    pull_n(f, 1);
    while (f->w[0].opens == 0 || f->w[1].opens == 0) {
        usleep(1000);
    }
    fake_service_stop(&f->d);
    pull_n(f, 180);                                     /* all there is */
    assert_int_equal(pull(f, 1, 50, NULL), MR_TIMEOUT); /* but nobody says that it is over */
    fake_service_start(&f->d, f->rt, port);
    f->d.epoch = 8;
    f->d.finished = true;
    fake_service_push(&f->d);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_each_once(f, 2, 90);
}

static void a_forgotten_client_attaches_again(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 50);
    open_reader(f, 0);
    pull_n(f, 5);
    mr_mutex_lock(&f->d.lock);
    f->d.refuse_heartbeat = MR_ENOTFOUND;
    while (f->d.reopens == 0) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
    pull_to_the_end(f);
    expect_each_once(f, 1, 50);
}

static void sharing_is_asked_for(void **state)
{
    struct fixture *f = *state;

    f->opts.job.trainer = (char *)(uintptr_t) "t1";
    f->opts.job.lag = MILLRACE__LAG__LAG_WAIT;
    f->d.finished = true;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    assert_string_equal(f->d.trainer, "t1");
    assert_int_equal(f->d.sharing, MILLRACE__SHARING__SHARING_OFF);
    assert_int_equal(f->d.lag, MILLRACE__LAG__LAG_WAIT);
}

/* When the last line was written, when so much of its wait is over; 0: there is none. */
static int64_t said_after(struct fixture *f, int64_t s)
{
    int64_t now = f->r->read.wait.since_ms + 1000 * s;

    f->r->read.wait.seen_ms = now;
    f->r->read.now_ms = now;
    (void)mr_read_look_at_wait(&f->r->read);
    return f->r->read.wait.said_ms == 0
               ? 0
               : (f->r->read.wait.said_ms - f->r->read.wait.since_ms) / 1000;
}

static bool is_taken_on(struct fixture *f)
{
    MR_LOCK(&f->r->lock);
    return f->r->read.attached && f->r->read.ntasks > 0;
}

static void a_wait_is_told_of_more_and_more_rarely(void **state)
{
    static const int64_t at[][2] = {{2, 0},   {3, 3},   {5, 3},   {6, 6},      {11, 6},
                                    {12, 12}, {23, 12}, {24, 24}, {3600, 3600}};
    struct fixture *f = *state;

    add_workers(f, 1, 0);
    open_reader(f, 0);
    do { /* Before it is taken on there is nothing to tell. */
        assert_int_equal(pull(f, 1, 10, NULL), MR_TIMEOUT);
    } while (!is_taken_on(f));
    MR_LOCK(&f->r->lock); /* the reader's own clock has to wait */
    mr_read_fed(&f->r->read);
    mr_read_waits(&f->r->read);
    f->r->read.wait.since_ms = 1000000;
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        assert_int_equal(said_after(f, at[i][0]), at[i][1]);
    }
    /* Who does not come back for an element does not wait. */
    f->r->read.wait.said_ms = 0;
    f->r->read.now_ms = f->r->read.wait.seen_ms + 5000;
    assert_int_equal(mr_read_look_at_wait(&f->r->read), f->r->read.wait.seen_ms + 6000);
    assert_int_equal(f->r->read.wait.said_ms, 0);
    mr_read_fed(&f->r->read);
    assert_int_equal(f->r->read.wait.since_ms, 0);
}

/* It was away when the iteration ended: what it holds, then the end, and that something is
 * missing. */
static void a_client_that_comes_back_is_told_of_losses(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 5);
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    pull_n(f, 5);
    mr_mutex_lock(&f->d.lock);
    f->d.job_finished = true;
    f->d.lost_workers = 1;
    f->d.refuse_heartbeat = MR_ENOTFOUND;
    mr_mutex_unlock(&f->d.lock);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
    assert_int_equal(f->d.reopens, 1);
}

/* It has read nothing of it, so nothing is missing. */
static void a_late_comer_is_not_told_of_losses(void **state)
{
    struct fixture *f = *state;

    f->opts.on_loss = MR_ON_LOSS_ERROR;
    f->d.job_finished = true;
    f->d.lost_workers = 1;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
}

/* That it failed is no loss: nobody takes it for an epoch without elements. */
static void a_late_comer_is_told_of_the_error(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    f->d.job_finished = true;
    f->d.error_code = MR_EINVAL;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "the iteration failed"));
}

static void heartbeats_come_as_often_as_the_dispatcher_needs(void **state)
{
    struct fixture *f = *state;

    f->opts.heartbeat_ms = 3600 * 1000;
    f->d.client_timeout_ms = 60;
    open_reader(f, 0);
    mr_mutex_lock(&f->d.lock);
    while (f->d.heartbeats < 3) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
}

static void a_dead_job_is_an_error(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    f->d.refuse = MR_ENOTFOUND;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_ENOTFOUND);
    assert_string_equal(err.message, "as the test says");
}

static void nobody_answers(void **state)
{
    struct fixture *f = *state;
    char where[64];
    mr_error err;

    memcpy(where, f->d.address, sizeof where);
    fake_service_stop(&f->d);
    f->opts.connect_timeout_ms = 500;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, where));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_job_that_is_over_has_no_element),
        TEST(who_begins_anew_under_a_used_name_is_told),
        TEST(an_epoch_that_others_have_read_is_empty),
        TEST(what_an_iteration_fails_with_is_told),
        TEST(an_iteration_fails_after_the_elements_that_came),
        TEST(reading_goes_on_while_no_dispatcher_leads),
        TEST(a_forgotten_client_attaches_again),
        TEST(sharing_is_asked_for),
        TEST(a_wait_is_told_of_more_and_more_rarely),
        TEST(a_client_that_comes_back_is_told_of_losses),
        TEST(a_late_comer_is_not_told_of_losses),
        TEST(a_late_comer_is_told_of_the_error),
        TEST(heartbeats_come_as_often_as_the_dispatcher_needs),
        TEST(a_dead_job_is_an_error),
        TEST(nobody_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
