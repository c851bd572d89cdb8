/*
 * A cluster in virtual time: dispatchers as they are shipped (dispatcher.h), over the fake store on
 * bad ways, workers and clients as small actors, and a checker that keeps a model of its own. One
 * seed gives one run, always the same.
 *
 * Everything happens in events, ordered by time and then by creation. An event belongs to a
 * process; it is dropped when that life of the process is over and put off while the process is
 * frozen.
 */
#pragma once

#include "dispatcher.h"
#include "lists.h"

#include "base/buf.h"
#include "base/identity.h"
#include "base/map.h"
#include "base/rng.h"
#include "cache/window/window.h"
#include "client/read/read.h"
#include "coord/fake/fake.h"
#include "dispatcher/core/core.h"
#include "worker/session/book.h"
#include "worker/session/reading.h"
#include "worker/session/registration.h"
#include "worker/session/round_book.h"
#include "worker/session/splits.h"

#include <stdio.h>
#include <sys/queue.h>

#define SIM_CLUSTER "sim"
#define SIM_REPLICAS 3
#define SIM_WORKERS_MAX 6
#define SIM_CLIENTS_MAX 8
#define SIM_TASKS_MAX 256
#define SIM_PROVIDERS_MAX 2
#define SIM_SPLIT_ELEMENTS 10 /* as dispatchers are told */
#define SIM_DATASETS 6
#define SIM_SEATS_MAX 4 /* consumers of a coordinated job */
#define SIM_DOUBTS_MAX 16
#define SIM_LEASE_MS 2000
#define SIM_RPC_TIMEOUT_MS 400
#define SIM_HEARTBEAT_MS 500
#define SIM_WORKER_TIMEOUT_MS 5000
#define SIM_CLIENT_TIMEOUT_MS 8000
#define SIM_OUT_OF_REACH_MS 10000 /* sim_strand() */
#define SIM_GRACE_MS 6500         /* of a new leader, for workers: more than their timeout */

struct sim;

enum sim_bug {
    SIM_BUG_NONE,
#define X(name, text) SIM_BUG_##name,
    SIM_BUGS(X)
#undef X
        SIM_BUG_COUNT
};

enum sim_rare {
#define X(name, text) SIM_RARE_##name,
    SIM_RARES(X)
#undef X
        SIM_RARE_COUNT
};

struct sim_message;
struct sim_data;
struct sim_call;

/* What a kind of process does with what comes. What there is none of for it is NULL. */
struct sim_party {
    void (*request)(struct sim *sim, const struct sim_message *message);
    void (*reply)(struct sim *sim, struct sim_call *call, const struct sim_message *message);
    void (*push)(struct sim *sim, const struct sim_message *message);
    void (*data)(struct sim *sim, const struct sim_data *data);
    /* What it reads kills process @number of its kind; something starts it again. */
    void (*crash)(struct sim *sim, int number);
};

struct sim_process {
    const struct sim_party *party;
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
    uint64_t epoch;
    int64_t sent_at;
    int64_t memory;  /* of a reply: the load of the state that it was decided on */
    bool not_leader; /* or a leader that takes no calls at the moment */
    uint64_t stream; /* of a push: the call that began it */
    mr_error error;
    size_t size;
    /* of a reply for splits: the size of the request that it answers, which follows the body */
    size_t asked;
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
    void (*refresh)(struct sim *sim, struct sim_call *call); /* before it is sent again; or NULL */
};

/* ---------------------------------------------------------------- the store */

/* A transaction of a leader, which may be sent, and come, more than once. */
struct sim_batch {
    struct sim_batch *next; /* of all, freed with the store */
    char value[256];        /* of the batch key: no other batch has it */
    uint64_t number;        /* within its load */
    int64_t memory;
    bool applied;
    bool settled; /* its leader knows */
    bool denied;  /* somebody was told that it was not applied */
};

struct sim_change {
    char *key;
    char *value; /* NULL: delete */
};

/* A transaction is applied. @batch: NULL if it is none of a leader's batches. */
typedef void sim_applied_fn(struct sim *sim, const struct sim_change *changes, size_t n,
                            const struct sim_batch *batch);

struct sim_store {
    mr_fake *fake;
    sim_applied_fn *applied;
    int64_t revision;
    bool away;             /* nothing gets through */
    bool full;             /* nothing can be written */
    int64_t slow_ms;       /* transactions take so much longer: for stories */
    struct mr_map batches; /* by value */
    struct sim_batch *sent;
};

