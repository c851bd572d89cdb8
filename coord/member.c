#include "coord/member.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "coord/bytes.h"
#include "coord/member_event.h"

#include <stdio.h>

#define REQUEST_TIMEOUT_MS 2000
#define FIRST_ATTEMPT_MS                                                                                               \
    1000 /* a member that has just lost its leader sits on a proposal; sent again it goes through */
#define LOAD_TIMEOUT_MS 8000
#define LOAD_PAGE 2000
#define LOAD_RETRY_MS 100
#define BAD_STATE_HOLD_OFF_MS 5000
#define PEERS_MAX 64
#define STATUS_EVERY_MS 30000
#define STATUS_RETRY_MS 5000
#define DOUBT_EVERY_MS 600000
#define WATCHES_KEPT 8

struct mr_member {
    struct mr_member_options opts;
    char root[MR_ROOT_SIZE];
    char instance[MR_INSTANCE_SIZE];
    struct mr_election election;
    struct mr_rng rng;
    struct mr_member_event *requests; /* all that were made and not delivered yet */
    int64_t now_ms;                   /* of the call that is running */
    uint64_t wall_ms;
    uint64_t watch;        /* 0: none */
    uint64_t watch_serial; /* of the youngest one */
    struct mr_member_watch
        watches[WATCHES_KEPT]; /* contexts, reused in turn: a callback of an old one may be running */

    /* the term of our own */
    int64_t epoch;
    mr_commit *commit;
    uint64_t term; /* counts loads: answers to an earlier one are told by it */
    bool leading;
    bool commit_out;
    char incarnation[MR_INSTANCE_SIZE];
    char incarnation_seen[MR_INSTANCE_SIZE]; /* at the last campaign; `newest_revision` counts within it */
    uint64_t made_in;                        /* id of the store that it was made in; 0: not told */
    bool new_incarnation;
    int64_t batch_revision;    /* mod revision of meta/batch, for the next load's commits */
    int64_t answered_revision; /* of the last answer to a batch of this term */
    int64_t campaign_sent_ms;
    mr_error refusal;
    int64_t newest_revision; /* seen of the store; a campaign that is won at an older one shows that it went back */
    uint64_t store_id;
    bool went_back; /* the next term of ours begins a new incarnation */
    enum { CERTAIN, DOUBTFUL, PROVING } doubt;
    int64_t doubt_ms; /* not before: the next doubt */
    bool full;
    bool stray;       /* mr_commit_stray() of this term's earlier loads */
    uint64_t written; /* in earlier loads */
    mr_error trouble;
    bool status_out;
    int64_t status_ms;

    /* the load */
    bool loading;
    bool load_out;
    size_t load_index;
    int64_t load_revision; /* 0: the next page decides */
    char *load_from;       /* first key of the next page */
    int64_t load_due_ms;
};

static void act(mr_member *m, struct mr_election_actions *actions);

/* ---- requests ---- */

static struct mr_member_event *request_new(mr_member *m, enum mr_member_request kind, uint64_t serial)
{
    struct mr_member_event *ev = mr_member_event_new(m->opts.post, m->opts.ctx);

    /* Coordination without memory for a small struct is not possible; a crash hands over, as any crash does. */
    MR_ASSERT(ev != NULL);
    ev->kind = kind;
    ev->serial = serial;
    ev->sent_ms = m->now_ms;
    ev->floor = m->newest_revision;
    ev->next = m->requests;
    if (ev->next != NULL) {
        ev->next->prev = ev;
    }
    m->requests = ev;
    ev->listed = true;
    return ev;
}

static void unlist(mr_member *m, struct mr_member_event *ev)
{
    if (!ev->listed) {
        return;
    }
    if (ev->prev != NULL) {
        ev->prev->next = ev->next;
    } else {
        m->requests = ev->next;
    }
    if (ev->next != NULL) {
        ev->next->prev = ev->prev;
    }
    ev->listed = false;
}

/* "<root><name>" in a buffer that is long enough for every fixed key and for dispatchers/<instance>. */
struct key {
    char s[MR_ROOT_SIZE + 64];
};

static struct mr_bytes key_of(const mr_member *m, struct key *k, const char *a, const char *b)
{
    int n = snprintf(k->s, sizeof k->s, "%s%s%s", m->root, a, b);

    MR_ASSERT(n > 0 && (size_t)n < sizeof k->s);
    return (struct mr_bytes){k->s, (size_t)n};
}

