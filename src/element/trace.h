/*
 * Which records of which files the rows of a block come from: what errors about a row name. Blocks that hold the rows
 * of others as they are (slices, joins, permutations, a function's results for each row) hand it on; where rows are put
 * together (batch, zip of two files) or encoded, it is not known any more.
 *
 * It is for words only: where there is no memory for it, rows have none.
 *
 * Threads: functions on references from any thread; a trace is immutable once a block has it.
 */
#ifndef MR_ELEMENT_TRACE_H
#define MR_ELEMENT_TRACE_H

#include <millrace/block.h>

typedef struct mr_trace mr_trace;
typedef struct mr_trace_file mr_trace_file;

/* NULL: no memory. @uncompressed: offsets are of the bytes behind the decompression. */
mr_trace_file *mr_trace_file_new(const char *path, bool uncompressed);
void mr_trace_file_unref(mr_trace_file *file); /* NULL is fine */

/*
 * The rows of @block, which nobody shares yet, are records of @file (NULL: nothing happens), from number @record on;
 * record i begins at @offsets[i].
 */
void mr_block_trace(mr_block *block, mr_trace_file *file, uint64_t record, const uint64_t *offsets);
/* Row i of @to, which nobody shares yet, was made of row i of @from. */
void mr_block_trace_as(mr_block *to, const mr_block *from);
/* "file 'x', record 3, offset 99" of row @row; "" if that is not known. */
#define MR_TRACE_TEXT 512
const char *mr_block_row_text(const mr_block *block, uint32_t row, char text[MR_TRACE_TEXT]);

#endif
