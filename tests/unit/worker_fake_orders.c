/* The fake dispatcher as the test meets it: what it is to say, and what it has heard. */
#include "worker_fake_internal.h"

#include <stdlib.h>

mr_dataset *fake_apply(const char *op, mr_dataset *input, const struct mr_attr *attrs, size_t n)
{
    mr_dataset *ds;
    mr_error err;

    if (mr_dataset_apply(op, &input, input != NULL ? 1 : 0, attrs, n, NULL, 0, NULL, &ds, &err) !=
        MR_OK) {
        fail_msg("%s", err.message);
    }
    mr_dataset_unref(input);
    return ds;
}

mr_dataset *fake_range(int64_t n)
{
    struct mr_attr attrs[3] = {{.name = "start", .kind = MR_ATTR_INT, .i = 0},
                               {.name = "stop", .kind = MR_ATTR_INT, .i = n},
                               {.name = "step", .kind = MR_ATTR_INT, .i = 1}};

    return fake_apply("range", NULL, attrs, 3);
}

void fake_add_dataset(struct fake_dispatcher *d, const char *id, mr_dataset *ds)
{
    MR_LOCK(&d->lock);
    (void)snprintf(d->datasets[d->ndatasets].id, 64, "%s", id);
    d->datasets[d->ndatasets++].ds = mr_dataset_ref(ds);
}

static void assign(struct fake_dispatcher *d, const char *task, const char *dataset, int64_t splits,
                   uint64_t grant, bool at_least_once)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = &d->tasks[d->ntasks++];

    *t = (struct fake_task){
        .splits = splits, .grant = grant, .listed = true, .at_least_once = at_least_once};
    (void)snprintf(t->id, sizeof t->id, "%s", task);
    (void)snprintf(t->dataset, sizeof t->dataset, "%s", dataset);
    fake_push_locked(d);
}

void fake_assign(struct fake_dispatcher *d, const char *task, const char *dataset, int64_t splits,
                 uint64_t grant)
{
    assign(d, task, dataset, splits, grant, false);
}

void fake_assign_at_least_once(struct fake_dispatcher *d, const char *task, const char *dataset,
                               int64_t splits, uint64_t grant)
{
    assign(d, task, dataset, splits, grant, true);
}

void fake_hold(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    d->held = true;
}

void fake_tell(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    d->held = false;
    fake_push_locked(d);
}

void fake_assign_producing(struct fake_dispatcher *d, const char *task, const char *dataset,
                           const char *production, int64_t splits, uint64_t grant)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = &d->tasks[d->ntasks++];

    *t = (struct fake_task){.splits = splits, .grant = grant, .listed = true, .producing = true};
    (void)snprintf(t->id, sizeof t->id, "%s", task);
    (void)snprintf(t->dataset, sizeof t->dataset, "%s", dataset);
    (void)snprintf(t->production, sizeof t->production, "%s", production);
    (void)snprintf(t->iteration, sizeof t->iteration, "%.*s", (int)strcspn(task, "/"), task);
    fake_push_locked(d);
}

void fake_assign_reading(struct fake_dispatcher *d, const char *task, const char *production,
                         bool joining, bool wait)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = &d->tasks[d->ntasks++];

    *t = (struct fake_task){.splits = -1, .listed = true, .joining = joining, .wait = wait};
    (void)snprintf(t->id, sizeof t->id, "%s", task);
    (void)snprintf(t->production, sizeof t->production, "%s", production);
    (void)snprintf(t->iteration, sizeof t->iteration, "%.*s", (int)strcspn(task, "/"), task);
    fake_push_locked(d);
}

void fake_set_host(struct fake_dispatcher *d, const char *task, const char *host)
{
    MR_LOCK(&d->lock);
    fake_find_locked(d, task)->host = host;
}

void fake_reassign(struct fake_dispatcher *d, const char *task, const char *production,
                   bool joining, bool unread)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = fake_find_locked(d, task);

    (void)snprintf(t->production, sizeof t->production, "%s", production);
    t->joining = joining;
    t->unread = unread;
    t->joined = false;
    t->told = false; /* once more */
    fake_push_locked(d);
}

void fake_assign_rounds(struct fake_dispatcher *d, const char *task, const char *dataset,
                        Millrace__RoundAssignment *rounds)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = &d->tasks[d->ntasks++];

    *t = (struct fake_task){.splits = -1, .listed = true, .rounds = rounds};
    (void)snprintf(t->id, sizeof t->id, "%s", task);
    (void)snprintf(t->dataset, sizeof t->dataset, "%s", dataset);
    fake_push_locked(d);
}

void fake_tell_rounds(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    fake_find_locked(d, task)->rounds_changed = true;
    fake_push_locked(d);
}

