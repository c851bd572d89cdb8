/* The interleavings that the rules of the protocols are there for, told as they would happen. Where
 * a rule can be taken out of the models, the same story is told without it, and must end badly.
 * docs/change/simulation.md lists them by rule. */
#include "story.h"

/* ---------------------------------------------------------------- commit */

/* A member of the store sleeps with the first attempt; a read shows nothing; then the attempt is
 * applied after all. */
static void an_attempt_sleeps(struct sim *sim)
{
    story_begin(sim, 2, 1, NUMBERS, false);
    story_until_stored(sim, "clients/");
    for (int i = 0; i < 20; i++) { /* whatever is in flight then */
        sim->store.slow_ms = 1010; /* an attempt has a second */
        sim_run_until(sim, sim->now + 900);
        sim->store.slow_ms = 20;
        sim_run_until(sim, sim->now + 700);
    }
    sim->store.slow_ms = 0;
}

static void a_read_that_shows_nothing_settles_nothing(void **state)
{
    struct sim *sim = *state;

    an_attempt_sleeps(sim);
    story_ends_well(sim, 100000,
                    "[   6547] task 3.4/w0.3.1: end of provider 0, repetition 0\n"
                    "[   6624] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                    "[   7617] task 3.4/w0.3.1: ended\n"
                    "[   7668] task 3.4/w1.3.2: ended\n"
                    "[   7668] iteration 3.4: finished\n"
                    "[   7692] client 0: end of repetition 0\n"
                    "[   7693] client c0: left iteration 3.4\n"
                    "[   7715] client 0: has read everything\n");
    assert_true(sim->rares[SIM_RARE_SETTLED_BY_NONCE] > 0);
}

static void settled_by_a_read_a_split_is_given_that_nobody_wrote_down(void **state)
{
    struct sim *sim = *state;

    sim->bug = SIM_BUG_READ_SETTLES;
    an_attempt_sleeps(sim);
    sim_run_until(sim, 100000);
    assert_string_not_equal(sim->violation, "");
}

/* The batch was applied and the answer lost; by the time it is sent again somebody else leads. */
static void a_deposed_leader_does_not_say_no(void **state)
{
    struct sim *sim = *state;

    story_join(sim, 1, 1, NUMBERS, false);
    story_start(sim);
    story_until_stored(sim, "datasets/");
    sim_run_until(sim, sim->now + 2);
    sim->faults.answer_loss_percent = 100;
    story_until_stored(sim, "jobs/");
    mr_sim_skip(sim);
    sim_store_deafen(sim, &sim->replicas[0], 5000);
    sim_store_depose(sim);
    mr_sim_expect(sim, "[    108] task 3.3/w0.3.1: provider 0, repetition 0, splits 0..19\n"
                       "[    254] dispatcher 0: steps down\n");
    sim->faults.answer_loss_percent = 0;
    story_ends_well(sim, 60000,
                    "[    382] dispatcher 1: leads\n"
                    "[  10287] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                    "[  10507] task 3.3/w0.3.1: ended\n"
                    "[  10507] iteration 3.3: finished\n"
                    "[  10510] client 0: end of repetition 0\n"
                    "[  10511] client c0: left iteration 3.3\n"
                    "[  10515] client 0: has read everything\n");
    /* Asked again, the next leader had it: there is one job, and one iteration of it. */
    assert_int_equal(sim_store_count(sim, "jobs/"), 1);
}

/* Two workers ask at the same time, and the store takes its time. With a bug it is there once they
 * have come. */
static void they_ask_together(struct sim *sim, enum sim_bug bug)
{
    story_join(sim, 2, 1, NUMBERS, false);
    story_start(sim);
    sim->bug = bug;
    sim->store.slow_ms = 60;
    sim_run_until(sim, 100000);
}

