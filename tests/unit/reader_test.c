/* Reading from the service: readers against dispatchers and workers that do as the test says. */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/sync.h"
#include "client/hand_log.h"
#include "client/losses.h"
#include "client/reader_internal.h"
#include "fake_service.h"
#include "tests/support/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG_MS 20000
#define WORKERS 3

struct fixture {
    mr_rpc_runtime *rt;
    struct fake_dispatcher d;
    struct fake_worker w[WORKERS];
    size_t nworkers;
    mr_reader *r;
    struct mr_loss_tally losses;
    struct mr_hand_log hand;
    /* of the reader: what a test wants other than open_reader() has it */
    struct mr_read_options opts;
    unsigned seen[1024]; /* how often each value came */
    size_t count;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    mr_loss_tally_init(&f->losses);
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    fake_dispatcher_start(&f->d, f->rt, mr_test_port());
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->r != NULL) {
        mr_reader_close(f->r);
    }
    if (f->d.srv != NULL) {
        fake_dispatcher_stop(&f->d);
    }
    for (size_t i = 0; i < f->nworkers; i++) {
        if (f->w[i].srv != NULL) {
            fake_worker_stop(&f->w[i]);
        }
    }
    mr_rpc_release(f->rt);
    mr_loss_tally_destroy(&f->losses);
    free(f);
    return 0;
}

/* @n workers with one task each, of @total elements: 100 * i, 100 * i + 1, ... */
static void add_workers(struct fixture *f, size_t n, uint64_t total)
{
    static const char *const tasks[WORKERS] = {"task-0", "task-1", "task-2"};

    MR_LOCK(&f->d.lock);
    for (size_t i = 0; i < n; i++) {
        struct fake_worker *w = &f->w[i];

        fake_worker_start(w, f->rt, tasks[i]);
        w->first = (int64_t)(100 * i);
        w->total = total;
        f->d.tasks[i].id = tasks[i];
        f->d.tasks[i].address = w->address;
        f->d.tasks[i].incarnation = w->incarnation;
    }
    f->nworkers = n;
    f->d.ntasks = n;
}

static void open_reader(struct fixture *f, uint64_t max_outstanding)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    struct mr_read_options opts = {
        .service = mr_strdup(f->d.address),
        .mode = f->opts.mode,
        .guarantee = f->opts.guarantee,
        .on_loss = f->opts.on_loss,
        .losses = &f->losses,
        .hand_log = f->opts.hand_log,
        .job_name = mr_strdup(f->opts.job_name != NULL ? f->opts.job_name : ""),
        .repetition = f->opts.repetition,
        .begins = f->opts.repetition == 0,
        .trainer = mr_strdup(f->opts.trainer != NULL ? f->opts.trainer : ""),
        .sharing = f->opts.sharing,
        .lag = f->opts.lag,
        .compression = mr_strdup("NONE"),
        .target_workers = mr_strdup("AUTO"),
        .max_outstanding = max_outstanding,
        .connect_timeout_ms = f->opts.connect_timeout_ms > 0 ? f->opts.connect_timeout_ms : LONG_MS,
        .heartbeat_ms = f->opts.heartbeat_ms > 0 ? f->opts.heartbeat_ms : 20,
        .dataset_id = mr_strdup("digits"),
    };

    assert_int_equal(mr_spec_new(&leaf, 1, NULL, &opts.spec, NULL), MR_OK);
    assert_int_equal(mr_reader_open(&opts, &f->r, NULL), MR_OK);
    assert_null(opts.service); /* taken */
}

/* The next block's values are counted. */
static int pull(struct fixture *f, uint32_t rows, int timeout_ms, mr_error *err)
{
    struct mr_want want = {.rows_max = rows};
    mr_block *block = NULL;
    int rc = mr_reader_pull(f->r, want, timeout_ms, &block, err);

    if (rc == MR_OK) {
        const int64_t *data = mr_block_column(block, 0)->data;
        uint32_t n = mr_block_rows(block);

        assert_in_range(n, 1, rows);
        for (uint32_t i = 0; i < n; i++) {
            assert_in_range(data[i], 0, 1023);
            f->seen[data[i]]++;
            f->count++;
        }
        mr_block_unref(block);
    }
    return rc;
}

static void pull_n(struct fixture *f, size_t n)
{
    while (f->count < n) {
        assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    }
}

static void expect_each_once(const struct fixture *f, size_t workers, uint64_t total)
{
    for (size_t i = 0; i < workers; i++) {
        for (uint64_t k = 0; k < total; k++) {
            assert_int_equal(f->seen[100 * i + k], 1);
        }
    }
    assert_int_equal(f->count, workers * total);
}

/* What a dispatcher does when all workers have reported their ends. */
static void *finish_when_done(void *arg)
{
    struct fixture *f = arg;

    for (size_t i = 0; i < f->nworkers; i++) {
        struct fake_worker *w = &f->w[i];

        mr_mutex_lock(&w->lock);
        while (!w->done) {
            mr_cond_wait(&w->changed, &w->lock);
        }
        mr_mutex_unlock(&w->lock);
    }
    mr_mutex_lock(&f->d.lock);
    for (size_t i = 0; i < f->nworkers; i++) {
        f->d.tasks[i].ended = true;
    }
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_dispatcher_push(&f->d);
    return NULL;
}

static void pull_to_the_end(struct fixture *f)
{
    pthread_t thread;

    assert_int_equal(mr_thread_start(&thread, "finish", finish_when_done, f, NULL), MR_OK);
    int rc;
    while ((rc = pull(f, 1000, LONG_MS, NULL)) == MR_OK) {
    }
    assert_int_equal(rc, MR_END);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    (void)pthread_join(thread, NULL);
}

static void everything_arrives_once(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 3, 50);
    open_reader(f, 0);
    pull_to_the_end(f);
    expect_each_once(f, 3, 50);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_int_equal(f->d.opens, 1);
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->d.registers, 0);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(f->w[i].received, 50);
        assert_int_equal(f->w[i].opens, 1);
    }
}

static void a_job_that_is_over_has_no_element(void **state)
{
    struct fixture *f = *state;

    f->d.job_finished = true;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
}

#define LONG_AGO_MS 1000000000

static void who_begins_anew_under_a_used_name_is_told(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    f->d.job_finished = true;
    f->d.ended_ms = LONG_AGO_MS;
    f->opts.job_name = "used";
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EPRECOND);
    assert_non_null(strstr(err.message, "job 'used' had ended its epoch 0"));
    assert_non_null(strstr(err.message, "another job_name"));
    assert_non_null(strstr(err.message, "same Dataset object"));
    assert_non_null(strstr(err.message, "first_epoch=1"));
    assert_non_null(strstr(err.message, "persistent_workers=True"));
}

/* A later epoch of an object, and one that ended when the reader was here already. */
static void an_epoch_that_others_have_read_is_empty(void **state)
{
    struct fixture *f = *state;

    f->d.job_finished = true;
    f->opts.job_name = "used";
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    mr_reader_close(f->r);
    f->d.ended_ms = LONG_AGO_MS;
    f->opts.repetition = 1;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
}

