/* What a client waits for that asks: one line for people, of what holds its iteration up as far as
 * is known here. The client knows by itself whom it cannot reach, and says something of its own
 * where this is empty. */
#include "dispatcher/views/views.h"

/* Less may be the ordinary course of things. */
#define WORTH_MS 1000

#define MORE_SIZE 48

/* " (and 2 more)", or nothing. */
static void say_more(uint32_t others, char more[MORE_SIZE])
{
    more[0] = '\0';
    if (others > 0) {
        snprintf(more, MORE_SIZE, " (and %u more)", others);
    }
}

static uint64_t seconds(uint64_t ms)
{
    return (ms + 500) / 1000;
}

/* A place that nobody has; @*others: how many more there are. */
static const struct mr_seat *find_vacant(const mr_core *core, const struct mr_iteration *it,
                                         uint32_t *others)
{
    const struct mr_seat *first = NULL;

    *others = 0;
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];

        if (mr_seat_client(core, it, seat) != NULL) {
            continue;
        }
        *others += first != NULL ? 1 : 0;
        first = first != NULL ? first : seat;
    }
    return first;
}

/* Whom others have waited for longest. */
static const struct mr_seat *find_missed(const mr_core *core, const struct mr_iteration *it)
{
    const struct mr_seat *most = NULL;

    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];
        uint64_t missed_ms = mr_seat_missed_ms(core, seat);

        if (missed_ms >= WORTH_MS && (most == NULL || missed_ms > mr_seat_missed_ms(core, most))) {
            most = seat;
        }
    }
    return most;
}

/* It is there, and has not said what it holds of the closing @task. */
static const struct mr_seat *find_silent(const mr_core *core, const struct mr_iteration *it,
                                         const char *task)
{
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];

        if (mr_seat_client(core, it, seat) != NULL && mr_seat_held(seat, task) == NULL) {
            return seat;
        }
    }
    return NULL;
}

static bool say_closing(const mr_core *core, const struct mr_iteration *it, char *out, size_t size)
{
    const Millrace__RoundSchedule *schedule = it->rounds->rec->schedule;

    for (uint32_t i = 0; i < schedule->n_tasks; i++) {
        const struct mr_task *task = mr_task_find(core, schedule->tasks[i]);
        const struct mr_seat *silent;

        if (!mr_rounds_is_closing(it, i, core)) {
            continue;
        }
        silent = find_silent(core, it, schedule->tasks[i]);
        if (silent != NULL) {
            snprintf(
                out, size,
                "worker %.60s is lost, and consumer %u has not said which of its rounds it has",
                task != NULL ? task->worker->rec->address : schedule->tasks[i],
                mr_seat_index(it, silent));
            return true;
        }
    }
    return false;
}

/* It would be the end, but one of the others has not returned what is before it. */
static bool say_end(const mr_core *core, const struct mr_iteration *it, char *out, size_t size)
{
    uint64_t end = mr_rounds_end(it);

    for (uint32_t i = 0; it->open_tasks == 0 && i < it->rounds->n; i++) {
        const struct mr_seat *seat = &it->rounds->seats[i];

        if (mr_seat_client(core, it, seat) != NULL && seat->known && seat->position < end) {
            snprintf(out, size,
                     "consumer %u is at round %" PRIu64 " of %" PRIu64
                     ", and the end comes when all have had the last one",
                     i, seat->position, end);
            return true;
        }
    }
    return false;
}

static bool say_rounds(const mr_core *core, const struct mr_iteration *it, char *out, size_t size)
{
    uint32_t others;
    const struct mr_seat *vacant = find_vacant(core, it, &others);
    const struct mr_seat *missed = find_missed(core, it);

    if (vacant != NULL) {
        const char *text =
            vacant->rec == NULL ? "has not come yet" : "has gone, and nobody has taken its place";
        char more[MORE_SIZE];

        say_more(others, more);
        snprintf(out, size, "consumer %u%s of %u %s", mr_seat_index(it, vacant), more,
                 it->rounds->n, text);
        return true;
    }
    if (say_closing(core, it, out, size)) {
        return true;
    }
    if (missed != NULL) {
        snprintf(out, size,
                 "consumer %u is at round %" PRIu64
                 " and has not asked for what others wait for, for %" PRIu64 " s",
                 mr_seat_index(it, missed), missed->position,
                 seconds(mr_seat_missed_ms(core, missed)));
        return true;
    }
    return say_end(core, it, out, size);
}

