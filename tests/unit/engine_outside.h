/* A source from elsewhere, as reads of a service are: 0, 1, 2, ... It notes what it is asked for. */
#pragma once

#include "engine_support.h"

#include <pthread.h>

struct outside {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t rows; /* how many there are */
    int64_t next;
    int64_t blocks_at;    /* from this element on it waits until cancelled; -1: never */
    int64_t cancelled_at; /* at this element it says that it was cancelled; 0: never */
    uint32_t largest;     /* rows asked for at once */
    uint64_t ordinal;     /* of the last open */
    int opened;
    int closed;
    bool waiting;
    bool cancelled;
};

/* Freed with free(). */
struct outside *outside_new(int64_t rows, int64_t blocks_at);
/* An mr_external_opener's, whose ctx is a struct outside. */
int outside_open(void *ctx, const char *op, const struct mr_attr *attrs, size_t nattrs,
                 mr_dataset *input, uint64_t ordinal, struct mr_external_iter *ret, mr_error *err);
/* The dataset that reads it. */
mr_dataset *make_outside(void);
