/*
 * The plan of a function: what mr_program_new() makes and mr_program_run() carries out. Constant
 * once it is made, but for the sizes that rows were found to have.
 *
 * Every value that matters has a slot. A slot is *uniform* when it is the same for all rows
 * (constants, captures, and what is computed from them): it is kept as one row. Steps are in an
 * order in which inputs come before their users.
 *
 *   eval step    one kernel over whole columns
 *   fused step   elementwise kernels whose results have one shape, run tile by tile: values that
 *                nobody outside needs live in registers (scratch memory that stays in L1), the
 *                others are written to columns. At run time it wants FIXED columns of one shape;
 *                otherwise its kernels run one by one.
 */
#pragma once

#include "dataset/graph.h"
#include "engine/program.h"

#include <stdatomic.h>

#define MR_PLAN_NONE UINT32_MAX
#define MR_FUSED_OPS_MAX 32u
#define MR_FUSED_INPUTS_MAX 3u
#define MR_FUSED_EXTERNALS_MAX 32u
#define MR_FUSED_SCRATCH_BYTES 32768u
#define MR_FUSED_TILE_MIN 256u
#define MR_FUSED_TILE_MAX 1024u

enum mr_slot_kind {
    MR_SLOT_INPUT,
    MR_SLOT_CAPTURE,
    MR_SLOT_CONSTANT,
    MR_SLOT_RESULT,
};

struct mr_slot {
    uint8_t kind; /* enum mr_slot_kind */
    bool uniform;
    /* `column` is a result computed when the plan was made: the plan holds its buffers */
    bool folded;
    uint32_t index;                /* of the input or capture */
    struct mr_owned_column column; /* constants */
    struct mr_leaf_spec spec;
};

/* A kernel with what it needs. */
struct mr_plan_op {
    const struct mr_fn_node *node;  /* the function holds it */
    uint32_t number;                /* of the node that errors name, in the function */
    const struct mr_kernel *kernel; /* the node's, or what it and another became (merge.c) */
    const struct mr_attr *attrs;
    size_t nattrs;
    struct mr_attr *merged; /* memory of `attrs`, if they are of two nodes */
    uint32_t *in;           /* slots */
    size_t nin;
    uint32_t *out; /* slots; MR_PLAN_NONE where nobody needs the result */
    size_t nout;
    void *state;                          /* from prepare() */
    struct mr_kernel_function *functions; /* with programs, which are the op's */
    size_t nfunctions;
    uint32_t salt;
};

enum mr_operand_kind {
    MR_OPERAND_REGISTER,
    MR_OPERAND_OUTPUT,   /* of the fused step, being written */
    MR_OPERAND_EXTERNAL, /* a slot computed before the step */
};

struct mr_operand {
    uint8_t kind; /* enum mr_operand_kind */
    uint8_t width;
    uint8_t step; /* 0: one value for all */
    /* REGISTER: offset in the scratch memory; OUTPUT, EXTERNAL: in the step's lists */
    uint32_t index;
};

struct mr_fused_op {
    mr_kernel_loop loop;
    uint32_t op; /* in plan->ops */
    uint32_t nin;
    struct mr_operand in[MR_FUSED_INPUTS_MAX];
    struct mr_operand out;
};

struct mr_fused {
    uint32_t nops;
    uint32_t noutputs;
    uint32_t nexternals;
    uint32_t tile; /* values */
    struct mr_fused_op ops[MR_FUSED_OPS_MAX];
    uint32_t outputs[MR_FUSED_OPS_MAX]; /* slots */
    struct mr_operand
        stages[MR_FUSED_OPS_MAX]; /* REGISTER: a tile of each output, to be streamed */
    uint32_t externals[MR_FUSED_EXTERNALS_MAX]; /* slots */
};

struct mr_step {
    struct mr_fused *fused; /* NULL: eval `op` */
    uint32_t op;
    bool uniform;   /* one row for all rows */
    uint32_t *dead; /* slots that nobody needs after this step */
    uint32_t ndead;
};

struct mr_program {
    mr_function *fn;
    struct mr_slot *slots;
    uint32_t nslots;
    struct mr_plan_op *ops;
    uint32_t nops;
    struct mr_step *steps;
    uint32_t nsteps;
    uint32_t *outputs; /* slots, one a result of the function */
    uint32_t noutputs;
    uint32_t ninputs;
    uint32_t ncaptures;
    uint32_t nreaders; /* operators that read a file for each row */
    uint32_t *kept;    /* slots: results of each row that are there until the end of a run */
    uint32_t nkept;
    struct mr_row_sizes *sizes; /* of the last block; all else is constant */
};

