/*
 * Random lives of workers that do what workers do (ask, read, report, end, repeat a call whose
 * answer was lost) and die, leave and are replaced at any moment, under either guarantee, with
 * leaders that change in between. A model of its own knows what was handed out, what an application
 * got, and what was acknowledged, and judges:
 *
 *   at all times       no split is given to somebody while another task that counts as open has it
 *                      unfinished; nor, under one leader, when it was reported finished; at most
 *                      once: no split is given twice
 *   in the end         which comes, and then every split is finished, or quarantined, or, at most
 *                      once, lost with its
 * worker
 *
 * MR_SEED=<seed> runs one walk.
 */
#include "core_support.h"

#include "base/base.h"
#include "base/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define WALKS 300
#define WILD_STEPS 400
#define CALM_STEPS 6000
#define WORKERS_MAX 64 /* lives */
#define TASKS_MAX 256
#define GRANTS_MAX 120
#define SPLITS_MAX 200
/* grants: finished together, so that one may be repeated that was finished */
#define JOINED_BEYOND 32
#define REPETITIONS_MAX 3

struct grant {
    uint64_t first, count; /* 0: the end */
    bool read;             /* an application got all of it */
};

struct task {
    char id[160];
    int worker;
    uint64_t repetition;
    bool over;    /* the end of the last repetition was told */
    bool settled; /* its end was acknowledged, or it is gone */
    size_t n;
    struct grant grants[GRANTS_MAX];
    char finished[GRANTS_MAX + 1]; /* as it reports */
};

struct worker {
    char name[8];
    int address;
    bool runs;
};

struct model {
    struct table t;
    struct mr_rng rng;
    bool repeats; /* at least once */
    bool tolerant;
    uint64_t splits, repetitions;
    uint64_t poison; /* a split that kills its reader; SPLITS_MAX: none */
    char iteration[64];
    struct worker workers[WORKERS_MAX];
    int nworkers;
    struct task tasks[TASKS_MAX];
    int ntasks;
    unsigned granted[SPLITS_MAX];
    /* epoch in which it was last acknowledged as finished; 0: was not */
    uint64_t done_in[SPLITS_MAX];
    unsigned done[SPLITS_MAX]; /* grants of it that were acknowledged as finished */
    bool finished, failed;     /* the iteration */
    Millrace__IterationEnd end;
    char why[256];
};

static uint64_t draw(struct model *m, uint64_t n)
{
    return mr_rng_below(&m->rng, n);
}

/* ---------------------------------------------------------------- what the core says */

static struct task *find_task(struct model *m, const char *id)
{
    for (int i = 0; i < m->ntasks; i++) {
        if (strcmp(m->tasks[i].id, id) == 0) {
            return &m->tasks[i];
        }
    }
    return NULL;
}

/* The worker's list, as pushed: it begins what is new and drops what is not listed. */
static void look(struct model *m, int w)
{
    const Millrace__WorkerUpdate *update = watch_worker(&m->t, m->workers[w].name);

    for (int i = 0; i < m->ntasks; i++) {
        bool listed = false;

        for (size_t j = 0; j < update->n_tasks; j++) {
            listed = listed || strcmp(update->tasks[j]->task_id, m->tasks[i].id) == 0;
        }
        m->tasks[i].settled = m->tasks[i].settled || (m->tasks[i].worker == w && !listed);
    }
    for (size_t j = 0; j < update->n_tasks; j++) {
        if (find_task(m, update->tasks[j]->task_id) == NULL) {
            struct task *task = &m->tasks[m->ntasks++];

            assert_true(m->ntasks < TASKS_MAX);
            memset(task, 0, sizeof *task);
            snprintf(task->id, sizeof task->id, "%s", update->tasks[j]->task_id);
            task->worker = w;
        }
    }
}

static void look_at_end(struct model *m)
{
    const Millrace__ClientUpdate *update = watch_client(&m->t, "c1", m->iteration);

    if (update->finished) {
        m->finished = true;
        m->failed = update->end->error_code < 0;
        m->end = *update->end;
        snprintf(m->why, sizeof m->why, "%s", update->end->error);
    }
}

