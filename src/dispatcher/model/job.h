/* Jobs and the datasets that they read. Trainers are jobs of one name that share productions. */
#pragma once

#include "dispatcher/model/base.h"

#define MR_JOB_ITERATIONS_MAX 1024
/* Repetitions that were collected before they ended, of which a job remembers the last ones. */
#define MR_COLLECTED_MAX 32
/* Ranges of ended repetitions that one job keeps apart. */
#define MR_ENDED_RANGES_MAX 64
/* Finished iterations of one job whose records are kept for those who ask late, short epochs or
 * not. */
#define MR_FINISHED_KEPT_MAX 64

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
    TAILQ_ENTRY(mr_job) among_trainers;
    struct mr_trainers *MR_RO trainers; /* of a trainer: jobs of its name; else NULL */
    struct mr_dataset_entry *MR_RO dataset;
    TAILQ_HEAD(, mr_iteration) iterations;
    MR_RO uint32_t niterations;
    MR_RO uint32_t nfinished;    /* of those */
    MR_RO uint32_t live_clients; /* of all its iterations */
    struct mr_alarm alarm;
    /* without clients; on the core's clock, from the takeover at the earliest */
    MR_RO int64_t idle_since;
};

/* Does the job read in rounds? */
static inline bool mr_job_is_coordinated(const struct mr_job *job)
{
    return job != NULL && job->rec->num_consumers > 0;
}

/* Of one job name: they are deleted in one transaction. */
#define MR_JOB_TRAINERS_MAX 64
#define MR_TRAINER_BYTES_MAX 64

/* Trainers of one job name. */
struct mr_trainers {
    TAILQ_HEAD(, mr_job) jobs;
    size_t njobs;
    char name[]; /* encoded */
};

struct mr_dataset_entry *mr_dataset_find(const mr_core *core, const char *id);
bool mr_dataset_is_named(const struct mr_dataset_entry *dataset);
/* @id is, or could be, of a dataset that was registered without a name. */
bool mr_dataset_id_is_of_content(const char *id);
void mr_dataset_free(struct mr_dataset_entry *dataset);
void mr_blob_free(struct mr_blob *blob);
void mr_dataset_id_of_content(const char *fingerprint, const char *compression, char *out,
                              size_t size);
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
/* Trainers of a job name; NULL: there is none. */
struct mr_trainers *mr_trainers_find(const mr_core *core, const char *name);
/* "name+trainer", as people say it; NULL if there is none. */
struct mr_job *mr_job_by_label(const mr_core *core, const char *label);
