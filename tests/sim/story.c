#include "story.h"

#include "base/alloc.h"

#include <millrace/base.h>
#include <string.h>

int story_setup(void **state)
{
    struct sim *sim = mr_calloc(1, sizeof *sim);

    sim_init(sim, 0);
    sim->record = true;
    *state = sim;
    return 0;
}

int story_teardown(void **state)
{
    struct sim *sim = *state;

    sim_free(sim);
    mr_free(sim);
    return 0;
}

void story_plan(struct sim *sim, int client, const char *job, int dataset, bool dynamic)
{
    struct sim_plan *plan = &sim->clients[client].plan;

    snprintf(plan->job, sizeof plan->job, "%s", job);
    plan->dataset = dataset;
    plan->dynamic = dynamic;
    plan->repetitions = 1;
}

void story_until_stored(struct sim *sim, const char *prefix)
{
    for (;;) {
        for (size_t i = 0; i < sim->store.count; i++) {
            if (strncmp(sim->store.kvs[i].key, prefix, strlen(prefix)) == 0) {
                return;
            }
        }
        assert_true(sim_step(sim));
        assert_true(sim->now < 100000);
    }
}

void story_ends_well(struct sim *sim, int64_t by)
{
    sim_run_until(sim, by);
    sim_view_all_over(sim);
    if (sim->violation[0] != '\0' || !sim_all_done(sim)) {
        fputs(sim->transcript, stdout);
    }
    assert_string_equal(sim->violation, "");
    assert_true(sim_all_done(sim));
}
