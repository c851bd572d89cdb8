/* What is due next: a binary heap of alarms, one in each object that time does something to. An
 * alarm may ring early and never late: whoever sees a deadline come nearer says so (mr_alarm_by()),
 * one that moves away is found out when it rings. A heartbeat costs nothing here, and a timer
 * nothing for objects that are not due. */
#include "dispatcher/model/model.h"

static bool is_before(const struct mr_alarm *a, const struct mr_alarm *b)
{
    return a->due < b->due;
}

static void place(mr_core *core, size_t at, struct mr_alarm *alarm)
{
    core->alarms[at] = alarm;
    alarm->at = at + 1;
}

static void rise(mr_core *core, size_t at)
{
    struct mr_alarm *alarm = core->alarms[at];

    while (at > 0 && is_before(alarm, core->alarms[(at - 1) / 2])) {
        place(core, at, core->alarms[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    place(core, at, alarm);
}

static void sink(mr_core *core, size_t at)
{
    struct mr_alarm *alarm = core->alarms[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < core->nalarms && is_before(core->alarms[child + 1], core->alarms[child])) {
            child++;
        }
        if (child >= core->nalarms || !is_before(core->alarms[child], alarm)) {
            break;
        }
        place(core, at, core->alarms[child]);
        at = child;
    }
    place(core, at, alarm);
}

void mr_alarm_off(mr_core *core, struct mr_alarm *alarm)
{
    if (alarm->at == 0) {
        return;
    }
    size_t at = alarm->at - 1;
    struct mr_alarm *last = core->alarms[--core->nalarms];

    MR_ASSERT(core->alarms[at] == alarm);
    alarm->at = 0;
    if (last != alarm) {
        place(core, at, last);
        rise(core, at);
        sink(core, last->at - 1);
    }
}

void mr_alarm_at(mr_core *core, struct mr_alarm *alarm, int64_t due)
{
    if (due == MR_NEVER) {
        mr_alarm_off(core, alarm);
        return;
    }
    alarm->due = due;
    if (alarm->at == 0) {
        if (!mr_core_grow(core, &core->alarms, core->nalarms, &core->cap_alarms,
                          sizeof *core->alarms)) {
            return;
        }
        place(core, core->nalarms++, alarm);
    }
    rise(core, alarm->at - 1);
    sink(core, alarm->at - 1);
}

void mr_alarm_by(mr_core *core, struct mr_alarm *alarm, int64_t due)
{
    if (alarm->at == 0 || due < alarm->due) {
        mr_alarm_at(core, alarm, due);
    }
}

struct mr_alarm *mr_alarm_first(const mr_core *core)
{
    return core->nalarms > 0 ? core->alarms[0] : NULL;
}
