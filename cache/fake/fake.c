#include "cache/fake/fake.h"

#include "base/base.h"
#include "base/sync.h"

/* A real storage vouches for what it gives; whose it is says the beginning of a value. */
#define FLIPPED_BYTES 64u

struct fake {
    mr_storage base;
    struct mr_storage_ops ops; /* those of the memory, but for what may fail */
    pthread_mutex_t lock;      /* guards everything below */
    pthread_cond_t released;
    bool hold;
    uint64_t faults[MR_FAKE_FAULTS];
    unsigned resets;
};

/* What a value's handle is. */
struct fake_value {
    struct mr_storage_value real;
    unsigned char flipped[]; /* what was given instead, if it was */
};

static const struct mr_storage_ops *const memory = &mr_memory_storage_ops;

static struct fake *fake_of(mr_storage_log *log)
{
    return (struct fake *)log->storage;
}

/* Is it the one that is to fail? */
static bool fault(struct fake *f, enum mr_storage_fake_fault kind)
{
    MR_LOCK(&f->lock);
    return f->faults[kind] > 0 && --f->faults[kind] == 0;
}

static int create(mr_storage *s, uint64_t id, mr_storage_log **ret, mr_error *err)
{
    if (fault((struct fake *)s, MR_FAKE_CREATE)) {
        return mr_error_set(err, MR_EUNAVAIL, "an injected fault of create");
    }
    return memory->create(s, id, ret, err);
}

static int put(mr_storage_log *log, uint64_t key, const struct iovec *iov, size_t n, mr_error *err)
{
    if (fault(fake_of(log), MR_FAKE_PUT)) {
        return mr_error_set(err, MR_EEXHAUSTED, "an injected fault of put");
    }
    return memory->put(log, key, iov, n, err);
}

static int flush(mr_storage_log *log, struct mr_storage_file *ret, mr_error *err)
{
    struct fake *f = fake_of(log);

    mr_mutex_lock(&f->lock);
    while (f->hold) {
        mr_cond_wait(&f->released, &f->lock);
    }
    mr_mutex_unlock(&f->lock);
    if (fault(f, MR_FAKE_FLUSH)) {
        return mr_error_set(err, MR_EEXHAUSTED, "an injected fault of flush");
    }
    return memory->flush(log, ret, err);
}

static int remove_oldest(mr_storage_log *log, mr_error *err)
{
    if (fault(fake_of(log), MR_FAKE_REMOVE)) {
        return mr_error_set(err, MR_EUNAVAIL, "an injected fault of remove");
    }
    return memory->remove_oldest(log, err);
}

static int get(mr_storage_log *log, uint64_t key, struct mr_storage_value *ret, mr_error *err)
{
    struct fake *f = fake_of(log);
    struct mr_storage_value real;

    if (fault(f, MR_FAKE_READ)) {
        return mr_error_set(err, MR_EUNAVAIL, "an injected fault of get");
    }
    MR_TRY(fault(f, MR_FAKE_LOSE) ? mr_error_set(err, MR_ENOTFOUND, "an injected loss")
                                  : memory->get(log, key, &real, err));
    bool flip = fault(f, MR_FAKE_FLIP);
    struct fake_value *value = mr_malloc(sizeof *value + (flip ? real.size : 0));
    if (value == NULL) {
        memory->release(log->storage, &real);
        return mr_error_nomem(err);
    }
    value->real = real;
    *ret = (struct mr_storage_value){real.data, real.size, value};
    if (flip) {
        memcpy(value->flipped, real.data, real.size);
        value->flipped[key % MR_MIN(real.size, FLIPPED_BYTES)] ^= 1;
        ret->data = value->flipped;
    }
    return MR_OK;
}

static void release(mr_storage *s, struct mr_storage_value *ret)
{
    struct fake_value *value = ret->handle;

    memory->release(s, &value->real);
    mr_free(value);
}

static int reset(mr_storage *s, mr_error *err)
{
    struct fake *f = (struct fake *)s;

    MR_LOCK(&f->lock);
    f->resets++;
    return memory->reset(s, err);
}

static void close_fake(mr_storage *s)
{
    struct fake *f = (struct fake *)s;

    pthread_mutex_destroy(&f->lock);
    pthread_cond_destroy(&f->released);
    memory->close(s);
}

int mr_storage_fake_new(mr_storage **ret, mr_error *err)
{
    struct fake *f = mr_calloc(1, sizeof *f);

    MR_CHECK_ALLOC(f, err);
    f->ops = mr_memory_storage_ops;
    f->ops.create = create;
    f->ops.put = put;
    f->ops.flush = flush;
    f->ops.remove_oldest = remove_oldest;
    f->ops.get = get;
    f->ops.release = release;
    f->ops.reset = reset;
    f->ops.close = close_fake;
    f->base = (mr_storage){&f->ops, "memory"};
    mr_mutex_init(&f->lock);
    mr_cond_init(&f->released);
    *ret = &f->base;
    return MR_OK;
}

void mr_storage_fake_fail(mr_storage *s, enum mr_storage_fake_fault kind, uint64_t nth)
{
    struct fake *f = (struct fake *)s;

    MR_LOCK(&f->lock);
    f->faults[kind] = nth;
}

void mr_storage_fake_hold_flush(mr_storage *s, bool hold)
{
    struct fake *f = (struct fake *)s;

    MR_LOCK(&f->lock);
    f->hold = hold;
    pthread_cond_broadcast(&f->released);
}

unsigned mr_storage_fake_resets(mr_storage *s)
{
    struct fake *f = (struct fake *)s;

    MR_LOCK(&f->lock);
    return f->resets;
}
