/*
 * snapshot: the elements of the first complete pass, kept in files (saved/) for the passes after
 * it, in this process or in a later one. What reads them is a dataset that a function makes of what
 * the manifest says.
 *
 * What is to be done is decided by the first pull: where there is a manifest, it is read; else the
 * pass is written as it goes by, under a lock that keeps others from doing the same. A pass that
 * ends early, or is restored half-way, leaves nothing, nor does one in which an element failed. A
 * pass that has read as many elements as the input is known to have need not see the end. What
 * cannot be written ends the pass for good.
 *
 * What is read descends from nothing: the pass that was written has accounted for that.
 */
#include "engine/ops/expand.h"

#include <millrace/saved.h>

enum mode { UNDECIDED, PASSING, READING, ENDED, MODES };

struct snapshot_iter {
    struct mr_op_iter head;
    struct mr_op_ctx ctx; /* of the input, and of what reads */
    char *path;
    char *compression;
    bool sharded;
    enum mode mode;
    struct mr_op_iter *source; /* PASSING: the input; READING: what reads */
    mr_saved_writer *writer;   /* PASSING; NULL: nothing is kept */
    uint64_t kept;             /* rows that were written */
    mr_block *block;           /* PASSING: pulled, and not given yet; or NULL */
    uint32_t used;             /* of its rows */
    struct mr_expander expander;
};

/* ---- the graph ---- */

/* What the function is given: of each chunk its file, and what it is known by; of each shard its
 * first chunk, and how many it has. */
static int manifest_spec(mr_spec **ret, mr_error *err)
{
    static const struct mr_leaf_spec leaves[4] = {
        {.dtype = MR_STRING, .rank = 1, .dims = {MR_DIM_UNKNOWN}},
        {.dtype = MR_INT64, .rank = 1, .dims = {MR_DIM_UNKNOWN}},
        {.dtype = MR_INT64, .rank = 1, .dims = {MR_DIM_UNKNOWN}},
        {.dtype = MR_INT64, .rank = 1, .dims = {MR_DIM_UNKNOWN}},
    };

    return mr_spec_new(leaves, 4, NULL, ret, err);
}

static bool sharded_attr(const struct mr_attr *a)
{
    return a != NULL && a->i != 0;
}

/* What is read must be what was written. */
static int check_elements(const mr_spec *input, bool sharded, const mr_spec *read, mr_error *err)
{
    size_t skip = sharded ? 1 : 0;
    const struct mr_leaf_spec *shard = mr_spec_leaf(input, 0);

    if (sharded && (shard->dtype != MR_INT64 || shard->rank != 0)) {
        return mr_error_set(err, MR_EINVAL, "the number of the shard is no int64 scalar");
    }
    if (mr_spec_leaves(input) != mr_spec_leaves(read) + skip) {
        return mr_error_set(err, MR_EINVAL, "elements of %zu components are read as %zu",
                            mr_spec_leaves(input) - skip, mr_spec_leaves(read));
    }
    for (size_t i = 0; i < mr_spec_leaves(read); i++) {
        const struct mr_leaf_spec *a = mr_spec_leaf(input, i + skip);
        const struct mr_leaf_spec *b = mr_spec_leaf(read, i);

        if (!mr_leaf_covers(b, a)) {
            return mr_error_set(err, MR_EINVAL,
                                "component %zu is %s where it is written, and %s where it is read",
                                i, mr_leaf_text(a, (char[MR_LEAF_TEXT]){0}),
                                mr_leaf_text(b, (char[MR_LEAF_TEXT]){0}));
        }
    }
    return MR_OK;
}