/* Bytes of a row: of results that only later steps read, and of kept results of unknown size. */
struct mr_row_sizes {
    _Atomic uint64_t inner;
    _Atomic uint64_t loose;
};

/* What becomes of a node beside others: a slice of a decoded image needs no more than its part to
 * be decoded. */
struct mr_merge {
    const struct mr_merge_rule *rule;  /* NULL: it stays as it is */
    const struct mr_fn_node *producer; /* of its first input, which it takes in */
    uint32_t number;                   /* of the producer */
    bool needed;                       /* somebody reads its result as it is */
    bool absorbed;                     /* nobody does any more */
    uint32_t consumers;                /* of the users that take it in, those worth while */
};

/* *@ret: one a node of @fn; the caller's. */
int mr_plan_merges(const mr_function *fn, const bool *live, struct mr_merge **ret, mr_error *err);
/* Kernel and attributes of @op, which is of a node with a rule. */
int mr_plan_merge(const struct mr_merge *merge, struct mr_plan_op *op, mr_error *err);

/* Put the ops into steps. Ops are in order; constants are folded already (their op has nout =
 * 0). */
int mr_plan_schedule(struct mr_program *p, mr_error *err);

/* What @op of @p said of itself gets its name and place. */
void mr_plan_name_op(const struct mr_program *p, const struct mr_plan_op *op, mr_error *err);
/* The slot of the path, if @op reads a file; else MR_PLAN_NONE. It lives as long as the run. */
uint32_t mr_plan_path_slot(const struct mr_plan_op *op);
/* What @op said of row @row gets the path of the file that the row was made of, if the function has
 * read one. */
void mr_plan_name_file(const struct mr_program *p, const struct mr_plan_op *op, uint32_t row,
                       const struct mr_owned_column *columns, mr_error *err);
/* The rows of @block, which @p has made and nobody shares yet, come from the files that it has read
 * for them. false: it reads none. */
bool mr_plan_trace_files(const struct mr_program *p, const struct mr_owned_column *columns,
                         mr_block *block);
/* The columns of @p's arguments and constants, lent. */
void mr_plan_bind(const struct mr_program *p, const mr_block *in, const mr_block *captures,
                  struct mr_owned_column *columns);
enum mr_steps {
    MR_STEPS_ALL,
    MR_STEPS_UNIFORM,
    MR_STEPS_OF_ROWS, /* the others */
};
/* Runs these on @rows rows; *@inner grows by the bytes of results of each row that were let go.
 * What is left is let go by mr_plan_release_results(), on failure too: of a part of the steps, all
 * that is the same for all rows. */
int mr_plan_run_steps(const struct mr_program *p, enum mr_steps which, uint32_t rows,
                      struct mr_owned_column *columns, const struct mr_kernel_random *random,
                      uint64_t *inner, uint32_t *bad_row, mr_error *err);
void mr_plan_release_results(const struct mr_program *p, struct mr_owned_column *columns);
/* Runs all steps strip by strip (strips.c): results that are kept are in @columns, which are bound.
 * false: that is not worth while, or it failed: nothing was done. */
bool mr_strips_run(const struct mr_program *p, const mr_block *in, const mr_block *captures,
                   uint32_t rows, const struct mr_kernel_random *random,
                   struct mr_owned_column *columns);
/* Remembers how large the rows of a successful run were. */
void mr_strips_note(const struct mr_program *p, uint32_t rows, uint64_t inner,
                    const struct mr_owned_column *columns);
/* Bytes of @rows rows of @c. */
uint64_t mr_strips_bytes(const struct mr_column *c, uint32_t rows);
/* Run one op on columns indexed by slot; fills the columns of its results. */
int mr_op_run(const struct mr_program *p, const struct mr_plan_op *op, uint32_t rows,
              struct mr_owned_column *columns, const struct mr_kernel_random *random,
              uint32_t *bad_row, mr_error *err);
/* The same tile by tile. false: the columns do not have the form that this needs, nothing was
 * done. */
bool mr_fused_run(const struct mr_program *p, const struct mr_fused *fused, uint32_t rows,
                  struct mr_owned_column *columns, int *rc, uint32_t *bad_row, mr_error *err);