static void send_put(mr_member *m, const struct mr_election_action *a, enum mr_member_request kind, struct mr_bytes key,
                     char *value, const struct mr_compare *compare)
{
    struct mr_op put = {.kind = MR_OP_PUT, .key = key, .value = {value, value != NULL ? strlen(value) : 0}};
    struct mr_txn txn = {.compares = compare, .ncompares = compare != NULL, .success = &put, .nsuccess = 1};

    MR_ASSERT(value != NULL);
    put.lease = a->lease;
    m->opts.store->ops->txn(m->opts.store, &txn, REQUEST_TIMEOUT_MS, mr_member_txn_done,
                            request_new(m, kind, a->serial));
    mr_free(value);
}

static void send_campaign(mr_member *m, const struct mr_election_action *a)
{
    struct key leader, batch, incarnation;
    char *value = mr_leader_record_write(&a->record);
    struct mr_bytes k = key_of(m, &leader, MR_KEY_LEADER, "");
    struct mr_compare absent = {k, MR_COMPARE_CREATE, 0};
    struct mr_bytes life = key_of(m, &incarnation, MR_KEY_INCARNATION, "");
    struct mr_op reads[] = {{.kind = MR_OP_GET, .key = k}, {.kind = MR_OP_GET, .key = life}};
    struct mr_op ops[] = {
        {.kind = MR_OP_PUT, .key = k, .value = {value, value != NULL ? strlen(value) : 0}, .lease = a->lease},
        {.kind = MR_OP_GET, .key = key_of(m, &batch, MR_KEY_BATCH, "")},
        {.kind = MR_OP_GET, .key = life},
    };
    struct mr_txn txn = {
        .compares = &absent, .ncompares = 1, .success = ops, .nsuccess = 3, .failure = reads, .nfailure = 2};
    struct mr_member_event *ev = request_new(m, MR_MEMBER_CAMPAIGN, a->serial);

    MR_ASSERT(value != NULL);
    ev->record = a->record;
    ev->lease = a->lease;
    m->opts.store->ops->txn(m->opts.store, &txn, REQUEST_TIMEOUT_MS, mr_member_txn_done, ev);
    mr_free(value);
}

static void send_delete(mr_member *m, const struct mr_election_action *a)
{
    struct key leader;
    struct mr_bytes k = key_of(m, &leader, MR_KEY_LEADER, "");
    struct mr_compare same = {k, MR_COMPARE_CREATE, a->epoch};
    struct mr_op op = {.kind = MR_OP_DELETE, .key = k};
    struct mr_txn txn = {.compares = &same, .ncompares = 1, .success = &op, .nsuccess = 1};

    m->opts.store->ops->txn(m->opts.store, &txn, REQUEST_TIMEOUT_MS / 2, mr_member_txn_done,
                            request_new(m, MR_MEMBER_DELETE, a->serial));
}

static void send_list(mr_member *m, const struct mr_election_action *a)
{
    struct key from, end;

    m->opts.store->ops->range(m->opts.store, key_of(m, &from, MR_KEY_DISPATCHERS, ""),
                              key_of(m, &end, "dispatchers0", ""), 0, PEERS_MAX, false, REQUEST_TIMEOUT_MS,
                              mr_member_range_done, request_new(m, MR_MEMBER_LIST, a->serial));
}

static void start_watch(mr_member *m, int64_t revision)
{
    struct key leader;
    struct mr_member_watch *w = &m->watches[++m->watch_serial % WATCHES_KEPT];

    if (m->watch != 0) {
        m->opts.store->ops->watch_cancel(m->opts.store, m->watch);
    }
    *w = (struct mr_member_watch){.post = m->opts.post, .ctx = m->opts.ctx, .serial = m->watch_serial};
    m->watch =
        m->opts.store->ops->watch(m->opts.store, key_of(m, &leader, MR_KEY_LEADER, ""), revision, mr_member_watched, w);
}

/* ---- terms and loading ---- */

static void forget_load(mr_member *m)
{
    m->loading = false;
    mr_free(m->load_from);
    m->load_from = NULL;
    m->term++; /* The page that may be on its way is another term's. */
    m->load_out = false;
    m->commit_out = false;
}

static void drop_commit(mr_member *m)
{
    m->written += m->commit != NULL ? mr_commit_written(m->commit) : 0;
    mr_commit_free(m->commit);
    m->commit = NULL;
}

static void start_load(mr_member *m)
{
    forget_load(m);
    m->loading = true;
    m->leading = false;
    m->load_index = 0;
    m->load_revision = 0;
    m->load_due_ms = 0;
    drop_commit(m);
    m->commit = mr_commit_new(m->root, m->epoch, m->batch_revision, mr_rng_next(&m->rng));
    MR_ASSERT(m->commit != NULL);
    if (m->stray) {
        mr_commit_set_stray(m->commit);
    }
    m->opts.ops->load_begin(m->opts.ctx, m->epoch, m->incarnation);
}

