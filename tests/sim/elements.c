/*
 * The judge's book of splits and elements, one view for each DYNAMIC iteration. It is written by
 * what is committed and by what workers and applications see; what it holds the cluster to:
 *
 *  at most once    no split is handed to two tasks, nor twice to one; no application gets an
 *                  element twice; without the loss of a worker or a reader each element is returned
 *                  exactly once
 *  at least once   a split is handed out again only if a task that had it is closed, and not if the
 *                  leader that hands it out was told that it is finished; an iteration that ends
 *                  without error has returned every element, but for those it says it gave up; no
 *                  element comes more often than its split was handed out, but for what lost
 *                  readers had; a split that kills its readers kills four at most
 *  both            the end tells of every split that nobody was given, and of every one that was
 *                  given again, and of as many lost elements as the lost splits have
 *
 * Of a job that reads a production: each element is returned once (more often only if a reader was
 * lost), not before it is settled which production that is; an end without error has returned all
 * but what was counted as skipped and what it says was lost; a reader that waits skips nothing
 * while somebody reads; a production is not gone while it is read.
 */
#include "sim.h"

#include <stdlib.h>

#define POISON_LIVES_MAX 4

/* Or a production, whose hidden iteration has its id. */
struct sim_view_job {
    struct sim_view_job *next;
    char id[64];
    int dataset;
    bool repeats, dynamic;
    bool gone;
};

struct handout {
    char task[128];
    uint64_t seq;
    int64_t finished_in; /* the memory that was told so; 0: none */
    bool given_back;     /* and not opened */
    bool taken_back;     /* which its task was told */
    int next;            /* of the same cell; -1: none */
};

/* A split; under at_most_once in one repetition, under at_least_once in all of them, which make the
 * same of it. */
struct cell {
    int last; /* hand-out; -1: none */
    uint32_t handed, returned, redelivered, skipped;
};

struct sim_view {
    struct sim_view *next;
    char id[64];
    bool repeats;
    bool finished;
    bool failed;         /* or was collected: its end promises nothing */
    char production[64]; /* that it reads; "": none */
    bool joining;
    const struct sim_view_job *job;
    const struct sim_dataset *dataset;
    size_t offset[SIM_PROVIDERS_MAX];
    struct cell *cells;
    size_t ncells;
    struct handout *handouts;
    size_t nhandouts, cap_handouts;
    unsigned crashes;
};

/* Or out of every reader's reach: the core says so, and that is told of as a loss. */
static bool workers_lost(const struct sim *sim)
{
    return sim->workers_lost || sim->rares[SIM_RARE_UNREACHABLE] > 0;
}

static bool readers_lost(const struct sim *sim)
{
    return sim->clients_lost || sim->rares[SIM_RARE_CLIENT_LOST] > 0;
}

static struct sim_view *find(const struct sim *sim, const char *iteration)
{
    return mr_map_get(&sim->views.by_iteration, iteration);
}

void sim_views_free(struct sim *sim)
{
    struct sim_view *view;
    struct sim_view_job *job;

    while ((view = sim->views.list) != NULL) {
        sim->views.list = view->next;
        mr_free(view->cells);
        mr_free(view->handouts);
        mr_free(view);
    }
    while ((job = sim->views.job_list) != NULL) {
        sim->views.job_list = job->next;
        mr_free(job);
    }
    mr_map_free(&sim->views.by_iteration);
    mr_map_free(&sim->views.jobs);
}

static struct sim_view_job *add_job(struct sim *sim, const char *id, const char *dataset_id)
{
    struct sim_view_job *job = mr_map_get(&sim->views.jobs, id);

    if (job != NULL) {
        return job;
    }
    job = sim_got(mr_calloc(1, sizeof *job));
    snprintf(job->id, sizeof job->id, "%s", id);
    job->dataset = sim_dataset_of(sim, dataset_id);
    job->next = sim->views.job_list;
    sim->views.job_list = job;
    mr_map_put(&sim->views.jobs, job->id, job, NULL);
    return job;
}

void sim_view_job(struct sim *sim, const Millrace__JobRecord *record)
{
    struct sim_view_job *job = add_job(sim, record->id, record->dataset_id);

    job->repeats = record->guarantee == MILLRACE__GUARANTEE__AT_LEAST_ONCE;
    job->dynamic = record->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC;
}

void sim_view_production(struct sim *sim, const Millrace__ProductionRecord *record)
{
    add_job(sim, record->id, record->dataset_id);
}

