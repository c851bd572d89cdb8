/* Takeover: each coordinated iteration needs the record of its rounds. */
#include "dispatcher/model/model.h"
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
