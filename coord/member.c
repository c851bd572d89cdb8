#include "coord/member_internal.h"

#include "base/siphash.h"

#define STATUS_EVERY_MS 30000
#define STATUS_RETRY_MS 5000

static void election(mr_member *m, struct mr_election_event *in)
{
    struct mr_election_actions actions = {.n = 0};

    in->now_ms = m->now_ms;
    in->wall_ms = m->wall_ms;
    mr_election_step(&m->election, in, &actions);
    mr_member_act(m, &actions);
}

/* What came of the term: it is over. */
static void tell_election(mr_member *m)
{
    while (m->says) {
        struct mr_election_event in = m->said;

        m->says = false;
        election(m, &in);
    }
}

/* ---- what the store said ---- */

/* MR_EEXHAUSTED: there is no memory to read it with. */
static int view_of(const struct mr_kv *kv, struct mr_leader_view *ret)
{
    struct mr_leader_view v = {
        .known = kv->key.size > 0, .epoch = kv->create_revision, .lease = kv->lease};
    mr_error err;
    int rc = v.known ? mr_leader_record_parse(kv->value, &v.record, &err) : MR_OK;

    if (rc == MR_EEXHAUSTED) {
        return rc;
    }
    /* A leader key that cannot be read still is one; nobody can be sent to it, and its fence holds
     * all the same. */
    if (rc < 0) {
        mr_log(MR_LOG_WARN, "the leader key cannot be read", "error", "%s", err.message, NULL);
    }
    *ret = v;
    return MR_OK;
}

/* Which life of the store is this? Another one than was seen before may have any revision: somebody
 * else has dealt with it. In the one that is known a campaign writes a revision of its own, above
 * all that were seen when it was sent; if it does not, the store went back to an older state. */
static int learn_incarnation(mr_member *m, const struct mr_member_event *ev, bool *ret)
{
    const struct mr_kv *record = &ev->kvs[1];
    mr_error bad = {.code = MR_OK};
    bool there = record->key.size > 0;
    int rc = there ? mr_incarnation_record_parse(record->value, &m->incarnation, &bad) : MR_OK;

    if (rc == MR_EEXHAUSTED) {
        return rc;
    }
    m->incarnation_bad = bad;
    bool known = there && rc >= 0;
    bool same = known && strcmp(m->incarnation.id, m->incarnation_seen) == 0;

    if (known && !same) {
        memcpy(m->incarnation_seen, m->incarnation.id, sizeof m->incarnation_seen);
        m->newest_revision = ev->revision;
    }
    m->went_back =
        (m->went_back && (same || !known)) || (same && ev->succeeded && ev->revision <= ev->floor);
    *ret = known;
    return MR_OK;
}

/* A new incarnation begins if none is recorded, if the record was made in another cluster of etcd
 * (this one was built from a snapshot), or if the store went back: what was promised since is
 * forgotten, and epochs come again. */
static void begin_incarnation(mr_member *m, const struct mr_member_event *ev, bool known)
{
    bool moved = known && m->incarnation.store_id != 0 && m->incarnation.store_id != ev->store_id;
    bool begins = (!known && m->incarnation_bad.code == MR_OK) || moved || m->went_back;

    m->incarnation_unwritten =
        begins || (known && m->incarnation.secret[0] == '\0'); /* an older version's */
    m->doubt = CERTAIN;
    if (m->incarnation_unwritten) {
        m->incarnation.store_id = ev->store_id;
        memcpy(m->incarnation.secret, m->secret, sizeof m->incarnation.secret);
    }
    if (!begins) {
        return;
    }
    m->incarnation_bad.code = MR_OK;
    if (known || ev->floor > ev->revision) {
        mr_log(MR_LOG_ERROR,
               "etcd was restored or made anew, beginning a new incarnation of the cluster", "rev",
               "%lld", (long long)ev->revision, "seen", "%lld", (long long)ev->floor, NULL);
    }
    m->went_back = false;
    m->newest_revision = ev->revision;
    (void)snprintf(m->incarnation.id, sizeof m->incarnation.id, "%016llx%016llx",
                   (unsigned long long)mr_rng_next(&m->rng),
                   (unsigned long long)mr_rng_next(&m->rng));
    memcpy(m->incarnation_seen, m->incarnation.id, sizeof m->incarnation_seen);
}

