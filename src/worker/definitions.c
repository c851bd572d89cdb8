#include "worker/definitions.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/sync.h"

/* All that are kept and that nobody uses at the moment. */
#define IDLE_BYTES_MAX (128 * MR_MIB)
#define IDLE_MAX 64u
/* From here on a definition, as it is sent, waits for its turn. */
#define LARGE_BYTES (1 * MR_MIB)
/* Memory that others than definitions give back, and tasks that are dropped, wake nobody: so often
 * is looked. */
#define LOOK_MS 100
/* The turn is waited for no longer. */
#define TURN_WAIT_MS 60000

TAILQ_HEAD(kept_list, mr_kept_definition);

struct mr_definitions {
    mr_memory *memory;
    int64_t wait_ms;
    pthread_mutex_t lock; /* guards everything below */
    pthread_cond_t changed;
    struct kept_list list;
    size_t idle;
    uint64_t idle_bytes;
    bool turn_taken;
    unsigned waiting; /* for room */
    uint64_t let_go;  /* bytes of those that were not used any more, in all */
};

/* ---- what is kept ---- */

/* What is idle is counted, and what is being fetched is in use. */
__attribute__((unused)) static bool check_locked(const mr_definitions *d)
{
    const struct mr_kept_definition *k;
    uint64_t idle_bytes = 0;
    size_t idle = 0;

    TAILQ_FOREACH(k, &d->list, link) {
        if (k->users == 0 && k->parts.def == NULL) {
            return false;
        }
        idle += k->users == 0;
        idle_bytes += k->users == 0 ? k->bytes : 0;
    }
    return idle == d->idle && idle_bytes == d->idle_bytes;
}

/* Unlinked, and nobody has it. The constants count until the last block of them is gone. */
static void kept_free(mr_definitions *d, struct mr_kept_definition *k)
{
    mr_memory_release(d->memory, k->charged);
    mr_definition_parts_free(&k->parts);
    mr_free(k->fingerprint);
    mr_free(k);
}

/* The oldest that nobody uses, taken off the list, or NULL. */
static struct mr_kept_definition *take_oldest_locked(mr_definitions *d)
{
    struct mr_kept_definition *k = d->idle > 0 ? TAILQ_FIRST(&d->list) : NULL;

    while (k != NULL && k->users > 0) {
        k = TAILQ_NEXT(k, link);
    }
    if (k != NULL) {
        TAILQ_REMOVE(&d->list, k, link);
        d->idle--;
        d->idle_bytes -= k->bytes;
    }
    MR_ASSERT_SLOW(check_locked(d));
    return k;
}

static bool give_way(void *ctx)
{
    mr_definitions *d = ctx;

    mr_mutex_lock(&d->lock);
    struct mr_kept_definition *k = take_oldest_locked(d);
    mr_mutex_unlock(&d->lock);
    if (k != NULL) {
        kept_free(d, k);
    }
    return k != NULL;
}

int mr_definitions_new(mr_memory *memory, int64_t wait_ms, mr_definitions **ret, mr_error *err)
{
    mr_definitions *d = mr_calloc(1, sizeof *d);

    MR_CHECK_ALLOC(d, err);
    d->memory = mr_memory_ref(memory);
    d->wait_ms = wait_ms;
    mr_mutex_init(&d->lock);
    mr_cond_init(&d->changed);
    TAILQ_INIT(&d->list);
    mr_memory_set_spare(memory, give_way, d);
    *ret = d;
    return MR_OK;
}

void mr_definitions_free(mr_definitions *d)
{
    if (d == NULL) {
        return;
    }
    mr_memory_set_spare(d->memory, NULL, NULL);
    while (give_way(d)) {
    }
    mr_memory_unref(d->memory);
    (void)pthread_cond_destroy(&d->changed);
    (void)pthread_mutex_destroy(&d->lock);
    mr_free(d);
}

/* ---- waiting ---- */

