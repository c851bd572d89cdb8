/*
 * What every server program does: log, tell its parent that it serves, wait for an end, end.
 *
 * The ends: SIGTERM or SIGINT (orderly; a second one ends the process at once), the death of the
 * owner (--owner-pid: seen through a pidfd, which is tied to the process, unlike a death signal,
 * which is tied to one of its threads, and unlike a pipe, whose other end the owner's own children
 * may hold open). SIGHUP ends none but who belongs to a terminal; SIGUSR1 and SIGUSR2 end nobody.
 *
 * Threads: all functions belong to the main thread. run_prepare() comes before any other thread
 * exists.
 */
#pragma once

#include "options/programs.h"

#include <jansson.h>
#include <millrace/base.h>

struct run {
    int signal_fd;
    int owner_fd;            /* -1: no owner */
    int64_t trim_ms;         /* when freed memory is given back next */
    bool told;               /* the first signal to end was read */
    bool ends_with_terminal; /* SIGHUP is an end, too; set after run_prepare() */
};

/* Logging, signals, the owner, malloc. MR_EPRECOND if the owner is gone already. */
int run_prepare(const struct run_options *opts, const char *component, struct run *ret,
                mr_error *err);

/* Write {"address":...,"pid":...} and a newline to --ready-fd, if given, and close it (0 in @opts
 * from then on). @etcd (the private one) and @metrics (the address) may be NULL. */
int run_ready(struct run_options *opts, const char *address, const char *etcd, const char *metrics,
              mr_error *err);

/* The same with a document of the program's own, which it takes. Without --ready-fd nothing
 * happens. */
int run_tell_parent(struct run_options *opts, json_t *doc, mr_error *err);

enum run_event { RUN_TIME, RUN_CHILD, RUN_STOP };

/* Wait at most @timeout_ms for a child's end or the end of this program. Called every few seconds:
 * freed memory is given back in here. */
enum run_event run_wait(struct run *run, int timeout_ms);

/* MR_ECANCELED: SIGTERM or SIGINT has come, and was not read by run_wait() yet: for waits while
 * starting. */
int run_check_stop(mr_error *err);

/* From now on a second signal ends the process at once, as does a stop that takes longer than a
 * minute. */
void run_stopping(struct run *run);

/* {"error":...,"code":...} to --ready-fd if @opts (may be NULL) has one that run_ready() did not
 * use, so that who started this program tells it; otherwise "millrace NAME: message" on stderr.
 * Returns the exit status. */
int run_fail(const char *program, struct run_options *opts, const mr_error *err);
