/* Which records rows come from: what blocks made of blocks say, what goes with their bytes, and what
 * it costs. */
#include "base/alloc.h"
#include "base/memory.h"
#include "base/rng.h"
#include "element/block.h"
#include "element/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct mr_leaf_spec int64_scalar = {.dtype = MR_INT64};

static mr_block *counting(uint32_t rows)
{
    mr_block *block;

    assert_int_equal(mr_block_alloc(rows, &int64_scalar, 1, &block, NULL), MR_OK);
    for (uint32_t i = 0; i < rows; i++) {
        ((int64_t *)mr_block_data(block, 0))[i] = i;
    }
    return block;
}

static void expect_record(const mr_block *block, uint32_t row, const char *want)
{
    char text[MR_TRACE_TEXT];
    struct mr_record record = mr_block_record(block, row);

    assert_string_equal(mr_record_text(&record, sizeof text, text), want);
}

/* What was made of rows as they are says which records they were. */
static void rows_know_their_records(void **state)
{
    const uint64_t places[] = {0, 10, 25, 30};
    const uint32_t picked[] = {4, 2, 0};
    mr_trace_file *file = mr_trace_file_new("a", MR_PLACES_BYTES);
    mr_trace_file *other = mr_trace_file_new("b", MR_PLACES_UNCOMPRESSED);
    mr_block *blocks[2] = {counting(4), counting(4)};
    mr_block *plain = counting(1);
    mr_block *slice;
    mr_block *joined;
    mr_block *out;

    mr_block_trace(blocks[0], file, 7, places);
    mr_block_trace(blocks[1], other, 0, places);
    mr_trace_file_unref(file);
    mr_trace_file_unref(other);
    expect_record(plain, 0, "");
    expect_record(blocks[0], 3, "file 'a', record 10, offset 30");
    assert_int_equal(mr_block_slice(blocks[0], 1, 2, &slice, NULL), MR_OK);
    expect_record(slice, 1, "file 'a', record 9, offset 25");
    const mr_block *parts[3] = {slice, plain, blocks[1]};
    assert_int_equal(mr_block_concat(parts, 3, &joined, NULL), MR_OK);
    expect_record(joined, 0, "file 'a', record 8, offset 10");
    expect_record(joined, 2, "");
    expect_record(joined, 6, "file 'b', record 3, offset 30 (uncompressed)");
    assert_int_equal(mr_block_gather(joined, picked, 3, &out, NULL), MR_OK);
    mr_block_unref(joined);
    expect_record(out, 0, "file 'b', record 1, offset 10 (uncompressed)");
    expect_record(out, 2, "file 'a', record 8, offset 10");
    mr_block_unref(out);
    assert_int_equal(mr_block_copy_rows(slice, 1, 1, &out, NULL), MR_OK);
    expect_record(out, 0, "file 'a', record 9, offset 25");
    mr_block_unref(out);
    assert_int_equal(mr_block_slice(slice, 0, 1, &out, NULL), MR_OK);
    const mr_block *one[2] = {plain, out};
    assert_int_equal(mr_block_zip(one, 2, &joined, NULL), MR_OK);
    expect_record(joined, 0, "file 'a', record 8, offset 10");
    mr_block_unref(joined);
    one[0] = out;
    assert_int_equal(mr_block_zip(one, 2, &joined, NULL), MR_OK);
    expect_record(joined, 0, "file 'a', record 8, offset 10"); /* twice the same */
    mr_block_unref(joined);
    const mr_block *two[2] = {blocks[0], blocks[1]};
    assert_int_equal(mr_block_zip(two, 2, &joined, NULL), MR_OK);
    mr_block_unref(slice);
    assert_int_equal(mr_block_slice(joined, 1, 2, &slice, NULL), MR_OK);
    mr_block_unref(joined);
    expect_record(slice, 1, "file 'a', record 9, offset 25, and 1 more");
    mr_block_unref(out);
    mr_block_unref(slice);
    slice = counting(4);
    assert_int_equal(mr_block_slice(slice, 2, 2, &out, NULL), MR_OK);
    mr_block_unref(slice);
    slice = out;
    file = mr_trace_file_new("c", MR_PLACES_BYTES);
    mr_block_trace(slice, file, 7, places);
    mr_trace_file_unref(file);
    expect_record(
        slice, 1,
        "file 'c', record 8, offset 10"); /* of its own rows, not of those that it is cut from */
    mr_block_unref(slice);
    mr_block_unref(plain);
    mr_block_unref(blocks[0]);
    mr_block_unref(blocks[1]);
}

