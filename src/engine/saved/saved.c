#include "engine/saved/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <millrace/saved.h>
#include <sys/stat.h>
#include <unistd.h>

struct mr_saved {
    struct mr_manifest manifest;
    char **files; /* a path for each chunk */
};

static int read_all(int fd, const char *file, struct mr_buf *to, mr_error *err)
{
    ssize_t got = 1;

    while (got > 0 && to->len <= MR_MANIFEST_BYTES_MAX) {
        void *room = mr_buf_reserve(to, 64u << 10);

        MR_CHECK_ALLOC(room, err);
        got = read(fd, room, 64u << 10);
        if (got < 0 && errno != EINTR) {
            return mr_error_errno(err, errno, "file '%s'", file);
        }
        to->len += got > 0 ? (size_t)got : 0;
        got = got < 0 ? 1 : got; /* interrupted */
    }
    return to->len <= MR_MANIFEST_BYTES_MAX
               ? MR_OK
               : mr_error_set(err, MR_EDATALOSS, "file '%s': more than %u bytes are no manifest",
                              file, MR_MANIFEST_BYTES_MAX);
}

static int read_manifest(const char *file, struct mr_manifest *ret, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *bytes = &text;
    int fd = open(file, O_RDONLY | O_CLOEXEC);

    if (fd < 0 && errno == ENOTDIR) {
        return mr_error_set(err, MR_EPRECOND, "file '%s': not in a directory", file);
    }
    if (fd < 0) {
        return mr_error_errno(err, errno, "file '%s'", file);
    }
    int rc = read_all(fd, file, bytes, err);
    (void)close(fd); /* it was read only */
    MR_TRY(rc);
    MR_TRY_WRAP(mr_manifest_read(bytes->data != NULL ? bytes->data : (const void *)"", bytes->len,
                                 ret, err),
                err, "file '%s'", file);
    return MR_OK;
}

static int name_files(struct mr_saved *saved, const char *path, mr_error *err)
{
    saved->files = mr_calloc(saved->manifest.n + 1, sizeof *saved->files);
    MR_CHECK_ALLOC(saved->files, err);
    for (size_t i = 0; i < saved->manifest.n; i++) {
        saved->files[i] =
            mr_asprintf("%s/%s/%s", path, saved->manifest.run, saved->manifest.chunks[i].file);
        MR_CHECK_ALLOC(saved->files[i], err);
    }
    return MR_OK;
}

int mr_saved_open(const char *path, mr_saved **ret, mr_error *err)
{
    MR_AUTO(mr_free) char *file = mr_asprintf("%s/" MR_MANIFEST_FILE, path);
    mr_saved *saved = mr_calloc(1, sizeof *saved);
    int rc = file != NULL && saved != NULL ? MR_OK : mr_error_nomem(err);

    rc = rc == MR_OK ? read_manifest(file, &saved->manifest, err) : rc;
    rc = rc == MR_OK ? name_files(saved, path, err) : rc;
    if (rc != MR_OK) {
        mr_saved_free(saved);
        return rc;
    }
    *ret = saved;
    return MR_OK;
}

void mr_saved_free(mr_saved *saved)
{
    if (saved == NULL) {
        return;
    }
    for (size_t i = 0; saved->files != NULL && i < saved->manifest.n; i++) {
        mr_free(saved->files[i]);
    }
    mr_free(saved->files);
    mr_manifest_free(&saved->manifest);
    mr_free(saved);
}

const mr_spec *mr_saved_spec(const mr_saved *saved)
{
    return saved->manifest.spec;
}

const uint8_t *mr_saved_fingerprint(const mr_saved *saved)
{
    return saved->manifest.fingerprint;
}

uint64_t mr_saved_rows(const mr_saved *saved)
{
    return saved->manifest.rows;
}

size_t mr_saved_chunks(const mr_saved *saved)
{
    return saved->manifest.n;
}

void mr_saved_chunk_get(const mr_saved *saved, size_t i, struct mr_saved_chunk *ret)
{
    MR_ASSERT(i < saved->manifest.n);
    const struct mr_manifest_chunk *c = &saved->manifest.chunks[i];

    *ret = (struct mr_saved_chunk){.file = saved->files[i],
                                   .shard = c->shard,
                                   .rows = c->rows,
                                   .bytes = c->bytes,
                                   .chain = (int64_t)c->chain};
}
