/*
 * Files of tables: whatever the bytes are, what is read of them makes sound blocks, in pieces of any
 * size the same ones, within a budget. Corpus: what pyarrow wrote (tests/support/tables), too.
 */
#include "base/memory.h"
#include "tables/arrow_block.h"
#include "tables/table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BUDGET (64u << 20)
#define GROUPS_MAX 3u
#define COLUMNS_MAX 64u
#define ROWS_MAX 192u

struct bytes {
    const uint8_t *data;
    size_t size;
};

static int read_bytes(void *ctx, uint64_t offset, void *to, size_t n, mr_error *err)
{
    const struct bytes *b = ctx;

    if (offset > b->size || n > b->size - offset) {
        abort(); /* the reader asks for what the file does not have */
    }
    memcpy(to, b->data + offset, n);
    return MR_OK;
}

/* The rows of @array, which is released, as a block. */
static int make_block(const struct mr_table *t, struct ArrowArray *array, mr_block **ret,
                      mr_error *err)
{
    struct mr_owned_column columns[COLUMNS_MAX] = {0};
    uint32_t *bad = NULL;
    int rc = MR_OK;

    for (uint32_t i = 0; i < t->nchosen && rc == MR_OK; i++) {
        const struct mr_arrow_want want = {&t->columns[t->chosen[i]].schema, NULL};

        rc = mr_arrow_column(&want, array->children[i], &bad, i + 1, &columns[i], err);
    }
    if (rc == MR_OK) {
        rc = mr_block_from_columns((uint32_t)array->length, columns, t->nchosen, ret, err);
    }
    for (uint32_t i = 0; i < t->nchosen; i++) {
        mr_owned_column_free(&columns[i]);
    }
    array->release(array);
    mr_free(bad);
    return rc;
}

/* Up to ROWS_MAX rows in pieces of @rows, encoded; NULL: not all of them can be read. */
static mr_buffer *read_group(struct mr_table *t, uint32_t group, const uint32_t *chosen, uint32_t n,
                             uint32_t rows)
{
    mr_block *pieces[ROWS_MAX];
    mr_block *all = NULL;
    mr_buffer *encoded = NULL;
    size_t count = 0;
    uint32_t got = 0;
    mr_error err;
    int rc = mr_table_begin(t, group, 0, chosen, n, &err);

    while (rc == MR_OK && got < ROWS_MAX) {
        struct ArrowArray array;
        uint32_t some = MR_MIN(rows, ROWS_MAX - got);

        rc = mr_table_next(t, some, &array, &err);
        if (rc == MR_OK) {
            rc = make_block(t, &array, &pieces[count], &err);
        }
        if (rc == MR_OK) {
            got += mr_block_rows(pieces[count++]);
        }
    }
    if (rc >= 0 && count > 0) {
        rc = mr_block_concat((const mr_block *const *)pieces, count, &all, &err);
    }
    if (rc >= 0 && all != NULL) {
        (void)mr_block_encode_buffer(all, 1, false, &encoded, &err);
    }
    mr_block_unref(all);
    for (size_t i = 0; i < count; i++) {
        mr_block_unref(pieces[i]);
    }
    return encoded;
}

static void check_group(struct mr_table *t, uint32_t group, const uint32_t *chosen, uint32_t n)
{
    mr_buffer *whole = read_group(t, group, chosen, n, ROWS_MAX);
    mr_buffer *pieces = read_group(t, group, chosen, n, 7);
    mr_block *decoded = NULL;
    size_t used = 0;
    mr_error err;

    if (whole != NULL && mr_block_decode(whole, 0, 1, &decoded, &used, &err) != MR_OK &&
        err.code != MR_EEXHAUSTED) {
        abort(); /* the block was not sound */
    }
    if (whole != NULL && pieces != NULL &&
        (mr_buffer_size(whole) != mr_buffer_size(pieces) ||
         memcmp(mr_buffer_data(whole), mr_buffer_data(pieces), mr_buffer_size(whole)) != 0)) {
        abort();
    }
    mr_block_unref(decoded);
    mr_buffer_unref(whole);
    mr_buffer_unref(pieces);
}

static void read_all(const struct mr_table_format *format, struct bytes *bytes)
{
    const struct mr_table_input in = {bytes, bytes->size, read_bytes};
    struct mr_table *t = NULL;
    uint32_t chosen[COLUMNS_MAX];
    uint32_t n = 0;
    mr_error err;

    if (mr_table_open(format, &in, &t, &err) != MR_OK) {
        return;
    }
    for (uint32_t i = 0; i < t->ncolumns && n < COLUMNS_MAX; i++) {
        struct mr_leaf_spec leaf;

        if (t->columns[i].unread == NULL && mr_arrow_leaf(&t->columns[i].schema, &leaf)) {
            chosen[n++] = i;
        }
    }
    for (uint32_t g = 0; g < t->ngroups && g < GROUPS_MAX; g++) {
        check_group(t, g, chosen, n);
        for (uint32_t i = 0; i < n && i < 16; i++) { /* one that is damaged must not hide others */
            check_group(t, g, &chosen[i], 1);
        }
    }
    mr_table_close(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes bytes = {data, size};
    mr_memory *memory = NULL;
    mr_error err;

    if (mr_memory_new(BUDGET, NULL, &memory, &err) != MR_OK) {
        return 0;
    }
    uint64_t used = mr_memory_used(memory);
    mr_memory *before = mr_memory_enter(memory);
    read_all(size > 0 && data[0] == 'P' ? &mr_table_parquet : &mr_table_arrow, &bytes);
    (void)mr_memory_enter(before);
    if (mr_memory_used(memory) != used) {
        abort(); /* something is left, or was released twice */
    }
    mr_memory_unref(memory);
    return 0;
}
