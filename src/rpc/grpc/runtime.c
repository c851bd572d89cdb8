/*
 * The one completion queue and its thread. Somebody must sit in grpc_completion_queue_next() for as
 * long as a channel exists: without a poller, gRPC reconnects only when its backup poller wakes up,
 * seconds later.
 *
 * fork: gRPC's timer thread does not exist in a child, and a new channel there hangs past its own
 * deadline. So the last release shuts gRPC down completely (then parent and child may both begin
 * anew), and a child that was forked while it was open is told MR_EPRECOND. The lock is taken
 * across fork(), so that the child never sees a half-done start or end.
 *
 * gRPC's epoll engine keeps its epoll descriptor for the life of the process, through
 * grpc_shutdown() too: parent and child would then share one set and take each other's events
 * (seen: hangs, and crashes on the other's pointers). So a process that wants to fork takes the
 * poll engine (mr_rpc_keep_forkable()), which leaves nothing open behind it.
 */
#include "rpc/grpc/internal.h"

#include "base/clock.h"
#include "base/heap.h"

#include <grpc/support/log.h>
#include <time.h>
#include <unistd.h>

#define SHUTDOWN_MS_MAX 2000
#define SHUTDOWN_AGAIN_MS_MAX 50

const char mr_rpc_transport[] = "grpc";

static struct {
    pthread_mutex_t lock; /* guards everything below; held across fork() */
    struct mr_rpc_runtime *rt;
    unsigned users;
    pid_t stuck; /* the process in which gRPC did not close; 0: none */
} global = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_bool forkable;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    mr_mutex_lock(&global.lock);
}

static void after_fork(void)
{
    mr_mutex_unlock(&global.lock);
}

/*
 * Channels and servers count as users of gRPC too, and their last reference may be dropped a moment
 * later on one of its threads; then that thread shuts gRPC down. A fork before this is over gives a
 * child that hangs, so wait for it. gRPC offers nothing to wait on, only a question to ask; the
 * answer takes its lock and so is "no" only when all is done.
 *
 * A connection attempt that gRPC forgot keeps it open for good (channel.c avoids those that it can
 * see). That is waited for once; from then on nothing but children that are forked suffers from it.
 * Those are told, and nobody else: a process that ends, or never forks, has lost nothing. What a
 * thread of gRPC's needs in order to let go is waited for every time, so that it is noticed when
 * all is well again.
 */
