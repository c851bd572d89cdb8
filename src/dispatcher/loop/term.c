/* What the member tells the loop: a term begins, is loaded, commits, ends. */
#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sync.h"
#include "dispatcher/loop/internal.h"

#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

#define HEARTBEAT_SLACK_MS 5000
#define DATASETS_PAGE 200 /* a record may have 100 KiB of element spec */
#define STORE_WARN_PERCENT 70
#define STORE_WARN_EVERY_MS 600000
#define RESIGN_MS (10 * 60 * 1000)
#define NEVER_MS (INT64_C(100) * 365 * 86400 * 1000)

/* Definitions are read when they are asked for: only the names of their parts are loaded. */
size_t mr_loop_prefixes(struct mr_member_prefix out[MR_LOOP_PREFIXES_MAX])
{
    size_t n = 0;

    for (const char *const *p = mr_core_prefixes(); *p != NULL; p++) {
        MR_ASSERT(n + 1 < MR_LOOP_PREFIXES_MAX);
        out[n++] = (struct mr_member_prefix){
            .key = *p, .page = strcmp(*p, "datasets/") == 0 ? DATASETS_PAGE : 0};
    }
    out[n++] = (struct mr_member_prefix){.key = "blobs/", .keys_only = true};
    return n;
}

static void on_leader(void *ctx, const struct mr_leader_view *leader)
{
    struct mr_loop *l = ctx;
    bool other = mr_loop_led_by_another(l);
    int64_t epoch = leader->known ? leader->epoch : 0;

    l->numbers.leader_changes += epoch != 0 && epoch != l->numbers.last_epoch ? 1 : 0;
    l->numbers.last_epoch = epoch != 0 ? epoch : l->numbers.last_epoch;
    l->numbers.leader_epoch = epoch;
    if (other) {
        mr_log(MR_LOG_INFO, "following", "leader", "%s", leader->record.address, "epoch", "%lld",
               (long long)leader->epoch, NULL);
    }
    if (!l->stopping) {
        mr_peer_follow(l->peer, other ? leader->record.address : NULL, leader->epoch, l->now_ms);
    }
}

static int64_t takeover_grace_ms(const struct mr_loop *l)
{
    int64_t deposed = l->opts.lease_ttl_ms / 2 + l->opts.heartbeat_ms + HEARTBEAT_SLACK_MS;

    /* A deposed leader may have kept a worker's attention for half a TTL. */
    return l->opts.worker_timeout_ms > deposed ? l->opts.worker_timeout_ms : deposed;
}

/* Not again and again: when all have tried, what they see is true. */
static bool may_resign(const struct mr_loop *l)
{
    int64_t quiet = 10 * l->opts.worker_timeout_ms;

    return l->resigned_ms == 0 ||
           l->now_ms - l->resigned_ms > (quiet > RESIGN_MS ? quiet : RESIGN_MS);
}

static void trace(void *ctx, const char *line)
{
    (void)ctx;
    mr_log(MR_LOG_DEBUG, "core", "move", "%s", line, NULL);
}

static void note(void *ctx, const char *line)
{
    (void)ctx;
    mr_log(MR_LOG_INFO, line, NULL);
}

static void on_load_begin(void *ctx, int64_t epoch, const char *incarnation)
{
    struct mr_loop *l = ctx;

    l->loads = l->loaded_epoch == epoch ? l->loads + 1 : 0;
    l->loaded_epoch = epoch;
    struct mr_core_config config = {
        .epoch = (uint64_t)epoch,
        .loads = l->loads,
        .worker_timeout_ms = l->opts.worker_timeout_ms,
        .client_timeout_ms = l->opts.client_timeout_ms,
        .job_gc_timeout_ms = l->opts.job_gc_timeout_ms > 0 ? l->opts.job_gc_timeout_ms : NEVER_MS,
        .gc_dynamic = l->opts.gc_dynamic,
        .finished_retention_ms = l->opts.finished_retention_ms,
        .client_retention_ms = l->opts.client_retention_ms,
        .worker_retention_ms = l->opts.worker_retention_ms,
        .job_retention_ms = l->opts.job_retention_ms,
        .dataset_retention_ms = l->opts.dataset_retention_ms,
        .may_resign = may_resign(l),
        .stall_timeout_ms = l->opts.stall_timeout_ms,
        .task_timeout_ms = l->opts.task_timeout_ms,
        .takeover_grace_ms = takeover_grace_ms(l),
        .heartbeat_ms = l->opts.heartbeat_ms,
        .trace = mr_log_enabled(MR_LOG_DEBUG) ? trace : NULL,
        .note = note};

    l->serving = false;
    l->numbers.won_ns =
        l->loads == 0 ? mr_now_ns() : l->numbers.won_ns; /* A load may have to begin anew. */
    mr_core_free(l->core);
    l->core = mr_core_new(&config); /* NULL is told by the first key, or the end. */
    l->schema_seen = false;
    l->keys_seen = false;
    (void)snprintf(l->incarnation, sizeof l->incarnation, "%s", incarnation);
}

