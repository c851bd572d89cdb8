/* A worker that makes a production and serves it to several jobs: who joins when, gets what, at
 * whose pace, and what becomes of it when clients, disks and the dispatcher change their minds.
 * Real RocksDB in a temporary directory. No assertion is about time: waiting is for events. */
#include "worker/worker.h"
#include "worker_fake.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define N 1000
#define LONG 300 /* elements of 256 KiB */
#define TASKS 8  /* at work at once, of the worker that has few */

struct fixture {
    mr_rpc_runtime *rt;
    struct fake_dispatcher *d;
    mr_worker *w;
    char dir[64];
};

/* @ds.repeat(), for ever. */
static mr_dataset *repeat(mr_dataset *ds)
{
    struct mr_attr count = {.name = "count", .kind = MR_ATTR_INT, .i = -1};

    return fake_apply("repeat", ds, &count, 1);
}

/* Elements of @rows int64: @ds.batch(@rows). */
static mr_dataset *batch(mr_dataset *ds, int64_t rows)
{
    struct mr_attr attrs[2] = {{.name = "batch_size", .kind = MR_ATTR_INT, .i = rows},
                               {.name = "drop_remainder", .kind = MR_ATTR_BOOL, .i = 1}};

    return fake_apply("batch", ds, attrs, 2);
}

static void add_dataset(struct fixture *f, const char *id, mr_dataset *ds)
{
    fake_add_dataset(f->d, id, ds);
    mr_dataset_unref(ds);
}

static void start_worker(struct fixture *f, uint32_t tasks_max)
{
    char list[64];
    mr_error err;

    (void)snprintf(list, sizeof list, "127.0.0.1:%d", fake_dispatcher_port(f->d));
    struct mr_worker_options opts = {.dispatchers = list,
                                     .cache_dir = f->dir,
                                     .cache_bytes_max = 32 << 20,
                                     .tasks_max = tasks_max,
                                     .cache_memory_bytes_max = 32 << 20};
    if (mr_worker_start(&opts, &f->w, &err) != MR_OK) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(mr_worker_wait_registered(f->w, 30000, NULL), MR_OK);
}

static int setup_with(void **state, uint32_t tasks_max)
{
    struct fixture *f = mr_calloc(1, sizeof *f);

    strcpy(f->dir, "/tmp/mr-sharing-XXXXXX");
    if (mkdtemp(f->dir) == NULL) {
        return -1;
    }
    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    f->d = fake_dispatcher_new(f->rt, 0);
    add_dataset(f, "range", fake_range(N));
    add_dataset(f, "endless", repeat(fake_range(N)));
    /* Elements of 256 KiB: a window of 8 MiB holds some twenty. */
    add_dataset(f, "long", batch(fake_range(INT64_C(32) * 1024 * LONG), 32 * 1024));
    add_dataset(f, "large", batch(repeat(fake_range(INT64_C(1) << 40)), 32 * 1024));
    start_worker(f, tasks_max);
    *state = f;
    return 0;
}

static int setup(void **state)
{
    return setup_with(state, 0);
}

static int setup_small(void **state)
{
    return setup_with(state, TASKS);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_worker_free(f->w);
    fake_dispatcher_free(f->d);
    mr_rpc_release(f->rt);
    int rc = nftw(f->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    mr_free(f);
    return rc;
}

static struct fake_client *open_client(struct fixture *f, const char *task, const char *client,
                                       uint64_t credit)
{
    char iteration[64];
    struct fake_open open = {.address = mr_worker_address(f->w),
                             .incarnation = fake_incarnation(f->d),
                             .task = task,
                             .client = client,
                             .session = 1,
                             .credit = credit};

    (void)snprintf(iteration, sizeof iteration, "%.*s", (int)strcspn(task, "/"), task);
    open.iteration = iteration;
    return fake_client_open(f->rt, &open);
}

static void assert_all_once(const unsigned *seen, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(seen[i], 1);
    }
}

/* The first number of each element of @m into @values, at most @n of them; how many there are. */
static size_t firsts(const struct mr_frame_content *m, int64_t *values, size_t n)
{
    size_t k = 0;

    for (size_t i = 0; i < m->n; i++) {
        const struct mr_column *c = mr_block_column(m->blocks[i], 0);
        size_t each = c->rank == 0 ? 1 : (size_t)c->dims[0];

        for (uint32_t r = 0; r < mr_block_rows(m->blocks[i]); r++) {
            assert_true(k < n);
            values[k++] = ((const int64_t *)c->data)[r * each];
        }
    }
    return k;
}