static void on_campaign(mr_member *m, const struct mr_member_event *ev)
{
    struct mr_election_event in = {.kind = MR_ELECTION_CAMPAIGNED,
                                   .rc = ev->rc,
                                   .serial = ev->serial,
                                   .succeeded = ev->succeeded,
                                   .revision = ev->revision};
    bool known = false;

    /* What cannot be read for want of memory is an answer that was lost. */
    if (in.rc >= 0) {
        MR_ASSERT(ev->count == 2);
        in.rc = learn_incarnation(m, ev, &known);
    }
    if (in.rc >= 0 && ev->succeeded) {
        in.leader = (struct mr_leader_view){
            .known = true, .epoch = ev->revision, .lease = ev->lease, .record = ev->record};
        m->batch_revision = ev->kvs[0].mod_revision;
        m->campaign_sent_ms = ev->sent_ms;
        begin_incarnation(m, ev, known);
    } else if (in.rc >= 0) {
        in.rc = view_of(&ev->kvs[0], &in.leader);
    }
    election(m, &in);
}

static void on_list(mr_member *m, const struct mr_member_event *ev)
{
    struct mr_dispatcher_record *peers = mr_calloc(MR_MEMBER_PEERS_MAX, sizeof *peers);
    bool follows[MR_MEMBER_PEERS_MAX] = {false};
    struct mr_election_event in = {
        .kind = MR_ELECTION_LISTED, .rc = ev->rc, .dispatchers = peers, .follows = follows};

    if (peers == NULL) {
        in.rc = mr_error_nomem(NULL);
    }
    for (size_t i = 0; in.rc >= 0 && i < ev->count && i < MR_MEMBER_PEERS_MAX; i++) {
        struct mr_dispatcher_record *peer = &peers[in.ndispatchers];

        if (mr_dispatcher_record_parse(ev->kvs[i].value, peer, NULL) >= 0) {
            follows[in.ndispatchers++] =
                m->leading && m->opts.ops->follows(m->opts.ctx, peer->instance);
        }
    }
    if (in.rc >= 0 && m->leading) {
        m->opts.ops->peers(m->opts.ctx, peers, in.ndispatchers);
    }
    election(m, &in);
    mr_free(peers);
}

static void on_watched(mr_member *m, const struct mr_member_event *ev)
{
    struct mr_election_event in = {
        .kind = MR_ELECTION_SEEN, .rc = ev->rc, .revision = ev->revision};

    if (ev->serial != m->watch_serial) {
        return; /* That watch was replaced: what it said is old. */
    }
    if (ev->rc == MR_ERANGE) {
        mr_log(MR_LOG_INFO,
               "etcd was compacted beyond what was seen of the leader key, reading it again",
               "error", "%s", ev->err.message, NULL);
    }
    if (ev->rc >= 0 && !ev->deleted) {
        in.rc = view_of(&ev->kvs[0], &in.leader);
    }
    if (in.rc < 0) {
        in.kind = MR_ELECTION_WATCH_LOST;
        /* It may be there still, if only its news could not be kept. */
        m->opts.store->ops->watch_cancel(m->opts.store, m->watch);
        m->watch = 0;
    }
    election(m, &in);
}

