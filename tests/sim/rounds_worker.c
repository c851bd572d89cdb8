/* A worker: registers, watches, fixes groups and sends them. What a group is follows from its
 * ordinal. */
#include "rounds_world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of so many takes so long, at most, until it begins: its rounds are waited for, those of
 * others are far ahead. */
#define SLOW_STARTS 4
#define SLOW_START_MS 2000

struct worker {
    uint32_t number;
    bool registered;
    bool watching;
    uint64_t version;
    int64_t call_at, beat_at, watch_at, ended_at, paused_until;
    struct letters updates, answers;
    char task[TASK_SIZE];
    mr_round_book *book;
    uint64_t fixed;             /* groups so far */
    uint64_t limits[SEATS_MAX]; /* that consumers have told on their streams */
    bool ended;
    uint64_t end_round;
    uint64_t streams;
};

const char *worker_id(uint32_t number)
{
    static char ids[8][33];
    static unsigned next;
    char *id = ids[next++ % 8];

    snprintf(id, 33, "%032x", 0xa0000u + number);
    return id;
}

uint32_t worker_number(const struct worker *worker)
{
    return worker->number;
}

struct worker *worker_new(struct world *w, uint32_t number)
{
    struct worker *worker = calloc(1, sizeof *worker);

    worker->number = number;
    STAILQ_INIT(&worker->updates);
    STAILQ_INIT(&worker->answers);
    return worker;
}

void worker_free(struct worker *worker)
{
    if (worker != NULL) {
        letters_clear(&worker->updates);
        letters_clear(&worker->answers);
        mr_round_book_free(worker->book);
        free(worker);
    }
}

void worker_cut(struct worker *worker)
{
    letters_clear(&worker->updates);
    worker->watching = false;
}

void worker_leave(struct world *w, const struct worker *worker)
{
    Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;

    request.incarnation = (char *)(uintptr_t)worker_id(worker->number);
    request.leaving = true;
    leader_call(w, CALL_BEAT_WORKER, worker->number, &request.base);
}

void worker_pause(struct worker *worker, int64_t until)
{
    worker->paused_until = until;
}

void worker_hear(struct world *w, struct worker *worker, enum call call, struct letter *letter)
{
    letter->kind = call;
    letter->due = w->now + (int64_t)mr_rng_below(&w->rng, 8);
    if (call == CALL_WATCH_WORKER) {
        if (worker->version == 0 && mr_rng_below(&w->rng, SLOW_STARTS) == 0) {
            letter->due += (int64_t)mr_rng_below(&w->rng, SLOW_START_MS);
        }
        STAILQ_INSERT_TAIL(&worker->updates, letter, link);
    } else {
        STAILQ_INSERT_TAIL(&worker->answers, letter, link);
    }
}

static void drop_task(struct worker *worker)
{
    mr_round_book_free(worker->book);
    worker->book = NULL;
    worker->task[0] = '\0';
    worker->fixed = 0;
    memset(worker->limits, 0, sizeof worker->limits);
    worker->ended = false;
}

static void assign(struct world *w, struct worker *worker, const char *task,
                   const Millrace__RoundAssignment *rounds)
{
    mr_error err;
    int rc;

    for (size_t i = 0; i < rounds->n_sessions && w->bug == BUG_NO_FENCE; i++) {
        rounds->sessions[i] = 0;
    }
    if (worker->book != NULL && strcmp(worker->task, task) != 0) {
        drop_task(worker); /* a life after its loss: another task of the iteration */
    }
    if (worker->book == NULL) {
        rc = mr_round_book_new(rounds, w->knobs.keep, &worker->book, &err);
        snprintf(worker->task, sizeof worker->task, "%s", task);
    } else {
        rc = mr_round_book_assign(worker->book, rounds, &err);
    }
    if (rc < 0) {
        snprintf(w->failure, sizeof w->failure, "assignment: %s", err.message);
    }
}

static void take_update(struct world *w, struct worker *worker, const struct letter *letter)
{
    Millrace__WorkerUpdate *update;
    bool listed = false;

    if (letter->code < 0) {
        worker->watching = false;
        worker->registered = worker->registered && letter->code != MR_ENOTFOUND;
        return;
    }
    update = millrace__worker_update__unpack(NULL, letter->size, letter->bytes);
    if (update->follows != 0 && update->follows != worker->version) {
        worker_cut(worker);
        millrace__worker_update__free_unpacked(update, NULL);
        return;
    }
    worker->version = update->version;
    for (size_t i = 0; i < update->n_tasks; i++) {
        if (update->tasks[i]->rounds != NULL) {
            assign(w, worker, update->tasks[i]->task_id, update->tasks[i]->rounds);
            listed = true;
        }
    }
    for (size_t i = 0; i < update->n_rounds; i++) {
        if (strcmp(update->rounds[i]->task_id, worker->task) == 0) {
            assign(w, worker, worker->task, update->rounds[i]->rounds);
        }
    }
    for (size_t i = 0; i < update->n_dropped; i++) {
        if (strcmp(update->dropped[i], worker->task) == 0) {
            drop_task(worker);
        }
    }
    if (update->follows == 0 && !listed) {
        drop_task(worker);
    }
    millrace__worker_update__free_unpacked(update, NULL);
}

