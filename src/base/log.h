/*
 * Structured logs on stderr: one line a record, key=value (or JSON). Libraries return errors; the
 * function that decides what to do about one logs it, once.
 *
 *     mr_log(MR_LOG_WARN, "etcd does not answer, retrying", "endpoint", "%s", ep, "retry_ms", "%d",
 *     200, NULL);
 *
 * After the constant message come triples (key, printf format, one argument); a NULL key ends them.
 * Formats are limited to %s %d %u %ld %lu %lld %llu %zu %f.
 *
 * Threads: safe from any thread; a record is one write(2).
 */
#pragma once

#include <millrace/base.h>

enum mr_log_level { MR_LOG_DEBUG, MR_LOG_INFO, MR_LOG_WARN, MR_LOG_ERROR, MR_LOG_OFF };
#define MR_LOG_KEPT 10
#define MR_LOG_KEPT_BYTES_MAX 8192

enum mr_log_format { MR_LOG_TEXT, MR_LOG_JSON };

void mr_log_init(enum mr_log_level level, enum mr_log_format format, const char *component);
bool mr_log_enabled(enum mr_log_level level);
void mr_log(enum mr_log_level level, const char *msg, ...);
/* From now on the last MR_LOG_KEPT records are in the file @fd, too, whatever becomes of this
 * process: text that ends with a NUL, of at most MR_LOG_KEPT_BYTES_MAX with that. */
void mr_log_keep_last(int fd);
/* A line (with its newline) that is not a record, on stderr and among the last. */
void mr_log_line(const char *line);
/* "debug", "info", "warn", "error", "off"; returns MR_EINVAL otherwise. */
int mr_log_level_parse(const char *s, enum mr_log_level *ret, mr_error *err);
