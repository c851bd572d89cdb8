#include "coord/budget.h"

#include "base/base.h"

void mr_budget_init(struct mr_budget *b, int64_t bytes_per_s, int64_t base_ms, int64_t max_ms,
                    uint64_t written, int64_t now_ms)
{
    MR_ASSERT(bytes_per_s > 0);
    MR_ASSERT(max_ms <= MR_BUDGET_INTERVAL_MS * (MR_BUDGET_INTERVALS - 1));
    *b = (struct mr_budget){.bytes_per_s = bytes_per_s,
                            .base_ms = base_ms,
                            .max_ms = max_ms,
                            .written = written,
                            .since_ms = now_ms,
                            .stretch_ms = base_ms};
}

static int64_t stretch_for(const struct mr_budget *b, int64_t now_ms)
{
    double round = 0;

    for (size_t i = 0; i < MR_BUDGET_INTERVALS; i++) {
        if (b->past[i].due_ms > now_ms) {
            round += (double)b->past[i].bytes;
        }
    }
    double ms = round * 1000 / (double)b->bytes_per_s;

    return ms < (double)b->base_ms ? b->base_ms : ms > (double)b->max_ms ? b->max_ms : (int64_t)ms;
}

void mr_budget_update(struct mr_budget *b, uint64_t written, int64_t now_ms)
{
    int64_t ms = now_ms - b->since_ms;
    uint64_t bytes = written - b->written;

    if (ms < MR_BUDGET_INTERVAL_MS) {
        return;
    }
    b->past[b->next].bytes = bytes;
    b->past[b->next].due_ms = now_ms + b->stretch_ms;
    b->next = (b->next + 1) % MR_BUDGET_INTERVALS;
    int64_t rate = (int64_t)((double)bytes * 1000 / (double)ms);

    b->rate = ms < 4 * MR_BUDGET_INTERVAL_MS ? (3 * b->rate + rate) / 4 : rate;
    b->written = written;
    b->since_ms = now_ms;
    b->stretch_ms = stretch_for(b, now_ms);
}

int64_t mr_budget_rate(const struct mr_budget *b)
{
    return b->rate;
}

int64_t mr_budget_stretch_ms(const struct mr_budget *b)
{
    return b->stretch_ms;
}
