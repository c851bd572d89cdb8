/*
 * A worker of a coordinated job that sends what a test says, over real connections: one consumer's
 * stream to one task.
 *
 * Threads: rpc's thread notes what came, under `lock`; the functions are for the test's thread.
 */
#pragma once

#include "millrace/service.pb-c.h"
#include "rpc/rpc.h"

#include <pthread.h>

struct fake_turns {
    mr_rpc_server *srv;
    char address[64];
    char incarnation[64];
    const char *task;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool strings; /* elements of another spec than was agreed */
    mr_rpc_stream *stream;
    bool sending;
    unsigned opens;
    unsigned ends;            /* streams that are over */
    uint64_t number;          /* of the stream, as the client counts */
    Millrace__RoundOpen open; /* the last one */
    uint64_t elements;        /* sent on this stream */
    /* what the last message says */
    uint64_t limit_round;
    uint64_t limit_bytes;
    uint64_t received_below;
    uint64_t returned_below;
};

void fake_turns_start(struct fake_turns *w, mr_rpc_runtime *rt, const char *task);
void fake_turns_stop(struct fake_turns *w);

/* So many streams were opened, and the last one is there. */
void fake_turns_wait_opens(struct fake_turns *w, unsigned n);
/* So many streams are over. */
void fake_turns_wait_ends(struct fake_turns *w, unsigned n);
void fake_turns_wait_received(struct fake_turns *w, uint64_t below);
void fake_turns_wait_returned(struct fake_turns *w, uint64_t below);

/* A message with @n elements; those of round r have the value r. */
void fake_turns_send(struct fake_turns *w, Millrace__RoundHeader *header, uint32_t n);
/* The stream is refused. */
void fake_turns_refuse(struct fake_turns *w, int code);
/* Break the stream off. */
void fake_turns_break(struct fake_turns *w);
