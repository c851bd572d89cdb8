#include "cache/fake/fake.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/sync.h"

#include <millrace/dataset.h> /* mr_free */
#include <stdatomic.h>
#include <string.h>
#include <sys/queue.h>

struct record {
    TAILQ_ENTRY(record) link;
    _Atomic unsigned refs;
    uint64_t key;
    uint64_t file; /* 0: not in one yet */
    size_t size;
    unsigned char data[];
};

struct fake {
    mr_storage base;
    pthread_mutex_t lock; /* guards everything, logs included */
    pthread_cond_t released;
    bool hold;
    uint64_t faults[MR_FAKE_FAULTS];
    uint64_t bytes;
    unsigned logs, resets;
    uint64_t next_file;
};

struct fake_log {
    mr_storage_log base;
    TAILQ_HEAD(recordhead, record) records;
};

static void unref(struct record *r)
{
    if (atomic_fetch_sub(&r->refs, 1) == 1) {
        mr_free(r);
    }
}

static bool fault_locked(struct fake *f, enum mr_storage_fake_fault fault)
{
    return f->faults[fault] > 0 && --f->faults[fault] == 0;
}

static struct fake *fake_of(mr_storage_log *log)
{
    return (struct fake *)log->storage;
}

static int create(mr_storage *s, uint64_t id, mr_storage_log **ret, mr_error *err)
{
    struct fake *f = (struct fake *)s;
    struct fake_log *log;

    MR_LOCK(&f->lock);
    if (fault_locked(f, MR_FAKE_CREATE)) {
        return mr_error_set(err, MR_EUNAVAIL, "an injected fault of create");
    }
    log = mr_calloc(1, sizeof *log);
    if (log == NULL) {
        return mr_error_nomem(err);
    }
    log->base.storage = s;
    TAILQ_INIT(&log->records);
    f->logs++;
    *ret = &log->base;
    return MR_OK;
}

static int put(mr_storage_log *base, uint64_t key, const struct iovec *iov, size_t n, mr_error *err)
{
    struct fake_log *log = (struct fake_log *)base;
    struct fake *f = fake_of(base);
    struct record *r;
    size_t size = 0;

    for (size_t i = 0; i < n; i++) {
        size += iov[i].iov_len;
    }
    r = mr_malloc(sizeof *r + size);
    if (r == NULL) {
        return mr_error_nomem(err);
    }
    *r = (struct record){.key = key, .size = 0};
    atomic_init(&r->refs, 1);
    for (size_t i = 0; i < n; i++) {
        memcpy(r->data + r->size, iov[i].iov_base, iov[i].iov_len);
        r->size += iov[i].iov_len;
    }
    MR_LOCK(&f->lock);
    if (fault_locked(f, MR_FAKE_PUT)) {
        mr_free(r);
        return mr_error_set(err, MR_EEXHAUSTED, "an injected fault of put");
    }
    MR_ASSERT(TAILQ_EMPTY(&log->records) || TAILQ_LAST(&log->records, recordhead)->key < key);
    TAILQ_INSERT_TAIL(&log->records, r, link);
    return MR_OK;
}

static int flush(mr_storage_log *base, struct mr_storage_file *ret, mr_error *err)
{
    struct fake_log *log = (struct fake_log *)base;
    struct fake *f = fake_of(base);
    struct mr_storage_file file = {0, 0};
    struct record *r;

    MR_LOCK(&f->lock);
    while (f->hold) {
        mr_cond_wait(&f->released, &f->lock);
    }
    if (fault_locked(f, MR_FAKE_FLUSH)) {
        return mr_error_set(err, MR_EEXHAUSTED, "an injected fault of flush");
    }
    f->next_file++;
    TAILQ_FOREACH(r, &log->records, link)
    {
        if (r->file == 0) {
            r->file = f->next_file;
            file.last = r->key;
            file.bytes += r->size;
        }
    }
    f->bytes += file.bytes;
    *ret = file;
    return MR_OK;
}

static int remove_oldest(mr_storage_log *base, mr_error *err)
{
    struct fake_log *log = (struct fake_log *)base;
    struct fake *f = fake_of(base);
    struct record *r;
    uint64_t file;

    MR_LOCK(&f->lock);
    if (fault_locked(f, MR_FAKE_REMOVE)) {
        return mr_error_set(err, MR_EUNAVAIL, "an injected fault of remove");
    }
    r = TAILQ_FIRST(&log->records);
    MR_ASSERT(r != NULL);
    file = r->file;
    MR_ASSERT(file != 0);
    while (r != NULL && r->file == file) {
        TAILQ_REMOVE(&log->records, r, link);
        f->bytes -= r->size;
        unref(r);
        r = TAILQ_FIRST(&log->records);
    }
    return MR_OK;
}