/* Answers that only carry a result, a lease and a time. */
static void on_plain(mr_member *m, const struct mr_member_event *ev)
{
    static const enum mr_election_event_kind kinds[] = {
        [MR_MEMBER_GRANT] = MR_ELECTION_GRANTED,       [MR_MEMBER_RENEW] = MR_ELECTION_RENEWED,
        [MR_MEMBER_REVOKE] = MR_ELECTION_REVOKED,      [MR_MEMBER_TTL] = MR_ELECTION_TTL,
        [MR_MEMBER_REGISTER] = MR_ELECTION_REGISTERED, [MR_MEMBER_NAME] = MR_ELECTION_NAMED,
        [MR_MEMBER_DELETE] = MR_ELECTION_DELETED};
    struct mr_election_event in = {.kind = kinds[ev->kind],
                                   .rc = ev->rc,
                                   .serial = ev->serial,
                                   .succeeded = ev->succeeded,
                                   .lease = ev->lease,
                                   .ttl_s = ev->ttl_s};

    election(m, &in);
}

static void on_status(mr_member *m, const struct mr_member_event *ev)
{
    m->status_out = false;
    m->status_ms =
        m->now_ms + (ev->rc >= 0 || ev->rc == MR_EPERM ? STATUS_EVERY_MS : STATUS_RETRY_MS);
    if (ev->rc >= 0 && m->leading) {
        m->opts.ops->store(m->opts.ctx, &ev->status);
    }
}

static void (*const handlers[])(mr_member *m, const struct mr_member_event *ev) = {
    [MR_MEMBER_GRANT] = on_plain,         [MR_MEMBER_RENEW] = on_plain,
    [MR_MEMBER_REVOKE] = on_plain,        [MR_MEMBER_TTL] = on_plain,
    [MR_MEMBER_REGISTER] = on_plain,      [MR_MEMBER_NAME] = on_plain,
    [MR_MEMBER_DELETE] = on_plain,        [MR_MEMBER_CAMPAIGN] = on_campaign,
    [MR_MEMBER_LIST] = on_list,           [MR_MEMBER_WATCHED] = on_watched,
    [MR_MEMBER_LOAD] = mr_member_on_page, [MR_MEMBER_COMMIT] = mr_member_on_commit,
    [MR_MEMBER_STATUS] = on_status,
};

/* ---- the owner's side ---- */

static void set_now(mr_member *m, int64_t now_ms, uint64_t wall_ms)
{
    m->now_ms = now_ms;
    m->wall_ms = wall_ms;
}

static void tell(mr_member *m, struct mr_election_event in, int64_t now_ms, uint64_t wall_ms)
{
    set_now(m, now_ms, wall_ms);
    election(m, &in);
}

/* For whoever has to say why nothing works. */
static void note_trouble(mr_member *m, const struct mr_member_event *ev)
{
    bool work = ev->kind == MR_MEMBER_REGISTER || ev->kind == MR_MEMBER_CAMPAIGN ||
                ev->kind == MR_MEMBER_LOAD ||
                ev->kind == MR_MEMBER_COMMIT; /* A lease may be had and renewed by anybody. */

    if (ev->rc >= 0 && work) {
        mr_error_clear(&m->trouble);
    } else if (ev->rc < 0 && ev->rc != MR_ENOTFOUND && ev->kind != MR_MEMBER_STATUS) {
        m->trouble = ev->err;
    }
}

void mr_member_deliver(mr_member *m, struct mr_member_event *event, int64_t now_ms,
                       uint64_t wall_ms)
{
    set_now(m, now_ms, wall_ms);
    mr_member_unlist(m, event);
    note_trouble(m, event);
    m->answered_ms = event->rc >= 0 ? now_ms : m->answered_ms;
    handlers[event->kind](m, event);
    tell_election(m);
    if (event->rc >= 0 && event->revision > m->newest_revision) {
        m->newest_revision = event->revision;
    }
    mr_member_give_back(m, event);
}

void mr_member_discard(mr_member *m, struct mr_member_event *event)
{
    mr_member_unlist(m, event);
    mr_member_give_back(m, event);
}

