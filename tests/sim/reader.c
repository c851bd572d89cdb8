/* What runs a client's read (src/client/read): its lines to workers, and the application that takes
 * elements one by one. A line is a stream over a network that loses messages: what was written last
 * is asked until it is answered, and a line that is silent for long breaks. */
#include "sim.h"

#include "client/modes/plain.h"

#define TURN_MS 100
#define ROUNDS_TURN_MS 20
#define BREAK_MS 300 /* asked in vain for so long */
#define NUMBERS 3    /* of an element */

/* ---------------------------------------------------------------- the port of a read */

static struct sim_client *client_of(const struct mr_read *r)
{
    return (struct sim_client *)((char *)(uintptr_t)r - offsetof(struct sim_client, read));
}

static int find_worker(const struct sim *sim, const char *incarnation)
{
    for (int i = 0; i < sim->nworkers; i++) {
        if (sim->workers[i].process.alive &&
            strcmp(sim->workers[i].incarnation, incarnation) == 0) {
            return i;
        }
    }
    return -1; /* refused, or another process */
}

static int connect_line(struct mr_read_task *t, mr_error *err)
{
    struct sim_line *line = t->line != NULL ? t->line : sim_got(mr_calloc(1, sizeof *line));
    struct sim_client *client = client_of(t->read);

    sim_line_clear(line);
    *line = (struct sim_line){.connection = ++client->sim->connections};
    t->line = line;
    if (client->plan.consumers > 0) {
        sim_rounds_connect(client->sim, line, find_worker(client->sim, t->incarnation));
    }
    return MR_OK;
}

static bool write_line(struct mr_read_task *t, const uint8_t *bytes, size_t size)
{
    struct sim_line *line = t->line;
    Millrace__ReadRequest *req = millrace__read_request__unpack(NULL, size, bytes);

    line->session = req->open != NULL ? req->open->session : line->session;
    line->received = req->received_elements;
    line->returned = req->returned_elements;
    line->limit = req->limit_elements;
    line->written = true;
    if (line->number != 0) {
        sim_rounds_write(client_of(t->read)->sim, client_of(t->read), line, req);
    }
    millrace__read_request__free_unpacked(req, NULL);
    return true;
}

static void cut_line(struct mr_read_task *t)
{
    struct sim_line *line = t->line;

    line->cut = true;
}

static bool nothing_is_short(const struct mr_read *r)
{
    return false;
}

static uint64_t learned(const struct mr_read *r, char *cluster, char *incarnation)
{
    cluster[0] = incarnation[0] = '\0';
    return client_of(r)->epoch;
}

static bool trouble(const struct mr_read *r, char *why, size_t size)
{
    return false;
}

static void lost(struct mr_read *r, const struct mr_losses *more)
{
}

static void skipped(struct mr_read *r, uint64_t n)
{
}

static void no_log(enum mr_log_level level, const char *msg, ...)
{
}

const struct mr_read_port sim_reader_port = {
    .connect = connect_line,
    .send = write_line,
    .cut = cut_line,
    .is_memory_short = nothing_is_short,
    .learned = learned,
    .trouble = trouble,
    .lost = lost,
    .skipped = skipped,
    .ignored = skipped,
    .log = no_log,
};

/* ---------------------------------------------------------------- lines */

static void end_line(struct mr_read_task *t, int code, const char *why)
{
    struct sim_line *line = t->line;
    mr_error err;

    line->cut = false;
    (void)mr_error_set(&err, code < 0 ? code : MR_EUNAVAIL, "%s", why);
    mr_read_ended(t, code, &err);
}

static void free_line(void *line)
{
    if (line != NULL) {
        sim_line_clear(line);
        mr_free(line);
    }
}

void sim_reader_reset(struct sim_client *client)
{
    struct mr_read_task *t;

    if (client->has_read) {
        TAILQ_FOREACH(t, &client->read.tasks, link) {
            free_line(t->line);
        }
        mr_read_clear(&client->read);
    }
    client->has_read = client->ended = client->releasing = client->unwatched = false;
}

