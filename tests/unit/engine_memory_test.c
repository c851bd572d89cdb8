/* Memory budgets: what engines make is charged before it is made, engines share a budget, work is
 * cut smaller when it is short, and all of it comes back. */
#include "engine_support.h"

#include "base/alloc.h"
#include "base/memory.h"
#include "engine/env.h"

#include <millrace/tfrecord.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <cmocka.h>

#define MIB (1u << 20)

static uint32_t doubled_text(mr_builder *b, uint32_t text, int times)
{
    for (int i = 0; i < times; i++) {
        uint32_t twice[2] = {text, text};

        text = add_op(b, "string_join", twice, 2, NULL, 0);
    }
    return text;
}

/* x -> a string of x's digits, doubled @times. */
static uint32_t doubled(mr_builder *b, int times)
{
    uint32_t x = 0;

    return doubled_text(b, add_op(b, "as_string", &x, 1, NULL, 0), times);
}

static mr_function *fn_doubled(const mr_dataset *ds, int times)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t out = doubled(b, times);

    return finish(b, &out, 1);
}

/* x -> true, by way of a string of 24 KiB and more. */
static mr_function *fn_large_inside(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t text = doubled(b, 13);
    uint32_t out = add_op(b, "regex_full_match", &text, 1, ATTRS(TEXT_ATTR("pattern", "[0-9]*")));

    return finish(b, &out, 1);
}

static mr_dataset *map_in_parallel(mr_dataset *ds, mr_function *fn, int64_t calls, bool ordered)
{
    return make_with_function(
        "map", ds, fn,
        ATTRS(INT_ATTR("num_parallel_calls", calls), BOOL_ATTR("deterministic", ordered)));
}

static mr_dataset *large_inside(const char *op, int64_t calls, bool ordered)
{
    mr_dataset *ds = make_range(0, 1500, 1);
    mr_function *fn = fn_large_inside(ds);

    return strcmp(op, "map") == 0 ? map_in_parallel(ds, fn, calls, ordered)
                                  : make_with_function(op, ds, fn, NULL, 0);
}

/* Small results of large ones: many rows are asked for, and what they need at once is more than
 * there is. */
static void what_does_not_fit_at_once_is_done_in_parts(void **state)
{
    const struct {
        const char *op;
        int64_t calls;
        bool ordered;
    } cases[] = {{"map", 0, true},  {"map", 1, true},     {"map", 2, true},
                 {"map", 2, false}, {"filter", 0, false}, {"take_while", 0, false}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct read_options options = {.budget_bytes = MIB, .threads = 2, .rows = 4096};
        mr_dataset *ds = large_inside(cases[i].op, cases[i].calls, cases[i].ordered);
        struct lines l = read_all(ds, &options);

        if (l.n != 1500) {
            fail_msg("%s with %d calls: %zu elements, the last is %s", cases[i].op,
                     (int)cases[i].calls, l.n, l.n > 0 ? l.text[l.n - 1] : "none");
        }
        lines_free(&l);
        mr_dataset_unref(ds);
    }
}

static mr_engine_iter *open_in(mr_dataset *ds, mr_memory *memory)
{
    struct mr_engine_options opts = {.seed = 42, .threads = 3, .memory = memory};
    mr_engine_iter *it = NULL;

    CHECK_OK(mr_engine_open(ds, &opts, &it, e));
    return it;
}

static mr_memory *budget_of(uint64_t bytes)
{
    mr_memory *m = NULL;

    CHECK_OK(mr_memory_new(bytes, NULL, &m, e));
    return m;
}

/* The number that the string in row @row of @block repeats. */
static int number_of(const mr_block *block, uint32_t row)
{
    const struct mr_column *c = mr_block_column(block, 0);
    char digits[5] = "";

    assert_int_equal(c->offsets[row + 1] - c->offsets[row], 4 * MIB);
    memcpy(digits, (const char *)c->data + c->offsets[row], 4);
    return atoi(digits);
}

/* A call has some 10 MiB at its height and gives 4, of 12: with what another has or has given it
 * does not fit, alone it does. */
