/*
 * What the dispatcher knows: records, and what is derived from them or soft; and who may ask what of it.
 *
 * An object owns its record (the message that is its value in the store). Running out of memory is
 * sticky (mr_core_fail()): the step goes on with what it has and is thrown away at its end, core
 * and all.
 */
#ifndef MR_DISPATCHER_MODEL_MODEL_H
#define MR_DISPATCHER_MODEL_MODEL_H

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/map.h"
#include "base/shares.h"
#include "dispatcher/core/core.h"
#include "rounds/schedule.h"

#include <millrace/base.h>
#include <sys/queue.h>

/* Only model/ writes what it knows: elsewhere the fields of its objects are constant. */
#ifdef MR_MODEL_WRITES
#define MR_RO
#else
#define MR_RO const
#endif

#define MR_ID_HEX 32     /* digits of ids that callers draw: clients, worker incarnations, blobs */
#define MR_STAMP_SIZE 42 /* "<epoch>.<counter>" and its NUL */
/* "<incarnation>.<stamp of its registration>" */
#define MR_WORKER_REF_SIZE (MR_ID_HEX + 1 + MR_STAMP_SIZE)
/* and the number of a recovery task */
#define MR_TASK_ID_SIZE (MR_STAMP_SIZE + MR_WORKER_REF_SIZE + 11)
#define MR_KEY_SIZE 1024      /* longest key: a name with every byte escaped */
#define MR_UNREACHABLE_MAX 64 /* workers that one client may report */
#define MR_JOB_ITERATIONS_MAX 1024
/* that have registered and do not watch yet: a worker does so at once */
#define MR_NEWCOMERS_MAX 1024
/* of one worker: further ones are learned when the iteration ends */
#define MR_RELEASED_LISTED_MAX 4096

/* Grants: an unmeasured worker starts small, since a split may be a whole file. */
#define MR_GRANT_FIRST_MAX 8
/* the least share at the end is worth a grant's time divided by this: 10 ms */
#define MR_GRANT_PARTS_MAX 200
/* At least once: splits that were in one crash are granted so many at a time, ... */
#define MR_GRANT_RETRY_MAX 16
/* ... those that were in two are suspects: as many, but in a task that has nothing else, ... */
#define MR_SUSPECT_LOSSES 2
/* ... those that were in three one by one, ... */
#define MR_ALONE_LOSSES 3
/* ... and one that was in four, the last of them alone, is given up. */
#define MR_QUARANTINE_LOSSES 4
#define MR_GRANTS_OPEN_MAX 32 /* of a task: more are joined */
#define MR_RECOVERIES_MAX 16  /* open recovery tasks of an iteration */

/* At least so long after a takeover nothing is collected: those who may still want it look for the
 * leader first. */
#define MR_RESTART_GRACE_MS (15 * 1000)
/* Retention below this is armed anew by each leader; above it goes by the wall time in the record,
 * or daily failovers would keep things for ever. */
#define MR_LONG_MS (3600 * 1000)
/* Repetitions that were collected before they ended, of which a job remembers the last ones. */
#define MR_COLLECTED_MAX 32
/* Ranges of ended repetitions that one job keeps apart. */
#define MR_ENDED_RANGES_MAX 64
/* Finished iterations of one job whose records are kept for those who ask late, short epochs or
 * not. */
#define MR_FINISHED_KEPT_MAX 64

/* Of this core's clock; no deadline. */
/* No number that is stored is above it, so that a few of them can be added up. What callers say is
 * a quarter of it at most: what is made of it is stored. */
#define MR_COUNT_MAX ((uint64_t)INT64_MAX / 2)
#define MR_COUNT_SAID_MAX (MR_COUNT_MAX / 4)
#define MR_NEVER INT64_MAX

/*
 * The kinds of records: name, prefix of the keys, message; in an order in which none refers to what
 * comes later. Of CURSOR, ROUNDS and CONSUMER the object is the iteration, of GRANT the task; they
 * are told apart by provider or place.
 */
#define MR_STORED(RECORD)                                                                          \
    RECORD(SCHEMA, "schema", schema)                                                               \
    RECORD(DATASET, "datasets/", dataset)                                                          \
    RECORD(JOB, "jobs/", job)                                                                      \
    RECORD(WORKER, "workers/", worker)                                                             \
    RECORD(PRODUCTION, "productions/", production)                                                 \
    RECORD(ITERATION, "iterations/", iteration)                                                    \
    RECORD(TASK, "tasks/", task)                                                                   \
    RECORD(CURSOR, "cursors/", cursor)                                                             \
    RECORD(GRANT, "grants/", grant)                                                                \
    RECORD(ROUNDS, "rounds/", rounds)                                                              \
    RECORD(CONSUMER, "consumers/", consumer)                                                       \
    RECORD(CLIENT, "clients/", client)

enum mr_stored_kind {
#define RECORD(name, prefix, message) MR_STORED_##name,
    MR_STORED(RECORD)
#undef RECORD
        MR_STORED_KINDS
};

struct mr_stored_info {
    const char *prefix; /* of its key */
    const ProtobufCMessageDescriptor *desc;
};

/* A record that a step has changed. Zeroed: a key that is final. */
struct mr_touched {
    enum mr_stored_kind kind;
    bool is_open; /* it is to be written once more */
    const void *object;
    size_t index;
};

/* A moment in the order of decisions: leaders' epochs, then a count within each. */
struct mr_stamp {
    uint64_t epoch;
    uint64_t counter;
};
typedef struct {
    struct mr_stamp at;
} mr_job_id;
typedef struct {
    struct mr_stamp at;
} mr_iteration_id;

/* In an object that time does something to (alarms.c). Zeroed: off. */
enum mr_alarm_kind {
    MR_ALARM_WORKER,
    MR_ALARM_CLIENT,
    MR_ALARM_ITERATION,
    MR_ALARM_JOB,
    MR_ALARM_DATASET,
    MR_ALARM_PRODUCTION
};
struct mr_alarm {
    enum mr_alarm_kind kind;
    size_t at; /* place in the heap, from 1; 0: off */
    int64_t due;
};

struct mr_split_range {
    uint64_t first;
    uint64_t count;
};

