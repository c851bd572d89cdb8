/* tfrecord, text_line, csv_record and fixed_length_record: the records of one file, as strings. The
 * file is opened by the first pull, so that opening a pipeline does no I/O. An error of the file is
 * given once; then it has ended, and how many records it would have had, nobody knows. Where it is
 * the machine that failed, the next pull tries again. A record that is too large for the memory
 * budget is given up and passed over, but not before it was tried alone. */
#include "base/spare.h"
#include "element/trace.h"
#include "engine/ops/ops.h"
#include "engine/record_file.h"

#define BUFFER_DEFAULT (256u << 10)
#define BUFFER_MIN (4u << 10)
#define BUFFER_MAX (16u << 20)
/* Of smaller blocks the records are copied. */
#define HANDED_OVER_MIN (16u << 10)

struct records_iter {
    struct mr_op_iter head;
    char *path;
    enum mr_file_compression compression;
    size_t buffer_bytes;
    mr_record_next *next; /* the format */
    struct mr_fixed_format fixed;
    struct mr_record_file *file;
    struct mr_buf data;
    mr_trace_file *trace;
    uint64_t *offsets; /* of each record in `data`, and where they end */
    uint64_t *places;  /* of each record in the file */
    size_t offsets_cap;
    size_t usual;  /* bytes of the records of a block, as it was with the last one */
    uint32_t most; /* records in a block, as memory allows; 0: any number */
    /* of the record at hand: where to go on in a file that is not open; 0: at its start */
    uint64_t offset;
    uint64_t record; /* its number */
    /* nothing but the one record that was read is in `data`, and no memory of those before it */
    bool alone;
    bool ended;
};

static int records_infer(struct mr_infer *in, mr_error *err)
{
    const struct mr_attr *compression = mr_infer_attr(in, "compression_type");
    struct mr_leaf_spec leaf = {.dtype = MR_STRING};
    enum mr_file_compression parsed;
    MR_AUTO(mr_free) char *path = NULL;

    MR_TRY(mr_infer_string(in, "filename", &path, err));
    if (compression != NULL && compression->kind == MR_ATTR_BYTES) {
        MR_TRY_WRAP(mr_file_compression_parse(compression->bytes, compression->size, &parsed, err),
                    err, "argument 'compression_type'");
    }
    return mr_spec_new(&leaf, 1, NULL, &in->spec, err);
}

static int records_open(struct mr_op_iter *head, mr_record_next *next, mr_error *err)
{
    struct records_iter *it = (struct records_iter *)head;
    const void *text = NULL;
    size_t size = 0;
    int64_t buffer = 0;

    it->next = next;
    it->data.spare = true;
    MR_TRY(mr_op_bytes(head, "filename", &text, &size, err));
    if (memchr(text, 0, size) != NULL) {
        return mr_op_fail_at_open(
            head, mr_error_set(err, MR_EINVAL, "argument 'filename' has a zero byte in it"), err);
    }
    it->path = mr_strndup(text, size);
    MR_CHECK_ALLOC(it->path, err);
    MR_TRY(mr_op_bytes(head, "compression_type", &text, &size, err));
    if (text != NULL && mr_file_compression_parse(text, size, &it->compression, err) != MR_OK) {
        return mr_op_fail_at_open(head, MR_EINVAL, err);
    }
    MR_TRY(mr_op_int(head, "buffer_size", 0, &buffer, err));
    it->buffer_bytes = buffer <= 0           ? BUFFER_DEFAULT
                       : buffer < BUFFER_MIN ? BUFFER_MIN
                       : buffer > BUFFER_MAX ? BUFFER_MAX
                                             : (size_t)buffer;
    return MR_OK;
}

static int tfrecord_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    return records_open(head, mr_tfrecord_next, err);
}

static int text_line_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    return records_open(head, mr_text_line_next, err);
}

static int csv_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    return records_open(head, mr_csv_record_next, err);
}