void sim_view_job_gone(struct sim *sim, const char *id)
{
    struct sim_view_job *job = id != NULL ? mr_map_get(&sim->views.jobs, id) : NULL;

    if (job != NULL) {
        job->gone = true;
    }
}

void sim_view_production_gone(struct sim *sim, const char *id)
{
    sim_rare(sim, SIM_RARE_PRODUCTION_OVER);
    for (const struct sim_view *view = sim->views.list; view != NULL; view = view->next) {
        if (strcmp(view->production, id) == 0 && !view->finished && !view->job->gone) {
            sim_violation(sim, "production %s is gone, and iteration %s reads it", id, view->id);
        }
    }
}

static struct sim_view *add_view(struct sim *sim, const char *id, const struct sim_view_job *job)
{
    struct sim_view *view = sim_got(mr_calloc(1, sizeof *view));

    snprintf(view->id, sizeof view->id, "%s", id);
    view->repeats = job->repeats;
    view->job = job;
    view->dataset = &sim->datasets[job->dataset];
    for (size_t p = 0; p < view->dataset->nproviders; p++) {
        view->offset[p] = view->ncells;
        view->ncells +=
            (size_t)view->dataset->splits[p] * (view->repeats ? 1 : view->dataset->passes);
    }
    view->cells = sim_got(mr_calloc(view->ncells, sizeof *view->cells));
    for (size_t i = 0; i < view->ncells; i++) {
        view->cells[i].last = -1;
    }
    view->next = sim->views.list;
    sim->views.list = view;
    mr_map_put(&sim->views.by_iteration, view->id, view, NULL);
    return view;
}

static void note_decision(struct sim *sim, const struct sim_view *view,
                          const Millrace__IterationRecord *it)
{
    bool shared = strcmp(view->production, it->production) == 0;

    sim_rare(sim, shared ? SIM_RARE_SHARED : SIM_RARE_APART);
    if (strtoll(it->id, NULL, 10) != sim_store_epoch(sim)) {
        sim_rare(sim, SIM_RARE_SHARED_BY_SUCCESSOR);
    }
    if (!shared) {
        sim_rare(sim, strstr(it->unshared, "below element") != NULL ? SIM_RARE_APART_TRIMMED
                      : strstr(it->unshared, "refuses") != NULL     ? SIM_RARE_APART_REFUSED
                      : strstr(it->unshared, "lost up to") != NULL  ? SIM_RARE_APART_LOST
                                                                    : SIM_RARE_APART_SILENT);
    }
}

static void note_sharing(struct sim *sim, struct sim_view *view,
                         const Millrace__IterationRecord *it)
{
    if (view->joining && !it->joining && !it->finished) {
        note_decision(sim, view, it);
    } else if (view->production[0] != '\0' && strcmp(view->production, it->production) != 0) {
        sim_violation(sim, "iteration %s reads another production than it did", it->id);
    }
    view->joining = it->joining;
    snprintf(view->production, sizeof view->production, "%s", it->production);
}

void sim_view_iteration(struct sim *sim, const Millrace__IterationRecord *it)
{
    const struct sim_view_job *job =
        mr_map_get(&sim->views.jobs, it->job_id[0] != '\0' ? it->job_id : it->id);
    struct sim_view *view = find(sim, it->id);

    if (it->n_providers == 0 && (it->production[0] == '\0' || job == NULL || !job->dynamic)) {
        return;
    }
    if (view == NULL && job == NULL) {
        sim_violation(sim, "iteration %s is of a job that does not exist", it->id);
        return;
    }
    if (view == NULL) {
        view = add_view(sim, it->id, job);
    }
    if (it->production[0] != '\0') {
        note_sharing(sim, view, it);
    }
    if (it->finished && !view->finished) {
        view->finished = true;
        view->failed = it->end != NULL && it->end->error[0] != '\0';
        sim_view_end(sim, it->id, it->end);
    }
}

static struct cell *cell_of(struct sim_view *view, size_t provider, uint64_t repetition,
                            uint64_t split)
{
    const struct sim_dataset *dataset = view->dataset;

    if (provider >= dataset->nproviders || split >= (uint64_t)dataset->splits[provider] ||
        repetition >= dataset->passes) {
        return NULL;
    }
    return &view->cells[view->offset[provider] + split +
                        (view->repeats ? 0 : repetition * (uint64_t)dataset->splits[provider])];
}

static struct cell *cell_in(struct sim_view *view, const struct sim_element *e)
{
    return view != NULL ? cell_of(view, e->provider, e->repetition, e->split) : NULL;
}

static uint32_t times_due(const struct sim_view *view)
{
    return view->repeats ? (uint32_t)view->dataset->passes : 1;
}

