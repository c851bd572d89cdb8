/* What the application was given and is not through with: it goes back, or counts as used. */
#include "reader_support.h"

#include "base/sync.h"

/* A production that ends and a reader that is behind: the end is told when all was returned. */
static void a_shared_job_holds_the_end_until_all_was_returned(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 2); /* the first window */
    f->opts.job.trainer = (char *)(uintptr_t) "t1";
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&w->lock);
    while (!w->end_sent || w->received < 2 ||
           w->given < 1) { /* what it was given is its own at once */
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_false(w->done);
    mr_mutex_unlock(&w->lock);
    pull_n(f, 2);
    assert_int_equal(pull(f, 1, 0, NULL), MR_TIMEOUT); /* through with the second, too */
    mr_mutex_lock(&w->lock);
    while (!w->done) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_int_equal(w->returned, 2);
    mr_mutex_unlock(&w->lock);
}

static void at_least_once_holds_the_end_until_all_was_returned(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 2); /* the first window */
    f->opts.job.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    f->opts.job.guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&w->lock);
    while (!w->end_sent || w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_int_equal(w->returned, 0); /* the application may be in the middle of it */
    assert_false(w->done);
    mr_mutex_unlock(&w->lock);
    pull_n(f, 2);
    mr_mutex_lock(&w->lock);
    while (w->returned < 1) { /* it came back for another */
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_false(w->done);
    mr_mutex_unlock(&w->lock);
    assert_int_equal(pull(f, 1, 1, NULL),
                     MR_TIMEOUT); /* ... and again, whether there is one or not */
    mr_mutex_lock(&w->lock);
    while (!w->done) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_int_equal(w->returned, 2);
    mr_mutex_unlock(&w->lock);
}

/* Who leaves in the middle of what it was given has not returned all of it: the worker gives it to
 * others. */
static void at_least_once_closing_returns_what_was_used(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 100);
    f->opts.job.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    f->opts.job.guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    open_reader(f, 0);
    pull_n(f, 1);
    pull_n(f, 2);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_true(w->done);
    assert_int_equal(w->returned, 1);
}

/* What is held back between the read and the application is not returned yet, and a goodbye gives
 * it back. */
static void what_is_held_back_is_not_used(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;

    add_workers(f, 1, 100);
    for (uint64_t i = 0; i < 4; i++) {
        f->opts.job.trainer =
            (char *)(uintptr_t)(i % 2 == 0 ? "" : "t1"); /* a production's are others' as well */
        f->opts.job.guarantee =
            i < 2 ? MILLRACE__GUARANTEE__AT_MOST_ONCE : MILLRACE__GUARANTEE__AT_LEAST_ONCE;
        follow(f, MR_HAND_IN_ORDER);
        open_reader(f, 0);
        pull_n(f, 20); /* more than the last block */
        hand_out(f, 3);
        mr_mutex_lock(&w->lock);
        while (w->returned < 3) { /* it is told, though nothing is pulled */
            assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
        }
        assert_int_equal(w->returned, 3);
        mr_mutex_unlock(&w->lock);
        mr_hand_log_came(&f->hand, 4, false, false);
        mr_hand_log_came(&f->hand, 0, true, false); /* an error in place of an element used it */
        atomic_store(&f->hand.unused, i % 2);
        close_reader(f);
        assert_true(w->done && w->gave_back);
        assert_int_equal(w->returned, 8 - i % 2);
        w->done = false;
    }
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 0);
}

/* Which elements a shuffle holds nobody knows, but how many: they are nobody's, which the job's
 * record says, too. */
