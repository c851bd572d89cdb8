#include "main/run.h"

#include "base/base.h"
#include "base/clock.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/sync.h"
#include "main/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STOP_SECONDS_MAX 60
#define STOP_SECONDS_MORE 10 /* until a service manager loses its patience */
#define TRIM_MS 10000

static int start_log(const struct run_options *opts, const char *component, mr_error *err)
{
    enum mr_log_level level;
    bool text = strcmp(opts->log_format, "text") == 0 ||
                (strcmp(opts->log_format, "auto") == 0 && isatty(STDERR_FILENO));

    MR_TRY(mr_log_level_parse(opts->log_level, &level, err));
    mr_log_init(level, text ? MR_LOG_TEXT : MR_LOG_JSON, component);
    if (opts->last_log_fd != 0) {
        (void)fcntl((int)opts->last_log_fd, F_SETFD, FD_CLOEXEC);
        mr_log_keep_last((int)opts->last_log_fd);
    }
    return MR_OK;
}

static int watch_owner(int64_t pid, int *ret, mr_error *err)
{
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);

    if (fd < 0 && errno == ESRCH) {
        return mr_error_set(err, MR_EPRECOND, "the owner, process %lld, has ended already",
                            (long long)pid);
    }
    if (fd < 0) {
        return mr_error_errno(err, errno, "watching the owner, process %lld", (long long)pid);
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    *ret = fd;
    return MR_OK;
}

/* As many as are allowed: a connection takes one, and a server without any is lost. */
static void take_descriptors(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < files.rlim_max) {
        files.rlim_cur = files.rlim_max;
        if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
            mr_log(MR_LOG_WARN, "the limit of open files could not be raised", "error", "%s",
                   strerror(errno), NULL);
        }
    }
}

int run_prepare(const struct run_options *opts, const char *component, struct run *ret,
                mr_error *err)
{
    struct run run = {.signal_fd = -1, .owner_fd = -1};
    struct sigaction hangup;
    sigset_t set;

    MR_TRY(start_log(opts, component, err));
    mr_heap_few_arenas();
    take_descriptors();
    (void)signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGUSR2);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN) { /* nohup(1) */
        sigaddset(&set, SIGHUP);
    }
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    run.signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (run.signal_fd < 0) {
        return mr_error_errno(err, errno, "signals");
    }
    if (opts->owner_pid != 0) {
        MR_TRY(watch_owner(opts->owner_pid, &run.owner_fd, err));
    }
    *ret = run;
    return MR_OK;
}

int run_tell_parent(struct run_options *opts, json_t *doc, mr_error *err)
{
    MR_AUTO(mr_free) char *line = doc == NULL ? NULL : json_dumps(doc, JSON_COMPACT);
    size_t n = line == NULL ? 0 : strlen(line);
    int fd = (int)opts->ready_fd;
    int rc = MR_OK;

    json_decref(doc);
    if (fd == 0) {
        return MR_OK;
    }
    MR_CHECK_ALLOC(line, err);
    line[n] = '\n'; /* in place of the NUL */
    if (write(fd, line, n + 1) != (ssize_t)n + 1) {
        rc = mr_error_errno(err, errno, "writing to --ready-fd %d", fd);
    }
    close(fd);
    opts->ready_fd = 0;
    return rc;
}

int run_ready(struct run_options *opts, const char *address, const char *etcd, const char *metrics,
              mr_error *err)
{
    return run_tell_parent(opts,
                           json_pack("{ss si ss* ss*}", "address", address, "pid", (int)getpid(),
                                     "etcd", etcd, "metrics", metrics),
                           err);
}

static const char *name_of(uint32_t sig)
{
    return sig == SIGINT ? "SIGINT" : sig == SIGHUP ? "SIGHUP" : "SIGTERM";
}

/* RUN_TIME: nothing that concerns us. */
static enum run_event read_signals(struct run *run)
{
    struct signalfd_siginfo info;
    enum run_event event = RUN_TIME;

