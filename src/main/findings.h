/*
 * What is wrong with a cluster, as far as its status (docs/run/status.md) says.
 *
 * Threads: pure.
 */
#pragma once

#include "base/buf.h"

#include <jansson.h>
#include <millrace/base.h>

/* Who asks. */
struct findings_here {
    int64_t wall_ms; /* by the clock of this machine, since 1970 */
    const char *version;
};

/* Appends to @list an object {"level": "wrong"|"note", "about", "finding", "advice"} for each: what
 * is wrong keeps somebody from reading, or loses something; a note may be meant so. */
int findings_of(const json_t *status, const struct findings_here *here, json_t *list,
                mr_error *err);
int findings_add(json_t *list, bool wrong, const char *about, const char *finding,
                 const char *advice, mr_error *err);

/* A line each; and the number that are wrong. */
size_t findings_print(const json_t *list, struct mr_buf *out);
