/*
 * Inside the core: the objects, and what its files offer each other.
 *
 * An object owns its record (the message that is its value in the store) and adds what is derived
 * or soft. A decision changes the record and puts it; nothing is put before everything that can
 * refuse the command was asked. Running out of memory is sticky (mr_core_fail()): the step goes on
 * with what it has and is thrown away at its end, core and all.
 */
#ifndef MR_DISPATCHER_CORE_INTERNAL_H
#define MR_DISPATCHER_CORE_INTERNAL_H

#include "dispatcher/core/core.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/map.h"
#include "base/shares.h"
#include "dispatcher/core/owed.h"

#include <millrace/base.h>
#include <sys/queue.h>

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
    Millrace__DatasetRecord *rec;
    struct mr_blob *blob;
    struct mr_alarm alarm;
    int64_t since; /* last used; on the core's clock, from the takeover at the earliest */
    struct mr_share *share;
    uint32_t jobs;
    uint32_t productions;
};

struct mr_job {
    TAILQ_ENTRY(mr_job) link;
    Millrace__JobRecord *rec;
    mr_job_id id;
    /* what makes it unique: "<encoded name>", "<...>+<encoded trainer>" or "~<client>"; the key
     * is "jobs/<slot>" */
    char *slot;
    char *label; /* for people */
    TAILQ_ENTRY(mr_job) in_family;
    struct mr_family *family; /* of a trainer: jobs of its name; else NULL */
    struct mr_dataset_entry *dataset;
    TAILQ_HEAD(, mr_iteration) iterations;
    uint32_t niterations;
    uint32_t nfinished;    /* of those */
    uint32_t live_clients; /* of all its iterations */
    struct mr_alarm alarm;
    /* without clients; on the core's clock, from the takeover at the earliest */
    int64_t idle_since;
};

struct mr_cursor {
    Millrace__CursorRecord *rec; /* NULL: nothing was handed out */
    bool unwritten;              /* it changed in this step, and is put before the step ends */
};

struct mr_grant {
    Millrace__GrantRecord *rec; /* NULL: nothing was asked for */
    bool unwritten;             /* finished grants are still in the store */
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
    Millrace__IterationRecord *rec;
    struct mr_share *share;
    struct mr_share *open_share; /* while it is open: only those have tasks */
    mr_iteration_id id;
    struct mr_stamp losses_counted_to;
    struct mr_job *job;          /* NULL: hidden, of a production */
    struct mr_production *makes; /* that one */
    /* a job's: it reads this one and hands out nothing itself; NULL: it does */
    struct mr_production *uses;
    struct mr_dataset_entry *dataset; /* this and the next two: of the job or the production */
    Millrace__ProcessingMode mode;
    Millrace__Guarantee guarantee;
    TAILQ_ENTRY(mr_iteration) in_production; /* uses */
    int64_t join_until;                      /* joining: nobody is waited for any longer */
    TAILQ_HEAD(, mr_task) tasks;             /* empty once finished */
    TAILQ_HEAD(, mr_client) clients;
    struct mr_cursor *cursors; /* rec->n_providers */
    uint64_t version;          /* of its task list */
    uint64_t follows;          /* the version before this step, */
    /* and what its clients hear at the end of it; NULL: nobody listens */
    Millrace__ClientUpdate *delta;
    struct mr_coordination *rounds; /* of a coordinated job, until it is finished; else NULL */
    uint32_t open_tasks;
    uint32_t draining_tasks;  /* of those: their workers drain */
    uint32_t ended_tasks;     /* by themselves: the pipeline is over */
    uint32_t uncounted_tasks; /* lost, and not counted yet */
    bool unwritten;           /* the record changed in this step, and is put before the step ends */
    uint32_t live_clients;
    struct mr_alarm alarm;
    /* finished, or else unread; on the core's clock, from the takeover at the earliest */
    int64_t since;
    bool is_unsettled;
    bool is_touched; /* push to its clients at the end of the step */
    /* which of its records was bad, and why: it has ended for that, which is not written yet; or
     * NULL */
    char *broken;
};

enum mr_task_state { MR_TASK_OPEN, MR_TASK_ENDED, MR_TASK_LOST };

struct mr_task {
    TAILQ_ENTRY(mr_task) in_iteration;
    TAILQ_ENTRY(mr_task) in_worker;
    struct mr_iteration *iteration;
    struct mr_core_worker *worker;
    char id[MR_TASK_ID_SIZE];
    enum mr_task_state state;
    bool counted;                            /* LOST: in the iteration's losses */
    bool drained;                            /* ENDED: because its worker drained */
    Millrace__TaskRecord *rec;               /* NULL: nothing differs from what is derived */
    struct mr_grant *grants;                 /* one a provider */
    uint64_t produced, delivered, abandoned; /* soft, as is the next one */
    /* since when clients have waited for something of it in vain; MR_NEVER: they do not */
    int64_t waited_for;
    bool finished; /* soft: its pipeline has ended, and its end waits for clients */
    /* soft: it makes a production, and nothing came of it for long, or its worker drains */
    bool barren;
    /* soft: what its worker says of production and window; NULL: nothing */
    struct mr_sharing_report *sharing;
};