static int fixed_open(struct mr_op_iter *head, const struct mr_op_ctx *ctx, mr_error *err)
{
    struct records_iter *it = (struct records_iter *)head;
    static const char *const names[3] = {"header_bytes", "record_bytes", "footer_bytes"};
    uint64_t *const numbers[3] = {&it->fixed.header_bytes, &it->fixed.record_bytes,
                                  &it->fixed.footer_bytes};

    MR_TRY(records_open(head, mr_fixed_record_next, err));
    for (int i = 0; i < 3; i++) {
        int64_t v = 0;

        MR_TRY(mr_op_int(head, names[i], 0, &v, err));
        *numbers[i] = (uint64_t)v;
    }
    return MR_OK;
}

static int open_file(struct records_iter *it, mr_error *err)
{
    struct mr_record_file *file = NULL;

    if (it->file != NULL) {
        return MR_OK;
    }
    int rc = mr_record_file_open(it->path, it->compression, it->buffer_bytes, &file, err);
    if (rc == MR_OK) {
        file->fixed = it->fixed;
        rc = it->offset > 0 ? mr_record_file_seek(file, it->offset, it->record, err) : MR_OK;
    }
    if (rc != MR_OK) {
        mr_record_file_close(file);
        return rc;
    }
    it->file = file;
    if (it->trace == NULL) {
        it->trace = mr_trace_file_new(
            it->path, it->compression != MR_FILE_PLAIN ? MR_PLACES_UNCOMPRESSED : MR_PLACES_BYTES);
    }
    return MR_OK;
}

/* The next pull opens the file again, and tries the record that was at hand. */
static void put_back(struct records_iter *it)
{
    it->ended = false;
    mr_record_file_close(it->file);
    it->file = NULL;
}

/* Room for what is known of record number @rows of the block. */
static int reserve(struct records_iter *it, uint32_t rows, mr_error *err)
{
    if (rows + 1 >= it->offsets_cap) {
        size_t cap = it->offsets_cap * 2 + 64;
        uint64_t *offsets = mr_reallocarray(it->offsets, cap, sizeof *offsets);

        it->offsets = offsets != NULL ? offsets : it->offsets;
        uint64_t *places = mr_reallocarray(it->places, cap, sizeof *places);
        it->places = places != NULL ? places : it->places;
        if (offsets == NULL || places == NULL) {
            return mr_error_nomem(err);
        }
        it->offsets_cap = cap;
    }
    it->offsets[0] = 0;
    return MR_OK;
}

/* The next record. One whose data is damaged has a number, too: those of a block follow one
 * another, or it ends there. */
static int read_one(struct records_iter *it, uint32_t rows, size_t most, mr_error *err)
{
    int rc = reserve(it, rows, err);

    it->record = it->file->record;
    it->offset = it->fixed.record_bytes > 0
                     ? it->fixed.header_bytes + it->record * it->fixed.record_bytes
                     : mr_record_file_position(it->file);
    if (rc != MR_OK) {
        return rc;
    }
    it->places[rows] = it->offset;
    rc = it->next(it->file, most, &it->data, err);
    it->offsets[rows + 1] = it->data.len;
    return rc;
}

/* Whether the block of all that was read may have the memory that it was read into. */
static bool is_worth_handing_over(const struct records_iter *it)
{
    return it->data.len >= HANDED_OVER_MIN && it->data.cap - it->data.len <= it->data.len / 4;
}

/* Memory that is too large for what is read into it, so that the next block could not have it. */
static void give_back_excess(struct records_iter *it)
{
    if (it->data.len >= HANDED_OVER_MIN && it->most == 0) {
        it->usual = it->data.len + it->data.len / 16;
        mr_buf_free(&it->data);
    }
}