uint64_t fake_abandoned(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return fake_find_locked(d, task)->abandoned;
}

uint64_t fake_holding(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return fake_find_locked(d, task)->holding;
}

uint64_t fake_end_round(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return fake_find_locked(d, task)->end_round;
}

void fake_unassign(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    fake_find_locked(d, task)->listed = false;
    fake_push_locked(d);
}

void fake_lose_update(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    d->version++;
    for (size_t i = 0; i < d->ntasks; i++) {
        d->tasks[i].told = d->tasks[i].listed;
    }
}

void fake_set_aside(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    d->aside = task != NULL ? fake_iteration(fake_find_locked(d, task)) : NULL;
    if (d->watch != NULL) {
        mr_rpc_stream_finish(d->watch, MR_EUNAVAIL, "another one leads");
        mr_rpc_stream_unref(d->watch);
        d->watch = NULL;
    }
}

void fake_list_quietly(struct fake_dispatcher *d, const char *task, bool listed)
{
    MR_LOCK(&d->lock);
    fake_find_locked(d, task)->listed = listed;
}

void fake_release_client(struct fake_dispatcher *d, const char *client)
{
    MR_LOCK(&d->lock);
    (void)snprintf(d->released[d->nreleased++], 64, "%s", client);
    fake_push_locked(d);
}

void fake_fail_once(struct fake_dispatcher *d, const char *method, int code)
{
    MR_LOCK(&d->lock);
    (void)snprintf(d->fail_method, sizeof d->fail_method, "%s", method);
    d->fail_code = code;
}

void fake_wait_failed(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    WAIT_UNTIL(d, d->fail_code == 0);
}

int fake_wait_ended(struct fake_dispatcher *d, const char *task, char **message)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = fake_find_locked(d, task);

    WAIT_UNTIL(d, t->ended);
    if (message != NULL) {
        *message = mr_strdup(t->message);
    }
    return t->code;
}

uint64_t fake_wait_join(struct fake_dispatcher *d, const char *task, char **refused)
{
    MR_LOCK(&d->lock);
    struct fake_task *t = fake_find_locked(d, task);

    WAIT_UNTIL(d, t->joined);
    if (t->refused[0] == '\0') {
        return t->join_first;
    }
    *refused = mr_strdup(t->refused);
    return UINT64_MAX;
}

bool fake_has_joined(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return fake_find_locked(d, task)->joined;
}

void fake_progress(struct fake_dispatcher *d, const char *task, struct fake_progress *ret)
{
    MR_LOCK(&d->lock);
    *ret = fake_find_locked(d, task)->progress;
}

void fake_wait_progress(struct fake_dispatcher *d, const char *task,
                        bool (*holds)(const struct fake_progress *p))
{
    MR_LOCK(&d->lock);
    WAIT_UNTIL(d, holds(&fake_find_locked(d, task)->progress));
}

bool fake_has_ended(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return fake_find_locked(d, task)->ended;
}

bool fake_has_drained(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return fake_find_locked(d, task)->drained;
}

void fake_want_drain(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    d->wants_drain = true;
}

void fake_wait_draining(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    while (!d->draining) {
        mr_cond_wait(&d->changed, &d->lock);
    }
}

uint64_t fake_given_back(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return fake_find_locked(d, task)->given_back;
}

void fake_refuse_given_back(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    d->keeps = true;
}

void fake_wait_registrations(struct fake_dispatcher *d, unsigned n)
{
    MR_LOCK(&d->lock);
    WAIT_UNTIL(d, d->registrations >= n);
}

void fake_wait_heartbeats(struct fake_dispatcher *d, unsigned n)
{
    MR_LOCK(&d->lock);
    unsigned from = d->heartbeats;
    WAIT_UNTIL(d, d->heartbeats >= from + n);
}

void fake_wait_delivered(struct fake_dispatcher *d, const char *task, uint64_t delivered)
{
    MR_LOCK(&d->lock);
    WAIT_UNTIL(d, fake_find_locked(d, task)->delivered == delivered);
}

void fake_wait_finished(struct fake_dispatcher *d, const char *task, uint64_t grants)
{
    MR_LOCK(&d->lock);
    WAIT_UNTIL(d, fake_find_locked(d, task)->finished == grants);
}

uint64_t fake_finished(struct fake_dispatcher *d, const char *task)
{
    MR_LOCK(&d->lock);
    return fake_find_locked(d, task)->finished;
}

unsigned fake_grants(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    return d->grants;
}

const char *fake_incarnation(struct fake_dispatcher *d)
{
    MR_LOCK(&d->lock);
    return d->incarnation;
}
