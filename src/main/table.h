/*
 * A JSON document as text for people: scalars as "name: value", lists of objects as aligned tables,
 * in the document's order. It knows nothing of what the document means, so that it shows whatever a
 * newer dispatcher reports.
 *
 * Threads: any.
 */
#pragma once

#include "base/buf.h"

#include <millrace/base.h>

/* MR_EINVAL if @json is not an object. */
int table_render(const char *json, struct mr_buf *out, mr_error *err);

/* To standard output: @json as text, or as it is if @raw. MR_EUNKNOWN if that cannot be written. */
int table_print(const char *json, bool raw, mr_error *err);
