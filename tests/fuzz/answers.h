/*
 * A dispatcher of few words, for what talks to one through wire.h: calls are answered with lines of
 * the input, in order, and updates are pushed to whoever watches.
 *
 * Threads: as in wire.h; answers_called() may come from any.
 */
#pragma once

#include "lines.h"
#include "wire.h"

#include <pthread.h>

/* The header of whoever leads; a message without one is given it. */
#define SOUND_HEADER "{\"header\":{\"cluster\":\"c\",\"incarnation\":\"1\",\"epoch\":\"1\"}}"
#define ANSWERS_MAX 8

struct answer {
    const char *method; /* "Open": of the dispatcher's service */
    const char *line;   /* whose JSON answers it */
    const ProtobufCMessageDescriptor *desc;
    /* What it is in bytes, freed with free(); NULL: nothing. answers_reply() if the line is the
     * reply itself. */
    void *(*pack)(const ProtobufCMessageDescriptor *desc, const char *json, size_t *size);
    bool may_wait; /* without a line there is no answer; else a sound and empty one */
};

struct answers {
    const struct answer *known;
    size_t n;
    const struct lines *lines;
    char address[32];     /* of the dispatcher: another one each time */
    pthread_mutex_t lock; /* guards everything below */
    size_t next[ANSWERS_MAX];
    bool over;
};

void answers_open(struct answers *a, const struct answer *known, size_t n,
                  const struct lines *lines);
/* From here on all calls fail for good: nobody tries again. */
void answers_end(struct answers *a);
void answers_close(struct answers *a);

/* For struct wire_ops; @answers is a struct answers. */
int answers_called(void *answers, const char *path, const void *request, size_t size,
                   struct mr_buf *reply);
/* Hand @json to the newest stream at @path that is open, and wait until it was taken. */
void answers_push(const char *path, const ProtobufCMessageDescriptor *desc, const char *json);

void *answers_reply(const ProtobufCMessageDescriptor *desc, const char *json, size_t *size);
void *answers_pack(const ProtobufCMessage *msg, size_t *size); /* freed with free() */
