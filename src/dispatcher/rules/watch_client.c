/* WatchClient: the task list of an iteration. */
#include "dispatcher/model/client.h"
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

int mr_core_do_watch_client(mr_core *core, const struct mr_command *command, mr_error *err)
{
    const Millrace__WatchClientRequest *in = command->watch_client;
    struct mr_client *client = mr_client_session(core, in->client, in->iteration_id, err);

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
