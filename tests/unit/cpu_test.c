/*
 * The gate to the cores. The clocks are this test's: time passes when it says so, and a thread has
 * used what it says that it has.
 */
#include "base/base.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sched.h>
#include <unistd.h>

#define ERRANDS 8

static atomic_int_least64_t now;
static _Thread_local int64_t used; /* by this thread */

int64_t __wrap_mr_now_ns(void);
int64_t __wrap_mr_thread_cpu_ns(void);

int64_t __wrap_mr_now_ns(void)
{
    return atomic_load(&now);
}

int64_t __wrap_mr_thread_cpu_ns(void)
{
    return used;
}

static int begin(void **state)
{
    alarm(60); /* only bounds a failing test */
    mr_cpu_set_cores(1);
    return 0;
}

static mr_cpu_share *share_of(const char *owner, const char *job)
{
    mr_cpu_share *share = NULL;

    assert_int_equal(
        mr_cpu_share_get(&(struct mr_cpu_names){.owner = owner, .job = job}, &share, NULL), MR_OK);
    return share;
}

/* ---- work for others ---- */

struct job {
    mr_cpu_share *share;
    pthread_t thread;
    pthread_mutex_t lock; /* guards `leaves` */
    pthread_cond_t changed;
    bool leaves;
    atomic_bool has_entered;
};

/* A thread that works for a job, and does nothing. */
static void *stay(void *arg)
{
    struct job *job = arg;

    mr_cpu_enter(job->share);
    atomic_store(&job->has_entered, true);
    mr_mutex_lock(&job->lock);
    while (!job->leaves) {
        mr_cond_wait(&job->changed, &job->lock);
    }
    mr_mutex_unlock(&job->lock);
    mr_cpu_leave();
    return NULL;
}

static void job_begin(struct job *job, mr_cpu_share *share)
{
    *job = (struct job){.share = share};
    mr_mutex_init(&job->lock);
    mr_cond_init(&job->changed);
    assert_int_equal(mr_thread_start(&job->thread, "stay", stay, job, NULL), MR_OK);
    while (!atomic_load(&job->has_entered)) {
        (void)sched_yield();
    }
}

static void job_end(struct job *job)
{
    mr_mutex_lock(&job->lock);
    job->leaves = true;
    (void)pthread_cond_signal(&job->changed);
    mr_mutex_unlock(&job->lock);
    (void)pthread_join(job->thread, NULL);
    (void)pthread_cond_destroy(&job->changed);
    (void)pthread_mutex_destroy(&job->lock);
}

struct errand {
    struct mr_cpu_work work; /* first member */
    bool went;
};

static void go(struct mr_cpu_work *work)
{
    ((struct errand *)work)->went = true;
}

static void submit(struct errand *e, mr_cpu_share *share)
{
    *e = (struct errand){.work.go = go};
    mr_cpu_submit(&e->work, share);
}

/* What waits goes in the order of what its jobs were charged. */
static void who_used_less_is_the_next(void **state)
{
    mr_cpu_share *shares[] = {share_of("", "greedy"), share_of("", "quiet")};
    static const int64_t costs[] = {2 * MR_NS_PER_MS, MR_NS_PER_MS};
    struct errand errands[2][ERRANDS];
    struct job jobs[2];
    char order[2 * ERRANDS + 1] = "";

    for (int i = 0; i < 2; i++) {
        job_begin(&jobs[i], shares[i]);
    }
    for (int i = 0; i < 2 * ERRANDS; i++) {
        submit(&errands[i / ERRANDS][i % ERRANDS], shares[i / ERRANDS]);
    }
    for (int done = 0, next[2] = {0}; done < 9; done++) {
        int who = next[1] < ERRANDS && errands[1][next[1]].went;
        struct errand *e = &errands[who][next[who]];

        assert_true(e->went && !errands[!who][next[!who]].went); /* one at a time */
        mr_cpu_begin(&e->work, shares[who]);
        used += costs[who];
        mr_cpu_leave();
        order[done] = "gq"[who];
        next[who]++;
    }
    assert_string_equal(order, "ggqqqqgqq"); /* two went while nobody else was in line */
    for (int i = 0; i < 2; i++) {
        job_end(&jobs[i]);
        mr_cpu_share_unref(shares[i]);
    }
}

