#include "element/trace.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "element/trace_internal.h"

#include <inttypes.h>
#include <millrace/base.h>
#include <stdio.h>
#include <string.h>

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

/* Records to be set, then held. */
static mr_trace *records_new(uint32_t rows)
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

static void hold_files(mr_trace *t)
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

/* @to is of what comes of both. */
static void add_record(struct mr_record *to, const struct mr_record *r)
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

        add_record(&all, &part);
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
            add_record(&all, &one);
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
        add_record(to, &more);
    }
}

void mr_record_clear(struct mr_record *record)
{
    mr_trace_file_unref(record->file);
    *record = (struct mr_record){0};
}

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

/*
 * What takes few bytes a row is handed on by reference, and looked up when somebody asks: mostly
 * nobody does, and rows of caches and of workers come fast.
 */
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

        add_record(&all, &part);
    }
    return all;
}

void mr_block_trace_groups(mr_block *to, const mr_block *from, uint32_t per)
{
    mr_trace *t = NULL;

    if (from->trace != NULL && is_light(from->trace)) {
        t = groups_of(from, to->rows, per);
    } else if (from->trace != NULL) {
        t = records_new(to->rows);
        for (uint32_t r = 0; t != NULL && r < to->rows; r++) {
            t->records[r] = record_of_group(from, r * per, per);
        }
        if (t != NULL) {
            hold_files(t);
        }
    }
    set_trace(to, t);
}

void mr_block_trace_rows(mr_block *to, const struct mr_record *records)
{
    mr_trace *t = NULL;

    for (uint32_t r = 0; r < to->rows && t == NULL; r++) {
        t = records[r].file != NULL ? records_new(to->rows) : NULL;
    }
    if (t != NULL) {
        memcpy(t->records, records, to->rows * sizeof *records);
        hold_files(t);
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
    int rc = mr_block_share(*block, 0, (*block)->rows, &own, err);
    if (rc != MR_OK) {
        return rc;
    }
    own->trace = records_new(1);
    if (own->trace != NULL) {
        own->trace->records[0] = *record;
        own->trace->alike = true;
        hold_files(own->trace);
    }
    mr_block_unref(*block);
    *block = own;
    return MR_OK;
}

void mr_trace_gather(mr_block *to, const mr_block *from, const uint32_t *rows)
{
    mr_trace *t = from->trace != NULL ? records_new(to->rows) : NULL;

    for (uint32_t r = 0; t != NULL && r < to->rows; r++) {
        t->records[r] = mr_block_record(from, rows[r]);
    }
    if (t != NULL) {
        hold_files(t);
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
    t = known ? records_new(to->rows) : NULL;
    for (size_t k = 0; t != NULL && k < n; k++) {
        for (uint32_t r = 0; r < blocks[k]->rows; r++) {
            t->records[at++] = mr_block_record(blocks[k], r);
        }
    }
    if (t != NULL) {
        hold_files(t);
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

const char *mr_block_row_text(const mr_block *block, uint32_t row, char text[MR_TRACE_TEXT])
{
    struct mr_record r = mr_block_record(block, row);
    char numbers[64];
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
    (void)snprintf(text, MR_TRACE_TEXT, "file '%.300s', %s, offset %" PRIu64 "%s%s", r.file->path,
                   numbers, r.offset, r.file->uncompressed ? " (uncompressed)" : "", others);
    return text;
}
