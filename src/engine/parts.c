#include "engine/parts.h"

void mr_parts_init(struct mr_parts *p, struct mr_env *env)
{
    *p = (struct mr_parts){.env = env};
    atomic_init(&p->next, 0);
    atomic_init(&p->failed, false);
    mr_mutex_init(&p->lock);
    mr_cond_init(&p->changed);
}

void mr_parts_destroy(struct mr_parts *p)
{
    MR_ASSERT(p->busy == 0);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
}

static void no_more(struct mr_parts *p)
{
    atomic_store(&p->next, p->n);
}

static void run_parts(struct mr_parts *p)
{
    uint32_t part;

    while ((part = atomic_fetch_add(&p->next, 1)) < p->n) {
        if (!p->run(p->ctx, part)) {
            atomic_store(&p->failed, true);
            no_more(p);
        }
    }
}

static void help(struct mr_pool_task *task)
{
    struct mr_parts *p = ((struct mr_parts_helper *)task)->parts; /* first member */
    struct mr_env_work before = mr_env_enter(p->env);

    run_parts(p);
    mr_env_leave(before);
    MR_LOCK(&p->lock);
    p->busy--;
    (void)pthread_cond_signal(&p->changed);
}

void mr_parts_start(struct mr_parts *p, bool (*run)(void *ctx, uint32_t part), void *ctx,
                    uint32_t n)
{
    uint32_t most = MR_MIN(MR_MIN(n, p->env->threads - 1), MR_PARTS_HELPERS);

    MR_ASSERT(p->nhelpers == 0);
    p->run = run;
    p->ctx = ctx;
    p->n = n;
    atomic_store(&p->next, 0);
    atomic_store(&p->failed, false);
    p->nhelpers = p->busy = MR_MIN(mr_pool_idle(), most);
    for (uint32_t i = 0; i < p->nhelpers; i++) {
        p->helpers[i] =
            (struct mr_parts_helper){.task = {.run = help, .share = p->env->share}, .parts = p};
    }
    for (uint32_t i = 0; i < p->nhelpers; i++) {
        mr_pool_submit(&p->helpers[i].task);
    }
}

/* All parts have been taken: those that run have only to end. */
static void dismiss(struct mr_parts *p)
{
    uint32_t took = 0;

    for (uint32_t i = 0; i < p->nhelpers; i++) {
        took += mr_pool_take_back(&p->helpers[i].task);
    }
    p->nhelpers = 0;
    MR_LOCK(&p->lock);
    p->busy -= took;
    while (p->busy > 0) {
        mr_cond_wait(&p->changed, &p->lock);
    }
}

bool mr_parts_finish(struct mr_parts *p)
{
    run_parts(p);
    dismiss(p);
    return !atomic_load(&p->failed);
}

void mr_parts_stop(struct mr_parts *p)
{
    no_more(p);
    dismiss(p);
}