static void tasks_may_come_later(void **state)
{
    struct fixture *f = *state;

    open_reader(f, 0);
    assert_int_equal(pull(f, 1, 50, NULL), MR_TIMEOUT);
    add_workers(f, 2, 10);
    fake_dispatcher_push(&f->d);
    pull_to_the_end(f);
    expect_each_once(f, 2, 10);
}

static void one_credit_starves_nobody(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 3, 10);
    f->w[0].silent = true; /* it would keep the only credit */
    open_reader(f, 1);
    pull_n(f, 20);
    assert_int_equal(f->w[1].cursor, 10);
    assert_int_equal(f->w[2].cursor, 10);
    mr_mutex_lock(&f->w[0].lock);
    f->w[0].silent = false;
    mr_mutex_unlock(&f->w[0].lock);
    fake_worker_go(&f->w[0]);
    pull_to_the_end(f);
    expect_each_once(f, 3, 10);
    for (size_t i = 0; i < 3; i++) {
        assert_true(f->w[i].limit_max <= 1 + 1); /* that, and what the application has */
    }
    assert_true(f->w[0].lowered > 0);
}

static void the_bound_of_outstanding_elements_holds(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 100);
    open_reader(f, 10);
    pull_to_the_end(f);
    expect_each_once(f, 2, 100);
    /* 10, shared while both have something, all of it for the last; and a block that the
     * application holds. */
    assert_true(f->w[0].limit_max <= 10 + 10);
    assert_true(f->w[1].limit_max <= 10 + 10);
}

static void a_broken_stream_resumes(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 60);
    f->w[0].break_at = 17;
    f->w[1].break_at = 1;
    open_reader(f, 0);
    pull_to_the_end(f);
    expect_each_once(f, 2, 60);
    assert_int_equal(f->w[0].opens, 2);
    assert_int_equal(f->w[0].number, 1);
}

static void a_session_that_was_forgotten_begins_anew(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1,
                1000); /* more than a reader takes ahead: the stream is there when it is to break */
    w->number = 1;
    open_reader(f, 0);
    pull_n(f, 5);
    mr_mutex_lock(&w->lock);
    w->forget = true;
    mr_rpc_stream_cancel(w->stream);
    mr_mutex_unlock(&w->lock);
    pull_to_the_end(f);
    assert_int_equal(w->number, 2);
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(f->seen[i] >= 1);
    }
}

/* The worker has given to other readers of the job what this one had not returned: it is not to
 * come from here, too. */
static void a_shared_job_leaves_to_others_what_was_not_returned(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 60);
    w->number = 1;
    w->shared = true;
    f->opts.sharing = MILLRACE__SHARING__SHARING_AUTO;
    open_reader(f, 0);
    pull_n(f, 5);
    mr_mutex_lock(&w->lock);
    while (w->given < 5 || w->received <= w->given) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    w->forget = true;
    mr_rpc_stream_cancel(w->stream);
    while (w->number < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
    pull_to_the_end(f);
    expect_each_once(f, 1, 60);
}

static void a_lost_goodbye_is_said_again(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 10);
    f->w[0].lose_goodbye = true;
    open_reader(f, 0);
    pull_to_the_end(f); /* only a worker that has our last acknowledgement ends its task */
    expect_each_once(f, 1, 10);
    assert_int_equal(f->w[0].opens, 2);
}

static void what_a_pipeline_fails_with_comes_after_its_elements(void **state)
{
    struct fixture *f = *state;
    mr_error err;
    int rc;

    add_workers(f, 1, 5);
    f->w[0].fail_code = MR_EINVAL;
    open_reader(f, 0);
    while ((rc = pull(f, 2, LONG_MS, &err)) == MR_OK) {
    }
    assert_int_equal(rc, MR_EINVAL);
    assert_non_null(strstr(err.message, "division by zero"));
    assert_non_null(strstr(err.message, f->w[0].address));
    assert_int_equal(f->count, 5);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EINVAL); /* it stays */
}

/* The other worker has lost its task, as the iteration is over, and waits whether it comes: it
 * takes nothing back. */
static void closing_a_failed_read_waits_for_nobody(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *other = &f->w[1];

    add_workers(f, 2, 5);
    f->w[0].fail_code = MR_EINVAL;
    other->break_at = 2;
    other->silent_after_break = true;
    open_reader(f, 0);
    mr_mutex_lock(&other->lock);
    while (other->opens < 2) {
        assert_true(mr_cond_wait_ms(&other->changed, &other->lock, LONG_MS));
    }
    mr_mutex_unlock(&other->lock);
    while (pull(f, 1, LONG_MS, NULL) == MR_OK) {
    }
    mr_reader_close(f->r);
    f->r = NULL;
    assert_false(other->done);
}

static void what_an_iteration_fails_with_is_told(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    f->d.finished = true;
    f->d.error_code = MR_EDATALOSS;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "the iteration failed"));
}

/* The dispatcher may be faster than the application: what came is taken first. */
static void an_iteration_fails_after_the_elements_that_came(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    mr_error err;

    add_workers(f, 1, 2);
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&w->lock);
    while (w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[0].ended = true;
    f->d.finished = true;
    f->d.error_code = MR_EDATALOSS;
    mr_mutex_unlock(&f->d.lock);
    fake_dispatcher_push(&f->d);
    mr_mutex_lock(&f->d.lock);
    while (f->d.watchers[0] != NULL) { /* closed when the end was told */
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EDATALOSS);
    assert_int_equal(f->count, 2);
}

static void elements_of_another_spec_are_refused(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    add_workers(f, 1, 5);
    f->w[0].strings = true;
    open_reader(f, 0);
    assert_true(pull(f, 2, LONG_MS, &err) < 0);
    assert_non_null(strstr(err.message, "not what the dataset's spec says"));
}

static void a_worker_that_moved_is_asked_again(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 20);
    f->w[0].refuse_open = MR_EUNAVAIL;
    open_reader(f, 0);
    mr_mutex_lock(&f->w[0].lock);
    while (f->w[0].opens < 2) {
        assert_true(mr_cond_wait_ms(&f->w[0].changed, &f->w[0].lock, LONG_MS));
    }
    f->w[0].refuse_open = 0;
    mr_mutex_unlock(&f->w[0].lock);
    pull_to_the_end(f);
    expect_each_once(f, 1, 20);
}

static void a_lost_worker_does_not_hold_up_the_end(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 10);
    f->w[1].silent = true;
    open_reader(f, 0);
    pull_n(f, 10);
    fake_worker_stop(&f->w[1]);
    assert_int_equal(pull(f, 1, 100, NULL), MR_TIMEOUT); /* until the dispatcher says so */
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[0].ended = true;
    f->d.tasks[1].lost = true;
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_dispatcher_push(&f->d);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_each_once(f, 1, 10);
}

static unsigned channels(struct fixture *f)
{
    const struct mr_read_task *t;
    unsigned n = 0;

    MR_LOCK(&f->r->lock);
    TAILQ_FOREACH(t, &f->r->read.tasks, link)
    {
        n += t->line != NULL;
    }
    return n;
}