static void begin_term(mr_member *m, int64_t epoch)
{
    m->stray = false;
    m->epoch = epoch;
    m->answered_revision = epoch;
    mr_log(MR_LOG_INFO, "won the election", "epoch", "%lld", (long long)epoch, NULL);
    start_load(m);
}

static void end_term(mr_member *m)
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

static void election_event(mr_member *m, struct mr_election_event *in)
{
    struct mr_election_actions actions = {.n = 0};

    in->now_ms = m->now_ms;
    in->wall_ms = m->wall_ms;
    mr_election_step(&m->election, in, &actions);
    act(m, &actions);
}

static void bad_state(mr_member *m, const mr_error *why)
{
    struct mr_election_event in = {.kind = MR_ELECTION_STEP_DOWN, .hold_off_ms = BAD_STATE_HOLD_OFF_MS};

    mr_log(MR_LOG_ERROR, "the state in etcd cannot be used, stepping down", "error", "%s", why->message, NULL);
    election_event(m, &in);
}

/* The load read everything: lead. */
static void finish_load(mr_member *m)
{
    mr_error err;

    m->loading = false;
    if (m->new_incarnation) {
        char *value = mr_incarnation_record_write(m->incarnation, m->store_id);
        struct mr_write w = {MR_KEY_INCARNATION, value, value != NULL ? strlen(value) : 0};
        uint64_t batch;

        if (value == NULL || mr_commit_add(m->commit, &w, 1, false, &batch, &err) < 0) {
            (void)mr_error_nomem(&err);
            mr_free(value);
            bad_state(m, &err);
            return;
        }
        mr_free(value);
    }
    m->leading = true;
    m->status_ms = m->now_ms;
    if (m->opts.ops->load_end(m->opts.ctx, &err) < 0) {
        m->leading = false;
        bad_state(m, &err);
    }
}

static void load_page(mr_member *m)
{
    const struct mr_member_prefix *p = &m->opts.prefixes[m->load_index];
    struct key start, stop;
    struct mr_bytes from = key_of(m, &start, p->key, "");
    struct mr_bytes end = {NULL, 0};
    struct mr_member_event *ev;

    if (from.size > 0 && start.s[from.size - 1] == '/') {
        end = key_of(m, &stop, p->key, "");
        stop.s[end.size - 1] = '/' + 1; /* All keys that begin with the prefix. */
    }
    if (m->load_from != NULL) {
        from = mr_bytes_str(m->load_from);
    }
    ev = request_new(m, MR_MEMBER_LOAD, m->term);
    m->load_out = true;
    m->opts.store->ops->range(m->opts.store, from, end, m->load_revision, LOAD_PAGE, p->keys_only, LOAD_TIMEOUT_MS,
                              mr_member_range_done, ev);
}

/* Hand over one page. The rest of it is dropped if the term ends meanwhile. */
static int take_page(mr_member *m, const struct mr_member_event *ev, mr_error *err)
{
    size_t skip = strlen(m->root);

    for (size_t i = 0; i < ev->count; i++) {
        const struct mr_kv *kv = &ev->kvs[i];
        int rc;

        if (kv->key.size <= skip || memchr(kv->key.data, '\0', kv->key.size) != NULL) {
            return mr_error_set(err, MR_EDATALOSS, "key %zu of a page below '%s' is odd", i, m->root);
        }
        rc = m->opts.ops->load_key(m->opts.ctx, (const char *)kv->key.data + skip, kv->value.data, kv->value.size, err);
        if (rc < 0) {
            return rc;
        }
    }
    return MR_OK;
}

/*
 * Reads may be stale. One below the epoch may lack what the last leader committed; one below our own last batch, when
 * the state is loaded again within a term, what we did.
 */
static int64_t load_floor(const mr_member *m)
{
    return m->epoch > m->answered_revision ? m->epoch : m->answered_revision;
}

static void on_page(mr_member *m, const struct mr_member_event *ev)
{
    mr_error err;

    if (ev->serial != m->term || !m->loading) {
        return;
    }
    m->load_out = false;
    if (ev->rc == MR_ERANGE && m->load_revision != 0) {
        mr_log(MR_LOG_WARN, "etcd was compacted during the load, loading again", "rev", "%lld",
               (long long)m->load_revision, NULL);
        start_load(m);
        return;
    }
    if (ev->rc < 0 || (m->load_revision == 0 && ev->revision < load_floor(m))) {
        m->load_due_ms = m->now_ms + LOAD_RETRY_MS;
        return;
    }
    m->load_revision = m->load_revision == 0 ? ev->revision : m->load_revision;
    if (take_page(m, ev, &err) < 0) {
        bad_state(m, &err);
        return;
    }
    mr_free(m->load_from);
    m->load_from = NULL;
    if (ev->more && ev->count > 0) {
        const struct mr_kv *last = &ev->kvs[ev->count - 1];

        /* The least key above the last one is that key with a smallest byte more; \x01, because keys are C strings
         * here. */
        m->load_from = mr_asprintf("%.*s\x01", (int)last->key.size, (const char *)last->key.data);
        MR_ASSERT(m->load_from != NULL);
    } else if (++m->load_index == m->opts.nprefixes) {
        finish_load(m);
    }
}

