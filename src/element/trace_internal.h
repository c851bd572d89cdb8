/* Inside of trace.c and trace_pack.c: the forms that a trace has. */
#pragma once

#include "element/internal.h"

struct mr_trace_file {
    _Atomic uint32_t refs;
    bool uncompressed;
    char path[];
};

/* What is known of one of the blocks that were zipped, or joined: of its row r, its record `first`
 * + r. */
struct mr_trace_part {
    mr_trace *trace; /* one reference; NULL: nothing */
    uint32_t first;
    uint32_t end; /* if joined: behind its last row */
};

/* Of a block as it was read (offsets) or zipped (parts), which is small, or of any rows (records,
 * or packed). */
struct mr_trace {
    _Atomic uint32_t refs;
    uint32_t rows;
    atomic_bool discharged; /* with all that it holds: others that have it need not look */
    bool alike; /* records: one, for all rows there are; else those of the first `rows` */
    struct mr_record first; /* offsets: row 0 */
    uint64_t *offsets;      /* or NULL */
    struct mr_record *records;
    struct mr_trace_part *parts;
    uint32_t nparts;
    bool joined;                    /* the parts: their rows in turn */
    struct mr_trace_packed *packed; /* or NULL */
    struct mr_record *own;          /* what `records` are, if they are memory of their own */
    /* one reference, or NULL: of row r, its records groups_first + r * per, `per` of them */
    mr_trace *groups;
    uint32_t groups_first;
    uint32_t per;
};

/* With room for @size bytes a row behind it, or for each of something else. */
mr_trace *mr_trace_new(uint32_t rows, size_t size);
/* With @rows records that are to be set and then held. */
mr_trace *mr_trace_new_records(uint32_t rows);
void mr_trace_hold_files(mr_trace *t);
/* @to was made of @r, too. */
void mr_record_join(struct mr_record *to, const struct mr_record *r);

/* @c, whose trace is not looked at, is somewhere in @t, or nowhere. */
struct mr_record mr_trace_packed_next(const mr_trace *t, uint32_t row, struct mr_record_cursor *c);
size_t mr_trace_packed_bytes(const mr_trace *t); /* 0: it is in another form, here and below */
void mr_trace_packed_discharge(mr_trace *t);
void mr_trace_packed_free(mr_trace *t);
