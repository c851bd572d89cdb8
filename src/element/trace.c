/* What is known of rows, apart from the blocks that have it. */
#include "element/trace_internal.h"

#include "base/sync.h"

/* What a trace may hold for each row that it knows, and besides. */
#define ROW_BYTES_HELD 96u
#define BYTES_HELD 512u
/* References from trace to trace, which are followed by recursion. */
#define DEPTH_MAX 16u

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

mr_trace *mr_trace_new_picked(uint32_t rows, uint32_t nparts)
{
    mr_trace *t = mr_trace_new(MR_TRACE_JOINED, rows, nparts, rows * sizeof *t->picked);

    if (t != NULL) {
        t->picked = (uint32_t *)(void *)(t->parts + nparts);
    }
    return t;
}

void mr_trace_set_part(mr_trace *t, uint32_t i, struct mr_trace_view v, uint32_t row, bool lent)
{
    t->parts[i] = (struct mr_trace_part){.of = lent ? v.of : mr_trace_ref(v.of),
                                         .first = v.first + row * v.step,
                                         .step = v.step,
                                         .per = v.per,
                                         .lent = lent};
    if (v.of != NULL && !lent) {
        t->bytes += v.of->bytes;
        t->depth = MR_MAX(t->depth, v.of->depth + 1);
        t->shares = t->shares || v.of->shares;
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
            mr_trace_unref(t->parts[i].of);
        }
    }
    if (t->form == MR_TRACE_LOG) {
        (void)pthread_mutex_destroy(&t->growth->lock);
        mr_free(t->parts);
    } else if (t->form == MR_TRACE_RECORDS) {
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
    if (t == NULL || t->form == MR_TRACE_LOG || atomic_load(&t->discharged)) {
        return; /* a log is its owner's */
    }
    for (uint32_t i = 0; i < t->nparts; i++) {
        mr_trace_discharge(t->parts[i].of);
    }
    if (t->form == MR_TRACE_PACKED) {
        mr_trace_packed_discharge(t);
    }
    atomic_store(&t->discharged, true);
}

bool mr_trace_is_settled(const mr_trace *t, uint64_t rows)
{
    return t->depth <= DEPTH_MAX && t->bytes <= BYTES_HELD + rows * ROW_BYTES_HELD;
}

