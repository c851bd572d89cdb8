/*
 * What coordination writes under the root of a cluster, "/millrace/<cluster>/": names of keys, and
 * their values in C.
 *
 * Reading is for bytes from outside: a value that does not parse is MR_EDATALOSS, too long a string
 * is cut off as one that does not parse. Threads: pure; safe from any thread.
 */
#pragma once

#include "base/limits.h"
#include "coord/store.h"

#define MR_INSTANCE_SIZE 33
#define MR_CLUSTER_BYTES_MAX 64
#define MR_ROOT_SIZE (sizeof("/millrace//") + MR_CLUSTER_BYTES_MAX)
#define MR_KEY_LEADER "leader"
#define MR_KEY_BATCH "meta/batch"
#define MR_KEY_INCARNATION "meta/incarnation"
#define MR_KEY_DISPATCHERS "dispatchers/"

struct mr_leader_record {
    char instance[MR_INSTANCE_SIZE];
    char address[MR_ADDRESS_BYTES_MAX];
    char version[32];
    char successor[MR_INSTANCE_SIZE];
    char socket[MR_INSTANCE_SIZE];
    uint64_t since_ms;
    uint32_t deposed_alive;
    uint64_t deposed_ms;
    uint32_t ttl_s;
};

struct mr_dispatcher_record {
    char instance[MR_INSTANCE_SIZE];
    char address[MR_ADDRESS_BYTES_MAX];
    char version[32];
    uint64_t started_ms;
    uint32_t deposed_alive;
    uint64_t deposed_ms;
};

struct mr_incarnation_record {
    char id[MR_INSTANCE_SIZE];
    uint64_t store_id;             /* 0: it does not say */
    char secret[MR_INSTANCE_SIZE]; /* empty: an older version's */
};

/* "/millrace/<cluster>/". MR_EINVAL: not [a-z0-9._-]{1,64}. */
int mr_root_of(const char *cluster, char root[MR_ROOT_SIZE], mr_error *err);

/* Values; freed with mr_free(). NULL: out of memory. */
char *mr_leader_record_write(const struct mr_leader_record *r);
char *mr_dispatcher_record_write(const struct mr_dispatcher_record *r);
char *mr_batch_record_write(uint64_t epoch, uint64_t number, const char *nonce);
char *mr_incarnation_record_write(const struct mr_incarnation_record *r);

int mr_leader_record_parse(struct mr_bytes value, struct mr_leader_record *ret, mr_error *err);
int mr_dispatcher_record_parse(struct mr_bytes value, struct mr_dispatcher_record *ret,
                               mr_error *err);
int mr_batch_record_parse(struct mr_bytes value, char nonce[MR_INSTANCE_SIZE], mr_error *err);
int mr_incarnation_record_parse(struct mr_bytes value, struct mr_incarnation_record *ret,
                                mr_error *err);
