/*
 * What this process shows to dispatchers and workers, and whom it trusts: as it was told
 * (mr_service_set_credentials()), else by the environment.
 *
 * Threads: any.
 */
#pragma once

#include "rpc/rpc.h"

struct mr_client_credentials {
    struct mr_rpc_files files; /* its strings are these: */
    char *texts[5];
};

int mr_client_credentials_get(struct mr_client_credentials *ret, mr_error *err);
void mr_client_credentials_free(struct mr_client_credentials *c);
MR_AUTO_DEFINE(struct mr_client_credentials, mr_client_credentials_free)