static void set_health(struct mr_loop *l, const mr_error *err)
{
    MR_LOCK(&l->lock);
    l->health = *err;
}

/* Nobody leads until somebody has mended the one record that all others rest on. */
static int say_how_to_mend(const struct mr_loop *l, mr_error *err)
{
    mr_error why = *err;

    return mr_error_set(err, MR_EDATALOSS,
                        "%.80s: put it right: etcdctl put '/millrace/%.64s/schema' '%s'",
                        why.message, l->cluster, MR_SCHEMA_FULL);
}

static int on_load_key(void *ctx, const char *key, const void *value, size_t size, mr_error *err)
{
    struct mr_loop *l = ctx;

    if (l->core == NULL) {
        return mr_error_nomem(err);
    }
    if (strncmp(key, "blobs/", 6) == 0) {
        return mr_core_load_blob(l->core, key, err);
    }
    l->keys_seen = true;
    l->schema_seen = l->schema_seen || strcmp(key, "schema") == 0;
    int rc = mr_core_load(l->core, key, value, size, err);

    if (rc == MR_EPRECOND) { /* What this program does not know, it must not lead. */
        mr_error_wrap(err, "cluster '%s'", l->cluster);
        set_health(l, err);
    }
    return rc == MR_EDATALOSS ? say_how_to_mend(l, err) : rc;
}

static int write_schema(struct mr_loop *l, mr_error *err)
{
    char *json = NULL;
    size_t len = 0;
    uint64_t batch;
    int rc = mr_core_schema(l->core, &json, &len, err);

    if (rc >= 0) {
        struct mr_write w = {.key = "schema", .value = json, .size = len};

        rc = mr_member_add(l->member, &w, 1, false, &batch, err);
    }
    mr_free(json);
    return rc;
}

static int on_load_end(void *ctx, mr_error *err)
{
    struct mr_loop *l = ctx;
    int rc;

    if (l->core == NULL) {
        return mr_error_nomem(err);
    }
    mr_core_loaded_at(l->core, (uint64_t)mr_member_load_revision(l->member));
    rc = l->keys_seen && !l->schema_seen ? mr_core_schema_missing(err)
                                         : mr_core_ready(l->core, l->now_ms, err);
    if (rc >= 0 && !l->schema_seen) {
        rc = write_schema(l, err);
    }
    if (rc < 0) {
        return rc == MR_EDATALOSS ? say_how_to_mend(l, err) : rc;
    }
    l->serving = true;
    if (l->numbers.won_ns != 0) {
        mr_histogram_note(&l->numbers.takeover, mr_now_ns() - l->numbers.won_ns);
        l->numbers.won_ns = 0;
    }
    l->late_ms = 0; /* Its timers have just been started. */
    l->refusing_since_ms = 0;
    l->timer_from_ms = 0;
    l->timer_ran = true;
    mr_budget_init(&l->budget, l->opts.etcd_write_budget, MR_GRANT_MS, MR_GRANT_MS_MAX,
                   mr_member_written(l->member), l->now_ms);
    if (l->ndispatchers == 0) {
        /* The list is on its way; until then there is one to tell of. */
        l->dispatchers[0] = mr_strdup(l->address);
        l->ndispatchers = l->dispatchers[0] != NULL;
    }
    mr_log(MR_LOG_INFO, "leading", "epoch", "%lld", (long long)mr_member_epoch(l->member), NULL);
    return MR_OK;
}

