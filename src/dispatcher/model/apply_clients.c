/* Updates of client sessions, one for each reader. Durable when it attaches and when it is
 * released, by itself or because nothing was heard of it; a released one is kept for a while so
 * that workers hear of it, under the next leader too. */
#include "dispatcher/model/apply.h"

void mr_client_free(struct mr_client *client)
{
    if (client != NULL) {
        mr_share_give(client->share, 1);
        mr_record_free(client->rec);
        mr_free(client->unreachable);
        mr_free(client->times);
        mr_free(client);
    }
}

static void join(struct mr_client *client, struct mr_iteration *it)
{
    client->iteration = it;
    client->repetition = it->rec->repetition;
    TAILQ_INSERT_TAIL(&it->clients, client, in_iteration);
    if (!client->rec->released) {
        it->live_clients++;
        it->job->live_clients++;
    }
}

/* One reader less; the last one starts the clock of collection. */
static void reader_left(mr_core *core, struct mr_iteration *it)
{
    it->job->live_clients--;
    if (--it->live_clients == 0 && !it->rec->finished) {
        it->since = core->now;
        it->rec->unread_ms = (uint64_t)core->wall_ms;
        mr_touch(core, MR_STORED_ITERATION, it, 0);
    }
    mr_alarm_by(core, &it->alarm, core->now); /* those who are left may all not reach a worker */
}

static void leave(mr_core *core, struct mr_client *client)
{
    struct mr_iteration *it = client->iteration;

    if (it == NULL) {
        return;
    }
    if (mr_client_is_live(client)) {
        reader_left(core, it);
    }
    TAILQ_REMOVE(&it->clients, client, in_iteration);
    client->iteration = NULL;
}

/* Who reads a production holds others up only while somebody is there to read on: workers hear when
 * @n are. */
static void note_readers(mr_core *core, struct mr_iteration *it, uint32_t n)
{
    if (it->uses != NULL && it->live_clients == n) {
        mr_iteration_note_assignments(core, it);
    }
}

static void forget_misses(struct mr_client *client)
{
    mr_free(client->unreachable);
    client->unreachable = NULL;
    client->nunreachable = 0;
}

static struct mr_client *add_client(mr_core *core, Millrace__ClientRecord *rec)
{
    struct mr_client *client = mr_core_alloc(core, 1, sizeof *client);

    if (client == NULL) {
        mr_record_free(rec);
        return NULL;
    }
    client->rec = rec;
    client->alarm.kind = MR_ALARM_CLIENT;
    client->deadline = MR_NEVER;
    TAILQ_INSERT_TAIL(&core->client_list, client, link);
    mr_core_index(core, &core->clients, rec->client, client);
    client->share = mr_hosts_note(core, &core->hosts.clients);
    return client;
}

void mr_apply_client_added(mr_core *core, const struct mr_client_added *u)
{
    struct mr_client *client = add_client(core, u->rec);

    if (client != NULL) {
        join(client, u->iteration);
    }
}

void mr_apply_client_seen(mr_core *core, const struct mr_client_seen *u)
{
    int64_t deadline = mr_time_add(core->now, core->config.client_timeout_ms);
    struct mr_client *client = u->client;

    if (deadline > client->deadline || client->deadline == MR_NEVER) {
        client->deadline = deadline;
        mr_alarm_by(core, &client->alarm, deadline);
    }
}

/* ---------------------------------------------------------------- attaching */

static struct mr_client *new_client(mr_core *core, const char *id)
{
    Millrace__ClientRecord *rec = MR_NEW_RECORD(core, client_record);

    if (rec == NULL) {
        return NULL;
    }
    mr_core_set(core, &rec->client, id);
    mr_client_keep_no_more(core, id);
    return add_client(core, rec);
}

static void forget_unheard(Millrace__ClientRecord *rec)
{
    while (rec->n_unheard > 0) {
        MR_REMOVE_RECORD(rec, unheard, rec->n_unheard - 1);
    }
}

/* It is there again, and may still use what it was given up with. */
static void take_back_held(mr_core *core, struct mr_client *client, const struct mr_iteration *it)
{
    forget_unheard(client->rec);
    if (client->iteration != it) {
        client->rec->held = 0; /* of another one, which counts it */
    } else if (client->rec->silent) {
        mr_apply_elements_abandoned(
            core, &(struct mr_elements_abandoned){client->iteration, 0, client->rec->held});
    }
}

static void leave_for(mr_core *core, struct mr_client *client, const struct mr_iteration *it)
{
    struct mr_iteration *left = client->iteration;

    leave(core, client);
    note_readers(core, left, 0);
    if (left->job != it->job && mr_job_is_idle(left->job)) {
        mr_apply_job_idle(core, &(struct mr_job_idle){left->job});
    }
}

