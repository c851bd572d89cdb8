#include "engine/pool.h"

#include "base/sync.h"
#include "engine/env.h"

#define THREADS_MAX 256

static struct {
    /* guards users, nthreads, threads: while some start or end; before lock */
    pthread_mutex_t life;
    pthread_mutex_t lock; /* guards all behind threads */
    pthread_cond_t work;
    uint32_t users;
    uint32_t nthreads;
    pthread_t threads[THREADS_MAX];
    bool stop;
    uint32_t waiting;
    bool looks; /* somebody's turn may come without anybody saying so */
    struct mr_pool_task *head;
    struct mr_pool_task **tail;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER, .life = PTHREAD_MUTEX_INITIALIZER};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int register_errnum; /* by once */

/* `tail` is where the next task goes. */
static bool queue_is_sound_locked(void)
{
    struct mr_pool_task **at = &pool.head;

    while (*at != NULL) {
        at = &(*at)->next;
    }
    return at == pool.tail;
}

/* While tasks wait for their jobs' turn, one of us looks from time to time whether it has come. */
static void wait_for_work_locked(void)
{
    pool.waiting++;
    if (mr_cond_wait_ms(&pool.work, &pool.lock, pool.looks ? MR_CPU_LOOK_MS : -1)) {
        pool.waiting--;
        return;
    }
    pool.looks = false; /* before it looks: what is submitted meanwhile says so again */
    mr_mutex_unlock(&pool.lock);
    mr_cpu_look();
    bool waits = mr_cpu_is_short();
    mr_mutex_lock(&pool.lock);
    pool.looks = pool.looks || waits;
    pool.waiting--;
}

static void *pool_main(void *arg)
{
    mr_mutex_lock(&pool.lock);
    for (;;) {
        while (pool.head == NULL && !pool.stop) {
            wait_for_work_locked();
        }
        struct mr_pool_task *task = pool.head;
        if (task == NULL) {
            break;
        }
        pool.head = task->next;
        if (pool.head == NULL) {
            pool.tail = &pool.head;
        }
        mr_mutex_unlock(&pool.lock);
        mr_cpu_begin(&task->work, task->share);
        task->run(task);
        mr_cpu_leave();
        mr_mutex_lock(&pool.lock);
    }
    mr_mutex_unlock(&pool.lock);
    return NULL;
}

static void stop_threads(void)
{
    mr_mutex_lock(&pool.lock);
    pool.stop = true;
    (void)pthread_cond_broadcast(&pool.work);
    mr_mutex_unlock(&pool.lock);
    for (uint32_t i = 0; i < pool.nthreads; i++) {
        mr_thread_join(pool.threads[i]);
    }
    pool.nthreads = 0;
    pool.stop = false;
}

/* fork: the threads and what they work on stay with the parent. A child begins with an empty pool,
 * whatever was open; what the parent opened is never closed there. The locks are taken across
 * fork(), so that the child finds them free. */
static void before_fork(void)
{
    mr_mutex_lock(&pool.life);
    mr_mutex_lock(&pool.lock);
}

static void after_fork(void)
{
    mr_mutex_unlock(&pool.lock);
    mr_mutex_unlock(&pool.life);
}

static void after_fork_in_child(void)
{
    mr_cond_init(&pool.work); /* the parent's threads wait on the old one */
    pool.users = 0;
    pool.nthreads = 0;
    pool.waiting = 0;
    pool.head = NULL;
    pool.tail = &pool.head;
    after_fork();
}

/* Before `life` is first taken: a child forked while a thread holds it, and no handler is
 * registered, could never take it. */
static void prepare(void)
{
    register_errnum = pthread_atfork(before_fork, after_fork, after_fork_in_child);
    mr_cond_init(&pool.work);
    pool.tail = &pool.head;
}

int mr_pool_acquire(mr_error *err)
{
    int rc = MR_OK;

    (void)pthread_once(&once, prepare);
    if (register_errnum != 0) {
        return mr_error_errno(err, register_errnum, "pthread_atfork");
    }
    MR_LOCK(&pool.life);
    if (pool.users == 0) {
        uint32_t cores = mr_machine_cores();
        uint32_t wanted = MR_MIN(cores, THREADS_MAX);

        while (pool.nthreads < wanted && rc == MR_OK) {
            rc = mr_thread_start(&pool.threads[pool.nthreads], "mr-pool", pool_main, NULL, err);
            pool.nthreads += rc == MR_OK;
        }
        if (pool.nthreads > 0) {
            rc = MR_OK; /* fewer than wanted will do */
        }
    }
    pool.users += rc == MR_OK;
    return rc;
}

void mr_pool_release(void)
{
    MR_LOCK(&pool.life);
    MR_ASSERT(pool.users > 0);
    if (--pool.users == 0) {
        stop_threads();
    }
}

/* It is the turn of @work's job. */
static void go(struct mr_cpu_work *work)
{
    struct mr_pool_task *task = (struct mr_pool_task *)work; /* first member */

    MR_LOCK(&pool.lock);
    task->next = NULL;
    *pool.tail = task;
    pool.tail = &task->next;
    MR_ASSERT_SLOW(queue_is_sound_locked());
    (void)pthread_cond_signal(&pool.work);
}

void mr_pool_submit(struct mr_pool_task *task)
{
    task->work.go = go;
    mr_cpu_submit(&task->work, task->share);
    if (mr_cpu_is_short()) {
        MR_LOCK(&pool.lock);
        pool.looks = true;
        (void)pthread_cond_signal(&pool.work);
    }
}

static bool leaves_queue(struct mr_pool_task *task)
{
    MR_LOCK(&pool.lock);
    for (struct mr_pool_task **at = &pool.head; *at != NULL; at = &(*at)->next) {
        if (*at == task) {
            *at = task->next;
            pool.tail = *at == NULL ? at : pool.tail;
            MR_ASSERT_SLOW(queue_is_sound_locked());
            return true;
        }
    }
    return false;
}

bool mr_pool_take_back(struct mr_pool_task *task)
{
    if (mr_cpu_withdraw(&task->work)) {
        return true;
    }
    bool left = leaves_queue(task);
    if (left) {
        mr_cpu_drop(&task->work);
    }
    return left;
}

uint32_t mr_pool_idle(void)
{
    if (mr_cpu_is_short()) {
        return 0;
    }
    MR_LOCK(&pool.lock);
    return pool.head == NULL ? pool.waiting : 0;
}