static void on_committed(void *ctx, uint64_t batch)
{
    (void)batch;
    mr_loop_release(ctx);
}

static void drop_state(struct mr_loop *l)
{
    l->serving = false;
    mr_core_free(l->core);
    l->core = NULL;
}

static void on_lost(void *ctx, const mr_error *err)
{
    struct mr_loop *l = ctx;

    drop_state(l);
    mr_loop_fail_held(l, err, 0);
    mr_loop_end_streams(l, "no longer the leader");
}

static void on_refused(void *ctx, uint64_t batch, const mr_error *err)
{
    struct mr_loop *l = ctx;
    mr_error why;

    bool full = err->code == MR_EEXHAUSTED; /* The fault of nobody's command. */

    (void)mr_error_set_traits(&why, MR_EUNAVAIL, MR_RETRYABLE, "%s", err->message);
    if (!full) {
        l->single_until_ms = l->now_ms + MR_SINGLE_MS;
    }
    /* It leads on, so its answers still are a leader's: what it says to the culprit is final. */
    mr_loop_fail_held(l, &why, full ? 0 : batch);
    drop_state(l);
    mr_loop_end_streams(l, "the state is loaded again");
}

static void on_probe(void *ctx, const char *address, int64_t epoch)
{
    struct mr_loop *l = ctx;

    mr_peer_probe(l->peer, address, epoch);
}

static void on_peers(void *ctx, const struct mr_dispatcher_record *peers, size_t n)
{
    struct mr_loop *l = ctx;

    for (size_t i = 0; i < l->ndispatchers; i++) {
        mr_free(l->dispatchers[i]);
    }
    l->ndispatchers = 0;
    for (size_t i = 0; i < n && l->ndispatchers < MR_DISPATCHERS_MAX; i++) {
        char *address = mr_strdup(peers[i].address);

        if (address != NULL && address[0] != '\0') {
            l->dispatchers[l->ndispatchers++] = address;
        } else {
            mr_free(address);
        }
    }
}

static bool on_follows(void *ctx, const char *instance)
{
    const struct mr_loop *l = ctx;

    for (const struct mr_dstream *d = l->followers.all; d != NULL; d = d->next) {
        if (!d->ended && strcmp(d->client, instance) == 0) {
            return true;
        }
    }
    return false;
}

/* Room for what etcd holds runs out slowly, so say it before it stops everything. */
static void on_store(void *ctx, const struct mr_store_status *s)
{
    struct mr_loop *l = ctx;
    int64_t quota = s->quota_bytes > 0 ? s->quota_bytes : l->opts.etcd_quota_bytes;
    static const char *const broken[] = {"3.5.0", "3.5.1", "3.5.2"};

    l->numbers.store_bytes = s->size_bytes;
    l->numbers.store_quota_bytes = quota;
    bool filling = quota > 0 && s->size_bytes >= quota / 100 * STORE_WARN_PERCENT;

    for (size_t i = 0; i < sizeof broken / sizeof broken[0] && l->now_ms >= l->store_warn_ms; i++) {
        if (strcmp(s->version, broken[i]) == 0) {
            l->store_warn_ms = l->now_ms + STORE_WARN_EVERY_MS;
            mr_log(MR_LOG_ERROR,
                   "this version of etcd may lose data when a member crashes: replace it",
                   "version", "%s", s->version, NULL);
        }
    }
    if (filling && l->now_ms >= l->store_warn_ms) {
        l->store_warn_ms = l->now_ms + STORE_WARN_EVERY_MS;
        mr_log(MR_LOG_WARN,
               "etcd's database fills up: at its quota it refuses all writes; compact and "
               "defragment it",
               "bytes", "%lld", (long long)s->size_bytes, "quota", "%lld", (long long)quota, NULL);
    }
}

static void on_stopped(void *ctx)
{
    struct mr_loop *l = ctx;

    MR_LOCK(&l->lock);
    l->left = true;
    (void)pthread_cond_broadcast(&l->left_cond);
}

const struct mr_member_ops mr_loop_member_ops = {
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
