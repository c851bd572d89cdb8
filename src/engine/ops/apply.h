/* Running a function on blocks: what map and filter share. */
#pragma once

#include "base/clock.h"
#include "engine/ops/ops.h"

/* The function of an iterator, ready to run. */
struct mr_apply {
    const mr_program *program; /* lent by the environment */
    mr_block *captures;        /* NULL: none */
    struct mr_kernel_random random;
    uint64_t part; /* draws of rows without places are this part's own */
    bool places;   /* results have the places of their rows */
};

int mr_apply_init(struct mr_apply *a, const struct mr_op_iter *it, const mr_function *fn,
                  mr_program *program, mr_error *err);
/* With the environment's program for @fn. */
int mr_apply_open(struct mr_apply *a, const struct mr_op_iter *it, mr_function *fn, mr_error *err);
void mr_apply_free(struct mr_apply *a);

/* Run on @in, whose first row is element @index of the input. As mr_program_run(): on failure *@ret
 * is what came before the bad row (NULL: nothing). */
int mr_apply_run(const struct mr_apply *a, const mr_block *in, uint64_t index, mr_block **ret,
                 uint32_t *bad_row, mr_error *err);

/* The input of a one-at-a-time stage: blocks from below, of which an error may leave the end
 * behind. */
/* A call should be over within this: in between, interruptions are noticed, and what is ready can be
 * taken. */
#define MR_APPLY_SOON_NS (100 * MR_NS_PER_MS)

struct mr_apply_input {
    mr_block *rest; /* from row `used` on: rows behind one that failed; NULL: none */
    uint32_t used;
    const mr_block *given; /* what was taken of `rest` last, up to row `used`; NULL: nothing */
    uint64_t index;        /* of the next row */
    uint64_t begun;        /* what that was when rows were taken last */
    uint32_t most; /* rows at a time, where more of them did not fit into memory; 0: any number */
    uint32_t soon; /* rows that a call is done with soon; 0: none was made */
};

/* The rows to run next, at most pull->rows of them, and not so many that whoever wants to interrupt
 * the call has to wait for long. The caller's reference. */
int mr_apply_next(struct mr_apply_input *in, struct mr_op_iter *below, const struct mr_pull *pull,
                  mr_block **ret, mr_error *err);
/* A call with @rows took @ns, or @rows calls did; mr_apply_fit() says so itself. */
void mr_apply_learn(struct mr_apply_input *in, uint32_t rows, int64_t ns);
/* Run on *@block, which mr_apply_next() gave: on fewer rows of it, if the results of all do not fit
 * into the memory budget. Then *@block is those, and what is behind them is kept. Else as
 * mr_apply_run(). */
int mr_apply_fit(const struct mr_apply *a, struct mr_apply_input *in, mr_block **block,
                 mr_block **ret, uint32_t *bad_row, mr_error *err);
/* Row @bad of @block failed: keep what is behind it. */
int mr_apply_keep(struct mr_apply_input *in, const mr_block *block, uint32_t bad, mr_error *err);
/* The rows of @block from @first on come next, before what is kept already; where there is nothing,
 * that does not fail. */
int mr_apply_put_back(struct mr_apply_input *in, const mr_block *block, uint32_t first,
                      mr_error *err);
/* @rc became of @block, which mr_apply_next() gave: unless some of it is done with, it comes again
 * behind an error. Returns @rc. */
int mr_apply_done(struct mr_apply_input *in, const mr_block *block, int rc);
/* Row @bad of @block failed: @rc, @failure. What is behind it is kept, and the error is given; but
 * *@before, what is to be given before it, goes first, unless it is NULL. */
int mr_apply_failed(struct mr_apply_input *in, struct mr_op_iter *head, const mr_block *block,
                    uint32_t bad, int rc, mr_error *failure, mr_block **before, mr_block **ret,
                    mr_error *err);
/* What a predicate gave of @block, a bool for each row of @verdict. Are they none, it is the first
 * row that failed. */
int mr_apply_bools(struct mr_apply_input *in, const struct mr_op_iter *head, const mr_block *block,
                   const mr_block *verdict, const uint8_t **ret, mr_error *err);
/* What a function from elements to scalar int64s, such as their keys, gave for row @row. */
int mr_apply_int64(const mr_block *results, uint32_t row, int64_t *ret, mr_error *err);
int mr_apply_state(struct mr_apply_input *in, const mr_spec *spec, struct mr_state *s,
                   mr_error *err);
