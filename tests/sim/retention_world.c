#include "retention_world.h"

#include <setjmp.h>

#include <cmocka.h>

const struct mr_core_config retention_config = {
    .heartbeat_ms = 1000,
    .worker_timeout_ms = 10 * MINUTE,
    .client_timeout_ms = 30 * MINUTE,
    .job_gc_timeout_ms = 2 * HOUR,
    .finished_retention_ms = 10 * MINUTE,
    .client_retention_ms = 10 * MINUTE,
    .worker_retention_ms = DAY,
    .job_retention_ms = 7 * DAY,
    .dataset_retention_ms = DAY,
};

uint64_t world_draw(struct world *w, uint64_t n)
{
    return mr_rng_below(&w->rng, n);
}

static void later(struct world *w, int64_t ms, int kind, uint32_t index)
{
    size_t at = w->nheap++;

    if (w->nheap > w->cap_heap) {
        w->cap_heap = 2 * w->nheap;
        w->heap = mr_reallocarray(w->heap, w->cap_heap, sizeof w->heap[0]);
        assert_non_null(w->heap);
    }
    struct event event = {w->leader.now + ms, kind, index};

    while (at > 0 && event.at < w->heap[(at - 1) / 2].at) {
        w->heap[at] = w->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    w->heap[at] = event;
}

static struct event next_event(struct world *w)
{
    struct event first = w->heap[0];
    struct event last = w->heap[--w->nheap];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < w->nheap && w->heap[child + 1].at < w->heap[child].at) {
            child++;
        }
        if (child >= w->nheap || w->heap[child].at >= last.at) {
            break;
        }
        w->heap[at] = w->heap[child];
        at = child;
    }
    w->heap[at] = last;
    return first;
}

static void hex_id(char out[33], const char *kind, uint32_t n)
{
    snprintf(out, 33, "%.2s%030x", kind, n);
}

static char *lent(const char *s)
{
    return (char *)(uintptr_t)s;
}

/* ---------------------------------------------------------------- calls */

static void name_dataset(uint32_t dataset, char out[33])
{
    if (dataset < NAMED_DATASETS) {
        snprintf(out, 33, "numbers-%u", dataset);
    } else {
        hex_id(out, "dd", dataset);
    }
}

static void register_dataset(struct world *w, uint32_t dataset)
{
    Millrace__RegisterDatasetRequest in = MILLRACE__REGISTER_DATASET_REQUEST__INIT;
    char number[16], id[33];

    name_dataset(dataset, id);
    in.dataset_id = dataset < NAMED_DATASETS ? id : lent("");
    in.compression = lent("AUTO");
    in.definition =
        (ProtobufCBinaryData){.data = (uint8_t *)number,
                              .len = (size_t)snprintf(number, sizeof number, "%u", dataset) + 1};
    assert_int_equal(leader_call(&w->leader, MR_COMMAND_REGISTER_DATASET, &in.base), MR_OK);
}

static int open_job(struct world *w, struct reader *r, Millrace__OpenReply const **reply)
{
    Millrace__OpenRequest in = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
    const struct job *job = &w->jobs[r->job];
    char name[32], dataset[33];

    snprintf(name, sizeof name, "job-%u", r->job);
    name_dataset(job->dataset, dataset);
    spec.name = job->named ? name : lent("");
    spec.mode = job->dynamic ? MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC
                             : MILLRACE__PROCESSING_MODE__PROCESSING_OFF;
    spec.guarantee = (Millrace__Guarantee)job->guarantee;
    spec.sharing = job->shares ? MILLRACE__SHARING__SHARING_AUTO : MILLRACE__SHARING__SHARING_OFF;
    in.job = &spec;
    in.client = r->client;
    in.dataset_id = dataset;
    in.repetition = r->repetition;
    int code = leader_call(&w->leader, MR_COMMAND_OPEN, &in.base);

    *reply = (const Millrace__OpenReply *)w->leader.answer;
    return code;
}