void mr_member_tick(mr_member *m, int64_t now_ms, uint64_t wall_ms)
{
    uint64_t batch;

    tell(m, (struct mr_election_event){.kind = MR_ELECTION_TICK}, now_ms, wall_ms);
    mr_member_load_tick(m);
    tell_election(m);
    if (now_ms >= mr_member_idle_due_ms(m)) {
        (void)mr_commit_fence(m->commit, &batch,
                              NULL); /* Without memory the right to answer just ends. */
    }
    mr_member_send_batch(m);
    if (m->leading && !m->status_out && now_ms >= m->status_ms) {
        m->status_out = true;
        m->opts.store->ops->status(m->opts.store, MR_MEMBER_REQUEST_MS, mr_member_status_done,
                                   mr_member_request(m, MR_MEMBER_STATUS, m->term));
    }
}

int64_t mr_member_due(const mr_member *m)
{
    int64_t due = mr_election_due(&m->election);
    int64_t other = mr_member_idle_due_ms(m);

    if (m->leading && !m->commit_out && mr_commit_due(m->commit) < other) {
        other = mr_commit_due(m->commit);
    }
    other = MR_MIN(other, mr_member_load_due_ms(m));
    if (m->leading && !m->status_out && m->status_ms < other) {
        other = m->status_ms;
    }
    return MR_MIN(other, due);
}

bool mr_member_leads(const mr_member *m)
{
    return m->leading;
}

int64_t mr_member_load_revision(const mr_member *m)
{
    return m->load_revision;
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
    return m->leading && now_ms < mr_member_proven_ms(m) + m->election.ttl_ms / 2;
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
    return m->written + (m->commit != NULL ? mr_commit_status(m->commit)->written : 0);
}

int64_t mr_member_answered_ms(const mr_member *m)
{
    return m->answered_ms;
}

const char *mr_member_trouble(const mr_member *m)
{
    return m->trouble.message;
}

