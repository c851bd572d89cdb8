/* One task of a worker, around what ships (src/worker/session): the splits on their way from the
 * dispatcher and what of them is finished (splits.h), and the book that says which client gets
 * what (book.h). Modelled are the calls, the engine (an element for each split, a shuffle buffer,
 * time) and, in share.c, the window of a production. */
#include "sim.h"

#include "worker/session/splits.h"

#include <millrace/dataset.h>

/* A stream of a client. */
struct sim_end {
    uint64_t number;
    struct sim_data ask; /* the last one, without elements */
    uint64_t released;   /* this connection, and all before it */
};

/* Splits that were handed out and not taken yet, as `splits` has them, and of which repetition. */
struct sim_handed {
    struct mr_range range;
    uint64_t repetition;
};

void sim_task_drop(struct sim_task *task)
{
    uint64_t busy = task->busy;

    sim_call_cancel(&task->call);
    mr_book_free(task->book);
    mr_round_book_free(task->rounds);
    for (size_t i = 0; i < task->nends; i++) {
        mr_free(task->ends[i]);
    }
    for (size_t i = 0; i < task->nbuffer; i++) {
        mr_block_unref(task->buffer[i]);
    }
    for (size_t i = 0; i < task->nlog; i++) {
        mr_block_unref(task->log[i]);
    }
    for (size_t i = 0; i < SIM_PROVIDERS_MAX; i++) {
        mr_free(task->handed[i]);
    }
    mr_origin_unref(task->origin);
    mr_splits_free(task->source);
    mr_free(task->ends);
    mr_free(task->elements);
    mr_free(task->owners);
    mr_free(task->buffer);
    mr_free(task->log);
    mr_free(task->places);
    mr_window_clear(&task->window);
    memset(task, 0, sizeof *task);
    task->busy = busy + 1;
}

/* ---------------------------------------------------------------- calls */

/* What is finished of each provider; freed with mr_free(). */
struct mr_grant_report *sim_task_reports(const struct sim_task *task, size_t *n)
{
    struct mr_grant_report *reports;

    *n = task->repeats && task->source != NULL ? task->nproviders : 0;
    reports = sim_got(mr_calloc(*n + 1, sizeof *reports));
    for (uint32_t i = 0; i < *n; i++) {
        mr_splits_finished(task->source, i, &reports[i]);
    }
    return reports;
}

/* Give back what the engine has opened, too. */
static void give_back_opened(struct sim_task *task)
{
    for (size_t i = 0; i < task->ask.base.n_given_back && task->work == SIM_WORK_BUSY; i++) {
        Millrace__GivenBackRange *back = task->ask.base.given_back[i];

        if (back->first == task->piece.first + task->piece.count) {
            back->first -= task->piece.count;
            back->count += task->piece.count;
        }
    }
}

/* Before it is sent again: it is to tell of what is finished by then. */
static void refresh(struct sim *sim, struct sim_call *call)
{
    struct sim_task *task = (struct sim_task *)((char *)call - offsetof(struct sim_task, call));
    Millrace__GetSplitsRequest *request;
    struct mr_grant_report *reports;
    Millrace__GrantReport *before;
    size_t n;

    request = millrace__get_splits_request__unpack(NULL, call->size, call->body);
    reports = sim_task_reports(task, &n);
    before = request->report;
    request->report = &reports[task->provider].base;
    if (protobuf_c_message_get_packed_size(&request->base) != call->size) {
        sim_rare(sim, SIM_RARE_REPORT_REPEATED);
    }
    mr_free(call->body);
    call->size = protobuf_c_message_get_packed_size(&request->base);
    call->body = sim_got(mr_malloc(call->size));
    protobuf_c_message_pack(&request->base, call->body);
    request->report = before;
    millrace__get_splits_request__free_unpacked(request, NULL);
    mr_free(reports);
}

