/* Iterations begin: with a task on every worker, and a production if the job shares. */
#include "dispatcher/rules/rules.h"

/* The table of splits is fixed here, whatever becomes of the dataset. */
static void copy_providers(mr_core *core, Millrace__IterationRecord *rec,
                           const Millrace__DatasetRecord *dataset)
{
    for (size_t i = 0; i < dataset->n_providers; i++) {
        MR_APPEND(core, rec, providers, mr_core_copy(core, &dataset->providers[i]->base));
    }
}

static Millrace__IterationRecord *new_record(mr_core *core, const char *id, uint64_t repetition,
                                             uint64_t seed)
{
    Millrace__IterationRecord *rec = MR_NEW_RECORD(core, iteration_record);

    if (rec != NULL) {
        mr_core_set(core, &rec->id, id);
        rec->repetition = repetition;
        rec->seed = seed;
        rec->created_ms = (uint64_t)core->wall_ms;
    }
    return rec;
}

/* @rec is taken. */
static struct mr_iteration *begin(mr_core *core, struct mr_job *job,
                                  struct mr_production *production,
                                  const struct mr_iteration_rules *rules,
                                  Millrace__IterationRecord *rec)
{
    struct mr_iteration *it = NULL;
    mr_error err;

    if (core->failed != 0) {
        mr_record_free(rec);
        return NULL;
    }
    MR_APPLY(core, iteration_added, job, production, rules, rec, &it, &err);
    if (it == NULL) {
        mr_core_fail(core, err.code, &err);
        return NULL;
    }
    if (rules->begin != NULL && core->failed == 0) {
        rules->begin(core, it);
    }
    return it;
}

struct mr_iteration *mr_iteration_create_hidden(mr_core *core, struct mr_production *production,
                                                uint64_t seed)
{
    Millrace__IterationRecord *rec =
        new_record(core, production->rec->id, production->rec->repetition, seed);

    if (rec != NULL && production->rec->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        copy_providers(core, rec, production->dataset->rec);
    }
    return begin(core, NULL, production, &mr_producing_rules, rec);
}

struct mr_iteration *mr_iteration_create(mr_core *core, struct mr_job *job, uint64_t repetition,
                                         uint64_t seed)
{
    struct mr_production *production = NULL;
    Millrace__IterationRecord *rec;
    struct mr_iteration *it;
    char id[MR_STAMP_SIZE];

    mr_stamp_print(mr_core_stamp(core), id);
    rec = new_record(core, id, repetition, seed);
    if (rec == NULL) {
        return NULL;
    }
    mr_core_set(core, &rec->job_id, job->rec->id);
    if (mr_job_shares(job)) {
        production = mr_join_choose(core, job, rec);
    } else if (job->rec->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        copy_providers(core, rec, job->dataset->rec);
    }
    it = begin(core, job, production, mr_kind_choose(job, production), rec);
    if (it == NULL) {
        return NULL;
    }
    mr_core_trace(core, "iteration %s: repetition %" PRIu64 " of job %s", id, repetition,
                  mr_job_label(job));
    if (production != NULL) {
        mr_alarm_by(core, &it->alarm, mr_join_due(it));
        mr_core_trace(core, "iteration %s: %s production %s", id, rec->joining ? "joins" : "uses",
                      rec->production);
    }
    return it;
}
