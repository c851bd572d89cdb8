/*
 * Pulling ahead: a thread pulls an input while the consumer is busy. What is ready waits in a
 * queue: at most so many elements (more of them if they are small and quickly made, for handing
 * each over would cost more than it brings, and there is memory), or, if that is automatic, as many
 * blocks as it takes for the consumer not to find the queue empty. This is what prefetch does, and
 * what shuffle does with its input below a stage that pulls ahead anyway.
 *
 * If blocks are so quickly made that handing them over may cost more than it brings, the thread
 * rests from time to time and the consumer pulls for itself; what has proved to be quicker goes on
 * (engine/trial.h). Nor does the thread begin again for each block that leaves a full queue: waking
 * it would cost as much as the block.
 *
 * Threads: the consumer's; the thread that pulls is its own.
 */
#pragma once

#include "engine/driver.h"
#include "engine/trial.h"

struct mr_ahead_entry;

struct mr_ahead {
    struct mr_op_iter *input;       /* its own from mr_ahead_init() on */
    atomic_uint_least32_t *outcome; /* of the dataset's last trial */
    struct mr_driver driver;
    uint32_t threads;  /* 1; 0: none was left, and nothing is pulled ahead */
    uint64_t rows_max; /* 0: automatic */
    /* Whether the consumer pulls for itself, the second way. */
    struct mr_trial trial;
    bool in_place; /* the thread is paused */
    bool quick;    /* the last calls of the input were */
    bool unusual;  /* what the consumer does between its calls: they do not count */
    /* all below guarded by driver.lock */
    struct mr_ahead_entry *first;
    struct mr_ahead_entry **last;
    uint64_t rows;
    size_t bytes; /* of the blocks in the queue */
    int64_t ns;   /* that they took to make */
    uint32_t blocks;
    uint32_t errors; /* of them */
    uint32_t blocks_max;
    uint32_t demand;
    uint32_t slow; /* calls of the input, the last ones, that were not quick */
    bool pulling;
    bool full; /* it was, and more than `low` elements are left */
    uint64_t low;
    bool ended;
};

/* @ds: of the stage, for the next iterator over it. Takes over @input. @a stays where it is until
 * mr_ahead_close(). */
void mr_ahead_init(struct mr_ahead *a, struct mr_env *env, const mr_dataset *ds,
                   struct mr_op_iter *input, uint64_t rows_max);
/* An iterator over @ds has found out before whether pulling ahead pays. */
bool mr_ahead_is_known(const mr_dataset *ds);
/* As mr_op_pull(), of the input. */
int mr_ahead_pull(struct mr_ahead *a, const struct mr_pull *pull, mr_block **ret, mr_error *err);
/* The state of the queue and of the input. */
int mr_ahead_state(struct mr_ahead *a, struct mr_state *s, mr_error *err);
void mr_ahead_close(struct mr_ahead *a); /* zeros are fine */