static void call_splits(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    Millrace__GetSplitsRequest *request = &task->ask.base;
    size_t n;
    struct mr_grant_report *reports = sim_task_reports(task, &n);

    task->provider = request->provider;
    task->repetition = request->repetition;
    if (sim->bug == SIM_BUG_OPENED_IS_GIVEN_BACK) {
        give_back_opened(task);
    }
    for (size_t i = 0; i < request->n_given_back; i++) {
        sim_view_gave_back(sim, task, request->given_back[i], true);
        sim_rare(sim, SIM_RARE_GAVE_BACK);
    }
    request->incarnation = worker->incarnation;
    request->task_id = task->id;
    request->iteration_id = task->iteration;
    request->want = sim->plain ? 20 : sim_draw(sim, 3) * sim->want;
    request->report = n > 0 ? &reports[request->provider].base : NULL;
    sim_call(sim, &task->call, true, worker->number, MR_COMMAND_GET_SPLITS, &request->base);
    task->call.refresh = task->repeats ? refresh : NULL;
    mr_free(reports);
}

/* If a request is due, and none is under way. */
static void ask_for_splits(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    if (task->call.id == 0 && task->source != NULL &&
        mr_splits_request(task->source, sim->now, &task->ask)) {
        call_splits(sim, worker, task);
    }
}

/* Its sources were cut off, or those of what it reads. */
static bool was_cut(struct sim_worker *worker, const struct sim_task *task)
{
    const struct sim_task *made =
        task->reads ? sim_share_producing(worker, task->production) : task;

    return made != NULL && made->source != NULL && mr_splits_were_cut(made->source);
}

static void say_ended(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;

    task->work = SIM_WORK_ENDING;
    request.incarnation = worker->incarnation;
    request.task_id = task->id;
    request.drained = was_cut(worker, task) && sim->bug != SIM_BUG_DRAINED_IS_ENDED;
    sim_call(sim, &task->call, true, worker->number, MR_COMMAND_TASK_ENDED, &request.base);
}

/* ---------------------------------------------------------------- elements */

/* A block of one row, which is the element's number in the task. */
static mr_block *new_element(struct sim_task *task, const struct sim_element *element)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64};
    mr_block *block;

    sim_must(mr_block_alloc(1, &leaf, 1, &block, NULL));
    MORE(task->owners, task->cap_owners, task->nelements);
    MORE(task->elements, task->cap_elements, task->nelements);
    task->owners[task->nelements] = 0;
    task->elements[task->nelements] = *element;
    *(int64_t *)mr_block_data(block, 0) = (int64_t)task->nelements++;
    return block;
}

static void make_ready(struct sim_task *task, size_t at)
{
    mr_block *block = task->buffer[at];

    task->buffer[at] = task->buffer[--task->nbuffer];
    if (task->producing) {
        MORE(task->log, task->cap_log, task->nlog);
        task->log[task->nlog++] = block;
        sim_share_append(task);
    } else {
        sim_must(mr_book_add(task->book, block, NULL));
    }
}

static void make_element(struct sim *sim, struct sim_task *task, uint64_t split)
{
    mr_block *block =
        new_element(task, &(struct sim_element){task->at_provider, task->piece_repetition, split});

    if (task->origin != NULL && sim->bug != SIM_BUG_FINISHED_IS_READ) {
        sim_must(mr_block_add_origin(&block, task->origin, NULL));
    }
    MORE(task->buffer, task->cap_buffer, task->nbuffer);
    task->buffer[task->nbuffer++] = block;
    if (task->nbuffer > task->buffer_size) {
        make_ready(task, sim->plain ? 0 : (size_t)sim_draw(sim, task->nbuffer));
    }
}

static void flush(struct sim *sim, struct sim_task *task)
{
    while (task->nbuffer > 0) {
        make_ready(task, sim->plain ? 0 : (size_t)sim_draw(sim, task->nbuffer));
    }
}

/* The session that was sent it before it was read again; 0: none was. */
static uint64_t owner_before(const struct sim_task *task, const struct sim_element *element)
{
    size_t i = task->nelements;

    while (i > 0 && memcmp(&task->elements[i - 1], element, sizeof *element) != 0) {
        i--;
    }
    return i > 0 ? task->owners[i - 1] : 0;
}

void sim_task_put(struct sim_task *task, const struct sim_element *element, uint64_t at)
{
    uint64_t owner = owner_before(task, element);

    sim_must(
        mr_book_feed(task->book, (struct mr_part){.block = new_element(task, element)}, at, NULL));
    task->owners[task->nelements - 1] = owner;
}

const struct sim_element *sim_task_logged(const struct sim_task *log, size_t at)
{
    return &log->elements[*(const int64_t *)mr_block_data(log->log[at], 0)];
}

