/*
 * What bounds jobs, for people: a line and a table each.
 *
 * Threads: any.
 */
#pragma once

#include "base/buf.h"

#include <millrace/base.h>

/* @json: as pick_job() gives it. */
int why_render(const char *json, struct mr_buf *out, mr_error *err);
