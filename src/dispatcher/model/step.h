/* What a step leaves: records to write, keys to delete, and who is told what. An update notes all
 * of it; rules answer, and may have somebody told once more. */
#pragma once

#include "dispatcher/core/keys.h"
#include "dispatcher/model/base.h"

/* The kinds of records, in the order of core/keys.h. Of CURSOR, ROUNDS and CONSUMER the object is
 * the iteration, of GRANT the task; they are told apart by provider or place. */
enum mr_stored_kind {
    MR_STORED_SCHEMA,
    MR_STORED_DATASET,
    MR_STORED_JOB,
    MR_STORED_WORKER,
    MR_STORED_PRODUCTION,
    MR_STORED_ITERATION,
    MR_STORED_TASK,
    MR_STORED_CURSOR,
    MR_STORED_GRANT,
    MR_STORED_ROUNDS,
    MR_STORED_CONSUMER,
    MR_STORED_CLIENT,
    MR_STORED_KINDS
};

struct mr_stored_info {
    const char *prefix; /* of its key */
    const ProtobufCMessageDescriptor *desc;
    enum mr_spoils bad; /* what a bad one spoils */
};

/* A record that a step has changed. Zeroed: a key that is final. */
struct mr_touched {
    enum mr_stored_kind kind;
    bool is_open; /* it is to be written once more */
    const void *object;
    size_t index;
};

/* A key to delete when there is time: one that is never written again, or clients/..., which is
 * looked at before. */
struct mr_left_over {
    STAILQ_ENTRY(mr_left_over) link;
    char key[];
};

extern const struct mr_stored_info mr_stored_kinds[MR_STORED_KINDS];
void mr_stored_key(enum mr_stored_kind kind, const void *object, size_t index, char *out,
                   size_t size);
/* Its record, which is there. */
const ProtobufCMessage *mr_stored_record(enum mr_stored_kind kind, const void *object,
                                         size_t index);
/* The key of part @index of a definition. */
void mr_part_key(const char *blob, uint32_t index, char *out, size_t size);
/* The record of @object (an iteration's, task's: number @index of them) has changed. */
void mr_touch(mr_core *core, enum mr_stored_kind kind, const void *object, size_t index);
/* Its key goes with this step, or when there is time: never written again, or clients/. */
void mr_delete(mr_core *core, enum mr_stored_kind kind, const void *object, size_t index);
void mr_delete_key(mr_core *core, const char *key);
void mr_leave_over(mr_core *core, enum mr_stored_kind kind, const void *object, size_t index);
void mr_leave_over_key(mr_core *core, const char *key);
/* What is not a record of an object. */
void mr_put(mr_core *core, const char *key, const ProtobufCMessage *message);
/* Write what is touched. */
void mr_changes_write(mr_core *core);
/* Room for @n more changes of ordinary size? */
bool mr_core_has_room(mr_core *core, size_t n);
/* A client may have attached again since its key was left over. */
bool mr_left_over_is_in_use(const mr_core *core, const char *key);
/* Answer the running command. The message, of the type core->reply, is returned for filling in;
 * NULL if the core has failed. */
void *mr_core_reply(mr_core *core, bool fenced);
/* Answer it with an error, which is always fenced. */
void mr_core_refuse(mr_core *core, const mr_error *error);
void mr_core_resign(mr_core *core);
/* Takes @message. */
void mr_core_push(mr_core *core, enum mr_effect_kind kind, const char *topic,
                  ProtobufCMessage *message);
void mr_core_end_stream(mr_core *core, enum mr_effect_kind kind, const char *topic, int code,
                        const char *why);
Millrace__TaskInfo *mr_task_info(mr_core *core, const struct mr_task *task);
Millrace__TaskAssignment *mr_task_assignment(mr_core *core, const struct mr_task *task);
/* What the clients of an iteration hear at the end of this step: a task is new or changed; it is
 * over. */
void mr_iteration_note_task(mr_core *core, const struct mr_task *task);
void mr_iteration_note_finished(mr_core *core, struct mr_iteration *it);
/* Something changed: consumers and workers hear of it at the end of this step. */
void mr_rounds_note(mr_core *core, struct mr_iteration *it, bool schedule);
/* What mr_rounds_note() says goes out at the end of this step. */
void mr_iteration_note_rounds(mr_core *core, struct mr_iteration *it);
/* What a worker hears at the end of this step: it has a task more, one less; a client has left an
 * iteration. */
void mr_core_worker_note_task(mr_core *core, const struct mr_task *task);
/* All of an iteration's open tasks, to their workers: they are new, or something of the assignments
 * has changed. */
void mr_iteration_note_assignments(mr_core *core, struct mr_iteration *it);
void mr_core_worker_note_dropped(mr_core *core, const struct mr_task *task);
void mr_iteration_note_released(mr_core *core, const struct mr_iteration *it, const char *client);
void mr_iteration_untouch(mr_core *core, struct mr_iteration *it);
void mr_core_worker_untouch(mr_core *core, struct mr_core_worker *worker);
void mr_core_push_touched(mr_core *core);
void mr_parts_leave_over(mr_core *core, const char *blob, uint32_t parts);
/* What consumers and workers are told; NULL without memory. */
Millrace__RoundsUpdate *mr_rounds_update_of(mr_core *core, const struct mr_iteration *it,
                                            bool with_schedule);
Millrace__RoundAssignment *mr_rounds_assignment_of(mr_core *core, const struct mr_task *task);
