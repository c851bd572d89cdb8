/* What people, clients and workers are shown. */
#pragma once

#include "dispatcher/model/model.h"

/* What holds @it up, as a line for people; empty: nothing that is known here. */
#define MR_WAITS_FOR_SIZE 200

/* ---------------------------------------------------------------- updates.c */

void mr_client_update_fill(mr_core *core, const struct mr_iteration *it,
                           Millrace__ClientUpdate *update);
void mr_core_worker_update_fill(mr_core *core, const struct mr_core_worker *worker,
                                Millrace__WorkerUpdate *update);

/* ---------------------------------------------------------------- waits.c */

void mr_iteration_waits_for(const mr_core *core, const struct mr_iteration *it, char *out,
                            size_t size);

/* ---------------------------------------------------------------- why_job.c */

struct mr_why;
/* What bounds @job (why.h); false: nobody reads it. */
bool mr_job_why(const mr_core *core, const struct mr_job *job, struct mr_why *ret);
/* The same for people; NULL: nobody reads it. */
Millrace__Why *mr_status_why(mr_core *core, const struct mr_job *job);

/* ---------------------------------------------------------------- status.c */

int mr_core_do_status(mr_core *core, const struct mr_command *command, mr_error *err);

/* ---------------------------------------------------------------- counts.c */

/* What people are told of its state. */
enum mr_task_shown mr_task_shown(const struct mr_task *task);

/* ---------------------------------------------------------------- status_tasks.c */

void mr_status_set_short(mr_core *core, char **slot, const char *id);
/* Behind the @*count that *@list has. */
void mr_status_list_tasks(mr_core *core, const struct mr_iteration *it,
                          Millrace__TaskStatus ***list, size_t *count);
void mr_status_list_providers(mr_core *core, const struct mr_iteration *it,
                              Millrace__ProviderStatus ***list, size_t *count);