/* ---- commits ---- */

/* A batch that was sent after somebody spoke of a later epoch has committed: that epoch was of another past. */
static void resolve_doubt(mr_member *m)
{
    struct mr_election_event in = {.kind = MR_ELECTION_STEP_DOWN};

    if (m->doubt != PROVING) {
        return;
    }
    m->doubt = CERTAIN;
    m->went_back = true;
    mr_log(MR_LOG_ERROR,
           "callers know a later epoch than the one that holds: etcd went back, beginning a new incarnation", "epoch",
           "%lld", (long long)m->epoch, NULL);
    election_event(m, &in);
}

static void on_verdict(mr_member *m, enum mr_verdict verdict, bool maybe_applied)
{
    struct mr_election_event fenced = {.kind = MR_ELECTION_FENCED};
    uint64_t committed = mr_commit_committed(m->commit);

    switch (verdict) {
    case MR_VERDICT_COMMITTED:
        m->new_incarnation = false;
        m->opts.ops->committed(m->opts.ctx, committed);
        resolve_doubt(m);
        break;
    case MR_VERDICT_COMMITTED_DEPOSED:
        m->opts.ops->committed(m->opts.ctx, committed);
        election_event(m, &fenced);
        break;
    case MR_VERDICT_AGAIN:
        break;
    case MR_VERDICT_DEPOSED:
        mr_log(MR_LOG_WARN, "a fenced transaction failed, stepping down", "error", "%s", m->refusal.message, "unknown",
               "%d", maybe_applied, NULL);
        election_event(m, &fenced);
        break;
    case MR_VERDICT_REFUSED:
        mr_log(MR_LOG_ERROR, "etcd refuses a batch, loading the state again", "error", "%s", m->refusal.message, NULL);
        m->opts.ops->refused(m->opts.ctx, committed + 1, &m->refusal);
        m->batch_revision = mr_commit_batch_revision(m->commit);
        m->stray = mr_commit_stray(m->commit);
        start_load(m);
        break;
    }
}

static void note_room(mr_member *m)
{
    bool full = mr_commit_full(m->commit);

    if (full != m->full) {
        m->full = full;
        mr_log(full ? MR_LOG_ERROR : MR_LOG_INFO,
               full ? "etcd is full (alarm NOSPACE): nothing is handed out until somebody compacts it, defragments its "
                      "members and disarms the alarm"
                    : "etcd has room again",
               NULL);
    }
}

static void on_committed(mr_member *m, const struct mr_member_event *ev)
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
    verdict = mr_commit_answer(m->commit, m->now_ms, ev->rc, &r, &ev->err, &maybe_applied, &m->refusal);
    note_room(m);
    on_verdict(m, verdict, maybe_applied);
}

static void send_batch(mr_member *m)
{
    struct mr_txn txn;

    if (m->leading && !m->commit_out && mr_commit_send(m->commit, m->now_ms, &txn)) {
        m->commit_out = true;
        m->doubt = m->doubt == DOUBTFUL ? PROVING : m->doubt;
        m->opts.store->ops->txn(m->opts.store, &txn,
                                mr_commit_stalled_ms(m->commit, m->now_ms) > 0 ? REQUEST_TIMEOUT_MS : FIRST_ATTEMPT_MS,
                                mr_member_txn_done, request_new(m, MR_MEMBER_COMMIT, m->term));
    }
}

static int64_t proven_ms(const mr_member *m)
{
    int64_t proven = mr_commit_proven_ms(m->commit);

    return proven > m->campaign_sent_ms ? proven : m->campaign_sent_ms;
}

/* An idle leader proves itself anew; 0: at once. INT64_MAX: something is on its way that will. */
static int64_t idle_due_ms(const mr_member *m)
{
    if (!m->leading || mr_commit_newest(m->commit) != mr_commit_committed(m->commit)) {
        return INT64_MAX;
    }
    return proven_ms(m) + m->election.ttl_ms / 4;
}

/* ---- what the election wants ---- */

