/*
 * A whole cluster in one process: dispatchers over the store in memory, workers and clients, over
 * the transport within the process (rpc/local). All of it is the code that ships, and all of it can
 * be seen by the thread sanitizer.
 *
 * Each test reads a dataset by two clients at once and counts what each gets, while workers and the
 * leader are killed: halfway, since both clients wait at a gate there.
 */
#include "base/clock.h"
#include "base/log.h"
#include "base/sync.h"
#include "dispatcher/dispatcher.h"
#include "rpc/local/local.h"
#include "tests/support/live_store.h"
#include "worker/worker.h"

#include <dirent.h>
#include <millrace/iterator.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define ELEMENTS 2000u
#define GATE (ELEMENTS / 8) /* of each client */
#define READERS 2u
#define WORKERS 2u
#define DISPATCHERS 2u
#define LONG_MS 120000
#define ATTRS_MAX 12u

struct reader {
    struct cluster *cluster;
    pthread_t thread;
    struct mr_attr attrs[ATTRS_MAX];
    size_t nattrs;
    /* the thread's, until it has ended */
    unsigned counts[ELEMENTS];
    int rc;
    mr_error err;
    struct mr_losses losses;
};

struct cluster {
    struct mr_live_store *live;
    mr_dispatcher *dispatchers[DISPATCHERS];
    mr_store *stores[DISPATCHERS]; /* of theirs */
    mr_worker *workers[WORKERS];
    char service[128];
    struct reader readers[READERS];

    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    bool open;        /* the gate */
    unsigned arrived; /* readers that have come to it, or ended */
};

/* Without a heartbeat for so long a worker is lost. Long enough for one that is alive, wherever
 * that matters: on a machine that is busy it may be silent for seconds. */
#define WORKER_TIMEOUT_MS 3000

/* ---- starting ---- */

static void start_dispatcher(struct cluster *c, size_t i)
{
    struct mr_dispatcher_options o = {.listen = "127.0.0.1:0",
                                      .etcd_endpoints = "in memory",
                                      .lease_ttl_ms = 2000,
                                      .heartbeat_ms = 100,
                                      .worker_timeout_ms = WORKER_TIMEOUT_MS};
    mr_error err;

    c->stores[i] = mr_live_store_connect(c->live);
    if (mr_dispatcher_start_with(&o, c->stores[i], &c->dispatchers[i], &err) < 0) {
        fail_msg("%s", err.message);
    }
}

