/* Which records the rows of a block come from: what makes blocks says so here. */
#include "element/trace_internal.h"

/* @t, which may be NULL, is of @block's rows from the first on. */
static void set_trace(mr_block *block, mr_trace *t)
{
    block->trace = t != NULL ? mr_trace_all(t) : (struct mr_trace_view){0};
}

/* How far @n offsets are behind the first: the bits of all. Inlined, so that the
 * compiler knows @n where it is always the same. */
static inline __attribute__((always_inline)) uint64_t put_steps(uint16_t *to,
                                                                const uint64_t *offsets, uint32_t n)
{
    uint64_t far = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t step = offsets[i] - offsets[0];

        far |= step;
        to[i] = (uint16_t)step;
    }
    return far;
}

/* false: some records are too far from others. */
static bool put_near(mr_trace *t, const uint64_t *offsets)
{
    const uint32_t whole = t->rows - t->rows % MR_STEPS_PER_PLACE;
    uint64_t far = 0;

    for (uint32_t i = 0; i < whole; i += MR_STEPS_PER_PLACE) {
        t->offsets[i / MR_STEPS_PER_PLACE] = offsets[i];
        far |= put_steps(t->steps + i, offsets + i, MR_STEPS_PER_PLACE);
    }
    if (whole < t->rows) {
        t->offsets[whole / MR_STEPS_PER_PLACE] = offsets[whole];
        far |= put_steps(t->steps + whole, offsets + whole, t->rows - whole);
    }
    return far >> 16 == 0;
}

/* Records that begin at @offsets: two or three bytes each where they are near to each other. */
static mr_trace *trace_of_file(uint32_t rows, const uint64_t *offsets)
{
    uint32_t places = (rows + MR_STEPS_PER_PLACE - 1) / MR_STEPS_PER_PLACE;
    mr_trace *t =
        mr_trace_new(MR_TRACE_FILE, rows, 0, places * sizeof *offsets + rows * sizeof(uint16_t));

    if (t == NULL) {
        return NULL;
    }
    t->offsets = (uint64_t *)(void *)(t + 1);
    t->steps = (uint16_t *)(void *)(t->offsets + places);
    if (put_near(t, offsets)) {
        return t;
    }
    mr_free(t);
    t = mr_trace_new(MR_TRACE_FILE, rows, 0, rows * sizeof *offsets);
    if (t != NULL) {
        t->offsets = memcpy(t + 1, offsets, rows * sizeof *offsets);
    }
    return t;
}

void mr_block_trace(mr_block *block, mr_trace_file *file, uint64_t record, const uint64_t *offsets)
{
    mr_trace *t = NULL;

    MR_ASSERT(block->trace.of == NULL);
    if (file != NULL) {
        t = offsets != NULL ? trace_of_file(block->rows, offsets)
                            : mr_trace_new(MR_TRACE_FILE, block->rows, 0, 0);
    }
    if (t != NULL) {
        t->first = (struct mr_record){.file = mr_trace_file_ref(file), .number = record};
    }
    set_trace(block, t);
}

/* @to, which has none, sees what @v does. */
void mr_trace_share(mr_block *to, struct mr_trace_view v)
{
    (void)mr_trace_ref(v.of);
    to->trace = v;
}

void mr_trace_slice(mr_block *to, const mr_block *from, uint32_t first)
{
    mr_trace_share(to, from->trace);
    to->trace.first += first * to->trace.step;
}

void mr_block_trace_as(mr_block *to, const mr_block *from)
{
    MR_ASSERT(to->rows <= from->rows);
    mr_block_trace_forget(to);
    mr_trace_share(to, from->trace);
}

void mr_block_trace_row(mr_block *to, const mr_block *from, uint32_t row)
{
    MR_ASSERT(row < from->rows);
    to->trace = mr_trace_view_row(from, row);
}

void mr_block_trace_groups(mr_block *to, const mr_block *from, uint32_t per)
{
    struct mr_trace_view v = from->trace;

    if (v.of != NULL && v.step > v.per) { /* what is between is nobody's */
        set_trace(to, mr_trace_flat(v, from->rows));
        v = to->trace;
    } else {
        mr_trace_share(to, v);
    }
    if (v.of != NULL) {
        to->trace.step = v.step * per;
        to->trace.per = v.step * (per - 1) + v.per;
    }
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
    mr_trace *t = mr_trace_new(MR_TRACE_RECORDS, n, 0, 0);

    MR_ASSERT(to->trace.of == NULL && n <= to->rows);
    if (t == NULL) {
        mr_records_free(records, n);
        return;
    }
    t->records = records;
    t->own = records;
    t->bytes += n * sizeof *records;
    set_trace(to, t);
}

struct mr_trace_view mr_trace_view_row(const mr_block *block, uint32_t row)
{
    struct mr_trace_view v = block->trace;

    (void)mr_trace_ref(v.of);
    v.first += row * v.step;
    v.step = 0;
    return v;
}

