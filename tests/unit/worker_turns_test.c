/* A worker with a task of a coordinated job, and its consumers: who is sent which round, when it is
 * complete, what becomes of it when streams and sessions change, how it ends, what it keeps. No
 * assertion is about time. */
#include "worker/worker.h"
#include "worker_fake.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MUCH (UINT64_C(1) << 50)
#define MIB (UINT64_C(1) << 20)
#define CONSUMERS 2
#define VALUES 256

struct fixture {
    mr_rpc_runtime *rt;
    struct fake_dispatcher *d;
    mr_worker *w;
    /* the assignment: all rounds from 0 on, for two consumers in their first sessions */
    Millrace__RoundAssignment rounds;
    Millrace__RoundSpan span;
    Millrace__RoundSpan *spans[1];
    uint64_t sessions[CONSUMERS];
};

static void add_dataset(struct fixture *f, const char *id, mr_dataset *ds)
{
    fake_add_dataset(f->d, id, ds);
    mr_dataset_unref(ds);
}

static int setup(void **state)
{
    struct fixture *f = mr_calloc(1, sizeof *f);
    struct mr_attr large = {.name = "batch_size", .kind = MR_ATTR_INT, .i = 32 * 1024};
    char list[64];

    assert_int_equal(mr_rpc_acquire(&f->rt, NULL), MR_OK);
    f->d = fake_dispatcher_new(f->rt, 0);
    add_dataset(f, "range", fake_range(INT64_C(1) << 40));
    add_dataset(f, "seven", fake_range(7));
    add_dataset(
        f, "large",
        fake_apply("batch", fake_range(INT64_C(1) << 40), &large, 1)); /* elements of 256 KiB */
    (void)snprintf(list, sizeof list, "127.0.0.1:%d", fake_dispatcher_port(f->d));
    struct mr_worker_options opts = {.dispatchers = list, .memory_budget_bytes = 32 * MIB};
    assert_int_equal(mr_worker_start(&opts, &f->w, NULL), MR_OK);
    assert_int_equal(mr_worker_wait_registered(f->w, 30000, NULL), MR_OK);
    millrace__round_assignment__init(&f->rounds);
    millrace__round_span__init(&f->span);
    f->span.stride = 1;
    f->spans[0] = &f->span;
    f->sessions[0] = f->sessions[1] = 1;
    f->rounds.num_consumers = CONSUMERS;
    f->rounds.spans = f->spans;
    f->rounds.n_spans = 1;
    f->rounds.horizon = 1000000;
    f->rounds.sessions = f->sessions;
    f->rounds.n_sessions = CONSUMERS;
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_worker_free(f->w);
    fake_dispatcher_free(f->d);
    mr_rpc_release(f->rt);
    mr_free(f);
    return 0;
}

/* ---- a consumer, as far as it has read ---- */

struct consumer {
    struct fake_client *client;
    uint32_t index;
    uint64_t limit;
    uint64_t received; /* all below */
    uint64_t complete;
    uint64_t complete_before;
    bool ended;
    uint64_t end_round;
    unsigned streams;
    int64_t values[VALUES]; /* of each round; -1: not its worker's */
    size_t last;            /* elements of the last message */
};

static void open_stream(struct fixture *f, struct consumer *c, uint64_t session, uint64_t limit,
                        uint64_t limit_bytes)
{
    Millrace__RoundOpen rounds = MILLRACE__ROUND_OPEN__INIT;
    struct fake_open open = {.address = mr_worker_address(f->w),
                             .incarnation = fake_incarnation(f->d),
                             .task = "t1",
                             .client = c->index == 0 ? "a" : "b",
                             .session = ++c->streams,
                             .rounds = &rounds,
                             .limit_round = limit,
                             .limit_bytes = limit_bytes};

    rounds.consumer_index = c->index;
    rounds.session = session;
    rounds.received_below = c->received;
    c->limit = limit;
    c->client = fake_client_open(f->rt, &open);
}

static struct consumer begin(struct fixture *f, uint32_t index, uint64_t limit)
{
    struct consumer c = {.index = index};

    memset(c.values, 0xff, sizeof c.values);
    open_stream(f, &c, 1, limit, MUCH);
    return c;
}

