/* One bad record must not stop the rest. Of a cluster with jobs of all kinds every record in turn
 * is made garbage, emptied, deleted, and has each of its numbers changed; then another leader takes
 * over, and everybody reads on. Jobs that do not rest on the record read to their end and lose
 * nothing; those that do end, or get an error that says why. Nobody waits for ever. What was set
 * aside for it is there again when the record is put right. */
#include "core_support.h"

#include "base/base.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define FP1 "00000000000000000000000000000001"
#define FP2 "00000000000000000000000000000002"
#define SPLITS 60
#define ROUNDS_MAX 600 /* of a second each: beyond the timeouts of workers and clients */
#define TASKS_MAX 200
#define READERS 8

enum reading { READING, DONE, FAILED };

struct reader {
    struct open_args args;
    const char *slot; /* of its job's key */
    bool counts;      /* it has splits of its own, which are counted */
    char job_id[64], iteration[64], production[64];
    enum reading state;
    char error[300];
    unsigned handed[SPLITS];
};

/* What a worker knows of a task. */
struct known_task {
    char id[160];
    uint64_t seq;
    bool over;
};

struct cluster {
    struct table t;
    struct reader readers[READERS];
    struct known_task tasks[TASKS_MAX];
    size_t ntasks;
};

static const char *const workers[] = {"w1", "w2"};
static const char *const addresses[] = {"a:1", "b:1"};

static const struct reader plans[READERS] = {
    {.args = {.client = "c1", .dataset = "numbers", .name = "dyn", .dynamic = true},
     .slot = "dyn",
     .counts = true},
    {.args = {.client = "c2", .dataset = "letters", .name = "other", .dynamic = true},
     .slot = "other",
     .counts = true},
    {.args =
         {.client = "c3", .dataset = "numbers", .name = "again", .dynamic = true, .guarantee = 1},
     .slot = "again",
     .counts = true},
    {.args = {.client = "c4", .dataset = "numbers", .name = "off"}, .slot = "off"},
    {.args = {.client = "c5", .dataset = "letters", .dynamic = true}, .counts = true},
    {.args =
         {.client = "c6", .dataset = "numbers", .name = "both", .dynamic = true, .trainer = "t1"},
     .slot = "both+t1"},
    {.args =
         {.client = "c7", .dataset = "numbers", .name = "both", .dynamic = true, .trainer = "t2"},
     .slot = "both+t2"},
    {.args = {.client = "c8", .dataset = "letters", .name = "turns", .consumers = 1},
     .slot = "turns"},
};

/* ---------------------------------------------------------------- workers */

static struct known_task *know(struct cluster *c, const char *id)
{
    for (size_t i = 0; i < c->ntasks; i++) {
        if (strcmp(c->tasks[i].id, id) == 0) {
            return &c->tasks[i];
        }
    }
    assert_true(c->ntasks < TASKS_MAX);
    c->tasks[c->ntasks] = (struct known_task){0};
    snprintf(c->tasks[c->ntasks].id, sizeof c->tasks[0].id, "%s", id);
    return &c->tasks[c->ntasks++];
}

static void count_splits(struct cluster *c, const char *iteration,
                         const Millrace__GetSplitsReply *reply)
{
    for (size_t i = 0; i < READERS; i++) {
        struct reader *r = &c->readers[i];

        for (uint64_t k = 0; strcmp(r->iteration, iteration) == 0 && reply->n_ranges > 0 &&
                             k < reply->ranges[0]->count;
             k++) {
            assert_true(reply->ranges[0]->first + k < SPLITS || !r->counts);
            r->handed[(reply->ranges[0]->first + k) % SPLITS]++;
        }
    }
}

/* One request. False: there is nothing more to be had of it. */
static bool ask(struct cluster *c, const char *worker, const char *iteration,
                struct known_task *task, uint64_t want)
{
    int rc = get_splits(&c->t, worker, task->id, 0, task->seq + 1, want);
    char why[256];

