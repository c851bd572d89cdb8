/*
 * Which records of which files the rows of a block come from: what errors about a row name. Blocks
 * that hold the rows of others as they are (slices, joins, permutations, a function's results for
 * each row) hand it on; of rows that are put together (batches, windows, groups, zips of several
 * files) it is all their records. What was made of a file that a function has read comes from that.
 *
 * It is for words only: where there is no memory for it, rows have none.
 *
 * Threads: functions on references from any thread; a trace is immutable once a block has it.
 */
#pragma once

#include <millrace/block.h>

typedef struct mr_trace mr_trace;
typedef struct mr_trace_file mr_trace_file;

/* A record, or several that were put together. Zero: not known. */
struct mr_record {
    mr_trace_file *file;
    uint64_t number;
    uint64_t offset;
    uint32_t more;  /* records besides it */
    bool scattered; /* not those that follow it in the file, in their order */
};

enum mr_trace_places {
    MR_PLACES_BYTES,        /* offsets are of bytes of the file */
    MR_PLACES_UNCOMPRESSED, /* of bytes behind the decompression */
    MR_PLACES_ROWS,         /* records are rows of a table, and have no offset */
    MR_PLACES_NONE,         /* it was read as a whole */
};
#define MR_PLACES_LAST MR_PLACES_NONE

/* NULL: no memory. */
mr_trace_file *mr_trace_file_new(const char *path, enum mr_trace_places places);
mr_trace_file *mr_trace_file_ref(mr_trace_file *file);
void mr_trace_file_unref(mr_trace_file *file); /* NULL is fine */

/* The rows of @block, which nobody shares yet, are records of @file (NULL: nothing happens), from
 * number @record on; record i begins at @offsets[i] (NULL: nowhere). */
void mr_block_trace(mr_block *block, mr_trace_file *file, uint64_t record, const uint64_t *offsets);
/* Row i of @to, which nobody shares yet, was made of row i of @from. */
void mr_block_trace_as(mr_block *to, const mr_block *from);
/* Row i of @to, which nobody shares yet, was made of rows [i * @per, (i + 1) * @per) of @from; of
 * @records[i], copied. */
void mr_block_trace_groups(mr_block *to, const mr_block *from, uint32_t per);
void mr_block_trace_rows(mr_block *to, const struct mr_record *records);
/* The same without a copy, for the first @n rows: @records (mr_malloc()) are the trace's, with a
 * reference to the file of each that begins a run of records of one file. */
void mr_block_trace_give(mr_block *to, struct mr_record *records, uint32_t n);
bool mr_record_begins_run(const struct mr_record *records, uint32_t i);
void mr_records_free(struct mr_record *records, uint32_t n); /* NULL is fine */
/* As mr_block_trace_as(), in few bytes a row and without what @from holds for other rows. The bytes
 * that it takes; 0: nothing is known, or it would take much beside @payload bytes of elements. */
size_t mr_block_trace_pack(mr_block *to, const mr_block *from, size_t payload);
/* Nothing is known of the rows of @block, which nobody shares yet. */
void mr_block_trace_forget(mr_block *block);
/* All rows of *@block, if nothing is known of them, were made of @record; it may be exchanged for
 * another block. */
int mr_block_trace_alike(mr_block **block, const struct mr_record *record, mr_error *err);

bool mr_block_traced(const mr_block *block); /* false: of no row it is known */
/* Of row @row; its file is lent as long as the block is there. */
struct mr_record mr_block_record(const mr_block *block, uint32_t row);
/* Where somebody is among packed records, each of which is known by those before it. */
struct mr_packed_cursor {
    const mr_trace *trace;
    uint32_t next;
    uint32_t begin; /* of its bytes */
    struct mr_record before;
};
/* Where somebody is who asks for rows in their order: row `row` + k of `trace` is row `at` + k of
 * `part`, for k < `rows`. Zero: nowhere. */
struct mr_record_cursor {
    mr_trace *trace; /* one reference, which has all that is here */
    const mr_trace *part;
    uint32_t row;
    uint32_t rows;
    uint32_t at;
    struct mr_packed_cursor packed;
};
/* As mr_block_record(). */
struct mr_record mr_block_record_next(const mr_block *block, uint32_t row,
                                      struct mr_record_cursor *c);
void mr_record_cursor_clear(struct mr_record_cursor *c);
/* Records that are not a block's: cleared by mr_record_clear(). */
void mr_record_of(const mr_block *block, uint32_t row, struct mr_record *ret);
/* @to was made of all rows of @block, too. */
void mr_record_add(struct mr_record *to, const mr_block *block);
void mr_record_clear(struct mr_record *record); /* zeroed is fine */

/* "file 'x', record 3, offset 99", "file 'x', records 3 to 9, offset 99", "file 'x', row 3",
 * "file 'x'"; "" if that is not known.
 * What is more than @room bytes is cut off the path, in front, but for its last ones. */
#define MR_TRACE_TEXT 512
const char *mr_record_text(const struct mr_record *record, size_t room, char text[MR_TRACE_TEXT]);
