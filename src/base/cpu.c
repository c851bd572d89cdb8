#include "base/cpu.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/sync.h"

struct owner {
    struct mr_fair_share fair; /* first member */
    TAILQ_ENTRY(owner) link;
    TAILQ_HEAD(, mr_cpu_share) jobs;
    char name[];
};

struct mr_cpu_share {
    struct mr_fair_share fair; /* first member */
    struct owner *owner;
    TAILQ_ENTRY(mr_cpu_share) link;
    atomic_uint refs;
    uint32_t threads; /* that have entered */
    char name[];
};

static struct {
    pthread_mutex_t lock; /* guards all that is here, shares included */
    bool ready;
    uint32_t cores;
    struct mr_fair fair;
    TAILQ_HEAD(, owner) owners;
    uint32_t jobs;  /* shares with threads */
    uint32_t gates; /* that have been closed so far */
} cpu = {.lock = PTHREAD_MUTEX_INITIALIZER, .cores = 1};

/* Each time that the gate closes it has another number: what was counted at an earlier one is not
 * counted at this one. Written under the lock. */
atomic_uint mr_cpu_gate;

static _Thread_local struct {
    mr_cpu_share *share;
    bool owns;     /* `share` is a reference */
    uint32_t gate; /* that counts this thread among what runs; 0: none */
    int64_t since_ns;
    bool beyond;           /* there is no core for it */
    uint32_t charged_gate; /* charged_ns is of that one */
    int64_t charged_ns;    /* of the thread's CPU time */
    int64_t waited_ns;     /* at gates */
} me;

static uint32_t gate_locked(void)
{
    return atomic_load_explicit(&mr_cpu_gate, memory_order_relaxed);
}

static struct mr_cpu_work *work_of(struct mr_fair_piece *piece)
{
    return (struct mr_cpu_work *)piece; /* first member */
}

/* ---- shares ---- */

static void prepare_locked(void)
{
    if (!cpu.ready) {
        mr_fair_init(&cpu.fair, cpu.cores);
        TAILQ_INIT(&cpu.owners);
        cpu.ready = true;
    }
}

void mr_cpu_set_cores(uint32_t cores)
{
    MR_LOCK(&cpu.lock);
    MR_ASSERT(cores > 0);
    cpu.cores = cpu.fair.cores = cores;
}

static struct owner *owner_locked(const char *name)
{
    struct owner *owner;
    size_t size = strlen(name) + 1;

    TAILQ_FOREACH(owner, &cpu.owners, link) {
        if (strcmp(owner->name, name) == 0) {
            return owner;
        }
    }
    owner = mr_malloc(sizeof *owner + size);
    if (owner != NULL) {
        mr_fair_share_init(&owner->fair, &cpu.fair.root, MR_FAIR_WEIGHT_DEFAULT);
        TAILQ_INIT(&owner->jobs);
        TAILQ_INSERT_TAIL(&cpu.owners, owner, link);
        memcpy(owner->name, name, size);
    }
    return owner;
}

static void drop_unused_locked(struct owner *owner)
{
    if (TAILQ_EMPTY(&owner->jobs)) {
        TAILQ_REMOVE(&cpu.owners, owner, link);
        mr_free(owner);
    }
}

static mr_cpu_share *job_locked(struct owner *owner, const char *name)
{
    mr_cpu_share *share;
    size_t size = strlen(name) + 1;

    TAILQ_FOREACH(share, &owner->jobs, link) {
        if (strcmp(share->name, name) == 0) {
            return share;
        }
    }
    share = mr_malloc(sizeof *share + size);
    if (share != NULL) {
        *share = (mr_cpu_share){.owner = owner};
        mr_fair_share_init(&share->fair, &owner->fair, MR_FAIR_WEIGHT_DEFAULT);
        atomic_init(&share->refs, 0);
        TAILQ_INSERT_TAIL(&owner->jobs, share, link);
        memcpy(share->name, name, size);
    }
    return share;
}

static uint32_t weight_of(uint32_t weight)
{
    return weight == 0 ? MR_FAIR_WEIGHT_DEFAULT : MR_MIN(weight, MR_FAIR_WEIGHT_MAX);
}

