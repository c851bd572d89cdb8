/* millrace state: the keys of a cluster in etcd, as a tree, as values, or judged. It needs etcd
 * alone, no dispatcher. */
#include "main/state.h"

#include "base/log.h"
#include "coord/etcd/etcd.h"
#include "main/commands.h"
#include "main/output.h"
#include "options/programs.h"

/* MR_EPRECOND: it is wrong, which was said on stdout. */
static int judge(const struct state_values *v, const struct state *state, struct mr_buf *out,
                 mr_error *err)
{
    struct state_report found = {0};
    MR_AUTO(state_report_free) struct state_report *report = &found;

    MR_TRY(state_check(state, report, err));
    if (v->json) {
        MR_TRY(state_report_json(state, report, out, err));
    } else {
        state_report_print(state, report, out);
    }
    MR_TRY(output_print(out, err));
    mr_buf_clear(out);
    if (report->problems.n > 0) {
        return mr_error_set(err, MR_EPRECOND, "the state below %s is wrong: %zu found", state->root,
                            report->problems.n);
    }
    if (v->strict && report->left_over.n > 0) {
        return mr_error_set(err, MR_EPRECOND, "%zu keys below %s are left over",
                            report->left_over.n, state->root);
    }
    return MR_OK;
}

/* There is nothing: of another cluster there may be. */
static int refuse_empty(const struct state_source *from, const char *root, const char *key,
                        bool prefix, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *names = &text;

    state_clusters(from, names);
    bool known = names->len > 0 && !names->failed;

    return mr_error_set(err, MR_ENOTFOUND, "no key %s%s%s at %.40s; clusters there: %.*s", root,
                        MR_SHOWN(key), prefix ? "..." : "", MR_SHOWN(from->where),
                        known ? (int)names->len : 4, known ? (const char *)names->data : "none");
}

enum verb { GET, TREE, CHECK };

static int run_on(const struct state_values *v, enum verb verb, mr_store *store, struct mr_buf *out,
                  mr_error *err)
{
    char root[MR_ROOT_SIZE];
    const char *key = verb == GET ? v->words[0] : "";
    struct state read = {0};
    MR_AUTO(state_free) struct state *state = &read;

    MR_TRY(mr_root_of(v->cluster, root, err));
    key += strncmp(key, root, strlen(root)) == 0 ? strlen(root) : 0; /* as etcdctl has it */
    bool prefix = key[0] == '\0' || key[strlen(key) - 1] == '/';
    struct state_source from = {.store = store,
                                .where = v->etcd_endpoints,
                                .cluster = v->cluster,
                                .timeout_ms = v->timeout,
                                .with_parts = verb == GET};

    MR_TRY(state_read(&from, key, prefix, state, err));
    if (state->count == 0) {
        return refuse_empty(&from, root, key, prefix, err);
    }
    if (verb == CHECK) {
        return judge(v, state, out, err);
    }
    if (v->json) {
        return state_print_json(state, out, err);
    }
    if (verb == GET) {
        state_print_values(state, !prefix, out);
    } else {
        state_print_tree(state, out);
    }
    return MR_OK;
}

static void store_close(mr_store *store)
{
    if (store != NULL) {
        store->ops->close(store);
    }
}

MR_AUTO_DEFINE(mr_store, store_close)

static int run_verb(const struct state_values *v, enum verb verb, mr_error *err)
{
    struct mr_etcd_options etcd = {.endpoints = v->etcd_endpoints,
                                   .ca_file = v->etcd.ca,
                                   .cert_file = v->etcd.cert,
                                   .key_file = v->etcd.key,
                                   .server_name = v->etcd.server_name,
                                   .user = v->etcd.user,
                                   .password_file = v->etcd.password_file};
    MR_AUTO(store_close) mr_store *store = NULL;
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *out = &text;

    /* An endpoint that does not answer is told once, at the end. */
    mr_log_init(MR_LOG_ERROR, MR_LOG_TEXT, "state");
    MR_TRY(mr_etcd_open(&etcd, &store, err));
    MR_TRY(run_on(v, verb, store, out, err));
    return output_print(out, err);
}

int command_state_get(void *values, mr_error *err)
{
    return run_verb(values, GET, err);
}

int command_state_tree(void *values, mr_error *err)
{
    return run_verb(values, TREE, err);
}

int command_state_check(void *values, mr_error *err)
{
    return run_verb(values, CHECK, err);
}