static void what_is_decided_counts_before_it_is_committed(void **state)
{
    struct sim *sim = *state;

    they_ask_together(sim, SIM_BUG_NONE);
    story_ends_well(sim, sim->now,
                    "[    101] dataset numbers: registered, numbers\n"
                    "[    164] job digits: created, DYNAMIC\n"
                    "[    164] iteration 3.4: repetition 0 of job digits\n"
                    "[    164] client c0: attached to iteration 3.4\n"
                    "[   5191] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                    "[   5191] task 3.4/w0.3.1: end of provider 0, repetition 0\n"
                    "[   5465] task 3.4/w0.3.1: ended\n"
                    "[   5465] task 3.4/w1.3.2: ended\n"
                    "[   5465] iteration 3.4: finished\n"
                    "[   5529] client 0: end of repetition 0\n"
                    "[   5530] client c0: left iteration 3.4\n"
                    "[   5592] client 0: has read everything\n");
}

static void decided_on_what_is_committed_one_split_goes_to_two(void **state)
{
    struct sim *sim = *state;

    they_ask_together(sim, SIM_BUG_DECIDE_ON_COMMITTED);
    assert_string_not_equal(sim->violation, "");
}

/* A worker starts again and finds, of all dispatchers, the one that slept through the end of its
 * term. */
static void meet_a_paused_leader(struct sim *sim, enum sim_bug bug)
{
    sim_add_workers(sim, 1);
    sim_add_clients(sim, 1);
    sim_run_until(sim, 500);
    assert_int_equal(sim_leader(sim), 0);
    story_pause_leader(sim, 1300);
    sim_run_until(sim, 1290);
    sim_worker_stop(sim, &sim->workers[0]);
    sim_worker_start(sim, &sim->workers[0]);
    sim->bug = bug;
    sim_run_until(sim, 1303);
}

static void a_paused_leader_captures_no_worker(void **state)
{
    struct sim *sim = *state;

    meet_a_paused_leader(sim, SIM_BUG_NONE);
    assert_int_equal(sim->workers[0].epoch, 0); /* it has heard nobody */
    sim_run_until(sim, 5000);
    assert_true(sim_worker_is_registered(&sim->workers[0]));
    assert_int_equal(sim->workers[0].epoch, sim_replica_epoch(&sim->replicas[1]));
    assert_string_equal(sim->violation, "");
}

static void answering_before_it_knows_it_would(void **state)
{
    struct sim *sim = *state;

    meet_a_paused_leader(sim, SIM_BUG_ANSWER_EARLY);
    assert_true(sim->workers[0].epoch > 0);
    assert_true(sim->workers[0].epoch < (uint64_t)sim_replica_epoch(&sim->replicas[1]));
}

/* Cut off from the store, a leader goes on saying yes for half a lease, and not longer. */
static void an_isolated_leader_falls_silent(void **state)
{
    struct sim *sim = *state;
    Millrace__ClientHeartbeatRequest request = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;

    story_begin(sim, 1, 1, NUMBERS, false);
    story_until_stored(sim, "clients/");
    sim_run_until(sim, sim->now + 1000);
    sim_cut(sim, SIM_NODE_REPLICA(0), SIM_NODE_STORE, false, 10000);
    request.client = sim->clients[0].id;
    request.iteration_id = sim->clients[0].iteration;
    sim_keep_leading(sim, 0, 10000); /* so that nobody else leads yet */
    sim_cut(sim, SIM_NODE_REPLICA(0), SIM_NODE_WORKER(0), false,
            10000); /* which would ask for what must be written */
    sim_probe(sim, 0, 0, MR_COMMAND_CLIENT_HEARTBEAT, &request.base);
    sim_run_until(sim, sim->now + 10);
    assert_int_equal(sim->probe_answers, 1);
    sim_run_until(sim, sim->now + SIM_LEASE_MS / 2 + 100);
    sim_probe(sim, 0, 0, MR_COMMAND_CLIENT_HEARTBEAT, &request.base);
    sim_run_until(sim, sim->now + 1000);
    assert_int_equal(sim->probe_answers, 0);
    story_ends_well(sim, 100000,
                    "[  11106] dispatcher 0: steps down\n"
                    "[  11123] dispatcher 0: leads\n"
                    "[  17429] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                    "[  17705] task 3.3/w0.3.1: ended\n"
                    "[  17705] iteration 3.3: finished\n"
                    "[  17708] client 0: end of repetition 0\n"
                    "[  17709] client c0: left iteration 3.3\n"
                    "[  17713] client 0: has read everything\n");
}

