/* Which records the rows of a block come from: what makes blocks says so here. */
#include "element/trace_internal.h"

/* @t, which may be NULL, is of @block's rows from the first on: a slice of another block had its
 * rows further on. */
static void set_trace(mr_block *block, mr_trace *t)
{
    block->trace = t;
    block->trace_first = 0;
}

void mr_block_trace(mr_block *block, mr_trace_file *file, uint64_t record, const uint64_t *offsets)
{
    mr_trace *t = file != NULL ? mr_trace_new(block->rows, sizeof *offsets) : NULL;

    MR_ASSERT(block->trace == NULL);
    if (t != NULL) {
        t->offsets = (uint64_t *)(void *)(t + 1);
        memcpy(t->offsets, offsets, block->rows * sizeof *offsets);
        t->first = (struct mr_record){
            .file = mr_trace_file_ref(file), .number = record, .offset = offsets[0]};
    }
    set_trace(block, t);
}

void mr_block_trace_as(mr_block *to, const mr_block *from)
{
    MR_ASSERT(to->rows <= from->rows);
    mr_trace_unref(to->trace);
    to->trace = mr_trace_ref(from->trace);
    to->trace_first = from->trace_first;
}

/* What takes few bytes a row is handed on by reference, and looked up when somebody asks: mostly
 * nobody does, and rows of caches and of workers come fast. */
static bool is_light(const mr_trace *t)
{
    return t->packed != NULL || t->groups != NULL || t->joined;
}

static mr_trace *groups_of(const mr_block *from, uint32_t rows, uint32_t per)
{
    mr_trace *t = mr_trace_new(rows, 0);

    if (t != NULL) {
        t->groups = mr_trace_ref(from->trace);
        t->groups_first = from->trace_first;
        t->per = per;
    }
    return t;
}

static struct mr_record record_of_group(const mr_block *from, uint32_t first, uint32_t per)
{
    const mr_trace *t = from->trace;
    struct mr_record all = {0};

    if (t->offsets != NULL) { /* one behind the other */
        all = mr_block_record(from, first);
        all.more = per - 1;
        return all;
    }
    for (uint32_t k = 0; k < per; k++) {
        struct mr_record part = mr_block_record(from, first + k);

        mr_record_join(&all, &part);
    }
    return all;
}

void mr_block_trace_groups(mr_block *to, const mr_block *from, uint32_t per)
{
    mr_trace *t = NULL;

    if (from->trace != NULL && is_light(from->trace)) {
        t = groups_of(from, to->rows, per);
    } else if (from->trace != NULL) {
        t = mr_trace_new_records(to->rows);
        for (uint32_t r = 0; t != NULL && r < to->rows; r++) {
            t->records[r] = record_of_group(from, r * per, per);
        }
        if (t != NULL) {
            mr_trace_hold_files(t);
        }
    }
    set_trace(to, t);
}

void mr_block_trace_rows(mr_block *to, const struct mr_record *records)
{
    mr_trace *t = NULL;

    for (uint32_t r = 0; r < to->rows && t == NULL; r++) {
        t = records[r].file != NULL ? mr_trace_new_records(to->rows) : NULL;
    }
    if (t != NULL) {
        memcpy(t->records, records, to->rows * sizeof *records);
        mr_trace_hold_files(t);
    }
    set_trace(to, t);
}

void mr_block_trace_give(mr_block *to, struct mr_record *records, uint32_t n)
{
    mr_trace *t = mr_trace_new(n, 0);

    MR_ASSERT(to->trace == NULL && n <= to->rows);
    if (t == NULL) {
        mr_records_free(records, n);
        return;
    }
    t->records = records;
    t->own = records;
    set_trace(to, t);
}

void mr_record_of(const mr_block *block, uint32_t row, struct mr_record *ret)
{
    *ret = mr_block_record(block, row);
    (void)mr_trace_file_ref(ret->file);
}

int mr_block_trace_alike(mr_block **block, const struct mr_record *record, mr_error *err)
{
    mr_block *own = NULL;

    if (record->file == NULL || (*block)->trace != NULL) {
        return MR_OK;
    }
    MR_TRY(mr_block_share(*block, 0, (*block)->rows, &own, err));
    own->trace = mr_trace_new_records(1);
    if (own->trace != NULL) {
        own->trace->records[0] = *record;
        own->trace->alike = true;
        mr_trace_hold_files(own->trace);
    }
    mr_block_unref(*block);
    *block = own;
    return MR_OK;
}

