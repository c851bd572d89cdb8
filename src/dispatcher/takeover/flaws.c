/*
 * Takeover, when a record of a dataset, a job, a production or an iteration is bad, or missing: the
 * jobs that rest on it are set aside. Nobody can read them, their names stay taken, and nothing of
 * them is changed or deleted in the store: whoever knows better puts the record right, and the next
 * leader looks again. All other jobs go on. Nor do the workers change anything: they keep the tasks
 * of such a job, with what they hold, and ask for nothing. So when the record is right again the
 * open passes go on as after a time without a leader.
 *
 * First each record is looked at by itself (records.c), which notes flaws; then whatever was loaded
 * and rests on one is taken out of memory again; at last what seemed to be left over, since its
 * owner was not there, is kept. While jobs are set aside nothing is collected that they may rest
 * on: datasets, definitions, iterations without a job.
 */
#include "dispatcher/takeover/takeover.h"

void mr_slot_spoil(mr_core *core, const char *slot, const char *id, const char *line, bool is_root)
{
    char by_id[MR_KEY_SIZE];
    struct mr_flaw *flaw;

    if (mr_flaw_of(core, MR_KEY_JOBS, slot) != NULL) {
        return;
    }
    flaw = mr_flaw_note_of(core, MR_KEY_JOBS, slot, line);
    core->blind = core->blind || is_root || id[0] == '\0'; /* a bad record may say a wrong one */
    if (flaw != NULL) {
        flaw->is_root = is_root;
    }
    if (flaw != NULL && id[0] != '\0') {
        snprintf(by_id, sizeof by_id, "#%.*s", MR_KEY_SIZE - 2, id);
        flaw->by_id = mr_strdup(by_id);
        if (flaw->by_id == NULL) {
            mr_core_nomem(core);
            return;
        }
        mr_core_index(core, &core->flaws, flaw->by_id, flaw);
    }
    mr_core_note_loss(core, "job %s is set aside: %s", slot, line);
}

void mr_job_spoil(mr_core *core, const struct mr_job *job, const char *line)
{
    mr_slot_spoil(core, job->slot, job->rec->id, line, false);
}

/* ---------------------------------------------------------------- their tasks, which the workers
 * keep */

/* Nobody reads @id any more who would say whose it is: it is of a job that was there before and
 * that nobody reads. */
static void spoil_candidates(mr_core *core, const char *id, const char *line)
{
    const struct mr_job *job;
    struct mr_stamp stamp;

    if (!mr_stamp_parse(id, &stamp)) {
        return; /* no iteration has that name */
    }
    TAILQ_FOREACH(job, &core->job_list, link) {
        if (job->live_clients == 0 && mr_stamp_compare(job->id.at, stamp) < 0) {
            mr_job_spoil(core, job, line);
        }
    }
}

static void spoil_iteration(mr_core *core, const char *key, const char *owner, mr_error *err)
{
    const char *id = key + strlen(MR_KEY_ITERATIONS);
    const struct mr_job *job = mr_job_by_id(core, owner);
    struct mr_stamp stamp;
    struct mr_flaw *flaw;

    if (job != NULL && mr_stamp_parse(id, &stamp) && mr_stamp_compare(stamp, job->id.at) < 0) {
        job = NULL; /* it cannot be */
        owner = "";
    }
    if (owner[0] != '\0' && job == NULL && !mr_job_is_set_aside(core, owner)) {
        mr_leave_over_key(core, key); /* it was on its way out */
        return;
    }
    flaw = mr_flaw_note_error(core, key, err);
    if (flaw == NULL) {
        return;
    }
    if (job != NULL) {
        mr_job_spoil(core, job, flaw->why);
    } else if (mr_production_find(core, id) != NULL) {
        mr_flaw_note_of(core, MR_KEY_PRODUCTIONS, id, flaw->why);
    } else {
        flaw->is_ownerless = owner[0] == '\0';
    }
}

void mr_core_spoil_jobs(mr_core *core, const char *key, const char *owner, mr_error *err)
{
    if (mr_key_is_below(key, MR_KEY_ITERATIONS)) {
        spoil_iteration(core, key, owner, err);
    } else if (mr_key_is_below(key, MR_KEY_JOBS)) {
        mr_error_wrap(err, "'%.160s'", key);
        mr_slot_spoil(core, key + strlen(MR_KEY_JOBS), owner, err->message, true);
    } else { /* what rests on it comes later, and does not find it */
        mr_flaw_note_error(core, key, err);
    }
}

/* ---------------------------------------------------------------- out of memory, and nothing
 * else */

static void take_out_iteration(mr_core *core, struct mr_iteration *it, const char *line)
{
    struct mr_client *client;

    mr_flaw_note_of(core, MR_KEY_ITERATIONS, it->rec->id, line);
    while ((client = TAILQ_FIRST(&it->clients)) != NULL && core->failed == 0) {
        if (!client->rec->released) {
            mr_client_evict(core, client);
        }
        mr_client_keep(core, client->rec->client);
        MR_APPLY(core, client_removed, client);
    }
    if (it->uses != NULL) {
        MR_APPLY(core, production_kept, it);
    }
    if (!it->rec->finished) { /* nor does it end for a bad part: that is not counted yet */
        MR_APPLY(core, iteration_broken, it, NULL);
    }
    if (core->failed == 0) {
        MR_APPLY(core, iteration_removed, it, true /* with_owner */);
    }
}

