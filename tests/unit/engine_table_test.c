/* Files of tables that several threads read: the rows, the errors and the states are those of one
 * thread. The file is made here: each value says where it stands, one page of it can be damaged,
 * and a row can be null. */
#include "engine_support.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "element/trace.h"
#include "engine/env.h"
#include "engine/parts.h"
#include "engine/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#define COLUMNS 8u
#define GROUPS 3u
#define GROUP_ROWS 40000u
#define PAGE_ROWS 10000u
#define PAGES (GROUP_ROWS / PAGE_ROWS)
#define ROWS (GROUPS * GROUP_ROWS)
#define BATCH 1000u
#define NO_PAGE UINT32_MAX
#define TEXT_BYTES 40u
#define NULL_COLUMN 3u /* from here on a row that is null is */

/* ---- the pool: always as if threads had nothing to do ---- */

static atomic_uint submitted;
static uint32_t idle;

uint32_t __wrap_mr_pool_idle(void);
uint32_t __wrap_mr_pool_idle(void)
{
    return idle;
}

void __real_mr_pool_submit(struct mr_pool_task *task);
void __wrap_mr_pool_submit(struct mr_pool_task *task);
void __wrap_mr_pool_submit(struct mr_pool_task *task)
{
    atomic_fetch_add(&submitted, 1);
    __real_mr_pool_submit(task);
}

/* ---- a file ---- */

static char path[] = "/tmp/engine-table-XXXXXX";
static int64_t null_row = -1; /* of files that are written; -1: there is none, nor could be */

static void put_byte(struct mr_buf *b, unsigned v)
{
    const unsigned char byte = (unsigned char)v;

    mr_buf_append(b, &byte, 1);
}

static void put_varint(struct mr_buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7) {
        put_byte(b, (unsigned)v | 0x80);
    }
    put_byte(b, (unsigned)v);
}

/* A field of Thrift's compact protocol: its head, then a number. */
static void put_number(struct mr_buf *b, unsigned head, int64_t v)
{
    put_byte(b, head);
    put_varint(b, (uint64_t)v << 1);
}

static void put_name(struct mr_buf *b, unsigned head, uint32_t column)
{
    put_byte(b, head);
    mr_buf_printf(b, "\1%c", 'a' + (int)column);
}

/* The head of a page of @rows values in @encoding. */
static void put_page_head(struct mr_buf *b, int64_t plain_size, int64_t size, int64_t rows,
                          int64_t encoding)
{
    put_number(b, 0x15, 0);
    put_number(b, 0x15, plain_size);
    put_number(b, 0x15, size);
    put_byte(b, 0x2c);
    put_number(b, 0x15, rows);
    put_number(b, 0x15, encoding);
    put_number(b, 0x15, 3);
    put_number(b, 0x15, 3);
    mr_buf_append(b, "\0", 2);
}

/* Which values of a page are there: all but number @null. */
static void put_levels(struct mr_buf *b, uint32_t null)
{
    const uint32_t runs[3] = {null, null < PAGE_ROWS ? 1 : 0,
                              null < PAGE_ROWS ? PAGE_ROWS - 1 - null : 0};
    struct mr_buf levels = MR_BUF_INIT;

    for (uint32_t i = 0; i < 3; i++) {
        put_varint(&levels, runs[i] << 1);
        put_byte(&levels, i != 1);
    }
    uint32_t size = (uint32_t)levels.len;
    mr_buf_append(b, &size, sizeof size);
    mr_buf_append(b, levels.data, size);
    mr_buf_free(&levels);
}

static void put_page(struct mr_buf *b, uint32_t group, uint32_t column, uint32_t page, bool damaged)
{
    const int64_t first = (int64_t)group * GROUP_ROWS + page * PAGE_ROWS;
    const bool here =
        column >= NULL_COLUMN && null_row >= first && null_row < first + (int64_t)PAGE_ROWS;
    const uint32_t null = here ? (uint32_t)(null_row - first) : PAGE_ROWS;
    struct mr_buf values = MR_BUF_INIT;

    if (null_row >= 0) {
        put_levels(&values, null);
    }
    for (uint32_t i = 0; i < PAGE_ROWS; i++) {
        int64_t value = (first + i) * COLUMNS + column;

        mr_buf_append(&values, &value, i != null ? sizeof value : 0);
    }
    const int64_t size = (int64_t)values.len;
    put_page_head(b, damaged ? size - 1 : size, size, PAGE_ROWS, 0);
    mr_buf_append(b, values.data, values.len);
    mr_buf_free(&values);
}