    while (read(run->signal_fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            event = event == RUN_STOP ? RUN_STOP : RUN_CHILD;
        } else if (info.ssi_signo == SIGHUP && !run->ends_with_terminal) {
            mr_log(MR_LOG_INFO, "SIGHUP is ignored: there is nothing to reload", NULL);
        } else if (info.ssi_signo == SIGUSR1 || info.ssi_signo == SIGUSR2) {
            mr_log(MR_LOG_INFO, "a signal is ignored", "signal", "%s",
                   info.ssi_signo == SIGUSR1 ? "SIGUSR1" : "SIGUSR2", NULL);
        } else {
            mr_log(MR_LOG_INFO, "stopping", "signal", "%s", name_of(info.ssi_signo), NULL);
            event = RUN_STOP;
            run->told = true;
        }
    }
    return event;
}

/* Not by a thread that others wait for. */
static void trim_now_and_then(struct run *run)
{
    int64_t now = mr_now_ms();

    if (now >= run->trim_ms) {
        mr_heap_trim();
        run->trim_ms = now + TRIM_MS;
    }
}

enum run_event run_wait(struct run *run, int timeout_ms)
{
    struct pollfd fds[] = {{.fd = run->signal_fd, .events = POLLIN},
                           {.fd = run->owner_fd, .events = POLLIN}};

    trim_now_and_then(run);
    int n = poll(fds, 2 /* a negative descriptor is passed over */, timeout_ms);

    if (n <= 0) {
        return RUN_TIME;
    }
    if (fds[1].revents != 0) {
        mr_log(MR_LOG_INFO, "stopping: the owner has ended", NULL);
        return RUN_STOP;
    }
    return read_signals(run);
}

int run_check_stop(mr_error *err)
{
    sigset_t set;
    bool pending = sigpending(&set) == 0 &&
                   (sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGINT) == 1);

    return pending ? mr_error_set(err, MR_ECANCELED, "stopped while starting") : MR_OK;
}

static void *end_at_once(void *arg)
{
    int64_t until = mr_now_ms() + STOP_SECONDS_MAX * 1000;
    sigset_t set;
    int sig;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    do { /* A process that is frozen and goes on, or is looked into, comes out of the wait early. */
        int64_t left = until - mr_now_ms();
        struct timespec limit = {.tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000};

        sig = left > 0 ? sigtimedwait(&set, NULL, &limit) : -1;
    } while (sig < 0 && mr_now_ms() < until);
    mr_log(MR_LOG_WARN,
           sig > 0 ? "a second signal: ending at once" : "stopping takes too long: ending at once",
           NULL);
    _exit(sig > 0 ? 128 + sig : 1);
}

void run_stopping(struct run *run)
{
    pthread_t thread;
    mr_error err;

    if (!run->told) {
        (void)read_signals(
            run); /* Of a start that was broken off: it only looked whether one had come. */
    }
    notify_manager("STOPPING=1\nEXTEND_TIMEOUT_USEC=%lld",
                   (STOP_SECONDS_MAX + STOP_SECONDS_MORE) * 1000000LL);
    if (mr_thread_start(&thread, "stop-watch", end_at_once, NULL, &err) == MR_OK) {
        (void)pthread_detach(thread);
    } else {
        mr_log(MR_LOG_WARN, "a second signal will not end this process at once", "error", "%s",
               err.message, NULL);
    }
}

/* What scripts expect for this failure. */
static int exit_status(const mr_error *err)
{
    switch (err->code) {
    case MR_OK: return 0;
    case MR_EINVAL: return 2;
    case MR_ENOTFOUND: return 3;
    case MR_EUNAVAIL: return 4;
    case MR_EPERM:
    case MR_EUNAUTH: return 5;
    case MR_EPRECOND: return 6;
    case MR_EDEADLINE: return 124;
    case MR_ECANCELED: return 130;
    default: return 1;
    }
}

int run_fail(const char *program, struct run_options *opts, const mr_error *err)
{
    char message[4 * MR_ERROR_MESSAGE_SIZE]; /* all of it, were every byte escaped */
    char text[sizeof message + 64];
    mr_error ignored; /* It is told on stderr, then. */

    (void)mr_escape(err->message, message, sizeof message);
    if (opts != NULL && opts->ready_fd != 0 &&
        run_tell_parent(opts, json_pack("{ss si}", "error", message, "code", (int)err->code),
                        &ignored) == MR_OK) {
        return exit_status(err);
    }
    (void)snprintf(text, sizeof text, "millrace %s: %s\n", program, message);
    mr_log_line(text);
    if (err->code == MR_EINVAL) {
        fprintf(stderr, "See: millrace help %s\n", program);
    }
    return exit_status(err);
}
