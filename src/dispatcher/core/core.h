/*
 * The dispatcher's judgement: datasets, jobs, iterations, tasks, splits, workers and clients as a
 * pure state machine.
 *
 * One command goes in (a request, or "a timer is due"); changes to commit and effects that rest on
 * them come out. There is no I/O, clock, thread or randomness in here: time and seeds arrive inside
 * the command. Not for: electing a leader, batching, fencing, sockets (src/dispatcher/loop and
 * coord/ do that).
 *
 * How a loop drives it
 * --------------------
 *  takeover  core = mr_core_new(config with the epoch just won); mr_core_load() for every key under
 *            the prefixes of mr_core_prefixes(), all read at one revision >= epoch, in any order;
 *            mr_core_ready(now); then commands.
 *  command   mr_core_step(). The state has moved when it returns: the next command is decided on
 *            top of it.
 *  changes   go into the batch that is being gathered, behind those of earlier commands (the last
 *            write to a key wins).
 *  effects   rest on the changes of this command and of all commands before it. They are held until
 *            the batch that carries the newest of those is committed. An effect with `fenced`
 *            denies or ends something, or is the first contact of a process: it needs a fenced
 *            transaction that was *sent after* the step, a no-op one if there is nothing to write.
 *            An effect without it is a positive refresh: it may leave at once if nothing is in
 *            flight and the leader's right to answer from memory holds.
 *  failure   a batch that did not commit, or a step that returned < 0: free the core, drop every
 *            held effect (calls get UNAVAILABLE, MAYBE_APPLIED if they had changes), load again.
 *  timers    call MR_COMMAND_TIMER when mr_core_next_timer() is due, after the messages that are
 *            already there. A turn that started late by d says so in `late_ms`: the core's time
 *            then stands still for d, which moves every deadline.
 *
 * A command never changes more than MR_CORE_CHANGES_MAX keys, nor more than MR_TXN_BYTES_MAX bytes,
 * so each is one transaction by construction. What is refused is refused before anything moved.
 *
 * Ids of jobs and iterations are "<epoch>.<counter>": one that was never committed is never given
 * again. Task ids are opaque to everybody else and the same under every leader.
 *
 * Threads: none. A core belongs to one thread.
 */
#pragma once

#include <millrace/base.h>

#include "base/limits.h"
#include "base/quota.h"
#include "millrace/service.pb-c.h"
#include "millrace/state.pb-c.h"

typedef struct mr_core mr_core;

/* Keys changed by one command; leaves room for the guard's own operations in a transaction of
 * MR_TXN_OPS_MAX. */
#define MR_CORE_CHANGES_MAX 90

/* Bounds of the state: beyond them a command is answered RESOURCE_EXHAUSTED. One host has its share
 * of them (hosts.c). */
#define MR_CORE_DATASETS_MAX 100000
#define MR_CORE_JOBS_MAX 100000
#define MR_CORE_ITERATIONS_MAX 200000
#define MR_CORE_WORKERS_MAX 20000
#define MR_CORE_CLIENTS_MAX 100000
#define MR_CORE_TASKS_MAX 1000000
#define MR_CORE_PROVIDERS_MAX 64
#define MR_CORE_TAGS_MAX 32
#define MR_CORE_SPEC_BYTES_MAX (128 * MR_KIB)
#define MR_GRANT_MS 2000 /* workers ask for so much work at a time */
#define MR_GRANT_MS_MAX 30000
#define MR_CORE_PART_BYTES (256 * MR_KIB) /* of a definition, before base64 */

/* Format of the stored state; what it uses beyond that is in `features` of the schema. */
#define MR_SCHEMA_VERSION 1

/* Options of a dispatcher that the core goes by, as they are called in src/options/dispatcher.def,
 * which says what each is. Records are kept for a retention after the end of what they are about:
 * below an hour each leader starts anew, above it wall_ms is compared. */
#define MR_CORE_TIMES(X)                                                                           \
    X(worker_timeout_ms)                                                                           \
    X(client_timeout_ms)                                                                           \
    X(job_gc_timeout_ms)                                                                           \
    X(finished_retention_ms)                                                                       \
    X(client_retention_ms)                                                                         \
    X(worker_retention_ms)                                                                         \
    X(job_retention_ms)                                                                            \
    X(dataset_retention_ms)                                                                        \
    X(heartbeat_ms)                                                                                \
    X(stall_timeout_ms)                                                                            \
    X(task_timeout_ms)

