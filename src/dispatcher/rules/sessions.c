/* What the session of a client asks for: its task list, and to be kept alive. */
#include "dispatcher/rules/rules.h"

/* The live session @client has with @iteration_id, or why there is none. */
static struct mr_client *find_session(const mr_core *core, const char *id, const char *iteration_id,
                                      mr_error *err)
{
    struct mr_client *client = mr_map_get(&core->clients, id);

    if (client == NULL || !mr_client_is_live(client) ||
        strcmp(client->iteration->rec->id, iteration_id) != 0) {
        mr_error_set(err, MR_ENOTFOUND,
                     "client %.8s is not attached to iteration %.40s: open it again", id,
                     iteration_id);
        return NULL;
    }
    return client;
}

int mr_core_do_watch_client(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__WatchClientRequest *in = command->watch_client;
    struct mr_client *client = find_session(core, in->client, in->iteration_id, err);

    if (client == NULL) {
        return err->code;
    }
    MR_APPLY(core, client_seen, client);
    Millrace__ClientUpdate *update = mr_core_reply(core, true /* fenced */);

    if (update != NULL) {
        mr_client_update_fill(core, client->iteration, update);
    }
    return MR_OK;
}

int mr_core_do_client_heartbeat(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__ClientHeartbeatRequest *in = command->client_heartbeat;
    struct mr_client *client = find_session(core, in->client, in->iteration_id, err);

    if (client == NULL) {
        return err->code;
    }
    MR_APPLY(core, client_seen, client);
    if (client->nunreachable > in->n_unreachable) {
        mr_iteration_look_again(core, client->iteration);
    }
    MR_APPLY(core, client_misses, client, in->unreachable, in->n_unreachable);
    mr_iteration_close_refusing(core, client->iteration, in->refusing, in->n_refusing);
    if (in->times != NULL) {
        MR_APPLY(core, client_times_said, client, in->times);
    }
    if (in->rounds != NULL) {
        mr_consumer_report(core, client, in->rounds);
    }
    Millrace__ClientHeartbeatReply *reply =
        mr_core_reply(core, false /* fenced: a positive refresh */);

    if (reply != NULL) {
        reply->version = client->iteration->version;
        if (in->waits) {
            char why[MR_WAITS_FOR_SIZE];

            mr_iteration_waits_for(core, client->iteration, why, sizeof why);
            mr_core_set(core, &reply->waits_for, why);
        }
    }
    return MR_OK;
}
