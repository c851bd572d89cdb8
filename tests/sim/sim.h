/*
 * A cluster in virtual time: dispatcher replicas (the real core over a small model of the commit loop), a store that
 * delays, loses and applies late, workers and clients as small actors, and a checker that keeps a model of its own. One
 * seed gives one run, always the same.
 *
 * Everything happens in events, ordered by time and then by creation. An event belongs to a process; it is dropped when
 * that life of the process is over and put off while the process is frozen.
 */
#ifndef MR_TESTS_SIM_SIM_H
#define MR_TESTS_SIM_SIM_H

#include "base/map.h"
#include "base/rng.h"
#include "dispatcher/core/core.h"

#include <stdio.h>

#define SIM_REPLICAS 3
#define SIM_WORKERS_MAX 6
#define SIM_CLIENTS_MAX 8
#define SIM_TASKS_MAX 64
#define SIM_PROVIDERS_MAX 2
#define SIM_DATASETS 4
#define SIM_LEASE_MS 2000
#define SIM_RPC_TIMEOUT_MS 400
#define SIM_HEARTBEAT_MS 500
#define SIM_WORKER_TIMEOUT_MS 5000
#define SIM_CLIENT_TIMEOUT_MS 8000

struct sim;

/* Bugs to put in, which the checker has to find: name, what is wrong. */
#define SIM_BUGS(X)                                                                                                    \
    X(NO_FENCE, "batches do not compare the leader key, nor the batch before")                                         \
    X(ANSWER_EARLY, "effects leave when they are decided")                                                             \
    X(DECIDE_ON_COMMITTED, "commands are decided on what the store has, not on what was decided before")               \
    X(READ_SETTLES, "after a timeout a read decides whether the batch was applied")                                    \
    X(NO_NONCE, "a batch whose compares fail was not applied: its calls are told so")                                  \
    X(REFUSAL_SETTLES, "a definite refusal counts although an earlier attempt may have been applied")                  \
    X(SOFT_DENIALS, "denials and first contacts are answered from memory")                                             \
    X(TIMERS_FIRST, "timers are looked at before the messages that are there")                                         \
    X(LATENESS_IGNORED, "a turn that starts late does not move deadlines")

enum sim_bug {
    SIM_BUG_NONE,
#define X(name, text) SIM_BUG_##name,
    SIM_BUGS(X)
#undef X
        SIM_BUG_COUNT
};

/* Rare branches: over a run of the suite each must have been taken, or it proves less than it seems to. */
#define SIM_RARES(X)                                                                                                   \
    X(SETTLED_BY_NONCE, "a batch had been applied, its answer was lost, and sending it again showed so")               \
    X(DEPOSED_COMMITTED, "a deposed leader learned that its last batch had been applied")                              \
    X(DEPOSED_REFUSED, "the fence refused a batch of a deposed leader")                                                \
    X(LATE_ATTEMPT, "an attempt reached the store after a later one of the same batch had")                            \
    X(REFUSED, "the store refused a batch for good, and the state was loaded again")                                   \
    X(REFUSED_LATE, "a refusal after an ambiguous attempt settled nothing")                                            \
    X(STORE_FULL, "the store had no space for a batch")                                                                \
    X(STORE_CUT, "the leader alone could not reach the store")                                                         \
    X(ADMISSION, "a call was refused because the batch in flight did not come back")                                   \
    X(LATE_TURN, "a turn of the loop began late")                                                                      \
    X(PAUSED_BEYOND_LEASE, "a leader slept until another one led")                                                     \
    X(PAUSED_WITH_LEASE, "a leader slept for longer than a worker's timeout, and kept its lease")                      \
    X(WALL_JUMP, "the wall clock of a leader jumped")                                                                  \
    X(MINUTES_LATE, "a request arrived a minute late or more")                                                         \
    X(DUPLICATE, "a request arrived twice")                                                                            \
    X(CUT, "two processes could not reach each other")                                                                 \
    X(CUT_ONE_WAY, "one could send to the other, and not the other way round")                                         \
    X(ANSWER_AGAIN, "splits were asked for again, and the stored answer was given")                                    \
    X(ANSWER_BY_SUCCESSOR, "the stored answer was given by another leader than had decided it")                        \
    X(WORKER_LOST, "a worker was given up")                                                                            \
    X(WORKER_BACK, "a worker that had been given up came back")                                                        \
    X(CLIENT_BACK, "a reader that had been given up was attached again")                                               \
    X(SUPERSEDED, "a newer process at its address replaced a worker")                                                  \
    X(BRAKE, "so many workers were silent that none was given up")