/* ---------------------------------------------------------------- replicas */

/* A call that a dispatcher has, or a stream. */
struct sim_asked {
    struct sim_asked *next;
    bool is_worker;
    int actor; /* -1: a standby that follows, number `standby` */
    uint64_t actor_life;
    uint64_t call;
    enum mr_command_kind kind;
    bool stream, answered, over;
    int standby;
    uint64_t following;
    bool changed; /* it was decided, and changed something */
    uint64_t batch;
    size_t size;
    uint8_t body[];
};

/* A standby's stream to the leader. */
struct sim_following {
    uint64_t id; /* 0: none */
    struct mr_follow *follow;
    int leader;
};

/* The last sign of a worker that a leader has looked at, on the clock of the time in which that
 * leader ran. */
struct sim_heard {
    char incarnation[33];
    int64_t ran_at;
    int64_t any_at; /* of anything it said, which a leader may take for one */
};

struct sim_replica {
    struct sim *sim;
    struct sim_process process;
    int number;
    struct dispatcher *dispatcher; /* NULL: it is dead */
    mr_store *way;                 /* to the store */
    bool is_cut;
    int64_t deaf_until;   /* its watches are silent */
    bool vanished;        /* its host has gone with it: nobody refuses connects */
    int64_t clock_origin; /* of the clock that does not jump: any */
    int64_t wall_skew;
    int64_t memory;           /* which of all loads it leads on */
    struct sim_batch *flight; /* the last that it sent */
    struct sim_asked *asked;
    struct sim_following following;
    int64_t turn_due;      /* INT64_MAX: no turn is waited for */
    int64_t busy_until;    /* the turn that runs takes so long */
    int64_t held_up_until; /* one that begins just before takes until then */
    int64_t stood_still;   /* all the time it was late; with the next two the checker's */
    int64_t term_ran_at;
    struct sim_heard heard[SIM_WORKERS_MAX];
};

static inline int64_t sim_replica_epoch(const struct sim_replica *replica)
{
    return replica->dispatcher != NULL ? mr_turn_epoch(dispatcher_machine(replica->dispatcher)) : 0;
}

/* ---------------------------------------------------------------- the data path */

/* Each split has one element. */
struct sim_element {
    size_t provider;
    uint64_t repetition; /* it was read in */
    uint64_t split;
};

enum sim_data_status { SIM_DATA_OK, SIM_DATA_MOVED, SIM_DATA_OVER, SIM_DATA_RELEASED };

/* Client to worker: what it received and returned so far, and how far it may be sent to. Back: what
 * it has not. */
struct sim_data {
    bool reply;
    int worker, client;
    uint64_t worker_life, client_life;
    char task[128];
    char client_id[33];
    uint64_t connection; /* nothing of an earlier one arrives */
    uint64_t session;
    size_t received, returned, limit;
    enum sim_data_status status;
    size_t first, n;
    struct sim_element elements[];
};

/* ---------------------------------------------------------------- actors */

enum sim_work {
    SIM_WORK_NONE,
    SIM_WORK_SPLITS, /* waits for a grant */
    SIM_WORK_BUSY,   /* reads some splits */
    SIM_WORK_FULL,   /* nobody takes what it made */
    SIM_WORK_OUT,    /* has read everything; elements are on their way */
    SIM_WORK_ENDING, /* says so */
    SIM_WORK_DONE,
};

struct sim_end;
struct sim_handed;

/* Of a window: where the last task of the iteration stood. */
struct sim_place {
    char iteration[64];
    struct mr_reading_stand stand;
};

