/* The part of the status document that is about tasks and hand-out. */
#include "dispatcher/views/views.h"

#define SHORT_ID 8

void mr_status_set_short(mr_core *core, char **slot, const char *id)
{
    char text[SHORT_ID + 1];

    snprintf(text, sizeof text, "%s", id);
    mr_core_set(core, slot, text);
}

static void list_reporters(mr_core *core, const struct mr_task *task, Millrace__TaskStatus *status)
{
    const struct mr_client *client;

    TAILQ_FOREACH(client, &task->iteration->clients, in_iteration) {
        for (size_t i = 0; !client->rec->released && i < client->nunreachable; i++) {
            if (strcmp(client->unreachable[i].incarnation, task->worker->rec->incarnation) == 0) {
                char text[SHORT_ID + 1];

                snprintf(text, sizeof text, "%s", client->rec->client);
                mr_core_append_string(core, &status->unreachable_by, &status->n_unreachable_by,
                                      text);
                break;
            }
        }
    }
}

static void set_task_id(mr_core *core, char **slot, const struct mr_task *task)
{
    char text[MR_TASK_ID_SIZE];

    snprintf(text, sizeof text, "%s/%.*s%s", task->iteration->rec->id, SHORT_ID,
             task->worker->rec->incarnation,
             task->id + strlen(task->iteration->rec->id) + 1 + MR_ID_HEX);
    mr_core_set(core, slot, text);
}

static void task_sharing(mr_core *core, const struct mr_task *task, Millrace__TaskStatus *status)
{
    const Millrace__WindowProgress *window = task->sharing != NULL ? task->sharing->window : NULL;

    status->skipped = mr_task_skipped(task);
    status->window = window != NULL ? mr_core_copy(core, &window->base) : NULL;
}

static Millrace__TaskStatus *task_status(mr_core *core, const struct mr_task *task)
{
    Millrace__TaskStatus *status = MR_NEW_RECORD(core, task_status);

    if (status == NULL) {
        return NULL;
    }
    set_task_id(core, &status->task_id, task);
    mr_core_set(core, &status->worker_address, task->worker->rec->address);
    mr_core_set(core, &status->state, mr_task_shown_name(mr_task_shown(task)));
    status->produced = task->produced;
    status->delivered = task->delivered;
    status->abandoned = mr_task_abandoned(task);
    status->splits = mr_task_granted(task);
    status->recovery = task->rec != NULL ? task->rec->recovery : 0;
    for (size_t i = 0; i < task->iteration->rec->n_providers; i++) {
        status->open_splits += mr_grants_splits(task, i);
    }
    if (mr_task_stalled_ms(core, task) >= core->config.stall_timeout_ms) {
        status->stalled_ms = (uint64_t)mr_task_stalled_ms(core, task);
    }
    list_reporters(core, task, status);
    task_sharing(core, task, status);
    return status;
}

static void fill_pool(const Millrace__CursorRecord *cursor, Millrace__ProviderStatus *status)
{
    for (size_t i = 0; i < cursor->n_pool; i++) {
        const Millrace__OwedRange *range = cursor->pool[i];

        status->returned_splits += range->count;
        status->suspect_splits += mr_range_is_suspect(range) ? range->count : 0;
        status->losses_max = MR_MAX(range->losses, status->losses_max);
    }
}

static Millrace__ProviderStatus *provider_status(mr_core *core, const struct mr_iteration *it,
                                                 size_t i)
{
    Millrace__ProviderStatus *status = MR_NEW_RECORD(core, provider_status);
    const Millrace__CursorRecord *cursor = it->cursors[i].rec;

    if (status == NULL) {
        return NULL;
    }
    status->splits = it->rec->providers[i]->splits;
    mr_core_set(core, &status->source, it->rec->providers[i]->source);
    if (cursor != NULL) {
        status->repetition = cursor->repetition;
        status->next = cursor->next;
        status->dropped = cursor->dropped;
        status->repeated_splits = cursor->repeated_splits;
        status->given_back_splits = mr_given_back_splits(it, i);
        fill_pool(cursor, status);
    }
    return status;
}

void mr_status_list_tasks(mr_core *core, const struct mr_iteration *it,
                          Millrace__TaskStatus ***list, size_t *count)
{
    const struct mr_task *task;

    TAILQ_FOREACH(task, &it->tasks, in_iteration) {
        mr_core_append(core, list, count, task_status(core, task));
    }
}

void mr_status_list_providers(mr_core *core, const struct mr_iteration *it,
                              Millrace__ProviderStatus ***list, size_t *count)
{
    for (size_t i = 0; i < it->rec->n_providers; i++) {
        mr_core_append(core, list, count, provider_status(core, it, i));
    }
}