static void calls_that_do_not_fit_side_by_side_are_run_one_by_one(void **state)
{
    for (int ordered = 0; ordered <= 1; ordered++) {
        mr_memory *memory = budget_of(12 * MIB);
        mr_dataset *in = make_range(1000, 1040, 1);
        mr_dataset *ds = map_in_parallel(in, fn_doubled(in, 20), 3, ordered);
        mr_engine_iter *it = open_in(ds, memory);
        struct mr_want want = {.rows_max = 1};
        bool seen[40] = {0};

        for (int i = 0; i < 40; i++) {
            mr_block *block = NULL;

            CHECK_OK(mr_engine_pull(it, want, -1, &block, e));
            int number = number_of(block, 0) - 1000;
            mr_block_unref(block);
            assert_in_range(number, 0, 39);
            assert_true(!ordered || number == i);
            assert_false(seen[number]);
            seen[number] = true;
        }
        mr_engine_close(it);
        mr_memory_unref(memory);
        mr_dataset_unref(ds);
    }
}

/* A string that doubles: refused before it is made, by name, and nothing of it stays. */
static void one_element_that_does_not_fit_is_refused(void **state)
{
    mr_memory *memory = budget_of(16 * MIB);
    uint64_t none = mr_memory_used(memory);
    mr_dataset *in = make_range(0, 3, 1);
    mr_dataset *ds = make_with_function("map", in, fn_doubled(in, 29), NULL, 0);
    mr_engine_iter *it = open_in(ds, memory);
    struct mr_want want = {.rows_max = 1};

    for (int i = 0; i < 3; i++) {
        mr_block *block = NULL;
        mr_error err = {0};

        assert_int_equal(mr_engine_pull(it, want, -1, &block, &err), MR_EEXHAUSTED);
        assert_non_null(strstr(err.message, "map (step 2), element "));
        assert_non_null(strstr(err.message, "string_join: "));
        assert_non_null(strstr(err.message, "do not fit into the memory budget of 16777216 bytes"));
        assert_int_equal(err.traits & MR_MEMORY_UNNAMED, 0);
    }
    mr_engine_close(it);
    assert_int_equal(mr_memory_used(memory), none);
    mr_memory_unref(memory);
    mr_dataset_unref(ds);
}

/* It has had its place, and is no reason to drop it: nothing is wrong with it. */
static void behind_an_element_that_does_not_fit_everything_has_its_place(void **state)
{
    char large[8193] = "";
    const char *const texts[3] = {"a", memset(large, 'x', 8192), "c"};
    struct read_options options = {.budget_bytes = 8 * MIB, .errors_max = 2};

    for (int64_t calls = 0; calls <= 2; calls++) {
        mr_dataset *ds = make_strings(texts, 3);
        mr_builder *b = begin_for(ds, NULL);
        uint32_t out = add_op(b, "regex_full_match", (uint32_t[]){doubled_text(b, 0, 10)}, 1,
                              ATTRS(TEXT_ATTR("pattern", "[a-z]*")));
        ds = make_zip(make_range(0, 3, 1), map_in_parallel(ds, finish(b, &out, 1), calls, true));
        ds = make_with_function("ignore_errors", ds, NULL, NULL, 0);
        struct lines l = read_all(ds, &options);
        assert_int_equal(l.n, 3);
        assert_string_equal(l.text[0], "0;true");
        assert_non_null(strstr(l.text[1], ", element 1: string_join: "));
        assert_string_equal(l.text[2], "2;true");
        lines_free(&l);
        mr_dataset_unref(ds);
    }
}

/* The functions of a reducer of (x, text) by x // 64: a state is the last text. */
static void functions_of_last(mr_function *functions[4])
{
    const struct mr_leaf_spec leaves[4] = {
        {.dtype = MR_STRING}, {.dtype = MR_INT64}, {.dtype = MR_STRING}, {.dtype = MR_INT64}};
    const struct {
        uint32_t first; /* of `leaves` */
        uint32_t n;
    } takes[4] = {{1, 2}, {3, 1}, {0, 3}, {0, 1}};

    for (int i = 0; i < 4; i++) {
        mr_builder *b = NULL;
        mr_spec *spec = NULL;
        uint32_t out = i == 2 ? 2 : 0; /* what it takes, as it is */

        CHECK_OK(mr_spec_new(leaves + takes[i].first, takes[i].n, NULL, &spec, e));
        CHECK_OK(mr_builder_new(spec, NULL, &b, e));
        mr_spec_unref(spec);
        if (i == 0) {
            out = add_op(b, "floor_div", (uint32_t[]){0, add_int(b, 64)}, 2, NULL, 0);
        } else if (i == 1) {
            out = add_op(b, "as_string", &out, 1, NULL, 0);
        }
        functions[i] = finish(b, &out, 1);
    }
}

