/* Connections: one endpoint is active, until something on it fails; then the next one is.
 * Credentials are read for each connection, because those who renew certificates replace the files.
 */
#include "base/limits.h"
#include "base/log.h"
#include "coord/etcd/internal.h"

#include <errno.h>

#define FILE_BYTES_MAX (1 * MR_MIB)

/* ---- credentials ---- */

int mr_etcd_read_file(const char *path, char **ret, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *b = &text;
    FILE *f = fopen(path, "re");
    size_t n;

    if (f == NULL) {
        return mr_error_errno(err, errno, "%s", path);
    }
    do {
        char *p = mr_buf_reserve(b, 4096);

        n = p != NULL ? fread(p, 1, 4096, f) : 0;
        b->len += n;
    } while (n > 0 && b->len <= FILE_BYTES_MAX);
    bool broken = ferror(f) != 0;

    (void)fclose(f);
    if (broken) {
        return mr_error_set(err, MR_EUNKNOWN, "%s: it cannot be read", path);
    }
    if (b->failed) {
        return mr_error_nomem(err);
    }
    if (b->len > FILE_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "%s: more than %llu bytes", path, FILE_BYTES_MAX);
    }
    *ret = mr_buf_take(b, NULL);
    return MR_OK;
}

/* @path "": *@ret stays NULL. */
static int read_pem(const char *path, const char *begin, const char *what, char **ret,
                    mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;

    if (path[0] == '\0') {
        return MR_OK;
    }
    MR_TRY(mr_etcd_read_file(path, &text, err));
    if (strstr(text, begin) == NULL || strstr(text, "ENCRYPTED") != NULL) {
        return mr_error_set(err, MR_EINVAL, "%s is not a %s in PEM format", path, what);
    }
    *ret = MR_TAKE(text);
    return MR_OK;
}

struct pem {
    char *ca;
    char *cert;
    char *key;
};

static void pem_free(struct pem *p)
{
    mr_free(p->ca);
    mr_free(p->cert);
    mr_free(p->key);
}
MR_AUTO_DEFINE(struct pem, pem_free)

static int pem_read(const struct mr_etcd *e, struct pem *p, mr_error *err)
{
    static const char certificate[] = "-----BEGIN CERTIFICATE-----";

    MR_TRY(read_pem(e->ca_file, certificate, "certificate", &p->ca, err));
    MR_TRY(read_pem(e->cert_file, certificate, "certificate", &p->cert, err));
    return read_pem(e->key_file, "PRIVATE KEY-----", "unencrypted private key", &p->key, err);
}

int mr_etcd_check_files(const struct mr_etcd *e, mr_error *err)
{
    struct pem files = {0};
    MR_AUTO(pem_free) struct pem *p = &files;
    MR_AUTO(mr_free) char *password = NULL;
    int rc = pem_read(e, p, err);

    if (rc >= 0 && e->password_file[0] != '\0') {
        rc = mr_etcd_read_file(e->password_file, &password, err);
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
    struct pem files = {0};
    MR_AUTO(pem_free) struct pem *p = &files;

    MR_CHECK_ALLOC(c, err);
    MR_TRY(pem_read(e, p, err));
    struct mr_rpc_tls tls = {.ca = p->ca,
                             .cert = p->cert,
                             .key = p->key,
                             .server_name = e->server_name[0] != '\0' ? e->server_name : NULL};

    MR_TRY(mr_rpc_channel_new(e->runtime, address, e->tls ? &tls : NULL, &c->bulk, err));
    MR_TRY(mr_rpc_channel_new(e->runtime, address, e->tls ? &tls : NULL, &c->live, err));
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
