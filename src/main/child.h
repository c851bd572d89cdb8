/*
 * Child processes that end with this one, a SIGKILL of this one included.
 *
 * The kernel ties the death signal to the thread that forked: start children from the main thread
 * only, which lives to the end. Children are in a process group of their own, so that Ctrl-C on the
 * terminal reaches this program alone, which ends them in order.
 *
 * Threads: all functions belong to the main thread.
 */
#pragma once

#include <millrace/base.h>
#include <sys/types.h>

struct child_spec {
    const char *program;      /* a path, or a name that is looked up in PATH */
    const char *const *argv;  /* NULL-terminated */
    int output_fd;            /* for stdout and stderr; -1: this process's own */
    int keep_fd;              /* stays open in the child; -1: none */
    const char *unset_prefix; /* variables that begin with it are not handed on; NULL: all are */
};

/* MR_ENOTFOUND if there is no such program. */
int child_start(const struct child_spec *spec, pid_t *ret, mr_error *err);

/* true if @pid has ended and was reaped; *@status as of waitpid(). */
bool child_ended(pid_t pid, int *status);

/* SIGTERM, then SIGKILL if @grace_ms were not enough; reaped on return. @pid <= 0 is fine. */
void child_stop(pid_t pid, int64_t grace_ms);

/* "exit status 1", "signal 9 (Killed)". */
void child_describe(int status, char *out, size_t size);