enum sim_rare {
#define X(name, text) SIM_RARE_##name,
    SIM_RARES(X)
#undef X
        SIM_RARE_COUNT
};

struct sim_process {
    uint64_t life; /* events of earlier ones are dropped */
    bool alive;
    int64_t frozen_until;
};

typedef void sim_fn(struct sim *sim, void *arg);

struct sim_event {
    int64_t at;
    uint64_t order;
    struct sim_process *process; /* NULL: the world's */
    uint64_t life;
    sim_fn *fn;
    void *arg; /* flat memory, freed after the event, if `owned` */
    bool owned;
};

/* ---------------------------------------------------------------- messages */

/* A request, a reply (`reply`) or a push (`reply`, call = 0). */
struct sim_message {
    enum mr_command_kind kind;
    bool reply;
    bool is_worker; /* the actor: worker or client ... */
    int actor;      /* ... of this number */
    uint64_t actor_life;
    int replica;
    uint64_t call;
    uint64_t copies; /* 1: it was sent twice */
    uint64_t epoch;
    int64_t sent_at;
    bool not_leader; /* or a leader that takes no calls at the moment */
    bool aborted;    /* "was not applied": only with a bug put in */
    uint64_t nonce;  /* of the batch that was said not to be applied */
    uint64_t stream; /* of a push: the call that began it */
    mr_error error;
    size_t size;
    uint8_t body[];
};

/* A call of an actor: sent again, to whoever may lead, until it is answered. */
struct sim_call {
    uint64_t id; /* 0: idle */
    enum mr_command_kind kind;
    uint8_t *body;
    size_t size;
    int64_t began;
    unsigned tries;
};

/* ---------------------------------------------------------------- the store */

struct sim_kv {
    char *key;
    char *value;
    int64_t create;
    int64_t mod;
};

struct sim_batch;

struct sim_store {
    struct sim_kv *kvs; /* unordered */
    size_t count, cap;
    struct mr_map index;
    int64_t revision;
    int leader; /* replica, -1: none */
    int64_t leader_create;
    int64_t lease_until;
    bool away; /* nothing gets through */
    bool full; /* nothing can be written */
    struct sim_batch *batches;
};

struct sim_change {
    char *key;
    char *value; /* NULL: delete */
};

/* Immutable once it was sent: copies of it may be under way for long. */
struct sim_batch {
    struct sim_batch *next; /* of all, freed with the store */
    int replica;
    int64_t epoch;
    int64_t batch_mod; /* of meta/batch before */
    uint64_t nonce;
    uint64_t number;   /* within the term */
    unsigned attempts; /* that were sent */
    unsigned arrived;  /* the newest of them that reached the store */
    bool applied;
    bool denied; /* somebody was told that it was not */
    struct sim_change *changes;
    size_t count;
};

/* ---------------------------------------------------------------- replicas */

enum sim_role { SIM_STANDBY, SIM_LOADING, SIM_LEADING };

struct sim_stream {
    bool is_worker;
    int actor;
    uint64_t actor_life;
    uint64_t call; /* that began it */
    char topic[80];
};

/* The last sign of a worker that a leader has looked at, on the clock of the time in which that leader ran. */
struct sim_heard {
    char incarnation[33];
    int64_t ran_at;
};