/* The next message; nothing is acknowledged. */
static void take(struct consumer *c)
{
    struct mr_frame_content m;
    size_t k = 0;

    assert_true(fake_client_next(c->client, &m));
    assert_int_equal(m.header->code, 0);
    assert_int_equal(m.header->session, c->streams);
    const Millrace__RoundHeader *h = m.header->rounds;
    assert_non_null(h);
    assert_int_equal(h->n_rounds, m.header->elements);
    for (size_t i = 0; i < m.n; i++) {
        const struct mr_column *column = mr_block_column(m.blocks[i], 0);
        size_t each = column->rank == 0 ? 1 : (size_t)column->dims[0];

        for (uint32_t r = 0; r < mr_block_rows(m.blocks[i]); r++, k++) {
            assert_in_range(h->rounds[k], c->received, VALUES - 1);
            assert_true(h->rounds[k] < c->limit);
            c->values[h->rounds[k]] = ((const int64_t *)column->data)[r * each];
            c->received = h->rounds[k] + 1;
        }
    }
    assert_int_equal(k, h->n_rounds);
    c->last = k;
    assert_true(h->complete_below >= c->complete);
    c->complete = h->complete_below;
    c->complete_before = h->opened ? h->complete_before : c->complete_before;
    c->ended = h->ended;
    c->end_round = h->end_round;
    mr_frame_content_free(&m);
}

static void take_upto(struct consumer *c, uint64_t below)
{
    while (c->received < below) {
        take(c);
    }
    assert_int_equal(c->received, below);
}

static void tell(struct consumer *c, uint64_t limit, uint64_t returned)
{
    c->limit = limit;
    fake_client_tell(c->client, limit, MUCH, c->received, returned);
}

static void take_until_complete(struct consumer *c, uint64_t below)
{
    while (c->complete < below) {
        take(c);
    }
    assert_int_equal(c->complete, below);
}

/* ---- tests ---- */

static bool misses_consumer_1(const struct fake_progress *p)
{
    return p->missing == 2;
}

static void each_consumer_gets_its_own_of_each_group(void **state)
{
    struct fixture *f = *state;

    fake_assign_rounds(f->d, "t1", "range", &f->rounds);
    struct consumer a = begin(f, 0, 10);
    struct consumer b = begin(f, 1, 7);
    take_upto(&a, 10);
    take_upto(&b, 7); /* not beyond its room */
    tell(&b, 10, 0);
    take_upto(&b, 10);
    for (int64_t r = 0; r < 10; r++) {
        assert_int_equal(a.values[r], 2 * r);
        assert_int_equal(b.values[r], 2 * r + 1);
    }
    fake_client_free(a.client);
    fake_client_free(b.client);
}

static void a_round_is_complete_when_all_have_said_that_it_is_there(void **state)
{
    struct fixture *f = *state;

    fake_assign_rounds(f->d, "t1", "range", &f->rounds);
    struct consumer a = begin(f, 0, 4);
    struct consumer b = begin(f, 1, 4);
    take_upto(&a, 4);
    take_upto(&b, 4);
    assert_int_equal(a.complete, 0);
    tell(&a, 4, 0);
    fake_wait_progress(f->d, "t1", misses_consumer_1);
    struct fake_progress p;
    fake_progress(f->d, "t1", &p);
    assert_int_equal(p.complete_below, 0);
    assert_int_equal(p.waiting_round, 0);
    b.received = 3;
    tell(&b, 4, 0);
    take_until_complete(&a, 3);
    take_until_complete(&b, 3);
    b.received = 4;
    tell(&b, 4, 0);
    take_until_complete(&a, 4);
    fake_client_free(a.client);
    fake_client_free(b.client);
}

/* Its rounds are every third one, below the horizon; then the schedule goes on otherwise. */
static void it_takes_turns_as_it_is_told(void **state)
{
    struct fixture *f = *state;
    Millrace__RoundSpan behind = MILLRACE__ROUND_SPAN__INIT;
    Millrace__RoundSpan *both[2] = {&f->span, &behind};

    f->span.first = 1;
    f->span.stride = 3;
    f->rounds.horizon = 8;
    fake_assign_rounds(f->d, "t1", "range", &f->rounds);
    struct consumer a = begin(f, 0, 100);
    struct consumer b = begin(f, 1, 100);
    take_upto(&a, 8);
    take_upto(&b, 8);
    tell(&a, 100, 8);
    tell(&b, 100, 8);
    fake_hold(f->d);
    f->span.end = 10;
    behind.first = 12;
    behind.stride = 2;
    f->rounds.spans = both;
    f->rounds.n_spans = 2;
    f->rounds.horizon = 17;
    fake_tell_rounds(f->d, "t1");
    fake_tell(f->d);
    take_upto(&a, 17);
    take_upto(&b, 17);
    const uint64_t turns[] = {1, 4, 7, 12, 14, 16};
    for (int64_t i = 0; i < 6; i++) {
        assert_int_equal(a.values[turns[i]], 2 * i);
        assert_int_equal(b.values[turns[i]], 2 * i + 1);
    }
    fake_client_free(a.client);
    fake_client_free(b.client);
}