/* Read on until @upto elements came; their first numbers. What came is returned at once. */
static void read_upto(struct fake_client *c, uint64_t from, uint64_t upto, int64_t *values)
{
    uint64_t got = from;

    while (got < upto) {
        struct mr_frame_content m;

        assert_true(fake_client_next(c, &m));
        assert_int_equal(m.header->code, 0);
        got += firsts(&m, values + (got - from), upto - got);
        mr_frame_content_free(&m);
        fake_client_credit(c, upto, got);
    }
}

/* Elements [from, upto) arrive, and the worker is not told. */
static void receive_upto(struct fake_client *c, uint64_t from, uint64_t upto)
{
    fake_client_credit(c, upto, from);
    for (uint64_t got = from; got < upto;) {
        struct mr_frame_content m;

        assert_true(fake_client_next(c, &m));
        got += m.header->elements;
        mr_frame_content_free(&m);
    }
}

static void two_jobs_get_all_of_one_production(void **state)
{
    struct fixture *f = *state;
    struct fake_progress p;
    unsigned seen[2][N] = {0};

    fake_hold(f->d);
    fake_assign_reading(f->d, "r1", "p1", false, false);
    fake_assign_producing(f->d, "m1", "range", "p1", -1, 0);
    fake_assign_reading(f->d, "r2", "p1", false, true);
    fake_tell(f->d);
    for (int i = 0; i < 2; i++) {
        const char *task = i == 0 ? "r1" : "r2";
        struct fake_client *c = open_client(f, task, "a", 2);

        assert_int_equal(fake_client_drain(c, seen[i], N, NULL), MR_OK);
        assert_all_once(seen[i], N);
        assert_int_equal(fake_wait_ended(f->d, task, NULL), MR_OK);
        fake_wait_delivered(f->d, task, N);
        fake_client_free(c);
    }
    fake_wait_heartbeats(f->d, 2);
    fake_progress(f->d, "m1", &p);
    assert_int_equal(p.produced, N); /* once */
    assert_true(p.complete);
    assert_string_equal(p.degraded, "");
    fake_progress(f->d, "r2", &p);
    assert_int_equal(p.produced, N);
    assert_int_equal(p.skipped, 0);
    assert_false(fake_has_ended(f->d, "m1"));
}

static void a_reader_may_be_assigned_before_and_after_its_production(void **state)
{
    struct fixture *f = *state;
    unsigned seen[3][N] = {0};

    fake_assign_reading(f->d, "r1", "p1", false, false);
    fake_wait_heartbeats(f->d, 2);
    fake_assign_producing(f->d, "m1", "range", "p1", -1, 0);
    struct fake_client *a = open_client(f, "r1", "a", 2);
    assert_int_equal(fake_client_drain(a, seen[0], N, NULL), MR_OK);
    assert_all_once(seen[0], N);
    /* All of it is in the window still. */
    fake_assign_reading(f->d, "r2", "p1", false, false);
    struct fake_client *b = open_client(f, "r2", "a", 2);
    assert_int_equal(fake_client_drain(b, seen[1], N, NULL), MR_OK);
    assert_all_once(seen[1], N);
    fake_client_free(a);
    fake_client_free(b);
}

static void splits_are_asked_for_once(void **state)
{
    struct fixture *f = *state;
    unsigned seen[2][N] = {0};

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "range", "p1", N, 100);
    fake_assign_reading(f->d, "r1", "p1", false, false);
    fake_assign_reading(f->d, "r2", "p1", false, false);
    fake_tell(f->d);
    for (int i = 0; i < 2; i++) {
        struct fake_client *c = open_client(f, i == 0 ? "r1" : "r2", "a", 2);

        assert_int_equal(fake_client_drain(c, seen[i], N, NULL), MR_OK);
        assert_all_once(seen[i], N);
        fake_client_free(c);
    }
}

