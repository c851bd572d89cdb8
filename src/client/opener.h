/*
 * How the engine reaches the service: the operators "distribute" and "from_dataset_id" are opened through here.
 *
 * Threads: safe from any thread; what is opened follows the engine's rules (struct mr_external_iter).
 */
#ifndef MR_CLIENT_OPENER_H
#define MR_CLIENT_OPENER_H

#include "client/losses.h"
#include "engine/engine.h"

/* What is opened through it adds what it ended without to @losses, which must outlive it. */
struct mr_external_opener mr_client_opener(struct mr_loss_tally *losses);

#endif