struct sim_replica {
    struct sim_process process;
    int number;
    enum sim_role role;
    mr_core *core;
    int64_t clock_origin; /* of the clock that does not jump: any */
    int64_t wall_skew;
    int64_t epoch;
    int64_t batch_mod;
    uint64_t batch_number;
    uint32_t loads; /* earlier ones of this term */
    struct sim_message **mailbox;
    size_t nmailbox, cap_mailbox;
    int64_t turn_due; /* INT64_MAX: no turn is waited for */
    int64_t next_tick;
    int64_t busy_until;  /* the turn that runs takes so long */
    int64_t late_ms;     /* not told to the core yet */
    int64_t stood_still; /* all the time it was late; with the next two the checker's */
    int64_t term_ran_at;
    struct sim_heard heard[SIM_WORKERS_MAX];
    int64_t fenced_at; /* when the last batch that committed was sent */
    int64_t flight_sent;
    struct sim_change *gathering;
    size_t ngathering, cap_gathering;
    struct sim_message **held, **flying; /* replies and pushes, ready to leave */
    size_t nheld, cap_held, nflying;
    struct sim_batch *flight;
    struct sim_stream streams[SIM_WORKERS_MAX + SIM_CLIENTS_MAX];
    size_t nstreams;
};

/* ---------------------------------------------------------------- actors */

enum sim_work { SIM_WORK_NONE, SIM_WORK_SPLITS, SIM_WORK_BUSY, SIM_WORK_ENDING, SIM_WORK_DONE };

struct sim_task {
    enum sim_work work;
    char id[128];
    char iteration[64];
    bool dynamic;
    size_t nproviders;
    int64_t splits[SIM_PROVIDERS_MAX];
    size_t provider;
    uint64_t repetition;
    uint64_t passes;
    uint64_t seq[SIM_PROVIDERS_MAX];
    struct sim_call call;
    uint64_t busy; /* matches its event */
};

struct sim_worker {
    struct sim_process process;
    int number;
    char incarnation[33];
    char address[32];
    uint32_t addresses; /* used so far */
    int leader;         /* guess */
    uint64_t epoch;     /* highest heard of */
    bool registered;
    uint64_t stream; /* on which updates come; 0: none */
    uint64_t stream_epoch;
    uint64_t version;
    int64_t last_ok; /* sending time of the last call that was answered well */
    struct sim_call control;
    struct sim_task tasks[SIM_TASKS_MAX];
};

struct sim_plan {
    int dataset;
    bool dynamic;
    char job[32]; /* "": anonymous */
    uint64_t repetitions;
};

struct sim_client {
    struct sim_process process;
    int number;
    char id[33];
    struct sim_plan plan;
    uint64_t repetition;
    int leader;
    uint64_t epoch;
    char job_id[64];
    char iteration[64];
    bool registered; /* the dataset */
    bool attached;
    bool done;
    uint64_t stream;
    uint64_t stream_epoch;
    uint64_t version;
    int64_t last_ok;
    struct sim_call control;
};

/* ---------------------------------------------------------------- the world */

struct sim_dataset {
    const char *id;
    char fingerprint[33];
    size_t nproviders;
    int64_t splits[SIM_PROVIDERS_MAX];
    uint64_t passes;
};

struct sim_name {
    char id[33];
    char name[8];
};

struct sim_faults {
    unsigned loss_percent; /* of messages */
    unsigned duplicate_percent;
    unsigned slow_percent;        /* of messages and transactions: seconds instead of milliseconds */
    unsigned minutes_permille;    /* of messages: a copy that comes up to three minutes late */
    unsigned answer_loss_percent; /* of transactions */
    unsigned refusal_permille;    /* of transactions */
    unsigned late_turn_permille;
    int64_t pace_ms; /* from one fault to the next: at most */
    bool kill_replicas, freeze_replicas, kill_workers, freeze_workers, kill_clients;
    bool store_away, store_full, cuts, wall_jumps;
};

/* Who can send to whom: replicas, then workers, clients, the store. */
#define SIM_NODES (SIM_REPLICAS + SIM_WORKERS_MAX + SIM_CLIENTS_MAX + 1)
#define SIM_NODE_REPLICA(i) (i)
#define SIM_NODE_WORKER(i) (SIM_REPLICAS + (i))
#define SIM_NODE_CLIENT(i) (SIM_REPLICAS + SIM_WORKERS_MAX + (i))
#define SIM_NODE_STORE (SIM_NODES - 1)

