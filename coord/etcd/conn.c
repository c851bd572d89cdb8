/* Connections: one endpoint is active, until something on it fails; then the next one is. */
#include "base/file.h"
#include "base/limits.h"
#include "base/log.h"
#include "coord/etcd/internal.h"

/* ---- credentials ---- */

#define PASSWORD_BYTES_MAX ((size_t)MR_MIB)

static const char *given(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

int mr_etcd_read_password(const struct mr_etcd *e, char **ret, mr_error *err)
{
    MR_TRY_WRAP(mr_file_read(e->password_file, PASSWORD_BYTES_MAX, ret, err), err,
                "password of etcd's user");
    (*ret)[strcspn(*ret, "\r\n")] = '\0';
    return MR_OK;
}

int mr_etcd_read_credentials(struct mr_etcd *e, mr_error *err)
{
    const struct mr_rpc_files files = {.tls = e->tls,
                                       .ca = given(e->ca_file),
                                       .cert = given(e->cert_file),
                                       .key = given(e->key_file),
                                       .server_name = given(e->server_name)};
    MR_AUTO(mr_free) char *password = NULL;
    int rc = mr_rpc_credentials_new(e->runtime, &files, &e->credentials, err);

    if (rc >= 0 && e->password_file[0] != '\0') {
        rc = mr_etcd_read_password(e, &password, err);
    }
    if (rc < 0) {
        mr_error_wrap(err, "credentials for etcd");
        if (err != NULL && rc != MR_EEXHAUSTED) {
            err->code = MR_EINVAL; /* An option is wrong, whatever the system calls it. */
        }
        rc = rc != MR_EEXHAUSTED ? MR_EINVAL : rc;
    }
    return rc;
}

/* ---- connections ---- */

void mr_etcd_conn_free(struct mr_etcd_conn *c)
{
    if (c != NULL) {
        mr_rpc_channel_free(c->bulk);
        mr_rpc_channel_free(c->live);
        mr_free(c);
    }
}

static int conn_new(struct mr_etcd *e, struct mr_etcd_conn **ret, mr_error *err)
{
    MR_AUTO(mr_etcd_conn_free) struct mr_etcd_conn *c = mr_calloc(1, sizeof *c);
    const char *address = e->endpoints[e->active];

    MR_CHECK_ALLOC(c, err);
    MR_TRY(mr_rpc_channel_new(e->runtime, address, e->credentials, &c->bulk, err));
    MR_TRY(mr_rpc_channel_new(e->runtime, address, e->credentials, &c->live, err));
    c->endpoint = e->active;
    c->refs = 1;
    *ret = MR_TAKE(c);
    return MR_OK;
}

struct mr_etcd_conn *mr_etcd_conn_get_locked(struct mr_etcd *e, mr_error *err)
{
    if (e->closing) {
        (void)mr_error_set(err, MR_ECANCELED, "the store is being closed");
        return NULL;
    }
    if (e->conn == NULL && conn_new(e, &e->conn, err) < 0) {
        err->code = MR_EUNAVAIL; /* Whatever is wrong with a file now may be right the next time. */
        err->traits = MR_RETRYABLE;
        return NULL;
    }
    e->conn->refs++;
    return e->conn;
}

void mr_etcd_conn_put_locked(struct mr_etcd *e, struct mr_etcd_conn *c)
{
    if (c != NULL && --c->refs == 0) {
        mr_etcd_conn_free(c);
    }
}

void mr_etcd_conn_answered_locked(struct mr_etcd *e, struct mr_etcd_conn *c)
{
    if (c->answered) {
        return;
    }
    c->answered = true;
    if (e->quiet && e->conn == c) {
        e->quiet = false;
        mr_log(MR_LOG_INFO, "etcd answers again", "endpoint", "%s", e->endpoints[c->endpoint],
               NULL);
    }
}

const char *mr_etcd_conn_trouble(const mr_error *why, size_t endpoints)
{
    bool refused = strstr(why->message, "Connection refused") != NULL; /* gRPC has no code for it */

    if (endpoints > 1) {
        return refused ? "etcd endpoint refuses connections, trying the next"
                       : "etcd endpoint does not answer, trying the next";
    }
    return refused ? "etcd endpoint refuses connections, trying it again"
                   : "etcd endpoint does not answer, trying it again";
}

/* An outage is one line when it begins and one when it ends, however many attempts lie between. */
void mr_etcd_conn_failed_locked(struct mr_etcd *e, struct mr_etcd_conn *c, const mr_error *why)
{
    struct mr_etcd_request *r;

    if (e->conn != c || e->closing) {
        return;
    }
    if (!e->quiet) {
        e->quiet = true;
        mr_log(MR_LOG_WARN, mr_etcd_conn_trouble(why, e->nendpoints), "endpoint", "%s",
               e->endpoints[c->endpoint], "error", "%s", why->message, NULL);
    }
    if (e->nendpoints == 1 && !e->tls) {
        /* Its channels reconnect by themselves, and others' calls on them may be doing well. */
        c->answered = false;
        return;
    }
    e->conn = NULL;
    e->active = (e->active + 1) % e->nendpoints;
    LIST_FOREACH(r, &e->requests, link) {
        if (r->kind->lasts && r->conn == c) {
            r->kind->cancel_locked(r);
        }
    }
    mr_etcd_conn_put_locked(e, c);
}

void mr_etcd_ran(struct mr_etcd *e)
{
    MR_LOCK(&e->lock);
    MR_ASSERT(e->running > 0);
    if (--e->running == 0) {
        (void)pthread_cond_broadcast(&e->idle);
    }
}
