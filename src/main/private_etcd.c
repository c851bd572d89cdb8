#include "main/private_etcd.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/rng.h"
#include "main/child.h"
#include "main/run.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEMPORARY_PREFIX "millrace-etcd-"
#define LOG_BYTES_MAX 1000000
#define READY_MS 60000  /* a slow disk recovering its log */
#define LOCK_MS 4000    /* until the etcd of a killed program is gone */
#define STEADY_MS 10000 /* alive that long: a later death starts with a short wait again */
#define STOP_MS 5000
#define PORT_ATTEMPTS 5

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    return remove(path);
}

static void remove_tree(const char *path)
{
    if (nftw(path, remove_one, 16 /* descriptors */, FTW_DEPTH | FTW_PHYS) != 0 &&
        errno != ENOENT) {
        char why[128];

        mr_log(MR_LOG_WARN, "a temporary directory was left behind", "path", "%s", path, "error",
               "%s", strerror_r(errno, why, sizeof why), NULL);
    }
}

/* The lock of @dir, or -1 with errno (EWOULDBLOCK: it is held). Whoever sweeps may remove the
 * directory between our open() and flock(): the lock counts only if the file is still the one in
 * the directory. */
static int try_lock(const char *dir)
{
    char path[PATH_MAX + 8];
    struct stat held;
    struct stat there;

    (void)snprintf(path, sizeof path, "%s/lock", dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        if (fstat(fd, &held) == 0 && stat(path, &there) == 0 && held.st_ino == there.st_ino) {
            return fd;
        }
        errno = ENOENT;
    }
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Temporary directories of programs that were killed: those whose lock nobody holds. */
static void sweep(const char *parent)
{
    DIR *d = opendir(parent);
    struct dirent *entry;

    while (d != NULL && (entry = readdir(d)) != NULL) {
        char path[PATH_MAX];
        struct stat st;

        if (strncmp(entry->d_name, TEMPORARY_PREFIX, strlen(TEMPORARY_PREFIX)) != 0 ||
            snprintf(path, sizeof path, "%s/%s", parent, entry->d_name) >= (int)sizeof path ||
            lstat(path, &st) != 0 || !S_ISDIR(st.st_mode) || st.st_uid != geteuid()) {
            continue;
        }
        char lock[PATH_MAX + 8];
        (void)snprintf(lock, sizeof lock, "%s/lock", path);
        if (access(lock, F_OK) != 0) {
            continue; /* Somebody is just making it. */
        }
        int fd = try_lock(path);
        if (fd >= 0) {
            remove_tree(path);
            close(fd);
        }
    }
    if (d != NULL) {
        closedir(d);
    }
}

static int make_temporary(struct private_etcd *e, mr_error *err)
{
    const char *parent = getenv("TMPDIR");

    if (parent == NULL || parent[0] != '/') {
        parent = "/tmp";
    }
    sweep(parent);
    for (;;) {
        if (snprintf(e->dir, sizeof e->dir, "%s/" TEMPORARY_PREFIX "XXXXXX", parent) >=
                (int)sizeof e->dir ||
            mkdtemp(e->dir) == NULL) {
            return mr_error_errno(err, errno, "a temporary directory in %s", parent);
        }
        e->temporary = true;
        e->lock_fd = try_lock(e->dir);
        if (e->lock_fd >= 0) {
            return MR_OK;
        }
        if (errno != ENOENT && errno != EWOULDBLOCK) {
            return mr_error_errno(err, errno, "%s/lock", e->dir);
        }
        remove_tree(e->dir); /* A sweeper came between; it lets go in a moment. */
    }
}

/* With what is missing above it. Of those that are there nothing is changed. */
static int make_directories(const char *path)
{
    char part[PATH_MAX];

    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part) {
        errno = ENAMETOOLONG;
        return -1;
    }
    for (char *s = part; *s != '\0'; s++) {
        if (*s == '/' && s > part) {
            *s = '\0';
            (void)mkdir(part, 0700); /* What is wrong with it, the last one shows. */
            *s = '/';
        }
    }
    return mkdir(part, 0700) == 0 || errno == EEXIST ? 0 : -1;
}

