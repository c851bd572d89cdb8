/* A term of our own: the state is loaded (member_load.c), then batches are committed, one at a
 * time, until the term is over. */
#include "coord/member_internal.h"

/* a member that has just lost its leader sits on a proposal; sent again it goes through */
#define FIRST_ATTEMPT_MS 1000
/* One that compares the absence of meta/batch is waited for: if nobody knows what became of it, the
 * term cannot withdraw anything any more (mr_commit_status.stray). */
#define ABSENCE_ATTEMPT_MS 5000
#define BAD_STATE_HOLD_OFF_MS 5000

/* ---- terms ---- */

/* The election hears of it when the call that is running has done its part. */
static void say(mr_member *m, struct mr_election_event in)
{
    m->said = in;
    m->says = true;
}

static void forget_load(mr_member *m)
{
    mr_member_load_drop(m);
    m->term++; /* Answers that may be on their way are another term's. */
    m->commit_out = false;
}

static void drop_commit(mr_member *m)
{
    m->written += m->commit != NULL ? mr_commit_status(m->commit)->written : 0;
    mr_commit_free(m->commit);
    m->commit = NULL;
}

void mr_member_start_load(mr_member *m)
{
    forget_load(m);
    mr_member_load_begin(m);
    m->leading = false;
    drop_commit(m);
    if (m->incarnation_bad.code == MR_OK) { /* else nothing is loaded (mr_member_load_tick()) */
        m->opts.ops->load_begin(m->opts.ctx, m->epoch, m->incarnation.id);
    }
}

void mr_member_term_begin(mr_member *m, int64_t epoch)
{
    m->stray = false;
    m->epoch = epoch;
    m->answered_revision = epoch;
    mr_log(MR_LOG_INFO, "won the election", "epoch", "%lld", (long long)epoch, NULL);
    mr_member_start_load(m);
}

void mr_member_term_end(mr_member *m)
{
    mr_error err;
    int64_t epoch = m->epoch;

    if (epoch == 0) {
        return;
    }
    m->epoch = 0;
    m->leading = false;
    forget_load(m);
    drop_commit(m);
    (void)mr_error_set_traits(&err, MR_EUNAVAIL, MR_RETRYABLE | MR_MAYBE_APPLIED | MR_FENCED,
                              "no longer leader at epoch %lld", (long long)epoch);
    mr_log(MR_LOG_INFO, "no longer leader", "epoch", "%lld", (long long)epoch, NULL);
    m->opts.ops->lost(m->opts.ctx, &err);
}

void mr_member_bad_state(mr_member *m, const mr_error *why)
{
    struct mr_election_event in = {.kind = MR_ELECTION_STEP_DOWN,
                                   .hold_off_ms = BAD_STATE_HOLD_OFF_MS};

    mr_log(MR_LOG_ERROR, "the state in etcd cannot be used, stepping down", "error", "%s",
           why->message, NULL);
    say(m, in);
}

void mr_member_finish_load(mr_member *m)
{
    mr_error err;

    m->loading = false;
    if (m->incarnation_unwritten) {
        char *value = mr_incarnation_record_write(&m->incarnation);
        struct mr_write w = {MR_KEY_INCARNATION, value, value != NULL ? strlen(value) : 0};
        uint64_t batch;

        if (value == NULL || mr_commit_add(m->commit, &w, 1, false, &batch, &err) < 0) {
            (void)mr_error_nomem(&err);
            mr_free(value);
            mr_member_bad_state(m, &err);
            return;
        }
        mr_free(value);
    }
    m->leading = true;
    m->status_ms = m->now_ms;
    if (m->opts.ops->load_end(m->opts.ctx, &err) < 0) {
        m->leading = false;
        mr_member_bad_state(m, &err);
    }
}

/* ---- commits ---- */

/* A batch that was sent after a later epoch was heard of, signed by its leader, has committed: that
 * epoch was of another past. */
static void resolve_doubt(mr_member *m)
{
    struct mr_election_event in = {.kind = MR_ELECTION_STEP_DOWN};

    if (m->doubt != PROVING) {
        return;
    }
    m->doubt = CERTAIN;
    m->went_back = true;
    mr_log(MR_LOG_ERROR,
           "callers know a later epoch than the one that holds: etcd went back, beginning a new "
           "incarnation",
           "epoch", "%lld", (long long)m->epoch, NULL);
    say(m, in);
}

