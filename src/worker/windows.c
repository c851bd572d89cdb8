#include "worker/windows.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/sync.h"
#include "engine/env.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define DISK_BYTES (10240 * MR_MIB)
/* The least that a cache, and that a log takes (cache.h). */
#define DISK_BYTES_MIN (32 * MR_MIB)
#define WINDOW_BYTES_MIN (8 * MR_MIB)
/* Of those in memory when memory_bytes_max is taken: many jobs then have little each, and none has
 * to wait for the end of another. */
#define SMALL_WINDOW_BYTES (2 * MR_MIB)
#define MEMORY_BYTES_MIN (32 * MR_MIB)
#define MEMORY_SHARE 8u /* of the machine */
#define MEMORY_DEFAULT_MIN (128 * MR_MIB)
#define MEMORY_DEFAULT_MAX (2048 * MR_MIB)
/* Windows on disk at a time. More of them leave less memory for each, and so a smaller largest
 * element. */
#define WINDOWS_MAX 8u
#define RETRY_MS 30000
#define SLOT_PREFIX "worker-"
#define SLOTS_MAX 1024u

struct mr_windows {
    char *dir;
    bool ours; /* the default directory: it must be this user's */
    uint64_t disk_bytes_max;
    uint64_t window_bytes_max; /* of one window */
    uint64_t memory_bytes_max;
    mr_memory *memory;
    int64_t retry_ms;

    /* held while the cache is opened, which may take a while; taken before `lock` */
    pthread_mutex_t opening; /* guards what says so */
    mr_cache *cache;         /* `opening` */
    bool charged;            /* `opening`: memory_bytes_max, for it */

    pthread_mutex_t lock; /* guards everything below */
    unsigned in_memory;
    uint64_t taken; /* by windows in memory */
    struct mr_windows_progress progress;
};

/* ---- the directory ---- */

/* "worker-12": the directory of some worker, now or once. */
static bool is_slot(const char *name)
{
    size_t prefix = strlen(SLOT_PREFIX);
    size_t digits =
        strncmp(name, SLOT_PREFIX, prefix) == 0 ? strspn(name + prefix, "0123456789") : 0;

    return digits > 0 && name[prefix + digits] == '\0';
}

static int open_cache(const mr_windows *w, const char *slot, mr_cache **ret, mr_error *err)
{
    struct mr_cache_options opts = {.disk_bytes_max = w->disk_bytes_max,
                                    .memory_bytes_max = w->memory_bytes_max,
                                    .logs_max = WINDOWS_MAX};
    MR_AUTO(mr_free) char *path = mr_asprintf("%s/%s", w->dir, slot);

    MR_CHECK_ALLOC(path, err);
    opts.dir = path;
    return mr_cache_open(&opts, ret, err);
}

/* Opening and closing a cache deletes what is in its directory, unless somebody works there. */
static void wipe_slot(const mr_windows *w, const char *slot)
{
    MR_AUTO(mr_free) char *db = mr_asprintf("%s/%s/db", w->dir, slot);
    mr_cache *cache;

    if (db != NULL && access(db, F_OK) == 0 && open_cache(w, slot, &cache, NULL) == MR_OK) {
        mr_cache_close(cache);
    }
}

/* What workers that were killed left. */
static void wipe_leftovers(const mr_windows *w)
{
    DIR *d = opendir(w->dir);
    const struct dirent *entry;

    if (d == NULL) {
        return; /* There is nothing, or whoever opens a window will be told what is wrong. */
    }
    while ((entry = readdir(d)) != NULL) {
        if (is_slot(entry->d_name)) {
            wipe_slot(w, entry->d_name);
        }
    }
    (void)closedir(d);
}

static int make_dir(const mr_windows *w, mr_error *err)
{
    struct stat st;

    if (mkdir(w->dir, 0700) != 0 && errno != EEXIST) {
        return mr_error_errno(err, errno, "making cache directory '%s'", w->dir);
    }
    if (!w->ours) {
        return MR_OK;
    }
    /* In a directory where anybody may make one of this name. */
    if (lstat(w->dir, &st) != 0) {
        return mr_error_errno(err, errno, "cache directory '%s'", w->dir);
    }
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid()) {
        return mr_error_set(err, MR_EPERM,
                            "cache directory '%s' is somebody else's: name another one", w->dir);
    }
    return MR_OK;
}

