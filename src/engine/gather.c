#include "engine/gather.h"

/* What is counted is what is there. */
static bool is_sound(const struct mr_gather *g)
{
    uint64_t rows = 0;
    size_t bytes = 0;

    for (size_t i = g->head; i < g->n; i++) {
        const struct mr_block_part *p = &g->parts[i];

        rows += p->count;
        bytes += mr_block_row_bytes(p->block, p->first, p->count); /* asserts that they are there */
    }
    return g->head <= g->n && g->n <= g->cap && rows == g->rows && bytes == g->bytes;
}

int mr_gather_reserve(struct mr_gather *g, mr_error *err)
{
    if (g->n < g->cap) {
        return MR_OK;
    }
    if (g->head > 0 && g->head >= g->cap / 2) {
        memmove(g->parts, g->parts + g->head, (g->n - g->head) * sizeof *g->parts);
        g->n -= g->head;
        g->head = 0;
        return MR_OK;
    }
    size_t cap = g->cap * 2 + 16;
    struct mr_block_part *bigger = mr_reallocarray(g->parts, cap, sizeof *bigger);
    MR_CHECK_ALLOC(bigger, err);
    g->parts = bigger;
    g->cap = cap;
    return MR_OK;
}

int mr_gather_add(struct mr_gather *g, mr_block *block, uint32_t first, uint32_t count,
                  mr_error *err)
{
    if (g->n > g->head) {
        struct mr_block_part *last = &g->parts[g->n - 1];

        if (last->block == block && last->first + last->count == first) {
            last->count += count;
            goto counted;
        }
    }
    MR_TRY(mr_gather_reserve(g, err));
    g->parts[g->n++] =
        (struct mr_block_part){.block = mr_block_ref(block), .first = first, .count = count};

counted:
    g->rows += count;
    g->bytes += mr_block_row_bytes(block, first, count);
    return MR_OK;
}

static bool same_ranks(const mr_block *a, const mr_block *b)
{
    uint32_t n = mr_block_column_count(a);

    for (uint32_t i = 0; i < n; i++) {
        if (mr_block_column(a, i)->rank != mr_block_column(b, i)->rank) {
            return false;
        }
    }
    return true;
}

/* The first @rows rows, which are all of the first @nparts parts, or all but some of the last. */
static int join(const struct mr_gather *g, size_t nparts, uint32_t rows, mr_block **ret,
                mr_error *err)
{
    struct mr_block_part *parts = g->parts + g->head;
    struct mr_block_part *last = &parts[nparts - 1];

    if (nparts == 1) {
        return mr_block_slice(parts->block, parts->first, rows, ret, err);
    }
    const uint32_t count = last->count;
    uint32_t before = 0;
    for (size_t i = 0; i + 1 < nparts; i++) {
        before += parts[i].count;
    }
    last->count = rows - before;
    int rc = mr_block_concat_parts(parts, nparts, ret, err);
    last->count = count;
    return rc;
}

void mr_gather_drop(struct mr_gather *g, uint64_t rows)
{
    MR_ASSERT(rows <= g->rows);
    MR_ASSERT_SLOW(is_sound(g));
    g->rows -= rows;
    while (rows > 0) {
        struct mr_block_part *p = &g->parts[g->head];
        uint32_t count = p->count < rows ? p->count : (uint32_t)rows;

        g->bytes -= mr_block_row_bytes(p->block, p->first, count);
        p->first += count;
        p->count -= count;
        rows -= count;
        if (p->count == 0) {
            mr_block_unref(p->block);
            g->head++;
        }
    }
    if (g->head == g->n) {
        g->head = 0;
        g->n = 0;
        g->bytes = 0;
    }
}

int mr_gather_pick(const struct mr_gather *g, uint64_t step, uint64_t n, struct mr_gather *to,
                   mr_error *err)
{
    uint64_t next = 0; /* row of @g to pick */
    uint64_t begin = 0;
    int rc = MR_OK;

    for (size_t i = g->head; i < g->n && n > 0 && rc == MR_OK; i++) {
        const struct mr_block_part *p = &g->parts[i];

        while (n > 0 && next < begin + p->count && rc == MR_OK) {
            uint64_t left = begin + p->count - next;
            uint32_t count = step > 1 ? 1 : (uint32_t)MR_MIN(n, left);

            rc = mr_gather_add(to, p->block, p->first + (uint32_t)(next - begin), count, err);
            n -= count;
            next += count == 1 ? step : count;
        }
        begin += p->count;
    }
    return rc;
}

int mr_gather_look(const struct mr_gather *g, uint32_t rows, mr_block **ret, mr_error *err)
{
    size_t nparts = 0;
    uint32_t got = 0;

    while (got < rows && g->head + nparts < g->n) {
        const struct mr_block_part *p = &g->parts[g->head + nparts];

        if (nparts > 0 && !same_ranks(g->parts[g->head].block, p->block)) {
            break;
        }
        got += MR_MIN(p->count, rows - got);
        nparts++;
    }

    return join(g, nparts, got, ret, err);
}

int mr_gather_take(struct mr_gather *g, uint32_t rows, mr_block **ret, mr_error *err)
{
    MR_TRY(mr_gather_look(g, rows, ret, err));
    mr_gather_drop(g, mr_block_rows(*ret));
    return MR_OK;
}

void mr_gather_clear(struct mr_gather *g)
{
    for (size_t i = g->head; i < g->n; i++) {
        mr_block_unref(g->parts[i].block);
    }
    g->head = 0;
    g->n = 0;
    g->rows = 0;
    g->bytes = 0;
}

void mr_gather_free(struct mr_gather *g)
{
    mr_gather_clear(g);
    mr_free(g->parts);
    *g = (struct mr_gather){0};
}

int mr_gather_state(struct mr_gather *g, const mr_spec *spec, struct mr_state *s, mr_error *err)
{
    uint64_t parts = g->n - g->head;

    MR_TRY(mr_state_count(s, &parts, err));
    for (uint64_t i = 0; i < parts; i++) {
        MR_AUTO(mr_block_unref) mr_block *rows = NULL;

        if (!s->restores) {
            const struct mr_block_part *p = &g->parts[g->head + i];

            MR_TRY(mr_block_slice(p->block, p->first, p->count, &rows, err));
        }
        MR_TRY(mr_state_block(s, &rows, spec, err));
        if (rows == NULL || mr_block_rows(rows) == 0) {
            return mr_state_damaged(err);
        }
        MR_TRY(s->restores ? mr_gather_add(g, rows, 0, mr_block_rows(rows), err) : MR_OK);
    }
    return MR_OK;
}