struct mr_core_worker {
    TAILQ_ENTRY(mr_core_worker) link;
    TAILQ_ENTRY(mr_core_worker) touched;
    Millrace__WorkerRecord *rec;
    struct mr_share *share;
    /* of this life, for ever: "<incarnation>.<stamp of its registration>" */
    char ref[MR_WORKER_REF_SIZE];
    struct mr_stamp registered;
    struct mr_stamp lost;     /* {0, 0}: alive */
    struct mr_stamp draining; /* {0, 0}: not */
    TAILQ_HEAD(, mr_task) tasks;
    uint32_t recoveries; /* open recovery tasks among them */
    uint64_t version;
    int64_t seen; /* last sign of life */
    /* it lived under the leader before this one, and has not opened its watch here yet */
    bool awaited;
    int64_t lost_at; /* when the core saw it lost (or loaded it so) */
    bool unwritten;  /* made at takeover, from its name, ... */
    bool absent;     /* ... and there was no record of it */
    int64_t deadline;
    struct mr_alarm alarm;
    Millrace__WorkerUpdate *delta;  /* what it hears at the end of this step */
    Millrace__CacheProgress *cache; /* soft: what it says of its cache; NULL: nothing */
};

/* A worker that a client says it cannot reach. */
struct mr_unreachable {
    char incarnation[MR_ID_HEX + 1];
    int64_t since;
};

struct mr_client {
    TAILQ_ENTRY(mr_client) link;
    TAILQ_ENTRY(mr_client) in_iteration;
    Millrace__ClientRecord *rec;
    struct mr_share *share;
    struct mr_iteration *iteration;
    uint64_t repetition; /* of the iteration, which may be gone */
    int64_t deadline;    /* live: to be heard of */
    int64_t since;       /* released; on the core's clock, from the takeover at the earliest */
    struct mr_alarm alarm;
    struct mr_unreachable *unreachable;
    size_t nunreachable;
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
    size_t unchecked; /* steps since the last walk (slow assertions) */
    int failed;       /* < 0: why the core cannot go on */
    mr_error failure;
};

/* ---------------------------------------------------------------- hosts.c */

void mr_hosts_init(mr_core *core);
void mr_hosts_free(mr_core *core);
/* One more of @all, of the host whose command runs; given back with what it stands for. */
struct mr_share *mr_hosts_note(mr_core *core, struct mr_shares *all);
/* May that host have one more of @all? MR_EEXHAUSTED. */
int mr_hosts_check(const mr_core *core, const struct mr_shares *all, mr_error *err);
/* The same of tasks, of which each of its iterations has one at each worker. */
int mr_hosts_check_tasks(const mr_core *core, mr_error *err);

/* ---------------------------------------------------------------- ids.c: pure text */

bool mr_stamp_parse(const char *s, struct mr_stamp *ret);
/* ... which was given already, by whatever leader. */
bool mr_stamp_parse_given(mr_core *core, const char *s, struct mr_stamp *ret);
void mr_stamp_print(struct mr_stamp stamp, char out[MR_STAMP_SIZE]);
int mr_stamp_compare(struct mr_stamp a, struct mr_stamp b);
static inline bool mr_stamp_is_set(struct mr_stamp s)
{
    return s.epoch != 0 || s.counter != 0;
}
/* Exactly MR_ID_HEX lower-case hex digits. */
bool mr_id_is_valid(const char *s);
/* "collected at 2026-11-21T10:00:00Z: ..." for those who ask for an iteration that was. */
#define MR_COLLECTED_SIZE 96
void mr_collected_print(uint64_t wall_ms, char out[MR_COLLECTED_SIZE]);
/* [a-z0-9._-] stay, every other byte becomes %XX. Truncation does not happen for names within
 * MR_NAME_BYTES_MAX. */
void mr_name_encode(const char *name, char *out, size_t size);
/* MR_EINVAL unless @s is UTF-8 without control characters and at most @max bytes; @what for the
 * message. */
int mr_name_check(const char *what, const char *s, size_t max, mr_error *err);

/* ---------------------------------------------------------------- core.c: failure, time, traces */

void mr_core_fail(mr_core *core, int rc, const mr_error *err);
void mr_core_nomem(mr_core *core);
struct mr_stamp mr_core_stamp(mr_core *core);
void mr_core_trace(mr_core *core, const char *fmt, ...) MR_PRINTF(2, 3);
/* A line of the trace that operators want to read, too: somebody came or went, something was
 * lost. */
void mr_core_note(mr_core *core, const char *fmt, ...) MR_PRINTF(2, 3);
int64_t mr_time_add(int64_t t, int64_t ms); /* saturates at MR_NEVER */

