/*
 * Where the time of an iterator goes: by operator, whether it worked or waited for storage, and to
 * waits for splits and for the pool.
 *
 * The threads that work for an iterator say what they do (base/doing.h) when a pull of an operator
 * begins or ends, and around reads of files. Somebody looks from time to time and adds the time
 * since the last look to what the consumer waits for at that moment: where its thread waits for the
 * threads of a stage, to what those do, in equal parts. So the numbers of an iterator together are
 * the time that its consumer spent in pulls, however many threads work.
 *
 * Threads: taking and leaving a place, numbers: any. Looking and reading: one at a time.
 */
#pragma once

#include "base/doing.h"
#include "engine/engine.h"

/* Operators beyond share the last number, threads beyond are not seen. */
#define MR_PROFILE_OPERATORS 48u
#define MR_PROFILE_THREADS 64u

struct mr_profile_operator {
    uint64_t ns[MR_DOING_KINDS];
    char path[MR_DOING_PATH_BYTES]; /* of a file that it was seen waiting for */
};

struct mr_profile_place {
    struct mr_doing doing;
    /* 0: of the consumer; else of the stage of that operator */
    atomic_uint_least32_t stage;
};

struct mr_profile {
    struct mr_profile_place places[MR_PROFILE_THREADS];
    atomic_uint_least64_t taken; /* a bit a place */
    atomic_uint_least64_t gave_way;
    /* By number - 1; lent by the graph. They are added under the lock, and looked up without: an
     * expansion opens its operators for each element. */
    const mr_dataset *ds[MR_PROFILE_OPERATORS];
    atomic_uint noperators;
    pthread_mutex_t lock;
    /* whoever looks: */
    struct mr_profile_operator operators[MR_PROFILE_OPERATORS]; /* number - 1 */
    uint64_t pool_ns;
    uint64_t memory_ns;
    uint64_t gave_way_seen;
};

int mr_profile_new(struct mr_profile **ret, mr_error *err);
void mr_profile_free(struct mr_profile *p); /* NULL is fine */

/* The number of the operator @ds, from 1 on. 0: @p is NULL. */
uint32_t mr_profile_number(struct mr_profile *p, const mr_dataset *ds);

/* This thread works for the stage of operator @stage, or for the consumer (0), until it leaves. */
struct mr_doing *mr_profile_take(struct mr_profile *p, uint32_t stage);
void mr_profile_leave(struct mr_profile *p, struct mr_doing *doing);

/* A stage keeps less ahead than it would, since memory is short. */
void mr_profile_gave_way(struct mr_profile *p); /* NULL is fine */

/* So much time went by since the last look. false: the consumer does not pull. */
bool mr_profile_look(struct mr_profile *p, uint64_t ns);
void mr_profile_read(const struct mr_profile *p, struct mr_engine_times *ret);
