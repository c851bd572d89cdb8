/*
 * What transports share. A transport is a directory that defines the functions of rpc.h which are
 * not in this one, its own structs behind the names of rpc.h, and mr_rpc_is_own_thread() and
 * mr_rpc_server_methods(). There are two, grpc/ and local/, held together by one conformance suite
 * (tests/conformance/rpc_test.c); a program links one of them.
 *
 * rpc.h says what a transport promises. Besides:
 *
 * - Callbacks of users (done, message, sent, ended, accept, handle) run on one thread of the
 *   transport's, one at a time, and never while it holds a lock: everything may be called from them
 *   but mr_rpc_release(), mr_rpc_server_stop() and mr_rpc_server_free().
 * - mr_rpc_acquire() counts users: the first starts the thread, the last ends it when nothing is
 *   open. After a fork mr_rpc_release() does nothing in the child.
 * - mr_rpc_stream_open() sets *@ret before any callback may run.
 * - At most a window of bytes and one message are kept for a reader that does not ask: then `sent`
 *   waits. A status MR_OK waits for all messages before it to be asked for; any other may overtake
 *   them. A stream is the transport's, too, until `ended` has returned.
 * - A request is the answerer's until mr_rpc_reply(), also when its caller or the server is gone.
 * - Errors of the outside (statuses, errno) become mr_error within the transport.
 */
#pragma once

#include "base/address.h"
#include "base/file.h"
#include "base/limits.h"
#include "rpc/rpc.h"

#include <pthread.h>
#include <sys/types.h>

/* The largest message that a client takes: one element and its header. */
#define MR_RPC_REPLY_BYTES_MAX ((size_t)(MR_ELEMENT_BYTES_MAX + 16 * MR_MIB))
#define MR_RPC_METADATA_MAX 8

#define MR_RPC_CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* Which one this program links: "grpc" or "local". */
extern const char mr_rpc_transport[];

/* Is this the thread of the callbacks? */
bool mr_rpc_is_own_thread(void);

/* ---- what is checked before a transport acts (check.c) ---- */

/* MR_EPRECOND in a child that was forked while @parent had a runtime. */
int mr_rpc_refuse_fork(pid_t parent, mr_error *err);

int mr_rpc_parse_address(const char *address, struct mr_address *ret, mr_error *err);
int mr_rpc_parse_listen(const char *address, struct mr_address *ret, mr_error *err);
/* At most MR_RPC_METADATA_MAX pairs with legal keys. */
int mr_rpc_check_metadata(const char *const *pairs, mr_error *err);
/* All are set, but that `connections` may be 0. */
struct mr_rpc_limits mr_rpc_limits_of(const struct mr_rpc_limits *given);

/* ---- bearer tokens (token.c) ---- */

#define MR_RPC_TOKEN_SIZE 1025
#define MR_RPC_BEARER "Bearer "

/* A token in a file, read again when it changes. Threads: any. */
struct mr_rpc_token {
    char *path;           /* NULL: there is no token */
    pthread_mutex_t lock; /* guards all that follows */
    struct mr_file_watch watch;
    char text[MR_RPC_TOKEN_SIZE];
};
/* MR_EINVAL: it cannot be read, or is no token. */
int mr_rpc_token_init(struct mr_rpc_token *t, const char *path, mr_error *err);
void mr_rpc_token_free(struct mr_rpc_token *t);
/* The value of an authorization header. A file that went bad leaves the token that was. */
void mr_rpc_token_bearer(struct mr_rpc_token *t,
                         char out[sizeof MR_RPC_BEARER - 1 + MR_RPC_TOKEN_SIZE]);
/* What is behind "Bearer " in a header of @n bytes, in @out. false: it is no such header. */
bool mr_rpc_token_parse(const void *header, size_t n, char out[MR_RPC_TOKEN_SIZE]);

/* What a server asks of each call; `guard` NULL: nothing. */
struct mr_rpc_door {
    mr_rpc_guard *guard;
    void *ctx;
};

/* ---- the methods of a server (methods.c). Filled before it starts, afterwards only read. ---- */

/* Exactly one of the three functions is set. */
struct mr_rpc_method {
    const char *path;
    size_t bytes_max; /* of a request: a larger one is answered with MR_EINVAL; not of streams */
    mr_rpc_handler *handle;
    mr_rpc_bulk_handler *handle_bulk;
    mr_rpc_accept *accept;
    void *ctx;
};

#define MR_RPC_METHODS_MAX 32
struct mr_rpc_methods {
    struct mr_rpc_method all[MR_RPC_METHODS_MAX]; /* paths are owned */
    size_t n;
};
/* Those of a server that has not started: asserted. */
struct mr_rpc_methods *mr_rpc_server_methods(mr_rpc_server *srv);
int mr_rpc_methods_add(struct mr_rpc_methods *methods, const struct mr_rpc_method *method,
                       mr_error *err);
const struct mr_rpc_method *mr_rpc_methods_find(const struct mr_rpc_methods *methods,
                                                const char *path);
void mr_rpc_methods_free(struct mr_rpc_methods *methods);

/* A stream of a call of @method has come: runs accept, or, since unary calls are streams with one
 * message each way, sees to a request (request.c). */
void mr_rpc_method_accept(const struct mr_rpc_method *method, mr_rpc_stream *s);
/* Of a transport, for that: end a stream with a message, if @code is MR_OK, and a status. It may
 * be MR_EUNAVAIL in place of it, as mr_rpc_reply() says. */
void mr_rpc_stream_reply(mr_rpc_stream *s, int code, const char *message, const void *bytes,
                         size_t size);
/* The same: the bytes of @m in one piece: lent, or copied to *@copy (mr_free()). NULL: no
 * memory. */
const void *mr_rpc_message_flat(const mr_rpc_message *m, void **copy);

/* What a server answers to a method that it does not have, and to a request that is too large. */
int mr_rpc_no_method(const char *path, mr_error *err);
int mr_rpc_too_large(const struct mr_rpc_method *method, size_t size, mr_error *err);
