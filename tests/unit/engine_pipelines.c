/* Pipelines of sources, maps, batches, shuffles and files. */
#include "engine_pipelines.h"

#include "base/buf.h"

#include <millrace/tfrecord.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char record_path[3][128];
static char text_path[2][128];

static mr_dataset *p_range(void)
{
    return make_range(3, 40, 2);
}

static mr_dataset *p_range_down(void)
{
    return make_range(10, -11, -3);
}

static mr_dataset *p_tensors(void)
{
    int64_t v[6] = {1, 2, 3, 4, 5, 6};
    struct mr_column c = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .rank = 2, .dims = {2, 3}, .data = v};
    mr_block *block = NULL;

    CHECK_OK(mr_block_new(1, &c, 1, &block, e));
    struct mr_attr a = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    mr_dataset *ds = make("from_tensors", NULL, NULL, &a, 1, NULL);
    mr_block_unref(block);
    return ds;
}

static mr_dataset *p_strings(void)
{
    return make_strings(
        (const char *const[]){"alpha", "", "gamma", "a longer string than the others", "e"}, 5);
}

mr_dataset *map_of(mr_dataset *ds, mr_function *(*fn)(const mr_dataset *), int64_t calls,
                   bool ordered)
{
    mr_function *f = fn(ds);

    return make_with_function(
        "map", ds, f,
        ATTRS(INT_ATTR("num_parallel_calls", calls), BOOL_ATTR("deterministic", ordered)));
}

static mr_dataset *p_map(void)
{
    return map_of(make_range(0, 50, 1), fn_affine, 0, true);
}

static mr_dataset *p_map_map(void)
{
    return map_of(map_of(map_of(make_range(0, 50, 1), fn_affine, 0, true), fn_affine, 0, true),
                  fn_text, 0, true);
}

static mr_dataset *p_map_parallel(void)
{
    return map_of(map_of(make_range(0, 90, 1), fn_affine, 3, true), fn_text, -1, true);
}

static mr_dataset *p_map_unordered(void)
{
    return map_of(make_range(0, 60, 1), fn_text, 4, false);
}

static mr_dataset *p_random(void)
{
    return map_of(make_one("repeat", map_of(make_range(0, 30, 1), fn_draw, 0, true), "count", 2),
                  fn_draw, 0, true);
}

static mr_dataset *p_random_parallel(void)
{
    return map_of(make_range(0, 60, 1), fn_draw, 3, true);
}

/* Begins in place. */
static mr_dataset *p_becomes_parallel(void)
{
    return map_of(make_range(0, 12, 1), fn_draw_slowly, -1, true);
}

static mr_function *fn_divide_5(const mr_dataset *ds)
{
    return fn_divide(ds, 5);
}

mr_dataset *p_map_fails(void)
{
    return map_of(make_range(0, 20, 1), fn_divide_5, 0, true);
}

mr_dataset *p_map_fails_parallel(void)
{
    return map_of(make_range(0, 20, 1), fn_divide_5, 2, true);
}

static mr_dataset *filter_of(mr_dataset *ds, mr_function *(*fn)(const mr_dataset *))
{
    mr_function *f = fn(ds);

    return make_with_function("filter", ds, f, NULL, 0);
}

static mr_dataset *p_filter(void)
{
    return filter_of(map_of(make_range(0, 60, 1), fn_affine, 0, true), fn_even);
}

static mr_dataset *p_filter_none(void)
{
    return filter_of(make_range(1, 61, 2), fn_even);
}

static mr_dataset *p_batch(void)
{
    return make_one("batch", make_range(0, 50, 1), "batch_size", 7);
}

static mr_dataset *p_batch_drop(void)
{
    return make("batch", map_of(make_range(0, 50, 1), fn_text, 0, true), NULL,
                ATTRS(INT_ATTR("batch_size", 8), BOOL_ATTR("drop_remainder", 1)), NULL);
}

static mr_dataset *p_batch_batch(void)
{
    return make_one("batch", make_one("batch", make_range(0, 30, 1), "batch_size", 3), "batch_size",
                    4);
}

static mr_dataset *p_batch_shapes(void)
{
    return make_one("batch", map_of(make_range(0, 9, 1), fn_vector, 0, true), "batch_size", 2);
}

static mr_dataset *p_vectors(void)
{
    return map_of(make_range(0, 30, 1), fn_vector, 0, true);
}

