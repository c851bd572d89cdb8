/*
 * Productions: one run of a dataset on all workers, for several iterations that want the same
 * elements.
 *
 *     made by the first iteration that wants it ──► joined by others (join.c) ──► removed with
 *                                        │                                       the last of them
 *                                        ╰─(a user failed, a worker dropped its start)──► closed
 *
 * An iteration uses its production as long as its record exists, finished or not: somebody who
 * comes late may still find everything in the window. A closed one goes with the last iteration
 * that is not finished.
 *
 * Who uses what is said by the iterations' records. The list in the production's own record is for
 * people: it is put with each iteration that joins, and what has gone is taken out when there is
 * time, since a job may go with many iterations in one transaction.
 */
#include "dispatcher/core/internal.h"

#include <stdio.h>
#include <string.h>

static void production_key(const struct mr_production *p, char *out, size_t size)
{
    snprintf(out, size, "productions/%s", p->rec->id);
}

static void put_production(mr_core *core, struct mr_production *p)
{
    char key[MR_KEY_SIZE];

    p->unwritten = false;
    production_key(p, key, sizeof key);
    mr_core_put(core, key, &p->rec->base);
}

void mr_production_write(mr_core *core, struct mr_production *p)
{
    if (p->unwritten) {
        put_production(core, p);
    }
}

bool mr_job_shares(const struct mr_job *job)
{
    const Millrace__JobRecord *rec = job->rec;

    return rec->unshared[0] == '\0' &&
           (rec->trainer[0] != '\0' || rec->sharing != MILLRACE__SHARING__SHARING_OFF);
}

struct mr_production *mr_production_find(const mr_core *core, const char *id)
{
    return mr_map_get(&core->productions, id);
}

void mr_production_free(struct mr_production *p)
{
    if (p != NULL) {
        mr_record_free(p->rec);
        mr_free(p);
    }
}

struct mr_production *mr_production_add(mr_core *core, Millrace__ProductionRecord *rec,
                                        mr_error *err)
{
    struct mr_production *p = mr_calloc(1, sizeof *p);

    if (p == NULL) {
        mr_record_free(rec);
        mr_core_nomem(core);
        mr_error_nomem(err);
        return NULL;
    }
    TAILQ_INIT(&p->users);
    p->rec = rec;
    p->alarm.kind = MR_ALARM_PRODUCTION;
    p->dataset = mr_dataset_find(core, rec->dataset_id);
    if (p->dataset == NULL || strcmp(p->dataset->rec->fingerprint, rec->fingerprint) != 0 ||
        !mr_stamp_parse_given(core, rec->id, &p->id.at)) {
        mr_error_set(err, MR_EDATALOSS,
                     "production '%.40s' is of dataset '%.80s', which does not exist or is another",
                     rec->id, rec->dataset_id);
        mr_production_free(p);
        return NULL;
    }
    p->dataset->productions++;
    TAILQ_INSERT_TAIL(&core->production_list, p, link);
    TAILQ_INSERT_TAIL(&p->dataset->blob->productions, p, in_blob);
    mr_core_index(core, &core->productions, rec->id, p);
    return p;
}

static const char *scope_of(const struct mr_job *job)
{
    return job->rec->trainer[0] != '\0' ? job->rec->name : "";
}

struct mr_production *mr_production_create(mr_core *core, const struct mr_job *job,
                                           uint64_t repetition, uint64_t seed)
{
    Millrace__ProductionRecord *rec =
        mr_core_new_record(core, &millrace__production_record__descriptor);
    struct mr_production *p = NULL;
    char id[MR_STAMP_SIZE];

    if (rec == NULL) {
        return NULL;
    }
    mr_stamp_print(mr_core_stamp(core), id);
    mr_core_set(core, &rec->id, id);
    mr_core_set(core, &rec->scope, scope_of(job));
    mr_core_set(core, &rec->fingerprint, job->dataset->rec->fingerprint);
    mr_core_set(core, &rec->dataset_id, job->rec->dataset_id);
    rec->mode = job->rec->mode;
    rec->guarantee = job->rec->guarantee;
    rec->repetition = repetition;
    rec->endless = job->dataset->rec->cardinality == -1;
    rec->created_ms = (uint64_t)core->wall_ms;
    if (core->failed != 0) {
        mr_record_free(rec);
        return NULL;
    }
    p = mr_production_add(core, rec, NULL);
    if (p != NULL) {
        mr_core_trace(core, "production %s: made for job %s", id, mr_job_label(job));
        put_production(core, p);
        mr_iteration_create_hidden(core, p, seed);
    }
    return core->failed == 0 ? p : NULL;
}