/* Parts of a definition, shared by the datasets whose fingerprint it has. */
struct mr_blob {
    char *fingerprint;
    char *id;
    uint32_t parts;
    /* of what is in them: who registers the content again may have it in another form */
    uint64_t size;
    uint32_t datasets;
    TAILQ_HEAD(, mr_production) productions;
};

struct mr_dataset_entry {
    TAILQ_ENTRY(mr_dataset_entry) link;
    MR_RO Millrace__DatasetRecord *MR_RO rec;
    struct mr_blob *MR_RO blob;
    struct mr_alarm alarm;
    MR_RO int64_t since; /* last used; on the core's clock, from the takeover at the earliest */
    struct mr_share *MR_RO share;
    MR_RO uint32_t jobs;
    MR_RO uint32_t productions;
};

struct mr_job {
    TAILQ_ENTRY(mr_job) link;
    MR_RO Millrace__JobRecord *MR_RO rec;
    MR_RO mr_job_id id;
    /* what makes it unique: "<encoded name>", "<...>+<encoded trainer>" or "~<client>"; the key
     * is "jobs/<slot>" */
    char *MR_RO slot;
    char *MR_RO label; /* for people */
    TAILQ_ENTRY(mr_job) in_family;
    struct mr_family *MR_RO family; /* of a trainer: jobs of its name; else NULL */
    struct mr_dataset_entry *MR_RO dataset;
    TAILQ_HEAD(, mr_iteration) iterations;
    MR_RO uint32_t niterations;
    MR_RO uint32_t nfinished;    /* of those */
    MR_RO uint32_t live_clients; /* of all its iterations */
    struct mr_alarm alarm;
    /* without clients; on the core's clock, from the takeover at the earliest */
    MR_RO int64_t idle_since;
};

struct mr_cursor {
    MR_RO Millrace__CursorRecord *MR_RO rec; /* NULL: nothing was handed out */
};

struct mr_grant {
    MR_RO Millrace__GrantRecord *MR_RO rec; /* NULL: nothing was asked for */
    MR_RO bool is_behind;                   /* finished grants are still in the store */
};

/* Splits with one history. */
struct mr_owed_splits {
    uint64_t first; /* position */
    uint64_t count;
    uint32_t losses;
};

struct mr_iteration {
    TAILQ_ENTRY(mr_iteration) link;   /* of the core */
    TAILQ_ENTRY(mr_iteration) in_job; /* of its job */
    TAILQ_ENTRY(mr_iteration) touched;
    TAILQ_ENTRY(mr_iteration) unsettled; /* waiting for mr_iteration_settle() */
    MR_RO Millrace__IterationRecord *MR_RO rec;
    struct mr_share *MR_RO share;
    struct mr_share *MR_RO open_share; /* while it is open: only those have tasks */
    MR_RO mr_iteration_id id;
    MR_RO struct mr_stamp losses_counted_to;
    struct mr_job *MR_RO job;          /* NULL: hidden, of a production */
    struct mr_production *MR_RO makes; /* that one */
    /* a job's: it reads this one and hands out nothing itself; NULL: it does */
    struct mr_production *MR_RO uses;
    struct mr_dataset_entry *MR_RO
        dataset; /* this and the next two: of the job or the production */
    const struct mr_iteration_rules *MR_RO rules; /* of its kind (rules/kinds.h) */
    MR_RO Millrace__ProcessingMode mode;
    MR_RO Millrace__Guarantee guarantee;
    TAILQ_ENTRY(mr_iteration) in_production; /* uses */
    MR_RO int64_t join_until;                /* joining: nobody is waited for any longer */
    TAILQ_HEAD(, mr_task) tasks;             /* empty once finished */
    TAILQ_HEAD(, mr_client) clients;
    struct mr_cursor *MR_RO cursors; /* rec->n_providers */
    MR_RO uint64_t version;          /* of its task list */
    MR_RO uint64_t follows;          /* the version before this step, */
    /* and what its clients hear at the end of it; NULL: nobody listens */
    MR_RO Millrace__ClientUpdate *MR_RO delta;
    struct mr_coordination *MR_RO
        rounds; /* of a coordinated job, until it is finished; else NULL */
    MR_RO uint32_t open_tasks;
    MR_RO uint32_t draining_tasks;  /* of those: their workers drain */
    MR_RO uint32_t ended_tasks;     /* by themselves: the pipeline is over */
    MR_RO uint32_t uncounted_tasks; /* lost, and not counted yet */
    MR_RO uint32_t live_clients;
    struct mr_alarm alarm;
    /* finished, or else unread; on the core's clock, from the takeover at the earliest */
    MR_RO int64_t since;
    MR_RO bool is_unsettled;
    MR_RO bool is_touched; /* push to its clients at the end of the step */
    /* which of its records was bad, and why: it has ended for that, which is not written yet; or
     * NULL */
    char *MR_RO broken;
};

enum mr_task_state { MR_TASK_OPEN, MR_TASK_ENDED, MR_TASK_LOST };

struct mr_task {
    TAILQ_ENTRY(mr_task) in_iteration;
    TAILQ_ENTRY(mr_task) in_worker;
    struct mr_iteration *MR_RO iteration;
    struct mr_core_worker *MR_RO worker;
    MR_RO char id[MR_TASK_ID_SIZE];
    MR_RO enum mr_task_state state;
    MR_RO bool counted;                            /* LOST: in the iteration's losses */
    MR_RO bool drained;                            /* ENDED: because its worker drained */
    MR_RO Millrace__TaskRecord *MR_RO rec;         /* NULL: nothing differs from what is derived */
    struct mr_grant *MR_RO grants;                 /* one a provider */
    MR_RO uint64_t produced, delivered, abandoned; /* soft, as is the next one */
    /* since when clients have waited for something of it in vain; MR_NEVER: they do not */
    MR_RO int64_t waited_for;
    MR_RO bool finished; /* soft: its pipeline has ended, and its end waits for clients */
    /* soft: it makes a production, and nothing came of it for long, or its worker drains */
    MR_RO bool barren;
    /* soft: what its worker says of production and window; NULL: nothing */
    struct mr_sharing_report *MR_RO sharing;
};

