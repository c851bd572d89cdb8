#include "worker/session/row_groups.h"

/* Rows in a row, as they came. */
struct run {
    mr_block *block;
    uint64_t first; /* index of its first row */
    uint32_t rows;
    size_t bytes;
};

struct mr_row_groups {
    uint32_t consumers;
    uint64_t rows;
    size_t bytes;
    struct run *runs; /* ascending, kept[0..n) */
    size_t n;
    size_t cap;
};

int mr_row_groups_new(uint32_t consumers, mr_row_groups **ret, mr_error *err)
{
    mr_row_groups *g = mr_calloc(1, sizeof *g);

    MR_CHECK_ALLOC(g, err);
    MR_ASSERT(consumers > 0);
    g->consumers = consumers;
    *ret = g;
    return MR_OK;
}

void mr_row_groups_free(mr_row_groups *g)
{
    if (g == NULL) {
        return;
    }
    for (size_t i = 0; i < g->n; i++) {
        mr_block_unref(g->runs[i].block);
    }
    mr_free(g->runs);
    mr_free(g);
}

/* Runs follow on each other up to the last row that came, and their bytes are counted. */
__attribute__((unused)) static bool check(const mr_row_groups *g)
{
    uint64_t next = g->n > 0 ? g->runs[0].first : g->rows;
    size_t bytes = 0;

    for (size_t i = 0; i < g->n && g->runs[i].first == next; i++) {
        next += g->runs[i].rows;
        bytes += g->runs[i].bytes;
    }
    return next == g->rows && bytes == g->bytes;
}

int mr_row_groups_add(mr_row_groups *g, mr_block *block, mr_error *err)
{
    uint32_t rows = mr_block_rows(block);

    if (rows == 0) {
        mr_block_unref(block);
        return MR_OK;
    }
    if (!mr_grow(&g->runs, &g->cap, g->n, 1, sizeof g->runs[0])) {
        mr_block_unref(block);
        return mr_error_nomem(err);
    }
    struct run *run = &g->runs[g->n++];

    *run = (struct run){.block = block,
                        .first = g->rows,
                        .rows = rows,
                        .bytes = mr_block_row_bytes(block, 0, rows)};
    g->rows += rows;
    g->bytes += run->bytes;
    MR_ASSERT_SLOW(check(g));
    return MR_OK;
}

/* The run that has row @index. */
static const struct run *find(const mr_row_groups *g, uint64_t index)
{
    size_t low = 0;
    size_t high = g->n;

    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;

        if (g->runs[mid].first <= index) {
            low = mid;
        } else {
            high = mid;
        }
    }
    MR_ASSERT(high > low);
    MR_ASSERT(index >= g->runs[low].first && index - g->runs[low].first < g->runs[low].rows);
    return &g->runs[low];
}

static int row_at(const mr_row_groups *g, uint64_t index, mr_block **ret, mr_error *err)
{
    const struct run *run = find(g, index);

    return mr_block_slice(run->block, (uint32_t)(index - run->first), 1, ret, err);
}

int mr_row_groups_finish(mr_row_groups *g, bool pad, mr_error *err)
{
    uint64_t whole = mr_row_groups_whole(g) * g->consumers;
    uint64_t over = g->rows - whole;
    uint64_t missing = over == 0 || !pad ? 0 : g->consumers - over;

    /* Dropped rows stay until the rest goes: no whole group has them. */
    for (uint64_t i = 0; i < missing; i++) {
        mr_block *row;

        MR_TRY(row_at(g, whole + i % over, &row, err));
        MR_TRY(mr_row_groups_add(g, row, err));
    }
    return MR_OK;
}

uint64_t mr_row_groups_whole(const mr_row_groups *g)
{
    return g->rows / g->consumers;
}

uint64_t mr_row_groups_rows(const mr_row_groups *g)
{
    return g->rows;
}

size_t mr_row_groups_bytes(const mr_row_groups *g)
{
    return g->bytes;
}

int mr_row_groups_element(const mr_row_groups *g, uint64_t ordinal, uint32_t consumer,
                          mr_block **ret, mr_error *err)
{
    MR_ASSERT(consumer < g->consumers);
    MR_ASSERT(ordinal < mr_row_groups_whole(g));
    return row_at(g, ordinal * g->consumers + consumer, ret, err);
}

void mr_row_groups_drop(mr_row_groups *g, uint64_t ordinal)
{
    uint64_t from = ordinal * g->consumers;
    size_t gone = 0;

    while (gone < g->n && g->runs[gone].first + g->runs[gone].rows <= from) {
        g->bytes -= g->runs[gone].bytes;
        mr_block_unref(g->runs[gone].block);
        gone++;
    }
    if (gone == 0) {
        return;
    }
    g->n -= gone;
    memmove(g->runs, g->runs + gone, g->n * sizeof g->runs[0]);
}
