/*
 * What bounds jobs, for people: a line and a table each.
 *
 * Threads: any.
 */
#pragma once

#include "base/buf.h"

#include <jansson.h>

/* @picked: as pick_job() gives it. */
void why_render(const json_t *picked, struct mr_buf *out);
