/* What the service manager is told, and that a socket which is none changes nothing. */
#include "base/base.h"
#include "main/notify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

/* A manager at @name, as NOTIFY_SOCKET has it. */
static int manager(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(name);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0 && n < sizeof address.sun_path);
    memcpy(address.sun_path, name, n);
    if (name[0] == '@') {
        address.sun_path[0] = '\0';
    }
    assert_int_equal(bind(fd, (struct sockaddr *)&address,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)),
                     0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
    return fd;
}

static void expect(int fd, const char *wanted)
{
    char got[2048];
    ssize_t n = recv(fd, got, sizeof got, MSG_DONTWAIT);

    assert_true(n >= 0);
    assert_int_equal(n, strlen(wanted));
    assert_memory_equal(got, wanted, (size_t)n);
}

static void a_socket_of_the_file_system_is_told(void **state)
{
    char dir[] = "/tmp/millrace-notify-XXXXXX";
    char name[64];

    assert_non_null(mkdtemp(dir));
    (void)snprintf(name, sizeof name, "%s/socket", dir);
    int fd = manager(name);

    notify_manager("READY=1\nSTATUS=serving at %s", "h:1");
    notify_manager("STOPPING=1");
    expect(fd, "READY=1\nSTATUS=serving at h:1");
    expect(fd, "STOPPING=1");
    (void)close(fd);
    (void)unlink(name);
    (void)rmdir(dir);
}

static void an_abstract_socket_is_told(void **state)
{
    char name[64];

    (void)snprintf(name, sizeof name, "@millrace-notify-%ld", (long)getpid());
    int fd = manager(name);

    notify_manager("WATCHDOG=1");
    expect(fd, "WATCHDOG=1");
    (void)close(fd);
}

static void a_long_state_is_cut(void **state)
{
    char name[64], status[4096], wanted[1024];

    (void)snprintf(name, sizeof name, "@millrace-notify-long-%ld", (long)getpid());
    int fd = manager(name);

    memset(status, 'x', sizeof status - 1);
    status[sizeof status - 1] = '\0';
    notify_manager("%s", status);
    memset(wanted, 'x', sizeof wanted - 1);
    wanted[sizeof wanted - 1] = '\0';
    expect(fd, wanted);
    (void)close(fd);
}

static void a_manager_that_does_not_read_stops_nobody(void **state)
{
    char name[64];

    (void)snprintf(name, sizeof name, "@millrace-notify-full-%ld", (long)getpid());
    int fd = manager(name);

    for (int i = 0; i < 10000; i++) { /* more than a queue of datagrams takes */
        notify_manager("WATCHDOG=1");
    }
    expect(fd, "WATCHDOG=1");
    (void)close(fd);
}

static void what_is_no_socket_is_passed_over(void **state)
{
    char far[300];

    memset(far, 'x', sizeof far - 1);
    far[0] = '/';
    far[sizeof far - 1] = '\0';
    const char *const names[] = {"", "@", "/", "relative", "/nonexistent/socket", far};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(setenv("NOTIFY_SOCKET", names[i], 1), 0);
        notify_manager("READY=1");
    }
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    notify_manager("READY=1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_socket_of_the_file_system_is_told),
        cmocka_unit_test(an_abstract_socket_is_told),
        cmocka_unit_test(a_long_state_is_cut),
        cmocka_unit_test(a_manager_that_does_not_read_stops_nobody),
        cmocka_unit_test(what_is_no_socket_is_passed_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
