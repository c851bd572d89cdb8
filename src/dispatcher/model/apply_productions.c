/*
 * Updates of productions: one run of a dataset on all workers, for several iterations that want the
 * same elements.
 *
 *     made by the first iteration that wants it ──► joined by others ──► the last is gone: it goes
 *                                        ╰─(a user failed, a worker
 *                                           trimmed its start)──► closed: nobody joins it
 *
 * An iteration uses its production as long as its record exists, finished or not: somebody who
 * comes late may still find everything in the window. A closed one goes with the last iteration
 * that is not finished.
 *
 * Who uses what is said by the iterations' records. The list in the production's own record is for
 * people: it is put with each iteration that joins, and what has gone is taken out when there is
 * time, since a job may go with many iterations in one transaction.
 */
#include "dispatcher/model/apply.h"

static void touch(mr_core *core, struct mr_production *p)
{
    p->is_behind = false;
    mr_touch(core, MR_STORED_PRODUCTION, p, 0);
}

void mr_production_free(struct mr_production *p)
{
    if (p != NULL) {
        mr_record_free(p->rec);
        mr_free(p);
    }
}

void mr_apply_production_added(mr_core *core, const struct mr_production_added *u)
{
    struct mr_production *p = mr_core_alloc(core, 1, sizeof *p);

    *u->ret = NULL;
    if (p == NULL) {
        mr_record_free(u->rec);
        mr_error_nomem(u->err);
        return;
    }
    TAILQ_INIT(&p->users);
    p->rec = u->rec;
    p->alarm.kind = MR_ALARM_PRODUCTION;
    p->dataset = mr_dataset_find(core, u->rec->dataset_id);
    if (p->dataset == NULL || strcmp(p->dataset->rec->fingerprint, u->rec->fingerprint) != 0 ||
        !mr_stamp_parse_given(core, u->rec->id, &p->id.at)) {
        mr_error_set(u->err, MR_EDATALOSS,
                     "production '%.40s' is of dataset '%.80s', which does not exist or has "
                     "another fingerprint",
                     u->rec->id, u->rec->dataset_id);
        mr_production_free(p);
        return;
    }
    p->dataset->productions++;
    TAILQ_INSERT_TAIL(&core->production_list, p, link);
    TAILQ_INSERT_TAIL(&p->dataset->blob->productions, p, in_blob);
    mr_core_index(core, &core->productions, u->rec->id, p);
    touch(core, p);
    *u->ret = p;
}

void mr_apply_production_listed(mr_core *core, const struct mr_production_listed *u)
{
    touch(core, u->production);
}

static void look_at(mr_core *core, struct mr_production *p)
{
    mr_alarm_by(core, &p->alarm, core->now);
}

void mr_apply_production_closed(mr_core *core, const struct mr_production_closed *u)
{
    struct mr_production *p = u->production;

    if (p->rec->closed[0] == '\0') {
        char line[MR_REFUSAL_SIZE];

        mr_line_copy(u->why, line, sizeof line);
        mr_core_set(core, &p->rec->closed, line);
        mr_core_trace(core, "production %s: closed, %s", p->rec->id, line);
        touch(core, p);
        look_at(core, p);
    }
}

/* ---------------------------------------------------------------- users */

static void append_user(mr_core *core, struct mr_production *p, const struct mr_iteration *it)
{
    Millrace__ProductionUser *user = MR_ADD_RECORD(core, p->rec, users, production_user);

    if (user != NULL) {
        mr_core_set(core, &user->job_id, it->rec->job_id);
        mr_core_set(core, &user->iteration_id, it->rec->id);
    }
}

void mr_production_join(mr_core *core, struct mr_production *p, struct mr_iteration *it)
{
    it->uses = p;
    TAILQ_INSERT_TAIL(&p->users, it, in_production);
    p->nusers++;
    p->open_users += it->rec->finished ? 0 : 1;
    if (core->ready) { /* a list that was loaded is compared when all users are there */
        append_user(core, p, it);
        touch(core, p);
    }
}

static void unlist(struct mr_production *p, const char *iteration_id)
{
    Millrace__ProductionRecord *rec = p->rec;

    for (size_t i = 0; i < rec->n_users; i++) {
        if (strcmp(rec->users[i]->iteration_id, iteration_id) == 0) {
            MR_REMOVE_RECORD(rec, users, i);
            p->is_behind = true;
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

void mr_apply_production_kept(mr_core *core, const struct mr_production_kept *u)
{
    struct mr_iteration *it = u->iteration;
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

void mr_sharing_report_free(struct mr_sharing_report *report)
{
    if (report != NULL) {
        mr_record_free(report->join);
        mr_record_free(report->window);
        mr_free(report);
    }
}

/* ---------------------------------------------------------------- takeover */

static bool is_user(const struct mr_production *p, const char *iteration_id)
{
    const struct mr_iteration *it;

    TAILQ_FOREACH(it, &p->users, in_production) {
        if (strcmp(it->rec->id, iteration_id) == 0) {
            return true;
        }
    }
    return false;
}

/* A user that is not there has gone, or is set aside with its job. */
void mr_apply_production_compared(mr_core *core, const struct mr_production_compared *u)
{
    struct mr_production *p = u->production;
    const struct mr_iteration *it;

    for (size_t i = p->rec->n_users; i-- > 0;) {
        const char *id = p->rec->users[i]->iteration_id;

        if (mr_flaw_of(core, MR_KEY_ITERATIONS, id) != NULL) {
            p->kept = true;
        } else if (!is_user(p, id)) {
            unlist(p, id);
        }
    }
    TAILQ_FOREACH(it, &p->users, in_production) {
        if (!mr_production_lists(
                p, it)) { /* a hand was in it: what the iteration says is what counts */
            append_user(core, p, it);
            p->is_behind = true;
        }
    }
    look_at(core, p);
}