/* Hex digits; what is none counts as 0. */
static void key_of(const char secret[MR_INSTANCE_SIZE], uint8_t key[MR_SIPHASH_KEY_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    memset(key, 0, MR_SIPHASH_KEY_BYTES);
    for (size_t i = 0; secret[i] != '\0' && i < 2 * (size_t)MR_SIPHASH_KEY_BYTES; i++) {
        const char *digit = strchr(digits, secret[i]);
        unsigned value = digit != NULL ? (unsigned)(digit - digits) : 0;

        key[i / 2] = (uint8_t)((unsigned)key[i / 2] << 4 | value);
    }
}

uint64_t mr_member_sign(const mr_member *m, uint64_t epoch)
{
    uint8_t key[MR_SIPHASH_KEY_BYTES];
    char text[MR_INSTANCE_SIZE + 24];
    int n = snprintf(text, sizeof text, "%s.%llu", m->incarnation.id, (unsigned long long)epoch);

    key_of(m->incarnation.secret, key);
    return mr_siphash(key, text, (size_t)n);
}

void mr_member_derive(const mr_member *m, const char *purpose, uint8_t ret[MR_SIPHASH_KEY_BYTES])
{
    uint8_t key[MR_SIPHASH_KEY_BYTES];
    char text[2 * MR_INSTANCE_SIZE];

    key_of(m->incarnation.secret, key);
    for (size_t half = 0; half < 2; half++) {
        int n = snprintf(text, sizeof text, "%.32s.%.16s.%zu", m->incarnation.id, purpose, half);
        uint64_t hash = mr_siphash(key, text, (size_t)n);

        memcpy(ret + 8 * half, &hash, 8);
    }
}

void mr_member_later_epoch(mr_member *m, uint64_t epoch, uint64_t signature)
{
    if (m->leading && m->doubt == CERTAIN && epoch > (uint64_t)m->epoch &&
        signature == mr_member_sign(m, epoch)) {
        m->doubt = DOUBTFUL;
        (void)mr_commit_fence(m->commit, &(uint64_t){0},
                              NULL); /* Without memory an idle one will do. */
    }
}

static int not_leading(mr_error *err)
{
    return mr_error_set_traits(err, MR_EUNAVAIL, MR_RETRYABLE | MR_FENCED, "not the leader");
}

int mr_member_add(mr_member *m, const struct mr_write *writes, size_t n, bool alone,
                  uint64_t *batch, mr_error *err)
{
    return m->leading ? mr_commit_add(m->commit, writes, n, alone, batch, err) : not_leading(err);
}

int mr_member_fence(mr_member *m, uint64_t *batch, mr_error *err)
{
    return m->leading ? mr_commit_fence(m->commit, batch, err) : not_leading(err);
}

size_t mr_member_backlog(const mr_member *m)
{
    return m->commit != NULL ? mr_commit_status(m->commit)->backlog_bytes : 0;
}

uint64_t mr_member_newest(const mr_member *m)
{
    return m->commit != NULL ? mr_commit_status(m->commit)->newest : 0;
}

uint64_t mr_member_committed(const mr_member *m)
{
    return m->commit != NULL ? mr_commit_status(m->commit)->committed : 0;
}

void mr_member_peer(mr_member *m, int64_t epoch, enum mr_peer_state state, int64_t now_ms,
                    uint64_t wall_ms)
{
    static const enum mr_election_event_kind kinds[] = {[MR_PEER_ALIVE] = MR_ELECTION_PEER_BACK,
                                                        [MR_PEER_LOST] = MR_ELECTION_PEER_LOST,
                                                        [MR_PEER_AWAY] = MR_ELECTION_PEER_AWAY};

    tell(m, (struct mr_election_event){.kind = kinds[state], .epoch = epoch}, now_ms, wall_ms);
}

void mr_member_probed(mr_member *m, int64_t epoch, bool refused, int64_t now_ms, uint64_t wall_ms)
{
    struct mr_election_event in = {.kind = MR_ELECTION_PROBED, .epoch = epoch, .refused = refused};

    tell(m, in, now_ms, wall_ms);
}

void mr_member_step_down(mr_member *m, int64_t hold_off_ms, int64_t now_ms, uint64_t wall_ms)
{
    struct mr_election_event in = {.kind = MR_ELECTION_STEP_DOWN, .hold_off_ms = hold_off_ms};

    tell(m, in, now_ms, wall_ms);
}

void mr_member_stop(mr_member *m, int64_t now_ms, uint64_t wall_ms)
{
    tell(m, (struct mr_election_event){.kind = MR_ELECTION_STOP}, now_ms, wall_ms);
}

int mr_member_new(const struct mr_member_options *opts, mr_member **ret, mr_error *err)
{
    struct mr_election_config config = {
        .ttl_ms = opts->ttl_ms, .started_ms = opts->started_ms, .seed = opts->seed};
    MR_AUTO(mr_member_free) mr_member *m = NULL;

    if (strlen(opts->instance) >= sizeof config.instance ||
        strlen(opts->address) >= sizeof config.address ||
        strlen(opts->secret) >= sizeof m->secret) {
        return mr_error_set(err, MR_EINVAL, "instance, address or secret is too long");
    }
    m = mr_calloc(1, sizeof *m);
    MR_CHECK_ALLOC(m, err);
    MR_TRY(mr_root_of(opts->cluster, m->root, err));
    (void)snprintf(config.instance, sizeof config.instance, "%s", opts->instance);
    (void)snprintf(config.address, sizeof config.address, "%s", opts->address);
    (void)snprintf(config.version, sizeof config.version, "%s", opts->version);
    (void)snprintf(config.socket, sizeof config.socket, "%s",
                   opts->socket != NULL ? opts->socket : "");
    m->opts = *opts;
    (void)snprintf(m->instance, sizeof m->instance, "%s", opts->instance);
    (void)snprintf(m->secret, sizeof m->secret, "%s", opts->secret);
    mr_rng_seed(&m->rng, mr_mix64(opts->seed));
    mr_election_init(&m->election, &config);
    if (mr_member_fill_spares(m) < 0) {
        return mr_error_nomem(err);
    }
    *ret = MR_TAKE(m);
    return MR_OK;
}

void mr_member_free(mr_member *m)
{
    if (m == NULL) {
        return;
    }
    mr_member_drop_requests(m); /* The store was closed: their answers never come. */
    mr_commit_free(m->commit);
    mr_member_load_drop(m);
    mr_free(m);
}