static void nothing_goes_on_connecting_to_a_lost_worker(void **state)
{
    struct fixture *f = *state;
    int64_t until = mr_now_ms() + LONG_MS;

    add_workers(f, 2, 90);
    open_reader(f, 0);
    pull_n(f, 1); /* each has something left to read */
    assert_int_equal(channels(f), 2);
    fake_worker_stop(&f->w[1]);
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[1].lost = true;
    mr_mutex_unlock(&f->d.lock);
    fake_dispatcher_push(&f->d);
    while (channels(f) > 1) {
        assert_true(mr_now_ms() < until);
        usleep(1000);
    }
}

/* As when very many are at it; and when they have taken too long. */
static void who_is_in_line_connects_in_the_end(void **state)
{
    struct fixture *f = *state;
    int64_t until = mr_now_ms() + LONG_MS;
    bool in_line = false;

    open_reader(f, 0);
    mr_mutex_lock(&f->r->lock);
    f->r->read.connecting = 1000;
    f->r->read.begun_ms = until;
    mr_mutex_unlock(&f->r->lock);
    add_workers(f, 2, 10);
    fake_dispatcher_push(&f->d);
    while (!in_line) {
        assert_true(mr_now_ms() < until);
        usleep(1000);
        mr_mutex_lock(&f->r->lock);
        in_line = f->r->read.ntasks == 2 && f->r->read.in_line;
        mr_mutex_unlock(&f->r->lock);
    }
    assert_int_equal(f->r->read.streams, 0);
    mr_mutex_lock(&f->r->lock);
    f->r->read.begun_ms = 0;
    mr_read_retry(&f->r->read, 0);
    mr_reader_wake_locked(f->r);
    mr_mutex_unlock(&f->r->lock);
    pull_to_the_end(f);
    expect_each_once(f, 2, 10);
    assert_int_equal(f->r->read.connecting, 0); /* all are through */
}

static void wait_for_tasks(struct fixture *f, unsigned n)
{
    int64_t until = mr_now_ms() + LONG_MS;
    unsigned have;

    do {
        assert_true(mr_now_ms() < until);
        usleep(1000);
        mr_mutex_lock(&f->r->lock);
        have = f->r->read.ntasks;
        mr_mutex_unlock(&f->r->lock);
    } while (have != n);
}

/* Also from the other lists: elements of the worker that stays are taken meanwhile. */
static void workers_that_come_and_go_leave_nothing_behind(void **state)
{
    struct fixture *f = *state;
    char ids[10][16];

    add_workers(f, 2, 90);
    f->w[1].silent = true;
    open_reader(f, 0);
    pull_n(f, 1);
    for (size_t i = 0; i < 10; i++) {
        wait_for_tasks(f, 2);
        (void)snprintf(ids[i], sizeof ids[i], "next-%zu", i);
        mr_mutex_lock(&f->d.lock);
        f->d.tasks[1].lost = true;
        mr_mutex_unlock(&f->d.lock);
        fake_dispatcher_push(&f->d);
        wait_for_tasks(f, 1);
        pull_n(f, f->count + 5);
        if (i == 0) {
            fake_worker_stop(&f->w[1]); /* those that follow cannot be reached */
        }
        mr_mutex_lock(&f->d.lock);
        f->d.tasks[1].id = ids[i];
        f->d.tasks[1].lost = false;
        mr_mutex_unlock(&f->d.lock);
        fake_dispatcher_push(&f->d);
    }
    pull_n(f, 90);
    MR_LOCK(&f->r->lock);
    assert_int_equal(f->r->read.by_key.count, f->r->read.ntasks);
}

/* The application may be in the middle of them; what was missed there is told at the end. */
static void what_a_lost_worker_sent_is_read(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    add_workers(f, 1, 2);
    f->w[0].skipped = 7;
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&f->w[0].lock);
    while (f->w[0].received < 2) {
        assert_true(mr_cond_wait_ms(&f->w[0].changed, &f->w[0].lock, LONG_MS));
    }
    mr_mutex_unlock(&f->w[0].lock);
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[0].lost = true;
    mr_mutex_unlock(&f->d.lock);
    fake_dispatcher_push(&f->d);
    pull_n(f, 2);
    assert_int_equal(pull(f, 1, 0, NULL), MR_TIMEOUT);
    wait_for_tasks(f, 0);
    mr_mutex_lock(&f->d.lock);
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_dispatcher_push(&f->d);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "7 elements skipped"));
}

static void reading_goes_on_while_no_dispatcher_leads(void **state)
{
    struct fixture *f = *state;
    int port = atoi(strrchr(f->d.address, ':') + 1);

    add_workers(f, 2, 90);
    open_reader(f, 0);
    pull_n(f, 1);
    while (f->w[0].opens == 0 || f->w[1].opens == 0) {
        usleep(1000);
    }
    fake_dispatcher_stop(&f->d);
    pull_n(f, 180);                                     /* all there is */
    assert_int_equal(pull(f, 1, 50, NULL), MR_TIMEOUT); /* but nobody says that it is over */
    fake_dispatcher_start(&f->d, f->rt, port);
    f->d.epoch = 8;
    f->d.finished = true;
    fake_dispatcher_push(&f->d);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_each_once(f, 2, 90);
}

/* The address that a worker advertises may be no use here: that is told, not waited for. */
static void nobody_can_be_reached(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    add_workers(f, 2, 5);
    fake_worker_stop(&f->w[0]);
    f->w[1].refuse_open = MR_EUNAVAIL; /* somebody else's by now */
    f->opts.connect_timeout_ms = 500;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, "no worker reachable"));
    assert_non_null(strstr(err.message, f->w[0].address));
    assert_non_null(strstr(err.message, f->w[1].address));
    /* It stays, and nobody is asked for it: whoever tries for ever loads neither workers nor
     * dispatchers. */
    mr_mutex_lock(&f->r->lock);
    while (f->r->read.streams > 0) {
        assert_true(mr_cond_wait_ms(&f->r->due, &f->r->lock, LONG_MS));
    }
    mr_mutex_unlock(&f->r->lock);
    unsigned opens = f->w[1].opens;
    unsigned calls = f->d.calls;

    for (int i = 0; i < 100; i++) {
        mr_error again;

        assert_int_equal(pull(f, 1, LONG_MS, &again), MR_EUNAVAIL);
        assert_string_equal(again.message, err.message);
    }
    assert_int_equal(f->w[1].opens, opens);
    assert_int_equal(f->d.calls, calls);
}

