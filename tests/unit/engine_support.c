#include "engine_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- datasets ---- */

mr_dataset *make(const char *op, mr_dataset *input, mr_function *fn, const struct mr_attr *attrs,
                 size_t nattrs, mr_builder *scope)
{
    mr_dataset *ds = NULL;

    CHECK_OK(
        mr_dataset_apply(op, &input, input != NULL, attrs, nattrs, &fn, fn != NULL, scope, &ds, e));
    mr_dataset_unref(input);
    mr_function_unref(fn);
    return ds;
}

mr_dataset *make_range(int64_t start, int64_t stop, int64_t step)
{
    return make("range", NULL, NULL,
                ATTRS(INT_ATTR("start", start), INT_ATTR("stop", stop), INT_ATTR("step", step)),
                NULL);
}

mr_dataset *make_ints(const int64_t *values, uint32_t n)
{
    struct mr_column c = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = values};
    mr_block *block = NULL;

    CHECK_OK(mr_block_new(n, &c, 1, &block, e));
    struct mr_attr a = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    mr_dataset *ds = make("from_tensor_slices", NULL, NULL, &a, 1, NULL);
    mr_block_unref(block);
    return ds;
}

mr_dataset *make_strings(const char *const *values, uint32_t n)
{
    uint64_t offsets[256] = {0};
    char heap[1 << 15];
    mr_block *block = NULL;

    for (uint32_t i = 0; i < n; i++) {
        assert_true(offsets[i] + strlen(values[i]) <= sizeof heap);
        memcpy(heap + offsets[i], values[i], strlen(values[i]));
        offsets[i + 1] = offsets[i] + strlen(values[i]);
    }
    struct mr_column c = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = heap};
    CHECK_OK(mr_block_new(n, &c, 1, &block, e));
    struct mr_attr a = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    mr_dataset *ds = make("from_tensor_slices", NULL, NULL, &a, 1, NULL);
    mr_block_unref(block);
    return ds;
}

static mr_dataset *make_two(const char *op, mr_dataset *a, mr_dataset *b)
{
    mr_dataset *inputs[2] = {a, b};
    mr_dataset *ds = NULL;

    CHECK_OK(mr_dataset_apply(op, inputs, 2, NULL, 0, NULL, 0, NULL, &ds, e));
    mr_dataset_unref(a);
    mr_dataset_unref(b);
    return ds;
}

mr_dataset *make_zip(mr_dataset *a, mr_dataset *b)
{
    return make_two("zip", a, b);
}

mr_dataset *make_concatenate(mr_dataset *a, mr_dataset *b)
{
    return make_two("concatenate", a, b);
}

mr_dataset *make_with_function(const char *op, mr_dataset *input, mr_function *fn,
                               const struct mr_attr *attrs, size_t n)
{
    return make(op, input, fn, attrs, n, NULL);
}

mr_dataset *map_affine(mr_dataset *ds, int64_t calls)
{
    mr_function *fn = fn_affine(ds);

    return make_with_function("map", ds, fn, ATTRS(INT_ATTR("num_parallel_calls", calls)));
}

mr_dataset *make_one(const char *op, mr_dataset *input, const char *arg, int64_t value)
{
    return make(op, input, NULL, ATTRS(INT_ATTR(arg, value)), NULL);
}

/* ---- functions ---- */

uint32_t add_op(mr_builder *b, const char *op, const uint32_t *in, size_t nin,
                const struct mr_attr *attrs, size_t nattrs)
{
    uint32_t out = 0;
    size_t n = 0;

    CHECK_OK(mr_builder_add(b, op, in, nin, attrs, nattrs, NULL, 0, &out, 1, &n, e));
    return out;
}

uint32_t add_int(mr_builder *b, int64_t value)
{
    struct mr_column c = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &value};
    mr_block *block = NULL;
    uint32_t out = 0;

    CHECK_OK(mr_block_new(1, &c, 1, &block, e));
    CHECK_OK(mr_builder_constant(b, block, &out, e));
    mr_block_unref(block);
    return out;
}

mr_builder *begin_for(const mr_dataset *ds, mr_builder *outer)
{
    mr_builder *b = NULL;

    CHECK_OK(mr_builder_new(mr_dataset_spec(ds), outer, &b, e));
    return b;
}

mr_function *finish(mr_builder *b, const uint32_t *outputs, size_t n)
{
    mr_function *fn = NULL;

    CHECK_OK(mr_builder_finish(b, outputs, n, NULL, &fn, e));
    mr_builder_free(b);
    return fn;
}

mr_function *finish_dataset(mr_builder *b, mr_dataset *ds)
{
    mr_function *fn = NULL;

    CHECK_OK(mr_builder_finish_dataset(b, ds, &fn, e));
    mr_dataset_unref(ds);
    mr_builder_free(b);
    return fn;
}

