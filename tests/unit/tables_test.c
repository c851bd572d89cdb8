/* Files of tables: encodings, Arrow's arrays as columns of blocks, and what becomes of it when there
 * is no memory. What pyarrow wrote is compared in tests/e2e/test_table_files.py. */
#include "base/memory.h"
#include "tables/arrow_block.h"
#include "tables/delta.h"
#include "tables/rle.h"
#include "tables/sink.h"
#include "tables/table.h"
#include "tables/thrift.h"
#include "tables/values.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

/* ---- runs ---- */

static uint32_t read_rle(const unsigned char *p, size_t n, unsigned width, uint32_t *to,
                         uint32_t most)
{
    struct mr_rle r;
    uint32_t all = 0;
    uint32_t got;

    assert_true(mr_rle_begin(&r, p, n, width));
    do {
        uint32_t buf[MR_RLE_CHUNK];
        bool repeated = false;

        got = mr_rle_next(&r, most - all, buf, &repeated);
        for (uint32_t i = 0; i < got; i++) {
            to[all + i] = buf[repeated ? 0 : i];
        }
        all += got;
    } while (got > 0);
    return all;
}

static void runs_and_packed_values(void **state)
{
    /* three times 5; then 0..7 in three bits */
    static const unsigned char bytes[] = {6, 5, 3, 0x88, 0xc6, 0xfa};
    uint32_t got[16];

    assert_int_equal(read_rle(bytes, sizeof bytes, 3, got, 16), 11);
    for (uint32_t i = 0; i < 11; i++) {
        assert_int_equal(got[i], i < 3 ? 5 : i - 3);
    }
    assert_int_equal(read_rle(bytes, 5, 3, got, 16), 8); /* cut short: what there are bits for */
    assert_int_equal(read_rle(bytes, 1, 3, got, 16), 0);
    assert_int_equal(read_rle((const unsigned char *)"\x08", 1, 0, got, 16), 4);
    struct mr_rle r;
    assert_false(mr_rle_begin(&r, bytes, 1, 33));
}

/* Packed values of each width, read some at a time: each is the bits that it has. */
static void packed_values_of_each_width(void **state)
{
    enum { VALUES = 800 };
    unsigned char bytes[2 + VALUES * 4];
    uint64_t seed = 1;

    for (unsigned width = 1; width <= 32; width++) {
        for (uint32_t some = 1; some <= VALUES; some += some < 20 ? 1 : 130) {
            size_t size = 2 + VALUES / 8 * width;
            struct mr_rle r;

            bytes[0] = ((VALUES / 8 << 1 | 1) & 0x7f) | 0x80;
            bytes[1] = VALUES / 8 << 1 >> 7;
            for (size_t i = 2; i < size; i++) {
                seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
                bytes[i] = (unsigned char)(seed >> 56);
            }
            unsigned char *exact = malloc(size); /* reading behind them is found */
            assert_non_null(exact);
            memcpy(exact, bytes, size);
            assert_true(mr_rle_begin(&r, exact, size, width));
            for (uint32_t n = 0; n < VALUES;) {
                uint32_t buf[MR_RLE_CHUNK];
                bool repeated = true;
                uint32_t got = mr_rle_next(&r, some, buf, &repeated);

                assert_int_equal(got, MR_MIN(some, VALUES - n));
                assert_false(repeated);
                for (uint32_t i = 0; i < got; i++, n++) {
                    for (unsigned k = 0; k < width; k++) {
                        uint64_t bit = (uint64_t)n * width + k;

                        assert_int_equal(buf[i] >> k & 1, bytes[2 + bit / 8] >> (bit % 8) & 1);
                    }
                    assert_true(width == 32 || buf[i] >> width == 0);
                }
            }
            free(exact);
        }
    }
}

static void a_run_of_no_end(void **state)
{
    static const unsigned char bytes[] = {0xfe, 0xff, 0xff, 0xff, 0x0f, 1};
    struct mr_rle r;
    uint32_t buf[MR_RLE_CHUNK];
    bool repeated = false;

    assert_true(mr_rle_begin(&r, bytes, sizeof bytes, 1));
    assert_int_equal(mr_rle_next(&r, UINT32_MAX, buf, &repeated), INT32_MAX);
    assert_true(repeated && buf[0] == 1);
}

