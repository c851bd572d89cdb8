/* Split providers: the places of a graph where DYNAMIC sharding cuts it. A source whose elements
 * have indices is one; a zip or a concatenation of such sources is one provider, so that what
 * belongs together stays together. Pure. */
#pragma once

#include "engine/env.h"

/* All providers in the order of their numbers; MR_EUNIMPL names a source that cannot be split.
 * Freed with mr_free(). */
int mr_providers_list(const mr_dataset *root, struct mr_provider **ret, size_t *n, mr_error *err);
