#include "main/key_files.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1u << 20)

/* "dir/name", and with @staged ".new" behind it, until all of them are written. */
static int path_of(const char *dir, const char *name, bool staged, char **ret, mr_error *err)
{
    const char *slash = dir[0] == '\0' || dir[strlen(dir) - 1] == '/' ? "" : "/";
    char *path = mr_asprintf("%s%s%s%s", dir, slash, name, staged ? ".new" : "");

    MR_CHECK_ALLOC(path, err);
    *ret = path;
    return MR_OK;
}

/* ---- writing ---- */

static int write_text(int fd, const struct mr_buf *text)
{
    for (size_t done = 0; done < text->len;) {
        ssize_t n = write(fd, text->data + done, text->len - done);

        if (n < 0 && errno != EINTR) {
            return -1;
        }
        done += n > 0 ? (size_t)n : 0;
    }
    return fsync(fd);
}

static int stage(const char *dir, const struct key_file *file, mr_error *err)
{
    MR_AUTO(mr_free) char *path = NULL;

    if (file->text.failed) {
        return mr_error_nomem(err);
    }
    MR_TRY(path_of(dir, file->name, true, &path, err));
    (void)unlink(path); /* of a run that was killed: it might be readable for others */
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, file->secret ? 0600 : 0644);
    if (fd < 0) {
        return mr_error_errno(err, errno, "%s", MR_SHOWN_PATH(path));
    }
    int why = write_text(fd, &file->text) == 0 ? 0 : errno;
    why = close(fd) == 0 || why != 0 ? why : errno;
    if (why != 0) {
        (void)unlink(path);
        return mr_error_errno(err, why, "%s", MR_SHOWN_PATH(path));
    }
    return MR_OK;
}

static int publish(const char *dir, const struct key_file *file, mr_error *err)
{
    MR_AUTO(mr_free) char *from = NULL;
    MR_AUTO(mr_free) char *to = NULL;

    MR_TRY(path_of(dir, file->name, true, &from, err));
    MR_TRY(path_of(dir, file->name, false, &to, err));
    return rename(from, to) == 0 ? MR_OK : mr_error_errno(err, errno, "%s", MR_SHOWN_PATH(to));
}

static void discard(const char *dir, const struct key_file *file)
{
    MR_AUTO(mr_free) char *path = NULL;

    if (path_of(dir, file->name, true, &path, NULL) == MR_OK) {
        (void)unlink(path);
    }
}

int key_files_write(const char *dir, const struct key_file *files, size_t n, mr_error *err)
{
    int rc = MR_OK;

    for (size_t i = 0; i < n && rc == MR_OK; i++) {
        rc = stage(dir, &files[i], err);
    }
    for (size_t i = 0; i < n && rc == MR_OK; i++) {
        rc = publish(dir, &files[i], err);
    }
    for (size_t i = 0; i < n && rc != MR_OK; i++) {
        discard(dir, &files[i]);
    }
    return rc;
}

/* ---- reading ---- */

int key_file_read(const char *dir, const char *name, struct mr_buf *text, mr_error *err)
{
    MR_AUTO(mr_free) char *path = NULL;
    size_t n = 0;

    MR_TRY(path_of(dir, name, false, &path, err));
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return mr_error_errno(err, errno, "%s", MR_SHOWN_PATH(path));
    }
    do {
        void *p = mr_buf_reserve(text, 4096);

        n = p != NULL ? fread(p, 1, 4096, f) : 0;
        text->len += n;
    } while (n > 0 && text->len <= FILE_BYTES_MAX);
    bool broken = ferror(f) != 0;
    int why = errno;

    (void)fclose(f);
    if (broken) {
        return mr_error_errno(err, why, "%s", MR_SHOWN_PATH(path));
    }
    if (text->failed) {
        return mr_error_nomem(err);
    }
    return text->len <= FILE_BYTES_MAX ? MR_OK
                                       : mr_error_set(err, MR_EINVAL, "%s: more than %u bytes",
                                                      MR_SHOWN_PATH(path), FILE_BYTES_MAX);
}

bool key_file_exists(const char *dir, const char *name)
{
    MR_AUTO(mr_free) char *path = NULL;
    struct stat st;

    /* Without memory nothing can be written either, which says so. */
    return path_of(dir, name, false, &path, NULL) == MR_OK && lstat(path, &st) == 0;
}
