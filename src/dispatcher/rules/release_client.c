/* ReleaseClient: a client goes, and says what it took along. */
#include "dispatcher/rules/rules.h"

/* What @client took along of tasks that have ended, in place of what it was said to hold. It may
 * not know that one has, if its worker is out of reach. A lost one has no elements: its splits are
 * counted. */
static uint64_t taken_along(mr_core *core, struct mr_client *client,
                            const Millrace__ReleaseClientRequest *in)
{
    uint64_t ended = 0;

    for (size_t i = 0; i < in->n_unheard && i < MR_HOLDERS_MAX; i++) {
        const struct mr_task *task = mr_task_find(core, in->unheard[i]->task_id);

        if (task == NULL || task->state == MR_TASK_ENDED) {
            ended = mr_count_add(ended, in->unheard[i]->elements);
        } else if (task->state == MR_TASK_OPEN && task->iteration == client->iteration) {
            /* until that ends, and may name @client */
            MR_APPLY(core, client_unheard, client, task, in->unheard[i]->elements);
        }
    }
    return mr_count_add(in->abandoned, MR_MIN(ended, client->rec->held));
}

int mr_core_do_release_client(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__ReleaseClientRequest *in = command->release_client;
    struct mr_client *client = mr_map_get(&core->clients, in->client);

    MR_TRY(mr_client_refuse_held(core, in->client, in->iteration_id, err));
    /* Not attached (any more) is what was wanted: the call may be a repeated one. One that was
     * given up says it late. */
    if (client != NULL && client->iteration != NULL &&
        (mr_client_is_live(client) || client->rec->silent) &&
        strcmp(client->iteration->rec->id, in->iteration_id) == 0) {
        uint64_t taken = taken_along(core, client, in);

        MR_APPLY(core, elements_abandoned, client->iteration, taken,
                 mr_client_is_live(client) ? 0 : client->rec->held);
        MR_APPLY(core, client_explained, client);
        if (mr_client_is_live(client)) {
            mr_client_release(core, client, true /* by_itself */);
        }
    }
    mr_core_reply(core, true /* fenced */);
    return MR_OK;
}
