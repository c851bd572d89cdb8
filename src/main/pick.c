#include "main/pick.h"

#include "base/base.h"

#include <jansson.h>

static const char *text_of(json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

static bool is_meant(json_t *job, const char *name)
{
    const char *own = text_of(job, "name"), *trainer = text_of(job, "trainer");
    size_t n = strlen(own);

    if (name[0] == '\0') {
        return false;
    }
    if (strcmp(name, own) == 0 || strcmp(name, text_of(job, "id")) == 0) {
        return true;
    }
    return trainer[0] != '\0' && strncmp(name, own, n) == 0 && name[n] == '+' &&
           strcmp(name + n + 1, trainer) == 0;
}

static bool reads(json_t *job, const char *production)
{
    json_t *iteration;
    size_t i;

    json_array_foreach(json_object_get(job, "iterations"), i, iteration)
    {
        if (production[0] != '\0' && strcmp(text_of(iteration, "production"), production) == 0) {
            return true;
        }
    }
    return false;
}

static bool any_reads(json_t *jobs, const char *production)
{
    json_t *job;
    size_t i;

    json_array_foreach(jobs, i, job)
    {
        if (reads(job, production)) {
            return true;
        }
    }
    return false;
}

/* NULL: no memory. */
static json_t *pick(json_t *status, const char *name)
{
    json_t *doc = json_object(), *jobs = json_array(), *productions = json_array();
    json_t *one;
    size_t i;
    int failed = 0;

    json_array_foreach(json_object_get(status, "jobs"), i, one)
    {
        failed |= is_meant(one, name) ? json_array_append(jobs, one) : 0;
    }
    json_array_foreach(json_object_get(status, "productions"), i, one)
    {
        failed |= any_reads(jobs, text_of(one, "id")) ? json_array_append(productions, one) : 0;
    }
    failed |= json_object_set_new(doc, "jobs", jobs);
    failed |= json_object_set_new(doc, "productions", productions);
    if (failed != 0) {
        json_decref(doc);
        return NULL;
    }
    return doc;
}

MR_AUTO_DEFINE(json_t, json_decref)

int pick_job(const char *text, const char *name, char **ret, mr_error *err)
{
    MR_AUTO(json_decref) json_t *status = json_loads(text, 0, NULL);

    if (!json_is_object(status)) {
        return mr_error_set(err, MR_EINVAL, "the status is not a JSON object");
    }
    MR_AUTO(json_decref) json_t *doc = pick(status, name);

    MR_CHECK_ALLOC(doc, err);
    if (json_array_size(json_object_get(doc, "jobs")) == 0) {
        return mr_error_set(err, MR_ENOTFOUND, "there is no job '%s'", MR_SHOWN(name));
    }
    char *out = json_dumps(doc, JSON_COMPACT);

    MR_CHECK_ALLOC(out, err);
    *ret = out;
    return MR_OK;
}
