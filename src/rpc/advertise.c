/* What a server that listens on all addresses of its host tells others. Not a loopback address: it
 * means another process on every host, and two servers that tell the same one take each other's
 * place. */
#include "rpc/rpc.h"

#include "base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

/* As text; false: it means nothing to others. */
static bool is_for_others(const struct sockaddr *sa, char text[INET6_ADDRSTRLEN])
{
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const void *)sa;

        return ntohl(in->sin_addr.s_addr) >> 24 != IN_LOOPBACKNET &&
               in->sin_addr.s_addr != htonl(INADDR_ANY) &&
               inet_ntop(AF_INET, &in->sin_addr, text, INET6_ADDRSTRLEN) != NULL;
    }
    if (sa->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const void *)sa;

        return !IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) &&
               !IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) &&
               !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr) &&
               inet_ntop(AF_INET6, &in6->sin6_addr, text, INET6_ADDRSTRLEN) != NULL;
    }
    return false;
}

/* The address of this host that packets to @to would come from. None is sent. */
static bool source_for(const struct addrinfo *to, char text[INET6_ADDRSTRLEN])
{
    struct sockaddr_storage from;
    socklen_t size = sizeof from;
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool found = fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
                 getsockname(fd, (struct sockaddr *)&from, &size) == 0 &&
                 is_for_others((const struct sockaddr *)&from, text);

    if (fd >= 0) {
        (void)close(fd);
    }
    return found;
}

/* @address "host:port". */
static bool toward(const char *address, int family, char text[INET6_ADDRSTRLEN])
{
    struct mr_address parsed;
    struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_DGRAM};
    struct addrinfo *all = NULL;
    bool found = false;

    if (!mr_address_parse(address, &parsed) ||
        getaddrinfo(parsed.host, parsed.port, &hints, &all) != 0) {
        return false;
    }
    for (const struct addrinfo *ai = all; ai != NULL && !found; ai = ai->ai_next) {
        found = source_for(ai, text);
    }
    freeaddrinfo(all);
    return found;
}

static bool toward_any(const char *list, int family, char text[INET6_ADDRSTRLEN])
{
    char *copy = mr_strdup(list);
    char *rest = NULL;
    bool found = false;

    for (char *at = copy != NULL ? strtok_r(copy, ", ", &rest) : NULL; at != NULL && !found;
         at = strtok_r(NULL, ", ", &rest)) {
        found = toward(at, family, text);
    }
    mr_free(copy);
    return found;
}

static bool of_an_interface(int family, char text[INET6_ADDRSTRLEN])
{
    struct ifaddrs *all = NULL;
    bool found = false;

    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
        found = i->ifa_addr != NULL && (i->ifa_flags & IFF_UP) != 0 &&
                (family == AF_UNSPEC || i->ifa_addr->sa_family == family) &&
                is_for_others(i->ifa_addr, text);
    }
    freeifaddrs(all);
    return found;
}

/* nobody's (RFC 5737): the way there is the way to the rest of the world */
#define ANYWHERE "192.0.2.1:1"

int mr_rpc_advertise(const char *listen, int port, const char *peers, char *out, size_t size,
                     mr_error *err)
{
    const char *colon = strrchr(listen, ':');
    int host = colon != NULL ? (int)(colon - listen) : 0;
    bool v4 = host == 7 && strncmp(listen, "0.0.0.0", 7) == 0;
    bool all = host == 0 || v4 || (host == 4 && strncmp(listen, "[::]", 4) == 0);
    int family = v4 ? AF_INET : AF_UNSPEC;
    char text[INET6_ADDRSTRLEN] = "";
    int n;

    if (!all) {
        n = snprintf(out, size, "%.*s:%d", host, listen, port);
    } else if ((peers != NULL && toward_any(peers, family, text)) ||
               toward(ANYWHERE, AF_INET, text) || of_an_interface(family, text)) {
        n = snprintf(out, size, strchr(text, ':') != NULL ? "[%s]:%d" : "%s:%d", text, port);
    } else {
        return mr_error_set(
            err, MR_EINVAL,
            "listening on '%s': this host has no address that others could use, say which one "
            "(--advertise-address) or listen on 127.0.0.1",
            listen);
    }
    return n >= 0 && (size_t)n < size
               ? MR_OK
               : mr_error_set(err, MR_EINVAL, "the address to advertise is longer than %zu bytes",
                              size - 1);
}

int mr_rpc_check_advertised(const char *address, mr_error *err)
{
    struct mr_address parsed;

    if (!mr_address_parse(address, &parsed)) {
        return mr_error_set(
            err, MR_EINVAL,
            "'%s' is not an address to advertise: host:port is wanted, with a port from 1 to 65535",
            address);
    }
    if (mr_address_is_any(&parsed)) {
        return mr_error_set(err, MR_EINVAL,
                            "'%s' is not an address to advertise: nobody can connect to it. Give "
                            "--advertise-address a host that others reach, or leave it out",
                            address);
    }
    return MR_OK;
}
