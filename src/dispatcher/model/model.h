/* What the dispatcher knows, as a whole. An object owns its record (the message that is its value
 * in the store) and adds what is derived or soft; only updates change it (update.h). This header
 * has those of all objects with it. */
#pragma once

#include "dispatcher/model/client.h"
#include "dispatcher/model/flaws.h"
#include "dispatcher/model/iteration.h"
#include "dispatcher/model/production.h"
#include "dispatcher/model/rounds.h"
#include "dispatcher/model/step.h"

/* At least so long after a takeover nothing is collected: those who may still want it look for the
 * leader first. */
#define MR_RESTART_GRACE_MS (15 * 1000)
/* Retention below this is armed anew by each leader; above it goes by the wall time in the record,
 * or daily failovers would keep things for ever. */
#define MR_LONG_MS (3600 * 1000)

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
    /* until all are loaded: of each iteration the record of a client, which tells its job */
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
        MR_LOSS_PAUSE_OFF,
        MR_LOSS_PAUSE_ON,
        MR_LOSS_PAUSE_SPENT
    } loss_pause; /* on the loss of many workers at once */
    int64_t loss_pause_until;

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
    struct mr_map trainers;    /* by encoded job name */
    TAILQ_HEAD(, mr_production) production_list;
    TAILQ_HEAD(, mr_dataset_entry) dataset_list;
    TAILQ_HEAD(, mr_job) job_list;
    TAILQ_HEAD(, mr_iteration) iteration_list;
    TAILQ_HEAD(, mr_iteration) marked;
    TAILQ_HEAD(, mr_iteration) changed_iterations;
    TAILQ_HEAD(, mr_core_worker) changed_workers;
    TAILQ_HEAD(, mr_core_worker) worker_list;
    TAILQ_HEAD(, mr_newcomer) newcomers;
    size_t nnewcomers;
    TAILQ_HEAD(, mr_client) client_list;
    STAILQ_HEAD(, mr_left_over) left_over;
    size_t nworkers; /* in worker_list */
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
    const ProtobufCMessageDescriptor *reply; /* of its answer; NULL: it has none */
    struct mr_outcome *out;
    size_t change_bytes;
    struct mr_touched touched[MR_CORE_CHANGES_MAX]; /* beside out->changes */
    size_t unchecked; /* steps since the last walk (slow assertions) */
    int failed;       /* < 0: why the core cannot go on */
    mr_error failure;
};

#define MR_FEATURE_AT_LEAST_ONCE "at_least_once"
#define MR_FEATURE_SHARING "sharing"
#define MR_FEATURE_DRAINING "draining"
#define MR_FEATURE_ROUNDS "rounds"

void mr_model_init(mr_core *core);
void mr_model_free(mr_core *core);
void mr_hosts_init(mr_core *core);
void mr_hosts_free(mr_core *core);
/* One more of @all, of the host whose command runs; given back with what it stands for. */
struct mr_share *mr_hosts_note(mr_core *core, struct mr_shares *all);
/* May that host have one more of @all? MR_EEXHAUSTED. */
int mr_hosts_check(const mr_core *core, const struct mr_shares *all, mr_error *err);
/* The same of tasks, of which each of its iterations has one at each worker. */
int mr_hosts_check_tasks(const mr_core *core, mr_error *err);

/* Who asks (owners.c); "": nobody in particular. */
const char *mr_command_owner(const mr_core *core);
/* MR_EEXHAUSTED: he may not have another job at work: @job, or a new one (NULL). */
int mr_owner_check_job(const mr_core *core, const struct mr_job *job, mr_error *err);
/* ... nor another dataset. */
int mr_owner_check_dataset(const mr_core *core, mr_error *err);
/* MR_EPRECOND: this version must not serve it. */
int mr_schema_check(const Millrace__SchemaRecord *schema, mr_error *err);
/* There is none yet. */
void mr_schema_begin(mr_core *core);
bool mr_schema_has(const mr_core *core, const char *feature);
