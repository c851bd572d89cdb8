#include "base/file.h"

#include "base/base.h"
#include "base/buf.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define PIECE 4096u

int mr_file_read(const char *path, size_t bytes_max, char **ret, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *b = &text;
    FILE *f = fopen(path, "re");
    size_t n;

    if (f == NULL) {
        return mr_error_errno(err, errno, "%s", path);
    }
    do {
        char *p = mr_buf_reserve(b, PIECE);

        n = p != NULL ? fread(p, 1, PIECE, f) : 0;
        b->len += n;
    } while (n > 0 && b->len <= bytes_max);
    bool broken = ferror(f) != 0;

    (void)fclose(f);
    if (broken) {
        return mr_error_set(err, MR_EUNKNOWN, "%s: it cannot be read", path);
    }
    if (b->failed) {
        return mr_error_nomem(err);
    }
    if (b->len > bytes_max) {
        return mr_error_set(err, MR_EINVAL, "%s: more than %zu bytes", path, bytes_max);
    }
    *ret = mr_buf_take(b, NULL);
    return MR_OK;
}

static bool is_same(const struct mr_file_watch *a, const struct mr_file_watch *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
           a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec;
}

bool mr_file_changed(struct mr_file_watch *w, const char *path, int64_t now_ms)
{
    struct mr_file_watch seen = {.looked_ms = now_ms};
    struct stat st;

    if (w->looked_ms != 0 && now_ms < w->looked_ms + MR_FILE_WATCH_MS) {
        return false;
    }
    if (stat(path, &st) == 0) {
        seen.dev = st.st_dev;
        seen.ino = st.st_ino;
        seen.size = st.st_size;
        seen.modified = st.st_mtim;
    }
    bool changed = w->looked_ms == 0 || !is_same(w, &seen);
    *w = seen;
    return changed;
}

void mr_file_look_again(struct mr_file_watch *w)
{
    w->size = -1; /* no version has that */
}