/* ---------------------------------------------------------------- which one */

bool mr_production_fits(const struct mr_production *p, const struct mr_job *job,
                        uint64_t repetition)
{
    return p->dataset->blob == job->dataset->blob && p->rec->mode == job->rec->mode &&
           p->rec->guarantee == job->rec->guarantee && p->rec->repetition == repetition &&
           strcmp(p->rec->scope, scope_of(job)) == 0;
}

struct mr_production *mr_production_newest(const mr_core *core, const struct mr_job *job,
                                           uint64_t repetition)
{
    struct mr_production *p, *newest = NULL;

    TAILQ_FOREACH(p, &job->dataset->blob->productions, in_blob)
    {
        if (mr_production_fits(p, job, repetition) &&
            (newest == NULL || mr_stamp_compare(p->id.at, newest->id.at) > 0)) {
            newest = p;
        }
    }
    return newest;
}

bool mr_production_refuses(const struct mr_production *p, char why[MR_REFUSAL_SIZE])
{
    uint64_t lost = mr_iteration_lost_splits(p->hidden);

    why[0] = '\0';
    if (p->rec->closed[0] != '\0') {
        snprintf(why, MR_REFUSAL_SIZE, "%s", p->rec->closed);
    } else if (!p->rec->endless && lost > 0) {
        snprintf(why, MR_REFUSAL_SIZE, "production %s lost up to %llu splits with its workers",
                 p->rec->id, (unsigned long long)lost);
    } else if (!p->rec->endless &&
               p->hidden->draining_tasks > 0) { /* which gets no task of those who come now */
        snprintf(why, MR_REFUSAL_SIZE, "a part of production %s is on a worker that drains",
                 p->rec->id);
    }
    return why[0] != '\0';
}

static void look_at(mr_core *core, struct mr_production *p)
{
    mr_alarm_by(core, &p->alarm, core->now);
}

void mr_production_close(mr_core *core, struct mr_production *p, const char *why)
{
    if (p->rec->closed[0] == '\0') {
        char line[MR_REFUSAL_SIZE];

        mr_line_copy(why, line, sizeof line);
        mr_core_set(core, &p->rec->closed, line);
        mr_core_trace(core, "production %s: closed, %s", p->rec->id, line);
        put_production(core, p);
        look_at(core, p);
    }
}

/* ---------------------------------------------------------------- users */

void mr_production_join(struct mr_production *p, struct mr_iteration *it)
{
    it->uses = p;
    TAILQ_INSERT_TAIL(&p->users, it, in_production);
    p->nusers++;
    p->open_users += it->rec->finished ? 0 : 1;
}

static void append_user(mr_core *core, struct mr_production *p, const struct mr_iteration *it)
{
    Millrace__ProductionUser *user =
        mr_core_new_record(core, &millrace__production_user__descriptor);

    if (mr_core_append(core, &p->rec->users, p->rec->n_users, user)) {
        p->rec->n_users++;
        mr_core_set(core, &user->job_id, it->rec->job_id);
        mr_core_set(core, &user->iteration_id, it->rec->id);
    }
}

void mr_production_list(mr_core *core, struct mr_production *p, const struct mr_iteration *it)
{
    append_user(core, p, it);
    if (core->failed == 0) {
        put_production(core, p);
    }
}

static void unlist(struct mr_production *p, const char *iteration_id)
{
    Millrace__ProductionRecord *rec = p->rec;

    for (size_t i = 0; i < rec->n_users; i++) {
        if (strcmp(rec->users[i]->iteration_id, iteration_id) == 0) {
            mr_record_free(rec->users[i]);
            rec->n_users--;
            memmove(rec->users + i, rec->users + i + 1, (rec->n_users - i) * sizeof(rec->users[0]));
            p->unwritten = true;
            return;
        }
    }
}