struct mr_core_worker {
    TAILQ_ENTRY(mr_core_worker) link;
    TAILQ_ENTRY(mr_core_worker) touched;
    MR_RO Millrace__WorkerRecord *MR_RO rec;
    struct mr_share *MR_RO share;
    /* of this life, for ever: "<incarnation>.<stamp of its registration>" */
    MR_RO char ref[MR_WORKER_REF_SIZE];
    MR_RO struct mr_stamp registered;
    MR_RO struct mr_stamp lost;     /* {0, 0}: alive */
    MR_RO struct mr_stamp draining; /* {0, 0}: not */
    TAILQ_HEAD(, mr_task) tasks;
    MR_RO uint32_t recoveries; /* open recovery tasks among them */
    MR_RO uint64_t version;
    MR_RO int64_t seen; /* last sign of life */
    /* it lived under the leader before this one, and has not opened its watch here yet */
    MR_RO bool awaited;
    MR_RO int64_t lost_at; /* when the core saw it lost (or loaded it so) */
    MR_RO bool is_revived; /* made at takeover, from its name, ... */
    MR_RO bool absent;     /* ... and there was no record of it */
    MR_RO int64_t deadline;
    struct mr_alarm alarm;
    MR_RO Millrace__WorkerUpdate *MR_RO delta;  /* what it hears at the end of this step */
    MR_RO Millrace__CacheProgress *MR_RO cache; /* soft: what it says of its cache; NULL: nothing */
};

/* A worker that a client says it cannot reach. */
struct mr_unreachable {
    char incarnation[MR_ID_HEX + 1];
    int64_t since;
};

struct mr_client {
    TAILQ_ENTRY(mr_client) link;
    TAILQ_ENTRY(mr_client) in_iteration;
    MR_RO Millrace__ClientRecord *MR_RO rec;
    struct mr_share *MR_RO share;
    struct mr_iteration *MR_RO iteration;
    MR_RO uint64_t repetition; /* of the iteration, which may be gone */
    MR_RO int64_t deadline;    /* live: to be heard of */
    MR_RO int64_t since; /* released; on the core's clock, from the takeover at the earliest */
    struct mr_alarm alarm;
    struct mr_unreachable *MR_RO unreachable;
    MR_RO size_t nunreachable;
};

struct mr_newcomer {
    TAILQ_ENTRY(mr_newcomer) link;
    Millrace__WorkerRecord *rec; /* of the life that it will have, as far as it is known */
};

/* A key to delete when there is time: one that is never written again, or clients/..., which is
 * looked at before. */
struct mr_left_over {
    STAILQ_ENTRY(mr_left_over) link;
    char key[];
};

/* What is set aside since a record that it rests on is bad or gone (flaws.c); or such a record
 * itself. */
struct mr_flaw {
    TAILQ_ENTRY(mr_flaw) link;
    char *key;    /* "jobs/train", "iterations/5.4", ... */
    char *why;    /* "'<key>': <why>", of the record that is bad */
    char *by_id;  /* of a job whose id is known: "#<id>", which it is found by, too; else NULL */
    bool is_root; /* that record is this one */
    bool is_ownerless; /* an iteration's, and nobody knows yet whose */
    bool is_guess;     /* ... nor ever did: whoever it may belong to is set aside */
};

struct mr_staged; /* load.c */

struct mr_core {
    struct mr_core_config config;
    uint64_t counter;      /* of ids; both begin beyond those of this epoch's earlier loads */
    uint64_t revision;     /* it was loaded at; 0: not known */
    uint64_t loaded_epoch; /* the latest that a loaded record tells of */
    size_t spoiled;        /* iterations whose end at takeover is not written yet */
    size_t revived;        /* lives made at takeover that are not written yet */
    size_t absent;         /* of those: that have no record at all */
    struct mr_map flaws;   /* by key, and jobs by id */
    TAILQ_HEAD(, mr_flaw) flaw_list;
    bool keeps; /* jobs are set aside: nothing that they may rest on is collected */
    bool blind; /* ... and of one of them nothing is known, not even its id */
    /* until all are adopted: of each iteration the record of a client, which tells its job */
    struct mr_map readers;
    size_t loaded_keys; /* of the store at takeover; */
    size_t kept_keys;   /* of those: nothing in here stands for them, and nothing deletes them */
    /* of task lists: of all of them, so that a worker's next life does not start over */
    uint64_t versions;
    bool ready;

    int64_t now;  /* the core's clock: now_ms without the time the loop stood still */
    int64_t late; /* all of that time */
    int64_t wall_ms;
    bool full; /* of the last command, as is grant_ms */
    int64_t grant_ms;
    int64_t armed_at;         /* when this leader began */
    int64_t collect_from;     /* what nobody used then is not forgotten before */
    struct mr_alarm **alarms; /* a heap */
    size_t nalarms;
    size_t cap_alarms;
    enum {
        MR_BRAKE_OFF,
        MR_BRAKE_ON,
        MR_BRAKE_SPENT
    } brake; /* on the loss of many workers at once */
    int64_t brake_until;

    struct mr_map blobs;    /* by fingerprint */
    struct mr_map datasets; /* by id */
    struct mr_map jobs;     /* by slot */
    struct mr_map jobs_by_id;
    struct mr_map iterations; /* by id */
    struct mr_map tasks_by_id;
    struct mr_map workers;            /* by incarnation: its newest life */
    struct mr_map workers_by_address; /* alive */
    struct mr_map workers_by_ref;
    struct mr_map clients;
    struct mr_map productions; /* by id */
    struct mr_map families;    /* by encoded job name */
    TAILQ_HEAD(, mr_production) production_list;
    TAILQ_HEAD(, mr_dataset_entry) dataset_list;
    TAILQ_HEAD(, mr_job) job_list;
    TAILQ_HEAD(, mr_iteration) iteration_list;
    TAILQ_HEAD(, mr_iteration) unsettled;
    TAILQ_HEAD(, mr_iteration) touched_iterations;
    TAILQ_HEAD(, mr_core_worker) touched_workers;
    TAILQ_HEAD(, mr_core_worker) worker_list;
    TAILQ_HEAD(, mr_newcomer) newcomers;
    size_t nnewcomers;
    TAILQ_HEAD(, mr_client) client_list;
    STAILQ_HEAD(, mr_left_over) left_over;
    size_t lives; /* in worker_list */
    size_t live_workers;
    size_t open_iterations;
    size_t tasks;
    size_t parts; /* of all definitions */
    struct {
        struct mr_shares datasets;
        struct mr_shares iterations;
        struct mr_shares open_iterations;
        struct mr_shares clients;
        struct mr_shares workers;
    } hosts; /* what each has made of them */

