/*
 * A private etcd for tests, of one or more members: on free ports, with its data in memory if
 * /dev/shm is there, with short election timeouts. It dies with the test, even when that crashes.
 *
 * Threads: one at a time.
 */
#pragma once

#include <millrace/base.h>

#include "coord/etcd/etcd.h"

#define MR_TEST_ETCD_MEMBERS_MAX 3
/* with a role that reads and writes below `prefix`, and nothing else */
#define MR_TEST_ETCD_USER "millrace"

struct mr_test_etcd;

struct mr_test_etcd_options {
    int members; /* 0: one */
    /* its certificate names etcd.test alone; it wants to see a certificate of its clients */
    bool tls;
    const char *prefix;  /* with authentication: what the user may touch; NULL: without */
    int64_t quota_bytes; /* 0: etcd's own */
};

/* Is there an etcd to start? Tests that need one say so aloud and skip. */
bool mr_test_etcd_exists(void);
/* Returns once it answers. NULL, with a line on stderr: it did not. @opts NULL: one member,
 * plain. */
struct mr_test_etcd *mr_test_etcd_start_with(const struct mr_test_etcd_options *opts);
struct mr_test_etcd *mr_test_etcd_start(void);
/* host:port of each member, with commas */
const char *mr_test_etcd_endpoint(const struct mr_test_etcd *e);
/* All that a client needs. Lent. */
struct mr_etcd_options mr_test_etcd_client(const struct mr_test_etcd *e);
/* for whatever else a test has to keep */
const char *mr_test_etcd_dir(const struct mr_test_etcd *e);

/* @member from 0. */
void mr_test_etcd_pause(struct mr_test_etcd *e, int member); /* SIGSTOP */
void mr_test_etcd_resume(struct mr_test_etcd *e, int member);
void mr_test_etcd_kill(struct mr_test_etcd *e, int member); /* SIGKILL; the data stays */
/* after kill: same ports, same data; does not wait */
bool mr_test_etcd_restart(struct mr_test_etcd *e, int member);
bool mr_test_etcd_ready(struct mr_test_etcd *e); /* waits until it answers */
/* Kill all members, and start them anew with nothing, or with what is in the snapshot file. */
bool mr_test_etcd_renew(struct mr_test_etcd *e, const char *snapshot);

/* `etcdctl <args...>` (NULL-terminated), as root; its exit status. */
int mr_test_etcdctl(const struct mr_test_etcd *e, const char *const *args);
#define MR_TEST_ETCDCTL(e, ...) mr_test_etcdctl((e), (const char *const[]){__VA_ARGS__, NULL})
/* The same at one member alone. */
int mr_test_etcdctl_member(const struct mr_test_etcd *e, int member, const char *const *args);
/* The same, with what it says on stdout. */
int mr_test_etcdctl_read(const struct mr_test_etcd *e, const char *const *args, char *out,
                         size_t size);
/* Ends it and removes its data. NULL is fine. */
void mr_test_etcd_stop(struct mr_test_etcd *e);