/* A dictionary of one string, and a page of which each value is that. */
static void put_texts(struct mr_buf *b)
{
    static const char text[TEXT_BYTES];
    const uint32_t size = sizeof text;
    struct mr_buf run = MR_BUF_INIT;

    put_number(b, 0x15, 2);
    put_number(b, 0x15, sizeof size + size);
    put_number(b, 0x15, sizeof size + size);
    put_byte(b, 0x4c);
    put_number(b, 0x15, 1);
    put_number(b, 0x15, 0);
    mr_buf_append(b, "\0", 2);
    mr_buf_append(b, &size, sizeof size);
    mr_buf_append(b, text, size);
    put_byte(&run, 1);
    put_varint(&run, GROUP_ROWS << 1);
    put_byte(&run, 0);
    put_page_head(b, (int64_t)run.len, (int64_t)run.len, GROUP_ROWS, 8);
    mr_buf_append(b, run.data, run.len);
    mr_buf_free(&run);
}

static void put_chunk(struct mr_buf *b, uint32_t column, int64_t type, int64_t at, int64_t size)
{
    put_number(b, 0x26, at);
    put_byte(b, 0x1c);
    put_number(b, 0x15, type);
    mr_buf_append(b, "\x19\x15\0\x19", 4);
    put_name(b, 0x18, column);
    put_number(b, 0x15, 0);
    put_number(b, 0x16, GROUP_ROWS);
    put_number(b, 0x16, size);
    put_number(b, 0x16, size);
    put_number(b, 0x26, at);
    mr_buf_append(b, "\0", 2);
}

static void put_footer(struct mr_buf *b, int64_t type, int64_t at[GROUPS][COLUMNS + 1])
{
    size_t begin = b->len;

    put_number(b, 0x15, 1);
    mr_buf_append(b, "\x19\x9c\x48\1s", 5);
    put_number(b, 0x15, COLUMNS);
    put_byte(b, 0);
    for (uint32_t c = 0; c < COLUMNS; c++) {
        put_number(b, 0x15, type);
        put_number(b, 0x25, null_row >= 0);
        put_name(b, 0x18, c);
        put_byte(b, 0);
    }
    put_number(b, 0x16, ROWS);
    mr_buf_append(b, "\x19\x3c", 2);
    for (uint32_t g = 0; g < GROUPS; g++) {
        mr_buf_append(b, "\x19\x8c", 2);
        for (uint32_t c = 0; c < COLUMNS; c++) {
            put_chunk(b, c, type, at[g][c], at[g][c + 1] - at[g][c]);
        }
        put_number(b, 0x16, at[g][COLUMNS] - at[g][0]);
        put_number(b, 0x16, GROUP_ROWS);
        put_byte(b, 0);
    }
    put_byte(b, 0);
    uint32_t size = (uint32_t)(b->len - begin);
    mr_buf_append(b, &size, sizeof size);
    mr_buf_append(b, "PAR1", 4);
}

enum { TYPE_INT64 = 2, TYPE_BYTES = 6 };

static void write_columns(int64_t type, uint32_t bad_page, uint32_t bad)
{
    struct mr_buf b = MR_BUF_INIT;
    int64_t at[GROUPS][COLUMNS + 1];

    mr_buf_append(&b, "PAR1", 4);
    for (uint32_t g = 0; g < GROUPS; g++) {
        for (uint32_t c = 0; c < COLUMNS; c++) {
            at[g][c] = (int64_t)b.len;
            for (uint32_t p = 0; p < PAGES && type == TYPE_INT64; p++) {
                put_page(&b, g, c, p, g == 1 && p == bad_page && c >= bad);
            }
            if (type == TYPE_BYTES) {
                put_texts(&b);
            }
        }
        at[g][COLUMNS] = (int64_t)b.len;
    }
    put_footer(&b, type, at);
    FILE *f = fopen(path, "wb");
    assert_true(f != NULL && !b.failed);
    assert_int_equal(fwrite(b.data, 1, b.len, f), b.len);
    assert_int_equal(fclose(f), 0);
    mr_buf_free(&b);
}

