/*
 * Inside the engine: how one node of a graph runs. An operator is a table entry (struct
 * mr_operator) with a struct mr_op_run; an open node is a struct mr_op_iter, which the operator's
 * own struct starts with.
 *
 * Rules for pull functions:
 *  - Return 1..pull->rows rows, MR_END, MR_TIMEOUT or an error; never wait in order to fill a
 *    block. When there is something to give, look for more with deadline 0 only (mr_pull_more()).
 *  - Ask the input for what was asked of you (times what you need for one of yours), never for
 *    more.
 *  - State changes only after the input's pull has succeeded: after MR_TIMEOUT and after errors the
 *    same call goes on where it stopped.
 *  - Rows before an error are delivered first: mr_op_defer() keeps the error for the next call.
 *  - An element that failed (mr_op_element_failed()) has had its place: who puts elements together,
 *    or counts them for others, moves all its inputs and counts behind it. Where the place is left
 *    out, the error is, too.
 *  - Where nobody knows for how many elements an error stands, it is marked (MR_UNCOUNTED): those
 *    behind it have no certain place, and who pairs elements by their places does not go on.
 *  - Errors of one's own get operator and place by mr_op_fail(); errors from the input are passed
 *    on as they are.
 *  - A loop that may turn for long without giving anything checks mr_op_interrupted().
 *  - The error is never NULL, and means nothing unless they fail.
 *  - Blocks carry what they descend from (element/origin.h). Who slices, joins and gathers blocks
 *    has nothing to do for it; who fills blocks by hand, or keeps rows apart from their block, adds
 *    the origins of the rows that went in, and holds them as long as it holds the rows.
 *  - The same goes for places (element/places.h), which rows have where splits are read and random
 *    numbers are drawn. Who makes several elements of one gives them places made of its place.
 *
 * Threads: an iterator is used by one thread at a time. Which thread that is may change (a
 * driver's, the consumer's).
 */
#pragma once

#include "base/rng.h"
#include "dataset/operator.h"
#include "element/places.h"
#include "element/trace.h"
#include "engine/engine.h"

/* Where paths start. */
#define MR_ROOT_PATH UINT64_C(0x6d696c6c72616365)

struct mr_env;
struct mr_bound;
struct mr_gather;
struct mr_state;

#define MR_BLOCK_BYTES_HINT (64u << 10)

struct mr_pull {
    uint32_t rows; /* at most; >= 1 */
    /* So many rows are one for who asks (a batch), and `rows` ends behind whole ones; 0: any. Blocks
     * behind which whole ones are left need no copying. */
    uint32_t unit;
    size_t bytes;        /* when a block is large enough */
    int64_t deadline_ms; /* mr_now_ms() clock; MR_NO_DEADLINE: wait; 0: only what is ready */
    bool held;           /* sources must not ask for a new split: MR_TIMEOUT instead */
    /* Set from elsewhere: come back with MR_TIMEOUT soon (the puller is to be paused or stopped).
     * NULL: never. */
    const atomic_bool *interrupt;
};
#define MR_NO_DEADLINE (-1)

/* What an iterator is opened with. */
struct mr_op_ctx {
    struct mr_env *env;
    struct mr_bound *bound; /* values of the enclosing function; NULL outside */
    uint64_t path;          /* of the node within the graph */
    uint64_t epoch;         /* ordinal of the pass, enclosing repeats included */
    /* which element of the outer dataset this graph was made for; 0 outside of functions */
    uint64_t stream;
    uint64_t part;        /* whose part of the elements comes by here; 0: all of them do */
    bool outermost;       /* not inside a function: splits apply */
    bool feeds_expansion; /* each element becomes a dataset further on: do not hoard */
    bool ahead;           /* below a stage that pulls ahead of its consumer */
    bool inside_split;    /* below the operator that takes the splits */
    /* rows are to have places (element/places.h): splits are read, and something further on draws
     * random numbers for them */
    bool places;
};

#define MR_OP_MAGIC UINT32_C(0x6d726f70)

