#include "ops/tensor.h"

#include "base/limits.h"
#include "ops/attr.h"

size_t mr_value_width(unsigned dtype)
{
    return dtype == MR_STRING ? sizeof(struct mr_string) : mr_dtype_size((mr_dtype)dtype);
}

/* ---- inputs ---- */

bool mr_rows_agree(const int64_t *row_dims, uint32_t rows, int rank)
{
    size_t bytes = (size_t)rank * sizeof *row_dims;

    for (uint32_t r = 1; r < rows; r++) {
        if (memcmp(row_dims, row_dims + (size_t)r * (size_t)rank, bytes) != 0) {
            return false;
        }
    }
    return rows > 0;
}

static int open_strings(struct mr_input *in, const struct mr_column *c, uint64_t first,
                        mr_error *err)
{
    MR_TRY(mr_buffer_new(in->count * sizeof(struct mr_string), &in->scratch, err));
    struct mr_string *views = mr_buffer_data(in->scratch);
    for (uint64_t i = 0; i < in->count; i++) {
        uint64_t at = c->offsets[first + i];

        views[i].data = c->data == NULL ? NULL : (const unsigned char *)c->data + at;
        views[i].size = c->offsets[first + i + 1] - at;
    }
    in->views = views;
    in->values = (const unsigned char *)views;
    return MR_OK;
}

int mr_input_open(const struct mr_kernel_in *in, uint32_t rows, struct mr_input *ret, mr_error *err)
{
    const struct mr_column *c = &in->column->c;
    uint32_t have = in->broadcast ? 1 : rows;
    uint64_t first = 0;

    memset(ret, 0, sizeof *ret);
    ret->dtype = c->dtype;
    ret->rank = c->rank;
    ret->broadcast = in->broadcast;
    ret->width = mr_value_width(c->dtype);
    if (c->kind == MR_COLUMN_FIXED) {
        ret->fixed = true;
        ret->dims = c->dims;
    } else {
        first = c->starts[0];
        ret->fixed = mr_rows_agree(c->row_dims, have, c->rank);
        ret->dims = ret->fixed ? c->row_dims : NULL;
        ret->row_dims = c->row_dims;
        ret->starts = c->starts;
    }
    if (ret->fixed) {
        (void)mr_shape_count(c->rank, ret->dims, &ret->per_row); /* blocks are validated */
        ret->count = have * ret->per_row;
    } else {
        ret->count = c->starts[have] - first;
    }
    if (c->dtype == MR_STRING) {
        return open_strings(ret, c, first, err);
    }
    ret->values = c->data == NULL ? NULL : (const unsigned char *)c->data + first * ret->width;
    return MR_OK;
}

void mr_input_close(struct mr_input *in)
{
    mr_buffer_unref(in->scratch);
    in->scratch = NULL;
    in->views = NULL;
}

int mr_inputs_open(const struct mr_kernel_in *in, size_t nin, uint32_t rows, struct mr_input **ret,
                   mr_error *err)
{
    struct mr_input *inputs = mr_calloc(nin, sizeof *inputs);

    MR_CHECK_ALLOC(inputs, err);
    for (size_t i = 0; i < nin; i++) {
        int rc = mr_input_open(&in[i], rows, &inputs[i], err);

        if (rc < 0) {
            mr_inputs_close(inputs, i);
            return rc;
        }
    }
    *ret = inputs;
    return MR_OK;
}

void mr_inputs_close(struct mr_input *inputs, size_t nin)
{
    for (size_t i = 0; inputs != NULL && i < nin; i++) {
        mr_input_close(&inputs[i]);
    }
    mr_free(inputs);
}

/* ---- outputs ---- */

static int check_row(uint8_t dtype, int rank, const int64_t *dims, uint64_t *count, mr_error *err)
{
    char text[MR_SHAPE_TEXT];

    if (mr_shape_count(rank, dims, count) &&
        *count <= MR_ELEMENT_BYTES_MAX / mr_value_width(dtype)) {
        return MR_OK;
    }
    return mr_error_set(err, MR_EEXHAUSTED, "a result of shape %s is above the limit of %llu bytes",
                        mr_shape_text(rank, dims, text), (unsigned long long)MR_ELEMENT_BYTES_MAX);
}

