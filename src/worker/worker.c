/* Starting and stopping: options, the server, the link. */
#include "worker/internal.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "engine/env.h"

#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

#define READ_PATH "/millrace.Worker/Read"
#define LISTEN_DEFAULT "127.0.0.1:0"
#define DISPATCHER_TIMEOUT_MS 3600000u
#define TASKS_MAX 1024u
/* Connections that wait for their tasks, at once. */
#define WAITING_MAX 4096u
/*
 * For so long no room comes free for a definition, and the task has failed. Clearly longer than it
 * takes until a job is collected whose reader was killed: a client is gone after two minutes, its
 * iteration after five more, by default.
 */
#define DEFINITION_WAIT_MS 600000

/* "%port%" replaced by the port; @text otherwise as it is. */
static char *with_port(const char *text, int port)
{
    const char *mark = strstr(text, "%port%");

    return mark == NULL
               ? mr_strdup(text)
               : mr_asprintf("%.*s%d%s", (int)(mark - text), text, port, mark + strlen("%port%"));
}

/* What clients are told: by option, or the listen address with the bound port; of a host that can
 * be reached. */
static int choose_address(mr_worker *w, const char *listen, const char *advertise, mr_error *err)
{
    char own[MR_ADDRESS_BYTES_MAX + 1];

    if (advertise == NULL) {
        int rc = mr_rpc_advertise(listen, w->port, w->dispatchers, own, sizeof own, err);

        if (rc < 0) {
            return rc;
        }
    }
    w->address = advertise != NULL ? with_port(advertise, w->port) : mr_strdup(own);
    if (w->address == NULL) {
        return mr_error_nomem(err);
    }
    return mr_rpc_check_advertised(w->address, err);
}

static int copy_tags(mr_worker *w, const struct mr_worker_options *opts, mr_error *err)
{
    w->tags = mr_calloc(opts->ntags, sizeof w->tags[0]);
    if (w->tags == NULL) {
        return mr_error_nomem(err);
    }
    for (size_t i = 0; i < opts->ntags; i++) {
        if (strlen(opts->tags[i]) == 0 || strlen(opts->tags[i]) > MR_NAME_BYTES_MAX) {
            return mr_error_set(err, MR_EINVAL, "tag %zu has %zu bytes, not 1 to %d", i,
                                strlen(opts->tags[i]), MR_NAME_BYTES_MAX);
        }
        w->tags[i] = mr_strdup(opts->tags[i]);
        if (w->tags[i] == NULL) {
            return mr_error_nomem(err);
        }
        w->ntags++;
    }
    return MR_OK;
}

static int copy_options(mr_worker *w, const struct mr_worker_options *opts, mr_error *err)
{
    const char *list = opts->dispatchers;

    if (list == NULL || list[0] == '\0') {
        return mr_error_set(err, MR_EINVAL, "a worker needs the address of a dispatcher");
    }
    w->dispatchers = mr_strdup(list);
    w->cluster_wanted =
        opts->cluster == NULL || opts->cluster[0] == '\0' ? NULL : mr_strdup(opts->cluster);
    if (w->dispatchers == NULL ||
        (opts->cluster != NULL && opts->cluster[0] != '\0' && w->cluster_wanted == NULL)) {
        return mr_error_nomem(err);
    }
    w->heartbeat_ms = opts->heartbeat_ms;
    w->dispatcher_timeout_ms =
        opts->dispatcher_timeout_ms == 0 ? DISPATCHER_TIMEOUT_MS : opts->dispatcher_timeout_ms;
    w->threads = opts->threads;
    mr_shares_init(&w->at_work, "tasks at work",
                   opts->tasks_max == 0 ? TASKS_MAX : opts->tasks_max);
    struct mr_windows_options windows = {.dir = opts->cache_dir,
                                         .disk_bytes_max = opts->cache_bytes_max,
                                         .memory_bytes_max = opts->cache_memory_bytes_max};
    uint64_t budget =
        opts->memory_budget_bytes != 0 ? opts->memory_budget_bytes : mr_machine_memory_bytes() / 2;
    int rc = mr_memory_new(budget, NULL, &w->memory, err);
    if (rc == MR_OK) {
        windows.memory = w->memory;
        rc = mr_windows_new(&windows, &w->windows, err);
    }
    if (rc == MR_OK) {
        rc = mr_definitions_new(w->memory,
                                opts->definition_wait_ms != 0 ? opts->definition_wait_ms
                                                              : DEFINITION_WAIT_MS,
                                &w->definitions, err);
    }
    return rc < 0 ? rc : copy_tags(w, opts, err);
}