struct mr_op_iter {
    uint32_t magic; /* MR_OP_MAGIC, until it is closed */
    const struct mr_operator *op;
    const mr_dataset *ds; /* the engine iterator holds the root, and with it all nodes */
    struct mr_env *env;
    struct mr_op_iter *input; /* by mr_op_open_input(): saved, restored and closed with it */
    struct mr_bound *bound;   /* one reference, or NULL */
    uint32_t number;          /* in the profile; 0: there is none */
    uint64_t path;
    uint64_t epoch;
    uint64_t stream;
    uint64_t part;
    bool partial; /* sees a part of the elements: the splits that this iterator was given */
    bool places;  /* its rows are to have places */
    /* they are numbered here, from `first_place` on: it is a dataset made of an element */
    bool numbers;
    uint64_t first_place;
    /* set by open: elements fail here that might have been several, or none, or elsewhere */
    bool uncounts;
    /* what all its elements descend from (those of a dataset made of an element); NULL: nothing */
    mr_origin *origin;
    struct mr_trace_view made_of; /* the same for errors */
    uint64_t delivered;           /* rows so far */
    int deferred;                 /* error to give before anything else but `waiting`, or MR_OK */
    mr_error deferred_err;
    /* how many rows were taken before it and not given; NULL: they were all given */
    const uint64_t *waiting;
};

struct mr_op_run {
    size_t size; /* of the operator's iterator */
    /* The head of @it is set, the rest zero. On failure close() is called: it takes half-open
     * iterators. */
    int (*open)(struct mr_op_iter *it, const struct mr_op_ctx *ctx, mr_error *err);
    int (*pull)(struct mr_op_iter *it, const struct mr_pull *pull, mr_block **ret, mr_error *err);
    /* Its state, and inputs but for `input` (engine/state.h); it is restored into an iterator that
     * was just opened. NULL, also close: nothing to do. */
    int (*state)(struct mr_op_iter *it, struct mr_state *s, mr_error *err);
    void (*close)(struct mr_op_iter *it);
    bool whole_split; /* a source that is one split as a whole */
    /* Operators that can be cut into splits: go to element @index. */
    int (*seek)(struct mr_op_iter *it, uint64_t index, mr_error *err);
};

/* In a table entry: MR_RUN(struct x_iter, .open = x_open, .pull = x_pull). */
#define MR_RUN(iter, ...)                                                                          \
    &(const struct mr_op_run)                                                                      \
    {                                                                                              \
        .size = sizeof(iter), __VA_ARGS__                                                          \
    }

int mr_op_open(const struct mr_op_ctx *ctx, const mr_dataset *ds, struct mr_op_iter **ret,
               mr_error *err);
/* The first input becomes it->input. */
int mr_op_open_input(struct mr_op_iter *it, const struct mr_op_ctx *ctx, mr_error *err);
int mr_op_pull(struct mr_op_iter *it, const struct mr_pull *pull, mr_block **ret, mr_error *err);
int mr_op_state(struct mr_op_iter *it, struct mr_state *s, mr_error *err);
int mr_op_seek(struct mr_op_iter *it, uint64_t index, mr_error *err);
void mr_op_close(struct mr_op_iter *it); /* NULL is fine */

/* The context for input @i of the node that @ctx is for. */
struct mr_op_ctx mr_op_input_ctx(const struct mr_op_ctx *ctx, uint32_t i);
/* The context that @it was opened with, good enough to open an input again later. */
static inline uint64_t mr_op_child_path(uint64_t path, uint32_t i)
{
    return mr_mix64(path + 1 + i);
}

/* Put "map (step 2, train.py:41), element 17: " in front of @err, without the number where it sees
 * a part only; returns @rc. Where the message would be too long, the path of a file loses its
 * front, then the location its directory. */
int mr_op_fail(const struct mr_op_iter *it, uint64_t element, int rc, mr_error *err);
/* The same of what was made of row @row of @block: with the record that it comes from, if that is
 * known. The next pull goes on behind it, whatever the error says: MR_PASSED. */
int mr_op_fail_row(const struct mr_op_iter *it, uint64_t element, const mr_block *block,
                   uint32_t row, int rc, mr_error *err);
/* The same of what was made of all rows of @block. */
int mr_op_fail_rows(const struct mr_op_iter *it, uint64_t element, const mr_block *block, int rc,
                    mr_error *err);