/* ---------------------------------------------------------------- splits */

/* The worker has read all it was given, and its elements are in a shuffle buffer, on the way, and
 * with the reader. */
static void it_dies_with_full_hands(struct sim *sim)
{
    sim->buffer_size = 10;
    story_read(sim, 2, 1, NUMBERS, true);
    sim_run_until(sim, sim->now + 5000);
    sim_worker_stop(sim, &sim->workers[0]);
    sim_run_until(sim, 200000);
}

static void what_a_dead_worker_had_in_its_hands_is_read_again(void **state)
{
    struct sim *sim = *state;

    it_dies_with_full_hands(sim);
    story_ends_well(sim, sim->now,
                    NULL); /* the judge has counted that every element was returned */
    assert_true(sim->rares[SIM_RARE_GIVEN_AGAIN] > 0);
}

static void if_read_were_finished_it_would_be_missing(void **state)
{
    struct sim *sim = *state;

    sim->bug = SIM_BUG_FINISHED_IS_READ;
    it_dies_with_full_hands(sim);
    assert_non_null(strstr(sim->violation, "elements were not returned"));
}

/* All splits are handed out and everybody was told the end, so that buffers flush; then somebody
 * dies. */
static void what_comes_back_after_the_end_gets_a_recovery_task(void **state)
{
    struct sim *sim = *state;

    sim->buffer_size = 10;
    story_read(sim, 2, 1, FEW, true);
    while (strstr(story_said(sim), "w0.3.1: end of provider 0") == NULL ||
           strstr(story_said(sim), "w1.3.2: end of provider 0") == NULL) {
        assert_true(sim_step(sim));
    }
    sim_worker_stop(sim, &sim->workers[0]);
    story_ends_well(sim, 60000,
                    "[    111] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                    "[    211] task 3.4/w0.3.1: end of provider 0, repetition 0\n"
                    "[    211] worker 0: stops\n"
                    "[    407] task 3.4/w1.3.2: ended\n"
                    "[   5211] worker w0.1 at host0:1: lost\n"
                    "[   5211] task 3.4/w0.3.1: lost\n"
                    "[   5211] task 3.4/w1.3.2/1: opened, a recovery task\n"
                    "[   5320] task 3.4/w1.3.2/1: end of provider 0, repetition 0\n"
                    "[   5607] task 3.4/w1.3.2/1: ended\n"
                    "[   5607] iteration 3.4: 2 splits were repeated\n"
                    "[   5609] client 0: end of repetition 0\n"
                    "[   5610] client c0: left iteration 3.4\n"
                    "[   5612] client 0: has read everything\n");
}

/* A worker goes on purpose while it reads; the leader dies when what it gives back has arrived. */
static void it_drains(struct sim *sim)
{
    story_read(sim, 2, 1, NUMBERS, false);
    sim_run_until(sim, sim->now + 500);
    sim_worker_drain(sim, &sim->workers[0], 30000);
    while (strstr(story_said(sim), " splits of provider 0 back") == NULL) {
        assert_true(sim_step(sim));
    }
    sim_kill_replica(sim, sim_leader(sim), 1000);
    sim_run_until(sim, 100000);
}

static void a_worker_that_drains_loses_nothing(void **state)
{
    struct sim *sim = *state;

    it_drains(sim);
    story_ends_well(
        sim, sim->now,
        NULL); /* at most once, and the judge has counted: each element came, and came once */
    assert_false(sim->workers_lost);
    assert_int_equal(sim->rares[SIM_RARE_DRAINED], 1);
    assert_int_equal(sim->rares[SIM_RARE_GAVE_BACK], 1);
    assert_true(sim->rares[SIM_RARE_GIVEN_BACK_TAKEN] > 0);
}