struct sim {
    uint64_t seed;
    struct mr_rng rng;
    int64_t now;
    struct sim_event *events; /* a heap */
    size_t nevents, cap_events;
    uint64_t order;
    uint64_t calls;
    enum sim_bug bug;
    struct sim_faults faults;
    int64_t cut_until[SIM_NODES][SIM_NODES]; /* from, to */
    uint64_t rares[SIM_RARE_COUNT];
    struct sim_store store;
    struct sim_replica replicas[SIM_REPLICAS];
    struct sim_worker workers[SIM_WORKERS_MAX];
    int nworkers;
    struct sim_client clients[SIM_CLIENTS_MAX];
    int nclients;
    struct sim_dataset datasets[SIM_DATASETS];
    bool record; /* keep the transcript */
    bool plain;  /* for stories: chance plays no part, ids are counted and shown as "w0", "c1" */
    unsigned ids;
    struct sim_name names[16];
    size_t nnames;
    uint64_t probe; /* a call whose answers are counted (sim_probe()) */
    unsigned probe_answers;
    int probe_code; /* of the last one */
    char *transcript;
    size_t transcript_len, transcript_cap;
    bool workers_lost; /* a worker's life has ended */
    int64_t job_gc_ms; /* 0: the core's default */

    /* the checker's model */
    struct mr_map committed; /* "<kind> <what>" -> text */
    struct mr_map handed;    /* "<iteration>/<provider>/<repetition>/<split>" -> task */
    struct mr_map told;      /* what somebody was told and relies on */
    char **strings;          /* all keys and texts above */
    size_t nstrings, cap_strings;
    char violation[512]; /* the first one; "": none */
    uint64_t grants, ends, takeovers;
};