    if (rc < 0) {
        snprintf(why, sizeof why, "%s", the_reply(&c->t)->error.message);
        task->over = true;
        if (rc != MR_ENOTFOUND && rc != MR_EPRECOND &&
            rc != MR_EUNAVAIL) { /* its pipeline fails for it */
            (void)end_task(&c->t, worker, task->id, rc, why);
        }
        return false;
    }
    task->seq++;
    count_splits(c, iteration, splits(&c->t));
    return !splits(&c->t)->end;
}

static void end_rounds(struct table *t, const char *worker, const char *task)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_TASK_ENDED, .task_ended = &request};

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    request.task_id = (char *)(uintptr_t)task;
    request.end_round = 3;
    table_step(t, &command);
}

static void work_on(struct cluster *c, const char *worker, const Millrace__TaskAssignment *assigned)
{
    struct known_task *task = know(c, assigned->task_id);

    if (task->over) { /* it was dropped: this is another one to the worker */
        task->over = false;
        task->seq = 0;
    }
    if (assigned->joining) {
        beat_with_join(&c->t, worker, task->id, 0, NULL);
        return;
    }
    for (int i = 0; i < 2 * SPLITS && assigned->n_providers > 0; i++) {
        if (!ask(c, worker, assigned->iteration_id, task, 7)) {
            break;
        }
    }
    if (!task->over) {
        end_rounds(&c->t, worker, task->id);
        task->over = the_reply(&c->t)->error.code == MR_OK;
    }
}

static Millrace__WorkerUpdate *look(struct cluster *c, const char *worker)
{
    Millrace__WatchWorkerRequest request = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WATCH_WORKER, .watch_worker = &request};
    uint8_t *bytes;

    request.incarnation = (char *)(uintptr_t)id_of(worker);
    table_step(&c->t, &command);
    if (the_reply(&c->t)->error.code < 0) {
        return NULL;
    }
    /* The reply goes with the next step. */
    bytes = malloc(protobuf_c_message_get_packed_size(the_reply(&c->t)->message) + 1);
    assert_non_null(bytes);
    Millrace__WorkerUpdate *update = millrace__worker_update__unpack(
        NULL, protobuf_c_message_pack(the_reply(&c->t)->message, bytes), bytes);

    free(bytes);
    assert_non_null(update);
    return update;
}

static bool is_kept(const Millrace__WorkerUpdate *update, const char *task)
{
    bool kept = false;

    for (size_t i = 0; i < update->n_tasks; i++) {
        kept = kept || strcmp(update->tasks[i]->task_id, task) == 0;
    }
    for (size_t i = 0; i < update->n_held; i++) {
        size_t n = strlen(update->held[i]);

        kept = kept || (strncmp(task, update->held[i], n) == 0 && task[n] == '/');
    }
    return kept;
}

/* Tasks that are neither listed nor held: should they come again they begin anew. */
static void drop_others(struct cluster *c, const char *worker, const Millrace__WorkerUpdate *update)
{
    for (size_t i = 0; i < c->ntasks; i++) {
        struct known_task *task = &c->tasks[i];

        if (strstr(task->id, id_of(worker)) != NULL && !is_kept(update, task->id)) {
            task->seq = 0;
            task->over = false;
        }
    }
}

static void work(struct cluster *c)
{
    for (size_t w = 0; w < 2; w++) {
        Millrace__WorkerUpdate *update = look(c, workers[w]);

        if (update == NULL) {
            add_worker(&c->t, workers[w], addresses[w]);
            continue;
        }
        beat_worker(&c->t, workers[w]);
        drop_others(c, workers[w], update);
        for (size_t i = 0; i < update->n_tasks; i++) {
            work_on(c, workers[w], update->tasks[i]);
        }
        millrace__worker_update__free_unpacked(update, NULL);
    }
}

/* ---------------------------------------------------------------- readers */

static void settle(struct reader *r, const Millrace__IterationEnd *end)
{
    r->state = end != NULL && end->error_code < 0 ? FAILED : DONE;
    snprintf(r->error, sizeof r->error, "%s", end != NULL ? end->error : "");
}

