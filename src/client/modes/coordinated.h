/* What a simulation asks of a coordinated read. */
#pragma once

#include "client/read/read.h"
#include "client/rounds.h"

/* NULL: it is not attached. */
const mr_client_rounds *mr_coordinated_rounds(const struct mr_read *r);
