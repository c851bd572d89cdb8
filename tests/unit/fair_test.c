/*
 * The division of cores between jobs, in virtual time: threads that compute for some time, and may
 * rest for some, run on cores of a model. What each job had is compared with its share.
 */
#include "base/base.h"
#include "base/clock.h"
#include "base/fair.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define THREADS_MAX 64
#define SECOND MR_NS_PER_S
#define MS MR_NS_PER_MS

struct thread {
    struct mr_fair_piece piece; /* first member */
    struct mr_fair_share *job;
    int64_t piece_ns; /* of core time that one of its pieces takes */
    int64_t rest_ns;  /* between two pieces; 0: it wants the next one at once */
    int64_t begins_ns;
    int64_t left_ns; /* of the piece */
    int64_t had_ns;
    bool stuck; /* it runs, as far as anybody knows, and uses no core */
};

struct model {
    struct mr_fair fair;
    int64_t now_ns;
    struct thread threads[THREADS_MAX];
    uint32_t n;
    uint32_t most; /* that ran at a time */
};

static void model_init(struct model *m, uint32_t cores)
{
    *m = (struct model){0};
    mr_fair_init(&m->fair, cores);
}

static struct mr_fair_share *add_owner(struct model *m, struct mr_fair_share *owner,
                                       uint32_t weight)
{
    mr_fair_share_init(owner, &m->fair.root, weight);
    return owner;
}

/* Of @owner, with @threads alike. */
static struct thread *add_job(struct model *m, struct mr_fair_share *job,
                              struct mr_fair_share *owner, uint32_t weight, uint32_t threads)
{
    struct thread *first = &m->threads[m->n];

    mr_fair_share_init(job, owner, weight);
    assert_true(m->n + threads <= THREADS_MAX);
    while (threads-- > 0) {
        m->threads[m->n++] = (struct thread){.job = job, .piece_ns = MS};
    }
    return first;
}

static bool runs(const struct thread *t)
{
    return t->left_ns > 0;
}

static void let_go(struct model *m)
{
    struct mr_fair_piece *piece;
    uint32_t running = 0;

    while ((piece = mr_fair_next(&m->fair, m->now_ns)) != NULL) {
        struct thread *t = (struct thread *)piece;

        t->left_ns = t->piece_ns;
    }
    for (uint32_t i = 0; i < m->n; i++) {
        running += runs(&m->threads[i]);
    }
    assert_int_equal(running, m->fair.root.running);
    m->most = MR_MAX(m->most, running);
}

/* @t is through with its piece: what it used is charged, and it is in line again, or rests. */
static void end_piece(struct model *m, struct thread *t)
{
    int64_t since_ns = t->piece.since_ns;

    if (t->rest_ns == 0) {
        mr_fair_wait(&m->fair, &t->piece, t->job, m->now_ns);
    } else {
        t->begins_ns = m->now_ns + t->rest_ns;
    }
    mr_fair_charge(t->job, t->stuck ? 0 : t->piece_ns);
    mr_fair_stop(&m->fair, t->job, since_ns);
}

/* The kernel divides the cores evenly between the threads that run. */
static void run(struct model *m, int64_t ns)
{
    const int64_t tick = MS / 10;

    for (int64_t until = m->now_ns + ns; m->now_ns < until; m->now_ns += tick) {
        uint32_t computing = 0;

        for (uint32_t i = 0; i < m->n; i++) {
            struct thread *t = &m->threads[i];

            if (!runs(t) && !t->piece.waits && t->begins_ns <= m->now_ns) {
                mr_fair_wait(&m->fair, &t->piece, t->job, m->now_ns);
            }
        }
        let_go(m);
        for (uint32_t i = 0; i < m->n; i++) {
            computing += runs(&m->threads[i]) && !m->threads[i].stuck;
        }
        for (uint32_t i = 0; i < m->n; i++) {
            struct thread *t = &m->threads[i];

            if (runs(t)) {
                int64_t part =
                    t->stuck ? tick : tick * MR_MIN(m->fair.cores, computing) / computing;

                t->had_ns += t->stuck ? 0 : part;
                t->left_ns -= MR_MIN(part, t->left_ns);
                if (t->left_ns == 0) {
                    end_piece(m, t);
                }
            }
        }
    }
}

/* Core time of @job since the last call. */
static int64_t take_had(struct model *m, const struct mr_fair_share *job)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < m->n; i++) {
        if (m->threads[i].job == job) {
            sum += m->threads[i].had_ns;
            m->threads[i].had_ns = 0;
        }
    }
    return sum;
}

