/*
 * rpc/ without a network (all of rpc.h that clients, workers, control/ and the etcd store use):
 * what these call is answered, and what comes to them is sent, by a fuzz target. Callbacks run on a
 * thread of their own, as they do there. What rpc.h forbids (two sends at once, a second receive,
 * something left at the end) ends the program.
 *
 * Link it before the archives; with `-Wl,--wrap=mr_backoff_ms` nobody backs off for longer than a
 * moment.
 *
 * Threads: wire_* belong to one thread; `called` and `sent` run on any, with whatever locks the
 * caller holds: they only take notes.
 */
#pragma once

#include "rpc/rpc.h"

struct wire_ops {
    /* A call: MR_OK with *@reply, < 0: it fails so, MR_TIMEOUT: no answer until it is cancelled. */
    int (*called)(void *ctx, const char *path, const void *request, size_t size,
                  struct mr_buf *reply);
    /* The program sent a message. NULL: nobody looks. */
    void (*sent)(void *ctx, mr_rpc_stream *s, const void *bytes, size_t size);
    void *ctx;
};

/* For one input; the program acquires a runtime in between, and has released it at the end. */
void wire_open(const struct wire_ops *ops);
void wire_close(void);

/* All streams there ever were, in order; NULL behind the last. Lent until wire_close(). */
mr_rpc_stream *wire_stream(size_t i);
/* The newest one at @path; @open: that is not over. NULL: none. */
mr_rpc_stream *wire_last(const char *path, bool open);
const char *wire_path(const mr_rpc_stream *s);
/* Anything that belongs to it. The target's; NULL at first. */
void *wire_note(mr_rpc_stream *s);
void wire_set_note(mr_rpc_stream *s, void *note);

/* Somebody opens a stream at the server here. */
mr_rpc_stream *wire_accept(const char *path);
/* The program is handed these bytes when it asks for a message; without effect once the stream is
 * over. */
void wire_message(mr_rpc_stream *s, const void *bytes, size_t size);
/* The other end ends it. */
void wire_end(mr_rpc_stream *s, int code);
/* Until nothing has happened for a moment. */
void wire_settle(void);
/* Until the program asks for another message on @s, or has ended it; not for long. */
void wire_wait_taken(mr_rpc_stream *s);
/* Until the program has opened a stream at @path; no longer than that. */
void wire_wait_opened(const char *path, int64_t timeout_ms);
