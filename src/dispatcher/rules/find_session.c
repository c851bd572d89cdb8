/* The live session of a client, or why there is none. */
#include "dispatcher/model/client.h"
#include "dispatcher/model/model.h"
#include "dispatcher/rules/rules.h"

#include <string.h>

/* The live session @client has with @iteration_id, or why there is none. */
struct mr_client *mr_client_session(mr_core *core, const char *id, const char *iteration_id,
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