static mr_dataset *p_take(void)
{
    return make_one("take", make_one("skip", make_range(0, 50, 1), "count", 9), "count", 17);
}

static mr_dataset *p_take_all(void)
{
    return make_one("take", make_range(0, 9, 1), "count", -1);
}

static mr_dataset *p_skip_all(void)
{
    return make_one("skip", make_range(0, 9, 1), "count", -1);
}

static mr_dataset *p_repeat(void)
{
    return make_one("repeat", make_range(0, 7, 1), "count", 4);
}

static mr_dataset *p_repeat_ever(void)
{
    return make_one("batch", make_one("repeat", make_range(0, 7, 1), "count", -1), "batch_size", 4);
}

static mr_dataset *p_repeat_nothing(void)
{
    return make_one("repeat", filter_of(make_range(1, 9, 2), fn_even), "count", -1);
}

static mr_dataset *p_zip(void)
{
    return make_zip(make_one("batch", make_range(0, 50, 1), "batch_size", 3),
                    map_of(make_range(0, 11, 1), fn_text, 0, true));
}

static mr_dataset *p_concatenate(void)
{
    return make_concatenate(make_range(0, 13, 1),
                            make_concatenate(make_range(100, 105, 1), make_range(0, 0, 1)));
}

static mr_dataset *p_shuffle(void)
{
    return make("shuffle", make_range(0, 60, 1), NULL,
                ATTRS(INT_ATTR("buffer_size", 10), INT_ATTR("seed", 5)), NULL);
}

static mr_dataset *p_shuffle_unseeded(void)
{
    return make_one(
        "repeat",
        make_one("shuffle", map_of(make_range(0, 25, 1), fn_text, 0, true), "buffer_size", 100),
        "count", 2);
}

static mr_dataset *p_shuffle_same(void)
{
    return make_one(
        "repeat",
        make("shuffle", make_range(0, 12, 1), NULL,
             ATTRS(INT_ATTR("buffer_size", 5), BOOL_ATTR("reshuffle_each_iteration", 0)), NULL),
        "count", 3);
}

/* Below a stage that pulls ahead: its input is pulled by a thread, too. */
static mr_dataset *p_shuffle_overlapping(void)
{
    return make_one("prefetch",
                    make("shuffle", map_of(make_range(0, 40, 1), fn_text, 0, true), NULL,
                         ATTRS(INT_ATTR("buffer_size", 9), INT_ATTR("seed", 3)), NULL),
                    "buffer_size", -1);
}

/* Strings around the size above which rows are kept by reference: both kinds, in any order. */
static mr_dataset *p_shuffle_sizes(void)
{
    static char text[2][5000];
    const char *rows[12];

    for (int i = 0; i < 12; i++) {
        size_t size = i % 3 == 0 ? 4096 : 30;
        char *to = text[i % 3 == 0];

        memset(to, 'a', size);
        to[size] = '\0';
        rows[i] = to;
    }
    return make_one("shuffle", make_strings(rows, 12), "buffer_size", 5);
}

mr_dataset *p_shuffle_vectors(void)
{
    return make_one("shuffle", p_vectors(), "buffer_size", 6);
}

static mr_dataset *p_prefetch(void)
{
    return make_one("prefetch", map_of(make_range(0, 70, 1), fn_affine, 0, true), "buffer_size", 5);
}

static mr_dataset *p_prefetch_auto(void)
{
    return make_one("prefetch", p_map_fails(), "buffer_size", -1);
}

static mr_dataset *p_flat_map(void)
{
    mr_dataset *ds = make_ints((const int64_t[]){1, 5, 0, 0, 3, 2}, 6);
    mr_function *fn = fn_count_to(ds);

    return make_with_function("flat_map", ds, fn, NULL, 0);
}

static mr_dataset *interleave_of(int64_t cycle, int64_t block, int64_t calls, bool ordered)
{
    mr_dataset *ds = make_ints((const int64_t[]){4, 9, 0, 3, 7, 1, 0, 12, 2}, 9);
    mr_function *fn = fn_count_to(ds);

    return make_with_function(
        "interleave", ds, fn,
        ATTRS(INT_ATTR("cycle_length", cycle), INT_ATTR("block_length", block),
              INT_ATTR("num_parallel_calls", calls), BOOL_ATTR("deterministic", ordered)));
}