static void act_one(mr_member *m, const struct mr_election_action *a)
{
    mr_store *s = m->opts.store;
    const struct mr_store_ops *ops = s->ops;
    struct key k;

    switch (a->kind) {
    case MR_ELECTION_GRANT:
        ops->lease_grant(s, (m->opts.ttl_ms + 999) / 1000, REQUEST_TIMEOUT_MS, mr_member_lease_done,
                         request_new(m, MR_MEMBER_GRANT, a->serial));
        break;
    case MR_ELECTION_RENEW:
        ops->lease_renew(s, a->lease, REQUEST_TIMEOUT_MS, mr_member_lease_done,
                         request_new(m, MR_MEMBER_RENEW, a->serial));
        break;
    case MR_ELECTION_REVOKE:
        ops->lease_revoke(s, a->lease, REQUEST_TIMEOUT_MS / 2, mr_member_lease_done,
                          request_new(m, MR_MEMBER_REVOKE, a->serial));
        break;
    case MR_ELECTION_READ_TTL:
        ops->lease_ttl(s, a->lease, REQUEST_TIMEOUT_MS / 2, mr_member_lease_done,
                       request_new(m, MR_MEMBER_TTL, a->serial));
        break;
    case MR_ELECTION_REGISTER:
        send_put(m, a, MR_MEMBER_REGISTER, key_of(m, &k, MR_KEY_DISPATCHERS, m->instance),
                 mr_dispatcher_record_write(&a->dispatcher), NULL);
        break;
    case MR_ELECTION_CAMPAIGN:
        send_campaign(m, a);
        break;
    case MR_ELECTION_NAME: {
        struct mr_compare same = {key_of(m, &k, MR_KEY_LEADER, ""), MR_COMPARE_CREATE, a->epoch};

        send_put(m, a, MR_MEMBER_NAME, same.key, mr_leader_record_write(&a->record), &same);
        break;
    }
    case MR_ELECTION_DELETE:
        send_delete(m, a);
        break;
    case MR_ELECTION_LIST:
        send_list(m, a);
        break;
    case MR_ELECTION_WATCH:
        start_watch(m, a->revision);
        break;
    case MR_ELECTION_PROBE:
        m->opts.ops->probe(m->opts.ctx, a->record.address, a->epoch);
        break;
    case MR_ELECTION_LEADER:
        m->opts.ops->leader(m->opts.ctx, mr_election_leader(&m->election));
        break;
    case MR_ELECTION_ELECTED:
        begin_term(m, a->epoch);
        break;
    case MR_ELECTION_DEPOSED:
        end_term(m);
        break;
    case MR_ELECTION_STOPPED:
        m->opts.ops->stopped(m->opts.ctx);
        break;
    }
}

static void act(mr_member *m, struct mr_election_actions *actions)
{
    for (size_t i = 0; i < actions->n; i++) {
        act_one(m, &actions->list[i]);
    }
}

/* ---- what the store said ---- */

static struct mr_leader_view view_of(const struct mr_kv *kv)
{
    struct mr_leader_view v = {.known = kv->key.size > 0, .epoch = kv->create_revision, .lease = kv->lease};
    mr_error err;

    /* A leader key that cannot be read still is one; nobody can be sent to it, and its fence holds all the same. */
    if (v.known && mr_leader_record_parse(kv->value, &v.record, &err) < 0) {
        mr_log(MR_LOG_WARN, "the leader key cannot be read", "error", "%s", err.message, NULL);
    }
    return v;
}

/*
 * Which life of the store is this? Another one than was seen before may have any revision: somebody else has dealt with
 * it. In the one that is known a campaign writes a revision of its own, above all that were seen when it was sent; if
 * it does not, the store went back to an older state.
 */
static bool learn_incarnation(mr_member *m, const struct mr_member_event *ev)
{
    const struct mr_kv *record = &ev->kvs[1];
    bool known =
        record->key.size > 0 && mr_incarnation_record_parse(record->value, m->incarnation, &m->made_in, NULL) >= 0;
    bool same = known && strcmp(m->incarnation, m->incarnation_seen) == 0;

    if (known && !same) {
        memcpy(m->incarnation_seen, m->incarnation, sizeof m->incarnation_seen);
        m->newest_revision = ev->revision;
    }
    m->went_back = (m->went_back && (same || !known)) || (same && ev->succeeded && ev->revision <= ev->floor);
    return known;
}

/*
 * A new incarnation begins if none is recorded, if the record was made in another cluster of etcd (this one was built
 * from a snapshot), or if the store went back: what was promised since is forgotten, and epochs come again.
 */
