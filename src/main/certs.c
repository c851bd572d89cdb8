/*
 * millrace certs: all that a small cluster with TLS and access control needs, in one directory: an
 * authority, certificates of dispatchers and workers, tokens and an access file.
 *
 * A certificate that is renewed replaces its key first and itself right after it, each by a rename:
 * nobody reads half a file, and who reads both between the two finds a pair that does not fit, once.
 */
#include "certs/certs.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/limits.h"
#include "main/access_file.h"
#include "main/commands.h"
#include "main/key_files.h"
#include "main/output.h"
#include "options/programs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

MR_AUTO_DEFINE(char, free)
MR_AUTO_DEFINE(json_t, json_decref)

#define TRUST_DOMAIN "millrace.test"
#define HOSTS_MAX 64u

/* In the order in which they are written. */
enum file {
    CA_KEY,
    CA_CERT,
    DISPATCHER_KEY,
    DISPATCHER_CERT,
    WORKER_KEY,
    WORKER_CERT,
    TEAM_TOKEN,
    ADMIN_TOKEN,
    ACCESS,
    FILES,
};

struct certs {
    const struct certs_values *v;
    int64_t now_s;
    char *list;                   /* --hosts, cut into words */
    const char *hosts[HOSTS_MAX]; /* lent from it */
    size_t n_hosts;
    size_t n_given; /* of these, those of --hosts, which come first */
    const char *trust_domain;
    mr_ca *ca;
    bool made_ca;
    struct key_file files[FILES];
};

static void certs_free(struct certs *c)
{
    mr_free(c->list);
    mr_ca_free(c->ca);
    for (size_t i = 0; i < FILES; i++) {
        mr_buf_free(&c->files[i].text);
    }
}

MR_AUTO_DEFINE(struct certs, certs_free)

static struct mr_buf *text(struct certs *c, enum file file)
{
    return &c->files[file].text;
}

/* ---- what was asked for ---- */

static int add_host(struct certs *c, const char *host, mr_error *err)
{
    for (size_t i = 0; i < c->n_hosts; i++) {
        if (strcasecmp(c->hosts[i], host) == 0) {
            return MR_OK;
        }
    }
    if (!mr_certs_is_host(host)) {
        return mr_error_set(err, MR_EINVAL,
                            "--hosts: '%s' is no host name or IP address (without a port)",
                            MR_SHOWN(host));
    }
    if (c->n_hosts == HOSTS_MAX) {
        return mr_error_set(err, MR_EINVAL, "--hosts: more than %u of them", HOSTS_MAX);
    }
    c->hosts[c->n_hosts++] = host;
    return MR_OK;
}

static int take_hosts(struct certs *c, mr_error *err)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "::1"};
    char *place = NULL;

    c->list = mr_strdup(c->v->hosts != NULL ? c->v->hosts : "");
    MR_CHECK_ALLOC(c->list, err);
    for (char *word = strtok_r(c->list, ", ", &place); word != NULL;
         word = strtok_r(NULL, ", ", &place)) {
        MR_TRY(add_host(c, word, err));
    }
    c->n_given = c->n_hosts;
    for (size_t i = 0; i < sizeof loopback / sizeof loopback[0]; i++) {
        MR_TRY(add_host(c, loopback[i], err));
    }
    return MR_OK;
}

/* Nothing that somebody may use already is replaced, but certificates that shall be. */
static int check_files(struct certs *c, mr_error *err)
{
    const char *dir = c->v->out;

    for (size_t i = DISPATCHER_KEY; i < FILES && !c->v->renew; i++) {
        if (key_file_exists(dir, c->files[i].name)) {
            return mr_error_set(err, MR_EPRECOND,
                                "%s has %s already: --renew makes new certificates under the same "
                                "CA; all anew is for another directory",
                                MR_SHOWN_PATH_PART(dir), c->files[i].name);
        }
    }
    return MR_OK;
}

/* ---- the authority ---- */

static int read_ca(struct certs *c, mr_error *err)
{
    struct mr_buf cert_text = MR_BUF_INIT;
    struct mr_buf key_text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *cert = &cert_text;
    MR_AUTO(mr_buf_free) struct mr_buf *key = &key_text;

    MR_TRY(key_file_read(c->v->out, c->files[CA_CERT].name, cert, err));
    MR_TRY(key_file_read(c->v->out, c->files[CA_KEY].name, key, err));
    MR_TRY_WRAP(mr_ca_read(cert, key, &c->ca, err), err, "ca.pem and ca.key in %s",
                MR_SHOWN_PATH_PART(c->v->out));
    return MR_OK;
}

static int make_ca(struct certs *c, mr_error *err)
{
    c->made_ca = true;
    MR_TRY(mr_ca_make(c->trust_domain, c->now_s, text(c, CA_CERT), text(c, CA_KEY), err));
    return mr_ca_read(text(c, CA_CERT), text(c, CA_KEY), &c->ca, err);
}

