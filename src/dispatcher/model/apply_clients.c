/*
 * Client sessions: one for each reader. Durable when it attaches and when it is released, by itself
 * or because nothing was heard of it; a released one is kept for a while so that workers hear of
 * it, under the next leader too.
 */
#include "dispatcher/model/model.h"

#include <stdio.h>

void mr_client_free(struct mr_client *client)
{
    if (client != NULL) {
        mr_share_give(client->share, 1);
        mr_record_free(client->rec);
        mr_free(client->unreachable);
        mr_free(client);
    }
}

bool mr_client_is_live(const struct mr_client *client)
{
    return client->iteration != NULL && !client->rec->released;
}

void mr_client_join(struct mr_client *client, struct mr_iteration *it)
{
    client->iteration = it;
    client->repetition = it->rec->repetition;
    TAILQ_INSERT_TAIL(&it->clients, client, in_iteration);
    if (!client->rec->released) {
        it->live_clients++;
        it->job->live_clients++;
    }
}

/* One reader less; the last one starts the clock of collection. At most one change. */
void mr_client_reader_left(mr_core *core, struct mr_iteration *it)
{
    it->job->live_clients--;
    if (--it->live_clients == 0 && !it->rec->finished) {
        it->since = core->now;
        it->rec->unread_ms = (uint64_t)core->wall_ms;
        mr_touch(core, MR_STORED_ITERATION, it, 0);
    }
    mr_alarm_by(core, &it->alarm, core->now); /* those who are left may all not reach a worker */
}

void mr_client_leave(mr_core *core, struct mr_client *client)
{
    struct mr_iteration *it = client->iteration;

    if (it == NULL) {
        return;
    }
    if (mr_client_is_live(client)) {
        mr_client_reader_left(core, it);
    }
    TAILQ_REMOVE(&it->clients, client, in_iteration);
    client->iteration = NULL;
}

void mr_client_forget_reports(struct mr_client *client)
{
    mr_free(client->unreachable);
    client->unreachable = NULL;
    client->nunreachable = 0;
}

struct mr_client *mr_client_add(mr_core *core, Millrace__ClientRecord *rec, struct mr_iteration *it)
{
    struct mr_client *client = mr_calloc(1, sizeof *client);

    if (client == NULL) {
        mr_record_free(rec);
        mr_core_nomem(core);
        return NULL;
    }
    client->rec = rec;
    client->alarm.kind = MR_ALARM_CLIENT;
    client->deadline = MR_NEVER;
    TAILQ_INSERT_TAIL(&core->client_list, client, link);
    mr_core_index(core, &core->clients, rec->client, client);
    client->share = mr_hosts_note(core, &core->hosts.clients);
    if (it != NULL) {
        mr_client_join(client, it);
    }
    return client;
}

void mr_client_seen(mr_core *core, struct mr_client *client)
{
    int64_t deadline = mr_time_add(core->now, core->config.client_timeout_ms);

    if (deadline > client->deadline || client->deadline == MR_NEVER) {
        client->deadline = deadline;
        mr_alarm_by(core, &client->alarm, deadline);
    }
}

void mr_client_orphan(mr_core *core, struct mr_client *client)
{

    MR_ASSERT(!mr_client_is_live(client));
    mr_leave_over(core, MR_STORED_CLIENT, client, 0);
    mr_client_leave(core, client);
}

void mr_client_forget(mr_core *core, struct mr_client *client)
{

    MR_ASSERT(!mr_client_is_live(client));
    mr_client_leave(core, client);
    mr_delete(core, MR_STORED_CLIENT, client, 0);
    mr_map_remove(&core->clients, client->rec->client);
    mr_alarm_off(core, &client->alarm);
    TAILQ_REMOVE(&core->client_list, client, link);
    mr_client_free(client);
}
