/* What the member tells the loop: a term begins, is loaded, commits, ends. */
#include "base/log.h"
#include "dispatcher/turn/internal.h"

#define HEARTBEAT_SLACK_MS 5000
#define DATASETS_PAGE 200 /* a record may have 100 KiB of element spec */
#define STORE_WARN_PERCENT 70
#define STORE_WARN_EVERY_MS 600000
#define RESIGN_MS (10 * 60 * 1000)
#define NEVER_MS (INT64_C(100) * 365 * 86400 * 1000)

/* Definitions are read when they are asked for: only the names of their parts are loaded. */
size_t mr_turn_prefixes(struct mr_member_prefix out[MR_TURN_PREFIXES_MAX])
{
    size_t n = 0;

    for (const char *const *p = mr_core_prefixes(); *p != NULL; p++) {
        MR_ASSERT(n + 1 < MR_TURN_PREFIXES_MAX);
        out[n++] = (struct mr_member_prefix){
            .key = *p, .page = strcmp(*p, "datasets/") == 0 ? DATASETS_PAGE : 0};
    }
    out[n++] = (struct mr_member_prefix){.key = "blobs/", .keys_only = true};
    return n;
}

static void on_leader(void *ctx, const struct mr_leader_view *leader)
{
    mr_turn *t = ctx;
    bool other = mr_turn_led_by_another(t);
    int64_t epoch = leader->known ? leader->epoch : 0;

    t->leader_changes += epoch != 0 && epoch != t->last_epoch ? 1 : 0;
    t->last_epoch = epoch != 0 ? epoch : t->last_epoch;
    t->leader_epoch = epoch;
    if (other) {
        mr_log(MR_LOG_INFO, "following", "leader", "%s", leader->record.address, "epoch", "%lld",
               (long long)leader->epoch, NULL);
    }
    if (!t->stopping) {
        mr_follow_leader(&t->follower, other ? leader->record.address : NULL, leader->epoch,
                         t->now_ms);
    }
}

static int64_t takeover_grace_ms(const mr_turn *t)
{
    int64_t deposed = t->opts.lease_ttl_ms / 2 + t->opts.heartbeat_ms + HEARTBEAT_SLACK_MS;

    /* A deposed leader may have kept a worker's attention for half a TTL. */
    return MR_MAX(t->opts.worker_timeout_ms, deposed);
}

/* Not again and again: when all have tried, what they see is true. */
static bool may_resign(const mr_turn *t)
{
    int64_t quiet = 10 * t->opts.worker_timeout_ms;

    return t->resigned_ms == 0 || t->now_ms - t->resigned_ms > MR_MAX(quiet, RESIGN_MS);
}

static void on_load_begin(void *ctx, int64_t epoch, const char *incarnation)
{
    mr_turn *t = ctx;

    t->loads = t->loaded_epoch == epoch ? t->loads + 1 : 0;
    t->loaded_epoch = epoch;
    struct mr_core_config config = {.epoch = (uint64_t)epoch,
                                    .loads = t->loads,
#define X(name) .name = t->opts.name,
                                    MR_CORE_TIMES(X)
#undef X
                                        .gc_dynamic = t->opts.gc_dynamic,
                                    .may_resign = may_resign(t),
                                    .takeover_grace_ms = takeover_grace_ms(t),
                                    .trace = t->port.trace,
                                    .note = t->port.note,
                                    .trace_ctx = t->port.ctx};

    if (config.job_gc_timeout_ms <= 0) {
        config.job_gc_timeout_ms = NEVER_MS;
    }
    t->serving = false;
    if (t->loads == 0) { /* A load may have to begin anew. */
        t->port.term(t->port.ctx, MR_TERM_WON);
    }
    mr_core_free(t->core);
    t->core = mr_core_new(&config); /* NULL is told by the first key, or the end. */
    t->schema_seen = false;
    t->keys_seen = false;
    (void)snprintf(t->incarnation, sizeof t->incarnation, "%s", incarnation);
}