static void what_was_on_its_way_comes_again_on_the_next_stream(void **state)
{
    struct fixture *f = *state;

    fake_assign_rounds(f->d, "t1", "range", &f->rounds);
    struct consumer a = begin(f, 0, 6);
    struct consumer b = begin(f, 1, 6);
    take_upto(&a, 6);
    fake_client_free(a.client); /* it had told nothing */
    memset(a.values, 0xff, sizeof a.values);
    a.received = 4; /* ... and what came last got lost with the stream */
    open_stream(f, &a, 1, 8, MUCH);
    take_upto(&a, 8);
    assert_int_equal(a.values[3], -1);
    for (int64_t r = 4; r < 8; r++) {
        assert_int_equal(a.values[r], 2 * r);
    }
    take_upto(&b, 6);
    assert_int_equal(b.values[5], 11);
    fake_client_free(a.client);
    fake_client_free(b.client);
}

static void a_consumer_has_one_stream(void **state)
{
    struct fixture *f = *state;

    fake_assign_rounds(f->d, "t1", "range", &f->rounds);
    struct consumer a = begin(f, 0, 4);
    take_upto(&a, 4);
    struct fake_client *old = a.client;
    open_stream(f, &a, 1, 8, MUCH);
    (void)fake_client_wait_end(old);
    take_upto(&a, 8);
    fake_client_free(old);
    fake_client_free(a.client);
}

/* The code of the refusal that an open with that session and index is answered with. */
static int refusal(struct fixture *f, uint32_t index, uint64_t session)
{
    struct consumer c = {.index = index};
    struct mr_frame_content m;

    open_stream(f, &c, session, 4, MUCH);
    assert_true(fake_client_next(c.client, &m));
    int code = m.header->code;
    mr_frame_content_free(&m);
    fake_client_free(c.client);
    return code;
}

static void another_process_takes_the_place(void **state)
{
    struct fixture *f = *state;

    fake_assign_rounds(f->d, "t1", "range", &f->rounds);
    struct consumer a = begin(f, 0, 5);
    struct consumer b = begin(f, 1, 5);
    take_upto(&a, 5);
    take_upto(&b, 5);
    a.received = 4;
    tell(&a, 5, 0);
    tell(&b, 5, 0);
    take_until_complete(&b, 4);
    fake_hold(f->d);
    f->sessions[0] = 2;
    fake_tell_rounds(f->d, "t1");
    fake_tell(f->d);
    assert_int_equal(fake_client_wait_end(a.client), MR_EPRECOND);
    fake_client_free(a.client);
    assert_int_equal(refusal(f, 0, 1), MR_EPRECOND);
    struct consumer next = {.index = 0};
    open_stream(f, &next, 2, 5, MUCH);
    take_upto(&next, 5); /* the same elements again */
    assert_int_equal(next.complete_before, 4);
    for (int64_t r = 0; r < 5; r++) {
        assert_int_equal(next.values[r], 2 * r);
    }
    tell(&next, 5, 0);
    take_until_complete(&b, 5); /* what the one before had said of 0 to 3 stays said */
    fake_client_free(next.client);
    fake_client_free(b.client);
}

/* A session that nobody has named, and what was never sent: neither costs the true consumer
 * anything. */
static void what_cannot_be_is_refused(void **state)
{
    struct fixture *f = *state;

    fake_assign_rounds(f->d, "t1", "range", &f->rounds);
    struct consumer a = begin(f, 0, 5);
    take_upto(&a, 5);
    assert_int_equal(refusal(f, 0, UINT64_C(1) << 63), MR_EUNAVAIL);
    tell(&a, 8, 5);
    take_upto(&a, 8); /* on the stream that it had */
    struct consumer liar = a;
    open_stream(f, &liar, 1, 8, MUCH);
    assert_int_equal(fake_client_wait_end(a.client), MR_ECANCELED);
    fake_client_free(a.client);
    tell(&liar, 100, 50);
    assert_int_equal(fake_client_wait_end(liar.client), MR_EINVAL);
    fake_client_free(liar.client);
    open_stream(f, &a, 1, 10, MUCH);
    take_upto(&a, 10);
    for (int64_t r = 0; r < 10; r++) {
        assert_int_equal(a.values[r], 2 * r);
    }
    fake_client_free(a.client);
}

static void who_cannot_be_a_consumer_is_refused(void **state)
{
    struct fixture *f = *state;
    struct fake_open plain = {.client = "a", .task = "t1", .session = 1, .credit = 10};
    struct mr_frame_content m;

    fake_assign_rounds(f->d, "t1", "range", &f->rounds);
    assert_int_equal(refusal(f, CONSUMERS, 1), MR_EINVAL);
    assert_int_equal(refusal(f, UINT32_MAX, 1), MR_EINVAL);
    assert_int_equal(refusal(f, 0, 0), MR_EINVAL);
    plain.address = mr_worker_address(f->w);
    plain.incarnation = fake_incarnation(f->d);
    struct fake_client *c = fake_client_open(f->rt, &plain); /* opens no round */
    assert_true(fake_client_next(c, &m));
    assert_int_equal(m.header->code, MR_EINVAL);
    mr_frame_content_free(&m);
    fake_client_free(c);
}

