/*
 * The engine of a task: its definition, its splits, what it makes handed to a sink. What the sink
 * is decides the kind of the task.
 */
#ifndef MR_WORKER_PIPELINE_H
#define MR_WORKER_PIPELINE_H

#include "worker/task.h"

/* Where the rows of a pipeline go. The task's thread; no lock is held. */
struct mr_sink {
    /* Wait until some are wanted: MR_OK with how many, MR_END if there is no need to ask, or an
     * error. */
    int (*wait)(struct mr_worker_task *t, uint32_t *rows, mr_error *err);
    /* Takes @block in any case. */
    int (*put)(struct mr_worker_task *t, mr_block *block, mr_error *err);
};

/* Open the engine, hand over what it makes, close it: MR_END, or the error that it ended with. */
int mr_pipeline_run(struct mr_worker_task *t, const struct mr_sink *sink, mr_error *err);
/* That error, for whoever looks after the pipeline. */
void mr_pipeline_log_failure(const struct mr_worker_task *t, const mr_error *err);

#endif