/* To three parts in a hundred. */
static void assert_near(int64_t have, int64_t want)
{
    if (have < want - want * 3 / 100 || have > want + want * 3 / 100) {
        fail_msg("had %" PRId64 " us, not %" PRId64, have / 1000, want / 1000);
    }
}

static void two_equal_jobs_get_equal_parts(void **state)
{
    for (uint32_t cores = 1; cores <= 4; cores++) {
        struct mr_fair_share owner, a, b;
        struct model m;

        model_init(&m, cores);
        add_owner(&m, &owner, 100);
        (void)add_job(&m, &a, &owner, 100, 4);
        (void)add_job(&m, &b, &owner, 100, 4);
        run(&m, SECOND);
        assert_near(take_had(&m, &a), cores * SECOND / 2);
        assert_near(take_had(&m, &b), cores * SECOND / 2);
    }
}

static void many_threads_get_no_more_than_one(void **state)
{
    struct mr_fair_share owner, greedy, quiet;
    struct model m;

    model_init(&m, 2);
    add_owner(&m, &owner, 100);
    (void)add_job(&m, &greedy, &owner, 100, 16);
    (void)add_job(&m, &quiet, &owner, 100, 1);
    run(&m, SECOND);
    assert_near(take_had(&m, &quiet), SECOND);
    assert_near(take_had(&m, &greedy), SECOND);
    assert_int_equal(m.most, 2);
}

static void long_pieces_get_no_more_than_short_ones(void **state)
{
    struct mr_fair_share owner, coarse, fine;
    struct model m;

    model_init(&m, 1);
    add_owner(&m, &owner, 100);
    struct thread *t = add_job(&m, &coarse, &owner, 100, 1);
    t->piece_ns = 200 * MS;
    (void)add_job(&m, &fine, &owner, 100, 1);
    run(&m, 20 * SECOND);
    assert_near(take_had(&m, &fine), 10 * SECOND);
    assert_near(take_had(&m, &coarse), 10 * SECOND);
}

static void what_one_does_not_want_is_the_others(void **state)
{
    struct mr_fair_share owner, greedy, sleepy;
    struct model m;

    model_init(&m, 2);
    add_owner(&m, &owner, 100);
    (void)add_job(&m, &greedy, &owner, 100, 8);
    struct thread *t = add_job(&m, &sleepy, &owner, 100, 1);
    t->rest_ns = 9 * MS;
    run(&m, SECOND);
    int64_t had = take_had(&m, &sleepy);
    assert_true(had > SECOND / 12 && had <= SECOND / 10);
    assert_near(take_had(&m, &greedy), 2 * SECOND - had);
}

static void who_comes_late_has_its_share_at_once_and_no_more(void **state)
{
    struct mr_fair_share owner, a, b;
    struct model m;

    model_init(&m, 1);
    add_owner(&m, &owner, 100);
    (void)add_job(&m, &a, &owner, 100, 8);
    struct thread *t = add_job(&m, &b, &owner, 100, 8);
    for (uint32_t i = 0; i < 8; i++) {
        t[i].begins_ns = 10 * SECOND;
    }
    run(&m, 10 * SECOND);
    assert_near(take_had(&m, &a), 10 * SECOND);
    run(&m, 100 * MS);
    assert_near(take_had(&m, &b), 50 * MS);
    assert_near(take_had(&m, &a), 50 * MS);
}

static void who_was_idle_has_saved_nothing(void **state)
{
    struct mr_fair_share owner, a, b;
    struct model m;

    model_init(&m, 1);
    add_owner(&m, &owner, 100);
    (void)add_job(&m, &a, &owner, 100, 2);
    struct thread *t = add_job(&m, &b, &owner, 100, 1);
    run(&m, SECOND);
    t->rest_ns = 5 * SECOND;
    run(&m, 5 * SECOND);
    t->rest_ns = 0;
    run(&m, SECOND);
    (void)take_had(&m, &a);
    (void)take_had(&m, &b);
    run(&m, 100 * MS);
    assert_near(take_had(&m, &a), 50 * MS);
    assert_near(take_had(&m, &b), 50 * MS);
}

static void parts_go_by_weight(void **state)
{
    struct mr_fair_share owner, a, b, c;
    struct model m;

    model_init(&m, 2);
    add_owner(&m, &owner, 100);
    (void)add_job(&m, &a, &owner, 400, 4);
    (void)add_job(&m, &b, &owner, 300, 4);
    (void)add_job(&m, &c, &owner, 100, 4);
    run(&m, 4 * SECOND);
    assert_near(take_had(&m, &a), 4 * SECOND);
    assert_near(take_had(&m, &b), 3 * SECOND);
    assert_near(take_had(&m, &c), 1 * SECOND);
}