struct mr_core_config {
    uint64_t epoch; /* create revision of the leader key */
    /* how often this epoch's leader has loaded before: what counts within the epoch goes on
     * counting */
    uint32_t loads;

#define X(name) int64_t name;
    MR_CORE_TIMES(X) /* 0: the default */
#undef X
    bool gc_dynamic; /* a DYNAMIC one too, though its job has not gone on to a later one */
    /* 20 s: nobody is given up earlier than this after mr_core_ready() */
    int64_t takeover_grace_ms;
    bool may_resign; /* MR_EFFECT_RESIGN is understood */

    /* Called with one line (no newline) for each move of the state; NULL: none. */
    void (*trace)(void *ctx, const char *line);
    /* The same with the few of them that operators want to read: workers that come and go;
     * @is_loss: what is lost or has failed. NULL: none. */
    void (*note)(void *ctx, bool is_loss, const char *line);
    void *trace_ctx;
};

mr_core *mr_core_new(const struct mr_core_config *config); /* NULL: out of memory */
void mr_core_free(mr_core *core);

/* ---------------------------------------------------------------- loading */

/* What to load, relative to the root, NULL-terminated: a key, or all keys below if it ends in '/'.
 * "blobs/" is not among them: only its keys are needed, see mr_core_load_blob(). */
const char *const *mr_core_prefixes(void);

/* Take in one key of those. MR_EDATALOSS: a value that does not parse or contradicts its key
 * (nothing was changed; the loop says so and does not serve: guessing here would lose acknowledged
 * objects). MR_EPRECOND: the state is of a newer version, which the message names; it must not be
 * served. */
int mr_core_load(mr_core *core, const char *key, const void *value, size_t size, mr_error *err);

/* Optional: a key below "blobs/" (keys only). Parts that no dataset names are left-overs and will
 * be deleted. */
int mr_core_load_blob(mr_core *core, const char *key, mr_error *err);

/* Optional: the revision of the store at which all was read. No epoch that is stored can be
 * later. */
void mr_core_loaded_at(mr_core *core, uint64_t revision);

/*
 * Everything is loaded: derive what is derivable and re-arm every timer in full from @now_ms. What
 * is bad spoils no more than it has to. An iteration of which a part is bad (tasks/, cursors/,
 * grants/, rounds/, consumers/) has ended with an error that names the key; a worker (workers/) is
 * lost, a client (clients/) not known. Jobs that rest on a bad record of another kind (jobs/,
 * datasets/, iterations/, productions/) are set aside: nobody can read them, nothing of them is
 * deleted, and the next core looks again.
 *
 * MR_EDATALOSS: the schema is bad. MR_EUNAVAIL: records are of a later epoch, so somebody else
 * leads by now.
 */
int mr_core_ready(mr_core *core, int64_t now_ms, mr_error *err);
/* Each record that was bad, or missing: @line is "'<key>': <why>". */
void mr_core_each_flaw(const mr_core *core,
                       void (*fn)(void *ctx, const char *key, const char *line), void *ctx);

/* The value of "schema", for a store that has none: it is to be the first write. Freed with
 * mr_free(). */
int mr_core_schema(const mr_core *core, char **ret, size_t *size, mr_error *err);

/* A value that is right for whatever leaders of this version may have written. */
#define MR_SCHEMA_FULL                                                                             \
    "{\"version\":1,\"minReader\":1,\"features\":[\"at_least_once\",\"sharing\",\"draining\","     \
    "\"rounds\"]}"
/* There is none, though there are other keys: which features they use is not known.
 * MR_EDATALOSS. */
int mr_core_schema_missing(mr_error *err);

/* The keys that are only left over, and that commands of the timer will delete: what they refer to
 * is gone already. */
void mr_core_each_left_over(const mr_core *core, void (*fn)(void *ctx, const char *key), void *ctx);

/* ---------------------------------------------------------------- commands */