static void expect_same_records(const mr_block *a, const mr_block *b)
{
    char text[MR_TRACE_TEXT];
    assert_int_equal(mr_block_rows(a), mr_block_rows(b));
    for (uint32_t r = 0; r < mr_block_rows(a); r++) {
        struct mr_record record = mr_block_record(a, r);

        expect_record(b, r, mr_record_text(&record, sizeof text, text));
    }
}

/* What is known of the rows of @block is known of what comes of it, also behind its bytes, and of a
 * packed copy. */
static void expect_records_travel(const mr_block *block)
{
    const uint32_t rows = mr_block_rows(block);
    mr_block *forms[2];
    mr_buffer *bytes;
    size_t used;

    assert_int_equal(mr_block_encode_buffer(block, 0, true, &bytes, NULL), MR_OK);
    assert_int_equal(mr_block_decode(bytes, 0, 0, &forms[0], &used, NULL), MR_OK);
    assert_int_equal(used, mr_buffer_size(bytes));
    mr_buffer_unref(bytes);
    forms[1] = counting(rows);
    assert_true(mr_block_trace_keep(forms[1], block, 0) > 0);
    for (size_t i = 0; i < 2; i++) {
        const mr_block *twice[2] = {forms[i], forms[i]};
        const mr_block *both[2] = {block, block};
        mr_block *a[3];
        mr_block *b[3];

        expect_same_records(block, forms[i]);
        assert_int_equal(mr_block_concat(twice, 2, &b[0], NULL), MR_OK);
        assert_int_equal(mr_block_concat(both, 2, &a[0], NULL), MR_OK);
        assert_int_equal(mr_block_slice(b[0], 3, 2 * rows - 5, &b[1], NULL), MR_OK);
        assert_int_equal(mr_block_slice(a[0], 3, 2 * rows - 5, &a[1], NULL), MR_OK);
        assert_int_equal(mr_block_batch(b[0], 2, NULL, NULL, &b[2], NULL), MR_OK);
        assert_int_equal(mr_block_batch(a[0], 2, NULL, NULL, &a[2], NULL), MR_OK);
        for (int k = 0; k < 3; k++) {
            expect_same_records(a[k], b[k]);
            mr_block_unref(a[k]);
            mr_block_unref(b[k]);
        }
        mr_block_unref(forms[i]);
    }
}

static void records_travel_with_the_bytes(void **state)
{
    const uint64_t places[20] = {
        0, 10, 25, 30, 1000, 1001, 2000, 3000, 4000, UINT64_C(1) << 60, UINT64_MAX};
    const uint32_t picked[] = {19, 25, 25, 3, 0, 21, 22, 39, 1, 2, 20};
    mr_trace_file *file = mr_trace_file_new("a", MR_PLACES_BYTES);
    mr_trace_file *other = mr_trace_file_new("b", MR_PLACES_UNCOMPRESSED);
    mr_block *blocks[3] = {counting(20), counting(2), counting(20)};
    mr_block *joined;
    mr_block *out;

    mr_block_trace(blocks[0], file, 7, places);
    mr_block_trace(blocks[2], other, UINT64_MAX - 10, places);
    mr_trace_file_unref(file);
    mr_trace_file_unref(other);
    expect_records_travel(blocks[0]);
    expect_records_travel(blocks[2]);
    assert_int_equal(mr_block_concat((const mr_block *const *)blocks, 3, &joined, NULL),
                     MR_OK); /* the second: unknown */
    expect_records_travel(joined);
    assert_int_equal(mr_block_gather(joined, picked, 11, &out, NULL), MR_OK);
    expect_records_travel(out);
    mr_block_unref(out);
    assert_int_equal(mr_block_batch(joined, 3, NULL, NULL, &out, NULL), MR_OK);
    mr_buffer *bytes;
    mr_block *back;
    size_t used;
    assert_int_equal(mr_block_encode_buffer(out, 0, true, &bytes, NULL), MR_OK);
    assert_int_equal(mr_block_decode(bytes, 0, 0, &back, &used, NULL), MR_OK);
    expect_same_records(out, back);
    expect_record(back, 0, "file 'a', records 7 to 9, offset 0");
    mr_block_unref(back);
    mr_block_unref(out);
    mr_block_unref(joined);
    mr_buffer_unref(bytes);
    for (int i = 0; i < 3; i++) {
        mr_block_unref(blocks[i]);
    }
}