static void shut_down_grpc_locked(void)
{
    int64_t until = mr_now_ms() + (global.stuck == 0 ? SHUTDOWN_MS_MAX : SHUTDOWN_AGAIN_MS_MAX);

    grpc_shutdown();
    while (grpc_is_initialized()) {
        if (mr_now_ms() >= until) {
            global.stuck = getpid();
            return;
        }
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    global.stuck = 0;
}

/* gRPC writes what we return as errors to stderr as well; only somebody who asked for it wants
 * that. */
static void no_log(gpr_log_func_args *args)
{
}

/* For clients. `poll`: see above. The experiments make a reader that waits for the rest of a
 * message sleep until it is there (SO_RCVLOWAT), in place of waking for each piece: a tenth less
 * CPU for 1 MiB messages, twice the throughput at 100 MB. */
static const struct setting {
    const char *name;
    const char *value;
} client_settings[] = {
    {"GRPC_POLL_STRATEGY", "poll"},
    {"GRPC_EXPERIMENTS", "tcp_frame_size_tuning,tcp_rcv_lowat"},
};

/* gRPC reads these from the environment, once, in the first grpc_init() of the process. What the
 * user has set stays. */
static void init_with_client_settings(void)
{
    enum { N = sizeof client_settings / sizeof client_settings[0] };
    bool ours[N];

    for (size_t i = 0; i < N; i++) {
        ours[i] = getenv(client_settings[i].name) == NULL &&
                  setenv(client_settings[i].name, client_settings[i].value, 0) == 0;
    }
    grpc_init();
    shut_down_grpc_locked(); /* Nobody else is here yet. */
    for (size_t i = 0; i < N; i++) {
        if (ours[i]) {
            (void)unsetenv(client_settings[i].name);
        }
    }
}

static void once_per_process(void)
{
    (void)pthread_atfork(before_fork, after_fork, after_fork);
    mr_heap_keep_large();
    if (getenv("GRPC_VERBOSITY") == NULL) {
        gpr_set_log_function(no_log);
    }
    if (atomic_load(&forkable)) {
        init_with_client_settings();
    }
}

void mr_rpc_keep_forkable(void)
{
    atomic_store(&forkable, true);
    /* Now, not with the first use of ours: gRPC has chosen for good when anybody in the process has
     * opened it. */
    (void)pthread_once(&once, once_per_process);
}

bool mr_grpc_is_forkable(void)
{
    return atomic_load(&forkable);
}

/* Returns when to do so again; -1: there is no server. */
static int64_t tick(struct mr_rpc_runtime *rt, int64_t due_ms)
{
    int64_t now = mr_now_ms();
    struct mr_grpc_ticker *ticker;

    MR_LOCK(&rt->tickers_lock);
    if (LIST_EMPTY(&rt->tickers)) {
        return -1;
    }
    if (now < due_ms) {
        return due_ms;
    }
    LIST_FOREACH(ticker, &rt->tickers, link) {
        mr_rpc_firsts_tick(&ticker->firsts, now);
    }
    return now + MR_GRPC_TICK_MS;
}

static _Thread_local bool is_callback_thread;

static void *poll_events(void *arg)
{
    struct mr_rpc_runtime *rt = arg;
    int64_t due_ms = 0;

    is_callback_thread = true;
    for (;;) {
        due_ms = tick(rt, due_ms);
        grpc_event ev = grpc_completion_queue_next(
            rt->cq, mr_grpc_deadline(due_ms < 0 ? -1 : MR_GRPC_TICK_MS), NULL);

        atomic_fetch_add_explicit(&rt->events, 1, memory_order_relaxed);
        if (ev.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        if (ev.type == GRPC_QUEUE_TIMEOUT) {
            continue;
        }
        MR_ASSERT(ev.type == GRPC_OP_COMPLETE);
        struct mr_grpc_tag *tag = ev.tag;
        MR_ASSERT(tag->magic == MR_GRPC_TAG_MAGIC);
        tag->fn(tag, ev.success != 0);
    }
}

static int runtime_new_locked(struct mr_rpc_runtime **ret, mr_error *err)
{
    if (global.stuck != 0 && global.stuck != getpid()) {
        return mr_error_set(err, MR_EPRECOND,
                            "gRPC had not closed yet in process %ld when this one was forked from "
                            "it, and is of no use here: start the child with spawn",
                            (long)global.stuck);
    }
    struct mr_rpc_runtime *rt = mr_calloc(1, sizeof *rt);

    MR_CHECK_ALLOC(rt, err);
    rt->pid = getpid();
    mr_mutex_init(&rt->lock);
    mr_cond_init(&rt->idle);
    mr_mutex_init(&rt->tickers_lock);
    LIST_INIT(&rt->tickers);
    grpc_init();
    rt->cq = grpc_completion_queue_create_for_next(NULL);
    int rc = mr_thread_start(&rt->thread, "mr-rpc", poll_events, rt, err);
    if (rc < 0) {
        grpc_completion_queue_shutdown(rt->cq);
        grpc_completion_queue_destroy(rt->cq);
        shut_down_grpc_locked();
        mr_free(rt);
        return rc;
    }
    *ret = rt;
    return MR_OK;
}

int mr_rpc_acquire(mr_rpc_runtime **ret, mr_error *err)
{
    (void)pthread_once(&once, once_per_process);
    MR_LOCK(&global.lock);
    MR_TRY(global.rt == NULL ? runtime_new_locked(&global.rt, err) : mr_grpc_check(global.rt, err));
    global.users++;
    *ret = global.rt;
    return MR_OK;
}

/* Returns whether nobody uses the runtime any more. */
static bool drop_user(struct mr_rpc_runtime *rt)
{
    MR_LOCK(&global.lock);
    MR_ASSERT(rt == global.rt);
    MR_ASSERT(global.users > 0);
    if (--global.users > 0) {
        return false;
    }
    MR_ASSERT(!mr_rpc_is_own_thread());
    /* A batch on a queue that is shut down is fatal in gRPC: what was cancelled must have come back
     * first. */
    mr_mutex_lock(&rt->lock);
    while (rt->calls > 0) {
        mr_cond_wait(&rt->idle, &rt->lock);
    }
    mr_mutex_unlock(&rt->lock);
    grpc_completion_queue_shutdown(rt->cq);
    (void)pthread_join(rt->thread, NULL);
    grpc_completion_queue_destroy(rt->cq);
    shut_down_grpc_locked();
    (void)pthread_cond_destroy(&rt->idle);
    (void)pthread_mutex_destroy(&rt->lock);
    (void)pthread_mutex_destroy(&rt->tickers_lock);
    mr_free(rt);
    global.rt = NULL;
    return true;
}

void mr_rpc_release(mr_rpc_runtime *rt)
{
    if (rt != NULL && !mr_grpc_inherited(rt) && drop_user(rt)) {
        /* The next to come makes threads of its own, which find what these leave in other
         * arenas. */
        mr_heap_trim();
    }
}

bool mr_rpc_is_own_thread(void)
{
    return is_callback_thread;
}

bool mr_grpc_inherited(const struct mr_rpc_runtime *rt)
{
    return rt->pid != getpid();
}

int mr_grpc_check(const struct mr_rpc_runtime *rt, mr_error *err)
{
    if (mr_grpc_inherited(rt)) {
        return mr_rpc_refuse_fork(rt->pid, err);
    }
    return MR_OK;
}

void mr_grpc_call_began(struct mr_rpc_runtime *rt)
{
    MR_LOCK(&rt->lock);
    rt->calls++;
}

void mr_grpc_call_ended(struct mr_rpc_runtime *rt)
{
    MR_LOCK(&rt->lock);
    MR_ASSERT(rt->calls > 0);
    if (--rt->calls == 0) {
        (void)pthread_cond_broadcast(&rt->idle);
    }
}
