/* A core with a store behind it that commits at once: for tests of one command after the other. */
#pragma once

#include "dispatcher/core/core.h"

#define KEYS_MAX 4096

struct table {
    mr_core *core;
    uint64_t epoch;
    struct mr_core_config config;
    int64_t now;
    int64_t wall;
    bool full;         /* the store takes nothing but deletes */
    int64_t grant_ms;  /* ... or must be spared; 0: not */
    const char *host;  /* whose commands come; NULL: nobody's */
    const char *owner; /* who asks; NULL: nobody in particular */
    const struct mr_quota *quota;
    char *keys[KEYS_MAX];
    char *values[KEYS_MAX];
    size_t count;
    struct mr_outcome out; /* of the last step */
};

/* Ids, short to write: "c1" becomes 32 hex digits. */
const char *id_of(const char *name);

void table_open(struct table *t, const struct mr_core_config *config);
/* As most tests begin: workers w1 and w2, at a:1 and b:1, and a dataset "numbers" of 100 splits. */
void table_open_usual(struct table *t);
void table_close(struct table *t);
/* A table with the dataset "numbers" (FP1, 100 splits) and without workers. */
int core_setup(void **state);
int core_teardown(void **state);
#define FP1 "00000000000000000000000000000001"
#define FP2 "00000000000000000000000000000002"
/* Into char[64]. */
void keep_id(char *out, const char *id);
/* The leader is gone: another core is loaded from the store. */
void table_take_over(struct table *t);
/* ... which may be refused: then there is no core. */
int table_try_take_over(struct table *t, mr_error *err);
const char *table_get(const struct table *t, const char *key); /* NULL: no such key */
/* "'<key>': <why>" of the first record that was bad at takeover; NULL: none. Lent until the next
 * call. */
const char *first_flaw(const mr_core *core);
size_t table_count(const struct table *t, const char *prefix);
void table_put(struct table *t, const char *key, const char *value); /* by hand */
void table_delete(struct table *t, const char *key);                 /* by hand */

/* Step; the changes are applied to the store and the invariants walked. */
void table_step(struct table *t, struct mr_command *command);
/* Time passes; timers run as they are due. */
void table_wait(struct table *t, int64_t ms);

/* The reply of the last step. */
const struct mr_effect *the_reply(const struct table *t);
/* The newest push of @kind for @topic in the last step, or NULL. */
const ProtobufCMessage *the_push(const struct table *t, enum mr_effect_kind kind,
                                 const char *topic);

/* One call each; the code of the answer. What it said is in the_reply(). */
int put_dataset(struct table *t, const char *id, const char *fingerprint, const int64_t *splits,
                size_t n);
/* Of which splits may be left out that cannot be read. */
int put_tolerant_dataset(struct table *t, const char *id, const char *fingerprint,
                         const int64_t *splits, size_t n);
/* One that never ends: of cardinality -1, and of endless sources. */
int put_endless_dataset(struct table *t, const char *id, const char *fingerprint);
/* It registers and begins to watch: it is there. */
int add_worker(struct table *t, const char *worker, const char *address);
int register_worker(struct table *t, const char *worker, const char *address);
int try_watch_worker(struct table *t, const char *worker);
int beat_worker(struct table *t, const char *worker);
/* With a report on provider 0 of @task: "0110" says that of its first grants the second and the
 * third are finished. */
int beat_with_report(struct table *t, const char *worker, const char *task, const char *finished);
/* With what it says of a task that makes or reads a production. */
int beat_with_progress(struct table *t, const char *worker, const Millrace__TaskProgress *progress);
/* With the answer of reading task @task, which is joining: @first, or why it refuses. */
int beat_with_join(struct table *t, const char *worker, const char *task, uint64_t first,
                   const char *refused);
/* The last heartbeat of a worker that goes. */
int leave(struct table *t, const char *worker);
/* It says that it will go. */
int say_draining(struct table *t, const char *worker);
/* Somebody wants that; @name as people would have it. */
int drain_worker(struct table *t, const char *name);
struct given {
    uint64_t repetition, first, count;
};
/* Request @seq of @task, for provider 0: it gives @n ranges back. */
int give_back(struct table *t, const char *worker, const char *task, uint64_t seq,
              const struct given *ranges, size_t n);
/* The task came to its end because its worker cut its sources off. */
int end_drained(struct table *t, const char *worker, const char *task);
/* It falls silent and is lost, while @others (NULL at the end) and client @client go on. */
void fall_silent(struct table *t, const char *client, const char *iteration,
                 const char *const *others);
struct open_args {
    const char *client, *dataset, *name, *target, *job_id, *iteration_id;
    bool dynamic;
    int guarantee;
    uint64_t repetition;
    const char *trainer;
    int sharing, lag;
    uint32_t consumers;
    bool attach_only;
};
int open_job(struct table *t, struct open_args args);
const Millrace__OpenReply *opened(const struct table *t);
int beat_client(struct table *t, const char *client, const char *iteration,
                const char *unreachable);
/* What @client is told that it waits for. */
const char *waits_for(struct table *t, const char *client, const char *iteration);
int release_client(struct table *t, const char *client, const char *iteration);
int get_splits(struct table *t, const char *worker, const char *task, uint64_t repetition,
               uint64_t seq, uint64_t want);
int get_splits_with_report(struct table *t, const char *worker, const char *task,
                           uint64_t repetition, uint64_t seq, uint64_t want, const char *finished);
const Millrace__GetSplitsReply *splits(const struct table *t);
/* The answer that @worker gets to request @seq of repetition 0: these splits, or that there are no
 * more. */
void expect_range(struct table *t, const char *worker, const char *task, uint64_t seq,
                  uint64_t want, uint64_t first, uint64_t count);
void expect_end(struct table *t, const char *worker, const char *task, uint64_t seq);
int end_task(struct table *t, const char *worker, const char *task, int code, const char *message);
/* What a stream of @client about @iteration would begin with; lent until the next step. */
const Millrace__ClientUpdate *watch_client(struct table *t, const char *client,
                                           const char *iteration);
const Millrace__WorkerUpdate *watch_worker(struct table *t, const char *worker);
/* The task of the @life-th life of @worker, from 1, which is in the table that was opened last;
 * else one that nobody has. */
const char *task_of(const char *iteration, const char *worker, unsigned life);
