#include "element_random.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

struct cell *table_cell(const struct table *t, uint32_t row, uint32_t column)
{
    return &t->cells[(size_t)row * t->columns + column];
}

void table_new(struct table *t, uint32_t rows, uint32_t columns)
{
    t->rows = rows;
    t->columns = columns;
    t->cells = mr_calloc((size_t)rows * columns, sizeof t->cells[0]);
    assert_non_null(t->cells);
}

void table_free(struct table *t)
{
    for (size_t i = 0; i < (size_t)t->rows * t->columns; i++) {
        mr_buf_free(&t->cells[i].payload);
    }
    mr_free(t->cells);
    t->cells = NULL;
    t->rows = 0;
}

void shape_random(struct mr_rng *rng, struct table_shape *shape)
{
    memset(shape, 0, sizeof *shape);
    shape->columns = 1 + (uint32_t)mr_rng_below(rng, 4);
    for (uint32_t c = 0; c < shape->columns; c++) {
        shape->dtype[c] = (uint8_t)(1 + mr_rng_below(rng, MR_DTYPE_COUNT - 1));
        if (mr_rng_below(rng, 4) == 0) {
            shape->dtype[c] = MR_STRING;
        }
        shape->rank[c] = (uint8_t)mr_rng_below(rng, 4);
        for (uint32_t d = 0; d < shape->rank[c]; d++) {
            shape->dims[c][d] = mr_rng_below(rng, 3) == 0 ? -1 : (int64_t)mr_rng_below(rng, 5);
        }
    }
}

static void fill_cell(struct mr_rng *rng, struct cell *cell)
{
    for (uint64_t i = 0; i < cell->values; i++) {
        uint64_t bits[2] = {mr_rng_next(rng), mr_rng_next(rng)}; /* as many as complex128 has */

        if (cell->dtype == MR_BOOL) {
            bits[0] &= 1;
        }
        if (cell->dtype == MR_STRING) {
            uint32_t len = (uint32_t)mr_rng_below(rng, 12);
            unsigned char text[12];

            for (uint32_t k = 0; k < len; k++) {
                text[k] = (unsigned char)mr_rng_next(rng);
            }
            mr_buf_append(&cell->payload, &len, sizeof len);
            mr_buf_append(&cell->payload, text, len);
        } else {
            mr_buf_append(&cell->payload, bits, mr_dtype_size((mr_dtype)cell->dtype));
        }
    }
}

void table_random(struct mr_rng *rng, const struct table_shape *shape, uint32_t rows,
                  struct table *t)
{
    table_new(t, rows, shape->columns);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t c = 0; c < shape->columns; c++) {
            struct cell *cell = table_cell(t, r, c);

            cell->dtype = shape->dtype[c];
            cell->rank = shape->rank[c];
            cell->values = 1;
            for (uint32_t d = 0; d < cell->rank; d++) {
                cell->dims[d] =
                    shape->dims[c][d] >= 0 ? shape->dims[c][d] : (int64_t)mr_rng_below(rng, 4);
                cell->values *= (uint64_t)cell->dims[d];
            }
            fill_cell(rng, cell);
        }
    }
}

/* The next value of a payload. */
static const unsigned char *next_value(const struct cell *cell, const unsigned char *at,
                                       size_t *size)
{
    if (cell->dtype != MR_STRING) {
        *size = mr_dtype_size((mr_dtype)cell->dtype);
        return at;
    }
    uint32_t len;
    memcpy(&len, at, sizeof len);
    *size = len;
    return at + sizeof len;
}

static bool column_is_fixed(const struct table *t, uint32_t column)
{
    for (uint32_t r = 1; r < t->rows; r++) {
        if (memcmp(table_cell(t, r, column)->dims, table_cell(t, 0, column)->dims,
                   sizeof t->cells[0].dims) != 0) {
            return false;
        }
    }
    return t->rows > 0;
}

/* One column as loose arrays, each with something before it so that nothing starts at 0. */
struct arrays {
    struct mr_buf dims;
    struct mr_buf starts;
    struct mr_buf offsets;
    struct mr_buf data;
};

