/*
 * Client sessions: one for each reader. Durable when it attaches and when it is released, by itself
 * or because nothing was heard of it; a released one is kept for a while so that workers hear of
 * it, under the next leader too.
 */
#include "dispatcher/core/internal.h"

#include <stdio.h>
#include <string.h>

static void client_key(const char *id, char *out, size_t size)
{
    snprintf(out, size, "clients/%s", id);
}

static void put_client(mr_core *core, const struct mr_client *client)
{
    char key[MR_KEY_SIZE];

    client_key(client->rec->client, key, sizeof key);
    mr_core_put(core, key, &client->rec->base);
}

void mr_client_free(struct mr_client *client)
{
    if (client != NULL) {
        mr_share_give(client->share, 1);
        mr_record_free(client->rec);
        mr_free(client->unreachable);
        mr_free(client);
    }
}

static bool is_live(const struct mr_client *client)
{
    return client->iteration != NULL && !client->rec->released;
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

/* One reader less; the last one starts the clock of collection. At most one change. */
static void reader_left(mr_core *core, struct mr_iteration *it)
{
    it->job->live_clients--;
    if (--it->live_clients == 0 && !it->rec->finished) {
        it->since = core->now;
        it->rec->unread_ms = (uint64_t)core->wall_ms;
        mr_iteration_put(core, it);
    }
    mr_alarm_by(core, &it->alarm, core->now); /* those who are left may all not reach a worker */
}

static void leave(mr_core *core, struct mr_client *client)
{
    struct mr_iteration *it = client->iteration;

    if (it == NULL) {
        return;
    }
    if (is_live(client)) {
        reader_left(core, it);
    }
    TAILQ_REMOVE(&it->clients, client, in_iteration);
    client->iteration = NULL;
}

/* Who reads a production holds others up only while somebody is there to read on: workers hear when
 * @n are. */
static void note_readers(mr_core *core, const struct mr_iteration *it, uint32_t n)
{
    if (it->uses != NULL && it->live_clients == n) {
        mr_iteration_note_assignments(core, it);
    }
}

static void forget_reports(struct mr_client *client)
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
        join(client, it);
    }
    return client;
}

static void seen(mr_core *core, struct mr_client *client)
{
    int64_t deadline = mr_time_add(core->now, core->config.client_timeout_ms);

    if (deadline > client->deadline || client->deadline == MR_NEVER) {
        client->deadline = deadline;
        mr_alarm_by(core, &client->alarm, deadline);
    }
}

static void forget_unheard(Millrace__ClientRecord *rec)
{
    for (size_t i = 0; i < rec->n_unheard; i++) {
        mr_record_free(rec->unheard[i]);
    }
    mr_free(rec->unheard);
    rec->unheard = NULL;
    rec->n_unheard = 0;
}

/* It is there again, and may still use what it was given up with. */
static void take_back_held(mr_core *core, struct mr_client *client, const struct mr_iteration *it)
{
    forget_unheard(client->rec);
    if (client->iteration != it) {
        client->rec->held = 0; /* of another one, which counts it */
    } else if (client->rec->silent) {
        mr_iteration_note_abandoned(core, client->iteration, 0, client->rec->held);
    }
}

void mr_client_attach(mr_core *core, const char *id, struct mr_iteration *it)
{
    struct mr_client *client = mr_map_get(&core->clients, id);

    if (client != NULL && client->iteration == it && !client->rec->released) {
        seen(core, client);
        return;
    }
    if (client != NULL) {
        take_back_held(core, client, it);
    }
    if (client == NULL) {
        Millrace__ClientRecord *rec =
            mr_core_new_record(core, &millrace__client_record__descriptor);

        if (rec == NULL) {
            return;
        }
        mr_core_set(core, &rec->client, id);
        mr_client_keep_no_more(core, id);
        client = mr_client_add(core, rec, NULL);
        if (client == NULL) {
            return;
        }
    } else if (client->iteration != NULL) {
        struct mr_job *old = client->iteration->job;

        struct mr_iteration *left = client->iteration;

        leave(core, client);
        note_readers(core, left, 0);
        if (old != it->job && mr_job_is_idle(old)) {
            mr_job_note_idle(core, old);
        }
    }
    if (it->job->rec->released_ms != 0) {
        it->job->rec->released_ms = 0;
        mr_job_put(core, it->job);
    }
    if (it->rec->unread_ms != 0) {
        it->rec->unread_ms = 0;
        mr_iteration_put(core, it);
    }
    client->rec->released = false;
    client->rec->silent = false;
    client->rec->released_ms = 0;
    client->rec->attached_ms = (uint64_t)core->wall_ms;
    client->deadline = MR_NEVER;
    mr_core_set(core, &client->rec->iteration_id, it->rec->id);
    mr_core_set(core, &client->rec->job_id, it->job->rec->id);
    forget_reports(client);
    join(client, it);
    note_readers(core, it, 1 /* the first */);
    seen(core, client);
    put_client(core, client);
    mr_iteration_look_again(core, it);
    mr_core_trace(core, "client %.8s: attached to iteration %s", id, it->rec->id);
}