/* Again, after a leader that does not know it; as the same reader. */
static void come_back(struct cluster *c, struct reader *r)
{
    struct open_args args = r->args;

    args.job_id = r->job_id;
    args.iteration_id = r->iteration;
    if (open_job(&c->t, args) < 0) {
        r->state = FAILED;
        snprintf(r->error, sizeof r->error, "%s", the_reply(&c->t)->error.message);
    } else if (opened(&c->t)->finished) {
        settle(r, opened(&c->t)->end);
    }
}

static void tell(struct cluster *c, const struct reader *r, const Millrace__RoundsUpdate *rounds)
{
    Millrace__ClientHeartbeatRequest request = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_CLIENT_HEARTBEAT, .client_heartbeat = &request};
    Millrace__ClosingReport closing[2];
    Millrace__ClosingReport *list[2] = {&closing[0], &closing[1]};
    Millrace__ConsumerReport report = MILLRACE__CONSUMER_REPORT__INIT;
    char ids[2][160];

    request.client = (char *)(uintptr_t)id_of(r->args.client);
    request.iteration_id = (char *)(uintptr_t)r->iteration;
    if (rounds != NULL) {
        report.ask = rounds->ask;
        report.session = rounds->n_sessions > 0 ? rounds->sessions[0] : 0;
        report.position = report.returned = 16;
        for (size_t i = 0; i < rounds->n_closing && i < 2; i++) {
            snprintf(ids[i], sizeof ids[i], "%s", rounds->closing[i]);
            millrace__closing_report__init(&closing[i]);
            closing[i].task_id = ids[i];
            closing[i].held_below = 2;
            report.n_closing++;
        }
        report.closing = list;
        request.rounds = &report;
    }
    table_step(&c->t, &command);
}

static void read_on(struct cluster *c, struct reader *r)
{
    Millrace__WatchClientRequest request = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_WATCH_CLIENT, .watch_client = &request};
    const Millrace__ClientUpdate *update;

    request.client = (char *)(uintptr_t)id_of(r->args.client);
    request.iteration_id = r->iteration;
    table_step(&c->t, &command);
    if (the_reply(&c->t)->error.code < 0) {
        come_back(c, r);
        return;
    }
    update = (const Millrace__ClientUpdate *)the_reply(&c->t)->message;
    if (update->finished) {
        settle(r, update->end);
    } else {
        tell(c, r, update->rounds);
    }
}

/* Until nobody reads any more. */
static void read_all(struct cluster *c, const char *about)
{
    for (int i = 0; i < ROUNDS_MAX; i++) {
        size_t reading = 0;

        work(c);
        for (size_t k = 0; k < READERS; k++) {
            if (c->readers[k].state == READING) {
                read_on(c, &c->readers[k]);
                reading += c->readers[k].state == READING ? 1 : 0;
            }
        }
        if (reading == 0) {
            return;
        }
        table_wait(&c->t, 1000);
    }
    for (size_t k = 0; k < READERS; k++) {
        if (c->readers[k].state == READING) {
            fail_msg("%s: job '%s' is still being read", about,
                     plans[k].slot != NULL ? plans[k].slot : "anonymous");
        }
    }
}

/* ---------------------------------------------------------------- the cluster */