/* Each state is one text of a block of many. */
static void states_hold_no_more_than_themselves(void **state)
{
    mr_memory *memory = budget_of(64 * MIB);
    mr_dataset *in = make_range(1024, 1024 + 64 * 64, 1);
    mr_builder *b = begin_for(in, NULL);
    uint32_t out[2] = {0, doubled(b, 8)};
    mr_function *functions[4];
    mr_dataset *ds = NULL;
    mr_block *block = NULL;

    in = make_with_function("map", in, finish(b, out, 2), NULL, 0);
    functions_of_last(functions);
    CHECK_OK(mr_dataset_apply("group_by_reducer", &in, 1, NULL, 0, functions, 4, NULL, &ds, e));
    mr_engine_iter *it = open_in(ds, memory);
    CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = 1}, -1, &block, e));
    assert_in_range(mr_memory_used(memory), 63 * 1024, MIB);
    mr_block_unref(block);
    mr_engine_close(it);
    for (int i = 0; i < 4; i++) {
        mr_function_unref(functions[i]);
    }
    mr_memory_unref(memory);
    mr_dataset_unref(in);
    mr_dataset_unref(ds);
}

static void engines_share_a_budget(void **state)
{
    mr_memory *memory = budget_of(4 * MIB);
    uint64_t none = mr_memory_used(memory);
    mr_dataset *ds = make_one("shuffle", make_range(0, 200000, 1), "buffer_size", 200000);
    mr_engine_iter *first = open_in(ds, memory);
    mr_engine_iter *second = open_in(ds, memory);
    struct mr_want want = {.rows_max = 1};
    mr_block *block = NULL;
    mr_error err = {0};

    CHECK_OK(mr_engine_pull(first, want, -1, &block, e));
    mr_block_unref(block);
    assert_true(mr_memory_used(memory) > 2 * MIB);
    assert_int_equal(mr_engine_pull(second, want, -1, &block, &err), MR_EEXHAUSTED);
    assert_non_null(strstr(err.message, "shuffle (step 2)"));
    assert_non_null(strstr(err.message, "the memory budget is 4194304"));
    /* The other is unharmed, and what it had is there for whoever comes when it is gone. */
    CHECK_OK(mr_engine_pull(first, want, -1, &block, e));
    mr_block_unref(block);
    mr_engine_close(first);
    mr_engine_close(second);
    assert_int_equal(mr_memory_used(memory), none);
    second = open_in(ds, memory);
    CHECK_OK(mr_engine_pull(second, want, -1, &block, e));
    /* Given away, it is counted no more; it outlives engine and budget. */
    mr_engine_close(second);
    assert_true(mr_memory_used(memory) > none);
    mr_block_discharge(block);
    assert_int_equal(mr_memory_used(memory), none);
    mr_memory_unref(memory);
    mr_block_unref(block);
    mr_dataset_unref(ds);
}

/* A compressed file of some KiB that has one line of 64 MiB. */
static void make_long_line_file(char *path)
{
    int fd = mkstemp(path);
    static unsigned char zeros[MIB];

    assert_true(fd >= 0);
    gzFile z = gzdopen(fd, "wb");
    assert_int_equal(gzputs(z, "first\n"), 6);
    for (int i = 0; i < 64; i++) {
        assert_int_equal(gzwrite(z, zeros, sizeof zeros), sizeof zeros);
    }
    assert_int_equal(gzputs(z, "\nlast\n"), 6);
    assert_int_equal(gzclose(z), Z_OK);
}