/* Saturates at MR_COUNT_MAX: for what callers count. */
static inline uint64_t mr_count_add(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) || sum > MR_COUNT_MAX ? MR_COUNT_MAX : sum;
}

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

/* ---------------------------------------------------------------- alarms.c */

/* Ring at @due (MR_NEVER: off), or no later than @due. */
void mr_alarm_at(mr_core *core, struct mr_alarm *alarm, int64_t due);
void mr_alarm_by(mr_core *core, struct mr_alarm *alarm, int64_t due);
void mr_alarm_off(mr_core *core, struct mr_alarm *alarm);
struct mr_alarm *mr_alarm_first(const mr_core *core);

/* ---------------------------------------------------------------- schema.c */

#define MR_FEATURE_AT_LEAST_ONCE "at_least_once"
#define MR_FEATURE_SHARING "sharing"
#define MR_FEATURE_DRAINING "draining"
#define MR_FEATURE_ROUNDS "rounds"
/* MR_EPRECOND: this version must not serve it. */
int mr_schema_check(const Millrace__SchemaRecord *schema, mr_error *err);
/* There is none yet. */
void mr_schema_begin(mr_core *core);
bool mr_schema_has(const mr_core *core, const char *feature);
/* Note @feature with this step, if it is not noted already. At most one change. */
void mr_schema_use(mr_core *core, const char *feature);

/* ---------------------------------------------------------------- outcome.c: what a step leaves
 * behind */

/* Room for @n more changes of ordinary size? */
bool mr_core_has_room(const mr_core *core, size_t n);
void mr_core_put(mr_core *core, const char *key, const ProtobufCMessage *record);
void mr_core_delete(mr_core *core, const char *key);
/* Delete @key in some later step. */
void mr_core_leave_over(mr_core *core, const char *key);

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

/* ---------------------------------------------------------------- updates.c: task lists for
 * clients and workers */

/* NULL: no memory. */
Millrace__IterationEnd *mr_end_copy(mr_core *core, const Millrace__IterationEnd *end);
void mr_client_update_fill(mr_core *core, const struct mr_iteration *it,
                           Millrace__ClientUpdate *update);
void mr_core_worker_update_fill(mr_core *core, const struct mr_core_worker *worker,
                                Millrace__WorkerUpdate *update);
/* What the clients of an iteration hear at the end of this step: a task is new or changed; it is
 * over. */
void mr_iteration_note_task(mr_core *core, const struct mr_task *task);
void mr_iteration_note_finished(mr_core *core, struct mr_iteration *it);
/* What mr_rounds_note() says goes out at the end of this step. */
void mr_iteration_note_rounds(mr_core *core, struct mr_iteration *it);
/* What a worker hears at the end of this step: it has a task more, one less; a client has left an
 * iteration. */
void mr_core_worker_note_task(mr_core *core, const struct mr_task *task);
/* All of an iteration's open tasks, to their workers: they are new, or something of the assignments
 * has changed. */
void mr_iteration_note_assignments(mr_core *core, const struct mr_iteration *it);
void mr_core_worker_note_dropped(mr_core *core, const struct mr_task *task);
void mr_iteration_note_released(mr_core *core, const struct mr_iteration *it, const char *client);
void mr_iteration_untouch(mr_core *core, struct mr_iteration *it);
void mr_core_worker_untouch(mr_core *core, struct mr_core_worker *worker);
void mr_core_push_touched(mr_core *core);

/* ---------------------------------------------------------------- datasets.c */

struct mr_dataset_entry *mr_dataset_find(const mr_core *core, const char *id);
/* Index @rec (taken). */
struct mr_dataset_entry *mr_dataset_add(mr_core *core, Millrace__DatasetRecord *rec);
/* Note that it is or was in use, so that retention starts anew. At most one change. */
void mr_dataset_use(mr_core *core, struct mr_dataset_entry *dataset);
bool mr_dataset_is_named(const struct mr_dataset_entry *dataset);
/* @id is, or could be, of a dataset that was registered without a name. */
bool mr_dataset_id_is_of_content(const char *id);
/* Delete it; nothing uses it. */
void mr_dataset_forget(mr_core *core, struct mr_dataset_entry *dataset);
void mr_dataset_free(struct mr_dataset_entry *dataset);
void mr_blob_free(struct mr_blob *blob);
void mr_core_do_store_part(mr_core *core, const struct mr_part_store *in);
void mr_core_do_register_dataset(mr_core *core, const struct mr_dataset_register *in);
void mr_core_do_get_dataset(mr_core *core, const Millrace__GetDatasetRequest *in);
void mr_core_do_delete_dataset(mr_core *core, const Millrace__DeleteDatasetRequest *in);

/* ---------------------------------------------------------------- jobs.c */