static int snapshot_infer(struct mr_infer *in, mr_error *err)
{
    MR_AUTO(mr_spec_unref) mr_spec *manifest = NULL;
    MR_AUTO(mr_free) char *text = NULL;
    const mr_spec *read = in->functions[0]->spec;

    if (in->scope != NULL) {
        return mr_error_set(err, MR_EUNIMPL,
                            "files hold the elements of one dataset: there is another one for each "
                            "element here, inside of a function");
    }
    MR_TRY(mr_infer_no_datasets(in->inputs[0]->spec, err));
    MR_TRY(mr_infer_string(in, "path", &text, err));
    MR_TRY(manifest_spec(&manifest, err));
    MR_TRY(mr_infer_function(in, 0, MR_FUNCTION_DATASET, manifest, err));
    MR_TRY(
        check_elements(in->inputs[0]->spec, sharded_attr(mr_infer_attr(in, "sharded")), read, err));
    in->spec = mr_spec_ref(read);
    in->cardinality = in->inputs[0]->cardinality;
    return MR_OK;
}

static int copy_text(const struct mr_op_iter *head, const char *name, char **ret, mr_error *err)
{
    const void *text = NULL;
    size_t size = 0;

    MR_TRY(mr_op_bytes(head, name, &text, &size, err));
    if (text != NULL && memchr(text, 0, size) != NULL) {
        return mr_op_fail_at_open(
            head, mr_error_set(err, MR_EINVAL, "argument '%s' has a zero byte in it", name), err);
    }
    *ret = mr_strndup(text != NULL ? text : "", size);
    return *ret != NULL ? MR_OK : mr_error_nomem(err);
}

static int snapshot_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct snapshot_iter *it = (struct snapshot_iter *)head;

    it->ctx = mr_op_input_ctx(ctx, 0);
    it->sharded = mr_op_bool(head, "sharded", false);
    MR_TRY(copy_text(head, "path", &it->path, err));
    MR_TRY(copy_text(head, "compression", &it->compression, err));
    return mr_expander_prepare(&it->expander, head, head->ds->functions[0], err);
}

/* ---- reading ---- */

static void count_shards(const mr_saved *saved, int64_t *chains, int64_t *firsts, int64_t *counts,
                         uint64_t *offsets, struct mr_buf *files, size_t *shards)
{
    struct mr_saved_chunk chunk;
    int64_t last = -1;

    *shards = 0;
    offsets[0] = 0;
    for (size_t i = 0; i < mr_saved_chunks(saved); i++) {
        mr_saved_chunk_get(saved, i, &chunk);
        if (chunk.shard != last) {
            firsts[*shards] = (int64_t)i;
            counts[(*shards)++] = 0;
        }
        last = chunk.shard;
        counts[*shards - 1]++;
        chains[i] = chunk.chain;
        mr_buf_puts(files, chunk.file);
        offsets[i + 1] = files->len;
    }
}

static struct mr_column vector_of(const int64_t *values, size_t n)
{
    return (struct mr_column){.kind = MR_COLUMN_FIXED,
                              .dtype = MR_INT64,
                              .rank = 1,
                              .dims = {(int64_t)n},
                              .data = values};
}

/* What the manifest says as one row. */
static int manifest_row(const mr_saved *saved, mr_block **ret, mr_error *err)
{
    size_t n = mr_saved_chunks(saved);
    size_t shards = 0;
    struct mr_buf text = MR_BUF_INIT;
    MR_AUTO(mr_buf_free) struct mr_buf *files = &text;
    MR_AUTO(mr_free) int64_t *numbers = mr_calloc(n + 1, 3 * sizeof *numbers);
    MR_AUTO(mr_free) uint64_t *offsets = mr_calloc(n + 1, sizeof *offsets);

    MR_CHECK_ALLOC(numbers, err);
    MR_CHECK_ALLOC(offsets, err);
    int64_t *firsts = numbers + n;
    int64_t *counts = firsts + n;
    count_shards(saved, numbers, firsts, counts, offsets, files, &shards);
    if (files->failed) {
        return mr_buf_error(files, err);
    }
    const struct mr_column columns[4] = {
        {.kind = MR_COLUMN_FIXED,
         .dtype = MR_STRING,
         .rank = 1,
         .dims = {(int64_t)n},
         .offsets = offsets,
         .data = files->data != NULL ? (const void *)files->data : ""},
        vector_of(numbers, n),
        vector_of(firsts, shards),
        vector_of(counts, shards),
    };
    return mr_block_new(1, columns, 4, ret, err);
}

