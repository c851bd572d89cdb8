#include "engine/profile.h"

#include "base/sync.h"
#include "dataset/location.h"

/* Stages wait for each other in the order of the graph: following them ends, unless they move on
 * while it is done. */
#define STEPS_MAX 256u
/* Of the user's line. */
#define LOCATION_BYTES 64u

/* What all threads do, as it was when somebody looked. */
struct view {
    uint32_t words[MR_PROFILE_THREADS];
    uint32_t stages[MR_PROFILE_THREADS];
    uint32_t n;
};

int mr_profile_new(struct mr_profile **ret, mr_error *err)
{
    struct mr_profile *p = mr_malloc_aligned(sizeof *p);

    MR_CHECK_ALLOC(p, err);
    memset(p, 0, sizeof *p);
    mr_mutex_init(&p->lock);
    for (uint32_t i = 0; i < MR_PROFILE_THREADS; i++) {
        mr_mutex_init(&p->places[i].doing.lock);
    }
    *ret = p;
    return MR_OK;
}

void mr_profile_free(struct mr_profile *p)
{
    if (p == NULL) {
        return;
    }
    MR_ASSERT(atomic_load(&p->taken) == 0);
    for (uint32_t i = 0; i < MR_PROFILE_THREADS; i++) {
        (void)pthread_mutex_destroy(&p->places[i].doing.lock);
    }
    (void)pthread_mutex_destroy(&p->lock);
    mr_free(p);
}

/* Its number; 0: it has none yet. */
static uint32_t find(const struct mr_profile *p, const mr_dataset *ds)
{
    uint32_t n = atomic_load_explicit(&p->noperators, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++) {
        if (p->ds[i] == ds) {
            return i + 1;
        }
    }
    return 0;
}

static uint32_t add(struct mr_profile *p, const mr_dataset *ds)
{
    MR_LOCK(&p->lock);
    uint32_t number = find(p, ds); /* another thread may have added it */
    uint32_t n = atomic_load_explicit(&p->noperators, memory_order_relaxed);

    if (number == 0 && n < MR_PROFILE_OPERATORS) {
        p->ds[n] = ds;
        number = n + 1;
        atomic_store_explicit(&p->noperators, number, memory_order_release);
    }
    return number != 0 ? number : MR_PROFILE_OPERATORS;
}

uint32_t mr_profile_number(struct mr_profile *p, const mr_dataset *ds)
{
    uint32_t number = p == NULL ? 0 : find(p, ds);

    return p == NULL || number != 0 ? number : add(p, ds);
}

struct mr_doing *mr_profile_take(struct mr_profile *p, uint32_t stage)
{
    uint64_t taken = p == NULL ? UINT64_MAX : atomic_load(&p->taken);

    while (taken != UINT64_MAX) {
        uint64_t free = ~taken & (taken + 1); /* the lowest bit that is not set */

        if (atomic_compare_exchange_weak(&p->taken, &taken, taken | free)) {
            struct mr_profile_place *place = &p->places[__builtin_ctzll(free)];

            atomic_store(&place->stage, stage);
            return &place->doing;
        }
    }
    return NULL;
}

void mr_profile_leave(struct mr_profile *p, struct mr_doing *doing)
{
    if (doing != NULL) {
        size_t i = (size_t)((struct mr_profile_place *)doing - p->places); /* first member */

        atomic_store(&doing->word, 0);
        (void)atomic_fetch_and(&p->taken, ~(UINT64_C(1) << i));
    }
}

void mr_profile_gave_way(struct mr_profile *p)
{
    if (p != NULL) {
        (void)atomic_fetch_add_explicit(&p->gave_way, 1, memory_order_relaxed);
    }
}

/* ---- looking ---- */

