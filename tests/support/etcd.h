/*
 * A private etcd for tests: on free ports, with its data in memory if /dev/shm is there, with short election timeouts.
 * It dies with the test, even when that crashes.
 *
 * Threads: one at a time.
 */
#ifndef MR_TESTS_SUPPORT_ETCD_H
#define MR_TESTS_SUPPORT_ETCD_H

#include <millrace/base.h>

struct mr_test_etcd;

/* Is there an etcd to start? Tests that need one say so aloud and skip. */
bool mr_test_etcd_exists(void);
/* Returns once it answers. NULL, with a line on stderr: it did not. */
struct mr_test_etcd *mr_test_etcd_start(void);
const char *mr_test_etcd_endpoint(const struct mr_test_etcd *e); /* host:port */
void mr_test_etcd_pause(struct mr_test_etcd *e);                 /* SIGSTOP */
void mr_test_etcd_resume(struct mr_test_etcd *e);
void mr_test_etcd_kill(struct mr_test_etcd *e);    /* SIGKILL; the data stays */
bool mr_test_etcd_restart(struct mr_test_etcd *e); /* after kill: same ports, same data */
/* `etcdctl <args...>` (NULL-terminated); its exit status. */
int mr_test_etcdctl(const struct mr_test_etcd *e, const char *const *args);
/* Ends it and removes its data. NULL is fine. */
void mr_test_etcd_stop(struct mr_test_etcd *e);

#endif