    Millrace__SchemaRecord *schema; /* as stored, or to be stored first */
    struct mr_staged *staged;       /* between mr_core_load() and mr_core_ready() */

    /* The step that is running. */
    const struct mr_command *in;
    struct mr_outcome *out;
    size_t change_bytes;
    struct mr_touched touched[MR_CORE_CHANGES_MAX]; /* beside out->changes */
    size_t unchecked; /* steps since the last walk (slow assertions) */
    int failed;       /* < 0: why the core cannot go on */
    mr_error failure;
};

/* Ranges of a pool and of the open grants of one task, beyond which neighbours are joined across
 * what lies between: that is repeated too. */
#define MR_OWED_RANGES_MAX 512

struct mr_owed {
    Millrace__OwedRange ***ranges;
    size_t *n;
};

/* Cut those out. @fn hears of each piece that was there. */
typedef void mr_owed_piece_fn(void *ctx, uint64_t first, uint64_t count, uint32_t losses);

/* The horizon lies so much reading ahead of the furthest consumer, and is moved when less than the
 * second is left. */
#define MR_HORIZON_MS (20 * 1000)
#define MR_HORIZON_LEFT_MS (15 * 1000)
/* While the pace is not known: at least so many rounds. */
#define MR_HORIZON_ROUNDS 16
/* Consumers say where they are so often at least. */
#define MR_REPORT_MS 1000
/* Whoever does not answer within it when asked for its position is not waited for. */
#define MR_ASK_MS 2000
/* An answer is good for so long, unless somebody takes a place meanwhile. */
#define MR_ASK_FRESH_MS 5000
/* Places that are taken from consumers who are gone, in one step. */
#define MR_VACATE_MAX 16
/* What settling an iteration changes for its rounds. */
#define MR_ROUNDS_CHANGES (1 + MR_VACATE_MAX)

/* What a consumer has of a task that is closing. */
struct mr_held_turns {
    char task[MR_TASK_ID_SIZE];
    uint64_t below;
    /* void from here on, as its worker has said; MR_ROUND_NEVER: it has said no such thing */
    uint64_t end;
};

/* A consumer's place. */
struct mr_seat {
    MR_RO Millrace__ConsumerRecord *MR_RO rec; /* NULL: nobody has ever come */
    /* Of its session, as this leader has heard of it. */
    MR_RO bool known;
    MR_RO uint64_t from;
    MR_RO uint64_t position;
    MR_RO uint64_t returned;
    MR_RO uint64_t answered; /* the last question it has answered */
    MR_RO int64_t heard;
    struct mr_held_turns *MR_RO held;
    MR_RO size_t nheld;
    MR_RO uint64_t
        progress; /* rounds it was seen to return, in all its sessions: measures the pace */
    MR_RO uint64_t missed_ms;  /* others have waited so long for it ... */
    MR_RO int64_t missed_seen; /* ... when that was heard */
};

struct mr_coordination {
    MR_RO Millrace__RoundsRecord *MR_RO rec;
    struct mr_seat *MR_RO seats; /* as many as the job has consumers */
    MR_RO uint32_t n;
    MR_RO bool moved;  /* something that others hear of changed in this step, */
    MR_RO bool turned; /* namely the schedule */
    /* consumers are asked where they are, and no other leader has used this number; 0: nobody
     * asked */
    MR_RO uint64_t ask;
    MR_RO int64_t asked; /* MR_NEVER: whoever wants to know has to ask again */
    MR_RO char refused[MR_ERROR_MESSAGE_SIZE]; /* all consumers are new */
    MR_RO uint64_t pace;                       /* rounds in a thousand seconds; 0: not known */
    MR_RO uint64_t pace_progress;
    MR_RO int64_t pace_since; /* MR_NEVER: not measured yet */
};

/* Does the job read in rounds? */
static inline bool mr_job_is_coordinated(const struct mr_job *job)
{
    return job != NULL && job->rec->num_consumers > 0;
}

/* Why a production takes no more users, as a line for people. */
#define MR_REFUSAL_SIZE 200
/* Of one production: its record lists them. More of the same kind make another one. */
#define MR_PRODUCTION_USERS_MAX 256
/* Of one job name: they are deleted in one transaction. */
#define MR_JOB_TRAINERS_MAX 64
#define MR_TRAINER_BYTES_MAX 64
/* Workers are waited for so many heartbeats when somebody joins. */
#define MR_JOIN_HEARTBEATS 10

struct mr_production {
    TAILQ_ENTRY(mr_production) link;    /* of the core */
    TAILQ_ENTRY(mr_production) in_blob; /* of the same content */
    MR_RO Millrace__ProductionRecord *MR_RO rec;
    MR_RO mr_iteration_id id; /* the hidden iteration's too */
    struct mr_dataset_entry *MR_RO dataset;
    struct mr_iteration *MR_RO hidden;
    TAILQ_HEAD(, mr_iteration) users; /* finished ones too, while their record is kept */
    MR_RO uint32_t nusers;
    MR_RO uint32_t open_users; /* of those: not finished */
    MR_RO bool kept;           /* for users whose jobs are set aside: the list names them */
    MR_RO bool is_behind;      /* the stored list of users has some that are gone */
    struct mr_alarm alarm;
};

/* Trainers of one job name. */
struct mr_family {
    TAILQ_HEAD(, mr_job) jobs;
    size_t njobs;
    char name[]; /* encoded */
};

/* What a worker says of a task that makes or reads a production. */
struct mr_sharing_report {
    Millrace__JoinAnswer *join; /* NULL: none */
    Millrace__WindowProgress *window;
    uint64_t skipped;
};

