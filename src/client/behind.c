/* What operators stand behind a read, and so what may be known of its elements when they come out:
 * how the logs of an iterator begin. */
#include "base/sync.h"
#include "client/hand_log.h"
#include "client/round_log.h"
#include "dataset/graph.h"
#include "dataset/operator.h"
#include "ops/kernel.h"

/* Of what stands behind a read. Nobody writes a longer one by hand. */
#define STEPS_MAX 1024
/* ... where it is for an error's words alone. */
#define ROUND_STEPS_MAX 65536

static bool is_named(const mr_dataset *ds, const char *name)
{
    return strcmp(ds->op->name, name) == 0;
}

static bool is_one_of(const mr_dataset *ds, const char *const *names)
{
    while (*names != NULL && !is_named(ds, *names)) {
        names++;
    }
    return *names != NULL;
}

/* ---- one for one ---- */

static bool is_ordered(const mr_dataset *ds)
{
    const struct mr_attr *a = mr_attr_find(ds->attrs, ds->nattrs, "deterministic");

    return a == NULL || (a->kind == MR_ATTR_BOOL && a->i != 0);
}

/* Elements with numbers, which is what enumerate makes: the input that is not the numbers. */
static const mr_dataset *numbered(const mr_dataset *zip)
{
    const mr_dataset *found = NULL;

    for (size_t i = 0; i < zip->ninputs; i++) {
        if (is_named(zip->inputs[i], "range")) {
            continue;
        }
        if (found != NULL) {
            return NULL;
        }
        found = zip->inputs[i];
    }
    return found;
}

/* The input of which one element (or an error in its place) comes out of @ds for each that went in;
 * NULL: there is none. *@mixed is set where they may come in another order. */
static const mr_dataset *one_for_one(const mr_dataset *ds, bool *mixed)
{
    static const char *const names[] = {"map", "prefetch", "shuffle", "take", NULL};

    if (is_named(ds, "zip")) {
        return numbered(ds);
    }
    if (!is_one_of(ds, names)) {
        return NULL;
    }
    *mixed = *mixed || is_named(ds, "shuffle") || !is_ordered(ds);
    return ds->inputs[0];
}

/* ---- how well is known which elements of a read were used ---- */

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
    static const char *const names[] = {
        "prefetch",         "shuffle",    "window", "group_by_window",
        "group_by_reducer", "interleave", "cache",  NULL};

    return is_one_of(ds, names) || runs_in_parallel(ds);
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

    while (!is_read(below) && (next = one_for_one(below, &mixed)) != NULL) {
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

/* ---- of which round they are ---- */

static bool is_coordinated_read(const mr_dataset *ds)
{
    const struct mr_attr *n = mr_attr_find(ds->attrs, ds->nattrs, "num_consumers");

    return n != NULL && n->i > 0;
}

/* @steps are left: a graph whose nodes meet again has more paths than anybody can walk. */
static bool has_coordinated_read(const mr_dataset *ds, size_t *steps)
{
    if (is_coordinated_read(ds)) {
        return true;
    }
    for (size_t i = 0; *steps > 0 && i < ds->ninputs; i++) {
        --*steps;
        if (has_coordinated_read(ds->inputs[i], steps)) {
            return true;
        }
    }
    return false;
}

void mr_round_log_init(struct mr_round_log *log, const mr_dataset *ds)
{
    size_t steps = ROUND_STEPS_MAX;
    const mr_dataset *below;
    bool mixed = false;

    memset(log, 0, sizeof *log);
    mr_mutex_init(&log->lock);
    while (!is_coordinated_read(ds) && (below = one_for_one(ds, &mixed)) != NULL && !mixed) {
        ds = below;
    }
    log->follows = is_coordinated_read(ds);
    log->obstacle = !log->follows && has_coordinated_read(ds, &steps) ? ds->op->name : NULL;
}
