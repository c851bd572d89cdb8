/* Workers that come and go, and those that a reader cannot reach. */
#include "reader_support.h"

#include "base/clock.h"
#include "base/sync.h"

#include <unistd.h>

static void a_lost_worker_does_not_hold_up_the_end(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 10);
    f->w[1].silent = true;
    open_reader(f, 0);
    pull_n(f, 10);
    fake_worker_stop(&f->w[1]);
    assert_int_equal(pull(f, 1, 100, NULL), MR_TIMEOUT); /* until the dispatcher says so */
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[0].ended = true;
    f->d.tasks[1].lost = true;
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_service_push(&f->d);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_each_once(f, 1, 10);
}

static unsigned channels(struct fixture *f)
{
    const struct mr_read_task *t;
    unsigned n = 0;

    MR_LOCK(&f->r->lock);
    TAILQ_FOREACH(t, &f->r->read.tasks, link) {
        n += t->line != NULL;
    }
    return n;
}

static void nothing_goes_on_connecting_to_a_lost_worker(void **state)
{
    struct fixture *f = *state;
    int64_t until = mr_now_ms() + LONG_MS;

    add_workers(f, 2, 90);
    open_reader(f, 0);
    pull_n(f, 1); /* each has something left to read */
    assert_int_equal(channels(f), 2);
    fake_worker_stop(&f->w[1]);
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[1].lost = true;
    mr_mutex_unlock(&f->d.lock);
    fake_service_push(&f->d);
    while (channels(f) > 1) {
        assert_true(mr_now_ms() < until);
        usleep(1000);
    }
}

/* As when very many are at it; and when they have taken too long. */
static void who_is_in_line_connects_in_the_end(void **state)
{
    struct fixture *f = *state;
    int64_t until = mr_now_ms() + LONG_MS;
    bool in_line = false;

    open_reader(f, 0);
    mr_mutex_lock(&f->r->lock);
    f->r->read.connecting = 1000;
    f->r->read.begun_ms = until;
    mr_mutex_unlock(&f->r->lock);
    add_workers(f, 2, 10);
    fake_service_push(&f->d);
    while (!in_line) {
        assert_true(mr_now_ms() < until);
        usleep(1000);
        mr_mutex_lock(&f->r->lock);
        in_line = f->r->read.ntasks == 2 && f->r->read.in_line;
        mr_mutex_unlock(&f->r->lock);
    }
    assert_int_equal(f->r->read.streams, 0);
    mr_mutex_lock(&f->r->lock);
    f->r->read.begun_ms = 0;
    mr_read_retry(&f->r->read, 0);
    mr_reader_wake_locked(f->r);
    mr_mutex_unlock(&f->r->lock);
    pull_to_the_end(f);
    expect_each_once(f, 2, 10);
    assert_int_equal(f->r->read.connecting, 0); /* all are through */
}

static void wait_for_tasks(struct fixture *f, unsigned n)
{
    int64_t until = mr_now_ms() + LONG_MS;
    unsigned have;

    do {
        assert_true(mr_now_ms() < until);
        usleep(1000);
        mr_mutex_lock(&f->r->lock);
        have = f->r->read.ntasks;
        mr_mutex_unlock(&f->r->lock);
    } while (have != n);
}

/* Also from the other lists: elements of the worker that stays are taken meanwhile. */
static void workers_that_come_and_go_leave_nothing_behind(void **state)
{
    struct fixture *f = *state;
    char ids[10][16];

    add_workers(f, 2, 90);
    f->w[1].silent = true;
    open_reader(f, 0);
    pull_n(f, 1);
    for (size_t i = 0; i < 10; i++) {
        wait_for_tasks(f, 2);
        (void)snprintf(ids[i], sizeof ids[i], "next-%zu", i);
        mr_mutex_lock(&f->d.lock);
        f->d.tasks[1].lost = true;
        mr_mutex_unlock(&f->d.lock);
        fake_service_push(&f->d);
        wait_for_tasks(f, 1);
        pull_n(f, f->count + 5);
        if (i == 0) {
            fake_worker_stop(&f->w[1]); /* those that follow cannot be reached */
        }
        mr_mutex_lock(&f->d.lock);
        f->d.tasks[1].id = ids[i];
        f->d.tasks[1].lost = false;
        mr_mutex_unlock(&f->d.lock);
        fake_service_push(&f->d);
    }
    pull_n(f, 90);
    MR_LOCK(&f->r->lock);
    assert_int_equal(f->r->read.by_key.count, f->r->read.ntasks);
}