/* Elements that somebody may still ask for. */
static size_t kept(const struct sim_task *task)
{
    struct mr_book_counts counts;

    mr_book_counts(task->book, &counts);
    return (size_t)(counts.buffered_bytes / sizeof(int64_t)) + task->nbuffer;
}

/* ---------------------------------------------------------------- reading */

static void work_done(struct sim *sim, void *arg);

static void be_busy(struct sim *sim, struct sim_worker *worker, struct sim_task *task, int64_t ms)
{
    struct sim_turn done = {worker, task, ++task->busy};

    task->work = SIM_WORK_BUSY;
    sim_later(sim, ms, &worker->process, work_done, &done, sizeof done);
}

/* The pipeline is over. */
static void be_out(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    mr_splits_close(task->source);
    flush(sim, task);
    task->work = SIM_WORK_OUT;
    if (task->producing) {
        sim_share_complete(sim, worker, task);
    } else {
        mr_book_finish(task->book, MR_OK, NULL);
    }
    sim_moment(sim, SIM_MOMENT_READ, worker, NULL);
    sim_task_go_on(sim, worker, task);
}

/* The next of the (provider, repetition) pairs; false after the last. */
static bool advance(struct sim_task *task)
{
    if (++task->at_repetition < task->passes) {
        return true;
    }
    task->at_repetition = 0;
    return ++task->at_provider < task->nproviders;
}

/* The piece that was taken is the first of what was handed out. */
static void note_taken(struct sim_task *task)
{
    struct sim_handed *handed = task->handed[task->at_provider];
    size_t *n = &task->nhanded[task->at_provider];

    MR_ASSERT(*n > 0);
    MR_ASSERT(handed->range.first == task->piece.first);
    task->piece_repetition = handed->repetition;
    handed->range.first += task->piece.count;
    handed->range.count -= task->piece.count;
    if (handed->range.count == 0) {
        memmove(handed, handed + 1, --*n * sizeof *handed);
    }
}

/* The engine has asked for splits: does it get some? */
static void take(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    int rc;

    mr_origin_unref(task->origin);
    task->origin = NULL;
    while ((rc = mr_splits_take(task->source, (uint32_t)task->at_provider, task->at_repetition,
                                &task->piece, &task->origin, NULL)) == MR_END &&
           advance(task)) {
        mr_splits_read_on(task->source, (uint32_t)task->at_provider, task->at_repetition, sim->now);
    }
    task->work = SIM_WORK_SPLITS;
    if (rc == MR_OK) {
        note_taken(task);
        be_busy(sim, worker, task,
                (int64_t)(task->piece.count * (1 + (sim->plain ? 99 : sim_draw(sim, 60)))));
    }
    ask_for_splits(sim, worker, task);
    if (rc == MR_END) {
        be_out(sim, worker, task);
    }
}

static void read_on(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    mr_splits_read_on(task->source, (uint32_t)task->at_provider, task->at_repetition, sim->now);
    take(sim, worker, task);
}

static bool is_poisoned(const struct sim *sim, const struct sim_task *task)
{
    int64_t poison = sim->datasets[task->dataset].poison;

    return poison > 0 && (uint64_t)poison >= task->piece.first &&
           (uint64_t)poison - task->piece.first < task->piece.count;
}

static void work_done(struct sim *sim, void *arg)
{
    const struct sim_turn *done = arg;
    struct sim_task *task = done->task;

    if (task->busy != done->busy || task->work != SIM_WORK_BUSY) {
        return;
    }
    if (!task->dynamic && task->producing) {
        task->work = SIM_WORK_OUT;
        sim_share_complete(sim, done->worker, task);
        return;
    }
    if (!task->dynamic) {
        say_ended(sim, done->worker, task);
        return;
    }
    if (is_poisoned(sim, task)) {
        sim_view_crashed(sim, task->iteration);
        done->worker->process.party->crash(sim, done->worker->number);
        return;
    }
    for (uint64_t k = 0; k < task->piece.count; k++) {
        make_element(sim, task, task->piece.first + k);
    }
    task->work = SIM_WORK_FULL;
    sim_task_go_on(sim, done->worker, task);
}

