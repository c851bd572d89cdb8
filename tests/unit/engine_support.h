/* Building small datasets, and reading them as lines of text: what the tests of the dataset and
 * engine code share. */
#pragma once

#include "engine/engine.h"

#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        mr_error err_ = {0};                                                                       \
        mr_error *e = &err_;                                                                       \
        if ((call) < 0) {                                                                          \
            fail_msg("%s:%d: %s: %s", __FILE__, __LINE__, #call, err_.message);                    \
        }                                                                                          \
        (void)e;                                                                                   \
    } while (0)

/* ---- datasets; those that take one consume its reference ---- */

#define INT_ATTR(n, v) ((struct mr_attr){.name = (n), .kind = MR_ATTR_INT, .i = (v)})
#define BOOL_ATTR(n, v) ((struct mr_attr){.name = (n), .kind = MR_ATTR_BOOL, .i = (v)})
#define TEXT_ATTR(n, v)                                                                            \
    ((struct mr_attr){.name = (n), .kind = MR_ATTR_BYTES, .bytes = (v), .size = strlen(v)})
#define VALUE_ATTR(n, v) ((struct mr_attr){.name = (n), .kind = MR_ATTR_VALUE, .i = (v)})

mr_dataset *make(const char *op, mr_dataset *input, mr_function *fn, const struct mr_attr *attrs,
                 size_t nattrs, mr_builder *scope);
#define ATTRS(...)                                                                                 \
    (const struct mr_attr[]){__VA_ARGS__},                                                         \
        sizeof((struct mr_attr[]){__VA_ARGS__}) / sizeof(struct mr_attr)

mr_dataset *make_range(int64_t start, int64_t stop, int64_t step);
mr_dataset *make_ints(const int64_t *values, uint32_t n);
mr_dataset *make_strings(const char *const *values, uint32_t n);
mr_dataset *make_zip(mr_dataset *a, mr_dataset *b);
mr_dataset *make_concatenate(mr_dataset *a, mr_dataset *b);
mr_dataset *make_with_function(const char *op, mr_dataset *input, mr_function *fn,
                               const struct mr_attr *attrs, size_t n);
mr_dataset *make_one(const char *op, mr_dataset *input, const char *arg, int64_t value);

/* ---- functions ---- */

uint32_t add_op(mr_builder *b, const char *op, const uint32_t *in, size_t nin,
                const struct mr_attr *attrs, size_t nattrs);
uint32_t add_int(mr_builder *b, int64_t value);
mr_builder *begin_for(const mr_dataset *ds, mr_builder *outer);
mr_function *finish(mr_builder *b, const uint32_t *outputs, size_t n); /* frees @b */
mr_function *finish_dataset(mr_builder *b, mr_dataset *ds);            /* frees both */

mr_function *fn_affine(const mr_dataset *ds); /* x -> 3 * x + 1 */
mr_function *fn_even(const mr_dataset *ds);   /* x -> x % 2 == 0 */
mr_function *fn_divide(const mr_dataset *ds,
                       int64_t bad);        /* x -> 100 // (x - bad): fails for bad */
mr_function *fn_text(const mr_dataset *ds); /* x -> (x, as_string(x)) */
/* x -> (x, a random number below 1,000,000). */
mr_function *fn_draw(const mr_dataset *ds);
mr_function *fn_draw_slowly(const mr_dataset *ds);
mr_function *fn_count_to(const mr_dataset *ds); /* x -> dataset range(0, x, 1) */
mr_function *fn_vector(const mr_dataset *ds);   /* x -> range(x % 3): a vector of x % 3 */
/* @ds.map(fn_affine): takes the reference to @ds. */
mr_dataset *map_affine(mr_dataset *ds, int64_t calls);

/* ---- reading ---- */

/* Elements as text, one line each; an error is a line "!code message". */
struct lines {
    char **text;
    size_t n;
    size_t cap;
};
void lines_free(struct lines *l);
void lines_sort(struct lines *l);
void lines_append_text(struct lines *l, const char *text);
void lines_append_block(struct lines *l, const mr_block *block);
/* fail_msg() unless equal; @what says which run it was. */
void lines_expect(const struct lines *got, const struct lines *want, const char *what);
/* The same against a text of lines separated by blanks. */
void lines_expect_text(const struct lines *got, const char *want);

struct read_options {
    uint32_t rows;     /* 0: 1000 */
    uint32_t threads;  /* 0: 1 */
    int timeout_ms;    /* 0: wait */
    size_t most;       /* lines; 0: all */
    uint64_t seed;     /* 0: 42 */
    size_t errors_max; /* stop after so many; 0: one */
    size_t budget_bytes;
    uint64_t epoch;
    const struct mr_split_source *splits;
    uint64_t part;
    const struct mr_external_opener *external;
};

mr_engine_iter *open_with(mr_dataset *ds, const struct read_options *o);
/* Append to @l until the end, an error too many or for good (which is one line, however often it is
 * given), or @most lines in it. MR_END if it is over. */
int read_on(mr_engine_iter *it, const struct read_options *o, struct lines *l);
struct lines read_all(mr_dataset *ds, const struct read_options *o);
