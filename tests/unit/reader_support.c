#include "reader_support.h"

#include "base/clock.h"
#include "base/sync.h"
#include "tests/support/port.h"

#include <stdlib.h>

int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    mr_loss_tally_init(&f->losses);
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    fake_service_start(&f->d, f->rt, mr_test_port());
    *state = f;
    return 0;
}

int teardown(void **state)
{
    struct fixture *f = *state;

    if (f->r != NULL) {
        mr_reader_close(f->r);
    }
    if (f->d.srv != NULL) {
        fake_service_stop(&f->d);
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

void add_workers(struct fixture *f, size_t n, uint64_t total)
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

void open_reader(struct fixture *f, uint64_t max_outstanding)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    struct mr_read_options opts = {
        .service = mr_strdup(f->d.address),
        .job.base = PROTOBUF_C_MESSAGE_INIT(&millrace__job_spec__descriptor),
        .job.mode = f->opts.job.mode,
        .job.guarantee = f->opts.job.guarantee,
        .on_loss = f->opts.on_loss,
        .losses = &f->losses,
        .hand_log = f->opts.hand_log,
        .job.name = mr_strdup(f->opts.job.name != NULL ? f->opts.job.name : ""),
        .repetition = f->opts.repetition,
        .begins = f->opts.repetition == 0,
        .job.trainer = mr_strdup(f->opts.job.trainer != NULL ? f->opts.job.trainer : ""),
        .job.sharing = f->opts.job.sharing,
        .job.lag = f->opts.job.lag,
        .compression = "NONE",
        .job.target_workers = (char *)"AUTO",
        .max_outstanding = max_outstanding,
        .connect_timeout_ms = f->opts.connect_timeout_ms > 0 ? f->opts.connect_timeout_ms : LONG_MS,
        .heartbeat_ms = f->opts.heartbeat_ms > 0 ? f->opts.heartbeat_ms : 20,
        .dataset_id = mr_strdup("digits"),
    };

    assert_int_equal(mr_spec_new(&leaf, 1, NULL, &opts.spec, NULL), MR_OK);
    assert_int_equal(mr_reader_open(&opts, &f->r, NULL), MR_OK);
    assert_null(opts.service); /* taken */
}

int pull(struct fixture *f, uint32_t rows, int timeout_ms, mr_error *err)
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

void pull_n(struct fixture *f, size_t n)
{
    while (f->count < n) {
        assert_int_equal(pull(f, 1, LONG_MS, NULL), MR_OK);
    }
}

void expect_each_once(const struct fixture *f, size_t workers, uint64_t total)
{
    for (size_t i = 0; i < workers; i++) {
        for (uint64_t k = 0; k < total; k++) {
            assert_int_equal(f->seen[100 * i + k], 1);
        }
    }
    assert_int_equal(f->count, workers * total);
}

void *finish_when_done(void *arg)
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
    fake_service_push(&f->d);
    return NULL;
}

void pull_to_the_end(struct fixture *f)
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

void follow(struct fixture *f, enum mr_hand_way way)
{
    f->hand.way = way;
    atomic_store(&f->hand.handed, 0);
    atomic_store(&f->hand.unused, 0);
    atomic_store(&f->hand.last, 0);
    atomic_store(&f->hand.under_way, false);
    f->opts.hand_log = &f->hand;
}

void close_reader(struct fixture *f)
{
    mr_reader_close(f->r);
    f->r = NULL;
    assert_null(f->hand.tell);
    f->count = 0;
}

void hand_out(struct fixture *f, uint32_t n)
{
    mr_hand_log_came(&f->hand, n, false, false);
    mr_hand_log_come(&f->hand);
}

void open_with_one_in_the_queue(struct fixture *f)
{
    struct fake_worker *w = &f->w[0];

    add_workers(f, 1, 2); /* the first window */
    f->opts.job.name = "shared";
    open_reader(f, 0);
    pull_n(f, 1);
    mr_mutex_lock(&w->lock);
    while (!w->end_sent || w->received < 2) {
        assert_true(mr_cond_wait_ms(&w->changed, &w->lock, LONG_MS));
    }
    mr_mutex_unlock(&w->lock);
}
