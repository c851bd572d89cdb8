/* Preloaded: whoever connects does so from 127.0.0.2, which a server on this machine takes for
 * another host. */
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define HOST 0x7f000002u

/* False: @fd cannot be bound. What is not an address of the internet stays as it is. */
static bool come_from_there(int fd, const struct sockaddr *to)
{
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(HOST)};
    struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};

    if (to->sa_family == AF_INET) {
        return bind(fd, (struct sockaddr *)&from, sizeof from) == 0;
    }
    if (to->sa_family == AF_INET6) { /* gRPC writes IPv4 as IPv6 */
        mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
        memcpy(mapped.sin6_addr.s6_addr + 12, &from.sin_addr, sizeof from.sin_addr);
        return bind(fd, (struct sockaddr *)&mapped, sizeof mapped) == 0;
    }
    return true;
}

int connect(int fd, const struct sockaddr *to, socklen_t size)
{
    int (*real)(int, const struct sockaddr *, socklen_t);

    *(void **)&real = dlsym(RTLD_NEXT, "connect");
    if (real == NULL || !come_from_there(fd, to)) {
        abort(); /* As its own host it would test nothing. */
    }
    return real(fd, to, size);
}
