/* Named cases in virtual time, told by the transcript: the core's own lines and what befell the
 * cluster. No chance plays a part: a message takes 1 ms, a split 100 ms, an OFF task one second. */
#include "story.h"

static void a_reader_and_a_worker(void **state)
{
    struct sim *sim = *state;

    story_join(sim, 1, 1, FEW, false);
    mr_sim_expect(sim, "[      0] worker 0: starts at host0:1\n"
                       "[     13] dispatcher 0: leads\n"
                       "[     17] worker w0.1 at host0:1: registered\n");
    sim_run_until(sim, 100);
    sim_client_start(sim, &sim->clients[0]);
    mr_sim_expect(sim, "[    100] client 0: starts\n"
                       "[    101] dataset few: registered, few\n"
                       "[    104] job digits: created, DYNAMIC\n"
                       "[    104] iteration 3.3: repetition 0 of job digits\n"
                       "[    104] client c0: attached to iteration 3.3\n"
                       "[    108] task 3.3/w0.3.1: provider 0, repetition 0, splits 0..1\n"
                       "[    111] task 3.3/w0.3.1: provider 0, repetition 0, splits 2..2\n"
                       "[    311] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                       "[    607] task 3.3/w0.3.1: ended\n"
                       "[    607] iteration 3.3: finished\n"
                       "[    610] client 0: end of repetition 0\n"
                       "[    611] client c0: left iteration 3.3\n"
                       "[    615] client 0: has read everything\n");
}

/* The answer is lost with its leader, after it was committed: the next leader has it, and gives it
 * again. */
static void the_next_leader_gives_the_same_answer(void **state)
{
    struct sim *sim = *state;

    story_read(sim, 1, 1, FEW, false);
    mr_sim_skip(sim);
    sim_kill_replica(sim, 0, 60000);
    /* Splits 0 and 1 were handed out before this; nobody else gets them, and the worker works on
     * them. */
    mr_sim_expect(sim, "[    109] dispatcher 0: killed\n"
                       "[   1084] dispatcher 1: leads\n"
                       "[   2001] task 3.3/w0.3.1: provider 0, repetition 0, splits 2..2\n"
                       "[   2005] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                       "[   3129] task 3.3/w0.3.1: ended\n"
                       "[   3129] iteration 3.3: finished\n"
                       "[   3131] client 0: end of repetition 0\n"
                       "[   3132] client c0: left iteration 3.3\n"
                       "[   3136] client 0: has read everything\n");
    assert_int_equal(sim->grants, 3); /* 0..1, 2..2, the end */
}

/* A worker that was frozen past its timeout wakes up still believing in its task. The task is lost,
 * whatever it says of it; it registers again and lives on. */
static void a_late_report_is_refused(void **state)
{
    struct sim *sim = *state;

    story_join(sim, 2, 1, NUMBERS, false);
    sim->clients[0].plan.dynamic = false;
    story_start(sim);
    story_until_stored(sim, "clients/");
    sim_run_until(sim, sim->now + 100);
    mr_sim_skip(sim);
    sim->workers[0].process.frozen_until = 8000;
    mr_sim_expect(
        sim, "[   1108] task 3.4/w1.3.2: ended\n"
             "[   5017] worker w0.1 at host0:1: lost\n"
             "[   5017] task 3.4/w0.3.1: lost\n"
             "[   5017] iteration 3.4 of job digits: finished, workers lost: 1, splits lost: 0\n"
             "[   5019] client 0: end of repetition 0\n"
             "[   5020] client c0: left iteration 3.4\n"
             "[   5024] client 0: has read everything\n"
             "[   8009] worker w0.2 at host0:1: registered\n");
}

/* The leader stands still until another one leads; then it wakes and finds a call in its queue,
 * from a process that knows neither: about a dataset that was registered meanwhile. It must not say
 * that there is none. */
static unsigned denials_of_a_paused_leader(struct sim *sim)
{
    Millrace__GetDatasetRequest request = MILLRACE__GET_DATASET_REQUEST__INIT;

    sim_add_clients(sim, 2);
    story_plan(sim, 0, "digits", FEW, true);
    story_plan(sim, 1, "others", PAIRS, true);
    sim_run_until(sim, 300);
    sim_client_start(sim, &sim->clients[1]);
    sim_run_until(sim, 500);
    story_pause_leader(sim, 1300);
    sim->clients[0].leader = sim_leader(sim);
    sim_client_start(sim, &sim->clients[0]);
    story_until_stored(sim, "datasets/few");
    request.dataset_id = (char *)(uintptr_t) "few";
    sim_probe(sim, 1, 0, MR_COMMAND_GET_DATASET, &request.base);
    sim_run_until(sim, 4000);
    return sim->probe_answers;
}