struct mr_job *mr_job_add(mr_core *core, Millrace__JobRecord *rec, mr_error *err);
struct mr_job *mr_job_by_id(const mr_core *core, const char *id);
/* What makes a job unique. */
void mr_job_slot(const char *name, const char *trainer, const char *client, char *out, size_t size);
const char *mr_job_label(const struct mr_job *job); /* for traces and messages */
void mr_job_put(mr_core *core, struct mr_job *job);
/* Drop the job with all its iterations: from memory now, from the store now (the job) and soon (the
 * rest). */
void mr_job_forget(mr_core *core, struct mr_job *job);
/* The one that makes room for a new one when there are too many: nobody has used it for longer than
 * any other, and for longer than an anonymous one is kept, and all that was read of it has ended.
 * NULL: none. timers.c. */
struct mr_job *mr_job_superfluous(const mr_core *core);
void mr_job_free(struct mr_job *job);
/* No client is attached to any of its iterations. */
bool mr_job_is_idle(const struct mr_job *job);
bool mr_job_is_anonymous(const struct mr_job *job);
/* Somebody asked for a repetition of it that has ended: a use, though nobody attaches. At most one
 * change. */
void mr_job_note_asked(mr_core *core, struct mr_job *job);
/* Its last client has gone: from now on retention counts. One change. */
void mr_job_note_idle(mr_core *core, struct mr_job *job);
void mr_core_do_delete_job(mr_core *core, const Millrace__DeleteJobRequest *in);

/* ---------------------------------------------------------------- open.c */

void mr_core_do_open(mr_core *core, const Millrace__OpenRequest *in);

/* ---------------------------------------------------------------- closing.c */

/* Close the tasks of @it that no reader reaches, or that hang. False: there was no room for all.
 * *@again: when to look next because of what readers reported. */
bool mr_iteration_close_tasks(mr_core *core, struct mr_iteration *it, int64_t *again);

/* ---------------------------------------------------------------- ended.c */

/* Has this repetition ended? For ever, then. */
bool mr_job_has_ended(const struct mr_job *job, uint64_t repetition);
/* Behind the last one that has. */
uint64_t mr_job_ends_at(const struct mr_job *job);
/* It has; the record is the caller's to put. */
void mr_job_note_ended(mr_core *core, struct mr_job *job, uint64_t repetition);

/* ---------------------------------------------------------------- iterations.c */

struct mr_iteration *mr_iteration_find(const mr_core *core, const char *id);
/* @production: that an iteration of @job uses (NULL: none), or, without a job, whose hidden one it
 * is. */
struct mr_iteration *mr_iteration_add(mr_core *core, struct mr_job *job,
                                      struct mr_production *production,
                                      Millrace__IterationRecord *rec, mr_error *err);
/* Create, derive its tasks and put it; with a production, if the job shares. */
struct mr_iteration *mr_iteration_create(mr_core *core, struct mr_job *job, uint64_t repetition,
                                         uint64_t seed);
/* The hidden one of @production, with its id. */
struct mr_iteration *mr_iteration_create_hidden(mr_core *core, struct mr_production *production,
                                                uint64_t seed);
void mr_iteration_put(mr_core *core, struct mr_iteration *it);
/* Put what is unwritten of it. */
void mr_iteration_write(mr_core *core, struct mr_iteration *it);
/* What the tasks were is over; their keys, and those of hand-out, go when there is time. */
void mr_iteration_drop_tasks(mr_core *core, struct mr_iteration *it);
/* The job has gone on: those of its iterations that nobody reads may go. */
void mr_iterations_ring_unread(mr_core *core, const struct mr_job *job);
/* Drop it: from memory now, from the store now or, if @with_job (whose record goes now), soon. One
 * change. */
void mr_iteration_forget(mr_core *core, struct mr_iteration *it, bool with_job);
void mr_iteration_free(struct mr_iteration *it);

/* ---------------------------------------------------------------- settle.c */

/* Splits that were lost so far, those of losses that are not counted yet too. */
uint64_t mr_iteration_lost_splits(const struct mr_iteration *it);
/* @splits are lost, of which pipelines make at most @elements; 0: nobody knows, and so nobody does
 * of the sum. */
void mr_iteration_note_lost(struct mr_iteration *it, uint64_t splits, uint64_t elements);
/* Splits that were handed out again so far. */
uint64_t mr_iteration_repeated(const struct mr_iteration *it);
/* Those of its tasks whose workers are lost are not to be counted: nothing was to come of them. */
void mr_iteration_forgive_losses(mr_core *core, struct mr_iteration *it);
/* A task's state changed: look at it when there is room. */
void mr_iteration_unsettle(mr_core *core, struct mr_iteration *it);
/* There is nothing to look at any more. */
void mr_iteration_leave_unsettled(mr_core *core, struct mr_iteration *it);
/* Count new losses, put what lost workers owe back, finish the iteration if nothing is open in it,
 * or open recovery tasks. At most MR_SETTLE_CHANGES changes: itself, the job, a cursor, and
 * recovery tasks that go and come; two at most once. One that goes may leave its counts to the task
 * before it. */
