/*
 * Takeover, when a record is bad: what it spoils is its iteration, which ends at once with an error
 * that names the key. All others go on. What a bad record of a worker or a client says is done
 * without; about those of other kinds see flaws.c. The schema alone is needed by all.
 *
 * The end is decided before anybody is served, and written by the first steps of the timer. Until
 * then nothing that was left over is deleted: the next leader is to find the same.
 */
#include "dispatcher/takeover/takeover.h"

/*
 * When the record of a worker's life is bad, or gone and somebody deleted it, its grants are there.
 * A leader deletes them before it deletes the life, so whatever has open grants and no life was not
 * forgotten in order. Such a life is made again from its name, lost at this moment: its loss is
 * counted like any other, and what it held goes back or is counted as lost, by guarantee. The
 * process, if it lives, is told that it was lost, and registers anew.
 *
 * The record is written before any loss is counted, so that the next leader finds both or neither.
 */

/* "<incarnation>.<stamp>" taken apart. An older name has no stamp, and does not tell when that life
 * began. */
static bool parse_ref(const char *ref, char incarnation[MR_ID_HEX + 1], const char **registered)
{
    struct mr_stamp stamp;

    if (strlen(ref) >= MR_WORKER_REF_SIZE || strcspn(ref, ".") != MR_ID_HEX ||
        ref[MR_ID_HEX] == '\0') {
        return false;
    }
    memcpy(incarnation, ref, MR_ID_HEX);
    incarnation[MR_ID_HEX] = '\0';
    *registered = ref + MR_ID_HEX + 1;
    return mr_id_is_valid(incarnation) && mr_stamp_parse(*registered, &stamp);
}

/* Make life @ref again, as lost; @stored: there is a record, but a bad one. False: nothing can be
 * made of that name, or the core has failed. */
static bool revive(mr_core *core, const char *ref, bool stored)
{
    struct mr_core_worker *worker;
    char incarnation[MR_ID_HEX + 1];
    const char *registered;
    mr_error err;

    if (!parse_ref(ref, incarnation, &registered) || core->nworkers >= MR_CORE_WORKERS_MAX) {
        return false;
    }
    Millrace__WorkerRecord *rec = MR_NEW_RECORD(core, worker_record);
    if (rec == NULL) {
        return false;
    }
    mr_core_set(core, &rec->incarnation, incarnation);
    mr_core_set(core, &rec->address, "unknown");
    mr_core_set(core, &rec->registered, registered);
    mr_core_set_stamp(core, &rec->lost, mr_core_stamp(core));
    rec->life = 1; /* the least that it can have been; it is for people */

    MR_APPLY(core, worker_added, rec, ref, &worker, &err);
    if (worker == NULL) {
        return false;
    }
    MR_APPLY(core, worker_revived, worker, !stored);
    mr_core_note_loss(core, "worker %s: its record %s: it counts as lost", ref,
                      stored ? "is bad" : "is gone and it has splits");
    return true;
}

void mr_core_worker_revive_holder(mr_core *core, const char *path)
{
    char ref[MR_WORKER_REF_SIZE];
    size_t n = strcspn(path, "/");

    if (n < sizeof ref) {
        memcpy(ref, path, n);
        ref[n] = '\0';
        if (mr_map_get(&core->workers_by_ref, ref) == NULL) {
            (void)revive(core, ref, false);
        }
    }
}

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
    mr_core_note_loss(core, "done without: %s", flaw->why);
    if (!mr_key_is_below(key, MR_KEY_WORKERS) ||
        !revive(core, key + strlen(MR_KEY_WORKERS), true /* stored */)) {
        mr_leave_over_key(core, key);
    }
    return true;
}

void mr_core_end_spoiled(mr_core *core)
{
    struct mr_iteration *it;

    TAILQ_FOREACH(it, &core->iteration_list, link) {
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

    TAILQ_FOREACH(it, &core->iteration_list, link) {
        if (it->rounds != NULL && it->rounds->rec == NULL && it->broken == NULL) {
            snprintf(key, sizeof key, "rounds/%s", it->rec->id);
            (void)mr_error_set(&why, MR_EDATALOSS, "is missing: its job reads in rounds");
            mr_iteration_spoil(core, it, key, &why);
        }
    }
}