static int alloc_values(struct mr_output *out, mr_error *err)
{
    size_t bytes;

    if (__builtin_mul_overflow(out->count, out->width, &bytes)) {
        return mr_error_nomem(err);
    }
    mr_buffer **to = out->dtype == MR_STRING ? &out->scratch : &out->data;
    MR_TRY(mr_buffer_new(bytes, to, err));
    out->values = mr_buffer_data(*to);
    out->views = out->dtype == MR_STRING ? (struct mr_string *)(void *)out->values : NULL;
    return MR_OK;
}

int mr_output_fixed(struct mr_output *out, unsigned dtype, uint32_t rows, int rank,
                    const int64_t *dims, mr_error *err)
{
    *out = (struct mr_output){.dtype = (uint8_t)dtype,
                              .rank = (uint8_t)rank,
                              .rows = rows,
                              .fixed = true,
                              .width = mr_value_width(dtype)};
    memcpy(out->dims, dims, (size_t)rank * sizeof *dims);
    MR_TRY(check_row(out->dtype, rank, dims, &out->per_row, err));
    out->count = rows * out->per_row;
    return alloc_values(out, err);
}

int mr_output_empty(struct mr_output *out, const struct mr_leaf_spec *spec, mr_error *err)
{
    int64_t dims[MR_RANK_MAX];

    for (int d = 0; d < spec->rank; d++) {
        dims[d] = spec->dims[d] < 0 ? 0 : spec->dims[d];
    }
    return mr_output_fixed(out, spec->dtype, 0, spec->rank < 0 ? 0 : spec->rank, dims, err);
}

int mr_output_var(struct mr_output *out, unsigned dtype, uint32_t rows, int rank,
                  const int64_t *row_dims, uint32_t *bad_row, mr_error *err)
{
    size_t dims_bytes = (size_t)rows * (size_t)rank * sizeof(int64_t);
    uint64_t n = 0;

    *bad_row = 0;
    if (mr_rows_agree(row_dims, rows, rank)) {
        return mr_output_fixed(out, dtype, rows, rank, row_dims, err);
    }
    *out = (struct mr_output){.dtype = (uint8_t)dtype,
                              .rank = (uint8_t)rank,
                              .rows = rows,
                              .width = mr_value_width(dtype)};
    MR_TRY(mr_buffer_new(dims_bytes + ((size_t)rows + 1) * sizeof(uint64_t), &out->meta, err));
    out->row_dims = mr_buffer_data(out->meta);
    out->starts = (uint64_t *)(void *)((unsigned char *)mr_buffer_data(out->meta) + dims_bytes);
    if (dims_bytes > 0) {
        memcpy(out->row_dims, row_dims, dims_bytes);
    }
    out->starts[0] = 0;
    for (uint32_t r = 0; r < rows; r++) {
        *bad_row = r;
        MR_TRY(check_row(out->dtype, rank, row_dims + (size_t)r * (size_t)rank, &n, err));
        out->starts[r + 1] = out->starts[r] + n; /* rows are few and bounded: no overflow */
    }
    *bad_row = 0;
    out->count = out->starts[rows];
    return alloc_values(out, err);
}

/* The views' bytes one after another in out->data. */
static int gather_strings(struct mr_output *out, mr_buffer **offsets, mr_error *err)
{
    uint64_t total = 0;

    for (uint64_t i = 0; i < out->count; i++) {
        total += out->views[i].size;
    }
    MR_TRY(mr_buffer_new(total, &out->data, err));
    MR_TRY(mr_buffer_new((out->count + 1) * sizeof(uint64_t), offsets, err));
    uint64_t *at = mr_buffer_data(*offsets);
    unsigned char *bytes = mr_buffer_data(out->data);
    at[0] = 0;
    for (uint64_t i = 0; i < out->count; i++) {
        mr_copy_bytes(bytes + at[i], out->views[i].data, out->views[i].size);
        at[i + 1] = at[i] + out->views[i].size;
    }
    return MR_OK;
}

/* Chunks, so that bytes stay where they are. */
struct mr_arena {
    struct mr_arena *next;
    mr_buffer *buffer; /* this lies in it, the bytes behind */
    size_t used;
    size_t size;
    unsigned char bytes[];
};
#define ARENA_CHUNK_BYTES 16384u