/* An error, and reading goes on behind it. */
static void a_line_is_bounded(void **state)
{
    char path[] = "/tmp/millrace-line-XXXXXX";
    const char *const names[1] = {path};
    struct read_options options = {.budget_bytes = 8 * MIB, .errors_max = 10};

    make_long_line_file(path);
    mr_dataset *ds = make_strings(names, 1);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner =
        make("text_line", NULL, NULL,
             ATTRS(VALUE_ATTR("filename", 0), TEXT_ATTR("compression_type", "GZIP")), b);
    ds = make_with_function("flat_map", ds, finish_dataset(b, inner), NULL, 0);
    struct lines l = read_all(ds, &options);
    assert_int_equal(l.n, 3);
    assert_string_equal(l.text[0], "'first'");
    assert_non_null(strstr(l.text[1], "!-8 "));
    assert_non_null(strstr(l.text[1], path));
    assert_non_null(strstr(l.text[1], "offset 6 (uncompressed)"));
    assert_non_null(strstr(l.text[1], "memory budget of 8388608 bytes"));
    assert_string_equal(l.text[2], "'last'");
    lines_free(&l);
    mr_dataset_unref(ds);
    (void)unlink(path);
}

/* What is behind it cannot be found: the error is given once, then the file has ended. */
static void a_line_too_long_that_is_cut_short_fails_once(void **state)
{
    char path[] = "/tmp/millrace-line-XXXXXX";
    struct read_options options = {.budget_bytes = 8 * MIB, .errors_max = 10};

    make_long_line_file(path);
    assert_int_equal(truncate(path, 32 << 10), 0);
    mr_dataset *ds =
        make("text_line", NULL, NULL,
             ATTRS(TEXT_ATTR("filename", path), TEXT_ATTR("compression_type", "GZIP")), NULL);
    struct lines l = read_all(ds, &options);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.text[0], "'first'");
    assert_non_null(strstr(l.text[1], "!-8 "));
    assert_non_null(strstr(l.text[1], "offset 6 (uncompressed)"));
    lines_free(&l);
    /* For how many lines it stands, nobody knows. */
    ds = make_zip(make_range(0, 3, 1), ds);
    l = read_all(ds, &options);
    assert_int_equal(l.n, 3);
    assert_string_equal(l.text[0], "0;'first'");
    assert_non_null(strstr(l.text[2], "behind an error of unknown extent"));
    lines_free(&l);
    mr_dataset_unref(ds);
    (void)unlink(path);
}

#define RECORD_BYTES (60u << 10)
#define RECORDS 12u

static mr_dataset *make_records_file(char *path, size_t bytes)
{
    int fd = mkstemp(path);
    char *zeros = calloc(RECORDS, bytes);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, zeros, RECORDS * bytes), RECORDS * bytes);
    assert_int_equal(close(fd), 0);
    free(zeros);
    return make("fixed_length_record", NULL, NULL,
                ATTRS(TEXT_ATTR("filename", path), INT_ATTR("record_bytes", (int64_t)bytes)), NULL);
}

/* All records are given where all but @room bytes of the budget are taken. */
static void all_records_come_in(size_t room)
{
    char path[] = "/tmp/millrace-records-XXXXXX";
    mr_memory *memory = budget_of(MIB);
    mr_dataset *ds = make_records_file(path, RECORD_BYTES);
    mr_engine_iter *it = open_in(ds, memory);
    struct mr_want want = {.rows_max = 1000};
    mr_block *block = NULL;
    uint32_t rows = 0;
    size_t others = MIB - room;

    assert_true(mr_memory_charge(memory, MR_MEMORY_WORK, others));
    while (rows < RECORDS) {
        CHECK_OK(mr_engine_pull(it, want, -1, &block, e));
        rows += mr_block_rows(block);
        mr_block_unref(block);
    }
    assert_int_equal(rows, RECORDS);
    assert_int_equal(mr_engine_pull(it, want, -1, &block, NULL), MR_END);
    mr_memory_release(memory, others);
    mr_engine_close(it);
    mr_memory_unref(memory);
    mr_dataset_unref(ds);
    (void)unlink(path);
}

/* There is room for a record as it was read and as an element, and not for two. */
static void records_that_do_not_fit_at_once_come_in_smaller_blocks(void **state)
{
    all_records_come_in(210u << 10);
}

/* Beside two that were read there is no room for even one as an element; beside one there is. */
static void a_record_that_fits_when_it_is_read_alone_is_given(void **state)
{
    all_records_come_in(160u << 10);
}

