/* Running finished functions (mr_function) on blocks. The graph form itself lives in src/dataset/;
 * here it is compiled into a plan once (dead nodes dropped, elementwise chains run tile by tile in
 * L1) and run on n rows. */
#pragma once

#include "element/block.h"
#include "ops/kernel.h"

typedef struct mr_program mr_program;

/* Among the traits of a program's error, inside of the engine only: where functions were put behind
 * one another (mr_function_compose()), how many of them stand behind the one that failed. */
#define MR_BEHIND_SHIFT 12
#define MR_BEHIND_MAX 4095u
#define MR_BEHIND (MR_BEHIND_MAX << MR_BEHIND_SHIFT)

/* Compile @fn. Holds a reference. Immutable afterwards: many threads may run one program. */
int mr_program_new(mr_function *fn, mr_program **ret, mr_error *err);
void mr_program_free(mr_program *p);
MR_AUTO_DEFINE(mr_program, mr_program_free)

/*
 * Run on all rows of @in (columns = the function's input leaves). @captures: one block of one row
 * whose columns are the function's captures in order, or NULL if it has none. *@ret has as many
 * rows as @in, and its origin.
 *
 * If row k fails: *@ret is the block of the k rows before it (NULL if k = 0), *@bad_row = k, and
 * the code is negative; err names the tensor operator and its location.
 */
int mr_program_run(const mr_program *p, const mr_block *in, const mr_block *captures,
                   const struct mr_kernel_random *random, mr_block **ret, uint32_t *bad_row,
                   mr_error *err);
