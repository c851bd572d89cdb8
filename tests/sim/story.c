#include "story.h"

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

void story_begin(struct sim *sim, int workers, int clients, int dataset, bool repeats)
{
    sim_add_workers(sim, workers);
    sim_add_clients(sim, clients);
    for (int i = 0; i < clients; i++) {
        story_plan(sim, i, "digits", dataset, true);
        sim->clients[i].plan.repeats = repeats;
    }
    sim_run_until(sim, 100);
    for (int i = 0; i < clients; i++) {
        sim_client_start(sim, &sim->clients[i]);
    }
}

void story_until_stored(struct sim *sim, const char *prefix)
{
    while (sim_store_count(sim, prefix) == 0) {
        assert_true(sim_step(sim));
        assert_true(sim->now < 100000);
    }
    mr_sim_skip(sim);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;

    for (; *text != '\0'; text++) {
        n += *text == '\n';
    }
    return n;
}

static const char *said_since(const struct sim *sim)
{
    return sim->transcript != NULL ? sim->transcript + sim->compared : "";
}

void mr_sim_expect(struct sim *sim, const char *lines)
{
    size_t n = count_lines(lines);

    while (sim->violation[0] == '\0' && count_lines(said_since(sim)) < n && sim->now < 4000000) {
        assert_true(sim_step(sim));
    }
    if (strcmp(said_since(sim), lines) != 0) {
        printf("--- said:\n%s--- expected:\n%s--- end\n", said_since(sim), lines);
        fail_msg("it was said otherwise");
    }
    assert_string_equal(sim->violation, "");
    sim->compared = sim->transcript_len;
}

void mr_sim_skip(struct sim *sim)
{
    sim->compared = sim->transcript_len;
}

void story_pause_leader(struct sim *sim, int64_t until)
{
    int leader = sim_leader(sim);

    sim->replicas[leader].process.frozen_until = until;
    sim_store_deafen(sim, &sim->replicas[leader], until + 1000 - sim->now);
    sim_store_depose(sim);
    while (sim_leader(sim) < 0 || sim_leader(sim) == leader) {
        assert_true(sim_step(sim));
        assert_true(sim->now < until);
    }
}

/* What was said since the last time, but for which splits somebody was given. */
static char *told_since(const struct sim *sim)
{
    char *told = mr_strdup(said_since(sim));
    char *to = told;

    assert_non_null(told);
    for (char *line = told; *line != '\0';) {
        size_t n = strcspn(line, "\n") + 1;
        char *splits = strstr(line, ", splits ");
        char *grants = strstr(line, ": grants ");

        if ((splits == NULL || splits > line + n) && (grants == NULL || grants > line + n)) {
            memmove(to, line, n);
            to += n;
        }
        line += n;
    }
    *to = '\0';
    return told;
}

void story_ends_well(struct sim *sim, int64_t by, const char *lines)
{
    sim_run_until(sim, by);
    sim_view_all_over(sim);
    char *told = told_since(sim);
    bool same = lines == NULL || strcmp(told, lines) == 0;

    if (!same || sim->violation[0] != '\0' || !sim_all_done(sim)) {
        printf("--- said:\n%s--- expected:\n%s--- end\n", told, lines != NULL ? lines : "");
    }
    mr_free(told);
    assert_string_equal(sim->violation, "");
    assert_true(sim_all_done(sim));
    assert_true(same);
    sim->compared = sim->transcript_len;
}