void mr_client_release(mr_core *core, struct mr_client *client, bool by_itself)
{
    struct mr_iteration *it = client->iteration;

    MR_ASSERT(is_live(client));
    mr_core_trace(core, "client %.8s: %s iteration %s", client->rec->client,
                  by_itself ? "left" : "lost to", it->rec->id);
    client->rec->released = true;
    client->rec->released_ms = (uint64_t)core->wall_ms;
    client->rec->silent = !by_itself;
    client->since = core->now;
    mr_alarm_by(core, &client->alarm, core->now);
    forget_reports(client);
    reader_left(core, it);
    if (!by_itself) {
        mr_iteration_note_abandoned(core, it, client->rec->held, 0); /* it may say better, late */
    }
    put_client(core, client);
    mr_core_end_stream(core, MR_EFFECT_END_CLIENT, client->rec->client, MR_ENOTFOUND,
                       by_itself ? "released"
                                 : "lost: nothing was heard of this client for too long");
    mr_iteration_note_released(core, it, client->rec->client);
    if (it->rounds != NULL) {
        mr_iteration_unsettle(core, it); /* a decision may have waited for it */
    }
    if (it->live_clients == 0 && mr_job_is_idle(it->job)) {
        /* Nobody else can join an anonymous job; its owner, if it was only silent, may come back
         * for a while. */
        if (mr_job_is_anonymous(it->job) && by_itself) {
            mr_job_forget(core, it->job);
            return;
        }
        mr_job_note_idle(core, it->job);
    }
    note_readers(core, it, 0);
}

void mr_client_evict(mr_core *core, struct mr_client *client)
{
    MR_ASSERT(is_live(client));
    mr_core_trace(core, "client %.8s: its job goes", client->rec->client);
    client->rec->released = true;
    client->since = core->now;
    mr_alarm_by(core, &client->alarm, core->now);
    forget_reports(client);
    client->iteration->live_clients--;
    client->iteration->job->live_clients--;
    mr_core_end_stream(core, MR_EFFECT_END_CLIENT, client->rec->client, MR_ENOTFOUND,
                       "its job was deleted");
}

void mr_client_orphan(mr_core *core, struct mr_client *client)
{
    char key[MR_KEY_SIZE];

    MR_ASSERT(!is_live(client));
    client_key(client->rec->client, key, sizeof key);
    mr_core_leave_over(core, key);
    leave(core, client);
}

void mr_client_forget(mr_core *core, struct mr_client *client)
{
    char key[MR_KEY_SIZE];

    MR_ASSERT(!is_live(client));
    leave(core, client);
    client_key(client->rec->client, key, sizeof key);
    mr_core_delete(core, key);
    mr_map_remove(&core->clients, client->rec->client);
    mr_alarm_off(core, &client->alarm);
    TAILQ_REMOVE(&core->client_list, client, link);
    mr_client_free(client);
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

        lost = lost < unused ? lost : unused;
    } else if (is_known) {
        client->rec->held = mr_count_add(client->rec->held, lost);
        put_client(core, client);
    }
    if (!is_known || client->rec->released) { /* One that was given up may say better, late. */
        mr_iteration_note_abandoned(core, it, lost, 0);
    }
}

/* ---------------------------------------------------------------- requests */

