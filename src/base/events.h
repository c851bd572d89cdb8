/*
 * The last events of this process, printed when an assertion fails: what led up to it.
 *
 *     mr_event("driver %p: %u threads", (void *)d, n);
 *
 * A ring of MR_EVENTS_KEPT short lines: the newest replaces the oldest, and a longer line is cut.
 * Log records are events too. An event takes less than a microsecond, which is fit for a change of
 * state, not for each row.
 *
 * Threads: safe from any thread, without a lock; not from a signal handler. mr_events_print() only
 * reads memory and calls write(2), so that a process that is about to end may call it anywhere.
 */
#pragma once

#include <millrace/base.h>

#define MR_EVENTS_KEPT 64
#define MR_EVENT_BYTES_MAX 216 /* a longer one is cut; time and thread come on top */

void mr_event(const char *fmt, ...) MR_PRINTF(1, 2);
/* Oldest first, a line each. An event that is being written at this moment is left out. */
void mr_events_print(int fd);