/* ---- delta ---- */

static void deltas(void **state)
{
    /* blocks of 128 in 4 miniblocks, five values, from 7 on: 7, 5, 3, 1, 2 (of -2 and two bits) */
    unsigned char bytes[] = {0x80, 1, 4, 5, 14, 3, 2, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0, 9};
    static const int64_t want[] = {7, 5, 3, 1, 2};
    mr_buffer *got = NULL;
    size_t n = 0;
    size_t used = 0;
    mr_error err;

    assert_int_equal(mr_delta_read(bytes, sizeof bytes, 5, &got, &n, &used, &err), MR_OK);
    assert_int_equal(n, 5);
    assert_int_equal(used, sizeof bytes - 1);
    assert_memory_equal(mr_buffer_data(got), want, sizeof want);
    mr_buffer_unref(got);
    for (size_t size = 0; size < sizeof bytes - 1; size++) {
        assert_int_equal(mr_delta_read(bytes, size, 5, &got, &n, &used, &err), MR_EDATALOSS);
    }
    assert_int_equal(mr_delta_read(bytes, sizeof bytes, 4, &got, &n, &used, &err), MR_EDATALOSS);
    assert_string_equal(err.message, "5 delta-encoded values, there should be 4");
    bytes[6] = 65; /* bits */
    assert_int_equal(mr_delta_read(bytes, sizeof bytes, 5, &got, &n, &used, &err), MR_EDATALOSS);
}

/* A few bytes, which say that there are many values: they count as what they take. */
static void deltas_of_few_bytes(void **state)
{
    /* a block of 65536 in one miniblock, 65537 values from 0 on, each as the one before it */
    static const unsigned char bytes[] = {0x80, 0x80, 4, 1, 0x81, 0x80, 4, 0, 0, 0};
    const size_t takes = 65537 * sizeof(int64_t);
    mr_buffer *got = NULL;
    mr_memory *memory = NULL;
    size_t n = 0;
    size_t used = 0;
    mr_error err;

    assert_int_equal(mr_memory_new(4 * takes, NULL, &memory, &err), MR_OK);
    const uint64_t empty = mr_memory_used(memory);
    mr_memory *before = mr_memory_enter(memory);
    assert_int_equal(mr_delta_read(bytes, sizeof bytes, 65537, &got, &n, &used, &err), MR_OK);
    assert_int_equal(n, 65537);
    assert_true(mr_memory_used(memory) >= takes);
    mr_buffer_unref(got);
    assert_int_equal(mr_memory_used(memory), empty);
    (void)mr_memory_enter(before);
    mr_memory_unref(memory);
}

/* Strings that say of how many bytes of none they begin with. */
static void more_strings_than_beginnings(void **state)
{
    static const struct mr_physical_type type = {MR_PHYSICAL_BYTES, 0};
    /* no numbers; then 4096, all 0 */
    static const unsigned char page[] = {0x80, 1, 1, 0, 0, 0x80, 0x80, 4, 1, 0x80, 0x20, 0, 0, 0};
    struct mr_values v = {0};
    mr_error err;

    assert_int_equal(
        mr_values_begin(&v, type, MR_ENCODING_DELTA_BYTES, page, sizeof page, 4096, NULL, &err),
        MR_EDATALOSS);
    assert_string_equal(err.message, "4096 lengths for 0 strings");
    mr_values_end(&v);
}

/* ---- dictionaries ---- */

static void indices_behind_a_dictionary(void **state)
{
    static const struct mr_physical_type type = {MR_PHYSICAL_INT32, 4};
    static const unsigned char values[] = {7, 0, 0, 0, 8, 0, 0, 0};
    static const int32_t eight = 8;
    unsigned char page[] = {2, 2, 1}; /* two bits each, once: index 1 */
    struct mr_dictionary d = {0};
    struct mr_values v = {0};
    int32_t got = 0;
    mr_error err;

    assert_int_equal(mr_dictionary_read(&d, type, values, sizeof values, 2, &err), MR_OK);
    for (page[2] = 1; page[2] < 4; page[2]++) {
        assert_int_equal(
            mr_values_begin(&v, type, MR_ENCODING_DICTIONARY, page, sizeof page, 1, &d, &err),
            MR_OK);
        int rc = mr_values_fixed(&v, &got, 1, &err);
        assert_int_equal(rc, page[2] == 1 ? MR_OK : MR_EDATALOSS);
        assert_int_equal(got, eight);
    }
    assert_string_equal(err.message, "an index that the dictionary does not have");
    mr_values_end(&v);
    mr_dictionary_free(&d);
}