/* Each block that is decoded has files of its own; joined, they are listed once all the same. */
static void a_file_is_listed_once(void **state)
{
    const uint64_t places[] = {0, 10};
    const char *path = "a-path-that-is-long-enough";
    mr_trace_file *file = mr_trace_file_new(path, MR_PLACES_BYTES);
    mr_block *blocks[8];
    mr_block *joined;
    mr_buffer *bytes;
    size_t used;

    for (uint32_t i = 0; i < 8; i++) {
        mr_block *block = counting(2);

        mr_block_trace(block, file, i * 7, places);
        assert_int_equal(mr_block_encode_buffer(block, 0, true, &bytes, NULL), MR_OK);
        assert_int_equal(mr_block_decode(bytes, 0, 0, &blocks[i], &used, NULL), MR_OK);
        mr_buffer_unref(bytes);
        mr_block_unref(block);
    }
    mr_trace_file_unref(file);
    assert_int_equal(mr_block_concat((const mr_block *const *)blocks, 8, &joined, NULL), MR_OK);
    expect_records_travel(joined);
    assert_int_equal(mr_block_encode_buffer(joined, 0, true, &bytes, NULL), MR_OK);
    const char *end = (const char *)mr_buffer_data(bytes) + mr_buffer_size(bytes);
    const char *at = memmem(mr_buffer_data(bytes), mr_buffer_size(bytes), path, strlen(path));
    assert_non_null(at);
    assert_null(memmem(at + 1, (size_t)(end - at - 1), path, strlen(path)));
    mr_buffer_unref(bytes);
    mr_block_unref(joined);
    for (int i = 0; i < 8; i++) {
        mr_block_unref(blocks[i]);
    }
}

/* Of what somebody sends. Where there is no room for them, the elements come without. */
static void many_files_count_in_the_budget(void **state)
{
    enum { ROWS = 10000, ROOM = 64 * 1024 };
    static struct mr_record records[ROWS];
    mr_block *block = counting(ROWS);
    mr_buffer *bytes;
    mr_memory *memory;
    size_t used;

    for (uint32_t i = 0; i < ROWS; i++) {
        char path[8];

        (void)snprintf(path, sizeof path, "%u", i);
        records[i] = (struct mr_record){.file = mr_trace_file_new(path, MR_PLACES_BYTES)};
    }
    mr_block_trace_rows(block, records);
    assert_int_equal(mr_block_encode_buffer(block, 0, true, &bytes, NULL), MR_OK);
    mr_block_unref(block);
    for (uint32_t i = 0; i < ROWS; i++) {
        mr_trace_file_unref(records[i].file);
    }
    for (uint64_t limit = ROOM; limit <= 64 * ROOM; limit *= 64) {
        assert_int_equal(mr_memory_new(limit, NULL, &memory, NULL), MR_OK);
        mr_memory *before = mr_memory_enter(memory);
        assert_int_equal(mr_block_decode(bytes, 0, 0, &block, &used, NULL), MR_OK);
        assert_int_equal(mr_memory_used(memory), 1 /* our reference */); /* nobody has asked */
        expect_record(block, ROWS - 1, limit > ROOM ? "file '9999', record 0, offset 0" : "");
        (void)mr_memory_enter(before);
        assert_in_range(mr_memory_used(memory), limit > ROOM ? 40 * ROWS : 1,
                        limit > ROOM ? 64 * ROWS : ROOM);
        if (limit > ROOM) {
            mr_block_discharge(block);
            assert_in_range(mr_memory_used(memory), 0, ROOM);
        }
        mr_block_unref(block);
        assert_int_equal(mr_memory_used(memory), 1 /* our reference */);
        mr_memory_unref(memory);
    }
    mr_buffer_unref(bytes);
}