static int start_server(mr_worker *w, const struct mr_worker_options *opts, mr_error *err)
{
    const char *listen =
        opts->listen == NULL || opts->listen[0] == '\0' ? LISTEN_DEFAULT : opts->listen;
    const char *advertise =
        opts->advertise == NULL || opts->advertise[0] == '\0' ? NULL : opts->advertise;
    int rc = mr_rpc_acquire(&w->rt, err);

    if (rc == MR_OK) {
        rc = mr_rpc_server_new(w->rt, NULL, &w->server, err);
    }
    if (rc == MR_OK) {
        rc = mr_rpc_server_stream(w->server, READ_PATH, mr_conn_accept, w, err);
    }
    if (rc == MR_OK) {
        rc = mr_rpc_server_listen(w->server, listen, NULL, &w->port, err);
    }
    if (rc == MR_OK) {
        rc = choose_address(w, listen, advertise, err);
    }
    /* The link first: a connection may come in as soon as the server runs. */
    if (rc == MR_OK) {
        rc = mr_link_new(w, &w->link, err);
    }
    if (rc == MR_OK) {
        rc = mr_rpc_server_start(w->server, err);
    }
    if (rc == MR_OK) {
        rc = mr_link_start(w->link, err);
    }
    return rc;
}

bool mr_worker_begin_life(struct mr_worker *w)
{
    struct mr_life *life = mr_calloc(1, sizeof *life);

    if (life == NULL) {
        return false;
    }
    mr_identity_draw(&life->who);
    life->before = w->lives;
    w->lives = life;
    w->incarnation = life->who.id;
    return true;
}

int mr_worker_start(const struct mr_worker_options *opts, mr_worker **ret, mr_error *err)
{
    mr_worker *w = mr_calloc(1, sizeof *w);
    int rc;

    if (w == NULL) {
        return mr_error_nomem(err);
    }
    mr_mutex_init(&w->lock);
    mr_cond_init(&w->changed);
    TAILQ_INIT(&w->tasks);
    TAILQ_INIT(&w->waiting);
    mr_shares_init(&w->waiting_shares, "streams whose tasks are not here",
                   opts->waiting_max == 0 ? WAITING_MAX : opts->waiting_max);
    rc = mr_worker_begin_life(w) ? copy_options(w, opts, err) : mr_error_nomem(err);
    if (rc == MR_OK) {
        rc = start_server(w, opts, err);
    }
    if (rc < 0) {
        mr_error_wrap(err, "starting a worker");
        mr_worker_free(w);
        return rc;
    }
    *ret = w;
    return MR_OK;
}

const char *mr_worker_address(const mr_worker *w)
{
    return w->address;
}

int mr_worker_port(const mr_worker *w)
{
    return w->port;
}

int mr_worker_wait_registered(mr_worker *w, int64_t timeout_ms, mr_error *err)
{
    return mr_link_wait_registered(w->link, timeout_ms, err);
}

void mr_worker_stop(mr_worker *w, int64_t grace_ms)
{
    bool before;

    mr_mutex_lock(&w->lock);
    before = w->stopping;
    w->stopping = true;
    mr_mutex_unlock(&w->lock);
    if (before) {
        return;
    }
    /* The link first: nothing new is assigned, and nobody else drops tasks from here on. */
    if (w->link != NULL) {
        mr_link_stop(w->link);
    }
    (void)mr_conn_expire_waiting(w, INT64_MAX);
    mr_assignments_drop(w);
    if (w->server != NULL) {
        mr_rpc_server_stop(w->server, grace_ms);
    }
    mr_mutex_lock(&w->lock);
    while (w->ntasks > 0) {
        mr_cond_wait(&w->changed, &w->lock);
    }
    mr_mutex_unlock(&w->lock);
}

void mr_worker_free(mr_worker *w)
{
    if (w == NULL) {
        return;
    }
    mr_worker_stop(w, 0);
    mr_rpc_server_free(w->server);
    mr_link_free(w->link);
    if (w->rt != NULL) {
        mr_rpc_release(w->rt);
    }
    mr_windows_free(w->windows);
    mr_definitions_free(w->definitions);
    mr_memory_unref(w->memory);
    for (size_t i = 0; i < w->ntags; i++) {
        mr_free(w->tags[i]);
    }
    mr_free(w->tags);
    mr_free(w->dispatchers);
    mr_free(w->address);
    mr_free(w->cluster_wanted);
    mr_free(w->cluster);
    mr_free(w->cluster_incarnation);
    while (w->lives != NULL) {
        struct mr_life *life = w->lives;

        w->lives = life->before;
        mr_free(life);
    }
    mr_shares_free(&w->at_work);
    mr_shares_free(&w->waiting_shares);
    (void)pthread_cond_destroy(&w->changed);
    (void)pthread_mutex_destroy(&w->lock);
    mr_free(w);
}
