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

static int run_on(const struct state_values *v, mr_store *store, struct mr_buf *out, mr_error *err)
{
    bool get = strcmp(v->words[0], "get") == 0;
    char root[MR_ROOT_SIZE];
    const char *key = get ? v->words[1] : "";
    struct state read = {0};
    MR_AUTO(state_free) struct state *state = &read;

    MR_TRY(mr_root_of(v->cluster, root, err));
    key += strncmp(key, root, strlen(root)) == 0 ? strlen(root) : 0; /* as etcdctl has it */
    bool prefix = key[0] == '\0' || key[strlen(key) - 1] == '/';
    struct state_source from = {.store = store,
                                .where = v->etcd_endpoints,
                                .cluster = v->cluster,
                                .timeout_ms = v->timeout,
                                .with_parts = get};

    MR_TRY(state_read(&from, key, prefix, state, err));
    if (state->count == 0) {
        return refuse_empty(&from, root, key, prefix, err);
    }
    if (strcmp(v->words[0], "check") == 0) {
        return judge(v, state, out, err);
    }
    if (v->json) {
        return state_print_json(state, out, err);
    }
    if (get) {
        state_print_values(state, !prefix, out);
    } else {
        state_print_tree(state, out);
    }
    return MR_OK;
}

static int check_words(const struct state_values *v, mr_error *err)
{
    static const char *const verbs[] = {"get", "tree", "check"};
    const char *verb = v->words[0];

    if (verb == NULL) {
        return mr_error_set(err, MR_EINVAL, "get KEY, tree or check?");
    }
    if (strcmp(verb, "get") == 0) {
        return v->words[1] != NULL
                   ? MR_OK
                   : mr_error_set(err, MR_EINVAL,
                                  "get needs a key: jobs/train, or jobs/ for all of them");
    }
    for (size_t i = 1; i < sizeof verbs / sizeof verbs[0]; i++) {
        if (strcmp(verb, verbs[i]) == 0) {
            return v->words[1] == NULL ? MR_OK
                                       : mr_error_set(err, MR_EINVAL, "%s takes no '%s'", verb,
                                                      MR_SHOWN(v->words[1]));
        }
    }
    const char *nearest = opt_nearest(verb, verbs, sizeof verbs / sizeof verbs[0]);

    return mr_error_set(err, MR_EINVAL, "no command 'state %s'%s%s%s", MR_SHOWN(verb),
                        nearest == NULL ? "" : "; did you mean '", nearest == NULL ? "" : nearest,
                        nearest == NULL ? "" : "'?");
}

static void store_close(mr_store *store)
{
    if (store != NULL) {
        store->ops->close(store);
    }
}

MR_AUTO_DEFINE(mr_store, store_close)

int command_state(void *values, mr_error *err)
{
    const struct state_values *v = values;
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
    MR_TRY(check_words(v, err));
    MR_TRY(mr_etcd_open(&etcd, &store, err));
    MR_TRY(run_on(v, store, out, err));
    return output_print(out, err);
}