static void begin_incarnation(mr_member *m, const struct mr_member_event *ev, bool known)
{
    bool moved = known && m->made_in != 0 && m->made_in != ev->store_id;

    m->new_incarnation = !known || moved || m->went_back;
    m->store_id = ev->store_id;
    m->doubt = CERTAIN;
    if (!m->new_incarnation) {
        return;
    }
    if (known || ev->floor > ev->revision) {
        mr_log(MR_LOG_ERROR, "etcd was restored or made anew, beginning a new incarnation of the cluster", "rev",
               "%lld", (long long)ev->revision, "seen", "%lld", (long long)ev->floor, NULL);
    }
    m->went_back = false;
    m->newest_revision = ev->revision;
    (void)snprintf(m->incarnation, sizeof m->incarnation, "%016llx%016llx", (unsigned long long)mr_rng_next(&m->rng),
                   (unsigned long long)mr_rng_next(&m->rng));
    memcpy(m->incarnation_seen, m->incarnation, sizeof m->incarnation_seen);
}

static void on_campaign(mr_member *m, const struct mr_member_event *ev)
{
    struct mr_election_event in = {.kind = MR_ELECTION_CAMPAIGNED,
                                   .rc = ev->rc,
                                   .serial = ev->serial,
                                   .succeeded = ev->succeeded,
                                   .revision = ev->revision};

    if (ev->rc >= 0 && ev->succeeded) {
        MR_ASSERT(ev->count == 2);
        in.leader =
            (struct mr_leader_view){.known = true, .epoch = ev->revision, .lease = ev->lease, .record = ev->record};
        m->batch_revision = ev->kvs[0].mod_revision;
        m->campaign_sent_ms = ev->sent_ms;
        begin_incarnation(m, ev, learn_incarnation(m, ev));
    } else if (ev->rc >= 0) {
        MR_ASSERT(ev->count == 2);
        in.leader = view_of(&ev->kvs[0]);
        (void)learn_incarnation(m, ev);
    }
    election_event(m, &in);
}

static void on_list(mr_member *m, const struct mr_member_event *ev)
{
    struct mr_dispatcher_record *peers = mr_calloc(PEERS_MAX, sizeof *peers);
    struct mr_election_event in = {.kind = MR_ELECTION_LISTED, .rc = ev->rc, .dispatchers = peers};

    MR_ASSERT(peers != NULL);
    for (size_t i = 0; i < ev->count && i < PEERS_MAX; i++) {
        if (mr_dispatcher_record_parse(ev->kvs[i].value, &peers[in.ndispatchers], NULL) >= 0) {
            in.ndispatchers++;
        }
    }
    if (ev->rc >= 0 && m->leading) {
        m->opts.ops->peers(m->opts.ctx, peers, in.ndispatchers);
    }
    election_event(m, &in);
    mr_free(peers);
}

static void on_watched(mr_member *m, const struct mr_member_event *ev)
{
    struct mr_election_event in = {
        .kind = ev->rc < 0 ? MR_ELECTION_WATCH_LOST : MR_ELECTION_SEEN, .rc = ev->rc, .revision = ev->revision};

    if (ev->serial != m->watch_serial) {
        return; /* That watch was replaced: what it said is old. */
    }
    if (ev->rc < 0) {
        m->watch = 0;
    } else if (!ev->deleted) {
        in.leader = view_of(&ev->kvs[0]);
    }
    election_event(m, &in);
}

/* Answers that only carry a result, a lease and a time. */
static void on_plain(mr_member *m, const struct mr_member_event *ev, enum mr_election_event_kind kind)
{
    struct mr_election_event in = {.kind = kind,
                                   .rc = ev->rc,
                                   .serial = ev->serial,
                                   .succeeded = ev->succeeded,
                                   .lease = ev->lease,
                                   .ttl_s = ev->ttl_s};

    election_event(m, &in);
}

static void on_status(mr_member *m, const struct mr_member_event *ev)
{
    m->status_out = false;
    m->status_ms = m->now_ms + (ev->rc >= 0 || ev->rc == MR_EPERM ? STATUS_EVERY_MS : STATUS_RETRY_MS);
    if (ev->rc >= 0 && m->leading) {
        m->opts.ops->store(m->opts.ctx, &ev->status);
    }
}

