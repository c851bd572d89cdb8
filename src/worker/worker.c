/* Starting and stopping: options, the server, the link. */
#include "worker/conn.h"
#include "worker/times.h"

#include "access/server.h"
#include "base/log.h"
#include "engine/env.h"
#include "millrace/service.rpc.h"

/* Connections that wait for their tasks, at once. */
#define WAITING_MAX 4096u
/* For so long no room comes free for a definition, and the task has failed. Clearly longer than it
 * takes until a job is collected whose reader was killed: a client is gone after two minutes, its
 * iteration after five more, by default. */
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
        MR_TRY(mr_rpc_advertise(listen, w->port, w->dispatchers, own, sizeof own, err));
    }
    w->address = advertise != NULL ? with_port(advertise, w->port) : mr_strdup(own);
    MR_CHECK_ALLOC(w->address, err);
    return mr_rpc_check_advertised(w->address, err);
}

/* @list: words with commas between, or NULL. */
static int copy_tags(mr_worker *w, const char *list, mr_error *err)
{
    char *rest = NULL;

    w->tag_list = mr_strdup(list == NULL ? "" : list);
    MR_CHECK_ALLOC(w->tag_list, err);
    for (char *tag = strtok_r(w->tag_list, ",", &rest); tag != NULL;
         tag = strtok_r(NULL, ",", &rest)) {
        if (w->ntags == MR_WORKER_TAGS_MAX) {
            return mr_error_set(err, MR_EINVAL, "--tags: more than %d", MR_WORKER_TAGS_MAX);
        }
        if (strlen(tag) > MR_NAME_BYTES_MAX) {
            return mr_error_set(err, MR_EINVAL, "--tags: a tag of %zu bytes, more than %d",
                                strlen(tag), MR_NAME_BYTES_MAX);
        }
        w->tags[w->ntags++] = tag;
    }
    return MR_OK;
}

static int copy_options(mr_worker *w, const struct mr_worker_options *opts, mr_error *err)
{
    if (opts->dispatchers == NULL) {
        return mr_error_set(err, MR_EINVAL,
                            "--dispatcher is needed: host:port of a dispatcher, or of several");
    }
    w->dispatchers = mr_strdup(opts->dispatchers);
    MR_CHECK_ALLOC(w->dispatchers, err);
    w->dispatcher_timeout_ms = (uint64_t)opts->dispatcher_timeout_ms;
    w->threads = (uint32_t)opts->threads;
    mr_cpu_set_cores(mr_machine_cores());
    mr_shares_init(&w->at_work, "tasks at work", (uint32_t)opts->tasks_max);
    struct mr_windows_options windows = {.dir = opts->cache_dir,
                                         .disk_bytes_max = (uint64_t)opts->cache_bytes_max,
                                         .memory_bytes_max =
                                             (uint64_t)opts->cache_memory_bytes_max};
    uint64_t budget = opts->memory_budget_bytes != 0 ? (uint64_t)opts->memory_budget_bytes
                                                     : mr_machine_memory_bytes() / 2;
    MR_TRY(mr_memory_new(budget, NULL, &w->memory, err));
    windows.memory = w->memory;
    MR_TRY(mr_windows_new(&windows, &w->windows, err));
    MR_TRY(mr_definitions_new(
        w->memory, opts->definition_wait_ms != 0 ? opts->definition_wait_ms : DEFINITION_WAIT_MS,
        &w->definitions, err));
    return copy_tags(w, opts->tags, err);
}

static int start_server(mr_worker *w, const struct mr_worker_options *opts, mr_error *err)
{
    const struct mr_rpc_files files = mr_access_files(&opts->access, opts->client_auth);

    MR_TRY(mr_access_check_listen(opts->listen, &files, false /* clients show tickets */,
                                  opts->insecure, err));
    MR_TRY(mr_rpc_acquire(&w->rt, err));
    MR_TRY(mr_rpc_credentials_new(w->rt, &files, &w->credentials, err));
    MR_TRY(mr_rpc_server_new(w->rt, NULL, &w->server, err));
    MR_TRY(mr_rpc_server_stream(w->server, MR_PATH_READ, mr_conn_accept, w, err));
    MR_TRY(mr_rpc_server_listen(w->server, opts->listen, w->credentials, &w->port, err));
    MR_TRY(choose_address(w, opts->listen, opts->advertise, err));
    /* The link first: a connection may come in as soon as the server runs. */
    MR_TRY(mr_link_new(w, opts, &w->link, err));
    MR_TRY(mr_times_start(w, err));
    MR_TRY(mr_rpc_server_start(w->server, err));
    return mr_link_start(w->link, err);
}

int mr_worker_start(const struct mr_worker_options *options, mr_worker **ret, mr_error *err)
{
    struct mr_worker_options opts = *options;
    mr_worker *w = mr_calloc(1, sizeof *w);

    MR_CHECK_ALLOC(w, err);
    mr_mutex_init(&w->lock);
    mr_cond_init(&w->changed);
    mr_cond_init(&w->look_due);
    TAILQ_INIT(&w->tasks);
    TAILQ_INIT(&w->waiting);
    mr_shares_init(&w->waiting_shares, "streams whose tasks are not here",
                   opts.waiting_max == 0 ? WAITING_MAX : (uint32_t)opts.waiting_max);
    mr_worker_options_fill(&opts);
    int rc = mr_worker_begin_life(w) ? copy_options(w, &opts, err) : mr_error_nomem(err);
    if (rc == MR_OK) {
        rc = start_server(w, &opts, err);
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

void mr_worker_stop(mr_worker *w, int64_t grace_ms)
{
    mr_mutex_lock(&w->lock);
    bool before = w->stopping;
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
    mr_times_stop(w);
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
    mr_rpc_credentials_free(w->credentials);
    if (w->rt != NULL) {
        mr_rpc_release(w->rt);
    }
    mr_windows_free(w->windows);
    mr_definitions_free(w->definitions);
    mr_memory_unref(w->memory);
    mr_free(w->tag_list);
    mr_free(w->dispatchers);
    mr_free(w->address);
    mr_worker_free_lives(w);
    mr_shares_free(&w->at_work);
    mr_shares_free(&w->waiting_shares);
    (void)pthread_cond_destroy(&w->changed);
    (void)pthread_cond_destroy(&w->look_due);
    (void)pthread_mutex_destroy(&w->lock);
    mr_free(w);
}