/* The room that is made for as many bytes as those before had must not keep out what is larger. */
static void a_record_larger_than_usual_comes_in(void **state)
{
    enum { SMALL = 4, SMALL_BYTES = 30 << 10, LARGE_BYTES = 300 << 10, ROOM = 420 << 10 };
    char path[] = "/tmp/millrace-records-XXXXXX";
    mr_memory *memory = budget_of(MIB);
    char *zeros = calloc(1, LARGE_BYTES);
    mr_tfrecord_writer *w = NULL;
    uint32_t rows = 0;

    assert_int_equal(close(mkstemp(path)), 0);
    CHECK_OK(mr_tfrecord_writer_open(path, "", 0, &w, e));
    for (int i = 0; i <= SMALL; i++) {
        CHECK_OK(mr_tfrecord_writer_write(w, zeros, i < SMALL ? SMALL_BYTES : LARGE_BYTES, e));
    }
    CHECK_OK(mr_tfrecord_writer_close(w, e));
    mr_dataset *ds = make("tfrecord", NULL, NULL, ATTRS(TEXT_ATTR("filename", path)), NULL);
    mr_engine_iter *it = open_in(ds, memory);
    assert_true(mr_memory_charge(memory, MR_MEMORY_WORK, MIB - ROOM));
    while (rows <= SMALL) {
        mr_block *block = NULL;
        uint32_t most = rows < SMALL ? 2 : 1; /* the large one is the first of its block */

        CHECK_OK(mr_engine_pull(it, (struct mr_want){.rows_max = most}, -1, &block, e));
        rows += mr_block_rows(block);
        mr_block_unref(block);
    }
    mr_memory_release(memory, MIB - ROOM);
    mr_engine_close(it);
    mr_memory_unref(memory);
    mr_dataset_unref(ds);
    free(zeros);
    (void)unlink(path);
}

/* Each is an error that names it, in its place; then the file has ended. */
static void records_that_do_not_fit_are_passed_over_one_by_one(void **state)
{
    char path[] = "/tmp/millrace-records-XXXXXX";
    struct read_options enough = {.budget_bytes = 3 * MIB, .errors_max = 100};
    struct read_options options = {.budget_bytes = MIB, .errors_max = 100};
    mr_dataset *ds = make_zip(make_range(0, RECORDS, 1), make_records_file(path, MIB));

    struct lines l = read_all(ds, &options);
    assert_int_equal(l.n, RECORDS);
    for (uint32_t i = 0; i < RECORDS; i++) {
        char place[32];

        (void)snprintf(place, sizeof place, "offset %u, record %u", i * MIB, i);
        assert_non_null(strstr(l.text[i], "!-8 fixed_length_record (step "));
        assert_non_null(strstr(l.text[i], path));
        assert_non_null(strstr(l.text[i], place));
    }
    lines_free(&l);
    /* What one was read into is the element's memory. */
    l = read_all(ds, &enough);
    assert_int_equal(l.n, RECORDS);
    for (uint32_t i = 0; i < RECORDS; i++) {
        assert_null(strstr(l.text[i], "!-8"));
    }
    lines_free(&l);
    mr_dataset_unref(ds);
    (void)unlink(path);
}

/* A map that becomes parallel has made a block before: that is given whether there is memory for
 * more or not. What is missing is what an error has named. */
static void no_memory_to_become_parallel(void **state)
{
    bool reached = true;

    for (uint64_t nth = 1; reached; nth++) {
        mr_dataset *in = make_range(1000, 1006, 1);
        mr_dataset *ds = map_in_parallel(in, fn_doubled(in, 12), -1, true);
        struct mr_engine_options opts = {.seed = 42, .threads = 3};
        struct read_options options = {.errors_max = 10, .rows = 1};
        mr_engine_iter *it = NULL;
        struct lines l = {0};
        uint64_t before = mr_alloc_count();
        size_t unnamed = 0;

        CHECK_OK(mr_engine_open(ds, &opts, &it, e));
        mr_alloc_fail_at(nth);
        assert_int_equal(read_on(it, &options, &l), MR_END);
        reached = mr_alloc_count() - before >= nth && nth < 400;
        mr_alloc_fail_at(0);
        for (size_t i = 0; i < l.n; i++) {
            unnamed += l.text[i][0] == '!' && strstr(l.text[i], ", element ") == NULL;
        }
        if (l.n - unnamed != 6) {
            fail_msg("allocation %d: %zu elements and errors of elements", (int)nth, l.n - unnamed);
        }
        lines_free(&l);
        mr_engine_close(it);
        mr_dataset_unref(ds);
    }
}