static void a_paused_leader_denies_nothing(void **state)
{
    assert_int_equal(denials_of_a_paused_leader(*state), 0);
}

static void a_paused_leader_that_answers_from_memory_would(void **state)
{
    struct sim *sim = *state;

    sim->bug = SIM_BUG_SOFT_DENIALS;
    assert_int_equal(denials_of_a_paused_leader(sim), 1);
    assert_int_equal(sim->probe_code, MR_ENOTFOUND);
}

/* The store refuses a batch for good, and the leader loads its state again, in the same term: what
 * it numbers from then on must not have the numbers of what it made before. */
static void a_refused_batch_gives_no_id_twice(void **state)
{
    struct sim *sim = *state;

    sim_add_workers(sim, 1);
    sim_add_clients(sim, 2);
    story_plan(sim, 0, "digits", NUMBERS, true);
    story_plan(sim, 1, "others", FEW, true);
    sim->clients[1].plan.repetitions = 2;
    sim_run_until(sim, 100);
    sim_client_start(sim, &sim->clients[0]);
    story_until_stored(sim, "grants/");
    sim->faults.refusal_permille = 1000;
    sim_run_until(sim, sim->now + 700);
    sim->faults.refusal_permille = 0;
    assert_true(sim->rares[SIM_RARE_REFUSED] > 0);
    sim_client_start(sim, &sim->clients[1]);
    story_ends_well(sim, 60000, NULL);
    assert_int_equal(sim->takeovers, 1 + sim->rares[SIM_RARE_REFUSED]); /* loads, in one term */
    assert_string_equal(sim->violation, "");
}

/* The reader was attached and never heard of it; when it gets through again, it has been given up.
 * It is attached again, though it cannot name its job. */
static void a_reader_that_never_heard_of_being_attached_is_attached_again(void **state)
{
    struct sim *sim = *state;

    story_begin(sim, 1, 2, NUMBERS, false);
    story_until_stored(sim, "clients/");
    /* Nothing gets to client 0, and the worker is slow. */
    for (int i = 0; i < SIM_REPLICAS; i++) {
        sim_cut(sim, SIM_NODE_REPLICA(i), SIM_NODE_CLIENT(0), true /* one_way */, 300);
        sim_cut(sim, SIM_NODE_REPLICA(i), SIM_NODE_WORKER(0), false, SIM_WORKER_TIMEOUT_MS / 2);
    }
    sim_run_until(sim, sim->now + 250);
    for (int i = 0; i < SIM_REPLICAS; i++) {
        sim_cut(sim, SIM_NODE_REPLICA(i), SIM_NODE_CLIENT(0), false, SIM_CLIENT_TIMEOUT_MS + 1000);
    }
    story_ends_well(sim, 60000,
                    "[   8104] client c0: lost to iteration 3.3\n"
                    "[   9451] client c0: attached to iteration 3.3\n"
                    "[  12687] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                    "[  12905] task 3.3/w0.3.1: ended\n"
                    "[  12905] iteration 3.3: finished\n"
                    "[  12909] client 0: end of repetition 0\n"
                    "[  12909] client 1: end of repetition 0\n"
                    "[  12910] client c0: left iteration 3.3\n"
                    "[  12910] client c1: left iteration 3.3\n"
                    "[  12914] client 0: has read everything\n"
                    "[  12914] client 1: has read everything\n");
}

/* The only worker and the only reader cannot reach each other for longer than a worker may be
 * silent. Closing the task would leave nobody: reading goes on when they can. */
static void nobody_is_closed_for_whom_nobody_could_go_on(void **state)
{
    struct sim *sim = *state;

    story_read(sim, 1, 1, NUMBERS, false);
    sim_cut(sim, SIM_NODE_WORKER(0), SIM_NODE_CLIENT(0), false, 20000);
    sim_run_until(sim, 20000);
    assert_false(sim_all_done(sim));
    story_ends_well(sim, 60000,
                    "[  28907] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                    "[  29105] task 3.3/w0.3.1: ended\n"
                    "[  29105] iteration 3.3: finished\n"
                    "[  29107] client 0: end of repetition 0\n"
                    "[  29108] client c0: left iteration 3.3\n"
                    "[  29110] client 0: has read everything\n");
    assert_int_equal(sim->rares[SIM_RARE_UNREACHABLE], 0);
}

