#include "main/notify.h"

#include "base/base.h"
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define STATE_BYTES_MAX 1024

static atomic_bool in_trouble; /* the last one could not be sent: said once */

/* @name: an absolute path, or @ and a name without a file. */
static bool parse(const char *name, struct sockaddr_un *ret, socklen_t *size)
{
    size_t n = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof ret->sun_path) {
        return false;
    }
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(ret->sun_path, name, n);
    if (name[0] == '@') {
        ret->sun_path[0] = '\0';
    }
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    return true;
}

/* 0, or the error. */
static int send_state(const struct sockaddr_un *to, socklen_t size, const char *state)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int failed = 0;

    if (fd < 0) {
        return errno;
    }
    /* A manager that does not read must not stop who tells it something. */
    if (sendto(fd, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)to,
               size) < 0) {
        failed = errno;
    }
    (void)close(fd);
    return failed;
}

void notify_manager(const char *fmt, ...)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address;
    char state[STATE_BYTES_MAX];
    socklen_t size;
    va_list args;

    if (name == NULL || name[0] == '\0') {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(state, sizeof state, fmt, args);
    va_end(args);
    int failed = parse(name, &address, &size) ? send_state(&address, size, state) : EINVAL;
    bool again = atomic_exchange(&in_trouble, failed != 0);

    if (failed != 0 && !again) {
        mr_log(MR_LOG_WARN, "the service manager cannot be told", "socket", "%s", name, "error",
               "%s", strerror(failed), NULL);
    }
}
