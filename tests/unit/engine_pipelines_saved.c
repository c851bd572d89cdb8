/* Pipelines of saved datasets: reading chunks, and writing what goes by. */
#include "engine_pipelines.h"

#include <millrace/saved.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static char saved_path[128];
static char snapshot_path[128];
static char failing_path[128];

/* The chunks of what is saved, as rows: the name of each and what it is known by. */
static mr_dataset *make_chunks(const mr_saved *saved)
{
    char text[1024] = "";
    uint64_t offsets[8] = {0};
    int64_t chains[8];
    size_t n = mr_saved_chunks(saved);
    mr_block *block = NULL;

    assert_in_range(n, 2, 7);
    for (size_t i = 0; i < n; i++) {
        struct mr_saved_chunk chunk;

        mr_saved_chunk_get(saved, i, &chunk);
        (void)snprintf(text + offsets[i], sizeof text - offsets[i], "%s", chunk.file);
        offsets[i + 1] = offsets[i] + strlen(chunk.file);
        chains[i] = chunk.chain;
    }
    struct mr_column c[2] = {
        {.kind = MR_COLUMN_FIXED, .dtype = MR_STRING, .offsets = offsets, .data = text},
        {.kind = MR_COLUMN_FIXED, .dtype = MR_INT64, .data = chains}};
    CHECK_OK(mr_block_new((uint32_t)n, c, 2, &block, e));
    struct mr_attr a = {.name = "tensors", .kind = MR_ATTR_BLOCK, .block = block};
    mr_dataset *ds = make("from_tensor_slices", NULL, NULL, &a, 1, NULL);
    mr_block_unref(block);
    return ds;
}

mr_dataset *p_saved(void)
{
    mr_saved *saved = NULL;

    CHECK_OK(mr_saved_open(saved_path, &saved, e));
    mr_dataset *ds = make_chunks(saved);
    mr_builder *b = begin_for(ds, NULL);
    mr_dataset *inner = make("saved", NULL, NULL,
                             ATTRS(VALUE_ATTR("filename", 0), VALUE_ATTR("chain", 1),
                                   TEXT_ATTR("spec", "[[[\"string\"]],\"*\"]")),
                             b);

    ds = make_with_function(
        "interleave", ds, finish_dataset(b, inner),
        ATTRS(INT_ATTR("cycle_length", 2), INT_ATTR("cardinality", (int64_t)mr_saved_rows(saved))));
    mr_saved_free(saved);
    return ds;
}

/* (files, chains, firsts, counts) -> the elements of all chunks */
static mr_function *fn_read_chunks(void)
{
    struct mr_leaf_spec leaves[4] = {{.dtype = MR_STRING, .rank = 1, .dims = {-1}},
                                     {.dtype = MR_INT64, .rank = 1, .dims = {-1}},
                                     {.dtype = MR_INT64, .rank = 1, .dims = {-1}},
                                     {.dtype = MR_INT64, .rank = 1, .dims = {-1}}};
    mr_spec *spec = NULL;
    mr_builder *b = NULL;

    CHECK_OK(mr_spec_new(leaves, 4, NULL, &spec, e));
    CHECK_OK(mr_builder_new(spec, NULL, &b, e));
    mr_spec_unref(spec);
    mr_dataset *chunks = make("from_tensor_slices", NULL, NULL,
                              ATTRS(VALUE_ATTR("value0", 0), VALUE_ATTR("value1", 1)), b);
    mr_builder *of_chunk = begin_for(chunks, b);
    mr_dataset *chunk = make("saved", NULL, NULL,
                             ATTRS(VALUE_ATTR("filename", 0), VALUE_ATTR("chain", 1),
                                   TEXT_ATTR("spec", "[[[\"int64\"],[\"string\"]],[\"*\",\"*\"]]")),
                             of_chunk);
    mr_function *fn = finish_dataset(of_chunk, chunk);
    mr_dataset *all = make("flat_map", chunks, fn, NULL, 0, b);

    return finish_dataset(b, all);
}

/* The first pass of the test writes, others read. */
mr_dataset *p_snapshot(void)
{
    mr_dataset *ds = map_of(make_range(0, 30, 1), fn_text, 0, true);
    mr_function *fn = fn_read_chunks();

    return make_with_function(
        "snapshot", ds, fn,
        ATTRS(TEXT_ATTR("path", snapshot_path), TEXT_ATTR("compression", "LZ4")));
}

/* x -> (100 // (x - 5), x as text) */
static mr_function *fn_divide_and_text(const mr_dataset *ds)
{
    mr_builder *b = begin_for(ds, NULL);
    uint32_t x = 0;
    uint32_t less_in[2] = {x, add_int(b, 5)};
    uint32_t div_in[2] = {add_int(b, 100), add_op(b, "sub", less_in, 2, NULL, 0)};
    uint32_t out[2] = {add_op(b, "floor_div", div_in, 2, NULL, 0),
                       add_op(b, "as_string", &x, 1, NULL, 0)};

    return finish(b, out, 2);
}

/* No pass is kept: all give the error. */
mr_dataset *p_snapshot_fails(void)
{
    mr_dataset *ds = map_of(make_range(0, 20, 1), fn_divide_and_text, 0, true);
    mr_function *fn = fn_read_chunks();

    return make_with_function("snapshot", ds, fn, ATTRS(TEXT_ATTR("path", failing_path)));
}

/* In chunks of several records, some compressed. */
void saved_pipelines_setup(const char *dir)
{
    static const char alike[] = "a longer one aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    mr_dataset *ds =
        make_strings((const char *const[]){"a", "b", alike, "", "e", "f", "g", "h"}, 8);
    mr_engine_iter *it = open_with(ds, &(struct read_options){0});
    mr_saved_writer *w = NULL;
    struct mr_saved_options options = {.struct_size = sizeof options,
                                       .compression = "ZSTD",
                                       .chunk_bytes = 500,
                                       .record_bytes = 8};
    mr_block *block = NULL;
    mr_error err;

    (void)snprintf(saved_path, sizeof saved_path, "%s/saved", dir);
    (void)snprintf(snapshot_path, sizeof snapshot_path, "%s/snapshot", dir);
    (void)snprintf(failing_path, sizeof failing_path, "%s/failing", dir);
    CHECK_OK(mr_saved_writer_open(saved_path, mr_dataset_spec(ds), NULL, &options, &w, e));
    while (mr_engine_pull(it, (struct mr_want){.rows_max = 3}, -1, &block, &err) == MR_OK) {
        CHECK_OK(mr_saved_writer_write(w, block, e));
        mr_block_unref(block);
    }
    CHECK_OK(mr_saved_writer_commit(w, e));
    mr_saved_writer_free(w);
    mr_engine_close(it);
    mr_dataset_unref(ds);
}

static void remove_saved(const char *directory)
{
    mr_saved *saved = NULL;
    struct mr_saved_chunk chunk;
    char path[256];

    CHECK_OK(mr_saved_open(directory, &saved, e));
    for (size_t i = 0; i < mr_saved_chunks(saved); i++) {
        mr_saved_chunk_get(saved, i, &chunk);
        (void)snprintf(path, sizeof path, "%s", chunk.file);
        assert_int_equal(unlink(path), 0);
    }
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
    mr_saved_free(saved);
    (void)snprintf(path, sizeof path, "%s/manifest.json", directory);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(directory), 0);
}

void saved_pipelines_teardown(void)
{
    remove_saved(saved_path);
    if (access(snapshot_path, F_OK) == 0) { /* some pipeline was read that takes it */
        remove_saved(snapshot_path);
    }
    (void)rmdir(failing_path); /* nothing is in it, if it is there */
}