static int release(struct world *w, struct reader *r)
{
    Millrace__ReleaseClientRequest in = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;

    in.client = r->client;
    in.iteration_id = r->iteration;
    return leader_call(&w->leader, MR_COMMAND_RELEASE_CLIENT, &in.base);
}

static int client_heartbeat(struct world *w, struct reader *r)
{
    Millrace__ClientHeartbeatRequest in = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;

    in.client = r->client;
    in.iteration_id = r->iteration;
    return leader_call(&w->leader, MR_COMMAND_CLIENT_HEARTBEAT, &in.base);
}

/* Of the production that @iteration reads, on the same worker as @task; false: it reads none. */
static bool producing_task(const struct world *w, const char *iteration, const char *task,
                           char *out, size_t size)
{
    char key[96];
    char *value, *at;

    snprintf(key, sizeof key, "iterations/%s", iteration);
    value = leader_text(&w->leader, key);
    at = value != NULL ? strstr(value, "\"production\":\"") : NULL;
    if (at != NULL) {
        at += strlen("\"production\":\"");
        snprintf(out, size, "%.*s%s", (int)strcspn(at, "\""), at, strchr(task, '/'));
    }
    mr_free(value);
    return at != NULL;
}

/* All workers, or all but one, still have the start of what it is to read. */
static void answer_joins(struct world *w, const struct reader *r)
{
    Millrace__WorkerHeartbeatRequest in = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;
    Millrace__TaskProgress progress = MILLRACE__TASK_PROGRESS__INIT, *list[] = {&progress};
    Millrace__JoinAnswer join = MILLRACE__JOIN_ANSWER__INIT;
    char task[128];

    progress.task_id = task;
    progress.join = &join;
    in.tasks = list;
    in.n_tasks = 1;
    for (int i = 0; i < WORKERS; i++) {
        snprintf(task, sizeof task, "%s/%s.1", r->iteration, w->workers[i]);
        in.incarnation = w->workers[i];
        join.first = world_draw(w, 5 * WORKERS) == 0 ? 1 : 0;
        (void)leader_call(&w->leader, MR_COMMAND_WORKER_HEARTBEAT, &in.base);
    }
}

static void work(struct world *w, const struct job *job, const char *iteration, char *task,
                 char *worker)
{
    char producing[128];

    Millrace__GetSplitsRequest get = MILLRACE__GET_SPLITS_REQUEST__INIT;
    Millrace__TaskEndedRequest end = MILLRACE__TASK_ENDED_REQUEST__INIT;

    get.task_id = end.task_id = task;
    if (producing_task(w, iteration, task, producing, sizeof producing)) {
        get.task_id = producing;
    }
    get.incarnation = end.incarnation = worker;
    get.seq = 1;
    if (job->dynamic) {
        (void)leader_call(&w->leader, MR_COMMAND_GET_SPLITS, &get.base);
    }
    if (world_draw(w, 4) != 0) { /* else another reader of it, or the next round, has it ended */
        (void)leader_call(&w->leader, MR_COMMAND_TASK_ENDED, &end.base);
    }
}

static bool is_alive(const struct world *w, const char *worker)
{
    bool alive = false;

    for (int i = 0; i < WORKERS; i++) {
        alive = alive || strcmp(w->workers[i], worker) == 0;
    }
    return alive;
}

/* The tasks there are do their work and end, recovery tasks too. False: one waits for a worker that
 * is not alive. */
