/* The methods of a server, over any transport. */
#include "rpc/port.h"

int mr_rpc_server_unary(mr_rpc_server *srv, const char *path, size_t bytes_max,
                        mr_rpc_handler *handle, void *ctx, mr_error *err)
{
    const struct mr_rpc_method method = {
        .path = path, .bytes_max = bytes_max, .handle = handle, .ctx = ctx};

    return mr_rpc_methods_add(mr_rpc_server_methods(srv), &method, err);
}

int mr_rpc_server_bulk(mr_rpc_server *srv, const char *path, size_t bytes_max,
                       mr_rpc_bulk_handler *handle, void *ctx, mr_error *err)
{
    const struct mr_rpc_method method = {
        .path = path, .bytes_max = bytes_max, .handle_bulk = handle, .ctx = ctx};

    return mr_rpc_methods_add(mr_rpc_server_methods(srv), &method, err);
}

int mr_rpc_server_stream(mr_rpc_server *srv, const char *path, mr_rpc_accept *accept, void *ctx,
                         mr_error *err)
{
    const struct mr_rpc_method method = {.path = path, .accept = accept, .ctx = ctx};

    return mr_rpc_methods_add(mr_rpc_server_methods(srv), &method, err);
}