/* The live session @client has with @iteration_id, or why there is none. */
static struct mr_client *find_session(mr_core *core, const char *id, const char *iteration_id,
                                      mr_error *err)
{
    struct mr_client *client = mr_map_get(&core->clients, id);

    if (client == NULL || !is_live(client) ||
        strcmp(client->iteration->rec->id, iteration_id) != 0) {
        mr_error_set(err, MR_ENOTFOUND,
                     "client %.8s is not attached to iteration %.40s: open it again", id,
                     iteration_id);
        return NULL;
    }
    return client;
}

void mr_core_do_watch_client(mr_core *core, const Millrace__WatchClientRequest *in)
{
    mr_error err;
    struct mr_client *client = find_session(core, in->client, in->iteration_id, &err);

    if (client == NULL) {
        mr_core_refuse(core, &millrace__client_update__descriptor, &err);
        return;
    }
    seen(core, client);
    Millrace__ClientUpdate *update =
        mr_core_reply(core, &millrace__client_update__descriptor, true /* fenced */);

    if (update != NULL) {
        mr_client_update_fill(core, client->iteration, update);
    }
}

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
    forget_reports(client);
    client->unreachable = list;
    client->nunreachable = count;
}

void mr_core_do_client_heartbeat(mr_core *core, const Millrace__ClientHeartbeatRequest *in)
{
    mr_error err;
    struct mr_client *client = find_session(core, in->client, in->iteration_id, &err);

    if (client == NULL) {
        mr_core_refuse(core, &millrace__client_heartbeat_reply__descriptor, &err);
        return;
    }
    seen(core, client);
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

/* Of an open task: until that ends, and may name @client. */
static void keep_unheard(mr_core *core, struct mr_client *client, const struct mr_task *task,
                         uint64_t elements)
{
    Millrace__Unheard *one = mr_core_new_record(core, &millrace__unheard__descriptor);
    Millrace__ClientRecord *rec = client->rec;

    if (mr_core_append(core, &rec->unheard, rec->n_unheard, one)) {
        rec->n_unheard++;
        mr_core_set(core, &one->task_id, task->id);
        one->elements = mr_count_add(elements, 0);
    }
}

/*
 * What @client took along of tasks that have ended, in place of what it was said to hold. It may
 * not know that one has, if its worker is out of reach. A lost one has no elements: its splits are
 * counted.
 */
static uint64_t taken_along(mr_core *core, struct mr_client *client,
                            const Millrace__ReleaseClientRequest *in)
{
    uint64_t ended = 0;

    for (size_t i = 0; i < in->n_unheard && i < MR_HOLDERS_MAX; i++) {
        const struct mr_task *task = mr_task_find(core, in->unheard[i]->task_id);

        if (task == NULL || task->state == MR_TASK_ENDED) {
            ended = mr_count_add(ended, in->unheard[i]->elements);
        } else if (task->state == MR_TASK_OPEN && task->iteration == client->iteration) {
            keep_unheard(core, client, task, in->unheard[i]->elements);
        }
    }
    return mr_count_add(in->abandoned, ended < client->rec->held ? ended : client->rec->held);
}

void mr_core_do_release_client(mr_core *core, const Millrace__ReleaseClientRequest *in)
{
    struct mr_client *client = mr_map_get(&core->clients, in->client);
    mr_error err;

    if (mr_client_refuse_held(core, in->client, in->iteration_id, &err) < 0) {
        mr_core_refuse(core, &millrace__release_client_reply__descriptor, &err);
        return;
    }
    /* Not attached (any more) is what was wanted: the call may be a repeated one. One that was
     * given up says it late. */
    if (client != NULL && client->iteration != NULL && (is_live(client) || client->rec->silent) &&
        strcmp(client->iteration->rec->id, in->iteration_id) == 0) {
        uint64_t taken = taken_along(core, client, in);

        mr_iteration_note_abandoned(core, client->iteration, taken,
                                    is_live(client) ? 0 : client->rec->held);
        client->rec->held = 0;
        if (is_live(client)) {
            mr_client_release(core, client, true /* by_itself */);
        } else {
            client->rec->silent = false;
            put_client(core, client);
        }
    }
    mr_core_reply(core, &millrace__release_client_reply__descriptor, true /* fenced */);
}
