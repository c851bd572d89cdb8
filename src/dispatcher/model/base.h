/*
 * What all of the model is made of: ids and stamps, alarms, records as messages, failure.
 *
 * Running out of memory is sticky (mr_core_fail()): the step goes on with what it has and is thrown
 * away at its end, core and all.
 */
#pragma once

#include "base/base.h"
#include "base/map.h"
#include "base/shares.h"
#include "dispatcher/core/core.h"

#include <sys/queue.h>

/* Only model/ writes what it knows: elsewhere the fields of its objects are constant. */
#ifdef MR_MODEL_WRITES
#define MR_RO
#else
#define MR_RO const
#endif

struct mr_blob;
struct mr_client;
struct mr_core_worker;
struct mr_coordination;
struct mr_dataset_entry;
struct mr_trainers;
struct mr_flaw;
struct mr_iteration;
struct mr_iteration_rules;
struct mr_job;
struct mr_newcomer;
struct mr_production;
struct mr_seat;
struct mr_sharing_report;
struct mr_task;

#define MR_ID_HEX 32     /* digits of ids that callers draw: clients, worker incarnations, blobs */
#define MR_STAMP_SIZE 42 /* "<epoch>.<counter>" and its NUL */
#define MR_KEY_SIZE 1024 /* longest key: a name with every byte escaped */
/* Of this core's clock; no deadline. */
/* No number that is stored is above it, so that a few of them can be added up. What callers say is
 * a quarter of it at most: what is made of it is stored. */
#define MR_COUNT_MAX ((uint64_t)INT64_MAX / 2)
#define MR_COUNT_SAID_MAX (MR_COUNT_MAX / 4)
#define MR_NEVER INT64_MAX

/* A moment in the order of decisions: leaders' epochs, then a count within each. */
struct mr_stamp {
    uint64_t epoch;
    uint64_t counter;
};

typedef struct {
    struct mr_stamp at;
} mr_job_id;

typedef struct {
    struct mr_stamp at;
} mr_iteration_id;

/* In an object that time does something to (alarms.c). Zeroed: off. */
enum mr_alarm_kind {
    MR_ALARM_WORKER,
    MR_ALARM_CLIENT,
    MR_ALARM_ITERATION,
    MR_ALARM_JOB,
    MR_ALARM_DATASET,
    MR_ALARM_PRODUCTION
};

struct mr_alarm {
    enum mr_alarm_kind kind;
    size_t at; /* place in the heap, from 1; 0: off */
    int64_t due;
};

static inline bool mr_stamp_is_set(struct mr_stamp s)
{
    return s.epoch != 0 || s.counter != 0;
}

/* "collected at 2026-11-21T10:00:00Z: ..." for those who ask for an iteration that was. */
#define MR_COLLECTED_SIZE 96

/* Saturates at MR_COUNT_MAX: for what callers count. */
static inline uint64_t mr_count_add(uint64_t a, uint64_t b)
{
    uint64_t sum;

    return __builtin_add_overflow(a, b, &sum) || sum > MR_COUNT_MAX ? MR_COUNT_MAX : sum;
}

bool mr_stamp_parse(const char *s, struct mr_stamp *ret);
void mr_stamp_print(struct mr_stamp stamp, char out[MR_STAMP_SIZE]);
int mr_stamp_compare(struct mr_stamp a, struct mr_stamp b);
/* Exactly MR_ID_HEX lower-case hex digits. */
bool mr_id_is_valid(const char *s);
void mr_collected_print(uint64_t wall_ms, char out[MR_COLLECTED_SIZE]);
/* [a-z0-9._-] stay, every other byte becomes %XX. Truncation does not happen for names within
 * MR_NAME_BYTES_MAX. */
void mr_name_encode(const char *name, char *out, size_t size);
/* MR_EINVAL unless @s is UTF-8 without control characters and at most @max bytes; @what for the
 * message. */
int mr_name_check(const char *what, const char *s, size_t max, mr_error *err);
/* ... which was given already, by whatever leader. */
bool mr_stamp_parse_given(mr_core *core, const char *s, struct mr_stamp *ret);
void mr_core_fail(mr_core *core, int rc, const mr_error *err);
void mr_core_nomem(mr_core *core);
struct mr_stamp mr_core_stamp(mr_core *core);
void mr_core_trace(mr_core *core, const char *fmt, ...) MR_PRINTF(2, 3);
/* A line of the trace that operators want to read, too: somebody came or went, something was
 * lost. */
void mr_core_note(mr_core *core, const char *fmt, ...) MR_PRINTF(2, 3);
/* Something is lost, or has failed. */
void mr_core_note_loss(mr_core *core, const char *fmt, ...) MR_PRINTF(2, 3);
int64_t mr_time_add(int64_t t, int64_t ms); /* saturates at MR_NEVER */
/* Set a string of a record, the way protobuf-c frees it. */
void mr_core_set(mr_core *core, char **slot, const char *value);
/* A fresh record of @desc; NULL (and the core has failed) without memory. */
void *mr_core_new_record(mr_core *core, const ProtobufCMessageDescriptor *desc);
#define MR_NEW_RECORD(core, type) mr_core_new_record(core, &millrace__##type##__descriptor)
/* A copy of @message, with all that it contains; NULL (and the core has failed) without memory. */
void *mr_core_copy(mr_core *core, const ProtobufCMessage *message);
void mr_record_free(void *rec);
/* Put @one, which is taken, at the end of the repeated field *@list, which has *@n. NULL stands for
 * one that could not be made. False (and the core has failed) without memory. */
bool mr_core_append(mr_core *core, void *list, size_t *n, void *one);
bool mr_core_append_string(mr_core *core, char ***list, size_t *n, const char *s);
#define MR_APPEND(core, rec, field, one) mr_core_append(core, &(rec)->field, &(rec)->n_##field, one)
/* A fresh record at the end of @field; NULL (and the core has failed) without memory. */
void *mr_core_add(mr_core *core, void *list, size_t *n, const ProtobufCMessageDescriptor *desc);
#define MR_ADD_RECORD(core, rec, field, type)                                                      \
    mr_core_add(core, &(rec)->field, &(rec)->n_##field, &millrace__##type##__descriptor)
/* Number @at of the repeated field *@list goes. */
void mr_record_remove(void *list, size_t *n, size_t at);
#define MR_REMOVE_RECORD(rec, field, at) mr_record_remove(&(rec)->field, &(rec)->n_##field, at)
/* Room for one more behind the @n of *@array, which has room for *@cap. False (and the core has
 * failed) without memory. */
bool mr_core_grow(mr_core *core, void *array, size_t n, size_t *cap, size_t size);
/* Zeroed; NULL (and the core has failed) without memory. */
void *mr_core_alloc(mr_core *core, size_t n, size_t size);
/* mr_map_put() whose failure is the core's. */
void mr_core_index(mr_core *core, struct mr_map *map, const char *key, void *value);
void mr_core_set_line(mr_core *core, char **slot, const char *text);
void mr_core_set_stamp(mr_core *core, char **slot, struct mr_stamp stamp);
/* Ring at @due (MR_NEVER: off), or no later than @due. */
void mr_alarm_at(mr_core *core, struct mr_alarm *alarm, int64_t due);
void mr_alarm_by(mr_core *core, struct mr_alarm *alarm, int64_t due);
void mr_alarm_off(mr_core *core, struct mr_alarm *alarm);
struct mr_alarm *mr_alarm_first(const mr_core *core);
