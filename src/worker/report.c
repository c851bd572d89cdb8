#include "worker/report.h"

void mr_grant_report_fill(struct mr_grant_report *report, mr_split_feed *feed, uint32_t provider)
{
    struct mr_range finished[MR_SPLIT_REPORT_RANGES_MAX];
    size_t n = mr_split_feed_finished(feed, provider, finished);

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
