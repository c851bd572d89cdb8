/* The part of the status document that is about tasks and hand-out. */
#include "dispatcher/model/client.h"
#include "dispatcher/model/iteration.h"
#include "dispatcher/model/model.h"
#include "dispatcher/model/production.h"
#include "dispatcher/views/views.h"

#include <stdio.h>
#include <string.h>

#define SHORT_ID 8

void mr_status_set_short(mr_core *core, char **slot, const char *id)
{
    char text[SHORT_ID + 1];
    size_t n = strnlen(id, SHORT_ID);

    memcpy(text, id, n);
    text[n] = '\0';
    mr_core_set(core, slot, text);
}

/* An array of @n messages, filled as far as memory goes; the caller counts them. */
void *mr_status_array(mr_core *core, size_t n)
{
    void *list = mr_calloc(n, sizeof(void *));

    if (list == NULL) {
        mr_core_nomem(core);
    }
    return list;
}

static void list_reporters(mr_core *core, const struct mr_task *task, Millrace__TaskStatus *status)
{
    const struct mr_client *client;

    status->unreachable_by = mr_status_array(core, task->iteration->live_clients);
    if (status->unreachable_by == NULL) {
        return;
    }
    TAILQ_FOREACH(client, &task->iteration->clients, in_iteration)
    {
        for (size_t i = 0; !client->rec->released && i < client->nunreachable; i++) {
            if (strcmp(client->unreachable[i].incarnation, task->worker->rec->incarnation) == 0) {
                char **slot = &status->unreachable_by[status->n_unreachable_by++];

                *slot = (char *)protobuf_c_empty_string;
                mr_status_set_short(core, slot, client->rec->client);
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
    if (window == NULL) {
        return;
    }
    status->window = mr_core_new_record(core, &millrace__window_progress__descriptor);
    if (status->window != NULL) {
        status->window->first = window->first;
        status->window->end = window->end;
        status->window->bytes = window->bytes;
        status->window->complete = window->complete;
        status->window->held = window->held;
        mr_core_set(core, &status->window->degraded, window->degraded);
    }
}

static Millrace__TaskStatus *task_status(mr_core *core, const struct mr_task *task)
{
    Millrace__TaskStatus *status = mr_core_new_record(core, &millrace__task_status__descriptor);

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
        status->losses_max =
            range->losses > status->losses_max ? range->losses : status->losses_max;
    }
}

static Millrace__ProviderStatus *provider_status(mr_core *core, const struct mr_iteration *it,
                                                 size_t i)
{
    Millrace__ProviderStatus *status =
        mr_core_new_record(core, &millrace__provider_status__descriptor);
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
    size_t n = 0;

    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        n++;
    }
    *list = mr_status_array(core, n);
    TAILQ_FOREACH(task, &it->tasks, in_iteration)
    {
        Millrace__TaskStatus *one = core->failed == 0 ? task_status(core, task) : NULL;

        if (one != NULL) {
            (*list)[(*count)++] = one;
        }
    }
}

void mr_status_list_providers(mr_core *core, const struct mr_iteration *it,
                              Millrace__ProviderStatus ***list, size_t *count)
{
    *list = mr_status_array(core, it->rec->n_providers);
    for (size_t i = 0; i < it->rec->n_providers && core->failed == 0; i++) {
        Millrace__ProviderStatus *one = provider_status(core, it, i);

        if (one != NULL) {
            (*list)[(*count)++] = one;
        }
    }
}