static int make_work_dir(struct private_etcd *e, const char *work_dir, mr_error *err)
{
    int64_t deadline = mr_now_ms() + LOCK_MS;

    if (make_directories(work_dir) != 0) {
        return mr_error_errno(err, errno, "the work directory %s", work_dir);
    }
    char *absolute = realpath(work_dir, NULL);
    if (absolute == NULL || strlen(absolute) >= sizeof e->dir) {
        free(absolute);
        return mr_error_errno(err, absolute == NULL ? errno : ENAMETOOLONG, "the work directory %s",
                              work_dir);
    }
    (void)snprintf(e->dir, sizeof e->dir, "%s", absolute);
    free(absolute);
    for (;;) {
        e->lock_fd = try_lock(e->dir);
        if (e->lock_fd >= 0) {
            return MR_OK;
        }
        if (errno != EWOULDBLOCK) {
            return mr_error_errno(err, errno, "%s/lock", e->dir);
        }
        if (mr_now_ms() >= deadline) {
            return mr_error_set(err, MR_EPRECOND,
                                "the work directory %s is in use by another running program",
                                e->dir);
        }
        MR_TRY(run_check_stop(err));
        (void)poll(NULL, 0, 20); /* flock() has no timeout, and its holder may be on its way out */
    }
}

/* A port of the loopback interface that is free now. */
static int free_port(int *ret, int *fd, mr_error *err)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0 || bind(*fd, (struct sockaddr *)&a, sizeof a) != 0 ||
        getsockname(*fd, (struct sockaddr *)&a, &len) != 0) {
        return mr_error_errno(err, errno, "a free port");
    }
    *ret = ntohs(a.sin_port);
    return MR_OK;
}

static int choose_ports(struct private_etcd *e, mr_error *err)
{
    int client = -1;
    int peer = -1;
    int rc = free_port(&e->client_port, &client, err);

    if (rc == MR_OK) {
        rc = free_port(&e->peer_port, &peer, err);
    }
    (void)snprintf(e->endpoint, sizeof e->endpoint, "127.0.0.1:%d", e->client_port);
    /* Both are held until both are known, or one port might come twice. */
    if (client >= 0) {
        close(client);
    }
    if (peer >= 0) {
        close(peer);
    }
    return rc;
}

/* What the one before said stays: it may be why that ended. Of what was said long ago one more file
 * is kept. */
static int open_log(const char *path, mr_error *err)
{
    char before[PATH_MAX + 32];
    struct stat st;

    (void)snprintf(before, sizeof before, "%s.old", path);
    if (stat(path, &st) == 0 && st.st_size > LOG_BYTES_MAX && rename(path, before) < 0) {
        return mr_error_errno(err, errno, "renaming %s", path);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    return fd >= 0 ? fd : mr_error_errno(err, errno, "%s", path);
}

static int run_etcd(struct private_etcd *e, mr_error *err)
{
    char data[PATH_MAX + 16];
    char log[PATH_MAX + 16];
    char client[64];
    char peer[64];
    char cluster[96];

    (void)snprintf(data, sizeof data, "%s/etcd", e->dir);
    (void)snprintf(log, sizeof log, "%s/etcd.log", e->dir);
    (void)snprintf(client, sizeof client, "http://127.0.0.1:%d", e->client_port);
    (void)snprintf(peer, sizeof peer, "http://127.0.0.1:%d", e->peer_port);
    (void)snprintf(cluster, sizeof cluster, "millrace=%s", peer);
    const char *const argv[] = {
        "etcd", "--name", "millrace", "--data-dir", data, "--listen-client-urls", client,
        "--advertise-client-urls", client, "--listen-peer-urls", peer,
        "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster,
        /* A short election makes short leases possible; there is no network to be late. */
        "--heartbeat-interval", "50", "--election-timeout", "250", "--auto-compaction-mode",
        "periodic", "--auto-compaction-retention", "5m", "--snapshot-count", "10000", "--logger",
        "zap", "--log-level", "warn", "--log-outputs", "stderr", NULL};

    int log_fd = open_log(log, err);
    if (log_fd < 0) {
        return log_fd;
    }
    struct child_spec spec = {.program = "etcd",
                              .argv = argv,
                              .output_fd = log_fd,
                              .keep_fd = e->lock_fd,
                              .unset_prefix = "ETCD_"};
    int rc = child_start(&spec, &e->pid, err);
    close(log_fd);
    e->started_ms = mr_now_ms();
    if (rc == MR_ENOTFOUND) {
        mr_error_wrap(err, "a private etcd is needed without --etcd-endpoints (Debian: apt-get "
                           "install etcd-server)");
    }
    return rc;
}

/* One HTTP request, because etcd listens before it serves. */
static bool is_healthy(int port)
{
    static const char request[] = "GET /health HTTP/1.0\r\n\r\n";
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 2};
    char answer[2048];
    size_t len = 0;
    ssize_t n = -1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return false;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
        send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1) {
        while (len < sizeof answer - 1 &&
               (n = recv(fd, answer + len, sizeof answer - 1 - len, 0)) > 0) {
            len += (size_t)n;
        }
    }
    close(fd);
    answer[len] = '\0';
    return strstr(answer, "\"health\":\"true\"") != NULL;
}