/* A directory that was named and cannot be used is told at once, not when the first job shares. */
static void warn_of_dir(const mr_windows *w)
{
    mr_error err;
    int rc = make_dir(w, &err);
    int fd = rc < 0 ? -1 : open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (rc == MR_OK && (fd < 0 || faccessat(fd, ".", W_OK | X_OK, AT_EACCESS) != 0)) {
        rc = mr_error_errno(&err, errno, "cache directory '%s'", w->dir);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (rc < 0) {
        mr_log(MR_LOG_WARN, "--cache-dir cannot be used; elements that jobs share stay in memory",
               "error", "%s", err.message, NULL);
    }
}

/* In the first place that no other worker has. */
static int open_first_free(mr_windows *w, mr_error *err)
{
    int rc = MR_EPRECOND;

    MR_TRY(make_dir(w, err));
    for (unsigned i = 0; i < SLOTS_MAX && rc == MR_EPRECOND; i++) {
        char slot[32];

        (void)snprintf(slot, sizeof slot, SLOT_PREFIX "%u", i);
        rc = open_cache(w, slot, &w->cache, err);
    }
    return rc;
}

/* ---- sizes ---- */

static uint64_t default_memory(const mr_memory *budget)
{
    uint64_t bytes = mr_machine_memory_bytes() / MEMORY_SHARE;
    uint64_t part = mr_memory_limit(budget) / 4;

    bytes = MR_MAX(MEMORY_DEFAULT_MIN, bytes);
    bytes = MR_MIN(MEMORY_DEFAULT_MAX, bytes);
    bytes = MR_MIN(part, bytes);
    return MR_MAX(MEMORY_BYTES_MIN, bytes);
}

static uint64_t at_least(uint64_t bytes, uint64_t min, const char *what)
{
    if (bytes >= min) {
        return bytes;
    }
    mr_log(MR_LOG_INFO, "too few bytes for the cache, taking the least there can be", "option",
           "%s", what, "bytes", "%" PRIu64, bytes, "taken", "%" PRIu64, min, NULL);
    return min;
}

/* One window's share: so that there is always something left for the next one. */
static uint64_t share(const mr_windows *w, uint64_t asked)
{
    uint64_t bytes = mr_cache_bytes_free(w->cache) / 2;

    bytes -= bytes % WINDOW_BYTES_MIN; /* or a small cache would not be used to its end */
    bytes = MR_MIN(asked, bytes);
    return MR_MAX(WINDOW_BYTES_MIN, bytes);
}

/* ---- the interface ---- */

int mr_windows_new(const struct mr_windows_options *opts, mr_windows **ret, mr_error *err)
{
    const char *tmp = getenv("TMPDIR");
    mr_windows *w = mr_calloc(1, sizeof *w);

    MR_CHECK_ALLOC(w, err);
    w->ours = opts->dir == NULL || opts->dir[0] == '\0';
    w->dir = w->ours
                 ? mr_asprintf("%s/millrace-cache-%u", tmp == NULL || tmp[0] == '\0' ? "/tmp" : tmp,
                               (unsigned)geteuid())
                 : mr_strdup(opts->dir);
    if (w->dir == NULL) {
        mr_free(w);
        return mr_error_nomem(err);
    }
    w->disk_bytes_max = opts->disk_bytes_max == 0 ? DISK_BYTES : opts->disk_bytes_max;
    w->memory_bytes_max = opts->memory_bytes_max == 0
                              ? default_memory(opts->memory)
                              : at_least(opts->memory_bytes_max, MEMORY_BYTES_MIN, "cache-memory");
    w->memory = mr_memory_ref(opts->memory);
    w->retry_ms = opts->retry_ms == 0 ? RETRY_MS : opts->retry_ms;
    w->window_bytes_max = MR_MAX(WINDOW_BYTES_MIN, w->disk_bytes_max);
    w->disk_bytes_max = at_least(w->disk_bytes_max, DISK_BYTES_MIN, "cache-bytes");
    w->progress.bytes_max = w->disk_bytes_max;
    mr_mutex_init(&w->opening);
    mr_mutex_init(&w->lock);
    wipe_leftovers(w);
    if (!w->ours) {
        warn_of_dir(w);
    }
    *ret = w;
    return MR_OK;
}

void mr_windows_free(mr_windows *w)
{
    if (w == NULL) {
        return;
    }
    mr_cache_close(w->cache);
    mr_memory_release(w->memory, w->charged ? (size_t)w->memory_bytes_max : 0);
    mr_memory_unref(w->memory);
    (void)pthread_mutex_destroy(&w->opening);
    (void)pthread_mutex_destroy(&w->lock);
    mr_free(w->dir);
    mr_free(w);
}

int mr_windows_open(mr_windows *w, const char *name, mr_cache_log **ret, mr_error *err)
{
    mr_mutex_lock(&w->lock);
    w->progress.used = true;
    mr_mutex_unlock(&w->lock);
    MR_LOCK(&w->opening);
    if (!w->charged && !mr_memory_charge(w->memory, MR_MEMORY_HELD, (size_t)w->memory_bytes_max)) {
        int rc = mr_memory_refused(w->memory, MR_MEMORY_HELD, (size_t)w->memory_bytes_max, err);
        mr_error_wrap(err, "memory for windows on disk");
        return rc;
    }
    w->charged = true;
    if (w->cache == NULL) {
        MR_TRY(open_first_free(w, err));
    }
    return mr_cache_log_open(w->cache, name, share(w, w->window_bytes_max), ret, err);
}

/* With what is not in the log yet, and copies (cache.h). */
static uint64_t with_copies(uint64_t bytes)
{
    return bytes + bytes / 2;
}

/* So that there is something left for the next one. The lock is held. */
static uint64_t memory_share_locked(const mr_windows *w)
{
    uint64_t part = w->memory_bytes_max / WINDOWS_MAX;
    uint64_t left = w->taken < w->memory_bytes_max ? w->memory_bytes_max - w->taken : 0;
    uint64_t bytes = MR_MIN(part, left / 3); /* half, with copies */
    uint64_t least = left >= with_copies(WINDOW_BYTES_MIN) ? WINDOW_BYTES_MIN : SMALL_WINDOW_BYTES;

    return MR_MAX(least, bytes);
}

int mr_windows_take_memory(mr_windows *w, uint64_t least, uint64_t *bytes, uint64_t *taken,
                           mr_error *err)
{
    MR_LOCK(&w->lock);
    uint64_t want = memory_share_locked(w);
    /* What we size gives way sooner than what an element needs. */
    enum mr_memory_use use = least > want ? MR_MEMORY_HELD : MR_MEMORY_AHEAD;

    /* Doubled until it fits: elements that grow and grow take few logs, of which a chain has a
     * bounded number. */
    while (want < least) {
        want *= 2;
    }
    if (want > least && least > 0 &&
        mr_memory_is_short(w->memory, use, (size_t)with_copies(want))) {
        want = MR_MAX(SMALL_WINDOW_BYTES, least);
    }
    if (!mr_memory_charge(w->memory, use, (size_t)with_copies(want))) {
        return mr_memory_refused(w->memory, use, (size_t)with_copies(want), err);
    }
    *bytes = want;
    *taken = with_copies(want);
    w->taken += *taken;
    return MR_OK;
}

void mr_windows_give_memory(mr_windows *w, uint64_t taken)
{
    mr_memory_release(w->memory, (size_t)taken);
    MR_LOCK(&w->lock);
    w->taken -= taken;
}

int64_t mr_windows_retry_ms(const mr_windows *w)
{
    return w->retry_ms;
}

void mr_windows_degraded(mr_windows *w, const mr_error *why)
{
    int kind = -why->code;

    MR_LOCK(&w->lock);
    w->progress.failures++;
    w->progress.failures_by[kind > 0 && kind < MR_CODES ? kind : -MR_EUNKNOWN]++;
    w->in_memory++;
    (void)snprintf(w->progress.degraded, sizeof w->progress.degraded, "%s", why->message);
}

void mr_windows_restored(mr_windows *w)
{
    MR_LOCK(&w->lock);
    w->in_memory--;
    if (w->in_memory == 0) {
        w->progress.degraded[0] = '\0';
    }
}

void mr_windows_progress(mr_windows *w, struct mr_windows_progress *ret)
{
    MR_LOCK(&w->lock);
    *ret = w->progress;
}
