/*
 * Rows that are kept one by one and leave in any order: each is known by the number with which it
 * came, and nobody looks up what that means unless something fails.
 *
 * The blocks that came stand in a log, which grows while what left refers to it. When so many
 * have come that most of them must have left again, the next log begins, and rows that are from before
 * the one that ended become records: so nothing is held for long for a few rows.
 */
#include "element/trace_internal.h"

#include "base/sync.h"

enum { LEFT, BEFORE, NOW }; /* records; logs */

/* A log is not exchanged for fewer rows. */
#define ROWS_MIN 4096u
/* So often all rows may have left, at random, that few are of before: 1 in 50. */
#define TURNS 4

/* ---- the log that grows ---- */

static mr_trace *new_log(void)
{
    mr_trace *t = mr_trace_new(MR_TRACE_LOG, 0, 0, sizeof *t->growth);

    if (t != NULL) {
        t->growth = (struct mr_trace_growth *)(void *)(t + 1);
        t->growth->cap = 0;
        t->parts = NULL;
        t->shares = true;
        mr_mutex_init(&t->growth->lock);
    }
    return t;
}

/* @rows rows of @v come next, the first of them as number @begin of the log. */
static bool append(mr_trace *t, struct mr_trace_view v, uint32_t rows, uint32_t begin)
{
    MR_LOCK(&t->growth->lock);
    if (t->nparts == t->growth->cap) {
        uint32_t cap = t->growth->cap * 2 + 16;
        struct mr_trace_part *bigger = mr_reallocarray(t->parts, cap, sizeof *bigger);

        if (bigger == NULL) {
            return false;
        }
        t->bytes += (cap - t->growth->cap) * sizeof *bigger;
        t->parts = bigger;
        t->growth->cap = cap;
    }
    bool lent = t->nparts > 0 && t->parts[t->nparts - 1].of == v.of;

    mr_trace_set_part(t, t->nparts, v, 0, lent);
    t->parts[t->nparts++].end = (begin + rows) & INT32_MAX;
    return true;
}

/* ---- numbers ---- */

uint32_t mr_trace_log_add(struct mr_trace_log *log, const mr_block *block)
{
    const uint32_t first = log->next;
    mr_trace *now = log->parts[NOW];

    if (block->trace.of == NULL || block->rows > INT32_MAX - first) {
        return MR_TRACE_NO_ROW;
    }
    if (now == NULL) {
        now = log->parts[NOW] = new_log();
    }
    size_t bytes = mr_trace_bytes(now);
    if (now == NULL || !append(now, block->trace, block->rows, first - log->ends[BEFORE])) {
        return MR_TRACE_NO_ROW;
    }
    log->bytes += now->bytes - bytes;
    log->next += block->rows;
    return first;
}

static void set_parts(mr_trace *t, const struct mr_trace_log *log)
{
    const uint32_t ends[3] = {log->ends[LEFT], log->ends[BEFORE], INT32_MAX};

    for (uint32_t i = LEFT; i <= NOW; i++) {
        mr_trace_set_part(t, i, mr_trace_all(log->parts[i]), 0, false);
        t->parts[i].end = ends[i] & INT32_MAX;
    }
}

void mr_block_trace_numbers(mr_block *to, const struct mr_trace_log *log, const uint32_t *numbers)
{
    mr_trace *t = log->bytes > 0 ? mr_trace_new_picked(to->rows, 3) : NULL;

    if (t == NULL) {
        return;
    }
    size_t own = t->bytes;
    memcpy(t->picked, numbers, to->rows * sizeof *numbers);
    set_parts(t, log);
    t->bytes = own + to->rows * (log->bytes / MR_MAX(log->next, 1)); /* its rows' part */
    t->shares = true;
    mr_block_trace_forget(to);
    to->trace = mr_trace_all(t);
}

bool mr_trace_log_is_due(const struct mr_trace_log *log, size_t rows)
{
    return log->next - log->ends[BEFORE] >= MR_MAX(TURNS * rows, ROWS_MIN);
}

/* The records of rows that came before number @begin: a list, in the order of @lists. NULL: there
 * are none, or there is no memory for them. */
static mr_trace *list_old(const struct mr_trace_log *log, const struct mr_trace_numbers *lists,
                          size_t n, uint32_t begin)
{
    uint32_t rows = 0;

    for (size_t l = 0; l < n; l++) {
        for (size_t i = 0; i < lists[l].n; i++) {
            rows += lists[l].of[i] < begin;
        }
    }
    mr_trace *picked = rows > 0 ? mr_trace_new_picked(rows, 3) : NULL;
    if (picked == NULL) {
        return NULL;
    }
    set_parts(picked, log);
    uint32_t *to = picked->picked;
    for (size_t l = 0; l < n; l++) {
        for (size_t i = 0; i < lists[l].n; i++) {
            if (lists[l].of[i] < begin) {
                *to++ = lists[l].of[i];
            }
        }
    }
    mr_trace *list = mr_trace_flat(mr_trace_all(picked), rows);
    mr_trace_unref(picked);
    return list;
}

void mr_trace_log_renew(struct mr_trace_log *log, const struct mr_trace_numbers *lists, size_t n)
{
    const uint32_t begin = log->ends[BEFORE];
    mr_trace *old = list_old(log, lists, n, begin);
    const uint32_t kept = old != NULL ? old->rows : 0;
    uint32_t at = 0;

    for (size_t l = 0; l < n; l++) {
        for (size_t i = 0; i < lists[l].n; i++) {
            uint32_t *number = &lists[l].of[i];

            if (*number < begin) {
                *number = old != NULL ? at++ : MR_TRACE_NO_ROW;
            } else if (*number != MR_TRACE_NO_ROW) {
                *number = *number - begin + kept;
            }
        }
    }
    mr_trace_unref(log->parts[LEFT]);
    mr_trace_unref(log->parts[BEFORE]);
    log->parts[LEFT] = old;
    log->parts[BEFORE] = log->parts[NOW];
    log->parts[NOW] = NULL;
    log->next = log->next - begin + kept;
    log->ends[LEFT] = kept;
    log->ends[BEFORE] = log->next;
    log->bytes = mr_trace_bytes(old) + mr_trace_bytes(log->parts[BEFORE]);
}

void mr_trace_log_forget(struct mr_trace_log *log)
{
    for (uint32_t i = LEFT; i <= NOW; i++) {
        mr_trace_unref(log->parts[i]);
        log->parts[i] = NULL;
    }
    log->ends[LEFT] = log->ends[BEFORE] = log->next; /* numbers that were given are of nothing */
    log->bytes = 0;
}
