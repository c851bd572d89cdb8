/* Group commit by itself: what is gathered, what is sent, and what each answer means. The store is
 * played by hand here. */
#include "coord/bytes.h"
#include "coord/commit.h"
#include "coord/record.h"

#include "base/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ROOT "/millrace/t/"
#define EPOCH 50

static uint64_t add(mr_commit *c, const char *key, const char *value)
{
    struct mr_write w = {.key = key, .value = value, .size = value != NULL ? strlen(value) : 0};
    uint64_t batch = 0;

    assert_int_equal(mr_commit_add(c, &w, 1, false, &batch, NULL), MR_OK);
    return batch;
}

static struct mr_txn send(mr_commit *c, int64_t now_ms)
{
    struct mr_txn txn = {0};

    assert_true(mr_commit_send(c, now_ms, &txn));
    return txn;
}

static bool nothing_to_send(mr_commit *c, int64_t now_ms)
{
    struct mr_txn txn;

    return !mr_commit_send(c, now_ms, &txn);
}

static enum mr_verdict succeed(mr_commit *c, int64_t revision)
{
    struct mr_txn_result r = {.succeeded = true, .revision = revision};
    bool maybe;

    return mr_commit_answer(c, 0, MR_OK, &r, NULL, &maybe, NULL);
}

static enum mr_verdict answered(mr_commit *c, int64_t now_ms, int code, uint32_t traits)
{
    mr_error err = {.code = code, .traits = traits, .message = "so"};
    mr_error out;
    bool maybe;

    return mr_commit_answer(c, now_ms, code, NULL, &err, &maybe, &out);
}

/* A guard failed; the keys are as given (leader 0 / batch NULL: absent). */
static enum mr_verdict guard_failed(mr_commit *c, int64_t leader, struct mr_bytes batch,
                                    int64_t batch_mod, bool *maybe)
{
    struct mr_kv gets[2] = {
        {.key = {leader != 0 ? "l" : "", leader != 0}, .create_revision = leader},
        {.key = {batch.size > 0 ? "b" : "", batch.size > 0},
         .value = batch,
         .mod_revision = batch_mod}};
    struct mr_txn_result r = {.gets = gets, .ngets = 2, .revision = 999};
    mr_error err;

    return mr_commit_answer(c, 0, MR_OK, &r, NULL, maybe, &err);
}

static bool has(const struct mr_txn *txn, const char *key, const char *value)
{
    for (size_t i = 0; i < txn->nsuccess; i++) {
        if (mr_bytes_equal(txn->success[i].key, mr_bytes_str(key))) {
            return value == NULL ? txn->success[i].kind == MR_OP_DELETE
                                 : mr_bytes_equal(txn->success[i].value, mr_bytes_str(value));
        }
    }
    return false;
}

static int set_up(void **state)
{
    *state = mr_commit_new(ROOT, EPOCH, 7, false, 1);
    return *state == NULL;
}

static int tear_down(void **state)
{
    mr_commit_free(*state);
    return 0;
}

static void every_batch_carries_both_guards(void **state)
{
    mr_commit *c = *state;

    assert_true(nothing_to_send(c, 0));
    assert_int_equal(add(c, "jobs/a", "1"), 1);
    struct mr_txn txn = send(c, 0);

    assert_int_equal(txn.ncompares, 2);
    assert_true(mr_bytes_equal(txn.compares[0].key, mr_bytes_str(ROOT "leader")));
    assert_int_equal(txn.compares[0].target, MR_COMPARE_CREATE);
    assert_int_equal(txn.compares[0].revision, EPOCH);
    assert_true(mr_bytes_equal(txn.compares[1].key, mr_bytes_str(ROOT "meta/batch")));
    assert_int_equal(txn.compares[1].target, MR_COMPARE_MOD);
    assert_int_equal(txn.compares[1].revision, 7);
    assert_int_equal(txn.nsuccess, 2);
    assert_int_equal(txn.nfailure, 2);
    assert_true(has(&txn, ROOT "jobs/a", "1"));
    assert_int_equal(succeed(c, 60), MR_VERDICT_COMMITTED);
    assert_int_equal(mr_commit_status(c)->committed, 1);

    (void)add(c, "jobs/b", "2");
    assert_int_equal(send(c, 0).compares[1].revision, 60); /* what the last batch left there */
}

