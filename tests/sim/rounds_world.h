/*
 * Coordinated reads, all three sides together: the dispatcher's core over a store whose commits
 * take their time, the workers' books and the consumers' rounds, and between them streams that
 * break and calls that are lost, late and repeated. One iteration. What applications are given goes
 * to a judge (rounds_judge.c) that knows nothing of the protocol.
 */
#ifndef MR_TESTS_SIM_ROUNDS_WORLD_H
#define MR_TESTS_SIM_ROUNDS_WORLD_H

#include "rounds_walk.h"

#include "base/rng.h"
#include "client/rounds.h"
#include "dispatcher/core/core.h"
#include "worker/session/round_book.h"

#include <sys/queue.h>

#define SEATS_MAX 4
#define WORKERS_MAX 6     /* alive at once */
#define PROCESSES_MAX 400 /* of consumers, in one walk */
#define TASK_SIZE 128

/* ---------------------------------------------------------------- judge */

/* One group of elements: of a worker's life, and which one. */
struct group {
    uint32_t worker;
    uint64_t ordinal;
};

struct judge;
struct judge *judge_new(uint32_t consumers);
void judge_free(struct judge *j);
/* Process @process has the place now; what another one returns there from now on is nobody's
 * step. */
void judge_placed(struct judge *j, uint32_t seat, uint32_t process);
/* The application of @process took an element of @group, number @index in it, in @round. */
void judge_returned(struct judge *j, uint32_t seat, uint32_t process, uint64_t round,
                    struct group group, uint32_t index);
void judge_ended(struct judge *j, uint32_t seat, uint32_t process);
/* NULL: all is well. */
const char *judge_verdict(const struct judge *j);
uint64_t judge_rounds(const struct judge *j, uint32_t seat); /* returned there by whoever had it */
uint64_t judge_next(const struct judge *j); /* behind the last round that anybody returned */
bool judge_all_ended(const struct judge *j);

/* ---------------------------------------------------------------- the store and who leads */

/* What is on its way; bytes of a packed message. */
struct letter {
    STAILQ_ENTRY(letter) link;
    int64_t due;
    int kind; /* of the receiver's choosing */
    int code; /* of an answer */
    size_t size;
    uint64_t ordinals[64]; /* of the elements behind a RoundHeader */
    char text[200];        /* of an error */
    uint8_t bytes[];
};
STAILQ_HEAD(letters, letter);

struct letter *letter_new(const ProtobufCMessage *message);
void letters_clear(struct letters *list);
/* The next one of @list that is there at @now, taken out; NULL. */
struct letter *letters_take(struct letters *list, int64_t now);

struct leader;
struct worker;
struct consumer;

struct knobs {
    uint32_t consumers;
    uint32_t workers;
    uint64_t groups;      /* of each worker's pipeline; 0: endless */
    uint32_t keep, ahead; /* of books and consumers */
    bool eager;           /* groups are made before anybody has room for them */
    bool show;            /* what happens, on stdout */
    /* Per ten thousand ticks: */
    uint32_t lose_call, repeat_call, break_stream, kill_worker, pause_worker, new_worker,
        kill_consumer, pause_consumer, fail_over;
};

struct world {
    struct mr_rng rng;
    struct knobs knobs;
    int64_t now;
    bool faults;
    enum bug bug;
    struct leader *leader;
    struct worker *workers[WORKERS_MAX];
    struct consumer *consumers[PROCESSES_MAX];
    uint32_t nworkers; /* ever */
    uint32_t nconsumers;
    uint32_t holder[SEATS_MAX]; /* the process that was last started there */
    int64_t restart_at[SEATS_MAX];
    struct judge *judge;
    uint64_t rare[RARES];
    char failure[400];
};

/* True once in 10,000 / @knob ticks, while there are faults. */
bool chance(struct world *w, uint32_t knob);
bool half(struct world *w);

struct leader *leader_new(struct world *w);
void leader_free(struct leader *leader);
void leader_tick(struct world *w);
bool leader_is_there(const struct world *w);
/* The calls. Answers come as letters; watching, as updates, until the stream breaks. */
enum call {
    CALL_OPEN,
    CALL_BEAT_CLIENT,
    CALL_WATCH_CLIENT,
    CALL_RELEASE,
    CALL_REGISTER,
    CALL_BEAT_WORKER,
    CALL_WATCH_WORKER,
    CALL_ENDED
};
void leader_call(struct world *w, enum call call, uint32_t who, const ProtobufCMessage *request);
/* An iteration of the state has something in doubt. */
bool leader_is_closing(const struct world *w);
void leader_show(const struct world *w); /* what is stored */

/* ---------------------------------------------------------------- actors */

struct worker *worker_new(struct world *w, uint32_t number);
void worker_free(struct worker *worker);
void worker_tick(struct world *w, struct worker *worker);
/* takes it */
void worker_hear(struct world *w, struct worker *worker, enum call call, struct letter *letter);
void worker_cut(struct worker *worker); /* its watch */
uint32_t worker_number(const struct worker *worker);
const char *worker_id(uint32_t number);
void worker_leave(struct world *w, const struct worker *worker); /* says so; it is freed next */
void worker_pause(struct worker *worker, int64_t until);

struct consumer *consumer_new(struct world *w, uint32_t number, uint32_t seat, bool resume,
                              uint64_t round);
void consumer_free(struct consumer *consumer);
void consumer_tick(struct world *w, struct consumer *consumer);
void consumer_hear(struct world *w, struct consumer *consumer, enum call call,
                   struct letter *letter);
void consumer_cut(struct consumer *consumer);
void consumer_kill(struct world *w, struct consumer *consumer);
/* says so; it is killed next */
void consumer_leave(struct world *w, const struct consumer *consumer);
void consumer_pause(struct consumer *consumer, int64_t until);
const char *consumer_id(uint32_t number);
uint32_t consumer_seat(const struct consumer *consumer);
bool consumer_has_failed(const struct consumer *consumer);
bool consumer_is_dead(const struct consumer *consumer);
uint64_t consumer_position(const struct consumer *consumer);
/* where it was told to begin instead; 0: nowhere */
uint64_t consumer_next_best(const struct consumer *consumer);
const char *consumer_why(const struct consumer *consumer);

/* A stream between the two, owned by the consumer; the worker's end is looked up by the worker. */
struct stream {
    TAILQ_ENTRY(stream) link;
    uint32_t worker;
    uint32_t consumer;
    uint32_t index; /* the consumer's */
    uint64_t number;
    char task[TASK_SIZE];
    bool broken;
    bool opened; /* the worker has taken it up */
    struct letters to_worker, to_consumer;
    int64_t last_to_worker, last_to_consumer; /* they stay in order */
};
TAILQ_HEAD(streams, stream);
struct streams *consumer_streams(struct consumer *consumer);
enum { LETTER_OPEN, LETTER_REQUEST, LETTER_ELEMENTS, LETTER_REFUSED };
void stream_send(struct world *w, struct stream *s, bool to_worker, struct letter *letter,
                 int kind);

void world_tick(struct world *w);
void world_open(struct world *w, uint64_t seed, const struct knobs *knobs, enum bug bug);
void world_close(struct world *w);

#endif