/* What a client received and did not return comes again, to another client of the same job. */
static void only_what_was_returned_is_gone(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    unsigned seen[N] = {0};
    uint64_t got = 0;

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "range", "p1", -1, 0);
    fake_assign_reading(f->d, "r1", "p1", false, false);
    fake_tell(f->d);
    struct fake_client *a = open_client(f, "r1", "a", 100);
    while (got < 100) {
        assert_true(fake_client_next(a, &m));
        got += m.header->elements;
        mr_frame_content_free(&m);
        fake_client_returned(a, 100, got, got < 40 ? got : 40);
    }
    fake_wait_delivered(f->d, "r1", 100);
    fake_client_free(a);
    fake_release_client(f->d, "a");
    struct fake_client *b = open_client(f, "r1", "b", 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(seen[i], i < 40 ? 0 : 1);
    }
    assert_int_equal(fake_wait_ended(f->d, "r1", NULL), MR_OK);
    fake_client_free(b);
}

static void who_joins_is_told_where_it_would_begin(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    int64_t values[4];
    unsigned seen[N] = {0};
    char *refused = NULL;

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "range", "p1", -1, 0);
    fake_assign_reading(f->d, "r1", "p1", false, false);
    fake_tell(f->d);
    struct fake_client *a = open_client(f, "r1", "a", 4);
    read_upto(a, 0, 4, values);
    fake_assign_reading(f->d, "r2", "p1", true, false);
    struct fake_client *b = open_client(f, "r2", "b", N);
    assert_int_equal(fake_wait_join(f->d, "r2", &refused), 0);
    /* Nothing is delivered before it is decided: the other job goes on, and this one has got
     * nothing. */
    fake_client_credit(a, N, 4);
    assert_true(fake_client_next(a, &m));
    mr_frame_content_free(&m);
    fake_wait_heartbeats(f->d, 2);
    assert_true(fake_has_joined(f->d, "r2"));
    fake_wait_delivered(f->d, "r2", 0);
    fake_reassign(f->d, "r2", "p1", false, false);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    fake_client_free(a);
    fake_client_free(b);
}

static void who_may_not_join_reads_a_production_of_its_own(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    int64_t values[4];
    char *refused = NULL;

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "range", "p1", -1, 0);
    fake_assign_reading(f->d, "r1", "p1", false, false);
    fake_tell(f->d);
    struct fake_client *a = open_client(f, "r1", "a", 4);
    read_upto(a, 0, 4, values);
    fake_assign_reading(f->d, "r2", "p1", true, false);
    assert_int_equal(fake_wait_join(f->d, "r2", &refused), 0);
    fake_hold(f->d);
    fake_reassign(f->d, "r2", "p2", false, false);
    fake_assign_producing(f->d, "m2", "range", "p2", -1, 0);
    fake_tell(f->d);
    struct fake_client *b = open_client(f, "r2", "b", 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    fake_client_free(a);
    fake_client_free(b);
}

static bool has_skipped(const struct fake_progress *p)
{
    return p->skipped > 0;
}

/* So many elements are told to have been skipped, in the end: in more than one report. */
static uint64_t due;

static bool has_skipped_all(const struct fake_progress *p)
{
    return p->skipped >= due;
}

/* The window slides past a slow job, which is told how much it missed: by the next message,
 * elements or not. */
static void who_lags_skips_and_is_told(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    int64_t values[200];

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "large", "p1", -1, 0);
    fake_assign_reading(f->d, "fast", "p1", false, false);
    fake_assign_reading(f->d, "slow", "p1", false, false);
    fake_tell(f->d);
    struct fake_client *slow = open_client(f, "slow", "a", 1);
    read_upto(slow, 0, 1, values);
    struct fake_client *fast = open_client(f, "fast", "a", 4);
    read_upto(fast, 0, 200, values);
    for (int64_t i = 0; i < 200; i++) {
        assert_int_equal(values[i], i * 32 * 1024);
    }
    fake_wait_progress(f->d, "slow", has_skipped);
    /* Without credit: nothing but the number. */
    assert_true(fake_client_next(slow, &m));
    assert_int_equal(m.header->elements, 0);
    assert_in_range(m.header->skipped, 1, 199);
    uint64_t skipped = m.header->skipped;
    mr_frame_content_free(&m);
    fake_client_credit(slow, 200, 1);
    uint64_t got = 1;
    int64_t last = 0;
    while (last < INT64_C(199) * 32 * 1024) {
        assert_true(fake_client_next(slow, &m));
        size_t n = firsts(&m, values, 200);
        for (size_t i = 0; i < n; i++) {
            assert_true(values[i] > last);
            last = values[i];
        }
        got += n;
        assert_true(m.header->skipped >= skipped);
        skipped = m.header->skipped;
        mr_frame_content_free(&m);
        fake_client_credit(slow, 200, got);
    }
    assert_int_equal(got + skipped, last / (32 * 1024) + 1); /* what it did not have is counted */
    fake_client_free(fast);
    fake_client_free(slow);
}

