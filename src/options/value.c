/* One value: from text, with its unit and its bounds. */
#include "base/address.h"
#include "base/base.h"
#include "options/option.h"

#include <stdlib.h>

struct unit {
    const char *name;
    double factor;
};

static const struct unit durations[] = {{"ms", 1},     {"s", 1000},    {"m", 60e3},
                                        {"h", 3600e3}, {"d", 86400e3}, {NULL, 0}};

static const struct unit sizes[] = {{"B", 1},         {"kB", 1e3},         {"MB", 1e6},
                                    {"GB", 1e9},      {"TB", 1e12},        {"KiB", 1024},
                                    {"MiB", 1048576}, {"GiB", 1073741824}, {"TiB", 1099511627776},
                                    {NULL, 0}};

static int parse_with_unit(const struct opt *o, const char *text, const struct unit *units,
                           const char *example, int64_t *ret, mr_error *err)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || !(number >= 0) || number > 1e15) {
        return mr_error_set(err, MR_EINVAL, "--%s '%s': a number and a unit are expected, as in %s",
                            o->name, MR_SHOWN(text), example);
    }
    if (number == 0 && *end == '\0') {
        *ret = 0;
        return MR_OK;
    }
    for (const struct unit *u = units; u->name != NULL; u++) {
        if (strcasecmp(end, u->name) == 0 && number * u->factor <= 9e18) {
            *ret = (int64_t)(number * u->factor);
            return MR_OK;
        }
    }
    return mr_error_set(err, MR_EINVAL, "--%s '%s': %s, as in %s", o->name, MR_SHOWN(text),
                        *end == '\0' ? "the unit is missing" : "no such unit or far too much",
                        example);
}

static int parse_int(const struct opt *o, const char *text, int64_t *ret, mr_error *err)
{
    char *end;
    long long v = strtoll(text, &end, 10);

    if (end == text || *end != '\0') {
        return mr_error_set(err, MR_EINVAL, "--%s '%s': a whole number is expected", o->name,
                            MR_SHOWN(text));
    }
    *ret = v;
    return MR_OK;
}

/* @text: the value as it was given. */
static int check_bounds(const struct opt *o, const char *text, int64_t v, mr_error *err)
{
    if (o->min_text == NULL || (v >= o->min && v <= o->max)) {
        return MR_OK;
    }
    return o->max_text == NULL ? mr_error_set(err, MR_EINVAL, "--%s %s: must be at least %s",
                                              o->name, MR_SHOWN(text), o->min_text)
                               : mr_error_set(err, MR_EINVAL, "--%s %s: must be from %s to %s",
                                              o->name, MR_SHOWN(text), o->min_text, o->max_text);
}

static int set_choice(const struct opt *o, const char *text, const char **ret, mr_error *err)
{
    size_t n = strlen(text);

    for (const char *c = o->choices; *c != '\0';) {
        size_t len = strcspn(c, "|");

        if (len == n && memcmp(c, text, n) == 0) {
            *ret = text;
            return MR_OK;
        }
        c += len + (c[len] == '|' ? 1 : 0);
    }
    return mr_error_set(err, MR_EINVAL, "--%s '%s': must be one of %s", o->name, MR_SHOWN(text),
                        o->choices);
}

/* What a worker makes of it, with any port. */
static bool can_be_advertised(const char *text)
{
    static const char port[] = "%port%";
    const char *at = strstr(text, port);
    char with_port[MR_ADDRESS_BYTES_MAX];
    int n = at == NULL ? snprintf(with_port, sizeof with_port, "%s", text)
                       : snprintf(with_port, sizeof with_port, "%.*s1%s", (int)(at - text), text,
                                  at + strlen(port));

    return n >= 0 && (size_t)n < sizeof with_port && mr_address_is_valid(with_port);
}

static int set_address(const struct opt *o, const char *text, const char **ret, mr_error *err)
{
    struct mr_address address;
    const char *wanted = NULL;

    if (text[0] == '\0') {
        wanted = NULL; /* as if it were not given */
    } else if (o->type == OPT_LISTEN && !mr_address_parse_listen(text, &address)) {
        wanted = "host:port is wanted, with a port from 0 to 65535";
    } else if (o->type == OPT_ADVERTISE && !can_be_advertised(text)) {
        wanted = "host:port is wanted, with a port from 1 to 65535";
    } else if (o->type == OPT_HOST && !mr_address_is_host(text)) {
        wanted =
            "a host name is wanted, of at most 253 letters, digits, '-', '.' and '_', or an IP "
            "address";
    }
    if (wanted != NULL) {
        return mr_error_set(err, MR_EINVAL, "--%s '%s': %s", o->name, MR_SHOWN(text), wanted);
    }
    *ret = text;
    return MR_OK;
}

static int set_flag(const struct opt *o, const char *text, bool *ret, mr_error *err)
{
    bool yes = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;

    if (!yes && strcmp(text, "false") != 0 && strcmp(text, "0") != 0) {
        return mr_error_set(err, MR_EINVAL, "--%s '%s': true or false is expected", o->name,
                            MR_SHOWN(text));
    }
    *ret = yes;
    return MR_OK;
}

int opt_set(const struct opt *o, const char *text, bool in_ms, void *into, mr_error *err)
{
    void *at = (char *)into + o->offset;
    int64_t v = 0;
    int rc = MR_OK;

    switch (o->type) {
    case OPT_STRING: *(const char **)at = text; return MR_OK;
    case OPT_CHOICE: return set_choice(o, text, at, err);
    case OPT_LISTEN:
    case OPT_ADVERTISE:
    case OPT_HOST: return set_address(o, text, at, err);
    case OPT_FLAG: return set_flag(o, text, at, err);
    case OPT_INT: rc = parse_int(o, text, &v, err); break;
    case OPT_DURATION:
        rc = in_ms ? parse_int(o, text, &v, err)
                   : parse_with_unit(o, text, durations, "10s or 250ms", &v, err);
        break;
    case OPT_SIZE: rc = parse_with_unit(o, text, sizes, "64MiB or 1GB", &v, err); break;
    }
    MR_TRY(rc);
    MR_TRY(check_bounds(o, text, v, err));
    *(int64_t *)at = v;
    return MR_OK;
}

/* ---- for libraries ---- */

static bool is_number(const struct opt *o)
{
    return o->type == OPT_INT || o->type == OPT_DURATION || o->type == OPT_SIZE;
}

void opt_fill(const struct opt *o, void *values)
{
    void *at = (char *)values + o->offset;

    if (is_number(o)) {
        *(int64_t *)at = *(int64_t *)at != 0 ? *(int64_t *)at : o->deflt_number;
    } else if (o->type != OPT_FLAG) {
        const char **text = at;

        *text = *text != NULL && (*text)[0] != '\0' ? *text : o->deflt;
    }
}

int opt_check(const struct opt *o, const void *values, mr_error *err)
{
    int64_t v = 0;
    char text[32];

    if (is_number(o)) {
        memcpy(&v, (const char *)values + o->offset, sizeof v);
    }
    (void)snprintf(text, sizeof text, "%lld%s", (long long)v,
                   o->type == OPT_DURATION ? "ms"
                   : o->type == OPT_SIZE   ? "B"
                                           : "");
    return v != 0 ? check_bounds(o, text, v, err) : MR_OK;
}
