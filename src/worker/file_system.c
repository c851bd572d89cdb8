/* Which file system a path is on, by its text: asking the file system itself may take as long as it
 * is slow. */
#include "base/base.h"
#include "worker/times.h"

#include <mntent.h>
#include <stdio.h>

#define LINE_BYTES 4096

/* Whether @path is @directory, or in it. */
static bool is_below(const char *path, const char *directory)
{
    size_t n = strlen(directory);

    return strncmp(path, directory, n) == 0 &&
           (n == 0 || directory[n - 1] == '/' || path[n] == '/' || path[n] == '\0');
}

void mr_file_system_find(const char *mounts, const char *directory, char out[MR_FILE_SYSTEM_BYTES])
{
    FILE *f = setmntent(mounts, "re");
    struct mntent mount;
    char line[LINE_BYTES];
    size_t longest = 0;

    out[0] = '\0';
    while (f != NULL && getmntent_r(f, &mount, line, sizeof line) != NULL) {
        size_t n = strlen(mount.mnt_dir);

        if (n >= longest && is_below(directory, mount.mnt_dir)) { /* the last one hides others */
            longest = n;
            (void)snprintf(out, MR_FILE_SYSTEM_BYTES, "%s at %s", mount.mnt_type, mount.mnt_dir);
        }
    }
    if (f != NULL) {
        (void)endmntent(f);
    }
}
