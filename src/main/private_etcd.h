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

#include <millrace/base.h>
#include <sys/types.h>

struct private_etcd;

/* Its home and the endpoints of another etcd exclude each other. NULL: not given. */
int private_etcd_check_home(const char *endpoints, const char *work_dir, mr_error *err);

/*
 * Start and wait until it answers. @work_dir may be NULL. MR_ENOTFOUND if there is no etcd program,
 * MR_EPRECOND if another process uses @work_dir.
 */
int private_etcd_start(const char *work_dir, struct private_etcd **ret, mr_error *err);

/* "127.0.0.1:port"; the same for its whole life. */
const char *private_etcd_endpoint(const struct private_etcd *e);
/* Where the data and the log are. */
const char *private_etcd_directory(const struct private_etcd *e);
bool private_etcd_is_temporary(const struct private_etcd *e);
/* 0 while it does not run. */
pid_t private_etcd_pid(const struct private_etcd *e);

/* Call when a child ended, and now and then: an etcd that died is started again at the same
 * address, with back-off. */
void private_etcd_tend(struct private_etcd *e);

/* Stops it, and removes a temporary directory. NULL is fine. */
void private_etcd_free(struct private_etcd *e);