static uint32_t binary(mr_builder *b, const char *op, uint32_t x, uint32_t y)
{
    uint32_t in[2] = {x, y};

    return add_op(b, op, in, 2, NULL, 0);
}

mr_function *fn_affine(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t out = binary(b, "add", binary(b, "mul", 0, add_int(b, 3)), add_int(b, 1));

    return finish(b, &out, 1);
}

mr_function *fn_even(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t out = binary(b, "equal", binary(b, "floor_mod", 0, add_int(b, 2)), add_int(b, 0));

    return finish(b, &out, 1);
}

mr_function *fn_divide(const mr_dataset *ds, int64_t bad)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t out = binary(b, "floor_div", add_int(b, 100), binary(b, "sub", 0, add_int(b, bad)));

    return finish(b, &out, 1);
}

mr_function *fn_text(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t x = 0;
    uint32_t out[2] = {0, add_op(b, "as_string", &x, 1, NULL, 0)};

    return finish(b, out, 2);
}

mr_function *fn_draw(const mr_dataset *ds)
{
    int64_t scalar;
    struct mr_attr shape = {.name = "shape", .kind = MR_ATTR_SHAPE, .ints = &scalar};
    mr_builder *b = begin_for(ds, NULL);
    uint32_t bounds[2] = {add_int(b, 0), add_int(b, 1000000)};
    uint32_t out[2] = {0, add_op(b, "random_uniform", bounds, 2, &shape, 1)};

    return finish(b, out, 2);
}

/* Many draws an element: a map whose number of calls is automatic becomes parallel. */
mr_function *fn_draw_slowly(const mr_dataset *ds)
{
    int64_t many = 50000;
    struct mr_attr shape = {.name = "shape", .kind = MR_ATTR_SHAPE, .ints = &many, .count = 1};
    mr_builder *b = begin_for(ds, NULL);
    uint32_t bounds[2] = {add_int(b, 0), add_int(b, 1000000000)};
    uint32_t drawn = add_op(b, "random_uniform", bounds, 2, &shape, 1);
    uint32_t out[2] = {0, add_op(b, "reduce_max", &drawn, 1, NULL, 0)};

    return finish(b, out, 2);
}

mr_function *fn_count_to(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner =
        make("range", NULL, NULL,
             ATTRS(INT_ATTR("start", 0), VALUE_ATTR("stop", 0), INT_ATTR("step", 1)), b);

    return finish_dataset(b, inner);
}

mr_function *fn_vector(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t in[3] = {add_int(b, 0), binary(b, "floor_mod", 0, add_int(b, 3)), add_int(b, 1)};
    uint32_t out = add_op(b, "range_tensor", in, 3, NULL, 0);

    return finish(b, &out, 1);
}

/* ---- lines ---- */

void lines_append_text(struct lines *l, const char *text)
{
    if (l->n == l->cap) {
        l->cap = l->cap * 2 + 64;
        l->text = realloc(l->text, l->cap * sizeof *l->text);
        assert_non_null(l->text);
    }
    l->text[l->n++] = strdup(text);
}

