/* What is known of rows, apart from the blocks that have it. */
#include "element/trace_internal.h"

/* What a trace may hold for each row that it knows, and besides. */
#define ROW_BYTES_HELD 96u
#define BYTES_HELD 512u
/* References from trace to trace, which are followed by recursion. */
#define DEPTH_MAX 16u
/* Rows that are looked at for being one behind the other. */
#define RUN_LOOKED_AT 32u

/* ---- files ---- */

mr_trace_file *mr_trace_file_new(const char *path, enum mr_trace_places places)
{
    size_t size = strlen(path) + 1;
    mr_trace_file *file = mr_malloc(sizeof *file + size);

    if (file != NULL) {
        atomic_init(&file->refs, 1);
        file->places = places;
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

/* ---- life ---- */

mr_trace *mr_trace_new(enum mr_trace_form form, uint32_t rows, uint32_t nparts, size_t size)
{
    size_t bytes = sizeof(mr_trace) + nparts * sizeof(struct mr_trace_part) + size;
    mr_trace *t = mr_malloc(bytes);

    if (t != NULL) {
        *t = (mr_trace){.rows = rows, .form = form, .nparts = nparts, .bytes = bytes};
        atomic_init(&t->refs, 1);
        atomic_init(&t->discharged, false);
        t->parts = (struct mr_trace_part *)(void *)(t + 1);
        memset(t->parts, 0, nparts * sizeof *t->parts);
    }
    return t;
}

mr_trace *mr_trace_new_records(uint32_t rows)
{
    mr_trace *t = mr_trace_new(MR_TRACE_RECORDS, rows, 0, rows * sizeof *t->records);

    if (t != NULL) {
        t->records = (struct mr_record *)(void *)(t + 1);
    }
    return t;
}

void mr_trace_set_part(mr_trace *t, uint32_t i, const mr_block *block, bool lent)
{
    mr_trace *of = lent ? block->trace : mr_trace_ref(block->trace);

    t->parts[i] = (struct mr_trace_part){.trace = of, .first = block->trace_first, .lent = lent};
    if (of != NULL && !lent) {
        t->bytes += of->bytes;
        t->depth = MR_MAX(t->depth, of->depth + 1);
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
        if (!t->parts[i].lent) {
            mr_trace_unref(t->parts[i].trace);
        }
    }
    if (t->form == MR_TRACE_RECORDS) {
        let_go_files(t->records, t->rows);
        mr_free(t->own);
    } else if (t->form == MR_TRACE_PACKED) {
        mr_trace_packed_free(t);
    }
    mr_free(t);
}

size_t mr_trace_bytes(const mr_trace *t)
{
    return t != NULL ? t->bytes : 0;
}

void mr_trace_discharge(mr_trace *t)
{
    if (t == NULL || atomic_load(&t->discharged)) {
        return;
    }
    for (uint32_t i = 0; i < t->nparts; i++) {
        mr_trace_discharge(t->parts[i].trace);
    }
    if (t->form == MR_TRACE_PACKED) {
        mr_trace_packed_discharge(t);
    }
    atomic_store(&t->discharged, true);
}

mr_trace *mr_trace_settle(mr_trace *t)
{
    size_t rows = (size_t)t->rows * (t->form == MR_TRACE_GROUPS ? t->per : 1);

    if (t->depth <= DEPTH_MAX && t->bytes <= BYTES_HELD + rows * ROW_BYTES_HELD) {
        return t;
    }
    mr_trace *flat = mr_trace_flat(t, 0, t->rows);
    mr_trace_unref(t);
    return flat;
}

/* ---- records ---- */

/* It may be read more than once. */
static bool same_file(const mr_trace_file *a, const mr_trace_file *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a->path, b->path) == 0);
}

void mr_record_join(struct mr_record *to, const struct mr_record *r)
{
    if (r->file == NULL) {
        return;
    }
    if (to->file == NULL) {
        *to = *r;
        return;
    }
    uint64_t ahead = r->number - to->number; /* some rows come from one record */
    if (!to->scattered && !r->scattered && ahead <= (uint64_t)to->more + 1 &&
        ahead + r->more <= UINT32_MAX && same_file(to->file, r->file)) {
        to->more = MR_MAX(to->more, (uint32_t)ahead + r->more);
        return;
    }
    to->scattered = true;
    to->more += r->more + 1;
}

/* Of the parts of @t, which is joined, the one that has row *@at, which becomes the row of its
 * trace; *@n are the rows from there on, which become those of the part. */
