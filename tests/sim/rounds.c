/* Coordinated reads: consumers that read in step, and the tasks that take turns for them. What
 * ships is the worker's book of rounds (src/worker/session/round_book.c) and the consumer's read
 * (src/client/modes/coordinated.c). Modelled are the connections between them, the pipeline, whose
 * groups follow from their ordinal, and the application. rounds_job.c starts them. */
#include "rounds.h"

#include "base/hash.h"
#include "client/modes/coordinated.h"

#include <stdlib.h>

#define NUMBERS 2 /* of an element: its group */
#define TICK_MS 12
#define MESSAGE_ROUNDS 4
/* One task of so many takes so long, at most, until it begins: its rounds are waited for, those of
 * others are far ahead. */
#define SLOW_STARTS 4
#define SLOW_START_MS 2000

struct sim_packet {
    STAILQ_ENTRY(sim_packet) link;
    bool refusal;
    uint64_t ordinals[MESSAGE_ROUNDS];
    size_t size;
    uint8_t bytes[];
};

/* ---------------------------------------------------------------- connections */

void sim_line_clear(struct sim_line *line)
{
    struct sim_packet *packet;

    for (int way = 0; way < 2; way++) {
        while ((packet = STAILQ_FIRST(&line->packets[way])) != NULL) {
            STAILQ_REMOVE_HEAD(&line->packets[way], link);
            mr_free(packet);
        }
    }
}

/* Something comes next on the line of this number, unless it is gone by then. */
struct arrival {
    int client;
    uint64_t line;
    bool at_worker;
};

static struct mr_read_task *find_line(struct sim_client *client, uint64_t number)
{
    struct mr_read_task *t;

    if (client->has_read) {
        TAILQ_FOREACH(t, &client->read.tasks, link) {
            const struct sim_line *line = t->line;

            if (t->streams && line != NULL && line->number == number && !line->broken) {
                return t;
            }
        }
    }
    return NULL;
}

static void arrived(struct sim *sim, void *arg);

static void send_packet(struct sim *sim, struct sim_client *client, struct sim_line *line,
                        bool to_worker, struct sim_packet *packet)
{
    int worker = SIM_NODE_WORKER(line->worker), node = SIM_NODE_CLIENT(client->number);
    struct arrival arrival = {client->number, line->number, to_worker};

    STAILQ_INSERT_TAIL(&line->packets[to_worker], packet, link);
    if ((to_worker ? sim_is_cut(sim, node, worker) : sim_is_cut(sim, worker, node)) ||
        sim_draw(sim, 1000) < sim->faults.loss_percent) {
        line->broken = true;
    }
    sim_later(sim, sim_delay(sim),
              to_worker ? &sim->workers[line->worker].process : &client->process, arrived, &arrival,
              sizeof arrival);
}

static struct sim_packet *pack(const ProtobufCMessage *message)
{
    size_t size = message != NULL ? protobuf_c_message_get_packed_size(message) : 0;
    struct sim_packet *packet = sim_got(mr_calloc(1, sizeof *packet + size));

    packet->size = size;
    packet->refusal = message == NULL;
    if (message != NULL) {
        protobuf_c_message_pack(message, packet->bytes);
    }
    return packet;
}

void sim_rounds_connect(struct sim *sim, struct sim_line *line, int worker)
{
    line->number = ++sim->calls;
    line->worker = worker;
    line->worker_life = worker >= 0 ? sim->workers[worker].process.life : 0;
    line->broken = worker < 0;
    STAILQ_INIT(&line->packets[0]);
    STAILQ_INIT(&line->packets[1]);
}

void sim_rounds_write(struct sim *sim, struct sim_client *client, struct sim_line *line,
                      const Millrace__ReadRequest *request)
{
    if (!line->broken) {
        send_packet(sim, client, line, true, pack(&request->base));
    }
}

bool sim_rounds_broke(const struct sim *sim, const struct sim_line *line)
{
    return line->broken || sim->workers[line->worker].process.life != line->worker_life;
}

/* ---------------------------------------------------------------- the worker's side */

static void refuse(struct sim *sim, struct sim_client *client, struct sim_line *line)
{
    line->opened = false;
    send_packet(sim, client, line, false, pack(NULL));
}