/* Nobody leads until somebody has mended the one record that all others rest on. */
static int say_how_to_mend(const mr_turn *t, mr_error *err)
{
    mr_error why = *err;

    return mr_error_set(err, MR_EDATALOSS,
                        "%.80s: put it right: etcdctl put '/millrace/%.64s/schema' '%s'",
                        why.message, t->cluster, MR_SCHEMA_FULL);
}

static int on_load_key(void *ctx, const char *key, const void *value, size_t size, mr_error *err)
{
    mr_turn *t = ctx;

    MR_CHECK_ALLOC(t->core, err);
    if (strncmp(key, "blobs/", 6) == 0) {
        return mr_core_load_blob(t->core, key, err);
    }
    t->keys_seen = true;
    t->schema_seen = t->schema_seen || strcmp(key, "schema") == 0;
    int rc = mr_core_load(t->core, key, value, size, err);

    if (rc == MR_EPRECOND) { /* What this program does not know, it must not lead. */
        mr_error_wrap(err, "cluster '%s'", t->cluster);
        t->port.unwell(t->port.ctx, err);
    }
    return rc == MR_EDATALOSS ? say_how_to_mend(t, err) : rc;
}

static int write_schema(mr_turn *t, mr_error *err)
{
    char *json = NULL;
    size_t len = 0;
    uint64_t batch;
    int rc = mr_core_schema(t->core, &json, &len, err);

    if (rc >= 0) {
        struct mr_write w = {.key = "schema", .value = json, .size = len};

        rc = mr_member_add(t->member, &w, 1, false, &batch, err);
    }
    mr_free(json);
    return rc;
}

static int on_load_end(void *ctx, mr_error *err)
{
    mr_turn *t = ctx;
    int rc;

    MR_CHECK_ALLOC(t->core, err);
    mr_core_loaded_at(t->core, (uint64_t)mr_member_load_revision(t->member));
    rc = t->keys_seen && !t->schema_seen ? mr_core_schema_missing(err)
                                         : mr_core_ready(t->core, t->now_ms, err);
    if (rc >= 0 && !t->schema_seen) {
        rc = write_schema(t, err);
    }
    if (rc < 0) {
        return rc == MR_EDATALOSS ? say_how_to_mend(t, err) : rc;
    }
    t->serving = true;
    t->late_ms = 0; /* Its timers have just been started. */
    t->refusing_since_ms = 0;
    t->timer_from_ms = 0;
    t->timer_ran = true;
    mr_budget_init(&t->budget, t->opts.etcd_write_budget, MR_GRANT_MS, MR_GRANT_MS_MAX,
                   mr_member_written(t->member), t->now_ms);
    if (t->ndispatchers == 0) {
        /* The list is on its way; until then there is one to tell of. */
        t->dispatchers[0] = mr_strdup(t->address);
        t->ndispatchers = t->dispatchers[0] != NULL;
    }
    mr_log(MR_LOG_INFO, "leading", "epoch", "%lld", (long long)mr_member_epoch(t->member), NULL);
    t->port.term(t->port.ctx, MR_TERM_LEADS);
    return MR_OK;
}

static void on_committed(void *ctx, uint64_t batch)
{
    mr_turn_release(ctx);
}

static void drop_state(mr_turn *t)
{
    t->serving = false;
    mr_core_free(t->core);
    t->core = NULL;
}

static void fail_calls(mr_turn *t, const mr_error *why, uint64_t culprit)
{
    mr_turn_fail_held(t, why, culprit);
    mr_turn_fail_uploads(t, why);
}

static void on_lost(void *ctx, const mr_error *err)
{
    mr_turn *t = ctx;

    drop_state(t);
    fail_calls(t, err, 0);
    mr_turn_end_streams(t, "no longer the leader");
    t->port.term(t->port.ctx, MR_TERM_LOST);
}

