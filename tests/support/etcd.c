#include "tests/support/etcd.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_TRIES 3
#define READY_MS 20000

struct mr_test_etcd {
    pid_t pid;
    int client_port;
    int peer_port;
    char dir[64];
    char endpoint[32];
};

bool mr_test_etcd_exists(void)
{
    return access("/usr/bin/etcd", X_OK) == 0;
}

static int free_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = -1;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
        getsockname(fd, (struct sockaddr *)&a, &len) == 0) {
        port = ntohs(a.sin_port);
    }
    if (fd >= 0) {
        close(fd);
    }
    return port;
}

static pid_t spawn(char *const argv[], const char *log)
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
        dup2(fd, 1);
        dup2(fd, 2);
    }
    execv(argv[0], argv);
    _exit(127);
}

int mr_test_etcdctl(const struct mr_test_etcd *e, const char *const *args)
{
    char *argv[24] = {"/usr/bin/etcdctl", "--endpoints"};
    size_t n = 2;
    int status = 0;

    argv[n++] = (char *)(uintptr_t)e->endpoint;
    while (*args != NULL && n < 23) {
        argv[n++] = (char *)(uintptr_t)*args++;
    }
    setenv("ETCDCTL_API", "3", 1);
    pid_t pid = spawn(argv, "/dev/null");

    if (pid < 0) {
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool run(struct mr_test_etcd *e)
{
    static const char *const health[] = {"--dial-timeout=1s", "--command-timeout=1s", "get", "x", NULL};
    char client[64], peer[64], cluster[80], log[96];

    (void)snprintf(client, sizeof client, "http://127.0.0.1:%d", e->client_port);
    (void)snprintf(peer, sizeof peer, "http://127.0.0.1:%d", e->peer_port);
    (void)snprintf(cluster, sizeof cluster, "t=%s", peer);
    (void)snprintf(log, sizeof log, "%s/log", e->dir);
    char data[96];

    (void)snprintf(data, sizeof data, "%s/data", e->dir);
    char *argv[] = {"/usr/bin/etcd",
                    "--name=t",
                    "--data-dir",
                    data,
                    "--listen-client-urls",
                    client,
                    "--advertise-client-urls",
                    client,
                    "--listen-peer-urls",
                    peer,
                    "--initial-advertise-peer-urls",
                    peer,
                    "--initial-cluster",
                    cluster,
                    "--heartbeat-interval=50",
                    "--election-timeout=250",
                    NULL};

    e->pid = spawn(argv, log);
    for (int waited = 0; e->pid > 0 && waited < READY_MS; waited += 50) {
        if (mr_test_etcdctl(e, health) == 0) {
            return true;
        }
        if (waitpid(e->pid, NULL, WNOHANG) == e->pid) {
            break; /* A port was taken meanwhile. */
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

static bool start_once(struct mr_test_etcd *e)
{
    const char *base = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";

    (void)snprintf(e->dir, sizeof e->dir, "%s/mr-etcd-XXXXXX", base);
    e->client_port = free_port();
    e->peer_port = free_port();
    (void)snprintf(e->endpoint, sizeof e->endpoint, "127.0.0.1:%d", e->client_port);
    if (mkdtemp(e->dir) == NULL) {
        return false;
    }
    if (run(e)) {
        return true;
    }
    mr_test_etcd_kill(e);
    remove_dir(e);
    return false;
}

struct mr_test_etcd *mr_test_etcd_start(void)
{
    struct mr_test_etcd *e = calloc(1, sizeof *e);

    for (int i = 0; e != NULL && i < START_TRIES; i++) {
        if (start_once(e)) {
            return e;
        }
    }
    fprintf(stderr, "etcd did not start\n");
    free(e);
    return NULL;
}

const char *mr_test_etcd_endpoint(const struct mr_test_etcd *e)
{
    return e->endpoint;
}

void mr_test_etcd_pause(struct mr_test_etcd *e)
{
    kill(e->pid, SIGSTOP);
}

void mr_test_etcd_resume(struct mr_test_etcd *e)
{
    kill(e->pid, SIGCONT);
}

void mr_test_etcd_kill(struct mr_test_etcd *e)
{
    if (e->pid > 0) {
        kill(e->pid, SIGKILL);
        while (waitpid(e->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        e->pid = 0;
    }
}

bool mr_test_etcd_restart(struct mr_test_etcd *e)
{
    return run(e);
}

void mr_test_etcd_stop(struct mr_test_etcd *e)
{
    if (e == NULL) {
        return;
    }
    mr_test_etcd_kill(e);
    remove_dir(e);
    free(e);
}
