/*
 * How the engine reaches the service: the operators "distribute" and "from_dataset_id" are opened
 * through here.
 *
 * Threads: safe from any thread; what is opened follows the engine's rules (struct
 * mr_external_iter).
 */
#ifndef MR_CLIENT_OPENER_H
#define MR_CLIENT_OPENER_H

#include "client/hand_log.h"
#include "client/losses.h"
#include "client/round_log.h"
#include "engine/engine.h"

/* What the reads of an iterator tell it. */
struct mr_read_reports {
    struct mr_loss_tally losses; /* what they ended without */
    struct mr_round_log rounds;  /* of what they gave */
    struct mr_hand_log hand;     /* ... and how much of that was used */
};

/* What is opened through it reports to @reports, which must outlive it. */
struct mr_external_opener mr_client_opener(struct mr_read_reports *reports);

#endif