/* However many there are, and one line when there are as many as before. */
static void workers_that_cannot_be_reached_are_told_of_in_one_line(void **state)
{
    struct fixture *f = *state;
    struct mr_read_task *t;
    int64_t later_ms = 0;

    add_workers(f, 3, 90);
    fake_worker_stop(&f->w[1]);
    fake_worker_stop(&f->w[2]);
    f->w[0].silent = true;
    open_reader(f, 0);
    for (unsigned failing = 0; failing < 2;) {
        usleep(1000);
        failing = 0;
        MR_LOCK(&f->r->lock);
        TAILQ_FOREACH(t, &f->r->read.tasks, link)
        {
            failing += t->failing_ms != 0;
            later_ms = t->failing_ms > later_ms ? t->failing_ms : later_ms;
        }
    }
    MR_LOCK(&f->r->lock); /* the reader's own clock has to wait */
    f->r->read.away = (struct mr_read_away){0};
    assert_int_equal(mr_read_tell_away(&f->r->read, later_ms + 1000), later_ms + 2000);
    assert_int_equal(f->r->read.away.told_ms, 0); /* it may come back */
    (void)mr_read_tell_away(&f->r->read, later_ms + 3000);
    assert_int_equal(f->r->read.away.told, 2);
    assert_int_equal(f->r->read.away.told_ms, later_ms + 3000);
    (void)mr_read_tell_away(&f->r->read, later_ms + 9000);
    assert_int_equal(f->r->read.away.told_ms, later_ms + 3000);
    TAILQ_FOREACH(t, &f->r->read.tasks, link)
    {
        t->failing_ms = 0; /* as when elements come */
    }
    (void)mr_read_tell_away(&f->r->read, later_ms + 10000);
    assert_int_equal(f->r->read.away.told, 0);
    assert_int_equal(f->r->read.away.told_ms, later_ms + 10000);
    TAILQ_LAST(&f->r->read.tasks, mr_read_tasks)->failing_ms = later_ms;
    (void)mr_read_tell_away(&f->r->read, later_ms + 11000); /* so often nobody wants to know */
    assert_int_equal(f->r->read.away.told, 0);
    (void)mr_read_tell_away(&f->r->read, later_ms + 13000);
    assert_int_equal(f->r->read.away.told, 1);
}

static void who_cannot_be_reached_takes_no_credit_and_is_reported(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 50);
    fake_worker_stop(&f->w[1]);
    open_reader(f, 1);
    pull_n(f, 50);
    mr_mutex_lock(&f->d.lock);
    while (strcmp(f->d.unreachable, f->w[1].incarnation) != 0) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    f->d.tasks[0].ended = true;
    f->d.tasks[1].lost = true;
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_dispatcher_push(&f->d);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_each_once(f, 1, 50);
}

static void a_forgotten_client_attaches_again(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 50);
    open_reader(f, 0);
    pull_n(f, 5);
    mr_mutex_lock(&f->d.lock);
    f->d.refuse_heartbeat = MR_ENOTFOUND;
    while (f->d.reopens == 0) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
    pull_to_the_end(f);
    expect_each_once(f, 1, 50);
}

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
    fake_dispatcher_push(&f->d);
}

static void losses_are_counted_once(void **state)
{
    struct fixture *f = *state;
    struct mr_losses sum;

    add_workers(f, 2, 10);
    f->w[1].silent = true;
    f->opts.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
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
    struct mr_read_end known = {.lost_splits = 2, .lost_elements = 2000};
    struct mr_read_end unknown = {.lost_splits = 1};
    struct mr_read_end none = {.lost_workers = 1};
    struct mr_losses sum;

    mr_loss_tally_add(&f->losses, &none, false);
    mr_loss_tally_add(&f->losses, &known, true);
    mr_loss_tally_add(&f->losses, &known, true);
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.lost_elements, 4000);
    mr_loss_tally_add(&f->losses, &unknown, true);
    mr_loss_tally_add(&f->losses, &known, true);
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
    f->opts.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
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

    f->opts.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    f->opts.guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE;
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

static void sharing_is_asked_for(void **state)
{
    struct fixture *f = *state;

    f->opts.trainer = (char *)(uintptr_t) "t1";
    f->opts.lag = MILLRACE__LAG__LAG_WAIT;
    f->d.finished = true;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    assert_string_equal(f->d.trainer, "t1");
    assert_int_equal(f->d.sharing, MILLRACE__SHARING__SHARING_OFF);
    assert_int_equal(f->d.lag, MILLRACE__LAG__LAG_WAIT);
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
    f->opts.sharing = MILLRACE__SHARING__SHARING_AUTO;
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    pull_n(f, 20);
    assert_int_equal(mr_loss_tally_skipped(&f->losses), 11);
    mr_loss_tally_get(&f->losses, &sum);
    assert_int_equal(sum.skipped_elements, 0); /* the read has not ended */
    mr_mutex_lock(&f->d.lock);
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_dispatcher_push(&f->d);
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
    f->opts.sharing = MILLRACE__SHARING__SHARING_AUTO;
    f->opts.lag = MILLRACE__LAG__LAG_WAIT;
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
    f->opts.sharing = MILLRACE__SHARING__SHARING_AUTO;
    f->opts.lag = MILLRACE__LAG__LAG_WAIT;
    f->opts.on_loss = MR_ON_LOSS_REPORT;
    open_reader(f, 0);
    for (int end = 0; end < 2; end++) {
        if (end == 0) {
            pull_n(f, 20);
        } else {
            mr_mutex_lock(&f->d.lock);
            f->d.finished = true;
            mr_mutex_unlock(&f->d.lock);
            fake_dispatcher_push(&f->d);
            assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
        }
        mr_loss_tally_get(&f->losses, &sum);
        assert_int_equal(sum.skipped_elements, 7);
        assert_int_equal(sum.incomplete_reads, 1);
    }
}

/* When the last line was written, when so much of its wait is over; 0: there is none. */
static int64_t said_after(struct fixture *f, int64_t s)
{
    int64_t now = f->r->read.wait.since_ms + 1000 * s;

    f->r->read.wait.seen_ms = now;
    (void)mr_read_look_at_wait(&f->r->read, now);
    return f->r->read.wait.said_ms == 0
               ? 0
               : (f->r->read.wait.said_ms - f->r->read.wait.since_ms) / 1000;
}

static bool is_taken_on(struct fixture *f)
{
    MR_LOCK(&f->r->lock);
    return f->r->read.attached && f->r->read.ntasks > 0;
}

static void a_wait_is_told_of_more_and_more_rarely(void **state)
{
    static const int64_t at[][2] = {{2, 0},   {3, 3},   {5, 3},   {6, 6},      {11, 6},
                                    {12, 12}, {23, 12}, {24, 24}, {3600, 3600}};
    struct fixture *f = *state;

    add_workers(f, 1, 0);
    open_reader(f, 0);
    do { /* Before it is taken on there is nothing to tell. */
        assert_int_equal(pull(f, 1, 10, NULL), MR_TIMEOUT);
    } while (!is_taken_on(f));
    MR_LOCK(&f->r->lock); /* the reader's own clock has to wait */
    mr_read_fed(&f->r->read);
    mr_read_waits(&f->r->read);
    f->r->read.wait.since_ms = 1000000;
    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++) {
        assert_int_equal(said_after(f, at[i][0]), at[i][1]);
    }
    /* Who does not come back for an element does not wait. */
    f->r->read.wait.said_ms = 0;
    assert_int_equal(mr_read_look_at_wait(&f->r->read, f->r->read.wait.seen_ms + 5000),
                     f->r->read.wait.seen_ms + 6000);
    assert_int_equal(f->r->read.wait.said_ms, 0);
    mr_read_fed(&f->r->read);
    assert_int_equal(f->r->read.wait.since_ms, 0);
}