static void on_refused(void *ctx, uint64_t batch, const mr_error *err)
{
    mr_turn *t = ctx;
    mr_error why;

    bool full = err->code == MR_EEXHAUSTED; /* The fault of nobody's command. */

    (void)mr_error_set_traits(&why, MR_EUNAVAIL, MR_RETRYABLE, "%s", err->message);
    if (!full) {
        t->single_until_ms = t->now_ms + MR_SINGLE_MS;
    }
    /* It leads on, so its answers still are a leader's: what it says to the culprit is final. */
    fail_calls(t, &why, full ? 0 : batch);
    drop_state(t);
    mr_turn_end_streams(t, "the state is loaded again");
    t->port.term(t->port.ctx, MR_TERM_REFUSED);
}

static void on_probe(void *ctx, const char *address, int64_t epoch)
{
    mr_turn *t = ctx;

    t->port.probe(t->port.ctx, address, epoch);
}

static void on_peers(void *ctx, const struct mr_dispatcher_record *peers, size_t n)
{
    mr_turn *t = ctx;

    for (size_t i = 0; i < t->ndispatchers; i++) {
        mr_free(t->dispatchers[i]);
    }
    t->ndispatchers = 0;
    for (size_t i = 0; i < n && t->ndispatchers < MR_DISPATCHERS_MAX; i++) {
        char *address = mr_strdup(peers[i].address);

        if (address != NULL && address[0] != '\0') {
            t->dispatchers[t->ndispatchers++] = address;
        } else {
            mr_free(address);
        }
    }
}

static bool on_follows(void *ctx, const char *instance)
{
    const mr_turn *t = ctx;

    const struct mr_dstream *d;

    LIST_FOREACH(d, &t->followers.all, link) {
        if (!d->ended && strcmp(d->client, instance) == 0) {
            return true;
        }
    }
    return false;
}

/* Room for what etcd holds runs out slowly, so say it before it stops everything. */
static void on_store(void *ctx, const struct mr_store_status *s)
{
    mr_turn *t = ctx;
    int64_t quota = s->quota_bytes > 0 ? s->quota_bytes : t->opts.etcd_quota_bytes;
    static const char *const broken[] = {"3.5.0", "3.5.1", "3.5.2"};

    t->store_bytes = s->size_bytes;
    t->store_quota_bytes = quota;
    bool filling = quota > 0 && s->size_bytes >= quota / 100 * STORE_WARN_PERCENT;

    for (size_t i = 0; i < sizeof broken / sizeof broken[0] && t->now_ms >= t->store_warn_ms; i++) {
        if (strcmp(s->version, broken[i]) == 0) {
            t->store_warn_ms = t->now_ms + STORE_WARN_EVERY_MS;
            mr_log(MR_LOG_ERROR,
                   "this version of etcd may lose data when a member crashes: replace it",
                   "version", "%s", s->version, NULL);
        }
    }
    if (filling && t->now_ms >= t->store_warn_ms) {
        t->store_warn_ms = t->now_ms + STORE_WARN_EVERY_MS;
        mr_log(MR_LOG_WARN,
               "etcd's database fills up: at its quota it refuses all writes; compact and "
               "defragment it",
               "bytes", "%lld", (long long)s->size_bytes, "quota", "%lld", (long long)quota, NULL);
    }
}

static void on_stopped(void *ctx)
{
    mr_turn *t = ctx;

    t->port.left(t->port.ctx);
}

const struct mr_member_ops mr_turn_member_ops = {
    .leader = on_leader,
    .load_begin = on_load_begin,
    .load_key = on_load_key,
    .load_end = on_load_end,
    .committed = on_committed,
    .lost = on_lost,
    .refused = on_refused,
    .probe = on_probe,
    .peers = on_peers,
    .follows = on_follows,
    .store = on_store,
    .stopped = on_stopped,
};