void mr_trace_view_clear(struct mr_trace_view *v)
{
    mr_trace_unref(v->of);
    *v = (struct mr_trace_view){0};
}

void mr_block_trace_forget(mr_block *block)
{
    mr_trace_view_clear(&block->trace);
}

/* ---- rows of several blocks, and choices of rows ---- */

void mr_trace_gather(mr_block *to, const mr_block *from, const uint32_t *rows)
{
    mr_trace *t = from->trace.of != NULL ? mr_trace_new_picked(to->rows, 1) : NULL;

    if (t != NULL) {
        memcpy(t->picked, rows, to->rows * sizeof *rows);
        mr_trace_set_part(t, 0, from->trace, 0, false);
        t->parts[0].end = from->rows & INT32_MAX; /* MR_BLOCK_ROWS_MAX, here and below */
        t = mr_trace_settle(t, to->rows * (uint64_t)MR_MAX(from->trace.step, 1));
    }
    set_trace(to, t);
}

/* Which traces parts had lately: an interleave takes a few of them in turn. */
#define RECENT 16u
/* More of them at a time are not told apart. */
#define PICKED_PARTS_MAX 64u

struct recent {
    const mr_trace *of;
    uint32_t per;
    uint32_t base; /* number of its row 0, where rows are picked */
};

static void no_recent(struct recent recent[RECENT])
{
    for (uint32_t i = 0; i < RECENT; i++) {
        recent[i] = (struct recent){.per = UINT32_MAX}; /* which no view has */
    }
}

/* Where @v's trace is among them; *@was: it was there already. */
static inline struct recent *find_recent(struct recent recent[RECENT],
                                         const struct mr_trace_view *v, bool *was)
{
    struct recent *place = &recent[((uintptr_t)v->of >> 6) % RECENT];

    *was = place->of == v->of && place->per == v->per;
    place->of = v->of;
    place->per = v->per;
    return place;
}

static bool goes_on(const struct mr_block_part *a, const struct mr_block_part *b)
{
    const struct mr_trace_view *x = &a->block->trace;
    const struct mr_trace_view *y = &b->block->trace;

    return x->of == y->of && x->step == y->step && x->per == y->per &&
           x->first + (a->first + a->count) * x->step == y->first + b->first * y->step;
}

static bool is_known(const struct mr_block_part *parts, size_t n)
{
    bool known = false;

    for (size_t k = 0; k < n && !known; k++) {
        known = parts[k].block->trace.of != NULL;
    }
    return known;
}

/* Rows that were read for them. */
static uint64_t rows_read(const struct mr_block_part *parts, size_t n)
{
    uint64_t rows = 0;

    for (size_t k = 0; k < n; k++) {
        rows += parts[k].count * (uint64_t)MR_MAX(parts[k].block->trace.step, 1);
    }
    return rows;
}

/* A part for each run of rows that follow one another in a trace, of which there are as many as
 * @parts at most. */
static void put_runs(mr_trace *t, const struct mr_block_part *parts, size_t n)
{
    struct recent recent[RECENT];
    uint32_t runs = 0;
    uint32_t end = 0;

    no_recent(recent);
    for (size_t k = 0; k < n; k++) {
        const struct mr_trace_view *v = &parts[k].block->trace;

        end += parts[k].count;
        if (k == 0 || !goes_on(&parts[k - 1], &parts[k])) {
            bool was;

            (void)find_recent(recent, v, &was);
            mr_trace_set_part(t, runs++, *v, parts[k].first, was);
        }
        t->parts[runs - 1].end = end & INT32_MAX;
    }
    t->nparts = runs;
}

/* A part for each trace, and a number for each row; false: there are too many traces. */
static bool put_numbers(mr_trace *t, const struct mr_block_part *parts, size_t n)
{
    struct recent recent[RECENT];
    const uint32_t most = t->nparts;
    uint32_t *to = t->picked;
    uint64_t end = 0;

    no_recent(recent);
    t->nparts = 0;
    for (size_t k = 0; k < n; k++) {
        const struct mr_trace_view *v = &parts[k].block->trace;
        bool was;
        struct recent *of = find_recent(recent, v, &was);

        if (!was) {
            const struct mr_trace_view whole = {.of = v->of, .step = 1, .per = v->per};

            of->base = (uint32_t)end;
            end += v->of != NULL ? v->of->rows : 1;
            if (t->nparts == most || end > INT32_MAX) {
                return false;
            }
            mr_trace_set_part(t, t->nparts, whole, 0, false);
            t->parts[t->nparts++].end = end & INT32_MAX;
        }
        uint32_t at = of->base + v->first + parts[k].first * v->step;
        for (uint32_t i = 0; i < parts[k].count; i++, at += v->step) {
            *to++ = at;
        }
    }
    return true;
}

/* In numbers where runs are so short that they take fewer bytes; NULL: they do not, or there is no
 * memory. */