/* With another worker there, the task is closed, and what the application did not get of it is read
 * again. */
static void a_worker_that_no_reader_reaches_is_done_without(void **state)
{
    struct sim *sim = *state;

    story_read(sim, 2, 1, NUMBERS, true);
    sim_cut(sim, SIM_NODE_WORKER(0), SIM_NODE_CLIENT(0), false, 200000);
    story_ends_well(sim, 100000,
                    "[   6511] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                    "[   6705] task 3.4/w1.3.2: ended\n"
                    "[   8624] task 3.4/w0.3.1: no client reaches host0:1\n"
                    "[   8624] task 3.4/w0.3.1: lost\n"
                    "[   8624] task 3.4/w1.3.2/1: opened, a recovery task\n"
                    "[  12034] task 3.4/w1.3.2/1: end of provider 0, repetition 0\n"
                    "[  12305] task 3.4/w1.3.2/1: ended\n"
                    "[  12305] iteration 3.4: 35 splits were repeated\n"
                    "[  12308] client 0: end of repetition 0\n"
                    "[  12309] client c0: left iteration 3.4\n"
                    "[  12313] client 0: has read everything\n");
    assert_true(sim->rares[SIM_RARE_UNREACHABLE] > 0);
    assert_true(sim->rares[SIM_RARE_GIVEN_AGAIN] > 0);
}

/* At most once, a worker whose task was closed is the only one that is left, and can be reached
 * again. */
static void whoever_is_left_reads_what_is_left(void **state)
{
    struct sim *sim = *state;

    story_read(sim, 2, 1, NUMBERS, false);
    sim->clients[0].plan.slow = true;
    sim_cut(sim, SIM_NODE_WORKER(0), SIM_NODE_CLIENT(0), false, 15000);
    sim_run_until(sim, 14000);
    assert_true(sim->rares[SIM_RARE_UNREACHABLE] > 0);
    sim_worker_stop(sim, &sim->workers[1]);
    sim_run_until(sim, 16000);
    sim->clients[0].plan.slow = false;
    story_ends_well(sim, 100000,
                    "[   8624] task 3.4/w0.3.1: no client reaches host0:1\n"
                    "[   8624] task 3.4/w0.3.1: lost\n"
                    "[  14000] worker 1: stops\n"
                    "[  18569] worker w1.1 at host1:1: lost\n"
                    "[  18569] iteration 3.4 of job digits: 41 splits lost\n"
                    "[  18569] task 3.4/w1.3.2: lost\n"
                    "[  18569] task 3.4/w0.3.1/1: opened, a recovery task\n"
                    "[  20876] task 3.4/w0.3.1/1: end of provider 0, repetition 0\n"
                    "[  21105] task 3.4/w0.3.1/1: ended\n"
                    "[  21109] client 0: end of repetition 0\n"
                    "[  21110] client c0: left iteration 3.4\n"
                    "[  21113] client 0: has read everything\n");
    assert_true(sim->rares[SIM_RARE_RECOVERY_MOST] > 0);
}

/* The same where the job reads a production: it goes on in the window that it has read a part
 * of. */
static void whoever_is_left_goes_on_in_its_window(void **state)
{
    struct sim *sim = *state;

    story_join(sim, 2, 1, NUMBERS, false);
    sim->clients[0].plan.shares = true;
    sim->clients[0].plan.slow = true;
    story_start(sim);
    story_until_stored(sim, "grants/");
    sim_run_until(sim, 2000); /* something of both was read */
    sim_cut(sim, SIM_NODE_WORKER(0), SIM_NODE_CLIENT(0), false, 15000);
    sim_run_until(sim, 16000);
    assert_true(sim->rares[SIM_RARE_UNREACHABLE] > 0);
    sim_worker_stop(sim, &sim->workers[1]);
    sim_run_until(sim, 18000);
    sim->clients[0].plan.slow = false;
    story_ends_well(sim, 100000,
                    "[  10632] task 3.4/w0.3.1: no client reaches host0:1\n"
                    "[  10632] task 3.4/w0.3.1: lost\n"
                    "[  16000] worker 1: stops\n"
                    "[  20577] worker w1.1 at host1:1: lost\n"
                    "[  20577] iteration 3.5 of production 3.5: 32 splits lost\n"
                    "[  20577] task 3.5/w1.3.2: lost\n"
                    "[  20577] task 3.4/w1.3.2: lost\n"
                    "[  20577] task 3.4/w0.3.1/1: opened, a recovery task\n"
                    "[  25283] task 3.5/w0.3.1: end of provider 0, repetition 0\n"
                    "[  25507] task 3.4/w0.3.1/1: ended\n"
                    "[  25510] client 0: end of repetition 0\n"
                    "[  25511] client c0: left iteration 3.4\n"
                    "[  25515] client 0: has read everything\n");
    assert_true(sim->rares[SIM_RARE_RESUMED] > 0);
}

