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

#include "element/block.h"

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

/* What is known of rows: row r was made of rows [first + r * step, first + r * step + per) of `of`. So
 * what puts rows together, cuts them or takes some that follow one another only changes numbers. */
struct mr_trace_view {
    mr_trace *of; /* one reference; NULL: nothing is known */
    uint32_t first;
    uint32_t step;
    uint32_t per;
};

/* NULL: no memory. */
mr_trace_file *mr_trace_file_new(const char *path, enum mr_trace_places places);
mr_trace_file *mr_trace_file_ref(mr_trace_file *file);
void mr_trace_file_unref(mr_trace_file *file); /* NULL is fine */

/* The rows of @block, which nobody shares yet, are records of @file (NULL: nothing happens), from
 * number @record on; record i begins at @offsets[i] (NULL: nowhere). */
void mr_block_trace(mr_block *block, mr_trace_file *file, uint64_t record, const uint64_t *offsets);
/* Row i of @to, which nobody shares yet, was made of row i of @from; each of them of row @row. */
void mr_block_trace_as(mr_block *to, const mr_block *from);
void mr_block_trace_row(mr_block *to, const mr_block *from, uint32_t row);
/* Row i of @to, which nobody shares yet, was made of rows [i * @per, (i + 1) * @per) of @from; of
 * @records[i], copied. */
void mr_block_trace_groups(mr_block *to, const mr_block *from, uint32_t per);
void mr_block_trace_rows(mr_block *to, const struct mr_record *records);
/* The same without a copy, for the first @n rows: @records (mr_malloc()) are the trace's, with a
 * reference to the file of each that begins a run of records of one file. */
void mr_block_trace_give(mr_block *to, struct mr_record *records, uint32_t n);
bool mr_record_begins_run(const struct mr_record *records, uint32_t i);
void mr_records_free(struct mr_record *records, uint32_t n); /* NULL is fine */
/* Row i of @to, which nobody shares yet, is a dataset of @per rows of all rows of @parts in turn, those
 * with the numbers at @numbers + i * @per; MR_TRACE_NO_ROW, at the end: of fewer. */
#define MR_TRACE_NO_ROW UINT32_MAX
void mr_block_trace_picked(mr_block *to, const struct mr_block_part *parts, size_t n,
                           const uint32_t *numbers, uint32_t per);
/* As mr_block_trace_as(), for long: in few bytes a row and without what @from holds for other rows.
 * The bytes that it takes; 0: nothing is known, or it would take much beside @payload bytes of
 * elements. */
size_t mr_block_trace_keep(mr_block *to, const mr_block *from, size_t payload);
/* What is known of @block's rows is what these bytes say, as mr_trace_encode() made them somewhere:
 * they are read when somebody asks, and where they make no sense nothing is known. */
void mr_block_trace_packed(mr_block *block, const unsigned char *bytes, size_t size);
/* Nothing is known of the rows of @block, which nobody shares yet. */
void mr_block_trace_forget(mr_block *block);
/* All rows of *@block, if nothing is known of them, were made of what @v, of mr_trace_view_row(), is;
 * it may be exchanged for another block. */
int mr_block_trace_alike(mr_block **block, const struct mr_trace_view *v, mr_error *err);
/* Row @row of @block, for any number of rows: cleared by mr_trace_view_clear(). */
struct mr_trace_view mr_trace_view_row(const mr_block *block, uint32_t row);
void mr_trace_view_clear(struct mr_trace_view *v); /* zeroed is fine */
/* Row @row of @from is a dataset, of @n elements as mr_block_trace_picked() was told of them, or
 * unknown ones; the rows of @to, which nobody shares yet, are those from number @first on. */
void mr_block_trace_inside(mr_block *to, const mr_block *from, uint32_t row, uint32_t first,
                           uint32_t n);

bool mr_block_traced(const mr_block *block); /* false: of no row it is known */
/* Of row @row; its file is lent as long as the block is there. */
struct mr_record mr_block_record(const mr_block *block, uint32_t row);
/* @to, which is cleared by mr_record_clear(), was made of all rows of @block, too. */
void mr_record_add(struct mr_record *to, const mr_block *block);
void mr_record_clear(struct mr_record *record); /* zeroed is fine */

/*
 * Rows that are kept one by one, apart from the blocks that they came in, and leave in any order: each
 * has a number, whose owner keeps it. Zero-initialise it; mr_trace_log_forget() frees what it holds.
 * Threads: none; blocks that were made of its rows are as others.
 */
struct mr_trace_log {
    mr_trace *parts[3];
    uint32_t ends[2]; /* of the numbers of the first two; those of the third end at `next` */
    uint32_t next;
    size_t bytes; /* that it holds */
};
/* Rows of @block come: row r has the number of row 0, which is returned, + r. MR_TRACE_NO_ROW: nothing
 * is known of them. */
uint32_t mr_trace_log_add(struct mr_trace_log *log, const mr_block *block);
/* Row i of @to, which nobody shares yet, is the one with number @numbers[i]. */
void mr_block_trace_numbers(mr_block *to, const struct mr_trace_log *log, const uint32_t *numbers);
/* It is time for mr_trace_log_renew(), if @rows rows are there. */
bool mr_trace_log_is_due(const struct mr_trace_log *log, size_t rows);
/* What is held for rows that are there no more goes: @lists have the numbers of all that are, which
 * become others. */
struct mr_trace_numbers {
    uint32_t *of;
    size_t n;
};
void mr_trace_log_renew(struct mr_trace_log *log, const struct mr_trace_numbers *lists, size_t n);
/* Nothing is known any more of the rows that came. */
void mr_trace_log_forget(struct mr_trace_log *log);

/* "file 'x', record 3, offset 99", "file 'x', records 3 to 9, offset 99", "file 'x', row 3",
 * "file 'x'"; "" if that is not known.
 * What is more than @room bytes is cut off the path, in front, but for its last ones. */
#define MR_TRACE_TEXT 512
const char *mr_record_text(const struct mr_record *record, size_t room, char text[MR_TRACE_TEXT]);
