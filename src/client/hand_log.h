/*
 * How many of the elements that a read gave were handed out to the application, and not given back unused: what the
 * read says goodbye with.
 *
 * Known where nothing stands behind the read that holds elements back, drops some or makes them on threads of its own.
 * Behind operators that drop or add elements, but take no more than they need for the next one, all that the read gave
 * was used when that one is handed out; so there elements are pulled one by one. Operators that hold elements back
 * count as part of the application.
 *
 * Threads: safe from any; init belongs to the owner.
 */
#ifndef MR_CLIENT_HAND_LOG_H
#define MR_CLIENT_HAND_LOG_H

#include <millrace/dataset.h>
#include <stdatomic.h>

struct mr_hand_log {
    bool follows;            /* it is known; constant, as is the next one */
    bool one_by_one;         /* it is where each pull is for one element ... */
    bool splits_elements;    /* ... and not where an element that was taken may have been handed out in part */
    atomic_bool under_way;   /* the last pull ended without an element: operators may hold what it took */
    _Atomic uint64_t handed; /* elements */
    _Atomic uint64_t unused; /* of these: given back */
    atomic_bool failed;      /* instead of an element came an error: not known any more */
};

void mr_hand_log_init(struct mr_hand_log *log, const mr_dataset *ds);
bool mr_hand_log_knows(const struct mr_hand_log *log);
/* Of @taken elements that the read gave, so many are unused, if that is known; at most @max, the last ones. */
uint64_t mr_hand_log_unused(const struct mr_hand_log *log, uint64_t taken, uint64_t max);

#endif