int mr_cpu_share_get(const struct mr_cpu_names *names, mr_cpu_share **ret, mr_error *err)
{
    MR_LOCK(&cpu.lock);
    prepare_locked();
    struct owner *owner = owner_locked(names->owner);
    MR_CHECK_ALLOC(owner, err);
    mr_cpu_share *share = job_locked(owner, names->job);
    if (share == NULL) {
        drop_unused_locked(owner);
        return mr_error_nomem(err);
    }
    owner->fair.weight = weight_of(names->owner_weight);
    share->fair.weight = weight_of(names->weight);
    (void)atomic_fetch_add(&share->refs, 1);
    *ret = share;
    return MR_OK;
}

mr_cpu_share *mr_cpu_share_ref(mr_cpu_share *share)
{
    if (share != NULL) {
        (void)atomic_fetch_add(&share->refs, 1);
    }
    return share;
}

/* The last reference goes under the lock: nobody finds a share that is on its way out. */
void mr_cpu_share_unref(mr_cpu_share *share)
{
    unsigned refs = share != NULL ? atomic_load(&share->refs) : 0;

    while (refs > 1) {
        if (atomic_compare_exchange_weak(&share->refs, &refs, refs - 1)) {
            return;
        }
    }
    if (share == NULL) {
        return;
    }
    MR_LOCK(&cpu.lock);
    if (atomic_fetch_sub(&share->refs, 1) == 1) {
        struct owner *owner = share->owner;

        MR_ASSERT(share->threads == 0 && share->fair.wanting == 0);
        TAILQ_REMOVE(&owner->jobs, share, link);
        mr_free(share);
        drop_unused_locked(owner);
    }
}

/* ---- whose turn it is ---- */

static void go_locked(struct mr_fair_piece *piece)
{
    struct mr_cpu_work *work = work_of(piece);

    work->gate = gate_locked();
    work->go(work);
}

static void let_go_locked(void)
{
    int64_t now_ns = mr_now_ns();
    struct mr_fair_piece *piece;

    while ((piece = mr_fair_next(&cpu.fair, now_ns)) != NULL) {
        go_locked(piece);
    }
}

void mr_cpu_look(void)
{
    MR_LOCK(&cpu.lock);
    if (gate_locked() != 0) {
        let_go_locked();
    }
}

bool mr_cpu_is_short(void)
{
    if (atomic_load_explicit(&mr_cpu_gate, memory_order_relaxed) == 0) {
        return false;
    }
    MR_LOCK(&cpu.lock);
    return gate_locked() != 0 && cpu.fair.root.wanting > cpu.fair.root.running;
}

/* Nobody is in anybody's way any more: all that waits goes, and nothing is counted. */
static void open_gate_locked(void)
{
    struct mr_fair_piece *piece;

    while ((piece = mr_fair_any(&cpu.fair, mr_now_ns())) != NULL) {
        go_locked(piece);
    }
    atomic_store_explicit(&mr_cpu_gate, 0, memory_order_relaxed);
    mr_fair_forget(&cpu.fair);
}

static void close_gate_locked(void)
{
    cpu.gates += cpu.gates == UINT32_MAX ? 2 : 1; /* never 0 */
    atomic_store_explicit(&mr_cpu_gate, cpu.gates, memory_order_relaxed);
}

/* Charges what this thread has used. It is not counted any more. */
static void settle_locked(void)
{
    int64_t cpu_ns = mr_thread_cpu_ns();
    uint32_t gate = gate_locked();

    if (gate != 0 && me.charged_gate == gate) {
        mr_fair_charge(&me.share->fair, cpu_ns - me.charged_ns);
    }
    me.charged_gate = gate;
    me.charged_ns = cpu_ns;
    if (gate != 0 && me.gate == gate) {
        mr_fair_stop(&cpu.fair, &me.share->fair, me.since_ns);
    }
    me.gate = 0;
    me.beyond = false;
}

void mr_cpu_give_up(void)
{
    if (me.gate != 0) {
        MR_LOCK(&cpu.lock);
        settle_locked();
        let_go_locked();
    }
}

/* ---- threads ---- */

