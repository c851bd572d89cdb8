#include "engine/row_records.h"

#include "base/base.h"

#define NUMBER_MAX ((UINT64_C(1) << 40) - 1)
#define FILES_MAX ((1u << 24) - 1)
#define OFFSET_MAX ((UINT64_C(1) << 44) - 1)
#define MORE_MAX ((1u << 19) - 1)

struct mr_row_record {
    uint64_t number : 40;
    uint64_t file : 24; /* in the table of files; 0: not known */
    uint64_t offset : 44;
    uint64_t more : 19;
    uint64_t scattered : 1;
};

_Static_assert(sizeof(struct mr_row_record) == MR_ROW_RECORD_BYTES,
               "beside an element of 8 bytes every byte counts");

/* One reference for all its rows, so that a row takes and gives none: those are counted between
 * threads. */
struct mr_row_file {
    mr_trace_file *file; /* NULL: of no row */
    size_t rows;
    uint32_t next; /* of those that are of no row */
};

bool mr_row_records_grow(struct mr_row_records *r, size_t cap)
{
    struct mr_row_record *bigger = mr_reallocarray(r->rows, cap, sizeof *bigger);

    if (bigger == NULL) {
        return false;
    }
    MR_ASSERT(cap > r->cap);
    memset(bigger + r->cap, 0, (cap - r->cap) * sizeof *bigger);
    r->rows = bigger;
    r->cap = cap;
    return true;
}

void mr_row_records_free(struct mr_row_records *r)
{
    for (uint32_t i = 1; i < r->nfiles; i++) {
        mr_trace_file_unref(r->files[i].file);
    }
    mr_free(r->files);
    mr_free(r->rows);
    *r = (struct mr_row_records){0};
}

/* A place in the table that no file has; 0: there is none. */
static uint32_t free_place(struct mr_row_records *r)
{
    uint32_t place = r->unused;

    if (place != 0) {
        r->unused = r->files[place].next;
        return place;
    }
    if (r->nfiles == r->files_cap) {
        uint32_t cap = r->files_cap * 2 + 16;
        struct mr_row_file *bigger =
            cap <= FILES_MAX ? mr_reallocarray(r->files, cap, sizeof *bigger) : NULL;

        if (bigger == NULL) {
            return 0;
        }
        r->files = bigger;
        r->files_cap = cap;
        r->nfiles = r->nfiles == 0 ? 1 : r->nfiles;
    }
    return r->nfiles++;
}

/* Where @file is in the table; 0: there is no room. One that was not added lately may have several
 * places. */
static uint32_t place_of(struct mr_row_records *r, mr_trace_file *file)
{
    uint32_t *recent = &r->recent[((uintptr_t)file >> 5) % MR_ROW_FILES_RECENT];

    if (*recent == 0 || r->files[*recent].file != file) {
        uint32_t place = free_place(r);

        if (place == 0) {
            return 0;
        }
        r->files[place] = (struct mr_row_file){.file = mr_trace_file_ref(file)};
        *recent = place;
    }
    return *recent;
}

void mr_row_records_set(struct mr_row_records *r, size_t i, const struct mr_record *record)
{
    bool fits =
        record->number <= NUMBER_MAX && record->offset <= OFFSET_MAX && record->more <= MORE_MAX;
    uint32_t file = fits && record->file != NULL ? place_of(r, record->file) : 0;

    MR_ASSERT(i < r->cap);
    if (file != 0) {
        r->files[file].rows++;
        r->rows[i] = (struct mr_row_record){.number = record->number & NUMBER_MAX,
                                            .file = file & FILES_MAX,
                                            .offset = record->offset & OFFSET_MAX,
                                            .more = record->more & MORE_MAX,
                                            .scattered = record->scattered};
    }
}

bool mr_row_records_know(const struct mr_row_records *r, size_t i)
{
    return i < r->cap && r->rows[i].file != 0;
}

void mr_row_records_get(const struct mr_row_records *r, size_t i, struct mr_record *ret)
{
    if (!mr_row_records_know(r, i)) {
        *ret = (struct mr_record){0};
        return;
    }
    const struct mr_row_record *row = &r->rows[i];
    ret->file = r->files[row->file].file;
    ret->number = row->number;
    ret->offset = row->offset;
    ret->more = row->more;
    ret->scattered = row->scattered != 0;
}

/* A row less of the file at @place. */
static void leave(struct mr_row_records *r, uint32_t place)
{
    struct mr_row_file *file = &r->files[place];

    MR_ASSERT(file->rows > 0);
    file->rows--;
    if (file->rows == 0) {
        mr_trace_file_unref(file->file);
        *file = (struct mr_row_file){.next = r->unused};
        r->unused = place;
    }
}

void mr_row_records_remove(struct mr_row_records *r, size_t i, size_t last)
{
    if (i >= r->cap) {
        return;
    }
    if (r->rows[i].file != 0) {
        leave(r, r->rows[i].file);
    }
    r->rows[i] = last < r->cap ? r->rows[last] : (struct mr_row_record){0};
    if (last < r->cap) {
        r->rows[last] = (struct mr_row_record){0};
    }
}
