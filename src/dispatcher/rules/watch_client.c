/* WatchClient: the task list of an iteration. */
#include "dispatcher/model/client.h"
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

void mr_core_do_watch_client(mr_core *core, const Millrace__WatchClientRequest *in)
{
    mr_error err;
    struct mr_client *client = mr_client_session(core, in->client, in->iteration_id, &err);

    if (client == NULL) {
        mr_core_refuse(core, &millrace__client_update__descriptor, &err);
        return;
    }
    MR_APPLY(core, client_seen, client);
    Millrace__ClientUpdate *update =
        mr_core_reply(core, &millrace__client_update__descriptor, true /* fenced */);

    if (update != NULL) {
        mr_client_update_fill(core, client->iteration, update);
    }
}
