#include "options/programs.h"

#define COUNT(table) (sizeof(table) / sizeof(table)[0])
#define ROW(path, type_, name_, ...)                                                               \
    {.name = (name_), .type = OPT_##type_, .offset = offsetof(VALUES, path), __VA_ARGS__},

#define OPTION(field, ...) ROW(lib.field, __VA_ARGS__)
#define MAIN(field, ...) ROW(field, __VA_ARGS__)
#define RUN(field, ...) ROW(run.field, __VA_ARGS__)

#define ETCD(field, ...) ROW(lib.etcd.field, __VA_ARGS__)
#define ACCESS(field, ...) ROW(lib.access.field, __VA_ARGS__)
#define VALUES struct dispatcher_values
static const struct opt dispatcher_options[] = {
#include "options/dispatcher.def"
};
#undef VALUES
#undef ETCD

#define VALUES struct worker_values
static const struct opt worker_options[] = {
#include "options/worker.def"
};
#undef VALUES

#undef OPTION
#undef MAIN
#undef ACCESS
#define OPTION(field, ...) ROW(field, __VA_ARGS__)
#define ETCD(field, ...) ROW(etcd.field, __VA_ARGS__)
#define ACCESS(field, ...) ROW(access.field, __VA_ARGS__)

#define VALUES struct dev_values
static const struct opt dev_options[] = {
#include "options/dev.def"
};
#undef VALUES

#define VALUES struct status_values
static const struct opt status_options[] = {
#include "options/status.def"
};
#undef VALUES

#define VALUES struct dataset_values
static const struct opt dataset_options[] = {
#include "options/dataset.def"
};
#undef VALUES

#define VALUES struct job_values
static const struct opt job_options[] = {
#include "options/job.def"
};
#undef VALUES

#define VALUES struct state_values
static const struct opt state_options[] = {
#include "options/state.def"
};
#undef VALUES

#define VALUES struct certs_values
static const struct opt certs_options[] = {
#include "options/certs.def"
};
#undef VALUES

#define VALUES struct token_values
static const struct opt token_options[] = {
#include "options/token.def"
};
#undef VALUES

#define OPTIONS(table) .opts = (table), .n_opts = COUNT(table)

const struct opt_program mr_program_dispatcher = {
    .name = "dispatcher",
    .summary = "one replica of the control plane",
    .examples =
        "  millrace dispatcher                                # with an etcd of its own, on "
        "127.0.0.1:5050\n"
        "  millrace dispatcher --work-dir /var/lib/millrace   # the same, and a restart recovers\n"
        "  millrace dispatcher --listen 0.0.0.0:5050 --advertise-address $(hostname):5050 \\\n"
        "      --etcd-endpoints etcd-0:2379,etcd-1:2379,etcd-2:2379 --access-file access.json \\\n"
        "      --tls-ca ca.pem --tls-cert d.pem --tls-key d.key       # one of several replicas\n"
        "  millrace dispatcher --etcd-endpoints https://etcd:2379 --etcd-ca ca.pem --etcd-user "
        "millrace \\\n"
        "      --etcd-password-file /run/secrets/etcd             # see docs/run/etcd.md\n",
    OPTIONS(dispatcher_options),
};

const struct opt_program mr_program_worker = {
    .name = "worker",
    .summary = "executes datasets and serves their elements",
    .examples =
        "  millrace worker --dispatcher localhost:5050\n"
        "  millrace worker --dispatcher a:5050,b:5050,c:5050 --listen 0.0.0.0:0 \\\n"
        "      --advertise-address $(hostname):%port% \\\n"
        "      --tls-ca ca.pem --tls-cert w.pem --tls-key w.key   # on a machine of its own\n",
    OPTIONS(worker_options),
};

const struct opt_program mr_program_dev = {
    .name = "dev",
    .summary = "a whole cluster on this machine, until Ctrl-C",
    .examples =
        "  millrace dev                                  # an etcd, three dispatchers, two "
        "workers\n"
        "  millrace dev --dispatchers 1 --workers 1 --port 5050\n"
        "  millrace dev --work-dir ~/.cache/millrace     # jobs and datasets outlive a restart\n",
    OPTIONS(dev_options),
};

const struct opt_program mr_program_status = {
    .name = "status",
    .summary = "what a cluster is doing",
    .examples = "  millrace status\n"
                "  millrace status --service a:5050,b:5050,c:5050 --json | jq .workers\n",
    OPTIONS(status_options),
};

const struct opt_program mr_program_dataset = {
    .name = "dataset",
    .summary = "delete a dataset",
    .examples = "  millrace dataset delete digits     # refused while a job uses it\n",
    OPTIONS(dataset_options),
    .usage = "delete ID",
    .args_offset = offsetof(struct dataset_values, words),
    .n_args = 2,
};

const struct opt_program mr_program_job = {
    .name = "job",
    .summary =
        "show a job (iterations, tasks, productions), say what bounds it, or delete it and what it "
        "knows of its reads",
    .examples = "  millrace job show train              # or an id; all trainers of that name\n"
                "  millrace job show train+t1           # one of them\n"
                "  millrace job why train               # what bounds it, and what to change\n"
                "  millrace job delete train            # refused while it has clients\n"
                "  millrace job delete train --force    # their reads fail\n",
    OPTIONS(job_options),
    .usage = "show|why|delete NAME",
    .args_offset = offsetof(struct job_values, words),
    .n_args = 2,
};

const struct opt_program mr_program_state = {
    .name = "state",
    .summary = "show or verify the stored state of a cluster",
    .examples = "  millrace state tree                          # every key, with a line about "
                "what it says\n"
                "  millrace state get jobs/train | jq           # one value; with a slash, all "
                "below it: jobs/\n"
                "  millrace state check --cluster prod --etcd-endpoints etcd-0:2379,etcd-1:2379\n"
                "                                               # exit status 0: nothing wrong, 6: "
                "something is\n",
    OPTIONS(state_options),
    .usage = "get KEY|tree|check",
    .args_offset = offsetof(struct state_values, words),
    .n_args = 2,
};

const struct opt_program mr_program_certs = {
    .name = "certs",
    .summary = "make a CA, certificates, tokens and an access file, to try TLS out",
    .examples =
        "  millrace certs --out certs                            # for servers on this machine\n"
        "  millrace certs --out certs --hosts d-0,d-1,w-0,10.0.0.7\n"
        "  millrace certs --out certs --renew                    # new certificates, the same CA\n",
    OPTIONS(certs_options),
};

const struct opt_program mr_program_token = {
    .name = "token",
    .summary = "make a token, and the line of the access file for it",
    .examples = "  millrace token --out team-b.token --name team-b     # may read and write\n"
                "  millrace token --out ci.token --name ci --roles read\n",
    OPTIONS(token_options),
};

const struct opt_program *const mr_programs[] = {&mr_program_dev,     &mr_program_status,
                                                 &mr_program_dataset, &mr_program_job,
                                                 &mr_program_state,   &mr_program_certs,
                                                 &mr_program_token,   &mr_program_dispatcher,
                                                 &mr_program_worker,  NULL};

const char mr_exit_statuses[] =
    "0 ok, 1 failed, 2 usage, 3 not found, 4 unreachable or no leader, 5 refused, 6 precondition, "
    "124 timeout, 130 interrupted";

/* ---- for libraries: `lib` stands first in the values, so its rows have low offsets ---- */

_Static_assert(offsetof(struct dispatcher_values, lib) == 0, "offsets are those of the options");
_Static_assert(offsetof(struct worker_values, lib) == 0, "offsets are those of the options");

static void fill(const struct opt *rows, size_t n, size_t size, void *options)
{
    for (size_t i = 0; i < n; i++) {
        if (rows[i].offset < size) {
            opt_fill(&rows[i], options);
        }
    }
}

void mr_dispatcher_options_fill(struct mr_dispatcher_options *options)
{
    fill(dispatcher_options, COUNT(dispatcher_options), sizeof *options, options);
}

void mr_worker_options_fill(struct mr_worker_options *options)
{
    fill(worker_options, COUNT(worker_options), sizeof *options, options);
}

int mr_dispatcher_options_check(const struct mr_dispatcher_options *options, mr_error *err)
{
    int rc = MR_OK;

    for (size_t i = 0; i < COUNT(dispatcher_options) && rc == MR_OK; i++) {
        const struct opt *o = &dispatcher_options[i];

        rc = o->offset < sizeof *options ? opt_check(o, options, err) : MR_OK;
    }
    return rc;
}
