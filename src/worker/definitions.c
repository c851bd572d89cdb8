#include "worker/definitions.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/sync.h"

#include <millrace/dataset.h> /* mr_free */
#include <string.h>
#include <sys/queue.h>

/* All that are kept and that nobody uses at the moment. */
#define IDLE_BYTES_MAX (128 * MR_MIB)
#define IDLE_MAX 64u

struct mr_kept_definition {
    TAILQ_ENTRY(mr_kept_definition) link; /* the one used last stands last */
    char *fingerprint;
    struct mr_definition_bytes bytes; /* set once; data NULL: it is being fetched */
    unsigned users;
    bool charged;
};

TAILQ_HEAD(kept_list, mr_kept_definition);

struct mr_definitions {
    mr_memory *memory;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    struct kept_list list;
    size_t idle;
    uint64_t idle_bytes;
};

int mr_definitions_new(mr_memory *memory, mr_definitions **ret, mr_error *err)
{
    mr_definitions *d = mr_calloc(1, sizeof *d);

    if (d == NULL) {
        return mr_error_nomem(err);
    }
    d->memory = mr_memory_ref(memory);
    mr_mutex_init(&d->lock);
    mr_cond_init(&d->changed);
    TAILQ_INIT(&d->list);
    *ret = d;
    return MR_OK;
}

static void drop_locked(mr_definitions *d, struct mr_kept_definition *k)
{
    TAILQ_REMOVE(&d->list, k, link);
    mr_memory_release(d->memory, k->charged ? k->bytes.size : 0);
    mr_free(k->bytes.data);
    mr_free(k->fingerprint);
    mr_free(k);
}

void mr_definitions_free(mr_definitions *d)
{
    if (d == NULL) {
        return;
    }
    while (!TAILQ_EMPTY(&d->list)) {
        drop_locked(d, TAILQ_FIRST(&d->list));
    }
    mr_memory_unref(d->memory);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
    mr_free(d);
}

static struct mr_kept_definition *find_locked(mr_definitions *d, const char *fingerprint)
{
    struct mr_kept_definition *k;

    TAILQ_FOREACH(k, &d->list, link)
    {
        if (fingerprint[0] != '\0' && strcmp(k->fingerprint, fingerprint) == 0) {
            return k;
        }
    }
    return NULL;
}

static void use_locked(mr_definitions *d, struct mr_kept_definition *k)
{
    if (k->users++ == 0) {
        d->idle--;
        d->idle_bytes -= k->bytes.size;
    }
    TAILQ_REMOVE(&d->list, k, link);
    TAILQ_INSERT_TAIL(&d->list, k, link);
}

/* One to be fetched, by its only user. */
static struct mr_kept_definition *add_locked(mr_definitions *d, const char *fingerprint)
{
    struct mr_kept_definition *k = mr_calloc(1, sizeof *k);

    if (k != NULL) {
        k->fingerprint = mr_strdup(fingerprint);
        k->users = 1;
    }
    if (k == NULL || k->fingerprint == NULL) {
        mr_free(k);
        return NULL;
    }
    TAILQ_INSERT_TAIL(&d->list, k, link);
    return k;
}

/* Somebody else has it, or fetches it: *@ret. MR_OK with NULL: nobody does. */
static struct mr_kept_definition *take_locked(mr_definitions *d, const char *fingerprint)
{
    struct mr_kept_definition *k = find_locked(d, fingerprint);

    while (k != NULL && k->bytes.data == NULL) {
        mr_cond_wait(&d->changed, &d->lock);
        k = find_locked(d, fingerprint);
    }
    if (k != NULL) {
        use_locked(d, k);
    }
    return k;
}

int mr_definitions_get(mr_definitions *d, const char *fingerprint,
                       int (*fetch)(void *ctx, struct mr_definition_bytes *ret, mr_error *err), void *ctx,
                       struct mr_kept_definition **ret, mr_error *err)
{
    struct mr_definition_bytes bytes = {NULL, 0};
    struct mr_kept_definition *k;

    mr_mutex_lock(&d->lock);
    *ret = take_locked(d, fingerprint);
    k = *ret == NULL ? add_locked(d, fingerprint) : NULL;
    mr_mutex_unlock(&d->lock);
    if (*ret != NULL) {
        return MR_OK;
    }
    if (k == NULL) {
        return mr_error_nomem(err);
    }
    int rc = fetch(ctx, &bytes, err);
    if (rc == MR_OK && bytes.data == NULL) {
        rc = mr_error_set(err, MR_EDATALOSS, "the definition of %s is empty", fingerprint);
    }
    MR_LOCK(&d->lock);
    (void)pthread_cond_broadcast(&d->changed);
    if (rc < 0) {
        drop_locked(d, k);
        return rc;
    }
    k->bytes = bytes;
    /* Refused: it is used, and not kept. */
    k->charged = fingerprint[0] != '\0' && mr_memory_charge(d->memory, MR_MEMORY_AHEAD, bytes.size);
    *ret = k;
    return MR_OK;
}

/* The oldest that nobody uses; there is one. */
static void drop_oldest_locked(mr_definitions *d)
{
    struct mr_kept_definition *k = TAILQ_FIRST(&d->list);

    while (k->users > 0) {
        k = TAILQ_NEXT(k, link);
    }
    d->idle--;
    d->idle_bytes -= k->bytes.size;
    drop_locked(d, k);
}

void mr_definitions_release(mr_definitions *d, struct mr_kept_definition *k)
{
    MR_LOCK(&d->lock);
    if (--k->users > 0) {
        return;
    }
    if (!k->charged) {
        drop_locked(d, k);
        return;
    }
    d->idle++;
    d->idle_bytes += k->bytes.size;
    while (d->idle > 0 && (d->idle > IDLE_MAX || d->idle_bytes > IDLE_BYTES_MAX)) {
        drop_oldest_locked(d);
    }
}

struct mr_definition_bytes mr_definition_bytes(const struct mr_kept_definition *k)
{
    return k->bytes;
}
