/* What is asked of coordinated reads: tasks in doubt, places and who has them. */
#include "dispatcher/model/model.h"

struct mr_client *mr_seat_client(const mr_core *core, const struct mr_iteration *it,
                                 const struct mr_seat *seat)
{
    struct mr_client *client;

    if (seat->rec == NULL || seat->rec->client[0] == '\0') {
        return NULL;
    }
    client = mr_map_get(&core->clients, seat->rec->client);
    return client != NULL && client->iteration == it && !client->rec->released ? client : NULL;
}

const struct mr_held_turns *mr_seat_held(const struct mr_seat *seat, const char *task)
{
    for (size_t i = 0; i < seat->nheld; i++) {
        if (strcmp(seat->held[i].task, task) == 0) {
            return &seat->held[i];
        }
    }
    return NULL;
}

uint64_t mr_seat_missed_ms(const mr_core *core, const struct mr_seat *seat)
{
    if (seat->missed_ms == 0 ||
        core->now >= mr_time_add(seat->missed_seen, 3 * core->config.heartbeat_ms)) {
        return 0;
    }
    return seat->missed_ms + (uint64_t)(core->now - seat->missed_seen);
}

static bool is_open(const mr_core *core, const char *task_id)
{
    const struct mr_task *task = mr_task_find(core, task_id);

    return task != NULL && task->state == MR_TASK_OPEN;
}

bool mr_rounds_is_closing(const struct mr_iteration *it, uint32_t i, const mr_core *core)
{
    const Millrace__RoundSchedule *schedule = mr_rounds_schedule(it);

    return !is_open(core, schedule->tasks[i]) && mr_schedule_outcome(schedule, i) == NULL;
}

uint64_t mr_rounds_end(const struct mr_iteration *it)
{
    const Millrace__RoundSchedule *schedule;
    uint64_t end;

    if (it->rounds == NULL || it->broken != NULL) { /* there may be no schedule */
        return 0;
    }
    schedule = mr_rounds_schedule(it);
    end = schedule->segments[0]->from_round;
    for (size_t i = 0; i < schedule->n_outcomes; i++) {
        const Millrace__RoundOutcome *outcome = schedule->outcomes[i];
        uint64_t behind = mr_schedule_behind(schedule, outcome->task, outcome->delivered_below);

        end = MR_MAX(behind, end);
    }
    return end;
}

uint32_t mr_seat_index(const struct mr_iteration *it, const struct mr_seat *seat)
{
    return (uint32_t)(seat - it->rounds->seats);
}