static int find_ca(struct certs *c, mr_error *err)
{
    const char *wanted = c->v->trust_domain;
    const char *its;

    if (wanted != NULL && !mr_certs_is_trust_domain(wanted)) {
        return mr_error_set(err, MR_EINVAL,
                            "--trust-domain '%s': lower-case letters, digits, '.', '-' and '_' are "
                            "wanted, as in example.org",
                            MR_SHOWN(wanted));
    }
    c->trust_domain = wanted != NULL ? wanted : TRUST_DOMAIN;
    if (!c->v->renew && !key_file_exists(c->v->out, c->files[CA_CERT].name) &&
        !key_file_exists(c->v->out, c->files[CA_KEY].name)) {
        return make_ca(c, err);
    }
    MR_TRY(read_ca(c, err));
    its = mr_ca_trust_domain(c->ca);
    if (its[0] != '\0' && wanted != NULL && strcmp(its, wanted) != 0) {
        return mr_error_set(err, MR_EPRECOND, "the CA in %s is of the trust domain '%s', not '%s'",
                            MR_SHOWN_PATH_PART(c->v->out), its, wanted);
    }
    c->trust_domain = its[0] != '\0' ? its : c->trust_domain;
    return MR_OK;
}

/* ---- certificates ---- */

static int issue(struct certs *c, const char *role, enum file key, enum file cert, mr_error *err)
{
    struct mr_buf old_text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *old = &old_text;
    struct mr_leaf leaf = {.role = role,
                           .trust_domain = c->trust_domain,
                           .hosts = c->hosts,
                           .n_hosts = c->n_hosts,
                           .now_s = c->now_s,
                           .days = c->v->days};

    if (c->v->renew && c->n_given == 0) {
        MR_TRY(key_file_read(c->v->out, c->files[cert].name, old, err));
        leaf.names_of = old;
    }
    MR_TRY_WRAP(mr_ca_issue(c->ca, &leaf, text(c, cert), text(c, key), err), err, "%s",
                c->files[cert].name);
    return MR_OK;
}

/* ---- who may do what ---- */

/* An identity of whoever has the token of @file, which is drawn. */
static int add_token(struct certs *c, enum file file, const char *name, const char *roles,
                     json_t *identities, mr_error *err)
{
    json_t *identity = NULL;

    access_token_draw(text(c, file));
    MR_TRY(access_identity_of_token(name, roles, text(c, file), &identity, err));
    return json_array_append_new(identities, identity) == 0 ? MR_OK : mr_error_nomem(err);
}

/* @name has @role by the certificate of all servers of @kind. */
static int add_server(struct certs *c, const char *name, const char *role, const char *kind,
                      json_t *identities, mr_error *err)
{
    MR_AUTO(mr_free) char *id = mr_asprintf("spiffe://%s/millrace/%s", c->trust_domain, kind);
    json_t *identity = NULL;

    MR_CHECK_ALLOC(id, err);
    MR_TRY(access_identity_of_certificate(name, role, id, &identity, err));
    return json_array_append_new(identities, identity) == 0 ? MR_OK : mr_error_nomem(err);
}

static int make_access(struct certs *c, mr_error *err)
{
    MR_AUTO(json_decref) json_t *identities = json_array();
    MR_AUTO(json_decref) json_t *doc = NULL;
    MR_AUTO(free) char *json = NULL;

    MR_CHECK_ALLOC(identities, err);
    MR_TRY(add_token(c, TEAM_TOKEN, "team", "read,write", identities, err));
    MR_TRY(add_token(c, ADMIN_TOKEN, "admin", "read,write,admin", identities, err));
    MR_TRY(add_server(c, "workers", "worker", "worker", identities, err));
    /* A standby follows the leader, which takes some role. */
    MR_TRY(add_server(c, "dispatchers", "read", "dispatcher", identities, err));
    doc = json_pack("{sO}", "identities", identities);
    json = doc != NULL ? json_dumps(doc, JSON_INDENT(2)) : NULL;
    MR_CHECK_ALLOC(json, err);
    mr_buf_puts(text(c, ACCESS), json);
    mr_buf_puts(text(c, ACCESS), "\n");
    return MR_OK;
}

/* ---- what to do with it ---- */

/* @dir/@name as a shell takes it for one word. */
static void put_path(struct mr_buf *out, const char *dir, const char *name)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";
    const char *slash = dir[strlen(dir) - 1] == '/' || name[0] == '\0' ? "" : "/";

    if (dir[strspn(dir, plain)] == '\0') {
        mr_buf_printf(out, "%s%s%s", dir, slash, name);
        return;
    }
    mr_buf_puts(out, "'");
    for (const char *c = dir; *c != '\0'; c++) {
        if (*c == '\'') {
            mr_buf_puts(out, "'\\''");
        } else {
            output_safe(out, c, 1);
        }
    }
    mr_buf_printf(out, "%s%s'", slash, name);
}

static void put_option(struct certs *c, struct mr_buf *out, const char *option, enum file file)
{
    mr_buf_printf(out, " \\\n      %s ", option);
    put_path(out, c->v->out, c->files[file].name);
}