/* A production that ends and a reader that is behind: the end is told when all was returned. */
static void a_shared_job_holds_the_end_until_all_was_returned(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 2); /* the first window */
    f->opts.trainer = (char *)(uintptr_t) "t1";
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&w->lock);
    while (!w->end_sent || w->received < 2 ||
           w->given < 1) { /* what it was given is its own at once */
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_false(w->done);
    mr_mutex_unlock(&w->lock);
    pull_n(f, 2);
    assert_int_equal(pull(f, 1, 0, NULL), MR_TIMEOUT); /* through with the second, too */
    mr_mutex_lock(&w->lock);
    while (!w->done) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_int_equal(w->returned, 2);
    mr_mutex_unlock(&w->lock);
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

/* It was away when the iteration ended: what it holds, then the end, and that something is
 * missing. */
static void a_client_that_comes_back_is_told_of_losses(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 5);
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    pull_n(f, 5);
    mr_mutex_lock(&f->d.lock);
    f->d.job_finished = true;
    f->d.lost_workers = 1;
    f->d.refuse_heartbeat = MR_ENOTFOUND;
    mr_mutex_unlock(&f->d.lock);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
    assert_int_equal(f->d.reopens, 1);
}

/* It has read nothing of it, so nothing is missing. */
static void a_late_comer_is_not_told_of_losses(void **state)
{
    struct fixture *f = *state;

    f->opts.on_loss = MR_ON_LOSS_ERROR;
    f->d.job_finished = true;
    f->d.lost_workers = 1;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
}

/* That it failed is no loss: nobody takes it for an epoch without elements. */
static void a_late_comer_is_told_of_the_error(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    f->d.job_finished = true;
    f->d.error_code = MR_EINVAL;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EINVAL);
    assert_non_null(strstr(err.message, "the iteration failed"));
}

static void at_least_once_holds_the_end_until_all_was_returned(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 2); /* the first window */
    f->opts.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    f->opts.guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&w->lock);
    while (!w->end_sent || w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_int_equal(w->returned, 0); /* the application may be in the middle of it */
    assert_false(w->done);
    mr_mutex_unlock(&w->lock);
    pull_n(f, 2);
    mr_mutex_lock(&w->lock);
    while (w->returned < 1) { /* it came back for another */
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_false(w->done);
    mr_mutex_unlock(&w->lock);
    assert_int_equal(pull(f, 1, 1, NULL),
                     MR_TIMEOUT); /* ... and again, whether there is one or not */
    mr_mutex_lock(&w->lock);
    while (!w->done) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    assert_int_equal(w->returned, 2);
    mr_mutex_unlock(&w->lock);
}

/* Who leaves in the middle of what it was given has not returned all of it: the worker gives it to
 * others. */
static void at_least_once_closing_returns_what_was_used(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 100);
    f->opts.mode = MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    f->opts.guarantee = MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    open_reader(f, 0);
    pull_n(f, 1);
    pull_n(f, 2);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_true(w->done);
    assert_int_equal(w->returned, 1);
}

static void follow(struct fixture *f, enum mr_hand_way way)
{
    f->hand.way = way;
    atomic_store(&f->hand.handed, 0);
    atomic_store(&f->hand.unused, 0);
    atomic_store(&f->hand.last, 0);
    atomic_store(&f->hand.under_way, false);
    f->opts.hand_log = &f->hand;
}

static void close_reader(struct fixture *f)
{
    mr_reader_close(f->r);
    f->r = NULL;
    assert_null(f->hand.tell);
    f->count = 0;
}

/* The application was handed @n elements more, and comes back for another. */
static void hand_out(struct fixture *f, uint32_t n)
{
    mr_hand_log_came(&f->hand, n, false, false);
    mr_hand_log_come(&f->hand);
}

/* What is held back between the read and the application is not returned yet, and a goodbye gives
 * it back. */
static void what_is_held_back_is_not_used(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;

    add_workers(f, 1, 100);
    for (uint64_t i = 0; i < 4; i++) {
        f->opts.trainer =
            (char *)(uintptr_t)(i % 2 == 0 ? "" : "t1"); /* a production's are others' as well */
        f->opts.guarantee =
            i < 2 ? MILLRACE__GUARANTEE__AT_MOST_ONCE : MILLRACE__GUARANTEE__AT_LEAST_ONCE;
        follow(f, MR_HAND_IN_ORDER);
        open_reader(f, 0);
        pull_n(f, 20); /* more than the last block */
        hand_out(f, 3);
        mr_mutex_lock(&w->lock);
        while (w->returned < 3) { /* it is told, though nothing is pulled */
            assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
        }
        assert_int_equal(w->returned, 3);
        mr_mutex_unlock(&w->lock);
        mr_hand_log_came(&f->hand, 4, false, false);
        mr_hand_log_came(&f->hand, 0, true, false); /* an error in place of an element used it */
        atomic_store(&f->hand.unused, i % 2);
        close_reader(f);
        assert_true(w->done && w->gave_back);
        assert_int_equal(w->returned, 8 - i % 2);
        w->done = false;
    }
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 0);
}

/* Which elements a shuffle holds nobody knows, but how many: they are nobody's, which the job's
 * record says, too. */
static void what_is_mixed_and_held_back_is_counted(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;

    add_workers(f, 1, 100);
    f->opts.job_name = "shared";
    for (uint64_t i = 0; i < 2; i++) {
        f->opts.guarantee =
            i == 0 ? MILLRACE__GUARANTEE__AT_MOST_ONCE : MILLRACE__GUARANTEE__AT_LEAST_ONCE;
        follow(f, MR_HAND_MIXED);
        open_reader(f, 0);
        pull_n(f, 20);
        hand_out(f, 8);
        atomic_store(&f->hand.unused, 1);
        close_reader(f);
        /* At least once the last one is given back, wherever it is. It was given alone. */
        assert_int_equal(w->returned, 20 - i);
        assert_int_equal(f->d.abandoned, 13);
        mr_loss_tally_get(&f->losses, &losses);
        assert_int_equal(losses.abandoned_elements, 13 * (i + 1));
        assert_int_equal(losses.incomplete_reads, i + 1);
        w->done = false;
    }
    f->opts.job_name = NULL; /* nobody misses it */
    follow(f, MR_HAND_MIXED);
    open_reader(f, 0);
    pull_n(f, 20);
    close_reader(f);
    assert_int_equal(f->d.abandoned, 0);
}

/* One element was handed out for the first three; now two are taken for the next. Nothing of it
 * waits for a worker. */
static void take_one_by_one(struct fixture *f)
{
    struct fake_worker *w = &f->w[0];

    follow(f, MR_HAND_ONE_BY_ONE);
    open_reader(f, 0);
    mr_hand_log_come(&f->hand);
    pull_n(f, 3);
    hand_out(f, 1);
    mr_mutex_lock(&w->lock);
    while (w->received < 5) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
    pull_n(f, 5);
}

/* What was taken for an element that is not handed out after all (an interrupt, a timeout) goes
 * back. */