unsigned char *mr_output_bytes(struct mr_output *out, size_t size, mr_error *err)
{
    struct mr_arena *chunk = out->arena;

    if (chunk == NULL || size > chunk->size - chunk->used) {
        size_t want = size > ARENA_CHUNK_BYTES ? size : ARENA_CHUNK_BYTES;
        mr_buffer *buffer = NULL;

        if (want > SIZE_MAX - sizeof *chunk) {
            (void)mr_error_nomem(err);
            return NULL;
        }
        if (mr_buffer_new(sizeof *chunk + want, &buffer, err) != MR_OK) {
            return NULL;
        }
        chunk = mr_buffer_data(buffer);
        chunk->buffer = buffer;
        chunk->next = out->arena;
        chunk->used = 0;
        chunk->size = want;
        out->arena = chunk;
    }
    chunk->used += size;
    return chunk->bytes + chunk->used - size;
}

/* Rows follow one another, and what their shapes say fits what they have. */
static bool rows_are_sound(const struct mr_output *out)
{
    bool sound = out->fixed || out->starts[0] == 0;

    for (uint32_t r = 0; !out->fixed && sound && r < out->rows; r++) {
        uint64_t count = 0;

        sound = mr_shape_count(out->rank, mr_output_dims(out, r), &count) &&
                out->starts[r + 1] - out->starts[r] == count;
    }
    return sound;
}

int mr_output_finish(struct mr_output *out, struct mr_owned_column *column, mr_error *err)
{
    mr_buffer *offsets = NULL;

    MR_ASSERT_SLOW(rows_are_sound(out));
    if (out->dtype == MR_STRING) {
        int rc = gather_strings(out, &offsets, err);

        if (rc < 0) {
            mr_output_drop(out);
            return rc;
        }
    }
    memset(column, 0, sizeof *column);
    column->c.kind = out->fixed ? MR_COLUMN_FIXED : MR_COLUMN_VAR;
    column->c.dtype = out->dtype;
    column->c.rank = out->rank;
    if (out->fixed) {
        memcpy(column->c.dims, out->dims, sizeof column->c.dims);
    } else {
        column->c.row_dims = out->row_dims;
        column->c.starts = out->starts;
    }
    column->c.offsets = offsets == NULL ? NULL : mr_buffer_data(offsets);
    column->c.data = mr_buffer_data(out->data);
    column->owner[0] = out->data;
    column->owner[1] = offsets;
    column->owner[2] = out->meta;
    out->data = NULL;
    out->meta = NULL;
    mr_output_drop(out);
    return MR_OK;
}

void mr_output_drop(struct mr_output *out)
{
    mr_buffer_unref(out->data);
    mr_buffer_unref(out->meta);
    mr_buffer_unref(out->scratch);
    while (out->arena != NULL) {
        struct mr_arena *next = out->arena->next;

        mr_buffer_unref(out->arena->buffer);
        out->arena = next;
    }
    memset(out, 0, sizeof *out);
}

/* ---- whole columns ---- */

void mr_column_share(const struct mr_owned_column *in, struct mr_owned_column *out)
{
    *out = *in;
    for (size_t i = 0; i < 3; i++) {
        if (out->owner[i] != NULL) {
            out->owner[i] = mr_buffer_ref(out->owner[i]);
        }
    }
}

void mr_column_release(struct mr_owned_column *column)
{
    for (size_t i = 0; i < 3; i++) {
        mr_buffer_unref(column->owner[i]);
        column->owner[i] = NULL;
    }
}

int mr_column_pass(const struct mr_kernel_in *in, uint32_t rows, struct mr_owned_column *out,
                   mr_error *err)
{
    if (in->broadcast) {
        return mr_column_expand(in->column, rows, out, err);
    }
    mr_column_share(in->column, out);
    return MR_OK;
}

int mr_column_expand(const struct mr_owned_column *in, uint32_t rows, struct mr_owned_column *out,
                     mr_error *err)
{
    struct mr_kernel_in one = {in, true};
    struct mr_input input;
    struct mr_output output;
    int rc = mr_input_open(&one, rows, &input, err);

    if (rc < 0) {
        return rc;
    }
    rc = mr_output_fixed(&output, input.dtype, rows, input.rank, input.dims, err);
    if (rc == MR_OK) {
        size_t bytes = input.per_row * input.width;

        for (uint32_t r = 0; bytes > 0 && r < rows; r++) {
            memcpy(output.values + r * bytes, input.values, bytes);
        }
        rc = mr_output_finish(&output, out, err);
    }
    mr_input_close(&input);
    return rc;
}