void mr_apply_client_attached(mr_core *core, const struct mr_client_attached *u)
{
    struct mr_client *client = mr_map_get(&core->clients, u->id);
    struct mr_iteration *it = u->iteration;

    if (client != NULL) {
        take_back_held(core, client, it);
    } else {
        client = new_client(core, u->id);
    }
    if (client == NULL) {
        return;
    }
    if (client->iteration != NULL) {
        leave_for(core, client, it);
    }
    if (it->job->rec->released_ms != 0) {
        it->job->rec->released_ms = 0;
        mr_touch(core, MR_STORED_JOB, it->job, 0);
    }
    if (it->rec->unread_ms != 0) {
        it->rec->unread_ms = 0;
        mr_touch(core, MR_STORED_ITERATION, it, 0);
    }
    client->rec->released = false;
    client->rec->silent = false;
    client->rec->released_ms = 0;
    client->rec->attached_ms = (uint64_t)core->wall_ms;
    client->deadline = MR_NEVER;
    mr_core_set(core, &client->rec->iteration_id, it->rec->id);
    mr_core_set(core, &client->rec->job_id, it->job->rec->id);
    forget_misses(client);
    join(client, it);
    note_readers(core, it, 1 /* the first */);
    mr_apply_client_seen(core, &(struct mr_client_seen){client});
    mr_touch(core, MR_STORED_CLIENT, client, 0);
}

/* ---------------------------------------------------------------- going */

void mr_apply_client_released(mr_core *core, const struct mr_client_released *u)
{
    struct mr_client *client = u->client;
    struct mr_iteration *it = client->iteration;

    MR_ASSERT(mr_client_is_live(client));
    client->rec->released = true;
    client->rec->released_ms = (uint64_t)core->wall_ms;
    client->rec->silent = !u->by_itself;
    client->since = core->now;
    mr_alarm_by(core, &client->alarm, core->now);
    forget_misses(client);
    reader_left(core, it);
    if (!u->by_itself) { /* it may say better, late */
        mr_apply_elements_abandoned(core,
                                    &(struct mr_elements_abandoned){it, client->rec->held, 0});
    }
    mr_touch(core, MR_STORED_CLIENT, client, 0);
    mr_iteration_note_released(core, it, client->rec->client);
    if (it->rounds != NULL) {
        mr_iteration_mark(core, it); /* a decision may have waited for it */
    }
    note_readers(core, it, 0);
}

void mr_apply_client_evicted(mr_core *core, const struct mr_client_evicted *u)
{
    struct mr_client *client = u->client;

    MR_ASSERT(mr_client_is_live(client));
    client->rec->released = true;
    client->since = core->now;
    mr_alarm_by(core, &client->alarm, core->now);
    forget_misses(client);
    client->iteration->live_clients--;
    client->iteration->job->live_clients--;
}

void mr_client_orphan(mr_core *core, struct mr_client *client)
{
    MR_ASSERT(!mr_client_is_live(client));
    mr_leave_over(core, MR_STORED_CLIENT, client, 0);
    leave(core, client);
}

void mr_apply_client_removed(mr_core *core, const struct mr_client_removed *u)
{
    struct mr_client *client = u->client;

    MR_ASSERT(!mr_client_is_live(client));
    leave(core, client);
    mr_delete(core, MR_STORED_CLIENT, client, 0);
    mr_map_remove(&core->clients, client->rec->client);
    mr_alarm_off(core, &client->alarm);
    TAILQ_REMOVE(&core->client_list, client, link);
    mr_client_free(client);
}

/* ---------------------------------------------------------------- what they say */

static int64_t missed_since(const struct mr_client *client, const char *incarnation,
                            int64_t otherwise)
{
    for (size_t i = 0; i < client->nunreachable; i++) {
        if (strcmp(client->unreachable[i].incarnation, incarnation) == 0) {
            return client->unreachable[i].since;
        }
    }
    return otherwise;
}

void mr_apply_client_misses(mr_core *core, const struct mr_client_misses *u)
{
    size_t n = MR_MIN(u->n, MR_UNREACHABLE_MAX);
    struct mr_unreachable *list = n > 0 ? mr_core_alloc(core, n, sizeof *list) : NULL;
    struct mr_client *client = u->client;
    size_t count = 0;

    if (n > 0 && list == NULL) {
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (mr_id_is_valid(u->incarnations[i])) {
            struct mr_unreachable *one = &list[count++];

            snprintf(one->incarnation, sizeof one->incarnation, "%s", u->incarnations[i]);
            one->since = missed_since(client, u->incarnations[i], core->now);
            mr_alarm_by(core, &client->iteration->alarm,
                        mr_time_add(one->since, core->config.worker_timeout_ms));
        }
    }
    forget_misses(client);
    client->unreachable = list;
    client->nunreachable = count;
}

void mr_apply_client_holds(mr_core *core, const struct mr_client_holds *u)
{
    u->client->rec->held = mr_count_add(u->client->rec->held, u->elements);
    mr_touch(core, MR_STORED_CLIENT, u->client, 0);
}

void mr_apply_client_unheard(mr_core *core, const struct mr_client_unheard *u)
{
    Millrace__Unheard *one = MR_ADD_RECORD(core, u->client->rec, unheard, unheard);

    if (one != NULL) {
        mr_core_set(core, &one->task_id, u->task->id);
        one->elements = mr_count_add(u->elements, 0);
    }
    mr_touch(core, MR_STORED_CLIENT, u->client, 0);
}

void mr_apply_client_explained(mr_core *core, const struct mr_client_explained *u)
{
    u->client->rec->held = 0;
    u->client->rec->silent = false;
    mr_touch(core, MR_STORED_CLIENT, u->client, 0);
}