/* In row group 1, page @bad_page of columns @bad and behind is damaged. */
static void write_file(uint32_t bad_page, uint32_t bad)
{
    write_columns(TYPE_INT64, bad_page, bad);
}

/* The heads of its pages make no sense any more. */
static void damage_first_group(void)
{
    const unsigned char none[16] = {0};
    FILE *f = fopen(path, "r+b");

    assert_true(f != NULL && fseek(f, 4, SEEK_SET) == 0);
    assert_int_equal(fwrite(none, 1, sizeof none, f), sizeof none);
    assert_int_equal(fclose(f), 0);
}

static mr_dataset *table_of(const char *dtype, uint32_t batch)
{
    char spec[256];
    static const uint64_t offsets[COLUMNS + 1] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const struct mr_column names = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = "abcdefgh"};
    mr_block *columns = NULL;
    size_t n = (size_t)snprintf(spec, sizeof spec, "[[");

    for (uint32_t c = 0; c < COLUMNS; c++) {
        n += (size_t)snprintf(spec + n, sizeof spec - n, "%s[\"%s\"]", c > 0 ? "," : "", dtype);
    }
    (void)snprintf(spec + n, sizeof spec - n,
                   "],[\"*\",\"*\",\"*\",\"*\",\"*\",\"*\",\"*\",\"*\"]]");
    CHECK_OK(mr_block_new(COLUMNS, &names, 1, &columns, e));
    struct mr_attr attrs[] = {
        TEXT_ATTR("filename", path),
        TEXT_ATTR("spec", spec),
        {.name = "columns", .kind = MR_ATTR_STRINGS, .block = columns},
    };
    mr_dataset *ds = make("parquet", NULL, NULL, attrs, 3, NULL);
    mr_block_unref(columns);
    return batch > 0 ? make_one("batch", ds, "batch_size", batch) : ds;
}

static mr_dataset *table(uint32_t batch)
{
    return table_of("int64", batch);
}

/* ---- reading ---- */

/* What an iterator has given. Rows are looked at as they come. */
struct seen {
    int64_t next;      /* row */
    uint32_t untraced; /* elements of which nobody knows which rows they are */
    uint32_t errors;
    int64_t failed_at; /* of the last error */
    char message[1024];
};

/* Element @i is @per rows from row @row of the file on, if that is known. */
static void look_at_trace(struct seen *s, const mr_block *block, uint32_t i, int64_t row,
                          int64_t per)
{
    struct mr_record record = mr_block_record(block, i);

    if (record.file == NULL) {
        s->untraced++;
        return;
    }
    assert_int_equal(record.number, row);
    assert_int_equal(record.more, per - 1);
}

static void look(struct seen *s, const mr_block *block)
{
    const uint32_t elements = mr_block_rows(block);
    int64_t n = 0;

    for (uint32_t c = 0; c < COLUMNS; c++) {
        const struct mr_column *column = mr_block_column(block, c);
        const int64_t *values = column->data;

        n = elements;
        for (int d = 0; d < column->rank; d++) {
            n *= column->dims[d];
        }
        for (int64_t i = 0; i < n; i++) {
            if (values[i] != (s->next + i) * COLUMNS + c) {
                fail_msg("row %lld, column %u: %lld", (long long)(s->next + i), c,
                         (long long)values[i]);
            }
        }
    }
    look_at_trace(s, block, 0, s->next, n / elements);
    look_at_trace(s, block, elements - 1, s->next + n - n / elements, n / elements);
    s->next += n;
}

