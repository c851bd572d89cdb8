/*
 * What a status document (docs/run/status.md) says of one job.
 *
 * Threads: pure.
 */
#pragma once

#include <millrace/base.h>

/* {"jobs": [...], "productions": [...]}: the jobs that @name means (a name, all trainers of a name,
 * "name+trainer", or an id) and the productions that they read, as @status has them. *@ret is freed
 * with free(). MR_ENOTFOUND: there is no such job; MR_EINVAL: @status is no status document. */
int pick_job(const char *status, const char *name, char **ret, mr_error *err);
