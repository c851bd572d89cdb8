#include "main/access.h"

#include <millrace/service.h>

int access_use(const struct mr_service_access *access, mr_error *err)
{
    const struct mr_service_credentials credentials = {.size = sizeof credentials,
                                                       .ca_file = access->ca,
                                                       .cert_file = access->cert,
                                                       .key_file = access->key,
                                                       .server_name = access->server_name,
                                                       .token_file = access->token_file};

    return mr_service_set_credentials(&credentials, err);
}