/* Some rows or an error. Behind an error the next row group follows. */
static int step(mr_engine_iter *it, uint32_t rows, struct seen *s)
{
    mr_block *block = NULL;
    mr_error err;
    int rc = mr_engine_pull(it, (struct mr_want){.rows_max = rows}, -1, &block, &err);

    if (rc == MR_OK) {
        look(s, block);
        mr_block_unref(block);
    } else if (rc < 0) {
        s->errors++;
        s->failed_at = s->next;
        (void)snprintf(s->message, sizeof s->message, "%s", err.message);
        s->next = (int64_t)(s->next / GROUP_ROWS + 1) * GROUP_ROWS;
    }
    return rc;
}

static struct seen read_file(uint32_t threads, uint32_t batch, uint32_t rows, size_t budget)
{
    mr_dataset *ds = table(batch);
    mr_engine_iter *it =
        open_with(ds, &(struct read_options){.threads = threads, .budget_bytes = budget});
    struct seen s = {0};
    int rc;

    do {
        rc = step(it, rows, &s);
    } while (rc != MR_END && s.errors < 10);
    mr_engine_close(it);
    mr_dataset_unref(ds);
    return s;
}

/* ---- states ---- */

static mr_engine_iter *restored(mr_dataset *ds, mr_engine_iter *from)
{
    mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = 4});
    void *saved = NULL;
    size_t size = 0;

    CHECK_OK(mr_engine_save(from, &saved, &size, e));
    CHECK_OK(mr_engine_restore(it, saved, size, e));
    mr_free(saved);
    return it;
}

/* From row @next on all rows come, and nothing else. */
static void expect_rest(mr_engine_iter *it, int64_t next)
{
    struct seen rest = {.next = next};

    while (step(it, 5000, &rest) == MR_OK) {
    }
    assert_int_equal(rest.errors, 0);
    assert_int_equal(rest.next, ROWS);
}

static void expect_rest_restored(mr_dataset *ds, mr_engine_iter *from, int64_t next)
{
    mr_engine_iter *it = restored(ds, from);

    expect_rest(it, next);
    mr_engine_close(it);
}

static void expect_same_state(mr_engine_iter *a, mr_engine_iter *b)
{
    void *saved[2] = {NULL, NULL};
    size_t size[2] = {0, 0};

    CHECK_OK(mr_engine_save(a, &saved[0], &size[0], e));
    CHECK_OK(mr_engine_save(b, &saved[1], &size[1], e));
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(saved[0], saved[1], size[0]);
    mr_free(saved[0]);
    mr_free(saved[1]);
}

/* ---- tests ---- */

static const struct {
    uint32_t batch;
    uint32_t rows;
} ways[] = {{0, 7}, {0, 1000}, {0, ROWS}, {BATCH, 1}, {BATCH, 100}, {900, 5}, {17000, 1}};

static void every_row_is_there_once(void **state)
{
    write_file(NO_PAGE, 0);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            unsigned before = atomic_load(&submitted);
            struct seen s = read_file(threads, ways[i].batch, ways[i].rows, 0);

            assert_int_equal(s.errors, 0);
            assert_int_equal(s.next, ROWS);
            assert_int_equal(s.untraced, 0);
            assert_true((atomic_load(&submitted) > before) == (threads > 1));
        }
    }
}

static void the_first_error_is_that_of_one_thread(void **state)
{
    for (uint32_t page = 0; page < PAGES; page++) {
        write_file(page, page); /* other columns are damaged, too: the first one is named */
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            if (ways[i].batch > 0) {
                continue; /* which rows a batch loses is not the question here */
            }
            struct seen want = read_file(1, 0, ways[i].rows, 0);
            struct seen got = read_file(4, 0, ways[i].rows, 0);
            char said[64];

            (void)snprintf(said, sizeof said, "row group 1: column '%c'", 'a' + (int)page);
            assert_int_equal(want.errors, 1);
            assert_non_null(strstr(want.message, said));
            assert_int_equal(want.failed_at, GROUP_ROWS + page * PAGE_ROWS);
            assert_int_equal(want.next, ROWS);
            assert_memory_equal(&got, &want, offsetof(struct seen, message));
            assert_string_equal(got.message, want.message);
        }
    }
}