void sim_task_go_on(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    if (task->rounds != NULL) {
        return; /* it has turns of its own */
    }
    if (task->producing) {
        if (task->work == SIM_WORK_FULL && sim_share_wants_more(sim, worker, task)) {
            read_on(sim, worker, task);
        }
        return;
    }
    if (task->reads && task->work == SIM_WORK_OUT) {
        sim_share_read(sim, worker, task);
        if (sim_share_ends(worker, task)) {
            mr_book_finish(task->book, MR_OK, NULL);
        }
    }
    if (task->work == SIM_WORK_FULL && kept(task) < sim->ahead + task->buffer_size) {
        read_on(sim, worker, task);
    } else if (task->work == SIM_WORK_OUT && mr_book_is_complete(task->book) &&
               task->call.id == 0) {
        say_ended(sim, worker, task);
    }
}

void sim_task_drain(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    if (task->source == NULL) {
        return;
    }
    mr_splits_drain(task->source);
    ask_for_splits(sim, worker, task);
    if (task->work == SIM_WORK_SPLITS) {
        take(sim, worker, task);
    } else if (task->work == SIM_WORK_FULL) {
        read_on(sim, worker, task);
    }
}

/* ---------------------------------------------------------------- answers */

static void note_handed(struct sim_task *task, const Millrace__GetSplitsReply *reply)
{
    struct sim_handed **handed = &task->handed[task->provider];
    size_t *n = &task->nhanded[task->provider];

    *handed = sim_got(mr_reallocarray(*handed, *n + reply->n_ranges + 1, sizeof **handed));
    for (size_t i = 0; i < reply->n_ranges; i++) {
        (*handed)[(*n)++] = (struct sim_handed){
            .range = {.first = reply->ranges[i]->first, .count = reply->ranges[i]->count},
            .repetition = task->repetition + (uint64_t)reply->ahead};
    }
}

static void note_given_back(struct sim *sim, struct sim_task *task, bool keep)
{
    const Millrace__GetSplitsRequest *request = &task->ask.base;

    if (!keep) {
        sim_view_taken_back(sim, task);
        task->nhanded[task->provider] -= request->n_given_back;
        return;
    }
    sim_rare(sim, SIM_RARE_KEPT);
    for (size_t i = 0; i < request->n_given_back; i++) {
        sim_view_gave_back(sim, task, request->given_back[i], false);
    }
}

static void take_answer(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                        const Millrace__GetSplitsReply *reply)
{
    if (task->ask.base.n_given_back > 0) {
        note_given_back(sim, task, reply->keep);
    }
    note_handed(task, reply);
    sim_must(mr_splits_answer(task->source, &task->ask, reply, NULL));
    if (!reply->end) {
        sim_moment(sim, SIM_MOMENT_GRANTED, worker, NULL);
    }
    if (task->work == SIM_WORK_SPLITS) {
        take(sim, worker, task);
    } else {
        ask_for_splits(sim, worker, task);
        sim_task_go_on(sim, worker, task);
    }
}

static void splits_came(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                        const struct sim_call *call, const struct sim_message *message)
{
    Millrace__GetSplitsRequest *request;
    Millrace__GetSplitsReply *reply;

    if (message->error.code == MR_ERANGE) { /* nobody else believes to be this task */
        sim_violation(sim, "worker %d: %s", worker->number, message->error.message);
        return;
    }
    if (message->error.code < 0) {
        mr_splits_fail(task->source, &message->error);
        task->work = SIM_WORK_DONE; /* it is gone: the next update says so */
        return;
    }
    reply = millrace__get_splits_reply__unpack(NULL, message->size, message->body);
    request =
        millrace__get_splits_request__unpack(NULL, message->asked, message->body + message->size);
    if (request->report != NULL) {
        sim_view_finished(sim, task, request->report, message->memory);
    }
    sim_check_grant(sim, task, task->ask.base.seq, reply);
    worker->last_ok = call->began;
    if (call->tries > 1) {
        sim_moment(sim, SIM_MOMENT_REPEATED, worker, NULL);
    }
    take_answer(sim, worker, task, reply);
    millrace__get_splits_request__free_unpacked(request, NULL);
    millrace__get_splits_reply__free_unpacked(reply, NULL);
}