static void what_was_taken_one_by_one_goes_back_with_its_element(void **state)
{
    const struct {
        uint32_t rows, unused;
        uint64_t returned[2]; /* at most once, at least once */
        uint64_t abandoned;
    } cases[] = {{1, 0, {5, 5}, 0},
                 {1, 1, {3, 3}, 0},
                 {0, 0, {3, 3}, 0},
                 {3, 3, {3, 3}, 0},
                 {3, 2, {5, 3}, 2}};
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;
    uint64_t abandoned = 0;

    add_workers(f, 1, 100);
    f->opts.job_name = "shared";
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const size_t k = i / 2;

        f->opts.guarantee =
            i % 2 == 0 ? MILLRACE__GUARANTEE__AT_MOST_ONCE : MILLRACE__GUARANTEE__AT_LEAST_ONCE;
        take_one_by_one(f);
        mr_hand_log_came(&f->hand, cases[k].rows, false, false);
        atomic_store(&f->hand.unused, cases[k].unused);
        close_reader(f);
        assert_true(w->done && w->gave_back);
        assert_int_equal(w->returned, cases[k].returned[i % 2]);
        abandoned += i % 2 == 0 ? cases[k].abandoned : 0;
        mr_loss_tally_get(&f->losses, &losses);
        assert_int_equal(losses.abandoned_elements, abandoned);
        w->done = false;
        w->received = 0;
    }
}

/* A part of the last element may not have been handed out: at least once it comes again. */
static void what_is_handed_out_in_parts_goes_back_at_least_once(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 100);
    f->opts.job_name = "shared";
    f->hand.splits_elements = true;
    for (uint64_t i = 0; i < 2; i++) {
        f->opts.guarantee =
            i == 0 ? MILLRACE__GUARANTEE__AT_MOST_ONCE : MILLRACE__GUARANTEE__AT_LEAST_ONCE;
        follow(f, MR_HAND_ONE_BY_ONE);
        open_reader(f, 0);
        mr_hand_log_come(&f->hand);
        pull_n(f, 1);
        hand_out(f, 1);
        pull_n(f, 2);
        hand_out(f, 1); /* of the second one */
        mr_hand_log_came(&f->hand, 1, false, false);
        close_reader(f);
        assert_int_equal(w->returned, 2 - i);
        w->done = false;
    }
    open_reader(f, 0); /* at least once */
    mr_hand_log_come(&f->hand);
    pull_n(f, 1);
    hand_out(f, 1);
    pull_n(f, 2); /* for an element of a part of the first one, too, which is not handed out */
    mr_hand_log_came(&f->hand, 0, false, false);
    close_reader(f);
    assert_int_equal(w->returned, 0);
}

/* Others' ends may wait for it, and ours for theirs. */
static void who_waits_for_more_holds_nothing_for_long(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;

    add_workers(f, 2, 2);
    f->w[1].silent = true;
    f->opts.job_name = "shared";
    follow(f, MR_HAND_ONE_BY_ONE);
    open_reader(f, 0);
    mr_hand_log_come(&f->hand);
    pull_n(f, 2);
    mr_mutex_lock(&w->lock);
    while (w->returned < 2) {
        mr_mutex_unlock(&w->lock);
        assert_int_equal(pull(f, 1, 10, NULL), MR_TIMEOUT);
        mr_mutex_lock(&w->lock);
    }
    mr_mutex_unlock(&w->lock);
    mr_hand_log_came(&f->hand, 0, false, false);
    close_reader(f);
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 2);
    assert_int_equal(f->d.abandoned, 2);
}

/* A last batch that is not full needs the end, which waits for what it took. */
static void the_end_comes_to_who_takes_one_by_one(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 5);
    f->opts.job_name = "shared";
    follow(f, MR_HAND_ONE_BY_ONE);
    open_reader(f, 0);
    mr_hand_log_come(&f->hand);
    pull_to_the_end(f);
    expect_each_once(f, 2, 5);
}

/* One element with the application, which is through with it, and another that it has not come
 * to. */
static void open_with_one_in_the_queue(struct fixture *f)
{
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 2); /* the first window */
    f->opts.job_name = "shared";
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&w->lock);
    while (!w->end_sent || w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
}

static void wait_until_nothing_is_connected(struct fixture *f)
{
    MR_LOCK(&f->r->lock);
    while (f->r->read.streams > 0) {
        assert_true(mr_cond_wait_ms(&f->r->due, &f->r->lock, LONG_MS));
    }
}

static void end_the_iteration(struct fixture *f)
{
    mr_mutex_lock(&f->d.lock);
    f->d.tasks[0].ended = true;
    f->d.finished = true;
    mr_mutex_unlock(&f->d.lock);
    fake_dispatcher_push(&f->d);
    wait_until_nothing_is_connected(f);
}

/* It does so before it is closed, and has nothing to add then; what it has heard no answer to it
 * says again. */
static void expect_leave(struct fixture *f)
{
    mr_mutex_lock(&f->d.lock);
    while (f->d.releases == 0) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    assert_int_equal(f->d.abandoned, 0);
    mr_mutex_unlock(&f->d.lock);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_in_range(f->d.releases, 1, 2);
    assert_int_equal(f->d.abandoned, 0);
}

/* The read is over for everybody else: what it closes with is nobody's, which it and the job's
 * record say. */
static void what_is_closed_with_after_the_end_is_counted(void **state)
{
    struct fixture *f = *state;
    struct mr_losses losses;

    open_with_one_in_the_queue(f);
    end_the_iteration(f);
    mr_reader_close(f->r);
    f->r = NULL;
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 1);
    assert_int_equal(losses.incomplete_reads, 1);
    assert_int_equal(f->d.abandoned, 1);
}

/*
 * Whoever falls silent with elements has lost them, so one that is there says so after the end,
 * too; and when it has used them it leaves, whenever it is closed.
 */
static void who_holds_elements_after_the_end_is_heard_of_until_they_are_used(void **state)
{
    struct fixture *f = *state;

    open_with_one_in_the_queue(f);
    end_the_iteration(f);
    mr_mutex_lock(&f->d.lock);
    unsigned heartbeats = f->d.heartbeats;
    while (f->d.heartbeats < heartbeats + 3) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    assert_int_equal(f->d.releases, 0);
    mr_mutex_unlock(&f->d.lock);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_leave(f);
}

/* Its worker may have heard too late, and have named it as one that holds elements. */
static void who_used_all_before_the_end_leaves_as_well(void **state)
{
    struct fixture *f = *state;

    open_with_one_in_the_queue(f);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, 0, NULL), MR_TIMEOUT); /* it has used that */
    end_the_iteration(f);
    expect_leave(f);
}

/* A shuffle has taken up everything and handed out one of two elements, while the dispatcher hears
 * of the reader. */
static void open_with_one_in_a_shuffle(struct fixture *f)
{
    follow(f, MR_HAND_MIXED);
    open_with_one_in_the_queue(f);
    end_the_iteration(f);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    hand_out(f, 1);
    MR_LOCK(&f->d.lock);
    unsigned heartbeats = f->d.heartbeats;
    while (f->d.heartbeats < heartbeats + 3) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    assert_int_equal(f->d.releases, 0);
}

static void what_is_mixed_and_closed_with_after_the_end_is_counted(void **state)
{
    struct fixture *f = *state;
    struct mr_losses losses;

    open_with_one_in_a_shuffle(f);
    close_reader(f);
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 1);
    assert_int_equal(losses.incomplete_reads, 1);
    assert_int_equal(f->d.abandoned, 1);
}

static void who_is_handed_all_that_was_mixed_leaves_as_well(void **state)
{
    struct fixture *f = *state;

    open_with_one_in_a_shuffle(f);
    hand_out(f, 1);
    expect_leave(f);
}

/* It was given up while it was away, and had its end: what it was given up with it says late that
 * it has used. */
