/* What a reader still holds when its iteration is over, and when it closes. */
#include "reader_support.h"

#include "base/sync.h"

static void wait_until_nothing_is_connected(struct fixture *f)
{
    MR_LOCK(&f->r->lock);
    while (f->r->read.streams > 0) {
        assert_true(mr_cond_wait_ms(&f->r->due, &f->r->lock, LONG_MS));
    }
}

static void end_the_iteration(struct fixture *f)
{
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[0].ended = true;
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_service_push(&f->d);
    wait_until_nothing_is_connected(f);
}

/* It does so before it is closed, and has nothing to add then; what it has heard no answer to it
 * says again. */
static void expect_leave(struct fixture *f)
{
    mr_mutex_lock(&f->d.lock);
    while (f->d.releases == 0) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    assert_int_equal(f->d.abandoned, 0);
    mr_mutex_unlock(&f->d.lock);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_in_range(f->d.releases, 1, 2);
    assert_int_equal(f->d.abandoned, 0);
}

/* The read is over for everybody else: what it closes with is nobody's, which it and the job's
 * record say. */
static void what_is_closed_with_after_the_end_is_counted(void **state)
{
    struct fixture *f = *state;
    struct mr_losses losses;

    open_with_one_in_the_queue(f);
    end_the_iteration(f);
    mr_reader_close(f->r);
    f->r = NULL;
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 1);
    assert_int_equal(losses.incomplete_reads, 1);
    assert_int_equal(f->d.abandoned, 1);
}

/* Whoever falls silent with elements has lost them, so one that is there says so after the end,
 * too; and when it has used them it leaves, whenever it is closed. */
static void who_holds_elements_after_the_end_is_heard_of_until_they_are_used(void **state)
{
    struct fixture *f = *state;

    open_with_one_in_the_queue(f);
    end_the_iteration(f);
    mr_mutex_lock(&f->d.lock);
    unsigned heartbeats = f->d.heartbeats;
    while (f->d.heartbeats < heartbeats + 3) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    assert_int_equal(f->d.releases, 0);
    mr_mutex_unlock(&f->d.lock);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_leave(f);
}

/* Its worker may have heard too late, and have named it as one that holds elements. */
static void who_used_all_before_the_end_leaves_as_well(void **state)
{
    struct fixture *f = *state;

    open_with_one_in_the_queue(f);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, 0, NULL), MR_TIMEOUT); /* it has used that */
    end_the_iteration(f);
    expect_leave(f);
}

/* A shuffle has taken up everything and handed out one of two elements, while the dispatcher hears
 * of the reader. */
static void open_with_one_in_a_shuffle(struct fixture *f)
{
    follow(f, MR_HAND_MIXED);
    open_with_one_in_the_queue(f);
    end_the_iteration(f);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    hand_out(f, 1);
    MR_LOCK(&f->d.lock);
    unsigned heartbeats = f->d.heartbeats;
    while (f->d.heartbeats < heartbeats + 3) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    assert_int_equal(f->d.releases, 0);
}

static void what_is_mixed_and_closed_with_after_the_end_is_counted(void **state)
{
    struct fixture *f = *state;
    struct mr_losses losses;

    open_with_one_in_a_shuffle(f);
    close_reader(f);
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 1);
    assert_int_equal(losses.incomplete_reads, 1);
    assert_int_equal(f->d.abandoned, 1);
}

static void who_is_handed_all_that_was_mixed_leaves_as_well(void **state)
{
    struct fixture *f = *state;

    open_with_one_in_a_shuffle(f);
    hand_out(f, 1);
    expect_leave(f);
}

/* It was given up while it was away, and had its end: what it was given up with it says late that
 * it has used. */