enum mr_command_kind {
    MR_COMMAND_STORE_PART,       /* no reply */
    MR_COMMAND_REGISTER_DATASET, /* -> RegisterDatasetReply */
    MR_COMMAND_GET_DATASET,      /* -> GetDatasetReply */
    MR_COMMAND_OPEN,             /* -> OpenReply */
    /* -> ClientUpdate: the current state; changes follow as MR_EFFECT_PUSH_ITERATION */
    MR_COMMAND_WATCH_CLIENT,
    MR_COMMAND_CLIENT_HEARTBEAT, /* -> ClientHeartbeatReply */
    MR_COMMAND_RELEASE_CLIENT,   /* -> ReleaseClientReply */
    MR_COMMAND_REGISTER_WORKER,  /* -> RegisterWorkerReply */
    MR_COMMAND_WATCH_WORKER,     /* -> WorkerUpdate; changes follow as MR_EFFECT_PUSH_WORKER */
    MR_COMMAND_WORKER_HEARTBEAT, /* -> WorkerHeartbeatReply */
    MR_COMMAND_GET_SPLITS,       /* -> GetSplitsReply */
    MR_COMMAND_TASK_ENDED,       /* -> TaskEndedReply */
    MR_COMMAND_DELETE_DATASET,   /* -> DeleteDatasetReply */
    MR_COMMAND_DELETE_JOB,       /* -> DeleteJobReply */
    MR_COMMAND_DRAIN_WORKER,     /* -> DrainWorkerReply */
    MR_COMMAND_STATUS,           /* -> StatusReply */
    MR_COMMAND_TIMER,            /* no reply */
};

/* A definition goes to the store in parts, before the command that makes the dataset exist: one
 * STORE_PART for each MR_CORE_PART_BYTES of it, under a fresh random @blob, then REGISTER_DATASET
 * naming @blob and @parts. What others ask may be decided between them. Nothing needs to be stored
 * (parts = 0) if mr_core_has_definition() says so just before. */
struct mr_part_store {
    const char *blob; /* 32 hex digits, drawn by the caller */
    uint32_t index;
    const void *data;
    size_t size;
};

/* A definition that was parsed and validated off the loop. Everything is lent for the step. With
 * `known` only its content and names are given, and it is MR_ENOTFOUND unless it is registered
 * already. */
struct mr_dataset_register {
    bool known;
    const char *dataset_id;  /* "": made from the fingerprint */
    const char *fingerprint; /* 32 hex digits */
    const char *compression; /* "AUTO", "SNAPPY", "NONE" */
    const void *spec;        /* ElementSpec */
    size_t spec_size;
    int64_t cardinality;
    const int64_t *providers; /* splits of each; -1: endless */
    /* of each: what its pipeline makes of a split, at most; 0: not known. NULL: of none */
    const uint64_t *split_elements;
    const char *const *sources; /* name of each, for people: "range (step 0)"; NULL: not known */
    size_t nproviders;
    bool ignores_errors;      /* a split that nobody can read may be left out */
    const char *unsplittable; /* why DYNAMIC cannot be had, naming the operator; NULL: it can */
    const char *summary;      /* one line for people: "range > map > batch" */
    uint64_t definition_size;
    const char *blob;
    uint32_t parts;
};

/* What only the loop knows of the service, for STATUS. Lent for the step. */
struct mr_status_about {
    const char *cluster;
    const char *incarnation;
    const char *leader; /* host:port */
    const char *version;
    const char *const *dispatchers; /* host:port */
    size_t ndispatchers;
    int64_t store_bytes_per_s;
    int64_t store_silent_ms; /* > 0: nothing can be proven, so tell from memory, and say so */
};

