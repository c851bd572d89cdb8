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
#include "rpc/internal.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/heap.h"
#include "base/sync.h"

#include <grpc/support/log.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SHUTDOWN_MS_MAX 2000
#define SHUTDOWN_AGAIN_MS_MAX 50
#define DETAILS_BYTES 512 /* of what gRPC says; more than a message holds */

static struct {
    pthread_mutex_t lock;
    mr_rpc_runtime *rt; /* lock */
    unsigned users;     /* lock */
    pid_t stuck;        /* lock: the process in which gRPC did not close; 0: none */
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
    (void)args;
}

/*
 * For clients. `poll`: see above. The experiments make a reader that waits for the rest of a
 * message sleep until it is there (SO_RCVLOWAT), in place of waking for each piece: a tenth less
 * CPU for 1 MiB messages, twice the throughput at 100 MB.
 */
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

bool mr_rpc_is_forkable(void)
{
    return atomic_load(&forkable);
}

/* Returns when to do so again; -1: there is no server. */
static int64_t tick_servers(mr_rpc_runtime *rt, int64_t due_ms)
{
    int64_t now = mr_now_ms();

    MR_LOCK(&rt->servers_lock);
    if (LIST_EMPTY(&rt->servers)) {
        return -1;
    }
    if (now < due_ms) {
        return due_ms;
    }
    mr_rpc_servers_tick(rt, now);
    return now + MR_RPC_TICK_MS;
}

static void *poll_events(void *arg)
{
    mr_rpc_runtime *rt = arg;
    int64_t due_ms = 0;

    for (;;) {
        due_ms = tick_servers(rt, due_ms);
        grpc_event ev = grpc_completion_queue_next(
            rt->cq, mr_rpc_deadline(due_ms < 0 ? -1 : MR_RPC_TICK_MS), NULL);

        atomic_fetch_add_explicit(&rt->events, 1, memory_order_relaxed);
        if (ev.type == GRPC_QUEUE_SHUTDOWN) {
            return NULL;
        }
        if (ev.type == GRPC_QUEUE_TIMEOUT) {
            continue;
        }
        MR_ASSERT(ev.type == GRPC_OP_COMPLETE);
        struct mr_rpc_tag *tag = ev.tag;
        MR_ASSERT(tag->magic == MR_RPC_TAG_MAGIC);
        tag->fn(tag, ev.success != 0);
    }
}

static int opened_before_fork(pid_t pid, mr_error *err)
{
    return mr_error_set(
        err, MR_EPRECOND,
        "opened before fork (in process %ld): open it in the child, or start the child with spawn",
        (long)pid);
}

static int runtime_new_locked(mr_rpc_runtime **ret, mr_error *err)
{
    if (global.stuck != 0 && global.stuck != getpid()) {
        return mr_error_set(err, MR_EPRECOND,
                            "gRPC had not closed yet in process %ld when this one was forked from "
                            "it, and is of no use "
                            "here: start the child with spawn",
                            (long)global.stuck);
    }
    mr_rpc_runtime *rt = mr_calloc(1, sizeof *rt);

    if (rt == NULL) {
        return mr_error_nomem(err);
    }
    rt->pid = getpid();
    mr_mutex_init(&rt->lock);
    mr_cond_init(&rt->idle);
    mr_mutex_init(&rt->servers_lock);
    LIST_INIT(&rt->servers);
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
    int rc = MR_OK;

    (void)pthread_once(&once, once_per_process);
    MR_LOCK(&global.lock);
    if (global.rt == NULL) {
        rc = runtime_new_locked(&global.rt, err);
    } else {
        rc = mr_rpc_check(global.rt, err);
    }
    if (rc < 0) {
        return rc;
    }
    global.users++;
    *ret = global.rt;
    return MR_OK;
}

/* Returns whether nobody uses the runtime any more. */
static bool drop_user(mr_rpc_runtime *rt)
{
    MR_LOCK(&global.lock);
    MR_ASSERT(rt == global.rt);
    MR_ASSERT(global.users > 0);
    if (--global.users > 0) {
        return false;
    }
    MR_ASSERT(!pthread_equal(pthread_self(), rt->thread));
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
    (void)pthread_mutex_destroy(&rt->servers_lock);
    mr_free(rt);
    global.rt = NULL;
    return true;
}

