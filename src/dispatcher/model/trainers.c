/* Trainers: jobs of one name that share productions (CrossTrainerCache). Each is a job of its own
 * in everything else. */
#include "dispatcher/model/apply.h"

#include <string.h>

/* Trainers: jobs of one name that share productions (CrossTrainerCache). Each is a job of its own
 * in everything else. */

static struct mr_family *family_of(mr_core *core, const char *name)
{
    struct mr_family *family = mr_family_find(core, name);
    char encoded[MR_KEY_SIZE];

    if (family != NULL) {
        return family;
    }
    mr_name_encode(name, encoded, sizeof encoded);
    family = mr_calloc(1, sizeof *family + strlen(encoded) + 1);
    if (family == NULL) {
        mr_core_nomem(core);
        return NULL;
    }
    TAILQ_INIT(&family->jobs);
    memcpy(family->name, encoded, strlen(encoded) + 1);
    mr_core_index(core, &core->families, family->name, family);
    if (core->failed != 0) {
        mr_free(family);
        return NULL;
    }
    return family;
}

static void family_free(struct mr_family *family)
{
    mr_free(family);
}

void mr_family_join(mr_core *core, struct mr_job *job)
{
    if (job->rec->trainer[0] == '\0') {
        return;
    }
    job->family = family_of(core, job->rec->name);
    if (job->family != NULL) {
        TAILQ_INSERT_TAIL(&job->family->jobs, job, in_family);
        job->family->njobs++;
    }
}

void mr_family_leave(mr_core *core, struct mr_job *job)
{
    struct mr_family *family = job->family;

    if (family == NULL) {
        return;
    }
    job->family = NULL;
    TAILQ_REMOVE(&family->jobs, job, in_family);
    if (--family->njobs == 0) {
        mr_map_remove(&core->families, family->name);
        family_free(family);
    }
}