static void begin(struct cluster *c)
{
    static const int64_t sixty[] = {SPLITS};
    char key[128];

    memset(c, 0, sizeof *c);
    memcpy(c->readers, plans, sizeof plans);
    table_open(&c->t, NULL);
    assert_int_equal(put_dataset(&c->t, "numbers", FP1, sixty, 1), MR_OK);
    assert_int_equal(put_dataset(&c->t, "", FP2, sixty, 1), MR_OK);
    for (size_t w = 0; w < 2; w++) {
        add_worker(&c->t, workers[w], addresses[w]);
    }
    for (size_t i = 0; i < READERS; i++) {
        struct reader *r = &c->readers[i];

        r->args.dataset = strcmp(r->args.dataset, "letters") == 0 ? FP2 : r->args.dataset;
        assert_int_equal(open_job(&c->t, r->args), MR_OK);
        snprintf(r->job_id, sizeof r->job_id, "%s", opened(&c->t)->job_id);
        snprintf(r->iteration, sizeof r->iteration, "%s", opened(&c->t)->iteration_id);
        for (size_t w = 0; w < 2 && r->counts; w++) {
            assert_true(
                ask(c, workers[w], r->iteration, know(c, task_of(r->iteration, workers[w], 1)), 5));
        }
        snprintf(key, sizeof key, "iterations/%s", r->iteration);
        const char *production = strstr(table_get(&c->t, key), "\"production\":\"");

        if (production != NULL) {
            snprintf(r->production, sizeof r->production, "%.*s",
                     (int)strcspn(production + 14, "\""), production + 14);
        }
    }
    /* One task has ended: a record of its own. */
    assert_int_equal(end_task(&c->t, "w2", task_of(c->readers[3].iteration, "w2", 1), 0, NULL),
                     MR_OK);
    know(c, task_of(c->readers[3].iteration, "w2", 1))->over = true;
    assert_string_equal(c->readers[5].production, c->readers[6].production);
}

/* ---------------------------------------------------------------- a bad record */

static bool has(const char *key, const char *part)
{
    return part[0] != '\0' && strstr(key, part) != NULL;
}

/* May @r be spoiled by @key? */
static bool rests_on(const struct reader *r, const char *key)
{
    char of_job[64];

    snprintf(of_job, sizeof of_job, "jobs/%s", r->slot != NULL ? r->slot : "~");
    return has(key, r->iteration) || has(key, r->production) ||
           (r->slot != NULL ? strcmp(key, of_job) == 0 : has(key, of_job)) ||
           (strncmp(key, "datasets/", 9) == 0 && strcmp(key + 9, r->args.dataset) == 0);
}

/* @r came to the end of its pass, and nothing of it is missing or came twice. */
static void judge_whole(const struct reader *r, const char *about)
{
    const char *name = r->slot != NULL ? r->slot : "anonymous";

    if (r->state != DONE) {
        fail_msg("%s: job '%s' failed: %s", about, name, r->error);
    }
    for (size_t k = 0; k < SPLITS && r->counts; k++) {
        bool once = r->args.guarantee == 0 ? r->handed[k] == 1 : r->handed[k] >= 1;

        if (!once) {
            fail_msg("%s: job '%s' got split %zu %u times", about, name, k, r->handed[k]);
        }
    }
}

/* That the state of a pass is bad is said with whose it is, not with an id alone. */
static void judge_error_of_pass(const struct reader *r, const char *about)
{
    const char *label = r->args.trainer != NULL ? r->slot : r->args.name;
    char job[80];

    if (r->args.name != NULL) {
        snprintf(job, sizeof job, "job '%s'", label);
    } else {
        snprintf(job, sizeof job, "a client's own job '~%s'", id_of(r->args.client));
    }
    if (strstr(r->error, "in etcd cannot be used") != NULL && strstr(r->error, job) == NULL) {
        fail_msg("%s: the error does not name %s: %s", about, job, r->error);
    }
}

static void judge(const struct cluster *c, const char *key, const char *about)
{
    for (size_t i = 0; i < READERS; i++) {
        const struct reader *r = &c->readers[i];

        if (rests_on(r, key)) {
            if (r->state == FAILED && r->error[0] == '\0') {
                fail_msg("%s: job '%s' failed, and nobody knows why", about, r->slot);
            }
            judge_error_of_pass(r, about);
        } else { /* it does not rest on it */
            judge_whole(r, about);
        }
    }
}

/* What was set aside is as it was: with the record put right its jobs are there again, and the
 * passes that were open go on where they were, since the workers have kept their tasks. */