void sim_task_reply(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                    const struct sim_call *call, const struct sim_message *message)
{
    if (message->kind == MR_COMMAND_GET_SPLITS) {
        splits_came(sim, worker, task, call, message);
        return;
    }
    if (message->error.code == MR_OK) {
        sim_check_ended(sim, task);
    }
    task->work = SIM_WORK_DONE;
}

/* ---------------------------------------------------------------- clients */

static struct sim_end *find_end(struct sim_task *task, const char *client)
{
    for (size_t i = 0; i < task->nends; i++) {
        if (strcmp(task->ends[i]->ask.client_id, client) == 0) {
            return task->ends[i];
        }
    }
    MORE(task->ends, task->cap_ends, task->nends);
    struct sim_end *end = sim_got(mr_calloc(1, sizeof *end));

    task->ends[task->nends++] = end;
    end->number = task->nends;
    return end;
}

static struct sim_data *new_reply(const struct sim_data *ask, enum sim_data_status status,
                                  size_t first, size_t n)
{
    struct sim_data *data = sim_got(mr_calloc(1, sizeof *data + n * sizeof data->elements[0]));

    *data = *ask;
    data->reply = true;
    data->status = status;
    data->first = first;
    data->n = n;
    return data;
}

static void answer(struct sim *sim, const struct sim_data *ask, enum sim_data_status status)
{
    struct sim_data *data = new_reply(ask, status, ask->received, 0);

    sim_data_send(sim, data);
    mr_free(data);
}

/* Element @e goes to session @owner. Another one may have had it. */
static void note_owner(struct sim *sim, struct sim_task *task, int64_t e, uint64_t owner)
{
    if (task->owners[e] != 0 && task->owners[e] != owner) {
        sim_rare(sim, SIM_RARE_REDELIVERED);
        sim_view_redelivered(sim, task->iteration, &task->elements[e]);
    }
    task->owners[e] = owner;
}

static void send_message(struct sim *sim, struct sim_task *task, const struct mr_book_message *m)
{
    const struct sim_end *end = m->owner;
    struct sim_data *data = new_reply(&end->ask, SIM_DATA_OK, m->first, m->elements);
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++) {
        mr_block *block = m->parts[i].block;

        for (uint32_t r = 0; r < mr_block_rows(block); r++) {
            int64_t e = ((const int64_t *)mr_block_column(block, 0)->data)[r];

            note_owner(sim, task, e, end->number << 32 | m->number);
            data->elements[n++] = task->elements[e];
        }
    }
    MR_ASSERT(n == data->n);
    sim_data_send(sim, data);
    mr_free(data);
}

static void pump(struct sim *sim, struct sim_task *task)
{
    struct mr_book_message m;

    while (task->book != NULL && mr_book_next(task->book, &m, NULL) == MR_OK) {
        send_message(sim, task, &m);
        mr_book_sent(m.session);
        mr_book_message_free(&m);
    }
}

void sim_task_release(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                      const char *client)
{
    if (task->book != NULL) {
        struct sim_end *end = mr_book_release(task->book, client);

        if (end != NULL) {
            end->released = end->ask.connection;
        }
        pump(sim, task);
    }
    sim_task_go_on(sim, worker, task);
}

/* What a stream says, as a stream of its own that takes the place of the one before. */
static int take_word(const struct sim *sim, struct sim_task *task, struct sim_end *end,
                     mr_error *err)
{
    const struct sim_data *ask = &end->ask;
    bool early = sim->bug == SIM_BUG_FINISHED_IS_RECEIVED ||
                 (task->reads && sim->bug == SIM_BUG_CURSOR_IS_RECEIVED);
    size_t returned = early ? ask->received : ask->returned;
    mr_book_session *session;
    int rc = mr_book_open(task->book, "host", ask->client_id, ask->session, ask->received, end,
                          &session, err);

    if (rc == MR_OK) {
        rc = mr_book_credit(task->book, session, ask->limit, UINT64_MAX, ask->received, returned,
                            err);
    }
    return rc == MR_OK ? mr_book_given(session, returned, err) : rc;
}

