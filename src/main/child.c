#include "main/child.h"

#include "base/base.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int find_program(const char *program, char *path, size_t size, mr_error *err)
{
    const char *dirs = getenv("PATH");

    if (strchr(program, '/') != NULL) {
        (void)snprintf(path, size, "%s", program);
        return access(path, X_OK) == 0 ? MR_OK : mr_error_errno(err, errno, "%s", program);
    }
    for (const char *d = dirs == NULL ? "/usr/bin:/bin" : dirs; *d != '\0';) {
        int n = (int)strcspn(d, ":");

        if (snprintf(path, size, "%.*s/%s", n, d, program) < (int)size && access(path, X_OK) == 0) {
            return MR_OK;
        }
        d += n + (d[n] == ':' ? 1 : 0);
    }
    return mr_error_set(err, MR_ENOTFOUND, "no program '%s' in PATH", MR_SHOWN(program));
}

/* The environment without the variables of @prefix; freed with mr_free(), the strings are lent. */
static char **filtered_environment(const char *prefix)
{
    size_t n = 0;

    while (environ[n] != NULL) {
        n++;
    }
    char **env = mr_calloc(n + 1, sizeof *env);

    for (size_t i = 0, kept = 0; env != NULL && i < n; i++) {
        if (prefix == NULL || strncmp(environ[i], prefix, strlen(prefix)) != 0) {
            env[kept++] = environ[i];
        }
    }
    return env;
}

/* After fork(): only what is safe in a signal handler. */
static _Noreturn void become(const struct child_spec *spec, const char *path, char **env,
                             pid_t parent, int failed_fd)
{
    sigset_t none;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* The parent died before the line above. */
    }
    (void)setpgid(0, 0);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    if (spec->output_fd >= 0) {
        (void)dup2(spec->output_fd, STDOUT_FILENO);
        (void)dup2(spec->output_fd, STDERR_FILENO);
    }
    if (spec->keep_fd >= 0) {
        (void)fcntl(spec->keep_fd, F_SETFD, 0);
    }
    (void)execve(path, (char *const *)spec->argv, env);
    int why = errno;
    (void)!write(failed_fd, &why, sizeof why);
    _exit(127);
}

int child_start(const struct child_spec *spec, pid_t *ret, mr_error *err)
{
    char path[4096];
    int failed[2];
    pid_t parent = getpid();
    int why = 0;

    MR_TRY(find_program(spec->program, path, sizeof path, err));
    MR_AUTO(mr_free) char **env = filtered_environment(spec->unset_prefix);
    MR_CHECK_ALLOC(env, err);
    if (pipe2(failed, O_CLOEXEC) < 0) {
        return mr_error_errno(err, errno, "a pipe");
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(spec, path, env, parent, failed[1]);
    }
    why = pid < 0 ? errno : 0;
    close(failed[1]);
    /* End of file comes with a successful exec. */
    if (pid > 0 && read(failed[0], &why, sizeof why) == sizeof why) {
        (void)waitpid(pid, NULL, 0);
    }
    close(failed[0]);
    if (why != 0) {
        return mr_error_errno(err, why, "starting %s", path);
    }
    *ret = pid;
    return MR_OK;
}

bool child_ended(pid_t pid, int *status)
{
    return waitpid(pid, status, WNOHANG) == pid;
}

void child_stop(pid_t pid, int64_t grace_ms)
{
    int status;

    if (pid <= 0 || child_ended(pid, &status)) {
        return;
    }
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    (void)kill(pid, SIGTERM);
    if (fd >= 0) {
        int64_t deadline = mr_now_ms() + grace_ms;
        int64_t left = grace_ms;

        while (left > 0 && poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, (int)left) <= 0) {
            left = deadline - mr_now_ms();
        }
        close(fd);
    }
    if (!child_ended(pid, &status)) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
    }
}

void child_describe(int status, char *out, size_t size)
{
    if (WIFSIGNALED(status)) {
        (void)snprintf(out, size, "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        (void)snprintf(out, size, "exit status %d", WEXITSTATUS(status));
    }
}
