/* Opening and closing: options, endpoints. Requests are in op.c, watches in watch.c, what they
 * share in request.c. */
#include "base/address.h"
#include "coord/etcd/internal.h"

static void etcd_free(struct mr_etcd *e)
{
    if (e == NULL) {
        return;
    }
    mr_etcd_conn_free(e->conn);
    mr_rpc_credentials_free(e->credentials);
    if (e->runtime != NULL) {
        mr_rpc_release(e->runtime);
    }
    for (size_t i = 0; i < e->nendpoints; i++) {
        mr_free(e->endpoints[i]);
    }
    mr_free(e->endpoints);
    mr_free(e->ca_file);
    mr_free(e->cert_file);
    mr_free(e->key_file);
    mr_free(e->server_name);
    mr_free(e->user);
    mr_free(e->password_file);
    mr_free(e->token);
    (void)pthread_cond_destroy(&e->idle);
    (void)pthread_mutex_destroy(&e->lock);
    mr_free(e);
}
MR_AUTO_DEFINE(struct mr_etcd, etcd_free)

static void etcd_close(mr_store *s)
{
    struct mr_etcd *e = (struct mr_etcd *)s;

    mr_mutex_lock(&e->lock);
    e->closing = true;
    mr_etcd_requests_cancel_locked(e);
    if (e->login_call != NULL) {
        mr_rpc_call_cancel(e->login_call);
    }
    while (e->running > 0) {
        mr_cond_wait(&e->idle, &e->lock);
    }
    mr_mutex_unlock(&e->lock);
    etcd_free(e);
}

/* Does it begin with @scheme, which is left out then? */
static bool skip(const char **p, size_t *n, const char *scheme)
{
    size_t size = strlen(scheme);
    bool there = *n >= size && strncmp(*p, scheme, size) == 0;

    *p += there ? size : 0;
    *n -= there ? size : 0;
    return there;
}

static bool is_address(const char *p, size_t n)
{
    char text[MR_ADDRESS_BYTES_MAX + 1];

    return n < sizeof text && snprintf(text, sizeof text, "%.*s", (int)n, p) >= 0 &&
           mr_address_is_valid(text);
}

/* One endpoint of the list: [p, p + n). */
static int add_endpoint(struct mr_etcd *e, const char *p, size_t n, mr_error *err)
{
    char given[2 * MR_SHOWN_BYTES]; /* enough to be cut when it is shown */

    (void)snprintf(given, sizeof given, "%.*s", (int)n, p);
    bool tls = skip(&p, &n, "https://");
    bool plain = !tls && skip(&p, &n, "http://");

    while (n > 0 && p[n - 1] == '/') {
        n--;
    }
    if (!is_address(p, n)) {
        return mr_error_set(err, MR_EINVAL, "etcd endpoint '%s': host:port is wanted",
                            MR_SHOWN(given));
    }
    if (plain && e->tls) {
        return mr_error_set(err, MR_EINVAL,
                            "etcd endpoint '%s' is plain text, but TLS was asked for",
                            MR_SHOWN(given));
    }
    if (tls && !e->tls && e->nendpoints > 0) {
        return mr_error_set(err, MR_EINVAL, "etcd endpoint '%s' is TLS, '%s' is not",
                            MR_SHOWN(given), MR_SHOWN(e->endpoints[0]));
    }
    e->tls = e->tls || tls;
    if (e->nendpoints == MR_ETCD_ENDPOINTS_MAX) {
        return mr_error_set(err, MR_EINVAL, "more than %d etcd endpoints", MR_ETCD_ENDPOINTS_MAX);
    }
    e->endpoints[e->nendpoints] = mr_strndup(p, n);
    MR_CHECK_ALLOC(e->endpoints[e->nendpoints], err);
    e->nendpoints++;
    return MR_OK;
}

static int add_endpoints(struct mr_etcd *e, const char *list, mr_error *err)
{
    for (const char *p = list;; p++) {
        size_t n = strcspn(p, ",");

        MR_TRY(add_endpoint(e, p, n, err));
        p += n;
        if (*p == '\0') {
            return MR_OK;
        }
    }
}

static int take_options(struct mr_etcd *e, const struct mr_etcd_options *o, mr_error *err)
{
    const struct {
        char **kept;
        const char *given;
    } texts[] = {{&e->ca_file, o->ca_file},   {&e->cert_file, o->cert_file},
                 {&e->key_file, o->key_file}, {&e->server_name, o->server_name},
                 {&e->user, o->user},         {&e->password_file, o->password_file}};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i].kept = mr_strdup(texts[i].given != NULL ? texts[i].given : "");
        MR_CHECK_ALLOC(*texts[i].kept, err);
    }
    e->seconds = o->seconds;
    if ((e->cert_file[0] == '\0') != (e->key_file[0] == '\0')) {
        return mr_error_set(err, MR_EINVAL, "a certificate for etcd and its key go together");
    }
    if ((e->user[0] == '\0') != (e->password_file[0] == '\0')) {
        return mr_error_set(err, MR_EINVAL,
                            "a user of etcd and the file with the password go together");
    }
    if (e->server_name[0] != '\0' && !mr_address_is_host(e->server_name)) {
        return mr_error_set(err, MR_EINVAL,
                            "etcd's certificate cannot name '%s', which is not a host name",
                            MR_SHOWN(e->server_name));
    }
    e->tls = e->ca_file[0] != '\0' || e->cert_file[0] != '\0' || e->server_name[0] != '\0';
    e->login = e->user[0] != '\0' ? MR_ETCD_LOGIN_WANTED : MR_ETCD_LOGIN_NONE;
    return MR_OK;
}

static const struct mr_store_ops store_ops = {
    .txn = mr_etcd_txn,
    .range = mr_etcd_range,
    .lease = mr_etcd_lease,
    .status = mr_etcd_status,
    .watch = mr_etcd_watch,
    .watch_cancel = mr_etcd_watch_cancel,
    .close = etcd_close,
};

int mr_etcd_open(const struct mr_etcd_options *opts, mr_store **ret, mr_error *err)
{
    MR_AUTO(etcd_free) struct mr_etcd *e = mr_calloc(1, sizeof *e);

    MR_CHECK_ALLOC(e, err);
    e->store.ops = &store_ops;
    mr_mutex_init(&e->lock);
    mr_cond_init(&e->idle);
    e->endpoints = mr_calloc(MR_ETCD_ENDPOINTS_MAX, sizeof *e->endpoints);
    MR_CHECK_ALLOC(e->endpoints, err);
    MR_TRY(take_options(e, opts, err));
    MR_TRY(add_endpoints(e, opts->endpoints, err));
    MR_TRY(mr_rpc_acquire(&e->runtime, err));
    MR_TRY(mr_etcd_read_credentials(e, err));
    *ret = &MR_TAKE(e)->store;
    return MR_OK;
}