static void what_is_mixed_and_held_back_is_counted(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;

    add_workers(f, 1, 100);
    f->opts.job.name = "shared";
    for (uint64_t i = 0; i < 2; i++) {
        f->opts.job.guarantee =
            i == 0 ? MILLRACE__GUARANTEE__AT_MOST_ONCE : MILLRACE__GUARANTEE__AT_LEAST_ONCE;
        follow(f, MR_HAND_MIXED);
        open_reader(f, 0);
        pull_n(f, 20);
        hand_out(f, 8);
        atomic_store(&f->hand.unused, 1);
        close_reader(f);
        /* At least once the last one is given back, wherever it is. It was given alone. */
        assert_int_equal(w->returned, 20 - i);
        assert_int_equal(f->d.abandoned, 13);
        mr_loss_tally_get(&f->losses, &losses);
        assert_int_equal(losses.abandoned_elements, 13 * (i + 1));
        assert_int_equal(losses.incomplete_reads, i + 1);
        w->done = false;
    }
    f->opts.job.name = NULL; /* nobody misses it */
    follow(f, MR_HAND_MIXED);
    open_reader(f, 0);
    pull_n(f, 20);
    close_reader(f);
    assert_int_equal(f->d.abandoned, 0);
}

/* One element was handed out for the first three; now two are taken for the next. Nothing of it
 * waits for a worker. */
static void take_one_by_one(struct fixture *f)
{
    struct fake_worker *w = &f->w[0];

    follow(f, MR_HAND_ONE_BY_ONE);
    open_reader(f, 0);
    mr_hand_log_come(&f->hand);
    pull_n(f, 3);
    hand_out(f, 1);
    mr_mutex_lock(&w->lock);
    while (w->received < 5) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
    pull_n(f, 5);
}

/* What was taken for an element that is not handed out after all (an interrupt, a timeout) goes
 * back. */
static void what_was_taken_one_by_one_goes_back_with_its_element(void **state)
{
    const struct {
        uint32_t rows, unused;
        uint64_t returned[2]; /* at most once, at least once */
        uint64_t abandoned;
    } cases[] = {{1, 0, {5, 5}, 0},
                 {1, 1, {3, 3}, 0},
                 {0, 0, {3, 3}, 0},
                 {3, 3, {3, 3}, 0},
                 {3, 2, {5, 3}, 2}};
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;
    uint64_t abandoned = 0;

    add_workers(f, 1, 100);
    f->opts.job.name = "shared";
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const size_t k = i / 2;

        f->opts.job.guarantee =
            i % 2 == 0 ? MILLRACE__GUARANTEE__AT_MOST_ONCE : MILLRACE__GUARANTEE__AT_LEAST_ONCE;
        take_one_by_one(f);
        mr_hand_log_came(&f->hand, cases[k].rows, false, false);
        atomic_store(&f->hand.unused, cases[k].unused);
        close_reader(f);
        assert_true(w->done && w->gave_back);
        assert_int_equal(w->returned, cases[k].returned[i % 2]);
        abandoned += i % 2 == 0 ? cases[k].abandoned : 0;
        mr_loss_tally_get(&f->losses, &losses);
        assert_int_equal(losses.abandoned_elements, abandoned);
        w->done = false;
        w->received = 0;
    }
}

/* A part of the last element may not have been handed out: at least once it comes again. */
static void what_is_handed_out_in_parts_goes_back_at_least_once(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 100);
    f->opts.job.name = "shared";
    f->hand.splits_elements = true;
    for (uint64_t i = 0; i < 2; i++) {
        f->opts.job.guarantee =
            i == 0 ? MILLRACE__GUARANTEE__AT_MOST_ONCE : MILLRACE__GUARANTEE__AT_LEAST_ONCE;
        follow(f, MR_HAND_ONE_BY_ONE);
        open_reader(f, 0);
        mr_hand_log_come(&f->hand);
        pull_n(f, 1);
        hand_out(f, 1);
        pull_n(f, 2);
        hand_out(f, 1); /* of the second one */
        mr_hand_log_came(&f->hand, 1, false, false);
        close_reader(f);
        assert_int_equal(w->returned, 2 - i);
        w->done = false;
    }
    open_reader(f, 0); /* at least once */
    mr_hand_log_come(&f->hand);
    pull_n(f, 1);
    hand_out(f, 1);
    pull_n(f, 2); /* for an element of a part of the first one, too, which is not handed out */
    mr_hand_log_came(&f->hand, 0, false, false);
    close_reader(f);
    assert_int_equal(w->returned, 0);
}