static mr_block *lines(uint32_t rows, const char *path, uint64_t first)
{
    mr_trace_file *file = mr_trace_file_new(path, MR_PLACES_BYTES);
    uint64_t *places = calloc(rows, sizeof *places);
    mr_block *block = counting(rows);

    assert_non_null(places);
    for (uint32_t i = 0; i < rows; i++) {
        places[i] = (first + i) * 50;
    }
    mr_block_trace(block, file, first, places);
    mr_trace_file_unref(file);
    free(places);
    return block;
}

/* What stands beside elements costs little as long as nobody asks: one allocation at most
 * for each block that is made, and a few bytes a row. */
static void expect_cheap(const mr_block *block, uint64_t allocations, size_t row_bytes)
{
    size_t payload = mr_block_row_bytes(block, 0, mr_block_rows(block));
    size_t rows = payload / sizeof(int64_t);

    assert_in_range(mr_alloc_count() - allocations, 1, 2);
    assert_true(mr_block_traced(block));
    assert_in_range(mr_block_pinned_bytes(block) - payload, 1, 1000 + rows * row_bytes);
}

static void records_cost_little(void **state)
{
    const mr_block *blocks[2] = {lines(1000, "a", 7), lines(1000, "b", 0)};
    static uint32_t picked[1000];
    mr_block *joined;
    mr_block *some;
    mr_block *batches;

    for (uint32_t i = 0; i < 1000; i++) {
        picked[i] = 2 * i;
    }
    uint64_t before = mr_alloc_count();
    assert_int_equal(mr_block_concat(blocks, 2, &joined, NULL), MR_OK);
    expect_cheap(joined, before, 3);
    before = mr_alloc_count();
    assert_int_equal(mr_block_gather(joined, picked, 1000, &some, NULL), MR_OK);
    expect_cheap(some, before, 10);
    before = mr_alloc_count();
    assert_int_equal(mr_block_batch(some, 10, NULL, NULL, &batches, NULL), MR_OK);
    mr_block_unref(joined);
    mr_block_unref(some);
    expect_cheap(batches, before, 10);
    expect_record(batches, 1, "file 'a', record 27, offset 1350, and 9 more");
    expect_record(batches, 99, "file 'b', record 980, offset 49000, and 9 more");
    mr_block_unref(batches);
    mr_block_unref((mr_block *)blocks[0]);
    mr_block_unref((mr_block *)blocks[1]);
}

/* What little is left of much does not hold it all, and no chain becomes long. */
static void records_hold_little(void **state)
{
    const uint32_t one[] = {500};
    const uint32_t both[] = {0, 0};
    mr_block *block = lines(1000, "a", 7);
    mr_block *few;

    assert_int_equal(mr_block_gather(block, one, 1, &few, NULL), MR_OK);
    mr_block_unref(block);
    assert_in_range(mr_block_pinned_bytes(few), 1, 600);
    expect_record(few, 0, "file 'a', record 507, offset 25350");
    for (int i = 0; i < 1000; i++) { /* twice the row, batched, and again */
        mr_block *pair;
        mr_block *next;

        assert_int_equal(mr_block_gather(few, both, 2, &pair, NULL), MR_OK);
        mr_block_unref(few);
        assert_int_equal(mr_block_slice(pair, 1, 1, &next, NULL), MR_OK);
        mr_block_unref(pair);
        assert_int_equal(mr_block_copy_rows(next, 0, 1, &few, NULL), MR_OK);
        mr_block_unref(next);
        assert_in_range(mr_block_pinned_bytes(few), 1, 4000);
    }
    expect_record(few, 0, "file 'a', record 507, offset 25350");
    mr_block_unref(few);
}

/* Two rows of one record are one record, and it is not many that are made of it. */
static void a_record_counts_once(void **state)
{
    const uint32_t rows[] = {3, 3, 4, 4, 4, 5};
    mr_block *block = lines(10, "a", 0);
    mr_block *some;
    mr_block *group;

    assert_int_equal(mr_block_gather(block, rows, 6, &some, NULL), MR_OK);
    assert_int_equal(mr_block_batch(some, 6, NULL, NULL, &group, NULL), MR_OK);
    expect_record(group, 0, "file 'a', records 3 to 5, offset 150");
    mr_block_unref(group);
    mr_block_unref(some);
    mr_block_unref(block);
}

