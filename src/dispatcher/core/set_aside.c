/*
 * Takeover, when a record is bad: what it spoils is its iteration, which ends at once with an error that names the key.
 * All others go on. Only what belongs to a job's own iteration is set aside like that; what a bad record of a worker or
 * a client says is done without; anything else that is bad is refused, since nobody could say what rests on it.
 *
 * The end is decided before anybody is served, and written by the first steps of the timer. Until then nothing that was
 * left over is deleted: the next leader is to find the same.
 */
#include "dispatcher/core/internal.h"

#include <stdio.h>
#include <string.h>

/* With the job, which notes what has ended. */
#define WRITE_CHANGES 2

int mr_iteration_spoil(mr_core *core, struct mr_iteration *it, const char *key, mr_error *err)
{
    char line[MR_ERROR_MESSAGE_SIZE];

    if (it->job == NULL || it->uses != NULL || core->failed != 0) {
        return MR_EDATALOSS; /* several jobs rest on a production */
    }
    if (!it->rec->finished && it->broken == NULL) {
        mr_error_wrap(err, "'%.160s'", key);
        mr_line_copy(err->message, line, sizeof line); /* it is to be stored, and may quote any bytes */
        it->broken = mr_strdup(line);
        if (it->broken == NULL) {
            mr_core_nomem(core);
        }
    }
    mr_core_leave_over(core, key);
    return MR_OK;
}

/* A client that is not known attaches anew. A worker's life is made again from its name, as lost. */
bool mr_core_do_without(mr_core *core, const char *key, mr_error *err)
{
    static const char workers[] = "workers/";
    char line[MR_ERROR_MESSAGE_SIZE];

    if (core->failed != 0) {
        return false;
    }
    mr_error_wrap(err, "'%.160s'", key);
    mr_line_copy(err->message, line, sizeof line);
    mr_core_note(core, "done without: %s", line);
    if (core->done_without == NULL) {
        core->done_without = mr_strdup(line);
        if (core->done_without == NULL) {
            mr_core_nomem(core);
        }
    }
    if (strncmp(key, workers, sizeof workers - 1) != 0 ||
        !mr_worker_revive(core, key + sizeof workers - 1, true /* stored */)) {
        mr_core_leave_over(core, key);
    }
    return true;
}

const char *mr_core_set_aside(const mr_core *core)
{
    const struct mr_iteration *it;

    if (core->done_without != NULL) {
        return core->done_without;
    }
    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (it->broken != NULL) {
            return it->broken;
        }
    }
    return NULL;
}

void mr_core_end_spoiled(mr_core *core)
{
    struct mr_outcome unwritten = {0};
    struct mr_iteration *it;

    core->out = &unwritten;
    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (it->broken != NULL && !it->rec->finished && core->failed == 0) {
            core->spoiled++;
            mr_iteration_break(core, it);
            mr_outcome_clear(&unwritten);
            core->change_bytes = 0;
        }
    }
    core->out = NULL;
}

bool mr_core_write_spoiled(mr_core *core)
{
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (core->spoiled == 0 || core->full || !mr_core_has_room(core, WRITE_CHANGES)) {
            break;
        }
        if (it->broken != NULL) {
            it->rec->finished_ms = (uint64_t)core->wall_ms;
            mr_iteration_put(core, it);
            mr_job_put(core, it->job);
            mr_free(it->broken);
            it->broken = NULL;
            core->spoiled--;
        }
    }
    return core->spoiled == 0;
}
