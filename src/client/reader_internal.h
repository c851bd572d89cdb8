/*
 * What the files of a reader share. Nothing else includes it.
 *
 * A reader runs a read (client/read/read.h) over gRPC. Its threads: the application's (pull);
 * `calls` (attaches, heartbeats; it makes and frees the watch); the watch's own (task lists);
 * `timer` (what is due: connections that are tried again, acknowledgements, credits that are to
 * move on, what nobody needs any more); rpc's (messages). All meet under reader->lock.
 */
#pragma once

#include "base/memory.h"
#include "client/read/internal.h"
#include "client/reader.h"
#include "control/control.h"

#include <pthread.h>

#define MR_READER_MAGIC 0x52454144u
#define MR_READER_LINE_MAGIC 0x4c494e45u

struct mr_reader {
    uint32_t magic;
    mr_rpc_runtime *rt;
    mr_control *control;
    mr_memory *memory; /* the budget of whoever reads: what was received is part of it */
    pthread_t calls;
    pthread_t timer;
    atomic_bool cancelled; /* also the cancel flag of all calls */

    pthread_mutex_t lock;     /* guards `read`, its tasks and their lines */
    pthread_cond_t ready;     /* for pull */
    pthread_cond_t due;       /* for calls, and for who closes */
    pthread_cond_t timer_due; /* for the timer, which is woken for each message that comes */
    struct mr_read read;
};

/* How a task reaches its worker: its `line`. */
struct mr_reader_line {
    uint32_t magic;
    struct mr_read_task *task;
    mr_rpc_channel *channel;
    mr_rpc_stream *stream; /* NULL: not connected; set until it has ended */
};

/* Of a callback's or thread's argument. */
static inline mr_reader *mr_reader_from(void *ctx)
{
    mr_reader *r = ctx;

    MR_ASSERT(r->magic == MR_READER_MAGIC);
    return r;
}

static inline mr_reader *mr_reader_of(const struct mr_read *read)
{
    return mr_reader_from((char *)(uintptr_t)read - offsetof(mr_reader, read));
}

/* ---- reader_lock.c ---- */

/* Something is to happen to the read: take the lock, and the time. */
void mr_reader_enter(mr_reader *r);
/* It has: wake whom that concerns. The lock is kept; or let go before they are woken, who would
 * wait for it again. */
void mr_reader_wake_locked(mr_reader *r);
void mr_reader_leave(mr_reader *r);

/* ---- reader_calls.c: the session with the dispatchers ---- */

void *mr_reader_run_calls(void *reader);

/* ---- reader_streams.c: lines to workers ---- */

int mr_reader_connect(struct mr_read_task *t, mr_error *err);
bool mr_reader_send(struct mr_read_task *t, const uint8_t *bytes, size_t size);
void mr_reader_cut(struct mr_read_task *t);
/* It has no stream. NULL is fine. May wait for gRPC, whose thread may wait for the lock. */
void mr_reader_line_free(void *line);