static void the_next_batch_gathers_while_one_is_in_flight(void **state)
{
    mr_commit *c = *state;

    assert_int_equal(add(c, "a", "1"), 1);
    assert_int_equal(add(c, "b", "1"), 1);
    (void)send(c, 0);
    assert_int_equal(add(c, "a", "2"), 2);
    assert_int_equal(add(c, "a", "3"), 2); /* the last write to a key wins */
    assert_int_equal(add(c, "b", NULL), 2);
    assert_true(nothing_to_send(c, 0));
    assert_int_equal(succeed(c, 60), MR_VERDICT_COMMITTED);
    struct mr_txn txn = send(c, 0);

    assert_int_equal(txn.nsuccess, 3);
    assert_true(has(&txn, ROOT "a", "3"));
    assert_true(has(&txn, ROOT "b", NULL));
}

static void a_denial_rides_on_a_batch_that_was_not_sent(void **state)
{
    mr_commit *c = *state;
    uint64_t batch = 0;

    (void)add(c, "a", "1");
    (void)send(c, 0);
    assert_int_equal(mr_commit_fence(c, &batch, NULL), MR_OK);
    assert_int_equal(batch, 2);
    assert_int_equal(mr_commit_fence(c, &batch, NULL), MR_OK); /* one serves all of a moment */
    assert_int_equal(batch, 2);
    assert_int_equal(succeed(c, 60), MR_VERDICT_COMMITTED);
    assert_int_equal(send(c, 0).nsuccess, 1); /* only meta/batch */
}

static void unknown_is_settled_by_the_same_bytes(void **state)
{
    mr_commit *c = *state;

    (void)add(c, "a", "1");
    struct mr_txn first = send(c, 100);
    struct mr_bytes sent = mr_bytes_dup(first.success[1].value);

    assert_int_equal(answered(c, 100, MR_EDEADLINE, MR_RETRYABLE | MR_MAYBE_APPLIED),
                     MR_VERDICT_AGAIN);
    (void)add(c, "a", "2"); /* later changes do not get into it */
    assert_true(nothing_to_send(c, 100));
    struct mr_txn again = send(c, mr_commit_due(c));

    assert_int_equal(again.nsuccess, 2);
    assert_true(has(&again, ROOT "a", "1"));
    assert_true(mr_bytes_equal(again.success[1].value, sent));
    bool maybe;

    /* It had been applied: our nonce is there. */
    assert_int_equal(guard_failed(c, EPOCH, sent, 61, &maybe), MR_VERDICT_COMMITTED);
    assert_int_equal(mr_commit_status(c)->committed, 1);
    assert_int_equal(send(c, mr_commit_due(c)).compares[1].revision, 61);
    mr_bytes_free(sent);
}

static void applied_and_deposed_is_still_applied(void **state)
{
    mr_commit *c = *state;
    bool maybe;

    (void)add(c, "a", "1");
    struct mr_bytes sent = mr_bytes_dup(send(c, 0).success[1].value);

    assert_int_equal(answered(c, 0, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED),
                     MR_VERDICT_AGAIN);
    (void)send(c, mr_commit_due(c));
    assert_int_equal(guard_failed(c, EPOCH + 9, sent, 61, &maybe), MR_VERDICT_COMMITTED_DEPOSED);
    mr_bytes_free(sent);
}

static void a_lost_fence_settles_nothing_about_an_earlier_attempt(void **state)
{
    mr_commit *c = *state;
    char *theirs = mr_batch_record_write(EPOCH + 9, 1, "0123456789abcdef0123456789abcdef");
    bool maybe = false;

    (void)add(c, "a", "1");
    (void)send(c, 0);
    assert_int_equal(answered(c, 0, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED),
                     MR_VERDICT_AGAIN);
    (void)send(c, mr_commit_due(c));
    assert_int_equal(guard_failed(c, EPOCH + 9, mr_bytes_str(theirs), 70, &maybe),
                     MR_VERDICT_DEPOSED);
    assert_true(maybe);
    mr_free(theirs);
}

static void a_lost_fence_at_the_first_attempt_is_definite(void **state)
{
    mr_commit *c = *state;
    bool maybe = true;

    (void)add(c, "a", "1");
    (void)send(c, 0);
    assert_int_equal(guard_failed(c, 0, (struct mr_bytes){0}, 0, &maybe), MR_VERDICT_DEPOSED);
    assert_false(maybe);
}

static void a_batch_record_that_somebody_else_wrote_ends_the_term(void **state)
{
    mr_commit *c = *state;
    bool maybe;

    (void)add(c, "a", "1");
    (void)send(c, 0);
    assert_int_equal(guard_failed(c, EPOCH, mr_bytes_str("by hand"), 70, &maybe),
                     MR_VERDICT_DEPOSED);
}

