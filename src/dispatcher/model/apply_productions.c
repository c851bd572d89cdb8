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
/*
 * Joining a production that runs already.
 *
 * One that never ends is joined at once, at the start of each worker's window. Of one that may end
 * a job wants all, so it takes two steps:
 *
 *   1. the iteration is committed as joining. Each live worker opens a reader, which pins what is
 *      there, and answers with the first element that it can have, until it hears the decision.
 *   2. all have answered 0, and no splits went with lost workers: it is committed as a user.
 *      Otherwise it is committed with a production of its own, and says why. Elements are delivered
 *      only then.
 *
 * Answers are soft: the next leader hears them again. A worker that does not answer is not waited
 * for longer than MR_JOIN_HEARTBEATS heartbeats: to produce once more costs CPU, and waiting holds
 * the job up.
 */
#include "dispatcher/model/model.h"

#include <stdio.h>
#include <string.h>

void mr_production_put(mr_core *core, struct mr_production *p)
{
    p->unwritten = false;
    mr_touch(core, MR_STORED_PRODUCTION, p, 0);
}

void mr_production_write(mr_core *core, struct mr_production *p)
{
    if (p->unwritten) {
        mr_production_put(core, p);
    }
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
        mr_production_put(core, p);
        look_at(core, p);
    }
}

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
        mr_production_put(core, p);
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

void mr_sharing_report_free(struct mr_sharing_report *report)
{
    if (report != NULL) {
        mr_record_free(report->join);
        mr_record_free(report->window);
        mr_free(report);
    }
}
