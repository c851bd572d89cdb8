#include "main/output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void output_guard(void)
{
    int fd;

    /* The lowest that is free is what open() gives. Not to be written: that shall fail as it
     * did. */
    do {
        fd = open("/dev/null", O_RDONLY);
    } while (fd >= STDIN_FILENO && fd <= STDERR_FILENO);
    if (fd >= 0) {
        (void)close(fd);
    }
}

int output_end(mr_error *err)
{
    /* of an earlier part: what became of the last one says nothing of it */
    bool lost = ferror(stdout) != 0;

    if (fflush(stdout) != 0) {
        (void)mr_error_errno(err, errno, "standard output cannot be written");
    } else if (lost) {
        (void)mr_error_set(err, MR_EUNKNOWN, "standard output cannot be written");
    } else {
        return MR_OK;
    }
    if (err != NULL) {
        err->code = MR_EUNKNOWN; /* whatever the reason: nothing but the output went wrong */
        err->traits = 0;
    }
    return MR_EUNKNOWN;
}

int output_print(const struct mr_buf *text, mr_error *err)
{
    if (text->failed) {
        return mr_buf_error(text, err);
    }
    (void)fwrite(text->data, 1, text->len, stdout);
    return output_end(err);
}

void output_safe(struct mr_buf *out, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];

        mr_buf_append(out, c < 0x20 || c == 0x7f ? "?" : &s[i], 1);
    }
}