static void a_definite_refusal_is_one_only_without_an_ambiguous_attempt(void **state)
{
    mr_commit *c = *state;

    (void)add(c, "a", "1");
    (void)send(c, 0);
    assert_int_equal(answered(c, 0, MR_EPERM, 0), MR_VERDICT_REFUSED);

    (void)add(c, "b", "1");
    (void)send(c, 0);
    assert_int_equal(answered(c, 0, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED),
                     MR_VERDICT_AGAIN);
    (void)send(c, mr_commit_due(c));
    assert_int_equal(answered(c, 0, MR_EPERM, 0), MR_VERDICT_AGAIN);
}

/* ---- a store that is full ---- */

static enum mr_verdict full(mr_commit *c)
{
    return answered(c, 0, MR_EEXHAUSTED, MR_RETRYABLE | MR_MAYBE_APPLIED);
}

static bool deletes_only(const struct mr_txn *txn)
{
    for (size_t i = 0; i < txn->nsuccess; i++) {
        if (txn->success[i].kind != MR_OP_DELETE) {
            return false;
        }
    }
    return true;
}

static void a_full_store_still_takes_deletes(void **state)
{
    mr_commit *c = *state;

    (void)add(c, "a", NULL);
    (void)send(c, 0);
    assert_int_equal(full(c), MR_VERDICT_AGAIN);
    assert_true(mr_commit_status(c)->full);
    struct mr_txn txn = send(c, 0);

    assert_int_equal(txn.nsuccess, 2);
    assert_true(has(&txn, ROOT "a", NULL));
    assert_true(has(&txn, ROOT "meta/batch", NULL));
    assert_int_equal(txn.compares[0].revision, EPOCH);
    assert_int_equal(txn.compares[1].revision, 7);
    assert_int_equal(succeed(c, 60), MR_VERDICT_COMMITTED);
    assert_int_equal(mr_commit_status(c)->committed, 1);

    /* The next one is tried as it is; there is room again. */
    (void)add(c, "b", "1");
    txn = send(c, 0);
    assert_int_equal(txn.compares[1].revision, 0); /* there is no meta/batch any more */
    assert_true(has(&txn, ROOT "b", "1"));
    assert_int_equal(succeed(c, 61), MR_VERDICT_COMMITTED);
    assert_false(mr_commit_status(c)->full);
}

static void what_a_full_store_refused_is_withdrawn_for_certain(void **state)
{
    mr_commit *c = *state;

    (void)add(c, "a", NULL);
    (void)add(c, "b", "1");
    (void)send(c, 0);
    assert_int_equal(answered(c, 0, MR_EDEADLINE, MR_RETRYABLE | MR_MAYBE_APPLIED),
                     MR_VERDICT_AGAIN);
    (void)send(c, mr_commit_due(c));
    assert_int_equal(full(c), MR_VERDICT_AGAIN);
    struct mr_txn txn = send(c, mr_commit_due(c));

    /* The attempt that timed out compares a key that goes here; the command's own changes stay
     * together. */
    assert_int_equal(txn.nsuccess, 1);
    assert_true(has(&txn, ROOT "meta/batch", NULL));
    assert_int_equal(succeed(c, 60), MR_VERDICT_REFUSED);
    assert_int_equal(mr_commit_status(c)->batch_revision, 0);
}

static void refused_for_space_and_applied_all_the_same(void **state)
{
    mr_commit *c = *state;
    bool maybe;

    (void)add(c, "a", "1");
    struct mr_bytes sent = mr_bytes_dup(send(c, 0).success[1].value);

    assert_int_equal(full(c), MR_VERDICT_AGAIN);
    (void)send(c, 0);
    assert_int_equal(guard_failed(c, EPOCH, sent, 61, &maybe), MR_VERDICT_COMMITTED);
    assert_int_equal(mr_commit_status(c)->batch_revision, 61);
    mr_bytes_free(sent);
}

static void a_withdrawal_is_repeated_until_it_is_answered(void **state)
{
    mr_commit *c = *state;
    bool maybe;

    (void)add(c, "a", "1");
    (void)send(c, 0);
    assert_int_equal(full(c), MR_VERDICT_AGAIN);
    (void)send(c, 0);
    assert_int_equal(answered(c, 0, MR_EDEADLINE, MR_RETRYABLE | MR_MAYBE_APPLIED),
                     MR_VERDICT_AGAIN);
    struct mr_txn txn = send(c, mr_commit_due(c));

    assert_true(deletes_only(&txn));
    /* It had come through: nobody else deletes meta/batch in our term. */
    assert_int_equal(guard_failed(c, EPOCH, (struct mr_bytes){0}, 0, &maybe), MR_VERDICT_REFUSED);
}