#define MR_SETTLE_CHANGES (3 + 3 * MR_RECOVERIES_MAX + MR_ROUNDS_CHANGES)
size_t mr_iteration_settle_changes(const struct mr_iteration *it);
void mr_iteration_settle(mr_core *core, struct mr_iteration *it);
/* The first half of it: the losses. The iteration may have failed (and its tasks be gone) after it.
 * It is left unwritten. */
void mr_iteration_absorb(mr_core *core, struct mr_iteration *it);
/* A client took elements along that nobody else gets; @instead_of so many of which that had been
 * said before. */
void mr_iteration_note_abandoned(mr_core *core, struct mr_iteration *it, uint64_t elements,
                                 uint64_t instead_of);
/* What it lost and repeated so far. */
void mr_iteration_end_fill(mr_core *core, const struct mr_iteration *it,
                           Millrace__IterationEnd *end);
/* End it at once, because one of its tasks failed. At most MR_SETTLE_CHANGES changes. */
void mr_iteration_fail(mr_core *core, struct mr_iteration *it, int code, const char *why);
/* End it at takeover for what is `broken`. */
void mr_iteration_break(mr_core *core, struct mr_iteration *it);
/* Nobody reads it, and nobody will: it counts as ended. At most MR_SETTLE_CHANGES changes. */
void mr_iteration_collect(mr_core *core, struct mr_iteration *it);

/* ---------------------------------------------------------------- tasks.c */

/* Derive the task of @worker in @it. */
struct mr_task *mr_task_add(mr_core *core, struct mr_iteration *it, struct mr_core_worker *worker);
/* What its worker says of it. */
void mr_task_note_progress(mr_core *core, struct mr_task *task,
                           const Millrace__TaskProgress *progress);
/* How long clients have waited for it in vain; 0: they do not. */
int64_t mr_task_stalled_ms(const mr_core *core, const struct mr_task *task);
/* Elements that went with clients of it, as far as is known, and those that fell out of the window
 * before they were had: without what a task before it in the same window has said already. */
uint64_t mr_task_abandoned(const struct mr_task *task);
uint64_t mr_task_skipped(const struct mr_task *task);
/* Its iteration counts them from now on: two changes, or none. False: there is no room. */
bool mr_task_give_up_counts(mr_core *core, struct mr_task *task);
/* By the id that others use; NULL if there is none. */
struct mr_task *mr_task_find(const mr_core *core, const char *id);
void mr_task_move(mr_core *core, struct mr_task *task, enum mr_task_state to);
/* Add a recovery task with its record. One change. */
void mr_task_recover(mr_core *core, struct mr_iteration *it, struct mr_core_worker *worker,
                     bool isolated);
/* Take in the record of one. */
struct mr_task *mr_task_adopt_recovery(mr_core *core, struct mr_iteration *it,
                                       struct mr_core_worker *worker, Millrace__TaskRecord *rec);
static inline bool mr_task_is_recovery(const struct mr_task *task)
{
    return task->rec != NULL && task->rec->recovery != 0;
}
/* What it is called beside its worker, for people and in the data path. */
uint32_t mr_task_attempt(const struct mr_task *task);
/* An isolated recovery task goes on like others. One change. */
void mr_task_join_in(mr_core *core, struct mr_task *task);
/* A recovery task that is not needed any more: out of memory and out of the store. One change. */
void mr_task_retire(mr_core *core, struct mr_task *task);
/* Close it as if its worker were lost, for good. @task may be gone afterwards. */
void mr_task_close_unreachable(mr_core *core, struct mr_task *task);
/* Its worker and the records contradict each other, as @why says (somebody's hand was in the
 * store): close it. False: there is no room now. @task may be gone afterwards. */
bool mr_task_disown(mr_core *core, struct mr_task *task, const mr_error *why);
/* Out of memory; its keys are left over. */
void mr_task_remove(mr_core *core, struct mr_task *task);
/* Its grants are left over, and nothing of them is needed any more. */
void mr_task_leave_grants(mr_core *core, struct mr_task *task);
void mr_task_free(struct mr_task *task);
const char *mr_task_state_name(enum mr_task_state state);
uint64_t mr_task_granted(const struct mr_task *task);
/* What its pipeline makes of @most of them, whichever they are, at most; 0: not known. */
uint64_t mr_task_granted_elements(const struct mr_task *task, uint64_t most);
void mr_core_do_task_ended(mr_core *core, const Millrace__TaskEndedRequest *in);

/* ---------------------------------------------------------------- splits.c */

void mr_cursor_key(const struct mr_iteration *it, size_t provider, char *out, size_t size);
void mr_grant_key(const struct mr_task *task, size_t provider, char *out, size_t size);
void mr_core_do_get_splits(mr_core *core, const Millrace__GetSplitsRequest *in);