static void crash(struct sim *sim, void *arg)
{
    struct sim_worker *worker = arg;

    if (worker->process.alive) {
        worker->process.party->crash(sim, worker->number);
    }
}

/* A consumer that has just begun, in a place where another process was, hears nothing of a worker,
 * and that one dies. */
static void lose_another(struct sim *sim, const struct sim_client *client, int worker)
{
    int other = (int)sim_draw(sim, (uint64_t)sim->nworkers);

    if (other != worker && sim->faults.pace_ms > 0 &&
        sim_chance(sim, sim->rounds.company_percent)) {
        int a = SIM_NODE_WORKER(other), b = SIM_NODE_CLIENT(client->number);

        sim->cut_until[a][b] = sim->cut_until[b][a] = sim->now + 500;
        sim_after(sim, (int64_t)sim_draw(sim, 400), NULL, crash, &sim->workers[other], false);
    }
}

static void open_stream(struct sim *sim, struct sim_client *client, struct sim_task *task,
                        struct sim_line *line, Millrace__RoundOpen *open)
{
    mr_error err;

    open->session = sim->bug == SIM_BUG_ROUNDS_NO_FENCE ? 1 : open->session;
    line->stream = ++task->streams;
    int rc = mr_round_book_open(task->rounds, open, line->stream, &err);

    line->opened = rc == MR_OK;
    if (line->opened) {
        task->limits[client->plan.seat] = 0;
        if (open->session > 1) {
            lose_another(sim, client, line->worker);
        }
        return;
    }
    if (rc == MR_EPRECOND) {
        sim_rare(sim, SIM_RARE_ROUNDS_ZOMBIE_REFUSED);
    } else if (rc == MR_EINVAL) {
        sim_violation(sim, "%s: an honest consumer is refused: %s", task->id, err.message);
    }
    refuse(sim, client, line);
}

static void take_request(struct sim *sim, struct sim_client *client, struct sim_task *task,
                         struct sim_line *line, const Millrace__ReadRequest *request)
{
    uint32_t seat = client->plan.seat;
    mr_error err;

    if (request->open != NULL) {
        open_stream(sim, client, task, line, request->open->rounds);
    }
    if (!line->opened) {
        return;
    }
    if (mr_round_book_is_current(task->rounds, seat, line->stream)) {
        task->limits[seat] = request->limit_round;
    }
    if (mr_round_book_tell(task->rounds, seat, line->stream, request->limit_round,
                           request->received_below,
                           sim->bug == SIM_BUG_ROUNDS_RECEIPT_IS_RETURNED ? request->received_below
                                                                          : request->returned_below,
                           &err) < 0) {
        sim_violation(sim, "%s: an honest consumer is refused: %s", task->id, err.message);
    }
}

static void send_rounds(struct sim *sim, struct sim_client *client, struct sim_task *task,
                        struct sim_line *line)
{
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;
    uint64_t rounds[MESSAGE_ROUNDS], ordinals[MESSAGE_ROUNDS];
    size_t max = 1 + sim_draw(sim, MESSAGE_ROUNDS);
    uint32_t seat = client->plan.seat;
    struct sim_packet *packet;
    struct mr_round next;

    while (header.n_rounds < max && mr_round_book_next(task->rounds, seat, &next)) {
        if (next.ordinal < mr_round_book_kept(task->rounds).ordinal) {
            sim_violation(sim, "%s: a group is sent that was dropped", task->id);
        }
        rounds[header.n_rounds] = next.round;
        ordinals[header.n_rounds++] = next.ordinal;
        mr_round_book_sent(task->rounds, seat, next.round);
    }
    if (header.n_rounds == 0 && !mr_round_book_has_news(task->rounds, seat)) {
        return;
    }
    header.rounds = rounds;
    mr_round_book_header(task->rounds, seat, &header);
    if (sim->bug == SIM_BUG_ROUNDS_COMPLETE_SKIPPED) {
        header.complete_below = UINT64_MAX;
    }
    packet = pack(&header.base);
    memcpy(packet->ordinals, ordinals, header.n_rounds * sizeof ordinals[0]);
    send_packet(sim, client, line, false, packet);
}

/* Somebody has room for it, or the pipeline is ahead of them all. */
static bool is_wanted(const struct sim *sim, const struct sim_task *task, uint64_t round)
{
    for (uint32_t i = 0; i < sim->rounds.consumers; i++) {
        if (sim->rounds.eager || round < task->limits[i]) {
            return true;
        }
    }
    return false;
}