static void without_a_batch_record_an_attempt_in_a_queue_keeps_its_place(void **state)
{
    mr_commit *c = mr_commit_new(ROOT, EPOCH, 0, false, 1);

    (void)add(c, "a", "1");
    (void)send(c, 0);
    assert_int_equal(answered(c, 0, MR_EDEADLINE, MR_RETRYABLE | MR_MAYBE_APPLIED),
                     MR_VERDICT_AGAIN);
    (void)send(c, mr_commit_due(c));
    assert_int_equal(full(c), MR_VERDICT_AGAIN);
    struct mr_txn txn = send(c, mr_commit_due(c));

    /* A withdrawal would leave the guard as it is, and the attempt could come after it. */
    assert_true(has(&txn, ROOT "a", "1"));
    assert_int_equal(succeed(c, 60), MR_VERDICT_COMMITTED);
    mr_commit_free(c);
}

/* The first batch of a cluster is sent twice, and its first attempt lies in a queue. It compares
 * that there is no record, which a withdrawal much later would make true again. */
static void an_attempt_in_a_queue_is_not_let_in_by_a_later_withdrawal(void **state)
{
    mr_commit *c = mr_commit_new(ROOT, EPOCH, 0, false, 1);
    mr_commit *next = mr_commit_new(ROOT, EPOCH, 61, true, 1);

    (void)add(c, "a", "1");
    (void)send(c, 0);
    assert_int_equal(answered(c, 0, MR_EDEADLINE, MR_RETRYABLE | MR_MAYBE_APPLIED),
                     MR_VERDICT_AGAIN);
    (void)send(c, mr_commit_due(c));
    assert_int_equal(succeed(c, 60), MR_VERDICT_COMMITTED);
    assert_true(mr_commit_status(c)->stray);
    (void)add(c, "a", "2");
    (void)send(c, 0);
    assert_int_equal(full(c), MR_VERDICT_AGAIN);
    struct mr_txn txn = send(c, mr_commit_due(c));

    assert_true(has(&txn, ROOT "a", "2"));
    assert_int_equal(succeed(c, 61), MR_VERDICT_COMMITTED);

    /* The same when the state was loaded again in between, which `next` has been told. */
    (void)add(next, "a", "3");
    (void)send(next, 0);
    assert_int_equal(full(next), MR_VERDICT_AGAIN);
    txn = send(next, mr_commit_due(next));
    assert_true(has(&txn, ROOT "a", "3"));
    assert_int_equal(succeed(next, 62), MR_VERDICT_COMMITTED);
    mr_commit_free(c);
    mr_commit_free(next);
}

static void a_command_is_in_one_batch_as_a_whole(void **state)
{
    mr_commit *c = *state;
    struct mr_write writes[60];
    char names[60][8];
    uint64_t first, second;
    mr_error err;

    for (size_t i = 0; i < 60; i++) {
        (void)snprintf(names[i], sizeof names[i], "k%zu", i);
        writes[i] = (struct mr_write){.key = names[i], .value = "v", .size = 1};
    }
    assert_int_equal(mr_commit_add(c, writes, 60, false, &first, NULL), MR_OK);
    for (size_t i = 0; i < 60; i++) {
        names[i][0] = 'l';
    }
    assert_int_equal(mr_commit_add(c, writes, 60, false, &second, NULL), MR_OK);
    assert_int_equal(first, 1);
    assert_int_equal(second, 2);
    assert_int_equal(send(c, 0).nsuccess, 61);

    /* What cannot be one transaction is refused before anything is taken. */
    char *large = calloc(1, MR_TXN_BYTES_MAX);
    struct mr_write w = {.key = "large", .value = large, .size = MR_TXN_BYTES_MAX};

    assert_int_equal(mr_commit_add(c, &w, 1, false, &first, &err), MR_ERANGE);
    w.size = MR_TXN_BYTES_MAX / 2;
    size_t n = 0;

    while (mr_commit_add(c, &w, 1, true, &first, &err) == MR_OK) {
        n++; /* a backlog without end is not possible */
    }
    assert_int_equal(err.code, MR_EEXHAUSTED);
    assert_true(n > 0);
    assert_in_range(mr_commit_status(c)->backlog_bytes,
                    MR_COMMIT_BACKLOG_BYTES_MAX - MR_TXN_BYTES_MAX, MR_COMMIT_BACKLOG_BYTES_MAX);
    free(large);
}