/* Seven elements: three rounds, and one element more. */
static void expect_end(struct fixture *f, Millrace__LastRound last_round, uint64_t end_round)
{
    struct consumer c[CONSUMERS];

    f->rounds.last_round = last_round;
    fake_assign_rounds(f->d, "t1", "seven", &f->rounds);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        c[i] = begin(f, i, 50);
    }
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        while (!c[i].ended) {
            take(&c[i]);
        }
        assert_int_equal(c[i].end_round, end_round);
        take_upto(&c[i], end_round);
        for (int64_t r = 0; r < 3; r++) {
            assert_int_equal(c[i].values[r], 2 * r + i);
        }
        assert_int_equal(c[i].values[3],
                         end_round == 4 ? 6 : -1); /* padded with the first of what was left */
    }
    fake_client_tell(c[0].client, 50, MUCH, end_round + 1, end_round + 1);
    fake_client_tell(c[1].client, 50, MUCH, end_round + 1, end_round);
    fake_wait_heartbeats(f->d, 3);
    assert_false(fake_has_ended(f->d, "t1")); /* one has not returned all */
    fake_client_tell(c[1].client, 50, MUCH, end_round + 1, end_round + 1);
    assert_int_equal(fake_wait_ended(f->d, "t1", NULL), MR_OK);
    assert_int_equal(fake_end_round(f->d, "t1"), end_round);
    for (uint32_t i = 0; i < CONSUMERS; i++) {
        fake_client_free(c[i].client);
    }
}

static void the_last_round_is_dropped(void **state)
{
    expect_end(*state, MILLRACE__LAST_ROUND__LAST_ROUND_DROP, 3);
}

static void the_last_round_is_padded(void **state)
{
    expect_end(*state, MILLRACE__LAST_ROUND__LAST_ROUND_PAD, 4);
}

static void bytes_are_sent_as_far_as_there_is_room(void **state)
{
    struct fixture *f = *state;
    struct consumer a = {.index = 0};

    fake_assign_rounds(f->d, "t1", "large", &f->rounds);
    open_stream(f, &a, 1, 12, 1); /* one element always may come */
    take_upto(&a, 1);
    fake_client_tell(a.client, 12, MIB / 4 + 1, a.received, 0);
    take_upto(&a, 2);
    fake_client_tell(a.client, 12, MUCH, a.received, 0);
    take_upto(&a, 12);
    for (int64_t r = 0; r < 12; r++) {
        assert_int_equal(a.values[r], 2 * r * 32 * 1024);
    }
    fake_client_free(a.client);
}

static bool keeps_much(const struct fake_progress *p)
{
    return p->buffered_bytes >= 8 * MIB;
}

/* Nobody returns anything: what it keeps has a bound in bytes, not only in rounds. */
static void what_is_kept_is_bounded(void **state)
{
    struct fixture *f = *state;
    struct fake_progress p;

    fake_assign_rounds(f->d, "t1", "large", &f->rounds); /* rounds of 512 KiB */
    struct consumer a = begin(f, 0, 200);
    struct consumer b = begin(f, 1, 200);
    fake_wait_progress(f->d, "t1", keeps_much);
    fake_wait_heartbeats(f->d, 5);
    fake_progress(f->d, "t1", &p);
    assert_in_range(p.buffered_bytes, 8 * MIB, 9 * MIB);
    while (a.received < 100 || b.received < 100) { /* it goes on as soon as somebody returns */
        struct consumer *c = a.received <= b.received ? &a : &b;

        take(c);
        tell(c, 200, c->received);
    }
    fake_client_free(a.client);
    fake_client_free(b.client);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_consumer_gets_its_own_of_each_group),
        TEST(a_round_is_complete_when_all_have_said_that_it_is_there),
        TEST(it_takes_turns_as_it_is_told),
        TEST(what_was_on_its_way_comes_again_on_the_next_stream),
        TEST(a_consumer_has_one_stream),
        TEST(another_process_takes_the_place),
        TEST(what_cannot_be_is_refused),
        TEST(who_cannot_be_a_consumer_is_refused),
        TEST(the_last_round_is_dropped),
        TEST(the_last_round_is_padded),
        TEST(bytes_are_sent_as_far_as_there_is_room),
        TEST(what_is_kept_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
