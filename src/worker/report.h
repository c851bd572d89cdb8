/* Which grants of a task are finished, as a message (GrantReport, service.proto). Threads: any. */
#ifndef MR_WORKER_REPORT_H
#define MR_WORKER_REPORT_H

#include "millrace/service.pb-c.h"
#include "worker/split_feed.h"

/* A message and what it points to: not to be copied or moved. */
struct mr_grant_report {
    Millrace__GrantReport base;
    Millrace__SplitRange ranges[MR_SPLIT_REPORT_RANGES_MAX];
    Millrace__SplitRange *pointers[MR_SPLIT_REPORT_RANGES_MAX];
};

/* What is finished of @provider by now. */
void mr_grant_report_fill(struct mr_grant_report *report, mr_split_feed *feed, uint32_t provider);

#endif
