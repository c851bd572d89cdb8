/*
 * What a status document (docs/run/status.md) says of one job, worker or dataset: a document of the
 * same form, with nothing else in it.
 *
 * Each leaves @status alone; the caller owns *@ret. MR_ENOTFOUND: there is no such one, and @err
 * says which name was probably meant.
 *
 * Threads: pure.
 */
#pragma once

#include <jansson.h>
#include <millrace/base.h>

/* The jobs that @name means (a name, all trainers of a name, "name+trainer", or an id) and the
 * productions that they read. */
int pick_job(json_t *status, const char *name, json_t **ret, mr_error *err);
/* The workers at an address, or whose id begins so, with the jobs and productions that have tasks
 * there. */
int pick_worker(json_t *status, const char *name, json_t **ret, mr_error *err);
/* The dataset of an id, with the jobs that use it. */
int pick_dataset(json_t *status, const char *name, json_t **ret, mr_error *err);

/* "; did you mean 'train'?" if one of the names of @what ("jobs", "workers", "datasets") is near
 * @name, otherwise "". */
void pick_hint(const json_t *status, const char *what, const char *name, char *out, size_t size);
/* What one of @what is called: its name or id, an address. *@buf of @size bytes, or lent. */
const char *pick_name(const json_t *one, char *buf, size_t size);
