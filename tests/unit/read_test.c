/* Reads without a service: time is a number, what they ask for and say is a transcript. One line
 * for each thing, "[ms] what", as a test makes it happen. */
#include "client/hand_log.h"
#include "client/read/internal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>

struct stage {
    struct mr_read read;
    struct mr_hand_log hand;
    char text[8192];
    size_t size;
    unsigned sent; /* messages */
    Millrace__ReadRequest *last;
};

static struct stage *stage_of(const struct mr_read *r)
{
    return (struct stage *)((char *)(uintptr_t)r - offsetof(struct stage, read));
}

static void say(struct stage *s, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    s->size +=
        (size_t)snprintf(s->text + s->size, sizeof s->text - s->size, "[%d] ", (int)s->read.now_ms);
    s->size += (size_t)vsnprintf(s->text + s->size, sizeof s->text - s->size, fmt, args);
    s->size += (size_t)snprintf(s->text + s->size, sizeof s->text - s->size, "\n");
    va_end(args);
    assert_true(s->size < sizeof s->text);
}

static void expect(struct stage *s, const char *lines)
{
    assert_string_equal(s->text, lines);
    s->size = 0;
    s->text[0] = '\0';
}

/* ---- the port ---- */

static int connect_task(struct mr_read_task *t, mr_error *err)
{
    say(stage_of(t->read), "%s: connect", t->id);
    t->line = t;
    return MR_OK;
}

static bool send_bytes(struct mr_read_task *t, const uint8_t *bytes, size_t size)
{
    struct stage *s = stage_of(t->read);
    Millrace__ReadRequest *req = millrace__read_request__unpack(NULL, size, bytes);

    if (req->open != NULL) {
        say(s, "%s: open session %d from %d", t->id, (int)req->open->session,
            (int)req->open->resume_from);
    } else {
        say(s, "%s: received %d returned %d%s", t->id, (int)req->received_elements,
            (int)req->returned_elements, req->done ? " done" : "");
    }
    if (s->last != NULL) {
        millrace__read_request__free_unpacked(s->last, NULL);
    }
    s->last = req;
    s->sent++;
    return true;
}

static void cut(struct mr_read_task *t)
{
    say(stage_of(t->read), "%s: cut", t->id);
}

static bool no(const struct mr_read *r)
{
    return false;
}

static uint64_t learned(const struct mr_read *r, char *cluster, char *incarnation)
{
    cluster[0] = incarnation[0] = '\0';
    return 7;
}

static bool trouble(const struct mr_read *r, char *why, size_t size)
{
    return false;
}

static void lost(struct mr_read *r, const struct mr_losses *more)
{
    if (more->incomplete_reads > 0) {
        say(stage_of(r), "lost: %d abandoned", (int)more->abandoned_elements);
    }
}

static void skipped(struct mr_read *r, uint64_t n)
{
}

static void no_log(enum mr_log_level level, const char *msg, ...)
{
}

static const struct mr_read_port port = {
    .connect = connect_task,
    .send = send_bytes,
    .cut = cut,
    .is_memory_short = no,
    .learned = learned,
    .trouble = trouble,
    .lost = lost,
    .skipped = skipped,
    .ignored = skipped,
    .log = no_log,
};

static int setup(void **state)
{
    struct stage *s = calloc(1, sizeof *s);

    s->read.port = &port;
    s->read.now_ms = 1000;
    s->read.opts = (struct mr_read_options){
        .service = (char *)"somewhere",
        .job.base = PROTOBUF_C_MESSAGE_INIT(&millrace__job_spec__descriptor),
        .job.name = (char *)"job",
        .job.trainer = (char *)"",
        .dataset_id = (char *)"digits",
        .connect_timeout_ms = 60000,
        .heartbeat_ms = 500};
    (void)snprintf(s->read.client, sizeof s->read.client, "me");
    mr_rng_seed(&s->read.rng, 1);
    *state = s;
    return 0;
}

static int teardown(void **state)
{
    struct stage *s = *state;

    assert_true(mr_read_is_consistent(&s->read));
    mr_read_clear(&s->read);
    if (s->last != NULL) {
        millrace__read_request__free_unpacked(s->last, NULL);
    }
    free(s);
    return 0;
}

/* ---- what happens ---- */

/* What the session with the dispatchers does next. */
static void step(struct stage *s)
{
    struct mr_read_step step;

    mr_read_next_step(&s->read, &step);
    switch (step.kind) {
    case MR_READ_STEP_WAIT: say(s, "wait until %d", (int)step.until_ms); break;
    case MR_READ_STEP_REGISTER: say(s, "register"); break;
    case MR_READ_STEP_OUT: say(s, "out"); break;
    case MR_READ_STEP_UNWATCH: say(s, "unwatch"); break;
    case MR_READ_STEP_CALL:
    case MR_READ_STEP_WATCH:
        say(s, "%s", step.method);
        protobuf_c_message_free_unpacked(step.request, NULL);
        break;
    }
}