static int read_saved(struct snapshot_iter *it, const mr_saved *saved, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *row = NULL;

    MR_TRY_WRAP(check_elements(mr_saved_spec(saved), false, it->head.ds->spec, err), err,
                "what is kept in '%s'", it->path);
    MR_TRY(manifest_row(saved, &row, err));
    MR_TRY(mr_expander_expand(&it->expander, row, &it->source, err));
    it->mode = READING;
    return MR_OK;
}

/* *@found: whether there was something to read. */
static int try_reading(struct snapshot_iter *it, bool *found, mr_error *err)
{
    mr_saved *saved = NULL;
    int rc = mr_saved_open(it->path, &saved, err);

    *found = rc == MR_OK;
    if (rc == MR_OK) {
        rc = read_saved(it, saved, err);
    }
    mr_saved_free(saved);
    return rc == MR_ENOTFOUND && !*found ? MR_OK : rc;
}

/* ---- writing ---- */

static int pass_input(struct snapshot_iter *it, mr_error *err)
{
    MR_TRY(mr_op_open(&it->ctx, it->head.ds->inputs[0], &it->source, err));
    it->mode = PASSING;
    return MR_OK;
}

static void stop_writing(struct snapshot_iter *it)
{
    mr_saved_writer_free(it->writer);
    it->writer = NULL;
}

static int begin_writing(struct snapshot_iter *it, mr_error *err)
{
    struct mr_saved_options options = {.struct_size = sizeof options,
                                       .compression = it->compression,
                                       .sharded = it->sharded,
                                       .exclusive = true};

    MR_TRY(mr_saved_writer_open(it->path, it->head.ds->spec, it->head.ds->inputs[0]->fingerprint,
                                &options, &it->writer, err));
    return MR_OK;
}

static int decide(struct snapshot_iter *it, mr_error *err)
{
    bool found = false;

    if (it->head.partial) {
        return mr_error_set(err, MR_EPRECOND,
                            "a part of the elements, which this reader sees, is not kept: read "
                            "with sharding OFF, or keep them before they are distributed");
    }
    MR_TRY(try_reading(it, &found, err));
    if (found) {
        return MR_OK;
    }
    MR_TRY(begin_writing(it, err));
    MR_TRY(try_reading(it, &found, err)); /* who had the lock before may have written it */
    if (found) {
        stop_writing(it);
        return MR_OK;
    }
    return pass_input(it, err);
}

/* It cannot be written: nothing comes of this pass any more, since nobody asked for elements that
 * are not kept. */
static int cannot_write(struct snapshot_iter *it, int rc, mr_error *err)
{
    stop_writing(it);
    err->traits |= MR_PERMANENT;
    mr_error failure = *err;
    (void)mr_op_fail_at_open(&it->head, rc, &failure);
    (void)mr_op_defer(&it->head, rc, &failure);
    *err = failure;
    return rc;
}

static int commit(struct snapshot_iter *it, mr_error *err)
{
    if (it->writer == NULL) {
        return MR_OK;
    }
    int rc = mr_saved_writer_commit(it->writer, err);
    if (rc != MR_OK) {
        return cannot_write(it, rc, err);
    }
    stop_writing(it);
    return MR_OK;
}

static int keep(struct snapshot_iter *it, const mr_block *block, mr_error *err)
{
    if (it->writer == NULL) {
        return MR_OK;
    }
    int rc = mr_saved_writer_write(it->writer, block, err);
    if (rc != MR_OK) {
        return cannot_write(it, rc, err);
    }
    it->kept += mr_block_rows(block);
    return it->head.ds->cardinality >= 0 && it->kept == (uint64_t)it->head.ds->cardinality
               ? commit(it, err)
               : MR_OK;
}

