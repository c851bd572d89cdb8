
#include "base/limits.h"
#include "cache/internal.h"
#include "cache/rocks/internal.h"

/* Tables that are open at the same time: a reader needs one, and opening one costs little beside
 * reading it. */
#define OPEN_FILES_MAX 256
#define DISK_BYTES_MIN (32 * MR_MIB)
#define LOG_BYTES_MIN (8 * MR_MIB)
/* For RocksDB's own files: manifest, options, log, and what a file has besides its records. */
#define DISK_BYTES_RESERVED (8 * MR_MIB)
#define MEMORY_BYTES_MIN (16 * MR_MIB)
#define LOGS_LIMIT 1024u
/* Quarters of what a log may have unstored that it holds: those records 4, write buffer 4, the
 * record being put 2. */
#define QUARTERS_PER_LOG 10
#define FLUSH_THREADS_MAX 4
#define INFO_LOG_HEADER 5 /* of enum InfoLogLevel: above all that has a level */
#define TABLE_BLOCK_BYTES (16 * 1024)
#define CHECKSUM_XXH3 4 /* of enum ChecksumType */
#define FILTER_BITS 10  /* a record: one block in a hundred is read in vain */
#define MANIFEST_BYTES_MAX (1 * MR_MIB)

int mr_rocks_error(mr_error *err, char *why)
{
    int rc;

    if (strstr(why, "No space left") != NULL || strstr(why, "quota") != NULL ||
        strstr(why, "File too large") != NULL) {
        rc = mr_error_set(err, MR_EEXHAUSTED,
                          "%s: make room there, give the cache another directory, or fewer bytes",
                          why);
    } else if (strstr(why, "Permission denied") != NULL || strstr(why, "Read-only") != NULL) {
        rc = mr_error_set(err, MR_EPERM, "%s: the cache's directory must be writable", why);
    } else if (strncmp(why, "Corruption", 10) == 0) {
        rc = mr_error_set(err, MR_EDATALOSS, "%s: check the disk of the cache's directory", why);
    } else {
        rc = mr_error_set(err, MR_EUNAVAIL, "%s", why);
    }
    rocksdb_free(why);
    return rc;
}

/* Options of the database and of every column family in it. */
static rocksdb_options_t *new_options(uint64_t log_memory_bytes, uint32_t logs_max)
{
    rocksdb_options_t *o = rocksdb_options_create();
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();

    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_options_set_error_if_exists(o, 1); /* it was wiped */

    /* Files lie on one level, are never rewritten, and go when the log's writer says so. */
    rocksdb_options_set_disable_auto_compactions(o, 1);
    rocksdb_options_set_compression(o, rocksdb_no_compression);
    /* The log's writer flushes; RocksDB must not by itself, and must never make a writer wait. */
    rocksdb_options_set_write_buffer_size(o, (size_t)(4 * log_memory_bytes));
    rocksdb_options_set_max_write_buffer_number(o, 8);
    rocksdb_options_set_max_background_flushes(o, (int)MR_MIN(logs_max, FLUSH_THREADS_MAX));
    rocksdb_options_set_max_background_compactions(o, 1);

    /* Readers go through a file from its start to its end: let the kernel read ahead. */
    rocksdb_options_set_advise_random_on_open(o, 0);
    rocksdb_options_set_max_open_files(o, OPEN_FILES_MAX);
    /* Small pieces to the disk while a file is written, instead of all of it at its fsync. */
    rocksdb_options_set_bytes_per_sync(o, MR_MIB);

    /* The rest of the directory stays small. */
    rocksdb_options_set_max_manifest_file_size(o, MANIFEST_BYTES_MAX);
    /* Nothing goes into its log of what happens: on a full disk a line of it fails, and where
     * assertions are on, as in Debian's library, the next one ends the process. What goes wrong is
     * told by the calls that fail. */
    rocksdb_options_set_info_log_level(o, INFO_LOG_HEADER);
    rocksdb_options_set_max_log_file_size(o, 0);
    rocksdb_options_set_log_file_time_to_roll(o, 0);
    rocksdb_options_set_keep_log_file_num(o, 2);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
    rocksdb_options_set_stats_persist_period_sec(o, 0);

    rocksdb_block_based_options_set_checksum(table, CHECKSUM_XXH3);
    rocksdb_block_based_options_set_block_size(table, TABLE_BLOCK_BYTES);
    /* Of no bytes: what is read is in it as long as it is pinned, and no longer. Without a block
     * cache RocksDB would copy each value out of its block. A larger one gains nothing: the
     * kernel's page cache does as well, and a value that is not kept lands in memory that is still
     * warm. */
    rocksdb_cache_t *cache = rocksdb_cache_create_lru(0);
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_cache_destroy(cache); /* the table's options have a reference */
    /* Of three files or fewer RocksDB looks into each, newest first, whatever their keys: a whole
     * block read. */
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(FILTER_BITS));
    rocksdb_options_set_block_based_table_factory(o, table);
    rocksdb_block_based_options_destroy(table);
    return o;
}

