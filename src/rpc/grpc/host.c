/* The host of a peer, as limits count it. */
#include "rpc/grpc/internal.h"

#include <arpa/inet.h>
#include <netinet/in.h>

/* Whoever has an IPv6 address may as well have all of its /64, which would be as many hosts as they
 * like. */
static void widen(char host[MR_GRPC_HOST_SIZE])
{
    struct in6_addr address;
    char text[INET6_ADDRSTRLEN];

    (void)snprintf(text, sizeof text, "%.*s", (int)strcspn(host, "%"),
                   host); /* without the interface's number */
    if (inet_pton(AF_INET6, text, &address) != 1 || IN6_IS_ADDR_LOOPBACK(&address) ||
        IN6_IS_ADDR_V4MAPPED(&address)) {
        return;
    }
    memset(address.s6_addr + 8, 0, 8);
    if (inet_ntop(AF_INET6, &address, text, sizeof text) != NULL) {
        (void)snprintf(host, MR_GRPC_HOST_SIZE, "%s/64", text);
    }
}

/* "ipv4:10.0.0.7:4711" or "ipv6:%5Bfe80::1%5D:4711", the brackets as they are or escaped. */
void mr_grpc_host_of(const char *peer, char out[MR_GRPC_HOST_SIZE])
{
    const char *from =
        strncmp(peer, "ipv4:", 5) == 0 || strncmp(peer, "ipv6:", 5) == 0 ? peer + 5 : NULL;
    const char *end = from != NULL ? strrchr(from, ':') : NULL;

    if (end == NULL) {
        (void)snprintf(out, MR_GRPC_HOST_SIZE, "local");
        return;
    }
    if (strncmp(from, "%5B", 3) == 0 && end - from > 6) {
        from += 3;
        end -= 3;
    } else if (from[0] == '[' && end - from > 2) {
        from++;
        end--;
    }
    (void)snprintf(out, MR_GRPC_HOST_SIZE, "%.*s", (int)(end - from), from);
    widen(out);
}