static void what_was_skipped_is_told_with_the_end(void **state)
{
    struct fixture *f = *state;
    struct fake_progress p;
    int64_t values[LONG];
    uint64_t got = 1;
    bool end = false;

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "long", "p1", -1, 0);
    fake_assign_reading(f->d, "fast", "p1", false, false);
    fake_assign_reading(f->d, "slow", "p1", false, false);
    fake_tell(f->d);
    struct fake_client *slow = open_client(f, "slow", "a", 1);
    read_upto(slow, 0, 1, values);
    struct fake_client *fast = open_client(f, "fast", "a", 4);
    read_upto(fast, 0, LONG, values);
    fake_wait_progress(f->d, "slow", has_skipped);
    while (!end) {
        struct mr_frame_content m;

        fake_client_credit(slow, LONG, got);
        assert_true(fake_client_next(slow, &m));
        assert_int_equal(m.header->code, 0);
        got += m.header->elements;
        end = m.header->end;
        mr_frame_content_free(&m);
    }
    fake_client_credit(slow, LONG, got); /* all of it was returned */
    assert_int_equal(fake_wait_ended(f->d, "slow", NULL), MR_OK);
    fake_progress(f->d, "slow", &p);
    assert_true(got < LONG);
    assert_int_equal(p.skipped, LONG - got);
    fake_client_free(fast);
    fake_client_free(slow);
}

static bool is_held(const struct fake_progress *p)
{
    return p->held;
}

static bool is_not_held(const struct fake_progress *p)
{
    return !p->held;
}

/* A job that asks to be waited for holds the others up, until nobody reads for it. */
static void who_waits_is_waited_for_while_somebody_reads(void **state)
{
    struct fixture *f = *state;
    int64_t values[200];
    struct fake_progress p;

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "large", "p1", -1, 0);
    fake_assign_reading(f->d, "fast", "p1", false, false);
    fake_assign_reading(f->d, "slow", "p1", false, true);
    fake_tell(f->d);
    struct fake_client *slow = open_client(f, "slow", "a", 1);
    struct fake_client *fast = open_client(f, "fast", "a", 4);
    read_upto(slow, 0, 1, values);
    read_upto(fast, 0, 10, values);
    fake_client_credit(fast, 200, 10);
    /* It goes as far as the window, and no further. */
    uint64_t got = 10;
    struct mr_frame_content m;
    while (got < 20) {
        assert_true(fake_client_next(fast, &m));
        got += m.header->elements;
        mr_frame_content_free(&m);
        fake_client_credit(fast, 200, got);
    }
    fake_wait_progress(f->d, "m1", is_held);
    fake_progress(f->d, "m1", &p);
    assert_int_equal(p.first, 0);
    assert_in_range(p.end, 20, 60);
    uint64_t before = got;
    fake_reassign(f->d, "slow", "p1", false, true);
    while (got < 200) {
        assert_true(fake_client_next(fast, &m));
        got += m.header->elements;
        mr_frame_content_free(&m);
        fake_client_credit(fast, 200, got);
    }
    assert_true(before < 200);
    fake_wait_progress(f->d, "slow", has_skipped);
    fake_wait_progress(f->d, "m1", is_not_held);
    fake_client_free(fast);
    fake_client_free(slow);
}

/* Its task is kept, and goes on at what the window still has: the others were not to wait for
 * somebody mending a record. */