static void ask(struct sim *sim, struct sim_client *client, struct mr_read_task *t)
{
    struct sim_line *line = t->line;
    struct sim_data data = {.client = client->number,
                            .client_life = client->process.life,
                            .worker = find_worker(sim, t->incarnation),
                            .connection = line->connection,
                            .session = line->session,
                            .received = line->received,
                            .returned = line->returned,
                            .limit = line->limit};

    line->written = false;
    if (line->silent_since == 0) {
        line->silent_since = sim->now;
    }
    if (data.worker >= 0) {
        data.worker_life = sim->workers[data.worker].process.life;
        snprintf(data.task, sizeof data.task, "%s", t->id);
        snprintf(data.client_id, sizeof data.client_id, "%s", client->id);
        sim_data_send(sim, &data);
    }
    if (sim->now - line->silent_since > BREAK_MS) {
        end_line(t, MR_EUNAVAIL, "no answer");
    }
}

void sim_reader_tidy(struct sim *sim, struct sim_client *client)
{
    struct mr_read_task *t;
    void *idle;

    TAILQ_FOREACH(t, &client->read.tasks, link) {
        const struct sim_line *line = t->line;

        if (t->streams && line->cut) {
            end_line(t, MR_ECANCELED, "cut");
        } else if (t->streams && line->number != 0 && sim_rounds_broke(sim, line)) {
            end_line(t, MR_EUNAVAIL, "broken");
        } else if (t->streams && line->number != 0 && t->sending) {
            mr_read_sent(t);
        } else if (t->streams && line->written && client->plan.dynamic) {
            ask(sim, client, t);
        }
    }
    while (client->read.litter) {
        if (mr_read_collect(&client->read, &idle, 1) > 0) {
            free_line(idle);
        }
    }
}

static mr_block *pack(const struct sim_data *data)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64, .rank = 1, .dims = {NUMBERS}};
    mr_block *block = NULL;

    sim_must(mr_block_alloc((uint32_t)data->n, &leaf, 1, &block, NULL));
    int64_t *numbers = mr_block_data(block, 0);
    for (size_t i = 0; i < data->n; i++) {
        const struct sim_element *e = &data->elements[i];

        numbers[NUMBERS * i] = (int64_t)e->provider;
        numbers[NUMBERS * i + 1] = (int64_t)e->repetition;
        numbers[NUMBERS * i + 2] = (int64_t)e->split;
    }
    return block;
}

static void read_message(struct mr_read_task *t, const struct sim_data *data)
{
    static const int codes[] = {
        [SIM_DATA_OK] = MR_OK, [SIM_DATA_MOVED] = MR_EUNAVAIL, [SIM_DATA_OVER] = MR_EABORTED};
    Millrace__ReadHeader h = MILLRACE__READ_HEADER__INIT;
    mr_block *block = data->n > 0 ? pack(data) : NULL;
    struct mr_frame_content content = {.header = &h, .blocks = &block, .n = data->n > 0 ? 1 : 0};

    h.worker_incarnation = t->incarnation;
    h.task_id = t->id;
    h.attempt = t->attempt;
    h.session = data->session;
    h.first_element = data->first;
    h.code = codes[data->status];
    if (t->sending) {
        mr_read_sent(t);
    }
    (void)mr_read_message(t, &content);
    mr_block_unref(block);
    if (data->status != SIM_DATA_OK) {
        end_line(t, MR_OK, "");
    }
}