static bool end_tasks(struct world *w, struct reader *r)
{
    Millrace__WatchClientRequest in = MILLRACE__WATCH_CLIENT_REQUEST__INIT;
    bool finished = false;

    in.client = r->client;
    in.iteration_id = r->iteration;
    for (int round = 0; !finished && round < 20; round++) {
        char tasks[64][128], workers[64][33];
        size_t n = 0;

        assert_int_equal(leader_call(&w->leader, MR_COMMAND_WATCH_CLIENT, &in.base), MR_OK);
        dispatcher_end_stream(w->leader.dispatcher, w->leader.calls); /* one look is enough */
        const Millrace__ClientUpdate *update = (const Millrace__ClientUpdate *)w->leader.answer;

        finished = update->finished;
        for (size_t i = 0; !finished && i < update->n_tasks && n < 64; i++) {
            if (!update->tasks[i]->ended && is_alive(w, update->tasks[i]->worker_incarnation)) {
                snprintf(tasks[n], sizeof tasks[n], "%s", update->tasks[i]->task_id);
                snprintf(workers[n], sizeof workers[n], "%s", update->tasks[i]->worker_incarnation);
                n++;
            }
        }
        for (size_t i = 0; i < n; i++) {
            work(w, &w->jobs[r->job], r->iteration, tasks[i], workers[i]);
        }
        leader_run(&w->leader, w->leader.now + 1);
    }
    w->jobs[r->job].ended[r->repetition] = w->jobs[r->job].ended[r->repetition] || finished;
    return finished;
}

static int register_at(struct world *w, uint32_t slot, uint32_t host)
{
    Millrace__RegisterWorkerRequest in = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
    char address[32];

    snprintf(address, sizeof address, "host-%u:1", host);
    in.incarnation = w->workers[slot];
    in.address = address;
    return leader_call(&w->leader, MR_COMMAND_REGISTER_WORKER, &in.base);
}

static int register_worker(struct world *w, uint32_t slot)
{
    Millrace__WatchWorkerRequest watch = MILLRACE__WATCH_WORKER_REQUEST__INIT;
    int code;

    dispatcher_end_stream(w->leader.dispatcher, w->streams[slot]);
    hex_id(w->workers[slot], "ee", w->lives++);
    code = register_at(w, slot, world_draw(w, 2) == 0 ? slot : w->lives + WORKERS);
    if (code == MR_EUNAVAIL) { /* who had the address may come back to a new leader yet */
        code = register_at(w, slot, w->lives + WORKERS);
    }
    watch.incarnation = w->workers[slot];
    if (code == MR_OK) {
        code = leader_call(&w->leader, MR_COMMAND_WATCH_WORKER, &watch.base);
        w->streams[slot] = w->leader.calls;
    }
    return code;
}

/* What this worker does for the reader that stays. */
static void end_endless(struct world *w, uint32_t slot)
{
    Millrace__TaskEndedRequest in = MILLRACE__TASK_ENDED_REQUEST__INIT;
    char task[128];

    snprintf(task, sizeof task, "%s/%s.1", w->endless->iteration, w->workers[slot]);
    in.task_id = task;
    in.incarnation = w->workers[slot];
    assert_int_equal(leader_call(&w->leader, MR_COMMAND_TASK_ENDED, &in.base), MR_OK);
}

static int worker_heartbeat(struct world *w, uint32_t slot, bool leaving)
{
    Millrace__WorkerHeartbeatRequest in = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;

    in.incarnation = w->workers[slot];
    in.leaving = leaving;
    return leader_call(&w->leader, MR_COMMAND_WORKER_HEARTBEAT, &in.base);
}

/* ---------------------------------------------------------------- what they do */

static void add_reader(struct world *w, uint32_t job, uint64_t repetition)
{
    uint32_t index = w->nreaders++;
    struct reader *r = &w->readers[index];

    *r =
        (struct reader){.job = job, .repetition = repetition, .alive = true, .seen = w->leader.now};
    if (w->jobs[job].named) {
        hex_id(r->client, "cc", index);
    } else {
        snprintf(r->client, sizeof r->client, "%s", w->jobs[job].owner);
    }
    w->jobs[job].readers++;
    later(w, (int64_t)world_draw(w, 60 * SECOND), READER, index);
}