static inline Millrace__RoundSchedule *mr_rounds_schedule(const struct mr_iteration *it)
{
    return it->rounds->rec->schedule;
}

static inline Millrace__RoundSegment *mr_rounds_last_segment(const struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);

    return schedule->segments[schedule->n_segments - 1];
}

static inline bool mr_stamp_is_set(struct mr_stamp s)
{
    return s.epoch != 0 || s.counter != 0;
}
/* "collected at 2026-11-21T10:00:00Z: ..." for those who ask for an iteration that was. */
#define MR_COLLECTED_SIZE 96
/* Saturates at MR_COUNT_MAX: for what callers count. */
static inline uint64_t mr_count_add(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) || sum > MR_COUNT_MAX ? MR_COUNT_MAX : sum;
}
#define MR_FEATURE_AT_LEAST_ONCE "at_least_once"
#define MR_FEATURE_SHARING "sharing"
#define MR_FEATURE_DRAINING "draining"
#define MR_FEATURE_ROUNDS "rounds"
static inline bool mr_core_worker_is_live(const struct mr_core_worker *worker)
{
    return !mr_stamp_is_set(worker->lost);
}

static inline bool mr_core_worker_is_draining(const struct mr_core_worker *worker)
{
    return mr_stamp_is_set(worker->draining);
}

/* A session: somebody reads, as far as is known. */
static inline bool mr_client_is_live(const struct mr_client *client)
{
    return client->iteration != NULL && !client->rec->released;
}

/* Is it an at_least_once iteration? */
static inline bool mr_iteration_repeats(const struct mr_iteration *it)
{
    return it->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
}

static inline uint64_t mr_larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static inline bool mr_task_is_recovery(const struct mr_task *task)
{
    return task->rec != NULL && task->rec->recovery != 0;
}
struct mr_pool_count {
    uint64_t ordinary;
    uint64_t suspects;
    uint64_t suspect_grants; /* so many are needed for them */
};

/* ---------------------------------------------------------------- model.c */

void mr_model_init(mr_core *core);
void mr_model_free(mr_core *core);

/* ---------------------------------------------------------------- hosts.c */

void mr_hosts_init(mr_core *core);
void mr_hosts_free(mr_core *core);
/* One more of @all, of the host whose command runs; given back with what it stands for. */
struct mr_share *mr_hosts_note(mr_core *core, struct mr_shares *all);
/* May that host have one more of @all? MR_EEXHAUSTED. */
int mr_hosts_check(const mr_core *core, const struct mr_shares *all, mr_error *err);
/* The same of tasks, of which each of its iterations has one at each worker. */
int mr_hosts_check_tasks(const mr_core *core, mr_error *err);

/* ---------------------------------------------------------------- ids.c */

bool mr_stamp_parse(const char *s, struct mr_stamp *ret);
void mr_stamp_print(struct mr_stamp stamp, char out[MR_STAMP_SIZE]);
int mr_stamp_compare(struct mr_stamp a, struct mr_stamp b);
/* Exactly MR_ID_HEX lower-case hex digits. */
bool mr_id_is_valid(const char *s);
void mr_collected_print(uint64_t wall_ms, char out[MR_COLLECTED_SIZE]);
/* [a-z0-9._-] stay, every other byte becomes %XX. Truncation does not happen for names within
 * MR_NAME_BYTES_MAX. */
void mr_name_encode(const char *name, char *out, size_t size);
/* MR_EINVAL unless @s is UTF-8 without control characters and at most @max bytes; @what for the
 * message. */
int mr_name_check(const char *what, const char *s, size_t max, mr_error *err);

/* ---------------------------------------------------------------- record.c */

/* ... which was given already, by whatever leader. */
bool mr_stamp_parse_given(mr_core *core, const char *s, struct mr_stamp *ret);
void mr_core_fail(mr_core *core, int rc, const mr_error *err);
void mr_core_nomem(mr_core *core);
struct mr_stamp mr_core_stamp(mr_core *core);
void mr_core_trace(mr_core *core, const char *fmt, ...) MR_PRINTF(2, 3);
/* A line of the trace that operators want to read, too: somebody came or went, something was
 * lost. */
void mr_core_note(mr_core *core, const char *fmt, ...) MR_PRINTF(2, 3);
int64_t mr_time_add(int64_t t, int64_t ms); /* saturates at MR_NEVER */
/* Set a string of a record, the way protobuf-c frees it. */
void mr_core_set(mr_core *core, char **slot, const char *value);
/* Set a fresh string of a repeated field: protobuf-c frees each of those, so the "" that single
 * ones share cannot be one. */
void mr_core_set_element(mr_core *core, char **slot, const char *value);
/* A fresh record of @desc; NULL (and the core has failed) without memory. */
void *mr_core_new_record(mr_core *core, const ProtobufCMessageDescriptor *desc);
void mr_record_free(void *rec);
/*
 * One more record at the end of the repeated field *@list, which has @n; the caller counts it.
 * Takes @one; NULL stands for one that could not be made. False (and the core has failed) without
 * memory.
 */
bool mr_core_append(mr_core *core, void *list, size_t n, void *one);
/* mr_map_put() whose failure is the core's. */
void mr_core_index(mr_core *core, struct mr_map *map, const char *key, void *value);
void mr_core_set_line(mr_core *core, char **slot, const char *text);

/* ---------------------------------------------------------------- alarms.c */

/* Ring at @due (MR_NEVER: off), or no later than @due. */
void mr_alarm_at(mr_core *core, struct mr_alarm *alarm, int64_t due);
void mr_alarm_by(mr_core *core, struct mr_alarm *alarm, int64_t due);
void mr_alarm_off(mr_core *core, struct mr_alarm *alarm);
struct mr_alarm *mr_alarm_first(const mr_core *core);

/* ---------------------------------------------------------------- keys.c */

extern const struct mr_stored_info mr_stored_kinds[MR_STORED_KINDS];
void mr_stored_key(enum mr_stored_kind kind, const void *object, size_t index, char *out,
                   size_t size);
/* Its record, which is there. */
const ProtobufCMessage *mr_stored_record(enum mr_stored_kind kind, const void *object,
                                         size_t index);
/* The key of part @index of a definition. */
void mr_part_key(const char *blob, uint32_t index, char *out, size_t size);

