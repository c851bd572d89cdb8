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

#define VALUES struct list_values
static const struct opt list_options[] = {
#include "options/list.def"
};
#undef VALUES

#define VALUES struct show_values
static const struct opt show_options[] = {
#include "options/show.def"
};
#undef VALUES

#define VALUES struct delete_values
static const struct opt delete_options[] = {
#include "options/delete.def"
};
#undef VALUES

#define VALUES struct job_delete_values
static const struct opt job_delete_options[] = {
#include "options/job_delete.def"
};
#undef VALUES

#define VALUES struct drain_values
static const struct opt drain_options[] = {
#include "options/drain.def"
};
#undef VALUES

#define VALUES struct state_values
static const struct opt state_options[] = {
#include "options/state.def"
};
#undef VALUES

#define VALUES struct doctor_values
static const struct opt doctor_options[] = {
#include "options/doctor.def"
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

#define VALUES struct state_values
static const struct opt state_check_options[] = {
#include "options/state_check.def"
};
#undef VALUES

#define OPTIONS(table) .opts = (table), .n_opts = COUNT(table)
#define ONE_WORD(values, what)                                                                     \
    .usage = (what), .args_offset = offsetof(struct values, words), .n_args = 1, .n_needed = 1

const struct opt_program mr_program_dispatcher = {
    .name = "dispatcher",
    .verb = "run",
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
    .verb = "run",
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

const struct opt_program mr_program_doctor = {
    .name = "doctor",
    .summary = "what is wrong with a cluster, and what to do",
    .examples =
        "  millrace doctor                     # exit status 0: nothing is wrong, 7: something "
        "is\n",
    OPTIONS(doctor_options),
};

const struct opt_program mr_program_dataset_list = {
    .name = "dataset list",
    .summary = "the datasets that are registered",
    .examples = "  millrace dataset list\n",
    OPTIONS(list_options),
};

const struct opt_program mr_program_dataset_show = {
    .name = "dataset show",
    .summary = "one dataset, and the jobs that use it",
    .examples = "  millrace dataset show digits\n",
    OPTIONS(show_options),
    ONE_WORD(show_values, "ID"),
};

const struct opt_program mr_program_dataset_delete = {
    .name = "dataset delete",
    .summary = "delete a dataset",
    .examples = "  millrace dataset delete digits       # refused while a job uses it\n",
    OPTIONS(delete_options),
    ONE_WORD(delete_values, "ID"),
};

const struct opt_program mr_program_job_list = {
    .name = "job list",
    .summary = "the jobs: who reads, how far they are, what they lost",
    .examples = "  millrace job list\n"
                "  millrace job list --json | jq '.[] | select(.name == \"train\")'\n",
    OPTIONS(list_options),
};

const struct opt_program mr_program_job_show = {
    .name = "job show",
    .summary = "one job: its iterations, tasks, sources and productions",
    .examples = "  millrace job show train              # or an id; all trainers of that name\n"
                "  millrace job show train+t1           # one of them\n",
    OPTIONS(show_options),
    ONE_WORD(show_values, "NAME"),
};

const struct opt_program mr_program_job_why = {
    .name = "job why",
    .summary = "what bounds a job, and what to change",
    .examples = "  millrace job why train\n",
    OPTIONS(show_options),
    ONE_WORD(show_values, "NAME"),
};

const struct opt_program mr_program_job_delete = {
    .name = "job delete",
    .summary = "delete a job, and what the cluster knows of its reads",
    .examples = "  millrace job delete train            # refused while it has clients\n"
                "  millrace job delete train --force    # their reads fail\n",
    OPTIONS(job_delete_options),
    ONE_WORD(job_delete_values, "NAME"),
};

const struct opt_program mr_program_worker_list = {
    .name = "worker list",
    .summary = "the workers: which are alive, and what they have to do",
    .examples = "  millrace worker list\n",
    OPTIONS(list_options),
};

const struct opt_program mr_program_worker_show = {
    .name = "worker show",
    .summary = "one worker, and its tasks",
    .examples =
        "  millrace worker show 10.0.0.7:5051   # or its id, as millrace worker list has it\n",
    OPTIONS(show_options),
    ONE_WORD(show_values, "WORKER"),
};

const struct opt_program mr_program_worker_drain = {
    .name = "worker drain",
    .summary = "have a worker hand over what it has not begun, serve the rest, and end",
    .examples = "  millrace worker drain 10.0.0.7:5051 --wait\n",
    OPTIONS(drain_options),
    ONE_WORD(drain_values, "WORKER"),
};

const struct opt_program mr_program_dispatcher_list = {
    .name = "dispatcher list",
    .summary = "the dispatchers, and which of them leads",
    .examples = "  millrace dispatcher list\n",
    OPTIONS(list_options),
};

const struct opt_program mr_program_state_get = {
    .name = "state get",
    .summary = "the values of one key in etcd, or of all below one",
    .examples = "  millrace state get jobs/train | jq   # one value; with a slash, all below it: "
                "jobs/\n",
    OPTIONS(state_options),
    ONE_WORD(state_values, "KEY"),
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

const struct opt_program mr_program_state_tree = {
    .name = "state tree",
    .summary = "every key in etcd, with a line about what it says",
    .examples = "  millrace state tree\n",
    OPTIONS(state_options),
};

const struct opt_program mr_program_state_check = {
    .name = "state check",
    .summary = "verify what etcd keeps of a cluster",
    .examples = "  millrace state check --cluster prod --etcd-endpoints etcd-0:2379,etcd-1:2379\n"
                "                                       # exit status 0: nothing wrong, 6: "
                "something is\n",
    OPTIONS(state_check_options),
};

const struct opt_program mr_program_completion = {
    .name = "completion",
    .summary = "print the script with which a shell completes command lines",
    .examples = "  eval \"$(millrace completion bash)\"          # in ~/.bashrc\n"
                "  source <(millrace completion zsh)           # in ~/.zshrc, behind compinit\n"
                "  millrace completion fish | source           # in config.fish\n",
    ONE_WORD(completion_values, "bash|zsh|fish"),
};

const struct opt_program *const mr_programs[] = {&mr_program_dev,
                                                 &mr_program_status,
                                                 &mr_program_doctor,
                                                 &mr_program_dataset_list,
                                                 &mr_program_dataset_show,
                                                 &mr_program_dataset_delete,
                                                 &mr_program_job_list,
                                                 &mr_program_job_show,
                                                 &mr_program_job_why,
                                                 &mr_program_job_delete,
                                                 &mr_program_worker,
                                                 &mr_program_worker_list,
                                                 &mr_program_worker_show,
                                                 &mr_program_worker_drain,
                                                 &mr_program_dispatcher,
                                                 &mr_program_dispatcher_list,
                                                 &mr_program_state_get,
                                                 &mr_program_state_tree,
                                                 &mr_program_state_check,
                                                 &mr_program_certs,
                                                 &mr_program_token,
                                                 &mr_program_completion,
                                                 NULL};

const struct opt_noun mr_nouns[] = {{"dataset", "list, show or delete the registered datasets"},
                                    {"job", "list, show or delete jobs, or say what bounds them"},
                                    {"state", "show or verify what etcd keeps of a cluster"},
                                    {NULL, NULL}};

const char mr_exit_statuses[] =
    "0 ok, 1 failed, 2 usage, 3 not found, 4 unreachable or no leader, 5 refused, 6 precondition, "
    "7 something is wrong (doctor), 124 timeout, 130 interrupted";

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
