#include "rpc/port.h"

/* Defaults of struct mr_rpc_limits. */
#define MEMORY_BYTES (128 * MR_MIB)
#define REPLY_BYTES (384 * MR_MIB)
#define CALLS 32768u /* some 12 KiB each, which gRPC does not count as memory of calls */
#define CALLS_PER_CONNECTION 1024u
#define SILENT_CALLS 1024u
#define SILENT_MS 30000

int mr_rpc_refuse_fork(pid_t parent, mr_error *err)
{
    return mr_error_set(err, MR_EPRECOND,
                        "process %ld, of which this is a fork, has the service open: close its "
                        "iterators before it forks, or start the child with spawn",
                        (long)parent);
}

int mr_rpc_parse_address(const char *address, struct mr_address *ret, mr_error *err)
{
    if (!mr_address_parse(address, ret)) {
        return mr_error_set(err, MR_EINVAL,
                            "'%s' is not an address to connect to: host:port is wanted, with a "
                            "port from 1 to 65535",
                            MR_SHOWN(address));
    }
    return MR_OK;
}

int mr_rpc_parse_listen(const char *address, struct mr_address *ret, mr_error *err)
{
    if (!mr_address_parse_listen(address, ret)) {
        return mr_error_set(err, MR_EINVAL,
                            "listening on '%s': host:port is wanted, with a port from 0 to 65535",
                            MR_SHOWN(address));
    }
    return MR_OK;
}

/* HTTP/2 has keys in lower case. */
static bool is_key(const char *key)
{
    return key[0] != '\0' && key[strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789-_.")] == '\0';
}

int mr_rpc_check_metadata(const char *const *pairs, mr_error *err)
{
    for (size_t n = 0; pairs != NULL && pairs[2 * n] != NULL; n++) {
        if (n == MR_RPC_METADATA_MAX) {
            return mr_error_set(err, MR_EINVAL, "more than %d metadata entries",
                                MR_RPC_METADATA_MAX);
        }
        if (!is_key(pairs[2 * n])) {
            return mr_error_set(err, MR_EINVAL, "'%s' is not a key of metadata",
                                MR_SHOWN(pairs[2 * n]));
        }
    }
    return MR_OK;
}

struct mr_rpc_limits mr_rpc_limits_of(const struct mr_rpc_limits *given)
{
    struct mr_rpc_limits l = given != NULL ? *given : (struct mr_rpc_limits){.message_bytes = 0};

    l.message_bytes = l.message_bytes != 0 ? l.message_bytes : MR_RPC_REQUEST_BYTES_MAX;
    l.memory_bytes = l.memory_bytes != 0 ? l.memory_bytes : MEMORY_BYTES;
    l.reply_bytes = l.reply_bytes != 0 ? l.reply_bytes : REPLY_BYTES;
    l.calls = l.calls != 0 ? l.calls : CALLS;
    l.calls_per_connection =
        l.calls_per_connection != 0 ? l.calls_per_connection : CALLS_PER_CONNECTION;
    l.silent_calls = l.silent_calls != 0 ? l.silent_calls : SILENT_CALLS;
    l.silent_ms = l.silent_ms != 0 ? l.silent_ms : SILENT_MS;
    return l;
}