static void who_was_given_up_after_the_end_reads_what_it_holds(void **state)
{
    struct fixture *f = *state;

    open_with_one_in_the_queue(f);
    end_the_iteration(f);
    mr_mutex_lock(&f->d.lock);
    f->d.refuse_heartbeat = MR_ENOTFOUND;
    f->d.job_finished = true;
    while (f->d.reopens == 0) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(f->d.releases, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_leave(f);
}

/* The worker hears from the dispatcher that this client is gone, and counts it itself, or named it
 * with the end. */
static void what_an_unreachable_worker_is_not_told_is_counted(void **state)
{
    struct fixture *f = *state;
    struct mr_losses losses;

    open_with_one_in_the_queue(f);
    fake_worker_stop(&f->w[0]);
    mr_reader_close(f->r);
    f->r = NULL;
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 1);
    assert_int_equal(losses.incomplete_reads, 1);
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->d.abandoned, 0);
    assert_int_equal(f->d.unheard, 1);
    assert_string_equal(f->d.unheard_of, f->d.tasks[0].id);
}

/* That a read has failed for its application alone does not make what it had read ahead any less
 * missed by others. */
static void what_a_failed_read_goes_with_is_counted(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;

    add_workers(f, 1, 2);
    w->skipped = 7; /* which fails it */
    f->opts.job.name = "shared";
    f->opts.job.sharing = MILLRACE__SHARING__SHARING_AUTO;
    f->opts.job.lag = MILLRACE__LAG__LAG_WAIT;
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
    mr_mutex_lock(&w->lock);
    while (!w->end_sent || w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
    fake_worker_stop(w);
    mr_reader_close(f->r);
    f->r = NULL;
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 2);
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->d.unheard,
                     2); /* the dispatcher would take a goodbye without it for "all was used" */
}

/* The same of a worker whose elements are not what they should be: those that came before were. */
static void what_came_before_elements_of_another_spec_is_counted(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 4);
    w->rows = 1;
    f->opts.job.name = "shared";
    open_reader(f, 2);
    mr_mutex_lock(&w->lock);
    while (w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    w->strings = true;
    mr_mutex_unlock(&w->lock);
    pull_n(f, 1);
    wait_until_nothing_is_connected(f);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->d.unheard, 1);
}

/* It has used all and got an error in place of the end: there is nothing more to say when it is
 * closed, or never is. */
static void who_used_all_and_is_told_of_losses_leaves_as_well(void **state)
{
    struct fixture *f = *state;

    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_with_one_in_the_queue(f);
    f->d.lost_splits = 1;
    f->d.lost_workers = 1;
    end_the_iteration(f);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
    expect_leave(f);
}

static bool is_watched(const struct fake_service *d)
{
    for (size_t i = 0; i < FAKE_WATCHERS_MAX; i++) {
        if (d->watchers[i] != NULL) {
            return true;
        }
    }
    return false;
}

/* The same where a prefetch has met that error before the application had the elements in front of
 * it. */
static void who_is_handed_the_last_elements_after_the_error_leaves_as_well(void **state)
{
    struct fixture *f = *state;

    f->opts.on_loss = MR_ON_LOSS_ERROR;
    follow(f, MR_HAND_IN_ORDER);
    open_with_one_in_the_queue(f);
    f->d.lost_splits = 1;
    f->d.lost_workers = 1;
    end_the_iteration(f);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
    mr_mutex_lock(&f->d.lock);
    while (is_watched(&f->d)) { /* the link has nothing more to do than that */
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
    hand_out(f, 2);
    expect_leave(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_closed_with_after_the_end_is_counted),
        TEST(who_holds_elements_after_the_end_is_heard_of_until_they_are_used),
        TEST(what_is_mixed_and_closed_with_after_the_end_is_counted),
        TEST(who_is_handed_all_that_was_mixed_leaves_as_well),
        TEST(who_used_all_before_the_end_leaves_as_well),
        TEST(who_was_given_up_after_the_end_reads_what_it_holds),
        TEST(what_an_unreachable_worker_is_not_told_is_counted),
        TEST(what_a_failed_read_goes_with_is_counted),
        TEST(what_came_before_elements_of_another_spec_is_counted),
        TEST(who_used_all_and_is_told_of_losses_leaves_as_well),
        TEST(who_is_handed_the_last_elements_after_the_error_leaves_as_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
