/*
 * A reader: one iterator over a dataset that workers produce. It attaches to a job, learns of its
 * tasks, reads from all of them at once and gives their elements in turn.
 *
 * Threads: pull and close belong to one thread at a time; cancel is safe from any.
 */
#pragma once

#include "client/hand_log.h"
#include "client/losses.h"
#include "client/options.h"
#include "client/round_log.h"
#include "engine/engine.h"

typedef struct mr_reader mr_reader;

/* What the reads of an iterator tell it. */
struct mr_read_reports {
    struct mr_loss_tally losses; /* what they ended without */
    struct mr_round_log rounds;  /* of what they gave */
    struct mr_pull_log pulls;    /* how long the application waits */
    struct mr_hand_log hand;     /* ... and how much of that was used */
};
/* How the engine opens "distribute" and "from_dataset_id". What is opened reports to @reports,
 * which must outlive it. Safe from any thread. */
struct mr_external_opener mr_reader_opener(struct mr_read_reports *reports);

/* Takes what @opts holds (on success). Does not wait: what goes wrong with the service is told by
 * the first pull. */
int mr_reader_open(struct mr_read_options *opts, mr_reader **ret, mr_error *err);
/* As struct mr_external_iter says; @ctx is the mr_reader. An error is given again by each further
 * pull. */
int mr_reader_pull(void *ctx, struct mr_want want, int timeout_ms, mr_block **ret, mr_error *err);
void mr_reader_cancel(void *ctx);
/* Says goodbye (bounded: some seconds if who is there does not answer), ends its threads, frees
 * it. */
void mr_reader_close(void *ctx);