static void mend(struct cluster *c, const char *key, const char *value, const char *about)
{
    bool mended[READERS] = {false}, any = false;

    for (size_t i = 0; i < READERS; i++) {
        struct reader *r = &c->readers[i];

        mended[i] = r->state == FAILED && strstr(r->error, "is set aside: ") != NULL;
        if (mended[i]) {
            if (strstr(r->error, key) == NULL) {
                fail_msg("%s: job '%s' does not hear of the key: %s", about, r->slot, r->error);
            }
            r->state = READING;
            any = true;
        }
    }
    if (!any) {
        return;
    }
    table_put(&c->t, key, value);
    table_take_over(&c->t);
    if (first_flaw(c->t.core) != NULL) {
        fail_msg("%s: it is mended, and still bad: %s", about, first_flaw(c->t.core));
    }
    read_all(c, about);
    for (size_t i = 0; i < READERS; i++) {
        if (mended[i]) {
            judge_whole(&c->readers[i], about);
        }
    }
}

/* @value: NULL, it is deleted. */
static void attack(struct cluster *c, const char *key, const char *original, const char *value)
{
    char about[600];
    mr_error err = {0};

    if (getenv("MR_TRACE") != NULL) {
        print_message("%s = %s\n", key, value != NULL ? value : "(deleted)");
    }
    snprintf(about, sizeof about, "%s = %.400s", key, value != NULL ? value : "(deleted)");
    if (value != NULL) {
        table_put(&c->t, key, value);
    } else {
        table_delete(&c->t, key);
    }
    if (table_try_take_over(&c->t, &err) < 0) {
        if (strcmp(key, "schema") != 0 || strstr(err.message, "schema") == NULL) {
            fail_msg("%s: nobody leads: %s", about, err.message);
        }
        return;
    }
    read_all(c, about);
    judge(c, key, about);
    table_take_over(&c->t);
    mend(c, key, original, about);
}

static void attack_one(const char *key, const char *value)
{
    struct cluster *c = mr_calloc(1, sizeof *c);

    begin(c);
    char *original = mr_strdup(table_get(&c->t, key));

    attack(c, key, original, value);
    mr_free(original);
    table_close(&c->t);
    mr_free(c);
}

/* The records of the cluster, copied. */
struct records {
    char *keys[200], *values[200];
    size_t n;
};

static void copy_records(struct records *ret)
{
    struct cluster *c = mr_calloc(1, sizeof *c);

    begin(c);
    ret->n = 0;
    for (size_t i = 0; i < c->t.count; i++) {
        if (strncmp(c->t.keys[i], "blobs/", 6) != 0) { /* whose values no core sees */
            assert_true(ret->n < 200);
            ret->keys[ret->n] = mr_strdup(c->t.keys[i]);
            ret->values[ret->n++] = mr_strdup(c->t.values[i]);
        }
    }
    table_close(&c->t);
    mr_free(c);
}

static void free_records(struct records *records)
{
    for (size_t i = 0; i < records->n; i++) {
        mr_free(records->keys[i]);
        mr_free(records->values[i]);
    }
}

static void each_record_may_be_garbage_empty_or_gone(void **state)
{
    static const char *const values[] = {"garbage", "{}", "\xff", NULL};
    struct records records;

    copy_records(&records);
    assert_true(records.n > 40);
    for (size_t i = 0; i < records.n; i++) {
        for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
            if (strcmp(records.keys[i], "schema") != 0 ||
                values[k] != NULL) { /* whether it is there a loop asks */
                attack_one(records.keys[i], values[k]);
            }
        }
    }
    free_records(&records);
}

/* @at: where a number of @n digits is. */
static void change_number(const char *key, const char *value, size_t at, size_t n,
                          const char *number)
{
    char *changed = mr_asprintf("%.*s%s%s", (int)at, value, number, value + at + n);

    assert_non_null(changed);
    if (strcmp(changed, value) != 0) {
        attack_one(key, changed);
    }
    mr_free(changed);
}

