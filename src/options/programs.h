/*
 * The programs and their options: structures made of the tables (*.def), so that a field, its flag,
 * its default and its help are one row. A new option is one row there, and the code that uses the
 * field.
 *
 * Threads: constant data.
 */
#pragma once

#include "options/option.h"

#define FIELD(field, type, name, ...) OPT_C_##type field;
#define NOTHING(...)

/* Access to an etcd; NULL: not given. */
struct mr_etcd_access {
#define ETCD FIELD
#include "options/etcd.def"
#undef ETCD
};

/* Access to a cluster; NULL: not given. */
struct mr_service_access {
#define ACCESS FIELD
#include "options/access.def"
#undef ACCESS
};

struct run_options {
#define RUN FIELD
#include "options/run.def"
#undef RUN
};

#define ETCD NOTHING
#define ACCESS NOTHING
#define RUN NOTHING
#define OPTION FIELD
#define MAIN NOTHING

/* Of mr_dispatcher_start(). Zero (NULL) means the default of the table; `etcd_endpoints` is
 * required. Strings are copied. */
struct mr_dispatcher_options {
#include "options/dispatcher.def"
    struct mr_etcd_access etcd;
    struct mr_service_access access;
};

/* Of mr_worker_start(), in the same way; `dispatchers` is required. */
struct mr_worker_options {
#include "options/worker.def"
    struct mr_service_access access;
    /* Not of the program. */
    int64_t waiting_max; /* streams whose tasks are not here yet; default 4096 */
    /* No room comes free for a definition, and its task fails; default 10 min. */
    int64_t definition_wait_ms;
};

#undef OPTION
#undef MAIN
#define OPTION NOTHING
#define MAIN FIELD

struct dispatcher_values {
    struct mr_dispatcher_options lib;
    struct run_options run;
#include "options/dispatcher.def"
};

struct worker_values {
    struct mr_worker_options lib;
    struct run_options run;
#include "options/worker.def"
};

#undef OPTION
#undef MAIN
#define OPTION FIELD

struct dev_values {
    struct mr_etcd_access etcd;
    struct run_options run;
#include "options/dev.def"
};

struct status_values {
    struct mr_service_access access;
#include "options/status.def"
};

struct list_values {
    struct mr_service_access access;
#include "options/list.def"
};

struct show_values {
    const char *words[1]; /* NAME */
    struct mr_service_access access;
#include "options/show.def"
};

struct delete_values {
    const char *words[1]; /* NAME */
    struct mr_service_access access;
#include "options/delete.def"
};

struct job_delete_values {
    const char *words[1]; /* NAME */
    struct mr_service_access access;
#include "options/job_delete.def"
};

struct drain_values {
    const char *words[1]; /* WORKER */
    struct mr_service_access access;
#include "options/drain.def"
};

struct state_values {
    const char *words[1]; /* get: KEY */
    struct mr_etcd_access etcd;
#include "options/state_check.def"
};

struct completion_values {
    const char *words[1]; /* SHELL */
};

struct doctor_values {
    struct mr_service_access access;
#include "options/doctor.def"
};

struct certs_values {
#include "options/certs.def"
};

struct token_values {
#include "options/token.def"
};

#undef OPTION
#undef ETCD
#undef ACCESS
#undef RUN
#undef FIELD
#undef NOTHING

/* A noun and its verb are one name: job_list is `millrace job list`. */
extern const struct opt_program mr_program_dispatcher, mr_program_worker, mr_program_dev,
    mr_program_status, mr_program_dataset_list, mr_program_dataset_show, mr_program_dataset_delete,
    mr_program_job_list, mr_program_job_show, mr_program_job_why, mr_program_job_delete,
    mr_program_worker_list, mr_program_worker_show, mr_program_worker_drain,
    mr_program_dispatcher_list, mr_program_state_get, mr_program_state_tree, mr_program_state_check,
    mr_program_certs, mr_program_token, mr_program_completion, mr_program_doctor;

/* All of them, in the order of `millrace help`; NULL ends them. */
extern const struct opt_program *const mr_programs[];

/* The nouns that are no programs by themselves; a NULL name ends them. */
extern const struct opt_noun mr_nouns[];

/* What exit statuses mean, one sentence. */
extern const char mr_exit_statuses[];

/* Zero fields become what the table says. */
void mr_dispatcher_options_fill(struct mr_dispatcher_options *options);
void mr_worker_options_fill(struct mr_worker_options *options);
/* MR_EINVAL names what is beyond its bounds. */
int mr_dispatcher_options_check(const struct mr_dispatcher_options *options, mr_error *err);