static const struct mr_trace_part *part_of_joined(const mr_trace *t, uint32_t *at, uint32_t *n)
{
    uint32_t low = 0;
    uint32_t high = t->nparts - 1;

    while (low < high) { /* There may be a part for every other row. */
        uint32_t middle = low + (high - low) / 2;

        if (*at < t->parts[middle].end) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    const struct mr_trace_part *part = &t->parts[low];
    *n = MR_MIN(*n, part->end - *at);
    *at = part->first + (*at - (low > 0 ? t->parts[low - 1].end : 0));
    return part;
}

/* The same of the one that @t was picked of. */
static const struct mr_trace_part *part_of_picked(const mr_trace *t, uint32_t *at, uint32_t *n)
{
    const uint32_t *picked = t->picked + *at;
    uint32_t run = 1;
    uint32_t most = MR_MIN(*n, RUN_LOOKED_AT);

    while (run < most && picked[run] == picked[0] + run) {
        run++;
    }
    *n = run;
    *at = t->parts[0].first + picked[0];
    return &t->parts[0];
}

const mr_trace *mr_trace_find(const mr_trace *t, uint32_t *at, uint32_t *n)
{
    for (;;) {
        if (t != NULL && t->form == MR_TRACE_JOINED) {
            t = part_of_joined(t, at, n)->trace;
        } else if (t != NULL && t->form == MR_TRACE_PICKED) {
            t = part_of_picked(t, at, n)->trace;
        } else {
            return t;
        }
    }
}

/* What was made of rows [@first, @first + @n) of @t. */
static struct mr_record record_of_rows(const mr_trace *t, uint32_t first, uint32_t n,
                                       struct mr_packed_cursor *c)
{
    struct mr_record all = {0};

    for (uint32_t run; n > 0; n -= run, first += run) {
        uint32_t at = first;
        run = n;
        const mr_trace *part = mr_trace_find(t, &at, &run);
        uint32_t looked_up = part == NULL                                                  ? 0
                             : part->form == MR_TRACE_FILE || part->form == MR_TRACE_ALIKE ? 1
                                                                                           : run;

        for (uint32_t k = 0; k < looked_up; k++) {
            struct mr_record one = mr_trace_at(part, at + k, c);

            one.more += part->form == MR_TRACE_FILE ? run - 1 : 0;
            mr_record_join(&all, &one);
        }
    }
    return all;
}

static struct mr_record record_of_zipped(const mr_trace *t, uint32_t at)
{
    struct mr_record all = {0};

    for (uint32_t i = 0; i < t->nparts; i++) {
        struct mr_packed_cursor nowhere = {0};
        struct mr_record one =
            record_of_rows(t->parts[i].trace, t->parts[i].first + at, 1, &nowhere);

        mr_record_join(&all, &one);
    }
    return all;
}

static uint64_t offset_at(const mr_trace *t, uint32_t row)
{
    if (t->offsets == NULL) {
        return 0;
    }
    return t->steps != NULL ? t->offsets[row / MR_STEPS_PER_PLACE] + t->steps[row]
                            : t->offsets[row];
}

struct mr_record mr_trace_at(const mr_trace *t, uint32_t row, struct mr_packed_cursor *c)
{
    switch (t->form) {
    case MR_TRACE_FILE:
        return (struct mr_record){
            .file = t->first.file, .number = t->first.number + row, .offset = offset_at(t, row)};
    case MR_TRACE_RECORDS: return row < t->rows ? t->records[row] : (struct mr_record){0};
    case MR_TRACE_ALIKE: return t->first;
    case MR_TRACE_PACKED:
        if (c->trace != t) {
            *c = (struct mr_packed_cursor){.trace = t};
        }
        return mr_trace_packed_next(t, row, c);
    case MR_TRACE_GROUPS:
        return record_of_rows(t->parts[0].trace, t->parts[0].first + row * t->per, t->per, c);
    case MR_TRACE_ZIPPED: return record_of_zipped(t, row);
    case MR_TRACE_JOINED:
    case MR_TRACE_PICKED: break;
    }
    MR_ASSERT(false); /* mr_trace_find() goes through them */
    return (struct mr_record){0};
}

mr_trace *mr_trace_flat(const mr_trace *t, uint32_t first, uint32_t rows)
{
    mr_trace *flat = mr_trace_new_records(rows);
    struct mr_packed_cursor c = {0};
    uint32_t n;

    for (uint32_t r = 0; flat != NULL && r < rows; r += n) {
        uint32_t at = first + r;
        n = rows - r;
        const mr_trace *part = mr_trace_find(t, &at, &n);

        for (uint32_t k = 0; k < n; k++) {
            flat->records[r + k] =
                part != NULL ? mr_trace_at(part, at + k, &c) : (struct mr_record){0};
        }
    }
    if (flat != NULL) {
        mr_trace_hold_files(flat);
    }
    return flat;
}

bool mr_block_traced(const mr_block *block)
{
    return block->trace != NULL;
}

struct mr_record mr_block_record(const mr_block *block, uint32_t row)
{
    struct mr_packed_cursor nowhere = {0};

    return record_of_rows(block->trace, block->trace_first + row, 1, &nowhere);
}

struct mr_record mr_block_record_next(const mr_block *block, uint32_t row,
                                      struct mr_record_cursor *c)
{
    uint32_t at = block->trace_first + row;

    if (c->trace != block->trace) {
        mr_record_cursor_clear(c);
        c->trace =
            mr_trace_ref(block->trace); /* another one at its address would be taken for it */
    }
    if (at < c->row || at - c->row >= c->rows) {
        c->row = at;
        c->at = at;
        c->rows = block->rows - row;
        c->part = mr_trace_find(c->trace, &c->at, &c->rows);
    }
    return c->part != NULL ? mr_trace_at(c->part, c->at + (at - c->row), &c->packed)
                           : (struct mr_record){0};
}

void mr_record_cursor_clear(struct mr_record_cursor *c)
{
    mr_trace_unref(c->trace);
    *c = (struct mr_record_cursor){0};
}

void mr_record_of(const mr_block *block, uint32_t row, struct mr_record *ret)
{
    *ret = mr_block_record(block, row);
    (void)mr_trace_file_ref(ret->file);
}

void mr_record_add(struct mr_record *to, const mr_block *block)
{
    struct mr_packed_cursor nowhere = {0};
    struct mr_record more = record_of_rows(block->trace, block->trace_first, block->rows, &nowhere);

    if (to->file == NULL) {
        (void)mr_trace_file_ref(more.file);
    }
    mr_record_join(to, &more);
}

void mr_record_clear(struct mr_record *record)
{
    mr_trace_file_unref(record->file);
    *record = (struct mr_record){0};
}
