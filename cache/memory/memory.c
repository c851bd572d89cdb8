#include "base/limits.h"
#include "cache/internal.h"

#define BYTES_MIN (2 * MR_MIB)

struct record {
    TAILQ_ENTRY(record) link;
    _Atomic unsigned refs;
    uint64_t key;
    uint64_t file; /* 0: not in one yet */
    size_t size;
    unsigned char data[];
};

struct memory_log {
    mr_storage_log base;
    pthread_mutex_t lock; /* guards everything below */
    uint64_t files;
    TAILQ_HEAD(recordhead, record)
    records; /* by key; as many as a window in memory has, which are not many */
};

static void unref(struct record *r)
{
    if (atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) == 1) {
        mr_free(r);
    }
}

static int create(mr_storage *s, uint64_t id, mr_storage_log **ret, mr_error *err)
{
    struct memory_log *log = mr_calloc(1, sizeof *log);

    MR_CHECK_ALLOC(log, err);
    log->base.storage = s;
    mr_mutex_init(&log->lock);
    TAILQ_INIT(&log->records);
    *ret = &log->base;
    return MR_OK;
}

static int put(mr_storage_log *base, uint64_t key, const struct iovec *iov, size_t n, mr_error *err)
{
    struct memory_log *log = (struct memory_log *)base;
    size_t size = 0;

    for (size_t i = 0; i < n; i++) {
        size += iov[i].iov_len;
    }
    struct record *r = mr_malloc(sizeof *r + size);
    MR_CHECK_ALLOC(r, err);
    *r = (struct record){.key = key, .size = 0};
    atomic_init(&r->refs, 1);
    for (size_t i = 0; i < n; i++) {
        memcpy(r->data + r->size, iov[i].iov_base, iov[i].iov_len);
        r->size += iov[i].iov_len;
    }
    MR_LOCK(&log->lock);
    MR_ASSERT(TAILQ_EMPTY(&log->records) || TAILQ_LAST(&log->records, recordhead)->key < key);
    TAILQ_INSERT_TAIL(&log->records, r, link);
    return MR_OK;
}

static int flush(mr_storage_log *base, struct mr_storage_file *ret, mr_error *err)
{
    struct memory_log *log = (struct memory_log *)base;
    struct mr_storage_file file = {0, 0};
    struct record *r;

    MR_LOCK(&log->lock);
    log->files++;
    TAILQ_FOREACH(r, &log->records, link) {
        if (r->file == 0) {
            r->file = log->files;
            file.last = r->key;
            file.bytes += r->size;
        }
    }
    *ret = file;
    return MR_OK;
}

static int remove_oldest(mr_storage_log *base, mr_error *err)
{
    struct memory_log *log = (struct memory_log *)base;

    MR_LOCK(&log->lock);
    struct record *r = TAILQ_FIRST(&log->records);
    MR_ASSERT(r != NULL);
    uint64_t file = r->file;
    MR_ASSERT(file != 0);
    while (r != NULL && r->file == file) {
        TAILQ_REMOVE(&log->records, r, link);
        unref(r);
        r = TAILQ_FIRST(&log->records);
    }
    return MR_OK;
}

static struct record *find_locked(struct memory_log *log, uint64_t key, bool upwards)
{
    struct record *r;

    TAILQ_FOREACH_REVERSE(r, &log->records, recordhead, link) {
        if (r->key <= key) {
            return upwards && r->key < key ? TAILQ_NEXT(r, link) : r;
        }
    }
    return upwards ? TAILQ_FIRST(&log->records) : NULL;
}

static int get(mr_storage_log *base, uint64_t key, struct mr_storage_value *ret, mr_error *err)
{
    struct memory_log *log = (struct memory_log *)base;

    MR_LOCK(&log->lock);
    struct record *r = find_locked(log, key, true /* upwards */);
    if (r == NULL || r->key != key) {
        return mr_error_set(err, MR_ENOTFOUND, "no such record");
    }
    atomic_fetch_add(&r->refs, 1);
    *ret = (struct mr_storage_value){r->data, r->size, r};
    return MR_OK;
}

static void release(mr_storage *s, struct mr_storage_value *value)
{
    unref(value->handle);
}

static int find_key(mr_storage_log *base, uint64_t key, bool upwards, uint64_t *ret, mr_error *err)
{
    struct memory_log *log = (struct memory_log *)base;

    MR_LOCK(&log->lock);
    struct record *r = find_locked(log, key, upwards);
    if (r == NULL) {
        return mr_error_set(err, MR_ENOTFOUND, "no such record");
    }
    *ret = r->key;
    return MR_OK;
}

static int drop(mr_storage_log *base, mr_error *err)
{
    struct memory_log *log = (struct memory_log *)base;
    struct record *r;

    while ((r = TAILQ_FIRST(&log->records)) != NULL) {
        TAILQ_REMOVE(&log->records, r, link);
        unref(r);
    }
    (void)pthread_mutex_destroy(&log->lock);
    mr_free(log);
    return MR_OK;
}

static int reset(mr_storage *s, mr_error *err)
{
    return MR_OK; /* Nothing fails here. */
}

static void close_memory(mr_storage *s)
{
    mr_free(s);
}

const struct mr_storage_ops mr_memory_storage_ops = {
    .create = create,
    .put = put,
    .flush = flush,
    .remove_oldest = remove_oldest,
    .get = get,
    .release = release,
    .find = find_key,
    .drop = drop,
    .reset = reset,
    .close = close_memory,
};

int mr_cache_open_memory(uint64_t bytes_max, mr_cache **ret, mr_error *err)
{
    struct mr_cache_limits limits = {.log_bytes_max = bytes_max,
                                     .log_bytes_min = BYTES_MIN,
                                     .log_memory_bytes =
                                         bytes_max / 4 /* the most a window takes */,
                                     .logs_max = 1};

    if (bytes_max < BYTES_MIN) {
        return mr_error_set(err, MR_EINVAL,
                            "%" PRIu64 " bytes are too few for a window, %llu is the least",
                            bytes_max, BYTES_MIN);
    }
    mr_storage *storage = mr_malloc(sizeof *storage);
    MR_CHECK_ALLOC(storage, err);
    *storage = (mr_storage){&mr_memory_storage_ops, "memory"};
    return mr_cache_new(storage, &limits, ret, err);
}
