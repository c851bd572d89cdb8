/*
 * Inside of trace*.c: the forms that a trace has.
 *
 * Nobody asks for a record unless something fails, so what is known is handed on by reference and
 * looked up when somebody asks: joins, choices and groups of rows cost what their blocks do, not
 * something for each row. Two limits hold that in bounds (mr_trace_settle()): a trace holds few
 * bytes for each row that it knows, and its references are a few deep. What is beyond them becomes
 * records.
 */
#pragma once

#include "element/internal.h"

struct mr_trace_file {
    _Atomic uint32_t refs;
    enum mr_trace_places places;
    char path[];
};

enum mr_trace_form {
    MR_TRACE_FILE,    /* rows of a file, one behind the other */
    MR_TRACE_RECORDS, /* any ones */
    MR_TRACE_ALIKE,   /* one record, for all rows there are */
    MR_TRACE_PACKED,  /* any ones, as bytes */
    MR_TRACE_JOINED,  /* the rows of the parts in turn */
    MR_TRACE_PICKED,  /* of row r, row picked[r] of the part */
    MR_TRACE_GROUPS,  /* of row r, rows [r * per, (r + 1) * per) of the part */
    MR_TRACE_ZIPPED,  /* of row r, row r of each part */
};

/* From row `first` on of @trace. */
struct mr_trace_part {
    mr_trace *trace; /* NULL: nothing is known */
    uint32_t first;
    uint32_t end : 31; /* JOINED: behind its last row, of all */
    uint32_t lent : 1; /* a part before it has the reference */
};

/* Where records of a file begin: a place for some of them, and how far the others are behind it. */
#define MR_STEPS_PER_PLACE 16u

struct mr_trace {
    _Atomic uint32_t refs;
    uint32_t rows;
    enum mr_trace_form form;
    uint32_t depth;         /* of references to other traces */
    size_t bytes;           /* with all that it holds, what is held twice counted twice */
    atomic_bool discharged; /* with all that it holds: others that have it need not look */
    struct mr_record first; /* FILE: row 0; ALIKE */
    uint32_t nparts;
    uint32_t per; /* GROUPS */
    struct mr_trace_part *parts;
    /* of the form; memory of the trace itself, but for `packed` and what `own` says */
    union {
        uint64_t
            *offsets; /* FILE, of each row; or, with steps, of every MR_STEPS_PER_PLACE; or NULL */
        struct mr_record *records;
        const uint32_t *picked;
        struct mr_trace_packed *packed;
    };
    uint16_t *steps;       /* FILE; or NULL */
    struct mr_record *own; /* what `records` are, if they are memory of their own */
};

/* With room for @nparts parts, which are none yet, and @size bytes behind them; NULL: no memory. */
mr_trace *mr_trace_new(enum mr_trace_form form, uint32_t rows, uint32_t nparts, size_t size);
/* With @rows records that are to be set and then held. */
mr_trace *mr_trace_new_records(uint32_t rows);
void mr_trace_hold_files(mr_trace *t);
/* Part @i becomes what is known of @block; @lent: so is a part before it. */
void mr_trace_set_part(mr_trace *t, uint32_t i, const mr_block *block, bool lent);
/* @t, or what takes its place where it holds too much or is too deep; NULL: no memory. */
mr_trace *mr_trace_settle(mr_trace *t);
/* The records of rows [@first, @first + @rows) of @t. */
mr_trace *mr_trace_flat(const mr_trace *t, uint32_t first, uint32_t rows);

/* Row @row of @t, which is no join and no choice. @c may be anywhere. */
struct mr_record mr_trace_at(const mr_trace *t, uint32_t row, struct mr_packed_cursor *c);
/* The trace below joins and choices that row *@at of @t is row *@at of, and so the @*n - 1 rows
 * behind it, which becomes fewer; NULL: nothing is known of them. */
const mr_trace *mr_trace_find(const mr_trace *t, uint32_t *at, uint32_t *n);
/* @to was made of @r, too. */
void mr_record_join(struct mr_record *to, const struct mr_record *r);

/* @c, whose trace is @t, is somewhere in it, or nowhere. */
struct mr_record mr_trace_packed_next(const mr_trace *t, uint32_t row, struct mr_packed_cursor *c);
void mr_trace_packed_discharge(mr_trace *t);
void mr_trace_packed_free(mr_trace *t);