/* ---------------------------------------------------------------- the dispatcher */

static void talk(struct world *w, struct worker *worker)
{
    struct letter *letter;
    uint64_t end_round;

    while ((letter = letters_take(&worker->answers, w->now)) != NULL) {
        if (letter->kind == CALL_REGISTER && letter->code == MR_OK) {
            worker->registered = true;
        } else if (letter->code == MR_ENOTFOUND) {
            worker->registered = false;
            worker->watching = false;
        }
        free(letter);
    }
    while ((letter = letters_take(&worker->updates, w->now)) != NULL) {
        take_update(w, worker, letter);
        free(letter);
    }
    if (!worker->registered && w->now >= worker->call_at) {
        Millrace__RegisterWorkerRequest request = MILLRACE__REGISTER_WORKER_REQUEST__INIT;
        char address[32];

        snprintf(address, sizeof address, "w%u:1", worker->number);
        request.incarnation = (char *)(uintptr_t)worker_id(worker->number);
        request.address = address;
        leader_call(w, CALL_REGISTER, worker->number, &request.base);
        worker->call_at = w->now + 100;
    }
    if (worker->registered && !worker->watching && w->now >= worker->watch_at) {
        Millrace__WatchWorkerRequest request = MILLRACE__WATCH_WORKER_REQUEST__INIT;

        request.incarnation = (char *)(uintptr_t)worker_id(worker->number);
        worker->watching = leader_is_there(w);
        worker->watch_at = w->now + 100;
        worker->version = 0;
        leader_call(w, CALL_WATCH_WORKER, worker->number, &request.base);
    }
    if (worker->watching && worker->version == 0 && w->now >= worker->watch_at) {
        worker->watching = false; /* the call, or its answer, did not arrive */
    }
    if (worker->registered && w->now >= worker->beat_at) {
        Millrace__WorkerHeartbeatRequest request = MILLRACE__WORKER_HEARTBEAT_REQUEST__INIT;

        request.incarnation = (char *)(uintptr_t)worker_id(worker->number);
        leader_call(w, CALL_BEAT_WORKER, worker->number, &request.base);
        worker->beat_at = w->now + 200;
    }
    bool over = worker->book != NULL && mr_round_book_over(worker->book, &end_round);

    if (w->bug == BUG_END_UNSEEN && worker->book != NULL && !over) {
        over = worker->ended;
        end_round = worker->end_round;
    }
    if (over && w->now >= worker->ended_at) {
        Millrace__TaskEndedRequest request = MILLRACE__TASK_ENDED_REQUEST__INIT;

        request.incarnation = (char *)(uintptr_t)worker_id(worker->number);
        request.task_id = worker->task;
        request.end_round = end_round;
        leader_call(w, CALL_ENDED, worker->number, &request.base);
        worker->ended_at = w->now + 100;
    }
}

/* ---------------------------------------------------------------- consumers */

static void refuse(struct world *w, struct stream *s, const char *why)
{
    struct letter *letter = letter_new(NULL);

    snprintf(letter->text, sizeof letter->text, "%.190s", why);
    stream_send(w, s, false, letter, LETTER_REFUSED);
}