/* Production waits for somebody else's job, whose lag is "wait". */
static bool say_held(const mr_core *core, const struct mr_iteration *it, char *out, size_t size)
{
    const struct mr_iteration *user;
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (task->state == MR_TASK_OPEN && mr_task_is_held_up(core, task)) {
            break;
        }
    }
    if (task == NULL || it->uses == NULL) {
        return false;
    }
    TAILQ_FOREACH(user, &it->uses->users, in_production) {
        if (user != it && !user->rec->finished && user->job->rec->lag == MILLRACE__LAG__LAG_WAIT) {
            snprintf(out, size,
                     "the window of worker %.60s is full, and job %.60s, which shares it with "
                     "lag=\"wait\", is slow",
                     task->worker->rec->address, mr_job_label(user->job));
            return true;
        }
    }
    return false;
}

static bool say_stalled(const mr_core *core, const struct mr_iteration *it, char *out, size_t size)
{
    const struct mr_task *most = NULL;
    const struct mr_task *task;
    uint32_t others = 0;
    char more[MORE_SIZE];

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        int64_t ms = mr_task_stalled_ms(core, task);

        if (ms >= WORTH_MS) {
            others += most != NULL ? 1 : 0;
            most = most == NULL || ms > mr_task_stalled_ms(core, most) ? task : most;
        }
    }
    if (most == NULL) {
        return false;
    }
    say_more(others, more);
    snprintf(out, size,
             "the pipeline at worker %.60s%s has given nothing for %" PRIu64 " s, %" PRIu64
             " elements came before",
             most->worker->rec->address, more, seconds((uint64_t)mr_task_stalled_ms(core, most)),
             most->produced);
    return true;
}

/* A pipeline has ended, and its task ends when all was used. */
static bool say_kept(const struct mr_iteration *it, char *out, size_t size)
{
    const struct mr_task *first = NULL;
    const struct mr_task *task;
    uint32_t others = 0;
    char more[MORE_SIZE];

    if (it->live_clients < 2) {
        return false;
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        if (task->state == MR_TASK_OPEN && task->finished) {
            others += first != NULL ? 1 : 0;
            first = first != NULL ? first : task;
        }
    }
    if (first == NULL) {
        return false;
    }
    say_more(others, more);
    snprintf(out, size,
             "the pipeline at worker %.60s%s has ended, and %u other reader%s of the job may not "
             "have used the last elements yet",
             first->worker->rec->address, more, it->live_clients - 1,
             it->live_clients > 2 ? "s" : "");
    return true;
}

/* All splits are handed out, none has come back. */
static bool nothing_is_left(const struct mr_iteration *it)
{
    struct mr_pool_count pool;

    mr_pool_count(it, &pool);
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        const Millrace__CursorRecord *cursor = it->cursors[i].rec;
        int64_t splits = it->rec->providers[i]->splits;

        if (splits < 0 || cursor == NULL) {
            return false;
        }
        /* Whoever was told the end of a repetition has moved the cursor to the next one, which may
         * never begin. */
        if (cursor->next < (uint64_t)splits && (cursor->repetition == 0 || cursor->next > 0)) {
            return false;
        }
    }
    return it->rec->n_providers > 0 && pool.ordinary == 0 && pool.suspects == 0;
}

void mr_iteration_waits_for(const mr_core *core, const struct mr_iteration *it, char *out,
                            size_t size)
{
    out[0] = '\0';
    if (core->live_workers == 0) {
        snprintf(out, size, "the service has no worker");
    } else if (it->open_tasks > 0 && it->open_tasks == it->draining_tasks && it->rounds == NULL) {
        snprintf(out, size, "its workers are draining, and there is no other one");
    } else if (it->rec->joining) {
        snprintf(
            out, size,
            "the workers are being asked whether they still have the start of production %.40s",
            it->rec->production);
    } else if ((it->rounds != NULL && say_rounds(core, it, out, size)) ||
               say_held(core, it, out, size)) {
        return;
    } else if (core->full && it->mode == MILLRACE__PROCESSING_MODE__PROCESSING_DYNAMIC &&
               !nothing_is_left(it)) {
        snprintf(out, size, "etcd is full, so that no splits are handed out: `millrace status`");
    } else if (mr_iteration_repeats(it) && it->live_clients > 1 && nothing_is_left(it)) {
        snprintf(out, size,
                 "%u other reader%s of the job may hold elements back, and be lost with them (at "
                 "least once)",
                 it->live_clients - 1, it->live_clients > 2 ? "s" : "");
    } else if (!say_stalled(core, it, out, size)) {
        (void)say_kept(it, out, size);
    }
}
