/*
 * The schedule of coordinated reads, as far as it is the leader's to decide: who takes turns, how
 * far consumers may go, and, once for all, what became of the rounds of a worker that was lost.
 *
 *     open ──(lost: closing)──► in doubt ──(all consumers have reported)──► outcome
 *       ╰──(ended by itself)──────────────────────────────────────────────►┘
 *
 * That a task is closing is derived: it takes turns, is not open, and has no outcome. One
 * transaction writes the outcome with a segment without the task, from the horizon on, where nobody
 * can be yet; so everything below the horizon is decided, and a next leader, which has to ask again
 * if this one was not committed, has told nobody anything else.
 */
#include "dispatcher/takeover/takeover.h"

#include <stdio.h>

void mr_rounds_ready(mr_core *core)
{
    struct mr_iteration *it;
    char key[MR_KEY_SIZE];
    mr_error why;

    TAILQ_FOREACH(it, &core->iteration_list, link)
    {
        if (it->rounds != NULL && it->rounds->rec == NULL && it->broken == NULL) {
            snprintf(key, sizeof key, "rounds/%s", it->rec->id);
            (void)mr_error_set(&why, MR_EDATALOSS, "is missing: its job reads in rounds");
            mr_iteration_spoil(core, it, key, &why);
        }
    }
}
