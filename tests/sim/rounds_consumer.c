/*
 * A process that has a consumer's place, or believes so: an application that takes what its read
 * gives (src/client/read). What the read asks of dispatchers is repeated until it is answered, and
 * its streams are of this world.
 */
#include "rounds_world.h"

#include "base/error.h"
#include "client/modes/coordinated.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DOUBTS_MAX 16
#define NUMBERS 2 /* of an element: its group */

struct consumer {
    uint32_t number, seat;
    struct world *world;
    struct mr_read read;
    bool dead, ended, said_end;
    ProtobufCMessage *pending; /* the call that waits for an answer */
    enum call pending_call;
    int64_t call_at; /* it is made again */
    bool watching;   /* the read wants a watch; an update came of it: version is not 0 */
    uint64_t version;
    int64_t watch_at, run_at, paused_until;
    struct letters updates, answers;
    struct streams streams;
    char doubts[DOUBTS_MAX][TASK_SIZE]; /* a bug */
    size_t ndoubts;
    int failed;
    mr_error failure;
};

const char *consumer_id(uint32_t number)
{
    static char ids[8][33];
    static unsigned next;
    char *id = ids[next++ % 8];

    snprintf(id, 33, "%032x", 0xc0000u + number);
    return id;
}

uint32_t consumer_seat(const struct consumer *c)
{
    return c->seat;
}

bool consumer_has_failed(const struct consumer *c)
{
    return c->failed < 0;
}

bool consumer_is_dead(const struct consumer *c)
{
    return c->dead;
}

const char *consumer_why(const struct consumer *c)
{
    return c->failed < 0 ? c->failure.message : c->read.attached ? "reads" : "opens";
}

uint64_t consumer_position(const struct consumer *c)
{
    const mr_client_rounds *rounds = mr_coordinated_rounds(&c->read);

    return rounds != NULL ? mr_client_rounds_position(rounds) : 0;
}

uint64_t consumer_next_best(const struct consumer *c)
{
    static const char words[] = "the first that can is ";
    const char *next = strstr(c->failure.message, words);

    return c->failed < 0 && next != NULL ? strtoull(next + strlen(words), NULL, 10) : 0;
}

struct streams *consumer_streams(struct consumer *c)
{
    return &c->streams;
}

/* ---------------------------------------------------------------- the port of a read */

static struct consumer *consumer_of(const struct mr_read *r)
{
    return (struct consumer *)((char *)(uintptr_t)r - offsetof(struct consumer, read));
}

static uint32_t worker_of(const char *task)
{
    const char *slash = strchr(task, '/');
    char id[33] = "";

    snprintf(id, sizeof id, "%.32s", slash + 1);
    return (uint32_t)strtoul(id + 20, NULL, 16) - 0xa0000u;
}

static bool worker_is_there(const struct world *w, uint32_t number)
{
    for (size_t i = 0; i < WORKERS_MAX; i++) {
        if (w->workers[i] != NULL && worker_number(w->workers[i]) == number) {
            return true;
        }
    }
    return false;
}

static int connect_stream(struct mr_read_task *t, mr_error *err)
{
    struct consumer *c = consumer_of(t->read);
    struct stream *s = calloc(1, sizeof *s);

    (void)err;
    s->worker = worker_of(t->id);
    s->consumer = c->number;
    s->index = c->seat;
    s->broken = !worker_is_there(c->world, s->worker);
    snprintf(s->task, sizeof s->task, "%s", t->id);
    STAILQ_INIT(&s->to_worker);
    STAILQ_INIT(&s->to_consumer);
    TAILQ_INSERT_TAIL(&c->streams, s, link);
    t->line = s;
    return MR_OK;
}

static bool write_stream(struct mr_read_task *t, const uint8_t *bytes, size_t size)
{
    struct consumer *c = consumer_of(t->read);
    Millrace__ReadRequest *req = millrace__read_request__unpack(NULL, size, bytes);
    struct stream *s = t->line;

    if (req->open != NULL) {
        stream_send(c->world, s, true, letter_new(&req->open->rounds->base), LETTER_OPEN);
    }
    stream_send(c->world, s, true, letter_new(&req->base), LETTER_REQUEST);
    millrace__read_request__free_unpacked(req, NULL);
    return true;
}