struct mr_command {
    enum mr_command_kind kind;
    int64_t now_ms;  /* a clock that does not jump; any origin; never below an earlier command's */
    int64_t wall_ms; /* since 1970, for people */
    /* how long this turn of the loop started after it should have; 0 if not late */
    int64_t late_ms;
    /* the store takes deletes alone: TIMER does nothing but delete. Commands that put should not
     * come */
    bool full;
    /* of work that a grant is for, MR_GRANT_MS and more; 0: MR_GRANT_MS. Longer ones are fewer
     * writes */
    int64_t grant_ms;
    /* REGISTER_WORKER, and WATCH_WORKER of a newcomer: the stream of who is at that address
     * (mr_core_worker_at()) stands, or is awaited */
    bool worker_watches;
    uint64_t token;   /* comes back in the MR_EFFECT_REPLY */
    uint64_t seed;    /* OPEN: 64 random bits, used if an iteration is created */
    bool attach_only; /* OPEN: whoever asks may join a job, not make one */
    /* whose it is: what it makes counts as that host's; NULL: nobody's. Lent for the step */
    const char *host;
    /* who asks, and how much he may have: he owns what it makes. NULL or "": nobody in particular;
     * NULL: as much as he likes. Lent for the step */
    const char *owner;
    const struct mr_quota *quota;
    union { /* lent for the step */
        const struct mr_part_store *part;
        const struct mr_dataset_register *dataset;
        const Millrace__GetDatasetRequest *get_dataset;
        const Millrace__OpenRequest *open;
        const Millrace__WatchClientRequest *watch_client;
        const Millrace__ClientHeartbeatRequest *client_heartbeat;
        const Millrace__ReleaseClientRequest *release_client;
        const Millrace__RegisterWorkerRequest *register_worker;
        const Millrace__WatchWorkerRequest *watch_worker;
        const Millrace__WorkerHeartbeatRequest *worker_heartbeat;
        const Millrace__GetSplitsRequest *get_splits;
        const Millrace__TaskEndedRequest *task_ended;
        const Millrace__DeleteDatasetRequest *delete_dataset;
        const Millrace__DeleteJobRequest *delete_job;
        const Millrace__DrainWorkerRequest *drain_worker;
        const struct mr_status_about *status;
    };
};

/* ---------------------------------------------------------------- outcomes */

struct mr_change {
    char *key;   /* relative to the root: "jobs/digits" */
    char *value; /* one line of canonical JSON; NULL: delete the key */
    size_t size;
};

enum mr_effect_kind {
    MR_EFFECT_REPLY, /* answer to the call with `token`; to a watch: its first update */
    /* ClientUpdate for the streams that watch iteration `topic`: follows on those still held */
    MR_EFFECT_PUSH_ITERATION,
    /* WorkerUpdate for the stream of worker incarnation `topic`: follows on those still held */
    MR_EFFECT_PUSH_WORKER,
    MR_EFFECT_END_CLIENT, /* end the stream of client `topic` with `error` */
    MR_EFFECT_END_WORKER, /* end the stream of worker incarnation `topic` with `error` */
    /* many workers seem lost, maybe by this process's own fault: another one should lead */
    MR_EFFECT_RESIGN,
};

struct mr_effect {
    enum mr_effect_kind kind;
    bool fenced;      /* see "effects" above */
    bool from_memory; /* an answer that says that it proves nothing: it goes at once */
    uint64_t token;   /* REPLY */
    char topic[80];   /* PUSH_*: iteration id or incarnation; END_*: client or incarnation */
    mr_error error;   /* REPLY, END_*: code 0 is success */
    /* REPLY (never NULL), PUSH_*; its `header` is NULL: the loop's to fill in */
    ProtobufCMessage *message;
    /* REPLY to GET_DATASET: where the definition is ("blobs/<blob>/<index>"), until the next
     * step */
    const char *blob;
    uint32_t parts;
};

/* Say @update and what follows on it, @next of the same topic, in one: @update becomes both, @next
 * is freed. False: that cannot be (rounds are told one by one), and both are as they were. */
bool mr_client_update_join(Millrace__ClientUpdate *update, Millrace__ClientUpdate *next);
/* The same for a worker, where @next says of clients that they are gone and nothing else. */
bool mr_core_worker_update_join(Millrace__WorkerUpdate *update, Millrace__WorkerUpdate *next);

/* Splits that a step moved, for counters: as decided, whether or not it is committed. */
struct mr_tally {
    uint64_t assigned;
    uint64_t returned;   /* by the loss of their worker, to be handed out again */
    uint64_t given_back; /* unopened, by a worker that drains */
    uint64_t lost;
    /* not splits: the time of readers that was reported, as far as it is news */
    uint64_t worked_ns;
    uint64_t waited_ns;
};

struct mr_outcome {
    struct mr_change *changes; /* no key twice */
    size_t nchanges;
    struct mr_effect *effects; /* in the order in which they should leave */
    size_t neffects;
    struct mr_tally tally;
    size_t cap_changes; /* the core's business */
    size_t cap_effects;
};