static void serve(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                  const struct sim_data *ask)
{
    struct sim_end *end = find_end(task, ask->client_id);
    bool is_new = mr_book_find(task->book, ask->client_id) == NULL;
    mr_error err;

    if (ask->connection < end->ask.connection ||
        (ask->connection == end->ask.connection &&
         (ask->received < end->ask.received || ask->returned < end->ask.returned))) {
        return; /* another one has taken its place */
    }
    end->ask = *ask;
    if (ask->connection <= end->released) {
        answer(sim, ask, SIM_DATA_RELEASED);
        return;
    }
    if (take_word(sim, task, end, &err) < 0) {
        answer(sim, ask, SIM_DATA_OVER);
        return;
    }
    if (is_new && mr_book_was_released(task->book, ask->client_id)) {
        /* It may be attached again, or not know of it: the next list tells. */
        sim_rare(sim, SIM_RARE_RELEASED_BEFORE);
        mr_registration_want_list(&worker->registration);
    }
    if (task->reads) {
        sim_share_read(sim, worker, task);
    }
    answer(sim, ask, SIM_DATA_OK);
    pump(sim, task);
    sim_task_go_on(sim, worker, task);
}

void sim_task_data(struct sim *sim, const struct sim_data *ask)
{
    struct sim_worker *worker = &sim->workers[ask->worker];
    struct sim_task *task = sim_find_task(worker, ask->task);

    if (task != NULL && task->book != NULL) {
        serve(sim, worker, task, ask);
    } else {
        answer(sim, ask, SIM_DATA_MOVED);
    }
}

/* ---------------------------------------------------------------- life */

static void open_book(struct sim_task *task)
{
    struct mr_book_limits limits = {.message_bytes = 4096,
                                    .kept_bytes = 1 << 20,
                                    .sessions = 1000,
                                    .repeats = task->repeats,
                                    .reports_given = task->reads};

    sim_must(mr_book_new(&limits, &task->book, NULL));
}

static void open_source(struct sim_worker *worker, struct sim_task *task)
{
    sim_must(mr_splits_new((uint32_t)task->nproviders, task->repeats, &task->source, NULL));
    if (worker->draining) {
        mr_splits_drain(task->source);
    }
}

static struct sim_task *new_task(struct sim *sim, struct sim_worker *worker,
                                 const Millrace__TaskAssignment *assignment)
{
    struct sim_task *task = NULL;

    for (int i = 0; i < SIM_TASKS_MAX && task == NULL; i++) {
        task = worker->tasks[i].work == SIM_WORK_NONE ? &worker->tasks[i] : NULL;
    }
    MR_ASSERT(task != NULL);
    if (task >= worker->tasks + worker->used) {
        worker->used = (int)(task - worker->tasks) + 1;
    }
    snprintf(task->id, sizeof task->id, "%s", assignment->task_id);
    snprintf(task->iteration, sizeof task->iteration, "%s", assignment->iteration_id);
    task->dynamic = assignment->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
    task->repeats = assignment->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    task->nproviders = assignment->n_providers;
    task->dataset = sim_dataset_of(sim, assignment->dataset_id);
    task->passes = sim->datasets[task->dataset].passes;
    return task;
}

void sim_task_begin(struct sim *sim, struct sim_worker *worker,
                    const Millrace__TaskAssignment *assignment)
{
    struct sim_task *task = new_task(sim, worker, assignment);

    if (task->dynamic && !task->repeats && sim_is_recovery(task->id)) {
        sim_rare(sim, SIM_RARE_RECOVERY_MOST);
    }
    if (assignment->rounds != NULL) {
        sim_rounds_assign(sim, worker, task, assignment->rounds);
        return;
    }
    if (assignment->production[0] != '\0') {
        sim_share_begin(sim, task, assignment);
    }
    if (!task->producing) {
        open_book(task);
    }
    if (task->reads) {
        mr_reading_init(&task->reading, task->book, task->joining);
        task->work = SIM_WORK_OUT;
        return;
    }
    task->buffer_size = sim->plain ? sim->buffer_size : (size_t)sim_draw(sim, 3) * 5;
    if (!task->dynamic) {
        be_busy(sim, worker, task, sim->plain ? 1000 : (int64_t)(50 + sim_draw(sim, 3000)));
        return;
    }
    open_source(worker, task);
    task->work = SIM_WORK_FULL;
    if (!task->producing) { /* which waits until somebody reads */
        read_on(sim, worker, task);
    }
}