static void who_is_set_aside_holds_nobody_up(void **state)
{
    struct fixture *f = *state;
    struct mr_frame_content m;
    int64_t values[200];
    uint64_t got = 10;

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "large", "p1", -1, 0);
    fake_assign_reading(f->d, "fast", "p1", false, false);
    fake_assign_reading(f->d, "slow", "p1", false, true);
    fake_tell(f->d);
    struct fake_client *slow = open_client(f, "slow", "a", 1);
    struct fake_client *fast = open_client(f, "fast", "a", 10);
    read_upto(slow, 0, 1, values);
    read_upto(fast, 0, 10, values);
    fake_set_aside(f->d, "slow");
    fake_client_credit(fast, 200, got);
    while (got < 200) {
        assert_true(fake_client_next(fast, &m));
        got += m.header->elements;
        mr_frame_content_free(&m);
        fake_client_credit(fast, 200, got);
    }
    fake_set_aside(f->d, NULL);
    fake_wait_progress(f->d, "slow", has_skipped);
    fake_client_credit(slow, 2, 1);
    assert_true(fake_client_next(slow, &m)); /* on the stream that it had */
    mr_frame_content_free(&m);
    fake_client_free(fast);
    fake_client_free(slow);
}

static void a_dropped_production_lets_go_of_everything(void **state)
{
    struct fixture *f = *state;
    int64_t values[10];

    for (int i = 0; i < 3; i++) {
        char maker[8], reader[8], id[8];

        (void)snprintf(maker, sizeof maker, "m%d", i);
        (void)snprintf(reader, sizeof reader, "r%d", i);
        (void)snprintf(id, sizeof id, "p%d", i);
        fake_hold(f->d);
        fake_assign_producing(f->d, maker, "endless", id, -1, 0);
        fake_assign_reading(f->d, reader, id, false, false);
        fake_tell(f->d);
        struct fake_client *c = open_client(f, reader, "a", 4);
        read_upto(c, 0, 10, values);
        fake_hold(f->d);
        fake_unassign(f->d, maker);
        fake_unassign(f->d, reader);
        fake_tell(f->d);
        struct mr_frame_content m;
        while (fake_client_next(c, &m)) {
            mr_frame_content_free(&m);
        }
        fake_client_free(c);
    }
}

/* Nobody takes back twice: a job whose clients come and go gets every element once. */
static void clients_come_and_go(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "range", "p1", -1, 0);
    fake_assign_reading(f->d, "r1", "p1", false, true);
    fake_tell(f->d);
    for (int i = 0; i < 8; i++) {
        char name[8];
        struct mr_frame_content m;

        (void)snprintf(name, sizeof name, "c%d", i);
        struct fake_client *c = open_client(f, "r1", name, 64);
        assert_true(fake_client_next(c, &m));
        int64_t values[64];
        size_t n = firsts(&m, values, 64);
        size_t keep = (n + 1) / 2;
        for (size_t k = 0; k < keep; k++) {
            seen[values[k]]++;
        }
        mr_frame_content_free(&m);
        fake_client_done(c, keep);
        while (fake_client_next(c, &m)) {
            mr_frame_content_free(&m);
        }
        fake_client_free(c);
    }
    struct fake_client *c = open_client(f, "r1", "last", 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "r1", NULL), MR_OK);
    fake_client_free(c);
}

/* Another task of the same iteration follows on one that was dropped: nothing that was sent comes
 * again. */
static void who_comes_back_goes_on_behind_what_was_sent(void **state)
{
    struct fixture *f = *state;
    struct fake_progress p;
    int64_t values[100];
    unsigned seen[N] = {0};

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "range", "p1", -1, 0);
    fake_assign_reading(f->d, "r1", "p1", false, false);
    fake_tell(f->d);
    struct fake_client *a = open_client(f, "r1", "a", 60);
    read_upto(a, 0, 60, values);
    fake_wait_delivered(f->d, "r1", 60);
    receive_upto(a, 60, 100);
    fake_unassign(f->d, "r1");
    (void)fake_client_wait_end(a);
    fake_assign_reading(f->d, "r1/1", "p1", false, false);
    fake_assign_reading(f->d, "r2", "p1", false, false);
    struct fake_client *b = open_client(f, "r1/1", "a", 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(seen[i], i < 100 ? 0 : 1);
    }
    assert_int_equal(fake_wait_ended(f->d, "r1/1", NULL), MR_OK);
    assert_int_equal(fake_abandoned(f->d, "r1/1"), 40); /* nobody has said that they arrived */
    fake_progress(f->d, "r1/1", &p);
    assert_int_equal(p.skipped, 0);
    /* Somebody else's iteration has nothing to do with that. */
    memset(seen, 0, sizeof seen);
    struct fake_client *c = open_client(f, "r2", "c", 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    fake_client_free(a);
    fake_client_free(b);
    fake_client_free(c);
}

