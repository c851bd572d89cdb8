/* A worker's session with the dispatchers (src/worker/session/registration.h), as it is told. */
#include "worker/session/registration.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define BEAT_MS 1000

/* The dispatchers, and what the session did. */
struct world {
    struct mr_registration registration;
    int64_t now;
    const char *incarnation; /* of the cluster that answers */
    int register_code, beat_code;
    uint64_t version;
    char said[2000];
    size_t len;
};

static void say(struct world *w, const char *what)
{
    w->len += (size_t)snprintf(w->said + w->len, sizeof w->said - w->len, "[%5lld] %s\n",
                               (long long)w->now, what);
}

static void expect(struct world *w, const char *lines)
{
    assert_string_equal(w->said, lines);
    w->len = 0;
    w->said[0] = '\0';
}

static void do_register(struct world *w)
{
    struct mr_registration *s = &w->registration;

    if (w->register_code < 0) {
        (void)mr_registration_failed(s, w->now, 0);
        say(w, "register: no answer");
    } else if (mr_registration_registered(s, w->now, "c", w->incarnation, 1, BEAT_MS)) {
        say(w, "register");
    } else {
        say(w, "register: another cluster");
    }
}

/* All that is due until @until. */
static void run(struct world *w, int64_t until)
{
    struct mr_registration *s = &w->registration;

    while (w->now <= until) {
        int64_t next = 0;

        enum mr_registration_step step = mr_registration_next(s, w->now, &next);

        switch (step) {
        case MR_REGISTRATION_DROP_TASKS: say(w, "drop tasks"); break;
        case MR_REGISTRATION_BEGIN_LIFE: say(w, "begin another life"); break;
        case MR_REGISTRATION_REGISTER: do_register(w); break;
        case MR_REGISTRATION_WATCH: say(w, "watch"); break;
        case MR_REGISTRATION_BEAT:
            say(w, w->beat_code < 0 ? "heartbeat: refused" : "heartbeat");
            mr_registration_beats(s);
            (void)mr_registration_beaten(s, w->now, w->beat_code, w->incarnation);
            break;
        case MR_REGISTRATION_REST:
            assert_true(next > w->now);
            w->now = next;
            break;
        }
        mr_registration_done(s, step);
    }
    w->now = until;
}

static int setup(void **state)
{
    static struct world w;

    w = (struct world){.incarnation = "1"};
    mr_registration_init(&w.registration, 0);
    *state = &w;
    return 0;
}

/* A list of tasks comes, of all of them or behind @follows. */
static enum mr_registration_update update(struct world *w, uint64_t follows, uint64_t version)
{
    enum mr_registration_update is =
        mr_registration_update(&w->registration, w->incarnation, 1, follows);

    if (is == MR_REGISTRATION_APPLY) {
        mr_registration_applied(&w->registration, version);
    }
    return is;
}

static void it_registers_watches_and_beats(void **state)
{
    struct world *w = *state;

    run(w, 2500);
    expect(w, "[    0] register\n"
              "[    0] watch\n"
              "[ 1000] heartbeat\n"
              "[ 2000] heartbeat\n");
    mr_registration_want_beat(&w->registration);
    run(w, 3400);
    expect(w, "[ 2500] heartbeat\n");
}

static void without_an_answer_it_tries_again(void **state)
{
    struct world *w = *state;

    w->register_code = MR_EUNAVAIL;
    run(w, 0);
    expect(w, "[    0] register: no answer\n");
    assert_false(w->registration.registered);
    w->register_code = MR_OK;
    run(w, 500);
    assert_true(w->registration.registered);
}

static void who_is_not_known_drops_its_tasks(void **state)
{
    struct world *w = *state;

    run(w, 500);
    w->beat_code = MR_ENOTFOUND;
    run(w, 1000);
    expect(w, "[    0] register\n"
              "[    0] watch\n"
              "[ 1000] heartbeat: refused\n"
              "[ 1000] drop tasks\n"
              "[ 1000] register\n"
              "[ 1000] watch\n");
}