/* ---------------------------------------------------------------- grants.c: at least once */

uint64_t mr_position(const struct mr_iteration *it, size_t provider, uint64_t repetition,
                     uint64_t index);
/* Has @repetition positions at all? */
bool mr_position_fits(const struct mr_iteration *it, size_t provider, uint64_t repetition);
/* Positions of splits that were handed out are below. */
uint64_t mr_position_end(const struct mr_iteration *it, size_t provider);
/* What the answer in the task's grant record hands out is open. */
void mr_grants_open(mr_core *core, struct mr_task *task, size_t provider,
                    const struct mr_owed_splits *splits);
/* MR_EINVAL: such a report cannot be. MR_ERANGE: it is about grants that were not given. */
int mr_grants_report(mr_core *core, struct mr_task *task, const Millrace__GrantReport *report,
                     mr_error *err);
/* Write what was reported if no grant will carry it. A change a provider, as far as there is
 * room. */
void mr_grants_write(mr_core *core, struct mr_task *task);
/* Nothing of it is open any more. */
void mr_grants_void(struct mr_task *task);
uint64_t mr_grants_splits(const struct mr_task *task, size_t provider);
void mr_grants_each(const struct mr_task *task, size_t provider,
                    void (*fn)(void *ctx, const Millrace__OwedRange *range), void *ctx);
/* Are @count splits from position @first on open? */
bool mr_grants_hold(const struct mr_task *task, size_t provider, uint64_t first, uint64_t count);
/* They are not any more; @fn hears of the pieces. */
void mr_grants_cut(mr_core *core, struct mr_task *task, size_t provider, uint64_t first,
                   uint64_t count, mr_owed_piece_fn *fn, void *ctx);
bool mr_grants_are_sound(const struct mr_iteration *it, size_t provider,
                         const Millrace__GrantRecord *rec);

/* ---------------------------------------------------------------- drain.c: workers that go on
 * purpose */

bool mr_core_worker_is_draining(const struct mr_core_worker *worker);
/* Does @it, open, have a derived task on @worker? */
bool mr_core_worker_gets_tasks(const struct mr_core_worker *worker, const struct mr_iteration *it);
/* It gets no more tasks. At most two changes. */
void mr_core_worker_note_draining(mr_core *core, struct mr_core_worker *worker);
/* What workers that drained gave back, of a provider that has a cursor. */
struct mr_owed mr_given_back(const struct mr_iteration *it, size_t provider);
uint64_t mr_given_back_splits(const struct mr_iteration *it, size_t provider);
bool mr_given_back_is_sound(const struct mr_iteration *it, size_t provider);
/* The cursor goes on to another repetition. */
void mr_given_back_leave_behind(struct mr_iteration *it, size_t provider);
/* @recovery came to its end without asking for what it was opened for: nor would another one. The
 * cursors are left unwritten. */
void mr_given_back_drop_unwanted(mr_core *core, struct mr_iteration *it,
                                 const struct mr_task *recovery);
/* Can @task have what the request gives back? MR_EINVAL: it cannot. */
int mr_give_back_check(const struct mr_task *task, const Millrace__GetSplitsRequest *in,
                       mr_error *err);
/* It does; false: they are not taken, it has to read them. At most two changes; the cursor is left
 * unwritten, the grant is the caller's to put: the answer is stored either way, or a copy of the
 * request could have another one later. */
bool mr_give_back(mr_core *core, struct mr_task *task, const Millrace__GetSplitsRequest *in);

/* ---------------------------------------------------------------- recovery.c */

/* Is it an at_least_once iteration? */
bool mr_iteration_repeats(const struct mr_iteration *it);
/* May it need recovery tasks, or have some? */
bool mr_iteration_recovers(const struct mr_iteration *it);
/* May one of its tasks come for more splits of @provider? */
bool mr_iteration_will_ask(const struct mr_iteration *it, size_t provider);
/* The pool of a provider that has a cursor. */
struct mr_owed mr_pool(const struct mr_iteration *it, size_t provider);
bool mr_owed_is_suspect(const Millrace__OwedRange *range);
/* At most so many splits of @range may be in one grant. */
uint64_t mr_owed_grant_max(const Millrace__OwedRange *range);
struct mr_pool_count {
    uint64_t ordinary;
    uint64_t suspects;
    uint64_t suspect_grants; /* so many are needed for them */
};
/* Of all providers: what came back, for whatever reason, and waits for somebody to ask. */
void mr_pool_count(const struct mr_iteration *it, struct mr_pool_count *ret);
/* Put what the lost @task owes back into the pool. @why is filled in if the iteration has to fail
 * for it. The cursors are left unwritten. */
void mr_recovery_return(mr_core *core, struct mr_task *task, char *why, size_t size);
/* A worker came, or can be reached again: settle it if it waited for one. */
void mr_iteration_look_again(mr_core *core, struct mr_iteration *it);
/* Open the recovery tasks that are needed, up to MR_RECOVERIES_MAX. */
void mr_recovery_open(mr_core *core, struct mr_iteration *it);