static void take_letter(struct world *w, struct worker *worker, struct stream *s,
                        const struct letter *letter)
{
    mr_error err;

    if (worker->book == NULL || strcmp(s->task, worker->task) != 0) {
        refuse(w, s, "no such task");
        return;
    }
    if (letter->kind == LETTER_OPEN) {
        Millrace__RoundOpen *open = millrace__round_open__unpack(NULL, letter->size, letter->bytes);

        open->session = w->bug == BUG_NO_FENCE ? 1 : open->session;
        s->number = ++worker->streams;
        int rc = mr_round_book_open(worker->book, open, s->number, &err);

        s->opened = rc == MR_OK;
        worker->limits[s->index] = s->opened ? 0 : worker->limits[s->index];
        if (!s->opened) {
            w->rare[RARE_ZOMBIE_REFUSED] += rc == MR_EPRECOND ? 1 : 0;
            if (rc == MR_EINVAL) {
                snprintf(w->failure, sizeof w->failure, "%s: an honest consumer is refused: %.200s",
                         worker->task, err.message);
            }
            refuse(w, s, err.message);
        }
        millrace__round_open__free_unpacked(open, NULL);
    } else if (s->opened) {
        Millrace__ReadRequest *request =
            millrace__read_request__unpack(NULL, letter->size, letter->bytes);

        if (mr_round_book_is_current(worker->book, s->index, s->number)) {
            worker->limits[s->index] = request->limit_round;
        }
        if (mr_round_book_tell(worker->book, s->index, s->number, request->limit_round,
                               request->received_below,
                               w->bug == BUG_RECEIPT_IS_RETURNED ? request->received_below
                                                                 : request->returned_below,
                               &err) < 0) {
            snprintf(w->failure, sizeof w->failure, "%s: an honest consumer is refused: %.200s",
                     worker->task, err.message);
        }
        millrace__read_request__free_unpacked(request, NULL);
    }
}

static void send_rounds(struct world *w, struct worker *worker, struct stream *s)
{
    Millrace__RoundHeader header = MILLRACE__ROUND_HEADER__INIT;
    uint64_t rounds[64], ordinals[64];
    struct mr_round next;
    struct letter *letter;
    size_t max = 1 + mr_rng_below(&w->rng, 4);

    while (header.n_rounds < max && mr_round_book_next(worker->book, s->index, &next)) {
        if (next.ordinal < mr_round_book_kept(worker->book).ordinal) {
            snprintf(w->failure, sizeof w->failure, "a group is sent that was dropped");
        }
        rounds[header.n_rounds] = next.round;
        ordinals[header.n_rounds++] = next.ordinal;
        mr_round_book_sent(worker->book, s->index, next.round);
    }
    if (header.n_rounds == 0 && !mr_round_book_has_news(worker->book, s->index)) {
        return;
    }
    header.rounds = rounds;
    mr_round_book_header(worker->book, s->index, &header);
    header.complete_below = w->bug == BUG_COMPLETE_SKIPPED ? UINT64_MAX : header.complete_below;
    letter = letter_new(&header.base);
    memcpy(letter->ordinals, ordinals, header.n_rounds * sizeof ordinals[0]);
    stream_send(w, s, false, letter, LETTER_ELEMENTS);
}

/* Somebody has room for it, or the pipeline is ahead of them all. */
static bool is_wanted(const struct world *w, const struct worker *worker, uint64_t round)
{
    for (uint32_t i = 0; i < SEATS_MAX; i++) {
        if (w->knobs.eager || round < worker->limits[i]) {
            return true;
        }
    }
    return false;
}

static void produce(struct world *w, struct worker *worker)
{
    struct mr_round round;

    for (int i = 0; i < 4 && mr_round_book_may_fix(worker->book, &round) &&
                    is_wanted(w, worker, round.round) && half(w);
         i++) {
        if (w->knobs.groups > 0 && worker->fixed == w->knobs.groups) {
            worker->ended = true;
            worker->end_round = round.round;
            mr_round_book_end(worker->book);
            return;
        }
        if (round.ordinal != worker->fixed) {
            snprintf(w->failure, sizeof w->failure, "group %llu is fixed as the %llu-th",
                     (unsigned long long)worker->fixed, (unsigned long long)round.ordinal);
        }
        worker->fixed++;
        mr_round_book_fix(worker->book);
    }
}

void worker_tick(struct world *w, struct worker *worker)
{
    if (w->now < worker->paused_until) {
        return;
    }
    talk(w, worker);
    for (uint32_t i = 0; i < w->nconsumers; i++) {
        struct stream *s;

        if (w->consumers[i] == NULL) {
            continue;
        }
        TAILQ_FOREACH(s, consumer_streams(w->consumers[i]), link)
        {
            struct letter *letter;

            if (s->worker != worker->number || s->broken) {
                continue;
            }
            while ((letter = letters_take(&s->to_worker, w->now)) != NULL) {
                take_letter(w, worker, s, letter);
                free(letter);
            }
            if (s->opened && worker->book != NULL && strcmp(s->task, worker->task) == 0) {
                if (!mr_round_book_is_current(worker->book, s->index, s->number)) {
                    s->opened = false;
                    refuse(w, s, "another process has taken the place");
                } else {
                    send_rounds(w, worker, s);
                }
            }
        }
    }
    if (worker->book != NULL) {
        produce(w, worker);
    }
}