static void each_number_may_be_another(void **state)
{
    static const char *const numbers[] = {
        "0", "1", "7", "99999999", "4611686018427387904", "18446744073709551615"};
    struct records records;

    copy_records(&records);
    for (size_t i = 0; i < records.n; i++) {
        const char *value = records.values[i];

        for (size_t at = 0, n; value[at] != '\0'; at += n) {
            n = strspn(value + at, "0123456789");
            bool alone = n > 0 && at > 0 && !isalnum((unsigned char)value[at - 1]) &&
                         !isalnum((unsigned char)value[at + n]);

            for (size_t k = 0; k < sizeof numbers / sizeof numbers[0] && alone; k++) {
                change_number(records.keys[i], value, at, n, numbers[k]);
            }
            n = n > 0 ? n : 1;
        }
    }
    free_records(&records);
}

/* ---------------------------------------------------------------- all records are bad in the same
 * way */

/* Nothing is wrong with any record; each stamp is of an epoch that this etcd has not reached. */
static void what_was_copied_into_an_etcd_that_counts_from_the_start_is_kept(void **state)
{
    struct cluster *c = mr_calloc(1, sizeof *c);
    mr_error err = {0};

    begin(c);
    uint64_t epoch = c->t.epoch;
    size_t count = c->t.count;

    c->t.epoch = 1;
    assert_int_equal(table_try_take_over(&c->t, &err), MR_EUNAVAIL);
    assert_non_null(strstr(err.message, "counts from the start"));
    assert_int_equal(c->t.count, count);
    c->t.epoch = epoch;
    table_take_over(&c->t);
    assert_null(first_flaw(c->t.core));
    assert_int_equal(c->t.count, count);
    table_close(&c->t);
    mr_free(c);
}

/* ---------------------------------------------------------------- while it is set aside */

/* A worker that does not know yet, or does not hold: it is to keep the task, and neither drop nor
 * end it. */
static void tasks_of_what_is_set_aside_are_answered_later(void **state)
{
    static const char *const spoilt[] = {"jobs/dyn", "datasets/numbers"};
    struct cluster *c;

    for (size_t i = 0; i < sizeof spoilt / sizeof spoilt[0]; i++) {
        c = mr_calloc(1, sizeof *c);
        begin(c);
        char *original = mr_strdup(table_get(&c->t, spoilt[i]));
        const char *task = task_of(c->readers[0].iteration, "w1", 1);

        table_put(&c->t, spoilt[i], "garbage");
        table_take_over(&c->t);
        assert_int_equal(get_splits(&c->t, "w1", task, 0, 2, 5), MR_EUNAVAIL);
        assert_true((the_reply(&c->t)->error.traits & MR_RETRYABLE) != 0);
        assert_int_equal(end_task(&c->t, "w1", task, 0, NULL), MR_EUNAVAIL);
        assert_true((the_reply(&c->t)->error.traits & MR_RETRYABLE) != 0);
        table_put(&c->t, spoilt[i], original);
        table_take_over(&c->t);
        assert_int_equal(get_splits(&c->t, "w1", task, 0, 2, 5), MR_OK);
        assert_int_equal(end_task(&c->t, "w1", task, 0, NULL), MR_OK);
        assert_int_equal(get_splits(&c->t, "w1", task, 0, 3, 5), MR_EPRECOND);
        mr_free(original);
        table_close(&c->t);
        mr_free(c);
    }
}

/* Nothing of the job can be changed then: a goodbye that was answered would be forgotten with what
 * it counts. */
static void a_goodbye_to_a_job_that_is_set_aside_is_to_be_said_again(void **state)
{
    struct cluster *c = mr_calloc(1, sizeof *c);
    Millrace__ReleaseClientRequest in = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_RELEASE_CLIENT, .release_client = &in};
    char key[128];

    begin(c);
    char *original = mr_strdup(table_get(&c->t, "jobs/dyn"));

    in.client = (char *)(uintptr_t)id_of("c1");
    in.iteration_id = c->readers[0].iteration;
    in.abandoned = 2;
    table_put(&c->t, "jobs/dyn", "garbage");
    table_take_over(&c->t);
    table_step(&c->t, &command);
    assert_int_equal(the_reply(&c->t)->error.code, MR_EUNAVAIL);
    assert_true((the_reply(&c->t)->error.traits & MR_RETRYABLE) != 0);
    table_put(&c->t, "jobs/dyn", original);
    table_take_over(&c->t);
    table_step(&c->t, &command);
    assert_int_equal(the_reply(&c->t)->error.code, MR_OK);
    snprintf(key, sizeof key, "iterations/%s", c->readers[0].iteration);
    assert_non_null(strstr(table_get(&c->t, key), "\"abandoned\":\"2\""));
    mr_free(original);
    table_close(&c->t);
    mr_free(c);
}

