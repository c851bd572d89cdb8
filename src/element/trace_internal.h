/*
 * Inside of trace*.c: the forms that a trace has.
 *
 * Nobody asks for a record unless something fails, so what is known is handed on by reference and
 * looked up when somebody asks. What takes rows that follow one another, puts them together or cuts
 * them needs no trace of its own: it sees the same one through other numbers (struct mr_trace_view).
 * Joins and choices of rows cost what their blocks do, and at most a number for each row. Two limits
 * hold that in bounds (mr_trace_settle()): a trace holds few bytes for each row that it knows, and
 * its references are a few deep. What is beyond them becomes records.
 */
#pragma once

#include "element/internal.h"

#include <pthread.h>

struct mr_trace_file {
    _Atomic uint32_t refs;
    enum mr_trace_places places;
    char path[];
};

enum mr_trace_form {
    MR_TRACE_FILE,    /* rows of a file, one behind the other */
    MR_TRACE_RECORDS, /* any ones */
    MR_TRACE_PACKED,  /* any ones, as bytes */
    MR_TRACE_JOINED,  /* the rows of the parts in turn, or those of them that `picked` says */
    MR_TRACE_LOG,     /* the rows of the parts in turn; more are added while others look */
    MR_TRACE_ZIPPED,  /* of row r, row r of each part */
};

/* Rows of `of`, as a view (struct mr_trace_view) has them. */
struct mr_trace_part {
    mr_trace *of; /* NULL: nothing is known */
    uint32_t first;
    uint32_t step;
    uint32_t per;
    uint32_t end : 31; /* JOINED, LOG: behind its last row, of all */
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
    bool shares;            /* of a log it counts no more than its rows' part */
    bool inside;            /* its rows are elements of datasets, which those who look at it are */
    atomic_bool discharged; /* with all that it holds: others that have it need not look */
    struct mr_record first; /* FILE: row 0 */
    uint32_t nparts;
    struct mr_trace_part *parts;
    /* of the form; memory of the trace itself, but for what `own` says */
    union {
        uint64_t
            *offsets; /* FILE, of each row; or, with steps, of every MR_STEPS_PER_PLACE; or NULL */
        struct mr_record *records;
        uint32_t *picked; /* JOINED; or NULL */
        struct mr_trace_packed *packed;
        struct mr_trace_growth *growth; /* LOG */
    };
    uint16_t *steps;       /* FILE; or NULL */
    struct mr_record *own; /* what `records` are, if they are memory of their own */
};

/* Of a log: its parts are memory of their own. */
struct mr_trace_growth {
    pthread_mutex_t lock; /* guards the parts, `nparts` and `bytes` */
    uint32_t cap;
};

/* With room for @nparts parts, which are none yet, and @size bytes behind them; NULL: no memory. */
mr_trace *mr_trace_new(enum mr_trace_form form, uint32_t rows, uint32_t nparts, size_t size);
/* With @rows records that are to be set and then held. */
mr_trace *mr_trace_new_records(uint32_t rows);
void mr_trace_hold_files(mr_trace *t);
/* A join that picks @rows rows, whose numbers are to be set, of @nparts parts. */
mr_trace *mr_trace_new_picked(uint32_t rows, uint32_t nparts);
/* Part @i becomes rows of @v from row @row on; @lent: so is a part before it. */
void mr_trace_set_part(mr_trace *t, uint32_t i, struct mr_trace_view v, uint32_t row, bool lent);
/* @t, which stands for @rows rows that were read, or what takes its place where it holds too much or
 * is too deep; NULL: no memory. */
mr_trace *mr_trace_settle(mr_trace *t, uint64_t rows);
bool mr_trace_is_settled(const mr_trace *t, uint64_t rows);
/* The records of the first @rows rows of @v. */
mr_trace *mr_trace_flat(struct mr_trace_view v, uint32_t rows);

/* @all was made of rows [@row, @row + @n) of @v, too. */
void mr_trace_join(struct mr_trace_view v, uint32_t row, uint32_t n, struct mr_record *all);
/* What each of them was made of. */
typedef void mr_trace_take(void *ctx, const struct mr_record *record);
void mr_trace_each(struct mr_trace_view v, uint32_t row, uint32_t n, mr_trace_take *take,
                   void *ctx);
void mr_record_join(struct mr_record *to, const struct mr_record *r);

/* Of packed rows [@row, @row + @n); those that nobody can read are not known. */
void mr_trace_packed_each(const mr_trace *t, uint32_t row, uint32_t n, mr_trace_take *take,
                          void *ctx);
void mr_trace_packed_discharge(const mr_trace *t);
void mr_trace_packed_free(mr_trace *t);

static inline struct mr_trace_view mr_trace_view_of(const struct mr_trace_part *p)
{
    return (struct mr_trace_view){.of = p->of, .first = p->first, .step = p->step, .per = p->per};
}

static inline struct mr_trace_view mr_trace_all(mr_trace *t)
{
    return (struct mr_trace_view){.of = t, .step = 1, .per = 1};
}
