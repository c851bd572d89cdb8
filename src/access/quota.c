#include "access/quota.h"

#include "base/base.h"
#include "base/fair.h"
#include "options/option.h"

#include <stddef.h>

#define COUNT_MAX 1000000

static const struct {
    const char *name;
    uint32_t max;
    size_t offset;
} limits[] = {
    {"jobs", COUNT_MAX, offsetof(struct mr_quota, jobs)},
    {"datasets", COUNT_MAX, offsetof(struct mr_quota, datasets)},
    {"weight", MR_FAIR_WEIGHT_MAX, offsetof(struct mr_quota, weight)},
};
#define LIMITS (sizeof limits / sizeof limits[0])

static int unknown(const char *key, mr_error *err)
{
    const char *names[LIMITS];

    for (size_t i = 0; i < LIMITS; i++) {
        names[i] = limits[i].name;
    }
    const char *nearest = opt_nearest(key, names, LIMITS);
    return mr_error_set(err, MR_EINVAL, "'quota' has no '%s'%s%s%s", MR_SHOWN(key),
                        nearest != NULL ? "; did you mean '" : "", nearest != NULL ? nearest : "",
                        nearest != NULL ? "'?" : "");
}

static int parse_limit(const char *key, const json_t *value, struct mr_quota *ret, mr_error *err)
{
    size_t at = 0;

    while (at < LIMITS && strcmp(limits[at].name, key) != 0) {
        at++;
    }
    if (at == LIMITS) {
        return unknown(key, err);
    }
    json_int_t n = json_integer_value(value); /* 0 of what is no integer */
    if (n < 1 || n > limits[at].max) {
        return mr_error_set(err, MR_EINVAL, "'%s' of 'quota' has to be a number from 1 to %u", key,
                            limits[at].max);
    }
    *(uint32_t *)((char *)ret + limits[at].offset) = (uint32_t)n;
    return MR_OK;
}

int mr_quota_parse(const json_t *o, struct mr_quota *ret, mr_error *err)
{
    const char *key;
    json_t *value;

    *ret = (struct mr_quota){0};
    if (!json_is_object(o)) {
        return mr_error_set(err, MR_EINVAL,
                            "'quota' has to be an object, as {\"jobs\": 20, \"weight\": 200}");
    }
    json_object_foreach((json_t *)(uintptr_t)o, key, value)
    {
        MR_TRY(parse_limit(key, value, ret, err));
    }
    return MR_OK;
}
