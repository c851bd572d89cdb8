/* Trainers: jobs of one name that share productions (CrossTrainerCache). Each is a job of its own
 * in everything else. */
#include "dispatcher/model/apply.h"

#include <string.h>

static struct mr_trainers *trainers_of(mr_core *core, const char *name)
{
    struct mr_trainers *trainers = mr_trainers_find(core, name);
    char encoded[MR_KEY_SIZE];

    if (trainers != NULL) {
        return trainers;
    }
    mr_name_encode(name, encoded, sizeof encoded);
    trainers = mr_core_alloc(core, 1, sizeof *trainers + strlen(encoded) + 1);
    if (trainers == NULL) {
        return NULL;
    }
    TAILQ_INIT(&trainers->jobs);
    memcpy(trainers->name, encoded, strlen(encoded) + 1);
    mr_core_index(core, &core->trainers, trainers->name, trainers);
    if (core->failed != 0) {
        mr_free(trainers);
        return NULL;
    }
    return trainers;
}

void mr_trainers_add(mr_core *core, struct mr_job *job)
{
    if (job->rec->trainer[0] == '\0') {
        return;
    }
    job->trainers = trainers_of(core, job->rec->name);
    if (job->trainers != NULL) {
        TAILQ_INSERT_TAIL(&job->trainers->jobs, job, among_trainers);
        job->trainers->njobs++;
    }
}

void mr_trainers_remove(mr_core *core, struct mr_job *job)
{
    struct mr_trainers *trainers = job->trainers;

    if (trainers == NULL) {
        return;
    }
    job->trainers = NULL;
    TAILQ_REMOVE(&trainers->jobs, job, among_trainers);
    if (--trainers->njobs == 0) {
        mr_map_remove(&core->trainers, trainers->name);
        mr_free(trainers);
    }
}