/* MR_EUNAVAIL: it ended by itself, which happens if somebody took the port in the meantime. */
static int wait_ready(struct private_etcd *e, mr_error *err)
{
    int64_t deadline = mr_now_ms() + READY_MS;
    char why[64];
    int status;

    while (!is_healthy(e->client_port)) {
        if (child_ended(e->pid, &status)) {
            e->pid = 0;
            child_describe(status, why, sizeof why);
            return mr_error_set(err, MR_EUNAVAIL, "the private etcd ended with %s; see %s/etcd.log",
                                why, e->dir);
        }
        MR_TRY(run_check_stop(err));
        if (mr_now_ms() >= deadline) {
            return mr_error_set(err, MR_EDEADLINE,
                                "the private etcd is not healthy after %d s; see %s/etcd.log",
                                READY_MS / 1000, e->dir);
        }
        (void)poll(NULL, 0,
                   10); /* nothing tells us when a socket of another process begins to listen */
    }
    return MR_OK;
}

/* At ports that nobody takes in the meantime. */
static int serve_somewhere(struct private_etcd *e, mr_error *err)
{
    int rc = MR_EUNAVAIL;

    for (int attempt = 0; rc == MR_EUNAVAIL && attempt < PORT_ATTEMPTS; attempt++) {
        MR_TRY(choose_ports(e, err));
        MR_TRY(run_etcd(e, err));
        rc = wait_ready(e, err);
    }
    return rc;
}

int private_etcd_check_home(const char *endpoints, const char *work_dir, mr_error *err)
{
    if (endpoints != NULL && work_dir != NULL) {
        return mr_error_set(
            err, MR_EINVAL,
            "--work-dir is the home of a private etcd, and --etcd-endpoints names another");
    }
    return MR_OK;
}

int private_etcd_start(const char *work_dir, struct private_etcd **ret, mr_error *err)
{
    struct private_etcd *e = mr_calloc(1, sizeof *e);

    MR_CHECK_ALLOC(e, err);
    e->lock_fd = -1;
    int rc = work_dir != NULL ? make_work_dir(e, work_dir, err) : make_temporary(e, err);

    if (rc == MR_OK) {
        rc = serve_somewhere(e, err);
    }
    if (rc < 0) {
        /* Anything else is explained by the log in there. */
        e->temporary = e->temporary && (rc == MR_ENOTFOUND || rc == MR_ECANCELED);
        private_etcd_free(e);
        return rc;
    }
    *ret = e;
    return MR_OK;
}

static void note_death(struct private_etcd *e)
{
    int64_t now = mr_now_ms();
    char why[64];
    int status;

    if (e->pid <= 0 || !child_ended(e->pid, &status)) {
        return;
    }
    e->pid = 0;
    e->restarts = now - e->started_ms > STEADY_MS ? 0 : e->restarts + 1;
    int64_t wait = mr_backoff_ms(e->restarts, 100 /* base */, 5000 /* max */, mr_random_u64());
    e->restart_at_ms = now + wait;
    child_describe(status, why, sizeof why);
    mr_log(MR_LOG_ERROR, "the private etcd ended; starting it again", "reason", "%s", why,
           "wait_ms", "%lld", (long long)wait, "directory", "%s", e->dir, NULL);
}

void private_etcd_tend(struct private_etcd *e)
{
    mr_error err = {0};

    note_death(e);
    if (e->pid == 0 && mr_now_ms() >= e->restart_at_ms && run_etcd(e, &err) < 0) {
        e->restart_at_ms = mr_now_ms() + 1000;
        mr_log(MR_LOG_ERROR, "the private etcd could not be started again; retrying in 1 s",
               "error", "%s", err.message, NULL);
    }
}

void private_etcd_free(struct private_etcd *e)
{
    if (e == NULL) {
        return;
    }
    child_stop(e->pid, STOP_MS);
    if (e->temporary) {
        remove_tree(e->dir);
    }
    if (e->lock_fd >= 0) {
        close(e->lock_fd);
    }
    mr_free(e);
}