/* Free what a step put into @out; it may be stepped into again. NULL-safe for a zeroed outcome.
 * Messages that the loop keeps are to be taken out first (set `message` to NULL; free with
 * protobuf_c_message_free_unpacked(msg, NULL)). */
void mr_outcome_clear(struct mr_outcome *out);

/* Decide @in. Requests that are wrong, late or refused are answered (MR_EFFECT_REPLY with an
 * error), which is MR_OK here; < 0 means that the core cannot go on (out of memory, a broken
 * invariant): free it and load again. @out must be zeroed or cleared. */
int mr_core_step(mr_core *core, const struct mr_command *in, struct mr_outcome *out, mr_error *err);

/* When MR_COMMAND_TIMER is due, on the clock of now_ms; INT64_MAX: no need. */
int64_t mr_core_next_timer(const mr_core *core);

/* The key of the dataset of that id, relative to the root. */
void mr_dataset_key(const char *id, char *out, size_t size);

/* Is a definition with this fingerprint stored, so that its parts need not be written again? */
bool mr_core_has_definition(const mr_core *core, const char *fingerprint);
/* The incarnation of the worker that is registered at @address and not lost; NULL: there is none.
 * Lent. *@awaited: it lived under the leader before this one, and has had no time to come back:
 * nobody has a stream just after a takeover. */
const char *mr_core_worker_at(const mr_core *core, const char *address, bool *awaited);
/* The address of a worker that has registered and does not watch yet; NULL: it is none. Lent. */
const char *mr_core_newcomer_address(const mr_core *core, const char *incarnation);

/* ---------------------------------------------------------------- numbers */

enum mr_task_shown {
    MR_SHOWN_OPEN,
    MR_SHOWN_ENDED,
    MR_SHOWN_DRAINED,
    MR_SHOWN_FAILED,
    MR_SHOWN_LOST,
    MR_SHOWN_COUNT
};
/* "open", ...: what the status document calls it. */
const char *mr_task_shown_name(enum mr_task_shown shown);

/* How many there are of everything that the status document lists. */
struct mr_core_counts {
    size_t workers_live;
    size_t workers_draining;
    size_t workers_lost;
    size_t clients; /* attached */
    size_t datasets;
    size_t jobs_active; /* with an iteration that is not finished */
    size_t jobs_idle;
    size_t iterations_open;
    size_t iterations_finished;
    size_t tasks[MR_SHOWN_COUNT]; /* of open iterations and of productions */
    size_t tasks_stalled;
    size_t productions;
    size_t windows_on_disk;
    size_t windows_in_memory;  /* degraded */
    size_t unshared_guarantee; /* open iterations of jobs that may not share though they were to */
    size_t unshared_apart;     /* open iterations that did not join a production that was there */
    size_t keys; /* of the state in the store, once all that was decided is committed */
};
void mr_core_count(const mr_core *core, struct mr_core_counts *ret);

/* What the status document says of all iterations of a job together. */
struct mr_job_numbers {
    const char *label; /* for people: name, or name+trainer; "(anonymous)". Lent for the call */
    uint32_t clients;
    uint64_t skipped;
    uint64_t lost_splits;
    uint64_t repeated_splits;
    /* the next two are of its newest iteration that is not finished, if it has one */
    bool coordinated;
    uint64_t position;
    uint64_t rounds_per_s;
};
struct mr_core_visitor {
    void (*job)(void *ctx, const struct mr_job_numbers *numbers);
    /* Other consumers of the job have waited so long for this one to receive a round. */
    void (*waited_for)(void *ctx, const char *label, uint32_t consumer, uint64_t ms);
    /* So many of a thousand parts of its readers' time went to that (docs/run/why.md). */
    void (*why)(void *ctx, const char *label, const char *bound, uint32_t permille);
    void *ctx;
};
/* All jobs, active ones first. */
void mr_core_visit_jobs(const mr_core *core, const struct mr_core_visitor *visitor);

/* What others say, to be stored, shown or sent: as much of it as fits, as UTF-8 text of one line. A
 * byte that is none is a '?'. */
void mr_line_copy(const char *text, char *out, size_t size);

/* Walk everything and check what must hold between the parts; MR_EINTERNAL says what does not. For
 * tests and slow assertions. */
int mr_core_check(const mr_core *core, mr_error *err);