static void dispatch(mr_member *m, const struct mr_member_event *ev)
{
    switch (ev->kind) {
    case MR_MEMBER_GRANT:
        on_plain(m, ev, MR_ELECTION_GRANTED);
        break;
    case MR_MEMBER_RENEW:
        on_plain(m, ev, MR_ELECTION_RENEWED);
        break;
    case MR_MEMBER_REVOKE:
        on_plain(m, ev, MR_ELECTION_REVOKED);
        break;
    case MR_MEMBER_TTL:
        on_plain(m, ev, MR_ELECTION_TTL);
        break;
    case MR_MEMBER_REGISTER:
        on_plain(m, ev, MR_ELECTION_REGISTERED);
        break;
    case MR_MEMBER_NAME:
        on_plain(m, ev, MR_ELECTION_NAMED);
        break;
    case MR_MEMBER_DELETE:
        on_plain(m, ev, MR_ELECTION_DELETED);
        break;
    case MR_MEMBER_CAMPAIGN:
        on_campaign(m, ev);
        break;
    case MR_MEMBER_LIST:
        on_list(m, ev);
        break;
    case MR_MEMBER_WATCHED:
        on_watched(m, ev);
        break;
    case MR_MEMBER_LOAD:
        on_page(m, ev);
        break;
    case MR_MEMBER_COMMIT:
        on_committed(m, ev);
        break;
    case MR_MEMBER_STATUS:
        on_status(m, ev);
        break;
    }
}

/* ---- the owner's side ---- */

static void set_now(mr_member *m, int64_t now_ms, uint64_t wall_ms)
{
    m->now_ms = now_ms;
    m->wall_ms = wall_ms;
}

/* For whoever has to say why nothing works. */
static void note_trouble(mr_member *m, const struct mr_member_event *ev)
{
    bool work = ev->kind == MR_MEMBER_REGISTER || ev->kind == MR_MEMBER_CAMPAIGN || ev->kind == MR_MEMBER_LOAD ||
                ev->kind == MR_MEMBER_COMMIT; /* A lease may be had and renewed by anybody. */

    if (ev->rc >= 0 && work) {
        mr_error_clear(&m->trouble);
    } else if (ev->rc < 0 && ev->rc != MR_ENOTFOUND && ev->kind != MR_MEMBER_STATUS) {
        m->trouble = ev->err;
    }
}

void mr_member_deliver(mr_member *m, struct mr_member_event *event, int64_t now_ms, uint64_t wall_ms)
{
    set_now(m, now_ms, wall_ms);
    unlist(m, event);
    note_trouble(m, event);
    dispatch(m, event);
    if (event->rc >= 0 && event->revision > m->newest_revision) {
        m->newest_revision = event->revision;
    }
    mr_member_event_free(event);
}

void mr_member_discard(mr_member *m, struct mr_member_event *event)
{
    unlist(m, event);
    mr_member_event_free(event);
}

void mr_member_tick(mr_member *m, int64_t now_ms, uint64_t wall_ms)
{
    struct mr_election_event tick = {.kind = MR_ELECTION_TICK};
    uint64_t batch;

    set_now(m, now_ms, wall_ms);
    election_event(m, &tick);
    if (m->loading && !m->load_out && now_ms >= m->load_due_ms) {
        if (m->opts.nprefixes == 0) {
            finish_load(m);
        } else {
            load_page(m);
        }
    }
    if (now_ms >= idle_due_ms(m)) {
        (void)mr_commit_fence(m->commit, &batch, NULL); /* Without memory the right to answer just ends. */
    }
    send_batch(m);
    if (m->leading && !m->status_out && now_ms >= m->status_ms) {
        m->status_out = true;
        m->opts.store->ops->status(m->opts.store, REQUEST_TIMEOUT_MS, mr_member_status_done,
                                   request_new(m, MR_MEMBER_STATUS, m->term));
    }
}

int64_t mr_member_due(const mr_member *m)
{
    int64_t due = mr_election_due(&m->election);
    int64_t other = idle_due_ms(m);

    if (m->leading && !m->commit_out && mr_commit_due(m->commit) < other) {
        other = mr_commit_due(m->commit);
    }
    if (m->loading && !m->load_out) {
        other = m->load_due_ms;
    }
    if (m->leading && !m->status_out && m->status_ms < other) {
        other = m->status_ms;
    }
    return other < due ? other : due;
}

bool mr_member_leads(const mr_member *m)
{
    return m->leading;
}

int64_t mr_member_epoch(const mr_member *m)
{
    return m->epoch;
}

const struct mr_leader_view *mr_member_leader(const mr_member *m)
{
    return mr_election_leader(&m->election);
}

bool mr_member_leader_gone(const mr_member *m)
{
    return mr_election_leader_gone(&m->election);
}

bool mr_member_may_answer(const mr_member *m, int64_t now_ms)
{
    return m->leading && now_ms < proven_ms(m) + m->election.ttl_ms / 2;
}

int64_t mr_member_stalled_ms(const mr_member *m, int64_t now_ms)
{
    return m->leading ? mr_commit_stalled_ms(m->commit, now_ms) : 0;
}

bool mr_member_full(const mr_member *m)
{
    return m->full;
}