static void produce(struct sim *sim, struct sim_task *task)
{
    struct mr_round round;

    for (int i = 0; i < MESSAGE_ROUNDS && sim->now >= task->starts_at && !task->complete &&
                    mr_round_book_may_fix(task->rounds, &round) &&
                    is_wanted(sim, task, round.round) && sim_chance(sim, 50);
         i++) {
        if (sim->rounds.groups > 0 && task->fixed == sim->rounds.groups) {
            task->complete = true;
            task->end_round = round.round;
            mr_round_book_end(task->rounds);
            return;
        }
        if (round.ordinal != task->fixed) {
            sim_violation(sim, "%s: group %llu is fixed as another one", task->id,
                          (unsigned long long)task->fixed);
        }
        task->fixed++;
        mr_round_book_fix(task->rounds);
    }
}

static bool is_of(const struct sim_worker *worker, const struct sim_task *task,
                  const struct mr_read_task *t)
{
    const struct sim_line *line = t->line;

    return t->streams && line != NULL && !line->broken && line->opened &&
           line->worker == worker->number && line->worker_life == worker->process.life &&
           strcmp(t->id, task->id) == 0;
}

static void say_over(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;
    bool over = mr_round_book_over(task->rounds, &request.end_round);

    if (sim->bug == SIM_BUG_ROUNDS_END_UNSEEN && !over) {
        over = task->complete;
        request.end_round = task->end_round;
    }
    if (over && task->work == SIM_WORK_OUT && task->call.id == 0) {
        task->work = SIM_WORK_ENDING;
        request.incarnation = worker->incarnation;
        request.task_id = task->id;
        sim_call(sim, &task->call, true, worker->number, MR_COMMAND_TASK_ENDED, &request.base);
    }
}

static void pump(struct sim *sim, struct sim_worker *worker, struct sim_task *task)
{
    struct mr_read_task *t;

    produce(sim, task);
    for (int i = 0; i < sim->nclients; i++) {
        struct sim_client *client = &sim->clients[i];

        if (!client->has_read) {
            continue;
        }
        TAILQ_FOREACH(t, &client->read.tasks, link) {
            struct sim_line *line = t->line;

            if (!is_of(worker, task, t)) {
                continue;
            }
            if (mr_round_book_is_current(task->rounds, client->plan.seat, line->stream)) {
                send_rounds(sim, client, task, line);
            } else {
                refuse(sim, client, line); /* another process has taken the place */
            }
        }
    }
    say_over(sim, worker, task);
}

static void tick(struct sim *sim, void *arg)
{
    const struct sim_turn *tick_of = arg;
    struct sim_task *task = tick_of->task;

    if (task->busy == tick_of->busy && task->rounds != NULL) {
        pump(sim, tick_of->worker, task);
        sim_later(sim, 1 + (int64_t)sim_draw(sim, TICK_MS), &tick_of->worker->process, tick,
                  tick_of, sizeof *tick_of);
    }
}

void sim_rounds_assign(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                       Millrace__RoundAssignment *rounds)
{
    bool is_new = task->rounds == NULL;
    mr_error err;

    for (size_t i = 0; i < rounds->n_sessions && sim->bug == SIM_BUG_ROUNDS_NO_FENCE; i++) {
        rounds->sessions[i] = rounds->sessions[i] > 0 ? 1 : 0;
    }
    int rc = is_new ? mr_round_book_new(rounds, sim->rounds.keep, &task->rounds, &err)
                    : mr_round_book_assign(task->rounds, rounds, &err);
    if (rc < 0) {
        sim_violation(sim, "an assignment: %s", err.message);
    } else if (is_new) {
        struct sim_turn first = {worker, task, ++task->busy};

        task->work = SIM_WORK_OUT;
        if (sim_draw(sim, SLOW_STARTS) == 0) {
            task->starts_at = sim->now + (int64_t)sim_draw(sim, SLOW_START_MS);
        }
        tick(sim, &first);
    }
}

/* ---------------------------------------------------------------- the consumer's side */