static void describe_column(struct mr_rng *rng, const struct table *t, uint32_t column,
                            struct mr_column *c, struct arrays *a)
{
    bool var = !column_is_fixed(t, column) || mr_rng_below(rng, 3) == 0;
    uint64_t base = mr_rng_below(rng, 3); /* values before the first: as in a slice */
    uint64_t start = base;
    uint64_t offset = 0;
    const struct cell *head = t->rows > 0 ? table_cell(t, 0, column) : NULL;

    memset(c, 0, sizeof *c);
    c->dtype = head->dtype;
    c->rank = head->rank;
    c->kind = var ? MR_COLUMN_VAR : MR_COLUMN_FIXED;
    memcpy(c->dims, head->dims, sizeof c->dims);
    for (uint64_t i = 0; i < base; i++) {
        static const unsigned char junk[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
        size_t size = head->dtype == MR_STRING ? 3 : mr_dtype_size((mr_dtype)head->dtype);

        mr_buf_append(&a->offsets, &offset, sizeof offset);
        mr_buf_append(&a->data, junk, size);
        offset += size;
    }
    mr_buf_append(&a->offsets, &offset, sizeof offset);
    mr_buf_append(&a->starts, &start, sizeof start);
    for (uint32_t r = 0; r < t->rows; r++) {
        const struct cell *cell = table_cell(t, r, column);
        const unsigned char *at = cell->payload.data;

        mr_buf_append(&a->dims, cell->dims, cell->rank * sizeof cell->dims[0]);
        start += cell->values;
        mr_buf_append(&a->starts, &start, sizeof start);
        for (uint64_t i = 0; i < cell->values; i++) {
            size_t size;
            const unsigned char *value = next_value(cell, at, &size);

            mr_buf_append(&a->data, value, size);
            offset += size;
            mr_buf_append(&a->offsets, &offset, sizeof offset);
            at = value + size;
        }
    }
    c->row_dims = var ? (const int64_t *)(void *)a->dims.data : NULL;
    c->starts = var ? (const uint64_t *)(void *)a->starts.data : NULL;
    if (c->dtype == MR_STRING) {
        c->offsets = (const uint64_t *)(void *)a->offsets.data + (var ? 0 : base);
        c->data = a->data.data;
    } else {
        c->data = a->data.data == NULL
                      ? NULL
                      : a->data.data + (var ? 0 : base * mr_dtype_size((mr_dtype)c->dtype));
    }
}

mr_block *table_to_block(struct mr_rng *rng, const struct table *t)
{
    struct mr_column columns[8];
    struct arrays arrays[8];
    mr_block *block = NULL;
    mr_error err;

    assert_true(t->columns <= 8);
    assert_true(t->rows > 0);
    memset(arrays, 0, sizeof arrays);
    for (uint32_t c = 0; c < t->columns; c++) {
        describe_column(rng, t, c, &columns[c], &arrays[c]);
    }
    if (mr_block_new(t->rows, columns, t->columns, &block, &err) != MR_OK) {
        fail_msg("mr_block_new: %s", err.message);
    }
    for (uint32_t c = 0; c < t->columns; c++) {
        mr_buf_free(&arrays[c].dims);
        mr_buf_free(&arrays[c].starts);
        mr_buf_free(&arrays[c].offsets);
        mr_buf_free(&arrays[c].data);
    }
    return block;
}

static void assert_cell_is(const struct mr_column *c, uint32_t row, const struct cell *cell)
{
    const int64_t *dims =
        c->kind == MR_COLUMN_FIXED ? c->dims : c->row_dims + (size_t)row * c->rank;
    const unsigned char *want = cell->payload.data;
    uint64_t first;

    assert_int_equal(c->dtype, cell->dtype);
    assert_int_equal(c->rank, cell->rank);
    if (c->rank > 0) {
        assert_memory_equal(dims, cell->dims, c->rank * sizeof dims[0]);
    }
    if (c->kind == MR_COLUMN_VAR) {
        first = c->starts[row];
        assert_int_equal(c->starts[row + 1] - first, cell->values);
    } else {
        first = row * cell->values;
    }
    for (uint64_t i = 0; i < cell->values; i++) {
        size_t size;
        const unsigned char *value = next_value(cell, want, &size);

        if (c->dtype == MR_STRING) {
            assert_int_equal(c->offsets[first + i + 1] - c->offsets[first + i], size);
            if (size > 0) {
                assert_memory_equal((const unsigned char *)c->data + c->offsets[first + i], value,
                                    size);
            }
        } else {
            assert_memory_equal((const unsigned char *)c->data + (first + i) * size, value, size);
        }
        want = value + size;
    }
}

void assert_block_is(const mr_block *block, const struct table *t)
{
    assert_int_equal(mr_block_rows(block), t->rows);
    assert_int_equal(mr_block_column_count(block), t->columns);
    for (uint32_t r = 0; r < t->rows; r++) {
        for (uint32_t c = 0; c < t->columns; c++) {
            assert_cell_is(mr_block_column(block, c), r, table_cell(t, r, c));
        }
    }
}

void table_append(struct table *to, const struct table *from, uint32_t first, uint32_t count)
{
    struct table whole;

    table_new(&whole, to->rows + count, from->columns);
    memcpy(whole.cells, to->cells, (size_t)to->rows * from->columns * sizeof to->cells[0]);
    for (uint32_t r = 0; r < count; r++) {
        for (uint32_t c = 0; c < from->columns; c++) {
            struct cell *cell = table_cell(&whole, to->rows + r, c);
            const struct cell *src = table_cell(from, first + r, c);

            *cell = *src;
            cell->payload = (struct mr_buf)MR_BUF_INIT;
            if (src->payload.len > 0) {
                mr_buf_append(&cell->payload, src->payload.data, src->payload.len);
            }
        }
    }
    mr_free(to->cells);
    *to = whole;
}

bool table_batch(const struct table *from, uint32_t per, struct table *to)
{
    table_new(to, from->rows / per, from->columns);
    for (uint32_t r = 0; r < from->rows; r++) {
        for (uint32_t c = 0; c < from->columns; c++) {
            const struct cell *src = table_cell(from, r, c);
            struct cell *cell = table_cell(to, r / per, c);

            if (r % per == 0) {
                cell->dtype = src->dtype;
                cell->rank = (uint8_t)(src->rank + 1);
                cell->dims[0] = per;
                memcpy(cell->dims + 1, src->dims, src->rank * sizeof src->dims[0]);
            } else if (memcmp(cell->dims + 1, src->dims, src->rank * sizeof src->dims[0]) != 0) {
                return false;
            }
            cell->values += src->values;
            if (src->payload.len > 0) {
                mr_buf_append(&cell->payload, src->payload.data, src->payload.len);
            }
        }
    }
    return true;
}

static void unbatch_cell(const struct cell *src, struct table *to, uint32_t row, uint32_t column)
{
    const unsigned char *at = src->payload.data;

    for (int64_t k = 0; k < src->dims[0]; k++) {
        struct cell *cell = table_cell(to, row + (uint32_t)k, column);

        cell->dtype = src->dtype;
        cell->rank = (uint8_t)(src->rank - 1);
        memcpy(cell->dims, src->dims + 1, cell->rank * sizeof cell->dims[0]);
        cell->values = src->values / (uint64_t)src->dims[0];
        for (uint64_t i = 0; i < cell->values; i++) {
            size_t size;
            const unsigned char *value = next_value(src, at, &size);

            mr_buf_append(&cell->payload, at, (size_t)(value + size - at));
            at = value + size;
        }
    }
}

bool table_unbatch(const struct table *from, struct table *to)
{
    uint32_t rows = 0;

    for (uint32_t r = 0; r < from->rows; r++) {
        for (uint32_t c = 0; c < from->columns; c++) {
            const struct cell *cell = table_cell(from, r, c);

            if (cell->rank == 0 || cell->dims[0] != table_cell(from, r, 0)->dims[0]) {
                return false;
            }
        }
        rows += (uint32_t)table_cell(from, r, 0)->dims[0];
    }
    table_new(to, rows, from->columns);
    uint32_t at = 0;
    for (uint32_t r = 0; r < from->rows; r++) {
        for (uint32_t c = 0; c < from->columns; c++) {
            unbatch_cell(table_cell(from, r, c), to, at, c);
        }
        at += (uint32_t)table_cell(from, r, 0)->dims[0];
    }
    return true;
}
