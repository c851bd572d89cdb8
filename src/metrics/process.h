/* What every process is asked for: CPU time, memory, descriptors (metrics process_*). Threads:
 * any. */
#pragma once

#include "metrics/metrics.h"

/* What the kernel does not tell is left out. @component: "dispatcher", "worker". */
void mr_metrics_add_process(mr_metrics *m, const char *component);
