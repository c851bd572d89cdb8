/* Where what is shipped calls what is shipped. The linker leads these calls here first (--wrap):
 * the judge listens, and bugs are put in that are in no program. Nothing of the code below or above
 * knows. */
#include "sim.h"

#include "coord/commit.h"
#include "coord/member.h"

static struct sim *sim;
static struct sim_replica *replica; /* whose turn it is; NULL: none of a cluster's */

static bool has_bug(enum sim_bug bug)
{
    return replica != NULL && sim->bug == bug;
}

void sim_seams(struct sim *world, struct sim_replica *whose)
{
    sim = world;
    replica = whose;
    dispatchers_answer_early(has_bug(SIM_BUG_ANSWER_EARLY) || has_bug(SIM_BUG_ROUNDS_TOLD_EARLY));
}

/* ---------------------------------------------------------------- the core */

int __real_mr_core_step(mr_core *core, const struct mr_command *in, struct mr_outcome *out,
                        mr_error *err);
int __wrap_mr_core_step(mr_core *core, const struct mr_command *in, struct mr_outcome *out,
                        mr_error *err);

/* Whose sign of life it is. */
static void hear(const struct mr_command *in)
{
    const char *incarnation = NULL;

    switch ((int)in->kind) {
    case MR_COMMAND_REGISTER_WORKER: incarnation = in->register_worker->incarnation; break;
    case MR_COMMAND_WATCH_WORKER: incarnation = in->watch_worker->incarnation; break;
    case MR_COMMAND_WORKER_HEARTBEAT: incarnation = in->worker_heartbeat->incarnation; break;
    case MR_COMMAND_GET_SPLITS: incarnation = in->get_splits->incarnation; break;
    case MR_COMMAND_TASK_ENDED: incarnation = in->task_ended->incarnation; break;
    default: return;
    }
    sim_check_heard(sim, replica, in->kind, incarnation);
}

/* A core that knows what the store has, and no more. */
static void load_one(void *ctx, const char *key, const char *value, size_t size)
{
    mr_core *core = ctx;

    if (strncmp(key, "blobs/", 6) == 0) {
        (void)mr_core_load_blob(core, key, NULL);
    } else if (strncmp(key, "meta/", 5) != 0 && strcmp(key, "leader") != 0 &&
               strncmp(key, "dispatchers/", 12) != 0) {
        (void)mr_core_load(core, key, value, size, NULL);
    }
}

static int step_on_committed(const struct mr_command *in, struct mr_outcome *out, mr_error *err)
{
    static mr_core *other; /* what it lends lives until the next step */
    struct mr_core_config config = {.epoch = (uint64_t)sim_replica_epoch(replica) * 1000000 +
                                             ++sim->order, /* so that ids differ */
                                    .worker_timeout_ms = SIM_WORKER_TIMEOUT_MS,
                                    .client_timeout_ms = SIM_CLIENT_TIMEOUT_MS,
                                    .heartbeat_ms = SIM_HEARTBEAT_MS};

    mr_core_free(other);
    other = mr_core_new(&config);
    sim_store_each(sim, "", load_one, other);
    int rc = mr_core_ready(other, in->now_ms, err);

    return rc < 0 ? rc : __real_mr_core_step(other, in, out, err);
}

static void judge_step(mr_core *core, const struct mr_command *in, struct mr_outcome *out)
{
    mr_error err;

    if (mr_core_check(core, &err) < 0) {
        sim_violation(sim, "the core: %s", err.message);
    }
    if (in->kind == MR_COMMAND_TIMER) {
        sim_check_timer(sim, replica, out);
    }
    for (size_t i = 0; i < out->neffects; i++) {
        struct mr_effect *e = &out->effects[i];

        if (e->kind == MR_EFFECT_REPLY && in->kind == MR_COMMAND_GET_SPLITS && e->error.code == 0) {
            sim_check_decided(sim, replica, in->get_splits);
        }
        if (e->kind == MR_EFFECT_RESIGN) {
            sim_rare(sim, SIM_RARE_RESIGNED);
        }
        if (has_bug(SIM_BUG_SOFT_DENIALS) && out->nchanges == 0) {
            e->from_memory = e->kind == MR_EFFECT_REPLY;
        }
    }
}

int __wrap_mr_core_step(mr_core *core, const struct mr_command *in, struct mr_outcome *out,
                        mr_error *err)
{
    struct mr_command command = *in;
    Millrace__GetSplitsRequest splits;
    int rc;

    if (replica == NULL) {
        return __real_mr_core_step(core, in, out, err);
    }
    hear(in);
    if (has_bug(SIM_BUG_REPORTS_AFTER_SEQ) && in->kind == MR_COMMAND_GET_SPLITS &&
        sim_was_decided(sim, in->get_splits)) {
        splits = *in->get_splits;
        splits.report = NULL;
        command.get_splits = &splits;
    }
    if (has_bug(SIM_BUG_LATENESS_IGNORED)) {
        command.late_ms = 0;
    }
    if (has_bug(SIM_BUG_DECIDE_ON_COMMITTED) && in->kind != MR_COMMAND_TIMER) {
        return step_on_committed(&command, out, err);
    }
    rc = __real_mr_core_step(core, &command, out, err);
    if (rc < 0) {
        sim_violation(sim, "the core: %s", err->message);
    } else {
        judge_step(core, &command, out);
    }
    return rc;
}