/* Wipe and open. */
static int open_db(struct mr_rocks *s, mr_error *err)
{
    char *why = NULL;

    rocksdb_destroy_db(s->options, s->dir.db_path, &why);
    if (why != NULL) {
        (void)mr_rocks_error(err, why);
        mr_error_wrap(err, "wiping what an earlier life left");
        return err == NULL ? MR_EUNAVAIL : err->code;
    }
    s->db = rocksdb_open(s->options, s->dir.db_path, &why);
    if (why != NULL) {
        s->db = NULL;
        return mr_rocks_error(err, why);
    }
    return MR_OK;
}

static void close_db(struct mr_rocks *s)
{
    char *why = NULL;

    if (s->db == NULL) {
        return;
    }
    /* Memory that nobody will read need not become a file. */
    rocksdb_cancel_all_background_work(s->db, 1 /* wait */);
    rocksdb_close(s->db);
    s->db = NULL;
    rocksdb_destroy_db(s->options, s->dir.db_path, &why);
    /* What could not be deleted is wiped at the next start. */
    rocksdb_free(why);
}

int mr_rocks_reset(mr_storage *base, mr_error *err)
{
    struct mr_rocks *s = (struct mr_rocks *)base;

    close_db(s);
    return open_db(s, err);
}

void mr_rocks_close(mr_storage *base)
{
    struct mr_rocks *s = (struct mr_rocks *)base;

    close_db(s);
    rocksdb_options_destroy(s->options);
    rocksdb_writeoptions_destroy(s->write);
    rocksdb_readoptions_destroy(s->read);
    rocksdb_flushoptions_destroy(s->flush);
    mr_rocks_dir_close(&s->dir);
    mr_free(s);
}

int mr_rocks_open(const char *dir, uint64_t log_memory_bytes, uint32_t logs_max, mr_storage **ret,
                  mr_error *err)
{
    struct mr_rocks *s = mr_calloc(1, sizeof *s);

    MR_CHECK_ALLOC(s, err);
    int rc = mr_rocks_dir_open(dir, &s->dir, err);
    s->base = (mr_storage){&mr_rocks_ops, s->dir.path};
    s->options = new_options(log_memory_bytes, logs_max);
    s->write = rocksdb_writeoptions_create();
    rocksdb_writeoptions_disable_WAL(s->write, 1);
    rocksdb_writeoptions_set_no_slowdown(s->write,
                                         1); /* an error instead of a wait that nobody expects */
    s->read = rocksdb_readoptions_create();
    /* The one checksum of a record's bytes; and RocksDB itself believes what it reads, and ends the
     * process over it. */
    rocksdb_readoptions_set_verify_checksums(s->read, 1);
    s->flush = rocksdb_flushoptions_create();
    rocksdb_flushoptions_set_wait(s->flush, 1);
    rc = rc < 0 ? rc : open_db(s, err);
    if (rc < 0) {
        mr_rocks_close(&s->base);
        return rc;
    }
    *ret = &s->base;
    return MR_OK;
}

static int open_over_rocks(const struct mr_cache_options *opts, mr_cache **ret, mr_error *err)
{
    uint64_t memory = opts->memory_bytes_max;
    uint32_t logs = opts->logs_max;
    mr_storage *storage = NULL;

    if (opts->disk_bytes_max < DISK_BYTES_MIN || memory < MEMORY_BYTES_MIN || logs == 0 ||
        logs > LOGS_LIMIT) {
        return mr_error_set(err, MR_EINVAL,
                            "%" PRIu64 " bytes of disk (at least %llu), %" PRIu64
                            " of memory (at least %llu), %" PRIu32 " logs (at most %u)",
                            opts->disk_bytes_max, DISK_BYTES_MIN, memory, MEMORY_BYTES_MIN, logs,
                            LOGS_LIMIT);
    }
    struct mr_cache_limits limits = {.log_bytes_max = opts->disk_bytes_max - DISK_BYTES_RESERVED,
                                     .log_bytes_min = LOG_BYTES_MIN,
                                     .log_memory_bytes = memory / logs * 4 / QUARTERS_PER_LOG,
                                     .logs_max = logs};
    if (limits.log_memory_bytes < MR_MIB) {
        return mr_error_set(err, MR_EINVAL,
                            "%" PRIu64 " bytes of memory are too few for %" PRIu32 " logs", memory,
                            logs);
    }
    MR_TRY(mr_rocks_open(opts->dir, limits.log_memory_bytes, logs, &storage, err));
    return mr_cache_new(storage, &limits, ret, err);
}

int mr_cache_open(const struct mr_cache_options *opts, mr_cache **ret, mr_error *err)
{
    MR_TRY_WRAP(open_over_rocks(opts, ret, err), err, "cache directory '%s'", opts->dir);
    return MR_OK;
}