static void open_answered(struct stage *s, uint64_t session)
{
    Millrace__OpenReply reply = MILLRACE__OPEN_REPLY__INIT;

    reply.job_id = (char *)"j";
    reply.iteration_id = (char *)"i";
    reply.consumer_session = session;
    mr_read_answered(&s->read, MR_OK, &reply.base, NULL);
}

static void update(struct stage *s, const char *task, bool over, Millrace__RoundsUpdate *rounds)
{
    Millrace__ClientUpdate u = MILLRACE__CLIENT_UPDATE__INIT;
    Millrace__TaskInfo infos[2] = {MILLRACE__TASK_INFO__INIT, MILLRACE__TASK_INFO__INIT};
    Millrace__TaskInfo *list[2] = {&infos[0], &infos[1]};
    static const char *const ids[2] = {"a", "b"};

    for (size_t i = 0; i < 2; i++) {
        infos[i].task_id = (char *)(uintptr_t)ids[i];
        infos[i].worker_address = (char *)"worker:1";
        infos[i].worker_incarnation = (char *)"w";
        infos[i].ended = over;
    }
    u.tasks = list;
    u.n_tasks = strlen(task);
    u.finished = over;
    u.rounds = rounds;
    mr_read_updated(&s->read, &u);
}

/* Attached, with the tasks of "a" or "ab". */
static void attach(struct stage *s, const char *tasks, Millrace__RoundsUpdate *rounds)
{
    mr_error err;

    assert_int_equal(mr_read_init(&s->read, &err), MR_OK);
    step(s);
    open_answered(s, 1);
    step(s);
    update(s, tasks, false, rounds);
}

static struct mr_read_task *first(struct stage *s)
{
    return TAILQ_FIRST(&s->read.tasks);
}

/* A message of @t with @n elements of @words numbers each; of END, if @end. */
static bool deliver(struct mr_read_task *t, uint64_t from, uint32_t n, int64_t words, bool end,
                    Millrace__RoundHeader *rounds)
{
    Millrace__ReadHeader h = MILLRACE__READ_HEADER__INIT;
    struct mr_leaf_spec leaf = {.dtype = MR_INT64, .rank = 1, .dims = {words}};
    mr_block *block = NULL;
    struct mr_frame_content c = {.header = &h, .blocks = &block, .n = n > 0 ? 1 : 0};

    h.worker_incarnation = t->incarnation;
    h.task_id = t->id;
    h.session = t->session;
    h.first_element = from;
    h.end = end;
    h.rounds = rounds;
    if (n > 0) {
        assert_int_equal(mr_block_alloc(n, &leaf, 1, &block, NULL), MR_OK);
    }
    bool more = mr_read_message(t, &c);
    mr_block_unref(block);
    return more;
}

static int take(struct stage *s)
{
    struct mr_read_taken taken;
    mr_error err;

    mr_read_ask(&s->read);
    int rc = mr_read_take(&s->read, 1, &taken, &err);
    if (rc == MR_OK) {
        mr_block_unref(taken.block);
    } else if (rc == MR_TIMEOUT) {
        (void)mr_read_hungry(&s->read);
    }
    return rc;
}

/* ---- the session with the dispatchers ---- */

static void a_read_attaches_beats_and_leaves_when_all_is_used(void **state)
{
    struct stage *s = *state;

    attach(s, "a", NULL);
    step(s);
    s->read.now_ms = 1500;
    step(s);
    Millrace__ClientHeartbeatReply beat = MILLRACE__CLIENT_HEARTBEAT_REPLY__INIT;
    mr_read_answered(&s->read, MR_OK, &beat.base, NULL);
    step(s);
    expect(s, "[1000] Open\n"
              "[1000] WatchClient\n"
              "[1000] a: connect\n"
              "[1000] a: open session 1 from 0\n"
              "[1000] wait until 1500\n"
              "[1500] ClientHeartbeat\n"
              "[1500] wait until 2000\n");

    mr_read_sent(first(s));
    assert_true(deliver(first(s), 0, 1, 1, false, NULL));
    s->read.now_ms = 1600;
    update(s, "a", true, NULL); /* It has one that the application does not have yet. */
    step(s);
    assert_int_equal(take(s), MR_OK);
    step(s);
    assert_int_equal(take(s), MR_END); /* It came back: that one is used. */
    step(s);
    step(s);
    Millrace__ReleaseClientReply release = MILLRACE__RELEASE_CLIENT_REPLY__INIT;
    mr_read_answered(&s->read, MR_OK, &release.base, NULL);
    step(s);
    expect(s, "[1600] a: cut\n"
              "[1600] wait until 2000\n"
              "[1600] wait until 2000\n"
              "[1600] unwatch\n"
              "[1600] ReleaseClient\n"
              "[1600] out\n");
}

