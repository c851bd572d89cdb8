/* The transport over gRPC core. */
#include "rpc/grpc/internal.h"

const struct mr_rpc_transport mr_rpc_grpc = {.name = "grpc", MR_RPC_SLOTS(MR_RPC_FILL, mr_grpc_)};
