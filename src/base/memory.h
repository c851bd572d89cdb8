/*
 * A memory budget: how many bytes of elements a process, or a part of it, may have at a time. The
 * engines of all tasks, windows in memory, what waits to be sent and what was received share one,
 * whoever makes the memory.
 *
 * Memory is charged where it is made (element/buffer.c, and the few arrays that are not buffers)
 * and released where it is freed, so that it counts once, however many hold it. It is charged to
 * the budget of the thread: what is made outside of one (a user's constants) is not counted. Nobody
 * waits for a budget: a charge succeeds or is refused, so tasks that each have a part of it cannot
 * lock each other up.
 *
 * What gives way first: what is made ahead of need must leave a quarter free; what is held because
 * somebody asked for it an eighth, so that it is the holder who is refused and named; single large
 * pieces a sixteenth, so that the small ones that everybody works with find room beside somebody
 * greedy.
 *
 * Threads: safe from any thread; the current budget is each thread's own.
 */
#pragma once

#include <millrace/base.h>

#include "base/scope.h"

typedef struct mr_memory mr_memory;

enum mr_memory_use { MR_MEMORY_AHEAD, MR_MEMORY_HELD, MR_MEMORY_WORK };

/* @parent (NULL: none) is charged for all that this one is charged for. *@ret is the caller's. */
int mr_memory_new(uint64_t limit_bytes, mr_memory *parent, mr_memory **ret, mr_error *err);
mr_memory *mr_memory_ref(mr_memory *m); /* NULL is fine, here and below: no budget, no bound */
void mr_memory_unref(mr_memory *m);     /* what is charged keeps it alive */

/* false: refused, and nothing was charged. */
bool mr_memory_charge(mr_memory *m, enum mr_memory_use use, size_t bytes);
/* What is here already, whoever asked for it: charged above the limit too, so that others see
 * it. */
void mr_memory_add(mr_memory *m, size_t bytes);
void mr_memory_release(mr_memory *m, size_t bytes);
/* Some of what is charged to @m is only kept because there was room. Whenever that is short,
 * @give_way is asked to let go of a piece of it; false: there is none. It may be asked by any
 * thread with any lock that is held over a charge. Set before anybody else uses @m, and taken back,
 * with NULL, when nobody does any more. */
void mr_memory_set_spare(mr_memory *m, bool (*give_way)(void *ctx), void *ctx);
/* So many bytes would be allowed if nothing else was in use. */
bool mr_memory_could(const mr_memory *m, enum mr_memory_use use, size_t bytes);
/* So many bytes more would be refused now. */
bool mr_memory_is_short(const mr_memory *m, enum mr_memory_use use, size_t bytes);
/* MR_EEXHAUSTED with the numbers of what was refused for @use. Whoever wanted the memory is not
 * known here: MR_MEMORY_UNNAMED, among the traits, says so to the layer that knows, which names it
 * and takes the trait away. */
#define MR_MEMORY_UNNAMED (1u << 31)
int mr_memory_refused(const mr_memory *m, enum mr_memory_use use, size_t bytes, mr_error *err);

/* What somebody else takes for a while, whom we tell nothing of budgets: a library that decodes. */
struct mr_memory_lent {
    mr_memory *memory;
    size_t bytes;
};
/* @bytes of the thread's budget, until they are given back. */
int mr_memory_lend(size_t bytes, struct mr_memory_lent *ret, mr_error *err);
void mr_memory_give_back(struct mr_memory_lent *lent); /* zeroed ones are fine */

uint64_t mr_memory_limit(const mr_memory *m);
uint64_t mr_memory_used(const mr_memory *m);

/* What this thread makes is charged to @m (lent) from now on. Returns what it was before, to be
 * entered again. */
mr_memory *mr_memory_enter(mr_memory *m);
/* The current one, or NULL. */
mr_memory *mr_memory_current(void);

MR_AUTO_DEFINE(struct mr_memory_lent, mr_memory_give_back)
