#include "story.h"

#include "base/buf.h"

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

const char *story_said(const struct sim *sim)
{
    return sim->transcript.len > 0 ? (const char *)sim->transcript.data : "";
}

static const char *said_since(const struct sim *sim)
{
    return story_said(sim) + sim->compared;
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
    sim->compared = sim->transcript.len;
}

void mr_sim_skip(struct sim *sim)
{
    sim->compared = sim->transcript.len;
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
    sim->compared = sim->transcript.len;
}

void story_join(struct sim *sim, int workers, int clients, int dataset, bool repeats)
{
    sim_add_workers(sim, workers);
    sim_add_clients(sim, clients);
    for (int i = 0; i < clients; i++) {
        story_plan(sim, i, "digits", dataset, true);
        sim->clients[i].plan.repeats = repeats;
    }
}

/* mr_sim_expect(), and frees the lines. */
static void expect_built(struct sim *sim, struct mr_buf *lines)
{
    mr_sim_expect(sim, (const char *)lines->data);
    mr_buf_free(lines);
}

void story_start(struct sim *sim)
{
    struct mr_buf said = MR_BUF_INIT;

    for (int i = 0; i < sim->nworkers; i++) {
        mr_buf_printf(&said, "[      0] worker %d: starts at host%d:1\n", i, i);
    }
    mr_buf_printf(&said, "[     13] dispatcher 0: leads\n");
    for (int i = 0; i < sim->nworkers; i++) {
        mr_buf_printf(&said, "[     17] worker w%d.1 at host%d:1: registered\n", i, i);
    }
    sim_run_until(sim, 100);
    for (int i = 0; i < sim->nclients; i++) {
        sim_client_start(sim, &sim->clients[i]);
        mr_buf_printf(&said, "[    100] client %d: starts\n", i);
    }
    expect_built(sim, &said);
}

void story_begin(struct sim *sim, int workers, int clients, int dataset, bool repeats)
{
    const char *name = sim->datasets[dataset].id;
    int iteration = 2 + workers; /* ids are counted */
    struct mr_buf said = MR_BUF_INIT;

    story_join(sim, workers, clients, dataset, repeats);
    story_start(sim);
    mr_buf_printf(&said, "[    101] dataset %s: registered, %s\n", name, name);
    mr_buf_printf(&said, "%s[    104] job digits: created, DYNAMIC%s\n",
                  repeats ? "[    104] the state uses at_least_once: older versions refuse it from "
                            "now on\n"
                          : "",
                  repeats ? ", at_least_once" : "");
    mr_buf_printf(&said, "[    104] iteration 3.%d: repetition 0 of job digits\n", iteration);
    for (int i = 0; i < clients; i++) {
        mr_buf_printf(&said, "[    104] client c%d: attached to iteration 3.%d\n", i, iteration);
    }
    expect_built(sim, &said);
}

void story_read(struct sim *sim, int workers, int clients, int dataset, bool repeats)
{
    story_begin(sim, workers, clients, dataset, repeats);
    story_until_stored(sim, "grants/");
}