/* Nobody else whom the core counts as open has any of it. */
static void expect_unowned(struct model *m, const struct task *taker, const struct grant *grant)
{
    const Millrace__ClientUpdate *update;

    if (m->repetitions > 1) {
        return; /* the same index of another repetition is another split */
    }
    update = watch_client(&m->t, "c1", m->iteration);
    for (size_t i = 0; i < update->n_tasks; i++) {
        const struct task *other = find_task(m, update->tasks[i]->task_id);

        if (other == NULL || other == taker || update->tasks[i]->ended || update->tasks[i]->lost) {
            continue;
        }
        for (size_t j = 0; j < other->n; j++) {
            const struct grant *g = &other->grants[j];

            if (other->finished[j] != '1' && g->first < grant->first + grant->count &&
                grant->first < g->first + g->count) {
                fail_msg("splits %llu..%llu are given to %s, and %s has some of them",
                         (unsigned long long)grant->first,
                         (unsigned long long)(grant->first + grant->count - 1), taker->id,
                         other->id);
            }
        }
    }
}

static void note_done(struct model *m, const struct task *task, const struct grant *grant)
{
    for (uint64_t i = 0; i < grant->count; i++) {
        m->done[grant->first + i]++;
        if (task->n <= JOINED_BEYOND) {
            m->done_in[grant->first + i] = m->t.epoch;
        }
    }
}

static void note_granted(struct model *m, const struct grant *grant)
{
    for (uint64_t i = grant->first; i < grant->first + grant->count; i++) {
        m->granted[i]++;
        assert_true(m->repeats || m->granted[i] <= m->repetitions);
        if (m->repetitions == 1 &&
            m->done_in[i] == m->t.epoch) { /* the next leader may not know of it */
            fail_msg("split %llu was finished, and is given again", (unsigned long long)i);
        }
    }
}

/* ---------------------------------------------------------------- what a worker does */

static void die(struct model *m, int w)
{
    m->workers[w].runs = false;
}

/* Ask for more, with what is finished; the answer may get lost. */
static void ask(struct model *m, struct task *task)
{
    char finished[GRANTS_MAX + 1];
    struct grant *grant = &task->grants[task->n];
    const Millrace__GetSplitsReply *reply;

    for (size_t i = 0; i < task->n; i++) {
        finished[i] = task->grants[i].read ? '1' : '0';
    }
    finished[task->n] = '\0';
    int rc = get_splits_with_report(&m->t, m->workers[task->worker].name, task->id,
                                    task->repetition, task->n + 1, 1 + draw(m, 20), finished);

    if (rc < 0) {
        task->settled = true; /* it was given up, or the iteration is over */
        return;
    }
    for (size_t i = 0; i < task->n; i++) {
        if (finished[i] == '1' && task->finished[i] != '1') {
            note_done(m, task, &task->grants[i]);
        }
        task->finished[i] = finished[i];
    }
    if (draw(m, 6) == 0) {
        return; /* it did not hear: the same request will be sent again */
    }
    reply = splits(&m->t);
    *grant = (struct grant){0};
    if (reply->end) {
        task->repetition++;
        task->over = task->repetition == m->repetitions;
        grant->read = true;
    } else {
        grant->first = reply->ranges[0]->first;
        grant->count = reply->ranges[0]->count;
        note_granted(m, grant);
    }
    task->finished[task->n++] = '0';
    task->finished[task->n] = '\0';
    assert_true(task->n < GRANTS_MAX);
    if (grant->count > 0) {
        struct grant copy = *grant;

        expect_unowned(m, task, &copy);
    }
}

static void read_some(struct model *m, struct task *task)
{
    struct grant *grant = task->n > 0 ? &task->grants[draw(m, task->n)] : NULL;

    if (grant == NULL || grant->read) {
        return;
    }
    if (m->poison >= grant->first && m->poison < grant->first + grant->count) {
        die(m, task->worker);
        return;
    }
    grant->read = true;
}