/* ---------------------------------------------------------------- workers.c */

/* @ref: what its tasks are named by. */
struct mr_core_worker *mr_core_worker_add(mr_core *core, Millrace__WorkerRecord *rec,
                                          const char *ref, mr_error *err);
struct mr_core_worker *mr_core_worker_live(const mr_core *core, const char *incarnation);
bool mr_core_worker_is_live(const struct mr_core_worker *worker);
/* Lost, and neither said that it goes nor has another process at its address. */
bool mr_core_worker_is_missing(const struct mr_core_worker *worker);
void mr_core_worker_put(mr_core *core, const struct mr_core_worker *worker);
/* Its life is over: one put; everything else is derived from it. */
enum mr_loss { MR_LOSS_SILENT, MR_LOSS_SUPERSEDED, MR_LOSS_LEFT };
void mr_core_worker_lose(mr_core *core, struct mr_core_worker *worker, enum mr_loss why);
void mr_core_worker_seen(mr_core *core, struct mr_core_worker *worker);
/* Not heard of for half its time: dead, as far as anybody can see. That is found by its silence,
 * and counts as a crash. */
bool mr_core_worker_is_unheard(const mr_core *core, const struct mr_core_worker *worker);
void mr_core_worker_forget(mr_core *core, struct mr_core_worker *worker);
void mr_core_worker_free(struct mr_core_worker *worker);
void mr_core_do_watch_worker(mr_core *core, const Millrace__WatchWorkerRequest *in, bool watches);
void mr_core_do_worker_heartbeat(mr_core *core, const Millrace__WorkerHeartbeatRequest *in);

/* ---------------------------------------------------------------- register.c: workers that come */

/* It watches: its life begins. NULL: it is not registered (MR_ENOTFOUND), or something stands
 * against it. At most two changes. @watches: see struct mr_command, worker_watches. */
struct mr_core_worker *mr_core_worker_arrive(mr_core *core, const char *incarnation, bool watches,
                                             mr_error *err);
void mr_newcomers_free(mr_core *core);
void mr_core_do_register_worker(mr_core *core, const Millrace__RegisterWorkerRequest *in,
                                bool watches);

/* ---------------------------------------------------------------- clients.c */

struct mr_client *mr_client_add(mr_core *core, Millrace__ClientRecord *rec,
                                struct mr_iteration *it);
/* Attach @id to @it, moving it there if it was elsewhere. At most five changes. */
void mr_client_attach(mr_core *core, const char *id, struct mr_iteration *it);
/* At most three changes: the session, the iteration (open and unread, or it counts what went
 * along), and the job if it is idle or goes. */
void mr_client_release(mr_core *core, struct mr_client *client, bool by_itself);
/* @task of @it has ended while @holder had elements of it. At most two changes: the session, and
 * the iteration. */
void mr_client_hold(mr_core *core, struct mr_iteration *it, const char *task,
                    const Millrace__Holder *holder);
/* Its job goes while it reads: it is told, its record goes with the iteration. No change. */
void mr_client_evict(mr_core *core, struct mr_client *client);
/* Its iteration is gone, and with it, soon, its record. */
void mr_client_orphan(mr_core *core, struct mr_client *client);
void mr_client_forget(mr_core *core, struct mr_client *client);
void mr_client_free(struct mr_client *client);
void mr_core_do_watch_client(mr_core *core, const Millrace__WatchClientRequest *in);
void mr_core_do_client_heartbeat(mr_core *core, const Millrace__ClientHeartbeatRequest *in);
void mr_core_do_release_client(mr_core *core, const Millrace__ReleaseClientRequest *in);

/* ---------------------------------------------------------------- adopt.c */

/* Take @rec, which was stored under @key, in. MR_EDATALOSS: it contradicts its key or what is
 * there. */
/* vet.c: MR_EDATALOSS for what no core can have written. */
int mr_vet_record(const ProtobufCMessage *rec,
                  mr_error *err); /* its numbers and enumerators, whatever it is */
int mr_vet_job(const mr_core *core, const Millrace__JobRecord *job, mr_error *err);
int mr_vet_dataset(const mr_core *core, const Millrace__DatasetRecord *dataset, mr_error *err);
int mr_vet_providers(Millrace__ProviderInfo *const *providers, size_t n, mr_error *err);
int mr_vet_iteration(const struct mr_job *job, const struct mr_production *production,
                     const Millrace__IterationRecord *rec, mr_error *err);
int mr_vet_grant(const struct mr_iteration *it, size_t provider, const Millrace__GrantRecord *grant,
                 mr_error *err);
int mr_vet_rounds(const Millrace__RoundsRecord *rounds, mr_error *err);

/* flaws.c: takeover, when a record of a dataset, job, production or iteration is bad: jobs are set
 * aside. */