/* ---------------------------------------------------------------- changes.c */

/* The record of @object (an iteration's, task's: number @index of them) has changed. */
void mr_touch(mr_core *core, enum mr_stored_kind kind, const void *object, size_t index);
/* Its key goes with this step, or when there is time: never written again, or clients/. */
void mr_delete(mr_core *core, enum mr_stored_kind kind, const void *object, size_t index);
void mr_delete_key(mr_core *core, const char *key);
void mr_leave_over(mr_core *core, enum mr_stored_kind kind, const void *object, size_t index);
void mr_leave_over_key(mr_core *core, const char *key);
/* What is no record of an object. */
void mr_put(mr_core *core, const char *key, const ProtobufCMessage *message);
/* Write what is touched. */
void mr_changes_write(mr_core *core);
/* Room for @n more changes of ordinary size? */
bool mr_core_has_room(mr_core *core, size_t n);

/* ---------------------------------------------------------------- schema.c */

/* MR_EPRECOND: this version must not serve it. */
int mr_schema_check(const Millrace__SchemaRecord *schema, mr_error *err);
/* There is none yet. */
void mr_schema_begin(mr_core *core);
bool mr_schema_has(const mr_core *core, const char *feature);

/* ---------------------------------------------------------------- changes.c */

/* A client may have attached again since its key was left over. */
bool mr_left_over_is_in_use(const mr_core *core, const char *key);

/* ---------------------------------------------------------------- effects.c */

/* Answer the running command. The message's type is given by @desc; returned for filling in, NULL
 * if the core has failed. */
void *mr_core_reply(mr_core *core, const ProtobufCMessageDescriptor *desc, bool fenced);
/* Answer it with an error, which is always fenced. */
void mr_core_refuse(mr_core *core, const ProtobufCMessageDescriptor *desc, const mr_error *error);
void mr_core_resign(mr_core *core);
/* Takes @message. */
void mr_core_push(mr_core *core, enum mr_effect_kind kind, const char *topic,
                  ProtobufCMessage *message);
void mr_core_end_stream(mr_core *core, enum mr_effect_kind kind, const char *topic, int code,
                        const char *why);

/* ---------------------------------------------------------------- messages.c */

/* NULL: no memory. */
Millrace__IterationEnd *mr_end_copy(mr_core *core, const Millrace__IterationEnd *end);
bool mr_core_make_room(mr_core *core, void *list, size_t n);
Millrace__TaskInfo *mr_task_info(mr_core *core, const struct mr_task *task);
Millrace__TaskAssignment *mr_task_assignment(mr_core *core, const struct mr_task *task);

/* ---------------------------------------------------------------- news.c */

/* What the clients of an iteration hear at the end of this step: a task is new or changed; it is
 * over. */
void mr_iteration_note_task(mr_core *core, const struct mr_task *task);
void mr_iteration_note_finished(mr_core *core, struct mr_iteration *it);
/* Something changed: consumers and workers hear of it at the end of this step. */
void mr_rounds_note(mr_core *core, struct mr_iteration *it, bool schedule);
/* What mr_rounds_note() says goes out at the end of this step. */
void mr_iteration_note_rounds(mr_core *core, struct mr_iteration *it);
/* What a worker hears at the end of this step: it has a task more, one less; a client has left an
 * iteration. */
void mr_core_worker_note_task(mr_core *core, const struct mr_task *task);
/* All of an iteration's open tasks, to their workers: they are new, or something of the assignments
 * has changed. */
void mr_iteration_note_assignments(mr_core *core, struct mr_iteration *it);
void mr_core_worker_note_dropped(mr_core *core, const struct mr_task *task);
void mr_iteration_note_released(mr_core *core, const struct mr_iteration *it, const char *client);
void mr_iteration_untouch(mr_core *core, struct mr_iteration *it);
void mr_core_worker_untouch(mr_core *core, struct mr_core_worker *worker);
void mr_core_push_touched(mr_core *core);
void mr_core_add_string(mr_core *core, char ***list, size_t *n, const char *s);

/* ---------------------------------------------------------------- dataset.c */

struct mr_dataset_entry *mr_dataset_find(const mr_core *core, const char *id);
bool mr_dataset_is_named(const struct mr_dataset_entry *dataset);
/* @id is, or could be, of a dataset that was registered without a name. */
bool mr_dataset_id_is_of_content(const char *id);
void mr_dataset_free(struct mr_dataset_entry *dataset);
void mr_blob_free(struct mr_blob *blob);
void mr_dataset_id_of_content(const char *fingerprint, const char *compression, char *out,
                              size_t size);
void mr_parts_leave_over(mr_core *core, const char *blob, uint32_t parts);

/* ---------------------------------------------------------------- job.c */

struct mr_job *mr_job_by_id(const mr_core *core, const char *id);
/* What makes a job unique. */
void mr_job_slot(const char *name, const char *trainer, const char *client, char *out, size_t size);
const char *mr_job_label(const struct mr_job *job);
void mr_job_free(struct mr_job *job);
/* No client is attached to any of its iterations. */
bool mr_job_is_idle(const struct mr_job *job);
bool mr_job_is_anonymous(const struct mr_job *job);
/* Does the job get its elements from productions? */
bool mr_job_shares(const struct mr_job *job);

/* NULL: there is none. */
struct mr_iteration *mr_job_repetition(const struct mr_job *job, uint64_t repetition);
/* Has this repetition ended? For ever, then. */
bool mr_job_has_ended(const struct mr_job *job, uint64_t repetition);
/* Behind the last one that has. */
uint64_t mr_job_ends_at(const struct mr_job *job);

struct mr_iteration *mr_iteration_find(const mr_core *core, const char *id);
void mr_iteration_free(struct mr_iteration *it);

/* ---------------------------------------------------------------- numbers.c */

/* Splits that were lost so far, those of losses that are not counted yet too. */
uint64_t mr_iteration_lost_splits(const struct mr_iteration *it);
/* Splits that were handed out again so far. */
uint64_t mr_iteration_repeated(const struct mr_iteration *it);
/* What it lost and repeated so far. */
void mr_iteration_end_fill(mr_core *core, const struct mr_iteration *it,
                           Millrace__IterationEnd *end);
