#include "tests/support/etcd.h"
#include "base/base.h"
#include "tests/support/port.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TRIES 3
#define READY_MS 20000
#define ARGS_MAX 48
#define TEXT 256

struct member {
    pid_t pid;
    int client_port;
    int peer_port;
    int generation; /* of its data */
};

struct mr_test_etcd {
    struct mr_test_etcd_options opts;
    struct member members[MR_TEST_ETCD_MEMBERS_MAX];
    int n;
    char dir[64];
    char endpoints[128];
    char prefix[128];
    char ca[TEXT];
    char cert[TEXT];
    char key[TEXT];
    char password[TEXT]; /* file */
    bool authenticating;
};

/* What an argument list is made of. */
struct args {
    char *v[ARGS_MAX + 1];
    size_t n;
};

static void add(struct args *a, const char *fmt, const char *x, int n)
{
    char *s = malloc(2 * TEXT);

    if (s == NULL || a->n == ARGS_MAX) {
        abort();
    }
    if (n >= 0) {
        (void)snprintf(s, 2 * TEXT, "%s%d", fmt, n);
    } else {
        (void)snprintf(s, 2 * TEXT, "%s%s", fmt, x);
    }
    a->v[a->n++] = s;
}

static void args_free(struct args *a)
{
    for (size_t i = 0; i < a->n; i++) {
        free(a->v[i]);
    }
}

bool mr_test_etcd_exists(void)
{
    return access("/usr/bin/etcd", X_OK) == 0;
}

/* @out: a descriptor for its output, or -1: to the file @log. */
static pid_t spawn(char *const argv[], const char *log, int out)
{
    pid_t parent = getpid();
    pid_t pid = fork();

    if (pid != 0) {
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(126); /* The test died before the line above. */
    }
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    if (fd >= 0) {
        dup2(out >= 0 ? out : fd, 1);
        dup2(fd, 2);
    }
    execv(argv[0], argv);
    _exit(127);
}