static const char *get_dataset(struct table *t, const char *id)
{
    Millrace__GetDatasetRequest in = MILLRACE__GET_DATASET_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_GET_DATASET, .get_dataset = &in};

    in.dataset_id = (char *)(uintptr_t)id;
    table_step(t, &command);
    assert_int_equal(the_reply(t)->error.code, MR_EDATALOSS);
    return the_reply(t)->error.message;
}

/* The key, and what to do: one without a name is mended by registering it. */
static void who_asks_for_a_dataset_that_is_set_aside_is_told_what_to_do(void **state)
{
    struct cluster *c = mr_calloc(1, sizeof *c);

    begin(c);
    table_put(&c->t, "datasets/numbers", "garbage");
    table_put(&c->t, "datasets/" FP2, "garbage");
    table_take_over(&c->t);
    const char *why = get_dataset(&c->t, "numbers");

    assert_non_null(strstr(why, "'datasets/numbers': "));
    assert_non_null(strstr(why, "put that right in etcd and restart the leading dispatcher"));
    assert_null(strstr(why, "register it"));
    why = get_dataset(&c->t, FP2);
    assert_non_null(strstr(why, "'datasets/" FP2 "': "));
    assert_non_null(strstr(
        why, "register it again, or put that right in etcd and restart the leading dispatcher"));
    table_close(&c->t);
    mr_free(c);
}

/* ---------------------------------------------------------------- giving up */

static int delete_job(struct table *t, const char *name)
{
    Millrace__DeleteJobRequest in = MILLRACE__DELETE_JOB_REQUEST__INIT;
    struct mr_command command = {.kind = MR_COMMAND_DELETE_JOB, .delete_job = &in};

    in.job = (char *)(uintptr_t)name;
    in.force = true;
    table_step(t, &command);
    return the_reply(t)->error.code;
}

static void a_job_that_is_set_aside_can_be_deleted(void **state)
{
    struct open_args again = {.client = "c9", .dataset = "numbers", .name = "dyn", .dynamic = true};
    struct cluster *c = mr_calloc(1, sizeof *c);

    begin(c);
    table_put(&c->t, "jobs/dyn", "garbage");
    table_take_over(&c->t);
    assert_int_equal(open_job(&c->t, again), MR_EDATALOSS);
    assert_int_equal(delete_job(&c->t, "dyn"), MR_OK);
    assert_null(table_get(&c->t, "jobs/dyn"));
    assert_int_equal(delete_job(&c->t, "dyn"), MR_ENOTFOUND);
    assert_int_equal(open_job(&c->t, again), MR_OK);
    table_close(&c->t);
    mr_free(c);
}

/* Each step compares what the core counts with what is there. */
static void a_client_of_a_job_that_is_set_aside_may_read_another(void **state)
{
    static const char *const spoilt[] = {"jobs/dyn", "datasets/numbers"};
    struct cluster *c;

    for (int i = 0; i < 4; i++) {
        struct open_args other = {.client = "c1", .dataset = FP2, .name = "new", .dynamic = true};

        c = mr_calloc(1, sizeof *c);
        begin(c);
        table_put(&c->t, spoilt[i % 2], "garbage");
        table_take_over(&c->t);
        assert_true(i < 2 || delete_job(&c->t, "dyn") == MR_OK);
        assert_int_equal(open_job(&c->t, other), MR_OK);
        table_close(&c->t);
        mr_free(c);
    }
}

