/* The lives of a worker: the identities with which it registers, one after the other. */
#ifndef MR_WORKER_LIFE_H
#define MR_WORKER_LIFE_H

#include "worker/internal.h"

/* Begin another life, with an incarnation of its own. false: no memory. One thread at a time. */
bool mr_worker_begin_life(struct mr_worker *w);
void mr_worker_free_lives(struct mr_worker *w);

#endif