static void on_verdict(mr_member *m, enum mr_verdict verdict, bool maybe_applied)
{
    struct mr_election_event fenced = {.kind = MR_ELECTION_FENCED};
    uint64_t committed = mr_commit_status(m->commit)->committed;

    switch (verdict) {
    case MR_VERDICT_COMMITTED:
        m->incarnation_unwritten = false;
        m->opts.ops->committed(m->opts.ctx, committed);
        resolve_doubt(m);
        break;
    case MR_VERDICT_COMMITTED_DEPOSED:
        m->opts.ops->committed(m->opts.ctx, committed);
        say(m, fenced);
        break;
    case MR_VERDICT_AGAIN: break;
    case MR_VERDICT_DEPOSED:
        mr_log(MR_LOG_WARN, "a fenced transaction failed, stepping down", "error", "%s",
               m->refusal.message, "unknown", "%d", maybe_applied, NULL);
        say(m, fenced);
        break;
    case MR_VERDICT_REFUSED:
        mr_log(MR_LOG_ERROR, "etcd refuses a batch, loading the state again", "error", "%s",
               m->refusal.message, NULL);
        m->opts.ops->refused(m->opts.ctx, committed + 1, &m->refusal);
        m->batch_revision = mr_commit_status(m->commit)->batch_revision;
        m->stray = mr_commit_status(m->commit)->stray;
        mr_member_start_load(m);
        break;
    }
}

static void note_room(mr_member *m)
{
    bool full = mr_commit_status(m->commit)->full;

    if (full != m->full) {
        m->full = full;
        mr_log(full ? MR_LOG_ERROR : MR_LOG_INFO,
               full ? "etcd is full (alarm NOSPACE): nothing is handed out until somebody compacts "
                      "it, defragments its members and disarms the alarm"
                    : "etcd has room again",
               NULL);
    }
}

void mr_member_on_commit(mr_member *m, const struct mr_member_event *ev)
{
    struct mr_txn_result r = {
        .succeeded = ev->succeeded, .revision = ev->revision, .gets = ev->kvs, .ngets = ev->count};
    bool maybe_applied = false;
    enum mr_verdict verdict;

    if (ev->serial != m->term || m->commit == NULL) {
        return;
    }
    m->commit_out = false;
    if (ev->rc >= 0 && ev->revision > m->answered_revision) {
        m->answered_revision = ev->revision;
    }
    verdict =
        mr_commit_answer(m->commit, m->now_ms, ev->rc, &r, &ev->err, &maybe_applied, &m->refusal);
    note_room(m);
    on_verdict(m, verdict, maybe_applied);
}

/* Of the attempt that is sent next. */
static int64_t attempt_ms(const mr_member *m)
{
    if (mr_commit_status(m->commit)->batch_revision == 0) {
        return ABSENCE_ATTEMPT_MS;
    }
    return mr_commit_stalled_ms(m->commit, m->now_ms) > 0 ? MR_MEMBER_REQUEST_MS : FIRST_ATTEMPT_MS;
}

void mr_member_send_batch(mr_member *m)
{
    struct mr_txn txn;

    if (m->leading && !m->commit_out && mr_commit_send(m->commit, m->now_ms, &txn)) {
        m->commit_out = true;
        m->doubt = m->doubt == DOUBTFUL ? PROVING : m->doubt;
        m->opts.store->ops->txn(m->opts.store, &txn, attempt_ms(m), mr_member_txn_done,
                                mr_member_request(m, MR_MEMBER_COMMIT, m->term));
    }
}

int64_t mr_member_proven_ms(const mr_member *m)
{
    int64_t proven = mr_commit_status(m->commit)->proven_ms;

    return MR_MAX(proven, m->campaign_sent_ms);
}

int64_t mr_member_idle_due_ms(const mr_member *m)
{
    bool flies = m->commit != NULL &&
                 mr_commit_status(m->commit)->newest != mr_commit_status(m->commit)->committed;

    return m->leading && !flies ? mr_member_proven_ms(m) + m->election.ttl_ms / 4 : INT64_MAX;
}