static void trainers_that_are_set_aside_are_deleted_with_the_others(void **state)
{
    struct cluster *c = mr_calloc(1, sizeof *c);

    begin(c);
    table_put(&c->t, "jobs/both+t1", "garbage");
    table_take_over(&c->t);
    assert_int_equal(delete_job(&c->t, "both"), MR_OK);
    assert_null(table_get(&c->t, "jobs/both+t1"));
    assert_null(table_get(&c->t, "jobs/both+t2"));
    assert_int_equal(delete_job(&c->t, "both"), MR_ENOTFOUND);
    table_close(&c->t);
    mr_free(c);
}

/* More than one transaction holds: whoever asked is told that some are left. */
static void many_that_are_set_aside_are_deleted_in_parts(void **state)
{
    struct cluster *c = mr_calloc(1, sizeof *c);
    char key[64];

    begin(c);
    for (int i = 0; i < 100; i++) {
        snprintf(key, sizeof key, "jobs/many+t%d", i);
        table_put(&c->t, key, "garbage");
    }
    table_take_over(&c->t);
    assert_int_equal(delete_job(&c->t, "many"), MR_EUNAVAIL);
    assert_true((the_reply(&c->t)->error.traits & MR_RETRYABLE) != 0);
    assert_true(table_count(&c->t, "jobs/many") < 100);
    assert_int_equal(delete_job(&c->t, "many"), MR_OK);
    assert_int_equal(table_count(&c->t, "jobs/many"), 0);
    assert_int_equal(delete_job(&c->t, "many"), MR_ENOTFOUND);
    table_close(&c->t);
    mr_free(c);
}

/* ---------------------------------------------------------------- without memory */

/* Of a load of all records; the @nth allocation fails. */
static int load_without(const struct table *t, uint64_t nth)
{
    struct mr_core_config config = {.epoch = t->epoch + 2};
    mr_core *core = mr_core_new(&config);
    mr_error err = {0};
    int rc = MR_OK;

    assert_non_null(core);
    mr_alloc_fail_at(nth);
    for (size_t i = 0; rc == MR_OK && i < t->count; i++) {
        if (strncmp(t->keys[i], "blobs/", 6) != 0) {
            rc = mr_core_load(core, t->keys[i], t->values[i], strlen(t->values[i]), &err);
        }
    }
    rc = rc < 0 ? rc : mr_core_ready(core, t->now, &err);
    mr_alloc_fail_at(0);
    mr_core_free(core);
    return rc;
}

static void without_memory_nobody_leads_and_nothing_breaks(void **state)
{
    struct cluster *c = mr_calloc(1, sizeof *c);
    uint64_t nth = 1;
    char key[128];
    int rc;

    begin(c);
    snprintf(key, sizeof key, "iterations/%s", c->readers[5].production);
    table_delete(&c->t, key);
    while ((rc = load_without(&c->t, nth)) != MR_OK) {
        assert_int_equal(rc, MR_EEXHAUSTED);
        nth++;
    }
    assert_true(nth > 100);
    table_close(&c->t);
    mr_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_record_may_be_garbage_empty_or_gone),
        cmocka_unit_test(each_number_may_be_another),
        cmocka_unit_test(what_was_copied_into_an_etcd_that_counts_from_the_start_is_kept),
        cmocka_unit_test(tasks_of_what_is_set_aside_are_answered_later),
        cmocka_unit_test(a_goodbye_to_a_job_that_is_set_aside_is_to_be_said_again),
        cmocka_unit_test(who_asks_for_a_dataset_that_is_set_aside_is_told_what_to_do),
        cmocka_unit_test(a_job_that_is_set_aside_can_be_deleted),
        cmocka_unit_test(a_client_of_a_job_that_is_set_aside_may_read_another),
        cmocka_unit_test(trainers_that_are_set_aside_are_deleted_with_the_others),
        cmocka_unit_test(many_that_are_set_aside_are_deleted_in_parts),
        cmocka_unit_test(without_memory_nobody_leads_and_nothing_breaks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
