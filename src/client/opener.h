/*
 * How the engine reaches the service: the operators "distribute" and "from_dataset_id" are opened through here.
 *
 * Threads: safe from any thread; what is opened follows the engine's rules (struct mr_external_iter).
 */
#ifndef MR_CLIENT_OPENER_H
#define MR_CLIENT_OPENER_H

#include "engine/engine.h"

/* Lent for ever. */
const struct mr_external_opener *mr_client_opener(void);

#endif
