/*
 * saved: the elements of one chunk of a saved dataset. The file is opened by the first pull, so
 * that opening a pipeline does no I/O. An error of the file is given once, with its name and the
 * offset: behind a record whose bytes are damaged the chunk goes on, behind anything else it has
 * ended.
 */
#include "engine/gather.h"
#include "engine/ops/ops.h"
#include "engine/saved/chunk_file.h"

struct saved_iter {
    struct mr_op_iter head;
    char *path;
    bool has_chain;
    uint64_t chain; /* which chunk it must be */
    bool opened;
    struct mr_chunk_reader reader;
    struct mr_gather rows; /* what is left of the record at hand */
    /* where that record stands, as the reader stood before it: from there it is read again after a
     * restore */
    uint64_t offset;
    uint64_t first;
    uint64_t before;
    uint64_t passed; /* rows of it that were given */
    bool ended;
};

static int saved_infer(struct mr_infer *in, mr_error *err)
{
    const struct mr_attr *spec = mr_infer_attr(in, "spec");
    MR_AUTO(mr_free) char *path = NULL;

    MR_TRY(mr_infer_string(in, "filename", &path, err));
    MR_TRY_WRAP(mr_spec_from_json(spec->bytes, spec->size, &in->spec, err), err, "argument 'spec'");
    return mr_infer_no_datasets(in->spec, err);
}

static int saved_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct saved_iter *it = (struct saved_iter *)head;
    const void *text = NULL;
    size_t size = 0;
    int64_t chain = 0;

    MR_TRY(mr_op_bytes(head, "filename", &text, &size, err));
    if (memchr(text, 0, size) != NULL) {
        return mr_op_fail_at_open(
            head, mr_error_set(err, MR_EINVAL, "argument 'filename' has a zero byte in it"), err);
    }
    it->path = mr_strndup(text, size);
    MR_CHECK_ALLOC(it->path, err);
    it->has_chain = mr_attr_find(head->ds->attrs, head->ds->nattrs, "chain") != NULL;
    MR_TRY(mr_op_int(head, "chain", 0, &chain, err));
    it->chain = (uint64_t)chain;
    return MR_OK;
}

/* Open the file, and go to where the iterator stands. */
static int open_file(struct saved_iter *it, mr_error *err)
{
    if (it->opened) {
        return MR_OK;
    }
    MR_TRY(mr_chunk_reader_open(&it->reader, it->path, it->has_chain ? &it->chain : NULL, err));
    int rc = MR_OK;
    if (it->offset > 0) {
        rc = mr_chunk_reader_seek(&it->reader, it->offset, it->first, it->before, err);
    }
    if (rc != MR_OK) {
        mr_chunk_reader_free(&it->reader);
        mr_error_wrap(err, "file '%s'", it->path);
        return rc;
    }
    it->opened = true;
    return MR_OK;
}

/* The record at hand is done with. */
static void stand_behind(struct saved_iter *it)
{
    it->offset = it->reader.offset;
    it->first = it->reader.rows;
    it->before = it->reader.chain;
    it->passed = 0;
}

/* @lost rows with one error; 0: nobody knows how many. */
static int failed(struct saved_iter *it, int rc, uint64_t lost, mr_error *err)
{
    if (lost != 1) {
        mr_op_mark_uncounted(rc, err);
    }
    return mr_op_fail(&it->head, it->head.delivered, rc, err);
}

static int read_record(struct saved_iter *it, mr_error *err)
{
    MR_AUTO(mr_block_unref) mr_block *block = NULL;
    struct mr_chunk_reader before = it->reader;
    uint64_t lost = 0;
    int rc = mr_chunk_next(&it->reader, it->head.ds->spec, &block, &lost, err);

    if (rc < 0) {
        mr_error_wrap(err, "file '%s'", it->path);
        if (mr_op_element_failed(rc, err)) {
            stand_behind(it);
        }
        return failed(it, rc, lost, err);
    }
    MR_TRY(rc);
    uint32_t rows = mr_block_rows(block);
    if (it->passed >= rows) {
        it->ended = true;
        rc = mr_error_set(err, MR_EDATALOSS,
                          "file '%s', offset %" PRIu64
                          ": fewer rows than when its position was saved",
                          it->path, it->offset);
        return failed(it, rc, 0, err);
    }
    rc = mr_gather_add(&it->rows, block, (uint32_t)it->passed, rows - (uint32_t)it->passed, err);
    if (rc != MR_OK) {
        it->reader = before; /* the next pull reads it again */
    }
    return rc;
}

static int saved_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    struct saved_iter *it = (struct saved_iter *)head;

    if (it->rows.rows == 0 && it->ended) {
        return MR_END;
    }
    if (it->rows.rows == 0) {
        int rc = open_file(it, err);

        if (rc != MR_OK) {
            it->ended = mr_op_element_failed(rc, err);
            return failed(it, rc, 0, err);
        }
        rc = read_record(it, err);
        it->ended = it->ended || it->reader.ended;
        MR_TRY(rc);
    }
    uint32_t rows = (uint32_t)MR_MIN((uint64_t)pull->rows, it->rows.rows);
    MR_TRY(mr_gather_take(&it->rows, rows, ret, err));
    it->passed += mr_block_rows(*ret);
    if (it->rows.rows == 0) {
        stand_behind(it);
    }
    return MR_OK;
}

/* The file is opened again when it is pulled: what comes from outside is checked there. */
static int saved_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct saved_iter *it = (struct saved_iter *)head;

    MR_TRY(mr_state_bool(s, &it->ended, err));
    MR_TRY(mr_state_u64(s, &it->offset, err));
    MR_TRY(mr_state_u64(s, &it->first, err));
    MR_TRY(mr_state_u64(s, &it->before, err));
    return mr_state_u64(s, &it->passed, err);
}

static void saved_close(struct mr_op_iter *head)
{
    struct saved_iter *it = (struct saved_iter *)head;

    mr_gather_free(&it->rows);
    mr_chunk_reader_free(&it->reader);
    mr_free(it->path);
}

const struct mr_operator mr_operator_saved = {
    .name = "saved",
    .args = MR_ARGS(MR_ARG("filename", MR_ATTR_BYTES, 0),
                    MR_ARG("spec", MR_ATTR_BYTES, MR_ARG_CONSTANT),
                    MR_OPTIONAL_INT("chain", INT64_MIN, INT64_MAX)),
    .infer = saved_infer,
    .run = MR_RUN(struct saved_iter, .open = saved_open, .pull = saved_pull, .state = saved_state,
                  .close = saved_close, .whole_split = true),
};
