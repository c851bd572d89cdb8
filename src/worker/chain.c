#include "worker/chain_internal.h"

#include "base/clock.h"
#include "base/log.h"

/* A log in memory takes chunks of an eighth of its bytes. */
#define CHUNKS_PER_WINDOW 8u
#define RETRY_DOUBLINGS_MAX 6u /* of the time until a chain in memory looks for a disk */

/* ---- life ---- */

static void destroy(mr_chain *p)
{
    struct mr_chain_place *place;

    MR_ASSERT(LIST_EMPTY(&p->readers));
    while ((place = LIST_FIRST(&p->places)) != NULL) {
        LIST_REMOVE(place, link);
        mr_free(place->who);
        mr_free(place);
    }
    (void)pthread_mutex_destroy(&p->lock);
    mr_free(p->id);
    mr_free(p);
}

mr_chain *mr_chain_ref(mr_chain *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void mr_chain_unref(mr_chain *p)
{
    if (p != NULL && atomic_fetch_sub(&p->refs, 1) == 1) {
        destroy(p);
    }
}

static void close_segment(const mr_chain *p, struct mr_chain_segment *s)
{
    mr_cache_log_close(s->log);
    mr_cache_close(s->memory);
    mr_windows_give_memory(p->windows, s->taken);
}

/* A log in memory whose largest chunk has at least @chunk bytes. */
static int open_in_memory(mr_chain *p, uint64_t chunk, struct mr_chain_segment *ret, mr_error *err)
{
    struct mr_chain_segment s = {0};
    uint64_t bytes = 0;

    int rc = mr_windows_take_memory(p->windows, (chunk + MR_CACHE_ALIGNMENT) * CHUNKS_PER_WINDOW,
                                    &bytes, &s.taken, err);
    if (rc == MR_OK) {
        rc = mr_cache_open_memory(bytes, &s.memory, err);
    }
    if (rc == MR_OK) {
        rc = mr_cache_log_open(s.memory, p->id, 0, &s.log, err);
    }
    if (rc < 0) {
        mr_cache_close(s.memory);
        mr_windows_give_memory(p->windows, s.taken);
        mr_error_wrap(err, "a window in memory for production %s", p->id);
        return rc;
    }
    *ret = s;
    return MR_OK;
}

/* The more often the disk has failed, the later it is looked for. */
static int64_t retry_after_ms(const mr_chain *p)
{
    return mr_windows_retry_ms(p->windows) * (1 << MR_MIN(p->losses - 1, RETRY_DOUBLINGS_MAX));
}

/* Said once as long as it lasts: what follows is of the same kind. */
static void note_degraded_locked(mr_chain *p, const mr_error *why)
{
    if (p->degraded[0] != '\0') {
        return;
    }
    (void)snprintf(p->degraded, sizeof p->degraded, "%s", why->message);
    p->losses++;
    /* For an element that is too large there is no room on disk later, either. */
    p->retry_ms = why->code == MR_EINVAL ? 0 : mr_now_ms() + retry_after_ms(p);
    mr_windows_degraded(p->windows, why);
    mr_log(MR_LOG_WARN,
           "a shared production has lost its window on disk, what follows is in memory only",
           "production", "%s", p->id, "error", "%s", why->message, NULL);
}

/* On disk if that can be had, else in memory. */
static int open_first(mr_chain *p, bool (*make_room)(void *ctx), void *ctx, mr_error *err)
{
    mr_error why;
    int rc;

    do {
        rc = mr_windows_open(p->windows, p->id, &MR_CHAIN_LOG(p, 0).log, &why);
    } while (rc == MR_EEXHAUSTED && make_room != NULL && make_room(ctx));
    if (rc < 0) {
        rc = open_in_memory(p, 0, &MR_CHAIN_LOG(p, 0), err);
        if (rc == MR_OK) {
            note_degraded_locked(p, &why);
        }
    }
    return rc;
}

int mr_chain_open(mr_windows *windows, const char *id, bool (*make_room)(void *ctx), void *ctx,
                  mr_chain **ret, mr_error *err)
{
    mr_chain *p = mr_calloc(1, sizeof *p);

    MR_CHECK_ALLOC(p, err);
    atomic_init(&p->refs, 1);
    p->windows = windows;
    p->id = mr_strdup(id);
    mr_mutex_init(&p->lock);
    LIST_INIT(&p->readers);
    LIST_INIT(&p->places);
    int rc = p->id == NULL ? mr_error_nomem(err) : open_first(p, make_room, ctx, err);
    if (rc < 0) {
        destroy(p);
        return rc;
    }
    p->n = 1;
    *ret = p;
    return MR_OK;
}

void mr_chain_close(mr_chain *p)
{
    struct mr_chain_stats stats;

    mr_chain_stats(p, &stats);
    mr_mutex_lock(&p->lock);
    MR_ASSERT(!p->closed);
    p->closed = true;
    p->closed_end = stats.end;
    mr_mutex_unlock(&p->lock);
    /* There will be no other log. */
    for (uint32_t i = p->retired; i < p->n; i++) {
        close_segment(p, &MR_CHAIN_LOG(p, i));
    }
    if (p->degraded[0] != '\0') {
        mr_windows_restored(p->windows);
    }
}

bool mr_chain_give_up(mr_chain *p)
{
    MR_LOCK(&p->lock);
    if (!p->ended || p->closed || p->given_up || !LIST_EMPTY(&p->readers)) {
        return false;
    }
    p->given_up = true;
    return true;
}

void mr_chain_cancel(mr_chain *p)
{
    MR_LOCK(&p->lock);
    p->cancelled = true;
    for (uint32_t i = p->retired; i < p->n && !p->closed; i++) {
        mr_cache_log_cancel(MR_CHAIN_LOG(p, i).log);
    }
}

void mr_chain_set_spec_hash(mr_chain *p, uint64_t spec_hash)
{
    atomic_store(&p->spec_hash, spec_hash);
}

uint64_t mr_chain_spec_hash(const mr_chain *p)
{
    return atomic_load(&p->spec_hash);
}

/* ---- what must hold ---- */

/* Logs follow on each other, and each reader has one open from where it joined up to where it
 * is. */
__attribute__((unused)) static bool check_locked(const mr_chain *p)
{
    const mr_chain_reader *r;

    for (uint32_t i = p->retired + 1; i < p->n; i++) {
        if (MR_CHAIN_LOG(p, i).base < MR_CHAIN_LOG(p, i - 1).base ||
            MR_CHAIN_LOG(p, i).log == NULL) {
            return false;
        }
    }
    LIST_FOREACH(r, &p->readers, link) {
        for (uint32_t i = r->joined; i < p->n; i++) {
            if (MR_CHAIN_IN(r, i) == NULL) {
                return false;
            }
        }
        if (r->at >= p->n || r->joined < p->retired) {
            return false;
        }
    }
    return p->retired < p->n && p->n - p->retired <= MR_CHAIN_LOGS_MAX;
}

/* ---- the chain of logs ---- */

/* Has the log failed, and why? The lock is held, and it is not closed. */
static bool has_failed_locked(const struct mr_chain_segment *s, mr_error *why)
{
    struct mr_cache_log_stats stats;

    mr_cache_log_stats(s->log, &stats);
    *why = stats.failure;
    return why->code != MR_OK;
}

/* @r gets a reader in the last log. */
static int extend_reader_locked(mr_chain *p, mr_chain_reader *r, mr_error *err)
{
    uint32_t last = p->n - 1;
    uint64_t first;
    int rc = mr_cache_reader_open(MR_CHAIN_LOG(p, last).log, &r->opts, &MR_CHAIN_IN(r, last),
                                  &first, err);

    if (rc == MR_OK && r->started) {
        (void)mr_cache_reader_start(MR_CHAIN_IN(r, last));
    }
    return rc;
}

/* Take the last log, in which nobody has read yet, off again. */
static void undo_extend_locked(mr_chain *p)
{
    mr_chain_reader *r;

    p->n--;
    LIST_FOREACH(r, &p->readers, link) {
        mr_cache_reader_close(MR_CHAIN_IN(r, p->n));
        MR_CHAIN_IN(r, p->n) = NULL;
    }
    close_segment(p, &MR_CHAIN_LOG(p, p->n));
}

/* @next, which it takes in any case, follows the last log. All readers are there from the
 * beginning, so that nobody misses anything in between. */
static int append_log_locked(mr_chain *p, struct mr_chain_segment next, mr_error *err)
{
    struct mr_cache_log_stats stats;
    mr_chain_reader *r;
    int rc = MR_OK;

    MR_ASSERT(p->n - p->retired < MR_CHAIN_LOGS_MAX);
    mr_cache_log_stats(MR_CHAIN_LOG(p, p->n - 1).log, &stats);
    next.base = MR_CHAIN_LOG(p, p->n - 1).base + stats.end;
    MR_CHAIN_LOG(p, p->n++) = next;
    LIST_FOREACH(r, &p->readers, link) {
        rc = rc == MR_OK ? extend_reader_locked(p, r, err) : rc;
    }
    if (rc < 0) {
        undo_extend_locked(p);
    }
    MR_ASSERT_SLOW(check_locked(p));
    return rc;
}

/* The last log takes no more: another one in memory, whose chunks may have @chunk bytes. */
static int extend_locked(mr_chain *p, uint64_t chunk, const mr_error *why, mr_error *err)
{
    struct mr_chain_segment next;

    if (p->cancelled || p->closed) {
        return mr_error_set(err, MR_ECANCELED, "production %s is over", p->id);
    }
    if (p->n - p->retired == MR_CHAIN_LOGS_MAX) {
        return mr_error_set(err, MR_EEXHAUSTED, "production %s: %s", p->id, why->message);
    }

    MR_TRY(open_in_memory(p, chunk, &next, err));
    MR_TRY(append_log_locked(p, next, err));
    note_degraded_locked(p, why);
    return MR_OK;
}

int mr_chain_fail_over(mr_chain *p, uint32_t i, int rc, mr_error *err)
{
    mr_error why;

    MR_LOCK(&p->lock);
    if (rc == MR_ECANCELED || p->closed || !has_failed_locked(&MR_CHAIN_LOG(p, i), &why)) {
        return rc;
    }
    if (p->ended) {
        note_degraded_locked(p, &why); /* Nothing follows. */
    }
    return i + 1 < p->n || p->ended ? MR_OK : extend_locked(p, 0, &why, err);
}

/* Has everybody left log @i for good? */
static bool is_left_locked(const mr_chain *p, uint32_t i)
{
    const mr_chain_reader *r;

    LIST_FOREACH(r, &p->readers, link) {
        if (r->joined <= i && (r->at <= i || r->returned < MR_CHAIN_LOG(p, i + 1).base)) {
            return false;
        }
    }
    return true;
}

/* Take the readers out of log @i, into @ret; how many. */
static size_t take_out_locked(mr_chain *p, uint32_t i, mr_cache_reader **ret)
{
    mr_chain_reader *r;
    size_t n = 0;

    LIST_FOREACH(r, &p->readers, link) {
        struct mr_cache_reader_stats stats;

        if (MR_CHAIN_IN(r, i) != NULL) {
            mr_cache_reader_stats(MR_CHAIN_IN(r, i), &stats);
            r->past_skipped += stats.skipped + MR_CHAIN_LOST(r, i);
            r->joined = i + 1;
            ret[n++] = MR_CHAIN_IN(r, i);
            MR_CHAIN_IN(r, i) = NULL;
            MR_CHAIN_LOST(r, i) = 0;
        }
    }
    return n;
}

/* The first log, if it has a successor and nobody needs it: a failed one keeps the whole cache from
 * beginning anew. By the producer, which is in no log then. */
static void retire_first(mr_chain *p)
{
    const mr_chain_reader *r;
    size_t n = 0;

    mr_mutex_lock(&p->lock);
    LIST_FOREACH(r, &p->readers, link) {
        n++;
    }
    bool left = p->retired + 1 < p->n && is_left_locked(p, p->retired);
    MR_AUTO(mr_free)
    mr_cache_reader **out = left ? mr_calloc(n, sizeof(mr_cache_reader *)) : NULL;
    if (out == NULL) {
        mr_mutex_unlock(&p->lock);
        return; /* without memory: the next time */
    }
    n = take_out_locked(p, p->retired, out);
    struct mr_chain_segment old = MR_CHAIN_LOG(p, p->retired++);
    MR_ASSERT_SLOW(check_locked(p));
    mr_mutex_unlock(&p->lock);
    for (size_t i = 0; i < n; i++) {
        mr_cache_reader_close(out[i]);
    }
    close_segment(p, &old);
}

/* Is it time to look whether there is a disk again? Nobody reads in an older log, which may be the
 * one that failed. */
static bool may_return_to_disk(mr_chain *p)
{
    MR_LOCK(&p->lock);
    if (p->retry_ms == 0 || mr_now_ms() < p->retry_ms || p->retired + 1 < p->n || p->cancelled ||
        p->closed) {
        return false;
    }
    p->retry_ms = mr_now_ms() + retry_after_ms(p);
    return true;
}

/* What is in memory is read to its end there; what follows is on disk. By the producer, which is in
 * no log then. */
static void return_to_disk(mr_chain *p)
{
    struct mr_chain_segment next = {0};

    if (!may_return_to_disk(p) || mr_windows_open(p->windows, p->id, &next.log, NULL) < 0) {
        return;
    }
    mr_mutex_lock(&p->lock);
    mr_cache_log *before = MR_CHAIN_LOG(p, p->n - 1).log;
    int rc = append_log_locked(p, next, NULL);
    if (rc == MR_OK) {
        p->degraded[0] = '\0';
        p->retry_ms = 0;
    }
    mr_mutex_unlock(&p->lock);
    if (rc == MR_OK) {
        mr_cache_log_finish(before);
        mr_windows_restored(p->windows);
        mr_log(MR_LOG_INFO, "a shared production has a window on disk again", "production", "%s",
               p->id, NULL);
    }
}

/* ---- producing ---- */

static mr_cache_log *last_log(mr_chain *p, uint32_t *i)
{
    MR_LOCK(&p->lock);
    *i = p->n - 1;
    return MR_CHAIN_LOG(p, *i).log;
}

int mr_chain_wait(mr_chain *p, uint64_t *rows, mr_error *err)
{
    uint32_t i;

    retire_first(p);
    return_to_disk(p);
    for (;;) {
        int rc = mr_cache_log_wait(last_log(p, &i), rows, err);

        if (rc == MR_OK) {
            return MR_OK;
        }
        MR_TRY(mr_chain_fail_over(p, i, rc, err));
    }
}

static void release_encoded(void *ctx)
{
    struct mr_encoded *e = ctx;

    mr_encoded_free(e);
    mr_free(e);
}

/* @block as one chunk. *@bytes is its size, MR_EINVAL: too large for the log. */
static int append_chunk(mr_chain *p, mr_cache_log *log, const mr_block *block, uint64_t *bytes,
                        mr_error *err)
{
    struct mr_encoded *e = mr_malloc(sizeof *e);
    int rc = e == NULL ? mr_error_nomem(err)
                       : mr_block_encode(block, mr_chain_spec_hash(p),
                                         false /* the record has one */, e, err);

    if (rc < 0) {
        mr_free(e);
        return rc;
    }
    struct mr_cache_chunk chunk = {.rows = mr_block_rows(block),
                                   .iov = e->iov,
                                   .n = e->count,
                                   .release = release_encoded,
                                   .ctx = e};
    *bytes = e->total;
    return mr_cache_log_append(log, &chunk, err);
}

static int append(mr_chain *p, const mr_block *block, mr_error *err);

static int append_halves(mr_chain *p, const mr_block *block, mr_error *err)
{
    uint32_t rows = mr_block_rows(block);
    uint32_t half = rows / 2;

    for (int i = 0; i < 2; i++) {
        MR_AUTO(mr_block_unref) mr_block *part = NULL;

        MR_TRY(mr_block_slice(block, i == 0 ? 0 : half, i == 0 ? half : rows - half, &part, err));
        MR_TRY(append(p, part, err));
    }
    return MR_OK;
}

/* An element that the last log cannot take: one that can follows it. */
static int make_room(mr_chain *p, uint32_t i, uint64_t bytes, const mr_error *why, mr_error *err)
{
    mr_mutex_lock(&p->lock);
    /* Meanwhile a reader may have found that it has failed. */
    int rc = i + 1 < p->n ? MR_OK : extend_locked(p, bytes, why, err);
    mr_cache_log *before = MR_CHAIN_LOG(p, i).log;
    mr_mutex_unlock(&p->lock);
    MR_TRY(rc);
    mr_cache_log_finish(before);
    return MR_OK;
}

static int append(mr_chain *p, const mr_block *block, mr_error *err)
{
    for (;;) {
        uint64_t bytes = 0;
        mr_error why;
        uint32_t i;
        int rc = append_chunk(p, last_log(p, &i), block, &bytes, &why);

        if (rc == MR_OK) {
            return MR_OK;
        }
        if (rc == MR_EINVAL && mr_block_rows(block) > 1) {
            return append_halves(p, block, err);
        }
        mr_error told = why;

        rc = rc == MR_EINVAL ? make_room(p, i, bytes, &why, &told)
                             : mr_chain_fail_over(p, i, rc, &told);
        if (rc < 0) {
            return mr_error_pass(err, rc, &told);
        }
    }
}

int mr_chain_append(mr_chain *p, mr_block *block, mr_error *err)
{
    int rc = mr_block_rows(block) == 0 ? MR_OK : append(p, block, err);

    mr_block_unref(block);
    return rc;
}

void mr_chain_finish(mr_chain *p, int code, const char *message)
{
    mr_mutex_lock(&p->lock);
    p->ended = true;
    if (code < 0) {
        (void)mr_error_set(&p->end, code, "%s", message);
    }
    mr_cache_log *log = MR_CHAIN_LOG(p, p->n - 1).log;
    mr_mutex_unlock(&p->lock);
    mr_cache_log_finish(log);
}

bool mr_chain_failed(mr_chain *p, mr_error *err)
{
    MR_LOCK(&p->lock);
    if (!p->ended || p->end.code == MR_OK) {
        return false;
    }
    *err = p->end;
    return true;
}

void mr_chain_stats(mr_chain *p, struct mr_chain_stats *ret)
{
    struct mr_cache_log_stats stats;

    *ret = (struct mr_chain_stats){0};
    MR_LOCK(&p->lock);
    for (uint32_t i = p->retired; i < p->n && !p->closed; i++) {
        mr_cache_log_stats(MR_CHAIN_LOG(p, i).log, &stats);
        ret->first = MR_CHAIN_LOG(p, i).base + stats.head;
        ret->end = MR_CHAIN_LOG(p, i).base + stats.end;
        ret->held = stats.held;
        ret->bytes += stats.file_bytes + stats.memory_bytes;
        ret->disk_bytes += MR_CHAIN_LOG(p, i).memory == NULL ? stats.file_bytes : 0;
    }
    if (p->closed) {
        ret->first = ret->end = p->closed_end;
    }
    ret->places = p->nplaces;
    ret->complete = p->ended;
    memcpy(ret->degraded, p->degraded, sizeof ret->degraded);
}