/* Others' ends may wait for it, and ours for theirs. */
static void who_waits_for_more_holds_nothing_for_long(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;

    add_workers(f, 2, 2);
    f->w[1].silent = true;
    f->opts.job.name = "shared";
    follow(f, MR_HAND_ONE_BY_ONE);
    open_reader(f, 0);
    mr_hand_log_come(&f->hand);
    pull_n(f, 2);
    mr_mutex_lock(&w->lock);
    while (w->returned < 2) {
        mr_mutex_unlock(&w->lock);
        assert_int_equal(pull(f, 1, 10, NULL), MR_TIMEOUT);
        mr_mutex_lock(&w->lock);
    }
    mr_mutex_unlock(&w->lock);
    mr_hand_log_came(&f->hand, 0, false, false);
    close_reader(f);
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 2);
    assert_int_equal(f->d.abandoned, 2);
}

/* A last batch that is not full needs the end, which waits for what it took. */
static void the_end_comes_to_who_takes_one_by_one(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 5);
    f->opts.job.name = "shared";
    follow(f, MR_HAND_ONE_BY_ONE);
    open_reader(f, 0);
    mr_hand_log_come(&f->hand);
    pull_to_the_end(f);
    expect_each_once(f, 2, 5);
}

/* Others get it, and in a job without a name there are none. */
static void what_others_get_is_no_loss(void **state)
{
    struct fixture *f = *state;
    struct mr_losses losses;

    open_with_one_in_the_queue(f);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_true(f->w[0].done && f->w[0].gave_back);
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 0);
    assert_int_equal(f->d.abandoned + f->d.unheard, 0);
}

static void closing_early_says_goodbye(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 1000);
    open_reader(f, 0);
    pull_n(f, 10);
    for (size_t i = 0; i < 2; i++) {
        mr_mutex_lock(&f->w[i].lock);
        while (f->w[i].received == 0) {
            assert_true(mr_cond_wait_ms(&f->w[i].changed, &f->w[i].lock, LONG_MS));
        }
        mr_mutex_unlock(&f->w[i].lock);
    }
    mr_reader_close(f->r);
    f->r = NULL;
    assert_true(f->w[0].done);
    assert_true(f->w[1].done);
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->w[0].returned + f->w[1].returned, 10);
}

/* Wherever its stream is just then: a worker that has heard of it hears that it went, or it would
 * keep elements for it. */
static void closing_at_any_moment_says_goodbye(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 10);
    w->silent = true; /* nothing comes that would tell the reader that it is connected */
    for (unsigned i = 0; i < 100; i++) {
        open_reader(f, 0);
        mr_mutex_lock(&w->lock);
        while (w->opens == i) {
            assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
        }
        mr_mutex_unlock(&w->lock);
        mr_reader_close(f->r);
        f->r = NULL;
        mr_mutex_lock(&w->lock);
        unsigned goodbyes = w->goodbyes;
        w->done = false;
        mr_mutex_unlock(&w->lock);
        assert_int_equal(goodbyes, i + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_shared_job_holds_the_end_until_all_was_returned),
        TEST(at_least_once_holds_the_end_until_all_was_returned),
        TEST(at_least_once_closing_returns_what_was_used),
        TEST(what_is_held_back_is_not_used),
        TEST(what_is_mixed_and_held_back_is_counted),
        TEST(what_was_taken_one_by_one_goes_back_with_its_element),
        TEST(what_is_handed_out_in_parts_goes_back_at_least_once),
        TEST(who_waits_for_more_holds_nothing_for_long),
        TEST(the_end_comes_to_who_takes_one_by_one),
        TEST(what_others_get_is_no_loss),
        TEST(closing_early_says_goodbye),
        TEST(closing_at_any_moment_says_goodbye),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