static void see(struct mr_profile *p, struct view *v)
{
    uint64_t taken = atomic_load(&p->taken);

    v->n = 0;
    for (; taken != 0; taken &= taken - 1) {
        struct mr_profile_place *place = &p->places[__builtin_ctzll(taken)];
        uint32_t word = atomic_load_explicit(&place->doing.word, memory_order_relaxed);
        uint32_t whose = mr_doing_whose(word);

        if (whose == 0 || whose > MR_PROFILE_OPERATORS) {
            continue;
        }
        if (mr_doing_what(word) == MR_DOING_STORAGE) {
            MR_LOCK(&place->doing.lock);
            memcpy(p->operators[whose - 1].path, place->doing.path, sizeof place->doing.path);
        }
        v->words[v->n] = word;
        v->stages[v->n++] = atomic_load(&place->stage);
    }
}

static uint32_t count_stage(const struct view *v, uint32_t stage)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < v->n; i++) {
        n += v->stages[i] == stage;
    }
    return n;
}

/* @ns that somebody waited for @stage go to what its threads do; where that is waiting for further
 * stages, to @waits. */
static void follow(struct mr_profile *p, const struct view *v, uint32_t stage, uint64_t ns,
                   uint64_t *waits)
{
    uint32_t n = count_stage(v, stage);

    if (n == 0) { /* it was handed over, and nobody has begun with it */
        p->pool_ns += ns;
    }
    for (uint32_t i = 0; i < v->n; i++) {
        uint32_t whose = mr_doing_whose(v->words[i]);
        enum mr_doing_what what = mr_doing_what(v->words[i]);

        if (v->stages[i] != stage) {
            continue;
        }
        if (what == MR_DOING_STAGE) {
            waits[whose] += ns / n;
        } else {
            p->operators[whose - 1].ns[what] += ns / n;
        }
    }
}

bool mr_profile_look(struct mr_profile *p, uint64_t ns)
{
    uint64_t waits[MR_PROFILE_OPERATORS + 1] = {0}; /* for the stage of that operator */
    uint64_t gave_way = atomic_load_explicit(&p->gave_way, memory_order_relaxed);
    uint32_t steps = 0;
    struct view v;

    see(p, &v);
    if (count_stage(&v, 0) == 0) {
        return false;
    }
    p->memory_ns += gave_way != p->gave_way_seen ? ns : 0;
    p->gave_way_seen = gave_way;
    follow(p, &v, 0, ns, waits);
    for (uint32_t i = 1; i <= MR_PROFILE_OPERATORS && steps < STEPS_MAX; i++) {
        if (waits[i] > 0) {
            uint64_t more = waits[i];

            waits[i] = 0;
            follow(p, &v, i, more, waits);
            steps++;
            i = 0; /* numbers say nothing of the order */
        }
    }
    return true;
}

/* Among those that took most, or with the others. */
static void keep(struct mr_engine_times *ret, const struct mr_profile_operator *from,
                 const mr_dataset *ds)
{
    uint64_t ns = from->ns[MR_DOING_WORK] + from->ns[MR_DOING_STORAGE];
    struct mr_engine_operator_time *one = &ret->operators[0];

    if (ns == 0) {
        return;
    }
    for (size_t i = 1; i < ret->n; i++) {
        struct mr_engine_operator_time *other = &ret->operators[i];

        one = other->work_ns + other->storage_ns < one->work_ns + one->storage_ns ? other : one;
    }
    if (ret->n < MR_ENGINE_TIMES) {
        one = &ret->operators[ret->n++];
    } else if (one->work_ns + one->storage_ns < ns) {
        ret->others_ns += one->work_ns + one->storage_ns;
    } else {
        ret->others_ns += ns;
        return;
    }
    (void)mr_operator_text(ds, LOCATION_BYTES, one->name);
    memcpy(one->path, from->path, sizeof one->path);
    one->work_ns = from->ns[MR_DOING_WORK];
    one->storage_ns = from->ns[MR_DOING_STORAGE];
}

void mr_profile_read(const struct mr_profile *p, struct mr_engine_times *ret)
{
    *ret = (struct mr_engine_times){.pool_ns = p->pool_ns, .memory_ns = p->memory_ns};

    uint32_t n = atomic_load_explicit(&p->noperators, memory_order_acquire);

    for (uint32_t i = 0; i < n; i++) {
        ret->splits_ns += p->operators[i].ns[MR_DOING_SPLITS];
        keep(ret, &p->operators[i], p->ds[i]);
    }
}
