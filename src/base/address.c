#include "base/address.h"

#include "base/base.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 64

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define WORD LETTERS DIGITS "-_."

/* "fe80::1", or with the interface that it is behind: "fe80::1%eth0". */
static bool is_ipv6(const char *host)
{
    struct in6_addr address;
    char text[INET6_ADDRSTRLEN];
    size_t n = strcspn(host, "%");
    const char *zone = host[n] == '%' ? host + n + 1 : NULL;

    if (n >= sizeof text ||
        (zone != NULL && (zone[0] == '\0' || zone[strspn(zone, WORD)] != '\0'))) {
        return false;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)n, host);
    return inet_pton(AF_INET6, text, &address) == 1;
}

static bool is_word(const char *host)
{
    return strlen(host) <= MR_HOST_BYTES_MAX && host[strspn(host, WORD)] == '\0';
}

static bool parse(const char *text, bool to_listen, struct mr_address *ret)
{
    const char *colon = strrchr(text, ':');
    size_t n = colon != NULL ? (size_t)(colon - text) : 0;
    size_t digits = colon != NULL ? strspn(colon + 1, DIGITS) : 0;

    if (digits == 0 || digits >= sizeof ret->port || colon[1 + digits] != '\0' ||
        strlen(text) > MR_ADDRESS_BYTES_MAX) {
        return false;
    }
    unsigned long port = strtoul(colon + 1, NULL, 10);
    bool brackets = n > 2 && text[0] == '[' && text[n - 1] == ']';

    if (port > UINT16_MAX || ((port == 0 || n == 0) && !to_listen)) {
        return false;
    }
    (void)snprintf(ret->port, sizeof ret->port, "%s", colon + 1);
    (void)snprintf(ret->host, sizeof ret->host, "%.*s", (int)(brackets ? n - 2 : n),
                   text + (brackets ? 1 : 0));
    return brackets ? is_ipv6(ret->host) : is_word(ret->host);
}

bool mr_address_parse(const char *text, struct mr_address *ret)
{
    return parse(text, false, ret);
}

bool mr_address_parse_listen(const char *text, struct mr_address *ret)
{
    return parse(text, true, ret);
}

bool mr_address_is_valid(const char *text)
{
    struct mr_address address;

    return parse(text, false, &address);
}

bool mr_address_is_host(const char *host)
{
    return host[0] != '\0' && (is_word(host) || (strchr(host, '%') == NULL && is_ipv6(host)));
}

bool mr_address_is_loopback(const struct mr_address *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (strcmp(address->host, "localhost") == 0) {
        return true;
    }
    if (inet_pton(AF_INET, address->host, &v4) == 1) {
        return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return inet_pton(AF_INET6, address->host, &v6) == 1 &&
           (IN6_IS_ADDR_LOOPBACK(&v6) ||
            (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == IN_LOOPBACKNET));
}

bool mr_address_is_any(const struct mr_address *address)
{
    struct in_addr v4;
    struct in6_addr v6;

    /* inet_aton() takes what others take who connect: "0", too. */
    if (address->host[0] == '\0' || inet_aton(address->host, &v4) != 0) {
        return address->host[0] == '\0' || v4.s_addr == htonl(INADDR_ANY);
    }
    return inet_pton(AF_INET6, address->host, &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

static int bind_one(const struct addrinfo *ai, int *ret)
{
    int fd = socket(ai->ai_family, ai->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, ai->ai_protocol);
    int on = 1;
    int saved;

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, ai->ai_addr, ai->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0) {
        *ret = fd;
        return 0;
    }
    saved = errno;
    if (fd >= 0) {
        (void)close(fd);
    }
    return saved;
}

int mr_address_listen(const struct mr_address *address, int *ret, mr_error *err)
{
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *list = NULL;
    const char *host = address->host[0] != '\0' ? address->host : NULL;
    int found = getaddrinfo(host, address->port, &hints, &list);
    int why = EADDRNOTAVAIL;

    if (found != 0) {
        return mr_error_set(err, MR_EUNAVAIL, "%s", gai_strerror(found));
    }
    for (const struct addrinfo *ai = list; ai != NULL && why != 0; ai = ai->ai_next) {
        why = bind_one(ai, ret);
    }
    freeaddrinfo(list);
    return why == 0 ? MR_OK : mr_error_set(err, MR_EUNAVAIL, "%s", strerror(why));
}
