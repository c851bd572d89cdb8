/* millrace dataset delete, millrace job delete: what was given a name goes by command. millrace job
 * show: one of them. */
#include "base/error.h"
#include "main/commands.h"
#include "main/options.h"
#include "main/pick.h"
#include "main/run.h"
#include "main/table.h"

#include <millrace/base.h>
#include <millrace/service.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct named_values {
    const char *words[2];
    const char *service;
    bool force;
    bool json;
    int64_t timeout;
};

#define AT(field) offsetof(struct named_values, field)
#define SERVICE                                                                                    \
    {                                                                                              \
        "service", OPT_STRING, AT(service), "LIST", "localhost:5050", 0, 0, NULL,                  \
            "host:port,... of the dispatchers; grpc:// in front is fine", OPT_SHARED               \
    }
#define TIMEOUT                                                                                    \
    {                                                                                              \
        "timeout", OPT_DURATION, AT(timeout), "DURATION", "10s", 1, 3600000, NULL,                 \
            "for the whole call", 0                                                                \
    }

static const struct opt dataset_options[] = {SERVICE, TIMEOUT};

static const struct opt job_options[] = {
    SERVICE,
    {"force", OPT_FLAG, AT(force), "", NULL, 0, 0, NULL,
     "delete: though it has clients: their reading fails", 0},
    {"json", OPT_FLAG, AT(json), "", NULL, 0, 0, NULL, "show: one JSON document", 0},
    TIMEOUT,
};

const struct opt_program *dataset_program(void)
{
    static const struct opt_program program = {
        .name = "dataset",
        .summary = "delete a dataset",
        .examples = "  millrace dataset delete digits     # refused while a job uses it\n",
        .opts = dataset_options,
        .n_opts = sizeof dataset_options / sizeof dataset_options[0],
        .usage = "delete ID",
        .args_offset = AT(words),
        .n_args = 2,
    };

    return &program;
}

const struct opt_program *job_program(void)
{
    static const struct opt_program program = {
        .name = "job",
        .summary = "show a job: iterations, tasks, productions; or delete it, with all it knows of "
                   "what was read",
        .examples = "  millrace job show train              # or an id; all trainers of that name\n"
                    "  millrace job show train+t1           # one of them\n"
                    "  millrace job delete train            # refused while it has clients\n"
                    "  millrace job delete train --force    # their reading fails\n",
        .opts = job_options,
        .n_opts = sizeof job_options / sizeof job_options[0],
        .usage = "show|delete NAME",
        .args_offset = AT(words),
        .n_args = 2,
    };

    return &program;
}

static bool is_show(const struct named_values *v)
{
    return v->words[0] != NULL && strcmp(v->words[0], "show") == 0;
}

static int check_words(const struct opt_program *program, bool job, const struct named_values *v,
                       mr_error *err)
{
    if (!(job && is_show(v)) && (v->words[0] == NULL || strcmp(v->words[0], "delete") != 0)) {
        return mr_error_set(err, MR_EINVAL, "%s what? there is: %s", program->name, program->usage);
    }
    if (v->words[1] == NULL || v->words[1][0] == '\0') {
        return mr_error_set(err, MR_EINVAL, "%s which %s? see: millrace help %s", v->words[0],
                            program->name, program->name);
    }
    return MR_OK;
}

static int show_job(const struct named_values *v, mr_error *err)
{
    char *status = NULL, *json = NULL;
    int rc = mr_service_status(v->service, (int)v->timeout, &status, err);

    if (rc == MR_OK) {
        rc = pick_job(status, v->words[1], &json, err);
    }
    if (rc == MR_OK) {
        rc = table_print(json, v->json, err);
    }
    free(json);
    mr_free(status);
    return rc;
}

static int run(const struct opt_program *program, bool job, int argc, char **argv)
{
    struct named_values v = {0};
    mr_error err = {0};
    int rc = opt_parse(program, argc, argv, &v, &err);

    if (rc == OPT_DONE) {
        return 0;
    }
    if (rc == OPT_RUN) {
        rc = check_words(program, job, &v, &err);
    }
    if (rc >= 0 && is_show(&v)) {
        rc = show_job(&v, &err);
    } else if (rc >= 0 && job) {
        rc = mr_service_delete_job(v.service, v.words[1], v.force, (int)v.timeout, &err);
    } else if (rc >= 0) {
        rc = mr_service_delete_dataset(v.service, v.words[1], (int)v.timeout, &err);
    }
    return rc < 0 ? run_fail(program->name, NULL, &err) : 0;
}

int command_dataset(int argc, char **argv)
{
    return run(dataset_program(), false, argc, argv);
}

int command_job(int argc, char **argv)
{
    return run(job_program(), true, argc, argv);
}
