/*
 * Productions: one run of a dataset on all workers, for several iterations that want the same
 * elements.
 *
 *     made by the first iteration that wants it ──► joined by others (join.c) ──► removed with
 *                                        │                                       the last of them
 *                                        ╰─(a user failed, a worker dropped its start)──► closed
 *
 * An iteration uses its production as long as its record exists, finished or not: somebody who
 * comes late may still find everything in the window. A closed one goes with the last iteration
 * that is not finished.
 *
 * Who uses what is said by the iterations' records. The list in the production's own record is for
 * people: it is put with each iteration that joins, and what has gone is taken out when there is
 * time, since a job may go with many iterations in one transaction.
 */
#include "dispatcher/model/model.h"

void mr_production_forget(mr_core *core, struct mr_production *p)
{
    struct mr_dataset_entry *dataset = p->dataset;

    MR_ASSERT(mr_production_is_over(p));
    mr_core_trace(core, "production %s: over", p->rec->id);
    mr_delete(core, MR_STORED_PRODUCTION, p,
              0); /* first: a hidden iteration without it is a left-over to whoever loads it */
    while (!TAILQ_EMPTY(&p->users)) {
        struct mr_iteration *it = TAILQ_FIRST(&p->users);

        TAILQ_REMOVE(&p->users, it, in_production);
        it->uses = NULL;
    }
    if (p->hidden != NULL) { /* at takeover, when it is set aside, it may lack one */
        mr_iteration_forget(core, p->hidden, true /* with_job: its owner */);
    }
    mr_map_remove(&core->productions, p->rec->id);
    mr_alarm_off(core, &p->alarm);
    TAILQ_REMOVE(&core->production_list, p, link);
    TAILQ_REMOVE(&dataset->blob->productions, p, in_blob);
    dataset->productions--;
    mr_dataset_use(core, dataset);
    mr_production_free(p);
}
