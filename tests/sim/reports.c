/* What a task says is finished: grants that were read to their end, of which nothing is on its way
 * any more. */
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <millrace/base.h>

static bool is_finished(const struct sim *sim, const struct sim_grant *grant)
{
    return grant->read && (grant->live == 0 || sim->bug == SIM_BUG_FINISHED_IS_READ ||
                           (sim->bug == SIM_BUG_FINISHED_IS_RECEIVED && grant->unsent == 0));
}

static Millrace__GrantReport *make_report(const struct sim *sim, const struct sim_task *task,
                                          size_t provider)
{
    Millrace__GrantReport *report = mr_malloc(sizeof *report);
    Millrace__SplitRange *last = NULL;

    MR_ASSERT(report != NULL);
    *report = (Millrace__GrantReport)MILLRACE__GRANT_REPORT__INIT;
    report->provider = (uint32_t)provider;
    report->finished = mr_calloc(task->ngrants + 1, sizeof *report->finished);
    for (size_t i = 0; i < task->ngrants; i++) {
        const struct sim_grant *grant = &task->grants[i];

        if (grant->provider != provider || !is_finished(sim, grant)) {
            continue;
        }
        if (last != NULL && last->first + last->count == grant->seq) {
            last->count++;
            continue;
        }
        last = mr_malloc(sizeof *last);
        MR_ASSERT(last != NULL);
        *last = (Millrace__SplitRange)MILLRACE__SPLIT_RANGE__INIT;
        last->first = grant->seq;
        last->count = 1;
        report->finished[report->n_finished++] = last;
    }
    return report;
}

size_t sim_task_reports(const struct sim *sim, const struct sim_task *task,
                        Millrace__GrantReport ***ret)
{
    size_t n = task->repeats ? task->nproviders : 0;

    *ret = mr_calloc(n + 1, sizeof **ret);
    MR_ASSERT(*ret != NULL);
    for (size_t i = 0; i < n; i++) {
        (*ret)[i] = make_report(sim, task, i);
    }
    return n;
}

void sim_reports_free(Millrace__GrantReport **reports, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < reports[i]->n_finished; j++) {
            mr_free(reports[i]->finished[j]);
        }
        mr_free(reports[i]->finished);
        mr_free(reports[i]);
    }
    mr_free(reports);
}
