/* A repetition of a job that somebody opens first. */
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

#include <inttypes.h>

struct mr_iteration *mr_iteration_create(mr_core *core, struct mr_job *job, uint64_t repetition,
                                         uint64_t seed)
{
    struct mr_production *production = NULL;
    Millrace__IterationRecord *rec;
    struct mr_iteration *it;
    char id[MR_STAMP_SIZE];

    mr_stamp_print(mr_core_stamp(core), id);
    rec = mr_iteration_new_record(core, id, repetition, seed);
    if (rec == NULL) {
        return NULL;
    }
    mr_core_set(core, &rec->job_id, job->rec->id);
    if (mr_job_shares(job)) {
        production = mr_join_choose(core, job, rec);
    } else if (job->rec->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC) {
        mr_iteration_copy_providers(core, rec, job->dataset->rec);
    }
    it = mr_iteration_begin(core, job, production, mr_kind_choose(job, production), rec);
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
