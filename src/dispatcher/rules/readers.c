/*
 * Client sessions: one for each reader. Durable when it attaches and when it is released, by itself
 * or because nothing was heard of it; a released one is kept for a while so that workers hear of
 * it, under the next leader too.
 */
#include "dispatcher/rules/rules.h"

#include <string.h>

/* Who reads a production holds others up only while somebody is there to read on: workers hear when
 * @n are. */
static void note_readers(mr_core *core, const struct mr_iteration *it, uint32_t n)
{
    if (it->uses != NULL && it->live_clients == n) {
        mr_iteration_note_assignments(core, it);
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
        mr_client_seen(core, client);
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

        mr_client_leave(core, client);
        note_readers(core, left, 0);
        if (old != it->job && mr_job_is_idle(old)) {
            mr_job_note_idle(core, old);
        }
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
    mr_client_forget_reports(client);
    mr_client_join(client, it);
    note_readers(core, it, 1 /* the first */);
    mr_client_seen(core, client);
    mr_touch(core, MR_STORED_CLIENT, client, 0);
    mr_iteration_look_again(core, it);
    mr_core_trace(core, "client %.8s: attached to iteration %s", id, it->rec->id);
}

void mr_client_release(mr_core *core, struct mr_client *client, bool by_itself)
{
    struct mr_iteration *it = client->iteration;

    MR_ASSERT(mr_client_is_live(client));
    mr_core_trace(core, "client %.8s: %s iteration %s", client->rec->client,
                  by_itself ? "left" : "lost to", it->rec->id);
    client->rec->released = true;
    client->rec->released_ms = (uint64_t)core->wall_ms;
    client->rec->silent = !by_itself;
    client->since = core->now;
    mr_alarm_by(core, &client->alarm, core->now);
    mr_client_forget_reports(client);
    mr_client_reader_left(core, it);
    if (!by_itself) {
        mr_iteration_note_abandoned(core, it, client->rec->held, 0); /* it may say better, late */
    }
    mr_touch(core, MR_STORED_CLIENT, client, 0);
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
    MR_ASSERT(mr_client_is_live(client));
    mr_core_trace(core, "client %.8s: its job goes", client->rec->client);
    client->rec->released = true;
    client->since = core->now;
    mr_alarm_by(core, &client->alarm, core->now);
    mr_client_forget_reports(client);
    client->iteration->live_clients--;
    client->iteration->job->live_clients--;
    mr_core_end_stream(core, MR_EFFECT_END_CLIENT, client->rec->client, MR_ENOTFOUND,
                       "its job was deleted");
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
        mr_touch(core, MR_STORED_CLIENT, client, 0);
    }
    if (!is_known || client->rec->released) { /* One that was given up may say better, late. */
        mr_iteration_note_abandoned(core, it, lost, 0);
    }
}