/* Another process at its address, or a dispatcher of another cluster: that may pass. */
static void who_is_replaced_keeps_its_tasks(void **state)
{
    struct world *w = *state;

    run(w, 500);
    mr_registration_refused(&w->registration, MR_EPRECOND);
    w->register_code = MR_EPRECOND;
    run(w, 500);
    w->register_code = MR_OK;
    run(w, 999);
    assert_null(strstr(w->said, "drop tasks"));
    assert_non_null(strstr(w->said, "register: no answer\n"));
    assert_true(w->registration.watching);
}

static void another_cluster_is_another_life(void **state)
{
    struct world *w = *state;

    run(w, 500);
    assert_int_equal(update(w, 0, 7), MR_REGISTRATION_APPLY);
    w->incarnation = "2";
    assert_int_equal(update(w, 7, 8), MR_REGISTRATION_ANOTHER_CLUSTERS);
    run(w, 600);
    expect(w, "[    0] register\n"
              "[    0] watch\n"
              "[  500] register: another cluster\n"
              "[  500] drop tasks\n"
              "[  500] begin another life\n"
              "[  500] register\n"
              "[  500] watch\n");
    assert_string_equal(w->registration.cluster.incarnation, "2");
}

static void a_missed_update_asks_for_all(void **state)
{
    struct world *w = *state;

    run(w, 500);
    assert_false(w->registration.listed);
    assert_int_equal(update(w, 0, 7), MR_REGISTRATION_APPLY);
    assert_true(w->registration.listed);
    assert_int_equal(update(w, 7, 8), MR_REGISTRATION_APPLY);
    assert_int_equal(update(w, 9, 10), MR_REGISTRATION_MISSED);
    expect(w, "[    0] register\n"
              "[    0] watch\n");
    run(w, 600);
    expect(w, "[  500] register\n"
              "[  500] watch\n");
}

/* A task could not be started: with the next heartbeat that is answered, not before. */
static void the_list_is_wanted_again(void **state)
{
    struct world *w = *state;

    run(w, 500);
    mr_registration_want_list(&w->registration);
    run(w, 1500);
    expect(w, "[    0] register\n"
              "[    0] watch\n"
              "[ 1000] heartbeat\n"
              "[ 1000] register\n"
              "[ 1000] watch\n");
}

static void a_list_is_final_when_it_was_applied(void **state)
{
    struct world *w = *state;

    run(w, 500);
    (void)update(w, 0, 7);
    assert_false(mr_registration_note_final(&w->registration, 8));
    assert_false(w->registration.list_is_final);
    (void)update(w, 7, 8);
    assert_true(mr_registration_note_final(&w->registration, 8));
    assert_false(mr_registration_note_final(&w->registration, 8));
    assert_true(w->registration.list_is_final);
}

static void silence_is_told_once(void **state)
{
    struct mr_registration *s = &((struct world *)*state)->registration;

    run(*state, 500);
    assert_int_equal(mr_registration_beaten(s, 1000, MR_EUNAVAIL, "1"), MR_REGISTRATION_SILENT);
    assert_int_equal(mr_registration_beaten(s, 2000, MR_EUNAVAIL, "1"),
                     MR_REGISTRATION_NOTHING_NEW);
    assert_int_equal(mr_registration_beaten(s, 3000, MR_OK, "1"), MR_REGISTRATION_HEARD);
    assert_int_equal(mr_registration_beaten(s, 4000, MR_OK, "1"), MR_REGISTRATION_NOTHING_NEW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_registers_watches_and_beats, setup),
        cmocka_unit_test_setup(without_an_answer_it_tries_again, setup),
        cmocka_unit_test_setup(who_is_not_known_drops_its_tasks, setup),
        cmocka_unit_test_setup(who_is_replaced_keeps_its_tasks, setup),
        cmocka_unit_test_setup(another_cluster_is_another_life, setup),
        cmocka_unit_test_setup(a_missed_update_asks_for_all, setup),
        cmocka_unit_test_setup(the_list_is_wanted_again, setup),
        cmocka_unit_test_setup(a_list_is_final_when_it_was_applied, setup),
        cmocka_unit_test_setup(silence_is_told_once, setup),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
