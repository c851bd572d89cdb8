#include "cache/rocks/internal.h"

#include <endian.h>

struct rocks_log {
    mr_storage_log base;
    rocksdb_column_family_handle_t *cf;
    char name[32]; /* of the column family */
    /* put() */
    rocksdb_writebatch_t *batch;
    size_t nfiles; /* flush() and remove_oldest() */
};

static struct mr_rocks *rocks_of(const mr_storage_log *log)
{
    return (struct mr_rocks *)log->storage;
}

/* ---- open and drop ---- */

static int create(mr_storage *base, uint64_t id, mr_storage_log **ret, mr_error *err)
{
    struct mr_rocks *s = (struct mr_rocks *)base;
    char *why = NULL;

    if (s->db == NULL) {
        return mr_error_set(err, MR_EUNAVAIL, "the database is closed");
    }
    struct rocks_log *log = mr_calloc(1, sizeof *log);
    MR_CHECK_ALLOC(log, err);
    (void)snprintf(log->name, sizeof log->name, "log-%" PRIu64, id);
    log->cf = rocksdb_create_column_family(s->db, s->options, log->name, &why);
    if (why != NULL) {
        mr_free(log);
        return mr_rocks_error(err, why);
    }
    log->base.storage = base;
    log->batch = rocksdb_writebatch_create();
    *ret = &log->base;
    return MR_OK;
}

static int drop(mr_storage_log *base, mr_error *err)
{
    struct rocks_log *log = (struct rocks_log *)base;
    struct mr_rocks *s = rocks_of(base);
    char *why = NULL;

    rocksdb_drop_column_family(s->db, log->cf, &why);
    int rc = why == NULL ? MR_OK : mr_rocks_error(err, why);
    rocksdb_column_family_handle_destroy(log->cf); /* the files go with it */
    rocksdb_writebatch_destroy(log->batch);
    mr_free(log);
    return rc;
}

/* ---- writing ---- */

static int put(mr_storage_log *base, uint64_t key, const struct iovec *iov, size_t n, mr_error *err)
{
    struct rocks_log *log = (struct rocks_log *)base;
    struct mr_rocks *s = rocks_of(base);
    uint64_t big = htobe64(key);
    const char *keys[1] = {(const char *)&big};
    size_t key_sizes[1] = {sizeof big};
    const char **values = mr_malloc(n * (sizeof *values + sizeof(size_t)));
    size_t *sizes = (size_t *)(values + n);
    char *why = NULL;

    MR_CHECK_ALLOC(values, err);
    for (size_t i = 0; i < n; i++) {
        values[i] = iov[i].iov_base;
        sizes[i] = iov[i].iov_len;
    }
    rocksdb_writebatch_clear(log->batch);
    rocksdb_writebatch_putv_cf(log->batch, log->cf, 1, keys, key_sizes, (int)n, values, sizes);
    rocksdb_write(s->db, s->write, log->batch, &why);
    mr_free(values);
    return why == NULL ? MR_OK : mr_rocks_error(err, why);
}

static uint64_t parse_key(const char *key, size_t size)
{
    uint64_t big;

    MR_ASSERT(size == sizeof big);
    memcpy(&big, key, sizeof big);
    return be64toh(big);
}

/* The files of a log: how many, and the newest or the oldest of them. */
struct listed {
    size_t count;
    struct mr_storage_file file;
    char *name; /* freed with mr_free() */
};

/* Not from the column family's metadata: those are of what readers see, which a flush that has
 * ended may not have reached yet (another log's flush may have written the manifest for both). */
static int list_files(const struct rocks_log *log, bool newest, struct listed *ret, mr_error *err)
{
    const rocksdb_livefiles_t *files = rocksdb_livefiles(rocks_of(&log->base)->db);
    int n = rocksdb_livefiles_count(files), found = -1;

    *ret = (struct listed){0};
    for (int i = 0; i < n; i++) {
        if (strcmp(rocksdb_livefiles_column_family_name(files, i), log->name) == 0) {
            size_t size;
            const char *largest = rocksdb_livefiles_largestkey(files, i, &size);
            uint64_t last = parse_key(largest, size);

            if (found < 0 || (newest ? last > ret->file.last : last < ret->file.last)) {
                ret->file = (struct mr_storage_file){last, rocksdb_livefiles_size(files, i)};
                found = i;
            }
            ret->count++;
        }
    }
    ret->name = found < 0 ? NULL : mr_strdup(rocksdb_livefiles_name(files, found));
    rocksdb_livefiles_destroy(files);
    return found >= 0 && ret->name == NULL ? mr_error_nomem(err) : MR_OK;
}