/* The memory that was read into becomes that of the block, for @rows records with these offsets. */
static int hand_over(struct records_iter *it, uint32_t rows, mr_block **ret, mr_error *err)
{
    MR_AUTO(mr_buffer_unref) mr_buffer *offsets = NULL;
    MR_AUTO(mr_buffer_unref) mr_buffer *data = NULL;
    size_t bytes = (rows + (size_t)1) * sizeof it->offsets[0];

    it->usual = it->data.len + it->data.len / 16;
    MR_TRY(mr_buffer_new(bytes, &offsets, err));
    memcpy(mr_buffer_data(offsets), it->offsets, bytes);
    MR_TRY(mr_buffer_wrap(it->data.data, it->data.cap, mr_spare_free, it->data.data, &data, err));
    mr_buffer_adopt_charge(data, it->data.memory);
    it->data = (struct mr_buf){.spare = true, .memory = it->data.memory};
    struct mr_owned_column column = {
        .c = {.kind = MR_COLUMN_FIXED,
              .dtype = MR_STRING,
              .offsets = mr_buffer_data(offsets),
              .data = mr_buffer_data(data)},
        .owner = {data, offsets},
    };
    return mr_block_from_columns(rows, &column, 1, ret, err);
}

/* Of the records from number @first of the file on. */
static int make_block(struct records_iter *it, uint64_t first, uint32_t rows, mr_block **ret,
                      mr_error *err)
{
    struct mr_column column = {
        .kind = MR_COLUMN_FIXED,
        .dtype = MR_STRING,
        .offsets = it->offsets,
        .data = it->data.len > 0 ? (const void *)it->data.data : "",
    };

    if (it->offsets[rows] == it->data.len && is_worth_handing_over(it)) {
        MR_TRY(hand_over(it, rows, ret, err));
    } else {
        MR_TRY(mr_block_new(rows, &column, 1, ret, err));
        give_back_excess(it);
    }
    mr_block_trace(*ret, it->trace, first, it->places);
    return MR_OK;
}

/* A block of the records from number @first of the file on; of fewer, @rows, where all do not fit
 * into memory: then those behind are read again. */
static int make_block_that_fits(struct records_iter *it, uint64_t first, uint32_t *rows,
                                mr_block **ret, mr_error *err)
{
    uint32_t all = *rows;
    int rc = make_block(it, first, all, ret, err);

    while (rc == MR_EEXHAUSTED && *rows > 1 && it->data.data != NULL) {
        *rows /= 2;
        rc = make_block(it, first, *rows, ret, err);
    }
    if (*rows < all) {
        it->offset = it->places[*rows];
        it->record = first + *rows;
        it->most = *rows;
        put_back(it);
    }
    return rc;
}

/* The record at hand is one that does not fit, and was tried alone: it has failed, and the next
 * pull goes on behind it. Where the file is damaged in it, nothing behind it can be found: the file
 * has ended. */
static int pass_over(struct records_iter *it, int rc, mr_error *err)
{
    mr_error behind; /* where it is the machine's, the next pull meets it again */

    put_back(it);
    int passed = open_file(it, &behind);
    if (passed == MR_OK) {
        passed = it->next(it->file, SIZE_MAX, NULL, &behind);
    }
    if (passed == MR_END) {
        return MR_END;
    }
    if (passed == MR_OK) {
        mr_op_mark_passed(rc, err);
    } else {
        put_back(it);
        it->ended = mr_op_element_failed(passed, &behind);
    }
    if (it->ended) {
        mr_op_mark_passed(rc, err);
        mr_op_mark_uncounted(rc, err);
    }
    return mr_op_fail(&it->head, it->head.delivered, rc, err);
}

/* Record number @rows of the block at hand. MR_OK: what was read before it is given first, or,
 * where that is nothing, it is read again. */
