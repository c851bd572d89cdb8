/* The part of the status document that is about coordinated reads. */
#include "dispatcher/model/model.h"
#include "dispatcher/model/rounds.h"
#include "dispatcher/views/views.h"

#include <stdio.h>

static Millrace__ConsumerStatus *consumer_status(mr_core *core, const struct mr_iteration *it,
                                                 const struct mr_seat *seat)
{
    Millrace__ConsumerStatus *status = MR_NEW_RECORD(core, consumer_status);
    bool there = mr_seat_client(core, it, seat) != NULL;
    char client[9] = "";

    if (status == NULL) {
        return NULL;
    }
    status->index = mr_seat_index(it, seat);
    if (there) {
        snprintf(client, sizeof client, "%.8s", seat->rec->client);
    }
    mr_core_set(core, &status->client, client);
    status->session = seat->rec != NULL ? seat->rec->session : 0;
    status->known = seat->known;
    status->position = seat->position;
    status->silent_ms = seat->known ? (uint64_t)(core->now - seat->heard) : 0;
    status->missed_ms = mr_seat_missed_ms(core, seat);
    return status;
}

static void fill_closing(mr_core *core, const struct mr_iteration *it,
                         Millrace__RoundsStatus *status)
{
    const Millrace__RoundSchedule *schedule = it->rounds->rec->schedule;

    for (uint32_t i = 0; i < schedule->n_tasks; i++) {
        const struct mr_task *task = mr_task_find(core, schedule->tasks[i]);

        if (mr_rounds_is_closing(it, i, core)) {
            mr_core_append_string(core, &status->closing, &status->n_closing,
                                  task != NULL ? task->worker->rec->address : schedule->tasks[i]);
        }
    }
}

Millrace__RoundsStatus *mr_rounds_status(mr_core *core, const struct mr_iteration *it)
{
    const struct mr_coordination *rounds = it->rounds;
    Millrace__RoundsStatus *status;

    if (rounds == NULL) {
        return NULL;
    }
    status = MR_NEW_RECORD(core, rounds_status);
    if (status == NULL) {
        return NULL;
    }
    status->horizon = rounds->rec->horizon;
    status->rounds_per_s = rounds->pace / 1000;
    status->outcomes = rounds->rec->schedule->n_outcomes;
    for (uint32_t i = 0; i < rounds->n; i++) {
        Millrace__ConsumerStatus *one = consumer_status(core, it, &rounds->seats[i]);

        if (MR_APPEND(core, status, consumers, one)) {
            status->position = mr_larger(status->position, one->position);
        }
    }
    fill_closing(core, it, status);
    return status;
}