/* world.c */
void sim_init(struct sim *sim, uint64_t seed); /* 0: plain */
void sim_add_workers(struct sim *sim, int n);  /* and start them */
void sim_add_clients(struct sim *sim, int n);  /* their plans are the caller's */
void sim_start_clients(struct sim *sim, int64_t within_ms);
void sim_free(struct sim *sim);
void sim_at(struct sim *sim, int64_t at, struct sim_process *process, sim_fn *fn, void *arg, bool owned);
void sim_after(struct sim *sim, int64_t ms, struct sim_process *process, sim_fn *fn, void *arg, bool owned);
/* One event; false if there is none. */
bool sim_step(struct sim *sim);
void sim_run_until(struct sim *sim, int64_t at);
bool sim_all_done(const struct sim *sim);
uint64_t sim_draw(struct sim *sim, uint64_t n);
bool sim_chance(struct sim *sim, unsigned percent);
void sim_hex_id(struct sim *sim, char out[33]);
int64_t sim_delay(struct sim *sim);
void sim_say(struct sim *sim, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Random faults from now until @until. */
void sim_start_faults(struct sim *sim, int64_t until);
/* No message from @a gets to @b, nor, unless @one_way, back, for so long. */
void sim_cut(struct sim *sim, int a, int b, bool one_way, int64_t ms);
bool sim_is_cut(const struct sim *sim, int from, int to);
void sim_rare(struct sim *sim, enum sim_rare rare);
void sim_kill_replica(struct sim *sim, int replica, int64_t down_ms);
int sim_leader(const struct sim *sim); /* -1: none is serving */
void sim_name(struct sim *sim, const char *id, char kind, int number);
/* Ask @replica once, as client @client; the answers are counted. */
void sim_probe(struct sim *sim, int client, int replica, enum mr_command_kind kind, const ProtobufCMessage *request);

/* store.c */
void sim_store_free(struct sim_store *store);
void sim_store_campaign(struct sim *sim, struct sim_replica *replica);
void sim_store_renew(struct sim *sim, struct sim_replica *replica);
void sim_store_send(struct sim *sim, struct sim_replica *replica, struct sim_batch *batch);
struct sim_batch *sim_batch_new(struct sim *sim);
const struct sim_kv *sim_store_get(const struct sim_store *store, const char *key);

/* loop.c */
void sim_replica_start(struct sim *sim, struct sim_replica *replica);
void sim_replica_message(struct sim *sim, struct sim_replica *replica, const struct sim_message *message);
/* Tell those who listen to @replica that their streams are over. */
void sim_streams_break(struct sim *sim, struct sim_replica *replica);

/* replica.c */
mr_core *sim_replica_load(struct sim *sim, struct sim_replica *replica, uint64_t epoch);
/* Send what has gathered, even if that is nothing; no batch is in flight. */
void sim_replica_commit(struct sim *sim, struct sim_replica *replica);
/* The same if there is something to send, and nothing in flight. */
void sim_replica_pump(struct sim *sim, struct sim_replica *replica);
/* Takes both strings. */
void sim_replica_gather(struct sim_replica *replica, char *key, char *value);
void sim_replica_drop(struct sim *sim, struct sim_replica *replica); /* forget everything of the term */
void sim_replica_elected(struct sim *sim, struct sim_replica *replica, int64_t epoch);
/* What the store says to an attempt. */
enum sim_verdict { SIM_COMMITTED, SIM_NOT_COMMITTED, SIM_REFUSED, SIM_FULL };
struct sim_answer {
    struct sim_batch *batch;
    enum sim_verdict verdict;
    bool deposed; /* the leader key is somebody else's */
    int64_t batch_mod;
};
void sim_replica_settled(struct sim *sim, struct sim_replica *replica, const struct sim_answer *answer);
void sim_replica_deposed(struct sim *sim, struct sim_replica *replica);

/* actors.c: calls; worker.c; client.c */
void sim_send(struct sim *sim, struct sim_message *message);
void sim_call(struct sim *sim, struct sim_call *call, bool is_worker, int actor, enum mr_command_kind kind,
              const ProtobufCMessage *request);
void sim_call_cancel(struct sim_call *call);
void sim_actor_message(struct sim *sim, struct sim_message *message);
void sim_worker_start(struct sim *sim, struct sim_worker *worker);
void sim_worker_stop(struct sim *sim, struct sim_worker *worker);
void sim_worker_reply(struct sim *sim, struct sim_worker *worker, struct sim_call *call,
                      const struct sim_message *message);
void sim_worker_push(struct sim *sim, struct sim_worker *worker, const struct sim_message *message);
void sim_client_start(struct sim *sim, struct sim_client *client);
void sim_client_stop(struct sim *sim, struct sim_client *client);
void sim_client_reply(struct sim *sim, struct sim_client *client, struct sim_call *call,
                      const struct sim_message *message);
void sim_client_push(struct sim *sim, struct sim_client *client, const struct sim_message *message);
const ProtobufCMessageDescriptor *sim_request_type(enum mr_command_kind kind);
const ProtobufCMessageDescriptor *sim_reply_type(enum mr_command_kind kind);

/* checker.c: what was seen from outside */
void sim_violation(struct sim *sim, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void sim_check_commit(struct sim *sim, const char *key, const char *value);
void sim_check_dataset(struct sim *sim, const char *id, const mr_error *error);
void sim_check_opened(struct sim *sim, const struct sim_client *client, const Millrace__OpenReply *reply);
void sim_check_client_update(struct sim *sim, const struct sim_client *client, const Millrace__ClientUpdate *update);
void sim_check_client_gone(struct sim *sim, const struct sim_client *client);
void sim_check_worker_gone(struct sim *sim, const struct sim_worker *worker);
void sim_check_worker_update(struct sim *sim, const struct sim_worker *worker, const Millrace__WorkerUpdate *update);
void sim_check_grant(struct sim *sim, const struct sim_task *task, uint64_t seq, const Millrace__GetSplitsReply *reply);
/* A request for splits was decided, or its stored answer found. */
void sim_check_decided(struct sim *sim, const struct sim_replica *replica, const struct sim_message *request);
void sim_check_registered(struct sim *sim, const struct sim_worker *worker);
void sim_check_ended(struct sim *sim, const struct sim_task *task);
/* A term begins; its leader looks at a message; its timers have decided something. */
void sim_check_term(struct sim *sim, struct sim_replica *replica);
void sim_check_heard(struct sim *sim, struct sim_replica *replica, const struct sim_message *message);
void sim_check_timer(struct sim *sim, const struct sim_replica *replica, const struct mr_outcome *out);
/* A call was answered that its batch was not applied. */
void sim_check_aborted(struct sim *sim, const struct sim_message *message);
void sim_check_applied(struct sim *sim, const struct sim_batch *batch);
void sim_check_free(struct sim *sim);

#endif