/* The same without a place. */
int mr_op_fail_at_open(const struct mr_op_iter *it, int rc, mr_error *err);
/* Whether an error stands in the place of an element or a file: the pull that gave it went past
 * that element, and the next one goes on behind it. It does if it says something about the element;
 * if it says something else (memory, a lost connection, a read that has failed, a fault of ours),
 * where it is MR_PASSED. Others leave everything where it is: the next pull may meet them again. */
bool mr_op_element_failed(int rc, const mr_error *err);
/* Whether it says something about an element or a file: it would fail anywhere. */
bool mr_op_element_is_bad(int rc, const mr_error *err);
/* Among the traits of errors, inside of the engine only. UNCOUNTED, of an element's: nobody knows
 * for how many elements it stands. PASSED: it stands in the place of one that failed for another
 * reason than what it is. */
#define MR_UNCOUNTED (1u << 30)
#define MR_PASSED (1u << 29)
/* The next pull goes on behind the element. */
void mr_op_mark_passed(int rc, mr_error *err);
/* Mark it so, if it is an element's error. */
void mr_op_mark_uncounted(int rc, mr_error *err);
bool mr_op_is_uncounted(int rc, const mr_error *err);
/* An error that stands for one element. */
bool mr_op_has_place(int rc, const mr_error *err);
/* @it, which pairs elements by their places, gives @err, which is uncounted, and goes on no more:
 * all pulls behind it give an error that says why. */
void mr_op_places_lost(struct mr_op_iter *it, const mr_error *err);
/* Give the error at the next pull, or, where `waiting` is set, when that is 0: pulls before then
 * take nothing from the input. MR_END and MR_TIMEOUT need no keeping: they are found again. One
 * that is MR_PERMANENT is given ever after. Returns MR_OK. */
int mr_op_defer(struct mr_op_iter *it, int rc, const mr_error *err);
/* The end of a pull that gathers: rows of @rows as asked for, @rc and @failure behind them. Without
 * rows, @rc itself. */
int mr_op_give(struct mr_op_iter *it, const struct mr_pull *pull, struct mr_gather *rows, int rc,
               const mr_error *failure, mr_block **ret, mr_error *err);
/* MR_OK, MR_ECANCELED, or MR_TIMEOUT when the deadline has passed or the pull was interrupted. */
int mr_op_interrupted(const struct mr_op_iter *it, const struct mr_pull *pull, mr_error *err);

/* The same pull for @rows rows (cut to what is possible, at least 1). */
struct mr_pull mr_pull_rows(const struct mr_pull *pull, uint64_t rows);
/* The same, taking only what is ready. */
struct mr_pull mr_pull_more(const struct mr_pull *pull, uint64_t rows);

/* Arguments, constant or bound; checked against the table's bounds. Absent: the fallback. */
int mr_op_int(const struct mr_op_iter *it, const char *name, int64_t fallback, int64_t *ret,
              mr_error *err);
bool mr_op_bool(const struct mr_op_iter *it, const char *name, bool fallback);
/* A copy, freed with mr_free(); *@ret = NULL if absent. */
int mr_op_ints(const struct mr_op_iter *it, const char *name, int64_t **ret, size_t *n,
               mr_error *err);
/* The arguments value0, value1, ..., @n of them, as a block of one row; NULL if there is none of
 * them. */
int mr_op_values(const struct mr_op_iter *it, size_t n, mr_block **ret, mr_error *err);
/* Lent as long as the iterator lives. *@ret = NULL if absent. */
int mr_op_bytes(const struct mr_op_iter *it, const char *name, const void **ret, size_t *size,
                mr_error *err);

/* The block that a function's captures are for this iterator; *@ret = NULL if it has none. The
 * caller's reference. */
int mr_op_captures(const struct mr_op_iter *it, const mr_function *fn, mr_block **ret,
                   mr_error *err);

/* For operators without a seed of their own: another one in each iteration. */
uint64_t mr_op_seed(const struct mr_op_iter *it);
/* The same where all iterations are to draw alike: equal datasets do, in whatever pipeline and
 * process they stand. */
uint64_t mr_op_fixed_seed(const struct mr_op_iter *it);