static int read_failed(struct records_iter *it, uint32_t rows, int rc, mr_error *err)
{
    if (it->file->too_large && rows == 0 && it->usual > 0) {
        it->usual = 0; /* the room that was made for as many as usual was in its way */
        mr_buf_free(&it->data);
        put_back(it);
        return MR_OK;
    }
    if (it->file->too_large && rows == 0) {
        return pass_over(it, rc, err);
    }
    if (it->file->too_large) { /* it is tried alone */
        put_back(it);
        return MR_OK;
    }
    (void)mr_op_fail(&it->head, it->head.delivered + rows, rc, err);
    if (!mr_op_element_failed(rc, err)) {
        put_back(it);
    } else if (it->ended) {
        mr_op_mark_uncounted(rc, err);
    }
    return rc;
}

/* Records into `data`, as many as are asked for and fit: how many. An error is of the one behind
 * them. */
static int read_some(struct records_iter *it, const struct mr_pull *pull, uint32_t *rows,
                     mr_error *err)
{
    size_t budget = it->head.env->budget_bytes;
    size_t bytes_max = MR_MIN(budget, MR_ELEMENT_BYTES_MAX);
    uint32_t rows_max = it->most > 0 && it->most < pull->rows ? it->most : pull->rows;
    int rc = MR_OK;

    it->data.memory = it->head.env->memory;
    mr_buf_clear(&it->data);
    if (it->most == 0 && it->usual > 0) {
        (void)mr_buf_reserve(&it->data, MR_MIN(it->usual, pull->bytes + pull->bytes / 8));
        mr_buf_clear(&it->data); /* that there is no memory is found out by reading */
    }
    it->alone = it->data.cap == 0 && rows_max == 1; /* one more that is looked for takes memory */
    *rows = 0;
    while (rc == MR_OK && *rows < rows_max && it->data.len < pull->bytes &&
           !mr_env_cancelled(it->head.env)) {
        rc = read_one(it, *rows, bytes_max, err);
        *rows += rc == MR_OK;
    }
    it->ended = it->file->ended || rc == MR_END;
    return rc < 0 ? read_failed(it, *rows, rc, err) : rc;
}

/* What was read as a block. A single record that does not fit twice, as it was read and as an
 * element, has failed; but beside others that were read with it, it was not tried: MR_OK with *@ret
 * = NULL, and it is to be read alone. */
static int give(struct records_iter *it, uint64_t first, uint32_t *rows, mr_block **ret,
                mr_error *err)
{
    int rc = make_block_that_fits(it, first, rows, ret, err);

    if (rc == MR_OK) {
        bool easy =
            *rows == it->most && !mr_memory_is_short(it->head.env->memory, MR_MEMORY_AHEAD, 0);

        it->most = easy && *rows < MR_BLOCK_ROWS_MAX ? 2 * *rows : it->most;
        return rc;
    }
    it->offset = it->places[0];
    it->record = first;
    bool refused = rc == MR_EEXHAUSTED && (err->traits & MR_MEMORY_UNNAMED) != 0;
    if (refused && it->alone) {
        mr_error_wrap(err, "file '%s', offset %" PRIu64 ", record %" PRIu64,
                      MR_SHOWN_PATH_PART(it->path), it->offset, first);
        return pass_over(it, rc, err);
    }
    put_back(it);
    if (!refused) {
        return rc;
    }
    it->most = 1;
    mr_buf_free(&it->data);
    return MR_OK;
}

/* MR_OK with *@ret = NULL: to be called again. */
static int read_block(struct records_iter *it, const struct mr_pull *pull, mr_block **ret,
                      mr_error *err)
{
    struct mr_op_iter *head = &it->head;
    uint32_t rows = 0;
    mr_error failure;
    int rc = open_file(it, err);

    if (rc != MR_OK) {
        it->ended = mr_op_element_failed(rc, err);
        mr_op_mark_uncounted(rc, err);
        return mr_op_fail(head, head->delivered, rc, err);
    }
    uint64_t first = it->file->record;
    rc = read_some(it, pull, &rows, &failure);
    if (rows > 0) {
        uint32_t fit = rows;
        int made = give(it, first, &fit, ret, err);

        if (*ret != NULL && rc < 0 && fit == rows) { /* else what failed behind them fails again */
            (void)mr_op_defer(head, rc, &failure);
        }
        return made;
    }
    if (rc != MR_OK) {
        return mr_error_pass(err, rc, &failure);
    }
    return mr_env_cancelled(head->env) ? mr_env_canceled_error(err) : MR_OK;
}

