#include "client/hand_log.h"

#include "dataset/graph.h"
#include "dataset/operator.h"

#include <string.h>

/* Of what stands behind a read. Nobody writes a longer one by hand. */
#define STEPS_MAX 1024

static bool is_named(const mr_dataset *ds, const char *name)
{
    return strcmp(ds->op->name, name) == 0;
}

static bool runs_in_parallel(const mr_dataset *ds)
{
    for (size_t i = 0; i < ds->nattrs; i++) {
        if (strcmp(ds->attrs[i].name, "num_parallel_calls") == 0) {
            return ds->attrs[i].i != 0;
        }
    }
    return false;
}

static bool is_read(const mr_dataset *ds)
{
    return is_named(ds, "distribute") || is_named(ds, "from_dataset_id");
}

static bool holds_back(const mr_dataset *ds)
{
    static const char *const names[] = {"prefetch", "shuffle", "window", "group_by_window", "interleave", "cache"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (is_named(ds, names[i])) {
            return true;
        }
    }
    return runs_in_parallel(ds);
}

/* What is not read of a job without a name nobody else gets. */
static bool has_job_name(const mr_dataset *read)
{
    for (size_t i = 0; i < read->nattrs; i++) {
        if (strcmp(read->attrs[i].name, "job_name") == 0) {
            return read->attrs[i].size > 0;
        }
    }
    return false;
}

struct behind {
    size_t steps; /* so many are left: a graph whose nodes meet again has more paths than anybody can walk */
    bool has_read;
    bool splits_elements;
};

/* false: an operator above a read that others share holds elements back, or nobody knows. */
static bool takes_what_it_needs(const mr_dataset *ds, struct behind *behind)
{
    if (behind->steps == 0) {
        return false;
    }
    behind->steps--;
    if (is_read(ds)) {
        behind->has_read = behind->has_read || has_job_name(ds);
        return true;
    }
    bool had_read = behind->has_read;

    behind->has_read = false;
    for (size_t i = 0; i < ds->ninputs; i++) {
        if (!takes_what_it_needs(ds->inputs[i], behind)) {
            return false;
        }
    }
    if (behind->has_read && holds_back(ds)) {
        return false;
    }
    behind->splits_elements |= behind->has_read && (is_named(ds, "flat_map") || is_named(ds, "unbatch"));
    behind->has_read |= had_read;
    return true;
}

void mr_hand_log_init(struct mr_hand_log *log, const mr_dataset *ds)
{
    const mr_dataset *below = ds;
    struct behind behind = {.steps = STEPS_MAX};

    atomic_init(&log->handed, 0);
    atomic_init(&log->unused, 0);
    atomic_init(&log->failed, false);
    atomic_init(&log->under_way, false);
    while (is_named(below, "take") || (is_named(below, "map") && !runs_in_parallel(below))) {
        below = below->inputs[0];
    }
    log->follows = is_read(below);
    log->one_by_one = !log->follows && takes_what_it_needs(ds, &behind) && behind.has_read;
    log->splits_elements = behind.splits_elements;
}

bool mr_hand_log_knows(const struct mr_hand_log *log)
{
    if (log->one_by_one) { /* Also an error in place of an element used what was taken for it. */
        return !log->splits_elements && !atomic_load(&log->under_way) && atomic_load(&log->unused) == 0;
    }
    return log->follows && !atomic_load(&log->failed);
}

uint64_t mr_hand_log_unused(const struct mr_hand_log *log, uint64_t taken, uint64_t max)
{
    uint64_t handed = atomic_load(&log->handed);
    uint64_t back = atomic_load(&log->unused);
    uint64_t used = handed > back ? handed - back : 0;
    uint64_t unused = !log->one_by_one && taken > used ? taken - used : 0;

    return unused < max ? unused : max;
}
