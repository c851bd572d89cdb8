#include "element/trace.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "element/internal.h"

#include <inttypes.h>
#include <millrace/dataset.h> /* mr_free */
#include <stdio.h>
#include <string.h>

struct mr_trace_file {
    _Atomic uint32_t refs;
    bool uncompressed;
    char path[];
};

struct record {
    mr_trace_file *file; /* one of the trace's; NULL: not known */
    uint64_t number;
    uint64_t offset;
};

/* Of a block as it was read (offsets), which is small, or of any rows (records). */
struct mr_trace {
    _Atomic uint32_t refs;
    uint32_t rows;
    struct record first; /* offsets: row 0 */
    uint64_t *offsets;   /* or NULL */
    struct record *records;
};

mr_trace_file *mr_trace_file_new(const char *path, bool uncompressed)
{
    size_t size = strlen(path) + 1;
    mr_trace_file *file = mr_malloc(sizeof *file + size);

    if (file != NULL) {
        atomic_init(&file->refs, 1);
        file->uncompressed = uncompressed;
        memcpy(file->path, path, size);
    }
    return file;
}

static mr_trace_file *file_ref(mr_trace_file *file)
{
    if (file != NULL) {
        atomic_fetch_add_explicit(&file->refs, 1, memory_order_relaxed);
    }
    return file;
}

void mr_trace_file_unref(mr_trace_file *file)
{
    if (file != NULL && atomic_fetch_sub_explicit(&file->refs, 1, memory_order_acq_rel) == 1) {
        mr_free(file);
    }
}

/* With room for @size bytes a row behind it. */
static mr_trace *trace_new(uint32_t rows, size_t size)
{
    mr_trace *t = mr_malloc(sizeof *t + rows * size);

    if (t != NULL) {
        *t = (mr_trace){.rows = rows};
        atomic_init(&t->refs, 1);
    }
    return t;
}

/* Records to be set, then held. */
static mr_trace *records_new(uint32_t rows)
{
    mr_trace *t = trace_new(rows, sizeof *t->records);

    if (t != NULL) {
        t->records = (struct record *)(void *)(t + 1);
    }
    return t;
}

/* A run of records of one file has one reference: its first record's. */
static bool begins_run(const mr_trace *t, uint32_t row)
{
    return row == 0 || t->records[row].file != t->records[row - 1].file;
}

static void hold_files(mr_trace *t)
{
    for (uint32_t r = 0; r < t->rows; r++) {
        if (begins_run(t, r)) {
            (void)file_ref(t->records[r].file);
        }
    }
}

mr_trace *mr_trace_ref(mr_trace *t)
{
    if (t != NULL) {
        atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
    }
    return t;
}

void mr_trace_unref(mr_trace *t)
{
    if (t == NULL || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) > 1) {
        return;
    }
    mr_trace_file_unref(t->first.file);
    for (uint32_t r = 0; t->records != NULL && r < t->rows; r++) {
        if (begins_run(t, r)) {
            mr_trace_file_unref(t->records[r].file);
        }
    }
    mr_free(t);
}

size_t mr_trace_bytes(const mr_trace *t)
{
    if (t == NULL) {
        return 0;
    }
    return sizeof *t + t->rows * (t->records != NULL ? sizeof t->records[0] : sizeof t->offsets[0]);
}

static struct record record_of(const mr_block *block, uint32_t row)
{
    const mr_trace *t = block->trace;
    uint32_t at = block->trace_first + row;

    if (t == NULL) {
        return (struct record){0};
    }
    return t->records != NULL ? t->records[at] : (struct record){t->first.file, t->first.number + at, t->offsets[at]};
}

void mr_block_trace(mr_block *block, mr_trace_file *file, uint64_t record, const uint64_t *offsets)
{
    mr_trace *t = file != NULL ? trace_new(block->rows, sizeof *offsets) : NULL;

    MR_ASSERT(block->trace == NULL);
    if (t != NULL) {
        t->offsets = (uint64_t *)(void *)(t + 1);
        memcpy(t->offsets, offsets, block->rows * sizeof *offsets);
        t->first = (struct record){file_ref(file), record, offsets[0]};
    }
    block->trace = t;
}

void mr_block_trace_as(mr_block *to, const mr_block *from)
{
    MR_ASSERT(to->rows <= from->rows);
    mr_trace_unref(to->trace);
    to->trace = mr_trace_ref(from->trace);
    to->trace_first = from->trace_first;
}

void mr_trace_gather(mr_block *to, const mr_block *from, const uint32_t *rows)
{
    mr_trace *t = from->trace != NULL ? records_new(to->rows) : NULL;

    for (uint32_t r = 0; t != NULL && r < to->rows; r++) {
        t->records[r] = record_of(from, rows[r]);
    }
    if (t != NULL) {
        hold_files(t);
    }
    to->trace = t;
}

void mr_trace_concat(mr_block *to, const mr_block *const *blocks, size_t n)
{
    mr_trace *t = NULL;
    uint32_t at = 0;

    for (size_t k = 0; k < n && t == NULL; k++) {
        t = blocks[k]->trace != NULL ? records_new(to->rows) : NULL;
    }
    for (size_t k = 0; t != NULL && k < n; k++) {
        for (uint32_t r = 0; r < blocks[k]->rows; r++) {
            t->records[at++] = record_of(blocks[k], r);
        }
    }
    if (t != NULL) {
        hold_files(t);
    }
    to->trace = t;
}

void mr_trace_zip(mr_block *to, const mr_block *const *blocks, size_t n)
{
    const mr_block *one = NULL;
    size_t known = 0;

    for (size_t k = 0; k < n; k++) {
        if (blocks[k]->trace != NULL) {
            one = blocks[k];
            known++;
        }
    }
    if (known == 1) { /* of several none is the record that a row comes from */
        mr_block_trace_as(to, one);
    }
}

const char *mr_block_row_text(const mr_block *block, uint32_t row, char text[MR_TRACE_TEXT])
{
    struct record r = record_of(block, row);

    text[0] = '\0';
    if (r.file != NULL) {
        (void)snprintf(text, MR_TRACE_TEXT, "file '%.400s', record %" PRIu64 ", offset %" PRIu64 "%s", r.file->path,
                       r.number, r.offset, r.file->uncompressed ? " (uncompressed)" : "");
    }
    return text;
}
