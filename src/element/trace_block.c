/* Which records the rows of a block come from: what makes blocks says so here. */
#include "element/trace_internal.h"

/* @t, which may be NULL, is of @block's rows from the first on: a slice of another block had its
 * rows further on. */
static void set_trace(mr_block *block, mr_trace *t)
{
    block->trace = t;
    block->trace_first = 0;
}

/* Whether each of @n offsets is a few bytes behind the one that its step is from. */
static bool are_near(const uint64_t *offsets, uint32_t n)
{
    uint64_t far = 0;

    for (uint32_t i = 0; i < n; i++) {
        far |= (offsets[i] - offsets[i - i % MR_STEPS_PER_PLACE]) >> 16;
    }
    return far == 0;
}

/* Records that begin at @offsets: two or three bytes each where they are near to each other. */
static mr_trace *trace_of_file(uint32_t rows, const uint64_t *offsets)
{
    uint32_t places = (rows + MR_STEPS_PER_PLACE - 1) / MR_STEPS_PER_PLACE;
    bool near = are_near(offsets, rows);
    size_t steps = near ? rows * sizeof(uint16_t) : 0;
    size_t size = (near ? places : rows) * sizeof *offsets;
    mr_trace *t = mr_trace_new(MR_TRACE_FILE, rows, 0, size + steps);

    if (t == NULL) {
        return NULL;
    }
    t->offsets = (uint64_t *)(void *)(t + 1);
    if (!near) {
        memcpy(t->offsets, offsets, size);
        return t;
    }
    t->steps = (uint16_t *)(void *)(t->offsets + places);
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t place = offsets[i - i % MR_STEPS_PER_PLACE];

        t->offsets[i / MR_STEPS_PER_PLACE] = place;
        t->steps[i] = (uint16_t)(offsets[i] - place);
    }
    return t;
}

void mr_block_trace(mr_block *block, mr_trace_file *file, uint64_t record, const uint64_t *offsets)
{
    mr_trace *t = NULL;

    MR_ASSERT(block->trace == NULL);
    if (file != NULL) {
        t = offsets != NULL ? trace_of_file(block->rows, offsets)
                            : mr_trace_new(MR_TRACE_FILE, block->rows, 0, 0);
    }
    if (t != NULL) {
        t->first = (struct mr_record){.file = mr_trace_file_ref(file), .number = record};
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

void mr_block_trace_groups(mr_block *to, const mr_block *from, uint32_t per)
{
    mr_trace *t = from->trace != NULL ? mr_trace_new(MR_TRACE_GROUPS, to->rows, 1, 0) : NULL;

    if (t != NULL) {
        t->per = per;
        mr_trace_set_part(t, 0, from, false);
        t = mr_trace_settle(t);
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
    mr_trace *t = mr_trace_new(MR_TRACE_RECORDS, n, 0, 0);

    MR_ASSERT(to->trace == NULL && n <= to->rows);
    if (t == NULL) {
        mr_records_free(records, n);
        return;
    }
    t->records = records;
    t->own = records;
    t->bytes += n * sizeof *records;
    set_trace(to, t);
}

int mr_block_trace_alike(mr_block **block, const struct mr_record *record, mr_error *err)
{
    mr_block *own = *block;

    if (record->file == NULL || own->trace != NULL) {
        return MR_OK;
    }
    if (atomic_load_explicit(&own->refs, memory_order_acquire) > 1) {
        MR_TRY(mr_block_share(*block, 0, (*block)->rows, &own, err));
        mr_block_unref(*block);
        *block = own;
    }
    mr_trace *t = mr_trace_new(MR_TRACE_ALIKE, 1, 0, 0);
    if (t != NULL) {
        t->first = *record;
        (void)mr_trace_file_ref(record->file);
    }
    set_trace(own, t);
    return MR_OK;
}

void mr_trace_gather(mr_block *to, const mr_block *from, const uint32_t *rows)
{
    const mr_trace *of = from->trace;
    size_t size = to->rows * sizeof *rows;
    mr_trace *t = of != NULL ? mr_trace_new(MR_TRACE_PICKED, to->rows, 1, size) : NULL;

    if (t != NULL) {
        t->picked = memcpy(t->parts + 1, rows, size);
        mr_trace_set_part(t, 0, from, false);
        t = mr_trace_settle(t);
    }
    set_trace(to, t);
}

/* Which traces parts had lately: an interleave takes a few of them in turn. */
#define RECENT 16u

static bool was_recent(const mr_trace *recent[RECENT], const mr_trace *t)
{
    const mr_trace **place = &recent[((uintptr_t)t >> 6) % RECENT];
    bool was = *place == t;

    *place = t;
    return was;
}

/* The parts of @blocks that are not those of the one before continued; @t, if not NULL, gets
 * them. */
static uint32_t put_parts(mr_trace *t, const mr_block *const *blocks, size_t n)
{
    const mr_trace *recent[RECENT] = {NULL};
    const mr_block *last = NULL;
    uint32_t nparts = 0;
    uint32_t end = 0;

    for (size_t k = 0; k < n; last = blocks[k], k++) {
        bool goes_on = last != NULL && last->trace == blocks[k]->trace &&
                       last->trace_first + last->rows == blocks[k]->trace_first;

        end += blocks[k]->rows;
        nparts += !goes_on;
        if (t != NULL && !goes_on) {
            mr_trace_set_part(t, nparts - 1, blocks[k], was_recent(recent, blocks[k]->trace));
        }
        if (t != NULL) {
            t->parts[nparts - 1].end = end & INT32_MAX; /* MR_BLOCK_ROWS_MAX */
        }
    }
    return nparts;
}

void mr_trace_concat(mr_block *to, const mr_block *const *blocks, size_t n)
{
    mr_trace *t = NULL;
    bool known = false;

    for (size_t k = 0; k < n && !known; k++) {
        known = blocks[k]->trace != NULL;
    }
    if (known && to->rows > 0) {
        t = mr_trace_new(MR_TRACE_JOINED, to->rows, put_parts(NULL, blocks, n), 0);
    }
    if (t != NULL) {
        (void)put_parts(t, blocks, n);
        t = mr_trace_settle(t);
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
    mr_trace *t = mr_trace_new(MR_TRACE_ZIPPED, to->rows, known, 0);
    uint32_t i = 0;
    for (size_t k = 0; t != NULL && k < n; k++) {
        if (blocks[k]->trace != NULL) {
            mr_trace_set_part(t, i++, blocks[k], false);
        }
    }
    set_trace(to, t != NULL ? mr_trace_settle(t) : NULL);
}

/* Of a path in a text: the name of a file among many, at least. */
#define PATH_BYTES_MIN 40u
#define PATH_BYTES_MAX 300u

/* ", record 3, offset 99", ", rows 3 to 9", "". */
static void put_numbers(const struct mr_record *r, char *text, size_t size)
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
    put_numbers(record, numbers, sizeof numbers);
    size_t rest = strlen("file ''") + strlen(numbers);
    size_t most = room > rest ? room - rest : 0;
    most = MR_MIN(MR_MAX(most, PATH_BYTES_MIN), PATH_BYTES_MAX);
    (void)snprintf(text, MR_TRACE_TEXT, "file '%s'%s",
                   mr_cut_front(record->file->path, path, most + 1), numbers);
    return text;
}
