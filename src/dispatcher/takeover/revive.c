/*
 * Takeover, when the record of a worker's life is bad, or gone and somebody deleted it: its grants
 * are there. A leader deletes them before it deletes the life, so whatever has open grants and no
 * life was not forgotten in order. Such a life is made again from its name, lost at this moment:
 * its loss is counted like any other, and what it held goes back or is counted as lost, by
 * guarantee. The process, if it lives, is told that it was lost, and registers anew.
 *
 * The record is written before any loss is counted, so that the next leader finds both or neither.
 */
#include "dispatcher/takeover/takeover.h"

#include <string.h>

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

bool mr_core_worker_revive(mr_core *core, const char *ref, bool stored)
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
    mr_core_note(core, "worker %s: its record %s: it counts as lost", ref,
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
            (void)mr_core_worker_revive(core, ref, false);
        }
    }
}
