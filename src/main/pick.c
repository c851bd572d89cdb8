#include "main/pick.h"

#include "main/doc.h"
#include "options/option.h"

#define NAMES_MAX 1024 /* that are compared with one that there is not */
#define NAME_BYTES 256

const char *pick_name(const json_t *one, char *buf, size_t size)
{
    const char *address = doc_text(one, "address");

    return address[0] != '\0' ? address : doc_job_label(one, buf, size);
}

void pick_hint(const json_t *status, const char *what, const char *name, char *out, size_t size)
{
    const char *names[NAMES_MAX];
    char *copies = malloc((size_t)NAMES_MAX * NAME_BYTES);
    json_t *one;
    size_t i, n = 0;

    out[0] = '\0';
    json_array_foreach(doc_at(status, what), i, one)
    {
        if (copies != NULL && n < NAMES_MAX) {
            names[n] = pick_name(one, copies + n * NAME_BYTES, NAME_BYTES);
            n++;
        }
    }
    const char *nearest = opt_nearest(name, names, n);

    if (nearest != NULL) {
        (void)snprintf(out, size, "; did you mean '%s'?", MR_SHOWN(nearest));
    }
    free(copies);
}

/* ---- which ones are meant ---- */

static bool is_job(const json_t *job, const char *name)
{
    const char *own = doc_text(job, "name"), *trainer = doc_text(job, "trainer");
    size_t n = strlen(own);

    if (strcmp(name, own) == 0 || strcmp(name, doc_text(job, "id")) == 0) {
        return true;
    }
    return trainer[0] != '\0' && strncmp(name, own, n) == 0 && name[n] == '+' &&
           strcmp(name + n + 1, trainer) == 0;
}

static bool is_worker(const json_t *worker, const char *name)
{
    return strcmp(name, doc_text(worker, "address")) == 0 ||
           strcmp(name, doc_text(worker, "worker")) == 0;
}

static bool is_dataset(const json_t *dataset, const char *name)
{
    return strcmp(name, doc_text(dataset, "id")) == 0;
}

static bool uses_dataset(const json_t *job, const char *id)
{
    return strcmp(id, doc_text(job, "datasetId")) == 0;
}

static bool any_reads(const json_t *jobs, const char *production)
{
    json_t *job, *iteration;
    size_t i, j;

    json_array_foreach(jobs, i, job)
    {
        json_array_foreach(doc_at(job, "iterations"), j, iteration)
        {
            if (strcmp(doc_text(iteration, "production"), production) == 0) {
                return true;
            }
        }
    }
    return false;
}

static bool has_task_at(const json_t *tasks, const char *address)
{
    json_t *task;
    size_t i;

    json_array_foreach(tasks, i, task)
    {
        if (strcmp(doc_text(task, "workerAddress"), address) == 0) {
            return true;
        }
    }
    return false;
}

static bool production_is_at(const json_t *production, const char *address)
{
    return has_task_at(doc_at(production, "tasks"), address);
}

static bool job_is_at(const json_t *job, const char *address)
{
    json_t *iteration;
    size_t i;

    json_array_foreach(doc_at(job, "iterations"), i, iteration)
    {
        if (production_is_at(iteration, address)) {
            return true;
        }
    }
    return false;
}

/* ---- what is left of a document ---- */

/* The ones under @key that @is says, as a list in @doc. */
static int keep(const json_t *status, const char *key, bool (*is)(const json_t *, const char *),
                const char *name, json_t *doc, mr_error *err)
{
    json_t *list = json_array(), *one;
    bool failed = false;
    size_t i;

    json_array_foreach(doc_at(status, key), i, one)
    {
        failed |= name[0] != '\0' && is(one, name) && json_array_append(list, one) != 0;
    }
    failed |= json_object_set_new(doc, key, list) != 0;
    return failed ? mr_error_nomem(err) : MR_OK;
}

/* A document of the same moment, with those of @key that are meant, and at least one of them. */
static int begin(const json_t *status, const char *key, const char *what,
                 bool (*is)(const json_t *, const char *), const char *name, json_t **ret,
                 mr_error *err)
{
    MR_AUTO(json_decref) json_t *doc = json_object();
    json_t *wall_ms = json_object_get(status, "wallMs");

    MR_CHECK_ALLOC(doc, err);
    if (wall_ms != NULL && json_object_set(doc, "wallMs", wall_ms) != 0) {
        return mr_error_nomem(err);
    }
    MR_TRY(keep(status, key, is, name, doc, err));
    if (json_array_size(doc_at(doc, key)) == 0) {
        char hint[128];

        pick_hint(status, key, name, hint, sizeof hint);
        return mr_error_set(err, MR_ENOTFOUND, "there is no %s '%s'%s", what, MR_SHOWN(name), hint);
    }
    *ret = MR_TAKE(doc);
    return MR_OK;
}

static int keep_productions(const json_t *status, json_t *doc, mr_error *err)
{
    json_t *list = json_array(), *one;
    bool failed = false;
    size_t i;

    json_array_foreach(doc_at(status, "productions"), i, one)
    {
        failed |= any_reads(doc_at(doc, "jobs"), doc_text(one, "id")) &&
                  json_array_append(list, one) != 0;
    }
    failed |= json_object_set_new(doc, "productions", list) != 0;
    return failed ? mr_error_nomem(err) : MR_OK;
}

int pick_job(json_t *status, const char *name, json_t **ret, mr_error *err)
{
    MR_AUTO(json_decref) json_t *doc = NULL;

    MR_TRY(begin(status, "jobs", "job", is_job, name, &doc, err));
    MR_TRY(keep_productions(status, doc, err));
    *ret = MR_TAKE(doc);
    return MR_OK;
}

int pick_worker(json_t *status, const char *name, json_t **ret, mr_error *err)
{
    MR_AUTO(json_decref) json_t *doc = NULL;

    MR_TRY(begin(status, "workers", "worker", is_worker, name, &doc, err));
    const char *address = doc_text(json_array_get(doc_at(doc, "workers"), 0), "address");

    MR_TRY(keep(status, "jobs", job_is_at, address, doc, err));
    MR_TRY(keep(status, "productions", production_is_at, address, doc, err));
    *ret = MR_TAKE(doc);
    return MR_OK;
}

int pick_dataset(json_t *status, const char *name, json_t **ret, mr_error *err)
{
    MR_AUTO(json_decref) json_t *doc = NULL;

    MR_TRY(begin(status, "datasets", "dataset", is_dataset, name, &doc, err));
    MR_TRY(keep(status, "jobs", uses_dataset, name, doc, err));
    *ret = MR_TAKE(doc);
    return MR_OK;
}