static void take_elements(struct sim *sim, struct mr_read_task *t, const struct sim_packet *packet)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64, .rank = 1, .dims = {NUMBERS}};
    Millrace__ReadHeader h = MILLRACE__READ_HEADER__INIT;
    mr_block *block = NULL;
    struct mr_frame_content content = {.header = &h, .blocks = &block};
    const mr_client_rounds *rounds = mr_coordinated_rounds(t->read);
    uint64_t before = mr_client_rounds_first(rounds);

    h.rounds = millrace__round_header__unpack(NULL, packet->size, packet->bytes);
    if (sim->bug == SIM_BUG_ROUNDS_NO_BARRIER) {
        h.rounds->complete_before = 0;
    }
    h.worker_incarnation = t->incarnation;
    h.task_id = t->id;
    h.attempt = t->attempt;
    h.session = t->session;
    content.n = h.rounds->n_rounds > 0 ? 1 : 0;
    if (content.n > 0) {
        sim_must(mr_block_alloc((uint32_t)h.rounds->n_rounds, &leaf, 1, &block, NULL));
        int64_t *numbers = mr_block_data(block, 0);
        for (size_t i = 0; i < h.rounds->n_rounds; i++) {
            numbers[NUMBERS * i] = (int64_t)mr_hash64(t->id, strlen(t->id));
            numbers[NUMBERS * i + 1] = (int64_t)packet->ordinals[i];
        }
    }
    (void)mr_read_message(t, &content);
    if (mr_client_rounds_first(rounds) != before) {
        sim_rare(sim, SIM_RARE_ROUNDS_BEGAN_BEHIND);
    }
    mr_block_unref(block);
    millrace__round_header__free_unpacked(h.rounds, NULL);
}

static void at_consumer(struct sim *sim, struct sim_client *client, struct mr_read_task *t,
                        const struct sim_packet *packet)
{
    struct sim_line *line = t->line;

    client->read.now_ms = sim->now + 1;
    if (t->sending) {
        mr_read_sent(t);
    }
    if (packet->refusal) {
        line->broken = true;
    } else {
        take_elements(sim, t, packet);
    }
    sim->rounds.run(sim, client);
}

static void at_worker(struct sim *sim, struct sim_client *client, struct mr_read_task *t,
                      const struct sim_packet *packet)
{
    struct sim_line *line = t->line;
    struct sim_worker *worker = &sim->workers[line->worker];
    Millrace__ReadRequest *request =
        millrace__read_request__unpack(NULL, packet->size, packet->bytes);
    struct sim_task *task = sim_find_task(worker, t->id);

    if (task != NULL && task->rounds != NULL) {
        take_request(sim, client, task, line, request);
        pump(sim, worker, task);
    } else {
        refuse(sim, client, line);
    }
    millrace__read_request__free_unpacked(request, NULL);
}

static void arrived(struct sim *sim, void *arg)
{
    const struct arrival *a = arg;
    struct sim_client *client = &sim->clients[a->client];
    struct mr_read_task *t = find_line(client, a->line);
    struct sim_packet *packet;

    if (t == NULL) {
        return;
    }
    struct sim_line *line = t->line;

    packet = STAILQ_FIRST(&line->packets[a->at_worker]);
    STAILQ_REMOVE_HEAD(&line->packets[a->at_worker], link);
    (a->at_worker ? at_worker : at_consumer)(sim, client, t, packet);
    mr_free(packet);
}

/* ---------------------------------------------------------------- bugs of a consumer */

/* Keep for the report what is closing, and hide it from the consumer's own judgement. */
void sim_rounds_spoil_update(const struct sim *sim, struct sim_client *client,
                             Millrace__RoundsUpdate *rounds)
{
    if (sim->bug == SIM_BUG_ROUNDS_HORIZON_IGNORED) {
        rounds->horizon += 1000;
    }
    if (sim->bug != SIM_BUG_ROUNDS_NO_PROMISE) {
        return;
    }
    client->ndoubts = 0;
    for (size_t i = 0; i < rounds->n_closing; i++) {
        if (client->ndoubts < SIM_DOUBTS_MAX) {
            snprintf(client->doubts[client->ndoubts++], sizeof client->doubts[0], "%s",
                     rounds->closing[i]);
        }
        free(rounds->closing[i]);
    }
    rounds->n_closing = 0;
}