struct sim_task {
    enum sim_work work;
    char id[128];
    char iteration[64];
    bool dynamic;
    bool repeats; /* at least once */
    int dataset;
    size_t nproviders;
    uint64_t passes;
    /* What it asks for, and where; what it was given, as `source` has it. */
    mr_splits *source; /* DYNAMIC */
    struct sim_call call;
    struct mr_split_request ask;
    size_t provider;
    uint64_t repetition;
    struct sim_handed *handed[SIM_PROVIDERS_MAX];
    size_t nhanded[SIM_PROVIDERS_MAX];
    /* What the engine reads. */
    size_t at_provider;
    uint64_t at_repetition;
    struct mr_range piece;
    uint64_t piece_repetition; /* that it was handed out of */
    mr_origin *origin;
    uint64_t busy;                /* matches its event */
    struct sim_element *elements; /* all it made */
    uint64_t *owners;             /* the session that was sent each of them last */
    size_t nelements, cap_elements, cap_owners;
    mr_block **buffer; /* a shuffle buffer: elements that wait for others, or for the end */
    size_t nbuffer, cap_buffer, buffer_size;
    mr_book *book; /* not producing */
    struct sim_end **ends;
    size_t nends, cap_ends;
    /* share.c */
    char production[64];
    bool producing, reads;       /* neither: for its own clients */
    bool joining, unread, waits; /* reading, as it was told */
    bool over;                   /* it has read all there is */
    struct mr_reading reading;
    mr_window_reader in_window;
    mr_window_reader *reader; /* `in_window`; NULL: there is none, or the window has gone */
    uint64_t was_next;        /* of it, before the window was trimmed */
    mr_window window;         /* producing */
    mr_block **log;           /* ... all its elements, in the window or not */
    size_t nlog, cap_log;
    bool complete; /* the pipeline has ended */
    bool given_up;
    struct sim_place *places;
    size_t nplaces, cap_places;
    /* rounds.c: of a coordinated job, else NULL. `complete` as above */
    mr_round_book *rounds;
    uint64_t fixed;                 /* groups so far */
    uint64_t end_round;             /* ... and behind the last one */
    uint64_t limits[SIM_SEATS_MAX]; /* that consumers have told on their streams */
    uint64_t streams;
    int64_t starts_at; /* nothing is made before */
};

struct sim_worker {
    struct sim_process process;
    int number;
    char incarnation[33];
    char address[32];
    uint32_t addresses; /* used so far */
    int leader;         /* guess */
    uint64_t epoch;     /* highest heard of */
    struct mr_registration registration;
    int64_t wakes_at; /* for it; 0: not */
    uint64_t stream;  /* on which updates come; 0: none */
    uint64_t stream_epoch;
    int64_t last_ok; /* sending time of the last call that was answered well */
    bool draining;
    int64_t drain_until; /* then it leaves */
    bool said_draining;  /* in its last heartbeat */
    bool leaving;        /* says so in the next */
    struct sim_call control;
    struct sim_task tasks[SIM_TASKS_MAX];
    int used; /* the first so many of them, at most */
};

/* The tasks that are there, one after the other; NULL after the last. */
static inline struct sim_task *sim_next_task(struct sim_worker *worker, struct sim_task *after)
{
    struct sim_task *task = after != NULL ? after + 1 : worker->tasks;

    while (task < worker->tasks + worker->used && task->work == SIM_WORK_NONE) {
        task++;
    }
    return task < worker->tasks + worker->used ? task : NULL;
}

/* An event of a task, unless `busy` is another one by then. */
struct sim_turn {
    struct sim_worker *worker;
    struct sim_task *task;
    uint64_t busy;
};

static inline bool sim_worker_is_registered(const struct sim_worker *worker)
{
    return worker->registration.watching && !worker->registration.must_register;
}

struct sim_plan {
    int dataset;
    bool dynamic;
    bool repeats; /* at least once */
    bool slow;    /* the application takes its time */
    char job[32]; /* "": anonymous */
    char trainer[8];
    bool shares, waits;
    uint64_t repetitions;
    uint32_t consumers, seat; /* of a coordinated job */
    bool resumes;             /* ... from this round on, whatever the others do */
    uint64_t resume_round;
};

struct sim_packet;
STAILQ_HEAD(sim_packets, sim_packet);

/* The way of a task's stream: what was written to it last is asked again until it is answered. Of a
 * coordinated job it is a connection, on which everything comes, in order, until it breaks. */
struct sim_line {
    uint64_t connection;
    uint64_t session;
    size_t received, returned, limit;
    bool written;         /* and not asked yet */
    bool cut;             /* by the reader; it hears of the end next */
    int64_t silent_since; /* when it was first asked in vain; 0: it was answered */
    /* coordinated */
    uint64_t number; /* 0: it is not */
    int worker;      /* -1: nobody is there */
    uint64_t worker_life;
    uint64_t stream; /* the worker's number for it, if it is `opened` */
    bool opened, broken;
    struct sim_packets packets[2]; /* to the client, to the worker */
};

