#include "tests/support/port.h"

#include "base/base.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PORT_MIN 10000
#define PORT_MAX 65535
#define TRIES 1000

/* Those that the kernel gives away; none, if that cannot be known. */
static void read_given(int *low, int *high)
{
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

    if (f == NULL || fscanf(f, "%d %d", low, high) !=
                         2) { /* NOLINT(cert-err34-c): the kernel's own two numbers */
        *low = *high = -1;
    }
    if (f != NULL) {
        (void)fclose(f);
    }
}

/* Between tests, by the name of a socket that stays open (tests/e2e/conftest.py has the same
 * names). */
static bool reserve(int port)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int n = snprintf(a.sun_path + 1, sizeof a.sun_path - 1, "millrace-test-port-%d", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return false;
    }
    if (bind(fd, (struct sockaddr *)&a,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0) {
        (void)close(fd);
        return false;
    }
    return true; /* It is closed with the process. */
}

static bool is_free(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(INADDR_LOOPBACK)},
                            .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0;

    if (fd >= 0) {
        (void)close(fd);
    }
    return ok;
}

int mr_test_port(void)
{
    int low;
    int high;

    read_given(&low, &high);
    for (int i = 0; i < TRIES; i++) {
        uint16_t random;

        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
            return -1;
        }
        int port = PORT_MIN + random % (PORT_MAX - PORT_MIN + 1);
        bool given = port >= low && port <= high && i < TRIES / 2; /* all of them may be */
        if (!given && is_free(port) && reserve(port)) {
            return port;
        }
    }
    return -1;
}