/* Puts and deletes, as they were given: all of them, whatever their number. */
static void all_that_a_command_changes_is_sent(void **state)
{
    static const char *const keys[] = {"a", "b", "c", "d", "e"};
    mr_commit *c = *state;

    for (size_t n = 1; n <= 5; n++) {
        for (unsigned deletes = 0; deletes < 1u << n; deletes++) {
            struct mr_write writes[5];
            uint64_t batch;

            for (size_t i = 0; i < n; i++) {
                bool gone = (deletes >> i & 1) != 0;

                writes[i] = (struct mr_write){
                    .key = keys[i], .value = gone ? NULL : "v", .size = gone ? 0 : 1};
            }
            assert_int_equal(mr_commit_add(c, writes, n, true, &batch, NULL), MR_OK);
            struct mr_txn txn = send(c, 0);

            assert_int_equal(txn.nsuccess, n + 1); /* and meta/batch */
            for (size_t i = 0; i < n; i++) {
                char key[sizeof ROOT + 1];

                (void)snprintf(key, sizeof key, ROOT "%s", keys[i]);
                assert_true(has(&txn, key, writes[i].value));
            }
            assert_int_equal(succeed(c, 60), MR_VERDICT_COMMITTED);
        }
    }
}

/* What an answer proves held when its request was sent: the answer may have been on its way for
 * long. */
static void leading_is_proven_as_of_the_sending(void **state)
{
    mr_commit *c = *state;
    struct mr_txn_result r = {.succeeded = true, .revision = 60};
    bool maybe;
    mr_error err;

    assert_int_equal(mr_commit_status(c)->proven_ms, INT64_MIN);
    (void)add(c, "jobs/a", "1");
    (void)send(c, 100);
    assert_int_equal(mr_commit_answer(c, 3100, MR_OK, &r, NULL, &maybe, &err),
                     MR_VERDICT_COMMITTED);
    assert_int_equal(mr_commit_status(c)->proven_ms, 100);

    /* Of several attempts the last one is: the answer to it is what came. */
    (void)add(c, "jobs/b", "2");
    struct mr_txn txn = send(c, 4000);
    struct mr_bytes record = txn.success[txn.nsuccess - 1].value;

    assert_int_equal(answered(c, 5000, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED),
                     MR_VERDICT_AGAIN);
    assert_int_equal(mr_commit_status(c)->proven_ms, 100);
    int64_t again = mr_commit_due(c);

    (void)send(c, again);
    struct mr_kv gets[2] = {{.key = {"l", 1}, .create_revision = EPOCH},
                            {.key = {"b", 1}, .value = record, .mod_revision = 70}};
    struct mr_txn_result shown = {.gets = gets, .ngets = 2, .revision = 80};

    assert_int_equal(mr_commit_answer(c, again + 3000, MR_OK, &shown, NULL, &maybe, &err),
                     MR_VERDICT_COMMITTED);
    assert_int_equal(mr_commit_status(c)->proven_ms, again);
}

static void alone_means_alone(void **state)
{
    mr_commit *c = *state;
    struct mr_write w = {.key = "a", .value = "1", .size = 1};
    uint64_t batch;

    assert_int_equal(add(c, "x", "1"), 1);
    assert_int_equal(mr_commit_add(c, &w, 1, true, &batch, NULL), MR_OK);
    assert_int_equal(batch, 2);
    assert_int_equal(add(c, "y", "1"), 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_batch_carries_both_guards),
        TEST(the_next_batch_gathers_while_one_is_in_flight),
        TEST(a_denial_rides_on_a_batch_that_was_not_sent),
        TEST(unknown_is_settled_by_the_same_bytes),
        TEST(applied_and_deposed_is_still_applied),
        TEST(a_lost_fence_settles_nothing_about_an_earlier_attempt),
        TEST(a_lost_fence_at_the_first_attempt_is_definite),
        TEST(a_batch_record_that_somebody_else_wrote_ends_the_term),
        TEST(a_definite_refusal_is_one_only_without_an_ambiguous_attempt),
        TEST(a_command_is_in_one_batch_as_a_whole),
        TEST(alone_means_alone),
        TEST(all_that_a_command_changes_is_sent),
        TEST(leading_is_proven_as_of_the_sending),
        TEST(a_full_store_still_takes_deletes),
        TEST(what_a_full_store_refused_is_withdrawn_for_certain),
        TEST(refused_for_space_and_applied_all_the_same),
        TEST(a_withdrawal_is_repeated_until_it_is_answered),
        TEST(without_a_batch_record_an_attempt_in_a_queue_keeps_its_place),
        TEST(an_attempt_in_a_queue_is_not_let_in_by_a_later_withdrawal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
