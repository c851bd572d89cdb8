/* Readers come to iterations, and go: what follows from it. */
#include "dispatcher/rules/rules.h"

void mr_client_attach(mr_core *core, const char *id, struct mr_iteration *it)
{
    struct mr_client *client = mr_map_get(&core->clients, id);

    if (client != NULL && client->iteration == it && !client->rec->released) {
        MR_APPLY(core, client_seen, client);
        return;
    }
    MR_APPLY(core, client_attached, id, it);
    mr_iteration_look_again(core, it);
    mr_core_trace(core, "client %.8s: attached to iteration %s", id, it->rec->id);
}

void mr_client_release(mr_core *core, struct mr_client *client, bool by_itself)
{
    struct mr_iteration *it = client->iteration;

    mr_core_trace(core, "client %.8s: %s iteration %s", client->rec->client,
                  by_itself ? "left" : "lost to", it->rec->id);
    MR_APPLY(core, client_released, client, by_itself);
    mr_core_end_stream(core, MR_EFFECT_END_CLIENT, client->rec->client, MR_ENOTFOUND,
                       by_itself ? "released"
                                 : "lost: nothing was heard of this client for too long");
    if (it->live_clients > 0 || !mr_job_is_idle(it->job)) {
        return;
    }
    /* Nobody else can join an anonymous job; its owner, if it was only silent, may come back for a
     * while. */
    if (mr_job_is_anonymous(it->job) && by_itself) {
        MR_APPLY(core, job_removed, it->job);
    } else {
        MR_APPLY(core, job_idle, it->job);
    }
}

void mr_client_evict(mr_core *core, struct mr_client *client)
{
    mr_core_trace(core, "client %.8s: its job goes", client->rec->client);
    MR_APPLY(core, client_evicted, client);
    mr_core_end_stream(core, MR_EFFECT_END_CLIENT, client->rec->client, MR_ENOTFOUND,
                       "its job was deleted");
}

/* What @client said at its goodbye that it had not used of a task whose worker did not hear
 * that. */
static uint64_t unheard_of(const struct mr_client *client, const char *task)
{
    const Millrace__ClientRecord *rec = client->rec;

    for (size_t i = 0; i < rec->n_unheard; i++) {
        if (strcmp(rec->unheard[i]->task_id, task) == 0) {
            return rec->unheard[i]->elements;
        }
    }
    return 0;
}

void mr_client_hold(mr_core *core, struct mr_iteration *it, const char *task,
                    const Millrace__Holder *holder)
{
    struct mr_client *client = mr_map_get(&core->clients, holder->client);
    bool is_known = client != NULL && client->iteration == it;
    uint64_t lost = holder->elements;

    if (is_known && client->rec->released && !client->rec->silent) {
        /* The worker had not heard its goodbye, which says better what it did not use. */
        uint64_t unused = unheard_of(client, task);

        lost = MR_MIN(lost, unused);
    } else if (is_known) {
        MR_APPLY(core, client_holds, client, lost);
    }
    if (!is_known || client->rec->released) { /* One that was given up may say better, late. */
        MR_APPLY(core, elements_abandoned, it, lost, 0);
    }
}
