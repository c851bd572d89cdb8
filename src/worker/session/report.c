#include "worker/session/report.h"

#include "base/assert.h"

void mr_grant_report_fill(struct mr_grant_report *report, uint32_t provider,
                          const struct mr_range *finished, size_t n)
{
    MR_ASSERT(n <= MR_SPLIT_REPORT_RANGES_MAX);
    millrace__grant_report__init(&report->base);
    report->base.provider = provider;
    report->base.finished = report->pointers;
    report->base.n_finished = n;
    for (size_t i = 0; i < n; i++) {
        millrace__split_range__init(&report->ranges[i]);
        report->ranges[i].first = finished[i].first;
        report->ranges[i].count = finished[i].count;
        report->pointers[i] = &report->ranges[i];
    }
}
