/* The subcommands. Each takes the values that its options gave, the structure of its table, and returns
 * MR_OK, what it failed with and @err, or COMMAND_WRONG; main.c parses, and tells the failure. */
#pragma once

#include <millrace/base.h>

#define COMMAND_WRONG 7 /* it has said what is wrong: the exit status says so, too */

int command_doctor(void *values, mr_error *err);
int command_dispatcher(void *values, mr_error *err);
int command_dispatcher_list(void *values, mr_error *err);
int command_worker(void *values, mr_error *err);
int command_worker_list(void *values, mr_error *err);
int command_worker_drain(void *values, mr_error *err);
int command_worker_show(void *values, mr_error *err);
int command_dev(void *values, mr_error *err);
int command_status(void *values, mr_error *err);
int command_dataset_list(void *values, mr_error *err);
int command_dataset_show(void *values, mr_error *err);
int command_dataset_delete(void *values, mr_error *err);
int command_job_list(void *values, mr_error *err);
int command_job_show(void *values, mr_error *err);
int command_job_why(void *values, mr_error *err);
int command_job_delete(void *values, mr_error *err);
int command_state_get(void *values, mr_error *err);
int command_state_tree(void *values, mr_error *err);
int command_state_check(void *values, mr_error *err);
int command_certs(void *values, mr_error *err);
int command_completion(void *values, mr_error *err);
int command_token(void *values, mr_error *err);