void sim_reader_data(struct sim *sim, const struct sim_data *data)
{
    struct sim_client *client = &sim->clients[data->client];
    struct mr_read_task *t;

    if (!client->has_read || strcmp(data->client_id, client->id) != 0) {
        return;
    }
    client->read.now_ms = sim->now + 1;
    TAILQ_FOREACH(t, &client->read.tasks, link) {
        struct sim_line *line = t->line;

        if (!t->streams || line->cut || strcmp(t->id, data->task) != 0 ||
            data->connection != line->connection) {
            continue;
        }
        line->silent_since = 0;
        if (data->status == SIM_DATA_OVER) {
            sim_rare(sim, SIM_RARE_SESSION_OVER);
        }
        if (data->n > 0) {
            sim_moment(sim, SIM_MOMENT_RECEIVED, &sim->workers[data->worker], client);
        }
        if (data->status == SIM_DATA_RELEASED) {
            end_line(t, MR_ECANCELED, "released");
        } else {
            read_message(t, data);
        }
        break;
    }
    sim_client_run(sim, client);
}

/* ---------------------------------------------------------------- the application */

/* All that came was taken. */
static bool is_empty(const struct sim_client *client)
{
    const struct mr_read_task *t;

    TAILQ_FOREACH(t, &client->read.tasks, link) {
        if (mr_plain_task_of(t)->session.queue.count > 0) {
            return false;
        }
    }
    return true;
}

/* False: it has none for it, or has ended. */
static bool take_one(struct sim *sim, struct sim_client *client)
{
    struct mr_read_taken taken;
    mr_error err;

    mr_read_ask(&client->read);
    int rc = mr_read_take(&client->read, 1, &taken, &err);
    if (rc == MR_OK) {
        const int64_t *numbers = mr_block_column(taken.block, 0)->data;
        struct sim_element e = {.provider = (size_t)numbers[0],
                                .repetition = (uint64_t)numbers[1],
                                .split = (uint64_t)numbers[2]};

        sim_view_returned(sim, client->iteration, &e);
        mr_block_unref(taken.block);
        return true;
    }
    if (rc == MR_TIMEOUT) {
        (void)mr_read_hungry(&client->read);
    } else if (rc == MR_END || client->read.end_err.code < 0) { /* it, or its iteration, is over */
        client->ended = true;
        sim_client_drained(sim, client);
    } else {
        sim_violation(sim, "client %d: %s", client->number, err.message);
    }
    return false;
}

/* Who has taken everything, and is told that this is the end, hears of it at once. */
static void look_for_end(struct sim *sim, struct sim_client *client)
{
    if (client->has_read && client->read.finished && !client->ended &&
        client->plan.consumers == 0 && is_empty(client)) {
        (void)take_one(sim, client);
    }
}

static void turn(struct sim *sim, void *arg)
{
    struct sim_client *client = arg;
    struct mr_read_task *t;
    size_t n = sim->plain ? (client->plan.slow ? 0 : 4)
                          : (size_t)sim_draw(sim, client->plan.slow ? 2 : sim->appetite);

    client->coming = false;
    if (!client->has_read || client->ended) {
        return;
    }
    client->read.now_ms = sim->now + 1;
    if (sim_chance(sim, sim->faults.busy_percent) ||
        (sim_is_stranding(sim) && sim_chance(sim, 90))) {
        n = 0;
    }
    while (n > 0 && client->plan.consumers > 0 && sim_rounds_take(sim, client)) {
        n--;
    }
    while (n > 0 && client->plan.consumers == 0 && take_one(sim, client)) {
        n--;
    }
    look_for_end(sim, client);
    TAILQ_FOREACH(t, &client->read.tasks, link) {
        if (t->streams && client->plan.consumers == 0 && !((const struct sim_line *)t->line)->cut) {
            ask(sim, client, t);
        }
    }
    sim_client_run(sim, client);
}

void sim_reader_come(struct sim *sim, struct sim_client *client)
{
    look_for_end(sim, client);
    int64_t pace = client->plan.consumers > 0 ? ROUNDS_TURN_MS : TURN_MS;

    if (client->has_read && !client->ended && !client->coming &&
        (client->plan.dynamic || client->plan.consumers > 0)) {
        client->coming = true;
        sim_after(sim, sim->plain ? pace : pace / 2 + (int64_t)sim_draw(sim, (uint64_t)pace),
                  &client->process, turn, client, false);
    }
}