/* ---- Thrift ---- */

static void structs_in_structs(void **state)
{
    unsigned char bytes[200];
    struct mr_thrift t;
    struct mr_thrift_field f = {0};

    memset(bytes, 0x1c, sizeof bytes); /* field 1 is a struct, whose field 1 is a struct, ... */
    mr_thrift_begin(&t, bytes, sizeof bytes);
    assert_true(mr_thrift_next(&t, &f));
    mr_thrift_skip(&t, &f);
    assert_string_equal(t.fault, "structs in structs, too deep");
    assert_false(mr_thrift_next(&t, &f));
    assert_false(t.cut_short);
}

/* ---- arrays of others ---- */

static int released;

static void count_release(struct ArrowArray *a)
{
    released++;
    a->release = NULL;
}

static void expect_numbers(const struct mr_owned_column *c, const int32_t *want, size_t n)
{
    assert_int_equal(c->c.kind, MR_COLUMN_FIXED);
    assert_memory_equal(c->c.data, want, n * sizeof *want);
}

/* An array with an offset and a null, in memory that is aligned in no way. */
static void arrays_of_others(void **state)
{
    static const int32_t values[] = {0, 1, 2, 3, 4};
    static const int32_t nine = 9;
    static const unsigned char valid[] = {0x17}; /* not the fourth */
    const void *buffers[2] = {valid, values};
    const struct ArrowSchema schema = {.format = "i", .name = "x"};
    const struct ArrowArray array = {.length = 3,
                                     .null_count = 1,
                                     .offset = 2,
                                     .n_buffers = 2,
                                     .buffers = buffers,
                                     .release = count_release};
    const struct mr_column instead = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT32, .data = &nine};
    struct mr_arrow_want want = {&schema, &instead};
    struct mr_owned_column column;
    struct ArrowArray a = array;
    uint32_t *bad = NULL;
    mr_error err;

    released = 0;
    assert_int_equal(mr_arrow_column(&want, &a, &bad, 1, &column, &err), MR_OK);
    expect_numbers(&column, (const int32_t[]){2, 9, 4}, 3);
    assert_null(bad);
    assert_int_equal(released, 1); /* the values were copied */
    mr_owned_column_free(&column);

    a = array;
    want.instead = NULL;
    assert_int_equal(mr_arrow_column(&want, &a, &bad, 7, &column, &err), MR_OK);
    expect_numbers(&column, (const int32_t[]){2, 0, 4}, 3);
    assert_true(bad != NULL && bad[0] == 0 && bad[1] == 7 && bad[2] == 0);
    mr_owned_column_free(&column);
    mr_free(bad);
    assert_int_equal(released, 2);
}

static void numbers_are_lent(void **state)
{
    static _Alignas(64) const int64_t values[8] = {1, 2, 3};
    const void *buffers[2] = {NULL, values};
    const struct ArrowSchema schema = {.format = "l", .name = "x"};
    struct ArrowArray a = {
        .length = 3, .n_buffers = 2, .buffers = buffers, .release = count_release};
    const struct mr_arrow_want want = {&schema, NULL};
    struct mr_owned_column column;
    uint32_t *bad = NULL;
    mr_error err;

    released = 0;
    assert_int_equal(mr_arrow_column(&want, &a, &bad, 1, &column, &err), MR_OK);
    assert_null(a.release);
    assert_ptr_equal(column.c.data, values);
    assert_int_equal(released, 0);
    mr_owned_column_free(&column);
    assert_int_equal(released, 1);
}