/* Blocks of an interleave: a row of each of two files in turn, as slices. */
static void rows_of_files_in_turn(void **state)
{
    enum { ROWS = 200 };
    mr_block *files[2] = {lines(ROWS, "a", 0), lines(ROWS, "b", 1000)};
    const mr_block *rows[2 * ROWS];
    mr_block *joined;

    for (uint32_t i = 0; i < 2 * ROWS; i++) {
        assert_int_equal(mr_block_slice(files[i % 2], i / 2, 1, (mr_block **)&rows[i], NULL),
                         MR_OK);
    }
    assert_int_equal(mr_block_concat(rows, 2 * ROWS, &joined, NULL), MR_OK);
    for (uint32_t i = 0; i < 2 * ROWS; i++) {
        mr_block_unref((mr_block *)rows[i]);
    }
    mr_block_unref(files[0]);
    mr_block_unref(files[1]);
    expect_record(joined, 20, "file 'a', record 10, offset 500");
    expect_record(joined, 399, "file 'b', record 1199, offset 59950");
    expect_records_travel(joined);
    mr_block_unref(joined);
}

/* A shuffle's buffer: rows come in blocks, and leave in any order. What is held is bounded by the rows
 * that are there, and each knows its record until it is forgotten. */
static void rows_that_are_kept_know_their_records(void **state)
{
    enum { KEPT = 500, BLOCK = 100, OUT = 50, TURNS = 600 };
    struct mr_trace_log log = {0};
    uint32_t numbers[KEPT];
    uint64_t lines_of[KEPT];
    struct mr_trace_numbers list = {.of = numbers, .n = 0};
    mr_block *held = NULL;
    uint64_t held_line = 0;
    uint64_t next = 0;
    uint32_t renewed = 0;
    struct mr_rng rng;

    mr_rng_seed(&rng, 1);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        while (list.n + BLOCK <= KEPT) {
            mr_block *block = turn % 7 == 3 ? counting(BLOCK) : lines(BLOCK, "a", next);
            uint32_t first = mr_trace_log_add(&log, block);

            for (uint32_t r = 0; r < BLOCK; r++, next++, list.n++) {
                numbers[list.n] = first == MR_TRACE_NO_ROW ? first : first + r;
                lines_of[list.n] = first == MR_TRACE_NO_ROW ? UINT64_MAX : next;
            }
            mr_block_unref(block);
        }
        mr_block *out = counting(OUT);
        uint32_t left[OUT];
        uint64_t want[OUT];
        for (uint32_t r = 0; r < OUT; r++) {
            size_t i = (size_t)mr_rng_below(&rng, list.n);

            left[r] = numbers[i];
            want[r] = lines_of[i];
            list.n--;
            numbers[i] = numbers[list.n];
            lines_of[i] = lines_of[list.n];
        }
        mr_block_trace_numbers(out, &log, left);
        if (mr_trace_log_is_due(&log, list.n)) {
            mr_trace_log_renew(&log, &list, 1);
            renewed++;
        }
        for (uint32_t r = 0; r < OUT; r++) {
            char text[MR_TRACE_TEXT] = "";

            if (want[r] != UINT64_MAX) {
                (void)snprintf(text, sizeof text, "file 'a', record %" PRIu64 ", offset %" PRIu64,
                               want[r], want[r] * 50);
            }
            expect_record(out, r, text);
        }
        if (turn == 100) { /* somebody keeps one */
            held = out;
            held_line = want[0];
        } else {
            mr_block_unref(out);
        }
        assert_in_range(log.bytes, 1, 64 * 4096);
    }
    assert_in_range(renewed, 3, TURNS / 10);
    struct mr_record record = mr_block_record(held, 0);
    assert_int_equal(record.number, held_line);
    mr_trace_log_forget(&log);
    assert_int_equal(log.bytes, 0);
    record = mr_block_record(held, 0);
    assert_int_equal(record.number, held_line);
    mr_block_unref(held);
    held = counting(1);
    mr_block_trace_numbers(held, &log, numbers);
    expect_record(held, 0, "");
    mr_block_unref(held);
}