/* Report what is closing as if it had been promised. */
void sim_rounds_spoil_report(const struct sim_client *client, Millrace__ConsumerReport *report)
{
    if (report == NULL || client->ndoubts == 0) {
        return;
    }
    report->closing =
        realloc(report->closing, (report->n_closing + client->ndoubts) * sizeof *report->closing);
    for (size_t i = 0; i < client->ndoubts; i++) {
        Millrace__ClosingReport *closing = malloc(sizeof *closing);

        millrace__closing_report__init(closing);
        closing->task_id = strdup(client->doubts[i]);
        report->closing[report->n_closing++] = closing;
    }
}

/* ---------------------------------------------------------------- the application */

static uint64_t process_of(const struct sim_client *client)
{
    return client->process.life << 8 | (uint64_t)client->number;
}

/* False: it has none for it, or has ended. */
bool sim_rounds_take(struct sim *sim, struct sim_client *client)
{
    struct mr_read_taken taken;
    mr_error err;

    if (client->failed) {
        return false;
    }
    mr_read_ask(&client->read);
    int rc = mr_read_take(&client->read, 1, &taken, &err);
    if (rc == MR_TIMEOUT) {
        (void)mr_read_hungry(&client->read);
    } else if (rc == MR_END) {
        client->ended = true;
        judge_ended(sim->rounds.judge, client->plan.seat, process_of(client));
        sim_say(sim, "client %d: all rounds are read", client->number);
    } else if (rc == MR_EDATALOSS) { /* a round in the middle: never */
        sim_violation(sim, "consumer %u: %s", client->plan.seat, err.message);
    } else if (rc < 0) {
        sim_say(sim, "client %d: %s", client->number, err.message);
        client->failed = true;
        client->failure = err;
        sim_after(sim, (int64_t)sim_draw(sim, 500), &client->process, sim->rounds.failed, client,
                  false);
    }
    if (rc != MR_OK) {
        return false;
    }
    const int64_t *numbers = mr_block_column(taken.block, 0)->data;
    struct group group = {(uint64_t)numbers[0], (uint64_t)numbers[1]};

    mr_block_unref(taken.block);
    sim_say(sim, "client %d, consumer %u: round %llu", client->number, client->plan.seat,
            (unsigned long long)taken.round);
    judge_returned(sim->rounds.judge, client->plan.seat, process_of(client), taken.round, group,
                   client->plan.seat);
    if (judge_verdict(sim->rounds.judge) != NULL) {
        sim_violation(sim, "%s", judge_verdict(sim->rounds.judge));
    }
    return true;
}

/* ---------------------------------------------------------------- what is committed */

/* "consumers/<iteration>/<index>": from this moment on the place is that process's, whether or not
 * it hears of it. */
void sim_rounds_placed(struct sim *sim, const char *key, const char *value)
{
    Millrace__ConsumerRecord *record =
        sim_parse(sim, &millrace__consumer_record__descriptor, key, value);
    uint64_t process = UINT64_MAX;

    for (int i = 0; record != NULL && i < sim->nclients; i++) {
        if (strcmp(sim->clients[i].id, record->client) == 0) {
            process = process_of(&sim->clients[i]);
        }
    }
    if (record != NULL && sim->rounds.judge != NULL) {
        judge_placed(sim->rounds.judge, (uint32_t)atoi(strrchr(key, '/') + 1), process);
        millrace__consumer_record__free_unpacked(record, NULL);
    }
}

static void note_closing(void *ctx, const char *key, const char *value, size_t size)
{
    char *text = mr_strndup(value, size);
    bool *closing = ctx;

    *closing = *closing || strstr(text, "\"lost\"") != NULL;
    mr_free(text);
}

bool sim_rounds_are_closing(const struct sim *sim)
{
    bool closing = false;

    sim_store_each(sim, "workers/", note_closing, &closing);
    return closing;
}

/* A leader has taken over. */
void sim_rounds_term(struct sim *sim)
{
    if (sim->rounds.consumers > 0 && sim_rounds_are_closing(sim)) {
        sim_rare(sim, SIM_RARE_ROUNDS_CLOSING_TAKEOVER);
    }
}

bool sim_rounds_progressed(const struct sim *sim, const uint64_t *before, uint64_t n)
{
    for (uint32_t i = 0; i < sim->rounds.consumers; i++) {
        if (judge_rounds(sim->rounds.judge, i) < before[i] + n) {
            return false;
        }
    }
    return true;
}