/* The one of @key; NULL: there is none. */
struct mr_flaw *mr_flaw_find(const mr_core *core, const char *key);
/* @key cannot be used, as @line ("'<key>': <why>") says: of itself (@is_root), or of what it rests
 * on. */
struct mr_flaw *mr_flaw_note(mr_core *core, const char *key, const char *line, bool is_root);
/* The same with @err, which does not name the key yet. */
struct mr_flaw *mr_flaw_note_error(mr_core *core, const char *key, mr_error *err);
/* The record of @key is bad, as @err says. @owner: as much as its value tells of the job's id; or
 * "". */
void mr_core_spoil_jobs(mr_core *core, const char *key, const char *owner, mr_error *err);
/* The job of @slot, whose id is @id if that is known ("": it is not), is set aside for what @line
 * says. */
void mr_slot_spoil(mr_core *core, const char *slot, const char *id, const char *line, bool is_root);
/* @job is to be set aside for what @line says. */
void mr_job_spoil(mr_core *core, const struct mr_job *job, const char *line);
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
/* Take what was found bad so far out of memory, with all that rests on it. */
void mr_core_set_aside_flawed(mr_core *core);
/* What is said to be left over and is not, since its job is set aside, stays. */
void mr_core_keep_flawed(mr_core *core);
/* @key is written anew, or deleted. */
void mr_flaw_drop(mr_core *core, struct mr_flaw *flaw, bool is_deleted);
void mr_flaws_free(mr_core *core);

/* set_aside.c: takeover, when a record of an iteration is bad. */
/* @key, of @it, cannot be used, as @err says: @it is to end for it, or its jobs are set aside. */
void mr_iteration_spoil(mr_core *core, struct mr_iteration *it, const char *key, mr_error *err);
/* @key, of a worker or client, cannot be used, as @err says: go on without what it says. False: the
 * core has failed. */
bool mr_core_do_without(mr_core *core, const char *key, mr_error *err);
/* When all records are there: end what is spoiled. */
void mr_core_end_spoiled(mr_core *core);
/* Put what was ended, as far as there is room. True: all of it is. */
bool mr_core_write_spoiled(mr_core *core);

/* revive.c: takeover, when the record of a life is gone. */
/* Make life @ref again, as lost; @stored: there is a record, but a bad one. False: nothing can be
 * made of that name, or the core has failed. */
bool mr_core_worker_revive(mr_core *core, const char *ref, bool stored);
/* The life that @path begins with ("<life>" or "<life>/<n>") still holds something: make it again
 * if it is gone. */
void mr_core_worker_revive_holder(mr_core *core, const char *path);
/* Put what was made again, as far as there is room. */
void mr_core_write_revived(mr_core *core);

typedef int mr_adopt_fn(mr_core *core, const char *key, void *rec, mr_error *err);
mr_adopt_fn mr_adopt_schema, mr_adopt_dataset, mr_adopt_job, mr_adopt_worker, mr_adopt_production,
    mr_adopt_iteration, mr_adopt_task, mr_adopt_cursor, mr_adopt_grant, mr_adopt_rounds,
    mr_adopt_consumer, mr_adopt_client;

/* ---------------------------------------------------------------- timers.c, status.c, waits.c,
 * counts.c, load.c */

void mr_core_do_timer(mr_core *core);
/* mr_core_check() of one iteration alone. */
int mr_iteration_check(const mr_core *core, const struct mr_iteration *it, mr_error *err);
/* A client may have attached again since its key was left over. */
bool mr_left_over_is_in_use(const mr_core *core, const char *key);
/* A client says that the hosts of these workers refuse connections. Those that are silent here,
 * too, have their tasks of a coordinated iteration closed at once. */
void mr_iteration_close_refusing(mr_core *core, struct mr_iteration *it, char *const *incarnations,
                                 size_t n);
/* All clients of @it have said for a full worker timeout that they cannot reach @worker. */
bool mr_iteration_cannot_reach(const mr_core *core, const struct mr_iteration *it,
                               const struct mr_core_worker *worker);
/* What holds @it up, as a line for people; empty: nothing that is known here. */
#define MR_WAITS_FOR_SIZE 200
void mr_iteration_waits_for(const mr_core *core, const struct mr_iteration *it, char *out,
                            size_t size);
void mr_core_do_status(mr_core *core, const struct mr_status_about *about);
/* What people are told of its state. */
enum mr_task_shown mr_task_shown(const struct mr_task *task);
void mr_staged_free(struct mr_staged *staged);
/* Another record is of that repetition of that job, too; @rec is not adopted yet. */
bool mr_staged_is_contested(const mr_core *core, const Millrace__IterationRecord *rec);

#include "dispatcher/core/rounds.h"  /* rounds.c, consumers.c */
#include "dispatcher/core/sharing.h" /* productions.c, join.c, trainers.c, status_sharing.c */

#endif
