#include "worker/times.h"

#include "base/clock.h"
#include "worker/task.h"

#define LOOK_MS 10
/* With many tasks looks are rarer, so that they take no more than a hundredth of a core: of those
 * at work, and of all that are walked over. */
#define LOOKS_A_MS 10u
#define TASKS_A_MS 1000u

void mr_worker_task_is_at(struct mr_worker_task *t, enum mr_worker_task_at at)
{
    atomic_store_explicit(&t->times.at, at, memory_order_relaxed);
}

/* ---- looking ---- */

static void look_locked(struct mr_worker_task *t, int64_t now_ns)
{
    struct mr_worker_times_sum *times = &t->times.sum;
    uint64_t ns = times->looked_ns != 0 ? (uint64_t)(now_ns - times->looked_ns) : 0;
    int at = atomic_load_explicit(&t->times.at, memory_order_relaxed);

    times->looked_ns = now_ns;
    if (at != MR_AT_PIPELINE || t->engine == NULL || !mr_engine_look(t->engine, ns)) {
        times->ns[at] += ns;
    }
}

/* How many tasks are at work. */
static uint32_t look_at_all_locked(struct mr_worker *w)
{
    int64_t now_ns = mr_now_ns();
    struct mr_worker_task *t;
    uint32_t n = 0;

    TAILQ_FOREACH(t, &w->tasks, link) {
        if (atomic_load_explicit(&t->times.at, memory_order_relaxed) != MR_AT_NOTHING) {
            MR_LOCK(&t->lock);
            look_locked(t, now_ns);
            n++;
        }
    }
    return n;
}

static void *look(void *arg)
{
    struct mr_worker *w = arg;

    mr_mutex_lock(&w->lock);
    while (!w->stopping) {
        uint32_t n = look_at_all_locked(w);
        int64_t pause_ms = LOOK_MS + n / LOOKS_A_MS + w->ntasks / TASKS_A_MS;

        (void)mr_cond_wait_ms(&w->look_due, &w->lock, w->at_work.taken > 0 ? pause_ms : -1);
    }
    mr_mutex_unlock(&w->lock);
    return NULL;
}

int mr_times_start(struct mr_worker *w, mr_error *err)
{
    MR_TRY(mr_thread_start(&w->looker, "mr-times", look, w, err));
    w->looks = true;
    return MR_OK;
}

void mr_times_stop(struct mr_worker *w)
{
    if (w->looks) {
        mr_mutex_lock(&w->lock);
        (void)pthread_cond_signal(&w->look_due);
        mr_mutex_unlock(&w->lock);
        (void)pthread_join(w->looker, NULL);
        w->looks = false;
    }
}

/* ---- saying ---- */

static struct mr_worker_times_sum copy(struct mr_worker_task *t)
{
    MR_LOCK(&t->lock);
    if (t->engine != NULL) {
        mr_engine_times(t->engine, &t->times.sum.engine);
    }
    return t->times.sum;
}

static const struct mr_engine_operator_time *find_storage(const struct mr_engine_times *times)
{
    const struct mr_engine_operator_time *most = NULL;

    for (size_t i = 0; i < times->n; i++) {
        const struct mr_engine_operator_time *one = &times->operators[i];

        if (one->path[0] != '\0' && (most == NULL || one->storage_ns > most->storage_ns)) {
            most = one;
        }
    }
    return most;
}

/* Looked up when the directory is another one. */
static void name_file_system(struct mr_worker_task *t, struct mr_worker_times_sum *times)
{
    const struct mr_engine_operator_time *most = find_storage(&times->engine);
    char directory[MR_ENGINE_TIMES_PATH];

    if (most == NULL) {
        return;
    }
    memcpy(directory, most->path, sizeof directory);
    char *slash = strrchr(directory, '/');
    if (slash != NULL) {
        slash[slash == directory] = '\0';
    }
    if (strcmp(directory, times->directory) == 0) {
        return;
    }
    memcpy(times->directory, directory, sizeof directory);
    mr_file_system_find("/proc/self/mounts", directory, times->file_system);
    MR_LOCK(&t->lock);
    memcpy(t->times.sum.directory, directory, sizeof directory);
    memcpy(t->times.sum.file_system, times->file_system, sizeof times->file_system);
}

static void fill(struct mr_times_report *r)
{
    const struct mr_engine_times *engine = &r->of.engine;

    millrace__task_times__init(&r->base);
    r->base.clients_ns = r->of.ns[MR_AT_CLIENTS];
    r->base.memory_ns = r->of.ns[MR_AT_MEMORY];
    r->base.window_ns = r->of.ns[MR_AT_WINDOW];
    r->base.splits_ns = engine->splits_ns;
    r->base.pool_ns = engine->pool_ns;
    r->base.others_ns = engine->others_ns + r->of.ns[MR_AT_PIPELINE];
    r->base.scarce_ns = engine->memory_ns;
    r->base.file_system = r->of.file_system;
    for (size_t i = 0; i < engine->n; i++) {
        Millrace__OperatorTimes *one = r->pointers[i] = &r->operators[i];

        millrace__operator_times__init(one);
        one->name = r->of.engine.operators[i].name;
        one->work_ns = engine->operators[i].work_ns;
        one->storage_ns = engine->operators[i].storage_ns;
    }
    r->base.operators = r->pointers;
    r->base.n_operators = engine->n;
}

int mr_worker_task_times_report(struct mr_worker_task *t, struct mr_times_report **ret,
                                mr_error *err)
{
    *ret = NULL;
    if (atomic_load_explicit(&t->times.at, memory_order_relaxed) == MR_AT_NOTHING) {
        return MR_OK;
    }
    struct mr_times_report *r = mr_calloc(1, sizeof *r);
    MR_CHECK_ALLOC(r, err);
    r->of = copy(t);
    name_file_system(t, &r->of);
    fill(r);
    *ret = r;
    return MR_OK;
}
