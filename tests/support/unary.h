/* A unary call that is waited for: for tests and measurements, whose threads have nothing else to
 * do. */
#ifndef MR_TESTS_SUPPORT_UNARY_H
#define MR_TESTS_SUPPORT_UNARY_H

#include "rpc/rpc.h"

/* As mr_rpc_unary(). *@reply is freed with mr_free(). Not from the runtime's thread. */
int mr_rpc_unary_wait(mr_rpc_channel *ch, const char *path, const void *request, size_t size,
                      const char *const *metadata, int64_t timeout_ms, bool wait_for_ready,
                      void **reply, size_t *reply_size, mr_error *err);

#endif