/* MR_NEVER: it is not joining; in the past: it is due. */
int64_t mr_join_due(const struct mr_iteration *it);
/* It has nothing to give because others, whom its production waits for, read slowly. */
bool mr_task_is_held_up(const mr_core *core, const struct mr_task *task);
uint64_t mr_iteration_skipped(const struct mr_iteration *it);

/* ---------------------------------------------------------------- iteration.c */

/* A task's state changed: look at it when there is room. */
void mr_iteration_unsettle(mr_core *core, struct mr_iteration *it);
/* There is nothing to look at any more. */
void mr_iteration_leave_unsettled(mr_core *core, struct mr_iteration *it);

/* ---------------------------------------------------------------- task.c */

/* How long clients have waited for it in vain; 0: they do not. */
int64_t mr_task_stalled_ms(const mr_core *core, const struct mr_task *task);
/* Elements that went with clients of it, as far as is known, and those that fell out of the window
 * before they were had: without what a task before it in the same window has said already. */
uint64_t mr_task_abandoned(const struct mr_task *task);
uint64_t mr_task_skipped(const struct mr_task *task);
/* By the id that others use; NULL if there is none. */
struct mr_task *mr_task_find(const mr_core *core, const char *id);
/* The states that may follow on its own are a table. */
bool mr_task_may_become(const struct mr_task *task, enum mr_task_state to);
/* The task that has read there for its iteration before @task, or NULL. */
struct mr_task *mr_task_before(const struct mr_task *task);
const char *mr_task_state_name(enum mr_task_state state);
uint64_t mr_task_granted(const struct mr_task *task);
/* What its pipeline makes of @most of them, whichever they are, at most; 0: not known. */
uint64_t mr_task_granted_elements(const struct mr_task *task, uint64_t most);
uint64_t mr_task_said_abandoned(const struct mr_task *task);
uint64_t mr_task_said_skipped(const struct mr_task *task);
struct mr_task *mr_task_derived(const mr_core *core, const struct mr_iteration *it,
                                const struct mr_core_worker *worker);

/* What it is called beside its worker, for people and in the data path. */
uint32_t mr_task_attempt(const struct mr_task *task);
/* The producing task beside a reading one; NULL if there is none. */
struct mr_task *mr_task_producing(const mr_core *core, const struct mr_task *reading);

/* ---------------------------------------------------------------- splits.c */

uint64_t mr_position(const struct mr_iteration *it, size_t provider, uint64_t repetition,
                     uint64_t index);
/* Has @repetition positions at all? */
bool mr_position_fits(const struct mr_iteration *it, size_t provider, uint64_t repetition);
/* Positions of splits that were handed out are below. */
uint64_t mr_position_end(const struct mr_iteration *it, size_t provider);
/* What workers that drained gave back, of a provider that has a cursor. */
struct mr_owed mr_given_back(const struct mr_iteration *it, size_t provider);
uint64_t mr_given_back_splits(const struct mr_iteration *it, size_t provider);
bool mr_given_back_is_sound(const struct mr_iteration *it, size_t provider);
/* The pool of a provider that has a cursor. */
struct mr_owed mr_pool(const struct mr_iteration *it, size_t provider);
bool mr_owed_is_suspect(const Millrace__OwedRange *range);
/* At most so many splits of @range may be in one grant. */
uint64_t mr_owed_grant_max(const Millrace__OwedRange *range);
/* Of all providers: what came back, for whatever reason, and waits for somebody to ask. */
void mr_pool_count(const struct mr_iteration *it, struct mr_pool_count *ret);
bool mr_given_back_is_left_behind(const struct mr_iteration *it, size_t provider,
                                  uint64_t repetition);

/* ---------------------------------------------------------------- grants.c */

static inline struct mr_owed mr_open_ranges(Millrace__OpenGrant *grant)
{
    return (struct mr_owed){&grant->ranges, &grant->n_ranges};
}

/* The last of the grants that were joined in it. */
static inline uint64_t mr_open_last(const Millrace__OpenGrant *grant)
{
    return grant->last != 0 ? grant->last : grant->seq;
}

/* MR_EINVAL: such a report cannot be. MR_ERANGE: it is about grants that were not given. */
int mr_grants_check_report(const struct mr_task *task, const Millrace__GrantReport *report,
                           mr_error *err);
/* Nothing is left to grant, so that no grant may come to carry what was reported. */
bool mr_splits_are_handed_out(const struct mr_iteration *it, size_t provider);

uint64_t mr_grants_splits(const struct mr_task *task, size_t provider);
void mr_grants_each(const struct mr_task *task, size_t provider,
                    void (*fn)(void *ctx, const Millrace__OwedRange *range), void *ctx);
/* Are @count splits from position @first on open? */
bool mr_grants_hold(const struct mr_task *task, size_t provider, uint64_t first, uint64_t count);
bool mr_grants_are_sound(const struct mr_iteration *it, size_t provider,
                         const Millrace__GrantRecord *rec);

/* ---------------------------------------------------------------- worker.c */

/* Does @it, open, have a derived task on @worker? */
bool mr_core_worker_gets_tasks(const struct mr_core_worker *worker, const struct mr_iteration *it);
struct mr_core_worker *mr_core_worker_live(const mr_core *core, const char *incarnation);
/* Lost, and neither said that it goes nor has another process at its address. */
bool mr_core_worker_is_missing(const struct mr_core_worker *worker);
/* Not heard of for half its time: dead, as far as anybody can see. That is found by its silence,
 * and counts as a crash. */
bool mr_core_worker_is_unheard(const mr_core *core, const struct mr_core_worker *worker);
void mr_core_worker_free(struct mr_core_worker *worker);

void mr_newcomers_free(mr_core *core);
struct mr_newcomer *mr_newcomer_find(const mr_core *core, const char *incarnation);

void mr_client_free(struct mr_client *client);

/* ---------------------------------------------------------------- flaws.c */

/* flaws.c: takeover, when a record of a dataset, job, production or iteration is bad: jobs are set
 * aside. */
