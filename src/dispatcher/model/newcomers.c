/*
 * Workers that come. Registering says who and where; a life begins with the stream of its tasks,
 * since anybody may say an address, and who has a stream is there. Until then nothing is stored and
 * nobody counts with it: no task, no split, no place at its address, no silence that would be
 * looked at.
 *
 *     RegisterWorker ──► newcomer, in memory ──(WatchWorker)──► a life, with its record and tasks
 *                             ╰──(another leader, too many others)──► forgotten: its WatchWorker is NOT_FOUND,
 *                                                                     and it registers again
 */
#include "dispatcher/model/model.h"

#include <string.h>

struct mr_newcomer *mr_newcomer_find(const mr_core *core, const char *incarnation)
{
    struct mr_newcomer *one;

    TAILQ_FOREACH(one, &core->newcomers, link)
    {
        if (strcmp(one->rec->incarnation, incarnation) == 0) {
            break;
        }
    }
    return one;
}

const char *mr_core_newcomer_address(const mr_core *core, const char *incarnation)
{
    const struct mr_newcomer *one = mr_newcomer_find(core, incarnation);

    return one != NULL ? one->rec->address : NULL;
}

/* Its record is the caller's from now on. */
Millrace__WorkerRecord *mr_newcomer_take(mr_core *core, struct mr_newcomer *one)
{
    Millrace__WorkerRecord *rec = one->rec;

    TAILQ_REMOVE(&core->newcomers, one, link);
    core->nnewcomers--;
    mr_free(one);
    return rec;
}

void mr_newcomers_free(mr_core *core)
{
    while (!TAILQ_EMPTY(&core->newcomers)) {
        mr_record_free(mr_newcomer_take(core, TAILQ_FIRST(&core->newcomers)));
    }
}

static void set_tags(mr_core *core, Millrace__WorkerRecord *rec,
                     const Millrace__RegisterWorkerRequest *in)
{
    rec->tags = mr_calloc(in->n_tags, sizeof *rec->tags);
    if (rec->tags == NULL) {
        mr_core_nomem(core);
        return;
    }
    for (size_t i = 0; i < in->n_tags; i++) {
        rec->n_tags++;
        mr_core_set_element(core, &rec->tags[i], in->tags[i]);
    }
}

/* What it says now counts, whatever it said before. Whoever registers and does not watch is pushed
 * out by others. */
void mr_newcomer_note(mr_core *core, const Millrace__RegisterWorkerRequest *in)
{
    struct mr_newcomer *before = mr_newcomer_find(core, in->incarnation);
    struct mr_newcomer *one = mr_calloc(1, sizeof *one);

    if (before == NULL && core->nnewcomers >= MR_NEWCOMERS_MAX) {
        before = TAILQ_FIRST(&core->newcomers);
    }
    if (before != NULL) {
        mr_record_free(mr_newcomer_take(core, before));
    }
    if (one == NULL) {
        mr_core_nomem(core);
        return;
    }
    one->rec = mr_core_new_record(core, &millrace__worker_record__descriptor);
    if (one->rec == NULL) {
        mr_free(one);
        return;
    }
    mr_core_set(core, &one->rec->incarnation, in->incarnation);
    mr_core_set(core, &one->rec->address, in->address);
    mr_core_set(core, &one->rec->version, in->header != NULL ? in->header->version : "");
    set_tags(core, one->rec, in);
    TAILQ_INSERT_TAIL(&core->newcomers, one, link);
    core->nnewcomers++;
}
