/* What every process is asked for: CPU time, memory, descriptors (metrics process_*). Threads:
 * any. */
#ifndef MR_METRICS_PROCESS_H
#define MR_METRICS_PROCESS_H

#include "metrics/metrics.h"

/* What the kernel does not tell is left out. @component: "dispatcher", "worker". */
void mr_metrics_add_process(mr_metrics *m, const char *component);

#endif
