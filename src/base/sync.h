/*
 * Locks that end with their scope, condition variables with a monotonic clock, and threads that
 * block all signals (so that only the program's own threads see them).
 *
 *     MR_LOCK(&queue->lock);      // until the end of the scope
 */
#pragma once

#include <millrace/base.h>
#include <pthread.h>

void mr_mutex_init(pthread_mutex_t *m);
void mr_mutex_lock(pthread_mutex_t *m);
void mr_mutex_unlock(pthread_mutex_t *m);

void mr_cond_init(pthread_cond_t *c); /* waits are measured on CLOCK_MONOTONIC */
/* Who waits gives up its core (base/cpu.h). */
void mr_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
/* false after @timeout_ms; -1 waits for ever. */
bool mr_cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *m, int64_t timeout_ms);

/* All signals blocked; @name is at most 15 bytes. MR_EEXHAUSTED if the system has no thread to
 * give. */
int mr_thread_start(pthread_t *thread, const char *name, void *(*fn)(void *), void *arg,
                    mr_error *err);

/* As pthread_join(); who waits gives up its core, which the other thread may need to come to its end.
 */
void mr_thread_join(pthread_t thread);

static inline void mr_unlock_scope(pthread_mutex_t **m)
{
    mr_mutex_unlock(*m);
}

#define MR_LOCK_NAME2(line) mr_lock_##line
#define MR_LOCK_NAME(line) MR_LOCK_NAME2(line)
#define MR_LOCK(m)                                                                                 \
    pthread_mutex_t *MR_LOCK_NAME(__LINE__) __attribute__((cleanup(mr_unlock_scope), unused)) =    \
        (m);                                                                                       \
    mr_mutex_lock(MR_LOCK_NAME(__LINE__))