static void behind_a_damaged_row_group_is_read_ahead(void **state)
{
    mr_dataset *ds = table(0);
    mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = 4});
    struct seen s = {0};

    write_file(0, 0);
    while (step(it, 5000, &s) == MR_OK) {
    }
    assert_int_equal(s.errors, 1);
    unsigned before = atomic_load(&submitted);
    while (step(it, 5000, &s) == MR_OK) {
    }
    assert_int_equal(s.next, ROWS);
    assert_true(atomic_load(&submitted) > before);
    mr_engine_close(it);
    mr_dataset_unref(ds);
}

/* What is saved behind an error begins with what comes next. */
static void a_state_behind_an_error(void **state)
{
    mr_dataset *ds = table(0);

    for (uint32_t page = 0; page < PAGES; page++) {
        write_file(page, 0);
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = threads});
            struct seen s = {0};

            while (step(it, 7000, &s) == MR_OK) {
            }
            assert_int_equal(s.errors, 1);
            expect_rest_restored(ds, it, s.next);
            expect_rest(it, s.next);
            mr_engine_close(it);
        }
    }
    mr_dataset_unref(ds);
}

/* Nothing is read any more of a row group that has ended when there is no memory for the next. */
static void a_state_between_row_groups(void **state)
{
    mr_dataset *ds = table(0);
    bool failed = false;

    for (uint64_t nth = 1; nth <= 40; nth++) {
        mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = 1});
        struct seen s = {0};

        write_file(NO_PAGE, 0);
        while (s.next < GROUP_ROWS) {
            assert_int_equal(step(it, 5000, &s), MR_OK);
        }
        mr_alloc_fail_at(nth);
        (void)step(it, 5000, &s);
        mr_alloc_fail_at(0);
        if (strstr(s.message, "row group 1: ") != NULL) {
            failed = true;
            damage_first_group();
            expect_rest_restored(ds, it, GROUP_ROWS);
        }
        mr_engine_close(it);
    }
    assert_true(failed);
    mr_dataset_unref(ds);
}

/* In a later block of its row group: it is named by its number there. */
static void a_null_is_an_error_in_its_place(void **state)
{
    mr_dataset *ds = table(0);

    null_row = GROUP_ROWS + 35123;
    write_file(NO_PAGE, 0);
    for (uint32_t rows = 7; rows < ROWS; rows *= 40) {
        for (uint32_t threads = 1; threads <= 4; threads += 3) {
            mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = threads});
            struct seen s = {0};

            while (step(it, rows, &s) == MR_OK) {
            }
            assert_int_equal(s.errors, 1);
            assert_int_equal(s.failed_at, null_row);
            assert_non_null(strstr(s.message, "row group 1, row 35123, column 'd': it is null"));
            expect_rest_restored(ds, it, null_row + 1);
            expect_rest(it, null_row + 1);
            mr_engine_close(it);
        }
    }
    null_row = -1;
    mr_dataset_unref(ds);
}

/* Making a column of a block needs memory: without, it is named. */
static void what_a_block_lacks_names_its_column(void **state)
{
    static const char says[] = "row group 0, column '";
    mr_dataset *ds = table(0);
    char last = 'a';

    write_file(NO_PAGE, 0);
    for (uint64_t nth = 1; nth <= 300; nth++) {
        mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = 1});
        struct seen s = {0};

        mr_alloc_fail_at(nth);
        (void)step(it, 10, &s);
        mr_alloc_fail_at(0);
        const char *said = strstr(s.message, says);
        if (said != NULL) {
            assert_in_range(said[sizeof says - 1], last, last + 1);
            last = said[sizeof says - 1];
        }
        mr_engine_close(it);
    }
    assert_int_equal(last, 'a' + COLUMNS - 1);
    mr_dataset_unref(ds);
}