/* A task that was through before it was dropped has read it all: the one that follows has nothing
 * to read. */
static void who_comes_back_after_the_end_gets_nothing_twice(void **state)
{
    struct fixture *f = *state;
    struct fake_progress p;
    unsigned seen[N] = {0};

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "range", "p1", -1, 0);
    fake_assign_reading(f->d, "r1", "p1", false, false);
    fake_tell(f->d);
    struct fake_client *a = open_client(f, "r1", "a", 2);
    assert_int_equal(fake_client_drain(a, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "r1", NULL), MR_OK);
    fake_wait_heartbeats(f->d, 2);
    fake_unassign(f->d, "r1");
    fake_assign_reading(f->d, "r1/1", "p1", false, false);
    struct fake_client *b = open_client(f, "r1/1", "b", 2);
    assert_int_equal(fake_client_drain(b, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    assert_int_equal(fake_wait_ended(f->d, "r1/1", NULL), MR_OK);
    assert_int_equal(fake_abandoned(f->d, "r1/1"), 0);
    fake_progress(f->d, "r1/1", &p);
    assert_int_equal(p.skipped, 0);
    fake_client_free(a);
    fake_client_free(b);
}

/* What it had not read when it was dropped has fallen out of the window since. */
static void who_comes_back_late_is_told_what_it_missed(void **state)
{
    struct fixture *f = *state;
    struct fake_progress p;
    int64_t values[LONG];
    uint64_t at = 4, got = 0;

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "long", "p1", -1, 0);
    fake_assign_reading(f->d, "fast", "p1", false, false);
    fake_assign_reading(f->d, "r1", "p1", false, true);
    fake_tell(f->d);
    struct fake_client *a = open_client(f, "r1", "a", 4);
    read_upto(a, 0, 4, values);
    fake_unassign(f->d, "r1");
    (void)fake_client_wait_end(a);
    struct fake_client *fast = open_client(f, "fast", "b", 4);
    read_upto(fast, 0, LONG, values);
    fake_assign_reading(f->d, "r1/1", "p1", false, true);
    struct fake_client *b = open_client(f, "r1/1", "a", LONG);
    while (at < LONG) {
        struct mr_frame_content m;

        assert_true(fake_client_next(b, &m));
        size_t n = firsts(&m, values, LONG);
        for (size_t i = 0; i < n; i++) {
            assert_true(values[i] >=
                        (int64_t)at * 32 * 1024); /* in order, and none of the first four */
            at = (uint64_t)values[i] / (32 * 1024) + 1;
        }
        got += n;
        mr_frame_content_free(&m);
    }
    due = LONG - 4 - got;
    fake_wait_progress(f->d, "r1/1", has_skipped_all);
    fake_progress(f->d, "r1/1", &p);
    assert_int_equal(p.skipped, due);
    fake_client_free(b);
    fake_client_free(a);
    fake_client_free(fast);
}

/* The next message's first numbers; *@skipped is what it says. */
static size_t next_message(struct fake_client *c, int64_t *values, size_t n, uint64_t *skipped)
{
    struct mr_frame_content m;

    assert_true(fake_client_next(c, &m));
    n = firsts(&m, values, n);
    *skipped = m.header->skipped;
    mr_frame_content_free(&m);
    return n;
}

/* It had skipped already when it was dropped, and was sent @more elements behind that or none: the
 * task that follows says to the dispatcher all that the two of them skipped, and to clients what
 * the first one has not said. */