static void cut_stream(struct mr_read_task *t)
{
    ((struct stream *)t->line)->broken = true;
}

static bool no(const struct mr_read *r)
{
    return false;
}

static uint64_t learned(const struct mr_read *r, char *cluster, char *incarnation)
{
    cluster[0] = incarnation[0] = '\0';
    return 0;
}

static bool trouble(const struct mr_read *r, char *why, size_t size)
{
    return false;
}

static void lost(struct mr_read *r, const struct mr_read_end *end, bool incomplete)
{
}

static void skipped(struct mr_read *r, uint64_t n)
{
}

static void no_log(enum mr_log_level level, const char *msg, ...)
{
}

static const struct mr_read_port port = {
    .connect = connect_stream,
    .send = write_stream,
    .cut = cut_stream,
    .is_memory_short = no,
    .learned = learned,
    .trouble = trouble,
    .lost = lost,
    .skipped = skipped,
    .log = no_log,
};

/* ---------------------------------------------------------------- life */

struct consumer *consumer_new(struct world *w, uint32_t number, uint32_t seat, bool resume,
                              uint64_t round)
{
    struct consumer *c = calloc(1, sizeof *c);
    struct mr_read *r = &c->read;

    c->number = number;
    c->seat = seat;
    c->world = w;
    STAILQ_INIT(&c->updates);
    STAILQ_INIT(&c->answers);
    TAILQ_INIT(&c->streams);
    r->port = &port;
    r->now_ms = w->now + 1;
    mr_rng_seed(&r->rng, number);
    snprintf(r->client, sizeof r->client, "%s", consumer_id(number));
    r->opts = (struct mr_read_options){.service = (char *)"sim",
                                       .job_name = (char *)"job",
                                       .dataset_id = (char *)"d",
                                       .on_loss = MR_ON_LOSS_REPORT,
                                       .num_consumers = w->knobs.consumers,
                                       .consumer_index = seat,
                                       .resumes = resume,
                                       .resume_round = round,
                                       .max_outstanding = w->knobs.ahead,
                                       .connect_timeout_ms = INT64_MAX / 4,
                                       .heartbeat_ms = 200};
    (void)mr_read_init(r, NULL);
    return c;
}

static void stream_free(struct consumer *c, struct stream *s)
{
    TAILQ_REMOVE(&c->streams, s, link);
    letters_clear(&s->to_worker);
    letters_clear(&s->to_consumer);
    free(s);
}

static void forget_call(struct consumer *c)
{
    if (c->pending != NULL) {
        protobuf_c_message_free_unpacked(c->pending, NULL);
    }
    c->pending = NULL;
}

void consumer_free(struct consumer *c)
{
    if (c == NULL) {
        return;
    }
    for (struct stream *s = TAILQ_FIRST(&c->streams), *next; s != NULL; s = next) {
        next = TAILQ_NEXT(s, link);
        stream_free(c, s);
    }
    letters_clear(&c->updates);
    letters_clear(&c->answers);
    forget_call(c);
    mr_read_clear(&c->read);
    free(c);
}

void consumer_cut(struct consumer *c)
{
    letters_clear(&c->updates);
    c->version = 0;
    c->watch_at = 0;
}

/* What it has sent may still arrive. */
void consumer_kill(struct world *w, struct consumer *c)
{
    c->dead = true;
}

void consumer_leave(struct world *w, const struct consumer *c)
{
    Millrace__ReleaseClientRequest request = MILLRACE__RELEASE_CLIENT_REQUEST__INIT;

    request.client = (char *)(uintptr_t)consumer_id(c->number);
    request.iteration_id = c->read.iteration_id;
    leader_call(w, CALL_RELEASE, c->number, &request.base);
}

void consumer_pause(struct consumer *c, int64_t until)
{
    c->paused_until = until;
}