static void a_file_that_becomes_shorter(void **state)
{
    mr_dataset *ds = table(0);

    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = threads});
        struct seen s = {0};
        int rc;

        write_file(NO_PAGE, 0);
        assert_int_equal(step(it, 100, &s), MR_OK);
        assert_int_equal(truncate(path, 4), 0);
        do {
            rc = step(it, 5000, &s);
        } while (rc != MR_END && s.errors < 10);
        assert_int_equal(s.errors, GROUPS);
        assert_non_null(strstr(s.message, "the file has become shorter"));
        mr_engine_close(it);
    }
    mr_dataset_unref(ds);
}

/* The state of an iterator that reads ahead is that of one that does not, and leads to the same
 * rows. */
static void a_state_knows_nothing_of_what_is_read_ahead(void **state)
{
    mr_dataset *ds = table(0);

    write_file(NO_PAGE, 0);
    mr_engine_iter *ahead = open_with(ds, &(struct read_options){.threads = 4});
    mr_engine_iter *plain = open_with(ds, &(struct read_options){.threads = 1});
    struct seen s = {0};
    struct seen same = {0};
    while (step(ahead, 1500, &s) == MR_OK) {
        while (same.next < s.next) {
            assert_int_equal(step(plain, (uint32_t)(s.next - same.next), &same), MR_OK);
        }
        expect_same_state(ahead, plain);
        if (s.next % 9000 < 1500 || s.next % GROUP_ROWS == 0) {
            expect_rest_restored(ds, ahead, s.next);
        }
    }
    assert_int_equal(s.next, ROWS);
    assert_int_equal(step(plain, 1, &same), MR_END);
    expect_same_state(ahead, plain);
    mr_engine_close(ahead);
    mr_engine_close(plain);
    mr_dataset_unref(ds);
}

static void what_is_read_ahead_may_be_left(void **state)
{
    mr_dataset *ds = table(0);

    write_file(NO_PAGE, 0);
    for (int turn = 0; turn < 60; turn++) {
        mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = 4});
        unsigned before = atomic_load(&submitted);
        struct seen s = {0};

        while (atomic_load(&submitted) == before) {
            assert_int_equal(step(it, 3000, &s), MR_OK);
        }
        if (turn % 3 == 1) {
            mr_engine_cancel(it);
            assert_int_equal(step(it, 3000, &s), MR_ECANCELED);
        } else if (turn % 3 == 2) {
            while (s.next < turn * 1500) {
                assert_int_equal(step(it, 3000, &s), MR_OK);
            }
        }
        mr_engine_close(it);
    }
    mr_dataset_unref(ds);
}

/* What is read ahead needs room: without it nothing is, and nothing fails. */
static void memory_that_is_short(void **state)
{
    write_file(NO_PAGE, 0);
    for (size_t mib = 4; mib <= 24; mib += 2) {
        unsigned before = atomic_load(&submitted);
        struct seen s = read_file(4, 0, 1000, mib << 20);

        assert_int_equal(s.errors, 0);
        assert_int_equal(s.next, ROWS);
        if (mib == 4) {
            assert_int_equal(atomic_load(&submitted), before);
        }
    }
    assert_true(atomic_load(&submitted) > 0);
}

/* How long strings of a dictionary are, the file does not say: the first block tells. */
static void blocks_of_strings_have_some_size(void **state)
{
    write_columns(TYPE_BYTES, NO_PAGE, 0);
    for (uint32_t threads = 1; threads <= 4; threads += 3) {
        mr_dataset *ds = table_of("string", 0);
        mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = threads});
        uint32_t rows = 0;
        mr_block *block = NULL;
        mr_error err;

        while (mr_engine_pull(it, (struct mr_want){.rows_max = ROWS}, -1, &block, &err) == MR_OK) {
            assert_true(rows < GROUP_ROWS || mr_block_pinned_bytes(block) <= 2u << 20);
            rows += mr_block_rows(block);
            mr_block_unref(block);
        }
        assert_int_equal(rows, ROWS);
        mr_engine_close(it);
        mr_dataset_unref(ds);
    }
}

/* Whatever allocation fails, whoever asked for it: the rows before an error are right, and reading
 * on gives those behind it. */
