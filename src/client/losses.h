/*
 * What the reads of one iterator ended without, summed up: an iterator may hold several (zip), and
 * read each of them several times (repeat).
 *
 * Threads: all functions are safe from any thread; init and destroy belong to the owner.
 */
#pragma once

#include <millrace/iterator.h>
#include <pthread.h>

struct mr_loss_tally {
    pthread_mutex_t lock; /* guards all below */
    struct mr_losses sum;
    uint64_t skipped; /* elements that reads under way have missed, too */
    uint64_t ignored; /* errors of elements that workers have left out */
};

void mr_loss_tally_init(struct mr_loss_tally *t);
void mr_loss_tally_destroy(struct mr_loss_tally *t);
/* To @t NULL nothing is added. */
void mr_loss_tally_add(struct mr_loss_tally *t, const struct mr_losses *more);
void mr_loss_tally_get(struct mr_loss_tally *t, struct mr_losses *ret);
/* @n more elements fell out of the window of a shared production before the job had them. */
void mr_loss_tally_skip(struct mr_loss_tally *t, uint64_t n);
uint64_t mr_loss_tally_skipped(struct mr_loss_tally *t);
/* ignore_errors of workers' pipelines have left out @n more elements. */
void mr_loss_tally_ignore(struct mr_loss_tally *t, uint64_t n);
uint64_t mr_loss_tally_ignored(struct mr_loss_tally *t);
