/* Lines of text, and records of CSV, which are lines but for those that end within quotes. */
#include "engine/record_file.h"

static int too_long(struct mr_record_file *f, uint64_t begin, size_t most, mr_error *err)
{
    f->too_large = true;
    return mr_error_set(err, MR_EEXHAUSTED,
                        "file '%s', offset %" PRIu64 "%s, line %" PRIu64
                        ": more than %zu bytes, which is the limit",
                        MR_SHOWN_PATH_PART(f->path), begin,
                        f->compression != MR_FILE_PLAIN ? " (uncompressed)" : "", f->record + 1,
                        most);
}

/* A part of the line at @begin, of which at most @most bytes are wanted. */
static int put(struct mr_record_file *f, uint64_t begin, const unsigned char *part, size_t size,
               size_t most, struct mr_buf *to, mr_error *err)
{
    if (size > most) {
        return too_long(f, begin, most, err);
    }
    mr_buf_append(to, part, size);
    return to->failed ? mr_record_file_no_room(f, begin, to, err) : MR_OK;
}

/* The first end of line, or NULL. With @quoted, those between quotes are none: it says whether @p
 * begins between quotes, and then whether @p + @n does. */
static const unsigned char *find_end(const unsigned char *p, size_t n, bool *quoted)
{
    const unsigned char *end = p + n;

    if (quoted == NULL) {
        return memchr(p, '\n', n);
    }
    for (; p < end; p++) {
        if (*p == '"') {
            *quoted = !*quoted; /* a doubled quote does so twice */
        } else if (*p == '\n' && !*quoted) {
            return p;
        }
    }
    return NULL;
}

static int next_line(struct mr_record_file *f, size_t line_bytes_max, bool *quoted,
                     struct mr_buf *to, mr_error *err)
{
    uint64_t begin = f->offset;
    size_t kept = to != NULL ? to->len : 0;
    bool found = false;
    bool any = false;
    int rc = f->ended ? MR_END : MR_OK;

    while (rc == MR_OK && !found) {
        const unsigned char *p = NULL;
        size_t n = 0;

        rc = mr_record_file_peek(f, &p, &n, err);
        if (rc != MR_OK) {
            break;
        }
        const unsigned char *end = find_end(p, n, quoted);
        size_t line = end != NULL ? (size_t)(end - p) : n;
        found = end != NULL;
        any = true;
        rc =
            to != NULL ? put(f, begin, p, line, line_bytes_max - (to->len - kept), to, err) : MR_OK;
        mr_record_file_pass(f, rc == MR_OK ? line + (found ? 1 : 0) : 0);
    }
    if (rc == MR_END && any) {
        rc = MR_OK; /* the last line has no end */
    }
    if (rc == MR_OK) {
        f->record++;
    }
    if (to != NULL && rc == MR_OK) {
        to->len -= to->len > kept && to->data[to->len - 1] == '\r';
    } else if (to != NULL) {
        to->len = kept;
    }
    if (rc < 0) {
        f->ended = true;
        mr_error_wrap(err, "line %" PRIu64, f->record + 1);
    }
    return rc;
}

int mr_text_line_next(struct mr_record_file *f, size_t line_bytes_max, struct mr_buf *to,
                      mr_error *err)
{
    return next_line(f, line_bytes_max, NULL, to, err);
}

int mr_csv_record_next(struct mr_record_file *f, size_t record_bytes_max, struct mr_buf *to,
                       mr_error *err)
{
    bool quoted = false;

    return next_line(f, record_bytes_max, &quoted, to, err);
}