static void who_is_not_known_any_more_opens_again(void **state)
{
    struct stage *s = *state;
    mr_error err;

    attach(s, "a", NULL);
    s->read.now_ms = 1500;
    step(s);
    (void)mr_error_set(&err, MR_ENOTFOUND, "who?");
    mr_read_answered(&s->read, MR_ENOTFOUND, NULL, &err);
    s->size = 0;
    step(s);
    step(s);
    open_answered(s, 1);
    step(s);
    expect(s, "[1500] unwatch\n"
              "[1500] Open\n"
              "[1500] WatchClient\n");
}

static void an_update_that_was_missed_begins_the_watch_anew(void **state)
{
    struct stage *s = *state;
    Millrace__ClientUpdate u = MILLRACE__CLIENT_UPDATE__INIT;

    attach(s, "a", NULL);
    u.follows = 9; /* of which nothing is known */
    u.version = 10;
    mr_read_updated(&s->read, &u);
    s->size = 0;
    step(s);
    step(s);
    expect(s, "[1000] unwatch\n"
              "[1000] Open\n");
}

/* ---- the link to a worker ---- */

static void a_broken_stream_goes_on_with_what_did_not_come(void **state)
{
    struct stage *s = *state;
    struct mr_read_task *t;
    mr_error err;

    attach(s, "a", NULL);
    t = first(s);
    mr_read_sent(t);
    assert_true(deliver(t, 0, 2, 1, false, NULL));
    mr_read_sent(t);
    s->size = 0;
    (void)mr_error_set(&err, MR_EUNAVAIL, "broken");
    mr_read_ended(t, MR_EUNAVAIL, &err);
    s->read.now_ms = mr_read_tick(&s->read); /* when it is to try again */
    assert_in_range(s->read.now_ms, 1001, 1100);
    s->read.now_ms = 1100;
    (void)mr_read_tick(&s->read);
    expect(s, "[1100] a: connect\n"
              "[1100] a: open session 1 from 2\n");
    mr_read_sent(t);
    assert_false(deliver(t, 3, 1, 1, false, NULL)); /* a gap */
    expect(s, "[1100] a: cut\n");
}

/* ---- what was given and not used ---- */

#define MIB_WORDS (1024 * 1024 / 8)

/* An element of the application's that takes in many: so much is not held from others for it. */
static void what_is_gathered_counts_as_used_at_8_mib(void **state)
{
    struct stage *s = *state;
    struct mr_read_task *t;

    mr_hand_log_come(&s->hand);
    s->hand.way = MR_HAND_ONE_BY_ONE;
    s->read.opts.hand_log = &s->hand;
    attach(s, "a", NULL);
    t = first(s);
    for (unsigned given = 0; given < 12; given++) {
        if (t->sending) {
            mr_read_sent(t);
        }
        assert_true(deliver(t, given, 1, MIB_WORDS, false, NULL));
        if (t->sending) {
            mr_read_sent(t);
        }
        assert_int_equal(take(s), MR_OK);
        s->read.now_ms += 1000;
        (void)mr_read_tick(&s->read); /* what there is to say is said */
        /* Asked for with 8 MiB given, all of that is used; and so on with each one from there. */
        assert_int_equal(s->last->returned_elements, given < 8 ? 0 : 8);
    }
}

/* ---- modes ---- */

/* Credits are the plain mode's: its few say nothing of a consumer's rounds. */
static void a_consumer_with_few_credits_says_nothing_twice(void **state)
{
    struct stage *s = *state;
    uint32_t turns[2] = {0, 1};
    char *ids[2] = {(char *)"a", (char *)"b"};
    Millrace__RoundSegment segment = MILLRACE__ROUND_SEGMENT__INIT;
    Millrace__RoundSegment *segments[1] = {&segment};
    Millrace__RoundSchedule schedule = MILLRACE__ROUND_SCHEDULE__INIT;
    Millrace__RoundsUpdate rounds = MILLRACE__ROUNDS_UPDATE__INIT;
    struct mr_read_task *t;

    segment.n_tasks = 2;
    segment.tasks = turns;
    schedule.n_segments = 1;
    schedule.segments = segments;
    schedule.n_tasks = 2;
    schedule.tasks = ids;
    rounds.schedule = &schedule;
    rounds.horizon = 100;
    s->read.opts.job.num_consumers = 2;
    s->read.opts.max_outstanding = 1;
    attach(s, "ab", &rounds);
    (void)mr_read_tick(&s->read);
    for (unsigned i = 0; i < 20; i++) {
        TAILQ_FOREACH(t, &s->read.tasks, link) {
            if (t->sending) {
                mr_read_sent(t);
            }
        }
        s->read.now_ms += 20;
        (void)mr_read_tick(&s->read);
        assert_int_equal(take(s), MR_TIMEOUT);
    }
    assert_int_equal(s->sent, 2); /* what opens the two streams */
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_read_attaches_beats_and_leaves_when_all_is_used),
        TEST(who_is_not_known_any_more_opens_again),
        TEST(an_update_that_was_missed_begins_the_watch_anew),
        TEST(a_broken_stream_goes_on_with_what_did_not_come),
        TEST(what_is_gathered_counts_as_used_at_8_mib),
        TEST(a_consumer_with_few_credits_says_nothing_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