/* Windows: each is made of its elements, and they are told apart in it, also behind the bytes. */
static void elements_of_datasets_know_their_records(void **state)
{
    const uint32_t numbers[] = {1, 3, 5, 3, 5, 7, 5, 7, MR_TRACE_NO_ROW};
    mr_block *file = lines(8, "a", 10);
    const struct mr_block_part part = {.block = file, .first = 0, .count = 8};
    mr_block *forms[3] = {counting(3), NULL, counting(3)};
    mr_buffer *bytes;
    mr_block *slice;
    size_t used;

    mr_block_trace_picked(forms[0], &part, 1, numbers, 3);
    assert_int_equal(mr_block_encode_buffer(forms[0], 0, true, &bytes, NULL), MR_OK);
    assert_int_equal(mr_block_decode(bytes, 0, 0, &forms[1], &used, NULL), MR_OK);
    mr_buffer_unref(bytes);
    assert_true(mr_block_trace_keep(forms[2], forms[0], 0) > 0);
    for (int i = 0; i < 3; i++) {
        const uint32_t order[] = {2, 0};
        const mr_block *in_turn[2] = {forms[i], forms[i]};
        mr_block *joined;
        mr_block *inner;

        expect_record(forms[i], 0, "file 'a', record 11, offset 550, and 2 more");
        expect_record(forms[i], 2, "file 'a', record 15, offset 750, and 1 more");
        assert_int_equal(mr_block_concat(in_turn, 2, &joined, NULL), MR_OK);
        assert_int_equal(mr_block_gather(joined, order, 2, &slice, NULL), MR_OK);
        inner = counting(2);
        mr_block_trace_inside(inner, slice, 1, 1, 3);
        expect_record(inner, 0, "file 'a', record 13, offset 650");
        expect_record(inner, 1, "file 'a', record 15, offset 750");
        mr_block_unref(inner);
        inner = counting(2);
        mr_block_trace_inside(inner, slice, 0, 0, 2);
        expect_record(inner, 1, "file 'a', record 17, offset 850");
        mr_block_unref(inner);
        inner = counting(2); /* rows of a batch are no such elements */
        mr_block_trace_inside(inner, file, 0, 0, 2);
        expect_record(inner, 0, "");
        mr_block_unref(inner);
        mr_block_unref(joined);
        mr_block_unref(slice);
        mr_block_unref(forms[i]);
    }
    mr_block_unref(file);
}

/* What makes no sense is not known; what stands before it is. */
static void bytes_that_make_no_sense_say_nothing(void **state)
{
    static const unsigned char text[] = {2, 0, 1, 'a', 5, 14, 20, 20, 0x81, 9};

    for (size_t size = 0; size <= sizeof text; size++) {
        mr_block *block = counting(4);

        mr_block_trace_packed(block, text, size);
        expect_record(block, 0, size >= 7 ? "file 'a', record 7, offset 10" : "");
        expect_record(block, 1, size >= 8 ? "file 'a', record 8, offset 20" : "");
        expect_record(block, 2, "");
        expect_record(block, 3, "");
        mr_block_unref(block);
    }
}

/* A row of a table has no offset. */
static void rows_of_tables_have_no_offset(void **state)
{
    mr_trace_file *file = mr_trace_file_new("a.parquet", MR_PLACES_ROWS);
    mr_block *block = counting(9);
    mr_block *groups;

    mr_block_trace(block, file, 100, NULL);
    mr_trace_file_unref(file);
    expect_record(block, 2, "file 'a.parquet', row 102");
    expect_records_travel(block);
    assert_int_equal(mr_block_batch(block, 3, NULL, NULL, &groups, NULL), MR_OK);
    expect_record(groups, 2, "file 'a.parquet', rows 106 to 108");
    mr_block_unref(groups);
    mr_block_unref(block);
}