/* ---------------------------------------------------------------- the member */

bool __real_mr_member_may_answer(const mr_member *m, int64_t now_ms);
bool __wrap_mr_member_may_answer(const mr_member *m, int64_t now_ms);
int __real_mr_member_add(mr_member *m, const struct mr_write *writes, size_t n, bool alone,
                         uint64_t *batch, mr_error *err);
int __wrap_mr_member_add(mr_member *m, const struct mr_write *writes, size_t n, bool alone,
                         uint64_t *batch, mr_error *err);

bool __wrap_mr_member_may_answer(const mr_member *m, int64_t now_ms)
{
    return has_bug(SIM_BUG_SOFT_DENIALS) || __real_mr_member_may_answer(m, now_ms);
}

/* Which batch a call's changes are in. */
int __wrap_mr_member_add(mr_member *m, const struct mr_write *writes, size_t n, bool alone,
                         uint64_t *batch, mr_error *err)
{
    int rc = __real_mr_member_add(m, writes, n, alone, batch, err);

    if (rc >= 0 && replica != NULL) {
        sim_replica_wrote(replica, *batch);
    }
    return rc;
}

/* ---------------------------------------------------------------- the commit */

enum mr_verdict __real_mr_commit_answer(mr_commit *c, int64_t now_ms, int rc,
                                        const struct mr_txn_result *r, const mr_error *why,
                                        bool *maybe_applied, mr_error *err);
enum mr_verdict __wrap_mr_commit_answer(mr_commit *c, int64_t now_ms, int rc,
                                        const struct mr_txn_result *r, const mr_error *why,
                                        bool *maybe_applied, mr_error *err);
bool __real_mr_commit_send(mr_commit *c, int64_t now_ms, struct mr_txn *txn);
bool __wrap_mr_commit_send(mr_commit *c, int64_t now_ms, struct mr_txn *txn);

bool __wrap_mr_commit_send(mr_commit *c, int64_t now_ms, struct mr_txn *txn)
{
    bool due = __real_mr_commit_send(c, now_ms, txn);

    if (due && has_bug(SIM_BUG_NO_FENCE)) {
        txn->ncompares = 0;
    }
    return due;
}

static bool is_unknown(int rc, const mr_error *why)
{
    return rc < 0 && (why->traits & (MR_MAYBE_APPLIED | MR_RETRYABLE)) != 0;
}

/* The wrong ways to find out what became of a batch. true: it is taken for one that was refused. */
static bool gives_up(int rc, const struct mr_txn_result *r, const mr_error *why)
{
    bool definite = rc < 0 && !is_unknown(rc, why);

    return (has_bug(SIM_BUG_NO_NONCE) && rc >= 0 && !r->succeeded) ||
           (has_bug(SIM_BUG_REFUSAL_SETTLES) && definite) ||
           (has_bug(SIM_BUG_READ_SETTLES) && is_unknown(rc, why) &&
            !sim_store_has_batch(sim, replica->flight));
}

static void note_verdict(enum mr_verdict verdict, int rc, const struct mr_txn_result *r,
                         const mr_error *why)
{
    switch (verdict) {
    case MR_VERDICT_COMMITTED:
        if (!r->succeeded) {
            sim_rare(sim, SIM_RARE_SETTLED_BY_NONCE);
        }
        replica->flight->settled = true;
        break;
    case MR_VERDICT_COMMITTED_DEPOSED: sim_rare(sim, SIM_RARE_DEPOSED_COMMITTED); break;
    case MR_VERDICT_DEPOSED: sim_rare(sim, SIM_RARE_DEPOSED_REFUSED); break;
    case MR_VERDICT_REFUSED: sim_rare(sim, SIM_RARE_REFUSED); break;
    case MR_VERDICT_AGAIN:
        if (rc < 0 && !is_unknown(rc, why)) {
            sim_rare(sim, SIM_RARE_REFUSED_LATE);
        }
        break;
    }
    if (rc == MR_EEXHAUSTED) {
        sim_rare(sim, SIM_RARE_STORE_FULL);
    }
}

enum mr_verdict __wrap_mr_commit_answer(mr_commit *c, int64_t now_ms, int rc,
                                        const struct mr_txn_result *r, const mr_error *why,
                                        bool *maybe_applied, mr_error *err)
{
    enum mr_verdict verdict;

    if (replica != NULL && gives_up(rc, r, why)) {
        (void)mr_error_set(err, MR_EINVAL, "it is taken for refused");
        return MR_VERDICT_REFUSED;
    }
    verdict = __real_mr_commit_answer(c, now_ms, rc, r, why, maybe_applied, err);
    if (replica != NULL) {
        note_verdict(verdict, rc, r, why);
    }
    return verdict;
}