/* A cache that lacks memory for an element says so, and goes on with it when there is some: neither
 * this pass nor those after it are without it. */
static void a_cache_goes_on_where_it_stopped(void **state)
{
    mr_memory *memory = budget_of(MIB);
    mr_dataset *in = make_range(1000, 1064, 1);
    mr_dataset *uncached = map_in_parallel(in, fn_doubled(in, 8), 0, true);
    mr_dataset *ds = make("cache", mr_dataset_ref(uncached), NULL, NULL, 0, NULL);
    struct read_options options = {.rows = 4};
    struct lines expected = read_all(uncached, &options);
    struct mr_want want = {.rows_max = 4};
    mr_engine_iter *it = open_in(ds, memory);
    struct lines first = {0};
    mr_error err;

    for (int i = 0; i < 4; i++) {
        mr_block *block = NULL;

        CHECK_OK(mr_engine_pull(it, want, -1, &block, e));
        lines_append_block(&first, block);
        mr_block_unref(block);
    }
    /* What is held leaves an eighth free for what elements need. */
    assert_true(mr_memory_charge(memory, MR_MEMORY_WORK, MIB / 16 * 14));
    for (int i = 0; i < 3; i++) {
        mr_block *block = NULL;

        assert_int_equal(mr_engine_pull(it, want, -1, &block, &err), MR_EEXHAUSTED);
        assert_non_null(strstr(err.message, "cache (step "));
        assert_false(mr_engine_passed(it));
    }
    mr_memory_release(memory, MIB / 16 * 14);
    options.rows = 1;
    assert_int_equal(read_on(it, &options, &first), MR_END);
    mr_engine_close(it);
    lines_expect(&first, &expected, "the first pass");
    it = open_in(ds, memory);
    struct lines second = {0};
    assert_int_equal(read_on(it, &options, &second), MR_END);
    mr_engine_close(it);
    lines_expect(&second, &expected, "the second pass");
    lines_free(&expected);
    lines_free(&first);
    lines_free(&second);
    mr_dataset_unref(ds);
    mr_dataset_unref(uncached);
    mr_memory_unref(memory);
}

/* (sum, x) -> (sum + x, a string of 256 KiB or more that repeats the new sum). */
static mr_dataset *scan_to_large(int64_t n)
{
    const int64_t zero = 0;
    const struct mr_column column = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &zero};
    const struct mr_leaf_spec leaves[2] = {{.dtype = MR_INT64}, {.dtype = MR_INT64}};
    MR_AUTO(mr_spec_unref) mr_spec *takes = NULL;
    mr_block *initial = NULL;
    mr_builder *b = NULL;
    uint32_t both[2] = {0, 1};

    CHECK_OK(mr_spec_new(leaves, 2, NULL, &takes, e));
    CHECK_OK(mr_builder_new(takes, NULL, &b, e));
    CHECK_OK(mr_block_new(1, &column, 1, &initial, e));
    uint32_t sum = add_op(b, "add", both, 2, NULL, 0);
    uint32_t text = add_op(b, "as_string", &sum, 1, NULL, 0);
    uint32_t out[2] = {sum, doubled_text(b, text, 16)};
    mr_function *fn = finish(b, out, 2);
    mr_dataset *ds = make_with_function(
        "scan", make_range(1000, 1000 + n, 1), fn,
        ATTRS((struct mr_attr){.name = "initial_state", .kind = MR_ATTR_BLOCK, .block = initial},
              TEXT_ATTR("structure", "\"*\"")));
    mr_block_unref(initial);
    return ds;
}

/* Many are asked for, and passed over: what is made for them is not held all at once. */
static void scans_give_what_is_large_enough(void **state)
{
    struct read_options options = {.budget_bytes = 4 * MIB, .errors_max = 100};
    mr_dataset *ds = make_one("skip", scan_to_large(60), "count", 50);
    struct lines l = read_all(ds, &options);

    assert_int_equal(l.n, 10);
    for (size_t i = 0; i < l.n; i++) {
        assert_int_equal(l.text[i][0], '\'');
    }
    lines_free(&l);
    mr_dataset_unref(ds);
}