/* What was read as a whole has no number. */
static void whole_files_have_no_number(void **state)
{
    struct mr_record *records = mr_calloc(4, sizeof *records);
    mr_block *block = counting(4);
    mr_block *groups;

    assert_non_null(records);
    for (int i = 0; i < 4; i += 2) {
        records[i].file = mr_trace_file_new(i == 0 ? "a" : "b", MR_PLACES_NONE);
        records[i + 1] = records[i]; /* one reference for both */
    }
    mr_block_trace_give(block, records, 4);
    expect_record(block, 1, "file 'a'");
    expect_records_travel(block);
    assert_int_equal(mr_block_batch(block, 2, NULL, NULL, &groups, NULL), MR_OK);
    expect_record(groups, 1, "file 'b'");
    mr_block_unref(groups);
    assert_int_equal(mr_block_batch(block, 4, NULL, NULL, &groups, NULL), MR_OK);
    expect_record(groups, 0, "file 'a', and 2 more");
    mr_block_unref(groups);
    mr_block_unref(block);
}

/* Lines that follow one another take a byte or two each; elements without records take nothing. */
static void records_take_few_bytes(void **state)
{
    uint64_t places[1000];
    mr_block *block = counting(1000);
    mr_buffer *bytes[2];

    for (uint32_t i = 0; i < 1000; i++) {
        places[i] = i * UINT64_C(50);
    }
    assert_int_equal(mr_block_encode_buffer(block, 0, false, &bytes[0], NULL), MR_OK);
    mr_trace_file *file = mr_trace_file_new("a", MR_PLACES_BYTES);
    mr_block_trace(block, file, 7, places);
    mr_trace_file_unref(file);
    assert_int_equal(mr_block_encode_buffer(block, 0, false, &bytes[1], NULL), MR_OK);
    assert_in_range(mr_buffer_size(bytes[1]) - mr_buffer_size(bytes[0]), 1000, 2000);
    mr_block_unref(block);
    mr_buffer_unref(bytes[0]);
    mr_buffer_unref(bytes[1]);
}

/* Whatever allocation fails, what is encoded can be decoded: with all names, or with none. */
static void without_memory_there_are_no_names(void **state)
{
    uint64_t places[200];
    mr_block *block = counting(200);
    char path[400];
    bool reached = true;

    memset(path, 'p', sizeof path);
    path[sizeof path - 1] = '\0';
    for (uint32_t i = 0; i < 200; i++) {
        places[i] = i * UINT64_C(5000);
    }
    mr_trace_file *file = mr_trace_file_new(path, MR_PLACES_BYTES);
    mr_block_trace(block, file, 7, places);
    mr_trace_file_unref(file);
    for (uint64_t nth = 1; reached; nth++) {
        mr_buffer *bytes = NULL;
        mr_block *back = NULL;
        size_t used = 0;
        uint64_t before = mr_alloc_count();

        mr_alloc_fail_at(nth);
        int rc = mr_block_encode_buffer(block, 0, false, &bytes, NULL);
        reached = mr_alloc_count() - before >= nth;
        mr_alloc_fail_at(0);
        assert_true(rc == MR_OK || rc == MR_EEXHAUSTED);
        if (rc == MR_OK) {
            assert_int_equal(mr_block_decode(bytes, 0, 0, &back, &used, NULL), MR_OK);
            assert_true(reached || mr_block_traced(back));
            mr_block_unref(back);
            mr_buffer_unref(bytes);
        }
    }
    mr_block_unref(block);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_know_their_records),
        cmocka_unit_test(records_travel_with_the_bytes),
        cmocka_unit_test(a_file_is_listed_once),
        cmocka_unit_test(many_files_count_in_the_budget),
        cmocka_unit_test(records_cost_little),
        cmocka_unit_test(records_hold_little),
        cmocka_unit_test(a_record_counts_once),
        cmocka_unit_test(rows_of_files_in_turn),
        cmocka_unit_test(rows_that_are_kept_know_their_records),
        cmocka_unit_test(elements_of_datasets_know_their_records),
        cmocka_unit_test(bytes_that_make_no_sense_say_nothing),
        cmocka_unit_test(rows_of_tables_have_no_offset),
        cmocka_unit_test(whole_files_have_no_number),
        cmocka_unit_test(records_take_few_bytes),
        cmocka_unit_test(without_memory_there_are_no_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
