/* What stands behind a read: how well is known which of its elements were used? */
#include "client/hand_log.h"

#include "client/steps.h"
#include "dataset/graph.h"
#include "dataset/operator.h"
#include "ops/kernel.h"

#include <string.h>

/* Of what stands behind a read. Nobody writes a longer one by hand. */
#define STEPS_MAX 1024

static bool is_named(const mr_dataset *ds, const char *name)
{
    return mr_steps_is_one_of(ds, (const char *const[]){name}, 1);
}

static bool runs_in_parallel(const mr_dataset *ds)
{
    const struct mr_attr *calls = mr_attr_find(ds->attrs, ds->nattrs, "num_parallel_calls");

    return calls != NULL && calls->i != 0;
}

static bool is_read(const mr_dataset *ds)
{
    return is_named(ds, "distribute") || is_named(ds, "from_dataset_id");
}

static bool holds_back(const mr_dataset *ds)
{
    static const char *const names[] = {"prefetch",        "shuffle",    "window",
                                        "group_by_window", "interleave", "cache"};

    return mr_steps_is_one_of(ds, names, sizeof names / sizeof names[0]) || runs_in_parallel(ds);
}

/* What is not read of a job without a name nobody else gets. */
static bool has_job_name(const mr_dataset *read)
{
    const struct mr_attr *name = mr_attr_find(read->attrs, read->nattrs, "job_name");

    return name != NULL && name->size > 0;
}

struct behind {
    /* so many are left: a graph whose nodes meet again has more paths than anybody can walk */
    size_t steps;
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
    behind->splits_elements |=
        behind->has_read && (is_named(ds, "flat_map") || is_named(ds, "unbatch"));
    behind->has_read |= had_read;
    return true;
}

/* A read of a job without a name is nobody else's: what is not used of it, nobody misses. */
static enum mr_hand_way find_way(const mr_dataset *ds, bool *splits_elements)
{
    struct behind behind = {.steps = STEPS_MAX};
    const mr_dataset *below = ds;
    const mr_dataset *next;
    bool mixed = false;

    while (!is_read(below) && (next = mr_steps_input(below, &mixed)) != NULL) {
        below = next;
    }
    if (is_read(below) && has_job_name(below)) {
        return mixed ? MR_HAND_MIXED : MR_HAND_IN_ORDER;
    }
    if (is_read(below) || !takes_what_it_needs(ds, &behind) || !behind.has_read) {
        return MR_HAND_UNKNOWN;
    }
    *splits_elements = behind.splits_elements;
    return MR_HAND_ONE_BY_ONE;
}

void mr_hand_log_init(struct mr_hand_log *log, const mr_dataset *ds)
{
    *log = (struct mr_hand_log){0};
    log->way = find_way(ds, &log->splits_elements);
}