static void no_memory(void **state)
{
    mr_dataset *ds = table(0);

    write_file(NO_PAGE, 0);
    for (uint64_t nth = 1; nth < 700; nth += 1 + nth / 30) {
        mr_engine_iter *it = open_with(ds, &(struct read_options){.threads = 4});
        struct seen s = {0};
        int rc = MR_OK;

        mr_alloc_fail_at(nth);
        while (rc == MR_OK) {
            rc = step(it, 4000, &s);
        }
        mr_alloc_fail_at(0);
        if (rc != MR_END) {
            assert_int_equal(rc, MR_EEXHAUSTED);
            for (s.next = s.failed_at, rc = MR_OK; rc == MR_OK;) {
                rc = step(it, 4000, &s);
            }
        }
        assert_int_equal(rc, MR_END);
        assert_int_equal(s.next, ROWS);
        mr_engine_close(it);
    }
    mr_dataset_unref(ds);
}

/* ---- work in parts ---- */

#define PARTS 1000u

struct work {
    atomic_uint done[PARTS];
    uint32_t fails; /* this one does */
    pthread_t owner;
    const mr_memory *memory; /* that helpers are to work for */
    atomic_uint elsewhere;   /* parts that one of them did for another */
};

static bool do_part(void *ctx, uint32_t part)
{
    struct work *w = ctx;

    atomic_fetch_add(&w->done[part], 1);
    if (pthread_equal(pthread_self(), w->owner) == 0 && mr_memory_current() != w->memory) {
        atomic_fetch_add(&w->elsewhere, 1);
    }
    return part != w->fails;
}

static void parts(void **state)
{
    mr_dataset *ds = make_range(0, 1, 1);
    struct mr_engine_options opts = {.threads = 4};
    struct mr_env env;
    struct mr_parts p;

    CHECK_OK(mr_env_init(&env, ds, &opts, e));
    CHECK_OK(mr_env_use_pool(&env, e));
    mr_parts_init(&p, &env);
    for (uint32_t turn = 0; turn < 500; turn++) {
        struct work w = {
            .fails = turn % 4 == 1 ? 500 : PARTS, .owner = pthread_self(), .memory = env.memory};
        uint32_t all = 0;

        idle = turn % 3;
        mr_parts_start(&p, do_part, &w, PARTS);
        if (turn % 4 == 2) {
            mr_parts_stop(&p);
        } else {
            assert_true(mr_parts_finish(&p) == (w.fails == PARTS));
        }
        assert_int_equal(atomic_load(&w.elsewhere), 0);
        for (uint32_t i = 0; i < PARTS; i++) {
            uint32_t done = atomic_load(&w.done[i]);

            assert_true(done <= 1);
            assert_true(done == 1 || turn % 4 == 2 || i > w.fails);
            all += done;
        }
        assert_true(all == PARTS || turn % 4 == 1 || turn % 4 == 2);
    }
    idle = 3;
    mr_parts_destroy(&p);
    mr_env_destroy(&env);
    mr_dataset_unref(ds);
}

static int make_path(void **state)
{
    int fd = mkstemp(path);

    idle = 3;
    return fd >= 0 ? close(fd) : -1;
}

static int remove_path(void **state)
{
    return unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_there_once),
        cmocka_unit_test(the_first_error_is_that_of_one_thread),
        cmocka_unit_test(behind_a_damaged_row_group_is_read_ahead),
        cmocka_unit_test(a_state_behind_an_error),
        cmocka_unit_test(a_state_between_row_groups),
        cmocka_unit_test(a_null_is_an_error_in_its_place),
        cmocka_unit_test(what_a_block_lacks_names_its_column),
        cmocka_unit_test(a_file_that_becomes_shorter),
        cmocka_unit_test(a_state_knows_nothing_of_what_is_read_ahead),
        cmocka_unit_test(what_is_read_ahead_may_be_left),
        cmocka_unit_test(memory_that_is_short),
        cmocka_unit_test(blocks_of_strings_have_some_size),
        cmocka_unit_test(no_memory),
        cmocka_unit_test(parts),
    };

    return cmocka_run_group_tests(tests, make_path, remove_path);
}