static void work_waits_for_the_turn_of_its_job(void **state)
{
    mr_cpu_share *mine = share_of("", "mine");
    mr_cpu_share *others = share_of("", "others");
    struct errand first, second, third;
    struct job other;

    submit(&first, others);
    assert_true(first.went); /* the gate is open */
    mr_cpu_drop(&first.work);
    mr_cpu_enter(mine);
    submit(&first, others);
    assert_true(first.went); /* we are alone */
    job_begin(&other, others);
    assert_int_not_equal(atomic_load(&mr_cpu_gate), 0);
    mr_cpu_yield(); /* the core is ours */
    submit(&first, others);
    submit(&second, others);
    submit(&third, others);
    assert_false(first.went || second.went || third.went);
    assert_true(mr_cpu_is_short());
    mr_cpu_look();
    assert_false(first.went);
    assert_true(mr_cpu_withdraw(&second.work));
    mr_cpu_rest();
    assert_true(first.went);
    assert_false(mr_cpu_withdraw(&first.work));
    mr_cpu_drop(&first.work);
    assert_true(third.went);
    assert_false(second.went);
    assert_false(mr_cpu_is_short());
    mr_cpu_leave();
    job_end(&other);
    mr_cpu_share_unref(mine);
    mr_cpu_share_unref(others);
}

static void work_goes_when_its_job_has_waited_long(void **state)
{
    mr_cpu_share *mine = share_of("", "mine");
    mr_cpu_share *others = share_of("", "others");
    struct errand first;
    struct job other;

    job_begin(&other, others);
    mr_cpu_enter(mine);
    mr_cpu_yield();
    submit(&first, others);
    mr_cpu_look();
    assert_false(first.went);
    (void)atomic_fetch_add(&now, MR_FAIR_PATIENCE_NS);
    mr_cpu_look();
    assert_true(first.went);
    mr_cpu_drop(&first.work);
    mr_cpu_leave();
    job_end(&other);
    mr_cpu_share_unref(mine);
    mr_cpu_share_unref(others);
}

static void all_work_goes_when_the_other_job_leaves(void **state)
{
    mr_cpu_share *mine = share_of("", "mine");
    mr_cpu_share *others = share_of("", "others");
    struct errand first, second;
    struct job other;

    job_begin(&other, others);
    mr_cpu_enter(mine);
    mr_cpu_yield();
    submit(&first, others);
    submit(&second, others);
    mr_cpu_leave();
    assert_true(first.went && second.went);
    assert_int_equal(atomic_load(&mr_cpu_gate), 0);
    /* What was counted at one gate is not at the next. */
    mr_cpu_enter(mine);
    mr_cpu_drop(&first.work);
    mr_cpu_yield();
    mr_cpu_drop(&second.work);
    assert_false(mr_cpu_is_short());
    mr_cpu_leave();
    job_end(&other);
    mr_cpu_share_unref(mine);
    mr_cpu_share_unref(others);
}

static void jobs_of_one_name_are_one_share(void **state)
{
    mr_cpu_share *a = share_of("team-a", "train");
    mr_cpu_share *b = share_of("team-b", "train");

    assert_ptr_not_equal(a, b);
    assert_ptr_equal(share_of("team-a", "train"), a);
    mr_cpu_share_unref(a);
    mr_cpu_share_unref(a);
    mr_cpu_share_unref(b);
    mr_cpu_share_unref(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(who_used_less_is_the_next, begin),
        cmocka_unit_test_setup(work_waits_for_the_turn_of_its_job, begin),
        cmocka_unit_test_setup(work_goes_when_its_job_has_waited_long, begin),
        cmocka_unit_test_setup(all_work_goes_when_the_other_job_leaves, begin),
        cmocka_unit_test_setup(jobs_of_one_name_are_one_share, begin),
    };

    return cmocka_run_group_tests_name("cpu", tests, NULL, NULL);
}
