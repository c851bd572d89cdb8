/*
 * Jobs that share a process's cores: an engine's threads wait while it is another job's turn, and
 * whatever waits for whatever, all of them come to their end with one core between them. Time
 * stands still, so that nobody's patience comes to an end.
 */
#include "base/clock.h"
#include "base/sync.h"
#include "engine_support.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <unistd.h>

#define ELEMENTS 3000
#define JOBS 3

int64_t __wrap_mr_now_ns(void);

int64_t __wrap_mr_now_ns(void)
{
    return 1;
}

struct job {
    pthread_t thread;
    mr_cpu_share *share;
    mr_dataset *ds;
    atomic_uint_least64_t rows;
    atomic_int ended; /* what the last pull gave; 1: it has not */
};

static void read_it(struct job *job, mr_engine_iter *it)
{
    mr_error err;
    int rc;

    do {
        mr_block *block = NULL;

        rc = mr_engine_pull(it, (struct mr_want){0}, -1, &block, &err);
        if (rc == MR_OK) {
            (void)atomic_fetch_add(&job->rows, mr_block_rows(block));
            mr_block_unref(block);
        }
    } while (rc == MR_OK);
    atomic_store(&job->ended, rc);
}

static void *run(void *arg)
{
    struct job *job = arg;
    struct mr_engine_options opts = {.seed = 42, .threads = 8, .share = job->share};
    mr_engine_iter *it = NULL;
    mr_error err;

    mr_cpu_enter(job->share);
    int rc = mr_engine_open(job->ds, &opts, &it, &err);
    if (rc == MR_OK) {
        read_it(job, it);
    } else {
        atomic_store(&job->ended, rc);
    }
    mr_engine_close(it);
    mr_cpu_leave();
    return NULL;
}

static void job_begin(struct job *job, const char *name, mr_dataset *ds)
{
    *job = (struct job){.ds = ds};
    atomic_init(&job->rows, 0);
    atomic_init(&job->ended, 1);
    CHECK_OK(mr_cpu_share_get(&(struct mr_cpu_names){.owner = "", .job = name}, &job->share, e));
    CHECK_OK(mr_thread_start(&job->thread, "job", run, job, e));
}

static void job_end(struct job *job)
{
    (void)pthread_join(job->thread, NULL);
    mr_cpu_share_unref(job->share);
    mr_dataset_unref(job->ds);
}

static mr_dataset *parallel(int64_t elements)
{
    return make_one("prefetch", map_affine(make_range(0, elements, 1), 16), "buffer_size", -1);
}

/* 0..79 times: the numbers up to there. */
static mr_dataset *interleaved(void)
{
    mr_dataset *ds = make_range(0, 80, 1);
    mr_function *fn = fn_count_to(ds);

    return make_with_function(
        "interleave", ds, fn,
        ATTRS(INT_ATTR("cycle_length", 8), INT_ATTR("num_parallel_calls", 8)));
}

static pthread_barrier_t closed;

static int begin(void **state)
{
    alarm(120); /* only bounds a failing test */
    mr_cpu_set_cores(1);
    return 0;
}

/* Works for the job @arg, beside this test, and does nothing. */
static void *close_gate(void *arg)
{
    mr_cpu_enter(arg);
    (void)pthread_barrier_wait(&closed);
    (void)pthread_barrier_wait(&closed);
    mr_cpu_leave();
    return NULL;
}

static void a_job_waits_for_its_turn(void **state)
{
    mr_cpu_share *mine = NULL;
    mr_cpu_share *idle = NULL;
    pthread_t thread;
    struct job job;

    CHECK_OK(mr_cpu_share_get(&(struct mr_cpu_names){.owner = "", .job = "mine"}, &mine, e));
    CHECK_OK(mr_cpu_share_get(&(struct mr_cpu_names){.owner = "", .job = "idle"}, &idle, e));
    (void)pthread_barrier_init(&closed, NULL, 2);
    CHECK_OK(mr_thread_start(&thread, "idle", close_gate, idle, e));
    mr_cpu_enter(mine);
    (void)pthread_barrier_wait(&closed);
    mr_cpu_yield(); /* the core is ours */
    job_begin(&job, "other", parallel(ELEMENTS));
    while (!mr_cpu_is_short()) {
        (void)sched_yield();
    }
    assert_int_equal(atomic_load(&job.rows), 0);
    mr_cpu_rest();
    job_end(&job);
    assert_int_equal(atomic_load(&job.ended), MR_END);
    assert_int_equal(atomic_load(&job.rows), ELEMENTS);
    mr_cpu_leave();
    (void)pthread_barrier_wait(&closed);
    (void)pthread_join(thread, NULL);
    (void)pthread_barrier_destroy(&closed);
    mr_cpu_share_unref(mine);
    mr_cpu_share_unref(idle);
}

static void jobs_with_many_threads_end_on_one_core(void **state)
{
    static const char *const names[] = {"a", "b", "c"};
    struct job jobs[JOBS];

    job_begin(&jobs[0], names[0], parallel(ELEMENTS));
    job_begin(&jobs[1], names[1], interleaved());
    job_begin(&jobs[2], names[2], map_affine(interleaved(), 16));
    for (int i = 0; i < JOBS; i++) {
        job_end(&jobs[i]);
        assert_int_equal(atomic_load(&jobs[i].ended), MR_END);
        assert_int_equal(atomic_load(&jobs[i].rows), i == 0 ? ELEMENTS : 80 * 79 / 2);
    }
    assert_int_equal(atomic_load(&mr_cpu_gate), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_job_waits_for_its_turn, begin),
        cmocka_unit_test_setup(jobs_with_many_threads_end_on_one_core, begin),
    };

    return cmocka_run_group_tests_name("engine_fair", tests, NULL, NULL);
}
