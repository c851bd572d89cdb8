/*
 * Which records rows come from that lie packed in an array (rows.h), 16 bytes each: what does not
 * fit into them is not known. Zero-initialise it. It is for words only: where there is no memory
 * for it, rows have none.
 *
 * Threads: none.
 */
#pragma once

#include "element/trace.h"

struct mr_row_record;
struct mr_row_file;

#define MR_ROW_RECORD_BYTES 16u
#define MR_ROW_FILES_RECENT 32u

struct mr_row_records {
    struct mr_row_record *rows;
    size_t cap;
    struct mr_row_file *files; /* file 0 is none */
    uint32_t nfiles;
    uint32_t files_cap;
    uint32_t unused; /* a file of no row, chained; 0: there is none */
    uint32_t recent[MR_ROW_FILES_RECENT];
};

/* Room for @cap rows, of which the new ones have none. false: no memory. */
bool mr_row_records_grow(struct mr_row_records *r, size_t cap);
void mr_row_records_free(struct mr_row_records *r);

/* Row @i, which has none, comes from @record. */
void mr_row_records_set(struct mr_row_records *r, size_t i, const struct mr_record *record);
/* The file is lent until the row leaves. */
void mr_row_records_get(const struct mr_row_records *r, size_t i, struct mr_record *ret);
bool mr_row_records_know(const struct mr_row_records *r, size_t i);
/* Row @i leaves; row @last, behind which there is none, takes its place. Rows beyond the room have
 * none, here and above. */
void mr_row_records_remove(struct mr_row_records *r, size_t i, size_t last);
