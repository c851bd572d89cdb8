/* millrace dataset delete, millrace job delete: what was given a name goes by command. */
#include "base/error.h"
#include "main/commands.h"
#include "main/options.h"
#include "main/run.h"

#include <millrace/service.h>
#include <stddef.h>
#include <string.h>

struct delete_values {
    const char *words[2];
    const char *service;
    bool force;
    int64_t timeout;
};

#define AT(field) offsetof(struct delete_values, field)
#define SERVICE                                                                                                        \
    {                                                                                                                  \
        "service", OPT_STRING, AT(service), "LIST", "localhost:5050", 0, 0, NULL,                                      \
            "host:port,... of the dispatchers; grpc:// in front is fine", OPT_SHARED                                   \
    }
#define TIMEOUT                                                                                                        \
    {                                                                                                                  \
        "timeout", OPT_DURATION, AT(timeout), "DURATION", "10s", 1, 3600000, NULL, "for the whole call", 0             \
    }

static const struct opt dataset_options[] = {SERVICE, TIMEOUT};

static const struct opt job_options[] = {
    SERVICE,
    {"force", OPT_FLAG, AT(force), "", NULL, 0, 0, NULL, "though it has clients: their reading fails", 0},
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
        .summary = "delete a job, with all it knows of what was read",
        .examples = "  millrace job delete train            # refused while it has clients\n"
                    "  millrace job delete train --force    # their reading fails\n",
        .opts = job_options,
        .n_opts = sizeof job_options / sizeof job_options[0],
        .usage = "delete NAME",
        .args_offset = AT(words),
        .n_args = 2,
    };

    return &program;
}

static int check_words(const struct opt_program *program, const struct delete_values *v, mr_error *err)
{
    if (v->words[0] == NULL || strcmp(v->words[0], "delete") != 0) {
        return mr_error_set(err, MR_EINVAL, "%s what? there is: %s", program->name, program->usage);
    }
    if (v->words[1] == NULL || v->words[1][0] == '\0') {
        return mr_error_set(err, MR_EINVAL, "delete which %s? see: millrace help %s", program->name, program->name);
    }
    return MR_OK;
}

static int run(const struct opt_program *program, bool job, int argc, char **argv)
{
    struct delete_values v = {0};
    mr_error err = {0};
    int rc = opt_parse(program, argc, argv, &v, &err);

    if (rc == OPT_DONE) {
        return 0;
    }
    if (rc == OPT_RUN) {
        rc = check_words(program, &v, &err);
    }
    if (rc >= 0 && job) {
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
