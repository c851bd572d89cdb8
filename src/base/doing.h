/*
 * What a thread does at the moment, for somebody who looks now and then (engine/profile.h): a word
 * that the thread writes when that changes. So nobody reads a clock on the way of an element. As
 * with memory budgets (memory.h) and cancelling (cancel.h), each thread has its own; most have none
 * and write nothing.
 *
 * Threads: the word has one writer, the thread that entered it; anybody reads it.
 */
#pragma once

#include <millrace/base.h>
#include <pthread.h>
#include <stdatomic.h>

enum mr_doing_what {
    MR_DOING_WORK,
    MR_DOING_STORAGE, /* it waits for a file system */
    MR_DOING_SPLITS,  /* ... for the dispatcher to hand out splits */
    MR_DOING_STAGE,   /* ... for the threads of a stage */
    MR_DOING_KINDS,
};

#define MR_DOING_PATH_BYTES 200

struct mr_doing {
    /* For whom (a number of the reader's, from 1 on) and what: mr_doing_word(). 0: nothing. */
    _Alignas(64) atomic_uint_least32_t word;
    pthread_mutex_t lock;           /* guards what follows */
    char path[MR_DOING_PATH_BYTES]; /* the file that it waited for last; "": none so far */
};

static inline uint32_t mr_doing_word(uint32_t whose, enum mr_doing_what what)
{
    return whose << 3 | (uint32_t)what;
}

static inline uint32_t mr_doing_whose(uint32_t word)
{
    return word >> 3;
}

static inline enum mr_doing_what mr_doing_what(uint32_t word)
{
    return (enum mr_doing_what)(word & 7);
}

/* What this thread does is written there from now on (lent; NULL: nowhere). Returns where it was
 * before, to be entered again. */
struct mr_doing *mr_doing_enter(struct mr_doing *doing);

/* Where this thread writes; NULL: nowhere. Only to be read: each pull of an operator does. */
extern _Thread_local struct mr_doing *mr_doing_current;

/* It does @word. Returns what it did before. Nobody else writes it: no atomic exchange is needed. */
static inline uint32_t mr_doing_change(struct mr_doing *doing, uint32_t word)
{
    uint32_t before = atomic_load_explicit(&doing->word, memory_order_relaxed);

    atomic_store_explicit(&doing->word, word, memory_order_relaxed);
    return before;
}

/* The same of this thread, if it writes anywhere. What it returns is to be given to
 * mr_doing_end(). */
uint32_t mr_doing_begin(uint32_t word);
void mr_doing_end(uint32_t before);
/* The same, for whom it works anyway: it waits for the file system that @path is on. */
uint32_t mr_doing_begin_storage(const char *path);
/* ... for something else. */
uint32_t mr_doing_begin_wait(enum mr_doing_what what);