/* The application may be in the middle of them; what was missed there is told at the end. */
static void what_a_lost_worker_sent_is_read(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    add_workers(f, 1, 2);
    f->w[0].skipped = 7;
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&f->w[0].lock);
    while (f->w[0].received < 2) {
        assert_true(mr_cond_wait_ms(&f->w[0].changed, &f->w[0].lock, LONG_MS));
    }
    mr_mutex_unlock(&f->w[0].lock);
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[0].lost = true;
    mr_mutex_unlock(&f->d.lock);
    fake_service_push(&f->d);
    pull_n(f, 2);
    assert_int_equal(pull(f, 1, 0, NULL), MR_TIMEOUT);
    wait_for_tasks(f, 0);
    mr_mutex_lock(&f->d.lock);
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_service_push(&f->d);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "7 elements skipped"));
}

/* The address that a worker advertises may be no use here: that is told, not waited for. */
static void nobody_can_be_reached(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    add_workers(f, 2, 5);
    fake_worker_stop(&f->w[0]);
    f->w[1].refuse_open = MR_EUNAVAIL; /* somebody else's by now */
    f->opts.connect_timeout_ms = 500;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, "no worker reachable"));
    assert_non_null(strstr(err.message, f->w[0].address));
    assert_non_null(strstr(err.message, f->w[1].address));
    /* It stays, and nobody is asked for it: whoever tries for ever loads neither workers nor
     * dispatchers. */
    mr_mutex_lock(&f->r->lock);
    while (f->r->read.streams > 0) {
        assert_true(mr_cond_wait_ms(&f->r->due, &f->r->lock, LONG_MS));
    }
    mr_mutex_unlock(&f->r->lock);
    unsigned opens = f->w[1].opens;
    unsigned calls = f->d.calls;

    for (int i = 0; i < 100; i++) {
        mr_error again;

        assert_int_equal(pull(f, 1, LONG_MS, &again), MR_EUNAVAIL);
        assert_string_equal(again.message, err.message);
    }
    assert_int_equal(f->w[1].opens, opens);
    assert_int_equal(f->d.calls, calls);
}

/* However many there are, and one line when there are as many as before. */
static void workers_that_cannot_be_reached_are_told_of_in_one_line(void **state)
{
    struct fixture *f = *state;
    struct mr_read_task *t;
    int64_t later_ms = 0;

    add_workers(f, 3, 90);
    fake_worker_stop(&f->w[1]);
    fake_worker_stop(&f->w[2]);
    f->w[0].silent = true;
    open_reader(f, 0);
    for (unsigned failing = 0; failing < 2;) {
        usleep(1000);
        failing = 0;
        MR_LOCK(&f->r->lock);
        TAILQ_FOREACH(t, &f->r->read.tasks, link) {
            failing += t->failing_ms != 0;
            later_ms = t->failing_ms > later_ms ? t->failing_ms : later_ms;
        }
    }
    MR_LOCK(&f->r->lock); /* the reader's own clock has to wait */
    f->r->read.away = (struct mr_read_away){0};
    assert_int_equal(mr_read_tell_away(&f->r->read, later_ms + 1000), later_ms + 2000);
    assert_int_equal(f->r->read.away.told_ms, 0); /* it may come back */
    (void)mr_read_tell_away(&f->r->read, later_ms + 3000);
    assert_int_equal(f->r->read.away.told, 2);
    assert_int_equal(f->r->read.away.told_ms, later_ms + 3000);
    (void)mr_read_tell_away(&f->r->read, later_ms + 9000);
    assert_int_equal(f->r->read.away.told_ms, later_ms + 3000);
    TAILQ_FOREACH(t, &f->r->read.tasks, link) {
        t->failing_ms = 0; /* as when elements come */
    }
    (void)mr_read_tell_away(&f->r->read, later_ms + 10000);
    assert_int_equal(f->r->read.away.told, 0);
    assert_int_equal(f->r->read.away.told_ms, later_ms + 10000);
    TAILQ_LAST(&f->r->read.tasks, mr_read_tasks)->failing_ms = later_ms;
    (void)mr_read_tell_away(&f->r->read, later_ms + 11000); /* so often nobody wants to know */
    assert_int_equal(f->r->read.away.told, 0);
    (void)mr_read_tell_away(&f->r->read, later_ms + 13000);
    assert_int_equal(f->r->read.away.told, 1);
}

static void who_cannot_be_reached_takes_no_credit_and_is_reported(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 50);
    fake_worker_stop(&f->w[1]);
    open_reader(f, 1);
    pull_n(f, 50);
    mr_mutex_lock(&f->d.lock);
    while (strcmp(f->d.unreachable, f->w[1].incarnation) != 0) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    f->d.tasks[0].ended = true;
    f->d.tasks[1].lost = true;
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_service_push(&f->d);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_each_once(f, 1, 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lost_worker_does_not_hold_up_the_end),
        TEST(nothing_goes_on_connecting_to_a_lost_worker),
        TEST(who_is_in_line_connects_in_the_end),
        TEST(workers_that_come_and_go_leave_nothing_behind),
        TEST(what_a_lost_worker_sent_is_read),
        TEST(nobody_can_be_reached),
        TEST(who_cannot_be_reached_takes_no_credit_and_is_reported),
        TEST(workers_that_cannot_be_reached_are_told_of_in_one_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
