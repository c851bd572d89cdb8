/* What the fakes of a worker have in common: a server of Read streams, and messages on them. What
 * is said on a stream is each fake's own. */
#pragma once

#include "element/block.h"
#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"

/* Serve Read on any port; @address has room for 64 bytes. The server is the caller's. */
mr_rpc_server *fake_read_serve(mr_rpc_runtime *rt, void (*accept)(void *ctx, mr_rpc_stream *s),
                               void *ctx, char *address);
/* What @m says, which is freed; the caller frees the answer. */
Millrace__ReadRequest *fake_read_request(mr_rpc_message *m);
/* Send @h with the rows of @block (NULL: none), which is taken. Nothing else may be under way on
 * @s. False: it ended. */
bool fake_read_send(mr_rpc_stream *s, const Millrace__ReadHeader *h, mr_block *block);

/* Rows of one int64 each; *@values is where to write them. */
mr_block *fake_read_ints(uint32_t n, int64_t **values);
/* One row of another spec than was agreed. */
mr_block *fake_read_alien(void);