void mr_production_leave(mr_core *core, struct mr_iteration *it)
{
    struct mr_production *p = it->uses;

    if (p == NULL) {
        return;
    }
    TAILQ_REMOVE(&p->users, it, in_production);
    it->uses = NULL;
    p->nusers--;
    p->open_users -= it->rec->finished ? 0 : 1;
    unlist(p, it->rec->id);
    look_at(core, p);
}

void mr_production_keep_for(struct mr_iteration *it)
{
    struct mr_production *p = it->uses;

    TAILQ_REMOVE(&p->users, it, in_production);
    it->uses = NULL;
    p->nusers--;
    p->open_users -= it->rec->finished ? 0 : 1;
    p->kept = true; /* it is still listed */
}

void mr_production_note_finished(mr_core *core, struct mr_iteration *it)
{
    it->uses->open_users--;
    look_at(core, it->uses);
}

struct mr_task *mr_task_producing(const mr_core *core, const struct mr_task *reading)
{
    const struct mr_iteration *it = reading->iteration;
    char id[MR_TASK_ID_SIZE];

    if (it->uses == NULL) {
        return NULL;
    }
    snprintf(id, sizeof id, "%s/%s", it->uses->rec->id, reading->worker->ref);
    return mr_task_find(core, id);
}

/* ---------------------------------------------------------------- the end */

bool mr_production_is_over(const struct mr_production *p)
{
    return !p->kept && (p->nusers == 0 || (p->rec->closed[0] != '\0' && p->open_users == 0));
}

void mr_production_forget(mr_core *core, struct mr_production *p)
{
    struct mr_dataset_entry *dataset = p->dataset;
    char key[MR_KEY_SIZE];

    MR_ASSERT(mr_production_is_over(p));
    mr_core_trace(core, "production %s: over", p->rec->id);
    production_key(p, key, sizeof key);
    mr_core_delete(
        core, key); /* first: a hidden iteration without it is a left-over to whoever loads it */
    while (!TAILQ_EMPTY(&p->users)) {
        struct mr_iteration *it = TAILQ_FIRST(&p->users);

        TAILQ_REMOVE(&p->users, it, in_production);
        it->uses = NULL;
    }
    if (p->hidden != NULL) { /* at takeover, when it is set aside, it may lack one */
        mr_iteration_forget(core, p->hidden, true /* with_job: its owner */);
    }
    mr_map_remove(&core->productions, p->rec->id);
    mr_alarm_off(core, &p->alarm);
    TAILQ_REMOVE(&core->production_list, p, link);
    TAILQ_REMOVE(&dataset->blob->productions, p, in_blob);
    dataset->productions--;
    mr_dataset_use(core, dataset);
    mr_production_free(p);
}

/* ---------------------------------------------------------------- takeover */

static bool is_user(const struct mr_production *p, const char *iteration_id)
{
    const struct mr_iteration *it;

    TAILQ_FOREACH(it, &p->users, in_production)
    {
        if (strcmp(it->rec->id, iteration_id) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_listed(const struct mr_production *p, const struct mr_iteration *it)
{
    for (size_t i = 0; i < p->rec->n_users; i++) {
        if (strcmp(p->rec->users[i]->iteration_id, it->rec->id) == 0) {
            return true;
        }
    }
    return false;
}

/* A user that is not there has gone, or is set aside with its job. */
static void correct_list(mr_core *core, struct mr_production *p)
{
    const struct mr_iteration *it;
    char key[MR_KEY_SIZE];

    for (size_t i = p->rec->n_users; i-- > 0;) {
        const char *id = p->rec->users[i]->iteration_id;

        snprintf(key, sizeof key, "iterations/%.80s", id);
        if (mr_flaw_find(core, key) != NULL) {
            p->kept = true;
        } else if (!is_user(p, id)) {
            unlist(p, id);
        }
    }
    TAILQ_FOREACH(it, &p->users, in_production)
    {
        if (!is_listed(p, it)) { /* a hand was in it: what the iteration says is what counts */
            append_user(core, p, it);
            p->unwritten = true;
        }
    }
}

void mr_productions_ready(mr_core *core)
{
    struct mr_production *p;

    TAILQ_FOREACH(p, &core->production_list, link)
    {
        correct_list(core, p);
        look_at(core, p);
    }
}