void mr_rpc_release(mr_rpc_runtime *rt)
{
    if (rt != NULL && !mr_rpc_inherited(rt) && drop_user(rt)) {
        /* The next to come makes threads of its own, which find what these leave in other
         * arenas. */
        mr_heap_trim();
    }
}

bool mr_rpc_inherited(const mr_rpc_runtime *rt)
{
    return rt->pid != getpid();
}

int mr_rpc_check(const mr_rpc_runtime *rt, mr_error *err)
{
    if (mr_rpc_inherited(rt)) {
        return opened_before_fork(rt->pid, err);
    }
    return MR_OK;
}

void mr_rpc_call_began(mr_rpc_runtime *rt)
{
    MR_LOCK(&rt->lock);
    rt->calls++;
}

void mr_rpc_call_ended(mr_rpc_runtime *rt)
{
    MR_LOCK(&rt->lock);
    MR_ASSERT(rt->calls > 0);
    if (--rt->calls == 0) {
        (void)pthread_cond_broadcast(&rt->idle);
    }
}

gpr_timespec mr_rpc_deadline(int64_t timeout_ms)
{
    if (timeout_ms < 0) {
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    }
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

int mr_rpc_metadata_make(const char *const *pairs, grpc_metadata out[MR_RPC_METADATA_MAX],
                         size_t *n, mr_error *err)
{
    size_t count = 0;

    for (; pairs != NULL && pairs[2 * count] != NULL; count++) {
        if (count == MR_RPC_METADATA_MAX) {
            mr_rpc_metadata_drop(out, count);
            return mr_error_set(err, MR_EINVAL, "more than %d metadata entries",
                                MR_RPC_METADATA_MAX);
        }
        memset(&out[count], 0, sizeof out[count]);
        out[count].key = grpc_slice_from_copied_string(pairs[2 * count]);
        out[count].value = grpc_slice_from_copied_string(pairs[2 * count + 1]);
    }
    *n = count;
    return MR_OK;
}

void mr_rpc_metadata_drop(grpc_metadata *md, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        grpc_slice_unref(md[i].key);
        grpc_slice_unref(md[i].value);
    }
}

/* The text behind the first @what in @text; NULL: there is none. */
static const char *behind(const char *text, const char *what)
{
    const char *found = strstr(text, what);

    return found != NULL ? found + strlen(what) : NULL;
}

/*
 * "failed to connect to all addresses; last error: UNKNOWN: ipv4:10.0.0.1:5050: Failed to connect
 * to remote host: Connection refused" says one thing, at its end; whom it is about says the caller.
 * Whether that end is "Connection refused" or "FD shutdown" is a matter of luck: gRPC's poll engine
 * may see the hang-up of a socket before the error on it. @no_connection: it is about a TCP
 * connection that did not come about, in whatever words.
 */
static const char *to_the_point(const char *text, bool *no_connection)
{
    static const char prologue[] = "failed to connect to all addresses";

    *no_connection = false;
    if (strncmp(text, prologue, sizeof prologue - 1) != 0) {
        return text;
    }
    const char *last = behind(text, "last error: ");
    const char *address = behind(last != NULL ? last : text, ": ipv");
    const char *after = address != NULL ? behind(address, ": ") : NULL;
    text = after != NULL ? after : last != NULL ? last : text;
    const char *point = behind(text, "Failed to connect to remote host: ");
    *no_connection = point != NULL || strstr(text, "FD shutdown") != NULL ||
                     strstr(text, "Connection refused") != NULL;
    return point != NULL ? point : text;
}

int mr_rpc_status_error(grpc_status_code status, grpc_slice details, mr_error *err)
{
    int code = mr_code_from_status((int)status);
    size_t n = GRPC_SLICE_LENGTH(details);

    if (code == MR_OK) {
        return MR_OK;
    }
    if (n == 0) {
        return mr_error_set(err, code, "%s", mr_code_name(code));
    }
    char text[DETAILS_BYTES];

    n = n < sizeof text ? n : sizeof text - 1;
    memcpy(text, GRPC_SLICE_START_PTR(details), n);
    text[n] = '\0';
    bool no_connection;
    const char *point = to_the_point(text, &no_connection);
    return mr_error_set(err, code, "%s%s",
                        no_connection ? "nothing listens or answers there: " : "", point);
}
