/*
 * Status documents (docs/run/status.md) as text for people: what a person asks for first, ages by
 * the leader's clock, sizes with units. Whatever else is known stands in --json.
 *
 * Threads: pure.
 */
#pragma once

#include "base/buf.h"

#include <jansson.h>

/* Each appends a table, or a sentence if there is nothing to show. */
void view_workers(const json_t *status, struct mr_buf *out);
void view_datasets(const json_t *status, struct mr_buf *out);
void view_jobs(const json_t *status, struct mr_buf *out);
void view_dispatchers(const json_t *status, struct mr_buf *out);

/* All of them below a few lines about the cluster. */
void view_status(const json_t *status, struct mr_buf *out);

/* What pick.h leaves of a status: the jobs of one name; one worker, or one dataset, with its
 * jobs. */
void view_job(const json_t *picked, struct mr_buf *out);
void view_worker(const json_t *picked, struct mr_buf *out);
void view_dataset(const json_t *picked, struct mr_buf *out);

/* ---- parts of it ---- */

/* "3m20s" since @then_ms, "" if either is not known. */
struct human view_age(const json_t *status, int64_t then_ms);
/* "live", "draining", "left", "lost"; "reading", "stalled", "no reader", "finished", "failed", "new",
 * "set aside". */
const char *view_worker_state(const json_t *worker);
const char *view_job_state(const json_t *job);
/* "100", "infinite", "unknown". */
struct human view_cardinality(const json_t *dataset);
/* "2 splits", "" for none; of an iteration's end. */
struct human view_losses(int64_t splits);
/* "title", an empty line before it. */
void view_title(const char *title, size_t n, struct mr_buf *out);
/* A sum over the tasks of an iteration or a production. */
int64_t view_sum(const json_t *tasks, const char *key);