/* The one of @key; NULL: there is none. */
struct mr_flaw *mr_flaw_find(const mr_core *core, const char *key);
/* @key cannot be used, as @line ("'<key>': <why>") says: of itself (@is_root), or of what it rests
 * on. */
struct mr_flaw *mr_flaw_note(mr_core *core, const char *key, const char *line, bool is_root);
/* The same with @err, which does not name the key yet. */
struct mr_flaw *mr_flaw_note_error(mr_core *core, const char *key, mr_error *err);
/* The job whose id that is, is set aside, or may be. */
bool mr_job_is_set_aside(const mr_core *core, const char *id);
/* MR_EDATALOSS, for readers: the job of @slot, or dataset @id, is set aside. */
int mr_job_refuse_flawed(const mr_core *core, const char *slot, mr_error *err);
int mr_dataset_refuse_flawed(const mr_core *core, const char *id, mr_error *err);
/* The iterations that are set aside, hidden ones included; perhaps some more than once. */
void mr_core_each_held(mr_core *core, void (*fn)(void *ctx, mr_core *core, const char *iteration),
                       void *ctx);
/* MR_EUNAVAIL, for workers: task @id, which is not in memory, is of one of them. */
int mr_task_refuse_held(const mr_core *core, const char *id, mr_error *err);
/* The same, for a goodbye of @client: a word that cannot be kept is not taken. */
int mr_client_refuse_held(const mr_core *core, const char *client, const char *iteration,
                          mr_error *err);
/* The record of client @id is of what is set aside, and stays; or it is written over. */
void mr_client_keep(mr_core *core, const char *id);
void mr_client_keep_no_more(mr_core *core, const char *id);
/* @key is written anew, or deleted. */
void mr_flaw_drop(mr_core *core, struct mr_flaw *flaw, bool is_deleted);
void mr_flaws_free(mr_core *core);
bool mr_key_is_below(const char *key, const char *prefix);

/* ---------------------------------------------------------------- check.c */

/* mr_core_check() of one iteration alone. */
int mr_iteration_check(const mr_core *core, const struct mr_iteration *it, mr_error *err);

/* All clients of @it have said for a full worker timeout that they cannot reach @worker. */
bool mr_iteration_cannot_reach(const mr_core *core, const struct mr_iteration *it,
                               const struct mr_core_worker *worker);

/* ---------------------------------------------------------------- rounds.c */

/* The iteration ends: behind its last round. */
uint64_t mr_rounds_end(const struct mr_iteration *it);
/* The place of task @i of the schedule is in doubt: it is neither open nor was anything decided. */
bool mr_rounds_is_closing(const struct mr_iteration *it, uint32_t i, const mr_core *core);
uint32_t mr_seat_index(const struct mr_iteration *it, const struct mr_seat *seat);

/* ---------------------------------------------------------------- check_rounds.c */

int mr_rounds_check(const mr_core *core, const struct mr_iteration *it, mr_error *err);

/* ---------------------------------------------------------------- rounds_told.c */

/* What consumers and workers are told; NULL without memory. */
Millrace__RoundsUpdate *mr_rounds_update_of(mr_core *core, const struct mr_iteration *it,
                                            bool with_schedule);
Millrace__RoundAssignment *mr_rounds_assignment_of(mr_core *core, const struct mr_task *task);

/* The client that has this place, if it is there; else NULL. */
struct mr_client *mr_seat_client(const mr_core *core, const struct mr_iteration *it,
                                 const struct mr_seat *seat);
/* What it holds of the task; NULL: it has not reported. */
const struct mr_held_turns *mr_seat_held(const struct mr_seat *seat, const char *task);
/* Others have waited so long for it to receive a round; 0: they do not, or not any more. */
uint64_t mr_seat_missed_ms(const mr_core *core, const struct mr_seat *seat);

/* ---------------------------------------------------------------- production.c */

struct mr_production *mr_production_find(const mr_core *core, const char *id);
/* The newest that makes what @job's @repetition wants; NULL if there is none. */
struct mr_production *mr_production_newest(const mr_core *core, const struct mr_job *job,
                                           uint64_t repetition);
/* Does it make what @job's @repetition wants? */
bool mr_production_fits(const struct mr_production *p, const struct mr_job *job,
                        uint64_t repetition);
bool mr_production_lists(const struct mr_production *p, const struct mr_iteration *it);
/* The last user has gone: it goes. */
bool mr_production_is_over(const struct mr_production *p);
void mr_production_free(struct mr_production *p);
const char *mr_production_scope(const struct mr_job *job);

/* Trainers of a job name; NULL: there is none. */
struct mr_family *mr_family_find(const mr_core *core, const char *name);
/* "name+trainer", as people say it; NULL if there is none. */
struct mr_job *mr_job_by_label(const mr_core *core, const char *label);

/* ---------------------------------------------------------------- rounds_schedule.c */

/* The schedule without its first @drop segments, and without what only they named. NULL: no
 * memory. */
Millrace__RoundSchedule *
mr_rounds_without_first(mr_core *core, const Millrace__RoundSchedule *schedule, size_t drop);
bool mr_rounds_is_used(const Millrace__RoundSchedule *schedule, uint32_t task, size_t from_segment);

/* ---------------------------------------------------------------- owed.c */

/* Add @count splits from @first on. What is there already is joined, with the larger counts. */
void mr_owed_add(struct mr_core *core, struct mr_owed list, uint64_t first, uint64_t count,
                 uint32_t losses);
/* Cut @count splits, at most all of them, off the front of range @i. */
void mr_owed_take(struct mr_owed list, size_t i, uint64_t count);
/* Is any of @count splits from @first on in it? */
bool mr_owed_touches(struct mr_owed list, uint64_t first, uint64_t count);
void mr_owed_cut(struct mr_core *core, struct mr_owed list, uint64_t first, uint64_t count,
                 mr_owed_piece_fn *fn, void *ctx);
/* Join neighbours until there are at most @max ranges. */
void mr_owed_squeeze(struct mr_owed list, size_t max);
void mr_owed_clear(struct mr_owed list);
uint64_t mr_owed_splits(struct mr_owed list);
/* Ascending, apart, not empty, and all below @end. */
bool mr_owed_is_sound(struct mr_owed list, uint64_t end);

#endif
