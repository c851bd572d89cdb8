/* Building columns and calling kernels from text, for the tests of tensor operators. */
#pragma once

#include "base/buf.h"
#include "ops/kernel.h"
#include "ops/tensor.h"

#define TEST_INPUTS_MAX 8
#define TEST_ATTRS_MAX 16
#define TEST_OUTPUTS_MAX 16

/* What strings hold: words, or what "example[]", "decimal[]", "image[]", "path[]", "json[]",
 * "wav[]" and "tensor[]" ask for. */
enum test_content {
    CONTENT_WORD,
    CONTENT_EXAMPLE, /* a tf.Example */
    CONTENT_DECIMAL, /* a number */
    CONTENT_IMAGE,   /* a PNG of random size */
    CONTENT_PATH,    /* the name of a file */
    CONTENT_JSON,    /* an object, always with the same members */
    CONTENT_WAV,     /* sound of random length */
    CONTENT_TENSOR,  /* a TensorProto of int32, of random length */
};

/* "float32[n,2]{0,3}" */
struct test_input {
    struct mr_leaf_spec spec; /* letters: unknown */
    char letters[MR_RANK_MAX];
    bool varies;               /* has a letter */
    enum test_content content; /* of strings */
    double low;
    double high;
};

struct test_attrs {
    struct mr_attr attrs[TEST_ATTRS_MAX];
    size_t n;
    char names[TEST_ATTRS_MAX][32];
    int64_t ints[TEST_ATTRS_MAX][16];
    char bytes[TEST_ATTRS_MAX][32];
    mr_block *blocks[TEST_ATTRS_MAX];
};

size_t test_parse_inputs(const char *text, struct test_input *ret);
void test_parse_attrs(const char *text, struct test_attrs *ret);
void test_free_attrs(struct test_attrs *attrs);
mr_dtype test_dtype(const char *name, size_t len);

/* Random columns, one an input, letters consistent within a row: blocks of one column and @rows
 * rows. */
void test_random_blocks(const struct test_input *inputs, size_t n, uint32_t rows, uint64_t seed,
                        mr_block **ret);

/* The parts of a tf.Example, packed or not: an entry of the feature map around a list, and the
 * record around entries. Appended to @out. */
void test_put_varint(struct mr_buf *out, uint64_t v);
void test_put_field(struct mr_buf *out, uint32_t number, const void *bytes, size_t size);
void test_put_feature(struct mr_buf *entries, const char *key, uint32_t kind, const void *list,
                      size_t size);
void test_put_ints(struct mr_buf *entries, const char *key, const int64_t *values, size_t n,
                   bool packed);
void test_put_floats(struct mr_buf *entries, const char *key, const float *values, size_t n,
                     bool packed);
void test_put_string(struct mr_buf *entries, const char *key, const char *value);
/* Entries to a record; @entries is freed. */
void test_put_example(struct mr_buf *out, struct mr_buf *entries);

/* One column of numbers from values given as doubles, one row. */
mr_block *test_block(mr_dtype dtype, int rank, const int64_t *dims, uint32_t rows,
                     const double *values);
mr_block *test_strings(int rank, const int64_t *dims, uint32_t rows, const char *const *values);

struct test_call {
    const struct mr_kernel *kernel;
    struct test_attrs attrs;
    struct mr_leaf_spec in[TEST_INPUTS_MAX];
    size_t nin;
    struct mr_leaf_spec out[TEST_OUTPUTS_MAX];
    size_t nout;
    struct mr_kernel_call call;
    struct mr_kernel_random random; /* what the call draws from: `index` is the test's */
};

/* Look up, parse and infer. Returns infer's code. */
int test_prepare(struct test_call *t, const char *kernel, const char *inputs, const char *attrs,
                 mr_error *err);
/* eval on columns 0 of @blocks. Bit i of @broadcast: input i is one row for all. */
int test_eval(struct test_call *t, uint32_t rows, mr_block *const *blocks, uint32_t broadcast,
              struct mr_owned_column *out, uint32_t *bad_row, mr_error *err);
void test_release(struct test_call *t, struct mr_owned_column *out);

/* Row @ra of @a and row @rb of @b hold the same values in the same shape (a NaN equals a NaN). */
bool test_rows_equal(const struct mr_owned_column *a, uint32_t rows_a, uint32_t ra,
                     const struct mr_owned_column *b, uint32_t rows_b, uint32_t rb);
/* Number @i of row @row as a double. */
double test_value(const struct mr_owned_column *c, uint32_t rows, uint32_t row, uint64_t i);
