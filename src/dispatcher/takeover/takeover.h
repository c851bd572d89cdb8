/* The records of the store become a core again. */
#pragma once

#include "dispatcher/rules/rules.h"

struct staged_record {
    STAILQ_ENTRY(staged_record) link;
    void *rec; /* NULL: the key is all that matters */
    char *why; /* `rec` is NULL, since the value is bad; else NULL */
    char key[];
};
STAILQ_HEAD(staged_list, staged_record);

struct mr_staged {
    struct staged_list lists[MR_STORED_KINDS];
    struct staged_list blobs;
};

/* Take in *@rec, which was stored under @key: it is NULL then. What was on its way out is left
 * over. MR_EDATALOSS: it contradicts its key, or what is there. */
typedef int mr_load_fn(mr_core *core, const char *key, void **rec, mr_error *err);
mr_load_fn mr_load_schema, mr_load_dataset, mr_load_job, mr_load_worker, mr_load_production,
    mr_load_iteration, mr_load_task, mr_load_cursor, mr_load_grant, mr_load_rounds,
    mr_load_consumer, mr_load_client;

/* ---------------------------------------------------------------- validate.c */

/* its numbers and enumerators, whatever it is */
int mr_validate_record(const ProtobufCMessage *rec, mr_error *err);
int mr_validate_job(const mr_core *core, const Millrace__JobRecord *job, mr_error *err);
int mr_validate_dataset(const mr_core *core, const Millrace__DatasetRecord *dataset, mr_error *err);
int mr_validate_iteration(const struct mr_job *job, const struct mr_production *production,
                          const Millrace__IterationRecord *rec, mr_error *err);
int mr_validate_grant(const struct mr_iteration *it, size_t provider,
                      const Millrace__GrantRecord *grant, mr_error *err);
int mr_validate_rounds(const Millrace__RoundsRecord *rounds, mr_error *err);

/* ---------------------------------------------------------------- flaws.c */

/* The record of @key is bad, as @err says. @owner: as much as its value tells of the job's id; or
 * "". */
void mr_core_spoil_jobs(mr_core *core, const char *key, const char *owner, mr_error *err);
/* The job of @slot, whose id is @id if that is known ("": it is not), is set aside for what @line
 * says. */
void mr_slot_spoil(mr_core *core, const char *slot, const char *id, const char *line, bool is_root);
/* @job is to be set aside for what @line says. */
void mr_job_spoil(mr_core *core, const struct mr_job *job, const char *line);
/* Take what was found bad so far out of memory, with all that rests on it. */
void mr_core_set_aside_flawed(mr_core *core);
/* What is said to be left over and is not, since its job is set aside, stays. */
void mr_core_keep_flawed(mr_core *core);

/* ---------------------------------------------------------------- set_aside.c */

/* @key, of @it, cannot be used, as @err says: @it is to end for it, or its jobs are set aside. */
void mr_iteration_spoil(mr_core *core, struct mr_iteration *it, const char *key, mr_error *err);
/* @key, of a worker or client, cannot be used, as @err says: go on without what it says. False: the
 * core has failed. */
bool mr_core_do_without(mr_core *core, const char *key, mr_error *err);
/* When all records are there: each coordinated iteration needs the one of its rounds; and end what
 * is spoiled. */
void mr_rounds_ready(mr_core *core);
void mr_core_end_spoiled(mr_core *core);

/* The life that @path begins with ("<life>" or "<life>/<n>") still holds something: make it again
 * if it is gone. */
void mr_core_worker_revive_holder(mr_core *core, const char *path);

/* ---------------------------------------------------------------- staged.c, load.c */

/* Those of @core, which it has from now on; NULL: no memory. */
struct mr_staged *mr_staged_of(mr_core *core);
void mr_staged_free(struct mr_staged *staged);
/* Another record is of that repetition of that job, too; @rec is not taken in yet. */
bool mr_staged_is_contested(const mr_core *core, const Millrace__IterationRecord *rec);
