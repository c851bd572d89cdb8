/*
 * Walk the elements of a dataset, made here or by the workers it is distributed to.
 *
 * An iterator belongs to one thread at a time; only mr_iterator_cancel(), mr_iterator_skipped(),
 * mr_iterator_ignored_errors() and mr_iterator_round() may come from another. It must be used in
 * the process that opened it: after a fork the child gets MR_EPRECOND.
 */
#ifndef MILLRACE_ITERATOR_H
#define MILLRACE_ITERATOR_H

#include <millrace/base.h>
#include <millrace/block.h>
#include <millrace/dataset.h>

MR_BEGIN_DECLS

typedef struct mr_iterator mr_iterator;

/* Zero means "the default" in every field; new fields only ever join at the end. */
struct mr_iterator_options {
    size_t struct_size; /* sizeof: lets an old caller meet a new library */
    uint64_t seed;      /* for operators without a seed of their own; 0: drawn */
    /* of this iterator; default: what there is for all iterators of the process, which is a
     * quarter of the memory it may use */
    uint64_t memory_budget_bytes;
    uint32_t threads; /* default: cores this process may use */
};

/* One element: row @row of @block, which is lent (mr_iterator_next()). */
struct mr_element {
    mr_block *block;
    uint32_t row;
};

/*
 * Start walking @ds. Does not wait for a service: errors of reaching one come from the first read.
 * The iterator holds its own reference to @ds. *@ret belongs to the caller (mr_iterator_free()).
 */
MR_API int mr_iterator_open(mr_dataset *ds, const struct mr_iterator_options *opts,
                            mr_iterator **ret, mr_error *err);

/*
 * Next block of 1..@rows_max elements: MR_OK, MR_END after the last, MR_TIMEOUT if nothing came
 * within @timeout_ms (-1: wait for ever), or < 0. *@ret is the caller's reference: it stays valid
 * after the next call, until mr_block_unref(). @rows_max = 0: as many as are ready. What was handed
 * out counts as returned to the application.
 */
MR_API int mr_iterator_next_block(mr_iterator *it, uint32_t rows_max, int timeout_ms,
                                  mr_block **ret, mr_error *err);

/*
 * Errors. After one that an element fails with the next call goes on behind that element. One that
 * a read from a service ends with (the service cannot be reached, the job failed, elements were
 * lost and on_loss says "error") is final, as is that of a zip whose inputs are out of step: it has
 * the trait MR_PERMANENT, and each further call returns it again, at once, and asks nobody. To try
 * again open another iterator.
 */

/*
 * Next element, waiting as long as it takes: MR_OK, MR_END or < 0. *@ret is lent until the next
 * call on @it; take mr_block_ref(ret->block) to keep it longer.
 */
MR_API int mr_iterator_next(mr_iterator *it, struct mr_element *ret, mr_error *err);

/*
 * What the reads from a service that have ended so far did not deliver, or may have delivered
 * twice. Of a read that was left before its end only what it took along is counted, and only by
 * mr_iterator_close().
 */
struct mr_losses {
    size_t struct_size;   /* sizeof, set by the caller: lets an old caller meet a new library */
    uint64_t lost_splits; /* DYNAMIC: an upper bound of the splits whose elements are missing */
    /* of lost_splits: at most so many; 0 with lost_splits: not known (files, flat_map) */
    uint64_t lost_elements;
    /* of lost_splits: given up, since the workers that had one of them died */
    uint64_t quarantined_splits;
    /* at_least_once: handed out again after a loss; an upper bound of what came twice */
    uint64_t repeated_splits;
    uint64_t lost_workers;     /* lost while they had a task of these reads */
    uint64_t incomplete_reads; /* reads with elements missing */
    /* that fell out of the window of a shared production before the job had them */
    uint64_t skipped_elements;
    uint64_t abandoned_elements; /* that went with readers of the job, perhaps unused */
};

/* Never waits. As many fields as @ret->struct_size has room for are written; MR_EINVAL if that is
 * no size. */
MR_API int mr_iterator_losses(mr_iterator *it, struct mr_losses *ret, mr_error *err);

/*
 * How many elements its reads from a service have missed so far, because they fell out of the
 * window of a production that others read faster (lag "skip"). Counted for the job: readers that
 * share one see the same. Never waits.
 */
MR_API int mr_iterator_skipped(mr_iterator *it, uint64_t *ret, mr_error *err);

/*
 * How many errors of elements its ignore_errors have left out so far. Those of a part that workers
 * run are counted for the job, as far as messages have said: readers that share one see the same.
 * Those of a production that jobs share are not counted (the worker's metrics have them). A
 * restored iterator counts on. Never waits.
 */
MR_API int mr_iterator_ignored_errors(mr_iterator *it, uint64_t *ret, mr_error *err);

/*
 * Of which round of a coordinated read the element is that was handed out last: MR_OK, or MR_END if
 * none was (yet). Rounds are numbered from 0 for all consumers alike, and some may be left out
 * after a worker was lost: whoever keeps a checkpoint keeps this number, and begins again with
 * resume_round = *@ret + 1. Works behind map (in order), prefetch, take and enumerate, too; behind
 * other operators it is MR_EPRECOND, which names them, and so it is for what comes after an element
 * whose function failed here. Never waits.
 */
MR_API int mr_iterator_round(mr_iterator *it, uint64_t *ret, mr_error *err);

/*
 * The last @rows elements that mr_iterator_next_block() handed out were not used. For an iterator
 * that is freed next: a read from a service leaves them to other readers of its job, as it does
 * with what it was sent and did not hand out. What map (in order), prefetch, take and enumerate
 * hold goes there, too; what other operators hold is lost. Only the last call counts.
 */
MR_API void mr_iterator_give_back(mr_iterator *it, uint64_t rows);

/* Make a blocked read, and all later ones, return MR_ECANCELED. Any thread, any number of times. */
MR_API void mr_iterator_cancel(mr_iterator *it);

/*
 * The position, as bytes that mr_iterator_restore() of an iterator over an equal dataset takes.
 * *@ret is freed with mr_free(). MR_EPRECOND names the operator that cannot be saved.
 */
MR_API int mr_iterator_save(mr_iterator *it, void **ret, size_t *size, mr_error *err);
/* Only before the first read. MR_EINVAL if the state is of another dataset or damaged. */
MR_API int mr_iterator_restore(mr_iterator *it, const void *state, size_t size, mr_error *err);

/*
 * Release @it. Waits for its threads; a read from a service is said goodbye to, which takes at most
 * some four seconds, where nobody answers. NULL is fine.
 */
MR_API void mr_iterator_free(mr_iterator *it);

/*
 * The same, and then what mr_iterator_losses() would say (nothing, if @ret->struct_size is no
 * size): to a read that is left before its end it may be that nobody gets what it was sent and the
 * application did not take.
 */
MR_API void mr_iterator_close(mr_iterator *it, struct mr_losses *ret);

MR_END_DECLS

#endif