/* MR_ECANCELED: it does not go on. */
static int ask_whether_to_wait(const struct mr_definition_wanted *wanted, mr_error *err)
{
    return wanted->goes_on(wanted->ctx)
               ? MR_OK
               : mr_error_set(err, MR_ECANCELED, "dataset '%s' is not wanted any more",
                              wanted->dataset);
}

/* Until there may be room: *@let_go was seen, and is again. */
static void wait_for_room(mr_definitions *d, uint64_t *let_go)
{
    MR_LOCK(&d->lock);
    if (*let_go == d->let_go) {
        (void)mr_cond_wait_ms(&d->changed, &d->lock, LOOK_MS);
    }
    *let_go = d->let_go;
}

/* Once for each wait. */
static void note_waiting(mr_definitions *d, const struct mr_definition_wanted *wanted, size_t bytes,
                         bool *noted)
{
    if (!*noted) {
        *noted = true;
        mr_mutex_lock(&d->lock);
        d->waiting++;
        mr_mutex_unlock(&d->lock);
        mr_log(MR_LOG_WARN, "a definition waits for memory", "dataset", "%s", wanted->dataset,
               "bytes", "%zu", bytes, "used", "%llu", (unsigned long long)mr_memory_used(d->memory),
               "budget", "%llu", (unsigned long long)mr_memory_limit(d->memory), NULL);
    }
}

static int no_room(const mr_definitions *d, const struct mr_definition_wanted *wanted, size_t bytes,
                   mr_error *err)
{
    return mr_error_set(
        err, MR_EEXHAUSTED,
        "dataset '%s': no room for its definition of %zu bytes, %llu of the memory budget of %llu "
        "are in use: give more (--memory-budget), use more workers, or read large arrays from "
        "files",
        wanted->dataset, bytes, (unsigned long long)mr_memory_used(d->memory),
        (unsigned long long)mr_memory_limit(d->memory));
}

/* Charge @bytes when there is room for them. *@noted: it had to wait for that. */
static int wait_to_charge(mr_definitions *d, const struct mr_definition_wanted *wanted,
                          size_t bytes, bool *noted, mr_error *err)
{
    int64_t since_ms = mr_now_ms();
    uint64_t let_go = 0;
    uint64_t begun = UINT64_MAX;

    while (!mr_memory_charge(d->memory, MR_MEMORY_HELD, bytes)) {
        if (begun == UINT64_MAX || let_go - begun >= bytes) {
            begun = let_go;
            since_ms = mr_now_ms();
        }
        if (mr_now_ms() - since_ms >= d->wait_ms) {
            return no_room(d, wanted, bytes, err);
        }
        note_waiting(d, wanted, bytes, noted);
        MR_TRY(ask_whether_to_wait(wanted, err));
        wait_for_room(d, &let_go);
    }
    return MR_OK;
}

/* Charge @bytes. Whoever waits for that has nothing. It waits on as long as others let go of as
 * much as it needs: then it is a matter of turns. */
static int take_room(mr_definitions *d, const struct mr_definition_wanted *wanted, size_t bytes,
                     mr_error *err)
{
    bool noted = false;

    if (bytes == 0) {
        return MR_OK; /* Not known: it is seen when it has come, and is waited for then. */
    }
    if (!mr_memory_could(d->memory, MR_MEMORY_HELD, bytes)) {
        return mr_error_set(err, MR_EEXHAUSTED,
                            "dataset '%s': its definition takes %zu bytes, more than 7/8 of the "
                            "memory budget of %llu: give more (--memory-budget), or read large "
                            "arrays from files",
                            wanted->dataset, bytes, (unsigned long long)mr_memory_limit(d->memory));
    }
    int rc = wait_to_charge(d, wanted, bytes, &noted, err);
    if (noted) {
        MR_LOCK(&d->lock);
        d->waiting--;
    }
    return rc;
}

unsigned mr_definitions_waiting(mr_definitions *d)
{
    MR_LOCK(&d->lock);
    return d->waiting;
}