void mr_cpu_enter(mr_cpu_share *share)
{
    MR_ASSERT(me.share == NULL);
    if (share == NULL) {
        return;
    }
    me.share = share;
    MR_LOCK(&cpu.lock);
    cpu.jobs += share->threads++ == 0;
    if (cpu.jobs == 2 && gate_locked() == 0) {
        close_gate_locked();
    }
}

void mr_cpu_leave(void)
{
    mr_cpu_share *share = me.share;

    if (share == NULL) {
        return;
    }
    mr_mutex_lock(&cpu.lock);
    settle_locked();
    if (!me.owns) {
        cpu.jobs -= --share->threads == 0;
    }
    if (cpu.jobs < 2 && gate_locked() != 0) {
        open_gate_locked();
    } else if (gate_locked() != 0) {
        let_go_locked();
    }
    mr_mutex_unlock(&cpu.lock);
    if (me.owns) {
        mr_cpu_share_unref(share);
    }
    me.share = NULL;
    me.owns = false;
}

int64_t mr_cpu_now_ns(void)
{
    return mr_now_ns() - me.waited_ns;
}

struct waiter {
    struct mr_cpu_work work; /* first member */
    pthread_cond_t goes;
};

static void wake_waiter(struct mr_cpu_work *work)
{
    (void)pthread_cond_signal(&((struct waiter *)work)->goes);
}

void mr_cpu_pass_gate(void)
{
    struct waiter w = {.work.go = wake_waiter};

    if (me.share == NULL) {
        return;
    }
    if (me.gate != 0 && mr_now_ns() - me.since_ns < MR_FAIR_SLICE_NS) {
        return; /* it has just passed */
    }
    MR_LOCK(&cpu.lock);
    if (gate_locked() == 0) {
        return;
    }
    int64_t begin_ns = mr_now_ns();
    w.work.piece.beyond = me.beyond;
    mr_cond_init(&w.goes);
    /* First of all: a job whose only thread goes on has not been idle. */
    mr_fair_wait(&cpu.fair, &w.work.piece, &me.share->fair, begin_ns);
    settle_locked();
    let_go_locked();
    while (w.work.piece.waits) {
        (void)mr_cond_wait_ms(&w.goes, &cpu.lock, MR_CPU_LOOK_MS);
        let_go_locked();
    }
    me.waited_ns += mr_now_ns() - begin_ns;
    me.gate = w.work.gate;
    me.since_ns = w.work.piece.since_ns;
    me.beyond = w.work.piece.beyond;
    (void)pthread_cond_destroy(&w.goes);
}

/* ---- work for other threads ---- */

void mr_cpu_submit(struct mr_cpu_work *work, mr_cpu_share *share)
{
    work->gate = 0;
    work->piece = (struct mr_fair_piece){0};
    if (share == NULL || atomic_load_explicit(&mr_cpu_gate, memory_order_relaxed) == 0) {
        work->go(work);
        return;
    }
    MR_LOCK(&cpu.lock);
    if (gate_locked() == 0) {
        work->go(work);
    } else {
        mr_fair_wait(&cpu.fair, &work->piece, &share->fair, mr_now_ns());
        let_go_locked();
    }
}

/* Without the lock where it never waited: a process that only reads may fork at any moment, and its
 * child would find the lock taken. */
bool mr_cpu_withdraw(struct mr_cpu_work *work)
{
    if (work->piece.share == NULL) {
        return false;
    }
    MR_LOCK(&cpu.lock);
    if (!work->piece.waits) {
        return false;
    }
    mr_fair_withdraw(&cpu.fair, &work->piece);
    return true;
}

void mr_cpu_drop(struct mr_cpu_work *work)
{
    if (work->gate == 0) {
        return;
    }
    MR_LOCK(&cpu.lock);
    if (work->gate == gate_locked()) {
        mr_fair_stop(&cpu.fair, work->piece.share, work->piece.since_ns);
        let_go_locked();
    }
}

void mr_cpu_begin(struct mr_cpu_work *work, mr_cpu_share *share)
{
    MR_ASSERT(me.share == NULL);
    if (work->gate == 0) {
        return;
    }
    me.share = mr_cpu_share_ref(share);
    me.owns = true;
    me.gate = work->gate;
    me.since_ns = work->piece.since_ns;
    me.charged_gate = work->gate;
    me.charged_ns = mr_thread_cpu_ns();
}