static void start_worker(struct cluster *c, size_t i)
{
    struct mr_worker_options o = {.dispatchers = c->service, .threads = 2};
    mr_error err;

    if (mr_worker_start(&o, &c->workers[i], &err) < 0 ||
        mr_worker_wait_registered(c->workers[i], LONG_MS, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
}

static int setup(void **state)
{
    struct cluster *c = calloc(1, sizeof *c);

    *state = c;
    mr_mutex_init(&c->lock);
    mr_cond_init(&c->changed);
    c->live = mr_live_store_new(1);
    start_dispatcher(c, 0);
    (void)snprintf(c->service, sizeof c->service, "%s", mr_dispatcher_address(c->dispatchers[0]));
    start_worker(c, 0); /* It is registered, so the first dispatcher leads: the others stand by. */
    start_dispatcher(c, 1);
    (void)snprintf(c->service, sizeof c->service, "%s,%s", mr_dispatcher_address(c->dispatchers[0]),
                   mr_dispatcher_address(c->dispatchers[1]));
    start_worker(c, 1);
    return 0;
}

static void *end_worker(void *worker)
{
    mr_worker_free(worker);
    return NULL;
}

static void *end_dispatcher(void *dispatcher)
{
    mr_dispatcher_free(dispatcher);
    return NULL;
}

static int teardown(void **state)
{
    struct cluster *c = *state;
    pthread_t ending[WORKERS > DISPATCHERS ? WORKERS : DISPATCHERS];

    /* At once: who was killed tries to say goodbye, for seconds. */
    for (size_t i = 0; i < WORKERS; i++) {
        assert_int_equal(mr_thread_start(&ending[i], "end", end_worker, c->workers[i], NULL),
                         MR_OK);
    }
    for (size_t i = 0; i < WORKERS; i++) {
        (void)pthread_join(ending[i], NULL);
    }
    for (size_t i = 0; i < DISPATCHERS; i++) {
        assert_int_equal(
            mr_thread_start(&ending[i], "end", end_dispatcher, c->dispatchers[i], NULL), MR_OK);
    }
    for (size_t i = 0; i < DISPATCHERS; i++) {
        (void)pthread_join(ending[i], NULL);
    }
    mr_live_store_free(c->live);
    (void)pthread_cond_destroy(&c->changed);
    (void)pthread_mutex_destroy(&c->lock);
    free(c);
    return 0;
}

/* ---- reading ---- */

static struct mr_attr number(const char *name, int64_t i)
{
    return (struct mr_attr){.name = name, .kind = MR_ATTR_INT, .i = i};
}

static struct mr_attr text(const char *name, const char *value)
{
    return (struct mr_attr){
        .name = name, .kind = MR_ATTR_BYTES, .bytes = value, .size = strlen(value)};
}

static void at_the_gate(struct cluster *c, bool wait)
{
    MR_LOCK(&c->lock);
    c->arrived++;
    (void)pthread_cond_broadcast(&c->changed);
    while (wait && !c->open) {
        mr_cond_wait(&c->changed, &c->lock);
    }
}

/* Until both readers are there. */
static void wait_at_gate(struct cluster *c)
{
    MR_LOCK(&c->lock);
    while (c->arrived < READERS) {
        if (!mr_cond_wait_ms(&c->changed, &c->lock, LONG_MS)) {
            fail_msg("%u of %u readers came to the gate", c->arrived, READERS);
        }
    }
}

static void open_gate(struct cluster *c)
{
    MR_LOCK(&c->lock);
    c->open = true;
    (void)pthread_cond_broadcast(&c->changed);
}

static int open_reader(struct reader *r, mr_iterator **ret, mr_error *err)
{
    const struct mr_attr range[] = {number("start", 0), number("stop", ELEMENTS),
                                    number("step", 1)};
    const struct mr_iterator_options o = {.struct_size = sizeof o, .threads = 1};
    mr_dataset *elements = NULL;
    mr_dataset *ds = NULL;
    int rc = mr_dataset_apply("range", NULL, 0, range, 3, NULL, 0, NULL, &elements, err);

    if (rc == MR_OK) {
        rc = mr_dataset_apply("distribute", &elements, 1, r->attrs, r->nattrs, NULL, 0, NULL, &ds,
                              err);
    }
    if (rc == MR_OK) {
        rc = mr_iterator_open(ds, &o, ret, err);
    }
    mr_dataset_unref(elements);
    mr_dataset_unref(ds);
    return rc;
}

static void *read_all(void *arg)
{
    struct reader *r = arg;
    struct mr_element element;
    mr_iterator *it = NULL;
    unsigned n = 0;

    r->rc = open_reader(r, &it, &r->err);
    while (r->rc == MR_OK) {
        r->rc = mr_iterator_next(it, &element, &r->err);
        if (r->rc != MR_OK) {
            break;
        }
        const int64_t *values = mr_block_column(element.block, 0)->data;
        r->counts[values[element.row]]++;
        if (++n == GATE) {
            at_the_gate(r->cluster, true);
        }
    }
    if (n < GATE) {
        at_the_gate(r->cluster, false);
    }
    r->losses.struct_size = sizeof r->losses;
    if (it != NULL) {
        mr_iterator_close(it, &r->losses);
    }
    return NULL;
}

static void start_readers(struct cluster *c)
{
    for (size_t i = 0; i < READERS; i++) {
        struct reader *r = &c->readers[i];

        r->cluster = c;
        r->attrs[r->nattrs++] = text("service", c->service);
        r->attrs[r->nattrs++] = number("max_outstanding_requests", 16);
        r->attrs[r->nattrs++] = number("heartbeat_interval_ms", 100);
        assert_true(r->nattrs <= ATTRS_MAX);
        assert_int_equal(mr_thread_start(&r->thread, "reader", read_all, r, NULL), MR_OK);
    }
}

static void join_readers(struct cluster *c)
{
    for (size_t i = 0; i < READERS; i++) {
        (void)pthread_join(c->readers[i].thread, NULL);
    }
    for (size_t i = 0; i < READERS; i++) {
        if (c->readers[i].rc != MR_END) {
            fail_msg("reader %zu: %s", i, c->readers[i].err.message);
        }
    }
}

static void kill_worker(struct cluster *c)
{
    assert_true(mr_rpc_local_kill(mr_worker_address(c->workers[0])));
}

static void kill_leader(struct cluster *c)
{
    mr_live_store_cut(c->stores[0]);
    assert_true(mr_rpc_local_kill(mr_dispatcher_address(c->dispatchers[0])));
}

/* ---- tests ---- */

static void two_clients(struct cluster *c, const char *guarantee)
{
    for (size_t i = 0; i < READERS; i++) {
        struct reader *r = &c->readers[i];

        r->attrs[r->nattrs++] = text("processing_mode", "DYNAMIC");
        r->attrs[r->nattrs++] = text("guarantee", guarantee);
        r->attrs[r->nattrs++] = text("job_name", "plain");
        r->attrs[r->nattrs++] = text("on_loss", "report");
    }
    start_readers(c);
    wait_at_gate(c);
}

static void without_losses_each_element_comes_once(void **state)
{
    struct cluster *c = *state;

    two_clients(c, "at_most_once");
    open_gate(c);
    join_readers(c);
    for (size_t i = 0; i < ELEMENTS; i++) {
        assert_int_equal(c->readers[0].counts[i] + c->readers[1].counts[i], 1);
    }
    assert_int_equal(c->readers[0].losses.incomplete_reads, 0);
}

/* Of what came twice and what did not come, no more than the clients were told. */
static void counts_agree_with_losses(struct cluster *c)
{
    uint64_t missing = 0, repeated = 0, told_missing = 0, told_repeated = 0;

    for (size_t i = 0; i < ELEMENTS; i++) {
        unsigned n = c->readers[0].counts[i] + c->readers[1].counts[i];

        missing += n == 0;
        repeated += n > 1 ? n - 1 : 0;
    }
    for (size_t i = 0; i < READERS; i++) {
        const struct mr_losses *l = &c->readers[i].losses;

        told_missing = l->lost_splits > told_missing ? l->lost_splits : told_missing;
        told_repeated = l->repeated_splits > told_repeated ? l->repeated_splits : told_repeated;
    }
    print_message("missing %llu (told %llu), repeated %llu (told %llu)\n",
                  (unsigned long long)missing, (unsigned long long)told_missing,
                  (unsigned long long)repeated, (unsigned long long)told_repeated);
    assert_true(missing <= told_missing); /* A split has one element. */
    assert_true(repeated <= told_repeated);
}

static void a_worker_and_the_leader_are_killed(void **state)
{
    struct cluster *c = *state;

    two_clients(c, "at_most_once");
    kill_worker(c);
    kill_leader(c);
    open_gate(c);
    join_readers(c);
    counts_agree_with_losses(c);
}

static void what_a_killed_worker_had_comes_again(void **state)
{
    struct cluster *c = *state;

    two_clients(c, "at_least_once");
    kill_leader(c);
    kill_worker(c);
    open_gate(c);
    join_readers(c);
    counts_agree_with_losses(c);
    for (size_t i = 0; i < ELEMENTS; i++) {
        assert_true(c->readers[0].counts[i] + c->readers[1].counts[i] >= 1);
    }
}

static void trainers_share_a_production(void **state)
{
    static const char *const trainers[READERS] = {"a", "b"};
    struct cluster *c = *state;

    for (size_t i = 0; i < READERS; i++) {
        struct reader *r = &c->readers[i];

        r->attrs[r->nattrs++] = text("processing_mode", "DYNAMIC");
        r->attrs[r->nattrs++] = text("job_name", "shared");
        r->attrs[r->nattrs++] = text("trainer_id", trainers[i]);
        r->attrs[r->nattrs++] = text("lag", "wait");
        r->attrs[r->nattrs++] = text("on_loss", "report");
    }
    start_readers(c);
    wait_at_gate(c);
    kill_leader(c);
    open_gate(c);
    join_readers(c);
    for (size_t i = 0; i < READERS; i++) {
        const struct reader *r = &c->readers[i];
        uint64_t missing = 0;

        for (size_t k = 0; k < ELEMENTS; k++) {
            assert_true(r->counts[k] <= 1);
            missing += r->counts[k] == 0;
        }
        assert_true(missing <= r->losses.skipped_elements + r->losses.lost_splits);
    }
}

/* Both consumers return a round or neither does; and of a worker that was not lost all come. */
static void consumers_read_in_rounds(void **state)
{
    struct cluster *c = *state;

    for (size_t i = 0; i < READERS; i++) {
        struct reader *r = &c->readers[i];

        r->attrs[r->nattrs++] = text("processing_mode", "OFF");
        r->attrs[r->nattrs++] = text("job_name", "rounds");
        r->attrs[r->nattrs++] = number("num_consumers", READERS);
        r->attrs[r->nattrs++] = number("consumer_index", (int64_t)i);
        r->attrs[r->nattrs++] = text("on_loss", "report");
    }
    start_readers(c);
    wait_at_gate(c);
    kill_worker(c);
    kill_leader(c);
    open_gate(c);
    join_readers(c);
    bool one_is_left = c->readers[0].losses.lost_workers <= 1;
    for (size_t k = 0; k < ELEMENTS; k += READERS) {
        for (size_t i = 0; i < READERS; i++) {
            assert_int_equal(c->readers[i].counts[k + i], c->readers[0].counts[k]);
            assert_int_equal(c->readers[i].counts[k + 1 - i], 0);
        }
        assert_true(!one_is_left || c->readers[0].counts[k] >= 1);
    }
}

static unsigned threads_named(const char *name)
{
    DIR *tasks = opendir("/proc/self/task");
    unsigned n = 0;

    assert_non_null(tasks);
    for (struct dirent *e = readdir(tasks); e != NULL; e = readdir(tasks)) {
        char path[300];
        char line[64] = "";

        (void)snprintf(path, sizeof path, "/proc/self/task/%s/comm", e->d_name);
        FILE *f = fopen(path, "r"); /* none: that thread has ended just now */
        if (f != NULL) {
            n += fgets(line, sizeof line, f) != NULL && strncmp(line, name, strlen(name)) == 0;
            (void)fclose(f);
        }
    }
    (void)closedir(tasks);
    return n;
}

/* Nobody turns with a store that is closed. */
static void a_leader_that_cannot_leave_stops(void **state)
{
    struct cluster *c = *state;

    assert_int_equal(threads_named("mr-loop"), DISPATCHERS);
    mr_live_store_cut(c->stores[0]);
    mr_dispatcher_stop(c->dispatchers[0]);
    assert_int_equal(threads_named("mr-loop"), DISPATCHERS - 1);
}

int main(int argc, char **argv)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(without_losses_each_element_comes_once),
        TEST(a_worker_and_the_leader_are_killed),
        TEST(what_a_killed_worker_had_comes_again),
        TEST(trainers_share_a_production),
        TEST(consumers_read_in_rounds),
        TEST(a_leader_that_cannot_leave_stops),
    };

    mr_log_init(getenv("MR_VERBOSE") != NULL ? MR_LOG_INFO : MR_LOG_OFF, MR_LOG_TEXT, "cluster");
    if (argc > 1) {
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
