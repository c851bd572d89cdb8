/* What must hold of an iteration's rounds. */
#include "dispatcher/model/model.h"
#include "dispatcher/model/rounds.h"

int mr_rounds_check(const mr_core *core, const struct mr_iteration *it, mr_error *err)
{
    const struct mr_coordination *rounds = it->rounds;
    bool expected = mr_job_is_coordinated(it->job) && !it->rec->finished;
    int rc;

    if ((rounds != NULL) != expected) {
        return mr_error_set(err, MR_EINTERNAL, "iteration %s %s rounds", it->rec->id,
                            expected ? "has no" : "has");
    }
    if (rounds == NULL) {
        return MR_OK;
    }
    if (rounds->n != it->job->rec->num_consumers || rounds->moved) {
        return mr_error_set(err, MR_EINTERNAL,
                            "iteration %s: its rounds are not written or not told", it->rec->id);
    }
    rc = mr_schedule_check(rounds->rec->schedule, err);
    if (rc < 0) {
        return mr_error_set(err, MR_EINTERNAL, "iteration %s: its schedule is out of order",
                            it->rec->id);
    }
    if (mr_rounds_last_segment(it)->from_round > rounds->rec->horizon) {
        return mr_error_set(err, MR_EINTERNAL, "iteration %s: a segment begins beyond the horizon",
                            it->rec->id);
    }
    for (uint32_t i = 0; i < rounds->n; i++) {
        const struct mr_seat *seat = &rounds->seats[i];

        if (seat->rec == NULL ? seat->known : seat->rec->session == 0) {
            return mr_error_set(err, MR_EINTERNAL,
                                "iteration %s: nobody has place %u, and it is known", it->rec->id,
                                i);
        }
    }
    return core->ready ? MR_OK : rc;
}
