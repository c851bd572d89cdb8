/*
 * Takeover, when a record is bad: what it spoils is its iteration, which ends at once with an error
 * that names the key. All others go on. What a bad record of a worker or a client says is done
 * without; about those of other kinds see flaws.c. The schema alone is needed by all.
 *
 * The end is decided before anybody is served, and written by the first steps of the timer. Until
 * then nothing that was left over is deleted: the next leader is to find the same.
 */
#include "dispatcher/core/keys.h"
#include "dispatcher/takeover/takeover.h"

#include <stdio.h>
#include <string.h>

void mr_iteration_spoil(mr_core *core, struct mr_iteration *it, const char *key, mr_error *err)
{
    const struct mr_flaw *flaw = mr_flaw_note_error(core, key, err);

    if (flaw == NULL) {
        return;
    }
    if (it->job == NULL) { /* several jobs rest on it */
        mr_flaw_note_of(core, MR_KEY_PRODUCTIONS, it->rec->id, flaw->why);
    } else if (it->uses != NULL) {
        mr_job_spoil(core, it->job, flaw->why);
    } else if (!it->rec->finished && it->broken == NULL) {
        MR_APPLY(core, iteration_broken, it, flaw->why);
    }
}

/* A client that is not known attaches anew. A worker's life is made again from its name, as
 * lost. */
bool mr_core_do_without(mr_core *core, const char *key, mr_error *err)
{
    const struct mr_flaw *flaw;

    if (core->failed != 0) {
        return false;
    }
    flaw = mr_flaw_note_error(core, key, err);
    if (flaw == NULL) {
        return false;
    }
    mr_core_note(core, "done without: %s", flaw->why);
    if (!mr_key_is_below(key, MR_KEY_WORKERS) ||
        !mr_core_worker_revive(core, key + strlen(MR_KEY_WORKERS), true /* stored */)) {
        mr_leave_over_key(core, key);
    }
    return true;
}

void mr_core_end_spoiled(mr_core *core)
{
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (it->broken != NULL && !it->rec->finished && core->failed == 0) {
            core->spoiled++;
            mr_iteration_break(core, it);
        }
    }
}

void mr_rounds_ready(mr_core *core)
{
    struct mr_iteration *it;
    char key[MR_KEY_SIZE];
    mr_error why;

    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (it->rounds != NULL && it->rounds->rec == NULL && it->broken == NULL) {
            snprintf(key, sizeof key, "rounds/%s", it->rec->id);
            (void)mr_error_set(&why, MR_EDATALOSS, "is missing: its job reads in rounds");
            mr_iteration_spoil(core, it, key, &why);
        }
    }
}