/* Tasks are opened there until it is written that it drains. */
static void a_worker_does_not_leave_before_it_is_written_that_it_drains(void **state)
{
    struct sim *sim = *state;
    const struct mr_registration *registration = &sim->workers[0].registration;

    story_read(sim, 2, 1, FEW, true);
    sim_store_fill(sim, true);
    sim_run_until(sim, sim->now + 2000); /* its leader has noticed */
    sim_worker_drain(sim, &sim->workers[0], 60000);
    sim_run_until(sim, sim->now + 4000);
    assert_true(sim->workers[0].said_draining);
    assert_true(registration->list_version > 0);
    assert_false(registration->list_is_final);
    sim_store_fill(sim, false);
    story_ends_well(sim, 60000,
                    "[    111] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                    "[   2109] worker 0: drains\n"
                    "[   6148] task 3.4/w1.3.2: ended\n"
                    "[   6167] the state uses draining: older versions refuse it from now on\n"
                    "[   6167] worker w0.1 at host0:1: drains\n"
                    "[   6203] task 3.4/w0.3.1: end of provider 0, repetition 0\n"
                    "[   6207] task 3.4/w0.3.1: ended\n"
                    "[   6207] iteration 3.4: finished\n"
                    "[   6211] client 0: end of repetition 0\n"
                    "[   6212] client c0: left iteration 3.4\n"
                    "[   6214] client 0: has read everything\n"
                    "[   6672] worker w0.1 at host0:1: left\n"
                    "[   6674] worker 0: stops\n"
                    "[   7674] worker 0: starts at host0:1\n"
                    "[   7680] worker w0.1 at host0:1: registered\n");
    assert_false(sim->workers_lost);
    assert_int_equal(sim->rares[SIM_RARE_DRAINED], 1);
}

/* Somebody asks the leader for it, which dies when it is stored: the worker hears of it all the
 * same. */
static void who_was_told_to_drain_drains_under_the_next_leader(void **state)
{
    struct sim *sim = *state;
    Millrace__DrainWorkerRequest request = MILLRACE__DRAIN_WORKER_REQUEST__INIT;

    story_read(sim, 2, 1, NUMBERS, false);
    sim_run_until(sim, sim->now + 500);
    int leader = sim_leader(sim);

    sim_cut(sim, SIM_NODE_REPLICA(leader), SIM_NODE_WORKER(0), false, 3000);
    request.worker = sim->workers[0].address;
    sim_probe(sim, 0, leader, MR_COMMAND_DRAIN_WORKER, &request.base);
    while (sim->probe_answers == 0) {
        assert_true(sim_step(sim));
    }
    assert_int_equal(sim->probe_code, 0);
    assert_false(sim->workers[0].draining);
    sim_kill_replica(sim, leader, 1000);
    sim_run_until(sim, 100000);
    story_ends_well(sim, sim->now, NULL);
    assert_false(sim->workers_lost);
    assert_int_equal(sim->rares[SIM_RARE_DRAINED], 1);
}

static void if_it_gave_back_what_it_has_opened_it_would_come_twice(void **state)
{
    struct sim *sim = *state;

    sim->bug = SIM_BUG_OPENED_IS_GIVEN_BACK;
    it_drains(sim);
    assert_non_null(strstr(sim->violation, "an element was returned"));
}

/* The other one had nothing to do any more, and was told so. */
static void what_is_given_back_after_the_end_gets_a_recovery_task(void **state)
{
    struct sim *sim = *state;

    story_begin(sim, 2, 1, FEW, false);
    story_until_stored(sim, "grants/");
    while (strstr(story_said(sim), "w1.3.2: end of provider 0") == NULL) {
        assert_true(sim_step(sim));
    }
    sim_worker_drain(sim, &sim->workers[0], 30000);
    story_ends_well(sim, 60000,
                    "[    111] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                    "[    111] worker 0: drains\n"
                    "[    114] the state uses draining: older versions refuse it from now on\n"
                    "[    114] worker w0.1 at host0:1: drains\n"
                    "[    114] task 3.4/w0.3.1: gives 1 splits of provider 0 back\n"
                    "[    114] task 3.4/w0.3.1: end of provider 0, repetition 0\n"
                    "[    114] task 3.4/w1.3.2/1: opened, a recovery task\n"
                    "[    122] task 3.4/w1.3.2/1: end of provider 0, repetition 0\n"
                    "[    505] task 3.4/w0.3.1: drained\n"
                    "[    505] task 3.4/w1.3.2: ended\n"
                    "[    505] task 3.4/w1.3.2/1: ended\n"
                    "[    505] iteration 3.4: finished\n"
                    "[    509] client 0: end of repetition 0\n"
                    "[    510] client c0: left iteration 3.4\n"
                    "[    514] client 0: has read everything\n"
                    "[   1015] worker w0.1 at host0:1: left\n"
                    "[   1019] worker 0: stops\n"
                    "[   2019] worker 0: starts at host0:2\n"
                    "[   2023] worker w0.1 at host0:2: registered\n");
    assert_non_null(strstr(story_said(sim), "w1.3.2/1: opened, a recovery task"));
    assert_false(sim->workers_lost);
}