/* The elements of @block, without the numbers of their shards. */
static int elements_of(const struct snapshot_iter *it, mr_block *block, mr_block **ret,
                       mr_error *err)
{
    uint32_t n = mr_block_column_count(block);

    if (!it->sharded) {
        *ret = mr_block_ref(block);
        return MR_OK;
    }
    MR_AUTO(mr_free) uint32_t *which = mr_calloc(n, sizeof *which);
    MR_CHECK_ALLOC(which, err);
    for (uint32_t i = 1; i < n; i++) {
        which[i - 1] = i;
    }
    return mr_block_select(block, which, n - 1, ret, err);
}

static int pull_input(struct snapshot_iter *it, const struct mr_pull *pull, mr_error *err)
{
    int rc = mr_op_pull(it->source, pull, &it->block, err);

    if (rc == MR_END) {
        MR_TRY(commit(it, err));
    } else if (rc < 0 && mr_op_element_failed(rc, err)) {
        stop_writing(it);
    }
    return rc;
}

/* The block at hand, or as much of it as is asked for: what fails for want of memory can be tried
 * again. */
static int pass(struct snapshot_iter *it, const struct mr_pull *pull, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *part = NULL;
    MR_AUTO(mr_block_unref) mr_block *elements = NULL;

    MR_TRY(it->block != NULL ? MR_OK : pull_input(it, pull, err));
    uint32_t rows = MR_MIN(pull->rows, mr_block_rows(it->block) - it->used);
    MR_TRY(mr_block_slice(it->block, it->used, rows, &part, err));
    MR_TRY(elements_of(it, part, &elements, err));
    MR_TRY(keep(it, part, err));
    it->used += rows;
    if (it->used == mr_block_rows(it->block)) {
        mr_block_unref(MR_TAKE(it->block));
        it->used = 0;
    }
    *ret = MR_TAKE(elements);
    return MR_OK;
}

static int snapshot_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                         mr_error *err)
{
    struct snapshot_iter *it = (struct snapshot_iter *)head;

    if (it->mode == UNDECIDED) {
        int rc = decide(it, err);

        if (rc != MR_OK) {
            stop_writing(it);
            it->mode = mr_op_element_failed(rc, err) ? ENDED : UNDECIDED;
            mr_op_mark_uncounted(rc, err);
            return mr_op_fail_at_open(head, rc, err);
        }
    }
    if (it->mode == ENDED) {
        return MR_END;
    }
    return it->mode == READING ? mr_op_pull(it->source, pull, ret, err) : pass(it, pull, ret, err);
}

/* ---- state: a pass that was being written is not written on, what it has written is gone ---- */

static int snapshot_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct snapshot_iter *it = (struct snapshot_iter *)head;
    uint64_t mode = it->mode;

    MR_TRY(mr_state_bounded(s, &mode, MODES - 1, err));
    it->mode = (enum mode)mode;
    if (it->mode == READING) {
        return mr_expander_inner_state(&it->expander, &it->source, s, err);
    }
    if (it->mode != PASSING) {
        return MR_OK;
    }
    MR_TRY(s->restores ? pass_input(it, err) : MR_OK);
    MR_TRY(mr_state_rest(s, &it->block, &it->used, it->head.ds->inputs[0]->spec, err));
    return mr_op_state(it->source, s, err);
}

static void snapshot_close(struct mr_op_iter *head)
{
    struct snapshot_iter *it = (struct snapshot_iter *)head;

    stop_writing(it);
    mr_block_unref(it->block);
    mr_op_close(it->source);
    mr_expander_free(&it->expander);
    mr_free(it->path);
    mr_free(it->compression);
}

const struct mr_operator mr_operator_snapshot = {
    .name = "snapshot",
    .inputs = 1,
    .min_more_functions = 1,
    .max_more_functions = 1,
    .args = MR_ARGS(MR_ARG("path", MR_ATTR_BYTES, MR_ARG_CONSTANT),
                    MR_ARG("compression", MR_ATTR_BYTES, MR_ARG_CONSTANT | MR_ARG_OPTIONAL),
                    MR_OPTIONAL_BOOL("sharded")),
    .infer = snapshot_infer,
    .run = MR_RUN(struct snapshot_iter, .open = snapshot_open, .pull = snapshot_pull,
                  .state = snapshot_state, .close = snapshot_close),
};