static mr_dataset *p_interleave(void)
{
    return interleave_of(3, 2, 0, true);
}

static mr_dataset *p_interleave_wide(void)
{
    return interleave_of(16, 1, 0, true);
}

static mr_dataset *p_interleave_parallel(void)
{
    return interleave_of(4, 2, 2, true);
}

static mr_dataset *p_interleave_unordered(void)
{
    return interleave_of(4, 1, 4, false);
}

/* The fifth of the datasets in the first round cannot be opened. */
static mr_dataset *p_interleave_fails(void)
{
    mr_dataset *ds = p_map_fails();
    mr_function *fn = fn_count_to(ds);

    return make_with_function(
        "interleave", ds, fn,
        ATTRS(INT_ATTR("cycle_length", 8), INT_ATTR("num_parallel_calls", 2)));
}

/* x -> range(x).map(y -> y + x): an inner function that captures a value of the one around it, in a
 * shuffled dataset. */
static mr_dataset *p_nested(void)
{
    mr_dataset *ds = make_range(0, 9, 1);
    mr_builder *outer = begin_for(ds, NULL);
    uint32_t twice_in[2] = {0, 0};
    uint32_t twice = add_op(outer, "add", twice_in, 2, NULL, 0);
    mr_dataset *inner =
        make("range", NULL, NULL,
             ATTRS(INT_ATTR("start", 0), VALUE_ATTR("stop", 0), INT_ATTR("step", 1)), outer);
    mr_builder *b = begin_for(inner, outer);
    uint32_t captured = 0;

    CHECK_OK(mr_builder_capture(b, twice, &captured, e));
    uint32_t in[2] = {0, captured};
    uint32_t out = add_op(b, "add", in, 2, NULL, 0);
    inner = make("map", inner, finish(b, &out, 1), NULL, 0, outer);
    inner = make("shuffle", inner, NULL, ATTRS(VALUE_ATTR("buffer_size", twice)), outer);
    return make_with_function("flat_map", make_one("skip", ds, "count", 1),
                              finish_dataset(outer, inner), NULL, 0);
}

/* The leaves of a vector as elements: from_tensor_slices of a value. */
static mr_dataset *p_slices_of_value(void)
{
    mr_dataset *ds = p_vectors();
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner = make("from_tensor_slices", NULL, NULL, ATTRS(VALUE_ATTR("value0", 0)), b);

    return make_with_function("flat_map", ds, finish_dataset(b, inner), NULL, 0);
}

static mr_dataset *records_of(const char *compression)
{
    const char *const names[3] = {record_path[0], record_path[1], record_path[2]};
    mr_dataset *ds = make_strings(names, 3);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner =
        make("tfrecord", NULL, NULL,
             ATTRS(VALUE_ATTR("filename", 0), TEXT_ATTR("compression_type", compression)), b);

    return make_with_function("interleave", ds, finish_dataset(b, inner),
                              ATTRS(INT_ATTR("cycle_length", 2)));
}

static mr_dataset *p_tfrecord(void)
{
    return records_of("GZIP");
}

/* Columns "ints" (lists) and "row" of a file with three row groups. @defaults: null is -1. */
static mr_dataset *table_of(const char *op, const char *file, const struct mr_attr *group,
                            bool defaults, mr_builder *scope)
{
    static const char spec[] = "[[[\"int64\",-1],[\"int64\"]],[\"*\",\"*\"]]";
    const uint64_t offsets[] = {0, 4, 7};
    const int64_t minus = -1;
    const int64_t lists = 0;
    char path[256];
    struct mr_column names = {
        .kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = "intsrow"};
    struct mr_column value = {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = &minus};
    mr_block *columns = NULL;
    mr_block *instead = NULL;

    (void)snprintf(path, sizeof path, "%s/%s", MR_TABLES, file);
    CHECK_OK(mr_block_new(2, &names, 1, &columns, e));
    CHECK_OK(mr_block_new(1, &value, 1, &instead, e));
    struct mr_attr attrs[] = {
        TEXT_ATTR("filename", path),
        TEXT_ATTR("spec", spec),
        {.name = "columns", .kind = MR_ATTR_STRINGS, .block = columns},
        *group,
        {.name = "defaults", .kind = MR_ATTR_BLOCK, .block = instead},
        {.name = "defaulted", .kind = MR_ATTR_INTS, .ints = &lists, .count = 1},
    };
    mr_dataset *ds = make(op, NULL, NULL, attrs, defaults ? 6 : 4, scope);
    mr_block_unref(columns);
    mr_block_unref(instead);
    return ds;
}