void lines_free(struct lines *l)
{
    for (size_t i = 0; i < l->n; i++) {
        free(l->text[i]);
    }
    free(l->text);
    *l = (struct lines){0};
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void lines_sort(struct lines *l)
{
    if (l->n > 0) {
        qsort(l->text, l->n, sizeof *l->text, compare);
    }
}

struct text {
    char at[4096];
    size_t n;
};

static void put(struct text *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(t->at + t->n, sizeof t->at - t->n, fmt, ap);
    va_end(ap);
    t->n += (size_t)n < sizeof t->at - t->n ? (size_t)n : sizeof t->at - t->n - 1;
}

static void put_value(struct text *t, const struct mr_column *c, uint64_t i)
{
    const void *d = c->data;

    switch ((mr_dtype)c->dtype) {
    case MR_INT64: put(t, "%" PRId64, ((const int64_t *)d)[i]); break;
    case MR_INT32: put(t, "%d", ((const int32_t *)d)[i]); break;
    case MR_FLOAT32: put(t, "%g", (double)((const float *)d)[i]); break;
    case MR_FLOAT64: put(t, "%g", ((const double *)d)[i]); break;
    case MR_BOOL: put(t, "%s", ((const uint8_t *)d)[i] != 0 ? "true" : "false"); break;
    case MR_STRING:
        put(t, "'%.*s'", (int)(c->offsets[i + 1] - c->offsets[i]), (const char *)d + c->offsets[i]);
        break;
    case MR_DTYPE_NONE:
    case MR_COMPLEX64:
    case MR_COMPLEX128:
    case MR_INT8:
    case MR_INT16:
    case MR_UINT8:
    case MR_UINT16:
    case MR_UINT32:
    case MR_UINT64:
    case MR_FLOAT16:
    case MR_BFLOAT16:
    case MR_DTYPE_COUNT:
    default: put(t, "?%d", c->dtype); break;
    }
}

static void put_row(struct text *t, const struct mr_column *c, uint32_t row)
{
    const int64_t *dims =
        c->kind == MR_COLUMN_FIXED ? c->dims : c->row_dims + (size_t)row * c->rank;
    uint64_t n = 1;

    for (uint32_t d = 0; d < c->rank; d++) {
        n *= (uint64_t)dims[d];
        put(t, "%s%" PRId64, d == 0 ? "<" : "x", dims[d]);
    }
    uint64_t first = c->kind == MR_COLUMN_FIXED ? n * row : c->starts[row];
    put(t, "%s", c->rank > 0 ? ">" : "");
    for (uint64_t i = 0; i < n; i++) {
        put(t, "%s", i > 0 ? "," : "");
        put_value(t, c, first + i);
    }
}

void lines_append_block(struct lines *l, const mr_block *block)
{
    for (uint32_t r = 0; r < mr_block_rows(block); r++) {
        struct text t = {.n = 0};

        for (uint32_t c = 0; c < mr_block_column_count(block); c++) {
            put(&t, "%s", c > 0 ? ";" : "");
            put_row(&t, mr_block_column(block, c), r);
        }
        lines_append_text(l, t.at);
    }
}

void lines_expect(const struct lines *got, const struct lines *want, const char *what)
{
    for (size_t i = 0; i < got->n && i < want->n; i++) {
        if (strcmp(got->text[i], want->text[i]) != 0) {
            fail_msg("%s: element %zu is %s, expected %s", what, i, got->text[i], want->text[i]);
        }
    }
    if (got->n != want->n) {
        fail_msg("%s: %zu elements, expected %zu (the first odd one: %s)", what, got->n, want->n,
                 got->n > want->n ? got->text[want->n] : want->text[got->n]);
    }
}

void lines_expect_text(const struct lines *got, const char *want)
{
    struct lines w = {0};
    char *copy = strdup(want);

    for (char *p = strtok(copy, " "); p != NULL; p = strtok(NULL, " ")) {
        lines_append_text(&w, p);
    }
    lines_expect(got, &w, want);
    lines_free(&w);
    free(copy);
}

/* ---- reading ---- */

mr_engine_iter *open_with(mr_dataset *ds, const struct read_options *o)
{
    struct mr_engine_options opts = {
        .seed = o->seed != 0 ? o->seed : 42,
        .threads = o->threads != 0 ? o->threads : 1,
        .memory_budget_bytes = o->budget_bytes != 0 ? o->budget_bytes : 64u << 20,
        .epoch = o->epoch,
        .splits = o->splits,
        .part = o->part,
        .external = o->external,
    };
    mr_engine_iter *it = NULL;

    CHECK_OK(mr_engine_open(ds, &opts, &it, e));
    return it;
}

int read_on(mr_engine_iter *it, const struct read_options *o, struct lines *l)
{
    size_t errors = 0;

    while (o->most == 0 || l->n < o->most) {
        size_t left = o->most == 0 ? SIZE_MAX : o->most - l->n;
        uint32_t rows = o->rows != 0 ? o->rows : 1000;
        struct mr_want want = {.rows_max = left < rows ? (uint32_t)left : rows};
        mr_block *block = NULL;
        mr_error err = {0};
        int rc = mr_engine_pull(it, want, o->timeout_ms != 0 ? o->timeout_ms : -1, &block, &err);

        if (rc == MR_TIMEOUT) {
            continue;
        }
        if (rc == MR_END) {
            return MR_END;
        }
        if (rc < 0) {
            char line[MR_ERROR_MESSAGE_SIZE + 32];

            bool for_good = (err.traits & MR_PERMANENT) != 0;

            (void)snprintf(line, sizeof line, "!%d %s", rc, err.message);
            if (!for_good || l->n == 0 || strcmp(l->text[l->n - 1], line) != 0) {
                lines_append_text(l, line);
            }
            if (++errors > o->errors_max || for_good) {
                return rc;
            }
            continue;
        }
        assert_true(mr_block_rows(block) >= 1);
        assert_true(mr_block_rows(block) <= want.rows_max);
        lines_append_block(l, block);
        mr_block_unref(block);
    }
    return MR_OK;
}

struct lines read_all(mr_dataset *ds, const struct read_options *o)
{
    struct lines l = {0};
    mr_engine_iter *it = open_with(ds, o);

    (void)read_on(it, o, &l);
    mr_engine_close(it);
    return l;
}