static void arrive(struct world *w)
{
    uint32_t index = w->njobs++;
    struct job *job = &w->jobs[index];
    uint32_t content = NAMED_DATASETS + index / JOBS_A_CONTENT;

    *job = (struct job){.named = world_draw(w, 3) == 0,
                        .dynamic = world_draw(w, 2) == 0,
                        .dataset = world_draw(w, 2) == 0 ? (uint32_t)world_draw(w, NAMED_DATASETS)
                                                         : content,
                        .epochs = 1 + world_draw(w, EPOCHS_MAX),
                        .used = w->leader.now};
    job->guarantee = job->dynamic && world_draw(w, 2) == 0 ? 1 : 0;
    job->shares = world_draw(w, 3) == 0;
    hex_id(job->owner, "ca", index);
    add_reader(w, index, 0);
    if (job->named && world_draw(w, 2) == 0) {
        add_reader(w, index, 0);
    }
    if (index > 10 && world_draw(w, 5) == 0) { /* somebody comes late, to a job of the last days */
        uint32_t other = index - 1 - (uint32_t)world_draw(w, index < 3000 ? index / 2 : 3000);

        if (w->jobs[other].named && w->jobs[other].id[0] != '\0') {
            add_reader(w, other, 0);
        }
    }
    if (w->njobs < w->jobs_max) {
        later(w, (int64_t)world_draw(w, 2 * DAY / JOBS_A_DAY), ARRIVAL, 0);
    }
}

static void reader_gone(struct world *w, struct reader *r)
{
    r->alive = false;
    r->reading = false;
    w->jobs[r->job].readers--;
}

static void used(struct world *w, struct reader *r)
{
    r->seen = w->leader.now;
    w->jobs[r->job].used = w->leader.now;
    w->jobs[r->job].read[r->repetition] = w->leader.now;
}

/* Was there still a job, and did it remember? */
static void on_opened(struct world *w, struct reader *r, const Millrace__OpenReply *reply,
                      int64_t unused_ms)
{
    struct job *job = &w->jobs[r->job];

    if (strcmp(job->id, reply->job_id) != 0) {
        assert_true(job->id[0] == '\0' ||
                    unused_ms >= (job->named ? retention_config.job_retention_ms / 2 : 0));
        snprintf(job->id, sizeof job->id, "%s", reply->job_id);
        memset(job->ended, 0, sizeof job->ended);
        memset(job->read, 0, sizeof job->read);
    }
    assert_true(reply->finished || !job->ended[r->repetition]);
    snprintf(r->iteration, sizeof r->iteration, "%s", reply->iteration_id);
}

/* Open the next repetition, past those that have ended. */
static void begin(struct world *w, uint32_t index)
{
    struct reader *r = &w->readers[index];
    struct job *job = &w->jobs[r->job];
    int64_t unused_ms = job->readers > 1 ? 0 : w->leader.now - job->used;
    const Millrace__OpenReply *reply;

    for (; r->repetition < job->epochs; r->repetition++) {
        int code = open_job(w, r, &reply);

        if (code == MR_ENOTFOUND) {
            register_dataset(w, job->dataset);
            code = open_job(w, r, &reply);
        }
        assert_int_equal(code, MR_OK);
        on_opened(w, r, reply, unused_ms);
        used(w, r);
        unused_ms = 0;
        if (!reply->finished) {
            answer_joins(w, r);
            r->reading = true;
            r->until = w->leader.now +
                       (int64_t)world_draw(w, world_draw(w, 10) == 0 ? 3 * HOUR : 10 * MINUTE);
            later(w, SECOND, READER, index);
            return;
        }
    }
    reader_gone(w, r);
}