/* A worker sleeps until nobody knows it any more, in the middle of a read whose application has a
 * pause, too. */
static void it_is_away_until_it_is_forgotten(struct sim *sim, bool repeats, const char *lines)
{
    story_read(sim, 2, 1, NUMBERS, repeats);
    sim->clients[0].plan.slow = true;
    sim->workers[0].process.frozen_until =
        sim->now + 620000; /* worker timeout and retention, and a little more */
    while (sim_store_count(sim, "workers/") > 1 || sim->now < 10000) {
        assert_true(sim_step(sim));
    }
    assert_true(sim->workers[0].process.frozen_until > sim->now);
    sim_run_until(sim, sim->workers[0].process.frozen_until + 10);
    sim->clients[0].plan.slow = false;
    story_ends_well(sim, sim->now + 60000, lines);
    assert_int_equal(sim_store_count(sim, "workers/"), 2);
}

static void who_comes_back_after_being_forgotten_is_somebody_else(void **state)
{
    it_is_away_until_it_is_forgotten(*state, false,
                                     "[   5108] worker w0.1 at host0:1: lost\n"
                                     "[   5108] iteration 3.4 of job digits: 20 splits lost\n"
                                     "[   5108] task 3.4/w0.3.1: lost\n"
                                     "[ 620167] worker w0.1 at host0:1: registered\n"
                                     "[ 622807] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                                     "[ 622876] task 3.4/w0.3.6: end of provider 0, repetition 0\n"
                                     "[ 623105] task 3.4/w1.3.2: ended\n"
                                     "[ 623105] task 3.4/w0.3.6: ended\n"
                                     "[ 623107] client 0: end of repetition 0\n"
                                     "[ 623108] client c0: left iteration 3.4\n"
                                     "[ 623110] client 0: has read everything\n");
}

static void at_least_once_too(void **state)
{
    it_is_away_until_it_is_forgotten(*state, true,
                                     "[   5108] worker w0.1 at host0:1: lost\n"
                                     "[   5108] task 3.4/w0.3.1: lost\n"
                                     "[ 620167] worker w0.1 at host0:1: registered\n"
                                     "[ 623807] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                                     "[ 623876] task 3.4/w0.3.6: end of provider 0, repetition 0\n"
                                     "[ 624007] task 3.4/w1.3.2: ended\n"
                                     "[ 624107] task 3.4/w0.3.6: ended\n"
                                     "[ 624107] iteration 3.4: 20 splits were repeated\n"
                                     "[ 624110] client 0: end of repetition 0\n"
                                     "[ 624111] client c0: left iteration 3.4\n"
                                     "[ 624113] client 0: has read everything\n");
}