static void many_jobs_of_an_owner_get_no_more_than_one_of_another(void **state)
{
    struct mr_fair_share noisy, quiet, many[8], one;
    struct model m;

    model_init(&m, 2);
    add_owner(&m, &noisy, 100);
    add_owner(&m, &quiet, 300);
    for (uint32_t i = 0; i < 8; i++) {
        (void)add_job(&m, &many[i], &noisy, 100, 4);
    }
    (void)add_job(&m, &one, &quiet, 100, 4);
    run(&m, 4 * SECOND);
    assert_near(take_had(&m, &one), 6 * SECOND);
    for (uint32_t i = 0; i < 8; i++) {
        assert_near(take_had(&m, &many[i]), SECOND / 4);
    }
}

static void who_waits_for_something_unknown_holds_nobody_up(void **state)
{
    struct mr_fair_share owner, stuck, other;
    struct model m;

    model_init(&m, 2);
    add_owner(&m, &owner, 100);
    struct thread *t = add_job(&m, &stuck, &owner, 100, 2);
    for (uint32_t i = 0; i < 2; i++) {
        t[i].stuck = true;
        t[i].piece_ns = 100 * SECOND;
    }
    t = add_job(&m, &other, &owner, 100, 2);
    t[0].begins_ns = t[1].begins_ns = 10 * MS;
    run(&m, SECOND);
    assert_true(take_had(&m, &other) > SECOND * 8 / 10); /* of one core, which is beyond the two */
    assert_int_equal(m.most, 3);
}

/* Nor do many that do, of a job that was alone until then. */
static void a_job_that_was_alone_keeps_nobody_out(void **state)
{
    struct mr_fair_share owner, stuck, other;
    struct model m;

    model_init(&m, 2);
    add_owner(&m, &owner, 100);
    struct thread *t = add_job(&m, &stuck, &owner, 100, 8);
    for (uint32_t i = 0; i < 8; i++) {
        t[i].stuck = true;
        t[i].piece_ns = 100 * SECOND;
    }
    t = add_job(&m, &other, &owner, 100, 1);
    t[0].begins_ns = 10 * MS;
    run(&m, SECOND);
    assert_true(take_had(&m, &other) > SECOND * 8 / 10);
    assert_int_equal(m.most, 5);
}

static void who_withdraws_is_not_in_line(void **state)
{
    struct mr_fair_share owner, a, b;
    struct mr_fair_piece first = {0}, second = {0}, third = {0};
    struct mr_fair f;

    mr_fair_init(&f, 1);
    mr_fair_share_init(&owner, &f.root, 100);
    mr_fair_share_init(&a, &owner, 100);
    mr_fair_share_init(&b, &owner, 100);
    mr_fair_wait(&f, &first, &a, 0);
    mr_fair_wait(&f, &second, &a, 0);
    mr_fair_wait(&f, &third, &b, 0);
    mr_fair_withdraw(&f, &second);
    assert_ptr_equal(mr_fair_next(&f, 0), &first);
    assert_null(mr_fair_next(&f, 0));
    mr_fair_stop(&f, &a, 0);
    assert_int_equal(a.wanting, 0);
    assert_ptr_equal(mr_fair_next(&f, 0), &third);
    assert_null(mr_fair_any(&f, 0));
    mr_fair_forget(&f);
    assert_int_equal(f.root.wanting + f.root.running + owner.running + b.wanting, 0);
    assert_true(TAILQ_EMPTY(&f.jobs));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_equal_jobs_get_equal_parts),
        cmocka_unit_test(many_threads_get_no_more_than_one),
        cmocka_unit_test(long_pieces_get_no_more_than_short_ones),
        cmocka_unit_test(what_one_does_not_want_is_the_others),
        cmocka_unit_test(who_comes_late_has_its_share_at_once_and_no_more),
        cmocka_unit_test(who_was_idle_has_saved_nothing),
        cmocka_unit_test(parts_go_by_weight),
        cmocka_unit_test(many_jobs_of_an_owner_get_no_more_than_one_of_another),
        cmocka_unit_test(who_waits_for_something_unknown_holds_nobody_up),
        cmocka_unit_test(a_job_that_was_alone_keeps_nobody_out),
        cmocka_unit_test(who_withdraws_is_not_in_line),
    };

    return cmocka_run_group_tests_name("fair", tests, NULL, NULL);
}