void consumer_hear(struct world *w, struct consumer *c, enum call call, struct letter *letter)
{
    letter->kind = call;
    letter->due = w->now + (int64_t)mr_rng_below(&w->rng, 8);
    if (call == CALL_WATCH_CLIENT) {
        STAILQ_INSERT_TAIL(&c->updates, letter, link);
    } else {
        STAILQ_INSERT_TAIL(&c->answers, letter, link);
    }
}

void stream_send(struct world *w, struct stream *s, bool to_worker, struct letter *letter, int kind)
{
    int64_t *last = to_worker ? &s->last_to_worker : &s->last_to_consumer;

    letter->kind = kind;
    letter->due = w->now + (int64_t)mr_rng_below(&w->rng, 6);
    letter->due = letter->due > *last ? letter->due : *last;
    *last = letter->due;
    if (to_worker) {
        STAILQ_INSERT_TAIL(&s->to_worker, letter, link);
    } else {
        STAILQ_INSERT_TAIL(&s->to_consumer, letter, link);
    }
}

/* ---------------------------------------------------------------- the dispatcher */

/* Keep for the report what is closing, and hide it from the consumer's own judgement. */
static void note_doubt(struct consumer *c, Millrace__RoundsUpdate *rounds)
{
    c->ndoubts = 0;
    for (size_t i = 0; i < rounds->n_closing && c->ndoubts < DOUBTS_MAX; i++) {
        snprintf(c->doubts[c->ndoubts++], TASK_SIZE, "%s", rounds->closing[i]);
    }
    for (size_t i = 0; i < rounds->n_closing; i++) {
        free(rounds->closing[i]);
    }
    rounds->n_closing = 0;
}

static void take_update(struct world *w, struct consumer *c, const struct letter *letter)
{
    Millrace__ClientUpdate *update;

    if (letter->code < 0) {
        c->version = 0;
        return;
    }
    update = millrace__client_update__unpack(NULL, letter->size, letter->bytes);
    if (update->follows != 0 && update->follows != c->version) {
        consumer_cut(c);
        millrace__client_update__free_unpacked(update, NULL);
        return;
    }
    c->version = update->version;
    if (update->rounds != NULL && w->bug == BUG_NO_PROMISE) {
        note_doubt(c, update->rounds);
    }
    if (update->rounds != NULL && w->bug == BUG_HORIZON_IGNORED) {
        update->rounds->horizon += 1000;
    }
    mr_read_updated(&c->read, update);
    millrace__client_update__free_unpacked(update, NULL);
}

static void take_answer(struct world *w, struct consumer *c, const struct letter *letter)
{
    static const ProtobufCMessageDescriptor *const types[] = {
        [CALL_OPEN] = &millrace__open_reply__descriptor,
        [CALL_BEAT_CLIENT] = &millrace__client_heartbeat_reply__descriptor,
    };
    mr_error err;

    if (c->pending == NULL || (enum call)letter->kind != c->pending_call) {
        return; /* a copy */
    }
    if (letter->code == MR_EUNAVAIL) {
        w->rare[RARE_ASKED] += c->pending_call == CALL_OPEN;
        return;
    }
    forget_call(c);
    if (letter->code < 0) {
        (void)mr_error_set(&err, letter->code, "%s", letter->text);
        mr_read_answered(&c->read, letter->code, NULL, &err);
        return;
    }
    ProtobufCMessage *reply =
        protobuf_c_message_unpack(types[letter->kind], NULL, letter->size, letter->bytes);

    if (letter->kind == CALL_OPEN && ((Millrace__OpenReply *)reply)->finished &&
        w->holder[c->seat] == c->number) {
        judge_placed(w->judge, c->seat, c->number); /* for all that is left of it */
    }
    mr_read_answered(&c->read, MR_OK, reply, NULL);
    protobuf_c_message_free_unpacked(reply, NULL);
}