static void take_out_job(mr_core *core, struct mr_job *job, const char *line)
{
    while (!TAILQ_EMPTY(&job->iterations) && core->failed == 0) {
        take_out_iteration(core, TAILQ_FIRST(&job->iterations), line);
    }
    if (core->failed == 0) {
        MR_APPLY(core, job_removed, job);
    }
}

static void take_out_production(mr_core *core, struct mr_production *p, const char *line)
{
    if (p->hidden != NULL) {
        mr_flaw_note_of(core, MR_KEY_ITERATIONS, p->hidden->rec->id, line);
    }
    MR_APPLY(core, production_removed, p);
}

/* Jobs that read a production which cannot be used. */
static void spoil_users(mr_core *core)
{
    const struct mr_production *p;
    const struct mr_iteration *it;
    const struct mr_flaw *flaw;
    char key[MR_KEY_SIZE];
    mr_error err;

    TAILQ_FOREACH(p, &core->production_list, link) {
        if (p->hidden == NULL) {
            (void)mr_error_set(&err, MR_EDATALOSS,
                               "its hidden iteration, 'iterations/%.40s', is missing", p->rec->id);
            snprintf(key, sizeof key, MR_KEY_PRODUCTIONS "%s", p->rec->id);
            mr_flaw_note_error(core, key, &err);
        }
        flaw = mr_flaw_of(core, MR_KEY_PRODUCTIONS, p->rec->id);
        TAILQ_FOREACH(it, &p->users, in_production) {
            if (flaw != NULL && !it->rec->finished) {
                mr_job_spoil(core, it->job, flaw->why);
            }
        }
    }
}

static void take_out_productions(mr_core *core)
{
    struct mr_production *p, *next;
    const struct mr_flaw *flaw;

    for (p = TAILQ_FIRST(&core->production_list); p != NULL && core->failed == 0; p = next) {
        next = TAILQ_NEXT(p, link);
        flaw = mr_flaw_of(core, MR_KEY_PRODUCTIONS, p->rec->id);
        if (flaw != NULL) {
            take_out_production(core, p, flaw->why);
        }
    }
}

static void take_out_jobs(mr_core *core)
{
    struct mr_job *job, *next;
    const struct mr_flaw *flaw;

    for (job = TAILQ_FIRST(&core->job_list); job != NULL && core->failed == 0; job = next) {
        next = TAILQ_NEXT(job, link);
        flaw = mr_flaw_of(core, MR_KEY_JOBS, job->slot);
        if (flaw != NULL) {
            take_out_job(core, job, flaw->why);
        }
    }
}

/* Bad parts of one pass, workers and clients are dealt with otherwise. */
static bool is_of_jobs(const struct mr_flaw *flaw)
{
    return mr_key_is_below(flaw->key, MR_KEY_JOBS) || mr_key_is_below(flaw->key, MR_KEY_DATASETS) ||
           mr_key_is_below(flaw->key, MR_KEY_ITERATIONS) ||
           mr_key_is_below(flaw->key, MR_KEY_PRODUCTIONS);
}

void mr_core_set_aside_flawed(mr_core *core)
{
    struct mr_flaw *flaw;

    TAILQ_FOREACH(flaw, &core->flaw_list, link) {
        if (flaw->is_ownerless) {
            flaw->is_ownerless = false;
            flaw->is_guess = true;
            spoil_candidates(core, flaw->key + strlen(MR_KEY_ITERATIONS), flaw->why);
        }
    }
    spoil_users(core);
    take_out_jobs(core);
    take_out_productions(core);
    TAILQ_FOREACH(flaw, &core->flaw_list, link) {
        core->keeps = core->keeps || is_of_jobs(flaw);
    }
}

/* Of which iteration or production is @key? */
static bool is_of_flawed(const mr_core *core, const char *key)
{
    static const char *const kinds[] = {
        MR_KEY_ITERATIONS, MR_KEY_TASKS,     MR_KEY_CURSORS,     MR_KEY_GRANTS,
        MR_KEY_ROUNDS,     MR_KEY_CONSUMERS, MR_KEY_PRODUCTIONS,
    };

    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (mr_key_is_below(key, kinds[i])) {
            return mr_flaw_holds(core, key + strlen(kinds[i]));
        }
    }
    return false;
}

void mr_core_keep_flawed(mr_core *core)
{
    STAILQ_HEAD(, mr_left_over) rest = STAILQ_HEAD_INITIALIZER(rest);
    struct mr_core_counts counts;
    struct mr_left_over *left;

    if (!core->keeps) {
        return;
    }
    while ((left = STAILQ_FIRST(&core->left_over)) != NULL) {
        STAILQ_REMOVE_HEAD(&core->left_over, link);
        if (is_of_flawed(core, left->key)) {
            mr_free(left);
        } else {
            STAILQ_INSERT_TAIL(&rest, left, link);
        }
    }
    STAILQ_CONCAT(&core->left_over, &rest);
    mr_core_count(core, &counts);
    core->kept_keys = core->loaded_keys > counts.keys ? core->loaded_keys - counts.keys : 0;
}
