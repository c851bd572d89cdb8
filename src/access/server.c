#include "access/server.h"

#include "base/address.h"
#include "base/base.h"

struct mr_rpc_files mr_access_files(const struct mr_service_access *access, const char *client_auth)
{
    struct mr_rpc_files files = {.tls = access->ca != NULL || access->cert != NULL ||
                                        access->server_name != NULL,
                                 .ca = access->ca,
                                 .cert = access->cert,
                                 .key = access->key,
                                 .server_name = access->server_name,
                                 .token = access->token_file};

    if (client_auth != NULL) {
        files.client_auth = strcmp(client_auth, "require") == 0 ? MR_RPC_CLIENT_AUTH_REQUIRE
                            : strcmp(client_auth, "none") == 0  ? MR_RPC_CLIENT_AUTH_NONE
                                                                : MR_RPC_CLIENT_AUTH_OPTIONAL;
    }
    return files;
}

int mr_access_check_listen(const char *listen, const struct mr_rpc_files *files, bool open,
                           bool insecure, mr_error *err)
{
    struct mr_address a;
    const char *missing = files->cert == NULL ? "--tls-cert and --tls-key are"
                          : open              ? "--access-file is"
                                              : NULL;

    if (insecure || missing == NULL || !mr_address_parse_listen(listen, &a) ||
        mr_address_is_loopback(&a)) {
        return MR_OK; /* What is no address is refused by whoever listens. */
    }
    return mr_error_set(err, MR_EINVAL,
                        "--listen %s lets other machines in, and %s not given: see "
                        "docs/run/security.md, or say --insecure if everybody who reaches the port "
                        "may do everything",
                        MR_SHOWN(listen), missing);
}