static void who_skipped_and_comes_back_says_it_once(void **state)
{
    struct fixture *f = *state;
    struct fake_progress p;
    int64_t values[LONG];
    uint64_t more = 3;

    for (int i = 0; i < 2; i++, more = 0) {
        char production[8], maker[8], fast[8], first[8], second[8];
        uint64_t got = 4, heard = 0, heard_again = 0;

        (void)snprintf(production, sizeof production, "p%d", i);
        (void)snprintf(maker, sizeof maker, "m%d", i);
        (void)snprintf(fast, sizeof fast, "f%d", i);
        (void)snprintf(first, sizeof first, "r%d", i);
        (void)snprintf(second, sizeof second, "r%d/1", i);
        fake_hold(f->d);
        fake_assign_producing(f->d, maker, "long", production, -1, 0);
        fake_assign_reading(f->d, fast, production, false, false);
        fake_assign_reading(f->d, first, production, false, false);
        fake_tell(f->d);
        struct fake_client *a = open_client(f, first, "a", 4);
        read_upto(a, 0, 4, values);
        struct fake_client *b = open_client(f, fast, "b", 4);
        read_upto(b, 0, LONG, values);
        fake_wait_progress(f->d, first, has_skipped);
        fake_client_credit(a, 4 + more, 4);
        while (heard == 0 || got < 4 + more) {
            got += next_message(a, values, LONG, &heard);
        }
        fake_unassign(f->d, first);
        (void)fake_client_wait_end(a);
        fake_assign_reading(f->d, second, production, false, false);
        struct fake_client *c = open_client(f, second, "a", LONG);
        for (uint64_t at = 0; at < LONG;) {
            size_t n = next_message(c, values, LONG, &heard_again);

            at = n > 0 ? (uint64_t)values[n - 1] / (32 * 1024) + 1 : at;
            got += n;
        }
        due = LONG - got;
        fake_wait_progress(f->d, second, has_skipped_all);
        fake_progress(f->d, second, &p);
        assert_int_equal(p.skipped, due);
        assert_true(heard + heard_again <= p.skipped);
        fake_client_free(c);
        fake_client_free(b);
        fake_client_free(a);
    }
}

/* The third one says it, also if the second had no time to. */
static void what_may_not_have_arrived_is_said_by_all_who_follow(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    int64_t values[10];

    fake_hold(f->d);
    fake_assign_producing(f->d, "m1", "range", "p1", -1, 0);
    fake_assign_reading(f->d, "r1", "p1", false, false);
    fake_tell(f->d);
    struct fake_client *a = open_client(f, "r1", "a", 10);
    read_upto(a, 0, 10, values);
    fake_wait_delivered(f->d, "r1", 10);
    receive_upto(a, 10, 50);
    fake_unassign(f->d, "r1");
    (void)fake_client_wait_end(a);
    fake_assign_reading(f->d, "r1/1", "p1", false, false);
    struct fake_client *b = open_client(f, "r1/1", "b", 5);
    read_upto(b, 0, 5, values);
    fake_wait_delivered(f->d, "r1/1", 5);
    fake_unassign(f->d, "r1/1");
    (void)fake_client_wait_end(b);
    fake_assign_reading(f->d, "r1/2", "p1", false, false);
    struct fake_client *c = open_client(f, "r1/2", "c", 2);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(seen[i], i < 55 ? 0 : 1);
    }
    assert_int_equal(fake_wait_ended(f->d, "r1/2", NULL), MR_OK);
    assert_int_equal(fake_abandoned(f->d, "r1/2"), 40);
    fake_client_free(a);
    fake_client_free(b);
    fake_client_free(c);
}

static bool is_complete(const struct fake_progress *p)
{
    return p->complete;
}

/* As many as there may be on disk, each of another iteration: the oldest that nobody reads any more
 * makes room. */
static void a_window_that_nobody_reads_makes_room(void **state)
{
    struct fixture *f = *state;
    struct fake_progress p;
    char *refused = NULL;

    for (int i = 0; i < 5; i++) {
        char maker[8], reader[8], id[8];
        unsigned seen[N] = {0};

        (void)snprintf(maker, sizeof maker, "m%d", i);
        (void)snprintf(reader, sizeof reader, "r%d", i);
        (void)snprintf(id, sizeof id, "p%d", i);
        fake_hold(f->d);
        fake_assign_producing(f->d, maker, "range", id, -1, 0);
        fake_assign_reading(f->d, reader, id, false, false);
        fake_tell(f->d);
        struct fake_client *c = open_client(f, reader, "a", 4);
        assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
        assert_int_equal(fake_wait_ended(f->d, reader, NULL), MR_OK);
        fake_client_free(c);
        fake_wait_progress(f->d, maker, is_complete);
        fake_progress(f->d, maker, &p);
        assert_string_equal(p.degraded, "");
    }
    fake_assign_reading(f->d, "late", "p0", true, false);
    assert_int_equal(fake_wait_join(f->d, "late", &refused), UINT64_MAX);
    assert_non_null(strstr(refused, "given up"));
    mr_free(refused);
    fake_assign_reading(f->d, "later", "p4", true, false);
    assert_int_equal(fake_wait_join(f->d, "later", &refused), 0);
}

