/* Which grants of a task are finished, as a message (GrantReport, service.proto). */
#ifndef MR_WORKER_SESSION_REPORT_H
#define MR_WORKER_SESSION_REPORT_H

#include "millrace/service.pb-c.h"
#include "worker/session/splits.h"

/* A message and what it points to: not to be copied or moved. */
struct mr_grant_report {
    Millrace__GrantReport base;
    Millrace__SplitRange ranges[MR_SPLIT_REPORT_RANGES_MAX];
    Millrace__SplitRange *pointers[MR_SPLIT_REPORT_RANGES_MAX];
};

/* What is finished of @provider, as mr_splits_finished() says it: @n ranges. */
void mr_grant_report_fill(struct mr_grant_report *report, uint32_t provider,
                          const struct mr_range *finished, size_t n);

#endif
