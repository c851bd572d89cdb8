/*
 * An etcd of one member that belongs to this process: for `millrace dev`, and for a dispatcher
 * without --etcd-endpoints. It listens on the loopback interface only, on free ports, and ends with
 * this process, a SIGKILL of it included.
 *
 * With a work directory the state lives there and the next start finds it; without one it lives in
 * a temporary directory, which a clean stop removes, and which the next start of anybody's private
 * etcd removes otherwise.
 *
 * Layout of the directory: `lock` (held by us and by etcd, so that two starts cannot meet, not even
 * while the etcd of a killed program is still dying), `etcd/` (its data), `etcd.log`.
 *
 * Threads: all functions belong to the main thread (see main/child.h).
 */
#pragma once

#include <limits.h>
#include <millrace/base.h>
#include <sys/types.h>

/* Only read by others. */
struct private_etcd {
    char dir[PATH_MAX]; /* where the data and the log are */
    bool temporary;
    int lock_fd;
    pid_t pid; /* 0: not running */
    int client_port;
    int peer_port;
    char endpoint[32]; /* "127.0.0.1:port"; the same for its whole life */
    int64_t started_ms;
    int64_t restart_at_ms; /* while not running */
    uint32_t restarts;
};

/* Its home and the endpoints of another etcd exclude each other. NULL: not given. */
int private_etcd_check_home(const char *endpoints, const char *work_dir, mr_error *err);

/* Start and wait until it answers. @work_dir may be NULL. MR_ENOTFOUND if there is no etcd program,
 * MR_EPRECOND if another process uses @work_dir. */
int private_etcd_start(const char *work_dir, struct private_etcd **ret, mr_error *err);

/* Call when a child ended, and now and then: an etcd that died is started again at the same
 * address, with back-off. */
void private_etcd_tend(struct private_etcd *e);

/* Stops it, and removes a temporary directory. NULL is fine. */
void private_etcd_free(struct private_etcd *e);