/* Nobody is there to recover on; whoever comes next does. */
static void with_nobody_left_the_next_worker_recovers(void **state)
{
    struct sim *sim = *state;

    sim->buffer_size = 10;
    story_read(sim, 1, 1, NUMBERS, true);
    sim_run_until(sim, sim->now + 3000);
    sim_worker_stop(sim, &sim->workers[0]);
    sim_run_until(sim, 40000);
    assert_false(sim_all_done(sim));
    sim_worker_start(sim, &sim->workers[0]);
    story_ends_well(sim, 100000,
                    "[   3109] worker 0: stops\n"
                    "[   8027] worker w0.1 at host0:1: lost\n"
                    "[   8027] task 3.3/w0.3.1: lost\n"
                    "[  40000] worker 0: starts at host0:1\n"
                    "[  40004] worker w0.1 at host0:1: registered\n"
                    "[  49912] task 3.3/w0.3.5: end of provider 0, repetition 0\n"
                    "[  50405] task 3.3/w0.3.5: ended\n"
                    "[  50405] iteration 3.3: 60 splits were repeated\n"
                    "[  50408] client 0: end of repetition 0\n"
                    "[  50409] client c0: left iteration 3.3\n"
                    "[  50411] client 0: has read everything\n");
}

/* Nobody else is given up with @split. */
static void expect_given_up(const struct sim *sim, const char *split)
{
    const char *first = strstr(story_said(sim), " is quarantined");

    assert_non_null(first);
    assert_non_null(strstr(story_said(sim), split));
    assert_null(strstr(first + 1, " is quarantined"));
}

/* Whoever reads split 5 dies of it. */
static void a_split_that_kills_is_given_up(void **state)
{
    struct sim *sim = *state;

    story_begin(sim, 2, 1, POISON, true);
    story_ends_well(sim, 300000, NULL);
    assert_int_equal(sim->rares[SIM_RARE_QUARANTINE], 0); /* the job fails instead, and says why */
    expect_given_up(sim, "split 5 of provider 0 is quarantined");
    assert_non_null(strstr(story_said(sim), "failed, split 5"));
}

static void with_ignore_errors_the_rest_is_read(void **state)
{
    struct sim *sim = *state;

    story_begin(sim, 1, 1, BITTER, true);
    story_ends_well(sim, 300000, NULL);
    expect_given_up(sim, "split 7 of provider 0 is quarantined");
    assert_int_equal(sim->rares[SIM_RARE_QUARANTINE], 1);
}

/* One of two readers dies with elements that it had received, and its application had not. */
static void a_reader_dies(struct sim *sim, bool repeats, const char *lines)
{
    story_read(sim, 1, 2, NUMBERS, repeats);
    sim->clients[1].plan.slow = true;
    sim_run_until(sim, 2950);
    sim_client_stop(sim, &sim->clients[1]);
    sim->clients[1].done = true;
    story_ends_well(sim, 100000, lines);
}

static void what_a_dead_reader_had_goes_to_another_one(void **state)
{
    struct sim *sim = *state;

    a_reader_dies(sim, true,
                  "[   2950] client 1: stops\n"
                  "[  10011] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                  "[  10620] client c1: lost to iteration 3.3\n"
                  "[  10705] task 3.3/w0.3.1: ended\n"
                  "[  10705] iteration 3.3: finished\n"
                  "[  10707] client 0: end of repetition 0\n"
                  "[  10708] client c0: left iteration 3.3\n"
                  "[  10712] client 0: has read everything\n");
    assert_true(sim->rares[SIM_RARE_REDELIVERED] > 0);
    assert_int_equal(sim->rares[SIM_RARE_REPEATED], 0);
}

static void at_most_once_it_goes_to_nobody(void **state)
{
    struct sim *sim = *state;

    a_reader_dies(sim, false,
                  "[   2950] client 1: stops\n"
                  "[  10011] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                  "[  10620] client c1: lost to iteration 3.3\n"
                  "[  10623] task 3.3/w0.3.1: ended\n"
                  "[  10623] iteration 3.3: finished\n"
                  "[  10626] client 0: end of repetition 0\n"
                  "[  10627] client c0: left iteration 3.3\n"
                  "[  10629] client 0: has read everything\n");
    assert_int_equal(sim->rares[SIM_RARE_REDELIVERED], 0);
    assert_int_equal(sim->rares[SIM_RARE_MISSING], 1);
}

/* A process starts where another one lives, in another container, say: who is connected keeps the
 * address, and the newer one has it when that is over. */