static void an_index_that_is_in_no_dictionary(void **state)
{
    static const int8_t indices[] = {0, 1, 2};
    static const int32_t offsets[] = {0, 1, 2};
    const void *buffers[2] = {NULL, indices};
    const void *words[3] = {NULL, offsets, "ab"};
    struct ArrowSchema values = {.format = "u"};
    const struct ArrowSchema schema = {.format = "c", .name = "x", .dictionary = &values};
    struct ArrowArray dictionary = {.length = 2, .n_buffers = 3, .buffers = words};
    struct ArrowArray a = {.length = 3,
                           .n_buffers = 2,
                           .buffers = buffers,
                           .dictionary = &dictionary,
                           .release = count_release};
    const struct mr_arrow_want want = {&schema, NULL};
    struct mr_owned_column column;
    uint32_t *bad = NULL;
    mr_error err;

    assert_int_equal(mr_arrow_column(&want, &a, &bad, 1, &column, &err), MR_EDATALOSS);
    assert_string_equal(err.message, "index 2 in a dictionary of 2");
    assert_null(a.release);
}

/* ---- whole files ---- */

struct bytes {
    unsigned char *data;
    size_t size;
};

static int read_bytes(void *ctx, uint64_t offset, void *to, size_t n, mr_error *err)
{
    const struct bytes *b = ctx;

    assert_true(offset <= b->size && n <= b->size - offset);
    memcpy(to, b->data + offset, n);
    return MR_OK;
}

static struct bytes read_file(const char *name)
{
    char path[512];
    struct bytes b = {malloc(1 << 20), 0};

    (void)snprintf(path, sizeof path, "%s/%s", MR_TABLES, name);
    FILE *f = fopen(path, "rb");
    assert_true(f != NULL && b.data != NULL);
    b.size = fread(b.data, 1, 1 << 20, f);
    assert_int_equal(fclose(f), 0);
    return b;
}

static int read_columns(struct mr_table *t, struct ArrowArray *rows, uint32_t **bad, mr_error *err)
{
    int rc = MR_OK;

    for (uint32_t i = 0; i < t->nchosen && rc == MR_OK; i++) {
        const struct mr_arrow_want want = {&t->columns[t->chosen[i]].schema, NULL};
        struct mr_owned_column column;

        rc = mr_arrow_column(&want, rows->children[i], bad, i + 1, &column, err);
        if (rc == MR_OK) {
            mr_owned_column_free(&column);
        }
    }
    return rc;
}

/* All that can be read of all groups: how many rows; below 0: why not. */
static int64_t read_table(const struct mr_table_format *format, struct bytes *b, mr_error *err)
{
    const struct mr_table_input in = {b, b->size, read_bytes};
    struct mr_table *t = NULL;
    uint32_t chosen[64];
    uint32_t n = 0;
    int64_t all = 0;
    int rc = mr_table_open(format, &in, &t, err);

    for (uint32_t i = 0; rc == MR_OK && i < t->ncolumns; i++) {
        chosen[n] = i;
        n += t->columns[i].unread == NULL;
    }
    for (uint32_t g = 0; rc >= MR_OK && g < t->ngroups; g++) {
        rc = mr_table_begin(t, g, 0, chosen, n, err);
        while (rc == MR_OK) {
            struct ArrowArray rows;
            uint32_t *bad = NULL;

            rc = mr_table_next(t, 9, &rows, err);
            if (rc == MR_OK) {
                all += rows.length;
                rc = read_columns(t, &rows, &bad, err);
                rows.release(&rows);
                mr_free(bad);
            }
        }
    }
    mr_table_close(t);
    return rc < 0 ? rc : all;
}

static void rows_count(const struct mr_table_format *format, const char *name)
{
    struct bytes b = read_file(name);
    const struct mr_table_input in = {&b, b.size, read_bytes};
    struct mr_table *t = NULL;
    mr_memory *memory = NULL;
    struct ArrowArray rows;
    uint32_t chosen[64];
    uint32_t n = 0;
    mr_error err;

    assert_int_equal(mr_memory_new(1 << 24, NULL, &memory, &err), MR_OK);
    const uint64_t empty = mr_memory_used(memory);
    mr_memory *before = mr_memory_enter(memory);
    assert_int_equal(mr_table_open(format, &in, &t, &err), MR_OK);
    for (uint32_t i = 0; i < t->ncolumns; i++) {
        chosen[n] = i;
        n += t->columns[i].unread == NULL;
    }
    assert_int_equal(mr_table_begin(t, 0, 0, chosen, n, &err), MR_OK);
    assert_int_equal(mr_table_next(t, 9, &rows, &err), MR_OK);
    uint64_t with = mr_memory_used(memory);
    for (uint32_t i = 0; i < n; i++) {
        mr_arrow_array_discharge(rows.children[i]);
    }
    uint64_t without = mr_memory_used(memory);
    assert_true(with >= without + (uint64_t)n * 9);
    rows.release(&rows);
    assert_int_equal(mr_memory_used(memory), without);
    mr_table_close(t);
    assert_int_equal(mr_memory_used(memory), empty);
    (void)mr_memory_enter(before);
    mr_memory_unref(memory);
    free(b.data);
}