static void who_was_given_up_after_the_end_reads_what_it_holds(void **state)
{
    struct fixture *f = *state;

    open_with_one_in_the_queue(f);
    end_the_iteration(f);
    mr_mutex_lock(&f->d.lock);
    f->d.refuse_heartbeat = MR_ENOTFOUND;
    f->d.job_finished = true;
    while (f->d.reopens == 0) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(f->d.releases, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_END);
    expect_leave(f);
}

/* The worker hears from the dispatcher that this client is gone, and counts it itself, or named it
 * with the end. */
static void what_an_unreachable_worker_is_not_told_is_counted(void **state)
{
    struct fixture *f = *state;
    struct mr_losses losses;

    open_with_one_in_the_queue(f);
    fake_worker_stop(&f->w[0]);
    mr_reader_close(f->r);
    f->r = NULL;
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 1);
    assert_int_equal(losses.incomplete_reads, 1);
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->d.abandoned, 0);
    assert_int_equal(f->d.unheard, 1);
    assert_string_equal(f->d.unheard_of, f->d.tasks[0].id);
}

/* That a read has failed for its application alone does not make what it had read ahead any less
 * missed by others. */
static void what_a_failed_read_goes_with_is_counted(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];
    struct mr_losses losses;

    add_workers(f, 1, 2);
    w->skipped = 7; /* which fails it */
    f->opts.job_name = "shared";
    f->opts.sharing = MILLRACE__SHARING__SHARING_AUTO;
    f->opts.lag = MILLRACE__LAG__LAG_WAIT;
    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
    mr_mutex_lock(&w->lock);
    while (!w->end_sent || w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
    fake_worker_stop(w);
    mr_reader_close(f->r);
    f->r = NULL;
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 2);
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->d.unheard,
                     2); /* the dispatcher would take a goodbye without it for "all was used" */
}

/* The same of a worker whose elements are not what they should be: those that came before were. */
static void what_came_before_elements_of_another_spec_is_counted(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 4);
    w->rows = 1;
    f->opts.job_name = "shared";
    open_reader(f, 2);
    mr_mutex_lock(&w->lock);
    while (w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    w->strings = true;
    mr_mutex_unlock(&w->lock);
    pull_n(f, 1);
    wait_until_nothing_is_connected(f);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->d.unheard, 1);
}

/* It has used all and got an error in place of the end: there is nothing more to say when it is
 * closed, or never is. */
static void who_used_all_and_is_told_of_losses_leaves_as_well(void **state)
{
    struct fixture *f = *state;

    f->opts.on_loss = MR_ON_LOSS_ERROR;
    open_with_one_in_the_queue(f);
    f->d.lost_splits = 1;
    f->d.lost_workers = 1;
    end_the_iteration(f);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
    expect_leave(f);
}

static bool is_watched(const struct fake_dispatcher *d)
{
    for (size_t i = 0; i < FAKE_WATCHERS_MAX; i++) {
        if (d->watchers[i] != NULL) {
            return true;
        }
    }
    return false;
}

/* The same where a prefetch has met that error before the application had the elements in front of
 * it. */
static void who_is_handed_the_last_elements_after_the_error_leaves_as_well(void **state)
{
    struct fixture *f = *state;

    f->opts.on_loss = MR_ON_LOSS_ERROR;
    follow(f, MR_HAND_IN_ORDER);
    open_with_one_in_the_queue(f);
    f->d.lost_splits = 1;
    f->d.lost_workers = 1;
    end_the_iteration(f);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_EDATALOSS);
    mr_mutex_lock(&f->d.lock);
    while (is_watched(&f->d)) { /* the link has nothing more to do than that */
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
    hand_out(f, 2);
    expect_leave(f);
}

/* Others get it, and in a job without a name there are none. */
static void what_others_get_is_no_loss(void **state)
{
    struct fixture *f = *state;
    struct mr_losses losses;

    open_with_one_in_the_queue(f);
    mr_reader_close(f->r);
    f->r = NULL;
    assert_true(f->w[0].done && f->w[0].gave_back);
    mr_loss_tally_get(&f->losses, &losses);
    assert_int_equal(losses.abandoned_elements, 0);
    assert_int_equal(f->d.abandoned + f->d.unheard, 0);
}

static void heartbeats_come_as_often_as_the_dispatcher_needs(void **state)
{
    struct fixture *f = *state;

    f->opts.heartbeat_ms = 3600 * 1000;
    f->d.client_timeout_ms = 60;
    open_reader(f, 0);
    mr_mutex_lock(&f->d.lock);
    while (f->d.heartbeats < 3) {
        assert_true(mr_cond_wait_ms(&f->d.changed, &f->d.lock, LONG_MS));
    }
    mr_mutex_unlock(&f->d.lock);
}

static void a_dead_job_is_an_error(void **state)
{
    struct fixture *f = *state;
    mr_error err;

    f->d.refuse = MR_ENOTFOUND;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_ENOTFOUND);
    assert_string_equal(err.message, "as the test says");
}

static void nobody_answers(void **state)
{
    struct fixture *f = *state;
    char where[64];
    mr_error err;

    memcpy(where, f->d.address, sizeof where);
    fake_dispatcher_stop(&f->d);
    f->opts.connect_timeout_ms = 500;
    open_reader(f, 0);
    assert_int_equal(pull(f, 1, LONG_MS, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, where));
}

static void *cancel_soon(void *arg)
{
    struct fixture *f = arg;

    mr_mutex_lock(&f->d.lock);
    while (f->d.heartbeats == 0) {
        mr_cond_wait(&f->d.changed, &f->d.lock);
    }
    mr_mutex_unlock(&f->d.lock);
    mr_reader_cancel(f->r);
    return NULL;
}

static void a_blocked_pull_can_be_cancelled(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;

    open_reader(f, 0);
    assert_int_equal(mr_thread_start(&thread, "cancel", cancel_soon, f, NULL), MR_OK);
    assert_int_equal(pull(f, 1, -1, NULL), MR_ECANCELED);
    assert_int_equal(pull(f, 1, 0, NULL), MR_ECANCELED);
    (void)pthread_join(thread, NULL);
}

static void closing_early_says_goodbye(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 2, 1000);
    open_reader(f, 0);
    pull_n(f, 10);
    for (size_t i = 0; i < 2; i++) {
        mr_mutex_lock(&f->w[i].lock);
        while (f->w[i].received == 0) {
            assert_true(mr_cond_wait_ms(&f->w[i].changed, &f->w[i].lock, LONG_MS));
        }
        mr_mutex_unlock(&f->w[i].lock);
    }
    mr_reader_close(f->r);
    f->r = NULL;
    assert_true(f->w[0].done);
    assert_true(f->w[1].done);
    assert_int_equal(f->d.releases, 1);
    assert_int_equal(f->w[0].returned + f->w[1].returned, 10);
}

/* Wherever its stream is just then: a worker that has heard of it hears that it went, or it would
 * keep elements for it. */