/* It is not there any more when somebody comes to go on in it: that is the end, with what was
 * missed. */
static void who_comes_back_to_no_window_ends(void **state)
{
    struct fixture *f = *state;
    struct fake_progress p;
    int64_t values[10];

    for (int i = 0; i < 5; i++) {
        char maker[8], reader[8], id[8];
        unsigned seen[N] = {0};

        (void)snprintf(maker, sizeof maker, "m%d", i);
        (void)snprintf(reader, sizeof reader, "r%d", i);
        (void)snprintf(id, sizeof id, "p%d", i);
        fake_hold(f->d);
        fake_assign_producing(f->d, maker, "range", id, -1, 0);
        fake_assign_reading(f->d, reader, id, false, false);
        if (i == 0) {
            fake_assign_reading(f->d, "x", id, false, false);
        }
        fake_tell(f->d);
        if (i == 0) {
            struct fake_client *x = open_client(f, "x", "x", 10);
            read_upto(x, 0, 10, values);
            fake_wait_delivered(f->d, "x", 10);
            receive_upto(x, 10, 50);
            fake_unassign(f->d, "x");
            (void)fake_client_wait_end(x);
            fake_client_free(x);
        }
        struct fake_client *c = open_client(f, reader, "a", 4);
        assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
        assert_int_equal(fake_wait_ended(f->d, reader, NULL), MR_OK);
        fake_client_free(c);
        fake_wait_progress(f->d, maker, is_complete);
    }
    fake_assign_reading(f->d, "x/1", "p0", false, false);
    assert_int_equal(fake_wait_ended(f->d, "x/1", NULL), MR_OK);
    fake_progress(f->d, "x/1", &p);
    assert_int_equal(p.skipped, N - 50);
    assert_int_equal(fake_abandoned(f->d, "x/1"),
                     40); /* sent, and nobody has said that they arrived */
}

/* They begin before anybody reads them, and whoever made their iterations has its share of tasks at
 * work. */
static void a_host_leaves_tasks_at_work_to_others(void **state)
{
    struct fixture *f = *state;
    unsigned seen[N] = {0};
    char task[8];

    fake_hold(f->d);
    for (int i = 0; i < TASKS; i++) {
        (void)snprintf(task, sizeof task, "x%d", i);
        fake_assign_reading(f->d, task, "none", false, false);
        fake_set_host(f->d, task, "10.0.0.1");
    }
    fake_assign_producing(f->d, "p", "range", "p", -1, 0);
    fake_set_host(f->d, "p", "10.0.0.2");
    fake_assign_reading(f->d, "r", "p", false, true);
    fake_set_host(f->d, "r", "10.0.0.2");
    fake_tell(f->d);
    struct fake_client *c = open_client(f, "r", "a", 4);
    assert_int_equal(fake_client_drain(c, seen, N, NULL), MR_OK);
    assert_all_once(seen, N);
    fake_client_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(two_jobs_get_all_of_one_production),
        TEST(a_reader_may_be_assigned_before_and_after_its_production),
        TEST(splits_are_asked_for_once),
        TEST(only_what_was_returned_is_gone),
        TEST(who_joins_is_told_where_it_would_begin),
        TEST(who_may_not_join_reads_a_production_of_its_own),
        TEST(who_lags_skips_and_is_told),
        TEST(what_was_skipped_is_told_with_the_end),
        TEST(who_waits_is_waited_for_while_somebody_reads),
        TEST(who_is_set_aside_holds_nobody_up),
        TEST(a_dropped_production_lets_go_of_everything),
        TEST(clients_come_and_go),
        TEST(who_comes_back_goes_on_behind_what_was_sent),
        TEST(who_comes_back_after_the_end_gets_nothing_twice),
        TEST(who_comes_back_late_is_told_what_it_missed),
        TEST(who_skipped_and_comes_back_says_it_once),
        TEST(what_may_not_have_arrived_is_said_by_all_who_follow),
        TEST(a_window_that_nobody_reads_makes_room),
        TEST(who_comes_back_to_no_window_ends),
        cmocka_unit_test_setup_teardown(a_host_leaves_tasks_at_work_to_others, setup_small,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