/* An element for which there is no memory comes again: it is part of all sums behind it. */
static void a_scan_goes_on_where_it_stopped(void **state)
{
    mr_memory *memory = budget_of(4 * MIB);
    mr_dataset *ds = scan_to_large(9);
    struct read_options options = {.rows = 3};
    struct lines expected = read_all(ds, &options);
    mr_engine_iter *it = open_in(ds, memory);
    struct lines got = {0};
    mr_error err;

    options.most = 2;
    (void)read_on(it, &options, &got);
    assert_int_equal(got.n, 2);
    size_t others = 4 * MIB - (size_t)mr_memory_used(memory) - MIB / 4; /* too little for one */
    assert_true(mr_memory_charge(memory, MR_MEMORY_WORK, others));
    for (int i = 0; i < 3; i++) {
        mr_block *block = NULL;

        assert_int_equal(mr_engine_pull(it, (struct mr_want){.rows_max = 4}, -1, &block, &err),
                         MR_EEXHAUSTED);
        assert_non_null(strstr(err.message, "scan (step 2), element 2: "));
        assert_false(mr_engine_passed(it));
    }
    mr_memory_release(memory, others);
    options.most = 0;
    assert_int_equal(read_on(it, &options, &got), MR_END);
    lines_expect(&got, &expected, "a scan");
    lines_free(&got);
    lines_free(&expected);
    mr_engine_close(it);
    mr_dataset_unref(ds);
    mr_memory_unref(memory);
}

/* One that is refused has taken nothing, not for a moment either: who asks for what there is gets
 * it. */
struct asking {
    struct mr_env env;
    atomic_bool over;
};

static void *ask_for_too_much(void *arg)
{
    struct asking *a = arg;

    while (!atomic_load(&a->over)) {
        assert_false(mr_env_charge(&a->env, 80));
    }
    return NULL;
}

static void a_refusal_refuses_nobody_else(void **state)
{
    const struct mr_engine_options opts = {.memory_budget_bytes = 100};
    mr_dataset *ds = make_range(0, 1, 1);
    struct asking a;
    pthread_t thread;
    int refused = 0;

    CHECK_OK(mr_env_init(&a.env, ds, &opts, e));
    atomic_init(&a.over, false);
    assert_true(mr_env_charge(&a.env, 30));
    CHECK_OK(mr_thread_start(&thread, "asks", ask_for_too_much, &a, e));
    for (int i = 0; i < 300000; i++) {
        bool given = mr_env_charge(&a.env, 50);

        refused += !given;
        mr_env_release(&a.env, given ? 50 : 0);
    }
    atomic_store(&a.over, true);
    (void)pthread_join(thread, NULL);
    mr_env_release(&a.env, 30);
    mr_env_destroy(&a.env);
    mr_dataset_unref(ds);
    assert_int_equal(refused, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_memory_to_become_parallel),
        cmocka_unit_test(what_does_not_fit_at_once_is_done_in_parts),
        cmocka_unit_test(calls_that_do_not_fit_side_by_side_are_run_one_by_one),
        cmocka_unit_test(one_element_that_does_not_fit_is_refused),
        cmocka_unit_test(behind_an_element_that_does_not_fit_everything_has_its_place),
        cmocka_unit_test(states_hold_no_more_than_themselves),
        cmocka_unit_test(engines_share_a_budget),
        cmocka_unit_test(a_cache_goes_on_where_it_stopped),
        cmocka_unit_test(scans_give_what_is_large_enough),
        cmocka_unit_test(a_scan_goes_on_where_it_stopped),
        cmocka_unit_test(a_refusal_refuses_nobody_else),
        cmocka_unit_test(a_line_is_bounded),
        cmocka_unit_test(a_line_too_long_that_is_cut_short_fails_once),
        cmocka_unit_test(records_that_do_not_fit_at_once_come_in_smaller_blocks),
        cmocka_unit_test(a_record_that_fits_when_it_is_read_alone_is_given),
        cmocka_unit_test(a_record_larger_than_usual_comes_in),
        cmocka_unit_test(records_that_do_not_fit_are_passed_over_one_by_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
