/*
 * How many of the elements that a read gave did the application use: what it was handed and did not
 * give back. What it was handed counts as used when it comes back for more, or closes: until then
 * it may be in the middle of it.
 *
 * How well that is known depends on what stands behind the read (enum mr_hand_way). An error in the
 * place of an element used it.
 *
 * Threads: init and the reader's word belong to the owner, as do come() and came(); the rest is
 * safe from any.
 */
#pragma once

#include <millrace/dataset.h>
#include <stdatomic.h>

enum mr_hand_way {
    MR_HAND_UNKNOWN,
    /* One comes out for each that goes in, in that order: the first ones are used, whatever is held
     * back. */
    MR_HAND_IN_ORDER,
    /* One for each, in another order: how many are held back is known, not which. */
    MR_HAND_MIXED,
    /* Operators drop or add elements, but take no more than they need for the next one: so elements
     * are pulled one by one, and all that the read gave was used when that one is handed out and
     * the application has taken it. */
    MR_HAND_ONE_BY_ONE,
};

struct mr_hand_log {
    enum mr_hand_way way; /* constant, as is the next one */
    /* one by one: an element that was taken may have been handed out in part */
    bool splits_elements;
    /* the last pull ended without an element: operators may hold what it took */
    atomic_bool under_way;
    atomic_bool ended;       /* ... with the end: they hold nothing */
    _Atomic uint64_t pulls;  /* that were begun; one without an element goes on with the next */
    _Atomic uint64_t handed; /* elements */
    _Atomic uint64_t last;   /* ... by the last pull */
    _Atomic uint64_t unused; /* of these: given back */
    /* In order: the reader, which is told that the first @used elements are used; mixed: so many.
     * NULL: nobody. */
    void (*tell)(void *reader, uint64_t used);
    void *reader;
};

void mr_hand_log_init(struct mr_hand_log *log, const mr_dataset *ds);
/* The application wants more: it is through with what it was handed. */
void mr_hand_log_come(struct mr_hand_log *log);
/* The pull gave @rows elements, or, @failed, an error in the place of one; neither: nothing.
 * @ended: it was the end. */
void mr_hand_log_came(struct mr_hand_log *log, uint32_t rows, bool failed, bool ended);

/* One by one: of what was made in the last pull the application has not had something; anything. */
bool mr_hand_log_unused(const struct mr_hand_log *log);
bool mr_hand_log_unused_last(const struct mr_hand_log *log);
/* In order, mixed: elements that were used, if the application is through with all that it did not
 * give back. */
uint64_t mr_hand_log_used(const struct mr_hand_log *log);

/* Operators may hold elements, or a part of one, of which nobody knows whether they are used. */
bool mr_hand_log_may_hold(const struct mr_hand_log *log);