static void read_on(struct world *w, uint32_t index)
{
    struct reader *r = &w->readers[index];
    struct job *job = &w->jobs[r->job];
    int64_t left = r->until - w->leader.now;

    assert_int_equal(client_heartbeat(w, r), MR_OK);
    used(w, r);
    if (left > 0) {
        later(w, MR_MIN(left, 10 * MINUTE), READER, index);
        return;
    }
    switch (world_draw(w, 12)) {
    case 0: /* falls silent */ reader_gone(w, r); return;
    case 1: /* leaves in the middle */
        assert_int_equal(release(w, r), MR_OK);
        reader_gone(w, r);
        return;
    case 2: /* goes on early */ break;
    default:
        if (!end_tasks(w, r)) {
            later(w, 5 * MINUTE, READER, index);
            return;
        }
        break;
    }
    r->reading = false;
    if (++r->repetition < job->epochs) {
        later(w, (int64_t)world_draw(w, 5 * MINUTE), READER, index);
        return;
    }
    if (world_draw(w, 8) != 0) {
        assert_int_equal(release(w, r), MR_OK);
    }
    r->repetition--;
    reader_gone(w, r);
}

static void tend_worker(struct world *w, uint32_t slot)
{
    uint64_t fate = world_draw(w, 1000); /* about twice in three days a worker goes */

    if (w->workers[slot][0] == '\0' || fate < 2) {
        if (fate == 0 && w->workers[slot][0] != '\0') {
            assert_int_equal(worker_heartbeat(w, slot, true /* leaving */), MR_OK);
        }
        if (w->workers[slot][0] != '\0') {
            w->deaths[w->ndeaths++] = w->leader.now;
        }
        assert_int_equal(register_worker(w, slot), MR_OK);
    } else {
        assert_int_equal(worker_heartbeat(w, slot, false), MR_OK);
        if (slot > 0) {
            end_endless(w, slot);
        }
    }
    later(w, 3 * MINUTE, WORKER, slot);
}

static void start_endless(struct world *w)
{
    const Millrace__OpenReply *reply;

    w->jobs[w->njobs++] = (struct job){.named = true, .epochs = 1};
    add_reader(w, 0, 0);
    w->endless = &w->readers[0];
    assert_int_equal(open_job(w, w->endless, &reply), MR_OK);
    on_opened(w, w->endless, reply, 0);
    used(w, w->endless);
    w->endless->reading = true;
    w->endless->until = INT64_MAX / 2;
}

void world_run(struct world *w, int64_t until)
{
    while (w->nheap > 0 && w->heap[0].at <= until) {
        struct event event = next_event(w);

        leader_run(&w->leader, MR_MAX(event.at, w->leader.now));
        switch (event.kind) {
        case ARRIVAL: arrive(w); break;
        case READER:
            if (w->readers[event.index].reading) {
                read_on(w, event.index);
            } else {
                begin(w, event.index);
            }
            break;
        case WORKER: tend_worker(w, event.index); break;
        }
    }
    leader_run(&w->leader, MR_MAX(until, w->leader.now));
}

void world_open(struct world *w, uint32_t jobs_max)
{
    size_t days = jobs_max / JOBS_A_DAY + 1;

    *w = (struct world){.jobs_max = jobs_max};
    mr_rng_seed(&w->rng, 4711);
    w->jobs = mr_calloc(w->jobs_max, sizeof w->jobs[0]);
    w->readers = mr_calloc(3 * (size_t)w->jobs_max, sizeof w->readers[0]);
    w->deaths = mr_calloc(100 * WORKERS * days, sizeof w->deaths[0]);
    assert_true(w->jobs != NULL && w->readers != NULL && w->deaths != NULL);
    leader_open(&w->leader);
    for (uint32_t i = 0; i < NAMED_DATASETS; i++) {
        register_dataset(w, i);
    }
    for (uint32_t i = 0; i < WORKERS; i++) {
        later(w, i * SECOND, WORKER, i);
    }
    start_endless(w);
    later(w, MINUTE, ARRIVAL, 0);
}

void world_close(struct world *w)
{
    leader_close(&w->leader);
    mr_free(w->jobs);
    mr_free(w->readers);
    mr_free(w->deaths);
    mr_free(w->heap);
}
