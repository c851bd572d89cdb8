/*
 * Productions on a worker. Nothing leaves the producing task's log, and [head, nlog) is the window.
 * A reading task has a cursor in the log of its production, and no splits;
 * what it takes from there goes through its sessions as that of any other task does, and is kept
 * until it was returned.
 *
 * Production is driven by the fastest reader. A reader that waits, or that is joining, holds the
 * window; the others skip to its start.
 */
#include "grow.h"
#include "sim.h"

#include "base/alloc.h"
#include "base/assert.h"

#include <string.h>

#define AHEAD_MAX 16 /* of the fastest reader */

struct sim_task *sim_share_producing(struct sim_worker *worker, const struct sim_task *reading)
{
    for (struct sim_task *task = NULL; (task = sim_next_task(worker, task)) != NULL;) {
        if (task->producing && strcmp(task->production, reading->production) == 0) {
            return task;
        }
    }
    return NULL;
}

/* The reading tasks of @log one after the other; NULL after the last. */
static struct sim_task *next_reader(struct sim_worker *worker, const struct sim_task *log,
                                    struct sim_task *after)
{
    struct sim_task *task = sim_next_task(worker, after);

    while (task != NULL && !(task->reads && strcmp(task->production, log->production) == 0)) {
        task = sim_next_task(worker, task);
    }
    return task;
}

static bool holds_window(const struct sim *sim, const struct sim_task *reading)
{
    if (reading->joining) {
        return sim->bug != SIM_BUG_JOIN_UNPINNED;
    }
    return reading->waits && !reading->unread && sim->bug != SIM_BUG_LAG_IGNORED;
}

/* ---------------------------------------------------------------- the window */

static void skip_to(struct sim *sim, struct sim_task *log, struct sim_task *reading, bool held)
{
    while (reading->cursor < log->head) {
        if (!reading->joining && sim->bug != SIM_BUG_SKIP_UNCOUNTED) {
            sim_view_skipped(sim, reading->iteration, sim_task_logged(log, reading->cursor), held);
            reading->skipped++;
        }
        reading->cursor++;
    }
}

static void trim(struct sim *sim, struct sim_worker *worker, struct sim_task *log)
{
    size_t head = log->nlog > log->window ? log->nlog - log->window : 0;

    for (struct sim_task *r = next_reader(worker, log, NULL); r != NULL;
         r = next_reader(worker, log, r)) {
        if (r->open && holds_window(sim, r) && r->cursor < head) {
            sim_rare(sim, SIM_RARE_HELD_UP);
            head = r->cursor;
        } else if (r->open && r->waits && r->cursor < head) {
            sim_rare(sim, SIM_RARE_UNREAD);
        }
    }
    if (head <= log->head) {
        return;
    }
    log->head = head;
    for (struct sim_task *r = next_reader(worker, log, NULL); r != NULL;
         r = next_reader(worker, log, r)) {
        skip_to(sim, log, r, r->waits && !r->unread);
    }
}

bool sim_share_wants_more(struct sim *sim, struct sim_worker *worker, struct sim_task *log)
{
    size_t fastest = 0;
    bool read = false;

    trim(sim, worker, log);
    for (struct sim_task *r = next_reader(worker, log, NULL); r != NULL;
         r = next_reader(worker, log, r)) {
        read = true;
        fastest = r->cursor > fastest ? r->cursor : fastest;
    }
    return read && log->nlog < fastest + AHEAD_MAX && log->nlog - log->head < 2 * log->window;
}

static void wake_readers(struct sim *sim, struct sim_worker *worker, struct sim_task *log)
{
    for (struct sim_task *r = next_reader(worker, log, NULL); r != NULL;
         r = next_reader(worker, log, r)) {
        sim_task_go_on(sim, worker, r);
    }
}

void sim_share_complete(struct sim *sim, struct sim_worker *worker, struct sim_task *log)
{
    log->complete = true;
    wake_readers(sim, worker, log);
}

/* ---------------------------------------------------------------- reading */

bool sim_share_is_read(struct sim_worker *worker, struct sim_task *reading)
{
    const struct sim_task *log = sim_share_producing(worker, reading);

    return log != NULL && reading->open && !reading->joining && log->complete &&
           reading->cursor >= log->nlog;
}

void sim_share_pull(struct sim *sim, struct sim_worker *worker, struct sim_task *reading, size_t n)
{
    struct sim_task *log = sim_share_producing(worker, reading);

    if (log == NULL || !reading->open || (reading->joining && sim->bug != SIM_BUG_JOIN_DELIVERS)) {
        return;
    }
    for (; n > 0 && reading->cursor < log->nlog; n--) {
        uint64_t at = reading->cursor;

        if (sim->bug == SIM_BUG_JOIN_DELIVERS && at < reading->fed) {
            at = reading->fed; /* of another log before: the book would not have it */
        }
        reading->fed = at + 1;
        sim_task_put(reading, sim_task_logged(log, reading->cursor++), at);
    }
    trim(sim, worker, log);
    sim_task_go_on(sim, worker, log);
}