mr_trace *mr_trace_settle(mr_trace *t, uint64_t rows)
{
    if (mr_trace_is_settled(t, rows)) {
        return t;
    }
    mr_trace *flat = mr_trace_flat(mr_trace_all(t), t->rows);
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

/* The part of @t that has row @at of all, which *@begin is the first of; NULL: none has. */
static const struct mr_trace_part *part_of(const mr_trace *t, uint32_t at, uint32_t *begin)
{
    uint32_t low = 0;
    uint32_t high = t->nparts;

    while (low < high) { /* There may be a part for every other row. */
        uint32_t middle = low + (high - low) / 2;

        if (at < t->parts[middle].end) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    *begin = low > 0 ? t->parts[low - 1].end : 0;
    return low < t->nparts ? &t->parts[low] : NULL;
}

/* What is done with rows of what a trace refers to. */
typedef void use_rows(void *ctx, struct mr_trace_view v, uint32_t row, uint32_t n);

/* Of @t, which is a join, rows [@first, @first + @n). */
static void walk_parts(const mr_trace *t, uint32_t first, uint32_t n, use_rows *use, void *ctx)
{
    const uint32_t *picked = t->form == MR_TRACE_JOINED ? t->picked : NULL;

    for (uint32_t run; n > 0; first += run, n -= run) {
        uint32_t at = picked == NULL ? first : first < t->rows ? picked[first] : UINT32_MAX;
        uint32_t begin = 0;
        const struct mr_trace_part *part = part_of(t, at, &begin);

        if (part == NULL) {
            run = picked != NULL ? 1 : n;
            use(ctx, (struct mr_trace_view){0}, 0, run);
        } else {
            run = picked != NULL ? 1 : MR_MIN(n, part->end - at);
            use(ctx, mr_trace_view_of(part), at - begin, run);
        }
    }
}

static void walk(const mr_trace *t, uint32_t first, uint32_t n, use_rows *use, void *ctx)
{
    if (t->form != MR_TRACE_LOG) {
        walk_parts(t, first, n, use, ctx);
        return;
    }
    MR_LOCK(&t->growth->lock);
    walk_parts(t, first, n, use, ctx);
}

static struct mr_record record_of_file(const mr_trace *t, uint32_t row)
{
    struct mr_record r = t->first;

    r.number += row;
    r.offset = t->offsets == NULL ? 0
               : t->steps != NULL ? t->offsets[row / MR_STEPS_PER_PLACE] + t->steps[row]
                                  : t->offsets[row];
    return r;
}

static void join_one(void *ctx, const struct mr_record *record)
{
    mr_record_join(ctx, record);
}

static void join_some(void *ctx, struct mr_trace_view v, uint32_t row, uint32_t n)
{
    mr_trace_join(v, row, n, ctx);
}

/* As mr_trace_join() of rows of @t, of which there may be fewer. */
static void join_rows(const mr_trace *t, uint32_t first, uint32_t n, struct mr_record *all)
{
    const uint32_t there = first < t->rows ? MR_MIN(n, t->rows - first) : 0;

    switch (t->form) {
    case MR_TRACE_FILE:
        if (there > 0) {
            struct mr_record run = record_of_file(t, first);

            run.more = there - 1;
            mr_record_join(all, &run);
        }
        break;
    case MR_TRACE_RECORDS:
        for (uint32_t k = 0; k < there; k++) {
            mr_record_join(all, &t->records[first + k]);
        }
        break;
    case MR_TRACE_PACKED: mr_trace_packed_each(t, first, there, join_one, all); break;
    case MR_TRACE_JOINED:
    case MR_TRACE_LOG: walk(t, first, n, join_some, all); break;
    case MR_TRACE_ZIPPED:
        for (uint32_t k = 0; k < there; k++) {
            for (uint32_t i = 0; i < t->nparts; i++) {
                mr_trace_join(mr_trace_view_of(&t->parts[i]), first + k, 1, all);
            }
        }
        break;
    }
}

void mr_trace_join(struct mr_trace_view v, uint32_t row, uint32_t n, struct mr_record *all)
{
    if (v.of == NULL || n == 0) {
        return;
    }
    if (v.step <= v.per) { /* without a gap */
        join_rows(v.of, v.first + row * v.step, (n - 1) * v.step + v.per, all);
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        join_rows(v.of, v.first + (row + k) * v.step, v.per, all);
    }
}

struct taker {
    mr_trace_take *take;
    void *ctx;
};

static void tell_some(void *ctx, struct mr_trace_view v, uint32_t row, uint32_t n)
{
    const struct taker *to = ctx;

    mr_trace_each(v, row, n, to->take, to->ctx);
}

/* As mr_trace_each() of rows of @t. */
static void tell_rows(const mr_trace *t, uint32_t first, uint32_t n, struct taker *to)
{
    if (t->form == MR_TRACE_JOINED || t->form == MR_TRACE_LOG) {
        walk(t, first, n, tell_some, to);
        return;
    }
    const uint32_t there = first < t->rows ? MR_MIN(n, t->rows - first) : 0;
    if (t->form == MR_TRACE_PACKED) {
        mr_trace_packed_each(t, first, there, to->take, to->ctx);
    }
    for (uint32_t k = t->form == MR_TRACE_PACKED ? there : 0; k < n; k++) {
        struct mr_record one = {0};

        if (t->form == MR_TRACE_FILE && k < there) {
            one = record_of_file(t, first + k);
        } else {
            join_rows(t, first + k, 1, &one);
        }
        to->take(to->ctx, &one);
    }
}

void mr_trace_each(struct mr_trace_view v, uint32_t row, uint32_t n, mr_trace_take *take, void *ctx)
{
    struct taker to = {.take = take, .ctx = ctx};

    if (v.of != NULL && v.step == 1 && v.per == 1) {
        tell_rows(v.of, v.first + row, n, &to);
        return;
    }
    for (uint32_t k = 0; k < n; k++) {
        struct mr_record one = {0};

        mr_trace_join(v, row + k, 1, &one);
        take(ctx, &one);
    }
}

static void list_one(void *ctx, const struct mr_record *record)
{
    mr_trace *list = ctx;

    list->records[list->rows++] = *record;
}

mr_trace *mr_trace_flat(struct mr_trace_view v, uint32_t rows)
{
    mr_trace *flat = mr_trace_new_records(rows);

    if (flat != NULL) {
        flat->rows = 0;
        mr_trace_each(v, 0, rows, list_one, flat);
        mr_trace_hold_files(flat);
    }
    return flat;
}

bool mr_block_traced(const mr_block *block)
{
    return block->trace.of != NULL;
}

struct mr_record mr_block_record(const mr_block *block, uint32_t row)
{
    struct mr_record record = {0};

    mr_trace_join(block->trace, row, 1, &record);
    return record;
}

static void keep_view(void *ctx, struct mr_trace_view v, uint32_t row, uint32_t n)
{
    v.first += row * v.step;
    *(struct mr_trace_view *)ctx = v;
}

void mr_block_trace_inside(mr_block *to, const mr_block *from, uint32_t row, uint32_t first,
                           uint32_t n)
{
    struct mr_trace_view v = from->trace;

    MR_ASSERT(to->trace.of == NULL && first <= n && to->rows <= n - first);
    v.first += row * v.step;
    while (v.of != NULL && v.per == 1 &&
           (v.of->form == MR_TRACE_JOINED || v.of->form == MR_TRACE_LOG)) {
        walk(v.of, v.first, 1, keep_view, &v); /* what has it has a reference to that */
    }
    if (v.of != NULL && v.of->inside && n <= v.per) {
        to->trace = mr_trace_all(mr_trace_ref(v.of));
        to->trace.first = v.first + first;
    }
}

void mr_record_add(struct mr_record *to, const mr_block *block)
{
    struct mr_record more = {0};

    mr_trace_join(block->trace, 0, block->rows, &more);
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
