#include "rpc/port.h"

const struct mr_rpc_transport *const mr_rpc_linked = &mr_rpc_local;