static mr_trace *join_in_numbers(uint32_t rows, const struct mr_block_part *parts, size_t n)
{
    bool fewer = rows * sizeof(uint32_t) < n * sizeof(struct mr_trace_part) / 2;
    mr_trace *t = n > RECENT && fewer
                      ? mr_trace_new_picked(rows, (uint32_t)MR_MIN(n / 4, PICKED_PARTS_MAX))
                      : NULL;

    if (t != NULL && !put_numbers(t, parts, n)) {
        mr_trace_unref(t);
        t = NULL;
    }
    return t;
}

static mr_trace *join_in_runs(uint32_t rows, const struct mr_block_part *parts, size_t n)
{
    mr_trace *t = mr_trace_new(MR_TRACE_JOINED, rows, (uint32_t)n, 0);

    if (t != NULL) {
        put_runs(t, parts, n);
    }
    return t;
}

void mr_trace_concat(mr_block *to, const struct mr_block_part *parts, size_t n)
{
    mr_trace *t = NULL;

    if (is_known(parts, n)) {
        t = join_in_numbers(to->rows, parts, n);
        t = t != NULL ? t : join_in_runs(to->rows, parts, n);
    }
    if (t != NULL && !mr_trace_is_settled(t, to->rows)) { /* perhaps that is not all of them */
        t = mr_trace_settle(t, rows_read(parts, n));
    }
    set_trace(to, t);
}

void mr_block_trace_picked(mr_block *to, const struct mr_block_part *parts, size_t n,
                           const uint32_t *numbers, uint32_t per)
{
    const uint64_t rows = to->rows * (uint64_t)per;
    mr_trace *t = is_known(parts, n) && rows <= INT32_MAX
                      ? mr_trace_new_picked((uint32_t)rows, (uint32_t)n)
                      : NULL;

    if (t != NULL) {
        put_runs(t, parts, n);
        memcpy(t->picked, numbers, rows * sizeof *numbers);
        t = mr_trace_settle(t, rows);
    }
    set_trace(to, t);
    if (t != NULL) {
        t->inside = true;
        to->trace.step = per;
        to->trace.per = per;
    }
}

void mr_trace_zip(mr_block *to, const mr_block *const *blocks, size_t n)
{
    const mr_block *one = NULL;
    uint32_t known = 0;

    for (size_t k = 0; k < n; k++) {
        if (blocks[k]->trace.of != NULL) {
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
    mr_trace *t = mr_trace_new(MR_TRACE_ZIPPED, to->rows, known, 0);
    uint64_t read = 0;
    uint32_t i = 0;
    for (size_t k = 0; t != NULL && k < n; k++) {
        if (blocks[k]->trace.of != NULL) {
            mr_trace_set_part(t, i++, blocks[k]->trace, 0, false);
            read += to->rows * (uint64_t)MR_MAX(blocks[k]->trace.step, 1);
        }
    }
    set_trace(to, t != NULL ? mr_trace_settle(t, read) : NULL);
}

/* ---- words ---- */

/* Of a path in a text: the name of a file among many, at least. */
#define PATH_BYTES_MIN 40u
#define PATH_BYTES_MAX 300u

/* ", record 3, offset 99", ", rows 3 to 9", "". */
static void put_places(const struct mr_record *r, char *text, size_t size)
{
    const bool rows = r->file->places == MR_PLACES_ROWS;
    const char *what = rows ? "row" : "record";
    char offset[64] = "";
    char others[32];

    if (!rows) {
        (void)snprintf(offset, sizeof offset, ", offset %" PRIu64 "%s", r->offset,
                       r->file->places == MR_PLACES_UNCOMPRESSED ? " (uncompressed)" : "");
    }
    if (r->file->places == MR_PLACES_NONE) {
        (void)snprintf(others, sizeof others, ", and %" PRIu32 " more", r->more);
        (void)snprintf(text, size, "%s", r->more > 0 ? others : "");
    } else if (r->more > 0 && !r->scattered) {
        (void)snprintf(text, size, ", %ss %" PRIu64 " to %" PRIu64 "%s", what, r->number,
                       r->number + r->more, offset);
    } else if (r->more > 0) {
        (void)snprintf(text, size, ", %s %" PRIu64 "%s, and %" PRIu32 " more", what, r->number,
                       offset, r->more);
    } else {
        (void)snprintf(text, size, ", %s %" PRIu64 "%s", what, r->number, offset);
    }
}

const char *mr_record_text(const struct mr_record *record, size_t room, char text[MR_TRACE_TEXT])
{
    char path[PATH_BYTES_MAX + 1];
    char numbers[192];

    text[0] = '\0';
    if (record->file == NULL) {
        return text;
    }
    put_places(record, numbers, sizeof numbers);
    size_t rest = strlen("file ''") + strlen(numbers);
    size_t most = room > rest ? room - rest : 0;
    most = MR_MIN(MR_MAX(most, PATH_BYTES_MIN), PATH_BYTES_MAX);
    (void)snprintf(text, MR_TRACE_TEXT, "file '%s'%s",
                   mr_cut_front(record->file->path, path, most + 1), numbers);
    return text;
}
