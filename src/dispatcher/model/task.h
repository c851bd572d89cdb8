/* Tasks: what one worker does for one iteration. */
#pragma once

#include "dispatcher/model/splits.h"
#include "dispatcher/model/times.h"
#include "dispatcher/model/worker.h"

/* of one worker: further ones are learned when the iteration ends */
#define MR_RELEASED_LISTED_MAX 4096
#define MR_RECOVERIES_MAX 16 /* open recovery tasks of an iteration */

enum mr_task_state { MR_TASK_OPEN, MR_TASK_ENDED, MR_TASK_LOST };

struct mr_task {
    TAILQ_ENTRY(mr_task) in_iteration;
    TAILQ_ENTRY(mr_task) in_worker;
    struct mr_iteration *MR_RO iteration;
    struct mr_core_worker *MR_RO worker;
    MR_RO char id[MR_TASK_ID_SIZE];
    MR_RO enum mr_task_state state;
    MR_RO bool counted;                            /* LOST: in the iteration's losses */
    MR_RO bool drained;                            /* ENDED: because its worker drained */
    MR_RO Millrace__TaskRecord *MR_RO rec;         /* NULL: nothing differs from what is derived */
    struct mr_grant *MR_RO grants;                 /* one a provider */
    MR_RO uint64_t produced, delivered, abandoned; /* soft, as is the next one */
    /* since when clients have waited for something of it in vain; MR_NEVER: they do not */
    MR_RO int64_t waited_for;
    MR_RO bool finished; /* soft: its pipeline has ended, and its end waits for clients */
    /* soft: it makes a production, and nothing came of it for long, or its worker drains */
    MR_RO bool barren;
    /* soft: what its worker says of production and window; NULL: nothing */
    struct mr_sharing_report *MR_RO sharing;
    struct mr_task_times *MR_RO times; /* soft; NULL: it has said nothing */
};

static inline bool mr_task_is_recovery(const struct mr_task *task)
{
    return task->rec != NULL && task->rec->recovery != 0;
}

/* How long clients have waited for it in vain; 0: they do not. */
int64_t mr_task_stalled_ms(const mr_core *core, const struct mr_task *task);
/* Elements that went with clients of it, as far as is known, and those that fell out of the window
 * before they were had: without what a task before it in the same window has said already. */
uint64_t mr_task_abandoned(const struct mr_task *task);
uint64_t mr_task_skipped(const struct mr_task *task);
/* By the id that others use; NULL if there is none. */
struct mr_task *mr_task_find(const mr_core *core, const char *id);
/* The states that may follow on its own are a table. */
bool mr_task_may_become(const struct mr_task *task, enum mr_task_state to);
/* The task that has read there for its iteration before @task, or NULL. */
struct mr_task *mr_task_before(const struct mr_task *task);
const char *mr_task_state_name(enum mr_task_state state);
uint64_t mr_task_granted(const struct mr_task *task);
/* What its pipeline makes of @most of them, whichever they are, at most; 0: not known. */
uint64_t mr_task_granted_elements(const struct mr_task *task, uint64_t most);
uint64_t mr_task_said_abandoned(const struct mr_task *task);
uint64_t mr_task_said_skipped(const struct mr_task *task);
struct mr_task *mr_task_derived(const mr_core *core, const struct mr_iteration *it,
                                const struct mr_core_worker *worker);
/* What it is called beside its worker, for people and in the data path. */
uint32_t mr_task_attempt(const struct mr_task *task);
/* The producing task beside a reading one; NULL if there is none. */
struct mr_task *mr_task_producing(const mr_core *core, const struct mr_task *reading);
