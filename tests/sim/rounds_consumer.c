/* A process that has a consumer's place, or believes so. */
#include "rounds_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TASKS_MAX 200
#define QUEUE_MAX 4096
#define DOUBTS_MAX 16

struct element {
    char task[TASK_SIZE];
    uint64_t round;
    struct group group;
};

struct consumer {
    uint32_t number, seat;
    bool resume;
    uint64_t resume_round;
    char iteration[64];
    mr_client_rounds *rounds;
    bool opened, attached, watching, dead, ended, said_end;
    uint64_t version;
    int64_t call_at, beat_at, watch_at, paused_until;
    struct letters updates, answers;
    uint64_t report; /* number of the one on its way */
    struct streams streams;
    char tasks[TASKS_MAX][TASK_SIZE];
    size_t ntasks;
    struct element queue[QUEUE_MAX];
    size_t nqueue;
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
    return c->failed < 0 ? c->failure.message : c->opened ? "reads" : "opens";
}

uint64_t consumer_position(const struct consumer *c)
{
    return c->rounds != NULL ? mr_client_rounds_position(c->rounds) : 0;
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

struct consumer *consumer_new(struct world *w, uint32_t number, uint32_t seat, bool resume,
                              uint64_t round)
{
    struct consumer *c = calloc(1, sizeof *c);

    c->number = number;
    c->seat = seat;
    c->resume = resume;
    c->resume_round = round;
    STAILQ_INIT(&c->updates);
    STAILQ_INIT(&c->answers);
    TAILQ_INIT(&c->streams);
    return c;
}

static void stream_free(struct consumer *c, struct stream *s)
{
    TAILQ_REMOVE(&c->streams, s, link);
    letters_clear(&s->to_worker);
    letters_clear(&s->to_consumer);
    free(s);
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
    mr_client_rounds_free(c->rounds);
    free(c);
}

void consumer_cut(struct consumer *c)
{
    letters_clear(&c->updates);
    c->watching = false;
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
    request.iteration_id = (char *)(uintptr_t)c->iteration;
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

/* That a round is missing in the middle must never happen; the other reasons are told to whoever
 * runs the job. */
static void fail(struct world *w, struct consumer *c, int code, const char *why)
{
    if (code == MR_EDATALOSS) {
        snprintf(w->failure, sizeof w->failure, "consumer %u, process %u: %.300s", c->seat,
                 c->number, why);
    }
    if (c->failed == 0) {
        c->failed = code;
        snprintf(c->failure.message, sizeof c->failure.message, "%.200s", why);
    }
}

/* ---------------------------------------------------------------- the dispatcher */

static void take_opened(struct world *w, struct consumer *c, const struct letter *letter)
{
    Millrace__OpenReply *reply;

    if (letter->code == MR_EUNAVAIL) {
        w->rare[RARE_ASKED]++;
        return;
    }
    if (letter->code < 0) {
        fail(w, c, letter->code, letter->text);
        return;
    }
    reply = millrace__open_reply__unpack(NULL, letter->size, letter->bytes);
    if (reply->finished) {
        if (w->holder[c->seat] == c->number) {
            judge_placed(w->judge, c->seat, c->number); /* for all that is left of it */
        }
        c->ended = true;
    } else if (!c->opened) {
        struct mr_client_rounds_config config = {c->seat, reply->consumer_session,
                                                 reply->from_round, c->resume, w->knobs.ahead};

        snprintf(c->iteration, sizeof c->iteration, "%s", reply->iteration_id);
        c->rounds = mr_client_rounds_new(&config);
    }
    c->opened = true;
    c->attached = true;
    millrace__open_reply__free_unpacked(reply, NULL);
}

static void learn_tasks(struct consumer *c, const Millrace__ClientUpdate *update)
{
    for (size_t i = 0; i < update->n_tasks; i++) {
        size_t k = 0;

        while (k < c->ntasks && strcmp(c->tasks[k], update->tasks[i]->task_id) != 0) {
            k++;
        }
        if (k == c->ntasks && k < TASKS_MAX) {
            snprintf(c->tasks[c->ntasks++], TASK_SIZE, "%s", update->tasks[i]->task_id);
        }
    }
}

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
    mr_error err;

    if (letter->code < 0) {
        c->watching = false;
        return;
    }
    update = millrace__client_update__unpack(NULL, letter->size, letter->bytes);
    if (update->follows != 0 && update->follows != c->version) {
        consumer_cut(c);
        millrace__client_update__free_unpacked(update, NULL);
        return;
    }
    c->version = update->version;
    learn_tasks(c, update);
    if (update->rounds != NULL && w->bug == BUG_NO_PROMISE) {
        note_doubt(c, update->rounds);
    }
    if (update->rounds != NULL && w->bug == BUG_HORIZON_IGNORED) {
        update->rounds->horizon += 1000;
    }
    if (update->rounds != NULL && mr_client_rounds_update(c->rounds, update->rounds, &err) < 0) {
        fail(w, c, err.code, err.message);
    }
    if (update->finished) {
        mr_client_rounds_finish(c->rounds);
    }
    millrace__client_update__free_unpacked(update, NULL);
}

static void take_answers(struct world *w, struct consumer *c)
{
    struct letter *letter;

    while ((letter = letters_take(&c->answers, w->now)) != NULL) {
        if (letter->kind == CALL_OPEN) {
            take_opened(w, c, letter);
        } else if (letter->kind == CALL_BEAT_CLIENT && letter->code == MR_OK && c->report != 0) {
            mr_client_rounds_reported(c->rounds, c->report);
            c->report = 0;
        } else if (letter->kind == CALL_BEAT_CLIENT && letter->code == MR_ENOTFOUND && !c->ended) {
            c->attached = false; /* open again */
            c->watching = false;
        }
        free(letter);
    }
    while (c->rounds != NULL && (letter = letters_take(&c->updates, w->now)) != NULL) {
        take_update(w, c, letter);
        free(letter);
    }
}

static void call_open(struct world *w, struct consumer *c)
{
    Millrace__OpenRequest request = MILLRACE__OPEN_REQUEST__INIT;
    Millrace__JobSpec spec = MILLRACE__JOB_SPEC__INIT;
    Millrace__ResumeRound resume = MILLRACE__RESUME_ROUND__INIT;

    spec.name = (char *)"job";
    spec.num_consumers = w->knobs.consumers;
    request.client = (char *)(uintptr_t)consumer_id(c->number);
    request.dataset_id = (char *)"d";
    request.job = &spec;
    request.consumer_index = c->seat;
    request.iteration_id = c->iteration;
    resume.round = c->resume_round;
    request.resume = c->resume ? &resume : NULL;
    leader_call(w, CALL_OPEN, c->number, &request.base);
    c->call_at = w->now + 60;
}

static void beat(struct world *w, struct consumer *c)
{
    Millrace__ClientHeartbeatRequest request = MILLRACE__CLIENT_HEARTBEAT_REQUEST__INIT;
    Millrace__ConsumerReport report = MILLRACE__CONSUMER_REPORT__INIT;

    request.client = (char *)(uintptr_t)consumer_id(c->number);
    request.iteration_id = c->iteration;
    c->report = mr_client_rounds_report(c->rounds, &report);
    request.rounds = &report;
    Millrace__ClosingReport doubts[DOUBTS_MAX], *list[DOUBTS_MAX];
    Millrace__ClosingReport **closing = report.closing;

    for (size_t i = 0; i < c->ndoubts; i++) {
        millrace__closing_report__init(&doubts[i]);
        doubts[i].task_id = c->doubts[i];
        list[i] = &doubts[i];
    }
    if (c->ndoubts > 0) {
        report.closing = list;
        report.n_closing = c->ndoubts;
    }
    leader_call(w, CALL_BEAT_CLIENT, c->number, &request.base);
    if (c->ndoubts > 0) {
        report.closing = closing;
        report.n_closing = 0;
    }
    mr_client_rounds_report_clear(&report);
    c->beat_at = w->now + 200;
}

static void talk(struct world *w, struct consumer *c)
{
    take_answers(w, c);
    if (c->failed < 0 || c->ended) {
        return;
    }
    if (!c->attached && w->now >= c->call_at) {
        call_open(w, c);
    }
    if (!c->opened) {
        return;
    }
    if (!c->watching && w->now >= c->watch_at) {
        Millrace__WatchClientRequest request = MILLRACE__WATCH_CLIENT_REQUEST__INIT;

        request.client = (char *)(uintptr_t)consumer_id(c->number);
        request.iteration_id = c->iteration;
        c->watching = leader_is_there(w);
        c->watch_at = w->now + 100;
        c->version = 0;
        leader_call(w, CALL_WATCH_CLIENT, c->number, &request.base);
    }
    if (c->watching && c->version == 0 && w->now >= c->watch_at) {
        c->watching = false;
    }
    if (w->now >= c->beat_at ||
        (mr_client_rounds_must_report(c->rounds) && w->now + 190 >= c->beat_at)) {
        beat(w, c);
    }
}

/* ---------------------------------------------------------------- workers */

static uint32_t worker_of(const char *task)
{
    const char *slash = strchr(task, '/');
    char id[33] = "";

    snprintf(id, sizeof id, "%.32s", slash + 1);
    return (uint32_t)strtoul(id + 20, NULL, 16) - 0xa0000u;
}

static void take_elements(struct world *w, struct consumer *c, struct stream *s,
                          const struct letter *letter)
{
    Millrace__RoundHeader *header =
        millrace__round_header__unpack(NULL, letter->size, letter->bytes);
    uint64_t before = mr_client_rounds_first(c->rounds);

    if (w->bug == BUG_NO_BARRIER) {
        header->complete_before = 0;
    }
    mr_error err;
    size_t first;

    if (mr_client_rounds_receive(c->rounds, s->task, header, &first, &err) < 0) {
        if (err.code == MR_EPRECOND) {
            fail(w, c, err.code, err.message); /* it was to begin with a round that is gone */
        } else {
            snprintf(w->failure, sizeof w->failure, "consumer %u: %.300s", c->number, err.message);
        }
        first = header->n_rounds;
    }
    w->rare[RARE_BEGAN_BEHIND] += mr_client_rounds_first(c->rounds) != before ? 1 : 0;
    for (size_t i = first; i < header->n_rounds; i++) {
        struct element *e;

        if (c->nqueue == QUEUE_MAX) {
            snprintf(w->failure, sizeof w->failure, "consumer %u has more than it asked for",
                     c->number);
            break;
        }
        e = &c->queue[c->nqueue++];
        snprintf(e->task, sizeof e->task, "%s", s->task);
        e->round = header->rounds[i];
        e->group = (struct group){s->worker * 1000 + (uint32_t)atoi(strrchr(s->task, '.') + 1),
                                  letter->ordinals[i]};
    }
    millrace__round_header__free_unpacked(header, NULL);
}

static void read_stream(struct world *w, struct consumer *c, struct stream *s)
{
    Millrace__ReadRequest request = MILLRACE__READ_REQUEST__INIT;
    struct letter *letter;

    while (!s->broken && (letter = letters_take(&s->to_consumer, w->now)) != NULL) {
        if (letter->kind == LETTER_REFUSED) {
            s->broken = true;
        } else {
            take_elements(w, c, s, letter);
        }
        free(letter);
    }
    if (!s->broken && mr_client_rounds_tell(c->rounds, s->task, &request)) {
        stream_send(w, s, true, letter_new(&request.base), LETTER_REQUEST);
    }
}

static bool has_stream(const struct consumer *c, const char *task)
{
    const struct stream *s;

    TAILQ_FOREACH(s, &c->streams, link)
    {
        if (strcmp(s->task, task) == 0) {
            return true;
        }
    }
    return false;
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

static void open_stream(struct world *w, struct consumer *c, const char *task)
{
    Millrace__RoundOpen open = MILLRACE__ROUND_OPEN__INIT;
    struct stream *s;
    mr_error err;

    if (!worker_is_there(w, worker_of(task)) ||
        mr_client_rounds_open(c->rounds, task, &open, &err) < 0) {
        return;
    }
    s = calloc(1, sizeof *s);
    s->worker = worker_of(task);
    s->consumer = c->number;
    s->index = c->seat;
    snprintf(s->task, sizeof s->task, "%s", task);
    STAILQ_INIT(&s->to_worker);
    STAILQ_INIT(&s->to_consumer);
    TAILQ_INSERT_TAIL(&c->streams, s, link);
    stream_send(w, s, true, letter_new(&open.base), LETTER_OPEN);
}

static void run_streams(struct world *w, struct consumer *c)
{
    struct stream *s, *next;

    for (s = TAILQ_FIRST(&c->streams); s != NULL; s = next) {
        next = TAILQ_NEXT(s, link);
        s->broken = s->broken || chance(w, w->knobs.break_stream) || !worker_is_there(w, s->worker);
        if (s->broken || !mr_client_rounds_wants(c->rounds, s->task)) {
            stream_free(c, s);
        } else {
            read_stream(w, c, s);
        }
    }
    for (size_t i = 0; i < c->ntasks; i++) {
        if (mr_client_rounds_wants(c->rounds, c->tasks[i]) && !has_stream(c, c->tasks[i])) {
            open_stream(w, c, c->tasks[i]);
        }
    }
}

/* ---------------------------------------------------------------- the application */

/* The element of @round by @task, taken out of the queue. */
static bool unqueue(struct consumer *c, const char *task, uint64_t round, struct group *ret)
{
    bool found = false;
    size_t n = 0;

    for (size_t i = 0; i < c->nqueue; i++) {
        if (c->queue[i].round == round && strcmp(c->queue[i].task, task) == 0) {
            *ret = c->queue[i].group;
            found = true;
        } else if (c->queue[i].round > round) {
            c->queue[n++] = c->queue[i];
        }
    }
    c->nqueue = n;
    return found;
}

static void read_on(struct world *w, struct consumer *c)
{
    for (int i = 0; i < 4 && half(w); i++) {
        struct mr_client_rounds_next next;
        struct group group = {0};
        mr_error err;

        if (mr_client_rounds_next(c->rounds, &next, &err) < 0) {
            fail(w, c, err.code, err.message);
            return;
        }
        if (next.turn == MR_ROUNDS_END) {
            c->ended = true;
            return;
        }
        if (next.turn == MR_ROUNDS_WAIT) {
            return;
        }
        if (!unqueue(c, next.task_id, next.round, &group)) {
            snprintf(w->failure, sizeof w->failure, "consumer %u is to take what it has not got",
                     c->number);
            return;
        }
        if (w->knobs.show) {
            printf("[%6lld] process %u, consumer %u: round %llu of %s\n", (long long)w->now,
                   c->number, c->seat, (unsigned long long)next.round, next.task_id);
        }
        judge_returned(w->judge, c->seat, c->number, next.round, group, c->seat);
        mr_client_rounds_taken(c->rounds);
    }
}

void consumer_tick(struct world *w, struct consumer *c)
{
    if (c->dead || w->now < c->paused_until) {
        return;
    }
    talk(w, c);
    if (c->rounds != NULL && !c->failed && !c->ended) {
        run_streams(w, c);
        read_on(w, c);
    }
    if (c->ended && !c->said_end) {
        c->said_end = true;
        judge_ended(w->judge, c->seat, c->number);
    }
}