static void closing_at_any_moment_says_goodbye(void **state)
{
    struct fixture *f = *state;
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 10);
    w->silent = true; /* nothing comes that would tell the reader that it is connected */
    for (unsigned i = 0; i < 100; i++) {
        open_reader(f, 0);
        mr_mutex_lock(&w->lock);
        while (w->opens == i) {
            assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
        }
        mr_mutex_unlock(&w->lock);
        mr_reader_close(f->r);
        f->r = NULL;
        mr_mutex_lock(&w->lock);
        unsigned goodbyes = w->goodbyes;
        w->done = false;
        mr_mutex_unlock(&w->lock);
        assert_int_equal(goodbyes, i + 1);
    }
}

static void what_was_returned_is_reported(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 100);
    open_reader(f, 50);
    pull_n(f, 2); /* who comes back has used what it was given before */
    mr_mutex_lock(&f->w[0].lock);
    while (f->w[0].returned < 1) {
        assert_true(mr_cond_wait_ms(&f->w[0].changed, &f->w[0].lock, LONG_MS));
    }
    mr_mutex_unlock(&f->w[0].lock);
}

static void the_queue_is_bounded(void **state)
{
    struct fixture *f = *state;

    add_workers(f, 1, 1000);
    open_reader(f, 0);
    pull_n(f, 1);
    /* Nobody takes more: the worker comes to a stop at the window. */
    mr_mutex_lock(&f->w[0].lock);
    while (f->w[0].cursor < f->w[0].limit) {
        (void)mr_cond_wait_ms(&f->w[0].changed, &f->w[0].lock, 10);
    }
    assert_true(f->w[0].cursor < 100);
    mr_mutex_unlock(&f->w[0].lock);
    f->count = 0;
    memset(f->seen, 0, sizeof f->seen);
}

/* Whichever allocation fails: an error or the right answer, and nothing is left behind (a sanitizer
 * sees to that). */
static void any_allocation_may_fail(void **state)
{
    struct fixture *f = *state;
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    struct mr_want want = {.rows_max = 1};

    f->d.job_finished = true;
    for (uint64_t nth = 1; nth <= 60; nth++) {
        struct mr_read_options opts = {
            .service = mr_strdup(f->d.address),
            .job_name = mr_strdup("j"),
            .trainer = mr_strdup(""),
            .compression = mr_strdup("NONE"),
            .target_workers = mr_strdup("AUTO"),
            .connect_timeout_ms = LONG_MS,
            .heartbeat_ms = 1000,
            .dataset_id = mr_strdup("digits"),
        };
        mr_block *block = NULL;
        mr_reader *r = NULL;

        assert_int_equal(mr_spec_new(&leaf, 1, NULL, &opts.spec, NULL), MR_OK);
        mr_alloc_fail_at(nth);
        int rc = mr_reader_open(&opts, &r, NULL);
        if (rc == MR_OK) {
            rc = mr_reader_pull(r, want, LONG_MS, &block, NULL);
            mr_reader_close(r);
        }
        mr_alloc_fail_at(0);
        assert_true(rc == MR_END || rc == MR_EEXHAUSTED || rc == MR_EUNAVAIL);
        mr_read_options_clear(&opts);
    }
}

int main(int argc, char **argv)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(everything_arrives_once),
        TEST(a_job_that_is_over_has_no_element),
        TEST(who_begins_anew_under_a_used_name_is_told),
        TEST(an_epoch_that_others_have_read_is_empty),
        TEST(tasks_may_come_later),
        TEST(one_credit_starves_nobody),
        TEST(the_bound_of_outstanding_elements_holds),
        TEST(a_broken_stream_resumes),
        TEST(a_session_that_was_forgotten_begins_anew),
        TEST(a_shared_job_leaves_to_others_what_was_not_returned),
        TEST(a_lost_goodbye_is_said_again),
        TEST(what_a_pipeline_fails_with_comes_after_its_elements),
        TEST(closing_a_failed_read_waits_for_nobody),
        TEST(what_an_iteration_fails_with_is_told),
        TEST(an_iteration_fails_after_the_elements_that_came),
        TEST(elements_of_another_spec_are_refused),
        TEST(a_worker_that_moved_is_asked_again),
        TEST(a_lost_worker_does_not_hold_up_the_end),
        TEST(nothing_goes_on_connecting_to_a_lost_worker),
        TEST(who_is_in_line_connects_in_the_end),
        TEST(workers_that_come_and_go_leave_nothing_behind),
        TEST(what_a_lost_worker_sent_is_read),
        TEST(reading_goes_on_while_no_dispatcher_leads),
        TEST(nobody_can_be_reached),
        TEST(who_cannot_be_reached_takes_no_credit_and_is_reported),
        TEST(workers_that_cannot_be_reached_are_told_of_in_one_line),
        TEST(a_forgotten_client_attaches_again),
        TEST(losses_are_counted_once),
        TEST(lost_elements_are_known_of_all_reads_or_of_none),
        TEST(a_loss_may_be_an_error_in_place_of_the_end),
        TEST(repeats_alone_are_no_error),
        TEST(sharing_is_asked_for),
        TEST(what_was_skipped_is_counted),
        TEST(who_waits_and_misses_is_told_at_once),
        TEST(who_waits_and_misses_goes_on),
        TEST(a_wait_is_told_of_more_and_more_rarely),
        TEST(a_shared_job_holds_the_end_until_all_was_returned),
        TEST(a_lost_copy_is_a_loss),
        TEST(a_client_that_comes_back_is_told_of_losses),
        TEST(a_late_comer_is_not_told_of_losses),
        TEST(a_late_comer_is_told_of_the_error),
        TEST(at_least_once_holds_the_end_until_all_was_returned),
        TEST(at_least_once_closing_returns_what_was_used),
        TEST(what_is_held_back_is_not_used),
        TEST(what_is_mixed_and_held_back_is_counted),
        TEST(what_was_taken_one_by_one_goes_back_with_its_element),
        TEST(what_is_handed_out_in_parts_goes_back_at_least_once),
        TEST(who_waits_for_more_holds_nothing_for_long),
        TEST(the_end_comes_to_who_takes_one_by_one),
        TEST(what_is_closed_with_after_the_end_is_counted),
        TEST(who_holds_elements_after_the_end_is_heard_of_until_they_are_used),
        TEST(what_is_mixed_and_closed_with_after_the_end_is_counted),
        TEST(who_is_handed_all_that_was_mixed_leaves_as_well),
        TEST(who_used_all_before_the_end_leaves_as_well),
        TEST(who_was_given_up_after_the_end_reads_what_it_holds),
        TEST(what_an_unreachable_worker_is_not_told_is_counted),
        TEST(what_a_failed_read_goes_with_is_counted),
        TEST(what_came_before_elements_of_another_spec_is_counted),
        TEST(who_used_all_and_is_told_of_losses_leaves_as_well),
        TEST(who_is_handed_the_last_elements_after_the_error_leaves_as_well),
        TEST(what_others_get_is_no_loss),
        TEST(heartbeats_come_as_often_as_the_dispatcher_needs),
        TEST(a_dead_job_is_an_error),
        TEST(nobody_answers),
        TEST(a_blocked_pull_can_be_cancelled),
        TEST(closing_early_says_goodbye),
        TEST(closing_at_any_moment_says_goodbye),
        TEST(what_was_returned_is_reported),
        TEST(the_queue_is_bounded),
        TEST(any_allocation_may_fail),
    };

    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