static int finish(pid_t pid)
{
    int status = 0;

    if (pid < 0) {
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int run_args(struct args *a, const char *log)
{
    int rc = finish(spawn(a->v, log, -1));

    args_free(a);
    return rc;
}

/* ---- etcdctl ---- */

static struct args etcdctl_args(const struct mr_test_etcd *e, const char *endpoints,
                                const char *const *args)
{
    struct args a = {.n = 0};

    add(&a, "/usr/bin/etcdctl", "", -1);
    add(&a, "--endpoints=", endpoints, -1);
    add(&a, "--dial-timeout=30s", "",
        -1); /* a slow machine's; what @args say comes later and counts */
    add(&a, "--command-timeout=30s", "", -1);
    if (e->opts.tls) {
        /* It cannot be told another server name than the endpoint's host, and needs none to be
         * tried. */
        add(&a, "--insecure-skip-tls-verify", "", -1);
        add(&a, "--insecure-transport=false", "", -1);
        add(&a, "--cacert=", e->ca, -1);
        add(&a, "--cert=", e->cert, -1);
        add(&a, "--key=", e->key, -1);
    }
    if (e->authenticating) {
        add(&a, "--user=root:rootpw", "", -1);
    }
    while (*args != NULL) {
        add(&a, "", *args++, -1);
    }
    setenv("ETCDCTL_API", "3", 1);
    return a;
}

int mr_test_etcdctl(const struct mr_test_etcd *e, const char *const *args)
{
    struct args a = etcdctl_args(e, e->endpoints, args);

    return run_args(&a, "/dev/null");
}

int mr_test_etcdctl_member(const struct mr_test_etcd *e, int member, const char *const *args)
{
    char endpoint[32];

    (void)snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", e->members[member].client_port);
    struct args a = etcdctl_args(e, endpoint, args);

    return run_args(&a, "/dev/null");
}

int mr_test_etcdctl_read(const struct mr_test_etcd *e, const char *const *args, char *out,
                         size_t size)
{
    struct args a = etcdctl_args(e, e->endpoints, args);
    size_t len = 0;
    ssize_t got;
    int fds[2];

    if (pipe(fds) < 0) {
        return -1;
    }
    pid_t pid = spawn(a.v, "/dev/null", fds[1]);

    close(fds[1]);
    while (len + 1 < size && (got = read(fds[0], out + len, size - 1 - len)) > 0) {
        len += (size_t)got;
    }
    close(fds[0]);
    out[len] = '\0';
    args_free(&a);
    return finish(pid);
}

/* ---- members ---- */

static void member_dir(const struct mr_test_etcd *e, int i, char out[TEXT])
{
    (void)snprintf(out, TEXT, "%s/data-%d-%d", e->dir, i, e->members[i].generation);
}

static void initial_cluster(const struct mr_test_etcd *e, char out[TEXT])
{
    size_t len = 0;

    for (int i = 0; i < e->n; i++) {
        len += (size_t)snprintf(out + len, TEXT - len, "%sm%d=http://127.0.0.1:%d",
                                i == 0 ? "" : ",", i, e->members[i].peer_port);
    }
}

static bool run(struct mr_test_etcd *e, int i)
{
    const char *scheme = e->opts.tls ? "https://127.0.0.1:" : "http://127.0.0.1:";
    const struct member *m = &e->members[i];
    char text[TEXT], cluster[TEXT], log[TEXT];
    struct args a = {.n = 0};

    (void)snprintf(log, sizeof log, "%s/log-%d", e->dir, i);
    member_dir(e, i, text);
    initial_cluster(e, cluster);
    add(&a, "/usr/bin/etcd", "", -1);
    add(&a, "--name=m", "", i);
    add(&a, "--data-dir=", text, -1);
    (void)snprintf(text, sizeof text, "--listen-client-urls=%s", scheme);
    add(&a, text, "", m->client_port);
    (void)snprintf(text, sizeof text, "--advertise-client-urls=%s", scheme);
    add(&a, text, "", m->client_port);
    add(&a, "--listen-peer-urls=http://127.0.0.1:", "", m->peer_port);
    add(&a, "--initial-advertise-peer-urls=http://127.0.0.1:", "", m->peer_port);
    add(&a, "--initial-cluster=", cluster, -1);
    add(&a, "--heartbeat-interval=50", "", -1);
    add(&a, "--election-timeout=250", "", -1);
    if (e->opts.quota_bytes > 0) {
        (void)snprintf(text, sizeof text, "%lld", (long long)e->opts.quota_bytes);
        add(&a, "--quota-backend-bytes=", text, -1);
    }
    if (e->opts.tls) {
        (void)snprintf(text, sizeof text, "%s/server.pem", e->dir);
        add(&a, "--cert-file=", text, -1);
        (void)snprintf(text, sizeof text, "%s/server.key", e->dir);
        add(&a, "--key-file=", text, -1);
        add(&a, "--trusted-ca-file=", e->ca, -1);
        add(&a, "--client-cert-auth", "", -1);
    }
    e->members[i].pid = spawn(a.v, log, -1);
    args_free(&a);
    return e->members[i].pid > 0;
}

bool mr_test_etcd_ready(struct mr_test_etcd *e)
{
    for (int waited = 0; waited < READY_MS; waited += 50) {
        /* An early one may hang on a connection that was refused; etcd may calculate for long to
         * check a password. */
        const char *health[] = {waited < 250 ? "--dial-timeout=5s" : "--dial-timeout=30s",
                                waited < 250 ? "--command-timeout=5s" : "--command-timeout=30s",
                                "get", "x", NULL};

        if (mr_test_etcdctl(e, health) == 0) {
            return true;
        }
        for (int i = 0; i < e->n; i++) {
            if (e->members[i].pid > 0 &&
                waitpid(e->members[i].pid, NULL, WNOHANG) == e->members[i].pid) {
                e->members[i].pid = 0;
                return false; /* A port was taken meanwhile. */
            }
        }
        usleep(50000);
    }
    return false;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void remove_dir(const struct mr_test_etcd *e)
{
    (void)nftw(e->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- TLS and authentication ---- */

static bool openssl(const struct mr_test_etcd *e, const char *script)
{
    char command[2048];
    char log[TEXT];

    (void)snprintf(log, sizeof log, "%s/openssl.log", e->dir);
    (void)snprintf(command, sizeof command, "cd %s && %s", e->dir, script);
    char *argv[] = {"/bin/sh", "-ec", command, NULL};

    return finish(spawn(argv, log, -1)) == 0;
}

static bool make_certificates(const struct mr_test_etcd *e)
{
    static const char script[] =
        "key='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'\n"
        "openssl req -x509 $key -days 2 -subj '/CN=millrace test CA' -keyout ca.key -out ca.pem\n"
        "openssl req $key -subj '/CN=etcd' -keyout server.key -out server.csr\n"
        "printf 'subjectAltName=DNS:etcd.test\\nextendedKeyUsage=serverAuth,clientAuth\\n' > "
        "server.ext\n"
        "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 "
        "-extfile server.ext -out server.pem\n"
        "openssl req $key -subj '/CN=dispatcher' -keyout client.key -out client.csr\n"
        "openssl x509 -req -in client.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out "
        "client.pem\n"
        "openssl req -x509 $key -days 2 -subj '/CN=somebody else' -keyout other.key -out "
        "other.pem\n";

    return openssl(e, script);
}

static bool authenticate(struct mr_test_etcd *e)
{
    FILE *f = fopen(e->password, "we");

    if (f == NULL) {
        return false;
    }
    fputs("secret\n", f);
    (void)fclose(f);
    bool ok = MR_TEST_ETCDCTL(e, "user", "add", "root:rootpw") == 0 &&
              MR_TEST_ETCDCTL(e, "role", "add", "root") == 0 &&
              MR_TEST_ETCDCTL(e, "user", "grant-role", "root", "root") == 0 &&
              MR_TEST_ETCDCTL(e, "role", "add", "millrace") == 0 &&
              MR_TEST_ETCDCTL(e, "role", "grant-permission", "--prefix=true", "millrace",
                              "readwrite", e->prefix) == 0 &&
              MR_TEST_ETCDCTL(e, "user", "add", MR_TEST_ETCD_USER ":secret") == 0 &&
              MR_TEST_ETCDCTL(e, "user", "grant-role", MR_TEST_ETCD_USER, "millrace") == 0 &&
              MR_TEST_ETCDCTL(e, "auth", "enable") == 0;

    e->authenticating = ok;
    return ok;
}

struct mr_etcd_options mr_test_etcd_client(const struct mr_test_etcd *e)
{
    struct mr_etcd_options o = {.endpoints = e->endpoints};

    if (e->opts.tls) {
        o.ca_file = e->ca;
        o.cert_file = e->cert;
        o.key_file = e->key;
        o.server_name = "etcd.test";
    }
    if (e->opts.prefix != NULL) {
        o.user = MR_TEST_ETCD_USER;
        o.password_file = e->password;
    }
    return o;
}

/* ---- life ---- */

static bool start_once(struct mr_test_etcd *e)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    size_t len = 0;
    bool ok = true;

    (void)snprintf(e->dir, sizeof e->dir, "%s/mr-etcd-XXXXXX", base);
    for (int i = 0; i < e->n; i++) {
        e->members[i] = (struct member){.client_port = mr_test_port(), .peer_port = mr_test_port()};
        len += (size_t)snprintf(e->endpoints + len, sizeof e->endpoints - len, "%s127.0.0.1:%d",
                                i == 0 ? "" : ",", e->members[i].client_port);
    }
    if (mkdtemp(e->dir) == NULL) {
        return false;
    }
    (void)snprintf(e->ca, sizeof e->ca, "%s/ca.pem", e->dir);
    (void)snprintf(e->cert, sizeof e->cert, "%s/client.pem", e->dir);
    (void)snprintf(e->key, sizeof e->key, "%s/client.key", e->dir);
    (void)snprintf(e->password, sizeof e->password, "%s/password", e->dir);
    ok = !e->opts.tls || make_certificates(e);
    for (int i = 0; i < e->n && ok; i++) {
        ok = run(e, i);
    }
    ok = ok && mr_test_etcd_ready(e) && (e->opts.prefix == NULL || authenticate(e));
    if (!ok) {
        for (int i = 0; i < e->n; i++) {
            mr_test_etcd_kill(e, i);
        }
        remove_dir(e);
    }
    return ok;
}

struct mr_test_etcd *mr_test_etcd_start_with(const struct mr_test_etcd_options *opts)
{
    struct mr_test_etcd *e = calloc(1, sizeof *e);

    if (e != NULL && opts != NULL) {
        e->opts = *opts;
        (void)snprintf(e->prefix, sizeof e->prefix, "%s", opts->prefix != NULL ? opts->prefix : "");
    }
    for (int i = 0; e != NULL && i < START_TRIES; i++) {
        e->n = e->opts.members > 0 ? e->opts.members : 1;
        if (start_once(e)) {
            return e;
        }
    }
    fprintf(stderr, "etcd did not start\n");
    free(e);
    return NULL;
}

struct mr_test_etcd *mr_test_etcd_start(void)
{
    return mr_test_etcd_start_with(NULL);
}

const char *mr_test_etcd_endpoint(const struct mr_test_etcd *e)
{
    return e->endpoints;
}

const char *mr_test_etcd_dir(const struct mr_test_etcd *e)
{
    return e->dir;
}

void mr_test_etcd_pause(struct mr_test_etcd *e, int member)
{
    kill(e->members[member].pid, SIGSTOP);
}

void mr_test_etcd_resume(struct mr_test_etcd *e, int member)
{
    kill(e->members[member].pid, SIGCONT);
}

void mr_test_etcd_kill(struct mr_test_etcd *e, int member)
{
    struct member *m = &e->members[member];

    if (m->pid > 0) {
        kill(m->pid, SIGKILL);
        (void)finish(m->pid);
        m->pid = 0;
    }
}

bool mr_test_etcd_restart(struct mr_test_etcd *e, int member)
{
    return run(e, member);
}

/* The data directory of one member, from a snapshot. */
static bool restore(struct mr_test_etcd *e, int i, const char *snapshot)
{
    char text[TEXT], dir[TEXT], cluster[TEXT];
    struct args a = {.n = 0};

    member_dir(e, i, dir);
    initial_cluster(e, cluster);
    add(&a, "/usr/bin/etcdctl", "", -1);
    add(&a, "snapshot", "", -1);
    add(&a, "restore", "", -1);
    add(&a, snapshot, "", -1);
    add(&a, "--name=m", "", i);
    add(&a, "--data-dir=", dir, -1);
    add(&a, "--initial-cluster=", cluster, -1);
    (void)snprintf(text, sizeof text, "http://127.0.0.1:%d", e->members[i].peer_port);
    add(&a, "--initial-advertise-peer-urls=", text, -1);
    add(&a, "--initial-cluster-token=restored-", "", e->members[i].generation);
    return run_args(&a, "/dev/null") == 0;
}

bool mr_test_etcd_renew(struct mr_test_etcd *e, const char *snapshot)
{
    bool ok = true;

    for (int i = 0; i < e->n; i++) {
        mr_test_etcd_kill(e, i);
        e->members[i].generation++;
    }
    for (int i = 0; i < e->n && ok; i++) {
        ok = snapshot == NULL || restore(e, i, snapshot);
    }
    for (int i = 0; i < e->n && ok; i++) {
        ok = run(e, i);
    }
    return ok && mr_test_etcd_ready(e);
}

void mr_test_etcd_stop(struct mr_test_etcd *e)
{
    if (e == NULL) {
        return;
    }
    for (int i = 0; i < e->n; i++) {
        mr_test_etcd_kill(e, i);
    }
    remove_dir(e);
    free(e);
}
