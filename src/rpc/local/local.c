/* The transport within one process. */
#include "rpc/local/internal.h"

const struct mr_rpc_transport mr_rpc_local = {.name = "local",
                                              MR_RPC_SLOTS(MR_RPC_FILL, mr_local_)};
