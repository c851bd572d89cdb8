/* Records of one length, between a header and a footer. The footer is found by reading ahead as
 * many bytes as it has: what has not been passed on when the file ends is it. */
#include "engine/record_file.h"

#include <sys/stat.h>

/* A plain file has a size that can be checked before anything of it is given. */
static int check_size(const struct mr_record_file *f, mr_error *err)
{
    const struct mr_fixed_format *x = &f->fixed;
    struct stat st;

    if (f->compression != MR_FILE_PLAIN || fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        return MR_OK;
    }
    uint64_t size = (uint64_t)st.st_size;
    uint64_t around = x->header_bytes + x->footer_bytes;
    if (size >= around && (size - around) % x->record_bytes == 0) {
        return MR_OK;
    }
    return mr_error_set(
        err, MR_EINVAL,
        "file '%s': without header (%" PRIu64 " bytes) and footer (%" PRIu64 " bytes) its %" PRIu64
        " bytes are not a multiple of records of %" PRIu64 " bytes",
        MR_SHOWN_PATH(f->path), x->header_bytes, x->footer_bytes, size, x->record_bytes);
}

/* To the first record, or to where a state says: what could be the footer is read ahead. */
static int begin(struct mr_record_file *f, mr_error *err)
{
    struct mr_fixed_format *x = &f->fixed;
    size_t got = 0;

    MR_TRY(check_size(f, err));
    if (f->offset < x->header_bytes) {
        MR_TRY(mr_record_file_skip(f, x->header_bytes - f->offset, "the file ends in its header",
                                   err));
    }
    x->ahead = mr_malloc((size_t)x->footer_bytes + 1);
    MR_CHECK_ALLOC(x->ahead, err);
    MR_TRY(mr_record_file_read(f, x->ahead, (size_t)x->footer_bytes, &got, err));
    return got == x->footer_bytes
               ? MR_OK
               : mr_record_file_damaged(f, f->offset, "the file ends in its footer", err);
}

/* @size bytes more were read: the last ones are ahead. */
static void slide(struct mr_fixed_format *x, const unsigned char *bytes, size_t size)
{
    size_t footer = (size_t)x->footer_bytes;
    size_t fresh = MR_MIN(size, footer);

    memmove(x->ahead, x->ahead + fresh, footer - fresh);
    memcpy(x->ahead + footer - fresh, bytes + size - fresh, fresh);
}

static int pass_over(struct mr_record_file *f, mr_error *err)
{
    unsigned char scratch[4096];
    uint64_t at = mr_record_file_position(f);
    uint64_t left = f->fixed.record_bytes;

    while (left > 0) {
        size_t step = left < sizeof scratch ? (size_t)left : sizeof scratch;
        size_t got = 0;

        MR_TRY(mr_record_file_read(f, scratch, step, &got, err));
        if (got == 0 && left == f->fixed.record_bytes) {
            return MR_END;
        }
        if (got < step) {
            return mr_record_file_damaged(f, at, "the file ends in the middle of it", err);
        }
        slide(&f->fixed, scratch, step);
        left -= step;
    }
    f->record++;
    return MR_OK;
}

/* @ahead and what follows it in the file: a record, and the bytes that are then ahead. */
static int next(struct mr_record_file *f, struct mr_buf *to, mr_error *err)
{
    struct mr_fixed_format *x = &f->fixed;
    size_t record = (size_t)x->record_bytes;
    size_t footer = (size_t)x->footer_bytes;
    uint64_t at = mr_record_file_position(f);
    size_t got = 0;
    unsigned char *p = mr_buf_reserve(to, footer + record);

    if (p == NULL) {
        return mr_record_file_no_room(f, at, to, err);
    }
    memcpy(p, x->ahead, footer);
    MR_TRY(mr_record_file_read(f, p + footer, record, &got, err));
    if (got == 0) {
        return MR_END;
    }
    if (got < record) {
        return mr_record_file_damaged(f, at, "the file ends in the middle of it", err);
    }
    memcpy(x->ahead, p + record, footer);
    to->len += record;
    f->record++;
    return MR_OK;
}

int mr_fixed_record_next(struct mr_record_file *f, size_t record_bytes_max, struct mr_buf *to,
                         mr_error *err)
{
    int rc = f->ended ? MR_END : MR_OK;

    if (rc == MR_OK && to != NULL &&
        f->fixed.record_bytes + f->fixed.footer_bytes > record_bytes_max) {
        f->too_large = true;
        rc = mr_error_set(err, MR_EEXHAUSTED,
                          "file '%s': records of %" PRIu64 " bytes, the limit is %zu",
                          MR_SHOWN_PATH(f->path), f->fixed.record_bytes, record_bytes_max);
    }
    if (rc == MR_OK && f->fixed.ahead == NULL) {
        rc = begin(f, err);
    }
    if (rc == MR_OK) {
        rc = to != NULL ? next(f, to, err) : pass_over(f, err);
    }
    f->ended = f->ended || rc != MR_OK;
    return rc;
}