static void one_address_is_one_worker(void **state)
{
    struct sim *sim = *state;

    story_read(sim, 2, 1, NUMBERS, false);
    sim_worker_stop(sim, &sim->workers[1]);
    sim_worker_start_at(sim, &sim->workers[1], sim->workers[0].address);
    sim_run_until(sim, sim->now + 300);
    assert_int_equal(sim->rares[SIM_RARE_SUPERSEDED], 0);
    sim_worker_stop(sim, &sim->workers[0]);
    sim_run_until(sim, sim->now + 1000);
    assert_int_equal(sim->rares[SIM_RARE_SUPERSEDED], 1);
    story_ends_well(sim, 60000,
                    "[    109] worker 1: stops\n"
                    "[    109] worker 1: starts at host0:1\n"
                    "[    409] worker 0: stops\n"
                    "[    551] worker w0.1 at host0:1: superseded\n"
                    "[    551] iteration 3.4 of job digits: 20 splits lost\n"
                    "[    551] task 3.4/w0.3.1: lost\n"
                    "[    551] worker w1.1 at host0:1: registered\n"
                    "[   5108] worker w1.1 at host1:1: lost\n"
                    "[   5108] iteration 3.4 of job digits: 20 splits lost\n"
                    "[   5108] task 3.4/w1.3.2: lost\n"
                    "[   6459] task 3.4/w1.3.6: end of provider 0, repetition 0\n"
                    "[   6705] task 3.4/w1.3.6: ended\n"
                    "[   6709] client 0: end of repetition 0\n"
                    "[   6710] client c0: left iteration 3.4\n"
                    "[   6713] client 0: has read everything\n");
}

/* ---------------------------------------------------------------- liveness */

/* The store was started again and has given the lease a longer time; the leader sleeps for twelve
 * seconds of it. */
static void a_leader_sleeps(struct sim *sim)
{
    sim_add_workers(sim, 2);
    sim_add_clients(sim, 1);
    sim_run_until(sim, 10000);
    sim_keep_leading(sim, 0, 20000);
    sim->replicas[0].process.frozen_until = sim->now + 12000;
    sim_run_until(sim, 30000);
    assert_int_equal(sim->rares[SIM_RARE_PAUSED_WITH_LEASE], 1);
}

static void a_leader_that_slept_gives_nobody_up(void **state)
{
    struct sim *sim = *state;

    a_leader_sleeps(sim);
    assert_string_equal(sim->violation, "");
    assert_int_equal(sim->rares[SIM_RARE_WORKER_LOST], 0);
}

static void if_deadlines_did_not_move_it_would(void **state)
{
    struct sim *sim = *state;

    sim->bug = SIM_BUG_LATENESS_IGNORED;
    a_leader_sleeps(sim);
    assert_non_null(strstr(sim->violation, "was given up"));
}

/* A leader that hears none of its workers, but the store, has lost itself rather than them. */
static void a_leader_that_hears_nobody_brakes(void **state)
{
    struct sim *sim = *state;

    sim_add_workers(sim, 4);
    sim_add_clients(sim, 1);
    sim_run_until(sim, 10000);
    mr_sim_skip(sim);
    for (int i = 0; i < 4; i++) {
        sim_cut(sim, SIM_NODE_WORKER(i), SIM_NODE_REPLICA(0), true /* one_way */,
                SIM_WORKER_TIMEOUT_MS + 3000);
    }
    mr_sim_expect(sim, "[  14555] 4 of 4 workers are silent: one more grace\n");
    sim_run_until(sim, 30000);
    mr_sim_expect(sim, "");
}

/* A reader hears what is missing; so does one that asks later. */
static void the_end_says_what_was_lost(void **state)
{
    struct sim *sim = *state;

    story_read(sim, 2, 1, NUMBERS, false);
    sim_run_until(sim, sim->now + 3000);
    sim_worker_stop(sim, &sim->workers[0]);
    story_ends_well(sim, 100000,
                    "[   3109] worker 0: stops\n"
                    "[   5911] task 3.4/w1.3.2: end of provider 0, repetition 0\n"
                    "[   6107] task 3.4/w1.3.2: ended\n"
                    "[   8027] worker w0.1 at host0:1: lost\n"
                    "[   8027] iteration 3.4 of job digits: 41 splits lost\n"
                    "[   8027] task 3.4/w0.3.1: lost\n"
                    "[   8031] client 0: end of repetition 0\n"
                    "[   8032] client c0: left iteration 3.4\n"
                    "[   8036] client 0: has read everything\n");
    assert_non_null(strstr(story_said(sim), "finished, workers lost: 1, splits lost: "));
}

