/* What the files of this directory share. Nothing outside includes it. */
#pragma once

#include "base/base.h"
#include "cache/rocks/rocks.h"

#include <rocksdb/c.h>
#include <stdatomic.h>

/* A directory that no other cache uses (dir.c): holds the lock file, and the database below it. */
struct mr_rocks_dir {
    char *path;
    char *db_path;
    int lock; /* descriptor, -1: not locked */
};
/* *@ret is closed with mr_rocks_dir_close(), whatever came of it. */
int mr_rocks_dir_open(const char *path, struct mr_rocks_dir *ret, mr_error *err);
void mr_rocks_dir_close(struct mr_rocks_dir *dir);

struct mr_rocks {
    mr_storage base;
    struct mr_rocks_dir dir;
    rocksdb_t *db; /* NULL: a reset failed */
    rocksdb_options_t *options;
    rocksdb_writeoptions_t *write;
    rocksdb_readoptions_t *read;
    rocksdb_flushoptions_t *flush;
};

/* Say what RocksDB says, whose @why it frees, with what a user can do about it. Returns the
 * code. */
int mr_rocks_error(mr_error *err, char *why);

/* Parts of the port (rocks.c); the rest, and the table, is in log.c. */
int mr_rocks_reset(mr_storage *base, mr_error *err);
void mr_rocks_close(mr_storage *base);
extern const struct mr_storage_ops mr_rocks_ops;
