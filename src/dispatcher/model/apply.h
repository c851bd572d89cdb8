/* Between the files that write the model. Nothing outside of model/ includes it. */
#pragma once

#include "dispatcher/model/model.h"
#include "dispatcher/model/update.h"

#define UPDATE(name, ...) void mr_apply_##name(mr_core *core, const struct mr_##name *u);
#include "dispatcher/model/updates.def"
#undef UPDATE

/* ---------------------------------------------------------------- keys.c */

/* Where its record is; NULL is there if it has none. */
void **mr_stored_slot(enum mr_stored_kind kind, void *object, size_t index);

/* ---------------------------------------------------------------- apply_tasks.c */

/* @rec: of a recovery task, taken; NULL: derived. */
struct mr_task *mr_task_add(mr_core *core, struct mr_iteration *it, struct mr_core_worker *worker,
                            Millrace__TaskRecord *rec);
void mr_task_move(mr_core *core, struct mr_task *task, enum mr_task_state to);
/* Its loss is in the iteration's. */
void mr_task_set_counted(struct mr_task *task);
/* Its grants are left over, and nothing of them is needed any more. */
void mr_task_leave_grants(mr_core *core, struct mr_task *task);
/* Out of memory; its keys are left over. */
void mr_task_remove(mr_core *core, struct mr_task *task);
void mr_task_free(struct mr_task *task);

/* ---------------------------------------------------------------- apply_splits.c */

/* Nothing of it is open any more. */
void mr_grants_void(struct mr_task *task);

/* ---------------------------------------------------------------- apply_iterations.c */

void mr_iteration_remove(mr_core *core, struct mr_iteration *it, bool with_owner);
/* @splits are lost, of which pipelines make at most @elements; 0: nobody knows, and so nobody does
 * of the sum. */
void mr_iteration_note_lost(struct mr_iteration *it, uint64_t splits, uint64_t elements);

/* ---------------------------------------------------------------- apply_clients.c */

/* Its iteration is gone, and with it, soon, its record. */
void mr_client_orphan(mr_core *core, struct mr_client *client);

/* ---------------------------------------------------------------- apply_productions.c */

/* @it uses it from now on. */
void mr_production_join(mr_core *core, struct mr_production *p, struct mr_iteration *it);
void mr_production_leave(mr_core *core, struct mr_iteration *it);
/* @it has finished; it still holds its production for those who come late. */
void mr_production_note_finished(mr_core *core, struct mr_iteration *it);
void mr_sharing_report_free(struct mr_sharing_report *report);

/* ------------------------------------------------ apply_rounds.c, rounds_schedule.c */

struct mr_coordination *mr_coordination_new(mr_core *core, const struct mr_job *job);
void mr_coordination_free(struct mr_coordination *rounds);
/* It has ended: what is stored is left over. */
void mr_rounds_drop(mr_core *core, struct mr_iteration *it);
/* Its index in @schedule; added, if it is not there. */
uint32_t mr_rounds_add_task(mr_core *core, Millrace__RoundSchedule *schedule, const char *id);
/* From round @from on the @n @tasks (indices) take turns. */
void mr_rounds_add_segment(mr_core *core, Millrace__RoundSchedule *schedule, uint64_t from,
                           const uint32_t *tasks, size_t n);

/* ---------------------------------------------------------------- ended.c, apply_jobs.c */

/* Its record is the caller's to touch. */
void mr_job_note_ended(mr_core *core, struct mr_job *job, uint64_t repetition);
void mr_trainers_remove(mr_core *core, struct mr_job *job);