void mr_trace_gather(mr_block *to, const mr_block *from, const uint32_t *rows)
{
    mr_trace *t = from->trace != NULL ? mr_trace_new_records(to->rows) : NULL;

    for (uint32_t r = 0; t != NULL && r < to->rows; r++) {
        t->records[r] = mr_block_record(from, rows[r]);
    }
    if (t != NULL) {
        mr_trace_hold_files(t);
    }
    set_trace(to, t);
}

static mr_trace *joined(const mr_block *const *blocks, size_t n, uint32_t rows)
{
    mr_trace *t = mr_trace_new((uint32_t)n, sizeof(struct mr_trace_part));
    uint32_t end = 0;

    if (t == NULL) {
        return NULL;
    }
    t->rows = rows;
    t->parts = (struct mr_trace_part *)(void *)(t + 1);
    t->nparts = (uint32_t)n;
    t->joined = true;
    for (size_t k = 0; k < n; k++) {
        end += blocks[k]->rows;
        t->parts[k] = (struct mr_trace_part){
            .trace = mr_trace_ref(blocks[k]->trace), .first = blocks[k]->trace_first, .end = end};
    }
    return t;
}

void mr_trace_concat(mr_block *to, const mr_block *const *blocks, size_t n)
{
    mr_trace *t = NULL;
    uint32_t at = 0;
    bool known = false;
    bool light = true;

    for (size_t k = 0; k < n; k++) {
        known |= blocks[k]->trace != NULL;
        light &= blocks[k]->trace == NULL || is_light(blocks[k]->trace);
    }
    if (known && light) {
        set_trace(to, joined(blocks, n, to->rows));
        return;
    }
    t = known ? mr_trace_new_records(to->rows) : NULL;
    for (size_t k = 0; t != NULL && k < n; k++) {
        for (uint32_t r = 0; r < blocks[k]->rows; r++) {
            t->records[at++] = mr_block_record(blocks[k], r);
        }
    }
    if (t != NULL) {
        mr_trace_hold_files(t);
    }
    set_trace(to, t);
}

void mr_trace_zip(mr_block *to, const mr_block *const *blocks, size_t n)
{
    const mr_block *one = NULL;
    uint32_t known = 0;

    for (size_t k = 0; k < n; k++) {
        if (blocks[k]->trace != NULL) {
            one = blocks[k];
            known++;
        }
    }
    if (known <= 1) {
        if (one != NULL) {
            mr_block_trace_as(to, one);
        }
        return;
    }
    mr_trace *t = mr_trace_new(known, sizeof *t->parts);
    if (t != NULL) {
        t->rows = to->rows;
        t->parts = (struct mr_trace_part *)(void *)(t + 1);
    }
    for (size_t k = 0; t != NULL && k < n; k++) {
        if (blocks[k]->trace != NULL) {
            t->parts[t->nparts++] = (struct mr_trace_part){.trace = mr_trace_ref(blocks[k]->trace),
                                                           .first = blocks[k]->trace_first};
        }
    }
    set_trace(to, t);
}

/* Of a path in a text: the name of a file among many, at least. */
#define PATH_BYTES_MIN 40u
#define PATH_BYTES_MAX 300u

const char *mr_record_text(const struct mr_record *record, size_t room, char text[MR_TRACE_TEXT])
{
    struct mr_record r = *record;
    char path[PATH_BYTES_MAX + 1];
    char numbers[128];
    char others[32] = "";

    text[0] = '\0';
    if (r.file == NULL) {
        return text;
    }
    (void)snprintf(numbers, sizeof numbers, "record %" PRIu64, r.number);
    if (r.more > 0 && !r.scattered) {
        (void)snprintf(numbers, sizeof numbers, "records %" PRIu64 " to %" PRIu64, r.number,
                       r.number + r.more);
    } else if (r.more > 0) {
        (void)snprintf(others, sizeof others, ", and %" PRIu32 " more", r.more);
    }
    int rest = snprintf(text, MR_TRACE_TEXT, "file '', %s, offset %" PRIu64 "%s%s", numbers,
                        r.offset, r.file->uncompressed ? " (uncompressed)" : "", others);
    size_t most = room > (size_t)rest ? room - (size_t)rest : 0;

    most = MR_MIN(MR_MAX(most, PATH_BYTES_MIN), PATH_BYTES_MAX);
    (void)snprintf(text, MR_TRACE_TEXT, "file '%s', %s, offset %" PRIu64 "%s%s",
                   mr_cut_front(r.file->path, path, most + 1), numbers, r.offset,
                   r.file->uncompressed ? " (uncompressed)" : "", others);
    return text;
}
