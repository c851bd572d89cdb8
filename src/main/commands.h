/* The subcommands. Each takes the values that its options gave, a struct <name>_values, and returns
 * MR_OK, or what it failed with and @err; main.c parses, and tells the failure. */
#pragma once

#include <millrace/base.h>

int command_dispatcher(void *values, mr_error *err);
int command_worker(void *values, mr_error *err);
int command_dev(void *values, mr_error *err);
int command_status(void *values, mr_error *err);
int command_state(void *values, mr_error *err);
int command_dataset(void *values, mr_error *err);
int command_job(void *values, mr_error *err);
int command_certs(void *values, mr_error *err);
int command_token(void *values, mr_error *err);