static mr_dataset *groups_of(const char *op, const char *file)
{
    mr_dataset *ds = make_range(0, 3, 1);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner = table_of(op, file, &VALUE_ATTR("first_group", 0), true, b);

    return make_with_function("interleave", ds, finish_dataset(b, inner),
                              ATTRS(INT_ATTR("cycle_length", 2)));
}

static mr_dataset *p_parquet(void)
{
    return groups_of("parquet", "lists.parquet");
}

static mr_dataset *p_arrow(void)
{
    return groups_of("arrow", "lists-lz4.arrow");
}

/* One row in five is null, and one has a null in its list. */
static mr_dataset *p_parquet_with_nulls(void)
{
    return table_of("parquet", "lists.parquet", &INT_ATTR("groups", -1), false, NULL);
}

static mr_dataset *lines_of(const char *op)
{
    const char *const names[2] = {text_path[0], text_path[1]};
    mr_dataset *ds = make_strings(names, 2);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner = make(op, NULL, NULL, ATTRS(VALUE_ATTR("filename", 0)), b);

    return make_with_function("flat_map", ds, finish_dataset(b, inner), NULL, 0);
}

static mr_dataset *p_text_line(void)
{
    return lines_of("text_line");
}

static mr_dataset *p_csv_record(void)
{
    return lines_of("csv_record");
}

static mr_dataset *p_fixed_length_record(void)
{
    const char *const names[2] = {text_path[1], text_path[1]};
    mr_dataset *ds = make_strings(names, 2);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner = make("fixed_length_record", NULL, NULL,
                             ATTRS(VALUE_ATTR("filename", 0), INT_ATTR("record_bytes", 3),
                                   INT_ATTR("header_bytes", 2), INT_ATTR("footer_bytes", 1)),
                             b);

    return make_with_function("interleave", ds, finish_dataset(b, inner),
                              ATTRS(INT_ATTR("cycle_length", 2)));
}

static mr_dataset *p_everything(void)
{
    mr_dataset *ds = make_one("repeat", p_interleave_parallel(), "count", 2);

    ds = map_of(ds, fn_affine, -1, true);
    ds = make_one("prefetch", filter_of(ds, fn_even), "buffer_size", 4);
    ds = make("shuffle", ds, NULL, ATTRS(INT_ATTR("buffer_size", 7), INT_ATTR("seed", 1)), NULL);
    return make_one("take",
                    make_one("batch", make_concatenate(ds, make_range(0, 5, 1)), "batch_size", 3),
                    "count", 20);
}