/* Columns that have been read wait for the others of their rows: they count meanwhile. */
static void columns_that_wait(void **state)
{
    rows_count(&mr_table_parquet, "lists.parquet");
    rows_count(&mr_table_arrow, "lists-lz4.arrow");
}

/* File @name with @size bytes of it replaced, as @was is not there twice. */
static struct bytes changed_file(const char *name, const void *was, const void *is, size_t size)
{
    struct bytes b = read_file(name);
    unsigned char *at = memmem(b.data, b.size, was, size);

    assert_non_null(at);
    memcpy(at, is, size);
    return b;
}

static void values_that_have_changed(void **state)
{
    static const float was[] = {0, 0.5F, 1, 1.5F};
    static const float is[] = {0, 0.5F, 1, 2.5F};
    struct bytes b = changed_file("example-checksums.parquet", was, is, sizeof was);
    mr_error err;

    assert_int_equal(read_table(&mr_table_parquet, &b, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "the checksum of a page is wrong"));
    free(b.data);
}

static void offsets_that_decrease(void **state)
{
    static const int32_t was[] = {0, 5, 5, 10, 15};
    static const int32_t is[] = {0, 5, 3, 10, 15};
    struct bytes b = changed_file("example.arrow", was, is, sizeof was);
    mr_error err;

    assert_int_equal(read_table(&mr_table_arrow, &b, &err), MR_EDATALOSS);
    assert_non_null(strstr(err.message, "offset 3 behind 5"));
    free(b.data);
}

/* Each allocation fails once: that is what is said, and nothing is left (the address sanitizer
 * looks). */
static void no_memory(void **state)
{
    DIR *dir = opendir(MR_TABLES);
    const struct dirent *e;
    unsigned files = 0;

    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL) {
        const char *end = strrchr(e->d_name, '.');
        bool arrow = strcmp(end, ".arrow") == 0;

        if (!arrow && strcmp(end, ".parquet") != 0) {
            continue;
        }
        struct bytes b = read_file(e->d_name);
        const struct mr_table_format *format = arrow ? &mr_table_arrow : &mr_table_parquet;
        mr_error err = {0};
        int64_t rows = read_table(format, &b, &err);
        int64_t got = MR_EEXHAUSTED;
        if (rows < 0) {
            fail_msg("%s: %s", e->d_name, err.message);
        }
        for (uint64_t nth = 1; got == MR_EEXHAUSTED; nth += nth < 100 ? 1 : nth / 50) {
            mr_alloc_fail_at(nth);
            got = read_table(format, &b, &err);
        }
        mr_alloc_fail_at(0);
        assert_int_equal(got, rows);
        free(b.data);
        files++;
    }
    assert_int_equal(closedir(dir), 0);
    assert_true(files >= 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_and_packed_values),
        cmocka_unit_test(packed_values_of_each_width),
        cmocka_unit_test(a_run_of_no_end),
        cmocka_unit_test(deltas),
        cmocka_unit_test(deltas_of_few_bytes),
        cmocka_unit_test(more_strings_than_beginnings),
        cmocka_unit_test(indices_behind_a_dictionary),
        cmocka_unit_test(structs_in_structs),
        cmocka_unit_test(arrays_of_others),
        cmocka_unit_test(numbers_are_lent),
        cmocka_unit_test(an_index_that_is_in_no_dictionary),
        cmocka_unit_test(columns_that_wait),
        cmocka_unit_test(values_that_have_changed),
        cmocka_unit_test(offsets_that_decrease),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