static void report(struct model *m, struct task *task)
{
    char finished[GRANTS_MAX + 1];

    for (size_t i = 0; i < task->n; i++) {
        finished[i] = task->grants[i].read ? '1' : '0';
    }
    finished[task->n] = '\0';
    if (beat_with_report(&m->t, m->workers[task->worker].name, task->id, finished) < 0) {
        return;
    }
    for (size_t i = 0; i < task->n; i++) {
        if (finished[i] == '1' && task->finished[i] != '1') {
            note_done(m, task, &task->grants[i]);
        }
        task->finished[i] = finished[i];
    }
}

static void end(struct model *m, struct task *task)
{
    for (size_t i = 0; i < task->n; i++) {
        if (!task->grants[i].read) {
            return;
        }
    }
    if (end_task(&m->t, m->workers[task->worker].name, task->id, 0, NULL) < 0) {
        task->settled = true;
        return;
    }
    for (size_t i = 0; i < task->n; i++) {
        if (task->finished[i] != '1') {
            note_done(m, task, &task->grants[i]);
        }
        task->finished[i] = '1';
    }
    task->settled = draw(m, 3) != 0; /* else it did not hear, and says it again */
}

static void work(struct model *m, int w)
{
    struct task *mine[TASKS_MAX];
    size_t n = 0;

    look(m, w);
    for (int i = 0; i < m->ntasks; i++) {
        if (m->tasks[i].worker == w && !m->tasks[i].settled) {
            mine[n++] = &m->tasks[i];
        }
    }
    if (n == 0) {
        return;
    }
    struct task *task = mine[draw(m, n)];

    switch (draw(m, 4)) {
    case 0: report(m, task); break;
    case 1:
    case 2: read_some(m, task); break;
    default:
        if (task->over) {
            end(m, task);
        } else {
            ask(m, task);
        }
        break;
    }
}

/* ---------------------------------------------------------------- the world */

static int running(const struct model *m)
{
    int n = 0;

    for (int i = 0; i < m->nworkers; i++) {
        n += m->workers[i].runs ? 1 : 0;
    }
    return n;
}

static int pick(struct model *m)
{
    int skip = (int)draw(m, (uint64_t)running(m));

    for (int i = 0; i < m->nworkers; i++) {
        if (m->workers[i].runs && skip-- == 0) {
            return i;
        }
    }
    return -1;
}

static void start(struct model *m, int address)
{
    struct worker *worker = &m->workers[m->nworkers];
    char text[16];

    if (m->nworkers == WORKERS_MAX) {
        return;
    }
    snprintf(worker->name, sizeof worker->name, "w%d", m->nworkers);
    snprintf(text, sizeof text, "host%d:1", address);
    worker->address = address;
    worker->runs = true;
    m->nworkers++;
    for (int i = 0; i < m->nworkers - 1; i++) { /* whoever was there is superseded */
        m->workers[i].runs = m->workers[i].runs && m->workers[i].address != address;
    }
    assert_int_equal(add_worker(&m->t, worker->name, text), MR_OK);
}

static void pass_time(struct model *m, int64_t ms)
{
    for (int64_t at = 0; at < ms; at += 1000) {
        for (int i = 0; i < m->nworkers; i++) {
            if (m->workers[i].runs) {
                beat_worker(&m->t, m->workers[i].name);
            }
        }
        beat_client(&m->t, "c1", m->iteration, NULL);
        table_wait(&m->t, 1000);
    }
}

static void step(struct model *m, bool wild)
{
    uint64_t what = draw(m, 100);

    if (running(m) == 0 || (wild && what < 2)) {
        start(m, (int)draw(m, 4)); /* a new one, or in somebody's place */
    } else if (wild && what < 4) {
        die(m, pick(m));
    } else if (wild && what < 5) {
        int w = pick(m);

        assert_int_equal(leave(&m->t, m->workers[w].name), MR_OK);
        die(m, w);
    } else if (what < 6) {
        table_take_over(&m->t);
    } else if (what < 10) {
        pass_time(m, draw(m, 4) == 0 ? 20000 : 1000);
    } else {
        work(m, pick(m));
    }
}

