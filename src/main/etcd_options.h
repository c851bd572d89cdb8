/*
 * The options that say how to get into an etcd, the same in every program that talks to one. The
 * endpoints are each program's own: what they default to differs.
 *
 * Threads: the main thread.
 */
#ifndef MR_MAIN_ETCD_OPTIONS_H
#define MR_MAIN_ETCD_OPTIONS_H

#include "main/options.h"

/* NULL: not given. */
struct etcd_values {
    const char *ca;
    const char *cert;
    const char *key;
    const char *server_name;
    const char *user;
    const char *password_file;
};

#define ETCD_OPTIONS 6

/* Fills in the table for a structure in which the values are at @offset. */
void etcd_options(size_t offset, struct opt table[ETCD_OPTIONS]);

/* Of a program with a private etcd: its home and the endpoints of another one exclude each other.
 * NULL: not given. */
int etcd_check_home(const char *endpoints, const char *work_dir, mr_error *err);

/* As arguments for another program: pairs, lent, NULL behind the last one. Returns how many
 * strings. */
size_t etcd_arguments(const struct etcd_values *v, const char *out[2 * ETCD_OPTIONS + 1]);

#endif