struct sim_client {
    struct sim *sim;
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
    bool has_read;       /* `read` is under way */
    struct mr_read read; /* one repetition, by what ships */
    bool unwatched;      /* updates were missed: the next call begins the watch anew */
    bool ended;          /* the application has had all; what is left is to say goodbye */
    bool releasing;
    bool coming;    /* the application's next turn is due */
    int64_t run_at; /* `read` is looked at then; INT64_MAX: it waits for something */
    /* coordinated */
    bool failed; /* its read has: `failure`; it is started again */
    mr_error failure;
    char doubts[SIM_DOUBTS_MAX][128]; /* a bug's */
    size_t ndoubts;
};

/* ---------------------------------------------------------------- the world */

struct sim_dataset {
    const char *id;
    char fingerprint[33];
    size_t nproviders;
    int64_t splits[SIM_PROVIDERS_MAX];
    uint64_t passes;
    int64_t poison; /* > 0: the split that kills whoever reads it */
    bool ignores_errors;
};

/* Who can prove who it is. */
struct sim_known {
    struct sim_known *next;
    struct mr_identity identity;
};

struct sim_name {
    char id[33];
    char name[8];
};

/* elements.c: the judge's book of splits and elements */
struct sim_view;
struct sim_views {
    struct mr_map by_iteration;
    struct sim_view *list;
    struct mr_map jobs; /* by id: what its iterations are about */
    struct sim_view_job *job_list;
};

enum sim_moment {
#define X(name, text, most) SIM_MOMENT_##name,
    SIM_MOMENTS(X)
#undef X
        SIM_MOMENT_COUNT
};

/* What befalls a cluster. */
enum sim_fault {
    SIM_FAULT_KILL_REPLICA,
    SIM_FAULT_FREEZE_REPLICA,
    SIM_FAULT_KILL_WORKER,
    SIM_FAULT_FREEZE_WORKER,
    SIM_FAULT_KILL_CLIENT,
    SIM_FAULT_FREEZE_CLIENT,
    SIM_FAULT_KILL_BOTH, /* one machine had a worker and a client */
    SIM_FAULT_DRAIN_WORKER,
    SIM_FAULT_STORE_AWAY,
    SIM_FAULT_STORE_FULL,
    SIM_FAULT_CUT,
    SIM_FAULT_WALL_JUMP,
    SIM_FAULT_COUNT
};

struct sim_faults {
    unsigned loss_percent;       /* of messages */
    unsigned reply_loss_percent; /* of answers, beyond that */
    unsigned duplicate_percent;
    unsigned slow_percent;     /* of messages and transactions: seconds instead of milliseconds */
    unsigned minutes_permille; /* of messages: a copy that comes up to three minutes late */
    unsigned answer_loss_percent; /* of transactions */
    unsigned refusal_permille;    /* of transactions */
    unsigned late_turn_permille;
    int64_t store_slow_ms; /* transactions take so much longer, at most */
    /* of the moments in which an application could take some: it is not through with the last */
    unsigned busy_percent;
    int64_t pace_ms;                    /* from one fault to the next: at most */
    unsigned burst_percent;             /* ... or at once */
    unsigned weights[SIM_FAULT_COUNT];  /* how often each kind is drawn; all 0: none is */
    unsigned moments[SIM_MOMENT_COUNT]; /* of a thousand such: one in which a fault follows */
};

/* Who can send to whom: replicas, then workers, clients, the store. */
#define SIM_NODES (SIM_REPLICAS + SIM_WORKERS_MAX + SIM_CLIENTS_MAX + 1)
#define SIM_NODE_REPLICA(i) (i)
#define SIM_NODE_WORKER(i) (SIM_REPLICAS + (i))
#define SIM_NODE_CLIENT(i) (SIM_REPLICAS + SIM_WORKERS_MAX + (i))
#define SIM_NODE_STORE (SIM_NODES - 1)

/* Coordinated reads, in walks about them. */
struct sim_rounds {
    uint32_t consumers;       /* 0: it is another walk */
    uint64_t groups;          /* of each worker's pipeline; 0: endless */
    uint32_t keep, ahead;     /* rounds, of books and consumers */
    bool eager;               /* groups are made before anybody has room for them */
    unsigned company_percent; /* a consumer that begins anew loses a worker, too */
    struct judge *judge;
    int holders[SIM_SEATS_MAX]; /* the client that was started last in each place */
    bool restarting[SIM_SEATS_MAX];
    /* Something came for a consumer; its read has failed, of which the client is told. */
    void (*run)(struct sim *sim, struct sim_client *client);
    sim_fn *failed;
};