static void judge_end(const struct model *m)
{
    uint64_t missing = 0;

    if (m->failed) {
        /* Whoever was in four crashes, at last alone, is given up, though these workers die of
         * other causes as well. */
        assert_true(m->repeats && !m->tolerant);
        assert_non_null(strstr(m->why, "is given up"));
        return;
    }
    for (uint64_t i = 0; i < m->splits; i++) {
        missing += m->done[i] < m->repetitions ? m->repetitions - m->done[i] : 0;
    }
    if (m->repeats) {
        assert_int_equal(m->end.lost_splits, m->end.quarantined_splits);
        assert_true(m->end.quarantined_splits == 0 || m->tolerant);
    }
    if (missing > m->end.lost_splits) {
        fail_msg("%llu splits are missing, %llu were told lost", (unsigned long long)missing,
                 (unsigned long long)m->end.lost_splits);
    }
}

static void open_iteration(struct model *m)
{
    int64_t list[] = {(int64_t)m->splits};

    if (m->tolerant) {
        put_tolerant_dataset(&m->t, "numbers", "00000000000000000000000000000001", list, 1);
    } else {
        put_dataset(&m->t, "numbers", "00000000000000000000000000000001", list, 1);
    }
    assert_int_equal(open_job(&m->t, (struct open_args){.client = "c1",
                                                        .dataset = "numbers",
                                                        .name = "train",
                                                        .dynamic = true,
                                                        .guarantee = m->repeats ? 1 : 0}),
                     MR_OK);
    snprintf(m->iteration, sizeof m->iteration, "%s", opened(&m->t)->iteration_id);
}

/* What must come about in some of the walks, or they prove little: words of the core's trace. */
static struct {
    const char *words;
    unsigned seen;
} rare[] = {
    {"opened, a recovery task", 0},
    {"for suspects", 0},
    {" again", 0},
    {"is quarantined", 0},
    {"failed, split", 0},
    {"are finished", 0},
    {": superseded", 0},
    {": left", 0},
    {": lost", 0},
    {"of provider 0, repetition 1", 0},
};

static void note_rare(void *ctx, const char *line)
{
    for (size_t i = 0; i < sizeof rare / sizeof rare[0]; i++) {
        rare[i].seen += strstr(line, rare[i].words) != NULL ? 1 : 0;
    }
}

static void walk(uint64_t seed)
{
    struct mr_core_config config = {
        .worker_timeout_ms = 10000, .client_timeout_ms = 600000, .trace = note_rare};
    struct model *m = mr_calloc(1, sizeof *m);

    mr_rng_seed(&m->rng, seed);
    table_open(&m->t, &config);
    m->repeats = draw(m, 3) != 0;
    m->tolerant = draw(m, 2) == 0;
    m->splits = 1 + draw(m, SPLITS_MAX - 1);
    m->repetitions = draw(m, 2) == 0 ? 1 : 1 + draw(m, REPETITIONS_MAX);
    m->poison = m->repeats && draw(m, 3) == 0 ? draw(m, m->splits) : SPLITS_MAX;
    for (int i = 0; i < 3; i++) {
        start(m, i);
    }
    open_iteration(m);
    for (int i = 0; i < WILD_STEPS && !m->finished; i++) {
        step(m, true);
        look_at_end(m);
    }
    for (int i = 0; i < CALM_STEPS && !m->finished; i++) {
        step(m, false);
        look_at_end(m);
    }
    if (!m->finished) {
        fail_msg("no end");
    }
    judge_end(m);
    table_close(&m->t);
    mr_free(m);
}

static void nothing_is_lost_that_should_not_be(void **state)
{
    const char *only = getenv("MR_SEED");

    for (uint64_t seed = 1; only == NULL && seed <= WALKS; seed++) {
        print_message("\rseed %llu ", (unsigned long long)seed);
        walk(seed);
    }
    for (size_t i = 0; only == NULL && i < sizeof rare / sizeof rare[0]; i++) {
        if (rare[i].seen == 0) {
            fail_msg("'%s' was never seen", rare[i].words);
        }
    }
    if (only != NULL) {
        walk(strtoull(only, NULL, 10));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_lost_that_should_not_be)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