static bool try_turn(mr_definitions *d, int64_t wait_ms)
{
    MR_LOCK(&d->lock);
    if (d->turn_taken && wait_ms > 0) {
        (void)mr_cond_wait_ms(&d->changed, &d->lock, wait_ms);
    }
    bool taken = d->turn_taken;
    d->turn_taken = true;
    return !taken;
}

/* *@has: it is ours. Whoever has it for very long waits for a dispatcher, or for a job that is set
 * aside, and has no bytes yet: nobody is held up by that. */
static int take_turn(mr_definitions *d, const struct mr_definition_wanted *wanted, bool *has,
                     mr_error *err)
{
    int64_t until_ms = mr_now_ms() + MR_MIN(d->wait_ms, TURN_WAIT_MS);

    *has = false;
    if (wanted->sent_bytes > 0 && wanted->sent_bytes <= LARGE_BYTES) {
        return MR_OK;
    }
    *has = try_turn(d, 0);
    while (!*has && mr_now_ms() < until_ms) {
        MR_TRY(ask_whether_to_wait(wanted, err));
        *has = try_turn(d, LOOK_MS);
    }
    return MR_OK;
}

/* ---- fetching ---- */

/* Make what was charged, *@room, what is needed. false: there is no more, *@room is what to ask
 * for. */
static bool fit_room(mr_definitions *d, size_t needed, size_t *room)
{
    if (needed <= *room) {
        mr_memory_release(d->memory, *room - needed);
    } else if (!mr_memory_charge(d->memory, MR_MEMORY_HELD, needed - *room)) {
        mr_memory_release(d->memory, *room);
        *room = needed;
        return false;
    }
    *room = needed;
    return true;
}

/* Into @parts, for which *@room is charged; *@fits false: it is not any more, and has to be so
 * much. What is charged is nobody's on failure. */
static int take_apart(mr_definitions *d, struct mr_definition_bytes bytes,
                      struct mr_definition_parts *parts, size_t *room, bool *fits, mr_error *err)
{
    size_t expanded = 0;
    int rc = mr_definition_expanded(bytes.data, bytes.size, &expanded, err);

    *fits = rc < 0 || expanded <= *room || fit_room(d, expanded, room);
    if (rc == MR_OK && *fits) {
        mr_memory *before = mr_memory_enter(NULL); /* It is charged. */

        rc = mr_definition_unpack(bytes.data, bytes.size, parts, err);
        (void)mr_memory_enter(before);
    }
    if (rc < 0) {
        mr_memory_release(d->memory, *room);
    } else if (*fits && !fit_room(d, mr_definition_parts_bytes(parts), room)) {
        mr_definition_parts_free(parts);
        *fits = false;
    }
    return rc;
}

/* As take_apart(), of what is fetched. */
static int fetch(mr_definitions *d, const struct mr_definition_wanted *wanted,
                 struct mr_definition_parts *parts, size_t *room, bool *fits, mr_error *err)
{
    struct mr_definition_bytes bytes = {NULL, 0};
    bool turn = false;
    int rc = take_turn(d, wanted, &turn, err);

    if (rc == MR_OK) {
        rc = wanted->fetch(wanted->ctx, &bytes, err);
    }
    if (rc == MR_OK && bytes.data == NULL) {
        rc = mr_error_set(err, MR_EDATALOSS, "the definition of dataset '%s' is empty",
                          wanted->dataset);
    }
    if (rc < 0) {
        mr_memory_release(d->memory, *room);
    } else {
        rc = take_apart(d, bytes, parts, room, fits, err);
        if (rc < 0) {
            mr_error_wrap(err, "dataset '%s'", wanted->dataset);
        }
    }
    mr_free(bytes.data);
    if (turn) {
        MR_LOCK(&d->lock);
        d->turn_taken = false;
        (void)pthread_cond_broadcast(&d->changed);
    }
    return rc;
}

static int make(mr_definitions *d, const struct mr_definition_wanted *wanted,
                struct mr_kept_definition *k, mr_error *err)
{
    struct mr_definition_parts parts = {0};
    size_t room = (size_t)wanted->sent_bytes; /* as sent it has at most its size */
    bool fits = false;

