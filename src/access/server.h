/* What a server makes of its options. Threads: plain functions. */
#pragma once

#include "options/programs.h"
#include "rpc/rpc.h"

/* The files of @access, lent; TLS if there is a certificate or an authority. @client_auth: as the
 * option has it; NULL: of no server. */
struct mr_rpc_files mr_access_files(const struct mr_service_access *access,
                                    const char *client_auth);

/* May a server listen at @listen? Off the loopback interface it needs a certificate, and may not be
 * @open: it would take calls from everybody. MR_EINVAL says so, unless @insecure. */
int mr_access_check_listen(const char *listen, const struct mr_rpc_files *files, bool open,
                           bool insecure, mr_error *err);