struct sim {
    uint64_t seed;
    struct mr_rng rng;
    int64_t now;
    struct sim_event *events; /* a heap */
    size_t nevents, cap_events;
    uint64_t order;
    uint64_t calls;
    uint64_t connections; /* of readers, ever */
    int64_t memories;
    enum sim_bug bug;
    struct sim_faults faults;
    struct sim_rounds rounds;
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
    struct mr_map identities; /* by id */
    struct sim_known *known;
    uint64_t probe; /* a call whose answers are counted (sim_probe()) */
    unsigned probe_answers;
    int probe_code; /* of the last one */
    struct mr_buf transcript;
    size_t compared;    /* of it, by a story */
    bool workers_lost;  /* a worker's life has ended */
    bool clients_lost;  /* a reader has died */
    size_t buffer_size; /* of shuffle buffers, in stories */
    size_t ahead; /* elements that a task makes before others are gone, beside its shuffle buffer */
    uint64_t want;    /* splits that a worker asks for: twice, once, or not at all so many */
    int64_t start_ms; /* all readers start within this time */
    size_t appetite;  /* of applications that are not slow: fewer elements than that at once */
    size_t window;    /* of some productions; the others' are longer than anything */
    /* > 1: everything happens at multiples of it, what is due at once in any order */
    int64_t grain_ms;
    int64_t stranded_at; /* sim_strand() */
    void (*befall)(struct sim *sim, struct sim_worker *worker, struct sim_client *client);
    unsigned report_percent; /* of heartbeats: they say what is finished */
    int64_t job_gc_ms;       /* 0: the core's default */
    bool gc_dynamic;

    /* the checker's model */
    struct mr_map committed; /* "<kind> <what>" -> text */
    struct sim_views views;  /* of iterations: what became of each split */
    struct mr_map told;      /* what somebody was told and relies on */
    char **strings;          /* all keys and texts above */
    size_t nstrings, cap_strings;
    char violation[512]; /* the first one; "": none */
    uint64_t grants, ends, takeovers;
};

/* cluster.c */
void sim_init(struct sim *sim, uint64_t seed);       /* 0: plain */
void sim_add_workers(struct sim *sim, int n);        /* and start them */
void sim_add_clients(struct sim *sim, int n);        /* their plans are the caller's */
void sim_client_come(struct sim *sim, void *client); /* as an event */
void sim_start_clients(struct sim *sim, int64_t within_ms);
void sim_free(struct sim *sim);

/* world.c: time, chance, the transcript, who is meant */
/* Which dataset has that id; 0: none has. */
int sim_dataset_of(const struct sim *sim, const char *id);
struct sim_task *sim_find_task(struct sim_worker *worker, const char *id); /* or NULL */
void sim_world_free(struct sim *sim);
void sim_at(struct sim *sim, int64_t at, struct sim_process *process, sim_fn *fn, void *arg,
            bool owned);
void sim_after(struct sim *sim, int64_t ms, struct sim_process *process, sim_fn *fn, void *arg,
               bool owned);
/* The same with a copy of @size bytes at @arg. */
void sim_later(struct sim *sim, int64_t ms, struct sim_process *process, sim_fn *fn,
               const void *arg, size_t size);