/* Report what is closing as if it had been promised. */
static void add_doubts(struct consumer *c, Millrace__ConsumerReport *report)
{
    if (report == NULL || c->ndoubts == 0) {
        return;
    }
    report->closing =
        realloc(report->closing, (report->n_closing + c->ndoubts) * sizeof *report->closing);
    for (size_t i = 0; i < c->ndoubts; i++) {
        Millrace__ClosingReport *closing = malloc(sizeof *closing);

        millrace__closing_report__init(closing);
        closing->task_id = strdup(c->doubts[i]);
        report->closing[report->n_closing++] = closing;
    }
}

/* When it is to be looked at again. */
static int64_t next_step(struct consumer *c)
{
    struct mr_read_step step;

    while (c->pending == NULL) {
        mr_read_next_step(&c->read, &step);
        switch (step.kind) {
        case MR_READ_STEP_WAIT:
            return step.until_ms;
        case MR_READ_STEP_CALL:
            c->pending = step.request;
            c->pending_call = strcmp(step.method, "Open") == 0 ? CALL_OPEN : CALL_BEAT_CLIENT;
            c->call_at = 0;
            if (c->pending_call == CALL_BEAT_CLIENT) {
                add_doubts(c, ((Millrace__ClientHeartbeatRequest *)c->pending)->rounds);
            }
            break;
        case MR_READ_STEP_WATCH:
        case MR_READ_STEP_UNWATCH:
            c->watching = step.kind == MR_READ_STEP_WATCH;
            consumer_cut(c);
            if (step.request != NULL) {
                protobuf_c_message_free_unpacked(step.request, NULL);
            }
            break;
        case MR_READ_STEP_REGISTER:
        case MR_READ_STEP_OUT:
            return INT64_MAX;
        }
    }
    return INT64_MAX;
}

static void repeat_calls(struct world *w, struct consumer *c)
{
    if (c->pending != NULL && w->now >= c->call_at) {
        leader_call(w, c->pending_call, c->number, c->pending);
        c->call_at = w->now + (c->pending_call == CALL_OPEN ? 60 : 200);
    }
    if (c->watching && c->version == 0 && w->now >= c->watch_at) {
        Millrace__WatchClientRequest request = MILLRACE__WATCH_CLIENT_REQUEST__INIT;

        request.client = c->read.client;
        request.iteration_id = c->read.iteration_id;
        c->watch_at = w->now + 100;
        leader_call(w, CALL_WATCH_CLIENT, c->number, &request.base);
    }
}

/* ---------------------------------------------------------------- workers */

static void take_elements(struct world *w, struct mr_read_task *t, const struct letter *letter)
{
    struct mr_leaf_spec leaf = {.dtype = MR_INT64, .rank = 1, .dims = {NUMBERS}};
    struct stream *s = t->line;
    Millrace__ReadHeader h = MILLRACE__READ_HEADER__INIT;
    mr_block *block = NULL;
    struct mr_frame_content content = {.header = &h, .blocks = &block};
    const mr_client_rounds *rounds = mr_coordinated_rounds(t->read);
    uint64_t before = mr_client_rounds_first(rounds);

    h.rounds = millrace__round_header__unpack(NULL, letter->size, letter->bytes);
    if (w->bug == BUG_NO_BARRIER) {
        h.rounds->complete_before = 0;
    }
    h.worker_incarnation = t->incarnation;
    h.task_id = t->id;
    h.attempt = t->attempt;
    h.session = t->session;
    content.n = h.rounds->n_rounds > 0 ? 1 : 0;
    if (content.n > 0) {
        (void)mr_block_alloc((uint32_t)h.rounds->n_rounds, &leaf, 1, &block, NULL);
        int64_t *numbers = mr_block_data(block, 0);

        for (size_t i = 0; i < h.rounds->n_rounds; i++) {
            numbers[NUMBERS * i] = (int64_t)s->worker * 1000 + atoi(strrchr(s->task, '.') + 1);
            numbers[NUMBERS * i + 1] = (int64_t)letter->ordinals[i];
        }
    }
    (void)mr_read_message(t, &content);
    w->rare[RARE_BEGAN_BEHIND] += mr_client_rounds_first(rounds) != before ? 1 : 0;
    mr_block_unref(block);
    millrace__round_header__free_unpacked(h.rounds, NULL);
}