/* ---------------------------------------------------------------- tasks come, change and go */

void sim_share_begin(struct sim *sim, struct sim_task *task,
                     const Millrace__TaskAssignment *assignment)
{
    snprintf(task->production, sizeof task->production, "%s", assignment->production);
    task->producing = assignment->producing;
    task->reads = !task->producing && assignment->production[0] != '\0';
    task->joining = assignment->joining;
    task->unread = assignment->unread;
    task->waits = assignment->lag == MILLRACE__LAG__LAG_WAIT;
    task->window = sim->plain || sim_chance(sim, 50) ? 1000 : sim->window;
}

/* Something of a task that the worker has is new. */
void sim_share_change(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                      const Millrace__TaskAssignment *assignment)
{
    bool moved = strcmp(task->production, assignment->production) != 0;

    if (!task->reads) {
        return;
    }
    if (moved && !task->joining) {
        sim_violation(sim, "task %s reads another production than it was to", task->id);
    }
    task->unread = assignment->unread;
    task->joining = assignment->joining;
    if (moved) {
        snprintf(task->production, sizeof task->production, "%s", assignment->production);
        task->open = false;
        task->cursor = 0;
    }
    sim_task_go_on(sim, worker, task);
}

static struct sim_place *find_place(struct sim_task *log, const char *iteration)
{
    for (size_t i = 0; i < log->nplaces; i++) {
        if (strcmp(log->places[i].iteration, iteration) == 0) {
            return &log->places[i];
        }
    }
    return NULL;
}

void sim_share_put_down(struct sim_worker *worker, const struct sim_task *reading)
{
    struct sim_task *log = reading->reads ? sim_share_producing(worker, reading) : NULL;
    struct mr_book_stand stand;
    struct sim_place *place;

    if (log == NULL || !reading->open || reading->joining) {
        return;
    }
    place = find_place(log, reading->iteration);
    if (place == NULL) {
        MORE(log->places, log->cap_places, log->nplaces);
        place = &log->places[log->nplaces++];
        snprintf(place->iteration, sizeof place->iteration, "%s", reading->iteration);
    }
    mr_book_stand(reading->book, &stand);
    place->at = stand.at > reading->first ? stand.at : reading->first;
}

/* Somebody of its iteration read here before: it goes on behind what that one sent, as far as there
 * is something. */
static void resume(struct sim *sim, struct sim_task *log, struct sim_task *task,
                   const struct sim_place *place)
{
    sim_rare(sim, SIM_RARE_RESUMED);
    if (sim->bug == SIM_BUG_BEGINS_AGAIN) {
        return;
    }
    task->cursor = place->at;
    if (log->given_up) {
        log->head = log->nlog;
    }
    skip_to(sim, log, task, false /* nobody was there to hold it */);
}

/* Readers that are new begin at the window's start, before anything is produced for them. */
void sim_share_open_readers(struct sim *sim, struct sim_worker *worker)
{
    for (struct sim_task *task = NULL; (task = sim_next_task(worker, task)) != NULL;) {
        struct sim_task *log = task->reads ? sim_share_producing(worker, task) : NULL;

        if (log == NULL || task->open) {
            continue;
        }
        const struct sim_place *place = task->joining ? NULL : find_place(log, task->iteration);

        if (log->given_up && !task->joining && place == NULL) {
            sim_violation(sim, "task %s is to read a log that was given up", task->id);
        }
        task->open = true;
        task->cursor = log->head;
        if (place != NULL) {
            resume(sim, log, task, place);
        }
        task->first = task->cursor;
        sim_moment(sim, SIM_MOMENT_JOINING, worker, NULL);
        sim_task_go_on(sim, worker, log);
        sim_task_go_on(sim, worker, task);
    }
}

/* Somebody has stopped to read: what nobody reads may make room for something else. */
void sim_share_left(struct sim *sim, struct sim_worker *worker, const char *production)
{
    struct sim_task reading = {0}, *log;

    snprintf(reading.production, sizeof reading.production, "%s", production);
    log = sim_share_producing(worker, &reading);
    if (log != NULL && log->complete && next_reader(worker, log, NULL) == NULL && !sim->plain &&
        sim_chance(sim, 20)) {
        log->given_up = true;
    }
    if (log != NULL) {
        sim_task_go_on(sim, worker, log);
    }
}

bool sim_share_answer(struct sim *sim, struct sim_worker *worker, const struct sim_task *task,
                      Millrace__JoinAnswer *ret)
{
    const struct sim_task *log = task->joining ? sim_share_producing(worker, task) : NULL;

    if (log == NULL || !task->open) {
        return false;
    }
    ret->first = sim->bug == SIM_BUG_JOIN_LIES ? 0 : task->cursor;
    if (log->given_up) {
        ret->refused = (char *)(uintptr_t) "the log was given up";
    }
    return true;
}