const struct pipeline basic_pipelines[] = {
    {.name = "range", .make = p_range},
    {.name = "range down", .make = p_range_down},
    {.name = "from_tensors", .make = p_tensors},
    {.name = "from_tensor_slices", .make = p_strings},
    {.name = "map", .make = p_map},
    {.name = "maps", .make = p_map_map},
    {.name = "parallel map", .make = p_map_parallel},
    {.name = "unordered map", .make = p_map_unordered, .any_order = true},
    {.name = "map that fails", .make = p_map_fails},
    {.name = "parallel map that fails", .make = p_map_fails_parallel},
    {.name = "random numbers", .make = p_random},
    {.name = "random numbers in a parallel map", .make = p_random_parallel},
    {.name = "map that becomes parallel", .make = p_becomes_parallel},
    {.name = "filter", .make = p_filter},
    {.name = "filter that keeps nothing", .make = p_filter_none},
    {.name = "batch", .make = p_batch, .company = true},
    {.name = "batch, drop_remainder", .make = p_batch_drop, .company = true},
    {.name = "batches of batches", .make = p_batch_batch, .company = true},
    {.name = "batch of unequal shapes", .make = p_batch_shapes, .company = true},
    {.name = "vectors", .make = p_vectors},
    {.name = "take, skip", .make = p_take, .company = true},
    {.name = "take all", .make = p_take_all, .company = true},
    {.name = "skip all", .make = p_skip_all, .company = true},
    {.name = "repeat", .make = p_repeat},
    {.name = "repeat for ever", .make = p_repeat_ever, .most = 40, .company = true},
    {.name = "repeat of nothing", .make = p_repeat_nothing, .company = true},
    {.name = "zip", .make = p_zip, .company = true},
    {.name = "concatenate", .make = p_concatenate},
    {.name = "shuffle", .make = p_shuffle},
    {.name = "shuffle without seed", .make = p_shuffle_unseeded},
    {.name = "shuffle, the same each time", .make = p_shuffle_same},
    {.name = "shuffle of vectors", .make = p_shuffle_vectors},
    {.name = "shuffle of small and large rows", .make = p_shuffle_sizes},
    {.name = "shuffle below prefetch", .make = p_shuffle_overlapping},
    {.name = "prefetch", .make = p_prefetch},
    {.name = "prefetch, automatic", .make = p_prefetch_auto},
    {.name = "flat_map", .make = p_flat_map},
    {.name = "interleave", .make = p_interleave},
    {.name = "interleave, wide", .make = p_interleave_wide},
    {.name = "interleave of what fails", .make = p_interleave_fails},
    {.name = "parallel interleave", .make = p_interleave_parallel},
    {.name = "unordered interleave", .make = p_interleave_unordered, .any_order = true},
    {.name = "nested functions", .make = p_nested},
    {.name = "slices of a value", .make = p_slices_of_value},
    {.name = "tfrecord", .make = p_tfrecord},
    {.name = "parquet", .make = p_parquet},
    {.name = "arrow", .make = p_arrow},
    {.name = "parquet with nulls", .make = p_parquet_with_nulls},
    {.name = "text_line", .make = p_text_line},
    {.name = "csv_record", .make = p_csv_record},
    {.name = "fixed_length_record", .make = p_fixed_length_record},
    {.name = "saved", .make = p_saved},
    {.name = "snapshot", .make = p_snapshot, .kept = true},
    {.name = "snapshot of what fails", .make = p_snapshot_fails, .kept = true},
    {.name = "everything", .make = p_everything, .by_value = true},
};
const size_t basic_pipelines_count = sizeof basic_pipelines / sizeof basic_pipelines[0];

struct pipeline *pipelines_list(size_t *n)
{
    struct pipeline *all = calloc(basic_pipelines_count + more_pipelines_count, sizeof *all);

    assert_non_null(all);
    memcpy(all, basic_pipelines, basic_pipelines_count * sizeof *all);
    memcpy(all + basic_pipelines_count, more_pipelines, more_pipelines_count * sizeof *all);
    *n = basic_pipelines_count + more_pipelines_count;
    return all;
}

int pipelines_setup(void **state)
{
    static char dir[] = "/tmp/mr-engine-XXXXXX";

    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    for (int f = 0; f < 3; f++) {
        mr_tfrecord_writer *w = NULL;
        char text[64];

        (void)snprintf(record_path[f], sizeof record_path[f], "%s/%d.tfrecord.gz", dir, f);
        CHECK_OK(mr_tfrecord_writer_open(record_path[f], "GZIP", -1, &w, e));
        for (int r = 0; r < 5 + f; r++) {
            int n = snprintf(text, sizeof text, "file %d record %d", f, r);

            CHECK_OK(mr_tfrecord_writer_write(w, text, (size_t)n, e));
        }
        CHECK_OK(mr_tfrecord_writer_close(w, e));
    }
    for (int f = 0; f < 2; f++) {
        static const char *const texts[2] = {"one\r\n\n\"two\nwords\"\nthree",
                                             "a\nb\n\r\n\rlast\n"};

        (void)snprintf(text_path[f], sizeof text_path[f], "%s/%d.txt", dir, f);
        FILE *out = fopen(text_path[f], "w");
        if (out == NULL || fputs(texts[f], out) < 0 || fclose(out) != 0) {
            return -1;
        }
    }
    saved_pipelines_setup(dir);
    return 0;
}

int pipelines_teardown(void **state)
{
    saved_pipelines_teardown();
    for (int f = 0; f < 3; f++) {
        (void)unlink(record_path[f]);
    }
    (void)unlink(text_path[0]);
    (void)unlink(text_path[1]);
    *strrchr(record_path[0], '/') = '\0';
    return rmdir(record_path[0]);
}