/* Readers miss a dead worker before the dispatcher does, after a takeover. It has crashed all the
 * same: if a split did that, it is to be found out. */
static void a_dead_worker_is_not_only_out_of_reach(void **state)
{
    struct sim *sim = *state;

    story_read(sim, 2, 1, NUMBERS, true);
    sim_kill_replica(sim, 0,
                     200000); /* the next leader gives its workers more time than its readers */
    sim_worker_stop(sim, &sim->workers[0]);
    story_ends_well(sim, 100000,
                    "[    109] dispatcher 0: killed\n"
                    "[    109] worker 0: stops\n"
                    "[   1084] dispatcher 1: leads\n"
                    "[   7584] worker w0.1 at host0:1: lost\n"
                    "[   7584] task 3.4/w0.3.1: lost\n"
                    "[  10988] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                    "[  11205] task 3.4/w1.3.2: ended\n"
                    "[  11205] iteration 3.4: 20 splits were repeated\n"
                    "[  11208] client 0: end of repetition 0\n"
                    "[  11209] client c0: left iteration 3.4\n"
                    "[  11211] client 0: has read everything\n");
    assert_int_equal(sim->rares[SIM_RARE_UNREACHABLE], 0);
    assert_true(sim->rares[SIM_RARE_WORKER_LOST] > 0);
    assert_true(sim->rares[SIM_RARE_GIVEN_AGAIN] > 0);
}

/* A reader sleeps until it is given up, and the worker hears of that; then it wakes, takes some
 * elements more before it learns what it missed, and dies. They go to somebody else. */
static void what_a_released_reader_takes_is_not_kept_for_ever(void **state)
{
    struct sim *sim = *state;

    story_begin(sim, 1, 2, NUMBERS, true);
    sim->clients[0].plan.slow = true;
    sim->clients[1].plan.slow = true;
    sim_run_until(sim, 1000);
    for (int i = 0; i < SIM_REPLICAS; i++) {
        sim_cut(sim, SIM_NODE_REPLICA(i), SIM_NODE_CLIENT(1), false, 30000);
    }
    sim_run_until(sim, 25000);
    assert_non_null(strstr(story_said(sim), "client c1: lost to iteration"));
    assert_true(sim->rares[SIM_RARE_RELEASED_BEFORE] > 0);
    sim_client_stop(sim, &sim->clients[1]);
    sim->clients[1].done = true;
    sim->clients[0].plan.slow = false;
    story_ends_well(sim, 100000,
                    "[   8608] client c1: lost to iteration 3.3\n"
                    "[  25000] client 1: stops\n"
                    "[  32407] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                    "[  32607] task 3.3/w0.3.1: ended\n"
                    "[  32607] iteration 3.3: finished\n"
                    "[  32609] client 0: end of repetition 0\n"
                    "[  32610] client c0: left iteration 3.3\n"
                    "[  32612] client 0: has read everything\n");
    assert_true(sim->rares[SIM_RARE_REDELIVERED] > 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, story_setup, story_teardown)
    const struct CMUnitTest tests[] = {
        T(a_reader_and_a_worker),
        T(the_next_leader_gives_the_same_answer),
        T(a_late_report_is_refused),
        T(a_paused_leader_denies_nothing),
        T(a_paused_leader_that_answers_from_memory_would),
        T(a_refused_batch_gives_no_id_twice),
        T(a_reader_that_never_heard_of_being_attached_is_attached_again),
        T(nobody_is_closed_for_whom_nobody_could_go_on),
        T(a_worker_that_no_reader_reaches_is_done_without),
        T(whoever_is_left_reads_what_is_left),
        T(whoever_is_left_goes_on_in_its_window),
        T(a_dead_worker_is_not_only_out_of_reach),
        T(what_a_released_reader_takes_is_not_kept_for_ever),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
