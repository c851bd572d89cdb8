/* Files of tables of few bytes that say that they have much: memory is that of what is read. */
#include "base/memory.h"
#include "tables/table.h"
#include "tables/values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

struct bytes {
    const unsigned char *data;
    size_t size;
};

static uint64_t used_at_begin;
static uint64_t used_at_read; /* of the budget, when something was read last */

static int read_bytes(void *ctx, uint64_t offset, void *to, size_t n, mr_error *err)
{
    const struct bytes *b = ctx;

    used_at_read = mr_memory_used(mr_memory_current());
    assert_true(offset <= b->size && n <= b->size - offset);
    memcpy(to, b->data + offset, n);
    return MR_OK;
}

/* The first @rows rows of column @column of the first row group: how many; below 0: why not. */
static int64_t first_rows(const struct mr_table_format *format, const struct bytes *b,
                          uint32_t column, uint32_t rows, mr_error *err)
{
    struct bytes bytes = *b;
    const struct mr_table_input in = {&bytes, b->size, read_bytes};
    struct mr_table *t = NULL;
    struct ArrowArray got;
    int64_t n = 0;
    int rc = mr_table_open(format, &in, &t, err);

    if (rc == MR_OK) {
        assert_null(t->columns[column].unread);
        rc = mr_table_begin(t, 0, 0, &column, 1, err);
    }
    used_at_begin = mr_memory_used(mr_memory_current());
    if (rc == MR_OK) {
        rc = mr_table_next(t, rows, &got, err);
    }
    if (rc == MR_OK) {
        n = got.length;
        got.release(&got);
    }
    mr_table_close(t);
    return rc < 0 ? rc : n;
}

/* clang-format off */
#define MANY 0xfe, 0xff, 0xff, 0xff, 0x0f /* 2**31 - 1 as zigzag, and as the head of a run */

/* One column of 2**31 - 1 lists in one page. The lists are null: one run of levels. */
static const unsigned char many_lists[] = {
    'P', 'A', 'R', '1',
    0x15, 0, 0x15, 40, 0x15, 40, /* a page of 20 bytes */
    0x2c, 0x15, MANY, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0,
    6, 0, 0, 0, MANY, 0, /* levels: where lists begin, what is there */
    6, 0, 0, 0, MANY, 0,
    /* the footer: version; schema { optional group l { repeated group m { optional int32 e } } } */
    0x15, 2, 0x19, 0x4c,
    0x48, 1, 's', 0x15, 2, 0,
    0x35, 2, 0x18, 1, 'l', 0x15, 2, 0x15, 6, 0,
    0x35, 4, 0x18, 1, 'm', 0x15, 2, 0,
    0x15, 2, 0x25, 2, 0x18, 1, 'e', 0,
    0x16, MANY, /* rows */
    0x19, 0x1c, /* a row group of one chunk: INT32, not compressed, 41 bytes from 4 on */
    0x19, 0x1c, 0x26, 8, 0x1c,
    0x15, 2, 0x19, 0x15, 6, 0x19, 0x18, 1, 'l', 0x15, 0, 0x16, MANY, 0x16, 82, 0x16, 82, 0x26, 8,
    0, 0,
    0x16, 82, 0x16, MANY, 0,
    0,
    84, 0, 0, 0, 'P', 'A', 'R', '1',
};
/* clang-format on */

static void a_page_of_many_lists(void **state)
{
    const struct bytes b = {many_lists, sizeof many_lists};
    mr_memory *memory = NULL;
    mr_error err = {0};

    assert_int_equal(mr_memory_new(2 << 20, NULL, &memory, &err), MR_OK);
    mr_memory *before = mr_memory_enter(memory);
    int64_t n = first_rows(&mr_table_parquet, &b, 0, 5000, &err);
    (void)mr_memory_enter(before);
    mr_memory_unref(memory);
    if (n < 0) {
        fail_msg("%s", err.message);
    }
    assert_int_equal(n, 5000);
}

static struct bytes read_file(const char *name, unsigned char **ret)
{
    char path[512];

    (void)snprintf(path, sizeof path, "%s/%s", MR_TABLES, name);
    FILE *f = fopen(path, "rb");
    *ret = malloc(1 << 20);
    assert_true(f != NULL && *ret != NULL);
    const struct bytes b = {*ret, fread(*ret, 1, 1 << 20, f)};
    assert_int_equal(fclose(f), 0);
    return b;
}

static void more_values_in_pages_than_in_the_chunk(void **state)
{
    /* field 5 of a chunk's metadata, behind the codec: 8 values */
    static const unsigned char was[] = {0x15, 0, 0x16, 16};
    unsigned char *data = NULL;
    const struct bytes b = read_file("types.parquet", &data);
    mr_error err = {0};

    assert_int_equal(first_rows(&mr_table_parquet, &b, 0, 8, &err), 8);
    unsigned char *at = memmem(data, b.size, was, sizeof was);
    assert_non_null(at);
    at[3] = 14;
    assert_int_equal(first_rows(&mr_table_parquet, &b, 0, 8, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "its pages have more values than it should have"));
    free(data);
}

/* Parts of an array count while the next one is read: offsets of strings, then their bytes. */
static void parts_of_an_array_count(void **state)
{
    enum { STRINGS = 24, OFFSETS = 9 * sizeof(int32_t) };
    unsigned char *data = NULL;
    const struct bytes b = read_file("types.arrow", &data);
    mr_memory *memory = NULL;
    mr_error err = {0};

    assert_int_equal(mr_memory_new(1 << 20, NULL, &memory, &err), MR_OK);
    const uint64_t empty = mr_memory_used(memory);
    mr_memory *before = mr_memory_enter(memory);
    assert_int_equal(first_rows(&mr_table_arrow, &b, STRINGS, 8, &err), 8);
    assert_true(used_at_read > used_at_begin + OFFSETS);
    assert_int_equal(mr_memory_used(memory), empty);
    (void)mr_memory_enter(before);
    mr_memory_unref(memory);
    free(data);
}

/* Dictionaries stay while their row group is read: they count meanwhile. */
static void dictionaries_count(void **state)
{
    static const struct mr_physical_type numbers = {MR_PHYSICAL_INT64, 8};
    static const struct mr_physical_type strings = {MR_PHYSICAL_BYTES, 0};
    static const unsigned char values[8 * 4096]; /* as strings, 8192 empty ones */
    struct mr_dictionary d = {0};
    mr_memory *memory = NULL;
    mr_error err;

    assert_int_equal(mr_memory_new(1 << 20, NULL, &memory, &err), MR_OK);
    const uint64_t empty = mr_memory_used(memory);
    mr_memory *before = mr_memory_enter(memory);
    assert_int_equal(mr_dictionary_read(&d, numbers, values, sizeof values, 4096, &err), MR_OK);
    assert_true(mr_memory_used(memory) >= empty + sizeof values);
    (void)mr_memory_enter(NULL); /* whoever frees it */
    mr_dictionary_free(&d);
    assert_int_equal(mr_memory_used(memory), empty);
    (void)mr_memory_enter(memory);
    assert_int_equal(mr_dictionary_read(&d, strings, values, sizeof values, 8192, &err), MR_OK);
    assert_true(mr_memory_used(memory) >= empty + 8192 * sizeof(int64_t));
    mr_dictionary_free(&d);
    assert_int_equal(mr_memory_used(memory), empty);
    (void)mr_memory_enter(before);
    mr_memory_unref(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_of_many_lists),
        cmocka_unit_test(more_values_in_pages_than_in_the_chunk),
        cmocka_unit_test(parts_of_an_array_count),
        cmocka_unit_test(dictionaries_count),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
