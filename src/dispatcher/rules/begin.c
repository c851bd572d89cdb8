/*
 * Iterations: one pass of a job's readers over its dataset.
 *
 *     open ──(no task open, one ended by itself)──► finished
 *      │  ├─(a task failed)──────────────────────────►┤
 *      │  ╰─(collected)──────────────────────────────►╯
 *      │                                              ╰──(nobody needs it)──► forgotten
 *      ╰─(OFF, the job's last: long without a reader)──► forgotten, made anew for the next reader
 *
 * When it is over is settle.c's to say. Finished is durable and never undone: opening a finished
 * repetition is an immediate end, by the record or, when that is gone, by the job's own memory
 * (ended.c). A DYNAMIC iteration is therefore never forgotten before it has finished: made afresh,
 * it would hand out everything twice. It is collected, which counts as its end, when nobody has
 * read it for long and the job has gone on to a later one (or whenever it is unread, if that was
 * configured).
 */
#include "dispatcher/rules/rules.h"

/* The table of splits is fixed here, whatever becomes of the dataset. */
void mr_iteration_copy_providers(mr_core *core, Millrace__IterationRecord *rec,
                                 const Millrace__DatasetRecord *dataset)
{
    if (dataset->n_providers == 0) {
        return;
    }
    rec->providers = mr_calloc(dataset->n_providers, sizeof *rec->providers);
    if (rec->providers == NULL) {
        mr_core_nomem(core);
        return;
    }
    for (size_t i = 0; i < dataset->n_providers; i++) {
        Millrace__ProviderInfo *info =
            mr_core_new_record(core, &millrace__provider_info__descriptor);

        if (info == NULL) {
            return;
        }
        info->splits = dataset->providers[i]->splits;
        info->split_elements = dataset->providers[i]->split_elements;
        mr_core_set(core, &info->source, dataset->providers[i]->source);
        rec->providers[rec->n_providers++] = info;
    }
}

Millrace__IterationRecord *mr_iteration_new_record(mr_core *core, const char *id,
                                                   uint64_t repetition, uint64_t seed)
{
    Millrace__IterationRecord *rec =
        mr_core_new_record(core, &millrace__iteration_record__descriptor);

    if (rec != NULL) {
        mr_core_set(core, &rec->id, id);
        rec->repetition = repetition;
        rec->seed = seed;
        rec->created_ms = (uint64_t)core->wall_ms;
    }
    return rec;
}

/* Put it, with a task on every live worker. @rec is taken. */
struct mr_iteration *mr_iteration_begin(mr_core *core, struct mr_job *job,
                                        struct mr_production *production,
                                        Millrace__IterationRecord *rec)
{
    struct mr_core_worker *worker;
    struct mr_iteration *it;
    mr_error err;

    if (core->failed != 0) {
        mr_record_free(rec);
        return NULL;
    }
    it = mr_iteration_add(core, job, production, rec, &err);
    if (it == NULL) {
        mr_core_fail(core, err.code, &err);
        return NULL;
    }
    mr_touch(core, MR_STORED_ITERATION, it, 0);
    TAILQ_FOREACH(worker, &core->worker_list, link)
    {
        if (mr_core_worker_is_live(worker) && mr_core_worker_gets_tasks(worker, it)) {
            mr_task_add(core, it, worker);
        }
    }
    if (it->rounds != NULL) {
        mr_rounds_begin(core, it);
    }
    if (core->failed == 0 &&
        it->uses == NULL) { /* Whoever reads one: workers hear of it when the client is attached. */
        mr_iteration_note_assignments(core, it);
    }
    return it;
}

struct mr_iteration *mr_iteration_create_hidden(mr_core *core, struct mr_production *production,
                                                uint64_t seed)
{
    Millrace__IterationRecord *rec =
        mr_iteration_new_record(core, production->rec->id, production->rec->repetition, seed);

    if (rec != NULL && production->rec->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        mr_iteration_copy_providers(core, rec, production->dataset->rec);
    }
    return mr_iteration_begin(core, NULL, production, rec);
}
