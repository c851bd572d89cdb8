#include "main/doc.h"

#include <stdlib.h>

int doc_parse(const char *text, json_t **ret, mr_error *err)
{
    json_t *doc = json_loads(text, 0, NULL);

    if (!json_is_object(doc)) {
        json_decref(doc);
        return mr_error_set(err, MR_EINVAL, "the status is not a JSON object");
    }
    *ret = doc;
    return MR_OK;
}

const char *doc_text(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

int64_t doc_number(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);

    return json_is_string(v) ? strtoll(json_string_value(v), NULL, 10)
                             : (int64_t)json_integer_value(v);
}

bool doc_flag(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

json_t *doc_at(const json_t *object, const char *key)
{
    json_t *v = json_object_get(object, key);

    return json_is_array(v) || json_is_object(v) ? v : NULL;
}

const char *doc_job_label(const json_t *job, char *buf, size_t size)
{
    const char *name = doc_text(job, "name"), *trainer = doc_text(job, "trainer");

    if (name[0] == '\0') {
        return doc_text(job, "id");
    }
    if (trainer[0] == '\0') {
        return name;
    }
    (void)snprintf(buf, size, "%s+%s", name, trainer);
    return buf;
}
