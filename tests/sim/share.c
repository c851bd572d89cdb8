/* Productions on a worker, around what ships: the window that says what may be dropped and when
 * there is something to produce (cache/window), and what a task decides that reads there
 * (session/reading.h). Modelled are the elements, which are all kept for the judge, and files, each
 * of one element. */
#include "sim.h"

#define ELEMENT_BYTES 100
#define AHEAD_MAX 16 /* elements, of the fastest reader */

struct sim_task *sim_share_producing(struct sim_worker *worker, const char *production)
{
    for (struct sim_task *task = NULL; (task = sim_next_task(worker, task)) != NULL;) {
        if (task->producing && strcmp(task->production, production) == 0) {
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

static bool is_to_be_held_for(const struct sim_task *reading)
{
    return reading->waits && !reading->unread;
}

static enum mr_cache_lag lag_of(const struct sim *sim, const struct sim_task *reading)
{
    bool ignored =
        sim->bug == SIM_BUG_LAG_IGNORED || (sim->bug == SIM_BUG_JOIN_UNPINNED && reading->joining);

    return is_to_be_held_for(reading) && !ignored ? MR_CACHE_LAG_WAIT : MR_CACHE_LAG_SKIP;
}

/* ---------------------------------------------------------------- the window */

/* @reading will not get the elements [@from, @to). */
static void skipped(struct sim *sim, const struct sim_task *log, const struct sim_task *reading,
                    uint64_t from, uint64_t to, bool held)
{
    if (reading->joining || sim->bug == SIM_BUG_SKIP_UNCOUNTED) {
        return;
    }
    for (; from < to; from++) {
        sim_view_skipped(sim, reading->iteration, sim_task_logged(log, from), held);
    }
}

static void trim(struct sim *sim, struct sim_worker *worker, struct sim_task *log)
{
    struct sim_task *r;

    for (r = next_reader(worker, log, NULL); r != NULL; r = next_reader(worker, log, r)) {
        r->was_next = r->reader != NULL ? r->reader->next : UINT64_MAX;
    }
    mr_window_trim(&log->window);
    for (r = next_reader(worker, log, NULL); r != NULL; r = next_reader(worker, log, r)) {
        if (r->reader == NULL || r->reader->next <= r->was_next) {
            continue;
        }
        if (r->waits && r->unread) {
            sim_rare(sim, SIM_RARE_UNREAD);
        }
        skipped(sim, log, r, r->was_next, r->reader->next, is_to_be_held_for(r));
    }
}

/* What is in memory goes into files, as far as there is room. */
static void store(struct sim *sim, struct sim_worker *worker, struct sim_task *log)
{
    mr_window *w = &log->window;
    uint64_t bytes;

    while ((bytes = w->unstored_bytes) > 0) {
        if (mr_window_flush_due(w, bytes)) {
            uint64_t end = w->end - bytes / ELEMENT_BYTES + 1;

            sim_must(mr_window_stored(w, end, ELEMENT_BYTES, ELEMENT_BYTES, NULL));
        } else if (mr_window_trim_due(w)) {
            trim(sim, worker, log);
        } else {
            sim_rare(sim, SIM_RARE_HELD_UP);
            return;
        }
    }
}

void sim_share_append(struct sim_task *log)
{
    mr_window_append(&log->window, 1, ELEMENT_BYTES);
}

bool sim_share_wants_more(struct sim *sim, struct sim_worker *worker, struct sim_task *log)
{
    store(sim, worker, log);
    return mr_window_demand(&log->window) > 0 && mr_window_room(&log->window, ELEMENT_BYTES);
}

void sim_share_complete(struct sim *sim, struct sim_worker *worker, struct sim_task *log)
{
    log->complete = true;
    mr_window_finish(&log->window);
    for (struct sim_task *r = next_reader(worker, log, NULL); r != NULL;
         r = next_reader(worker, log, r)) {
        sim_task_go_on(sim, worker, r);
    }
}

/* ---------------------------------------------------------------- reading */

static bool has_read_all(const struct sim_task *reading, const struct sim_task *log)
{
    return reading->reading.gone || (reading->reader != NULL && !reading->reading.joining &&
                                     log->complete && reading->reader->next == log->window.end);
}

bool sim_share_ends(struct sim_worker *worker, struct sim_task *reading)
{
    const struct sim_task *log = sim_share_producing(worker, reading->production);

    if (reading->over || log == NULL || !has_read_all(reading, log)) {
        return false;
    }
    reading->over = true;
    return true;
}

/* Nobody is there: what was read ahead is read again when somebody comes. */
static void go_back(struct sim *sim, struct sim_task *log, struct sim_task *reading)
{
    uint64_t at;

    if (mr_reading_goes_back(&reading->reading, &at)) {
        sim_must(mr_window_rewind(&log->window, reading->reader, at, NULL));
        skipped(sim, log, reading, at, reading->reader->next, is_to_be_held_for(reading));
        sim_rare(sim, SIM_RARE_WENT_BACK);
    }
}

static void read_ahead(struct sim_task *log, struct sim_task *reading)
{
    reading->reading.more = reading->reader->next < log->window.end;
    if (mr_reading_next(&reading->reading, false /* resting */) != MR_READING_READ) {
        return;
    }
    (void)mr_reading_skips(&reading->reading, reading->reader->skipped);
    for (uint32_t n = mr_reading_rows(&reading->reading); n > 0; n--) {
        uint64_t at = reading->reader->next;

        if (at == log->window.end) {
            return;
        }
        mr_window_read(&log->window, reading->reader, at + 1);
        sim_task_put(reading, sim_task_logged(log, at), at);
    }
}

void sim_share_read(struct sim *sim, struct sim_worker *worker, struct sim_task *reading)
{
    struct sim_task *log = sim_share_producing(worker, reading->production);
    uint64_t upto;

    if (log == NULL || reading->reader == NULL) {
        return;
    }
    if (!reading->over) {
        go_back(sim, log, reading);
        read_ahead(log, reading);
    }
    if (mr_reading_returns(&reading->reading, &upto)) {
        sim_must(mr_window_returned(&log->window, reading->reader, upto, NULL));
    }
    sim_task_go_on(sim, worker, log);
}

/* ---------------------------------------------------------------- tasks come, change and go */

static void open_window(mr_window *window, size_t elements)
{
    struct mr_window_limits limits = {.bytes_max = elements * ELEMENT_BYTES,
                                      .unstored_bytes_max = elements * ELEMENT_BYTES / 4,
                                      .flush_bytes = 1,
                                      .ahead_bytes = AHEAD_MAX * ELEMENT_BYTES};

    mr_window_init(window, &limits);
}

void sim_share_begin(struct sim *sim, struct sim_task *task,
                     const Millrace__TaskAssignment *assignment)
{
    snprintf(task->production, sizeof task->production, "%s", assignment->production);
    task->producing = assignment->producing;
    task->reads = !task->producing;
    task->joining = assignment->joining;
    task->unread = assignment->unread;
    task->waits = assignment->lag == MILLRACE__LAG__LAG_WAIT;
    if (task->producing) {
        open_window(&task->window, sim->plain || sim_chance(sim, 50) ? 1000 : sim->window);
    }
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

/* Reading starts: where an earlier task of its iteration stood, as far as there is something. */
static void start(struct sim *sim, struct sim_task *log, struct sim_task *task)
{
    const struct sim_place *place =
        sim->bug == SIM_BUG_BEGINS_AGAIN ? NULL : find_place(log, task->iteration);

    if (task->reader->started) {
        place = NULL; /* a bug's */
    } else if (place != NULL) {
        sim_rare(sim, SIM_RARE_RESUMED);
        mr_window_resume(&log->window, task->reader, place->stand.at);
        skipped(sim, log, task, place->stand.at, task->reader->next,
                false /* nobody was there to hold it */);
    } else {
        mr_window_start(&log->window, task->reader);
    }
    mr_reading_started(&task->reading, task->reader->next, place != NULL ? &place->stand : NULL);
}

static void open_reader(struct sim *sim, struct sim_task *log, struct sim_task *task)
{
    const struct sim_place *place = task->joining ? NULL : find_place(log, task->iteration);

    if (log->given_up && place != NULL) {
        uint64_t end = log->window.end, at = place->stand.at;

        skipped(sim, log, task, at, end, false /* nobody was there to hold it */);
        (void)mr_reading_missed(&task->reading, &place->stand, end - at);
        return;
    }
    if (log->given_up && !task->joining) {
        sim_violation(sim, "task %s is to read a log that was given up", task->id);
    }
    task->reader = &task->in_window;
    mr_window_join(&log->window, task->reader, lag_of(sim, task));
    mr_reading_joined(&task->reading, task->reader->next);
    if (task->joining && sim->bug == SIM_BUG_JOIN_UNPINNED) {
        mr_window_start(&log->window, task->reader);
    }
    if (!task->joining ||
        (sim->bug == SIM_BUG_JOIN_DELIVERS && mr_reading_decided(&task->reading))) {
        start(sim, log, task);
    }
}

/* Readers that are new begin at the window's start, before anything is produced for them. */
void sim_share_open_readers(struct sim *sim, struct sim_worker *worker)
{
    for (struct sim_task *task = NULL; (task = sim_next_task(worker, task)) != NULL;) {
        struct sim_task *log = task->reads ? sim_share_producing(worker, task->production) : NULL;

        if (log != NULL && task->reader == NULL && !task->reading.gone) {
            open_reader(sim, log, task);
            sim_moment(sim, SIM_MOMENT_JOINING, worker, NULL);
            sim_task_go_on(sim, worker, log);
            sim_task_go_on(sim, worker, task);
        }
    }
}

static void close_reader(struct sim_task *log, struct sim_task *task)
{
    if (log != NULL && task->reader != NULL) {
        mr_window_leave(&log->window, task->reader);
    }
    task->reader = NULL;
    mr_reading_closed(&task->reading);
}

/* Something of a task that the worker has is new. */
void sim_share_change(struct sim *sim, struct sim_worker *worker, struct sim_task *task,
                      const Millrace__TaskAssignment *assignment)
{
    bool moved = strcmp(task->production, assignment->production) != 0;
    struct sim_task *log = sim_share_producing(worker, task->production);

    if (!task->reads || (moved && sim->bug == SIM_BUG_JOIN_DELIVERS)) {
        return;
    }
    if (moved && !task->joining) {
        sim_violation(sim, "task %s reads another production than it was to", task->id);
    }
    task->unread = assignment->unread;
    task->joining = assignment->joining;
    if (moved) {
        close_reader(log, task);
        snprintf(task->production, sizeof task->production, "%s", assignment->production);
    } else if (log != NULL && task->reader != NULL) {
        mr_window_set_lag(&log->window, task->reader, lag_of(sim, task));
    }
    if (!task->joining && mr_reading_decided(&task->reading)) {
        start(sim, log, task);
    }
    if (log != NULL) {
        sim_task_go_on(sim, worker, log);
    }
    sim_task_go_on(sim, worker, task);
}

/* For the next task of its iteration. */
static void note_place(struct sim_task *log, const struct sim_task *reading)
{
    struct sim_place *place = find_place(log, reading->iteration);
    struct mr_reading_stand stand;

    if (!mr_reading_stand(&reading->reading, &stand)) {
        return;
    }
    if (place == NULL) {
        MORE(log->places, log->cap_places, log->nplaces);
        place = &log->places[log->nplaces++];
        snprintf(place->iteration, sizeof place->iteration, "%s", reading->iteration);
    }
    place->stand = stand;
}

void sim_share_drop(struct sim_worker *worker, struct sim_task *task)
{
    struct sim_task *log = sim_share_producing(worker, task->production);

    if (task->reads && task->reader != NULL) {
        note_place(log, task);
        close_reader(log, task);
    }
    for (struct sim_task *r = task->producing ? next_reader(worker, task, NULL) : NULL; r != NULL;
         r = next_reader(worker, task, r)) {
        close_reader(task, r);
    }
}

/* Somebody has stopped to read: what nobody reads may make room for something else. */
void sim_share_left(struct sim *sim, struct sim_worker *worker, const char *production)
{
    struct sim_task *log = sim_share_producing(worker, production);

    if (log == NULL) {
        return;
    }
    if (log->complete && next_reader(worker, log, NULL) == NULL && !sim->plain &&
        sim_chance(sim, 20)) {
        log->given_up = true;
    }
    sim_task_go_on(sim, worker, log);
}

bool sim_share_answer(struct sim *sim, struct sim_worker *worker, const struct sim_task *task,
                      Millrace__JoinAnswer *ret)
{
    const struct sim_task *log =
        task->joining ? sim_share_producing(worker, task->production) : NULL;

    if (log == NULL || task->reader == NULL) {
        return false;
    }
    ret->first = sim->bug == SIM_BUG_JOIN_LIES ? 0 : task->reading.first;
    if (log->given_up) {
        ret->refused = (char *)(uintptr_t) "the log was given up";
    }
    return true;
}
