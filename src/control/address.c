/* Reading lists of dispatcher addresses. */
#include "base/error.h"
#include "control/internal.h"

#include <stdlib.h>
#include <string.h>

/* host:port with a port of 1..65535; IPv6 hosts in brackets. */
static int check_address(const char *address, mr_error *err)
{
    const char *colon = strrchr(address, ':');
    char *end = NULL;

    if (colon == NULL || colon == address || colon[1] == '\0') {
        return mr_error_set(err, MR_EINVAL, "dispatcher address '%s': give host:port", address);
    }
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (*end != '\0' || port == 0 || port > 65535 || strpbrk(address, " \t/") != NULL) {
        return mr_error_set(err, MR_EINVAL, "dispatcher address '%s': give host:port with a port from 1 to 65535", address);
    }
    return MR_OK;
}

int control_parse_service(const char *service, char addresses[CONTROL_PEERS_MAX][CONTROL_ADDRESS_MAX], size_t *n,
                          mr_error *err)
{
    const char *scheme = strstr(service, "://");
    const char *p = service;
    size_t count = 0;

    if (scheme != NULL) {
        if (strncmp(service, "grpc://", 7) != 0) {
            return mr_error_set(err, MR_ENOTFOUND, "service '%s': protocol '%.*s' has no credentials here, use grpc://",
                                service, (int)(scheme - service), service);
        }
        p = scheme + 3;
    }
    while (*p != '\0') {
        size_t len = strcspn(p, ",");

        if (len == 0 || len >= CONTROL_ADDRESS_MAX) {
            return mr_error_set(err, MR_EINVAL, "service '%s': address %zu is empty or too long", service, count + 1);
        }
        if (count == CONTROL_PEERS_MAX / 2) {
            return mr_error_set(err, MR_EINVAL, "service '%.80s...': more than %d addresses", service, CONTROL_PEERS_MAX / 2);
        }
        memcpy(addresses[count], p, len);
        addresses[count][len] = '\0';
        int rc = check_address(addresses[count], err);
        if (rc < 0) {
            return rc;
        }
        count++;
        p += len;
        if (*p == ',') {
            p++;
        }
    }
    if (count == 0) {
        return mr_error_set(err, MR_EINVAL, "service '%s': no address, give grpc://host:port[,host:port...]", service);
    }
    *n = count;
    return MR_OK;
}