static int records_pull(struct mr_op_iter *head, const struct mr_pull *pull, mr_block **ret,
                        mr_error *err)
{
    struct records_iter *it = (struct records_iter *)head;
    int rc = it->ended ? MR_END : MR_OK;

    *ret = NULL;
    while (rc == MR_OK && *ret == NULL) {
        rc = read_block(it, pull, ret, err);
    }
    if (it->data.cap > BUFFER_MAX) {
        mr_buf_free(&it->data); /* one large record must not keep its memory */
    }
    return rc;
}

static int records_state(struct mr_op_iter *head, struct mr_state *s, mr_error *err)
{
    struct records_iter *it = (struct records_iter *)head;

    if (it->file != NULL) {
        it->offset = mr_record_file_position(it->file);
        it->record = it->file->record;
    }
    MR_TRY(mr_state_bool(s, &it->ended, err));
    MR_TRY(mr_state_u64(s, &it->offset, err));
    MR_TRY(mr_state_u64(s, &it->record, err));
    if (!s->restores || it->offset == 0 || it->ended) {
        return MR_OK;
    }
    int rc = open_file(it, err);

    return rc == MR_OK ? MR_OK : mr_op_fail(head, head->delivered, rc, err);
}

static void records_close(struct mr_op_iter *head)
{
    struct records_iter *it = (struct records_iter *)head;

    mr_record_file_close(it->file);
    mr_buf_free(&it->data);
    mr_free(it->offsets);
    mr_free(it->places);
    mr_trace_file_unref(it->trace);
    mr_free(it->path);
}

#define RECORDS_RUN(open_fn)                                                                       \
    MR_RUN(struct records_iter, .open = open_fn, .pull = records_pull, .state = records_state,     \
           .close = records_close, .whole_split = true)

static const struct mr_arg records_args[] = {
    MR_ARG("filename", MR_ATTR_BYTES, 0),
    MR_ARG("compression_type", MR_ATTR_BYTES, MR_ARG_OPTIONAL),
    MR_OPTIONAL_INT("buffer_size", INT64_MIN, INT64_MAX),
    {0},
};

const struct mr_operator mr_operator_tfrecord = {
    .name = "tfrecord",
    .args = records_args,
    .infer = records_infer,
    .run = RECORDS_RUN(tfrecord_open),
};

const struct mr_operator mr_operator_text_line = {
    .name = "text_line",
    .args = records_args,
    .infer = records_infer,
    .run = RECORDS_RUN(text_line_open),
};

const struct mr_operator mr_operator_csv_record = {
    .name = "csv_record",
    .args = records_args,
    .infer = records_infer,
    .run = RECORDS_RUN(csv_open),
};

const struct mr_operator mr_operator_fixed_length_record = {
    .name = "fixed_length_record",
    .args = MR_ARGS(MR_ARG("filename", MR_ATTR_BYTES, 0), MR_INT("record_bytes", 1, INT32_MAX),
                    MR_OPTIONAL_INT("header_bytes", 0, INT64_MAX / 4),
                    MR_OPTIONAL_INT("footer_bytes", 0, INT32_MAX),
                    MR_ARG("compression_type", MR_ATTR_BYTES, MR_ARG_OPTIONAL),
                    MR_OPTIONAL_INT("buffer_size", INT64_MIN, INT64_MAX)),
    .infer = records_infer,
    .run = RECORDS_RUN(fixed_open),
};
