/* A client says that it lives, whom it does not reach, and how far it has read. */
#include "dispatcher/model/client.h"
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

int mr_core_do_client_heartbeat(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__ClientHeartbeatRequest *in = command->client_heartbeat;
    struct mr_client *client = mr_client_session(core, in->client, in->iteration_id, err);

    if (client == NULL) {
        return err->code;
    }
    MR_APPLY(core, client_seen, client);
    if (client->nunreachable > in->n_unreachable) {
        mr_iteration_look_again(core, client->iteration);
    }
    MR_APPLY(core, client_misses, client, in->unreachable, in->n_unreachable);
    mr_iteration_close_refusing(core, client->iteration, in->refusing, in->n_refusing);
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
