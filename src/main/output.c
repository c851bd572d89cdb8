#include "main/output.h"

#include "base/base.h"

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
    bool lost = ferror(stdout) !=
                0; /* of an earlier part: what became of the last one says nothing of it */

    if (fflush(stdout) != 0) {
        int why = errno;

        (void)mr_error_errno(err, why, "standard output cannot be written");
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
