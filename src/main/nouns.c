/* millrace status, and what there is of datasets, jobs, workers and dispatchers: lists and single
 * ones as tables for people or as JSON for programs; and their deletion. */
#include "main/access.h"
#include "main/commands.h"
#include "main/doc.h"
#include "main/output.h"
#include "main/pick.h"
#include "main/view.h"
#include "main/why.h"
#include "options/programs.h"

#include <millrace/service.h>

static int get_status(const struct mr_service_access *access, const char *service,
                      int64_t timeout_ms, char **text, json_t **doc, mr_error *err)
{
    MR_TRY(access_use(access, err));
    MR_TRY(mr_service_status(service, (int)timeout_ms, text, err));
    MR_TRY(doc_parse(*text, doc, err));
    int64_t silent_ms = doc_number(*doc, "storeSilentMs");

    if (silent_ms > 0) { /* The document says so, too, but among other things. */
        (void)fprintf(stderr,
                      "millrace: etcd has not answered for %lld s. This is what the leader "
                      "remembers; the newest of it may not be stored\n",
                      (long long)silent_ms / 1000);
    }
    return MR_OK;
}

static int print_json(const json_t *doc, mr_error *err)
{
    char *text = json_dumps(doc, JSON_COMPACT | JSON_ENCODE_ANY);

    MR_CHECK_ALLOC(text, err);
    (void)puts(text);
    free(text);
    return output_end(err);
}

static int print_view(void (*view)(const json_t *, struct mr_buf *), const json_t *doc,
                      mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *out = &text;

    view(doc, out);
    return output_print(out, err);
}

int command_status(void *values, mr_error *err)
{
    const struct status_values *v = values;
    MR_AUTO(mr_free) char *text = NULL;
    MR_AUTO(json_decref) json_t *status = NULL;

    MR_TRY(get_status(&v->access, v->service, v->timeout, &text, &status, err));
    if (v->json) {
        (void)puts(text);
        return output_end(err);
    }
    return print_view(view_status, status, err);
}

/* ---- list ---- */

/* Their names alone. A name is no longer than its line. */
static int print_names(const json_t *list, mr_error *err)
{
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *out = &text;
    char buf[256];
    json_t *one;
    size_t i;

    mr_buf_append(out, "", 0);
    json_array_foreach(list, i, one)
    {
        const char *name =
            json_is_string(one) ? json_string_value(one) : pick_name(one, buf, sizeof buf);

        output_safe(out, name, strlen(name));
        mr_buf_puts(out, "\n");
    }
    return output_print(out, err);
}

static int list(const struct list_values *v, const char *what,
                void (*view)(const json_t *, struct mr_buf *), mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;
    MR_AUTO(json_decref) json_t *status = NULL;
    MR_AUTO(json_decref) json_t *none = json_array();

    MR_CHECK_ALLOC(none, err);
    MR_TRY(get_status(&v->access, v->service, v->timeout, &text, &status, err));
    const json_t *rows = doc_at(status, what) != NULL ? doc_at(status, what) : none;

    return v->json    ? print_json(rows, err)
           : v->names ? print_names(rows, err)
                      : print_view(view, status, err);
}

int command_dataset_list(void *values, mr_error *err)
{
    return list(values, "datasets", view_datasets, err);
}

int command_job_list(void *values, mr_error *err)
{
    return list(values, "jobs", view_jobs, err);
}

int command_worker_list(void *values, mr_error *err)
{
    return list(values, "workers", view_workers, err);
}

int command_dispatcher_list(void *values, mr_error *err)
{
    return list(values, "dispatchers", view_dispatchers, err);
}

/* ---- show ---- */

static int show(const struct show_values *v,
                int (*pick)(json_t *, const char *, json_t **, mr_error *),
                void (*view)(const json_t *, struct mr_buf *), mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;
    MR_AUTO(json_decref) json_t *status = NULL;
    MR_AUTO(json_decref) json_t *picked = NULL;

    MR_TRY(get_status(&v->access, v->service, v->timeout, &text, &status, err));
    MR_TRY(pick(status, v->words[0], &picked, err));
    return v->json ? print_json(picked, err) : print_view(view, picked, err);
}

int command_dataset_show(void *values, mr_error *err)
{
    return show(values, pick_dataset, view_dataset, err);
}

int command_job_show(void *values, mr_error *err)
{
    return show(values, pick_job, view_job, err);
}

int command_job_why(void *values, mr_error *err)
{
    return show(values, pick_job, why_render, err);
}

int command_worker_show(void *values, mr_error *err)
{
    return show(values, pick_worker, view_worker, err);
}

/* ---- delete ---- */

/* There is no such one, says @err: which one was meant? Without an answer it stays as it is. */
static void add_hint(const char *service, int64_t timeout_ms, const char *what, const char *name,
                     mr_error *err)
{
    MR_AUTO(mr_free) char *text = NULL;
    MR_AUTO(json_decref) json_t *status = NULL;
    mr_error ignored;
    char hint[128];

    if (err->code != MR_ENOTFOUND ||
        mr_service_status(service, (int)timeout_ms, &text, &ignored) < 0 ||
        doc_parse(text, &status, &ignored) < 0) {
        return;
    }
    size_t len = strlen(err->message);

    pick_hint(status, what, name, hint, sizeof hint);
    (void)snprintf(err->message + len, sizeof err->message - len, "%s", hint);
}

int command_dataset_delete(void *values, mr_error *err)
{
    const struct delete_values *v = values;

    MR_TRY(access_use(&v->access, err));
    int rc = mr_service_delete_dataset(v->service, v->words[0], (int)v->timeout, err);

    if (rc < 0) {
        add_hint(v->service, v->timeout, "datasets", v->words[0], err);
    }
    return rc;
}

int command_job_delete(void *values, mr_error *err)
{
    const struct job_delete_values *v = values;

    MR_TRY(access_use(&v->access, err));
    int rc = mr_service_delete_job(v->service, v->words[0], v->force, (int)v->timeout, err);

    if (rc < 0) {
        add_hint(v->service, v->timeout, "jobs", v->words[0], err);
    }
    return rc;
}
