/*
 * The thread that keeps the session with the dispatchers (session/registration.h): it does what the
 * session says next, and tells it how that went. assignments.c does what the task list says,
 * progress.c knows what a heartbeat says.
 *
 * Threads: start and stop belong to one thread.
 */
#ifndef MR_WORKER_LINK_THREAD_H
#define MR_WORKER_LINK_THREAD_H

#include "worker/link.h"

int mr_link_start(struct mr_link *link, mr_error *err);
/* Says goodbye; ends the thread and the watch. Tasks stop their own calls. Also before start. */
void mr_link_stop(struct mr_link *link);

#endif
