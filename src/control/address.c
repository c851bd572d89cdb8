/* Service strings: "grpc://host:port,host:port", scheme optional; "grpcs://" with TLS. */
#include "base/address.h"
#include "control/internal.h"

static int parse_one(const char *s, size_t n, char **ret, bool *tls, mr_error *err)
{
    static const char *const schemes[] = {"grpc://", "grpcs://"};
    size_t skip = strspn(s, " \t"); /* no more than @n: what follows is a comma, or the end */

    while (n > skip && strchr(" \t/", s[n - 1]) != NULL) {
        n--;
    }
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(schemes[i]);

        if (n - skip >= len && memcmp(s + skip, schemes[i], len) == 0) {
            skip += len;
            *tls = *tls || i == 1;
            break;
        }
    }
    n -= skip;
    if (n > MR_ADDRESS_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "an address of %zu bytes (limit %d)", n,
                            MR_ADDRESS_BYTES_MAX);
    }
    MR_AUTO(mr_free) char *address = mr_strndup(s + skip, n);
    MR_CHECK_ALLOC(address, err);
    if (!mr_address_is_valid(address)) {
        return mr_error_set(
            err, MR_EINVAL,
            "'%s' is not an address: host:port is wanted, with a port from 1 to 65535",
            MR_SHOWN(address));
    }
    *ret = MR_TAKE(address);
    return MR_OK;
}

void mr_addresses_free(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_free(list[i]);
    }
    mr_free(list);
}

static int parse_all(const char *s, char **list, size_t *n, bool *tls, mr_error *err)
{
    for (;; s++) {
        size_t len = strcspn(s, ",");

        if (*n == MEMBERS_MAX) {
            return mr_error_set(err, MR_EINVAL, "more than %d addresses", MEMBERS_MAX);
        }
        MR_TRY(parse_one(s, len, &list[*n], tls, err));
        ++*n;
        s += len;
        if (*s == '\0') {
            return MR_OK;
        }
    }
}

int mr_addresses_parse(const char *service, char ***ret, size_t *n, bool *tls, mr_error *err)
{
    char **list = mr_calloc(MEMBERS_MAX, sizeof *list);
    size_t count = 0;

    MR_CHECK_ALLOC(list, err);
    *tls = false;
    int rc = parse_all(service, list, &count, tls, err);
    if (rc < 0) {
        mr_error_wrap(err, "service '%s'", MR_SHOWN(service));
        mr_addresses_free(list, count);
        return rc;
    }
    *ret = list;
    *n = count;
    return MR_OK;
}

int mr_control_check_service(const char *service, mr_error *err)
{
    char **list;
    size_t n;
    bool tls;

    MR_TRY(mr_addresses_parse(service, &list, &n, &tls, err));
    mr_addresses_free(list, n);
    return MR_OK;
}