/* Long after everybody has read repetition 0, and its record is gone, somebody wants to read it. */
static void what_has_ended_is_never_run_again(void **state)
{
    struct sim *sim = *state;

    sim_add_workers(sim, 1);
    sim_add_clients(sim, 2);
    story_plan(sim, 0, "digits", FEW, true);
    story_plan(sim, 1, "digits", FEW, true);
    sim_run_until(sim, 100);
    sim_client_start(sim, &sim->clients[0]);
    sim_run_until(sim, 2000 * 1000);
    assert_int_equal(sim_store_count(sim, "iterations/"), 0);
    sim_kill_replica(sim, 0, 1000);
    sim_client_start(sim, &sim->clients[1]);
    story_ends_well(sim, sim->now + 20000,
                    "[      0] worker 0: starts at host0:1\n"
                    "[     13] dispatcher 0: leads\n"
                    "[     17] worker w0.1 at host0:1: registered\n"
                    "[    100] client 0: starts\n"
                    "[    101] dataset few: registered, few\n"
                    "[    104] job digits: created, DYNAMIC\n"
                    "[    104] iteration 3.3: repetition 0 of job digits\n"
                    "[    104] client c0: attached to iteration 3.3\n"
                    "[    311] task 3.3/w0.3.1: end of provider 0, repetition 0\n"
                    "[    607] task 3.3/w0.3.1: ended\n"
                    "[    607] iteration 3.3: finished\n"
                    "[    610] client 0: end of repetition 0\n"
                    "[    611] client c0: left iteration 3.3\n"
                    "[    615] client 0: has read everything\n"
                    "[ 600607] iteration 3.3: forgotten\n"
                    "[2000000] dispatcher 0: killed\n"
                    "[2000000] client 1: starts\n"
                    "[2000069] dispatcher 1: leads\n"
                    "[2000443] client 1: repetition 0 has ended already\n"
                    "[2000443] client 1: has read everything\n");
    assert_int_equal(sim_store_count(sim, "iterations/"), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, story_setup, story_teardown)
    const struct CMUnitTest tests[] = {
        T(a_read_that_shows_nothing_settles_nothing),
        T(settled_by_a_read_a_split_is_given_that_nobody_wrote_down),
        T(a_deposed_leader_does_not_say_no),
        T(what_is_decided_counts_before_it_is_committed),
        T(decided_on_what_is_committed_one_split_goes_to_two),
        T(a_paused_leader_captures_no_worker),
        T(answering_before_it_knows_it_would),
        T(an_isolated_leader_falls_silent),
        T(what_a_dead_worker_had_in_its_hands_is_read_again),
        T(if_read_were_finished_it_would_be_missing),
        T(what_comes_back_after_the_end_gets_a_recovery_task),
        T(a_worker_that_drains_loses_nothing),
        T(who_was_told_to_drain_drains_under_the_next_leader),
        T(a_worker_does_not_leave_before_it_is_written_that_it_drains),
        T(if_it_gave_back_what_it_has_opened_it_would_come_twice),
        T(what_is_given_back_after_the_end_gets_a_recovery_task),
        T(who_comes_back_after_being_forgotten_is_somebody_else),
        T(at_least_once_too),
        T(with_nobody_left_the_next_worker_recovers),
        T(a_split_that_kills_is_given_up),
        T(with_ignore_errors_the_rest_is_read),
        T(what_a_dead_reader_had_goes_to_another_one),
        T(at_most_once_it_goes_to_nobody),
        T(one_address_is_one_worker),
        T(a_leader_that_slept_gives_nobody_up),
        T(if_deadlines_did_not_move_it_would),
        T(a_leader_that_hears_nobody_brakes),
        T(the_end_says_what_was_lost),
        T(what_has_ended_is_never_run_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
