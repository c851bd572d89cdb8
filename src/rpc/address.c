/* What an address looks like. gRPC itself takes 99999 for 34463 and a word for a service's name. */
#include "rpc/rpc.h"

#include <stdlib.h>
#include <string.h>

bool mr_rpc_is_address(const char *address, bool to_listen)
{
    const char *colon = strrchr(address, ':');
    char *end = NULL;

    if (colon == NULL || colon[1] < '0' || colon[1] > '9') {
        return false;
    }
    if (colon == address && !to_listen) {
        return false;
    }
    /* More than one colon: an IPv6 address, which must be in brackets. */
    if (memchr(address, ':', (size_t)(colon - address)) != NULL && !(address[0] == '[' && colon[-1] == ']')) {
        return false;
    }
    if (strpbrk(address, " \t\r\n/") != NULL) {
        return false;
    }
    unsigned long port = strtoul(colon + 1, &end, 10);
    return *end == '\0' && port <= UINT16_MAX && (port > 0 || to_listen);
}
