/* What bounds a job: from what is known of its iteration to the verdict, and to what is shown. */
#include "dispatcher/views/views.h"
#include "dispatcher/views/why.h"

static void add(struct mr_reader_times *to, const struct mr_reader_times *more)
{
    to->elapsed += more->elapsed;
    to->waited += more->waited;
    to->starved += more->starved;
}

/* What was said long ago is no news: the reader is as good as gone. */
static bool is_fresh(const mr_core *core, int64_t at)
{
    return core->now - at <= MR_TIMES_WINDOW_MS;
}

static void add_readers(const mr_core *core, const struct mr_iteration *it, struct mr_why_in *in)
{
    const struct mr_client *client;

    TAILQ_FOREACH(client, &it->clients, in_iteration) {
        if (client->times != NULL && mr_client_is_live(client) &&
            is_fresh(core, client->times->at)) {
            add(&in->readers, &client->times->lately);
            in->nreaders++;
        }
    }
}

static void compare_consumers(const mr_core *core, const struct mr_iteration *it,
                              struct mr_why_in *in)
{
    in->coordinated = false;
    for (uint32_t i = 0; i < it->rounds->n; i++) {
        const struct mr_client *client = mr_seat_client(core, it, &it->rounds->seats[i]);

        if (client == NULL || client->times == NULL || client->times->lately.elapsed == 0) {
            in->coordinated = false; /* Whom the others wait for is somebody who is not there. */
            return;
        }
        const struct mr_reader_times *t = &client->times->lately;
        if (i == 0 || mr_why_share(t->waited, t->elapsed) <
                          mr_why_share(in->least.waited, in->least.elapsed)) {
            in->consumer = i;
            in->least = *t;
        }
    }
    in->coordinated = it->rounds->n > 1;
    in->others = in->readers;
    in->others.elapsed -= MR_MIN(in->least.elapsed, in->others.elapsed);
    in->others.waited -= MR_MIN(in->least.waited, in->others.waited);
    in->others.starved -= MR_MIN(in->least.starved, in->others.starved);
}

static bool splits_are_out(const struct mr_iteration *it)
{
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        const Millrace__CursorRecord *cursor = it->cursors[i].rec;
        int64_t splits = it->rec->providers[i]->splits;

        /* At its end the cursor stands before the next repetition, which may never come. */
        bool out = cursor != NULL && (cursor->next >= (uint64_t)splits ||
                                      (cursor->repetition > 0 && cursor->next == 0));

        if (splits < 0 || !out || cursor->n_pool > 0 || mr_given_back_splits(it, i) > 0) {
            return false;
        }
    }
    return it->rec->n_providers > 0;
}

/* Workers that have come to the end of their splits, while others have some left. */
static uint32_t count_idle(const struct mr_iteration *it)
{
    const struct mr_task *task;
    uint32_t idle = 0;
    uint32_t working = 0;

    if (!splits_are_out(it)) {
        return 0;
    }
    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        bool over = task->state == MR_TASK_ENDED || task->finished;

        idle += over && !task->drained ? 1 : 0;
        working += task->state == MR_TASK_OPEN && !task->finished ? 1 : 0;
    }
    return working > 0 ? idle : 0;
}

static const struct mr_iteration_times *times_of(const mr_core *core, const struct mr_iteration *it)
{
    return it->times != NULL && is_fresh(core, it->times->at) ? it->times : NULL;
}

/* The newest that is read, or NULL. */
static const struct mr_iteration *find_read(const struct mr_job *job)
{
    const struct mr_iteration *newest = NULL;
    const struct mr_iteration *it;

    TAILQ_FOREACH(it, &job->iterations, in_job) {
        bool is_read = !it->rec->finished && it->live_clients > 0;

        if (is_read && (newest == NULL || it->rec->repetition >= newest->rec->repetition)) {
            newest = it;
        }
    }
    return newest;
}

bool mr_job_why(const mr_core *core, const struct mr_job *job, struct mr_why *ret)
{
    const struct mr_iteration *it = find_read(job);
    struct mr_why_in in = {0};

    if (it == NULL) {
        return false;
    }
    const struct mr_iteration *makes = it->uses != NULL ? it->uses->hidden : it;
    add_readers(core, it, &in);
    if (it->rounds != NULL) {
        compare_consumers(core, it, &in);
    }
    in.pipeline = times_of(core, makes);
    in.reading = it->uses != NULL ? times_of(core, it) : NULL;
    in.idle = count_idle(makes);
    if (it->uses != NULL && in.reading == NULL) {
        in.pipeline = NULL;
    }
    mr_why_judge(&in, ret);
    return true;
}

Millrace__Why *mr_status_why(mr_core *core, const struct mr_job *job)
{
    struct mr_why why;

    if (!mr_job_why(core, job, &why)) {
        return NULL;
    }
    Millrace__Why *status = MR_NEW_RECORD(core, why);
    if (status == NULL) {
        return NULL;
    }
    mr_core_set(core, &status->bound, mr_bound_name(why.bound));
    mr_core_set(core, &status->operator_, why.name);
    mr_core_set(core, &status->place, why.place);
    mr_core_set(core, &status->advice, why.advice);
    status->permille = why.permille;
    for (size_t i = 0; i < why.n; i++) {
        Millrace__WhyPart *part = MR_ADD_RECORD(core, status, parts, why_part);

        if (part != NULL) {
            mr_core_set(core, &part->bound, mr_bound_name(why.parts[i].bound));
            mr_core_set(core, &part->operator_, why.parts[i].name);
            part->permille = why.parts[i].permille;
        }
    }
    return status;
}