    while (!fits) { /* It is fetched again when there is room for what it was seen to need. */
        MR_TRY(take_room(d, wanted, room, err));
        MR_TRY(fetch(d, wanted, &parts, &room, &fits, err));
    }
    for (size_t i = 0; i < parts.nconstants; i++) {
        mr_buffer_adopt_charge(parts.constants[i], d->memory);
    }
    MR_LOCK(&d->lock);
    k->parts = parts;
    k->bytes = room;
    k->charged = parts.def_bytes;
    return MR_OK;
}

/* ---- for tasks ---- */

static struct mr_kept_definition *find_locked(mr_definitions *d, const char *fingerprint)
{
    struct mr_kept_definition *k;

    TAILQ_FOREACH(k, &d->list, link) {
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
        d->idle_bytes -= k->bytes;
    }
    TAILQ_REMOVE(&d->list, k, link);
    TAILQ_INSERT_TAIL(&d->list, k, link);
    MR_ASSERT_SLOW(check_locked(d));
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

/* One that is kept, or an empty one to be made. What somebody makes is waited for. */
static int find_or_add(mr_definitions *d, const struct mr_definition_wanted *wanted,
                       struct mr_kept_definition **ret, mr_error *err)
{
    for (bool wait = false;; wait = true) {
        if (wait) {
            MR_TRY(ask_whether_to_wait(wanted, err));
        }
        MR_LOCK(&d->lock);
        struct mr_kept_definition *k = find_locked(d, wanted->fingerprint);
        if (wait && k != NULL && k->parts.def == NULL) {
            (void)mr_cond_wait_ms(&d->changed, &d->lock, LOOK_MS);
            k = find_locked(d, wanted->fingerprint);
        }
        if (k == NULL) {
            *ret = add_locked(d, wanted->fingerprint);
            return *ret != NULL ? MR_OK : mr_error_nomem(err);
        }
        if (k->parts.def != NULL) {
            use_locked(d, k);
            *ret = k;
            return MR_OK;
        }
    }
}

int mr_definitions_get(mr_definitions *d, const struct mr_definition_wanted *wanted,
                       struct mr_kept_definition **ret, mr_error *err)
{
    struct mr_kept_definition *k = NULL;
    int rc = MR_OK;

    MR_TRY(find_or_add(d, wanted, &k, err));
    if (k->parts.def == NULL) {
        rc = make(d, wanted, k, err);
        mr_mutex_lock(&d->lock);
        if (rc < 0) {
            TAILQ_REMOVE(&d->list, k, link);
        }
        (void)pthread_cond_broadcast(&d->changed);
        mr_mutex_unlock(&d->lock);
    }
    if (rc < 0) {
        kept_free(d, k);
    } else {
        *ret = k;
    }
    return rc;
}

/* One that does not stay, taken off the list, or NULL. What has no name nobody will find. */
static struct mr_kept_definition *take_surplus_locked(mr_definitions *d)
{
    const struct mr_kept_definition *k = TAILQ_FIRST(&d->list);
    bool nameless = k != NULL && k->users == 0 && k->fingerprint[0] == '\0';

    return nameless || d->idle > IDLE_MAX || d->idle_bytes > IDLE_BYTES_MAX ? take_oldest_locked(d)
                                                                            : NULL;
}

void mr_definitions_release(mr_definitions *d, struct mr_kept_definition *k)
{
    struct mr_kept_definition *gone;

    mr_mutex_lock(&d->lock);
    if (--k->users == 0) {
        d->idle++;
        d->idle_bytes += k->bytes;
        d->let_go += k->bytes;
        if (k->fingerprint[0] == '\0') {
            TAILQ_REMOVE(&d->list, k, link);
            TAILQ_INSERT_HEAD(&d->list, k, link);
        }
        (void)pthread_cond_broadcast(&d->changed);
    }
    while ((gone = take_surplus_locked(d)) != NULL) {
        mr_mutex_unlock(&d->lock);
        kept_free(d, gone);
        mr_mutex_lock(&d->lock);
    }
    mr_mutex_unlock(&d->lock);
}