/* ---------------------------------------------------------------- splits */

/* The task is over for the dispatcher, by its own loss or its worker's. */
static bool is_closed(const struct sim *sim, const char *task)
{
    char key[192], ref[96];
    const char *slash = strchr(task, '/');

    snprintf(ref, sizeof ref, "%s", slash + 1);
    ref[strcspn(ref, "/")] = '\0';
    snprintf(key, sizeof key, "lost %s", ref);
    if (mr_map_get(&sim->committed, key) != NULL) {
        return true;
    }
    snprintf(key, sizeof key, "closed %s", task);
    return mr_map_get(&sim->committed, key) != NULL;
}

/* How often the split may be out: once for each time it is due, and once more for each hand-out
 * that came to nothing. */
static uint32_t allowed(const struct sim *sim, const struct sim_view *view, const struct cell *cell,
                        int64_t memory)
{
    uint32_t n = times_due(view);

    for (int i = cell->last; i >= 0; i = view->handouts[i].next) {
        const struct handout *h = &view->handouts[i];

        n += !h->given_back && is_closed(sim, h->task) && h->finished_in != memory ? 1 : 0;
    }
    return n;
}

static void hand_out(struct sim *sim, struct sim_view *view, struct cell *cell, const char *task,
                     uint64_t seq, int64_t memory)
{
    for (int i = cell->last; i >= 0; i = view->handouts[i].next) {
        if (view->handouts[i].seq == seq && strcmp(view->handouts[i].task, task) == 0) {
            return; /* the same answer, again */
        }
    }
    if (!view->repeats && cell->last >= 0 && cell->handed == 0) {
        sim_rare(sim, SIM_RARE_GIVEN_BACK_TAKEN);
    }
    if (!view->repeats && cell->handed > 0) {
        sim_violation(
            sim, "a split of iteration %s was handed out twice: in answer %" PRIu64 " to %s, too",
            view->id, seq, task);
    }
    if (view->repeats && cell->handed + 1 > allowed(sim, view, cell, memory)) {
        sim_violation(
            sim, "iteration %s: split %zu goes to %s while others have it, or have finished it",
            view->id, (size_t)(cell - view->cells), task);
    }
    if (view->repeats && cell->handed >= times_due(view)) {
        sim_rare(sim, SIM_RARE_GIVEN_AGAIN);
    }
    MORE(view->handouts, view->cap_handouts, view->nhandouts);
    struct handout *h = &view->handouts[view->nhandouts];

    *h = (struct handout){.seq = seq, .next = cell->last};
    snprintf(h->task, sizeof h->task, "%s", task);
    cell->last = (int)view->nhandouts++;
    cell->handed++;
}

void sim_view_granted(struct sim *sim, const char *iteration, const char *task, size_t provider,
                      const Millrace__GrantRecord *grant, int64_t memory)
{
    struct sim_view *view = find(sim, iteration);

    for (size_t i = 0; i < grant->n_ranges && view != NULL; i++) {
        for (uint64_t k = 0; k < grant->ranges[i]->count; k++) {
            struct cell *cell = cell_of(view, provider, grant->repetition + (uint64_t)grant->ahead,
                                        grant->ranges[i]->first + k);

            if (cell == NULL) {
                sim_violation(sim, "%s was given split %" PRIu64 ", which there is none of", task,
                              grant->ranges[i]->first + k);
                return;
            }
            hand_out(sim, view, cell, task, grant->seq, memory);
        }
    }
}

/* The newest hand-out of a split to @task that was (or was not) given back: older ones it has
 * opened. */
static struct handout *newest_handout(struct sim_view *view, const struct cell *cell,
                                      const char *task, bool given_back)
{
    for (int i = cell->last; i >= 0; i = view->handouts[i].next) {
        if (view->handouts[i].given_back == given_back &&
            strcmp(view->handouts[i].task, task) == 0) {
            return &view->handouts[i];
        }
    }
    return NULL;
}

void sim_view_gave_back(struct sim *sim, const struct sim_task *task,
                        const Millrace__GivenBackRange *back, bool really)
{
    struct sim_view *view = find(sim, task->iteration);

    for (uint64_t k = 0; k < back->count && view != NULL; k++) {
        struct cell *cell = cell_of(view, task->provider, back->repetition, back->first + k);
        struct handout *h = cell != NULL ? newest_handout(view, cell, task->id, !really) : NULL;

        if (h != NULL) {
            h->given_back = really;
            cell->handed += really ? -1u : 1u;
        }
    }
}