/* One event; false if there is none. */
bool sim_step(struct sim *sim);
void sim_run_until(struct sim *sim, int64_t at);
bool sim_all_done(const struct sim *sim);
uint64_t sim_draw(struct sim *sim, uint64_t n);
bool sim_chance(struct sim *sim, unsigned percent);
/* Somebody's id, with a key that makes it his. */
void sim_hex_id(struct sim *sim, char out[33]);
const struct mr_identity *sim_identity(const struct sim *sim, const char *id);
int64_t sim_delay(struct sim *sim);
void sim_say(struct sim *sim, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Something is wrong: the first one is kept, and ends the walk. */
void sim_violation(struct sim *sim, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
bool sim_is_cut(const struct sim *sim, int from, int to);
void sim_rare(struct sim *sim, enum sim_rare rare);
/* Here something may happen to who is involved; NULL: to anybody. */
void sim_moment(struct sim *sim, enum sim_moment moment, struct sim_worker *worker,
                struct sim_client *client);
/* Until then applications take their time, or all would have been read. */
bool sim_is_stranding(const struct sim *sim);
void sim_name(struct sim *sim, const char *id, char kind, int number);

/* faults.c */
/* Random faults from now until @until. */
void sim_start_faults(struct sim *sim, int64_t until);
/* Something does happen to who is involved. */
void sim_befall(struct sim *sim, struct sim_worker *worker, struct sim_client *client);
/* At @at no reader reaches the first worker for a while; when a task of it was closed for that, all
 * others die. */
void sim_strand(struct sim *sim, int64_t at);
/* swarm.c: what this walk is made of: its faults, who takes part, and what they read. */
void sim_swarm(struct sim *sim);
/* Other faults, and other things to read for the same readers, whose jobs have other names: that of
 * @hour. */
void sim_swarm_again(struct sim *sim, unsigned hour);
/* A walk about coordinated reads. */
void sim_swarm_rounds(struct sim *sim);
/* No message from @a gets to @b, nor, unless @one_way, back, for so long. */
void sim_cut(struct sim *sim, int a, int b, bool one_way, int64_t ms);
void sim_kill_replica(struct sim *sim, int replica, int64_t down_ms);
/* The leader keeps its lease for so long, and nobody deposes it, whatever it does. */
void sim_keep_leading(struct sim *sim, int replica, int64_t ms);
/* actors.c: ask @replica once, as client @client; the answers are counted. */
void sim_probe(struct sim *sim, int client, int replica, enum mr_command_kind kind,
               const ProtobufCMessage *request);

/* store.c */
void sim_store_init(struct sim *sim, sim_applied_fn *applied);
void sim_store_free(struct sim *sim);
/* A dispatcher's way to the store. */
mr_store *sim_store_connect(struct sim *sim, struct sim_replica *replica);
void sim_store_sync(struct sim *sim); /* somebody was cut off, or is no longer */
/* Its watches are silent for so long. */
void sim_store_deafen(struct sim *sim, struct sim_replica *replica, int64_t ms);
void sim_store_fill(struct sim *sim, bool full);
bool sim_store_has(const struct sim *sim, const char *key);
void sim_store_each(const struct sim *sim, const char *prefix,
                    void (*fn)(void *ctx, const char *key, const char *value, size_t size),
                    void *ctx);
/* Is it the last one that was applied? */
bool sim_store_has_batch(const struct sim *sim, const struct sim_batch *batch);
unsigned sim_store_count(const struct sim *sim, const char *prefix);
int64_t sim_store_epoch(const struct sim *sim); /* of whoever has the leader key; 0: nobody */
void sim_store_depose(struct sim *sim);         /* the leader's lease ends now */
void sim_store_keep_leader(struct sim *sim, int64_t ms); /* or not before */

/* replica.c */
void sim_replica_start(struct sim *sim, struct sim_replica *replica);
void sim_replica_stop(struct sim *sim, struct sim_replica *replica);
int sim_leader(const struct sim *sim); /* -1: none is serving */
/* The call that it decides has changes, in that batch. */
void sim_replica_wrote(struct sim_replica *replica, uint64_t batch);

/* seams.c: where what is shipped calls what is shipped, the judge listens, and bugs are put in. */
/* @replica has a turn from now on; NULL: nobody has. */
void sim_seams(struct sim *sim, struct sim_replica *replica);

/* actors.c: messages and calls; worker.c; client.c */
void sim_send(struct sim *sim, struct sim_message *message);
void sim_data_send(struct sim *sim, const struct sim_data *data);
void sim_call(struct sim *sim, struct sim_call *call, bool is_worker, int actor,
              enum mr_command_kind kind, const ProtobufCMessage *request);
void sim_call_cancel(struct sim_call *call);
void sim_worker_start(struct sim *sim, struct sim_worker *worker);
void sim_worker_again(struct sim *sim, void *worker); /* as an event */
/* One that is dead. */
void sim_worker_start_at(struct sim *sim, struct sim_worker *worker, const char *address);
void sim_worker_drop_tasks(struct sim_worker *worker);
void sim_worker_stop(struct sim *sim, struct sim_worker *worker);
/* It finishes what it has begun, gives back the rest, and leaves; after @ms at the latest. It is
 * started again. */
void sim_worker_drain(struct sim *sim, struct sim_worker *worker, int64_t ms);
void sim_client_start(struct sim *sim, struct sim_client *client);
void sim_client_stop(struct sim *sim, struct sim_client *client);
/* It is done and may start once more, as another process that reads something else. */
void sim_client_again(struct sim_client *client);

/* task.c: one task of a worker */
void sim_task_begin(struct sim *sim, struct sim_worker *worker,
                    const Millrace__TaskAssignment *assignment);
void sim_task_drop(struct sim_task *task);
/* Its worker drains from now on. */
void sim_task_drain(struct sim *sim, struct sim_worker *worker, struct sim_task *task);
void sim_task_reply(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                    const struct sim_call *call, const struct sim_message *message);
/* The sessions of a client that is gone are over. */
void sim_task_release(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                      const char *client);
void sim_task_data(struct sim *sim, const struct sim_data *ask);
/* What is finished of each provider; freed with mr_free(). */
struct mr_grant_report *sim_task_reports(const struct sim_task *task, size_t *n);

/* What has become possible: more splits, or the end. */
void sim_task_go_on(struct sim *sim, struct sim_worker *worker, struct sim_task *task);
/* Reading: element @at of the log is ready for whoever asks. */
void sim_task_put(struct sim_task *reading, const struct sim_element *element, uint64_t at);
/* Producing: the element at that place of its log. */
const struct sim_element *sim_task_logged(const struct sim_task *log, size_t at);

/* rounds.c: coordinated reads. A task's rounds, as it is told them for the first time or anew. */
void sim_rounds_assign(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                       Millrace__RoundAssignment *rounds);
/* A consumer's connection to @worker (-1: nobody answers there). */
void sim_rounds_connect(struct sim *sim, struct sim_line *line, int worker);
void sim_rounds_write(struct sim *sim, struct sim_client *client, struct sim_line *line,
                      const Millrace__ReadRequest *request);
bool sim_rounds_broke(const struct sim *sim, const struct sim_line *line);
/* What is under way on it is lost. */
void sim_line_clear(struct sim_line *line);
/* Its application takes an element; false: there is none, or no more. */
bool sim_rounds_take(struct sim *sim, struct sim_client *client);
void sim_rounds_spoil_update(const struct sim *sim, struct sim_client *client,
                             Millrace__RoundsUpdate *rounds);
void sim_rounds_spoil_report(const struct sim_client *client, Millrace__ConsumerReport *report);
/* Whoever has that place dies; @client does not get to run for a while. */
void sim_rounds_kill(struct sim *sim, uint32_t seat);
void sim_rounds_stood_still(struct sim *sim, const struct sim_client *client);
/* A consumer's record is committed; a leader has taken over. */
void sim_rounds_placed(struct sim *sim, const char *key, const char *value);
void sim_rounds_term(struct sim *sim);
/* Somebody who took turns is lost, and may not be decided about yet. */
bool sim_rounds_are_closing(const struct sim *sim);

/* share.c: productions on a worker */
void sim_share_begin(struct sim *sim, struct sim_task *task,
                     const Millrace__TaskAssignment *assignment);
void sim_share_change(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                      const Millrace__TaskAssignment *assignment);
void sim_share_open_readers(struct sim *sim, struct sim_worker *worker);
/* Before @task is dropped. */
void sim_share_drop(struct sim_worker *worker, struct sim_task *task);
/* A task that read it was dropped. */
void sim_share_left(struct sim *sim, struct sim_worker *worker, const char *production);
struct sim_task *sim_share_producing(struct sim_worker *worker, const char *production);
/* The log has one element more. */
void sim_share_append(struct sim_task *log);
bool sim_share_wants_more(struct sim *sim, struct sim_worker *worker, struct sim_task *log);
void sim_share_complete(struct sim *sim, struct sim_worker *worker, struct sim_task *log);
/* As far ahead as its clients ask for. */
void sim_share_read(struct sim *sim, struct sim_worker *worker, struct sim_task *reading);
/* All there is was read. Says so once. */
bool sim_share_ends(struct sim_worker *worker, struct sim_task *reading);
/* What it says of a task that is joining; false: nothing yet. */
bool sim_share_answer(struct sim *sim, struct sim_worker *worker, const struct sim_task *task,
                      Millrace__JoinAnswer *ret);

/* reader.c: what runs a read: its lines to workers, the application that takes */
extern const struct mr_read_port sim_reader_port;
void sim_reader_data(struct sim *sim, const struct sim_data *data);
/* The application comes; it is at the end then, perhaps. */
void sim_reader_come(struct sim *sim, struct sim_client *client);
/* Streams that are over are told of; what nobody needs any more is freed. */
void sim_reader_tidy(struct sim *sim, struct sim_client *client);
void sim_reader_reset(struct sim_client *client);
/* client.c: something has happened to its read. */
void sim_client_run(struct sim *sim, struct sim_client *client);
/* The application has had all of its repetition. */
void sim_client_drained(struct sim *sim, struct sim_client *client);

/* checker.c: what was seen from outside */
void *sim_parse(struct sim *sim, const ProtobufCMessageDescriptor *desc, const char *key,
                const char *value);
/* It is being applied. */
void sim_check_batch(struct sim *sim, const struct sim_change *changes, size_t n,
                     const struct sim_batch *batch);
void sim_check_dataset(struct sim *sim, const char *id, const mr_error *error);
void sim_check_opened(struct sim *sim, const struct sim_client *client,
                      const Millrace__OpenReply *reply);
void sim_check_client_update(struct sim *sim, const struct sim_client *client,
                             const Millrace__ClientUpdate *update);
void sim_check_client_gone(struct sim *sim, const struct sim_client *client);
void sim_check_worker_gone(struct sim *sim, const struct sim_worker *worker);
/* It leaves with nothing open: no loss may come of it. */
void sim_check_leaves_clean(struct sim *sim, const struct sim_worker *worker);
void sim_check_worker_update(struct sim *sim, const struct sim_worker *worker,
                             const Millrace__WorkerUpdate *update);
void sim_check_grant(struct sim *sim, const struct sim_task *task, uint64_t seq,
                     const Millrace__GetSplitsReply *reply);
/* A request for splits was decided, or its stored answer found. */
void sim_check_decided(struct sim *sim, const struct sim_replica *replica,
                       const Millrace__GetSplitsRequest *request);
/* Is it the id of a recovery task? */
bool sim_is_recovery(const char *task);
bool sim_was_decided(const struct sim *sim, const Millrace__GetSplitsRequest *request);
void sim_check_registered(struct sim *sim, const struct sim_worker *worker);
void sim_check_ended(struct sim *sim, const struct sim_task *task);
/* A term begins; its leader looks at a message; its timers have decided something. */
void sim_check_term(struct sim *sim, struct sim_replica *replica);
void sim_check_heard(struct sim *sim, struct sim_replica *replica, enum mr_command_kind kind,
                     const char *incarnation);
void sim_check_timer(struct sim *sim, const struct sim_replica *replica,
                     const struct mr_outcome *out);
void sim_check_applied(struct sim *sim, const struct sim_batch *batch);
void sim_check_free(struct sim *sim);

/* elements.c */
void sim_view_job(struct sim *sim, const Millrace__JobRecord *job);
void sim_view_iteration(struct sim *sim, const Millrace__IterationRecord *it);
void sim_view_end(struct sim *sim, const char *iteration, const Millrace__IterationEnd *end);
/* Somebody was told of the end. */
void sim_view_told(struct sim *sim, const char *iteration, const Millrace__IterationEnd *end);
/* It is written that @task was given these; @memory: the load of the state on which that was
 * decided. */
void sim_view_granted(struct sim *sim, const char *iteration, const char *task, size_t provider,
                      const Millrace__GrantRecord *grant, int64_t memory);
/* @task gives back, and will not read, splits that it was handed; not @really: it may not. */
void sim_view_gave_back(struct sim *sim, const struct sim_task *task,
                        const Millrace__GivenBackRange *back, bool really);
/* It was told that they are taken. */
void sim_view_taken_back(struct sim *sim, const struct sim_task *task);
/* A worker was told of splits of which nothing was written: were they taken back in the same
 * transaction? */
bool sim_view_given_and_taken(struct sim *sim, const struct sim_task *task,
                              const Millrace__GetSplitsReply *reply);
/* A call that reported these grants finished was answered. */
void sim_view_finished(struct sim *sim, const struct sim_task *task,
                       const Millrace__GrantReport *report, int64_t memory);
void sim_view_returned(struct sim *sim, const char *iteration, const struct sim_element *element);
/* It fell out of the window before the job had it; @held: though the job's reader was to hold the
 * window. */
void sim_view_skipped(struct sim *sim, const char *iteration, const struct sim_element *element,
                      bool held);
void sim_view_production(struct sim *sim, const Millrace__ProductionRecord *production);
/* The job is gone, and with it what its iterations use. */
void sim_view_job_gone(struct sim *sim, const char *id);
/* The production is gone: nobody may use it any more. */
void sim_view_production_gone(struct sim *sim, const char *id);
void sim_view_redelivered(struct sim *sim, const char *iteration,
                          const struct sim_element *element);
void sim_view_crashed(struct sim *sim, const char *iteration);
/* When everybody has read everything. */
void sim_view_all_over(struct sim *sim);
void sim_views_free(struct sim *sim);
