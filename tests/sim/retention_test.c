/*
 * Months of a cluster in virtual time: jobs with names and without, OFF and DYNAMIC, under both
 * guarantees, some of which share productions; readers that read to the end, leave in the middle,
 * go on early or fall silent; workers that come and go; a failover every day, half of them with the
 * deletions of a timer under way. One reader stays from the first day to the last in an iteration
 * in which most tasks end and one never does. On every day:
 *
 *  - each kind of key is no more than a function of what is alive and what ended within its
 *    retention (check_day());
 *  - what must still be there is there: named jobs within their retention, named datasets always;
 *  - no ended repetition was run again, no named job forgot its past (on_opened() of
 *    retention_world.c).
 *
 * In the end everything has gone but named datasets and live workers. MR_RETENTION_JOBS sets the
 * number of jobs.
 */
#include "retention_world.h"

#include "dispatcher/turn/internal.h"

#include <setjmp.h>
#include <stdlib.h>

#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JOBS 1500 /* ten times as slow */
#else
#define JOBS 15000 /* MR_RETENTION_JOBS=100000 is some minutes */
#endif

/* What a failover may add to each of them: the grace after it, the half of a retention by which
 * `used_ms` is exact, and the time until silence is noticed. */
#define SLACK (retention_config.client_timeout_ms + 2 * HOUR)

struct bounds {
    size_t jobs, iterations, open, clients, workers, datasets;
    size_t productions; /* one for each iteration of a job that shares */
};

static bool within(const struct world *w, int64_t since, int64_t ms)
{
    return w->leader.now - since <= ms;
}

static void bound_jobs(struct world *w, struct bounds *b)
{
    bool *contents =
        mr_calloc(NAMED_DATASETS + w->jobs_max / JOBS_A_CONTENT + 1, sizeof contents[0]);
    char key[64];

    assert_non_null(contents);
    for (uint32_t i = 0; i < w->njobs; i++) {
        const struct job *job = &w->jobs[i];
        int64_t keep =
            job->named ? retention_config.job_retention_ms : retention_config.job_gc_timeout_ms;
        bool alive = job->readers > 0;

        if (within(w, job->used, keep + retention_config.dataset_retention_ms + SLACK) || alive) {
            contents[job->dataset] = true;
        }
        if (!alive && !within(w, job->used, keep + SLACK)) {
            continue;
        }
        b->jobs++;
        b->open += job->named && job->dynamic
                       ? 1
                       : 0; /* the last one waits for readers as long as its job */
        b->productions += job->shares && job->named && job->dynamic ? 1 : 0;
        for (uint64_t r = 0; r < job->epochs; r++) {
            bool recent =
                alive || within(w, job->read[r], retention_config.job_gc_timeout_ms + SLACK);

            b->open += job->read[r] != 0 && recent ? 1 : 0;
            b->productions += job->shares && job->read[r] != 0 && recent ? 1 : 0;
            b->iterations +=
                job->read[r] != 0 &&
                        within(w, job->read[r], retention_config.finished_retention_ms + SLACK)
                    ? 1
                    : 0;
        }
        snprintf(key, sizeof key, "jobs/job-%u", i);
        /* To be told that a repetition has ended is a use, too, of which the half of the retention
         * is left at least. */
        if (job->named && job->id[0] != '\0' &&
            within(w, job->used, retention_config.job_retention_ms / 2)) {
            assert_true(leader_has(&w->leader, key));
        }
    }
    b->iterations += b->open;
    for (uint32_t i = 0; i < NAMED_DATASETS + w->njobs / JOBS_A_CONTENT + 1; i++) {
        b->datasets += i < NAMED_DATASETS || contents[i] ? 1 : 0;
    }
    mr_free(contents);
}

static void check_kind(const struct world *w, const char *prefix, size_t bound)
{
    size_t n = leader_count(&w->leader, prefix);

    if (n > bound) {
        fail_msg("day %.1f: %zu keys below %s; what is alive accounts for %zu",
                 (double)w->leader.now / (double)DAY, n, prefix, bound);
    }
}

static void check_day(struct world *w)
{
    struct bounds b = {.workers = WORKERS};
    size_t keys = leader_count(&w->leader, "");
    mr_error err;

    w->keys_max = MR_MAX(keys, w->keys_max);
    bound_jobs(w, &b);
    for (uint32_t i = 0; i < w->nreaders; i++) {
        const struct reader *r = &w->readers[i];

        b.clients +=
            r->alive || within(w, r->seen, retention_config.client_retention_ms + SLACK) ? 1 : 0;
    }
    for (uint32_t i = 0; i < w->ndeaths; i++) {
        b.workers += within(w, w->deaths[i], retention_config.worker_retention_ms + SLACK) ? 1 : 0;
    }
    check_kind(w, "jobs/", b.jobs);
    check_kind(w, "productions/", b.productions);
    check_kind(w, "iterations/", b.iterations + b.productions);
    check_kind(w, "clients/", b.clients);
    check_kind(w, "workers/", b.workers);
    check_kind(w, "cursors/", b.open + b.productions);
    check_kind(w, "tasks/", b.open * b.workers);
    check_kind(w, "grants/", (b.open + b.productions) * b.workers);
    check_kind(w, "datasets/", b.datasets);
    check_kind(w, "blobs/", b.datasets);
    if (mr_core_check(dispatcher_machine(w->leader.dispatcher)->core, &err) < 0) {
        fail_msg("day %.1f: %s", (double)w->leader.now / (double)DAY, err.message);
    }
    for (uint32_t i = 0; i < NAMED_DATASETS; i++) {
        char key[64];

        snprintf(key, sizeof key, "datasets/numbers-%u", i);
        assert_true(leader_has(&w->leader, key));
    }
}

/* A day with a failover at some moment of it. */
static void live_a_day(struct world *w)
{
    int64_t morning = w->leader.now;

    world_run(w, morning + (int64_t)world_draw(w, (uint64_t)DAY));
    if (world_draw(w, 2) == 0) {
        leader_take_over(&w->leader);
    } else {
        w->leader.crash_soon = true;
    }
    world_run(w, morning + DAY);
    (void)mr_fake_compact(w->leader.fake, mr_fake_revision(w->leader.fake), NULL);
    check_day(w);
}

static void months_leave_nothing_behind(void **state)
{
    const char *wanted = getenv("MR_RETENTION_JOBS");
    struct world w;

    world_open(&w, wanted != NULL ? (uint32_t)atoi(wanted) : JOBS);
    while (w.njobs < w.jobs_max) {
        live_a_day(&w);
    }
    print_message("%u jobs, %u readers, %u worker lives in %.0f days with %llu failovers: %llu "
                  "steps, at most %zu keys\n",
                  w.njobs, w.nreaders, w.lives, (double)w.leader.now / (double)DAY,
                  (unsigned long long)w.leader.takeovers, (unsigned long long)w.leader.calls,
                  w.keys_max);
    w.endless->until = w.leader.now;
    for (int day = 0; day < 10; day++) {
        live_a_day(&w);
    }
    assert_int_equal(leader_count(&w.leader, "datasets/"), NAMED_DATASETS);
    assert_int_equal(leader_count(&w.leader, "blobs/"), NAMED_DATASETS);
    assert_int_equal(leader_count(&w.leader, "") - leader_count(&w.leader, "workers/") -
                         leader_count(&w.leader, "meta/") - leader_count(&w.leader, "leader") -
                         leader_count(&w.leader, "dispatchers/"),
                     2 * NAMED_DATASETS + leader_count(&w.leader, "schema"));
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(months_leave_nothing_behind)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