void sim_view_taken_back(struct sim *sim, const struct sim_task *task)
{
    struct sim_view *view = find(sim, task->iteration);

    for (size_t i = 0; view != NULL && i < view->nhandouts; i++) {
        struct handout *h = &view->handouts[i];

        h->taken_back = h->taken_back || (h->given_back && strcmp(h->task, task->id) == 0);
    }
}

bool sim_view_given_and_taken(struct sim *sim, const struct sim_task *task,
                              const Millrace__GetSplitsReply *reply)
{
    struct sim_view *view = find(sim, task->iteration);

    if (view == NULL || (!view->finished && !is_closed(sim, task->id))) {
        return false;
    }
    /* It will read them all the same, and they are given to somebody else. */
    for (size_t i = 0; i < reply->n_ranges; i++) {
        for (uint64_t k = 0; k < reply->ranges[i]->count; k++) {
            struct cell *cell =
                cell_of(view, task->provider, task->repetition + (uint64_t)reply->ahead,
                        reply->ranges[i]->first + k);

            if (cell != NULL) {
                cell->redelivered += view->repeats ? 1 : 0;
            }
        }
    }
    return true;
}

void sim_view_finished(struct sim *sim, const struct sim_task *task,
                       const Millrace__GrantReport *report, int64_t memory)
{
    struct sim_view *view = find(sim, task->iteration);

    for (size_t i = 0; i < report->n_finished && view != NULL; i++) {
        const Millrace__SplitRange *range = report->finished[i];

        for (size_t h = 0; h < view->nhandouts; h++) {
            struct handout *out = &view->handouts[h];

            if (out->seq >= range->first && out->seq - range->first < range->count &&
                strcmp(out->task, task->id) == 0) {
                out->finished_in = memory;
            }
        }
    }
}

void sim_view_crashed(struct sim *sim, const char *iteration)
{
    struct sim_view *view = find(sim, iteration);

    /* A loss that only readers have told of is no crash, as far as anybody can know. */
    if (view != NULL && ++view->crashes > POISON_LIVES_MAX + sim->rares[SIM_RARE_UNREACHABLE] &&
        view->repeats) {
        sim_violation(sim, "iteration %s: one split has killed %u workers", iteration,
                      view->crashes);
    }
}

/* ---------------------------------------------------------------- elements */

void sim_view_redelivered(struct sim *sim, const char *iteration, const struct sim_element *element)
{
    struct cell *cell = cell_in(find(sim, iteration), element);

    if (cell != NULL) {
        cell->redelivered++;
    }
}

void sim_view_returned(struct sim *sim, const char *iteration, const struct sim_element *element)
{
    struct sim_view *view = find(sim, iteration);
    struct cell *cell = cell_in(view, element);

    if (cell == NULL) {
        sim_violation(sim, "an element that there is none of was returned");
        return;
    }
    cell->returned++;
    if (view->repeats && cell->returned > times_due(view)) {
        sim_rare(sim, SIM_RARE_REPEATED);
    }
    if (view->production[0] != '\0' && view->joining) {
        sim_violation(sim, "iteration %s had an element before it had a production", iteration);
    }
    if (cell->returned > (view->production[0] != '\0' ? 1 : cell->handed) + cell->redelivered) {
        sim_violation(
            sim,
            "iteration %s: an element was returned %u times, and its split handed out %u times",
            iteration, cell->returned, cell->handed);
    }
}

void sim_view_skipped(struct sim *sim, const char *iteration, const struct sim_element *element,
                      bool held)
{
    struct cell *cell = cell_in(find(sim, iteration), element);

    sim_rare(sim, SIM_RARE_SKIPPED);
    if (cell != NULL) {
        cell->skipped++;
    }
    if (held) {
        sim_violation(sim, "iteration %s waits, and an element fell out of the window", iteration);
    }
}

/* ---------------------------------------------------------------- ends */

/* Every element comes from the production, but for what was counted. */
static void check_shared_end(struct sim *sim, const struct sim_view *view,
                             const Millrace__IterationEnd *end)
{
    uint64_t missing = 0;

    for (size_t i = 0; i < view->ncells; i++) {
        missing += view->cells[i].returned == 0 && view->cells[i].skipped == 0 ? 1 : 0;
    }
    /* What a worker that no reader reached went on to produce is not known. */
    if (missing > end->lost_splits && sim->rares[SIM_RARE_UNREACHABLE] == 0) {
        sim_violation(sim,
                      "iteration %s ended and %" PRIu64
                      " elements of its production were not returned; %" PRIu64
                      " splits are said to be lost",
                      view->id, missing, end->lost_splits);
    }
}