static void run_streams(struct world *w, struct consumer *c)
{
    struct mr_read_task *t;

    TAILQ_FOREACH(t, &c->read.tasks, link)
    {
        struct stream *s = t->line;
        struct letter *letter;
        mr_error err = {.message = "broken"};

        if (s == NULL) {
            continue;
        }
        if (!s->broken && t->sending) {
            mr_read_sent(t);
        }
        while (!s->broken && (letter = letters_take(&s->to_consumer, w->now)) != NULL) {
            if (letter->kind == LETTER_REFUSED) {
                s->broken = true;
            } else {
                take_elements(w, t, letter);
            }
            free(letter);
        }
        if (s->broken) {
            t->line = NULL;
            stream_free(c, s);
            mr_read_ended(t, MR_EUNAVAIL, &err);
        }
    }
}

/* ---------------------------------------------------------------- the application */

/* That a round is missing in the middle must never happen; the other reasons are told to whoever
 * runs the job. */
static void fail(struct world *w, struct consumer *c, const mr_error *why)
{
    if (why->code == MR_EDATALOSS) {
        snprintf(w->failure, sizeof w->failure, "consumer %u, process %u: %.300s", c->seat,
                 c->number, why->message);
    }
    c->failed = why->code;
    c->failure = *why;
}

static void read_on(struct world *w, struct consumer *c)
{
    for (int i = 0; i < 4 && half(w); i++) {
        struct mr_read_taken taken;
        mr_error err;

        mr_read_ask(&c->read);
        int rc = mr_read_take(&c->read, 1, &taken, &err);
        if (rc != MR_OK) {
            c->ended = rc == MR_END;
            if (rc == MR_TIMEOUT) {
                (void)mr_read_hungry(&c->read);
            } else if (rc < 0) {
                fail(w, c, &err);
            }
            return;
        }
        const int64_t *numbers = mr_block_column(taken.block, 0)->data;
        struct group group = {(uint32_t)numbers[0], (uint64_t)numbers[1]};

        mr_block_unref(taken.block);
        if (w->knobs.show) {
            printf("[%6lld] process %u, consumer %u: round %llu\n", (long long)w->now, c->number,
                   c->seat, (unsigned long long)taken.round);
        }
        judge_returned(w->judge, c->seat, c->number, taken.round, group, c->seat);
    }
}

static void collect(struct consumer *c)
{
    struct mr_read_litter litter = {.nlines = 0};
    struct mr_read_task *t;

    TAILQ_INIT(&litter.tasks);
    (void)mr_read_collect(&c->read, &litter);
    while ((t = TAILQ_FIRST(&litter.tasks)) != NULL) {
        TAILQ_REMOVE(&litter.tasks, t, link);
        mr_read_task_free(t);
    }
}

void consumer_tick(struct world *w, struct consumer *c)
{
    struct letter *letter;

    if (c->dead || w->now < c->paused_until || c->said_end) {
        return;
    }
    c->read.now_ms = w->now + 1;
    while ((letter = letters_take(&c->answers, w->now)) != NULL) {
        take_answer(w, c, letter);
        free(letter);
    }
    while ((letter = letters_take(&c->updates, w->now)) != NULL) {
        take_update(w, c, letter);
        free(letter);
    }
    if (c->failed == 0) {
        int64_t due = next_step(c) - 1;

        c->run_at = due < c->run_at ? due : c->run_at;
        repeat_calls(w, c);
        run_streams(w, c);
        if ((c->read.wakes & MR_READ_WAKE_TICK) != 0 || w->now >= c->run_at) {
            c->read.wakes = 0;
            c->run_at = mr_read_tick(&c->read) - 1;
        }
        read_on(w, c);
        collect(c);
    }
    if (c->ended && !c->said_end) {
        c->said_end = true;
        judge_ended(w->judge, c->seat, c->number);
    }
}