static struct record *find_locked(struct fake_log *log, uint64_t key, bool exact)
{
    struct record *r;

    TAILQ_FOREACH_REVERSE(r, &log->records, recordhead, link)
    {
        if (r->key <= key) {
            return exact && r->key != key ? NULL : r;
        }
    }
    return NULL;
}

/* A copy of @r with one bit turned. */
static struct record *flipped(const struct record *r)
{
    struct record *copy = mr_malloc(sizeof *r + r->size);

    if (copy != NULL) {
        *copy = (struct record){.key = r->key, .size = r->size};
        memcpy(copy->data, r->data, r->size);
        copy->data[r->key % r->size] ^= 1;
        atomic_init(&copy->refs, 1);
    }
    return copy;
}

static int get(mr_storage_log *base, uint64_t key, struct mr_storage_value *ret, mr_error *err)
{
    struct fake *f = fake_of(base);
    struct record *r;

    MR_LOCK(&f->lock);
    if (fault_locked(f, MR_FAKE_READ)) {
        return mr_error_set(err, MR_EUNAVAIL, "an injected fault of get");
    }
    r = find_locked((struct fake_log *)base, key, true);
    if (fault_locked(f, MR_FAKE_LOSE) || r == NULL) {
        return mr_error_set(err, MR_ENOTFOUND, "no such record");
    }
    if (fault_locked(f, MR_FAKE_FLIP)) {
        r = flipped(r);
        if (r == NULL) {
            return mr_error_nomem(err);
        }
    } else {
        atomic_fetch_add(&r->refs, 1);
    }
    *ret = (struct mr_storage_value){r->data, r->size, r};
    return MR_OK;
}

static void release(mr_storage *s, struct mr_storage_value *value)
{
    unref(value->handle);
}

static int floor_key(mr_storage_log *base, uint64_t key, uint64_t *ret, mr_error *err)
{
    struct fake *f = fake_of(base);
    struct record *r;

    MR_LOCK(&f->lock);
    r = find_locked((struct fake_log *)base, key, false);
    if (r == NULL) {
        return mr_error_set(err, MR_ENOTFOUND, "no such record");
    }
    *ret = r->key;
    return MR_OK;
}

static int drop(mr_storage_log *base, mr_error *err)
{
    struct fake_log *log = (struct fake_log *)base;
    struct fake *f = fake_of(base);
    struct record *r;

    MR_LOCK(&f->lock);
    while ((r = TAILQ_FIRST(&log->records)) != NULL) {
        TAILQ_REMOVE(&log->records, r, link);
        f->bytes -= r->file == 0 ? 0 : r->size;
        unref(r);
    }
    f->logs--;
    mr_free(log);
    return MR_OK;
}

static int reset(mr_storage *s, mr_error *err)
{
    struct fake *f = (struct fake *)s;

    MR_LOCK(&f->lock);
    MR_ASSERT(f->logs == 0);
    f->resets++;
    return MR_OK;
}

static void close_fake(mr_storage *s)
{
    struct fake *f = (struct fake *)s;

    MR_ASSERT(f->logs == 0);
    MR_ASSERT(f->bytes == 0);
    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->released);
    mr_free(f);
}

int mr_storage_fake_new(mr_storage **ret, mr_error *err)
{
    static const struct mr_storage_ops ops = {
        .create = create,
        .put = put,
        .flush = flush,
        .remove_oldest = remove_oldest,
        .get = get,
        .release = release,
        .floor = floor_key,
        .drop = drop,
        .reset = reset,
        .close = close_fake,
    };
    struct fake *f = mr_calloc(1, sizeof *f);

    if (f == NULL) {
        return mr_error_nomem(err);
    }
    f->base = (mr_storage){&ops, "memory"};
    mr_mutex_init(&f->lock);
    mr_cond_init(&f->released);
    *ret = &f->base;
    return MR_OK;
}

void mr_storage_fake_fail(mr_storage *s, enum mr_storage_fake_fault fault, uint64_t nth)
{
    struct fake *f = (struct fake *)s;

    MR_LOCK(&f->lock);
    f->faults[fault] = nth;
}

void mr_storage_fake_hold_flush(mr_storage *s, bool hold)
{
    struct fake *f = (struct fake *)s;

    MR_LOCK(&f->lock);
    f->hold = hold;
    pthread_cond_broadcast(&f->released);
}

uint64_t mr_storage_fake_bytes(mr_storage *s)
{
    struct fake *f = (struct fake *)s;

    MR_LOCK(&f->lock);
    return f->bytes;
}

unsigned mr_storage_fake_resets(mr_storage *s)
{
    struct fake *f = (struct fake *)s;

    MR_LOCK(&f->lock);
    return f->resets;
}
