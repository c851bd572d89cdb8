/* Which file system a directory is on. */
#include "base/base.h"
#include "worker/times.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char mounts[] = "/tmp/millrace-mounts-XXXXXX";

static int setup(void **state)
{
    static const char text[] = "overlay / overlay rw 0 0\n"
                               "tmpfs /tmp tmpfs rw 0 0\n"
                               "server:/x /data nfs4 rw 0 0\n"
                               "fuse /data/my\\040bucket fuse.gcsfuse rw 0 0\n"
                               "/dev/sdb /data ext4 rw 0 0\n";
    int fd = mkstemp(mounts);

    return fd >= 0 && write(fd, text, sizeof text - 1) == sizeof text - 1 && close(fd) == 0 ? 0 : 1;
}

static int teardown(void **state)
{
    return unlink(mounts);
}

static void expect(const char *directory, const char *text)
{
    char out[MR_FILE_SYSTEM_BYTES];

    mr_file_system_find(mounts, directory, out);
    assert_string_equal(out, text);
}

static void the_longest_mount_is_it(void **state)
{
    expect("/", "overlay at /");
    expect("/home/me", "overlay at /");
    expect("/tmp", "tmpfs at /tmp");
    expect("/tmpfiles", "overlay at /");
    expect("/data/my bucket/a", "fuse.gcsfuse at /data/my bucket");
}

static void the_last_of_two_hides_the_other(void **state)
{
    expect("/data/train", "ext4 at /data");
}

static void what_cannot_be_known(void **state)
{
    char out[MR_FILE_SYSTEM_BYTES];

    expect("relative/path", "");
    mr_file_system_find("/nonexistent", "/data", out);
    assert_string_equal(out, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_mount_is_it),
        cmocka_unit_test(the_last_of_two_hides_the_other),
        cmocka_unit_test(what_cannot_be_known),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
