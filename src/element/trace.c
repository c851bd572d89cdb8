/* What is known of rows, apart from the blocks that have it. */
#include "element/trace_internal.h"

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

mr_trace_file *mr_trace_file_ref(mr_trace_file *file)
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

mr_trace *mr_trace_new(uint32_t rows, size_t size)
{
    mr_trace *t = mr_malloc(sizeof *t + rows * size);

    if (t != NULL) {
        *t = (mr_trace){.rows = rows};
        atomic_init(&t->refs, 1);
    }
    return t;
}

mr_trace *mr_trace_new_records(uint32_t rows)
{
    mr_trace *t = mr_trace_new(rows, sizeof *t->records);

    if (t != NULL) {
        t->records = (struct mr_record *)(void *)(t + 1);
    }
    return t;
}

/* A run of records of one file has one reference: its first record's. */
bool mr_record_begins_run(const struct mr_record *records, uint32_t i)
{
    return i == 0 || records[i].file != records[i - 1].file;
}

static void let_go_files(const struct mr_record *records, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (mr_record_begins_run(records, i)) {
            mr_trace_file_unref(records[i].file);
        }
    }
}

void mr_records_free(struct mr_record *records, uint32_t n)
{
    if (records != NULL) {
        let_go_files(records, n);
        mr_free(records);
    }
}

void mr_trace_hold_files(mr_trace *t)
{
    for (uint32_t r = 0; r < t->rows; r++) {
        if (mr_record_begins_run(t->records, r)) {
            (void)mr_trace_file_ref(t->records[r].file);
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
    for (uint32_t i = 0; i < t->nparts; i++) {
        mr_trace_unref(t->parts[i].trace);
    }
    if (t->records != NULL) {
        let_go_files(t->records, t->rows);
    }
    mr_free(t->own);
    mr_trace_unref(t->groups);
    mr_trace_packed_free(t);
    mr_free(t);
}

size_t mr_trace_bytes(const mr_trace *t)
{
    size_t n = 0;

    if (t == NULL) {
        return 0;
    }
    for (uint32_t i = 0; i < t->nparts; i++) {
        n += sizeof t->parts[0] + mr_trace_bytes(t->parts[i].trace);
    }
    n += t->records != NULL ? t->rows * sizeof t->records[0] : 0;
    n += mr_trace_packed_bytes(t) + mr_trace_bytes(t->groups);
    return sizeof *t + n + (t->offsets != NULL ? t->rows * sizeof t->offsets[0] : 0);
}

void mr_trace_discharge(mr_trace *t)
{
    if (t == NULL || atomic_load(&t->discharged)) {
        return;
    }
    for (uint32_t i = 0; i < t->nparts; i++) {
        mr_trace_discharge(t->parts[i].trace);
    }
    mr_trace_discharge(t->groups);
    mr_trace_packed_discharge(t);
    atomic_store(&t->discharged, true);
}

void mr_record_join(struct mr_record *to, const struct mr_record *r)
{
    if (to->file == NULL) {
        *to = *r;
    } else if (r->file != NULL) {
        to->scattered |=
            r->scattered || r->file != to->file || r->number != to->number + to->more + 1;
        to->more += r->more + 1;
    }
}

/* A file may be read more than once. */
static bool is_same(const struct mr_record *a, const struct mr_record *b)
{
    return a->file != NULL && b->file != NULL && a->number == b->number && a->more == b->more &&
           (a->file == b->file || strcmp(a->file->path, b->file->path) == 0);
}

/* Of the parts of @t, which is joined, the one that has row *@at, which becomes the row of its
 * trace. */
static const struct mr_trace_part *part_of_joined(const mr_trace *t, uint32_t *at)
{
    uint32_t low = 0;
    uint32_t high = t->nparts - 1;

    while (
        low <
        high) { /* There may be a part for every other row, and somebody who asks for all rows. */
        uint32_t middle = low + (high - low) / 2;

        if (*at < t->parts[middle].end) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    *at = t->parts[low].first + (*at - (low > 0 ? t->parts[low - 1].end : 0));
    return &t->parts[low];
}

static struct mr_record packed_at(mr_trace *t, uint32_t at, struct mr_record_cursor *c)
{
    struct mr_record_cursor nowhere = {0};

    if (c == NULL) {
        return mr_trace_packed_next(t, at, &nowhere);
    }
    if (c->trace != t) {
        mr_record_cursor_clear(c);
        c->trace = mr_trace_ref(t); /* another one at its address would be taken for it */
    }
    return mr_trace_packed_next(t, at, c);
}

/* @c may be NULL. */
static struct mr_record record_at(mr_trace *t, uint32_t at, struct mr_record_cursor *c)
{
    struct mr_record all = {0};

    while (t != NULL && t->joined) {
        t = part_of_joined(t, &at)->trace;
    }
    if (t == NULL) {
        return all;
    }
    for (uint32_t k = 0; t->groups != NULL && k < t->per; k++) {
        struct mr_record part = record_at(t->groups, t->groups_first + at * t->per + k, c);

        mr_record_join(&all, &part);
    }
    if (t->groups != NULL) {
        return all;
    }
    if (t->packed != NULL) {
        return packed_at(t, at, c);
    }
    if (t->records != NULL) {
        return t->alike ? t->records[0] : at < t->rows ? t->records[at] : (struct mr_record){0};
    }
    if (t->offsets != NULL) {
        return (struct mr_record){
            .file = t->first.file, .number = t->first.number + at, .offset = t->offsets[at]};
    }
    for (uint32_t i = 0; i < t->nparts; i++) {
        struct mr_record one = record_at(t->parts[i].trace, t->parts[i].first + at, NULL);

        if (!is_same(&all, &one)) {
            mr_record_join(&all, &one);
        }
    }
    return all;
}

bool mr_block_traced(const mr_block *block)
{
    return block->trace != NULL;
}

struct mr_record mr_block_record(const mr_block *block, uint32_t row)
{
    return record_at(block->trace, block->trace_first + row, NULL);
}

struct mr_record mr_block_record_next(const mr_block *block, uint32_t row,
                                      struct mr_record_cursor *c)
{
    return record_at(block->trace, block->trace_first + row, c);
}

void mr_record_cursor_clear(struct mr_record_cursor *c)
{
    mr_trace_unref(c->trace);
    *c = (struct mr_record_cursor){0};
}

void mr_record_add(struct mr_record *to, const mr_block *block)
{
    for (uint32_t r = 0; block->trace != NULL && r < block->rows; r++) {
        struct mr_record more = mr_block_record(block, r);

        if (to->file == NULL) {
            (void)mr_trace_file_ref(more.file);
        }
        mr_record_join(to, &more);
    }
}

void mr_record_clear(struct mr_record *record)
{
    mr_trace_file_unref(record->file);
    *record = (struct mr_record){0};
}