/* The first name that somebody can connect to. */
static const char *first_host(const struct certs *c)
{
    for (size_t i = 0; i < c->n_given; i++) {
        if (c->hosts[i][0] != '*') {
            return c->hosts[i];
        }
    }
    return "localhost";
}

static void put_servers(struct certs *c, struct mr_buf *out)
{
    const char *host = first_host(c);
    bool v6 = strchr(host, ':') != NULL;
    char address[MR_HOST_BYTES_MAX + 16];

    (void)snprintf(address, sizeof address, v6 ? "[%s]:5050" : "%s:5050", host);
    mr_buf_puts(out, "A dispatcher, a worker, and a look at them:\n\n  millrace dispatcher");
    if (c->n_given > 0) {
        mr_buf_printf(out, " --listen %s:5050 --advertise-address %s", v6 ? "[::]" : "0.0.0.0",
                      address);
    }
    put_option(c, out, "--tls-ca", CA_CERT);
    put_option(c, out, "--tls-cert", DISPATCHER_CERT);
    put_option(c, out, "--tls-key", DISPATCHER_KEY);
    put_option(c, out, "--access-file", ACCESS);
    mr_buf_printf(out, "\n  millrace worker --dispatcher %s", address);
    if (c->n_given > 0) {
        mr_buf_printf(out, " --listen %s:0 --advertise-address $(hostname):%%port%%",
                      v6 ? "[::]" : "0.0.0.0");
    }
    put_option(c, out, "--tls-ca", CA_CERT);
    put_option(c, out, "--tls-cert", WORKER_CERT);
    put_option(c, out, "--tls-key", WORKER_KEY);
    mr_buf_printf(out, "\n  millrace status --service %s", address);
    put_option(c, out, "--tls-ca", CA_CERT);
    put_option(c, out, "--token-file", ADMIN_TOKEN);
    mr_buf_puts(out, "\n\nThose who read and write get ca.pem and team.token, and set:\n\n"
                     "  export MILLRACE_TLS_CA=");
    put_path(out, c->v->out, c->files[CA_CERT].name);
    mr_buf_puts(out, " MILLRACE_TOKEN_FILE=");
    put_path(out, c->v->out, c->files[TEAM_TOKEN].name);
    mr_buf_puts(out, "\n\nBefore the certificates end: millrace certs --renew --out ");
    put_path(out, c->v->out, "");
    mr_buf_puts(out, "\n");
}

static int tell(struct certs *c, mr_error *err)
{
    struct mr_buf output = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *out = &output;
    char end[32];

    (void)mr_utc_format(c->now_s + c->v->days * 86400, end);
    mr_buf_printf(out, "%s", c->v->renew ? "New certificates and keys are in " : "Made ");
    put_path(out, c->v->out, "");
    mr_buf_printf(out, ", valid until %.10s", end);
    if (!c->v->renew || c->n_given > 0) {
        mr_buf_puts(out, ", for");
        for (size_t i = 0; i < c->n_hosts; i++) {
            mr_buf_printf(out, "%s %s", i == 0 ? "" : ",", c->hosts[i]);
        }
    }
    mr_buf_puts(out, ".\n");
    if (!c->v->renew) {
        mr_buf_puts(out, "\n");
        put_servers(c, out);
    }
    return output_print(out, err);
}

static int make_directory(const char *dir, mr_error *err)
{
    return mkdir(dir, 0777) == 0 || errno == EEXIST
               ? MR_OK
               : mr_error_errno(err, errno, "%s", MR_SHOWN_PATH(dir));
}

int command_certs(void *values, mr_error *err)
{
    struct certs all = {.v = values,
                        .now_s = mr_wall_ms() / 1000,
                        .files = {[CA_KEY] = {.name = "ca.key", .secret = true},
                                  [CA_CERT] = {.name = "ca.pem"},
                                  [DISPATCHER_KEY] = {.name = "dispatcher.key", .secret = true},
                                  [DISPATCHER_CERT] = {.name = "dispatcher.pem"},
                                  [WORKER_KEY] = {.name = "worker.key", .secret = true},
                                  [WORKER_CERT] = {.name = "worker.pem"},
                                  [TEAM_TOKEN] = {.name = "team.token", .secret = true},
                                  [ADMIN_TOKEN] = {.name = "admin.token", .secret = true},
                                  [ACCESS] = {.name = "access.json", .secret = true}}};
    MR_AUTO(certs_free) struct certs *c = &all;

    MR_TRY(take_hosts(c, err));
    MR_TRY(check_files(c, err));
    MR_TRY(find_ca(c, err));
    MR_TRY(issue(c, "dispatcher", DISPATCHER_KEY, DISPATCHER_CERT, err));
    MR_TRY(issue(c, "worker", WORKER_KEY, WORKER_CERT, err));
    if (!c->v->renew) {
        MR_TRY(make_access(c, err));
    }
    size_t first = c->made_ca ? CA_KEY : DISPATCHER_KEY;
    size_t end = c->v->renew ? TEAM_TOKEN : FILES;

    MR_TRY(make_directory(c->v->out, err));
    MR_TRY(key_files_write(c->v->out, &c->files[first], end - first, err));
    return tell(c, err);
}