static int flush(mr_storage_log *base, struct mr_storage_file *ret, mr_error *err)
{
    struct rocks_log *log = (struct rocks_log *)base;
    struct mr_rocks *s = rocks_of(base);
    struct listed listed;
    char *why = NULL;

    rocksdb_flush_cf(s->db, s->flush, log->cf, &why);
    if (why != NULL) {
        return mr_rocks_error(err, why);
    }
    MR_TRY(list_files(log, true /* newest */, &listed, err));
    mr_free(listed.name);
    if (listed.count != log->nfiles + 1) {
        return mr_error_set(err, MR_EINTERNAL, "a flush left %zu files, expected %zu", listed.count,
                            log->nfiles + 1);
    }
    log->nfiles++;
    *ret = listed.file;
    return MR_OK;
}

static int remove_oldest(mr_storage_log *base, mr_error *err)
{
    struct rocks_log *log = (struct rocks_log *)base;
    struct listed before, after;

    MR_ASSERT(log->nfiles > 0);
    MR_TRY(list_files(log, false /* newest */, &before, err));
    MR_AUTO(mr_free) char *name = before.name;
    if (before.count != log->nfiles) {
        return mr_error_set(err, MR_EINTERNAL, "there are %zu files, expected %zu", before.count,
                            log->nfiles);
    }
    /* Allowed for the oldest file of level 0 while there are no others; it says nothing when it
     * fails. */
    rocksdb_delete_file(rocks_of(base)->db, name);
    MR_TRY(list_files(log, false /* newest */, &after, err));
    mr_free(after.name);
    if (after.count != log->nfiles - 1) {
        return mr_error_set(err, MR_EUNAVAIL,
                            "file %s cannot be dropped: is the directory still writable?", name);
    }
    log->nfiles--;
    return MR_OK;
}

/* ---- reading ---- */

static int get(mr_storage_log *base, uint64_t key, struct mr_storage_value *ret, mr_error *err)
{
    struct rocks_log *log = (struct rocks_log *)base;
    struct mr_rocks *s = rocks_of(base);
    uint64_t big = htobe64(key);
    char *why = NULL;
    rocksdb_pinnableslice_t *slice =
        rocksdb_get_pinned_cf(s->db, s->read, log->cf, (const char *)&big, sizeof big, &why);
    size_t size;

    if (why != NULL) {
        return mr_rocks_error(err, why);
    }
    if (slice == NULL) {
        return mr_error_set(err, MR_ENOTFOUND, "no record of element %" PRIu64, key);
    }
    const char *data = rocksdb_pinnableslice_value(slice, &size);
    *ret = (struct mr_storage_value){data, size, slice};
    return MR_OK;
}

static void release(mr_storage *base, struct mr_storage_value *value)
{
    rocksdb_pinnableslice_destroy(value->handle);
}

static int find_key(mr_storage_log *base, uint64_t key, bool upwards, uint64_t *ret, mr_error *err)
{
    struct rocks_log *log = (struct rocks_log *)base;
    struct mr_rocks *s = rocks_of(base);
    rocksdb_iterator_t *it = rocksdb_create_iterator_cf(s->db, s->read, log->cf);
    uint64_t big = htobe64(key);
    char *why = NULL;
    int rc = MR_OK;
    size_t size;

    (upwards ? rocksdb_iter_seek : rocksdb_iter_seek_for_prev)(it, (const char *)&big, sizeof big);
    rocksdb_iter_get_error(it, &why);
    if (why != NULL) {
        rc = mr_rocks_error(err, why);
    } else if (!rocksdb_iter_valid(it)) {
        rc = mr_error_set(err, MR_ENOTFOUND, "no record at or %s element %" PRIu64,
                          upwards ? "behind" : "before", key);
    } else {
        const char *found = rocksdb_iter_key(it, &size);

        if (size == sizeof big) {
            *ret = parse_key(found, size);
        } else {
            rc = mr_error_set(err, MR_EDATALOSS, "a key of %zu bytes", size);
        }
    }
    rocksdb_iter_destroy(it);
    return rc;
}

const struct mr_storage_ops mr_rocks_ops = {
    .create = create,
    .put = put,
    .flush = flush,
    .remove_oldest = remove_oldest,
    .get = get,
    .release = release,
    .find = find_key,
    .drop = drop,
    .reset = mr_rocks_reset,
    .close = mr_rocks_close,
};