static uint64_t count_missing(const struct sim_view *view)
{
    uint64_t missing = 0;

    for (size_t i = 0; i < view->ncells; i++) {
        missing += view->cells[i].returned < times_due(view)
                       ? times_due(view) - view->cells[i].returned
                       : 0;
    }
    return missing;
}

/* What was given back is lost by nobody's loss: somebody is given it before the end. */
static void check_given_back(struct sim *sim, const struct sim_view *view)
{
    for (size_t i = 0; i < view->ncells; i++) {
        const struct cell *cell = &view->cells[i];

        if (cell->handed == 0 && cell->last >= 0 && view->handouts[cell->last].taken_back) {
            sim_violation(
                sim,
                "iteration %s ended, and nobody was given split %zu again, which %s had given back",
                view->id, i, view->handouts[cell->last].task);
        }
    }
}

/* The end is being committed. */
void sim_view_end(struct sim *sim, const char *iteration, const Millrace__IterationEnd *end)
{
    struct sim_view *view = find(sim, iteration);
    uint64_t missing;

    if (end == NULL) {
        sim_violation(sim, "iteration %s ends without saying how", iteration);
        return;
    }
    if (end->error_code < 0 && !workers_lost(sim)) {
        sim_violation(sim, "iteration %s failed, and no worker was lost: %s", iteration,
                      end->error);
    }
    if (view->production[0] != '\0' && !view->failed) {
        check_shared_end(sim, view, end);
    }
    if (!view->failed && view->production[0] == '\0') {
        check_given_back(sim, view);
    }
    if (!view->repeats || view->failed) {
        return;
    }
    missing = count_missing(view);
    if (missing > end->lost_splits || end->lost_splits != end->quarantined_splits) {
        sim_violation(sim,
                      "iteration %s ended and %" PRIu64
                      " elements were not returned; it says that %" PRIu64
                      " splits were lost, %" PRIu64 " of them given up",
                      iteration, missing, end->lost_splits, end->quarantined_splits);
    }
    if (end->quarantined_splits > 0) {
        sim_rare(sim, SIM_RARE_QUARANTINE);
    }
}

void sim_view_told(struct sim *sim, const char *iteration, const Millrace__IterationEnd *end)
{
    struct sim_view *view = find(sim, iteration);
    uint64_t unhanded = 0, again = 0;

    if (view == NULL) {
        return;
    }
    for (size_t i = 0; i < view->ncells && view->production[0] == '\0'; i++) {
        const struct cell *cell = &view->cells[i];

        unhanded += cell->handed < times_due(view) ? times_due(view) - cell->handed : 0;
        again += cell->handed > times_due(view) ? cell->handed - times_due(view) : 0;
    }
    if (unhanded > end->lost_splits && !view->failed) {
        sim_violation(sim,
                      "iteration %s ended with %" PRIu64
                      " splits that nobody was given and %" PRIu64 " lost",
                      iteration, unhanded, end->lost_splits);
    }
    if (end->lost_elements < SIM_SPLIT_ELEMENTS * end->lost_splits ||
        (view->dataset->nproviders == 1 &&
         end->lost_elements > SIM_SPLIT_ELEMENTS * end->lost_splits)) {
        sim_violation(sim,
                      "iteration %s ended with %" PRIu64 " splits lost, and %" PRIu64
                      " elements of them",
                      iteration, end->lost_splits, end->lost_elements);
    }
    if (again > end->repeated_splits) {
        sim_violation(
            sim, "iteration %s ended with %" PRIu64 " splits given again, and tells of %" PRIu64,
            iteration, again, end->repeated_splits);
    }
    if (!workers_lost(sim) &&
        (end->lost_splits != 0 || end->lost_workers != 0 || end->repeated_splits != 0)) {
        sim_violation(sim, "iteration %s counts losses, and no worker was lost", iteration);
    }
}

void sim_view_all_over(struct sim *sim)
{
    for (const struct sim_view *view = sim->views.list; view != NULL; view = view->next) {
        uint64_t missing = count_missing(view);

        if (!view->finished || view->repeats || view->failed || view->production[0] != '\0') {
            continue;
        }
        if (missing > 0) {
            sim_rare(sim, SIM_RARE_MISSING);
        }
        if (missing > 0 && !workers_lost(sim) && !readers_lost(sim)) {
            sim_violation(
                sim, "iteration %s: %" PRIu64 " elements were never returned, and nobody was lost",
                view->id, missing);
        }
    }
}
