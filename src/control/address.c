/* Service strings: "grpc://host:port,host:port", scheme optional. */
#include "base/address.h"
#include "control/internal.h"

static const char *skip_scheme(const char *s, size_t *n)
{
    static const char scheme[] = "grpc://";
    size_t len = sizeof scheme - 1;

    if (*n >= len && memcmp(s, scheme, len) == 0) {
        *n -= len;
        return s + len;
    }
    return s;
}

static int parse_one(const char *s, size_t n, char **ret, mr_error *err)
{
    while (n > 0 && (*s == ' ' || *s == '\t')) {
        s++;
        n--;
    }
    while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t' || s[n - 1] == '/')) {
        n--;
    }
    s = skip_scheme(s, &n);
    if (n > MR_ADDRESS_BYTES_MAX) {
        return mr_error_set(err, MR_EINVAL, "an address of %zu bytes (limit %d)", n,
                            MR_ADDRESS_BYTES_MAX);
    }
    char *address = mr_strndup(s, n);
    MR_CHECK_ALLOC(address, err);
    if (!mr_address_is_valid(address)) {
        int rc = mr_error_set(err, MR_EINVAL, "'%s' is not an address: host:port is wanted",
                              MR_SHOWN(address));

        mr_free(address);
        return rc;
    }
    *ret = address;
    return MR_OK;
}

void mr_addresses_free(char **list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        mr_free(list[i]);
    }
    mr_free(list);
}

int mr_addresses_parse(const char *service, char ***ret, size_t *n, mr_error *err)
{
    char **list = mr_calloc(MEMBERS_MAX, sizeof *list);
    const char *s = service;
    size_t count = 0;
    int rc = MR_OK;

    MR_CHECK_ALLOC(list, err);
    for (;;) {
        size_t len = strcspn(s, ",");

        if (count == MEMBERS_MAX) {
            rc = mr_error_set(err, MR_EINVAL, "more than %d addresses", MEMBERS_MAX);
            break;
        }
        rc = parse_one(s, len, &list[count], err);
        if (rc < 0) {
            break;
        }
        count++;
        if (s[len] == '\0') {
            break;
        }
        s += len + 1;
    }
    if (rc < 0) {
        mr_error_wrap(err, "service '%s'", MR_SHOWN(service));
        mr_addresses_free(list, count);
        return rc;
    }
    *ret = list;
    *n = count;
    return MR_OK;
}
