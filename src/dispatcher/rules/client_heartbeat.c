/*
 * Client sessions: one for each reader. Durable when it attaches and when it is released, by itself
 * or because nothing was heard of it; a released one is kept for a while so that workers hear of
 * it, under the next leader too.
 */
#include "dispatcher/rules/rules.h"

#include <stdio.h>
#include <string.h>

static int64_t reported_since(const struct mr_client *client, const char *incarnation,
                              int64_t otherwise)
{
    for (size_t i = 0; i < client->nunreachable; i++) {
        if (strcmp(client->unreachable[i].incarnation, incarnation) == 0) {
            return client->unreachable[i].since;
        }
    }
    return otherwise;
}

/* Replace what the client reports, keeping since when. */
static void note_unreachable(mr_core *core, struct mr_client *client, char *const *incarnations,
                             size_t n)
{
    struct mr_unreachable *list = NULL;
    size_t count = 0;

    n = n < MR_UNREACHABLE_MAX ? n : MR_UNREACHABLE_MAX;
    if (n > 0) {
        list = mr_calloc(n, sizeof *list);
        if (list == NULL) {
            mr_core_nomem(core);
            return;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (mr_id_is_valid(incarnations[i])) {
            snprintf(list[count].incarnation, sizeof list[count].incarnation, "%s",
                     incarnations[i]);
            list[count].since = reported_since(client, incarnations[i], core->now);
            mr_alarm_by(core, &client->iteration->alarm,
                        mr_time_add(list[count].since, core->config.worker_timeout_ms));
            count++;
        }
    }
    mr_client_forget_reports(client);
    client->unreachable = list;
    client->nunreachable = count;
}

void mr_core_do_client_heartbeat(mr_core *core, const Millrace__ClientHeartbeatRequest *in)
{
    mr_error err;
    struct mr_client *client = mr_client_session(core, in->client, in->iteration_id, &err);

    if (client == NULL) {
        mr_core_refuse(core, &millrace__client_heartbeat_reply__descriptor, &err);
        return;
    }
    mr_client_seen(core, client);
    if (client->nunreachable > in->n_unreachable) {
        mr_iteration_look_again(core, client->iteration);
    }
    note_unreachable(core, client, in->unreachable, in->n_unreachable);
    mr_iteration_close_refusing(core, client->iteration, in->refusing, in->n_refusing);
    if (in->rounds != NULL) {
        mr_consumer_report(core, client, in->rounds);
    }
    Millrace__ClientHeartbeatReply *reply =
        mr_core_reply(core, &millrace__client_heartbeat_reply__descriptor,
                      false /* fenced: a positive refresh */);

    if (reply != NULL) {
        reply->version = client->iteration->version;
        if (in->waits) {
            char why[MR_WAITS_FOR_SIZE];

            mr_iteration_waits_for(core, client->iteration, why, sizeof why);
            mr_core_set(core, &reply->waits_for, why);
        }
    }
}
