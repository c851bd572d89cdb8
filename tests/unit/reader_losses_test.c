/* What is missing at the end of a read, and while it goes on. */
#include "reader_support.h"

#include "base/sync.h"

#include <string.h>

/* The end of an iteration whose second worker was lost with 3 splits, 2 more being done again. */
static void end_with_losses(struct fixture *f)
{
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[0].ended = true;
    f->d.tasks[1].lost = true;
    f->d.lost_splits = 3;
    f->d.lost_elements = 3000;
    f->d.lost_workers = 1;
    f->d.repeated_splits = 2;
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_service_push(&f->d);
}

static void losses_are_counted_once(void **state)
{
    struct fixture *f = *state;
    struct mr_losses sum;

    add_workers(f, 2, 10);
    f->w[1].silent = true;
    f->opts.job.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    f->opts.on_loss = MR_ON_LOSS_REPORT;
    open_reader(f, 0);
    pull_n(f, 10);
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.incomplete_reads, 0);
    end_with_losses(f);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.lost_splits, 3);
    assert_int_equal(sum.lost_elements, 3000);
    assert_int_equal(sum.lost_workers, 1);
    assert_int_equal(sum.repeated_splits, 2);
    assert_int_equal(sum.incomplete_reads, 1);
}

/* Of several reads, too: nothing is said of a sum of which a part is not known. */
static void lost_elements_are_known_of_all_reads_or_of_none(void **state)
{
    struct fixture *f = *state;
    struct mr_losses known = {.lost_splits = 2, .lost_elements = 2000};
    struct mr_losses unknown = {.lost_splits = 1};
    struct mr_losses none = {.lost_workers = 1};
    struct mr_losses sum;

    mr_loss_tally_add(&f->losses, &none);
    mr_loss_tally_add(&f->losses, &known);
    mr_loss_tally_add(&f->losses, &known);
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.lost_elements, 4000);
    mr_loss_tally_add(&f->losses, &unknown);
    mr_loss_tally_add(&f->losses, &known);
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.lost_splits, 7);
    assert_int_equal(sum.lost_elements, 0);
}

static void a_loss_may_be_an_error_in_place_of_the_end(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    add_workers(f, 2, 10);
    f->w[1].silent = true;
    f->opts.job.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    pull_n(f, 10);
    end_with_losses(f);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EDATALOSS);
    assert_non_null(
        strstr(err.message,
               "3 splits lost (at most 3000 elements), 1 worker lost, 2 splits handed out again"));
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
}

static void repeats_alone_are_no_error(void **state)
{
    struct fixture *f = *state;
    struct mr_losses sum;

    f->opts.job.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    f->opts.job.guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    f->d.lost_workers = 1;
    f->d.repeated_splits = 2;
    f->d.finished = true;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    assert_int_equal(f->d.guarantee, MILLRACE__GUARANTEE__AT_LEAST_ONCE);
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.repeated_splits, 2);
    assert_int_equal(sum.incomplete_reads, 0);
}

/* The count is the task's, whatever message says it first, and the sum over tasks is what the
 * reader missed. */
static void what_was_skipped_is_counted(void **state)
{
    struct fixture *f = *state;
    struct mr_losses sum;
    mr_error err;

    add_workers(f, 2, 10);
    f->w[0].skipped = 7;
    f->w[1].skipped = 4;
    f->w[1].break_at = 5; /* a new stream says it again */
    f->opts.job.sharing = MILLRACE__SHARING__SHARING_AUTO;
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    pull_n(f, 20);
    assert_int_equal(mr_loss_tally_skipped(&f->losses), 11);
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.skipped_elements, 0); /* the read has not ended */
    mr_mutex_lock(&f->d.lock);
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_service_push(&f->d);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "11 elements skipped"));
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.skipped_elements, 11);
    assert_int_equal(sum.incomplete_reads, 1);
}

/* Of an endless dataset, say: who waits is told at once. */
static void who_waits_and_misses_is_told_at_once(void **state)
{
    struct fixture *f = *state;
    struct mr_losses sum;
    mr_error err;

    add_workers(f, 1, 20);
    f->w[0].skipped = 7;
    f->opts.job.sharing = MILLRACE__SHARING__SHARING_AUTO;
    f->opts.job.lag = MILLRACE__LAG__LAG_WAIT;
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "misses 7 elements"));
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.skipped_elements, 7);
    assert_int_equal(sum.incomplete_reads, 1);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
}

/* The losses say so while it goes on, and do not say it again at the end. */
static void who_waits_and_misses_goes_on(void **state)
{
    struct fixture *f = *state;
    struct mr_losses sum;

    add_workers(f, 1, 20);
    f->w[0].skipped = 7;
    f->opts.job.sharing = MILLRACE__SHARING__SHARING_AUTO;
    f->opts.job.lag = MILLRACE__LAG__LAG_WAIT;
    f->opts.on_loss = MR_ON_LOSS_REPORT;
    open_reader(f, 0);
    for (int end = 0; end < 2; end++) {
        if (end == 0) {
            pull_n(f, 20);
        } else {
            mr_mutex_lock(&f->d.lock);
            f->d.finished = true;
            mr_mutex_unlock(&f->d.lock);
            fake_service_push(&f->d);
            assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
        }
        mr_loss_tally_get(&f->losses, &sum);
        assert_int_equal(sum.skipped_elements, 7);
        assert_int_equal(sum.incomplete_reads, 1);
    }
}

/* Without splits the rest of a copy is what a lost worker takes along. */
static void a_lost_copy_is_a_loss(void **state)
{
    struct fixture *f = *state;

    f->opts.on_loss = MR_ON_LOSS_ERROR;
    f->d.lost_workers = 1;
    f->d.finished = true;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(losses_are_counted_once),
        TEST(lost_elements_are_known_of_all_reads_or_of_none),
        TEST(a_loss_may_be_an_error_in_place_of_the_end),
        TEST(repeats_alone_are_no_error),
        TEST(what_was_skipped_is_counted),
        TEST(who_waits_and_misses_is_told_at_once),
        TEST(who_waits_and_misses_goes_on),
        TEST(a_lost_copy_is_a_loss),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