uint64_t mr_member_written(const mr_member *m)
{
    return m->written + (m->commit != NULL ? mr_commit_written(m->commit) : 0);
}

const char *mr_member_trouble(const mr_member *m)
{
    return m->trouble.message;
}

void mr_member_later_epoch(mr_member *m, int64_t now_ms)
{
    if (m->leading && m->doubt == CERTAIN && now_ms >= m->doubt_ms) {
        m->doubt = DOUBTFUL;
        m->doubt_ms = now_ms + DOUBT_EVERY_MS;
        (void)mr_commit_fence(m->commit, &(uint64_t){0}, NULL); /* Without memory an idle one will do. */
    }
}

static int not_leading(mr_error *err)
{
    return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE | MR_FENCED, "not the leader");
}

int mr_member_add(mr_member *m, const struct mr_write *writes, size_t n, bool alone, uint64_t *batch, mr_error *err)
{
    return m->leading ? mr_commit_add(m->commit, writes, n, alone, batch, err) : not_leading(err);
}

int mr_member_fence(mr_member *m, uint64_t *batch, mr_error *err)
{
    return m->leading ? mr_commit_fence(m->commit, batch, err) : not_leading(err);
}

uint64_t mr_member_newest(const mr_member *m)
{
    return m->commit != NULL ? mr_commit_newest(m->commit) : 0;
}

uint64_t mr_member_committed(const mr_member *m)
{
    return m->commit != NULL ? mr_commit_committed(m->commit) : 0;
}

void mr_member_peer(mr_member *m, int64_t epoch, enum mr_peer_state state, int64_t now_ms, uint64_t wall_ms)
{
    static const enum mr_election_event_kind kinds[] = {[MR_PEER_ALIVE] = MR_ELECTION_PEER_BACK,
                                                        [MR_PEER_LOST] = MR_ELECTION_PEER_LOST,
                                                        [MR_PEER_AWAY] = MR_ELECTION_PEER_AWAY};
    struct mr_election_event in = {.kind = kinds[state], .epoch = epoch};

    set_now(m, now_ms, wall_ms);
    election_event(m, &in);
}

void mr_member_probed(mr_member *m, int64_t epoch, bool refused, int64_t now_ms, uint64_t wall_ms)
{
    struct mr_election_event in = {.kind = MR_ELECTION_PROBED, .epoch = epoch, .refused = refused};

    set_now(m, now_ms, wall_ms);
    election_event(m, &in);
}

void mr_member_step_down(mr_member *m, int64_t hold_off_ms, int64_t now_ms, uint64_t wall_ms)
{
    struct mr_election_event in = {.kind = MR_ELECTION_STEP_DOWN, .hold_off_ms = hold_off_ms};

    set_now(m, now_ms, wall_ms);
    election_event(m, &in);
}

void mr_member_stop(mr_member *m, int64_t now_ms, uint64_t wall_ms)
{
    struct mr_election_event in = {.kind = MR_ELECTION_STOP};

    set_now(m, now_ms, wall_ms);
    election_event(m, &in);
}

int mr_member_new(const struct mr_member_options *opts, mr_member **ret, mr_error *err)
{
    struct mr_election_config config = {.ttl_ms = opts->ttl_ms, .started_ms = opts->started_ms, .seed = opts->seed};
    mr_member *m;

    if (strlen(opts->instance) >= sizeof config.instance || strlen(opts->address) >= sizeof config.address) {
        return mr_error_set(err, MR_EINVAL, "instance or address is too long");
    }
    m = mr_calloc(1, sizeof *m);
    if (m == NULL) {
        return mr_error_nomem(err);
    }
    int rc = mr_root_of(opts->cluster, m->root, err);

    if (rc < 0) {
        mr_free(m);
        return rc;
    }
    (void)snprintf(config.instance, sizeof config.instance, "%s", opts->instance);
    (void)snprintf(config.address, sizeof config.address, "%s", opts->address);
    (void)snprintf(config.version, sizeof config.version, "%s", opts->version);
    (void)snprintf(config.socket, sizeof config.socket, "%s", opts->socket != NULL ? opts->socket : "");
    m->opts = *opts;
    (void)snprintf(m->instance, sizeof m->instance, "%s", opts->instance);
    mr_rng_seed(&m->rng, mr_mix64(opts->seed));
    mr_election_init(&m->election, &config);
    *ret = m;
    return MR_OK;
}

void mr_member_free(mr_member *m)
{
    if (m == NULL) {
        return;
    }
    while (m->requests != NULL) {
        mr_member_discard(m, m->requests); /* The store was closed: their answers never come. */
    }
    mr_commit_free(m->commit);
    mr_free(m->load_from);
    mr_free(m);
}
